//! `agent optimize`: runs the loop on a dataset and shows how it goes.
//! The test split is opened where that is asked for, after the bundle is frozen, to measure it.

mod report;

use std::{
    collections::HashSet,
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
    Context, Exit,
    optimize::report::Report,
    printer::{Level, Printer},
    report as page,
    unit::Pool,
};
use agent_app::{
    App, Plan, dataset,
    error::{AppError, Explain, Result},
    llm::{self, LlmArgs},
    optimize::{
        events::{first_better, tested},
        pause,
        programs::{PROGRAMS, go_on_with, read_programs},
        timing::Stopwatch,
    },
    routing, synthesize, synthetic,
    systems::SandboxArgs,
    text::{count, p_value},
};
use agent_dataset::{
    Base, DatasetError, Home, LabelledQuery, ResolvedDataset, Split, is_synthetic, load_split,
    sample::SampleKind,
};
use agent_index::IndexedBase;
use agent_kb::Kb;
use agent_optimize::{
    self as optimize, ACTOR_ROLE, Ablation, Actors, Estimate, Event, Inputs, OptimizeError,
    Options, Outcome, Stop,
    asks::max_runs,
    journal::{DATABASE_FILE, Journal},
    mine::{DEFAULT_HOPS, MAX_HOPS},
    record::timing::Timing,
    trial::Evaluators,
    user::{self, UserProgram},
};
use agent_sandbox::{Origin, Place, SandboxOptions};
use agent_tools::Assistant;

/// Seed when none is given.
const SEED: u64 = 1;
/// Steps of the search actor when none are given.
const STEPS: usize = 24;
/// Steps of the model in every category when none are given, unless those of the search actor are
/// fewer.
const LLM_STEPS: usize = 3;
/// The parts of a run in their order, with about what share of its time each takes; those that a run
/// does not have count as done once a later one begins.
const STAGES: Plan = &[
    ("asking the model", 0.5),
    ("reading queries", 2.0),
    ("mining metapaths", 8.0),
    ("trying plans", 30.0),
    ("building categories", 4.0),
    ("trying your programs", 4.0),
    ("finding categories", 1.0),
    ("writing programs", 2.0),
    ("training the router", 2.0),
    ("improving programs", 25.0),
    ("tuning parameters", 15.0),
    ("testing on validation", 3.0),
    ("measuring and freezing", 8.0),
];
/// Labelled questions of a split below which hardly anything can be learnt or told from chance.
const FEW_QUERIES: usize = 30;
/// Default run directories of one dataset.
const MAX_RUNS: usize = 9_999;

