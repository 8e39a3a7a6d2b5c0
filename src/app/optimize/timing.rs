//! Measures the times of a run's phases and writes them to a file beside the run's journal. Ignores
//! write errors. Does not depend on what the phases do.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::output::write;
use agent_ground::files;
use agent_optimize::{
    Milestone,
    journal::DATABASE_FILE,
    record::timing::{TIMES_FILE, Timing},
};

/// Name of the phase for the time that the run waits for the language model.
const WAITING: &str = "waiting for the language model";
/// Minimum time between two writes of the file while steps begin and end.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// Measures the times of a run's phases.
pub(super) struct Stopwatch {
    dir: PathBuf,
    earlier: Timing,
    now: Timing,
    began: Instant,
    /// The current phase, the number of its current step, the start of this step, and the time that
    /// the run had waited for the model before this step.
    present: Option<(&'static str, usize, Instant, Duration)>,
    /// Total time in milliseconds for which the run has waited for the model.
    waited: Arc<AtomicU64>,
    /// When the file was last written.
    kept: Instant,
}

impl Stopwatch {
    /// Starts to measure the run in a directory; reads the times of its earlier processes.
    pub(super) fn start(dir: &Path) -> Stopwatch {
        Stopwatch {
            dir: dir.to_owned(),
            earlier: Timing::read(dir),
            now: Timing::default(),
            began: Instant::now(),
            present: None,
            waited: Arc::default(),
            kept: Instant::now(),
        }
    }

    /// Records that step `step` of the phase `phase` is running; ends the previous step, if any.
    pub(super) fn at(&mut self, phase: &'static str, step: usize) {
        if self.present.is_none_or(|(name, at, ..)| (name, at) != (phase, step)) {
            self.close();
            self.present = Some((phase, step, Instant::now(), self.waited()));
            // Written now and then, so that a killed run keeps its times.
            if self.kept.elapsed() >= BETWEEN_WRITES {
                self.keep();
            }
        }
    }

    /// Records that programs were better than every baseline for the first time. Returns the
    /// milestone with its time counted over all processes of the run; `None` if an earlier process
    /// recorded a milestone of the same scope.
    pub(super) fn better(&mut self, better: &Milestone) -> Option<Milestone> {
        if self.earlier.seconds_to(better.scope).is_some() {
            return None;
        }
        self.now.first_better.push(better.clone());
        self.keep();
        let seconds = self.earlier.seconds + better.seconds;
        Some(Milestone { seconds, ..better.clone() })
    }

    /// Ends the current step, writes the times, and returns the times over all processes of the
    /// run.
    pub(super) fn stop(mut self) -> Timing {
        self.close();
        self.keep();
        self.earlier.and(&self.now)
    }

    /// Ends the current step. Adds the time that the step waited for the model to the phase
    /// [`WAITING`], and the rest of the step's time to its own phase.
    fn close(&mut self) {
        if let Some((phase, step, since, waited_before)) = self.present.take() {
            let waited = self.waited().saturating_sub(waited_before);
            self.now.add(phase, step, since.elapsed().saturating_sub(waited).as_secs_f64());
            if !waited.is_zero() {
                self.now.add(WAITING, usize::MAX, waited.as_secs_f64());
            }
        }
    }

    /// Returns the time that the run has waited for the model in this process.
    fn waited(&self) -> Duration {
        Duration::from_millis(self.waited.load(Ordering::Relaxed))
    }

    /// Returns the counter, in milliseconds, to which callers add the time that they wait for the
    /// model; this time is reported as a separate phase.
    pub(super) fn waiting(&self) -> Arc<AtomicU64> {
        self.waited.clone()
    }

    /// Writes the times to the file beside the journal, if the journal exists.
    fn keep(&mut self) {
        self.kept = Instant::now();
        self.now.seconds = self.began.elapsed().as_secs_f64();
        if self.dir.join(DATABASE_FILE).exists() {
            let timing = self.earlier.and(&self.now);
            let path = self.dir.join(TIMES_FILE);
            // Lost times must not fail a run.
            if files::refuse_link(&path).is_ok() {
                let _ = write(&path, |file| Ok(serde_json::to_writer(file, &timing)?));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn times_are_kept_beside_a_journal_and_a_damaged_file_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(TIMES_FILE);
        let take = || {
            let mut stopwatch = Stopwatch::start(dir.path());
            stopwatch.at("trying", 0);
            let better: Milestone = serde_json::from_value(serde_json::json!({
                "what": "program", "seconds": 1.0, "n": 20, "of": 40, "mrr": 0.5,
                "baseline": "bm25", "baseline_mrr": 0.2, "ci95": [0.1, 0.5]
            }))
            .unwrap();
            let told = stopwatch.better(&better);
            stopwatch.at("trying", 1);
            (told.is_some(), stopwatch.stop())
        };
        take();
        assert!(!path.exists(), "times were written where there is no run");
        fs::write(dir.path().join(DATABASE_FILE), "").unwrap();
        let (told, first) = take();
        assert!(told);
        assert_eq!(Timing::read(dir.path()), first);
        let (told, second) = take();
        assert!(!told, "the moment was told twice");
        assert_eq!((second.first_better, second.phases[0].steps.len()), (first.first_better, 2));
        fs::write(&path, "{").unwrap();
        assert_eq!(Timing::read(dir.path()), Timing::default());
    }

    #[test]
    fn waiting_for_the_model_is_a_part_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let mut stopwatch = Stopwatch::start(dir.path());
        stopwatch.at("mining", 0);
        stopwatch.waiting().fetch_add(5_000, Ordering::Relaxed);
        stopwatch.at("trying", 0);
        let seconds: Vec<f64> = stopwatch.stop().phases.iter().map(|of| of.seconds).collect();
        assert!(matches!(seconds[..], [mining, 5.0, trying] if mining < 1.0 && trying < 1.0));
    }
}
