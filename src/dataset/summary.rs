//! Summarises a base: its types, fields, relations, questions and likely mistakes.

use std::{cmp::Reverse, collections::HashMap};

use serde::Serialize;

use crate::{Base, LabelledQuery, Result, queries::all_queries};
use agent_kb::{Direction, Kb, NodeId, Tuple, TypeId};

/// Maximum number of ids listed for each kind of issue.
const EXAMPLES: usize = 10;
/// Maximum number of edge kinds (relation and types of both ends) for which the edges per node are
/// counted; counting one kind visits all nodes of a type.
const MAX_COUNTED: usize = 500;
/// A label with more than `RARE` uses is also rare if it has at most this share of the uses of a
/// similar label.
const RARE_SHARE: f64 = 0.01;
/// Maximum number of uses of a rare label; a similar label must have at least twice as many uses.
const RARE: u64 = 3;
/// Maximum number of labels that are compared with one another; if there are more labels, only the
/// most frequent are compared.
const MAX_COMPARED: usize = 1_000;

/// Summary of the types, relations, questions and likely mistakes of a base.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Summary of each node type, the type with the most nodes first.
    pub types: Vec<TypeSummary>,
    /// Summary of each relation between two types, most edges first.
    pub relations: Vec<RelationSummary>,
    /// Rare type and relation names that are one typo away from a more frequent name.
    pub typos: Vec<Typo>,
    /// Number of labelled questions.
    pub questions: u64,
    /// Questions without an answer that is a candidate, so that no ranking can contain an answer;
    /// ids are query ids.
    pub unanswerable: Examples,
    /// Questions with some answers that are candidates and some that are not; scores ignore answers
    /// that are not candidates. Ids are query ids.
    pub partly_unanswerable: Examples,
}

/// Summary of the nodes of one type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeSummary {
    /// Name of the type.
    pub name: String,
    /// Number of nodes of the type.
    pub nodes: u64,
    /// Whether nodes of this type may be answers.
    pub is_candidate: bool,
    /// Name of each field with the number of nodes that have the field, most frequent first.
    pub fields: Vec<(String, u64)>,
    /// Number of nodes that have the same name as another node of the type.
    pub shared_names: u64,
    /// At most ten names that several nodes have, each with the number of these nodes, most
    /// frequent first.
    pub frequent_names: Vec<(String, u64)>,
    /// Nodes of the type that have no edges.
    pub isolated: Examples,
}

/// Summary of the edges of one relation between two types.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelationSummary {
    /// Name of the relation.
    pub name: String,
    /// Name of the source nodes' type.
    pub from: String,
    /// Name of the target nodes' type.
    pub to: String,
    /// Number of edges.
    pub edges: u64,
    /// Median and maximum number of edges per source node, over the source nodes that have an edge;
    /// `None` if not counted, because the base has more than 500 edge kinds (relation and types of
    /// both ends).
    pub per_node: Option<(u64, u64)>,
}

/// A type or relation name that may be a typo of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Typo {
    /// What has the name: `relation` or `type`.
    #[serde(rename = "what")]
    pub kind: &'static str,
    /// The rare name.
    pub label: String,
    /// Number of edges of the relation or of nodes of the type.
    pub uses: u64,
    /// The similar, more frequent name.
    #[serde(rename = "like")]
    pub similar_to: String,
}

/// A number of nodes or questions, with the ids of the first ten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examples {
    /// Number of nodes or questions.
    pub count: u64,
    /// Ids of the first ten nodes or questions.
    pub first: Vec<String>,
}

impl Examples {
    fn add(&mut self, id: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < EXAMPLES {
            self.first.push(id());
        }
    }
}

impl Summary {
    /// Summarises a base with its labelled questions. Time: O(nodes * edge kinds + edges).
    pub fn compute(kb: &Kb, questions: &[LabelledQuery]) -> Summary {
        let mut tuples = kb.tuples().to_vec();
        tuples.sort_by_key(|tuple| (Reverse(tuple.edges), *tuple));
        let is_linked = linked(kb, &tuples);
        let ids = (0..kb.types().len()).filter_map(|id| u16::try_from(id).ok()).map(TypeId);
        let mut types: Vec<TypeSummary> = ids.map(|id| type_summary(kb, id, &is_linked)).collect();
        types.sort_by(|a, b| b.nodes.cmp(&a.nodes).then_with(|| a.name.cmp(&b.name)));
        let relations = tuples.iter().enumerate();
        let relations: Vec<RelationSummary> =
            relations.map(|(at, tuple)| relation_summary(kb, tuple, at < MAX_COUNTED)).collect();
        let mut summary = Summary { questions: questions.len() as u64, ..Summary::default() };
        for question in questions {
            let wrong = question.answers.iter().filter(|&&answer| !kb.is_candidate(answer));
            match wrong.count() {
                0 => {}
                n if n == question.answers.len() => {
                    summary.unanswerable.add(|| question.id.to_string());
                }
                _ => summary.partly_unanswerable.add(|| question.id.to_string()),
            }
        }
        let mut uses: HashMap<&str, u64> = HashMap::new();
        for relation in &relations {
            *uses.entry(&relation.name).or_default() += relation.edges;
        }
        summary.typos = typos("relation", uses.into_iter().collect());
        let uses = types.iter().map(|of| (of.name.as_str(), of.nodes));
        summary.typos.extend(typos("type", uses.collect()));
        Summary { types, relations, ..summary }
    }

