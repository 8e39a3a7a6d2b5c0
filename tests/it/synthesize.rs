//! Questions without labels, from the command line: made, kept, refused over labels, optimized on;
//! and a baseline that is frozen where nothing better is found.

use std::fs;

use agent::dataset::{Home, Split, load_split};

use crate::{report::record, support::World};

/// A sample without its questions, installed and indexed under a name.
fn unlabelled(world: &World, name: &str) {
    let files = world.path("files").display().to_string();
    world.run(["data", "sample", "mag", "--scale", "0.001", "--to", &files]).done();
    fs::remove_file(world.path("files/qa.csv")).unwrap();
    fs::remove_dir_all(world.path("files/split")).unwrap();
    world.run(["data", "import", "--name", name, "--from", &files]).done();
    world.run(["index", name]).done();
}

#[test]
fn a_dataset_without_questions_is_optimized_on_synthetic_ones_and_says_so() {
    let world = World::new();
    unlabelled(&world, "mine");
    let run = world.path("run").display().to_string();
    let optimize = ["optimize", "--dataset", "mine", "--steps", "1", "--run", &run];
    let refused = world.run(optimize);
    assert!(refused.stderr.contains("\"mine\" has no labelled questions"), "{}", refused.stderr);
    assert!(refused.stderr.contains("agent data synthesize mine"), "{}", refused.stderr);
    let dry = ["data", "synthesize", "mine", "--dry-run"];
    assert!(world.run(dry).done().contains("0 LLM calls"));
    // A dry run refuses what a run refuses.
    let beyond = dry.into_iter().chain(["--queries", "10001"]);
    world.run(beyond).fails(2, &["--queries", "10001 is not in 1..=10000"]);
    fs::write(world.path("templates.json"), "{}").unwrap();
    for (file, why) in [("/nowhere", "cannot read /nowhere"), ("templates.json", "templates")] {
        world.run(dry.into_iter().chain(["--templates", file])).fails(1, &[file, why]);
    }
    let done = world.run(optimize.into_iter().chain(["--synthesize"]));
    assert_eq!(done.status, 0, "{}", done.stderr);
    let first = done.stdout.lines().next().unwrap();
    assert!(first.contains("synthetic questions"), "{first}");
    assert!(done.stderr.contains("validation (synthetic questions)"), "{}", done.stderr);
    // So does whatever shows figures on them.
    world.run(["report", "--run", &run]).done();
    let page = fs::read_to_string(world.path("run/report.html")).unwrap();
    let told = record(&page)["found"]["synthetic"].as_str().unwrap().to_owned();
    assert!(told.starts_with("The questions are synthetic"), "{told}");
    let bundle = world.path("run/bundle.json").display().to_string();
    let system = format!("bundle:{bundle}");
    let eval = ["eval", "--dataset", "mine", "--split", "val", "--system", &system];
    let told = "the questions are synthetic: made from the dataset, not labelled by people";
    for more in [&[][..], &["--format", "markdown"], &["--metrics", "set"]] {
        let table = world.run(eval.into_iter().chain(more.iter().copied())).done();
        assert!(table.lines().any(|line| line == told), "{table}");
    }
    assert!(
        world.run(eval.into_iter().chain(["--format", "csv"])).done().contains("val (synthetic)")
    );
    assert_eq!(world.run(eval.into_iter().chain(["--json"])).json_lines()[0]["synthetic"], true);
    let explained = world.run(["explain", "--dataset", "mine", "--bundle", &bundle]).done();
    assert!(explained.contains(told), "{explained}");
    // The same again with the same seed, to a directory.
    let again = world.path("again").display().to_string();
    world.run(["data", "synthesize", "mine", "--to", &again]).done();
    let kept = world.path("home/bases/mine/queries/qa.csv");
    assert_eq!(fs::read(kept).unwrap(), fs::read(world.path("again/qa.csv")).unwrap());
}

