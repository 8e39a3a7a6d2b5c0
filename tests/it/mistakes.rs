//! Wrong inputs, each with the message that people get: file, line, what, remedy.
//! `UPDATE=1 cargo test --release mistakes` writes the messages.

use std::{fs, path::Path};

use crate::support::World;

/// Where the messages are.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mistakes.txt");

/// Files by name, each with what is in it; none removes one that is there otherwise.
type Files<'a> = &'a [(&'a str, Option<&'a [u8]>)];

const NODES: &str = "{\"id\": \"a\", \"type\": \"x\", \"name\": \"A\"}\n{\"id\": \"b\", \"type\": \"x\", \"name\": \"B\"}\n";
const EDGES: &str = "src_id\trelation\tdst_id\na\tlikes\tb\n";
const NUMBERED: &str = "{\"id\": 0, \"type\": \"x\", \"name\": \"A\"}\n{\"id\": 1, \"type\": \"x\", \"name\": \"B\"}\n";
const QUESTIONS: &str = "id,query,answer_ids\n1,who,[a]\n2,what,[b]\n";
const BRANDS: &str = "id,name\nB-001,Northpeak\nB-002,Tidewell\n";
const PRODUCTS: &str = "sku,title,brand_id\nS-1,Bottle,B-001\nS-2,Mug,B-002\n";
const MAPPED: &str = "[[nodes]]\nfile = \"brands.csv\"\ntype = \"brand\"\nid = \"id\"\n";

/// A directory that is right, file by file.
type Defaults<'a> = &'a [(&'a str, &'a str)];

const KEYED: Defaults<'_> = &[("nodes.jsonl", NODES), ("edges.tsv", EDGES)];
const ASKED: Defaults<'_> = &[("nodes.jsonl", NODES), ("edges.tsv", EDGES), ("qa.csv", QUESTIONS)];
const TABLES: Defaults<'_> = &[("brands.csv", BRANDS), ("products.csv", PRODUCTS)];

