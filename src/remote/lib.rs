//! Requests to a service over HTTP, with deadlines, bounded replies and bounded retries.
//!
//! A request is retried if it failed for lack of a connection, of time or of capacity (status 408,
//! 409, 425, 429 and 5xx). The delay is random, below a cap that doubles ("full jitter"), plus the
//! delay that the service asks for. A wrong key, an exhausted quota and an invalid request are
//! final. Secrets go into headers only; they are removed from messages, and redirects are not
//! followed.
//!
//! ```text
//! post -> gate (requests under way) -> circuit breaker (after failures in a row: one at a time)
//!      -> rate limiter (requests and tokens a minute) -> attempt (deadlines) -> reply, or again
//! ```
//!
//! Calls block and may come from several threads at a time; the asynchronous runtime is internal.

mod account;
mod attempt;
mod circuit_breaker;
mod failure;
mod rate_limiter;
mod requester;
mod retry;
#[cfg(test)]
pub(crate) mod scripted;
#[cfg(test)]
mod tests;

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, ClientBuilder, redirect::Policy};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Semaphore,
    task::JoinSet,
};

pub use crate::account::Account;
use crate::{
    circuit_breaker::CircuitBreaker, failure::AccountSecrets, rate_limiter::RateLimiter,
    requester::Requester,
};
pub use crate::{
    failure::retry_after,
    retry::{GiveUp, Retry, is_transient},
};

/// Idle connections are closed after this time, before services close them.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);

/// Limits of each request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Time to connect: name lookup, TCP and TLS.
    pub connect: Duration,
    /// Time from the start of an attempt to the first bytes of its reply.
    pub first_byte: Duration,
    /// Time between two pieces of a reply.
    pub idle: Duration,
    /// Time for one attempt, from the connection to the last byte.
    pub attempt: Duration,
    /// Time for all attempts of a request and all delays between them, without the wait for a slot
    /// among the concurrent requests.
    pub total: Duration,
    /// Maximum number of attempts of a request, the first one included.
    pub attempts: u32,
    /// Cap of the first delay between attempts; the cap doubles.
    pub first_wait: Duration,
    /// Maximum delay between attempts; a service that asks for a longer one has failed.
    pub longest_wait: Duration,
    /// Maximum size of a reply, bytes.
    pub reply_bytes: usize,
    /// Maximum number of concurrent requests, over all threads.
    pub at_a_time: usize,
    /// Failures in a row, of all requests together, that open the circuit breaker.
    pub failures_in_a_row: u32,
    /// Maximum number of attempts per minute; none: unlimited.
    pub requests_per_minute: Option<u32>,
    /// Maximum sum of the weights of attempts per minute; none: unlimited.
    pub tokens_per_minute: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            attempt: Duration::from_secs(120),
            total: Duration::from_secs(900),
            attempts: 6,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(60),
            reply_bytes: 128 << 20,
            at_a_time: 4,
            failures_in_a_row: 8,
            requests_per_minute: None,
            tokens_per_minute: None,
        }
    }
}

/// An HTTP client with these settings; TLS by `ring`.
///
/// # Errors
/// A message; the usual cause is a system without certificates.
pub fn http_client(
    settings: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<Client, String> {
    // Fails if the process already has a provider, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    settings(Client::builder()).build().map_err(|error| {
        let cause = innermost(&error);
        format!("{cause}; TLS needs the certificates of the system (package ca-certificates)")
    })
}

/// The innermost cause of an error, which says what happened.
fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Why a service gave no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// Address, key or headers cannot be used.
    #[error("the service cannot be used: {0}")]
    Setup(String),
    /// The service rejects the key.
    #[error("{host} does not accept the key (status {status}): {message}; {}", failure::key_remedy(.status))]
    Key {
        /// The service.
        host: String,
        /// Status of the reply.
        status: u16,
        /// Message of the service.
        message: String,
    },
    /// The quota of the account is used up.
    #[error(
        "{host} says that the quota is spent: {message}; add credit, or wait until it is renewed"
    )]
    Quota {
        /// The service.
        host: String,
        /// Message of the service.
        message: String,
    },
    /// The service refuses the request.
    #[error("{host} refuses the request (status {status}): {message}{}", failure::remedy(.status, .message))]
    Refused {
        /// The service.
        host: String,
        /// Status of the reply.
        status: u16,
        /// Message of the service.
        message: String,
    },
    /// No attempt succeeded.
    #[error("{host} gave no reply in {attempts} attempts, the last one failed with: {message}")]
    Failed {
        /// The service.
        host: String,
        /// Attempts made.
        attempts: u32,
        /// Error of the last attempt.
        message: String,
    },
    /// Too many requests failed in a row; this one was not sent.
    #[error(
        "{host} failed {failures} times in a row, the last time with: {message}; no request is sent until a trial succeeds"
    )]
    Outage {
        /// The service.
        host: String,
        /// Failures in a row.
        failures: u32,
        /// Error of the last attempt.
        message: String,
    },
    /// The reply is too long.
    #[error("the reply of {host} is longer than {limit} bytes")]
    TooLong {
        /// The service.
        host: String,
        /// Limit, bytes.
        limit: usize,
    },
    /// The reply is complete, but in another form than requested.
    #[error("the reply of {host} cannot be read: {reason}")]
    Unreadable {
        /// The service.
        host: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

impl RemoteError {
    /// Whether the service refuses the request because it is too long.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::Refused { status, message, .. } if failure::is_too_long(*status, message))
    }
}

