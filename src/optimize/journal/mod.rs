//! The journal of a run stores all completed steps and all replies of language models that were
//! paid for. A run that was killed can be resumed; it then ends with the same result and pays for
//! no reply twice.
//!
//! A run is a directory with the database `run.sqlite`, the file `lock`, and files of other
//! modules. The `-wal` and `-shm` files of the database exist while it is open, and the file
//! `reserve` exists while there is a writer. A step has a kind, a key that is unique within its
//! kind, a JSON body (its result), the programs that it proposed, and the keys of the replies that
//! it used. A step is committed in one transaction, before its result is used. Replies of language
//! models are stored separately, each in its own transaction; see [`JournalReplies`].
//!
//! [`Journal::step`] reads the result of a committed step, or computes and commits it. In both
//! cases the result is returned as read back from its JSON, so that a resumed run sees the same
//! numbers bit for bit.
//!
//! | limit | unit | value |
//! | --- | --- | --- |
//! | [`BODY_BYTES`], also of a request or a reply | bytes of JSON | 64 Mi |
//! | [`BODY_DEPTH`] | levels of nested lists and maps | 100 |
//! | [`KIND_BYTES`], [`KEY_BYTES`] | bytes | 64, 4096 |
//! | [`PROGRAMS_PER_STEP`], [`REPLIES_PER_STEP`] | programs, replies | 10 000 |
//! | [`PROGRAM_BYTES`] | bytes of one source, or of a module in base64 | 6 Mi |
//! | [`CONFIG_BYTES`] | bytes of JSON | 1 Mi |
//!
//! JSON has no infinity and no NaN: serialization turns them into `null`. [`Journal::step`] rejects
//! a result that therefore does not read back; an `Option` of a number reads back as `None`. The
//! journal stores no times.

mod encode;
mod error;
mod files;
mod lock;
mod replies;
mod reserve;
mod store;

#[cfg(test)]
mod tests;

use std::{
    fs::{self, File},
    path::Path,
    sync::{Arc, Mutex},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::journal::{
    encode::{decode, encode},
    files::{Files, State, Writer},
    lock::{FileLocation, LOCK_FILE, Lock},
    replies::check_key,
    reserve::Reserve,
    store::{Store, StoredStep},
};
pub use crate::journal::{error::JournalError, lock::writer_pid, replies::JournalReplies};
use agent_ground::locks::locked;
use agent_sandbox::program::Program;

/// Result of a function of the journal.
type Result<T, E = JournalError> = std::result::Result<T, E>;

/// Name of the database file in a run directory.
pub const DATABASE_FILE: &str = "run.sqlite";
/// Name of the database file while the database is being created.
const UNFINISHED_FILE: &str = "run.sqlite.new";
/// Maximum size of the body of a step, in bytes of JSON. This limits the memory for reading one
/// step.
pub const BODY_BYTES: usize = 64 << 20;
/// Maximum number of levels of nested lists and maps in the body of a step. JSON readers stop at
/// 128.
pub const BODY_DEPTH: usize = 100;
/// Maximum size of the configuration of a run, in bytes of JSON.
pub const CONFIG_BYTES: usize = 1 << 20;
/// Maximum length in bytes of a step's kind.
pub const KIND_BYTES: usize = 64;
/// Maximum length in bytes of a step's key.
pub const KEY_BYTES: usize = 4_096;
/// Maximum number of programs that a step may propose.
pub const PROGRAMS_PER_STEP: usize = 10_000;
/// Maximum number of replies that a step may use.
pub const REPLIES_PER_STEP: usize = 10_000;
/// Maximum size in bytes of a program's source. The largest module that a sandbox accepts has 5.4
/// MiB in base64.
pub const PROGRAM_BYTES: usize = 6 << 20;
/// Minimum number of hexadecimal digits of a prefix that names a program by its id.
pub const PREFIX_DIGITS: usize = 6;

/// A committed step, as the journal returns it.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    /// Number of the step, from 1 in order of commit.
    pub n: u64,
    /// Kind of the step, such as `trial`.
    pub kind: String,
    /// Key of the step, unique within the kind.
    pub key: String,
    /// Ids of the programs that the step proposed, in the order in which they were given. Earlier
    /// steps may have proposed the same programs.
    pub programs: Vec<String>,
    /// Keys of the replies that the step used, in the order in which they were given.
    pub replies: Vec<String>,
    /// Result of the step, as JSON.
    pub body: Value,
}

/// The open journal of a run. A run can have one writer at a time, and any number of readers.
/// Another process can write the run once the journal and its replies are dropped.
#[derive(Debug)]
pub struct Journal {
    /// The open files, shared with the replies.
    files: Arc<Mutex<Files>>,
    config: Value,
}

