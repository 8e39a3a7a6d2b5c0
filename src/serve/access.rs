//! Access control: API keys with scopes, and the host names that a server answers to. Only digests
//! of keys are stored. Does not depend on what requests do.

use std::{
    collections::BTreeMap,
    fs, io,
    net::Ipv6Addr,
    path::{Path, PathBuf},
};

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, Version, header},
};
use rand::{TryRng as _, rngs::SysRng};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use crate::Client;
use agent_dataset::{MAX_NAME_CHARS, is_name};
use agent_ground::files;

/// Number of random bytes in a key.
const KEY_BYTES: usize = 24;
/// Prefix of every key, so that people and secret scanners recognize keys.
const PREFIX: &str = "agent-";
/// Maximum size of a key file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Which requests a key permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Questions and other requests that only read.
    Read,
    /// All requests, including requests that replace bases and bundles or run programs and
    /// operations.
    Admin,
}

/// The keys of a home directory. Holds the name, scope and digest of each key, never the key
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Keys {
    /// The stored keys, by name.
    #[serde(default)]
    pub keys: BTreeMap<String, StoredKey>,
}

/// Stored form of a key, without the key itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredKey {
    /// Which requests the key permits.
    pub scope: Scope,
    /// BLAKE3 hash of the key in hexadecimal. No salt is needed, since keys are random.
    digest: String,
}

/// Why keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key file or its lock file cannot be read or written.
    #[error("cannot use {path}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Why the file cannot be used.
        source: io::Error,
    },
    /// The file is not a key file.
    #[error("{path} is not a key file: {source}; remove it and create keys again")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Why the content is invalid.
        source: serde_json::Error,
    },
    /// The name has invalid characters or is too long; holds its beginning.
    #[error(
        "{0:?} is not a valid key name; use 1 to {MAX_NAME_CHARS} of a-z, 0-9, - and _, a letter or digit first"
    )]
    BadName(String),
    /// A key with this name already exists.
    #[error("key {0:?} already exists; remove it first, or choose another name")]
    Exists(String),
    /// No key has this name.
    #[error("no key is named {0:?}; `agent key list` lists all keys")]
    Unknown(String),
    /// The operating system provides no random numbers.
    #[error("the operating system provides no random numbers, so no key can be created")]
    Random,
}

impl Keys {
    /// Returns the path of the key file in a home directory.
    pub fn file(home: &Path) -> PathBuf {
        home.join("serve-keys.json")
    }

    /// Reads a key file; a missing file holds no keys.
    ///
    /// # Errors
    /// [`KeyError::Io`], [`KeyError::Damaged`].
    pub fn read(path: &Path) -> Result<Keys, KeyError> {
        match files::read(path, MAX_FILE_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Keys::default()),
            Err(source) => Err(KeyError::Io { path: path.to_owned(), source }),
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| KeyError::Damaged { path: path.to_owned(), source }),
        }
    }

    /// Reads the keys in a file, lets `change` change them, and writes them back, all under an
    /// exclusive lock. Returns the result of `change`.
    ///
    /// # Errors
    /// The error of `change`, or [`KeyError::Io`] or [`KeyError::Damaged`]. The file then stays as
    /// it was.
    pub fn change<T>(
        path: &Path,
        change: impl FnOnce(&mut Keys) -> Result<T, KeyError>,
    ) -> Result<T, KeyError> {
        let lock = path.with_extension("lock");
        let failed = |source: io::Error| KeyError::Io { path: lock.clone(), source };
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        let file = files::open_to_lock(&lock).map_err(failed)?;
        // Released when the file is dropped.
        file.lock().map_err(failed)?;
        let mut keys = Keys::read(path)?;
        let changed = change(&mut keys)?;
        keys.write(path)?;
        Ok(changed)
    }

    /// Writes the keys to a file in an existing directory, atomically; only its owner can read the
    /// file.
    ///
    /// # Errors
    /// [`KeyError::Io`].
    fn write(&self, path: &Path) -> Result<(), KeyError> {
        let failed = |source: io::Error| KeyError::Io { path: path.to_owned(), source };
        let dir = path.parent().unwrap_or(Path::new("."));
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other).map_err(failed)?;
        // Temporary files are readable only by their owner.
        let mut file = tempfile::NamedTempFile::new_in(dir).map_err(failed)?;
        io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Creates a key with this name and returns the key. The key cannot be read again, since only
    /// its digest is stored.
    ///
    /// # Errors
    /// [`KeyError::BadName`] if the name does not follow the rules for names of datasets;
    /// [`KeyError::Exists`] if a key has this name; [`KeyError::Random`].
    pub fn add(&mut self, name: &str, scope: Scope) -> Result<String, KeyError> {
        if !is_name(name) {
            return Err(KeyError::BadName(name.chars().take(2 * MAX_NAME_CHARS).collect()));
        }
        if self.keys.contains_key(name) {
            return Err(KeyError::Exists(name.to_owned()));
        }
        let mut bytes = [0; KEY_BYTES];
        SysRng.try_fill_bytes(&mut bytes).map_err(|_| KeyError::Random)?;
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let key = format!("{PREFIX}{digits}");
        let digest = blake3::hash(key.as_bytes()).to_hex().to_string();
        self.keys.insert(name.to_owned(), StoredKey { scope, digest });
        Ok(key)
    }

    /// Removes the key with this name.
    ///
    /// # Errors
    /// [`KeyError::Unknown`] if no key has this name.
    pub fn remove(&mut self, name: &str) -> Result<(), KeyError> {
        self.keys.remove(name).map(drop).ok_or_else(|| KeyError::Unknown(name.to_owned()))
    }

    /// Returns the scope and the client of a key; `None` for an unknown key. Compares the key with
    /// all digests in constant time.
    pub(super) fn find(&self, key: &str) -> Option<(Scope, Client)> {
        let digest = blake3::hash(key.as_bytes()).to_hex();
        let mut found = None;
        for (at, stored) in self.keys.values().enumerate() {
            if bool::from(stored.digest.as_bytes().ct_eq(digest.as_bytes())) {
                found = Some((stored.scope, Client::of(at)));
            }
        }
        found
    }
}

