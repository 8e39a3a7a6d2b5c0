//! Systems that expand, and `agent answer`, against a scripted stand-in for a model: what they cost
//! before and after, that a cassette repeats them, and that no unsupported sentence is printed.

use serde_json::json;

use crate::{
    model::{ModelServer, Mood},
    support::{Ran, World},
};

/// Runs the binary with a model.
fn asked(world: &World, server: &ModelServer, args: &[&str]) -> Ran {
    let with = ["--model", "scripted", "--no-cache"];
    let mut command = world.command(args.iter().copied().chain(with));
    command.env("OPENAI_API_KEY", "sk-scripted").env("OPENAI_BASE_URL", server.url());
    Ran::of(command.output().unwrap())
}

const EVAL: [&str; 9] = [
    "eval",
    "--dataset",
    "tiny",
    "--split",
    "val",
    "--system",
    "expand:hyde:bm25",
    "--system",
    "kar:graph",
];

#[test]
fn an_evaluation_tells_what_expansion_costs_before_and_after() {
    let (world, server) = (World::indexed(), ModelServer::start(Mood::Works));
    let lines =
        asked(&world, &server, &[&EVAL[..], &["--dry-run", "--json"]].concat()).json_lines();
    assert_eq!((&lines[0]["calls"], &lines[1]["calls"]), (&json!([2, 4]), &json!([0, 0])));
    assert_eq!(server.asked(), 0);
    let lines = asked(&world, &server, &[&EVAL[..], &["--json"]].concat()).json_lines();
    assert_eq!((&lines[0]["asked"]["calls"], server.asked()), (&json!(2), 2));
    assert!(lines[1].get("asked").is_none() && lines[0].get("unassisted").is_none());
    let table = asked(&world, &server, &EVAL).done();
    assert!(table.contains("tokens") && table.contains("expand:hyde:bm25"), "{table}");
    // Nothing usable: answered as without it, and said so.
    let babbling = ModelServer::start(Mood::Babbles);
    let lines = asked(&world, &babbling, &[&EVAL[..], &["--json"]].concat()).json_lines();
    assert_eq!(lines[0]["unassisted"], 2);
    let search = ["search", "tiny", "durable steel", "--system", "expand:hyde:bm25"];
    let ran = asked(&world, &babbling, &search);
    assert!(ran.stderr.contains("no usable reply"), "{}", ran.stderr);
    let plain = world.run(["search", "tiny", "durable steel", "--system", "bm25"]).done();
    assert_eq!(ran.done(), plain);
    // An outage is no answer.
    let refusing = ModelServer::start(Mood::Refuses);
    asked(&world, &refusing, &search).fails(1, &["does not accept the key"]);
}

#[test]
fn a_cassette_repeats_an_expansion_without_a_service() {
    let (world, server) = (World::indexed(), ModelServer::start(Mood::Works));
    let search = ["search", "tiny", "durable", "--system", "expand:rar", "--explain", "--json"];
    let live =
        asked(&world, &server, &[&search[..], &["--record", "replies.jsonl"]].concat()).done();
    assert!(live.contains("\"name\":\"expansion\"") && live.contains("durable steel barrel"));
    let replay = ["--replay", "replies.jsonl", "--model", "scripted"];
    for _ in 0..2 {
        assert_eq!(world.run(search.into_iter().chain(replay)).done(), live);
    }
    assert_eq!(server.asked(), 1);
}

#[test]
fn an_answer_keeps_only_what_was_found_and_confirmed() {
    let (world, server) = (World::indexed(), ModelServer::start(Mood::Works));
    let answer = ["answer", "tiny", "a durable dart by \"Dart World\""];
    let ran = asked(&world, &server, &answer);
    assert!(
        ran.stderr.contains("dropped a sentence that cites 77, which was not shown"),
        "{}",
        ran.stderr
    );
    let text = ran.done();
    assert!(text.starts_with("The first one is of steel. [0]\nThe second one is of gold. ["));
    assert!(text.contains("[0] steel dart (product)  Dart World <-has_brand- this\n"), "{text}");
    assert!(!text.contains("moon"), "{text}");
    let checked = asked(&world, &server, &[&answer[..], &["--check", "--json"]].concat());
    let line = checked.json_lines().remove(0);
    assert_eq!(line["sentences"], json!([{"text": "The first one is of steel.", "cites": ["0"]}]));
    assert_eq!(line["dropped"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&line["cited"][0]["name"], &line["refused"]),
        (&json!("steel dart"), &json!(false))
    );
    assert_eq!(server.asked(), 3);
    let moon = asked(&world, &server, &["answer", "tiny", "which dart was on the moon?"]);
    moon.fails(1, &["no retrieved node supports an answer", "--system"]);
    let dry = asked(&world, &server, &[&answer[..], &["--check", "--dry-run", "--json"]].concat());
    assert_eq!(dry.json_lines()[0]["calls"], json!([2, 4]));
    assert_eq!(server.asked(), 4);
    world.run(answer).fails(1, &["no LLM configured"]);
    let system = ["--system", "answer=check:bm25", "--json"];
    let eval = [&EVAL[..5], &system[..]].concat();
    let line = asked(&world, &server, &eval).json_lines().remove(0);
    assert_eq!((&line["asked"]["calls"], &line["failed"]), (&json!(4), &json!(0)));
}
