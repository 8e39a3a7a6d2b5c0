//! Marks directories that this program owns, so that it never removes files from any other
//! directory.
//!
//! ```text
//! DIR/.agent-directory     the kind of the directory, one line
//! ```
//!
//! Does not depend on what the directories contain.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use crate::files;

/// Name of the marker file in an owned directory.
const MARKER: &str = ".agent-directory";
/// Maximum size of a marker file, in bytes.
const MAX_MARKER_BYTES: u64 = 64;

/// Why a directory cannot be taken into ownership.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnedDirError {
    /// The directory holds files and is not marked with the expected kind.
    #[error("{} holds other files and is not a {kind}; name a new or empty directory", path.display())]
    NotOwned {
        /// The directory.
        path: PathBuf,
        /// The expected kind.
        kind: &'static str,
    },
    /// A file operation failed.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Marks a directory as owned, with a kind such as `pool`; creates it if missing. An existing
/// directory must be empty or already marked with the same kind. Several processes may mark the
/// same directory at the same time.
///
/// # Errors
/// [`OwnedDirError`] if the directory holds other files or cannot be used; no file in it is then
/// changed.
pub fn take(dir: &Path, kind: &'static str) -> Result<(), OwnedDirError> {
    let failed = |source| OwnedDirError::Io { path: dir.to_owned(), source };
    fs::create_dir_all(dir).map_err(failed)?;
    if is_marked(dir, kind) {
        return Ok(());
    }
    if !is_empty(dir).map_err(failed)? {
        return owned(dir, kind);
    }
    let mark = || -> io::Result<()> {
        let mut file = files::temporary_file(dir, MARKER)?;
        writeln!(file, "{kind}")?;
        match file.persist_noclobber(dir.join(MARKER)) {
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
            _ => Ok(()),
        }
    };
    mark().map_err(failed)?;
    owned(dir, kind)
}

/// Returns an error unless the directory is marked with this kind; another process may have marked
/// it in the meantime.
fn owned(dir: &Path, kind: &'static str) -> Result<(), OwnedDirError> {
    let other = || OwnedDirError::NotOwned { path: dir.to_owned(), kind };
    is_marked(dir, kind).then_some(()).ok_or_else(other)
}

fn is_marked(dir: &Path, kind: &str) -> bool {
    let read = files::read(&dir.join(MARKER), MAX_MARKER_BYTES);
    read.is_ok_and(|bytes| bytes.strip_suffix(b"\n") == Some(kind.as_bytes()))
}

/// Whether a directory holds at most a marker file and temporary files for it.
fn is_empty(dir: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        if !entry?.file_name().to_string_lossy().starts_with(MARKER) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_empty_and_marked_directories_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("a/new");
        take(&new, "pool").unwrap();
        fs::write(new.join("file"), "kept").unwrap();
        take(&new, "pool").unwrap();
        assert!(matches!(take(&new, "run"), Err(OwnedDirError::NotOwned { kind: "run", .. })));
        let other = dir.path().join("a");
        assert!(matches!(take(&other, "pool"), Err(OwnedDirError::NotOwned { .. })));
        assert_eq!(fs::read_dir(other).unwrap().count(), 1, "nothing was written");
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(matches!(take(&dir.path().join("file"), "pool"), Err(OwnedDirError::Io { .. })));
    }
}
