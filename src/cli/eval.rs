//! `agent eval`: measures systems on labelled queries, and compares several in pairs.
//! Of all commands only this one opens the test split.

use std::{
    collections::{BTreeSet, HashSet},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use anyhow::{Context as _, anyhow};
use rayon::prelude::*;
use serde::Serialize;

use crate::{
    cli::{
        Context, Exit, dataset,
        failure::{CommandError, Explain, Result},
        printer::table,
        systems::{STAND_IN, open_system},
    },
    dataset::{Base, LabelledQuery, Split, load_split, load_test},
    eval::{
        Candidates, Comparison, Evaluation, Interval, Metric, Metrics, QueryResult, compare,
        statistics, trec,
    },
    index::IndexedBase,
    retrieve::{Baseline, Ranking, Retriever},
};

/// Nodes ranked for every query; metrics without a cut-off see the rest as unnamed.
const DEPTH: usize = 1_000;
/// Seed of bootstrap and randomisation; a constant, so that equal results give equal intervals.
pub(super) const SEED: u64 = 0;
/// Failed queries that are told one by one.
const MAX_TOLD: usize = 5;
/// Metrics in tables; JSON has all.
const SHOWN: [Metric; 4] = [Metric::Hit1, Metric::Hit5, Metric::Recall20, Metric::Mrr];

/// Measure systems on labelled queries
///
/// Ranks 1,000 nodes per query. Prints means with 95 % bootstrap intervals; with several systems,
/// each is also compared with the first one on the same queries. A query that a system fails on
/// counts with the ranking of the hybrid baseline, and the exit status is 1.
/// Latencies are wall times while all cores are busy.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(long, value_name = "N")]
    dataset: String,
    /// Queries: train, val, test, human or a file like qa.csv; several joined by commas
    #[arg(long, value_name = "SPLIT", value_delimiter = ',', required = true)]
    split: Vec<Split>,
    /// Measure bm25, bm25+names, dense, hybrid, bundle:FILE or program:FILE; may be repeated
    #[arg(long = "system", value_name = "SYSTEM", required = true)]
    systems: Vec<String>,
    /// Keep queries with this value in a further column of their file only; may be repeated
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = parse_filter)]
    filters: Vec<(String, String)>,
    /// Write the rankings to this file in TREC format; needs a single system
    #[arg(long, value_name = "OUT.trec")]
    run_file: Option<PathBuf>,
    /// Print one JSON object per system
    #[arg(long)]
    json: bool,
}

fn parse_filter(text: &str) -> std::result::Result<(String, String), String> {
    let (column, value) = text.split_once('=').ok_or("use COLUMN=VALUE")?;
    Ok((column.to_owned(), value.to_owned()))
}

/// What one system did.
pub(super) struct Measured {
    /// Its name.
    pub(super) system: String,
    /// By query.
    pub(super) results: Vec<QueryResult>,
    rankings: Vec<Ranking>,
    /// Over all queries.
    pub(super) evaluation: Evaluation,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let distinct: HashSet<&String> = args.systems.iter().collect();
    if distinct.len() < args.systems.len() {
        return Err(CommandError::usage(anyhow!("a --system is given twice")));
    }
    if args.run_file.is_some() && args.systems.len() > 1 {
        let error = anyhow!("a run file holds the rankings of one system");
        return Err(CommandError::usage(error)).hint("run `agent eval` once for each system");
    }
    let dataset = dataset::find(&args.dataset, ctx)?;
    let queries = queries(args, &dataset.base)?;
    let base = dataset::open(&dataset, ctx)?;
    // All systems are opened before one is run, so that a wrong name costs nothing.
    let systems = args.systems.iter().map(|name| Ok((name.as_str(), open_system(name, &base)?)));
    let systems = systems.collect::<Result<Vec<(&str, Box<dyn Retriever>)>>>()?;
    let stand_in = Baseline::new(base.clone(), STAND_IN);

    let mut measured = Vec::new();
    for (name, system) in &systems {
        measured.push(self::measured(name, &**system, &stand_in, &queries, &base, ctx)?);
    }
    if let (Some(path), Some(only)) = (&args.run_file, measured.first()) {
        write_run(path, only, &queries)
            .with_context(|| format!("cannot write the run file {}", path.display()))?;
        ctx.printer.notice(&format!("wrote the rankings to {}", path.display()));
    }
    let comparisons = comparisons(&measured)?;
    if args.json {
        print_json(args, &measured, &comparisons, ctx)?;
    } else {
        print_tables(args, &measured, &comparisons, ctx)?;
    }
    Ok(if report_failures(&measured, ctx) { Exit::Failed } else { Exit::Done })
}

