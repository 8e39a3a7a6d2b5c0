//! Splits texts into the word pieces of a model, by its `tokenizer.json`.
//!
//! The padding and truncation settings of this file are overridden: a text is never padded, and is
//! cut to the maximum number of tokens in the model's configuration.
//!
//! | limit | value | reason |
//! | --- | --- | --- |
//! | [`MAX_TOKENIZER_BYTES`] | 64 MiB | a vocabulary of a million word pieces |
//! | [`MAX_TEXT_BYTES`] | 1 MiB | most long texts reach the maximum number of tokens earlier |

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use tokenizers::{
    PostProcessor, PreTokenizerWrapper, Tokenizer, TruncationParams, TruncationStrategy,
};

use crate::{
    Result,
    bert::config::{Settings, unusable},
};

/// Maximum size of a tokenizer file, in bytes.
pub const MAX_TOKENIZER_BYTES: u64 = 64 << 20;
/// Maximum number of bytes read of one text.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Number of bytes of a long text that are tokenized first, per token that the model can read.
const BYTES_PER_TOKEN: usize = 8;

/// Word pieces of one text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WordPieces {
    /// Ids of the word pieces, each below the size of the vocabulary.
    pub ids: Vec<u32>,
    /// Token type of each word piece, below the number of token types; as long as `ids`.
    pub types: Vec<u32>,
    /// Whether each word piece is a special token, which the tokenizer added; as long as `ids`.
    pub(crate) special: Vec<bool>,
    /// Number of word pieces at the end to which no word piece attends; always less than the number
    /// of word pieces.
    pub(crate) masked: usize,
}

/// The tokenizer of a model.
pub(super) struct Cutter {
    tokenizer: Tokenizer,
    /// Whether the tokenizer splits texts at white space before anything else. If so, a prefix of
    /// whole words has the same word pieces as the beginning of the text.
    cuts_at_spaces: bool,
    max_tokens: usize,
    lower_case: bool,
    vocabulary: usize,
    types: usize,
    path: PathBuf,
}

impl Cutter {
    /// Reads a tokenizer from the bytes of the file at `path`.
    ///
    /// # Errors
    /// [`crate::EmbedError::Model`] if the file is not a tokenizer, or if its special tokens leave
    /// no room for a text.
    pub(super) fn new(bytes: &[u8], path: &Path, settings: &Settings) -> Result<Cutter> {
        let wrong = |error: &dyn std::fmt::Display| {
            unusable(path, format!("it is not a tokenizer: {error}"))
        };
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| wrong(&error))?;
        let max_tokens = settings.max_tokens;
        let n_added = tokenizer.get_post_processor().map_or(0, |added| added.added_tokens(false));
        if n_added >= max_tokens {
            let reason = format!(
                "its {n_added} special tokens leave no room for text within {max_tokens} tokens"
            );
            return Err(unusable(path, reason));
        }
        tokenizer.with_padding(None);
        tokenizer
            .with_truncation(Some(TruncationParams {
                max_length: max_tokens,
                strategy: TruncationStrategy::LongestFirst,
                stride: 0,
                ..TruncationParams::default()
            }))
            .map_err(|error| wrong(&error))?;
        let pre = tokenizer.get_pre_tokenizer();
        Ok(Cutter {
            cuts_at_spaces: matches!(pre, Some(PreTokenizerWrapper::BertPreTokenizer(_))),
            tokenizer,
            max_tokens,
            lower_case: settings.lower_case,
            vocabulary: settings.shape.vocabulary,
            types: settings.shape.types,
            path: path.to_owned(),
        })
    }

    /// Splits `prompt` followed by `text` into word pieces, at most as many as the model can read.
    /// The result is empty if `text` is blank or all word pieces are special tokens. If words end
    /// at white space, only slightly more of a long text is read than the returned word pieces
    /// cover. Time is linear in the bytes read.
    ///
    /// # Errors
    /// [`crate::EmbedError::Model`] if the tokenizer fails, or returns word pieces that the weights
    /// do not have.
    pub(super) fn cut(&self, prompt: &str, text: &str) -> Result<WordPieces> {
        if text.trim().is_empty() {
            return Ok(WordPieces::default());
        }
        let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
        let mut n_bytes = self.max_tokens * BYTES_PER_TOKEN;
        loop {
            // A truncated word would give other pieces, so a part ends between words.
            let part = &text[..text.floor_char_boundary(n_bytes)];
            let end = part.rfind(|c: char| c.is_ascii_whitespace()).filter(|_| self.cuts_at_spaces);
            let part = if part.len() < text.len() { &text[..end.unwrap_or(0)] } else { part };
            if part.len() == text.len() || !part.is_empty() {
                let pieces = self.cut_whole(&format!("{prompt}{part}"))?;
                if part.len() == text.len() || pieces.ids.len() >= self.max_tokens {
                    return Ok(pieces);
                }
            }
            n_bytes = if self.cuts_at_spaces { n_bytes.saturating_mul(4) } else { usize::MAX };
        }
    }

    /// Splits texts into word pieces, in parallel; returns them in the order of the texts.
    ///
    /// # Errors
    /// As [`cut`](Cutter::cut).
    pub(super) fn cut_all(&self, prompt: &str, texts: &[&str]) -> Result<Vec<WordPieces>> {
        texts.par_iter().map(|text| self.cut(prompt, text)).collect()
    }

    /// Returns the word piece with this id, as the vocabulary spells it; empty for an unknown id.
    pub(super) fn name(&self, id: u32) -> String {
        self.tokenizer.id_to_token(id).unwrap_or_default()
    }

    /// Returns the id of a word piece, as the vocabulary spells it; `None` if there is none.
    pub(super) fn id(&self, name: &str) -> Option<u32> {
        self.tokenizer.token_to_id(name)
    }

    /// Splits the whole text in one step, without adding a prompt.
    ///
    /// # Errors
    /// As [`cut`](Cutter::cut).
    pub(super) fn cut_whole(&self, text: &str) -> Result<WordPieces> {
        let lower = self.lower_case.then(|| text.to_lowercase());
        let encoding = self
            .tokenizer
            .encode_fast(lower.as_deref().unwrap_or(text), true)
            .map_err(|error| unusable(&self.path, format!("it cannot tokenize a text: {error}")))?;
        let (ids, types) = (encoding.get_ids(), encoding.get_type_ids());
        let special: Vec<bool> =
            encoding.get_special_tokens_mask().iter().map(|mask| *mask != 0).collect();
        if special.iter().all(|special| *special) {
            return Ok(WordPieces::default());
        }
        let largest = |values: &[u32]| values.iter().max().map_or(0, |largest| *largest as usize);
        let fits =
            ids.len() <= self.max_tokens && types.len() == ids.len() && special.len() == ids.len();
        if !fits || largest(ids) >= self.vocabulary || largest(types) >= self.types {
            let reason = format!(
                "it returns token {} of type {}, but the model has {} tokens and {} types; \
                 use the tokenizer and the weights of the same model",
                largest(ids),
                largest(types),
                self.vocabulary,
                self.types
            );
            return Err(unusable(&self.path, reason));
        }
        Ok(WordPieces { ids: ids.to_vec(), types: types.to_vec(), special, masked: 0 })
    }
}
