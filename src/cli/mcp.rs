//! `agent mcp`: serves the Model Context Protocol over standard input and output.

use std::sync::atomic::Ordering;

use crate::{
    Context, Exit,
    serve::{ServedArgs, Serving, finish},
};
use agent_app::Result;
use agent_serve as serve;

/// Answer an assistant that speaks the Model Context Protocol, over standard input and output
///
/// Assistants start this command themselves. The server offers five read-only tools (describe_base,
/// query, search, get_node, neighbors), resources and a prompt; run_program only with
/// --allow-programs. The command ends at the end of its input. `agent serve` offers the same tools
/// at /mcp.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    served: ServedArgs,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let Serving { options, llm } = args.served.options(ctx)?;
    ctx.ends_itself.store(true, Ordering::Relaxed);
    serve::assist(options, || ctx.stop.load(Ordering::Relaxed))?;
    finish(llm, ctx)?;
    Ok(Exit::Done)
}
