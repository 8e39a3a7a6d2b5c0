//! `agent data synthesize`: makes labelled questions for a base that has none, and says how good
//! they are as far as numbers tell.
//! Must not know: how questions are made.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use serde::Serialize;

use crate::{Context, Exit};
use agent_app::{
    Plan, dataset,
    error::{AppError, Explain, Result},
    llm::{self, LlmArgs},
    synthesize::{QUERIES, SEED, keep, make, summary, watched},
    text::count,
};
use agent_ask::synthesize::{Questions, synthesize as synthesize_tables};
use agent_dataset::{Base, DatasetError, ResolvedDataset, has_own_labels};
use agent_ground::files;
use agent_kb::Kb;
use agent_synth::{
    self as synth, BENCHMARK, Estimate, Ids, Interruption, Options, Quality, Requester, SynthError,
    Synthesis, Template, read_templates,
};

/// What stands for the templates of the STaRK benchmark where a file of templates is asked for.
const BENCHMARK_NAME: &str = "benchmark";
/// Longest file of templates, bytes.
const MAX_TEMPLATE_BYTES: u64 = 4 << 20;
/// The only part of the making of questions over many nodes.
const TABLE_STAGES: Plan = &[("questions", 1.0)];

/// Make questions with answers for a dataset that has none
///
/// Metapaths of the dataset's own relations lead from named nodes to a few answers, and words of an
/// answer's document narrow them; the question says both in one of many wordings. Without a language
/// model the words are taken from documents and every answer is checked against them; with --actor
/// llm a model takes properties from documents, words the questions, and filters the answers in two
/// votes. With --kind table, questions over many nodes are made instead, of eight kinds, with exact
/// answers computed from fields and links; no model is asked. Questions that were labelled are never
/// replaced: with --to DIR the new ones are written elsewhere.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(value_name = "N")]
    dataset: String,
    /// Make this many questions, at most 10,000
    #[arg(long, value_name = "K", default_value_t = QUERIES)]
    queries: usize,
    /// What answers the questions: nodes, or numbers, names and tables over many nodes
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Kind::Nodes)]
    kind: Kind,
    /// Who finds properties and words: words and patterns, or a language model
    #[arg(long, value_enum, value_name = "ACTOR", default_value_t = Actor::Words)]
    actor: Actor,
    #[command(flatten)]
    llm: LlmArgs,
    /// Take templates from this file, or `benchmark` for those of STaRK [default: from the relations]
    #[arg(long, value_name = "FILE")]
    templates: Option<String>,
    /// Seed of every random draw
    #[arg(long, value_name = "S", default_value_t = SEED)]
    seed: u64,
    /// Write qa.csv and split/ to this new directory and leave the dataset as it is
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Say what would be asked and what it would cost, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Who finds properties and words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Actor {
    /// Words of documents, and patterns
    Words,
    /// A language model
    Llm,
}

/// What answers the questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Nodes
    Nodes,
    /// A number, names, yes or no, or a table over many nodes
    Table,
}

