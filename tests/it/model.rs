//! A scripted stand-in for a language model: a server of OpenAI's form on the loopback whose
//! replies are a function of the request alone.
//!
//! It is no model and knows nothing of any base but what the prompt says: it sorts queries by
//! whether they name something, writes a poor program first (one that does not parse, for one kind
//! of query), and when asked to improve it, one that follows the relations it was told of. So it
//! shows that the path from reply to frozen bundle works, not how well a model would do.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// How the server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It replies.
    Works,
    /// It replies with text that is neither JSON nor a program.
    Babbles,
    /// Replies with two megabytes that are no program.
    Floods,
    /// It replies with a page instead of the agreed form.
    Garbage,
    /// It does not accept the key.
    Refuses,
    /// It takes the request and says nothing.
    Hangs,
    /// It asks to come back later, for ever.
    Limits,
    /// It works until it has replied so often, then it takes no connection.
    Dies(usize),
    /// It replies, and its improved programs ask it for something themselves.
    Asks,
}

/// A running server; it ends with the value, or with the process.
pub(crate) struct ModelServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
    asked: Arc<AtomicUsize>,
    crowd: Arc<Crowd>,
    off: Arc<AtomicBool>,
}

/// Requests for first programs under way, and how many were at most.
#[derive(Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// How long a first program takes, so that others can be asked for meanwhile.
const WRITES_FOR: Duration = Duration::from_millis(300);
/// Requests that are kept; all are counted.
const KEPT: usize = 1_000;

impl ModelServer {
    pub(crate) fn start(mood: Mood) -> ModelServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (heard, off) = (requests.clone(), Arc::new(AtomicBool::new(false)));
        let asked = Arc::new(AtomicUsize::new(0));
        let (stopped, counted) = (off.clone(), asked.clone());
        let crowd = Arc::new(Crowd::default());
        let crowded = crowd.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (stream, heard) = (stream.unwrap(), heard.clone());
                let (asked, stopped) = (counted.clone(), stopped.clone());
                let crowd = crowded.clone();
                thread::spawn(move || serve(stream, mood, &heard, &asked, &crowd, &stopped));
            }
        });
        ModelServer { address, requests, asked, crowd, off }
    }

    /// What OPENAI_BASE_URL is to be.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// How many requests came so far.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// How many first programs were asked for at a time, at most.
    pub(crate) fn most_at_once(&self) -> usize {
        self.crowd.most.load(Ordering::Relaxed)
    }

    /// The bodies of the first requests.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.off.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(
    mut stream: TcpStream,
    mood: Mood,
    heard: &Mutex<Vec<Value>>,
    asked: &AtomicUsize,
    crowd: &Crowd,
    off: &AtomicBool,
) {
    let Some((_, body)) = read(&stream) else { return };
    let Ok(request) = serde_json::from_str::<Value>(&body) else { return };
    let n = asked.fetch_add(1, Ordering::Relaxed);
    if n < KEPT {
        heard.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
    }
    if body.contains("You write retrieval programs") {
        let now = crowd.now.fetch_add(1, Ordering::Relaxed) + 1;
        crowd.most.fetch_max(now, Ordering::Relaxed);
        thread::sleep(WRITES_FOR);
        crowd.now.fetch_sub(1, Ordering::Relaxed);
    }
    let (status, body) = match mood {
        Mood::Works => (200, completion(&answer(&request, false))),
        Mood::Asks => (200, completion(&answer(&request, true))),
        Mood::Dies(after) if n < after => (200, completion(&answer(&request, false))),
        Mood::Dies(_) => return,
        Mood::Babbles => (200, completion("I would rather talk about the weather.")),
        Mood::Floods => (200, completion(&"```".repeat(700_000))),
        Mood::Garbage => (200, "<html><body>It works!</body></html>".to_owned()),
        Mood::Refuses => {
            (401, r#"{"error":{"message":"wrong key","code":"invalid_api_key"}}"#.to_owned())
        }
        Mood::Limits => {
            (429, r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#.to_owned())
        }
        Mood::Hangs => {
            while !off.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(50));
            }
            return;
        }
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    // Who asked may have gone.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

/// Head and body of a request.
pub(crate) fn read(stream: &TcpStream) -> Option<(String, String)> {
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
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).ok()?))
}

fn completion(text: &str) -> String {
    json!({
        "id": "scripted",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": text },
            "finish_reason": "stop",
        }],
        "usage": { "prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100 },
    })
    .to_string()
}

