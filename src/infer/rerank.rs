//! `rerank`: a language model scores the first candidates of another ranking.
//!
//! Source: the LLM reranker of STaRK (Wu et al. 2024): final score = score of the model in 0..=1
//! plus 0.1 * (n - i) / n for place i of n, from 0. Mended: several candidates are asked about in
//! one request, any number in 0..=1 is read, and one unusable reply does not lose the others.
//!
//! Must not know: programs, which answers are right.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Value, json};

use crate::{
    answer::{AnswerValue, Cell, Explanation},
    index::IndexedBase,
    kb::{NodeId, best},
    llm::{LlmError, RoleSpec},
    retrieve::{Answer, Detail, Ranking, RetrieveError, Retriever, Why, checked, place_of},
    tools::{Assistant, AssistantError, document_about, unit_score},
};

/// Scores candidates of a ranking.
pub const RERANK_ROLE: RoleSpec = RoleSpec {
    name: "rerank",
    summary: "scores candidates",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// Candidates that are scored.
const SCORED: usize = 20;
/// Candidates of one request.
const A_REQUEST: usize = 10;
/// Weight of the place in the shortlist.
const PLACE_WEIGHT: f32 = 0.1;
/// Characters of a candidate's document in a request.
const DOCUMENT_CHARS: usize = 3_000;
/// The prompt.
const PROMPT: &str = "rerank/score";
/// Rounds in which candidates without a usable score are asked about, with their repairs.
const ROUNDS: [u32; 2] = [1, 0];

/// Reranks the first 20 of another retriever. A candidate that gets no usable score counts as one
/// that the model scored 0: it keeps its place among those. When no candidate gets one, the ranking
/// is the shortlist. What follows the first 20 keeps its order behind them, with scores -1, -2, ...
pub struct Rerank {
    base: Arc<IndexedBase>,
    shortlist: Box<dyn Retriever>,
    assistant: Arc<Assistant>,
}

impl Rerank {
    /// A reranker of the shortlists that a retriever over the same base gives.
    pub fn new(
        base: Arc<IndexedBase>,
        shortlist: Box<dyn Retriever>,
        assistant: Arc<Assistant>,
    ) -> Self {
        Self { base, shortlist, assistant }
    }

    /// The score that the model gives each node, in their order; none without a usable one.
    fn scores(&self, query: &str, nodes: &[NodeId]) -> Result<Vec<Option<f32>>, RetrieveError> {
        let mut scores = vec![None; nodes.len()];
        for (sample, repairs) in (0..).zip(ROUNDS) {
            let open: Vec<usize> = (0..nodes.len()).filter(|&at| scores[at].is_none()).collect();
            let batches: Vec<&[usize]> = open.chunks(A_REQUEST).collect();
            if batches.is_empty() {
                break;
            }
            let requests = batches.iter().map(|batch| {
                let candidates: Vec<Value> = batch
                    .iter()
                    .zip(1..)
                    .map(|(&at, n)| self.candidate(query, nodes[at], n))
                    .collect();
                let inputs = json!({"query": query, "candidates": candidates});
                self.assistant.request(RERANK_ROLE.role(), PROMPT, inputs, sample)
            });
            let replies = self.assistant.json_of(requests.collect(), repairs);
            for (batch, (reply, _)) in batches.iter().zip(replies) {
                let reply = match reply {
                    Ok(reply) => reply,
                    Err(AssistantError::Llm(LlmError::Reply { .. })) => continue,
                    Err(AssistantError::Llm(error)) => return Err(error.into()),
                    Err(error) => return Err(RetrieveError::Program(format!("rerank: {error}"))),
                };
                for entry in reply["scores"].as_array().into_iter().flatten() {
                    let n = entry["n"].as_u64().and_then(|n| usize::try_from(n).ok());
                    let place = n.and_then(|n| batch.get(n.checked_sub(1)?));
                    let score = unit_score(&entry["score"]);
                    if let (Some(&at), Some(score)) = (place, score) {
                        // Of several scores of one candidate the first counts.
                        scores[at].get_or_insert(score as f32);
                    }
                }
            }
        }
        Ok(scores)
    }

    fn candidate(&self, query: &str, node: NodeId, n: usize) -> Value {
        let kind = self.base.kb.type_name(self.base.kb.node_type(node));
        let text = document_about(&self.base, node, query, DOCUMENT_CHARS);
        json!({"n": n, "type": kind, "text": text})
    }
}

/// The final score of place `at` of `n`, from 0.
fn final_score(score: Option<f32>, at: usize, n: usize) -> f32 {
    score.unwrap_or(0.0) + PLACE_WEIGHT * (n - at) as f32 / n as f32
}

impl Retriever for Rerank {
    fn name(&self) -> String {
        format!("rerank:{}", self.shortlist.name())
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = checked(query)?;
        // Those that come first here are among so many there.
        let explained = if detail.explained > 0 { detail.explained.max(SCORED) } else { 0 };
        let first = Detail { explained, ..detail };
        let given = self.shortlist.answer(query, k.max(SCORED), first)?;
        let shortlist = given.ranking();
        let nodes: Vec<NodeId> = shortlist.iter().take(SCORED).map(|pair| pair.0).collect();
        let scores = self.scores(query, &nodes)?;
        let n = scores.len();
        let reranked = shortlist.iter().zip(&scores).enumerate();
        let first = reranked.map(|(at, (pair, score))| (pair.0, final_score(*score, at, n)));
        let mut ranking = best(first.collect(), n);
        let rest = shortlist.iter().skip(n).zip(1..);
        ranking.extend(rest.map(|(pair, behind)| (pair.0, -(behind as f32))));
        ranking.truncate(k);
        Ok(self.told(ranking, given, &scores, detail))
    }

    fn category(&self, query: &str) -> Result<Option<String>, RetrieveError> {
        self.shortlist.category(query)
    }
}

impl Rerank {
    /// The ranking with what the shortlist's own answer says of each node, and what the model does.
    fn told(
        &self,
        ranking: Ranking,
        given: Answer,
        scores: &[Option<f32>],
        detail: Detail,
    ) -> Answer {
        let places: HashMap<NodeId, usize> =
            given.ranking().iter().enumerate().map(|(at, pair)| (pair.0, at)).collect();
        let before = |node: NodeId| places.get(&node).copied();
        let why = ranking.iter().take(detail.explained).enumerate().map(|(at, &(node, score))| {
            let of_shortlist = before(node).and_then(|at| given.why.get(at)).cloned();
            let own = place_of(&self.name(), at, score).with(self.judgement(before(node), scores));
            let of_shortlist = of_shortlist.unwrap_or_default();
            Why { explanation: own.with([of_shortlist.explanation]), ..of_shortlist }
        });
        let why = why.collect();
        let paths = |&(node, _): &(NodeId, f32)| {
            before(node).and_then(|at| given.paths.get(at)).cloned().unwrap_or_default()
        };
        let paths = match detail.paths {
            true => ranking.iter().map(paths).collect(),
            false => Vec::new(),
        };
        Answer { value: AnswerValue::nodes(ranking), end: None, paths, why, ..given }
    }

    /// What the model says of a node at a place of the shortlist, from 0, and what that place adds.
    fn judgement(&self, place: Option<usize>, scores: &[Option<f32>]) -> Vec<Explanation> {
        let n = scores.len();
        let Some((at, score)) = place.and_then(|at| Some((at, scores.get(at)?))) else {
            return vec![Explanation::new("the model", format!("asked about the first {n} alone"))];
        };
        let given = score.map_or(Cell::from("no usable score"), Cell::from);
        let adds = PLACE_WEIGHT * (n - at) as f32 / n as f32;
        vec![Explanation::new("the model", given), Explanation::new("its place before adds", adds)]
    }
}
