//! Connections: accepted one by one, bounded in number, dropped when a client sends its request too
//! slowly, finished when the server ends. Must not know what is asked.
//!
//! The accept loop is our own because `axum::serve` sets no timer, so that whoever sends half a
//! header would keep a connection for ever. It runs apart from what answers: where thousands
//! connect at a time and nobody accepts them, the system drops those that come on top, a probe among
//! them, and they try again after seconds.

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

/// Marks a request whose head may give the length of its body twice.
#[derive(Clone)]
pub(super) struct TwoLengths;

/// Time for the header of a request.
pub(super) const HEADER_TIME: Duration = Duration::from_secs(10);
/// Bytes of the header of a request, and of any other part that is read or written at a time.
pub(super) const HEADER_BYTES: usize = 64 << 10;
/// Connections at a time, where the system allows as many open files; further ones are refused.
pub(super) const MAX_CONNECTIONS: u32 = 16_384;
/// Open files that connections leave to everything else.
const OTHER_FILES: u32 = 256;
/// Further connections that are looked at, so that probes among them are answered.
const MAX_PROBES: usize = 64;
/// Time in which such a connection sends its request.
const PROBE_TIME: Duration = Duration::from_millis(100);
/// Time for what is under way when the server ends.
pub(super) const DRAIN_TIME: Duration = Duration::from_secs(30);
/// What the request of a probe begins with.
const PROBE: &[u8] = b"GET /health/live ";
/// What a connection gets for which there is no place.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\n\
    Content-Type: application/json\r\nContent-Length: 104\r\nConnection: close\r\n\r\n\
    {\"error\":{\"code\":\"busy\",\"message\":\"there are too many connections\",\"remedy\":\"connect again in a while\"}}";
/// Pause after the system could not accept a connection, for want of file descriptors for example.
const PAUSE: Duration = Duration::from_millis(50);

/// Listens, with as long a queue as the system grants.
///
/// # Errors
/// That the address cannot be had.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(MAX_CONNECTIONS)
}

/// Accepts until `ending` says so, then lets what is under way be finished, at most [`DRAIN_TIME`];
/// gives the number of connections that were not finished then.
/// Requests are answered by the runtime `answering`, but for those of probes: these are answered by
/// the one that polls this, one a connection; it has little else to do, however much the other has.
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
                            // Whoever does not read this is gone.
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
    // Nobody can connect any more.
    drop(listener);
    drained(&places, max, DRAIN_TIME).await
}

/// Answers a connection, here if it is a probe's, and else where requests are answered.
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
        // What may be under way is finished with all else.
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
        // Nothing came.
        Err(_) => {}
    }
}

/// Open files that the system grants this process, once it is asked for all that it would.
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

/// Waits until all of `n` places are free again, which the last connection leaves at its end; gives
/// the number of those that are not in time.
async fn drained(places: &Semaphore, n: u32, time: Duration) -> usize {
    match timeout(time, places.acquire_many(n)).await {
        Ok(_) => 0,
        Err(_) => (n as usize).saturating_sub(places.available_permits()),
    }
}

/// Whether the first request of a connection is that of a probe, once its first bytes are there.
async fn is_probe(stream: &TcpStream) -> bool {
    let mut first = [0; PROBE.len()];
    stream.peek(&mut first).await.is_ok_and(|n| first.get(..n) == Some(PROBE))
}

/// Waits until the server ends.
async fn over(ending: &mut watch::Receiver<bool>) {
    // An error says that the sender is gone, which ends the server as well.
    let _ = ending.wait_for(|ends| *ends).await;
}

/// Answers the requests of one connection, or the first `only`; when the server ends, the one under way
/// is the last.
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
        // Clients leave as they like.
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
