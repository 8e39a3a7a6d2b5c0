//! ColBERT checkpoints: BERT with a linear layer that gives every token a short vector.
//!
//! Sources: Khattab & Zaharia, "ColBERT", SIGIR 2020, and Santhanam et al., "ColBERTv2", NAACL
//! 2022; the reference implementation is the Python package colbert-ai. A checkpoint is the
//! directory of a BERT encoder (see [`config`](super::config)) whose weights also hold
//! `linear.weight`, `[dim, hidden]` without bias. The file `artifact.metadata` may change these
//! settings:
//!
//! | setting | meaning | if absent |
//! | --- | --- | --- |
//! | `query_maxlen` | tokens of a query, 4 to [`MAX_QUERY_TOKENS`] | 32 |
//! | `doc_maxlen` | maximum number of tokens of a document, 4 to [`MAX_DOCUMENT_TOKENS`] | 180 |
//! | `query_token_id`, `doc_token_id` | the markers `[Q]` and `[D]` | `[unused0]`, `[unused1]` |
//! | `attend_to_mask_tokens` | whether tokens attend to the `[MASK]` tokens of a query | no |
//! | `mask_punctuation` | whether punctuation of documents is left out | yes |
//! | `dim`, `similarity` | checked: the length of a vector, and `cosine` | not checked |
//!
//! A query is `[CLS] [Q] tokens [SEP]`, filled with `[MASK]` up to `query_maxlen`; all its tokens
//! have a vector. A document is `[CLS] [D] tokens [SEP]`; its tokens that are a single ASCII
//! punctuation mark have none. Vectors have norm 1.
//!
//! # Differences from the reference
//! - A document or query without word pieces has no vectors.
//! - Vectors are computed with 32 bits on a CPU; a CUDA device, with 16 bits, computes only the
//!   vectors of documents.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{
    BertEncoder,
    config::{Architecture, Sources, read_optional, unusable},
    weights::Tensors,
    word_pieces::WordPieces,
};
use crate::{Matrix, Result, matrix::dot};

/// Maximum number of tokens of a query.
pub const MAX_QUERY_TOKENS: usize = 64;
/// Maximum number of tokens of a document.
pub const MAX_DOCUMENT_TOKENS: usize = 512;
/// Name of the tensor of the linear layer.
const PROJECTION: &str = "linear.weight";
/// Name of the file with the settings of the checkpoint.
const METADATA: &str = "artifact.metadata";
/// Number of tokens that are added to a text: `[CLS]`, the marker and `[SEP]`.
const ADDED: usize = 3;

/// Settings of a checkpoint. The fingerprint covers their `Debug` form.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct Metadata {
    query_maxlen: usize,
    doc_maxlen: usize,
    query_token_id: String,
    doc_token_id: String,
    attend_to_mask_tokens: bool,
    mask_punctuation: bool,
    dim: Option<usize>,
    similarity: String,
}

impl Default for Metadata {
    fn default() -> Self {
        Self {
            query_maxlen: 32,
            doc_maxlen: 180,
            query_token_id: "[unused0]".to_owned(),
            doc_token_id: "[unused1]".to_owned(),
            attend_to_mask_tokens: false,
            mask_punctuation: true,
            dim: None,
            similarity: "cosine".to_owned(),
        }
    }
}

impl Metadata {
    /// Checks the settings for a model with `positions` positions and vectors of length `dim`;
    /// `Err` holds the reason if the settings do not fit the model.
    fn check(&self, positions: usize, dim: usize) -> Result<(), String> {
        let lengths = [
            ("query_maxlen", self.query_maxlen, MAX_QUERY_TOKENS.min(positions)),
            ("doc_maxlen", self.doc_maxlen, MAX_DOCUMENT_TOKENS.min(positions)),
        ];
        for (name, value, max) in lengths {
            if !(ADDED + 1..=max).contains(&value) {
                return Err(format!("{name} is {value}, expected {} to {max}", ADDED + 1));
            }
        }
        if self.dim.is_some_and(|stated| stated != dim) {
            let stated = self.dim.unwrap_or_default();
            return Err(format!("dim is {stated}, but {PROJECTION} has {dim} rows"));
        }
        if self.similarity != "cosine" {
            return Err(format!("similarity {:?} is not supported, only cosine", self.similarity));
        }
        Ok(())
    }
}

