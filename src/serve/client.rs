//! Clients, and places that they share: where there are several keys, one takes at most half of any kind of
//! place, so that no key shuts out the others. Must not know what is asked.

use std::sync::Arc;

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task_local,
};

task_local! {
    /// The client whose request the task answers.
    static NOW: Client;
}

/// A client: its key, and whether it asks for explanations, which take so much longer that they wait for
/// each other, not before plain questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Client {
    /// The number of its key in the order of their names; 0 where there are no keys.
    key: usize,
    explains: bool,
}

impl Client {
    /// The client of a key.
    pub(super) fn of(key: usize) -> Client {
        Client { key, explains: false }
    }

    /// The same client where it asks for explanations.
    pub(super) fn explaining(self, explains: bool) -> Client {
        Client { explains, ..self }
    }

    /// The client of the task; the first one outside of requests.
    pub(super) fn now() -> Client {
        NOW.try_with(|client| *client).unwrap_or_default()
    }

    /// Runs a future for this client.
    pub(super) async fn asks<F: Future>(self, work: F) -> F::Output {
        NOW.scope(self, work).await
    }
}

/// A bounded number of places. Where there are several clients, one takes at most half of them.
#[derive(Clone)]
pub(super) struct Slots {
    all: Arc<Semaphore>,
    of_client: Arc<[Arc<Semaphore>]>,
}

/// Slots that are taken until this is dropped.
pub(super) struct Slot {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl Slots {
    /// `n` places for `clients` clients.
    pub(super) fn new(n: usize, clients: usize) -> Slots {
        let share = if clients > 1 { n.div_ceil(2) } else { n };
        let own = || Arc::new(Semaphore::new(share));
        let of_client = (0..clients.max(1)).map(|_| own()).collect();
        Slots { all: Arc::new(Semaphore::new(n)), of_client }
    }

    /// Takes `n` places for the client of the task; none if there are not enough now.
    pub(super) fn try_take(&self, n: u32) -> Option<Slot> {
        let own = self.own()?.try_acquire_many_owned(n).ok()?;
        let all = self.all.clone().try_acquire_many_owned(n).ok()?;
        Some(Slot { _all: all, _own: own })
    }

    /// Takes a place for the client of the task, once there is one.
    pub(super) async fn take(&self) -> Option<Slot> {
        // Pieces of one client wait for each other first, so that those of others stand beside, not
        // behind them.
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
