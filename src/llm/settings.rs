//! Reads the user's settings file (TOML): address, account, limits, roles and prices of language
//! models, and named embedders. A file that contains an API key is refused.

mod check;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    Role, RoleSettings, RoleSpec,
    ledger::Price,
    openai::{Form, JsonForm, TokenLimit},
    settings::check::Lines,
};
use agent_remote::Limits;

/// Maximum size of a settings file, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// Maximum length in bytes of the text that an embedder puts before queries or documents.
const MAX_PREFIX_BYTES: usize = 4 << 10;
/// Maximum number of dimensions of an embedder's vectors.
const MAX_DIMENSIONS: u32 = 16_384;
/// Maximum length of a model's name, in characters.
const MAX_NAME_CHARS: usize = 200;
/// Default maximum size of a reply of a language model, in bytes.
const REPLY_BYTES: usize = 8 << 20;
/// Largest value of the setting `reply_bytes`, in bytes; parsing a reply takes several times its
/// size in memory.
const MAX_REPLY_BYTES: usize = 16 << 20;

/// Why a settings file is refused. Messages never show a value that may be an API key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The file is larger than [`MAX_FILE_BYTES`].
    #[error("{file} has more than {MAX_FILE_BYTES} bytes")]
    TooLong {
        /// Name of the file.
        file: String,
    },
    /// The file is not valid TOML, or a value has the wrong type.
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// Name of the file.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with the line.
        message: String,
    },
    /// The file contains a setting that does not exist.
    #[error("{file}:{line}: there is no setting {key}{}", did_you_mean(.nearest))]
    Unknown {
        /// Name of the file.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// Full name of the setting, such as `llm.model`.
        key: String,
        /// Most similar name of an existing setting; `None` if no name is similar.
        nearest: Option<String>,
    },
    /// A value looks like an API key.
    #[error(
        "{file}:{line}: {key} looks like an API key, which a settings file must not contain; remove it \
         and set OPENAI_API_KEY (AZURE_OPENAI_API_KEY for Azure), or the variable that key_env \
         names, in the environment"
    )]
    Secret {
        /// Name of the file.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// Full name of the setting, such as `llm.model`.
        key: String,
    },
    /// A value is out of its range.
    #[error("{file}:{line}: {key} must be {expected}")]
    Value {
        /// Name of the file.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// Full name of the setting, such as `llm.model`.
        key: String,
        /// Description of the allowed values, with the unit.
        expected: String,
    },
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// Settings of language models and embedders; settings that the file omits have their defaults.
#[derive(Clone, PartialEq)]
pub struct Settings {
    /// The table `[llm]` of the file.
    pub llm: LlmFile,
    /// Deadlines, retries, sizes and rates of requests.
    pub limits: Limits,
    /// How requests are written for the server.
    pub form: Form,
    /// Settings of each embedder, by the name that `--embedder` accepts.
    pub embedders: BTreeMap<String, EmbedderSettings>,
}

/// Settings of one embedder, from the table `[embedders.NAME]` of the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbedderSettings {
    /// Model of the embedder: `candle:DIR` or `openai:MODEL`.
    pub model: String,
    /// Text put before every query; `None`: the model's own prefix, if any.
    pub query_prefix: Option<String>,
    /// Text put before every document; `None`: the model's own prefix, if any.
    pub document_prefix: Option<String>,
    /// Whether vectors are scaled to norm 1; `None`: yes.
    pub normalize: Option<bool>,
    /// Length of vectors to request from a service; `None`: the default length of the model.
    pub dimensions: Option<u32>,
}

/// Leaves out private values: address, key settings, organisation, project, headers and query
/// parameters.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("model", &self.llm.model)
            .field("limits", &self.limits)
            .field("form", &self.form)
            .field("prices", &self.llm.prices)
            .field("roles", &self.llm.roles)
            .field("embedders", &self.embedders)
            .finish_non_exhaustive()
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            llm: LlmFile::default(),
            limits: default_limits(),
            form: Form::default(),
            embedders: BTreeMap::new(),
        }
    }
}

/// Returns the default limits of requests to language models, which may reason for minutes before
/// they answer.
fn default_limits() -> Limits {
    Limits {
        first_byte: Duration::from_secs(300),
        attempt: Duration::from_secs(300),
        total: Duration::from_secs(900),
        attempts: 10,
        reply_bytes: REPLY_BYTES,
        ..Limits::default()
    }
}

