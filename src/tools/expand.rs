//! The tool `expand`: expands a program's query by the methods of [`agent_retrieve::expand`],
//! within the limits of one program call.

use serde_json::Value as Json;

use crate::{
    ArgSpec, Args, Kind, ToolCtx, ToolError, ToolSpec, Value, asking::ROUNDS, cost, schema_text,
    text::internal, toolkit::SAMPLED_NODES,
};
use agent_index::IndexError;
use agent_kb::{Scores, TypeId};
use agent_retrieve::{
    Ranking, RetrieveError, System, check_query,
    expand::{Expansion, Filter, Method, QueryShare, Sources, TEXTS, TextPlan, WriteError, Writer},
    rank,
};

/// Name of pseudo-relevance feedback, the expansion that works without a model.
pub const FEEDBACK: &str = "prf";

pub(super) const TOOLS: &[ToolSpec] = &[ToolSpec::new(
    "expand",
    &[ArgSpec::new("query", Kind::Text), ArgSpec::new("how", Kind::Text)],
    Kind::Text,
    "The query with texts that would answer it, in at most 256 words, for a search by words or \
     vectors. prf appends the first 3 documents that words find, and works without an LLM; the \
     LLM writes 3 texts by hyde from the query alone, by rar from these documents, by kar from \
     what the graph says of the nodes that the query names; by agr it analyses the query and \
     refines one text. The query as it is where no reply can be used.",
    r#"search(expand(query, "prf"), "product", 10)"#,
    expand,
)
.with_cost(
    "no LLM call by prf, 1 by hyde or rar, 2 by kar, 5 by agr; 1,000 per word searched; by kar \
     also 1 per node of the base for each entity, and per edge within two of it",
)
.cached()];

fn expand(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let name = args.text(1)?;
    let method = Method::ALL.into_iter().find(|method| method.name() == name);
    let method = method.map(|method| match method {
        Method::Kar { k, .. } => Method::Kar { k, filter: Some(Filter::of(ctx.base)) },
        method => method,
    });
    if method.is_none() && name != FEEDBACK {
        let known = Method::ALL.map(Method::name).join(", ");
        return Err(ToolError::BadArgs(format!(
            "unknown expansion method {name:?}; known are {FEEDBACK}, {known}"
        )));
    }
    if method.is_some() {
        ctx.requester.check()?;
    }
    let query = match check_query(args.text(0)?) {
        Ok(query) => query,
        Err(RetrieveError::EmptyQuery) => return Ok(Value::text("")),
        Err(error) => return Err(ToolError::BadArgs(error.to_string())),
    };
    let base = ctx.base;
    let expansion = match method {
        None => {
            let found = ctx.search(query, TEXTS);
            found.map(|found| Expansion::from_documents(base, &found, QueryShare::Half))
        }
        Some(method) => {
            ctx.meter.touch(SAMPLED_NODES * base.kb.types().len())?;
            let structures = &schema_text(&base.kb);
            let texts = TextPlan { n: TEXTS, sampled: false };
            Writer { base, structures, method, texts, encoder: None }.write(query, ctx)
        }
    };
    match expansion {
        Ok(expansion) => Ok(Value::text(&expansion.apply(query, None))),
        Err(WriteError::Unusable(_)) => {
            ctx.requester.note_unparsed(1);
            Ok(Value::text(query))
        }
        Err(WriteError::Other(error)) => Err(error),
    }
}

impl From<IndexError> for ToolError {
    fn from(error: IndexError) -> Self {
        internal(error)
    }
}

