//! The home directory: finds, installs, versions and removes bases. Opening a base reads only its
//! `base.json`.
//!
//! ```text
//! bases/NAME/             base.json kb/ queries/ index/     first version
//! bases/NAME/current      number of the current version; missing: the first version
//! bases/NAME/2/           base.json kb/ queries/ index/     later version
//! ```
//!
//! An import replaces a base. On request, and if the installed base has an index, the import
//! instead adds the next version of the base. That version becomes current once it has an index, by
//! an atomic rename of the file `current`. Readers keep the version that they opened: a [`Base`]
//! holds a shared lock on its `kb/`. When the current version changes, all versions before the
//! previous one are removed. A version that a reader still holds is removed at a later change.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File, TryLockError},
    io::Write,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::{DatasetError, Result, Template, queries::DIGEST_DIFFERS, stark::Origin};
use agent_ground::{files, record::own_digest};
use agent_kb::{FileRecord, is_set_aside, publish, recover, remove_set_aside, sync_dir};

/// Maximum length of a base name, in characters.
pub const MAX_NAME_CHARS: usize = 64;
/// The only supported value of `format_version` in `base.json`.
pub(super) const FORMAT_VERSION: u64 = 1;
/// File that describes a base; it is written last, so that a directory without the file is
/// incomplete.
const RECORD_FILE: &str = "base.json";
const KB_DIR: &str = "kb";
const QUERIES_DIR: &str = "queries";
const INDEX_DIR: &str = "index";
/// File with the number of the current version.
const CURRENT_FILE: &str = "current";
/// Maximum size of the file `current`, in bytes.
const MAX_CURRENT_BYTES: u64 = 32;
/// Number of the first version, which is stored in the directory of the base itself.
const FIRST_VERSION: u32 = 1;
/// Maximum size of `base.json`, in bytes.
const MAX_RECORD_BYTES: u64 = 8 << 20;
/// Name prefix of a directory that an import is still writing.
const STAGING_PREFIX: &str = ".new-";
/// Name of the file in a staging directory that the running import keeps locked.
const ALIVE_FILE: &str = ".alive";
/// Minimum Jaro-Winkler similarity (0 to 1) between an unknown name and the installed name that the
/// error suggests.
const MIN_SIMILARITY: f64 = 0.7;
/// Maximum number of attempts to read the current version of a base while another process replaces
/// it.
const MAX_READ_ATTEMPTS: usize = 1_000;
/// Maximum number of files of a dataset directory that are inspected to detect changes.
const MAX_SOURCE_FILES: usize = 10_000;

/// A home directory, where bases are installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
}

/// Content of `base.json`: describes an installed base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseRecord {
    /// Version of the format of `base.json`.
    pub format_version: u64,
    /// Title of the dataset, for display.
    pub title: String,
    /// Licence of the dataset, for display.
    pub licence: String,
    /// Directory or file from which the base was imported.
    pub source: String,
    /// Fingerprint of the knowledge base, as computed by `agent_kb`.
    pub fingerprint: String,
    /// Number of nodes.
    pub n_nodes: u32,
    /// Number of edges.
    pub n_edges: u64,
    /// Number of node types.
    pub n_types: u64,
    /// Number of relations.
    pub n_relations: u64,
    /// Number of labelled queries, including human queries.
    pub n_queries: u64,
    /// Number of queries in each split, by name of the split.
    pub splits: BTreeMap<String, u64>,
    /// Size and digest of each stored query file, by file name.
    pub query_files: BTreeMap<String, FileRecord>,
    /// Templates of the documents, by node type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<String, Template>,
    /// How the base was imported from the STaRK benchmark; `None` for other bases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stark: Option<Origin>,
    /// blake3 digest, in hex, of this object without `checksum`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub checksum: String,
}

impl BaseRecord {
    /// Reads the `base.json` in a directory; the base need not be installed.
    ///
    /// # Errors
    /// [`DatasetError::Damaged`] if the record is missing, invalid or of an unknown format.
    pub fn read(dir: &Path) -> Result<BaseRecord> {
        let path = dir.join(RECORD_FILE);
        let damaged = |reason: &dyn fmt::Display| DatasetError::damaged(&path, reason);
        let bytes = files::read(&path, MAX_RECORD_BYTES).map_err(|error| damaged(&error))?;
        let record: BaseRecord = serde_json::from_slice(&bytes).map_err(|error| damaged(&error))?;
        if record.format_version != FORMAT_VERSION {
            let found = record.format_version;
            let message =
                format!("it has format {found}, but this program reads format {FORMAT_VERSION}");
            return Err(damaged(&message));
        }
        let digest = record.own_digest().map_err(|error| damaged(&error))?;
        if record.checksum != digest {
            return Err(damaged(&"its checksum does not match its content"));
        }
        Ok(record)
    }

