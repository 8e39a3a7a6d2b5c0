//! Renders the details of a node as text: one string per field, and one document per node.
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
//! A document omits null and empty values, and fields whose text equals the node's name. A dataset
//! may define a [`Template`] for a node type instead.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum length in bytes of a list item that is joined with others on one line. If a list of
/// several items has a longer item, each item gets a bullet and a line of its own.
const LONG_ITEM_BYTES: usize = 80;
/// Maximum length in bytes of a document rendered from a template; equals the maximum length of a
/// line of a nodes file.
pub(super) const MAX_DOCUMENT_BYTES: usize = 64 << 20;
/// Maximum number of placeholders in a template; each placeholder may insert a long field.
const MAX_PLACEHOLDERS: usize = 1_000;
/// Separator between list items on one line.
const SEPARATOR: &str = "; ";

/// Renders one field value. A string stays unchanged. A list of short items, or an object, is
/// joined by `"; "` on one line; a list with a long item has one item per line. Null and empty
/// values give an empty text.
pub fn render_field(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Array(items) if is_long(items) => push_joined(&mut text, items, "\n"),
        other => push_inline(&mut text, other),
    }
    text
}

/// Renders the document of a node, without its relations. The document ends with a line feed.
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

/// Whether a list is written with one item per line: it has several nonempty items, and one of them
/// is longer than [`LONG_ITEM_BYTES`].
fn is_long(items: &[Value]) -> bool {
    let mut scratch = String::new();
    let mut n_filled = 0;
    let mut longest = 0;
    for item in items {
        scratch.clear();
        push_inline(&mut scratch, item);
        let bytes = scratch.len();
        n_filled += usize::from(bytes > 0);
        longest = longest.max(bytes);
    }
    n_filled > 1 && longest > LONG_ITEM_BYTES
}

/// Appends a value on one line; only line ends inside strings remain. The JSON parser bounds the
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
            push_labelled(text, map.iter().map(|(key, value)| ([key, ": "], value)), SEPARATOR);
        }
    }
}

/// Appends the nonempty items, joined by `separator`.
fn push_joined(text: &mut String, items: &[Value], separator: &str) {
    push_labelled(text, items.iter().map(|item| ([""; 2], item)), separator);
}

/// Appends the nonempty values, each after its label, joined by `separator`.
fn push_labelled<'a>(
    text: &mut String,
    items: impl Iterator<Item = ([&'a str; 2], &'a Value)>,
    separator: &str,
) {
    let start = text.len();
    for (label, value) in items {
        let before = text.len();
        if before > start {
            text.push_str(separator);
        }
        text.extend(label);
        let filled = text.len();
        push_inline(text, value);
        if text.len() == filled {
            text.truncate(before);
        }
    }
}

/// Document template of a node type: a text with the placeholders `{field}`, `{name}` and `{type}`.
/// A line is omitted if it has placeholders and all of them are empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template {
    source: String,
    lines: Vec<Vec<Part>>,
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(source: String) -> Result<Template, String> {
        Template::parse(&source)
    }
}

impl From<Template> for String {
    fn from(template: Template) -> String {
        template.source
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(String),
}

impl Template {
    /// Parses the text of a template.
    ///
    /// # Errors
    /// What is wrong: a brace without counterpart, an empty placeholder, or too many placeholders.
    pub fn parse(source: &str) -> Result<Template, String> {
        let stray = || "has a stray brace; write {field}".to_owned();
        let (mut lines, mut n_placeholders) = (Vec::new(), 0);
        for line in source.lines() {
            let mut parts = Vec::new();
            let mut rest = line;
            while let Some((before, after)) = rest.split_once('{') {
                let (field, after) = after.split_once('}').ok_or_else(stray)?;
                if field.is_empty() || field.contains('{') || before.contains('}') {
                    return Err(stray());
                }
                n_placeholders += 1;
                if n_placeholders > MAX_PLACEHOLDERS {
                    return Err(format!(
                        "has more than {MAX_PLACEHOLDERS} placeholders; leave some out"
                    ));
                }
                parts.push(Part::Text(before.to_string()));
                parts.push(Part::Field(field.to_string()));
                rest = after;
            }
            if rest.contains('}') {
                return Err(stray());
            }
            parts.push(Part::Text(rest.to_string()));
            lines.push(parts);
        }
        Ok(Template { source: source.to_owned(), lines })
    }

    /// Returns the field names in the placeholders; `name` and `type` are not fields.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().flatten().filter_map(|part| match part {
            Part::Field(field) if field != "name" && field != "type" => Some(field.as_str()),
            _ => None,
        })
    }

    /// Renders the document of a node; `None` if it is longer than 64 MiB. A nonempty document ends
    /// with a line feed. Memory: at most 64 MiB plus one field.
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
