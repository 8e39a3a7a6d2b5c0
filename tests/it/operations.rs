//! Every operation is offered by every face under its name: the registry is the list.

use std::{collections::BTreeSet, fs, path::Path};

use agent::app::operation::{OPERATIONS, Operation};
use serde_json::{Value, json};

use crate::{serve::Served, support::World};

/// The names of all operations.
fn names() -> BTreeSet<&'static str> {
    OPERATIONS.iter().map(|operation| operation.name).collect()
}

/// The names of a request's fields, those of groups of options included.
fn fields(schema: &Value) -> Vec<String> {
    let properties = schema["properties"].as_object();
    let of = |(name, field): (&String, &Value)| match field["properties"].is_object() {
        true => fields(field),
        false => vec![name.clone()],
    };
    properties.into_iter().flatten().flat_map(of).collect()
}

#[test]
fn operations_are_commands_with_the_fields_of_their_requests() {
    let world = World::new();
    for Operation { name, summary, schema, .. } in OPERATIONS {
        let help = world.run(name.split('_').chain(["--help"])).done();
        assert!(help.starts_with(summary), "{name}: {help}");
        for field in fields(&schema()) {
            // Conditions read as a sentence on the command line.
            let option = match field.as_str() {
                "filter" => "--where".to_owned(),
                field => format!("--{}", field.replace('_', "-")),
            };
            // Named by their place, and a letter: the words of a question, `-k`.
            let by_place =
                ["dataset", "text", "question", "bundle", "name", "file", "source", "from", "to"]
                    .contains(&field.as_str());
            assert!(by_place || field == "k" || help.contains(&option), "{name} {option}");
        }
    }
}

