//! `agent optimize`: runs the loop on a dataset, shows how it goes, and what came of it.
//! The test split is opened once, after the bundle is frozen, to measure it.

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use serde::Serialize;

use crate::{
    bundle::{Bundle, CategoryScore},
    cli::{
        Context, Exit, dataset,
        eval::{self, Measured, percent},
        failure::{CommandError, Explain, Result},
        printer::{Level, Printer, table},
        systems::SandboxArgs,
    },
    dataset::{
        Base, DatasetError, Home, LabelledQuery, Resolved, Split, load_split, load_test,
        sample::SampleKind,
    },
    eval::{Metric, compare},
    index::IndexedBase,
    infer::{BundleRetriever, Runtime},
    optimize::{self, BUNDLE_FILE, Event, Options, Outcome, journal::Journal},
    retrieve::{Baseline, Retriever, System},
    sandbox::{Place, Workers},
};

/// Seed when none is given.
const SEED: u64 = 1;
/// Steps when none are given.
const STEPS: usize = 24;
/// Default run directories of one dataset.
const MAX_RUNS: usize = 9_999;

/// Find, prove and freeze retrieval programs for a dataset
///
/// Mines walks from training answers, composes programs from them, improves them and keeps what
/// the validation split proves. Ends with one table per pool and the place of the frozen bundle.
/// The run can be interrupted at any time and continued with --resume.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, directory in neutral format, or built-in sample (amazon, mag, prime)
    #[arg(long, value_name = "N")]
    dataset: String,
    /// Who proposes programs
    #[arg(long, value_enum, default_value_t = Actor::Search)]
    actor: Actor,
    /// Language model of the llm actor
    #[arg(long, value_name = "M")]
    model: Option<String>,
    /// Seed of every random choice [default: 1]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Steps of mutation after the categories are found [default: 24]
    #[arg(long, value_name = "K")]
    steps: Option<usize>,
    /// Spend at most this much on language models; the search actor spends nothing
    #[arg(long, value_name = "X")]
    budget_usd: Option<f64>,
    /// Use at most this many tokens of language models; the search actor uses none
    #[arg(long, value_name = "T")]
    budget_tokens: Option<u64>,
    /// Begin no further step after this many minutes; the best so far is frozen
    #[arg(long, value_name = "M")]
    budget_minutes: Option<f64>,
    /// Keep the run in this directory [default: a new one in the home directory]
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Continue the run in --run, or the latest one of the dataset
    #[arg(long)]
    resume: bool,
    /// Say what would be done and what it would cost, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Run programs on this many threads [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// End with one JSON object
    #[arg(long)]
    json: bool,
}

/// Who proposes programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Actor {
    /// Mines, mutates and tunes; needs no language model
    Search,
    /// Asks a language model
    Llm,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    check(args)?;
    if args.dry_run {
        return dry_run(args, ctx);
    }
    let dataset = dataset::find(&args.dataset, ctx)?;
    let train = load_split(&dataset.base, &Split::Train)?;
    let validation = load_split(&dataset.base, &Split::Val)?;
    optimize::check_queries(&train, &validation)?;
    let base = dataset::open(&dataset, ctx)?;
    let (dir, mut journal) = open_run(args, &dataset.base, ctx)?;
    let options = options(args, &dataset.base, &journal, ctx);
    let threads = args.threads.map_or_else(default_threads, NonZeroUsize::get);
    let printer = &ctx.printer;
    printer.notice(&format!(
        "optimizing \"{}\" with the search actor (no language model), seed {}: {} training and {} \
         validation queries; the run is kept in {}",
        dataset.base.name,
        options.seed,
        train.len(),
        validation.len(),
        dir.display()
    ));
    let began = Instant::now();
    let done = watched(&base, train, validation, &options, &dir, &mut journal, threads, ctx)
        .map_err(CommandError::from)
        .and_then(|outcome| {
            let seconds = began.elapsed().as_secs_f64();
            let (hits, misses) = outcome.cache;
            printer.detail(&format!("{hits} of {} tool calls came from the cache", hits + misses));
            let report = Report { args, dir: &dir, outcome: &outcome, seconds };
            report.print(&base, &dataset.base, threads, ctx)
        });
    match done {
        Ok(()) => Ok(Exit::Done),
        Err(_) if ctx.stop.load(Ordering::Relaxed) => Err(anyhow!(
            "everything done so far is kept; continue with `agent optimize --dataset {} --run {} \
             --resume`",
            args.dataset,
            dir.display()
        )
        .into()),
        Err(error) => Err(error),
    }
}