/// The queries of all splits that pass the filters, in order of splits and files.
fn queries(args: &Args, base: &Base) -> Result<Vec<LabelledQuery>> {
    let mut queries = Vec::new();
    let mut seen = HashSet::new();
    for split in &args.split {
        let loaded = match split {
            Split::Test => load_test(base)?,
            other => load_split(base, other)?,
        };
        if let Some(query) = loaded.iter().find(|query| seen.contains(&query.id)) {
            let id = query.id;
            return Err(anyhow!("query {id} of {split} is in another of the splits too"))
                .hint("evaluate the splits one by one");
        }
        seen.extend(loaded.iter().map(|query| query.id));
        queries.extend(loaded);
    }
    if queries.is_empty() {
        return Err(anyhow!("there are no queries in {}", joined(&args.split)).into());
    }
    for (column, value) in &args.filters {
        if !queries.iter().any(|query| query.metadata.contains_key(column)) {
            let known: BTreeSet<&String> =
                queries.iter().flat_map(|query| query.metadata.keys()).collect();
            let known: Vec<&str> = known.into_iter().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(anyhow!("the queries have no column \"{column}\""))
                .hint(format!("columns: {known}"));
        }
        queries.retain(|query| query.metadata.get(column) == Some(value));
        if queries.is_empty() {
            return Err(anyhow!("no query has {column}={value}").into());
        }
    }
    Ok(queries)
}

fn joined(splits: &[Split]) -> String {
    splits.iter().map(Split::to_string).collect::<Vec<_>>().join(",")
}

/// Runs a system on all queries, in parallel; results are in the order of the queries.
pub(super) fn measured(
    name: &str,
    system: &dyn Retriever,
    stand_in: &dyn Retriever,
    queries: &[LabelledQuery],
    base: &IndexedBase,
    ctx: &Context,
) -> Result<Measured> {
    let progress = ctx.printer.progress();
    let done = AtomicU64::new(0);
    let candidates = Candidates::of(&base.kb);
    let one = |query: &LabelledQuery| {
        if ctx.stop.load(Ordering::Relaxed) {
            return Err(anyhow!("no result was kept"));
        }
        let began = Instant::now();
        let answer = system.retrieve(&query.text, DEPTH);
        let latency_ms = began.elapsed().as_secs_f64() * 1e3;
        let (ranking, failure) = match answer {
            Ok(ranking) => (ranking, None),
            // A query that no system can read is answered with nothing.
            Err(error) => {
                let baseline = stand_in.retrieve(&query.text, DEPTH).unwrap_or_default();
                (baseline, Some(error.to_string()))
            }
        };
        let metrics = Metrics::of(&ranking, &query.answers, candidates);
        progress.at(name, done.fetch_add(1, Ordering::Relaxed) + 1, queries.len() as u64);
        Ok((QueryResult { query_id: query.id, metrics, latency_ms, failure }, ranking))
    };
    let all = queries.par_iter().map(one).collect::<anyhow::Result<Vec<_>>>()?;
    drop(progress);
    let (results, rankings): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let evaluation = Evaluation::from_results(&results, SEED)?;
    Ok(Measured { system: name.to_owned(), results, rankings, evaluation })
}

/// Writes a run file that appears when it is complete.
fn write_run(path: &Path, measured: &Measured, queries: &[LabelledQuery]) -> anyhow::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(dir)?;
    let mut out = BufWriter::new(file);
    let tag: String =
        measured.system.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect();
    let tag = &tag[..tag.floor_char_boundary(trec::MAX_TAG_BYTES)];
    for (query, ranking) in queries.iter().zip(&measured.rankings) {
        trec::write_run(&mut out, query.id, ranking, tag)?;
    }
    out.flush()?;
    let file = out.into_inner().map_err(|error| error.into_error())?;
    file.persist(path)?;
    Ok(())
}

/// A system against the first one, in one metric.
#[derive(Serialize)]
struct Compared {
    metric: &'static str,
    #[serde(flatten)]
    comparison: Comparison,
    /// `p`, corrected for all comparisons of this evaluation (Holm 1979).
    p_holm: f64,
}

/// For each system but the first, its comparisons with the first.
fn comparisons(measured: &[Measured]) -> Result<Vec<Vec<Compared>>> {
    let Some((first, others)) = measured.split_first() else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for other in others {
        for metric in SHOWN {
            all.push((metric, compare(&other.results, &first.results, metric, SEED)?));
        }
    }
    let p_values: Vec<f64> = all.iter().map(|(_, comparison)| comparison.p).collect();
    let corrected = if all.is_empty() { Vec::new() } else { statistics::holm(&p_values)? };
    let compared = all.into_iter().zip(corrected).map(|((metric, comparison), p_holm)| Compared {
        metric: metric.name(),
        comparison,
        p_holm,
    });
    let mut compared = compared.peekable();
    let mut by_system = Vec::new();
    while compared.peek().is_some() {
        by_system.push(compared.by_ref().take(SHOWN.len()).collect());
    }
    Ok(by_system)
}

