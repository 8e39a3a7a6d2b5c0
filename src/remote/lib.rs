//! Sends requests to a service over HTTP, with deadlines, and limits on the size of replies and the
//! number of retries.
//!
//! A request is retried if it failed for lack of a connection, time or capacity (status 408, 409,
//! 425, 429 and 5xx). The delay before a retry is random, below a cap that doubles ("full jitter"),
//! plus the delay that the service asks for. A wrong key, an exhausted quota and an invalid request
//! are not retried. Secrets go into headers only; they are removed from messages, and redirects are
//! not followed.
//!
//! ```text
//! post -> gate (concurrent requests) -> circuit breaker (after failures in a row: one at a time)
//!      -> rate limiter (requests and tokens per minute) -> attempt (deadlines) -> reply or retry
//! ```
//!
//! Calls block and may come from several threads at a time; the asynchronous runtime is internal.

mod account;
mod attempt;
mod circuit_breaker;
mod failure;
#[cfg(feature = "otlp")]
pub mod otlp;
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

/// Time after which an idle connection is closed; services close idle connections later.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);

/// Limits of each request to a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Maximum time to connect: name lookup, TCP and TLS.
    pub connect: Duration,
    /// Maximum time from the start of an attempt to the first bytes of its reply.
    pub first_byte: Duration,
    /// Maximum time between two pieces of a reply.
    pub idle: Duration,
    /// Maximum time for one attempt, from connecting to the last byte of the reply.
    pub attempt: Duration,
    /// Maximum time for all attempts of a request and all delays between them; does not include the
    /// wait for a slot among the concurrent requests.
    pub total: Duration,
    /// Maximum number of attempts of a request, the first one included.
    pub attempts: u32,
    /// Upper bound of the random delay before the second attempt; the bound doubles with each
    /// further attempt.
    pub first_wait: Duration,
    /// Maximum delay between attempts. If the service asks for a longer one, the request fails.
    pub longest_wait: Duration,
    /// Maximum size in bytes of a reply.
    pub reply_bytes: usize,
    /// Maximum number of concurrent requests, over all threads.
    pub at_a_time: usize,
    /// Number of failed attempts in a row, of all requests together, at which the circuit breaker
    /// opens.
    pub failures_in_a_row: u32,
    /// Maximum number of attempts per minute; `None`: unlimited.
    pub requests_per_minute: Option<u32>,
    /// Maximum total weight of the attempts per minute (see [`Service::post`]); `None`: unlimited.
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

/// Creates an HTTP client with these settings, which uses the `ring` implementation of TLS
/// cryptography.
///
/// # Errors
/// A message for the user; the usual cause is a system without certificates.
pub fn http_client(
    settings: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<Client, String> {
    // Fails if the process already has a provider, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    settings(Client::builder()).build().map_err(|error| {
        let cause = innermost(&error);
        format!("{cause}; TLS needs the system's certificates (package ca-certificates)")
    })
}