    /// Computes the value that `checksum` must have.
    fn own_digest(&self) -> serde_json::Result<String> {
        own_digest(self, |record| record.checksum.clear())
    }

    /// Writes this record, with its checksum, to the directory `dir` of a base, over an existing
    /// record; returns the record as written. The caller must hold the lock of the home if the base
    /// is installed.
    pub(super) fn write(mut self, dir: &Path) -> Result<BaseRecord> {
        let failed = |error| DatasetError::io("write", dir.join(RECORD_FILE))(error);
        self.checksum = self.own_digest().map_err(|error| failed(error.into()))?;
        let json = serde_json::to_vec_pretty(&self).map_err(|error| failed(error.into()))?;
        write_file(dir, RECORD_FILE, &json)?;
        Ok(self)
    }
}

/// Writes a file of a directory atomically, over an existing file.
fn write_file(dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = dir.join(name);
    let written = files::temporary_file(dir, ".written-").and_then(|mut new| {
        new.write_all(bytes)?;
        new.as_file().sync_all()?;
        new.persist(&path).map_err(|error| error.error)
    });
    written.map_err(DatasetError::io("write", &path))?;
    Ok(sync_dir(dir)?)
}

/// An installed base, opened at one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Name under which the base is installed.
    pub name: String,
    /// Directory of the opened version.
    pub path: PathBuf,
    /// Number of the opened version (from 1).
    pub version: u32,
    /// Content of `base.json`.
    pub record: BaseRecord,
    /// Prevents the removal of the opened version's files.
    pub(super) lock: VersionLock,
}

/// Shared lock on a version of a base; the version is not removed while the lock is held.
#[derive(Clone, Debug, Default)]
pub(super) struct VersionLock {
    _lock: Option<Arc<File>>,
}

impl VersionLock {
    /// Locks the version in the directory `version`; `None` if the version is being removed or was
    /// removed. If the operating system cannot lock directories, an empty lock is returned. The
    /// version is then protected only while it is the current or the previous version.
    fn acquire(version: &Path) -> Option<VersionLock> {
        let dir = version.join(KB_DIR);
        let locked = File::open(&dir).map(|dir| (dir.try_lock_shared(), dir));
        let lock = match locked {
            Ok((Ok(()), dir)) => Some(Arc::new(dir)),
            Ok((Err(TryLockError::WouldBlock), _)) => return None,
            Ok((Err(TryLockError::Error(_)), _)) | Err(_) => None,
        };
        // The version may have been removed before the lock was taken.
        dir.exists().then_some(VersionLock { _lock: lock })
    }
}

impl PartialEq for VersionLock {
    fn eq(&self, _: &VersionLock) -> bool {
        true
    }
}

impl Eq for VersionLock {}

impl Base {
    /// Returns the directory of the knowledge base, for [`agent_kb::Kb::open`].
    pub fn kb_dir(&self) -> PathBuf {
        self.path.join(KB_DIR)
    }

    /// Returns the directory of the indexes of this version; may not exist.
    pub fn index_dir(&self) -> PathBuf {
        self.path.join(INDEX_DIR)
    }

    /// Verifies the stored query files against their recorded digests. `on_bytes` receives the
    /// number of bytes read since its last call.
    ///
    /// # Errors
    /// [`DatasetError::Damaged`] for the first file that differs, [`DatasetError::Io`].
    pub fn verify_queries(&self, on_bytes: &mut dyn FnMut(u64)) -> Result<()> {
        for (name, record) in &self.record.query_files {
            let path = self.queries_dir().join(name);
            if !record.matches(&path, on_bytes).map_err(DatasetError::io("read", &path))? {
                return Err(DatasetError::damaged(path, DIGEST_DIFFERS));
            }
        }
        Ok(())
    }

    /// Returns the directory of the stored query files.
    pub fn queries_dir(&self) -> PathBuf {
        self.path.join(QUERIES_DIR)
    }

