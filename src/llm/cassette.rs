//! Cassettes: replies recorded in a file, and a model that plays them back, so that a run can be
//! reproduced exactly without a service.
//!
//! A cassette has one JSON object per line: the reply, and the request's key, role, model and an
//! excerpt of its last message. It has no credentials: requests have none, and they are removed
//! from replies.
//!
//! ```text
//! {"key":"...","role":"actor","model":"m","excerpt":"...","reply":{"text":"...",...}}
//! ```
//!
//! While recording, every line is synced to the disk. At the end the file is sorted by key, so that
//! it does not depend on the number of threads. If a key has several lines, the last one is valid.
//!
//! | limit | unit | value |
//! | --- | --- | --- |
//! | [`CASSETTE_BYTES`] | bytes of a file | 256 Mi |
//! | [`LINE_BYTES`] | bytes of a line | 16 Mi |
//! | [`EXCERPT_CHARS`] | characters of an excerpt | 200 |

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, TryLockError},
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::{Exchange, LlmError, Model, Reply, ReplyStore, Request, Role};
use agent_ground::files;

/// Maximum size of a cassette, bytes; the whole cassette is in memory.
pub const CASSETTE_BYTES: u64 = 256 << 20;
/// Maximum length of a line, bytes.
pub const LINE_BYTES: u64 = 16 << 20;
/// Maximum length of an excerpt of a message, characters.
pub const EXCERPT_CHARS: usize = 200;
/// Maximum number of recorded requests that are compared to find the nearest.
const COMPARED: usize = 2_000;
/// Digits of a key.
const KEY_DIGITS: usize = 64;
/// Digits of a key in messages.
const SHOWN_DIGITS: usize = 12;

/// Errors of cassettes; each message names the file.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    /// A file operation failed.
    #[error("cannot {action} the cassette {}: {source}", .path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The cassette.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{}:{line}: {reason}; record the cassette again", .path.display())]
    Line {
        /// The cassette.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The cassette, or a line of it, is too large.
    #[error("the cassette {} is larger than the limit of {CASSETTE_BYTES} bytes: record fewer requests", .path.display())]
    TooLarge {
        /// The cassette.
        path: PathBuf,
    },
    /// Another process records into the cassette.
    #[error("the cassette {} is being recorded by another process: wait for it, or name another file", .path.display())]
    Busy {
        /// The cassette.
        path: PathBuf,
    },
}

impl CassetteError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CassetteError {
        let path = path.to_owned();
        move |source| CassetteError::Io { action, path, source }
    }
}

/// A recorded exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedExchange {
    /// The key of the request.
    pub key: String,
    /// Role of the request.
    pub role: Role,
    /// Model of the request.
    pub model: String,
    /// The beginning and the end of the last message, on one line.
    pub excerpt: String,
    /// The reply.
    pub reply: Reply,
}

impl RecordedExchange {
    fn new(key: &str, exchange: &Exchange) -> RecordedExchange {
        let request = &exchange.request;
        RecordedExchange {
            key: key.to_owned(),
            role: request.role.clone(),
            model: request.model.clone(),
            excerpt: excerpt(request),
            reply: exchange.reply.clone(),
        }
    }

    fn short_key(&self) -> &str {
        self.key.get(..SHOWN_DIGITS).unwrap_or(&self.key)
    }
}

/// Returns the beginning and the end of the last message of a request, on one line of at most
/// [`EXCERPT_CHARS`] characters. The end is included because prompts often begin alike.
pub fn excerpt(request: &Request) -> String {
    let text = request.messages.last().map_or("", |message| &message.text);
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let line: Vec<char> = words.join(" ").chars().collect();
    if line.len() <= EXCERPT_CHARS {
        return line.into_iter().collect();
    }
    let part = EXCERPT_CHARS / 2 - 2;
    let (head, tail) = (&line[..part], &line[line.len() - part..]);
    head.iter().chain(&[' ', '…', ' ']).chain(tail).collect()
}

/// A reply store that records replies. It never returns one, so that repeated requests are recorded
/// again.
///
/// Among the stores of an [`Llm`](crate::Llm), it belongs after the run's own store and before the
/// shared cache, so that it also records cached replies.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    recording: Mutex<Recording>,
}

