//! Tests that requests are sent once, stores are searched in order, and spending is counted.

use std::{collections::BTreeMap, sync::atomic::AtomicU32, thread, time::Duration};

use super::*;
use crate::{
    Finish, Usage,
    ledger::{Ceilings, Ledger, Price},
};

/// A model that answers with the text of the last message, and counts the requests.
#[derive(Default)]
struct Echo {
    asked: Arc<AtomicUsize>,
    /// Number of unusable replies before each usable one.
    unusable: u32,
    fails: bool,
}

impl Model for Echo {
    fn ask(&self, request: &Request) -> Result<Reply, LlmError> {
        let n = self.asked.fetch_add(1, Ordering::SeqCst) as u64;
        // Later requests are answered earlier.
        thread::sleep(Duration::from_millis(40_u64.saturating_sub(n)));
        if self.fails {
            return Err(LlmError::Reply { model: "m".to_owned(), reason: "bad".to_owned() });
        }
        let text = request.messages.last().unwrap().text.clone();
        let usage = Usage { tokens_in: 1, tokens_out: 1, estimated: false };
        Ok(Reply { text, finish: Finish::Stop, usage })
    }

    fn ask_counting(
        &self,
        request: &Request,
        unusable: &mut dyn FnMut(Usage, bool) -> Result<(), LlmError>,
    ) -> Result<Reply, LlmError> {
        for _ in 0..self.unusable {
            unusable(Usage { tokens_in: 1, tokens_out: 9, estimated: false }, true)?;
        }
        self.ask(request)
    }
}

/// A reply store that keeps exchanges in memory.
#[derive(Default)]
struct Kept {
    exchanges: Mutex<BTreeMap<String, Exchange>>,
    n_gets: AtomicU32,
    n_unusable: AtomicU32,
    fails: bool,
}

impl ReplyStore for Kept {
    fn get(&self, key: &str) -> Result<Option<Exchange>, LlmError> {
        self.n_gets.fetch_add(1, Ordering::Relaxed);
        Ok(self.exchanges.lock().unwrap().get(key).cloned())
    }

    fn put(&self, key: &str, exchange: &Exchange) -> Result<(), LlmError> {
        if self.fails {
            return Err(LlmError::Store("the disk is full".to_owned()));
        }
        let mut exchanges = self.exchanges.lock().unwrap();
        exchanges.entry(key.to_owned()).or_insert_with(|| exchange.clone());
        Ok(())
    }

    fn note_unusable(&self, _: &str, _: &Request, _: Usage) -> Result<(), LlmError> {
        self.n_unusable.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn llm(model: Echo, stores: &[&Arc<Kept>], ceilings: Ceilings) -> Llm {
    let set = RoleSettings {
        model: "m".to_owned(),
        temperature: None,
        max_tokens: 10,
        parameters: Map::new(),
    };
    let roles = [(Role::new("actor"), set)].into();
    let stores = stores.iter().map(|store| (*store).clone() as Arc<dyn ReplyStore>).collect();
    let prices = [("m".to_owned(), Price { input: 1.0, output: 1.0 })].into();
    Llm::new(Arc::new(model), roles, stores, Ledger::new(prices, ceilings), Arc::default())
}

fn request(llm: &Llm, text: &str) -> Request {
    llm.request(Role::new("actor"), vec![Message::user(text)], None, 0)
}

#[test]
fn a_key_is_asked_once_by_32_threads() {
    let asked = Arc::new(AtomicUsize::new(0));
    let model = || Echo { asked: asked.clone(), ..Echo::default() };
    // With a store, and with none.
    for stores in [&[&Arc::new(Kept::default())][..], &[]] {
        asked.store(0, Ordering::SeqCst);
        let llm = llm(model(), stores, Ceilings::default());
        let gate = std::sync::Barrier::new(32);
        thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| {
                    gate.wait();
                    assert_eq!(llm.ask(&request(&llm, "same")).unwrap().text, "same");
                });
            }
        });
        // Without a store, a thread that comes when all others are gone asks again.
        let n = asked.load(Ordering::SeqCst);
        assert!(n == 1 || stores.is_empty() && n < 32, "{n}");
        assert_eq!(llm.ledger().total().calls, n as u64);
        assert!(locked(&llm.asked).is_empty());
    }
}

