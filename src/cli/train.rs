//! `agent train`: learns the weights of a retriever from labelled queries, and keeps them as a model
//! in the home directory. Must not know how weights are learnt.

mod dense;
mod graph;

use agent_app::choice::choice;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use anyhow::anyhow;
use clap::Subcommand;
use serde::Serialize;

use crate::{Context, Exit, printer::table};
use agent_app::{
    dataset,
    error::{Explain, Result},
    named,
};
use agent_dataset::{LabelledQuery, Split, load_split};
use agent_index::IndexedBase;
use agent_train::{
    Progress as InEpochs, Record, Source, Task, TrainError, ValidationPoint,
    mfar::{self, Conditioning, CrossValidation, ModelInfo, Progress, Scorers, Settings, Variant},
};

/// Steps between two lines that say how far the weights are.
const TELL_EVERY: usize = 50;
/// Time between two lines that tell loss and rate within an epoch.
const BETWEEN_LOSSES: Duration = Duration::from_secs(30);
/// The parts of the work, with about what share of its time each takes.
const STAGES: agent_app::Plan = &[("queries", 2.0), ("choosing", 8.0), ("learning", 1.0)];

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Learn how much each field of a node says, given the query (mFAR)
    ///
    /// Training queries teach; validation queries say after which step to stop; what the weights of a
    /// query depend on is chosen by cross-validation over training queries. The same dataset, queries,
    /// seed and options give the same model. Needs `agent index N --with fields`.
    Mfar(MfarArgs),
    /// Learn vectors of queries and nodes, so that a query is near to what answers it (DPR, ANCE)
    ///
    /// Training queries teach, and queries that are made of documents; validation queries say after
    /// which epoch to stop. The same dataset, queries, seed and options give the same model. Ctrl-C
    /// leaves a checkpoint, and --resume goes on from it to the same model.
    Dense(dense::DenseArgs),
    /// Learn to order nodes by the graph around the query (QAGNN)
    ///
    /// Training queries teach; validation queries say after which epoch to stop. The same dataset,
    /// queries, seed and options give the same model. Ctrl-C leaves a checkpoint, and --resume goes on
    /// from it to the same model.
    Graph(graph::GraphArgs),
}

/// What every training is told.
#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(long, value_name = "N")]
    dataset: String,
    /// Call the model so [default: the kind of model, - and the name of the dataset]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Replace a model of that name
    #[arg(long)]
    force: bool,
    /// Print the record as JSON
    #[arg(long)]
    json: bool,
}

/// What every training begins with.
struct Begun {
    name: String,
    dir: PathBuf,
    base: Arc<IndexedBase>,
    train: Vec<LabelledQuery>,
    val: Vec<LabelledQuery>,
    source: Source,
    began: Instant,
}

impl Begun {
    /// Training in epochs, with a checkpoint.
    fn task<'a, S>(&'a self, settings: &'a S, checkpoint: &'a Path, resume: bool) -> Task<'a, S> {
        let Self { dir, base, train, val, source, .. } = self;
        Task { base, source, train, val, settings, dir, checkpoint, resume }
    }
}

impl CommonArgs {
    /// Opens the base and its queries; `kind` begins the name of a model that has none.
    fn begin(&self, kind: &str, ctx: &Context) -> Result<Begun> {
        let dataset = dataset::find(&self.dataset, ctx)?;
        let known = &dataset.base.name;
        let name = self.name.clone().unwrap_or_else(|| format!("{kind}-{known}"));
        let dir = named::new_model_dir(&name, &ctx.home)?;
        if dir.exists() && !self.force {
            return Err(anyhow!("there is a model {name:?} already"))
                .hint("replace it with --force, or give another --name");
        }
        let base = dataset::open(&dataset, ctx)?;
        let began = Instant::now();
        let [train, val] =
            [Split::Train, Split::Val].map(|split| load_split(&dataset.base, &split));
        let (train, val) = (train?, val?);
        let source = Source::new(known, base.kb.fingerprint(), &train, &val);
        Ok(Begun { name, dir, base, train, val, source, began })
    }

