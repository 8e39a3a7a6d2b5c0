//! The llm actor: asks a language model for categories of queries and for a program for each. To
//! get better programs, it shows the model queries that a program answers well and badly (AvaTaR,
//! Wu et al. 2024).
//!
//! ```text
//! lexicon:    write questions about each relation
//! categories: discover on a sample -> assign the other queries -> merge small categories
//! program:    initial -> extract, compile, try -> repair with the error, at most twice
//!             -> show score and traces, take one revision
//! step:       good and bad queries with execution traces -> comparator's advice -> improve -> try
//! ```
//!
//! Replies are verified: categories and query numbers are checked; programs are compiled, searched
//! for leaked answers and run in the sandbox. Training queries decide which programs are accepted,
//! and validation queries whether changes are proven. The model sees training queries with their
//! answers, and the texts of validation queries without answers. An unusable reply ends only its
//! step, not the run.
//!
//! Parts can be disabled: [`Ablation::Steps`] disables revisions and improvement steps,
//! [`Ablation::Comparator`] the comparator's contrasts and advice, [`Ablation::Lexicon`] the
//! lexicon.

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
mod lexicon;
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
    lexicon::LEXICON_ROLE,
};
use crate::{
    Ablation, OptimizeError, Options, Result, Run, Stop,
    actor::{advice::AcceptedAdvice, briefing::Briefing, earlier::Attempts},
    mine::MinedPattern,
    roles::ROLES,
};
use agent_index::Part;
use agent_infer::bundle::LlmProvenance;
use agent_kb::distinct;
use agent_llm::{LlmError, Message, Reply, Request, Role, RoleSpec, prompts::PromptError};
use agent_tools::{Assistant, TOOLS_ROLE};

/// Kind of an attempt to write a category's first program, or a new program after a restart.
const INITIAL: &str = "initial";
/// Value of `proposed_by` of programs by the llm actor.
pub(super) const LLM: &str = "llm";
/// Number of consecutive unusable results after which the actor sends no further request. A result
/// is a program after its repairs, or advice.
const MAX_UNUSABLE: usize = 5;
/// The first request of a run, which checks that the model answers.
pub(crate) const GREETING: &str = "Reply with the word ready.";
/// Reason given for a missing reply if no request was sent.
const NOT_ASKED: &str = "no request was sent";
/// Maximum number of repairs of a malformed JSON reply.
const REPAIRS: u32 = 1;

/// An attempt of the llm actor to write or improve a program, as the journal stores it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Name of the category.
    pub category: String,
    /// Kind of request: `initial` or `improve`.
    #[serde(rename = "what")]
    pub kind: String,
    /// The comparator's advice that the program follows; `None` without advice.
    pub advice: Option<String>,
    /// Id of the resulting program, if it runs.
    pub program: Option<String>,
    /// Why there is no program; `None` if there is one.
    pub failure: Option<String>,
    /// Mean reciprocal rank of the category's previous program on the training queries on which the
    /// resulting program was measured; on all training queries of the category if there is no
    /// resulting program.
    pub before: f64,
    /// Mean reciprocal rank of the resulting program on the queries on which it was measured.
    pub after: Option<f64>,
    /// Number of training queries on which the resulting program was measured; `None` if there is
    /// no resulting program.
    #[serde(default)]
    pub n: Option<usize>,
    /// Whether the program replaced the category's program; for the first program of a category,
    /// whether it was better than the best available program.
    pub accepted: bool,
}

impl Attempt {
    /// Creates an attempt that has no program yet.
    fn new(category: &str, kind: &str, before: f64) -> Self {
        let (category, kind) = (category.to_owned(), kind.to_owned());
        Self { category, kind, before, ..Self::default() }
    }
}

/// The categories that the model found, as the journal stores them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Categories {
    /// The categories, in the order in which their programs are written.
    pub found: Vec<CategoryRecord>,
}

/// A category that the model found, as the journal stores it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CategoryRecord {
    /// Name of the category.
    pub name: String,
    /// The model's description of the category.
    pub description: String,
    /// The category's training queries, as positions in the training pool.
    pub train: Vec<usize>,
    /// The category's validation queries, as positions in the validation pool.
    pub validation: Vec<usize>,
}

/// Notes of the actor on one category during a run.
#[derive(Default)]
struct Notes {
    description: String,
    attempts: Attempts,
    /// Ids of programs that were measured.
    tried: BTreeSet<String>,
    /// Number of steps since the last accepted program or the last restart.
    gap: usize,
    /// Number of restarts of the category.
    restarts: usize,
    /// Keys of replies to this category's requests that were sent together with requests of other
    /// categories.
    replies: Vec<String>,
}

/// State of the llm actor in a run.
pub(super) struct Actor {
    assistant: Arc<Assistant>,
    briefing: Briefing,
    notes: BTreeMap<String, Notes>,
    /// Advice that led to an accepted program, in order of acceptance.
    accepted_advice: Vec<AcceptedAdvice>,
    /// Mined metapaths for prompts, once they are mined.
    mined: Option<Vec<MinedPattern>>,
    /// Number of consecutive unusable results so far; see [`MAX_UNUSABLE`].
    unusable: usize,
    /// Why the actor sends no further request; `None` while it may send requests.
    pub(super) stop: Option<Stop>,
    /// Keys of the replies that the current step used.
    replies: Vec<String>,
    /// Milliseconds that the actor spent waiting for replies.
    waited: Arc<AtomicU64>,
}

