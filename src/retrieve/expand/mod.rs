//! Query expansion: a query with texts that would answer it finds more than the query alone. The
//! texts are documents that a first search found, or a language model writes them; KAR gives it what
//! the graph says of the entities that the query names.
//!
//! | method | source | what the model is given | requests |
//! | --- | --- | --- | --- |
//! | PRF | Rocchio 1971, as blind feedback | none: the first documents themselves are appended | 0 |
//! | HyDE | Gao et al. 2023 | the query | 1 |
//! | RAR | Shen et al. 2024 | the first documents too | 1 |
//! | AGR | Chen et al. 2024 | its own keywords, analysis, and documents found with what it wrote | 5 |
//! | KAR | Xia et al. 2025 | the entities of the query, and filtered neighbours | 2 |
//!
//! All are given the structure of the base. The expanded query is the query, a blank line, and the
//! texts with blank lines between them, all in at most 256 words, which is what a search by words
//! reads: every text has an equal share. Before documents that were only found the query is written
//! again until half of the words are its own, as relevance models give it half of the weight
//! (Abdul-Jaleel et al. 2004). docs/expansion.md has all that the papers leave open.
//!
//! A [`Writer`] takes replies and nodes from [`Sources`]: a system that expands for another one has
//! some, and the tool that a program calls has others.
//!
//! Must not know: which answers are right, how a model is reached, who searches with the query.

mod boost;
mod graph;
mod write;

pub use self::{
    boost::{Boost, GraphBoost},
    graph::{Filter, Neighborhood, relation_in_words},
    write::{
        ANALYZE, Failed, GENERATE, KEYWORDS, Method, NO_GRAPH, PARSE, REFINE, Sources, Writer,
    },
};
use crate::{MAX_QUERY_BYTES, Ranking};
use agent_ground::words::for_each_reference_word;
use agent_index::{IndexedBase, postings::MAX_QUERY_WORDS};
use agent_kb::{NodeId, answer::Explanation};

/// Texts of an expansion, unless it is said otherwise.
pub const TEXTS: usize = 3;

/// What stands between the query and each text.
const SEPARATOR: &str = "\n\n";

/// What a query is expanded by, and how that came about.
#[derive(Debug)]
pub struct Expansion {
    /// The texts, best first.
    pub texts: Vec<String>,
    /// Where they come from, for people.
    pub told: Vec<Explanation>,
    /// Nobody wrote the texts for the query: it has half of the words.
    found: bool,
}

impl Expansion {
    /// The documents of nodes, whole: pseudo-relevance feedback.
    pub fn of_documents(base: &IndexedBase, found: &Ranking) -> Self {
        let texts = found.iter().map(|pair| base.kb.text(pair.0).to_owned()).collect();
        let told = found.iter().map(|pair| named(base, "document", pair.0)).collect();
        Self { texts, told, found: true }
    }

    /// Texts that were written for a query.
    pub fn written(texts: Vec<String>, told: Vec<Explanation>) -> Self {
        Self { texts, told, found: false }
    }

    /// The query with the texts, as it is searched.
    pub fn of(&self, query: &str) -> String {
        if !self.found || self.texts.is_empty() {
            return expanded(query, &self.texts);
        }
        let words = MAX_QUERY_WORDS / 2 / count_words(query).max(1);
        let bytes = MAX_QUERY_BYTES / 2 / (query.len() + SEPARATOR.len());
        let often = words.min(bytes).max(1);
        expanded(&vec![query; often].join(SEPARATOR), &self.texts)
    }
}

/// A node in an explanation, as what it stands there.
fn named(base: &IndexedBase, what: &str, node: NodeId) -> Explanation {
    let kind = base.kb.type_name(base.kb.node_type(node));
    Explanation::new(what, format!("{} ({kind} {node})", base.kb.name(node)))
}

/// The query with the texts, in as many words as a search by words reads and as many bytes as a
/// query may have; every text has an equal share of what the query leaves.
fn expanded(query: &str, texts: &[String]) -> String {
    let n = texts.len().max(1);
    let words = MAX_QUERY_WORDS.saturating_sub(count_words(query)) / n;
    let bytes = (MAX_QUERY_BYTES.saturating_sub(query.len()) / n).saturating_sub(SEPARATOR.len());
    let mut expanded = query.to_owned();
    for text in texts {
        let own = cut(text.trim(), words, bytes);
        if !own.is_empty() {
            expanded += SEPARATOR;
            expanded += own;
        }
    }
    expanded
}

pub fn count_words(text: &str) -> usize {
    let mut n = 0;
    for_each_reference_word(text, |_| n += 1);
    n
}

/// The beginning of a text that ends between two words and has at most so many words and bytes.
fn cut(text: &str, words: usize, bytes: usize) -> &str {
    let (mut end, mut left) = (0, words);
    for part in text.split_inclusive(char::is_whitespace) {
        let own = count_words(part);
        if own > left || end + part.len() > bytes {
            break;
        }
        (end, left) = (end + part.len(), left - own);
    }
    text.get(..end).unwrap_or_default().trim_end()
}

/// A text in one line, for people.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