impl Journal {
    /// Creates a run with its configuration in a directory that is missing or empty. If the
    /// creation is interrupted, a run can be created in the directory later.
    ///
    /// # Errors
    /// [`JournalError::Exists`], [`JournalError::NotEmpty`], [`JournalError::Locked`],
    /// [`JournalError::Io`], [`JournalError::Storage`], [`JournalError::Full`], and
    /// [`JournalError::TooLarge`] for the configuration.
    pub fn create(dir: &Path, config: &Value) -> Result<Self> {
        let text = encode("run", "config", config, CONFIG_BYTES)?;
        fs::create_dir_all(dir).map_err(JournalError::io("create", dir))?;
        if dir.join(DATABASE_FILE).exists()
            && let Err(used @ JournalError::Locked { .. }) = Lock::take(dir)
        {
            // `Exists` advises to resume, which fails while the run is being written.
            return Err(used);
        }
        check_empty(dir)?;
        let lock = Lock::take(dir)?;
        // Another process may have created a run meanwhile.
        check_empty(dir)?;
        let unfinished = dir.join(UNFINISHED_FILE);
        for suffix in ["", "-journal", "-wal", "-shm"] {
            let left = dir.join(format!("{UNFINISHED_FILE}{suffix}"));
            if let Err(source) = fs::remove_file(&left)
                && source.kind() != std::io::ErrorKind::NotFound
            {
                return Err(JournalError::Io { action: "remove", path: left, source });
            }
        }
        Store::create(&unfinished, &text)?;
        let path = dir.join(DATABASE_FILE);
        fs::rename(&unfinished, &path).map_err(JournalError::io("create", &path))?;
        sync_directory(dir)?;
        if let Some(parent) = fs::canonicalize(dir).ok().as_deref().and_then(Path::parent) {
            sync_directory(parent)?;
        }
        Self::open(dir, Some(lock))
    }

    /// Opens a run to continue it. Checks every row of the database, which takes time linear in its
    /// size.
    ///
    /// # Errors
    /// [`JournalError::NotARun`], [`JournalError::Locked`], [`JournalError::Damaged`],
    /// [`JournalError::NewerVersion`], [`JournalError::OlderVersion`], [`JournalError::Io`],
    /// [`JournalError::Storage`], [`JournalError::Full`], [`JournalError::Moved`].
    pub fn resume(dir: &Path) -> Result<Self> {
        check_run(dir)?;
        Self::open(dir, Some(Lock::take(dir)?))
    }

    /// Opens a run for reading; another process may write the run at the same time. Rows of the
    /// database are checked when they are read. Takes no lock.
    ///
    /// # Errors
    /// As [`Journal::resume`], except [`JournalError::Locked`].
    pub fn open_read_only(dir: &Path) -> Result<Self> {
        check_run(dir)?;
        Self::open(dir, None)
    }

    /// Opens the database: for writing if `lock` is given, otherwise for reading.
    fn open(dir: &Path, lock: Option<Lock>) -> Result<Self> {
        let path = dir.join(DATABASE_FILE);
        let store = Store::open(&path, lock.is_some())?;
        let config = serde_json::from_str(&store.config)
            .map_err(|error| store.damaged(&format!("the configuration is not JSON: {error}")))?;
        let writer = match lock {
            Some(lock) => Some(Writer {
                locations: vec![
                    lock.location.clone(),
                    FileLocation::current(&path)?,
                    FileLocation::current(&store::log(&path))?,
                ],
                state: State::Open,
                reserve: Reserve::take(dir)?,
                _lock: lock,
            }),
            None => None,
        };
        Ok(Self { files: Arc::new(Mutex::new(Files { store, writer })), config })
    }

    /// Returns the configuration that the run was created with, as read back from its JSON.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// Returns the result of the step with this kind and key; `None` if the step was not committed.
    ///
    /// # Errors
    /// [`JournalError::Decode`] if the result has another type; [`JournalError::Damaged`],
    /// [`JournalError::Storage`].
    pub fn find<T: DeserializeOwned>(&self, kind: &str, key: &str) -> Result<Option<T>> {
        let found = locked(&self.files).store.step(kind, key)?;
        found.map(|step| decode(kind, key, &step.body)).transpose()
    }

    /// Commits a step with its result and the programs that it proposed, in one transaction, which
    /// is on the disk when this returns `Ok`. Committing an equal step again does nothing.
    ///
    /// # Errors
    /// [`JournalError::Conflict`] if the step was committed with another result;
    /// [`JournalError::TooLarge`] and [`JournalError::Encode`] if the step cannot be stored. These
    /// errors leave the journal unchanged. After [`JournalError::Storage`], [`JournalError::Moved`]
    /// or [`JournalError::Damaged`], further commits fail with [`JournalError::Stopped`]: a failed
    /// write is not repeated, since the system may have dropped its data. On a full disk, the
    /// current step uses the 4 MiB reserve and the next one fails; [`JournalError::Full`] if the
    /// reserve is too small. [`JournalError::ReadOnly`] without a lock.
    pub fn commit<T: Serialize>(
        &mut self,
        kind: &str,
        key: &str,
        body: &T,
        programs: &[Program],
    ) -> Result<()> {
        self.commit_with(kind, key, body, programs, &[])
    }

