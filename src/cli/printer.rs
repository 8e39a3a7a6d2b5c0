//! Decides what may be written, and writes it: data to stdout; notices, errors and progress to
//! stderr. Must not know what the data mean.
//!
//! Progress is drawn as bars on a terminal and as lines otherwise, one in
//! [`SECONDS_BETWEEN_LINES`] at most. Text of datasets is stripped of control characters before
//! it reaches a terminal.

use std::{
    collections::BTreeMap,
    fmt::Display,
    io::{self, IsTerminal, Write},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use comfy_table::{CellAlignment, Row, Table, TableStyle, presets};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::cli::failure::{ClosedPipe, CommandError, Result};

/// Least time between two lines of progress.
const SECONDS_BETWEEN_LINES: u64 = 5;
/// Bars are redrawn so many times a second at most.
const BAR_HZ: u8 = 8;
const BAR: &str = "{prefix:>12} [{bar:30}] {percent:>3}% {per_sec:>12} {eta:>5} left";

/// Longest label of a category, characters.
const MAX_LABEL: usize = 120;
/// Values of p below this one are not shown in digits.
const LEAST_P: f64 = 0.0001;

/// How much is written to stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Errors and their hints.
    Quiet,
    /// Notices, warnings and progress too.
    Normal,
    /// Details too.
    Verbose,
}

/// The only way to stdout and stderr.
pub(super) struct Printer {
    level: Level,
    color: bool,
    bars: MultiProgress,
}

impl Printer {
    pub(super) fn new(level: Level) -> Printer {
        let terminal = io::stderr().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let target = if terminal && level > Level::Quiet {
            ProgressDrawTarget::stderr_with_hz(BAR_HZ)
        } else {
            ProgressDrawTarget::hidden()
        };
        Printer { level, color: terminal && !plain, bars: MultiProgress::with_draw_target(target) }
    }

    /// Writes text that is data and ends it with a line break if it has none.
    ///
    /// # Errors
    /// That stdout cannot be written to; [`ClosedPipe`] if its reader is gone.
    pub(super) fn data(&self, text: &str) -> Result<()> {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let write = || {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.write_all(end.as_bytes())?;
            out.flush()
        };
        self.bars.suspend(write).map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::BrokenPipe => CommandError::from(ClosedPipe),
            _ => anyhow::Error::from(error).context("cannot write to standard output").into(),
        })
    }

    /// Writes one JSON value on one line.
    ///
    /// # Errors
    /// As [`Printer::data`].
    pub(super) fn json(&self, value: &impl Serialize) -> Result<()> {
        self.data(&serde_json::to_string(value)?)
    }

    /// Writes a table.
    ///
    /// # Errors
    /// As [`Printer::data`].
    pub(super) fn table(&self, table: &Table) -> Result<()> {
        self.data(&table.trim_fmt())
    }

    /// Writes a line for people that is neither data nor a fault.
    pub(super) fn notice(&self, message: &str) {
        self.stderr(Level::Normal, "", message);
    }

    /// Writes a line for the curious.
    pub(super) fn detail(&self, message: &str) {
        self.stderr(Level::Verbose, "", message);
    }

    /// Writes a line on something that may be wrong.
    pub(super) fn warning(&self, message: &str) {
        self.stderr(Level::Normal, "warning: ", message);
    }

    /// Writes the first line of an error.
    pub(super) fn error(&self, message: &str) {
        let label = if self.color { "\x1b[1;31merror:\x1b[0m " } else { "error: " };
        self.stderr(Level::Quiet, label, message);
    }

    /// Writes what caused the line before.
    pub(super) fn cause(&self, message: &str) {
        self.stderr(Level::Quiet, "  cause: ", message);
    }

    /// Writes what to do about an error.
    pub(super) fn hint(&self, message: &str) {
        self.stderr(Level::Quiet, "hint: ", message);
    }

    fn stderr(&self, level: Level, label: &str, message: &str) {
        if self.level >= level {
            // There is nowhere to tell that stderr is closed.
            self.bars.suspend(|| {
                let _ = writeln!(io::stderr(), "{label}{message}");
            });
        }
    }

    /// Starts to show how far a piece of work is; dropping it ends that.
    pub(super) fn progress(&self) -> Progress<'_> {
        Progress { printer: self, stages: Mutex::default(), last_line: Mutex::new(Instant::now()) }
    }
}

/// Shows how far the stages of a piece of work are; stages may run side by side.
pub(super) struct Progress<'a> {
    printer: &'a Printer,
    stages: Mutex<BTreeMap<String, Stage>>,
    last_line: Mutex<Instant>,
}

struct Stage {
    bar: ProgressBar,
    began: Instant,
}

