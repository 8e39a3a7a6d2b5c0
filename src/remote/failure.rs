//! Classifies error replies of a service as transient, with the delay that the service asks for, or
//! as final. Does not depend on the request.
//!
//! Sources: RFC 9110 (status codes, `Retry-After`), and the documented error codes of services
//! with an interface like OpenAI's.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::{Account, RemoteError, attempt::AttemptError, retry::is_transient};

/// Maximum length in characters of a service's message in error messages.
const MAX_MESSAGE_CHARS: usize = 300;
/// Minimum length in bytes of a secret. Shorter header values may be ordinary text, so they stay in
/// replies.
const MIN_SECRET_BYTES: usize = 8;
/// Error codes that services use for accounts without quota or credit.
const QUOTA_CODES: [&str; 12] = [
    "insufficient_quota",
    "insufficient_user_quota",
    "insufficient_balance",
    "insufficient_credits",
    "insufficient_funds",
    "exceeded_current_quota_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "credit_limit",
    "credits_exhausted",
    "payment_required",
    "arrearage",
];
/// Phrases in messages about accounts without quota or credit, in lower case.
const QUOTA_WORDS: [&str; 13] = [
    "exceeded your current quota",
    "credit balance is too low",
    "insufficient balance",
    "insufficient credit",
    "insufficient funds",
    "insufficient quota",
    "out of credit",
    "no credits",
    "used all available credits",
    "billing hard limit",
    "spending limit",
    "exceeded your monthly",
    "account is not active",
];
/// Phrases in messages about temporary limits, in lower case.
const PASSING_WORDS: [&str; 4] = ["per minute", "per second", "try again in", "retry in"];
/// Phrases in messages about requests that are too long, in lower case.
const LONG_WORDS: [&str; 8] = [
    "context length",
    "context_length",
    "context window",
    "context size",
    "too long",
    "too many tokens",
    "maximum input",
    "input length",
];

/// Secrets of an account, to be replaced by `...` in texts.
pub(super) struct AccountSecrets(Vec<String>);

impl AccountSecrets {
    /// Collects the secrets of an account: its key, and the values of headers with at least
    /// [`MIN_SECRET_BYTES`].
    pub(super) fn new(account: &Account) -> AccountSecrets {
        let key = account.key.iter().filter(|key| !key.is_empty()).cloned();
        let values = account.headers.iter().map(|(_, value)| value);
        let values = values.filter(|value| value.len() >= MIN_SECRET_BYTES).cloned();
        AccountSecrets(key.chain(values).collect())
    }

    /// Replaces secrets of at least [`MIN_SECRET_BYTES`] in a text by `...`.
    pub(super) fn without_secrets(&self, text: String) -> String {
        let long = self.0.iter().filter(|secret| secret.len() >= MIN_SECRET_BYTES);
        long.fold(text, |text, secret| match text.contains(secret.as_str()) {
            true => text.replace(secret.as_str(), "..."),
            false => text,
        })
    }

    /// Returns a message on one line of at most [`MAX_MESSAGE_CHARS`] characters, with secrets
    /// replaced by `...`.
    pub(super) fn shown(&self, message: &str) -> String {
        let replaced = |text: String, secret: &String| text.replace(secret, "...");
        let message = self.0.iter().fold(message.to_owned(), replaced);
        let one_line = message.chars().map(|c| if c.is_control() { ' ' } else { c });
        one_line.take(MAX_MESSAGE_CHARS).collect()
    }
}

/// Converts an error reply with this status and body to the error of the attempt.
pub(super) fn classify(
    host: &str,
    secrets: &AccountSecrets,
    status: u16,
    retry_after: Option<Duration>,
    bytes: &[u8],
) -> AttemptError {
    let json: Value = serde_json::from_slice(bytes).unwrap_or_default();
    // Some services put the error into a list.
    let body = json.get(0).unwrap_or(&json);
    let message = secrets.shown(&text(body, bytes));
    let host = host.to_owned();
    match status {
        402 => AttemptError::Final(RemoteError::Quota { host, message }),
        _ if is_quota(status, body, &message, retry_after) => {
            AttemptError::Final(RemoteError::Quota { host, message })
        }
        401 | 403 => AttemptError::Final(RemoteError::Key { host, status, message }),
        _ if is_transient(status) => {
            AttemptError::Transient { message: format!("status {status}: {message}"), retry_after }
        }
        _ => AttemptError::Final(RemoteError::Refused { host, status, message }),
    }
}

