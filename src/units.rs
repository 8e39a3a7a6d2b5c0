//! Units of work: a list of items is cut into units, each with an input file and one result file, so
//! that any engine runs them anywhere, in any order, as often as it likes.
//!
//! ```text
//! DIR/plan.json      what is done to each item, how many items and units, digests of the inputs
//! DIR/in/N           the items of unit N, one a line
//! DIR/NAME           a file that every unit reads, if the task has one
//! DIR/out/DIGEST     the result of the unit with this digest, of plan and number
//! ```
//!
//! The directory appears in one step, and so does each result. A result is what the unit wrote and,
//! as its last line, a seal with the digest of that; so a result that was cut short or changed is
//! known, is no result, and is computed again. Equal units write equal bytes, wherever they run.
//!
//! Must not know: what a task is, how units are computed, who starts them.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::files;

/// Most units of a plan: what the array jobs of most schedulers allow.
pub const MAX_UNITS: u64 = 10_000;
/// Format of plans and results; the last line of a result begins with it.
const FORMAT: &str = "agent-units-1";
/// Longest plan, bytes.
const MAX_PLAN_BYTES: u64 = 16 << 20;
/// Longest last line of a result, bytes.
const MAX_SEAL_BYTES: u64 = 1 << 20;
/// Failed items that a seal tells one by one.
const MAX_TOLD: usize = 100;
const PLAN: &str = "plan.json";
const INPUTS: &str = "in";
const RESULTS: &str = "out";

/// Why units cannot be planned, run or collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnitsError {
    /// There is no plan in the directory, or none of this version.
    #[error("{}: {why}", path.display())]
    NoPlan {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The directory holds something else than what is planned.
    #[error("{} holds another plan or other files; name a new directory", .0.display())]
    Other(PathBuf),
    /// A unit that is not planned.
    #[error("there is no unit {unit}; the plan has {n}, from 0")]
    NoUnit {
        /// The number given.
        unit: u64,
        /// Units of the plan.
        n: u64,
    },
    /// An input that was changed since it was planned.
    #[error("{} was changed since it was planned; plan again", .0.display())]
    Changed(PathBuf),
    /// Units without a result, or with a damaged one.
    #[error("{} of {n} units have no whole result, unit {} is the first", missing.len(), missing[0])]
    Missing {
        /// Their numbers, ascending; at least one.
        missing: Vec<u64>,
        /// Units of the plan.
        n: u64,
    },
    /// The file system refuses.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
}

/// What is planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Plan {
    format: String,
    /// The program's version; another one may compute something else.
    version: String,
    /// What is done to each item.
    task: Value,
    /// Items in all.
    items: u64,
    /// Digest of each unit's input, by number.
    inputs: Vec<String>,
    /// The file that every unit reads: its name here, and its digest.
    file: Option<(String, String)>,
}

/// The last line of a result.
#[derive(Debug, Serialize, Deserialize)]
struct Seal {
    format: String,
    unit: u64,
    /// Bytes before this line, and their digest.
    bytes: u64,
    blake3: String,
    /// Items that failed, the first of them with why.
    failed: u64,
    failures: Vec<String>,
}

/// A directory of units.
#[derive(Debug)]
pub struct Units {
    dir: PathBuf,
    plan: Plan,
    digest: blake3::Hash,
}

/// What all units together gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Bytes written.
    pub bytes: u64,
    /// Items that failed.
    pub failed: u64,
    /// The first failures of each unit, in order.
    pub failures: Vec<String>,
}