    /// Returns the path of this version's `base.json`.
    pub fn record_file(&self) -> PathBuf {
        self.path.join(RECORD_FILE)
    }
}

/// Whether a base may have this name: 1 to [`MAX_NAME_CHARS`] of `a-z`, `0-9`, `-` and `_`, a
/// letter or digit first.
pub fn is_name(name: &str) -> bool {
    let is_plain = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_');
    let begins_plain = name.starts_with(|c| is_plain(c) && !matches!(c, '-' | '_'));
    begins_plain && name.chars().all(is_plain) && name.len() <= MAX_NAME_CHARS
}

/// Result of resolving a dataset argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedDataset {
    /// An installed base.
    Installed(Base),
    /// A directory that was imported and has not changed since then.
    ImportedDirectory(Base),
    /// A directory that has not been imported in its present state.
    NewDirectory {
        /// The directory to import.
        source: PathBuf,
        /// The base name to pass to [`crate::import_neutral`].
        name: String,
    },
}

impl Home {
    /// Returns the home in the directory `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Home {
        Home { path: path.into() }
    }

    /// Returns the directory in which the platform stores this program's data; `None` if the
    /// platform has none.
    pub fn platform_default() -> Option<PathBuf> {
        let dirs = directories::ProjectDirs::from("", "", "agent")?;
        Some(dirs.data_dir().to_path_buf())
    }

    /// Returns the directory of the home.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory of the base `name`, whether or not the base is installed.
    ///
    /// # Errors
    /// [`DatasetError::BadName`] if the name is not valid.
    pub fn path_of(&self, name: &str) -> Result<PathBuf> {
        if !is_name(name) {
            let name = name.chars().take(2 * MAX_NAME_CHARS).collect();
            return Err(DatasetError::BadName { name, limit: MAX_NAME_CHARS });
        }
        Ok(self.bases_dir().join(name))
    }

    /// Lists all installed bases, sorted by name. A damaged base is omitted; [`Home::get`] returns
    /// the error of a damaged base.
    ///
    /// # Errors
    /// [`DatasetError::Io`] if the home exists but cannot be listed.
    pub fn list(&self) -> Result<Vec<Base>> {
        let names = self.names()?;
        Ok(names.iter().filter_map(|name| self.get(name).ok()).collect())
    }

    /// Opens the current version of an installed base.
    ///
    /// # Errors
    /// [`DatasetError::BadName`], [`DatasetError::UnknownName`] with the most similar installed
    /// name, [`DatasetError::Damaged`] or [`DatasetError::Io`].
    pub fn get(&self, name: &str) -> Result<Base> {
        let path = self.path_of(name)?;
        if is_set_aside(&path) {
            let _lock = self.lock()?;
            recover(&path)?;
        }
        if !path.is_dir() {
            let installed = self.names()?;
            let nearest = nearest(name, &installed);
            return Err(DatasetError::UnknownName { name: name.to_string(), installed, nearest });
        }
        // A version may be removed after its number was read; then a later version is current.
        let mut number = current(&path)?;
        for _ in 0..MAX_READ_ATTEMPTS {
            let read = read_version(name, &path, number);
            let now = current(&path)?;
            if now == number {
                return read;
            }
            number = now;
        }
        read_version(name, &path, number)
    }

    /// Opens the most recently imported version of a base; `None` if that version is already
    /// current.
    ///
    /// # Errors
    /// [`DatasetError::BadName`], [`DatasetError::Damaged`] or [`DatasetError::Io`].
    pub fn pending_version(&self, name: &str) -> Result<Option<Base>> {
        let path = self.path_of(name)?;
        let (current, last) = (current(&path)?, last_version(&path)?);
        (last > current).then(|| read_version(name, &path, last)).transpose()
    }

    /// Makes a version of a base current, atomically, and removes the versions older than the
    /// previously current version. Does nothing if that version or a later version is already
    /// current.
    ///
    /// # Errors
    /// [`DatasetError::Damaged`] if the version is incomplete, [`DatasetError::Io`],
    /// [`DatasetError::Kb`].
    pub fn make_current(&self, base: &Base) -> Result<()> {
        let path = self.path_of(&base.name)?;
        let _lock = self.lock()?;
        let before = current(&path)?;
        if base.version <= before {
            return Ok(());
        }
        read_version(&base.name, &path, base.version)?;
        write_file(&path, CURRENT_FILE, base.version.to_string().as_bytes())?;
        remove_versions(&path, 0..before)
    }

    /// Installs the base in the directory `dir` by renaming the directory, which must be on the
    /// same file system as the home. If `replace` is set, an installed base of that name is removed
    /// with all its versions. Reads only `base.json`.
    ///
    /// # Errors
    /// [`DatasetError::BadName`], [`DatasetError::Damaged`] if the record is invalid,
    /// [`DatasetError::AlreadyInstalled`], [`DatasetError::Kb`] if the rename fails,
    /// [`DatasetError::Io`].
    pub fn adopt(&self, name: &str, dir: &Path, replace: bool) -> Result<Base> {
        let target = self.path_of(name)?;
        BaseRecord::read(dir)?;
        let bases = self.bases_dir();
        fs::create_dir_all(&bases).map_err(DatasetError::io("create", &bases))?;
        let lock = self.lock()?;
        if target.exists() && !replace {
            return Err(DatasetError::AlreadyInstalled { name: name.to_owned() });
        }
        publish(dir, &target)?;
        drop(lock);
        self.get(name)
    }

    /// Whether an opened base is still the current version and its `base.json` is unchanged. The
    /// caller must hold the lock of the home.
    pub(super) fn is_current(&self, base: &Base) -> Result<bool> {
        let path = self.path_of(&base.name)?;
        if !path.is_dir() || current(&path)? != base.version {
            return Ok(false);
        }
        Ok(read_version(&base.name, &path, base.version)?.record == base.record)
    }

    /// Removes a base with all its versions and indexes.
    ///
    /// # Errors
    /// As [`Home::get`], except that a damaged base is removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        if let Err(error) = self.get(name)
            && !matches!(error, DatasetError::Damaged { .. })
        {
            return Err(error);
        }
        let path = self.path_of(name)?;
        let _lock = self.lock()?;
        // Otherwise recovery would restore the directory that a killed import set aside.
        remove_set_aside(&path)?;
        // Renamed first, so that no reader finds an incomplete base.
        let aside = self.bases_dir().join(format!("{STAGING_PREFIX}{name}-removed"));
        let _ = fs::remove_dir_all(&aside);
        fs::rename(&path, &aside).map_err(DatasetError::io("remove", &path))?;
        fs::remove_dir_all(&aside).map_err(DatasetError::io("remove", &aside))
    }

    /// Resolves a dataset argument: first as the name of an installed base, then as a directory.
    ///
    /// # Errors
    /// [`DatasetError::UnknownName`], [`DatasetError::NotADataset`] if the argument is neither a
    /// directory nor a valid name, [`DatasetError::Damaged`] or [`DatasetError::Io`].
    pub fn resolve(&self, dataset: &str) -> Result<ResolvedDataset> {
        match self.get(dataset) {
            Ok(base) => return Ok(ResolvedDataset::Installed(base)),
            Err(DatasetError::BadName { .. } | DatasetError::UnknownName { .. })
                if Path::new(dataset).is_dir() => {}
            Err(DatasetError::BadName { .. }) => {
                return Err(DatasetError::NotADataset { dataset: dataset.to_string() });
            }
            Err(error) => return Err(error),
        }
        let source = PathBuf::from(dataset);
        let name = directory_name(&source)?;
        match self.get(&name) {
            Ok(base) => Ok(ResolvedDataset::ImportedDirectory(base)),
            Err(DatasetError::UnknownName { .. }) => {
                Ok(ResolvedDataset::NewDirectory { source, name })
            }
            Err(error) => Err(error),
        }
    }

    fn bases_dir(&self) -> PathBuf {
        self.path.join("bases")
    }

    fn names(&self) -> Result<Vec<String>> {
        let mut names = names_in(&self.bases_dir())?;
        names.retain(|name| self.path_of(name).is_ok_and(|path| path.is_dir()));
        names.sort_unstable();
        Ok(names)
    }

    /// Locks the home, so that no other process changes it until the returned file is dropped.
    pub(super) fn lock(&self) -> Result<File> {
        let path = self.bases_dir().join(".lock");
        let file = files::open_to_lock(&path).map_err(DatasetError::io("lock", &path))?;
        file.lock().map_err(DatasetError::io("lock", &path))?;
        Ok(file)
    }
}

