//! Reads rows of JSON files in bounded memory; a file has one object per line, or one array of
//! objects. Objects within an object become columns of their own.

use std::path::Path;

use serde_json::{Map, Value};

use crate::{
    ProblemKind, Result,
    encoding::Encoding,
    error::{Fault, Problems},
    lines::{Line, Lines, MAX_LINE_BYTES},
    neutral::json_message,
    tables::rows::{Row, RowHandler, is_empty},
};

/// Maximum number of lines that are searched for the first object of an array.
const MAX_BLANK_LINES: usize = 100;
/// Remedy for a file that is not a valid array of objects.
const ARRAY: &str =
    "write an array of objects, [{\"column\": value, ...}, ...], or one object per line";

/// Whether a file begins like an array of objects; false for an empty array.
pub(super) fn is_array(path: &Path) -> bool {
    let encoding = Lines::encoding_of(path).unwrap_or_default();
    let Ok(mut lines) = Lines::open_as(path, encoding) else { return false };
    let mut has_bracket = false;
    for _ in 0..MAX_BLANK_LINES {
        let Ok(Some((_, Line::Bytes(line)))) = lines.next() else { return false };
        for byte in line.iter().filter(|byte| !byte.is_ascii_whitespace()) {
            match (byte, has_bracket) {
                (b'[', false) => has_bracket = true,
                (b'{', true) => return true,
                _ => return false,
            }
        }
    }
    false
}

/// Passes all rows to `on_row`, in file order; adds a problem for each malformed row.
///
/// # Errors
/// Errors of reading the file, and errors of `on_row`.
pub(super) fn each(
    path: &Path,
    encoding: Encoding,
    problems: &mut Problems,
    on_row: &mut RowHandler<'_>,
) -> Result<()> {
    if is_array(path) {
        return each_of_array(path, encoding, problems, on_row);
    }
    let mut lines = Lines::open_as(path, encoding)?;
    while let Some((line, text)) = lines.next()? {
        let Some(text) = problems.ok(path, line, text.text())? else { continue };
        if text.trim_ascii().is_empty() {
            continue;
        }
        let hint = "write one object {\"column\": value, ...} per line";
        if let Some(cells) = cells(text, (path, line), hint, problems)
            && !on_row(problems, Row { line, cells })?
        {
            return Ok(());
        }
    }
    Ok(())
}

/// Parses an object as the cells of a row; adds a problem and returns `None` if the object is
/// malformed.
fn cells(
    text: &str,
    (path, line): (&Path, u64),
    hint: &str,
    problems: &mut Problems,
) -> Option<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(object) => {
            let mut cells = Map::new();
            flatten("", object, &mut cells);
            Some(cells)
        }
        Err(error) => {
            let fault = Fault::new(ProblemKind::BadJson, json_message(&error), hint);
            problems.add(path, line, fault.with_excerpt(text));
            None
        }
    }
}

/// Writes the values of an object as cells. The values of an object within it, and those of the
/// objects of a list, have cells of their own, the latter with lists: `author_login` for
/// `{"author": {"login": ...}}`. Of two values for one cell, the first stays.
fn flatten(path: &str, object: Map<String, Value>, cells: &mut Map<String, Value>) {
    for (key, value) in object {
        let name = if path.is_empty() { key } else { format!("{path}_{key}") };
        match value {
            Value::Object(inner) => flatten(&name, inner, cells),
            Value::Array(items) if items.first().is_some_and(Value::is_object) => {
                let mut lists: Map<String, Value> = Map::new();
                for item in items {
                    let mut own = Map::new();
                    match item {
                        Value::Object(inner) => flatten(&name, inner, &mut own),
                        other => drop(own.insert(name.clone(), other)),
                    }
                    for (name, value) in own {
                        let list = lists.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                        if let Value::Array(list) = list {
                            list.push(value);
                        }
                    }
                }
                for (name, list) in lists {
                    cells.entry(name).or_insert(list);
                }
            }
            value if is_empty(&value) => {}
            value => {
                cells.entry(name).or_insert(value);
            }
        }
    }
}

/// Splits an array of objects into its elements, character by character.
#[derive(Default)]
struct Elements {
    element: String,
    /// Number of the line with the element's first character.
    first: u64,
    depth: usize,
    in_text: bool,
    is_escaped: bool,
}

impl Elements {
    /// Adds the next character of the array; returns whether an element ends before the character.
    fn ends_before(&mut self, c: char, line: u64) -> bool {
        if self.in_text {
            (self.in_text, self.is_escaped) =
                (self.is_escaped || c != '"', c == '\\' && !self.is_escaped);
        } else {
            match c {
                ',' | ']' if self.depth == 0 => return true,
                '"' => self.in_text = true,
                '{' | '[' => self.depth += 1,
                '}' | ']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        if self.element.is_empty() && c.is_whitespace() {
            return false;
        }
        if self.element.is_empty() {
            self.first = line;
        }
        self.element.push(c);
        false
    }
}

fn each_of_array(
    path: &Path,
    encoding: Encoding,
    problems: &mut Problems,
    on_row: &mut RowHandler<'_>,
) -> Result<()> {
    let mut lines = Lines::open_as(path, encoding)?;
    let mut elements = Elements::default();
    let (mut is_open, mut is_over, mut last) = (false, false, 1);
    while let Some((line, text)) = lines.next()? {
        last = line;
        let Some(text) = problems.ok(path, line, text.text())? else { continue };
        for c in text.chars().chain(['\n']) {
            if !is_open {
                is_open = c == '[';
                continue;
            }
            if is_over {
                if !c.is_whitespace() {
                    let message = "there is text after the end of the array";
                    problems.add(path, line, Fault::new(ProblemKind::BadJson, message, ARRAY));
                    return Ok(());
                }
                continue;
            }
            if elements.ends_before(c, line) {
                is_over = c == ']';
                let element = std::mem::take(&mut elements.element);
                if element.is_empty() && is_over {
                    continue;
                }
                let at = elements.first.max(1);
                if let Some(cells) = cells(&element, (path, at), ARRAY, problems)
                    && !on_row(problems, Row { line: at, cells })?
                {
                    return Ok(());
                }
            }
            if elements.element.len() > MAX_LINE_BYTES {
                let message = format!("an object of more than {MAX_LINE_BYTES} bytes");
                let fault = Fault::new(ProblemKind::LineTooLong, message, "shorten its texts");
                problems.add(path, elements.first, fault);
                return Ok(());
            }
        }
    }
    if !is_over {
        let message = "the array is not closed";
        problems.add(path, last, Fault::new(ProblemKind::BadJson, message, ARRAY));
    }
    Ok(())
}
