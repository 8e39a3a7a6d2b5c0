//! `agent train`: trains a model on labelled queries and prints a summary. Does not depend on how
//! weights are learned.

use std::sync::atomic::Ordering;

use clap::Subcommand;
use serde::Serialize;

use crate::{Context, Exit, table};
use agent_app::{
    Perform as _, Result,
    train::{Trained, dense, epoch_line, graph, mfar},
};
use agent_train::{
    Record,
    dense::{ModelInfo as DualEncoder, tune::TunedModelInfo},
    graph::ModelInfo as GraphNetwork,
    mfar::{CrossValidation, ModelInfo as FieldWeights},
};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Learn field weights that depend on the query (mFAR)
    ///
    /// Trains on training queries, and keeps the step that is best on validation queries.
    /// Cross-validation over training queries chooses how the weights depend on the query. The same
    /// dataset, queries, seed and options give the same model. Needs
    /// `agent index NAME --with fields`.
    Mfar(Args<mfar::Request>),
    /// Learn vectors of queries and nodes, such that a query is near its answers
    ///
    /// Trains on training queries and on queries made from documents, and keeps the epoch that is
    /// best on validation queries. The same dataset, queries, seed and options give the same model.
    /// Ctrl-C leaves a checkpoint, from which --resume continues to the same model.
    Dense(Args<dense::Request>),
    /// Learn to order nodes by the graph around the query
    ///
    /// Trains on training queries, and keeps the epoch that is best on validation queries. The same
    /// dataset, queries, seed and options give the same model. Ctrl-C leaves a checkpoint, from
    /// which --resume continues to the same model.
    Graph(Args<graph::Request>),
}

/// Options for one kind of training, and how its record is printed.
#[derive(Debug, clap::Args)]
pub(super) struct Args<R: clap::Args> {
    #[command(flatten)]
    request: R,
    /// Print the record of the training as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::Mfar(Args { request, json }) => {
            let trained = request.perform(ctx)?;
            print(&trained, mfar_lines, &[to_measure(&trained)], json, ctx)
        }
        Command::Dense(Args { request, json }) => {
            // Writing the checkpoint has no time limit.
            ctx.ends_itself.store(true, Ordering::Relaxed);
            match request.perform(ctx)? {
                dense::Reply::Bag(trained) => {
                    print(&trained, dense_lines, &[to_measure(&trained)], json, ctx)
                }
                dense::Reply::Encoder(trained) => {
                    print(&trained, tuned_lines, &to_embed(&trained), json, ctx)
                }
            }
        }
        Command::Graph(Args { request, json }) => {
            ctx.ends_itself.store(true, Ordering::Relaxed);
            let trained = request.perform(ctx)?;
            print(&trained, graph_lines, &[to_measure(&trained)], json, ctx)
        }
    }
}

/// Prints the record of a training as JSON if `json` is true, otherwise the text that `lines`
/// returns for the record, and the notices `next`.
fn print<M: Serialize>(
    trained: &Trained<M>,
    lines: fn(&Record<M>) -> String,
    next: &[String],
    json: bool,
    ctx: &Context,
) -> Result<Exit> {
    if json {
        return ctx.printer.json(trained);
    }
    ctx.printer.data(&lines(&trained.record))?;
    let Trained { directory, seconds, .. } = trained;
    ctx.watch.notice(&format!("wrote the model to {directory} in {seconds:.1} s"));
    next.iter().for_each(|line| ctx.watch.notice(line));
    Ok(Exit::Done)
}

/// Returns a notice with the command that measures the trained model.
fn to_measure<M>(trained: &Trained<M>) -> String {
    let Trained { name, record: Record { system, source, .. }, .. } = trained;
    let dataset = &source.dataset;
    format!("measure it: agent eval --dataset {dataset} --split val --system {system}:{name}")
}

/// Returns two notices with the commands that index with the trained sentence encoder and measure
/// it.
fn to_embed<M>(trained: &Trained<M>) -> [String; 2] {
    let (name, to) = (&trained.record.source.dataset, &trained.directory);
    [
        format!("embed with it: agent index {name} --embedder candle:{to}"),
        format!("then measure it: agent eval --dataset {name} --split val --system dense"),
    ]
}

/// Describes trained field weights; a table of the cross-validation comes first.
fn mfar_lines(record: &Record<FieldWeights>) -> String {
    let FieldWeights { cross_validation, variant, conditioning, .. } = &record.model;
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
    let kept = record.best().map(mfar::step_line).unwrap_or_default();
    lines.push(format!("{}, conditioned on {}; {kept}", variant.name(), conditioning.name()));
    lines.join("\n") + "\n"
}

/// Describes a tuned sentence encoder, in one line.
fn tuned_lines(record: &Record<TunedModelInfo>) -> String {
    let TunedModelInfo { settings, dim, weights, made, pool } = &record.model;
    let kept = record.best().map(|look| epoch_line(look, settings.epochs)).unwrap_or_default();
    format!(
        "sentence encoder of {dim} dimensions and {weights} weights with negatives of {}, {made} made \
         queries; {kept} among {pool} nodes\n",
        settings.negatives.name()
    )
}

/// Describes a trained dual encoder, in two lines.
fn dense_lines(record: &Record<DualEncoder>) -> String {
    let DualEncoder { settings, stems, made, weight, fused: [fused, lexical], .. } = &record.model;
    let kept = record.best().map(|look| epoch_line(look, settings.epochs)).unwrap_or_default();
    format!(
        "{} with negatives of {}, {stems} stems, {made} made queries; {kept}\n\
         fused with bm25+names at weight {weight:.2}: validation mrr {:.1} %; bm25+names alone \
         {:.1} %\n",
        settings.encoder.name(),
        settings.negatives.name(),
        100.0 * fused,
        100.0 * lexical
    )
}

/// Describes a trained graph network, in two lines.
fn graph_lines(record: &Record<GraphNetwork>) -> String {
    let GraphNetwork { settings, taught, reached: [reached, held], .. } = &record.model;
    let kept = record.best().map(|look| epoch_line(look, settings.epochs)).unwrap_or_default();
    format!(
        "{taught} of {} training queries have an answer in their working graph, {reached} of {held} \
         validation queries\n{kept}\n",
        record.source.queries[0]
    )
}
