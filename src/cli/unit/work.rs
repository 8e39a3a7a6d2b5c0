//! `agent unit run`: runs units. Does not depend on how units are cut or collected.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use anyhow::{Context as _, anyhow};
use rayon::prelude::*;

use super::{BUNDLE, PROGRAM, Query, RunArgs, carried, embed::Embedding, task_of, travels, words};
use crate::{
    Context, Exit,
    query::batch::{self, Session},
};
use agent_app::{
    Explain, Resources, Result, STAND_IN, SandboxArgs, dataset, llm, open_bundle, open_runtime,
    open_system,
    unit::{Kind, Task, evaluate::Evaluation},
};
use agent_ground::units::Units;
use agent_index::IndexedBase;
use agent_infer::{Runtime, bundle::Bundle};
use agent_kb::Kb;
use agent_retrieve::{
    Baseline, Detail, Retriever,
    eval::trec::{self, DocIds},
};
use agent_sandbox::Origin;

/// Number of hex digits to show for a digest.
const SHOWN: usize = 12;

/// Resources for the units of a plan, by the kind of the plan's task.
enum Opened {
    Answer(Box<Session>),
    Rank {
        base: Arc<IndexedBase>,
        system: Box<dyn Retriever>,
        stand_in: Baseline,
        tag: String,
        depth: usize,
    },
    Embed(Box<Embedding>),
    Words(Box<Kb>),
    Evaluate(Evaluation),
}

/// Runs units. Keeps the resources of the latest plan open, and the runtime of programs as long as
/// plans use the same base.
pub(super) struct Bench<'a> {
    sandbox: SandboxArgs,
    ctx: &'a Context,
    /// Resources of the latest plan, with the digest of the plan.
    opened: Option<(blake3::Hash, Opened)>,
    /// Runtime of the latest plan that runs trials of programs, with the fingerprint of its index.
    runtime: Option<(String, Arc<Runtime>)>,
}

/// Result of one item of a unit: its bytes, and the reason if the item failed.
pub(super) struct Done {
    pub(super) bytes: Vec<u8>,
    pub(super) failure: Option<String>,
}

pub(super) fn run(args: &RunArgs, ctx: &Context) -> Result<Exit> {
    let units = Units::open(&args.dir)?;
    for &unit in &args.units {
        // Refuses a wrong number before any unit runs.
        units.items(unit)?;
    }
    let mut bench = Bench::new(args.sandbox, ctx);
    for &unit in &args.units {
        let told = match units.is_done(unit) {
            true => "is done".to_owned(),
            false => bench.run(&units, unit)?,
        };
        ctx.watch.notice(&format!("unit {unit}: {told}"));
    }
    Ok(Exit::Done)
}

/// Runs `one` on each item of a unit, in parallel, and publishes the results in the order of the
/// items. `one` is given the number of the item in the plan, from 0, and its text. Returns a
/// summary: the number of items.
///
/// # Errors
/// If `one` returns an error for an item, or the command is interrupted; the unit then has no
/// result.
fn each(
    units: &Units,
    unit: u64,
    ctx: &Context,
    one: &(dyn Fn(u64, &str) -> Result<Done> + Sync),
) -> Result<String> {
    let (first, items) = units.items(unit)?;
    let stopped = || ctx.stop.load(Ordering::Relaxed);
    let done: Vec<Done> = items
        .par_iter()
        .enumerate()
        .map(|(at, item)| match stopped() {
            true => Err(anyhow!("no result").into()),
            false => one(first + at as u64, item),
        })
        .collect::<Result<_>>()?;
    // Interrupted programs give no valid results.
    if stopped() {
        return Err(anyhow!("unit {unit} has no result; run it again").into());
    }
    let bytes: Vec<u8> = done.iter().flat_map(|one| one.bytes.iter().copied()).collect();
    let failures = done.into_iter().filter_map(|one| one.failure).collect();
    units.publish(unit, &bytes, failures)?;
    Ok(format!("{} items", items.len()))
}

impl<'a> Bench<'a> {
    /// Creates a runner of units that has no resources open.
    pub(super) fn new(sandbox: SandboxArgs, ctx: &'a Context) -> Self {
        Self { sandbox, ctx, opened: None, runtime: None }
    }

