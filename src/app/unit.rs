//! Work that is split into units, which several processes compute. Defines the task that every
//! worker reads, and the pool in which other processes run the programs of an optimization. Does
//! not depend on how work is split and results are collected.

pub mod evaluate;
pub mod pool;

use serde::{Deserialize, Serialize};

use agent_index::VectorsSpec;
use agent_infer::ParamValues;

/// A task: work that is done for each item, such as a query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Name of the base that the task reads.
    pub dataset: String,
    /// Fingerprint of the data that the task reads from the base or its index. Workers with the
    /// same fingerprint get the same results.
    pub fingerprint: String,
    /// Work that is done for each item.
    #[serde(flatten)]
    pub kind: Kind,
}

/// Work that is done for each item of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// Answers the question in each line with the bundle that the plan holds.
    Answer {
        /// Maximum number of nodes in an answer.
        k: usize,
    },
    /// Ranks nodes for each query with a system.
    Rank {
        /// Name of the system; ends with a colon if the plan holds the system's file.
        system: String,
        /// Name of the system in the files that hold the rankings.
        tag: String,
        /// Maximum number of nodes in a ranking.
        depth: usize,
    },
    /// Embeds the nodes of a range of ids.
    Embed {
        /// The embedder, and which vectors it makes.
        vectors: VectorsSpec,
    },
    /// Indexes the words of the nodes of a range of ids.
    Words {
        /// Version of the format of the word index.
        format: u32,
    },
    /// Runs the program that the plan holds on each query.
    Evaluate {
        /// Values of the program's parameters.
        params: ParamValues,
    },
}
