//! `expand:prf`, `expand:hyde`, `expand:rar`, `expand:agr` and `expand:kar`: another system is asked an
//! expanded query: embedded by a dense one, with the counts of its words by a lexical one.
//!
//! A reply that cannot be used leaves the query as it is, which its answer says. An outage, a ceiling
//! or a stop fails the query.
//!
//! Must not know: what the texts are written from, which answers are right.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value as Json;

use crate::Asks;
use agent_index::IndexedBase;
use agent_kb::{Scores, TypeId, answer::Explanation};
use agent_llm::{LlmError, RoleSpec};
use agent_retrieve::{
    Answer, AssistFailure, Detail, NodeExplanation, Ranking, RetrieveError, Retriever, check_query,
    expand::{
        ANALYZE, Expansion, Filter, GENERATE, KEYWORDS, Method, NO_GRAPH, PARSE, REFINE, Sources,
        WriteError, Writer, one_line,
    },
    rank_explanation,
};
use agent_tools::{Assistant, AssistantError, schema_text};

/// Writes texts that queries are expanded by.
pub const EXPAND_ROLE: RoleSpec = RoleSpec {
    name: "expand",
    summary: "writes texts that queries are expanded by",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// What a method asks a model for one query. What the system below it asks, it asks twice, but once
/// for HyDE.
pub fn expand_asks(method: Method) -> Vec<Asks> {
    let times = |prompt, n| Asks { role: EXPAND_ROLE, prompt, later: None, least: n, most: 2 * n };
    match method {
        Method::Hyde | Method::Rar => vec![times(GENERATE, 1)],
        Method::Agr => {
            vec![times(KEYWORDS, 1), times(ANALYZE, 1), times(GENERATE, 2), times(REFINE, 1)]
        }
        Method::Kar { .. } => vec![times(PARSE, 1), times(GENERATE, 1)],
    }
}

/// Asks another system an expanded query.
pub struct Expander {
    base: Arc<IndexedBase>,
    inner: Box<dyn Retriever>,
    texts: Texts,
}

/// Where the texts come from.
enum Texts {
    /// So many first documents.
    Documents(usize),
    /// A language model writes them.
    Model {
        assistant: Arc<Assistant>,
        /// The types of the base with their fields and relations.
        structures: String,
        method: Method,
        n: usize,
    },
}

impl Expander {
    /// Appends the first `n` documents that the system finds: pseudo-relevance feedback with whole
    /// documents.
    pub fn feedback(base: Arc<IndexedBase>, inner: Box<dyn Retriever>, n: usize) -> Self {
        Self { base, inner, texts: Texts::Documents(n) }
    }

    /// Appends `n` texts that a language model writes; AGR appends the one that it refines them to.
    /// Every request has one repair.
    pub fn new(
        base: Arc<IndexedBase>,
        inner: Box<dyn Retriever>,
        assistant: Arc<Assistant>,
        method: Method,
        n: usize,
    ) -> Self {
        let structures = schema_text(&base.kb);
        let texts = Texts::Model { assistant, structures, method, n };
        Self { base, inner, texts }
    }

    /// What the query is expanded by; nothing, and why, where a reply cannot be used.
    fn expansion(&self, query: &str) -> Result<(Expansion, Option<AssistFailure>), RetrieveError> {
        let (base, inner) = (&*self.base, &*self.inner);
        let written = match &self.texts {
            Texts::Documents(n) => {
                return Ok((Expansion::from_documents(base, &inner.retrieve(query, *n)?), None));
            }
            Texts::Model { assistant, structures, method, n } => {
                let writer = Writer { base, structures, method: *method, n: *n };
                writer.write(query, &mut Below { base, inner, assistant })
            }
        };
        match written {
            Ok(expansion) => Ok((expansion, None)),
            Err(WriteError::Unusable(reason)) => {
                let told = vec![Explanation::new("not expanded", reason)];
                Ok((Expansion::written(Vec::new(), told), Some(AssistFailure::Unusable)))
            }
            Err(WriteError::Other(error)) => Err(error),
        }
    }
}

/// The system below, and a model.
struct Below<'a> {
    base: &'a IndexedBase,
    inner: &'a dyn Retriever,
    assistant: &'a Assistant,
}

fn other(error: impl Into<RetrieveError>) -> WriteError<RetrieveError> {
    WriteError::Other(error.into())
}

impl Sources for Below<'_> {
    type Error = RetrieveError;

    fn reply(
        &mut self,
        prompt: &'static str,
        inputs: Json,
    ) -> Result<Json, WriteError<RetrieveError>> {
        self.assistant.json(EXPAND_ROLE.role(), prompt, inputs).map_err(|error| match error {
            AssistantError::Llm(LlmError::Reply { reason, .. }) => WriteError::Unusable(reason),
            AssistantError::Llm(error) => other(error),
            AssistantError::Prompt(error) => {
                other(RetrieveError::Program(format!("expand: {error}")))
            }
        })
    }

    fn search(&mut self, text: &str, n: usize) -> Result<Ranking, WriteError<RetrieveError>> {
        self.inner.retrieve(text, n).map_err(other)
    }

    fn nearest(
        &mut self,
        text: &str,
        types: &[TypeId],
        n: usize,
    ) -> Result<Ranking, WriteError<RetrieveError>> {
        self.base.search_vectors(text, types, n).map_err(other)
    }

    fn link(
        &mut self,
        text: &str,
        types: &[TypeId],
        n: usize,
    ) -> Result<Scores, WriteError<RetrieveError>> {
        Ok(self.base.entities.link(&self.base.kb, text, types, n))
    }

    fn spend(&mut self, _work: usize) -> Result<(), WriteError<RetrieveError>> {
        Ok(())
    }
}

impl Retriever for Expander {
    fn name(&self) -> String {
        let how = match &self.texts {
            Texts::Documents(n) => format!("prf={n}"),
            Texts::Model { method, n, .. } => match *method {
                Method::Kar { k, filter } => {
                    format!("kar={k},{n},{}", filter.map_or(NO_GRAPH, Filter::name))
                }
                method => format!("{}={n}", method.name()),
            },
        };
        format!("expand:{how}:{}", self.inner.name())
    }

    /// The expansion is told with the first node that is explained; it is the same for all.
    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let (expansion, miss) = self.expansion(query)?;
        let text = expansion.apply(query);
        let Expansion { texts, explanations: told, .. } = expansion;
        let answer = self.inner.answer(&text, k, detail)?;
        let texts = texts.iter().map(|text| Explanation::new("text", one_line(text)));
        let expansion = Explanation::new("expansion", one_line(&text)).with(told).with(texts);
        let mut expansion = Some(expansion);
        let places = answer.ranking().to_vec();
        let name = self.name();
        let why = answer.explanations.into_iter().zip(places).enumerate().map(
            |(at, (why, (_, score)))| {
                let own = rank_explanation(&name, at, score)
                    .with(expansion.take())
                    .with([why.explanation]);
                NodeExplanation { explanation: own, ..why }
            },
        );
        Ok(Answer { explanations: why.collect(), unassisted: miss.or(answer.unassisted), ..answer })
    }

    fn category(&self, query: &str) -> Result<Option<String>, RetrieveError> {
        self.inner.category(query)
    }
}