    /// Summarises an installed base with its stored questions.
    ///
    /// # Errors
    /// Any [`crate::DatasetError`] of opening the base or of loading its questions.
    pub fn of_base(base: &Base) -> Result<Summary> {
        let kb = Kb::open(&base.kb_dir())?;
        Ok(Summary::compute(&kb, &all_queries(base)?))
    }
}

/// Returns, for each node, whether it has an edge.
fn linked(kb: &Kb, tuples: &[Tuple]) -> Vec<bool> {
    let mut is_linked = vec![false; kb.n_nodes() as usize];
    for tuple in tuples {
        for (node_type, direction) in
            [(tuple.source, Direction::Out), (tuple.target, Direction::In)]
        {
            for &node in kb.nodes_of_type(node_type) {
                if let Some(known) = is_linked.get_mut(node as usize)
                    && !*known
                {
                    *known = kb.degree(node, tuple.relation, direction) > 0;
                }
            }
        }
    }
    is_linked
}

fn type_summary(kb: &Kb, id: TypeId, is_linked: &[bool]) -> TypeSummary {
    let nodes = kb.nodes_of_type(id);
    let mut fields = vec![0u64; kb.field_names().len()];
    let mut names: HashMap<&str, u64> = HashMap::new();
    let mut isolated = Examples::default();
    for &node in nodes {
        for field in kb.field_ids(node) {
            if let Some(count) = fields.get_mut(usize::from(field.0)) {
                *count += 1;
            }
        }
        *names.entry(kb.name(node)).or_default() += 1;
        if !is_linked.get(node as usize).copied().unwrap_or_default() {
            isolated.add(|| kb.key(node).into_owned());
        }
    }
    let fields = kb.field_names().iter().zip(fields).filter(|(_, count)| *count > 0);
    let mut fields: Vec<(String, u64)> = fields.map(|(name, n)| (name.clone(), n)).collect();
    fields.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut shared: Vec<(&str, u64)> = names.into_iter().filter(|(_, n)| *n > 1).collect();
    shared.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let frequent = shared.iter().take(EXAMPLES);
    TypeSummary {
        name: kb.type_name(id).to_owned(),
        nodes: nodes.len() as u64,
        is_candidate: kb.candidate_types().contains(&id),
        fields,
        shared_names: shared.iter().map(|(_, n)| n).sum(),
        frequent_names: frequent.map(|(name, n)| ((*name).to_owned(), *n)).collect(),
        isolated,
    }
}

fn relation_summary(kb: &Kb, tuple: &Tuple, counted: bool) -> RelationSummary {
    let per_node = counted.then(|| {
        let count = |&node: &NodeId| {
            let neighbors = kb.neighbors(node, tuple.relation, Direction::Out);
            neighbors.iter().filter(|&&other| kb.node_type(other) == tuple.target).count() as u64
        };
        let sources = kb.nodes_of_type(tuple.source).iter().map(count);
        let mut counts: Vec<u64> = sources.filter(|&n| n > 0).collect();
        counts.sort_unstable();
        let median = counts.get(counts.len() / 2).copied().unwrap_or_default();
        (median, counts.last().copied().unwrap_or_default())
    });
    RelationSummary {
        name: kb.relation_name(tuple.relation).to_owned(),
        from: kb.type_name(tuple.source).to_owned(),
        to: kb.type_name(tuple.target).to_owned(),
        edges: tuple.edges,
        per_node,
    }
}

/// Finds rare labels that are one typo away from a more frequent label. A typo is one inserted,
/// deleted or replaced character, or two adjacent characters swapped.
fn typos(kind: &'static str, mut uses: Vec<(&str, u64)>) -> Vec<Typo> {
    uses.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    uses.truncate(MAX_COMPARED);
    let mut typos = Vec::new();
    for (at, &(label, n)) in uses.iter().enumerate() {
        let is_rare =
            |other: u64| n <= RARE.min(other / 2) || n as f64 <= other as f64 * RARE_SHARE;
        let similar = uses.iter().take(at).find(|(other, n)| {
            is_rare(*n) && strsim::osa_distance(label, other) == 1 && !differ_in_digit(label, other)
        });
        if let Some((similar, _)) = similar {
            let (label, similar_to) = (label.to_owned(), (*similar).to_owned());
            typos.push(Typo { kind, label, uses: n, similar_to });
        }
    }
    typos
}

/// Whether two labels differ only in digits, such as `grade_1` and `grade_2`.
fn differ_in_digit(a: &str, b: &str) -> bool {
    let letters = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    letters(a) == letters(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_labels_one_typo_away_are_found_and_others_are_not() {
        let uses = vec![("has_brand", 23_981), ("has_brnd", 3), ("has_barnd", 200), ("likes", 40)];
        let found = typos("relation", uses);
        let found: Vec<(&str, &str)> =
            found.iter().map(|typo| (typo.label.as_str(), typo.similar_to.as_str())).collect();
        assert_eq!(found, [("has_barnd", "has_brand"), ("has_brnd", "has_brand")]);
        assert!(typos("relation", vec![("grade_1", 900), ("grade_2", 1)]).is_empty());
        assert!(typos("relation", vec![("cites", 2), ("cited", 2)]).is_empty(), "both are rare");
        assert!(typos("relation", vec![("cites", 900), ("cited", 500)]).is_empty());
    }
}
