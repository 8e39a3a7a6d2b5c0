//! Prompts for language models: templates in files, each with declared inputs, the form of the
//! reply, and a maximum number of tokens (the budget).
//!
//! A file `agent-prompts/<role>/<name>.md` begins with a header in TOML between two lines `+++`.
//! The system part follows the line `## system`, and the user part follows the line `## user`.
//! `agent-prompts/README.md` describes the header. Templates are written in Jinja. Data passes
//! through the filter `data`, which marks its beginning and end, so that a model can distinguish
//! instructions from data.

mod shrink;
mod template;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use minijinja::Environment;
use serde_json::Value;

use crate::prompts::template::{Template, environment};
use agent_ground::files;

/// Maximum size of a template file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// Maximum total size of the inputs of one prompt, in bytes; shortening larger inputs would take
/// too long.
const MAX_INPUT_BYTES: usize = 16 << 20;
/// Maximum number of files in a directory with replacements of built-in prompts.
const MAX_FILES: usize = 200;
/// Name of a file in a directory of replacements that is not a prompt and is ignored.
const README: &str = "README.md";

/// Expands to a list of built-in templates: pairs of name and text.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../agent-prompts/", $name, ".md")),
        )),*]
    };
}

const BUILT_IN: &[(&str, &str)] = built_in![
    "actor/improve",
    "actor/initial",
    "actor/mend",
    "answer/check",
    "answer/write",
    "ask/cells",
    "ask/plan",
    "categories/assign",
    "categories/discover",
    "comparator/contrast",
    "expand/analyze",
    "expand/generate",
    "expand/keywords",
    "expand/parse",
    "expand/refine",
    "lexicon/write",
    "react/results",
    "react/step",
    "rerank/score",
    "router/read",
    "synthesize/check",
    "synthesize/judge",
    "synthesize/rewrite",
    "synthesize/write",
    "tools/check",
    "tools/classify",
    "tools/extract",
    "tools/parse_query",
    "tools/score",
    "tools/summarize",
];

/// A rendered prompt, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Instructions for the model.
    pub system: String,
    /// The question with its data.
    pub user: String,
    /// Name and JSON schema of the reply; `None` if the reply need not be JSON. The name has only
    /// letters, digits and underscores.
    pub schema: Option<(String, Value)>,
    /// Descriptions of the truncations that keep the inputs within the budget, in order. The
    /// question lists them at its end.
    pub left_out: Vec<String>,
}

/// Form of the reply to a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Text in natural language.
    Text,
    /// A program in one fenced block.
    Program,
    /// A JSON value that follows the prompt's schema.
    Json,
}

/// What the header of a prompt declares.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The role that sends the prompt.
    pub role: String,
    /// Purpose of the prompt, in one sentence.
    pub purpose: String,
    /// Form of the reply.
    pub output: Output,
    /// Maximum estimated number of tokens of both parts and the schema together.
    pub budget_tokens: u64,
    /// Inputs that are truncated, in this order, if the budget is exceeded: the name of an input,
    /// or `input.field` for a field of each item of an input.
    #[serde(default)]
    pub shrink: Vec<String>,
    /// JSON schema of the reply, as text; `None` if the reply need not be JSON.
    schema: Option<String>,
    /// Description of each input, by the input's name.
    pub inputs: BTreeMap<String, String>,
}

/// Why a prompt cannot be loaded or rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// No prompt has the requested name; holds that name.
    #[error("there is no prompt {0:?}")]
    Unknown(String),
    /// The inputs differ from the declared inputs of the prompt, or are too long.
    #[error("prompt {prompt}: {problem}")]
    Inputs {
        /// Name of the prompt.
        prompt: String,
        /// What is wrong with the inputs.
        problem: String,
    },
    /// The inputs exceed the budget even when truncated as far as allowed.
    #[error(
        "prompt {prompt} has {tokens} tokens, above its budget of {budget}, and input {input:?} \
         cannot be cut further; give a shorter one"
    )]
    TooLong {
        /// Name of the prompt.
        prompt: String,
        /// Name of the longest input.
        input: String,
        /// Estimated number of tokens after truncation.
        tokens: u64,
        /// Maximum estimated number of tokens.
        budget: u64,
    },
    /// The template cannot be rendered with these inputs.
    #[error("prompt {prompt} cannot be rendered: {message}")]
    Render {
        /// Name of the prompt.
        prompt: String,
        /// Error message of the template engine.
        message: String,
    },
    /// A file is not a template, or does not match the built-in template that it replaces.
    #[error("{}:{line}: {message}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong and how to fix it.
        message: String,
    },
}

/// All prompts, ready to be rendered.
pub struct Prompts {
    templates: BTreeMap<String, Template>,
    environment: Environment<'static>,
    fingerprint: String,
}

impl Prompts {
    /// Loads the built-in prompts.
    ///
    /// # Errors
    /// Does not fail in practice: a test renders all built-in prompts.
    pub fn built_in() -> Result<Prompts, PromptError> {
        Self::of(BTreeMap::new())
    }

