//! Explanations: trees of names and values, for people and programs.

use serde::{Deserialize, Serialize};

use crate::answer::Cell;

/// A named quantity with its value and its parts, as in tantivy's explanations, but values may also
/// be texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Name of the explained quantity, such as `score` or the name of a tool.
    pub name: String,
    /// Value of the quantity; empty if only its parts have values.
    #[serde(default, skip_serializing_if = "Cell::is_empty")]
    pub value: Cell,
    /// Parts of the quantity, in an order that depends on `name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Explanation>,
}

impl Explanation {
    /// Creates an explanation without parts.
    pub fn new(name: impl Into<String>, value: impl Into<Cell>) -> Self {
        Self { name: name.into(), value: value.into(), children: Vec::new() }
    }

    /// Appends parts to this explanation.
    pub fn with(mut self, children: impl IntoIterator<Item = Explanation>) -> Self {
        self.children.extend(children);
        self
    }

    /// Returns the first part with this name.
    pub fn child(&self, name: &str) -> Option<&Explanation> {
        self.children.iter().find(|child| child.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_json_without_what_they_lack() {
        let tree = Explanation::new("score", 0.5).with([
            Explanation::new("bm25", Cell::Empty),
            Explanation::new("rank", 3usize).with([Explanation::new("of", "hybrid")]),
        ]);
        let json = serde_json::to_value(&tree).unwrap();
        let expected = serde_json::json!({"name": "score", "value": 0.5, "children": [
            {"name": "bm25"},
            {"name": "rank", "value": 3, "children": [{"name": "of", "value": "hybrid"}]},
        ]});
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<Explanation>(json).unwrap(), tree);
        assert_eq!(tree.child("rank").map(|rank| &rank.value), Some(&Cell::Number(3.0)));
        assert_eq!(tree.child("of"), None, "parts of parts are not searched");
    }
}
