//! Maps ids of the imported data to nodes and back. Does not depend on file formats.
//!
//! During an import, [`Ids`] finds nodes by type and key; it stores a digest of 16 bytes instead of
//! each key. In a written base, [`node_of_id`] parses one id, and [`AnswerIds`] parses the answer
//! list of a question. [`id_of`] and [`id_list`] format ids and lists in the same syntax.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use crate::{ProblemKind, error::Fault};
use agent_kb::{Kb, NodeId, TypeId};

/// Maximum number of characters of an id that a message shows.
const MAX_SHOWN: usize = 60;

/// Nodes of a base during its import, by key. A key is unique within its space. If keys are unique
/// across all types, the base is one space; otherwise each node type is a space.
#[derive(Debug, Default)]
pub(super) struct Ids {
    nodes: HashMap<[u8; 16], NodeId>,
    spaces: BTreeMap<String, Space>,
}

/// Lowest and highest key of a space, for messages. Integers come first, ordered by value; then
/// other texts.
#[derive(Debug)]
struct Space {
    least: String,
    greatest: String,
}

impl Ids {
    /// Adds a node. If the space already has the key, keeps the old node and returns false.
    pub(super) fn insert(&mut self, space: &str, key: &str, node: NodeId) -> bool {
        let entry = self.nodes.entry(digest(space, key));
        let is_new = matches!(entry, std::collections::hash_map::Entry::Vacant(_));
        entry.or_insert(node);
        match self.spaces.get_mut(space) {
            Some(known) if is_less(key, &known.least) => known.least = key.to_owned(),
            Some(known) if is_less(&known.greatest, key) => known.greatest = key.to_owned(),
            Some(_) => {}
            None => {
                let space_of_one = Space { least: key.to_owned(), greatest: key.to_owned() };
                self.spaces.insert(space.to_owned(), space_of_one);
            }
        }
        is_new
    }

    /// Returns the node with a key in a space; `None` if there is none.
    pub(super) fn get(&self, space: &str, key: &str) -> Option<NodeId> {
        self.nodes.get(&digest(space, key)).copied()
    }

    /// Describes the keys of a space for messages, as in `ids from B-001 to B-016`.
    pub(super) fn describe(&self, space: &str) -> String {
        match self.spaces.get(space) {
            None => "no ids".to_owned(),
            Some(Space { least, greatest }) if least == greatest => format!("only the id {least}"),
            Some(Space { least, greatest }) => format!("ids from {least} to {greatest}"),
        }
    }
}

fn is_less(left: &str, right: &str) -> bool {
    match (left.parse::<i64>(), right.parse::<i64>()) {
        (Ok(left), Ok(right)) => left < right,
        (left, right) if left.is_ok() != right.is_ok() => left.is_ok(),
        _ => left < right,
    }
}

/// Returns a digest of a space and a key, which stands for both in hash maps.
pub(super) fn digest(space: &str, key: &str) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(space.len() as u64).to_le_bytes());
    hasher.update(space.as_bytes());
    hasher.update(key.as_bytes());
    *hasher.finalize().as_bytes().first_chunk().unwrap_or(&[0; 16])
}

