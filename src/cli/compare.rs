//! `agent compare`: prints the rankings of several systems side by side.

use std::iter::once;

use agent_app::{MAX_SHOWN, Perform as _, Result, compare::Request};
use agent_infer::HitRecord;

use crate::{Context, Exit, plain, table};

/// Answer a question with several systems, side by side
///
/// Prints, for each rank, the id and name of the node at that rank in each system. If a system
/// fails, the other rankings are still printed, and the exit status is 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    request: Request,
    /// Print one JSON object: for each system, the ranked nodes or the error, and the time taken
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let reply = args.request.perform(ctx)?;
    let systems = reply.systems();
    if args.json {
        ctx.printer.json(&reply)?;
    } else {
        let headings = once("rank").chain(systems.iter().map(|one| one.system));
        let mut rows = table(headings.collect::<Vec<_>>(), &[0]);
        let longest = systems.iter().map(|one| one.hits.len()).max().unwrap_or(0);
        let cell = |hit: &HitRecord<'_>| plain(format!("{} {}", hit.key, hit.name), MAX_SHOWN);
        for at in 0..longest {
            let cells = systems.iter().map(|one| one.hits.get(at).map_or(String::new(), cell));
            rows.add_row(once((at + 1).to_string()).chain(cells).collect::<Vec<_>>());
        }
        ctx.printer.table(&rows)?;
    }
    let mut exit = Exit::Done;
    for one in &systems {
        if let Some(error) = &one.error {
            ctx.printer.error(&format!("{}: {error}", one.system));
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}