    /// Says what was learnt: the record as JSON, or lines made of it.
    fn end<M: Serialize>(
        &self,
        begun: &Begun,
        record: &Record<M>,
        lines: &str,
        ctx: &Context,
    ) -> Result<Exit> {
        let Begun { name, source, .. } = begun;
        let eval = format!(
            "measure it: agent eval --dataset {} --split val --system {}:{name}",
            source.dataset, record.system
        );
        self.end_with(begun, record, lines, &[eval], ctx)
    }

    /// The same, with what can be done then.
    fn end_with<M: Serialize>(
        &self,
        begun: &Begun,
        record: &Record<M>,
        lines: &str,
        then: &[String],
        ctx: &Context,
    ) -> Result<Exit> {
        let Begun { name, dir, began, .. } = begun;
        let seconds = began.elapsed().as_secs_f64();
        if self.json {
            let directory = dir.display().to_string();
            ctx.printer.json(&Printed { name, directory, seconds, record })?;
            return Ok(Exit::Done);
        }
        ctx.printer.data(lines)?;
        ctx.printer.notice(&format!("wrote the model to {} in {seconds:.1} s", dir.display()));
        then.iter().for_each(|line| ctx.printer.notice(line));
        Ok(Exit::Done)
    }
}

/// The parts of training in batches, with about what share of its time each takes.
const EPOCHS: agent_app::Plan = &[("preparing", 1.0), ("learning", 10.0), ("completing", 1.0)];

/// Trains in batches, telling how far that is.
fn in_epochs<T>(ctx: &Context, train: impl FnOnce(&(dyn Fn(InEpochs) + Sync)) -> T) -> T {
    // A checkpoint is written, however long that takes.
    ctx.ends_itself.store(true, Ordering::Relaxed);
    let progress = ctx.printer.progress_of("training", EPOCHS);
    let told = Mutex::new((Instant::now(), 0));
    train(&|at| match at {
        InEpochs::Preparing { done, total, .. } => {
            progress.at("preparing", done as u64, total as u64);
        }
        InEpochs::Learning { done, total, loss } => {
            progress.at("learning", done as u64, total as u64);
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            let (since, before) = *told;
            let seconds = since.elapsed();
            if seconds >= BETWEEN_LOSSES {
                *told = (Instant::now(), done);
                let rate = done.saturating_sub(before) as f64 / seconds.as_secs_f64();
                let line = format!("step {done} of {total}: loss {loss:.4}, {rate:.2} steps/s");
                ctx.printer.notice(&line);
            }
        }
        InEpochs::Completing => progress.at("completing", 0, 1),
        InEpochs::Validated(look, of) => ctx.printer.notice(&of_epoch(&look, of)),
    })
}

/// How far training is after an epoch.
fn of_epoch(look: &ValidationPoint, of: usize) -> String {
    let ValidationPoint { step, loss, mrr } = look;
    format!("epoch {step} of {of}: loss {loss:.4}, validation mrr {:.1} %", 100.0 * mrr)
}

/// The end of training; where it was stopped, how it goes on.
fn stopped<T>(trained: std::result::Result<T, TrainError>, checkpoint: &Path) -> Result<T> {
    match trained {
        Err(error @ TrainError::Stopped) if checkpoint.exists() => {
            Err(error).hint("go on with the same options and --resume")
        }
        trained => Ok(trained?),
    }
}

/// A number of the command line.
fn at_most<const MOST: usize>(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|number| (0..=MOST).contains(number));
    number.ok_or_else(|| format!("give a number up to {MOST}"))
}

/// A step size of the command line.
fn positive(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|number| (1e-9..=1.0).contains(number));
    number.ok_or_else(|| "give a number above 0, at most 1".to_owned())
}