/// A client of one service.
pub struct Service {
    requester: Arc<Requester>,
    /// Taken when the service is dropped.
    runtime: Option<Runtime>,
}

/// Does not wait for pending name lookups.
impl Drop for Service {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Service {
    /// Prepares requests to a service; sends nothing yet.
    ///
    /// # Errors
    /// [`RemoteError::Setup`].
    pub fn new(account: &Account, limits: Limits) -> Result<Service, RemoteError> {
        Service::stoppable(account, limits, Arc::default())
    }

    /// As [`Service::new`]. Once `stop` is set, all waits end within a second.
    ///
    /// # Errors
    /// [`RemoteError::Setup`].
    pub fn stoppable(
        account: &Account,
        limits: Limits,
        stop: Arc<AtomicBool>,
    ) -> Result<Service, RemoteError> {
        let (base, host) = account.address()?;
        let headers = account.header_map()?;
        let client = http_client(|client| {
            let client = client
                .connect_timeout(limits.connect)
                .pool_idle_timeout(IDLE_CONNECTION)
                .redirect(Policy::none());
            // A service on this machine is not behind the network's proxy.
            if account::is_local(&base) { client.no_proxy() } else { client }
        });
        let client = client.map_err(RemoteError::Setup)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| RemoteError::Setup(error.to_string()))?;
        let requester = Requester {
            client,
            headers,
            base,
            host,
            secrets: AccountSecrets::new(account),
            limits,
            gate: Semaphore::new(limits.at_a_time.clamp(1, Semaphore::MAX_PERMITS)),
            circuit_breaker: CircuitBreaker::new(limits.failures_in_a_row),
            rate_limiter: RateLimiter::new(limits.requests_per_minute, limits.tokens_per_minute),
            retries: AtomicU64::new(0),
            stop,
        };
        Ok(Service { requester: Arc::new(requester), runtime: Some(runtime) })
    }

    /// Host name of the service.
    pub fn host(&self) -> &str {
        &self.requester.host
    }

    /// Limits of each request.
    pub fn limits(&self) -> Limits {
        self.requester.limits
    }

    /// Number of retries so far, over all requests.
    pub fn retries(&self) -> u64 {
        self.requester.retries.load(Ordering::Relaxed)
    }

    /// A message of the service on one short line, without secrets.
    pub fn shown(&self, message: &str) -> String {
        self.requester.secrets.shown(message)
    }

    /// The text of a reply without the key and the values of headers, which a service may repeat,
    /// so that it may be stored and shown.
    pub fn without_secrets(&self, text: String) -> String {
        self.requester.secrets.without_secrets(text)
    }

    /// Posts one body to a path of the service and returns the bytes of the reply. `weight` counts
    /// towards [`Limits::tokens_per_minute`], once per attempt.
    ///
    /// Blocks, so not for asynchronous tasks. A reply with a length, or in chunks, is complete. A
    /// reply that ends with its connection may be truncated, which only its reader can detect.
    ///
    /// # Errors
    /// [`RemoteError`]; transient failures have been retried.
    pub fn post(&self, path: &str, body: Vec<u8>, weight: u64) -> Result<Vec<u8>, RemoteError> {
        let Some(runtime) = &self.runtime else { return Err(RemoteError::Stopped) };
        runtime.block_on(self.requester.ask(path, &body, weight))
    }

    /// Posts bodies to a path, several at a time; replies in the order of the bodies.
    pub fn post_all(&self, path: &str, bodies: Vec<Vec<u8>>) -> Vec<Result<Vec<u8>, RemoteError>> {
        let mut replies: Vec<_> = bodies.iter().map(|_| None).collect();
        let Some(runtime) = &self.runtime else { return Vec::new() };
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for (index, body) in bodies.into_iter().enumerate() {
                let (requester, path) = (self.requester.clone(), path.to_owned());
                tasks.spawn(async move { (index, requester.ask(&path, &body, 0).await) });
            }
            while let Some(done) = tasks.join_next().await {
                if let Ok((index, reply)) = done
                    && let Some(place) = replies.get_mut(index)
                {
                    *place = Some(reply);
                }
            }
        });
        let lost = || Err(RemoteError::Setup("its task ended early".to_owned()));
        replies.into_iter().map(|reply| reply.unwrap_or_else(lost)).collect()
    }
}
