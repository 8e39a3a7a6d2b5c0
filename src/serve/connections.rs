//! Accepts connections and bounds their number. Closes connections whose request headers arrive too
//! slowly, and finishes all others when the server ends. Does not depend on what requests do.
//!
//! The loop that accepts connections is our own, since `axum::serve` sets no timeout for headers: a
//! client that sends half a header would keep its connection forever. The loop does not run on the
//! runtime that answers requests. Under load, that runtime would accept connections too late: the
//! system would drop new ones, health probes among them, and clients would retry only after
//! seconds.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{Router, http::Request};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{rt::TokioTimer, service::TowerToHyperService};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{sleep, timeout},
};

use crate::socket::{Socket, WRITE_TIME};

/// Marks a request on a connection that has received a request header with two lengths of the body.
#[derive(Clone)]
pub(super) struct TwoLengths;

/// Maximum time until the header of a request is complete.
pub(super) const HEADER_TIME: Duration = Duration::from_secs(10);
/// Maximum size in bytes of a request header, and of the connection's buffer.
pub(super) const HEADER_BYTES: usize = 64 << 10;
/// Maximum number of open connections; fewer if the system allows fewer open files. Further
/// connections are refused.
pub(super) const MAX_CONNECTIONS: u32 = 16_384;
/// Number of open files that are kept free for other uses than connections.
const OTHER_FILES: u32 = 256;
/// Maximum number of connections beyond the limit that are checked for health probes at the same
/// time.
const MAX_PROBES: usize = 64;
/// Maximum time until a connection beyond the limit sends the start of its request.
const PROBE_TIME: Duration = Duration::from_millis(100);
/// Maximum time to finish connections when the server ends.
pub(super) const DRAIN_TIME: Duration = Duration::from_secs(30);
/// First bytes of a request that is a health probe.
const PROBE: &[u8] = b"GET /health/live ";
/// Reply to a connection beyond the limit.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\n\
    Content-Type: application/json\r\nContent-Length: 107\r\nConnection: close\r\n\r\n\
    {\"error\":{\"code\":\"busy\",\"message\":\"there are too many connections\",\
    \"remedy\":\"connect again in 10 seconds\"}}";
/// Pause after a connection could not be accepted, for example because file descriptors ran out.
const PAUSE: Duration = Duration::from_millis(50);

/// Listens on an address; up to [`MAX_CONNECTIONS`] new connections may wait to be accepted.
///
/// # Errors
/// If the address cannot be bound.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(MAX_CONNECTIONS)
}

/// Accepts connections until `ending` is true, then waits up to [`DRAIN_TIME`] until all are
/// finished. Returns the number of connections that were not finished.
///
/// The runtime `answering` answers requests. Health probes are answered by the runtime that polls
/// this future, one per connection, so that load on the other runtime does not delay them.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    answering: &Handle,
    mut ending: watch::Receiver<bool>,
) -> usize {
    let max = MAX_CONNECTIONS.min(open_files().saturating_sub(OTHER_FILES)).max(1);
    let (places, probes) =
        (Arc::new(Semaphore::new(max as usize)), Arc::new(Semaphore::new(MAX_PROBES)));
    loop {
        let Ok(probe) = probes.clone().acquire_owned().await else { return 0 };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = over(&mut ending) => break,
        };
        match accepted {
            Ok((stream, from)) => {
                let (router, ending) = (router.clone(), ending.clone());
                match places.clone().try_acquire_owned() {
                    Ok(place) => {
                        drop(probe);
                        tokio::spawn(take(stream, from, router, ending, answering.clone(), place));
                    }
                    Err(_) => drop(tokio::spawn(async move {
                        match timeout(PROBE_TIME, is_probe(&stream)).await {
                            Ok(true) => answer(stream, from, router, ending, true).await,
                            // A client that cannot receive the reply at once gets none.
                            _ => drop(stream.try_write(FULL)),
                        }
                        drop(probe);
                    })),
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    drained(&places, max, DRAIN_TIME).await
}

/// Answers the requests of a connection: a health probe on this runtime, all others on `answering`.
/// Drops the connection if no bytes arrive within [`HEADER_TIME`].
async fn take(
    stream: TcpStream,
    from: SocketAddr,
    router: Router,
    ending: watch::Receiver<bool>,
    answering: Handle,
    place: OwnedSemaphorePermit,
) {
    let mut ends = ending.clone();
    let probes = tokio::select! {
        probes = timeout(HEADER_TIME, is_probe(&stream)) => probes,
        // A request may still be on its way; it is answered like any other.
        () = over(&mut ends) => Ok(false),
    };
    match probes {
        Ok(true) => answer(stream, from, router, ending, true).await,
        Ok(false) => {
            let Ok(stream) = stream.into_std() else { return };
            answering.spawn(async move {
                if let Ok(stream) = TcpStream::from_std(stream) {
                    answer(stream, from, router, ending, false).await;
                }
                drop(place);
            });
        }
        // Nothing arrived in time.
        Err(_) => {}
    }
}

/// Raises this process's limit of open files as far as the system allows, and returns the limit.
fn open_files() -> u32 {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls get a valid structure that outlives them.
        #[expect(unsafe_code, reason = "the system's interface")]
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
                return u32::MAX;
            }
            let all = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &all) == 0 {
                limit = all;
            }
        }
        u32::try_from(limit.rlim_cur).unwrap_or(u32::MAX)
    }
    #[cfg(not(unix))]
    u32::MAX
}

