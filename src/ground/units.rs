//! Units of work: a list of items is split into units, each with an input file and one result file.
//! Any scheduler may run the units anywhere, in any order and repeatedly.
//!
//! ```text
//! DIR/plan.json      the task, the numbers of items and units, digests of the inputs
//! DIR/in/N           the items of unit N, one per line
//! DIR/NAME           a file that every unit reads, if the task has one
//! DIR/out/DIGEST     the result of a unit, named by a digest of the plan and the unit's number
//! DIR/claims/N       locked by the process that works on unit N; may hold the process's name
//! ```
//!
//! The directory appears in one step, and so does each result. A result is the output of the unit,
//! followed by a seal: one line with the digest of the output. A truncated or changed result counts
//! as missing and is computed again. Equal units have equal results, byte for byte, on every
//! machine.
//!
//! Does not depend on the task of the units, or on what runs them.

use std::{
    fs::{self, File, TryLockError},
    io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Take, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::files;

/// Maximum number of units of a plan; most schedulers accept array jobs of this size.
pub const MAX_UNITS: u64 = 10_000;
/// Name of the format of plans and results.
const FORMAT: &str = "agent-units-1";
/// First bytes of a seal. They cannot occur inside a seal, because JSON escapes quotation marks in
/// strings.
const SEAL_START: &[u8] = br#"{"format":"agent-units-1","#;
/// Maximum size of a plan, in bytes.
const MAX_PLAN_BYTES: u64 = 16 << 20;
/// Maximum size, in bytes, of the file that every unit reads, and of the input and the output of a
/// unit.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Maximum length, in bytes, of the name that a process signs a claim with.
const MAX_SIGNATURE_BYTES: u64 = 100;
/// Maximum size of a seal, in bytes.
const MAX_SEAL_BYTES: u64 = 1 << 20;
/// Number of bytes read or written at a time.
const BLOCK_BYTES: usize = 1 << 16;
/// Maximum number of failed items that a seal describes; further items are only counted.
const MAX_LISTED_FAILURES: usize = 100;
const PLAN: &str = "plan.json";
const INPUTS: &str = "in";
const RESULTS: &str = "out";
const CLAIMS: &str = "claims";

/// Why units cannot be planned, run or collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnitsError {
    /// The directory has no plan that this version of the program can use.
    #[error("{}: {reason}", path.display())]
    NoPlan {
        /// The directory.
        path: PathBuf,
        /// What is wrong with the plan.
        reason: String,
    },
    /// The directory holds another plan or other files.
    #[error("{} holds another plan or other files; name a new directory", .0.display())]
    DirectoryInUse(PathBuf),
    /// The plan has no unit with this number.
    #[error("there is no unit {unit}; the plan has {n} units, numbered from 0")]
    NoUnit {
        /// Number of the requested unit.
        unit: u64,
        /// Number of units in the plan.
        n: u64,
    },
    /// This input file was changed after the units were planned.
    #[error("{} has changed since the units were planned; plan again", .0.display())]
    Changed(PathBuf),
    /// Some units have no result, or a damaged one.
    #[error("{} of {n} units have no complete result; the first is unit {}", missing.len(), missing[0])]
    Missing {
        /// Numbers of these units, ascending; at least one.
        missing: Vec<u64>,
        /// Number of units in the plan.
        n: u64,
    },
    /// A file operation failed.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Returns the task of the plan in a directory, regardless of the program version that wrote it;
/// `None` without a plan.
pub fn planned_task(dir: &Path) -> Option<Value> {
    let bytes = files::read(&dir.join(PLAN), MAX_PLAN_BYTES).ok()?;
    serde_json::from_slice::<Value>(&bytes).ok()?.get_mut("task").map(Value::take)
}

/// Content of the file [`PLAN`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Plan {
    format: String,
    /// Version of the program that made the plan; other versions may compute other results.
    version: String,
    /// Description of what to do with each item.
    task: Value,
    /// Total number of items.
    items: u64,
    /// BLAKE3 digest of each unit's input file, in hexadecimal, by the number of the unit.
    inputs: Vec<String>,
    /// Name (in the directory) and BLAKE3 digest of the file that every unit reads; none if the
    /// task has no such file.
    file: Option<(String, String)>,
}

