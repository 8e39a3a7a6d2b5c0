//! The system `rerank`, also used by `--effort 2`: a language model scores the first nodes of
//! another system's ranking.
//!
//! Source: the LLM reranker of STaRK (Wu et al. 2024). Differences:
//!
//! - A request has several candidates, each with its relations and their directions.
//! - Every request shows the linked entities with their relations, so that all batches are scored
//!   consistently.
//! - Nodes are ordered by score; the shortlist only breaks ties. The source adds the rank in the
//!   shortlist to the score, which lets lower scores win.
//! - Any number in 0..=1 is accepted. An unusable reply does not affect other batches.

use std::{collections::HashMap, iter, sync::Arc};

use serde_json::{Value, json};

use crate::{
    RequestBounds, assist_failure, log_unassisted,
    shown::{LinkedEntities, RELATION_CHARS},
};
use agent_index::IndexedBase;
use agent_kb::{
    NodeId,
    answer::{AnswerValue, Cell, Explanation},
};
use agent_llm::RoleSpec;
use agent_retrieve::{
    Answer, AssistFailure, Detail, NodeExplanation, Ranking, RetrieveError, Retriever, check_query,
    rank_explanation,
};
use agent_tools::{Assistant, unit_score};

/// The role that scores candidates of a ranking.
pub const RERANK_ROLE: RoleSpec = RoleSpec {
    name: "rerank",
    summary: "scores candidates",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// Number of stages in which candidates are scored.
const STAGES: usize = 3;
/// Default number of candidates that are scored by the end of each stage.
const SCORED: [usize; STAGES] = [10, 20, 50];
/// For each stage after the first: the stage is skipped if a node has at least this score.
const ENOUGH: [f32; STAGES - 1] = [0.9, 0.8];
/// Maximum number of candidates of one request.
const PER_REQUEST: usize = 10;
/// Maximum number of requests for one batch of candidates: the first request, its repair, and one
/// more request.
const MAX_TRIES: usize = 3;
/// Request bounds for one shortlist: at least one batch, for the first 10 candidates; at most five
/// batches, for 50 candidates, with at most three requests each.
pub const RERANK_REQUESTS: RequestBounds = Depth::DEFAULT.requests();
/// Minimum difference between the scores of consecutive nodes, also if the model scores them
/// equally.
const TIE: f32 = 1e-6;
/// Maximum length in characters of a candidate's document in a request.
const DOCUMENT_CHARS: usize = 1_200;
/// Name of the prompt.
const PROMPT: &str = "rerank/score";
/// Number of candidates of a shortlist that the model scores, by stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// Number of candidates that are scored by the end of each stage, ascending.
    ends: [usize; STAGES],
}

impl Depth {
    const DEFAULT: Self = Self { ends: SCORED };

    /// Creates a depth of exactly the first `k` candidates, like that of STaRK's rerankers.
    pub fn exactly(k: usize) -> Self {
        Self { ends: [k; STAGES] }
    }

    /// Returns the request bounds for one shortlist.
    pub const fn requests(self) -> RequestBounds {
        RequestBounds {
            role: RERANK_ROLE,
            prompt: PROMPT,
            later: None,
            min: self.ends[0].div_ceil(PER_REQUEST),
            max: self.deepest().div_ceil(PER_REQUEST) * MAX_TRIES,
        }
    }

    /// Returns the number of candidates that are scored if no stage is skipped.
    const fn deepest(self) -> usize {
        self.ends[STAGES - 1]
    }
}

impl Default for Depth {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Maximum number of repairs of one request, by round. Each round asks about the candidates that
/// have no usable score yet.
const ROUNDS: [u32; 2] = [1, 0];

/// Reranks the first nodes of another retriever's ranking, the shortlist; [`Depth`] sets their
/// number. By default, 10 nodes are scored; 20 if none of the 10 scores 0.9 or higher, and 50 if
/// none of the 20 scores 0.8 or higher. The nodes are ordered by the model's score, ties as in the
/// shortlist. A candidate without a usable score counts as 0 if another candidate of the same
/// request has a usable score. If no candidate of a request has a usable score, the shortlist is
/// returned unchanged, and [`Answer::unassisted`] holds the reason. Nodes beyond the depth follow
/// in the order of the shortlist, with scores -1, -2, ...
pub struct Rerank {
    base: Arc<IndexedBase>,
    shortlist: Box<dyn Retriever>,
    assistant: Arc<Assistant>,
    depth: Depth,
}

/// A shortlist with the model's scores of its first nodes.
struct ScoredShortlist {
    shortlist: Answer,
    /// The model's scores in the order of the shortlist; `None` for a node without a usable score.
    scores: Vec<Option<f32>>,
    /// Why a batch got no score at all; `None` if every batch got at least one usable score.
    missed: Option<AssistFailure>,
}

impl Rerank {
    /// Creates a retriever that reranks the shortlists of another retriever over the same base.
    pub fn new(
        base: Arc<IndexedBase>,
        shortlist: Box<dyn Retriever>,
        assistant: Arc<Assistant>,
    ) -> Self {
        Self { base, shortlist, assistant, depth: Depth::DEFAULT }
    }

