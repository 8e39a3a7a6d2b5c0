//! The server: answers over HTTP and MCP from opened bases and frozen bundles.
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
//! | `describe` | systems, schema, nodes and programs of a base |
//! | `explorer` | web pages |
//! | `reply` | JSON of requests, replies and errors |
//! | `metrics` | counters |
//!
//! A question is one job on one thread of the queue. A question that uses a language model waits
//! for the model in a pool of its own. Programs of bundles run where their origin allows; programs
//! of clients always run in WebAssembly.
//!
//! Must not know: command lines, settings files, the test split.

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
mod facets;
mod guard;
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
pub use engine::{Find, Helper, Opening, Places, Served};
pub use explorer::report_page;
pub use limits::reference_page as limits_page;
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
};

use crate::{
    apart::Apart, client::Slots, mcp::Assistants, metrics::Metrics, queue::Queue, sent::Memory,
};
use agent_app::{App, Network};
use agent_systems::bundle::Effort;

/// Maximum time limit of a request.
pub const LONGEST_TIME: Duration = Duration::from_secs(60);
/// Interval between checks whether the server shall end.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum number of concurrent reads of runs, labelled questions and schemas.
const MAX_READS: usize = 2;
/// Maximum number of concurrent requests that run a program of a client.
const MAX_PROGRAMS: usize = 2;
/// Maximum number of concurrent comparisons.
const MAX_COMPARISONS: usize = 2;
/// Maximum number of concurrent questions over many nodes; fewer if there are fewer threads.
const MAX_TABLES: usize = 4;

/// Configuration of a server.
pub struct Options {
    /// The bases that are served: at least one, with distinct names.
    pub bases: Vec<Served>,
    /// Number of threads that answer questions.
    pub threads: usize,
    /// Finds the file of a bundle that a request activates.
    pub find: Find,
    /// Environment of operations; the server sets its `network` and `watch`.
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
    /// Accepted keys. Without keys, the address must be a loopback address, and requests need none.
    pub keys: Keys,
    /// The host names that the server answers to.
    pub hosts: Hosts,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not a loopback address, and there are no keys.
    #[error("{0} can be reached from other machines, and there is no key")]
    Open(SocketAddr),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The system refuses threads.
    #[error("cannot start worker threads")]
    Threads(#[source] io::Error),
    /// Standard input does not carry the Model Context Protocol.
    #[error("standard input does not speak the Model Context Protocol")]
    Protocol(#[source] io::Error),
}

/// State that all requests share.
struct Server {
    bases: Vec<Served>,
    keys: Keys,
    hosts: Hosts,
    queue: Queue,
    /// Programs of clients.
    programs_run: Apart,
    /// Questions over many nodes.
    tables: Apart,
    /// Comparisons.
    comparisons: Apart,
    /// Operations, one at a time.
    operations: Apart,
    /// Replacements of bases and bundles, one at a time.
    changes: Apart,
    /// Reads of runs, labelled questions and schemas.
    reads: Apart,
    /// Questions that use the language model.
    helped: Apart,
    /// Maximum effort of a question, and the default.
    effort: Effort,
    /// Places for clients that follow a run.
    followers: Slots,
    /// Places for batches.
    batches: Slots,
    /// Memory for replies and request bodies in transfer.
    memory: Memory,
    /// Path prefixes of the home directory, which are removed from replies.
    home: Vec<String>,
    metrics: Metrics,
    find: Find,
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
        let Options { bases, threads, find, app, programs, changes } = options;
        // All bases are opened with the same helper.
        let helper = bases.first().and_then(Served::helper);
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
            tables: apart(threads.clamp(1, MAX_TABLES)),
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
            find,
            app: App { network: Some(network), watch: Arc::new(operations::Log), ..app },
            programs,
            ending,
        }))
    }
}

impl Server {
    /// Whether operations may change what is installed.
    fn may_change(&self) -> bool {
        self.app.network.as_ref().is_some_and(|network| network.changes)
    }
}

/// Returns the prefixes of paths below a directory: as given and, if it exists, canonical. Returns
/// none for the root directory.
fn beginnings(dir: &Path) -> Vec<String> {
    let given = [Some(dir.to_owned()), dir.canonicalize().ok()];
    let given = given.into_iter().flatten().filter(|dir| dir.parent().is_some());
    given.map(|dir| format!("{}/", dir.display())).collect()
}

impl Server {
    /// Removes the home directory from all paths in a text.
    fn without_home(&self, text: String) -> String {
        let begin =
            self.home.iter().filter(|home| text.contains(home.as_str())).collect::<Vec<_>>();
        begin.into_iter().fold(text, |text, home| text.replace(home.as_str(), ""))
    }
}

/// Builds the runtime that handles requests, with 1 to 4 threads. Questions are answered by the
/// threads of the queue.
fn runtime(threads: usize) -> Result<Runtime, ServeError> {
    let threads = threads.clamp(1, 4);
    let built = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    built.map_err(ServeError::Threads)
}

/// Waits until `ends` returns true.
async fn ended(ends: impl Fn() -> bool + Send) {
    while !ends() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Serves over HTTP until `ends` returns true, then stops accepting connections and finishes the
/// requests in progress. Returns the number of connections that it cut off because they took too
/// long. Calls `started` with the address once clients can connect.
///
/// # Errors
/// [`ServeError`].
pub fn run(
    options: Options,
    listening: Listening,
    started: impl FnOnce(SocketAddr),
    ends: impl Fn() -> bool + Send + 'static,
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
        tokio::spawn(async move {
            ended(ends).await;
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

/// Serves one MCP client over standard input and output, until input ends or `ends` returns true.
///
/// # Errors
/// [`ServeError`].
pub fn assist(options: Options, ends: impl Fn() -> bool + Send) -> Result<(), ServeError> {
    let runtime = runtime(options.threads)?;
    let (_end, ending) = watch::channel(false);
    let server = Server::new(options, Keys::default(), Hosts::default(), ending)?;
    let outcome = runtime.block_on(async move {
        let outcome = tokio::select! {
            outcome = Assistants::new(server.clone()).stdio() => outcome,
            () = ended(ends) => Ok(()),
        };
        server.queue.close();
        outcome.map_err(ServeError::Protocol)
    });
    // A pending read of standard input cannot be cancelled.
    runtime.shutdown_background();
    outcome
}
