//! `agent systems`: lists all systems. Does not depend on any particular system.

use serde_json::json;

use crate::{Context, Exit, table};
use agent_app::Result;
use agent_systems::{Need, SYSTEMS, SystemSpec};

/// List the systems that rank nodes, and what each needs
///
/// Give one of these names to --system of search, compare and eval. Arguments in brackets are
/// optional.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print JSON lines with name, arguments, summary and needs
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let needs = |spec: &SystemSpec| spec.needs.iter().map(Need::to_string).collect::<Vec<_>>();
    if args.json {
        let line = |spec: &SystemSpec| {
            let (name, arguments, summary) = (spec.name, spec.arguments, spec.summary);
            let needs = needs(spec);
            json!({"name": name, "arguments": arguments, "summary": summary, "needs": needs})
        };
        return ctx.printer.json_lines(&SYSTEMS.iter().map(line).collect::<Vec<_>>());
    }
    let mut shown = table(["system", "needs", "what it does"], &[]);
    for spec in SYSTEMS {
        shown.add_row([spec.written(), needs(spec).join(", "), spec.summary.to_owned()]);
    }
    ctx.printer.table(&shown)
}
