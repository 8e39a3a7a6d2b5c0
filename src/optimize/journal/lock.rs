//! One writer per run directory, and whether files are still the ones that were opened.
//!
//! The lock is the operating system's lock on the file `lock`, not the file's existence, so that
//! the system releases it however its holder ends, and a copied directory is not locked. The
//! file's content, the holder's process number in decimal, only serves the message that others
//! get. Must not know the database.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read, Write},
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use crate::journal::JournalError;

/// Name of the lock file in a run directory.
pub(super) const LOCK_FILE: &str = "lock";
/// Times to try for the lock, and to look for the holder's number, which follows the lock by an
/// instant.
const LOOKS: usize = 5;
/// Wait between two looks, milliseconds.
const LOOK_MS: u64 = 5;
/// Longest content of the lock file that is read, bytes.
const CONTENT_BYTES: u64 = 32;

/// The lock of a run directory, held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    /// Where the lock file was when it was locked.
    pub(super) place: Place,
}

impl Lock {
    /// Takes the lock of an existing directory, or says at once who has it.
    pub(super) fn take(dir: &Path) -> Result<Self, JournalError> {
        let path = dir.join(LOCK_FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(JournalError::io("open", &path))?;
        let mut locked = file.try_lock();
        for _ in 1..LOOKS {
            if !matches!(locked, Err(TryLockError::WouldBlock)) {
                break;
            }
            // One who looks whether there is a writer has the file for an instant.
            thread::sleep(Duration::from_millis(LOOK_MS));
            locked = file.try_lock();
        }
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::Locked { dir: dir.to_owned(), pid: holder(&path) });
            }
            Err(TryLockError::Error(source)) => {
                return Err(JournalError::Io { action: "lock", path, source });
            }
        }
        file.set_len(0)
            .and_then(|()| file.write_all(process::id().to_string().as_bytes()))
            .map_err(JournalError::io("write", &path))?;
        // Another may have replaced the file between opening and locking; it then has its own lock.
        let place = Place::of_file(&path, &file)?;
        place.check()?;
        Ok(Self { file, place })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The system releases the lock when the file closes; an old number left behind would
        // only be named in a message during the next holder's first instant.
        let _ = self.file.set_len(0);
    }
}

/// The process number in a lock file that another has locked.
fn holder(path: &Path) -> Option<u32> {
    for look in 0..LOOKS {
        if look > 0 {
            thread::sleep(Duration::from_millis(LOOK_MS));
        }
        if let Some(pid) = File::open(path).ok().and_then(number) {
            return Some(pid);
        }
    }
    None
}

/// The process number in a lock file.
fn number(file: File) -> Option<u32> {
    let mut content = String::new();
    file.take(CONTENT_BYTES).read_to_string(&mut content).ok()?;
    content.trim().parse().ok()
}

/// The process that writes the run in a directory now; none when nobody does, or has only just
/// begun. Does not wait, and keeps nobody from writing.
pub fn writer(dir: &Path) -> Option<u32> {
    let path = dir.join(LOCK_FILE);
    // A number that is left behind was a killed process's.
    let pid = File::open(&path).ok().and_then(number)?;
    let file = File::open(&path).ok()?;
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then_some(pid)
}

/// A path and which file was there, so that removal and replacement are noticed: the system lets
/// an open file be written to long after its name is gone.
#[derive(Clone, Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// Device and number of the file; `None` on systems without them.
    file: Option<(u64, u64)>,
}

impl Place {
    /// The file that is at a path now.
    pub(super) fn of(path: &Path) -> Result<Self, JournalError> {
        let metadata = fs::metadata(path).map_err(JournalError::io("find", path))?;
        Ok(Self { path: path.to_owned(), file: identity(&metadata) })
    }

    /// An open file and the path it should be at.
    fn of_file(path: &Path, file: &File) -> Result<Self, JournalError> {
        let metadata = file.metadata().map_err(JournalError::io("find", path))?;
        Ok(Self { path: path.to_owned(), file: identity(&metadata) })
    }

    /// Fails unless the same file is still at the path.
    pub(super) fn check(&self) -> Result<(), JournalError> {
        match fs::metadata(&self.path) {
            Ok(metadata) if identity(&metadata) == self.file => Ok(()),
            _ => Err(JournalError::Moved { path: self.path.clone() }),
        }
    }
}

/// Device and number of a file.
#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

/// Unknown on this system.
#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> Option<(u64, u64)> {
    None
}