impl Units {
    /// Plans a task on items, one a line, cut into at most `n` units of about as many items; with a
    /// file that each unit reads. The same plan in the same directory is opened.
    ///
    /// # Errors
    /// [`UnitsError::Other`] for a directory that holds anything else; [`UnitsError::Io`].
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
            task: serde_json::to_value(task).map_err(|error| io_at(dir)(error.into()))?,
            items: total,
            inputs: inputs.iter().map(|input| hex(input)).collect(),
            file: file.map(|(name, bytes)| (name.to_owned(), hex(bytes))),
        };
        if dir.exists() {
            let there = Self::open(dir).ok().filter(|there| there.plan == plan);
            return there.ok_or_else(|| UnitsError::Other(dir.to_owned()));
        }
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let staging = files::temporary_dir(parent.unwrap_or(Path::new(".")), ".units-");
        let staging = staging.map_err(io_at(dir))?;
        let make = || -> io::Result<()> {
            let text = serde_json::to_vec_pretty(&plan)?;
            for folder in [INPUTS, RESULTS] {
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
        make().map_err(io_at(dir))?;
        // It has another name by now.
        let _ = staging.keep();
        Self::open(dir)
    }

    /// Opens what was planned.
    ///
    /// # Errors
    /// [`UnitsError::NoPlan`].
    pub fn open(dir: &Path) -> Result<Self, UnitsError> {
        let no_plan = |why: String| UnitsError::NoPlan { path: dir.to_owned(), why };
        let bytes = files::read(&dir.join(PLAN), MAX_PLAN_BYTES)
            .map_err(|error| no_plan(format!("there is no plan of units: {error}")))?;
        let plan: Plan = serde_json::from_slice(&bytes)
            .map_err(|error| no_plan(format!("{PLAN} is no plan of units: {error}")))?;
        let here = (FORMAT, env!("CARGO_PKG_VERSION"));
        if (plan.format.as_str(), plan.version.as_str()) != here {
            let (format, version) = (&plan.format, &plan.version);
            return Err(no_plan(format!(
                "it was planned by version {version} ({format}), and this is {} ({}); use one \
                 version on all machines",
                here.1, here.0
            )));
        }
        Ok(Self { dir: dir.to_owned(), digest: blake3::hash(&bytes), plan })
    }

    /// What is done to each item.
    pub fn task(&self) -> &Value {
        &self.plan.task
    }

    /// How many units there are.
    pub fn len(&self) -> u64 {
        self.plan.inputs.len() as u64
    }

    /// Whether there is no unit; there always is one.
    pub fn is_empty(&self) -> bool {
        self.plan.inputs.is_empty()
    }

    /// Where the file lies that every unit reads; it is read and compared with what was planned.
    ///
    /// # Errors
    /// [`UnitsError::Changed`], [`UnitsError::Io`].
    pub fn file(&self) -> Result<Option<PathBuf>, UnitsError> {
        let Some((name, digest)) = &self.plan.file else { return Ok(None) };
        let path = self.dir.join(name);
        let bytes = fs::read(&path).map_err(io_at(&path))?;
        if hex(&bytes) == *digest { Ok(Some(path)) } else { Err(UnitsError::Changed(path)) }
    }

    /// The items of a unit, and the number of the first one, from 0.
    ///
    /// # Errors
    /// [`UnitsError::NoUnit`], [`UnitsError::Changed`], [`UnitsError::Io`].
    pub fn items(&self, unit: u64) -> Result<(u64, Vec<String>), UnitsError> {
        let digest = usize::try_from(unit).ok().and_then(|at| self.plan.inputs.get(at));
        let digest = digest.ok_or(UnitsError::NoUnit { unit, n: self.len() })?;
        let path = self.dir.join(INPUTS).join(unit.to_string());
        let bytes = fs::read(&path).map_err(io_at(&path))?;
        let text = String::from_utf8(bytes).ok().filter(|text| hex(text.as_bytes()) == *digest);
        let text = text.ok_or(UnitsError::Changed(path))?;
        let first = share(self.plan.items, self.len(), unit).start;
        Ok((first, text.lines().map(str::to_owned).collect()))
    }

    /// Whether the unit has a whole result. Reads it.
    pub fn is_done(&self, unit: u64) -> bool {
        self.read(unit, &mut io::sink()).is_ok_and(|seal| seal.is_some())
    }

    /// The units without a whole result, ascending. Reads all results.
    pub fn remaining(&self) -> Vec<u64> {
        (0..self.len()).filter(|&unit| !self.is_done(unit)).collect()
    }

    /// Publishes the result of a unit: its lines, and which items failed.
    ///
    /// # Errors
    /// [`UnitsError::Io`]; then there is no new result.
    pub fn publish(
        &self,
        unit: u64,
        content: &[u8],
        mut failures: Vec<String>,
    ) -> Result<(), UnitsError> {
        let failed = failures.len() as u64;
        failures.truncate(MAX_TOLD);
        let (format, bytes) = (FORMAT.to_owned(), content.len() as u64);
        let seal = Seal { format, unit, bytes, blake3: hex(content), failed, failures };
        let path = self.result(unit);
        let write = || -> io::Result<()> {
            let dir = self.dir.join(RESULTS);
            let mut file = files::temporary_file(&dir, ".unit-")?;
            file.write_all(content)?;
            file.write_all(&serde_json::to_vec(&seal)?)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            // So that the name survives a power cut too.
            if cfg!(unix) { File::open(&dir)?.sync_all() } else { Ok(()) }
        };
        write().map_err(io_at(&path))
    }

    /// Writes the results of all units in order, without their seals.
    ///
    /// # Errors
    /// [`UnitsError::Missing`] unless every unit has a whole result, before anything is written;
    /// [`UnitsError::Io`].
    pub fn collect(&self, out: &mut dyn Write) -> Result<Collected, UnitsError> {
        let (missing, n) = (self.remaining(), self.len());
        if !missing.is_empty() {
            return Err(UnitsError::Missing { missing, n });
        }
        let mut collected = Collected::default();
        for unit in 0..n {
            let read = self.read(unit, out).map_err(io_at(&self.result(unit)))?;
            // It was changed since it was looked at.
            let seal = read.ok_or(UnitsError::Missing { missing: vec![unit], n })?;
            collected.bytes += seal.bytes;
            collected.failed += seal.failed;
            collected.failures.extend(seal.failures);
        }
        Ok(collected)
    }

    /// Copies a result without its seal; no seal unless the result is whole.
    fn read(&self, unit: u64, out: &mut dyn Write) -> io::Result<Option<Seal>> {
        let file = files::open(&self.result(unit))?;
        let length = file.metadata()?.len();
        let Some((end, seal)) = seal_of(&file, length)? else { return Ok(None) };
        if (seal.format.as_str(), seal.unit, seal.bytes) != (FORMAT, unit, end) {
            return Ok(None);
        }
        let mut input = BufReader::new(File::open(self.result(unit))?.take(end));
        let (mut hasher, mut out) = (blake3::Hasher::new(), BufWriter::new(out));
        loop {
            let block = input.fill_buf()?;
            if block.is_empty() {
                break;
            }
            hasher.update(block);
            out.write_all(block)?;
            let n = block.len();
            input.consume(n);
        }
        out.flush()?;
        Ok((hasher.finalize().to_hex().as_str() == seal.blake3).then_some(seal))
    }

    /// Where the result of a unit is.
    fn result(&self, unit: u64) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.digest.as_bytes()).update(&unit.to_le_bytes());
        self.dir.join(RESULTS).join(hasher.finalize().to_hex().as_str())
    }
}