/// Seal of a result: the last line of its file, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Seal {
    format: String,
    unit: u64,
    /// Number of bytes of output before the seal.
    bytes: u64,
    blake3: String,
    /// Number of items that failed.
    failed: u64,
    failures: Vec<String>,
}

/// A directory of units, opened.
#[derive(Debug)]
pub struct Units {
    dir: PathBuf,
    plan: Plan,
    digest: blake3::Hash,
}

/// Totals over the results of all units.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UnitTotals {
    /// Number of bytes of output.
    pub bytes: u64,
    /// Number of items that failed.
    pub failed: u64,
    /// Descriptions of failed items, in the order of the units; for each unit at most the first
    /// 100.
    pub failures: Vec<String>,
}

impl Units {
    /// Plans a task on `items`, split into at most `n` units of about the same size. `file` is the
    /// name and content of a file that every unit reads, if there is one. If the directory already
    /// holds the same plan, opens it.
    ///
    /// # Errors
    /// [`UnitsError::DirectoryInUse`] if the directory holds another plan or other files;
    /// [`UnitsError::Io`].
    pub fn plan(
        dir: &Path,
        task: &impl Serialize,
        items: &[String],
        n: u64,
        file: Option<(&str, &[u8])>,
    ) -> Result<Self, UnitsError> {
        let total = items.len() as u64;
        let n = n.clamp(1, MAX_UNITS).min(total.max(1));
        let inputs: Vec<Vec<u8>> = (0..n)
            .map(|unit| {
                let range = share(total, n, unit);
                let lines = &items[range.start as usize..range.end as usize];
                lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect()
            })
            .collect();
        let plan = Plan {
            format: FORMAT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            task: serde_json::to_value(task).map_err(|error| io_error(dir)(error.into()))?,
            items: total,
            inputs: inputs.iter().map(|input| hex(input)).collect(),
            file: file.map(|(name, bytes)| (name.to_owned(), hex(bytes))),
        };
        if dir.exists() {
            let there = Self::open(dir).ok().filter(|there| there.plan == plan);
            return there.ok_or_else(|| UnitsError::DirectoryInUse(dir.to_owned()));
        }
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let staging = files::temporary_dir(parent.unwrap_or(Path::new(".")), ".units-");
        let staging = staging.map_err(io_error(dir))?;
        let make = || -> io::Result<()> {
            let text = serde_json::to_vec_pretty(&plan)?;
            for folder in [INPUTS, RESULTS, CLAIMS] {
                fs::create_dir(staging.path().join(folder))?;
            }
            for (unit, input) in inputs.iter().enumerate() {
                fs::write(staging.path().join(INPUTS).join(unit.to_string()), input)?;
            }
            if let Some((name, bytes)) = file {
                fs::write(staging.path().join(name), bytes)?;
            }
            fs::write(staging.path().join(PLAN), text)?;
            fs::rename(staging.path(), dir)
        };
        make().map_err(io_error(dir))?;
        // The directory was renamed, so there is nothing to remove.
        let _ = staging.keep();
        Self::open(dir)
    }

    /// Opens a directory of units.
    ///
    /// # Errors
    /// [`UnitsError::NoPlan`] if the directory has no plan, or one of another version;
    /// [`UnitsError::Io`] if one of its own directories is a symbolic link.
    pub fn open(dir: &Path) -> Result<Self, UnitsError> {
        let no_plan = |reason: String| UnitsError::NoPlan { path: dir.to_owned(), reason };
        let bytes = files::read(&dir.join(PLAN), MAX_PLAN_BYTES)
            .map_err(|error| no_plan(format!("no plan of units: {error}")))?;
        let plan: Plan = serde_json::from_slice(&bytes)
            .map_err(|error| no_plan(format!("{PLAN} is not a plan of units: {error}")))?;
        let current = (FORMAT, env!("CARGO_PKG_VERSION"));
        if (plan.format.as_str(), plan.version.as_str()) != current {
            let (format, version) = (&plan.format, &plan.version);
            return Err(no_plan(format!(
                "it was planned by version {version} ({format}), but this is {} ({}); use the same \
                 version on all machines",
                current.1, current.0
            )));
        }
        for folder in [INPUTS, RESULTS, CLAIMS].map(|name| dir.join(name)) {
            files::refuse_link(&folder).map_err(io_error(&folder))?;
        }
        Ok(Self { dir: dir.to_owned(), digest: blake3::hash(&bytes), plan })
    }