fn check(args: &Args) -> Result<()> {
    if args.actor == Actor::Llm || args.model.is_some() {
        return Err(anyhow!("no LLM configured: the llm actor is not built into this version"))
            .hint("leave out --actor and --model; the search actor needs no language model");
    }
    if args.budget_minutes.is_some_and(|minutes| !(minutes > 0.0 && minutes < 1e6)) {
        return Err(CommandError::usage(anyhow!("--budget-minutes must be above 0")));
    }
    Ok(())
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// What a run would do.
#[derive(Serialize)]
struct DryRun<'a> {
    dataset: &'a str,
    n_train: usize,
    n_validation: usize,
    steps: usize,
    llm_calls: u64,
    usd: f64,
}

/// A dataset that is not installed is read into a home that vanishes.
fn dry_run(args: &Args, ctx: &Context) -> Result<Exit> {
    let elsewhere = match ctx.home.resolve(&args.dataset) {
        Ok(Resolved::NewDirectory { .. }) => true,
        Err(DatasetError::UnknownName { .. }) => SampleKind::from_name(&args.dataset).is_some(),
        _ => false,
    };
    let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
    let dataset = if elsewhere {
        let (printer, stop) = (Arc::new(Printer::new(Level::Quiet)), ctx.stop.clone());
        dataset::find(&args.dataset, &Context { home: Home::new(temporary.path()), printer, stop })?
    } else {
        dataset::find(&args.dataset, ctx)?
    };
    let train = load_split(&dataset.base, &Split::Train)?;
    let validation = load_split(&dataset.base, &Split::Val)?;
    optimize::check_queries(&train, &validation)?;
    let steps = args.steps.unwrap_or(STEPS);
    let (n_train, n_validation) = (train.len(), validation.len());
    if args.json {
        let dataset = args.dataset.as_str();
        ctx.printer.json(&DryRun {
            dataset,
            n_train,
            n_validation,
            steps,
            llm_calls: 0,
            usd: 0.0,
        })?;
    } else {
        ctx.printer.data(&format!(
            "would mine {n_train} training queries, try up to 61 plans, take {steps} steps of \
             mutation and select on {n_validation} validation queries; 0 LLM calls, 0 USD"
        ))?;
    }
    Ok(Exit::Done)
}

/// The directory of the run and its journal.
fn open_run(args: &Args, base: &Base, ctx: &Context) -> Result<(PathBuf, Journal)> {
    let runs = ctx.home.path().join("runs");
    let numbered = |n: usize| runs.join(format!("{}-{n:04}", base.name));
    let dir = match (&args.run, args.resume) {
        (Some(dir), _) => dir.clone(),
        (None, true) => (1..=MAX_RUNS)
            .rev()
            .map(numbered)
            .find(|dir| dir.exists())
            .ok_or_else(|| anyhow!("there is no run of \"{}\" to resume", base.name))
            .hint("name it with --run DIR, or leave out --resume")?,
        (None, false) => (1..=MAX_RUNS)
            .map(numbered)
            .find(|dir| !dir.exists())
            .ok_or_else(|| anyhow!("{} holds {MAX_RUNS} runs of \"{}\"", runs.display(), base.name))
            .hint("remove some, or name another directory with --run DIR")?,
    };
    if args.resume {
        let journal = Journal::resume(&dir)?;
        return Ok((dir, journal));
    }
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let config = serde_json::json!({
        "dataset": base.name,
        "seed": args.seed.unwrap_or(SEED),
        "steps": args.steps.unwrap_or(STEPS),
    });
    let journal = Journal::create(&dir, &config)?;
    Ok((dir, journal))
}

