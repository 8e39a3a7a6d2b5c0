//! What was spent on language models, and the ceilings that no request may pass.
//!
//! Before a request is sent, the most that it can take is reserved: its own tokens as estimated,
//! and all tokens that its reply may have. A request that could pass a ceiling together with what
//! was spent and what is reserved is not sent.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::llm::{LlmError, Reply, Request, Role, Usage};

/// Characters of a token, about; fewer than English has, so that estimates are rather too high.
const BYTES_PER_TOKEN: u64 = 3;
/// Tokens that a message takes beside its text.
const TOKENS_PER_MESSAGE: u64 = 8;

/// Price of a model, USD for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of tokens sent.
    pub input: f64,
    /// Of tokens received.
    pub output: f64,
}

impl Price {
    /// What tokens cost, USD.
    pub fn of(self, usage: Usage) -> f64 {
        (usage.tokens_in as f64 * self.input + usage.tokens_out as f64 * self.output) / 1e6
    }
}

/// What all roles together may spend in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ceilings {
    /// USD.
    pub usd: Option<f64>,
    /// Tokens, sent and received.
    pub tokens: Option<u64>,
}

/// What was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Requests that were answered and paid for.
    pub calls: u64,
    /// Tokens sent.
    pub tokens_in: u64,
    /// Tokens received.
    pub tokens_out: u64,
    /// Dollars, as far as prices are known.
    pub usd: f64,
    /// Calls to models without a known price.
    pub unpriced: u64,
}

impl Spent {
    fn add(&mut self, usage: Usage, price: Option<Price>) {
        self.calls += 1;
        self.tokens_in += usage.tokens_in;
        self.tokens_out += usage.tokens_out;
        match price {
            Some(price) => self.usd += price.of(usage),
            None => self.unpriced += 1,
        }
    }

    /// Together with another.
    pub fn and(self, other: Spent) -> Spent {
        Spent {
            calls: self.calls + other.calls,
            tokens_in: self.tokens_in + other.tokens_in,
            tokens_out: self.tokens_out + other.tokens_out,
            usd: self.usd + other.usd,
            unpriced: self.unpriced + other.unpriced,
        }
    }
}

#[derive(Default)]
struct Books {
    spent: BTreeMap<Role, Spent>,
    reserved_usd: f64,
    reserved_tokens: u64,
}

/// Counts what is spent and refuses what could pass a ceiling.
pub struct Ledger {
    prices: BTreeMap<String, Price>,
    ceilings: Ceilings,
    books: Mutex<Books>,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(prices: BTreeMap<String, Price>, ceilings: Ceilings) -> Ledger {
        Ledger { prices, ceilings, books: Mutex::default() }
    }

    /// Counts what the run paid before it was interrupted.
    pub fn paid(&self, role: Role, model: &str, usage: Usage) {
        let price = self.prices.get(model).copied();
        self.lock().spent.entry(role).or_default().add(usage, price);
    }

    /// What was spent, by role.
    pub fn spent(&self) -> BTreeMap<Role, Spent> {
        self.lock().spent.clone()
    }

    /// What was spent by all roles.
    pub fn total(&self) -> Spent {
        self.lock().spent.values().copied().fold(Spent::default(), Spent::and)
    }

    /// The price of a model.
    pub fn price(&self, model: &str) -> Option<Price> {
        self.prices.get(model).copied()
    }

    /// Sets aside the most that a request can take.
    ///
    /// # Errors
    /// [`LlmError::Budget`], [`LlmError::NoPrice`].
    pub fn reserve(&self, request: &Request) -> Result<Reservation<'_>, LlmError> {
        let most = Usage {
            tokens_in: estimated_tokens(request),
            tokens_out: request.max_tokens.into(),
            estimated: true,
        };
        let price = self.price(&request.model);
        let usd = price.map_or(0.0, |price| price.of(most));
        let tokens = most.tokens_in + most.tokens_out;
        let mut books = self.lock();
        let total = books.spent.values().copied().fold(Spent::default(), Spent::and);
        if let Some(ceiling) = self.ceilings.usd {
            if price.is_none() {
                return Err(LlmError::NoPrice(request.model.clone()));
            }
            if total.usd + books.reserved_usd + usd > ceiling {
                return Err(LlmError::Budget {
                    what: "budget in USD",
                    spent: format!("{:.4}", total.usd),
                    ceiling: format!("{ceiling:.4} USD"),
                    next: format!("{usd:.4}"),
                });
            }
        }
        if let Some(ceiling) = self.ceilings.tokens {
            let used = total.tokens_in + total.tokens_out;
            if used + books.reserved_tokens + tokens > ceiling {
                return Err(LlmError::Budget {
                    what: "budget of tokens",
                    spent: used.to_string(),
                    ceiling: format!("{ceiling} tokens"),
                    next: tokens.to_string(),
                });
            }
        }
        books.reserved_usd += usd;
        books.reserved_tokens += tokens;
        let model = request.model.clone();
        Ok(Reservation { ledger: self, role: request.role, model, usd, tokens })
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is set aside for one request; given back when dropped.
pub struct Reservation<'a> {
    ledger: &'a Ledger,
    role: Role,
    model: String,
    usd: f64,
    tokens: u64,
}

impl Reservation<'_> {
    /// Counts what the reply took.
    pub fn settle(self, reply: &Reply) {
        self.ledger.paid(self.role, &self.model, reply.usage);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut books = self.ledger.lock();
        books.reserved_usd -= self.usd;
        books.reserved_tokens -= self.tokens;
    }
}

/// Tokens of a text, about, rather too many.
pub fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

/// Tokens that a request sends, about, rather too many.
pub fn estimated_tokens(request: &Request) -> u64 {
    let schema = request.json.as_ref().map_or(0, |json| tokens(&json.schema.to_string()));
    let texts = request.messages.iter().map(|message| tokens(&message.text) + TOKENS_PER_MESSAGE);
    texts.sum::<u64>() + schema
}