#[test]
fn labels_of_the_user_are_never_replaced() {
    let world = World::new();
    world.run(["data", "sample", "mag", "--scale", "0.001", "--name", "own"]).done();
    let kept = world.path("home/bases/own/queries/qa.csv");
    let before = fs::read(&kept).unwrap();
    let refused = world.run(["data", "synthesize", "own"]);
    assert!(refused.stderr.contains("labelled questions"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--to DIR"), "{}", refused.stderr);
    assert_eq!(fs::read(&kept).unwrap(), before);
}

/// Questions whose answers the words of the one thing they name give best: nothing beats that.
#[test]
fn a_baseline_is_frozen_where_nothing_better_is_found() {
    let world = World::new();
    let dir = world.path("plain");
    fs::create_dir_all(dir.join("split")).unwrap();
    let words =
        ["amber", "basalt", "cobalt", "dolomite", "emerald", "feldspar", "garnet", "halite"];
    let node = |id: usize| {
        let (a, b) = (words[id % 8], words[id / 8]);
        format!(
            "{{\"id\":{id},\"type\":\"stone\",\"name\":\"stone {id}\",\"details\":{{\"about\":\"{a}{b} {b}{a}{id}\"}}}}\n"
        )
    };
    fs::write(dir.join("nodes.jsonl"), (0..64).map(node).collect::<String>()).unwrap();
    fs::write(dir.join("edges.tsv"), "src_id\trelation\tdst_id\n0\tbeside\t1\n").unwrap();
    let question = |id: usize| {
        let (a, b) = (words[id % 8], words[id / 8]);
        format!("{id},which one is {a}{b} {b}{a}{id},[{id}]\n")
    };
    let questions: String = (0..64).map(question).collect();
    fs::write(dir.join("qa.csv"), format!("id,query,answer_ids\n{questions}")).unwrap();
    let ids = |ids: std::ops::Range<usize>| ids.map(|id| format!("{id}\n")).collect::<String>();
    fs::write(dir.join("split/train.index"), ids(0..32)).unwrap();
    fs::write(dir.join("split/val.index"), ids(32..64)).unwrap();
    let from = dir.display().to_string();
    world.run(["data", "import", "--name", "plain", "--from", &from]).done();
    world.run(["index", "plain"]).done();
    let run = world.path("run").display().to_string();
    let done = world.run(["optimize", "--dataset", "plain", "--steps", "1", "--run", &run]).done();
    let first = done.lines().next().unwrap();
    assert!(first.starts_with("not better, so bm25") && first.contains("is frozen"), "{first}");
    let bundle = world.path("run/bundle.json").display().to_string();
    let asked = "which one is ambercobalt cobaltamber16";
    let query = ["query", "--bundle", &bundle, "--dataset", "plain", asked, "--json"];
    assert!(world.run(query).done().contains("stone 16"));
    world.run(["verify", &bundle, "--dataset", "plain"]).done();
    let system = format!("bundle:{bundle}");
    let eval = ["eval", "--dataset", "plain", "--split", "val", "--system", &system, "--json"];
    let measured = world.run(eval).json_lines();
    assert_eq!(measured[0]["n"], 32);
    assert!(measured[0].get("synthetic").is_none());
    let page = world.path("page.html").display().to_string();
    world.run(["report", "--run", &run, "--out", &page]).done();
    assert_eq!(record(&fs::read_to_string(&page).unwrap())["found"]["synthetic"], "");
    let explain = ["explain", "--dataset", "plain", "--bundle", &bundle, "--split", "val"];
    world.run(explain).done();
}

#[test]
fn questions_elsewhere_have_the_ids_of_the_user_and_come_back_as_the_same() {
    let world = World::new();
    let files = world.path("files").display().to_string();
    world.run(["data", "sample", "mag", "--scale", "0.001", "--to", &files]).done();
    fs::remove_dir_all(world.path("files/split")).unwrap();
    fs::remove_file(world.path("files/qa.csv")).unwrap();
    // Numbers again, in another order.
    let nodes = fs::read_to_string(world.path("files/nodes.jsonl")).unwrap();
    let n = nodes.lines().count();
    let key = |id: &str| id.parse().map_or(id.to_owned(), |id: usize| (n - id).to_string());
    let node = |line: &str| {
        let mut node: serde_json::Value = serde_json::from_str(line).unwrap();
        node["id"] = (n as u64 - node["id"].as_u64().unwrap()).into();
        format!("{node}\n")
    };
    fs::write(world.path("files/nodes.jsonl"), nodes.lines().map(node).collect::<String>())
        .unwrap();
    let edges = fs::read_to_string(world.path("files/edges.tsv")).unwrap();
    let edge = |line: &str| line.split('\t').map(key).collect::<Vec<_>>().join("\t") + "\n";
    fs::write(world.path("files/edges.tsv"), edges.lines().map(edge).collect::<String>()).unwrap();
    for name in ["mine", "again"] {
        if name == "again" {
            let made = world.path("made").display().to_string();
            world.run(["data", "synthesize", "mine", "--queries", "20", "--to", &made]).done();
            world.run(["data", "synthesize", "mine", "--queries", "20"]).done();
            fs::rename(world.path("made/qa.csv"), world.path("files/qa.csv")).unwrap();
            fs::rename(world.path("made/split"), world.path("files/split")).unwrap();
        }
        world.run(["data", "import", "--name", name, "--from", &files]).done();
        world.run(["index", name]).done();
    }
    let home = Home::new(world.path("home"));
    let [kept, read] = ["mine", "again"].map(|name| {
        let queries = load_split(&home.get(name).unwrap(), &Split::Train).unwrap();
        queries.into_iter().map(|query| (query.text, query.answers)).collect::<Vec<_>>()
    });
    assert!(kept.len() > 5 && kept == read, "{kept:?} {read:?}");
}
