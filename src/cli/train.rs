//! `agent train`: learns the weights of a retriever from labelled queries, and keeps them as a model
//! in the home directory. Must not know how weights are learnt.

use std::time::Instant;

use anyhow::anyhow;
use clap::{Subcommand, ValueEnum};
use serde::Serialize;

use crate::{
    cli::{
        Context, Exit, dataset,
        failure::{Explain, Result},
        named,
        printer::table,
    },
    dataset::{Split, load_split},
    train::{
        digest,
        mfar::{
            self, Conditioning, Described, Look, Progress, Record, Scorers, Settings, Told,
            Validated, Variant,
        },
    },
};

/// Steps between two lines that say how far the weights are.
const TELL_EVERY: usize = 50;
/// The parts of the work, with about what share of its time each takes.
const STAGES: crate::cli::progress::Plan =
    &[("queries", 2.0), ("choosing", 8.0), ("learning", 1.0)];

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Learn how much each field of a node says, given the query (mFAR)
    ///
    /// Training queries teach; validation queries say after which step to stop; what the weights of a
    /// query depend on is chosen by cross-validation over training queries. The same dataset, queries,
    /// seed and options give the same model. Needs `agent index N --with fields`.
    Mfar(MfarArgs),
}

/// Learn the weights of fields
#[derive(Debug, clap::Args)]
pub(super) struct MfarArgs {
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(long, value_name = "N")]
    dataset: String,
    /// Call the model so [default: mfar- and the name of the dataset]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What is weighed: fields alone, or the whole document with the names of neighbours too
    #[arg(long, value_enum, value_name = "VARIANT", default_value_t = Variant::OnePlusN)]
    variant: Variant,
    /// What the weights of a query depend on [default: what cross-validation finds best]
    #[arg(long, value_enum, value_name = "WHAT")]
    conditioning: Option<Conditioning>,
    /// Seed of the folds of cross-validation
    #[arg(long, value_name = "S", default_value_t = Settings::default().seed)]
    seed: u64,
    /// Steps of ascent, at most 10000
    #[arg(long, value_name = "K", default_value_t = Settings::default().steps,
        value_parser = parse_steps)]
    steps: usize,
    /// Replace a model of that name
    #[arg(long)]
    force: bool,
    /// Print the record as JSON
    #[arg(long)]
    json: bool,
}

/// Steps of the command line.
fn parse_steps(text: &str) -> std::result::Result<usize, String> {
    let steps = text.parse().ok().filter(|steps| (1..=10_000).contains(steps));
    steps.ok_or_else(|| "give a number from 1 to 10000".to_owned())
}

impl ValueEnum for Variant {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Lexical, Self::OnePlusN]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.name()).help(match self {
            Self::Lexical => "BM25 of every field",
            Self::OnePlusN => {
                "BM25 of the document with the names of neighbours, and of every field"
            }
        }))
    }
}

impl ValueEnum for Conditioning {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.name()).help(match self {
            Self::None => "Nothing: the same weights for all queries",
            Self::Words => "The words of the query",
            Self::Responses => "How well each field answers the query at best",
        }))
    }
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::Mfar(args) => mfar(&args, ctx),
    }
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    model: &'a str,
    directory: String,
    seconds: f64,
    #[serde(flatten)]
    record: &'a Record,
}

fn mfar(args: &MfarArgs, ctx: &Context) -> Result<Exit> {
    let dataset = dataset::find(&args.dataset, ctx)?;
    let name = args.name.clone().unwrap_or_else(|| format!("mfar-{}", dataset.base.name));
    let dir = named::new_model_dir(&name, &ctx.home)?;
    if dir.exists() && !args.force {
        return Err(anyhow!("there is a model {name:?} already"))
            .hint("replace it with --force, or give another --name");
    }
    let base = dataset::open(&dataset, ctx)?;
    let began = Instant::now();
    let scorers = Scorers::open(base.clone(), args.variant)?;
    let splits = [Split::Train, Split::Val];
    let [train, val] = splits.map(|split| load_split(&dataset.base, &split));
    let (train, val) = (train?, val?);
    let settings = Settings {
        conditioning: args.conditioning,
        seed: args.seed,
        steps: args.steps,
        ..Settings::default()
    };
    let progress = ctx.printer.progress_of("training", STAGES);
    let report = |at: Progress| match at {
        Progress::Asking { done, of } => progress.at("queries", done as u64, of as u64),
        Progress::Choosing { done, of, .. } => progress.at("choosing", done as u64, of as u64),
        Progress::Learning(look, of) => {
            progress.at("learning", look.step as u64, of as u64);
            if look.step % TELL_EVERY == 0 || look.step == of {
                ctx.printer.notice(&told(&look));
            }
        }
    };
    let trained = mfar::train(&scorers, &train, &val, &settings, &report, &ctx.stop)?;
    drop(progress);
    let of = Described {
        dataset: &dataset.base.name,
        base: base.kb.fingerprint(),
        queries: [digest(&train), digest(&val)],
        n_queries: [train.len(), val.len()],
        settings: &settings,
    };
    let said = Told { cross_validation: trained.cross_validation, curve: trained.curve };
    let record = trained.model.save(&dir, &of, said)?;
    let seconds = began.elapsed().as_secs_f64();
    if args.json {
        let directory = dir.display().to_string();
        ctx.printer.json(&Printed { model: &name, directory, seconds, record: &record })?;
        return Ok(Exit::Done);
    }
    print(&record, ctx)?;
    ctx.printer.notice(&format!("wrote the model to {} in {seconds:.1} s", dir.display()));
    ctx.printer.notice(&format!(
        "measure it: agent eval --dataset {} --split val --system mfar:{name}",
        dataset.base.name
    ));
    Ok(Exit::Done)
}

/// How far the weights are.
fn told(look: &Look) -> String {
    format!("step {}: loss {:.4}, validation mrr {:.1} %", look.step, look.loss, 100.0 * look.mrr)
}

/// What was learnt, in a few lines.
fn print(record: &Record, ctx: &Context) -> Result<()> {
    let mut choices = table(["conditioning", "steps", "mrr"], &[1, 2]);
    for Validated { conditioning, step, mrr } in &record.cross_validation {
        let mrr = format!("{:.1}", 100.0 * mrr);
        choices.add_row([conditioning.name().to_owned(), step.to_string(), mrr]);
    }
    let mut lines = Vec::new();
    if !record.cross_validation.is_empty() {
        lines.push(format!("cross-validation over {} training queries", record.queries[0]));
        lines.push(choices.to_string());
    }
    let kept = record.best().map(told).unwrap_or_default();
    lines.push(format!(
        "{}, conditioned on {}; {kept}",
        record.variant.name(),
        record.conditioning.name()
    ));
    ctx.printer.data(&(lines.join("\n") + "\n"))?;
    Ok(())
}
