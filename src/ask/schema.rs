//! The schema of a base in the words of questions: types, relations and fields, the kinds of their
//! values, and the metapaths between types.
//!
//! Independent of questions.

use std::{collections::BTreeSet, sync::OnceLock};

use petgraph::graph::{DiGraph, NodeIndex};

use agent_ground::words::{is_stop_word, name_words};
use agent_index::IndexedBase;
use agent_kb::{
    Direction, FieldId, MetapathStep, RelationId, TypeId,
    table::{Sample, sample},
};

/// Maximum number of steps of a metapath between two types.
const MAX_STEPS: usize = 3;
/// Maximum number of metapaths between two types.
const MAX_PATHS: usize = 200;
/// Minimum length of a stem that is a prefix of another form of the same word.
const MIN_BEGINNING: usize = 4;
/// Maximum number of letters that the other form has in addition.
const MAX_ENDING: usize = 3;

/// A name of the schema in words.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    /// Its words, folded, stop words included; `ReferenceCount` has two.
    pub words: Vec<String>,
    /// The words, joined.
    pub joined: String,
    /// The stems of the words that are not stop words.
    pub stems: Vec<String>,
}

/// The schema of one base.
pub(crate) struct Schema {
    /// Names by [`TypeId`].
    pub types: Vec<Words>,
    /// Names by [`FieldId`].
    pub fields: Vec<Words>,
    /// Names by relation.
    pub relations: Vec<Words>,
    samples: Vec<OnceLock<Vec<Sample>>>,
    /// Types with the steps between them.
    graph: DiGraph<TypeId, (MetapathStep, u64)>,
}

/// A name with a space before each capital that follows a small letter.
fn parted(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut small = false;
    for c in name.chars() {
        if small && c.is_uppercase() {
            text.push(' ');
        }
        small = c.is_lowercase();
        text.push(c);
    }
    text
}

/// Whether two stems are forms of one word: equal, or one a prefix of the other.
pub(crate) fn is_form(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    short == long
        || short.len() >= MIN_BEGINNING
            && long.len() <= short.len() + MAX_ENDING
            && long.starts_with(short)
}

impl Schema {
    /// The schema of a base; values of fields are sampled on demand.
    pub(crate) fn new(base: &IndexedBase) -> Self {
        let in_words = |name: &String| {
            let name = parted(name);
            let words: Vec<String> = name_words(&name).map(|(_, word)| word.into_owned()).collect();
            let joined = words.concat();
            let stems = words.iter().filter(|word| !is_stop_word(word));
            let stems = stems.map(|word| base.stems.stem(word).into_owned()).collect();
            Words { words, joined, stems }
        };
        let kb = &base.kb;
        let mut graph = DiGraph::new();
        let nodes: Vec<NodeIndex> =
            (0..kb.types().len()).map(|kind| graph.add_node(TypeId(kind as u16))).collect();
        for tuple in kb.tuples() {
            let ends = (nodes.get(tuple.source.0 as usize), nodes.get(tuple.target.0 as usize));
            let (Some(&source), Some(&target)) = ends else { continue };
            let step = |direction, to| {
                (MetapathStep { relation: tuple.relation, direction, to }, tuple.edges)
            };
            graph.add_edge(source, target, step(Direction::Out, tuple.target));
            graph.add_edge(target, source, step(Direction::In, tuple.source));
        }
        Self {
            types: kb.types().iter().map(in_words).collect(),
            fields: kb.field_names().iter().map(in_words).collect(),
            relations: kb.relations().iter().map(in_words).collect(),
            samples: kb.types().iter().map(|_| OnceLock::new()).collect(),
            graph,
        }
    }

    /// Samples of the fields of a type.
    pub(crate) fn samples(&self, base: &IndexedBase, kind: TypeId) -> &[Sample] {
        let at = self.samples.get(kind.0 as usize);
        at.map_or(&[], |known| known.get_or_init(|| sample(&base.kb, kind)))
    }

    /// The sample of one field of a type; none if no sampled node has it.
    pub(crate) fn sample(
        &self,
        base: &IndexedBase,
        kind: TypeId,
        field: FieldId,
    ) -> Option<&Sample> {
        self.samples(base, kind).iter().find(|sample| sample.field == field)
    }

