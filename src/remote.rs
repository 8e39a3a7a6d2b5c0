//! Asks a service over HTTP: with deadlines, a bounded reply, and a bounded number of repetitions.
//! Must not know what is asked.
//!
//! A request is repeated when it failed for want of a connection, of time or of capacity (status
//! 408, 409, 429 and 5xx), after a random time below a bound that doubles ("full jitter"), or after
//! the time that the service names. A wrong key, a spent quota and a wrong request are final. The
//! key goes into one header and nowhere else: it is taken out of messages, and no redirect is
//! followed.
//!
//! Calls block; the runtime of their engine stays inside.

#[cfg(test)]
pub(crate) mod scripted;

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{
    Client, Response, StatusCode, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
    redirect::Policy,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Semaphore,
    task::JoinSet,
};

/// Characters of a service's message that are shown.
const MAX_MESSAGE_CHARS: usize = 300;
/// Bytes read of a reply that says what went wrong.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// What one call may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time for the connection.
    pub connect: Duration,
    /// Time for one attempt, from the connection to the last byte.
    pub attempt: Duration,
    /// Attempts of a request, the first one included.
    pub attempts: u32,
    /// Bound of the first wait between attempts; it doubles.
    pub first_wait: Duration,
    /// Longest wait between attempts, also when the service names one.
    pub longest_wait: Duration,
    /// Longest reply, bytes.
    pub reply_bytes: usize,
    /// Requests under way at a time.
    pub at_a_time: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect: Duration::from_secs(10),
            attempt: Duration::from_secs(120),
            attempts: 6,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(60),
            reply_bytes: 128 << 20,
            at_a_time: 4,
        }
    }
}

/// Where a service is, and what opens it.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// Address that paths are appended to, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// Key, if one is needed.
    pub key: Option<String>,
}

/// Never shows the key.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|_| "...");
        f.debug_struct("Account").field("base_url", &self.base_url).field("key", &key).finish()
    }
}

/// Why a service gave no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// Address or key cannot be used.
    #[error("the service cannot be asked: {0}")]
    Setup(String),
    /// The service does not take the key.
    #[error("{host} does not accept the key (status {status}): {message}")]
    Key {
        /// The service.
        host: String,
        /// Status of the reply.
        status: u16,
        /// What the service says.
        message: String,
    },
    /// The account has nothing left.
    #[error("{host} says that the quota is spent: {message}")]
    Quota {
        /// The service.
        host: String,
        /// What the service says.
        message: String,
    },
    /// The service does not take the request.
    #[error("{host} refuses the request (status {status}): {message}")]
    Refused {
        /// The service.
        host: String,
        /// Status of the reply.
        status: u16,
        /// What the service says.
        message: String,
    },
    /// No attempt succeeded.
    #[error("{host} gave no reply in {attempts} attempts, the last one failed with: {message}")]
    Failed {
        /// The service.
        host: String,
        /// Attempts made.
        attempts: u32,
        /// Why the last one failed.
        message: String,
    },
    /// The reply is too long.
    #[error("the reply of {host} is longer than {limit} bytes")]
    TooLong {
        /// The service.
        host: String,
        /// Bytes allowed.
        limit: usize,
    },
}

/// A service that can be asked.
pub struct Service {
    asker: Arc<Asker>,
    runtime: Runtime,
}

struct Asker {
    client: Client,
    headers: HeaderMap,
    base: String,
    /// The service in messages.
    host: String,
    key: Option<String>,
    limits: Limits,
    retries: AtomicU64,
}

/// Why an attempt failed.
enum Attempt {
    /// Another one may succeed, not before this time.
    Again {
        message: String,
        not_before: Option<Duration>,
    },
    Final(RemoteError),
}

