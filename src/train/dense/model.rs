//! A dual encoder with a trained table of word vectors, on disk: the file `words` holds the stems
//! and their vectors, and `vectors` the vectors of all candidates.

use std::path::Path;

use rayon::prelude::*;
use safetensors::Dtype;
use serde::{Deserialize, Serialize};

use crate::{
    Record, Result, Source, TrainError, ValidationPoint,
    dense::{
        Settings,
        table::Table,
        tune,
        words::{Words, query_stems, weight},
    },
};
use agent_embed::{
    Matrix,
    matrix::{add_scaled, normalise},
};
use agent_index::{
    IndexError, IndexedBase,
    arrays::{Array, Arrays, Strings},
    vectors::{Precision, VectorIndex, VectorWriter},
};
use agent_kb::{Combine, NodeId, Scores};

/// Name of the retrieval system that uses these models.
pub(super) const SYSTEM: &str = "dense:trained";
const WORDS: &str = "words";
const VECTORS: &str = "vectors";
/// Number of candidates whose vectors are written at a time.
const BLOCK: usize = 4_096;

/// Settings and size of a trained table of word vectors, and its weight in a fusion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelInfo {
    /// Settings of training.
    pub settings: Settings,
    /// Number of stems with a vector.
    pub stems: usize,
    /// Number of synthetic training queries.
    pub made: usize,
    /// Weight of this encoder's ranking in a fusion with `bm25+names`, in `0..=1`, chosen on
    /// validation queries.
    pub weight: f32,
    /// Mean reciprocal rank of the fusion, and that of `bm25+names` alone, on validation queries.
    pub fused: [f64; 2],
    /// BLAKE3 digest of the candidates' vectors, in hexadecimal digits.
    pub(super) vectors: String,
}

/// A trained table of word vectors that is not yet written to disk.
pub(super) struct TrainedTable<'a> {
    pub(super) settings: &'a Settings,
    pub(super) words: &'a Words,
    pub(super) table: &'a Table,
    pub(super) n_made: usize,
    pub(super) weight: f32,
    pub(super) fused: [f64; 2],
}

/// Returns the vectors of all candidates, `[candidates, dim]`, in the order of the candidates.
pub(super) fn embed_candidates(base: &IndexedBase, words: &Words, table: &Table) -> Vec<f32> {
    let candidates = base.kb.candidates();
    let mut rows = vec![0.0; candidates.len() * table.dim];
    rows.par_chunks_mut(table.dim).zip(candidates).for_each(|(row, &node)| {
        row.copy_from_slice(&table.embed(&words.of_node(base, node)));
    });
    rows
}

impl TrainedTable<'_> {
    /// Writes the model into the directory `dir`; replaces an existing directory atomically.
    pub(super) fn save(
        self,
        base: &IndexedBase,
        dir: &Path,
        source: &Source,
        curve: Vec<ValidationPoint>,
    ) -> Result<Record<ModelInfo>> {
        let Self { settings, words, table, n_made, weight, fused } = self;
        let rows = embed_candidates(base, words, table);
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytemuck::cast_slice(&rows));
        let info = ModelInfo {
            settings: settings.clone(),
            stems: words.stems.len(),
            made: n_made,
            weight,
            fused,
            vectors: hasher.finalize().to_hex().to_string(),
        };
        let record = Record::new(SYSTEM, source, info, curve);
        record.save(dir, |staging| {
            let (bounds, stems) = Strings::layout(words.stems.iter().map(String::as_str));
            let arrays = [
                ("bounds", Dtype::U64, bytemuck::cast_slice(&bounds)),
                ("idf", Dtype::F32, bytemuck::cast_slice(&words.idf)),
                ("table", Dtype::F32, bytemuck::cast_slice(&table.numbers)),
                ("stems", Dtype::U8, &stems[..]),
            ];
            Arrays::write(&staging.join(WORDS), &arrays)?;
            write_vectors(&staging.join(VECTORS), table.dim, &rows)?;
            Ok(vec![WORDS.to_owned()])
        })
    }
}

