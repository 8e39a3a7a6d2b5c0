//! Retrieval-augmented generation: a short answer in prose, written by a language model from the
//! nodes that a system found, of which only what these nodes support is kept.
//!
//! Source: RAG (Lewis et al. 2020), with citations that are checked as in ALCE (Gao et al. 2023).
//!
//! 1. The model is shown the question and the first ten nodes, with their relations and what joins
//!    them to what the question names, and writes sentences that each cite nodes by number.
//! 2. A sentence that cites nothing, or anything that it was not shown, is dropped.
//! 3. If asked for, a second request has each sentence compared with the nodes that it cites; what
//!    is not confirmed is dropped.
//! 4. Without a sentence the answer is refused. No model is asked about no nodes.
//!
//! An unusable reply fails the question, as an outage does: nothing stands in for a written answer.
//!
//! Must not know: which answers are right, how nodes are found.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::{Asks, Linked};
use agent_index::IndexedBase;
use agent_kb::{
    NodeId,
    answer::{AnswerValue, Explanation},
};
use agent_llm::{LlmError, RoleSpec};
use agent_retrieve::{
    Answer, Detail, NodeExplanation, Ranking, RetrieveError, Retriever, check_query,
    rank_explanation,
};
use agent_tools::{Assistant, AssistantError};

/// Writes an answer in prose, and checks it.
pub const ANSWER_ROLE: RoleSpec = RoleSpec {
    name: "answer",
    summary: "writes an answer in prose and checks it",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// Nodes that an answer is written from.
pub const SHOWN: usize = 10;
/// Characters of a node's document in a request.
const DOCUMENT_CHARS: usize = 1_200;
/// Sentences of an answer.
const MAX_SENTENCES: usize = 10;
/// Nodes that one sentence cites.
const MAX_CITES: usize = SHOWN;
/// The prompts.
const WRITE: &str = "answer/write";
const CHECK: &str = "answer/check";

/// What writing one answer asks: a request, and its repair.
pub const WRITE_ASKS: Asks =
    Asks { role: ANSWER_ROLE, prompt: WRITE, later: None, least: 1, most: 2 };
/// What checking it asks.
pub const CHECK_ASKS: Asks =
    Asks { role: ANSWER_ROLE, prompt: CHECK, later: None, least: 1, most: 2 };

/// A sentence of an answer, with the nodes that say so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sentence {
    /// The sentence.
    pub text: String,
    /// The nodes that it cites, as the model orders them; at least one, each once.
    pub cites: Vec<NodeId>,
}

/// A sentence that was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The sentence.
    pub text: String,
    /// Why.
    pub why: String,
}

/// An answer in prose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Prose {
    /// What is supported, in the order of the model; none means that the answer is refused.
    pub sentences: Vec<Sentence>,
    /// What is not.
    pub dropped: Vec<Dropped>,
}

impl Prose {
    /// Whether nothing supports an answer.
    pub fn is_refused(&self) -> bool {
        self.sentences.is_empty()
    }

    /// The nodes that it cites, each once, in the order in which they are cited first.
    pub fn cited(&self) -> Vec<NodeId> {
        let mut cited = Vec::new();
        for &node in self.sentences.iter().flat_map(|sentence| &sentence.cites) {
            if !cited.contains(&node) {
                cited.push(node);
            }
        }
        cited
    }
}

/// The answer to a question from the first ten of some nodes, best first; with a check, what a second
/// request confirms of it. Asks nothing about no nodes.
///
/// # Errors
/// [`RetrieveError::Program`] where a reply cannot be used; [`RetrieveError::Llm`] for outages,
/// ceilings and stops.
pub fn write(
    base: &IndexedBase,
    assistant: &Assistant,
    question: &str,
    nodes: &[NodeId],
    check: bool,
) -> Result<Prose, RetrieveError> {
    let nodes = nodes.get(..SHOWN).unwrap_or(nodes);
    if nodes.is_empty() {
        return Ok(Prose::default());
    }
    let linked = Linked::of(base, question);
    let shown = |(n, &node): (usize, &NodeId)| json!({"n": n, "text": text_of(base, &linked, node, question)});
    let shown: Vec<Json> = (1..).zip(nodes).map(shown).collect();
    let ask = |prompt, inputs| assistant.json(ANSWER_ROLE.role(), prompt, inputs).map_err(failed);
    let reply = ask(WRITE, json!({"question": question, "nodes": shown}))?;
    let prose = cited(&reply, nodes);
    if !check || prose.is_refused() {
        return Ok(prose);
    }
    let number =
        |node: &NodeId| nodes.iter().position(|other| other == node).map_or(0, |at| at + 1);
    let numbers = |sentence: &Sentence| sentence.cites.iter().map(number).collect::<Vec<usize>>();
    let told = |(n, sentence): (usize, &Sentence)| {
        let cites: Vec<String> = numbers(sentence).iter().map(usize::to_string).collect();
        json!({"n": n, "text": sentence.text, "cites": cites.join(", ")})
    };
    let sentences: Vec<Json> = (1..).zip(&prose.sentences).map(told).collect();
    let wanted: BTreeSet<usize> = prose.sentences.iter().flat_map(numbers).collect();
    let of_cited = shown.iter().zip(1..).filter(|(_, n)| wanted.contains(n)).map(|pair| pair.0);
    let inputs = json!({
        "question": question, "sentences": sentences, "nodes": of_cited.collect::<Vec<_>>(),
    });
    Ok(confirmed(prose, &ask(CHECK, inputs)?))
}

