//! `agent train graph`: options, and what is said of the model.

use crate::{
    Context, Exit,
    train::{CommonArgs, at_most, checkpoint_of, in_epochs, of_epoch, positive, stopped},
};
use agent_app::choice::choice;
use agent_app::error::Result;
use agent_train::{
    Record,
    graph::{self, Ablation, ModelInfo, Settings},
};

/// Learn a graph network
#[derive(Debug, clap::Args)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Leave a part out, to see what it is worth
    #[arg(long, value_name = "PART", value_parser = choice::<Ablation>())]
    without: Option<Ablation>,
    /// Looks at all queries, at most 1000
    #[arg(long, value_name = "N", default_value_t = Settings::default().epochs,
        value_parser = at_most::<1_000>)]
    epochs: usize,
    /// Step size
    #[arg(long, value_name = "R", default_value_t = Settings::default().rate,
        value_parser = positive)]
    rate: f64,
    /// Seed of the first weights and of batches
    #[arg(long, value_name = "S", default_value_t = Settings::default().seed)]
    seed: u64,
    /// Go on from where training with the same options was stopped
    #[arg(long)]
    resume: bool,
}

pub(super) fn run(args: &GraphArgs, ctx: &Context) -> Result<Exit> {
    let begun = args.common.begin("graph", ctx)?;
    let GraphArgs { without, epochs, rate, seed, resume, .. } = *args;
    let settings = Settings { ablation: without, epochs, rate, seed, ..Settings::default() };
    let checkpoint = checkpoint_of(&begun.dir);
    let task = begun.task(&settings, &checkpoint, resume);
    let trained = in_epochs(ctx, |report| graph::train(&task, report, &ctx.stop));
    let record = stopped(trained, &checkpoint)?;
    args.common.end(&begun, &record, &lines(&record), ctx)
}

/// What was learnt, in a few lines.
fn lines(record: &Record<ModelInfo>) -> String {
    let ModelInfo { settings, taught, reached: [reached, held], .. } = &record.model;
    let kept = record.best().map(|look| of_epoch(look, settings.epochs)).unwrap_or_default();
    format!(
        "{taught} of {} training queries have an answer in their working graph, {reached} of {held} \
         validation queries\n{kept}\n",
        record.source.queries[0]
    )
}
