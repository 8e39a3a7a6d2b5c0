//! `agent data update`: imports a dataset again, indexes it, and replaces it in one step.

use std::time::Instant;

use serde::Serialize;

use crate::{
    Context, Exit,
    data::{
        import::{DRY_RUN, SourceArgs},
        summary,
    },
    printer::plain,
};
use agent_app::{dataset, error::Result, index::index_as_before, text::count};
use agent_dataset::{Base, Changes, ImportOptions, Summary, Update};
use agent_index::adopt;

/// Relations whose changes are told one by one.
const MAX_RELATIONS: usize = 10;
/// Characters of a relation.
const MAX_SHOWN: usize = 60;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Installed dataset
    #[arg(value_name = "N")]
    name: String,
    #[command(flatten)]
    source: SourceArgs,
    /// Read everything, say what would change and what is wrong, and install nothing
    #[arg(long)]
    dry_run: bool,
    /// Update even if more than half of the nodes, or all questions, would be gone
    #[arg(long)]
    force: bool,
    /// Print what changed as one JSON object
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Updated<'a> {
    name: &'a str,
    version: u32,
    fingerprint: &'a str,
    seconds: f64,
    changes: &'a Changes,
    questions: u64,
    /// Questions of before that were kept, and those that were lost.
    kept_questions: Option<(u64, u64)>,
    /// What is lost, if it is so much that only --force takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<&'a str>,
    /// Whether it answers from now on; false after a dry run.
    current: bool,
    summary: &'a Summary,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let began = Instant::now();
    let served = ctx.home.get(&args.name)?;
    let was_indexed = served.index_dir().exists();
    let (input, options) = args.source.resolve()?;
    let update = Some(Update { allow_loss: args.force });
    let options = ImportOptions { as_next_version: true, update, dry_run: args.dry_run, ..options };
    let imported = dataset::import(&args.source.from, &served.name, &input, &options, ctx)?;
    let mut report = imported.report;
    let changes = report.changes.take().unwrap_or_default();
    let base = &report.base;
    let exit = match was_indexed && !args.dry_run {
        true => bring_up(&served, base, ctx)?,
        false => Exit::Done,
    };
    let seconds = began.elapsed().as_secs_f64();
    if args.json {
        let updated = Updated {
            name: &base.name,
            version: base.version,
            fingerprint: &base.record.fingerprint,
            seconds,
            changes: &changes,
            questions: base.record.n_queries,
            kept_questions: report.kept_questions,
            loss: report.loss.as_deref(),
            current: !args.dry_run,
            summary: &report.summary,
        };
        ctx.printer.json(&updated)?;
        return Ok(exit);
    }
    let done = if args.dry_run { "read" } else { "updated" };
    summary::print(&report, &format!("{done} in {seconds:.1} s"), !args.dry_run, ctx)?;
    ctx.printer.text(&format!("\n{}", told(&changes, report.kept_questions)))?;
    if args.dry_run {
        if let Some(loss) = &report.loss {
            ctx.printer.warning(&format!("this loses {loss}; only --force updates so"));
        }
        ctx.printer.notice(DRY_RUN);
    } else if !was_indexed {
        ctx.printer.notice(&format!("next: build its index with `agent index {}`", base.name));
    } else if !changes.is_empty() {
        ctx.printer.notice("next: `agent verify BUNDLE --drift` says whether a bundle still fits");
    }
    Ok(exit)
}

/// Indexes the new version as the one before, and makes it answer. An index of the same nodes and
/// edges is taken over.
fn bring_up(served: &Base, base: &Base, ctx: &Context) -> Result<Exit> {
    if served.record.fingerprint == base.record.fingerprint && served.version != base.version {
        adopt(&served.index_dir(), &base.index_dir())?;
    }
    index_as_before(served, ctx)?;
    Ok(Exit::Done)
}

/// What changed, in lines.
fn told(changes: &Changes, kept: Option<(u64, u64)>) -> String {
    let mut lines = Vec::new();
    match changes.is_empty() {
        true => lines.push("no node and no edge changed".to_owned()),
        false => lines.push(format!(
            "nodes      {} new, {} gone, {} changed, {} as before",
            count(changes.nodes_added),
            count(changes.nodes_removed),
            count(changes.nodes_changed),
            count(changes.nodes_same)
        )),
    }
    for (name, (added, removed)) in changes.edges.iter().take(MAX_RELATIONS) {
        let (added, removed) = (count(*added), count(*removed));
        lines.push(format!("edges      {}: {added} new, {removed} gone", plain(name, MAX_SHOWN)));
    }
    if let Some(more @ 1..) = changes.edges.len().checked_sub(MAX_RELATIONS) {
        lines.push(format!("           and of {more} more relations"));
    }
    for name in &changes.relations_gone {
        lines.push(format!("gone       the relation {}", plain(name, MAX_SHOWN)));
    }
    if let Some((kept, lost)) = kept {
        let (kept, lost) = (count(kept), count(lost));
        lines.push(format!("questions  {kept} of before kept, {lost} lost with their answers"));
    }
    lines.join("\n") + "\n"
}
