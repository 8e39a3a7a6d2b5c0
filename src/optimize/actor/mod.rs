//! The llm actor: asks a language model for categories and programs, contrasts what programs
//! answer well and badly, and asks for better ones (AvaTaR, Wu et al. 2024).
//!
//! ```text
//! categories: discover on a sample, which it places -> assign the rest -> small ones join the others
//! program:    initial -> extracted, compiled, tried -> mended with the error, at most twice
//!             -> tried out: score and traces go back, one revision is taken
//! step:       good and bad queries with execution traces -> comparator's advice -> improve -> tried
//! ```
//!
//! What a model says is never believed: categories and numbers of queries are checked, programs
//! are compiled, searched for leaked answers and run in the sandbox, training queries say what is
//! kept, and validation queries whether all that was kept is proven. The
//! model is shown training queries with their answers; of validation queries it sees the words, to
//! put them into categories, and no answer. A reply that cannot be used fails its step and no more.
//!
//! Must not know: how models are asked, what a reply costs.

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
    sync::Arc,
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
    Event, OptimizeError, Options, Run, Stop,
    actor::{advice::Gained, briefing::Briefing, earlier::Attempts},
    improve::Measured,
    mine::Mined,
    roles::ROLES,
};
use agent_index::Part;
use agent_infer::bundle::LlmProvenance;
use agent_llm::{LlmError, Message, Reply, Request, Role, RoleSpec, prompts::PromptError};
use agent_tools::{Assistant, TOOLS_ROLE};

/// Name under which the actor's proposals are kept.
pub(super) const LLM: &str = "llm";
/// Steps in a row whose replies cannot be used, after which no model is asked any more.
const MAX_UNUSABLE: usize = 5;
/// What a model is asked first, to see whether it answers.
pub(crate) const GREETING: &str = "Reply with the word ready.";
/// Times a JSON reply of a wrong form is repaired.
const REPAIRS: u32 = 1;

/// What the actor did in one step, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The category.
    pub category: String,
    /// What was asked for: `initial` or `improve`.
    pub what: String,
    /// The comparator's advice.
    pub advice: Option<String>,
    /// The program that came of it, if one runs.
    pub program: Option<String>,
    /// Why nothing came of it.
    pub failure: Option<String>,
    /// Mean reciprocal rank on training queries of the category, before.
    pub before: f64,
    /// And of the program.
    pub after: Option<f64>,
    /// On how many queries; all of the category where nothing was measured.
    #[serde(default)]
    pub n: Option<usize>,
    /// Whether it was kept.
    pub accepted: bool,
}

impl Attempt {
    /// One that has come to nothing yet.
    fn new(category: &str, what: &str, before: f64) -> Self {
        Self {
            category: category.to_owned(),
            what: what.to_owned(),
            advice: None,
            program: None,
            failure: None,
            before,
            after: None,
            n: None,
            accepted: false,
        }
    }

    /// Notes what came of its program.
    fn note(&mut self, measured: &Measured) {
        self.before = measured.before;
        self.after = Some(measured.mrr);
        self.n = Some(measured.queries.len());
        self.accepted = measured.accepted;
    }
}

/// The categories that were found, as the journal keeps them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Categories {
    /// In the order in which programs are written for them.
    pub found: Vec<CategoryFound>,
}

/// One category that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CategoryFound {
    /// Its name.
    pub name: String,
    /// Which queries belong to it, in the model's words.
    pub description: String,
    /// Training queries by position.
    pub train: Vec<usize>,
    /// Validation queries by position.
    pub validation: Vec<usize>,
}

/// What is remembered of a category.
#[derive(Default)]
struct Notes {
    description: String,
    attempts: Attempts,
    /// Ids of programs that were measured.
    tried: BTreeSet<String>,
    /// Steps since something was accepted.
    gap: usize,
    /// Times it was begun anew.
    restarts: usize,
    /// Keys of replies to what was asked for it with others at a time.
    replies: Vec<String>,
}

/// The actor in one run.
pub(super) struct Actor {
    assistant: Arc<Assistant>,
    briefing: Briefing,
    notes: BTreeMap<String, Notes>,
    /// Advice whose program was kept, in order.
    gained: Vec<Gained>,
    /// Metapaths for prompts, and whether they were mined.
    mined: Vec<Mined>,
    has_mined: bool,
    /// Steps in a row whose replies could not be used.
    unusable: usize,
    stop: Option<Stop>,
    /// Keys of the replies of the step at hand.
    replies: Vec<String>,
}

impl Actor {
    /// An actor for a run.
    pub(super) fn new(assistant: Arc<Assistant>, run: &Run<'_>) -> Self {
        let briefing =
            Briefing::new(&run.base.kb, run.options.told(run.base.part(Part::Query).is_ok()));
        Self {
            assistant,
            briefing,
            notes: BTreeMap::new(),
            gained: Vec::new(),
            mined: Vec::new(),
            has_mined: false,
            unusable: 0,
            stop: None,
            replies: Vec::new(),
        }
    }

    /// What its replies depend on, beside base and queries.
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

    /// The models that were asked, and the fingerprint of the prompts; of a bundle whose programs ask
    /// a model themselves or do not.
    pub(super) fn provenance(&self, asks: bool) -> LlmProvenance {
        let model = |spec: RoleSpec| {
            let set = self.assistant.llm().role(&spec.role())?;
            Some((spec.name.to_owned(), set.model.clone()))
        };
        let asked = [ACTOR_ROLE, COMPARATOR_ROLE, CATEGORIES_ROLE];
        let tools = asks.then_some(TOOLS_ROLE);
        LlmProvenance {
            models: asked.into_iter().chain(tools).filter_map(model).collect(),
            prompts: self.assistant.prompts().fingerprint().to_owned(),
            tools: asks,
        }
    }

