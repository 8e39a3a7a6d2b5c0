//! Converts the values in `node_info.pkl` to nodes of the installed base, for all three bases of
//! the benchmark.
//!
//! The text of a node equals, byte for byte, the output of the reference's `get_doc_info` without
//! relations and not compact. Reading a node on which the reference fails returns an error.

use serde_json::{Map, Number};

use crate::{
    render_field,
    stark::{Kind, amazon, mag, pickle::Value, prime, python},
};

/// Name, text and fields of a node of the installed base.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) fields: Vec<(String, String)>,
}

/// Reads the node that the dict `info` describes.
///
/// # Errors
/// A description of the first defect of `info`.
pub(super) fn read(kind: Kind, node_type: &str, info: &Value) -> Result<Node, String> {
    match kind {
        Kind::Amazon => amazon::read(node_type, info),
        Kind::Mag => mag::read(info),
        Kind::Prime => prime::read(info),
    }
}

/// Returns the value of a key without which the reference fails.
pub(super) fn required<'a>(info: &'a Value, key: &str) -> Result<&'a Value, String> {
    info.get(key).ok_or_else(|| format!("it has no \"{key}\""))
}

/// Returns the elements of a list; `key` names the list in the error.
pub(super) fn list<'a>(value: &'a Value, key: &str) -> Result<&'a [Value], String> {
    value.as_slice().ok_or_else(|| format!("\"{key}\" is not a list"))
}

/// Adds a field unless its value is empty.
pub(super) fn push_field(fields: &mut Vec<(String, String)>, name: &str, value: &Value) {
    let text = render_field(&json(value));
    if !text.is_empty() {
        fields.push((name.to_string(), text));
    }
}

/// Converts a field value to JSON: missing values become null, whole floats become integers.
fn json(value: &Value) -> serde_json::Value {
    let list = |items: &[Value]| serde_json::Value::Array(items.iter().map(json).collect());
    match value {
        Value::None | Value::Call(_) | Value::Bytes(_) => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(number) => (*number).into(),
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            (*number as i64).into()
        }
        Value::Float(number) => Number::from_f64(*number).into(),
        // The shortest digits that identify the number, as in the original data: 0.1, not
        // 0.10000000149011612.
        Value::Single(number) => {
            json(&Value::Float(number.to_string().parse().unwrap_or(f64::NAN)))
        }
        Value::Printed(printed) => serde_json::Value::from(&*printed.text),
        Value::Str(text) => text.as_ref().into(),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => list(items),
        Value::Dict(items) => {
            let items = items.iter().map(|(key, value)| (python::text(key), json(value)));
            serde_json::Value::Object(items.collect::<Map<_, _>>())
        }
    }
}
