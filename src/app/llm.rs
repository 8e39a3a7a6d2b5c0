//! Finds and opens the configured language model. Reads the key of its service from the environment
//! and stores the key nowhere but in the account.
//!
//! A value comes from the options, or else from the environment, or else from the settings file
//! (`config.toml` in the home directory, or `--config FILE`).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{App, Explain, Network, OPENAI_URL, Result, refused, variable};
use agent_ground::files;
use agent_infer::bundle::Bundle;
use agent_llm::{
    Llm, LlmError, Model, Reply, ReplyStore, Request, Role, RoleSettings,
    cassette::{Cassette, Recorder},
    ledger::{Ceilings, Ledger},
    openai::OpenAi,
    prompts::Prompts,
    services::KnownService,
    settings::{self, LlmFile, Settings},
    shared::SharedCache,
};
use agent_optimize::roles::ROLES;
use agent_remote::{Account, Service};
use agent_tools::Assistant;

/// Name of the settings file in the home directory.
const CONFIG_FILE: &str = "config.toml";
/// Suffix of the host names of Azure OpenAI, which expects the key in the header `api-key`.
const AZURE_HOSTS: &str = ".openai.azure.com";
/// Advice for users who have not configured a language model.
pub const REMEDY: &str = "name a model with --model M, AGENT_MODEL or `model` under [llm] in \
    config.toml, and set OPENAI_API_KEY, or OPENAI_BASE_URL for a service without a key; names such \
    as ollama/qwen3:8b need no address";

/// Options of all commands that use a language model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct LlmArgs {
    /// Use this language model, such as gpt-4.1-mini or ollama/qwen3:8b, for all roles without a
    /// model of their own in the settings
    #[arg(long, value_name = "M", env = "AGENT_MODEL", help_heading = "Language model")]
    pub model: Option<String>,
    /// Also record all replies in this file, for --replay
    #[arg(long, value_name = "FILE", conflicts_with = "replay", help_heading = "Language model")]
    #[schema(value_type = Option<String>)]
    pub record: Option<PathBuf>,
    /// Replay replies from this file without contacting any service; a request that is not in the
    /// file fails
    #[arg(long, value_name = "FILE", help_heading = "Language model")]
    #[schema(value_type = Option<String>)]
    pub replay: Option<PathBuf>,
    /// Neither read nor write the reply cache that runs share
    #[arg(long, help_heading = "Language model")]
    #[serde(default)]
    pub no_cache: bool,
    /// Spend at most this much on language models, in USD
    #[arg(long, value_name = "X", help_heading = "Language model")]
    pub budget_usd: Option<f64>,
    /// Use at most this many tokens of language models, sent and received
    #[arg(long, value_name = "T", help_heading = "Language model")]
    pub budget_tokens: Option<u64>,
    /// Override built-in prompts with those in this directory; see agent-prompts in the source code
    #[arg(long, value_name = "DIR", help_heading = "Language model")]
    #[schema(value_type = Option<String>)]
    pub prompts: Option<PathBuf>,
}

/// The configured language models, one for each role, and their service.
pub struct Configured {
    /// Address, key and headers of the language models' service.
    pub account: Account,
    /// Model and request settings of every role.
    pub roles: HashMap<Role, RoleSettings>,
    /// Content of the settings file.
    pub settings: Settings,
    /// Name of the environment variable that holds the key, if there is a key.
    pub key_variable: Option<String>,
    /// The known service that the names of models begin with, as in `ollama/`, if any.
    service: Option<&'static KnownService>,
}

/// An opened language model, with its prompts and the stores of its replies.
pub struct Opened {
    /// The language model with its prompts.
    pub assistant: Arc<Assistant>,
    /// Maximum number of requests that may run at the same time.
    pub at_a_time: usize,
    recorder: Option<Arc<Recorder>>,
    cassette: Option<Arc<Cassette>>,
    cache: Option<Arc<SharedCache>>,
}

impl Opened {
    /// Returns a language model without stores of replies.
    fn without_stores(assistant: Arc<Assistant>, at_a_time: usize) -> Opened {
        Opened { assistant, at_a_time, recorder: None, cassette: None, cache: None }
    }

    /// Completes the file of --record, if any. Warns if replies in the file of --replay were not
    /// used, or if the cache had a problem.
    ///
    /// # Errors
    /// If the file of --record cannot be completed.
    pub fn finish(&self, app: &App) -> Result<()> {
        if let Some(recorder) = &self.recorder {
            recorder.finish()?;
        }
        let unused = self.cassette.as_ref().map_or(0, |cassette| cassette.unused().len());
        if unused > 0 {
            app.watch.warning(&format!("{unused} recorded replies were not used"));
        }
        if let Some(problem) = self.cache.as_ref().and_then(|cache| cache.problem()) {
            app.watch.warning(&problem);
        }
        Ok(())
    }
}

