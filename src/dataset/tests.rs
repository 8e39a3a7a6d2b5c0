//! Tests that import tiny bases which they write themselves, and real bases if available.

use std::{
    collections::BTreeSet, fs, io::Write, path::Path, sync::atomic::AtomicBool, time::Instant,
};

use proptest::prelude::*;

use crate::{
    Base, DatasetError, Home, ImportOptions, ImportReport, LabelledQuery, Phase, ProblemKind,
    Progress, ResolvedDataset, Split, given, import_neutral,
    lines::{Line, Lines},
    load_split, load_test, load_values, render_field, render_text,
};
use agent_kb::{
    Direction, Kb, NodeId,
    answer::{AnswerValue, Cell},
    verify,
};

fn import(source: &Path, home: &Home, lenient: bool) -> Result<ImportReport, DatasetError> {
    let options = ImportOptions { lenient, ..ImportOptions::default() };
    import_neutral(source, home, "tiny", &options, &mut |_| {}, &AtomicBool::new(false))
}

#[test]
fn real_bases_have_their_counts_and_open_quickly() {
    for (name, n_nodes, n_edges) in [
        ("products", 30_234, 95_666),
        ("biomed", 91_582, 1_932_666),
        ("papers", 286_190, 1_007_564),
    ] {
        let Some(source) = given::real_data(name) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        let start = Instant::now();
        let report = import(&source, &home, false).unwrap();
        let imported = start.elapsed();
        assert_eq!((report.base.record.n_nodes, report.base.record.n_edges), (n_nodes, n_edges));
        assert_eq!(report.duplicate_edges, 0);
        let start = Instant::now();
        let kb = Kb::open(&report.base.kb_dir()).unwrap();
        let opened = start.elapsed();
        verify(&report.base.kb_dir(), &mut |_| {}).unwrap();
        for relation in 0..kb.relations().len() {
            let relation = agent_kb::RelationId(relation as u16);
            for node in (0..kb.n_nodes()).step_by(997) {
                for other in kb.neighbors(node, relation, Direction::Out).iter() {
                    assert!(kb.neighbors(*other, relation, Direction::In).contains(&node));
                }
            }
        }
        assert!(!load_test(&report.base).unwrap().is_empty());
        eprintln!("{name}: imported in {imported:?}, opened in {opened:?}");
    }
}

/// Writes the files of a dataset into a temporary directory; a later file replaces an earlier one
/// with the same name.
fn dataset(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("split")).unwrap();
    for (name, content) in [("nodes.jsonl", NODES), ("edges.tsv", EDGES)].iter().chain(files) {
        write_packed(&dir.path().join(name), content.as_bytes());
    }
    dir
}

fn write_packed(path: &Path, content: &[u8]) {
    let bytes = match path.extension().and_then(|e| e.to_str()) {
        Some("gz") => {
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gz.write_all(content).unwrap();
            gz.finish().unwrap()
        }
        Some("zst") => zstd::encode_all(content, 1).unwrap(),
        _ => content.to_vec(),
    };
    fs::write(path, bytes).unwrap();
}

const NODES: &str = r#"{"id": 0, "type": "paper", "name": "Über Graphen", "details": {"title": "Über Graphen", "year": 1987, "score": 4.0, "tags": ["a", "b"]}}
{"id": 1, "type": "author", "name": "Ann"}
{"id": 2, "type": "paper", "name": "Zwei", "details": {"size": {"height": "3 in", "weight": 1}, "none": null, "empty": []}}
{"id": 3, "type": "venue", "name": "図書", "details": null}
"#;
const EDGES: &str = "src_id\trelation\tdst_id\n1\twrote\t0\n1\twrote\t2\n0\tin\t3\n2\tcites\t0\n";
const QUERIES: &str = "id,query,answer_ids,kind\n\
    7,\"papers by Ann, please\",\"[2, 0, 2]\",llm\n8,\"two\nlines\",[3],llm\n9,what,[1],template\n";
const QUERY_FILES: [(&str, &str); 4] = [
    ("qa.csv", QUERIES),
    ("split/train.index", "9\n"),
    ("split/val.index", "8\n"),
    ("split/test.index", "7\n"),
];

struct Imported {
    _dir: tempfile::TempDir,
    home: Home,
    report: ImportReport,
}

fn imported(source: &Path, lenient: bool) -> Imported {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path());
    let report = import(source, &home, lenient).unwrap();
    Imported { _dir: dir, home, report }
}

/// Lists the names of all entries in the directory of bases, except the lock file.
fn left_in(home: &Home) -> Vec<String> {
    let Ok(entries) = fs::read_dir(home.path().join("bases")) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != ".lock").collect()
}

