//! What a page needs of `agent serve`, over its socket: programs, tools, runs as they go on, splits,
//! comparisons, questions over many nodes, and a base that is exchanged.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
};

use agent::{optimize::journal::Journal, program::Program};
use serde_json::{Value, json};

use crate::{
    serve::{PATIENCE, Served, optimized},
    support::World,
};

/// A program that links what a question names, and goes from there to products.
const PROGRAM: &str = "fn params() { #{ w: #{ value: 0.5, min: 0.0, max: 1.0 } } }\n\
    fn retrieve(query, candidates, params) {\n\
    \x20   let named = link(query);\n\
    \x20   named + search(query, [], 5) * params.w\n\
    }\n";

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap()
}

#[test]
fn programs_run_inside_webassembly_and_failures_have_a_place() {
    let world = World::indexed();
    let served = Served::start(&world, ["--base", "tiny"]);
    let run = |body: Value| served.send("POST", "/v1/programs/run", &body);
    let (status, ran) = run(json!({"source": PROGRAM, "query": "a kite by Sky Toys", "k": 3}));
    assert_eq!((status, &ran["status"]), (200, &json!("ok")), "{ran}");
    assert_eq!(ran["params"][0]["name"], "w");
    let hits = ran["hits"].as_array().unwrap();
    assert!(!hits.is_empty() && hits.len() <= 3, "{ran}");
    assert_eq!(hits[0]["calls"][0]["line"], 3, "{ran}");
    assert_eq!((&ran["trace"][0]["tool"], &ran["trace"][0]["line"]), (&json!("link"), &json!(3)));
    assert!(number(&ran["usage"]["operations"]) > 0.0);

    let (status, failed) =
        run(json!({"source": "fn retrieve(q, c, p) {\n  let x = ;\n}", "query": "a"}));
    assert_eq!((status, &failed["status"]), (200, &json!("error")), "{failed}");
    assert_eq!((&failed["error"]["kind"], &failed["error"]["line"]), (&json!("parse"), &json!(2)));
    assert!(failed["error"]["column"].is_u64(), "{failed}");
    let source = "fn retrieve(q, c, p) {\n  let a = link(q);\n  hop(a, \"made_of\")\n}";
    let (_, failed) = run(json!({"source": source, "query": "Sky Toys"}));
    assert_eq!(
        (&failed["status"], &failed["error"]["line"]),
        (&json!("error"), &json!(3)),
        "{failed}"
    );
    let trace = failed["trace"].as_array().unwrap();
    assert_eq!(
        (trace.len(), &trace[0]["failed"], &trace[1]["failed"]),
        (2, &json!(false), &json!(true))
    );
    let (_, endless) = run(json!({"source": "fn retrieve(q, c, p) { loop { } }", "query": "a"}));
    assert_eq!(endless["status"], "error", "{endless}");

    let module = include_bytes!("../../sandboxes/wasm/examples/rust.wasm");
    let source = Program::module(module).source().to_owned();
    let (status, ran) = run(json!({"source": source, "query": "a kite by Sky Toys"}));
    assert_eq!((status, &ran["status"]), (200, &json!("ok")), "{ran}");

    let sample = json!({"source": PROGRAM, "sample": {"split": "val", "limit": 1}});
    let (status, first) = run(sample);
    assert_eq!(
        (status, &first["n"], &first["total"], &first["next"]),
        (200, &json!(1), &json!(2), &json!(1)),
        "{first}"
    );
    let sample = json!({"source": PROGRAM, "sample": {"split": "val", "limit": 1, "cursor": 1}});
    let (_, second) = run(sample);
    assert_eq!(
        (&second["queries"][0]["id"], &second["next"]),
        (&json!(2), &Value::Null),
        "{second}"
    );
    // A rank counts nodes that can be answers, the list has the others too.
    let top = second["queries"][0]["top"].as_array().unwrap();
    assert_eq!(top.iter().any(|one| one["right"] == true), second["queries"][0]["rank"].is_u64());
    for (body, code) in [
        (json!({"source": PROGRAM}), 400),
        (json!({"source": PROGRAM, "query": "a", "sample": {"split": "val"}}), 400),
        (json!({"source": PROGRAM, "sample": {"split": "test"}}), 403),
        (json!({"source": PROGRAM, "sample": {"split": "/etc/passwd"}}), 404),
        (json!({"source": PROGRAM, "sample": {"split": "val", "limit": 21}}), 400),
        (json!({"source": PROGRAM, "query": " "}), 400),
        (json!({"source": PROGRAM, "query": "a", "extra": 1}), 422),
    ] {
        let (status, reply) = run(body);
        assert_eq!(status, code, "{reply}");
        assert!(reply["error"]["remedy"].is_string(), "{reply}");
    }

    let (_, tools) = served.get("/v1/tools");
    let tools = tools["tools"].as_array().unwrap();
    let link = tools.iter().find(|tool| tool["name"] == "link").unwrap();
    assert!(link["signature"].as_str().unwrap().starts_with("link(text: text"), "{link}");
    assert!(tools.iter().any(|tool| tool["operator"] == true));
    assert!(tools.iter().all(|tool| !tool["doc"].as_str().unwrap().is_empty()));
}