/// Returns the error message in a reply, from its JSON `body` or else from its bytes.
fn text(body: &Value, bytes: &[u8]) -> String {
    let error = &body["error"];
    let places = [&error["message"], error, &body["message"], &body["detail"]];
    if let Some(text) = places.iter().find_map(|value| value.as_str()) {
        return text.to_owned();
    }
    let text = String::from_utf8_lossy(bytes);
    match text.trim() {
        "" => "no message".to_owned(),
        page if page.starts_with('<') => "a web page instead of a message".to_owned(),
        text => text.to_owned(),
    }
}

fn is_quota(status: u16, body: &Value, message: &str, retry_after: Option<Duration>) -> bool {
    let error = &body["error"];
    let codes = [&error["code"], &error["type"], &body["code"], &body["type"]];
    let is_code = |value: &&Value| {
        let code = value.as_str().unwrap_or_default();
        QUOTA_CODES.iter().any(|known| code.eq_ignore_ascii_case(known))
    };
    let message = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
    let may_be_worded = [400, 403, 429].contains(&status);
    codes.iter().any(is_code)
        || may_be_worded && says(&QUOTA_WORDS) && retry_after.is_none() && !says(&PASSING_WORDS)
}

/// Whether a reply with this status and message says that the request is too long.
pub(super) fn is_too_long(status: u16, message: &str) -> bool {
    let message = message.to_lowercase();
    let says = LONG_WORDS.iter().any(|words| message.contains(words));
    status == 413 || [400, 422].contains(&status) && says
}

/// Returns advice to append to the message about a refused request; empty if there is none.
pub(super) fn remedy(status: &u16, message: &str) -> &'static str {
    match *status {
        _ if is_too_long(*status, message) => {
            "; the request is too long: send less, ask for fewer tokens, or use a model with a \
             longer context"
        }
        404 => "; check the name of the model and the base address",
        300..=399 => "; redirects are not followed: set the address that the redirect leads to",
        _ => "",
    }
}

/// Returns advice for a rejected key.
pub(super) fn key_remedy(status: &u16) -> &'static str {
    match *status {
        403 => "the key may not be allowed to use this model, or not from this region",
        _ => "check the key in the environment",
    }
}

/// Returns the delay that a service asks for in its headers (`retry-after-ms`, or `Retry-After` in
/// seconds or as a date); `None` without a valid one. A negative delay or a past date gives zero,
/// an overflow [`Duration::MAX`].
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim().to_owned());
    let number = |name: &str| text(name)?.parse::<f64>().ok().filter(|number| !number.is_nan());
    let seconds =
        |seconds: f64| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    if let Some(ms) = number("retry-after-ms") {
        return Some(seconds(ms / 1e3));
    }
    if let Some(wait) = number(RETRY_AFTER.as_str()) {
        return Some(seconds(wait));
    }
    let date = |name: &str| httpdate::parse_http_date(&text(name)?).ok();
    let until = date(RETRY_AFTER.as_str())?;
    // The service's own clock is used if it sends one.
    let now = date(DATE.as_str()).unwrap_or_else(now);
    Some(until.duration_since(now).unwrap_or_default())
}

