//! Mentions of nodes in questions: the name as written, in lower case, in part, or with a typo. The
//! mentioned name or part of a name identifies the node within its type.

use std::{cmp::Reverse, collections::HashMap};

use agent_dataset::sample::random::Stream;
use agent_ground::words::{is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::{NodeId, TypeId};

/// Minimum number of words of a long name, which questions rarely write out.
const LONG_NAME: usize = 6;
/// Maximum number of words of a mentioned name; of longer names, only this many words are indexed.
const MAX_WORDS: usize = 40;
/// Numbers of rare words that may stand for a long name; each mention draws one number.
const PART: [usize; 3] = [3, 4, 5];

/// Index of the names of all nodes of one type.
struct NameIndex {
    /// Number of nodes by folded name (in lower case, without accents and punctuation).
    whole: HashMap<String, u32>,
    /// Nodes whose names have a word with a given stem, ascending.
    stems: HashMap<String, Vec<NodeId>>,
}

/// Indexes of the names of a base, one per type, built on demand.
pub(super) struct Mentions<'a> {
    base: &'a IndexedBase,
    indexes: HashMap<TypeId, NameIndex>,
}

/// Returns the folded words of a text (in lower case, without accents and punctuation), joined by
/// spaces.
pub(super) fn folded(text: &str) -> String {
    name_words(text).map(|(_, word)| word.into_owned()).collect::<Vec<_>>().join(" ")
}

impl<'a> Mentions<'a> {
    pub(super) fn new(base: &'a IndexedBase) -> Mentions<'a> {
        Mentions { base, indexes: HashMap::new() }
    }

    fn index(&mut self, kind: TypeId) -> &NameIndex {
        let base = self.base;
        self.indexes.entry(kind).or_insert_with(|| {
            let mut index = NameIndex { whole: HashMap::new(), stems: HashMap::new() };
            for &node in base.kb.nodes_of_type(kind) {
                let name = base.kb.name(node);
                *index.whole.entry(folded(name)).or_default() += 1;
                for (_, word) in name_words(name).take(MAX_WORDS) {
                    let nodes = index.stems.entry(base.stems.stem(&word).into_owned()).or_default();
                    if nodes.last() != Some(&node) {
                        nodes.push(node);
                    }
                }
            }
            index
        })
    }

    /// Returns a random mention of a node; `None` if its name is shared, too long, too short, or
    /// has quotes or braces.
    pub(super) fn mention(&mut self, node: NodeId, stream: &mut Stream) -> Option<String> {
        let base = self.base;
        let name = base.kb.name(node).trim();
        let index = self.index(base.kb.node_type(node));
        let n_words = name_words(name).count();
        let unique = index.whole.get(&folded(name)) == Some(&1);
        let sayable = (1..=MAX_WORDS).contains(&n_words) && !name.contains(['"', '{', '}', '\n']);
        if !unique || !sayable || name.chars().nth(1).is_none() {
            return None;
        }
        let named = Named { base, index, node, name };
        let draw = stream.below(100);
        if n_words >= LONG_NAME {
            let part = match draw {
                0..=24 => None,
                25..=59 => named.prefix(stream),
                _ => named.rare_words(stream),
            };
            return Some(part.unwrap_or_else(|| format!("\"{name}\"")));
        }
        Some(match draw {
            50..=79 => name.to_lowercase(),
            80..=89 if n_words > 2 => named.shortened(stream).unwrap_or_else(|| name.to_owned()),
            90..=94 => stream.with_typo(name),
            _ => name.to_owned(),
        })
    }
}

/// A node with its name, among the names of all nodes of its type.
struct Named<'a> {
    base: &'a IndexedBase,
    index: &'a NameIndex,
    node: NodeId,
    name: &'a str,
}

impl Named<'_> {
    /// Returns the nodes whose names have a word with the stem of this word, ascending.
    fn holders(&self, word: &str) -> Option<&Vec<NodeId>> {
        self.index.stems.get(self.base.stems.stem(word).as_ref())
    }

    /// Whether the name of the node, and of no other node in the index, has all the words, compared
    /// by stem.
    fn is_identified_by(&self, words: &[String]) -> bool {
        let lists: Option<Vec<&Vec<NodeId>>> =
            words.iter().map(|word| self.holders(word)).collect();
        lists.is_some_and(|lists| in_all(lists).eq([self.node]))
    }

    /// Returns the first 4 to 6 words of the name, or fewer so that at least one word is left out:
    /// as written, in lower case or in quotes. `None` if these words do not identify the node.
    fn prefix(&self, stream: &mut Stream) -> Option<String> {
        let words: Vec<_> = name_words(self.name).collect();
        let n = stream.pick(&[4usize, 5, 6]).min(words.len().saturating_sub(1));
        let taken = words.get(..n)?;
        let words: Vec<String> = taken.iter().map(|(_, word)| word.to_string()).collect();
        let end = taken.last()?.0.end;
        let text = self.name.get(..end)?.to_owned();
        self.is_identified_by(&words).then(|| match stream.below(3) {
            0 => text.to_lowercase(),
            1 => format!("\"{text}\""),
            _ => text,
        })
    }

    /// Returns the rarest 3 to 5 words of the name, in the order of the name; `None` if these words
    /// do not identify the node.
    fn rare_words(&self, stream: &mut Stream) -> Option<String> {
        let mut words: Vec<(usize, String)> = name_words(self.name)
            .enumerate()
            .filter(|(_, (_, word))| !is_question_word(word) && word.chars().nth(2).is_some())
            .map(|(index, (_, word))| (index, word.into_owned()))
            .collect();
        words.sort_by_key(|(index, word)| (self.holders(word).map_or(0, Vec::len), *index));
        words.truncate(stream.pick(&PART));
        words.sort_unstable();
        words.dedup_by(|a, b| a.1 == b.1);
        let words: Vec<String> = words.into_iter().map(|(_, word)| word).collect();
        self.is_identified_by(&words).then(|| words.join(" "))
    }

    /// Returns the name without one random word; `None` if the other words do not identify the
    /// node.
    fn shortened(&self, stream: &mut Stream) -> Option<String> {
        let mut words: Vec<&str> = self.name.split_whitespace().collect();
        words.remove(stream.below(words.len()));
        let text = words.join(" ");
        let words: Vec<String> = name_words(&text).map(|(_, word)| word.into_owned()).collect();
        self.is_identified_by(&words).then_some(text)
    }
}

/// Returns the nodes that are in all of the ascending lists, ascending; none without a list.
pub(super) fn in_all(mut lists: Vec<&Vec<NodeId>>) -> impl Iterator<Item = NodeId> {
    lists.sort_by_key(|list| Reverse(list.len()));
    let shortest = lists.pop().into_iter().flatten().copied();
    shortest.filter(move |node| lists.iter().all(|list| list.binary_search(node).is_ok()))
}
