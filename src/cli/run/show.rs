//! `agent run show`: prints the state of a run.

use std::path::PathBuf;

use comfy_table::Table;
use serde_json::{json, to_value};

use super::{
    RunArg,
    cost::{dollars, role_table},
};
use crate::{Context, Exit, OneJson, plain, table};
use agent_app::{MAX_SHOWN, Result, count, named, optimize::events::first_better};
use agent_optimize::{
    BUNDLE_FILE,
    record::{
        Record, Standing, State, Times,
        timing::{Summary, Timing},
    },
};

pub(super) fn run(args: &OneJson<RunArg>, ctx: &Context) -> Result<Exit> {
    let dir = named::run_dir(&args.request.dir, ctx)?;
    let record = Record::read(&dir)?;
    let (bundle, timing) = (dir.join(BUNDLE_FILE), Timing::read(&dir));
    let bundle = (record.state == State::Finished && bundle.exists()).then_some(bundle);
    let categories = record.standings(record.bundle().as_ref());
    if !args.json {
        return print(&record, &timing, bundle, &categories, ctx);
    }
    let (tested, accepted) = record.tested_and_accepted();
    ctx.printer.json(&json!({
        "run": to_value(&record.dir)?,
        "dataset": record.dataset,
        "actor": record.actor,
        "model": record.model,
        "seed": record.seed,
        "planned": record.planned_steps,
        "state": record.state,
        "pid": record.pid,
        // Why the run is paused; null if it is not paused.
        "paused": record.paused,
        "steps": record.steps.len(),
        "kinds": record.kinds(),
        "tested": tested,
        "accepted": accepted,
        "categories": categories,
        "bundle": to_value(bundle)?,
        "spent": record.cost(),
        "roles": record.role_costs(),
        "times": record.times(),
        "phases": timing.summaries(),
        "first_better": timing.first_better,
    }))
}

fn print(
    record: &Record,
    timing: &Timing,
    bundle: Option<PathBuf>,
    categories: &[Standing],
    ctx: &Context,
) -> Result<Exit> {
    let mut rows = table(["run", &record.dir.display().to_string()], &[]);
    let kinds: Vec<String> = record
        .kinds()
        .iter()
        .map(|(kind, n)| format!("{} {}", count(*n), plain(kind, MAX_SHOWN)))
        .collect();
    let state = match (record.pid, &record.paused) {
        (Some(pid), _) => format!("{}, written by process {pid}", record.state.name()),
        (None, Some(why)) => format!("{}: {}", record.state.name(), plain(why, MAX_SHOWN)),
        (None, None) => record.state.name().to_owned(),
    };
    let actor = match &record.model {
        Some(model) => format!("{} ({})", record.actor, plain(model, MAX_SHOWN)),
        None => record.actor.clone(),
    };
    let number = |number: Option<u64>| number.map_or_else(|| "unknown".to_owned(), count);
    let (cost, roles, phases) = (record.cost(), record.role_costs(), timing.summaries());
    let (tested, accepted) = record.tested_and_accepted();
    let spent = &cost.spent;
    let tokens = count(spent.tokens_in + spent.tokens_out);
    for (what, value) in [
        ("dataset", plain(&record.dataset, MAX_SHOWN)),
        ("actor", actor),
        ("seed", number(record.seed)),
        ("planned steps", number(record.planned_steps)),
        ("state", state),
        ("journal", format!("{} steps: {}", count(record.steps.len() as u64), kinds.join(", "))),
        ("changes", format!("{tested} tested, {accepted} accepted")),
        ("spent", format!("{} calls, {tokens} tokens, {}", count(spent.calls), dollars(spent))),
        ("time", time(&record.times())),
    ] {
        rows.add_row([what, &value]);
    }
    for better in &timing.first_better {
        rows.add_row(["first better", &first_better(better)]);
    }
    if let Some(bundle) = &bundle {
        rows.add_row(["bundle", &bundle.display().to_string()]);
    }
    ctx.printer.table(&rows)?;
    if !roles.is_empty() {
        ctx.printer.data("\n")?;
        ctx.printer.table(&role_table(&roles, &cost))?;
    }
    if !phases.is_empty() {
        ctx.printer.data("\n")?;
        ctx.printer.table(&phase_table(&phases))?;
    }
    if categories.is_empty() {
        return Ok(Exit::Done);
    }
    let mut rows = table(["category", "program", "n val", "mrr"], &[2, 3]);
    for standing in categories {
        rows.add_row([
            plain(&standing.category, MAX_SHOWN),
            standing.program.chars().take(12).collect(),
            standing.n.to_string(),
            format!("{:.1}", 100.0 * standing.mrr),
        ]);
    }
    ctx.printer.data("\n")?;
    ctx.printer.table(&rows)
}

/// Returns a table of the time that each part of the run took.
fn phase_table(phases: &[Summary]) -> Table {
    let headings = ["part", "seconds", "steps", "median of a step", "longest"];
    let mut rows = table(headings, &[1, 2, 3, 4]);
    for part in phases {
        rows.add_row([
            plain(&part.name, MAX_SHOWN),
            format!("{:.2}", part.seconds),
            count(part.steps as u64),
            format!("{:.3}", part.median),
            format!("{:.3}", part.longest),
        ]);
    }
    rows
}

/// Formats the time that a run took, without its pauses.
pub(super) fn time(times: &Times) -> String {
    let told = |seconds| format!("{} s of work, without pauses", count(seconds));
    times.seconds.map_or_else(|| "unknown".to_owned(), told)
}
