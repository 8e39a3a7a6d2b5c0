//! Metrics of rankings, sets and values against known answers, with confidence intervals.
//!
//! | file | content |
//! | --- | --- |
//! | [`ranks`] | ranks of the answers in one ranking, and the metrics of these ranks |
//! | [`metrics`] | names and tables of the fifteen reported metrics |
//! | [`mod@definitions`] | the reported metrics as STaRK or `trec_eval` defines them |
//! | [`statistics`] | intervals, p-values and percentiles over per-query numbers |
//! | [`evaluation`] | means, intervals and latencies over many queries |
//! | [`mod@calibration`] | whether probabilities match outcomes |
//! | [`sets`] | metrics of a ranking's first nodes as a set, up to its estimated end |
//! | [`values`] | metrics of answers that are values or tables |
//! | [`comparison`] | paired comparison of two systems on the same queries |
//! | [`trec`] | run and qrels files for external tools |
//!
//! Does not depend on how a ranking is made. For a failed query, the caller substitutes the
//! baseline ranking and marks the failure; the query counts in every mean.

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
pub use crate::eval::ranks::{AnswerRanks, Candidates};
pub use crate::eval::sets::{SetEvaluation, SetMetrics, SetResult};
pub use crate::eval::statistics::Interval;
pub use crate::eval::values::{ValueEvaluation, ValueResult};

pub use agent_kb::NodeId;

/// Seed of bootstrap and randomisation tests; constant, so that equal results give equal intervals.
pub const SEED: u64 = 0;
