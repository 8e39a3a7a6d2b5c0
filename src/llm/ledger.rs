//! Counts spending on language models, and enforces ceilings on the spending of a run.
//!
//! Before a request is sent, its maximum cost is reserved: the cost of its estimated tokens and of
//! the longest reply that it allows. The request is not sent if the sum of spending so far, other
//! reservations and this maximum would exceed a ceiling.

use std::{collections::BTreeMap, sync::Mutex};

use serde::{Deserialize, Serialize};

use crate::{LlmError, Request, Role, Usage, replies::AskUsage};
use agent_ground::locks::locked;

/// Assumed number of bytes per token; English text has more, so that estimated token counts tend to
/// be too high.
const BYTES_PER_TOKEN: u64 = 3;
/// Assumed number of tokens that a message takes in addition to its text.
const TOKENS_PER_MESSAGE: u64 = 8;

/// Price of a model, in USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Price of a million input tokens, in USD.
    pub input: f64,
    /// Price of a million output tokens, in USD.
    pub output: f64,
}

impl Price {
    /// Computes the cost of a request and its reply, in USD.
    pub fn of(self, usage: Usage) -> f64 {
        (usage.tokens_in as f64 * self.input + usage.tokens_out as f64 * self.output) / 1e6
    }
}

/// Maximum spending of all roles together in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ceilings {
    /// Maximum cost, in USD; `None`: no maximum.
    pub usd: Option<f64>,
    /// Maximum number of tokens, sent and received together; `None`: no maximum.
    pub tokens: Option<u64>,
}

/// Spending on language models: numbers of requests and tokens, and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spending {
    /// Number of replies counted.
    pub calls: u64,
    /// Number of tokens sent.
    pub tokens_in: u64,
    /// Number of tokens received.
    pub tokens_out: u64,
    /// Cost of the replies of models with a known price, in USD.
    pub usd: f64,
    /// Number of replies from models without a known price.
    pub unpriced: u64,
}

impl Spending {
    /// Returns the difference of this spending from an `earlier` state of the same sum.
    pub fn since(self, earlier: Spending) -> Spending {
        Spending {
            calls: self.calls - earlier.calls,
            tokens_in: self.tokens_in - earlier.tokens_in,
            tokens_out: self.tokens_out - earlier.tokens_out,
            usd: self.usd - earlier.usd,
            unpriced: self.unpriced - earlier.unpriced,
        }
    }

    /// Returns the sum of this spending and another.
    pub fn and(self, other: Spending) -> Spending {
        Spending {
            calls: self.calls.saturating_add(other.calls),
            tokens_in: self.tokens_in.saturating_add(other.tokens_in),
            tokens_out: self.tokens_out.saturating_add(other.tokens_out),
            usd: self.usd + other.usd,
            unpriced: self.unpriced.saturating_add(other.unpriced),
        }
    }
}

/// Computes the spending from numbers of requests and tokens, and the price of the model, if known.
fn spent(tally: AskUsage, price: Option<Price>) -> Spending {
    let AskUsage { requests: calls, tokens_in, tokens_out } = tally;
    let usage = Usage { tokens_in, tokens_out, estimated: false };
    let usd = price.map_or(0.0, |price| price.of(usage));
    let unpriced = if price.is_none() { calls } else { 0 };
    Spending { calls, tokens_in, tokens_out, usd, unpriced }
}

#[derive(Default)]
struct Books {
    /// Numbers of replies and tokens; integers, so that sums do not depend on the order of replies.
    tallies: BTreeMap<(Role, String), AskUsage>,
    /// Tallies of all replies that callers got, including cached replies, by model.
    used: BTreeMap<String, AskUsage>,
    /// Maximum costs of the requests that are being sent.
    reserved: Vec<ReservedAmount>,
    next: u64,
}

#[derive(Clone, Copy)]
struct ReservedAmount {
    id: u64,
    usd: f64,
    tokens: u64,
}

impl Books {
    fn add(&mut self, role: Role, model: &str, usage: Usage) {
        self.tallies.entry((role, model.to_owned())).or_default().add(usage);
    }

    fn release(&mut self, id: u64) {
        self.reserved.retain(|reserved| reserved.id != id);
    }
}

/// Counts spending and refuses requests that could exceed a ceiling. Shared between threads.
pub struct Ledger {
    prices: BTreeMap<String, Price>,
    ceilings: Ceilings,
    books: Mutex<Books>,
}

impl Ledger {
    /// Creates a ledger without spending; `prices` holds the price of each model by its name.
    pub fn new(prices: BTreeMap<String, Price>, ceilings: Ceilings) -> Ledger {
        Ledger { prices, ceilings, books: Mutex::default() }
    }

