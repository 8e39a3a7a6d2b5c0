//! Checks the names in a settings file before the file is parsed, and reports unknown names and
//! values that look like API keys, with their line numbers.

use std::{collections::BTreeMap, ops::Range};

use toml::de::{DeTable, DeValue};

use crate::{RoleSpec, settings::SettingsError};
use agent_ground::words::nearest;

/// Parameters of requests that the setting `parameters` of a role must not contain, because other
/// settings or the program determine them.
pub(super) const OWN_PARAMETERS: [&str; 11] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "n",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "response_format",
    "tools",
    "functions",
];
/// Maximum edit distance between an unknown name of a setting and the known name that the error
/// suggests.
const MAX_DISTANCE: usize = 2;

/// Expected shape of a value in the settings file.
enum Shape {
    /// Any value except a table.
    Value,
    /// A table with any names, whose values are not tables.
    Free,
    /// A table with only these names: names of values, separated by spaces, and names of tables,
    /// each with its shape.
    Table(&'static str, &'static [(&'static str, Shape)]),
    /// A table with any names; each value has this shape.
    Each(&'static Shape),
    /// A table whose names are roles; each value has this shape.
    Roles(&'static Shape),
}

const FILE: Shape = Shape::Table("", &[("llm", LLM), ("embedders", Shape::Each(&EMBEDDER))]);
const LLM: Shape = Shape::Table(
    "base_url model key_env key_header organisation project json token_limit unusable_retries",
    &[
        ("headers", Shape::Free),
        ("query", Shape::Free),
        ("limits", LIMITS),
        ("roles", Shape::Roles(&ROLE)),
        ("prices", Shape::Each(&PRICE)),
    ],
);
const LIMITS: Shape = Shape::Table(
    "connect_s first_byte_s idle_s attempt_s total_s first_wait_s longest_wait_s attempts \
     at_a_time failures_in_a_row reply_bytes requests_per_minute tokens_per_minute",
    &[],
);
const ROLE: Shape = Shape::Table("model temperature max_tokens", &[("parameters", Shape::Free)]);
const EMBEDDER: Shape =
    Shape::Table("model query_prefix document_prefix normalize dimensions", &[]);
const PRICE: Shape = Shape::Table("input output", &[]);

/// Line number of each setting in a file, by the setting's full name, such as `llm.model`.
pub(super) struct Lines {
    file: String,
    lines: BTreeMap<String, usize>,
}

impl Lines {
    /// Checks the value of the setting with the full name `key`: `holds` states whether the value
    /// is allowed, and `expected` describes the allowed values.
    ///
    /// # Errors
    /// [`SettingsError::Value`] if `holds` is `false`.
    pub(super) fn require(
        &self,
        holds: bool,
        key: &str,
        expected: &str,
    ) -> Result<(), SettingsError> {
        if holds {
            return Ok(());
        }
        Err(SettingsError::Value {
            file: self.file.clone(),
            line: self.lines.get(key).copied().unwrap_or(1),
            key: key.to_owned(),
            expected: expected.to_owned(),
        })
    }
}

/// Converts an error of the TOML parser to [`SettingsError::Syntax`]; the message does not repeat
/// values of the file.
pub(super) fn syntax(error: &toml::de::Error, text: &str, file: &str) -> SettingsError {
    let message = error.message().replace('\n', "; ");
    // The parser's message repeats a value of the wrong type, which may be a misplaced API key.
    let repeats = ["string \"", "unknown variant `", "integer `", "floating point `"];
    let message = match repeats.iter().find_map(|start| message.split_once(start)) {
        Some((before, rest)) => match rest.rsplit_once("expected ") {
            Some((_, expected)) => format!("{before}the value is wrong, expected {expected}"),
            None => "a value is wrong".to_owned(),
        },
        None => message,
    };
    let line = error.span().map_or(1, |span| line_of(text, &span));
    SettingsError::Syntax { file: file.to_owned(), line, message }
}

/// Checks that all settings in a file exist and that no value looks like an API key; only `roles`
/// may have settings. Returns the line number of each setting.
///
/// # Errors
/// [`SettingsError::Syntax`] if the text is not TOML; [`SettingsError::Unknown`] for a setting that
/// does not exist; [`SettingsError::Secret`] for a value that looks like an API key.
pub(super) fn names(text: &str, file: &str, roles: &[RoleSpec]) -> Result<Lines, SettingsError> {
    let table = DeTable::parse(text).map_err(|error| syntax(&error, text, file))?;
    let lines = Lines { file: file.to_owned(), lines: BTreeMap::new() };
    let roles = roles.iter().map(|spec| spec.name).collect();
    let mut visitor = Visitor { text, roles, lines };
    visitor.table("", table.get_ref(), &FILE)?;
    Ok(visitor.lines)
}

struct Visitor<'a> {
    text: &'a str,
    /// Names of the roles that may have settings.
    roles: Vec<&'a str>,
    lines: Lines,
}

impl Visitor<'_> {
    fn table(
        &mut self,
        above: &str,
        table: &DeTable<'_>,
        shape: &Shape,
    ) -> Result<(), SettingsError> {
        // In file order, so that the first error is reported.
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_unstable_by_key(|(name, _)| name.span().start);
        for (name, value) in entries {
            let line = line_of(self.text, &name.span());
            let name: &str = name.get_ref();
            let key = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
            self.lines.lines.insert(key.clone(), line);
            self.entry(&key, name, line, value.get_ref(), shape)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        key: &str,
        name: &str,
        line: usize,
        value: &DeValue<'_>,
        shape: &Shape,
    ) -> Result<(), SettingsError> {
        let file = self.lines.file.clone();
        let (known, inner): (Vec<&str>, Option<&Shape>) = match shape {
            Shape::Value => (Vec::new(), None),
            Shape::Free => (vec![name], Some(&Shape::Value)),
            Shape::Each(inner) => (vec![name], Some(inner)),
            Shape::Table(values, tables) => {
                let values = values.split_whitespace().map(|known| (known, &Shape::Value));
                let tables = tables.iter().map(|(known, shape)| (*known, shape));
                let (known, shapes): (Vec<&str>, Vec<&Shape>) = values.chain(tables).unzip();
                let inner = known.iter().position(|known| *known == name).map(|at| shapes[at]);
                (known, inner)
            }
            Shape::Roles(inner) => {
                (self.roles.clone(), self.roles.contains(&name).then_some(*inner))
            }
        };
        let is_named = matches!(shape, Shape::Free) || inner.is_none();
        if is_named && is_name_of_secret(name) || holds_secret(value) {
            return Err(SettingsError::Secret { file, line, key: key.to_owned() });
        }
        let Some(inner) = inner else {
            let nearest = nearest(name, known, MAX_DISTANCE).map(str::to_owned);
            return Err(SettingsError::Unknown { file, line, key: key.to_owned(), nearest });
        };
        match (value, inner) {
            (DeValue::Table(_), Shape::Value) => Ok(()),
            (DeValue::Table(table), inner) => self.table(key, table, inner),
            // The parser checks the type.
            _ => Ok(()),
        }
    }
}

/// Returns the number (from 1) of the line of `text` in which a range of bytes starts.
fn line_of(text: &str, span: &Range<usize>) -> usize {
    let before = text.as_bytes().get(..span.start).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Whether a setting of this name usually holds a secret.
fn is_name_of_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let whole = ["key", "token", "auth", "authorization", "bearer", "password", "code"];
    let parts = ["api_key", "apikey", "secret", "access_token", "auth_token", "access_key"];
    whole.contains(&name.as_str()) || parts.iter().any(|part| name.contains(part))
}

/// Whether a value looks like an API key: a text of 8 bytes or more that begins with `sk-` or
/// `Bearer `, also in a list or directly in a table.
fn holds_secret(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::String(text) => {
            let text = text.trim();
            text.len() >= 8 && (text.starts_with("sk-") || text.starts_with("Bearer "))
        }
        DeValue::Array(items) => items.iter().any(|item| holds_secret(item.get_ref())),
        // Nested tables are checked on their own.
        DeValue::Table(table) => table.iter().any(|(_, value)| {
            !matches!(value.get_ref(), DeValue::Table(_)) && holds_secret(value.get_ref())
        }),
        _ => false,
    }
}
