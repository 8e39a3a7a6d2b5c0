//! Textual properties without a model: draws a few words of a gold answer's document that narrow
//! the candidates, and returns the candidates that have all these words.
//!
//! A word must occur in at most half of the candidates. It must also occur in at least 5 nodes of
//! the type, because a rarer word would identify the answer without any relation. A property is one
//! such word, or two adjacent words of a field. Answers are the candidates whose documents have the
//! stems of all words. They are correct by construction, provided that a word has the same meaning
//! in all documents.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::mention::in_all;
use agent_dataset::sample::random::Stream;
use agent_ground::words::{is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::{NodeId, TypeId};

/// Minimum number of nodes of the type whose documents have a word, for the word to be a property.
const MIN_SHARING: usize = 5;
/// Maximum share of the nodes of the type whose documents have a word, for the word to be a
/// property; more frequent words narrow too little.
const MAX_SHARING: f64 = 0.15;
/// Minimum number of letters of a word in a property.
const MIN_LETTERS: usize = 4;
/// Maximum number of words that are read from each field.
const MAX_READ: usize = 1_000;
/// Maximum number of draws of properties for one gold answer.
const DRAWS: usize = 8;
/// Number of random words of a document that are drawn at a time; the rarest of them is used.
const COMPARED: usize = 3;

/// A few words of a gold answer's document that the documents of all the question's answers
/// contain.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Property {
    /// The words, as written in the question; `text` in the reply of a model.
    #[serde(rename(deserialize = "text"))]
    pub words: String,
    /// Name of the field that holds the words; with a model, the source that the model names.
    pub source: String,
    /// Ids of the stems of the words; the document of every answer has all of them. Empty if a
    /// model gave the property.
    #[serde(skip)]
    pub stems: Vec<u32>,
}

/// A word of a document that may become a property.
struct Word {
    text: String,
    stem: u32,
    /// Number of nodes of the type whose documents have the word.
    n_holders: usize,
    field: String,
    /// Position of the word in the document; adjacent words of a field have successive positions.
    position: usize,
}

/// Draws properties. Holds, for each type and stem, the nodes whose documents have the stem; these
/// lists are read on demand.
pub(super) struct Properties<'a> {
    base: &'a IndexedBase,
    holders: HashMap<TypeId, HashMap<u32, Vec<NodeId>>>,
    /// Stems of the words in the names of types, relations and fields; these words never become
    /// properties.
    schema: Vec<String>,
}

