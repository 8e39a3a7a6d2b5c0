//! Reuses the index of one version of a base for another version that has the same nodes and edges.
//! Index files are never changed in place, so both versions can share them as hard links.

use std::{fs, io, path::Path};

use crate::{
    IndexError, Result,
    layout::{Staging, VECTORS, WORDS},
};

/// Maximum depth of folders below a part; deeper folders are not linked.
const MAX_DEPTH: usize = 6;

/// Hard-links the files of the index `source_index` into the directory `target_index`; copies files
/// that cannot be linked. Each part is published when all its files are there, and replaces an
/// existing part.
///
/// # Errors
/// [`IndexError::Io`] if a file cannot be linked or copied.
pub fn adopt(source_index: &Path, target_index: &Path) -> Result<()> {
    for part in [WORDS, VECTORS] {
        let source = source_index.join(part);
        if !source.is_dir() {
            continue;
        }
        let staging = Staging::new(target_index)?;
        link_all(&source, staging.path(), MAX_DEPTH).map_err(IndexError::io(&source))?;
        staging.publish(&target_index.join(part))?;
    }
    Ok(())
}

fn link_all(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let is_dir = entry.file_type()?.is_dir();
        // Hidden entries are unfinished work.
        if entry.file_name().to_string_lossy().starts_with('.') || is_dir && depth == 0 {
            continue;
        }
        if is_dir {
            fs::create_dir(&target)?;
            link_all(&source, &target, depth - 1)?;
        } else if fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}
