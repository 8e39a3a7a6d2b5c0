//! Metrics of rankings, sets and values against known answers, with confidence intervals.
//!
//! | file | content |
//! | --- | --- |
//! | [`ranks`] | ranks of the answers in one ranking, and scores by them |
//! | [`metrics`] | names and tables of the fifteen reported metrics |
//! | [`mod@definitions`] | those metrics by the benchmark's or the usual definitions |
//! | [`statistics`] | intervals, p-values and percentiles over per-query numbers |
//! | [`evaluation`] | means, intervals and latencies over many queries |
//! | [`mod@calibration`] | whether probabilities match outcomes |
//! | [`sets`] | nodes up to where a ranking's answers end, as a set |
//! | [`values`] | answers that are values or tables |
//! | [`comparison`] | two systems on the same queries |
//! | [`trec`] | run and qrels files for external tools |
//!
//! Independent of how a ranking was made. A failed query is never repaired here: the caller
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

/// Seed of bootstrap and randomisation; constant, so that equal results give equal intervals.
pub const SEED: u64 = 0;