/// Find, prove and freeze retrieval programs for a dataset
///
/// The search actor mines metapaths from training answers, composes programs from them and improves
/// them; the llm actor asks a language model for categories, programs and better programs. Both take
/// part where a language model is configured, and the search actor alone where none is. All
/// improvements together, and else those of each category, sequential test against the programs the
/// run began with, on the validation split; what the sequential test proves is frozen, with an
/// error rate of 0.2 over the whole run. Ends with
/// how the bundle stands against the best baseline on the validation split, by kind of question, and
/// with its place. The test split is opened with --test only, and on built-in samples; every opening
/// is counted. The run can be interrupted at any time and continued with --resume. A language model
/// is asked one short question first: where it gives no answer the run is paused, nothing is frozen,
/// and --resume goes on with it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, directory in neutral format, or built-in sample (amazon, mag, prime)
    #[arg(long, value_name = "N")]
    dataset: String,
    /// Who proposes programs [default: `search,llm` where a language model is configured, else
    /// `search`]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ACTORS")]
    actor: Vec<Actor>,
    /// Let no program call functions that ask a model, so that answering with the bundle never does
    #[arg(long)]
    no_llm_tools: bool,
    /// Let them, which is so without this as well
    #[arg(long, conflicts_with = "no_llm_tools")]
    llm_tools: bool,
    /// Tell models of the AvaTaR functions too, which take one node or lists of nodes; programs may
    /// always call them
    #[arg(long)]
    avatar_tools: bool,
    /// Steps of improvement by the model in every category [default: 3, or --steps if that is less]
    #[arg(long, value_name = "K")]
    llm_steps: Option<usize>,
    #[command(flatten)]
    llm: LlmArgs,
    /// Try this program of yours (.rhai or .wasm) beside those that are found; may be repeated, at
    /// most 32 times
    #[arg(long, value_name = "FILE")]
    program: Vec<PathBuf>,
    /// Leave out a part, to measure what it is worth; may be repeated
    #[arg(long, value_enum, value_name = "PART")]
    without: Vec<Part>,
    /// Seed of every random choice [default: 1]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Steps of improvement by the search actor after the categories are found [default: 24]
    #[arg(long, value_name = "K")]
    steps: Option<usize>,
    /// Mine metapaths of at most this many relations from what a query names to its answers
    /// [default: 2]
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u64).range(2..=MAX_HOPS as u64))]
    hops: Option<u64>,
    /// Begin no further step after this many minutes; the best so far is frozen
    #[arg(long, value_name = "M")]
    budget_minutes: Option<f64>,
    /// Keep the run in this directory [default: a new one in the home directory]
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Continue the run in --run, or the latest one of the dataset
    #[arg(long)]
    resume: bool,
    /// Measure the frozen bundle and all baselines on the test split too, which counts as an opening
    /// of it; built-in samples always do
    #[arg(long)]
    test: bool,
    /// For a dataset without labelled questions: make 500 first, as `agent data synthesize` does
    #[arg(long)]
    synthesize: bool,
    /// Say what would be done and what it would cost, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Run programs on this many threads [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Let other processes run programs too: those of `agent unit work DIR`; the result does not
    /// depend on them
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    pool: Option<PathBuf>,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// At the end, write the page of the run and open it in a browser; `agent serve` shows the run
    /// while it goes on
    #[arg(long, conflicts_with = "dry_run")]
    open: bool,
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

/// A part that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Metapaths from training answers; only search by words is left
    Mining,
    /// Other values of parameters than the declared ones
    Tuning,
    /// What misses a metapath; only nodes that all metapaths reach are ranked
    Relaxation,
    /// What a query says; all go where most are answered best
    Router,
    /// Kept answers of tool calls; changes the time alone
    Cache,
    /// Changes of programs after the categories are found
    Mutation,
}

impl From<Part> for Ablation {
    fn from(part: Part) -> Self {
        match part {
            Part::Mining => Self::Mining,
            Part::Tuning => Self::Tuning,
            Part::Relaxation => Self::Relaxation,
            Part::Router => Self::Router,
            Part::Cache => Self::Cache,
            Part::Mutation => Self::Mutation,
        }
    }
}

