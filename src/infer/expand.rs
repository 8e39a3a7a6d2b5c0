//! `expand:prf`, `expand:hyde`, `expand:rar`, `expand:agr` and `expand:kar`: expand a query with
//! further text and pass it to another system. A dense system embeds the expanded query; a lexical
//! one counts its words.
//!
//! An unusable reply of the model leaves the query unchanged, and the answer holds the reason. An
//! outage of the model, a spent budget or a stop fails the query.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value as Json;

use crate::{RequestBounds, log_unassisted};
use agent_ground::words::one_line;
use agent_index::IndexedBase;
use agent_kb::{Scores, TypeId, answer::Explanation};
use agent_llm::{LlmError, Request, RoleSpec};
use agent_retrieve::{
    Answer, AssistFailure, Detail, NodeExplanation, Ranking, RetrieveError, Retriever, check_query,
    expand::{
        ANALYZE, Expansion, Filter, GENERATE, KEYWORDS, Method, NO_GRAPH, ONCE, PARSE, QueryShare,
        REFINE, SAMPLES, Sources, TextPlan, WriteError, Writer,
    },
    rank_explanation,
};
use agent_tools::{Assistant, AssistantError, schema_text};

/// The role that writes texts for query expansion.
pub const EXPAND_ROLE: RoleSpec = RoleSpec {
    name: "expand",
    summary: "writes texts that expand queries",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// Returns the bounds of a method's requests to the language model for one query. Requests of the
/// inner system are not included; HyDE calls that system once, the other methods twice.
pub fn expand_requests(method: Method, texts: TextPlan) -> Vec<RequestBounds> {
    let each = if texts.sampled { texts.n } else { 1 };
    let times =
        |prompt, n| RequestBounds { role: EXPAND_ROLE, prompt, later: None, min: n, max: 2 * n };
    match method {
        Method::Hyde | Method::Rar => vec![times(GENERATE, each)],
        Method::Agr => {
            let twice = times(GENERATE, 2 * each);
            vec![times(KEYWORDS, 1), times(ANALYZE, 1), twice, times(REFINE, 1)]
        }
        Method::Kar { .. } => vec![times(PARSE, 1), times(GENERATE, each)],
    }
}

/// Runs another system with an expanded query.
pub struct Expander {
    base: Arc<IndexedBase>,
    inner: Box<dyn Retriever>,
    texts: TextSource,
}

/// Source of the texts that expand a query.
enum TextSource {
    /// The documents of the first `n` nodes that the inner system finds.
    Documents { n: usize, share: QueryShare },
    /// A language model.
    Model {
        assistant: Arc<Assistant>,
        /// The types of the base with their fields and relations.
        structures: String,
        method: Method,
        plan: TextPlan,
    },
}

impl Expander {
    /// Expands queries by pseudo-relevance feedback: appends the whole documents of the first `n`
    /// nodes that `inner` finds.
    pub fn feedback(
        base: Arc<IndexedBase>,
        inner: Box<dyn Retriever>,
        n: usize,
        share: QueryShare,
    ) -> Self {
        Self { base, inner, texts: TextSource::Documents { n, share } }
    }

    /// Expands queries by texts that a language model writes; AGR refines the texts into one. An
    /// unusable reply is requested once more.
    pub fn new(
        base: Arc<IndexedBase>,
        inner: Box<dyn Retriever>,
        assistant: Arc<Assistant>,
        method: Method,
        plan: TextPlan,
    ) -> Self {
        let structures = schema_text(&base.kb);
        let texts = TextSource::Model { assistant, structures, method, plan };
        Self { base, inner, texts }
    }

    /// Returns the expansion of a query. If a reply of the model is unusable, the expansion has no
    /// texts and explains why.
    fn expansion(&self, query: &str) -> Result<(Expansion, Option<AssistFailure>), RetrieveError> {
        let (base, inner) = (&*self.base, &*self.inner);
        let written = match &self.texts {
            TextSource::Documents { n, share } => {
                let found = inner.retrieve(query, *n)?;
                return Ok((Expansion::from_documents(base, &found, *share), None));
            }
            TextSource::Model { assistant, structures, method, plan } => {
                let (method, texts) = (*method, *plan);
                let writer = Writer { base, structures, method, texts, encoder: inner.encoder() };
                writer.write(query, &mut InnerSystem { base, inner, assistant })
            }
        };
        match written {
            Ok(expansion) => Ok((expansion, None)),
            Err(WriteError::Unusable(reason)) => {
                log_unassisted(&EXPAND_ROLE, &reason);
                let told = vec![Explanation::new("not expanded", reason)];
                Ok((Expansion::written(Vec::new(), told), Some(AssistFailure::Unusable)))
            }
            Err(WriteError::Other(error)) => Err(error),
        }
    }
}

/// Sources for the expansion of a query: the inner system, the indexes and a language model.
struct InnerSystem<'a> {
    base: &'a IndexedBase,
    inner: &'a dyn Retriever,
    assistant: &'a Assistant,
}

fn other(error: impl Into<RetrieveError>) -> WriteError<RetrieveError> {
    WriteError::Other(error.into())
}

impl Sources for InnerSystem<'_> {
    type Error = RetrieveError;

    fn reply(
        &mut self,
        prompt: &'static str,
        inputs: Json,
        sample: Option<u32>,
    ) -> Result<Json, WriteError<RetrieveError>> {
        let role = EXPAND_ROLE.role();
        let request = self.assistant.request(role, prompt, inputs, sample.unwrap_or_default());
        let request = request.map(|request| {
            // At temperature 0 all samples would be equal, so samples use the service's default
            // temperature.
            let temperature = request.temperature.filter(|t| sample.is_none() || *t > 0.0);
            Request { temperature, ..request }
        });
        let reply = self.assistant.ask_json(vec![request], 1).into_iter().next();
        let Some((reply, _)) = reply else { return Err(WriteError::Unusable(String::new())) };
        reply.map_err(|error| match error {
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
            TextSource::Documents { n, share: QueryShare::Half } => format!("prf={n}"),
            TextSource::Documents { n, share: QueryShare::Once } => format!("prf={n},{ONCE}"),
            TextSource::Model { method, plan: TextPlan { n, sampled }, .. } => {
                let sampled = if *sampled { format!(",{SAMPLES}") } else { String::new() };
                match *method {
                    Method::Kar { k, filter } => {
                        format!("kar={k},{n},{}{sampled}", filter.map_or(NO_GRAPH, Filter::name))
                    }
                    method => format!("{}={n}{sampled}", method.name()),
                }
            }
        };
        format!("expand:{how}:{}", self.inner.name())
    }

    /// Adds the explanation of the expansion only to the first explained node, since all nodes
    /// share it.
    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let (expansion, miss) = self.expansion(query)?;
        let text = expansion.apply(query, self.inner.encoder());
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
