//! Who may ask: keys with scopes, kept as digests, and the names that a server answers to. Must not
//! know what is asked.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
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

use crate::client::Client;
use agent_ground::files;

/// Bytes of a key.
const KEY_BYTES: usize = 24;
/// Begins every key, so that people and scanners know one.
const PREFIX: &str = "agent-";
/// Longest file of keys that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What a key allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// To ask.
    Read,
    /// To ask, to change what answers, and to run programs.
    Admin,
}

/// The keys of a home directory: names with scopes and digests, never the keys themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Keys {
    /// By name.
    #[serde(default)]
    pub keys: BTreeMap<String, StoredKey>,
}

/// What is kept of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredKey {
    /// What it allows.
    pub scope: Scope,
    /// BLAKE3 of the key, in hexadecimal digits. Keys are random, so that no salt is needed.
    digest: String,
}

/// Why keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("cannot use {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What failed.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{path} is no file of keys: {source}; remove it and make keys anew")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// There is a key of that name.
    #[error("there is a key {0:?} already; remove it first, or choose another name")]
    Exists(String),
    /// There is none of that name.
    #[error("there is no key {0:?}; `agent key list` shows those there are")]
    Unknown(String),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers for a key")]
    Random,
}

impl Keys {
    /// The file of keys in a home directory.
    pub fn file(home: &Path) -> PathBuf {
        home.join("serve-keys.json")
    }

    /// Reads a file; none holds no keys.
    ///
    /// # Errors
    /// That it cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<Keys, KeyError> {
        match files::read(path, MAX_FILE_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Keys::default()),
            Err(source) => Err(KeyError::Io { path: path.to_owned(), source }),
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| KeyError::Damaged { path: path.to_owned(), source }),
        }
    }

    /// Changes what a file holds, while nobody else changes it.
    ///
    /// # Errors
    /// Those of `change`, and that the file cannot be read or written; then it is as it was.
    pub fn change<T>(
        path: &Path,
        change: impl FnOnce(&mut Keys) -> Result<T, KeyError>,
    ) -> Result<T, KeyError> {
        let lock = path.with_extension("lock");
        let failed = |source: io::Error| KeyError::Io { path: lock.clone(), source };
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        let file = File::options().create(true).truncate(false).write(true).open(&lock);
        let file = file.map_err(failed)?;
        // Released when the file is dropped.
        file.lock().map_err(failed)?;
        let mut keys = Keys::read(path)?;
        let changed = change(&mut keys)?;
        keys.write(path)?;
        Ok(changed)
    }

    /// Writes the file in one step, readable by its owner alone.
    ///
    /// # Errors
    /// That it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        let failed = |source: io::Error| KeyError::Io { path: path.to_owned(), source };
        let dir = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(dir).map_err(failed)?;
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other).map_err(failed)?;
        // Temporary files are readable by their owner alone.
        let mut file = tempfile::NamedTempFile::new_in(dir).map_err(failed)?;
        io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Makes a key; it is given here and nowhere else again.
    ///
    /// # Errors
    /// [`KeyError::Exists`], [`KeyError::Random`].
    pub fn add(&mut self, name: &str, scope: Scope) -> Result<String, KeyError> {
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

    /// Forgets a key.
    ///
    /// # Errors
    /// [`KeyError::Unknown`].
    pub fn remove(&mut self, name: &str) -> Result<(), KeyError> {
        self.keys.remove(name).map(drop).ok_or_else(|| KeyError::Unknown(name.to_owned()))
    }

    /// The scope of a key, and its place in the order of names; compared in constant time with every
    /// digest.
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

/// The names that a server answers to.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// This machine's own, and these; their ports do not matter, and addresses of version 6 may have
    /// brackets, as they do in requests.
    pub fn new(further: impl IntoIterator<Item = String>) -> Hosts {
        let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
        let written = |host: String| match host.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) => without_port(&host),
        };
        Hosts(own.into_iter().chain(further.into_iter().map(written)).collect())
    }

    /// Whether a request was meant for this server: its `Host` is known, and so are its `Origin` and
    /// the host of its address if it has them. Else a page of somebody else could ask through its
    /// reader's browser.
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

/// Whether a request names its host once, as HTTP/1.1 wants it.
pub(super) fn names_a_host(request: &Request) -> bool {
    match request.headers().get_all(header::HOST).into_iter().count() {
        0 => request.version() < Version::HTTP_11,
        n => n == 1,
    }
}

/// A host in small letters, without its port.
fn without_port(host: &str) -> String {
    let host = host.to_lowercase();
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name.to_owned(),
        _ => host,
    }
}

/// The key of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

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
    }
}
