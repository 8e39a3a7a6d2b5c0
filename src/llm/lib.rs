//! Sends requests to language models, stores their replies, and limits their cost.
//!
//! ```text
//! Llm::ask -> stored? (the run's journal, the shared cache) -> reply
//!          -> Ledger: below all ceilings? -> Model (a service, a cassette)
//!          -> stored at once in every store -> reply
//! ```
//!
//! A request is identified by its [key](Request::key), a digest of everything that is sent and of a
//! sample index, which allows several replies to the same text. Each key is paid for once, even if
//! several threads request it at the same time or the process is killed.

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

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// Instructions.
    System,
    /// The program.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Author.
    pub speaker: Speaker,
    /// Text.
    pub text: String,
}

impl Message {
    /// Creates a message of the program.
    pub fn user(text: impl Into<String>) -> Message {
        Message { speaker: Speaker::User, text: text.into() }
    }

    /// Creates instructions.
    pub fn system(text: impl Into<String>) -> Message {
        Message { speaker: Speaker::System, text: text.into() }
    }

    /// Creates an earlier message of the model.
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
    /// The role, by which costs are summed; not sent.
    pub role: Role,
    /// The model.
    pub model: String,
    /// The conversation so far; the last message is answered.
    pub messages: Vec<Message>,
    /// Sampling temperature; none leaves it to the service (some models reject the parameter).
    pub temperature: Option<f64>,
    /// Maximum number of tokens of the reply.
    pub max_tokens: u32,
    /// Further parameters, sent unchanged.
    pub parameters: Map<String, Value>,
    /// The form of the reply, if it must be JSON.
    pub json: Option<Schema>,
    /// Distinguishes otherwise equal requests; not sent.
    pub sample: u32,
}

impl Request {
    /// Computes the key: BLAKE3 of all fields except the role, hexadecimal.
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

/// Why a reply ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model finished.
    Stop,
    /// The token limit cut it off.
    Length,
    /// A filter of the service cut it off.
    Filter,
    /// Another or an unknown reason.
    Other,
}

/// Tokens of one request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent.
    pub tokens_in: u64,
    /// Tokens received, including hidden reasoning.
    pub tokens_out: u64,
    /// Whether the counts are estimated from the text, because the service sent none.
    pub estimated: bool,
}

/// Reply of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The text, not empty.
    pub text: String,
    /// Why the text ends.
    pub finish: Finish,
    /// Tokens used.
    pub usage: Usage,
}

/// A request with its reply, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The request.
    pub request: Request,
    /// The reply.
    pub reply: Reply,
    /// Whether this run paid for it; false for a reply from the shared cache.
    pub paid: bool,
}

/// Answers requests. Called from several threads at the same time; blocks.
pub trait Model: Send + Sync {
    /// Returns the reply to a request; its text is not empty.
    ///
    /// # Errors
    /// [`LlmError`], after retries of transient errors.
    fn ask(&self, request: &Request) -> Result<Reply, LlmError>;

    /// Answers a request as [`Model::ask`] does. For each paid but unusable reply, calls `unusable`
    /// with its usage and whether the request is repeated. An error of `unusable` ends the request.
    ///
    /// # Errors
    /// Errors of [`Model::ask`] and of `unusable`.
    fn ask_counting(
        &self,
        request: &Request,
        unusable: &mut dyn FnMut(Usage, bool) -> Result<(), LlmError>,
    ) -> Result<Reply, LlmError> {
        let _ = unusable;
        self.ask(request)
    }

    /// Returns the limits of requests: times, attempts, sizes and rates.
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

/// Stores exchanges by the key of their request.
pub trait ReplyStore: Send + Sync {
    /// Returns the exchange of a key, if it is stored.
    ///
    /// # Errors
    /// [`LlmError::Store`].
    fn get(&self, key: &str) -> Result<Option<Exchange>, LlmError>;

    /// Stores an exchange durably. Storing a key again does nothing.
    ///
    /// # Errors
    /// [`LlmError::Store`].
    fn put(&self, key: &str, exchange: &Exchange) -> Result<(), LlmError>;

    /// Records the usage of a paid but unusable reply. Only stores from which a resumed run
    /// restores its spending do so; the default does nothing.
    ///
    /// # Errors
    /// [`LlmError::Store`].
    fn note_unusable(&self, key: &str, request: &Request, usage: Usage) -> Result<(), LlmError> {
        let _ = (key, request, usage);
        Ok(())
    }
}

/// Errors of a request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LlmError {
    /// The service failed.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// No attempt returned a usable reply.
    #[error("the reply of {model} cannot be used: {reason}")]
    Reply {
        /// The model.
        model: String,
        /// What is wrong with the reply.
        reason: String,
    },
    /// The next request could exceed a ceiling.
    #[error(
        "the {what} is reached: {spent} of {ceiling} spent, and the next request may take {next}"
    )]
    Budget {
        /// Name of the ceiling.
        what: &'static str,
        /// Spent so far, with its unit.
        spent: String,
        /// The ceiling, with its unit.
        ceiling: String,
        /// Maximum use of the next request, with its unit.
        next: String,
    },
    /// A ceiling in USD is set, but the model has no price.
    #[error(
        "the price of model {0:?} is unknown, so a budget in USD cannot be enforced; \
         add [llm.prices.{0:?}] with input and output, USD per million tokens, to the settings"
    )]
    NoPrice(String),
    /// A cassette does not hold the request.
    #[error("{0}")]
    Unrecorded(String),
    /// A reply cannot be stored or read back.
    #[error("{0}")]
    Store(String),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

impl LlmError {
    /// Whether the error is unrelated to the request, so that a later attempt may succeed.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// Whether every further request would probably fail as well: true except for unusable replies.
    pub fn ends_run(&self) -> bool {
        !matches!(self, Self::Reply { .. })
    }
}
