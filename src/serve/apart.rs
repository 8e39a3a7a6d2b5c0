//! Work that takes long or waits for a disk: done apart from the threads that answer questions, a
//! few pieces at a time. Must not know what the work is.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::Semaphore,
    time::{timeout, timeout_at},
};

use crate::queue::Refused;

/// Time that new work waits for a place.
const WAIT: Duration = Duration::from_secs(2);
/// Seconds after which refused work should be asked for again.
const RETRY_SECONDS: u64 = 2;

/// A bounded number of places for such work.
pub(super) struct Apart {
    places: Arc<Semaphore>,
    wait: Duration,
}

impl Apart {
    pub(super) fn new(places: usize) -> Apart {
        Apart { places: Arc::new(Semaphore::new(places)), wait: WAIT }
    }

    /// Does a piece of work and gives what it gives. Work that is late keeps its place until it
    /// ends.
    ///
    /// # Errors
    /// [`Refused`].
    pub(super) async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let wait = self.wait.min(deadline.saturating_duration_since(Instant::now()));
        let place = match timeout(wait, self.places.clone().acquire_owned()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Err(Refused::Draining),
            Err(_) => return Err(Refused::Busy(RETRY_SECONDS)),
        };
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

    #[tokio::test]
    async fn work_without_a_place_is_refused_and_late_work_keeps_its_own() {
        let apart = Apart { wait: Duration::from_millis(10), ..Apart::new(1) };
        let soon = || Instant::now() + Duration::from_secs(60);
        assert_eq!(apart.run(soon(), || 6 * 7).await, Ok(42));
        assert_eq!(apart.run(soon(), || -> u32 { panic!("no") }).await, Err(Refused::Failed));
        let (go, gate) = mpsc::channel::<()>();
        let late = Instant::now() + Duration::from_millis(5);
        let late = apart.run(late, move || gate.recv().is_ok()).await;
        assert_eq!(late, Err(Refused::Expired));
        assert_eq!(apart.run(soon(), || 1).await, Err(Refused::Busy(RETRY_SECONDS)));
        drop(go);
    }
}
