//! Parses the lines of `nodes.jsonl`.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

/// Id of a node in `nodes.jsonl`: a number or a text. A negative integer is stored as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeKey {
    Number(u64),
    Text(String),
}

impl NodeKey {
    /// Returns the id as text.
    pub(super) fn into_text(self) -> String {
        match self {
            NodeKey::Number(number) => number.to_string(),
            NodeKey::Text(text) => text,
        }
    }
}

impl<'de> Deserialize<'de> for NodeKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeKey, D::Error> {
        use serde::de::Error;
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(NodeKey::Text(text)),
            Value::Number(number) => match number.as_u64() {
                Some(number) => Ok(NodeKey::Number(number)),
                None if number.is_i64() => Ok(NodeKey::Text(number.to_string())),
                None => Err(D::Error::custom(format_args!("id {number} is not an integer"))),
            },
            _ => Err(D::Error::custom("the id is neither a text nor a number")),
        }
    }
}

/// One line of `nodes.jsonl`.
pub(super) struct NodeLine {
    pub(super) id: NodeKey,
    pub(super) node_type: String,
    pub(super) name: String,
    pub(super) details: Map<String, Value>,
    pub(super) unknown_key: Option<String>,
}

impl<'de> Deserialize<'de> for NodeLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeLine, D::Error> {
        deserializer.deserialize_map(NodeLineVisitor)
    }
}

struct NodeLineVisitor;

impl<'de> Visitor<'de> for NodeLineVisitor {
    type Value = NodeLine;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with id, type, name and details")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NodeLine, A::Error> {
        use serde::de::Error;
        let (mut id, mut node_type, mut name) = (None, None, None);
        let (mut details, mut unknown_key) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            let twice = match key.as_str() {
                "id" => id.replace(map.next_value()?).is_some(),
                "type" => node_type.replace(map.next_value()?).is_some(),
                "name" => name.replace(map.next_value()?).is_some(),
                "details" => {
                    let value: Option<Map<String, Value>> = map.next_value()?;
                    details.replace(value.unwrap_or_default()).is_some()
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    unknown_key.get_or_insert_with(|| key.clone());
                    false
                }
            };
            if twice {
                return Err(A::Error::custom(format_args!("key \"{key}\" occurs twice")));
            }
        }
        Ok(NodeLine {
            id: id.ok_or_else(|| A::Error::missing_field("id"))?,
            node_type: node_type.ok_or_else(|| A::Error::missing_field("type"))?,
            name: name.ok_or_else(|| A::Error::missing_field("name"))?,
            details: details.unwrap_or_default(),
            unknown_key,
        })
    }
}

/// Returns the message of the JSON parser with the column, but without the line number, which is
/// always 1.
pub(super) fn json_message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or_default();
    let column = error.column();
    format!("{message} (column {column})")
}
