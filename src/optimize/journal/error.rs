//! Errors of a run's journal. Most messages name the file or the step, and a remedy.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::journal::KEY_BYTES;

/// Error of opening, reading or writing a journal.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The directory for a new run already contains a run. Holds the path of the directory.
    #[error("{} already holds a run: continue it with --resume, or name another --run DIR", .0.display())]
    Exists(PathBuf),
    /// The directory for a new run contains other files. Holds the path of the directory and the
    /// name of a file in it.
    #[error("{path} is not empty (it contains {1:?}): name another --run DIR", path = .0.display())]
    NotEmpty(PathBuf, String),
    /// The directory has no run that could be resumed or read. Holds the directory, and the reason
    /// with a remedy.
    #[error("{path} does not contain a run: {1}", path = .0.display())]
    NotARun(PathBuf, &'static str),
    /// Another process writes the run. The id of the process is unknown if the system prevents
    /// reading a locked file or if the process has just started.
    #[error("the run in {} is in use by {}: wait for it to end, or stop it", .dir.display(), holder(*.pid))]
    Locked {
        /// Directory in which the run is or should be.
        dir: PathBuf,
        /// Id of the process that writes the run, if known.
        pid: Option<u32>,
    },
    /// The database is damaged: the stored data differ from the written data. Holds the path of the
    /// database and the first defect that was found.
    #[error("{path} is damaged: {1}; restore it from a copy, or start again with another --run DIR", path = .0.display())]
    Damaged(PathBuf, String),
    /// A later version of the software wrote the run, in a format that this version cannot read.
    #[error("{} has journal format {found}, this version reads up to {supported}: use a newer version", .path.display())]
    NewerVersion {
        /// Path of the run's database.
        path: PathBuf,
        /// Format version of the run.
        found: i64,
        /// Newest format version that can be read.
        supported: i64,
    },
    /// An earlier version of the software wrote the run, in a format that this version cannot read.
    #[error("{} has journal format {found}, this version reads format {supported}: use the version that started the run, or start again with another --run DIR", .path.display())]
    OlderVersion {
        /// Path of the run's database.
        path: PathBuf,
        /// Format version of the run.
        found: i64,
        /// Only format version that can be read.
        supported: i64,
    },
    /// An operation on a file or directory failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// Attempted action, such as `open` or `write`.
        action: &'static str,
        /// File or directory on which the operation failed.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The database could not read or write its files. The current step is stored either completely
    /// or not at all.
    #[error("cannot {action} {}: {cause}", .path.display())]
    Storage {
        /// Attempted action, such as `open` or `write`.
        action: &'static str,
        /// Path of the run's database.
        path: PathBuf,
        /// Message that states the cause, from SQLite if it reported one.
        cause: String,
    },
    /// A file could not be written, because the disk is full. Holds the file.
    #[error("cannot write {}: the disk is full; free some space and use --resume", .0.display())]
    Full(PathBuf),
    /// An earlier write to the journal failed, so that nothing more is written. Holds the path of
    /// the database and the message of the failed write.
    #[error("the journal {path} accepts no more steps after a failed write ({1}): fix the cause and use --resume", path = .0.display())]
    Stopped(PathBuf, String),
    /// A file of the run was removed or replaced while the run was being written. Holds the file.
    #[error("{} was removed or replaced during the run: restore the run's directory and use --resume", .0.display())]
    Moved(PathBuf),
    /// A write was requested, but the journal was opened for reading. Holds the path of the
    /// database.
    #[error("{} is open for reading only: open it with resume to write", .0.display())]
    ReadOnly(PathBuf),
    /// A step with the same kind and key was committed with another result: the run is not
    /// deterministic, or the run's configuration was changed.
    #[error(
        "step {kind} {key:?} (number {n} in the journal) was stored with a different result: resume with the same version and settings, or start again with another --run DIR"
    )]
    Conflict {
        /// Number of the stored step in the journal.
        n: u64,
        /// Kind of the step.
        kind: String,
        /// Key of the step within its kind.
        key: String,
    },
    /// A part of a step, or of the configuration, is larger than a limit.
    #[error("{what} is larger than the limit of {limit} {unit}")]
    TooLarge {
        /// Part that is too large, with its step.
        what: String,
        /// Limit of the part's size, in `unit`.
        limit: usize,
        /// Unit of the limit, such as `bytes`.
        unit: &'static str,
    },
    /// The key of a reply is empty, too long, or has whitespace.
    #[error("the key of a reply must have 1 to {KEY_BYTES} bytes and no spaces")]
    BadKey,
    /// A step uses a reply that is not stored in the journal.
    #[error("step {kind} {key:?} names the reply {reply:?}, which is not stored: store it first")]
    UnknownReply {
        /// Kind of the step.
        kind: String,
        /// Key of the step within its kind.
        key: String,
        /// Key of the reply.
        reply: String,
    },
    /// The result of a step, or a reply, cannot be written as JSON.
    #[error("step {kind} {key:?} cannot be stored: {source}")]
    Encode {
        /// Kind of the step.
        kind: String,
        /// Key of the step within its kind.
        key: String,
        /// Error of the serialization.
        source: serde_json::Error,
    },
    /// The stored result of a step, or a stored reply, cannot be read as the requested type.
    #[error(
        "step {kind} {key:?} cannot be decoded: {source}; resume with the version that started the \
         run"
    )]
    Decode {
        /// Kind of the step.
        kind: String,
        /// Key of the step within its kind.
        key: String,
        /// Error of the deserialization.
        source: serde_json::Error,
    },
    /// The prefix of a program's id is too short, too long or not hexadecimal. Holds the prefix.
    #[error("{0:?} does not name a program: give 6 to 64 hexadecimal digits of its id")]
    BadPrefix(String),
    /// The ids of several programs begin with the prefix.
    #[error("{prefix:?} names several programs: {}; give more digits", .ids.join(", "))]
    Ambiguous {
        /// Prefix of a program's id that was given.
        prefix: String,
        /// Ids that begin with the prefix, ascending; at most ten.
        ids: Vec<String>,
    },
}

impl JournalError {
    /// Returns a function that converts the error of a file operation (`action` on `path`).
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(path),
            _ => Self::Io { action, path, source },
        }
    }
}

/// Returns the text that names the holder of a lock in a message, such as `process 17`.
fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}
