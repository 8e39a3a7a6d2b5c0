//! The shared cache of replies: later runs reuse replies that an earlier run paid for.
//!
//! The cache is a directory with one file per exchange, named by the key of its request:
//! `ab/abcd...`. A file is written to a temporary name, synced and renamed, so that several
//! processes may share the cache, and a killed process leaves no partial entry. A file has two
//! lines of JSON, one about the entry and one with the exchange:
//!
//! ```text
//! {"format":1,"digest":"BLAKE3 of the next line","role":"actor","model":"m"}
//! {"request":{...},"reply":{...},"paid":true}
//! ```
//!
//! | limit | unit | value |
//! | --- | --- | --- |
//! | [`MAX_BYTES`]: above it, the oldest entries are removed down to nine tenths | bytes of all files | 2 Gi |
//! | [`ENTRY_BYTES`]: larger exchanges are not stored | bytes of one file | 64 Mi |
//!
//! Only usable replies are stored. A failure of the cache is not an error for the caller: a damaged
//! or unreadable entry counts as absent, an entry that cannot be written is skipped, and
//! [`SharedCache::problem`] reports the first such problem. Each process may write
//! [`COUNTED_EVERY`] entries between two counts, so several processes together may exceed the limit
//! by that many entries each.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    sync::Mutex,
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use crate::{Exchange, LlmError, ReplyStore, Role, replies::is_usable};
use agent_ground::{files, locks::locked};

/// Maximum total size of all files of the cache, in bytes.
pub const MAX_BYTES: u64 = 2 << 30;
/// Maximum size of one file of the cache, in bytes.
pub const ENTRY_BYTES: u64 = 64 << 20;
/// Maximum number of entries that a process writes between two counts of the bytes of all files.
pub const COUNTED_EVERY: u64 = 1_000;
/// Maximum length of the first line of a file, in bytes.
const HEADER_BYTES: u64 = 64 << 10;
/// Supported version of the format of entries.
const FORMAT: u32 = 1;
/// Number of hexadecimal digits of a key.
const KEY_DIGITS: usize = 64;
/// Prefix of the names of files that are being written.
const UNFINISHED: &str = ".tmp";

/// First line of an entry.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: u32,
    digest: String,
    role: Role,
    model: String,
}

/// The shared cache of replies in one directory, which need not exist.
#[derive(Debug)]
pub struct SharedCache {
    dir: PathBuf,
    max_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of bytes of all files: the last count plus entries written since; `None` before the
    /// first count.
    bytes: Option<u64>,
    /// Number of entries written since the last count.
    written: u64,
    hits: u64,
    problem: Option<String>,
}

/// Number and total size of files of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheSize {
    /// Number of files, each with one exchange.
    pub entries: u64,
    /// Total size of these files, in bytes.
    pub bytes: u64,
}

impl CacheSize {
    fn add(&mut self, bytes: u64) {
        self.entries += 1;
        self.bytes += bytes;
    }
}

/// Contents of the cache, in total and by model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Number and size of all files.
    pub all: CacheSize,
    /// Number and size of the files whose first line can be read, by model.
    pub models: BTreeMap<String, CacheSize>,
    /// Number of unreadable or partial files.
    pub unreadable: u64,
}

/// A file of the cache.
struct Entry {
    modified: SystemTime,
    path: PathBuf,
    bytes: u64,
}

impl SharedCache {
    /// Opens the cache in the directory `dir`, with a total size of at most [`MAX_BYTES`].
    pub fn new(dir: &Path) -> SharedCache {
        SharedCache::with_limit(dir, MAX_BYTES)
    }

    /// Opens the cache in the directory `dir`, with a total size of at most `max_bytes` bytes.
    pub fn with_limit(dir: &Path, max_bytes: u64) -> SharedCache {
        SharedCache { dir: dir.to_owned(), max_bytes, state: Mutex::default() }
    }

    /// Returns the directory of the cache.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the number of replies that the cache returned since it was opened.
    pub fn hits(&self) -> u64 {
        locked(&self.state).hits
    }

    /// Returns the first problem with an entry since the cache was opened; `None` if there was
    /// none.
    pub fn problem(&self) -> Option<String> {
        locked(&self.state).problem.clone()
    }

    /// Returns the number and size of cached exchanges, by model; reads the first line of every
    /// file.
    ///
    /// # Errors
    /// If the directory cannot be read; a missing directory counts as empty.
    pub fn contents(&self) -> io::Result<Contents> {
        let mut contents = Contents::default();
        for entry in self.entries()? {
            contents.all.add(entry.bytes);
            match read_header(&entry.path) {
                Ok(header) => contents.models.entry(header.model).or_default().add(entry.bytes),
                Err(_) => contents.unreadable += 1,
            }
        }
        Ok(contents)
    }

    /// Removes all entries and returns their number and size.
    ///
    /// # Errors
    /// If the directory cannot be read or a file cannot be removed.
    pub fn clear(&self) -> io::Result<CacheSize> {
        let mut removed = CacheSize::default();
        for entry in self.entries()? {
            remove(&entry.path)?;
            removed.add(entry.bytes);
        }
        locked(&self.state).bytes = None;
        Ok(removed)
    }

    fn note(&self, problem: String) {
        locked(&self.state).problem.get_or_insert(problem);
    }

    /// Returns the path of the file for a key; `None` for an invalid key, so that no file outside
    /// of the cache is ever touched.
    fn file(&self, key: &str) -> Option<PathBuf> {
        is_key(key).then(|| self.dir.join(&key[..2]).join(key))
    }

