//! How a question mentions a node: by its name as it stands, in small letters, in part, or with a
//! typo; such that it means no other node of the type.
//!
//! Must not know: relations, questions.

use std::collections::HashMap;

use agent_dataset::sample::random::Stream;
use agent_ground::words::{is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::{NodeId, TypeId};

/// Words from which a name is long: nobody writes it out.
const LONG: usize = 6;
/// Words of a name that is mentioned at most.
const MAX_WORDS: usize = 40;
/// Words of the part of a long name that is mentioned.
const PART: [usize; 3] = [3, 4, 5];

/// The names of the nodes of one type.
struct Book {
    /// Nodes by folded name.
    whole: HashMap<String, u32>,
    /// Nodes by stem of a word of their name, ascending.
    stems: HashMap<String, Vec<NodeId>>,
}

/// The names of a base, read once for each type that is mentioned.
pub(super) struct Mentions<'a> {
    base: &'a IndexedBase,
    books: HashMap<TypeId, Book>,
}

/// The words of a name, folded, with spaces.
pub(super) fn folded(text: &str) -> String {
    name_words(text).map(|(_, word)| word.into_owned()).collect::<Vec<_>>().join(" ")
}

impl<'a> Mentions<'a> {
    /// Over one base.
    pub(super) fn new(base: &'a IndexedBase) -> Mentions<'a> {
        Mentions { base, books: HashMap::new() }
    }

    fn book(&mut self, kind: TypeId) -> &Book {
        let base = self.base;
        self.books.entry(kind).or_insert_with(|| {
            let mut book = Book { whole: HashMap::new(), stems: HashMap::new() };
            for &node in base.kb.nodes_of_type(kind) {
                let name = base.kb.name(node);
                *book.whole.entry(folded(name)).or_default() += 1;
                for (_, word) in name_words(name).take(MAX_WORDS) {
                    let nodes = book.stems.entry(base.stems.stem(&word).into_owned()).or_default();
                    if nodes.last() != Some(&node) {
                        nodes.push(node);
                    }
                }
            }
            book
        })
    }

    /// A mention of a node; none where its name means another node too, or cannot be said.
    pub(super) fn of(&mut self, node: NodeId, stream: &mut Stream) -> Option<String> {
        let base = self.base;
        let name = base.kb.name(node).trim();
        let book = self.book(base.kb.node_type(node));
        let n_words = name_words(name).count();
        let unique = book.whole.get(&folded(name)) == Some(&1);
        let sayable = (1..=MAX_WORDS).contains(&n_words) && !name.contains(['"', '{', '}', '\n']);
        if !unique || !sayable || name.chars().nth(1).is_none() {
            return None;
        }
        let draw = stream.below(100);
        if n_words >= LONG {
            let part = match draw {
                0..=24 => Some(format!("\"{name}\"")),
                25..=59 => beginning(base, book, node, name, stream),
                _ => gist(base, book, node, name, stream),
            };
            return Some(part.unwrap_or_else(|| format!("\"{name}\"")));
        }
        Some(match draw {
            0..=49 => name.to_owned(),
            50..=79 => name.to_lowercase(),
            80..=89 if n_words > 2 => {
                shorter(base, book, node, name, stream).unwrap_or_else(|| name.to_owned())
            }
            90..=94 => with_typo(name, stream),
            _ => name.to_owned(),
        })
    }
}

/// Whether the words, as stems, occur together in the name of that node alone.
fn means_only(base: &IndexedBase, book: &Book, words: &[String], node: NodeId) -> bool {
    let lists: Option<Vec<&Vec<NodeId>>> =
        words.iter().map(|word| book.stems.get(base.stems.stem(word).as_ref())).collect();
    let Some(mut lists) = lists else { return false };
    lists.sort_by_key(|list| list.len());
    let Some((first, rest)) = lists.split_first() else { return false };
    let in_all = |one: &&NodeId| rest.iter().all(|list| list.binary_search(one).is_ok());
    first.iter().filter(in_all).eq([&node])
}

/// The first words of a name, as it writes them.
fn beginning(
    base: &IndexedBase,
    book: &Book,
    node: NodeId,
    name: &str,
    stream: &mut Stream,
) -> Option<String> {
    let words: Vec<_> = name_words(name).collect();
    let n = stream.pick(&[4usize, 5, 6]).min(words.len().saturating_sub(1));
    let taken = words.get(..n)?;
    let said: Vec<String> = taken.iter().map(|(_, word)| word.to_string()).collect();
    let end = taken.last()?.0.end;
    let text = name.get(..end)?.to_owned();
    means_only(base, book, &said, node).then(|| match stream.below(3) {
        0 => text.to_lowercase(),
        1 => format!("\"{text}\""),
        _ => text,
    })
}

/// A few of the telling words of a name, in its order.
fn gist(
    base: &IndexedBase,
    book: &Book,
    node: NodeId,
    name: &str,
    stream: &mut Stream,
) -> Option<String> {
    let mut words: Vec<(usize, String)> = name_words(name)
        .enumerate()
        .filter(|(_, (_, word))| !is_question_word(word) && word.chars().nth(2).is_some())
        .map(|(at, (_, word))| (at, word.into_owned()))
        .collect();
    let holders = |word: &str| book.stems.get(base.stems.stem(word).as_ref()).map_or(0, Vec::len);
    words.sort_by_key(|(at, word)| (holders(word), *at));
    words.truncate(stream.pick(&PART));
    words.sort_unstable();
    words.dedup_by(|a, b| a.1 == b.1);
    let said: Vec<String> = words.into_iter().map(|(_, word)| word).collect();
    means_only(base, book, &said, node).then(|| said.join(" "))
}

/// A name without one of its words.
fn shorter(
    base: &IndexedBase,
    book: &Book,
    node: NodeId,
    name: &str,
    stream: &mut Stream,
) -> Option<String> {
    let mut words: Vec<String> = name.split_whitespace().map(str::to_owned).collect();
    words.remove(stream.below(words.len()));
    let text = words.join(" ");
    let said: Vec<String> = name_words(&text).map(|(_, word)| word.into_owned()).collect();
    means_only(base, book, &said, node).then_some(text)
}

/// Two neighbouring letters of a longer word change places.
fn with_typo(name: &str, stream: &mut Stream) -> String {
    let mut letters: Vec<char> = name.chars().collect();
    let is_inside = |at: usize| {
        let around = letters.get(at - 1..at + 3).unwrap_or_default();
        around.len() == 4
            && around.iter().all(|letter| letter.is_ascii_lowercase())
            && letters.get(at) != letters.get(at + 1)
    };
    let places: Vec<usize> = (1..letters.len()).filter(|&at| is_inside(at)).collect();
    if !places.is_empty() {
        let at = stream.pick(&places);
        letters.swap(at, at + 1);
    }
    letters.into_iter().collect()
}
