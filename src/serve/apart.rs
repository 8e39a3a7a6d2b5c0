//! Pools that run slow work and disk reads, so that these do not occupy the threads that answer
//! questions. A pool runs a few jobs at a time; with several keys, at most half of them for one
//! key. Does not depend on what the jobs do.

use std::time::{Duration, Instant};

use tokio::time::{timeout, timeout_at};

use crate::{Refused, client::Slots};

/// Maximum time for which a job waits until its pool can run it.
pub(super) const WAIT: Duration = Duration::from_secs(2);
/// Maximum number of jobs that wait in one pool.
pub(super) const MAX_WAITING: usize = 64;
/// `Retry-After` in seconds for a job that a pool refuses.
const RETRY_SECONDS: u64 = 2;

/// A pool that runs a bounded number of jobs at a time.
pub(super) struct Apart {
    places: Slots,
    waiting: Slots,
    wait: Duration,
}

impl Apart {
    /// Creates a pool that runs at most `places` jobs at a time and is shared by `clients` clients.
    pub(super) fn new(places: usize, clients: usize) -> Apart {
        let waiting = Slots::new(MAX_WAITING, clients);
        Apart { places: Slots::new(places, clients), waiting, wait: WAIT }
    }

    /// Runs the job `work` and returns its result. A job that misses the deadline runs on, and
    /// counts among the running jobs until it ends.
    ///
    /// # Errors
    /// [`Refused`] if the job could not be run, failed, or missed the deadline.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let waits = self.waiting.try_take(1).ok_or(Refused::Busy(RETRY_SECONDS))?;
        let wait = self.wait.min(deadline.saturating_duration_since(Instant::now()));
        let place = match timeout(wait, self.places.take()).await {
            Ok(Some(place)) => place,
            Ok(None) => return Err(Refused::Draining),
            Err(_) => return Err(Refused::Busy(RETRY_SECONDS)),
        };
        drop(waits);
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        match timeout_at(deadline.into(), done).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) => Err(Refused::Failed),
            Err(_) => Err(Refused::Expired),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::client::Client;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[tokio::test]
    async fn work_without_a_place_is_refused_and_late_work_keeps_its_own() {
        let apart = Apart { wait: Duration::from_millis(10), ..Apart::new(1, 1) };
        assert_eq!(apart.run(soon(), || 6 * 7).await, Ok(42));
        assert_eq!(apart.run(soon(), || -> u32 { panic!("no") }).await, Err(Refused::Failed));
        let (go, gate) = mpsc::channel::<()>();
        let late = Instant::now() + Duration::from_millis(5);
        let late = apart.run(late, move || gate.recv().is_ok()).await;
        assert_eq!(late, Err(Refused::Expired));
        assert_eq!(apart.run(soon(), || 1).await, Err(Refused::Busy(RETRY_SECONDS)));
        drop(go);
    }

    #[tokio::test]
    async fn a_key_that_fills_its_share_leaves_the_rest_to_others() {
        let apart = Apart { wait: Duration::from_millis(10), ..Apart::new(2, 2) };
        let (go, gate) = mpsc::channel::<()>();
        let late = Instant::now() + Duration::from_millis(5);
        let held = Client::of(0).asks(apart.run(late, move || gate.recv().is_ok())).await;
        assert_eq!(held, Err(Refused::Expired));
        let again = Client::of(0).asks(apart.run(soon(), || 1)).await;
        assert_eq!(again, Err(Refused::Busy(RETRY_SECONDS)));
        assert_eq!(Client::of(1).asks(apart.run(soon(), || 2)).await, Ok(2));
        drop(go);
    }
}
