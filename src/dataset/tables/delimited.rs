//! Rows of CSV and its kin, read line by line within limits of memory. Must not know what rows mean.
//!
//! Cells are parted by the character that the header has most of: comma, semicolon, tab or bar. A
//! cell that begins with a quote ends with one; within, two quotes are one, and lines may end.

use std::path::Path;

use serde_json::{Map, Value};

use crate::dataset::{
    DatasetError, ProblemKind,
    error::{Fault, Problems},
    lines::{Lines, MAX_LINE_BYTES},
    neutral::text_of,
    tables::rows::{OnRow, Row},
};

/// What may part cells; of those that a header has equally many of, the first.
const DELIMITERS: [char; 4] = [',', '\t', ';', '|'];
/// Lines of one row; a quote that is open longer was not meant as one.
const MAX_ROW_LINES: u64 = 10_000;
/// Most columns of a table.
const MAX_COLUMNS: usize = 10_000;

/// Takes a row line by line.
struct Splitter {
    delimiter: char,
    cells: Vec<String>,
    cell: String,
    /// Whether the cell began with a quote that is still open.
    is_open: bool,
    bytes: usize,
}

impl Splitter {
    fn new(delimiter: char) -> Splitter {
        Splitter { delimiter, cells: Vec::new(), cell: String::new(), is_open: false, bytes: 0 }
    }

    /// Takes a line without its end; whether the row ends with it.
    fn feed(&mut self, line: &str) -> bool {
        self.bytes += line.len();
        let mut chars = line.chars().peekable();
        // Whether nothing of the cell was seen yet.
        let mut is_start = !self.is_open;
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
                    '"' => self.is_open = false,
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
        if !self.is_open {
            self.cells.push(std::mem::take(&mut self.cell));
        }
        !self.is_open
    }

    fn take(&mut self) -> Vec<String> {
        self.bytes = 0;
        std::mem::take(&mut self.cells)
    }
}

/// Rows of a file with the lines at which they begin.
struct Records {
    lines: Lines,
    splitter: Splitter,
}

impl Records {
    /// Opens a file and reads its header.
    fn open(path: &Path, problems: &mut Problems) -> Result<(Records, Vec<String>), DatasetError> {
        let mut lines = Lines::open(path, MAX_LINE_BYTES)?;
        let header = match lines.next()? {
            Some((number, line)) => text_of(line, path, number, problems).map(str::to_owned),
            None => None,
        };
        let header = header.unwrap_or_default();
        let count = |c: char| header.matches(c).count();
        let delimiter = DELIMITERS.into_iter().rev().max_by_key(|&c| count(c)).unwrap_or(',');
        let mut splitter = Splitter::new(delimiter);
        splitter.feed(&header);
        let names = splitter.take();
        let names = names.iter().enumerate().map(|(at, name)| match name.trim() {
            "" => format!("column {}", at + 1),
            name => name.to_owned(),
        });
        let names = names.take(MAX_COLUMNS).collect();
        Ok((Records { lines, splitter: Splitter::new(delimiter) }, names))
    }

    /// The next row that is not empty, with its line.
    fn next(
        &mut self,
        path: &Path,
        problems: &mut Problems,
    ) -> Result<Option<(u64, Vec<String>)>, DatasetError> {
        let mut begin: Option<(u64, String)> = None;
        while let Some((number, line)) = self.lines.next()? {
            let Some(text) = text_of(line, path, number, problems) else { continue };
            if begin.is_none() && text.is_empty() {
                continue;
            }
            let (first, _) =
                begin.get_or_insert_with(|| (number, text.chars().take(200).collect()));
            let first = *first;
            if self.splitter.feed(text) {
                return Ok(Some((first, self.splitter.take())));
            }
            if number - first > MAX_ROW_LINES || self.splitter.bytes > MAX_LINE_BYTES {
                break;
            }
        }
        if let Some((first, text)) = begin {
            let message = "a quote that opens in this row is never closed";
            let hint = "close it, or write a quote within a text as two";
            let fault = Fault::new(ProblemKind::OpenQuote, message, hint);
            problems.add(path, first, fault.here(&text));
        }
        Ok(None)
    }
}

/// The names in the header.
pub(super) fn columns(path: &Path) -> Result<Vec<String>, DatasetError> {
    // What is wrong with the header is told when rows are read.
    Ok(Records::open(path, &mut Problems::new(true))?.1)
}

/// Reads all rows.
pub(super) fn each(
    path: &Path,
    problems: &mut Problems,
    on_row: &mut OnRow<'_>,
) -> Result<(), DatasetError> {
    let (mut records, columns) = Records::open(path, problems)?;
    if columns == ["column 1"] {
        let hint = "write a header and a row per node or edge";
        problems.add(path, 1, Fault::new(ProblemKind::WrongHeader, "the header is empty", hint));
        return Ok(());
    }
    for (at, name) in columns.iter().enumerate() {
        if columns.iter().take(at).any(|before| before == name) {
            let message = format!("two columns are called \"{name}\"");
            let fault = Fault::new(ProblemKind::BadColumn, message, "rename one of them");
            problems.add(path, 1, fault.here(&columns.join(",")));
            return Ok(());
        }
    }
    while let Some((line, cells)) = records.next(path, problems)? {
        if cells.len() != columns.len() {
            let message = format!("{} columns, not {}", cells.len(), columns.len());
            let part = match records.splitter.delimiter {
                ',' => "commas".to_owned(),
                '\t' => "tabs".to_owned(),
                other => format!("{other:?}"),
            };
            let hint = format!("quote texts that hold {part}, and write all cells");
            let fault = Fault::new(ProblemKind::RaggedRow, message, hint);
            problems.add(path, line, fault.here(&cells.join("  ")));
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
            is_over = splitter.feed(line);
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
        /// What a writer of CSV wrote is read back.
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