    /// Runs a unit of the plan and publishes its result. Returns a summary, such as `120 items`.
    pub(super) fn run(&mut self, units: &Units, unit: u64) -> Result<String> {
        let ctx = self.ctx;
        match self.opened(units)? {
            Opened::Embed(embedding) => embedding.run(units, unit, ctx),
            Opened::Words(kb) => words::run(kb, units, unit, ctx),
            Opened::Answer(session) => {
                each(units, unit, ctx, &|at, item| answer(session, at + 1, item.trim()))
            }
            Opened::Rank { base, system, stand_in, tag, depth } => {
                let ids = DocIds::of_base(&base.kb);
                each(units, unit, ctx, &|_, item| rank(&**system, stand_in, ids, tag, *depth, item))
            }
            Opened::Evaluate(evaluation) => each(units, unit, ctx, &|_, item| {
                Ok(Done { bytes: evaluation.run(item)?, failure: None })
            }),
        }
    }

    /// Returns the resources of a plan; opens them unless they are open already.
    ///
    /// # Errors
    /// If the resources cannot be opened, or differ from the plan.
    fn opened(&mut self, units: &Units) -> Result<&Opened> {
        let is_there = self.opened.as_ref().is_some_and(|(digest, _)| *digest == units.digest());
        let opened = match self.opened.take().filter(|_| is_there) {
            Some(opened) => opened,
            None => (units.digest(), self.open(units)?),
        };
        Ok(&self.opened.insert(opened).1)
    }

    fn open(&mut self, units: &Units) -> Result<Opened> {
        let (task, file) = (task_of(units)?, units.file()?);
        Ok(match &task.kind {
            Kind::Embed { vectors } => {
                Opened::Embed(Box::new(Embedding::open(&task, vectors, self.ctx)?))
            }
            Kind::Words { format } => {
                Opened::Words(Box::new(words::open(&task, *format, self.ctx)?.1))
            }
            Kind::Answer { k } => {
                let bundle = carried(&file.context("the plan has no bundle")?)?;
                let (base, resources) = self.indexed(&task, Some(&bundle))?;
                let opened = open_bundle(&bundle, &base, &resources)?;
                let bundle = bundle.digest.clone();
                Opened::Answer(Box::new(Session { bundle, timed: false, k: *k, base, opened }))
            }
            Kind::Rank { system, tag, depth } => {
                let bundle =
                    file.as_deref().filter(|_| system == BUNDLE).map(carried).transpose()?;
                let (base, resources) = self.indexed(&task, bundle.as_ref())?;
                let system = planned_system(system, file.as_deref())?;
                let system = open_system(&system, &base, &resources)?;
                let stand_in = Baseline::new(base.clone(), STAND_IN);
                Opened::Rank { base, system, stand_in, tag: tag.clone(), depth: *depth }
            }
            Kind::Evaluate { params } => {
                let there = self.runtime.take().filter(|(of, _)| *of == task.fingerprint);
                let runtime = match there {
                    Some((_, runtime)) => runtime,
                    None => {
                        let (base, resources) = self.indexed(&task, None)?;
                        open_runtime(&base, &resources, Origin::Elsewhere)?
                    }
                };
                self.runtime = Some((task.fingerprint.clone(), runtime.clone()));
                let file = file.context("the plan has no program")?;
                Opened::Evaluate(Evaluation::open(runtime, &file, params)?)
            }
        })
    }

    /// Opens the base of a task with its index, and the resources of its systems, such as a
    /// language model for programs of the bundle.
    fn indexed(
        &self,
        task: &Task,
        bundle: Option<&Bundle>,
    ) -> Result<(Arc<IndexedBase>, Resources)> {
        let base = dataset::open(&dataset::installed(&task.dataset, self.ctx)?, self.ctx)?;
        same_base(task, &base)?;
        let llm = match bundle {
            Some(bundle) => llm::open_for_programs(bundle, self.ctx)
                .hint("the programs of the bundle ask a language model")?,
            None => None,
        };
        Ok((base, Resources::new(llm.as_ref(), self.sandbox.places(self.ctx)?, self.ctx)))
    }
}

/// Returns the name of a planned system. `bundle:` and `program:` get the path of the file that is
/// stored in the plan; a plan may name no other file.
fn planned_system(system: &str, file: Option<&Path>) -> Result<String> {
    match file {
        Some(file) if [BUNDLE, PROGRAM].contains(&system) => {
            Ok(format!("{system}{}", file.display()))
        }
        _ => travels(system).map(|()| system.to_owned()),
    }
}

