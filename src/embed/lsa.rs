//! The built-in embedder: latent semantic analysis trained on the documents of a knowledge base.
//!
//! The method is that of Deerwester et al., "Indexing by latent semantic analysis", JASIS 41(6),
//! 1990; `factor` computes the decomposition. Each training document is a row of a matrix: the
//! weights of its stems, `(1 + ln tf) * idf^1.5`, scaled to norm 1 (`tf`: number of occurrences in
//! the document, `idf`: inverse document frequency). The leading right singular vectors of the
//! matrix give every stem a row of `dim` numbers. The vector of a text (a document or a query) is
//! the weighted sum of the rows of its stems, scaled to norm 1 ("folding in").
//!
//! # Properties
//! The model learns which words of *this* knowledge base occur together, so it finds documents that
//! share no word with a query. It needs no download, no GPU and only seconds to train. It is not a
//! language model: it ignores word order and negation, gives every word one meaning, and knows
//! nothing beyond the documents. A stem in fewer than [`MIN_DOCUMENT_FREQUENCY`] sampled documents
//! is unknown, so text search finds exact names better.
//!
//! # Weights
//! The table shows the mean reciprocal rank of dense search alone, in hundredths, over the
//! `kind=llm` queries of the train and val splits of three knowledge bases (105 queries for
//! products, 108 for biomed, 96 for papers). The last column is the mean difference from the first
//! row with its standard error over queries; no other tested setting is better by more than noise.
//! If the cosine is added with weight 0.2 to the BM25 score of the first 200 BM25 results, the mean
//! reciprocal ranks of these six settings differ by at most 0.6 hundredths.
//!
//! | setting | products | biomed | papers | difference |
//! | --- | --- | --- | --- | --- |
//! | default: 256 dimensions, `SCALING` 0.5, `RARITY` 1.5, `FOLDING` 1.5 | 19.5 | 2.6 | 9.6 | |
//! | `SCALING` 0 | 21.0 | 3.3 | 9.4 | +0.7 ± 0.4 |
//! | `SCALING` 1 | 18.8 | 2.4 | 8.4 | -0.7 ± 0.5 |
//! | 128 dimensions | 14.8 | 4.8 | 5.4 | -2.3 ± 1.2 |
//! | `FOLDING` 1 | 18.1 | 2.6 | 8.3 | -0.9 ± 0.6 |
//! | `RARITY` 1, `FOLDING` 1 | 13.6 | 2.9 | 9.5 | -1.9 ± 1.0 |
//!
//! # Cost
//! Training takes `O((entries + n_terms * l) * l)` time with `l = dim + 24`, and memory of about 16
//! bytes per entry plus `4 (documents + 3 n_terms) l` bytes. These limits bound the cost for a
//! knowledge base of any size:
//!
//! | limit | value | reason |
//! | --- | --- | --- |
//! | [`MAX_TRAINING_DOCUMENTS`] | 100 000 | rows of the matrix; more documents are sampled evenly |
//! | [`MAX_TRAINING_BYTES`] | 64 MiB | text read, hence entries of the matrix: about 10 M words |
//! | [`MAX_DOCUMENT_BYTES`] | 64 KiB | no single text may use up the budget |
//! | [`MAX_TERMS`] | 50 000 | columns; the most frequent stems are kept |
//! | [`MAX_DIM`] | 1024 | the work grows with the square of the dimensions |
//!
//! # File
//! The file is in safetensors format, with three tensors: `terms` F32 `[n_terms, dim]`,
//! `singular_values` F32 `[dim]`, and `vocabulary` U8, the stems joined by newlines in the order of
//! the rows. The metadata entry `lsa` is a JSON object with `format`, `checksum` (BLAKE3 of the
//! three tensors), `documents`, `seed` and, unless English is the only language, `languages`. Stems
//! ascend, so that a stem is found in the mapped file by binary search. Opening checks the
//! structure and reads the stems, at most [`MAX_TERMS`]; [`Embedder::verify`] reads the whole file.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::ops::{ControlFlow, Deref, Range};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::matrix::{Matrix, dot, normalise};
use crate::sparse::SparseMatrix;
use crate::tokens::{StemCache, for_each_word};
use crate::{EmbedError, Embedder, Result, factor};
use agent_ground::{files, words::Languages};

