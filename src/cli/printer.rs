//! Writes all output: data to stdout; notices, errors and progress to stderr. Does not depend on
//! what the data mean.
//!
//! Tables are fitted to the width of the terminal, or to the number of columns in the variable
//! COLUMNS.
//!
//! Characters that control a terminal or change the direction of text never reach a terminal. Text
//! for people (lines, tables, names) is always cleaned. Data (sources of programs, CSV) are cleaned
//! only if stdout is a terminal, so that a file gets every byte. JSON keeps its value: on a
//! terminal such characters are escaped.

use std::{
    io::{self, IsTerminal, Write},
    sync::Mutex,
};

use anyhow::Context as _;
use comfy_table::{CellAlignment, Row, Table, TableStyle, presets};
use indicatif::{MultiProgress, ProgressDrawTarget};
use serde::Serialize;

use crate::{
    Exit, colours_stderr,
    failure::ClosedPipe,
    fit::{GAP, fitted},
    progress::Progress,
};
pub(super) use agent_app::text::plain;
use agent_app::{self as app, Plan, Result, Watch, text::is_hidden};
use agent_ground::{locks::locked, words::one_line};

/// Maximum number of times per second that progress is redrawn.
const BAR_HZ: u8 = 8;

/// Minimum width that tables are fitted to, in terminal columns; a smaller width counts as unknown.
const LEAST_WIDTH: u16 = 20;
/// Maximum number of characters of a category's label.
const MAX_LABEL: usize = 120;

/// Amount of output on stderr; each level includes the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Only errors and their hints.
    Quiet,
    /// Errors, hints, notices, warnings and progress.
    Normal,
    /// Everything, including details.
    Verbose,
}

/// Writer to stdout and stderr; no other code of the program writes to them.
pub(super) struct Printer {
    pub(super) level: Level,
    color: bool,
    /// Whether stdout is a terminal.
    is_watched: bool,
    /// The progress lines shown on stderr.
    pub(super) bars: MultiProgress,
    /// Width that tables are fitted to, in terminal columns; `None` if unknown.
    width: Option<u16>,
    /// Message on how to resume the command after an interrupt; `None` if it cannot be resumed.
    way_on: Mutex<Option<String>>,
}

impl Printer {
    pub(super) fn new(level: Level) -> Printer {
        let terminal = io::stderr().is_terminal();
        let target = if terminal && level > Level::Quiet {
            ProgressDrawTarget::stderr_with_hz(BAR_HZ)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bars = MultiProgress::with_draw_target(target);
        let is_watched = io::stdout().is_terminal();
        Printer {
            level,
            color: colours_stderr(),
            is_watched,
            bars,
            width: width(),
            way_on: Mutex::default(),
        }
    }

    /// Writes data to stdout: every byte of `text`, but without hidden characters if stdout is a
    /// terminal. Adds a final line break if `text` has none. Returns [`Exit::Done`], as all
    /// functions that write to stdout do, since most commands end with one of them.
    ///
    /// # Errors
    /// If stdout cannot be written to; [`ClosedPipe`] if its reader is gone.
    pub(super) fn data(&self, text: &str) -> Result<Exit> {
        if self.is_watched { self.text(text) } else { self.write(text) }
    }

    /// Writes text for people to stdout, always without hidden characters. Adds a final line break
    /// if `text` has none.
    ///
    /// # Errors
    /// As [`Printer::data`].
    pub(super) fn text(&self, text: &str) -> Result<Exit> {
        self.write(&harmless(text))
    }

    fn write(&self, text: &str) -> Result<Exit> {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let write = || {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.write_all(end.as_bytes())?;
            out.flush()
        };
        match self.bars.suspend(write) {
            Ok(()) => Ok(Exit::Done),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ClosedPipe.into()),
            Err(error) => Err(error).context("cannot write to standard output")?,
        }
    }

    /// Writes one JSON value on one line.
    ///
    /// # Errors
    /// As [`Printer::data`].
    pub(super) fn json(&self, value: &impl Serialize) -> Result<Exit> {
        self.json_lines(std::slice::from_ref(value))
    }

    /// Writes JSON values, one per line.
    ///
    /// # Errors
    /// As [`Printer::data`].
    pub(super) fn json_lines(&self, values: &[impl Serialize]) -> Result<Exit> {
        let lines: Result<Vec<_>, _> = values.iter().map(serde_json::to_string).collect();
        self.json_texts(&lines?)
    }

    /// Writes JSON values that are already serialized, one per line.
    ///
    /// # Errors
    /// As [`Printer::data`].
    pub(super) fn json_texts(&self, lines: &[String]) -> Result<Exit> {
        let text = lines.join("\n");
        if self.is_watched { self.write(&escaped(&text)) } else { self.write(&text) }
    }

    /// Writes a table, fitted to the width of the terminal if that is known.
    ///
    /// # Errors
    /// As [`Printer::data`].
    pub(super) fn table(&self, table: &Table) -> Result<Exit> {
        match self.width {
            Some(width) => self.text(&fitted(table, width).trim_fmt()),
            None => self.text(&table.trim_fmt()),
        }
    }