/// The reply to a request, by what its first words ask for. Improved programs may ask.
fn answer(request: &Value, asks: bool) -> String {
    let message = |role: &str| {
        let messages = request["messages"].as_array().unwrap();
        let last = messages.iter().rfind(|message| message["role"] == role);
        last.map_or("", |last| last["content"].as_str().unwrap()).to_owned()
    };
    if message("user") == GREETING {
        return "ready".to_owned();
    }
    let (system, user) = (message("system"), message("user"));
    let asked = |words: &str| system.starts_with(words);
    if asked("You find kinds of queries") {
        return categories(&user);
    }
    if asked("You help a search tool over a graph") {
        return worded(&user);
    }
    if asked("You sort queries into categories") {
        let queries = queries(&user);
        let assignments: Vec<Value> = queries
            .iter()
            .map(|(n, text)| json!({ "query": n, "category": if names(text) { 1 } else { 2 } }))
            .collect();
        return json!({ "assignments": assignments }).to_string();
    }
    if asked("You compare queries") {
        return "The badly answered queries name a node next to the answer.\n\
                1. Link what the query names and follow every relation to the type of the answer."
            .to_owned();
    }
    if asked("You write retrieval programs") {
        let broken = user.contains(DESCRIBED);
        return fenced("Look at the shortlist first.", if broken { BROKEN } else { POOR });
    }
    if asked("You repair retrieval programs") {
        return fenced("A bracket was missing.", POOR);
    }
    if asked("You improve retrieval programs") && user.contains(TRIED_OUT) {
        return fenced("Names count too.", REVISED);
    }
    if asked("You improve retrieval programs") {
        let better = better(&user);
        return fenced("Follow the relations.", &if asks { asking(&better) } else { better });
    }
    if asked("You choose the class that fits a text best") {
        return json!({ "class": 1 }).to_string();
    }
    if asked("You read a query") {
        return json!({
            "category": 1, "entities": [], "names": [], "relations": [], "type": null,
            "constraints": [], "conditions": [], "excluded": [],
            "answers": [], "probability": 0.9,
        })
        .to_string();
    }
    if asked("You write the plan") {
        let plan = json!({
            "kind": "aggregation", "rows": "product",
            "texts": [{ "name": "material", "description": "what it is made of" }],
            "filters": [{ "value": { "column": 0, "key": "steel" } }],
            "operation": { "number": "rows" },
        });
        let plans = user.contains("made of").then_some(plan).into_iter().collect::<Vec<_>>();
        return json!({ "plans": plans, "why": "It is not about many nodes." }).to_string();
    }
    if asked("You fill a table") {
        let texts = user.split("\nText ").skip(1).map(|text| {
            let n = text.split(':').next().unwrap().trim().parse::<u64>().unwrap();
            json!({ "n": n, "values": [text.contains("steel").then_some("steel")] })
        });
        return json!({ "rows": texts.collect::<Vec<_>>() }).to_string();
    }
    if asked("You judge candidates") {
        return judged(&user);
    }
    if asked("You write documents for a search engine") {
        return json!({ "documents": ["a durable steel barrel"] }).to_string();
    }
    if asked("You answer a question from the nodes") {
        return sentences(&user);
    }
    if asked("You check an answer") {
        let entry =
            |n: u64| json!({ "n": n, "reason": "only the first is so", "supported": n == 1 });
        return json!({ "sentences": [entry(1), entry(2)] }).to_string();
    }
    panic!("the scripted model does not know this prompt: {system}");
}

/// An answer of one sentence that cites a node, one that cites another wrongly, and one that cites
/// what is not there; to a question about the moon only the last one.
fn sentences(user: &str) -> String {
    let lie = json!({ "text": "It was thrown on the moon.", "cites": [77] });
    let all = match user.contains("moon") {
        true => vec![lie],
        false => vec![
            json!({ "text": "The first one is of steel.", "cites": [1] }),
            json!({ "text": "The second one is of gold.", "cites": [2] }),
            lie,
        ],
    };
    json!({ "sentences": all }).to_string()
}

/// Scores for the candidates of a prompt: the later, the better.
fn judged(user: &str) -> String {
    let numbers = user
        .lines()
        .filter_map(|line| line.strip_prefix("Candidate ")?.strip_suffix(':')?.parse::<u64>().ok());
    let score = |n: u64| json!({ "n": n, "reason": "by its place", "score": n as f64 / 100.0 });
    json!({ "scores": numbers.map(score).collect::<Vec<_>>() }).to_string()
}

