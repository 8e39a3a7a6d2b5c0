//! Turns a node's details into text: one string per field, and one document. Pure; must not know
//! files or stores.
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
//! Nulls and empty values are left out, and so are fields that repeat the name.

use serde_json::{Map, Value};

/// A list with an item above this many bytes is written as bullets, one item a line: a joined
/// line of sentences is hard to read.
const LONG_ITEM_BYTES: usize = 80;

/// The text of one field: strings as they are, short lists and objects joined by `"; "`, lists
/// with long items one item a line. Empty for null and empty values.
pub fn render_field(value: &Value) -> String {
    match value {
        Value::Array(_) => match list_items(value) {
            Items::Short(text) => text,
            Items::Long(items) => items.join("\n"),
        },
        other => inline(other),
    }
}

/// The document of a node without its relations. Ends with a line end.
pub fn render_text(name: &str, node_type: &str, details: &Map<String, Value>) -> String {
    let mut text = format!("- name: {name}\n- type: {node_type}\n");
    for (field, value) in details {
        match list_items(value) {
            Items::Short(line) if line.is_empty() || line == name => {}
            Items::Short(line) => push_line(&mut text, &["- ", field, ": ", &line]),
            Items::Long(items) => {
                push_line(&mut text, &["- ", field, ":"]);
                for item in &items {
                    push_line(&mut text, &["  - ", item]);
                }
            }
        }
    }
    text
}

fn push_line(text: &mut String, parts: &[&str]) {
    for part in parts {
        text.push_str(part);
    }
    text.push('\n');
}

enum Items {
    Short(String),
    Long(Vec<String>),
}

fn list_items(value: &Value) -> Items {
    let Value::Array(values) = value else { return Items::Short(inline(value)) };
    let items: Vec<String> = values.iter().map(inline).filter(|item| !item.is_empty()).collect();
    if items.len() > 1 && items.iter().any(|item| item.len() > LONG_ITEM_BYTES) {
        return Items::Long(items);
    }
    Items::Short(items.join("; "))
}

/// One line of text, except for line ends inside strings. Depth is bounded by the JSON parser.
fn inline(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(values) => join(values.iter().map(inline)),
        Value::Object(map) => join(map.iter().map(|(key, value)| {
            let value = inline(value);
            if value.is_empty() { value } else { format!("{key}: {value}") }
        })),
    }
}

fn join(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.filter(|item| !item.is_empty()).collect();
    items.join("; ")
}