    /// The metapaths from one type to another, best first: by fewer steps, then by more mentioned
    /// stems in their relations, then by more edges. A metapath visits no type twice, except for a
    /// single step within one type.
    pub(crate) fn paths(
        &self,
        from: TypeId,
        to: TypeId,
        said: &BTreeSet<String>,
    ) -> Vec<Vec<MetapathStep>> {
        let mut found: Vec<(Vec<MetapathStep>, u64)> = Vec::new();
        let mut open: Vec<(NodeIndex, Vec<MetapathStep>, u64)> =
            vec![(NodeIndex::new(from.0 as usize), Vec::new(), u64::MAX)];
        for _ in 0..MAX_STEPS {
            let mut next = Vec::new();
            for (at, steps, fewest) in open {
                for edge in self.graph.edges(at) {
                    let (step, edges) = *edge.weight();
                    let mut longer: Vec<MetapathStep> = steps.clone();
                    let passed = step.to == from && !steps.is_empty()
                        || steps.iter().any(|other| other.to == step.to);
                    if passed {
                        continue;
                    }
                    longer.push(step);
                    let fewest = fewest.min(edges);
                    if step.to == to {
                        found.push((longer, fewest));
                    } else if step.to != from && next.len() < MAX_PATHS {
                        next.push((NodeIndex::new(step.to.0 as usize), longer, fewest));
                    }
                }
            }
            if !found.is_empty() {
                break;
            }
            open = next;
        }
        let n_said = |steps: &[MetapathStep]| {
            let own = |step: &MetapathStep| self.n_said(step, said);
            steps.iter().map(own).sum::<usize>()
        };
        found.sort_by(|one, other| {
            n_said(&other.0)
                .cmp(&n_said(&one.0))
                .then(other.1.cmp(&one.1))
                .then(one.0.cmp(&other.0))
        });
        found.into_iter().map(|(steps, _)| steps).collect()
    }

    /// The step of a relation from a type: the one with the most edges, outgoing ones first.
    pub(crate) fn step_of(&self, from: TypeId, relation: RelationId) -> Option<MetapathStep> {
        let edges = self.graph.edges(NodeIndex::new(from.0 as usize)).map(|edge| *edge.weight());
        let own = edges.filter(|(step, _)| step.relation == relation);
        own.max_by_key(|(step, edges)| (step.direction == Direction::Out, *edges))
            .map(|(step, _)| step)
    }

    /// The type with the most links to or from another, except that type itself.
    pub(crate) fn most_linked(&self, to: TypeId) -> Option<TypeId> {
        let edges = self.graph.edges(NodeIndex::new(to.0 as usize)).map(|edge| *edge.weight());
        let others = edges.filter(|(step, _)| step.to != to);
        others.max_by_key(|(step, edges)| (*edges, step.to)).map(|(step, _)| step.to)
    }

    /// The steps that begin at a type, ascending.
    pub(crate) fn steps(&self, from: TypeId) -> Vec<MetapathStep> {
        let edges = self.graph.edges(NodeIndex::new(from.0 as usize));
        let mut steps: Vec<MetapathStep> = edges.map(|edge| edge.weight().0).collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// Number of mentioned stems of a step's relation, without those of the types' names.
    fn n_said(&self, step: &MetapathStep, said: &BTreeSet<String>) -> usize {
        let relation = self.relations.get(step.relation.0 as usize);
        let of_types: BTreeSet<&String> = self.types.iter().flat_map(|kind| &kind.stems).collect();
        let stems = relation.into_iter().flat_map(|relation| &relation.stems);
        stems
            .filter(|stem| !of_types.contains(stem))
            .filter(|stem| said.iter().any(|other| is_form(stem, other)))
            .count()
    }

    /// Whether a relation within a type is mentioned.
    pub(crate) fn is_linked_within(&self, kind: TypeId, said: &BTreeSet<String>) -> bool {
        self.steps(kind).iter().any(|step| step.to == kind && self.n_said(step, said) > 0)
    }

    /// Whether a stem is a form of a word of one relation's name.
    pub(crate) fn is_said_by(&self, relation: RelationId, stem: &str) -> bool {
        let own = self.relations.get(relation.0 as usize);
        own.is_some_and(|own| own.stems.iter().any(|own| is_form(own, stem)))
    }

    /// Whether a stem is a form of a word of any relation's name.
    pub(crate) fn is_of_relation(&self, stem: &str) -> bool {
        self.relations.iter().flat_map(|own| &own.stems).any(|own| is_form(own, stem))
    }

    /// Whether a stem is a form of a word of any name of the schema.
    pub(crate) fn says(&self, stem: &str) -> bool {
        let of =
            |words: &[Words]| words.iter().flat_map(|own| &own.stems).any(|own| is_form(own, stem));
        of(&self.types) || of(&self.fields) || of(&self.relations)
    }
}
