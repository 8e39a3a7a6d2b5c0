//! The server: answers questions over HTTP and MCP from open bases and frozen bundles.
//!
//! | file | contents |
//! | --- | --- |
//! | `engine` | bases, bundles and systems that are open |
//! | `queue`, `apart` | threads that answer questions; pools for slow work |
//! | `assisted` | answers with a language model, and without it if it fails |
//! | `access`, `client` | keys, host names, shares of clients |
//! | `connections`, `socket` | connections: accepting, limits, shutdown |
//! | `guard`, `sent` | checks of every request; size and memory of every reply |
//! | `limits` | the page of all limits |
//! | `routes`, `nodes`, `batch`, `stores` | routes and their handlers |
//! | `programs`, `asked`, `compare`, `splits` | programs of clients, questions over many nodes, labelled questions |
//! | `runs`, `events` | runs in the home directory, and their events |
//! | `operations` | operations by name |
//! | `mcp` | the Model Context Protocol, over HTTP or a pipe |
//! | `describe` | systems, schema, facets, nodes and programs of a base |
//! | `explorer` | web pages |
//! | `reply` | JSON of requests, replies and errors |
//! | `metrics` | counters |
//!
//! A question is one job on one thread of the queue. A question that uses a language model waits
//! for the model in a pool of its own. Programs of bundles run where their origin allows; programs
//! of clients always run in WebAssembly.
//!
//! Reads neither command lines nor settings files, and never the test split.

mod access;
mod apart;
mod asked;
mod assisted;
mod batch;
mod client;
mod compare;
mod connections;
mod describe;
mod engine;
mod events;
mod explorer;
mod guard;
mod heap;
mod limits;
mod mcp;
mod metrics;
mod nodes;
mod operations;
mod programs;
mod queue;
mod reply;
mod routes;
mod runs;
mod sent;
mod socket;
mod splits;
mod stores;
mod within;

#[doc(hidden)]
pub mod fuzz;

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

pub use access::{Hosts, KeyError, Keys, Scope};
pub use engine::{Helper, Opening, Served};
pub use explorer::report_page;
pub use limits::reference_page as limits_page;
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
};

use crate::{
    apart::Apart,
    client::{Client, Slots},
    engine::Opened,
    mcp::Assistants,
    metrics::Metrics,
    queue::{Queue, Refused},
    reply::{ApiError, Common, OfBody, OfPath, OfWork},
    routes::{Body, Params, deadline, in_range, opened},
    sent::{Bounded, MAX_REPLY, Memory, in_json, json},
    splits::page,
};
use agent_app::{App, Network};
use agent_systems::bundle::Effort;

/// Result of a request.
type Result<T, E = ApiError> = std::result::Result<T, E>;

/// Maximum time limit that a request may set for its answer.
pub const LONGEST_TIME: Duration = Duration::from_secs(60);
/// Time between two checks of whether the server must end.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum number of requests that read runs, labelled questions or schemas from disk at the same
/// time.
const MAX_READS: usize = 2;
/// Maximum number of requests that run a program of a client at the same time.
const MAX_PROGRAMS: usize = 2;
/// Maximum number of requests that compare systems at the same time.
const MAX_COMPARISONS: usize = 2;
/// Maximum number of questions over many nodes that are answered at the same time; each may take
/// about 300 MB.
const MAX_TABLES: usize = 1;

/// Settings of a server: what it serves, and how.
pub struct Options {
    /// The bases that are served: at least one, with distinct names.
    pub bases: Vec<Served>,
    /// Number of threads that answer questions.
    pub threads: usize,
    /// Directories and settings; the server sets `network` and `watch` itself. The server ends once
    /// `stop` is set.
    pub app: App,
    /// Whether MCP clients may run programs and operations.
    pub programs: bool,
    /// Whether operations may change what is installed.
    pub changes: bool,
}

/// Address and access rules of an HTTP server.
pub struct Listening {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The keys that requests may send. Without keys, the address must be a loopback address, and
    /// requests need no key.
    pub keys: Keys,
    /// The host names that the server answers to.
    pub hosts: Hosts,
}