#[test]
fn operations_are_answered_over_http() {
    let world = World::shop();
    world.run(["index", "shop"]).done();
    let served = Served::start(&world, ["--base", "shop", "--allow-changes"]);
    let (status, listed) = served.get("/v1/operations");
    let listed: BTreeSet<&str> =
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!((status, listed), (200, names()));
    for name in names() {
        let (status, reply) =
            served.send("POST", &format!("/v1/operations/{name}"), &json!({"?": 1}));
        assert_eq!(
            (status, &reply["error"]["code"]),
            (400, &json!("bad_request")),
            "{name} {reply}"
        );
    }
    let search = |request: Value| served.send("POST", "/v1/operations/search", &request);
    let (status, found) = search(json!({"dataset": "shop", "text": "steel", "k": 2}));
    assert_eq!((status, found["hits"].as_array().map(Vec::len)), (200, Some(2)), "{found}");
    // The same as the command line prints.
    let printed = world.run(["search", "shop", "steel", "-k", "2", "--json"]).json_lines();
    assert_eq!(found["hits"], Value::from(printed));
    // Over a network nothing is imported and no file is named.
    let here = world.path("").display().to_string();
    for wrong in [
        json!({"dataset": here, "text": "steel"}),
        json!({"dataset": "amazon", "text": "steel"}),
        json!({"dataset": "shop", "text": "steel", "k": 0}),
        json!({"dataset": "shop", "text": "steel", "system": format!("program:{here}/x.rhai")}),
        json!({"dataset": "shop", "text": "steel", "llm": {"model": "m", "replay": "/dev/zero"}}),
        json!({"dataset": "shop", "text": "steel", "llm": {"model": "m"}}),
        json!({"dataset": "shop", "text": "steel", "sandbox": {"sandbox": "rhai"}}),
        json!({"dataset": "shop", "text": "steel", "other": 1}),
    ] {
        let (status, reply) = search(wrong.clone());
        assert!(status == 400 || status == 422, "{wrong} {status} {reply}");
    }
    // The test split stays closed, and files of the server are no splits.
    let eval = |split: &str, system: &str| {
        let request = json!({"dataset": "shop", "split": [split], "system": [system]});
        served.send("POST", "/v1/operations/eval", &request)
    };
    for (split, system) in [("test", "bm25"), ("qa.csv", "bm25"), ("val", "bundle:x/bundle.json")] {
        let (status, reply) = eval(split, system);
        assert!(status == 400 || status == 422, "{split} {system} {status} {reply}");
    }
    let nothing = json!({"dataset": "shop", "split": ["val"], "system": []});
    assert_eq!(served.send("POST", "/v1/operations/eval", &nothing).0, 400);
    let (status, figures) = eval("val", "bm25");
    assert_eq!((status, &figures["systems"][0]["split"]), (200, &json!("val")), "{figures}");
    for (name, request) in [
        ("index", json!({"dataset": "shop", "embedder": format!("import:{here}")})),
        ("data_import", json!({"name": "new", "source": {"from": here}})),
        ("program_run", json!({"dataset": "shop", "query": "steel", "file": "x.rhai"})),
        ("data_update", json!({"name": "shop", "source": {"from": here}})),
        ("data_update", json!({"name": "shop", "upsert": here})),
    ] {
        let (status, reply) = served.send("POST", &format!("/v1/operations/{name}"), &request);
        let remedy = reply["error"]["remedy"].as_str().unwrap_or_default();
        assert_eq!((status, remedy.contains("on the server")), (400, true), "{reply}");
    }
    let source = "fn retrieve(query, candidates, params) { search(query, \"product\", 5) }";
    let run = json!({"dataset": "shop", "query": "steel", "source": source, "k": 1});
    let (status, reply) = served.send("POST", "/v1/operations/program_run", &run);
    assert_eq!((status, &reply["status"]), (200, &json!("ok")), "{reply}");
    let (status, reply) = served.send("POST", "/v1/operations/index", &json!({"dataset": "shop"}));
    assert_eq!((status, &reply["built"]), (200, &json!(false)), "{reply}");
    let (status, reply) = served.send("POST", "/v1/operations/data_list", &json!({}));
    assert_eq!((status, &reply["datasets"][0]["name"]), (200, &json!("shop")), "{reply}");
    // Nothing is changed unless that is allowed.
    let reader = Served::start(&world, ["--base", "shop"]);
    for (name, request) in
        [("data_remove", json!({"name": "shop"})), ("index", json!({"dataset": "shop"}))]
    {
        let (status, reply) = reader.send("POST", &format!("/v1/operations/{name}"), &request);
        let remedy = reply["error"]["remedy"].as_str().unwrap_or_default();
        assert_eq!((status, remedy.contains("--allow-changes")), (400, true), "{reply}");
    }
    // A server without a language model asks none, whatever its settings name.
    let asked = json!({"dataset": "shop", "question": "which is of steel?"});
    let (status, reply) = served.send("POST", "/v1/operations/answer", &asked);
    assert_eq!(status, 422, "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("no language model"), "{reply}");
    assert_eq!(served.send("POST", "/v1/operations/nothing", &json!({})).0, 404);
}

#[test]
fn a_server_optimizes_an_installed_base_and_writes_where_it_chooses() {
    let world = World::indexed();
    let served = Served::start(&world, ["--base", "tiny", "--allow-changes"]);
    let optimize = |request: Value| served.send("POST", "/v1/operations/optimize", &request);
    let here = world.path("elsewhere").display().to_string();
    for wrong in [
        json!({"dataset": "tiny", "run": here}),
        json!({"dataset": "tiny", "pool": here}),
        json!({"dataset": "tiny", "program": [here]}),
        json!({"dataset": "tiny", "hops": 9}),
        json!({"dataset": "tiny", "steps": 99_999_999_999_999_u64}),
        json!({"dataset": "tiny", "llm_steps": 1_000_000}),
        json!({"dataset": "tiny", "actor": ["nobody"]}),
        json!({"dataset": "tiny", "llm": {"model": "m"}}),
    ] {
        let (status, reply) = optimize(wrong.clone());
        assert_eq!(status, 400, "{wrong} {reply}");
    }
    // A server without a language model asks none.
    let (status, reply) = optimize(json!({"dataset": "tiny", "actor": ["llm"]}));
    assert!(status == 422 && reply.to_string().contains("no language model"), "{reply}");
    let (status, plan) = optimize(json!({"dataset": "tiny", "dry_run": true}));
    assert_eq!((status, &plan["n_train"], &plan["llm"]["calls"]), (200, &json!(1), &json!([0, 0])));
    assert!(!world.path("home/runs").exists(), "a refused request began a run");
    let (status, ended) = optimize(json!({"dataset": "tiny", "steps": 1, "without": ["cache"]}));
    assert_eq!((status, &ended["stopped"]), (200, &json!("done")), "{ended}");
    assert_eq!(ended["bundle"], "runs/tiny-0001/bundle.json", "{ended}");
    // No reply names a directory of the server.
    let run = "bundle:tiny-0001";
    let mut replies = vec![ended];
    for (name, request) in [
        ("train_dense", json!({"model": {"dataset": "tiny"}, "epochs": 1, "made": 0, "dim": 4})),
        ("index", json!({"dataset": "tiny"})),
        ("data_list", json!({})),
        ("data_show", json!({"name": "tiny"})),
        ("data_show", json!({"name": "tiny", "issues": true})),
        ("query", json!({"bundle": "tiny-0001", "text": "kite"})),
        ("search", json!({"dataset": "tiny", "text": "kite", "system": run})),
        ("compare", json!({"dataset": "tiny", "text": "kite", "system": [run, "bm25"]})),
        ("eval", json!({"dataset": "tiny", "split": ["val"], "system": [run]})),
        ("verify", json!({"bundle": "tiny-0001"})),
        ("report", json!({"run": "tiny-0001"})),
        ("report", json!({"model": "dense-tiny"})),
    ] {
        let (status, reply) = served.send("POST", &format!("/v1/operations/{name}"), &request);
        assert_eq!(status, 200, "{name}: {reply}");
        replies.push(reply);
    }
    assert_eq!(replies[1]["directory"], "models/dense-tiny", "{}", replies[1]);
    let here = world.path("").display().to_string();
    for reply in replies {
        assert!(!reply.to_string().contains(&here), "{reply}");
    }
}

#[test]
fn operations_are_methods_of_the_python_package() {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/agent_retriever/__init__.py");
    let module = fs::read_to_string(module).unwrap();
    let app = module.split("\nclass App").nth(1).expect("the package has an App");
    let app = app.split("\nclass ").next().unwrap();
    for name in names() {
        assert!(app.contains(&format!("    def {name}(")), "App has no method {name}");
    }
}