    /// Returns the path of the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the BLAKE3 digest of the plan file.
    pub fn digest(&self) -> blake3::Hash {
        self.digest
    }

    /// Returns the description of what to do with each item.
    pub fn task(&self) -> &Value {
        &self.plan.task
    }

    /// Returns the number of units.
    pub fn len(&self) -> u64 {
        self.plan.inputs.len() as u64
    }

    /// Returns false: a plan has at least one unit.
    pub fn is_empty(&self) -> bool {
        self.plan.inputs.is_empty()
    }

    /// Checks the digest of the file that every unit reads, and returns its path; `None` if the
    /// task has no such file.
    ///
    /// # Errors
    /// [`UnitsError::Changed`] if the digest differs, [`UnitsError::Io`].
    pub fn file(&self) -> Result<Option<PathBuf>, UnitsError> {
        let Some((name, digest)) = &self.plan.file else { return Ok(None) };
        let path = self.dir.join(name);
        // The file must lie in the directory itself.
        if Path::new(name).file_name() != Some(name.as_ref()) {
            return Err(UnitsError::Changed(path));
        }
        let bytes = files::read(&path, MAX_FILE_BYTES).map_err(io_error(&path))?;
        if hex(&bytes) == *digest { Ok(Some(path)) } else { Err(UnitsError::Changed(path)) }
    }

    /// Returns the number of a unit's first item (from 0, over all units) and the items of the
    /// unit.
    ///
    /// # Errors
    /// [`UnitsError::NoUnit`], [`UnitsError::Changed`], [`UnitsError::Io`].
    pub fn items(&self, unit: u64) -> Result<(u64, Vec<String>), UnitsError> {
        let digest = usize::try_from(unit).ok().and_then(|at| self.plan.inputs.get(at));
        let digest = digest.ok_or(UnitsError::NoUnit { unit, n: self.len() })?;
        let path = self.dir.join(INPUTS).join(unit.to_string());
        let bytes = files::read(&path, MAX_FILE_BYTES).map_err(io_error(&path))?;
        let text = String::from_utf8(bytes).ok().filter(|text| hex(text.as_bytes()) == *digest);
        let text = text.ok_or(UnitsError::Changed(path))?;
        Ok((self.range(unit).start, text.lines().map(str::to_owned).collect()))
    }

    /// Returns the range of item numbers (from 0, over all units) of a unit.
    pub fn range(&self, unit: u64) -> Range<u64> {
        share(self.plan.items, self.len(), unit)
    }

    /// Returns the output of a unit; `None` if the unit has no complete result, or its output is
    /// longer than `limit` bytes.
    pub fn read(&self, unit: u64, limit: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut content = Content::open(&self.result(unit), unit).ok()?;
        if content.seal.bytes > limit {
            return None;
        }
        content.read_to_end(&mut bytes).ok().map(|_| bytes)
    }

    /// Whether the unit has a complete result. Reads the whole result.
    pub fn is_done(&self, unit: u64) -> bool {
        let read = |mut content: Content| io::copy(&mut content, &mut io::sink());
        Content::open(&self.result(unit), unit).is_ok_and(|content| read(content).is_ok())
    }

