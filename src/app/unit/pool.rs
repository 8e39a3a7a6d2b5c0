//! Lets other processes run the programs of an optimization, for `agent optimize --pool DIR` and
//! `agent unit work DIR`. Results do not depend on these processes: the run computes every
//! unclaimed unit itself, so it neither waits for idle workers nor loses results with them.
//!
//! ```text
//! DIR/run          locked by the run that owns the pool
//! DIR/workers/ID   locked by a worker while it lives
//! DIR/jobs/N       units: a program with its parameters on some queries
//! ```
//!
//! A run or worker refuses a directory that is neither empty nor marked as a pool. Locks end with
//! the process that holds them.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};

use super::{Kind, Task, evaluate::decoded};
use crate::{App, Explain, Result, Watch, count, counted};
use agent_ground::{
    files,
    locks::locked,
    pool_dir::PoolDir,
    units::{Claim, Units},
};
use agent_index::IndexedBase;
use agent_infer::ParamValues;
use agent_optimize::{
    OptimizeError,
    foreign::{ForeignCheck, ForeignUnit},
    trial::{Evaluators, LocalRun, TrialRanking},
};
use agent_sandbox::program::Program;

const RUN: &str = "run";
const WORKERS: &str = "workers";
/// Name of the file that holds the program of a job.
const PROGRAM: &str = "program.txt";
/// Maximum number of queries in a unit.
const UNIT_QUERIES: usize = 8;
/// If no unit is finished for this long, the holders of the remaining units are late: the run also
/// computes units that they have claimed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which a run checks for results of workers.
const LOOK: Duration = Duration::from_millis(5);

/// A unit of a job that this process has claimed.
pub struct Taken {
    /// The directory of the job.
    pub job: PathBuf,
    /// All units of the job.
    pub units: Units,
    /// Number of the claimed unit, from 0.
    pub unit: u64,
    _claim: Claim,
}

/// The file that registers this process as a worker: locked while the process lives, removed when
/// this value is dropped.
pub struct Registered {
    path: PathBuf,
    _file: File,
}

impl Registered {
    /// Returns the name with which this process signs the units that it claims.
    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A remaining file is not locked, so it does not count as a worker.
        let _ = fs::remove_file(&self.path);
    }
}

/// Registers this process as a worker of a pool.
///
/// # Errors
/// If the directory of the pool is not writable, or its directory of workers is a symbolic link.
pub fn registered(dir: &Path) -> Result<Registered> {
    let workers = dir.join(WORKERS);
    let register = || -> io::Result<Registered> {
        files::refuse_link(&workers)?;
        fs::create_dir_all(&workers)?;
        let file = files::temporary_file(&workers, ".worker-")?;
        // On file systems without locks, no worker is seen.
        let _ = file.as_file().try_lock();
        let name = file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = workers.join(name.trim_start_matches('.'));
        Ok(Registered { _file: file.persist(&path)?, path })
    };
    Ok(register()
        .with_context(|| format!("cannot register as a worker in {}", workers.display()))?)
}

/// Claims and signs the first unit of a pool that has no result and that no other process has
/// claimed, except units of the jobs in `left_out`; `None` if there is none.
pub fn next(pool: &PoolDir, worker: &Registered, left_out: &BTreeSet<PathBuf>) -> Option<Taken> {
    for job in pool.jobs().into_iter().filter(|job| !left_out.contains(job)) {
        // A finished job may be removed at any time.
        let Ok(units) = Units::open(&job) else { continue };
        for unit in 0..units.len() {
            if !units.is_done(unit)
                && let Some(claim) = units.claim(unit)
                && !units.is_done(unit)
                && claim.sign(&worker.name()).is_ok()
            {
                return Some(Taken { job, units, unit, _claim: claim });
            }
        }
    }
    None
}

/// The pool that a run owns.
pub struct Pool {
    dir: PoolDir,
    /// Name of the base on which programs run; `fingerprint` belongs to its index.
    dataset: String,
    fingerprint: String,
    watch: Arc<dyn Watch>,
    stop: Arc<AtomicBool>,
    jobs: AtomicU64,
    /// Number of workers that the last notice reported; `None` before the first notice.
    workers: Mutex<Option<usize>>,
    /// Number of rankings that workers computed; `all` is the number of all rankings.
    theirs: AtomicUsize,
    all: AtomicUsize,
    check: ForeignCheck,
    /// Holders of claims that finished nothing in time; the run waits for them again only after
    /// they have finished a unit.
    late: Mutex<BTreeSet<String>>,
    _mine: File,
}