/// What is printed of questions over many nodes as JSON.
#[derive(Serialize)]
struct PrintedTables<'a> {
    dataset: &'a str,
    seed: u64,
    splits: [usize; 3],
    seconds: f64,
    kinds: BTreeMap<&'static str, usize>,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    dataset: &'a str,
    seed: u64,
    templates: usize,
    splits: [usize; 3],
    seconds: f64,
    stopped: Option<String>,
    quality: &'a Quality,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    if args.kind == Kind::Table {
        return run_tables(args, ctx);
    }
    if args.actor == Actor::Words && args.llm.model.is_some() {
        ctx.printer.notice("no language model is asked; add --actor llm to ask it");
    }
    let opened = match args.actor {
        Actor::Llm => Some(llm::open(&args.llm, None, ctx)?),
        Actor::Words => None,
    };
    let requester = opened.as_ref().map(|opened| {
        let assistant = &opened.assistant;
        Requester::new(assistant.llm().clone(), assistant.prompts().clone())
    });
    if args.dry_run {
        return dry_run(args, &synth::estimate(requester.as_ref(), args.queries), ctx);
    }
    let dataset = dataset::find(&args.dataset, ctx)?;
    if args.to.is_none() {
        refuse_labelled(&dataset.base)?;
    }
    let base = dataset::open(&dataset, ctx)?;
    let began = Instant::now();
    let options = Options {
        queries: args.queries,
        seed: args.seed,
        templates: args
            .templates
            .as_deref()
            .map(|file| templates(&base.kb, file, ctx))
            .transpose()?,
    };
    let made = make(&base, &options, requester.as_ref(), ctx)?;
    // People read and edit what is written elsewhere.
    let ids = if args.to.is_some() { Ids::Own(&base.kb) } else { Ids::Numbers };
    let place = placed(args, &dataset.base, ctx, |dir| made.write(ids, dir))?;
    if let Some(opened) = &opened {
        opened.finish(ctx)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    let stopped = made.interruption.as_ref().map(|Interruption(error)| error.to_string());
    if let Some(why) = &stopped {
        ctx.printer.warning(&format!("{why}; the questions made so far are kept"));
    }
    if args.json {
        let (dataset, splits) = (dataset.base.name.as_str(), made.splits());
        ctx.printer.json(&Printed {
            dataset,
            seed: args.seed,
            templates: made.n_templates,
            splits,
            seconds,
            stopped,
            quality: &made.quality,
        })?;
    } else {
        ctx.printer.data(&told(&made, &place))?;
        ctx.printer.notice(&format!("took {seconds:.1} s"));
    }
    Ok(Exit::Done)
}

/// Fails if a base has labels of the user's own, before anything is made.
fn refuse_labelled(base: &Base) -> Result<()> {
    if has_own_labels(base)? {
        let (name, n) = (base.name.clone(), base.record.n_queries);
        return Err(DatasetError::HasOwnLabels { name, n }.into());
    }
    Ok(())
}

/// The templates of a file, or those of the benchmark.
fn templates(kb: &Kb, file: &str, ctx: &Context) -> Result<Vec<Template>> {
    let text = match file {
        BENCHMARK_NAME => BENCHMARK.to_owned(),
        path => files::read_text(path.as_ref(), MAX_TEMPLATE_BYTES)
            .with_context(|| format!("cannot read {path}"))
            .hint("give a file of templates, or `benchmark` for those of STaRK")?,
    };
    let read = read_templates(kb, &text, file).map_err(|error| anyhow!("{error}"))?;
    if read.foreign > 0 && file != BENCHMARK_NAME {
        ctx.printer.notice(&format!(
            "{} templates of {file} name types or relations that this base lacks, and are left out",
            read.foreign
        ));
    }
    Ok(read.templates)
}

/// Writes questions where they were asked for, or makes them those of the base; the place in words.
fn placed(
    args: &Args,
    base: &Base,
    ctx: &Context,
    write: impl FnOnce(&Path) -> std::result::Result<(), SynthError>,
) -> Result<String> {
    match &args.to {
        Some(dir) => {
            write(dir)?;
            Ok(format!("in {}", dir.display()))
        }
        None => {
            keep(base, ctx, |dir| Ok(write(dir)?))?;
            Ok(format!("of \"{}\"", base.name))
        }
    }
}

/// Makes questions over many nodes.
fn run_tables(args: &Args, ctx: &Context) -> Result<Exit> {
    if args.actor == Actor::Llm || args.templates.is_some() {
        let why = "--kind table asks no language model and takes no templates";
        return Err(AppError::usage(anyhow!(why))).hint("leave --actor and --templates out");
    }
    if args.dry_run {
        return dry_run(args, &synth::estimate(None, args.queries), ctx);
    }
    let dataset = dataset::find(&args.dataset, ctx)?;
    if args.to.is_none() {
        refuse_labelled(&dataset.base)?;
    }
    let base = dataset::open(&dataset, ctx)?;
    let began = Instant::now();
    let made = watched(TABLE_STAGES, ctx, |watch| {
        synthesize_tables(&base, args.queries, args.seed, watch)
    })?;
    let place = placed(args, &dataset.base, ctx, |dir| made.write(dir))?;
    print_tables(args, &made, &place, began.elapsed().as_secs_f64(), ctx)
}

