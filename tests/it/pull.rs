//! `agent data pull`, against a hub on the loopback that the test plays.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use sha2::{Digest, Sha256};

use crate::support::{Ran, World};

const ZIP: &str = "/datasets/snap-stanford/stark/resolve/main/skb/prime/processed.zip";

/// What came in: path and the headers that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Asked {
    path: String,
    range: Option<String>,
    if_range: Option<String>,
    token: Option<String>,
}

/// What goes out.
enum Answer {
    /// Status, headers, body; the length is that of the body unless a header says otherwise.
    Send(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Nothing, for a while.
    Hang,
}

/// A hub that answers with a function of the request and of how often that path was asked for.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn new(answer: impl Fn(&Asked, usize) -> Answer + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (asked, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (all, stopped) = (asked.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let mut hung = Vec::new();
            while let Ok((stream, _)) = listener.accept() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let request = read_request(&stream);
                let mut all = all.lock().unwrap();
                let before = all.iter().filter(|asked: &&Asked| asked.path == request.path).count();
                all.push(request.clone());
                match answer(&request, before) {
                    Answer::Send(status, headers, body) => send(stream, status, &headers, &body),
                    Answer::Hang => hung.push(stream),
                }
            }
        });
        Server { address, asked, stop, thread: Some(thread) }
    }

    fn asked(&self, path: &str) -> Vec<Asked> {
        let all = self.asked.lock().unwrap();
        all.iter().filter(|asked| asked.path == path).cloned().collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address.trim_start_matches("http://"));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn read_request(stream: &TcpStream) -> Asked {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let mut asked =
        Asked { path: first.split(' ').nth(1).unwrap_or_default().to_owned(), ..Asked::default() };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ").unwrap();
        match name.to_lowercase().as_str() {
            "range" => asked.range = Some(value.to_owned()),
            "if-range" => asked.if_range = Some(value.to_owned()),
            "authorization" => asked.token = Some(value.to_owned()),
            _ => {}
        }
    }
    asked
}

fn send(mut stream: TcpStream, status: u16, headers: &[(&str, String)], body: &[u8]) {
    let mut head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "content-length") {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    // A client that has gone is part of some tests.
    let _ =
        stream.write_all(format!("{head}\r\n").as_bytes()).and_then(|()| stream.write_all(body));
}