impl Pool {
    /// Opens the pool in `dir` for one run, and removes the jobs of earlier runs. `dataset` is the
    /// name of `base`.
    ///
    /// # Errors
    /// If the directory is not usable, or another run uses it.
    pub fn open(dir: &Path, (dataset, base): (&str, &IndexedBase), app: &App) -> Result<Self> {
        let shown = dir.display();
        let pool = PoolDir::take(dir)?;
        let open = || {
            fs::create_dir_all(dir.join(WORKERS))?;
            files::open_to_lock(&dir.join(RUN))
        };
        let mine = open().with_context(|| format!("cannot use the pool {shown}"))?;
        if let Err(fs::TryLockError::WouldBlock) = mine.try_lock() {
            return Err(anyhow!("another run uses the pool {shown}"))
                .hint("give each run a directory of its own");
        }
        let free = pool.clear().with_context(|| format!("cannot empty the pool {shown}"))?;
        Ok(Self {
            dir: pool,
            dataset: dataset.to_owned(),
            fingerprint: base.fingerprint().to_owned(),
            watch: app.watch.clone(),
            stop: app.stop.clone(),
            jobs: AtomicU64::new(free),
            workers: Mutex::default(),
            theirs: AtomicUsize::new(0),
            all: AtomicUsize::new(0),
            check: ForeignCheck::new(base.kb.n_nodes() as usize),
            late: Mutex::default(),
            _mine: mine,
        })
    }

    /// Notifies the user of the number of rankings that came from workers.
    pub fn tell(&self) {
        let [theirs, all] = [&self.theirs, &self.all].map(|n| n.load(Ordering::Relaxed) as u64);
        let (theirs, all, dir) = (count(theirs), count(all), self.dir.path().display());
        self.watch.notice(&format!("{theirs} of {all} rankings came from workers of {dir}"));
    }

    /// Returns the number of live workers, and notifies the user when it has changed.
    fn workers(&self) -> usize {
        let entries = fs::read_dir(self.dir.path().join(WORKERS)).into_iter().flatten().flatten();
        let lives = |path: &Path| {
            let tried = files::open(path).map(|file| file.try_lock_shared());
            matches!(tried, Ok(Err(fs::TryLockError::WouldBlock)))
        };
        let seen = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
        let n = seen.filter(|entry| lives(&entry.path())).count();
        let mut told = locked(&self.workers);
        if told.replace(n) != Some(n) {
            let dir = self.dir.path().display();
            self.watch.notice(&match n {
                0 => format!(
                    "no live worker in {dir}, so all programs run in this process; start a worker \
                     with `agent unit work {dir}`"
                ),
                n => format!("{} in {dir}", counted(n as u64, "worker")),
            });
        }
        n
    }

    /// Writes a job to the pool: one program with its parameters, to be run on `queries`. Returns
    /// the units of the job.
    fn plan(&self, program: &Program, params: &ParamValues, queries: &[&str]) -> Result<Units> {
        let job = self.jobs.fetch_add(1, Ordering::Relaxed);
        let task = Task {
            dataset: self.dataset.clone(),
            fingerprint: self.fingerprint.clone(),
            kind: Kind::Evaluate { params: params.clone() },
        };
        let lines = queries.iter().map(serde_json::to_string);
        let lines = lines.collect::<serde_json::Result<Vec<_>>>()?;
        let n = queries.len().div_ceil(UNIT_QUERIES) as u64;
        let file = Some((PROGRAM, program.source().as_bytes()));
        Ok(Units::plan(&self.dir.job(job), &task, &lines, n, file)?)
    }