fn print_tables(
    args: &Args,
    made: &Questions,
    place: &str,
    seconds: f64,
    ctx: &Context,
) -> Result<Exit> {
    let mut kinds: BTreeMap<&'static str, usize> = BTreeMap::new();
    made.all.iter().for_each(|one| *kinds.entry(one.kind.name()).or_default() += 1);
    let splits = made.splits();
    if made.all.len() < args.queries {
        let (n, wanted) = (made.all.len(), args.queries);
        ctx.printer.warning(&format!("{n} of {wanted} questions: the dataset has no more to ask"));
    }
    if args.json {
        let (dataset, seed) = (args.dataset.as_str(), args.seed);
        ctx.printer.json(&PrintedTables { dataset, seed, splits, seconds, kinds })?;
        return Ok(Exit::Done);
    }
    let [train, val, test] = splits;
    let told: Vec<String> = kinds.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    ctx.printer.data(&format!(
        "{} questions over many nodes {place}: train {train}, val {val}, test {test}\nkinds: {}\n",
        made.all.len(),
        told.join(", ")
    ))?;
    ctx.printer.notice(&format!("took {seconds:.1} s"));
    Ok(Exit::Done)
}

/// What was made, in a few lines.
fn told(made: &Synthesis, place: &str) -> String {
    let quality = &made.quality;
    let [train, val, test] = made.splits();
    let styles = quality.styles.iter().map(|(style, n)| format!("{style} {n}"));
    let mut lines = vec![
        format!("{} {place}: train {train}, val {val}, test {test}", summary(made)),
        format!("styles: {}", styles.collect::<Vec<_>>().join(", ")),
        format!(
            "gold pass {:.1} %, entropy {:.2} bits, type-token ratio {:.3}, {:.1} words a question",
            100.0 * quality.gold_pass,
            quality.entropy,
            quality.type_token_ratio,
            quality.words
        ),
        format!(
            "answers: mean {:.1}, median {}, most {}",
            quality.answers.mean, quality.answers.median, quality.answers.max
        ),
    ];
    lines.extend(quality.dropped.iter().map(|(why, n)| format!("dropped {n}: one that {why}")));
    lines.join("\n") + "\n"
}

fn dry_run(args: &Args, estimate: &Estimate, ctx: &Context) -> Result<Exit> {
    match ctx.home.resolve(&args.dataset) {
        Ok(ResolvedDataset::Installed(base)) if args.to.is_none() => refuse_labelled(&base)?,
        _ => {}
    }
    if args.json {
        ctx.printer.json(&serde_json::json!({"dataset": args.dataset, "queries": args.queries,
                                             "llm": estimate}))?;
        return Ok(Exit::Done);
    }
    let [least, most] = estimate.calls;
    let cost = match (most, estimate.usd) {
        (0, _) => "0 LLM calls, 0 USD".to_owned(),
        (_, usd) => format!(
            "LLM calls {least} to {most}, tokens sent {} to {}, received {} to {}, {}",
            count(estimate.tokens_in[0]),
            count(estimate.tokens_in[1]),
            count(estimate.tokens_out[0]),
            count(estimate.tokens_out[1]),
            usd.map_or("price not known".to_owned(), |[least, most]| {
                format!("{least:.2} to {most:.2} USD")
            })
        ),
    };
    ctx.printer.data(&format!("would make {} questions\n{cost}\n", args.queries))?;
    Ok(Exit::Done)
}
