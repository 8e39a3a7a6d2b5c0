//! Compiled code on disk, so that a new process need not compile it again.
//!
//! A file holds the code of one module; a digest of the code under the user's key precedes it. Code
//! that was changed, truncated, or written without the key is not loaded but compiled again. Anyone
//! who can read the key can inject code that this process runs, so the directory must belong to the
//! user.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use wasmtime::{Engine, Module};

use crate::private::{KEY_BYTES, PrivateDir};
use agent_ground::files;

/// Maximum size of a file, in bytes; a longer file is not loaded.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// The owner of compiled code. The code of the two owners is kept separately, so that modules never
/// displace the Rhai engine, which every Rhai program needs and which takes seconds and hundreds of
/// megabytes to compile.
#[derive(Clone, Copy, Debug)]
pub(super) enum CodeOwner {
    /// The Rhai engine.
    Engine,
    /// A program that is a module.
    Program,
}

impl CodeOwner {
    /// Returns the extension and the maximum number of the files of this owner; when there are
    /// more, the least recently used are removed.
    fn retention(self) -> (&'static str, usize) {
        match self {
            Self::Engine => ("engine", 4),
            Self::Program => ("code", 32),
        }
    }
}

/// A directory with the compiled code of modules.
#[derive(Clone, Debug)]
pub(super) struct CodeCache(PrivateDir);

impl CodeCache {
    /// Opens the cache in a directory, which is created if missing. `None` if that fails or other
    /// users may write to the directory.
    pub(super) fn open(dir: &Path) -> Option<Self> {
        PrivateDir::open(dir).map(Self)
    }

    fn name(owner: CodeOwner, digest: &blake3::Hash) -> String {
        format!("{}.{}", digest.to_hex(), owner.retention().0)
    }

    fn path(&self, owner: CodeOwner, digest: &blake3::Hash) -> PathBuf {
        self.0.path().join(Self::name(owner, digest))
    }

    /// Computes the digest, under the key, of a module's digest and its compiled code.
    fn seal(&self, digest: &blake3::Hash, code: &[u8]) -> blake3::Hash {
        self.0.seal(&[digest.as_bytes(), code])
    }

    /// Loads the compiled code of the module with this digest. `None` if no file has it, the file
    /// was changed, or the code was made for another engine.
    #[allow(clippy::disallowed_methods, reason = "the time only decides which files are kept")]
    pub(super) fn load(
        &self,
        engine: &Engine,
        owner: CodeOwner,
        digest: &blake3::Hash,
    ) -> Option<Module> {
        let file = files::open(&self.path(owner, digest)).ok()?;
        // Marks the file as used.
        let _ = file.set_modified(SystemTime::now());
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        let (seal, code) = bytes.split_first_chunk::<KEY_BYTES>()?;
        // Compared in constant time.
        if blake3::Hash::from_bytes(*seal) != self.seal(digest, code) {
            return None;
        }
        // SAFETY: the keyed digest proves that `store` wrote these bytes, which came from the
        // compiler; an engine of another version or with other settings refuses them.
        unsafe { Module::deserialize(engine, code) }.ok()
    }

    /// Stores the compiled code of a module with this digest. If that fails, the next process
    /// compiles the module again.
    pub(super) fn store(&self, module: &Module, owner: CodeOwner, digest: &blake3::Hash) {
        let Ok(code) = module.serialize() else { return };
        let seal = self.seal(digest, &code);
        if self.0.publish(&Self::name(owner, digest), &[seal.as_bytes(), &code]).is_ok() {
            let (suffix, max_files) = owner.retention();
            self.0.keep_newest(suffix, max_files);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{CodeCache, CodeOwner};
    use crate::wasm::engine::engine;

    #[test]
    fn changed_code_is_not_loaded() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = CodeCache::open(dir.path()).expect("usable");
        let engine = engine().expect("an engine");
        let bytes = wat::parse_str("(module (func (export \"f\")))").expect("a module");
        let digest = blake3::hash(&bytes);
        assert!(cache.load(engine, CodeOwner::Program, &digest).is_none());
        let module = wasmtime::Module::new(engine, &bytes).expect("a module");
        cache.store(&module, CodeOwner::Program, &digest);
        assert!(cache.load(engine, CodeOwner::Program, &digest).is_some());
        // The key is kept, so another process finds the code as well.
        assert!(
            CodeCache::open(dir.path())
                .expect("usable")
                .load(engine, CodeOwner::Program, &digest)
                .is_some()
        );

        let path = cache.path(CodeOwner::Program, &digest);
        let whole = fs::read(&path).expect("written");
        for at in [0, 31, 32, whole.len() / 2, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(&path, &changed).expect("written");
            assert!(cache.load(engine, CodeOwner::Program, &digest).is_none(), "byte {at}");
        }
        fs::write(&path, &whole[..whole.len() - 1]).expect("written");
        assert!(cache.load(engine, CodeOwner::Program, &digest).is_none());
        // Code of another module under this name.
        fs::write(cache.path(CodeOwner::Program, &blake3::hash(b"other")), &whole)
            .expect("written");
        assert!(cache.load(engine, CodeOwner::Program, &blake3::hash(b"other")).is_none());
        // Another key.
        fs::remove_file(dir.path().join("key")).expect("removed");
        fs::write(&path, &whole).expect("written");
        assert!(
            CodeCache::open(dir.path())
                .expect("usable")
                .load(engine, CodeOwner::Program, &digest)
                .is_none()
        );
    }

    #[test]
    fn modules_do_not_take_the_place_of_the_engine() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = CodeCache::open(dir.path()).expect("usable");
        let engine = engine().expect("an engine");
        let bytes = wat::parse_str("(module)").expect("a module");
        let module = wasmtime::Module::new(engine, &bytes).expect("a module");
        let own = blake3::hash(b"engine");
        cache.store(&module, CodeOwner::Engine, &own);
        let max_files = CodeOwner::Program.retention().1;
        for n in 0..max_files + 3 {
            cache.store(&module, CodeOwner::Program, &blake3::hash(&n.to_le_bytes()));
        }
        assert!(cache.load(engine, CodeOwner::Engine, &own).is_some());
        let files = fs::read_dir(dir.path()).expect("readable");
        let suffix = |entry: &fs::DirEntry| entry.path().extension().is_some_and(|it| it == "code");
        assert_eq!(files.filter_map(Result::ok).filter(suffix).count(), max_files);
    }
}
