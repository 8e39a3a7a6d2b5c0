//! `graph`: lexical and linked candidates, ranked by a trained network over the graph around the
//! query.

use std::{path::Path, sync::Arc};

use crate::{Answer, Detail, RetrieveError, Retriever, check_query, rank_explanation};
use agent_index::IndexedBase;
use agent_kb::answer::{Cell, Explanation};
use agent_train::{TrainError, graph::GraphNetwork};

/// Name of the system.
const NAME: &str = "graph";

/// A trained network with the base over which it was trained.
pub struct Graph {
    base: Arc<IndexedBase>,
    network: GraphNetwork,
}

impl Graph {
    /// Opens the trained model in the directory `dir`.
    ///
    /// # Errors
    /// [`TrainError`] if the model cannot be read or was trained over another base.
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
        let query = check_query(query)?;
        let found = self.network.rank(&self.base, query, k).map_err(|error| match error {
            TrainError::Index(error) => RetrieveError::Index(error),
            error => RetrieveError::Program(error.to_string()),
        })?;
        let [nodes, edges] = found.size;
        let explained = |position, node, score| {
            let features = found.features.iter().find(|entry| entry.0 == node).map(|entry| entry.1);
            let named =
                features.iter().flat_map(|values| GraphNetwork::FEATURES.iter().zip(values));
            let named = named.map(|(name, &value)| Explanation::new(*name, value));
            let features = Explanation::new("features", Cell::Empty).with(named);
            let size = Explanation::new("working graph", Cell::Empty)
                .with([Explanation::new("nodes", nodes), Explanation::new("edges", edges)]);
            rank_explanation(NAME, position, score).with([features, size])
        };
        Ok(Answer::with_explanations(found.ranking.clone(), detail, explained))
    }
}
