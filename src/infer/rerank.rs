//! `rerank`, and the judge of `--effort 2`: a language model scores the first candidates of another
//! ranking.
//!
//! Source: the LLM reranker of STaRK (Wu et al. 2024). Mended: several candidates are asked about in
//! one request, each with its relations and their directions; every request has what the query names,
//! with its relations, so that the halves of a shortlist are judged alike; the order is that of the
//! scores, and the place in the shortlist parts ties only (added to the score, as in the source, it
//! lets a better placed candidate overtake the best); any number in 0..=1 is read, and one unusable
//! reply does not lose the others.
//!
//! Must not know: programs, which answers are right.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Value, json};

use crate::{Asks, shown::Linked};
use agent_index::IndexedBase;
use agent_kb::{
    NodeId,
    answer::{AnswerValue, Cell, Explanation},
};
use agent_llm::{LlmError, RoleSpec};
use agent_retrieve::{
    Answer, AssistFailure, Detail, NodeExplanation, Ranking, RetrieveError, Retriever, check_query,
    rank_explanation,
};
use agent_tools::{Assistant, AssistantError, unit_score};

/// Scores candidates of a ranking.
pub const RERANK_ROLE: RoleSpec = RoleSpec {
    name: "rerank",
    summary: "scores candidates",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// Candidates that are scored.
const SCORED: usize = 20;
/// Candidates that are scored where none of the first is scored high.
const SCORED_DEEP: usize = 50;
/// The score from which a candidate is scored high.
const HIGH: f32 = 0.8;
/// Candidates of one request.
const A_REQUEST: usize = 10;
/// Requests for one batch of candidates at most: the first, its repair, one more.
const TRIES: usize = 3;
/// Requests for one shortlist: the first 20 in halves, at most 50 with all tries.
pub const RERANK_ASKS: Asks = Asks {
    role: RERANK_ROLE,
    prompt: PROMPT,
    later: None,
    least: SCORED.div_ceil(A_REQUEST),
    most: SCORED_DEEP.div_ceil(A_REQUEST) * TRIES,
};
/// What parts the scores of nodes that the model scores alike.
const TIE: f32 = 1e-6;
/// Characters of a candidate's document in a request.
const DOCUMENT_CHARS: usize = 1_200;
/// The prompt.
const PROMPT: &str = "rerank/score";
/// Rounds in which candidates without a usable score are asked about, with their repairs.
const ROUNDS: [u32; 2] = [1, 0];

/// Reranks the first 20 of another retriever, and the first 50 where the model scores none of the
/// 20 high. Nodes are in the order of their scores, ties in that of the shortlist; a candidate that
/// gets no usable score counts as one that the model scored 0, if the others of its request get one.
/// When none of a request does, the ranking is the shortlist as it is, and [`Answer::unassisted`]
/// says so. What was not judged keeps its order behind what was, with scores -1, -2, ...
pub struct Rerank {
    base: Arc<IndexedBase>,
    shortlist: Box<dyn Retriever>,
    assistant: Arc<Assistant>,
}

/// A shortlist, and the score that the model gives each of its first nodes.
struct Judged {
    shortlist: Answer,
    /// In the order of the shortlist; none without a usable one.
    scores: Vec<Option<f32>>,
    /// Why some of them were not judged at all.
    missed: Option<AssistFailure>,
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

    /// The score that the model gives each node, in their order, none without a usable one; and why
    /// some were not judged at all. After an outage the service is not asked again.
    fn scores(
        &self,
        query: &str,
        linked: &Linked<'_>,
        nodes: &[NodeId],
    ) -> Result<(Vec<Option<f32>>, Option<AssistFailure>), RetrieveError> {
        let (mut scores, mut outage) = (vec![None; nodes.len()], false);
        let mut judged = vec![false; nodes.len()];
        for (sample, repairs) in (0..).zip(ROUNDS) {
            let open: Vec<usize> = (0..nodes.len()).filter(|&at| scores[at].is_none()).collect();
            let batches: Vec<&[usize]> = open.chunks(A_REQUEST).collect();
            if batches.is_empty() {
                break;
            }
            let entities = linked.shown();
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
                    Err(AssistantError::Llm(LlmError::Reply { .. })) => continue,
                    Err(AssistantError::Llm(error)) if error.is_outage() => {
                        outage = true;
                        continue;
                    }
                    Err(AssistantError::Llm(error)) => return Err(error.into()),
                    Err(error) => return Err(RetrieveError::Program(format!("rerank: {error}"))),
                };
                read_scores(&reply, batch, &mut scores);
                if batch.iter().any(|&at| scores[at].is_some()) {
                    batch.iter().for_each(|&at| judged[at] = true);
                }
            }
            if outage {
                return Ok((scores, Some(AssistFailure::Outage)));
            }
        }
        let missed = judged.contains(&false).then_some(AssistFailure::Unusable);
        Ok((scores, missed))
    }

    fn judged(&self, query: &str, k: usize, detail: Detail) -> Result<Judged, RetrieveError> {
        let query = check_query(query)?;
        // Those that come first here are among so many there.
        let explained =
            if detail.explained_count > 0 { detail.explained_count.max(SCORED_DEEP) } else { 0 };
        let detail = Detail { explained_count: explained, ..detail };
        let shortlist = self.shortlist.answer(query, k.max(SCORED_DEEP), detail)?;
        let nodes: Vec<NodeId> =
            shortlist.ranking().iter().take(SCORED_DEEP).map(|pair| pair.0).collect();
        let (first, more) = nodes.split_at(SCORED.min(nodes.len()));
        let linked = Linked::of(&self.base, query).with(&shortlist.entities);
        let (mut scores, mut missed) = self.scores(query, &linked, first)?;
        let best = scores.iter().flatten().copied().reduce(f32::max);
        // Where some of the first were not judged, it does not matter how the others are.
        if best.is_some_and(|best| best < HIGH) && !more.is_empty() && missed.is_none() {
            let (further, missed_further) = self.scores(query, &linked, more)?;
            scores.extend(further);
            missed = missed_further;
        }
        Ok(Judged { shortlist, scores, missed })
    }
}

