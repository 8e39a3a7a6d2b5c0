//! `agent eval`: measures systems on labelled queries, and writes files for other tools.

mod files;
pub(super) mod forecast;
mod report;
mod sets;
mod values;

use std::path::PathBuf;

use self::{files::Files, report::Format};
pub(super) use self::{files::tag, report::signed};
use crate::{Context, Exit};
use agent_app::{
    Measured, Perform as _, Result,
    eval::{Figures, Request},
    measured::failed,
};

/// Measure systems on labelled queries
///
/// Ranks --depth nodes per query and computes the --metrics. Prints means with 95 % bootstrap
/// intervals. With several systems, each is also compared with the first on the same queries:
/// paired bootstrap intervals, and p-values of paired randomisation tests, corrected for the number
/// of comparisons. If a system fails on a query, the ranking of the hybrid baseline is used
/// instead, and the exit status is 1. If a service gave no answer, the evaluation is marked invalid
/// and not compared. Latencies are wall times while all cores are busy.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    request: Request,
    /// Write the rankings to this file in TREC run format, with the node ids of the imported data;
    /// with several systems, the file name must contain {system}
    #[arg(long, value_name = "OUT.trec")]
    run_file: Option<PathBuf>,
    /// Write the labelled answers to the queries (relevance judgements) to this file in TREC qrels
    /// format
    #[arg(long, value_name = "OUT.qrels")]
    qrels_file: Option<PathBuf>,
    /// Write the metrics of every query and system to this CSV file
    #[arg(long, value_name = "OUT.csv")]
    results_file: Option<PathBuf>,
    /// Print the means in this format; csv has one line per metric, and no comparisons
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, conflicts_with = "json")]
    format: Format,
    /// Print one JSON object per system
    #[arg(long)]
    json: bool,
    /// Print the largest number of requests and tokens the evaluation could take, without sending
    /// any request
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    if args.dry_run {
        let (n, forecasts) = args.request.forecast(ctx)?;
        return forecast::print(&forecasts, n, args.json, ctx);
    }
    let files = Files::begin(args)?;
    let request = Request { keep_rankings: args.run_file.is_some(), ..args.request.clone() };
    let reply = request.perform(ctx)?;
    files.finish(&reply, ctx)?;
    match &reply.figures {
        Figures::Ranks(systems) if args.json => ctx.printer.json_lines(systems)?,
        Figures::Sets(systems) if args.json => ctx.printer.json_lines(systems)?,
        Figures::Values(systems) if args.json => ctx.printer.json_lines(systems)?,
        Figures::Ranks(systems) => report::print(systems, &reply.measured, args.format, ctx)?,
        Figures::Sets(systems) => sets::print(systems, args.format, ctx)?,
        Figures::Values(systems) => values::print(systems, args.format, ctx)?,
    };
    print_failed(&reply.measured, ctx);
    Ok(if reply.has_failures() { Exit::Failed } else { Exit::Done })
}

/// Prints, for each system that failed, the number of queries it failed on.
pub(super) fn print_failed(measured: &[Measured], ctx: &Context) {
    let failed = measured.iter().filter_map(|one| failed(&one.system, &one.evaluation));
    failed.for_each(|failed| ctx.printer.error(&failed));
}
