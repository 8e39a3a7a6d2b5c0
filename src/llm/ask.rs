//! Sends requests to a language model, unless a stored reply exists or a spending ceiling forbids
//! it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::{Map, Value};

use crate::{
    Exchange, LlmError, Message, Model, Reply, ReplyStore, Request, Role, Schema, ledger::Ledger,
};
use agent_ground::locks::locked;
use agent_remote::Limits;

/// Maximum number of requests of one [`Llm::ask_all`] that are passed to the model at the same
/// time; the model may send fewer at once.
const AT_A_TIME: usize = 8;

/// Settings with which one role sends its requests.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleSettings {
    /// Name of the model.
    pub model: String,
    /// Sampling temperature; `None`: the service's default.
    pub temperature: Option<f64>,
    /// Maximum number of tokens of a reply.
    pub max_tokens: u32,
    /// Further parameters of requests, sent unchanged.
    pub parameters: Map<String, Value>,
}

/// Lock for the requests with one key. The thread that gets the reply keeps it locked, then leaves
/// the result in it for the threads that waited.
type Turn = Mutex<Option<Result<Reply, LlmError>>>;

/// A language model with its reply stores and ledger. Shared between threads.
pub struct Llm {
    model: Arc<dyn Model>,
    roles: HashMap<Role, RoleSettings>,
    /// Reply stores in the order in which they are searched; the first is the run's own.
    stores: Vec<Arc<dyn ReplyStore>>,
    ledger: Ledger,
    /// Locks of the keys that are being requested, so that each key is paid for once.
    asked: Mutex<HashMap<String, Arc<Turn>>>,
    stop: Arc<AtomicBool>,
}

impl Llm {
    /// Creates a language model with the settings of every role. Replies are looked up in `stores`,
    /// in this order, and stored in all of them; of the stored replies, only replies in the first
    /// store can count as paid by this run. Once `stop` is set, no request is sent, but stored
    /// replies are still found.
    pub fn new(
        model: Arc<dyn Model>,
        roles: HashMap<Role, RoleSettings>,
        stores: Vec<Arc<dyn ReplyStore>>,
        ledger: Ledger,
        stop: Arc<AtomicBool>,
    ) -> Llm {
        Llm { model, roles, stores, ledger, asked: Mutex::default(), stop }
    }

    /// Builds a request with the settings of a role. A role without settings gets an empty model
    /// name, which services refuse.
    pub fn request(
        &self,
        role: Role,
        messages: Vec<Message>,
        json: Option<Schema>,
        sample: u32,
    ) -> Request {
        let set = self.roles.get(&role);
        Request {
            role,
            model: set.map(|set| set.model.clone()).unwrap_or_default(),
            messages,
            temperature: set.and_then(|set| set.temperature),
            max_tokens: set.map_or(0, |set| set.max_tokens),
            parameters: set.map(|set| set.parameters.clone()).unwrap_or_default(),
            json,
            sample,
        }
    }

    /// Returns the settings with which a role sends its requests; `None` for an unknown role.
    pub fn role(&self, role: &Role) -> Option<&RoleSettings> {
        self.roles.get(role)
    }

    /// Returns the limits of requests to the model: times, attempts, sizes and rates.
    pub fn limits(&self) -> Limits {
        self.model.limits()
    }

    /// Returns the ledger of spending and ceilings.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the reply to a request, from a store or from the model. If several threads call this
    /// with the same key at the same time, one thread asks the model and the other threads share
    /// its result.
    ///
    /// # Errors
    /// [`LlmError`] of the model, of a store or of the ledger; [`LlmError::Stopped`] if the reply
    /// is not stored and the stop flag is set.
    pub fn ask(&self, request: &Request) -> Result<Reply, LlmError> {
        let key = request.key();
        let turn = locked(&self.asked).entry(key.clone()).or_default().clone();
        let reply = {
            let mut answer = locked(&turn);
            answer.get_or_insert_with(|| self.ask_in_turn(&key, request)).clone()
        };
        if let Ok(reply) = &reply {
            self.ledger.used(&request.model, reply.usage);
        }
        let mut asked = locked(&self.asked);
        // Only this thread and the map still hold the turn.
        if Arc::strong_count(&turn) == 2 {
            asked.remove(&key);
        }
        reply
    }

    /// Returns the reply to each request, in the order of the requests; passes at most eight
    /// requests to the model at the same time. After an error for which [`LlmError::ends_run`]
    /// holds, passes on no further request; the remaining results are that error.
    pub fn ask_all(&self, requests: &[Request]) -> Vec<Result<Reply, LlmError>> {
        let next = AtomicUsize::new(0);
        let replies: Vec<Mutex<Option<Result<Reply, LlmError>>>> =
            requests.iter().map(|_| Mutex::default()).collect();
        let fatal: Mutex<Option<LlmError>> = Mutex::default();
        thread::scope(|scope| {
            for _ in 0..AT_A_TIME.min(requests.len()) {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(request) = requests.get(index) else { return };
                        let known = locked(&fatal).clone();
                        let reply = match known {
                            Some(error) => Err(error),
                            None => self.ask(request),
                        };
                        if let Err(error) = &reply
                            && error.ends_run()
                        {
                            *locked(&fatal) = Some(error.clone());
                        }
                        *locked(&replies[index]) = Some(reply);
                    }
                });
            }
        });
        replies
            .into_iter()
            .map(|reply| {
                reply
                    .into_inner()
                    .unwrap_or_else(PoisonError::into_inner)
                    .unwrap_or(Err(LlmError::Stopped))
            })
            .collect()
    }

    fn ask_in_turn(&self, key: &str, request: &Request) -> Result<Reply, LlmError> {
        for (at, store) in self.stores.iter().enumerate() {
            if let Some(exchange) = store.get(key)? {
                let kept = Exchange { paid: exchange.paid && at == 0, ..exchange };
                self.keep(key, &kept, Some(at))?;
                return Ok(kept.reply);
            }
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(LlmError::Stopped);
        }
        let reply = self.ask_model(key, request)?;
        let exchange = Exchange { request: request.clone(), reply: reply.clone(), paid: true };
        self.keep(key, &exchange, None)?;
        Ok(reply)
    }

    /// Asks the model. Before every attempt, its maximum cost is reserved in the ledger; after it,
    /// the actual cost of the reply, usable or not, is counted. The stores record the tokens of
    /// unusable replies.
    fn ask_model(&self, key: &str, request: &Request) -> Result<Reply, LlmError> {
        let mut reservation = Some(self.ledger.reserve(request)?);
        let reply = self.model.ask_counting(request, &mut |usage, is_asked_again| {
            if let Some(reservation) = reservation.take() {
                reservation.settle(usage);
            }
            for store in &self.stores {
                store.note_unusable(key, request, usage)?;
            }
            if is_asked_again {
                reservation = Some(self.ledger.reserve(request)?);
            }
            Ok(())
        })?;
        if let Some(reservation) = reservation {
            reservation.settle(reply.usage);
        }
        Ok(reply)
    }

    /// Stores an exchange in all stores except the one at the index `from`, from which it was read.
    /// Continues after a store that fails, so that a paid reply is not lost; returns the first
    /// error.
    fn keep(&self, key: &str, exchange: &Exchange, from: Option<usize>) -> Result<(), LlmError> {
        let others = self.stores.iter().enumerate().filter(|(index, _)| Some(*index) != from);
        others.map(|(_, store)| store.put(key, exchange)).fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests;