    /// Writes the file of an exchange to `path` and returns its size, in bytes.
    fn write(&self, path: &Path, exchange: &Exchange) -> io::Result<u64> {
        let body = serde_json::to_string(exchange)?;
        let header = serde_json::to_string(&Header {
            format: FORMAT,
            digest: blake3::hash(body.as_bytes()).to_hex().to_string(),
            role: exchange.request.role.clone(),
            model: exchange.request.model.clone(),
        })?;
        let bytes = (header.len() + body.len() + 2) as u64;
        if bytes > ENTRY_BYTES.min(self.max_bytes) || header.len() as u64 >= HEADER_BYTES {
            return Err(io::Error::other("it exceeds the size limit of an entry"));
        }
        let folder = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(folder)?;
        let mut file = files::temporary_file(folder, UNFINISHED)?;
        write!(file, "{header}\n{body}\n")?;
        files::publish(file, path, folder)?;
        Ok(bytes)
    }

    /// Counts a written entry of `bytes` bytes; removes the oldest entries if the cache is above
    /// its limit.
    fn count(&self, bytes: u64) -> io::Result<()> {
        let mut state = locked(&self.state);
        state.written += 1;
        let known = state.bytes.map(|known| known + bytes);
        match known {
            Some(known) if known <= self.max_bytes && state.written < COUNTED_EVERY => {
                state.bytes = Some(known);
            }
            _ => {
                state.bytes = Some(self.make_room()?);
                state.written = 0;
            }
        }
        Ok(())
    }

    /// If the cache is above its limit, removes the oldest entries until it has at most nine tenths
    /// of the limit. Returns the number of bytes of all remaining files.
    fn make_room(&self) -> io::Result<u64> {
        let mut entries = self.entries()?;
        let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
        if bytes <= self.max_bytes {
            return Ok(bytes);
        }
        entries.sort_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
        for entry in entries {
            if bytes <= self.max_bytes / 10 * 9 {
                break;
            }
            remove(&entry.path)?;
            bytes -= entry.bytes;
        }
        Ok(bytes)
    }

    /// Lists all files of the cache, including partial files, in no particular order.
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for folder in listed(&self.dir)? {
            let name = folder.file_name();
            let name = name.to_string_lossy();
            if name.len() != 2 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                continue;
            }
            for file in listed(&folder.path())? {
                let name = file.file_name();
                let name = name.to_string_lossy();
                if !is_key(&name) && !name.starts_with(UNFINISHED) {
                    continue;
                }
                // Another process may have removed the file since.
                let Ok(metadata) = file.metadata() else { continue };
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                entries.push(Entry { modified, path: file.path(), bytes: metadata.len() });
            }
        }
        Ok(entries)
    }
}

impl ReplyStore for SharedCache {
    /// Returns the exchange of a key, if the cache holds it; never fails.
    fn get(&self, key: &str) -> Result<Option<Exchange>, LlmError> {
        let Some(path) = self.file(key) else { return Ok(None) };
        match read(&path, key) {
            Ok(exchange) => {
                locked(&self.state).hits += 1;
                Ok(Some(exchange))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                self.note(format!("cannot use the stored reply {}: {error}", path.display()));
                Ok(None)
            }
        }
    }

    /// Stores an exchange if its reply is usable; never fails. Replaces a damaged entry.
    fn put(&self, key: &str, exchange: &Exchange) -> Result<(), LlmError> {
        let Some(path) = self.file(key) else { return Ok(()) };
        if !is_usable(&exchange.reply, &exchange.request) || read(&path, key).is_ok() {
            return Ok(());
        }
        let kept = self.write(&path, exchange).and_then(|bytes| self.count(bytes));
        if let Err(error) = kept {
            self.note(format!("cannot store a reply in {}: {error}", self.dir.display()));
        }
        Ok(())
    }
}

/// Whether a text has the form of a key: 64 hexadecimal digits, in lower case.
pub(super) fn is_key(name: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.len() == KEY_DIGITS && name.bytes().all(digit)
}

/// Returns the entries of a directory; none if `dir` does not exist or is not a directory.
fn listed(dir: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.collect(),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// Removes a file; succeeds also if the file no longer exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn read_header(path: &Path) -> io::Result<Header> {
    first_line(&mut BufReader::new(files::open(path)?))
}

fn first_line(reader: &mut impl BufRead) -> io::Result<Header> {
    let mut line = Vec::new();
    reader.take(HEADER_BYTES).read_until(b'\n', &mut line)?;
    let header: Header = serde_json::from_slice(&line)?;
    if header.format != FORMAT {
        return Err(io::Error::other(format!("its format {} is not {FORMAT}", header.format)));
    }
    Ok(header)
}

/// Reads the exchange in the file at `path`; fails unless its digest matches and its request has
/// the key `key`.
fn read(path: &Path, key: &str) -> io::Result<Exchange> {
    let mut reader = BufReader::new(files::open(path)?.take(ENTRY_BYTES));
    let header = first_line(&mut reader)?;
    let mut body = Vec::new();
    reader.read_to_end(&mut body)?;
    let body = body.strip_suffix(b"\n").unwrap_or(&body);
    if blake3::hash(body).to_hex().as_str() != header.digest {
        return Err(io::Error::other("it does not match its digest"));
    }
    let exchange: Exchange = serde_json::from_slice(body)?;
    if exchange.request.key() != key {
        return Err(io::Error::other("it is the reply to another request"));
    }
    Ok(exchange)
}

#[cfg(test)]
mod tests;
