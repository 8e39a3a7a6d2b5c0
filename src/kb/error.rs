//! Errors of knowledge bases on disk.

use std::{io, path::PathBuf};

/// Result of writing, opening or publishing a knowledge base.
pub type Result<T, E = KbError> = std::result::Result<T, E>;

/// Why a base could not be written or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KbError {
    /// A file or directory could not be read or written, for example because the disk is full.
    #[error("cannot {action} {path}: {source}{}", files::remedy(source))]
    Io {
        /// The attempted action, an infinitive such as "write" or "open".
        action: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The directory contains no base.
    #[error("{path} is not a knowledge base: it has no manifest.json; import the dataset again")]
    NotABase {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The base has a format version that this program cannot read.
    #[error(
        "{path} has format {found}, but this program reads format {supported}; import the dataset \
         again"
    )]
    Version {
        /// Path of the manifest of the base.
        path: PathBuf,
        /// Format version of the base.
        found: u64,
        /// The only supported format version.
        supported: u64,
    },
    /// A file does not match the manifest or its own format.
    #[error("{path} is damaged: {reason}; import the dataset again")]
    Damaged {
        /// Path of the damaged file.
        path: PathBuf,
        /// How the file is damaged, a clause such as "it is not a graph file".
        reason: String,
    },
    /// The base exceeds a limit of the format.
    #[error("more than {limit} {what}; split the base or merge rare {what}")]
    TooMany {
        /// What exceeds the limit, as a plural noun such as "nodes".
        what: &'static str,
        /// Maximum number of these things.
        limit: u64,
    },
    /// The name of a type, relation or field, or the key of a node, is empty or too long.
    #[error("{what} name of {bytes} bytes; use 1 to {limit} bytes")]
    BadLabel {
        /// What is named, such as "relation".
        what: &'static str,
        /// Length of the name, in bytes.
        bytes: usize,
        /// Maximum length of such a name, in bytes.
        limit: usize,
    },
    /// The name of a type or relation, or the key of a node, contains a character that ends a line,
    /// moves a cursor or changes the direction of text.
    #[error("{what} name {shown} contains a control character; rename it in the data")]
    ControlInLabel {
        /// What is named, such as "relation".
        what: &'static str,
        /// The beginning of the name, quoted, with control characters escaped.
        shown: String,
    },
    /// An edge starts or ends at a node that was not written.
    #[error(
        "edge {source_id} -> {target_id} refers to a node outside 0..{n_nodes}; add the node first"
    )]
    EdgeOutOfRange {
        /// Id of the node at which the edge starts.
        source_id: NodeId,
        /// Id of the node at which the edge ends.
        target_id: NodeId,
        /// Number of nodes written so far; ids are below this number.
        n_nodes: u32,
    },
    /// The base has no nodes.
    #[error("the base has no nodes; add at least one")]
    NoNodes,
    /// Some nodes of the base have a key and others have none.
    #[error("some nodes have an id and others have none; give one to all nodes or to none")]
    MissingKeys,
    /// A candidate type is not the type of any node.
    #[error("candidate type \"{name}\" is not a node type; use some of: {known}, or \"*\" for all")]
    UnknownCandidateType {
        /// Name of the candidate type.
        name: String,
        /// Names of the types of the base, comma-separated.
        known: String,
    },
    /// Words are given for something that is neither a type nor a relation.
    #[error(
        "said_as names \"{name}\", which is neither a type nor a relation; use some of: {known}"
    )]
    UnknownSaidAs {
        /// The name that words are given for.
        name: String,
        /// Names of the types and relations of the base, comma-separated.
        known: String,
    },
    /// The caller stopped the build of a base.
    #[error("stopped before the base was complete")]
    Stopped,
    /// The machine is big-endian, so it cannot map the little-endian files of a base.
    #[error("bases are little-endian files; this machine is big-endian and cannot map them")]
    BigEndian,
}

use crate::NodeId;
use agent_ground::files;

impl KbError {
    /// Returns a function that converts an I/O error into [`KbError::Io`], with the attempted
    /// action and the path.
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
