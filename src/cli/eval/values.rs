//! `agent eval --metrics value`: how good answers are that are no nodes. Must not know how an answer
//! came about.

use std::{
    collections::{BTreeMap, HashSet},
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use anyhow::anyhow;
use rayon::prelude::*;
use serde::Serialize;

use crate::{
    Context, Exit,
    eval::{
        Args, SEED, in_no_other, joined, openings,
        report::{ALL, Format, Rows, percent, tell_openings},
    },
    printer::plain,
};
use agent_app::{
    error::{AppError, Explain, Result},
    measured::{invalid, invalid_line},
    test_split,
};
use agent_dataset::{Base, SYNTHETIC, Split, ValuedQuery, load_values};
use agent_retrieve::{
    AssistFailure, Detail, Retriever,
    eval::{Latency, ValueEvaluation, ValueResult, statistics, values::ValueMean},
};

/// Nodes that a system may give beside its value.
const DEPTH: usize = 20;
/// Stands for a metric that no label has.
const NONE: &str = "-";
/// Failed queries that are told one by one, and those that are not answered right.
const MAX_TOLD: usize = 5;
const MAX_WRONG: usize = 50;
/// Characters of a value that are told.
const MAX_SHOWN: usize = 200;

/// What one system came to.
#[derive(Serialize)]
struct Printed<'a> {
    dataset: &'a str,
    split: &'a str,
    system: &'a str,
    #[serde(flatten)]
    all: Summary,
    /// Queries that a model was to help with and did not; only if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    unassisted: Option<usize>,
    /// Only if the means say nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    invalid: Option<String>,
    /// Only of figures on the test split.
    #[serde(skip_serializing_if = "Option::is_none")]
    test_openings: Option<u64>,
    /// Only if groups were asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    groups: BTreeMap<&'a str, Summary>,
}

/// What some queries came to.
#[derive(Serialize)]
struct Summary {
    n: usize,
    failed: usize,
    #[serde(flatten)]
    evaluation: ValueEvaluation,
    /// Milliseconds of an answer.
    #[serde(rename = "latency_ms")]
    latency: Latency,
}

/// What one query came to.
struct Measured {
    result: ValueResult,
    failure: Option<String>,
    /// Whether a language model was to help and did not.
    unassisted: bool,
    /// Whether a service gave no answer.
    outage: bool,
    ms: f64,
    /// What was given where it is not right.
    wrong: Option<String>,
}

/// The queries of all splits whose answers are values; at least one.
///
/// # Errors
/// That a split is not there, that a query is in two splits, or that no query has a value.
pub(super) fn queries(splits: &[Split], base: &Base, ctx: &Context) -> Result<Vec<ValuedQuery>> {
    let mut queries: Vec<ValuedQuery> = Vec::new();
    let mut seen = HashSet::new();
    for split in splits {
        let loaded = match split {
            Split::Test => test_split::load_values(test_split::Part::Whole, base)?,
            Split::TestTenth => test_split::load_values(test_split::Part::Tenth, base)?,
            other => load_values(base, other)?,
        };
        in_no_other(split, loaded.iter().map(|query| query.id), &mut seen)?;
        queries.extend(loaded);
    }
    if queries.is_empty() {
        let why = anyhow!("no query of {} has an answer_value", joined(splits));
        return Err(AppError::from(why));
    }
    if queries.iter().any(|query| query.metadata.get("source").is_some_and(|of| of == SYNTHETIC)) {
        ctx.printer
            .notice("the questions are synthetic: made from the dataset, labelled by nobody");
    }
    Ok(queries)
}

/// Asks every system every query of a base and prints what its values are worth.
///
/// # Errors
/// That it was stopped, or that stdout cannot be written to.
pub(super) fn run(
    args: &Args,
    base: &Base,
    systems: &[(&str, Box<dyn Retriever>)],
    queries: &[ValuedQuery],
    ctx: &Context,
) -> Result<Exit> {
    let split = joined(&args.split);
    let groups = args.by.as_deref().map(|by| groups(by, queries)).transpose()?;
    let test_openings = openings(args, base, ctx);
    let mut printed = Vec::new();
    for (name, system) in systems {
        let measured = measured(name, &**system, queries, ctx)?;
        let all = Summary::of(measured.iter())?;
        let mut by_group: BTreeMap<&str, Vec<&Measured>> = BTreeMap::new();
        for (group, one) in groups.iter().flatten().zip(&measured) {
            by_group.entry(group).or_default().push(one);
        }
        let summed = |(group, own): (_, Vec<&Measured>)| Ok((group, Summary::of(own.into_iter())?));
        let groups = by_group.into_iter().map(summed).collect::<Result<_>>()?;
        let unassisted = measured.iter().filter(|one| one.unassisted).count();
        if unassisted > 0 {
            ctx.printer.warning(&format!(
                "{name}: the language model gave no usable reply for {unassisted} of {} queries; they \
                 are answered without it",
                all.n
            ));
        }
        let invalid = invalid(measured.iter().filter(|one| one.outage).count(), all.n);
        if let Some(why) = &invalid {
            ctx.printer.warning(&invalid_line(name, why));
        }
        let (dataset, unassisted) = (args.dataset.as_str(), (unassisted > 0).then_some(unassisted));
        let (split, system) = (split.as_str(), *name);
        printed.push(Printed {
            dataset,
            split,
            system,
            all,
            unassisted,
            invalid,
            test_openings,
            groups,
        });
    }
    if args.json {
        printed.iter().try_for_each(|one| ctx.printer.json(one))?;
    } else {
        if args.format != Format::Csv {
            let what = "means in percent with 95 % intervals";
            ctx.printer.notice(&format!("{} {split}: answers as values, {what}", args.dataset));
        }
        rows(&printed).print(args.format, ctx)?;
        tell_openings(test_openings, args.format, ctx)?;
    }
    let failed = printed.iter().any(|one| one.all.failed > 0);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// The value of each query in a column.
fn groups<'a>(by: &str, queries: &'a [ValuedQuery]) -> Result<Vec<&'a str>> {
    let known = queries.first().map(|query| query.metadata.keys().cloned().collect::<Vec<_>>());
    if !queries.iter().any(|query| query.metadata.contains_key(by)) {
        return Err(anyhow!("the queries have no column \"{by}\""))
            .hint(format!("columns: {}", known.unwrap_or_default().join(", ")));
    }
    Ok(queries.iter().map(|query| query.metadata.get(by).map_or("", String::as_str)).collect())
}

