//! Answers that are several steps away from the names of a question: "projects paid for by the
//! Strategic Equipment call" asks for the projects of the grants of this call.
//!
//! Programs and re-rankers see the nodes close to a name. If they rank no node first that is linked
//! to the names, the nodes of the type asked for that chains of relations connect with all names
//! come first. A chain leads over all types that the question mentions, "equipment bought from
//! grants of Grace Osei"; without such types, or such a chain, the shortest chains of at most
//! [`MAX_STEPS`] steps count.

use std::collections::BTreeSet;

use crate::bundle::{
    conditions::first_of,
    reading::{Question, answers},
    schema::Schema,
};
use agent_ground::words::name_words;
use agent_index::IndexedBase;
use agent_kb::{Direction, NodeId, TypeId};

/// Number of first nodes of a ranking that must have nothing to do with the names.
const HEAD: usize = 10;
/// Maximum number of steps of a chain over types that the question does not mention.
const MAX_STEPS: usize = 2;
/// Maximum number of types that a chain leads over because the question mentions them.
const MAX_MENTIONED: usize = 2;
/// Maximum number of edges that are followed for a question.
const MAX_EDGES: usize = 100_000;
/// Maximum number of nodes that the names reach; more are not specific.
const MAX_REACHED: usize = 500;

/// Moves the nodes of the types `asked` that chains of relations connect with all names of the
/// question to the front, those with most of its words first, unless one of the first [`HEAD`]
/// nodes of `ranking` is one of them or has a name in its text. O(edges), at most [`MAX_EDGES`].
pub(crate) fn connected_first(
    base: &IndexedBase,
    query: &str,
    asked: &[TypeId],
    ranking: Vec<(NodeId, f32)>,
) -> Vec<(NodeId, f32)> {
    let Some(mut found) = connected(base, query, asked) else { return ranking };
    let head = || ranking.iter().take(HEAD).map(|pair| pair.0);
    if head().any(|node| found.binary_search(&node).is_ok()) || found.is_empty() {
        return ranking;
    }
    if base.entities.exact_mentions(query).iter().any(|name| {
        let name = name_words(query).skip(name.words.start).take(name.words.len());
        let name: Vec<_> = name.map(|pair| pair.1).collect();
        head().any(|node| {
            let document = base.document(node);
            let words: Vec<_> = name_words(&document).map(|pair| pair.1).collect();
            words.windows(name.len()).any(|words| words == name)
        })
    }) {
        return ranking;
    }
    let words = base.fields_query(query);
    let by_words = |node: &NodeId| base.match_fields(&words, *node);
    found.sort_by(|a, b| by_words(b).total_cmp(&by_words(a)).then(a.cmp(b)));
    let top = ranking.first().map_or(1.0, |first| first.1);
    let is_found: BTreeSet<NodeId> = found.iter().copied().collect();
    let others = ranking.into_iter().filter(|pair| !is_found.contains(&pair.0));
    let n = found.len() as f32;
    let scored =
        (0u16..).zip(found).map(|(at, node)| (node, top * (1.0 - f32::from(at) / n / 2.0)));
    first_of(scored.chain(others).collect(), |node| is_found.contains(&node))
}

/// Returns the nodes of the types `asked` that a chain connects with each name, ascending; `None`
/// without such a name, or if there are too many.
fn connected(base: &IndexedBase, query: &str, asked: &[TypeId]) -> Option<Vec<NodeId>> {
    let question = Question::new(base, query);
    let of_names: BTreeSet<TypeId> = question.linked_types(base).into_iter().flatten().collect();
    if !question.may_be_plain() || asked.iter().any(|kind| of_names.contains(kind)) {
        return None;
    }
    let schema = Schema::of(base);
    let topical = question.other_stems.iter().zip(&question.asks).filter(|pair| !pair.1);
    let mentioned: BTreeSet<TypeId> = topical
        .flat_map(|(stem, _)| schema.types_meaning(stem))
        .filter(|kind| !asked.contains(kind) && !of_names.contains(kind))
        .collect();
    let mentioned: Vec<TypeId> = mentioned.into_iter().collect();
    let mut edges = MAX_EDGES;
    let sets: Option<Vec<Vec<NodeId>>> = question
        .names
        .iter()
        .map(|nodes| chained(base, nodes, asked, &mentioned, &mut edges))
        .collect();
    let named: BTreeSet<NodeId> = question.names.iter().flatten().copied().collect();
    let named: Vec<NodeId> = named.into_iter().collect();
    Some(answers(&sets?, &named)).filter(|found| found.len() <= MAX_REACHED)
}

