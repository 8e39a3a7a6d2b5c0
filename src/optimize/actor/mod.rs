//! The llm actor: asks a language model for categories and programs, contrasts well and badly
//! answered queries, and asks for better programs (AvaTaR, Wu et al. 2024).
//!
//! ```text
//! categories: discover on a sample -> assign the other queries -> merge small categories
//! program:    initial -> extract, compile, try -> repair with the error, at most twice
//!             -> show score and traces, take one revision
//! step:       good and bad queries with execution traces -> comparator's advice -> improve -> try
//! ```
//!
//! Replies are verified: categories and query numbers are checked; programs are compiled, searched
//! for leaked answers and run in the sandbox. Training queries decide which programs are kept,
//! validation queries whether changes are proven. The model sees training queries with answers, and
//! the texts of validation queries without answers. An unusable reply fails only its step.
//!
//! [`Ablation::Steps`] disables revisions and steps; [`Ablation::Comparator`] disables contrasts
//! and advice.

mod advice;
mod author;
mod briefing;
mod categories;
mod changes;
mod drafts;
mod earlier;
mod estimate;
mod execution_trace;
mod first;
mod shown;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use crate::actor::author::ACTOR_ROLE;
pub use crate::actor::estimate::{Estimate, Range, estimate};
pub(crate) use crate::actor::{
    author::{COMPARATOR_ROLE, headed},
    categories::CATEGORIES_ROLE,
};
use crate::{
    Ablation, Event, OptimizeError, Options, Run, Stop,
    actor::{advice::AcceptedAdvice, briefing::Briefing, earlier::Attempts},
    improve::Measurement,
    mine::MinedPattern,
    roles::ROLES,
};
use agent_index::Part;
use agent_infer::bundle::LlmProvenance;
use agent_llm::{LlmError, Message, Reply, Request, Role, RoleSpec, prompts::PromptError};
use agent_tools::{Assistant, TOOLS_ROLE};

/// `proposed_by` of the actor's programs.
pub(super) const LLM: &str = "llm";
/// Number of consecutive unusable results (a program after its repairs, or advice) after which no
/// further request is sent.
const MAX_UNUSABLE: usize = 5;
/// The first request of a run, which checks that the model answers.
pub(crate) const GREETING: &str = "Reply with the word ready.";
/// Reason for a missing reply if no request was sent.
const NOT_ASKED: &str = "no request was sent";
/// Maximum number of repairs of a malformed JSON reply.
const REPAIRS: u32 = 1;

/// A step of the actor, as the journal stores it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The category.
    pub category: String,
    /// Kind of request: `initial` or `improve`.
    #[serde(rename = "what")]
    pub kind: String,
    /// The comparator's advice.
    pub advice: Option<String>,
    /// Id of the resulting program, if it runs.
    pub program: Option<String>,
    /// Why there is no program.
    pub failure: Option<String>,
    /// Mean reciprocal rank of the category's program on its training queries.
    pub before: f64,
    /// Mean reciprocal rank of the resulting program.
    pub after: Option<f64>,
    /// Number of measured queries; `None` if all of the category or none were measured.
    #[serde(default)]
    pub n: Option<usize>,
    /// Whether the program was accepted.
    pub accepted: bool,
}

impl Attempt {
    /// Creates an attempt without a result.
    fn new(category: &str, kind: &str, before: f64) -> Self {
        Self {
            category: category.to_owned(),
            kind: kind.to_owned(),
            advice: None,
            program: None,
            failure: None,
            before,
            after: None,
            n: None,
            accepted: false,
        }
    }

    /// Adds the measurement of the attempt's program.
    fn note(&mut self, measured: &Measurement) {
        self.before = measured.before;
        self.after = Some(measured.mrr);
        self.n = Some(measured.queries.len());
        self.accepted = measured.accepted;
    }
}

/// The found categories, as the journal stores them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Categories {
    /// The categories, in the order in which their programs are written.
    pub found: Vec<CategoryRecord>,
}

/// A found category, as the journal stores it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CategoryRecord {
    /// Name of the category.
    pub name: String,
    /// Description by the model.
    pub description: String,
    /// Training queries by position.
    pub train: Vec<usize>,
    /// Validation queries by position.
    pub validation: Vec<usize>,
}

/// The actor's notes on a category.
#[derive(Default)]
struct Notes {
    description: String,
    attempts: Attempts,
    /// Ids of measured programs.
    tried: BTreeSet<String>,
    /// Steps since the last accepted program or restart.
    gap: usize,
    /// Number of restarts.
    restarts: usize,
    /// Keys of replies to requests that were sent together with those of other categories.
    replies: Vec<String>,
}

