//! What a run took: time by part, calls of language models, tokens and dollars by role. Must not
//! know how the page looks.

use std::path::Path;

use serde::Serialize;

use crate::{optimize::first_better, report::sentence, run::cost::dollars};
use agent_app::{error::Result, text::count};
use agent_optimize::record::{
    Record,
    timing::{Summary, Timing},
};

/// What a run took; all texts are as they came.
#[derive(Serialize)]
pub(super) struct Taken {
    /// Seconds of all parts; empty where they are not known.
    seconds: String,
    phases: Vec<PhaseRow>,
    /// When programs were first better than every baseline.
    first_better: Vec<String>,
    /// Roles that asked a model, and all together; empty when none did.
    roles: Vec<RoleRow>,
    /// Calls whose tokens the service did not count.
    estimated: u64,
}

#[derive(Serialize)]
struct PhaseRow {
    name: String,
    seconds: String,
    percent: f64,
    steps: usize,
    median: String,
    longest: String,
}

#[derive(Serialize)]
struct RoleRow {
    role: String,
    calls: String,
    from_cache: String,
    tokens_in: String,
    tokens_out: String,
    usd: String,
}

impl Taken {
    /// What the run in a directory took so far.
    ///
    /// # Errors
    /// That the journal cannot be read.
    pub(super) fn read(dir: &Path) -> Result<Taken> {
        let (timing, record) = (Timing::read(dir), Record::read(dir)?);
        let all = record.cost();
        let costs = record.costs();
        let total = (!costs.is_empty()).then_some(("all".to_owned(), all));
        let roles = costs.iter().map(|(role, cost)| (role.to_string(), *cost)).chain(total);
        Ok(Taken {
            seconds: match timing.phases.is_empty() {
                true => String::new(),
                false => format!("{:.1}", timing.seconds),
            },
            phases: phases(&timing),
            first_better: timing
                .first_better
                .iter()
                .map(|better| sentence(&first_better(better)))
                .collect(),
            roles: roles
                .map(|(role, cost)| RoleRow {
                    role,
                    calls: count(cost.spent.calls),
                    from_cache: count(cost.from_cache),
                    tokens_in: count(cost.spent.tokens_in),
                    tokens_out: count(cost.spent.tokens_out),
                    usd: dollars(&cost.spent),
                })
                .collect(),
            estimated: all.estimated,
        })
    }
}

fn phases(timing: &Timing) -> Vec<PhaseRow> {
    let all: f64 = timing.phases.iter().map(|phase| phase.seconds).sum();
    let row = |part: Summary| PhaseRow {
        seconds: format!("{:.2}", part.seconds),
        percent: (1_000.0 * part.seconds / all.max(f64::MIN_POSITIVE)).round() / 10.0,
        steps: part.steps,
        median: format!("{:.3}", part.median),
        longest: format!("{:.3}", part.longest),
        name: part.name,
    };
    timing.summaries().into_iter().map(row).collect()
}