    /// Sets the number of candidates to score.
    #[must_use]
    pub fn to_depth(self, depth: Depth) -> Self {
        Self { depth, ..self }
    }

    /// Asks the model to score the nodes; returns the scores in the order of `nodes`, and the
    /// reason if a whole batch was not scored. After a round with an outage no further request is
    /// sent.
    fn scores(
        &self,
        query: &str,
        linked: &LinkedEntities<'_>,
        nodes: &[NodeId],
    ) -> Result<(Vec<Option<f32>>, Option<AssistFailure>), RetrieveError> {
        let (mut scores, mut outage) = (vec![None; nodes.len()], false);
        let mut judged = vec![false; nodes.len()];
        for (sample, repairs) in (0..).zip(ROUNDS) {
            let open: Vec<usize> = (0..nodes.len()).filter(|&at| scores[at].is_none()).collect();
            let batches: Vec<&[usize]> = open.chunks(PER_REQUEST).collect();
            if batches.is_empty() {
                break;
            }
            let entities = linked.shown(RELATION_CHARS);
            let requests = batches.iter().map(|batch| {
                let candidates: Vec<Value> = (1..)
                    .zip(*batch)
                    .map(|(n, &at)| {
                        let text = linked.candidate(nodes[at], query, DOCUMENT_CHARS);
                        json!({"n": n, "text": text})
                    })
                    .collect();
                let inputs =
                    json!({"query": query, "entities": entities, "candidates": candidates});
                self.assistant.request(RERANK_ROLE.role(), PROMPT, inputs, sample)
            });
            let replies = self.assistant.ask_json(requests.collect(), repairs);
            for (batch, (reply, _)) in batches.iter().zip(replies) {
                let reply = match reply {
                    Ok(reply) => reply,
                    Err(error) => {
                        let failure = assist_failure(&RERANK_ROLE, error, "rerank: ")?;
                        outage |= failure == AssistFailure::Outage;
                        continue;
                    }
                };
                read_scores(&reply, batch, &mut scores);
                if batch.iter().any(|&at| scores[at].is_some()) {
                    batch.iter().for_each(|&at| judged[at] = true);
                } else {
                    log_unassisted(&RERANK_ROLE, "the reply has no usable score");
                }
            }
            if outage {
                return Ok((scores, Some(AssistFailure::Outage)));
            }
        }
        let missed = judged.contains(&false).then_some(AssistFailure::Unusable);
        Ok((scores, missed))
    }

    fn score_shortlist(
        &self,
        query: &str,
        k: usize,
        detail: Detail,
    ) -> Result<ScoredShortlist, RetrieveError> {
        let query = check_query(query)?;
        let deep = self.depth.deepest();
        // Any of the first `deep` nodes may need its explanation.
        let explained =
            if detail.explained_count > 0 { detail.explained_count.max(deep) } else { 0 };
        let detail = Detail { explained_count: explained, ..detail };
        let shortlist = self.shortlist.answer(query, k.max(deep), detail)?;
        let nodes: Vec<NodeId> = shortlist.ranking().iter().take(deep).map(|pair| pair.0).collect();
        let linked = LinkedEntities::link(&self.base, query).with(&shortlist.entities);
        let (mut scores, mut missed): (Vec<Option<f32>>, _) = (Vec::new(), None);
        let until = iter::once(f32::INFINITY).chain(ENOUGH);
        for (end, enough) in self.depth.ends.into_iter().zip(until) {
            let further = &nodes[scores.len()..end.min(nodes.len())];
            let is_enough = scores.iter().flatten().any(|&score| score >= enough);
            // If a batch was not scored, the shortlist is returned unchanged.
            if further.is_empty() || is_enough || missed.is_some() {
                break;
            }
            let (more, missed_more) = self.scores(query, &linked, further)?;
            scores.extend(more);
            missed = missed_more;
        }
        Ok(ScoredShortlist { shortlist, scores, missed })
    }

