//! `agent search`: ranks the nodes of a dataset for a text and prints them.

use agent_app::{Perform as _, Result, search::Request};

use crate::{Context, Exit, hits};

/// Rank the nodes of a dataset by relevance to a text
///
/// Prints rank, id, type, name and score, best first.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    request: Request,
    /// Print JSON lines with rank, id, key, type, name and score; with --explain also the reasons
    /// for each rank
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let reply = args.request.perform(ctx)?;
    let hits = reply.hits();
    if args.request.explain && !args.json && !hits.is_empty() {
        return hits::print_explained(&hits, None, ctx);
    }
    hits::print(&hits, args.json, ctx)
}
