//! The results of one system as JSON. Must not know how they were measured.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::Metrics;
use agent_llm::ledger::Spending;
use agent_retrieve::eval::{Comparison, Latency, Metric, SetEvaluation, ValueEvaluation};

/// Data that the results of all systems have in common.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// The dataset, as the request names it.
    pub dataset: String,
    /// The splits, joined by commas.
    pub split: String,
    /// Whether any question is synthetic; always false for values.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// Number of openings of the test split so far, for results on it.
    #[serde(skip)]
    pub openings: Option<u64>,
}

/// Results of one system: `E` over all queries, `G` over each group.
#[derive(Clone, Debug, Serialize)]
pub struct SystemFigures<E, G = E> {
    /// Dataset and queries.
    #[serde(flatten)]
    pub about: About,
    /// Label of the system.
    pub system: String,
    /// Results over all queries.
    #[serde(flatten)]
    pub evaluation: E,
    /// Spending on language models; absent for values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmUse>,
    /// Cost of all replies used, cached ones included; only for rankings, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<LlmUse>,
    /// Number of queries that a language model should have helped with but did not; only for
    /// rankings and values, if above 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unassisted: Option<usize>,
    /// Number of nodes ranked, if not the default; only for rankings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
    /// Definitions of the metrics, if not the default; only for rankings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definitions: Option<Metrics>,
    /// Why the means are invalid, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// Number of openings of the test split so far, for results on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_openings: Option<u64>,
    /// Results by group, if the request has groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeMap<String, G>>,
    /// Comparisons with other systems.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versus: Vec<Versus>,
}

/// Results of one system as answer sets.
pub type SetFigures = SystemFigures<SetSummary, SetEvaluation>;
/// Results of one system as values.
pub type ValueFigures = SystemFigures<ValueSummary>;

impl<E, G> SystemFigures<E, G> {
    /// Returns results over all queries, without any optional part but the openings.
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

/// Set metrics over some queries.
#[derive(Clone, Debug, Serialize)]
pub struct SetSummary {
    /// Number of failed queries, which count with the baseline ranking.
    pub failed: usize,
    /// Means and intervals.
    #[serde(flatten)]
    pub evaluation: SetEvaluation,
    /// Time per answer, milliseconds.
    #[serde(rename = "latency_ms")]
    pub latency: Latency,
}

/// Value metrics over some queries.
#[derive(Clone, Debug, Serialize)]
pub struct ValueSummary {
    /// Number of queries.
    pub n: usize,
    /// Number of queries without an answer.
    pub failed: usize,
    /// Means and intervals.
    #[serde(flatten)]
    pub evaluation: ValueEvaluation,
    /// Time per answer, milliseconds.
    #[serde(rename = "latency_ms")]
    pub latency: Latency,
}

/// Comparison of a system with another one in one metric.
#[derive(Clone, Debug, Serialize)]
pub struct Versus {
    /// The other system.
    pub system: String,
    /// The metric.
    #[serde(serialize_with = "metric_name")]
    pub metric: Metric,
    /// The system minus the other one.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The p-value, corrected for all comparisons of this evaluation (Holm 1979).
    pub p_holm: f64,
}

fn metric_name<S: Serializer>(metric: &Metric, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(metric.name())
}

/// Usage of language models by a system.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LlmUse {
    /// Number of requests.
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