#[test]
fn splits_are_told_part_by_part_and_the_test_split_is_closed() {
    let world = World::indexed();
    let served = Served::start(&world, ["--base", "tiny"]);
    let (_, splits) = served.get("/v1/splits");
    let open = |name: &str| {
        let all = splits["splits"].as_array().unwrap().iter();
        all.clone().find(|split| split["split"] == name).map(|split| split["open"] == true)
    };
    assert_eq!((open("val"), open("test")), (Some(true), Some(false)), "{splits}");
    let (_, part) = served.get("/v1/splits/val/queries?limit=1");
    assert_eq!((&part["total"], &part["next"]), (&json!(2), &json!(1)), "{part}");
    assert_eq!(part["queries"][0]["answers"][0]["name"], "blue kite");
    assert_eq!(part["queries"][0]["labels"]["kind"], "llm");
    let (_, found) = served.get("/v1/splits/val/queries?contains=SKY");
    assert_eq!((&found["total"], &found["queries"][0]["id"]), (&json!(1), &json!(2)), "{found}");
    for (path, code) in [
        ("/v1/splits/test/queries", 403),
        ("/v1/splits/test-0.1/queries", 403),
        ("/v1/splits/human/queries", 404),
        ("/v1/splits/qa.csv/queries", 404),
        ("/v1/splits/val/queries?limit=0", 400),
        ("/v1/splits/val/queries?limt=1", 400),
        ("/v1/splits?base=tin", 404),
    ] {
        let (status, reply) = served.get(path);
        assert_eq!(status, code, "{path}: {reply}");
    }
}

#[test]
fn two_systems_are_compared_question_by_question() {
    let world = optimized();
    let served = Served::start(&world, ["--bundle", "latest"]);
    let compare = |body: Value| served.send("POST", "/v1/compare", &body);
    let asked = |cursor: u64| json!({"left": "bundle:latest", "right": "bm25", "split": "val", "limit": 20, "cursor": cursor});
    let (mut cursor, mut pairs) = (Some(0), Vec::new());
    while let Some(at) = cursor {
        let (status, part) = compare(asked(at));
        assert_eq!(status, 200, "{part}");
        let n = part["won"].as_u64().unwrap()
            + part["lost"].as_u64().unwrap()
            + part["same"].as_u64().unwrap();
        assert_eq!(n, part["n"].as_u64().unwrap());
        pairs.extend(part["queries"].as_array().unwrap().clone());
        cursor = part["next"].as_u64();
    }
    assert_eq!(pairs.len(), 25);
    for pair in &pairs {
        let rank = |side: &str| pair[side].as_u64().unwrap_or(u64::MAX);
        let outcome = match rank("left").cmp(&rank("right")) {
            std::cmp::Ordering::Less => "won",
            std::cmp::Ordering::Greater => "lost",
            std::cmp::Ordering::Equal => "same",
        };
        assert_eq!(pair["outcome"], outcome, "{pair}");
        assert_eq!(pair["left_top"][0]["right"], json!(pair["left"] == 1), "{pair}");
    }
    let (_, same) = compare(json!({"left": "active", "right": "bundle:shop-0001", "split": "val"}));
    assert_eq!(same["same"], same["n"], "one bundle by two names: {same}");
    // Each side opens its trace.
    let searched =
        json!({"query": pairs[0]["query"], "system": "bundle:latest", "explain": "full", "k": 3});
    let (status, found) = served.send("POST", "/v1/search", &searched);
    assert_eq!(status, 200, "{found}");
    assert!(found["hits"][0]["calls"].is_array() && found["route"].is_array(), "{found}");
    assert_eq!(found["hits"][0]["id"], pairs[0]["left_top"][0]["id"]);
    for (body, code) in [
        (json!({"left": "bundle:../../x", "right": "bm25", "split": "val"}), 404),
        (json!({"left": "bundle:shop-0009", "right": "bm25", "split": "val"}), 404),
        (json!({"left": "react", "right": "bm25", "split": "val"}), 400),
        (json!({"left": "bm25", "right": "bm25", "split": "test"}), 403),
        (json!({"left": "bm25", "right": "bm25", "split": "val", "limit": 51}), 400),
    ] {
        let (status, reply) = compare(body);
        assert_eq!(status, code, "{reply}");
    }
}