    /// Loads the built-in prompts and replaces some by the files `<role>/<name>.md` of a directory.
    /// A replacement must have the same role, inputs, output and schema; its text, budget and order
    /// of truncation may differ. At most 200 files of at most 64 KiB each.
    ///
    /// # Errors
    /// [`PromptError::File`] for a file that cannot be read or parsed, is not a known prompt, or
    /// differs in a part that must be the same.
    pub fn with_overrides(dir: &Path) -> Result<Prompts, PromptError> {
        let mut texts = BTreeMap::new();
        for path in files_below(dir)? {
            let relative = path.strip_prefix(dir).unwrap_or(&path).with_extension("");
            let name = relative.to_string_lossy().replace('\\', "/");
            let is_prompt = path.extension().is_some_and(|suffix| suffix == "md");
            if !is_prompt || !BUILT_IN.iter().any(|(known, _)| *known == name) {
                let known: Vec<&str> = BUILT_IN.iter().map(|(known, _)| *known).collect();
                let message = format!("there is no such prompt; use one of: {}", known.join(", "));
                return Err(PromptError::File { path, line: 1, message });
            }
            let text = files::read_text(&path, MAX_FILE_BYTES)
                .map_err(|error| file_error(&path, &error))?;
            texts.insert(name, (path, text));
        }
        Self::of(texts)
    }

    /// Parses the built-in templates; `overrides` holds the path and text of the file that replaces
    /// a template, by the name of the prompt.
    fn of(mut overrides: BTreeMap<String, (PathBuf, String)>) -> Result<Prompts, PromptError> {
        let mut environment = environment();
        let mut templates = BTreeMap::new();
        let mut hasher = blake3::Hasher::new();
        for &(name, built_in) in BUILT_IN {
            let place = PathBuf::from(format!("agent-prompts/{name}.md"));
            let mut template = Template::parse(name, &place, built_in)?;
            let mut text = built_in.to_owned();
            if let Some((path, replacing)) = overrides.remove(name) {
                let replacement = Template::parse(name, &path, &replacing)?;
                replacement.check_replaces(&template)?;
                (template, text) = (replacement, replacing);
            }
            template.add_to(&mut environment)?;
            for part in [name, &text] {
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
            }
            templates.insert(name.to_owned(), template);
        }
        let fingerprint = hasher.finalize().to_hex().to_string();
        Ok(Prompts { templates, environment, fingerprint })
    }

    /// Returns the fingerprint of all templates in use: a BLAKE3 digest of their names and texts,
    /// in hexadecimal digits.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the names of all prompts, ascending.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.templates.keys().map(String::as_str)
    }

    /// Returns the header of the prompt with this name.
    ///
    /// # Errors
    /// [`PromptError::Unknown`] if there is no such prompt.
    pub fn describe(&self, name: &str) -> Result<&Header, PromptError> {
        Ok(&self.template(name)?.header)
    }

    /// Renders a prompt; `inputs` is an object with exactly the declared names. If the estimated
    /// number of tokens (one per three bytes) exceeds the budget, cuts off the ends of the inputs
    /// in the header's list `shrink`: one input after the other, as little as possible. The same
    /// inputs always give the same prompt.
    ///
    /// # Errors
    /// [`PromptError::Unknown`], [`PromptError::Inputs`], [`PromptError::TooLong`] if the inputs
    /// cannot be cut enough, or [`PromptError::Render`].
    pub fn render(&self, name: &str, inputs: Value) -> Result<Prompt, PromptError> {
        shrink::render(self.template(name)?, &self.environment, inputs)
    }

    fn template(&self, name: &str) -> Result<&Template, PromptError> {
        self.templates.get(name).ok_or_else(|| PromptError::Unknown(name.to_owned()))
    }
}

fn file_error(path: &Path, error: &dyn std::error::Error) -> PromptError {
    PromptError::File {
        path: path.to_owned(),
        line: 1,
        message: format!("cannot be read: {error}"),
    }
}

/// Returns the paths of the files in `dir` and its direct subdirectories, sorted, without
/// `dir/README.md` and without hidden files.
fn files_below(dir: &Path) -> Result<Vec<PathBuf>, PromptError> {
    let mut files = Vec::new();
    let mut folders = vec![(dir.to_owned(), true)];
    while let Some((folder, may_have_folders)) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| file_error(&folder, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| file_error(&folder, &error))?;
            let (path, name) = (entry.path(), entry.file_name());
            if name.to_string_lossy().starts_with('.') || (may_have_folders && name == README) {
                continue;
            }
            if may_have_folders && path.is_dir() {
                folders.push((path, false));
            } else {
                files.push(path);
            }
            if files.len() + folders.len() > MAX_FILES {
                let message = format!(
                    "there are more than {MAX_FILES} files; name a directory \
                                       that holds prompts only"
                );
                return Err(PromptError::File { path: dir.to_owned(), line: 1, message });
            }
        }
    }
    files.sort();
    for path in &files {
        let bytes = fs::metadata(path).map_err(|error| file_error(path, &error))?.len();
        if bytes > MAX_FILE_BYTES {
            let message =
                format!("a template of {bytes} bytes exceeds the limit of {MAX_FILE_BYTES}");
            return Err(PromptError::File { path: path.clone(), line: 1, message });
        }
    }
    Ok(files)
}
