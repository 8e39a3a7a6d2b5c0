//! Cuts texts into the word pieces of a model, by its `tokenizer.json`.
//!
//! Padding and truncation settings of the file are overridden: a text is never padded, and cut at the
//! number of tokens that the model's configuration states.
//!
//! | limit | value | reason |
//! | --- | --- | --- |
//! | [`MAX_TOKENIZER_BYTES`] | 64 MiB | a vocabulary of a million word pieces |
//! | [`MAX_TEXT_BYTES`] | 1 MiB | read of one text; the rest lies beyond the last token of any usual text |

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use tokenizers::{
    PostProcessor, PreTokenizerWrapper, Tokenizer, TruncationParams, TruncationStrategy,
};

use crate::{
    EmbedError,
    bert::config::{Settings, unusable},
};

/// Maximum size of a tokenizer file, bytes.
pub const MAX_TOKENIZER_BYTES: u64 = 64 << 20;
/// Maximum number of bytes read of one text.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Bytes of a text per token limit that are tokenized first.
const BYTES_PER_TOKEN: usize = 8;

/// The word pieces of one text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WordPieces {
    /// Ids, each below the size of the vocabulary.
    pub ids: Vec<u32>,
    /// Types, each below their number; as long as `ids`.
    pub types: Vec<u32>,
    /// Whether the model added a word piece (a special token); as long as `ids`.
    pub(crate) special: Vec<bool>,
}

/// Tokenizes texts.
pub(super) struct Cutter {
    tokenizer: Tokenizer,
    /// Whether words end at white space, so that a prefix of a text gives its first word pieces.
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
    /// [`EmbedError::Model`] if it is not a tokenizer, or if its special
    /// tokens leave no room for a text.
    pub(super) fn new(
        bytes: &[u8],
        path: &Path,
        settings: &Settings,
    ) -> Result<Cutter, EmbedError> {
        let wrong =
            |error: &dyn std::fmt::Display| unusable(path, format!("it is no tokenizer: {error}"));
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| wrong(&error))?;
        let max_tokens = settings.max_tokens;
        let n_added = tokenizer.get_post_processor().map_or(0, |added| added.added_tokens(false));
        if n_added >= max_tokens {
            let reason = format!(
                "it adds {n_added} tokens, which leaves no room in {max_tokens} for a text"
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

    /// The word pieces of `prompt` followed by `text`, at most as many as the model reads; empty if
    /// the text itself has none. O(bytes read), usually the bytes of the returned word pieces.
    ///
    /// # Errors
    /// [`EmbedError::Model`] if the tokenizer fails, or returns word pieces that the weights do not
    /// have.
    pub(super) fn cut(&self, prompt: &str, text: &str) -> Result<WordPieces, EmbedError> {
        if text.trim().is_empty() {
            return Ok(WordPieces::default());
        }
        let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
        let mut n_bytes = self.max_tokens * BYTES_PER_TOKEN;
        loop {
            // A word that is cut off would give other pieces, so a part ends between words.
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

    /// The word pieces of many texts, in their order.
    ///
    /// # Errors
    /// As [`cut`](Cutter::cut).
    pub(super) fn cut_all(
        &self,
        prompt: &str,
        texts: &[&str],
    ) -> Result<Vec<WordPieces>, EmbedError> {
        texts.par_iter().map(|text| self.cut(prompt, text)).collect()
    }

    /// A word piece as written in the vocabulary.
    pub(super) fn name(&self, id: u32) -> String {
        self.tokenizer.id_to_token(id).unwrap_or_default()
    }

    /// As [`cut`](Cutter::cut), for the whole text in one step.
    pub(super) fn cut_whole(&self, text: &str) -> Result<WordPieces, EmbedError> {
        let lower = self.lower_case.then(|| text.to_lowercase());
        let encoding = self
            .tokenizer
            .encode_fast(lower.as_deref().unwrap_or(text), true)
            .map_err(|error| unusable(&self.path, format!("it cannot cut a text: {error}")))?;
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
                "it gives piece {} of type {}, but the model has {} pieces and {} types; \
                 take tokenizer and weights of one model",
                largest(ids),
                largest(types),
                self.vocabulary,
                self.types
            );
            return Err(unusable(&self.path, reason));
        }
        Ok(WordPieces { ids: ids.to_vec(), types: types.to_vec(), special })
    }
}
