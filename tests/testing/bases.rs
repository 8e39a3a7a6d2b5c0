//! Bases made for tests, one of them such that only the graph tells the answer, and a model that writes
//! what it is shown.

use std::{
    fmt::Write,
    fs,
    path::Path,
    sync::{Arc, LazyLock, atomic::AtomicBool},
};

use serde_json::{Value as Json, json};

use crate::scripted::{blocks, question, said};
use agent_dataset::{Home, ImportOptions, import_neutral};
use agent_index::{IndexedBase, build};
use agent_kb::{Kb, NodeId};
use agent_llm::{Finish, LlmError, Request};

/// Brands, each with one factory.
const BRANDS: [&str; 5] = ["Arvelle", "Brontik", "Corvane", "Dulmere", "Zorblax"];
/// Kettles of a factory; the last one is quiet.
const KETTLES: usize = 12;
/// Parts of steel: one more than a node may have edges to be passed.
const PARTS: usize = 2_001;
/// Asks for the quiet kettle of the last brand. Its document is as that of every other quiet one but
/// for its serial number, and the name of the brand stands two edges away.
pub const QUERY: &str = "a quiet kettle from Zorblax";

/// The base of a directory in neutral format, indexed.
pub(crate) fn imported(source: &Path, name: &str) -> Arc<IndexedBase> {
    let dir = tempfile::tempdir().unwrap();
    let (home, stop) = (Home::new(dir.path()), AtomicBool::new(false));
    let options = ImportOptions::default();
    let report = import_neutral(source, &home, name, &options, &mut |_| {}, &stop).unwrap();
    let (kb_dir, index) = (report.base.kb_dir(), report.base.index_dir());
    build(&Kb::open(&kb_dir).unwrap(), &index, &|_| {}, &stop).unwrap();
    // What is mapped stays readable after its files are gone.
    Arc::new(IndexedBase::open(&kb_dir, &index, name).unwrap())
}

/// A base of these lines of `nodes.jsonl` and `edges.tsv`, whose answers are of the types in
/// `candidates`, separated by spaces.
pub fn base_of(nodes: &str, edges: &str, candidates: &str) -> Arc<IndexedBase> {
    base_in("", nodes, edges, candidates)
}

/// As [`base_of`], for texts in these languages: ISO 639-1 codes, separated by commas; if empty,
/// they are detected.
pub fn base_in(languages: &str, nodes: &str, edges: &str, candidates: &str) -> Arc<IndexedBase> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("nodes.jsonl"), nodes).unwrap();
    let edges = format!("src_id\trelation\tdst_id\n{edges}");
    fs::write(dir.path().join("edges.tsv"), edges).unwrap();
    let types: Vec<&str> = candidates.split(' ').collect();
    let mut toml = format!("title = \"Planted\"\nlicence = \"CC0\"\ncandidate_types = {types:?}\n");
    if !languages.is_empty() {
        writeln!(toml, "language = \"{languages}\"").unwrap();
    }
    fs::write(dir.path().join("dataset.toml"), toml).unwrap();
    imported(dir.path(), "planted")
}

/// Every brand owns a factory, which makes kettles; all kettles are of steel, as many parts are.
pub fn planted() -> Arc<IndexedBase> {
    static BASE: LazyLock<Arc<IndexedBase>> = LazyLock::new(|| {
        let (mut nodes, mut edges) = (String::new(), String::new());
        let mut n = 0;
        let mut add = |kind: &str, name: &str, text: &str| {
            let node =
                json!({"id": n, "type": kind, "name": name, "details": {"description": text}});
            writeln!(nodes, "{node}").unwrap();
            n += 1;
            n - 1
        };
        let steel = add("material", "steel", "A metal.");
        for brand in BRANDS {
            let owner = add("brand", brand, "Makes things for the home.");
            let factory = add("factory", &format!("Works {owner}"), "A place by a river.");
            writeln!(edges, "{factory}\towned_by\t{owner}").unwrap();
            for at in 1..=KETTLES {
                let sound = if at == KETTLES { "quiet" } else { "loud" };
                let text = format!("A {sound} kettle for the kitchen, serial qx{owner}v{at}.");
                let kettle = add("kettle", &format!("Model {owner}-{at}"), &text);
                writeln!(edges, "{kettle}\tmade_in\t{factory}\n{kettle}\tmade_of\t{steel}")
                    .unwrap();
            }
        }
        for at in 0..PARTS {
            let part = add("part", &format!("Part {at}"), "A small thing from a box.");
            writeln!(edges, "{part}\tmade_of\t{steel}").unwrap();
        }
        base_of(&nodes, &edges, "kettle")
    });
    BASE.clone()
}

/// The quiet kettle of the last brand.
pub fn answer() -> NodeId {
    let base = planted();
    let kettles = base.kb.nodes_of_type(base.kb.type_id("kettle").unwrap());
    *kettles.last().unwrap()
}

/// What a model says that knows nothing: it names the brand of [`QUERY`], and writes what it is
/// shown first: facts, else documents, else entities, else the query. An answer cites the first node
/// with its name, and a check confirms what has the words of the nodes.
pub fn echo(request: &Request) -> Result<(String, Finish), LlmError> {
    let (prompt, asked) = (request.json.as_ref().unwrap().name.as_str(), question(request));
    let texts = |name: &str| -> Vec<String> {
        blocks(asked, name).into_iter().map(|block| block.1).collect()
    };
    let said_json = |value: Json| said(value.to_string());
    match prompt {
        "expand_parse" => {
            let name = json!({"name": "name", "value": "Zorblax"});
            said_json(json!({"entities": [{"type": "brand", "attributes": [name]}]}))
        }
        "expand_keywords" => said_json(json!({"keywords": ["quiet", "kettle"]})),
        "expand_analyze" => said_json(json!({"analysis": "A kettle that is quiet."})),
        "expand_refine" => {
            said_json(json!({"errors": [], "document": texts("document ").remove(0)}))
        }
        "expand_generate" => {
            let kinds = ["fact ", "document ", "entity ", "query"];
            let shown = kinds.map(texts).into_iter().find(|shown| !shown.is_empty());
            said_json(json!({"documents": shown.unwrap()}))
        }
        "answer_write" => {
            let first = texts("node ").remove(0);
            let name = first.lines().next().unwrap().strip_prefix("name: ").unwrap().to_owned();
            said_json(json!({"sentences": [{"text": format!("It is {name}."), "cites": [1]}]}))
        }
        "answer_check" => {
            let entry = json!({"n": 1, "reason": "as it says", "supported": true});
            said_json(json!({"sentences": [entry]}))
        }
        other => panic!("no reply to {other}"),
    }
}
