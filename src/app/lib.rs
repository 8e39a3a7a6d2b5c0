//! The operations of the program. The command line, HTTP, MCP and Python all call these operations;
//! they only read arguments and write output.
//!
//! Each operation is one file with a `Request`, its defaults and bounds, which implements
//! [`Perform`], and a line in [`OPERATIONS`](operation::OPERATIONS). All share an [`App`]: the home
//! directory, the user's private directories, settings, and a [`Watch`] that receives notices and
//! progress. Only this crate reads keys and addresses of models from the environment; nothing here
//! prints.

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
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use anyhow::anyhow;
use rayon::prelude::*;

use agent_dataset::Home;
use agent_index::Access;
use agent_optimize::Event;
use agent_remote::Account;
use agent_retrieve::{Answer, StandIn};
use agent_tools::Assistant;

use crate::private::Private;
pub use crate::{
    bounded::Bounded,
    dataset::Dataset,
    error::{AppError, Explain, Result, refused},
    llm::LlmArgs,
    measured::{Benchmark, Measured},
    operation::Perform,
    systems::{
        Effort, Resources, STAND_IN, SandboxArgs, all_threads, open_bundle, open_runtime,
        open_system, read_bundle, read_program, system_name,
    },
    text::{MAX_SHOWN, count, counted, p_cell, p_value, percent, plain},
};

/// Default address of the service for language models and embedders; the environment variable
/// OPENAI_BASE_URL names another one.
pub const OPENAI_URL: &str = "https://api.openai.com/v1";

/// Stages of a task in the order in which they run, each with its approximate share of the total
/// time; only the ratios count.
pub type Plan = &'static [(&'static str, f64)];

/// Receives the reports of a running operation. Messages are single lines; by default they are
/// discarded.
pub trait Watch: Send + Sync {
    /// Reports a fact that the user should know.
    fn notice(&self, _message: &str) {}

    /// Reports a possible problem.
    fn warning(&self, _message: &str) {}

    /// Reports a detail that only verbose output shows.
    fn detail(&self, _message: &str) {}

    /// Begins a task named `what`, which may be empty, with the stages of `plan`. The task ends
    /// when the result is dropped.
    fn progress_of(&self, _what: &str, _plan: Plan) -> Box<dyn Progress + '_> {
        Box::new(Unwatched)
    }

    /// Begins a task without a name or known stages.
    fn progress(&self) -> Box<dyn Progress + '_> {
        self.progress_of("", &[])
    }

    /// Reports that from now on the user can interrupt the operation without losing work; `message`
    /// says how to resume it.
    fn resumable(&self, _message: &str) {}

    /// Reports an event of an optimization, for callers that process events. What users should see
    /// is also reported as a notice or as progress.
    fn optimization(&self, _event: &Event<'_>) {}
}

/// Receives the progress of a task, whose stages may run in parallel.
pub trait Progress: Sync {
    /// Reports that `done` of the `total` units of work of a stage are done; each stage has its own
    /// unit.
    fn at(&self, stage: &str, done: u64, total: u64);
}

/// A [`Watch`] and [`Progress`] that discard all reports.
pub struct Unwatched;

impl Watch for Unwatched {}

impl Progress for Unwatched {
    fn at(&self, _: &str, _: u64, _: u64) {}
}

/// Rights of requests over a network. These requests name installed bases, runs and systems, never
/// files, and cannot choose to run programs in this process.
#[derive(Clone)]
pub struct Network {
    /// The server's language model with its budget, the only one that requests may use; `None` if
    /// they may use none.
    pub model: Option<Arc<Assistant>>,
    /// Whether requests may change what is installed: bases, indexes, models, runs.
    pub changes: bool,
}

/// The directories, settings, rights and reports that all operations share.
#[derive(Clone)]
pub struct App {
    /// The home directory, which holds bases, runs, models and caches.
    pub home: Home,
    /// The user's private directories, outside the home directory.
    pub private: Private,
    /// The settings file that the user named; if `None`, `config.toml` in the home directory.
    pub config: Option<PathBuf>,
    /// Receives the notices, warnings and progress of operations.
    pub watch: Arc<dyn Watch>,
    /// Rights of requests that come over a network; `None` for requests of this user, who may do
    /// everything.
    pub network: Option<Network>,
    /// When set, operations stop; long tasks check it repeatedly.
    pub stop: Arc<AtomicBool>,
}