/// Opens the configured language model. A reply comes from `own`, the store of a run, if this store
/// holds it; else from the cache that all runs share; else from the service, within the budget.
/// With --replay, a file replaces the service and the cache. For requests over a network, opens the
/// server's model.
///
/// # Errors
/// If no model or key is configured; if the budget, settings, prompts or a file of replies are
/// invalid; if there is a budget in USD but a model has no price; if a request over a network
/// chooses a model.
pub fn open(choice: &LlmArgs, own: Option<Arc<dyn ReplyStore>>, app: &App) -> Result<Opened> {
    if let Some(network) = &app.network {
        return of_server(choice, network)?
            .ok_or_else(|| anyhow!("no language model is configured on this server"))
            .hint("start it with --effort 1 or 2");
    }
    opened(check(choice, app)?, choice, own, Duration::MAX, app)
}

/// Returns the server's language model; `None` if the server has none. Requests over a network
/// cannot choose another one.
///
/// # Errors
/// If the request chooses a model or sets another option of [`LlmArgs`].
fn of_server(choice: &LlmArgs, network: &Network) -> Result<Option<Opened>> {
    if *choice != LlmArgs::default() {
        return refused("a request over a network cannot set options in \"llm\"")
            .hint("the server uses its own language model, if it has one");
    }
    Ok(network.model.clone().map(|assistant| Opened::without_stores(assistant, 1)))
}

/// Opens the configured language model like [`open`], but waits at most `longest` for a reply.
/// Opens the model configured for the user of this process, even if the app serves requests over a
/// network.
///
/// # Errors
/// As [`open`].
pub fn open_within(choice: &LlmArgs, longest: Duration, app: &App) -> Result<Opened> {
    opened(check(choice, app)?, choice, None, longest, app)
}

/// Opens the models of a configuration, with `own`, the store of a run, as the first source of
/// replies. Waits at most `longest` for a reply. If a required key is missing, opening succeeds,
/// and every request fails for that reason.
fn opened(
    configured: Configured,
    choice: &LlmArgs,
    own: Option<Arc<dyn ReplyStore>>,
    longest: Duration,
    app: &App,
) -> Result<Opened> {
    let ceilings = Ceilings { usd: choice.budget_usd, tokens: choice.budget_tokens };
    check_prices(&configured, ceilings)?;
    let mut stores: Vec<Arc<dyn ReplyStore>> = own.into_iter().collect();
    let replies = app.home.path().join("cache").join("replies");
    let cache =
        (!choice.no_cache && choice.replay.is_none()).then(|| Arc::new(SharedCache::new(&replies)));
    let recorder = choice.record.as_deref().map(Recorder::open).transpose()?.map(Arc::new);
    // The recorder comes before the cache, so that it also records cached replies.
    stores.extend(recorder.iter().map(|recorder| recorder.clone() as Arc<dyn ReplyStore>));
    stores.extend(cache.iter().map(|cache| cache.clone() as Arc<dyn ReplyStore>));
    let no_key = missing_key(&configured);
    let Configured { account, roles, mut settings, .. } = configured;
    settings.limits.total = settings.limits.total.min(longest);
    let at_a_time = settings.limits.at_a_time;
    let (model, cassette): (Arc<dyn Model>, _) = match (&choice.replay, no_key) {
        (Some(path), _) => {
            let cassette = Arc::new(Cassette::open(path)?);
            (cassette.clone(), Some(cassette))
        }
        (None, Some(NoKey { what, remedy })) => {
            (Arc::new(Unasked(format!("{what}; {remedy}"))), None)
        }
        (None, None) => {
            let service = Service::stoppable(&account, settings.limits, app.stop.clone())?;
            (Arc::new(OpenAi::new(service, settings.form)), None)
        }
    };
    let ledger = Ledger::new(settings.llm.prices, ceilings);
    let llm = Arc::new(Llm::new(model, roles, stores, ledger, app.stop.clone()));
    let assistant = Arc::new(Assistant::new(llm, Arc::new(prompts(choice)?)));
    Ok(Opened { assistant, at_a_time, recorder, cassette, cache })
}

