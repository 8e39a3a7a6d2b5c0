//! `agent eval`: measures systems on labelled queries, and compares several in pairs.
//! It opens the test split where it is asked for, which is counted and told with the figures.

mod files;
pub(super) mod forecast;
mod measures;
mod report;
mod sets;
mod values;

use agent_app::choice::choice;
use std::{
    collections::{BTreeSet, HashSet},
    path::PathBuf,
    sync::Arc,
};

use anyhow::anyhow;
use rayon::prelude::*;

use self::{
    files::Output,
    measures::{How, Measures},
    report::{Format, Groups, Report, SHOWN, Versus},
};
pub(super) use self::{
    files::{tag, write},
    report::{percent, signed},
};
use crate::{Context, Exit};
use agent_app::{
    dataset::{self, Dataset},
    error::{AppError, Explain, Result},
    llm::{self, LlmArgs},
    named,
    systems::{Effort, Resources, STAND_IN, SandboxArgs, open_system},
    test_split,
};
use agent_dataset::{Base, LabelledQuery, Split, is_synthetic, load_split};
use agent_index::IndexedBase;
use agent_llm::ledger::Spending;
pub(super) use agent_retrieve::eval::SEED;
use agent_retrieve::{
    Baseline, Ranking, Retriever,
    eval::{Evaluation, QueryResult, compare, evaluate_groups, statistics, trec::DocIds},
    measure::{self, Measure},
};
use agent_systems::{self as systems, bundle, mfar};

/// Most rankings times depth that are kept, for a run file or for sets, 8 bytes each.
const MAX_KEPT: usize = 1 << 28;
/// Maximum failed queries listed individually.
const MAX_TOLD: usize = 5;
/// The grouping that a bundle knows.
const CATEGORY: &str = "category";

/// Measure systems on labelled queries
///
/// Ranks --depth nodes per query and measures them as --metrics says. Prints means with 95 %
/// bootstrap intervals; with several systems, each is also compared with the first one on the same
/// queries: paired bootstrap intervals, and p-values of paired randomisation tests corrected for
/// their number. A query that a system fails on
/// counts with the ranking of the hybrid baseline, and the exit status is 1; where a service gave
/// no answer, the evaluation is marked invalid and not compared.
/// Latencies are wall times while all cores are busy.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(long, value_name = "N")]
    dataset: String,
    /// Queries: train, val, test, test-0.1, human or a file like qa.csv; several joined by commas
    #[arg(long, value_name = "SPLIT", value_delimiter = ',', required = true)]
    split: Vec<Split>,
    #[arg(long = "system", value_name = "SYSTEM", required = true,
        help = format!("Measure {}; may be repeated", systems::choices()))]
    systems: Vec<String>,
    /// Give these fields of mfar systems no weight: names joined by commas, relations or details
    #[arg(long, value_name = "FIELDS")]
    mask: Option<String>,
    /// Keep queries with this value in a further column of their file only; may be repeated
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = parse_filter)]
    filters: Vec<(String, String)>,
    /// Sum up each value of this column of the queries apart too; `category` means the category that
    /// the first bundle puts a query in, unless the queries have a column of that name
    #[arg(long, value_name = "COLUMN")]
    by: Option<String>,
    #[command(flatten)]
    measures: Measures,
    /// Compare every pair of systems, not only each with the first
    #[arg(long)]
    pairs: bool,
    /// Write the rankings to this file in TREC format, with the user's ids of nodes; with several
    /// systems the name must hold {system}
    #[arg(long, value_name = "OUT.trec")]
    run_file: Option<PathBuf>,
    /// Write the answers to this file in TREC's qrels format
    #[arg(long, value_name = "OUT.qrels")]
    qrels_file: Option<PathBuf>,
    /// Write the metrics of every query and system to this CSV file
    #[arg(long, value_name = "OUT.csv")]
    results_file: Option<PathBuf>,
    /// Print the means so; csv has one line for each metric, and no comparisons
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, conflicts_with = "json")]
    format: Format,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Print one JSON object per system
    #[arg(long)]
    json: bool,
    /// How far bundles, and `ask`, lean on a language model; several joined by commas are compared
    #[arg(
        long = "effort",
        value_name = "EFFORT",
        value_parser = choice::<Effort>(),
        value_delimiter = ',',
        default_value = "0"
    )]
    efforts: Vec<Effort>,
    /// Say how many requests and tokens that would take at most, and ask nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    llm: LlmArgs,
}

