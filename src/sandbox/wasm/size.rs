//! Sizes of values that pass to and from a module, counted as the Rhai engine in this process does:
//! elements of lists, entries of maps, and bytes of text, including nested ones.

use crate::Limits;
use agent_tools::Value;

/// Numbers of list elements, map entries and bytes of text in a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    items: usize,
    entries: usize,
    text_bytes: usize,
}

impl Size {
    /// Measures a value. Sets of nodes, scores and vectors count 0, because they pass as handles.
    pub(super) fn new(value: &Value) -> Self {
        let mut size = Self::default();
        size.add(value);
        size
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Text(text) => self.text_bytes += text.len(),
            Value::List(items) => {
                self.items += items.len();
                items.iter().for_each(|item| self.add(item));
            }
            Value::Map(entries) => {
                self.entries += entries.len();
                for (name, entry) in entries {
                    self.text_bytes += name.len();
                    self.add(entry);
                }
            }
            _ => {}
        }
    }

    /// Checks that the size is within the limits.
    ///
    /// # Errors
    /// Returns a message about the first limit that is exceeded.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), String> {
        let within = |items: &str, found: usize, max: usize| match found <= max {
            true => Ok(()),
            false => Err(format!("{found} {items}, more than {max}; ask for less at once")),
        };
        within("elements of a list", self.items, limits.list_items)?;
        within("entries of a map", self.entries, limits.map_entries)?;
        within("bytes of text", self.text_bytes, limits.text_bytes)
    }

    /// Returns the approximate memory in bytes that the measured value takes.
    pub(super) fn bytes(&self) -> u64 {
        let slots = (self.items + 2 * self.entries) * size_of::<Value>();
        (slots + self.text_bytes) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Size;
    use crate::Limits;
    use agent_tools::Value;

    #[test]
    fn nested_values_are_counted_and_bounded() {
        let texts = |n: usize, bytes: usize| Value::List(vec![Value::text(&"x".repeat(bytes)); n]);
        let map = Value::Map([("ab".to_owned(), texts(3, 5))].into());
        let size = Size::new(&Value::List(vec![map, Value::Int(1)]));
        assert_eq!(size, Size { items: 5, entries: 1, text_bytes: 17 });
        assert!(size.bytes() > 17);
        let limits = Limits { list_items: 10, text_bytes: 20, ..Limits::default() };
        let checked = |value: &Value| Size::new(value).check(&limits);
        assert_eq!([texts(10, 2), texts(4, 5)].map(|value| checked(&value)), [Ok(()), Ok(())]);
        assert!(checked(&texts(11, 0)).is_err_and(|why| why.starts_with("11 elements")));
        assert!(checked(&texts(3, 7)).is_err_and(|why| why.starts_with("21 bytes of text")));
    }
}