fn ok(body: impl Into<Vec<u8>>) -> Answer {
    Answer::Send(200, vec![("etag", "\"tag\"".to_owned())], body.into())
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn zip_bytes() -> Vec<u8> {
    (0..200_000u32).map(|i| (i % 251) as u8).collect()
}

/// Files of the smallest dataset, whose archive is none.
fn files() -> HashMap<String, Vec<u8>> {
    let files = [
        ("qa/prime/stark_qa/stark_qa.csv", b"id,query,answer_ids\n".to_vec()),
        ("qa/prime/split/train.index", b"1".to_vec()),
        ("skb/prime/processed.zip", zip_bytes()),
        ("skb/prime/raw.zip", b"raw".to_vec()),
    ];
    files.into_iter().map(|(path, bytes)| (path.to_owned(), bytes)).collect()
}

/// The answers of a hub that has these files.
fn repository(files: HashMap<String, Vec<u8>>) -> HashMap<String, Vec<u8>> {
    let list = |folder: &str| {
        let entry = |(path, bytes): (&String, &Vec<u8>)| {
            let mut entry = serde_json::json!({
                "type": "file", "oid": "x", "path": path, "size": bytes.len()
            });
            if path.ends_with(".zip") {
                let (oid, size) = (hex(bytes), bytes.len());
                entry["lfs"] = serde_json::json!({"oid": oid, "size": size, "pointerSize": 130});
            }
            entry
        };
        let in_folder = files.iter().filter(|(path, _)| path.starts_with(folder));
        let mut entries: Vec<_> = in_folder.map(entry).collect();
        entries
            .push(serde_json::json!({"type": "directory", "oid": "x", "path": "qa/prime/split"}));
        // A name that leads out of the folder is not asked for.
        let out = serde_json::json!({"type": "file", "path": "qa/prime/split/../../x", "size": 1});
        entries.push(out);
        serde_json::to_vec(&entries).unwrap()
    };
    let mut answers = HashMap::new();
    for kind in ["qa", "skb"] {
        let folder = format!("{kind}/prime");
        let path = format!("/api/datasets/snap-stanford/stark/tree/main/{folder}?recursive=true");
        answers.insert(path, list(&folder));
    }
    for (path, bytes) in files {
        answers.insert(format!("/datasets/snap-stanford/stark/resolve/main/{path}"), bytes);
    }
    answers
}

/// A hub with all files, where `special` may answer for the archive.
fn hub(special: impl Fn(&Asked, usize) -> Option<Answer> + Send + 'static) -> Server {
    let answers = repository(files());
    Server::new(move |asked, before| {
        if asked.path == ZIP
            && let Some(answer) = special(asked, before)
        {
            return answer;
        }
        match answers.get(&asked.path) {
            Some(bytes) => ok(bytes.clone()),
            None => Answer::Send(404, Vec::new(), Vec::new()),
        }
    })
}

fn command(world: &World, server: &Server) -> Command {
    let mut command = world.command([
        "data",
        "pull",
        "prime",
        "--idle-timeout",
        "1",
        "--download-only",
        "--json",
    ]);
    command.env("HF_ENDPOINT", &server.address).env("HF_TOKEN", "secret");
    command
}

fn pull(world: &World, server: &Server) -> Ran {
    Ran::of(command(world, server).output().unwrap())
}

/// Checks that the archive is whole and that nothing unfinished is beside it.
#[track_caller]
fn is_whole(world: &World) {
    let folder = world.path("home/downloads/stark/skb/prime");
    assert!(fs::read(folder.join("processed.zip")).unwrap() == zip_bytes());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

fn part(world: &World) -> std::path::PathBuf {
    let digest = &hex(&zip_bytes())[..16];
    world.path(&format!("home/downloads/stark/skb/prime/processed.zip.{digest}.part"))
}

#[test]
fn all_files_are_fetched_once() {
    let (world, server) = (World::new(), hub(|_, _| None));
    let ran = pull(&world, &server);
    assert!(ran.stderr.contains("CC-BY-4.0"), "{}", ran.stderr);
    let pulled = &ran.json_lines()[0];
    assert_eq!((&pulled["files"], &pulled["bytes"]), (&4.into(), &200_024.into()));
    is_whole(&world);
    let train = world.path("home/downloads/stark/qa/prime/split/train.index");
    assert_eq!(fs::read(train).unwrap(), b"1");
    let token = Some("Bearer secret".to_owned());
    let path = ZIP.to_owned();
    assert_eq!(server.asked(ZIP), [Asked { path, token, ..Asked::default() }]);
    pull(&world, &server).done();
    assert_eq!(server.asked(ZIP).len(), 1);
}

#[test]
fn what_is_fetched_is_imported() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stark/prime");
    let file = |name: &str| fs::read(fixture.join(name)).unwrap();
    let mut files = files();
    files.insert("skb/prime/processed.zip".to_owned(), file("processed.zip"));
    for name in ["stark_qa/stark_qa.csv", "split/train.index", "split/val.index"] {
        files.insert(format!("qa/prime/{name}"), file(name));
    }
    let answers = repository(files);
    let server = Server::new(move |asked, _| match answers.get(&asked.path) {
        Some(bytes) => ok(bytes.clone()),
        None => Answer::Send(404, Vec::new(), Vec::new()),
    });
    let world = World::new();
    let pull =
        ["data", "pull", "prime", "--name", "small", "--endpoint", &server.address, "--json"];
    let imported = &world.run(pull).json_lines()[0];
    assert_eq!((&imported["name"], &imported["nodes"]), (&"small".into(), &15.into()));
    assert_eq!(imported["splits"].as_object().unwrap().len(), 2);
}

#[test]
fn a_cut_connection_is_gone_on_with() {
    let server = hub(|asked, before| match (before, asked.range.as_deref()) {
        (0, None) => {
            let length = ("content-length", zip_bytes().len().to_string());
            let etag = ("etag", "\"tag\"".to_owned());
            Some(Answer::Send(200, vec![length, etag], zip_bytes()[..70_000].to_vec()))
        }
        (1, Some("bytes=70000-")) => {
            let range = ("content-range", "bytes 70000-199999/200000".to_owned());
            Some(Answer::Send(206, vec![range], zip_bytes()[70_000..].to_vec()))
        }
        other => panic!("{other:?}"),
    });
    let world = World::new();
    pull(&world, &server).done();
    is_whole(&world);
    assert_eq!(server.asked(ZIP)[1].if_range.as_deref(), Some("\"tag\""));
}

#[test]
fn a_part_of_an_earlier_run_is_gone_on_with_or_begun_again() {
    // The hub gives the rest, or the whole file because it does not know ranges.
    for knows_ranges in [true, false] {
        let server = hub(move |asked, _| {
            assert_eq!(asked.range.as_deref(), Some("bytes=100000-"));
            let range = ("content-range", "bytes 100000-199999/200000".to_owned());
            let rest = || Answer::Send(206, vec![range], zip_bytes()[100_000..].to_vec());
            knows_ranges.then(rest)
        });
        let world = World::new();
        fs::create_dir_all(part(&world).parent().unwrap()).unwrap();
        fs::write(part(&world), &zip_bytes()[..100_000]).unwrap();
        pull(&world, &server).done();
        is_whole(&world);
    }
}

#[test]
fn a_wrong_file_is_removed() {
    let server = hub(|_, _| Some(ok(vec![7; 200_000])));
    let world = World::new();
    pull(&world, &server).fails(1, &["processed.zip", "SHA-256", "run the command again"]);
    assert!(!part(&world).exists());
    assert!(!world.path("home/downloads/stark/skb/prime/processed.zip").exists());
    let server = hub(|_, _| Some(ok(vec![7; 200_001])));
    pull(&world, &server).fails(1, &["exceeds the listed size"]);
}

#[test]
fn sizes_and_digests_that_cannot_be_are_refused() {
    let list = "/api/datasets/snap-stanford/stark/tree/main/skb/prime?recursive=true";
    let with = |name: &'static str, value: serde_json::Value| {
        let mut answers = repository(files());
        let mut entries: Vec<serde_json::Value> = serde_json::from_slice(&answers[list]).unwrap();
        for entry in entries.iter_mut().filter(|entry| entry["lfs"].is_object()) {
            entry["lfs"][name] = value.clone();
        }
        answers.insert(list.to_owned(), serde_json::to_vec(&entries).unwrap());
        Server::new(move |asked, _| match answers.get(&asked.path) {
            Some(bytes) => ok(bytes.clone()),
            None => Answer::Send(404, Vec::new(), Vec::new()),
        })
    };
    let world = World::new();
    let sizes = with("size", u64::MAX.into());
    pull(&world, &sizes)
        .fails(1, &["18446744073709551615 bytes, above the limit", "check the endpoint"]);
    let digest = with("oid", "../../../../../escaped".into());
    pull(&world, &digest).fails(1, &["is not a SHA-256", "check the endpoint"]);
    assert!(!world.path("home/downloads").exists());
}

