//! Mentions of nodes in questions: the name as written, in lower case, in part, or with a typo. The
//! mentioned name or part of a name identifies the node within its type.

use std::collections::HashMap;

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
        let draw = stream.below(100);
        if n_words >= LONG_NAME {
            let part = match draw {
                0..=24 => Some(format!("\"{name}\"")),
                25..=59 => name_prefix(base, index, node, name, stream),
                _ => rare_words(base, index, node, name, stream),
            };
            return Some(part.unwrap_or_else(|| format!("\"{name}\"")));
        }
        Some(match draw {
            0..=49 => name.to_owned(),
            50..=79 => name.to_lowercase(),
            80..=89 if n_words > 2 => {
                shortened(base, index, node, name, stream).unwrap_or_else(|| name.to_owned())
            }
            90..=94 => with_typo(name, stream),
            _ => name.to_owned(),
        })
    }
}

/// Whether the name of `node`, and of no other node in the index, has all the words, compared by
/// stem.
fn identifies(base: &IndexedBase, index: &NameIndex, words: &[String], node: NodeId) -> bool {
    let lists: Option<Vec<&Vec<NodeId>>> =
        words.iter().map(|word| index.stems.get(base.stems.stem(word).as_ref())).collect();
    let Some(mut lists) = lists else { return false };
    lists.sort_by_key(|list| list.len());
    let Some((first, rest)) = lists.split_first() else { return false };
    let in_all = |node: &&NodeId| rest.iter().all(|list| list.binary_search(node).is_ok());
    first.iter().filter(in_all).eq([&node])
}

/// Returns the first 4 to 6 words of a name, or fewer so that at least one word is left out: as
/// written, in lower case or in quotes. `None` if these words do not identify the node.
fn name_prefix(
    base: &IndexedBase,
    index: &NameIndex,
    node: NodeId,
    name: &str,
    stream: &mut Stream,
) -> Option<String> {
    let words: Vec<_> = name_words(name).collect();
    let n = stream.pick(&[4usize, 5, 6]).min(words.len().saturating_sub(1));
    let taken = words.get(..n)?;
    let words: Vec<String> = taken.iter().map(|(_, word)| word.to_string()).collect();
    let end = taken.last()?.0.end;
    let text = name.get(..end)?.to_owned();
    identifies(base, index, &words, node).then(|| match stream.below(3) {
        0 => text.to_lowercase(),
        1 => format!("\"{text}\""),
        _ => text,
    })
}

/// Returns the rarest 3 to 5 words of a name, in the order of the name; `None` if these words do
/// not identify the node.
fn rare_words(
    base: &IndexedBase,
    index: &NameIndex,
    node: NodeId,
    name: &str,
    stream: &mut Stream,
) -> Option<String> {
    let mut words: Vec<(usize, String)> = name_words(name)
        .enumerate()
        .filter(|(_, (_, word))| !is_question_word(word) && word.chars().nth(2).is_some())
        .map(|(index, (_, word))| (index, word.into_owned()))
        .collect();
    let holders = |word: &str| index.stems.get(base.stems.stem(word).as_ref()).map_or(0, Vec::len);
    words.sort_by_key(|(index, word)| (holders(word), *index));
    words.truncate(stream.pick(&PART));
    words.sort_unstable();
    words.dedup_by(|a, b| a.1 == b.1);
    let words: Vec<String> = words.into_iter().map(|(_, word)| word).collect();
    identifies(base, index, &words, node).then(|| words.join(" "))
}

/// Returns a name without one random word; `None` if the other words do not identify the node.
fn shortened(
    base: &IndexedBase,
    index: &NameIndex,
    node: NodeId,
    name: &str,
    stream: &mut Stream,
) -> Option<String> {
    let mut words: Vec<String> = name.split_whitespace().map(str::to_owned).collect();
    words.remove(stream.below(words.len()));
    let text = words.join(" ");
    let words: Vec<String> = name_words(&text).map(|(_, word)| word.into_owned()).collect();
    identifies(base, index, &words, node).then_some(text)
}

/// Swaps two adjacent lower-case letters inside a word of a name; returns the name unchanged if
/// there are none.
fn with_typo(name: &str, stream: &mut Stream) -> String {
    let mut letters: Vec<char> = name.chars().collect();
    let is_inside = |index: usize| {
        let around = letters.get(index - 1..index + 3).unwrap_or_default();
        around.len() == 4
            && around.iter().all(|letter| letter.is_ascii_lowercase())
            && letters.get(index) != letters.get(index + 1)
    };
    let indexes: Vec<usize> = (1..letters.len()).filter(|&index| is_inside(index)).collect();
    if !indexes.is_empty() {
        let index = stream.pick(&indexes);
        letters.swap(index, index + 1);
    }
    letters.into_iter().collect()
}
