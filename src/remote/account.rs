//! Address and credentials of a service.

use std::{fmt, net::IpAddr};

use reqwest::{
    Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

use crate::RemoteError;

/// Headers that the HTTP client sets itself; other values would break the request.
const FRAMING: [&str; 4] = ["connection", "content-length", "host", "transfer-encoding"];
/// Maximum size in bytes of [`Account::base_url`].
const MAX_ADDRESS: usize = 2_000;
/// Maximum number of headers in [`Account::headers`], and of parameters in [`Account::query`].
const MAX_EXTRAS: usize = 64;

/// Address and credentials of a service.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Base address, to which the paths of requests are appended, such as
    /// `https://api.openai.com/v1`.
    pub base_url: String,
    /// Secret key, if the service needs one.
    pub key: Option<String>,
    /// Name of the header that holds the key unchanged; without it the key is sent as
    /// `Authorization: Bearer KEY`.
    pub key_header: Option<String>,
    /// Names and values of further headers, such as `OpenAI-Organization`; the values are never
    /// shown.
    pub headers: Vec<(String, String)>,
    /// Names and values of query parameters added to every address, such as `api-version`.
    pub query: Vec<(String, String)>,
}

/// Never shows the key, the values of headers, or a password in the address.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| -> Vec<String> {
            pairs.iter().map(|(name, _)| name.clone()).collect()
        };
        let base_url = self.place().unwrap_or_else(|_| "(wrong)".to_owned());
        f.debug_struct("Account")
            .field("base_url", &base_url)
            .field("key", &self.key.as_ref().map(|_| "..."))
            .field("key_header", &self.key_header)
            .field("headers", &names(&self.headers))
            .field("query", &names(&self.query))
            .finish()
    }
}

impl Account {
    /// Returns the base address without query parameters, for messages.
    ///
    /// # Errors
    /// [`RemoteError::Setup`] if the address is invalid or contains a user or password.
    pub fn place(&self) -> Result<String, RemoteError> {
        let (url, _) = self.address()?;
        Ok(url.origin().ascii_serialization() + url.path())
    }

    /// Returns the base address with all query parameters, and the name of its host, without port.
    ///
    /// # Errors
    /// [`RemoteError::Setup`] if the address is invalid or contains a user or password, or there
    /// are too many query parameters.
    pub(super) fn address(&self) -> Result<(Url, String), RemoteError> {
        let setup = |reason: &str| RemoteError::Setup(reason.to_owned());
        if self.base_url.len() > MAX_ADDRESS {
            return Err(setup("its address has more than 2000 bytes"));
        }
        let mut url: Url = self.base_url.parse().map_err(|error| {
            RemoteError::Setup(format!(
                "its address is not a URL such as https://host/v1 ({error})"
            ))
        })?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(setup("its address does not begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(setup("its address contains a user name or password; give a key instead"));
        }
        let host = url.host_str().map(str::to_owned);
        let host =
            host.ok_or_else(|| setup("its address does not begin with http:// or https://"))?;
        if self.query.len() > MAX_EXTRAS {
            return Err(setup("it has more than 64 query parameters"));
        }
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        Ok((url, host))
    }

    /// Returns the headers of every request. All values but that of the content type are marked as
    /// secret, so that no log shows them.
    ///
    /// # Errors
    /// [`RemoteError::Setup`] if the name or value of a header is invalid, or there are too many;
    /// the message shows no value.
    pub(super) fn header_map(&self) -> Result<HeaderMap, RemoteError> {
        if self.headers.len() > MAX_EXTRAS {
            return Err(RemoteError::Setup("it has more than 64 headers".to_owned()));
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            if FRAMING.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                let message =
                    format!("the header {name:?} is set for each request and cannot be configured");
                return Err(RemoteError::Setup(message));
            }
            let message = format!("the header {name:?} holds invalid characters");
            headers.insert(header_name(name)?, secret(value, &message)?);
        }
        if let Some(key) = &self.key {
            let message = "its key holds invalid characters";
            match &self.key_header {
                Some(name) => headers.insert(header_name(name)?, secret(key, message)?),
                None => headers.insert(AUTHORIZATION, secret(&format!("Bearer {key}"), message)?),
            };
        }
        Ok(headers)
    }
}

/// Returns the host of an address, with the port unless it is the default port of the scheme.
pub(super) fn host_and_port(url: &Url, host: &str) -> String {
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Appends a path to the path of a base address; query parameters are kept.
pub(super) fn join(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let whole = format!("{}{path}", base.path().trim_end_matches('/'));
    url.set_path(&whole);
    url
}

/// Whether an address leads to this machine: a loopback or unspecified IP address, `localhost`, or
/// a subdomain of `localhost` (RFC 6761).
pub(super) fn is_local(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        let address = address.to_canonical();
        return address.is_loopback() || address.is_unspecified();
    }
    let name = host.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}

fn header_name(name: &str) -> Result<HeaderName, RemoteError> {
    let wrong = |_| RemoteError::Setup(format!("{name:?} is not the name of a header"));
    HeaderName::from_bytes(name.as_bytes()).map_err(wrong)
}

fn secret(value: &str, message: &str) -> Result<HeaderValue, RemoteError> {
    let mut value =
        HeaderValue::from_str(value).map_err(|_| RemoteError::Setup(message.to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_known() {
        let is_local = |address: &str| is_local(&address.parse().unwrap());
        for address in ["http://localhost:1/v1", "http://127.0.0.2", "http://[::1]:8080/"] {
            assert!(is_local(address), "{address}");
        }
        for address in ["http://localhost.example.com", "http://10.0.0.1", "https://x.invalid"] {
            assert!(!is_local(address), "{address}");
        }
    }

    #[test]
    fn paths_are_appended_and_parameters_kept() {
        let account = Account {
            base_url: "https://h.invalid/a/?x=1".to_owned(),
            query: vec![("v".to_owned(), "2 3".to_owned())],
            ..Account::default()
        };
        let (base, host) = account.address().unwrap();
        assert_eq!(host, "h.invalid");
        assert_eq!(host_and_port(&base, &host), "h.invalid");
        assert_eq!(join(&base, "/b/c").as_str(), "https://h.invalid/a/b/c?x=1&v=2+3");
        assert_eq!(account.place().unwrap(), "https://h.invalid/a/");
    }
}
