//! Compiled code on disk, so that a start need not compile.
//!
//! A file holds a keyed digest and the code. Code that was changed, cut short, or put there by
//! somebody who does not know the key is not loaded; it is compiled again. The key is a file that
//! only its owner can read. Whoever can read it can have code run: the directory must belong to the
//! user, as the program itself does.

use std::{
    collections::hash_map::RandomState,
    fs,
    hash::BuildHasher as _,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use wasmtime::{Engine, Module};

/// Length of the key and of a digest, bytes.
const KEY_BYTES: usize = 32;
/// Longest file that is read, bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Files that are kept; the oldest go first.
const MAX_FILES: usize = 32;
/// Ends the name of a file of code.
const SUFFIX: &str = "code";

/// A directory of compiled code.
#[derive(Clone, Debug)]
pub(super) struct CodeCache {
    dir: PathBuf,
    key: [u8; KEY_BYTES],
}

impl CodeCache {
    /// The cache in a directory, which is made if it is not there; `None` when it cannot be used or
    /// others may write to it.
    pub(super) fn open(dir: &Path) -> Option<Self> {
        create_own(dir).ok()?;
        if !is_own(dir) {
            return None;
        }
        let key = read_key(&dir.join("key")).or_else(|| {
            write_key(dir).ok()?;
            read_key(&dir.join("key"))
        })?;
        Some(Self { dir: dir.to_owned(), key })
    }

    fn path(&self, digest: &blake3::Hash) -> PathBuf {
        self.dir.join(format!("{}.{SUFFIX}", digest.to_hex()))
    }

    /// The keyed digest of code that belongs to a module.
    fn seal(&self, digest: &blake3::Hash, code: &[u8]) -> blake3::Hash {
        blake3::Hasher::new_keyed(&self.key).update(digest.as_bytes()).update(code).finalize()
    }

    /// The code of a module if it is there, unchanged, and for this engine.
    pub(super) fn load(&self, engine: &Engine, digest: &blake3::Hash) -> Option<Module> {
        let file = fs::File::open(self.path(digest)).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        let (seal, code) = bytes.split_first_chunk::<KEY_BYTES>()?;
        // Compared in constant time.
        if blake3::Hash::from_bytes(*seal) != self.seal(digest, code) {
            return None;
        }
        // SAFETY: the keyed digest says that these bytes were written by `store`, which got them
        // from the compiler; an engine of another version or set up otherwise refuses them.
        unsafe { Module::deserialize(engine, code) }.ok()
    }

    /// Keeps the code of a module. What fails is left out: the next start compiles.
    pub(super) fn store(&self, module: &Module, digest: &blake3::Hash) {
        let Ok(code) = module.serialize() else { return };
        let seal = self.seal(digest, &code);
        if publish(&self.dir, &self.path(digest), &[seal.as_bytes(), &code]).is_ok() {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        let mut files: Vec<_> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().extension().is_some_and(|suffix| suffix == SUFFIX))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        files.sort();
        let surplus = files.len().saturating_sub(MAX_FILES);
        for (_, path) in files.iter().take(surplus) {
            // Another process may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Writes a file aside, and gives it its name once it is whole.
fn publish(dir: &Path, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    // Readable by its owner only.
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    for part in parts {
        file.write_all(part)?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn read_key(path: &Path) -> Option<[u8; KEY_BYTES]> {
    if !is_own(path) {
        return None;
    }
    fs::read(path).ok()?.try_into().ok()
}

/// Writes a key that nobody can guess: the standard library seeds its hashers from the system.
fn write_key(dir: &Path) -> io::Result<()> {
    let mut hasher = blake3::Hasher::new();
    for part in 0..8u64 {
        hasher.update(&RandomState::new().hash_one(part).to_le_bytes());
    }
    publish(dir, &dir.join("key"), &[hasher.finalize().as_bytes()])
}

/// Makes a directory that only its owner can read, whatever the user's mask.
#[cfg(unix)]
fn create_own(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(not(unix))]
fn create_own(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

/// Whether nobody but its owner may write to a path, and the owner is this user.
#[cfg(unix)]
fn is_own(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let writable_by_others = 0o022;
    fs::symlink_metadata(path).is_ok_and(|found| {
        let mine = fs::metadata("/proc/self").map_or(true, |process| process.uid() == found.uid());
        !found.is_symlink() && found.mode() & writable_by_others == 0 && mine
    })
}

#[cfg(not(unix))]
fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::CodeCache;
    use crate::sandbox::wasm::engine::engine;

    #[test]
    fn changed_code_is_not_loaded() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = CodeCache::open(dir.path()).expect("usable");
        let engine = engine().expect("an engine");
        let bytes = wat::parse_str("(module (func (export \"f\")))").expect("a module");
        let digest = blake3::hash(&bytes);
        assert!(cache.load(engine, &digest).is_none());
        let module = wasmtime::Module::new(engine, &bytes).expect("a module");
        cache.store(&module, &digest);
        assert!(cache.load(engine, &digest).is_some());
        // The key is kept, so another process finds the code as well.
        assert!(CodeCache::open(dir.path()).expect("usable").load(engine, &digest).is_some());

        let path = cache.path(&digest);
        let whole = fs::read(&path).expect("written");
        for at in [0, 31, 32, whole.len() / 2, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(&path, &changed).expect("written");
            assert!(cache.load(engine, &digest).is_none(), "byte {at}");
        }
        fs::write(&path, &whole[..whole.len() - 1]).expect("written");
        assert!(cache.load(engine, &digest).is_none());
        // Code of another module under this name.
        fs::write(cache.path(&blake3::hash(b"other")), &whole).expect("written");
        assert!(cache.load(engine, &blake3::hash(b"other")).is_none());
        // Another key.
        fs::remove_file(dir.path().join("key")).expect("removed");
        fs::write(&path, &whole).expect("written");
        assert!(CodeCache::open(dir.path()).expect("usable").load(engine, &digest).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_others_may_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("set");
        assert!(CodeCache::open(dir.path()).is_none());
    }
}