/// A `COLUMN=VALUE` of the command line.
pub(super) fn parse_filter(text: &str) -> std::result::Result<(String, String), String> {
    let (column, value) = text.split_once('=').ok_or("use COLUMN=VALUE")?;
    Ok((column.to_owned(), value.to_owned()))
}

/// What one system did.
pub(super) struct Measured {
    /// Its name.
    pub(super) system: String,
    /// By query.
    pub(super) results: Vec<QueryResult>,
    /// By query; empty ones unless they are kept for a run file.
    rankings: Vec<Ranking>,
    /// Where each ranking's answers end, as far as the system says so.
    ends: Vec<Option<usize>>,
    /// Over all queries.
    pub(super) evaluation: Evaluation,
    /// Queries for which a service gave no answer: with any, the means say nothing.
    outages: usize,
    /// What it spent on language models.
    llm: Spending,
    /// What its replies took, those that had been kept among them.
    used: Spending,
    /// Queries that a model was to help with and did not.
    unassisted: usize,
}

impl Measured {
    /// Why the means say nothing, if that is so.
    pub(super) fn invalid(&self) -> Option<String> {
        invalid(self.outages, self.evaluation.n)
    }

    /// Seconds for a query, on average.
    fn seconds(&self) -> f64 {
        let ms: f64 = self.results.iter().map(|result| result.latency_ms).sum();
        ms / 1e3 / self.results.len().max(1) as f64
    }
}

/// Why means over `n` queries say nothing, if that is so.
fn invalid(outages: usize, n: usize) -> Option<String> {
    (outages > 0).then(|| format!("a service gave no answer to {outages} of {n} queries"))
}

/// Says of a system that its means say nothing.
fn warn_invalid(system: &str, why: &str, ctx: &Context) {
    let text = format!("{system}: this evaluation is invalid: {why}; evaluate again");
    ctx.printer.warning(&text);
}

/// A system with an effort, and what it is called in tables.
struct Chosen {
    label: String,
    system: String,
    effort: Effort,
}

/// The systems in the order given, bundles once for each effort.
fn chosen(args: &Args) -> Result<Vec<Chosen>> {
    let distinct: HashSet<&String> = args.systems.iter().collect();
    if distinct.len() < args.systems.len() {
        return Err(AppError::usage(anyhow!("a --system is given twice")));
    }
    let (first, more) = args.efforts.split_first().unwrap_or((&Effort::None, &[]));
    if more.iter().enumerate().any(|(at, one)| one == first || more[..at].contains(one)) {
        return Err(AppError::usage(anyhow!("an --effort is given twice")));
    }
    let mut chosen = Vec::new();
    let masked = |system: &String| {
        let masked = args.mask.as_deref().and_then(|mask| mfar::masked(system, mask));
        masked.unwrap_or_else(|| system.clone())
    };
    let named: Vec<String> = args.systems.iter().map(masked).collect();
    if args.mask.is_some() && named == args.systems {
        return Err(AppError::usage(anyhow!("--mask needs an mfar system")));
    }
    for system in &named {
        let efforts = if systems::uses_effort(system) { &args.efforts[..] } else { &[*first] };
        for &effort in efforts {
            let label = match efforts.len() {
                1 => system.clone(),
                _ => format!("{system} effort {}", effort as u8),
            };
            chosen.push(Chosen { label, system: system.clone(), effort });
        }
    }
    Ok(chosen)
}