impl Progress<'_> {
    /// `done` of `total` units of a stage are done.
    pub(super) fn at(&self, stage: &str, done: u64, total: u64) {
        if self.printer.level == Level::Quiet {
            return;
        }
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        let stage_now = stages.entry(stage.to_owned()).or_insert_with(|| {
            let bar = self.printer.bars.add(ProgressBar::new(total));
            if let Ok(style) = ProgressStyle::with_template(BAR) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(stage.to_owned());
            Stage { bar, began: Instant::now() }
        });
        stage_now.bar.set_length(total);
        stage_now.bar.set_position(done);
        if done >= total {
            stage_now.bar.finish();
        }
        if self.printer.bars.is_hidden() {
            let mut last = self.last_line.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() >= Duration::from_secs(SECONDS_BETWEEN_LINES) {
                *last = Instant::now();
                self.printer.notice(&line(stage, done, total, stage_now.began.elapsed()));
            }
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        let _ = self.printer.bars.clear();
        let stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        stages.values().for_each(|stage| self.printer.bars.remove(&stage.bar));
    }
}

fn line(stage: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let share = if total == 0 { 1.0 } else { done.min(total) as f64 / total as f64 };
    if share == 0.0 || share == 1.0 {
        return format!("{stage}: {:.0} %", 100.0 * share);
    }
    let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let (rate, left) = (done as f64 / seconds, seconds * (1.0 - share) / share);
    format!("{stage}: {:.0} %, {rate:.0} a second, about {left:.0} s left", 100.0 * share)
}

/// A table without lines, with these headings; `right` are the columns of numbers.
pub(super) fn table(headings: impl Into<Row>, right: &[usize]) -> Table {
    let mut table = Table::new();
    let style: TableStyle = presets::NOTHING;
    table.load_style(style).set_header(headings);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Text on one line, of `limit` characters at most, without control characters.
pub(super) fn plain(text: impl Display, limit: usize) -> String {
    let text = text.to_string();
    let mut chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut shown: String = chars.by_ref().take(limit).collect();
    if chars.next().is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

/// Names of categories without what stands in brackets, where that still tells them apart.
pub(super) fn short_labels(names: &[&str]) -> Vec<String> {
    let short: Vec<String> = names.iter().map(|name| without_brackets(name)).collect();
    let shown = names.iter().zip(&short).map(|(name, own)| {
        let others = short.iter().filter(|other| *other == own).count();
        let label = if others > 1 || own.is_empty() { (*name).to_owned() } else { own.clone() };
        plain(label, MAX_LABEL)
    });
    shown.collect()
}

/// The text outside of all brackets, words one space apart.
fn without_brackets(name: &str) -> String {
    let mut depth = 0_usize;
    let mut kept = String::new();
    for c in name.chars() {
        match c {
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            c if depth == 0 => kept.push(c),
            _ => {}
        }
    }
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A p-value as statisticians write it: `p 0.0123`, or below what its digits show, `p < 0.0001`.
pub(super) fn p_value(p: f64) -> String {
    if p < LEAST_P { format!("p < {LEAST_P}") } else { format!("p {p:.4}") }
}

/// The same for the cells of a column that is called `p`.
pub(super) fn p_cell(p: f64) -> String {
    p_value(p).trim_start_matches("p ").to_owned()
}

/// A count with a comma between thousands.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_datasets_cannot_reach_the_terminal_with_control_characters() {
        assert_eq!(plain("a\x1b[31m\nb", 80), "a [31m b");
        assert_eq!(plain("abcdef", 4), "abc…");
        assert_eq!(plain("abcd", 4), "abcd");
    }

    #[test]
    fn labels_are_as_short_as_they_can_be_told_apart() {
        let names =
            ["film by named person (~directed)", "film by words", "film by words (x)", "(a)"];
        let told = short_labels(&names);
        assert_eq!(told, ["film by named person", "film by words", "film by words (x)", "(a)"]);
    }

    #[test]
    fn small_p_values_are_not_nothing() {
        let told = [0.0, 0.000_099, 0.0001, 0.0123, 1.0].map(p_value);
        assert_eq!(told, ["p < 0.0001", "p < 0.0001", "p 0.0001", "p 0.0123", "p 1.0000"]);
        assert_eq!([0.0, 0.5].map(p_cell), ["< 0.0001", "0.5000"]);
    }

    #[test]
    fn counts_and_lines_read_well() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        let text = line("nodes", 25, 100, Duration::from_secs(10));
        assert_eq!(text, "nodes: 25 %, 2 a second, about 30 s left");
        assert_eq!(line("nodes", 0, 100, Duration::ZERO), "nodes: 0 %");
    }
}
