//! `agent serve --effort` with a scripted model: what it adds, and what is answered where it does
//! not.

use std::fs;

use agent::bundle::LlmProvenance;
use serde_json::{Value, json};

use crate::{
    bundles::{SEARCHES, world_with},
    model::{ModelServer, Mood},
    serve::{Served, optimized},
    support::{Ran, World},
};

const QUESTION: &str = "a durable steel bottle";

fn serve(world: &World, model: &ModelServer, bundle: &str, args: &[&str]) -> Served {
    let server = ["serve", "--listen", "127.0.0.1:0", "--bundle", bundle];
    let model_args = ["--model", "scripted", "--no-cache"];
    let args = server.iter().chain(&model_args).chain(args);
    let mut command = world.command(args.copied());
    command.env("OPENAI_BASE_URL", model.url());
    Served::spawn(command)
}

fn query(served: &Served, more: Value) -> (u16, Value) {
    let mut body = json!({ "query": QUESTION });
    let more = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(more);
    served.send("POST", "/v1/query", &body)
}

#[test]
fn a_model_helps_as_far_as_the_server_and_the_request_say() {
    let world = optimized();
    let model = ModelServer::start(Mood::Works);
    let served = serve(&world, &model, "latest", &["--effort", "2"]);
    let printed = |effort: &str| -> Value {
        let args = ["query", "latest", QUESTION, "--json", "--effort", effort];
        let mut command = world.command(args.into_iter().chain(["--model", "scripted"]));
        command.env("OPENAI_BASE_URL", model.url());
        serde_json::from_str(&Ran::of(command.output().unwrap()).done()).unwrap()
    };
    for effort in [0, 1, 2] {
        let asked = model.asked();
        let (status, answer) = query(&served, json!({ "effort": effort }));
        assert_eq!((status, &answer["effort"]), (200, &json!(effort)), "{answer}");
        assert!(answer["unassisted"].is_null(), "{answer}");
        assert_eq!(model.asked() > asked, effort > 0, "{effort}");
        assert_eq!(answer["hits"], printed(&effort.to_string())["hits"], "{effort}");
    }
    let (_, answer) = query(&served, json!({}));
    assert_eq!(answer["effort"], 2, "as far as the server was told: {answer}");
    let (status, error) = query(&served, json!({ "effort": 3 }));
    assert_eq!(status, 400, "{error}");
    let (_, counted) = served.get("/metrics");
    let counted = counted.as_str().unwrap();
    assert!(counted.contains("agent_helped_questions_total{outcome=\"helped\"} 3"), "{counted}");

    let alone = Served::start(&world, ["--bundle", "latest"]);
    let (status, error) = query(&alone, json!({ "effort": 1 }));
    assert_eq!(status, 400);
    assert!(error["error"]["remedy"].as_str().unwrap().contains("--effort 0"), "{error}");
}

#[test]
fn without_help_in_time_the_bundle_answers_alone_and_says_why() {
    let world = optimized();
    let alone = query(&Served::start(&world, ["--bundle", "latest"]), json!({})).1;
    let cases = [
        (Mood::Hangs, [].as_slice(), "late", "in time"),
        (Mood::Babbles, &[], "unusable", "no usable reply"),
        (Mood::Refuses, &[], "outage", "the service of the language model failed"),
        (Mood::Works, &["--budget-tokens", "100"], "ceiling", "budget"),
    ];
    for (mood, more, outcome, why) in cases {
        let model = ModelServer::start(mood);
        let served = serve(&world, &model, "latest", &[&["--effort", "1"], more].concat());
        // Long enough for a busy machine, and an end where the model never replies.
        let timeout = if outcome == "late" { 3_000 } else { 60_000 };
        let (status, answer) = query(&served, json!({ "timeout_ms": timeout }));
        assert_eq!((status, &answer["effort"]), (200, &json!(1)), "{outcome}: {answer}");
        assert!(answer["unassisted"].as_str().unwrap().contains(why), "{outcome}: {answer}");
        assert_eq!(answer["hits"], alone["hits"], "{outcome}");
        let (_, counted) = served.get("/metrics");
        let line = format!("agent_helped_questions_total{{outcome=\"{outcome}\"}} 1");
        assert!(counted.as_str().unwrap().contains(&line), "{counted}");
    }
}

