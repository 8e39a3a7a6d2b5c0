//! `agent run log`: what a run did, one line per step.

use std::{collections::HashMap, path::PathBuf};

use serde::Serialize;

use crate::{
    cli::{
        Context, Exit,
        failure::Result,
        hits::MAX_SHOWN,
        named,
        printer::{p_cell, plain, table},
        run::record::{DECISION, Record, body},
    },
    optimize::{
        Decision,
        journal::StepRecord,
        trial::{TRIAL, Trial},
    },
};

/// Who is named where only the parameters of a program changed.
const TUNER: &str = "tuner";

/// Print what a run did, one line per step
///
/// In the order of the journal: the number and kind of the step, the category, who proposed what,
/// on how many queries of which pool; of a trial its mean reciprocal rank in percent; of a test of a
/// change the difference of the mean reciprocal ranks in points, its p, and whether the change was kept.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Run: its directory, its name, or latest
    #[arg(value_name = "RUN")]
    dir: PathBuf,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

/// One step; what does not apply to its kind is left out.
#[derive(Debug, Default, Serialize)]
struct Line {
    n: u64,
    kind: String,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proposed_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queries: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mrr: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<bool>,
    programs: Vec<String>,
    replies: Vec<String>,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let record = Record::read(&named::run_dir(&args.dir, &ctx.home)?)?;
    let lines = lines(&record);
    if args.json {
        for line in &lines {
            ctx.printer.json(line)?;
        }
        return Ok(Exit::Done);
    }
    let headings =
        ["step", "kind", "category", "by", "what", "on", "n", "mrr", "difference", "p", "accepted"];
    let mut rows = table(headings, &[0, 6, 7, 8, 9]);
    for line in &lines {
        let text =
            |text: &Option<String>| text.as_deref().map_or(String::new(), |t| plain(t, MAX_SHOWN));
        let mrr = |mrr: Option<f64>| mrr.map_or(String::new(), |mrr| format!("{:.1}", 100.0 * mrr));
        let points = |share: f64| format!("{:+.1}", 100.0 * share);
        rows.add_row([
            line.n.to_string(),
            plain(&line.kind, MAX_SHOWN),
            text(&line.category),
            text(&line.proposed_by),
            what(line),
            text(&line.pool),
            line.queries.map_or(String::new(), |n| n.to_string()),
            mrr(line.mrr),
            line.difference.map_or(String::new(), points),
            line.p.map_or(String::new(), p_cell),
            line.accepted.map_or("", |accepted| if accepted { "yes" } else { "no" }).to_owned(),
        ]);
    }
    ctx.printer.table(&rows)?;
    Ok(Exit::Done)
}

/// What was done, for people.
fn what(line: &Line) -> String {
    let what = match (&line.change, line.failed) {
        (Some(change), Some(failed @ 1..)) => format!("{change}; failed on {failed}"),
        (Some(change), _) => change.clone(),
        (None, _) => line.key.clone(),
    };
    match line.replies.len() {
        0 => plain(what, MAX_SHOWN),
        n => plain(format!("{what} ({n} replies)"), MAX_SHOWN),
    }
}

fn lines(record: &Record) -> Vec<Line> {
    // Who first proposed a program.
    let mut proposers: HashMap<String, String> = HashMap::new();
    record
        .steps
        .iter()
        .map(|step| {
            if step.kind == TRIAL
                && let Some(trial) = body::<Trial>(step)
            {
                let by = trial.origin.proposed_by.clone();
                proposers.entry(trial.program.clone()).or_insert(by);
                return of_trial(record, step, trial);
            }
            if step.kind == DECISION
                && let Some(decision) = body::<Decision>(step)
            {
                let by = if decision.from == decision.to {
                    Some(TUNER.to_owned())
                } else {
                    proposers.get(&decision.to).cloned()
                };
                return of_decision(step, decision, by);
            }
            bare(step)
        })
        .collect()
}

/// What every step has.
fn bare(step: &StepRecord) -> Line {
    Line {
        n: step.n,
        kind: step.kind.clone(),
        key: step.key.clone(),
        programs: step.programs.clone(),
        replies: step.replies.clone(),
        ..Line::default()
    }
}

fn of_trial(record: &Record, step: &StepRecord, trial: Trial) -> Line {
    Line {
        category: Some(record.category(&trial.program).to_owned()),
        mrr: Some(trial.mrr()),
        queries: Some(trial.queries.len()),
        program: Some(trial.program),
        proposed_by: Some(trial.origin.proposed_by),
        change: Some(trial.origin.change),
        pool: Some(trial.pool),
        failed: Some(trial.failed),
        failure: trial.failure,
        ..bare(step)
    }
}

fn of_decision(step: &StepRecord, decision: Decision, proposed_by: Option<String>) -> Line {
    Line {
        category: Some(decision.category),
        program: Some(decision.to),
        from: Some(decision.from),
        proposed_by,
        change: Some(decision.change),
        pool: Some("train".to_owned()),
        queries: Some(decision.n),
        difference: Some(decision.difference),
        p: Some(decision.p),
        accepted: Some(decision.accepted),
        ..bare(step)
    }
}
