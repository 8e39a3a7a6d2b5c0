//! Units of distributed work: the task that every worker reads, and the pool in which other
//! processes run the programs of an optimization. Must not know how units are cut or collected.

pub mod evaluate;
pub mod pool;

use serde::{Deserialize, Serialize};

use agent_index::VectorsSpec;
use agent_infer::ParamValues;

/// A task, applied to each item.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The name of the base.
    pub dataset: String,
    /// Fingerprint of the data that the task reads from the base or its index; equal fingerprints
    /// give equal results.
    pub fingerprint: String,
    /// The work.
    #[serde(flatten)]
    pub kind: Kind,
}

/// The work on each item.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// Answers lines with the bundle of the plan.
    Answer {
        /// Number of nodes in an answer.
        k: usize,
    },
    /// Ranks nodes for queries with a system.
    Rank {
        /// Name of the system; ends with a colon if the plan holds its file.
        system: String,
        /// Its name in run files.
        tag: String,
        /// Number of nodes in a ranking.
        depth: usize,
    },
    /// Embeds the nodes of a range.
    Embed {
        /// The embedder and its vectors.
        vectors: VectorsSpec,
    },
    /// Reads the words of a range of nodes.
    Words {
        /// Format version of the word index.
        format: u32,
    },
    /// Runs the program of the plan on queries.
    Evaluate {
        /// Its parameters.
        params: ParamValues,
    },
}
