//! From data as people have them to answers, and from one version of them to the next.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use agent::{
    bundle::Bundle,
    dataset::Home,
    index::IndexedBase,
    retrieve::{Baseline, Retriever, System},
};

use crate::{
    bundles::{SEARCHES, world_with},
    support::World,
};

const BRANDS: [[&str; 2]; 2] = [["B-001", "Northpeak"], ["B-002", "Tidewell"]];
const PRODUCTS: [[&str; 4]; 4] = [
    ["S-1", "Summit Bottle", "a durable steel bottle with double walls", "B-001"],
    ["S-2", "Ridge Mug", "a durable steel mug", "B-001"],
    ["S-3", "Harbor Bottle", "a clear glass bottle", "B-002"],
    ["S-4", "Desk Bottle", "a light steel bottle", "B-002"],
];

/// The base as tables, as one database, and as JSON lines.
fn write_forms(world: &World) -> [String; 3] {
    let [tables, lines] = ["tables", "lines"].map(|name| world.path(name));
    fs::create_dir_all(&tables).unwrap();
    fs::create_dir_all(&lines).unwrap();
    let csv = |header: &str, rows: Vec<String>| format!("{header}\n{}\n", rows.join("\n"));
    let brands = BRANDS.iter().map(|row| row.join(",")).collect();
    fs::write(tables.join("brands.csv"), csv("id,name", brands)).unwrap();
    let products = PRODUCTS.iter().map(|row| row.join(",")).collect();
    let header = "sku,title,description,brand_id";
    fs::write(tables.join("products.csv"), csv(header, products)).unwrap();

    let database = world.path("shop.sqlite");
    let connection = agent::kb::sqlite::connect(&database, rusqlite::OpenFlags::default()).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE brands (id TEXT PRIMARY KEY, name TEXT);
             CREATE TABLE products (sku TEXT PRIMARY KEY, title TEXT, description TEXT,
                brand_id TEXT REFERENCES brands);",
        )
        .unwrap();
    let mut json = [String::new(), String::new()];
    for [id, name] in BRANDS {
        connection.execute("INSERT INTO brands VALUES (?1, ?2)", [id, name]).unwrap();
        json[0] += &format!("{}\n", serde_json::json!({"id": id, "name": name}));
    }
    for row in PRODUCTS {
        connection.execute("INSERT INTO products VALUES (?1, ?2, ?3, ?4)", row).unwrap();
        let [sku, title, description, brand] = row;
        let object = serde_json::json!({"sku": sku, "title": title, "description": description, "brand_id": brand});
        json[1] += &format!("{object}\n");
    }
    fs::write(lines.join("brands.jsonl"), &json[0]).unwrap();
    fs::write(lines.join("products.jsonl"), &json[1]).unwrap();
    [tables, database, lines].map(|path| path.display().to_string())
}

#[test]
fn tables_a_database_and_json_lines_give_the_same_answers_in_three_commands() {
    let world = World::new();
    let mut answers = Vec::new();
    for (name, from) in ["tables", "database", "lines"].into_iter().zip(write_forms(&world)) {
        let told = world.run(["data", "import", "--name", name, "--from", &from]).done();
        assert!(told.starts_with(&format!("{name}: 6 nodes, 4 edges, 0 questions")), "{told}");
        assert!(told.contains("has_brand") && told.contains("product -> brand"), "{told}");
        world.run(["index", name]).done();
        let search = ["search", name, "a steel bottle by Tidewell", "--json"];
        answers.push(world.run(search).done());
    }
    assert!(answers[0].contains("\"key\":\"S-4\""), "{}", answers[0]);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
    let shown = world.run(["data", "show", "tables", "--node", "S-4"]).done();
    assert!(shown.contains("-> has_brand (1): Tidewell (B-002)"), "{shown}");
    let shown = world.run(["data", "show", "tables"]).done();
    assert!(shown.contains("questions   0\n"), "{shown}");
    let table = world.run(["search", "tables", "Tidewell", "--system", "bm25", "-k", "1"]).done();
    assert!(table.contains("B-002"), "{table}");
    world
        .run(["data", "show", "tables", "--node", "S-9"])
        .fails(1, &["no node has the id \"S-9\""]);
}

