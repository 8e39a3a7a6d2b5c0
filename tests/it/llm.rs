//! Configuring a language model: settings, environment, options; and where its key never shows.

use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use crate::{
    model::read,
    support::{Ran, World},
};

const KEY: &str = "sk-test-0123456789abcdef";
/// A model's whole reply.
const READY: &str = r#"{"choices":[{"message":{"content":"ready"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}"#;

/// A service on the loopback that gives all requests one reply.
struct Service {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn start(status: u16, body: &str) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, body) = (heard.clone(), body.to_owned());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                if let Some((head, asked)) = read(&stream) {
                    seen.lock().unwrap().push(head + &*asked);
                    // Who asked may have gone.
                    let _ = write!(
                        &stream,
                        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                        body.len()
                    );
                }
            }
        });
        Service { address, heard }
    }

    fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// Runs doctor with these variables.
fn doctor(world: &World, args: &[&str], variables: &[(&str, &str)]) -> Ran {
    let args = ["doctor", "--json"].iter().chain(args).copied();
    let mut command = world.command(args);
    Ran::of(command.envs(variables.iter().copied()).output().unwrap())
}

/// The lines of doctor that tell of the language model: status and detail.
fn told(ran: &Ran) -> Vec<(String, String)> {
    let lines = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let of_model = |line: &serde_json::Value| {
        ["language model", "its answer"].contains(&line["check"].as_str().unwrap())
    };
    let lines = lines.filter(of_model);
    lines.map(|line| (text(&line["status"]), text(&line["detail"]))).collect()
}

#[track_caller]
fn tells(ran: &Ran, at: usize, status: &str, words: &[&str]) {
    let told = told(ran);
    let (is, detail) = &told[at];
    assert_eq!(is, status, "{detail}");
    for word in words {
        assert!(detail.contains(word), "{word:?} is not in {detail:?}");
    }
}

fn write_config(world: &World, text: &str) {
    fs::create_dir_all(world.path("home")).unwrap();
    fs::write(world.path("home").join("config.toml"), text).unwrap();
}

#[test]
fn doctor_tells_what_is_configured_and_asks_nobody() {
    let world = World::new();
    // A key alone is for embeddings: it asks no model to be named.
    let ran = doctor(&world, &[], &[("OPENAI_API_KEY", KEY)]);
    assert_eq!(ran.status, 0);
    tells(&ran, 0, "note", &["no model is configured"]);
    assert!(ran.stdout.contains("--model M") && ran.stdout.contains("OPENAI_BASE_URL"));
    let ran = doctor(&world, &[], &[("AGENT_MODEL", "m")]);
    assert_eq!(ran.status, 1);
    tells(&ran, 0, "broken", &["there is no key for https://api.openai.com/v1"]);
    let ran = doctor(&world, &["--model", "m"], &[("OPENAI_API_KEY", KEY), ("AGENT_MODEL", "x")]);
    let words = [
        "m at https://api.openai.com/v1 with the key of OPENAI_API_KEY",
        "4 requests at a time",
        "10 attempts",
        "300 s per attempt",
        "900 s in total",
    ];
    tells(&ran, 0, "ok", &words);
    assert!(!ran.stdout.contains(KEY));
    // A service of one's own needs no key.
    let service = Service::start(200, READY);
    let url = service.url();
    let ran = doctor(&world, &["--model", "m"], &[("OPENAI_BASE_URL", &url)]);
    tells(&ran, 0, "ok", &[&format!("m at {url} without a key")]);
    assert!(service.heard().is_empty());
}

