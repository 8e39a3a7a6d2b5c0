//! Reads rows of CSV and similar files line by line in bounded memory.
//!
//! The delimiter is the most frequent of comma, tab, semicolon and bar in the header; in a `.tsv`
//! or `.tab` file, it is the tab if the header has one. A cell that begins with a quote extends to
//! the closing quote. Within such a cell, two quotes stand for one, and line ends are allowed.

use std::{borrow::Cow, collections::VecDeque, path::Path};

use serde_json::{Map, Value};

use crate::{
    ProblemKind, Result,
    encoding::Encoding,
    error::{Fault, Problems},
    lines::{Lines, MAX_LINE_BYTES},
    tables::rows::{Row, RowHandler, extension},
};

/// Possible delimiters; of equally frequent delimiters, the first in this list is chosen.
const DELIMITERS: [char; 4] = [',', '\t', ';', '|'];
/// Maximum number of lines of one row. A quote that stays open for more lines counts as unclosed.
const MAX_ROW_LINES: u64 = 10_000;
/// Maximum number of characters of a row with an unclosed quote that a message shows.
const SHOWN_CHARS: usize = 200;
/// File extensions of tab-separated tables.
const TABBED: [&str; 2] = ["tsv", "tab"];
/// Maximum number of columns of a table.
const MAX_COLUMNS: usize = 10_000;

/// Splits a row into cells. A row is fed line by line.
struct Splitter {
    delimiter: char,
    cells: Vec<String>,
    cell: String,
    /// Whether the current cell began with a quote that has not been closed yet.
    is_open: bool,
    bytes: usize,
}

/// State of a row after one of its lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FedLine {
    /// The row ends at the end of the line.
    Last,
    /// A quote is still open at the end of the line, so the row continues.
    Open,
    /// A quote opened in an earlier line closes in the middle of a text; the quote therefore counts
    /// as unclosed.
    Stray,
}

impl Splitter {
    fn new(delimiter: char) -> Splitter {
        Splitter { delimiter, cells: Vec::new(), cell: String::new(), is_open: false, bytes: 0 }
    }

    /// Adds a line, without its line end, to the current row; returns the state of the row.
    fn feed(&mut self, line: &str) -> FedLine {
        self.bytes += line.len();
        let mut chars = line.chars().peekable();
        // Whether the next character is the first of its cell.
        let mut is_start = !self.is_open;
        let mut began_before = self.is_open;
        if self.is_open {
            self.cell.push('\n');
        }
        while let Some(c) = chars.next() {
            if self.is_open {
                match c {
                    '"' if chars.peek() == Some(&'"') => {
                        chars.next();
                        self.cell.push('"');
                    }
                    '"' => {
                        self.is_open = false;
                        let next = chars.clone().find(|c| *c == self.delimiter || *c != ' ');
                        if began_before && next.is_some_and(|c| c != self.delimiter) {
                            return FedLine::Stray;
                        }
                        began_before = false;
                    }
                    c => self.cell.push(c),
                }
            } else if c == '"' && is_start {
                self.is_open = true;
            } else if c == self.delimiter {
                self.cells.push(std::mem::take(&mut self.cell));
                is_start = true;
                continue;
            } else {
                self.cell.push(c);
            }
            is_start = false;
        }
        if self.is_open {
            return FedLine::Open;
        }
        self.cells.push(std::mem::take(&mut self.cell));
        FedLine::Last
    }

    /// Returns the cells of the current row, and resets the splitter for the next row.
    fn take(&mut self) -> Vec<String> {
        self.bytes = 0;
        self.is_open = false;
        self.cell.clear();
        std::mem::take(&mut self.cells)
    }
}

/// A row whose quote is still open.
struct PartialRow {
    first: u64,
    /// Beginning of the row's first line, for messages.
    text: String,
    /// Numbers and texts of the row's further lines.
    behind: VecDeque<(u64, String)>,
}

/// Reads the rows of a file, each with the number of its first line.
struct Records {
    lines: Lines,
    splitter: Splitter,
    /// Numbers and texts of lines that were read as part of a row with an unclosed quote, and are
    /// read again as rows of their own.
    pending: VecDeque<(u64, String)>,
}

impl Records {
    /// Opens a file; returns a reader of its rows, and the column names in its header. There are no
    /// names if the header cannot be read.
    fn open(
        path: &Path,
        encoding: Encoding,
        problems: &mut Problems,
    ) -> Result<(Records, Vec<String>)> {
        let mut lines = Lines::open_as(path, encoding)?;
        let first = match lines.next()? {
            Some((number, line)) => problems.ok(path, number, line.text())?.map(str::to_owned),
            None => None,
        };
        let Some(first) = first else {
            let splitter = Splitter::new(',');
            return Ok((Records { lines, splitter, pending: VecDeque::new() }, Vec::new()));
        };
        let count = |c: char| first.matches(c).count();
        let most_frequent = DELIMITERS.into_iter().rev().max_by_key(|&c| count(c)).unwrap_or(',');
        let says_tabs = TABBED.contains(&extension(path).as_str()) && count('\t') > 0;
        let splitter = Splitter::new(if says_tabs { '\t' } else { most_frequent });
        let mut records = Records { lines, splitter, pending: VecDeque::from([(1, first)]) };
        let header = records.next(path, problems)?.filter(|(line, _)| *line == 1);
        let names = header.map(|(_, names)| names).unwrap_or_default();
        let names = names.iter().enumerate().map(|(at, name)| match name.trim() {
            "" => format!("column {}", at + 1),
            name => name.to_owned(),
        });
        let names = names.take(MAX_COLUMNS).collect();
        Ok((records, names))
    }

