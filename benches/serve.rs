//! Measures a running server under load: clients that each ask one question after another, far more
//! connections than it can answer, clients that send half a header, and bundles replaced, then the
//! server ended, while clients ask.
//!
//! ```text
//! cargo bench --bench serve -- clients 127.0.0.1:7700 8 30       8 clients for 30 seconds
//! cargo bench --bench serve -- overload 127.0.0.1:7700 10000 30 PID
//! cargo bench --bench serve -- slow 127.0.0.1:7700 1000
//! cargo bench --bench serve -- swap 127.0.0.1:7700 100 PID BUNDLE BUNDLE
//! ```
//!
//! Questions are the training questions of the served base, or the lines of the file that
//! `AGENT_BENCH_QUESTIONS` names. Without arguments nothing runs.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench may panic and print, and signals the given server"
)]

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream as Blocking,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Mutex,
    time::{sleep, timeout},
};

/// Maximum wait for a reply.
const PATIENCE: Duration = Duration::from_secs(90);

/// An HTTP reply; `retry_after` is in seconds.
struct Reply {
    status: u16,
    retry_after: Option<u64>,
    closes: bool,
    body: Vec<u8>,
}

/// A client with one connection, which asks one question after another.
struct Client {
    address: String,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Client {
    fn new(address: &str) -> Client {
        Client { address: address.to_owned(), stream: None, buffer: Vec::new() }
    }

    /// Opens the connection, if there is none.
    async fn connect(&mut self) -> io::Result<&mut TcpStream> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.address).await?;
            stream.set_nodelay(true)?;
            self.buffer.clear();
            self.stream = Some(stream);
        }
        self.stream.as_mut().ok_or(io::ErrorKind::NotConnected.into())
    }

    /// Sends a request in one write and reads its reply.
    async fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<Reply> {
        let request = request(method, path, body);
        let stream = self.connect().await?;
        let sent = stream.write_all(request.as_bytes()).await;
        let reply = match sent {
            Ok(()) => timeout(PATIENCE, self.read()).await.map_err(io::Error::other)?,
            Err(error) => Err(error),
        };
        if reply.as_ref().map_or(true, |reply| reply.closes) {
            self.stream = None;
        }
        reply
    }

    async fn read(&mut self) -> io::Result<Reply> {
        let Client { stream, buffer, .. } = self;
        let stream = stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        loop {
            if let Some(reply) = parsed(buffer) {
                return Ok(reply);
            }
            if stream.read_buf(buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn request(method: &str, path: &str, body: &str) -> String {
    let n = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {n}\r\n\r\n{body}"
    )
}

/// Takes the reply at the beginning of a buffer, if it is complete.
fn parsed(buffer: &mut Vec<u8>) -> Option<Reply> {
    let end = buffer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
    let field = |name: &str| {
        head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::trim)
    };
    let length: usize = field("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    let whole = end + 4 + length;
    if buffer.len() < whole {
        return None;
    }
    let reply = Reply {
        status: head.split(' ').nth(1)?.parse().ok()?,
        retry_after: field("retry-after").and_then(|n| n.parse().ok()),
        closes: field("connection") == Some("close"),
        body: buffer[end + 4..whole].to_vec(),
    };
    buffer.drain(..whole);
    Some(reply)
}

/// Sends one request on its own connection; returns the status and the body as JSON.
fn once(address: &str, method: &str, path: &str, body: &str) -> io::Result<(u16, Value)> {
    let mut stream = Blocking::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request(method, path, body).as_bytes())?;
    let mut buffer = Vec::new();
    let mut piece = [0; 65_536];
    loop {
        if let Some(reply) = parsed(&mut buffer) {
            let value = serde_json::from_slice(&reply.body).unwrap_or_default();
            return Ok((reply.status, value));
        }
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => buffer.extend_from_slice(&piece[..n]),
        }
    }
}