#[test]
fn l8_replies_come_in_the_order_of_the_requests() {
    let llm = llm(Echo::default(), &[&Arc::new(Kept::default())], Ceilings::default());
    let texts: Vec<String> = (0..40).map(|n| (n % 30).to_string()).collect();
    let requests: Vec<Request> = texts.iter().map(|text| request(&llm, text)).collect();
    let replies = llm.ask_all(&requests);
    let got: Vec<String> = replies.into_iter().map(|reply| reply.unwrap().text).collect();
    assert_eq!(got, texts);
    assert_eq!(llm.ledger().total().calls, 30);
}

#[test]
fn stores_are_looked_through_in_order_and_all_get_what_one_has() {
    let (run, shared, record) = (Arc::new(Kept::default()), Arc::default(), Arc::default());
    let model = || Echo { fails: true, ..Echo::default() };
    let llm = llm(model(), &[&run, &shared, &record], Ceilings::default());
    let request = request(&llm, "x");
    let usage = Usage { tokens_in: 5, tokens_out: 5, estimated: false };
    let reply = Reply { text: "kept".to_owned(), finish: Finish::Stop, usage };
    let exchange = Exchange { request: request.clone(), reply, paid: true };
    shared.put(&request.key(), &exchange).unwrap();
    assert_eq!(llm.ask(&request).unwrap().text, "kept");
    // What another run paid for costs this one nothing.
    for store in [&run, &record] {
        assert!(!store.exchanges.lock().unwrap()[&request.key()].paid);
    }
    assert_eq!(llm.ledger().total().calls, 0);
    assert_eq!(llm.ask(&request).unwrap().text, "kept");
    assert_eq!(shared.n_gets.load(Ordering::Relaxed), 1, "the run's own comes first");
}

#[test]
fn a_paid_reply_is_kept_where_there_is_room() {
    let full = Arc::new(Kept { fails: true, ..Kept::default() });
    let shared = Arc::new(Kept::default());
    let llm = llm(Echo::default(), &[&full, &shared], Ceilings::default());
    let request = request(&llm, "x");
    assert_eq!(llm.ask(&request), Err(LlmError::Store("the disk is full".to_owned())));
    assert_eq!(shared.exchanges.lock().unwrap().len(), 1);
    assert_eq!(llm.ledger().total().calls, 1);
}

#[test]
fn replies_that_cannot_be_used_are_counted_and_bounded() {
    let twice = || Echo { unusable: 2, ..Echo::default() };
    let store = Arc::new(Kept::default());
    let free = llm(twice(), &[&store], Ceilings::default());
    free.ask(&request(&free, "x")).unwrap();
    assert_eq!(store.n_unusable.load(Ordering::Relaxed), 2);
    let total = free.ledger().total();
    assert_eq!((total.calls, total.tokens_in, total.tokens_out), (3, 3, 19));
    // One request takes at most 9 + 10 tokens; the second one no longer fits.
    let tight = llm(twice(), &[], Ceilings { tokens: Some(25), usd: None });
    assert!(matches!(tight.ask(&request(&tight, "x")), Err(LlmError::Budget { .. })));
    assert_eq!(tight.ledger().total().calls, 1);
}

#[test]
fn o10_after_an_error_that_ends_the_run_nothing_is_asked() {
    let asked = Arc::new(AtomicUsize::new(0));
    let model = Echo { asked: asked.clone(), ..Echo::default() };
    // Room for three replies of 2 tokens, with 19 reserved for each.
    let llm = llm(model, &[], Ceilings { tokens: Some(23), usd: None });
    let requests: Vec<Request> = (0..100).map(|n| request(&llm, &n.to_string())).collect();
    let replies = llm.ask_all(&requests);
    let n = asked.load(Ordering::SeqCst);
    assert!((1..=3).contains(&n), "{n}");
    assert_eq!(replies.iter().filter(|reply| reply.is_ok()).count(), n);
    let total = llm.ledger().total();
    assert!(total.tokens_in + total.tokens_out <= 23);
}

#[test]
fn once_stopped_only_what_is_kept_is_found() {
    let store = Arc::new(Kept::default());
    let llm = llm(Echo::default(), &[&store], Ceilings::default());
    llm.ask(&request(&llm, "kept")).unwrap();
    llm.stop.store(true, Ordering::Relaxed);
    assert_eq!(llm.ask(&request(&llm, "kept")).unwrap().text, "kept");
    assert_eq!(llm.ask(&request(&llm, "new")), Err(LlmError::Stopped));
}
