//! Prompts for language models: templates in files, with declared inputs, an output form and an
//! enforced token budget.
//!
//! A file `agent-prompts/<role>/<name>.md` has a header in TOML between two lines `+++`, then a
//! part after the line `## system` and a part after the line `## user`. `agent-prompts/README.md`
//! describes the header. Templates are written in Jinja. Data passes through the filter `data`,
//! which marks its beginning and end, so that a model can distinguish instructions from data.

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

/// Estimated bytes per token; fewer than in English, so that estimates tend to be too high.
const BYTES_PER_TOKEN: u64 = 3;
/// Maximum size of a template file, bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// Maximum size of the inputs of one prompt, bytes; shortening more would take too long.
const MAX_INPUT_BYTES: usize = 16 << 20;
/// Maximum number of files in a directory of overrides.
const MAX_FILES: usize = 200;
/// File in a directory of overrides that is not a prompt.
const README: &str = "README.md";

/// Names and texts of the built-in templates.
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
    "react/results",
    "react/step",
    "rerank/score",
    "router/read",
    "synthesize/check",
    "synthesize/fuse",
    "synthesize/judge",
    "synthesize/properties",
    "synthesize/rewrite",
    "tools/check",
    "tools/classify",
    "tools/extract",
    "tools/parse_query",
    "tools/score",
    "tools/summarize",
];

/// A rendered prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Instructions.
    pub system: String,
    /// The question with its data.
    pub user: String,
    /// Name and JSON schema of the reply, if it must be JSON. The name has letters, digits and
    /// underscores only.
    pub schema: Option<(String, Value)>,
    /// Descriptions of the truncations that keep the budget, in order; also listed at the end of
    /// the question.
    pub left_out: Vec<String>,
}

/// Form of the reply to a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Prose.
    Text,
    /// One fenced program.
    Program,
    /// JSON that is valid by the prompt's schema.
    Json,
}

/// Header of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Description<'a> {
    /// The role that sends the prompt.
    pub role: &'a str,
    /// Purpose, in one sentence.
    pub purpose: &'a str,
    /// Form of the reply.
    pub output: Output,
    /// Descriptions of the inputs, by name.
    pub inputs: &'a BTreeMap<String, String>,
    /// Maximum number of estimated tokens of both parts and the schema together.
    pub budget_tokens: u64,
    /// Inputs that are truncated, in this order, when the budget is exceeded.
    pub shrink: &'a [String],
}

/// Errors of loading or rendering a prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// No prompt has that name.
    #[error("there is no prompt {0:?}")]
    Unknown(String),
    /// The inputs differ from the declared ones.
    #[error("prompt {prompt}: {problem}")]
    Inputs {
        /// The prompt.
        prompt: String,
        /// What is wrong with the inputs.
        problem: String,
    },
    /// The inputs exceed the budget even when truncated as far as allowed.
    #[error(
        "prompt {prompt} takes {tokens} tokens, more than {budget}, and input {input:?} cannot be \
         shortened further; give less of it"
    )]
    TooLong {
        /// The prompt.
        prompt: String,
        /// The longest input.
        input: String,
        /// Estimated tokens.
        tokens: u64,
        /// Maximum number of tokens.
        budget: u64,
    },
    /// The template cannot be rendered with these inputs.
    #[error("prompt {prompt} cannot be rendered: {message}")]
    Render {
        /// The prompt.
        prompt: String,
        /// The error of the template engine.
        message: String,
    },
    /// A file is not a template, or does not match the one that it replaces.
    #[error("{}:{line}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
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

    /// Parses the built-in templates, some replaced by the given texts.
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

    /// Returns the fingerprint of all templates in use: BLAKE3 of their names and texts,
    /// hexadecimal.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the names of all prompts, ascending.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.templates.keys().map(String::as_str)
    }

    /// Returns the header of a prompt.
    ///
    /// # Errors
    /// [`PromptError::Unknown`].
    pub fn describe(&self, name: &str) -> Result<Description<'_>, PromptError> {
        Ok(self.template(name)?.description())
    }

    /// Renders a prompt with its inputs, an object with exactly the declared names. If the estimate
    /// (three bytes per token) exceeds the budget, cuts the ends of the inputs listed in the
    /// header, one input after the other, as little as possible. Deterministic.
    ///
    /// # Errors
    /// [`PromptError`]; never [`PromptError::File`].
    pub fn render(&self, name: &str, inputs: Value) -> Result<Prompt, PromptError> {
        shrink::render(self.template(name)?, &self.environment, inputs)
    }

    fn template(&self, name: &str) -> Result<&Template, PromptError> {
        self.templates.get(name).ok_or_else(|| PromptError::Unknown(name.to_owned()))
    }
}

/// Estimates the tokens of a text, rather too high.
pub fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

fn file_error(path: &Path, error: &dyn std::error::Error) -> PromptError {
    PromptError::File {
        path: path.to_owned(),
        line: 1,
        message: format!("cannot be read: {error}"),
    }
}

/// Returns the files in a directory and its direct subdirectories, ordered by path, without its
/// `README.md` and without hidden files.
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
            let message = format!("{bytes} bytes are more than the {MAX_FILE_BYTES} of a template");
            return Err(PromptError::File { path: path.clone(), line: 1, message });
        }
    }
    Ok(files)
}