    /// Locks a unit until the returned claim is dropped. `None` if another process holds the lock,
    /// if the lock file cannot be opened or is not a regular file, or if the directory of claims is
    /// a symbolic link. On file systems without locks, two processes may claim the same unit and
    /// both compute it.
    pub fn claim(&self, unit: u64) -> Option<Claim> {
        let dir = self.dir.join(CLAIMS);
        files::refuse_link(&dir).ok()?;
        let path = dir.join(unit.to_string());
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            return None;
        }
        let file = File::options().create(true).truncate(false).write(true).open(path).ok()?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            _ => Some(Claim(file)),
        }
    }

    /// Returns the name of the last process that signed a claim on a unit; empty if none did.
    pub fn signed_by(&self, unit: u64) -> String {
        let path = self.dir.join(CLAIMS).join(unit.to_string());
        files::read_text(&path, MAX_SIGNATURE_BYTES).unwrap_or_default()
    }

    /// Returns the numbers of the units without a complete result, ascending. Reads all results.
    pub fn remaining(&self) -> Vec<u64> {
        (0..self.len()).filter(|&unit| !self.is_done(unit)).collect()
    }

    /// Publishes the result of a unit: its output `content`, and descriptions of its failed items.
    ///
    /// # Errors
    /// [`UnitsError::Io`]; no new result is then published.
    pub fn publish(
        &self,
        unit: u64,
        content: &[u8],
        failures: Vec<String>,
    ) -> Result<(), UnitsError> {
        let mut writing = self.write(unit)?;
        writing.write_all(content).map_err(io_error(&self.result(unit)))?;
        writing.publish(failures)
    }

    /// Starts the result of a unit, whose output can then be written in parts.
    ///
    /// # Errors
    /// [`UnitsError::Io`], also if the directory of results is a symbolic link.
    pub fn write(&self, unit: u64) -> Result<ResultWriter<'_>, UnitsError> {
        let dir = self.dir.join(RESULTS);
        files::refuse_link(&dir).map_err(io_error(&dir))?;
        let file = files::temporary_file(&dir, ".unit-").map_err(io_error(&dir))?;
        let file = BufWriter::with_capacity(BLOCK_BYTES, file);
        Ok(ResultWriter { units: self, unit, file, hasher: blake3::Hasher::new(), bytes: 0 })
    }

    /// Returns a reader of the outputs of all units, in the order of the units.
    ///
    /// # Errors
    /// [`UnitsError::Missing`] if some unit has no complete result.
    pub fn results(&self) -> Result<Results<'_>, UnitsError> {
        let (missing, n) = (self.remaining(), self.len());
        if !missing.is_empty() {
            return Err(UnitsError::Missing { missing, n });
        }
        Ok(Results { units: self, next: 0, content: None, collected: UnitTotals::default() })
    }

    /// Writes the outputs of all units to `out`, in the order of the units and without seals.
    ///
    /// # Errors
    /// [`UnitsError::Missing`] if some unit has no complete result; nothing is then written.
    /// [`UnitsError::Io`].
    pub fn collect(&self, out: &mut dyn Write) -> Result<UnitTotals, UnitsError> {
        let mut results = self.results()?;
        let mut out = BufWriter::with_capacity(BLOCK_BYTES, out);
        let copied = io::copy(&mut results, &mut out).and_then(|_| out.flush());
        copied.map_err(io_error(&self.dir))?;
        Ok(results.collected)
    }

    /// Returns the path of the result of a unit, whether or not it exists.
    pub fn result(&self, unit: u64) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.digest.as_bytes()).update(&unit.to_le_bytes());
        self.dir.join(RESULTS).join(hasher.finalize().to_hex().as_str())
    }
}

/// The lock of this process on a unit, released when it is dropped.
pub struct Claim(File);

impl Claim {
    /// Writes the name of this process into the lock file. A name of more than 100 bytes cannot be
    /// read again.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn sign(&self, name: &str) -> io::Result<()> {
        let mut file = &self.0;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(name.as_bytes())
    }
}