impl Settings {
    /// Parses the text of a settings file; `file` is the name of the file in messages. Only `roles`
    /// may have settings in the file.
    ///
    /// # Errors
    /// [`SettingsError`] for the first error found.
    pub fn read(text: &str, file: &str, roles: &[RoleSpec]) -> Result<Settings, SettingsError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(SettingsError::TooLong { file: file.to_owned() });
        }
        let lines = check::names(text, file, roles)?;
        let File { llm, embedders } =
            toml::from_str(text).map_err(|error| check::syntax(&error, text, file))?;
        let limits = llm.limits.checked(&lines)?;
        for (role, settings) in &llm.roles {
            settings.check(role, &lines)?;
        }
        for (name, settings) in &embedders {
            settings.check(name, &lines)?;
        }
        for (model, price) in &llm.prices {
            for (name, usd) in [("input", price.input), ("output", price.output)] {
                let is_price = usd.is_finite() && usd >= 0.0;
                let expected = "USD per million tokens, 0 or more";
                lines.require(is_price, &format!("llm.prices.{model}.{name}"), expected)?;
            }
        }
        let models =
            llm.roles.iter().map(|(role, set)| (format!("llm.roles.{role}.model"), &set.model));
        for (name, model) in models.chain([("llm.model".to_owned(), &llm.model)]) {
            let is_name = |model: &String| {
                (1..=MAX_NAME_CHARS).contains(&model.chars().count())
                    && !model.chars().any(char::is_control)
            };
            let expected = format!("a name of 1 to {MAX_NAME_CHARS} characters");
            lines.require(model.as_ref().is_none_or(is_name), &name, &expected)?;
        }
        let retries = llm.unusable_retries.unwrap_or(Form::default().unusable_retries);
        lines.require(retries <= 10, "llm.unusable_retries", "0 to 10")?;
        let form = Form { json: llm.json, token_limit: llm.token_limit, unusable_retries: retries };
        Ok(Settings { llm, limits, form, embedders })
    }

    /// Returns the settings with which each role sends its requests; settings that the file omits
    /// have the defaults of the role. A role without a model in the file uses `model` or, if that
    /// is `None`, the file's default model.
    ///
    /// # Errors
    /// If some roles have no model: these roles, in the order of `specs`.
    pub fn role_settings(
        &self,
        model: Option<&str>,
        specs: &[RoleSpec],
    ) -> Result<HashMap<Role, RoleSettings>, Vec<Role>> {
        let general = model.or(self.llm.model.as_deref());
        let nothing = RoleFile::default();
        let mut roles = HashMap::new();
        let mut missing = Vec::new();
        for spec in specs {
            let role = spec.role();
            let set = self.llm.roles.get(&role).unwrap_or(&nothing);
            match set.model.as_deref().or(general) {
                Some(model) => drop(roles.insert(role, set.or(spec, model))),
                None => missing.push(role),
            }
        }
        if missing.is_empty() { Ok(roles) } else { Err(missing) }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    llm: LlmFile,
    embedders: BTreeMap<String, EmbedderSettings>,
}

impl EmbedderSettings {
    fn check(&self, name: &str, lines: &Lines) -> Result<(), SettingsError> {
        let above = format!("embedders.{name}");
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_name = !name.is_empty() && name != "builtin" && name.chars().all(plain);
        let expected = "named with letters, digits, -, _ and ., and not \"builtin\"";
        lines.require(is_name, &above, expected)?;
        let kind = self.model.split_once(':').filter(|(_, model)| !model.is_empty());
        let kind = kind.map(|(kind, _)| kind);
        let is_model = matches!(kind, Some("candle" | "openai"));
        lines.require(is_model, &format!("{above}.model"), "\"candle:DIR\" or \"openai:MODEL\"")?;
        let prefixes =
            [("query_prefix", &self.query_prefix), ("document_prefix", &self.document_prefix)];
        for (setting, prefix) in prefixes {
            let fits = prefix.as_ref().is_none_or(|prefix| prefix.len() <= MAX_PREFIX_BYTES);
            let expected = format!("a text of at most {MAX_PREFIX_BYTES} bytes");
            lines.require(fits, &format!("{above}.{setting}"), &expected)?;
        }
        let fits = self
            .dimensions
            .is_none_or(|n| kind == Some("openai") && (1..=MAX_DIMENSIONS).contains(&n));
        let expected = format!(
            "a number from 1 to {MAX_DIMENSIONS}, and left out unless the model is openai:MODEL"
        );
        lines.require(fits, &format!("{above}.dimensions"), &expected)
    }
}

/// The table `[llm]` of a settings file. Does not implement `Debug`, because it has private values.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LlmFile {
    /// Address of the service, such as `https://api.openai.com/v1`.
    pub base_url: Option<String>,
    /// Name of the default model, for roles without a model of their own.
    pub model: Option<String>,
    /// Name of the environment variable that holds the API key.
    pub key_env: Option<String>,
    /// Name of the header that sends the API key, instead of `Authorization: Bearer`.
    pub key_header: Option<String>,
    /// Organisation that the service charges.
    pub organisation: Option<String>,
    /// Project that the service charges.
    pub project: Option<String>,
    json: Option<JsonForm>,
    token_limit: Option<TokenLimit>,
    unusable_retries: Option<u32>,
    /// Further headers of every request, by name.
    pub headers: BTreeMap<String, String>,
    /// Query parameters of the address of every request, by name.
    pub query: BTreeMap<String, String>,
    limits: LimitsFile,
    roles: BTreeMap<Role, RoleFile>,
    /// Price of each model, by the model's name.
    pub prices: BTreeMap<String, Price>,
}