impl<'a> Properties<'a> {
    pub(super) fn new(base: &'a IndexedBase) -> Properties<'a> {
        let kb = &base.kb;
        let names = kb.types().iter().chain(kb.relations()).chain(kb.field_names());
        let stems = |name: &String| -> Vec<String> {
            name_words(name).map(|(_, word)| base.stems.stem(&word).into_owned()).collect()
        };
        let schema = names.flat_map(stems).collect();
        Properties { base, holders: HashMap::new(), schema }
    }

    /// Reads, for each stem, the nodes of a type whose documents have the stem, ascending.
    fn read(&mut self, kind: TypeId) {
        let base = self.base;
        self.holders.entry(kind).or_insert_with(|| {
            let mut holders: HashMap<u32, Vec<NodeId>> = HashMap::new();
            for &node in base.kb.nodes_of_type(kind) {
                for (stem, _) in base.terms.stems_of(node) {
                    holders.entry(stem).or_default().push(node);
                }
            }
            holders
        });
    }

    /// Draws properties of the gold answer; returns the properties, and the candidates that have
    /// them: 1 to `max_answers`, and fewer than all candidates. Without `candidates`, all nodes of
    /// the gold answer's type are candidates. `None` if no draw gives such a number of candidates.
    pub(super) fn narrow(
        &mut self,
        candidates: Option<&[NodeId]>,
        gold: NodeId,
        max_answers: usize,
        stream: &mut Stream,
    ) -> Option<(Vec<Property>, Vec<NodeId>)> {
        let words = self.words(gold);
        let holders = self.holders.get(&self.base.kb.node_type(gold))?;
        for _ in 0..DRAWS {
            let properties = self.draw(&words, stream);
            if properties.is_empty() {
                return None;
            }
            let stems = properties.iter().flat_map(|property| &property.stems);
            let answers = match candidates {
                Some(candidates) => self.narrowed(candidates, &stems.copied().collect::<Vec<_>>()),
                // The words of a document are rare in its type, so that they narrow all its nodes.
                None => {
                    let lists: Option<Vec<_>> = stems.map(|stem| holders.get(stem)).collect();
                    Some(in_all(lists?).collect())
                }
            };
            if let Some(answers) = answers.filter(|nodes| (1..=max_answers).contains(&nodes.len()))
            {
                return Some((properties, answers));
            }
        }
        None
    }

    /// Returns the candidates that have all stems; `None` if these are all candidates, or if any of
    /// the stems occurs in more than half of the candidates.
    fn narrowed(&self, candidates: &[NodeId], stems: &[u32]) -> Option<Vec<NodeId>> {
        let has = |node: NodeId, stem: &u32| self.base.terms.has(node, *stem);
        let narrows = |stem: &u32| {
            2 * candidates.iter().filter(|&&node| has(node, stem)).count() <= candidates.len()
        };
        if !stems.iter().all(narrows) {
            return None;
        }
        let mut answers = candidates.to_vec();
        answers.retain(|&node| stems.iter().all(|stem| has(node, stem)));
        (answers.len() < candidates.len()).then_some(answers)
    }

    /// Returns the words of a node's document that may become properties, in document order. Words
    /// of the node's name are left out if there are at least four other words.
    fn words(&mut self, node: NodeId) -> Vec<Word> {
        let base = self.base;
        let kind = base.kb.node_type(node);
        let n_nodes = base.kb.nodes_of_type(kind).len() as f64;
        self.read(kind);
        let holders = self.holders.get(&kind);
        let name = base.kb.name(node).to_lowercase();
        let mut found = Vec::new();
        let mut position = 0;
        for (field, text) in base.kb.fields(node) {
            let field = base.kb.field_name(field);
            // Words of different fields are never adjacent.
            position += 2;
            for (range, word) in name_words(text).take(MAX_READ) {
                position += 1;
                let plain = word.chars().all(char::is_alphabetic)
                    && word.chars().nth(MIN_LETTERS - 1).is_some()
                    && !is_question_word(&word);
                let Some(stem) = plain.then(|| base.stems.stem(&word).into_owned()) else {
                    continue;
                };
                let Some(id) = base.terms.stem_id(&stem) else { continue };
                let n_holders = holders.and_then(|holders| holders.get(&id)).map_or(0, Vec::len);
                let shared = n_holders >= MIN_SHARING && n_holders as f64 <= n_nodes * MAX_SHARING;
                if shared && !self.schema.contains(&stem) {
                    let text = spelled(&text[range]);
                    let field = field.to_owned();
                    found.push(Word { text, stem: id, n_holders, field, position });
                }
            }
        }
        // Words of the name are the last resort: a question must not name its answer.
        let (named, others): (Vec<Word>, Vec<Word>) =
            found.into_iter().partition(|word| name.contains(&word.text.to_lowercase()));
        if others.len() >= 4 { others } else { others.into_iter().chain(named).collect() }
    }

    /// Draws properties with at most three stems in total; two adjacent words may form one
    /// property. Empty if fewer than two stems are found.
    fn draw(&self, words: &[Word], stream: &mut Stream) -> Vec<Property> {
        let wanted = if stream.percent(60) { 2 } else { 3 };
        let mut properties: Vec<Property> = Vec::new();
        let n_stems = |properties: &[Property]| {
            properties.iter().map(|property| property.stems.len()).sum::<usize>()
        };
        for _ in 0..4 * wanted {
            if words.is_empty() || n_stems(&properties) >= wanted {
                break;
            }
            let indexes = [(); COMPARED].map(|()| stream.below(words.len()));
            let n_holders =
                |index: &usize| words.get(*index).map_or(usize::MAX, |word| word.n_holders);
            let index = indexes.into_iter().min_by_key(n_holders).unwrap_or_default();
            let pair = stream.percent(60) && n_stems(&properties) + 2 <= wanted;
            let Some(first) = words.get(index) else { break };
            let taken =
                |stem: u32| properties.iter().any(|property| property.stems.contains(&stem));
            if taken(first.stem) {
                continue;
            }
            let mut property = Property {
                words: first.text.clone(),
                source: first.field.clone(),
                stems: vec![first.stem],
            };
            let second = words.get(index + 1).filter(|second| {
                pair && second.position == first.position + 1
                    && second.stem != first.stem
                    && !taken(second.stem)
            });
            if let Some(second) = second {
                property.words = format!("{} {}", property.words, second.text);
                property.stems.push(second.stem);
            }
            properties.push(property);
        }
        if n_stems(&properties) >= 2 { properties } else { Vec::new() }
    }
}

/// Returns the word in lower case, or unchanged if it is all upper case.
fn spelled(word: &str) -> String {
    if word.chars().all(char::is_uppercase) { word.to_owned() } else { word.to_lowercase() }
}
