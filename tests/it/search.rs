//! `agent search`, and the ways to name a dataset.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use crate::support::World;

#[test]
fn the_best_node_comes_first_with_all_keys() {
    let world = World::indexed();
    for system in ["bm25", "bm25:stark", "bm25+names", "dense", "hybrid"] {
        let search = ["search", "tiny", "steel dart", "--system", system, "-k", "2", "--json"];
        let hits = world.run(search).json_lines();
        let keys: Vec<&String> = hits[0].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["rank", "id", "key", "type", "name", "score"], "{system}");
        assert!(hits.len() <= 2 && hits[0]["rank"] == 1, "{system}");
        // Embeddings learned from six texts do not tell the darts apart.
        let best = hits.iter().find(|hit| hit["id"] == 0).unwrap();
        assert!(system == "dense" || system == "hybrid" || best["rank"] == 1, "{system}");
        assert_eq!((&best["type"], &best["name"]), (&"product".into(), &"steel dart".into()));
    }
    assert!(world.run(["search", "tiny", "steel dart"]).done().contains("steel dart"));
    let explained = world.run(["search", "tiny", "steel dart", "--explain"]).done();
    assert!(explained.contains("shared stems: steel "), "{explained}");
    assert!(explained.contains("*steel*"), "{explained}");
}

#[test]
fn an_id_or_a_whole_name_finds_its_node_first() {
    let world = World::new();
    let dir = world.path("courses");
    std::fs::create_dir(&dir).unwrap();
    let text = "code,title,after\nGEO-1,Hydrology,\nGEO-2,Rivers,GEO-1\nGEO-3,Hydrology of hydrology,GEO-1\n";
    std::fs::write(dir.join("courses.csv"), text).unwrap();
    world.run(["data", "import", "--name", "uni", "--from", &dir.display().to_string()]).done();
    world.run(["index", "uni"]).done();
    for (text, first) in [("GEO-2", "GEO-2"), ("hydrology", "GEO-1")] {
        let hits = world.run(["search", "uni", text, "--json"]).json_lines();
        assert_eq!(hits[0]["key"], first, "{text}");
    }
    let explained = world.run(["search", "uni", "GEO-2", "--explain"]).done();
    assert!(explained.contains("Rivers"), "{explained}");
}

#[test]
fn systems_that_need_a_part_say_which_and_work_once_it_is_there() {
    let world = World::indexed();
    let parts = [
        ("ann", "dense:ann", "exact: rank"),
        ("multi", "multi:top3", "chunk 1: score"),
        ("late", "late", "dart ~ dart"),
    ];
    for (part, system, why) in parts {
        let search = ["search", "tiny", "steel dart", "--system", system, "--explain"];
        let refused = world.run(search);
        let command = format!("`agent index tiny --with {part}`");
        assert!(refused.status != 0 && refused.stderr.contains(&command), "{}", refused.stderr);
        let built = world.run(["index", "tiny", "--with", part]);
        assert!(built.status == 0 && built.stderr.contains(&format!("{part}: ")), "{part}");
        let found = world.run(search).done();
        assert!(found.contains("steel dart") && found.contains(why), "{found}");
    }
    assert!(world.run(["doctor"]).done().contains("recall@100"));
}

#[test]
fn chunks_rank_the_first_nodes_of_another_system() {
    let world = World::indexed();
    world.run(["index", "tiny", "--with", "multi"]).done();
    let hits = |system: &str| -> Vec<(serde_json::Value, serde_json::Value)> {
        let search = ["search", "tiny", "steel dart", "--system", system, "--json"];
        let hits = world.run(search).json_lines();
        hits.iter().map(|hit| (hit["id"].clone(), hit["score"].clone())).collect()
    };
    for multi in ["multi", "multi:mean", "multi:top3"] {
        let all = hits(multi);
        let dense: Vec<_> = hits("dense").into_iter().map(|hit| hit.0).collect();
        assert!(dense.len() > 2);
        for k in 1..=dense.len() {
            // The scores of all chunks, of nodes that the other system ranks first.
            let among = |hit: &&(serde_json::Value, _)| dense[..k].contains(&hit.0);
            let expected: Vec<_> = all.iter().filter(among).cloned().collect();
            assert_eq!(hits(&format!("{multi}:candidates=dense:{k}")), expected, "{multi} {k}");
        }
    }
    for wrong in ["multi:candidates=dense", "multi:top3:candidates=dense:0", "multi:max"] {
        let search = ["search", "tiny", "steel dart", "--system", wrong];
        world.run(search).fails(2, &[wrong, "[:candidates=SYSTEM:K]", ":candidates=dense:50"]);
    }
    let other = ["search", "tiny", "steel dart", "--system", "multi:candidates=dance:5"];
    world.run(other).fails(2, &["did you mean \"dense\"?"]);
}