#[test]
fn a_tiny_base_comes_back_whole() {
    let source = dataset(&QUERY_FILES);
    let imported = imported(source.path(), false);
    let report = &imported.report;
    assert_eq!((report.duplicate_edges, report.filler_nodes), (0, 0));
    assert!(report.problems.is_empty());
    let kb = Kb::open(&report.base.kb_dir()).unwrap();
    assert_eq!((kb.n_nodes(), kb.n_edges()), (4, 4));
    assert_eq!((kb.name(0), kb.name(3)), ("Über Graphen", "図書"));
    assert_eq!(
        kb.text(0),
        "- name: Über Graphen\n- type: paper\n- year: 1987\n- score: 4.0\n- tags: a; b\n"
    );
    assert_eq!(kb.text(2), "- name: Zwei\n- type: paper\n- size: height: 3 in; weight: 1\n");
    assert_eq!(kb.text(1), "- name: Ann\n- type: author\n");
    let fields: Vec<_> = kb.fields(0).map(|(id, value)| (kb.field_name(id), value)).collect();
    assert_eq!(
        fields,
        [("title", "Über Graphen"), ("year", "1987"), ("score", "4.0"), ("tags", "a; b")]
    );
    let wrote = kb.relation_id("wrote").unwrap();
    assert_eq!(*kb.neighbors(1, wrote, Direction::Out), [0, 2]);
    assert_eq!(*kb.neighbors(2, wrote, Direction::In), [1]);

    let val = load_split(&report.base, &Split::Val).unwrap();
    assert_eq!(val.len(), 1);
    assert_eq!((val[0].id, val[0].text.as_str()), (8, "two\nlines"));
    let test = load_test(&report.base).unwrap();
    let metadata = [("kind".to_string(), "llm".to_string())].into();
    let text = "papers by Ann, please".to_string();
    assert_eq!(test, [LabelledQuery { id: 7, text, answers: vec![0, 2], metadata }]);
}

#[test]
fn packed_and_plain_files_give_the_same_base() {
    let plain = imported(dataset(&[]).path(), false).report.base.record.fingerprint;
    for suffix in ["gz", "zst"] {
        let source = dataset(&[]);
        for (name, content) in [("nodes.jsonl", NODES), ("edges.tsv", EDGES)] {
            fs::remove_file(source.path().join(name)).unwrap();
            let path = source.path().join(format!("{name}.{suffix}"));
            write_packed(&path, content.replace('\n', "\r\n").as_bytes());
        }
        assert_eq!(imported(source.path(), false).report.base.record.fingerprint, plain);
        let path = source.path().join(format!("nodes.jsonl.{suffix}"));
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        check_error(source.path(), &[&format!("nodes.jsonl.{suffix}:"), "truncated or damaged"]);
    }
}

/// Checks that a strict import fails with a message that contains all of `parts`, and leaves no
/// files behind.
fn check_error(source: &Path, parts: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path());
    let message = import(source, &home, false).unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
    assert!(left_in(&home).is_empty(), "{:?}", left_in(&home));
}