/// Lists the names of the entries of a directory, unordered; none if the directory does not exist.
fn names_in(dir: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(DatasetError::io("list", dir))?,
    };
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let names: Result<_, _> = entries.map(|entry| entry.map(name)).collect();
    names.map_err(DatasetError::io("list", dir))
}

/// Returns the directory of a version of the base whose directory is `path`.
fn version_path(path: &Path, version: u32) -> PathBuf {
    match version {
        FIRST_VERSION => path.to_path_buf(),
        later => path.join(later.to_string()),
    }
}

fn read_version(name: &str, path: &Path, version: u32) -> Result<Base> {
    let path = version_path(path, version);
    // Locked first, so that the files are not removed while they are read.
    let lock = VersionLock::acquire(&path);
    let record = BaseRecord::read(&path)?;
    let lock =
        lock.ok_or_else(|| DatasetError::damaged(&path, "its kb/ is missing or being removed"))?;
    Ok(Base { name: name.to_string(), path, version, record, lock })
}

/// Reads the number of the current version of the base whose directory is `path`.
fn current(path: &Path) -> Result<u32> {
    let path = path.join(CURRENT_FILE);
    let text = match files::read_text(&path, MAX_CURRENT_BYTES) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(FIRST_VERSION),
        read => read.map_err(DatasetError::io("read", &path))?,
    };
    text.parse().map_err(|_| DatasetError::damaged(path, "it does not hold a version number"))
}

