//! Imports vectors computed elsewhere: collects them in any order, checks that they match the
//! candidates of the base, and reads them back in node order.
//!
//! Vectors are not normalised; search ranks nodes by the dot product of their vector with the
//! query's.

use std::{
    fs::File,
    io::{Seek, SeekFrom, Write},
    path::Path,
};

use crate::{IndexError, Result, vectors::MAX_DIM};
use agent_embed::table::QueryTableBuilder;
use agent_kb::{Kb, NodeId};

/// Collects vectors of nodes in a temporary file, and vectors of queries in memory.
pub struct ImportBuilder<'a> {
    kb: &'a Kb,
    place: &'a Path,
    file: File,
    has_vector: Vec<bool>,
    /// Number of ids passed so far that are not ids of candidates, and the first such id.
    unknown_ids: (u64, Option<i64>),
    dim: Option<usize>,
    queries: Option<QueryTableBuilder>,
}

/// Imported vectors of all candidates of a base, and of queries.
pub struct Import {
    /// The vectors of all nodes in node order, as little-endian `f32`; zeros for a node without
    /// one.
    pub(super) file: File,
    pub(super) dim: usize,
    pub(super) n_nodes: NodeId,
    pub(super) fingerprint: String,
    pub(super) queries: Vec<u8>,
}

impl<'a> ImportBuilder<'a> {
    /// Starts an import for the base `kb`; `place` is the directory of the temporary file.
    ///
    /// # Errors
    /// [`IndexError::Io`] if the directory or the file cannot be created.
    pub fn new(kb: &'a Kb, place: &'a Path) -> Result<Self> {
        let make = || {
            std::fs::create_dir_all(place)?;
            tempfile::tempfile_in(place)
        };
        let file = make().map_err(IndexError::io(place))?;
        let has_vector = vec![false; kb.n_nodes() as usize];
        let (unknown_ids, dim, queries) = ((0, None), None, None);
        Ok(Self { kb, place, file, has_vector, unknown_ids, dim, queries })
    }

    /// Checks that a vector has the length of the first vector and holds only finite numbers;
    /// returns this length.
    fn check_dim(&mut self, vector: &[f32]) -> Result<usize> {
        let dim = *self.dim.get_or_insert(vector.len());
        let is_possible = (1..=MAX_DIM).contains(&dim);
        if !is_possible || vector.len() != dim || vector.iter().any(|number| !number.is_finite()) {
            return Err(IndexError::BadImport(format!(
                "a vector has {} numbers; expected {dim} finite numbers",
                vector.len()
            )));
        }
        Ok(dim)
    }

    /// Adds the vector of the node `id`. If `id` is not a candidate, the vector is dropped, and
    /// [`finish`](Self::finish) will fail.
    ///
    /// # Errors
    /// [`IndexError::BadImport`] for a node that has a vector already, a vector of another length,
    /// or a number that is not finite; [`IndexError::Io`].
    pub fn node(&mut self, id: i64, vector: &[f32]) -> Result<()> {
        let dim = self.check_dim(vector)?;
        let node = NodeId::try_from(id).ok().filter(|&node| self.kb.is_candidate(node));
        let Some(node) = node else {
            self.unknown_ids.0 += 1;
            self.unknown_ids.1.get_or_insert(id);
            return Ok(());
        };
        if std::mem::replace(&mut self.has_vector[node as usize], true) {
            return Err(IndexError::BadImport(format!("node {id} has two vectors")));
        }
        let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
        let at = SeekFrom::Start(u64::from(node) * dim as u64 * 4);
        self.file
            .seek(at)
            .and_then(|_| self.file.write_all(&bytes))
            .map_err(IndexError::io(self.place))
    }

    /// Adds the vector of the query `text`. If the query has a vector already, the first vector is
    /// kept; returns `false` if the new one differs.
    ///
    /// # Errors
    /// [`IndexError::BadImport`] for a vector of another length or a number that is not finite, or
    /// an error of the table of queries.
    pub fn query(&mut self, text: &str, vector: Vec<f32>) -> Result<bool> {
        let dim = self.check_dim(&vector)?;
        let queries = self.queries.get_or_insert_with(|| QueryTableBuilder::new(dim));
        Ok(queries.add(text, vector)?)
    }

    /// Checks that all candidates, and no other nodes, have vectors; then reads all vectors to
    /// compute the fingerprint of the import.
    ///
    /// # Errors
    /// [`IndexError::BadImport`], with the number of missing or unknown nodes; [`IndexError::Io`].
    pub fn finish(mut self) -> Result<Import> {
        let candidates = self.kb.candidates();
        let mut missing = candidates.iter().filter(|&&node| !self.has_vector[node as usize]);
        if let Some(first) = missing.next() {
            let (n, all) = (missing.count() + 1, candidates.len());
            return Err(IndexError::BadImport(format!(
                "{n} of {all} candidates have no vector; the first is node {first}"
            )));
        }
        if let (n, Some(first)) = self.unknown_ids {
            return Err(IndexError::BadImport(format!(
                "{n} vectors do not belong to candidates; the first has id {first}"
            )));
        }
        let dim =
            self.dim.ok_or_else(|| IndexError::BadImport("there are no vectors".to_owned()))?;
        let (queries, checksum) =
            self.queries.unwrap_or_else(|| QueryTableBuilder::new(dim)).encode()?;
        let n_nodes = self.kb.n_nodes();
        let failed = IndexError::io(self.place);
        // Unwritten parts of the file read as zeros.
        self.file.set_len(u64::from(n_nodes) * dim as u64 * 4).map_err(failed)?;
        self.file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&self.file).map_err(failed)?;
        hasher.update(checksum.as_bytes());
        let fingerprint = format!("import1-{}", &hasher.finalize().to_hex()[..32]);
        Ok(Import { file: self.file, dim, n_nodes, fingerprint, queries })
    }
}
