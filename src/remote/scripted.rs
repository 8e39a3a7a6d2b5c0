//! A service on the loopback interface that follows a script, faults included, for tests.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "compiled into several crates, each of which uses a part"
)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// Time that is longer than any deadline in a test.
const HANG: Duration = Duration::from_secs(5);

/// One step of a scripted connection.
#[derive(Clone)]
pub enum Act {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes one by one, with this pause before each.
    Drip(Vec<u8>, Duration),
    /// Sends these bytes this many times, or until the reader closes the connection.
    Repeat(Vec<u8>, usize),
    /// Pauses for this time; `None`: longer than any deadline in a test.
    Pause(Option<Duration>),
    /// Reads the next request on the same connection, and follows the next list of steps in the
    /// script.
    KeepAlive,
    /// Resets the connection, so that the reader gets an error. Must be the first step: the reset
    /// happens because the body of the request stays unread.
    Reset,
}

/// A running scripted service; its threads end with the process.
pub struct Scripted {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    written: Arc<AtomicUsize>,
}

type Answer = dyn FnMut(&str) -> Option<Vec<Act>> + Send;

impl Scripted {
    /// Starts a service that answers each request with the next bytes of the script; empty bytes
    /// mean no reply.
    pub fn new(script: Vec<Vec<u8>>) -> Scripted {
        let mut script = script.into_iter();
        Scripted::answering(move |_| script.next())
    }

    /// Starts a service that answers each request with the request's own body.
    pub fn echo() -> Scripted {
        Scripted::answering(|body| Some(reply(200, body)))
    }

    /// Starts a service that answers each request with the bytes that `answer` returns for the
    /// request's body. If it returns `None`, the connection is closed.
    pub fn answering(mut answer: impl FnMut(&str) -> Option<Vec<u8>> + Send + 'static) -> Scripted {
        Scripted::start(false, move |body| match answer(body)? {
            bytes if bytes.is_empty() => Some(vec![Act::Pause(None)]),
            bytes => Some(vec![Act::Send(bytes)]),
        })
    }

    /// Starts a service that follows the next list of steps for each request. The connection is
    /// closed at the end of a list, and if the script has no further list.
    pub fn acting(script: Vec<Vec<Act>>) -> Scripted {
        let resets = script.iter().any(|acts| matches!(acts.first(), Some(Act::Reset)));
        let mut script = script.into_iter();
        Scripted::start(resets, move |_| script.next())
    }

    /// Starts a service that follows the steps that `answer` returns for each request's body. If it
    /// returns `None`, the connection is closed.
    pub fn doing(answer: impl FnMut(&str) -> Option<Vec<Act>> + Send + 'static) -> Scripted {
        Scripted::start(false, answer)
    }

    /// Starts a service that handles many requests at the same time. If `resets` is true, bodies of
    /// requests stay unread.
    fn start(
        resets: bool,
        answer: impl FnMut(&str) -> Option<Vec<Act>> + Send + 'static,
    ) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let written = Arc::new(AtomicUsize::new(0));
        let (heard, sent) = (requests.clone(), written.clone());
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (heard, sent, answer) = (heard.clone(), sent.clone(), answer.clone());
                thread::spawn(move || serve(&stream.unwrap(), resets, &answer, &heard, &sent));
            }
        });
        Scripted { address, requests, written }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far, each as its head, a line break and its body.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns how many bytes of [`Act::Repeat`] steps have been sent.
    pub fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }
}

/// Returns the address of a port of the loopback interface on which nothing listens.
pub fn refused_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn serve(
    stream: &TcpStream,
    resets: bool,
    answer: &Mutex<Answer>,
    heard: &Mutex<Vec<String>>,
    written: &AtomicUsize,
) {
    loop {
        let Some((head, body)) = (if resets { head(stream) } else { request(stream) }) else {
            // Not a request, for example a TLS greeting.
            let _ = (&mut &*stream).write_all(b"HTTP/1.1 400 X\r\ncontent-length: 0\r\n\r\n");
            return;
        };
        heard.lock().unwrap().push(format!("{head}\n{body}"));
        let Some(acts) = answer.lock().unwrap()(&body) else { return };
        if !act(stream, &acts, written) {
            return;
        }
    }
}

/// Follows a list of steps. Returns whether the connection stays open for another request.
fn act(mut stream: &TcpStream, acts: &[Act], written: &AtomicUsize) -> bool {
    for act in acts {
        // The client may have closed the connection.
        let sent = match act {
            Act::Send(bytes) => stream.write_all(bytes).is_ok(),
            Act::Drip(bytes, pause) => bytes.iter().all(|byte| {
                thread::sleep(*pause);
                stream.write_all(&[*byte]).is_ok()
            }),
            Act::Repeat(bytes, times) => (0..*times).all(|_| {
                let sent = stream.write_all(bytes).is_ok();
                written.fetch_add(if sent { bytes.len() } else { 0 }, Ordering::Relaxed);
                sent
            }),
            Act::Pause(time) => {
                thread::sleep(time.unwrap_or(HANG));
                true
            }
            Act::KeepAlive => return true,
            // The operating system resets the connection because the body is unread.
            Act::Reset => true,
        };
        if !sent {
            return false;
        }
    }
    false
}

/// Returns the bytes of a complete reply.
pub fn reply(status: u16, body: &str) -> Vec<u8> {
    reply_with(status, &[], body)
}

/// Returns the bytes of a complete reply with further header lines.
pub fn reply_with(status: u16, headers: &[&str], body: &str) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

/// Reads the head of a request, whose body stays unread; returns the head and an empty body.
fn head(mut stream: &TcpStream) -> Option<(String, String)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some((String::from_utf8(head).ok()?, String::new()))
}

/// Reads a request; returns its head and its body.
fn request(stream: &TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).ok()?))
}
