//! A request from its turn to its end: attempts, and the waits between them. Must not know how one
//! attempt is made, or what its failure means.

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
use tracing::{Instrument, debug_span, field};

use crate::{
    Limits, RemoteError, account,
    attempt::Attempt,
    circuit_breaker::{CircuitBreaker, Probe},
    failure::AccountSecrets,
    rate_limiter::RateLimiter,
    retry::{Ended, Retry},
};

/// How often a request looks whether it is to stop.
const POLL: Duration = Duration::from_millis(100);

/// Asks one service for all who ask it.
pub(super) struct Requester {
    pub(super) client: Client,
    pub(super) headers: HeaderMap,
    pub(super) base: Url,
    /// The service in messages.
    pub(super) host: String,
    pub(super) secrets: AccountSecrets,
    pub(super) limits: Limits,
    /// The only bound on requests under way, whoever sends them.
    pub(super) gate: Semaphore,
    pub(super) circuit_breaker: CircuitBreaker,
    pub(super) rate_limiter: RateLimiter,
    pub(super) retries: AtomicU64,
    pub(super) stop: Arc<AtomicBool>,
}

impl Requester {
    /// The reply to a request, or an error soon after the stop flag is set.
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
        let mut course = Course {
            deadline: Instant::now() + self.limits.total,
            retry: Retry::new(attempts, first_wait, longest_wait),
            last: String::new(),
            probe: None,
        };
        loop {
            self.pass_circuit_breaker(arrival, &mut course).await?;
            self.keep_rate(weight, &course).await?;
            course.retry.begin();
            match self.traced_attempt(&url, body, &course).await {
                Ok(reply) => {
                    self.circuit_breaker.succeeded();
                    return Ok(reply);
                }
                Err(Attempt::Final(error)) => {
                    // The service answers, and says what is wrong.
                    self.circuit_breaker.succeeded();
                    return Err(error);
                }
                Err(Attempt::Again { message, told }) => {
                    self.circuit_breaker.failed(&message);
                    course.last = message;
                    sleep(self.wait(&mut course, told)?).await;
                    if Instant::now() >= course.deadline {
                        return Err(self.out_of_time(&course));
                    }
                }
            }
            self.retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits while others failed too often and one of them tries.
    async fn pass_circuit_breaker<'a>(
        &'a self,
        arrival: u64,
        course: &mut Course<'a>,
    ) -> Result<(), RemoteError> {
        if course.probe.is_some() {
            return Ok(());
        }
        let outage = |(failures, message)| {
            Err(RemoteError::Outage { host: self.host.clone(), failures, message })
        };
        match timeout_at(course.deadline, self.circuit_breaker.enter(arrival)).await {
            Ok(Ok(probe)) => {
                course.probe = probe;
                Ok(())
            }
            Ok(Err(state)) => outage(state),
            Err(_) => outage(self.circuit_breaker.state()),
        }
    }

    /// Waits until the limits of a minute let the next attempt begin.
    async fn keep_rate(&self, weight: u64, course: &Course<'_>) -> Result<(), RemoteError> {
        match self.rate_limiter.turn(Instant::now(), weight, course.deadline) {
            Ok(begin) => {
                sleep_until(begin).await;
                Ok(())
            }
            Err(wait) => {
                let message = format!(
                    "its limits of a minute let the next request begin after {:.0} s, later than the total of {} s",
                    wait.as_secs_f64(),
                    self.limits.total.as_secs_f64()
                );
                Err(self.failed(course, message))
            }
        }
    }

    async fn traced_attempt(
        &self,
        url: &Url,
        body: &[u8],
        course: &Course<'_>,
    ) -> Result<Vec<u8>, Attempt> {
        let span = debug_span!(
            "attempt",
            "server.address" = self.host,
            "http.request.resend_count" = course.retry.made().saturating_sub(1),
            "http.request.body.size" = body.len(),
            "http.response.body.size" = field::Empty,
            "error.type" = field::Empty,
        );
        let reply = self.attempt(url, body, course.deadline).instrument(span.clone()).await;
        match &reply {
            Ok(bytes) => span.record("http.response.body.size", bytes.len()),
            Err(failure) => span.record("error.type", failure.kind()),
        };
        reply
    }

    /// How long to wait before the next attempt, if there is to be one.
    fn wait(
        &self,
        course: &mut Course<'_>,
        told: Option<Duration>,
    ) -> Result<Duration, RemoteError> {
        let last = &course.last;
        match course.retry.wait(told) {
            Ok(wait) if Instant::now() + wait < course.deadline => Ok(wait),
            Ok(_) => Err(self.out_of_time(course)),
            Err(Ended::Attempts) => Err(self.failed(course, last.clone())),
            Err(Ended::Told(told)) => {
                let (told, most) = (told.as_secs_f64(), self.limits.longest_wait.as_secs_f64());
                let what = format!("it asks to wait {told:.0} s, and at most {most} s are waited");
                Err(self.failed(course, format!("{last}; {what}")))
            }
        }
    }

    fn out_of_time(&self, course: &Course<'_>) -> RemoteError {
        let (last, total) = (&course.last, self.limits.total.as_secs_f64());
        self.failed(course, format!("{last}; no time is left for another attempt in {total} s"))
    }

    /// The end of a request; all who wait for it to try the service end with it.
    fn failed(&self, course: &Course<'_>, message: String) -> RemoteError {
        if course.probe.is_some() {
            self.circuit_breaker.gave_up();
        }
        RemoteError::Failed { host: self.host.clone(), attempts: course.retry.made(), message }
    }
}

/// How far a request is.
struct Course<'a> {
    /// When its total time is over.
    deadline: Instant,
    /// Attempts begun, and the waits between them.
    retry: Retry,
    /// Why the last attempt failed.
    last: String,
    /// Set while it is the one request that tries a failing service.
    probe: Option<Probe<'a>>,
}
