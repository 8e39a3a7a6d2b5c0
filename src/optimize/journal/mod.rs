//! The journal of a run: what was done, so that a run that was killed goes on where it was and
//! ends in the same result, and nothing that was paid for is paid twice.
//!
//! A run is a directory: `run.sqlite` (with `-wal` and `-shm` beside it while it is open), `lock`,
//! `reserve` while there is a writer, and what others put there. A step is a kind, a key unique
//! within its kind, a JSON body, the programs it proposed and the keys of the replies it used; it is
//! committed whole, in one transaction, before its result is used. Replies of language models are
//! kept beside the steps, each in a transaction of its own: [`JournalReplies`].
//!
//! [`Journal::step`] is the way to use it: a step that was done is read, any other is computed and
//! committed, and both give the value as read back from its JSON, so that a resumed run sees the
//! same numbers bit for bit.
//!
//! | limit | unit | value |
//! | --- | --- | --- |
//! | [`BODY_BYTES`], also of a request or a reply | bytes of JSON | 64 Mi |
//! | [`BODY_DEPTH`] | lists and maps within one another | 100 |
//! | [`KIND_BYTES`], [`KEY_BYTES`] | bytes | 64, 4096 |
//! | [`PROGRAMS_PER_STEP`], [`REPLIES_PER_STEP`] | programs, replies | 10 000 |
//! | [`PROGRAM_BYTES`] | bytes of one source, or of a module in base64 | 6 Mi |
//! | [`CONFIG_BYTES`] | bytes of JSON | 1 Mi |
//!
//! JSON has no infinity and no NaN: serialization turns them into `null`. [`Journal::step`] refuses
//! a value that for this reason does not read back; an `Option` of a number reads back as `None`.
//!
//! Must not know: what steps mean, the clock, who computes.

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
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::journal::{
    encode::{decode, encode},
    files::{Files, SharedFiles, State, Writer},
    lock::{LOCK_FILE, Lock, Place},
    replies::check_key,
    reserve::Reserve,
    store::{Access, Store, Stored},
};
pub use crate::journal::{error::JournalError, lock::writer, replies::JournalReplies};
use agent_sandbox::program::Program;

/// Name of the database in a run directory.
pub const DATABASE_FILE: &str = "run.sqlite";
/// Name of the database until it is complete.
const UNFINISHED_FILE: &str = "run.sqlite.new";
/// Largest body of a step, bytes of JSON. Bounds the memory that reading one step takes.
pub const BODY_BYTES: usize = 64 << 20;
/// Deepest nesting of lists and maps in a body; JSON readers stop at 128.
pub const BODY_DEPTH: usize = 100;
/// Largest configuration, bytes of JSON.
pub const CONFIG_BYTES: usize = 1 << 20;
/// Longest kind of step, bytes.
pub const KIND_BYTES: usize = 64;
/// Longest key of a step, bytes.
pub const KEY_BYTES: usize = 4_096;
/// Most programs that one step proposes.
pub const PROGRAMS_PER_STEP: usize = 10_000;
/// Most replies that one step names.
pub const REPLIES_PER_STEP: usize = 10_000;
/// Longest source of a program, bytes; the longest module that a sandbox takes has 5.4 Mi in base64.
pub const PROGRAM_BYTES: usize = 6 << 20;
/// Fewest digits that name a program.
pub const PREFIX_DIGITS: usize = 6;

/// A step that was committed.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    /// Its number: 1, 2, ... in order of commit.
    pub n: u64,
    /// What was done, for instance `score`.
    pub kind: String,
    /// Which of its kind.
    pub key: String,
    /// Ids of the programs it proposed, new or not, in the order given.
    pub programs: Vec<String>,
    /// Keys of the replies it used, in the order given.
    pub replies: Vec<String>,
    /// Its result.
    pub body: Value,
}

/// The journal of one run, open. One writer at a time, any number of readers beside it. The run
/// is free for another writer once the journal and its replies are dropped.
#[derive(Debug)]
pub struct Journal {
    files: SharedFiles,
    path: PathBuf,
    config: Value,
}