/// Waits up to `time` until all `n` permits in `places` are free. Returns the number of permits
/// still taken, one per connection.
async fn drained(places: &Semaphore, n: u32, time: Duration) -> usize {
    match timeout(time, places.acquire_many(n)).await {
        Ok(_) => 0,
        Err(_) => (n as usize).saturating_sub(places.available_permits()),
    }
}

/// Whether the first request of a connection is a health probe; waits for its first bytes.
async fn is_probe(stream: &TcpStream) -> bool {
    let mut first = [0; PROBE.len()];
    stream.peek(&mut first).await.is_ok_and(|n| first.get(..n) == Some(PROBE))
}

/// Waits until the server is asked to end.
async fn over(ending: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which ends the server as well.
    let _ = ending.wait_for(|ends| *ends).await;
}

/// Answers the requests of one connection; with `only`, just the first request. When the server
/// ends, the request in progress is the last.
async fn answer(
    stream: TcpStream,
    from: SocketAddr,
    router: Router,
    mut ending: watch::Receiver<bool>,
    only: bool,
) {
    let _ = stream.set_nodelay(true);
    let socket = Socket::new(stream, WRITE_TIME);
    let (router, two_lengths) = (TowerToHyperService::new(router), socket.two_lengths());
    let service = service_fn(move |mut request: Request<Incoming>| {
        if two_lengths.load(Ordering::Relaxed) {
            request.extensions_mut().insert(TwoLengths);
        }
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES)
        .keep_alive(!only)
        .serve_connection(socket, service);
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = over(&mut ending) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        // Not a fault of the server: clients may leave at any time.
        tracing::debug!(%from, %error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        runtime::Builder,
    };

    use super::*;

    #[tokio::test]
    async fn connections_that_do_not_end_in_time_are_counted() {
        let places = Semaphore::new(3);
        let held = places.acquire().await.unwrap();
        assert_eq!(drained(&places, 3, Duration::from_millis(1)).await, 1);
        drop(held);
        assert_eq!(drained(&places, 3, Duration::from_secs(60)).await, 0);
    }

    #[test]
    fn a_probe_is_answered_while_nothing_else_is() {
        let answering = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (go, gate) = mpsc::channel::<()>();
        answering.spawn(async move { gate.recv().is_ok() });
        let (_end, ending) = watch::channel(false);
        let router = Router::new().route("/health/live", get(|| async { "it lives" }));
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
            let address = listener.local_addr().unwrap();
            let asked = async {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let request =
                    b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
                stream.write_all(request).await.unwrap();
                let mut reply = String::new();
                stream.read_to_string(&mut reply).await.unwrap();
                reply
            };
            tokio::select! {
                _ = serve(listener, router, answering.handle(), ending) => panic!("it ended"),
                reply = asked => assert!(reply.ends_with("it lives"), "{reply}"),
            }
        });
        drop(go);
    }
}
