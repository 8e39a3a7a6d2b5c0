//! What a program is: source text, its identity, and what its first lines say about it.
//!
//! Must not know how programs run. Values found by a tuner are kept outside the source, so that
//! the same program with other numbers keeps its identity.
//!
//! ```text
//! //! category: products of a brand with a feature
//! //! Finds the brand, then ranks its products by the feature.
//! fn params() { ... }
//! fn retrieve(query, candidates, params) { ... }
//! ```

use serde::{Deserialize, Serialize};

/// Longest category name, bytes; what is longer is cut.
pub const CATEGORY_BYTES: usize = 200;
/// Longest description, bytes; what is longer is cut.
pub const DESCRIPTION_BYTES: usize = 2_000;

/// The source of a retrieval program. Equal sources are equal programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Program {
    source: String,
    id: String,
    category: Option<String>,
    description: String,
}

impl Program {
    /// A program from its source. Line ends become `\n`, so that the identity does not depend on
    /// the platform.
    pub fn new(source: &str) -> Self {
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let id = blake3::hash(source.as_bytes()).to_hex().to_string();
        let (category, description) = read_header(&source);
        Self { source, id, category, description }
    }

    /// The source text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The BLAKE3 hash of the source, 64 hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The first twelve digits of the identity, for people.
    pub fn short_id(&self) -> &str {
        &self.id[..12]
    }

    /// The kind of queries it answers, from the line `//! category: ...`.
    pub fn category(&self) -> Option<&str> {
        self.category.as_deref()
    }

    /// The other leading `//!` lines; empty when there are none.
    pub fn description(&self) -> &str {
        &self.description
    }
}

impl From<String> for Program {
    fn from(source: String) -> Self {
        Self::new(&source)
    }
}

impl From<Program> for String {
    fn from(program: Program) -> Self {
        program.source
    }
}

/// Category and description from the leading `//!` lines.
fn read_header(source: &str) -> (Option<String>, String) {
    let mut category = None;
    let mut description = String::new();
    let lines = source.trim_start_matches('\u{feff}').lines().map(str::trim);
    for line in lines.skip_while(|line| line.is_empty()) {
        let Some(text) = line.strip_prefix("//!").map(str::trim) else { break };
        match text.strip_prefix("category:").map(str::trim) {
            Some(name) if category.is_none() && !name.is_empty() => {
                category = Some(cut(name, CATEGORY_BYTES).to_owned());
            }
            _ => {
                if !description.is_empty() {
                    description.push('\n');
                }
                description.push_str(text);
            }
        }
    }
    let description = cut(description.trim(), DESCRIPTION_BYTES).to_owned();
    (category, description)
}

/// The longest beginning of a text within a number of bytes.
fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::{CATEGORY_BYTES, Program};

    #[test]
    fn the_header_ends_with_the_first_line_of_code() {
        let program = Program::new(
            "\n//! category: brands: with features\n//! Finds the brand.\n//! Then ranks.\nfn x() {}\n//! category: no\n",
        );
        assert_eq!(program.category(), Some("brands: with features"));
        assert_eq!(program.description(), "Finds the brand.\nThen ranks.");
        assert_eq!(Program::new("fn x() {}").category(), None);
    }

    #[test]
    fn identity_is_the_source_whatever_its_line_ends() {
        let program = Program::new("a\nb");
        assert_eq!(program.id(), blake3::hash(b"a\nb").to_hex().as_str());
        assert_eq!(program, Program::new("a\r\nb"));
        assert_eq!(Program::new("a\r\r\nb"), Program::new("a\n\nb"));
        assert_ne!(program.id(), Program::new("a\nb ").id());
        let json = serde_json::to_string(&program).expect("json");
        assert_eq!(serde_json::from_str::<Program>(&json).expect("json"), program);
    }

    #[test]
    fn a_long_category_is_cut_at_a_character() {
        let program = Program::new(&format!("//! category: x{}", "é".repeat(CATEGORY_BYTES)));
        assert_eq!(program.category().map(str::len), Some(CATEGORY_BYTES - 1));
    }
}
