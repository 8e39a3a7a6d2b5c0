//! An opened knowledge base with all its indexes: what tools and retrievers work on.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    embed::{EmbedError, Embedder, LsaEmbedder},
    index::{
        IndexError,
        build::{EMBEDDER, NAMES, NAMES_TERMS, Record, TERMS, TEXT, VECTORS},
        names::NameIndex,
        terms::TermIndex,
        text::TextIndex,
        vectors::VectorIndex,
    },
    kb::{Kb, NodeId, TypeId},
    words::Stems,
};

/// Embeddings of texts that are kept; at this number all are dropped.
const MAX_KEPT_VECTORS: usize = 4_096;

/// A knowledge base and its indexes, read-only and shared between threads.
pub struct IndexedBase {
    /// The knowledge base.
    pub kb: Kb,
    /// Search over all nodes.
    pub text: TextIndex,
    /// Documents, for scores within a set.
    pub terms: TermIndex,
    /// Names of neighbours, for scores within a set.
    pub neighbor_names: TermIndex,
    /// Entity linking.
    pub names: NameIndex,
    /// One embedding per node.
    pub vectors: VectorIndex,
    /// The stemmer of all forward indexes.
    pub stems: Stems,
    embedder: Box<dyn Embedder>,
    kept_vectors: Mutex<HashMap<String, Arc<[f32]>>>,
    fingerprint: String,
}

impl IndexedBase {
    /// Opens a base and its index; costs milliseconds whatever their size.
    ///
    /// # Errors
    /// [`IndexError::Missing`], [`IndexError::OtherBase`], or that a file is damaged; `name` is the
    /// base's name in messages.
    pub fn open(kb_dir: &Path, index_dir: &Path, name: &str) -> Result<Self, IndexError> {
        let kb = Kb::open(kb_dir)?;
        let record = Record::read(index_dir, name)?;
        if record.kb != kb.fingerprint() {
            return Err(IndexError::OtherBase { base: name.to_owned() });
        }
        let vectors = VectorIndex::open(&index_dir.join(VECTORS))?;
        let embedder = LsaEmbedder::open(&index_dir.join(EMBEDDER))?;
        if [embedder.fingerprint(), vectors.embedder()] != [&record.embedder; 2] {
            let what = "its parts come from different embedders".to_owned();
            return Err(IndexError::damaged(index_dir, what));
        }
        Ok(Self {
            text: TextIndex::open(&index_dir.join(TEXT))?,
            terms: TermIndex::open(&index_dir.join(TERMS))?,
            neighbor_names: TermIndex::open(&index_dir.join(NAMES_TERMS))?,
            names: NameIndex::open(&index_dir.join(NAMES))?,
            vectors,
            stems: Stems::default(),
            embedder: Box::new(embedder),
            kept_vectors: Mutex::default(),
            fingerprint: record.fingerprint(),
            kb,
        })
    }

    /// Reads the embedder and all vectors and compares them with their checksums, which opening
    /// does not.
    ///
    /// # Errors
    /// That one of them is damaged.
    pub fn verify(&self) -> Result<(), IndexError> {
        self.embedder.verify()?;
        Ok(self.vectors.verify()?)
    }

    /// Identifies base, index format and embedder: equal fingerprints give equal answers.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The embedder, for people.
    pub fn embedder(&self) -> &dyn Embedder {
        &*self.embedder
    }

    /// The embedding of a text, of length 1 or all zeros; equal texts are embedded once.
    ///
    /// # Errors
    /// Those of the embedder.
    pub fn embed_query(&self, text: &str) -> Result<Arc<[f32]>, EmbedError> {
        let lock = || self.kept_vectors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(vector) = lock().get(text) {
            return Ok(vector.clone());
        }
        let vector: Arc<[f32]> = self.embedder.embed_query(text)?.into();
        let mut kept = lock();
        if kept.len() >= MAX_KEPT_VECTORS {
            kept.clear();
        }
        kept.insert(text.to_owned(), vector.clone());
        Ok(vector)
    }

    /// The `k` nodes most similar to a text, best first, ties by ascending id; only nodes of the
    /// given types, all when empty. Exact; O(nodes of the types). Empty for a text without any word
    /// that the embedder knows.
    ///
    /// # Errors
    /// Those of the embedder.
    pub fn search_vectors(
        &self,
        text: &str,
        types: &[TypeId],
        k: usize,
    ) -> Result<Vec<(NodeId, f32)>, IndexError> {
        let vector = self.embed_query(text)?;
        if vector.iter().all(|&number| number == 0.0) {
            return Ok(Vec::new());
        }
        if types.is_empty() {
            return Ok(self.vectors.top_k(&vector, k, None)?);
        }
        let mut nodes: Vec<NodeId> =
            types.iter().flat_map(|&kind| self.kb.nodes_of_type(kind)).copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        Ok(self.vectors.top_k(&vector, k, Some(&nodes))?)
    }
}
