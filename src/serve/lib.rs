//! The server: answers over HTTP what the command line answers, from opened bases and frozen bundles.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `engine` | which base, which bundle, which system answers |
//! | `queue`, `apart` | when is a request answered, and when is it refused; what takes long |
//! | `assisted` | what a language model adds, and what is answered where it does not |
//! | `access`, `client` | may this client ask that, was it this server it meant, what is its share |
//! | `connections`, `socket` | how are connections accepted, bounded and finished |
//! | `guard`, `sent` | what stands before every request, and behind every reply |
//! | `limits` | which limits are there |
//! | `routes`, `nodes`, `batch`, `stores` | which request is answered by what |
//! | `programs`, `asked`, `compare`, `splits` | programs of clients, questions over many nodes, labelled questions |
//! | `runs`, `events` | the runs of the home, and how one goes on |
//! | `operations` | operations by their names |
//! | `mcp` | what assistants may ask, over HTTP or over a pipe |
//! | `describe` | what is there to be asked |
//! | `explorer` | which pages show all that to people |
//! | `reply` | what do requests and replies look like |
//! | `metrics` | what is counted |
//!
//! A request that needs work is one piece of it on one thread of the queue; one that a language model
//! helps with waits for it elsewhere. Programs run as they do everywhere: where the rule of trust puts
//! them.
//!
//! Must not know: command lines, files of settings, the test split.

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

/// The longest time that a request may ask for.
pub const LONGEST_TIME: Duration = Duration::from_secs(60);
/// How often a server looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
/// Runs and files of questions that are read at a time.
const MAX_READS: usize = 2;
/// Programs of clients, on a question or a sample, that run at a time.
const MAX_PROGRAMS: usize = 2;
/// Comparisons that run at a time.
const MAX_COMPARISONS: usize = 2;
/// Questions over many nodes that are answered at a time, where there are as many threads.
const MAX_TABLES: usize = 4;

/// What answers.
pub struct Options {
    /// The bases that are served, at least one, with names of their own.
    pub bases: Vec<Served>,
    /// Threads that answer.
    pub threads: usize,
    /// How a bundle is found when another one is to answer.
    pub find: Find,
    /// Bases and runs, and what operations share; requests name no files.
    pub app: App,
    /// Whether assistants may run programs.
    pub programs: bool,
    /// Whether operations may change what is installed.
    pub changes: bool,
}

/// Who can ask over HTTP.
pub struct Listening {
    /// Where the server listens.
    pub address: SocketAddr,
    /// Who may ask; none at all means everybody on this machine.
    pub keys: Keys,
    /// The names it answers to.
    pub hosts: Hosts,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It would be open to others.
    #[error("{0} can be reached from other machines, and there is no key")]
    Open(SocketAddr),
    /// It cannot listen there.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The system refuses threads.
    #[error("cannot start threads that answer")]
    Threads(#[source] io::Error),
    /// What came in over a pipe was not the protocol of assistants.
    #[error("standard input does not speak the Model Context Protocol")]
    Protocol(#[source] io::Error),
}

/// What all requests share.
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
    /// Exchanges of bases and bundles, one at a time.
    changes: Apart,
    /// Work that waits for a disk.
    reads: Apart,
    /// Questions that a language model helps with.
    helped: Apart,
    /// How far questions lean on it at most, and where they do not say.
    effort: Effort,
    /// Places for those who follow a run.
    followers: Slots,
    /// Places for batches.
    batches: Slots,
    /// What replies and bodies under way may take.
    memory: Memory,
    /// Beginnings of paths that no client sees.
    home: Vec<String>,
    metrics: Metrics,
    find: Find,
    app: App,
    /// Whether assistants may run programs.
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
        // All bases are opened alike.
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

/// How paths into a directory begin, as it was given and as it is.
fn beginnings(dir: &Path) -> Vec<String> {
    let given = [Some(dir.to_owned()), dir.canonicalize().ok()];
    let given = given.into_iter().flatten().filter(|dir| dir.parent().is_some());
    given.map(|dir| format!("{}/", dir.display())).collect()
}

impl Server {
    /// A text without the home directory before what is in it.
    fn without_home(&self, text: String) -> String {
        let begin =
            self.home.iter().filter(|home| text.contains(home.as_str())).collect::<Vec<_>>();
        begin.into_iter().fold(text, |text, home| text.replace(home.as_str(), ""))
    }
}

/// What drives requests; the work itself is done by the threads of the queue.
fn runtime(threads: usize) -> Result<Runtime, ServeError> {
    let threads = threads.clamp(1, 4);
    let built = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    built.map_err(ServeError::Threads)
}

/// Waits until `ends` says so.
async fn ended(ends: impl Fn() -> bool + Send) {
    while !ends() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Serves over HTTP until `ends` says so; then takes no further request, finishes those under way,
/// and gives the number of connections that it cut off because they took too long. `started` gets
/// the address once clients can connect.
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
            // Fails only where nobody listens any more.
            let _ = end.send(true);
        });
        let cut_off = connections::serve(listener, router, runtime.handle(), ending).await;
        server.queue.close();
        Ok(cut_off)
    });
    // What is still being read or measured is not waited for.
    runtime.shutdown_background();
    outcome
}

/// Answers one assistant over standard input and output, until input ends or `ends` says so.
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
    // A read of standard input that waits cannot be ended.
    runtime.shutdown_background();
    outcome
}
