//! The lock of a run directory, and checks that files of the run were not moved.
//!
//! The lock is the operating system's lock on the file `lock`, not the file's existence. The system
//! releases the lock however its holder ends, and a copied directory is not locked. The file
//! contains the process id of the holder in decimal, which is used only in messages.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use crate::journal::{JournalError, Result};
use agent_ground::files;

/// Name of the lock file in a run directory.
pub(super) const LOCK_FILE: &str = "lock";
/// Maximum number of attempts to take the lock. Also the maximum number of attempts to read the
/// holder's process id, which is written just after locking.
const MAX_TRIES: usize = 5;
/// Pause between two attempts, in milliseconds.
const RETRY_MS: u64 = 5;
/// Maximum number of bytes that are read from a lock file.
const CONTENT_BYTES: u64 = 32;

/// The lock of a run directory, which is held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    /// Path and identity of the lock file when it was locked.
    pub(super) location: FileLocation,
}

impl Lock {
    /// Takes the lock of an existing run directory.
    pub(super) fn take(dir: &Path) -> Result<Self> {
        let path = dir.join(LOCK_FILE);
        let mut file = files::open_to_lock(&path).map_err(JournalError::io("open", &path))?;
        let mut locked = file.try_lock();
        for _ in 1..MAX_TRIES {
            if !matches!(locked, Err(TryLockError::WouldBlock)) {
                break;
            }
            // `writer_pid` briefly holds a shared lock.
            thread::sleep(Duration::from_millis(RETRY_MS));
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
        // The file may have been replaced between opening and locking.
        let location = FileLocation::new(&path, file.metadata())?;
        location.check()?;
        Ok(Self { file, location })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The system releases the lock when the file closes; a stale id would only appear in
        // messages until the next holder writes its own.
        let _ = self.file.set_len(0);
    }
}

/// Returns the process id in a lock file, after several attempts to read it; `None` if it cannot be
/// read.
fn holder(path: &Path) -> Option<u32> {
    (0..MAX_TRIES).find_map(|attempt| {
        if attempt > 0 {
            thread::sleep(Duration::from_millis(RETRY_MS));
        }
        number(files::open(path).ok()?)
    })
}

/// Reads the process id in a lock file; `None` if there is none.
fn number(file: File) -> Option<u32> {
    let mut content = String::new();
    file.take(CONTENT_BYTES).read_to_string(&mut content).ok()?;
    content.trim().parse().ok()
}

/// Returns the id of the process that writes the run in a directory; `None` if no process does, or
/// if the process has just started. Does not block.
pub fn writer_pid(dir: &Path) -> Option<u32> {
    let path = dir.join(LOCK_FILE);
    // A killed process leaves its id behind.
    let pid = number(files::open(&path).ok()?)?;
    let file = files::open(&path).ok()?;
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then_some(pid)
}

/// A path and the identity of the file at this path. Shows whether the file was removed or
/// replaced: an open file can still be written after its name is gone.
#[derive(Clone, Debug)]
pub(super) struct FileLocation {
    path: PathBuf,
    /// Device and inode of the file; `None` on systems without inodes.
    file: Option<(u64, u64)>,
}

impl FileLocation {
    /// Returns the path with the identity of the file that is there now.
    pub(super) fn current(path: &Path) -> Result<Self> {
        Self::new(path, fs::metadata(path))
    }

    /// Returns the path with the identity of the file that has these metadata.
    fn new(path: &Path, metadata: io::Result<fs::Metadata>) -> Result<Self> {
        let metadata = metadata.map_err(JournalError::io("find", path))?;
        Ok(Self { path: path.to_owned(), file: identity(&metadata) })
    }

    /// Fails with [`JournalError::Moved`] unless the same file is still at the path.
    pub(super) fn check(&self) -> Result<()> {
        match fs::metadata(&self.path) {
            Ok(metadata) if identity(&metadata) == self.file => Ok(()),
            _ => Err(JournalError::Moved(self.path.clone())),
        }
    }
}

/// Returns the device and inode of a file, which identify it.
#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns `None`: this system has no inodes.
#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> Option<(u64, u64)> {
    None
}
