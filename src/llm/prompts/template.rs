//! A prompt template: parses and checks its file, and renders its two parts (system and user).

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value as Shown,
    syntax::SyntaxConfig,
};
use serde_json::Value;

use crate::prompts::{Header, Output, PromptError};
use agent_ground::words::one_line;

/// Line before and after the header of a template.
const FENCE: &str = "+++";
/// Heading of the system part.
const SYSTEM: &str = "## system";
/// Heading of the user part.
const USER: &str = "## user";
/// Maximum depth of recursion of the template engine.
const MAX_DEPTH: usize = 64;

/// A parsed and checked template of a prompt.
pub(super) struct Template {
    pub(super) name: String,
    path: PathBuf,
    pub(super) header: Header,
    pub(super) schema: Option<Value>,
    /// Text of the system part, and the number (from 1) of the line at which it begins in the file;
    /// `user` holds the same for the user part.
    system: (String, usize),
    user: (String, usize),
}

/// Creates a template engine with the filters `data` and `line`. Undefined names are errors, and
/// nothing is escaped.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // Cannot fail with the default delimiters.
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_recursion_limit(MAX_DEPTH);
    environment.add_filter("data", data);
    environment.add_filter("line", one_line);
    environment
}

/// Puts a text between the marks `<data name="...">` and `</data>`; such marks in the text itself
/// are escaped.
fn data(text: &str, name: &str) -> String {
    let name: String = name.chars().filter(|c| *c != '"' && *c != '>').collect();
    format!("<data name=\"{name}\">\n{}\n</data>", unmarked(text.trim_end()))
}

/// Replaces every `<` that begins a mark such as `<data` or `</data` by `&lt;`, even if a few
/// slashes and spaces separate `<` from `data`.
fn unmarked(text: &str) -> String {
    const WORD: &str = "data";
    const MAX_HIDDEN: usize = 8;
    let mut cleaned = String::with_capacity(text.len());
    let mut parts = text.split('<');
    cleaned.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let shown = part.chars().take(MAX_HIDDEN + WORD.len());
        let word: String =
            shown.filter(|c| !c.is_whitespace() && *c != '/').take(WORD.len()).collect();
        cleaned.push_str(if word.eq_ignore_ascii_case(WORD) { "&lt;" } else { "<" });
        cleaned.push_str(part);
    }
    cleaned
}

impl Template {
    /// Parses and checks the text of the file at `path`, the template of the prompt `name`.
    ///
    /// # Errors
    /// [`PromptError::File`] with the line of the first error.
    pub(super) fn parse(name: &str, path: &Path, text: &str) -> Result<Template, PromptError> {
        let fail = |line: usize, message: String| {
            Err(PromptError::File { path: path.to_owned(), line, message })
        };
        let text = text.replace("\r\n", "\n");
        let lines: Vec<&str> = text.lines().collect();
        if lines.first() != Some(&FENCE) {
            return fail(1, format!("a prompt must begin with a header between two lines {FENCE}"));
        }
        let Some(end) = lines.iter().skip(1).position(|line| *line == FENCE).map(|at| at + 1)
        else {
            return fail(1, format!("the header has no end; close it with a line {FENCE}"));
        };
        let written = lines[1..end].join("\n");
        let header: Header = match toml::from_str(&written) {
            Ok(header) => header,
            Err(error) => {
                let before = error.span().and_then(|span| written.get(..span.start));
                let line = before.map_or(1, |before| before.matches('\n').count() + 2);
                return fail(line, error.message().to_owned());
            }
        };
        let place = |part: &str| lines.iter().position(|line| *line == part);
        let (Some(system), Some(user)) = (place(SYSTEM), place(USER)) else {
            return fail(end + 1, format!("a prompt must have a part {SYSTEM} and a part {USER}"));
        };
        if system < end || user < system {
            return fail(
                user + 1,
                format!("{SYSTEM} must follow the header, and {USER} must follow {SYSTEM}"),
            );
        }
        let part = |from: usize, to: usize| {
            let text = lines.get(from..to).unwrap_or_default().join("\n");
            // Keeps leading empty lines, so that lines of the part map to lines of the file.
            (text.trim_end().to_owned(), from + 1)
        };
        let schema = match header.schema.as_deref().map(serde_json::from_str::<Value>) {
            None => None,
            Some(Ok(schema)) => Some(schema),
            Some(Err(error)) => {
                let written = lines.iter().position(|line| line.starts_with("schema"));
                let line = written.map_or(1, |at| at + 1 + error.line());
                return fail(line, format!("the schema is not valid JSON: {error}"));
            }
        };
        let template = Template {
            name: name.to_owned(),
            path: path.to_owned(),
            system: part(system + 1, user),
            user: part(user + 1, lines.len()),
            schema,
            header,
        };
        template.check()?;
        Ok(template)
    }

