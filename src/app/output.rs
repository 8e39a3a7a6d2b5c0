//! Writes files atomically: a file appears under its path only when it is complete. Does not depend
//! on the content.

use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use tempfile::NamedTempFile;

use crate::Result;
use agent_ground::files;

/// A file being written, which appears under its path only when it is complete.
pub struct Output {
    path: PathBuf,
    file: NamedTempFile,
}

impl Output {
    /// Creates a temporary file beside `path`, so that an unwritable path fails before any work.
    ///
    /// # Errors
    /// If `path` is not a regular file, or its directory is not writable.
    pub fn begin(path: &Path) -> Result<Output> {
        let (file, path) =
            files::begin_output(path, ".run-").with_context(|| cannot_write(path))?;
        Ok(Output { path, file })
    }

    /// Lets `content` write the file, then gives the file its path.
    ///
    /// # Errors
    /// If the file cannot be written; a file that existed under the path then stays.
    pub fn finish(self, content: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> Result<()> {
        let Output { path, file } = self;
        let write = || {
            let mut out = BufWriter::new(file);
            content(&mut out)?;
            out.into_inner().map_err(|error| error.into_error())?.persist(&path)?;
            anyhow::Ok(())
        };
        Ok(write().with_context(|| cannot_write(&path))?)
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Writes a file atomically: `content` writes it, and it appears at `path` only when it is
/// complete.
///
/// # Errors
/// If the file cannot be written; a file that existed under the path then stays.
pub fn write(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> Result<()> {
    Output::begin(path)?.finish(content)
}
