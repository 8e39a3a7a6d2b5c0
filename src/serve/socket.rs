//! Passes on the bytes of a connection. Ends the connection if its client reads replies too slowly.
//! Detects request headers that give the length of the body twice, which the HTTP parser accepts.
//! Does not depend on what requests do.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead as _, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};

/// Time in which a client that does not keep up must read [`WRITE_BYTES`] of a reply, or the rest
/// of the reply.
pub(super) const WRITE_TIME: Duration = Duration::from_secs(30);
/// Number of bytes that a client that does not keep up must read in [`WRITE_TIME`].
pub(super) const WRITE_BYTES: usize = 1 << 20;
/// Maximum number of bytes that are read from a connection at once.
const READ_BYTES: usize = 16 << 10;

/// A connection whose reads and writes are checked as they pass.
pub(super) struct Socket {
    io: TokioIo<TcpStream>,
    time: Duration,
    stalled: Option<Stalled>,
    heads: Heads,
    two_lengths: Arc<AtomicBool>,
}

/// Watches a client that does not read a reply fast enough.
struct Stalled {
    timer: Pin<Box<Sleep>>,
    /// Number of bytes that the client must read before the timer ends.
    left: usize,
}

impl Socket {
    /// Wraps a connection. `time` is the time in which a client that does not keep up must read
    /// [`WRITE_BYTES`].
    pub(super) fn new(stream: TcpStream, time: Duration) -> Socket {
        let io = TokioIo::new(stream);
        Socket { io, time, stalled: None, heads: Heads::default(), two_lengths: Arc::default() }
    }

    /// Returns a flag that is set once a request header has given the length of its body twice.
    pub(super) fn two_lengths(&self) -> Arc<AtomicBool> {
        self.two_lengths.clone()
    }

    fn written(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match outcome {
            Poll::Ready(Ok(n)) => {
                self.stalled = self.stalled.take().and_then(|stalled| {
                    let left = stalled.left.saturating_sub(n);
                    (left > 0).then_some(Stalled { left, ..stalled })
                });
                Poll::Ready(Ok(n))
            }
            Poll::Pending => {
                let begin = || Stalled { timer: Box::pin(sleep(self.time)), left: WRITE_BYTES };
                ready!(self.stalled.get_or_insert_with(begin).timer.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut)))
            }
            failed => failed,
        }
    }
}

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; READ_BYTES];
        let n = to.remaining().min(READ_BYTES);
        let mut read = ReadBuf::new(bytes.get_mut(..n).unwrap_or_default());
        ready!(Pin::new(self.io.inner_mut()).poll_read(cx, &mut read))?;
        if self.heads.see(read.filled()) {
            self.two_lengths.store(true, Ordering::Relaxed);
        }
        to.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.written(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write_vectored(cx, parts);
        self.written(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    /// Stops watching the client for slowness, since hyper flushes once all is written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stalled = None;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Scans the request headers of a connection for the lengths of bodies, and skips the bodies. Stops
/// at a chunked body, since the connection ends after such a request.
#[derive(Default)]
struct Heads {
    /// The first bytes of the current header line, at most [`LINE_BYTES`].
    line: Vec<u8>,
    length: Option<u64>,
    chunks: bool,
    /// Number of bytes of the current body that are still to be skipped.
    body: u64,
    over: bool,
}

/// Number of bytes of each header line that are kept.
const LINE_BYTES: usize = 64;

impl Heads {
    /// Scans further bytes of the connection. Returns whether a header that ends in these bytes
    /// gives both a length and a chunked body.
    fn see(&mut self, mut bytes: &[u8]) -> bool {
        while !self.over && !bytes.is_empty() {
            let skipped = usize::try_from(self.body).unwrap_or(usize::MAX).min(bytes.len());
            self.body -= skipped as u64;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            let room = LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(part.get(..room).unwrap_or(part));
            bytes = rest;
            if end.is_some() && self.end_line() {
                return true;
            }
        }
        false
    }

    fn end_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(line.trim_ascii()).to_ascii_lowercase();
        if let Some((name, value)) = text.split_once(':') {
            match name.trim() {
                "content-length" => self.length = Some(value.trim().parse().unwrap_or(u64::MAX)),
                "transfer-encoding" => self.chunks = true,
                _ => {}
            }
        }
        if !text.is_empty() {
            return false;
        }
        self.over = self.chunks;
        let length = self.length.take();
        self.body = length.unwrap_or(0);
        self.over && length.is_some()
    }
}

#[cfg(test)]
mod tests {
    use hyper::rt::ReadBuf as HyperBuf;
    use std::future::poll_fn;
    use tokio::{io::AsyncReadExt as _, net::TcpListener};

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    async fn write(socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| Pin::new(&mut *socket).poll_write(cx, bytes)).await
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_left_and_one_that_reads_is_not() {
        let (mut client, server) = pair().await;
        let mut socket = Socket::new(server, Duration::from_millis(200));
        let bytes = vec![0; 1 << 20];
        let error = loop {
            match write(&mut socket, &bytes).await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);

        let (mut reader, server) = pair().await;
        let mut socket = Socket::new(server, Duration::from_secs(60));
        let read =
            tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
        for _ in 0..64 {
            write(&mut socket, &bytes).await.unwrap();
        }
        drop(socket);
        assert!(read.await.unwrap().unwrap() > 1 << 20);
        let mut one = [0];
        assert!(client.read_exact(&mut one).await.is_ok(), "what was sent is there");
    }

    #[tokio::test]
    async fn bytes_come_through() {
        let (client, server) = pair().await;
        client.writable().await.unwrap();
        client
            .try_write(b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
        let mut socket = Socket::new(server, WRITE_TIME);
        let mut bytes = [0; 128];
        let mut read = HyperBuf::new(&mut bytes);
        poll_fn(|cx| Pin::new(&mut socket).poll_read(cx, read.unfilled())).await.unwrap();
        assert!(
            read.filled().starts_with(b"GET / HTTP/1.1") && read.filled().ends_with(b"\r\n\r\n")
        );
        assert!(socket.two_lengths().load(Ordering::Relaxed));
    }

    #[test]
    fn heads_that_give_two_lengths_are_noticed_wherever_their_parts_end() {
        let seen = |text: &str, at: usize| {
            let mut heads = Heads::default();
            text.as_bytes().chunks(at).any(|part| heads.see(part))
        };
        let body =
            "POST / HTTP/1.1\r\nContent-Length: 31\r\n\r\nTransfer-Encoding: chunked\r\n\r\nx";
        for at in [1, 7, 1000] {
            assert!(!seen(body, at), "a body is no head");
            let both = "GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\ntransfer-encoding : chunked\r\n\
                        Host: a\r\ncontent-LENGTH: 5\r\n\r\n";
            assert!(seen(both, at), "parts of {at}");
            assert!(seen(&format!("{body}{both}"), at), "parts of {at}");
            let chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
                          Content-Length: 1\r\n\r\n";
            assert!(!seen(chunks, at), "chunks are not looked at");
        }
    }
}
