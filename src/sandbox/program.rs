//! Programs: source text or a module, with an id and a header. Tuned parameter values are stored
//! outside the source, so that tuning does not change the id.
//!
//! ```text
//! //! category: products of a brand with a feature
//! //! Finds the brand, then ranks its products by the feature.
//! fn params() { ... }
//! fn retrieve(query, candidates, params) { ... }
//! ```
//!
//! A WebAssembly module is stored as text too, `wasm:` followed by its bytes in base64, so that
//! bundles and journals store all programs alike. The header of a module is the text of its custom
//! section `agent`.

use std::{borrow::Cow, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

use crate::{Code, is_module, module_header};
use agent_tools::source::comment;

/// Prefix of the text form of a module.
const MODULE: &str = "wasm:";
/// Maximum length of a category name, in bytes; longer names are cut.
pub const CATEGORY_BYTES: usize = 200;
/// Maximum length of a description, in bytes; longer descriptions are cut.
pub const DESCRIPTION_BYTES: usize = 2_000;

/// A retrieval program. Two programs are equal if their sources, or their modules, are equal.
///
/// ```
/// use agent::program::Program;
///
/// let source = "//! category: by words\nfn retrieve(query, candidates, params) { candidates }";
/// let program = Program::new(source);
/// assert_eq!(program.category(), Some("by words"));
/// // Line ends do not change the identity.
/// assert_eq!(program.id(), Program::new(&source.replace('\n', "\r\n")).id());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Program {
    source: String,
    module: Option<Arc<[u8]>>,
    id: String,
    category: Option<String>,
    description: String,
}

impl Program {
    /// Creates a program from its source, or from the text form of a module. Line ends become line
    /// feeds, so that the id does not depend on the platform.
    pub fn new(source: &str) -> Self {
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let module = source
            .strip_prefix(MODULE)
            .and_then(|text| BASE64_STANDARD.decode(text.trim_end()).ok());
        if let Some(module) = module.filter(|bytes| is_module(bytes)) {
            return Self::module(&module);
        }
        let id = blake3::hash(source.as_bytes()).to_hex().to_string();
        let (category, description) = read_header(&source);
        Self { source, module: None, id, category, description }
    }

    /// Creates a program from the bytes of a WebAssembly module; only the sandbox checks whether
    /// the module is valid.
    pub fn module(bytes: &[u8]) -> Self {
        let source = format!("{MODULE}{}", BASE64_STANDARD.encode(bytes));
        let id = blake3::hash(bytes).to_hex().to_string();
        let (category, description) = read_header(module_header(bytes).unwrap_or(""));
        Self { source, module: Some(bytes.into()), id, category, description }
    }

    /// Returns the code of the program, as the sandbox takes it.
    pub fn code(&self) -> Code<'_> {
        match &self.module {
            Some(bytes) => Code::Wasm(bytes),
            None => Code::Rhai(&self.source),
        }
    }

    /// Whether the program is a WebAssembly module.
    pub fn is_module(&self) -> bool {
        self.module.is_some()
    }

    /// Returns a readable form: the source; or for a module, its header, size and id as comments.
    pub fn listing(&self) -> Cow<'_, str> {
        let Some(module) = &self.module else { return Cow::Borrowed(&self.source) };
        let category =
            self.category.iter().map(|name| format!("//! category: {}\n", comment(name)));
        let description = self.description.lines().map(|line| format!("//! {}\n", comment(line)));
        let header: String = category.chain(description).collect();
        let size = module.len();
        Cow::Owned(format!("{header}// a module of WebAssembly, {size} bytes, {}\n", self.id))
    }

    /// Returns the source text; for a module, `wasm:` and its bytes in base64.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the id: the BLAKE3 hash of the source, or of the module's bytes, as 64 hexadecimal
    /// digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the first twelve hexadecimal digits of the id.
    pub fn short_id(&self) -> &str {
        &self.id[..12]
    }

    /// Returns the query category that the program is for, from its header line
    /// `//! category: ...`.
    pub fn category(&self) -> Option<&str> {
        self.category.as_deref()
    }

    /// Returns the description: the text of the other `//!` lines of the header; empty if there are
    /// none.
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

/// Returns the category and the description in the `//!` lines at the start of a source.
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

/// Returns the longest prefix of `text` that has at most `bytes` bytes.
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
    use crate::Code;

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
    fn a_module_is_its_bytes_in_whatever_form() {
        let text = "(module (@custom \"agent\" \"//! category: by hand\\n//! Ranks.\"))";
        let bytes = wat::parse_str(text).expect("a module");
        let program = Program::module(&bytes);
        assert_eq!(program.id(), blake3::hash(&bytes).to_hex().as_str());
        assert_eq!((program.category(), program.description()), (Some("by hand"), "Ranks."));
        assert!(matches!(program.code(), Code::Wasm(code) if code == bytes));
        assert!(program.is_module());
        let shown = format!(
            "//! category: by hand\n//! Ranks.\n// a module of WebAssembly, {} bytes, {}\n",
            bytes.len(),
            program.id()
        );
        assert_eq!(program.listing(), shown);
        let json = serde_json::to_string(&program).expect("json");
        assert_eq!(serde_json::from_str::<Program>(&json).expect("json"), program);
        // Text that is not the form of a module is a source, even with the prefix.
        for text in ["wasm:", "wasm:AA==", "wasm:?"] {
            assert!(matches!(Program::new(text).code(), Code::Rhai(source) if source == text));
        }
    }

    #[test]
    fn a_long_category_is_cut_at_a_character() {
        let program = Program::new(&format!("//! category: x{}", "é".repeat(CATEGORY_BYTES)));
        assert_eq!(program.category().map(str::len), Some(CATEGORY_BYTES - 1));
    }
}