/// Maximum number of documents that training reads; a larger corpus is sampled evenly.
pub const MAX_TRAINING_DOCUMENTS: usize = 100_000;
/// Maximum number of bytes of text that training reads.
pub const MAX_TRAINING_BYTES: usize = 64 << 20;
/// Maximum number of bytes that training reads from one document.
pub const MAX_DOCUMENT_BYTES: usize = 64 << 10;
/// Maximum number of stems of a model; if the corpus has more, the stems that occur in the most
/// documents are kept.
pub const MAX_TERMS: usize = 50_000;
/// Minimum number of sampled documents that must contain a stem for it to be known.
pub const MIN_DOCUMENT_FREQUENCY: u32 = 2;
/// Default number of dimensions; 256 rank better than 128 on two of the three knowledge bases in
/// the table of the module's documentation.
pub const DEFAULT_DIM: usize = 256;
/// Maximum number of dimensions.
pub const MAX_DIM: usize = 1024;

/// Supported version of the file format.
const FORMAT: u64 = 1;
/// Number of documents that one thread tokenizes with one stem cache.
const CHUNK_DOCUMENTS: usize = 1024;
/// Number of texts whose tokens one thread embeds with one stem cache.
const CHUNK_TOKEN_TEXTS: usize = 64;
/// Number of chunks of documents between two calls of the progress callback.
const CHUNKS_PER_STEP: usize = 16;
/// Every dimension is divided by its singular value to this power. With 0, dimensions of broad
/// topics weigh most; with 1, no dimension is favoured.
const SCALING: f32 = 0.5;
/// Exponent of the inverse document frequency in a stem's weight: 1 is the textbook value; a larger
/// exponent favours rare stems, and thereby exact words over topics.
const RARITY: f32 = 1.5;
/// Exponent of a stem's weight in the vector of a text; like [`RARITY`], a larger exponent favours
/// rare stems.
const FOLDING: f32 = 1.5;

/// The documents for training, numbered from 0.
#[derive(Clone, Copy)]
pub struct Corpus<'a> {
    /// Number of documents.
    pub n_documents: usize,
    /// Text of document `i`, `i < n_documents`; the same text in every call.
    pub text: &'a (dyn Fn(usize) -> &'a str + Sync),
}

/// Parameters of training the built-in embedder.
#[derive(Debug, Clone, PartialEq)]
pub struct LsaParams {
    /// Requested number of dimensions, in `1..=`[`MAX_DIM`]; the model has fewer if the matrix of
    /// the corpus has a lower rank.
    pub dim: usize,
    /// Seed for drawing the training documents and for the randomized decomposition.
    pub seed: u64,
    /// Maximum number of documents read, in `1..=`[`MAX_TRAINING_DOCUMENTS`].
    pub max_documents: usize,
    /// Maximum number of bytes of text read, in `1..=`[`MAX_TRAINING_BYTES`].
    pub max_bytes: usize,
    /// Languages whose rules split and stem the texts.
    pub languages: Languages,
}

impl Default for LsaParams {
    fn default() -> LsaParams {
        LsaParams {
            dim: DEFAULT_DIM,
            seed: 0,
            max_documents: MAX_TRAINING_DOCUMENTS,
            max_bytes: MAX_TRAINING_BYTES,
            languages: Languages::ENGLISH,
        }
    }
}

/// Progress of training; `done == total` ends the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Name of the stage. The stages follow in this order: `"count words"`, `"weigh words"`,
    /// `"factor"`.
    pub stage: &'static str,
    /// Number of finished documents of this stage, or of finished steps in the stage `"factor"`.
    pub done: usize,
    /// Total number of documents of this stage, or of steps in the stage `"factor"`.
    pub total: usize,
}

/// Callback that training calls with its progress, after each group of documents and each step of
/// the decomposition; `Break` ends training with [`EmbedError::Interrupted`].
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// A trained model, in memory or mapped from its file.
pub struct LsaEmbedder {
    fingerprint: String,
    layout: Layout,
    /// Bytes of the whole safetensors file.
    file: FileBytes,
    path: PathBuf,
}

/// Bytes of a file, in memory or mapped.
type FileBytes = Box<dyn Deref<Target = [u8]> + Send + Sync>;