/// Builds request bodies for the training questions of the base, or for the questions of a file.
fn questions(address: &str) -> Arc<Vec<String>> {
    let request = |question: &Value| json!({"query": question}).to_string();
    if let Ok(file) = std::env::var("AGENT_BENCH_QUESTIONS") {
        let text = std::fs::read_to_string(file).expect("a file of questions");
        return Arc::new(text.lines().map(|line| request(&line.into())).collect());
    }
    let path = "/v1/splits/train/queries?limit=200";
    let (status, page) = once(address, "GET", path, "").expect("the server answers");
    assert_eq!(status, 200, "{page}");
    let queries = page["queries"].as_array().expect("questions").iter();
    Arc::new(queries.map(|one| request(&one["query"])).collect())
}

/// Returns the quantile of sorted times at a share in `0..=1`; NaN without times.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

fn told(what: &str, mut times: Vec<f64>, seconds: f64) {
    times.sort_by(f64::total_cmp);
    println!(
        "{what}: {:.1} answers/s, p50 {:.1} ms, p99 {:.1} ms, {} answers",
        times.len() as f64 / seconds,
        quantile(&times, 0.5),
        quantile(&times, 0.99),
        times.len()
    );
}

/// Lets `n` clients ask for some seconds; a refused client waits as long as `Retry-After` says.
/// Returns the times of answers, in milliseconds, and the number of refusals.
async fn asked(address: &str, n: usize, seconds: u64) -> (Vec<f64>, u64) {
    let questions = questions(address);
    let times = Arc::new(Mutex::new(Vec::new()));
    let refused = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let asking = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for at in 0..n {
        let (questions, times, refused) = (questions.clone(), times.clone(), refused.clone());
        let (over, asking, address) = (over.clone(), asking.clone(), address.to_owned());
        tasks.push(tokio::spawn(async move {
            let mut client = Client::new(&address);
            while client.connect().await.is_err() {
                sleep(Duration::from_millis(100)).await;
            }
            asking.fetch_add(1, Ordering::Relaxed);
            let mut next = at;
            while !over.load(Ordering::Relaxed) {
                let began = Instant::now();
                let body = &questions[next % questions.len()];
                next += 1;
                match client.ask("POST", "/v1/query", body).await {
                    Ok(Reply { status: 200, .. }) if !over.load(Ordering::Relaxed) => {
                        times.lock().await.push(began.elapsed().as_secs_f64() * 1e3);
                    }
                    Ok(Reply { status: 429 | 503, retry_after, .. }) => {
                        refused.fetch_add(1, Ordering::Relaxed);
                        let wait = Duration::from_secs(retry_after.unwrap_or(1));
                        // Spread, so that not all clients ask again at the same moment.
                        sleep(wait + Duration::from_millis((at as u64 * 37) % 1_000)).await;
                    }
                    Ok(_) => {}
                    Err(_) => sleep(Duration::from_millis(100)).await,
                }
            }
        }));
    }
    while asking.load(Ordering::Relaxed) < n {
        sleep(Duration::from_millis(50)).await;
    }
    // Answers from the time when clients still connected do not count.
    times.lock().await.clear();
    sleep(Duration::from_secs(seconds)).await;
    over.store(true, Ordering::Relaxed);
    let times = std::mem::take(&mut *times.lock().await);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    (times, refused.load(Ordering::Relaxed))
}