/// Name and content of an invalid file, and a part of the expected error message.
const WRONG_FILES: [(&str, &str, &str); 31] = [
    (
        "nodes.jsonl",
        "{\"id\": 0, \"type\": \"a\", \"name\": \"x\"}\n{\"id\": 0, \"type\": \"a\", \"name\": \"x\"}\n",
        ":2: id 0 occurs twice or out of order; number the nodes 0, 1, 2, ... in file order",
    ),
    (
        "nodes.jsonl",
        "{\"id\": 0, \"type\": \"a\", \"name\": \"x\"}\n{\"id\": 2, \"type\": \"a\", \"name\": \"x\"}\n",
        ":2: id 1 is missing: this line has id 2; number the nodes 0, 1, 2, ... in file order",
    ),
    (
        "nodes.jsonl",
        "{\"id\": 0, \"type\": \"a\", \"name\"}\n",
        ":1: expected `:` (column 30); write one {\"id\": \"..\", \"type\": \"..\", \"name\": \"..\", \"details\": {}} per line",
    ),
    (
        "nodes.jsonl",
        "\n{\"id\": 0, \"type\": \"a\"}\n",
        ":2: missing field `name` (column 22); write",
    ),
    (
        "nodes.jsonl",
        "{\"id\": 0.5, \"type\": \"a\", \"name\": \"x\"}\n",
        ":1: id 0.5 is not an integer",
    ),
    (
        "nodes.jsonl",
        "{\"id\": 0, \"id\": 0, \"type\": \"a\", \"name\": \"x\"}\n",
        ":1: key \"id\" occurs twice",
    ),
    (
        "nodes.jsonl",
        "{\"id\": 0, \"type\": \"a\", \"name\": \"x\", \"year\": 1}\n",
        ":1: unknown key \"year\"; put it into details",
    ),
    (
        "nodes.jsonl",
        "{\"id\": 0, \"type\": \"\", \"name\": \"x\"}\n",
        ":1: type name of 0 bytes; use 1 to 1024 bytes",
    ),
    ("nodes.jsonl", "", " contains no nodes; add at least one"),
    (
        "edges.tsv",
        "",
        ":1: the header is \"\", not \"src_id\\trelation\\tdst_id\"; the first line must be that",
    ),
    ("edges.tsv", "1\twrote\t0\n", ":1: the header is \"1\\twrote\\t0\", not"),
    (
        "edges.tsv",
        "src_id\trelation\tdst_id\n1\twrote\t0\t5\n",
        ":2: 4 columns, not 3; write source, relation, target with tabs",
    ),
    ("edges.tsv", "src_id\trelation\tdst_id\n1 wrote 0\n", ":2: 1 columns, not 3"),
    (
        "edges.tsv",
        "src_id\trelation\tdst_id\n\n1\twrote\t4\n",
        ":3: no node has the id \"4\"; nodes.jsonl has ids from 0 to 3; add the node, or import with --lenient",
    ),
    (
        "edges.tsv",
        "src_id\trelation\tdst_id\nx\twrote\t4\n",
        ":2: the id \"x\" is not a number, unlike the ids in nodes.jsonl; use the ids",
    ),
    ("edges.tsv", "src_id\trelation\tdst_id\n1\t\t2\n", ":2: relation name of 0 bytes"),
    (
        "edges.tsv",
        "src_id\trelation\tdst_id\n1\twrote\t0\n1\ta\rb\t2\n",
        ":3: relation name \"a\\rb\" contains a control character; rename it in the data",
    ),
    (
        "nodes.jsonl",
        "{\"id\": 0, \"type\": \"a\\nfn retrieve\", \"name\": \"\"}\n",
        ":1: type name \"a\\nfn retrieve\" contains a control character; rename it in the data",
    ),
    (
        "nodes.jsonl",
        "{\"id\": 0, \"type\": \"a\\u202eb\", \"name\": \"\"}\n",
        ":1: type name \"a\\u{202e}b\" contains a control character",
    ),
    (
        "qa.csv",
        "id,query,answers\n",
        ":1: the header is \"id,query,answers\"; the required columns are id,query,answer_ids, as in \
         1,who sells ink?,\"[3, 17]\"",
    ),
    (
        "qa.csv",
        "id,query,answer_ids\n1,\"a\nb\",[1]\n2,c\n",
        ":4: 2 columns, not 3; quote texts that hold commas",
    ),
    (
        "qa.csv",
        "id,query,answer_ids\n1,a,[4]\n",
        ":2: answer 4 is not in the base; ids are 0 to 3; drop it",
    ),
    (
        "qa.csv",
        "id,query,answer_ids\n1,a,[]\n",
        ":2: the query has no answers; remove the query, or add answers",
    ),
    (
        "qa.csv",
        "id,query,answer_ids\n1,a,3\n",
        ":2: answer_ids \"3\" is not a list; write node ids as a list: \"[3, 17]\"",
    ),
    (
        "qa.csv",
        "id,query,answer_ids\n8,a,[3]\n9, ,[3]\n",
        ":3: the question is empty; write the question, or leave the row out",
    ),
    ("qa.csv", "id,query,answer_ids\n1,a,[3]\n1,b,[3]\n", ":3: query id 1 occurs twice"),
    ("qa.csv", "id,query,answer_ids\r\n1,a,[3]\r\n2,b,[4]\r\n", ":3: answer 4 is not"),
    (
        "qa.csv",
        "id,query,answer_ids\r\n1,\"a\r\nb\",[3]\r\n\r\n\n1,c,[3]\r\n",
        ":6: query id 1 occurs twice",
    ),
    ("split/val.index", "8\n10\n", ":2: query 10 is not in qa.csv; add it there or drop this line"),
    ("split/val.index", "8\n9\n", ":2: query 9 is already in split train; keep it in one split"),
    ("dataset.toml", "title = \"x\"\nlicense = \"y\"\n", ":2: unknown field `license`"),
];

