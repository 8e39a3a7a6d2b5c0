//! A trained dual encoder in files: `words` has the stems with their vectors, `vectors` the vectors of
//! all candidates. Must not know how they were learnt.

use std::path::Path;

use rayon::prelude::*;
use safetensors::Dtype;
use serde::{Deserialize, Serialize};

use crate::{
    Look, Record, Source, TrainError,
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

/// The system that answers with such models.
pub(super) const SYSTEM: &str = "dense:trained";
const WORDS: &str = "words";
const VECTORS: &str = "vectors";
/// Candidates embedded at a time.
const BLOCK: usize = 4_096;

/// How an encoder was learnt, and what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// How it was learnt.
    pub settings: Settings,
    /// Stems that have a vector.
    pub stems: usize,
    /// Made queries that taught.
    pub made: usize,
    /// The share of this ranking in one with `bm25+names`, in `0..=1`, that validation queries are
    /// best with.
    pub weight: f32,
    /// Mean reciprocal rank of that, and of `bm25+names` alone, over validation queries.
    pub fused: [f64; 2],
    /// blake3 of the vectors, hex.
    pub(super) vectors: String,
}

/// What training found, to be written.
pub(super) struct Learnt<'a> {
    pub(super) settings: &'a Settings,
    pub(super) words: &'a Words,
    pub(super) table: &'a Table,
    pub(super) n_made: usize,
    pub(super) weight: f32,
    pub(super) fused: [f64; 2],
}

/// The vectors of all candidates, `[candidates, dim]`.
pub(super) fn embed_candidates(base: &IndexedBase, words: &Words, table: &Table) -> Vec<f32> {
    let candidates = base.kb.candidates();
    let mut rows = vec![0.0; candidates.len() * table.dim];
    rows.par_chunks_mut(table.dim).zip(candidates).for_each(|(row, &node)| {
        row.copy_from_slice(&table.embed(&words.of_node(base, node)));
    });
    rows
}

impl Learnt<'_> {
    /// Writes the model into its directory, replacing one that is there in one step.
    pub(super) fn save(
        self,
        base: &IndexedBase,
        dir: &Path,
        source: &Source,
        curve: Vec<Look>,
    ) -> Result<Record<Described>, TrainError> {
        let Self { settings, words, table, n_made, weight, fused } = self;
        let rows = embed_candidates(base, words, table);
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytemuck::cast_slice(&rows));
        let described = Described {
            settings: settings.clone(),
            stems: words.stems.len(),
            made: n_made,
            weight,
            fused,
            vectors: hasher.finalize().to_hex().to_string(),
        };
        let record = Record::new(SYSTEM, source, described, curve);
        record.save(dir, &[WORDS], |staging| {
            let (bounds, stems) = Strings::layout(words.stems.iter().map(String::as_str));
            let arrays = [
                ("bounds", Dtype::U64, bytemuck::cast_slice(&bounds)),
                ("idf", Dtype::F32, bytemuck::cast_slice(&words.idf)),
                ("table", Dtype::F32, bytemuck::cast_slice(&table.numbers)),
                ("stems", Dtype::U8, &stems[..]),
            ];
            Arrays::write(&staging.join(WORDS), &arrays)?;
            Ok(write_vectors(&staging.join(VECTORS), table.dim, &rows)?)
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

/// A trained encoder with the vectors of its base's candidates.
pub struct Encoder {
    stems: Strings,
    idf: Array<f32>,
    table: Array<f32>,
    vectors: VectorIndex,
    dim: usize,
    weight: f32,
}

impl Encoder {
    /// Opens the model in a directory over the base that it was trained on. O(bytes of the words).
    ///
    /// # Errors
    /// That it cannot be read, is of another system, or was trained over another base.
    pub fn open(base: &IndexedBase, dir: &Path) -> Result<(Self, Record<Described>), TrainError> {
        let record = Record::<Described>::read(dir, SYSTEM).map_err(|error| match error {
            TrainError::OtherSystem { path, found, .. } if found == tune::SYSTEM => {
                TrainError::SentenceEncoder { path }
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
            return Err(TrainError::damaged(dir, "its words and vectors do not fit together"));
        }
        let weight = record.model.weight;
        Ok((Self { stems, idf, table, vectors, dim, weight }, record))
    }

    /// The share of this ranking in one with `bm25+names` that validation queries were best with.
    pub fn weight(&self) -> f32 {
        self.weight
    }

    /// The vector of a query, norm 1; zeros if it knows no word.
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

    /// The `k` candidates nearest to a query, best first, exact; none if it knows no word.
    ///
    /// # Errors
    /// Those of the vectors.
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

/// Two lists in one: each divided by its best score, the second with the weight, the first with the
/// rest. A node that one list lacks has 0 there.
pub fn fused(lexical: &Scores, dense: &Scores, weight: f32) -> Scores {
    let (lexical, dense) = (lexical.normalized(), dense.normalized());
    lexical.scale(1.0 - weight).combine(&dense.scale(weight), Combine::Sum)
}