/// Further mistakes: what is wrong, the files that are right, those that are not, and what is imported.
const FURTHER: &[(&str, Defaults<'_>, Files<'_>, &str)] = &[
        ("details that are a text", KEYED, &[("nodes.jsonl", Some(b"{\"id\": \"a\", \"type\": \"x\", \"name\": \"A\", \"details\": \"big\"}\n"))], "wrong"),
        ("details that are a list", KEYED, &[("nodes.jsonl", Some(b"{\"id\": \"a\", \"type\": \"x\", \"name\": \"A\", \"details\": [\"big\"]}\n"))], "wrong"),
        ("a field with an empty name", KEYED, &[("nodes.jsonl", Some(b"{\"id\": \"a\", \"type\": \"x\", \"name\": \"A\", \"details\": {\"\": \"big\"}}\n"))], "wrong"),
        ("a name that is a number", KEYED, &[("nodes.jsonl", Some(b"{\"id\": \"a\", \"type\": \"x\", \"name\": 7}\n"))], "wrong"),
        ("a name that is null", KEYED, &[("nodes.jsonl", Some(b"{\"id\": \"a\", \"type\": \"x\", \"name\": null}\n"))], "wrong"),
        ("a type that is a number", KEYED, &[("nodes.jsonl", Some(b"{\"id\": \"a\", \"type\": 7, \"name\": \"A\"}\n"))], "wrong"),
        ("two objects in one line", KEYED, &[("nodes.jsonl", Some(b"{\"id\": \"a\", \"type\": \"x\", \"name\": \"A\"} {\"id\": \"b\", \"type\": \"x\", \"name\": \"B\"}\n"))], "wrong"),
        ("an object over several lines", KEYED, &[("nodes.jsonl", Some(b"{\n\"id\": \"a\", \"type\": \"x\",\n\"name\": \"A\"\n}\n"))], "wrong"),
        ("an array of nodes", KEYED, &[("nodes.jsonl", Some(b"[\n{\"id\": \"a\", \"type\": \"x\", \"name\": \"A\"}\n]\n"))], "wrong"),
        ("single quotes", KEYED, &[("nodes.jsonl", Some(b"{'id': 'a', 'type': 'x', 'name': 'A'}\n"))], "wrong"),
        ("a trailing comma", KEYED, &[("nodes.jsonl", Some(b"{\"id\": \"a\", \"type\": \"x\", \"name\": \"A\",}\n"))], "wrong"),
        ("a negative id among numbers", KEYED, &[("nodes.jsonl", Some(b"{\"id\": 0, \"type\": \"x\", \"name\": \"A\"}\n{\"id\": -1, \"type\": \"x\", \"name\": \"B\"}\n")), ("edges.tsv", Some(b"src_id\trelation\tdst_id\n"))], "wrong"),
        ("an id of true", KEYED, &[("nodes.jsonl", Some(b"{\"id\": true, \"type\": \"x\", \"name\": \"A\"}\n"))], "wrong"),
        ("an id of null", KEYED, &[("nodes.jsonl", Some(b"{\"id\": null, \"type\": \"x\", \"name\": \"A\"}\n"))], "wrong"),
        ("NaN as a value", KEYED, &[("nodes.jsonl", Some(b"{\"id\": \"a\", \"type\": \"x\", \"name\": \"A\", \"details\": {\"size\": NaN}}\n"))], "wrong"),
        ("a node that ends in the middle", KEYED, &[("nodes.jsonl", Some(b"{\"id\": \"a\", \"type\": \"x\", \"name\": \"A\"}\n{\"id\": \"b\", \"type\": \"x\", \"name\": \"B\"}\n{\"id\": \"c\", \"type\": \"x\", \"na"))], "wrong"),
        ("half a surrogate", KEYED, &[("nodes.jsonl", Some(b"{\"id\": \"a\", \"type\": \"x\", \"name\": \"\\ud800\"}\n"))], "wrong"),
        ("UTF-16 nodes", KEYED, &[("nodes.jsonl", Some(b"\xff\xfe{\x00\"\x00i\x00d\x00\"\x00:\x00 \x00\"\x00a\x00\"\x00,\x00 \x00\"\x00t\x00y\x00p\x00e\x00\"\x00:\x00 \x00\"\x00x\x00\"\x00,\x00 \x00\"\x00n\x00a\x00m\x00e\x00\"\x00:\x00 \x00\"\x00A\x00\"\x00}\x00\n\x00{\x00\"\x00i\x00d\x00\"\x00:\x00 \x00\"\x00b\x00\"\x00,\x00 \x00\"\x00t\x00y\x00p\x00e\x00\"\x00:\x00 \x00\"\x00x\x00\"\x00,\x00 \x00\"\x00n\x00a\x00m\x00e\x00\"\x00:\x00 \x00\"\x00B\x00\"\x00}\x00\n\x00"))], "wrong"),
        ("a comment line", KEYED, &[("nodes.jsonl", Some(b"# nodes\n{\"id\": \"a\", \"type\": \"x\", \"name\": \"A\"}\n{\"id\": \"b\", \"type\": \"x\", \"name\": \"B\"}\n"))], "wrong"),
        ("edges in another order of columns", KEYED, &[("edges.tsv", Some(b"relation\tsrc_id\tdst_id\nlikes\ta\tb\n"))], "wrong"),
        ("edges with spaces between", KEYED, &[("edges.tsv", Some(b"src_id relation dst_id\na likes b\n"))], "wrong"),
        ("edges with two columns", KEYED, &[("edges.tsv", Some(b"src_id\tdst_id\na\tb\n"))], "wrong"),
        ("edges with quotes", KEYED, &[("edges.tsv", Some(b"src_id\trelation\tdst_id\n\"a\"\tlikes\tb\n"))], "wrong"),
        ("an edge with a missing end", KEYED, &[("edges.tsv", Some(b"src_id\trelation\tdst_id\na\tlikes\n"))], "wrong"),
        ("an edge with a space behind the id", KEYED, &[("edges.tsv", Some(b"src_id\trelation\tdst_id\na\tlikes\tb \n"))], "wrong"),
        ("an edge in capitals", KEYED, &[("edges.tsv", Some(b"src_id\trelation\tdst_id\nA\tlikes\tb\n"))], "wrong"),
        ("edges that are not UTF-8", KEYED, &[("edges.tsv", Some(b"src_id\trelation\tdst_id\na\tl\xffkes\tb\n"))], "wrong"),
        ("edges in UTF-16", KEYED, &[("edges.tsv", Some(b"\xff\xfes\x00r\x00c\x00_\x00i\x00d\x00\t\x00r\x00e\x00l\x00a\x00t\x00i\x00o\x00n\x00\t\x00d\x00s\x00t\x00_\x00i\x00d\x00\n\x00a\x00\t\x00l\x00i\x00k\x00e\x00s\x00\t\x00b\x00\n\x00"))], "wrong"),
        ("edges in a zip under the name of gz", KEYED, &[("edges.tsv", None), ("edges.tsv.gz", Some(b"PK\x03\x04abc"))], "wrong"),
        ("questions without header", KEYED, &[("qa.csv", Some(b"1,who,[a]\n"))], "wrong"),
        ("questions separated by semicolons", KEYED, &[("qa.csv", Some(b"id;query;answer_ids\n1;who;[a]\n"))], "wrong"),
        ("an empty question", KEYED, &[("qa.csv", Some(b"id,query,answer_ids\n1,,[a]\n"))], "wrong"),
        ("a question of blanks", KEYED, &[("qa.csv", Some(b"id,query,answer_ids\n1,\"  \",[a]\n"))], "wrong"),
        ("answers with single quotes open", KEYED, &[("qa.csv", Some(b"id,query,answer_ids\n1,who,\"['a]\"\n"))], "wrong"),
        ("answers as one text", KEYED, &[("qa.csv", Some(b"id,query,answer_ids\n1,who,\"a, b\"\n"))], "wrong"),
        ("a question with an open quote", KEYED, &[("qa.csv", Some(b"id,query,answer_ids\n1,\"who,[a]\n2,what,[b]\n"))], "wrong"),
        ("a question id that is too large", KEYED, &[("qa.csv", Some(b"id,query,answer_ids\n99999999999999999999,who,[a]\n"))], "wrong"),
        ("a split with a question twice", ASKED, &[("split/val.index", Some(b"1\n1\n"))], "wrong"),
        ("a split with commas", ASKED, &[("split/val.index", Some(b"1,2\n"))], "wrong"),
        ("a split without questions", KEYED, &[("split/val.index", Some(b"1\n"))], "wrong"),
        ("a split that is not UTF-8", ASKED, &[("split/val.index", Some(b"\xff\n"))], "wrong"),
        ("a title that is a number", KEYED, &[("dataset.toml", Some(b"title = 7\n"))], "wrong"),
        ("languages that are none", KEYED, &[("dataset.toml", Some(b"languages = [\"klingon\"]\n"))], "wrong"),
        ("candidate types that are a text", KEYED, &[("dataset.toml", Some(b"candidate_types = \"x\"\n"))], "wrong"),
        ("a table with a row too long", TABLES, &[("products.csv", Some(b"sku,title,brand_id\nS-1,Bottle,B-001,extra\n"))], "wrong"),
        ("a workbook", &[], &[("x.xlsx", Some(b"PK\x03\x04"))], "wrong/x.xlsx"),
        ("a packed table cut off", &[], &[("x.csv.gz", Some(b"\x1f\x8b\x08\x00"))], "wrong"),
        ("a JSON array that ends early", &[], &[("x.jsonl", Some(b"[{\"id\": 1, \"name\": \"A\"},\n"))], "wrong"),
        ("a JSON array of numbers", &[], &[("x.jsonl", Some(b"[1, 2, 3]\n"))], "wrong"),
        ("a mapping with an empty type", TABLES, &[("mapping.toml", Some(b"[[nodes]]\nfile = \"brands.csv\"\ntype = \"\"\n"))], "wrong"),
        ("a mapping with a name column that is not there", TABLES, &[("mapping.toml", Some(b"[[nodes]]\nfile = \"brands.csv\"\ntype = \"brand\"\nid = \"id\"\nname = \"titel\"\n"))], "wrong"),
        ("a mapping with values of a column that is not there", TABLES, &[("mapping.toml", Some(b"[[nodes]]\nfile = \"brands.csv\"\ntype = \"brand\"\nid = \"id\"\nvalues = [\"colour\"]\n"))], "wrong"),
        ("a mapping with a folder", TABLES, &[("mapping.toml", Some(b"[[nodes]]\nfile = \".\"\ntype = \"brand\"\n"))], "wrong"),
        ("a mapping with a parent folder", TABLES, &[("mapping.toml", Some(b"[[nodes]]\nfile = \"../brands.csv\"\ntype = \"brand\"\n"))], "wrong"),
        ("edges from a column that is not there", TABLES, &[("mapping.toml", Some(b"[[nodes]]\nfile = \"brands.csv\"\ntype = \"brand\"\nid = \"id\"\n\n[[edges]]\nfile = \"products.csv\"\nrelation = \"r\"\nsource = { column = \"sk\", type = \"brand\" }\ntarget = { column = \"brand_id\", type = \"brand\" }\n"))], "wrong"),
        ("edges of a type that no table makes", TABLES, &[("mapping.toml", Some(b"[[nodes]]\nfile = \"brands.csv\"\ntype = \"brand\"\nid = \"id\"\n\n[[edges]]\nfile = \"products.csv\"\nrelation = \"r\"\nsource = { column = \"sku\", type = \"product\" }\ntarget = { column = \"brand_id\", type = \"brand\" }\n"))], "wrong"),
        ("an empty database", &[], &[("x.db", Some(b""))], "wrong/x.db"),
        ("a triple with a blank subject", &[], &[("x.nt", Some(b"\"a\" <x:b> <x:c> .\n"))], "wrong/x.nt"),
        ("a triple with an open bracket", &[], &[("x.nt", Some(b"<x:a <x:b> <x:c> .\n"))], "wrong/x.nt"),
        ("a triple with a prefix", &[], &[("x.nt", Some(b"ex:a ex:b ex:c .\n"))], "wrong/x.nt"),
        ("a triple that is not UTF-8", &[], &[("x.nt", Some(b"<x:a> <x:b> \"\xff\" .\n"))], "wrong/x.nt"),
        ("no triple at all", &[], &[("x.nt", Some(b""))], "wrong/x.nt"),
        ("a file of Turtle", &[], &[("x.ttl", Some(b"@prefix x: <x:> .\n"))], "wrong/x.ttl"),
        ("a file of Parquet", &[], &[("x.parquet", Some(b"PAR1"))], "wrong/x.parquet"),
        ("a text file", &[], &[("notes.txt", Some(b"hello\n"))], "wrong"),
        ("a PDF", &[], &[("x.pdf", Some(b"%PDF-1.4"))], "wrong/x.pdf"),
];

