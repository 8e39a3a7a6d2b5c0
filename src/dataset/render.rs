//! Renders a node's details as text: one string per field, and one document.
//!
//! ```text
//! - name: X
//! - type: T
//! - price: 49.99
//! - synonyms: cervix; neck of uterus
//! - size: height: 3 inches; weight: 1 ounce
//! - features:
//!   - a long item has a line of its own
//!   - another long item
//! ```
//!
//! A document omits null and empty values, and fields whose text equals the name. A dataset may
//! define a [`Template`] per type instead.

use std::fmt::Write;

use serde_json::{Map, Value};

/// Maximum length of a list item in a joined line, bytes. A list of several items with a longer
/// item is written as bullets, one item per line.
const LONG_ITEM_BYTES: usize = 80;
/// Maximum length of a document from a template, bytes; equals the maximum line length of a nodes
/// file.
pub(super) const MAX_DOCUMENT_BYTES: usize = 64 << 20;
/// Maximum number of placeholders of a template; each may insert a long field.
const MAX_PLACEHOLDERS: usize = 1_000;
/// Separator of list items on one line.
const SEPARATOR: &str = "; ";

/// Renders one field: strings unchanged, short lists and objects joined by `"; "`, lists with long
/// items one item per line. Empty for null and empty values.
pub fn render_field(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Array(items) if is_long(items) => push_joined(&mut text, items, "\n"),
        other => push_inline(&mut text, other),
    }
    text
}

/// Renders the document of a node, without its relations. Ends with a line feed.
pub fn render_text(name: &str, node_type: &str, details: &Map<String, Value>) -> String {
    let mut text = format!("- name: {name}\n- type: {node_type}\n");
    for (field, value) in details {
        let before = text.len();
        text.push_str("- ");
        text.push_str(field);
        text.push(':');
        if let Value::Array(items) = value
            && is_long(items)
        {
            text.push_str("\n  - ");
            push_joined(&mut text, items, "\n  - ");
            text.push('\n');
            continue;
        }
        text.push(' ');
        let start = text.len();
        push_inline(&mut text, value);
        match text.get(start..) {
            Some(line) if !line.is_empty() && line != name => text.push('\n'),
            _ => text.truncate(before),
        }
    }
    text
}

/// Whether a list is written with one line per item: it has several nonempty items and a long one.
fn is_long(items: &[Value]) -> bool {
    let mut scratch = String::new();
    let mut n_filled = 0;
    let mut longest = 0;
    for item in items {
        let bytes = match item {
            Value::String(text) => text.len(),
            other => {
                scratch.clear();
                push_inline(&mut scratch, other);
                scratch.len()
            }
        };
        n_filled += usize::from(bytes > 0);
        longest = longest.max(bytes);
    }
    n_filled > 1 && longest > LONG_ITEM_BYTES
}

/// Appends a value without line ends, except those inside strings. The JSON parser bounds the
/// recursion depth.
fn push_inline(text: &mut String, value: &Value) {
    match value {
        Value::Null => {}
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        // Writing to a string cannot fail.
        Value::Number(number) => drop(write!(text, "{number}")),
        Value::String(string) => text.push_str(string),
        Value::Array(items) => push_joined(text, items, SEPARATOR),
        Value::Object(map) => {
            let start = text.len();
            for (key, value) in map {
                let before = text.len();
                if before > start {
                    text.push_str(SEPARATOR);
                }
                text.push_str(key);
                text.push_str(": ");
                let filled = text.len();
                push_inline(text, value);
                if text.len() == filled {
                    text.truncate(before);
                }
            }
        }
    }
}

/// Appends the items that are not empty.
fn push_joined(text: &mut String, items: &[Value], separator: &str) {
    let start = text.len();
    for item in items {
        let before = text.len();
        if before > start {
            text.push_str(separator);
        }
        let filled = text.len();
        push_inline(text, item);
        if text.len() == filled {
            text.truncate(before);
        }
    }
}

/// Document template of a node type: text with the placeholders `{field}`, `{name}` and `{type}`. A
/// line whose placeholders are all empty is omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    lines: Vec<Vec<Part>>,
}

/// Why a text is not a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    /// A brace is not closed, or a placeholder is empty.
    #[error("has a stray brace; write {{field}}")]
    Stray,
    /// The template has too many placeholders.
    #[error("has more than {MAX_PLACEHOLDERS} placeholders; leave some out")]
    TooMany,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(String),
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// `BadTemplate`.
    pub fn parse(source: &str) -> Result<Template, BadTemplate> {
        let (mut lines, mut n_placeholders) = (Vec::new(), 0);
        for line in source.lines() {
            let mut parts = Vec::new();
            let mut rest = line;
            while let Some((before, after)) = rest.split_once('{') {
                let (field, after) = after.split_once('}').ok_or(BadTemplate::Stray)?;
                if field.is_empty() || field.contains('{') || before.contains('}') {
                    return Err(BadTemplate::Stray);
                }
                n_placeholders += 1;
                if n_placeholders > MAX_PLACEHOLDERS {
                    return Err(BadTemplate::TooMany);
                }
                parts.push(Part::Text(before.to_string()));
                parts.push(Part::Field(field.to_string()));
                rest = after;
            }
            if rest.contains('}') {
                return Err(BadTemplate::Stray);
            }
            parts.push(Part::Text(rest.to_string()));
            lines.push(parts);
        }
        Ok(Template { lines })
    }

    /// Returns the names of the fields in placeholders, except `name` and `type`.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().flatten().filter_map(|part| match part {
            Part::Field(field) if field != "name" && field != "type" => Some(field.as_str()),
            _ => None,
        })
    }

    /// Renders the document of a node; `None` if it is longer than 64 MiB. A nonempty document ends
    /// with a line feed. Memory: at most the limit plus one field.
    pub fn render(
        &self,
        name: &str,
        node_type: &str,
        details: &Map<String, Value>,
    ) -> Option<String> {
        let mut text = String::new();
        for parts in &self.lines {
            let before = text.len();
            let (mut n_fields, mut n_filled) = (0, 0);
            for part in parts {
                match part {
                    Part::Text(literal) => text.push_str(literal),
                    Part::Field(field) => {
                        let start = text.len();
                        match (field.as_str(), details.get(field)) {
                            ("name", _) => text.push_str(name),
                            ("type", _) => text.push_str(node_type),
                            (_, Some(value)) => text.push_str(&render_field(value)),
                            (_, None) => {}
                        }
                        if text.len() > MAX_DOCUMENT_BYTES {
                            return None;
                        }
                        n_fields += 1;
                        n_filled += usize::from(text.len() > start);
                    }
                }
            }
            if n_fields > 0 && n_filled == 0 {
                text.truncate(before);
            } else {
                text.push('\n');
            }
        }
        Some(text)
    }
}