/// The host names that a server answers to. They are stored in lower case and without ports.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// Returns the names of the loopback interface and the names in `further`. Ports are ignored;
    /// an IPv6 address may have brackets.
    pub fn new(further: impl IntoIterator<Item = String>) -> Hosts {
        let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
        let written = |host: String| match host.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) => without_port(&host),
        };
        Hosts(own.into_iter().chain(further.into_iter().map(written)).collect())
    }

    /// Whether a request is meant for this server: its `Host`, its `Origin` and the host in its
    /// URI, if present, must be known names. Without this check, any web page could send requests
    /// through its visitors' browsers.
    pub(super) fn accept(&self, request: &Request) -> bool {
        let all = |name| request.headers().get_all(name).into_iter();
        let text = |value: &HeaderValue| value.to_str().unwrap_or("?").to_owned();
        let known = |host: &str| self.0.iter().any(|name| *name == without_port(host));
        let from = |origin: &str| {
            known(origin.split_once("://").map_or(origin, |(_, host)| host).trim_end_matches('/'))
        };
        all(header::HOST).all(|host| known(&text(host)))
            && all(header::ORIGIN).all(|origin| from(&text(origin)))
            && request.uri().authority().is_none_or(|named| known(named.as_str()))
    }
}

/// Whether a request has exactly one `Host` header; before HTTP/1.1, it may also have none.
pub(super) fn names_a_host(request: &Request) -> bool {
    match request.headers().get_all(header::HOST).into_iter().count() {
        0 => request.version() < Version::HTTP_11,
        n => n == 1,
    }
}

/// Returns a host name in lower case, without its port.
fn without_port(host: &str) -> String {
    let host = host.to_lowercase();
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name.to_owned(),
        _ => host,
    }
}

