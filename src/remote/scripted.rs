//! A service for tests that answers on the loopback with what a script says.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// Longer than any deadline of a test.
const HANG: Duration = Duration::from_secs(5);

/// A running service; its thread ends with the script, or with the process.
pub(crate) struct Scripted {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// Answers each request with the next bytes; with nothing, and no end, where they are empty.
    pub(crate) fn new(script: Vec<Vec<u8>>) -> Scripted {
        let mut script = script.into_iter();
        Scripted::answering(move |_| script.next())
    }

    /// Answers each request with its body.
    pub(crate) fn echo() -> Scripted {
        Scripted::answering(|body| Some(reply(200, body)))
    }

    /// Answers each request with what a function says of its body, until that is nothing.
    pub(crate) fn answering(
        mut answer: impl FnMut(&str) -> Option<Vec<u8>> + Send + 'static,
    ) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let heard = requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some((head, body)) = request(&stream) else { continue };
                heard.lock().unwrap().push(format!("{head}\n{body}"));
                let Some(bytes) = answer(&body) else { return };
                if bytes.is_empty() {
                    thread::spawn(move || {
                        thread::sleep(HANG);
                        drop(stream);
                    });
                } else {
                    // Who asks may have gone.
                    let _ = stream.write_all(&bytes);
                }
            }
        });
        Scripted { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far, each with head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// A whole reply.
pub(crate) fn reply(status: u16, body: &str) -> Vec<u8> {
    reply_with(status, &[], body)
}

/// A whole reply with further headers.
pub(crate) fn reply_with(status: u16, headers: &[&str], body: &str) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    )
    .into_bytes()
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
