//! What a retriever says to one question, all of it from one run: the value, where the nodes end
//! that answer, who answered, and why each node has its place. Must not know how it is found or
//! printed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Ranking;
use agent_kb::{
    NodeId, Path, RelationId, TypeId,
    answer::{AnswerValue, Cell, Explanation},
};

/// How much is told of an answer. What is not asked for costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// So many nodes, the first ones, are explained.
    pub explained: usize,
    /// Whether the way from what the question names to each node is told, as far as the retriever
    /// went one, and the words that it shares with the document of each or the names of its
    /// neighbours.
    pub paths: bool,
}

/// An answer to one question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// What answers it; of nodes at most as many as were asked for.
    pub value: AnswerValue,
    /// Where in the nodes the answers end; none where the retriever cannot tell.
    pub end: Option<End>,
    /// The categories whose programs answered, most probable first; empty for a retriever without
    /// categories.
    pub route: Vec<Way>,
    /// By place in the nodes, the paths that lead to each, one from each entity that the question
    /// names; empty where none is known or none was asked for.
    pub paths: Vec<Vec<Path>>,
    /// By place in the nodes, the words of the question that the document of each or the names of
    /// its neighbours have; empty where none were asked for.
    pub words: Vec<Vec<String>>,
    /// Why the first nodes have their places, in their order; as many as were asked for.
    pub why: Vec<Why>,
    /// What of the question is understood.
    pub understood: Understood,
    /// The entities that a language model reads in the question, with how surely each bears the name
    /// that the model gives; empty where none read it.
    pub entities: Vec<(NodeId, f32)>,
    /// Who answered, if it was not who was asked.
    pub stand_in: Option<StandIn>,
    /// Why it is as without the language model that was to better it; none where none was to, or
    /// did.
    pub unassisted: Option<Miss>,
    /// Milliseconds by stage.
    pub timings: BTreeMap<&'static str, f64>,
}

/// The last place of a ranking that is an answer, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// Its rank, from 1; it may lie behind the nodes that were asked for.
    pub rank: usize,
    /// Share of the nodes up to there that are expected to be right, in `0..=1`.
    pub precision: f32,
    /// Share of the right nodes that are expected up to there, in `0..=1`.
    pub recall: f32,
}

/// A category whose program answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Way {
    /// Its name.
    pub category: String,
    /// How probable it is that the question belongs to it, in `0..=1`.
    pub probability: f32,
    /// The beginning of its program's id.
    pub program: String,
    /// The first line of what its program says of itself.
    pub description: String,
}

/// Why a node has its place.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Why {
    /// What its place is made of.
    pub explanation: Explanation,
    /// The calls of the programs that ran, in order, and what each says of the node.
    pub calls: Vec<Call>,
    /// What the learned re-ranker says of it, largest gain first; empty without one.
    pub features: Vec<Feature>,
}

/// One call of a tool by a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The category of the program; empty for a single program.
    pub category: String,
    /// The line of the program, from 1; none if it is not known.
    pub line: Option<usize>,
    /// The tool or operator.
    pub tool: String,
    /// The arguments, each in few characters.
    pub arguments: Vec<String>,
    /// What it gave, in few characters, with the names of its best nodes.
    pub result: String,
    /// Of scores that of the node, of a set whether the node is in it; empty for all else.
    pub value: Cell,
}

/// One feature of the learned re-ranker on one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Feature {
    /// Its name.
    pub name: String,
    /// What it is on this node.
    pub value: f32,
    /// Its weight.
    pub weight: f32,
    /// By as much it raises the logarithm of the node's score over the mean of all nodes put
    /// forward: weight times what the value exceeds their mean by.
    pub gain: f32,
}

/// Who answered for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StandIn {
    /// The system whose answer it is.
    pub system: String,
    /// Why the one that was asked has none.
    pub reason: String,
    /// Whether that is a time limit.
    pub is_late: bool,
}

/// Why a language model did not help with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// Its service gave no reply.
    Outage,
    /// Its reply could not be used.
    Unusable,
    /// Its reply did not come in the time that the question had.
    Late,
    /// Too many other questions waited for it.
    Busy,
    /// A ceiling on what it may cost is reached.
    Ceiling,
}

impl Miss {
    /// Whether the same question may well be helped another time.
    pub fn passes(self) -> bool {
        self != Self::Unusable
    }

    /// The same in words.
    pub fn told(self) -> &'static str {
        match self {
            Self::Outage => "the service of the language model gave no reply",
            Self::Unusable => "the language model gave no usable reply",
            Self::Late => "the language model gave no reply in time",
            Self::Busy => "too many questions wait for the language model",
            Self::Ceiling => "the budget of the language model is spent",
        }
    }
}

/// What of a question is understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Understood {
    /// Whether it surely names anything of the base.
    pub recognised: bool,
    /// The entities that it names: those that it spells out first.
    pub entities: Vec<LinkedEntity>,
    /// Other words that the names of types and relations have, in order.
    pub words: Vec<SchemaWord>,
    /// Words that are neither, and shape no question; only documents can have them.
    pub others: Vec<String>,
    /// Those of them that no document of the answer has, nor a name beside it.
    pub unused: Vec<String>,
}

/// An entity that a question names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkedEntity {
    /// Its node.
    pub node: NodeId,
    /// Whether its whole name is spelled out.
    pub exact: bool,
    /// How surely it is meant, in `0..=1`.
    pub strength: f32,
}

/// A word that the schema of the base has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaWord {
    /// The word as it is written.
    pub word: String,
    /// The types in whose name it is.
    pub types: Vec<TypeId>,
    /// The relations in whose name it is.
    pub relations: Vec<RelationId>,
}

impl Understood {
    /// The nodes that the question names: those that it spells out, else those that it surely means.
    pub fn named(&self) -> Vec<NodeId> {
        let exact = self.entities.iter().any(|entity| entity.exact);
        self.entities.iter().filter(|one| one.exact == exact).map(|one| one.node).collect()
    }
}

impl Answer {
    /// Ranked nodes, and nothing else known of them.
    pub fn of(ranking: Ranking) -> Self {
        Self { value: AnswerValue::nodes(ranking), ..Self::default() }
    }

    /// Ranked nodes, the first `detail.explained` of which are explained by `explain`, which is given
    /// the place from 0, the node and its score.
    pub fn explained(
        ranking: Ranking,
        detail: Detail,
        mut explain: impl FnMut(usize, NodeId, f32) -> Explanation,
    ) -> Self {
        let first = ranking.iter().take(detail.explained).enumerate();
        let why = first
            .map(|(at, &(node, score))| Why {
                explanation: explain(at, node, score),
                ..Why::default()
            })
            .collect();
        Self { why, ..Self::of(ranking) }
    }

    /// The nodes with scores, best first; none where the answer is no nodes.
    pub fn ranking(&self) -> &[(NodeId, f32)] {
        self.value.as_nodes().unwrap_or_default()
    }

    /// The same, taken.
    pub fn into_ranking(self) -> Ranking {
        match self.value {
            AnswerValue::Nodes { nodes } => nodes,
            AnswerValue::Single(_) | AnswerValue::Table(_) => Ranking::new(),
        }
    }
}