/// Charges every model request and search to the program call; searches use `bm25+names`.
impl Sources for ToolCtx<'_> {
    type Error = ToolError;

    fn reply(
        &mut self,
        prompt: &'static str,
        inputs: Json,
        _sample: Option<u32>,
    ) -> Result<Json, WriteError<ToolError>> {
        let replies = self.requester.json(self.meter, prompt, vec![inputs], 1, ROUNDS[0]);
        let reply = replies.map_err(WriteError::Other)?.into_iter().next().flatten();
        reply.ok_or_else(|| WriteError::Unusable("no reply of the requested form".to_owned()))
    }

    fn search(&mut self, text: &str, n: usize) -> Result<Ranking, WriteError<ToolError>> {
        cost::charge_words(self, text).map_err(WriteError::Other)?;
        rank(self.base, System::Bm25Names, text, n)
            .map_err(|error| WriteError::Other(internal(error)))
    }

    fn nearest(
        &mut self,
        text: &str,
        types: &[TypeId],
        n: usize,
    ) -> Result<Ranking, WriteError<ToolError>> {
        cost::charge_rows(self, types).map_err(WriteError::Other)?;
        cost::charge_text(self, text).map_err(WriteError::Other)?;
        let near = self.base.search_vectors(text, types, n);
        near.map_err(|error| WriteError::Other(internal(error)))
    }

    fn link(
        &mut self,
        text: &str,
        types: &[TypeId],
        n: usize,
    ) -> Result<Scores, WriteError<ToolError>> {
        cost::charge_words(self, text).map_err(WriteError::Other)?;
        let base = self.base;
        let linked = base.entities.link_while(&base.kb, text, types, n, &mut || self.meter.poll());
        linked.map_err(WriteError::Other)
    }

    fn spend(&mut self, work: usize) -> Result<(), WriteError<ToolError>> {
        self.meter.touch(work).map_err(WriteError::Other)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicBool};

    use serde_json::json;

    use super::*;
    use crate::testing::assistant;
    use crate::{Session, ToolCache, ToolHost, Trace, registry};
    use agent_kb::NodeId;
    use agent_llm::LlmError;
    use agent_testing::{QUERY, echo, llm, planted, said};

    fn call(session: &mut Session, query: &str, how: &str) -> Result<Value, ToolError> {
        let tool = registry().iter().position(|spec| spec.name == "expand").unwrap();
        session.call(tool, vec![Value::text(query), Value::text(how)])
    }

    fn text(value: Result<Value, ToolError>) -> String {
        let Ok(Value::Text(text)) = value else { panic!("{value:?}") };
        text.to_string()
    }

    #[test]
    fn every_method_asks_as_often_as_its_paper_says_and_once_for_equal_calls() {
        let cache = Arc::new(ToolCache::new(1 << 20));
        for (how, requests) in [("prf", 0), ("hyde", 1), ("rar", 1), ("agr", 5), ("kar", 2)] {
            let (model, heard) = llm(echo);
            let session = || {
                Session::new(planted(), Some(cache.clone()))
                    .with_assistant(Some(assistant(model.clone())))
            };
            let mut first = session();
            let expanded = text(call(&mut first, QUERY, how));
            assert!(expanded.starts_with(&format!("{QUERY}\n\n")), "{how}: {expanded}");
            assert_eq!((heard.count(), first.work().llm_requests), (requests, requests as u64));
            assert_eq!(first.work().llm_items, requests as u64);
            let mut second = session();
            assert_eq!(text(call(&mut second, QUERY, how)), expanded);
            assert_eq!((heard.count(), second.work()), (requests, first.work()), "{how}");
        }
    }

    #[test]
    fn by_kar_the_text_says_what_the_graph_alone_tells() {
        let base = planted();
        let answer: NodeId = agent_testing::answer();
        let (model, _) = llm(echo);
        let mut session = Session::new(base.clone(), None).with_assistant(Some(assistant(model)));
        let name = base.kb.name(answer);
        assert!(text(call(&mut session, QUERY, "kar")).contains(name));
        assert!(!text(call(&mut session, QUERY, "hyde")).contains(name));
    }

    #[test]
    fn feedback_needs_no_model_and_all_else_says_that_there_is_none() {
        let mut session = Session::new(planted(), None);
        let found = rank(&planted(), System::Bm25Names, QUERY, 3).unwrap();
        let expanded =
            Expansion::from_documents(&planted(), &found, QueryShare::Half).apply(QUERY, None);
        assert_eq!(text(call(&mut session, QUERY, "prf")), expanded);
        for method in Method::ALL {
            assert_eq!(call(&mut session, QUERY, method.name()), Err(ToolError::NoLlm));
        }
        let unknown = call(&mut session, QUERY, "graph").unwrap_err().to_string();
        assert!(unknown.contains("prf, hyde, rar, agr, kar"), "{unknown}");
        assert_eq!(text(call(&mut session, " ", "prf")), "");
        let long = call(&mut session, &"x".repeat(20_000), "prf");
        assert!(matches!(long, Err(ToolError::BadArgs(_))), "{long:?}");
    }

    #[test]
    fn an_unusable_reply_leaves_the_query_and_is_noted_and_an_outage_ends_the_call() {
        let (model, heard) = llm(|_| said("I would rather not."));
        let (trace, cache) = (Trace::default(), Arc::new(ToolCache::new(1 << 20)));
        let mut session = Session::new(planted(), Some(cache.clone()))
            .with_assistant(Some(assistant(model)))
            .with_trace(Some(&trace));
        for method in Method::ALL {
            assert_eq!(text(call(&mut session, QUERY, method.name())), QUERY);
        }
        // Each method sends a request and one repair; no result is cached.
        assert_eq!(heard.count(), 8);
        assert!(trace.take().iter().all(|call| call.unparsed == 1));
        assert_eq!(text(call(&mut session, QUERY, "hyde")), QUERY);
        assert_eq!(cache.hits_and_misses().0, 0);

        let (model, _) = llm(|_| Err(LlmError::Unrecorded("not there".to_owned())));
        let mut session = Session::new(planted(), None).with_assistant(Some(assistant(model)));
        let ended = call(&mut session, QUERY, "kar");
        assert!(matches!(&ended, Err(ToolError::Llm(why)) if why.contains("not there")));
        assert!(session.outage().is_some());
    }

    #[test]
    fn the_bounds_of_a_program_call_hold() {
        let (model, heard) = llm(echo);
        let mut session = Session::new(planted(), None)
            .with_assistant(Some(assistant(model)))
            .with_llm_limits(Some((4, 40_000)));
        let refused = call(&mut session, QUERY, "agr");
        assert!(matches!(refused, Err(ToolError::Budget(_))), "{refused:?}");
        assert_eq!(heard.count(), 4);
        let (model, heard) = llm(|_| said(json!({"documents": ["wool"]}).to_string()));
        let stop = Arc::new(AtomicBool::new(true));
        let mut session =
            Session::new(planted(), None).with_assistant(Some(assistant(model))).stoppable(stop);
        assert_eq!(call(&mut session, QUERY, "rar"), Err(ToolError::Stopped));
        assert_eq!(heard.count(), 0);
    }
}