    /// Returns the rankings of a job, one for each of its `n` queries. Claims unclaimed units and
    /// computes them in this process with `here`, the last unit first, since workers start with the
    /// first. Units computed here have no result file; their claims are kept in `own`, so that no
    /// worker computes them again.
    fn shared(
        &self,
        units: &Units,
        n: usize,
        here: &LocalRun<'_>,
        own: &mut Vec<Claim>,
    ) -> Result<Vec<TrialRanking>, OptimizeError> {
        let mut ranked: Vec<Option<TrialRanking>> = vec![None; n];
        let mut foreign = Vec::new();
        let places = |unit| {
            let range = units.range(unit);
            range.start as usize..range.end as usize
        };
        let mut left: Vec<u64> = (0..units.len()).collect();
        let mut moved = Instant::now();
        while !left.is_empty() {
            let before = left.len();
            let mut late = locked(&self.late);
            left.retain(|&unit| {
                if !units.is_done(unit) {
                    return true;
                }
                let (places, worker) = (places(unit), units.signed_by(unit));
                late.remove(&worker);
                let bytes = units.read(unit, self.check.max_bytes(places.len()));
                // An invalid result counts as one without rankings; the check below then ignores
                // all results of its worker.
                let rankings = bytes.and_then(|bytes| decoded(&bytes, places.len()));
                let rankings = rankings.unwrap_or_default();
                foreign.push(ForeignUnit { worker, places, rankings });
                false
            });
            if moved.elapsed() > PATIENCE {
                late.extend(left.iter().map(|&unit| units.signed_by(unit)));
            }
            let next = next_here(units, &left, &late);
            drop(late);
            match next {
                // A worker finished the unit in the meantime.
                Some((unit, Some(_))) if units.is_done(unit) => {}
                Some((unit, claim)) => {
                    own.extend(claim);
                    let places: Vec<usize> = places(unit).collect();
                    for (&place, one) in places.iter().zip(here(&places)?) {
                        ranked[place] = Some(one);
                    }
                    left.retain(|&other| other != unit);
                }
                // Fails: the run was stopped.
                None if self.stop.load(Ordering::Relaxed) => return here(&[0]),
                None if left.len() == before => thread::sleep(LOOK),
                None => {}
            }
            if left.len() < before {
                moved = Instant::now();
            }
        }
        for worker in self.check.keep(&mut foreign, here)? {
            let dir = self.dir.path().display();
            self.watch.warning(&format!(
                "the worker {worker:?} of {dir} returned other rankings than this process; its \
                 results for this and later trials are ignored"
            ));
        }
        for ForeignUnit { places, rankings, .. } in foreign {
            for (place, ranking) in places.zip(rankings) {
                self.theirs.fetch_add(usize::from(ranking.is_some()), Ordering::Relaxed);
                ranked[place] = ranking.map(|ranking| (ranking, None));
            }
        }
        let missing: Vec<usize> = (0..n).filter(|&place| ranked[place].is_none()).collect();
        for (&place, one) in missing.iter().zip(here(&missing)?) {
            ranked[place] = Some(one);
        }
        Ok(ranked.into_iter().flatten().collect())
    }
}

/// Returns the last unit in `left` that this process can compute now: an unclaimed unit, with a new
/// claim; or a unit whose holder is in `late`, without a claim.
fn next_here(units: &Units, left: &[u64], late: &BTreeSet<String>) -> Option<(u64, Option<Claim>)> {
    left.iter().rev().find_map(|&unit| match units.claim(unit) {
        None if !late.contains(&units.signed_by(unit)) => None,
        claim => Some((unit, claim)),
    })
}

impl Evaluators for Pool {
    fn rankings(
        &self,
        program: &Program,
        params: &ParamValues,
        queries: &[&str],
        here: &LocalRun<'_>,
    ) -> Result<Vec<TrialRanking>, OptimizeError> {
        let n = queries.len();
        self.all.fetch_add(n, Ordering::Relaxed);
        let alone = || here(&(0..n).collect::<Vec<_>>());
        if n <= UNIT_QUERIES || self.workers() == 0 {
            return alone();
        }
        match self.plan(program, params, queries) {
            Ok(units) => {
                let mut own = Vec::new();
                let ranked = self.shared(&units, n, here, &mut own);
                // No worker begins a unit while the job is removed; the next run removes the rest.
                let _ = self.dir.remove(units.dir());
                ranked
            }
            Err(error) => {
                let told = format!("cannot use the pool: {}", error.message());
                self.watch.warning(&told);
                alone()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_was_late_is_waited_for_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let items = ["a", "b", "c"].map(str::to_owned);
        let units = Units::plan(&dir.path().join("job"), &"x", &items, 3, None).unwrap();
        let sign = |unit, name| {
            let claim = units.claim(unit).unwrap();
            claim.sign(name).unwrap();
            claim
        };
        let _held = [sign(0, "slow"), sign(1, "slow"), sign(2, "quick")];
        let next = |left: &[u64], late: &BTreeSet<String>| next_here(&units, left, late);
        assert!(next(&[0, 1, 2], &BTreeSet::new()).is_none());
        let late = BTreeSet::from(["slow".to_owned()]);
        assert!(matches!(next(&[0, 1, 2], &late), Some((1, None))));
        assert!(matches!(next(&[0, 2], &late), Some((0, None))), "at once");
        assert!(next(&[2], &late).is_none(), "others are waited for");
    }
}
