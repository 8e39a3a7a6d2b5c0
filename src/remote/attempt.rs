//! One attempt of a request: sends it and reads the reply, each step with its own time limit.

use std::{error::Error, fmt::Write, future::Future, io, iter, time::Duration};

use reqwest::{
    Response, Url,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap},
};
use tokio::time::{Instant, timeout_at};

use crate::{RemoteError, account, failure, innermost, requester::Requester};

/// Number of bytes after which reading an error reply stops.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Why an attempt failed.
pub(super) enum AttemptError {
    /// Another attempt may succeed.
    Transient {
        /// What went wrong.
        message: String,
        /// Delay that the service asks for before another attempt, if any.
        retry_after: Option<Duration>,
    },
    /// Nothing listens at the address, which is on this machine; holds the message. Another attempt
    /// may succeed if the service is just starting.
    Absent(String),
    /// Another attempt would fail as well.
    Final(RemoteError),
}

impl AttemptError {
    /// Returns a short name of the error for logs, such as `quota`, without content of the request.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Transient { .. } => "again",
            Self::Absent(_) => "absent",
            Self::Final(RemoteError::Key { .. }) => "key",
            Self::Final(RemoteError::Quota { .. }) => "quota",
            Self::Final(RemoteError::TooLong { .. }) => "too_long",
            Self::Final(RemoteError::Unreadable { .. }) => "unreadable",
            Self::Final(_) => "refused",
        }
    }

    fn transient(message: impl Into<String>) -> AttemptError {
        AttemptError::Transient { message: message.into(), retry_after: None }
    }
}

/// Start and deadline of one attempt.
#[derive(Clone, Copy)]
struct Period {
    start: Instant,
    end: Instant,
}

/// Returns the I/O errors among the causes of an error.
fn io_causes(error: &reqwest::Error) -> impl Iterator<Item = &io::Error> {
    let causes = iter::successors(error.source(), |&cause| cause.source());
    causes.filter_map(|cause| cause.downcast_ref())
}

/// Whether the connection was refused because nothing listens at the address.
fn is_refused(error: &reqwest::Error) -> bool {
    io_causes(error).any(|cause| cause.kind() == io::ErrorKind::ConnectionRefused)
}

/// Returns the TLS error that an I/O error wraps.
fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    let wrapped = error.get_ref()?;
    wrapped.downcast_ref().or_else(|| tls_error(wrapped.downcast_ref()?))
}

/// Returns why no encrypted connection is possible; `None` if another attempt may succeed.
fn tls_failure(error: &reqwest::Error) -> Option<String> {
    io_causes(error).filter_map(tls_error).find_map(|cause| match cause {
        rustls::Error::InvalidMessage(_) => {
            Some("it replies without encryption; begin its address with http://".to_owned())
        }
        rustls::Error::InvalidCertificate(why) => {
            Some(format!("its certificate is not accepted ({why})"))
        }
        _ => None,
    })
}

impl Requester {
    /// Sends the request once and returns the bytes of the reply. Fails at the deadline of the
    /// attempt or at `deadline` of the request, whichever is earlier.
    pub(super) async fn attempt(
        &self,
        url: &Url,
        body: &[u8],
        deadline: Instant,
    ) -> Result<Vec<u8>, AttemptError> {
        let limits = &self.limits;
        let begin = Instant::now();
        let time = Period { start: begin, end: deadline.min(begin + limits.attempt) };
        let first_byte = time.end.min(begin + limits.first_byte);
        let request =
            self.client.post(url.clone()).headers(self.headers.clone()).body(body.to_vec());
        let late = || format!("no reply within {}", seconds(first_byte - begin));
        let sent = before(first_byte, request.send(), late).await?;
        let reply = sent.map_err(|error| self.connection_error(&error))?;
        if reply.status().is_success() {
            self.check_form(reply.headers())?;
            return self.read(reply, time).await;
        }
        let status = reply.status().as_u16();
        let retry_after = failure::retry_after(reply.headers());
        let bytes = self.read_error(reply, time).await;
        Err(failure::classify(&self.authority, &self.secrets, status, retry_after, &bytes))
    }