/// Opens the configured language model only for its settings and prompts; needs no key, and refuses
/// every request.
///
/// # Errors
/// If no model is configured, or settings or prompts are invalid.
pub fn open_unasked(choice: &LlmArgs, app: &App) -> Result<Opened> {
    let Configured { roles, settings, .. } = required(choice, app)?;
    let ledger = Ledger::new(settings.llm.prices, Ceilings::default());
    let model = Unasked("a dry run sends no requests".to_owned());
    let llm = Llm::new(Arc::new(model), roles, Vec::new(), ledger, app.stop.clone());
    let assistant = Arc::new(Assistant::new(Arc::new(llm), Arc::new(prompts(choice)?)));
    Ok(Opened::without_stores(assistant, settings.limits.at_a_time))
}

/// A model that refuses every request; holds the reason.
struct Unasked(String);

impl Model for Unasked {
    fn ask(&self, _: &Request) -> Result<Reply, LlmError> {
        Err(LlmError::Unrecorded(self.0.clone()))
    }
}

fn prompts(choice: &LlmArgs) -> Result<Prompts> {
    Ok(match &choice.prompts {
        Some(dir) => Prompts::with_overrides(dir)?,
        None => Prompts::built_in()?,
    })
}

/// Opens the configured language model like [`open`]; `None` if no model is configured. If
/// `is_asked` is true, requests are certain, and a missing key is an error at once; otherwise it is
/// an error only at the first request.
///
/// # Errors
/// As [`open`].
pub fn open_if_configured(choice: &LlmArgs, is_asked: bool, app: &App) -> Result<Option<Opened>> {
    match &app.network {
        Some(network) if !is_asked => of_server(choice, network),
        None if configured(app, choice.model.as_deref())?.is_none() => Ok(None),
        None if !is_asked => {
            opened(checked(choice, app)?, choice, None, Duration::MAX, app).map(Some)
        }
        _ => open(choice, None, app).map(Some),
    }
}

/// Opens the configured language model for the programs of a bundle, with default options; `None`
/// if none of the programs asks a model.
///
/// # Errors
/// As [`open`].
pub fn open_for_programs(bundle: &Bundle, app: &App) -> Result<Option<Opened>> {
    bundle.asks().then(|| open(&LlmArgs::default(), None, app)).transpose()
}

/// Returns the configuration, and checks that requests are possible, so that a command without a
/// model fails before it starts its work.
///
/// # Errors
/// If no model is configured, the settings or --budget-usd are invalid, or a required key is
/// missing.
pub fn check(choice: &LlmArgs, app: &App) -> Result<Configured> {
    let configured = checked(choice, app)?;
    match missing_key(&configured).filter(|_| choice.replay.is_none()) {
        Some(NoKey { what, remedy }) => Err(anyhow!(what)).hint(remedy),
        None => Ok(configured),
    }
}

/// Returns the configuration; a missing key is not an error.
fn checked(choice: &LlmArgs, app: &App) -> Result<Configured> {
    if choice.budget_usd.is_some_and(|usd| !(usd > 0.0 && usd < 1e9)) {
        return refused("--budget-usd must be above 0");
    }
    required(choice, app)
}

/// Returns the configuration; fails if no model is configured.
fn required(choice: &LlmArgs, app: &App) -> Result<Configured> {
    let configured = configured(app, choice.model.as_deref())?;
    configured.ok_or_else(|| anyhow!("no LLM configured")).hint(REMEDY)
}

/// Returns the configuration. The model is `model`, or else the environment variable AGENT_MODEL,
/// or else the model in the settings file. `None` if no role has a model.
///
/// A name may begin with a known service, such as `ollama/`, unless the address of a service is
/// set.
///
/// # Errors
/// If the settings are invalid, some roles have no model, or the names begin with several services.
pub fn configured(app: &App, model: Option<&str>) -> Result<Option<Configured>> {
    let mut settings = read_settings(app)?;
    // An empty variable counts as unset.
    let named = variable("AGENT_MODEL");
    let model = model.or(named.as_deref()).filter(|model| !model.trim().is_empty());
    let mut roles = match settings.role_settings(model, &ROLES) {
        Ok(roles) => roles,
        Err(missing) if missing.len() == ROLES.len() => return Ok(None),
        Err(missing) => {
            let names: Vec<&str> = missing.iter().map(Role::name).collect();
            return Err(anyhow!("no model is configured for the roles {}", names.join(", ")))
                .hint("name one for all with --model M, AGENT_MODEL or `model` under [llm]");
        }
    };
    let address = variable("OPENAI_BASE_URL").or_else(|| settings.llm.base_url.clone());
    let service = if address.is_some() { None } else { named_service(&mut roles)? };
    settings.form.json = settings.form.json.or(service.map(|service| service.json));
    let (account, key_variable) = account(&settings.llm, service, address);
    Ok(Some(Configured { account, roles, settings, key_variable, service }))
}