/// Returns the resident memory of a process that is not backed by files, MiB.
fn memory(pid: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

async fn overload(address: &str, n: usize, seconds: u64, pid: &str) {
    let (alone, _) = asked(address, 4, seconds).await;
    let capacity = alone.len() as f64 / seconds as f64;
    told("4 clients", alone, seconds as f64);
    let before = memory(pid);
    let watched = address.to_owned();
    let over = Arc::new(AtomicBool::new(false));
    let ended = over.clone();
    let live = thread::spawn(move || {
        let mut times = Vec::new();
        while !ended.load(Ordering::Relaxed) {
            let began = Instant::now();
            let alive =
                once(&watched, "GET", "/health/live", "").is_ok_and(|(code, _)| code == 200);
            assert!(alive, "it lives");
            times.push(began.elapsed().as_secs_f64() * 1e3);
            thread::sleep(Duration::from_millis(100));
        }
        times
    });
    let (times, refused) = asked(address, n, seconds).await;
    let after = memory(pid);
    over.store(true, Ordering::Relaxed);
    let goodput = times.len() as f64 / seconds as f64;
    told(&format!("{n} connections"), times, seconds as f64);
    let share = 100.0 * goodput / capacity;
    println!("goodput {share:.0} % of {capacity:.1} answers/s; {refused} refusals");
    println!("memory {before:.0} MiB before, {after:.0} MiB while they asked");
    let mut live = live.join().expect("it lives");
    live.sort_by(f64::total_cmp);
    println!(
        "/health/live: p50 {:.1} ms, p99 {:.1} ms, most {:.1} ms",
        quantile(&live, 0.5),
        quantile(&live, 0.99),
        quantile(&live, 1.0)
    );
}

/// Opens `n` connections that send half a header and wait; counts those that the server drops.
async fn slow(address: &str, n: usize) {
    let mut streams = Vec::new();
    for _ in 0..n {
        let mut stream = TcpStream::connect(address).await.expect("it connects");
        stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: loc").await.expect("it is sent");
        streams.push(stream);
    }
    let began = Instant::now();
    let mut dropped = 0;
    for mut stream in streams {
        let mut left = Vec::new();
        let ended = timeout(Duration::from_secs(30), stream.read_to_end(&mut left)).await;
        dropped += usize::from(ended.is_ok());
    }
    println!("{dropped} of {n} dropped within {:.1} s", began.elapsed().as_secs_f64());
}

/// Replaces the bundle `n` times while clients ask, then sends SIGTERM; counts the accepted
/// requests that got no answer.
async fn swap(address: &str, n: usize, pid: &str, bundles: [&str; 2]) {
    let questions = questions(address);
    let (answered, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let lost = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for at in 0..8 {
        let (questions, address) = (questions.clone(), address.to_owned());
        let (answered, refused, lost) = (answered.clone(), refused.clone(), lost.clone());
        tasks.push(tokio::spawn(async move {
            let mut client = Client::new(&address);
            for next in at.. {
                // A client that is not accepted has lost no request.
                if client.connect().await.is_err() {
                    return;
                }
                let fresh = client.buffer.is_empty();
                match client.ask("POST", "/v1/query", &questions[next % questions.len()]).await {
                    Ok(Reply { status: 200, .. }) => answered.fetch_add(1, Ordering::Relaxed),
                    Ok(_) => refused.fetch_add(1, Ordering::Relaxed),
                    // A connection still in the queue of a closed listener was never accepted.
                    Err(error) if fresh && error.kind() == io::ErrorKind::ConnectionReset => return,
                    Err(_) => lost.fetch_add(1, Ordering::Relaxed),
                };
            }
        }));
    }
    let began = Instant::now();
    let mut admin = Client::new(address);
    for at in 0..n {
        let body = json!({"bundle": bundles[at % 2]}).to_string();
        let reply = admin.ask("PUT", "/v1/bundles/active", &body).await.expect("it answers");
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    }
    let seconds = began.elapsed().as_secs_f64();
    let before = answered.load(Ordering::Relaxed);
    println!("{n} exchanges in {seconds:.1} s, {before} answers meanwhile");
    std::process::Command::new("kill").arg(pid).status().expect("kill runs");
    for task in tasks {
        let _ = timeout(Duration::from_secs(60), task).await;
    }
    let [answered, refused, lost] =
        [answered, refused, lost].map(|count| count.load(Ordering::Relaxed));
    println!("{answered} answered, {refused} refused, {lost} lost");
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().expect("a number");
    match args[..] {
        ["clients", address, n, seconds] => {
            let (n, seconds) = (number(n), number(seconds));
            let (times, refused) = asked(address, n, seconds as u64).await;
            told(&format!("{n} clients"), times, seconds as f64);
            println!("{refused} refusals");
        }
        ["overload", address, n, seconds, pid] => {
            overload(address, number(n), number(seconds) as u64, pid).await;
        }
        ["slow", address, n] => slow(address, number(n)).await,
        ["swap", address, n, pid, one, other] => {
            swap(address, number(n), pid, [one, other]).await;
        }
        _ => println!("see the head of benches/serve.rs for what can be measured"),
    }
}
