//! Errors of a journal. Each message names the file or step and the remedy.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Error of opening, reading or writing a journal.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The directory of a new run holds a run.
    #[error("{} already holds a run: continue it with --resume, or name another --run DIR", .dir.display())]
    Exists {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory of a new run holds other files.
    #[error("{} is not empty (it contains {found:?}): name another --run DIR", .dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// Name of a file in it.
        found: String,
    },
    /// There is no run to resume or to read.
    #[error("{} holds no run: {why}", .dir.display())]
    NotARun {
        /// The directory.
        dir: PathBuf,
        /// The missing file or directory, and the remedy.
        why: &'static str,
    },
    /// Another process writes the run. Its id is unknown if the system hides a locked file or if
    /// the process has just started.
    #[error("the run in {} is in use by {}: wait for it to end, or stop it", .dir.display(), holder(*.pid))]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// The process that holds it.
        pid: Option<u32>,
    },
    /// The stored data differ from the written ones.
    #[error("{} is damaged: {what}; restore it from a copy, or start again with another --run DIR", .path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// The first defect found.
        what: String,
    },
    /// A later version wrote the run.
    #[error("{} has journal format {found}, this version reads up to {supported}: use a newer version", .path.display())]
    NewerVersion {
        /// The database.
        path: PathBuf,
        /// The format found.
        found: i64,
        /// The newest format that can be read.
        supported: i64,
    },
    /// An earlier version wrote the run.
    #[error("{} has journal format {found}, this version reads format {supported}: use the version that started the run, or start again with another --run DIR", .path.display())]
    OlderVersion {
        /// The database.
        path: PathBuf,
        /// The format found.
        found: i64,
        /// The format that can be read.
        supported: i64,
    },
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// Attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The database could not read or write its files. The current step is stored either completely
    /// or not at all.
    #[error("cannot {action} {}: {cause}", .path.display())]
    Storage {
        /// Attempted action.
        action: &'static str,
        /// The database.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// The disk is full.
    #[error("cannot write {}: the disk is full; free some space and use --resume", .path.display())]
    Full {
        /// The file that was written.
        path: PathBuf,
    },
    /// An earlier write failed, so that nothing more is written.
    #[error("the journal {} accepts no more steps after a failed write ({cause}): fix the cause and use --resume", .path.display())]
    Stopped {
        /// The database.
        path: PathBuf,
        /// Message of the failed write.
        cause: String,
    },
    /// The files of the run were removed or replaced while the run was being written.
    #[error("{} was removed or replaced during the run: restore the run's directory and use --resume", .path.display())]
    Moved {
        /// The missing file.
        path: PathBuf,
    },
    /// The journal was opened for reading.
    #[error("{} was opened for reading: open it with resume to write", .path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// The same step was committed with another result: the run is not deterministic, or its
    /// configuration was changed.
    #[error(
        "step {kind} {key:?} was stored as number {n} with another result: resume with the same version and settings, or start again with another --run DIR"
    )]
    Conflict {
        /// Number of the stored step.
        n: u64,
        /// Kind of step.
        kind: String,
        /// Key of the step within its kind.
        key: String,
    },
    /// A part of a step is larger than a limit.
    #[error("{what} is larger than the limit of {limit} {unit}")]
    TooLarge {
        /// The part and its step.
        what: String,
        /// The limit.
        limit: usize,
        /// Unit of the limit.
        unit: &'static str,
    },
    /// The key of a reply is empty, too long, or has spaces.
    #[error("the key of a reply must have 1 to {limit} bytes and no spaces")]
    BadKey {
        /// Maximum length, bytes.
        limit: usize,
    },
    /// A step names a reply that is not stored.
    #[error("step {kind} {key:?} names the reply {reply:?}, which is not stored: store it first")]
    UnknownReply {
        /// Kind of step.
        kind: String,
        /// Key of the step within its kind.
        key: String,
        /// Key of the reply.
        reply: String,
    },
    /// A result cannot be written as JSON.
    #[error("step {kind} {key:?} cannot be stored: {source}")]
    Encode {
        /// Kind of step.
        kind: String,
        /// Key of the step within its kind.
        key: String,
        /// Error of the serialization.
        source: serde_json::Error,
    },
    /// A result does not read back as the requested type.
    #[error(
        "step {kind} {key:?} does not read back as the expected type: {source}; resume with the version that started the run"
    )]
    Decode {
        /// Kind of step.
        kind: String,
        /// Key of the step within its kind.
        key: String,
        /// Error of the deserialization.
        source: serde_json::Error,
    },
    /// The prefix of a program's id is too short, too long or not hexadecimal.
    #[error("{prefix:?} does not name a program: give 6 to 64 hexadecimal digits of its id")]
    BadPrefix {
        /// The given prefix.
        prefix: String,
    },
    /// Several programs have the prefix.
    #[error("{prefix:?} names several programs: {}; give more digits", .ids.join(", "))]
    Ambiguous {
        /// The given prefix.
        prefix: String,
        /// The first ids with the prefix, ascending; at most ten.
        ids: Vec<String>,
    },
}

impl JournalError {
    /// Converts the error of a file operation.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::Io { action, path, source },
        }
    }
}

/// Names the holder of a lock in a message.
fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}