#[test]
fn single_nodes_of_a_base_are_replaced_added_and_deleted() {
    let world = World::new();
    let [tables, ..] = write_forms(&world);
    world.run(["data", "import", "--name", "shop", "--from", &tables]).done();
    world.run(["index", "shop"]).done();
    let changes = [
        r#"{"id": "S-4", "type": "product", "name": "Desk Cup", "details": {"description": "a tin cup"}, "edges": {"has_brand": ["B-003"]}}"#,
        r#"{"id": "B-003", "type": "brand", "name": "Eastwind"}"#,
    ];
    fs::write(world.path("changes.jsonl"), changes.join("\n")).unwrap();
    fs::write(world.path("gone.txt"), "S-1\n").unwrap();
    let [changes, gone] =
        ["changes.jsonl", "gone.txt"].map(|name| world.path(name).display().to_string());
    let update = ["data", "update", "shop", "--upsert", &changes, "--delete", &gone];
    let rehearsed = world.run(update.into_iter().chain(["--dry-run"])).done();
    assert!(
        rehearsed.contains("nodes      1 added, 1 removed, 1 changed, 4 unchanged"),
        "{rehearsed}"
    );
    let told = world.run(update).done();
    assert!(told.contains("edges      has_brand: 1 added, 2 removed"), "{told}");
    let shown = world.run(["data", "show", "shop", "--node", "S-4"]).done();
    assert!(shown.contains("-> has_brand (1): Eastwind (B-003)"), "{shown}");
    assert!(shown.contains("tin cup") && !shown.contains("steel"), "{shown}");
    let found = world.run(["search", "shop", "tin", "-k", "1"]).done();
    assert!(found.contains("S-4"), "{found}");
    world.run(["data", "show", "shop", "--node", "S-1"]).fails(1, &["no node has the id \"S-1\""]);
    // The node is there no more: nothing of the second change happens.
    world.run(update).fails(1, &["gone.txt:1", "no node has this id"]);
    world.run(["data", "update", "shop"]).fails(2, &["--from"]);
    let both = ["data", "update", "shop", "--from", &tables, "--delete", &gone];
    world.run(both).fails(2, &["--delete"]);
}

#[test]
fn what_looks_like_a_mistake_is_told_after_an_import() {
    let world = World::new();
    let edges = world.path("tiny/edges.tsv");
    let text = fs::read_to_string(&edges).unwrap() + "0\thas_brnd\t5\n";
    fs::write(&edges, text.replace("3\thas_brand\t5\n", "")).unwrap();
    let questions = world.path("tiny/qa.csv");
    let text = fs::read_to_string(&questions).unwrap();
    fs::write(&questions, text.replace("a steel dart,[0]", "who makes darts,[4]")).unwrap();
    let told = world.run(["data", "import", "--name", "tiny", "--from", &world.source()]).done();
    for words in [
        "1 edge of relation \"has_brnd\" (like has_brand)",
        "1 node of type product without any edge",
        "1 question with no candidate among the answers",
    ] {
        assert!(told.contains(words), "{words:?} is not in {told}");
    }
    let issues = world.run(["data", "show", "tiny", "--issues"]).done();
    assert!(issues.contains("1 node of type product without any edge: 3"), "{issues}");
    let dry = ["data", "import", "--name", "dry", "--from", &world.source(), "--dry-run"];
    let told = world.run(dry).done();
    assert!(told.starts_with("dry: 6 nodes, 4 edges") && !told.contains("data show dry"), "{told}");
    world.run(["data", "show", "dry"]).fails(1, &["no dataset \"dry\""]);
}

