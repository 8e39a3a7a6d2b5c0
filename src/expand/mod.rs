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
//! reads: every text has an equal share. It is asked of the same system: embedded by a dense one,
//! with the counts of its words by a lexical one. docs/expansion.md has all that the papers leave
//! open.
//!
//! A reply that cannot be used leaves the query as it is, which [`Retriever::unassisted`] counts. An
//! outage, a ceiling or a stop fails the query.
//!
//! Must not know: which answers are right, how a model is reached.

mod boost;
mod graph;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;

use self::write::{Failed, Writer};
pub use self::{
    boost::{Boost, GraphBoost},
    graph::{Filter, Neighborhood, relation_in_words},
    write::{EXPAND_ROLE, Method, NO_GRAPH, asks},
};
use crate::{
    answer::Explanation,
    index::{IndexedBase, postings::MAX_QUERY_WORDS},
    infer::{Miss, Misses},
    kb::NodeId,
    retrieve::{
        Answer, Detail, MAX_QUERY_BYTES, RetrieveError, Retriever, Unassisted, Why, checked,
        place_of,
    },
    tools::Assistant,
    words::for_each_reference_word,
};

/// What stands between the query and each text.
const SEPARATOR: &str = "\n\n";

/// Asks another system an expanded query.
pub struct Expander {
    inner: Box<dyn Retriever>,
    source: Source,
    misses: Misses,
}

/// Where the texts come from.
enum Source {
    /// The first documents.
    Documents { base: Arc<IndexedBase>, n: usize },
    /// A language model.
    Model(Writer),
}

/// What a query is expanded by, and how that came about.
#[derive(Default)]
struct Expansion {
    texts: Vec<String>,
    told: Vec<Explanation>,
}

impl Expander {
    /// Appends the first `n` documents that the system finds: pseudo-relevance feedback with whole
    /// documents.
    pub fn feedback(base: Arc<IndexedBase>, inner: Box<dyn Retriever>, n: usize) -> Self {
        Self { inner, source: Source::Documents { base, n }, misses: Misses::default() }
    }

    /// Appends `n` texts that a language model writes; AGR appends the one that it refines them to.
    pub fn new(
        base: Arc<IndexedBase>,
        inner: Box<dyn Retriever>,
        assistant: Arc<Assistant>,
        method: Method,
        n: usize,
    ) -> Self {
        let writer = Writer::new(base, assistant, method, n);
        Self { inner, source: Source::Model(writer), misses: Misses::default() }
    }

    /// What the query is expanded by; nothing, and why, where a reply cannot be used.
    fn expansion(&self, query: &str) -> Result<Expansion, RetrieveError> {
        let written = match &self.source {
            Source::Documents { base, n } => {
                let found = self.inner.retrieve(query, *n)?;
                let texts = found.iter().map(|pair| base.kb.text(pair.0).to_owned()).collect();
                let told = found.iter().map(|pair| named(base, "document", pair.0)).collect();
                return Ok(Expansion { texts, told });
            }
            Source::Model(writer) => writer.write(query, &*self.inner),
        };
        match written {
            Ok(expansion) => Ok(expansion),
            Err(Failed::Unusable(reason)) => {
                self.misses.note(Miss::Unusable);
                let told = vec![Explanation::new("not expanded", reason)];
                Ok(Expansion { texts: Vec::new(), told })
            }
            Err(Failed::Other(error)) => Err(error),
        }
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

fn count_words(text: &str) -> usize {
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

impl Retriever for Expander {
    fn name(&self) -> String {
        let how = match &self.source {
            Source::Documents { n, .. } => format!("expand:prf={n}"),
            Source::Model(writer) => writer.name(),
        };
        format!("{how}:{}", self.inner.name())
    }

    /// The expansion is told with the first node that is explained; it is the same for all.
    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = checked(query)?;
        let Expansion { texts, told } = self.expansion(query)?;
        let text = expanded(query, &texts);
        let answer = self.inner.answer(&text, k, detail)?;
        let texts = texts.iter().map(|text| Explanation::new("text", one_line(text)));
        let expansion = Explanation::new("expansion", one_line(&text)).with(told).with(texts);
        let mut expansion = Some(expansion);
        let places = answer.ranking().to_vec();
        let name = self.name();
        let why = answer.why.into_iter().zip(places).enumerate().map(|(at, (why, (_, score)))| {
            let own = place_of(&name, at, score).with(expansion.take()).with([why.explanation]);
            Why { explanation: own, ..why }
        });
        Ok(Answer { why: why.collect(), ..answer })
    }

    fn category(&self, query: &str) -> Result<Option<String>, RetrieveError> {
        self.inner.category(query)
    }

    fn unassisted(&self) -> Unassisted {
        self.misses.counted().or(self.inner.unassisted())
    }
}

/// A text in one line, for people.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