/// What is asked first, to see whether anybody answers.
const GREETING: &str = "Reply with the word ready.";
/// Names of the two kinds of queries.
const NAMED: &str = "queries that name something";
const DESCRIBED: &str = "queries that describe something";
/// A program that gives the shortlist back.
const POOR: &str = "fn retrieve(query, candidates, params) {\n    \
                    uniform(candidates, 0.1) + search(query, [], 20)\n}";
/// What it becomes when it was tried out.
pub(crate) const REVISED: &str = "fn retrieve(query, candidates, params) {\n    \
                    uniform(candidates, 0.1) + search_with_names(query, [], 20)\n}";
/// Says that a program was tried out.
pub(crate) const TRIED_OUT: &str = "This is your first program, tried out";
/// The same without its last bracket.
const BROKEN: &str = "fn retrieve(query, candidates, params) {\n    search(query, [], 20)\n";

fn fenced(outline: &str, source: &str) -> String {
    format!("{outline}\n\n```rhai\n//! category: any\n{source}\n```\n")
}

/// Whether a query names something: it has a capital letter after its first word.
fn names(query: &str) -> bool {
    query.split_whitespace().skip(1).any(|word| word.starts_with(char::is_uppercase))
}

/// Numbers and texts of the queries of a prompt.
fn queries(user: &str) -> Vec<(u64, String)> {
    let (_, listed) = user.split_once("# Queries").unwrap();
    listed
        .lines()
        .filter_map(|line| {
            let (n, text) = line.split_once(". ")?;
            Some((n.parse().ok()?, text.to_owned()))
        })
        .collect()
}

fn categories(user: &str) -> String {
    let (mut named, mut described) = (Vec::new(), Vec::new());
    for (n, text) in queries(user) {
        if names(&text) { named.push(n) } else { described.push(n) }
    }
    let category = |name: &str, queries: Vec<u64>| json!({ "name": name, "description": "by their words", "queries": queries });
    json!({ "categories": [category(NAMED, named), category(DESCRIBED, described)] }).to_string()
}

/// What leads from a brand to its products, in words that no name of the base has.
pub(crate) const FROM_A_BRAND: &str = "what leaves the forge of {}";

/// A question about each metapath of a prompt.
fn worded(user: &str) -> String {
    let of_line = |line: &str| {
        let (n, rest) = line.split_once(". ")?;
        let (metapath, _) = rest.split_once("; named: ")?;
        let from_a_brand = metapath.starts_with("brand <-") && metapath.ends_with("- product");
        let other = format!("{{}} and {metapath}");
        let question = if from_a_brand { FROM_A_BRAND } else { &other };
        Some(json!({ "n": n.parse::<u64>().ok()?, "questions": [question] }))
    };
    json!({ "metapaths": user.lines().filter_map(of_line).collect::<Vec<_>>() }).to_string()
}

/// The same program, which asks for the class of its query first.
fn asking(source: &str) -> String {
    let body = "fn retrieve(query, candidates, params) {\n";
    source.replace(
        body,
        &format!("{body}    let class = classify_by_llm(query, [\"one\", \"two\"]);\n"),
    )
}

/// A program that links names of every type next to a type of answers and follows the relation.
fn better(user: &str) -> String {
    let is_answer = |kind: &str| {
        user.lines()
            .any(|line| line.starts_with(&format!("- {kind}:")) && line.contains("may be answers"))
    };
    let mut metapaths = Vec::new();
    for line in user.lines() {
        let Some((source, rest)) = line.strip_prefix("- ").and_then(|line| line.split_once(" -> "))
        else {
            continue;
        };
        let Some((target, relations)) = rest.split_once(": ") else { continue };
        for edges in relations.split(", ") {
            let Some((relation, _)) = edges.rsplit_once(' ') else { continue };
            let mut take = |from: &str, direction: &str| {
                let hop = format!("hop(link(query, {from:?}, 3), {relation:?}, {direction:?}");
                metapaths.push(format!("{hop}, \"max\")"));
            };
            if is_answer(source) {
                take(target, "in");
            }
            if is_answer(target) {
                take(source, "out");
            }
        }
    }
    metapaths.truncate(8);
    let mut source = String::from(
        "fn params() {\n    #{ w_metapath: #{ value: 1.0, min: 0.0, max: 4.0 } }\n}\n\
         fn retrieve(query, candidates, params) {\n    \
         let pool = normalize(search_fields(query, [], 200)) * 0.5;\n",
    );
    for metapath in &metapaths {
        source += &format!("    pool = pool + {metapath} * params.w_metapath;\n");
    }
    source += "    let pool = top(pool, 500);\n    top(pool + normalize(match_text(query, pool)), 100)\n}";
    source
}