impl Summary {
    fn of<'a>(measured: impl Iterator<Item = &'a Measured>) -> Result<Self> {
        let measured: Vec<&Measured> = measured.collect();
        let results: Vec<ValueResult> = measured.iter().map(|one| one.result.clone()).collect();
        let times: Vec<f64> = measured.iter().map(|one| one.ms).collect();
        let [p50, p95, p99] = statistics::percentiles(&times, [50.0, 95.0, 99.0])?;
        Ok(Self {
            n: results.len(),
            failed: measured.iter().filter(|one| one.failure.is_some()).count(),
            evaluation: ValueEvaluation::from_results(&results, SEED)?,
            latency: Latency { p50, p95, p99 },
        })
    }
}

/// The results of one system in the order of the queries.
fn measured(
    name: &str,
    system: &dyn Retriever,
    queries: &[ValuedQuery],
    ctx: &Context,
) -> Result<Vec<Measured>> {
    let progress = ctx.printer.progress();
    let done = AtomicU64::new(0);
    let one = |query: &ValuedQuery| {
        let began = Instant::now();
        let answer = system.answer(&query.text, DEPTH, Detail::default());
        let ms = began.elapsed().as_secs_f64() * 1e3;
        if ctx.stop.load(Ordering::Relaxed) {
            return Err(anyhow!("no result was kept"));
        }
        progress.at(name, done.fetch_add(1, Ordering::Relaxed) + 1, queries.len() as u64);
        let missed = answer.as_ref().map_or(None, |answer| answer.unassisted);
        let outage = match &answer {
            Ok(_) => missed.is_some_and(AssistFailure::is_transient),
            Err(error) => error.is_outage(),
        };
        let (value, failure) = match answer {
            Ok(answer) => (Some(answer.value), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let result = ValueResult::new(query.id, value.as_ref(), &query.value);
        let wrong = (result.score() < 1.0 && failure.is_none()).then(|| {
            let given = value.as_ref().map(serde_json::to_string);
            plain(given.and_then(std::result::Result::ok).unwrap_or_default(), MAX_SHOWN)
        });
        Ok(Measured { result, failure, unassisted: missed.is_some(), outage, ms, wrong })
    };
    let all = queries.par_iter().map(one).collect::<anyhow::Result<Vec<_>>>()?;
    drop(progress);
    let failures =
        queries.iter().zip(&all).filter_map(|(query, one)| Some((query.id, one.failure.as_ref()?)));
    for (id, why) in failures.take(MAX_TOLD) {
        ctx.printer.warning(&format!("{name}: query {id} failed: {why}"));
    }
    let wrong =
        queries.iter().zip(&all).filter_map(|(query, one)| Some((query, one.wrong.as_ref()?)));
    for (ValuedQuery { id, text, value, .. }, given) in wrong.take(MAX_WRONG) {
        let right = plain(serde_json::to_string(value)?, MAX_SHOWN);
        ctx.printer
            .detail(&format!("{name}: query {id} is not right: {text}: {given}, not {right}"));
    }
    Ok(all)
}

fn rows(systems: &[Printed<'_>]) -> Rows {
    let grouped = systems.iter().any(|one| !one.groups.is_empty());
    let mean =
        |mean: Option<ValueMean>| mean.map_or(NONE.to_owned(), |one| percent(one.mean, one.ci95));
    let row = |names: Vec<String>, of: &Summary| -> Vec<String> {
        let ValueEvaluation { exact, numeric, table_f1 } = of.evaluation;
        let means = [Some(exact), numeric, table_f1].map(mean);
        let times = [of.latency.p50, of.latency.p95].map(|ms| format!("{ms:.1}"));
        let counts = [of.n.to_string(), of.failed.to_string()];
        names.into_iter().chain(counts).chain(means).chain(times).collect()
    };
    let mut rows = Vec::new();
    for one in systems {
        let names = |group: &str| {
            let group = grouped.then(|| group.to_owned());
            [one.system.to_owned()].into_iter().chain(group).collect()
        };
        rows.push(row(names(ALL), &one.all));
        rows.extend(one.groups.iter().map(|(group, of)| row(names(group), of)));
    }
    let first = if grouped { vec!["system", "group"] } else { vec!["system"] };
    let numbers = first.len();
    let others = ["n", "failed", "exact", "numeric", "table f1", "p50 ms", "p95 ms"];
    Rows { numbers, headings: first.into_iter().chain(others).collect(), rows }
}
