//! Figures of one system, as they are printed as JSON. Must not know how they were measured.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::Metrics;
use agent_llm::ledger::Spending;
use agent_retrieve::eval::{Comparison, Latency, Metric, SetEvaluation, ValueEvaluation};

/// What the figures of all systems have in common.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// The dataset, as it was named.
    pub dataset: String,
    /// The splits, joined by commas.
    pub split: String,
    /// Whether the questions were made, not labelled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// How often the test split was opened, of figures on it.
    #[serde(skip)]
    pub openings: Option<u64>,
}

/// Figures of one system: `E` over all queries, `G` over each group.
#[derive(Clone, Debug, Serialize)]
pub struct SystemFigures<E, G = E> {
    /// On which queries.
    #[serde(flatten)]
    pub about: About,
    /// What the system is called.
    pub system: String,
    /// Over all queries.
    #[serde(flatten)]
    pub evaluation: E,
    /// What it spent on language models; not of values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmUse>,
    /// What its replies took, those that had been kept among them; only if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<LlmUse>,
    /// Queries that a model was to help with and did not; only if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unassisted: Option<usize>,
    /// Nodes ranked, where that is not the usual number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
    /// Definitions of the metrics, where they are not the usual ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definitions: Option<Metrics>,
    /// Why the means say nothing, if that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// How often the test split was opened, of figures on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_openings: Option<u64>,
    /// By group, if groups were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeMap<String, G>>,
    /// Against other systems, if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versus: Vec<Versus>,
}

/// Figures of answers as sets.
pub type SetFigures = SystemFigures<SetSummary, SetEvaluation>;
/// Figures of answers that are no nodes.
pub type ValueFigures = SystemFigures<ValueSummary>;

impl<E, G> SystemFigures<E, G> {
    /// Figures over all queries alone.
    pub(super) fn new(about: &About, system: &str, evaluation: E) -> Self {
        SystemFigures {
            about: about.clone(),
            system: system.to_owned(),
            evaluation,
            llm: None,
            asked: None,
            unassisted: None,
            depth: None,
            definitions: None,
            invalid: None,
            test_openings: about.openings,
            groups: None,
            versus: Vec::new(),
        }
    }
}

/// How good the answers to some queries are as sets.
#[derive(Clone, Debug, Serialize)]
pub struct SetSummary {
    /// Queries that count with the baseline ranking.
    pub failed: usize,
    /// Means and intervals.
    #[serde(flatten)]
    pub evaluation: SetEvaluation,
    /// Milliseconds of an answer.
    #[serde(rename = "latency_ms")]
    pub latency: Latency,
}

/// How good the answers to some queries are that are no nodes.
#[derive(Clone, Debug, Serialize)]
pub struct ValueSummary {
    /// Queries.
    pub n: usize,
    /// Queries that got no answer.
    pub failed: usize,
    /// Means and intervals.
    #[serde(flatten)]
    pub evaluation: ValueEvaluation,
    /// Milliseconds of an answer.
    #[serde(rename = "latency_ms")]
    pub latency: Latency,
}

/// A system against another one, in one metric.
#[derive(Clone, Debug, Serialize)]
pub struct Versus {
    /// The other system.
    pub system: String,
    /// The metric.
    #[serde(serialize_with = "metric_name")]
    pub metric: Metric,
    /// The system less the other one.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// `p`, corrected for all comparisons of this evaluation (Holm 1979).
    pub p_holm: f64,
}

fn metric_name<S: Serializer>(metric: &Metric, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(metric.name())
}

/// What a system took of language models.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LlmUse {
    /// Requests.
    pub calls: u64,
    /// Tokens sent.
    pub tokens_in: u64,
    /// Tokens received.
    pub tokens_out: u64,
    /// USD, for models with a known price.
    pub usd: f64,
}

impl From<Spending> for LlmUse {
    fn from(spent: Spending) -> LlmUse {
        let Spending { calls, tokens_in, tokens_out, usd, .. } = spent;
        LlmUse { calls, tokens_in, tokens_out, usd }
    }
}
