//! For tests: a language model whose replies a function computes from the request, and a reply
//! store in memory.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "compiled into several crates, each of which uses a part"
)]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, atomic::AtomicBool},
};

use serde_json::Map;

use agent_llm::{
    Exchange, Finish, Llm, LlmError, Model, Reply, ReplyStore, Request, Role, RoleSettings, Usage,
    ledger::{Ceilings, Ledger, tokens},
};

/// Roles that may ask the scripted model.
const ROLES: [&str; 11] = [
    "actor",
    "comparator",
    "categories",
    "router",
    "tools",
    "react",
    "rerank",
    "synthesize",
    "ask",
    "expand",
    "answer",
];
/// Name of the scripted model.
pub const MODEL: &str = "scripted";

/// Reply of a scripted model: its text and why the text ends; or an error.
pub type ScriptedReply = Result<(String, Finish), LlmError>;

/// A model whose replies a function computes from the request; records all requests.
pub struct Scripted<F> {
    answer: F,
    asked: Arc<Mutex<Vec<Request>>>,
}

/// Log of the requests to a scripted model, in the order of arrival.
#[derive(Clone, Default)]
pub struct RequestLog(Arc<Mutex<Vec<Request>>>);

impl RequestLog {
    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.0.lock().unwrap().clone()
    }

    /// Returns the number of requests so far.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Returns the text of the last message of a request.
pub fn question(request: &Request) -> &str {
    request.messages.last().map_or("", |message| &message.text)
}

/// Returns the blocks `<data name="...">` in `question` whose names begin with `name`: pairs of the
/// rest of the block's name and the block's text.
pub fn blocks(question: &str, name: &str) -> Vec<(String, String)> {
    let mark = format!("<data name=\"{name}");
    let mut blocks = Vec::new();
    for part in question.split(&mark).skip(1) {
        let (rest, text) = part.split_once("\">\n").unwrap();
        let text = text.split("\n</data>").next().unwrap();
        blocks.push((rest.trim().to_owned(), text.to_owned()));
    }
    blocks
}

impl<F> Model for Scripted<F>
where
    F: Fn(&Request) -> ScriptedReply + Send + Sync,
{
    fn ask(&self, request: &Request) -> Result<Reply, LlmError> {
        self.asked.lock().unwrap().push(request.clone());
        let (text, finish) = (self.answer)(request)?;
        let usage = Usage { tokens_in: 100, tokens_out: tokens(&text), estimated: true };
        Ok(Reply { text, finish, usage })
    }
}

/// A reply store in memory.
#[derive(Default)]
pub struct MemoryStore(Mutex<HashMap<String, Exchange>>);

impl ReplyStore for MemoryStore {
    fn get(&self, key: &str) -> Result<Option<Exchange>, LlmError> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }

    fn put(&self, key: &str, exchange: &Exchange) -> Result<(), LlmError> {
        self.0.lock().unwrap().entry(key.to_owned()).or_insert_with(|| exchange.clone());
        Ok(())
    }
}

/// Creates a language model whose replies `answer` computes from the request, with a store in
/// memory and no spending ceilings. Also returns the log of its requests.
pub fn llm<F>(answer: F) -> (Arc<Llm>, RequestLog)
where
    F: Fn(&Request) -> ScriptedReply + Send + Sync + 'static,
{
    llm_within(answer, Ceilings::default(), vec![Arc::new(MemoryStore::default())])
}

/// Creates a model as [`llm`] does, but with these spending ceilings and reply stores.
pub fn llm_within<F>(
    answer: F,
    ceilings: Ceilings,
    stores: Vec<Arc<dyn ReplyStore>>,
) -> (Arc<Llm>, RequestLog)
where
    F: Fn(&Request) -> ScriptedReply + Send + Sync + 'static,
{
    let heard = RequestLog::default();
    let model = Scripted { answer, asked: heard.0.clone() };
    let set = RoleSettings {
        model: MODEL.to_owned(),
        temperature: Some(0.0),
        max_tokens: 2_000,
        parameters: Map::new(),
    };
    let roles = ROLES.map(|role| (Role::new(role), set.clone())).into();
    let ledger = Ledger::new([].into(), ceilings);
    let stop = Arc::new(AtomicBool::new(false));
    (Arc::new(Llm::new(Arc::new(model), roles, stores, ledger, stop)), heard)
}

/// Returns a complete reply with this text.
pub fn said(text: impl Into<String>) -> ScriptedReply {
    Ok((text.into(), Finish::Stop))
}
