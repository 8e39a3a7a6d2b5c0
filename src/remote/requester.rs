//! Sends one request: its attempts, and the delays between them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, Url, header::HeaderMap};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, sleep_until, timeout_at},
};
use tracing::{Instrument, debug_span, field, warn};

use crate::{
    Limits, RemoteError, account,
    attempt::AttemptError,
    circuit_breaker::{CircuitBreaker, Probe},
    failure::AccountSecrets,
    rate_limiter::RateLimiter,
    retry::{GiveUp, Retry},
};

/// Interval between checks of the stop flag.
const POLL: Duration = Duration::from_millis(100);
/// Number of attempts after which a request fails if nothing listens at an address on this machine:
/// the user has not started the service.
const ATTEMPTS_IF_ABSENT: u32 = 3;

/// Sends requests to one service.
pub(super) struct Requester {
    pub(super) client: Client,
    pub(super) headers: HeaderMap,
    pub(super) base: Url,
    /// Host name of the service.
    pub(super) host: String,
    /// Host name of the service, with the port if the address has one, for messages.
    pub(super) authority: String,
    pub(super) secrets: AccountSecrets,
    pub(super) limits: Limits,
    /// Limits the number of concurrent requests.
    pub(super) gate: Semaphore,
    pub(super) circuit_breaker: CircuitBreaker,
    pub(super) rate_limiter: RateLimiter,
    pub(super) retries: AtomicU64,
    pub(super) stop: Arc<AtomicBool>,
}

impl Requester {
    /// Sends a request until it succeeds or must be given up, and returns the bytes of the reply.
    /// Fails with [`RemoteError::Stopped`] soon after the stop flag is set.
    pub(super) async fn ask(
        &self,
        path: &str,
        body: &[u8],
        weight: u64,
    ) -> Result<Vec<u8>, RemoteError> {
        tokio::select! {
            biased;
            () = self.stopped() => Err(RemoteError::Stopped),
            reply = self.ask_in_turn(path, body, weight) => reply,
        }
    }

