//! Summary of one step of a run.

use std::collections::HashMap;

use serde::Serialize;

use crate::{
    Decision,
    journal::StepRecord,
    record::{DECISION, Record, body},
    trial::{TRIAL, Trial},
};

/// Proposer of changes that only affect parameters.
const TUNER: &str = "tuner";

/// Summary of one step; fields that do not apply to its kind are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// Number of the step, from 1.
    pub n: u64,
    /// Kind of the step.
    pub kind: String,
    /// Key of the step, unique within the kind.
    pub key: String,
    /// The category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Id of the tried or tested program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Id of the category's previous program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Proposer of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed_by: Option<String>,
    /// Description of the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Pool of the queries: `train` or `validation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Number of queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries: Option<usize>,
    /// Mean reciprocal rank on these queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mrr: Option<f64>,
    /// Number of queries on which the program failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<usize>,
    /// The first failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Difference of the mean reciprocal ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// Two-sided p of the difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Whether the change was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<bool>,
    /// Ids of the programs that the step proposed.
    pub programs: Vec<String>,
    /// Keys of the replies that the step used.
    pub replies: Vec<String>,
}

/// Converts steps to lines, in the order of the journal; the proposer of a program is known after
/// its trial.
#[derive(Default)]
pub struct Lines {
    /// First proposer by id of a program.
    proposers: HashMap<String, String>,
}

impl Lines {
    /// Converts all steps of a run.
    pub fn from_record(record: &Record) -> Vec<Line> {
        let mut lines = Lines::default();
        let line = |step| lines.line(step, |program| record.category(program).to_owned());
        record.steps.iter().map(line).collect()
    }

    /// Converts the next step; `category` returns the category of a program.
    pub fn line(&mut self, step: &StepRecord, category: impl Fn(&str) -> String) -> Line {
        if step.kind == TRIAL
            && let Some(trial) = body::<Trial>(step)
        {
            let proposed_by = trial.origin.proposed_by.clone();
            self.proposers.entry(trial.program.clone()).or_insert(proposed_by);
            return trial_line(&category(&trial.program), step, trial);
        }
        if step.kind == DECISION
            && let Some(decision) = body::<Decision>(step)
        {
            let proposed_by = match decision.from == decision.to {
                true => Some(TUNER.to_owned()),
                false => self.proposers.get(&decision.to).cloned(),
            };
            return decision_line(step, decision, proposed_by);
        }
        basic_line(step)
    }
}

/// Fills the fields that every kind of step has.
fn basic_line(step: &StepRecord) -> Line {
    Line {
        n: step.n,
        kind: step.kind.clone(),
        key: step.key.clone(),
        programs: step.programs.clone(),
        replies: step.replies.clone(),
        ..Line::default()
    }
}

fn trial_line(category: &str, step: &StepRecord, trial: Trial) -> Line {
    Line {
        category: Some(category.to_owned()),
        mrr: Some(trial.mrr()),
        queries: Some(trial.queries.len()),
        program: Some(trial.program),
        proposed_by: Some(trial.origin.proposed_by),
        change: Some(trial.origin.change),
        pool: Some(trial.pool),
        failed: Some(trial.failed),
        failure: trial.failure,
        ..basic_line(step)
    }
}

fn decision_line(step: &StepRecord, decision: Decision, proposed_by: Option<String>) -> Line {
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
        ..basic_line(step)
    }
}