/// The parts that are left out, ascending, each once.
fn without(args: &Args) -> Vec<Ablation> {
    let mut parts: Vec<Ablation> = args.without.iter().map(|&part| part.into()).collect();
    parts.sort_unstable();
    parts.dedup();
    parts
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    check(args)?;
    let programs = read_programs(&args.program, args.sandbox, args.dry_run, ctx)?;
    if args.dry_run {
        return dry_run(args, ctx);
    }
    // A model that is not there must not cost an import, an index or a run.
    let new = new_actors(args, ctx)?;
    let configured = match !args.resume && new.llm || args.actor.contains(&Actor::Llm) {
        true => Some(
            llm::check(&args.llm, ctx)
                .hint("or use --actor search, which needs no language model")?,
        ),
        false => None,
    };
    let mut dataset = dataset::find(&args.dataset, ctx)?;
    with_questions(&mut dataset, args, ctx)?;
    let train = load_split(&dataset.base, &Split::Train)?;
    let validation = load_split(&dataset.base, &Split::Val)?;
    optimize::check_queries(&train, &validation)?;
    let base = dataset::open(&dataset, ctx)?;
    let pool = match &args.pool {
        Some(dir) => Some(Pool::open(dir, (&dataset.base.name, &base), ctx)?),
        None => None,
    };
    let (dir, mut journal) =
        open_run(args, new, &dataset.base, configured.as_ref(), &programs, ctx)?;
    let options = options(args, &dataset.base, &dir, &journal, ctx)?;
    let opened = match options.actors.llm {
        true => Some(open_llm(args, &journal, ctx)?),
        false => None,
    };
    let threads = args.threads.map_or_else(default_threads, NonZeroUsize::get);
    let printer = &ctx.printer;
    printer.notice(&format!(
        "optimizing \"{}\" with {}, seed {}: {} training and {} validation queries; the run is \
         kept in {}",
        dataset.base.name,
        told(&options, opened.as_ref(), validation.len()),
        options.seed,
        train.len(),
        validation.len(),
        dir.display()
    ));
    if is_synthetic(&train) || is_synthetic(&validation) {
        printer.notice(synthetic::TOLD);
    }
    warn_of_few(train.len(), validation.len(), printer);
    warn_of_shared(&train, &validation, printer);
    let began = Instant::now();
    let mut stopwatch = Stopwatch::start(&dir);
    let assistant = opened.as_ref().map(|opened| opened.assistant.clone());
    let resume = format!(
        "continue with `agent optimize --dataset {} --run {} --resume`",
        args.dataset,
        dir.display()
    );
    let kept = format!("everything done so far is kept; {resume}");
    ctx.farewell.set(&kept);
    let asked = validation.clone();
    let outcome = watched(
        &base,
        assistant,
        train,
        validation,
        &options,
        &dir,
        &mut journal,
        threads,
        pool.as_ref(),
        &mut stopwatch,
        ctx,
    );
    pool.iter().for_each(Pool::tell);
    drop(pool);
    let timing = stopwatch.stop();
    print_times(&timing, printer);
    let resume = format!(
        "continue with `agent optimize --dataset {} --run {} --resume`",
        args.dataset,
        dir.display()
    );
    if let Err(error) = &outcome
        && error.is_outage()
    {
        opened.iter().try_for_each(|opened| opened.finish(ctx))?;
        return paused(&error.to_string(), &dir, args, ctx).hint(resume);
    }
    let done = outcome.map_err(AppError::from).and_then(|outcome| {
        let seconds = began.elapsed().as_secs_f64();
        let (hits, misses) = outcome.cache;
        printer.detail(&format!("{hits} of {} tool calls came from the cache", hits + misses));
        let (hits, misses) = outcome.tuning_cache;
        printer.detail(&format!("while parameters were tuned: {hits} of {}", hits + misses));
        let trials = routing::trials(&journal)?;
        let router = routing::calibrated(&outcome.bundle, &base, &asked, &trials);
        let trust = ctx.private.trust();
        if trust.place(Origin::Run(&dir.join(DATABASE_FILE))) == Place::Process {
            trust.keep(Origin::Bundle(&outcome.bundle.digest));
        }
        let test = match args.test || dataset.is_sample() {
            true => report::on_test(
                &outcome.bundle,
                &base,
                &dataset.base,
                opened.as_ref().map(|opened| opened.assistant.clone()),
                (threads, &options.sandbox),
                ctx,
            ),
            false => Ok(None),
        };
        if let Some(opened) = &opened {
            opened.finish(ctx)?;
        }
        let spent = opened.as_ref().map(|opened| opened.assistant.llm().ledger().total());
        let spent = spent.unwrap_or_default();
        let test = test?;
        if args.test && test.is_none() {
            let why = "has no test questions that nodes answer, so --test measures nothing";
            printer.notice(&format!("\"{}\" {why}", dataset.base.name));
        }
        let report = Report {
            dataset: &args.dataset,
            dir: &dir,
            outcome: &outcome,
            test,
            seconds,
            timing: &timing,
            router,
            spent,
        };
        if args.json {
            report.print_json(ctx)?
        } else {
            report.print(ctx)?
        }
        if args.open {
            page::open(&dir, args.sandbox, ctx)?;
        }
        Ok(outcome.stopped.clone())
    });
    match done {
        Ok(Stop::Done | Stop::Minutes) => Ok(Exit::Done),
        Ok(Stop::Budget(why)) => {
            printer.warning(&format!("{why}; the best so far is frozen"));
            Ok(Exit::Done)
        }
        Ok(Stop::Unusable(why)) => Err(anyhow!("{why}; the best so far is frozen"))
            .hint("begin another run with another model, or without one"),
        Err(_) if ctx.stop.load(Ordering::Relaxed) => Err(anyhow!("{kept}").into()),
        Err(error) => Err(error),
    }
}

