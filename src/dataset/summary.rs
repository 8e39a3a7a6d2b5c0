//! What is in a base, at a glance: types, fields, relations, and what looks like a mistake. Must
//! not know how a base is imported or printed.

use std::collections::HashMap;

use serde::Serialize;

use crate::{Base, DatasetError, LabelledQuery, queries::all_queries};
use agent_kb::{Direction, Kb, NodeId, Tuple, TypeId};

/// Examples of each kind of issue.
const EXAMPLES: usize = 10;
/// Kinds of edges whose numbers per node are counted; each is a look at all nodes of a type.
const MAX_COUNTED: usize = 500;
/// A label with at most this share of another's uses, or [`RARE`] uses, is rare beside it.
const RARE_SHARE: f64 = 0.01;
const RARE: u64 = 3;
/// Labels that are compared with one another.
const MAX_COMPARED: usize = 1_000;

/// What is in a base.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Node types, most nodes first.
    pub types: Vec<TypeSummary>,
    /// Edges by relation and types of their ends, most first.
    pub relations: Vec<RelationSummary>,
    /// Labels that are rare and one typo away from another one.
    pub typos: Vec<Typo>,
    /// Labelled questions.
    pub questions: u64,
    /// Of these, those that no candidate answers, so that no ranking can be right.
    pub unanswerable: Examples,
    /// Of the others, those of whose answers some are no candidates; these are left out of scores.
    pub partly_unanswerable: Examples,
}

/// Nodes of one type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeSummary {
    /// The type.
    pub name: String,
    /// How many there are.
    pub nodes: u64,
    /// Whether they may be answers.
    pub is_candidate: bool,
    /// Fields with how many of the nodes have one, most first.
    pub fields: Vec<(String, u64)>,
    /// Nodes whose name another node of the type has too.
    pub shared_names: u64,
    /// The names that occur most often, more than once, with their counts.
    pub frequent_names: Vec<(String, u64)>,
    /// Nodes without any edge.
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
    /// How many there are.
    pub edges: u64,
    /// Edges per source that has one: the median and the most; none where it was not counted.
    pub per_node: Option<(u64, u64)>,
}

/// A label that may be a typo of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Typo {
    /// `relation` or `type`.
    pub what: &'static str,
    /// The rare label.
    pub label: String,
    /// Its uses.
    pub uses: u64,
    /// The label it looks like.
    pub like: String,
}

/// A count with the first few it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examples {
    /// How many there are.
    pub count: u64,
    /// What the data call the first ten.
    pub first: Vec<String>,
}

impl Examples {
    fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < EXAMPLES {
            self.first.push(what());
        }
    }
}

impl Summary {
    /// Looks at all nodes and edges once or twice; O(nodes * kinds of edges + names).
    pub fn of(kb: &Kb, questions: &[LabelledQuery]) -> Summary {
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

    /// The summary of an installed base.
    ///
    /// # Errors
    /// That the base cannot be read.
    pub fn of_base(base: &Base) -> Result<Summary, DatasetError> {
        let kb = Kb::open(&base.kb_dir())?;
        Ok(Summary::of(&kb, &all_queries(base)?))
    }

    /// Whether there is anything that looks like a mistake.
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

/// For each node, whether it has an edge.
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

/// Labels that are rare beside one that is one typo away: a letter more, less, other, or two
/// letters exchanged.
fn typos(what: &'static str, mut uses: Vec<(&str, u64)>) -> Vec<Typo> {
    uses.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    uses.truncate(MAX_COMPARED);
    let mut typos = Vec::new();
    for (at, &(label, n)) in uses.iter().enumerate() {
        let is_rare = |of: u64| n <= RARE.min(of / 2) || n as f64 <= of as f64 * RARE_SHARE;
        let like = uses.iter().take(at).find(|(other, of)| {
            is_rare(*of)
                && strsim::osa_distance(label, other) == 1
                && !differ_in_digit(label, other)
        });
        if let Some((like, _)) = like {
            let (label, like) = (label.to_owned(), (*like).to_owned());
            typos.push(Typo { what, label, uses: n, like });
        }
    }
    typos
}

/// Whether two labels are apart in a number, as `grade_1` and `grade_2` are.
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
            found.iter().map(|typo| (typo.label.as_str(), typo.like.as_str())).collect();
        assert_eq!(found, [("has_barnd", "has_brand"), ("has_brnd", "has_brand")]);
        assert!(typos("relation", vec![("grade_1", 900), ("grade_2", 1)]).is_empty());
        assert!(typos("relation", vec![("cites", 2), ("cited", 2)]).is_empty(), "both are rare");
        assert!(typos("relation", vec![("cites", 900), ("cited", 500)]).is_empty());
    }
}
