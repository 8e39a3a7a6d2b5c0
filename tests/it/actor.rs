//! `agent optimize --actor llm` against a scripted stand-in for a model: that programs come out of
//! its replies and into a bundle that needs it no more, that a cassette repeats a run to the last
//! byte, that no failure of the service loses anything, and what a model is never shown.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use agent::optimize::journal::Journal;
use serde_json::Value;

use crate::{
    model::{ModelServer, Mood},
    support::{Ran, World, given},
};

/// Stands for a key; looked for in everything that is written.
const KEY: &str = "sk-scripted-0123456789";
/// Steps of improvement.
const STEPS: &str = "6";
/// A run whose service fails for ever ends within this time, on a loaded machine.
const ENDS_WITHIN: Duration = Duration::from_secs(120);
/// The committed cassette, and the arguments it was recorded with.
const CASSETTE: &str = "tests/data/cassettes/shop.jsonl";

/// Deadlines that make a failing service fail soon.
const IMPATIENT: &str = "[llm]\nmodel = \"scripted\"\n\
    [llm.limits]\nconnect_s = 1.0\nfirst_byte_s = 1.0\nidle_s = 1.0\nattempt_s = 2.0\n\
    total_s = 4.0\nattempts = 2\nfirst_wait_s = 0.01\nlongest_wait_s = 1.0\n\
    [llm.prices.scripted]\ninput = 1.0\noutput = 10.0\n";

fn command(world: &World, url: &str, run: &Path, args: &[&str]) -> Command {
    let config = world.path("llm.toml");
    fs::write(&config, IMPATIENT).unwrap();
    let (config, run) = (config.display().to_string(), run.display().to_string());
    let fixed = [
        "optimize",
        "--dataset",
        "shop",
        "--steps",
        STEPS,
        "--config",
        &config,
        "--run",
        &run,
        "--no-cache",
    ];
    let mut command = world.command(fixed.into_iter().chain(args.iter().copied()));
    command.env("OPENAI_API_KEY", KEY).env("OPENAI_BASE_URL", url);
    command
}

fn optimize(world: &World, url: &str, run: &Path, args: &[&str]) -> Ran {
    Ran::of(command(world, url, run, args).output().unwrap())
}

fn bundle(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("bundle.json")).unwrap()).unwrap()
}

/// Bodies of the steps of a kind.
fn steps(run: &Path, kind: &str) -> Vec<Value> {
    let steps = Journal::open_read_only(run).unwrap().steps().unwrap();
    steps.into_iter().filter(|step| step.kind == kind).map(|step| step.body).collect()
}

/// All files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let (mut files, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { dirs.push(path) } else { files.push(path) }
        }
    }
    files
}

