//! Retrieval-augmented generation: a language model writes a short answer in prose from the nodes
//! that a system found; only sentences that these nodes support are kept.
//!
//! Source: RAG (Lewis et al. 2020), with citations that are checked as in ALCE (Gao et al. 2023).
//!
//! 1. The model reads the question and the first ten nodes, with their relations and their links to
//!    the entities of the question. It writes sentences that cite nodes by number.
//! 2. Sentences without citations, or with unknown ones, are dropped.
//! 3. Optionally, a second request compares each sentence with the cited nodes; unconfirmed
//!    sentences are dropped.
//! 4. If no sentence is left, the answer is refused. Without nodes no request is sent.
//!
//! An unusable reply or an outage fails the question: a written answer has no fallback.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::{LinkedEntities, RequestBounds, in_order};
use agent_index::IndexedBase;
use agent_kb::{
    NodeId,
    answer::{AnswerValue, Explanation},
};
use agent_llm::{LlmError, RoleSpec};
use agent_retrieve::{
    Answer, Detail, NodeExplanation, RetrieveError, Retriever, check_query, rank_explanation,
};
use agent_tools::{Assistant, AssistantError};

/// The role that writes and checks answers in prose.
pub const ANSWER_ROLE: RoleSpec = RoleSpec {
    name: "answer",
    summary: "writes an answer in prose and checks it",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// Maximum number of nodes from which an answer is written.
pub const MAX_NODES: usize = 10;
/// Maximum length in characters of a node's document in a request.
const DOCUMENT_CHARS: usize = 1_200;
/// Maximum number of sentences of an answer.
const MAX_SENTENCES: usize = 10;
/// Maximum number of nodes cited by one sentence.
const MAX_CITES: usize = MAX_NODES;
/// Name of the prompt that writes an answer; the next constant names the prompt that checks it.
const WRITE: &str = "answer/write";
const CHECK: &str = "answer/check";

/// Request bounds for writing one answer: a request and its repair.
pub const WRITE_REQUESTS: RequestBounds =
    RequestBounds { role: ANSWER_ROLE, prompt: WRITE, later: None, min: 1, max: 2 };
/// Request bounds for checking one answer: a request and its repair.
pub const CHECK_REQUESTS: RequestBounds =
    RequestBounds { role: ANSWER_ROLE, prompt: CHECK, later: None, min: 1, max: 2 };

/// A sentence of an answer, with the nodes that support it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sentence {
    /// Text of the sentence.
    pub text: String,
    /// The cited nodes in the model's order; at least one, without duplicates.
    pub cites: Vec<NodeId>,
}

/// A sentence that was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DroppedSentence {
    /// Text of the sentence.
    pub text: String,
    /// Why the sentence was dropped.
    pub why: String,
}

/// An answer in prose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Prose {
    /// Supported sentences in the model's order; if there are none, the answer is refused.
    pub sentences: Vec<Sentence>,
    /// Unsupported sentences.
    pub dropped: Vec<DroppedSentence>,
}

impl Prose {
    /// Whether no sentence is supported.
    pub fn is_refused(&self) -> bool {
        self.sentences.is_empty()
    }