/// LLM use of a system.
#[derive(Serialize, Default)]
struct LlmUse {
    calls: u64,
    tokens_in: u64,
    tokens_out: u64,
    usd: f64,
}

#[derive(Serialize)]
struct Printed<'a> {
    dataset: &'a str,
    split: String,
    system: &'a str,
    #[serde(flatten)]
    evaluation: &'a Evaluation,
    llm: LlmUse,
    /// Only if there are several systems, and not for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    versus: Option<Versus<'a>>,
}

#[derive(Serialize)]
struct Versus<'a> {
    system: &'a str,
    comparisons: &'a [Compared],
}

fn print_json(
    args: &Args,
    measured: &[Measured],
    comparisons: &[Vec<Compared>],
    ctx: &Context,
) -> Result<()> {
    for (at, one) in measured.iter().enumerate() {
        let compared = at.checked_sub(1).and_then(|at| comparisons.get(at));
        let first = measured.first().map_or("", |first| first.system.as_str());
        ctx.printer.json(&Printed {
            dataset: &args.dataset,
            split: joined(&args.split),
            system: &one.system,
            evaluation: &one.evaluation,
            llm: LlmUse::default(),
            versus: compared.map(|comparisons| Versus { system: first, comparisons }),
        })?;
    }
    Ok(())
}

fn print_tables(
    args: &Args,
    measured: &[Measured],
    comparisons: &[Vec<Compared>],
    ctx: &Context,
) -> Result<()> {
    let headings =
        ["system", "n", "failed", "hit@1", "hit@5", "recall@20", "mrr", "p50 ms", "p95 ms"];
    let mut rows = table(headings, &[1, 2, 3, 4, 5, 6, 7, 8]);
    for one in measured {
        let evaluation = &one.evaluation;
        let mut row =
            vec![one.system.clone(), evaluation.n.to_string(), evaluation.failed.to_string()];
        for metric in SHOWN {
            row.push(percent(evaluation.means.get(metric), evaluation.ci95.get(metric)));
        }
        row.push(format!("{:.1}", evaluation.latency.p50));
        row.push(format!("{:.1}", evaluation.latency.p95));
        rows.add_row(row);
    }
    let split = joined(&args.split);
    ctx.printer.notice(&format!("{} {split}: means in percent with 95 % intervals", args.dataset));
    ctx.printer.table(&rows)?;
    let Some(first) = measured.first().filter(|_| !comparisons.is_empty()) else { return Ok(()) };
    let headings = ["system", "metric", "difference", "p", "better", "worse", "equal"];
    let mut rows = table(headings, &[2, 3, 4, 5, 6]);
    for (one, compared) in measured.iter().skip(1).zip(comparisons) {
        for Compared { metric, comparison, p_holm } in compared {
            rows.add_row([
                format!("{} - {}", one.system, first.system),
                (*metric).to_owned(),
                percent(comparison.difference, comparison.ci95),
                format!("{p_holm:.4}"),
                comparison.wins.to_string(),
                comparison.losses.to_string(),
                comparison.ties.to_string(),
            ]);
        }
    }
    ctx.printer.notice("paired differences in percentage points, p corrected after Holm");
    ctx.printer.data("\n")?;
    ctx.printer.table(&rows)
}

pub(super) fn percent(mean: f64, interval: Interval) -> String {
    format!("{:.1} [{:.1}, {:.1}]", 100.0 * mean, 100.0 * interval.low, 100.0 * interval.high)
}

/// Tells of failed queries; returns whether there are any.
fn report_failures(measured: &[Measured], ctx: &Context) -> bool {
    let mut any = false;
    for one in measured {
        let failed = one
            .results
            .iter()
            .filter_map(|result| Some((result.query_id, result.failure.as_ref()?)));
        for (id, failure) in failed.take(MAX_TOLD) {
            ctx.printer.warning(&format!("{}: query {id} failed: {failure}", one.system));
        }
        let n = one.evaluation.failed;
        if n > 0 {
            any = true;
            let of = one.evaluation.n;
            ctx.printer.warning(&format!(
                "{}: {n} of {of} queries failed and count with the ranking of {}",
                one.system,
                STAND_IN.name()
            ));
        }
    }
    any
}