#[test]
fn programs_of_a_model_are_proven_and_frozen_and_need_it_no_more() {
    // Few questions prove nothing where words alone answer most.
    let world = World::shop_with(100);
    let server = ModelServer::start(Mood::Works);
    let run = world.path("run");
    let args = ["--actor", "llm", "--llm-steps", "3", "--json"];
    let ran = optimize(&world, &server.url(), &run, &args);
    let stderr = ran.stderr.clone();
    let line = ran.json_lines().pop().unwrap();
    assert_eq!(line["stopped"], "done", "{stderr}");
    assert!(line["cost"]["calls"].as_u64().unwrap() >= 6, "{line}");
    assert!(line["cost"]["usd"].as_f64().unwrap() > 0.0, "{line}");

    // What was asked for was written, mended where it did not parse, improved, and accepted.
    let attempts = steps(&run, "attempt");
    let of = |what: &str| attempts.iter().filter(|one| one["what"] == what).collect::<Vec<_>>();
    assert!(of("initial").len() >= 2, "{attempts:?}");
    assert_eq!(steps(&run, "categories")[0]["found"].as_array().unwrap().len(), 2);
    assert!(of("initial").iter().all(|one| one["program"].is_string()), "{attempts:?}");
    assert!(of("improve").iter().any(|one| one["accepted"] == true), "{attempts:?}");
    let frozen = bundle(&run);
    // So are the words of the questions that it worded about a relation.
    let place = run.display().to_string();
    let lexicon = world.run(["program", "show", "--lexicon", "--json", "--run", &place]).done();
    let is_told = |line: &str| line.contains("[\"brand <-") && line.contains("[\"forg\",1]");
    assert!(lexicon.lines().any(is_told), "{lexicon}");
    let by_model =
        frozen["categories"].as_array().unwrap().iter().any(|one| one["proposed_by"] == "llm");
    assert!(by_model, "{frozen}");
    let validation = &frozen["validation"];
    let best = validation["baselines"].as_object().unwrap().values();
    let best = best.map(|mrr| mrr.as_f64().unwrap()).fold(0.0, f64::max);
    assert!(validation["mrr"].as_f64().unwrap() > best, "{validation}");

    // What the model was shown: no text of a test query, and of validation queries the words, to
    // sort them.
    let queries = fs::read_to_string(world.path("sample/qa.csv")).unwrap();
    let rows: Vec<csv_row::Row> = csv_row::rows(&queries);
    let texts = |split: &str| -> Vec<String> {
        let index = fs::read_to_string(world.path("sample").join(format!("split/{split}.index")));
        let wanted: Vec<String> = index.unwrap().lines().map(str::to_owned).collect();
        rows.iter().filter(|row| wanted.contains(&row.id)).map(|row| row.query.clone()).collect()
    };
    let (validation, test) = (texts("val"), texts("test"));
    assert!(!validation.is_empty() && !test.is_empty());
    for request in server.requests() {
        let text = request["messages"].to_string();
        let sorts = text.contains("You sort queries into categories");
        let shows = |queries: &[String]| {
            queries.iter().find(|query| text.contains(&*json_text(query))).cloned()
        };
        assert_eq!(shows(&test), None);
        if !sorts {
            assert_eq!(shows(&validation), None);
        }
    }

    // The server is gone, the bundle answers.
    drop(server);
    let bundle = run.join("bundle.json").display().to_string();
    let query = ["query", "--bundle", &bundle, "--dataset", "shop", "a durable bottle", "--json"];
    let answer = world.run(query).json_lines().pop().unwrap();
    assert!(!answer["hits"].as_array().unwrap().is_empty(), "{answer}");
    world.run(["verify", &bundle, "--dataset", "shop"]).done();

    // The key is nowhere.
    for file in files(&world.path("")) {
        let bytes = fs::read(&file).unwrap();
        let found = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
        assert!(!found, "the key is in {}", file.display());
    }
    assert!(!stderr.contains(KEY));
}

#[test]
fn a_run_on_a_real_base_improves_and_its_bundle_answers_without_the_service() {
    let Some(data) = given::real_data("products") else { return };
    let world = World::new();
    let data = data.display().to_string();
    world.run(["data", "import", "--name", "products", "--from", &data]).done();
    world.run(["index", "products"]).done();
    let server = ModelServer::start(Mood::Works);
    let run = world.path("run");
    let (dir, steps) = (run.display().to_string(), "8");
    let mut command = world.command([
        "optimize",
        "--dataset",
        "products",
        "--steps",
        steps,
        "--actor",
        "llm",
        "--model",
        "scripted",
        "--no-cache",
        "--run",
        &dir,
        "--json",
    ]);
    command.env("OPENAI_BASE_URL", server.url());
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(server.asked() >= 6, "{} requests", server.asked());
    drop(server);
    assert!(steps_accepted(&run) > 0, "{}", ran.stderr);
    let validation = bundle(&run)["validation"].clone();
    let best = validation["baselines"].as_object().unwrap().values();
    let best = best.map(|mrr| mrr.as_f64().unwrap()).fold(0.0, f64::max);
    assert!(validation["mrr"].as_f64().unwrap() > best, "{validation}");
    let bundle = run.join("bundle.json").display().to_string();
    let query = ["query", "--bundle", &bundle, "--dataset", "products", "a gift for a golfer"];
    world.run(query).done();
}

/// Improvements of the model that validation accepted.
fn steps_accepted(run: &Path) -> usize {
    steps(run, "attempt").iter().filter(|one| one["accepted"] == true).count()
}

