//! Spaces attempts evenly, so that they stay within the limits per minute of an account.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// Determines when each attempt may start. Starts are spaced evenly, without bursts: in any minute
/// there is at most one start more than the limits allow.
pub(super) struct RateLimiter {
    requests: Option<u32>,
    tokens: Option<u64>,
    /// Earliest time at which the next attempt may start; `None` before the first attempt.
    next: Mutex<Option<Instant>>,
}

impl RateLimiter {
    /// Creates a limiter with these limits per minute. `None` means unlimited, and 0 counts as 1.
    pub(super) fn new(requests: Option<u32>, tokens: Option<u64>) -> RateLimiter {
        RateLimiter { requests, tokens, next: Mutex::default() }
    }

    /// Reserves the next start for an attempt of this weight, a number of tokens, and returns the
    /// time of the start. Attempts start in the order of the calls.
    ///
    /// # Errors
    /// The delay until the start, if the start would be after the deadline; nothing is then
    /// reserved.
    pub(super) fn turn(
        &self,
        now: Instant,
        weight: u64,
        deadline: Instant,
    ) -> Result<Instant, Duration> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = next.map_or(now, |next| next.max(now));
        // Without a delay, the attempt may start even after the deadline.
        if begin > now.max(deadline) {
            return Err(begin - now);
        }
        let space = self.space(weight);
        if !space.is_zero() {
            *next = begin.checked_add(space);
        }
        Ok(begin)
    }

    /// Returns the time between the start of an attempt of this weight and the next start.
    fn space(&self, weight: u64) -> Duration {
        let of_request = self.requests.map(|limit| MINUTE.div_f64(limit.max(1).into()));
        let of_tokens = self.tokens.map(|limit| {
            Duration::try_from_secs_f64(60.0 * weight as f64 / limit.max(1) as f64)
                .unwrap_or(Duration::MAX)
        });
        of_request.max(of_tokens).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(rate_limiter: &RateLimiter, weights: &[u64]) -> Vec<f64> {
        let now = Instant::now();
        let deadline = now + 10 * MINUTE;
        let begins =
            weights.iter().map(|weight| rate_limiter.turn(now, *weight, deadline).unwrap());
        begins.map(|begin| (begin - now).as_secs_f64()).collect()
    }

    #[test]
    fn attempts_are_spaced_by_the_tighter_limit() {
        assert_eq!(begins(&RateLimiter::new(None, None), &[5, 5, 5]), [0.0; 3]);
        assert_eq!(begins(&RateLimiter::new(Some(60), None), &[0, 0, 0]), [0.0, 1.0, 2.0]);
        assert_eq!(
            begins(&RateLimiter::new(None, Some(600)), &[100, 0, 5, 1]),
            [0.0, 10.0, 10.0, 10.5]
        );
        assert_eq!(begins(&RateLimiter::new(Some(60), Some(600)), &[5, 100, 1]), [0.0, 1.0, 11.0]);
    }

    #[test]
    fn a_turn_beyond_the_deadline_is_not_taken() {
        let rate_limiter = RateLimiter::new(Some(1), None);
        let now = Instant::now();
        let soon = now + Duration::from_secs(10);
        assert_eq!(rate_limiter.turn(now, 0, soon), Ok(now));
        assert_eq!(rate_limiter.turn(now, 0, soon), Err(MINUTE));
        assert_eq!(rate_limiter.turn(now, 0, now + MINUTE), Ok(now + MINUTE));
    }
}
