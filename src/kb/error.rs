//! Errors of stored bases.

use std::{io, path::PathBuf};

/// Why a base could not be written or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KbError {
    /// A file or directory could not be read or written, for example because the disk is full.
    #[error("cannot {action} {path}: {source}{}", files::remedy(source))]
    Io {
        /// Attempted action, an infinitive ("write", "open").
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The directory holds no base.
    #[error("{path} is not a knowledge base: it has no manifest.json; import the dataset again")]
    NotABase {
        /// The directory.
        path: PathBuf,
    },
    /// The base has another format version.
    #[error(
        "{path} has format {found}, this program reads format {supported}; import the dataset again"
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// Its format version.
        found: u64,
        /// The only supported format version.
        supported: u64,
    },
    /// A file does not agree with the manifest or with its own format.
    #[error("{path} is damaged: {reason}; import the dataset again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The mismatch.
        reason: String,
    },
    /// A limit of the format is exceeded.
    #[error("more than {limit} {what}; split the base or merge rare {what}")]
    TooMany {
        /// The counted things, plural.
        what: &'static str,
        /// Maximum number.
        limit: u64,
    },
    /// A type, relation or field name is empty or too long.
    #[error("{what} name of {bytes} bytes; use 1 to {limit} bytes")]
    BadLabel {
        /// The kind of name.
        what: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// Maximum length, bytes.
        limit: usize,
    },
    /// A type or relation name holds a character that ends a line, moves a cursor or changes the
    /// direction of text.
    #[error("{what} name {shown} holds a control character; rename it in the data")]
    ControlInLabel {
        /// The kind of name.
        what: &'static str,
        /// Its beginning, quoted, with such characters escaped.
        shown: String,
    },
    /// An edge names a node that was not written.
    #[error(
        "edge {source_id} -> {target_id} names a node outside 0..{n_nodes}; add the node first"
    )]
    EdgeOutOfRange {
        /// Source id of the edge.
        source_id: NodeId,
        /// Destination id of the edge.
        target_id: NodeId,
        /// Number of nodes.
        n_nodes: u32,
    },
    /// A base needs at least one node.
    #[error("the base has no nodes; add at least one")]
    NoNodes,
    /// Some nodes have a key and others none.
    #[error("some nodes have an id and others have none; give one to all nodes or to none")]
    MissingKeys,
    /// A candidate type is not a type of any node.
    #[error("candidate type \"{name}\" is not a node type; use some of: {known}, or \"*\" for all")]
    UnknownCandidateType {
        /// The unknown name.
        name: String,
        /// The types of the base, comma-separated.
        known: String,
    },
    /// The caller asked to stop.
    #[error("stopped before the base was complete")]
    Stopped,
    /// The machine is big-endian.
    #[error("bases are little-endian files; this machine is big-endian and cannot map them")]
    BigEndian,
}

use crate::NodeId;
use agent_ground::files;

impl KbError {
    /// Wraps an I/O error with the attempted action and the path.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> KbError {
        let path = path.into();
        move |source| KbError::Io { action, path, source }
    }

    pub(crate) fn damaged(path: impl Into<PathBuf>, reason: impl Into<String>) -> KbError {
        KbError::Damaged { path: path.into(), reason: reason.into() }
    }
}
