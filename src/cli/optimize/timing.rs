//! How long the parts of a run took, and when its programs were first better than every baseline.
//!
//! Kept in [`TIMES_FILE`] in the run's directory, beside the journal, which knows no clock. A run
//! that was interrupted adds to what it has: seconds of a part are those of all its processes, and
//! of a step those of the process that took it longest, as a step that is read from the journal
//! takes none. Times are for people: a file that is missing or damaged counts as empty, and one
//! that cannot be written ends no run. Must not know what the parts do.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    cli::eval::write,
    optimize::{Better, What, journal::DATABASE_FILE},
};

/// Name of the file in the run's directory.
pub(in crate::cli) const TIMES_FILE: &str = "times.json";
/// Least time between two writes of it while steps go on.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);
/// Bytes of it that are read.
const MAX_BYTES: u64 = 4 << 20;
/// Steps of a part whose times are kept.
const MAX_STEPS: usize = 10_000;
/// Parts that are kept.
const MAX_PHASES: usize = 100;

/// One part of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::cli) struct Phase {
    /// What was done.
    pub(in crate::cli) name: String,
    /// Seconds, of all processes that wrote the run.
    pub(in crate::cli) seconds: f64,
    /// Seconds of each of its steps.
    pub(in crate::cli) steps: Vec<f64>,
}

/// A part of a run in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::cli) struct Summary {
    /// What was done.
    pub(in crate::cli) name: String,
    /// Seconds.
    pub(in crate::cli) seconds: f64,
    /// Steps.
    pub(in crate::cli) steps: usize,
    /// Median of the seconds of a step.
    pub(in crate::cli) median: f64,
    /// Seconds of the longest step.
    pub(in crate::cli) longest: f64,
}

/// The times of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::cli) struct Timing {
    /// Seconds of all processes that wrote the run, without opening base and journal.
    pub(in crate::cli) seconds: f64,
    /// Parts in the order in which they were begun.
    pub(in crate::cli) phases: Vec<Phase>,
    /// When programs were first better than every baseline.
    pub(in crate::cli) first_better: Vec<Better>,
}

impl Timing {
    /// The times of the run in a directory; none where they are not known.
    pub(in crate::cli) fn read(dir: &Path) -> Timing {
        let path = dir.join(TIMES_FILE);
        let small = fs::metadata(&path).is_ok_and(|file| file.len() <= MAX_BYTES);
        let bytes = if small { fs::read(path).ok() } else { None };
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Its parts in numbers.
    pub(in crate::cli) fn summaries(&self) -> Vec<Summary> {
        let summary = |phase: &Phase| {
            let mut steps = phase.steps.clone();
            steps.sort_by(f64::total_cmp);
            let at = |place: usize| steps.get(place).copied().unwrap_or(0.0);
            Summary {
                name: phase.name.clone(),
                seconds: phase.seconds,
                steps: steps.len(),
                median: (at(steps.len() / 2) + at(steps.len().saturating_sub(1) / 2)) / 2.0,
                longest: steps.last().copied().unwrap_or(0.0),
            }
        };
        self.phases.iter().map(summary).collect()
    }

    /// Seconds until one program, or all together, were first better than every baseline.
    pub(in crate::cli) fn seconds_to(&self, what: What) -> Option<f64> {
        self.first_better.iter().find(|better| better.what == what).map(|better| better.seconds)
    }

    /// Adds seconds to a step of a part.
    fn add(&mut self, name: &str, step: usize, seconds: f64) {
        let at = match self.phases.iter().position(|phase| phase.name == name) {
            Some(at) => at,
            None if self.phases.len() >= MAX_PHASES => return,
            None => {
                self.phases.push(Phase { name: name.to_owned(), ..Phase::default() });
                self.phases.len() - 1
            }
        };
        let Some(phase) = self.phases.get_mut(at) else { return };
        phase.seconds += seconds;
        if step < MAX_STEPS {
            phase.steps.resize(phase.steps.len().max(step + 1), 0.0);
            phase.steps.get_mut(step).into_iter().for_each(|of| *of += seconds);
        }
    }

    /// What a run took whose earlier processes took `self` and whose present one takes `now`.
    fn and(&self, now: &Timing) -> Timing {
        let mut sum = self.clone();
        sum.seconds += now.seconds;
        for phase in &now.phases {
            let known = sum.phases.iter().position(|earlier| earlier.name == phase.name);
            match known.and_then(|at| sum.phases.get_mut(at)) {
                Some(earlier) => {
                    earlier.seconds += phase.seconds;
                    let n = earlier.steps.len().max(phase.steps.len());
                    earlier.steps.resize(n, 0.0);
                    for (earlier, &now) in earlier.steps.iter_mut().zip(&phase.steps) {
                        *earlier = earlier.max(now);
                    }
                }
                None => sum.phases.push(phase.clone()),
            }
        }
        sum.phases.truncate(MAX_PHASES);
        for better in &now.first_better {
            if sum.seconds_to(better.what).is_none() {
                let seconds = self.seconds + better.seconds;
                sum.first_better.push(Better { seconds, ..better.clone() });
            }
        }
        sum
    }
}

/// Takes the times of a run while it goes on.
pub(super) struct Stopwatch {
    dir: PathBuf,
    earlier: Timing,
    now: Timing,
    began: Instant,
    /// The part and its step that go on, and since when.
    present: Option<(&'static str, usize, Instant)>,
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
            kept: Instant::now(),
        }
    }

