//! What units of work are planned: the task that every machine reads, and the pool in which other
//! processes run the programs that an optimization tries. Must not know how units are cut or collected.

pub mod evaluate;
pub mod pool;

use serde::{Deserialize, Serialize};

use agent_index::VectorsSpec;
use agent_infer::ParamValues;

/// What is done to each item.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The name of the base.
    pub dataset: String,
    /// Fingerprint of what is read of it, its index or to embed its nodes: equal ones give equal
    /// results.
    pub fingerprint: String,
    /// The work.
    #[serde(flatten)]
    pub kind: Kind,
}

/// The work on each item.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// Lines are answered with the bundle of the plan.
    Answer {
        /// Nodes of an answer.
        k: usize,
    },
    /// Queries are ranked by a system; its name ends with a colon if its file is that of the plan.
    Rank {
        /// The system.
        system: String,
        /// Its name in run files.
        tag: String,
        /// Nodes of a ranking.
        depth: usize,
    },
    /// Nodes of a range are embedded.
    Embed {
        /// How.
        vectors: VectorsSpec,
    },
    /// The words of a range of nodes are read, for words of this version.
    Words {
        /// The version.
        format: u32,
    },
    /// The program of the plan is run on queries.
    Evaluate {
        /// Its parameters.
        params: ParamValues,
    },
}
