//! Summarizes a base: types, fields, relations and likely mistakes.

use std::collections::HashMap;

use serde::Serialize;

use crate::{Base, DatasetError, LabelledQuery, queries::all_queries};
use agent_kb::{Direction, Kb, NodeId, Tuple, TypeId};

/// Maximum number of examples of each kind of issue.
const EXAMPLES: usize = 10;
/// Maximum number of edge kinds (relation and types of both ends) whose edges per node are counted;
/// counting one kind visits all nodes of a type.
const MAX_COUNTED: usize = 500;
/// A label is rare if it has at most this share of the uses of a similar label.
const RARE_SHARE: f64 = 0.01;
/// A label with at most this number of uses is rare if a similar label has at least twice as many.
const RARE: u64 = 3;
/// Maximum number of labels compared with one another; the most frequent ones.
const MAX_COMPARED: usize = 1_000;

/// Summary of a base.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Node types, most nodes first.
    pub types: Vec<TypeSummary>,
    /// Edges by relation and types of both ends, most edges first.
    pub relations: Vec<RelationSummary>,
    /// Rare labels that are one typo away from a more frequent label.
    pub typos: Vec<Typo>,
    /// Number of labelled questions.
    pub questions: u64,
    /// Questions none of whose answers is a candidate; no ranking can be right.
    pub unanswerable: Examples,
    /// Questions some of whose answers are not candidates; scores ignore such answers.
    pub partly_unanswerable: Examples,
}

/// Nodes of one type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeSummary {
    /// The type.
    pub name: String,
    /// Number of nodes.
    pub nodes: u64,
    /// Whether nodes of this type may be answers.
    pub is_candidate: bool,
    /// Fields with the number of nodes that have them, most frequent first.
    pub fields: Vec<(String, u64)>,
    /// Number of nodes that share their name with another node of the type.
    pub shared_names: u64,
    /// The ten most frequent shared names, with counts, most frequent first.
    pub frequent_names: Vec<(String, u64)>,
    /// Nodes without edges.
    pub isolated: Examples,
}

/// Edges of one relation between two types.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelationSummary {
    /// The relation.
    pub name: String,
    /// Type of the sources.
    pub from: String,
    /// Type of the targets.
    pub to: String,
    /// Number of edges.
    pub edges: u64,
    /// Median and maximum number of edges per source with at least one edge; `None` if not counted.
    pub per_node: Option<(u64, u64)>,
}

/// A label that may be a typo of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Typo {
    /// Kind of the label: `relation` or `type`.
    #[serde(rename = "what")]
    pub kind: &'static str,
    /// The rare label.
    pub label: String,
    /// Number of uses.
    pub uses: u64,
    /// The similar, more frequent label.
    #[serde(rename = "like")]
    pub similar_to: String,
}

/// A number of items, with the ids of the first ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examples {
    /// Number of items.
    pub count: u64,
    /// Ids of the first ten.
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
    /// Summarizes a base; O(nodes * edge kinds + edges).
    pub fn compute(kb: &Kb, questions: &[LabelledQuery]) -> Summary {
        let tuples = by_size(kb.tuples());
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

    /// Summarizes an installed base.
    ///
    /// # Errors
    /// Any [`DatasetError`] of opening the base or loading its queries.
    pub fn of_base(base: &Base) -> Result<Summary, DatasetError> {
        let kb = Kb::open(&base.kb_dir())?;
        Ok(Summary::compute(&kb, &all_queries(base)?))
    }

    /// Whether the base has isolated nodes, questions with non-candidate answers, or likely typos.
    pub fn has_issues(&self) -> bool {
        let isolated = self.types.iter().any(|of| of.isolated.count > 0);
        let questions = self.unanswerable.count + self.partly_unanswerable.count;
        isolated || questions > 0 || !self.typos.is_empty()
    }
}

fn by_size(tuples: &[Tuple]) -> Vec<Tuple> {
    let mut sorted = tuples.to_vec();
    sorted.sort_by_key(|tuple| (std::cmp::Reverse(tuple.edges), *tuple));
    sorted
}

/// Whether each node has an edge.
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

/// Finds rare labels that are one typo away from a more frequent label: a character inserted,
/// deleted or replaced, or two adjacent characters swapped.
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

/// Whether two labels differ in digits only, such as `grade_1` and `grade_2`.
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