#[test]
fn a_colbert_checkpoint_finds_documents_and_ranks_those_of_another_system() {
    let world = World::indexed();
    let checkpoint = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/colbert");
    let whole = format!("late:candle:{checkpoint}");
    let search =
        |system: &str| world.run(["search", "tiny", "steel dart", "--system", system, "--json"]);
    search(&whole).fails(1, &["`agent index tiny --with colbert=DIR`"]);
    world.run(["index", "tiny", "--with", "colbert"]).fails(2, &["--with colbert=DIR"]);
    world.run(["index", "tiny", "--with", "late=x"]).fails(2, &["colbert=DIR"]);
    let encoder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/encoder/mean");
    let wrong = format!("colbert={encoder}");
    world.run(["index", "tiny", "--with", &wrong]).fails(1, &["linear.weight", "ColBERT"]);
    let with = format!("colbert={checkpoint}");
    assert!(world.run(["index", "tiny", "--with", &with]).stderr.contains("colbert: "));
    // The checkpoint is known now, and the part is kept.
    let again = world.run(["index", "tiny", "--with", "colbert"]);
    assert!(again.stderr.contains("is indexed with"), "{}", again.stderr);

    let probed = search(&whole).json_lines();
    assert!(probed.iter().any(|hit| hit["name"] == "steel dart"));
    assert_eq!(search(&format!("{whole}:nprobe=65536")).json_lines(), probed);
    let explained = world.run(["search", "tiny", "steel dart", "--system", &whole, "--explain"]);
    assert!(explained.done().contains(" ~ "));
    let first = search(&format!("{whole}:candidates=bm25:2")).json_lines();
    let ids = |hits: &[serde_json::Value]| -> Vec<_> {
        hits.iter().map(|hit| (hit["id"].clone(), hit["score"].clone())).collect()
    };
    let lexical = search("bm25").json_lines();
    let mut expected = ids(&probed);
    expected.retain(|hit| lexical.iter().take(2).any(|other| other["id"] == hit.0));
    assert_eq!(ids(&first), expected);
    search(&format!("{whole}:nprobe=0")).fails(2, &[":nprobe=4"]);

    // Other settings make another checkpoint.
    let copy = world.path("copy");
    std::fs::create_dir(&copy).unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(format!("{checkpoint}/{name}"), copy.join(name)).unwrap();
    }
    let settings = r#"{"query_maxlen": 32, "doc_maxlen": 40}"#;
    std::fs::write(copy.join("artifact.metadata"), settings).unwrap();
    let (copy, with) = (copy.display(), format!("colbert={}", copy.display()));
    let other = format!("late:candle:{copy}");
    search(&other).fails(1, &["not built with checkpoint", &format!("--with colbert={copy}")]);
    world.run(["index", "tiny", "--with", &with]).done();
    search(&other).done();
    search(&whole).fails(1, &["not built with checkpoint"]);
}

#[test]
fn a_trained_bag_of_words_opens_by_its_kind_and_by_the_older_name() {
    let world = World::indexed();
    let train = ["train", "dense", "--dataset", "tiny", "--made", "20", "--epochs", "1"];
    for (name, negatives) in [("one", "bm25"), ("two", "self")] {
        let options = ["--negatives", negatives, "--name", name];
        world.run(train.into_iter().chain(options)).done();
    }
    let run =
        |system: &str| world.run(["search", "tiny", "steel dart", "--system", system, "--json"]);
    for (kind, other, name) in [("bag:dpr", "bag:ance", "one"), ("bag:ance", "bag:dpr", "two")] {
        let hits = run(&format!("{kind}:{name}")).done();
        assert!(hits.contains("steel dart"), "{hits}");
        assert_eq!(run(&format!("dense:trained:{name}")).done(), hits);
        let refused = run(&format!("{other}:{name}"));
        refused.fails(1, &[kind, &format!("not {other}"), &format!("use {kind}:")]);
    }
}

