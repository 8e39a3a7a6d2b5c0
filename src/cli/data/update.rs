//! `agent data update`: imports a dataset again and prints the changes.

use crate::{Context, Exit, data::summary, plain};
use agent_app::{Perform as _, Result, count, data::update::Request};
use agent_dataset::Changes;

/// Maximum number of relations whose changes are listed individually.
const MAX_RELATIONS: usize = 10;
/// Maximum number of characters to show for one relation.
const MAX_SHOWN: usize = 60;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    request: Request,
    /// Print the changes as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let reply = args.request.perform(ctx)?;
    if args.json {
        return ctx.printer.json(&reply);
    }
    let (report, dry_run) = (&reply.report, reply.dry_run);
    let done = if dry_run { "read" } else { "updated" };
    summary::print(report, &format!("{done} in {:.1} s", reply.seconds), !dry_run, ctx)?;
    ctx.printer.text(&format!("\n{}", told(&reply.changes, report.kept_questions)))?;
    if let (true, Some(loss)) = (dry_run, &report.loss) {
        ctx.watch.warning(&format!("the update loses {loss}; use --force to update anyway"));
    } else if !dry_run && !reply.was_indexed {
        let name = &report.base.name;
        ctx.watch.notice(&format!("next: build its index with `agent index {name}`"));
    } else if !dry_run && !reply.changes.is_empty() {
        ctx.watch.notice("next: `agent verify BUNDLE --drift` checks whether a bundle still fits");
    }
    Ok(Exit::Done)
}

/// Describes the changes, one per line. `kept` is the number of old questions that were kept, and
/// the number that were lost.
fn told(changes: &Changes, kept: Option<(u64, u64)>) -> String {
    let mut lines = Vec::new();
    match changes.is_empty() {
        true => lines.push("nodes and edges are unchanged".to_owned()),
        false => lines.push(format!(
            "nodes      {} added, {} removed, {} changed, {} unchanged",
            count(changes.nodes_added),
            count(changes.nodes_removed),
            count(changes.nodes_changed),
            count(changes.nodes_same)
        )),
    }
    for (name, (added, removed)) in changes.edges.iter().take(MAX_RELATIONS) {
        let (added, removed) = (count(*added), count(*removed));
        lines.push(format!(
            "edges      {}: {added} added, {removed} removed",
            plain(name, MAX_SHOWN)
        ));
    }
    if let Some(more @ 1..) = changes.edges.len().checked_sub(MAX_RELATIONS) {
        lines.push(format!("           and {more} more relations"));
    }
    for name in &changes.relations_gone {
        lines.push(format!("removed    the relation {}", plain(name, MAX_SHOWN)));
    }
    if let Some((kept, lost)) = kept {
        let (kept, lost) = (count(kept), count(lost));
        lines.push(format!("questions  {kept} kept, {lost} lost with their answers"));
    }
    lines.join("\n") + "\n"
}
