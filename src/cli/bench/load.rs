//! What opening a dataset costs, without and with its index, and how much memory is its own.

use crate::{
    Context,
    bench::{Args, measure, status_mib},
};
use agent_app::{dataset, error::Result};
use agent_kb::Kb;

pub(super) fn run(args: &Args, ctx: &Context) -> Result<()> {
    let base = dataset::find(&args.dataset, ctx)?.base;
    let opened = Kb::open(&base.kb_dir())?;
    measure("open", 1, || drop(std::hint::black_box(Kb::open(&base.kb_dir()))))
        .with("nodes", opened.n_nodes())
        .with("edges", opened.n_edges())
        .with("private_mib", status_mib("RssAnon:"))
        .print(args.json, ctx)?;
    if dataset::open_index(&base, ctx).is_ok() {
        measure("open_index", 1, || drop(std::hint::black_box(dataset::open_index(&base, ctx))))
            .with("private_mib", status_mib("RssAnon:"))
            .print(args.json, ctx)?;
    }
    Ok(())
}
