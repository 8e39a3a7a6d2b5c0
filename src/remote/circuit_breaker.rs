//! Protects a failing service from a flood of requests: after a number of failures in a row, only
//! one request probes the service, and the others wait for its result (Nygard, "Release It!", 2007,
//! circuit breaker).
//!
//! When the probe gives up, all requests that arrived before that moment fail too; one of the
//! later requests becomes the next probe. So an outage costs the time of one request, however many
//! requests wait.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Circuit breaker of one service: opens after a number of failed attempts in a row, and closes
/// when the service answers.
pub(super) struct CircuitBreaker {
    threshold: u32,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    failures: u32,
    last: String,
    is_probed: bool,
    /// Number of probes that gave up so far.
    given_up: u64,
}

/// The right of one request to probe the service while all others wait; it ends when dropped.
pub(super) struct Probe<'a> {
    circuit_breaker: &'a CircuitBreaker,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.circuit_breaker.lock().is_probed = false;
        self.circuit_breaker.changed.notify_waiters();
    }
}

impl CircuitBreaker {
    /// Creates a closed circuit breaker, which opens after `threshold` failures in a row (0 counts
    /// as 1).
    pub(super) fn new(threshold: u32) -> CircuitBreaker {
        CircuitBreaker {
            threshold: threshold.max(1),
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Returns a ticket for a request that arrives now, to pass to [`CircuitBreaker::enter`].
    pub(super) fn arrival(&self) -> u64 {
        self.lock().given_up
    }

    /// Waits until an attempt of the request may start. Returns `None` if the circuit breaker is
    /// closed; if it is open, returns the right to probe the service.
    ///
    /// # Errors
    /// If a probe gave up since the request arrived: the number of failures in a row, and the
    /// message of the last one.
    pub(super) async fn enter(&self, arrival: u64) -> Result<Option<Probe<'_>>, (u32, String)> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on, every notification is received.
            changed.as_mut().enable();
            {
                let mut state = self.lock();
                if state.failures < self.threshold {
                    return Ok(None);
                }
                if state.given_up != arrival {
                    return Err((state.failures, state.last.clone()));
                }
                if !state.is_probed {
                    state.is_probed = true;
                    return Ok(Some(Probe { circuit_breaker: self }));
                }
            }
            changed.await;
        }
    }

    /// Returns the number of failures in a row, and the message of the last one.
    pub(super) fn state(&self) -> (u32, String) {
        let state = self.lock();
        (state.failures, state.last.clone())
    }

    /// Records that the service answered, which closes the circuit breaker.
    pub(super) fn succeeded(&self) {
        self.lock().failures = 0;
        self.changed.notify_waiters();
    }

    /// Records that an attempt failed for a transient reason.
    pub(super) fn failed(&self, message: &str) {
        let mut state = self.lock();
        state.failures = state.failures.saturating_add(1);
        message.clone_into(&mut state.last);
    }

    /// Records that the probe gave up.
    pub(super) fn gave_up(&self) {
        self.lock().given_up += 1;
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
