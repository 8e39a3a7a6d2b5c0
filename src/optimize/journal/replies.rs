//! Replies of language models that a run paid for, in the database of its journal.
//!
//! All threads of a run may read and store replies at the same time. Replies have keys but no
//! numbers, so that the order in which threads store them does not matter. Steps name the keys of
//! the replies that they used.

use std::sync::{Arc, Mutex};

use crate::journal::{
    BODY_BYTES, JournalError, KEY_BYTES, Result,
    encode::{decode, encode},
    files::Files,
    store::StoredReply,
};
use agent_ground::locks::locked;
use agent_llm::{Exchange, Finish, LlmError, Reply, ReplyStore, Request, Usage};

/// Kind that error messages about replies state in place of a step's kind.
const KIND: &str = "reply";

/// Maximum number of unusable replies to one request whose token usage is stored.
const MAX_UNUSABLE: usize = 1_000;

/// Access to the stored replies of a run. The run stays locked until this is dropped.
#[derive(Debug)]
pub struct JournalReplies(pub(super) Arc<Mutex<Files>>);

impl JournalReplies {
    /// Returns the exchange (request and reply) that is stored under a key; `None` if there is
    /// none.
    ///
    /// # Errors
    /// [`JournalError::Damaged`], [`JournalError::Storage`]; [`JournalError::Decode`] if another
    /// version wrote the exchange in another form.
    pub fn find(&self, key: &str) -> Result<Option<Exchange>> {
        let stored = locked(&self.0).store.reply(key)?;
        stored.map(exchange).transpose()
    }

    /// Stores an exchange (request and reply) under a key, unless one is stored under this key
    /// already. The exchange is on the disk when this returns `Ok`. On a full disk, uses the 4 MiB
    /// reserve.
    ///
    /// # Errors
    /// As [`Journal::commit`](super::Journal::commit), except [`JournalError::Conflict`]; also
    /// [`JournalError::BadKey`].
    pub fn keep(&self, key: &str, exchange: &Exchange) -> Result<()> {
        check_key(key)?;
        let request = encode(KIND, key, &exchange.request, BODY_BYTES)?;
        let reply = encode(KIND, key, &exchange.reply, BODY_BYTES)?;
        let (role, paid) = (exchange.request.role.name(), exchange.paid);
        let mut files = locked(&self.0);
        if files.store.reply(key)?.is_some() {
            return Ok(());
        }
        files.check_writable(true)?;
        files.write(|store| store.append_reply(key, role, &request, &reply, paid))
    }

    /// Returns all stored exchanges with their keys, sorted by role, then by key. All of them must
    /// fit into memory.
    ///
    /// # Errors
    /// As [`JournalReplies::find`].
    pub fn exchanges(&self) -> Result<Vec<(String, Exchange)>> {
        let mut exchanges = Vec::new();
        locked(&self.0).store.each_reply(|stored| {
            let key = stored.key.clone();
            exchanges.push((key, exchange(stored)?));
            Ok(())
        })?;
        exchanges.sort_by(|(a_key, a), (b_key, b)| {
            (&a.request.role, a_key).cmp(&(&b.request.role, b_key))
        });
        Ok(exchanges)
    }
}

impl ReplyStore for JournalReplies {
    /// Returns the exchange that is stored under a key. If there is none and the journal cannot be
    /// written, fails, so that no reply is paid for and then lost.
    fn get(&self, key: &str) -> Result<Option<Exchange>, LlmError> {
        let found = self.find(key).map_err(store_error)?;
        if found.is_none() {
            locked(&self.0).check_writable(false).map_err(store_error)?;
        }
        Ok(found)
    }

    fn put(&self, key: &str, exchange: &Exchange) -> Result<(), LlmError> {
        self.keep(key, exchange).map_err(store_error)
    }

    /// Stores the token usage of an unusable reply as an exchange without text, under a key that no
    /// request has.
    fn note_unusable(&self, key: &str, request: &Request, usage: Usage) -> Result<(), LlmError> {
        for n in 0..MAX_UNUSABLE {
            let key = format!("{key}-unusable-{n}");
            if self.find(&key).map_err(store_error)?.is_some() {
                continue;
            }
            let reply = Reply { text: String::new(), finish: Finish::Other, usage };
            let exchange = Exchange { request: request.clone(), reply, paid: true };
            return self.keep(&key, &exchange).map_err(store_error);
        }
        Err(LlmError::Store(format!("{MAX_UNUSABLE} replies to one request were unusable")))
    }
}

fn store_error(error: JournalError) -> LlmError {
    LlmError::Store(error.to_string())
}

/// Converts an exchange from its stored form.
fn exchange(stored: StoredReply) -> Result<Exchange> {
    Ok(Exchange {
        request: decode(KIND, &stored.key, &stored.request)?,
        reply: decode(KIND, &stored.key, &stored.reply)?,
        paid: stored.paid,
    })
}

/// Fails if the key of a reply is empty, too long or contains whitespace, which separates keys in
/// lists.
pub(super) fn check_key(key: &str) -> Result<()> {
    if key.is_empty() || key.len() > KEY_BYTES || key.contains(char::is_whitespace) {
        return Err(JournalError::BadKey);
    }
    Ok(())
}