/// Returns the message of the innermost cause of an error, the most specific one.
fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Why a request to a service got no usable reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// The address, the key or the headers of the account cannot be used.
    #[error("the service cannot be used: {0}")]
    Setup(String),
    /// The service rejects the key.
    #[error("{host} does not accept the key (status {status}): {message}; {}", failure::key_remedy(.status))]
    Key {
        /// Host name of the service, with the port if the address has one.
        host: String,
        /// HTTP status of the reply.
        status: u16,
        /// Error message of the service.
        message: String,
    },
    /// The quota of the account is used up.
    #[error(
        "{host} reports that the quota is used up: {message}; add credit, or wait until it is \
         renewed"
    )]
    Quota {
        /// Host name of the service, with the port if the address has one.
        host: String,
        /// Error message of the service.
        message: String,
    },
    /// The service refuses the request for another reason.
    #[error("{host} refuses the request (status {status}): {message}{}", failure::remedy(.status, .message))]
    Refused {
        /// Host name of the service, with the port if the address has one.
        host: String,
        /// HTTP status of the reply.
        status: u16,
        /// Error message of the service.
        message: String,
    },
    /// All attempts of the request failed, or no time was left for another one.
    #[error("{host} gave no reply in {attempts} attempts; last error: {message}")]
    Failed {
        /// Host name of the service, with the port if the address has one.
        host: String,
        /// Number of attempts made.
        attempts: u32,
        /// Error message of the last attempt.
        message: String,
    },
    /// Too many attempts failed in a row, so this request was not sent again.
    #[error(
        "{host} failed {failures} times in a row, the last time with: {message}; try again when \
         the service is available"
    )]
    Outage {
        /// Host name of the service, with the port if the address has one.
        host: String,
        /// Number of failed attempts in a row, of all requests together.
        failures: u32,
        /// Error message of the last attempt.
        message: String,
    },
    /// The reply is too long.
    #[error("the reply of {host} is longer than {limit} bytes")]
    TooLong {
        /// Host name of the service, with the port if the address has one.
        host: String,
        /// Maximum size in bytes of a reply.
        limit: usize,
    },
    /// The reply is complete, but in another form than requested.
    #[error("the reply of {host} cannot be read: {reason}")]
    Unreadable {
        /// Host name of the service, with the port if the address has one.
        host: String,
        /// What is wrong with the reply.
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

/// A client for requests to one service.
pub struct Service {
    requester: Arc<Requester>,
    /// Runtime of the asynchronous tasks; `None` only while the value is being dropped.
    runtime: Option<Runtime>,
}

/// Shuts the runtime down without waiting for pending name lookups.
impl Drop for Service {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Service {
    /// Creates a client for the service of an account; sends nothing yet.
    ///
    /// # Errors
    /// [`RemoteError::Setup`] if the account cannot be used, or the client cannot be started.
    pub fn new(account: &Account, limits: Limits) -> Result<Service, RemoteError> {
        Service::stoppable(account, limits, Arc::default())
    }

    /// Creates a client as [`Service::new`] does. Once `stop` is set, its requests end with
    /// [`RemoteError::Stopped`] within a second.
    ///
    /// # Errors
    /// [`RemoteError::Setup`] if the account cannot be used, or the client cannot be started.
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
            authority: account::host_and_port(&base, &host),
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

    /// Returns the host name of the service, without the port.
    pub fn host(&self) -> &str {
        &self.requester.host
    }

    /// Returns the limits of each request.
    pub fn limits(&self) -> Limits {
        self.requester.limits
    }

    /// Returns the number of retries so far, over all requests.
    pub fn retries(&self) -> u64 {
        self.requester.retries.load(Ordering::Relaxed)
    }

    /// Returns a message of the service on one short line, with secrets replaced by `...`.
    pub fn shown(&self, message: &str) -> String {
        self.requester.secrets.shown(message)
    }

    /// Removes the key and the values of headers from the text of a reply, in which a service may
    /// repeat them. The result may be stored and shown.
    pub fn without_secrets(&self, text: String) -> String {
        self.requester.secrets.without_secrets(text)
    }

    /// Posts one body to a path of the service and returns the bytes of the reply. `weight`, a
    /// number of tokens, counts towards [`Limits::tokens_per_minute`] once per attempt.
    ///
    /// Blocks the thread, so it must not be called from asynchronous tasks. A reply with a content
    /// length, or in chunks, is complete. Any other reply ends when the connection closes and may
    /// be truncated; only the caller can detect this.
    ///
    /// # Errors
    /// [`RemoteError`] says why there is no reply; transient failures have been retried.
    pub fn post(&self, path: &str, body: Vec<u8>, weight: u64) -> Result<Vec<u8>, RemoteError> {
        let Some(runtime) = &self.runtime else { return Err(RemoteError::Stopped) };
        runtime.block_on(self.requester.ask(path, &body, weight))
    }

    /// Posts several bodies to a path, several at a time, each with weight 0. Returns the replies
    /// in the order of the bodies.
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
        let lost = || Err(RemoteError::Setup("the request's task ended unexpectedly".to_owned()));
        replies.into_iter().map(|reply| reply.unwrap_or_else(lost)).collect()
    }
}