#[test]
fn strict_errors_name_file_line_and_remedy() {
    for (file, content, expected) in WRONG_FILES {
        let mut files = QUERY_FILES.to_vec();
        files.push((file, content));
        let source = dataset(&files);
        check_error(source.path(), &[&format!("{file}{expected}")]);
    }
    let queries = |n: usize| format!("id,query,answer_ids\n7,a,[3]\n8,{},[3]\n", "x".repeat(n));
    let source = dataset(&[("qa.csv", &queries(crate::MAX_QUERY_BYTES + 1))]);
    let expected = "qa.csv:3: the question has 16385 bytes, more than 16384; shorten it, or leave";
    check_error(source.path(), &[expected]);
    let home = tempfile::tempdir().unwrap();
    let source = dataset(&[("qa.csv", &queries(crate::MAX_QUERY_BYTES))]);
    import(source.path(), &Home::new(home.path()), false).unwrap();
    let source = dataset(&[("dataset.toml", "candidate_types = [\"papers\"]")]);
    check_error(source.path(), &["dataset.toml: candidate type \"papers\" is not a node type"]);
    let source = dataset(&[]);
    fs::write(source.path().join("nodes.jsonl"), b"{\"id\": 0, \"type\": \"\xff\"}\n").unwrap();
    check_error(source.path(), &["nodes.jsonl:1: byte 20 is not UTF-8; convert the file to UTF-8"]);
    fs::remove_file(source.path().join("nodes.jsonl")).unwrap();
    check_error(source.path(), &["has no nodes.jsonl, nodes.jsonl.gz or nodes.jsonl.zst"]);
    let source = dataset(&[("edges.tsv.gz", EDGES)]);
    check_error(source.path(), &["has both edges.tsv and edges.tsv.gz; keep one"]);
}

#[test]
fn what_follows_from_a_wrong_line_is_summed_up_behind_it() {
    let told = |files: &[(&str, &str)]| {
        let dir = tempfile::tempdir().unwrap();
        import(dataset(files).path(), &Home::new(dir.path()), false).unwrap_err().to_string()
    };
    let mut files = QUERY_FILES.to_vec();
    files.push(("qa.csv", "id,query,answers\n7,a,[1]\n"));
    let text = told(&files);
    assert!(!text.contains("is not in qa.csv"), "{text}");
    assert_eq!(text.matches(".index: 1 line refers").count(), 3, "{text}");
    // An invalid row explains only its own id in the splits.
    let queries = "id,query,answer_ids\n7,,[1]\n";
    let text =
        told(&[("qa.csv", queries), ("split/val.index", "7\n"), ("split/test.index", "5\n")]);
    assert!(text.contains("val.index: 1 line refers") && text.contains("test.index:1: query 5"));
    let nodes = "{\"id\": \"a\", \"type\": \"x\", \"name\": \"\"}\n{\"id\": \"b\",\n";
    let edges = "src_id\trelation\tdst_id\na\tr\tb\nb\tr\ta\na\tr\ta\n";
    let queries = "id,query,answer_ids\n1,q,[b]\n";
    let files = [("nodes.jsonl", nodes), ("edges.tsv", edges), ("qa.csv", queries)];
    let text = told(&files);
    let lines: Vec<&str> = text.lines().collect();
    let [cause, edges, answers] = lines.as_slice() else { panic!("{text}") };
    assert!(cause.contains("nodes.jsonl:2: "), "{text}");
    assert!(edges.contains("edges.tsv: 2 lines refer"), "{text}");
    assert!(answers.contains("qa.csv: 1 line refers"), "{text}");
}

#[test]
fn lenient_import_counts_and_goes_on() {
    let nodes = "{\"id\": 0, \"type\": \"a\", \"name\": \"x\", \"year\": 1}\nnot json\n\
        {\"id\": 2, \"type\": \"a\", \"name\": \"y\"}\n{\"id\": 2, \"type\": \"a\", \"name\": \"z\"}\n";
    let mut edges = "src_id\trelation\tdst_id\n0\tr\t2\n0\tr\t2\nragged\n".to_string();
    for id in 3..10 {
        edges.push_str(&format!("0\tr\t{id}\n"));
    }
    let source = dataset(&[
        ("nodes.jsonl", nodes),
        ("edges.tsv", &edges),
        ("qa.csv", "id,query,answer_ids\n1,a,[2]\n2,b,[9]\n"),
        ("split/test.index", "1\n2\n"),
    ]);
    let imported = imported(source.path(), true);
    let report = &imported.report;
    let counts: Vec<_> = report.problems.iter().map(|p| (p.kind, p.count)).collect();
    assert_eq!(
        counts,
        [
            (ProblemKind::BadJson, 1),
            (ProblemKind::UnknownKey, 1),
            (ProblemKind::DuplicateId, 1),
            (ProblemKind::MissingId, 1),
            (ProblemKind::RaggedRow, 1),
            (ProblemKind::UnknownNode, 7),
            (ProblemKind::UnknownAnswer, 1),
            (ProblemKind::UnknownQuery, 1),
        ]
    );
    assert_eq!(report.problems[5].first.line, 5);
    assert_eq!((report.duplicate_edges, report.filler_nodes), (1, 1));
    let kb = Kb::open(&report.base.kb_dir()).unwrap();
    assert_eq!((kb.n_nodes(), kb.n_edges()), (3, 1));
    assert_eq!((kb.type_name(kb.node_type(1)), kb.name(1), kb.name(2)), ("unknown", "", "y"));
    assert_eq!(load_test(&report.base).unwrap().len(), 1);
}

