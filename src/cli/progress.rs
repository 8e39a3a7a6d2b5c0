//! Shows the progress of work. A terminal gets one line that is never wider than the terminal. Any
//! other output gets at most one plain line per [`BETWEEN_LINES`]. The remaining time is estimated
//! for the whole work if its stages are planned, otherwise for the current stage. For a stage, the
//! recent rate is used (see [`RATE_TIME`]), since resumed work reports all units of earlier
//! processes at once. Does not depend on what the work is.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    plain,
    printer::{Level, Printer},
};
use agent_app::{self as app, Plan, Watch as _, count};
use agent_ground::locks::locked;

/// Minimum time between two plain lines of progress.
const BETWEEN_LINES: Duration = Duration::from_secs(5);
/// Time after the start of the work or stage before a remaining time is estimated.
const BEFORE_ESTIMATES: Duration = Duration::from_secs(1);
/// Minimum length of the time span over which a rate is measured, once a stage has run that long.
/// With frequent reports the span is at most twice as long.
const RATE_TIME: Duration = Duration::from_secs(30);
/// Maximum length of a line of progress, in characters.
const LINE_CHARS: usize = 79;

/// Progress of one piece of work, whose stages may run in parallel. Dropping the value removes its
/// line from the terminal.
pub(super) struct Progress<'a> {
    printer: &'a Printer,
    state: Mutex<State>,
    bar: ProgressBar,
}

struct State {
    what: String,
    plan: Plan,
    began: Instant,
    /// Stages that have reported progress, in the order of their first report.
    stages: Vec<Stage>,
    last_line: Instant,
}

struct Stage {
    name: String,
    done: u64,
    total: u64,
    /// Two moments with the number of units done at each: the start of the span over which the rate
    /// is measured, and the start of the next span.
    marks: [(Instant, u64); 2],
    began: Instant,
}

impl Stage {
    fn new(name: &str, now: Instant) -> Stage {
        Stage { name: name.to_owned(), done: 0, total: 0, marks: [(now, 0); 2], began: now }
    }

    fn at(&mut self, done: u64, total: u64, now: Instant) {
        (self.done, self.total) = (done, total);
        let [_, next] = self.marks;
        if now.duration_since(next.0) >= RATE_TIME {
            self.marks = [next, (now, done)];
        }
    }

    /// Returns the rate since the first mark, in units per second.
    fn rate(&self, now: Instant) -> f64 {
        let [(since, before), _] = self.marks;
        let seconds = now.duration_since(since).as_secs_f64();
        self.done.saturating_sub(before) as f64 / seconds.max(f64::MIN_POSITIVE)
    }

    fn share(&self) -> f64 {
        if self.total == 0 { 1.0 } else { self.done.min(self.total) as f64 / self.total as f64 }
    }
}