/// How the answer lists of a query file identify nodes.
#[derive(Clone, Copy)]
pub(super) enum AnswerIds<'a> {
    /// By node number; the value is the number of nodes, and valid node numbers are below it.
    Numbers(u32),
    /// By node key in this base.
    Keys(&'a Kb),
    /// By node number in the previous version of the base. The slice maps each previous number to
    /// the node's number in this version; an answer whose node was removed (`None`) is omitted.
    Moved(&'a [Option<NodeId>]),
}

impl<'a> AnswerIds<'a> {
    /// Returns how query files of a base identify answers: by key if the base has keys, otherwise
    /// by number.
    pub(super) fn for_base(kb: &'a Kb) -> Self {
        if kb.has_keys() { AnswerIds::Keys(kb) } else { AnswerIds::Numbers(kb.n_nodes()) }
    }

    /// Parses a list of answers such as `[3, 17]` or `["B-7", product:17]`; returns the nodes,
    /// ascending and distinct. Python tuples and sets, `(3, 17)` and `{3, 17}`, and a trailing
    /// comma are allowed. Answers that no node matches are omitted; the fault of the first such
    /// answer is returned as well.
    ///
    /// # Errors
    /// The fault of an invalid list, or of a list in which no answer is a node.
    pub(super) fn parse(self, text: &str) -> Result<(Vec<NodeId>, Option<Fault>), Fault> {
        let items = items(text)?;
        let (mut answers, mut unknown) = (Vec::with_capacity(items.len()), None);
        for item in items {
            let answer = match self {
                AnswerIds::Numbers(n_nodes) => number(item, n_nodes).map(Some),
                AnswerIds::Keys(kb) => node_of_key(item, kb).map(Some),
                AnswerIds::Moved(moved) => {
                    let n_before = u32::try_from(moved.len()).unwrap_or(u32::MAX);
                    number(item, n_before).map(|before| moved.get(before as usize).copied()?)
                }
            };
            match answer {
                Ok(answer) => answers.extend(answer),
                Err(fault) if fault.kind == ProblemKind::UnknownAnswer => {
                    unknown.get_or_insert(fault);
                }
                Err(fault) => return Err(fault),
            }
        }
        if answers.is_empty() {
            let message = "none of the answers exists in the base any more";
            let hint = "label the question again";
            let gone = || Fault::new(ProblemKind::UnknownAnswer, message, hint);
            return Err(unknown.unwrap_or_else(gone));
        }
        answers.sort_unstable();
        answers.dedup();
        Ok((answers, unknown))
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

fn bad_list(text: &str, reason: &str) -> Fault {
    let message = format!("answer_ids {:?} {reason}", shorten(text));
    let hint = "write node ids as a list: \"[3, 17]\"";
    Fault::new(ProblemKind::BadAnswers, message, hint).with_excerpt(text)
}

/// Splits a list such as `[3, "a, b"]` into its items, without their quotes. A list with vertical
/// bars between its items needs no brackets: `3|17`.
pub(super) fn items(text: &str) -> Result<Vec<&str>, Fault> {
    let within = |(open, close): (char, char)| text.trim().strip_prefix(open)?.strip_suffix(close);
    let brackets = [('[', ']'), ('(', ')'), ('{', '}')];
    let inner = brackets.into_iter().find_map(within);
    if inner.is_none() && text.contains('|') {
        return Ok(text.split('|').map(str::trim).collect());
    }
    let inner = inner.ok_or_else(|| bad_list(text, "is not a list"))?.trim();
    if inner.is_empty() {
        let message = "the query has no answers";
        let hint = "remove the query, or add answers";
        return Err(Fault::new(ProblemKind::BadAnswers, message, hint));
    }
    if text.trim().starts_with('(') && !inner.contains(',') {
        return Err(bad_list(text, "is one item in parentheses, not a list"));
    }
    let mut items = Vec::new();
    let mut rest = inner;
    loop {
        rest = rest.trim_start();
        let quoted = ['"', '\''].into_iter().find_map(|quote| {
            let (item, after) = rest.strip_prefix(quote)?.split_once(quote)?;
            let after = after.trim_start();
            (after.is_empty() || after.starts_with(',')).then_some((item, after))
        });
        let (item, after) = match quoted {
            Some(split) => split,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (item, after) = rest.split_at(end);
                (item.trim_end(), after)
            }
        };
        items.push(item);
        match after.strip_prefix(',').map(str::trim_start) {
            None | Some("") => return Ok(items),
            Some(next) => rest = next,
        }
    }
}

fn number(item: &str, n_nodes: u32) -> Result<NodeId, Fault> {
    let Ok(id) = item.parse::<u64>() else {
        let message = format!("answer_ids has {:?}, which is not a node id", shorten(item));
        let hint = "write node ids as a list: \"[3, 17]\"";
        return Err(Fault::new(ProblemKind::BadAnswers, message, hint).with_excerpt(item));
    };
    in_range(id, n_nodes).ok_or_else(|| {
        let message = format!("answer {id} is not in the base");
        let hint = format!("ids are 0 to {}; drop it", n_nodes.saturating_sub(1));
        Fault::new(ProblemKind::UnknownAnswer, message, hint).with_excerpt(item)
    })
}

/// Converts an id to a node number; `None` if it is not below `n_nodes`.
pub(super) fn in_range(id: u64, n_nodes: u32) -> Option<u32> {
    u32::try_from(id).ok().filter(|id| *id < n_nodes)
}

/// Why an id does not identify a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// No node has the id.
    #[error("no node has the id {id:?}; {like}")]
    Unknown {
        /// The id, shortened for display.
        id: String,
        /// Description of the base's ids, such as `ids are 0 to 99`.
        like: String,
    },
    /// Several nodes have the id, and either none or more than one of them is a candidate.
    #[error("{n} nodes have the id {id:?}; write the type before it, as in {example}")]
    Shared {
        /// The id, shortened for display.
        id: String,
        /// Number of nodes with the id.
        n: usize,
        /// The id of one of these nodes with its type, such as `product:17`.
        example: String,
    },
}

/// Returns all nodes with an id of the user's data, ascending: the nodes with that key. If there
/// are none and the id has the form `type:key`, returns the nodes of that type with that key. Time:
/// O(log n) for n nodes.
pub fn nodes_of_id(kb: &Kb, id: &str) -> Vec<NodeId> {
    let mut nodes = kb.nodes_of_key(id);
    if nodes.is_empty()
        && let Some((node_type, key)) = id.split_once(':')
        && let Some(node_type) = kb.type_id(node_type)
    {
        nodes = kb.nodes_of_key(key);
        nodes.retain(|&node| kb.node_type(node) == node_type);
    }
    nodes
}

/// Returns the node with an id of the user's data: the only node with that id or, of several nodes,
/// the only candidate. An id `type:key` selects the node of that type.
///
/// # Errors
/// [`IdError`] if no node, or more than one, matches.
pub fn node_of_id(kb: &Kb, id: &str) -> Result<NodeId, IdError> {
    let mut nodes = nodes_of_id(kb, id);
    if nodes.len() > 1 {
        let candidates: Vec<NodeId> =
            nodes.iter().copied().filter(|&node| kb.is_candidate(node)).collect();
        if candidates.len() == 1 {
            nodes = candidates;
        }
    }
    match nodes.as_slice() {
        [node] => Ok(*node),
        [] => {
            let kind = id.split_once(':').map(|(kind, _)| kind);
            let like = match kind.filter(|kind| kb.type_id(kind).is_none()) {
                Some(kind) => format!("the base has no type {:?}", shorten(kind)),
                None if kb.has_keys() => format!("ids look like {:?}", key_like(kb, id)),
                None => format!("ids are 0 to {}", kb.n_nodes().saturating_sub(1)),
            };
            Err(IdError::Unknown { id: shorten(id), like })
        }
        [first, ..] => {
            let (n, node_type) = (nodes.len(), kb.type_name(kb.node_type(*first)));
            let example = format!("{node_type}:{}", shorten(id));
            Err(IdError::Shared { id: shorten(id), n, example })
        }
    }
}

/// Returns an id that shows what ids look like: of the first ids of all types, the first that
/// begins with the same character as `id`, otherwise the id of the first node.
fn key_like<'a>(kb: &'a Kb, id: &str) -> Cow<'a, str> {
    let types = (0..kb.types().len()).map(|kind| TypeId(kind as u16));
    let mut firsts = types.filter_map(|kind| Some(kb.key(*kb.nodes_of_type(kind).first()?)));
    let begin = id.chars().next();
    firsts.find(|key| key.chars().next() == begin).unwrap_or_else(|| kb.key(0))
}