/// Returns the nodes of the types `asked` at the end of chains from `nodes`, ascending: chains over
/// all types `mentioned`, or else the shortest ones. `None` if there are none or too many `edges`.
fn chained(
    base: &IndexedBase,
    nodes: &[NodeId],
    asked: &[TypeId],
    mentioned: &[TypeId],
    edges: &mut usize,
) -> Option<Vec<NodeId>> {
    let orders: &[&[usize]] = match mentioned.len() {
        1 => &[&[0]],
        MAX_MENTIONED => &[&[0, 1], &[1, 0]],
        _ => &[],
    };
    for order in orders {
        let mut found = nodes.to_vec();
        for kind in order.iter().filter_map(|&at| mentioned.get(at)) {
            found = stepped(base, &found, Some(&[*kind]), edges)?;
        }
        found = stepped(base, &found, Some(asked), edges)?;
        if !found.is_empty() {
            return Some(found);
        }
    }
    let mut reached = nodes.to_vec();
    for at in 1..=MAX_STEPS {
        let found = stepped(base, &reached, Some(asked), edges)?;
        if !found.is_empty() {
            return Some(found);
        }
        if at < MAX_STEPS {
            reached = stepped(base, &reached, None, edges)?;
        }
    }
    None
}

/// Returns the neighbours of `nodes` of the given types (of all types for `None`), ascending; `None`
/// if there are more than `edges` edges, which are counted down.
fn stepped(
    base: &IndexedBase,
    nodes: &[NodeId],
    types: Option<&[TypeId]>,
    edges: &mut usize,
) -> Option<Vec<NodeId>> {
    let kb = &base.kb;
    let mut found = BTreeSet::new();
    for &node in nodes {
        for &relation in kb.relations_of(kb.node_type(node)).iter() {
            *edges = edges.checked_sub(kb.degree(node, relation, Direction::Any))?;
            let neighbors = kb.neighbors(node, relation, Direction::Any);
            let is_wanted =
                |node: &&NodeId| types.is_none_or(|own| own.contains(&kb.node_type(**node)));
            found.extend(neighbors.iter().filter(is_wanted));
        }
    }
    Some(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::bundle::{
        asked::asked_types, conditions::Conditions, reading::Phrasings, reading::read_or_guess,
    };
    use agent_testing::base_of;

    #[test]
    fn answers_two_steps_away_come_first_if_nothing_near_is_found() {
        let (mut nodes, mut edges) = (String::new(), String::new());
        let mut add = |id: usize, kind: &str, name: &str| {
            writeln!(nodes, r#"{{"id": {id}, "type": "{kind}", "name": "{name}"}}"#).unwrap();
        };
        add(0, "scheme", "Blue Ocean");
        add(1, "scheme", "Green Field");
        for n in 0..20 {
            add(2 + 2 * n, "award", &format!("A{n}x"));
            add(3 + 2 * n, "project", &format!("Study {n} of stones"));
            let scheme = usize::from(n < 17);
            writeln!(edges, "{}\tof_scheme\t{scheme}", 2 + 2 * n).unwrap();
            writeln!(edges, "{}\treviewer\t{}", 3 + 2 * n, 2 + 2 * n).unwrap();
        }
        let base = base_of(&nodes, &edges, "scheme award project");
        let asked = asked_types(&base, "projects paid for by Blue Ocean");
        assert_eq!(asked, [base.kb.type_id("project").unwrap()]);
        let of_green: Vec<(NodeId, f32)> = (0..15).map(|n| (3 + 2 * n, 1.0 / n as f32)).collect();
        let ranked = |query: &str| {
            let ranking = connected_first(&base, query, &asked, of_green.clone());
            let mut first: Vec<NodeId> = ranking.iter().take(3).map(|pair| pair.0).collect();
            first.sort_unstable();
            first
        };
        assert_eq!(ranked("projects paid for by Blue Ocean"), [37, 39, 41]);
        assert_eq!(ranked("projects with awards from Blue Ocean"), [37, 39, 41]);
        // Near the front of the ranking are projects of this scheme.
        assert_eq!(ranked("projects paid for by Green Field"), [3, 5, 7]);
        assert_eq!(ranked("projects about stones"), [3, 5, 7]);
        // A relation whose name is a noun.
        assert_eq!(asked_types(&base, "reviewers of Study 3"), [base.kb.type_id("award").unwrap()]);
        // An identifier, and a word that the base lacks.
        let bare = |query: &str| {
            let conditions = Conditions::read(&base, query);
            let (reading, _) = read_or_guess(&base, &conditions, &Phrasings::default());
            reading.map(|reading| reading.answers)
        };
        assert_eq!(bare("gadget A3x"), Some(vec![8]));
        assert_eq!(bare("gadget with two legs A3x"), None);
    }
}
