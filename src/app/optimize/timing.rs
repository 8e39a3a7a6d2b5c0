//! Takes the times of the parts of a run while it goes on, and keeps them beside its journal; times
//! that cannot be written end no run. Must not know what the parts do.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::output::write;
use agent_optimize::{
    Milestone,
    journal::DATABASE_FILE,
    record::timing::{TIMES_FILE, Timing},
};

/// The part that waiting for the language model is.
const WAITING: &str = "waiting for the language model";
/// Least time between two writes of the times while steps go on.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// Takes the times of a run while it goes on.
pub(super) struct Stopwatch {
    dir: PathBuf,
    earlier: Timing,
    now: Timing,
    began: Instant,
    /// The part and its step that go on, since when, and how long the model had been waited for then.
    present: Option<(&'static str, usize, Instant, Duration)>,
    /// Milliseconds that the model was waited for so far.
    waited: Arc<AtomicU64>,
    /// When the times were last written.
    kept: Instant,
}

impl Stopwatch {
    /// Begins to take the times of the run in a directory.
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

    /// A step of a part goes on.
    pub(super) fn at(&mut self, phase: &'static str, step: usize) {
        if self.present.is_none_or(|(name, at, ..)| (name, at) != (phase, step)) {
            self.close();
            self.present = Some((phase, step, Instant::now(), self.waited()));
            // So that a run that is killed has times too.
            if self.kept.elapsed() >= BETWEEN_WRITES {
                self.keep();
            }
        }
    }

    /// Programs were better than every baseline. Gives the moment as counted over all processes,
    /// if no earlier one is known.
    pub(super) fn better(&mut self, better: &Milestone) -> Option<Milestone> {
        if self.earlier.seconds_to(better.scope).is_some() {
            return None;
        }
        self.now.first_better.push(better.clone());
        self.keep();
        let seconds = self.earlier.seconds + better.seconds;
        Some(Milestone { seconds, ..better.clone() })
    }

    /// The times of all processes, kept.
    pub(super) fn stop(mut self) -> Timing {
        self.close();
        self.keep();
        self.earlier.and(&self.now)
    }

    /// Ends the step that goes on.
    fn close(&mut self) {
        if let Some((phase, step, since, waited_before)) = self.present.take() {
            let waited = self.waited().saturating_sub(waited_before);
            self.now.add(phase, step, since.elapsed().saturating_sub(waited).as_secs_f64());
            if !waited.is_zero() {
                self.now.add(WAITING, usize::MAX, waited.as_secs_f64());
            }
        }
    }

    /// How long the model was waited for so far.
    fn waited(&self) -> Duration {
        Duration::from_millis(self.waited.load(Ordering::Relaxed))
    }

    /// Counts milliseconds that the model is waited for, which count as a part of their own.
    pub(super) fn waiting(&self) -> Arc<AtomicU64> {
        self.waited.clone()
    }

    /// Writes the times beside the journal, if it is there.
    fn keep(&mut self) {
        self.kept = Instant::now();
        self.now.seconds = self.began.elapsed().as_secs_f64();
        if self.dir.join(DATABASE_FILE).exists() {
            let timing = self.earlier.and(&self.now);
            // Times are not worth a failure.
            let _ =
                write(&self.dir.join(TIMES_FILE), |file| Ok(serde_json::to_writer(file, &timing)?));
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