    /// Reads the whole reply; a reply that is too long is an error.
    async fn read(&self, mut reply: Response, time: Period) -> Result<Vec<u8>, AttemptError> {
        let limit = self.limits.reply_bytes;
        let too_long =
            || AttemptError::Final(RemoteError::TooLong { host: self.authority.clone(), limit });
        let length = reply.content_length().unwrap_or_default();
        if length > limit as u64 {
            return Err(too_long());
        }
        // Does not fail: the length is at most `limit`, a `usize`.
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        while self.read_more(&mut reply, time, &mut bytes).await? {
            if bytes.len() > limit {
                return Err(too_long());
            }
        }
        Ok(bytes)
    }

    /// Returns the first bytes of an error reply, as far as they arrive in time.
    async fn read_error(&self, mut reply: Response, time: Period) -> Vec<u8> {
        let mut bytes = Vec::new();
        while matches!(self.read_more(&mut reply, time, &mut bytes).await, Ok(true)) {
            if bytes.len() > MAX_ERROR_BYTES {
                break;
            }
        }
        bytes
    }

    /// Reads the next piece of a reply, of some kilobytes, and appends it to `bytes`. Returns false
    /// if the reply has ended.
    async fn read_more(
        &self,
        reply: &mut Response,
        time: Period,
        bytes: &mut Vec<u8>,
    ) -> Result<bool, AttemptError> {
        let idle = Instant::now() + self.limits.idle;
        let late = || {
            if idle < time.end {
                format!("the reply stalled for {}", seconds(self.limits.idle))
            } else {
                format!("the reply was incomplete after {}", seconds(time.end - time.start))
            }
        };
        let chunk = before(time.end.min(idle), reply.chunk(), late).await?;
        let chunk = chunk.map_err(|error| self.connection_error(&error))?;
        if let Some(chunk) = &chunk {
            bytes.extend_from_slice(chunk);
        }
        Ok(chunk.is_some())
    }

    /// Returns the error of an attempt whose connection failed.
    fn connection_error(&self, error: &reqwest::Error) -> AttemptError {
        if let Some(why) = tls_failure(error) {
            return AttemptError::Final(RemoteError::Setup(why));
        }
        let mut message = match (error.is_connect(), error.is_timeout()) {
            (true, true) => {
                let wait = seconds(self.limits.connect);
                return AttemptError::transient(format!("no connection within {wait}"));
            }
            (true, false) => "no connection".to_owned(),
            (false, _) => "the connection was lost".to_owned(),
        };
        // Only the innermost cause is shown, because the outermost error contains the address.
        if error.source().is_some() {
            // Writing to a string cannot fail.
            let _ = write!(message, " ({})", self.secrets.shown(&innermost(error)));
        }
        if account::is_local(&self.base) && is_refused(error) {
            message += "; start the service, or set another address";
            return AttemptError::Absent(message);
        }
        AttemptError::transient(message)
    }

    /// Refuses a reply in a form that was not requested: compressed, not UTF-8, or a web page.
    fn check_form(&self, headers: &HeaderMap) -> Result<(), AttemptError> {
        let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let unreadable = |reason: String| {
            let reason = self.secrets.shown(&reason);
            Err(AttemptError::Final(RemoteError::Unreadable {
                host: self.authority.clone(),
                reason,
            }))
        };
        if let Some(encoding) = text(CONTENT_ENCODING)
            && !encoding.trim().eq_ignore_ascii_case("identity")
        {
            return unreadable(format!("its content encoding {encoding:?} was not requested"));
        }
        let Some(kind) = text(CONTENT_TYPE).map(|kind| kind.to_ascii_lowercase()) else {
            return Ok(());
        };
        if kind.trim_start().starts_with("text/html") {
            let reason = "it is a web page; check the base address and any proxy";
            return unreadable(reason.to_owned());
        }
        let charset = kind.split(';').find_map(|part| part.trim().strip_prefix("charset="));
        match charset.map(|charset| charset.trim_matches('"')) {
            None | Some("utf-8" | "utf8" | "us-ascii") => Ok(()),
            Some(other) => unreadable(format!("its text is in {other:?}, not in UTF-8")),
        }
    }
}

/// Awaits a future until the deadline; then fails with the message that `late` returns.
async fn before<T>(
    deadline: Instant,
    future: impl Future<Output = T>,
    late: impl Fn() -> String,
) -> Result<T, AttemptError> {
    timeout_at(deadline, future).await.map_err(|_| AttemptError::transient(late()))
}

/// Formats a duration for messages, in seconds with one decimal.
fn seconds(time: Duration) -> String {
    format!("{} s", (time.as_secs_f64() * 10.0).round() / 10.0)
}