    /// Asks one short question, so that a wrong key, a wrong address or a spent account ends the
    /// run before anything is worked at. The reply is kept like any other: a run asks once.
    ///
    /// # Errors
    /// That the service gave no reply, or none that can be kept.
    pub(super) fn greet(&mut self) -> Result<(), OptimizeError> {
        let llm = self.assistant.llm();
        let request = llm.request(ACTOR_ROLE.role(), vec![Message::user(GREETING)], None, 0);
        match llm.ask(&request) {
            // A cassette that was recorded without the question is no service that fails.
            Err(LlmError::Unrecorded(_)) => Ok(()),
            // A web page, or another form than the agreed one: there is no model at this address.
            Err(error @ LlmError::Reply { .. }) => Err(OptimizeError::NoService(error)),
            reply => self.heard(reply).map(drop),
        }
    }

    /// Why no model is asked any more.
    pub(super) fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// Puts a prompt with each of several inputs to a role, some at a time; none where nothing usable
    /// came or may be asked for, which is then noted.
    fn ask_all(
        &mut self,
        role: Role,
        prompt: &str,
        inputs: Vec<Value>,
        sample: u32,
    ) -> Result<Vec<Result<Reply, String>>, OptimizeError> {
        let requests = self.requests(&role, prompt, inputs, sample)?;
        let replies = self.assistant.llm().ask_all(&requests);
        replies
            .into_iter()
            .zip(&requests)
            .map(|(reply, request)| {
                self.note_used(request, &reply);
                self.heard(reply)
            })
            .collect()
    }

    /// As [`Actor::ask_all`], for a category each: the replies are those of its step.
    fn ask_each(
        &mut self,
        role: Role,
        prompt: &str,
        asked: Vec<(&str, Value)>,
        sample: u32,
    ) -> Result<Vec<Result<Reply, String>>, OptimizeError> {
        let (names, inputs): (Vec<&str>, Vec<Value>) = asked.into_iter().unzip();
        let before = self.replies.len();
        let replies = self.ask_all(role, prompt, inputs, sample)?;
        let mut keys = self.replies.split_off(before).into_iter();
        for (name, _) in names.into_iter().zip(&replies).filter(|pair| pair.1.is_ok()) {
            let notes = self.notes.entry(name.to_owned()).or_default();
            notes.replies.extend(keys.next());
        }
        Ok(replies)
    }

    /// As [`Actor::ask_all`], for one.
    fn ask(
        &mut self,
        role: Role,
        prompt: &str,
        inputs: Value,
        sample: u32,
    ) -> Result<Result<Reply, String>, OptimizeError> {
        let mut replies = self.ask_all(role, prompt, vec![inputs], sample)?;
        Ok(replies.pop().unwrap_or_else(|| Err("nothing was asked".to_owned())))
    }

    /// The requests that a prompt makes with each of several inputs.
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

    /// As [`Actor::ask_all`], for replies in JSON.
    fn ask_json_all(
        &mut self,
        role: Role,
        prompt: &str,
        inputs: Vec<Value>,
        sample: u32,
    ) -> Result<Vec<Result<Value, String>>, OptimizeError> {
        let requests = self.requests(&role, prompt, inputs, sample)?;
        let answers = self.assistant.llm().ask_json_all(&requests, REPAIRS);
        answers
            .into_iter()
            .zip(&requests)
            .map(|((value, _), request)| {
                self.note_used(request, &value);
                self.heard(value)
            })
            .collect()
    }

    /// Notes the reply that a step used, if there was one.
    fn note_used<T>(&mut self, request: &Request, reply: &Result<T, LlmError>) {
        if reply.is_ok() {
            self.replies.push(request.key());
        }
    }

    /// The keys of the replies of the step that ends, those of its category included, each once.
    fn take_replies(&mut self, category: Option<&str>) -> Vec<String> {
        let mut replies = std::mem::take(&mut self.replies);
        if let Some(notes) = category.and_then(|name| self.notes.get_mut(name)) {
            replies.append(&mut notes.replies);
        }
        replies.sort_unstable();
        replies.dedup();
        replies
    }

    /// Sorts what came of a request: a value; a failure of this step, as words; or an error that
    /// ends the run, as an outage does: it goes on where it was once the service answers. A ceiling
    /// ends the actor's part.
    fn heard<T>(&mut self, reply: Result<T, LlmError>) -> Result<Result<T, String>, OptimizeError> {
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

    /// What was done, or nothing where a ceiling, met by a tool of a program, ended it.
    pub(super) fn unless_stopped<T>(
        &mut self,
        done: Result<T, OptimizeError>,
    ) -> Result<Option<T>, OptimizeError> {
        match done {
            Err(OptimizeError::Llm(error)) => {
                if let Err(why) = self.heard::<T>(Err(error))? {
                    tracing::info!(why, "a tool's request ended the step");
                }
                self.replies.clear();
                Ok(None)
            }
            done => done.map(Some),
        }
    }

    /// Notes whether a step's replies could be used.
    fn used(&mut self, usable: Result<(), &str>) {
        match usable {
            Ok(()) => self.unusable = 0,
            Err(why) => {
                self.unusable += 1;
                if self.unusable >= MAX_UNUSABLE && self.stop.is_none() {
                    self.stop = Some(Stop::Unusable(format!(
                        "{MAX_UNUSABLE} steps in a row gave nothing usable, the last because {why}"
                    )));
                }
            }
        }
    }
}

impl Run<'_> {
    fn tell(&mut self, what: String) {
        (self.watch)(Event::Told(what));
    }
}