/// The actor in one run.
pub(super) struct Actor {
    assistant: Arc<Assistant>,
    briefing: Briefing,
    notes: BTreeMap<String, Notes>,
    /// Advice whose program was accepted, in order.
    accepted_advice: Vec<AcceptedAdvice>,
    /// Metapaths for prompts; empty unless `has_mined`.
    mined: Vec<MinedPattern>,
    has_mined: bool,
    /// Number of consecutive unusable results, see [`MAX_UNUSABLE`].
    unusable: usize,
    stop: Option<Stop>,
    /// Keys of the replies of the current step.
    replies: Vec<String>,
    /// Milliseconds spent waiting for replies.
    waited: Arc<AtomicU64>,
}

impl Actor {
    /// Creates the actor of a run.
    pub(super) fn new(assistant: Arc<Assistant>, waited: Arc<AtomicU64>, run: &Run<'_>) -> Self {
        let briefing = Briefing::new(
            &run.base.kb,
            run.options.listed_tools(run.base.part(Part::Query).is_ok()),
        );
        Self {
            assistant,
            briefing,
            notes: BTreeMap::new(),
            accepted_advice: Vec::new(),
            mined: Vec::new(),
            has_mined: false,
            unusable: 0,
            stop: None,
            replies: Vec::new(),
            waited,
        }
    }

    /// Returns the settings that the actor's replies depend on.
    pub(super) fn identity(&self, options: &Options) -> Value {
        let set = |spec: &RoleSpec| {
            let set = self.assistant.llm().role(&spec.role())?;
            let numbers = json!([set.temperature, set.max_tokens, set.parameters]);
            Some((spec.name.to_owned(), json!([set.model, numbers])))
        };
        let roles: serde_json::Map<String, Value> = ROLES.iter().filter_map(set).collect();
        json!({
            "actors": options.actors,
            "llm_tools": options.llm_tools,
            "avatar_tools": options.avatar_tools,
            "llm_steps": options.llm_steps,
            "prompts": self.assistant.prompts().fingerprint(),
            "voices": roles,
        })
    }

    /// Returns the models and the fingerprint of the prompts for a bundle; `asks` is true if its
    /// programs ask a model.
    pub(super) fn provenance(&self, options: &Options, asks: bool) -> LlmProvenance {
        let model = |spec: RoleSpec| {
            let set = self.assistant.llm().role(&spec.role())?;
            Some((spec.name.to_owned(), set.model.clone()))
        };
        let contrasts = !options.lacks(Ablation::Comparator) && !options.lacks(Ablation::Steps);
        let optional = [contrasts.then_some(COMPARATOR_ROLE), asks.then_some(TOOLS_ROLE)];
        let roles = [ACTOR_ROLE, CATEGORIES_ROLE].into_iter().chain(optional.into_iter().flatten());
        LlmProvenance {
            models: roles.filter_map(model).collect(),
            prompts: self.assistant.prompts().fingerprint().to_owned(),
            tools: asks,
        }
    }

    /// Sends one short request, so that a wrong key, a wrong address or an exhausted account fails
    /// early. The reply is stored: a resumed run does not send it again.
    ///
    /// # Errors
    /// If the service gives no reply, or one that cannot be stored.
    pub(super) fn greet(&mut self) -> Result<(), OptimizeError> {
        let llm = self.assistant.llm();
        let request = llm.request(ACTOR_ROLE.role(), vec![Message::user(GREETING)], None, 0);
        match self.waiting(|| llm.ask(&request)) {
            // Older cassettes have no greeting.
            Err(LlmError::Unrecorded(_)) => Ok(()),
            // A web page or another protocol: there is no model at this address.
            Err(error @ LlmError::Reply { .. }) => Err(OptimizeError::NoService(error)),
            reply => self.classify(reply).map(drop),
        }
    }

    /// Calls `ask` and adds its duration to `waited`.
    fn waiting<T>(&self, ask: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let reply = ask();
        let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.waited.fetch_add(millis, Ordering::Relaxed);
        reply
    }

    /// Returns why no further request is sent; `None` while requests may be sent.
    pub(super) fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// Sends a prompt with each of the inputs, several requests at a time. Replies are in the order
    /// of `inputs`. An inner error states why there is no usable reply.
    fn ask_all(
        &mut self,
        role: Role,
        prompt: &str,
        inputs: Vec<Value>,
        sample: u32,
    ) -> Result<Vec<Result<Reply, String>>, OptimizeError> {
        let requests = self.requests(&role, prompt, inputs, sample)?;
        let replies = self.waiting(|| self.assistant.llm().ask_all(&requests));
        replies
            .into_iter()
            .zip(&requests)
            .map(|(reply, request)| {
                self.note_reply_key(request, &reply);
                self.classify(reply)
            })
            .collect()
    }

