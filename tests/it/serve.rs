//! `agent serve`: a real server, asked over its socket as clients ask.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{Ran, World, on_a_full_disk};

/// Time that anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A server that ends with the test.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start<'a>(world: &World, args: impl IntoIterator<Item = &'a str>) -> Served {
        let args = ["serve", "--listen", "127.0.0.1:0"].into_iter().chain(args);
        Served::spawn(world.command(args))
    }

    /// Starts a server with a command of its own.
    pub(crate) fn spawn(mut command: Command) -> Served {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("the server has ended").unwrap();
            if let Some((_, address)) = line.split_once("listening on http://") {
                break address.to_owned();
            }
        };
        // Nobody is to wait for a full pipe.
        thread::spawn(move || lines.for_each(drop));
        Served { child, address }
    }

    /// Status, head and body of a request.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        head: &str,
        body: &str,
    ) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let n = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {n}\r\n\
             {head}\r\n{body}",
            self.address,
        )
        .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { joined(body) } else { body.to_owned() };
        (status, head.to_owned(), body)
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        let (status, _, body) = self.ask("GET", path, "", "");
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let head = "Content-Type: application/json\r\n";
        let (status, _, body) = self.ask(method, path, head, &body.to_string());
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The parts of a chunked body, joined.
fn joined(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole += &rest[..size];
        body = rest.get(size + 2..).unwrap_or_default();
    }
    whole
}

/// A home with a small sample and a run on it.
pub(crate) fn optimized() -> World {
    let world = World::shop();
    world.run(["optimize", "--dataset", "shop", "--steps", "2"]).done();
    world
}

#[test]
fn a_bundle_answers_as_it_does_on_the_command_line() {
    let world = optimized();
    let served = Served::start(&world, ["--bundle", "latest"]);
    let question = "a durable steel bottle";
    let printed = world.run(["query", "latest", question, "-k", "7", "--json"]).done();
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let (status, answer) = served.send("POST", "/v1/query", &json!({"query": question, "k": 7}));
    assert_eq!(status, 200, "{answer}");
    assert!(!answer["hits"].as_array().unwrap().is_empty());
    for same in ["query", "hits", "route", "cutoff", "expected", "understood", "recognised"] {
        assert_eq!(answer[same], printed[same], "{same}");
    }
    let (_, explained) =
        served.send("POST", "/v1/query", &json!({"query": question, "explain": "full"}));
    assert!(explained["hits"][0]["calls"].is_array(), "{}", explained["hits"][0]);

    let plain = json!({"query": question, "k": 7, "paths": false});
    let (_, plain) = served.send("POST", "/v1/query", &plain);
    for (plain, hit) in
        plain["hits"].as_array().unwrap().iter().zip(answer["hits"].as_array().unwrap())
    {
        assert_eq!((&plain["id"], &plain["score"]), (&hit["id"], &hit["score"]));
        assert!(plain["path"].is_null() && !hit["path"].is_null(), "{plain}");
    }

    let searched = ["search", "shop", question, "--system", "bm25+names", "-k", "5", "--json"];
    let ids = |text: &str| -> Vec<Value> {
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|hit| json!([hit["id"], hit["score"]])).collect()
    };
    let asked = json!({"query": question, "system": "bm25+names", "k": 5});
    let (status, found) = served.send("POST", "/v1/search", &asked);
    assert_eq!(status, 200, "{found}");
    let hits = found["hits"].as_array().unwrap().iter();
    let over_http: Vec<Value> = hits.map(|hit| json!([hit["id"], hit["score"]])).collect();
    assert_eq!(over_http, ids(&world.run(searched).done()));

    // In order, with an error where there is one.
    let lines = [
        json!({"query": question, "k": 1}).to_string(),
        "{\"quer\": 1}".to_owned(),
        String::new(),
        json!({"id": "q7", "query": "tennis racket", "k": 2}).to_string(),
        json!({"id": 8, "quer": 1}).to_string(),
    ];
    let (status, _, body) = served.ask("POST", "/v1/batch", "", &lines.join("\n"));
    let replies: Vec<Value> =
        body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((status, replies.len()), (200, 4), "{body}");
    assert_eq!(replies[0]["hits"][0], answer["hits"][0]);
    assert_eq!(replies[1]["error"]["code"], "bad_request");
    assert_eq!(replies[2]["query"], "tennis racket");
    let places: Vec<Value> = replies.iter().map(|one| json!([one["line"], one["id"]])).collect();
    assert_eq!(json!(places), json!([[1, null], [2, null], [4, "q7"], [5, 8]]));

    let store = json!({"query": question, "max_num_results": 3});
    let (status, page) = served.send("POST", "/v1/vector_stores/shop/search", &store);
    assert_eq!((status, page["data"].as_array().unwrap().len()), (200, 3), "{page}");
    assert_eq!(page["data"][0]["file_id"], answer["hits"][0]["id"].to_string());
}

