//! How often a request is made, and how long to wait between: the one schedule of whoever asks over
//! the network. Must not know what is asked, nor how time passes.
//!
//! The wait is a random time below a bound that doubles ("full jitter": Brooker, "Exponential
//! backoff and jitter", AWS Architecture Blog, 2015), after the time that the service names.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

/// Attempts of one request.
#[derive(Debug)]
pub struct Retry {
    /// Attempts, the first one included.
    most: u32,
    /// Longest wait.
    longest: Duration,
    first: Duration,
    /// Bound of the next wait.
    bound: Duration,
    made: u32,
}

/// Why no attempt follows.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// All were made.
    Attempts,
    /// The service asks to wait this long, which is too long.
    Told(Duration),
}

impl Retry {
    /// At most `most` attempts, the first one included, with waits below `first`, twice that, and so
    /// on, and no bound above `longest`.
    pub fn new(most: u32, first: Duration, longest: Duration) -> Self {
        Self { most, longest, first, bound: first, made: 0 }
    }

    /// Counts an attempt that is made.
    pub fn begin(&mut self) {
        self.made = self.made.saturating_add(1);
    }

    /// Attempts made since it began, or since something came.
    pub fn made(&self) -> u32 {
        self.made
    }

    /// Begins anew: the last attempt, although it failed, brought something.
    pub fn restart(&mut self) {
        (self.made, self.bound) = (0, self.first);
    }

    /// How long to wait before the next attempt; `told` is what the service asks for.
    ///
    /// # Errors
    /// Why there is none.
    pub fn wait(&mut self, told: Option<Duration>) -> Result<Duration, Ended> {
        if let Some(told) = told.filter(|told| *told > self.longest) {
            return Err(Ended::Told(told));
        }
        if self.made >= self.most {
            return Err(Ended::Attempts);
        }
        let jitter = self.bound.min(self.longest).mul_f64(chance());
        self.bound = self.bound.saturating_mul(2);
        Ok(told.unwrap_or_default() + jitter)
    }
}

/// Whether a reply of this status may be another one later: capacity and time, no mistake.
pub fn may_pass(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..)
}

/// A random number in `0..1`, from the keys that the system gives hash maps.
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
        for bound in [1, 2, 3, 3] {
            retry.begin();
            assert!(retry.wait(None).unwrap() < bound * SECOND);
        }
        retry.begin();
        assert_eq!((retry.wait(None), retry.made()), (Err(Ended::Attempts), 5));
        retry.restart();
        retry.begin();
        assert!(retry.wait(None).unwrap() < SECOND);
        assert_eq!(retry.made(), 1);
    }

    #[test]
    fn what_a_service_asks_for_is_waited_unless_it_is_too_long() {
        let mut retry = Retry::new(2, SECOND, 3 * SECOND);
        retry.begin();
        let wait = retry.wait(Some(3 * SECOND)).unwrap();
        assert!((3 * SECOND..4 * SECOND).contains(&wait), "{wait:?}");
        assert_eq!(retry.wait(Some(4 * SECOND)), Err(Ended::Told(4 * SECOND)));
    }

    #[test]
    fn waits_differ() {
        let wait = || Retry::new(1, SECOND, SECOND).wait(None).unwrap();
        assert!((0..20).any(|_| wait() != wait()));
    }

    #[test]
    fn only_capacity_and_time_may_pass() {
        assert!([408, 409, 425, 429, 500, 503, 529].into_iter().all(may_pass));
        assert!(![200, 301, 400, 401, 402, 403, 404, 413, 422].into_iter().any(may_pass));
    }
}
