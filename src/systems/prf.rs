//! The system `prf[=DOCUMENTS,TERMS,WEIGHT][:SYSTEM]`: pseudo-relevance feedback. The first
//! documents of another system are assumed to be relevant, and their characteristic words are
//! searched too.
//!
//! Sources: Rocchio (1971), with tf-idf vectors of the documents and without negative documents;
//! Lavrenko & Croft (2001) and their successors, who weight the query separately.
//!
//! 1. In each document, each word that is not in the query has the weight `tf / length x idf`. The
//!    words with the largest sums of weights over the documents are searched; of equal sums, the
//!    alphabetically first.
//! 2. BM25 over documents makes two rankings: by the query, and by these words. The scores in each
//!    ranking are divided by its best score. A node's final score is the weighted sum of its two
//!    scores; a node that is missing from a ranking scores 0 there.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use crate::{Opener, SystemError, SystemSpec};
use agent_ground::words::{fold, for_each_reference_word};
use agent_index::IndexedBase;
use agent_kb::{Combine, Scores, answer::Explanation};
use agent_retrieve::{
    Answer, Baseline, Detail, RetrieveError, Retriever, System, check_query, rank_explanation,
    rank_in_list,
};

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "prf",
    arguments: "[=DOCUMENTS,TERMS,WEIGHT][:SYSTEM]",
    summary: "BM25 with words of the first documents of another system (pseudo-relevance feedback) \
              [default: 3,10,0.3 and bm25+names]",
    needs: &[],
    open,
};

/// Maximum number of documents that are assumed to be relevant, and of words that are added.
const MAX_COUNT: usize = 100;
/// Maximum length in bytes of an added word, so that all added words fit into a query.
const MAX_WORD_BYTES: usize = 64;
/// Minimum number of nodes that are retrieved for each of the two rankings.
const MIN_SUMMED: usize = 1_000;

/// Parameters of pseudo-relevance feedback.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FeedbackSettings {
    /// Number of documents that are assumed to be relevant.
    documents: usize,
    /// Maximum number of added words.
    terms: usize,
    /// Weight of the ranking by the added words, in `0..=1`; the ranking by the query has the rest.
    weight: f32,
}

impl Default for FeedbackSettings {
    fn default() -> Self {
        Self { documents: 3, terms: 10, weight: 0.3 }
    }
}

impl FeedbackSettings {
    /// Parses a text of the form `DOCUMENTS,TERMS,WEIGHT`; `None` if it is invalid.
    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split(',');
        let count = |text: &str| text.parse().ok().filter(|n| (1..=MAX_COUNT).contains(n));
        let (documents, terms) = (count(numbers.next()?)?, count(numbers.next()?)?);
        let weight = numbers.next()?.parse().ok().filter(|weight| (0.0..=1.0).contains(weight))?;
        numbers.next().is_none().then_some(Self { documents, terms, weight })
    }
}

/// Splits arguments into the numbers, with their leading `=`, and the name of the inner system;
/// `bm25+names` if they name none.
pub(super) fn parts(arguments: &str) -> (&str, &str) {
    arguments.split_once(':').unwrap_or((arguments, "bm25+names"))
}

fn open(arguments: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let (numbers, first) = parts(arguments);
    let settings = match numbers.strip_prefix('=') {
        None => FeedbackSettings::default(),
        Some(numbers) => FeedbackSettings::read(numbers).ok_or_else(|| {
            SPEC.wrong(arguments, "needs two numbers from 1 to 100 and a weight from 0 to 1")
        })?,
    };
    let base = opener.base.clone();
    let lexical = Baseline::new(base.clone(), System::Bm25);
    Ok(Box::new(Feedback { base, first: opener.inner(first)?, lexical, settings }))
}

/// BM25 by the query and by words from the first documents of another system.
struct Feedback {
    base: Arc<IndexedBase>,
    first: Box<dyn Retriever>,
    lexical: Baseline,
    settings: FeedbackSettings,
}

impl Feedback {
    /// Returns the words to search in addition to the query, the word with the largest weight
    /// first; words of equal weight are in alphabetical order.
    fn words(&self, query: &str) -> Result<Vec<String>, RetrieveError> {
        let mut own = HashSet::new();
        for_each_reference_word(query, |word| {
            own.insert(word.to_owned());
        });
        let mut weights = BTreeMap::<String, f32>::new();
        for (node, _) in self.first.retrieve(query, self.settings.documents)? {
            let mut counts = BTreeMap::<String, u32>::new();
            for_each_reference_word(self.base.kb.text(node), |word| {
                *counts.entry(word.to_owned()).or_default() += 1;
            });
            let length: u32 = counts.values().sum();
            for (word, count) in counts {
                if !own.contains(&word) && word.len() <= MAX_WORD_BYTES {
                    let gives = count as f32 / length as f32 * self.idf(&word);
                    *weights.entry(word).or_default() += gives;
                }
            }
        }
        let mut words: Vec<(String, f32)> = weights.into_iter().filter(|w| w.1 > 0.0).collect();
        // Stable: ties stay ordered by word.
        words.sort_by(|a, b| b.1.total_cmp(&a.1));
        words.truncate(self.settings.terms);
        Ok(words.into_iter().map(|word| word.0).collect())
    }

    /// Returns the inverse document frequency of a word's stem; 0 if the stem is not indexed.
    fn idf(&self, word: &str) -> f32 {
        let folded = fold(word);
        let stem = self.base.stems.stem(&folded);
        self.base.terms.stem_id(&stem).map_or(0.0, |stem| self.base.terms.idf(stem))
    }

    /// Searches a text with BM25 for `k` nodes, but at least [`MIN_SUMMED`]. Returns the scores,
    /// divided by the best score; none for an empty text.
    fn search(&self, text: &str, k: usize) -> Result<Scores, RetrieveError> {
        if text.is_empty() {
            return Ok(Scores::default());
        }
        Ok(Scores::new(self.lexical.retrieve(text, k.max(MIN_SUMMED))?).normalized())
    }
}

impl Retriever for Feedback {
    fn name(&self) -> String {
        let FeedbackSettings { documents, terms, weight } = self.settings;
        format!("{}={documents},{terms},{weight}:{}", SPEC.name, self.first.name())
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let words = self.words(query)?.join(" ");
        let asked = self.search(query, k)?;
        let added = self.search(&words, k)?;
        let [by_query, by_words] = [1.0 - self.settings.weight, self.settings.weight];
        let sum = asked.scale(by_query).combine(&added.scale(by_words), Combine::Sum);
        let mut ranking = sum.ranking();
        ranking.truncate(k);
        let lists = match detail.explained_count {
            0 => Vec::new(),
            _ => vec![("query", by_query, asked.ranking()), ("added", by_words, added.ranking())],
        };
        let explained = |at, node, score| {
            let parts = lists.iter().map(|(name, weight, list)| {
                rank_in_list(name, list, node).with([Explanation::new("weight", *weight)])
            });
            let text = if words.is_empty() { "none" } else { &words };
            rank_explanation(&self.name(), at, score)
                .with(parts)
                .with([Explanation::new("added words", text)])
        };
        Ok(Answer::with_explanations(ranking, detail, explained))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_within_their_bounds() {
        let read = FeedbackSettings { documents: 5, terms: 20, weight: 0.5 };
        assert_eq!(FeedbackSettings::read("5,20,0.5"), Some(read));
        for wrong in ["", "5", "5,20", "0,20,0.5", "5,101,0.5", "5,20,1.1", "5,20,nan", "5,2,0.5,1"]
        {
            assert_eq!(FeedbackSettings::read(wrong), None, "{wrong}");
        }
    }
}
