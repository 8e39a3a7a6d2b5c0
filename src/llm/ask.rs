//! Asks a model through everything that stands before it: kept replies, and the ledger. Must not
//! know who asks, or which model answers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::{Map, Value};

use crate::{
    Exchange, LlmError, Message, Model, Reply, ReplyStore, Request, Role, Schema, ledger::Ledger,
};
use agent_remote::Limits;

/// Requests of one list that are asked at a time; the model bounds what is sent at a time.
const AT_A_TIME: usize = 8;

/// How one role asks.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleSettings {
    /// The model.
    pub model: String,
    /// Sampling temperature; none leaves it to the service.
    pub temperature: Option<f64>,
    /// Tokens of a reply at most.
    pub max_tokens: u32,
    /// Further parameters that are sent as they are.
    pub parameters: Map<String, Value>,
}

/// Held while a key is asked for; then it holds the answer for those who waited.
type Turn = Mutex<Option<Result<Reply, LlmError>>>;

/// A language model with everything that stands before it. Shared by all who ask.
pub struct Llm {
    model: Box<dyn Model>,
    roles: HashMap<Role, RoleSettings>,
    /// Asked in this order; the first is the run's own.
    stores: Vec<Arc<dyn ReplyStore>>,
    ledger: Ledger,
    /// A place for each key that is being asked for, so that nobody else pays for it meanwhile.
    asked: Mutex<HashMap<String, Arc<Turn>>>,
    stop: Arc<AtomicBool>,
}

impl Llm {
    /// A model with the settings of every role. Replies are looked for in the stores in their order
    /// and kept in all of them; only the first one's count as paid by this run. Once `stop` is
    /// set, nothing is asked any more, and what is kept is still found.
    pub fn new(
        model: Box<dyn Model>,
        roles: HashMap<Role, RoleSettings>,
        stores: Vec<Arc<dyn ReplyStore>>,
        ledger: Ledger,
        stop: Arc<AtomicBool>,
    ) -> Llm {
        Llm { model, roles, stores, ledger, asked: Mutex::default(), stop }
    }

    /// The request of a role.
    ///
    /// # Panics
    /// Never: a role without settings has an empty model name, which services refuse.
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

    /// How a role asks.
    pub fn role(&self, role: &Role) -> Option<&RoleSettings> {
        self.roles.get(role)
    }

    /// What one request may cost.
    pub fn limits(&self) -> Limits {
        self.model.limits()
    }

    /// What was spent, and the ceilings.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The reply to a request: kept earlier, or asked for now and kept. Of several threads that
    /// ask for the same key at a time, one asks, and the others get what it gets.
    ///
    /// # Errors
    /// [`LlmError`].
    pub fn ask(&self, request: &Request) -> Result<Reply, LlmError> {
        let key = request.key();
        let turn = self.lock_asked().entry(key.clone()).or_default().clone();
        let reply = {
            let mut answer = turn.lock().unwrap_or_else(PoisonError::into_inner);
            answer.get_or_insert_with(|| self.ask_in_turn(&key, request)).clone()
        };
        if let Ok(reply) = &reply {
            self.ledger.used(&request.model, reply.usage);
        }
        let mut asked = self.lock_asked();
        // This thread's and the map's are the only ones left.
        if Arc::strong_count(&turn) == 2 {
            asked.remove(&key);
        }
        reply
    }

    /// Replies to requests in their order, at most eight asked at a time. After an error that stops a run
    /// (a ceiling, a stop, a store that fails), no further request is begun.
    pub fn ask_all(&self, requests: &[Request]) -> Vec<Result<Reply, LlmError>> {
        let next = AtomicUsize::new(0);
        let replies: Vec<Mutex<Option<Result<Reply, LlmError>>>> =
            requests.iter().map(|_| Mutex::default()).collect();
        let fatal: Mutex<Option<LlmError>> = Mutex::default();
        thread::scope(|scope| {
            for _ in 0..AT_A_TIME.min(requests.len()) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(request) = requests.get(at) else { return };
                        let known = fatal.lock().unwrap_or_else(PoisonError::into_inner).clone();
                        let reply = match known {
                            Some(error) => Err(error),
                            None => self.ask(request),
                        };
                        if let Err(error) = &reply
                            && error.ends_run()
                        {
                            *fatal.lock().unwrap_or_else(PoisonError::into_inner) =
                                Some(error.clone());
                        }
                        *replies[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
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

    /// Asks the model. Every reply that is paid for is reserved before and counted after, those
    /// that cannot be used too; these are noted in the stores.
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

    /// Keeps an exchange in all stores but the one it came from; also in those after one that
    /// fails, so that a paid reply is not lost for want of room in one of them.
    fn keep(&self, key: &str, exchange: &Exchange, from: Option<usize>) -> Result<(), LlmError> {
        let others = self.stores.iter().enumerate().filter(|(at, _)| Some(*at) != from);
        let mut kept = Ok(());
        for (_, store) in others {
            kept = kept.and(store.put(key, exchange));
        }
        kept
    }

    fn lock_asked(&self) -> MutexGuard<'_, HashMap<String, Arc<Turn>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
