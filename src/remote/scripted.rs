//! A scripted service for tests on the loopback interface, faults included.

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

/// Longer than any deadline of a test.
const HANG: Duration = Duration::from_secs(5);

/// A step of a scripted connection.
#[derive(Clone)]
pub enum Act {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends bytes one by one, with a pause before each.
    Drip(Vec<u8>, Duration),
    /// Sends bytes this many times, or until the reader closes the connection.
    Repeat(Vec<u8>, usize),
    /// Pauses for this time, by default longer than any test waits.
    Pause(Option<Duration>),
    /// Reads the next request of the connection, and follows its list in the script.
    KeepAlive,
    /// Resets the connection, so that the reader gets an error. Must be the first step, because the
    /// body of the request then stays unread.
    Reset,
}

/// A running service; its threads end with the process.
pub struct Scripted {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    written: Arc<AtomicUsize>,
}

type Answer = dyn FnMut(&str) -> Option<Vec<Act>> + Send;

impl Scripted {
    /// Answers each request with the next bytes of the script; empty bytes mean silence.
    pub fn new(script: Vec<Vec<u8>>) -> Scripted {
        let mut script = script.into_iter();
        Scripted::answering(move |_| script.next())
    }

    /// Answers each request with its body.
    pub fn echo() -> Scripted {
        Scripted::answering(|body| Some(reply(200, body)))
    }

    /// Answers each request by a function of its body, until the function returns none.
    pub fn answering(mut answer: impl FnMut(&str) -> Option<Vec<u8>> + Send + 'static) -> Scripted {
        Scripted::start(false, move |body| match answer(body)? {
            bytes if bytes.is_empty() => Some(vec![Act::Pause(None)]),
            bytes => Some(vec![Act::Send(bytes)]),
        })
    }

    /// Follows the next list for each request; closes connections when lists or script end.
    pub fn acting(script: Vec<Vec<Act>>) -> Scripted {
        let resets = script.iter().any(|acts| matches!(acts.first(), Some(Act::Reset)));
        let mut script = script.into_iter();
        Scripted::start(resets, move |_| script.next())
    }

    /// Follows the steps that a function returns for each request's body, until it returns none.
    pub fn doing(answer: impl FnMut(&str) -> Option<Vec<Act>> + Send + 'static) -> Scripted {
        Scripted::start(false, answer)
    }

    /// Answers many requests at a time. If a script resets, bodies stay unread.
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

    /// The requests so far, each with head and body.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Bytes of repeated pieces that the reader has taken.
    pub fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }
}

/// A port of the loopback interface without a listener.
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

/// Follows a list of steps; returns whether the connection stays open.
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
            // The unread body makes the system break the connection off.
            Act::Reset => true,
        };
        if !sent {
            return false;
        }
    }
    false
}

/// A complete reply.
pub fn reply(status: u16, body: &str) -> Vec<u8> {
    reply_with(status, &[], body)
}

/// A complete reply with further headers.
pub fn reply_with(status: u16, headers: &[&str], body: &str) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

/// Head of a request; its body stays unread.
fn head(mut stream: &TcpStream) -> Option<(String, String)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some((String::from_utf8(head).ok()?, String::new()))
}

/// Head and body of a request.
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
