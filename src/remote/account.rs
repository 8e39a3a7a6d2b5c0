//! Where a service is, and what opens it. Must not know how it is asked.

use std::fmt;

use reqwest::{
    Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

use crate::remote::RemoteError;

/// Further headers, and further query parameters, of an account at most.
const MAX_EXTRAS: usize = 64;

/// Where a service is, and what opens it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Address that paths are appended to, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// Key, if one is needed.
    pub key: Option<String>,
    /// Header that holds the key as it is; without one it goes into `Authorization: Bearer`.
    pub key_header: Option<String>,
    /// Further headers, such as `OpenAI-Organization`; their values are never shown.
    pub headers: Vec<(String, String)>,
    /// Parameters of every address, such as `api-version`.
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
    /// Its address without parameters, for people.
    ///
    /// # Errors
    /// [`RemoteError::Setup`] for an address that is none, or holds a password.
    pub fn place(&self) -> Result<String, RemoteError> {
        let (url, _) = self.address()?;
        Ok(url.origin().ascii_serialization() + url.path())
    }

    /// Its address with all parameters, and the name of its host.
    ///
    /// # Errors
    /// [`RemoteError::Setup`] for an address that is none, or holds a password.
    pub(super) fn address(&self) -> Result<(Url, String), RemoteError> {
        let setup = |reason: &str| RemoteError::Setup(reason.to_owned());
        let mut url: Url = self.base_url.parse().map_err(|error| {
            RemoteError::Setup(format!("its address is not one such as https://host/v1 ({error})"))
        })?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(setup("its address is not one of http or https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(setup("its address holds a user or a password; give a key instead"));
        }
        let host = url.host_str().map(str::to_owned);
        let host = host.ok_or_else(|| setup("its address is not one of http or https"))?;
        if self.query.len() > MAX_EXTRAS {
            return Err(setup("it has more than 64 parameters of the address"));
        }
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        Ok((url, host))
    }

    /// The headers of every request. All values but that of the content's type are marked as
    /// secret, so that no log shows them.
    ///
    /// # Errors
    /// [`RemoteError::Setup`] for a name or a value that no header can have; it shows no value.
    pub(super) fn header_map(&self) -> Result<HeaderMap, RemoteError> {
        if self.headers.len() > MAX_EXTRAS {
            return Err(RemoteError::Setup("it has more than 64 headers".to_owned()));
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            let what = format!("the header {name:?} holds characters that no header has");
            headers.insert(header_name(name)?, secret(value, &what)?);
        }
        if let Some(key) = &self.key {
            let what = "its key holds characters that no key has";
            match &self.key_header {
                Some(name) => headers.insert(header_name(name)?, secret(key, what)?),
                None => headers.insert(AUTHORIZATION, secret(&format!("Bearer {key}"), what)?),
            };
        }
        Ok(headers)
    }
}

/// The address of a path below a base.
pub(super) fn join(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let whole = format!("{}{path}", base.path().trim_end_matches('/'));
    url.set_path(&whole);
    url
}

fn header_name(name: &str) -> Result<HeaderName, RemoteError> {
    let wrong = |_| RemoteError::Setup(format!("{name:?} is no name of a header"));
    HeaderName::from_bytes(name.as_bytes()).map_err(wrong)
}

fn secret(value: &str, what: &str) -> Result<HeaderValue, RemoteError> {
    let mut value =
        HeaderValue::from_str(value).map_err(|_| RemoteError::Setup(what.to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}
