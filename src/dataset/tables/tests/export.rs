//! Tests with exported tables: encodings, JSON arrays, markers of missing values, and columns with
//! few values.

use std::{fs, path::Path, sync::atomic::AtomicBool};

use crate::{
    DatasetError, Encoding, Home, ImportOptions, ImportReport,
    tables::{GuessOptions, Mapping, Reading, guess, import_tables},
};
use agent_kb::{Direction, Kb};

fn home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path().join("home"));
    fs::create_dir_all(dir.path().join("data")).unwrap();
    (dir, home)
}

fn import(source: &Path, mapping: &Mapping, home: &Home) -> Result<ImportReport, DatasetError> {
    let (options, stop) = (ImportOptions::default(), AtomicBool::new(false));
    import_tables((source, mapping), home, "desk", &options, &mut |_| {}, &stop)
}

fn guessed(source: &Path) -> Mapping {
    guess(source, &GuessOptions::default()).unwrap().mapping
}

/// Returns a CSV table of 60 people at two sites, whose names have three spellings, with tags.
fn people() -> String {
    let row = |n: usize| {
        let site = ["Graz", "Bonn", "graz"][n % 3];
        let tags = ["vip", "vip, remote", ""][n % 3];
        format!("E{n};Person {n};{site};{tags};{}\n", ["yes", "no"][n % 2])
    };
    "id;name;site;tags;driver\n".to_owned() + &(0..60).map(row).collect::<String>()
}

#[test]
fn columns_of_few_values_become_nodes_and_stay_texts() {
    let (dir, home) = home();
    let data = dir.path().join("data");
    fs::write(data.join("people.csv"), people()).unwrap();
    let found = guess(&data, &GuessOptions::default()).unwrap();
    assert_eq!(
        found.mapping.lines(),
        ["people.csv: one people per row: id id, name name, fields site tags driver, \
          site -has_site-> site (values), tags -has_tag-> tag (values)"]
    );
    assert!(found.notes[0].contains("in 60 rows"), "{:?}", found.notes);
    assert!(found.notes[0].contains("site (3 values), tags (2 values)"), "{:?}", found.notes);
    // A written mapping is read unchanged.
    let file = dir.path().join("mapping.toml");
    fs::write(&file, found.mapping.to_toml()).unwrap();
    let mut read = Mapping::read(&file).unwrap();
    read.nodes.iter_mut().for_each(|table| table.line = 0);
    assert_eq!(read, found.mapping);

    let report = import(&data, &found.mapping, &home).unwrap();
    let kb = Kb::open(&report.base.kb_dir()).unwrap();
    let names = |kind: &str| -> Vec<&str> {
        kb.nodes_of_type(kb.type_id(kind).unwrap()).iter().map(|&node| kb.name(node)).collect()
    };
    // Values that differ only in case are one node, with the first spelling.
    assert_eq!((names("site"), names("tag")), (vec!["Graz", "Bonn"], vec!["vip", "remote"]));
    assert_eq!(kb.candidate_types(), [kb.type_id("people").unwrap()]);
    let to = |key: &str, relation: &str| -> Vec<&str> {
        let node = kb.nodes_of_key(key)[0];
        let to = kb.neighbors(node, kb.relation_id(relation).unwrap(), Direction::Out);
        to.iter().map(|&node| kb.name(node)).collect()
    };
    assert_eq!((to("E2", "has_site"), to("E1", "has_tag")), (vec!["Graz"], vec!["vip", "remote"]));
    assert!(kb.text(0).contains("- site: Graz\n"), "{}", kb.text(0));
    assert_eq!(kb.value_types().len(), 2);

    let options = GuessOptions { no_values: true, ..GuessOptions::default() };
    let report = import(&data, &guess(&data, &options).unwrap().mapping, &home).unwrap();
    assert_eq!((report.base.record.n_nodes, report.base.record.n_edges), (60, 0));
}

#[test]
fn other_columns_stay_texts() {
    let (dir, _) = home();
    let data = dir.path().join("data");
    let row = |n: usize| {
        format!(
            "{n},{},2025-01-{:02},{},\"{}\"\n",
            n % 2,
            1 + n % 2,
            n % 7,
            ["a, b", "c, d", "e, f", "g, h", "i, j", "k, l", "m, n", "o, p"][n % 8].repeat(40)
        )
    };
    let text = "id,level,day,team,note\n".to_owned() + &(0..60).map(row).collect::<String>();
    fs::write(data.join("logs.csv"), text).unwrap();
    // Numbers, dates, more than 20 values without ten rows each, long texts.
    assert!(guessed(&data).nodes[0].values.is_empty(), "{:?}", guessed(&data));
    fs::write(data.join("logs.csv"), people().lines().take(12).collect::<Vec<_>>().join("\n"))
        .unwrap();
    assert!(guessed(&data).nodes[0].values.is_empty(), "a few rows");
}