#[test]
fn a_model_is_named_with_its_service() {
    let world = World::new();
    let rows = [
        ("anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
        ("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
        ("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        ("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
        ("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    ];
    for (name, url, variable) in rows {
        let model = format!("{name}/a/b");
        let ran = doctor(&world, &["--model", &model], &[(variable, KEY)]);
        tells(&ran, 0, "ok", &[&format!("a/b at {url} with the key of {variable}")]);
        let ran = doctor(&world, &["--model", &model], &[]);
        tells(&ran, 0, "broken", &[&format!("there is no key for {url}")]);
        assert!(ran.stdout.contains(&format!("set {variable}")), "{}", ran.stdout);
    }
    for (name, port) in [("llamacpp", 8080), ("ollama", 11434), ("vllm", 8000)] {
        let ran = doctor(&world, &["--model", &format!("{name}/m")], &[("OPENAI_API_KEY", KEY)]);
        tells(&ran, 0, "ok", &[&format!("m at http://localhost:{port}/v1 without a key")]);
    }
    // At an address of one's own, names stay as they are.
    let address = [("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")];
    let ran = doctor(&world, &["--model", "anthropic/m"], &address);
    tells(&ran, 0, "ok", &["anthropic/m at http://127.0.0.1:9/v1 without a key"]);
    write_config(&world, "[llm.roles.router]\nmodel = \"groq/m\"");
    let ran = doctor(&world, &["--model", "ollama/m"], &[]);
    tells(&ran, 0, "broken", &["the models belong to several services: groq, ollama"]);
}

#[test]
fn what_asks_no_model_needs_no_key() {
    let world = World::indexed();
    for settings in ["", "key_env = \"MINE\"\n"] {
        write_config(&world, &format!("[llm]\nmodel = \"m\"\n{settings}"));
        world.run(["search", "tiny", "steel dart"]).done();
        world.run(["eval", "--dataset", "tiny", "--split", "val", "--system", "bm25"]).done();
        world.run(["answer", "tiny", "steel dart", "--dry-run"]).done();
        let word = if settings.is_empty() { "there is no key" } else { "MINE" };
        world.run(["search", "tiny", "steel dart", "--system", "rerank"]).fails(1, &[word]);
        let reranked = ["eval", "--dataset", "tiny", "--split", "val", "--system", "rerank"];
        world.run(reranked).fails(1, &[word]);
    }
}

#[test]
fn settings_say_what_options_and_environment_do_not() {
    let world = World::new();
    let service = Service::start(200, READY);
    write_config(
        &world,
        &format!(
            "[llm]\nbase_url = \"{}\"\nmodel = \"general\"\nkey_env = \"MINE\"\nkey_header = \"api-key\"\n\
             organisation = \"of-file\"\nproject = \"p\"\nquery = {{ api-version = \"1\" }}\n\
             [llm.limits]\nrequests_per_minute = 60\n[llm.roles.router]\nmodel = \"small\"\n\
             parameters = {{ top_p = 0.5 }}\n",
            service.url()
        ),
    );
    let ran = doctor(&world, &[], &[]);
    tells(&ran, 0, "broken", &["the variable MINE, which key_env names, is not set"]);
    let variables =
        [("MINE", KEY), ("OPENAI_API_KEY", "sk-other"), ("OPENAI_ORG_ID", "of-variable")];
    let ran = doctor(&world, &["--ask"], &variables);
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    tells(
        &ran,
        0,
        "ok",
        &["general (actor, ", "small (router)", "key of MINE", "60 requests per minute"],
    );
    tells(&ran, 1, "ok", &["\"ready\" in", "10 tokens"]);
    let heard = service.heard();
    assert_eq!(heard.len(), 1);
    for part in [
        "POST /v1/chat/completions?api-version=1 HTTP/1.1",
        &format!("api-key: {KEY}"),
        "openai-organization: of-variable",
        "openai-project: p",
        "\"model\":\"small\"",
        "\"top_p\":0.5",
        "\"max_tokens\":1024",
    ] {
        assert!(heard[0].contains(part), "{part} is not in {}", heard[0]);
    }
    // Another file, another model.
    let other = world.path("other.toml");
    fs::write(&other, "[llm]\nmodel = \"m\"\n").unwrap();
    let other = other.display().to_string();
    let ran = doctor(&world, &["--config", &other], &[("OPENAI_API_KEY", KEY)]);
    tells(&ran, 0, "ok", &["m at https://api.openai.com/v1"]);
}

#[test]
fn wrong_settings_are_told_with_their_place() {
    let world = World::new();
    for (text, words) in [
        (
            "[llm]\n\nmodle = \"m\"\n",
            &["config.toml:3", "no setting llm.modle", "did you mean model?"][..],
        ),
        (
            "[llm]\napi_key = \"abc-0123456789\"\n",
            &["config.toml:2", "looks like an API key", "OPENAI_API_KEY"],
        ),
        (
            "[llm.roles.actor]\nmodel = \"m\"\n",
            &["no model is configured for the roles comparator, "],
        ),
        ("[llm\n", &["config.toml:1"]),
    ] {
        write_config(&world, text);
        let ran = doctor(&world, &[], &[("OPENAI_API_KEY", KEY)]);
        assert_eq!(ran.status, 1);
        tells(&ran, 0, "broken", words);
        assert!(!ran.stdout.contains("0123456789"));
    }
    let ran = doctor(&world, &["--config", "nowhere.toml"], &[]);
    tells(&ran, 0, "broken", &["cannot read nowhere.toml"]);
    let ran =
        doctor(&world, &["--model", "m"], &[("OPENAI_BASE_URL", "http://me:pass-word@127.0.0.1")]);
    assert!(!ran.stdout.contains("pass-word"), "{}", ran.stdout);
}

#[test]
fn l2_final_errors_are_asked_once_and_told_with_a_remedy() {
    let world = World::new();
    for (status, body, words) in [
        (
            401,
            r#"{"error":{"message":"bad key"}}"#,
            &["does not accept the key", "check the key in the environment"][..],
        ),
        (403, "{}", &["may not be allowed to use"]),
        (
            404,
            r#"{"error":{"message":"no model m"}}"#,
            &["no model m; check the name of the model"],
        ),
        (
            429,
            r#"{"error":{"message":"x","code":"insufficient_quota"}}"#,
            &["the quota is used up", "add credit"],
        ),
        (402, "", &["the quota is used up"]),
        (
            400,
            r#"{"error":{"message":"maximum context length"}}"#,
            &["use a model with a longer context"],
        ),
    ] {
        let service = Service::start(status, body);
        let variables = [("OPENAI_BASE_URL", &*service.url()), ("OPENAI_API_KEY", KEY)];
        let ran = doctor(&world, &["--model", "m", "--ask"], &variables);
        assert_eq!(ran.status, 1);
        tells(&ran, 1, "broken", words);
        assert_eq!(service.heard().len(), 1, "{status}");
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test sends a signal to the binary")]
fn a_signal_ends_all_waiting() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut command = world.command(["doctor", "--ask", "--model", "m"]);
    let child = command.env("OPENAI_BASE_URL", url).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    // It is connected, and nobody will answer.
    let held = listener.accept().unwrap();
    let began = Instant::now();
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ran.status, 130, "{}", ran.stderr);
    assert!(ran.stderr.contains("interrupted: stopped"), "{}", ran.stderr);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    drop(held);
}

/// All files below a directory with their bytes.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let inside = |path: std::path::PathBuf| match path.is_dir() {
        true => files(&path),
        false => vec![(path.display().to_string(), fs::read(&path).unwrap())],
    };
    entries.map(|entry| entry.path()).flat_map(inside).collect()
}

#[test]
fn l9_the_key_is_in_one_header_and_nowhere_else() {
    let world = World::indexed();
    let quotes = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}\n"}}}}"#);
    for (status, body) in [(200, READY), (401, &quotes), (400, &quotes), (200, &quotes)] {
        let service = Service::start(status, body);
        for log in ["trace", "agent=debug"] {
            let variables =
                [("OPENAI_BASE_URL", &*service.url()), ("OPENAI_API_KEY", KEY), ("AGENT_LOG", log)];
            let ran = doctor(&world, &["--model", "m", "--ask", "-vv"], &variables);
            assert_eq!(told(&ran).len(), 2);
            assert!(!ran.stdout.contains(KEY), "{}", ran.stdout);
            assert!(!ran.stderr.contains(KEY), "{}", ran.stderr);
            // There is a log, and it holds nothing of what was asked.
            assert!(log != "trace" || ran.stderr.contains("gen_ai.request.model"));
            assert!(!ran.stderr.contains("Answer with"), "{}", ran.stderr);
        }
        for heard in service.heard() {
            assert_eq!(heard.matches(KEY).count(), 1);
            assert!(heard.contains(&format!("authorization: Bearer {KEY}")), "{heard}");
        }
    }
    for (path, bytes) in files(&world.path(".")) {
        let holds = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
        assert!(!holds, "the key is in {path}");
    }
}