/// A node for the model: its name, document, links and relations.
fn text_of(base: &IndexedBase, linked: &Linked<'_>, node: NodeId, question: &str) -> String {
    format!("name: {}\n{}", base.kb.name(node), linked.candidate(node, question, DOCUMENT_CHARS))
}

fn failed(error: AssistantError) -> RetrieveError {
    match error {
        AssistantError::Llm(LlmError::Reply { reason, .. }) => {
            RetrieveError::Program(format!("answer: {reason}"))
        }
        AssistantError::Llm(error) => error.into(),
        AssistantError::Prompt(error) => RetrieveError::Program(format!("answer: {error}")),
    }
}

/// The sentences of a reply that cite what was shown and nothing else.
fn cited(reply: &Json, nodes: &[NodeId]) -> Prose {
    let mut prose = Prose::default();
    let sentences = reply["sentences"].as_array().into_iter().flatten();
    for sentence in sentences.take(MAX_SENTENCES) {
        let text = sentence["text"].as_str().unwrap_or_default().trim().to_owned();
        if text.is_empty() {
            continue;
        }
        let (mut cites, mut unknown) = (Vec::new(), None);
        for number in sentence["cites"].as_array().into_iter().flatten() {
            let place = number.as_u64().and_then(|n| usize::try_from(n).ok()?.checked_sub(1));
            match place.and_then(|at| nodes.get(at)) {
                Some(&node) if !cites.contains(&node) && cites.len() < MAX_CITES => {
                    cites.push(node);
                }
                Some(_) => {}
                None => unknown = Some(number),
            }
        }
        let why = match unknown {
            Some(number) => format!("cites {number}, which was not shown"),
            None if cites.is_empty() => "cites nothing".to_owned(),
            None => {
                prose.sentences.push(Sentence { text, cites });
                continue;
            }
        };
        prose.dropped.push(Dropped { text, why });
    }
    prose
}

/// What a check confirms. A sentence of which it says nothing is not confirmed; of several entries
/// for one sentence the first counts.
fn confirmed(prose: Prose, reply: &Json) -> Prose {
    let Prose { sentences, mut dropped } = prose;
    let mut kept = Vec::new();
    for (n, sentence) in (1u64..).zip(sentences) {
        let mut entries = reply["sentences"].as_array().into_iter().flatten();
        let entry = entries.find(|entry| entry["n"] == json!(n));
        if entry.is_some_and(|entry| entry["supported"] == json!(true)) {
            kept.push(sentence);
            continue;
        }
        let reason = entry.and_then(|entry| entry["reason"].as_str()).unwrap_or("nothing is said");
        let why = format!("not confirmed: {reason}");
        dropped.push(Dropped { text: sentence.text, why });
    }
    Prose { sentences: kept, dropped }
}

/// Ranks the nodes that an answer in prose cites, in the order in which they are cited first, and no
/// others, so that its citations are measured by labels. A refused answer ranks nothing. Node `i` of
/// `n`, from 0, has the score `(n - i) / n`.
pub struct Cited {
    base: Arc<IndexedBase>,
    inner: Box<dyn Retriever>,
    assistant: Arc<Assistant>,
    check: bool,
}

impl Cited {
    /// Answers written from the first nodes of a system, checked or not.
    pub fn new(
        base: Arc<IndexedBase>,
        inner: Box<dyn Retriever>,
        assistant: Arc<Assistant>,
        check: bool,
    ) -> Self {
        Self { base, inner, assistant, check }
    }
}

impl Retriever for Cited {
    fn name(&self) -> String {
        let check = if self.check { "=check" } else { "" };
        format!("answer{check}:{}", self.inner.name())
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let explained = if detail.explained_count > 0 { SHOWN } else { 0 };
        let given =
            self.inner.answer(query, SHOWN, Detail { explained_count: explained, ..detail })?;
        let nodes: Vec<NodeId> = given.ranking().iter().map(|pair| pair.0).collect();
        let prose = write(&self.base, &self.assistant, query, &nodes, self.check)?;
        let cited = prose.cited();
        let n = cited.len();
        let places = |node: &NodeId| nodes.iter().position(|other| other == node);
        let ranking: Ranking = (0..)
            .zip(&cited)
            .take(k)
            .map(|(at, &node)| (node, (n - at) as f32 / n as f32))
            .collect();
        let why =
            ranking.iter().take(detail.explained_count).enumerate().map(|(at, &(node, score))| {
                let own = prose.sentences.iter().filter(|sentence| sentence.cites.contains(&node));
                let own = own.map(|sentence| Explanation::new("cited by", sentence.text.as_str()));
                let before = places(&node)
                    .and_then(|at| given.explanations.get(at))
                    .cloned()
                    .unwrap_or_default();
                let told =
                    rank_explanation(&self.name(), at, score).with(own).with([before.explanation]);
                NodeExplanation { explanation: told, ..before }
            });
        let why = why.collect();
        let path = |(node, _): &(NodeId, f32)| {
            places(node).and_then(|at| given.paths.get(at)).cloned().unwrap_or_default()
        };
        let paths = if detail.paths { ranking.iter().map(path).collect() } else { Vec::new() };
        let value = AnswerValue::nodes(ranking);
        Ok(Answer { value, end: None, paths, words: Vec::new(), explanations: why, ..given })
    }

    fn category(&self, query: &str) -> Result<Option<String>, RetrieveError> {
        self.inner.category(query)
    }
}
