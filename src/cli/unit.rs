//! `agent unit`: divides batch answering, rankings for labelled queries, and the vectors and words
//! of an index into units, which any scheduler may run on any host. The collected results equal
//! those of a single process. A unit is refused if its base, embedder, bundle, program or questions
//! differ from the plan. If a time limit interrupts the answer to a question, its unit has no
//! result and must be run again.

mod embed;
mod form;
mod words;
mod work;
mod worker;

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use serde::{Deserialize, Serialize};

use crate::{Context, Exit, eval::tag, query::batch::MAX_LINE_BYTES};
use agent_app::{
    Dataset, Explain, Result, SandboxArgs, count, dataset,
    eval::queries,
    named::{self, BUNDLE},
    read_bundle, refused, test_split,
    text::MAX_K,
    unit::{Kind, Task},
};
use agent_dataset::{Base, LabelledQuery, Split};
use agent_ground::{
    files,
    units::{MAX_UNITS, Units, UnitsError},
};
use agent_index::{EmbedderChoice, IndexedBase};
use agent_infer::bundle::Bundle;
use agent_kb::{Kb, NodeId};
use agent_systems::{self as systems, Need};

use self::worker::WorkArgs;

/// Maximum size, in bytes, of a file of questions, and of the result of a unit of answers or
/// rankings.
const MAX_INPUT_BYTES: u64 = 1 << 30;
/// Maximum size of a bundle or program file, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Maximum number of nodes in a ranking of a unit.
const MAX_DEPTH: u64 = 100_000;
/// Maximum number of failed items listed individually.
const MAX_TOLD: usize = 5;
/// Prefix of the name of a system that is a program file: `program:FILE`.
const PROGRAM: &str = "program:";
/// File extension of a WebAssembly module.
const MODULE: &str = "wasm";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Divide questions, queries or documents into units, and print the numbers of unfinished units
    Plan(PlanArgs),
    /// Run units and publish their results
    Run(RunArgs),
    /// Write the results of all units to one file, or build the index from them
    Collect(CollectArgs),
    /// Run trials of `agent optimize --pool DIR` until interrupted or idle
    Work(WorkArgs),
}

/// Divide questions, queries or documents into units, and print the numbers of unfinished units
///
/// With --batch, a bundle answers each line as `agent query --batch` does, without timings. With
/// --split, a system ranks each query, and the collected file equals that of `agent eval
/// --run-file`. With --index, units embed documents or read their words, and the collected index
/// equals that of `agent index`.
///
/// The plan's directory holds everything that units need, except the dataset and the directory of
/// an encoder. The dataset must be installed on every host, and indexed unless the units make its
/// index; the encoder must have the same path everywhere. Repeating the command, or giving only the
/// directory, prints the units without a complete result. A plan for the test split opens the
/// split, which is counted when the plan is made.
#[derive(Debug, clap::Args)]
pub(super) struct PlanArgs {
    /// Keep the plan in this directory, on a file system that all hosts share
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Answer with this bundle: a file, the directory or name of a run, or `latest`
    #[arg(long, value_name = "BUNDLE", requires = "batch")]
    bundle: Option<PathBuf>,
    /// Answer all questions of this file: one JSON object per line, with `query` and, optionally,
    /// `id`
    #[arg(long, value_name = "FILE", requires = "bundle", conflicts_with_all = ["split", "system"])]
    batch: Option<PathBuf>,
    /// Return this many nodes per answer, 1 to 10000
    #[arg(short, value_name = "K", default_value_t = 20, requires = "batch",
        value_parser = clap::value_parser!(u64).range(1..=MAX_K))]
    k: u64,
    /// Rank the labelled queries of this split: train, val, test, test-0.1, human or a file like
    /// qa.csv; separate several by commas
    #[arg(long, value_name = "SPLIT", value_delimiter = ',', requires = "system")]
    split: Vec<Split>,
    /// Rank with this system; bundle:FILE and program:FILE are copied into the plan
    #[arg(long, value_name = "SYSTEM", requires_all = ["split", "dataset"])]
    system: Option<String>,
    /// Rank this many nodes per query, 1 to 100000
    #[arg(long, value_name = "K", default_value_t = 1_000, requires = "system",
        value_parser = clap::value_parser!(u64).range(1..=MAX_DEPTH))]
    depth: u64,
    /// Use this installed dataset, directory to import, or built-in sample [default: the bundle's]
    #[arg(long, value_name = "N")]
    dataset: Option<String>,
    /// Embed the documents of this dataset, for its index
    #[arg(long, value_name = "N",
        conflicts_with_all = ["bundle", "batch", "split", "system", "dataset"])]
    index: Option<String>,
    /// Instead of embedding the documents, read their words and the words in neighbours' names
    #[arg(long, requires = "index", conflicts_with_all = ["embedder", "candidates_only"])]
    words: bool,
    /// Embed with candle:DIR, openai:MODEL, or NAME of [embedders.NAME] in config.toml [default:
    /// the embedder of the existing vectors]
    #[arg(long, value_name = "EMBEDDER", requires = "index")]
    embedder: Option<EmbedderChoice>,
    /// Embed only nodes that can be answers; vector search does not find other nodes
    #[arg(long, requires = "index")]
    candidates_only: bool,
    /// Divide the work into this many units, 1 to 10000, but at most one per item
    #[arg(long, value_name = "UNITS", default_value_t = 16,
        value_parser = clap::value_parser!(u64).range(1..=MAX_UNITS))]
    units: u64,
}