/// Returns the service that names of models begin with, and removes it from these names. Models
/// whose names do not begin with a service use this service too.
///
/// # Errors
/// If the names begin with several services.
fn named_service(roles: &mut HashMap<Role, RoleSettings>) -> Result<Option<&'static KnownService>> {
    let mut named = BTreeMap::new();
    for set in roles.values_mut() {
        if let Some((service, model)) = KnownService::split(&set.model) {
            named.insert(service.name, service);
            set.model = model.to_owned();
        }
    }
    let names: Vec<&str> = named.keys().copied().collect();
    if names.len() > 1 {
        return Err(anyhow!("the models belong to several services: {}", names.join(", "))).hint(
            "use one service; openrouter, or a proxy as OPENAI_BASE_URL, offers many models",
        );
    }
    Ok(named.into_values().next())
}

impl Configured {
    /// Returns the name of the model that a role uses.
    pub fn model(&self, role: &Role) -> Option<&str> {
        self.roles.get(role).map(|set| set.model.as_str())
    }

    /// Returns the names of the models of all roles, each once.
    pub fn models(&self) -> BTreeSet<&str> {
        self.roles.values().map(|set| set.model.as_str()).collect()
    }
}

/// Reads the settings file of `--config FILE`, or else of the home directory. Returns the defaults
/// if the home directory has no settings file.
pub(crate) fn read_settings(app: &App) -> Result<Settings> {
    let path = settings_path(app);
    if app.config.is_none() && !path.exists() {
        return Ok(Settings::default());
    }
    let limit = settings::MAX_FILE_BYTES as u64;
    let text = files::read_text(&path, limit)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Settings::read(&text, &path.display().to_string(), &ROLES)?)
}

/// Returns the path of the settings file. The file may be missing if the user did not name it.
pub(crate) fn settings_path(app: &App) -> PathBuf {
    app.config.clone().unwrap_or_else(|| app.home.path().join(CONFIG_FILE))
}

/// Returns the account from settings and environment: at `address`, or else of `service`, or else
/// of OpenAI. Also returns the name of the environment variable that holds its key; `None` if there
/// is no key.
fn account(
    llm: &LlmFile,
    service: Option<&KnownService>,
    address: Option<String>,
) -> (Account, Option<String>) {
    let known = service.map_or(OPENAI_URL, |service| service.base_url);
    let base_url = address.unwrap_or_else(|| known.to_owned());
    let host = base_url.split('/').nth(2).unwrap_or_default();
    let is_azure = host.split(':').next().unwrap_or_default().ends_with(AZURE_HOSTS);
    let pairs = |of: &BTreeMap<String, String>| of.clone().into_iter().collect::<Vec<_>>();
    let names = match &llm.key_env {
        Some(name) => vec![name.as_str()],
        None if is_azure => vec!["AZURE_OPENAI_API_KEY", "OPENAI_API_KEY"],
        None => vec![service.map_or("OPENAI_API_KEY", |service| service.key_env)],
    };
    let key = names.into_iter().find_map(|name| Some((name, variable(name)?)));
    let (key_variable, key) = key.map(|(name, key)| (name.to_owned(), key)).unzip();
    let mut headers = pairs(&llm.headers);
    let organisation = variable("OPENAI_ORG_ID").or_else(|| llm.organisation.clone());
    let named = [("OpenAI-Organization", organisation), ("OpenAI-Project", llm.project.clone())];
    headers.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    let account = Account {
        base_url,
        key,
        key_header: llm.key_header.clone().or_else(|| is_azure.then(|| "api-key".to_owned())),
        headers,
        query: pairs(&llm.query),
    };
    (account, key_variable)
}

/// The missing key of a service, with a remedy.
pub struct NoKey {
    /// Which key is missing, in words.
    pub what: String,
    /// What the user can do.
    pub remedy: String,
}

