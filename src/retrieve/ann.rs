//! `dense:ann`: approximate search over embeddings, in the graph of the index.

use std::{fmt::Write, sync::Arc};

use crate::{
    index::{IndexError, IndexedBase, Part, ann::AnnIndex},
    kb::NodeId,
    retrieve::{Ranking, RetrieveError, Retriever, baseline::candidate_types, checked, place},
};

/// Nodes that an explanation searches.
const EXPLAINED: usize = 200;

/// Approximate search over embeddings.
pub struct Ann {
    base: Arc<IndexedBase>,
    index: AnnIndex,
}

impl Ann {
    /// Opens the graph of a base.
    ///
    /// # Errors
    /// That there is none, or that it is damaged.
    pub fn open(base: Arc<IndexedBase>) -> Result<Self, RetrieveError> {
        let index = AnnIndex::open(&base.part(Part::Ann)?)?;
        Ok(Self { base, index })
    }
}

impl Retriever for Ann {
    fn name(&self) -> String {
        "dense:ann".to_owned()
    }

    fn retrieve(&self, query: &str, k: usize) -> Result<Ranking, RetrieveError> {
        let vector = self.base.embed_query(checked(query)?).map_err(IndexError::from)?;
        if vector.iter().all(|&number| number == 0.0) {
            return Ok(Vec::new());
        }
        Ok(self.index.search(&self.base.vectors, &vector, k).map_err(IndexError::from)?)
    }

    fn explain(&self, query: &str, node: NodeId) -> Result<String, RetrieveError> {
        let exact =
            self.base.search_vectors(checked(query)?, candidate_types(&self.base), EXPLAINED)?;
        let mut lines = String::new();
        let _ = writeln!(lines, "approximate: {}", place(&self.retrieve(query, EXPLAINED)?, node));
        let _ = writeln!(lines, "exact: {}", place(&exact, node));
        let _ = writeln!(lines, "{}", self.index.describe());
        Ok(lines)
    }
}