/// Lists the version numbers of the base whose directory is `path`, unordered; the first version is
/// always included.
fn versions(path: &Path) -> Result<Vec<u32>> {
    let names = names_in(path)?;
    let later = names.iter().filter_map(|name| name.parse().ok());
    Ok([FIRST_VERSION].into_iter().chain(later.filter(|number| *number > FIRST_VERSION)).collect())
}

/// Returns the highest version number of the base whose directory is `path`.
fn last_version(path: &Path) -> Result<u32> {
    Ok(versions(path)?.into_iter().max().unwrap_or(FIRST_VERSION))
}

/// Removes the versions whose numbers are in `range`, except versions that a reader holds. Failures
/// are ignored; a later call tries again.
fn remove_versions(path: &Path, range: Range<u32>) -> Result<()> {
    for version in versions(path)?.into_iter().filter(|version| range.contains(version)) {
        let dir = version_path(path, version);
        let kb = File::open(dir.join(KB_DIR));
        let lock = kb.as_ref().map(File::try_lock);
        if matches!(lock, Ok(Err(TryLockError::WouldBlock))) {
            continue;
        }
        // The record is removed first, so that no new reader opens the version.
        let _ = fs::remove_file(dir.join(RECORD_FILE));
        if version != FIRST_VERSION {
            let _ = fs::remove_dir_all(dir);
            continue;
        }
        for part in [KB_DIR, QUERIES_DIR, INDEX_DIR] {
            let _ = fs::remove_dir_all(dir.join(part));
        }
    }
    Ok(())
}

fn nearest(name: &str, installed: &[String]) -> Option<String> {
    let scored = installed.iter().map(|known| (strsim::jaro_winkler(name, known), known));
    let close = scored.filter(|(similarity, _)| *similarity >= MIN_SIMILARITY);
    close.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1))).map(|(_, n)| n.clone())
}

/// Returns a base name for a dataset directory: the directory's name and a digest of its path and
/// of the names, sizes and modification times of its files, including linked files. The name
/// therefore changes when any of the files changes.
fn directory_name(source: &Path) -> Result<String> {
    let full = fs::canonicalize(source).map_err(DatasetError::io("open", source))?;
    let mut lines = vec![full.to_string_lossy().into_owned()];
    let mut dirs = vec![full.clone()];
    while let Some(dir) = dirs.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.take(MAX_SOURCE_FILES.saturating_sub(lines.len())) {
            let entry = entry.map_err(DatasetError::io("list", &dir))?;
            let path = entry.path();
            // A broken link does not count.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            // Links to directories are not followed, because they may form a cycle.
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            if !is_hidden && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(path.clone());
            }
            let modified = metadata.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
            let nanos = modified.map_or(0, |age| age.as_nanos());
            lines.push(format!("{}\t{}\t{nanos}", path.display(), metadata.len()));
        }
    }
    // The order in which a directory is listed is not defined.
    lines.sort_unstable();
    let digest = blake3::hash(lines.join("\n").as_bytes()).to_hex();
    let stem = full.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let stem: String = stem
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
        .take(MAX_NAME_CHARS / 2)
        .collect();
    let stem = stem.trim_matches('-');
    let stem = if stem.is_empty() { "dataset" } else { stem };
    Ok(format!("{stem}-{}", digest.chars().take(12).collect::<String>()))
}

