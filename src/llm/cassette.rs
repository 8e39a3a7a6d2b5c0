//! Cassettes: replies recorded in a file, and a model that plays them back, so that a run can be
//! reproduced exactly without a service.
//!
//! A cassette has one JSON object per line: a reply, the key, role and model of its request, and an
//! excerpt of the request's last message. A cassette holds no credentials: requests have none, and
//! credentials are removed from replies.
//!
//! ```text
//! {"key":"...","role":"actor","model":"m","excerpt":"...","reply":{"text":"...",...}}
//! ```
//!
//! While recording, every line is synced to the disk. At the end, the lines are sorted by key, so
//! that the file does not depend on the number of threads. If a key has several lines, the last one
//! counts.
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
    sync::Mutex,
};

use serde::{Deserialize, Serialize};

use crate::{Exchange, LlmError, Model, Reply, ReplyStore, Request, Role, shared::is_key};
use agent_ground::{files, locks::locked, words::one_line};

/// Maximum size of a cassette, in bytes; a cassette is held in memory as a whole.
pub const CASSETTE_BYTES: u64 = 256 << 20;
/// Maximum length of a line of a cassette, in bytes.
pub const LINE_BYTES: u64 = 16 << 20;
/// Maximum length in characters of the excerpt of a request's last message.
pub const EXCERPT_CHARS: usize = 200;
/// Maximum number of recorded requests that are compared to find the one most similar to an
/// unrecorded request.
const COMPARED: usize = 2_000;
/// First bytes of every line of a cassette.
const START: &[u8] = br#"{"key":""#;
/// Number of digits of a key that messages show.
const SHOWN_DIGITS: usize = 12;

/// Why a cassette cannot be recorded or read; each message names the file.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    /// A file operation failed.
    #[error("cannot {action} the cassette {}: {source}", .path.display())]
    Io {
        /// What was attempted, such as `open`.
        action: &'static str,
        /// File of the cassette.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A line of the cassette is invalid.
    #[error("{}:{line}: {reason}; record the cassette again", .path.display())]
    Line {
        /// File of the cassette.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with the line.
        reason: String,
    },
    /// The cassette is too large.
    #[error("the cassette {} is larger than the limit of {CASSETTE_BYTES} bytes: record fewer requests", .path.display())]
    TooLarge {
        /// File of the cassette.
        path: PathBuf,
    },
    /// A reply is too long for a line of the cassette.
    #[error("a line of the cassette {} would be longer than the limit of {LINE_BYTES} bytes: ask for shorter replies", .path.display())]
    LongLine {
        /// File of the cassette.
        path: PathBuf,
    },
    /// Another process records into the cassette.
    #[error("the cassette {} is being recorded by another process: wait for it, or name another file", .path.display())]
    Busy {
        /// File of the cassette.
        path: PathBuf,
    },
}

impl CassetteError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CassetteError {
        let path = path.to_owned();
        move |source| CassetteError::Io { action, path, source }
    }
}

/// A recorded exchange: one line of a cassette.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedExchange {
    /// Key of the request ([`Request::key`]).
    pub key: String,
    /// Role of the request.
    pub role: Role,
    /// Name of the model that was asked.
    pub model: String,
    /// Beginning and end of the request's last message, on one line.
    pub excerpt: String,
    /// Reply to the request.
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

/// Returns the last message of a request on one line; of a message longer than [`EXCERPT_CHARS`]
/// characters, only its beginning and its end, with `…` between them. The end is included because
/// prompts often begin alike.
pub fn excerpt(request: &Request) -> String {
    let text = request.messages.last().map_or("", |message| &message.text);
    let line: Vec<char> = one_line(text).chars().collect();
    if line.len() <= EXCERPT_CHARS {
        return line.into_iter().collect();
    }
    let part = EXCERPT_CHARS / 2 - 2;
    let (head, tail) = (&line[..part], &line[line.len() - part..]);
    head.iter().chain(&[' ', '…', ' ']).chain(tail).collect()
}