#[derive(Debug)]
struct Recording {
    file: File,
    bytes: u64,
    lines: BTreeMap<String, RecordedExchange>,
    /// Whether the file changed since [`Recorder::finish`].
    unsorted: bool,
}

impl Recorder {
    /// Creates or continues a cassette; removes an unfinished last line that a killed process left.
    ///
    /// # Errors
    /// [`CassetteError`].
    pub fn open(path: &Path) -> Result<Recorder, CassetteError> {
        let mut file = files::open_to_append(path).map_err(CassetteError::io("open", path))?;
        lock(&file, path)?;
        let (lines, bytes) = read_lines(&mut file, path, true)?;
        file.set_len(bytes).map_err(CassetteError::io("write", path))?;
        let recording = Recording { file, bytes, lines, unsorted: true };
        Ok(Recorder { path: path.to_owned(), recording: Mutex::new(recording) })
    }

    /// Sorts the cassette by key, atomically. Recording may continue. Dropping the recorder does
    /// the same and ignores errors.
    ///
    /// # Errors
    /// [`CassetteError::Io`], [`CassetteError::Busy`]; the unsorted file then stays unchanged.
    pub fn finish(&self) -> Result<(), CassetteError> {
        let mut recording = self.recording();
        if !recording.unsorted {
            return Ok(());
        }
        let mut text = String::new();
        for line in recording.lines.values() {
            text += &encoded(line, &self.path)?;
        }
        let written = |text: &str| -> io::Result<File> {
            let folder = match self.path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            let mut file = files::temporary_file(folder, ".cassette")?;
            file.write_all(text.as_bytes())?;
            if let Ok(metadata) = fs::metadata(&self.path) {
                file.as_file().set_permissions(metadata.permissions())?;
            }
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)?;
            if cfg!(unix) {
                File::open(folder)?.sync_all()?;
            }
            File::options().read(true).append(true).open(&self.path)
        };
        let file = written(&text).map_err(CassetteError::io("write", &self.path))?;
        lock(&file, &self.path)?;
        recording.file = file;
        recording.bytes = text.len() as u64;
        recording.unsorted = false;
        Ok(())
    }

    fn recording(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, line: RecordedExchange) -> Result<(), CassetteError> {
        let text = encoded(&line, &self.path)?;
        let mut recording = self.recording();
        if recording.lines.get(&line.key) == Some(&line) {
            return Ok(());
        }
        if recording.bytes + text.len() as u64 > CASSETTE_BYTES {
            return Err(CassetteError::TooLarge { path: self.path.clone() });
        }
        let written =
            recording.file.write_all(text.as_bytes()).and_then(|()| recording.file.sync_data());
        written.map_err(CassetteError::io("write", &self.path))?;
        recording.bytes += text.len() as u64;
        recording.lines.insert(line.key.clone(), line);
        recording.unsorted = true;
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // An unsorted cassette plays back the same replies.
        let _ = self.finish();
    }
}

impl ReplyStore for Recorder {
    /// Always returns `None`.
    fn get(&self, _: &str) -> Result<Option<Exchange>, LlmError> {
        Ok(None)
    }

    fn put(&self, key: &str, exchange: &Exchange) -> Result<(), LlmError> {
        self.record(RecordedExchange::new(key, exchange))
            .map_err(|error| LlmError::Store(error.to_string()))
    }
}

/// A model that plays back a cassette.
#[derive(Debug)]
pub struct Cassette {
    path: PathBuf,
    lines: BTreeMap<String, RecordedExchange>,
    asked: Mutex<BTreeSet<String>>,
}

impl Cassette {
    /// Reads a cassette.
    ///
    /// # Errors
    /// [`CassetteError`].
    pub fn open(path: &Path) -> Result<Cassette, CassetteError> {
        let mut file = files::open(path).map_err(CassetteError::io("open", path))?;
        let (lines, _) = read_lines(&mut file, path, false)?;
        Ok(Cassette { path: path.to_owned(), lines, asked: Mutex::default() })
    }

    /// Returns the recorded exchanges, ordered by key.
    pub fn recorded(&self) -> impl Iterator<Item = &RecordedExchange> {
        self.lines.values()
    }

