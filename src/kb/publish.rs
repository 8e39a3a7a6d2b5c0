//! Publishes a finished directory under its final name, atomically for readers.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use crate::{KbError, Result};

/// Renames the directory `finished` to `target`, replacing a directory of that name.
///
/// Both must be on one file system, such as in the same folder. An old directory is first renamed
/// to `.old-<name>` and deleted last; if `finished` cannot be renamed, the old directory gets its
/// name back. Readers that have files of the old directory open keep these.
///
/// # Errors
/// [`KbError::Io`]. If a rename fails, `target` is as before, and `finished` still exists.
pub fn publish(finished: &Path, target: &Path) -> Result<()> {
    sync_dir(finished)?;
    let aside = aside(target);
    let replaces = target.exists();
    if replaces {
        remove_if_present(&aside)?;
        fs::rename(target, &aside).map_err(KbError::io("set aside", target))?;
    }
    if let Err(error) = fs::rename(finished, target) {
        if replaces {
            fs::rename(&aside, target).map_err(KbError::io("put back", target))?;
        }
        return Err(KbError::io("publish", target)(error));
    }
    if let Some(parent) = target.parent() {
        sync_dir(parent)?;
    }
    // Best effort: remains of the old directory do no harm and are removed by the next publish.
    let _ = remove_if_present(&aside);
    Ok(())
}

/// Whether a [`publish`] to `target` has set the old directory aside and not yet renamed the new
/// one, because it is still running or was interrupted.
pub fn is_set_aside(target: &Path) -> bool {
    !target.exists() && aside(target).exists()
}

/// Restores the name of the directory that an interrupted [`publish`] set aside; does nothing if
/// `target` exists.
pub fn recover(target: &Path) -> Result<()> {
    if is_set_aside(target) {
        fs::rename(aside(target), target).map_err(KbError::io("put back", target))?;
    }
    Ok(())
}

/// Removes the directory that an interrupted [`publish`] to `target` set aside, if there is one.
pub fn remove_set_aside(target: &Path) -> Result<()> {
    remove_if_present(&aside(target))
}

/// Syncs the entries of a directory to the disk, so that a rename in it survives a power cut.
///
/// # Errors
/// [`KbError::Io`] if the directory cannot be opened or synced.
pub fn sync_dir(dir: &Path) -> Result<()> {
    if cfg!(unix) {
        File::open(dir).and_then(|file| file.sync_all()).map_err(KbError::io("write", dir))?;
    }
    Ok(())
}

fn aside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".old-{name}"))
}

fn remove_if_present(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(KbError::io("remove", dir)(error))
        }
        _ => Ok(()),
    }
}