/// Whether any of the systems asks a language model, beside what programs ask by themselves.
fn is_asked(chosen: &[Chosen]) -> Result<bool> {
    for one in chosen {
        if !systems::request_bounds(&one.system, one.effort)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let chosen = chosen(args)?;
    let labels_of: Vec<String> = chosen.iter().map(|one| one.label.clone()).collect();
    let run_files = args.run_file.as_deref().map(|path| files::run_files(path, &labels_of));
    let run_files = run_files.transpose()?;
    let dataset = dataset::find(&args.dataset, ctx)?;
    if args.measures.are_values()
        || chosen.iter().all(|one| systems::answers_with_values(&one.system))
    {
        return run_values(args, &dataset, ctx);
    }
    let queries = queries(&args.split, &args.filters, &dataset.base)?;
    let sets = args.measures.are_sets();
    let how = How { keep: sets || run_files.is_some(), ..How::from(args.measures) };
    if how.keep && queries.len().saturating_mul(how.depth) > MAX_KEPT {
        let (n, depth) = (queries.len(), how.depth);
        return Err(anyhow!("rankings of {n} queries to depth {depth} are too many to be kept"))
            .hint("lower --depth, or evaluate fewer queries at a time");
    }
    let base = dataset::open(&dataset, ctx)?;
    if args.dry_run {
        return forecast::print(&chosen, queries.len(), &args.llm, args.json, ctx);
    }
    let llm = llm::open_if_configured(&args.llm, is_asked(&chosen)?, ctx)?;
    let asked = queries.iter().map(|query| (query.id, query.text.clone())).collect();
    let resources = resources(args, llm.as_ref(), asked, ctx)?;
    let systems = open_all(&chosen, &base, &resources, ctx)?;
    let stand_in = Baseline::new(base.clone(), STAND_IN);
    let labels = args.by.as_deref().map(|by| labels(by, &queries, &systems)).transpose()?;
    // Begun before anything is measured, which one that cannot be written would lose.
    let begin = |path: &PathBuf| Ok((path.clone(), Output::begin(path)?));
    let begun = run_files.iter().flatten().map(begin).collect::<Result<Vec<_>>>()?;
    let qrels_file = args.qrels_file.as_ref().map(begin).transpose()?;
    let results_file = args.results_file.as_ref().map(begin).transpose()?;
    let openings = openings(args, &dataset.base, ctx);

    let mut measured = Vec::new();
    for (name, system) in &systems {
        let ledger = resources.assistant.as_ref().map(|assistant| assistant.llm().ledger());
        let spent = || ledger.map(|ledger| (ledger.total(), ledger.total_used()));
        let before = spent().unwrap_or_default();
        let mut one = measured_as(how, name, &**system, &stand_in, &queries, &base, ctx)?;
        let after = spent().unwrap_or_default();
        (one.llm, one.used) = (after.0.since(before.0), after.1.since(before.1));
        measured.push(one);
    }
    let ids = DocIds::of_base(&base.kb);
    for ((path, file), one) in begun.into_iter().zip(&measured) {
        file.finish(|out| files::run(out, one, &queries, ids))?;
        ctx.printer.notice(&format!("wrote the rankings to {}", path.display()));
    }
    if let Some((path, file)) = qrels_file {
        file.finish(|out| files::qrels(out, &queries, ids))?;
        ctx.printer.notice(&format!("wrote the answers to {}", path.display()));
    }
    if let Some((path, file)) = results_file {
        file.finish(|out| files::results(out, &measured))?;
        ctx.printer.notice(&format!("wrote the results to {}", path.display()));
    }
    if sets {
        sets::print(args, &measured, &queries, labels.as_deref(), openings, ctx)?;
        return Ok(if report_failures(&measured, ctx) { Exit::Failed } else { Exit::Done });
    }
    let report = Report {
        dataset: &args.dataset,
        split: joined(&args.split),
        synthetic: is_synthetic(&queries),
        groups: match &labels {
            Some(labels) => grouped(&measured, labels)?,
            None => Vec::new(),
        },
        versus: comparisons(&measured, args.pairs)?,
        measured: &measured,
        measures: args.measures,
        openings,
    };
    if args.json {
        report.print_json(ctx)?
    } else {
        report.print(args.format, ctx)?
    }
    Ok(if report_failures(&measured, ctx) { Exit::Failed } else { Exit::Done })
}

/// What the systems are opened with.
fn resources(
    args: &Args,
    llm: Option<&llm::Opened>,
    queries: Arc<[(i64, String)]>,
    ctx: &Context,
) -> Result<Resources> {
    let places = args.sandbox.places(ctx)?;
    Ok(Resources { queries, ..Resources::new(llm, places, ctx) })
}

/// All systems with what they are called. They are opened before one is run, so that a wrong name
/// costs nothing.
fn open_all<'a>(
    chosen: &'a [Chosen],
    base: &Arc<IndexedBase>,
    resources: &Resources,
    ctx: &Context,
) -> Result<Vec<(&'a str, Box<dyn Retriever>)>> {
    let open = |one: &'a Chosen| {
        let found = named::system(&one.system, Some(base.name()), &ctx.home)?;
        let resources = Resources { effort: one.effort, ..resources.clone() };
        Ok((one.label.as_str(), open_system(&found, base, &resources)?))
    };
    chosen.iter().map(open).collect()
}

