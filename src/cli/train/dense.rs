//! `agent train dense`: options, progress, and what is said of the model.

use agent_app::choice::choice;
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::{
    Context, Exit,
    train::{CommonArgs, at_most, checkpoint_of, in_epochs, of_epoch, positive, stopped},
};
use agent_app::error::Result;
use agent_train::{
    Record,
    dense::{
        self, ModelInfo, Negatives, Settings,
        tune::{self, TunedModelInfo},
    },
};

/// Learn a dual encoder
#[derive(Debug, clap::Args)]
pub(crate) struct DenseArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// What turns a text into a vector: bag, the weighted mean of word vectors, or candle:DIR, a
    /// sentence encoder of the BERT family in a directory
    #[arg(long, value_name = "ENCODER", default_value = "bag", value_parser = parse_encoder)]
    encoder: EncoderChoice,
    /// Where nodes come from that do not answer, beside the other documents of a batch
    #[arg(long, value_name = "WHERE", value_parser = choice::<Negatives>(), default_value = Settings::default().negatives.name())]
    negatives: Negatives,
    /// With --negatives self: how often the encoder is asked for them anew, at most 100
    #[arg(long, value_name = "N", default_value_t = Settings::default().refresh,
        value_parser = at_most::<100>)]
    refresh: usize,
    /// Queries that are made of documents, at most 200000 [default: 8000, with candle:DIR none]
    #[arg(long, value_name = "N", value_parser = at_most::<200_000>)]
    made: Option<usize>,
    /// Looks at all pairs, at most 1000 [default: 12, with candle:DIR 3]
    #[arg(long, value_name = "N", value_parser = at_most::<1_000>)]
    epochs: Option<usize>,
    /// Pairs of a batch, at most 1000 [default: 64, with candle:DIR 16]
    #[arg(long, value_name = "N", value_parser = at_most::<1_000>)]
    batch: Option<usize>,
    /// Step size, the largest [default: 0.001, with candle:DIR 0.00002]
    #[arg(long, value_name = "R", value_parser = positive)]
    rate: Option<f64>,
    /// With bag: numbers of a vector, at most 1024, and at most those of the built-in embedder
    /// [default: 256]
    #[arg(long, value_name = "N", value_parser = at_most::<1_024>)]
    dim: Option<usize>,
    /// With candle:DIR: word pieces read of a text, at most 8192 [default: 128]
    #[arg(long, value_name = "N", value_parser = at_most::<8_192>)]
    max_tokens: Option<usize>,
    /// With candle:DIR: nodes that validation queries are ranked among, and of which --negatives self
    /// chooses, at most 1000000 [default: 1000]
    #[arg(long, value_name = "N", value_parser = at_most::<1_000_000>)]
    pool: Option<usize>,
    /// Seed of made queries, batches and negatives
    #[arg(long, value_name = "S", default_value_t = Settings::default().seed)]
    seed: u64,
    /// Go on from where training with the same options was stopped
    #[arg(long)]
    resume: bool,
}

/// An encoder of the command line.
#[derive(Clone, Debug, PartialEq)]
enum EncoderChoice {
    Bag,
    Candle(PathBuf),
}

fn parse_encoder(text: &str) -> std::result::Result<EncoderChoice, String> {
    match text.split_once(':') {
        None if text == "bag" => Ok(EncoderChoice::Bag),
        Some(("candle", dir)) if !dir.is_empty() => Ok(EncoderChoice::Candle(dir.into())),
        _ => Err("use bag or candle:DIR".to_owned()),
    }
}

impl DenseArgs {
    /// Refuses an option that says nothing here.
    fn refuse(&self, option: &str, given: Option<usize>, encoder: &str) -> Result<()> {
        match given {
            Some(_) => {
                Err(anyhow!("{option} is an option of --encoder {encoder}; leave it out").into())
            }
            None => Ok(()),
        }
    }
}