    /// Returns the width for lines of text, in terminal columns; `None` if unknown.
    pub(super) fn columns(&self) -> Option<usize> {
        self.width.map(usize::from)
    }

    /// Writes the first line of an error message to stderr, after the label `error:`.
    pub(super) fn error(&self, message: &str) {
        let label = if self.color { "\x1b[1;31merror:\x1b[0m " } else { "error: " };
        self.stderr(Level::Quiet, label, message);
    }

    /// Writes further information about the last error to stderr, after the label `word`.
    pub(super) fn aside(&self, word: &str, text: &str) {
        self.stderr(Level::Quiet, &format!("  {word}: "), text);
    }

    /// Writes to stderr a hint on how to fix an error.
    pub(super) fn hint(&self, message: &str) {
        self.stderr(Level::Quiet, "hint: ", message);
    }

    fn stderr(&self, level: Level, label: &str, message: &str) {
        if self.level >= level {
            // A closed stderr cannot be reported anywhere.
            let message = harmless(message);
            self.bars.suspend(|| {
                let _ = writeln!(io::stderr(), "{label}{message}");
            });
        }
    }

    /// Returns the message on how to resume the command after an interrupt; `None` if it cannot be
    /// resumed.
    pub(super) fn way_on(&self) -> Option<String> {
        locked(&self.way_on).clone()
    }
}

impl Watch for Printer {
    fn notice(&self, message: &str) {
        self.stderr(Level::Normal, "", message);
    }

    fn warning(&self, message: &str) {
        self.stderr(Level::Normal, "warning: ", message);
    }

    fn detail(&self, message: &str) {
        self.stderr(Level::Verbose, "", message);
    }

    fn progress_of(&self, what: &str, plan: Plan) -> Box<dyn app::Progress + '_> {
        Box::new(Progress::new(self, what, plan))
    }

    fn resumable(&self, message: &str) {
        *locked(&self.way_on) = Some(message.to_owned());
    }
}

/// Returns the width for tables in terminal columns: the value of COLUMNS or, without it, the width
/// of the terminal on stdout. `None` if the width is unknown or below [`LEAST_WIDTH`].
fn width() -> Option<u16> {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0);
    given.or_else(terminal).filter(|&width| width >= LEAST_WIDTH)
}

/// Creates an empty table with these headings and without ruled lines. The columns with an index
/// (from 0) in `right` are aligned to the right.
pub(super) fn table(headings: impl Into<Row>, right: &[usize]) -> Table {
    let mut table = Table::new();
    let style: TableStyle = presets::NOTHING;
    table.load_style(style).set_header(headings);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, GAP));
        if right.contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Replaces hidden characters (control characters and those that change the direction of text) by
/// spaces, so that the text cannot control a terminal. Line breaks and tabs stay.
pub(super) fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) && c != '\n' && c != '\t' { ' ' } else { c }).collect()
}

/// Replaces hidden characters in serialized JSON by `\u` escapes. They occur only in strings, so
/// the value stays the same.
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

/// Wraps a text between words into lines of at most `width` terminal columns; `None` means one
/// line. The first line is indented by `indent` spaces, further lines by `hanging`. A word that is
/// too long gets its own line.
pub(super) fn wrapped(text: &str, indent: usize, hanging: usize, width: Option<usize>) -> String {
    let mut lines = " ".repeat(indent);
    let (mut column, mut begins) = (indent, true);
    for word in text.split(' ') {
        let length = word.chars().count();
        if !begins && width.is_some_and(|width| column + 1 + length > width) {
            lines.push('\n');
            lines.push_str(&" ".repeat(hanging));
            (column, begins) = (hanging, true);
        }
        if !begins {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        (column, begins) = (column + length, false);
    }
    lines.push('\n');
    lines
}

/// Returns the names of categories without the parts in parentheses, cut to [`MAX_LABEL`]. Names
/// that would become empty or equal keep these parts.
pub(super) fn short_labels(names: &[&str]) -> Vec<String> {
    let short: Vec<String> = names.iter().map(|name| without_brackets(name)).collect();
    let shown = names.iter().zip(&short).map(|(name, own)| {
        let others = short.iter().filter(|other| *other == own).count();
        let label = if others > 1 || own.is_empty() { (*name).to_owned() } else { own.clone() };
        plain(label, MAX_LABEL)
    });
    shown.collect()
}

/// Returns the text outside all parentheses, with one space between words.
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
    one_line(&kept)
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
    fn lines_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 2, 4, Some(10)), "  one two\n    three\n");
        assert_eq!(wrapped("one two three", 2, 4, None), "  one two three\n");
        assert_eq!(wrapped("incomprehensible", 0, 4, Some(5)), "incomprehensible\n");
    }

    #[test]
    fn labels_are_as_short_as_they_can_be_told_apart() {
        let names =
            ["film by named person (~directed)", "film by words", "film by words (x)", "(a)"];
        let told = short_labels(&names);
        assert_eq!(told, ["film by named person", "film by words", "film by words (x)", "(a)"]);
    }
}
