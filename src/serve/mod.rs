//! The server: answers over HTTP what the command line answers, from opened bases and frozen bundles.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `engine` | which base, which bundle, which system answers |
//! | `queue` | when is a request answered, and when is it refused |
//! | `access` | may this client ask that, and was it this server it meant |
//! | `connections` | how are connections accepted, bounded and finished |
//! | `routes`, `nodes`, `batch`, `stores` | which request is answered by what |
//! | `describe` | what is there to be asked |
//! | `explorer` | which pages show all that to people |
//! | `reply` | what do requests and replies look like |
//! | `metrics` | what is counted |
//!
//! A request that needs work is one piece of it on one thread of the queue. Programs run as they do
//! everywhere: where the rule of trust puts them.
//!
//! Must not know: command lines, files of settings, which answers are right.

mod access;
mod batch;
mod connections;
mod describe;
mod engine;
mod explorer;
mod metrics;
mod nodes;
mod queue;
mod reply;
mod routes;
mod stores;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

pub use access::{Hosts, KeyError, Keys, Scope};
pub use engine::{Find, Opening, Places, Served};
use tokio::{net::TcpListener, sync::watch};

use crate::serve::{metrics::Metrics, queue::Queue};

/// How often a server looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// What a server is started with.
pub struct Options {
    /// Where it listens.
    pub address: SocketAddr,
    /// The bases that it serves, at least one, with names of their own.
    pub bases: Vec<Served>,
    /// Who may ask; none at all means everybody on this machine.
    pub keys: Keys,
    /// The names it answers to.
    pub hosts: Hosts,
    /// Threads that answer.
    pub threads: usize,
    /// How a bundle is found when another one is to answer.
    pub find: Find,
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
}

/// What all requests share.
struct Server {
    bases: Vec<Served>,
    keys: Keys,
    hosts: Hosts,
    queue: Queue,
    metrics: Metrics,
    find: Find,
    ending: watch::Receiver<bool>,
}

/// Serves until `ends` says so; then takes no further request, finishes those under way, and returns.
/// `started` gets the address once clients can connect.
///
/// # Errors
/// [`ServeError`].
pub fn run(
    options: Options,
    started: impl FnOnce(SocketAddr),
    ends: impl Fn() -> bool + Send + 'static,
) -> Result<(), ServeError> {
    let Options { address, bases, keys, hosts, threads, find } = options;
    if keys.keys.is_empty() && !address.ip().is_loopback() {
        return Err(ServeError::Open(address));
    }
    let queue = Queue::start(threads).map_err(ServeError::Threads)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.clamp(1, 4))
        .enable_all()
        .build()
        .map_err(ServeError::Threads)?;
    let (end, ending) = watch::channel(false);
    let metrics = Metrics::new();
    let server = Server { bases, keys, hosts, queue, metrics, find, ending: ending.clone() };
    let server = Arc::new(server);
    runtime.block_on(async move {
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        started(listener.local_addr().map_err(failed)?);
        tokio::spawn(async move {
            while !ends() {
                tokio::time::sleep(LOOK).await;
            }
            // Fails only where nobody listens any more.
            let _ = end.send(true);
        });
        connections::serve(listener, routes::router(server.clone()), ending).await;
        server.queue.close();
        Ok(())
    })
}