impl Actor {
    /// Creates the llm actor of a run.
    pub(super) fn new(assistant: Arc<Assistant>, waited: Arc<AtomicU64>, run: &Run<'_>) -> Self {
        let listed = run.options.listed_tools(run.base.part(Part::Query).is_ok());
        Self {
            assistant,
            briefing: Briefing::new(&run.base.kb, listed),
            notes: BTreeMap::new(),
            accepted_advice: Vec::new(),
            mined: None,
            unusable: 0,
            stop: None,
            replies: Vec::new(),
            waited,
        }
    }

    /// Returns the settings on which the actor's prompts and replies depend, for the run's
    /// identity.
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

    /// Returns the bundle's record of the language model: the model of each role, and the
    /// fingerprint of the prompts. `asks` states whether the bundle's programs ask a model.
    pub(super) fn provenance(&self, options: &Options, asks: bool) -> LlmProvenance {
        let model = |spec: RoleSpec| {
            let set = self.assistant.llm().role(&spec.role())?;
            Some((spec.name.to_owned(), set.model.clone()))
        };
        let contrasts = !options.lacks(Ablation::Comparator) && !options.lacks(Ablation::Steps);
        let optional = [
            contrasts.then_some(COMPARATOR_ROLE),
            (!options.lacks(Ablation::Lexicon)).then_some(LEXICON_ROLE),
            asks.then_some(TOOLS_ROLE),
        ];
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
    /// If the service gives no reply, or the reply cannot be stored.
    pub(super) fn greet(&mut self) -> Result<()> {
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

    /// Calls `ask` and adds the duration of the call to `waited`.
    fn waiting<T>(&self, ask: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let reply = ask();
        let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.waited.fetch_add(millis, Ordering::Relaxed);
        reply
    }

    /// Sends the prompt once with each of `inputs`, several requests at a time. Returns the replies
    /// in the order of `inputs`; an inner error states why there is no usable reply. `sample`
    /// distinguishes requests with the same text.
    fn ask_all(
        &mut self,
        role: Role,
        prompt: &str,
        inputs: Vec<Value>,
        sample: u32,
    ) -> Result<Vec<Result<Reply, String>>> {
        let requests = self.requests(&role, prompt, inputs, sample)?;
        let replies = self.waiting(|| self.assistant.llm().ask_all(&requests));
        self.classify_all(&requests, replies)
    }

    /// Does the same as [`Actor::ask_all`] with one input per category. The key of each reply is
    /// kept for the step of its category.
    fn ask_each(
        &mut self,
        role: Role,
        prompt: &str,
        category_inputs: Vec<(&str, Value)>,
        sample: u32,
    ) -> Result<Vec<Result<Reply, String>>> {
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

    /// Renders the prompt with each of `inputs` and returns the requests, in the same order.
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

    /// Does the same as [`Actor::ask_all`] for replies in JSON, and returns the parsed values.
    fn ask_json_all(
        &mut self,
        role: Role,
        prompt: &str,
        inputs: Vec<Value>,
        sample: u32,
    ) -> Result<Vec<Result<Value, String>>> {
        let requests = self.requests(&role, prompt, inputs, sample)?;
        let replies = self.waiting(|| self.assistant.llm().ask_json_all(&requests, REPAIRS));
        self.classify_all(&requests, replies.into_iter().map(|reply| reply.0))
    }

    /// Classifies the replies to `requests`, and records the keys of the replies, which the current
    /// step uses.
    fn classify_all<T>(
        &mut self,
        requests: &[Request],
        replies: impl IntoIterator<Item = Result<T, LlmError>>,
    ) -> Result<Vec<Result<T, String>>> {
        let classified = replies.into_iter().zip(requests).map(|(reply, request)| {
            if reply.is_ok() {
                self.replies.push(request.key());
            }
            self.classify(reply)
        });
        classified.collect()
    }

    /// Removes and returns the recorded keys of the replies of the current step and of its
    /// category, sorted, without duplicates.
    fn take_replies(&mut self, category: Option<&str>) -> Vec<String> {
        let mut replies = std::mem::take(&mut self.replies);
        if let Some(notes) = category.and_then(|name| self.notes.get_mut(name)) {
            replies.append(&mut notes.replies);
        }
        distinct(replies)
    }

    /// Classifies a reply. Returns its value, an inner error that ends only this step, or an error
    /// that ends the run, such as an outage. If a cost ceiling is reached, the actor stops.
    fn classify<T>(&mut self, reply: Result<T, LlmError>) -> Result<Result<T, String>> {
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

    /// Returns the result of a step, or `None` if the step ended because a request of a program's
    /// tool failed. If a cost ceiling is reached, the actor stops.
    pub(super) fn unless_stopped<T>(&mut self, done: Result<T>) -> Result<Option<T>> {
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
        let Err(why) = usable else {
            self.unusable = 0;
            return;
        };
        self.unusable += 1;
        if self.unusable >= MAX_UNUSABLE && self.stop.is_none() {
            let why = format!("{MAX_UNUSABLE} consecutive results were unusable; last: {why}");
            self.stop = Some(Stop::Unusable(why));
        }
    }
}

/// Returns the result of the only request.
fn only<T>(results: Vec<Result<T, String>>) -> Result<T, String> {
    results.into_iter().next().unwrap_or_else(|| Err(NOT_ASKED.to_owned()))
}

impl Run<'_> {
    /// Commits a step with the keys of the replies that it and its category used. If the actor
    /// stopped, commits nothing, so that a resumed run repeats the step.
    fn commit_asked(
        &mut self,
        actor: &mut Actor,
        category: Option<&str>,
        (kind, key): (&str, &str),
        body: &impl Serialize,
    ) -> Result<()> {
        let replies = actor.take_replies(category);
        if actor.stop.is_some() {
            return Ok(());
        }
        Ok(self.trials.journal.commit_with(kind, key, body, &[], &replies)?)
    }
}