/// Run units and publish their results
///
/// A unit with a complete result is skipped. Several processes may run the same unit. If a unit
/// gets no result, the exit status is 1; run that unit again.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Read the plan in this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Run the units with these numbers, from 0
    #[arg(value_name = "UNIT", required = true)]
    units: Vec<u64>,
    #[command(flatten)]
    sandbox: SandboxArgs,
}

/// Write the results of all units to one file, or build the index from them
///
/// Compares every result with its digest first; if a result is missing or damaged, writes nothing
/// and exits with status 1. If items failed, lists them and exits with status 1. Units that embed
/// replace the vectors of the installed dataset's index; if the index has no words yet, they are
/// added. Units that read words replace the words of the index and keep its vectors.
#[derive(Debug, clap::Args)]
pub(super) struct CollectArgs {
    /// Read the plan in this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Write answers or rankings to this file; not allowed for units that make an index
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Item of a unit of rankings: a labelled query without its answers, which units do not need.
#[derive(Serialize, Deserialize)]
struct Query {
    id: i64,
    query: String,
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::Plan(args) => plan(&args, ctx),
        Command::Run(args) => work::run(&args, ctx),
        Command::Collect(args) => collect(&args, ctx),
        Command::Work(args) => worker::work(&args, ctx),
    }
}

fn plan(args: &PlanArgs, ctx: &Context) -> Result<Exit> {
    let units = match (&args.bundle, &args.batch, &args.system, &args.index) {
        (Some(bundle), Some(batch), ..) => plan_answers(args, bundle, batch, ctx)?,
        (_, _, Some(system), _) => plan_rankings(args, system, ctx)?,
        (.., Some(dataset)) if args.words => words::plan(args, dataset, ctx)?,
        (.., Some(dataset)) => embed::plan(args, dataset, ctx)?,
        _ => Units::open(&args.dir)
            .hint("give --bundle B --batch FILE, --dataset N --split S --system S, or --index N")?,
    };
    let remaining = units.remaining();
    let (n, all, dir) = (count(remaining.len() as u64), count(units.len()), args.dir.display());
    let out = if args.index.is_some() { "" } else { " --out FILE" };
    ctx.watch.notice(&match remaining.is_empty() {
        true => {
            format!("all {all} units are done; collect them with `agent unit collect {dir}{out}`")
        }
        false => format!("{n} of {all} units remain; run each with `agent unit run {dir} UNIT`"),
    });
    ctx.printer.data(&remaining.iter().map(|unit| format!("{unit}\n")).collect::<String>())
}

