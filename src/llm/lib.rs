//! Sends requests to language models, stores their replies, and limits their cost.
//!
//! ```text
//! Llm::ask -> stored? (the run's journal, the shared cache) -> reply
//!          -> Ledger: below all ceilings? -> Model (a service, a cassette)
//!          -> stored at once in every store -> reply
//! ```
//!
//! A request is identified by its [key](Request::key), a digest of everything that is sent and of a
//! sample number, which allows several replies to the same text. The reply to each key is paid for
//! once, even if several threads request it at the same time or the process is killed.

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
pub mod services;
pub mod settings;
pub mod shared;

// The scripted model is compiled into other crates too, where it refers to this crate by this name.
#[cfg(test)]
extern crate self as agent_llm;

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
    /// The author of the instructions: the system prompt.
    System,
    /// This program, which asks the model.
    User,
    /// The language model.
    Assistant,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Author of the message.
    pub speaker: Speaker,
    /// Text of the message.
    pub text: String,
}

impl Message {
    /// Creates a message from this program to the model.
    pub fn user(text: impl Into<String>) -> Message {
        Message { speaker: Speaker::User, text: text.into() }
    }

    /// Creates a message with instructions.
    pub fn system(text: impl Into<String>) -> Message {
        Message { speaker: Speaker::System, text: text.into() }
    }

    /// Creates a message that the model sent earlier in the conversation.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message { speaker: Speaker::Assistant, text: text.into() }
    }
}

/// Schema that a JSON reply must follow, with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// Name of the schema, of letters, digits and underscores.
    pub name: String,
    /// The JSON schema.
    pub schema: Value,
}

/// One request to a language model: a conversation, and settings of the reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The part of this program that makes the request; costs are summed by role. Not sent.
    pub role: Role,
    /// Name of the model.
    pub model: String,
    /// The conversation so far; the model answers the last message.
    pub messages: Vec<Message>,
    /// Sampling temperature; `None`: the service's default (some models reject the parameter).
    pub temperature: Option<f64>,
    /// Maximum number of tokens of the reply.
    pub max_tokens: u32,
    /// Further parameters of the request, sent unchanged.
    pub parameters: Map<String, Value>,
    /// Schema that the reply must follow; `None` if the reply need not be JSON.
    pub json: Option<Schema>,
    /// Sample number, which distinguishes otherwise equal requests; not sent.
    pub sample: u32,
}

impl Request {
    /// Computes the key of the request: BLAKE3 digest of all fields except the role, in hexadecimal
    /// digits.
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
    /// The model finished the reply.
    Stop,
    /// The reply reached the maximum number of tokens and is incomplete.
    Length,
    /// A content filter of the service cut the reply off, or the model refused.
    Filter,
    /// The service gave another reason, or none.
    Other,
}

/// Number of tokens of one request and of its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Number of tokens sent.
    pub tokens_in: u64,
    /// Number of tokens received, including hidden reasoning.
    pub tokens_out: u64,
    /// Whether both numbers are estimated from the texts, because the service sent none.
    pub estimated: bool,
}

/// Reply of a language model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// Text of the reply, not empty.
    pub text: String,
    /// Why the text ends.
    pub finish: Finish,
    /// Number of tokens of the request and of the reply.
    pub usage: Usage,
}

/// A request with its reply, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The request that was sent.
    pub request: Request,
    /// The reply of the model.
    pub reply: Reply,
    /// Whether this run paid for the reply; `false` for a reply from the shared cache.
    pub paid: bool,
}

/// A language model: answers requests. Its methods are called from several threads at the same
/// time, and block until the reply arrives.
pub trait Model: Send + Sync {
    /// Returns the reply to a request; its text is not empty.
    ///
    /// # Errors
    /// [`LlmError`], after retries of transient errors.
    fn ask(&self, request: &Request) -> Result<Reply, LlmError>;

    /// Answers a request as [`Model::ask`] does. For each reply that is paid but unusable, calls
    /// `unusable` with the tokens used and with whether the request will be sent again. An error of
    /// `unusable` ends the request.
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

    /// Returns the limits of requests to this model: times, attempts, sizes and rates.
    fn limits(&self) -> Limits {
        Limits::default()
    }
}

/// A store of exchanges, each under the key of its request.
pub trait ReplyStore: Send + Sync {
    /// Returns the stored exchange whose request has the key `key`; `None` if there is none.
    ///
    /// # Errors
    /// [`LlmError::Store`] if the store cannot be read.
    fn get(&self, key: &str) -> Result<Option<Exchange>, LlmError>;

    /// Stores an exchange durably, under the key of its request. An exchange that is already stored
    /// under this key is kept.
    ///
    /// # Errors
    /// [`LlmError::Store`] if the exchange cannot be written.
    fn put(&self, key: &str, exchange: &Exchange) -> Result<(), LlmError>;

    /// Records the tokens of a reply that is paid but unusable. Only stores from which a resumed
    /// run restores its spending do so; the default does nothing.
    ///
    /// # Errors
    /// [`LlmError::Store`] if the record cannot be written.
    fn note_unusable(&self, key: &str, request: &Request, usage: Usage) -> Result<(), LlmError> {
        let _ = (key, request, usage);
        Ok(())
    }
}

/// Why a request to a language model has no reply.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LlmError {
    /// The service of the model failed.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// No attempt returned a usable reply.
    #[error("the reply of {model} cannot be used: {reason}")]
    Reply {
        /// Name of the model.
        model: String,
        /// What is wrong with the reply.
        reason: String,
    },
    /// The next request could exceed a ceiling (maximum spending), so it was not sent.
    #[error(
        "the {what} is reached: {spent} of {ceiling} spent, and the next request may take {next}"
    )]
    Budget {
        /// Name of the ceiling, such as `budget in USD`.
        what: &'static str,
        /// Amount spent so far, in the unit of the ceiling.
        spent: String,
        /// Amount of the ceiling, with its unit.
        ceiling: String,
        /// Maximum amount that the next request may take, with its unit.
        next: String,
    },
    /// A ceiling in USD is set, but the price of the model is unknown; holds the model's name.
    #[error(
        "the price of model {0:?} is unknown, so a budget in USD cannot be enforced; \
         add [llm.prices.{0:?}] with input and output, USD per million tokens, to the settings"
    )]
    NoPrice(String),
    /// The cassette that is played back has no reply to the request; holds the message.
    #[error("{0}")]
    Unrecorded(String),
    /// A reply cannot be stored or read back; holds the message.
    #[error("{0}")]
    Store(String),
    /// The caller asked to stop, so the request was not sent or not finished.
    #[error("stopped")]
    Stopped,
}

impl LlmError {
    /// Whether the service failed, so that the same request may succeed later.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// Whether every further request would probably fail as well; `true` for all errors except
    /// unusable replies.
    pub fn ends_run(&self) -> bool {
        !matches!(self, Self::Reply { .. })
    }
}