#[test]
fn fusion_by_score_takes_a_weight() {
    let world = World::indexed();
    let search =
        |system: &str| world.run(["search", "tiny", "steel dart", "--system", system, "--json"]);
    let ids = |system: &str| -> Vec<_> {
        search(system).json_lines().iter().map(|hit| hit["id"].clone()).collect()
    };
    // Scaling takes the last of a list to 0, where nodes of the other list are.
    let lexical = ids("bm25+names");
    let others = lexical.len() - 1;
    assert_eq!(ids("hybrid:weighted=0")[..others], lexical[..others]);
    let best = &search("hybrid:weighted=0.5").json_lines()[0]["score"];
    assert!(best.as_f64().unwrap() <= 1.0);
    for wrong in ["hybrid:weighted=2", "hybrid:weighted=x", "hybrid:weighted="] {
        let refused = search(wrong);
        assert!(refused.status != 0 && refused.stderr.contains("weight from 0 to 1"), "{wrong}");
    }
    let unknown = search("none").stderr;
    assert!(unknown.contains("dense:ann") && unknown.contains("program:FILE"), "{unknown}");
}

#[test]
fn a_directory_is_imported_and_indexed_once() {
    let world = World::new();
    let first = world.run(["search", "tiny", "durable kite", "--json"]);
    assert!(first.stderr.contains("importing") && first.stderr.contains("building the index"));
    let again = world.run(["search", "tiny", "durable kite", "--json"]);
    assert_eq!((again.stderr.as_str(), &again.stdout), ("", &first.stdout));
    assert_eq!(first.json_lines()[0]["id"], 2);
}

#[test]
fn a_closed_pipe_is_success() {
    let world = World::indexed();
    // More than a pipe holds, so that the writer meets the closed end.
    let long = "kite ".repeat(20_000);
    let nodes: String = (0..6)
        .map(|id| format!("{{\"id\":{id},\"type\":\"t\",\"name\":\"kite {long}\"}}\n"))
        .collect();
    std::fs::write(world.path("tiny/nodes.jsonl"), nodes).unwrap();
    std::fs::remove_file(world.path("tiny/dataset.toml")).unwrap();
    world.run(["data", "import", "--name", "long", "--from", &world.source()]).done();
    world.run(["index", "long"]).done();
    let mut child = world
        .command(["search", "long", "kite", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::with_capacity(16, child.stdout.take().unwrap());
    assert!(!reader.fill_buf().unwrap().is_empty());
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn systems_that_ask_a_model_say_that_there_is_none() {
    let world = World::indexed();
    for system in ["rerank", "rerank:bm25+names", "react"] {
        let search = ["search", "tiny", "steel dart", "--system", system];
        world.run(search).fails(1, &[system, "needs a language model", "--model"]);
    }
    let search = ["search", "tiny", "steel dart", "--system", "reranker"];
    world
        .run(search)
        .fails(2, &["reranker", "rerank[:SYSTEM][:k=K]", "react", "did you mean \"rerank\"?"]);
}

#[test]
fn the_registry_is_listed() {
    let world = World::new();
    let lines = world.run(["systems", "--json"]).json_lines();
    let keys: Vec<&String> = lines[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "arguments", "summary", "needs"]);
    let rerank = lines.iter().find(|line| line["name"] == "rerank").unwrap();
    assert_eq!(rerank["needs"], serde_json::json!(["language model"]));
    let shown = world.run(["systems"]).done();
    assert!(shown.contains("rerank[:SYSTEM]") && shown.contains("index part ann"), "{shown}");
}

#[test]
fn feedback_finds_what_shares_words_with_the_first_documents_only() {
    let world = World::indexed();
    let ids = |system: &str| -> Vec<_> {
        let search = ["search", "tiny", "nylon", "--system", system, "--json"];
        world.run(search).json_lines().iter().map(|hit| hit["id"].clone()).collect()
    };
    assert_eq!(ids("bm25"), [2]);
    // The blue kite has no nylon, but a kite and a sail; the steel dart is durable too.
    let found = ids("prf:bm25");
    assert!(found[0] == 2 && found.contains(&3.into()) && found.contains(&0.into()), "{found:?}");
    assert_eq!(found, ids("prf=3,10,0.3:bm25"));
    // Without weight the query alone ranks: the others have the score 0.
    assert_eq!(ids("prf=3,10,0:bm25")[0], 2);
    let explain = ["search", "tiny", "nylon", "--system", "prf:bm25", "--explain"];
    let explained = world.run(explain).done();
    assert!(explained.contains("added words ") && explained.contains("sail"), "{explained}");
    for wrong in ["prf=0,10,0.3", "prf=3,10", "prf=3,10,2:bm25", "prf=3;10;0"] {
        let search = ["search", "tiny", "nylon", "--system", wrong];
        world.run(search).fails(2, &[wrong, "prf[=DOCUMENTS,TERMS,WEIGHT][:SYSTEM]"]);
    }
    let nested = format!("{}bm25", "prf:".repeat(9));
    world.run(["search", "tiny", "nylon", "--system", &nested]).fails(2, &["nested systems"]);
}