#[expect(clippy::disallowed_methods, reason = "a date can only be compared with the clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn wait_of(headers: &[(&str, &str)]) -> Option<Duration> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.insert(name, HeaderValue::from_str(value).unwrap());
        }
        retry_after(&map)
    }

    #[test]
    fn l1_waits_are_read_in_every_form() {
        let ms = Duration::from_millis;
        for (headers, expected) in [
            (&[("retry-after", "2")][..], Some(ms(2_000))),
            (&[("retry-after", " 0.25 ")], Some(ms(250))),
            (&[("retry-after-ms", "1500"), ("retry-after", "9")], Some(ms(1_500))),
            (&[("retry-after", "-5")], Some(ms(0))),
            (&[("retry-after", "31536000")], Some(Duration::from_secs(31_536_000))),
            (&[("retry-after", "1e300")], Some(Duration::MAX)),
            (&[("retry-after", "inf")], Some(Duration::MAX)),
            (&[("retry-after", "NaN")], None),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "")], None),
            (&[], None),
            (&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], Some(ms(0))),
            (
                &[
                    ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
                    ("date", "Sun, 06 Nov 1994 08:49:07 GMT"),
                ],
                Some(ms(30_000)),
            ),
        ] {
            assert_eq!(wait_of(headers), expected, "{headers:?}");
        }
        let in_an_hour = httpdate::fmt_http_date(now() + Duration::from_secs(3_600));
        let wait = wait_of(&[("retry-after", &in_an_hour)]).unwrap();
        assert!((3_500..=3_600).contains(&wait.as_secs()), "{wait:?}");
    }

    fn kind(status: u16, body: &str) -> &'static str {
        let secrets = AccountSecrets::new(&Account::default());
        match classify("h", &secrets, status, None, body.as_bytes()) {
            AttemptError::Transient { .. } | AttemptError::Absent(_) => "again",
            AttemptError::Final(RemoteError::Quota { .. }) => "quota",
            AttemptError::Final(RemoteError::Key { .. }) => "key",
            AttemptError::Final(error) if error.is_too_long() => "long",
            AttemptError::Final(RemoteError::Refused { .. }) => "refused",
            AttemptError::Final(_) => "other",
        }
    }

    #[test]
    fn l2_spent_accounts_are_told_from_limits_that_pass() {
        for (status, body, expected) in [
            (429, r#"{"error":{"message":"x","code":"insufficient_quota"}}"#, "quota"),
            (429, r#"{"error":{"message":"x","type":"insufficient_quota","code":null}}"#, "quota"),
            (429, r#"{"error":{"message":"x","type":"exceeded_current_quota_error"}}"#, "quota"),
            (429, r#"{"error":{"message":"You exceeded your current quota, please"}}"#, "quota"),
            (400, r#"{"error":{"message":"Your credit balance is too low to access"}}"#, "quota"),
            (400, r#"{"code":"Arrearage","message":"Access denied"}"#, "quota"),
            (402, r#"{"error":{"message":"Insufficient credits","code":402}}"#, "quota"),
            (402, "", "quota"),
            (403, r#"{"error":"Your team has used all available credits"}"#, "quota"),
            (429, r#"[{"error":{"message":"exceeded your current quota"}}]"#, "quota"),
            (
                429,
                r#"{"error":{"message":"quota of requests per minute: insufficient quota"}}"#,
                "again",
            ),
            (429, r#"{"error":{"message":"Rate limit reached. Try again in 2s"}}"#, "again"),
            (429, "<html>", "again"),
            (529, r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#, "again"),
            (401, "{}", "key"),
            (403, r#"{"error":{"message":"Country not supported"}}"#, "key"),
            (404, r#"{"error":{"message":"no such model","code":"model_not_found"}}"#, "refused"),
            (400, r#"{"error":{"message":"maximum context length is 8 tokens"}}"#, "long"),
            (413, "", "long"),
            (400, r#"{"error":{"message":"what?"}}"#, "refused"),
            (307, "", "refused"),
        ] {
            assert_eq!(kind(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn l9_messages_are_short_and_hold_no_secret() {
        let account = Account {
            key: Some("sk-1".to_owned()),
            headers: vec![
                ("a".to_owned(), "org-secret".to_owned()),
                ("b".to_owned(), "no".to_owned()),
            ],
            ..Account::default()
        };
        let secrets = AccountSecrets::new(&account);
        assert_eq!(secrets.shown("sk-1 of\norg-secret\u{1b}[2J no"), "... of ... [2J no");
        assert_eq!(secrets.shown(&"é".repeat(1_000)).chars().count(), MAX_MESSAGE_CHARS);
    }
}
