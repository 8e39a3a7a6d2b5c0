//! The results of one system as JSON. Does not depend on how they were measured.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::json;

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
    /// Whether any question is synthetic.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// Number of measurements on the test split so far, this one included; only for results on the
    /// test split.
    #[serde(skip)]
    pub openings: Option<u64>,
}

/// Results of one system: of type `E` over all queries, of type `G` over the queries of each group.
#[derive(Clone, Debug, Serialize)]
pub struct SystemFigures<E, G = E> {
    /// The dataset and the queries that were used.
    #[serde(flatten)]
    pub about: About,
    /// Name of the system in the results.
    pub system: String,
    /// Results over all queries.
    #[serde(flatten)]
    pub evaluation: E,
    /// Requests to language models that were sent, and their cost; absent for values.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "llm_use")]
    pub llm: Option<Spending>,
    /// Requests to language models whose replies were used, cached replies included, and what these
    /// requests would cost without a cache; only for rankings, and absent if there are no requests.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "llm_use")]
    pub asked: Option<Spending>,
    /// Number of queries that a language model should have helped with but did not; only for
    /// rankings and values, if above 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unassisted: Option<usize>,
    /// Number of nodes ranked per query, if it is not the default; only for rankings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
    /// Definitions of the metrics, if they are not the default; only for rankings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definitions: Option<Metrics>,
    /// Why the means are invalid; absent if they are valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// Number of measurements on the test split so far, this one included; only for results on the
    /// test split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_openings: Option<u64>,
    /// Results by the name of the group; absent if the request groups no queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeMap<String, G>>,
    /// Comparisons of this system with others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versus: Vec<Versus>,
}

/// Results of one system whose answers are measured as sets of nodes.
pub type SetFigures = SystemFigures<SetSummary, SetEvaluation>;
/// Results of one system whose answers are values.
pub type ValueFigures = SystemFigures<ValueSummary>;

impl<E, G> SystemFigures<E, G> {
    /// Returns results over all queries; sets no optional part except `test_openings`.
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

/// Metrics of sets of answers over several queries.
#[derive(Clone, Debug, Serialize)]
pub struct SetSummary {
    /// Number of queries on which the system failed. The ranking of a baseline is measured for
    /// these queries instead.
    pub failed: usize,
    /// Mean of each metric, with its confidence interval.
    #[serde(flatten)]
    pub evaluation: SetEvaluation,
    /// Percentiles of the time per answer, in milliseconds.
    #[serde(rename = "latency_ms")]
    pub latency: Latency,
}

/// Metrics of values over several queries.
#[derive(Clone, Debug, Serialize)]
pub struct ValueSummary {
    /// Number of queries.
    pub n: usize,
    /// Number of queries on which the system failed.
    pub failed: usize,
    /// Mean of each metric, with its confidence interval.
    #[serde(flatten)]
    pub evaluation: ValueEvaluation,
    /// Percentiles of the time per answer, in milliseconds.
    #[serde(rename = "latency_ms")]
    pub latency: Latency,
}

/// Comparison of a system with another system by one metric.
#[derive(Clone, Debug, Serialize)]
pub struct Versus {
    /// Name of the other system.
    pub system: String,
    /// Metric by which the two are compared.
    #[serde(serialize_with = "metric_name")]
    pub metric: Metric,
    /// The metric of the system minus that of the other system.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The p-value, corrected for all comparisons of this evaluation (Holm 1979).
    pub p_holm: f64,
}

fn metric_name<S: Serializer>(metric: &Metric, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(metric.name())
}

/// Writes spending without the number of replies of unknown price.
fn llm_use<S: Serializer>(spent: &Option<Spending>, out: S) -> Result<S::Ok, S::Error> {
    let written = spent.map(|Spending { calls, tokens_in, tokens_out, usd, .. }| {
        json!({"calls": calls, "tokens_in": tokens_in, "tokens_out": tokens_out, "usd": usd})
    });
    written.serialize(out)
}