/// Returns the nodes of comma-separated ids, in the order of the ids. An id that has a comma must
/// be quoted.
///
/// # Errors
/// The error of [`node_of_id`] for the first invalid id.
pub fn nodes_of_ids(kb: &Kb, ids: &str) -> Result<Vec<NodeId>, IdError> {
    let list = format!("[{ids}]");
    // A list in square brackets is invalid only if it is empty; it then counts as one empty id.
    let items = items(&list).unwrap_or_else(|_| vec![""]);
    items.into_iter().map(|item| node_of_id(kb, item)).collect()
}

/// Returns the id that [`node_of_id`] maps to a node: the node's key, prefixed with its type if the
/// key is ambiguous, or its number if the base has no keys.
pub fn id_of(kb: &Kb, node: NodeId) -> Cow<'_, str> {
    let key = kb.key(node);
    match node_of_id(kb, &key) {
        Ok(found) if found == node => key,
        _ => Cow::Owned(format!("{}:{key}", kb.type_name(kb.node_type(node)))),
    }
}

/// Formats nodes as a list for the column `answer_ids`, such as `[3, 17]` or `[B-7, "nuts,
/// bolts"]`.
///
/// # Errors
/// The first id that a list cannot represent: an id that needs quotes and has both kinds of quotes.
pub fn id_list(kb: &Kb, nodes: &[NodeId]) -> Result<String, String> {
    let item = |&node: &NodeId| {
        let id = id_of(kb, node);
        let plain = !id.is_empty() && *id == *id.trim() && !id.contains(',');
        match ['"', '\''].into_iter().find(|quote| !id.contains(*quote)) {
            _ if plain && !id.starts_with(['"', '\'']) => Ok(id.into_owned()),
            Some(quote) => Ok(format!("{quote}{id}{quote}")),
            None => Err(id.into_owned()),
        }
    };
    let items: Vec<String> = nodes.iter().map(item).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", items.join(", ")))
}