impl LsaEmbedder {
    /// Trains an embedder on the documents of a corpus.
    ///
    /// The model depends on corpus and parameters alone, and is the same byte for byte on any
    /// number of threads. A corpus in which no two words occur together, such as an empty corpus,
    /// gives a model with one dimension and no known words.
    ///
    /// # Errors
    /// [`EmbedError::Parameter`] for a parameter out of range, [`EmbedError::Interrupted`] if
    /// `progress` breaks.
    pub fn train(
        corpus: Corpus<'_>,
        params: &LsaParams,
        progress: OnProgress<'_>,
    ) -> Result<LsaEmbedder> {
        check_range("dim", params.dim, MAX_DIM)?;
        check_range("max_documents", params.max_documents, MAX_TRAINING_DOCUMENTS)?;
        check_range("max_bytes", params.max_bytes, MAX_TRAINING_BYTES)?;
        let sample = sample(&corpus, params);
        let document_frequencies = count_words(&corpus, &sample, params.languages, progress)?;
        let vocabulary = Vocabulary::new(document_frequencies, sample.len());
        let matrix = weigh_words(&corpus, &sample, (&vocabulary, params.languages), progress)?;
        let factor =
            factor::right_singular_vectors(&matrix, params.dim, params.seed, &mut |done| {
                progress(Progress { stage: "factor", done, total: factor::STEPS })
            })
            .ok_or(EmbedError::Interrupted)?;
        drop(matrix);
        let bytes = encode(&vocabulary, &factor, sample.len(), params)?;
        LsaEmbedder::from_bytes(Box::new(bytes), Path::new(IN_MEMORY))
    }

    /// Writes the model to `path`, replacing an existing file atomically.
    ///
    /// # Errors
    /// [`EmbedError::Io`]; an existing file is then unchanged.
    pub fn save(&self, path: &Path) -> Result<()> {
        let failed = |source| EmbedError::Io { path: path.to_owned(), source };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut file = files::temporary_file(folder, ".model-").map_err(failed)?;
        file.write_all(&self.file).map_err(failed)?;
        files::publish(file, path, folder).map_err(failed)
    }

    /// Maps the file of a model written by [`save`](LsaEmbedder::save). Reads the stems but not
    /// their vectors, so only [`verify`](Embedder::verify) detects altered vectors. O(bytes of the
    /// stems).
    ///
    /// # Errors
    /// [`EmbedError::Io`]; [`EmbedError::Format`] for another version; [`EmbedError::Damaged`] if
    /// the file does not have the structure of a model.
    pub fn open(path: &Path) -> Result<LsaEmbedder> {
        let failed = |source| EmbedError::Io { path: path.to_owned(), source };
        let file = files::open(path).map_err(failed)?;
        // SAFETY: model files are published by rename and never written in place afterwards, so the
        // mapped bytes do not change while they are borrowed.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        LsaEmbedder::from_bytes(Box::new(map), path)
    }

    fn from_bytes(file: FileBytes, path: &Path) -> Result<LsaEmbedder> {
        let layout = Layout::read(&file, path)?;
        let fingerprint =
            format!("lsa{FORMAT}-{}", layout.checksum.get(..32).unwrap_or(&layout.checksum));
        Ok(LsaEmbedder { fingerprint, layout, file, path: path.to_owned() })
    }

