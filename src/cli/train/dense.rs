//! `agent train dense`: options, progress, and what is said of the model.

use clap::ValueEnum;

use crate::{
    cli::{
        Context, Exit,
        failure::Result,
        train::{CommonArgs, at_most, checkpoint_of, in_epochs, of_epoch, positive, stopped},
    },
    train::{
        Record,
        dense::{self, Described, EncoderKind, Negatives, Settings},
    },
};

/// Learn a dual encoder
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DenseArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// What turns a text into a vector
    #[arg(long, value_enum, value_name = "ENCODER", default_value_t = Settings::default().encoder)]
    encoder: EncoderKind,
    /// Where nodes come from that do not answer, beside the other documents of a batch
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = Settings::default().negatives)]
    negatives: Negatives,
    /// With --negatives self: how often the encoder is asked for them anew, at most 100
    #[arg(long, value_name = "N", default_value_t = Settings::default().refresh,
        value_parser = at_most::<100>)]
    refresh: usize,
    /// Queries that are made of documents, at most 200000
    #[arg(long, value_name = "N", default_value_t = Settings::default().made,
        value_parser = at_most::<200_000>)]
    made: usize,
    /// Looks at all pairs, at most 1000
    #[arg(long, value_name = "N", default_value_t = Settings::default().epochs,
        value_parser = at_most::<1_000>)]
    epochs: usize,
    /// Numbers of a vector, at most 1024, and at most those of the built-in embedder
    #[arg(long, value_name = "N", default_value_t = Settings::default().dim,
        value_parser = at_most::<1_024>)]
    dim: usize,
    /// Pairs of a batch, at most 1000
    #[arg(long, value_name = "N", default_value_t = Settings::default().batch,
        value_parser = at_most::<1_000>)]
    batch: usize,
    /// Step size
    #[arg(long, value_name = "R", default_value_t = Settings::default().rate,
        value_parser = positive)]
    rate: f64,
    /// Seed of made queries, batches and negatives
    #[arg(long, value_name = "S", default_value_t = Settings::default().seed)]
    seed: u64,
    /// Go on from where training with the same options was stopped
    #[arg(long)]
    resume: bool,
}

impl ValueEnum for EncoderKind {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Bag]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let help =
            "The weighted mean of word vectors, which begin as those of the built-in embedder";
        Some(clap::builder::PossibleValue::new(self.name()).help(help))
    }
}

impl ValueEnum for Negatives {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Bm25, Self::Own]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.name()).help(match self {
            Self::Bm25 => "The first of bm25+names (DPR)",
            Self::Own => "At first these, then the first of the encoder itself (ANCE)",
        }))
    }
}

pub(super) fn run(args: &DenseArgs, ctx: &Context) -> Result<Exit> {
    let begun = args.common.begin("dense", ctx)?;
    let DenseArgs { encoder, negatives, refresh, made, epochs, seed, resume, .. } = *args;
    let DenseArgs { dim, batch, rate, .. } = *args;
    let (dim, batch) = (dim.max(1), batch.max(1));
    let settings = Settings {
        encoder,
        negatives,
        refresh,
        made,
        epochs,
        seed,
        dim,
        batch,
        rate,
        ..Settings::default()
    };
    let checkpoint = checkpoint_of(&begun.dir);
    let task = begun.task(&settings, &checkpoint, resume);
    let trained = in_epochs(ctx, |report| dense::train(&task, report, &ctx.stop));
    let record = stopped(trained, &checkpoint)?;
    args.common.end(&begun, &record, &lines(&record), ctx)
}

/// What was learnt, in a few lines.
fn lines(record: &Record<Described>) -> String {
    let Described { settings, stems, made, weight, fused: [fused, lexical], .. } = &record.model;
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