    /// Counts a reply that this run paid for, in this process or before an interruption.
    pub fn paid(&self, role: Role, model: &str, usage: Usage) {
        locked(&self.books).add(role, model, usage);
    }

    /// Counts a reply that a caller of [`Llm::ask`](crate::Llm::ask) got, paid or cached.
    pub fn used(&self, model: &str, usage: Usage) {
        locked(&self.books).used.entry(model.to_owned()).or_default().add(usage);
    }

    /// Returns the spending on all replies counted by [`used`](Self::used), as if none had been
    /// cached.
    pub fn total_used(&self) -> Spending {
        let books = locked(&self.books);
        let all = books.used.iter().map(|(model, tally)| spent(*tally, self.price(model)));
        all.fold(Spending::default(), Spending::and)
    }

    /// Returns the spending of each role, ordered by name. The sums do not depend on the order of
    /// replies.
    pub fn spent(&self) -> BTreeMap<Role, Spending> {
        let mut roles: BTreeMap<Role, Spending> = BTreeMap::new();
        for ((role, model), tally) in &locked(&self.books).tallies {
            let sum = roles.entry(role.clone()).or_default();
            *sum = sum.and(spent(*tally, self.price(model)));
        }
        roles
    }

    /// Returns the spending of all roles together.
    pub fn total(&self) -> Spending {
        self.spent().into_values().fold(Spending::default(), Spending::and)
    }

    /// Returns the price of a model; `None` if it is unknown.
    pub fn price(&self, model: &str) -> Option<Price> {
        self.prices.get(model).copied()
    }

    /// Returns the maximum spending of the run.
    pub fn ceilings(&self) -> Ceilings {
        self.ceilings
    }

    /// Reserves the maximum cost of a request: the cost of its estimated tokens and of the longest
    /// reply that it allows. If a service counts more tokens than estimated, a ceiling can still be
    /// exceeded.
    ///
    /// # Errors
    /// [`LlmError::Budget`] if the request could exceed a ceiling; [`LlmError::NoPrice`] if a
    /// ceiling in USD is set but the price of the model is unknown.
    pub fn reserve(&self, request: &Request) -> Result<Reservation<'_>, LlmError> {
        let maximum = Usage {
            tokens_in: estimated_tokens(request),
            tokens_out: request.max_tokens.into(),
            estimated: true,
        };
        let price = self.price(&request.model);
        let usd = price.map_or(0.0, |price| price.of(maximum));
        let tokens = maximum.tokens_in + maximum.tokens_out;
        let mut books = locked(&self.books);
        let total = books
            .tallies
            .iter()
            .map(|((_, model), tally)| spent(*tally, self.price(model)))
            .fold(Spending::default(), Spending::and);
        if let Some(ceiling) = self.ceilings.usd {
            if price.is_none() {
                return Err(LlmError::NoPrice(request.model.clone()));
            }
            let reserved: f64 = books.reserved.iter().map(|reserved| reserved.usd).sum();
            if total.usd + reserved + usd > ceiling {
                return Err(LlmError::Budget {
                    what: "budget in USD",
                    spent: format!("{:.4}", total.usd),
                    ceiling: format!("{ceiling:.4} USD"),
                    next: format!("{usd:.4} USD"),
                });
            }
        }
        if let Some(ceiling) = self.ceilings.tokens {
            let used = total.tokens_in.saturating_add(total.tokens_out);
            let reserved: u64 = books.reserved.iter().map(|reserved| reserved.tokens).sum();
            if used.saturating_add(reserved).saturating_add(tokens) > ceiling {
                return Err(LlmError::Budget {
                    what: "token budget",
                    spent: used.to_string(),
                    ceiling: format!("{ceiling} tokens"),
                    next: format!("{tokens} tokens"),
                });
            }
        }
        let id = books.next;
        books.next += 1;
        books.reserved.push(ReservedAmount { id, usd, tokens });
        let model = request.model.clone();
        Ok(Reservation { ledger: self, role: request.role.clone(), model, id })
    }
}

/// Reservation of the maximum cost of one request; dropping it releases the amount.
pub struct Reservation<'a> {
    ledger: &'a Ledger,
    role: Role,
    model: String,
    id: u64,
}

impl Reservation<'_> {
    /// Counts the actual tokens of the request and its reply, and releases the reservation.
    pub fn settle(self, usage: Usage) {
        let mut books = locked(&self.ledger.books);
        books.add(self.role.clone(), &self.model, usage);
        books.release(self.id);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        locked(&self.ledger.books).release(self.id);
    }
}

/// Estimates the number of tokens of a text; the estimate is usually too high.
pub fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