/// A reply store that records exchanges in a cassette. It never returns a stored reply, so that
/// repeated requests are recorded again.
///
/// Among the stores of an [`Llm`](crate::Llm), the recorder belongs after the run's own store and
/// before the shared cache, so that it also records cached replies.
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
    /// Opens a cassette to record into it, and creates the file if there is none. Removes an
    /// unfinished last line, which a killed process leaves.
    ///
    /// # Errors
    /// [`CassetteError`] if the file cannot be written, is invalid or too large, or if another
    /// process records into it.
    pub fn open(path: &Path) -> Result<Recorder, CassetteError> {
        let mut file = files::open_to_append(path).map_err(CassetteError::io("open", path))?;
        lock(&file, path)?;
        let (lines, bytes) = read_lines(&mut file, path, true)?;
        file.set_len(bytes).map_err(CassetteError::io("write", path))?;
        let recording = Recording { file, bytes, lines, unsorted: true };
        // The sorted file replaces the target of a link, not the link.
        let path = files::without_link(path).map_err(CassetteError::io("open", path))?;
        Ok(Recorder { path, recording: Mutex::new(recording) })
    }

    /// Sorts the lines of the cassette by key and replaces the file atomically. Recording may
    /// continue afterwards. Dropping the recorder does the same and ignores errors.
    ///
    /// # Errors
    /// [`CassetteError::Io`] if the sorted file cannot be written; the unsorted file then stays
    /// unchanged. [`CassetteError::Busy`] if another process locks the new file.
    pub fn finish(&self) -> Result<(), CassetteError> {
        let mut recording = locked(&self.recording);
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
            files::publish(file, &self.path, folder)?;
            File::options().read(true).append(true).open(&self.path)
        };
        let file = written(&text).map_err(CassetteError::io("write", &self.path))?;
        lock(&file, &self.path)?;
        recording.file = file;
        recording.bytes = text.len() as u64;
        recording.unsorted = false;
        Ok(())
    }

    fn record(&self, line: RecordedExchange) -> Result<(), CassetteError> {
        let text = encoded(&line, &self.path)?;
        let mut recording = locked(&self.recording);
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
    /// Always returns `None`: a recorder does not answer requests.
    fn get(&self, _: &str) -> Result<Option<Exchange>, LlmError> {
        Ok(None)
    }

    fn put(&self, key: &str, exchange: &Exchange) -> Result<(), LlmError> {
        self.record(RecordedExchange::new(key, exchange))
            .map_err(|error| LlmError::Store(error.to_string()))
    }
}

/// A model that answers with the replies recorded in a cassette.
#[derive(Debug)]
pub struct Cassette {
    path: PathBuf,
    lines: BTreeMap<String, RecordedExchange>,
    asked: Mutex<BTreeSet<String>>,
}

impl Cassette {
    /// Reads the cassette in the file `path`.
    ///
    /// # Errors
    /// [`CassetteError`] if the file cannot be read, is invalid or too large.
    pub fn open(path: &Path) -> Result<Cassette, CassetteError> {
        let mut file = files::open(path).map_err(CassetteError::io("open", path))?;
        let (lines, _) = read_lines(&mut file, path, false)?;
        Ok(Cassette { path: path.to_owned(), lines, asked: Mutex::default() })
    }

    /// Returns the recorded exchanges, ordered by key.
    pub fn recorded(&self) -> impl Iterator<Item = &RecordedExchange> {
        self.lines.values()
    }

    /// Returns the recorded exchanges whose replies were not requested so far, ordered by key.
    pub fn unused(&self) -> Vec<&RecordedExchange> {
        let asked = locked(&self.asked);
        self.lines.values().filter(|line| !asked.contains(&line.key)).collect()
    }

    /// Finds the recorded request whose excerpt is most similar, by edit distance, to the excerpt
    /// of an unrecorded request; looks only at requests of the same role, if there are any. Of
    /// equally similar requests, returns the one with the smallest key.
    fn nearest(&self, role: &Role, excerpt: &str) -> Option<&RecordedExchange> {
        let same = self.lines.values().any(|line| line.role == *role);
        let candidates = self.lines.values().filter(|line| !same || line.role == *role);
        let compared = candidates
            .take(COMPARED)
            .map(|line| (strsim::normalized_levenshtein(excerpt, &line.excerpt), line));
        let best = compared.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, line)| line)
    }

    fn unrecorded(&self, request: &Request) -> LlmError {
        let excerpt = excerpt(request);
        let nearest = match self.nearest(&request.role, &excerpt) {
            Some(near) => format!(
                "the most similar recorded request is {} of role {} to model {:?}: {:?}",
                near.short_key(),
                near.role,
                near.model,
                near.excerpt
            ),
            None => "no request is recorded".to_owned(),
        };
        LlmError::Unrecorded(format!(
            "{} has no reply to this request of role {} to model {:?}: {excerpt:?}; {nearest}; record \
             it with the same inputs and options",
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
        locked(&self.asked).insert(key);
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

/// Returns a recorded exchange as a line of a cassette, with its line end.
fn encoded(line: &RecordedExchange, path: &Path) -> Result<String, CassetteError> {
    let text = serde_json::to_string(line);
    let text = text.map_err(|error| CassetteError::io("write", path)(error.into()))? + "\n";
    if text.len() as u64 > LINE_BYTES {
        return Err(CassetteError::LongLine { path: path.to_owned() });
    }
    Ok(text)
}

/// Reads all lines of a cassette. Returns the recorded exchanges by key, and the total number of
/// bytes of the lines. A last line without a line end is ignored if `leave_unfinished` is set and
/// the line begins like a recorded exchange; otherwise it is an error.
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
            if leave_unfinished && START.iter().zip(&text).all(|(start, byte)| start == byte) {
                break;
            }
            return Err(wrong(number, "the last line is not finished".to_owned()));
        }
        let line: RecordedExchange =
            serde_json::from_slice(&text).map_err(|error| wrong(number, error.to_string()))?;
        if !is_key(&line.key) {
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
