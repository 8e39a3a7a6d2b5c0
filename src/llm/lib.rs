//! Asks language models: what a request and a reply are, where replies are kept, what they cost.
//!
//! ```text
//! Llm::ask -> kept already? (the run's journal, the shared cache) -> reply
//!          -> Ledger: would a ceiling be passed? -> Model (a service, a cassette)
//!          -> kept at once in every store -> reply
//! ```
//!
//! A request is known by its [key](Request::key): everything that is sent, and a sample index, so
//! that one may ask for several replies to the same words. The same key is paid for once, also when
//! several threads ask at the same time and after the process was killed.
//!
//! Must not know: the knowledge base, prompts, programs, who needs the reply.

mod ask;
pub mod cassette;
pub mod ledger;
pub mod openai;
pub mod prompts;
pub mod replies;
mod role;
#[cfg(test)]
mod scripted;
#[cfg(test)]
#[path = "../remote/scripted.rs"]
mod scripted_service;
pub mod settings;
pub mod shared;

// The scripted model is compiled into other crates as well, where it names this one.
#[cfg(test)]
extern crate self as agent_llm;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use crate::{
    ask::{Llm, RoleSettings},
    role::{Role, RoleSpec},
};
use agent_remote::{Limits, RemoteError};

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// Instructions.
    System,
    /// The program that asks.
    User,
    /// The model, earlier.
    Assistant,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub speaker: Speaker,
    /// What is said.
    pub text: String,
}

impl Message {
    /// A message of the program that asks.
    pub fn user(text: impl Into<String>) -> Message {
        Message { speaker: Speaker::User, text: text.into() }
    }

    /// Instructions.
    pub fn system(text: impl Into<String>) -> Message {
        Message { speaker: Speaker::System, text: text.into() }
    }

    /// What the model said earlier.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message { speaker: Speaker::Assistant, text: text.into() }
    }
}

/// The form that a JSON reply must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// A name of letters, digits and underscores.
    pub name: String,
    /// The JSON schema.
    pub schema: Value,
}

/// One question to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Who asks: costs are summed by it; not sent.
    pub role: Role,
    /// The model.
    pub model: String,
    /// The conversation so far; the last message is answered.
    pub messages: Vec<Message>,
    /// Sampling temperature; none leaves it to the service, as some models take none.
    pub temperature: Option<f64>,
    /// Tokens of the reply at most.
    pub max_tokens: u32,
    /// Further parameters that are sent as they are.
    pub parameters: Map<String, Value>,
    /// The form of the reply, if it is to be JSON.
    pub json: Option<Schema>,
    /// Tells requests apart that are otherwise equal; not sent.
    pub sample: u32,
}

impl Request {
    /// What the request is known by: BLAKE3 of everything but the role, hexadecimal.
    pub fn key(&self) -> String {
        let parts = (
            (&self.model, &self.messages, self.temperature, self.max_tokens),
            (&self.parameters, &self.json, self.sample),
        );
        // Strings, finite numbers and lists of them always have a JSON form.
        let bytes = serde_json::to_vec(&parts).unwrap_or_default();
        blake3::hash(&bytes).to_hex().to_string()
    }
}

/// Why a reply ends where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model was done.
    Stop,
    /// It was cut off at the limit of tokens.
    Length,
    /// A filter of the service cut it off.
    Filter,
    /// For another reason, or for none that was told.
    Other,
}

/// Tokens of one request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent.
    pub tokens_in: u64,
    /// Tokens received, those of hidden reasoning included.
    pub tokens_out: u64,
    /// Whether the service did not count them, so that they were estimated from the text.
    pub estimated: bool,
}

/// What a model answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The text; never empty.
    pub text: String,
    /// Why it ends.
    pub finish: Finish,
    /// What it used.
    pub usage: Usage,
}

/// A request with its reply, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// What was asked.
    pub request: Request,
    /// What was answered.
    pub reply: Reply,
    /// Whether the run that keeps it paid for it; what came from a shared cache costs it nothing.
    pub paid: bool,
}

/// Answers requests. Called from several threads at a time; blocks.
pub trait Model: Send + Sync {
    /// The reply to a request, whole and not empty.
    ///
    /// # Errors
    /// [`LlmError`]; what may pass has been tried again before.
    fn ask(&self, request: &Request) -> Result<Reply, LlmError>;

    /// As [`Model::ask`], and tells of each reply that was paid for and cannot be used: what it
    /// took, and whether the model asks again. An error of `unusable` ends the asking. A model
    /// that never asks twice has nothing to tell.
    ///
    /// # Errors
    /// Those of [`Model::ask`], and those of `unusable`.
    fn ask_counting(
        &self,
        request: &Request,
        unusable: &mut dyn FnMut(Usage, bool) -> Result<(), LlmError>,
    ) -> Result<Reply, LlmError> {
        let _ = unusable;
        self.ask(request)
    }

    /// What one request may cost.
    fn limits(&self) -> Limits {
        Limits::default()
    }
}

impl<T: Model + ?Sized> Model for Arc<T> {
    fn ask(&self, request: &Request) -> Result<Reply, LlmError> {
        (**self).ask(request)
    }

    fn ask_counting(
        &self,
        request: &Request,
        unusable: &mut dyn FnMut(Usage, bool) -> Result<(), LlmError>,
    ) -> Result<Reply, LlmError> {
        (**self).ask_counting(request, unusable)
    }

    fn limits(&self) -> Limits {
        (**self).limits()
    }
}

/// Keeps exchanges by the key of their request.
pub trait ReplyStore: Send + Sync {
    /// The exchange of a key, if it is kept.
    ///
    /// # Errors
    /// [`LlmError::Store`].
    fn get(&self, key: &str) -> Result<Option<Exchange>, LlmError>;

    /// Keeps an exchange; when this returns, it is on the disk. Keeping a key again does nothing.
    ///
    /// # Errors
    /// [`LlmError::Store`].
    fn put(&self, key: &str, exchange: &Exchange) -> Result<(), LlmError>;

    /// Notes what a reply took that was paid for and cannot be used, where paid replies are
    /// counted again when a run goes on. Other stores do nothing.
    ///
    /// # Errors
    /// [`LlmError::Store`].
    fn note_unusable(&self, key: &str, request: &Request, usage: Usage) -> Result<(), LlmError> {
        let _ = (key, request, usage);
        Ok(())
    }
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LlmError {
    /// The service gave none.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// What came is no reply, however often it was asked for.
    #[error("the reply of {model} cannot be used: {reason}")]
    Reply {
        /// The model.
        model: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The next request could pass a ceiling.
    #[error(
        "the {what} is reached: {spent} of {ceiling} spent, and the next request may take {next}"
    )]
    Budget {
        /// Which ceiling.
        what: &'static str,
        /// Spent so far, with its unit.
        spent: String,
        /// The ceiling, with its unit.
        ceiling: String,
        /// The most that the next request takes, with its unit.
        next: String,
    },
    /// A ceiling in dollars cannot be kept without a price.
    #[error(
        "the price of model {0:?} is not known, so that no budget in USD can be kept; \
         add [llm.prices.{0:?}] with input and output, USD for a million tokens, to the settings"
    )]
    NoPrice(String),
    /// A cassette does not hold the request.
    #[error("{0}")]
    Unrecorded(String),
    /// A reply cannot be kept or read back.
    #[error("{0}")]
    Store(String),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

impl LlmError {
    /// Whether asking later may well succeed: it says nothing of what was asked.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// Whether every further request would fail alike, so that nothing is won by asking on.
    pub fn ends_run(&self) -> bool {
        !matches!(self, Self::Reply { .. })
    }
}