#[test]
fn one_wrong_id_does_not_create_billions_of_nodes() {
    let nodes = "{\"id\": 0, \"type\": \"a\", \"name\": \"\"}\n\
        {\"id\": 4000000000, \"type\": \"a\", \"name\": \"\"}\n";
    let source = dataset(&[("nodes.jsonl", nodes)]);
    let dir = tempfile::tempdir().unwrap();
    let error = import(source.path(), &Home::new(dir.path()), true).unwrap_err().to_string();
    assert!(error.contains("more than 1000000 node ids are missing"), "{error}");
}

#[test]
fn long_lines_are_passed_over_in_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    fs::write(&path, format!("abcd\n{}\nabcd\r\nabcde\nab", "x".repeat(1 << 20))).unwrap();
    let mut lines = Lines::open(&path).unwrap();
    lines.max_line = 4;
    let mut seen = Vec::new();
    while let Some((number, line)) = lines.next().unwrap() {
        seen.push((number, matches!(line, Line::Bytes(_))));
    }
    assert_eq!(seen, [(1, true), (2, false), (3, true), (4, false), (5, true)]);
}

#[test]
fn a_failed_or_stopped_import_leaves_the_old_base() {
    let good = dataset(&QUERY_FILES);
    let bad = dataset(&[("edges.tsv", "src_id\trelation\tdst_id\n0\tr\t99\n")]);
    let imported = imported(good.path(), false);
    let before = imported.report.base.clone();
    import(bad.path(), &imported.home, false).unwrap_err();
    for stop_at in [Phase::Nodes, Phase::Edges, Phase::Graph, Phase::Queries] {
        let stop = AtomicBool::new(false);
        let mut on_progress = |progress: Progress| {
            stop.store(progress.phase == stop_at, std::sync::atomic::Ordering::Relaxed);
        };
        let options = ImportOptions::default();
        let result =
            import_neutral(good.path(), &imported.home, "tiny", &options, &mut on_progress, &stop);
        assert!(matches!(result, Err(DatasetError::Stopped)), "{stop_at:?}");
    }
    assert_eq!(left_in(&imported.home), ["tiny"]);
    assert_eq!(imported.home.get("tiny").unwrap(), before);
    // A valid import replaces the base.
    let other = dataset(&[("edges.tsv", "src_id\trelation\tdst_id\n0\tr\t1\n")]);
    assert_eq!(import(other.path(), &imported.home, false).unwrap().base.record.n_edges, 1);
    assert_eq!(imported.home.get("tiny").unwrap().record.n_edges, 1);
    assert_eq!(left_in(&imported.home), ["tiny"]);
}

#[test]
fn leftovers_of_killed_processes_are_mended() {
    let source = dataset(&[]);
    let imported = imported(source.path(), false);
    let bases = imported.home.path().join("bases");
    // Killed between the two renames of a replacement, and in the middle of an import.
    fs::rename(bases.join("tiny"), bases.join(".old-tiny")).unwrap();
    fs::create_dir_all(bases.join(".new-other-x1/kb")).unwrap();
    assert_eq!(imported.home.get("tiny").unwrap(), imported.report.base);
    import(source.path(), &imported.home, false).unwrap();
    assert_eq!(left_in(&imported.home), ["tiny"]);
}

#[test]
fn home_lists_finds_and_removes() {
    let source = dataset(&QUERY_FILES);
    let imported = imported(source.path(), false);
    let home = &imported.home;
    assert_eq!(home.list().unwrap(), std::slice::from_ref(&imported.report.base));
    assert_eq!(
        home.get("tinny").unwrap_err().to_string(),
        "no dataset \"tinny\" is installed, did you mean \"tiny\"?; installed: tiny"
    );
    for name in ["", "../x", "Tiny", ".old-tiny", "-x", &"x".repeat(65)] {
        assert!(matches!(home.get(name), Err(DatasetError::BadName { .. })), "{name}");
        assert!(matches!(home.remove(name), Err(DatasetError::BadName { .. })), "{name}");
    }
    // The directory that a killed replacement set aside is not restored after the removal.
    let bases = home.path().join("bases");
    fs::create_dir_all(bases.join(".old-tiny/kb")).unwrap();
    home.remove("tiny").unwrap();
    assert!(left_in(home).is_empty() && !bases.join(".old-tiny").exists());
    assert_eq!(
        home.remove("tiny").unwrap_err().to_string(),
        "no dataset \"tiny\" is installed; import one first"
    );
    let nowhere = Home::new(home.path().join("nowhere"));
    assert!(nowhere.list().unwrap().is_empty() && nowhere.get("x").is_err());
    assert!(!nowhere.path().exists(), "looking creates nothing");
}