    async fn stopped(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            sleep(POLL).await;
        }
    }

    async fn ask_in_turn(
        &self,
        path: &str,
        body: &[u8],
        weight: u64,
    ) -> Result<Vec<u8>, RemoteError> {
        let arrival = self.circuit_breaker.arrival();
        // The gate is never closed.
        let _turn = self.gate.acquire().await;
        let url = account::join(&self.base, path);
        let Limits { attempts, first_wait, longest_wait, .. } = self.limits;
        let mut state = RequestState {
            deadline: Instant::now() + self.limits.total,
            retry: Retry::new(attempts, first_wait, longest_wait),
            last: String::new(),
            probe: None,
        };
        loop {
            self.enter_circuit_breaker(arrival, &mut state).await?;
            self.await_rate_limit(weight, &state).await?;
            state.retry.begin();
            match self.traced_attempt(&url, body, &state).await {
                Ok(reply) => {
                    self.circuit_breaker.succeeded();
                    return Ok(reply);
                }
                Err(AttemptError::Final(error)) => {
                    // An error reply shows that the service works.
                    self.circuit_breaker.succeeded();
                    return Err(error);
                }
                Err(AttemptError::Absent(message)) => {
                    self.circuit_breaker.failed(&message);
                    if state.retry.attempts() >= ATTEMPTS_IF_ABSENT {
                        return Err(self.failed(&state, message));
                    }
                    self.pause(&mut state, message, None).await?;
                }
                Err(AttemptError::Transient { message, retry_after }) => {
                    self.circuit_breaker.failed(&message);
                    if state.retry.attempts() == 2 {
                        let (host, most) = (&self.authority, self.limits.total.as_secs());
                        warn!("{host}: {message}; retrying for at most {most} s");
                    }
                    self.pause(&mut state, message, retry_after).await?;
                }
            }
            self.retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits while the circuit breaker is open and another request probes the service. If this
    /// request becomes the probe, stores the probe in `state`.
    async fn enter_circuit_breaker<'a>(
        &'a self,
        arrival: u64,
        state: &mut RequestState<'a>,
    ) -> Result<(), RemoteError> {
        if state.probe.is_some() {
            return Ok(());
        }
        let outage = |(failures, message)| {
            Err(RemoteError::Outage { host: self.authority.clone(), failures, message })
        };
        match timeout_at(state.deadline, self.circuit_breaker.enter(arrival)).await {
            Ok(Ok(probe)) => {
                state.probe = probe;
                Ok(())
            }
            Ok(Err(state)) => outage(state),
            Err(_) => outage(self.circuit_breaker.state()),
        }
    }

    /// Waits until the rate limiter allows the next attempt.
    async fn await_rate_limit(
        &self,
        weight: u64,
        state: &RequestState<'_>,
    ) -> Result<(), RemoteError> {
        match self.rate_limiter.turn(Instant::now(), weight, state.deadline) {
            Ok(begin) => {
                sleep_until(begin).await;
                Ok(())
            }
            Err(wait) => {
                let message = format!(
                    "the limits per minute delay the next request by {:.0} s, but a request may \
                     take {} s in total",
                    wait.as_secs_f64(),
                    self.limits.total.as_secs_f64()
                );
                Err(self.failed(state, message))
            }
        }
    }

    async fn traced_attempt(
        &self,
        url: &Url,
        body: &[u8],
        state: &RequestState<'_>,
    ) -> Result<Vec<u8>, AttemptError> {
        let span = debug_span!(
            "attempt",
            "server.address" = self.host,
            "http.request.resend_count" = state.retry.attempts().saturating_sub(1),
            "http.request.body.size" = body.len(),
            "http.response.body.size" = field::Empty,
            "error.type" = field::Empty,
        );
        let reply = self.attempt(url, body, state.deadline).instrument(span.clone()).await;
        match &reply {
            Ok(bytes) => span.record("http.response.body.size", bytes.len()),
            Err(failure) => span.record("error.type", failure.kind()),
        };
        reply
    }

    /// After an attempt that failed with `message`: waits until the next attempt, or returns the
    /// error of the request if there is no further attempt.
    async fn pause(
        &self,
        state: &mut RequestState<'_>,
        message: String,
        retry_after: Option<Duration>,
    ) -> Result<(), RemoteError> {
        state.last = message;
        sleep(self.wait(state, retry_after)?).await;
        if Instant::now() >= state.deadline {
            return Err(self.out_of_time(state));
        }
        Ok(())
    }

    /// Returns the delay before the next attempt, or the error of the request if there is no
    /// further attempt.
    fn wait(
        &self,
        state: &mut RequestState<'_>,
        retry_after: Option<Duration>,
    ) -> Result<Duration, RemoteError> {
        let last = &state.last;
        match state.retry.wait(retry_after) {
            Ok(wait) if Instant::now() + wait < state.deadline => Ok(wait),
            Ok(_) => Err(self.out_of_time(state)),
            Err(GiveUp::AttemptsExhausted) => Err(self.failed(state, last.clone())),
            Err(GiveUp::RetryAfterTooLong(retry_after)) => {
                let (wait, limit) =
                    (retry_after.as_secs_f64(), self.limits.longest_wait.as_secs_f64());
                let reason =
                    format!("the service asks to wait {wait:.0} s; the limit is {limit} s");
                Err(self.failed(state, format!("{last}; {reason}")))
            }
        }
    }

    fn out_of_time(&self, state: &RequestState<'_>) -> RemoteError {
        let (last, total) = (&state.last, self.limits.total.as_secs_f64());
        self.failed(state, format!("{last}; no time is left for another attempt within {total} s"))
    }

    /// Returns the error of a request that gives up. If the request is the probe, the requests that
    /// wait for the probe fail too.
    fn failed(&self, state: &RequestState<'_>, message: String) -> RemoteError {
        if state.probe.is_some() {
            self.circuit_breaker.gave_up();
        }
        RemoteError::Failed {
            host: self.authority.clone(),
            attempts: state.retry.attempts(),
            message,
        }
    }
}

/// State of one request over its attempts.
struct RequestState<'a> {
    deadline: Instant,
    retry: Retry,
    /// Error message of the last attempt.
    last: String,
    /// Set while this request probes the failing service.
    probe: Option<Probe<'a>>,
}
