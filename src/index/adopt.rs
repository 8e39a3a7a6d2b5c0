//! Takes the index of one version of a base over for another with the same nodes and edges.
//! Must not know what is in the files: they are never changed in place, so they may be shared.

use std::{fs, io, path::Path};

use crate::{
    IndexError,
    layout::{Staging, VECTORS, WORDS},
};

/// Folders in one another below a part.
const MAX_DEPTH: usize = 6;

/// Links the files of an index into another index directory, or copies them where the file system
/// has no links. Each part appears when it is whole; one that is there already is replaced.
///
/// # Errors
/// That a file cannot be linked or copied.
pub fn adopt(from: &Path, to: &Path) -> Result<(), IndexError> {
    for part in [WORDS, VECTORS] {
        let source = from.join(part);
        if !source.is_dir() {
            continue;
        }
        let staging = Staging::new(to)?;
        link_all(&source, staging.path(), MAX_DEPTH)
            .map_err(|error| IndexError::io(&source, error))?;
        staging.publish(&to.join(part))?;
    }
    Ok(())
}

fn link_all(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        // Work under way.
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if entry.file_type()?.is_dir() {
            if depth > 0 {
                fs::create_dir(&target)?;
                link_all(&source, &target, depth - 1)?;
            }
            continue;
        }
        if fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}