/// Where the checkpoint of a model's training is.
fn checkpoint_of(dir: &Path) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    dir.with_file_name(format!(".{name}.checkpoint"))
}

/// Learn the weights of fields
#[derive(Debug, clap::Args)]
pub(super) struct MfarArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// What is weighed: fields alone, or the whole document with the names of neighbours too
    #[arg(long, value_name = "VARIANT", value_parser = choice::<Variant>(), default_value = "1+n")]
    variant: Variant,
    /// What the weights of a query depend on [default: what cross-validation finds best]
    #[arg(long, value_name = "WHAT", value_parser = choice::<Conditioning>())]
    conditioning: Option<Conditioning>,
    /// Seed of the folds of cross-validation
    #[arg(long, value_name = "S", default_value_t = Settings::default().seed)]
    seed: u64,
    /// Steps of ascent, at most 10000
    #[arg(long, value_name = "K", default_value_t = Settings::default().steps,
        value_parser = parse_steps)]
    steps: usize,
}

/// Steps of the command line.
fn parse_steps(text: &str) -> std::result::Result<usize, String> {
    let steps = text.parse().ok().filter(|steps| (1..=10_000).contains(steps));
    steps.ok_or_else(|| "give a number from 1 to 10000".to_owned())
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::Mfar(args) => mfar(&args, ctx),
        Command::Dense(args) => dense::run(&args, ctx),
        Command::Graph(args) => graph::run(&args, ctx),
    }
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Printed<'a, M> {
    name: &'a str,
    directory: String,
    seconds: f64,
    #[serde(flatten)]
    record: &'a Record<M>,
}

fn mfar(args: &MfarArgs, ctx: &Context) -> Result<Exit> {
    let begun = args.common.begin("mfar", ctx)?;
    let scorers = Scorers::open(begun.base.clone(), args.variant)?;
    let settings = Settings {
        conditioning: args.conditioning,
        seed: args.seed,
        steps: args.steps,
        ..Settings::default()
    };
    let progress = ctx.printer.progress_of("training", STAGES);
    let report = |at: Progress| match at {
        Progress::Asking { done, total } => progress.at("queries", done as u64, total as u64),
        Progress::Choosing { done, total, .. } => {
            progress.at("choosing", done as u64, total as u64)
        }
        Progress::Learning(look, of) => {
            progress.at("learning", look.step as u64, of as u64);
            if look.step % TELL_EVERY == 0 || look.step == of {
                ctx.printer.notice(&told(&look));
            }
        }
    };
    let trained = mfar::train(&scorers, &begun.train, &begun.val, &settings, &report, &ctx.stop)?;
    drop(progress);
    let mfar::TrainedModel { model, cross_validation, curve } = trained;
    let record = model.save(&begun.dir, &begun.source, &settings, cross_validation, curve)?;
    args.common.end(&begun, &record, &lines(&record), ctx)
}

/// How far the weights are.
fn told(look: &ValidationPoint) -> String {
    format!("step {}: loss {:.4}, validation mrr {:.1} %", look.step, look.loss, 100.0 * look.mrr)
}

/// What was learnt, in a few lines.
fn lines(record: &Record<ModelInfo>) -> String {
    let ModelInfo { cross_validation, variant, conditioning, .. } = &record.model;
    let mut choices = table(["conditioning", "steps", "mrr"], &[1, 2]);
    for CrossValidation { conditioning, step, mrr } in cross_validation {
        let mrr = format!("{:.1}", 100.0 * mrr);
        choices.add_row([conditioning.name().to_owned(), step.to_string(), mrr]);
    }
    let mut lines = Vec::new();
    if !cross_validation.is_empty() {
        let n = record.source.queries[0];
        lines.push(format!("cross-validation over {n} training queries"));
        lines.push(choices.to_string());
    }
    let kept = record.best().map(told).unwrap_or_default();
    lines.push(format!("{}, conditioned on {}; {kept}", variant.name(), conditioning.name()));
    lines.join("\n") + "\n"
}