impl Service {
    /// Prepares to ask a service; nothing is sent yet.
    ///
    /// # Errors
    /// [`RemoteError::Setup`].
    pub fn new(account: &Account, limits: Limits) -> Result<Service, RemoteError> {
        let url: Url = account.base_url.parse().map_err(|error| {
            RemoteError::Setup(format!("its address is not an address ({error})"))
        })?;
        let host = url.host_str().filter(|_| ["http", "https"].contains(&url.scheme()));
        let Some(host) = host.map(str::to_owned) else {
            return Err(RemoteError::Setup("its address is not one of http or https".to_owned()));
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &account.key {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
                RemoteError::Setup("its key holds characters that no key has".to_owned())
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let setup = |error: &dyn fmt::Display| RemoteError::Setup(error.to_string());
        let client = Client::builder()
            .connect_timeout(limits.connect)
            .timeout(limits.attempt)
            .redirect(Policy::none())
            .build()
            .map_err(|error| setup(&error))?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| setup(&error))?;
        let (base, key) = (account.base_url.trim_end_matches('/').to_owned(), account.key.clone());
        let retries = AtomicU64::new(0);
        let asker = Asker { client, headers, base, host, key, limits, retries };
        Ok(Service { asker: Arc::new(asker), runtime })
    }

    /// The name of its host.
    pub fn host(&self) -> &str {
        &self.asker.host
    }

    /// Attempts that were repetitions.
    pub fn retries(&self) -> u64 {
        self.asker.retries.load(Ordering::Relaxed)
    }

    /// Posts bodies to a path, some at a time; replies in the order of the bodies.
    pub fn post_all(&self, path: &str, bodies: Vec<Vec<u8>>) -> Vec<Result<Vec<u8>, RemoteError>> {
        let url = format!("{}{path}", self.asker.base);
        let gate = Arc::new(Semaphore::new(self.asker.limits.at_a_time));
        let mut replies: Vec<_> = bodies.iter().map(|_| None).collect();
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for (at, body) in bodies.into_iter().enumerate() {
                let (asker, url, gate) = (self.asker.clone(), url.clone(), gate.clone());
                tasks.spawn(async move {
                    // The gate is never closed.
                    let _turn = gate.acquire().await;
                    (at, asker.ask(&url, body).await)
                });
            }
            while let Some(done) = tasks.join_next().await {
                if let Ok((at, reply)) = done {
                    replies[at] = Some(reply);
                }
            }
        });
        let lost = || Err(RemoteError::Setup("its task ended early".to_owned()));
        replies.into_iter().map(|reply| reply.unwrap_or_else(lost)).collect()
    }
}