/// Where the last line of a result begins, and what it says; none if it is no seal.
fn seal_of(file: &File, length: u64) -> io::Result<Option<(u64, Seal)>> {
    use std::io::{Seek as _, SeekFrom};

    let mut file = file;
    let from = length.saturating_sub(MAX_SEAL_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(MAX_SEAL_BYTES).read_to_end(&mut tail)?;
    let Some(line) = tail.strip_suffix(b"\n") else { return Ok(None) };
    let begin = line.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let seal = serde_json::from_slice(&line[begin..]).ok();
    Ok(seal.map(|seal| (from + begin as u64, seal)))
}

/// The items of one of `n` units.
fn share(items: u64, n: u64, unit: u64) -> Range<u64> {
    let at = |unit: u64| (u128::from(items) * u128::from(unit) / u128::from(n)) as u64;
    at(unit)..at(unit + 1)
}

fn hex(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> UnitsError {
    let path = path.to_owned();
    move |source| UnitsError::Io { path: path.clone(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(n: usize) -> Vec<String> {
        (0..n).map(|at| format!("item {at}")).collect()
    }

    /// Runs all units in reverse; each answers its items with their numbers.
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
        assert!(matches!(plan("y", 2), Err(UnitsError::Other(_))));
        assert!(matches!(plan("x", 3), Err(UnitsError::Other(_))));
        let units = Units::open(&path).unwrap();
        assert!(matches!(units.items(2), Err(UnitsError::NoUnit { unit: 2, n: 2 })));
        assert_eq!(fs::read(units.file().unwrap().unwrap()).unwrap(), b"text");
        fs::write(path.join("shared"), "other").unwrap();
        assert!(matches!(units.file(), Err(UnitsError::Changed(_))));
        fs::write(path.join(INPUTS).join("1"), "other\n").unwrap();
        assert!(matches!(units.items(1), Err(UnitsError::Changed(_))));
        assert!(matches!(Units::open(dir.path()), Err(UnitsError::NoPlan { .. })));
    }

    #[test]
    fn failed_items_are_counted_and_the_first_told() {
        let dir = tempfile::tempdir().unwrap();
        let units = Units::plan(&dir.path().join("a"), &"x", &items(2), 2, None).unwrap();
        units.publish(0, b"a\n", vec!["why".to_owned(); MAX_TOLD + 1]).unwrap();
        units.publish(1, b"", Vec::new()).unwrap();
        let found = units.collect(&mut io::sink()).unwrap();
        assert_eq!((found.bytes, found.failed), (2, MAX_TOLD as u64 + 1));
        assert_eq!(found.failures.len(), MAX_TOLD);
    }
}