/// A unit's result that is being written; it is removed when it is dropped, unless it was
/// published.
pub struct ResultWriter<'a> {
    units: &'a Units,
    unit: u64,
    file: BufWriter<NamedTempFile>,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Write for ResultWriter<'_> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        // A larger result would be refused when read, and computed again each time.
        if self.bytes + content.len() as u64 + MAX_SEAL_BYTES > MAX_FILE_BYTES {
            let told = "the result of a unit is larger than 1 GiB; plan with smaller units";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, told));
        }
        let n = self.file.write(content)?;
        self.hasher.update(&content[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl ResultWriter<'_> {
    /// Publishes the result, with descriptions of the failed items of the unit.
    ///
    /// # Errors
    /// [`UnitsError::Io`]; no new result is then published.
    pub fn publish(self, mut failures: Vec<String>) -> Result<(), UnitsError> {
        let Self { units, unit, mut file, hasher, bytes } = self;
        let failed = failures.len() as u64;
        failures.truncate(MAX_LISTED_FAILURES);
        let (format, blake3) = (FORMAT.to_owned(), hasher.finalize().to_hex().to_string());
        let seal = Seal { format, unit, bytes, blake3, failed, failures };
        let path = units.result(unit);
        let write = || -> io::Result<()> {
            file.write_all(&serde_json::to_vec(&seal)?)?;
            file.write_all(b"\n")?;
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            files::publish(file, &path, &units.dir.join(RESULTS))
        };
        write().map_err(io_error(&path))
    }
}

/// Reader of the output of one unit. The read that reaches the end fails if the output does not
/// match the digest in its seal.
struct Content {
    input: BufReader<Take<File>>,
    hasher: blake3::Hasher,
    seal: Seal,
}

impl Content {
    /// Opens the result of a unit and reads its seal.
    fn open(path: &Path, unit: u64) -> io::Result<Self> {
        let file = files::open(path)?;
        let (end, seal) = seal_of(&file)?.ok_or_else(incomplete)?;
        let is_of_unit = (seal.format.as_str(), seal.unit, seal.bytes) == (FORMAT, unit, end);
        // A sparse file may be longer than the disk, and reading it takes hours.
        if !is_of_unit || end > MAX_FILE_BYTES {
            return Err(incomplete());
        }
        let input = BufReader::with_capacity(BLOCK_BYTES, File::open(path)?.take(end));
        Ok(Self { input, hasher: blake3::Hasher::new(), seal })
    }
}

impl Read for Content {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(out)?;
        self.hasher.update(&out[..n]);
        let is_end = n == 0 && !out.is_empty();
        let is_whole = || self.hasher.finalize().to_hex().as_str() == self.seal.blake3;
        if is_end && !is_whole() { Err(incomplete()) } else { Ok(n) }
    }
}

/// Reader of the outputs of all units, in the order of the units and without seals. Reading fails
/// at a result that was changed after it was checked.
pub struct Results<'a> {
    units: &'a Units,
    next: u64,
    content: Option<Content>,
    collected: UnitTotals,
}

impl Read for Results<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let content = match &mut self.content {
                Some(content) => content,
                None if self.next == self.units.len() => return Ok(0),
                none => {
                    let path = self.units.result(self.next);
                    let content = Content::open(&path, self.next)?;
                    self.next += 1;
                    none.insert(content)
                }
            };
            let n = content.read(out)?;
            if n > 0 || out.is_empty() {
                return Ok(n);
            }
            if let Some(Content { seal, .. }) = self.content.take() {
                self.collected.bytes += seal.bytes;
                self.collected.failed += seal.failed;
                self.collected.failures.extend(seal.failures);
            }
        }
    }
}

fn incomplete() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a result is incomplete")
}