    /// Does the same as [`Journal::commit`] for a step that used replies, whose keys are given. The
    /// replies must be stored before.
    ///
    /// # Errors
    /// As [`Journal::commit`]; also [`JournalError::UnknownReply`] and [`JournalError::BadKey`],
    /// which leave the journal unchanged.
    pub fn commit_with<T: Serialize>(
        &mut self,
        kind: &str,
        key: &str,
        body: &T,
        programs: &[Program],
        replies: &[String],
    ) -> Result<()> {
        let body = encode(kind, key, body, BODY_BYTES)?;
        self.append(kind, key, &body, programs, replies)
    }

    /// Returns access to the replies of the run, which all threads share. If the journal was opened
    /// for reading, replies can only be read.
    ///
    /// # Errors
    /// [`JournalError::Moved`] if a file of the run was removed or replaced.
    pub fn replies(&self) -> Result<Arc<JournalReplies>> {
        locked(&self.files).check_locations()?;
        Ok(Arc::new(JournalReplies(self.files.clone())))
    }

    /// Returns the result of the step with this kind and key. Reads the result if the step was
    /// committed; otherwise computes and commits it. In both cases the result is as read back from
    /// its JSON.
    ///
    /// # Errors
    /// Errors of `compute`, after which nothing is stored, of [`Journal::find`] and of
    /// [`Journal::commit`]. If the journal cannot be written, `compute` is not called.
    pub fn step<T, E>(
        &mut self,
        kind: &str,
        key: &str,
        compute: impl FnOnce() -> Result<(T, Vec<Program>), E>,
    ) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<JournalError>,
    {
        if let Some(value) = self.find(kind, key)? {
            return Ok(value);
        }
        check_names(kind, key)?;
        locked(&self.files).check_writable(false)?;
        let (value, programs) = compute()?;
        let body = encode(kind, key, &value, BODY_BYTES)?;
        // Decoded before the commit, so that every stored value can be read.
        let value = decode(kind, key, &body)?;
        self.append(kind, key, &body, &programs, &[])?;
        Ok(value)
    }

    /// Returns all steps in order of commit. All steps must fit into memory.
    ///
    /// # Errors
    /// [`JournalError::Damaged`], [`JournalError::Storage`].
    pub fn steps(&self) -> Result<Vec<StepRecord>> {
        let mut steps = Vec::new();
        locked(&self.files).store.each_step(|step| {
            steps.push(step_record(step)?);
            Ok(())
        })?;
        Ok(steps)
    }

    /// Returns at most `limit` steps after the step with number `n`, in order of commit. Lets a
    /// reader follow a run that another process writes.
    ///
    /// # Errors
    /// [`JournalError::Damaged`], [`JournalError::Storage`].
    pub fn steps_after(&self, n: u64, limit: usize) -> Result<Vec<StepRecord>> {
        let stored = locked(&self.files).store.steps_after(n, limit)?;
        stored.into_iter().map(step_record).collect()
    }

    /// Returns the program whose id begins with the given hexadecimal digits, in upper or lower
    /// case, at least [`PREFIX_DIGITS`]; `None` if there is no such program.
    ///
    /// # Errors
    /// [`JournalError::BadPrefix`], [`JournalError::Ambiguous`], [`JournalError::Damaged`],
    /// [`JournalError::Storage`].
    pub fn program(&self, id_or_prefix: &str) -> Result<Option<Program>> {
        let prefix = id_or_prefix.to_ascii_lowercase();
        let digits = prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digits || !(PREFIX_DIGITS..=blake3::OUT_LEN * 2).contains(&prefix.len()) {
            // Cut, so that the message stays readable if a whole file was given by mistake.
            let prefix = id_or_prefix.chars().take(blake3::OUT_LEN * 2 + 1).collect();
            return Err(JournalError::BadPrefix(prefix));
        }
        let files = locked(&self.files);
        let mut ids = files.store.ids(&prefix)?;
        match ids.len() {
            0 => Ok(None),
            1 => files.store.program(&ids.remove(0)),
            _ => Err(JournalError::Ambiguous { prefix, ids }),
        }
    }

