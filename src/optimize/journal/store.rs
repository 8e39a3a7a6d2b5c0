//! The SQLite database `run.sqlite`. All SQL of the journal is in this module.
//!
//! ```text
//! application_id "agtJ", user_version = FORMAT
//! run      id = 1 | config JSON | digest
//! step     n = 1, 2, ... | kind | key | programs: space-separated ids
//!          | replies: space-separated keys | body JSON | digest
//! program  n = 1, 2, ... | id | step that first proposed it | source
//! reply    key | role | request JSON | reply JSON | whether the run paid for it | digest
//! ```
//! Digests are BLAKE3, 32 bytes. The digest of `run` covers the configuration. The digest of a step
//! covers the digest of the run, the step's number, and all texts of the step with their lengths;
//! thus swapped rows and rows of other runs are detected. The digest of a reply covers the digest
//! of the run, whether the run paid for the reply, and all texts of the reply with their lengths. A
//! program's id is the digest of its source. A journal of an earlier format is rejected.
//!
//! The database is written in WAL mode with `synchronous = FULL`: a commit returns after its
//! records are on the disk. WAL needs a local file system. Sources:
//! <https://www.sqlite.org/wal.html>, <https://www.sqlite.org/fileformat2.html>.

use std::{
    collections::HashMap,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use blake3::Hasher;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, Params, Row, Transaction, TransactionBehavior,
    config::DbConfig, ffi, params, types::FromSql,
};

use crate::journal::{JournalError, Result};
use agent_ground::files;
use agent_kb::sqlite;
use agent_sandbox::program::Program;

/// The only version of the journal's format that can be read and written.
pub(super) const FORMAT: i64 = 2;
/// Application id that marks the database as a run journal: "agtJ".
const APPLICATION: i64 = 0x6167_744a;
/// Maximum time to wait for another connection to the database, in milliseconds. Readers never
/// block the writer; only another program can.
const BUSY_MS: u64 = 5_000;
/// Maximum size in bytes of the write-ahead log's file after a checkpoint; a larger file is cut.
const LOG_BYTES: i64 = 64 << 20;
/// Maximum number of program ids that are listed for an ambiguous prefix.
const LISTED: i64 = 10;
/// The definitions of the tables, sorted by name. The definitions in a database must be the same
/// byte by byte.
const TABLES: [&str; 4] = [
    "CREATE TABLE program(n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, \
     step INTEGER NOT NULL REFERENCES step(n), source TEXT NOT NULL) STRICT",
    "CREATE TABLE reply(key TEXT PRIMARY KEY NOT NULL, role TEXT NOT NULL, \
     request TEXT NOT NULL, reply TEXT NOT NULL, paid INTEGER NOT NULL, \
     digest BLOB NOT NULL) STRICT",
    "CREATE TABLE run(id INTEGER PRIMARY KEY CHECK(id = 1), config TEXT NOT NULL, \
     digest BLOB NOT NULL) STRICT",
    "CREATE TABLE step(n INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, \
     programs TEXT NOT NULL, replies TEXT NOT NULL, body TEXT NOT NULL, digest BLOB NOT NULL, \
     UNIQUE(kind, key)) STRICT",
];
/// Query for rows of steps, with the columns in the order that [`Store::checked_step`] expects.
const STEP: &str = "SELECT n, kind, key, programs, replies, body, digest FROM step";

/// Query for rows of replies, with the columns in the order that [`Store::checked_reply`] expects.
const REPLY: &str = "SELECT key, role, request, reply, paid, digest FROM reply";

/// A step in the form in which the database stores it.
#[derive(Debug)]
pub(super) struct StoredStep {
    /// Number of the step; at least 1 if [`Store::each_step`] returned the step.
    pub(super) n: i64,
    pub(super) kind: String,
    pub(super) key: String,
    /// Space-separated ids of the programs that the step proposed.
    pub(super) programs: String,
    /// Space-separated keys of the replies that the step used.
    pub(super) replies: String,
    pub(super) body: String,
}

/// A reply in the form in which the database stores it.
#[derive(Debug)]
pub(super) struct StoredReply {
    pub(super) key: String,
    role: String,
    pub(super) request: String,
    pub(super) reply: String,
    pub(super) paid: bool,
}