#[test]
fn programs_that_ask_a_model_get_one_from_the_server_or_it_does_not_start() {
    let asking = "{ let class = classify_by_llm(query, [\"one\", \"two\"]); search(";
    let source = SEARCHES.replace("{ search(", asking);
    let (world, mut bundle) = world_with(&source);
    let llm = LlmProvenance { models: [].into(), prompts: String::new(), tools: true };
    bundle.provenance.llm = Some(llm);
    bundle.sealed().write(&world.path("bundle.json")).unwrap();
    let model = ModelServer::start(Mood::Works);
    let served = serve(&world, &model, "bundle.json", &[]);
    let (status, answer) = query(&served, json!({}));
    assert_eq!((status, model.asked()), (200, 1), "{answer}");
    assert!(answer["stand_in"].is_null() && answer["unassisted"].is_null(), "{answer}");
    let search = json!({"query": QUESTION, "system": "active"});
    assert_eq!(served.send("POST", "/v1/search", &search).0, 400);

    world.run(["serve", "--bundle", "bundle.json"]).fails(1, &["no LLM configured", "--model"]);
    // What answers where the model does not is told.
    let model = ModelServer::start(Mood::Refuses);
    let served = serve(&world, &model, "bundle.json", &[]);
    for (path, body) in
        [("/v1/query", json!({ "query": QUESTION })), ("/v1/ask", json!({ "question": QUESTION }))]
    {
        let (status, answer) = served.send("POST", path, &body);
        assert_eq!(status, 200, "{answer}");
        assert!(answer["stand_in"].as_str().unwrap().contains("no LLM"), "{answer}");
        assert!(answer["unassisted"].is_string(), "{answer}");
    }
}

#[test]
fn verbose_output_says_what_the_service_replied() {
    let world = optimized();
    for (mood, why) in [(Mood::Babbles, "the reply of scripted"), (Mood::Refuses, "wrong key")] {
        let model = ModelServer::start(mood);
        for (effort, role) in [("1", "router"), ("2", "rerank")] {
            let args = ["query", "latest", QUESTION, "--effort", effort, "--no-cache", "-v"];
            let mut command = world.command(args.into_iter().chain(["--model", "scripted"]));
            command.env("OPENAI_BASE_URL", model.url());
            let stderr = Ran::of(command.output().unwrap()).stderr;
            let logged = format!("no usable reply from the language model in role {role}: ");
            let mut lines = stderr.lines().filter(|line| line.contains(&logged));
            assert!(lines.any(|line| line.contains(why)), "{mood:?} {effort}: {stderr}");
        }
    }
}

#[test]
fn lines_of_a_batch_say_why_the_model_did_not_help() {
    let world = optimized();
    let model = ModelServer::start(Mood::Babbles);
    let line = format!("{}\n", json!({ "query": QUESTION }));
    fs::write(world.path("questions.jsonl"), line).unwrap();
    let args = ["query", "latest", "--batch", "questions.jsonl", "--effort", "1"];
    let mut command = world.command(args.into_iter().chain(["--model", "scripted", "--no-cache"]));
    command.env("OPENAI_BASE_URL", model.url());
    let ran = Ran::of(command.output().unwrap());
    let line: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    assert!(line["unassisted"].as_str().unwrap().contains("no usable reply"), "{line}");
    assert!(ran.stderr.contains("without the language model: 1 question;"), "{}", ran.stderr);
}

#[test]
fn a_model_reads_questions_over_many_nodes_as_far_as_is_said() {
    let world = optimized();
    let steel = "How many products are made of steel?";
    let ask = |served: &Served, question: &str, effort: u8| {
        let body = json!({ "question": question, "effort": effort, "timeout_ms": 60_000 });
        served.send("POST", "/v1/ask", &body)
    };
    let model = ModelServer::start(Mood::Works);
    let served = serve(&world, &model, "latest", &["--effort", "2"]);
    let (status, answer) = ask(&served, steel, 1);
    assert_eq!((status, &answer["plan"]["texts"][0]["name"]), (200, &json!("material")));
    let asked = model.asked();
    assert!(asked > 1, "a plan and its cells");
    let (status, error) = ask(&served, steel, 0);
    assert!(error["error"]["message"].as_str().unwrap().contains("not understood"), "{status}");
    let (status, answer) = ask(&served, "How many products are there?", 1);
    assert!(status == 200 && answer["assumed"] == json!([]), "{answer}");
    assert_eq!(model.asked(), asked);
    let (status, answer) = ask(&served, steel, 2);
    assert_eq!((status, &answer["by"]), (200, &json!("table")));
    let model = ModelServer::start(Mood::Refuses);
    let served = serve(&world, &model, "latest", &["--effort", "2"]);
    assert_eq!(ask(&served, steel, 1).0, 422, "the refusal of the rules");
    let (status, answer) = ask(&served, "How many products are there?", 2);
    let assumed = answer["assumed"][0].as_str().unwrap();
    assert!(status == 200 && assumed.contains("without the language model"), "{answer}");
}
