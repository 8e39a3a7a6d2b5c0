//! Units that embed the documents of a dataset. The index built from them has the same bytes as
//! that of `agent index` with the same embedder. The built-in embedder is trained on the whole
//! dataset, so its work cannot be divided into units.

use std::{
    io::Write as _,
    path::Path,
    sync::{Mutex, atomic::Ordering},
};

use anyhow::{Context as _, anyhow};

use super::{PlanArgs, nodes_of, plan_nodes, planned, to_be_run};
use crate::{Context, Exit};
use agent_app::{
    Explain, Result, count,
    index::{Target, costs, from_vectors},
    refused,
    unit::{Kind, Task},
};
use agent_embed::{EmbedError, Embedder};
use agent_ground::units::Units;
use agent_index::{
    self as index, Access, EmbedderChoice, IndexError, PrecomputedVectors, VectorsSpec,
};
use agent_kb::Kb;

/// Plans units that embed the vectors of the index of `dataset`.
pub(super) fn plan(args: &PlanArgs, dataset: &str, ctx: &Context) -> Result<Units> {
    let Target { base, kb, choice, candidates_only, .. } =
        Target::new(dataset, args.embedder.as_ref(), args.candidates_only, ctx)?;
    let why = match choice {
        EmbedderChoice::Builtin => "builtin is trained on the whole base",
        _ => "import reads existing vectors",
    };
    let Some(embedder) = choice.open(&access(ctx), None)? else {
        let name = &base.name;
        return refused(format!("{why}, so its work cannot be divided into units")).hint(format!(
            "run `agent index {name}` on one machine, or give --embedder candle:DIR or \
                 openai:MODEL"
        ));
    };
    let kind = Kind::Embed { vectors: VectorsSpec::new(&choice, &*embedder, candidates_only) };
    let task = Task { dataset: base.name, fingerprint: kb.fingerprint().to_owned(), kind };
    plan_nodes(args, &task, &index::split_nodes(&kb, candidates_only, args.units))
}

/// The base and the embedder of a plan, opened for running its units.
pub(super) struct Embedding {
    kb: Kb,
    of: VectorsSpec,
    embedder: Box<dyn Embedder>,
}

impl Embedding {
    /// Opens the base and the embedder that a task names.
    ///
    /// # Errors
    /// If either cannot be opened or differs from the plan.
    pub(super) fn open(task: &Task, of: &VectorsSpec, ctx: &Context) -> Result<Self> {
        let (_, kb) = planned(task, ctx)?;
        let other = || {
            let choice = &of.embedder;
            anyhow!("{choice} differs from the model of the plan")
        };
        let embedder = match of.embedder.open(&access(ctx), Some(of.dim)) {
            Err(error @ EmbedError::Model { .. }) => Err(error).hint(
                "the model's directory must have the path given in the plan on every machine",
            )?,
            embedder => embedder?.with_context(other)?,
        };
        if (embedder.fingerprint(), embedder.dim()) != (&of.fingerprint, of.dim) {
            return Err(other()).hint("put the same files on every machine, or plan again");
        }
        Ok(Self { kb, of: of.clone(), embedder })
    }

    /// Embeds the nodes of a unit and publishes their vectors as its result. Returns a summary: the
    /// number of vectors, and their costs.
    pub(super) fn run(&self, units: &Units, unit: u64, ctx: &Context) -> Result<String> {
        let range = nodes_of(units, unit, &self.kb)?;
        let (from, length) = (range.start, range.len() as u64);
        let mut result = units.write(unit)?;
        let mut n = 0;
        let progress = ctx.watch.progress();
        let (of, embedder) = (&self.of, &*self.embedder);
        index::embed(&self.kb, embedder, of.candidates_only, range, &mut |nodes, vectors| {
            n += nodes.len() as u64;
            let last = nodes.last().map_or(from, |last| last + 1);
            progress.at("vectors", u64::from(last - from), length);
            let bytes: Vec<u8> = vectors.data().iter().flat_map(|x| x.to_le_bytes()).collect();
            result.write_all(&bytes).map_err(|source| IndexError::Io {
                path: format!("the result of unit {unit}"),
                source,
            })?;
            if ctx.stop.load(Ordering::Relaxed) { Err(IndexError::Stopped) } else { Ok(()) }
        })?;
        drop(progress);
        result.publish(Vec::new())?;
        let told = [vec![format!("{} vectors", count(n))], costs(&self.embedder.spent())].concat();
        Ok(told.join(", "))
    }
}

/// Builds the index of the base from the vectors in the results of all units.
pub(super) fn collect(
    dir: &Path,
    units: &Units,
    task: &Task,
    of: &VectorsSpec,
    ctx: &Context,
) -> Result<Exit> {
    let (base, kb) = planned(task, ctx)?;
    let mut results = to_be_run(units.results(), dir)?;
    let vectors = PrecomputedVectors { spec: of.clone(), input: Mutex::new(&mut results) };
    from_vectors(&base, &kb, &vectors, ctx)?;
    Ok(Exit::Done)
}

/// Returns access to embedders without a cache: units store their vectors themselves, and each unit
/// would have to read the whole cache.
fn access(ctx: &Context) -> Access {
    Access { cache: None, ..ctx.access() }
}