/// Estimates the number of tokens that a request sends (messages and schema); the estimate is
/// usually too high.
pub fn estimated_tokens(request: &Request) -> u64 {
    let schema = request.json.as_ref().map_or(0, |json| tokens(&json.schema.to_string()));
    let texts = request.messages.iter().map(|message| tokens(&message.text) + TOKENS_PER_MESSAGE);
    texts.sum::<u64>() + schema
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        thread,
    };

    use super::*;
    use crate::Message;

    fn request(model: &str, max_tokens: u32) -> Request {
        Request {
            role: Role::new("actor"),
            model: model.to_owned(),
            messages: vec![Message::user("123456")],
            temperature: None,
            max_tokens,
            parameters: serde_json::Map::new(),
            json: None,
            sample: 0,
        }
    }

    fn ledger(ceilings: Ceilings) -> Ledger {
        let price = Price { input: 1.0, output: 10.0 };
        Ledger::new([("m".to_owned(), price)].into(), ceilings)
    }

    fn usage(tokens_in: u64, tokens_out: u64) -> Usage {
        Usage { tokens_in, tokens_out, estimated: false }
    }

    #[test]
    fn what_is_spent_is_summed_by_role_and_priced_by_model() {
        let ledger = ledger(Ceilings::default());
        ledger.paid(Role::new("actor"), "m", usage(1_000_000, 100_000));
        ledger.paid(Role::new("actor"), "unknown", usage(1, 2));
        ledger.paid(Role::new("rerank"), "m", usage(0, 100_000));
        let actor =
            Spending { calls: 2, tokens_in: 1_000_001, tokens_out: 100_002, usd: 2.0, unpriced: 1 };
        assert_eq!(ledger.spent()[&Role::new("actor")], actor);
        let total = ledger.total();
        assert_eq!((total.calls, total.usd, total.unpriced), (3, 3.0, 1));
    }

    #[test]
    fn sums_do_not_depend_on_the_order() {
        let price = Price { input: 0.1, output: 0.7 };
        let sum = |order: &mut dyn Iterator<Item = u64>| {
            let ledger = Ledger::new([("m".to_owned(), price)].into(), Ceilings::default());
            order.for_each(|n| ledger.paid(Role::new("tools"), "m", usage(n, n * n)));
            ledger.total().usd.to_bits()
        };
        assert_eq!(sum(&mut (0..1_000)), sum(&mut (0..1_000).rev()));
    }

    #[test]
    fn o10_a_ceiling_counts_what_is_under_way() {
        // Each takes at most 2 + 8 tokens sent and 90 received.
        let ledger = ledger(Ceilings { tokens: Some(250), usd: None });
        let first = ledger.reserve(&request("m", 90)).unwrap();
        let second = ledger.reserve(&request("m", 90)).unwrap();
        let refused = ledger.reserve(&request("m", 90)).err().unwrap();
        let LlmError::Budget { spent, ceiling, next, .. } = &refused else { panic!("{refused}") };
        assert_eq!([spent, ceiling, next], ["0", "250 tokens", "100 tokens"]);
        drop(second);
        first.settle(usage(10, 40));
        let third = ledger.reserve(&request("m", 90)).unwrap();
        assert!(ledger.reserve(&request("m", 91)).is_err());
        drop(third);
        assert!(ledger.reserve(&request("m", 190)).is_ok());
    }

    #[test]
    fn o10_a_ceiling_in_dollars_needs_a_price() {
        let ledger = ledger(Ceilings { tokens: None, usd: Some(0.01) });
        assert!(ledger.reserve(&request("m", 900)).is_ok());
        assert!(matches!(ledger.reserve(&request("m", 1_100)), Err(LlmError::Budget { .. })));
        let error = ledger.reserve(&request("new", 1)).err().unwrap().to_string();
        assert!(error.contains("[llm.prices.\"new\"]"), "{error}");
    }

    #[test]
    fn o10_no_ceiling_is_passed_by_32_threads() {
        let ledger = ledger(Ceilings { tokens: Some(20_000), usd: Some(0.1) });
        let answered = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| {
                    while let Ok(reservation) = ledger.reserve(&request("m", 90)) {
                        reservation
                            .settle(usage(10, 30 + answered.fetch_add(1, Ordering::Relaxed) % 60));
                    }
                });
            }
        });
        let total = ledger.total();
        assert_eq!(total.calls, answered.load(Ordering::Relaxed));
        assert!(total.usd <= 0.1 && total.tokens_in + total.tokens_out <= 20_000, "{total:?}");
        // It stops because the next could pass, not long before.
        assert!(total.usd > 0.1 - 2.0 * 910e-6, "{total:?}");
    }
}
