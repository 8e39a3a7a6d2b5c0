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

/// Accepts until `ending` says so, then lets what is under way be finished, at most [`DRAIN_TIME`].
/// Requests are answered by the runtime `answering`, not by the one that polls this.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    answering: &Handle,
    mut ending: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS as usize));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = over(&mut ending) => break,
        };
        match accepted {
            Ok((stream, from)) => {
                let (router, ending) = (router.clone(), ending.clone());
                let Ok(stream) = stream.into_std() else { continue };
                answering.spawn(async move {
                    if let Ok(stream) = TcpStream::from_std(stream) {
                        answer(stream, from, router, ending).await;
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(PAUSE).await;
            }
        }
    }
    // Nobody can connect any more; all places are free once the last connection has ended.
    drop(listener);
    let _ = timeout(DRAIN_TIME, places.acquire_many(MAX_CONNECTIONS)).await;
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