/// A dataset without questions gets some if that is wanted; labels of the user's own stay.
fn with_questions(dataset: &mut dataset::Dataset, args: &Args, ctx: &Context) -> Result<()> {
    let name = dataset.base.name.clone();
    match (dataset.base.record.n_queries, args.synthesize) {
        (0, true) => {
            let base = dataset::open(dataset, ctx)?;
            dataset.base = synthesize::for_base(&dataset.base, &base, ctx)?;
            Ok(())
        }
        (0, false) => Err(no_questions(&name)),
        (_, true) => {
            ctx.printer.notice(&format!("\"{name}\" has questions already, which are used"));
            Ok(())
        }
        (_, false) => Ok(()),
    }
}

/// A dataset has no questions to learn from.
fn no_questions(name: &str) -> AppError {
    let error: Result<()> = Err(anyhow!("\"{name}\" has no labelled questions")).hint(format!(
        "make some with `agent data synthesize {name}`, or at once with --synthesize; or label your \
         own in qa.csv and split/ and import it again"
    ));
    error.err().unwrap_or_else(|| anyhow!("no labelled questions").into())
}

/// A run whose service gave no answer: it says so, and waits.
fn paused(why: &str, dir: &Path, args: &Args, ctx: &Context) -> Result<Exit> {
    pause::note(dir, why)?;
    if args.json {
        ctx.printer.json(&serde_json::json!({ "run": dir, "stopped": "paused", "why": why }))?;
    }
    Err(anyhow!("paused: {why}; nothing is frozen, and everything done so far is kept").into())
}

/// Warns where labelled questions are too few to learn from, or to tell anything by.
fn warn_of_few(n_train: usize, n_validation: usize, printer: &Printer) {
    if n_train.min(n_validation) < FEW_QUERIES {
        printer.warning(&format!(
            "{n_train} training and {n_validation} validation questions are few: programs may fit \
             these alone, and little can be proven; label at least {FEW_QUERIES} of each"
        ));
    }
}

/// Warns of validation questions that are training questions too, under another id: what is learnt
/// from one is then proven on it.
fn warn_of_shared(train: &[LabelledQuery], validation: &[LabelledQuery], printer: &Printer) {
    let learnt: HashSet<&str> = train.iter().map(|query| query.text.trim()).collect();
    let is_shared = |query: &&LabelledQuery| learnt.contains(query.text.trim());
    let n = validation.iter().filter(is_shared).count();
    if let Some(first) = validation.iter().find(is_shared) {
        printer.warning(&format!(
            "{n} of {} validation questions are training questions too, word for word, such as \
             question {}: what is learnt from them is proven on them; leave them out of one split",
            validation.len(),
            first.id
        ));
    }
}

/// Who proposes programs, in words.
fn told(options: &Options, opened: Option<&llm::Opened>, n_validation: usize) -> String {
    let model = opened.and_then(|opened| opened.assistant.llm().role(&ACTOR_ROLE.role()));
    let model = model.map_or("", |set| set.model.as_str());
    let mut words = match options.actors {
        Actors { llm: false, .. } => "the search actor (no language model)".to_owned(),
        Actors { search: false, .. } => format!("the llm actor (model {model})"),
        _ => format!("the search actor and the llm actor (model {model})"),
    };
    match options.programs.len() {
        0 => {}
        n => words += &format!(" and {n} of your programs"),
    }
    if options.llm_tools {
        words += &format!(
            ", whose programs may ask it too in {} runs at most (--no-llm-tools lets none)",
            max_runs(n_validation)
        );
    }
    words
}

/// The model, with the run's journal before it; what the run paid before counts again.
fn open_llm(args: &Args, journal: &Journal, ctx: &Context) -> Result<llm::Opened> {
    let replies = journal.replies()?;
    // A run goes on with the model that it was begun with, unless told otherwise.
    let begun = || journal.config().get("model")?.as_str().map(str::to_owned);
    let choice = LlmArgs { model: args.llm.model.clone().or_else(begun), ..args.llm.clone() };
    let opened = llm::open(&choice, Some(replies.clone()), ctx)?;
    for (_, exchange) in replies.exchanges()? {
        if exchange.paid {
            let (request, usage) = (exchange.request, exchange.reply.usage);
            opened.assistant.llm().ledger().paid(request.role.clone(), &request.model, usage);
        }
    }
    Ok(opened)
}

