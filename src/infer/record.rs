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
    /// Whether the question certainly names an entity of the base.
    pub recognised: bool,
    /// The categories that answered, most probable first.
    pub route: Vec<WayRecord<'a>>,
    /// The nodes of the answer, best first.
    pub hits: Vec<HitRecord<'a>>,
    /// The value, if the answer is not a list of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<&'a AnswerValue>,
    /// The rank after which no more answers are expected, from 1; may exceed the number of hits;
    /// `None` if unknown.
    pub cutoff: Option<usize>,
    /// Expected quality of the nodes up to the cut-off; `None` if there is no cut-off.
    pub expected: Option<Expected>,
    /// How the question was understood.
    pub understood: UnderstoodRecord<'a>,
    /// Why the stand-in system answered; `None` if the requested system did.
    pub stand_in: Option<&'a str>,
    /// Why the language model did not help; omitted if none was requested or it did help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unassisted: Option<&'static str>,
    /// Duration of each stage, in milliseconds; omitted if empty.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub timings: BTreeMap<&'static str, f64>,
}

/// A category whose program answered.
#[derive(Clone, Debug, Serialize)]
pub struct WayRecord<'a> {
    /// Name of the category.
    pub category: &'a str,
    /// Probability that the question belongs to the category.
    pub probability: f32,
    /// Short id of the category's program.
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
    /// Rank of the node, from 1.
    pub rank: usize,
    /// Id of the node in the base.
    pub id: NodeId,
    /// Key of the node in the user's data.
    pub key: String,
    /// Type of the node.
    #[serde(rename = "type")]
    pub node_type: &'a str,
    /// Name of the node.
    pub name: &'a str,
    /// Score of the node; comparable within one answer only.
    pub score: f32,
    /// Path from an entity that the question names to the node; empty if none is known; omitted if
    /// paths were not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<StepRecord<'a>>>,
    /// Paths to the node from the other entities that the question names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further_paths: Vec<Vec<StepRecord<'a>>>,
    /// Words of the question that occur in the node's document or in its neighbours' names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<&'a [String]>,
    /// Explanation of the node's rank, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<&'a Explanation>,
    /// Tool calls of the programs, each with the value of the node in the call's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<&'a [Call]>,
    /// Features of the node in the learned re-ranker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<&'a [Feature]>,
}

/// A node of a path, and the edge that leads to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepRecord<'a> {
    /// Id of the node in the base.
    pub node: NodeId,
    /// Key of the node in the user's data.
    pub key: String,
    /// Name of the node.
    pub name: &'a str,
    /// Type of the node.
    #[serde(rename = "type")]
    pub node_type: &'a str,
    /// The relation of the edge; `None` for the first node.
    pub relation: Option<&'a str>,
    /// `out` if the path follows the edge in its stored direction, `in` if against it; `None` for
    /// the first node.
    pub direction: Option<&'static str>,
}

/// How a question was understood.
#[derive(Clone, Debug, Serialize)]
pub struct UnderstoodRecord<'a> {
    /// Entities that the question names.
    pub entities: Vec<EntityRecord<'a>>,
    /// Words of the question that occur in names of types or relations of the base.
    pub words: Vec<SchemaWordRecord<'a>>,
    /// Words that name nothing, and occur neither in the documents of the answer's nodes nor in the
    /// names of their neighbours.
    pub unused: &'a [String],
    /// Misspelled words, with the words that are searched instead; left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub corrected: Vec<CorrectionRecord<'a>>,
    /// Names of relations that paths of the answer follow although a word of the question excludes
    /// them.
    pub contrary: Vec<&'a str>,
    /// Conditions that the question states, each in the syntax of `--where`.
    pub conditions: &'a [String],
    /// Number of nodes of the answer that fulfil all conditions; `None` if the question states
    /// none.
    pub fulfilled: Option<usize>,
}

/// A misspelled word of a question.
#[derive(Clone, Debug, Serialize)]
pub struct CorrectionRecord<'a> {
    /// The word as written.
    pub word: &'a str,
    /// The word of the base that is searched instead.
    #[serde(rename = "as")]
    pub searched_as: &'a str,
}

/// An entity that a question names.
#[derive(Clone, Debug, Serialize)]
pub struct EntityRecord<'a> {
    /// Id of the entity's node in the base.
    pub id: NodeId,
    /// Key of the entity's node in the user's data.
    pub key: String,
    /// Name of the entity.
    pub name: &'a str,
    /// Type of the entity.
    #[serde(rename = "type")]
    pub node_type: &'a str,
    /// Whether the question contains the entity's whole name.
    pub exact: bool,
    /// Confidence that the question refers to this entity, in `0..=1`.
    pub strength: f32,
}

/// A word of the question that occurs in names of types or relations of the base.
#[derive(Clone, Debug, Serialize)]
pub struct SchemaWordRecord<'a> {
    /// The word as written in the question.
    pub word: &'a str,
    /// Types whose names contain the word.
    pub types: Vec<&'a str>,
    /// Relations whose names contain the word.
    pub relations: Vec<&'a str>,
}

impl<'a> AnswerRecord<'a> {
    /// Converts an answer of the base `kb`; borrows its texts.
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

/// Converts the nodes of an answer, best first.
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

/// Converts a path to a list of its nodes, each with the edge that leads to the node.
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

/// Formats a path in one line, such as `Hugo Ibarra -directed-> Distant Daughter`; an edge that the
/// path follows against its stored direction is shown as `<-directed-`. `name` returns the label of
/// a node; `relation` returns the label of the edge between two consecutive nodes.
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
    let corrected = understood
        .corrected
        .iter()
        .map(|(word, searched_as)| CorrectionRecord { word, searched_as });
    UnderstoodRecord {
        entities: entities.collect(),
        words: words.collect(),
        unused: &understood.unused,
        corrected: corrected.collect(),
        contrary: contrary.map(|&relation| kb.relation_name(relation)).collect(),
        conditions: applied.map_or(&[], |applied| applied.texts.as_slice()),
        fulfilled: applied.map(|applied| applied.n_fulfilled),
    }
}