impl<'a> Progress<'a> {
    /// Starts to show the progress of the work `what` (empty: no name). `plan` lists its stages
    /// with their weights; it may be empty.
    pub(super) fn new(printer: &'a Printer, what: &str, plan: Plan) -> Progress<'a> {
        let now = Instant::now();
        let state =
            State { what: what.to_owned(), plan, began: now, stages: Vec::new(), last_line: now };
        let bar = printer.bars.add(ProgressBar::no_length());
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Progress { printer, state: Mutex::new(state), bar }
    }
}

impl app::Progress for Progress<'_> {
    fn at(&self, stage: &str, done: u64, total: u64) {
        if self.printer.level == Level::Quiet {
            return;
        }
        let mut state = locked(&self.state);
        let now = Instant::now();
        let place = state.stages.iter().position(|known| known.name == stage);
        let place = place.unwrap_or_else(|| {
            state.stages.push(Stage::new(stage, now));
            state.stages.len() - 1
        });
        if let Some(known) = state.stages.get_mut(place) {
            known.at(done, total, now);
        }
        if !self.printer.bars.is_hidden() {
            self.bar.set_message(state.line(place, now));
        } else if now.duration_since(state.last_line) >= BETWEEN_LINES {
            state.last_line = now;
            self.printer.notice(&state.line(place, now));
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        self.printer.bars.remove(&self.bar);
    }
}

impl State {
    /// Returns the line of progress, at most [`LINE_CHARS`] characters, for the stage with index
    /// `place` in `stages` and for the whole work.
    fn line(&self, place: usize, now: Instant) -> String {
        let Some(stage) = self.stages.get(place) else { return String::new() };
        let planned = self.plan.iter().position(|(name, _)| *name == stage.name);
        let head = match planned {
            Some(at) => format!("{} [{}/{} {}]", self.what, at + 1, self.plan.len(), stage.name),
            None if self.what.is_empty() => stage.name.clone(),
            None => format!("{} [{}]", self.what, stage.name),
        };
        let mut line = head.trim_start().to_owned();
        if stage.total > 1 {
            line += &format!(" {}/{}", count(stage.done.min(stage.total)), count(stage.total));
        }
        let elapsed = now.duration_since(planned.map_or(stage.began, |_| self.began));
        line += &format!(", {} elapsed", clock(elapsed));
        if elapsed < BEFORE_ESTIMATES {
            return plain(line, LINE_CHARS);
        }
        let left = match planned {
            Some(at) => {
                let share = self.share(at, stage);
                let going = share > 0.0 && share < 1.0;
                going.then(|| elapsed.mul_f64((1.0 - share) / share))
            }
            None => {
                let (rate, left) = (stage.rate(now), stage.total.saturating_sub(stage.done));
                if left > 0 && rate >= 1.0 {
                    line += &format!(", {}/s", count(rate as u64));
                }
                // Without recent progress there is no estimate.
                let seconds = left as f64 / rate.max(f64::MIN_POSITIVE);
                (left > 0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
            }
        };
        if let Some(left) = left {
            line += &format!(", about {} left", clock(left));
        }
        plain(line, LINE_CHARS)
    }

    /// Returns the share of the whole work that is done, in `0..=1`, while `stage`, number `at`
    /// (from 0) of the plan, runs. Earlier stages count as done, and each stage counts by its
    /// weight in the plan.
    fn share(&self, at: usize, stage: &Stage) -> f64 {
        let weight = |stages: &[(&str, f64)]| stages.iter().map(|stage| stage.1).sum::<f64>();
        let before = self.plan.get(..at).map_or(0.0, weight);
        let own = self.plan.get(at).map_or(0.0, |stage| stage.1);
        (before + own * stage.share()) / weight(self.plan).max(f64::MIN_POSITIVE)
    }
}

/// Formats a duration as `0:09`, `12:05` or `1:02:03` (hours only if needed).
fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(plan: Plan, what: &str, stage: (&str, u64, u64), seconds: u64) -> String {
        let began = Instant::now();
        let (name, done, total) = stage;
        let mut stage = Stage::new(name, began);
        stage.at(done, total, began);
        let stages = vec![stage];
        let state = State { what: what.to_owned(), plan, began, stages, last_line: began };
        state.line(0, began + Duration::from_secs(seconds))
    }

    #[test]
    fn what_is_left_is_told_of_the_whole() {
        const PLAN: Plan = &[("mining", 1.0), ("trying", 2.0), ("freezing", 1.0)];
        let told = line(PLAN, "optimizing shop", ("trying", 12, 24), 30);
        // A quarter and half of two quarters are done: half of all.
        let whole = "optimizing shop [2/3 trying] 12/24, 0:30 elapsed, about 0:30 left";
        assert_eq!(told, whole);
        let told = line(PLAN, "optimizing shop", ("freezing", 0, 1), 3_600);
        assert_eq!(told, "optimizing shop [3/3 freezing], 1:00:00 elapsed, about 20:00 left");
        // Nothing is known yet of what is left.
        assert_eq!(line(PLAN, "x", ("mining", 0, 0), 0), "x [1/3 mining], 0:00 elapsed");
    }

    #[test]
    fn lines_are_short_and_numbers_are_rounded() {
        let told = line(&[], "", ("vectors", 60_358_572, 100_000_000), 7);
        let whole = "vectors 60,358,572/100,000,000, 0:07 elapsed, 8,622,653/s, about 0:05 left";
        assert_eq!(told, whole);
        let long = line(&[], &"long name ".repeat(30), ("stage", 1, 3), 2);
        assert_eq!(long.chars().count(), LINE_CHARS);
    }

    #[test]
    fn what_an_earlier_process_has_done_does_not_count_for_long() {
        let began = Instant::now();
        let mut stage = Stage::new("vectors", began);
        // Half passes at once, then ten a second are done.
        for second in 0..=90 {
            stage.at(5_000 + 10 * second, 10_000, began + Duration::from_secs(second));
        }
        let now = began + Duration::from_secs(90);
        let stages = vec![stage];
        let state = State { what: String::new(), plan: &[], began, stages, last_line: began };
        let told = "vectors 5,900/10,000, 1:30 elapsed, 10/s, about 6:50 left";
        assert_eq!(state.line(0, now), told);
    }
}
