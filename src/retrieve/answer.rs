//! The answer to one question: its value, the rank after which no more answers are expected, the
//! programs that answered, and an explanation of each node's rank. This module neither retrieves
//! nor prints.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use crate::Ranking;
use agent_kb::{
    NodeId, Path, RelationId, TypeId,
    answer::{AnswerValue, Cell, Explanation},
};

/// Which optional parts of an answer to compute; omitted parts cost nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Number of nodes to explain, best first.
    pub explained_count: usize,
    /// Whether to compute `Answer::paths` and `Answer::words`.
    pub paths: bool,
}

/// An answer to one question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The value: usually nodes with scores, at most the requested number.
    pub value: AnswerValue,
    /// Estimated rank after which no more answers follow; `None` if the retriever does not estimate
    /// it.
    pub end: Option<End>,
    /// The categories whose programs answered, most probable first; empty for a retriever without
    /// categories.
    pub route: Vec<RoutedCategory>,
    /// For each node, by position: the paths to the node, one from each linked entity. Empty if no
    /// path is known or [`Detail::paths`] is off.
    pub paths: Vec<Vec<Path>>,
    /// For each node, by position: the words of the question that occur in the node's document or
    /// in its neighbours' names. Empty if [`Detail::paths`] is off.
    pub words: Vec<Vec<String>>,
    /// Explanations of the first [`Detail::explained_count`] nodes, in their order.
    pub explanations: Vec<NodeExplanation>,
    /// How the question was understood.
    pub analysis: QueryAnalysis,
    /// The conditions of the question that the retriever applied, if any.
    pub conditions: Option<AppliedConditions>,
    /// Entities that a language model finds in the question, each with the strength of its link;
    /// empty if no model read the question.
    pub entities: Vec<(NodeId, f32)>,
    /// The system that answered in place of the requested one, if any.
    pub stand_in: Option<StandIn>,
    /// Why the assisting language model did not help; `None` if it helped or no model assists.
    pub unassisted: Option<AssistFailure>,
    /// Duration of each stage, in milliseconds.
    pub timings: BTreeMap<&'static str, f64>,
}

/// The estimated last rank of the answers in a ranking, with the precision and recall expected
/// there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// The last rank, from 1, at which an answer is expected; may exceed the requested number of
    /// nodes.
    pub rank: usize,
    /// Expected share of the nodes up to the rank that are correct, in `0..=1`.
    pub precision: f32,
    /// Expected share of all correct nodes that the nodes up to the rank contain, in `0..=1`.
    pub recall: f32,
}

/// The conditions that a question states, such as a date, and that a retriever applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppliedConditions {
    /// The conditions in the syntax of [`agent_kb::filter`].
    pub texts: Vec<String>,
    /// The question without the conditions.
    pub rest: String,
    /// Number of nodes that fulfil all conditions; they come first in the answer.
    pub n_fulfilled: usize,
}

/// A category whose program answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoutedCategory {
    /// Name of the category.
    pub category: String,
    /// Probability that the question belongs to the category, in `0..=1`.
    pub probability: f32,
    /// Short id of the category's program: a prefix of its id.
    pub program: String,
    /// First line of the program's description.
    pub description: String,
}

/// Explanation of a node's rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeExplanation {
    /// Breakdown of the node's score.
    pub explanation: Explanation,
    /// Tool calls of the programs that ran, in order, each with the node's value in its result.
    pub calls: Vec<Call>,
    /// The node's features in the learned re-ranker, largest absolute gain first; empty without a
    /// re-ranker.
    pub features: Vec<Feature>,
}

/// One tool call of a program, formatted for display. All nodes of an answer share the texts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The category of the program; empty for a single program.
    pub category: Arc<str>,
    /// Line of the program, from 1; `None` if unknown.
    pub line: Option<usize>,
    /// Name of the tool or operator.
    pub tool: &'static str,
    /// Arguments of the tool call; long arguments are shortened for display.
    pub arguments: Arc<[String]>,
    /// Result of the tool call, shortened for display, with the names of its best nodes.
    pub result: Arc<str>,
    /// The value of the explained node in the result: its score, or whether a set contains it;
    /// empty for other results.
    pub value: Cell,
}

/// A feature of one node in the learned re-ranker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Feature {
    /// Name of the feature.
    pub name: String,
    /// Value of the feature for this node.
    pub value: f32,
    /// Weight of the feature in the re-ranker.
    pub weight: f32,
    /// Contribution of the feature to the logarithm of the node's score: the weight times the
    /// difference between the value and the mean value of all candidates.
    pub gain: f32,
}