    /// Finds the row of a stem by binary search; O(log n).
    fn row_of(&self, stem: &str) -> Option<u32> {
        let stems = self.file.get(self.layout.stems.clone())?;
        let ends = &self.layout.stem_ends;
        let (mut low, mut high) = (0, ends.len());
        while low < high {
            let middle = low.midpoint(high);
            let start = middle.checked_sub(1).map_or(0, |before| ends[before] as usize + 1);
            match stems.get(start..ends[middle] as usize)?.cmp(stem.as_bytes()) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Some(middle as u32),
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The rows of all stems, `[n_terms, dim]`, as little-endian `f32`.
    fn terms(&self) -> &[[u8; 4]] {
        self.file.get(self.layout.terms.clone()).unwrap_or_default().as_chunks().0
    }

    /// Embeds one text into `vector`, which holds `dim` zeros.
    fn embed_into(&self, text: &str, cache: &mut StemCache<Option<u32>>, vector: &mut [f32]) {
        let (dim, terms) = (self.layout.dim, self.terms());
        for (term, count) in term_counts(text, cache, |stem| self.row_of(stem)) {
            let start = term as usize * dim;
            let weight = term_weight(count);
            for (sum, value) in vector.iter_mut().zip(&terms[start..start + dim]) {
                *sum += weight * f32::from_le_bytes(*value);
            }
        }
        normalise(vector);
    }
}

impl Embedder for LsaEmbedder {
    fn dim(&self) -> usize {
        self.layout.dim
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn describe(&self) -> String {
        format!(
            "built-in latent semantic analysis: {} dimensions, {} stems, learned from {} documents",
            self.layout.dim,
            self.layout.stem_ends.len(),
            self.layout.n_documents
        )
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Matrix> {
        let mut data = vec![0.0; texts.len() * self.layout.dim];
        data.par_chunks_mut(self.layout.dim * CHUNK_DOCUMENTS)
            .zip(texts.par_chunks(CHUNK_DOCUMENTS))
            .for_each(|(rows, texts)| {
                let mut cache = StemCache::new(self.layout.languages);
                for (row, text) in rows.chunks_mut(self.layout.dim).zip(texts) {
                    self.embed_into(text, &mut cache, row);
                }
            });
        Matrix::new(texts.len(), self.layout.dim, data)
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        let mut vector = vec![0.0; self.layout.dim];
        self.embed_into(text, &mut StemCache::new(self.layout.languages), &mut vector);
        Ok(vector)
    }

    /// Returns one row for each distinct known stem of a text, in the order of first occurrence.
    /// The norm of a row is the stem's weight, which is the same in all texts.
    fn embed_tokens(&self, texts: &[&str]) -> Result<Vec<Matrix>> {
        let (dim, terms) = (self.layout.dim, self.terms());
        let chunks = texts.par_chunks(CHUNK_TOKEN_TEXTS).map(|texts| {
            let mut cache = StemCache::new(self.layout.languages);
            let rows_of = |text: &&str| {
                let ids = distinct_terms(text, &mut cache, |stem| self.row_of(stem));
                let rows = ids.iter().flat_map(|&id| &terms[id as usize * dim..][..dim]);
                Matrix::new(ids.len(), dim, rows.map(|value| f32::from_le_bytes(*value)).collect())
            };
            texts.iter().map(rows_of).collect::<Result<Vec<Matrix>>>()
        });
        Ok(chunks.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    fn token_names(&self, text: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let ids = distinct_terms(text, &mut StemCache::new(self.layout.languages), |stem| {
            let id = self.row_of(stem)?;
            names.push((id, stem.to_owned()));
            Some(id)
        });
        let name = |id: &u32| names.iter().find(|pair| pair.0 == *id).map(|pair| pair.1.clone());
        Ok(ids.iter().filter_map(name).collect())
    }

    fn verify(&self) -> Result<()> {
        let part = |range: &Range<usize>| self.file.get(range.clone()).unwrap_or_default();
        let Layout { dim, terms, singular_values, stems, .. } = &self.layout;
        if checksum(*dim, part(terms), part(singular_values), part(stems)) == self.layout.checksum {
            return Ok(());
        }
        let reason = "its checksum does not match".to_owned();
        Err(EmbedError::Damaged { path: self.path.clone(), reason })
    }
}

/// Returns the weight of a stem that occurs `count` times in a text.
fn term_weight(count: u32) -> f32 {
    1.0 + (count as f32).ln()
}

/// Returns pairs of stem id and count for the known stems of `text`, by ascending id.
fn term_counts(
    text: &str,
    cache: &mut StemCache<Option<u32>>,
    id: impl Fn(&str) -> Option<u32>,
) -> Vec<(u32, u32)> {
    let mut ids = Vec::new();
    for_each_word(cache.languages(), text, |word| ids.extend(cache.get(word, &id)));
    ids.sort_unstable();
    ids.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect()
}

/// Returns the ids of the known stems of `text`, each once, in the order of first occurrence.
fn distinct_terms(
    text: &str,
    cache: &mut StemCache<Option<u32>>,
    mut id: impl FnMut(&str) -> Option<u32>,
) -> Vec<u32> {
    let (mut ids, mut seen) = (Vec::new(), HashSet::new());
    for_each_word(cache.languages(), text, |word| {
        ids.extend(cache.get(word, &mut id).filter(|id| seen.insert(*id)));
    });
    ids
}

/// Returns the prefix of `text` that training reads: at most [`MAX_DOCUMENT_BYTES`].
fn training_text(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_DOCUMENT_BYTES)]
}

/// Draws the training documents and returns their positions, ascending.
///
/// The corpus is split into `max_documents` equal ranges, and one document is drawn from each, so
/// that every part of the corpus is represented. If the drawn documents together exceed
/// `max_bytes`, only a random subset of them within this limit is kept.
fn sample(corpus: &Corpus<'_>, params: &LsaParams) -> Vec<usize> {
    let n = corpus.n_documents;
    let mut random = ChaCha8Rng::seed_from_u64(params.seed);
    let n_strata = params.max_documents.min(n);
    let mut chosen: Vec<usize> = (0..n_strata)
        .map(|stratum| {
            let bound = |i: usize| (i as u128 * n as u128 / n_strata as u128) as usize;
            let (start, end) = (bound(stratum), bound(stratum + 1));
            start + (random.next_u64() % (end - start) as u64) as usize
        })
        .collect();
    let bytes = |i: &usize| (corpus.text)(*i).len().min(MAX_DOCUMENT_BYTES);
    if chosen.iter().map(bytes).sum::<usize>() > params.max_bytes {
        for i in (1..chosen.len()).rev() {
            chosen.swap(i, (random.next_u64() % (i as u64 + 1)) as usize);
        }
        let mut spent = 0;
        let kept = chosen.iter().take_while(|i| {
            spent += bytes(i);
            spent <= params.max_bytes
        });
        let kept = kept.count();
        chosen.truncate(kept);
        chosen.sort_unstable();
    }
    chosen
}

/// Returns the document frequency of each stem: the number of sampled documents with the stem.
fn count_words(
    corpus: &Corpus<'_>,
    sample: &[usize],
    languages: Languages,
    progress: OnProgress<'_>,
) -> Result<HashMap<Box<str>, u32>> {
    let mut total: HashMap<Box<str>, u32> = HashMap::new();
    in_steps(sample, "count words", progress, |group| {
        let counts: Vec<HashMap<Box<str>, u32>> = group
            .par_chunks(CHUNK_DOCUMENTS)
            .map(|documents| {
                let mut local: HashMap<Box<str>, u32> = HashMap::new();
                let mut frequencies: Vec<(u32, usize)> = Vec::new();
                let mut cache = StemCache::new(languages);
                for (position, document) in documents.iter().enumerate() {
                    for_each_word(languages, training_text((corpus.text)(*document)), |word| {
                        let id = cache.get(word, |stem| {
                            *local.entry(stem.into()).or_insert_with(|| {
                                frequencies.push((0, usize::MAX));
                                frequencies.len() as u32 - 1
                            })
                        });
                        let (frequency, last) = &mut frequencies[id as usize];
                        if *last != position {
                            *last = position;
                            *frequency += 1;
                        }
                    });
                }
                local.values_mut().for_each(|id| *id = frequencies[*id as usize].0);
                local
            })
            .collect();
        for (stem, frequency) in counts.into_iter().flatten() {
            *total.entry(stem).or_default() += frequency;
        }
    })?;
    Ok(total)
}

/// Returns a matrix with a row for each sampled document and a column for each stem; a row holds
/// the stem weights of the document, scaled to norm 1. Rows of documents with fewer than two known
/// stems are left out, because no two stems occur together in them.
fn weigh_words(
    corpus: &Corpus<'_>,
    sample: &[usize],
    (vocabulary, languages): (&Vocabulary, Languages),
    progress: OnProgress<'_>,
) -> Result<SparseMatrix> {
    let mut matrix = SparseMatrix::new(vocabulary.stems.len());
    in_steps(sample, "weigh words", progress, |group| {
        let rows: Vec<Vec<Vec<(u32, f32)>>> = group
            .par_chunks(CHUNK_DOCUMENTS)
            .map(|documents| {
                let mut cache = StemCache::new(languages);
                let row = |document: &usize| {
                    let text = training_text((corpus.text)(*document));
                    let counts = term_counts(text, &mut cache, |stem| vocabulary.id(stem));
                    let (terms, mut weights): (Vec<u32>, Vec<f32>) = counts
                        .iter()
                        .map(|(term, count)| {
                            (*term, term_weight(*count) * vocabulary.weights[*term as usize])
                        })
                        .unzip();
                    normalise(&mut weights);
                    terms.into_iter().zip(weights).collect()
                };
                documents.iter().map(row).filter(|row: &Vec<_>| row.len() > 1).collect()
            })
            .collect();
        rows.iter().flatten().for_each(|row| matrix.push_row(row));
    })?;
    Ok(matrix)
}

/// Calls `work` with one group of sampled documents after the other, and reports progress after
/// each group.
fn in_steps(
    sample: &[usize],
    stage: &'static str,
    progress: OnProgress<'_>,
    mut work: impl FnMut(&[usize]),
) -> Result<()> {
    let mut done = 0;
    for group in sample.chunks(CHUNK_DOCUMENTS * CHUNKS_PER_STEP) {
        work(group);
        done += group.len();
        if progress(Progress { stage, done, total: sample.len() }).is_break() {
            return Err(EmbedError::Interrupted);
        }
    }
    Ok(())
}

fn check_range(name: &'static str, got: usize, max: usize) -> Result<()> {
    if (1..=max).contains(&got) {
        return Ok(());
    }
    Err(EmbedError::Parameter { name, expected: format!("1 to {max}"), got: got.to_string() })
}

/// The stems of a model in ascending order, with their weights and ids.
struct Vocabulary {
    stems: Vec<Box<str>>,
    /// Weight of each stem: its inverse document frequency, `ln((n + 1) / (df + 1/2))`, to the
    /// power of [`RARITY`]; positive. `n` is the number of documents, `df` the number of documents
    /// with the stem.
    weights: Vec<f32>,
    ids: HashMap<Box<str>, u32>,
}

impl Vocabulary {
    fn new(document_frequencies: HashMap<Box<str>, u32>, n_documents: usize) -> Vocabulary {
        let mut stems: Vec<(Box<str>, u32)> = document_frequencies
            .into_iter()
            .filter(|(_, frequency)| *frequency >= MIN_DOCUMENT_FREQUENCY)
            .collect();
        stems.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        stems.truncate(MAX_TERMS);
        stems.sort_unstable();
        let weight = |df: u32| ((n_documents as f32 + 1.0) / (df as f32 + 0.5)).ln().powf(RARITY);
        Vocabulary {
            weights: stems.iter().map(|(_, frequency)| weight(*frequency)).collect(),
            ids: stems.iter().zip(0..).map(|((stem, _), id)| (stem.clone(), id)).collect(),
            stems: stems.into_iter().map(|(stem, _)| stem).collect(),
        }
    }

    fn id(&self, stem: &str) -> Option<u32> {
        self.ids.get(stem).copied()
    }
}

/// Returns the bytes of a model's file. Stems whose row is zero are left out: these stems never
/// occur together with another stem.
fn encode(
    vocabulary: &Vocabulary,
    factor: &factor::Factor,
    n_documents: usize,
    params: &LsaParams,
) -> Result<Vec<u8>> {
    let rank = factor.rank();
    let dim = rank.max(1);
    let scales: Vec<f32> = factor.singular_values.iter().map(|s| s.powf(-SCALING)).collect();
    let (mut names, mut terms) = (Vec::new(), Vec::new());
    for ((stem, weight), row) in
        vocabulary.stems.iter().zip(&vocabulary.weights).zip(factor.vectors.chunks(dim))
    {
        if dot(row, row) == 0.0 {
            continue;
        }
        names.push(&**stem);
        terms.extend(
            row.iter()
                .zip(&scales)
                .flat_map(|(value, scale)| (value * scale * weight.powf(FOLDING)).to_le_bytes()),
        );
    }
    let n_terms = names.len();
    let stems = names.join("\n").into_bytes();
    let mut singular_values: Vec<u8> =
        factor.singular_values.iter().flat_map(|value| value.to_le_bytes()).collect();
    singular_values.resize(dim * 4, 0);
    let mut metadata = serde_json::json!({
        "format": FORMAT,
        "checksum": checksum(dim, &terms, &singular_values, &stems),
        "documents": n_documents,
        "seed": params.seed,
    });
    if !params.languages.is_english() {
        metadata["languages"] = serde_json::json!(params.languages);
    }
    let tensors = [
        ("terms", Dtype::F32, vec![n_terms, dim], &terms),
        ("singular_values", Dtype::F32, vec![dim], &singular_values),
        ("vocabulary", Dtype::U8, vec![stems.len()], &stems),
    ];
    let invalid = |error: safetensors::SafeTensorError| EmbedError::Damaged {
        path: IN_MEMORY.into(),
        reason: error.to_string(),
    };
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, data)| {
            Ok((*name, TensorView::new(*dtype, shape.clone(), data).map_err(invalid)?))
        })
        .collect::<Result<Vec<_>>>()?;
    let metadata = HashMap::from([(METADATA_KEY.to_owned(), metadata.to_string())]);
    safetensors::serialize(views, Some(metadata)).map_err(invalid)
}

/// Path in errors about a model that has no file.
const IN_MEMORY: &str = "(in memory)";
/// Key of the metadata in the safetensors file. There is only one key, so that the bytes of the
/// file do not depend on the order of keys.
const METADATA_KEY: &str = "lsa";

fn checksum(dim: usize, terms: &[u8], singular_values: &[u8], stems: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [&dim.to_le_bytes()[..], terms, singular_values, stems] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_hex().to_string()
}

/// Content of the header of a model file, with the byte ranges of the tensors in the file. Exists
/// only for files with a valid structure.
struct Layout {
    dim: usize,
    n_documents: u64,
    languages: Languages,
    /// Checksum that the metadata of the file states.
    checksum: String,
    terms: Range<usize>,
    singular_values: Range<usize>,
    stems: Range<usize>,
    /// End of each stem, as a byte offset within `stems`.
    stem_ends: Vec<u32>,
}

impl Layout {
    fn read(file: &[u8], path: &Path) -> Result<Layout> {
        let damaged = |reason: String| EmbedError::Damaged { path: path.to_owned(), reason };
        let (_, header) =
            SafeTensors::read_metadata(file).map_err(|error| damaged(error.to_string()))?;
        let metadata = header.metadata().as_ref().and_then(|map| map.get(METADATA_KEY));
        let metadata: serde_json::Value = metadata
            .and_then(|text| serde_json::from_str(text).ok())
            .ok_or_else(|| damaged("it has no metadata of an embedder".to_owned()))?;
        let found = metadata["format"].as_u64().unwrap_or(0);
        if found != FORMAT {
            return Err(EmbedError::Format { path: path.to_owned(), found, supported: FORMAT });
        }
        let languages = match metadata.get("languages") {
            None => Ok(Languages::ENGLISH),
            Some(codes) => serde_json::from_value(codes.clone()),
        };
        let languages = languages.map_err(|error| damaged(error.to_string()))?;
        let tensors = SafeTensors::deserialize(file).map_err(|error| damaged(error.to_string()))?;
        let tensor = |name: &str, dtype: Dtype, rank: usize| {
            tensors
                .tensor(name)
                .ok()
                .filter(|tensor| tensor.dtype() == dtype && tensor.shape().len() == rank)
                .ok_or_else(|| {
                    damaged(format!("tensor {name} is missing or has the wrong type or rank"))
                })
        };
        let terms = tensor("terms", Dtype::F32, 2)?;
        let singular_values = tensor("singular_values", Dtype::F32, 1)?;
        let stems = tensor("vocabulary", Dtype::U8, 1)?;
        let (n_terms, dim) = (terms.shape()[0], terms.shape()[1]);
        if !(1..=MAX_DIM).contains(&dim) || n_terms > MAX_TERMS || singular_values.shape() != [dim]
        {
            return Err(damaged(format!("shape [{n_terms}, {dim}] is out of range")));
        }
        let checksum = metadata["checksum"].as_str().unwrap_or_default().to_owned();
        let stem_ends = line_ends(stems.data());
        if stem_ends.len() != n_terms {
            return Err(damaged(format!("{} stems for {n_terms} rows", stem_ends.len())));
        }
        let place = |bytes: &[u8]| {
            let start = bytes.as_ptr().addr() - file.as_ptr().addr();
            start..start + bytes.len()
        };
        Ok(Layout {
            dim,
            n_documents: metadata["documents"].as_u64().unwrap_or(0),
            languages,
            checksum,
            terms: place(terms.data()),
            singular_values: place(singular_values.data()),
            stems: place(stems.data()),
            stem_ends,
        })
    }
}

/// Returns the byte offset of each line's end in `text`, which has no final newline; empty if
/// `text` is empty.
fn line_ends(text: &[u8]) -> Vec<u32> {
    if text.is_empty() {
        return Vec::new();
    }
    let newlines = text.iter().zip(0u32..).filter(|pair| *pair.0 == b'\n').map(|pair| pair.1);
    newlines.chain([text.len() as u32]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(texts: &[String], dim: usize) -> LsaEmbedder {
        let corpus = Corpus { n_documents: texts.len(), text: &|i| &texts[i] };
        let params = LsaParams { dim, ..LsaParams::default() };
        LsaEmbedder::train(corpus, &params, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    /// Documents on two topics: "automobile" and "car" never occur together, but with the same
    /// other words; "banana" occurs with different words.
    fn planted() -> Vec<String> {
        let mut texts = Vec::new();
        for (word, company) in [
            ("automobile", ["engine", "wheel", "driver", "road"]),
            ("car", ["engine", "wheel", "driver", "road"]),
            ("banana", ["fruit", "peel", "yellow", "ripe"]),
            ("mango", ["fruit", "peel", "yellow", "ripe"]),
        ] {
            for skipped in 0..4 {
                let mut words = vec![word];
                words.extend((0..4).filter(|i| *i != skipped).map(|i| company[i]));
                texts.push(words.join(" "));
            }
        }
        texts
    }

    fn cosine(model: &LsaEmbedder, left: &str, right: &str) -> f32 {
        dot(&model.embed_query(left).unwrap(), &model.embed_query(right).unwrap())
    }

    #[test]
    fn words_that_share_company_are_close_although_they_never_meet() {
        let model = train(&planted(), 2);
        assert!(cosine(&model, "car", "automobile") > 0.9);
        assert!(cosine(&model, "car", "bananas") < 0.2);
        assert!((cosine(&model, "the cars", "car") - 1.0).abs() < 1e-6, "stems, function words");
    }

    #[test]
    fn a_text_without_known_words_is_zero_and_nothing_is_nan() {
        for model in [train(&[], 8), train(&[String::new(), "lonely".into()], 8)] {
            assert_eq!((model.dim(), model.layout.stem_ends.len()), (1, 0));
            assert_eq!(model.embed_query("car").unwrap(), [0.0]);
        }
        let model = train(&planted(), 8);
        let vectors = model.embed_documents(&["", "unheard", "car road", "the"]).unwrap();
        let lengths: Vec<f32> = (0..4)
            .map(|row| vectors.row(row).unwrap().iter().map(|v| v * v).sum::<f32>().sqrt())
            .collect();
        assert_eq!((lengths[0], lengths[1], lengths[3]), (0.0, 0.0, 0.0));
        assert!((lengths[2] - 1.0).abs() < 1e-6);
        assert_eq!(model.embed_documents(&[]).unwrap().rows(), 0);
        assert_eq!(
            vectors.row(2).unwrap(),
            model.embed_query("car road").unwrap(),
            "batch = single"
        );
    }

    #[test]
    fn one_thread_and_two_learn_the_same_bytes() {
        let texts: Vec<String> = (0..3000usize)
            .map(|i| (0..12).map(|j| format!("w{} ", (i * (j + 7) + j * j) % 211)).collect())
            .collect();
        let with_threads = |n_threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            pool.install(|| train(&texts, 16))
        };
        let (one, two) = (with_threads(1), with_threads(2));
        assert_eq!(one.dim(), 16);
        assert!(**one.file == **two.file, "files differ");
        assert_eq!(one.fingerprint(), two.fingerprint());
    }

    #[test]
    fn a_sample_covers_the_corpus_within_its_budgets() {
        let text = "x".repeat(100);
        let corpus = Corpus { n_documents: 1000, text: &|_| &text };
        let params = LsaParams { max_documents: 10, ..LsaParams::default() };
        let chosen = sample(&corpus, &params);
        assert_eq!(chosen.iter().map(|i| i / 100).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        let chosen = sample(&corpus, &LsaParams { max_bytes: 5050, ..LsaParams::default() });
        assert_eq!(chosen.len(), 50);
        assert!(chosen.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn parameters_out_of_range_and_interruption_are_typed_errors() {
        let corpus = Corpus { n_documents: 1, text: &|_| "one two" };
        let train = |dim, flow| {
            let params = LsaParams { dim, ..LsaParams::default() };
            LsaEmbedder::train(corpus, &params, &mut |_| flow).err()
        };
        for dim in [0, MAX_DIM + 1] {
            let error = train(dim, ControlFlow::Continue(()));
            assert!(matches!(error, Some(EmbedError::Parameter { name: "dim", .. })));
        }
        assert!(matches!(train(4, ControlFlow::Break(())), Some(EmbedError::Interrupted)));
    }

    #[test]
    fn a_saved_model_opens_as_its_twin_and_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        for model in [train(&planted(), 4), train(&[], 4)] {
            model.save(&path).unwrap();
            let opened = LsaEmbedder::open(&path).unwrap();
            assert_eq!(opened.fingerprint(), model.fingerprint());
            assert_eq!(opened.describe(), model.describe());
            let text = "driver of a yellow car";
            assert_eq!(opened.embed_query(text).unwrap(), model.embed_query(text).unwrap());
        }
        train(&planted(), 4).save(&path).unwrap();
        let good = std::fs::read(&path).unwrap();
        for end in (0..good.len()).step_by(41) {
            std::fs::write(&path, &good[..end]).unwrap();
            assert!(matches!(LsaEmbedder::open(&path), Err(EmbedError::Damaged { .. })), "{end}");
        }
        // A flipped byte is detected, at the latest by `verify`, or has no effect; it never makes a
        // query panic.
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 0x41;
            std::fs::write(&path, &bad).unwrap();
            let Ok(opened) = LsaEmbedder::open(&path) else { continue };
            opened.embed_query("driver of a yellow car").unwrap();
            if opened.verify().is_ok() {
                assert_eq!(opened.fingerprint(), train(&planted(), 4).fingerprint(), "byte {i}");
            }
        }
        assert!(matches!(
            LsaEmbedder::open(&folder.path().join("none")),
            Err(EmbedError::Io { .. })
        ));
    }
}
