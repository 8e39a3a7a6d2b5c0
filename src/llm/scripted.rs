//! A model for tests that answers by a function of the request, and a store in memory.

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
/// The name of the scripted model.
pub const MODEL: &str = "scripted";

/// Reply of a scripted model: its text and the reason for its end.
pub type ScriptedReply = Result<(String, Finish), LlmError>;

/// Answers by a function of the request; records the requests.
pub struct Scripted<F> {
    answer: F,
    asked: Arc<Mutex<Vec<Request>>>,
}

/// Requests to a scripted model, in the order of arrival.
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

/// Returns the last message of a request.
pub fn question(request: &Request) -> &str {
    request.messages.last().map_or("", |message| &message.text)
}

/// Returns the data blocks of a question whose names begin with `name`, such as `thing`: name and
/// text.
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

/// Stores replies in memory.
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

/// Creates a model that answers by a function of the request, with a store in memory and no
/// ceilings, and its request log.
pub fn llm<F>(answer: F) -> (Arc<Llm>, RequestLog)
where
    F: Fn(&Request) -> ScriptedReply + Send + Sync + 'static,
{
    llm_within(answer, Ceilings::default(), vec![Arc::new(MemoryStore::default())])
}

/// Creates a model as [`llm`] does, with ceilings and stores.
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
    (Arc::new(Llm::new(Box::new(model), roles, stores, ledger, stop)), heard)
}

/// Makes a complete reply.
pub fn said(text: impl Into<String>) -> ScriptedReply {
    Ok((text.into(), Finish::Stop))
}