/// The system that answered in place of the requested one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StandIn {
    /// Name of the system.
    pub system: String,
    /// Why the requested system has no answer.
    pub reason: String,
    /// Whether the requested system reached its time limit.
    pub is_late: bool,
}

/// Why a language model did not help with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssistFailure {
    /// The service of the language model gave no reply, or refused the request.
    Outage,
    /// The reply of the language model could not be used.
    Unusable,
    /// The reply missed the question's deadline.
    Late,
    /// Too many other questions are waiting for the model.
    Busy,
    /// A cost ceiling is reached.
    Ceiling,
}

impl AssistFailure {
    /// Whether the same question may succeed at another time.
    pub fn is_transient(self) -> bool {
        self != Self::Unusable
    }

    /// Returns a message for users.
    pub fn message(self) -> &'static str {
        match self {
            Self::Outage => "the service of the language model failed",
            Self::Unusable => "the language model gave no usable reply",
            Self::Late => "the language model gave no reply in time",
            Self::Busy => "too many questions are waiting for the language model",
            Self::Ceiling => "the budget of the language model is spent",
        }
    }
}

/// How a question was understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryAnalysis {
    /// Whether the question certainly names an entity of the base.
    pub recognised: bool,
    /// Entities that the question names; entities whose whole name occurs in the question come
    /// first.
    pub entities: Vec<LinkedEntity>,
    /// Words that occur in names of types and relations, outside the names of entities, in order.
    pub words: Vec<SchemaWord>,
    /// The remaining words, without question words; only documents can match them.
    pub others: Vec<String>,
    /// Words of `others` that occur neither in the documents of the answer's nodes nor in the names
    /// of their neighbours.
    pub unused: Vec<String>,
    /// Misspelled words, each with the word that is searched instead.
    pub corrected: Vec<(String, String)>,
    /// Relations that a word of the question excludes, ascending: "for a disease" excludes a
    /// relation `causes`. An answer with paths lists only relations that a path follows.
    pub contrary: Vec<RelationId>,
}

/// An entity that a question names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkedEntity {
    /// The entity's node.
    pub node: NodeId,
    /// Whether the question contains the entity's whole name.
    pub exact: bool,
    /// Confidence that the question names this entity, in `0..=1`.
    pub strength: f32,
}

/// A word of the question that occurs in the schema of the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaWord {
    /// The word as written in the question.
    pub word: String,
    /// The types whose names contain the word.
    pub types: Vec<TypeId>,
    /// The relations whose names contain the word.
    pub relations: Vec<RelationId>,
}

impl From<Explanation> for NodeExplanation {
    /// Explains a node by its score alone, without calls and features.
    fn from(explanation: Explanation) -> Self {
        Self { explanation, ..Self::default() }
    }
}

impl QueryAnalysis {
    /// Returns the nodes of the entities whose whole name the question contains; if there are none,
    /// the nodes of all entities.
    pub fn named(&self) -> Vec<NodeId> {
        let exact = self.entities.iter().any(|entity| entity.exact);
        self.entities
            .iter()
            .filter(|entity| entity.exact == exact)
            .map(|entity| entity.node)
            .collect()
    }
}

impl Answer {
    /// Creates an answer from a ranking alone.
    pub fn from_ranking(ranking: Ranking) -> Self {
        Self { value: AnswerValue::nodes(ranking), ..Self::default() }
    }

    /// Creates an answer whose first `detail.explained_count` nodes are explained by `explain`,
    /// which takes the position from 0, the node and its score.
    pub fn with_explanations<E: Into<NodeExplanation>>(
        ranking: Ranking,
        detail: Detail,
        mut explain: impl FnMut(usize, NodeId, f32) -> E,
    ) -> Self {
        let first = ranking.iter().take(detail.explained_count).enumerate();
        let explained = first.map(|(at, &(node, score))| explain(at, node, score).into());
        let explanations = explained.collect();
        Self { explanations, ..Self::from_ranking(ranking) }
    }

    /// Returns the nodes with scores, best first; empty if the value is not a ranking.
    pub fn ranking(&self) -> &[(NodeId, f32)] {
        self.value.as_nodes().unwrap_or_default()
    }

    /// Returns the nodes as [`Answer::ranking`] does, without copying them.
    pub fn into_ranking(self) -> Ranking {
        match self.value {
            AnswerValue::Nodes { nodes } => nodes,
            AnswerValue::Single(_) | AnswerValue::Table(_) => Ranking::new(),
        }
    }
}
