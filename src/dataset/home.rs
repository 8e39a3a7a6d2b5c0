//! The home directory: installed bases and their locations. Of a base only `base.json` is read.
//!
//! ```text
//! bases/NAME/             base.json kb/ queries/ index/     the base as it was first installed
//! bases/NAME/current      the number of the version that is current; none: the first one
//! bases/NAME/2/           base.json kb/ queries/ index/     a version that was imported later
//! ```
//!
//! An import either replaces a base or, where the base is indexed, adds its next version. The next version
//! becomes current in one step, the renaming of `current`, once it has an index. Readers keep the version
//! they opened: a [`Base`] holds a shared lock of its `kb/`, and versions before the previous one are
//! removed only when nobody holds them, now or at a later change.

use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io::Write,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::{DatasetError, queries::StoredQueries, stark::Origin};
use agent_ground::files;
use agent_kb::{FileRecord, Manifest, is_set_aside, publish, recover, remove_set_aside, sync_dir};

/// Longest base name in characters.
pub const MAX_NAME_CHARS: usize = 64;
/// The only format of `base.json`.
const FORMAT_VERSION: u64 = 1;
/// Describes a base; written last.
const RECORD_FILE: &str = "base.json";
const KB_DIR: &str = "kb";
const QUERIES_DIR: &str = "queries";
const INDEX_DIR: &str = "index";
/// Holds the number of the current version.
const CURRENT_FILE: &str = "current";
/// Maximum size of the file `current`, bytes.
const MAX_CURRENT_BYTES: u64 = 32;
/// The version that lies in the directory of the base itself.
const FIRST_VERSION: u32 = 1;
/// Longest `base.json` in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 20;
/// Prefix of directories in the making.
const STAGING_PREFIX: &str = ".new-";
/// Locked by the import that fills the directory.
const ALIVE_FILE: &str = ".alive";
/// Names below this similarity (Jaro-Winkler, 0 to 1) are not suggested.
const MIN_SIMILARITY: f64 = 0.7;
/// Attempts to read the current version of a base while it is being replaced.
const MAX_READ_ATTEMPTS: usize = 1_000;
/// Files of a dataset directory that are inspected to detect changes.
const MAX_SOURCE_FILES: usize = 10_000;

/// Where bases are installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
}

/// Content of `base.json`: describes an installed base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseRecord {
    /// Format of this record.
    pub format_version: u64,
    /// Title for people.
    pub title: String,
    /// Licence for people.
    pub licence: String,
    /// The directory or file it was imported from.
    pub source: String,
    /// Fingerprint of the knowledge base.
    pub fingerprint: String,
    /// Number of nodes.
    pub n_nodes: u32,
    /// Number of edges.
    pub n_edges: u64,
    /// Number of node types.
    pub n_types: u64,
    /// Number of relations.
    pub n_relations: u64,
    /// Number of labelled queries, human ones included.
    pub n_queries: u64,
    /// Queries of each split.
    pub splits: BTreeMap<String, u64>,
    /// Size and digest of the stored query files.
    pub query_files: BTreeMap<String, FileRecord>,
    /// Origin of a base of the STaRK benchmark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stark: Option<Origin>,
    /// blake3 of this object with an empty `checksum`, hex; empty in records of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub checksum: String,
}

impl BaseRecord {
    /// Reads the record of the base in a directory, installed or not.
    ///
    /// # Errors
    /// [`DatasetError::Damaged`], also for an unknown format.
    pub fn read(dir: &Path) -> Result<BaseRecord, DatasetError> {
        read_record(&dir.join(RECORD_FILE))
    }

    /// The digest that `checksum` must hold.
    fn own_digest(&self) -> serde_json::Result<String> {
        let unsigned = BaseRecord { checksum: String::new(), ..self.clone() };
        Ok(blake3::hash(&serde_json::to_vec(&unsigned)?).to_hex().to_string())
    }

