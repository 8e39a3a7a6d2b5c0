//! What one step of a run did, in one line. Must not know how that is shown.

use std::collections::HashMap;

use serde::Serialize;

use crate::{
    Decision,
    journal::StepRecord,
    record::{DECISION, Record, body},
    trial::{TRIAL, Trial},
};

/// Who is named where only the parameters of a program changed.
const TUNER: &str = "tuner";

/// One step; what does not apply to its kind is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// Its number.
    pub n: u64,
    /// What was done.
    pub kind: String,
    /// Which of its kind.
    pub key: String,
    /// The category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// The program that was tried or tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The program that the category had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Who proposed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed_by: Option<String>,
    /// What was done, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// The queries: `train` or `validation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// How many of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries: Option<usize>,
    /// Mean reciprocal rank on them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mrr: Option<f64>,
    /// Those on which it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<usize>,
    /// The first failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Difference of the mean reciprocal ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// Two-sided p of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Whether the change was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<bool>,
    /// Ids of the programs it proposed.
    pub programs: Vec<String>,
    /// Keys of the replies it used.
    pub replies: Vec<String>,
}

/// Tells steps in the order of the journal; who proposed a program is known once it was tried.
#[derive(Default)]
pub struct Lines {
    /// Who first proposed a program.
    proposers: HashMap<String, String>,
}

impl Lines {
    /// All lines of a run.
    pub fn of(record: &Record) -> Vec<Line> {
        let mut lines = Lines::default();
        let line = |step| lines.line(step, |program| record.category(program).to_owned());
        record.steps.iter().map(line).collect()
    }

    /// The next step; `category` gives that of a program.
    pub fn line(&mut self, step: &StepRecord, category: impl Fn(&str) -> String) -> Line {
        if step.kind == TRIAL
            && let Some(trial) = body::<Trial>(step)
        {
            let by = trial.origin.proposed_by.clone();
            self.proposers.entry(trial.program.clone()).or_insert(by);
            return of_trial(&category(&trial.program), step, trial);
        }
        if step.kind == DECISION
            && let Some(decision) = body::<Decision>(step)
        {
            let by = match decision.from == decision.to {
                true => Some(TUNER.to_owned()),
                false => self.proposers.get(&decision.to).cloned(),
            };
            return of_decision(step, decision, by);
        }
        bare(step)
    }
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

fn of_trial(category: &str, step: &StepRecord, trial: Trial) -> Line {
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