/// Returns the key in the `Authorization` header, which reads `Bearer KEY`; `None` if there are
/// several such headers, since a proxy may have added one.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let only = given.next().filter(|_| given.next().is_none())?;
    let (scheme, key) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn names_of_keys_are_those_that_datasets_may_have() {
        let mut keys = Keys::default();
        for name in ["", "a/b", "a\u{202e}b", "a\nb", "-a", "A", &"a".repeat(10_000)] {
            let refused = keys.add(name, Scope::Read).unwrap_err().to_string();
            assert!(refused.contains("is not a valid key name; use 1 to 64 of"), "{refused}");
            assert!(refused.len() < 300 && !refused.contains('\n'), "{refused}");
        }
        assert_eq!(keys, Keys::default());
        keys.add("site-2_a", Scope::Read).unwrap();
    }

    #[test]
    fn keys_are_kept_as_digests_and_known_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = Keys::file(dir.path());
        let mut keys = Keys::read(&path).unwrap();
        let read = keys.add("shop", Scope::Read).unwrap();
        let admin = keys.add("me", Scope::Admin).unwrap();
        assert!(matches!(keys.add("me", Scope::Read), Err(KeyError::Exists(_))));
        keys.write(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&read) && !text.contains(&read[6..]));
        let mut again = Keys::read(&path).unwrap();
        assert_eq!(again, keys);
        assert_eq!(again.find(&admin), Some((Scope::Admin, Client::of(0))));
        assert_eq!(again.find(&read), Some((Scope::Read, Client::of(1))));
        assert_eq!(again.find("agent-0"), None);
        again.remove("me").unwrap();
        assert_eq!(again.find(&admin), None);
        assert!(matches!(again.remove("me"), Err(KeyError::Unknown(_))));
        fs::write(&path, "keys").unwrap();
        assert!(matches!(Keys::read(&path), Err(KeyError::Damaged { .. })));
    }

    #[test]
    fn keys_that_are_made_at_the_same_time_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = Keys::file(&dir.path().join("home"));
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                let name = n.to_string();
                scope.spawn(move || {
                    Keys::change(path, |keys| keys.add(&name, Scope::Read)).unwrap()
                });
            }
        });
        assert_eq!(Keys::read(&path).unwrap().keys.len(), 8);
    }

    #[test]
    fn a_server_answers_to_its_names_alone() {
        let given = ["Search.Example", "other.example:7700", "fd00::7", "[fd00::8]"];
        let hosts = Hosts::new(given.map(str::to_owned));
        let accepts = |pairs: &[(header::HeaderName, &str)]| {
            let mut request = Request::builder();
            for (name, text) in pairs {
                request = request.header(name, *text);
            }
            hosts.accept(&request.body(Body::empty()).unwrap())
        };
        for host in [
            "localhost",
            "LOCALHOST:7700",
            "127.0.0.1:1",
            "[::1]:7700",
            "search.example",
            "other.example",
            "other.example:1",
            "[fd00::7]:7700",
            "[fd00::8]",
        ] {
            assert!(accepts(&[(header::HOST, host)]), "{host}");
        }
        assert!(!accepts(&[(header::HOST, "evil.example")]));
        assert!(!accepts(&[(header::HOST, "localhost.evil.example:7700")]));
        let from = |origin| accepts(&[(header::HOST, "localhost"), (header::ORIGIN, origin)]);
        assert!(from("http://localhost:7700") && from("https://search.example"));
        assert!(!from("https://evil.example") && !from("null"));
        assert!(!accepts(&[(header::HOST, "localhost"), (header::HOST, "evil.example")]));
        let absolute = Request::get("http://evil.example/").body(Body::empty()).unwrap();
        assert!(!hosts.accept(&absolute), "the address names another server");
    }

    #[test]
    fn a_request_names_one_host_and_a_scheme_has_letters_of_any_size() {
        let request = |version, hosts: &[&str]| {
            let mut request = Request::builder().version(version);
            for host in hosts {
                request = request.header(header::HOST, *host);
            }
            request.body(Body::empty()).unwrap()
        };
        assert!(names_a_host(&request(Version::HTTP_11, &["a"])));
        assert!(names_a_host(&request(Version::HTTP_10, &[])));
        assert!(!names_a_host(&request(Version::HTTP_11, &[])));
        assert!(!names_a_host(&request(Version::HTTP_11, &["a", "a"])));
        let key = |text: &'static str| {
            let value = HeaderValue::from_static(text);
            bearer(&HeaderMap::from_iter([(header::AUTHORIZATION, value)])).map(str::to_owned)
        };
        for text in ["Bearer agent-1", "bearer agent-1", "BEARER  agent-1 "] {
            assert_eq!(key(text).as_deref(), Some("agent-1"), "{text}");
        }
        assert_eq!(key("Basic agent-1"), None);
        let mut two = HeaderMap::new();
        for key in ["Bearer agent-1", "Bearer agent-2"] {
            two.append(header::AUTHORIZATION, HeaderValue::from_static(key));
        }
        assert_eq!(bearer(&two), None);
    }
}
