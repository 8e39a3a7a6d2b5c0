//! `graph`: candidates found by words or links, ranked by a network that is trained on the graph
//! around the query. `qagnn`: candidates found by embeddings, ranked by a network of the same kind
//! whose inputs are the names of nodes.

use std::{path::Path, sync::Arc};

use crate::{Answer, Detail, RetrieveError, Retriever, check_query, rank_explanation};
use agent_index::IndexedBase;
use agent_kb::answer::{Cell, Explanation};
use agent_train::{
    TrainError,
    graph::{GraphNetwork, Variant},
};

/// A trained network with the base over which it was trained.
pub struct Graph {
    base: Arc<IndexedBase>,
    network: GraphNetwork,
    variant: Variant,
}

impl Graph {
    /// Opens the trained model in the directory `dir`.
    ///
    /// # Errors
    /// [`TrainError`] if the model cannot be read, is of another variant, or was trained over
    /// another base or with another embedder.
    pub fn open(base: &Arc<IndexedBase>, dir: &Path, variant: Variant) -> Result<Self, TrainError> {
        let (network, _) = GraphNetwork::open(base, dir, variant)?;
        Ok(Self { base: base.clone(), network, variant })
    }
}

impl Retriever for Graph {
    fn name(&self) -> String {
        self.variant.name().to_owned()
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let found = self.network.rank(&self.base, query, k).map_err(|error| match error {
            TrainError::Index(error) => RetrieveError::Index(error),
            error => RetrieveError::Program(error.to_string()),
        })?;
        let [nodes, edges] = found.size;
        let names = match self.variant {
            Variant::Graph => &GraphNetwork::FEATURES,
            Variant::Qagnn => &GraphNetwork::NAME_FEATURES,
        };
        let explained = |position, node, score| {
            let features = found.features.iter().find(|entry| entry.0 == node).map(|entry| entry.1);
            let named = features.iter().flat_map(|values| names.iter().zip(values));
            let named = named.filter(|(name, _)| !name.is_empty());
            let named = named.map(|(name, &value)| Explanation::new(*name, value));
            let features = Explanation::new("features", Cell::Empty).with(named);
            let size = Explanation::new("working graph", Cell::Empty)
                .with([Explanation::new("nodes", nodes), Explanation::new("edges", edges)]);
            rank_explanation(self.variant.name(), position, score).with([features, size])
        };
        Ok(Answer::with_explanations(found.ranking.clone(), detail, explained))
    }
}