/// A base being built in a hidden directory beside its final directory; the hidden directory is
/// removed if the base is dropped without being published.
pub(super) struct Staging {
    pub(super) home: Home,
    pub(super) name: String,
    target: PathBuf,
    /// Whether to add the next version to an installed base with the same name instead of replacing
    /// that base. Ignored if the installed base has no index.
    as_next_version: bool,
    dir: TempDir,
    /// Lock file, locked while this process lives. A staging directory whose file is not locked was
    /// left by a killed import.
    _alive: File,
}

/// Removes the staging directories that killed imports left in `bases`. The caller must hold the
/// lock of the home.
fn remove_leftovers(bases: &Path) -> Result<()> {
    for name in names_in(bases)?.iter().filter(|name| name.starts_with(STAGING_PREFIX)) {
        let dir = bases.join(name);
        let in_use = File::open(dir.join(ALIVE_FILE))
            .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        if !in_use {
            // The next import tries again.
            let _ = fs::remove_dir_all(dir);
        }
    }
    Ok(())
}

impl Staging {
    pub(super) fn new(home: &Home, name: &str, as_next_version: bool) -> Result<Staging> {
        let target = home.path_of(name)?;
        let bases = home.bases_dir();
        fs::create_dir_all(&bases).map_err(DatasetError::io("create", &bases))?;
        let _lock = home.lock()?;
        remove_leftovers(&bases)?;
        let dir = files::temporary_dir(&bases, &format!("{STAGING_PREFIX}{name}-"))
            .map_err(DatasetError::io("create", &bases))?;
        let path = dir.path().join(ALIVE_FILE);
        let alive = File::create_new(&path).map_err(DatasetError::io("create", &path))?;
        alive.lock().map_err(DatasetError::io("lock", &path))?;
        let (home, name) = (home.clone(), name.to_string());
        Ok(Staging { home, name, target, as_next_version, dir, _alive: alive })
    }

    /// Returns the directory being built.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn kb_dir(&self) -> PathBuf {
        self.dir.path().join(KB_DIR)
    }

    pub(super) fn queries_dir(&self) -> PathBuf {
        self.dir.path().join(QUERIES_DIR)
    }

    /// Returns the version number to publish: the next number if `as_next_version` and the
    /// installed base has an index, otherwise the first number. An installed base that cannot be
    /// read is replaced. The caller must hold the lock of the home.
    fn version(&self) -> Result<u32> {
        let is_indexed = current(&self.target)
            .and_then(|version| read_version(&self.name, &self.target, version))
            .is_ok_and(|base| base.index_dir().exists());
        match self.as_next_version && is_indexed {
            true => Ok(last_version(&self.target)?.saturating_add(1)),
            false => Ok(FIRST_VERSION),
        }
    }

    /// Returns the base as [`Staging::publish`] would return it, but publishes nothing.
    pub(super) fn rehearse(self, record: BaseRecord) -> Result<Base> {
        let _lock = self.home.lock()?;
        let version = self.version()?;
        let path = version_path(&self.target, version);
        Ok(Base { name: self.name, path, version, record, lock: VersionLock::default() })
    }

    /// Writes `base.json` and moves the base to its final directory; removes earlier imported
    /// versions that never became current.
    pub(super) fn publish(self, record: BaseRecord) -> Result<Base> {
        let record = record.write(self.dir.path())?;
        let _lock = self.home.lock()?;
        let version = self.version()?;
        let path = version_path(&self.target, version);
        let alive = self.dir.path().join(ALIVE_FILE);
        fs::remove_file(&alive).map_err(DatasetError::io("remove", &alive))?;
        publish(self.dir.path(), &path)?;
        // The directory has moved; there is nothing left to remove.
        let _ = self.dir.keep();
        if version > FIRST_VERSION {
            remove_versions(&self.target, current(&self.target)?.saturating_add(1)..version)?;
        }
        let lock = VersionLock::acquire(&path).unwrap_or_default();
        Ok(Base { name: self.name, path, version, record, lock })
    }
}
