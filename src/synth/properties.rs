//! Textual properties without a model: a few words of a gold answer's document that narrow the
//! candidates, and the candidates that have them all.
//!
//! A word occurs in at most half of the candidates and in at least 5 nodes of the type: a rarer
//! word would identify the answer without any relation. A property is one such word, or two
//! adjacent ones in a field. Answers are the candidates whose documents have every stem, so they
//! are correct by construction, provided that a word has the same meaning in all documents.

use std::collections::HashMap;

use agent_dataset::sample::random::Stream;
use agent_ground::words::{is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::{NodeId, TypeId};

/// Minimum number of nodes of the type that have a word of a property.
const MIN_SHARING: usize = 5;
/// Maximum share of the nodes of a type that have a word of a property; commoner words narrow too
/// little.
const MAX_SHARING: f64 = 0.15;
/// Minimum number of letters of a word.
const MIN_LETTERS: usize = 4;
/// Maximum number of words read of a field.
const MAX_READ: usize = 1_000;
/// Draws of words for one gold answer.
const DRAWS: usize = 8;
/// Number of random words of a document from which the rarest is taken.
const COMPARED: usize = 3;

/// Words of a gold answer's document.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Property {
    /// The words, as written in a question.
    pub words: String,
    /// The field of the words.
    pub source: String,
    /// Stems of the words; every answer has them. Empty for properties of a model.
    #[serde(skip)]
    pub stems: Vec<u32>,
}

/// A word of a document that may be a property.
struct Word {
    text: String,
    stem: u32,
    /// Number of nodes of the type with the word.
    n_holders: usize,
    field: String,
    /// Its position, to detect adjacent words.
    position: usize,
}

/// Nodes of each type by stem, read on demand.
pub(super) struct Properties<'a> {
    base: &'a IndexedBase,
    holders: HashMap<TypeId, HashMap<u32, Vec<NodeId>>>,
    /// Stems of the names of types, relations and fields, which are never properties.
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

    /// Reads the nodes of a type by stem, ascending.
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

    /// Returns properties of the gold answer, with the candidates that have them: 1 to
    /// `max_answers`, and fewer than all. None if no draw of words gives such a result.
    pub(super) fn narrow(
        &mut self,
        candidates: &[NodeId],
        gold: NodeId,
        max_answers: usize,
        stream: &mut Stream,
    ) -> Option<(Vec<Property>, Vec<NodeId>)> {
        let words = self.words(gold);
        for _ in 0..DRAWS {
            let properties = self.draw(&words, stream);
            if properties.is_empty() {
                return None;
            }
            let stems = || properties.iter().flat_map(|property| &property.stems);
            let narrows = |stem: u32| {
                let holders = candidates.iter().filter(|&&node| self.base.terms.has(node, stem));
                2 * holders.count() <= candidates.len()
            };
            if !stems().all(|&stem| narrows(stem)) {
                continue;
            }
            let has_all = |node: &&NodeId| stems().all(|&stem| self.base.terms.has(**node, stem));
            let answers: Vec<NodeId> = candidates.iter().filter(has_all).copied().collect();
            if (1..=max_answers).contains(&answers.len()) && answers.len() < candidates.len() {
                return Some((properties, answers));
            }
        }
        None
    }

    /// As [`Self::narrow`], over all nodes of the gold answer's type.
    pub(super) fn narrow_type(
        &mut self,
        gold: NodeId,
        max_answers: usize,
        stream: &mut Stream,
    ) -> Option<(Vec<Property>, Vec<NodeId>)> {
        let words = self.words(gold);
        for _ in 0..DRAWS {
            let properties = self.draw(&words, stream);
            let holders = self.holders.get(&self.base.kb.node_type(gold))?;
            let stems = properties.iter().flat_map(|property| &property.stems);
            let lists: Option<Vec<&Vec<NodeId>>> = stems.map(|stem| holders.get(stem)).collect();
            let mut lists = lists?;
            lists.sort_by_key(|list| list.len());
            let (first, rest) = lists.split_first()?;
            let in_all = |node: &&NodeId| rest.iter().all(|list| list.binary_search(node).is_ok());
            let answers: Vec<NodeId> = first.iter().filter(in_all).copied().collect();
            if (1..=max_answers).contains(&answers.len()) {
                return Some((properties, answers));
            }
        }
        None
    }

    /// Returns the words of a document that may be properties, in order; words of the name only if
    /// there are fewer than four others.
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

    /// Draws properties with two or three stems in total; adjacent words may form one property.
    /// Empty if there are too few words.
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

/// Returns the word in lower case, unless it is all upper case.
fn spelled(word: &str) -> String {
    match word.chars().all(char::is_uppercase) {
        true => word.to_owned(),
        false => word.to_lowercase(),
    }
}