/// Ids of the tokens that are added to texts.
struct AddedTokens {
    start: u32,
    query: u32,
    document: u32,
    end: u32,
    mask: u32,
}

/// A ColBERT checkpoint in a local directory.
pub struct ColbertEncoder {
    encoder: BertEncoder,
    metadata: Metadata,
    dir: PathBuf,
    /// The linear layer, `[dim, hidden]`.
    projection: Vec<f32>,
    dim: usize,
    added: AddedTokens,
    /// Ids of the punctuation tokens that documents leave out.
    skipped: Vec<u32>,
    fingerprint: String,
}

impl ColbertEncoder {
    /// Opens the checkpoint in `dir` and loads its weights. O(bytes of the files).
    ///
    /// # Errors
    /// As [`BertEncoder::open`]; [`crate::EmbedError::Model`] if the model is not BERT, if
    /// `linear.weight` is missing or does not match the model's row length, if a token is missing,
    /// or if a setting is not supported.
    pub fn open(dir: &Path) -> Result<ColbertEncoder> {
        let mut encoder = BertEncoder::open(dir)?;
        let path = dir.join(METADATA);
        let metadata: Metadata = read_optional(&path, &mut Sources::new())?.unwrap_or_default();
        let shape = encoder.settings.shape.clone();
        if encoder.settings.architecture != Architecture::Bert {
            let name = encoder.settings.architecture.name();
            let reason = format!("ColBERT over {name} is not supported, only over BERT");
            return Err(unusable(&encoder.settings.folder.join("config.json"), reason));
        }
        let tensors = Tensors::new(&encoder.weights.map, &encoder.weights.path, &shape)?;
        let (projection, dim) = tensors.projection(PROJECTION)?;
        metadata.check(shape.positions, dim).map_err(|reason| unusable(&path, reason))?;
        // Leaves room for the marker, which is added after tokenization.
        encoder.settings.max_tokens = metadata.query_maxlen.max(metadata.doc_maxlen) - 1;
        let cutter = &encoder.ready()?.cutter;
        let id = |name: &str| {
            let missing = || {
                let reason = format!("it has no token {name}; use a ColBERT checkpoint");
                unusable(&encoder.tokenizer.path, reason)
            };
            cutter.id(name).filter(|&id| (id as usize) < shape.vocabulary).ok_or_else(missing)
        };
        let added = AddedTokens {
            start: id("[CLS]")?,
            query: id(&metadata.query_token_id)?,
            document: id(&metadata.doc_token_id)?,
            end: id("[SEP]")?,
            mask: id("[MASK]")?,
        };
        let marks = (0..128u8).map(char::from).filter(char::is_ascii_punctuation);
        let skipped = marks.filter(|_| metadata.mask_punctuation);
        let skipped = skipped.filter_map(|mark| cutter.id(mark.encode_utf8(&mut [0; 4]))).collect();
        let parts = format!("{} {metadata:?}", encoder.fingerprint);
        let fingerprint = format!("colbert1-{}", &blake3::hash(parts.as_bytes()).to_hex()[..32]);
        let dir = dir.to_owned();
        Ok(Self { encoder, metadata, dir, projection, dim, added, skipped, fingerprint })
    }

    /// Returns the length of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the directory of the checkpoint, as passed to [`open`](Self::open).
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns an identifier of the weights, the tokenizer and the settings.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Embeds a query into a `[query_maxlen, dim]` matrix: one row of norm 1 per token, in the
    /// order of the tokens. The matrix has no rows if the query has no word pieces.
    ///
    /// # Errors
    /// [`crate::EmbedError::Model`] if the tokenizer fails or the model gives numbers that are not
    /// finite.
    pub fn embed_query(&self, text: &str) -> Result<Matrix> {
        let rows = self.project(&[self.query_pieces(text)?], &[])?.pop();
        rows.map_or_else(|| Matrix::new(0, self.dim, Vec::new()), Ok)
    }