/// Plans units in which the bundle `given` answers the questions in the file `batch`.
fn plan_answers(args: &PlanArgs, given: &Path, batch: &Path, ctx: &Context) -> Result<Units> {
    let bundle = read_bundle(given, None, ctx)?;
    let bytes = read(&named::bundle_file(given, None, ctx)?)?;
    let found = dataset::chosen(args.dataset.as_deref(), &bundle.dataset.name, ctx)?;
    let (dataset, fingerprint) = named_index(&found, ctx)?;
    if bundle.dataset.index != fingerprint {
        let made_for = &bundle.dataset.name;
        return Err(anyhow!("the bundle was made for \"{made_for}\", not for {dataset}"))
            .hint("give the dataset that the bundle was made for");
    }
    let text = files::read_text(batch, MAX_INPUT_BYTES);
    let text = text.with_context(|| format!("cannot read {}", batch.display()))?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Some(at) = lines.iter().position(|line| line.len() as u64 > MAX_LINE_BYTES) {
        let at = at + 1;
        return refused(format!(
            "line {at} of the questions has more than {MAX_LINE_BYTES} bytes; write one question \
             per line"
        ));
    }
    let task = Task { dataset, fingerprint, kind: Kind::Answer { k: args.k as usize } };
    Ok(Units::plan(&args.dir, &task, &lines, args.units, Some(("bundle.json", &bytes)))?)
}

/// Plans units in which the system `given` ranks nodes for labelled queries.
fn plan_rankings(args: &PlanArgs, given: &str, ctx: &Context) -> Result<Units> {
    let full = named::system(given, args.dataset.as_deref(), ctx)?;
    let own_file =
        [BUNDLE, PROGRAM].into_iter().find_map(|kind| Some((kind, full.strip_prefix(kind)?)));
    let (system, file) = match own_file {
        Some((kind, path)) => {
            let path = Path::new(path);
            let module = path.extension().is_some_and(|end| end.eq_ignore_ascii_case(MODULE));
            let name = match (kind, module) {
                (BUNDLE, _) => "bundle.json",
                (_, true) => "program.wasm",
                (_, false) => "program.rhai",
            };
            (kind.to_owned(), Some((name, read(path)?)))
        }
        None => (travels(&full).map(|()| full.clone())?, None),
    };
    let found = dataset::find(args.dataset.as_deref().unwrap_or_default(), ctx)?;
    let (dataset, fingerprint) = named_index(&found, ctx)?;
    let queries = queries::load(&args.split, &[], &found.base)?;
    let line = |one: &LabelledQuery| {
        Ok(serde_json::to_string(&Query { id: one.id, query: one.text.clone() })?)
    };
    let lines = queries.iter().map(line).collect::<Result<Vec<String>>>()?;
    let kind = Kind::Rank { system, tag: tag(given), depth: args.depth as usize };
    let task = Task { dataset, fingerprint, kind };
    let file = file.as_ref().map(|(name, bytes)| (*name, bytes.as_slice()));
    let is_new = !args.dir.exists();
    let units = Units::plan(&args.dir, &task, &lines, args.units, file)?;
    if is_new && test_split::is_among(&args.split) {
        test_split::count(&found.base, ctx);
    }
    Ok(units)
}

/// Checks that a system, and every system nested in its name, needs only the index of the base, so
/// that a unit can run it on any host.
fn travels(name: &str) -> Result<()> {
    systems::find(name)?;
    let starts = name.char_indices().filter(|(_, c)| [':', '='].contains(c));
    let within = starts.map(|(at, _)| &name[at + 1..]);
    for part in [name].into_iter().chain(within) {
        let needs = systems::find(part).map_or(&[][..], |(spec, _)| spec.needs);
        if let Some(need) = needs.iter().find(|need| !matches!(need, Need::Part(_))) {
            return refused(format!("units cannot run {name}: it needs a {need}")).hint(
                "units can run bundle:FILE, program:FILE, and systems that need only an index",
            );
        }
    }
    Ok(())
}