fn write_vectors(path: &Path, dim: usize, rows: &[f32]) -> Result<(), IndexError> {
    let mut writer = VectorWriter::create(path, dim, Precision::F32, SYSTEM)?;
    for block in rows.chunks(dim * BLOCK) {
        writer.append(&Matrix::new(block.len() / dim, dim, block.to_vec())?)?;
    }
    writer.finish()?;
    Ok(())
}

/// A trained encoder with the vectors of all candidates of its knowledge base.
pub struct Encoder {
    stems: Strings,
    idf: Array<f32>,
    table: Array<f32>,
    vectors: VectorIndex,
    dim: usize,
    weight: f32,
}

impl Encoder {
    /// Opens the model in `dir`; `base` must be the knowledge base that the model was trained on.
    /// O(bytes of the file `words`).
    ///
    /// # Errors
    /// [`TrainError`] if the model cannot be read, belongs to another system or was trained on
    /// another knowledge base.
    pub fn open(base: &IndexedBase, dir: &Path) -> Result<(Self, Record<ModelInfo>)> {
        let record = Record::<ModelInfo>::read(dir, SYSTEM).map_err(|error| match error {
            TrainError::OtherSystem { path, found, .. } if found == tune::SYSTEM => {
                TrainError::SentenceEncoder(path)
            }
            error => error,
        })?;
        record.check_base(base.kb.fingerprint(), dir)?;
        let arrays = Arrays::open(&dir.join(WORDS))?;
        let stems = Strings::new(arrays.get("bounds")?, arrays.get("stems")?);
        let (idf, table) = (arrays.get::<f32>("idf")?, arrays.get::<f32>("table")?);
        let vectors = VectorIndex::open(&dir.join(VECTORS)).map_err(IndexError::from)?;
        let (n, dim) = (stems.len(), vectors.dim());
        let fit = (idf.as_slice().len(), table.as_slice().len()) == (n, n * dim)
            && vectors.n() == base.kb.candidates().len()
            && vectors.checksum() == record.model.vectors;
        if !fit {
            return Err(TrainError::damaged(dir, "its words and vectors do not match"));
        }
        let weight = record.model.weight;
        Ok((Self { stems, idf, table, vectors, dim, weight }, record))
    }

    /// Returns the weight of this encoder's ranking in a fusion with `bm25+names`, in `0..=1`.
    pub fn weight(&self) -> f32 {
        self.weight
    }

    /// Embeds a query into a vector of norm 1; a query without known words gets the zero vector.
    fn embed(&self, base: &IndexedBase, query: &str) -> Vec<f32> {
        let mut vector = vec![0.0; self.dim];
        let (idf, table) = (self.idf.as_slice(), self.table.as_slice());
        for (stem, count) in query_stems(base, query) {
            let Some(row) = self.stems.find(&stem) else { continue };
            let numbers = table.get(row * self.dim..(row + 1) * self.dim).unwrap_or_default();
            add_scaled(&mut vector, weight(count, idf.get(row).copied().unwrap_or(0.0)), numbers);
        }
        normalise(&mut vector);
        vector
    }

    /// Finds the `k` candidates with the highest cosine to a query, by exact search, and returns
    /// them with the cosine, best first; none if the query has no known words.
    ///
    /// # Errors
    /// [`IndexError`] if the vectors cannot be read.
    pub fn search(
        &self,
        base: &IndexedBase,
        query: &str,
        k: usize,
    ) -> Result<Vec<(NodeId, f32)>, IndexError> {
        let vector = self.embed(base, query);
        if vector.iter().all(|&number| number == 0.0) {
            return Ok(Vec::new());
        }
        let candidates = base.kb.candidates();
        let found = self.vectors.top_k(&vector, k, None)?.into_iter();
        Ok(found.filter_map(|(row, s)| Some((*candidates.get(row as usize)?, s))).collect())
    }
}

/// Divides the scores of each list by the best score of the list, and returns, for each node, the
/// weighted sum of its two scores: `weight` for `dense`, `1 - weight` for `lexical`. A node missing
/// from a list scores 0 there.
pub fn fuse(lexical: &Scores, dense: &Scores, weight: f32) -> Scores {
    let (lexical, dense) = (lexical.normalized(), dense.normalized());
    lexical.scale(1.0 - weight).combine(&dense.scale(weight), Combine::Sum)
}
