//! `agent run list`: lists the runs in the home directory.

use std::path::PathBuf;

use serde::Serialize;

use crate::{Context, Exit, plain, table};
use agent_app::{AppError, MAX_SHOWN, Result, count, named, report::recorded::RunSummary};
use agent_optimize::{BUNDLE_FILE, journal::DATABASE_FILE};

/// List the runs in the home directory
///
/// Prints directory, dataset, actor, seed, state, the number of steps in the journal, and the
/// numbers of tested and accepted changes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List only runs on this dataset
    #[arg(long, value_name = "N")]
    dataset: Option<String>,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    run: PathBuf,
    #[serde(flatten)]
    summary: RunSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let mut listed: Vec<Listed> = named::run_dirs(&ctx.home)?.into_iter().map(entry).collect();
    if let Some(dataset) = &args.dataset {
        listed.retain(|run| run.summary.dataset == *dataset);
    }
    if listed.is_empty() {
        let words = |dataset: &str| (format!(" on \"{dataset}\""), format!(" --dataset {dataset}"));
        let (on, option) = args.dataset.as_deref().map(words).unwrap_or_default();
        let dir = named::runs_dir(&ctx.home);
        ctx.watch.notice(&format!(
            "no runs{on} in {}; start one with `agent optimize{option}`, or show a run in another \
             directory with `agent run show DIR`",
            dir.display()
        ));
        return Ok(Exit::Done);
    }
    if args.json {
        return ctx.printer.json_lines(&listed);
    }
    let headings = ["run", "dataset", "actor", "seed", "state", "steps", "tested", "accepted"];
    let mut rows = table(headings, &[3, 5, 6, 7]);
    for Listed { run: dir, summary: run, problem } in &listed {
        let state = match (problem, run.pid) {
            (Some(problem), _) => plain(problem, MAX_SHOWN),
            (None, Some(pid)) => format!("{} ({pid})", run.state),
            (None, None) => run.state.to_owned(),
        };
        rows.add_row([
            dir.display().to_string(),
            plain(&run.dataset, MAX_SHOWN),
            plain(&run.actor, MAX_SHOWN),
            run.seed.map_or(String::new(), |seed| seed.to_string()),
            state,
            count(run.steps as u64),
            count(run.tested as u64),
            count(run.accepted as u64),
        ]);
    }
    ctx.printer.table(&rows)
}

fn entry(dir: PathBuf) -> Listed {
    let (summary, problem) = match RunSummary::read(&dir) {
        Ok(summary) => (summary, None),
        Err(error) => {
            // `agent home import` of a file with bundles alone leaves such a directory.
            let is_bundle = !dir.join(DATABASE_FILE).exists() && dir.join(BUNDLE_FILE).exists();
            let state = if is_bundle { "bundle alone" } else { "unreadable" };
            let problem = (!is_bundle).then(|| AppError::from(error).message());
            (RunSummary { state, ..RunSummary::default() }, problem)
        }
    };
    Listed { run: dir, summary, problem }
}