/// The open database of a run.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) connection: Connection,
    path: PathBuf,
    /// Digest of the run's configuration.
    run: [u8; 32],
    /// The run's configuration, as the stored JSON text.
    pub(super) config: String,
}

impl Store {
    /// Creates a database with a configuration and without steps, and closes it.
    pub(super) fn create(path: &Path, config: &str) -> Result<()> {
        let written = || -> rusqlite::Result<()> {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_CREATE
                | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let mut connection = sqlite::connect(path, flags)?;
            set_up(&connection)?;
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", FORMAT)?;
            for table in TABLES {
                transaction.execute(table, [])?;
            }
            transaction.execute(
                "INSERT INTO run(id, config, digest) VALUES(1, ?1, ?2)",
                params![config, config_digest(config)],
            )?;
            transaction.commit()?;
            connection.close().map_err(|(_, error)| error)
        };
        written().map_err(|error| failed("create", path, &error))
    }

    /// Opens a database for reading and, if the caller holds the lock of the run (`write`), for
    /// writing. Checks its header, tables and configuration; if `write`, also all rows, which takes
    /// time linear in the size of the database.
    pub(super) fn open(path: &Path, write: bool) -> Result<Self> {
        if write {
            files::refuse_link(path).map_err(JournalError::io("open", path))?;
        }
        // These files are checked first: SQLite would block forever if its journal were a pipe. If
        // its log were a link, its error would not say why it cannot open the database.
        for suffix in ["-journal", "-wal", "-shm"] {
            let beside = with_suffix(path, suffix);
            files::refuse_link(&beside).map_err(JournalError::io("open", &beside))?;
            match files::open(&beside) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                opened => drop(opened.map_err(JournalError::io("open", &beside))?),
            }
        }
        let length = fs::metadata(path).map_err(JournalError::io("open", path))?.len();
        if length == 0 {
            // SQLite would treat the file as a new database and delete the write-ahead log.
            return Err(damaged(path, "the file is empty"));
        }
        match Self::open_with(path, write, false) {
            // Without permission to write the shared index, SQLite opens a database only if it is
            // declared immutable. This is allowed here, because there is no log.
            Err(JournalError::Storage { .. }) if !write && !has_log(path) => {
                Self::open_with(path, write, true)
            }
            opened => opened,
        }
    }

    /// Opens a database. If `immutable`, SQLite assumes that no process writes it.
    fn open_with(path: &Path, write: bool, immutable: bool) -> Result<Self> {
        let flags = match write {
            true => OpenFlags::SQLITE_OPEN_READ_WRITE,
            false => OpenFlags::SQLITE_OPEN_READ_ONLY,
        } | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match immutable {
            true => sqlite::connect(address(path), flags | OpenFlags::SQLITE_OPEN_URI),
            false => sqlite::connect(path, flags),
        }
        .map_err(|error| failed("open", path, &error))?;
        let mut store =
            Self { connection, path: path.to_owned(), run: [0; 32], config: String::new() };
        // Nothing is written before all checks have passed.
        store.leave_log(true)?;
        set_up(&store.connection).map_err(store.failed("open"))?;
        store.check_header()?;
        if write {
            store.verify()?;
            let mode: String = store.value("PRAGMA journal_mode = WAL")?;
            let read_only = store.connection.is_readonly("main");
            if mode != "wal" || read_only.map_err(store.failed("open"))? {
                return Err(JournalError::Storage {
                    action: "write",
                    path: store.path,
                    cause: format!("the database cannot be written to (journal mode {mode})"),
                });
            }
            // This write changes no data but creates the log. If the disk cannot be written, the
            // write fails now, before anything is paid for.
            store
                .connection
                .pragma_update(None, "user_version", FORMAT)
                .map_err(store.failed("write"))?;
            // If an earlier sync of the log failed, a power cut may lose its content and all later
            // commits. A checkpoint syncs the log again, except a part that readers may need.
            let copy_log = "PRAGMA wal_checkpoint(PASSIVE)";
            let copied = store.connection.query_row(copy_log, [], |_| Ok(()));
            copied.map_err(store.failed("write"))?;
            store.leave_log(false)?;
        }
        Ok(store)
    }

    /// Checks the header, the tables and the configuration of the database, and reads the
    /// configuration.
    fn check_header(&mut self) -> Result<()> {
        if self.value::<i64>("PRAGMA application_id")? != APPLICATION {
            return Err(self.damaged("it is not a run journal"));
        }
        let found = self.value::<i64>("PRAGMA user_version")?;
        let (path, supported) = (self.path.clone(), FORMAT);
        match found {
            FORMAT => {}
            ..1 => return Err(self.damaged(&format!("journal format {found} does not exist"))),
            1..FORMAT => return Err(JournalError::OlderVersion { path, found, supported }),
            _ => return Err(JournalError::NewerVersion { path, found, supported }),
        }
        let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
        let tables: Vec<String> = self.rows(sql, [], |row| self.get(row, 0))?;
        let others: i64 = self.value(
            "SELECT count(*) FROM sqlite_schema WHERE sql IS NULL AND name NOT IN \
             ('sqlite_autoindex_program_1', 'sqlite_autoindex_reply_1', \
             'sqlite_autoindex_step_1')",
        )?;
        if tables != TABLES || others != 0 {
            return Err(self.damaged("its tables are not those of a run journal"));
        }
        self.config = self.value("SELECT config FROM run WHERE id = 1")?;
        self.run = self.value("SELECT digest FROM run WHERE id = 1")?;
        if config_digest(&self.config) != self.run {
            return Err(self.damaged("the configuration does not match its digest"));
        }
        Ok(())
    }

    /// Checks every page, index and row of the database.
    fn verify(&self) -> Result<()> {
        // Unlike the quick check, also compares indexes with rows.
        let report: String = self.value("PRAGMA integrity_check(1)")?;
        if report != "ok" {
            return Err(self.damaged(&report));
        }
        let mut proposed = HashMap::new();
        self.each_step(|step| {
            for id in step.programs.split_terminator(' ') {
                proposed.entry(id.to_owned()).or_insert(step.n);
            }
            Ok(())
        })?;
        let mut n_programs = 0;
        self.each_row("SELECT n, id, step, source FROM program ORDER BY n", [], |row| {
            n_programs += 1;
            let program = self.checked_program(row, 1)?;
            let (n, step): (i64, i64) = (self.get(row, 0)?, self.get(row, 2)?);
            if n != n_programs || proposed.get(program.id()) != Some(&step) {
                let what = format!("program {} does not belong to step {step}", program.id());
                return Err(self.damaged(&what));
            }
            Ok(())
        })?;
        self.each_reply(|_| Ok(()))
    }

    /// Returns at most `limit` steps after the step with number `n`, in order of commit. Checks
    /// that no step is missing and that each matches its digest.
    pub(super) fn steps_after(&self, n: u64, limit: usize) -> Result<Vec<StoredStep>> {
        let (n, limit) = (n.cast_signed(), i64::try_from(limit).unwrap_or(i64::MAX));
        let mut last = n;
        let sql = format!("{STEP} WHERE n > ?1 ORDER BY n LIMIT ?2");
        self.rows(&sql, params![n, limit], |row| self.next_step(row, &mut last))
    }

    /// Calls `visit` with every step in order of commit. Checks that no step is missing, that each
    /// step matches its digest, and that its programs and replies are stored. Each program must
    /// have been first proposed by this or an earlier step.
    pub(super) fn each_step(&self, mut visit: impl FnMut(StoredStep) -> Result<()>) -> Result<()> {
        let mut last = 0;
        self.each_row(&format!("{STEP} ORDER BY n"), [], |row| {
            let step = self.next_step(row, &mut last)?;
            for id in step.programs.split_terminator(' ') {
                let sql = "SELECT step FROM program WHERE id = ?1";
                let first: Option<i64> = self.rows(sql, [id], |row| self.get(row, 0))?.pop();
                if first.is_none_or(|first| first > step.n) {
                    return Err(self.damaged(&format!("program {id} of step {last} is missing")));
                }
            }
            for key in step.replies.split_terminator(' ') {
                if !self.has_reply(key)? {
                    return Err(self.damaged(&format!("reply {key:?} of step {last} is missing")));
                }
            }
            visit(step)
        })
    }

    /// Returns the step with this kind and key, after checking it against its digest; `None` if
    /// there is none.
    pub(super) fn step(&self, kind: &str, key: &str) -> Result<Option<StoredStep>> {
        let sql = format!("{STEP} WHERE kind = ?1 AND key = ?2");
        Ok(self.rows(&sql, params![kind, key], |row| self.checked_step(row))?.pop())
    }

    /// Adds a step and the programs that are not stored yet, in one transaction, which is on the
    /// disk when this returns `Ok`. After an error, either the whole transaction or nothing is
    /// stored.
    pub(super) fn append(
        &mut self,
        kind: &str,
        key: &str,
        body: &str,
        programs: &[Program],
        replies: &str,
    ) -> Result<()> {
        let (ids, run) = (ids(programs), self.run);
        self.write(|transaction| {
            let n: i64 = transaction
                .prepare_cached("SELECT coalesce(max(n), 0) + 1 FROM step")?
                .query_row([], |row| row.get(0))?;
            let digest = step_digest(&run, n, [kind, key, &ids, replies, body]);
            transaction
                .prepare_cached("INSERT INTO step VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
                .execute(params![n, kind, key, ids, replies, body, digest])?;
            for program in programs {
                transaction
                    .prepare_cached(
                        "INSERT INTO program(n, id, step, source) SELECT coalesce(max(n), 0) + 1, \
                         ?1, ?2, ?3 FROM program WHERE true ON CONFLICT(id) DO NOTHING",
                    )?
                    .execute(params![program.id(), n, program.source()])?;
            }
            Ok(())
        })
    }

    /// Runs statements that write, in one transaction. After an error, either the whole transaction
    /// or nothing is stored.
    fn write(
        &mut self,
        statements: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let written = transaction.and_then(|transaction| {
            statements(&transaction)?;
            transaction.commit()
        });
        written.map_err(|error| failed("write", &self.path, &error))
    }

    /// Returns all programs in the order in which steps first proposed them, after checking each
    /// against its digest.
    pub(super) fn programs(&self) -> Result<Vec<Program>> {
        let sql = "SELECT id, n, source FROM program ORDER BY n";
        self.rows(sql, [], |row| self.checked_program(row, 0))
    }

    /// Returns the ids of the programs whose id begins with `prefix` (hexadecimal digits in lower
    /// case), ascending, at most [`LISTED`].
    pub(super) fn ids(&self, prefix: &str) -> Result<Vec<String>> {
        let sql = "SELECT id FROM program WHERE id >= ?1 AND id < ?1 || 'g' ORDER BY id LIMIT ?2";
        self.rows(sql, params![prefix, LISTED], |row| self.get(row, 0))
    }

    /// Returns the program with this id, after checking it against the id; `None` if there is none.
    pub(super) fn program(&self, id: &str) -> Result<Option<Program>> {
        let sql = "SELECT id, n, source FROM program WHERE id = ?1";
        Ok(self.rows(sql, [id], |row| self.checked_program(row, 0))?.pop())
    }

    /// Returns the reply with this key, after checking it against its digest; `None` if there is
    /// none.
    pub(super) fn reply(&self, key: &str) -> Result<Option<StoredReply>> {
        let sql = format!("{REPLY} WHERE key = ?1");
        Ok(self.rows(&sql, [key], |row| self.checked_reply(row))?.pop())
    }

    /// Whether there is a reply with this key. Does not check the reply.
    pub(super) fn has_reply(&self, key: &str) -> Result<bool> {
        self.prepare("SELECT 1 FROM reply WHERE key = ?1")?
            .exists([key])
            .map_err(self.failed("read"))
    }

    /// Calls `visit` with every reply, in order of keys, after checking the reply against its
    /// digest.
    pub(super) fn each_reply(
        &self,
        mut visit: impl FnMut(StoredReply) -> Result<()>,
    ) -> Result<()> {
        self.each_row(&format!("{REPLY} ORDER BY key"), [], |row| visit(self.checked_reply(row)?))
    }

    /// Adds a reply, which is on the disk when this returns `Ok`. After an error, either the whole
    /// reply or nothing is stored.
    pub(super) fn append_reply(
        &mut self,
        key: &str,
        role: &str,
        request: &str,
        reply: &str,
        paid: bool,
    ) -> Result<()> {
        let digest = reply_digest(&self.run, [key, role, request, reply], paid);
        self.write(|transaction| {
            let sql = "INSERT INTO reply VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
            let values = params![key, role, request, reply, paid, digest];
            transaction.prepare_cached(sql)?.execute(values).map(drop)
        })
    }

    /// Reads a reply from a row of the query [`REPLY`] and checks it against its digest.
    fn checked_reply(&self, row: &Row<'_>) -> Result<StoredReply> {
        let stored = StoredReply {
            key: self.get(row, 0)?,
            role: self.get(row, 1)?,
            request: self.get(row, 2)?,
            reply: self.get(row, 3)?,
            paid: self.get(row, 4)?,
        };
        let texts = [&*stored.key, &stored.role, &stored.request, &stored.reply];
        if reply_digest(&self.run, texts, stored.paid) != self.get::<[u8; 32]>(row, 5)? {
            return Err(self.damaged(&format!("reply {:?} does not match its digest", stored.key)));
        }
        Ok(stored)
    }

    /// Returns the path of the database file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Sets whether closing the database leaves the write-ahead log unchanged (`true`) or
    /// checkpoints it.
    pub(super) fn leave_log(&self, leave: bool) -> Result<()> {
        self.connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leave)
            .map(|_| ())
            .map_err(self.failed("open"))
    }

    /// Reads a step from a row of the query [`STEP`] and checks it against its digest.
    fn checked_step(&self, row: &Row<'_>) -> Result<StoredStep> {
        let step = StoredStep {
            n: self.get(row, 0)?,
            kind: self.get(row, 1)?,
            key: self.get(row, 2)?,
            programs: self.get(row, 3)?,
            replies: self.get(row, 4)?,
            body: self.get(row, 5)?,
        };
        let texts = [&*step.kind, &step.key, &step.programs, &step.replies, &step.body];
        if step_digest(&self.run, step.n, texts) != self.get::<[u8; 32]>(row, 6)? {
            return Err(self.damaged(&format!("step {} does not match its digest", step.n)));
        }
        Ok(step)
    }

    /// Reads the step after step `last` as [`Store::checked_step`] does, and increments `last`.
    /// Fails if this step is missing.
    fn next_step(&self, row: &Row<'_>, last: &mut i64) -> Result<StoredStep> {
        let step = self.checked_step(row)?;
        *last = last.saturating_add(1);
        if step.n != *last {
            return Err(self.damaged(&format!("step {last} is missing")));
        }
        Ok(step)
    }

    /// Reads a program from a row that has its id in `column` and its source two columns further,
    /// and checks that the id is the digest of the source.
    fn checked_program(&self, row: &Row<'_>, column: usize) -> Result<Program> {
        let (id, source): (String, String) = (self.get(row, column)?, self.get(row, column + 2)?);
        let program = Program::new(&source);
        if program.id() != id {
            return Err(self.damaged(&format!("program {id} does not match its digest")));
        }
        Ok(program)
    }

    /// Returns the single value that an SQL query gives.
    fn value<T: FromSql>(&self, sql: &str) -> Result<T> {
        self.connection.query_row(sql, [], |row| row.get(0)).map_err(self.failed("read"))
    }

    /// Calls `visit` with each row that an SQL query gives.
    fn each_row(
        &self,
        sql: &str,
        params: impl Params,
        mut visit: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(params).map_err(self.failed("read"))?;
        while let Some(row) = rows.next().map_err(self.failed("read"))? {
            visit(row)?;
        }
        Ok(())
    }

    /// Reads all rows that an SQL query gives.
    fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut found = Vec::new();
        self.each_row(sql, params, |row| {
            found.push(read(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the value in a column of a row.
    fn get<T: FromSql>(&self, row: &Row<'_>, column: usize) -> Result<T> {
        row.get(column).map_err(self.failed("read"))
    }

    /// Prepares an SQL statement, or takes the prepared statement from the cache.
    fn prepare(&self, sql: &str) -> Result<rusqlite::CachedStatement<'_>> {
        self.connection.prepare_cached(sql).map_err(self.failed("read"))
    }

    /// Returns a function that converts an error of SQLite that occurred during `action`.
    fn failed(&self, action: &'static str) -> impl Fn(rusqlite::Error) -> JournalError {
        move |error| failed(action, &self.path, &error)
    }

    pub(super) fn damaged(&self, what: &str) -> JournalError {
        damaged(&self.path, what)
    }
}

/// Returns the ids of programs, separated by spaces.
pub(super) fn ids(programs: &[Program]) -> String {
    programs.iter().map(Program::id).collect::<Vec<_>>().join(" ")
}

/// Returns the path of a database's write-ahead log.
pub(super) fn log(path: &Path) -> PathBuf {
    with_suffix(path, "-wal")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Whether a database has a write-ahead log that is not empty.
fn has_log(path: &Path) -> bool {
    fs::metadata(log(path)).is_ok_and(|metadata| metadata.len() > 0)
}

/// Returns the URI that opens a database as immutable.
fn address(path: &Path) -> String {
    let mut address = "file:".to_owned();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                address.push(char::from(byte));
            }
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address + "?immutable=1"
}

/// Applies the settings that every connection to the database has.
fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_millis(BUSY_MS))?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))
}

