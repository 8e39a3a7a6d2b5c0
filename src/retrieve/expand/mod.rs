//! Query expansion: appends likely answer texts to the query, then searches with both. The texts
//! are found documents, or a language model writes them; KAR gives the model the graph context of
//! the linked entities.
//!
//! | method | source | input of the model | requests |
//! | --- | --- | --- | --- |
//! | PRF | Rocchio 1971, as blind feedback | none: the first documents themselves are appended | 0 |
//! | HyDE | Gao et al. 2023 | the query | 1 |
//! | RAR | Shen et al. 2024 | the query and the first documents | 1 |
//! | AGR | Chen et al. 2024 | the query, its own keywords and analysis, documents found with its drafts | 5 |
//! | KAR | Xia et al. 2025 | the query, its entities, and filtered neighbours | 2 |
//!
//! The model also receives the structure of the base. The expanded query is the query and the
//! texts, separated by blank lines. Texts share the remaining space equally, up to the 256 words
//! that a lexical search reads, or up to the window of the encoder of a dense search. With found
//! documents (PRF), the query is either repeated to fill half of the words, because relevance
//! models give it half of the weight (Abdul-Jaleel et al. 2004), or written once, as in the KAR
//! paper ([`QueryShare`]). docs/expansion.md lists the points that the papers leave open.
//!
//! A [`Writer`] takes replies and nodes from [`Sources`], which a retriever and a program's tool
//! implement differently. It does not depend on the correct answers, on the provider of the model
//! or on how nodes are searched.

mod boost;
mod graph;
mod write;

pub use self::{
    boost::{Boost, GraphBoost},
    graph::{Filter, Neighborhood, relation_in_words},
    write::{
        ANALYZE, GENERATE, KEYWORDS, Method, NO_GRAPH, PARSE, REFINE, Sources, TextPlan,
        WriteError, Writer,
    },
};
use crate::{MAX_QUERY_BYTES, Ranking};
use agent_embed::Embedder;
use agent_ground::words::for_each_reference_word;
use agent_index::{IndexedBase, postings::MAX_QUERY_WORDS};
use agent_kb::{NodeId, answer::Explanation};

/// Default number of texts that expand a query.
pub const TEXTS: usize = 3;

/// Separator between the query and the texts, and between the texts.
const SEPARATOR: &str = "\n\n";

/// Name of [`QueryShare::Once`] on the command line.
pub const ONCE: &str = "once";

/// Name of [`TextPlan::sampled`] on the command line.
pub const SAMPLES: &str = "samples";

/// Share of the query itself in an expanded query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryShare {
    /// The query is written once.
    Once,
    /// The query is repeated as often as it fits into half of the words.
    Half,
}

/// The texts that expand a query, and their explanation.
#[derive(Debug)]
pub struct Expansion {
    /// The texts, best first.
    pub texts: Vec<String>,
    /// Explanations of the origin of the texts, for display.
    pub explanations: Vec<Explanation>,
    share: QueryShare,
}

impl Expansion {
    /// Creates an expansion by the complete documents of found nodes: pseudo-relevance feedback.
    pub fn from_documents(base: &IndexedBase, found: &Ranking, share: QueryShare) -> Self {
        let texts = found.iter().map(|pair| base.kb.text(pair.0).to_owned()).collect();
        let explanations = found.iter().map(|pair| named(base, "document", pair.0)).collect();
        Self { texts, explanations, share }
    }

    /// Creates an expansion by texts that a model wrote; the query is written once.
    pub fn written(texts: Vec<String>, explanations: Vec<Explanation>) -> Self {
        Self { texts, explanations, share: QueryShare::Once }
    }

    /// Returns the expanded query, for a search by words or, if given, by `encoder`. With
    /// [`QueryShare::Half`], the texts are cut as for a search by words, even if `encoder` is
    /// given.
    pub fn apply(&self, query: &str, encoder: Option<&dyn Embedder>) -> String {
        if self.share == QueryShare::Once || self.texts.is_empty() {
            return expanded(query, &self.texts, encoder);
        }
        let words = MAX_QUERY_WORDS / 2 / count_words(query).max(1);
        let bytes = MAX_QUERY_BYTES / 2 / (query.len() + SEPARATOR.len());
        let repeats = words.min(bytes).max(1);
        expanded(&vec![query; repeats].join(SEPARATOR), &self.texts, None)
    }
}

/// Returns an explanation with the label `label` that holds a node's name, type and id.
fn named(base: &IndexedBase, label: &str, node: NodeId) -> Explanation {
    let kind = base.kb.type_name(base.kb.node_type(node));
    Explanation::new(label, format!("{} ({kind} {node})", base.kb.name(node)))
}

/// Appends the texts to the query, up to [`MAX_QUERY_BYTES`] bytes and [`MAX_QUERY_WORDS`] words,
/// or the tokens that the encoder reads; the texts share the remaining space equally.
fn expanded(query: &str, texts: &[String], encoder: Option<&dyn Embedder>) -> String {
    let n = texts.len().max(1);
    let window = encoder.map_or(Some(MAX_QUERY_WORDS), Embedder::window);
    let count = |text: &str| match encoder.map(|encoder| encoder.token_names(text)) {
        Some(Ok(tokens)) => tokens.len(),
        _ => count_words(text),
    };
    let limit = window.map_or(usize::MAX, |window| window.saturating_sub(count(query)) / n);
    let bytes = (MAX_QUERY_BYTES.saturating_sub(query.len()) / n).saturating_sub(SEPARATOR.len());
    let mut expanded = query.to_owned();
    for text in texts {
        let part = cut(text.trim(), limit, bytes, &count);
        if !part.is_empty() {
            expanded += SEPARATOR;
            expanded += part;
        }
    }
    expanded
}

/// Counts the words of a text as a lexical search does.
pub fn count_words(text: &str) -> usize {
    let mut n = 0;
    for_each_reference_word(text, |_| n += 1);
    n
}

/// Returns the longest prefix of a text that ends between words and has at most `bytes` bytes and
/// at most `limit` units, as `count` counts them.
fn cut<'a>(text: &'a str, limit: usize, bytes: usize, count: &dyn Fn(&str) -> usize) -> &'a str {
    let (mut end, mut left) = (0, limit);
    for part in text.split_inclusive(char::is_whitespace) {
        let count = count(part);
        if count > left || end + part.len() > bytes {
            break;
        }
        (end, left) = (end + part.len(), left - count);
    }
    text.get(..end).unwrap_or_default().trim_end()
}
