//! JSON form of an answer, with names beside ids; its schema is `docs/answer.schema.json`.

use std::collections::BTreeMap;

use serde::Serialize;

use agent_kb::{
    Direction, Kb, NodeId, Path,
    answer::{AnswerValue, Explanation},
};
use agent_retrieve::{
    Answer, AssistFailure, Call, End, Feature, NodeExplanation, QueryAnalysis, RoutedCategory,
    StandIn,
};

/// An answer as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct AnswerRecord<'a> {
    /// Whether the question names an entity, type or relation of the base.
    pub recognised: bool,
    /// The categories that answered, most probable first.
    pub route: Vec<WayRecord<'a>>,
    /// The nodes, best first.
    pub hits: Vec<HitRecord<'a>>,
    /// The value, if the answer is not a list of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<&'a AnswerValue>,
    /// The last rank that is an answer, possibly after the hits; `None` if unknown.
    pub cutoff: Option<usize>,
    /// Expected quality of the nodes up to the cut-off.
    pub expected: Option<Expected>,
    /// The understood parts of the question.
    pub understood: UnderstoodRecord<'a>,
    /// Why another system answered; `None` if the requested one did.
    pub stand_in: Option<&'a str>,
    /// Why the language model did not help; omitted if none was requested or it did help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unassisted: Option<&'static str>,
    /// Milliseconds by stage; omitted if empty.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub timings: BTreeMap<&'static str, f64>,
}

/// A category that answered.
#[derive(Clone, Debug, Serialize)]
pub struct WayRecord<'a> {
    /// Its name.
    pub category: &'a str,
    /// Probability that the question belongs to it.
    pub probability: f32,
    /// Short id of its program.
    pub program: &'a str,
}

/// Expected quality of the nodes up to the cut-off, each in `0..=1`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Expected {
    /// Share of these nodes that are correct.
    pub precision: f32,
    /// Share of the correct nodes that are among them.
    pub recall: f32,
}

/// One node of an answer.
#[derive(Clone, Debug, Serialize)]
pub struct HitRecord<'a> {
    /// Its rank, from 1.
    pub rank: usize,
    /// Its id in the base.
    pub id: NodeId,
    /// Its id in the user's data.
    pub key: String,
    /// Its type.
    #[serde(rename = "type")]
    pub node_type: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its score; comparable within one answer only.
    pub score: f32,
    /// Path from a named entity to it; empty if none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<StepRecord<'a>>>,
    /// Paths from the other named entities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further_paths: Vec<Vec<StepRecord<'a>>>,
    /// Words of the question in its document or its neighbours' names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<&'a [String]>,
    /// Explanation of its rank, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<&'a Explanation>,
    /// Tool calls of the programs, each with the node's value in its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<&'a [Call]>,
    /// Its features in the learned re-ranker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<&'a [Feature]>,
}

/// A node of a path, and the edge that leads to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepRecord<'a> {
    /// The node.
    pub node: NodeId,
    /// Its id in the user's data.
    pub key: String,
    /// Its name.
    pub name: &'a str,
    /// Its type.
    #[serde(rename = "type")]
    pub node_type: &'a str,
    /// The relation of the edge; `None` for the first node.
    pub relation: Option<&'a str>,
    /// `out` if the edge is followed as stored, `in` if against; `None` for the first node.
    pub direction: Option<&'static str>,
}

/// The understood parts of a question.
#[derive(Clone, Debug, Serialize)]
pub struct UnderstoodRecord<'a> {
    /// Entities that the question names.
    pub entities: Vec<EntityRecord<'a>>,
    /// Words that are names of types or relations of the base.
    pub words: Vec<SchemaWordRecord<'a>>,
    /// Words that name nothing and match no document or neighbour's name of the answer.
    pub unused: &'a [String],
    /// Relations that paths of the answer follow and a word of the question excludes.
    pub contrary: Vec<&'a str>,
    /// Conditions that the question states, each in the syntax of `--where`.
    pub conditions: &'a [String],
    /// Number of nodes of the answer that fulfil all conditions.
    pub fulfilled: Option<usize>,
}

/// An entity that a question names.
#[derive(Clone, Debug, Serialize)]
pub struct EntityRecord<'a> {
    /// The node.
    pub id: NodeId,
    /// Its id in the user's data.
    pub key: String,
    /// Its name.
    pub name: &'a str,
    /// Its type.
    #[serde(rename = "type")]
    pub node_type: &'a str,
    /// Whether the question contains its whole name.
    pub exact: bool,
    /// Link confidence, in `0..=1`.
    pub strength: f32,
}

/// A word that occurs in the schema of the base.
#[derive(Clone, Debug, Serialize)]
pub struct SchemaWordRecord<'a> {
    /// The word as written in the question.
    pub word: &'a str,
    /// Types whose names contain it.
    pub types: Vec<&'a str>,
    /// Relations whose names contain it.
    pub relations: Vec<&'a str>,
}

