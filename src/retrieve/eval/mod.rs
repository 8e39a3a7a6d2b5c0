//! Measures rankings against known answers, and says how sure the numbers are.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`ranks`] | given one ranking and the answers of its query: which ranks, which scores |
//! | [`metrics`] | given those: the fifteen reported numbers, by name |
//! | [`mod@definitions`] | given one ranking and the answers: those numbers by the benchmark's or the usual definitions |
//! | [`statistics`] | given per-query numbers: which interval, which p-value, which percentile |
//! | [`evaluation`] | given the results of many queries: which means, intervals and latencies |
//! | [`mod@calibration`] | given probabilities and what came true: do they mean what they say |
//! | [`sets`] | given where rankings end: how good the nodes up to there are as sets |
//! | [`values`] | given answers that are no nodes: how good are they |
//! | [`comparison`] | given two systems on the same queries: which is better, and is it luck |
//! | [`trec`] | given rankings and answers: which files do the usual external tools read |
//!
//! This module must not know how a ranking came about. It never repairs a failed query: the caller
//! substitutes the baseline ranking, marks the failure, and the query counts in every mean.

pub mod calibration;
pub mod comparison;
pub mod definitions;
pub mod evaluation;
pub mod metrics;
pub mod ranks;
pub mod sets;
pub mod statistics;
pub mod trec;
pub mod values;

pub use crate::eval::calibration::{Calibration, calibration};
pub use crate::eval::comparison::{Comparison, compare};
pub use crate::eval::definitions::Definitions;
pub use crate::eval::evaluation::{EvalError, Evaluation, Latency, QueryResult, evaluate_groups};
pub use crate::eval::metrics::{Metric, MetricTable, Metrics};
pub use crate::eval::ranks::{AnswerRanks, Candidates, ScoreRule};
pub use crate::eval::sets::{SetEvaluation, SetMetrics, SetResult};
pub use crate::eval::statistics::Interval;
pub use crate::eval::values::{ValueEvaluation, ValueResult};

pub use agent_kb::NodeId;

/// Seed of bootstrap and randomisation; a constant, so that equal results give equal intervals.
pub const SEED: u64 = 0;