fn check(args: &Args) -> Result<()> {
    if args.budget_minutes.is_some_and(|minutes| !(minutes > 0.0 && minutes < 1e6)) {
        return Err(AppError::usage(anyhow!("--budget-minutes must be above 0")));
    }
    let searches = args.actor.is_empty() || args.actor.contains(&Actor::Search);
    let asks = args.actor.is_empty() || args.actor.contains(&Actor::Llm) || args.resume;
    if let Some(why) = optimize::ablation::conflict(&without(args), searches) {
        return Err(AppError::usage(anyhow!("{why}")));
    }
    if !asks && (args.llm_tools || args.avatar_tools || args.llm_steps.is_some()) {
        return Err(AppError::usage(anyhow!(
            "--llm-steps, --llm-tools and --avatar-tools are for the llm actor; add it with \
             --actor search,llm"
        )));
    }
    Ok(())
}

/// Who takes part in a new run.
///
/// # Errors
/// Wrong settings of a language model.
fn new_actors(args: &Args, ctx: &Context) -> Result<Actors> {
    if let Some(named) = actors(&args.actor) {
        return Ok(named);
    }
    let llm = !args.resume && llm::configured(ctx, args.llm.model.as_deref())?.is_some();
    Ok(Actors { search: true, llm })
}

/// Steps of the model in every category of a new run.
fn llm_steps(args: &Args) -> usize {
    args.llm_steps.unwrap_or_else(|| LLM_STEPS.min(args.steps.unwrap_or(STEPS)))
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// What a run would do. Without a language model nothing is asked and nothing costs.
#[derive(Serialize)]
struct DryRun<'a> {
    dataset: &'a str,
    n_train: usize,
    n_validation: usize,
    steps: usize,
    llm: Estimate,
}

/// A dataset that is not installed is read into a home that vanishes.
fn dry_run(args: &Args, ctx: &Context) -> Result<Exit> {
    let elsewhere = match ctx.home.resolve(&args.dataset) {
        Ok(ResolvedDataset::NewDirectory { .. }) => true,
        Err(DatasetError::UnknownName { .. }) => SampleKind::from_name(&args.dataset).is_some(),
        _ => false,
    };
    let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
    let dataset = if elsewhere {
        let printer = Arc::new(Printer::new(Level::Quiet));
        let app = App { stop: ctx.stop.clone(), ..App::new(Home::new(temporary.path()), printer) };
        dataset::find(&args.dataset, &app)?
    } else {
        dataset::find(&args.dataset, ctx)?
    };
    if dataset.base.record.n_queries == 0 {
        if !args.synthesize {
            return Err(no_questions(&dataset.base.name));
        }
        ctx.printer.data(&format!(
            "would make {} synthetic questions first, and then learn from them\n0 LLM calls, 0 USD \
             for the questions\n",
            synthesize::QUERIES
        ))?;
        return Ok(Exit::Done);
    }
    let train = load_split(&dataset.base, &Split::Train)?;
    let validation = load_split(&dataset.base, &Split::Val)?;
    optimize::check_queries(&train, &validation)?;
    let steps = args.steps.unwrap_or(STEPS);
    let (n_train, n_validation) = (train.len(), validation.len());
    let estimate = match new_actors(args, ctx)? {
        actors @ Actors { llm: true, .. } => {
            let opened = llm::open_unasked(&args.llm, ctx)?;
            let kb = Kb::open(&dataset.base.kb_dir())?;
            let options = Options {
                dataset: dataset.base.name.clone(),
                seed: args.seed.unwrap_or(SEED),
                steps,
                hops: DEFAULT_HOPS,
                llm_steps: llm_steps(args),
                actors,
                llm_tools: !args.no_llm_tools,
                avatar_tools: args.avatar_tools,
                programs: Vec::new(),
                sandbox: SandboxOptions::default(),
                without: without(args),
                budget: None,
            };
            optimize::estimate(&kb, &opened.assistant, &train, &validation, &options)
        }
        _ => Estimate::nothing(),
    };
    if args.json {
        let dataset = args.dataset.as_str();
        ctx.printer.json(&DryRun { dataset, n_train, n_validation, steps, llm: estimate })?;
        return Ok(Exit::Done);
    }
    let mut plan = format!(
        "would learn from {n_train} training queries, take {steps} steps and select on \
         {n_validation} validation queries\n"
    );
    if estimate.calls[1] == 0 {
        plan += "0 LLM calls, 0 USD";
    } else {
        let [least, most] = estimate.minutes;
        plan += &format!(
            "LLM calls {} to {}, tokens sent {} to {}, received {} to {}, {}, {least:.0} to {most:.0} \
             minutes of replies",
            estimate.calls[0],
            estimate.calls[1],
            count(estimate.tokens_in[0]),
            count(estimate.tokens_in[1]),
            count(estimate.tokens_out[0]),
            count(estimate.tokens_out[1]),
            match estimate.usd {
                Some([least, most]) => format!("{least:.2} to {most:.2} USD"),
                None => "price not known".to_owned(),
            },
        );
    }
    ctx.printer.data(&plan)?;
    Ok(Exit::Done)
}

