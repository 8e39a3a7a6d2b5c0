//! `agent run` and `agent cache`: what they tell of runs that are finished, interrupted or being
//! written, and of what is kept.

use std::{fs, path::Path, process};

use agent::{
    llm::{
        Exchange, Finish, Message, Reply, ReplyStore, Request, Role, Usage, shared::SharedCache,
    },
    optimize::journal::Journal,
    program::Program,
};
use serde_json::{Value, json};

use crate::{report::record, support::World};

/// An exchange; those with odd numbers are paid for.
fn exchange(n: usize) -> Exchange {
    let request = Request {
        role: if n < 2 { Role::new("actor") } else { Role::new("comparator") },
        model: "priced".to_owned(),
        messages: vec![
            Message { speaker: agent::llm::Speaker::System, text: "Be brief.".to_owned() },
            Message::user(format!("question {n}\nwith an escape \u{1b}[31m")),
        ],
        temperature: None,
        max_tokens: 100,
        parameters: serde_json::Map::new(),
        json: None,
        sample: 0,
    };
    let usage = Usage { tokens_in: 1_000, tokens_out: 100, estimated: n == 3 };
    let reply = Reply { text: format!("answer {n}"), finish: Finish::Stop, usage };
    Exchange { request, reply, paid: n % 2 == 1 }
}

/// A run with a trial, an accepted test, a step of a kind of its own, and four exchanges.
fn write_run(dir: &Path) -> Journal {
    let config = json!({
        "dataset": "shop", "seed": 7, "steps": 9, "actor": "llm", "model": "priced",
        "prices": {"priced": {"input": 2.0, "output": 10.0}},
    });
    let mut journal = Journal::create(dir, &config).unwrap();
    let replies = journal.replies().unwrap();
    let keys: Vec<String> = (0..4)
        .map(|n| {
            let key = exchange(n).request.key();
            replies.put(&key, &exchange(n)).unwrap();
            key
        })
        .collect();
    let program = |n: usize| {
        Program::new(&format!("//! category: kites\nfn retrieve(q, c, p) {{ c + {n} }}"))
    };
    let trial = |n: usize, pool: &str, ranks: &[f32]| {
        json!({
            "program": program(n).id(), "params": {}, "pool": pool,
            "origin": {"proposed_by": "actor", "change": "looked at brands", "parent": null},
            "queries": (0..ranks.len()).collect::<Vec<_>>(), "reciprocal_ranks": ranks,
            "failed": 1, "failure": "too slow",
        })
    };
    let steps = [
        ("trial", trial(0, "validation", &[0.25, 0.25]), vec![program(0)], vec![]),
        ("trial", trial(1, "validation", &[0.5, 1.0]), vec![program(1)], keys[..2].to_vec()),
        (
            "decision",
            json!({
                "category": "kites", "from": program(0).id(), "to": program(1).id(), "params": {},
                "change": "looked at brands", "n": 2, "difference": 0.5, "p": 0.01,
                "accepted": true,
            }),
            vec![],
            vec![],
        ),
        ("thought", json!(["anything"]), vec![], keys[2..3].to_vec()),
    ];
    for (at, (kind, body, programs, replies)) in steps.into_iter().enumerate() {
        journal.commit_with(kind, &format!("key {at}"), &body, &programs, &replies).unwrap();
    }
    journal
}

fn one(lines: Vec<Value>) -> Value {
    let [line] = &lines[..] else { panic!("{lines:?}") };
    line.clone()
}

