//! A directory to which only one user may write, with a key that only this user can read. Data with
//! a digest under this key were written by this user, on this machine.
//!
//! Anyone who can read the key can impersonate the user, so the directory must not be part of data
//! that are shared or copied.

use std::{
    collections::hash_map::RandomState,
    fs,
    hash::BuildHasher as _,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

/// Length of the key and of a keyed digest, in bytes.
pub(super) const KEY_BYTES: usize = 32;
/// Name of the file that holds the key.
const KEY_FILE: &str = "key";

/// An open private directory, with its key.
#[derive(Clone, Debug)]
pub(super) struct PrivateDir {
    path: PathBuf,
    key: [u8; KEY_BYTES],
}

impl PrivateDir {
    /// Opens the directory; creates it and its key if missing. `None` if that fails, or if other
    /// users may write to the directory.
    pub(super) fn open(path: &Path) -> Option<Self> {
        create_private(path).ok()?;
        if !is_private(path) {
            return None;
        }
        let key = read_key(path).or_else(|| {
            write_key(path).ok()?;
            read_key(path)
        })?;
        Some(Self { path: path.to_owned(), key })
    }

    /// Opens a directory that exists and has a key; otherwise returns `None`. Creates nothing.
    pub(super) fn find(path: &Path) -> Option<Self> {
        let key = is_private(path).then(|| read_key(path)).flatten()?;
        Some(Self { path: path.to_owned(), key })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Computes the keyed digest of the concatenated parts. All parts but one must have a fixed
    /// length, so that different parts never have the same concatenation.
    pub(super) fn seal(&self, parts: &[&[u8]]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }

    /// Writes the parts to the file `name` in the directory, atomically; only its owner can read
    /// the file.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn publish(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        publish(&self.path, name, parts)
    }

    /// Removes the oldest files with the extension `suffix` until at most `max_files` of them are
    /// left.
    pub(super) fn keep_newest(&self, suffix: &str, max_files: usize) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        let mut files: Vec<_> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().extension().is_some_and(|found| found == suffix))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        files.sort();
        let surplus = files.len().saturating_sub(max_files);
        for (_, path) in files.iter().take(surplus) {
            // Another process may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

fn publish(dir: &Path, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    // Readable by its owner only.
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    for part in parts {
        file.write_all(part)?;
    }
    file.as_file().sync_all()?;
    file.persist(dir.join(name))?;
    Ok(())
}

fn read_key(dir: &Path) -> Option<[u8; KEY_BYTES]> {
    let path = dir.join(KEY_FILE);
    if !is_private(&path) {
        return None;
    }
    let mut key = Vec::new();
    fs::File::open(path).ok()?.take(KEY_BYTES as u64 + 1).read_to_end(&mut key).ok()?;
    key.try_into().ok()
}

/// Creates the file with a random key, which is derived from the random seeds of the standard
/// library's hashers. If several processes create the file at once, the first key stays.
fn write_key(dir: &Path) -> io::Result<()> {
    let mut hasher = blake3::Hasher::new();
    for part in 0..8u64 {
        hasher.update(&RandomState::new().hash_one(part).to_le_bytes());
    }
    let (path, key) = (dir.join(KEY_FILE), hasher.finalize());
    if path.exists() {
        // The existing file is not a key.
        return publish(dir, KEY_FILE, &[key.as_bytes()]);
    }
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(key.as_bytes())?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(&path) {
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done.map(drop).map_err(|error| error.error),
    }
}

/// Creates a directory that only its owner can access, regardless of the umask.
#[cfg(unix)]
fn create_private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(not(unix))]
fn create_private(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

/// Whether this user owns the file or directory, and no other user may write to it.
#[cfg(unix)]
fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let writable_by_others = 0o022;
    fs::symlink_metadata(path).is_ok_and(|found| {
        let mine = fs::metadata("/proc/self").map_or(true, |process| process.uid() == found.uid());
        !found.is_symlink() && found.mode() & writable_by_others == 0 && mine
    })
}

#[cfg(not(unix))]
fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink())
}

#[cfg(test)]
mod tests {
    use super::PrivateDir;

    #[test]
    fn a_directory_is_found_only_where_it_was_made() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a/b");
        assert!(PrivateDir::find(&path).is_none() && !path.exists());
        let made = PrivateDir::open(&path).expect("usable");
        let found = PrivateDir::find(&path).expect("made");
        assert_eq!(made.seal(&[b"one", b"two"]), found.seal(&[b"onetwo"]));
        let other = PrivateDir::open(&dir.path().join("c")).expect("usable");
        assert_ne!(made.seal(&[b"one"]), other.seal(&[b"one"]));
    }

    #[test]
    fn the_oldest_files_go_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = PrivateDir::open(dir.path()).expect("usable");
        for n in 0..5u8 {
            own.publish(&format!("{n}.x"), &[&[n]]).expect("written");
        }
        own.keep_newest("x", 2);
        let left = std::fs::read_dir(dir.path()).expect("listed").count();
        assert_eq!(left, 3, "two files and the key");
        assert!(PrivateDir::find(dir.path()).is_some());
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_others_may_write_to_is_not_used() {
        use std::{fs, os::unix::fs::PermissionsExt as _};
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("set");
        assert!(PrivateDir::open(dir.path()).is_none());
        assert!(PrivateDir::find(dir.path()).is_none());
    }
}
