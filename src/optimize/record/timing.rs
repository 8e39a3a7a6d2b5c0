//! Times of the phases of a run, and of the milestones at which its programs first beat every
//! baseline.
//!
//! The times are in [`TIMES_FILE`] in the run's directory, because the journal stores no times. A
//! resumed run adds to them. A phase's seconds are summed over all processes that wrote the run.
//! The seconds of a step are the maximum over these processes, because a process that reads the
//! step from the journal needs almost no time. A missing or damaged file counts as empty.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Milestone, Scope};
use agent_ground::files;

/// Name of the file with the times, in the run's directory.
pub const TIMES_FILE: &str = "times.json";
/// Maximum size in bytes of [`TIMES_FILE`].
const MAX_BYTES: u64 = 4 << 20;
/// Maximum number of steps of a phase whose seconds are recorded.
const MAX_STEPS: usize = 10_000;
/// Maximum number of phases that are recorded.
const MAX_PHASES: usize = 100;

/// Times of a phase of a run and of the steps in this phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name of the phase, such as `trying plans`.
    pub name: String,
    /// Working time in seconds, summed over all processes that wrote the run.
    pub seconds: f64,
    /// Seconds of each step of the phase, in order.
    pub steps: Vec<f64>,
}

/// Summary of the times of a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the phase.
    pub name: String,
    /// Working time of the phase in seconds, summed over all processes that wrote the run.
    pub seconds: f64,
    /// Number of recorded steps of the phase.
    pub steps: usize,
    /// Median time of the recorded steps, in seconds.
    pub median: f64,
    /// Time of the longest step, in seconds.
    pub longest: f64,
}

/// The times of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Working time in seconds, summed over all processes that wrote the run, without the time to
    /// open the base and the journal.
    pub seconds: f64,
    /// Phases in the order in which they were started.
    pub phases: Vec<Phase>,
    /// Milestones at which programs first beat every baseline, at most one per scope.
    pub first_better: Vec<Milestone>,
}

impl Timing {
    /// Reads the times of a run; empty if the file is missing, damaged or too large.
    pub fn read(dir: &Path) -> Timing {
        let bytes = files::read(&dir.join(TIMES_FILE), MAX_BYTES).ok();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Returns a summary of each phase, in order of their start.
    pub fn summaries(&self) -> Vec<Summary> {
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

    /// Returns the seconds of working time until the programs of a scope first beat every baseline;
    /// `None` if they have not.
    pub fn seconds_to(&self, scope: Scope) -> Option<f64> {
        self.first_better.iter().find(|better| better.scope == scope).map(|better| better.seconds)
    }

    /// Adds seconds to the phase with this name and to its step with this index. Does not record
    /// more than 100 phases, or more than 10 000 steps of a phase.
    pub fn add(&mut self, name: &str, step: usize, seconds: f64) {
        let is_known = self.phases.iter().any(|phase| phase.name == name);
        if !is_known && self.phases.len() < MAX_PHASES {
            self.phases.push(Phase { name: name.to_owned(), ..Phase::default() });
        }
        let Some(phase) = self.phases.iter_mut().find(|phase| phase.name == name) else { return };
        phase.seconds += seconds;
        if step < MAX_STEPS {
            phase.steps.resize(phase.steps.len().max(step + 1), 0.0);
            phase.steps.get_mut(step).into_iter().for_each(|total| *total += seconds);
        }
    }

    /// Combines the times of earlier processes (`self`) with those of the current process (`now`).
    pub fn and(&self, now: &Timing) -> Timing {
        let mut sum = self.clone();
        sum.seconds += now.seconds;
        for phase in &now.phases {
            match sum.phases.iter_mut().find(|earlier| earlier.name == phase.name) {
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
            if sum.seconds_to(better.scope).is_none() {
                let seconds = self.seconds + better.seconds;
                sum.first_better.push(Milestone { seconds, ..better.clone() });
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_device_in_the_place_of_the_times_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.path().join(TIMES_FILE)).unwrap();
        assert_eq!(Timing::read(dir.path()), Timing::default());
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
        second.first_better.push(Milestone::for_test(2.0));
        let sum = first.and(&second);
        let summaries = sum.summaries();
        let [trying, freezing] = &summaries[..] else { panic!("{summaries:?}") };
        assert_eq!((trying.seconds, trying.steps), (16.5, 4));
        assert_eq!((trying.median, trying.longest), (3.5, 6.0));
        assert_eq!((freezing.steps, freezing.median, freezing.longest), (1, 1.0, 1.0));
        // It was found two seconds into the second process.
        assert_eq!(sum.seconds_to(Scope::Program), Some(9.0));
        let third = Timing { first_better: vec![Milestone::for_test(0.1)], ..Timing::default() };
        assert_eq!(sum.and(&third).seconds_to(Scope::Program), Some(9.0));
        assert_eq!(sum.seconds_to(Scope::Together), None);
        assert_eq!(Timing::default().summaries(), []);
    }
}