/// Measures answers that are no nodes.
fn run_values(args: &Args, dataset: &Dataset, ctx: &Context) -> Result<Exit> {
    let given = [args.run_file.is_some(), args.qrels_file.is_some(), args.results_file.is_some()];
    if given.contains(&true) || !args.filters.is_empty() {
        let why = "--metrics value takes no --where and no files to write";
        return Err(AppError::usage(anyhow!(why)));
    }
    let queries = values::queries(&args.split, &dataset.base, ctx)?;
    let base = dataset::open(dataset, ctx)?;
    let chosen = chosen(args)?;
    if args.dry_run {
        return forecast::print(&chosen, queries.len(), &args.llm, args.json, ctx);
    }
    let llm = llm::open_if_configured(&args.llm, is_asked(&chosen)?, ctx)?;
    let asked = queries.iter().map(|query| (query.id, query.text.clone())).collect();
    let resources = resources(args, llm.as_ref(), asked, ctx)?;
    let systems = open_all(&chosen, &base, &resources, ctx)?;
    values::run(args, &dataset.base, &systems, &queries, ctx)
}

/// Counts that the test split is opened, where it is one of the splits; how often it was, this time
/// included. Called once nothing but measuring is left to do.
fn openings(args: &Args, base: &Base, ctx: &Context) -> Option<u64> {
    test_split::is_among(&args.split).then(|| test_split::count(base, ctx))
}

/// The queries of all splits that pass the filters, in order of splits and files; at least one.
///
/// # Errors
/// That a split or a column is not there, that a query is in two splits, or that none is left.
pub(super) fn queries(
    splits: &[Split],
    filters: &[(String, String)],
    base: &Base,
) -> Result<Vec<LabelledQuery>> {
    let mut queries = Vec::new();
    let mut seen = HashSet::new();
    for split in splits {
        let loaded = match split {
            Split::Test => test_split::load(test_split::Part::Whole, base)?,
            Split::TestTenth => test_split::load(test_split::Part::Tenth, base)?,
            other => load_split(base, other)?,
        };
        in_no_other(split, loaded.iter().map(|query| query.id), &mut seen)?;
        queries.extend(loaded);
    }
    if queries.is_empty() {
        return Err(anyhow!("there are no queries in {}", joined(splits)).into());
    }
    for (column, value) in filters {
        if !queries.iter().any(|query| query.metadata.contains_key(column)) {
            return no_column(column, &queries);
        }
        queries.retain(|query| query.metadata.get(column) == Some(value));
        if queries.is_empty() {
            return Err(anyhow!("no query has {column}={value}").into());
        }
    }
    Ok(queries)
}

/// Notes the queries of a split, by id.
///
/// # Errors
/// That one of them was seen in another split.
fn in_no_other(
    split: &Split,
    ids: impl Iterator<Item = i64> + Clone,
    seen: &mut HashSet<i64>,
) -> Result<()> {
    if let Some(id) = ids.clone().find(|id| seen.contains(id)) {
        return Err(anyhow!("query {id} of {split} is in another of the splits too"))
            .hint("evaluate the splits one by one");
    }
    seen.extend(ids);
    Ok(())
}

fn joined(splits: &[Split]) -> String {
    splits.iter().map(Split::to_string).collect::<Vec<_>>().join(",")
}

/// Runs a system on all queries, as `agent eval` does unless it is told otherwise.
pub(super) fn measured(
    name: &str,
    system: &dyn Retriever,
    stand_in: &dyn Retriever,
    queries: &[LabelledQuery],
    base: &IndexedBase,
    ctx: &Context,
) -> Result<Measured> {
    measured_as(How::default(), name, system, stand_in, queries, base, ctx)
}

/// Runs a system on all queries, in parallel; results are in the order of the queries.
fn measured_as(
    how: How,
    name: &str,
    system: &dyn Retriever,
    stand_in: &dyn Retriever,
    queries: &[LabelledQuery],
    base: &IndexedBase,
    ctx: &Context,
) -> Result<Measured> {
    let progress = ctx.printer.progress();
    let measure = Measure {
        queries,
        base,
        stand_in,
        definitions: how.definitions,
        depth: how.depth,
        keep_rankings: how.keep,
        stop: &ctx.stop,
        progress: &|done| progress.at(name, done, queries.len() as u64),
    };
    let measure::Measurements { results, rankings, ends, outages, unassisted } =
        measure.run(system).map_err(anyhow::Error::from)?;
    drop(progress);
    let evaluation = Evaluation::from_results(&results, SEED)?;
    Ok(Measured {
        system: name.to_owned(),
        results,
        rankings,
        ends,
        evaluation,
        outages,
        llm: Spending::default(),
        used: Spending::default(),
        unassisted,
    })
}