/// Options as given, or as the run was begun with.
fn options(args: &Args, base: &Base, journal: &Journal, ctx: &Context) -> Options {
    let begun = |key: &str| journal.config().get(key).and_then(serde_json::Value::as_u64);
    // What a language model writes is not trusted.
    let place = match args.actor {
        Actor::Search => Place::Process,
        Actor::Llm => Place::Wasm,
    };
    let steps = args.steps.or(begun("steps").map(|steps| steps as usize)).unwrap_or(STEPS);
    Options {
        dataset: base.name.clone(),
        seed: args.seed.or(begun("seed")).unwrap_or(SEED),
        steps,
        sandbox: args.sandbox.options(place, ctx),
        budget: args.budget_minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0)),
    }
}

/// Runs the loop and shows its events.
#[expect(clippy::too_many_arguments, reason = "hands everything on to the loop")]
fn watched(
    base: &Arc<IndexedBase>,
    train: Vec<LabelledQuery>,
    validation: Vec<LabelledQuery>,
    options: &Options,
    dir: &Path,
    journal: &mut Journal,
    threads: usize,
    ctx: &Context,
) -> anyhow::Result<Outcome> {
    let printer: &Printer = &ctx.printer;
    let progress = printer.progress();
    let mut watch = |event: Event<'_>| match event {
        Event::Progress { phase, done, total } => progress.at(phase, done as u64, total as u64),
        Event::Category { name, n, mrr } => {
            printer
                .notice(&format!("category: {name}: {n} training queries, mrr {:.1}", 100.0 * mrr));
        }
        Event::Tested { name, change, difference, p, accepted } => {
            let verdict = if accepted { "accepted" } else { "not proven" };
            // Rounded first, so that next to nothing is not shown as -0.
            let points = (1_000.0 * difference).round() / 10.0 + 0.0;
            printer.notice(&format!(
                "{verdict}: {change} in {name}: {points:+.1} on validation, p {p:.3}"
            ));
        }
    };
    let base = base.clone();
    let outcome = optimize::run(
        base, train, validation, options, dir, journal, threads, &mut watch, &ctx.stop,
    )?;
    Ok(outcome)
}

/// What is told at the end of a run.
struct Report<'a> {
    args: &'a Args,
    dir: &'a Path,
    outcome: &'a Outcome,
    seconds: f64,
}

/// One category in the JSON at the end.
#[derive(Serialize)]
struct PrintedCategory<'a> {
    name: &'a str,
    n: usize,
    baseline: Option<f64>,
    baseline_name: Option<&'a str>,
    frozen: Option<f64>,
    difference: Option<f64>,
    ci95: Option<crate::eval::Interval>,
    program: &'a str,
}

impl Report<'_> {
    fn print(
        &self,
        indexed: &Arc<IndexedBase>,
        base: &Base,
        threads: usize,
        ctx: &Context,
    ) -> Result<()> {
        let bundle = &self.outcome.bundle;
        let path = self.dir.join(BUNDLE_FILE);
        if self.args.json {
            return self.print_json(bundle, &path, ctx);
        }
        let test = match base.record.splits.get("test") {
            Some(&n) if n > 0 => measure_on_test(bundle, indexed, base, threads, ctx)?,
            _ => Vec::new(),
        };
        print_categories(bundle, ctx)?;
        if !test.is_empty() {
            print_test(&test, ctx)?;
        }
        let baseline = bundle.validation.baselines.values().copied().fold(0.0, f64::max);
        ctx.printer.data(&format!(
            "\nvalidation mrr {:.1} against {:.1} of the best baseline (n = {})\nbundle: {}\n",
            100.0 * bundle.validation.mrr,
            100.0 * baseline,
            bundle.validation.n,
            path.display()
        ))?;
        ctx.printer.notice(&format!(
            "took {:.0} s; ask it: agent query --bundle {} --dataset {} \"...\" --explain",
            self.seconds,
            path.display(),
            self.args.dataset
        ));
        Ok(())
    }

    fn print_json(&self, bundle: &Bundle, path: &Path, ctx: &Context) -> Result<()> {
        let categories: Vec<PrintedCategory<'_>> = bundle
            .categories
            .iter()
            .map(|category| {
                let score = category.validation.as_ref();
                PrintedCategory {
                    name: &category.name,
                    n: score.map_or(0, |score| score.n),
                    baseline: score.map(|score| score.baseline_mrr),
                    baseline_name: score.map(|score| score.baseline.as_str()),
                    frozen: score.map(|score| score.mrr),
                    difference: score.map(|score| score.difference),
                    ci95: score.map(|score| score.ci95),
                    program: category.program.id(),
                }
            })
            .collect();
        ctx.printer.json(&serde_json::json!({
            "run": self.dir,
            "bundle": path,
            "seed": bundle.provenance.seed,
            "steps": bundle.provenance.steps,
            "categories": categories,
            "cost": { "calls": 0, "tokens_in": 0, "tokens_out": 0, "usd": 0.0, "seconds": self.seconds },
            "stopped": self.outcome.stopped,
        }))
    }
}

