//! Units that read the words of a dataset. The index built from them is identical to the index that
//! `agent index` builds, byte for byte. The names of entities are indexed when the units are collected.

use std::{path::Path, sync::Mutex};

use anyhow::anyhow;

use super::{PlanArgs, nodes_of, plan_nodes, planned, to_be_run};
use crate::{Context, Exit};
use agent_app::{
    Explain, Result, count,
    index::{Target, from_words},
    unit::{Kind, Task},
};
use agent_dataset::Base;
use agent_ground::units::Units;
use agent_index::{self as index, WORDS_FORMAT, Watch, WordSource};
use agent_kb::Kb;

/// Plans units that read the words of the documents of `dataset`.
pub(super) fn plan(args: &PlanArgs, dataset: &str, ctx: &Context) -> Result<Units> {
    let Target { base, kb, .. } = Target::new(dataset, None, false, ctx)?;
    let fingerprint = kb.fingerprint().to_owned();
    let kind = Kind::Words { format: WORDS_FORMAT };
    let task = Task { dataset: base.name, fingerprint, kind };
    plan_nodes(args, &task, &index::split_nodes(&kb, false, args.units))
}

/// Opens the base that a task names.
///
/// # Errors
/// If the plan uses another format of words than this version, or the base differs from the plan.
pub(super) fn open(task: &Task, format: u32, ctx: &Context) -> Result<(Base, Kb)> {
    if format == WORDS_FORMAT {
        return planned(task, ctx);
    }
    Err(anyhow!("the units were planned by a version with another format of words"))
        .hint("use the same version of agent on every machine, and plan again")
}

/// Reads the words of the nodes of a unit and publishes them as its result. Returns a summary: the
/// number of nodes.
pub(super) fn run(kb: &Kb, units: &Units, unit: u64, ctx: &Context) -> Result<String> {
    let nodes = nodes_of(units, unit, kb)?;
    let told = format!("words of {} nodes", count(nodes.len() as u64));
    let mut result = units.write(unit)?;
    let progress = ctx.watch.progress();
    let report = |at: index::Progress| progress.at(at.stage, at.done, at.total);
    index::read_words(kb, nodes, &mut result, &Watch { report: &report, stop: &ctx.stop })?;
    drop(progress);
    result.publish(Vec::new())?;
    Ok(told)
}

/// Builds the index of words of the base from the results of all units.
pub(super) fn collect(
    dir: &Path,
    units: &Units,
    task: &Task,
    format: u32,
    ctx: &Context,
) -> Result<Exit> {
    let (base, kb) = open(task, format, ctx)?;
    let mut results = to_be_run(units.results(), dir)?;
    from_words(&base, &kb, WordSource::Read(&Mutex::new(&mut results)), ctx)?;
    Ok(Exit::Done)
}