    /// Returns the distinct cited nodes, in order of first citation.
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

/// Writes an answer from the first ten of `nodes`; with `check`, keeps only the sentences that a
/// second request confirms. Sends no request without nodes.
///
/// # Errors
/// [`RetrieveError::Program`] if a reply is unusable; [`RetrieveError::Llm`] for outages,
/// ceilings and stops.
pub fn write(
    base: &IndexedBase,
    assistant: &Assistant,
    question: &str,
    nodes: &[NodeId],
    check: bool,
) -> Result<Prose, RetrieveError> {
    let nodes = nodes.get(..MAX_NODES).unwrap_or(nodes);
    if nodes.is_empty() {
        return Ok(Prose::default());
    }
    let linked = LinkedEntities::link(base, question);
    let shown = |(n, &node): (usize, &NodeId)| {
        let document = linked.candidate(node, question, DOCUMENT_CHARS);
        json!({"n": n, "text": format!("name: {}\n{document}", base.kb.name(node))})
    };
    let shown: Vec<Json> = (1..).zip(nodes).map(shown).collect();
    let ask = |prompt, inputs| assistant.json(ANSWER_ROLE.role(), prompt, inputs).map_err(failed);
    let reply = ask(WRITE, json!({"question": question, "nodes": shown}))?;
    let prose = parse_citations(&reply, nodes);
    if !check || prose.is_refused() {
        return Ok(prose);
    }
    let number =
        |node: &NodeId| nodes.iter().position(|other| other == node).map_or(0, |at| at + 1);
    let numbers = |sentence: &Sentence| sentence.cites.iter().map(number).collect::<Vec<usize>>();
    let numbered = |(n, sentence): (usize, &Sentence)| {
        let cites: Vec<String> = numbers(sentence).iter().map(usize::to_string).collect();
        json!({"n": n, "text": sentence.text, "cites": cites.join(", ")})
    };
    let sentences: Vec<Json> = (1..).zip(&prose.sentences).map(numbered).collect();
    let wanted: BTreeSet<usize> = prose.sentences.iter().flat_map(numbers).collect();
    let of_cited = shown.iter().zip(1..).filter(|(_, n)| wanted.contains(n)).map(|pair| pair.0);
    let inputs = json!({
        "question": question, "sentences": sentences, "nodes": of_cited.collect::<Vec<_>>(),
    });
    Ok(keep_confirmed(prose, &ask(CHECK, inputs)?))
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

/// Parses the sentences of a reply; drops sentences with missing or unknown citations.
fn parse_citations(reply: &Json, nodes: &[NodeId]) -> Prose {
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
        prose.dropped.push(DroppedSentence { text, why });
    }
    prose
}

/// Keeps the sentences that the reply of a check confirms. A sentence without an entry in the reply
/// is not confirmed; if a sentence has several entries, the first counts.
fn keep_confirmed(prose: Prose, reply: &Json) -> Prose {
    let Prose { sentences, mut dropped } = prose;
    let mut kept = Vec::new();
    for (n, sentence) in (1u64..).zip(sentences) {
        let mut entries = reply["sentences"].as_array().into_iter().flatten();
        let entry = entries.find(|entry| entry["n"] == json!(n));
        if entry.is_some_and(|entry| entry["supported"] == json!(true)) {
            kept.push(sentence);
            continue;
        }
        let reason = entry.and_then(|entry| entry["reason"].as_str()).unwrap_or("no reason given");
        let why = format!("not confirmed: {reason}");
        dropped.push(DroppedSentence { text: sentence.text, why });
    }
    Prose { sentences: kept, dropped }
}

/// Ranks only the nodes that an answer in prose cites, in order of first citation, so that
/// citations can be evaluated with labels. A refused answer has an empty ranking. The `i`-th of `n`
/// cited nodes, from 0, has the score `(n - i) / n`.
pub struct CitedRetriever {
    base: Arc<IndexedBase>,
    inner: Box<dyn Retriever>,
    assistant: Arc<Assistant>,
    check: bool,
}

impl CitedRetriever {
    /// Creates a retriever that writes answers from the first nodes of `inner`; with `check`, a
    /// second request checks them.
    pub fn new(
        base: Arc<IndexedBase>,
        inner: Box<dyn Retriever>,
        assistant: Arc<Assistant>,
        check: bool,
    ) -> Self {
        Self { base, inner, assistant, check }
    }
}

impl Retriever for CitedRetriever {
    fn name(&self) -> String {
        let check = if self.check { "=check" } else { "" };
        format!("answer{check}:{}", self.inner.name())
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let explained = if detail.explained_count > 0 { MAX_NODES } else { 0 };
        let given =
            self.inner.answer(query, MAX_NODES, Detail { explained_count: explained, ..detail })?;
        let nodes: Vec<NodeId> = given.ranking().iter().map(|pair| pair.0).collect();
        let prose = write(&self.base, &self.assistant, query, &nodes, self.check)?;
        let cited = prose.cited();
        let places = |node: &NodeId| nodes.iter().position(|other| other == node);
        let mut ranking = in_order(&cited);
        ranking.truncate(k);
        let why =
            ranking.iter().take(detail.explained_count).enumerate().map(|(at, &(node, score))| {
                let own = prose.sentences.iter().filter(|sentence| sentence.cites.contains(&node));
                let own = own.map(|sentence| Explanation::new("cited by", sentence.text.as_str()));
                let before = places(&node)
                    .and_then(|at| given.explanations.get(at))
                    .cloned()
                    .unwrap_or_default();
                let explanation =
                    rank_explanation(&self.name(), at, score).with(own).with([before.explanation]);
                NodeExplanation { explanation, ..before }
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
