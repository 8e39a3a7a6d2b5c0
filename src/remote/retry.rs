//! How often a request is attempted, and the delays between its attempts. Does not depend on the
//! request, and does not wait itself.
//!
//! The delay before an attempt is a random time below a cap that doubles each time ("full jitter":
//! Brooker, "Exponential backoff and jitter", AWS Architecture Blog, 2015), plus the delay that the
//! service asks for.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

/// Schedule of the attempts of one request.
#[derive(Debug)]
pub struct Retry {
    /// Maximum number of attempts, the first one included.
    max_attempts: u32,
    max_delay: Duration,
    first_delay: Duration,
    /// Upper bound of the random part of the next delay.
    delay_cap: Duration,
    attempts: u32,
}

/// Why no further attempt is made.
#[derive(Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// The maximum number of attempts has been made.
    AttemptsExhausted,
    /// The service asks for this delay, which exceeds the maximum delay.
    RetryAfterTooLong(Duration),
}

impl Retry {
    /// Creates a schedule of at most `max_attempts` attempts, the first one included. The random
    /// delays are below `first_delay`, then below twice that, and so on up to `max_delay`.
    pub fn new(max_attempts: u32, first_delay: Duration, max_delay: Duration) -> Self {
        Self { max_attempts, max_delay, first_delay, delay_cap: first_delay, attempts: 0 }
    }

    /// Counts an attempt that begins now.
    pub fn begin(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Returns the number of attempts begun since the schedule was created or last
    /// [restarted](Retry::restart).
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Starts the schedule anew, after an attempt that failed but made progress.
    pub fn restart(&mut self) {
        (self.attempts, self.delay_cap) = (0, self.first_delay);
    }

    /// Returns the delay before the next attempt. `retry_after` is the delay that the service asks
    /// for, if any.
    ///
    /// # Errors
    /// [`GiveUp`] if no further attempt is allowed.
    pub fn wait(&mut self, retry_after: Option<Duration>) -> Result<Duration, GiveUp> {
        if let Some(retry_after) = retry_after.filter(|retry_after| *retry_after > self.max_delay) {
            return Err(GiveUp::RetryAfterTooLong(retry_after));
        }
        if self.attempts >= self.max_attempts {
            return Err(GiveUp::AttemptsExhausted);
        }
        let jitter = self.delay_cap.min(self.max_delay).mul_f64(chance());
        self.delay_cap = self.delay_cap.saturating_mul(2);
        Ok(retry_after.unwrap_or_default() + jitter)
    }
}

/// Whether this HTTP status signals a lack of capacity or time, so that another attempt may
/// succeed.
pub fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..)
}

/// Returns a random number in `0..1`, from the random keys of the standard library's hasher.
fn chance() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_grow_to_the_longest_and_attempts_end() {
        let mut retry = Retry::new(5, SECOND, 3 * SECOND);
        for delay_cap in [1, 2, 3, 3] {
            retry.begin();
            assert!(retry.wait(None).unwrap() < delay_cap * SECOND);
        }
        retry.begin();
        assert_eq!((retry.wait(None), retry.attempts()), (Err(GiveUp::AttemptsExhausted), 5));
        retry.restart();
        retry.begin();
        assert!(retry.wait(None).unwrap() < SECOND);
        assert_eq!(retry.attempts(), 1);
    }

    #[test]
    fn what_a_service_asks_for_is_waited_unless_it_is_too_long() {
        let mut retry = Retry::new(2, SECOND, 3 * SECOND);
        retry.begin();
        let wait = retry.wait(Some(3 * SECOND)).unwrap();
        assert!((3 * SECOND..4 * SECOND).contains(&wait), "{wait:?}");
        assert_eq!(retry.wait(Some(4 * SECOND)), Err(GiveUp::RetryAfterTooLong(4 * SECOND)));
    }

    #[test]
    fn waits_differ() {
        let wait = || Retry::new(1, SECOND, SECOND).wait(None).unwrap();
        assert!((0..20).any(|_| wait() != wait()));
    }

    #[test]
    fn only_capacity_and_time_may_pass() {
        assert!([408, 409, 425, 429, 500, 503, 529].into_iter().all(is_transient));
        assert!(![200, 301, 400, 401, 402, 403, 404, 413, 422].into_iter().any(is_transient));
    }
}