/// Writes a version of a base of which each text says which version it is.
fn write_version(dir: &Path, version: usize) {
    fs::create_dir_all(dir).unwrap();
    let rows = (0..40).map(|at| format!("P-{at},item {at},thing of version{version}\n"));
    let rows: String = rows.collect();
    fs::write(dir.join("things.csv"), format!("id,name,text\n{rows}")).unwrap();
}

/// Updates of the test; each replaces the base under the readers.
const UPDATES: usize = 20;

#[test]
fn answers_are_wholly_of_one_version_while_a_base_is_updated_again_and_again() {
    let world = World::new();
    let dir = world.path("things");
    write_version(&dir, 0);
    let from = dir.display().to_string();
    world.run(["data", "import", "--name", "things", "--from", &from]).done();
    world.run(["index", "things"]).done();
    let home = Home::new(world.path("home"));
    let (over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let ask = || {
        let base = home.get("things").unwrap();
        let opened = IndexedBase::open(&base.kb_dir(), &base.index_dir(), "things").unwrap();
        let opened = Arc::new(opened);
        let ranking = Baseline::new(opened.clone(), System::Bm25).retrieve("thing", 40).unwrap();
        let versions: std::collections::BTreeSet<&str> = ranking
            .iter()
            .map(|&(node, _)| opened.kb.text(node).rsplit(' ').next().unwrap())
            .collect();
        assert_eq!((ranking.len(), versions.len()), (40, 1), "{versions:?}");
    };
    thread::scope(|scope| {
        let ask_on = || {
            while !over.load(Ordering::Relaxed) {
                ask();
                asked.fetch_add(1, Ordering::Relaxed);
            }
        };
        let asking = [scope.spawn(ask_on), scope.spawn(ask_on), scope.spawn(ask_on)];
        for version in 1..=UPDATES {
            write_version(&dir, version);
            let update = ["data", "update", "things", "--from", &from, "--json"];
            let updated = &world.run(update).json_lines()[0];
            assert_eq!(updated["changes"]["nodes_changed"], 40, "{updated}");
        }
        over.store(true, Ordering::Relaxed);
        asking.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let asked = asked.load(Ordering::Relaxed);
    assert!(asked > UPDATES as u64 * 5, "{asked} questions");
    let base = home.get("things").unwrap();
    assert_eq!(base.version as usize, UPDATES + 1);
    let update = ["data", "update", "things", "--from", &from];
    let told = world.run(update);
    assert!(told.stdout.contains("nodes and edges are unchanged"), "{}", told.stdout);
    // What nobody holds is gone: the current version, the one before, and the first one's directory.
    let versions = fs::read_dir(world.path("home/bases/things")).unwrap();
    let versions = versions.filter(|entry| entry.as_ref().unwrap().path().is_dir());
    assert!(versions.count() <= 4);
}

#[test]
fn an_update_keeps_questions_and_a_bundle_may_be_carried_over() {
    let (world, bundle) = world_with(SEARCHES);
    let verify = ["verify", "bundle.json"];
    world.run(verify).done();
    let nothing = world.run(verify.into_iter().chain(["--drift"]));
    assert!(nothing.stderr.contains("there is no drift"), "{}", nothing.stderr);
    // New data without questions: those of before stay.
    let nodes = world.path("tiny/nodes.jsonl");
    let text = fs::read_to_string(&nodes).unwrap();
    fs::write(&nodes, text.replace("for beginners", "for all")).unwrap();
    fs::remove_file(world.path("tiny/qa.csv")).unwrap();
    fs::remove_dir_all(world.path("tiny/split")).unwrap();
    let told = world.run(["data", "update", "tiny", "--from", &world.source()]).done();
    assert!(told.contains("4 kept, 0 lost"), "{told}");
    assert!(told.contains("nodes      0 added, 0 removed, 1 changed, 5 unchanged"), "{told}");
    let way_out = "agent verify BUNDLE --drift --accept-drift";
    let other = world.run(verify);
    assert!(other.status == 1 && other.stdout.contains("is not the version"), "{}", other.stdout);
    assert!(other.stdout.contains(way_out), "{}", other.stdout);
    let warned = world.run(["query", "bundle.json", "a kite"]);
    assert!(warned.status == 0 && warned.stderr.contains("tiny was updated"), "{}", warned.stderr);
    assert!(warned.stderr.contains(way_out), "{}", warned.stderr);
    world.run(["explain", "bundle.json"]).fails(1, &["made for tiny", way_out]);
    let drift = &world.run(verify.into_iter().chain(["--drift", "--json"])).json_lines()[0];
    assert_eq!(
        (&drift["fits"], &drift["n"], &drift["accepted"]),
        (&true.into(), &2.into(), &false.into())
    );
    world.run(verify.into_iter().chain(["--accept-drift"])).done();
    world.run(verify).done();
    let accepted = Bundle::read(&world.path("bundle.json")).unwrap();
    assert_eq!(accepted.provenance.drift.len(), 1);
    assert_eq!(accepted.provenance.drift[0].from, bundle.dataset.kb);
    assert_ne!(accepted.digest, bundle.digest);
}

#[test]
fn an_update_that_loses_most_nodes_or_all_questions_is_refused_unless_forced() {
    let world = World::indexed();
    let [other, _, _] = write_forms(&world);
    let update = ["data", "update", "tiny", "--from", &other];
    let words = ["would remove 6 of 6 nodes and all questions (4)", "--dry-run", "--force"];
    world.run(update).fails(1, &words);
    let run = world.run(update.into_iter().chain(["--dry-run"]));
    assert!(run.stderr.contains("the update loses 6 of 6 nodes"), "{}", run.stderr);
    assert!(run.stderr.contains("nothing was installed"), "{}", run.stderr);
    let told = run.done();
    assert!(told.contains("nodes      6 added, 6 removed, 0 changed, 0 unchanged"), "{told}");
    let shown = || world.run(["data", "show", "tiny"]).done();
    assert!(shown().contains("questions   4 ("), "{}", shown());
    world.run(update.into_iter().chain(["--force"])).done();
    assert!(shown().contains("questions   0 ("), "{}", shown());
}

#[test]
fn an_update_brings_the_index_of_the_query_language_up() {
    let world = World::indexed();
    world.run(["index", "tiny", "--with", "query"]).done();
    let found =
        |query| world.run(["search", "tiny", "--query", query, "--json"]).json_lines().len();
    assert_eq!((found("beginners"), found("everybody")), (1, 0));
    let nodes = world.path("tiny/nodes.jsonl");
    let text = fs::read_to_string(&nodes).unwrap();
    fs::write(&nodes, text.replace("for beginners", "for everybody")).unwrap();
    world.run(["data", "update", "tiny", "--from", &world.source()]).done();
    assert_eq!((found("beginners"), found("everybody")), (0, 1));
    let base = Home::new(world.path("home")).get("tiny").unwrap();
    let part = base.index_dir().join("vectors/query");
    assert!(part.join("slots").exists(), "what says the same is taken over");
    world.run(["index", "tiny", "--with", "query", "--force"]).done();
    assert!(!part.join("slots").exists());
    assert_eq!((found("beginners"), found("everybody")), (0, 1));
}

#[test]
fn a_bundle_whose_relations_are_gone_is_to_be_optimized_again() {
    let follows = "fn params() { #{ k: #{ value: 5, min: 1, max: 10 } } }\n\
        fn retrieve(query, candidates, params) {\n\
            search(query, \"product\", params.k) + hop(link(query, \"brand\", 1), \"has_brand\", \"in\") * 0.001\n\
        }\n";
    let (world, _) = world_with(follows);
    let edges = world.path("tiny/edges.tsv");
    fs::write(&edges, fs::read_to_string(&edges).unwrap().replace("has_brand", "made_by")).unwrap();
    let told = world.run(["data", "update", "tiny", "--from", &world.source()]).done();
    assert!(told.contains("removed    the relation has_brand"), "{told}");
    let drift = world.run(["verify", "bundle.json", "--accept-drift"]);
    assert_eq!(drift.status, 1, "{}", drift.stderr);
    assert!(drift.stdout.contains("Optimize again"), "{}", drift.stdout);
    assert!(
        drift.stdout.contains("use relations that no longer exist: has_brand"),
        "{}",
        drift.stdout
    );
    assert_eq!(world.run(["verify", "bundle.json"]).status, 1, "nothing was written");
    world.run(["query", "bundle.json", "a kite"]).fails(1, &["made for tiny", "--force"]);
}

#[test]
fn a_batch_is_answered_in_order_line_by_line_as_single_questions_are() {
    let (world, _) = world_with(SEARCHES);
    let questions: Vec<String> = (0..100)
        .map(|at| match at {
            40 => "no json".to_owned(),
            41 => "{\"query\": \"  \"}".to_owned(),
            _ => format!(
                "{{\"id\": \"q{at}\", \"query\": \"durable {}\"}}",
                ["dart", "kite"][at % 2]
            ),
        })
        .collect();
    fs::write(world.path("questions.jsonl"), questions.join("\n")).unwrap();
    let query = ["query", "--bundle", "bundle.json", "--dataset", "tiny"];
    let ran = world.run(query.into_iter().chain(["--batch", "questions.jsonl"]));
    assert_eq!(ran.status, 1, "two lines are no questions");
    let lines: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<u64> = lines.iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    assert!(lines[40]["error"].as_str().unwrap().contains("write one {\"query\""));
    assert!(lines[41]["error"].is_string());
    let single = &world.run(query.into_iter().chain(["durable dart", "--json"])).json_lines()[0];
    for (at, line) in lines.iter().enumerate().filter(|(at, _)| ![40, 41].contains(at)) {
        assert_eq!(line["id"], format!("q{at}"));
        if at % 2 == 0 {
            assert_eq!((&line["hits"], &line["route"]), (&single["hits"], &single["route"]));
        }
    }
    // The rest of a file, and stdin.
    let rest =
        world.run(query.into_iter().chain(["--batch", "questions.jsonl", "--from-line", "99"]));
    let rest = rest.json_lines();
    assert_eq!(rest.iter().map(|line| &line["line"]).collect::<Vec<_>>(), [99, 100]);
    let mut command = world.command(query.into_iter().chain(["--batch", "-"]));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"query\": \"red kite\"}\n\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
}

#[test]
fn long_names_and_many_tables_are_not_repeated_whole() {
    let world = World::new();
    let database = world.path("many.sqlite");
    let connection = agent::kb::sqlite::connect(&database, rusqlite::OpenFlags::default()).unwrap();
    let tables = (0..200).map(|at| format!("table {at}")).chain(["x".repeat(1_000)]);
    for name in tables {
        let rows = format!("CREATE TABLE \"{name}\" (id INTEGER PRIMARY KEY, name TEXT);");
        let row = format!("INSERT INTO \"{name}\" VALUES (1, 'kite');");
        connection.execute_batch(&(rows + row.as_str())).unwrap();
    }
    drop(connection);
    let import = ["data", "import", "--name", "many", "--from", database.to_str().unwrap()];
    let ran = world.run(import);
    assert!(ran.stderr.contains("more lines"), "{}", ran.stderr);
    assert!(ran.stderr.lines().count() < 100, "{}", ran.stderr);
    assert!(ran.stderr.lines().all(|line| line.len() < 1_100), "{}", ran.stderr);
    ran.done();

    fs::write(world.path("tiny/dataset.toml"), format!("language = \"{}\"", "x".repeat(90_000)))
        .unwrap();
    let refused = world.run(["data", "import", "--name", "tiny", "--from", &world.source()]);
    assert!(refused.stderr.len() < 2_000, "{} bytes", refused.stderr.len());
    refused.fails(1, &["dataset.toml:1", "unknown language", "en, ", "the keys are title"]);
}