    /// Replaces the record of an installed base atomically; returns it with its checksum. The home must be
    /// locked.
    pub(super) fn replace(mut self, dir: &Path) -> Result<BaseRecord, DatasetError> {
        let path = dir.join(RECORD_FILE);
        let written = self
            .own_digest()
            .map(|checksum| self.checksum = checksum)
            .and_then(|()| serde_json::to_vec_pretty(&self))
            .map_err(std::io::Error::from)
            .and_then(|json| {
                let mut new = files::temporary_file(dir, ".base-")?;
                new.write_all(&json)?;
                new.as_file().sync_all()?;
                new.persist(&path).map_err(|error| error.error)
            });
        written.map_err(DatasetError::io("write", &path))?;
        sync_dir(dir)?;
        Ok(self)
    }
}

/// An installed base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Its name in the home.
    pub name: String,
    /// The directory of this version.
    pub path: PathBuf,
    /// Number of this version (from 1).
    pub version: u32,
    /// Its counts.
    pub record: BaseRecord,
    /// Keeps the files of this version from being removed.
    pub(super) lock: VersionLock,
}

/// Shared lock of a version: while it is held, the version is not removed.
#[derive(Clone, Debug, Default)]
pub(super) struct VersionLock {
    _lock: Option<Arc<File>>,
}

impl VersionLock {
    /// Locks the version in a directory; `None` if it is being or was removed. Where the system cannot lock
    /// directories, nothing is locked, and files stay until the version after the next.
    fn acquire(version: &Path) -> Option<VersionLock> {
        let dir = version.join(KB_DIR);
        let locked = File::open(&dir).map(|dir| (dir.try_lock_shared(), dir));
        let lock = match locked {
            Ok((Ok(()), dir)) => Some(Arc::new(dir)),
            Ok((Err(TryLockError::WouldBlock), _)) => return None,
            Ok((Err(TryLockError::Error(_)), _)) | Err(_) => None,
        };
        // It may have been removed between the two.
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
    /// The directory to give to [`agent_kb::Kb::open`].
    pub fn kb_dir(&self) -> PathBuf {
        self.path.join(KB_DIR)
    }

    /// Where indexes over this base go; it may not exist.
    pub fn index_dir(&self) -> PathBuf {
        self.path.join(INDEX_DIR)
    }

    /// Compares the stored queries with their digests; `on_bytes` gets the number of bytes read since the
    /// last call.
    ///
    /// # Errors
    /// [`DatasetError::Damaged`] names the first file that differs; [`DatasetError::Io`].
    pub fn verify_queries(&self, on_bytes: &mut dyn FnMut(u64)) -> Result<(), DatasetError> {
        for (name, record) in &self.record.query_files {
            let path = self.queries_dir().join(name);
            if !record.matches(&path, on_bytes).map_err(DatasetError::io("read", &path))? {
                let reason = "its digest is not the one in base.json".to_string();
                return Err(DatasetError::Damaged { path, reason });
            }
        }
        Ok(())
    }

    /// Where its labelled queries are.
    pub fn queries_dir(&self) -> PathBuf {
        self.path.join(QUERIES_DIR)
    }

    /// The file that describes it.
    pub fn record_file(&self) -> PathBuf {
        self.path.join(RECORD_FILE)
    }
}

/// Meaning of a dataset argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedDataset {
    /// An installed base.
    Installed(Base),
    /// A directory that was imported and has not changed since.
    ImportedDirectory(Base),
    /// A directory that is not imported yet, with the name to import it under.
    NewDirectory {
        /// The directory.
        source: PathBuf,
        /// The name for [`crate::import_neutral`].
        name: String,
    },
}