    /// Returns the number of the first line of the next nonempty row, and the row's cells; `None`
    /// at the end. For a row with an unclosed quote, adds a problem and reads its further lines
    /// again as rows.
    fn next(&mut self, path: &Path, problems: &mut Problems) -> Result<Option<(u64, Vec<String>)>> {
        let mut row: Option<PartialRow> = None;
        loop {
            let line = match self.pending.pop_front() {
                Some((number, text)) => Some((number, Cow::Owned(text))),
                None => match self.lines.next()? {
                    Some((number, line)) => match problems.ok(path, number, line.text())? {
                        Some(text) => Some((number, Cow::Borrowed(text))),
                        None => continue,
                    },
                    None => None,
                },
            };
            let Some((number, text)) = line else {
                let Some(partial) = row.take() else { return Ok(None) };
                self.reject_row(partial, path, problems);
                continue;
            };
            if row.is_none() && text.is_empty() {
                continue;
            }
            let fed = self.splitter.feed(&text);
            let partial = match row.take() {
                Some(mut partial) => {
                    partial.behind.push_back((number, text.into_owned()));
                    partial
                }
                None if fed == FedLine::Last => return Ok(Some((number, self.splitter.take()))),
                None => {
                    let text = text.chars().take(SHOWN_CHARS).collect();
                    PartialRow { first: number, text, behind: VecDeque::new() }
                }
            };
            let is_long = number - partial.first > MAX_ROW_LINES;
            match fed {
                FedLine::Last => return Ok(Some((partial.first, self.splitter.take()))),
                FedLine::Open if !is_long && self.splitter.bytes <= MAX_LINE_BYTES => {
                    row = Some(partial)
                }
                FedLine::Open | FedLine::Stray => self.reject_row(partial, path, problems),
            }
        }
    }

    /// Adds a problem for a row with an unclosed quote, and goes back to the line after the row's
    /// first line.
    fn reject_row(&mut self, mut row: PartialRow, path: &Path, problems: &mut Problems) {
        let message = "a quote that opens in this row is never closed";
        let hint = "close it, or double a quote within a text";
        let fault = Fault::new(ProblemKind::OpenQuote, message, hint);
        problems.add(path, row.first, fault.with_excerpt(&row.text));
        self.splitter.take();
        row.behind.append(&mut self.pending);
        self.pending = row.behind;
    }
}

/// Returns the column names in the header of a file.
pub(super) fn columns(path: &Path, encoding: Encoding) -> Result<Vec<String>> {
    // Reading the rows reports problems of the header.
    Ok(Records::open(path, encoding, &mut Problems::new(true))?.1)
}

/// Passes all rows to `on_row`, in file order; adds a problem for each malformed row.
pub(super) fn each(
    path: &Path,
    encoding: Encoding,
    problems: &mut Problems,
    on_row: &mut RowHandler<'_>,
) -> Result<()> {
    let (mut records, columns) = Records::open(path, encoding, problems)?;
    if columns.is_empty() || columns == ["column 1"] {
        let hint = "write a header and a row per node or edge";
        problems.add(path, 1, Fault::new(ProblemKind::WrongHeader, "the header is empty", hint));
        return Ok(());
    }
    for (at, name) in columns.iter().enumerate() {
        if columns.iter().take(at).any(|before| before == name) {
            let message = format!("two columns are called \"{name}\"");
            let fault = Fault::new(ProblemKind::BadColumn, message, "rename one of them");
            problems.add(path, 1, fault.with_excerpt(&columns.join(",")));
            return Ok(());
        }
    }
    while let Some((line, cells)) = records.next(path, problems)? {
        // Spreadsheets write empty rows below a table.
        if cells.iter().all(String::is_empty) {
            continue;
        }
        if cells.len() != columns.len() {
            let message = format!("{} columns, not {}", cells.len(), columns.len());
            let part = match records.splitter.delimiter {
                ',' => "commas".to_owned(),
                '\t' => "tabs".to_owned(),
                other => format!("{other:?}"),
            };
            let hint = format!("quote texts that hold {part}, and write all cells");
            let fault = Fault::new(ProblemKind::RaggedRow, message, hint);
            problems.add(path, line, fault.with_excerpt(&cells.join("  ")));
            continue;
        }
        let cells = columns.iter().cloned().zip(cells).filter(|(_, cell)| !cell.is_empty());
        let cells: Map<String, Value> =
            cells.map(|(name, cell)| (name, Value::String(cell))).collect();
        if !on_row(problems, Row { line, cells })? {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(text: &str) -> Option<Vec<Vec<String>>> {
        let mut splitter = Splitter::new(',');
        let mut rows = Vec::new();
        let mut is_over = true;
        for line in text.split('\n') {
            let line = line.strip_suffix('\r').unwrap_or(line);
            if is_over && line.is_empty() {
                continue;
            }
            is_over = splitter.feed(line) == FedLine::Last;
            if is_over {
                rows.push(splitter.take());
            }
        }
        is_over.then_some(rows)
    }

    #[test]
    fn quotes_hold_delimiters_quotes_and_line_ends() {
        let rows = split("a,\"b, \"\"c\"\"\nd\",5\" pipe\n\n1,,\"\"").unwrap();
        assert_eq!(rows, [vec!["a", "b, \"c\"\nd", "5\" pipe"], vec!["1", "", ""]]);
        assert_eq!(split("a,\"b\nc"), None);
    }

    proptest! {
        /// Tables written by a CSV writer read back unchanged.
        #[test]
        fn what_is_written_is_read(
            rows in prop::collection::vec(prop::collection::vec("[a-c\",\n; ]{0,6}", 2..4), 1..5)
        ) {
            let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
            for row in &rows {
                writer.write_record(row).unwrap();
            }
            let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
            prop_assert_eq!(split(&text).unwrap(), rows);
        }
    }
}
