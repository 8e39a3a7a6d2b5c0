//! Textual properties without a model: a few words of a gold answer's document that narrow the
//! candidates, and which candidates have them all.
//!
//! A word is held by at most half of the candidates and by at least 5 nodes of the type: fewer
//! would name the answer without any relation. A property is one such word, or two that stand side
//! by side in a field. Answers are the candidates whose documents have every stem, so that they are
//! right by construction, as far as a word means the same everywhere.
//!
//! Must not know: relations, how questions are worded.

use std::collections::HashMap;

use agent_dataset::sample::random::Stream;
use agent_ground::words::{is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::{NodeId, TypeId};

/// Nodes of the type that hold a word at least.
const MIN_SHARING: usize = 5;
/// Share of the nodes of a type that hold a word at most: more says next to nothing.
const MAX_SHARING: f64 = 0.15;
/// Letters of a word at least.
const MIN_LETTERS: usize = 4;
/// Words of a document that are looked at.
const MAX_READ: usize = 1_000;
/// Draws of words for one gold answer.
const DRAWS: usize = 8;
/// Places of a document of which the one with the rarest word is taken: telling words come first.
const COMPARED: usize = 3;

/// Words of a gold answer's document.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Property {
    /// As a question says them.
    pub words: String,
    /// The field they stand in.
    pub source: String,
    /// Their stems, which every answer has.
    #[serde(skip)]
    pub stems: Vec<u32>,
}

/// A word of a document that may be a property.
struct Word {
    text: String,
    stem: u32,
    /// Nodes of the type that hold it.
    held: usize,
    field: String,
    /// Its place, so that words side by side are known.
    at: usize,
}

/// Which nodes of each type hold each stem; read once for each type.
pub(super) struct Properties<'a> {
    base: &'a IndexedBase,
    holders: HashMap<TypeId, HashMap<u32, Vec<NodeId>>>,
    /// Stems of the names of types, relations and fields, which are no properties.
    schema: Vec<String>,
}

impl<'a> Properties<'a> {
    /// Over one base.
    pub(super) fn new(base: &'a IndexedBase) -> Properties<'a> {
        let kb = &base.kb;
        let names = kb.types().iter().chain(kb.relations()).chain(kb.field_names());
        let stems = |name: &String| -> Vec<String> {
            name_words(name).map(|(_, word)| base.stems.stem(&word).into_owned()).collect()
        };
        let schema = names.flat_map(stems).collect();
        Properties { base, holders: HashMap::new(), schema }
    }

    /// The nodes of a type by stem, ascending.
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

    /// Properties of one of the candidates, a gold answer, with the candidates that have them; none
    /// where no few words leave 1 to `most` of them, and fewer than there were.
    pub(super) fn narrow(
        &mut self,
        candidates: &[NodeId],
        gold: NodeId,
        most: usize,
        stream: &mut Stream,
    ) -> Option<(Vec<Property>, Vec<NodeId>)> {
        let words = self.words(gold);
        for _ in 0..DRAWS {
            let properties = self.draw(&words, stream);
            if properties.is_empty() {
                return None;
            }
            let stems = || properties.iter().flat_map(|property| &property.stems);
            let held = |stem: u32| {
                let having = candidates.iter().filter(|&&one| self.base.terms.has(one, stem));
                2 * having.count() <= candidates.len()
            };
            if !stems().all(|&stem| held(stem)) {
                continue;
            }
            let has_all = |node: &&NodeId| stems().all(|&stem| self.base.terms.has(**node, stem));
            let answers: Vec<NodeId> = candidates.iter().filter(has_all).copied().collect();
            if (1..=most).contains(&answers.len()) && answers.len() < candidates.len() {
                return Some((properties, answers));
            }
        }
        None
    }

    /// The same over all nodes of the gold answer's type.
    pub(super) fn narrow_type(
        &mut self,
        gold: NodeId,
        most: usize,
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
            if (1..=most).contains(&answers.len()) {
                return Some((properties, answers));
            }
        }
        None
    }

    /// The words of a document that may be properties, in order.
    fn words(&mut self, node: NodeId) -> Vec<Word> {
        let base = self.base;
        let kind = base.kb.node_type(node);
        let n_nodes = base.kb.nodes_of_type(kind).len() as f64;
        self.read(kind);
        let holders = self.holders.get(&kind);
        let name = base.kb.name(node).to_lowercase();
        let mut found = Vec::new();
        let mut at = 0;
        for (field, text) in base.kb.fields(node) {
            let field = base.kb.field_name(field);
            // A field that holds the name says nothing else.
            at += 2;
            for (range, word) in name_words(text).take(MAX_READ) {
                at += 1;
                let plain = word.chars().all(char::is_alphabetic)
                    && word.chars().nth(MIN_LETTERS - 1).is_some()
                    && !is_question_word(&word);
                let Some(stem) = plain.then(|| base.stems.stem(&word).into_owned()) else {
                    continue;
                };
                let Some(id) = base.terms.stem_id(&stem) else { continue };
                let held = holders.and_then(|holders| holders.get(&id)).map_or(0, Vec::len);
                let shared = held >= MIN_SHARING && held as f64 <= n_nodes * MAX_SHARING;
                if shared && !self.schema.contains(&stem) {
                    let text = spelled(&text[range]);
                    found.push(Word { text, stem: id, held, field: field.to_owned(), at });
                }
            }
        }
        // Words of the name are the last resort: a question must not name its answer.
        let (named, others): (Vec<Word>, Vec<Word>) =
            found.into_iter().partition(|word| name.contains(&word.text.to_lowercase()));
        if others.len() >= 4 { others } else { others.into_iter().chain(named).collect() }
    }

    /// Two or three stems: words side by side are one property.
    fn draw(&self, words: &[Word], stream: &mut Stream) -> Vec<Property> {
        let wanted = if stream.percent(60) { 2 } else { 3 };
        let mut properties: Vec<Property> = Vec::new();
        let n_stems =
            |properties: &[Property]| properties.iter().map(|one| one.stems.len()).sum::<usize>();
        for _ in 0..4 * wanted {
            if words.is_empty() || n_stems(&properties) >= wanted {
                break;
            }
            let places = [(); COMPARED].map(|()| stream.below(words.len()));
            let held = |place: &usize| words.get(*place).map_or(usize::MAX, |word| word.held);
            let place = places.into_iter().min_by_key(held).unwrap_or_default();
            let pair = stream.percent(60) && n_stems(&properties) + 2 <= wanted;
            let Some(first) = words.get(place) else { break };
            let taken = |stem: u32| properties.iter().any(|one| one.stems.contains(&stem));
            if taken(first.stem) {
                continue;
            }
            let mut made = Property {
                words: first.text.clone(),
                source: first.field.clone(),
                stems: vec![first.stem],
            };
            let second = words.get(place + 1).filter(|second| {
                pair && second.at == first.at + 1
                    && second.stem != first.stem
                    && !taken(second.stem)
            });
            if let Some(second) = second {
                made.words = format!("{} {}", made.words, second.text);
                made.stems.push(second.stem);
            }
            properties.push(made);
        }
        if n_stems(&properties) >= 2 { properties } else { Vec::new() }
    }
}

/// In small letters, unless it is written in capitals throughout.
fn spelled(word: &str) -> String {
    match word.chars().all(char::is_uppercase) {
        true => word.to_owned(),
        false => word.to_lowercase(),
    }
}