#[test]
fn conditions_keep_the_nodes_that_they_keep_on_the_command_line() {
    let world = optimized();
    let served = Served::start(&world, ["--bundle", "latest"]);
    let question = "a durable steel bottle";
    let conditions = ["price<40", "price>=10"];
    let ids = |hits: &Value| -> Vec<String> {
        hits.as_array().unwrap().iter().map(|hit| hit["id"].to_string()).collect()
    };
    let printed = |command: &[&str]| {
        let of_condition = conditions.iter().flat_map(|text| ["--where", text]);
        let command = command.iter().copied().chain(of_condition);
        world.run(command.chain(["-k", "5", "--json"])).done()
    };
    let answer = printed(&["query", "latest", question]);
    let kept = ids(&serde_json::from_str::<Value>(&answer).unwrap()["hits"]);
    assert_eq!(kept.len(), 5);
    let asked = json!({"query": question, "k": 5, "filter": conditions});
    let (status, answer) = served.send("POST", "/v1/query", &asked);
    assert_eq!((status, ids(&answer["hits"])), (200, kept.clone()), "{answer}");
    let (_, all) = served.send("POST", "/v1/query", &json!({"query": question, "k": 5}));
    assert_ne!(ids(&all["hits"]), kept, "the conditions keep all");

    let found: Vec<Value> = printed(&["search", "shop", question])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let asked = json!({"query": question, "system": "bm25f", "k": 5, "filter": conditions});
    let (_, searched) = served.send("POST", "/v1/search", &asked);
    assert_eq!(ids(&searched["hits"]), ids(&json!(found)));

    let filters = json!({"type": "and", "filters": [
        {"type": "lt", "key": "price", "value": 40}, {"type": "gte", "key": "price", "value": 10}]});
    let store = json!({"query": question, "max_num_results": 5, "filters": filters});
    let (_, page) = served.send("POST", "/v1/vector_stores/shop/search", &store);
    let files = page["data"].as_array().unwrap().iter();
    let files: Vec<&str> = files.map(|file| file["file_id"].as_str().unwrap()).collect();
    assert_eq!(files, kept);

    // The values to choose from, here and on the command line; a number is what its condition leaves.
    let asked = json!({"filter": conditions, "field": ["brand"], "k": 2});
    let (status, counted) = served.send("POST", "/v1/facets", &asked);
    let command = ["data", "facets", "shop", "--field", "brand", "-k", "2", "--json"];
    let printed: Value = serde_json::from_str(&world.run(command).done()).unwrap();
    let (_, all) = served.send("POST", "/v1/facets", &json!({"field": ["brand"], "k": 2}));
    assert_eq!((status, &all), (200, &printed), "{counted}");
    let brand = &counted["facets"][0]["values"][0];
    let mut narrowed = conditions.map(str::to_owned).to_vec();
    narrowed.push(brand["condition"].as_str().unwrap().to_owned());
    let (_, left) = served.send("POST", "/v1/facets", &json!({"filter": narrowed}));
    assert_eq!(left["nodes"], brand["nodes"], "{left}");

    for (path, wrong) in [
        ("/v1/facets", json!({"field": ["prize"]})),
        ("/v1/facets", json!({"k": 0})),
        ("/v1/query", json!({"query": question, "filter": ["prize<40"]})),
        ("/v1/query", json!({"query": question, "filter": ["price"]})),
        ("/v1/search", json!({"query": question, "system": "bm25", "filter": ["name<b"]})),
        ("/v1/query", json!({"query": question, "filter": vec!["price<40"; 21]})),
    ] {
        let (status, refused) = served.send("POST", path, &wrong);
        assert!([400, 422].contains(&status), "{wrong}: {refused}");
    }
}