/// Why a server cannot start, or why it stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not a loopback address, and there are no keys.
    #[error("{0} can be reached from other machines, but no key exists")]
    Open(SocketAddr),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// Why the server cannot listen on the address.
        source: io::Error,
    },
    /// The operating system refuses to start threads.
    #[error("cannot start worker threads")]
    Threads(#[source] io::Error),
    /// The input on standard input is not the Model Context Protocol.
    #[error("standard input is not the Model Context Protocol")]
    Protocol(#[source] io::Error),
}

/// State that all requests share: the bases, keys, pools and limits of the server.
struct Server {
    bases: Vec<Served>,
    keys: Keys,
    hosts: Hosts,
    queue: Queue,
    /// Pool that runs programs of clients.
    programs_run: Apart,
    /// Pool that answers questions over many nodes.
    tables: Apart,
    /// Pool that compares systems.
    comparisons: Apart,
    /// Pool that runs operations, one at a time.
    operations: Apart,
    /// Pool that replaces bases and bundles, one at a time.
    changes: Apart,
    /// Pool for requests that read runs, labelled questions or schemas from disk.
    reads: Apart,
    /// Pool for questions that use the language model.
    helped: Apart,
    /// Maximum effort of a question; also the default.
    effort: Effort,
    /// Limits the number of clients that follow a run.
    followers: Slots,
    /// Limits the number of batches in progress.
    batches: Slots,
    /// Limits the memory for replies and request bodies while they are transferred.
    memory: Memory,
    /// Prefixes of paths below the home directory, which are removed from replies.
    home: Vec<String>,
    metrics: Metrics,
    app: App,
    /// Whether MCP clients may run programs and operations.
    programs: bool,
    ending: watch::Receiver<bool>,
}

impl Server {
    fn new(
        options: Options,
        keys: Keys,
        hosts: Hosts,
        ending: watch::Receiver<bool>,
    ) -> Result<Arc<Server>, ServeError> {
        let Options { bases, threads, app, programs, changes } = options;
        // All bases are opened with the same helper.
        let helper = bases.first().and_then(|served| served.opening.helper.as_ref());
        let effort = helper.map_or(Effort::None, |helper| helper.effort);
        let network = Network { model: helper.map(|helper| helper.assistant.clone()), changes };
        let clients = keys.keys.len();
        let apart = |places| Apart::new(places, clients);
        let helped = apart(helper.map_or(0, |helper| helper.at_a_time));
        Ok(Arc::new(Server {
            bases,
            keys,
            hosts,
            queue: Queue::start(threads).map_err(ServeError::Threads)?,
            programs_run: apart(MAX_PROGRAMS),
            tables: apart(MAX_TABLES),
            comparisons: apart(MAX_COMPARISONS),
            operations: apart(1),
            changes: apart(1),
            reads: apart(MAX_READS),
            helped,
            effort,
            followers: Slots::new(events::MAX_FOLLOWERS, clients),
            batches: Slots::new(batch::MAX_BATCHES, clients),
            memory: Memory::new(clients),
            home: beginnings(app.home.path()),
            metrics: Metrics::new(),
            app: App { network: Some(network), watch: Arc::new(operations::Log), ..app },
            programs,
            ending,
        }))
    }

    /// Whether operations may change what is installed.
    fn may_change(&self) -> bool {
        self.app.network.as_ref().is_some_and(|network| network.changes)
    }

    /// Removes the path of the home directory from all paths in a text.
    fn without_home(&self, text: String) -> String {
        let begin =
            self.home.iter().filter(|home| text.contains(home.as_str())).collect::<Vec<_>>();
        begin.into_iter().fold(text, |text, home| text.replace(home.as_str(), ""))
    }
}

/// Returns the prefixes of paths below a directory: the directory as given and, if it exists, its
/// canonical path, each followed by a slash. Returns no prefix for the root directory.
fn beginnings(dir: &Path) -> Vec<String> {
    let given = [Some(dir.to_owned()), dir.canonicalize().ok()];
    let given = given.into_iter().flatten().filter(|dir| dir.parent().is_some());
    given.map(|dir| format!("{}/", dir.display())).collect()
}

/// Builds the runtime that handles requests, with `threads` threads, but at least 1 and at most 4.
/// Questions are answered on other threads, which belong to the queue.
fn runtime(threads: usize) -> Result<Runtime, ServeError> {
    let threads = threads.clamp(1, 4);
    let built = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    built.map_err(ServeError::Threads)
}

/// Waits until `stop` of `app` is set.
async fn stopped(app: &App) {
    while !app.stop.load(std::sync::atomic::Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Serves over HTTP until `stop` of the options is set, then stops accepting connections and
/// finishes the requests in progress. Calls `started` with the address once clients can connect.
/// Returns the number of connections that were cut off at the end because they took too long.
///
/// # Errors
/// [`ServeError`] if the server cannot start.
pub fn run(
    options: Options,
    listening: Listening,
    started: impl FnOnce(SocketAddr),
) -> Result<usize, ServeError> {
    let Listening { address, keys, hosts } = listening;
    if keys.keys.is_empty() && !address.ip().is_loopback() {
        return Err(ServeError::Open(address));
    }
    let runtime = runtime(options.threads)?;
    let accepting = Builder::new_current_thread().enable_all().build();
    let accepting = accepting.map_err(ServeError::Threads)?;
    let (end, ending) = watch::channel(false);
    let server = Server::new(options, keys, hosts, ending.clone())?;
    let router = {
        let _answering = runtime.enter();
        routes::router(server.clone())
    };
    let outcome = accepting.block_on(async {
        let failed = |source| ServeError::Listen { address, source };
        let listener = connections::listen(address).map_err(failed)?;
        started(listener.local_addr().map_err(failed)?);
        let stopping = server.clone();
        tokio::spawn(async move {
            stopped(&stopping.app).await;
            // Fails only if there is no receiver left.
            let _ = end.send(true);
        });
        let cut_off = connections::serve(listener, router, runtime.handle(), ending).await;
        server.queue.close();
        Ok(cut_off)
    });
    // Does not wait for blocking work that is still running.
    runtime.shutdown_background();
    outcome
}

/// Serves one MCP client over standard input and output, until input ends or `stop` of the options
/// is set.
///
/// # Errors
/// [`ServeError`] if the server cannot start, or if the input violates the protocol.
pub fn assist(options: Options) -> Result<(), ServeError> {
    let runtime = runtime(options.threads)?;
    let (_end, ending) = watch::channel(false);
    let server = Server::new(options, Keys::default(), Hosts::default(), ending)?;
    let outcome = runtime.block_on(async move {
        let outcome = tokio::select! {
            outcome = Assistants::new(server.clone()).stdio() => outcome,
            () = stopped(&server.app) => Ok(()),
        };
        server.queue.close();
        outcome.map_err(ServeError::Protocol)
    });
    // A pending read of standard input cannot be cancelled.
    runtime.shutdown_background();
    outcome
}
