//! Publishes a finished directory under its name, atomically for readers.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use crate::KbError;

/// Renames `finished` to `target`, replacing a directory of that name.
///
/// Both must be on one file system, such as siblings. An old directory is set aside as
/// `.old-<name>` first and deleted last; if the second rename fails it is put back. Readers that
/// have the old directory open keep it.
///
/// # Errors
/// [`KbError::Io`]; then `target` is unchanged, and `finished` still exists.
pub fn publish(finished: &Path, target: &Path) -> Result<(), KbError> {
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

/// Whether a [`publish`] to `target` is under way or was interrupted.
pub fn is_set_aside(target: &Path) -> bool {
    !target.exists() && aside(target).exists()
}

/// Restores the directory that an interrupted [`publish`] set aside, if `target` does not exist.
pub fn recover(target: &Path) -> Result<(), KbError> {
    if is_set_aside(target) {
        fs::rename(aside(target), target).map_err(KbError::io("put back", target))?;
    }
    Ok(())
}

/// Removes the directory that an interrupted [`publish`] to `target` set aside.
pub fn remove_set_aside(target: &Path) -> Result<(), KbError> {
    remove_if_present(&aside(target))
}

/// Syncs the entries of a directory to the disk, so that a rename survives a power cut.
///
/// # Errors
/// [`KbError::Io`] if the directory cannot be opened or synced.
pub fn sync_dir(dir: &Path) -> Result<(), KbError> {
    if cfg!(unix) {
        File::open(dir).and_then(|file| file.sync_all()).map_err(KbError::io("write", dir))?;
    }
    Ok(())
}

fn aside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".old-{name}"))
}

fn remove_if_present(dir: &Path) -> Result<(), KbError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(KbError::io("remove", dir)(error))
        }
        _ => Ok(()),
    }
}