impl Journal {
    /// Begins a run in a directory that is absent or empty, and stores its configuration. A
    /// beginning that was interrupted leaves a directory in which a run can begin.
    ///
    /// # Errors
    /// [`JournalError::Exists`], [`JournalError::NotEmpty`], [`JournalError::Locked`],
    /// [`JournalError::Io`], [`JournalError::Storage`], [`JournalError::Full`], and
    /// [`JournalError::TooLarge`] for the configuration.
    pub fn create(dir: &Path, config: &Value) -> Result<Self, JournalError> {
        let text = encode("run", "config", config, CONFIG_BYTES)?;
        fs::create_dir_all(dir).map_err(JournalError::io("create", dir))?;
        if dir.join(DATABASE_FILE).exists()
            && let Err(used @ JournalError::Locked { .. }) = Lock::take(dir)
        {
            // A run that goes on cannot be resumed, which is what `Exists` advises.
            return Err(used);
        }
        check_empty(dir)?;
        let lock = Lock::take(dir)?;
        // Another may have begun a run and ended since.
        check_empty(dir)?;
        let unfinished = dir.join(UNFINISHED_FILE);
        for suffix in ["", "-journal", "-wal", "-shm"] {
            let left = dir.join(format!("{UNFINISHED_FILE}{suffix}"));
            match fs::remove_file(&left) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(JournalError::Io { action: "remove", path: left, source: error });
                }
                _ => {}
            }
        }
        Store::create(&unfinished, &text)?;
        let path = dir.join(DATABASE_FILE);
        fs::rename(&unfinished, &path).map_err(JournalError::io("create", &path))?;
        sync_directory(dir)?;
        if let Some(parent) = fs::canonicalize(dir).ok().as_deref().and_then(Path::parent) {
            sync_directory(parent)?;
        }
        Self::write(dir, lock)
    }

    /// Opens a run to go on with it. Checks every row, which takes time linear in its size.
    ///
    /// # Errors
    /// [`JournalError::NotARun`], [`JournalError::Locked`], [`JournalError::Damaged`],
    /// [`JournalError::NewerVersion`], [`JournalError::Io`], [`JournalError::Storage`],
    /// [`JournalError::Full`].
    pub fn resume(dir: &Path) -> Result<Self, JournalError> {
        check_run(dir)?;
        let lock = Lock::take(dir)?;
        Self::write(dir, lock)
    }

    /// Opens a run to read it, while another process may be writing it. Rows are checked as they
    /// are read. Takes no lock.
    ///
    /// # Errors
    /// Those of [`Journal::resume`] but [`JournalError::Locked`].
    pub fn open_read_only(dir: &Path) -> Result<Self, JournalError> {
        check_run(dir)?;
        Self::open(dir, None)
    }

    /// Opens the database for the holder of the lock.
    fn write(dir: &Path, lock: Lock) -> Result<Self, JournalError> {
        Self::open(dir, Some(lock))
    }

    /// Opens the database, to write it if there is a lock.
    fn open(dir: &Path, lock: Option<Lock>) -> Result<Self, JournalError> {
        let path = dir.join(DATABASE_FILE);
        let access = if lock.is_some() { Access::Write } else { Access::Read };
        let store = Store::open(&path, access)?;
        let config = serde_json::from_str(&store.config).map_err(|error| {
            let what = format!("the configuration is not JSON: {error}");
            JournalError::Damaged { path: path.clone(), what }
        })?;
        let writer = match lock {
            Some(lock) => Some(Writer {
                places: vec![lock.place.clone(), Place::of(&path)?, Place::of(&store::log(&path))?],
                state: State::Open,
                reserve: Reserve::take(dir)?,
                _lock: lock,
            }),
            None => None,
        };
        Ok(Self { files: SharedFiles::new(Files { store, writer }), path, config })
    }

    /// The configuration that the run was begun with, as read back from its JSON.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// The result of a step, if it was committed.
    ///
    /// # Errors
    /// [`JournalError::Decode`] when it is of another type; [`JournalError::Damaged`],
    /// [`JournalError::Storage`].
    pub fn find<T: DeserializeOwned>(
        &self,
        kind: &str,
        key: &str,
    ) -> Result<Option<T>, JournalError> {
        let found = self.files.lock().store.step(kind, key)?;
        match found {
            Some(step) => decode(kind, key, &step.body).map(Some),
            None => Ok(None),
        }
    }

    /// Commits a step: its result and the programs it proposed, in one transaction. When this
    /// returns `Ok`, they are on the disk. Committing an equal step again does nothing.
    ///
    /// # Errors
    /// [`JournalError::Conflict`] when the step was committed with another result;
    /// [`JournalError::TooLarge`], [`JournalError::Encode`] for
    /// what cannot be stored; all these leave the journal as it was. After
    /// [`JournalError::Storage`], [`JournalError::Moved`] or [`JournalError::Damaged`], further
    /// commits are refused with [`JournalError::Stopped`]: a write that failed is not tried again,
    /// as the system may have dropped it. When the disk fills up, the step at hand takes the room
    /// kept for it, 4 MiB, and the next is refused; [`JournalError::Full`] when that was not
    /// enough. [`JournalError::ReadOnly`] without a lock.
    pub fn commit<T: Serialize>(
        &mut self,
        kind: &str,
        key: &str,
        body: &T,
        programs: &[Program],
    ) -> Result<(), JournalError> {
        self.commit_with(kind, key, body, programs, &[])
    }

    /// Commits a step as [`Journal::commit`] does, with the keys of the replies it used; they must
    /// be kept.
    ///
    /// # Errors
    /// Those of [`Journal::commit`], and [`JournalError::UnknownReply`], [`JournalError::BadKey`],
    /// which leave the journal as it was.
    pub fn commit_with<T: Serialize>(
        &mut self,
        kind: &str,
        key: &str,
        body: &T,
        programs: &[Program],
        replies: &[String],
    ) -> Result<(), JournalError> {
        let body = encode(kind, key, body, BODY_BYTES)?;
        self.append(kind, key, &body, programs, replies)
    }

    /// The replies of the run, to be shared by all who ask. Of a journal that was opened for
    /// reading they can be read only.
    ///
    /// # Errors
    /// [`JournalError::Moved`].
    pub fn replies(&self) -> Result<Arc<JournalReplies>, JournalError> {
        self.files.lock().check_places()?;
        Ok(Arc::new(JournalReplies::new(self.files.clone(), self.path.clone())))
    }

    /// The result of a step: read if it was committed, otherwise computed and committed. Both ways
    /// give the value as read back from its JSON.
    ///
    /// # Errors
    /// Those of the computation, after which nothing is stored, of [`Journal::find`] and of
    /// [`Journal::commit`]. A journal that can store nothing is found before computing.
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
        self.files.lock().check_writable()?;
        let (value, programs) = compute()?;
        let body = encode(kind, key, &value, BODY_BYTES)?;
        // Before the commit, so that nothing is stored that cannot be read.
        let value = decode(kind, key, &body)?;
        self.append(kind, key, &body, &programs, &[])?;
        Ok(value)
    }

    /// All steps in order of commit. The whole journal must fit into memory.
    ///
    /// # Errors
    /// [`JournalError::Damaged`], [`JournalError::Storage`].
    pub fn steps(&self) -> Result<Vec<StepRecord>, JournalError> {
        let mut steps = Vec::new();
        self.files.lock().store.each_step(|step| {
            steps.push(step_record(step)?);
            Ok(())
        })?;
        Ok(steps)
    }

    /// The steps behind one, at most so many, in order of commit: how a reader follows a run that
    /// another process writes. Only these steps are read.
    ///
    /// # Errors
    /// [`JournalError::Damaged`], [`JournalError::Storage`].
    pub fn steps_after(&self, n: u64, most: usize) -> Result<Vec<StepRecord>, JournalError> {
        let stored = self.files.lock().store.steps_after(n, most)?;
        stored.into_iter().map(step_record).collect()
    }

    /// The program whose id begins with the digits given, of which there must be at least
    /// [`PREFIX_DIGITS`]; upper and lower case are alike. `None` when there is none.
    ///
    /// # Errors
    /// [`JournalError::BadPrefix`], [`JournalError::Ambiguous`], [`JournalError::Damaged`],
    /// [`JournalError::Storage`].
    pub fn program(&self, id_or_prefix: &str) -> Result<Option<Program>, JournalError> {
        let prefix = id_or_prefix.to_ascii_lowercase();
        let digits = prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digits || !(PREFIX_DIGITS..=blake3::OUT_LEN * 2).contains(&prefix.len()) {
            // What is shown is cut, so that a whole file given by mistake stays readable.
            let prefix = id_or_prefix.chars().take(blake3::OUT_LEN * 2 + 1).collect();
            return Err(JournalError::BadPrefix { prefix });
        }
        let files = self.files.lock();
        let mut ids = files.store.ids(&prefix)?;
        match ids.len() {
            0 => Ok(None),
            1 => files.store.program(&ids.remove(0)),
            _ => Err(JournalError::Ambiguous { prefix, ids }),
        }
    }

    /// All programs in the order in which steps first proposed them.
    ///
    /// # Errors
    /// [`JournalError::Damaged`], [`JournalError::Storage`].
    pub fn programs(&self) -> Result<Vec<Program>, JournalError> {
        self.files.lock().store.programs()
    }

    /// Stores a step, or stops the journal.
    fn append(
        &mut self,
        kind: &str,
        key: &str,
        body: &str,
        programs: &[Program],
        replies: &[String],
    ) -> Result<(), JournalError> {
        check_names(kind, key)?;
        check_programs(kind, key, programs)?;
        check_replies(kind, key, replies)?;
        let mut files = self.files.lock();
        files.check_writable()?;
        let names = replies.join(" ");
        if let Some(stored) = files.store.step(kind, key)? {
            let same = stored.programs == store::ids(programs)
                && stored.replies == names
                && (stored.body == body || equal(&stored.body, body));
            let conflict = || JournalError::Conflict {
                n: stored.n.unsigned_abs(),
                kind: kind.to_owned(),
                key: key.to_owned(),
            };
            return if same { Ok(()) } else { Err(conflict()) };
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

/// A step as it was stored.
fn step_record(step: Stored) -> Result<StepRecord, JournalError> {
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

/// Whether two JSON texts mean the same; the order of keys does not matter.
fn equal(a: &str, b: &str) -> bool {
    let read = |text| serde_json::from_str::<Value>(text);
    matches!((read(a), read(b)), (Ok(a), Ok(b)) if a == b)
}

/// Fails if a kind or key is too long.
fn check_names(kind: &str, key: &str) -> Result<(), JournalError> {
    let too_large = |what: &str, limit| {
        Err(JournalError::TooLarge { what: format!("the {what} of a step"), limit, unit: "bytes" })
    };
    if kind.len() > KIND_BYTES {
        return too_large("kind", KIND_BYTES);
    }
    if key.len() > KEY_BYTES {
        return too_large("key", KEY_BYTES);
    }
    Ok(())
}

/// Fails if programs are too many, too long, or would not come back as they are.
fn check_programs(kind: &str, key: &str, programs: &[Program]) -> Result<(), JournalError> {
    if programs.len() > PROGRAMS_PER_STEP {
        return Err(JournalError::TooLarge {
            what: format!("the list of programs of step {kind} {key:?}"),
            limit: PROGRAMS_PER_STEP,
            unit: "programs",
        });
    }
    for program in programs {
        if program.source().len() > PROGRAM_BYTES {
            return Err(JournalError::TooLarge {
                what: format!("program {}", program.short_id()),
                limit: PROGRAM_BYTES,
                unit: "bytes",
            });
        }
    }
    Ok(())
}

/// Fails if the replies that a step names are too many, or cannot stand in a list.
fn check_replies(kind: &str, key: &str, replies: &[String]) -> Result<(), JournalError> {
    if replies.len() > REPLIES_PER_STEP {
        return Err(JournalError::TooLarge {
            what: format!("the list of replies of step {kind} {key:?}"),
            limit: REPLIES_PER_STEP,
            unit: "replies",
        });
    }
    replies.iter().try_for_each(|reply| check_key(reply))
}

/// Fails unless a new run may begin in a directory.
fn check_empty(dir: &Path) -> Result<(), JournalError> {
    if dir.join(DATABASE_FILE).exists() {
        return Err(JournalError::Exists { dir: dir.to_owned() });
    }
    for entry in fs::read_dir(dir).map_err(JournalError::io("read", dir))? {
        let name = entry.map_err(JournalError::io("read", dir))?.file_name();
        let name = name.to_string_lossy();
        if name != LOCK_FILE && !name.starts_with(UNFINISHED_FILE) {
            return Err(JournalError::NotEmpty { dir: dir.to_owned(), found: name.into_owned() });
        }
    }
    Ok(())
}

/// Fails unless a directory holds a run.
fn check_run(dir: &Path) -> Result<(), JournalError> {
    let why = match (dir.is_dir(), dir.join(DATABASE_FILE).is_file()) {
        (true, true) => return Ok(()),
        (true, false) => "it has no run.sqlite; begin one without --resume",
        (false, _) => "there is no such directory; begin a run without --resume",
    };
    Err(JournalError::NotARun { dir: dir.to_owned(), why })
}

/// Writes the entries of a directory to the disk, where the system has that.
fn sync_directory(dir: &Path) -> Result<(), JournalError> {
    if cfg!(unix) {
        File::open(dir).and_then(|file| file.sync_all()).map_err(JournalError::io("write", dir))?;
    }
    Ok(())
}