fn node_of_key(item: &str, kb: &Kb) -> Result<NodeId, Fault> {
    node_of_id(kb, item).map_err(|error| {
        let (message, hint) = match &error {
            IdError::Unknown { id, like } => (
                format!("no node has the id {id:?}"),
                format!("{like}; correct the answer or drop it"),
            ),
            IdError::Shared { id, n, example } => (
                format!("{n} nodes have the id {id:?}"),
                format!("write the type before it, as in {example}"),
            ),
        };
        Fault::new(ProblemKind::UnknownAnswer, message, hint).with_excerpt(item)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<NodeId>, String> {
        let parsed = AnswerIds::Numbers(3).parse(text);
        let parsed = parsed.and_then(|(answers, unknown)| unknown.map_or(Ok(answers), Err));
        parsed.map_err(|fault| format!("{}; {}", fault.message, fault.hint))
    }

    #[test]
    fn answers_are_read_as_python_writes_a_few_numbers() {
        for text in
            ["[2, 1]", "[1, 2,]", "(1, 2)", "(2, 1, )", "{1, 2}", " [1,2,1] ", "['1', \"2\"]"]
        {
            assert_eq!(parse(text).unwrap(), [1, 2], "{text}");
        }
        assert_eq!(parse("(2,)").unwrap(), [2]);
        for (text, words) in [
            ("[1.0, 2]", "has \"1.0\", which is not a node id"),
            ("[1, [2]]", "has \"[2]\", which is not a node id"),
            ("[1,, 2]", "has \"\", which is not a node id"),
            ("[,]", "has \"\", which is not a node id"),
            ("{1: 2}", "has \"1: 2\""),
            ("[-1]", "has \"-1\""),
            ("(1)", "is one item in parentheses"),
            ("1, 2", "is not a list"),
            ("[1, 2)", "is not a list"),
            ("{}", "the query has no answers"),
            ("[3]", "answer 3 is not in the base"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(words), "{text}: {message}");
        }
    }

    #[test]
    fn keys_may_hold_commas_within_quotes_and_answers_of_before_move() {
        assert_eq!(items("[\"a, b\", c'd, 'e' ]").ok().unwrap(), ["a, b", "c'd", "e"]);
        let moved = [None, Some(7), Some(4)];
        assert_eq!(AnswerIds::Moved(&moved).parse("[0, 1, 2]").ok().unwrap().0, [4, 7]);
        assert!(AnswerIds::Moved(&moved).parse("[0]").is_err());
    }

    #[test]
    fn ids_are_found_within_their_space() {
        let mut ids = Ids::default();
        assert!(ids.insert("a", "1", 0) && ids.insert("b", "1", 1) && ids.insert("a", "2", 2));
        assert!(!ids.insert("a", "1", 3));
        assert_eq!(
            [ids.get("a", "1"), ids.get("b", "1"), ids.get("b", "2")],
            [Some(0), Some(1), None]
        );
        assert!(ids.insert("a", "10", 4) && ids.insert("a", "9", 5));
        assert_eq!(ids.describe("a"), "ids from 1 to 10");
        assert_eq!(
            (ids.describe("b").as_str(), ids.describe("c").as_str()),
            ("only the id 1", "no ids")
        );
    }
}