/// Compares every system with the first one, or with all before it; those with valid means alone.
fn comparisons(measured: &[Measured], every_pair: bool) -> Result<Vec<Versus<'_>>> {
    let measured: Vec<&Measured> = measured.iter().filter(|one| one.outages == 0).collect();
    let mut versus = Vec::new();
    for (at, one) in measured.iter().enumerate() {
        let others = if every_pair { &measured[..at] } else { &measured[..at.min(1)] };
        for other in others {
            for metric in SHOWN {
                let comparison = compare(&one.results, &other.results, metric, SEED)?;
                versus.push(Versus {
                    system: &one.system,
                    other: &other.system,
                    metric,
                    comparison,
                    p_holm: 1.0,
                });
            }
        }
    }
    if !versus.is_empty() {
        let p_values: Vec<f64> = versus.iter().map(|versus| versus.comparison.p).collect();
        for (versus, p_holm) in versus.iter_mut().zip(statistics::holm(&p_values)?) {
            versus.p_holm = p_holm;
        }
    }
    Ok(versus)
}

/// The group of each query: its value in a column, or the category that the first bundle among the
/// systems puts it in.
fn labels(
    by: &str,
    queries: &[LabelledQuery],
    systems: &[(&str, Box<dyn Retriever>)],
) -> Result<Vec<String>> {
    if queries.iter().any(|query| query.metadata.contains_key(by)) {
        let label = |query: &LabelledQuery| query.metadata.get(by).cloned().unwrap_or_default();
        return Ok(queries.iter().map(label).collect());
    }
    let bundle = systems.iter().find(|(name, _)| bundle::is_named(name));
    let Some((_, bundle)) = bundle.filter(|_| by == CATEGORY) else {
        return no_column(by, queries);
    };
    // A query that cannot be read is in no category.
    let label = |query: &LabelledQuery| bundle.category(&query.text).ok().flatten();
    Ok(queries.par_iter().map(|query| label(query).unwrap_or_default()).collect())
}

/// For each system, the evaluation of each group.
fn grouped(measured: &[Measured], labels: &[String]) -> Result<Vec<Groups>> {
    measured.iter().map(|one| Ok(evaluate_groups(&one.results, labels, SEED)?)).collect()
}

/// That the queries lack a column; names those they have.
fn no_column<T>(column: &str, queries: &[LabelledQuery]) -> Result<T> {
    let known: BTreeSet<&str> =
        queries.iter().flat_map(|query| query.metadata.keys().map(String::as_str)).collect();
    let known = known.into_iter().collect::<Vec<_>>().join(", ");
    let known = if known.is_empty() { "none" } else { &known };
    Err(anyhow!("the queries have no column \"{column}\"")).hint(format!("columns: {known}"))
}

/// Tells of failed queries; returns whether there are any.
pub(super) fn report_failures(measured: &[Measured], ctx: &Context) -> bool {
    let mut any = false;
    for one in measured {
        let failed = one
            .results
            .iter()
            .filter_map(|result| Some((result.query_id, result.failure.as_ref()?)));
        for (id, failure) in failed.take(MAX_TOLD) {
            ctx.printer.warning(&format!("{}: query {id} failed: {failure}", one.system));
        }
        if let Some(why) = one.invalid() {
            warn_invalid(&one.system, &why, ctx);
        }
        if one.unassisted > 0 {
            let (n, of) = (one.unassisted, one.evaluation.n);
            ctx.printer.warning(&format!(
                "{}: the language model gave no usable reply for {n} of {of} queries; they are \
                 answered without it",
                one.system
            ));
        }
        let n = one.evaluation.failed;
        if n > 0 {
            any = true;
            let of = one.evaluation.n;
            ctx.printer.error(&format!(
                "{}: {n} of {of} queries failed and count with the ranking of {}",
                one.system,
                STAND_IN.name()
            ));
        }
    }
    any
}