/// Takes the scores of a reply to a batch of places.
fn read_scores(reply: &Value, batch: &[usize], scores: &mut [Option<f32>]) {
    for entry in reply["scores"].as_array().into_iter().flatten() {
        let n = entry["n"].as_u64().and_then(|n| usize::try_from(n).ok());
        let place = n.and_then(|n| batch.get(n.checked_sub(1)?));
        if let (Some(&at), Some(score)) = (place, unit_score(&entry["score"])) {
            // Of several scores of one candidate the first counts.
            scores[at].get_or_insert(score as f32);
        }
    }
}

impl Judged {
    /// The nodes in the order of their scores, ties in that of the shortlist; those that were not
    /// judged follow.
    fn ranking(&self) -> Ranking {
        let (shortlist, n) = (self.shortlist.ranking(), self.scores.len());
        let mut order: Vec<usize> = (0..n).collect();
        let score = |at: usize| self.scores[at].unwrap_or(0.0);
        // Stable: equal scores keep their places.
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
        format!("rerank:{}", self.shortlist.name())
    }

    /// Where some were not judged, the shortlist's own answer as it is, with its end: scores of the
    /// others alone would put them all before these.
    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let judged = self.judged(query, k, detail)?;
        if judged.missed.is_some() || judged.scores.is_empty() {
            let unassisted = judged.missed.or(judged.shortlist.unassisted);
            return Ok(Answer { unassisted, ..cut(judged.shortlist, k, detail) });
        }
        let mut ranking = judged.ranking();
        ranking.truncate(k);
        Ok(self.told(ranking, judged, detail))
    }

    fn category(&self, query: &str) -> Result<Option<String>, RetrieveError> {
        self.shortlist.category(query)
    }
}

/// An answer with at most `k` nodes, and no more detail than is asked for.
fn cut(answer: Answer, k: usize, detail: Detail) -> Answer {
    let mut ranking = answer.ranking().to_vec();
    ranking.truncate(k);
    let (mut paths, mut words, mut why) =
        (answer.paths.clone(), answer.words.clone(), answer.explanations.clone());
    paths.truncate(k);
    words.truncate(k);
    why.truncate(detail.explained_count.min(k));
    Answer { value: AnswerValue::nodes(ranking), paths, words, explanations: why, ..answer }
}

impl Rerank {
    /// The ranking with what the shortlist's own answer says of each node, and what the model does.
    fn told(&self, ranking: Ranking, judged: Judged, detail: Detail) -> Answer {
        let Judged { shortlist: given, scores, .. } = judged;
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

/// What the model says of a node at a place of the shortlist, from 0.
fn judgement(place: Option<usize>, scores: &[Option<f32>]) -> Vec<Explanation> {
    let n = scores.len();
    let Some((at, score)) = place.and_then(|at| Some((at, scores.get(at)?))) else {
        return vec![Explanation::new("the model", format!("asked about the first {n} alone"))];
    };
    let given = score.map_or(Cell::from("no usable score"), Cell::from);
    vec![Explanation::new("the model", given), Explanation::new("its place before", at + 1)]
}