    /// Returns all programs in the order in which steps first proposed them.
    ///
    /// # Errors
    /// [`JournalError::Damaged`], [`JournalError::Storage`].
    pub fn programs(&self) -> Result<Vec<Program>> {
        locked(&self.files).store.programs()
    }

    /// Commits a step whose body is already encoded as JSON, unless an equal step is stored.
    fn append(
        &mut self,
        kind: &str,
        key: &str,
        body: &str,
        programs: &[Program],
        replies: &[String],
    ) -> Result<()> {
        check_names(kind, key)?;
        check_size(programs.len(), PROGRAMS_PER_STEP, "programs", || {
            format!("the list of programs of step {kind} {key:?}")
        })?;
        for program in programs {
            let name = || format!("program {}", program.short_id());
            check_size(program.source().len(), PROGRAM_BYTES, "bytes", name)?;
        }
        check_size(replies.len(), REPLIES_PER_STEP, "replies", || {
            format!("the list of replies of step {kind} {key:?}")
        })?;
        replies.iter().try_for_each(|reply| check_key(reply))?;
        let mut files = locked(&self.files);
        files.check_writable(false)?;
        let names = replies.join(" ");
        if let Some(stored) = files.store.step(kind, key)? {
            let same = stored.programs == store::ids(programs)
                && stored.replies == names
                && (stored.body == body || is_same_json(&stored.body, body));
            let (n, kind, key) = (stored.n.unsigned_abs(), kind.to_owned(), key.to_owned());
            return if same { Ok(()) } else { Err(JournalError::Conflict { n, kind, key }) };
        }
        for reply in replies {
            if !files.store.has_reply(reply)? {
                let (kind, key) = (kind.to_owned(), key.to_owned());
                return Err(JournalError::UnknownReply { kind, key, reply: reply.clone() });
            }
        }
        files.write(|store| store.append(kind, key, body, programs, &names))
    }
}

/// Converts a step from its stored form.
fn step_record(step: StoredStep) -> Result<StepRecord> {
    let list = |text: &str| text.split_terminator(' ').map(str::to_owned).collect();
    Ok(StepRecord {
        n: step.n.unsigned_abs(),
        body: decode(&step.kind, &step.key, &step.body)?,
        programs: list(&step.programs),
        replies: list(&step.replies),
        kind: step.kind,
        key: step.key,
    })
}

/// Whether two JSON texts are equal, ignoring the order of keys.
fn is_same_json(a: &str, b: &str) -> bool {
    let read = |text| serde_json::from_str::<Value>(text);
    matches!((read(a), read(b)), (Ok(a), Ok(b)) if a == b)
}

/// Fails if the kind or the key of a step is too long.
fn check_names(kind: &str, key: &str) -> Result<()> {
    check_size(kind.len(), KIND_BYTES, "bytes", || "the kind of a step".to_owned())?;
    check_size(key.len(), KEY_BYTES, "bytes", || "the key of a step".to_owned())
}

/// Fails if the size of a part is above its limit; `what` names the part in the message.
fn check_size(
    size: usize,
    limit: usize,
    unit: &'static str,
    what: impl FnOnce() -> String,
) -> Result<()> {
    match size > limit {
        true => Err(JournalError::TooLarge { what: what(), limit, unit }),
        false => Ok(()),
    }
}

/// Fails if a directory holds a run or other files; a lock file and leftovers of an interrupted
/// creation are allowed.
fn check_empty(dir: &Path) -> Result<()> {
    if dir.join(DATABASE_FILE).exists() {
        return Err(JournalError::Exists(dir.to_owned()));
    }
    for entry in fs::read_dir(dir).map_err(JournalError::io("read", dir))? {
        let name = entry.map_err(JournalError::io("read", dir))?.file_name();
        let name = name.to_string_lossy();
        if name != LOCK_FILE && !name.starts_with(UNFINISHED_FILE) {
            return Err(JournalError::NotEmpty(dir.to_owned(), name.into_owned()));
        }
    }
    Ok(())
}

/// Fails unless a directory holds a run.
fn check_run(dir: &Path) -> Result<()> {
    let database = dir.join(DATABASE_FILE);
    let why = match (dir.is_dir(), database.is_file()) {
        (true, true) => return Ok(()),
        (true, false) if database.exists() => {
            "its run.sqlite is not a regular file; restore it, or start a run with --run DIR"
        }
        (true, false) => "it has no run.sqlite; start a run without --resume",
        (false, _) => "the directory does not exist; start a run without --resume",
    };
    Err(JournalError::NotARun(dir.to_owned(), why))
}

/// Syncs the entries of a directory to the disk, on systems that support this.
fn sync_directory(dir: &Path) -> Result<()> {
    if cfg!(unix) {
        File::open(dir).and_then(|file| file.sync_all()).map_err(JournalError::io("write", dir))?;
    }
    Ok(())
}
