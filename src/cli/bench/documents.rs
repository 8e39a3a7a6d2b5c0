//! What documents cost: as they are stored, and for a base of the STaRK benchmark with relations,
//! plain and compact.

use std::hint::black_box;

use crate::{
    Context,
    bench::{Args, measure},
};
use agent_app::{dataset, error::Result};
use agent_dataset::stark::Documents;
use agent_kb::{Kb, NodeId};

/// Documents rendered in one pass, spread evenly over the nodes that may be answers.
const MOST: usize = 1_000;

pub(super) fn run(args: &Args, ctx: &Context) -> Result<()> {
    let base = dataset::find(&args.dataset, ctx)?.base;
    let kb = Kb::open(&base.kb_dir())?;
    let step = kb.candidates().len().div_ceil(MOST).max(1);
    let nodes: Vec<NodeId> = kb.candidates().iter().copied().step_by(step).collect();
    let time = |work, document: &dyn Fn(NodeId) -> String| -> Result<()> {
        let bytes: usize = nodes.iter().map(|&node| document(node).len()).sum();
        measure(work, nodes.len(), || {
            nodes.iter().for_each(|&node| drop(black_box(document(node))));
        })
        .with("mean_bytes", bytes as f64 / nodes.len().max(1) as f64)
        .print(args.json, ctx)
    };
    time("documents", &|node| kb.text(node).to_owned())?;
    let Some(origin) = &base.record.stark else { return Ok(()) };
    let documents = Documents::new(&kb, origin);
    time("documents_relations", &|node| documents.document(node, true, false))?;
    time("documents_compact", &|node| documents.document(node, true, true))
}