#[test]
fn columns_may_share_the_type_of_their_values() {
    let (dir, home) = home();
    let data = dir.path().join("data");
    fs::write(data.join("people.csv"), people()).unwrap();
    let devices = |n: usize| format!("D{n};{}\n", ["Graz", "Linz"][n % 2]);
    let text = "id;place\n".to_owned() + &(0..40).map(devices).collect::<String>();
    fs::write(data.join("devices.csv"), text).unwrap();
    let mut mapping = guessed(&data);
    assert_eq!(mapping.nodes[0].values["place"], "place");
    mapping.nodes[0].values.insert("place".to_owned(), "site".to_owned());
    let report = import(&data, &mapping, &home).unwrap();
    let kb = Kb::open(&report.base.kb_dir()).unwrap();
    assert_eq!(kb.nodes_of_type(kb.type_id("site").unwrap()).len(), 3);
    mapping.nodes[0].values.insert("place".to_owned(), "people".to_owned());
    let error = import(&data, &mapping, &home).unwrap_err().to_string();
    assert!(error.contains("values of \"place\" cannot be of type \"people\""), "{error}");
}

#[test]
fn a_table_is_the_same_in_every_encoding_and_as_an_array() {
    let (dir, home) = home();
    let text = "id,name,town\n1,Jürgen,Köln\n2,Ana,\n";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin: Vec<u8> = text.chars().map(|c| c as u8).collect();
    let array = "[\n  {\"id\": \"1\", \"name\": \"Jürgen\",\n   \"town\": \"Köln\"},\n  {\"id\": \"2\", \"name\": \"Ana\"}]\n";
    let mut fingerprints = Vec::new();
    let marked = [b"\xef\xbb\xbf", text.as_bytes()].concat();
    for (at, (file, bytes)) in [
        ("people.csv", text.as_bytes()),
        ("people.csv", &marked),
        ("people.csv", &utf16),
        ("people.csv", &latin),
        ("people.json", array.as_bytes()),
        ("people.jsonl", array.as_bytes()),
    ]
    .into_iter()
    .enumerate()
    {
        let data = dir.path().join(format!("data{at}"));
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join(file), bytes).unwrap();
        let report = import(&data, &guessed(&data), &home).unwrap();
        fingerprints.push(report.base.record.fingerprint);
        let said: Vec<&str> = report.repairs.iter().map(|repair| repair.kind).collect();
        assert_eq!(said, if (2..4).contains(&at) { vec!["encoding"] } else { vec![] }, "{at}");
    }
    assert!(fingerprints.iter().all(|print| *print == fingerprints[0]), "{fingerprints:#?}");
    // A given encoding overrides the detection.
    let reading = Reading { encoding: Some(Encoding::Latin1), missing: None };
    let options = GuessOptions { reading, ..GuessOptions::default() };
    let mapping = guess(&dir.path().join("data0"), &options).unwrap().mapping;
    let report = import(&dir.path().join("data0"), &mapping, &home).unwrap();
    assert_eq!(Kb::open(&report.base.kb_dir()).unwrap().name(0), "JÃ¼rgen");
}

#[test]
fn wrong_arrays_are_reported_with_their_lines() {
    let (dir, home) = home();
    let data = dir.path().join("data");
    for (text, expected) in [
        ("[{\"id\": 1},\n {\"id\": 2}", "a.json:2: the array is not closed"),
        ("[{\"id\": 1},\n {\"id\": 2,}]", "a.json:2: trailing comma"),
        ("[{\"id\": 1},\n 7]", "a.json:2: invalid type: integer `7`"),
        ("[{\"id\": 1}]\n{\"id\": 2}", "a.json:2: there is text after the end of the array"),
    ] {
        fs::write(data.join("a.json"), text).unwrap();
        let mapping = mapped("a.json");
        let error = import(&data, &mapping, &home).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected:?} is not in {error}");
    }
    fs::write(data.join("a.json"), "{\"id\": 1}").unwrap();
    let error = guess(&data, &GuessOptions::default()).unwrap_err().to_string();
    assert!(error.contains("not an array of objects"), "{error}");
}

/// Returns the mapping of one table of nodes, written by hand instead of guessed.
fn mapped(file: &str) -> Mapping {
    let text = format!("[[nodes]]\nfile = \"{file}\"\ntype = \"a\"\nid = \"id\"\n");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mapping.toml");
    fs::write(&file, text).unwrap();
    Mapping::read(&file).unwrap()
}

#[test]
fn markers_of_a_mapping_replace_the_common_ones() {
    let (dir, home) = home();
    let data = dir.path().join("data");
    fs::write(data.join("a.csv"), "id,name,town\n1,Ana,NULL\n2,Bea,?\n").unwrap();
    let mut mapping = guessed(&data);
    let towns = |mapping: &Mapping| {
        let report = import(&data, mapping, &home).unwrap();
        let kb = Kb::open(&report.base.kb_dir()).unwrap();
        let town = kb.field_id("town").unwrap();
        [0, 1].map(|node| kb.field(node, town).map(str::to_owned))
    };
    assert_eq!(towns(&mapping), [None, Some("?".to_owned())]);
    mapping.reading.missing = Some(vec!["?".to_owned()]);
    assert_eq!(towns(&mapping), [Some("NULL".to_owned()), None]);
}