/// The directory of the run and its journal.
fn open_run(
    args: &Args,
    new: Actors,
    base: &Base,
    configured: Option<&llm::Configured>,
    programs: &[UserProgram],
    ctx: &Context,
) -> Result<(PathBuf, Journal)> {
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
        let mut journal = Journal::resume(&dir)?;
        pause::lift(&dir);
        go_on_with(programs, &dir, &mut journal)?;
        note_authors(new, &dir, &journal, ctx)?;
        return Ok((dir, journal));
    }
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut config = serde_json::json!({
        "dataset": base.name,
        "seed": args.seed.unwrap_or(SEED),
        "steps": args.steps.unwrap_or(STEPS),
        "hops": args.hops.unwrap_or(DEFAULT_HOPS as u64),
        "without": without(args),
    });
    if let Some(configured) = configured {
        config["actor"] = new.names().into();
        config["llm_tools"] = (!args.no_llm_tools).into();
        config["llm_steps"] = llm_steps(args).into();
        config["avatar_tools"] = args.avatar_tools.into();
        config["model"] = configured.model(&ACTOR_ROLE.role()).into();
        config["prices"] = serde_json::json!(configured.settings.prices);
    }
    if !programs.is_empty() {
        config[PROGRAMS] = user::digest(programs).into();
    }
    let mut journal = Journal::create(&dir, &config)?;
    if !programs.is_empty() {
        user::store(&mut journal, programs)?;
    }
    if note_authors(new, &dir, &journal, ctx)? {
        ctx.private.trust().keep(Origin::Run(&dir.join(DATABASE_FILE)));
    }
    Ok((dir, journal))
}

/// Whether the search actor alone writes programs in a run; once somebody else does, it is forgotten
/// that the run was begun here.
fn note_authors(new: Actors, dir: &Path, journal: &Journal, ctx: &Context) -> Result<bool> {
    let begun = journal.config().get("actor").and_then(serde_json::Value::as_str);
    let asked = new.llm || begun.and_then(Actors::named).is_some_and(|actors| actors.llm);
    let alone = !asked && user::load(journal)?.is_empty();
    if !alone {
        ctx.private.trust().forget(Origin::Run(&dir.join(DATABASE_FILE)));
    }
    Ok(alone)
}

/// Who proposes when nobody is named.
const SEARCH_ONLY: Actors = Actors { search: true, llm: false };

/// The actors that were named; none if none were.
fn actors(named: &[Actor]) -> Option<Actors> {
    let has = |actor| named.contains(&actor);
    (!named.is_empty()).then(|| Actors { search: has(Actor::Search), llm: has(Actor::Llm) })
}