    /// Makes the answer; the explanation of a node joins the explanations by the shortlist and by
    /// the model.
    fn explained(&self, ranking: Ranking, judged: ScoredShortlist, detail: Detail) -> Answer {
        let ScoredShortlist { shortlist: given, scores, .. } = judged;
        let places: HashMap<NodeId, usize> =
            given.ranking().iter().enumerate().map(|(at, pair)| (pair.0, at)).collect();
        let before = |node: NodeId| places.get(&node).copied();
        let why =
            ranking.iter().take(detail.explained_count).enumerate().map(|(at, &(node, score))| {
                let of_shortlist = before(node).and_then(|at| given.explanations.get(at)).cloned();
                let own = rank_explanation(&self.name(), at, score)
                    .with(judgement(before(node), &scores));
                let of_shortlist = of_shortlist.unwrap_or_default();
                NodeExplanation {
                    explanation: own.with([of_shortlist.explanation]),
                    ..of_shortlist
                }
            });
        let why = why.collect();
        let paths = |&(node, _): &(NodeId, f32)| {
            before(node).and_then(|at| given.paths.get(at)).cloned().unwrap_or_default()
        };
        let paths = match detail.paths {
            true => ranking.iter().map(paths).collect(),
            false => Vec::new(),
        };
        Answer { value: AnswerValue::nodes(ranking), end: None, paths, explanations: why, ..given }
    }
}

/// Copies the usable scores of a reply into `scores`; `batch` holds the positions of the reply's
/// candidates.
fn read_scores(reply: &Value, batch: &[usize], scores: &mut [Option<f32>]) {
    for entry in reply["scores"].as_array().into_iter().flatten() {
        let n = entry["n"].as_u64().and_then(|n| usize::try_from(n).ok());
        let place = n.and_then(|n| batch.get(n.checked_sub(1)?));
        if let (Some(&at), Some(score)) = (place, unit_score(&entry["score"])) {
            // The first score of a candidate counts.
            scores[at].get_or_insert(score as f32);
        }
    }
}

impl ScoredShortlist {
    /// Ranks the nodes by score, ties as in the shortlist; nodes that were not sent to the model
    /// follow.
    fn ranking(&self) -> Ranking {
        let (shortlist, n) = (self.shortlist.ranking(), self.scores.len());
        let mut order: Vec<usize> = (0..n).collect();
        let score = |at: usize| self.scores[at].unwrap_or(0.0);
        // Stable: equal scores keep their order.
        order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
        let mut last = f32::INFINITY;
        let mut ranking: Ranking = Vec::with_capacity(shortlist.len());
        for at in order {
            last = score(at).min(last - TIE);
            ranking.push((shortlist[at].0, last));
        }
        let rest = shortlist.iter().skip(n).zip(1..);
        ranking.extend(rest.map(|(pair, behind)| (pair.0, -(behind as f32))));
        ranking
    }
}

impl Retriever for Rerank {
    fn name(&self) -> String {
        let name = format!("rerank:{}", self.shortlist.name());
        match self.depth {
            Depth::DEFAULT => name,
            depth => format!("{name}:k={}", depth.deepest()),
        }
    }

    /// If a batch was not scored, returns the shortlist's answer with its cut-off: ranking by the
    /// remaining scores would put all unscored nodes last.
    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let judged = self.score_shortlist(query, k, detail)?;
        if judged.missed.is_some() || judged.scores.is_empty() {
            let unassisted = judged.missed.or(judged.shortlist.unassisted);
            return Ok(Answer { unassisted, ..cut(judged.shortlist, k, detail) });
        }
        let mut ranking = judged.ranking();
        ranking.truncate(k);
        Ok(self.explained(ranking, judged, detail))
    }

    fn category(&self, query: &str) -> Result<Option<String>, RetrieveError> {
        self.shortlist.category(query)
    }
}

/// Cuts an answer to `k` nodes and the requested detail.
fn cut(mut answer: Answer, k: usize, detail: Detail) -> Answer {
    let mut ranking = answer.ranking().to_vec();
    ranking.truncate(k);
    answer.paths.truncate(k);
    answer.words.truncate(k);
    answer.explanations.truncate(detail.explained_count.min(k));
    Answer { value: AnswerValue::nodes(ranking), ..answer }
}

/// Explains a node by the model's score and by `place`, the node's position in the shortlist, from
/// 0.
fn judgement(place: Option<usize>, scores: &[Option<f32>]) -> Vec<Explanation> {
    let n = scores.len();
    let Some((at, score)) = place.and_then(|at| Some((at, scores.get(at)?))) else {
        return vec![Explanation::new("the model", format!("scored only the first {n} nodes"))];
    };
    let given = score.map_or(Cell::from("no usable score"), Cell::from);
    vec![Explanation::new("the model", given), Explanation::new("rank in the shortlist", at + 1)]
}