#[test]
fn a_cassette_repeats_a_run_without_a_service() {
    let world = World::shop();
    let cassette = Path::new(env!("CARGO_MANIFEST_DIR")).join(CASSETTE);
    let actors = ["--actor", "search,llm", "--json"];
    if std::env::var_os("UPDATE").is_some() {
        let server = ModelServer::start(Mood::Works);
        fs::create_dir_all(cassette.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&cassette);
        let record = ["--record", cassette.to_str().unwrap()];
        let args: Vec<&str> = actors.iter().copied().chain(record).collect();
        optimize(&world, &server.url(), &world.path("recorded"), &args).done();
    }
    let replay = ["--replay", cassette.to_str().unwrap()];
    let digest = |run: &Path, threads: &str| {
        let more = [&replay[..], &["--threads", threads]].concat();
        let args: Vec<&str> = actors.iter().copied().chain(more).collect();
        // Nobody listens there.
        let ran = optimize(&world, "http://127.0.0.1:9/v1", run, &args);
        let remedy = "record it anew with `UPDATE=1 cargo test --release cassette`";
        assert_eq!(ran.status, 0, "{}\nif prompts or tools changed, {remedy}", ran.stderr);
        bundle(run)["digest"].as_str().unwrap().to_owned()
    };
    let (one, two) = (world.path("one"), world.path("two"));
    assert_eq!(digest(&one, "1"), digest(&two, "2"));
    // It is also that of a run that asks the service.
    let server = ModelServer::start(Mood::Works);
    let asked = world.path("asked");
    optimize(&world, &server.url(), &asked, &actors).done();
    assert_eq!(bundle(&asked)["digest"], bundle(&one)["digest"]);
    let by = |name: &str| {
        steps(&one, "trial").iter().any(|trial| trial["origin"]["proposed_by"] == name)
    };
    assert!(by("search") && by("llm"), "both actors take part");
    // A request that was not recorded ends the run and names it.
    let other = world.path("other");
    let args = [&["--actor", "llm", "--seed", "77"][..], &replay].concat();
    let ran = optimize(&world, "http://127.0.0.1:9/v1", &other, &args);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("no reply to this request of role categories"), "{}", ran.stderr);
}

#[test]
fn a_service_that_fails_pauses_the_run_before_anything_is_spent() {
    let world = World::shop();
    let run = |mood: Mood| {
        let name = format!("{mood:?}").to_lowercase().replace(['(', ')'], "");
        world.path(&format!("home/runs/shop-{name}"))
    };
    let moods = [
        (Mood::Garbage, "web page"),
        (Mood::Refuses, "key"),
        (Mood::Hangs, "no reply within 1 s"),
        (Mood::Limits, "429"),
        (Mood::Dies(0), "connection"),
    ];
    for (mood, word) in moods {
        let server = ModelServer::start(mood);
        let run = run(mood);
        let began = Instant::now();
        let args = ["--actor", "search,llm", "--test"];
        let ran = optimize(&world, &server.url(), &run, &args);
        assert!(began.elapsed() < ENDS_WITHIN, "{mood:?}: {:?}", began.elapsed());
        assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{mood:?}: {}", ran.stderr);
        for expected in ["paused: ", word, "nothing is frozen", "--resume"] {
            assert!(
                ran.stderr.contains(expected),
                "{mood:?}: {expected:?} is not in {}",
                ran.stderr
            );
        }
        assert!(!run.join("bundle.json").exists(), "{mood:?}: a paused run froze a bundle");
        assert_eq!(steps(&run, "trial").len(), 0, "{mood:?}: work was done in vain");
        if mood == Mood::Refuses {
            assert_eq!(server.asked(), 1, "a wrong key is wrong at once");
        }
    }
    assert!(!world.path("home/openings").exists(), "a paused run opened the test split");
    let listed = world.run(["run", "list", "--json"]).json_lines();
    let states: Vec<&Value> = listed.iter().map(|run| &run["state"]).collect();
    assert_eq!(states, ["paused"; 5], "{listed:?}");

    // Once the key is accepted, the run goes on to its end.
    let (server, refused) = (ModelServer::start(Mood::Works), run(Mood::Refuses));
    let shown = || {
        let run = refused.display().to_string();
        world.run(["run", "show", &run, "--json"]).json_lines().pop().unwrap()
    };
    assert!(shown()["paused"].as_str().unwrap().contains("key"), "{}", shown());
    // A resumption that is refused leaves it paused.
    let other = ["--actor", "search,llm", "--seed", "99", "--resume"];
    let ran = optimize(&world, &server.url(), &refused, &other);
    assert!(ran.status == 1 && ran.stderr.contains("was started with"), "{}", ran.stderr);
    assert!(shown()["paused"].as_str().unwrap().contains("key"), "{}", shown());
    optimize(&world, &server.url(), &refused, &["--actor", "search,llm", "--resume"]).done();
    assert_eq!((&shown()["state"], &shown()["paused"]), (&"finished".into(), &Value::Null));
    assert!(refused.join("bundle.json").exists());
}

