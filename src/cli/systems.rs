//! `agent systems`: lists all systems. Does not depend on any particular system.

use serde::Serialize;

use crate::{Context, Exit, printer::table};
use agent_app::error::Result;
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

/// JSON of a system.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    needs: Vec<String>,
}

impl From<&SystemSpec> for Row {
    fn from(spec: &SystemSpec) -> Self {
        let needs = spec.needs.iter().map(Need::to_string).collect();
        Self { name: spec.name, arguments: spec.arguments, summary: spec.summary, needs }
    }
}

pub(crate) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    if args.json {
        SYSTEMS.iter().try_for_each(|spec| ctx.printer.json(&Row::from(spec)))?;
        return Ok(Exit::Done);
    }
    let mut shown = table(["system", "needs", "what it does"], &[]);
    for spec in SYSTEMS {
        shown.add_row([spec.written(), Row::from(spec).needs.join(", "), spec.summary.to_owned()]);
    }
    ctx.printer.table(&shown)?;
    Ok(Exit::Done)
}
