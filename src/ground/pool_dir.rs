//! The directory of a pool of workers. It holds jobs; each job is a directory of units, which a run
//! plans and the workers compute.
//!
//! ```text
//! DIR/.agent-directory   marks DIR as a pool
//! DIR/jobs/N             a job
//! ```
//!
//! Jobs are removed only from a directory that is marked as a pool. Does not depend on what a job
//! computes.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    files,
    owned_dir::{self, OwnedDirError},
    units,
};

/// Kind in the marker file of a pool.
const KIND: &str = "pool";
const JOBS: &str = "jobs";
/// Name to which the directory of a job is renamed while it is removed.
const GONE: &str = ".gone";
/// Minimum number of digits in the name of a job, so that jobs sorted by name are in the order of
/// their numbers.
const DIGITS: usize = 9;
/// Value of `kind` in the task of every job of a pool.
pub const JOB_KIND: &str = "evaluate";

/// A directory that is marked as a pool.
#[derive(Clone, Debug)]
pub struct PoolDir {
    dir: PathBuf,
}

impl PoolDir {
    /// Opens a pool; a missing or empty directory becomes a new pool.
    ///
    /// # Errors
    /// [`OwnedDirError`] if the directory is not a pool, if it cannot be used, or if its directory
    /// of jobs is a symbolic link. No file in it is then changed.
    pub fn take(dir: &Path) -> Result<Self, OwnedDirError> {
        owned_dir::take(dir, KIND)?;
        let jobs = dir.join(JOBS);
        files::refuse_link(&jobs).map_err(|source| OwnedDirError::Io { path: jobs, source })?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Returns the path of the pool's directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the job with this number, whether or not it exists.
    pub fn job(&self, number: u64) -> PathBuf {
        self.jobs_dir().join(format!("{number:0DIGITS$}"))
    }

    /// Returns the paths of the existing jobs, sorted by name.
    pub fn jobs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.jobs_dir()).into_iter().flatten().flatten();
        let mut jobs: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| is_job(path)).collect();
        jobs.sort_unstable();
        jobs
    }

    /// Removes all jobs, and creates the directory of jobs if it is missing. Returns the first free
    /// job number: one more than the largest number among the remaining entries, or 0.
    ///
    /// # Errors
    /// The error of the operating system; also an error if the directory of jobs is a symbolic
    /// link.
    pub fn clear(&self) -> io::Result<u64> {
        let dir = self.jobs_dir();
        fs::create_dir_all(&dir)?;
        files::refuse_link(&dir)?;
        remove_if_present(&dir.join(GONE))?;
        for job in self.jobs() {
            self.remove(&job)?;
        }
        let entries = fs::read_dir(&dir)?.flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
        Ok(numbers.max().map_or(0, |last| last.saturating_add(1)))
    }

    /// Removes a job. For workers the job disappears in one step.
    ///
    /// # Errors
    /// The error of the operating system; the next [`clear`](Self::clear) removes the rest of the
    /// job.
    pub fn remove(&self, job: &Path) -> io::Result<()> {
        let gone = self.jobs_dir().join(GONE);
        fs::rename(job, &gone)?;
        fs::remove_dir_all(&gone)
    }

    fn jobs_dir(&self) -> PathBuf {
        self.dir.join(JOBS)
    }
}

/// Whether a path leads to a job: a directory whose name is a number and whose plan has the kind
/// [`JOB_KIND`].
fn is_job(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let is_number = name.len() >= DIGITS && name.iter().all(u8::is_ascii_digit);
    let kind = || units::planned_task(path)?.get("kind")?.as_str().map(|kind| kind == JOB_KIND);
    let is_dir = fs::symlink_metadata(path).is_ok_and(|data| data.is_dir());
    is_number && is_dir && kind() == Some(true)
}

fn remove_if_present(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Units;

    #[test]
    fn only_jobs_of_a_pool_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let plan = |name: &str, kind: &str| {
            let task = serde_json::json!({ "kind": kind });
            Units::plan(&path.join(JOBS).join(name), &task, &["item".to_owned()], 1, None).unwrap();
        };
        // The directory of somebody else, with planned units in `jobs`.
        fs::create_dir_all(path.join(JOBS)).unwrap();
        plan("000000000", JOB_KIND);
        assert!(matches!(PoolDir::take(&path), Err(OwnedDirError::NotOwned { .. })));
        assert!(path.join("jobs/000000000/plan.json").exists());
        fs::remove_dir_all(&path).unwrap();
        let pool = PoolDir::take(&path).unwrap();
        assert_eq!(pool.clear().unwrap(), 0);
        plan("000000000", JOB_KIND);
        plan("000000001", "answer");
        plan("mine", JOB_KIND);
        fs::create_dir(path.join("jobs/000000007")).unwrap();
        assert_eq!(pool.jobs(), [pool.job(0)]);
        assert_eq!(PoolDir::take(&path).unwrap().clear().unwrap(), 8);
        let left = fs::read_dir(path.join(JOBS)).unwrap().flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        left.sort_unstable();
        assert_eq!(left, ["000000001", "000000007", "mine"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_to_other_directories_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("pool"), dir.path().join("other"));
        let task = serde_json::json!({ "kind": JOB_KIND });
        fs::create_dir(&other).unwrap();
        Units::plan(&other.join("000000000"), &task, &["item".to_owned()], 1, None).unwrap();
        let pool = PoolDir::take(&path).unwrap();
        std::os::unix::fs::symlink(&other, path.join(JOBS)).unwrap();
        assert!(pool.clear().is_err());
        let refused = PoolDir::take(&path).unwrap_err().to_string();
        assert!(refused.contains("pool/jobs: it is a symbolic link"), "{refused}");
        assert!(other.join("000000000/plan.json").exists());
    }
}