    /// Returns the recorded exchanges that were not requested so far, ordered by key.
    pub fn unused(&self) -> Vec<&RecordedExchange> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        self.lines.values().filter(|line| !asked.contains(&line.key)).collect()
    }

    /// Finds the recorded request nearest to an unrecorded one by the edit distance of excerpts;
    /// only among requests of the same role, if there are any. Ties go to the smaller key.
    fn nearest(&self, role: &Role, excerpt: &str) -> Option<&RecordedExchange> {
        let same = self.lines.values().any(|line| line.role == *role);
        let candidates = self.lines.values().filter(|line| !same || line.role == *role);
        let mut best: Option<(f64, &RecordedExchange)> = None;
        for line in candidates.take(COMPARED) {
            let likeness = strsim::normalized_levenshtein(excerpt, &line.excerpt);
            if best.is_none_or(|(most, _)| likeness > most) {
                best = Some((likeness, line));
            }
        }
        best.map(|(_, line)| line)
    }

    fn unrecorded(&self, request: &Request) -> LlmError {
        let excerpt = excerpt(request);
        let nearest = match self.nearest(&request.role, &excerpt) {
            Some(near) => format!(
                "the nearest recorded is {} of {} to {:?}: {:?}",
                near.short_key(),
                near.role,
                near.model,
                near.excerpt
            ),
            None => "nothing is recorded".to_owned(),
        };
        LlmError::Unrecorded(format!(
            "{} has no reply to this request of {} to {:?}: {excerpt:?}; {nearest}; record it with \
             the same inputs and options",
            self.path.display(),
            request.role,
            request.model,
        ))
    }
}

impl Model for Cassette {
    fn ask(&self, request: &Request) -> Result<Reply, LlmError> {
        let key = request.key();
        let line = self.lines.get(&key).ok_or_else(|| self.unrecorded(request))?;
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        Ok(line.reply.clone())
    }
}

fn lock(file: &File, path: &Path) -> Result<(), CassetteError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(CassetteError::Busy { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(CassetteError::io("lock", path)(error)),
    }
}

/// Formats a line, with its line end.
fn encoded(line: &RecordedExchange, path: &Path) -> Result<String, CassetteError> {
    let text = serde_json::to_string(line);
    let text = text.map_err(|error| CassetteError::io("write", path)(error.into()))? + "\n";
    if text.len() as u64 > LINE_BYTES {
        return Err(CassetteError::TooLarge { path: path.to_owned() });
    }
    Ok(text)
}

/// Reads the lines of a cassette by key, and their total bytes. A last line without a line end is
/// ignored if `leave_unfinished`, otherwise an error.
fn read_lines(
    file: &mut File,
    path: &Path,
    leave_unfinished: bool,
) -> Result<(BTreeMap<String, RecordedExchange>, u64), CassetteError> {
    let length = file.metadata().map_err(CassetteError::io("read", path))?.len();
    if length > CASSETTE_BYTES {
        return Err(CassetteError::TooLarge { path: path.to_owned() });
    }
    let wrong = |line, reason: String| CassetteError::Line { path: path.to_owned(), line, reason };
    let (mut lines, mut bytes) = (BTreeMap::new(), 0);
    let mut reader = BufReader::new(file);
    for number in 1.. {
        let mut text = Vec::new();
        let read = (&mut reader).take(LINE_BYTES + 1).read_until(b'\n', &mut text);
        read.map_err(CassetteError::io("read", path))?;
        if text.is_empty() {
            break;
        }
        if text.len() as u64 > LINE_BYTES {
            return Err(wrong(number, format!("the line is longer than {LINE_BYTES} bytes")));
        }
        if text.last() != Some(&b'\n') {
            if leave_unfinished {
                break;
            }
            return Err(wrong(number, "the last line is not finished".to_owned()));
        }
        let line: RecordedExchange =
            serde_json::from_slice(&text).map_err(|error| wrong(number, error.to_string()))?;
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if line.key.len() != KEY_DIGITS || !line.key.bytes().all(digit) {
            return Err(wrong(number, "the key is not 64 hexadecimal digits".to_owned()));
        }
        if line.reply.text.is_empty() {
            return Err(wrong(number, "the reply is empty".to_owned()));
        }
        bytes += text.len() as u64;
        lines.insert(line.key.clone(), line);
    }
    Ok((lines, bytes))
}

#[cfg(test)]
mod tests;