impl Home {
    /// The home at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Home {
        Home { path: path.into() }
    }

    /// The platform's data directory for this program, if the platform has one.
    pub fn platform_default() -> Option<PathBuf> {
        let dirs = directories::ProjectDirs::from("", "", "agent")?;
        Some(dirs.data_dir().to_path_buf())
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a base of that name is or would be.
    ///
    /// # Errors
    /// [`DatasetError::BadName`].
    pub fn path_of(&self, name: &str) -> Result<PathBuf, DatasetError> {
        let first =
            name.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
        if !first || !name.bytes().all(plain) || name.len() > MAX_NAME_CHARS {
            let name = name.chars().take(2 * MAX_NAME_CHARS).collect();
            return Err(DatasetError::BadName { name, limit: MAX_NAME_CHARS });
        }
        Ok(self.bases_dir().join(name))
    }

    /// All installed bases, sorted by name. Directories without a readable `base.json` are left
    /// out; [`Home::get`] says what is wrong with one.
    ///
    /// # Errors
    /// [`DatasetError::Io`] if the home exists but cannot be listed.
    pub fn list(&self) -> Result<Vec<Base>, DatasetError> {
        let names = self.names()?;
        Ok(names.iter().filter_map(|name| self.get(name).ok()).collect())
    }

    /// The installed base of that name.
    ///
    /// # Errors
    /// [`DatasetError::BadName`], [`DatasetError::UnknownName`] with the nearest name,
    /// [`DatasetError::Damaged`] or [`DatasetError::Io`].
    pub fn get(&self, name: &str) -> Result<Base, DatasetError> {
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
        // A version may be removed between the look at its number and at its files; then a later
        // one is current.
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

    /// The most recently imported version of that base, if it is not current yet.
    ///
    /// # Errors
    /// As [`Home::get`].
    pub fn pending_version(&self, name: &str) -> Result<Option<Base>, DatasetError> {
        let path = self.path_of(name)?;
        let (current, last) = (current(&path)?, last_version(&path)?);
        (last > current).then(|| read_version(name, &path, last)).transpose()
    }

    /// Makes a version of a base current in one step, unless a later one is; versions before the previously
    /// current one are removed.
    ///
    /// # Errors
    /// [`DatasetError::Damaged`] if the version is incomplete, [`DatasetError::Io`]; then the current version
    /// is unchanged.
    pub fn make_current(&self, base: &Base) -> Result<(), DatasetError> {
        let path = self.path_of(&base.name)?;
        let _lock = self.lock()?;
        let before = current(&path)?;
        if base.version <= before {
            return Ok(());
        }
        read_version(&base.name, &path, base.version)?;
        let file = path.join(CURRENT_FILE);
        let written = files::temporary_file(&path, ".current-").and_then(|mut new| {
            write!(new, "{}", base.version)?;
            new.as_file().sync_all()?;
            new.persist(&file).map_err(|error| error.error)
        });
        written.map_err(DatasetError::io("write", &file))?;
        sync_dir(&path)?;
        remove_versions(&path, 0..before)
    }

    /// Installs a base from a directory on the same file system by rename. With `replace`, an installed base
    /// of that name is removed with all its versions. Files are not read.
    ///
    /// # Errors
    /// [`DatasetError::BadName`], [`DatasetError::Damaged`] if its record is invalid,
    /// [`DatasetError::AlreadyInstalled`], [`DatasetError::Io`]; then the home is unchanged.
    pub fn adopt(&self, name: &str, dir: &Path, replace: bool) -> Result<Base, DatasetError> {
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

    /// Whether an opened base is still the current version, unchanged. The home must be locked.
    pub(super) fn is_current(&self, base: &Base) -> Result<bool, DatasetError> {
        let path = self.path_of(&base.name)?;
        if !path.is_dir() || current(&path)? != base.version {
            return Ok(false);
        }
        Ok(read_version(&base.name, &path, base.version)?.record == base.record)
    }

    /// Removes the base of that name with its indexes.
    ///
    /// # Errors
    /// As [`Home::get`], but a damaged base can be removed.
    pub fn remove(&self, name: &str) -> Result<(), DatasetError> {
        if let Err(error) = self.get(name)
            && !matches!(error, DatasetError::Damaged { .. })
        {
            return Err(error);
        }
        let path = self.path_of(name)?;
        let _lock = self.lock()?;
        // Recovery would bring back what a killed import set aside.
        remove_set_aside(&path)?;
        // Set aside first, so that no reader finds half a base.
        let aside = self.bases_dir().join(format!("{STAGING_PREFIX}{name}-removed"));
        let _ = fs::remove_dir_all(&aside);
        fs::rename(&path, &aside).map_err(DatasetError::io("remove", &path))?;
        fs::remove_dir_all(&aside).map_err(DatasetError::io("remove", &aside))
    }

    /// Resolves a dataset argument: an installed name first, else a directory.
    ///
    /// # Errors
    /// [`DatasetError::UnknownName`] or, for what cannot be a name, [`DatasetError::NotADataset`].
    pub fn resolve(&self, dataset: &str) -> Result<ResolvedDataset, DatasetError> {
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

    fn names(&self) -> Result<Vec<String>, DatasetError> {
        let dir = self.bases_dir();
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(DatasetError::io("list", dir)(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(DatasetError::io("list", &dir))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if self.path_of(&name).is_ok() && entry.path().is_dir() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Locks the home against other renames until the result is dropped.
    pub(super) fn lock(&self) -> Result<File, DatasetError> {
        let path = self.bases_dir().join(".lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(DatasetError::io("lock", &path))?;
        file.lock().map_err(DatasetError::io("lock", &path))?;
        Ok(file)
    }
}

fn read_record(path: &Path) -> Result<BaseRecord, DatasetError> {
    let damaged = |reason: String| DatasetError::Damaged { path: path.to_path_buf(), reason };
    let bytes = files::read(path, MAX_RECORD_BYTES).map_err(|error| damaged(error.to_string()))?;
    let record: BaseRecord =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if record.format_version != FORMAT_VERSION {
        return Err(damaged(format!(
            "it has format {}, this program reads format {FORMAT_VERSION}",
            record.format_version
        )));
    }
    let digest = record.own_digest().map_err(|error| damaged(error.to_string()))?;
    if !record.checksum.is_empty() && record.checksum != digest {
        return Err(damaged("its checksum does not match its content".to_string()));
    }
    Ok(record)
}

/// The directory of a version of the base in `path`.
fn version_path(path: &Path, version: u32) -> PathBuf {
    match version {
        FIRST_VERSION => path.to_path_buf(),
        later => path.join(later.to_string()),
    }
}

fn read_version(name: &str, path: &Path, version: u32) -> Result<Base, DatasetError> {
    let path = version_path(path, version);
    // Locked first, so that the files stay while they are read.
    let lock = VersionLock::acquire(&path);
    let record = read_record(&path.join(RECORD_FILE))?;
    let lock = lock.ok_or_else(|| {
        let reason = "its kb/ is gone, or is being removed".to_string();
        DatasetError::Damaged { path: path.clone(), reason }
    })?;
    Ok(Base { name: name.to_string(), path, version, record, lock })
}

/// The number of the current version of the base in `path`.
fn current(path: &Path) -> Result<u32, DatasetError> {
    let path = path.join(CURRENT_FILE);
    let text = match files::read_text(&path, MAX_CURRENT_BYTES) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(FIRST_VERSION),
        read => read.map_err(DatasetError::io("read", &path))?,
    };
    text.parse().map_err(|_| {
        let reason = "it does not hold a version number".to_string();
        DatasetError::Damaged { path, reason }
    })
}

/// The numbers of all versions of the base in `path`, unordered, always with the first.
fn versions(path: &Path) -> Result<Vec<u32>, DatasetError> {
    let mut found = vec![FIRST_VERSION];
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        entries => entries.map_err(DatasetError::io("list", path))?,
    };
    for entry in entries {
        let entry = entry.map_err(DatasetError::io("list", path))?;
        let number: Option<u32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        found.extend(number.filter(|number| *number > FIRST_VERSION));
    }
    Ok(found)
}

/// The largest number of a version of the base in `path`.
fn last_version(path: &Path) -> Result<u32, DatasetError> {
    Ok(versions(path)?.into_iter().max().unwrap_or(FIRST_VERSION))
}

/// Removes versions that nobody holds; the others are tried again at a later change.
fn remove_versions(path: &Path, range: Range<u32>) -> Result<(), DatasetError> {
    for version in versions(path)?.into_iter().filter(|version| range.contains(version)) {
        let dir = version_path(path, version);
        let kb = File::open(dir.join(KB_DIR));
        let lock = kb.as_ref().map(File::try_lock);
        if matches!(lock, Ok(Err(TryLockError::WouldBlock))) {
            continue;
        }
        // The record goes first: whoever looks later finds none.
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

/// A base name for a dataset directory that changes with any of its files, including linked ones: the
/// directory's name and a digest of path, file names, sizes and modification times.
fn directory_name(source: &Path) -> Result<String, DatasetError> {
    let full = fs::canonicalize(source).map_err(DatasetError::io("open", source))?;
    let mut lines = vec![full.to_string_lossy().into_owned()];
    let mut dirs = vec![full.clone()];
    while let Some(dir) = dirs.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.take(MAX_SOURCE_FILES.saturating_sub(lines.len())) {
            let entry = entry.map_err(DatasetError::io("list", &dir))?;
            let path = entry.path();
            // A link that leads nowhere is a file that has not changed.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            // Directories are not followed through links, which may lead back.
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

/// A base being built in a hidden directory beside its target; removed when dropped unpublished.
pub(super) struct Staging {
    home: Home,
    name: String,
    target: PathBuf,
    /// Whether an indexed base of that name stays current.
    as_next_version: bool,
    dir: TempDir,
    /// Locked while this process lives, so that others can tell work from leftovers.
    _alive: File,
}

/// Removes the leftovers of killed imports. The home must be locked.
fn remove_leftovers(bases: &Path) -> Result<(), DatasetError> {
    for entry in fs::read_dir(bases).map_err(DatasetError::io("list", bases))? {
        let entry = entry.map_err(DatasetError::io("list", bases))?;
        if !entry.file_name().to_string_lossy().starts_with(STAGING_PREFIX) {
            continue;
        }
        let in_use = File::open(entry.path().join(ALIVE_FILE))
            .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        if !in_use {
            // What cannot be removed now is tried again by the next import.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

impl Staging {
    pub(super) fn new(
        home: &Home,
        name: &str,
        as_next_version: bool,
    ) -> Result<Staging, DatasetError> {
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

    /// The directory being built.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn kb_dir(&self) -> PathBuf {
        self.dir.path().join(KB_DIR)
    }

    pub(super) fn queries_dir(&self) -> PathBuf {
        self.dir.path().join(QUERIES_DIR)
    }

    /// The number that this version gets: the next one of an indexed base if requested, else the first. A
    /// base that cannot be read is replaced. The home must be locked.
    fn version(&self) -> Result<u32, DatasetError> {
        let is_indexed = current(&self.target)
            .and_then(|version| read_version(&self.name, &self.target, version))
            .is_ok_and(|base| base.index_dir().exists());
        match self.as_next_version && is_indexed {
            true => Ok(last_version(&self.target)?.saturating_add(1)),
            false => Ok(FIRST_VERSION),
        }
    }

    fn record(
        manifest: &Manifest,
        queries: StoredQueries,
        source: &Path,
        stark: Option<Origin>,
    ) -> BaseRecord {
        BaseRecord {
            format_version: FORMAT_VERSION,
            title: manifest.title.clone(),
            licence: manifest.licence.clone(),
            source: source.display().to_string(),
            fingerprint: manifest.fingerprint.clone(),
            n_nodes: manifest.n_nodes,
            n_edges: manifest.n_edges,
            n_types: manifest.types.len() as u64,
            n_relations: manifest.relations.len() as u64,
            n_queries: queries.n_queries,
            splits: queries.splits,
            query_files: queries.files,
            stark,
            checksum: String::new(),
        }
    }

    /// The base that would be published; publishes nothing.
    pub(super) fn rehearse(
        self,
        manifest: &Manifest,
        queries: StoredQueries,
        source: &Path,
        stark: Option<Origin>,
    ) -> Base {
        let record = Staging::record(manifest, queries, source, stark);
        let (name, path) = (self.name.clone(), self.target.clone());
        Base { name, path, version: FIRST_VERSION, record, lock: VersionLock::default() }
    }

    /// Writes `base.json` and moves the base to its target; an earlier pending version is removed.
    pub(super) fn publish(
        self,
        manifest: &Manifest,
        queries: StoredQueries,
        source: &Path,
        stark: Option<Origin>,
    ) -> Result<Base, DatasetError> {
        let mut record = Staging::record(manifest, queries, source, stark);
        let path = self.dir.path().join(RECORD_FILE);
        let written = record
            .own_digest()
            .map(|checksum| record.checksum = checksum)
            .and_then(|()| serde_json::to_vec_pretty(&record))
            .map_err(std::io::Error::from)
            .and_then(|json| {
                let mut file = File::create_new(&path)?;
                file.write_all(&json)?;
                file.sync_all()
            });
        written.map_err(DatasetError::io("write", &path))?;
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