/// Returns the name of a dataset and the fingerprint of its index.
fn named_index(found: &Dataset, ctx: &Context) -> Result<(String, String)> {
    let base = dataset::open(found, ctx)?;
    Ok((found.base.name.clone(), base.fingerprint().to_owned()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let bytes = files::read(path, MAX_FILE_BYTES);
    Ok(bytes.with_context(|| format!("cannot read {}", path.display()))?)
}

/// Returns the task of a plan: the dataset and the work of its units.
///
/// # Errors
/// If the task cannot be read, or if its number of nodes is out of the bounds of the command line.
fn task_of(units: &Units) -> Result<Task> {
    let task = serde_json::from_value(units.task().clone());
    let dir = units.dir().display();
    let task: Task = task.with_context(|| format!("cannot read the task of the plan in {dir}"))?;
    let (name, n, max) = match &task.kind {
        Kind::Answer { k } => ("k", *k as u64, MAX_K),
        Kind::Rank { depth, .. } => ("depth", *depth as u64, MAX_DEPTH),
        Kind::Embed { .. } | Kind::Words { .. } | Kind::Evaluate { .. } => return Ok(task),
    };
    if !(1..=max).contains(&n) {
        return Err(anyhow!("{name} of the plan in {dir} is {n}, not 1 to {max}"))
            .hint("plan the units again, in a new directory");
    }
    Ok(task)
}

/// Adds a hint on how to run the units without results if `result` is the error that results are
/// missing.
fn to_be_run<T>(result: Result<T, UnitsError>, dir: &Path) -> Result<T> {
    match result {
        Err(error @ UnitsError::Missing { .. }) => {
            let dir = dir.display();
            Err(error).hint(format!(
                "`agent unit plan {dir}` prints them; run them with `agent unit run {dir} UNIT`"
            ))
        }
        result => Ok(result?),
    }
}

fn collect(args: &CollectArgs, ctx: &Context) -> Result<Exit> {
    let units = Units::open(&args.dir)?;
    let task = task_of(&units)?;
    let file = match (&task.kind, &args.out) {
        (Kind::Evaluate { .. }, _) => {
            return Err(anyhow!("these units belong to a run; the run collects their results"))?;
        }
        (Kind::Embed { vectors }, None) => {
            return embed::collect(&args.dir, &units, &task, vectors, ctx);
        }
        (Kind::Words { format }, None) => {
            return words::collect(&args.dir, &units, &task, *format, ctx);
        }
        (Kind::Embed { .. } | Kind::Words { .. }, Some(_)) => {
            return refused("--out is for answers and rankings; these units make an index");
        }
        (_, None) => return refused("name the output file with --out"),
        (_, Some(file)) => file,
    };
    check_form(&units, &task, ctx)?;
    let shown = file.display();
    let begun = files::begin_output(file, ".collected-");
    let (mut out, file) = begun.with_context(|| format!("cannot write {shown}"))?;
    if file.exists() && is_in(&file, &args.dir) {
        let dir = args.dir.display();
        return refused(format!(
            "{shown} is a file of the units; write to a file outside of {dir}"
        ));
    }
    let collected = to_be_run(units.collect(&mut out), &args.dir)?;
    out.persist(file).with_context(|| format!("cannot write {shown}"))?;
    let (n, bytes) = (count(units.len()), count(collected.bytes));
    ctx.watch.notice(&format!("wrote {bytes} bytes of {n} units to {shown}"));
    for failure in collected.failures.iter().take(MAX_TOLD) {
        ctx.watch.warning(failure);
    }
    if collected.failed == 0 {
        return Ok(Exit::Done);
    }
    ctx.printer.error(&format!("{} items failed; see the output file", count(collected.failed)));
    Ok(Exit::Failed)
}

/// Whether a file lies in a directory or below it.
fn is_in(file: &Path, dir: &Path) -> bool {
    let pair = (fs::canonicalize(file), fs::canonicalize(dir));
    matches!(pair, (Ok(file), Ok(dir)) if file.starts_with(&dir))
}

/// Checks the format of all results that exist; missing results are not an error.
fn check_form(units: &Units, task: &Task, ctx: &Context) -> Result<()> {
    let bundle = match &task.kind {
        Kind::Answer { .. } => units.file()?.as_deref().map(carried).transpose()?,
        _ => None,
    };
    let base = base_here(task, ctx);
    let known = form::Known {
        kind: &task.kind,
        bundle: bundle.as_ref().map_or("", |bundle| bundle.digest.as_str()),
        kb: base.as_ref().map(|base| &base.kb),
    };
    for unit in 0..units.len() {
        let (first, items) = units.items(unit)?;
        // The collection reports missing results.
        let Some(bytes) = units.read(unit, MAX_INPUT_BYTES) else { continue };
        let file = units.result(unit);
        known
            .check(first, &items, &bytes)
            .map_err(|why| anyhow!("{} is not a result of unit {unit}: {why}", file.display()))
            .hint("remove the file, and run the unit again")?;
    }
    Ok(())
}

/// Opens the base with the index that a task names, if it is installed here.
fn base_here(task: &Task, ctx: &Context) -> Option<IndexedBase> {
    let base = dataset::open_index(&ctx.home.get(&task.dataset).ok()?, ctx).ok()?;
    (base.fingerprint() == task.fingerprint).then_some(base)
}

/// Reads the bundle that is stored in a plan.
fn carried(path: &Path) -> Result<Bundle> {
    Ok(Bundle::read(path).map_err(systems::SystemError::from)?)
}

/// Plans units that each process one range of nodes of `ranges`.
fn plan_nodes(args: &PlanArgs, task: &Task, ranges: &[Range<NodeId>]) -> Result<Units> {
    let lines = ranges.iter().map(serde_json::to_string).collect::<serde_json::Result<Vec<_>>>()?;
    Ok(Units::plan(&args.dir, task, &lines, lines.len() as u64, None)?)
}

/// Returns the range of nodes that a unit processes.
fn nodes_of(units: &Units, unit: u64, kb: &Kb) -> Result<Range<NodeId>> {
    let (_, items) = units.items(unit)?;
    let range = items.first().and_then(|item| serde_json::from_str(item).ok());
    let range = range.filter(|range: &Range<NodeId>| range.end <= kb.n_nodes());
    Ok(range.context("a unit of the plan is not a range of nodes of this base")?)
}

/// Opens the version of a dataset with the fingerprint that the plan names: the pending version or,
/// if that does not match, the installed version.
fn planned(task: &Task, ctx: &Context) -> Result<(Base, Kb)> {
    let served = dataset::installed(&task.dataset, ctx)?.base;
    let next = ctx.home.pending_version(&served.name)?;
    for base in next.into_iter().chain([served]) {
        let kb = Kb::open(&base.kb_dir())?;
        if kb.fingerprint() == task.fingerprint {
            return Ok((base, kb));
        }
    }
    let name = &task.dataset;
    Err(anyhow!("\"{name}\" differs from the plan"))
        .hint("import the same data on every machine, or plan again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_asks_for_as_many_nodes_as_the_command_line_allows() {
        let dir = tempfile::tempdir().unwrap();
        let rank = |depth| {
            let (system, tag) = ("bm25".to_owned(), "tag".to_owned());
            Kind::Rank { system, tag, depth }
        };
        let kinds = [
            (Kind::Answer { k: 1 }, true),
            (Kind::Answer { k: MAX_K as usize }, true),
            (Kind::Answer { k: 0 }, false),
            (Kind::Answer { k: usize::MAX }, false),
            (rank(MAX_DEPTH as usize), true),
            (rank(0), false),
            (rank(MAX_DEPTH as usize + 1), false),
        ];
        for (at, (kind, is_allowed)) in kinds.into_iter().enumerate() {
            let shown = format!("{kind:?}");
            let task = Task { dataset: "shop".into(), fingerprint: "f".into(), kind };
            let dir = dir.path().join(at.to_string());
            let units = Units::plan(&dir, &task, &["item".to_owned()], 1, None).unwrap();
            assert_eq!(task_of(&units).is_ok(), is_allowed, "{shown}");
        }
    }
}
