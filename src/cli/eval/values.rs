//! `agent eval --metrics value`: how good answers are that are no nodes. Must not know how an answer
//! came about.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::anyhow;
use rayon::prelude::*;
use serde::Serialize;

use crate::{
    cli::{
        Context, Exit,
        eval::{
            Args, SEED, joined,
            report::{Format, Rows, percent},
        },
        failure::{CommandError, Result},
        test_split,
    },
    dataset::{Base, Split, ValuedQuery, load_values},
    eval::{ValueEvaluation, ValueResult, values::ValueMean},
    retrieve::{Detail, Retriever},
};

/// Nodes that a system may give beside its value.
const DEPTH: usize = 20;
/// Stands for a metric that no label has.
const NONE: &str = "-";
/// Failed queries that are told one by one.
const MAX_TOLD: usize = 5;

/// What one system came to.
#[derive(Serialize)]
struct Printed<'a> {
    dataset: &'a str,
    split: &'a str,
    system: &'a str,
    n: usize,
    failed: usize,
    #[serde(flatten)]
    evaluation: ValueEvaluation,
}

/// The queries of all splits whose answers are values; at least one.
///
/// # Errors
/// That a split is not there, or that no query has a value.
pub(super) fn queries(splits: &[Split], base: &Base, ctx: &Context) -> Result<Vec<ValuedQuery>> {
    let mut queries = Vec::new();
    for split in splits {
        queries.extend(match split {
            Split::Test => test_split::open_values(test_split::Part::Whole, base, ctx)?,
            Split::TestTenth => test_split::open_values(test_split::Part::Tenth, base, ctx)?,
            other => load_values(base, other)?,
        });
    }
    if queries.is_empty() {
        let why = anyhow!("no query of {} has an answer_value", joined(splits));
        return Err(CommandError::from(why));
    }
    Ok(queries)
}

/// Asks every system every query and prints what its values are worth.
///
/// # Errors
/// That it was stopped, or that stdout cannot be written to.
pub(super) fn run(
    args: &Args,
    systems: &[(&str, Box<dyn Retriever>)],
    queries: &[ValuedQuery],
    ctx: &Context,
) -> Result<Exit> {
    let split = joined(&args.split);
    let mut printed = Vec::new();
    for (name, system) in systems {
        let (results, failed) = measured(name, &**system, queries, ctx)?;
        let evaluation = ValueEvaluation::from_results(&results, SEED)?;
        let (dataset, n) = (args.dataset.as_str(), results.len());
        printed.push(Printed { dataset, split: &split, system: name, n, failed, evaluation });
    }
    if args.json {
        printed.iter().try_for_each(|one| ctx.printer.json(one))?;
    } else {
        if args.format != Format::Csv {
            let what = "means in percent with 95 % intervals";
            ctx.printer.notice(&format!("{} {split}: answers as values, {what}", args.dataset));
        }
        rows(&printed).print(args.format, ctx)?;
    }
    let failed = printed.iter().any(|one| one.failed > 0);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// The results of one system in the order of the queries, and how many queries failed.
fn measured(
    name: &str,
    system: &dyn Retriever,
    queries: &[ValuedQuery],
    ctx: &Context,
) -> Result<(Vec<ValueResult>, usize)> {
    let progress = ctx.printer.progress();
    let done = AtomicU64::new(0);
    let one = |query: &ValuedQuery| {
        let answer = system.answer(&query.text, DEPTH, Detail::default());
        if ctx.stop.load(Ordering::Relaxed) {
            return Err(anyhow!("no result was kept"));
        }
        progress.at(name, done.fetch_add(1, Ordering::Relaxed) + 1, queries.len() as u64);
        let (value, failure) = match answer {
            Ok(answer) => (Some(answer.value), None),
            Err(error) => (None, Some((query.id, error.to_string()))),
        };
        Ok((ValueResult::of(query.id, value.as_ref(), &query.value), failure))
    };
    let all = queries.par_iter().map(one).collect::<anyhow::Result<Vec<_>>>()?;
    drop(progress);
    let (results, failures): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let failures: Vec<(i64, String)> = failures.into_iter().flatten().collect();
    for (id, why) in failures.iter().take(MAX_TOLD) {
        ctx.printer.warning(&format!("{name}: query {id} failed: {why}"));
    }
    Ok((results, failures.len()))
}

fn rows(systems: &[Printed<'_>]) -> Rows {
    let headings = vec!["system", "n", "failed", "exact", "numeric", "table f1"];
    let mean =
        |mean: Option<ValueMean>| mean.map_or(NONE.to_owned(), |one| percent(one.mean, one.ci95));
    let row = |one: &Printed<'_>| {
        let ValueEvaluation { exact, numeric, table_f1 } = one.evaluation;
        let means = [Some(exact), numeric, table_f1].map(mean);
        let counts = [one.system.to_owned(), one.n.to_string(), one.failed.to_string()];
        counts.into_iter().chain(means).collect()
    };
    Rows { numbers: 1, headings, rows: systems.iter().map(row).collect() }
}