pub(super) fn run(args: &DenseArgs, ctx: &Context) -> Result<Exit> {
    match &args.encoder {
        EncoderChoice::Bag => bag(args, ctx),
        EncoderChoice::Candle(dir) => sentence_encoder(args, dir, ctx),
    }
}

fn bag(args: &DenseArgs, ctx: &Context) -> Result<Exit> {
    args.refuse("--max-tokens", args.max_tokens, "candle:DIR")?;
    args.refuse("--pool", args.pool, "candle:DIR")?;
    let begun = args.common.begin("dense", ctx)?;
    let known = Settings::default();
    let settings = Settings {
        negatives: args.negatives,
        refresh: args.refresh,
        seed: args.seed,
        made: args.made.unwrap_or(known.made),
        epochs: args.epochs.unwrap_or(known.epochs),
        dim: args.dim.unwrap_or(known.dim).max(1),
        batch: args.batch.unwrap_or(known.batch).max(1),
        rate: args.rate.unwrap_or(known.rate),
        ..known
    };
    let checkpoint = checkpoint_of(&begun.dir);
    let task = begun.task(&settings, &checkpoint, args.resume);
    let trained = in_epochs(ctx, |report| dense::train(&task, report, &ctx.stop));
    let record = stopped(trained, &checkpoint)?;
    args.common.end(&begun, &record, &lines(&record), ctx)
}

fn sentence_encoder(args: &DenseArgs, dir: &Path, ctx: &Context) -> Result<Exit> {
    args.refuse("--dim", args.dim, "bag")?;
    let known = tune::Settings::default();
    let max_tokens = args.max_tokens.unwrap_or(known.max_tokens);
    let encoder = tune::BaseEncoder::open(dir, max_tokens)?;
    let begun = args.common.begin("encoder", ctx)?;
    let settings = tune::Settings {
        encoder: encoder.fingerprint().to_owned(),
        negatives: args.negatives,
        refresh: args.refresh,
        seed: args.seed,
        made: args.made.unwrap_or(known.made),
        epochs: args.epochs.unwrap_or(known.epochs),
        batch: args.batch.unwrap_or(known.batch).max(1),
        rate: args.rate.unwrap_or(known.rate),
        pool: args.pool.unwrap_or(known.pool).max(1),
        max_tokens,
        ..known
    };
    let checkpoint = checkpoint_of(&begun.dir);
    let task = begun.task(&settings, &checkpoint, args.resume);
    let tuned = in_epochs(ctx, |report| dense::tune(&task, &encoder, report, &ctx.stop));
    let record = stopped(tuned, &checkpoint)?;
    let (name, to) = (&begun.source.dataset, begun.dir.display());
    let then = [
        format!("embed with it: agent index {name} --embedder candle:{to}"),
        format!("then measure it: agent eval --dataset {name} --split val --system dense"),
    ];
    args.common.end_with(&begun, &record, &tuned_lines(&record), &then, ctx)
}

/// What was tuned, in a line.
fn tuned_lines(record: &Record<TunedModelInfo>) -> String {
    let TunedModelInfo { settings, dim, weights, made, pool } = &record.model;
    let kept = record.best().map(|look| of_epoch(look, settings.epochs)).unwrap_or_default();
    format!(
        "sentence encoder of {dim} dimensions and {weights} weights with negatives of {}, {made} made \
         queries; {kept} among {pool} nodes\n",
        settings.negatives.name()
    )
}

/// What was learnt, in a few lines.
fn lines(record: &Record<ModelInfo>) -> String {
    let ModelInfo { settings, stems, made, weight, fused: [fused, lexical], .. } = &record.model;
    let kept = record.best().map(|look| of_epoch(look, settings.epochs)).unwrap_or_default();
    format!(
        "{} with negatives of {}, {stems} stems, {made} made queries; {kept}\n\
         with weight {weight:.2} beside bm25+names: validation mrr {:.1} %, which alone has {:.1} %\n",
        settings.encoder.name(),
        settings.negatives.name(),
        100.0 * fused,
        100.0 * lexical
    )
}
