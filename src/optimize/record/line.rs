//! Summary of one journal step of a run, as one line for display.

use std::collections::HashMap;

use serde::Serialize;

use crate::{
    Decision,
    journal::StepRecord,
    record::{DECISION, Record, body},
    trial::{TRIAL, Trial},
};

/// Proposer of changes that affect only parameters.
const TUNER: &str = "tuner";

/// Summary of one journal step. Fields that do not apply to the step's kind are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// Number of the step in the journal, from 1.
    pub n: u64,
    /// Kind of the step, such as `trial` or `decision`.
    pub kind: String,
    /// Key of the step, unique within the kind.
    pub key: String,
    /// Name of the category of the tried or tested program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Id of the tried or tested program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Id of the category's program before the change (decisions only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Name of the proposer of the program, such as an operator or a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed_by: Option<String>,
    /// Description of the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Pool of the queries on which the program ran: `train` or `validation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Number of queries on which the program ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries: Option<usize>,
    /// Mean reciprocal rank of the program on these queries (trials only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mrr: Option<f64>,
    /// Number of queries on which the program failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<usize>,
    /// Message of the first failure of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Mean reciprocal rank of the tested program minus that of the previous program (decisions
    /// only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// Two-sided p-value of this difference (decisions only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Whether the change was accepted (decisions only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<bool>,
    /// Ids of the programs that the step proposed, including programs that earlier steps also
    /// proposed.
    pub programs: Vec<String>,
    /// Keys of the model's replies that the step used.
    pub replies: Vec<String>,
}

/// Converts journal steps to lines. The steps must come in the order of the journal, because a
/// decision gets its proposer from the earlier trial of the program.
#[derive(Default)]
pub struct Lines {
    /// The first proposer of each program, by the program's id.
    proposers: HashMap<String, String>,
}

impl Lines {
    /// Converts all journal steps of a run to lines.
    pub fn from_record(record: &Record) -> Vec<Line> {
        let mut lines = Lines::default();
        let line = |step| lines.line(step, |program| record.category(program).to_owned());
        record.steps.iter().map(line).collect()
    }

    /// Converts the next step of the journal to a line; `category` returns the category name of the
    /// program with a given id.
    pub fn line(&mut self, step: &StepRecord, category: impl Fn(&str) -> String) -> Line {
        let basic = Line {
            n: step.n,
            kind: step.kind.clone(),
            key: step.key.clone(),
            programs: step.programs.clone(),
            replies: step.replies.clone(),
            ..Line::default()
        };
        if step.kind == TRIAL
            && let Some(trial) = body::<Trial>(step)
        {
            let proposed_by = trial.origin.proposed_by.clone();
            self.proposers.entry(trial.program.clone()).or_insert(proposed_by);
            return Line {
                category: Some(category(&trial.program)),
                mrr: Some(trial.mrr()),
                queries: Some(trial.queries.len()),
                program: Some(trial.program),
                proposed_by: Some(trial.origin.proposed_by),
                change: Some(trial.origin.change),
                pool: Some(trial.pool),
                failed: Some(trial.failed),
                failure: trial.failure,
                ..basic
            };
        }
        if step.kind == DECISION
            && let Some(decision) = body::<Decision>(step)
        {
            let proposed_by = match decision.from == decision.to {
                true => Some(TUNER.to_owned()),
                false => self.proposers.get(&decision.to).cloned(),
            };
            return Line {
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
                ..basic
            };
        }
        basic
    }
}