#[test]
fn a_service_that_fails_later_pauses_the_run_too() {
    let world = World::shop();
    let server = ModelServer::start(Mood::Dies(4));
    let run = world.path("run");
    let ran = optimize(&world, &server.url(), &run, &["--actor", "llm", "--json"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let line: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(line["stopped"], "paused", "{line}");
    assert!(!run.join("bundle.json").exists());
}

#[test]
fn a_model_that_never_writes_a_program_costs_its_steps_and_no_more() {
    let world = World::shop();
    for (mood, run) in [(Mood::Babbles, "run"), (Mood::Floods, "run of floods")] {
        let server = ModelServer::start(mood);
        let run = world.path(run);
        let ran = optimize(&world, &server.url(), &run, &["--actor", "search,llm", "--json"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let frozen = bundle(&run);
        let categories = frozen["categories"].as_array().unwrap();
        assert!(categories.iter().all(|one| one["proposed_by"] != "llm"));
    }
}

#[test]
fn an_interrupted_run_pays_no_reply_twice_and_ends_alike() {
    let world = World::shop();
    let undisturbed = world.path("undisturbed");
    let server = ModelServer::start(Mood::Works);
    optimize(&world, &server.url(), &undisturbed, &["--actor", "llm"]).done();
    let paid = server.requests().len();
    for after in [1, 3, 5, 8] {
        let run = world.path(&format!("after{after}"));
        let dying = ModelServer::start(Mood::Dies(after));
        let ran = optimize(&world, &dying.url(), &run, &["--actor", "llm"]);
        assert_eq!(ran.status, 1, "{}", ran.stderr);
        drop(dying);
        let server = ModelServer::start(Mood::Works);
        optimize(&world, &server.url(), &run, &["--actor", "llm", "--resume"]).done();
        assert_eq!(bundle(&run), bundle(&undisturbed), "after {after}");
        assert_eq!(server.requests().len(), paid - after, "after {after}");
    }
}

#[test]
fn ceilings_stop_before_they_are_passed() {
    let world = World::shop();
    let server = ModelServer::start(Mood::Works);
    let cost = |run: &str, args: &[&str]| -> Value {
        let args = [&["--actor", "llm", "--json"], args].concat();
        let ran = optimize(&world, &server.url(), &world.path(run), &args);
        ran.json_lines().pop().unwrap()
    };
    let line = cost("tokens", &["--budget-tokens", "25000"]);
    assert_eq!(line["stopped"], "budget");
    let tokens = |name: &str| line["cost"][name].as_u64().unwrap();
    assert!(tokens("calls") > 0 && tokens("tokens_in") + tokens("tokens_out") <= 25_000, "{line}");
    // Under a higher ceiling the model takes the steps that it had left out.
    let both = ["--actor", "search", "--no-llm-tools", "--budget-tokens"];
    let low = cost("more", &[&both[..], &["36000"]].concat());
    let high = cost("more", &[&both[..], &["5000000", "--resume"]].concat());
    assert_eq!((&low["stopped"], &high["stopped"]), (&"budget".into(), &"done".into()));
    assert!(high["cost"]["calls"].as_u64() > low["cost"]["calls"].as_u64(), "{low} {high}");
    let line = cost("usd", &["--budget-usd", "0.1"]);
    assert_eq!(line["stopped"], "budget");
    assert!(line["cost"]["usd"].as_f64().unwrap() <= 0.1, "{line}");
}

#[test]
fn a_bundle_leans_on_a_model_as_far_as_it_is_told_to() {
    let world = World::shop();
    let run = world.path("run");
    let fixed = ["optimize", "--dataset", "shop", "--steps", "0", "--run", run.to_str().unwrap()];
    world.run(fixed).done();
    let system = format!("bundle:{}", run.join("bundle.json").display());
    let eval = ["eval", "--dataset", "shop", "--split", "val", "--system", &system, "--json"];
    let server = ModelServer::start(Mood::Works);
    let measured = |effort: &str| {
        let more = ["--effort", effort, "--model", "scripted", "--no-cache"];
        let mut command = world.command(eval.iter().copied().chain(more));
        command.env("OPENAI_BASE_URL", server.url());
        Ran::of(command.output().unwrap()).json_lines().pop().unwrap()
    };
    let calls = |line: &Value| line["llm"]["calls"].as_u64().unwrap();
    let (without, read, judged) = (measured("0"), measured("1"), measured("2"));
    // The scripted model names the first category for every query, and is sure of it: that is wrong
    // for most of them, and takes nothing away that the bundle's own router finds.
    let found = |line: &Value| line["metrics"]["hit@20"].as_f64().unwrap();
    assert_eq!(found(&read), found(&without), "{read} {without}");
    let n = without["n"].as_u64().unwrap();
    assert_eq!(calls(&without), 0);
    assert_eq!(calls(&read), n, "one request for each query");
    assert!(calls(&judged) > n, "{judged}");
    // All in one go: what was asked before is not paid for again, and is counted all the same.
    let more = ["--effort", "0,1,2", "--model", "scripted"];
    let mut command = world.command(eval.iter().copied().chain(more));
    let lines = Ran::of(command.env("OPENAI_BASE_URL", server.url()).output().unwrap());
    let lines = lines.json_lines();
    let rows: Vec<&Value> = lines.iter().rev().take(3).rev().collect();
    let asked = |line: &Value| line["asked"]["calls"].as_u64();
    assert_eq!(rows.iter().map(|line| asked(line)).collect::<Vec<_>>()[..2], [None, Some(n)]);
    assert_eq!(asked(rows[2]), Some(calls(&judged)));
    assert_eq!(calls(rows[2]), calls(&judged) - n, "the readings were kept");
    assert_eq!(rows[2]["metrics"], judged["metrics"]);
    assert!(rows[2]["system"].as_str().unwrap().ends_with(" effort 2"), "{}", rows[2]);
    assert_eq!(rows[2]["versus"][0]["system"], rows[0]["system"]);
    // Told beforehand, and never passed.
    let requests = server.requests().len();
    let dry = ["--effort", "0,1,2", "--model", "scripted", "--dry-run"];
    let mut command = world.command(eval.iter().copied().chain(dry));
    let told = Ran::of(command.env("OPENAI_BASE_URL", server.url()).output().unwrap());
    assert_eq!(server.requests().len(), requests, "nothing is asked");
    let told = told.json_lines();
    for (row, told) in rows.iter().zip(told.iter().rev().take(3).rev()) {
        let most = |name: &str| told[name].as_u64().unwrap();
        let used = |name: &str| row["asked"][name].as_u64().unwrap_or(0);
        let [least, most_calls] = [0, 1].map(|end| told["calls"][end].as_u64().unwrap());
        assert!((least..=most_calls).contains(&used("calls")), "{told} {row}");
        assert!(used("tokens_in") <= most("tokens_in"), "{told} {row}");
        assert!(used("tokens_out") <= most("tokens_out"), "{told} {row}");
    }
    // The scripted model turns the first twenty around.
    assert_ne!(judged["metrics"], without["metrics"]);
    // Without a model there is nothing to lean on.
    world
        .run(eval.iter().copied().chain(["--effort", "1"]))
        .fails(1, &["language model", "--model"]);
}

#[test]
fn a_dry_run_says_what_would_be_asked_and_asks_nothing() {
    let world = World::shop();
    let server = ModelServer::start(Mood::Works);
    let run = world.path("run");
    let dry = ["--actor", "llm", "--dry-run", "--json"];
    let line = optimize(&world, &server.url(), &run, &dry).json_lines().pop().unwrap();
    assert_eq!(server.requests().len(), 0);
    let range = |name: &str, end: usize| line["llm"][name][end].as_f64().unwrap();
    let typical = line["llm"]["typical"]["calls"].as_f64().unwrap();
    assert!(range("calls", 0) <= typical && typical <= range("calls", 1), "{line}");
    let printed = optimize(&world, &server.url(), &run, &dry[..3]).done();
    let begins = format!("typical: {typical} LLM calls, ");
    assert!(printed.lines().any(|line| line.starts_with(&begins)), "{printed}");
    let done = optimize(&world, &server.url(), &run, &["--actor", "llm", "--json"]);
    let cost = done.json_lines().pop().unwrap()["cost"].clone();
    let calls = cost["calls"].as_f64().unwrap();
    assert!(range("calls", 0) <= calls && calls <= range("calls", 1), "{line} {cost}");
    assert!(cost["usd"].as_f64().unwrap() <= range("usd", 1), "{line} {cost}");
}

#[test]
fn parts_of_the_llm_actor_can_be_left_out() {
    let world = World::shop_with(100);
    // Attempts of a run, and how many of its requests ask for a comparison and for an improvement.
    let left_out = |part: &str| {
        let (server, run) = (ModelServer::start(Mood::Works), world.path(part));
        optimize(&world, &server.url(), &run, &["--actor", "llm", "--without", part]).done();
        let requests = server.requests();
        let asks = |words: &str| {
            let begins = |request: &Value| {
                request["messages"][0]["content"].as_str().unwrap().starts_with(words)
            };
            requests.iter().filter(|&request| begins(request)).count()
        };
        let asked = ["You compare queries", "You improve retrieval programs"].map(asks);
        (steps(&run, "attempt"), asked, bundle(&run)["provenance"]["llm"]["models"].clone())
    };
    let is = |what: &'static str| move |attempt: &&Value| attempt["what"] == what;
    let (attempts, asked, models) = left_out("steps");
    assert_eq!(asked, [0, 0]);
    assert!(!attempts.is_empty() && attempts.iter().all(|one| is("initial")(&one)), "{attempts:?}");
    assert!(models["actor"].is_string() && models["comparator"].is_null(), "{models}");
    let (attempts, [compared, improved], models) = left_out("comparator");
    assert_eq!(compared, 0);
    let steps: Vec<&Value> = attempts.iter().filter(is("improve")).collect();
    assert!(!steps.is_empty() && improved >= steps.len(), "{attempts:?}");
    assert!(steps.iter().all(|one| one["advice"].is_null()), "{attempts:?}");
    assert!(steps.iter().any(|one| one["accepted"] == true), "{attempts:?}");
    assert!(models["comparator"].is_null(), "{models}");

    // Without the llm actor there is nothing to leave out, named or for lack of a model.
    for actor in [&["--actor", "search"][..], &[]] {
        let args = ["optimize", "--dataset", "shop", "--without", "steps"];
        let why = ["steps belongs to the llm actor", "--actor search,llm"];
        world.run(args.iter().chain(actor).copied()).fails(2, &why);
    }
}

/// A text as it stands in JSON, without its quotes.
fn json_text(text: &str) -> String {
    Value::from(text).to_string().trim_matches('"').to_owned()
}

/// Rows of a file of queries, as far as these tests need them.
mod csv_row {
    pub(super) struct Row {
        pub(super) id: String,
        pub(super) query: String,
    }

    pub(super) fn rows(text: &str) -> Vec<Row> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let cell = |row: &csv::StringRecord, at: usize| row.get(at).unwrap_or_default().to_owned();
        reader
            .records()
            .map(|row| row.unwrap())
            .map(|row| Row { id: cell(&row, 0), query: cell(&row, 1) })
            .collect()
    }
}