#[test]
fn a_run_is_shown_while_it_is_written_and_after_it_was_interrupted() {
    let world = World::new();
    let dir = world.path("home/runs/shop-0001");
    let run = dir.display().to_string();
    assert_eq!(world.run(["run", "list"]).done(), "");
    let journal = write_run(&dir);
    let show = || one(world.run(["run", "show", &run, "--json"]).json_lines());
    let shown = show();
    assert_eq!((&shown["state"], &shown["pid"]), (&json!("running"), &json!(process::id())));
    for (name, value) in [
        ("dataset", json!("shop")),
        ("actor", json!("llm")),
        ("model", json!("priced")),
        ("seed", json!(7)),
        ("planned", json!(9)),
        ("steps", json!(4)),
        ("kinds", json!({"decision": 1, "thought": 1, "trial": 2})),
        ("tested", json!(1)),
        ("accepted", json!(1)),
        ("bundle", Value::Null),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    let best = &shown["categories"][0];
    assert_eq!(
        (&best["category"], &best["n"], &best["mrr"]),
        (&json!("kites"), &json!(2), &json!(0.75))
    );
    assert_eq!(shown["spent"]["calls"], 2);

    fs::create_dir(world.path("home/runs/other-0001")).unwrap();
    let listed = world.run(["run", "list", "--json"]).json_lines();
    assert_eq!(listed[0]["state"], "unreadable");
    assert!(listed[0]["problem"].to_string().contains("does not contain a run"), "{listed:?}");
    let listed = one(world.run(["run", "list", "--dataset", "shop", "--json"]).json_lines());
    assert_eq!((&listed["state"], &listed["accepted"]), (&json!("running"), &json!(1)));
    let none = world.run(["run", "list", "--dataset", "nope"]).stderr;
    let looked_at = format!("no runs on \"nope\" in {}", world.path("home/runs").display());
    assert!(none.contains(&looked_at) && none.contains("agent run show DIR"), "{none}");

    drop(journal);
    assert_eq!(show()["state"], "interrupted");
    for text in [world.run(["run", "show", &run]).done(), world.run(["run", "list"]).done()] {
        assert!(text.contains("interrupted") && text.contains("shop"), "{text}");
    }
    let absent = world.path("absent").display().to_string();
    for command in ["show", "log", "cost", "prompts"] {
        world.run(["run", command, &absent]).fails(1, &["no run at", "does not exist"]);
    }
}

#[test]
fn steps_costs_and_prompts_of_a_run_are_told() {
    let world = World::new();
    let dir = world.path("run");
    let run = dir.display().to_string();
    drop(write_run(&dir));

    let log = world.run(["run", "log", &run, "--json"]).json_lines();
    let kinds: Vec<&str> = log.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["trial", "trial", "decision", "thought"]);
    assert_eq!((&log[1]["mrr"], &log[1]["proposed_by"]), (&json!(0.75), &json!("actor")));
    assert_eq!(log[1]["replies"].as_array().unwrap().len(), 2);
    for (name, value) in [
        ("proposed_by", json!("actor")),
        ("difference", json!(0.5)),
        ("p", json!(0.01)),
        ("accepted", json!(true)),
    ] {
        assert_eq!(log[2][name], value, "{name}");
    }
    let text = world.run(["run", "log", &run]).done();
    for part in ["looked at brands; failed on 1 (2 replies)", "+50.0", "0.0100", "yes", "key 3"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert_eq!(text.lines().count(), 5);

    let cost = one(world.run(["run", "cost", &run, "--json"]).json_lines());
    let actor = &cost["roles"][0];
    assert_eq!(
        (&actor["role"], &actor["calls"], &actor["from_cache"]),
        (&json!("actor"), &json!(1), &json!(1))
    );
    assert_eq!(
        (&cost["total"]["tokens_in"], &cost["total"]["estimated"]),
        (&json!(2_000), &json!(1))
    );
    let usd = cost["total"]["usd"].as_f64().unwrap();
    assert!((usd - 0.006).abs() < 1e-12, "{usd}");
    let text = world.run(["run", "cost", &run]).done();
    assert!(text.contains("comparator") && text.contains("0.0060 USD"), "{text}");

    // The same by role where a run is shown, and on its page.
    let shown = one(world.run(["run", "show", &run, "--json"]).json_lines());
    assert_eq!((&shown["roles"], &shown["spent"]), (&cost["roles"], &cost["total"]));
    world.run(["report", "--run", &run]).done();
    let page = record(&fs::read_to_string(dir.join("report.html")).unwrap());
    assert_eq!((&page["run"]["roles"], &page["run"]["cost"]), (&cost["roles"], &cost["total"]));
    let text = world.run(["run", "show", &run]).done();
    for part in ["comparator", "0.0030 USD", "0.0060 USD"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }

    let all = world.run(["run", "prompts", &run]).done();
    for part in [
        "=== ",
        "actor priced",
        "--- system\nBe brief.",
        "--- user\nquestion 3\n",
        "--- reply\nanswer 0",
        "from the cache, steps 2",
    ] {
        assert!(all.contains(part), "{part:?} is not in {all}");
    }
    assert!(!all.contains('\u{1b}'), "an escape of a prompt reached the terminal");
    let key = exchange(2).request.key();
    for (which, answers) in [
        (["--step", "2"], vec!["answer 0", "answer 1"]),
        (["--step", "4"], vec!["answer 2"]),
        (["--step", "1"], vec![]),
        (["--role", "comparator"], vec!["answer 2", "answer 3"]),
        (["--role", "rerank"], vec![]),
        (["--key", &key[..8]], vec!["answer 2"]),
    ] {
        let args = ["run", "prompts", &run, which[0], which[1], "--json"];
        let lines = world.run(args).json_lines();
        let mut found: Vec<&str> =
            lines.iter().map(|line| line["reply"]["text"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, answers, "{which:?}");
    }
    world.run(["run", "prompts", &run, "--step", "9"]).fails(1, &["no step 9", "1 to 4"]);
    world.run(["run", "prompts", &run, "--key", "zz"]).fails(1, &["begins with"]);
    world.run(["run", "prompts", &run, "--role", "cook"]).fails(2, &["comparator"]);
}

#[test]
fn a_run_of_the_search_actor_is_told_from_begin_to_end() {
    let world = World::indexed();
    let dir = world.path("run").display().to_string();
    let optimize = ["optimize", "--dataset", "tiny", "--steps", "2", "--run", &dir];
    world.run(optimize).done();
    let shown = one(world.run(["run", "show", &dir, "--json"]).json_lines());
    assert_eq!((&shown["state"], &shown["dataset"]), (&json!("finished"), &json!("tiny")));
    assert!(shown["bundle"].is_string() && shown["categories"][0]["program"].is_string());
    let phases: Vec<&str> =
        shown["phases"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
    for phase in
        ["mining metapaths", "improving programs", "tuning parameters", "measuring and freezing"]
    {
        assert!(phases.contains(&phase), "{phase} is not in {phases:?}");
    }
    let log = world.run(["run", "log", &dir, "--json"]).json_lines();
    assert_eq!(log.len() as u64, shown["steps"].as_u64().unwrap());
    let cost = one(world.run(["run", "cost", &dir, "--json"]).json_lines());
    assert_eq!((&cost["roles"], &cost["total"]["calls"]), (&json!([]), &json!(0)));
    assert_eq!(world.run(["run", "prompts", &dir]).done(), "");
}

#[test]
fn kept_replies_and_embeddings_are_shown_and_cleared_apart() {
    let world = World::new();
    let empty = one(world.run(["cache", "show", "--json"]).json_lines());
    assert_eq!(
        (&empty["replies"]["entries"], &empty["embeddings"]["entries"]),
        (&json!(0), &json!(0))
    );
    let home = world.path("home");
    let cache = SharedCache::new(&home.join("cache/replies"));
    let fill = || {
        (0..3).for_each(|n| cache.put(&exchange(n).request.key(), &exchange(n)).unwrap());
        let dir = home.join("cache/embeddings");
        fs::create_dir_all(&dir).unwrap();
        let mut bytes = b"agentev1".to_vec();
        bytes.extend(2u32.to_le_bytes());
        bytes.extend([0; 32 + 3 * (16 + 8 + 8)]);
        fs::write(dir.join("model-01234567.documents"), bytes).unwrap();
        fs::write(dir.join("notes.txt"), "of somebody else").unwrap();
    };
    let entries = || {
        let shown = one(world.run(["cache", "show", "--json"]).json_lines());
        [&shown["replies"], &shown["embeddings"]].map(|kept| kept["entries"].as_u64().unwrap())
    };
    fill();
    assert_eq!(entries(), [3, 3]);
    let text = world.run(["cache", "show"]).done();
    for part in ["priced", "documents", "model-01234567", "all replies"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    world.run(["cache", "clear", "--replies"]).done();
    assert_eq!(entries(), [0, 3]);
    fill();
    world.run(["cache", "clear", "--embeddings"]).done();
    assert_eq!(entries(), [3, 0]);
    fill();
    world.run(["cache", "clear"]).done();
    assert_eq!(entries(), [0, 0]);
    assert!(home.join("cache/embeddings/notes.txt").exists());
}

#[test]
fn no_recorded_reply_of_the_tests_holds_what_looks_like_a_key_of_a_service() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut dirs = vec![root.join("tests")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "jsonl") {
                let text = fs::read_to_string(&path).unwrap();
                for word in ["\"sk-", "Bearer ", "api-key", "api_key", "authorization"] {
                    assert!(!text.contains(word), "{word:?} is in {}", path.display());
                }
            }
        }
    }
}
