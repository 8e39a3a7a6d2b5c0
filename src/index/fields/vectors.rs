//! Vectors of the fields of candidate nodes (mFAR: Li et al. 2024, section 3).
//!
//! The vectors are the rows of one matrix in half precision: field by field in the order of their
//! table, and within a field by ascending node. A text is cut to [`MAX_TEXT_BYTES`] bytes, then to
//! the length that the embedder reads.

use std::path::Path;

use super::{FieldTable, all_fields};
use crate::{
    IndexError, Result,
    build::Watch,
    parts::Materials,
    vectors::{Precision, VectorIndex, VectorWriter},
};
use agent_embed::Matrix;
use agent_kb::{NodeId, distinct};

/// Maximum length in bytes of an embedded text: about 1,000 tokens, more than encoders read.
const MAX_TEXT_BYTES: usize = 4_096;
/// Number of nodes whose texts of one field are embedded together; equal texts among them are
/// embedded once.
const BLOCK_NODES: usize = 512;
/// Name of the file of vectors, which is next to the file of the table.
const FILE: &str = "vectors";
/// Name of the stage in progress reports.
const STAGE: &str = "field vectors";

/// The opened vectors of all fields.
pub struct FieldVectors {
    table: FieldTable,
    vectors: VectorIndex,
}

/// Embeds the texts of all fields and writes the vectors to the directory `dir`. O(text of the
/// candidates and names of their neighbours).
pub(crate) fn build(materials: &Materials<'_>, watch: &Watch<'_>, dir: &Path) -> Result<()> {
    let Materials { kb, embedder, .. } = *materials;
    let mut fields = all_fields(kb)?;
    let candidates = kb.candidates();
    let total = (fields.len() * candidates.len()) as u64;
    let fingerprint = embedder.fingerprint();
    let path = dir.join(FILE);
    let mut writer = VectorWriter::create(&path, embedder.dim(), Precision::F16, fingerprint)?;
    let mut done = 0;
    for field in &mut fields {
        for block in candidates.chunks(BLOCK_NODES) {
            watch.progress(STAGE, done, total)?;
            done += block.len() as u64;
            let mut texts = Vec::new();
            for &node in block {
                let mut text = field.source.parts(kb, node).join(", ");
                text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
                if !text.trim().is_empty() {
                    field.nodes.push(node);
                    texts.push(text);
                }
            }
            let distinct: Vec<&str> = distinct(texts.iter().map(String::as_str).collect());
            if distinct.is_empty() {
                continue;
            }
            let embedded = embedder.embed_documents(&distinct)?;
            let row = |text: &String| embedded.row(distinct.binary_search(&text.as_str()).ok()?);
            let rows: Vec<f32> = texts.iter().filter_map(row).flatten().copied().collect();
            writer.append(&Matrix::new(texts.len(), embedder.dim(), rows)?)?;
        }
    }
    writer.finish()?;
    fields.retain(|field| !field.nodes.is_empty());
    FieldTable::write(dir, &fields, &[])?;
    watch.progress(STAGE, total, total)
}

impl FieldVectors {
    /// Opens the vectors in the directory `dir`; the files are mapped, not read. Constant time.
    ///
    /// # Errors
    /// [`IndexError::Io`]; [`IndexError::Damaged`] if the files are malformed or do not match each
    /// other.
    pub fn open(dir: &Path) -> Result<Self> {
        let table = FieldTable::open(dir)?;
        let vectors = VectorIndex::open(&dir.join(FILE))?;
        if table.n_texts() != vectors.n() {
            return Err(IndexError::damaged(dir, "its vectors do not match its fields"));
        }
        Ok(Self { table, vectors })
    }

    /// Reads all files and compares them with their recorded checksums.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] with the first file that differs.
    pub fn verify(&self) -> Result<()> {
        self.table.verify()?;
        Ok(self.vectors.verify()?)
    }

    /// The fields, each with the nodes that have it.
    pub fn table(&self) -> &FieldTable {
        &self.table
    }

    /// Returns the dot product of `query` (`[dim]`) with the vector that each node has for the
    /// field with this index, nodes ascending. Nodes without the field are left out. Exact; O(nodes
    /// with the field).
    ///
    /// # Errors
    /// As [`VectorIndex::score`].
    pub fn scores(&self, field: usize, query: &[f32]) -> Result<Vec<(NodeId, f32)>> {
        let nodes = self.table.nodes(field);
        let start = self.table.start(field) as u32;
        let rows: Vec<u32> = (start..).take(nodes.len()).collect();
        let scores = self.vectors.score(query, &rows)?;
        Ok(nodes.iter().copied().zip(scores).collect())
    }
}
