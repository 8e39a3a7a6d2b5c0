//! Indexes of a knowledge base: build, save atomically, open read-only.

pub mod arrays;
pub mod names;
pub mod terms;
pub mod text;

use std::{io, path::Path};

/// Why an index could not be built or opened.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A file could not be read or written.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("index {path} is damaged or of another version: {what}; rebuild it with `agent index --force`")]
    Damaged {
        /// The file or directory.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// The base passes a limit of the index format.
    #[error("too many {0}: at most {1}")]
    TooLarge(&'static str, u64),
}

impl IndexError {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.display().to_string(), source }
    }

    fn damaged(path: &Path, what: String) -> Self {
        Self::Damaged { path: path.display().to_string(), what }
    }
}
