//! Clients, and the limited slots that they share, such as the slots of running jobs. With several
//! keys, one key takes at most half of the slots of a kind, so that no key shuts out other keys.
//! Does not depend on the content of requests.

use std::sync::Arc;

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task_local,
};

task_local! {
    /// The client whose request the current task answers.
    static NOW: Client;
}

/// A client: which key it has, and whether it asks for explanations. Explained answers take much
/// longer, so questions for them queue separately from the other questions of the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Client {
    /// Position of the client's key in the order of key names, from 0; 0 if the server has no keys.
    key: usize,
    explains: bool,
}

impl Client {
    /// Returns the client whose key is at position `key` in the order of key names, from 0.
    pub(super) fn of(key: usize) -> Client {
        Client { key, explains: false }
    }

    /// Returns this client, asking for explanations or not.
    pub(super) fn explaining(self, explains: bool) -> Client {
        Client { explains, ..self }
    }

    /// Returns the client whose request the current task answers; the first client if the task
    /// answers no request.
    pub(super) fn now() -> Client {
        NOW.try_with(|client| *client).unwrap_or_default()
    }

    /// Runs a future as part of a request of this client: in it, [`Client::now`] returns this
    /// client.
    pub(super) async fn asks<F: Future>(self, work: F) -> F::Output {
        NOW.scope(self, work).await
    }
}

/// Limits how many activities, such as requests, run at the same time: each holds one or more
/// slots. When there are several clients, each may hold at most half of the slots.
#[derive(Clone)]
pub(super) struct Slots {
    all: Arc<Semaphore>,
    of_client: Arc<[Arc<Semaphore>]>,
}

/// Slots that a client holds until this value is dropped.
pub(super) struct Slot {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl Slots {
    /// Creates `n` slots, which `clients` clients share.
    pub(super) fn new(n: usize, clients: usize) -> Slots {
        let share = if clients > 1 { n.div_ceil(2) } else { n };
        let own = || Arc::new(Semaphore::new(share));
        let of_client = (0..clients.max(1)).map(|_| own()).collect();
        Slots { all: Arc::new(Semaphore::new(n)), of_client }
    }

    /// Takes `n` slots for the client of the current task; `None` if fewer are free.
    pub(super) fn try_take(&self, n: u32) -> Option<Slot> {
        let own = self.own()?.try_acquire_many_owned(n).ok()?;
        let all = self.all.clone().try_acquire_many_owned(n).ok()?;
        Some(Slot { _all: all, _own: own })
    }

    /// Waits until a slot is free and takes it for the client of the current task.
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