/// Computes the digest of a run, which covers its configuration.
fn config_digest(config: &str) -> [u8; 32] {
    digest(&[b"agent run 1\n", config.as_bytes()], &[])
}

/// Computes the digest of a step from the digest of its run, its number and its texts.
fn step_digest(run: &[u8; 32], n: i64, texts: [&str; 5]) -> [u8; 32] {
    digest(&[b"agent step 2\n", run, &n.to_le_bytes()], &texts)
}

/// Computes the digest of a reply from the digest of its run, its texts, and whether the run paid
/// for it.
fn reply_digest(run: &[u8; 32], texts: [&str; 4], paid: bool) -> [u8; 32] {
    digest(&[b"agent reply 1\n", run, &[u8::from(paid)]], &texts)
}

/// Computes the digest of some bytes, followed by texts with their lengths.
fn digest(parts: &[&[u8]], texts: &[&str]) -> [u8; 32] {
    let mut hasher = Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize().into()
}

/// Converts an error of SQLite that occurred during `action`. An error that does not come from a
/// failed operation, such as a read, means that the database is damaged.
fn failed(action: &'static str, path: &Path, error: &rusqlite::Error) -> JournalError {
    let cause = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => return JournalError::Full(path.to_owned()),
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::OutOfMemory
            | ErrorCode::NoLargeFileSupport
            | ErrorCode::TooBig
            | ErrorCode::OperationInterrupted
            | ErrorCode::ApiMisuse,
        ) => match error.sqlite_error().and_then(|code| operation(code.extended_code)) {
            Some(operation) => format!("{error} while {operation}"),
            None => error.to_string(),
        },
        _ => return damaged(path, &error.to_string()),
    };
    JournalError::Storage { action, path: path.to_owned(), cause }
}

/// Returns the name of the operation that failed, by the extended error code of SQLite; `None` for
/// other codes.
fn operation(code: i32) -> Option<&'static str> {
    Some(match code {
        ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ => "reading",
        ffi::SQLITE_IOERR_WRITE => "writing",
        ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC => "syncing to the disk",
        ffi::SQLITE_IOERR_TRUNCATE => "cutting a file",
        ffi::SQLITE_IOERR_DELETE => "deleting a file",
        ffi::SQLITE_IOERR_LOCK | ffi::SQLITE_IOERR_UNLOCK => "locking",
        ffi::SQLITE_IOERR_SHMOPEN | ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMMAP => {
            "sharing memory"
        }
        _ => return None,
    })
}

/// Creates the error for a damaged database; `what` states the defect.
fn damaged(path: &Path, what: &str) -> JournalError {
    JournalError::Damaged(path.to_owned(), what.to_owned())
}