fn print_categories(bundle: &Bundle, ctx: &Context) -> Result<()> {
    let headings = ["category", "n", "best baseline", "mrr", "frozen", "mrr", "difference"];
    let mut rows = table(headings, &[1, 3, 5, 6]);
    for category in &bundle.categories {
        let mut row = vec![category.name.clone()];
        match &category.validation {
            Some(CategoryScore { n, baseline, baseline_mrr, mrr, difference, ci95 }) => {
                row.extend([
                    n.to_string(),
                    baseline.clone(),
                    format!("{:.1}", 100.0 * baseline_mrr),
                    category.program.short_id().to_owned(),
                    format!("{:.1}", 100.0 * mrr),
                    percent(*difference, *ci95),
                ])
            }
            None => row.extend(["0".to_owned(), "-".to_owned(), "-".to_owned()]),
        }
        rows.add_row(row);
    }
    ctx.printer.notice("validation, by the category a query is routed to; mrr in percent");
    ctx.printer.table(&rows)
}

/// The bundle and all baselines on the test split, the bundle last.
fn measure_on_test(
    bundle: &Bundle,
    indexed: &Arc<IndexedBase>,
    base: &Base,
    threads: usize,
    ctx: &Context,
) -> Result<Vec<Measured>> {
    let workers = Arc::new(Workers::new(threads).context("cannot start worker threads")?);
    let runtime = Arc::new(Runtime::new(indexed.clone(), workers, None));
    let frozen = BundleRetriever::new(runtime, bundle)?;
    let queries = load_test(base)?;
    let stand_in = Baseline::new(indexed.clone(), System::Hybrid);
    let mut measured = Vec::new();
    for system in System::ALL {
        let baseline = Baseline::new(indexed.clone(), system);
        measured.push(eval::measured(system.name(), &baseline, &stand_in, &queries, indexed, ctx)?);
    }
    measured.push(eval::measured(&frozen.name(), &frozen, &stand_in, &queries, indexed, ctx)?);
    Ok(measured)
}

fn print_test(measured: &[Measured], ctx: &Context) -> Result<()> {
    let Some((frozen, baselines)) = measured.split_last() else { return Ok(()) };
    let headings = ["system", "n", "hit@1", "recall@20", "mrr", "bundle better by (mrr)", "p"];
    let mut rows = table(headings, &[1, 2, 3, 4, 5, 6]);
    for one in baselines.iter().chain([frozen]) {
        let evaluation = &one.evaluation;
        let mut row = vec![one.system.clone(), evaluation.n.to_string()];
        for metric in [Metric::Hit1, Metric::Recall20, Metric::Mrr] {
            row.push(percent(evaluation.means.get(metric), evaluation.ci95.get(metric)));
        }
        if !std::ptr::eq(one, frozen) {
            let comparison = compare(&frozen.results, &one.results, Metric::Mrr, eval::SEED)?;
            row.push(percent(comparison.difference, comparison.ci95));
            row.push(format!("{:.4}", comparison.p));
        }
        rows.add_row(row);
    }
    ctx.printer.data("\n")?;
    ctx.printer.notice("test, opened once, after freezing; means in percent with 95 % intervals");
    ctx.printer.table(&rows)
}
