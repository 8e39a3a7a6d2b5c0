//! The result of an optimization; as JSON, the output of `agent optimize --json`. Does not depend
//! on how it was computed.

use std::path::PathBuf;

use anyhow::anyhow;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{Forecast, OnTest, resume_command};
use crate::{Explain, Result};
use agent_infer::bundle::Category;
use agent_llm::ledger::Spending;
use agent_optimize::{BUNDLE_FILE, Outcome, Scope, record::timing::Timing};
use agent_retrieve::eval::Calibration;

/// Result of an optimization, or of its dry run.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// The forecast of a dry run.
    Planned(Forecast),
    /// The run is paused, since the service of its language model does not reply; nothing is
    /// frozen.
    Paused(Paused),
    /// The run has ended and frozen a bundle.
    Ended(Box<Ended>),
}

/// A run that is paused, since the service of its language model does not reply.
pub struct Paused {
    /// The dataset, as the request names it.
    pub dataset: String,
    /// The directory of the run; over a network, its path below the home directory.
    pub run: PathBuf,
    /// Why the run is paused, in words.
    pub why: String,
}

impl Paused {
    /// Returns an error that says why the run is paused, for callers that need a bundle.
    ///
    /// # Errors
    /// Always: the function only returns this error.
    pub fn fail<T>(&self) -> Result<T> {
        let why = &self.why;
        Err(anyhow!("paused: {why}; nothing is frozen, and everything done so far is kept"))
            .hint(resume_command(&self.dataset, &self.run))
    }
}

impl Serialize for Paused {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        json!({ "run": self.run.to_string_lossy(), "stopped": "paused", "why": self.why })
            .serialize(out)
    }
}

/// A run that has ended and frozen a bundle.
pub struct Ended {
    /// The dataset, as the request names it.
    pub dataset: String,
    /// The directory of the run; over a network, its path below the home directory.
    pub run: PathBuf,
    /// The bundle, and why the run stopped.
    pub outcome: Outcome,
    /// Results on the test split; `None` if nothing was measured on this split.
    pub test: Option<OnTest>,
    /// Wall time of the optimization in this process, in seconds.
    pub seconds: f64,
    /// Times of the run and its phases, summed over all processes that worked on the run.
    pub timing: Timing,
    /// Calibration of the router on validation queries: how well its probabilities match the
    /// outcomes. `None` if it could not be measured.
    pub router: Option<Calibration>,
    /// What was spent on language models.
    pub spent: Spending,
}

impl Ended {
    /// Returns the path of the bundle's file.
    pub fn bundle_file(&self) -> PathBuf {
        self.run.join(BUNDLE_FILE)
    }
}

impl Serialize for Ended {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let bundle = &self.outcome.bundle;
        json!({
            "run": self.run.to_string_lossy(),
            "bundle": self.bundle_file().to_string_lossy(),
            "seed": bundle.provenance.seed,
            "steps": bundle.provenance.steps,
            "synthetic": bundle.provenance.synthetic,
            "baseline_frozen": bundle.provenance.baseline,
            "verdict": self.outcome.verdict,
            "categories": bundle.categories.iter().map(category).collect::<Vec<_>>(),
            "validation": bundle.validation,
            "test": self.test.as_ref().map(OnTest::systems),
            "test_openings": self.test.as_ref().map(|test| test.openings),
            "router": self.router,
            "seconds_to_first_better": self.timing.seconds_to(Scope::Program),
            "first_better": self.timing.first_better,
            "phases": self.timing.summaries(),
            "cost": {
                "calls": self.spent.calls,
                "tokens_in": self.spent.tokens_in,
                "tokens_out": self.spent.tokens_out,
                "usd": self.spent.usd,
                "seconds": self.seconds,
            },
            "stopped": self.outcome.stopped.name(),
        })
        .serialize(out)
    }
}

/// Returns a category of the bundle as JSON, with the scores of its program and of the best
/// baseline on the category's validation queries.
fn category(category: &Category) -> Value {
    let score = category.validation.as_ref();
    json!({
        "name": category.name,
        "n": score.map_or(0, |score| score.n),
        "baseline": score.map(|score| score.baseline_mrr),
        "baseline_name": score.map(|score| &score.baseline),
        "frozen": score.map(|score| score.mrr),
        "difference": score.map(|score| score.difference),
        "ci95": score.map(|score| score.ci95),
        "program": category.program.id(),
    })
}
