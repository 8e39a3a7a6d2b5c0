//! `agent run show`: prints the state of a run.

use std::{collections::BTreeMap, path::PathBuf};

use comfy_table::Table;
use serde::Serialize;

use crate::{
    Context, Exit,
    printer::{plain, table},
    run::cost::{dollars, role_table},
};
use agent_app::{
    error::Result,
    named,
    optimize::events::first_better,
    text::{MAX_SHOWN, count},
};
use agent_optimize::{
    BUNDLE_FILE, Milestone,
    record::{
        Record, RoleCost, RoleCostEntry, Standing, State, Times,
        timing::{Summary, Timing},
    },
};

/// Show the state of a run
///
/// Prints the run's settings, its state (finished, paused, interrupted or running) and its journal.
/// Then prints the costs by role, the time by part of the run, and the best program of every
/// category so far.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show this run: its directory, its name, or `latest`
    #[arg(value_name = "RUN")]
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown<'a> {
    run: &'a PathBuf,
    dataset: &'a str,
    actor: &'a str,
    model: Option<&'a str>,
    seed: Option<u64>,
    planned: Option<u64>,
    state: State,
    pid: Option<u32>,
    /// Reason why the run is paused; none if it is not paused.
    paused: Option<&'a str>,
    steps: usize,
    kinds: BTreeMap<&'a str, u64>,
    tested: usize,
    accepted: usize,
    categories: Vec<Standing>,
    bundle: Option<PathBuf>,
    spent: RoleCost,
    roles: Vec<RoleCostEntry>,
    times: Times,
    phases: Vec<Summary>,
    first_better: Vec<Milestone>,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let dir = named::run_dir(&args.dir, &ctx.home)?;
    let record = Record::read(&dir)?;
    let bundle = dir.join(BUNDLE_FILE);
    let timing = Timing::read(&dir);
    let (tested, accepted) = record.tested_and_accepted();
    let shown = Shown {
        run: &record.dir,
        dataset: &record.dataset,
        actor: &record.actor,
        model: record.model.as_deref(),
        seed: record.seed,
        planned: record.planned_steps,
        state: record.state,
        pid: record.pid,
        paused: record.paused.as_deref(),
        steps: record.steps.len(),
        kinds: record.kinds(),
        tested,
        accepted,
        categories: record.standings(record.bundle().as_ref()),
        bundle: (record.state == State::Finished && bundle.exists()).then_some(bundle),
        spent: record.cost(),
        roles: record.role_costs(),
        times: record.times(),
        phases: timing.summaries(),
        first_better: timing.first_better,
    };
    if args.json {
        ctx.printer.json(&shown)?;
        return Ok(Exit::Done);
    }
    print(&shown, ctx)?;
    Ok(Exit::Done)
}

fn print(shown: &Shown<'_>, ctx: &Context) -> Result<()> {
    let mut rows = table(["run", &shown.run.display().to_string()], &[]);
    let kinds: Vec<String> = shown
        .kinds
        .iter()
        .map(|(kind, n)| format!("{} {}", count(*n), plain(kind, MAX_SHOWN)))
        .collect();
    let state = match (shown.pid, shown.paused) {
        (Some(pid), _) => format!("{}, written by process {pid}", shown.state.name()),
        (None, Some(why)) => format!("{}: {}", shown.state.name(), plain(why, MAX_SHOWN)),
        (None, None) => shown.state.name().to_owned(),
    };
    let actor = match shown.model {
        Some(model) => format!("{} ({})", shown.actor, plain(model, MAX_SHOWN)),
        None => shown.actor.to_owned(),
    };
    let number = |number: Option<u64>| number.map_or_else(|| "unknown".to_owned(), count);
    let spent = &shown.spent.spent;
    let tokens = count(spent.tokens_in + spent.tokens_out);
    for (what, value) in [
        ("dataset", plain(shown.dataset, MAX_SHOWN)),
        ("actor", actor),
        ("seed", number(shown.seed)),
        ("planned steps", number(shown.planned)),
        ("state", state),
        ("journal", format!("{} steps: {}", count(shown.steps as u64), kinds.join(", "))),
        ("changes", format!("{} tested, {} accepted", shown.tested, shown.accepted)),
        ("spent", format!("{} calls, {tokens} tokens, {}", count(spent.calls), dollars(spent))),
        ("time", time(&shown.times)),
    ] {
        rows.add_row([what, &value]);
    }
    for better in &shown.first_better {
        rows.add_row(["first better", &first_better(better)]);
    }
    if let Some(bundle) = &shown.bundle {
        rows.add_row(["bundle", &bundle.display().to_string()]);
    }
    ctx.printer.table(&rows)?;
    if !shown.roles.is_empty() {
        ctx.printer.data("\n")?;
        ctx.printer.table(&role_table(&shown.roles, &shown.spent))?;
    }
    if !shown.phases.is_empty() {
        ctx.printer.data("\n")?;
        ctx.printer.table(&phase_table(&shown.phases))?;
    }
    if shown.categories.is_empty() {
        return Ok(());
    }
    let mut rows = table(["category", "program", "n val", "mrr"], &[2, 3]);
    for standing in &shown.categories {
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
    match times.seconds {
        Some(seconds) => {
            format!("{} s of work, pauses left out", count(seconds))
        }
        None => "unknown".to_owned(),
    }
}