fn same_base(task: &Task, base: &Arc<IndexedBase>) -> Result<()> {
    if task.fingerprint == base.fingerprint() {
        return Ok(());
    }
    let begin = |digest: &str| digest.chars().take(SHOWN).collect::<String>();
    let (planned, here) = (begin(&task.fingerprint), begin(base.fingerprint()));
    let name = &task.dataset;
    Err(anyhow!("\"{name}\" differs from the plan: its index is {here}, not {planned}"))
        .hint("import and index the same data on every machine, with the same embedder")
}

/// Answers the question in line number `line` (from 1); an empty line gives an empty result.
fn answer(session: &Session, line: u64, text: &str) -> Result<Done> {
    if text.is_empty() {
        return Ok(Done { bytes: Vec::new(), failure: None });
    }
    let batch::Answered { mut json, failure, .. } = batch::answer(session, line, text)?;
    let failure = match failure {
        Some(failure) if failure.passes => {
            return Err(again(&format!("line {line}"), &failure.why));
        }
        failure => failure.map(|failure| format!("line {line}: {}", failure.why)),
    };
    json.push('\n');
    Ok(Done { bytes: json.into_bytes(), failure })
}

/// Ranks nodes for a query and returns the query's lines of the run file. If the system fails,
/// `stand_in` ranks instead: the baseline that `agent eval` uses in this case.
fn rank(
    system: &dyn Retriever,
    stand_in: &dyn Retriever,
    ids: DocIds<'_>,
    tag: &str,
    depth: usize,
    item: &str,
) -> Result<Done> {
    let Query { id, query } =
        serde_json::from_str(item).context("an item of the plan is not a query; plan again")?;
    let (ranking, failure) = match system.answer(&query, depth, Detail::default()) {
        Ok(answer) => (answer.into_ranking(), None),
        Err(error) if error.is_transient() => {
            return Err(again(&format!("query {id}"), &error.to_string()));
        }
        Err(error) => {
            let other = stand_in.retrieve(&query, depth).unwrap_or_default();
            (other, Some(format!("query {id}: {error}")))
        }
    };
    let mut bytes = Vec::new();
    trec::write_run(&mut bytes, ids, id, &ranking, tag).context("cannot write a ranking")?;
    Ok(Done { bytes, failure })
}

/// Returns the error for an item that failed but may succeed when retried; its unit gets no result.
fn again(item: &str, why: &str) -> agent_app::error::AppError {
    let error = anyhow!("{item}: {why}");
    error.context("the unit has no result; run it again").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_retrieve::{Answer, RetrieveError};

    /// System that fails with the scripted error, or ranks only node 3.
    struct Scripted(fn() -> Option<RetrieveError>);

    impl Retriever for Scripted {
        fn name(&self) -> String {
            "scripted".to_owned()
        }

        fn answer(&self, _: &str, _: usize, _: Detail) -> Result<Answer, RetrieveError> {
            match (self.0)() {
                Some(error) => Err(error),
                None => Ok(Answer::from_ranking(vec![(3, 0.5)])),
            }
        }
    }

    fn ranked(system: fn() -> Option<RetrieveError>) -> Result<Done> {
        let ids = DocIds::Numbers(10);
        rank(&Scripted(system), &Scripted(|| None), ids, "tag", 10, r#"{"id": 7, "query": "x"}"#)
    }

    #[test]
    fn what_a_time_limit_ended_is_not_scored_and_what_failed_is_told() {
        let done = ranked(|| None).unwrap();
        assert_eq!((done.bytes.as_slice(), done.failure), (&b"7 Q0 3 1 0.5 tag\n"[..], None));
        let done = ranked(|| Some(RetrieveError::Program("runtime: x".to_owned()))).unwrap();
        assert_eq!(done.bytes, b"7 Q0 3 1 0.5 tag\n");
        assert_eq!(done.failure.as_deref(), Some("query 7: runtime: x"));
        let late = ranked(|| Some(RetrieveError::Late("deadline: x".to_owned())));
        assert!(late.is_err_and(|error| error.message().contains("query 7: deadline: x")));
    }
}