impl App {
    /// Returns an app for requests of this user, with the user's private directories and the
    /// settings file in `home`.
    pub fn new(home: Home, watch: Arc<dyn Watch>) -> App {
        let (private, config, stop) = (Private::of_user(), None, Arc::default());
        App { home, private, config, watch, network: None, stop }
    }

    /// Refuses the request if it comes over a network; call this for requests that name files or
    /// directories. The hint names `command`, which does the same on the server's machine.
    ///
    /// # Errors
    /// If the request comes over a network.
    fn refuse_paths(&self, command: &str) -> Result<()> {
        if self.network.is_none() {
            return Ok(());
        }
        refused("a request over a network must not name files or directories of the server")
            .hint(format!("run `agent {command}` on the server"))
    }

    /// Returns the form of a path in replies. Clients over a network must not see directories of
    /// this machine. They get the path below the home directory or, outside of it, only the file
    /// name.
    fn shown_path<'a>(&self, path: &'a Path) -> &'a Path {
        if self.network.is_none() || path.is_relative() {
            return path;
        }
        let name = || Path::new(path.file_name().unwrap_or_default());
        path.strip_prefix(self.home.path()).unwrap_or_else(|_| name())
    }

    /// Returns the resources of embedders: the directory of their cache, the account of their
    /// service, and their settings.
    pub fn access(&self) -> Access {
        let (key, base_url) = (variable("OPENAI_API_KEY"), variable("OPENAI_BASE_URL"));
        let service = (key.is_some() || base_url.is_some()).then(|| {
            let base_url = base_url.unwrap_or_else(|| OPENAI_URL.to_owned());
            Account { base_url, key, ..Account::default() }
        });
        let cache = Some(self.home.path().join("cache").join("embeddings"));
        // Keep the error: invalid settings must not fail embedders that have no settings of their
        // own.
        let named = embedders::configured(self).map_err(|error| error.message());
        Access { cache, service, named }
    }
}

/// Maximum number of nodes that a request asks for.
pub type Top = Bounded<1, { text::MAX_K }>;
/// Default maximum number of nodes that a request asks for.
pub const TOP: Top = Top::new(20);

fn top() -> Top {
    TOP
}

/// Warns if a language model should have helped with an answer but failed.
fn unassisted(answer: &Answer, app: &App) {
    if let Some(miss) = answer.unassisted {
        let why = miss.message();
        app.watch.warning(&format!(
            "{why}; this answer was made without the language model (-v shows what the service \
             said)"
        ));
    }
}

/// Warns if a program failed, so that another system ranked the nodes instead.
fn warn_of_stand_in(answer: &Answer, app: &App) {
    if let Some(StandIn { system, reason, .. }) = &answer.stand_in {
        app.watch.warning(&format!("a program failed: {reason}"));
        app.watch.warning(&format!("the nodes come from {system} instead"));
    }
}

/// Calls `one` for each item, in parallel, and reports the progress of `stage`. Returns the results
/// in the order of the items.
///
/// # Errors
/// The error of `one`; if the operation was stopped, an error with the message `stopped`.
fn each<T: Sync, R: Send>(
    items: &[T],
    stage: &str,
    stopped: &'static str,
    app: &App,
    one: impl Fn(&T) -> anyhow::Result<R> + Sync,
) -> Result<Vec<R>> {
    let (progress, done) = (app.watch.progress(), AtomicU64::new(0));
    let one = |item| {
        if app.stop.load(Ordering::Relaxed) {
            return Err(anyhow!(stopped));
        }
        let result = one(item)?;
        progress.at(stage, done.fetch_add(1, Ordering::Relaxed) + 1, items.len() as u64);
        Ok(result)
    };
    Ok(items.par_iter().map(one).collect::<anyhow::Result<_>>()?)
}

/// Returns an environment variable; `None` if it is unset or empty.
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