    /// A step of a part goes on.
    pub(super) fn at(&mut self, phase: &'static str, step: usize) {
        if self.present.is_none_or(|(name, at, _)| (name, at) != (phase, step)) {
            self.close();
            self.present = Some((phase, step, Instant::now()));
            // So that a run that is killed has times too.
            if self.kept.elapsed() >= BETWEEN_WRITES {
                self.keep();
            }
        }
    }

    /// Programs were better than every baseline. Gives the moment as counted over all processes,
    /// if no earlier one is known.
    pub(super) fn better(&mut self, better: &Better) -> Option<Better> {
        if self.earlier.seconds_to(better.what).is_some() {
            return None;
        }
        self.now.first_better.push(better.clone());
        self.keep();
        let seconds = self.earlier.seconds + better.seconds;
        Some(Better { seconds, ..better.clone() })
    }

    /// The times of all processes, kept.
    pub(super) fn stop(mut self) -> Timing {
        self.close();
        self.keep();
        self.earlier.and(&self.now)
    }

    /// Ends the step that goes on.
    fn close(&mut self) {
        if let Some((phase, step, since)) = self.present.take() {
            self.now.add(phase, step, since.elapsed().as_secs_f64());
        }
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
    use super::*;
    use crate::eval::Interval;

    fn better(seconds: f64) -> Better {
        Better {
            what: What::Program,
            seconds,
            n: 20,
            of: 40,
            mrr: 0.5,
            baseline: "bm25".to_owned(),
            baseline_mrr: 0.2,
            ci95: Interval { low: 0.1, high: 0.5 },
        }
    }

    #[test]
    fn a_run_that_was_interrupted_adds_to_its_times() {
        let (mut first, mut second) = (Timing::default(), Timing::default());
        for (step, seconds) in [(0, 4.0), (1, 1.0), (2, 2.0)] {
            first.add("trying", step, seconds);
        }
        first.seconds = 7.0;
        for (step, seconds) in [(0, 0.5), (2, 3.0), (3, 6.0)] {
            second.add("trying", step, seconds);
        }
        second.add("freezing", 0, 1.0);
        second.first_better.push(better(2.0));
        let sum = first.and(&second);
        let summaries = sum.summaries();
        let [trying, freezing] = &summaries[..] else { panic!("{summaries:?}") };
        assert_eq!((trying.seconds, trying.steps), (16.5, 4));
        assert_eq!((trying.median, trying.longest), (3.5, 6.0));
        assert_eq!((freezing.steps, freezing.median, freezing.longest), (1, 1.0, 1.0));
        // It was found two seconds into the second process.
        assert_eq!(sum.seconds_to(What::Program), Some(9.0));
        let third = Timing { first_better: vec![better(0.1)], ..Timing::default() };
        assert_eq!(sum.and(&third).seconds_to(What::Program), Some(9.0));
        assert_eq!(sum.seconds_to(What::Together), None);
        assert_eq!(Timing::default().summaries(), []);
    }

    #[test]
    fn times_are_kept_beside_a_journal_and_a_damaged_file_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(TIMES_FILE);
        let take = || {
            let mut stopwatch = Stopwatch::start(dir.path());
            stopwatch.at("trying", 0);
            let told = stopwatch.better(&better(1.0));
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
}