    /// [`Actor::ask_all`] with one input per category; keys of replies are kept for the category's
    /// step.
    fn ask_each(
        &mut self,
        role: Role,
        prompt: &str,
        category_inputs: Vec<(&str, Value)>,
        sample: u32,
    ) -> Result<Vec<Result<Reply, String>>, OptimizeError> {
        let (names, inputs): (Vec<&str>, Vec<Value>) = category_inputs.into_iter().unzip();
        let before = self.replies.len();
        let replies = self.ask_all(role, prompt, inputs, sample)?;
        let mut keys = self.replies.split_off(before).into_iter();
        for (name, _) in names.into_iter().zip(&replies).filter(|pair| pair.1.is_ok()) {
            let notes = self.notes.entry(name.to_owned()).or_default();
            notes.replies.extend(keys.next());
        }
        Ok(replies)
    }

    /// [`Actor::ask_all`] with one input.
    fn ask(
        &mut self,
        role: Role,
        prompt: &str,
        inputs: Value,
        sample: u32,
    ) -> Result<Result<Reply, String>, OptimizeError> {
        let mut replies = self.ask_all(role, prompt, vec![inputs], sample)?;
        Ok(replies.pop().unwrap_or_else(|| Err(NOT_ASKED.to_owned())))
    }

    /// Renders a prompt with each of the inputs into requests.
    fn requests(
        &self,
        role: &Role,
        prompt: &str,
        inputs: Vec<Value>,
        sample: u32,
    ) -> Result<Vec<Request>, PromptError> {
        let request = |one| self.assistant.request(role.clone(), prompt, one, sample);
        inputs.into_iter().map(request).collect()
    }

    /// [`Actor::ask_all`] for replies in JSON.
    fn ask_json_all(
        &mut self,
        role: Role,
        prompt: &str,
        inputs: Vec<Value>,
        sample: u32,
    ) -> Result<Vec<Result<Value, String>>, OptimizeError> {
        let requests = self.requests(&role, prompt, inputs, sample)?;
        let answers = self.waiting(|| self.assistant.llm().ask_json_all(&requests, REPAIRS));
        answers
            .into_iter()
            .zip(&requests)
            .map(|((value, _), request)| {
                self.note_reply_key(request, &value);
                self.classify(value)
            })
            .collect()
    }

    /// Records the key of a reply that the current step uses.
    fn note_reply_key<T>(&mut self, request: &Request, reply: &Result<T, LlmError>) {
        if reply.is_ok() {
            self.replies.push(request.key());
        }
    }

    /// Takes the keys of the replies of the step and of its category, sorted, without duplicates.
    fn take_replies(&mut self, category: Option<&str>) -> Vec<String> {
        let mut replies = std::mem::take(&mut self.replies);
        if let Some(notes) = category.and_then(|name| self.notes.get_mut(name)) {
            replies.append(&mut notes.replies);
        }
        replies.sort_unstable();
        replies.dedup();
        replies
    }

    /// Classifies a reply: a value, an inner error that fails only this step, or an error that ends
    /// the run, such as an outage. A cost ceiling stops the actor.
    fn classify<T>(
        &mut self,
        reply: Result<T, LlmError>,
    ) -> Result<Result<T, String>, OptimizeError> {
        match reply {
            Ok(value) => Ok(Ok(value)),
            Err(error @ LlmError::Reply { .. }) => Ok(Err(error.to_string())),
            Err(error @ (LlmError::Budget { .. } | LlmError::NoPrice(_))) => {
                self.stop = Some(Stop::Budget(error.to_string()));
                Ok(Err(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the result, or `None` if a failed request of a program's tool ended the step. A
    /// cost ceiling stops the actor.
    pub(super) fn unless_stopped<T>(
        &mut self,
        done: Result<T, OptimizeError>,
    ) -> Result<Option<T>, OptimizeError> {
        match done {
            Err(OptimizeError::Llm(error)) => {
                if let Err(why) = self.classify::<T>(Err(error))? {
                    tracing::info!(why, "a tool's request ended the step");
                }
                self.replies.clear();
                Ok(None)
            }
            done => done.map(Some),
        }
    }

    /// Records whether a program or advice was usable; stops the actor after [`MAX_UNUSABLE`]
    /// consecutive failures.
    fn note_usable(&mut self, usable: Result<(), &str>) {
        match usable {
            Ok(()) => self.unusable = 0,
            Err(why) => {
                self.unusable += 1;
                if self.unusable >= MAX_UNUSABLE && self.stop.is_none() {
                    self.stop = Some(Stop::Unusable(format!(
                        "{MAX_UNUSABLE} consecutive results were unusable; last: {why}"
                    )));
                }
            }
        }
    }
}

impl Run<'_> {
    fn report(&mut self, message: String) {
        (self.watch)(Event::Message(message));
    }
}