#[test]
fn questions_over_many_nodes_are_answered_as_on_the_command_line() {
    let world = optimized();
    let served = Served::start(&world, ["--bundle", "latest"]);
    let question = "How many products are there?";
    let printed = world.run(["ask", "shop", question, "--json"]).done();
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let asked = json!({"question": question, "rows": 3});
    let (status, answer) = served.send("POST", "/v1/ask", &asked);
    assert_eq!((status, &answer["by"]), (200, &json!("table")), "{answer}");
    for same in
        ["question", "kind", "answer", "told", "path", "sql", "statistic", "left_out", "assumed"]
    {
        assert_eq!(answer[same], printed[same], "{same}");
    }
    let rows = printed["table"]["rows"].as_array().unwrap();
    assert_eq!(answer["table"]["n_rows"], json!(rows.len()));
    assert_eq!(answer["table"]["rows"].as_array().unwrap()[..], rows[..3]);
    let (status, nodes) =
        served.send("POST", "/v1/ask", &json!({"question": "a durable steel bottle"}));
    assert_eq!((status, &nodes["by"]), (200, &json!("bundle")), "{nodes}");
    assert!(!nodes["hits"].as_array().unwrap().is_empty());
    // The plan of an answer gives that answer.
    let (status, again) =
        served.send("POST", "/v1/ask", &json!({"plan": answer["plan"], "rows": 3}));
    assert_eq!((status, &again["told"]), (200, &answer["told"]), "{again}");
    let two = json!({"plan": answer["plan"], "question": question});
    let (status, reply) = served.send("POST", "/v1/ask", &two);
    assert_eq!((status, &reply["error"]["code"]), (400, &json!("bad_request")), "{reply}");
    let mut wrong = answer["plan"].clone();
    wrong["rows"] = json!("planet");
    let (status, reply) = served.send("POST", "/v1/ask", &json!({ "plan": wrong }));
    assert_eq!((status, &reply["error"]["code"]), (422, &json!("not_answered")), "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("planet"), "{reply}");
    let (status, reply) =
        served.send("POST", "/v1/ask", &json!({"question": "How many zorgles are there?"}));
    assert_eq!((status, &reply["error"]["code"]), (422, &json!("not_answered")), "{reply}");
}

/// The events of a run: name, id and data, until the server ends them.
fn events(served: &Served, path: &str, mut each: impl FnMut(&str, Option<u64>, &Value)) {
    let mut stream = TcpStream::connect(&served.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let (mut name, mut id) = (String::new(), None);
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        match line.split_once(": ") {
            Some(("event", given)) => name = given.to_owned(),
            Some(("id", given)) => id = given.parse().ok(),
            Some(("data", data)) => {
                each(&name, id.take(), &serde_json::from_str(data).unwrap());
            }
            _ => {}
        }
    }
}

#[test]
fn runs_are_listed_and_one_that_goes_on_is_followed() {
    let world = optimized();
    let served = Served::start(&world, ["--base", "shop"]);
    let (_, runs) = served.get("/v1/runs");
    assert_eq!(
        (&runs["runs"][0]["id"], &runs["runs"][0]["state"]),
        (&json!("shop-0001"), &json!("finished")),
        "{runs}"
    );
    let (status, run) = served.get("/v1/runs/latest");
    assert_eq!(
        (status, &run["id"], &run["bundle"]),
        (200, &json!("shop-0001"), &json!(true)),
        "{run}"
    );
    let shown = world.run(["run", "show", "latest", "--json"]).done();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    for same in [
        "dataset",
        "actor",
        "seed",
        "state",
        "steps",
        "kinds",
        "tested",
        "accepted",
        "categories",
        "phases",
    ] {
        assert_eq!(run[same], shown[same], "{same}");
    }
    assert_eq!(run["planned"], 2, "{run}");
    assert_eq!(run["done"], run["kinds"]["parent"], "{run}");
    let curve = run["curve"].as_array().unwrap();
    assert!(
        curve.windows(2).all(|pair| number(&pair[0]["best"]) <= number(&pair[1]["best"])),
        "{run}"
    );
    assert!(number(&run["archive"][0]["best_on"]) >= 1.0, "{run}");

    let (_, all) = served.get("/v1/runs/shop-0001/programs?limit=100");
    let programs = all["programs"].as_array().unwrap();
    assert_eq!(all["total"], json!(programs.len()));
    assert!(programs.iter().any(|program| program["frozen"] == true));
    assert!(
        programs.iter().all(|program| program["source"].as_str().unwrap().contains("retrieve"))
    );
    let (_, second) = served.get("/v1/runs/shop-0001/programs?limit=1&cursor=1");
    assert_eq!(second["programs"][0], programs[1]);

    let (mut steps, mut last) = (0, String::new());
    events(&served, "/v1/runs/shop-0001/events", |name, id, data| {
        if name == "step" {
            steps += 1;
            assert_eq!((id, &data["n"]), (Some(steps), &json!(steps)));
        }
        last = name.to_owned();
        if name == "state" {
            assert_eq!(data["state"], "finished");
        }
    });
    assert_eq!((json!(steps), last.as_str()), (run["steps"].clone(), "end"));
    follow_a_run(&world, &served);
}

/// Follows a run whose journal this process writes.
fn follow_a_run(world: &World, served: &Served) {
    let dir = world.path("home/runs/shop-0002");
    let mut journal = Some(Journal::create(&dir, &json!({"dataset": "shop", "steps": 3})).unwrap());
    let program = Program::new("//! category: kites\nfn retrieve(q, c, p) { c }");
    let trial = json!({
        "program": program.id(), "params": {}, "pool": "validation",
        "origin": {"proposed_by": "search", "change": "mined", "parent": null},
        "queries": [0, 1], "reciprocal_ranks": [0.5, 1.0], "failed": 0, "failure": null,
    });
    journal.as_mut().unwrap().commit("trial", "0", &trial, &[program]).unwrap();
    let mut seen = Vec::new();
    events(served, "/v1/runs/latest/events", |name, _, data| {
        seen.push((name.to_owned(), data.clone()));
        if name == "step" && data["n"] == 1 {
            let journal = journal.as_mut().unwrap();
            journal.commit("parent", "0 a", &json!("more"), &[]).unwrap();
            journal.commit("parent", "0 b", &json!("the same step again"), &[]).unwrap();
        }
        if name == "step" && data["n"] == 3 {
            // The process that writes ends.
            journal = None;
        }
    });
    let of = |name: &str| seen.iter().filter(|(seen, _)| seen == name).collect::<Vec<_>>();
    assert_eq!(seen[0].1["state"], "running", "{seen:?}");
    let steps = of("step");
    assert_eq!((&steps[0].1["category"], &steps[0].1["mrr"]), (&json!("kites"), &json!(0.75)));
    assert_eq!((steps.len(), &steps[1].1["kind"]), (3, &json!("parent")));
    assert_eq!(of("end")[0].1["state"], "interrupted", "{seen:?}");
    assert_eq!(of("state").last().unwrap().1["done"], 1);
    let mut later = Vec::new();
    events(served, "/v1/runs/shop-0002/events?after=1", |name, id, _| {
        later.extend(id.filter(|_| name == "step"));
    });
    assert_eq!(later, [2, 3]);
    for path in [
        "/v1/runs/shop-0009",
        "/v1/runs/..",
        "/v1/runs/%2e%2e%2fbases",
        "/v1/runs/x/events",
        "/v1/runs/x/programs",
    ] {
        let (status, reply) = served.get(path);
        assert_eq!(status, 404, "{path}: {reply}");
    }
}

#[test]
fn a_base_is_exchanged_while_it_is_asked() {
    let world = World::indexed();
    let served = Served::start(&world, ["--base", "tiny"]);
    let asked = json!({"query": "kite", "system": "bm25"});
    let (_, before) = served.send("POST", "/v1/search", &asked);
    assert_eq!(before["hits"].as_array().unwrap().len(), 2, "{before}");
    let nodes = std::fs::read_to_string(world.path("tiny/nodes.jsonl")).unwrap();
    let further = r#"{"id":6,"type":"product","name":"green kite","details":{}}"#;
    std::fs::write(world.path("tiny/nodes.jsonl"), format!("{nodes}{further}\n")).unwrap();
    world.run(["data", "update", "tiny", "--from", &world.source()]).done();
    let hits = || served.send("POST", "/v1/search", &asked).1["hits"].as_array().unwrap().len();
    assert_eq!(hits(), 2, "what was opened goes on answering");
    let (status, told) = served.send("PUT", "/v1/base/active", &json!({}));
    assert_eq!((status, &told["base"]["nodes"]), (200, &json!(7)), "{told}");
    assert_eq!(hits(), 3);
    let (status, reply) = served.send("PUT", "/v1/base/active", &json!({"bundle": "latest"}));
    assert_eq!(status, 404, "{reply}");
    // A damaged index does not take the place of a sound one.
    let another = further.replace("\"id\":6", "\"id\":7").replace("green", "grey");
    let text = format!("{nodes}{further}\n{another}\n");
    std::fs::write(world.path("tiny/nodes.jsonl"), text).unwrap();
    world.run(["data", "update", "tiny", "--from", &world.source()]).done();
    let index = agent::dataset::Home::new(world.path("home")).get("tiny").unwrap().index_dir();
    let files = files_of(&index);
    let large = files.iter().max_by_key(|file| std::fs::metadata(file).unwrap().len()).unwrap();
    let mut bytes = std::fs::read(large).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    // Another file of the same name: whoever reads the first goes on reading it.
    std::fs::write(world.path("damaged"), bytes).unwrap();
    std::fs::rename(world.path("damaged"), large).unwrap();
    let (status, reply) = served.send("PUT", "/v1/base/active", &json!({}));
    assert_eq!((status, &reply["error"]["code"]), (409, &json!("not_exchanged")), "{reply}");
    assert_eq!(hits(), 3);
    // Nor does one that is gone end what answers.
    world.run(["data", "remove", "tiny"]).done();
    let (status, reply) = served.send("PUT", "/v1/base/active", &json!({}));
    assert_eq!(status, 404, "{reply}");
    assert_eq!(hits(), 3);
    assert_eq!(served.get("/health/ready").0, 200);
}

/// All files below a directory.
fn files_of(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_of(&path) } else { vec![path] }).collect()
}