    /// Embeds each document into a `[tokens, dim]` matrix: one row of norm 1 per token that
    /// documents do not leave out, in the order of the tokens. The matrix of a document without
    /// word pieces has no rows.
    ///
    /// # Errors
    /// As [`embed_query`](Self::embed_query).
    pub fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Matrix>> {
        let cut = self.encoder.ready()?.cutter.cut_all("", texts)?;
        let marked = |pieces| self.document_pieces(pieces);
        self.project(&cut.iter().map(marked).collect::<Vec<WordPieces>>(), &self.skipped)
    }

    /// Returns the tokens of a query as readable strings, one for each row of its matrix.
    ///
    /// # Errors
    /// [`crate::EmbedError::Model`] if the tokenizer fails.
    pub fn query_tokens(&self, text: &str) -> Result<Vec<String>> {
        self.names(&self.query_pieces(text)?, &[])
    }

    /// Returns the tokens of a document as readable strings, one for each row of its matrix.
    ///
    /// # Errors
    /// [`crate::EmbedError::Model`] if the tokenizer fails.
    pub fn document_tokens(&self, text: &str) -> Result<Vec<String>> {
        let cut = self.encoder.ready()?.cutter.cut("", text)?;
        self.names(&self.document_pieces(&cut), &self.skipped)
    }

    fn names(&self, pieces: &WordPieces, skipped: &[u32]) -> Result<Vec<String>> {
        let cutter = &self.encoder.ready()?.cutter;
        let kept = pieces.ids.iter().filter(|id| !skipped.contains(id));
        Ok(kept.map(|id| cutter.name(*id)).collect())
    }

    fn query_pieces(&self, text: &str) -> Result<WordPieces> {
        let cut = self.encoder.ready()?.cutter.cut("", text)?;
        let length = self.metadata.query_maxlen;
        let mut pieces = self.marked(&cut, self.added.query, length);
        if !pieces.ids.is_empty() {
            pieces.masked = match self.metadata.attend_to_mask_tokens {
                true => 0,
                false => length - pieces.ids.len(),
            };
            pieces.ids.resize(length, self.added.mask);
            pieces.types.resize(length, 0);
            pieces.special.resize(length, true);
        }
        Ok(pieces)
    }

    fn document_pieces(&self, cut: &WordPieces) -> WordPieces {
        self.marked(cut, self.added.document, self.metadata.doc_maxlen)
    }

    /// Returns `[CLS]`, the marker, the word pieces of a text and `[SEP]`, at most `max` tokens; no
    /// tokens for a text without word pieces.
    fn marked(&self, cut: &WordPieces, marker: u32, max: usize) -> WordPieces {
        if cut.ids.is_empty() {
            return WordPieces::default();
        }
        let own = cut.ids.iter().zip(&cut.special).filter(|(_, special)| !**special);
        let own = own.map(|(id, _)| *id).take(max - ADDED);
        let ids: Vec<u32> =
            [self.added.start, marker].into_iter().chain(own).chain([self.added.end]).collect();
        let n = ids.len();
        WordPieces { ids, types: vec![0; n], special: vec![false; n], masked: 0 }
    }

    /// Runs the model and the linear layer. Returns a `[tokens, dim]` matrix for each text, with
    /// rows of norm 1; tokens in `skipped` have no row.
    fn project(&self, texts: &[WordPieces], skipped: &[u32]) -> Result<Vec<Matrix>> {
        let (hidden, dim) = (self.encoder.settings.shape.hidden, self.dim);
        let of_text = |pieces: &WordPieces, rows: &[f32]| {
            let kept = rows.chunks_exact(hidden).zip(&pieces.ids);
            let mut data = Vec::with_capacity(pieces.ids.len() * dim);
            for (row, _) in kept.filter(|(_, id)| !skipped.contains(id)) {
                let start = data.len();
                data.extend(self.projection.chunks_exact(hidden).map(|weights| dot(weights, row)));
                self.encoder.scale(&mut data[start..])?;
            }
            Matrix::new(data.len() / dim, dim, data)
        };
        self.encoder.embed_pieces(self.encoder.ready()?, texts, &of_text)
    }
}

#[cfg(test)]
mod tests;
