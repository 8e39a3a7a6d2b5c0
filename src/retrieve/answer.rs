//! The answer to one question, from one run: its value, the estimated end of the answers in its
//! ranking, the programs that answered, and an explanation of each node's rank. Independent of
//! retrieval and printing.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use crate::Ranking;
use agent_kb::{
    NodeId, Path, RelationId, TypeId,
    answer::{AnswerValue, Cell, Explanation},
};

/// Optional parts of an answer; omitted parts cost nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Number of nodes to explain, from the best on.
    pub explained_count: usize,
    /// Include the path from linked entities to each node, if the retriever followed one, and the
    /// words that the question shares with its document or the names of its neighbours.
    pub paths: bool,
}

/// An answer to one question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The value; at most the requested number of nodes.
    pub value: AnswerValue,
    /// Estimated end of the answers in the nodes; none if the retriever does not estimate it.
    pub end: Option<End>,
    /// The categories whose programs answered, most probable first; empty for a retriever without
    /// categories.
    pub route: Vec<RoutedCategory>,
    /// Paths to each node, by its position: one from each linked entity; empty if none is known or
    /// [`Detail::paths`] is off.
    pub paths: Vec<Vec<Path>>,
    /// Words of the question that are in the document of each node or the names of its neighbours,
    /// by position; empty if [`Detail::paths`] is off.
    pub words: Vec<Vec<String>>,
    /// Explanations of the first [`Detail::explained_count`] nodes, in their order.
    pub explanations: Vec<NodeExplanation>,
    /// How the question was understood.
    pub analysis: QueryAnalysis,
    /// The conditions of the question that the retriever applied, if any.
    pub conditions: Option<AppliedConditions>,
    /// Entities that a language model names in the question, each with the strength of its link;
    /// empty if no model read the question.
    pub entities: Vec<(NodeId, f32)>,
    /// The system that answered in place of the requested one, if any.
    pub stand_in: Option<StandIn>,
    /// Why the assisting language model did not help; none if it helped or no model assists.
    pub unassisted: Option<AssistFailure>,
    /// Milliseconds by stage.
    pub timings: BTreeMap<&'static str, f64>,
}

/// The last rank of the answers in a ranking, with the expected precision and recall there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// The rank, from 1; may exceed the requested number of nodes.
    pub rank: usize,
    /// Expected share of correct nodes up to the rank, in `0..=1`.
    pub precision: f32,
    /// Expected share of all correct nodes found up to the rank, in `0..=1`.
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
    /// Probability that the question belongs to it, in `0..=1`.
    pub probability: f32,
    /// Prefix of the program's id.
    pub program: String,
    /// First line of the program's description.
    pub description: String,
}

/// Explanation of a node's rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeExplanation {
    /// Breakdown of the node's score.
    pub explanation: Explanation,
    /// Calls of the programs that ran, in order, with the node's value in each.
    pub calls: Vec<Call>,
    /// Features of the learned re-ranker, largest gain first; empty without one.
    pub features: Vec<Feature>,
}

/// One call of a tool by a program. All nodes of an answer share its texts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The category of the program; empty for a single program.
    pub category: Arc<str>,
    /// Line of the program, from 1; none if unknown.
    pub line: Option<usize>,
    /// The tool or operator.
    pub tool: &'static str,
    /// The arguments, abbreviated.
    pub arguments: Arc<[String]>,
    /// The result, abbreviated, with the names of its best nodes.
    pub result: Arc<str>,
    /// The node's score, or whether it is in the set; empty for other results.
    pub value: Cell,
}

/// One feature of the learned re-ranker on one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Feature {
    /// Its name.
    pub name: String,
    /// Its value for this node.
    pub value: f32,
    /// Its weight.
    pub weight: f32,
    /// Weight times the value's excess over the mean of all proposed nodes: the contribution to the
    /// logarithm of the node's score.
    pub gain: f32,
}

/// The system that answered in place of the requested one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StandIn {
    /// Name of the system.
    pub system: String,
    /// Why the requested system has no answer.
    pub reason: String,
    /// Whether the reason is a time limit.
    pub is_late: bool,
}

/// Why a language model did not help with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssistFailure {
    /// The service gave no reply.
    Outage,
    /// Its reply could not be used.
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

    /// The failure as a message.
    pub fn message(self) -> &'static str {
        match self {
            Self::Outage => "the service of the language model gave no reply",
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
    /// Whether it certainly names an entity of the base.
    pub recognised: bool,
    /// Linked entities; those whose whole name is spelled out come first.
    pub entities: Vec<LinkedEntity>,
    /// Other words that occur in names of types and relations, in order.
    pub words: Vec<SchemaWord>,
    /// Remaining words, without question words; they can match documents only.
    pub others: Vec<String>,
    /// Words of `others` that occur in no answer node's document and no name of its neighbours.
    pub unused: Vec<String>,
    /// Relations that a word of the question excludes, as "for" excludes causes, ascending; in an
    /// answer with paths, those that a path follows.
    pub contrary: Vec<RelationId>,
}

/// An entity that a question names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkedEntity {
    /// Its node.
    pub node: NodeId,
    /// Whether the question spells out its whole name.
    pub exact: bool,
    /// Strength of the link, in `0..=1`.
    pub strength: f32,
}

/// A word of the question that occurs in the schema of the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaWord {
    /// The word as written.
    pub word: String,
    /// The types whose names contain it.
    pub types: Vec<TypeId>,
    /// The relations whose names contain it.
    pub relations: Vec<RelationId>,
}

impl QueryAnalysis {
    /// The linked nodes whose name is spelled out; all linked nodes if there is none.
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
    pub fn with_explanations(
        ranking: Ranking,
        detail: Detail,
        mut explain: impl FnMut(usize, NodeId, f32) -> Explanation,
    ) -> Self {
        let first = ranking.iter().take(detail.explained_count).enumerate();
        let explanations = first
            .map(|(position, &(node, score))| NodeExplanation {
                explanation: explain(position, node, score),
                ..NodeExplanation::default()
            })
            .collect();
        Self { explanations, ..Self::from_ranking(ranking) }
    }

    /// The nodes with scores, best first; empty if the value is not a ranking.
    pub fn ranking(&self) -> &[(NodeId, f32)] {
        self.value.as_nodes().unwrap_or_default()
    }

    /// As [`Answer::ranking`], owned.
    pub fn into_ranking(self) -> Ranking {
        match self.value {
            AnswerValue::Nodes { nodes } => nodes,
            AnswerValue::Single(_) | AnswerValue::Table(_) => Ranking::new(),
        }
    }
}