impl<'a> AnswerRecord<'a> {
    /// Converts an answer.
    pub fn new(kb: &'a Kb, answer: &'a Answer) -> Self {
        let way = |way: &'a RoutedCategory| WayRecord {
            category: &way.category,
            probability: way.probability,
            program: &way.program,
        };
        let is_nodes = answer.value.as_nodes().is_some();
        Self {
            recognised: answer.analysis.recognised,
            route: answer.route.iter().map(way).collect(),
            hits: hits(kb, answer),
            value: (!is_nodes).then_some(&answer.value),
            cutoff: answer.end.map(|end| end.rank),
            expected: answer
                .end
                .map(|End { precision, recall, .. }| Expected { precision, recall }),
            understood: understood(kb, answer),
            stand_in: answer.stand_in.as_ref().map(|StandIn { reason, .. }| reason.as_str()),
            unassisted: answer.unassisted.map(AssistFailure::message),
            timings: answer.timings.clone(),
        }
    }
}

/// Converts the nodes of an answer.
pub fn hits<'a>(kb: &'a Kb, answer: &'a Answer) -> Vec<HitRecord<'a>> {
    let hit = |(at, &(id, score)): (usize, &(NodeId, f32))| {
        let why: Option<&NodeExplanation> = answer.explanations.get(at);
        let mut paths = answer.paths.get(at).map(|paths| paths.iter().map(|path| steps(kb, path)));
        let first = paths.as_mut().map(|paths| paths.next().unwrap_or_default());
        HitRecord {
            rank: at + 1,
            id,
            key: kb.key(id).into_owned(),
            node_type: kb.type_name(kb.node_type(id)),
            name: kb.name(id),
            score,
            path: first,
            further_paths: paths.into_iter().flatten().collect(),
            words: answer.words.get(at).map(Vec::as_slice),
            explanation: why.map(|why| &why.explanation),
            calls: why.map(|why| why.calls.as_slice()).filter(|calls| !calls.is_empty()),
            features: why.map(|why| why.features.as_slice()).filter(|all| !all.is_empty()),
        }
    };
    answer.ranking().iter().enumerate().map(hit).collect()
}

/// Converts a path to its nodes, each with the edge that leads to it.
fn steps<'a>(kb: &'a Kb, path: &Path) -> Vec<StepRecord<'a>> {
    let step = |node: NodeId, relation, direction| StepRecord {
        node,
        key: kb.key(node).into_owned(),
        name: kb.name(node),
        node_type: kb.type_name(kb.node_type(node)),
        relation,
        direction,
    };
    let hops = path.hops.iter().map(|hop| {
        let direction = match hop.direction {
            Direction::In => "in",
            Direction::Out | Direction::Any => "out",
        };
        step(hop.node, Some(kb.relation_name(hop.relation)), Some(direction))
    });
    std::iter::once(step(path.from, None, None)).chain(hops).collect()
}

/// Formats a path in one line, such as `Hugo Ibarra -directed-> Distant Daughter`; edges against
/// their direction are shown as `<-directed-`. `name` labels a node, `relation` an edge.
pub fn path_in_words<'a>(
    path: &[StepRecord<'a>],
    name: impl Fn(&StepRecord<'a>) -> String,
    relation: impl Fn(&StepRecord<'a>, &StepRecord<'a>) -> String,
) -> String {
    let mut text = path.first().map(&name).unwrap_or_default();
    for (from, to) in path.iter().zip(path.iter().skip(1)) {
        let (relation, name) = (relation(from, to), name(to));
        text += &match to.direction {
            Some("in") => format!(" <-{relation}- {name}"),
            _ => format!(" -{relation}-> {name}"),
        };
    }
    text
}

fn understood<'a>(kb: &'a Kb, answer: &'a Answer) -> UnderstoodRecord<'a> {
    let understood: &QueryAnalysis = &answer.analysis;
    let applied = answer.conditions.as_ref();
    let entities = understood.entities.iter().map(|entity| EntityRecord {
        id: entity.node,
        key: kb.key(entity.node).into_owned(),
        name: kb.name(entity.node),
        node_type: kb.type_name(kb.node_type(entity.node)),
        exact: entity.exact,
        strength: entity.strength,
    });
    let words = understood.words.iter().map(|known| SchemaWordRecord {
        word: &known.word,
        types: known.types.iter().map(|&kind| kb.type_name(kind)).collect(),
        relations: known.relations.iter().map(|&relation| kb.relation_name(relation)).collect(),
    });
    let contrary = understood.contrary.iter();
    UnderstoodRecord {
        entities: entities.collect(),
        words: words.collect(),
        unused: &understood.unused,
        contrary: contrary.map(|&relation| kb.relation_name(relation)).collect(),
        conditions: applied.map_or(&[], |applied| applied.texts.as_slice()),
        fulfilled: applied.map(|applied| applied.n_fulfilled),
    }
}