/// Writes a directory of the defaults with the files of a case, and imports it.
fn message(world: &World, defaults: Defaults<'_>, files: Files<'_>, from: &str) -> String {
    let dir = world.path("wrong");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("split")).unwrap();
    for (name, text) in defaults {
        fs::write(dir.join(name), text).unwrap();
    }
    for (name, text) in files {
        let _ = fs::remove_file(dir.join(name));
        if let Some(text) = text {
            fs::write(dir.join(name), text).unwrap();
        }
    }
    let ran = world.run(["data", "import", "--name", "wrong", "--from", from]);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{files:?}: {}", ran.stderr);
    let lines = ran.stderr.lines();
    let begin = lines.skip_while(|line| !line.starts_with("error:"));
    begin.map(|line| format!("{line}\n")).collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of mistakes")]
fn every_mistake_is_reported_with_file_line_and_remedy() {
    let world = World::new();
    let mut told = Vec::new();
    let mut case = |what: &str, defaults: Defaults<'_>, files: Files<'_>, from: &str| {
        told.push((what.to_owned(), message(&world, defaults, files, from)));
    };
    let numbered =
        [("nodes.jsonl", NUMBERED), ("edges.tsv", "src_id\trelation\tdst_id\n0\tlikes\t1\n")];

    let long = format!("{{\"id\": \"{}\", \"type\": \"x\", \"name\": \"\"}}\n", "k".repeat(2_000));
    for (what, text) in [
        ("a line that is no JSON", "{\"id\": \"a\", \"type\": \"x\", \"name\"}\n"),
        ("a line that is a list", "[1, 2]\n"),
        ("a node without name", "{\"id\": \"a\", \"type\": \"x\"}\n"),
        ("a node without type", "{\"id\": \"a\", \"name\": \"x\"}\n"),
        ("a node without id", "{\"type\": \"x\", \"name\": \"x\"}\n"),
        ("an id that is a fraction", "{\"id\": 1.5, \"type\": \"x\", \"name\": \"x\"}\n"),
        ("an id that is a list", "{\"id\": [1], \"type\": \"x\", \"name\": \"x\"}\n"),
        ("an empty id", "{\"id\": \"\", \"type\": \"x\", \"name\": \"x\"}\n"),
        ("an id that is too long", &long),
        ("an id with a line end", "{\"id\": \"a\\nb\", \"type\": \"x\", \"name\": \"x\"}\n"),
        (
            "a key of a node twice",
            "{\"id\": \"a\", \"id\": \"b\", \"type\": \"x\", \"name\": \"x\"}\n",
        ),
        (
            "a key that nodes do not have",
            "{\"id\": \"a\", \"type\": \"x\", \"name\": \"x\", \"year\": 1}\n",
        ),
        ("an empty type", "{\"id\": \"a\", \"type\": \"\", \"name\": \"x\"}\n"),
        ("a type with a line end", "{\"id\": \"a\", \"type\": \"x\\ny\", \"name\": \"x\"}\n"),
        ("no node at all", ""),
    ] {
        let edges = "src_id\trelation\tdst_id\n";
        let files: Files<'_> =
            &[("nodes.jsonl", Some(text.as_bytes())), ("edges.tsv", Some(edges.as_bytes()))];
        case(what, KEYED, files, "wrong");
    }
    let twice = format!("{NODES}{}", "{\"id\": \"a\", \"type\": \"y\", \"name\": \"again\"}\n");
    case("an id twice", KEYED, &[("nodes.jsonl", Some(twice.as_bytes()))], "wrong");
    case(
        "nodes that are not UTF-8",
        KEYED,
        &[("nodes.jsonl", Some(b"{\"id\": \"\xff\"}\n"))],
        "wrong",
    );
    for (what, text) in [
        ("a number twice", "{\"id\": 0, \"type\": \"x\", \"name\": \"again\"}\n"),
        ("a number left out", "{\"id\": 3, \"type\": \"x\", \"name\": \"three\"}\n"),
        ("a text among numbers", "{\"id\": \"b\", \"type\": \"x\", \"name\": \"B\"}\n"),
    ] {
        let nodes = format!("{NUMBERED}{text}");
        case(what, &numbered, &[("nodes.jsonl", Some(nodes.as_bytes()))], "wrong");
    }
    case("no nodes file", KEYED, &[("nodes.jsonl", None)], "wrong");
    case("no edges file", KEYED, &[("edges.tsv", None)], "wrong");
    case("a file twice", KEYED, &[("edges.tsv.gz", Some(b""))], "wrong");
    case(
        "a packed file cut off",
        KEYED,
        &[("edges.tsv", None), ("edges.tsv.gz", Some(b"\x1f\x8b\x08\x00"))],
        "wrong",
    );
    for (what, text) in [
        ("edges without header", "a\tlikes\tb\n"),
        ("an empty edges file", ""),
        ("edges with commas", "src_id\trelation\tdst_id\na,likes,b\n"),
        ("an edge with four columns", "src_id\trelation\tdst_id\na\tlikes\tb\t1\n"),
        ("an edge from nowhere", "src_id\trelation\tdst_id\nc\tlikes\tb\n"),
        ("an edge to nowhere", "src_id\trelation\tdst_id\na\tlikes\tB-017\n"),
        ("an edge without relation", "src_id\trelation\tdst_id\na\t\tb\n"),
        ("a relation with a carriage return", "src_id\trelation\tdst_id\na\tli\rkes\tb\n"),
    ] {
        case(what, KEYED, &[("edges.tsv", Some(text.as_bytes()))], "wrong");
    }
    for (what, text) in [
        ("an edge with a text among numbers", "src_id\trelation\tdst_id\n0\tlikes\tb\n"),
        ("an edge to a number that is not there", "src_id\trelation\tdst_id\n0\tlikes\t9\n"),
    ] {
        case(what, &numbered, &[("edges.tsv", Some(text.as_bytes()))], "wrong");
    }
    for (what, text) in [
        ("questions with another header", "id,question,answers\n"),
        ("a question with a comma", "id,query,answer_ids\n1,who, then,[a]\n"),
        ("a question whose id is not a number", "id,query,answer_ids\none,who,[a]\n"),
        ("a question id twice", "id,query,answer_ids\n1,who,[a]\n1,what,[a]\n"),
        ("answers that are no list", "id,query,answer_ids\n1,who,a\n"),
        ("answers without end", "id,query,answer_ids\n1,who,[a\n"),
        ("a question without answers", "id,query,answer_ids\n1,who,[]\n"),
        ("an answer that is not there", "id,query,answer_ids\n1,who,[A]\n"),
    ] {
        case(what, KEYED, &[("qa.csv", Some(text.as_bytes()))], "wrong");
    }
    case(
        "questions that are not UTF-8",
        KEYED,
        &[("qa.csv", Some(b"id,query,answer_ids\n1,\xff,[a]\n"))],
        "wrong",
    );
    for (what, text) in [
        ("a split of a question that is not there", "1\n7\n"),
        ("a split with a name in it", "1\nwho\n"),
    ] {
        case(what, ASKED, &[("split/val.index", Some(text.as_bytes()))], "wrong");
    }
    case(
        "a question in two splits",
        ASKED,
        &[("split/train.index", Some(b"1\n2\n")), ("split/val.index", Some(b"2\n"))],
        "wrong",
    );
    for (what, text) in [
        ("an unknown key of dataset.toml", "title = \"x\"\nlicense = \"y\"\n"),
        ("a dataset.toml that is none", "title: x\n"),
        ("a candidate type that is none", "candidate_types = [\"y\"]\n"),
        ("a template with a stray brace", "[templates]\nx = \"{name\"\n"),
    ] {
        case(what, KEYED, &[("dataset.toml", Some(text.as_bytes()))], "wrong");
    }
    for (what, text) in [
        ("two columns of one name", "sku,title,title\nS-1,Bottle,B\n"),
        ("a row with a cell too few", "sku,title,brand_id\nS-1,Bottle\n"),
        ("a row with a comma in a text", "sku,title,brand_id\nS-1,Bottle, steel,B-001\n"),
        ("a quote that is not closed", "sku,title,brand_id\nS-1,\"Bottle,B-001\nS-2,Mug,B-002\n"),
        (
            "a foreign key that is not there",
            "sku,title,brand_id\nS-1,Bottle,B-001\nS-2,Mug,B-002\nS-3,Cup,B-017\n",
        ),
        ("an empty table", ""),
    ] {
        case(what, TABLES, &[("products.csv", Some(text.as_bytes()))], "wrong");
    }
    let all = "id,name\nB-001,Northpeak\nB-001,Again\n,Nobody\n";
    let mapped = [("mapping.toml", MAPPED), ("brands.csv", all)];
    case("an id twice and one left out", &mapped, &[], "wrong");
    case("tables with headers alone", &[("brands.csv", "id,name\n")], &[], "wrong");
    case(
        "a JSON line that is none",
        &[("x.jsonl", "{\"id\": 1, \"name\": \"A\"}\n{\"id\": 2,\n")],
        &[],
        "wrong",
    );
    for (what, text) in [
        ("a mapping that is no TOML", "[[nodes]\n"),
        ("a mapping without nodes", "title = \"x\"\n"),
        (
            "a mapping with an unknown key",
            "[[nodes]]\nfile = \"brands.csv\"\ntype = \"brand\"\nkey = \"id\"\n",
        ),
        (
            "a mapping with a column that is not there",
            "[[nodes]]\nfile = \"brands.csv\"\ntype = \"brand\"\nid = \"brand\"\n",
        ),
        (
            "a mapping with a file that is not there",
            "[[nodes]]\nfile = \"brand.csv\"\ntype = \"brand\"\n",
        ),
        ("a mapping with a file elsewhere", "[[nodes]]\nfile = \"/etc/hosts\"\ntype = \"brand\"\n"),
        (
            "a link to a type that no table makes",
            "[[nodes]]\nfile = \"products.csv\"\ntype = \"product\"\nid = \"sku\"\n\
            relations = [{ column = \"brand_id\", relation = \"has_brand\", to = \"brands\" }]\n",
        ),
        (
            "edges without relation",
            "[[nodes]]\nfile = \"brands.csv\"\ntype = \"brand\"\nid = \"id\"\n\n[[edges]]\nfile = \"products.csv\"\n\
            source = { column = \"sku\", type = \"brand\" }\ntarget = { column = \"brand_id\", type = \"brand\" }\n",
        ),
    ] {
        case(what, TABLES, &[("mapping.toml", Some(text.as_bytes()))], "wrong");
    }
    case("a file of Arrow", &[("x.arrow", "ARROW1")], &[], "wrong/x.arrow");
    case("a file of JSON", &[("x.json", "[]")], &[], "wrong/x.json");
    case(
        "a damaged database",
        &[("x.db", "SQLite format 3\0 and then nothing")],
        &[],
        "wrong/x.db",
    );
    case("an empty directory", &[], &[], "wrong");
    case("a path that is not there", &[], &[], "wrong/nowhere");
    for (what, text) in [
        ("a triple without object", "<x:a> <x:b> .\n"),
        ("a triple without full stop", "<x:a> <x:b> <x:c>\n"),
        ("a triple with an open quote", "<x:a> <x:b> \"c .\n"),
        ("a triple with an unknown escape", "<x:a> <x:b> \"\\q\" .\n"),
    ] {
        case(what, &[("x.nt", text)], &[], "wrong/x.nt");
    }
    let many: String = (0..60).map(|at| format!("a\tlikes\tz{at}\n")).collect();
    let many = format!("src_id\trelation\tdst_id\n{many}");
    case("sixty wrong edges", KEYED, &[("edges.tsv", Some(many.as_bytes()))], "wrong");
    for (what, defaults, files, from) in FURTHER {
        case(what, defaults, files, from);
    }

    assert!(told.len() >= 140, "{} mistakes", told.len());
    let mut with_line = 0;
    for (what, text) in &told {
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("error: ") && first.contains("wrong"), "{what}: {text}");
        assert!(text.contains("  hint: ") || first.contains("; "), "{what} has no remedy: {text}");
        let place = first.trim_start_matches("error: ").split(": ").next().unwrap();
        let line = place.rsplit(':').next().unwrap();
        with_line += usize::from(line.parse::<u64>().is_ok());
    }
    assert!(with_line >= 110, "{with_line} of {} name a line", told.len());
    let page: String = told.iter().map(|(what, text)| format!("# {what}\n{text}\n")).collect();
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::write(Path::new(GOLDEN), &page).unwrap();
    }
    let stored = fs::read_to_string(GOLDEN).unwrap();
    let differing = stored.lines().zip(page.lines()).find(|(a, b)| a != b);
    assert!(stored == page, "{differing:?}; UPDATE=1 writes {GOLDEN}");
}