    /// Checks that the header is consistent with itself and with the two parts.
    fn check(&self) -> Result<(), PromptError> {
        let fail =
            |line, message| Err(PromptError::File { path: self.path.clone(), line, message });
        if (self.header.output == Output::Json) != self.schema.is_some() {
            return fail(
                1,
                "output \"json\" needs a schema, and other outputs must not have one".to_owned(),
            );
        }
        for path in &self.header.shrink {
            let input = path.split('.').next().unwrap_or_default();
            if !self.header.inputs.contains_key(input) {
                return fail(1, format!("shrink names {path:?}, which is not an input"));
            }
        }
        let mut environment = environment();
        self.add_to(&mut environment)?;
        let mut used = BTreeSet::new();
        for name in [self.system_name(), self.user_name()] {
            if let Ok(part) = environment.get_template(&name) {
                used.extend(part.undeclared_variables(false));
            }
        }
        if let Some(unknown) = used.iter().find(|name| !self.header.inputs.contains_key(*name)) {
            return fail(
                self.line_with(unknown),
                format!("{unknown:?} is used but is not an input"),
            );
        }
        if let Some(unused) = self.header.inputs.keys().find(|name| !used.contains(*name)) {
            return fail(self.line_with(unused), format!("input {unused:?} is not used"));
        }
        Ok(())
    }

    /// Returns the number of the line in the file where a variable is probably first used; 1 if no
    /// line is found.
    fn line_with(&self, variable: &str) -> usize {
        let parts = [&self.system, &self.user];
        let found = parts.iter().find_map(|(text, first)| {
            let at = text.lines().position(|line| line.contains('{') && line.contains(variable))?;
            Some(first + at)
        });
        found.unwrap_or(1)
    }

    /// Adds both parts of the template to a template engine.
    ///
    /// # Errors
    /// [`PromptError::File`] with the line that does not parse.
    pub(super) fn add_to(&self, environment: &mut Environment<'static>) -> Result<(), PromptError> {
        for (name, (text, first)) in
            [(self.system_name(), &self.system), (self.user_name(), &self.user)]
        {
            environment.add_template_owned(name, text.clone()).map_err(|error| {
                let line = first + error.line().unwrap_or(1).saturating_sub(1);
                PromptError::File { path: self.path.clone(), line, message: message(&error) }
            })?;
        }
        Ok(())
    }

    /// Checks that this template may replace `other`: role, inputs, output and schema must be
    /// equal.
    ///
    /// # Errors
    /// [`PromptError::File`] if they differ.
    pub(super) fn check_replaces(&self, other: &Template) -> Result<(), PromptError> {
        let (mine, theirs) = (&self.header, &other.header);
        let names = |header: &Header| header.inputs.keys().cloned().collect::<Vec<_>>();
        let message = if mine.role != theirs.role {
            format!("the role is {:?}; it must be {:?}", mine.role, theirs.role)
        } else if names(mine) != names(theirs) {
            let (got, expected) = (names(mine).join(", "), names(theirs).join(", "));
            format!("the inputs are {got}; they must be {expected}")
        } else if mine.output != theirs.output {
            "the output differs from that of the built-in prompt; keep it".to_owned()
        } else if self.schema != other.schema {
            "the schema differs from that of the built-in prompt; keep it".to_owned()
        } else {
            return Ok(());
        };
        Err(PromptError::File { path: self.path.clone(), line: 1, message })
    }

    /// Renders the system part and the user part with these inputs.
    ///
    /// # Errors
    /// [`PromptError::Render`] if the template engine fails.
    pub(super) fn render(
        &self,
        environment: &Environment<'static>,
        inputs: &Value,
    ) -> Result<(String, String), PromptError> {
        let inputs = shown(inputs);
        let part = |name: &str| {
            let template = environment.get_template(name)?;
            Ok::<String, Error>(template.render(inputs.clone())?.trim().to_owned())
        };
        let both =
            part(&self.system_name()).and_then(|system| Ok((system, part(&self.user_name())?)));
        both.map_err(|error| PromptError::Render {
            prompt: self.name.clone(),
            message: message(&error),
        })
    }

    fn system_name(&self) -> String {
        format!("{} {SYSTEM}", self.name)
    }

    fn user_name(&self) -> String {
        format!("{} {USER}", self.name)
    }
}

/// Returns the message of an error of the template engine, on one line.
fn message(error: &Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.kind() {
        ErrorKind::UndefinedError => format!("{what}; an item of an input lacks a field"),
        _ => what,
    }
}

/// Converts a JSON value to a value of the template engine.
fn shown(value: &Value) -> Shown {
    match value {
        Value::Null => Shown::from(()),
        Value::Bool(truth) => Shown::from(*truth),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(integer), ..) => Shown::from(integer),
            (_, Some(integer), _) => Shown::from(integer),
            (_, _, float) => Shown::from(float.unwrap_or(f64::NAN)),
        },
        Value::String(text) => Shown::from(text.as_str()),
        Value::Array(values) => values.iter().map(shown).collect(),
        Value::Object(map) => {
            let entries = map.iter().map(|(name, value)| (name.clone(), shown(value)));
            Shown::from(entries.collect::<BTreeMap<String, Shown>>())
        }
    }
}