/// Options as given, or as the run was begun with.
fn options(
    args: &Args,
    base: &Base,
    dir: &Path,
    journal: &Journal,
    ctx: &Context,
) -> Result<Options> {
    let begun = |key: &str| journal.config().get(key).and_then(serde_json::Value::as_u64);
    let steps = args.steps.or(begun("steps").map(|steps| steps as usize)).unwrap_or(STEPS);
    let actors = actors(&args.actor)
        .or_else(|| Actors::named(journal.config().get("actor")?.as_str()?))
        .unwrap_or(SEARCH_ONLY);
    Ok(Options {
        dataset: base.name.clone(),
        seed: args.seed.or(begun("seed")).unwrap_or(SEED),
        steps,
        llm_steps: args
            .llm_steps
            .or(begun("llm_steps").map(|steps| steps as usize))
            .unwrap_or_else(|| LLM_STEPS.min(steps)),
        hops: args.hops.or(begun("hops")).map_or(DEFAULT_HOPS, |hops| hops as usize),
        actors,
        llm_tools: actors.llm
            && !args.no_llm_tools
            && journal.config().get("llm_tools").and_then(serde_json::Value::as_bool) == Some(true),
        avatar_tools: args.avatar_tools
            || journal.config().get("avatar_tools").and_then(serde_json::Value::as_bool)
                == Some(true),
        programs: user::load(journal)?,
        sandbox: args.sandbox.places(ctx)?.of(Origin::Run(&dir.join(DATABASE_FILE))),
        without: match args.without.is_empty() {
            false => without(args),
            true => journal
                .config()
                .get("without")
                .and_then(|parts| serde_json::from_value(parts.clone()).ok())
                .unwrap_or_default(),
        },
        budget: args.budget_minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0)),
    })
}

/// Runs the loop and shows its events.
#[expect(clippy::too_many_arguments, reason = "hands everything on to the loop")]
fn watched(
    base: &Arc<IndexedBase>,
    assistant: Option<Arc<Assistant>>,
    train: Vec<LabelledQuery>,
    validation: Vec<LabelledQuery>,
    options: &Options,
    dir: &Path,
    journal: &mut Journal,
    threads: usize,
    pool: Option<&Pool>,
    stopwatch: &mut Stopwatch,
    ctx: &Context,
) -> std::result::Result<Outcome, OptimizeError> {
    let printer: &Printer = &ctx.printer;
    let progress = printer.progress_of(&format!("optimizing {}", options.dataset), STAGES);
    let mut watch = |event: Event<'_>| match event {
        Event::Progress { phase, done, total } => {
            stopwatch.at(phase, done);
            progress.at(phase, done as u64, total as u64);
        }
        Event::Category { name, n, mrr, bound } => {
            let could = bound.map_or(String::new(), |bound| {
                let (recall, mrr) = (100.0 * bound.recall, 100.0 * bound.mrr);
                format!(
                    "; metapaths alone reach {recall:.0} % of the answers, mrr {mrr:.1} at most"
                )
            });
            let mrr = 100.0 * mrr;
            printer.notice(&format!("category: {name}: {n} training queries, mrr {mrr:.1}{could}"));
        }
        Event::Message(what) => printer.notice(&what),
        Event::Tested { name, change, difference, p, accepted } => {
            let verdict = if accepted { "kept" } else { "not kept" };
            // Rounded first, so that next to nothing is not shown as -0.
            let points = (1_000.0 * difference).round() / 10.0 + 0.0;
            printer.notice(&format!(
                "{verdict}: {change} in {name}: {points:+.1} on training, {}",
                p_value(p)
            ));
        }
        Event::Milestone(better) => {
            if let Some(better) = stopwatch.better(better) {
                printer.notice(&first_better(&better));
            }
        }
        Event::SequentialTest(proof) => printer.notice(&tested(proof)),
    };
    let base = base.clone();
    let (watch, stop) = (&mut watch, &ctx.stop);
    optimize::run(Inputs {
        base,
        assistant,
        train,
        validation,
        options,
        dir,
        journal,
        threads,
        evaluators: pool.map(|pool| pool as &dyn Evaluators),
        watch,
        stop,
    })
}

/// How long the parts of a run took, for the curious.
fn print_times(timing: &Timing, printer: &Printer) {
    for part in timing.summaries() {
        let steps = match part.steps {
            0 | 1 => String::new(),
            n => format!(", {n} steps, median {:.3} s, longest {:.3} s", part.median, part.longest),
        };
        printer.detail(&format!("{}: {:.2} s{steps}", part.name, part.seconds));
    }
}