#[test]
fn a_directory_resolves_to_a_name_that_follows_its_files() {
    let source = dataset(&[]);
    let argument = source.path().to_str().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path());
    let ResolvedDataset::NewDirectory { source: found, name } = home.resolve(argument).unwrap()
    else {
        panic!("nothing is installed yet");
    };
    let options = ImportOptions::default();
    import_neutral(&found, &home, &name, &options, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    assert!(matches!(home.resolve(argument).unwrap(), ResolvedDataset::ImportedDirectory(_)));
    assert!(matches!(home.resolve(&name).unwrap(), ResolvedDataset::Installed(_)));
    // Changes of a file, of a file in a folder, and of the target of a link are detected.
    let elsewhere = dir.path().join("edges.tsv");
    fs::create_dir(source.path().join("tables")).unwrap();
    let mut names = BTreeSet::from([name]);
    let mut resolves_anew = || match home.resolve(argument).unwrap() {
        ResolvedDataset::NewDirectory { name, .. } => names.insert(name),
        _ => false,
    };
    fs::write(source.path().join("edges.tsv"), EDGES.replace("cites", "quotes")).unwrap();
    assert!(resolves_anew());
    fs::write(source.path().join("tables/more.csv"), "id\n1\n").unwrap();
    assert!(resolves_anew());
    fs::write(source.path().join("tables/more.csv"), "id\n1\n2\n").unwrap();
    assert!(resolves_anew());
    #[cfg(unix)]
    {
        fs::write(&elsewhere, EDGES).unwrap();
        fs::remove_file(source.path().join("edges.tsv")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, source.path().join("edges.tsv")).unwrap();
        assert!(resolves_anew());
        fs::write(&elsewhere, EDGES.replace("cites", "mentions")).unwrap();
        assert!(resolves_anew());
    }
    assert_eq!(
        home.resolve("./nowhere").unwrap_err().to_string(),
        "\"./nowhere\" is neither the name of an installed dataset nor a directory"
    );
}

