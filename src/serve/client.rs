//! Clients and the bounded places that they share. With several keys, one key takes at most half of
//! the places of a kind, so that no key shuts out the others. Must not know what requests do.

use std::sync::Arc;

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task_local,
};

task_local! {
    /// The client whose request the task answers.
    static NOW: Client;
}

/// A client: its key, and whether it asks for explanations. Explanations take much longer, so they
/// queue apart from the client's plain questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Client {
    /// Position of the key in the order of key names, from 0; 0 without keys.
    key: usize,
    explains: bool,
}

impl Client {
    /// Returns the client with the key at a position.
    pub(super) fn of(key: usize) -> Client {
        Client { key, explains: false }
    }

    /// Returns this client, with or without a request for explanations.
    pub(super) fn explaining(self, explains: bool) -> Client {
        Client { explains, ..self }
    }

    /// Returns the client of the current task; the first client outside of requests.
    pub(super) fn now() -> Client {
        NOW.try_with(|client| *client).unwrap_or_default()
    }

    /// Runs a future with this client as the client of its task.
    pub(super) async fn asks<F: Future>(self, work: F) -> F::Output {
        NOW.scope(self, work).await
    }
}

/// A bounded number of places. With several clients, one client takes at most half of them.
#[derive(Clone)]
pub(super) struct Slots {
    all: Arc<Semaphore>,
    of_client: Arc<[Arc<Semaphore>]>,
}

/// Places that stay taken until this is dropped.
pub(super) struct Slot {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl Slots {
    /// Creates `n` places for `clients` clients.
    pub(super) fn new(n: usize, clients: usize) -> Slots {
        let share = if clients > 1 { n.div_ceil(2) } else { n };
        let own = || Arc::new(Semaphore::new(share));
        let of_client = (0..clients.max(1)).map(|_| own()).collect();
        Slots { all: Arc::new(Semaphore::new(n)), of_client }
    }

    /// Takes `n` places for the client of the task; `None` if fewer are free.
    pub(super) fn try_take(&self, n: u32) -> Option<Slot> {
        let own = self.own()?.try_acquire_many_owned(n).ok()?;
        let all = self.all.clone().try_acquire_many_owned(n).ok()?;
        Some(Slot { _all: all, _own: own })
    }

    /// Waits for a place and takes it for the client of the task.
    pub(super) async fn take(&self) -> Option<Slot> {
        // Waits for the client's own share first, so that other clients do not wait behind it.
        let own = self.own()?.acquire_owned().await.ok()?;
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(Slot { _all: all, _own: own })
    }

    fn own(&self) -> Option<Arc<Semaphore>> {
        self.of_client.get(Client::now().key).or(self.of_client.first()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_of_several_clients_takes_half_and_a_single_one_all() {
        let places = Slots::new(4, 1);
        assert!(places.try_take(4).is_some() && places.try_take(5).is_none());

        let places = Slots::new(4, 3);
        let first = Client::of(0).asks(async { places.try_take(2) }).await;
        assert!(first.is_some());
        assert!(Client::of(0).asks(async { places.try_take(1) }).await.is_none());
        let second = Client::of(1).asks(async { places.try_take(2) }).await;
        assert!(second.is_some());
        assert!(Client::of(2).asks(async { places.try_take(1) }).await.is_none(), "none is left");
        drop(first);
        assert!(Client::of(2).asks(places.take()).await.is_some());
    }
}