/// Returns the required key that is missing; `None` if none is missing. A key is required if
/// `key_env` in the settings names it, or if the service is OpenAI's own or a known one on another
/// machine.
pub fn missing_key(configured: &Configured) -> Option<NoKey> {
    if configured.account.key.is_some() {
        return None;
    }
    if let Some(name) = &configured.settings.llm.key_env {
        let what = format!("the variable {name}, which key_env names, is not set");
        let remedy = "set it, or remove key_env from the settings".to_owned();
        return Some(NoKey { what, remedy });
    }
    let base_url = &configured.account.base_url;
    let remedy = match configured.service {
        Some(service) if !service.is_local() => format!("set {}", service.key_env),
        None if base_url == OPENAI_URL => {
            "set OPENAI_API_KEY, or OPENAI_BASE_URL for another service".to_owned()
        }
        _ => return None,
    };
    Some(NoKey { what: format!("there is no key for {base_url}"), remedy })
}

/// Fails if there is a budget in USD and the settings have no price for a configured model.
fn check_prices(configured: &Configured, ceilings: Ceilings) -> Result<()> {
    let prices = &configured.settings.llm.prices;
    let unknown = configured.models().into_iter().filter(|model| !prices.contains_key(*model));
    let unknown: Vec<&str> = unknown.collect();
    if ceilings.usd.is_none() || unknown.is_empty() {
        return Ok(());
    }
    let names = unknown.join(", ");
    Err(anyhow!("a budget in USD cannot be enforced: the price of {names} is not known")).hint(
        format!("add to config.toml, with the prices of your service:\n{}", price_lines(&unknown)),
    )
}

/// Returns lines for the settings file that set the prices of `models`, with zeros for the user to
/// fill in.
fn price_lines(models: &[&str]) -> String {
    let lines = models.iter().map(|model| {
        let name = toml::Value::String((*model).to_owned());
        format!(
            "[llm.prices.{name}]\n\
             input = 0.00   # USD per million tokens sent\n\
             output = 0.00  # USD per million tokens received"
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Describes the limits of requests for display, such as `8 requests at a time, 5 attempts`.
pub fn limits_in_words(configured: &Configured) -> String {
    let limits = &configured.settings.limits;
    let mut parts = vec![
        format!("{} requests at a time", limits.at_a_time),
        format!("{} attempts", limits.attempts),
        format!("{} s per attempt", limits.attempt.as_secs_f64()),
        format!("{} s in total", limits.total.as_secs_f64()),
    ];
    parts.extend(limits.requests_per_minute.map(|n| format!("{n} requests per minute")));
    parts.extend(limits.tokens_per_minute.map(|n| format!("{n} tokens per minute")));
    parts.join(", ")
}

/// Describes the models for display: the name alone if all roles have the same model, else each
/// model with its roles.
pub fn models_in_words(configured: &Configured) -> String {
    let mut roles: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for spec in &ROLES {
        if let Some(set) = configured.roles.get(&spec.role()) {
            roles.entry(&set.model).or_default().push(spec.name);
        }
    }
    let part = |(model, roles): (&&str, &Vec<&str>)| format!("{model} ({})", roles.join(", "));
    match roles.len() {
        1 => roles.keys().copied().collect(),
        _ => roles.iter().map(part).collect::<Vec<_>>().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(settings: &str) -> Configured {
        let settings = Settings::read(settings, "config.toml", &ROLES).unwrap();
        let roles = settings.role_settings(Some("general"), &ROLES).unwrap();
        let account = Account::default();
        Configured { account, roles, settings, key_variable: None, service: None }
    }

    #[test]
    fn o10_a_budget_in_usd_needs_the_price_of_every_model() {
        let configured = configured(
            "[llm.roles.actor]\nmodel = 'a \"b\".c'\n[llm.prices.general]\ninput = 1\noutput = 2\n",
        );
        let dollars = Ceilings { usd: Some(1.0), tokens: None };
        assert!(check_prices(&configured, Ceilings { usd: None, tokens: Some(1) }).is_ok());
        let error = format!("{:?}", check_prices(&configured, dollars).unwrap_err());
        assert!(error.contains("the price of a \"b\".c is not known"), "{error}");
        assert!(error.contains("[llm.prices.") && !error.contains("general"), "{error}");
        // The lines are settings as they stand.
        let models: Vec<&str> = configured.models().into_iter().collect();
        let read = Settings::read(&price_lines(&models), "config.toml", &ROLES).unwrap();
        assert_eq!(read.llm.prices.keys().map(String::as_str).collect::<Vec<_>>(), models);
    }

    #[test]
    fn models_are_told_with_their_roles() {
        assert_eq!(models_in_words(&configured("")), "general");
        let two = configured("[llm.roles.rerank]\nmodel = \"small\"\n");
        let words = "general (actor, comparator, categories, lexicon, router, tools, react, \
             synthesize, ask, expand, answer); small (rerank)";
        assert_eq!(models_in_words(&two), words);
    }
}