#[test]
fn bases_nodes_and_neighbours_are_told_part_by_part() {
    let world = World::shop();
    let served = Served::start(&world, ["--base", "shop"]);
    let (_, bases) = served.get("/v1/base");
    assert_eq!(bases[0]["name"], "shop");
    let product =
        bases[0]["types"].as_array().unwrap().iter().position(|of| of["name"] == "product");
    assert!(product.is_some(), "{bases}");
    let (status, refused) = served.get("/v1/nodes/SKU-4");
    let remedy = refused["error"]["remedy"].as_str().unwrap();
    assert!(status == 400 && remedy.contains("/v1/nodes?key="), "{refused}");
    let (status, node) = served.get("/v1/nodes/0");
    assert_eq!(status, 200);
    let n: u64 = node["relations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["neighbors"].as_u64().unwrap())
        .sum();
    let (mut cursor, mut all) = (Some(0), Vec::new());
    while let Some(at) = cursor {
        let (_, part) = served.get(&format!("/v1/nodes/0/neighbors?limit=1&cursor={at}"));
        assert_eq!(part["total"], n);
        all.extend(part["neighbors"].as_array().unwrap().clone());
        cursor = part["next"].as_u64();
    }
    let (_, whole) = served.get("/v1/nodes/0/neighbors");
    assert_eq!((all.len() as u64, &Value::Array(all)), (n, &whole["neighbors"]));

    for (path, code) in [
        ("/v1/nodes/99999999", 404),
        ("/v1/nodes/x", 400),
        ("/v1/nodes/0?bas=shop", 400),
        ("/v1/nodes/0?base=shup", 404),
        ("/v1/nodes/0/neighbors?relation=nothing", 400),
        ("/v1/nodes/0/neighbors?limit=0", 400),
        ("/v1/nothing", 404),
        ("/v1/query", 405),
    ] {
        let (status, reply) = served.get(path);
        assert_eq!(status, code, "{path}: {reply}");
        let error = &reply["error"];
        assert!(error["message"].is_string() && error["remedy"].is_string(), "{path}: {reply}");
    }
    for (body, code) in [
        (json!({"query": " ", "system": "bm25"}), 400),
        (json!({"query": "a", "system": "bm52"}), 400),
        (json!({"query": "a", "system": "run:/etc/passwd"}), 400),
        (json!({"query": "a", "system": "prf:run:/etc/passwd"}), 400),
        (json!({"query": "a", "system": "bm25", "k": 0}), 400),
        (json!({"query": "a", "system": "bm25", "timeout_ms": 0}), 400),
        (json!({"query": "a"}), 422),
        (json!({"query": "a".repeat(300_000), "system": "bm25"}), 413),
    ] {
        let (status, reply) = served.send("POST", "/v1/search", &body);
        assert_eq!(status, code, "{reply}");
    }
    let (_, paths) = served.get("/openapi.json");
    for path in ["/v1/query", "/v1/search", "/v1/batch", "/v1/nodes/{id}/neighbors", "/metrics"] {
        assert!(paths["paths"][path].is_object(), "{path}");
    }
    let (_, counted) = served.get("/metrics");
    let text = counted.as_str().unwrap();
    assert!(text.contains("endpoint=\"/v1/nodes/{id}\",status=\"404\""), "{text}");
}

#[test]
fn keys_and_names_say_who_may_ask() {
    let world = World::shop();
    world.run(["serve", "--base", "shop", "--listen", "0.0.0.0:0"]).fails(1, &["agent key add"]);
    let read = world.run(["key", "add", "site"]).done().trim().to_owned();
    let admin = world.run(["key", "add", "me", "--scope", "admin"]).done().trim().to_owned();
    let listed = world.run(["key", "list"]).done();
    assert!(listed.contains("site") && !listed.contains(&read), "{listed}");
    let served = Served::start(&world, ["--base", "shop"]);
    let with = |key: &str, method: &str, path: &str, body: &str| {
        let head = format!("Authorization: Bearer {key}\r\nContent-Type: application/json\r\n");
        served.ask(method, path, &head, body).0
    };
    assert_eq!(served.get("/v1/base").0, 401);
    assert_eq!(with("agent-0", "GET", "/v1/base", ""), 401);
    assert_eq!(with(&read, "GET", "/v1/base", ""), 200);
    let activate = "{\"bundle\": \"latest\"}";
    assert_eq!(with(&read, "PUT", "/v1/bundles/active", activate), 403);
    assert_eq!(with(&admin, "PUT", "/v1/bundles/active", activate), 404, "there is no run");
    assert_eq!(served.get("/health/live").0, 200, "asked without a key");
    let elsewhere = served.ask("GET", "/health/live", "Origin: https://evil.example\r\n", "");
    assert_eq!(elsewhere.0, 403, "{}", elsewhere.2);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the standard library sends no signal but SIGKILL")]
fn bundles_are_exchanged_and_what_is_under_way_is_finished() {
    let world = optimized();
    world.run(["optimize", "--dataset", "shop", "--steps", "1", "--seed", "5"]).done();
    let mut served = Served::start(&world, ["--bundle", "shop-0001"]);
    let id = |bundle: &str| {
        let (status, reply) = served.send("PUT", "/v1/bundles/active", &json!({"bundle": bundle}));
        assert_eq!(status, 200, "{reply}");
        reply["id"].as_str().unwrap().to_owned()
    };
    let ids = [id("shop-0001"), id("shop-0002")];
    let (address, asked) = (served.address.clone(), json!({"query": "a steel bottle"}));
    let asking = thread::scope(|scope| {
        let client = scope.spawn(|| {
            (0..40)
                .map(|_| {
                    let (status, reply) = served.send("POST", "/v1/query", &asked);
                    assert_eq!(status, 200, "{reply}");
                    reply["bundle"].as_str().unwrap().to_owned()
                })
                .collect::<Vec<_>>()
        });
        for n in 0..20 {
            id(["shop-0001", "shop-0002"][n % 2]);
        }
        client.join().unwrap()
    });
    assert!(asking.iter().all(|bundle| ids.contains(bundle)), "{asking:?}");
    let (status, reply) = served.send("PUT", "/v1/bundles/active", &json!({"bundle": "shop-0009"}));
    assert_eq!(status, 404, "{reply}");
    assert_eq!(served.send("POST", "/v1/query", &asked).0, 200, "the one before answers");

    // A client that is half way through its request when the server is told to end.
    let mut half = TcpStream::connect(&address).unwrap();
    half.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = asked.to_string();
    let n = body.len();
    write!(half, "POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: {n}\r\nContent-Type: application/json\r\n\r\n{}", &body[..5]).unwrap();
    // The server has the head of the request before the signal.
    thread::sleep(Duration::from_millis(300));
    let pid = served.child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    thread::sleep(Duration::from_millis(300));
    write!(half, "{}", &body[5..]).unwrap();
    let mut reply = String::new();
    half.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    let since = Instant::now();
    while served.child.try_wait().unwrap().is_none() {
        assert!(since.elapsed() < PATIENCE, "the server does not end");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    assert!(TcpStream::connect(&address).is_err(), "nobody listens any more");
}

#[test]
fn a_client_that_sends_half_a_header_is_dropped() {
    let world = World::shop();
    let served = Served::start(&world, ["--base", "shop"]);
    let mut slow = TcpStream::connect(&served.address).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(slow, "GET /health/live HTTP/1.1\r\nHost: loc").unwrap();
    let mut left = Vec::new();
    // Ends because the server closes the connection.
    let _ = slow.read_to_end(&mut left);
    assert_eq!(served.get("/health/live").0, 200);
}

#[test]
fn heads_that_could_be_read_in_two_ways_are_refused_and_probes_end() {
    let world = optimized();
    let served = Served::start(&world, ["--bundle", "latest"]);
    let raw = |request: &str| {
        let mut stream = TcpStream::connect(&served.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        let _ = stream.read_to_string(&mut reply);
        reply
    };
    let close = "Connection: close\r\n";
    let status = |reply: &str| reply.split(' ').nth(1).unwrap_or_default().to_owned();
    assert_eq!(status(&raw(&format!("GET /v1/base HTTP/1.1\r\n{close}\r\n"))), "400");
    assert_eq!(status(&raw("GET /v1/base HTTP/1.0\r\n\r\n")), "200");
    for lengths in [
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
    ] {
        let head = format!("POST /v1/query HTTP/1.1\r\nHost: localhost\r\n{lengths}");
        let reply = raw(&format!("{head}Content-Type: application/json\r\n\r\n0\r\n\r\n"));
        assert_eq!(status(&reply), "400", "{reply}");
        assert!(reply.contains("twice"), "{reply}");
    }
    // Whatever follows a probe is not answered by the thread that accepts.
    let probe = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let reply = raw(&format!("{probe}GET /v1/base HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_eq!(reply.matches("HTTP/1.1 200").count(), 1, "{reply}");

    let (status, reply) = served.get("/v1/runs/latest/events?after=18446744073709551615");
    assert_eq!(status, 400, "{reply}");
    let (_, bundles) = served.get("/v1/bundles");
    let file = bundles[0]["file"].as_str().unwrap();
    assert!(file.starts_with("runs/"), "{file}");
    let feeds = "\n".repeat(400_000);
    let (status, _, reply) = served.ask("POST", "/v1/batch", "", &feeds);
    assert_eq!(status, 200, "{reply}");
    assert!(reply.contains("too long"), "{reply}");
}

/// Every file below a directory with its digest, but for what SQLite makes for each reader.
fn digests(dir: &Path) -> BTreeMap<PathBuf, blake3::Hash> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.display().to_string();
            if path.is_dir() {
                dirs.push(path);
            } else if !name.ends_with("-shm") && !name.ends_with("-wal") {
                let digest = blake3::hash(&fs::read(&path).unwrap());
                found.insert(path, digest);
            }
        }
    }
    found
}

#[test]
fn a_server_that_is_killed_leaves_bases_bundles_and_journals_whole() {
    let world = optimized();
    world.run(["key", "add", "me", "--scope", "admin"]).done();
    world.run(["key", "remove", "me"]).done();
    let home = world.path("home");
    let before = digests(&home);
    for n in 0..6_u64 {
        let mut served = Served::start(&world, ["--bundle", "latest"]);
        let address = served.address.clone();
        let asking = thread::spawn(move || {
            let requests = [
                ("POST", "/v1/query", "{\"query\": \"a steel bottle\"}"),
                ("PUT", "/v1/bundles/active", "{\"bundle\": \"latest\"}"),
                ("PUT", "/v1/base/active", "{}"),
                ("GET", "/v1/runs/latest", ""),
                ("GET", "/v1/runs/latest/events", ""),
                ("POST", "/v1/ask", "{\"question\": \"How many products are there?\"}"),
            ];
            for (method, path, body) in requests.iter().cycle() {
                let Ok(mut stream) = TcpStream::connect(&address) else { return };
                let n = body.len();
                let sent = write!(
                    stream,
                    "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                     Content-Type: application/json\r\nContent-Length: {n}\r\n\r\n{body}"
                );
                let mut reply = Vec::new();
                if sent.is_err() || stream.read_to_end(&mut reply).is_err() {
                    return;
                }
            }
        });
        thread::sleep(Duration::from_millis(40 * n * n));
        served.child.kill().unwrap();
        served.child.wait().unwrap();
        asking.join().unwrap();
        assert_eq!(digests(&home), before, "kill {n}");
    }
    world.run(["verify", "latest"]).done();
    let served = Served::start(&world, ["--bundle", "latest"]);
    assert_eq!(served.send("POST", "/v1/query", &json!({"query": "a steel bottle"})).0, 200);
}

#[test]
fn a_full_disk_and_a_base_that_is_gone_are_told_clearly() {
    let world = optimized();
    world.run(["key", "add", "one"]).done();
    let keys = fs::read(world.path("home/serve-keys.json")).unwrap();
    let added =
        Ran::of(on_a_full_disk(&world, world.command(["key", "add", "two"]), 0).output().unwrap());
    added.fails(1, &["serve-keys.json"]);
    assert_eq!(fs::read(world.path("home/serve-keys.json")).unwrap(), keys, "as it was");
    world.run(["key", "remove", "one"]).done();

    // Serving writes nothing that it cannot do without.
    let command = world.command(["serve", "--listen", "127.0.0.1:0", "--bundle", "latest"]);
    let served = Served::spawn(on_a_full_disk(&world, command, 0));
    let question = json!({"query": "a steel bottle"});
    assert_eq!(served.send("POST", "/v1/query", &question).0, 200);

    // What was opened goes on answering; who starts anew is told.
    world.run(["data", "remove", "shop"]).done();
    assert_eq!(served.send("POST", "/v1/query", &question).0, 200);
    let (status, reply) = served.send("PUT", "/v1/base/active", &json!({}));
    assert_eq!((status, &reply["error"]["code"]), (404, &json!("not_found")), "{reply}");
    world.run(["serve", "--bundle", "latest", "--listen", "127.0.0.1:0"]).fails(1, &["shop"]);
    fs::remove_dir_all(world.path("home/runs")).unwrap();
    assert_eq!(served.get("/v1/runs").0, 200);
    assert_eq!(served.get("/v1/runs/latest").0, 404);
    let (status, reply) = served.send("PUT", "/v1/bundles/active", &json!({"bundle": "latest"}));
    assert_eq!(status, 404, "{reply}");
    assert_eq!(served.send("POST", "/v1/query", &question).0, 200);
}
