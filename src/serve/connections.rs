//! Connections: accepted one by one, bounded in number, dropped when a client sends its request too
//! slowly, finished when the server ends. Must not know what is asked.
//!
//! The accept loop is our own because `axum::serve` sets no timer, so that whoever sends half a
//! header would keep a connection for ever. It runs apart from what answers: where thousands
//! connect at a time and nobody accepts them, the system drops those that come on top, a probe among
//! them, and they try again after seconds.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::Handle,
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};

/// Time for the header of a request.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Connections at a time; further ones wait in the system's own queue.
const MAX_CONNECTIONS: u32 = 16_384;
/// Time for what is under way when the server ends.
const DRAIN_TIME: Duration = Duration::from_secs(30);
/// What the request of a probe begins with.
const PROBE: &[u8] = b"GET /health/live";
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
/// the one that polls this, which has little else to do, however much the other has.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    answering: &Handle,
    mut ending: watch::Receiver<bool>,
) -> usize {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS as usize));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return 0 };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = over(&mut ending) => break,
        };
        match accepted {
            Ok((stream, from)) => {
                let (router, ending) = (router.clone(), ending.clone());
                let answering = answering.clone();
                tokio::spawn(async move {
                    let mut ends = ending.clone();
                    let probes = tokio::select! {
                        probes = timeout(HEADER_TIME, is_probe(&stream)) => probes,
                        // What may be under way is finished with all else.
                        () = over(&mut ends) => Ok(false),
                    };
                    match probes {
                        Ok(true) => answer(stream, from, router, ending).await,
                        Ok(false) => {
                            let Ok(stream) = stream.into_std() else { return };
                            answering.spawn(async move {
                                if let Ok(stream) = TcpStream::from_std(stream) {
                                    answer(stream, from, router, ending).await;
                                }
                                drop(place);
                            });
                        }
                        // Nothing came.
                        Err(_) => {}
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(PAUSE).await;
            }
        }
    }
    // Nobody can connect any more.
    drop(listener);
    drained(&places, MAX_CONNECTIONS, DRAIN_TIME).await
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

/// Answers the requests of one connection; when the server ends, the one under way is the last.
async fn answer(
    stream: TcpStream,
    from: SocketAddr,
    router: Router,
    mut ending: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .serve_connection(TokioIo::new(stream), service);
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
