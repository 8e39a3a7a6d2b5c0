//! Decides what may be written, and writes it: data to stdout; notices, errors and progress to
//! stderr. Must not know what the data mean.
//!
//! Progress is drawn as bars on a terminal and as lines otherwise, one in
//! [`SECONDS_BETWEEN_LINES`] at most.
//!
//! Characters that steer a terminal or turn the direction of text never reach one, whoever wrote
//! them: what is for people (lines, tables, names) is always cleaned, data (sources of programs, CSV)
//! where stdout is a terminal, so that a file gets every byte. JSON keeps its value in any case: on a
//! terminal such characters are escaped within it.

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
    /// Whether stdout is a terminal.
    is_watched: bool,
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
        Printer {
            level,
            color: terminal && !plain,
            is_watched: io::stdout().is_terminal(),
            bars: MultiProgress::with_draw_target(target),
        }
    }

    /// Writes text that is data and ends it with a line break if it has none: every byte, unless
    /// somebody watches.
    ///
    /// # Errors
    /// That stdout cannot be written to; [`ClosedPipe`] if its reader is gone.
    pub(super) fn data(&self, text: &str) -> Result<()> {
        if self.is_watched { self.text(text) } else { self.write(text) }
    }

    /// Writes text for people, cleaned, likewise.
    ///
    /// # Errors
    /// As [`Printer::data`].
    pub(super) fn text(&self, text: &str) -> Result<()> {
        self.write(&harmless(text))
    }

    fn write(&self, text: &str) -> Result<()> {
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
        self.json_lines(std::slice::from_ref(value))
    }

    /// Writes JSON values, each on a line.
    ///
    /// # Errors
    /// As [`Printer::data`].
    pub(super) fn json_lines(&self, values: &[impl Serialize]) -> Result<()> {
        let lines: std::result::Result<Vec<_>, _> =
            values.iter().map(serde_json::to_string).collect();
        let text = lines?.join("\n");
        if self.is_watched { self.write(&escaped(&text)) } else { self.write(&text) }
    }

    /// Writes a table.
    ///
    /// # Errors
    /// As [`Printer::data`].
    pub(super) fn table(&self, table: &Table) -> Result<()> {
        self.text(&table.trim_fmt())
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
            let message = harmless(message);
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
            bar.set_prefix(harmless(stage));
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

/// Whether a character steers a terminal, ends a line where nobody looks for it, or turns the
/// direction of text. Those that join or part letters are needed to write, and stay.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Text that cannot steer a terminal: hidden characters are spaces; lines and tabs stay.
pub(super) fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) && c != '\n' && c != '\t' { ' ' } else { c }).collect()
}

/// JSON of the same value in which hidden characters are escaped; they stand within texts only.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) && c != '\n' {
            text.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            text.push(c);
        }
    }
    text
}

/// Text on one line, of `limit` characters at most, without hidden characters.
pub(super) fn plain(text: impl Display, limit: usize) -> String {
    let text = text.to_string();
    let mut chars = text.chars().map(|c| if is_hidden(c) { ' ' } else { c });
    let mut shown: String = chars.by_ref().take(limit).collect();
    if chars.next().is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
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
        assert_eq!(plain("a\u{202e}b\u{9b}c", 80), "a b c");
        assert_eq!(plain("abcdef", 4), "abc…");
        assert_eq!(plain("abcd", 4), "abcd");
    }

    #[test]
    fn what_is_hidden_is_cleaned_and_letters_of_all_scripts_stay() {
        let hostile = "a\x1b]0;x\x07\r\u{9b}31m\u{202e}b\u{2067}c\u{200f}\u{2028}\u{feff}d\x7f";
        assert_eq!(harmless(hostile), "a ]0;x   31m b c   d ");
        let fine =
            "line\n\ttab \u{915}\u{94d}\u{200d}\u{937} \u{645}\u{6cc}\u{200c}\u{62e} e\u{301}";
        assert_eq!(harmless(fine), fine);
        let json = serde_json::to_string(&[hostile, fine]).unwrap();
        let shown = escaped(&json);
        assert_eq!(harmless(&shown), shown);
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [hostile, fine]);
    }

    #[test]
    fn counts_and_lines_read_well() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        let text = line("nodes", 25, 100, Duration::from_secs(10));
        assert_eq!(text, "nodes: 25 %, 2 a second, about 30 s left");
        assert_eq!(line("nodes", 0, 100, Duration::ZERO), "nodes: 0 %");
    }
}