#[test]
fn answers_may_be_values() {
    let directory = dataset(&[]);
    let installed = imported(directory.path(), false);
    let base = &installed.report.base;
    let file = directory.path().join("values.csv");
    let table = r#"{""columns"": [""brand""], ""rows"": [[""Umbra""]]}"#;
    let rows = format!(
        "id,query,answer_ids,answer_value,kind\n1,how many,[],4,count\n2,who,,Ann Lee,name\n\
         3,which,[1],\"{table}\",table\n4,where,[2],,nodes\n"
    );
    fs::write(&file, &rows).unwrap();
    let split = Split::File(file.clone());
    let ids = |split: &Split| -> Vec<i64> {
        load_split(base, split).unwrap().iter().map(|query| query.id).collect()
    };
    assert_eq!(ids(&split), [3, 4], "those whose answers are nodes");
    // Compressed questions are refused, not ignored.
    fs::write(directory.path().join("qa.csv.gz"), "").unwrap();
    let error = import(directory.path(), &installed.home, false).unwrap_err().to_string();
    assert!(error.contains("compressed question files are not supported"), "{error}");
    let valued = load_values(base, &split).unwrap();
    assert_eq!(valued.iter().map(|query| query.id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(valued[0].value, AnswerValue::from(Cell::Number(4.0)));
    assert_eq!(valued[1].value, AnswerValue::from(Cell::from("Ann Lee")));
    assert!(matches!(&valued[2].value, AnswerValue::Table(table) if table.rows().len() == 1));
    assert_eq!(valued[0].metadata, [("kind".to_string(), "count".to_string())].into());
    assert!(matches!(load_values(base, &Split::Test), Err(DatasetError::TestClosed)));
    for (wrong, why) in
        [("{}", "is not an answer"), (r#"{""nodes"": []}"#, "list nodes in answer_ids")]
    {
        fs::write(&file, format!("id,query,answer_ids,answer_value\n1,q,[],\"{wrong}\"\n"))
            .unwrap();
        let error = load_values(base, &split).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains(":2"), "{error}");
    }
}

#[test]
fn splits_are_loaded_one_by_one_and_checked() {
    let source = dataset(&QUERY_FILES);
    let imported = imported(source.path(), false);
    let base = &imported.report.base;
    assert!(matches!(load_split(base, &Split::Test), Err(DatasetError::TestClosed)));
    assert_eq!(
        load_split(base, &Split::Human).unwrap_err().to_string(),
        "dataset \"tiny\" has no human split; it has: test, train, val"
    );
    let file = source.path().join("mine.csv");
    fs::write(&file, "answer_ids,id,query\n[1],-5,x\n").unwrap();
    let queries = load_split(base, &Split::File(file.clone())).unwrap();
    assert_eq!((queries[0].id, queries[0].answers.as_slice()), (-5, &[1][..]));
    fs::write(&file, "answer_ids,id,query\n[100],-5,x\n").unwrap();
    let error = load_split(base, &Split::File(file)).unwrap_err().to_string();
    assert!(error.contains("mine.csv:2: answer 100 is not in the base"), "{error}");
    let stored = base.queries_dir().join("qa.csv");
    let mut bytes = fs::read(&stored).unwrap();
    bytes[30] ^= 1;
    fs::write(&stored, bytes).unwrap();
    assert!(matches!(load_test(base), Err(DatasetError::Damaged { .. })));

    let human = dataset(&[("human.csv", "id,query,answer_ids\n7,people ask,[3]\n")]);
    let imported = self::imported(human.path(), false);
    assert_eq!(load_split(&imported.report.base, &Split::Human).unwrap()[0].text, "people ask");
}

#[test]
fn long_items_get_lines_of_their_own() {
    let details = format!(
        r#"{{"features": ["{0}", "short", ""], "reviews": [{{"rating": 5.0, "text": "{0}"}}], "flag": true}}"#,
        "long ".repeat(20).trim()
    );
    let details = serde_json::from_str(&details).unwrap();
    let long = "long ".repeat(20);
    let long = long.trim();
    assert_eq!(
        render_text("N", "T", &details),
        format!(
            "- name: N\n- type: T\n- features:\n  - {long}\n  - short\n\
             - reviews: rating: 5.0; text: {long}\n- flag: true\n"
        )
    );
    assert_eq!(render_field(&details["features"]), format!("{long}\nshort"));
}

#[test]
fn templates_replace_documents_of_their_type() {
    let toml = "[templates]\npaper = \"{name} ({year})\\nsize {size}\\nall {type}\"\n";
    let source = dataset(&[("dataset.toml", toml)]);
    let imported = imported(source.path(), false);
    let kb = Kb::open(&imported.report.base.kb_dir()).unwrap();
    assert_eq!(kb.text(0), "Über Graphen (1987)\nall paper\n");
    assert_eq!(kb.text(2), "Zwei ()\nsize height: 3 in; weight: 1\nall paper\n");
    assert_eq!(kb.text(1), "- name: Ann\n- type: author\n");
    for stray in ["{name", "name}", "{}", "{a{b}"] {
        let source = dataset(&[("dataset.toml", &format!("[templates]\npaper = \"{stray}\""))]);
        check_error(source.path(), &["the template of \"paper\" has a stray brace; write {field}"]);
    }
    for (template, told) in [
        ("papr = \"{name}\"", "\"papr\": no node has the type \"papr\"; known: author, paper"),
        ("paper = \"{yaer}\"", "\"paper\": no node has the field \"yaer\"; known: "),
    ] {
        let source = dataset(&[("dataset.toml", &format!("[templates]\n{template}"))]);
        check_error(source.path(), &[told]);
    }
}

#[test]
fn what_templates_make_is_bounded() {
    let repeated = |n: usize| format!("[templates]\npaper = \"{}\"\n", "{name}".repeat(n));
    let source = dataset(&[("dataset.toml", &repeated(1_001))]);
    check_error(source.path(), &["the template of \"paper\" has more than 1000 placeholders"]);
    let name = "x".repeat(1 << 20);
    let node = format!("{{\"id\": 0, \"type\": \"paper\", \"name\": \"{name}\"}}\n");
    let files = [("nodes.jsonl", node.as_str()), ("edges.tsv", "src_id\trelation\tdst_id\n")];
    let toml = repeated(1_000);
    let source = dataset(&[files[0], files[1], ("dataset.toml", &toml)]);
    check_error(source.path(), &["nodes.jsonl:1: its document exceeds"]);
    let toml = repeated(60);
    let source = dataset(&[files[0], files[1], ("dataset.toml", &toml)]);
    let imported = imported(source.path(), false);
    let kb = Kb::open(&imported.report.base.kb_dir()).unwrap();
    assert_eq!(kb.text(0).len(), (60 << 20) + 1);
}

#[cfg(unix)]
#[test]
fn endless_files_are_refused() {
    for file in ["dataset.toml", "nodes.jsonl", "edges.tsv", "qa.csv"] {
        let source = dataset(&[]);
        let path = source.path().join(file);
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        check_error(source.path(), &[file, "it is not a regular file"]);
    }
}

#[test]
fn an_import_beside_an_indexed_base_waits_until_it_is_made_current() {
    let old = dataset(&QUERY_FILES);
    let Imported { _dir, home, report } = imported(old.path(), false);
    let (home, first) = (&home, report.base);
    let edges = |n: usize| {
        let rows: String = (0..n).map(|at| format!("0\tr{at}\t1\n")).collect();
        dataset(&[("edges.tsv", &format!("src_id\trelation\tdst_id\n{rows}"))])
    };
    let import = |n: usize, dry_run: bool| {
        let options = ImportOptions { as_next_version: true, dry_run, ..ImportOptions::default() };
        let (source, stop) = (edges(n), AtomicBool::new(false));
        import_neutral(source.path(), home, "tiny", &options, &mut |_| {}, &stop).unwrap().base
    };
    let beside = |n: usize| import(n, false);
    // Without an index, the import replaces the base.
    assert_eq!((beside(1).version, home.get("tiny").unwrap().record.n_edges), (1, 1));
    fs::create_dir(first.index_dir()).unwrap();
    let before = home.get("tiny").unwrap();
    assert_eq!(import(2, true).version, 2);
    let waiting = beside(2);
    assert_eq!(
        (home.get("tiny").unwrap(), home.pending_version("tiny").unwrap()),
        (before.clone(), Some(waiting.clone()))
    );
    // A later version replaces a pending version that no reader holds.
    let place = waiting.path.clone();
    drop(waiting);
    let next = beside(3);
    assert!(!place.exists());
    home.make_current(&next).unwrap();
    assert_eq!(
        (home.get("tiny").unwrap(), home.pending_version("tiny").unwrap()),
        (next.clone(), None)
    );
    // The previous version stays readable, but does not become current again.
    assert!(Kb::open(&before.kb_dir()).is_ok());
    home.make_current(&before).unwrap();
    assert_eq!(home.get("tiny").unwrap(), next);
    fs::create_dir(next.index_dir()).unwrap();
    let later = beside(4);
    home.make_current(&later).unwrap();
    // A version stays while a reader holds it, however many versions follow.
    let place = before.kb_dir();
    drop(first);
    assert!(Kb::open(&before.kb_dir()).is_ok() && Kb::open(&next.kb_dir()).is_ok());
    drop(before);
    fs::create_dir(later.index_dir()).unwrap();
    let last = beside(5);
    home.make_current(&last).unwrap();
    assert!(
        !place.exists() && Kb::open(&next.kb_dir()).is_ok() && Kb::open(&later.kb_dir()).is_ok()
    );
    assert_eq!(home.list().unwrap(), [last]);
    home.remove("tiny").unwrap();
    assert!(left_in(home).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The import of a malicious file gives a base or an error, never a panic.
    #[test]
    fn garbled_files_never_panic(
        file in 0usize..5,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..6),
        lenient in any::<bool>(),
    ) {
        let source = dataset(&QUERY_FILES);
        let names = ["nodes.jsonl", "edges.tsv", "qa.csv", "split/val.index", "nodes.jsonl.gz"];
        if file == 4 {
            fs::remove_file(source.path().join("nodes.jsonl")).unwrap();
            write_packed(&source.path().join("nodes.jsonl.gz"), NODES.as_bytes());
        }
        let path = source.path().join(names[file]);
        let mut bytes = fs::read(&path).unwrap();
        for (at, byte, action) in edits {
            let at = at.index(bytes.len());
            match action {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.drain(at..(at + usize::from(byte) % 8 + 1).min(bytes.len() - 1).max(at))),
            }
        }
        fs::write(&path, bytes).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        match import(source.path(), &home, lenient) {
            Ok(report) => {
                verify(&report.base.kb_dir(), &mut |_| {}).unwrap();
                for split in [Split::Train, Split::Val] {
                    load_split(&report.base, &split).unwrap();
                }
            }
            Err(_) => prop_assert!(left_in(&home).is_empty()),
        }
    }
}

#[test]
fn a_question_keeps_the_answers_that_are_there() {
    let source = dataset(&[("qa.csv", "id,query,answer_ids\n1,a,\"[1, 99]\"\n2,b,[98]\n")]);
    let Imported { _dir, report, .. } = imported(source.path(), true);
    assert_eq!(report.base.record.n_queries, 1);
    assert_eq!(stored_answers(&report.base), [vec![1]]);
    let problem = &report.problems[0];
    assert_eq!((problem.kind, problem.count), (ProblemKind::UnknownAnswer, 2));
    assert!(!problem.first.hint.contains("--lenient"), "{}", problem.first.hint);
}

fn stored_answers(base: &Base) -> Vec<Vec<NodeId>> {
    let queries = crate::queries::stored_queries(base, "qa.csv").unwrap();
    queries.into_iter().map(|query| query.answers).collect()
}