/// Two schemas of one name would be one in /openapi.json, whichever comes first.
#[test]
fn each_schema_has_a_name_of_its_own() {
    let serve = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve");
    let mut names = std::collections::BTreeSet::new();
    for file in files_of(&serve) {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        for derived in text.split("ToSchema)]").skip(1) {
            let is_item = |line: &&str| line.contains("struct ") || line.contains("enum ");
            let item = derived.lines().find(is_item).unwrap();
            let name =
                item.split_whitespace().skip_while(|word| !["struct", "enum"].contains(word));
            let name = name.skip(1).take(1).collect::<String>();
            let name = name.split(['<', '(', ';']).next().unwrap().to_owned();
            assert!(names.insert(name.clone()), "{}: a second {name}", file.display());
        }
    }
    assert!(names.len() > 20);
}

#[test]
fn a_bundle_of_another_version_of_its_base_is_taken_only_by_force() {
    let world = optimized();
    let served = Served::start(&world, ["--bundle", "latest"]);
    let nodes = world.path("sample/nodes.jsonl");
    let text = std::fs::read_to_string(&nodes).unwrap();
    let changed = text.replacen("\"name\":\"", "\"name\":\"New ", 1);
    assert_ne!(changed, text);
    std::fs::write(&nodes, changed).unwrap();
    let source = world.path("sample").display().to_string();
    world.run(["data", "update", "shop", "--from", &source]).done();
    let exchange = |body: Value| served.send("PUT", "/v1/base/active", &body);
    let asked = json!({"query": "a steel bottle"});
    let (status, reply) = exchange(json!({}));
    assert_eq!((status, &reply["error"]["code"]), (409, &json!("not_exchanged")), "{reply}");
    assert!(reply.to_string().contains("agent verify BUNDLE --drift --accept-drift"), "{reply}");
    assert_eq!(served.send("POST", "/v1/query", &asked).0, 200);
    let (status, told) = exchange(json!({"force": true}));
    assert_eq!((status, &told["bundle"]["base"]), (200, &json!("shop")), "{told}");
    assert_eq!(served.send("POST", "/v1/query", &asked).0, 200);
}
