//! Measures answers that are values, such as numbers, names and tables. Does not depend on how
//! answers are computed.

use std::{sync::atomic::Ordering, time::Instant};

use anyhow::anyhow;

use super::{
    Figures, Reply, Request,
    figures::{SystemFigures, ValueSummary},
    queries::{grouped, joined, of_splits},
    systems::{Chosen, open},
};
use crate::{
    App, AppError, Dataset, Explain, Result, dataset, each,
    measured::{invalid, warn_of_failed, warn_of_invalid, warn_of_unassisted},
    plain, synthetic, test_split,
};
use agent_dataset::{Base, SYNTHETIC, Split, ValuedQuery};
use agent_retrieve::{
    AssistFailure, Detail, Retriever,
    eval::{Latency, SEED, ValueEvaluation, ValueResult, statistics},
};

/// Number of nodes to request from a system in addition to the value.
const DEPTH: usize = 20;
/// Maximum number of wrong answers that verbose output lists per system.
const MAX_WRONG: usize = 50;
/// Maximum length, in characters, of a value in verbose output.
const MAX_SHOWN: usize = 200;

/// The result of one system on one query.
struct Answered {
    result: ValueResult,
    failure: Option<String>,
    /// Whether a language model should have helped with the answer but did not.
    unassisted: bool,
    /// Whether a service, such as that of a language model, gave no reply.
    outage: bool,
    ms: f64,
    /// The system's answer as JSON text, if it is wrong.
    wrong: Option<String>,
}

/// Measures every system on the queries whose answers are values.
///
/// # Errors
/// If a split or column does not exist, a system cannot be opened, or the operation was stopped.
pub(super) fn measure(
    request: &Request,
    chosen: &[Chosen],
    dataset: &Dataset,
    app: &App,
) -> Result<Reply> {
    let queries = queries(request, &dataset.base, app)?;
    let base = dataset::open(dataset, app)?;
    let asked = queries.iter().map(|query| (query.id, query.text.clone())).collect();
    let opened = open(chosen, &base, asked, request.sandbox, &request.llm, app)?;
    let groups = request.by.as_deref().map(|by| groups(by, &queries)).transpose()?;
    let about = request.about(dataset, is_synthetic(&queries), app);
    let mut figures = Vec::new();
    for (name, system) in &opened.systems {
        let answered = answered(name, &**system, &queries, app)?;
        let all = summary(&answered.iter().collect::<Vec<_>>())?;
        let unassisted = answered.iter().filter(|one| one.unassisted).count();
        warn_of_unassisted(name, unassisted, all.n, app);
        let invalid = invalid(answered.iter().filter(|one| one.outage).count(), all.n);
        warn_of_invalid(name, invalid.as_deref(), app);
        figures.push(SystemFigures {
            unassisted: Some(unassisted).filter(|&n| n > 0),
            invalid,
            groups: groups
                .as_deref()
                .map(|groups| grouped(&answered, groups, summary))
                .transpose()?,
            ..SystemFigures::new(&about, name, all)
        });
    }
    let (queries, measured) = (Vec::new(), Vec::new());
    Ok(Reply { base, queries, measured, figures: Figures::Values(figures) })
}

/// Loads the queries of all splits whose answers are values. Returns at least one query.
///
/// # Errors
/// If the request has filters, a split cannot be loaded, a query is in two splits, or no query has
/// a value as its answer.
pub(super) fn queries(request: &Request, base: &Base, app: &App) -> Result<Vec<ValuedQuery>> {
    if !request.filters.is_empty() {
        return Err(not_of_values());
    }
    let load = |split: &Split| test_split::load_values(split, base);
    let queries: Vec<ValuedQuery> = of_splits(&request.splits, load, |query| query.id)?;
    if queries.is_empty() {
        let splits = joined(&request.splits);
        return Err(anyhow!("no query in {splits} has an answer_value").into());
    }
    if is_synthetic(&queries) {
        app.watch.notice(synthetic::TOLD);
    }
    Ok(queries)
}

/// Whether at least one of the queries is synthetic.
fn is_synthetic(queries: &[ValuedQuery]) -> bool {
    queries.iter().any(|query| query.metadata.get("source").is_some_and(|of| of == SYNTHETIC))
}

/// Returns the error for options that do not apply to values.
pub fn not_of_values() -> AppError {
    AppError::usage(anyhow!("--metrics value cannot be combined with --where or output files"))
}

/// Returns the group of each query, in order: its value in the column `by`, empty if it has none.
/// Fails if no query has this column.
fn groups<'a>(by: &str, queries: &'a [ValuedQuery]) -> Result<Vec<&'a str>> {
    let known = queries.first().map(|query| query.metadata.keys().cloned().collect::<Vec<_>>());
    if !queries.iter().any(|query| query.metadata.contains_key(by)) {
        return Err(anyhow!("the queries have no column \"{by}\""))
            .hint(format!("columns: {}", known.unwrap_or_default().join(", ")));
    }
    Ok(queries.iter().map(|query| query.metadata.get(by).map_or("", String::as_str)).collect())
}

fn summary(answered: &[&Answered]) -> Result<ValueSummary> {
    let results: Vec<ValueResult> = answered.iter().map(|one| one.result.clone()).collect();
    let times: Vec<f64> = answered.iter().map(|one| one.ms).collect();
    let [p50, p95, p99] = statistics::percentiles(&times, [50.0, 95.0, 99.0])?;
    Ok(ValueSummary {
        n: results.len(),
        failed: answered.iter().filter(|one| one.failure.is_some()).count(),
        evaluation: ValueEvaluation::from_results(&results, SEED)?,
        latency: Latency { p50, p95, p99 },
    })
}

/// Runs a system on all queries, in parallel; reports failures as warnings and wrong answers in
/// verbose output. Results are in the order of the queries.
fn answered(
    name: &str,
    system: &dyn Retriever,
    queries: &[ValuedQuery],
    app: &App,
) -> Result<Vec<Answered>> {
    let stopped = "no result was kept";
    let all = each(queries, name, stopped, app, |query| {
        let began = Instant::now();
        let answer = system.answer(&query.text, DEPTH, Detail::default());
        let ms = began.elapsed().as_secs_f64() * 1e3;
        if app.stop.load(Ordering::Relaxed) {
            return Err(anyhow!(stopped));
        }
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
        Ok(Answered { result, failure, unassisted: missed.is_some(), outage, ms, wrong })
    })?;
    let pairs = || queries.iter().zip(&all);
    let failed = pairs().filter_map(|(query, one)| Some((query.id, one.failure.as_deref()?)));
    warn_of_failed(name, failed, app);
    let wrong = pairs().filter_map(|(query, one)| Some((query, one.wrong.as_ref()?)));
    for (ValuedQuery { id, text, value, .. }, given) in wrong.take(MAX_WRONG) {
        let right = plain(serde_json::to_string(value)?, MAX_SHOWN);
        app.watch.detail(&format!(
            "{name}: wrong answer to query {id}: {text}: {given}, expected {right}"
        ));
    }
    Ok(all)
}