#[test]
fn a_refusal_says_what_to_do() {
    let world = World::new();
    for (status, word) in [(404, "no such file"), (401, "HF_TOKEN"), (403, "HF_TOKEN")] {
        let server = hub(move |_, _| Some(Answer::Send(status, Vec::new(), Vec::new())));
        pull(&world, &server).fails(1, &[&status.to_string(), word]);
        assert_eq!(server.asked(ZIP).len(), 1);
    }
    let too_long =
        hub(|_, _| Some(Answer::Send(429, vec![("retry-after", "9999".into())], vec![])));
    pull(&world, &too_long).fails(1, &["429", "later"]);
    let mut command = world.command(["data", "pull", "prime", "--endpoint", "ftp://x"]);
    Ran::of(command.output().unwrap()).fails(1, &["not a valid hub address"]);
}

#[test]
fn a_busy_hub_is_asked_again() {
    let server = hub(|_, before| match before {
        0 => Some(Answer::Send(429, vec![("retry-after", "0".to_owned())], Vec::new())),
        1 => Some(Answer::Send(503, Vec::new(), Vec::new())),
        _ => None,
    });
    let world = World::new();
    pull(&world, &server).done();
    is_whole(&world);
    assert_eq!(server.asked(ZIP).len(), 3);
}

#[test]
fn the_token_does_not_follow_a_redirect_to_another_host() {
    let other = Server::new(|_, _| ok(zip_bytes()));
    let place = format!("{}/elsewhere", other.address);
    let server =
        hub(move |_, _| Some(Answer::Send(302, vec![("location", place.clone())], Vec::new())));
    let world = World::new();
    pull(&world, &server).done();
    is_whole(&world);
    let path = "/elsewhere".to_owned();
    assert_eq!(other.asked("/elsewhere"), [Asked { path, ..Asked::default() }]);
    assert!(server.asked(ZIP)[0].token.is_some());

    let server =
        hub(|asked, _| Some(Answer::Send(302, vec![("location", asked.path.clone())], Vec::new())));
    fs::remove_dir_all(world.path("home/downloads")).unwrap();
    pull(&world, &server).fails(1, &["redirects"]);
}

#[test]
fn a_hub_that_says_nothing_is_given_up_and_asked_again() {
    let server = hub(|_, before| (before == 0).then_some(Answer::Hang));
    let world = World::new();
    pull(&world, &server).done();
    is_whole(&world);
    assert_eq!(server.asked(ZIP).len(), 2);
}

#[cfg(unix)]
#[test]
#[allow(clippy::disallowed_methods, reason = "the test sends the signal that a terminal would")]
fn an_interrupted_download_keeps_its_part() {
    let server = hub(|_, before| {
        let length = ("content-length", zip_bytes().len().to_string());
        let part = Answer::Send(200, vec![length], zip_bytes()[..50_000].to_vec());
        Some(if before == 0 { part } else { Answer::Hang })
    });
    let world = World::new();
    let mut child = command(&world, &server).spawn().unwrap();
    while fs::metadata(part(&world)).map_or(0, |part| part.len()) < 50_000 {
        assert_eq!(child.try_wait().unwrap(), None);
        thread::sleep(Duration::from_millis(20));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read(part(&world)).unwrap(), &zip_bytes()[..50_000]);
}
