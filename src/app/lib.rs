//! The operations of the program, as every face calls them: the command line, HTTP, assistants and
//! Python hold arguments and output alone.
//!
//! Each operation is one file with a `Request`, its defaults and bounds, which implements
//! [`Perform`](operation::Perform), and a line in [`OPERATIONS`](operation::OPERATIONS). An [`App`] is what
//! all of them share: the home directory, what this user made, settings, and a [`Watch`] that hears notices
//! and progress. Keys and addresses of models are read from the environment here alone; nothing prints.

pub mod answer;
pub mod ask;
pub mod bounded;
pub mod choice;
pub mod compare;
pub mod data;
pub mod dataset;
mod embedders;
pub mod error;
pub mod eval;
pub mod explained;
pub mod index;
pub mod llm;
pub mod measured;
pub mod named;
pub mod operation;
pub mod optimize;
pub mod output;
pub mod private;
pub mod program;
pub mod query;
pub mod report;
pub mod routing;
pub mod search;
pub mod synthesize;
pub mod synthetic;
pub mod systems;
pub mod test_split;
pub mod text;
pub mod train;
pub mod unit;
pub mod vectors;
pub mod verify;

use std::{
    env,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use agent_dataset::Home;
use agent_index::Access;
use agent_optimize::Event;
use agent_remote::Account;
use agent_retrieve::Answer;
use agent_tools::Assistant;

pub use crate::error::{AppError, Explain, Result};
use crate::private::Private;

/// Where models are asked unless OPENAI_BASE_URL names another service.
pub const OPENAI_URL: &str = "https://api.openai.com/v1";

/// The stages of a piece of work in their order, each with its approximate share of the time.
pub type Plan = &'static [(&'static str, f64)];

/// Hears what an operation reports while it works. Messages are single lines; those for which there is no
/// method go unheard.
pub trait Watch: Send + Sync {
    /// Something worth knowing.
    fn notice(&self, _message: &str) {}

    /// Something that may be wrong.
    fn warning(&self, _message: &str) {}

    /// Something for those who look closely.
    fn detail(&self, _message: &str) {}

    /// Begins a piece of work called `what`, which may be empty; dropping the result ends it.
    fn progress_of(&self, _what: &str, _plan: Plan) -> Box<dyn Progress + '_> {
        Box::new(Unwatched)
    }

    /// Begins a piece of work without a name, whose stages are not known beforehand.
    fn progress(&self) -> Box<dyn Progress + '_> {
        self.progress_of("", &[])
    }

    /// From now on an interrupt loses nothing: `message` says how to go on.
    fn resumable(&self, _message: &str) {}

    /// An event of an optimization; those that people want to read are notices and progress too.
    fn optimization(&self, _event: &Event<'_>) {}
}

/// How far a piece of work is; its stages may run side by side.
pub trait Progress: Sync {
    /// `done` of `total` units of a stage are done.
    fn at(&self, stage: &str, done: u64, total: u64);
}

/// Hears nothing.
pub struct Unwatched;

impl Watch for Unwatched {}

impl Progress for Unwatched {
    fn at(&self, _: &str, _: u64, _: u64) {}
}

/// What requests over a network may use. They name installed bases, runs and systems, never files;
/// programs run where the rule of trust or WebAssembly puts them.
#[derive(Clone)]
pub struct Network {
    /// The language model of the server, which is asked within its budget; no other one is.
    pub model: Option<Arc<Assistant>>,
    /// Whether operations may change what is installed.
    pub changes: bool,
}

/// What operations share.
#[derive(Clone)]
pub struct App {
    /// The home directory: bases, runs, models, caches.
    pub home: Home,
    /// What this user made, which is not kept in the home directory.
    pub private: Private,
    /// The settings file; `config.toml` in the home directory if none is named.
    pub config: Option<PathBuf>,
    /// Hears notices, warnings and progress.
    pub watch: Arc<dyn Watch>,
    /// Where requests come over a network: what they may use. Where they are those of this user, none.
    pub network: Option<Network>,
    /// Ends operations when set; all long work polls it.
    pub stop: Arc<AtomicBool>,
}

impl App {
    /// An app over a home directory, with this user's private directories and without settings of its own.
    pub fn new(home: Home, watch: Arc<dyn Watch>) -> App {
        let (private, config, stop) = (Private::of_user(), None, Arc::default());
        App { home, private, config, watch, network: None, stop }
    }

    /// Refuses a request that names files or directories where it comes over a network; `command` does the
    /// same on the machine of the server.
    ///
    /// # Errors
    /// That the request comes over a network.
    fn refuse_paths(&self, command: &str) -> Result<()> {
        if self.network.is_none() {
            return Ok(());
        }
        let why = "a request over a network names no files or directories of the server";
        Err(AppError::usage(anyhow::anyhow!(why)))
            .hint(format!("use `agent {command}` on the machine of the server"))
    }

    /// The caches, the service and the settings that embedders use.
    pub fn access(&self) -> Access {
        let (key, base_url) = (variable("OPENAI_API_KEY"), variable("OPENAI_BASE_URL"));
        let service = (key.is_some() || base_url.is_some()).then(|| {
            let base_url = base_url.unwrap_or_else(|| OPENAI_URL.to_owned());
            Account { base_url, key, ..Account::default() }
        });
        let cache = Some(self.home.path().join("cache").join("embeddings"));
        // Embedders without settings of their own work whatever the file holds.
        let named = embedders::configured(self).map_err(|error| error.message());
        Access { cache, service, named }
    }
}

/// Number of nodes that a request asks for.
pub type Top = bounded::Bounded<1, { text::MAX_K }>;
/// Nodes where a request does not say.
pub const TOP: Top = Top::new(20);

fn top() -> Top {
    TOP
}

/// Warns that a language model was to help with an answer and did not.
fn unassisted(answer: &Answer, app: &App) {
    if let Some(miss) = answer.unassisted {
        let why = miss.message();
        app.watch.warning(&format!(
            "{why}; this is the answer without it (-v shows what the service said)"
        ));
    }
}

/// A variable of the environment that is set and not empty.
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
