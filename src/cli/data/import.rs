//! `agent data import`: imports a file or directory and prints a summary of the dataset.

use agent_app::{
    Perform as _, Result,
    data::import::{Reply, Request},
};

use crate::{Context, Exit, data::summary};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    request: Request,
    /// Print a summary of the import as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    install(&args.request, args.json, ctx)
}

/// Imports a file or directory, and prints the summary of the dataset.
///
/// # Errors
/// If the import fails, or stdout cannot be written to.
pub(crate) fn install(request: &Request, json: bool, ctx: &Context) -> Result<Exit> {
    let reply = request.perform(ctx)?;
    if !json {
        let done = if request.dry_run { "read" } else { "imported" };
        let done = format!("{done} in {:.1} s", reply.seconds);
        summary::print(&reply.report, &done, !request.dry_run, ctx)?;
    }
    print_end(&reply, json, ctx)
}

/// Prints the reply as JSON if `json` is true; otherwise prints a notice of the next step, if the
/// import took effect at once.
pub(super) fn print_end(reply: &Reply, json: bool, ctx: &Context) -> Result<Exit> {
    if json {
        ctx.printer.json(reply)?;
    } else if reply.is_current {
        let name = &reply.report.base.name;
        ctx.watch.notice(&format!("next: build its index with `agent index {name}`"));
    }
    Ok(Exit::Done)
}