#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsFile {
    connect_s: Option<f64>,
    first_byte_s: Option<f64>,
    idle_s: Option<f64>,
    attempt_s: Option<f64>,
    total_s: Option<f64>,
    first_wait_s: Option<f64>,
    longest_wait_s: Option<f64>,
    attempts: Option<u32>,
    at_a_time: Option<usize>,
    failures_in_a_row: Option<u32>,
    reply_bytes: Option<usize>,
    requests_per_minute: Option<u32>,
    tokens_per_minute: Option<u64>,
}

impl LimitsFile {
    fn checked(&self, lines: &Lines) -> Result<Limits, SettingsError> {
        let mut limits = default_limits();
        for (name, set, time) in [
            ("connect_s", self.connect_s, &mut limits.connect),
            ("first_byte_s", self.first_byte_s, &mut limits.first_byte),
            ("idle_s", self.idle_s, &mut limits.idle),
            ("attempt_s", self.attempt_s, &mut limits.attempt),
            ("total_s", self.total_s, &mut limits.total),
            ("first_wait_s", self.first_wait_s, &mut limits.first_wait),
            ("longest_wait_s", self.longest_wait_s, &mut limits.longest_wait),
        ] {
            let Some(seconds) = set else { continue };
            let is_time = (0.001..=86_400.0).contains(&seconds);
            let expected = "a time from 0.001 to 86400 seconds";
            lines.require(is_time, &format!("llm.limits.{name}"), expected)?;
            *time = Duration::from_secs_f64(seconds);
        }
        let count = |name: &str, set: Option<u64>, most: u64| {
            let is_count = set.is_none_or(|count| (1..=most).contains(&count));
            let name = format!("llm.limits.{name}");
            lines.require(is_count, &name, &format!("a number from 1 to {most}"))
        };
        let (at_a_time, reply_bytes) = (self.at_a_time, self.reply_bytes);
        count("attempts", self.attempts.map(u64::from), 100)?;
        count("at_a_time", at_a_time.map(|n| n as u64), 256)?;
        count("failures_in_a_row", self.failures_in_a_row.map(u64::from), 1_000_000)?;
        count("reply_bytes", reply_bytes.map(|n| n as u64), MAX_REPLY_BYTES as u64)?;
        count("requests_per_minute", self.requests_per_minute.map(u64::from), u32::MAX.into())?;
        count("tokens_per_minute", self.tokens_per_minute, 1_000_000_000_000)?;
        Ok(Limits {
            attempts: self.attempts.unwrap_or(limits.attempts),
            at_a_time: at_a_time.unwrap_or(limits.at_a_time),
            failures_in_a_row: self.failures_in_a_row.unwrap_or(limits.failures_in_a_row),
            reply_bytes: reply_bytes.unwrap_or(limits.reply_bytes),
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            ..limits
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RoleFile {
    model: Option<String>,
    temperature: Option<Temperature>,
    max_tokens: Option<u32>,
    parameters: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Temperature {
    Number(f64),
    /// A word; only `none` is valid, which leaves the temperature to the service.
    Word(String),
}

impl RoleFile {
    /// Returns the settings with which the role sends requests to `model`; settings that the file
    /// omits have the defaults in `spec`.
    fn or(&self, spec: &RoleSpec, model: &str) -> RoleSettings {
        let temperature = match &self.temperature {
            None => spec.temperature,
            Some(Temperature::Number(number)) => Some(*number),
            Some(Temperature::Word(_)) => None,
        };
        RoleSettings {
            model: model.to_owned(),
            temperature,
            max_tokens: self.max_tokens.unwrap_or(spec.max_tokens),
            parameters: self.parameters.clone(),
        }
    }

    fn check(&self, role: &Role, lines: &Lines) -> Result<(), SettingsError> {
        let is_temperature = match &self.temperature {
            None => true,
            Some(Temperature::Number(number)) => (0.0..=2.0).contains(number),
            Some(Temperature::Word(word)) => word == "none",
        };
        let name = format!("llm.roles.{role}");
        let expected = "a number from 0 to 2, or \"none\" to leave it to the service";
        lines.require(is_temperature, &format!("{name}.temperature"), expected)?;
        let is_limit = self.max_tokens.is_none_or(|tokens| (1..=1_000_000).contains(&tokens));
        lines.require(is_limit, &format!("{name}.max_tokens"), "a number from 1 to 1000000")?;
        for parameter in self.parameters.keys() {
            let is_free = !check::OWN_PARAMETERS.contains(&parameter.as_str());
            let expected = "left out: it has its own setting, or the program sets it";
            lines.require(is_free, &format!("{name}.parameters.{parameter}"), expected)?;
        }
        Ok(())
    }
}