/// Returns the number of bytes before the seal at the end of a result, and the seal; `None` if
/// there is no seal.
fn seal_of(mut file: &File) -> io::Result<Option<(u64, Seal)>> {
    let from = file.metadata()?.len().saturating_sub(MAX_SEAL_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(MAX_SEAL_BYTES).read_to_end(&mut tail)?;
    let begin = tail.windows(SEAL_START.len()).rposition(|bytes| bytes == SEAL_START);
    let line = begin.and_then(|begin| Some((begin, tail[begin..].strip_suffix(b"\n")?)));
    let sealed = line.and_then(|(begin, line)| {
        let seal = serde_json::from_slice(line).ok()?;
        Some((from + begin as u64, seal))
    });
    Ok(sealed)
}

/// Returns the range of item numbers (from 0) of a unit, if `items` items are split into `n` units.
fn share(items: u64, n: u64, unit: u64) -> Range<u64> {
    let at = |unit: u64| (u128::from(items) * u128::from(unit) / u128::from(n)) as u64;
    at(unit)..at(unit + 1)
}

fn hex(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> UnitsError {
    let path = path.to_owned();
    move |source| UnitsError::Io { path: path.clone(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(n: usize) -> Vec<String> {
        (0..n).map(|at| format!("item {at}")).collect()
    }

    /// Runs all units in reverse order; the output of each unit is its items with their numbers.
    fn run_all(units: &Units) {
        for unit in (0..units.len()).rev() {
            let (first, items) = units.items(unit).unwrap();
            let line = |(at, item): (u64, &String)| format!("{at} {item}\n");
            let content: String = (first..).zip(&items).map(line).collect();
            units.publish(unit, content.as_bytes(), Vec::new()).unwrap();
        }
    }

    fn collected(units: &Units) -> String {
        let mut out = Vec::new();
        units.collect(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn however_items_are_cut_the_collected_bytes_are_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let all: Vec<String> = [1, 3, 7, 99]
            .into_iter()
            .map(|n| {
                let path = dir.path().join(n.to_string());
                let units = Units::plan(&path, &"x", &items(10), n, None).unwrap();
                assert_eq!(units.len(), n.min(10), "no unit is empty");
                run_all(&units);
                collected(&units)
            })
            .collect();
        assert_eq!(all[0].lines().count(), 10);
        assert!(all[0].ends_with("9 item 9\n") && all.iter().all(|one| *one == all[0]));
    }

    #[test]
    fn a_result_that_is_missing_cut_or_changed_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let units = Units::plan(&dir.path().join("a"), &"x", &items(6), 3, None).unwrap();
        assert_eq!(units.remaining(), [0, 1, 2]);
        run_all(&units);
        let whole = collected(&units);
        let path = units.result(1);
        let bytes = fs::read(&path).unwrap();
        let mut flipped = bytes.clone();
        flipped[0] ^= 1;
        for damaged in [&bytes[..bytes.len() - 1], &bytes[..5], &[], &flipped] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(units.remaining(), [1]);
            let mut out = Vec::new();
            let error = units.collect(&mut out).unwrap_err();
            assert!(matches!(error, UnitsError::Missing { ref missing, n: 3 } if missing == &[1]));
            assert!(out.is_empty(), "nothing is written");
        }
        // The result of another unit under its name.
        fs::copy(units.result(0), &path).unwrap();
        assert_eq!(units.remaining(), [1]);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(collected(&units), whole);
    }

    #[test]
    fn the_same_plan_is_opened_and_no_other_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let plan =
            |task: &str, n| Units::plan(&path, &task, &items(4), n, Some(("shared", b"text")));
        run_all(&plan("x", 2).unwrap());
        assert!(plan("x", 2).unwrap().remaining().is_empty(), "its results are kept");
        assert!(matches!(plan("y", 2), Err(UnitsError::DirectoryInUse(_))));
        assert!(matches!(plan("x", 3), Err(UnitsError::DirectoryInUse(_))));
        let units = Units::open(&path).unwrap();
        assert!(matches!(units.items(2), Err(UnitsError::NoUnit { unit: 2, n: 2 })));
        assert_eq!(fs::read(units.file().unwrap().unwrap()).unwrap(), b"text");
        // A file outside of the plan, whose digest is right.
        let outside = path.join(PLAN);
        fs::write(dir.path().join("text"), "text").unwrap();
        let plan = fs::read_to_string(&outside).unwrap();
        fs::write(&outside, plan.replace("\"shared\"", "\"../text\"")).unwrap();
        assert!(matches!(Units::open(&path).unwrap().file(), Err(UnitsError::Changed(_))));
        fs::write(&outside, plan).unwrap();
        fs::write(path.join("shared"), "other").unwrap();
        assert!(matches!(units.file(), Err(UnitsError::Changed(_))));
        fs::write(path.join(INPUTS).join("1"), "other\n").unwrap();
        assert!(matches!(units.items(1), Err(UnitsError::Changed(_))));
        assert!(matches!(Units::open(dir.path()), Err(UnitsError::NoPlan { .. })));
    }

    #[test]
    fn any_bytes_are_a_result() {
        let dir = tempfile::tempdir().unwrap();
        let units = Units::plan(&dir.path().join("a"), &"x", &items(4), 4, None).unwrap();
        let contents: [&[u8]; 4] = [b"\n\0no end", &[0xff; 70_000], b"", SEAL_START];
        for (unit, content) in (0..).zip(contents) {
            let mut writing = units.write(unit).unwrap();
            for part in content.chunks(1_000) {
                writing.write_all(part).unwrap();
            }
            writing.publish(vec![String::from_utf8_lossy(SEAL_START).into_owned()]).unwrap();
        }
        let mut out = Vec::new();
        let found = units.collect(&mut out).unwrap();
        assert!(out == contents.concat());
        assert_eq!((found.bytes, found.failed), (out.len() as u64, 4));
        // A file that changes between the check and the reading is not a result either.
        let mut results = units.results().unwrap();
        let path = units.result(1);
        let mut bytes = fs::read(&path).unwrap();
        bytes[69_999] = 0;
        fs::write(&path, bytes).unwrap();
        assert!(results.read_to_end(&mut Vec::new()).is_err());
        let mut writing = units.write(2).unwrap();
        writing.bytes = MAX_FILE_BYTES;
        let refused = writing.write_all(b"too much").unwrap_err();
        assert!(refused.to_string().contains("larger than 1 GiB"), "{refused}");
        drop(writing);
        assert_eq!(fs::read_dir(dir.path().join("a/out")).unwrap().count(), 4);
    }

    #[test]
    fn a_sparse_file_is_no_result() {
        let dir = tempfile::tempdir().unwrap();
        let units = Units::plan(&dir.path().join("a"), &"x", &items(1), 1, None).unwrap();
        let bytes = 1 << 43;
        let seal = Seal {
            format: FORMAT.to_owned(),
            unit: 0,
            bytes,
            blake3: "0".repeat(64),
            failed: 0,
            failures: Vec::new(),
        };
        let mut file = File::create(units.result(0)).unwrap();
        if file.set_len(bytes).is_err() {
            eprintln!("skipped: the file system has no files of 8 TiB");
            return;
        }
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(format!("{}\n", serde_json::to_string(&seal).unwrap()).as_bytes()).unwrap();
        assert!(!units.is_done(0), "reading all of it would take hours");
    }

    #[test]
    fn a_unit_is_claimed_by_one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let units = Units::plan(&path, &"x", &items(2), 2, None).unwrap();
        let claim = units.claim(0);
        assert!(claim.is_some() && Units::open(&path).unwrap().claim(0).is_none());
        assert_eq!(units.signed_by(0), "");
        claim.as_ref().unwrap().sign("a long name").unwrap();
        claim.as_ref().unwrap().sign("name").unwrap();
        assert_eq!(units.signed_by(0), "name");
        assert!(units.claim(1).is_some());
        drop(claim);
        assert!(units.claim(0).is_some());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed_to_other_directories() {
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a"), dir.path().join("other"));
        let units = Units::plan(&path, &"x", &items(1), 1, None).unwrap();
        fs::create_dir(&other).unwrap();
        for folder in [INPUTS, RESULTS, CLAIMS].map(|name| path.join(name)) {
            let aside = dir.path().join("aside");
            fs::rename(&folder, &aside).unwrap();
            symlink(&other, &folder).unwrap();
            let refused = Units::open(&path).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("{}: it is a symbolic link", folder.display())),
                "{refused}"
            );
            if folder.ends_with(RESULTS) {
                assert!(units.publish(0, b"a\n", Vec::new()).is_err());
            }
            if folder.ends_with(CLAIMS) {
                assert!(units.claim(0).is_none());
            }
            fs::remove_file(&folder).unwrap();
            fs::rename(&aside, &folder).unwrap();
        }
        symlink(other.join("file"), path.join(CLAIMS).join("0")).unwrap();
        assert!(units.claim(0).is_none());
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0, "nothing lies elsewhere");
    }

    #[test]
    fn failed_items_are_counted_and_the_first_told() {
        let dir = tempfile::tempdir().unwrap();
        let units = Units::plan(&dir.path().join("a"), &"x", &items(2), 2, None).unwrap();
        units.publish(0, b"a\n", vec!["why".to_owned(); MAX_LISTED_FAILURES + 1]).unwrap();
        assert_eq!((units.read(0, 1), units.read(0, 2)), (None, Some(b"a\n".to_vec())));
        units.publish(1, b"", Vec::new()).unwrap();
        let found = units.collect(&mut io::sink()).unwrap();
        assert_eq!((found.bytes, found.failed), (2, MAX_LISTED_FAILURES as u64 + 1));
        assert_eq!(found.failures.len(), MAX_LISTED_FAILURES);
    }
}
