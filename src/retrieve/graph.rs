//! `graph`: candidates of words and of links, ordered by a network over the graph around the query.

use std::{path::Path, sync::Arc};

use crate::{Answer, Detail, RetrieveError, Retriever, checked, place_of};
use agent_index::IndexedBase;
use agent_kb::answer::{Cell, Explanation};
use agent_train::{TrainError, graph::GraphNetwork};

/// What it is called.
const NAME: &str = "graph";

/// A trained network over its base.
pub struct Graph {
    base: Arc<IndexedBase>,
    network: GraphNetwork,
}

impl Graph {
    /// Opens the model in a directory.
    ///
    /// # Errors
    /// That it cannot be read, or was trained over another base.
    pub fn open(base: &Arc<IndexedBase>, dir: &Path) -> Result<Self, TrainError> {
        let (network, _) = GraphNetwork::open(base, dir)?;
        Ok(Self { base: base.clone(), network })
    }
}

impl Retriever for Graph {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = checked(query)?;
        let found = self.network.rank(&self.base, query, k).map_err(|error| match error {
            TrainError::Index(error) => RetrieveError::Index(error),
            error => RetrieveError::Program(error.to_string()),
        })?;
        let [nodes, edges] = found.size;
        let explained = |at, node, score| {
            let known = found.features.iter().find(|of| of.0 == node).map(|of| of.1);
            let known = known.iter().flat_map(|numbers| GraphNetwork::FEATURES.iter().zip(numbers));
            let known = known.map(|(name, &number)| Explanation::new(*name, number));
            let known = Explanation::new("what is known of it", Cell::Empty).with(known);
            let size = Explanation::new("working graph", Cell::Empty)
                .with([Explanation::new("nodes", nodes), Explanation::new("edges", edges)]);
            place_of(NAME, at, score).with([known, size])
        };
        Ok(Answer::explained(found.ranking.clone(), detail, explained))
    }
}
