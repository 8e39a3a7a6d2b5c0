//! `agent program run`: runs a program on a query and prints its ranking or failure.
//!
//! The process then exits at once, without freeing memory that the program may have left behind.

use crate::{Context, Exit, hits};
use agent_app::{
    Perform as _, Result, TOP, count,
    program::run::{Reply, Request},
};
use agent_infer as infer;
use agent_retrieve::Answer;
use agent_sandbox::{Failure, Outcome, Usage};

/// Run one program on one query, in the sandbox
///
/// Prints rank, id, type, name and score of the nodes, best first; resource usage goes to stderr.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    request: Request,
    /// Print one JSON object with status, kind, message, position, ranking, usage and output
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let reply = args.request.perform(ctx)?;
    match &reply.outcome {
        _ if args.json => drop(ctx.printer.json(&reply)?),
        Ok(outcome) => {
            print_ranking(outcome, &reply, args, ctx)?;
            print_usage(&outcome.usage, &outcome.output, ctx);
        }
        Err(failure) => print_failure(failure, args, ctx),
    }
    end(if reply.outcome.is_ok() { Exit::Done } else { Exit::Failed })
}

/// Exits without freeing memory: freeing the values that a program left behind may take long, or
/// need more stack than this thread has.
fn end(exit: Exit) -> ! {
    std::process::exit(exit.status().into())
}

fn print_ranking(outcome: &Outcome, reply: &Reply, args: &Args, ctx: &Context) -> Result<()> {
    let k = args.request.k.unwrap_or(TOP).get();
    let first = outcome.ranking.iter().take(k).copied().collect();
    match reply.base() {
        Some(base) if !outcome.ranking.is_empty() => {
            hits::print_table(&infer::hits(&base.kb, &Answer::from_ranking(first)), ctx)?;
        }
        _ => ctx.watch.notice("the program returned no nodes"),
    }
    Ok(())
}

fn print_failure(failure: &Failure, args: &Args, ctx: &Context) {
    ctx.printer.error(&failure.to_string());
    if let (Some(at), Some(file)) = (failure.position, &args.request.file) {
        let place = format!("{}:{}:{}", file.display(), at.line, at.column);
        ctx.printer.aside("cause", &place);
    }
    print_usage(&failure.usage, &failure.output, ctx);
}

fn print_usage(usage: &Usage, output: &str, ctx: &Context) {
    for line in output.lines() {
        ctx.watch.notice(&format!("output: {line}"));
    }
    ctx.watch.notice(&format!(
        "{} operations, {} tool calls, {:.1} ms, at most {} bytes",
        count(usage.operations),
        count(usage.tool_calls),
        usage.ms,
        count(usage.peak_bytes)
    ));
    if usage.leaked_bytes > 0 {
        let leaked = count(usage.leaked_bytes);
        ctx.watch
            .warning(&format!("the program leaked {leaked} bytes: break its reference cycles"));
    }
}