impl Asker {
    async fn ask(&self, url: &str, body: Vec<u8>) -> Result<Vec<u8>, RemoteError> {
        let Limits { attempts, first_wait, longest_wait, .. } = self.limits;
        let mut bound = first_wait;
        let mut attempt = 1;
        loop {
            let (message, not_before) = match self.attempt(url, body.clone()).await {
                Ok(reply) => return Ok(reply),
                Err(Attempt::Final(error)) => return Err(error),
                Err(Attempt::Again { message, not_before }) => (message, not_before),
            };
            let host = self.host.clone();
            if let Some(wait) = not_before.filter(|wait| *wait > longest_wait) {
                let message = format!("{message}; it asks to wait {} s", wait.as_secs());
                return Err(RemoteError::Failed { host, attempts: attempt, message });
            }
            if attempt >= attempts {
                return Err(RemoteError::Failed { host, attempts: attempt, message });
            }
            let jitter = bound.min(longest_wait).mul_f64(chance());
            tokio::time::sleep(not_before.unwrap_or_default() + jitter).await;
            bound = bound.saturating_mul(2);
            attempt += 1;
            self.retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn attempt(&self, url: &str, body: Vec<u8>) -> Result<Vec<u8>, Attempt> {
        let again = |error: reqwest::Error| {
            let what = if error.is_timeout() {
                "no reply in time"
            } else if error.is_connect() {
                "no connection"
            } else {
                "the connection broke off"
            };
            Attempt::Again { message: what.to_owned(), not_before: None }
        };
        let request = self.client.post(url).headers(self.headers.clone()).body(body);
        let mut reply = request.send().await.map_err(again)?;
        let status = reply.status();
        if !status.is_success() {
            return Err(self.failure(status, reply).await);
        }
        let limit = self.limits.reply_bytes;
        let mut bytes = Vec::new();
        while let Some(chunk) = reply.chunk().await.map_err(again)? {
            if bytes.len() + chunk.len() > limit {
                let host = self.host.clone();
                return Err(Attempt::Final(RemoteError::TooLong { host, limit }));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// What a reply with a status of failure means.
    async fn failure(&self, status: StatusCode, mut reply: Response) -> Attempt {
        let not_before = wait_named(reply.headers());
        let mut bytes = Vec::new();
        while let Ok(Some(chunk)) = reply.chunk().await {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_ERROR_BYTES {
                break;
            }
        }
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let error = &json["error"];
        let text = [&error["message"], error, &json["message"], &json["detail"]];
        let text = text.iter().find_map(|value| value.as_str());
        let message = self.shown(text.unwrap_or(&String::from_utf8_lossy(&bytes)));
        let is_quota = ["insufficient_quota", "billing_hard_limit_reached"]
            .iter()
            .any(|code| error["code"] == **code || error["type"] == **code);
        let (host, status) = (self.host.clone(), status.as_u16());
        match status {
            _ if is_quota => Attempt::Final(RemoteError::Quota { host, message }),
            402 => Attempt::Final(RemoteError::Quota { host, message }),
            401 | 403 => Attempt::Final(RemoteError::Key { host, status, message }),
            408 | 409 | 429 | 500.. => {
                Attempt::Again { message: format!("status {status}: {message}"), not_before }
            }
            _ => Attempt::Final(RemoteError::Refused { host, status, message }),
        }
    }

    /// A message on one short line, without the key.
    fn shown(&self, message: &str) -> String {
        let message = match self.key.as_deref() {
            Some(key) if !key.is_empty() => message.replace(key, "..."),
            _ => message.to_owned(),
        };
        let one_line = message.chars().map(|c| if c.is_control() { ' ' } else { c });
        one_line.take(MAX_MESSAGE_CHARS).collect()
    }
}

/// A random number in `0..1`, from the keys that the system gives hash maps.
pub(crate) fn chance() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

/// The wait that a service names, in seconds or milliseconds; dates are not read.
fn wait_named(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds =
        number("retry-after-ms").map(|ms| ms / 1e3).or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{
        scripted::{Scripted, reply, reply_with},
        *,
    };

    /// Limits that make tests short.
    pub(crate) fn quick() -> Limits {
        Limits {
            attempt: Duration::from_millis(500),
            attempts: 3,
            first_wait: Duration::from_millis(1),
            longest_wait: Duration::from_secs(1),
            reply_bytes: 1_000,
            ..Limits::default()
        }
    }

    fn ask(script: Vec<Vec<u8>>) -> (Result<Vec<u8>, RemoteError>, usize) {
        let server = Scripted::new(script);
        let account = Account { base_url: server.url(), key: Some("sk-secret".to_owned()) };
        let service = Service::new(&account, quick()).unwrap();
        let reply = service.post_all("/x", vec![b"{}".to_vec()]).remove(0);
        (reply, server.requests().len())
    }

    #[test]
    fn what_may_pass_is_repeated_and_what_is_final_is_not() {
        let ok = || reply(200, "fine");
        assert_eq!(ask(vec![ok()]), (Ok(b"fine".to_vec()), 1));
        for status in [408, 409, 429, 500, 502, 503] {
            let script = vec![reply(status, "busy"), reply(status, "busy"), ok()];
            assert_eq!(ask(script), (Ok(b"fine".to_vec()), 3), "{status}");
        }
        let (failed, asked) = ask(vec![reply(503, "busy"), reply(429, "x"), reply(500, "down")]);
        let RemoteError::Failed { attempts, message, .. } = failed.unwrap_err() else { panic!() };
        assert_eq!((attempts, message.as_str(), asked), (3, "status 500: down", 3));

        let body = r#"{"error":{"message":"bad key sk-secret\n","type":"x","code":null}}"#;
        for status in [401, 403] {
            let (failed, asked) = ask(vec![reply(status, body)]);
            let RemoteError::Key { message, .. } = failed.unwrap_err() else { panic!() };
            assert_eq!((message.as_str(), asked), ("bad key ... ", 1));
        }
        let body = r#"{"error":{"message":"pay","code":"insufficient_quota"}}"#;
        let (failed, asked) = ask(vec![reply(429, body)]);
        assert!(
            matches!(failed.unwrap_err(), RemoteError::Quota { message, .. } if message == "pay")
        );
        assert_eq!(asked, 1);
        let (failed, asked) = ask(vec![reply(400, "what?")]);
        assert!(matches!(failed.unwrap_err(), RemoteError::Refused { status: 400, .. }));
        assert_eq!(asked, 1);
        // A redirect could carry the key elsewhere.
        let (failed, _) = ask(vec![reply_with(307, &["location: http://127.0.0.1:9/"], "")]);
        assert!(matches!(failed.unwrap_err(), RemoteError::Refused { status: 307, .. }));
    }

    #[test]
    fn a_hanging_breaking_or_endless_reply_ends() {
        // Nothing is sent; half a reply is sent; then all of it.
        let broken = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec();
        assert_eq!(ask(vec![Vec::new(), broken, reply(200, "whole")]).0, Ok(b"whole".to_vec()));
        let (failed, asked) = ask(vec![reply(200, &"x".repeat(1_001))]);
        assert!(matches!(failed.unwrap_err(), RemoteError::TooLong { limit: 1_000, .. }));
        assert_eq!(asked, 1);
        assert_eq!(ask(vec![reply(200, &"x".repeat(1_000))]).0.unwrap().len(), 1_000);
    }

    #[test]
    fn the_wait_that_the_service_names_is_kept_unless_too_long() {
        let began = Instant::now();
        let named = |wait: &str| reply_with(429, &[wait], "slow down");
        assert!(ask(vec![named("retry-after-ms: 300"), reply(200, "fine")]).0.is_ok());
        assert!(began.elapsed() >= Duration::from_millis(300));
        let (failed, asked) = ask(vec![named("retry-after: 86400"), reply(200, "fine")]);
        assert!(failed.unwrap_err().to_string().contains("wait 86400 s"));
        assert_eq!(asked, 1);
    }

    #[test]
    fn replies_come_in_the_order_of_the_bodies() {
        let server = Scripted::echo();
        let account = Account { base_url: server.url(), key: None };
        let service = Service::new(&account, quick()).unwrap();
        let bodies: Vec<Vec<u8>> = (0..20).map(|n| vec![b'a' + n; 3]).collect();
        let replies = service.post_all("/x", bodies.clone());
        assert_eq!(replies.into_iter().map(Result::unwrap).collect::<Vec<_>>(), bodies);
    }

    #[test]
    fn a_wrong_account_is_told_without_its_key() {
        for base_url in ["", "nonsense", "file:///etc"] {
            let account = Account { base_url: base_url.to_owned(), key: None };
            assert!(matches!(Service::new(&account, quick()), Err(RemoteError::Setup(_))));
        }
        let account =
            Account { base_url: "http://127.0.0.1".to_owned(), key: Some("sk-\n1".to_owned()) };
        let Err(error) = Service::new(&account, quick()) else { panic!() };
        assert!(!format!("{error:?} {account:?}").contains("sk-"), "{error:?} {account:?}");
    }
}
