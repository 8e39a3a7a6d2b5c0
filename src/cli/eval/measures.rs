//! How deep `agent eval` ranks, and by which definitions it measures. Must not know how anything is
//! printed.

use serde::Serialize;

use agent_app::measured::{DEPTH, How};
use agent_retrieve::eval::Definitions;

/// Most nodes ranked for a query.
const MAX_DEPTH: u32 = 100_000;

/// The options.
#[derive(Clone, Copy, Debug, clap::Args, Serialize)]
pub(super) struct Measures {
    /// Rank this many nodes per query, 1 to 100000; what an answer beyond them counts, --metrics
    /// says
    #[arg(long, value_name = "K", default_value_t = DEPTH,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DEPTH)))]
    #[serde(skip_serializing_if = "is_default_depth")]
    depth: u32,
    /// Measure by these definitions
    #[arg(long = "metrics", value_name = "NAME", value_enum, default_value_t)]
    #[serde(rename = "definitions", skip_serializing_if = "is_default_name")]
    name: Name,
}

fn is_default_depth(depth: &u32) -> bool {
    *depth == DEPTH
}

fn is_default_name(name: &Name) -> bool {
    *name == Name::default()
}

/// Definitions on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    /// Those of the STaRK benchmark: candidates that are not ranked follow in the order of their
    /// ids, so that every answer has a rank and adds to mrr and map; answers that are no
    /// candidates are left out
    #[default]
    Stark,
    /// The usual ones, those of trec_eval and pytrec_eval on the run file: an answer that is not
    /// ranked is not retrieved and adds nothing, every answer counts among the relevant ones
    Trec,
    /// Precision, recall and F1 of the nodes up to where a system says its answers end, and how
    /// often they are exactly the answers; systems are not compared
    Set,
    /// Of queries with an answer_value: how often exactly that is answered, how often a number
    /// within 5 % of it, and F1 of the rows of tables; systems are not compared
    Value,
}

impl Measures {
    /// Whether answers are measured as sets.
    pub(super) fn are_sets(self) -> bool {
        self.name == Name::Set
    }

    /// Whether answers that are no nodes are measured.
    pub(super) fn are_values(self) -> bool {
        self.name == Name::Value
    }
}

impl From<Measures> for How {
    fn from(measures: Measures) -> Self {
        let definitions = match measures.name {
            Name::Stark | Name::Set | Name::Value => Definitions::Stark,
            Name::Trec => Definitions::Trec,
        };
        Self { depth: measures.depth as usize, definitions, keep: false }
    }
}
