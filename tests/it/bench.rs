//! What `bench` says of its results; its times are not checked.

use std::fs;

use sha2::{Digest, Sha256};

use crate::support::World;

#[test]
fn figures_tell_what_was_found() {
    let world = World::indexed();
    let work = world.path("work.tsv");
    let with = |kind, text: &str| {
        fs::write(&work, text).unwrap();
        world.run(["bench", kind, "tiny", "--json", "--work", &work.display().to_string()])
    };

    // The lists [4] and [].
    let lists: Vec<u8> = [1u32, 4, 0].into_iter().flat_map(u32::to_le_bytes).collect();
    let digest = |bytes: &[u8]| -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let of_lists = digest(&lists);
    let lines = with("neighbors", "0\thas_brand\n4\thas_brand\n").json_lines();
    let works: Vec<&str> = lines.iter().map(|line| line["work"].as_str().unwrap()).collect();
    assert_eq!(works, ["neighbors_typed", "neighbors_list", "neighbors_any"]);
    for line in &lines {
        assert_eq!(
            (&line["digest"], &line["mean_ids"], &line["n"]),
            (&of_lists.clone().into(), &0.5.into(), &2.into())
        );
    }

    let found = &with("metrics", "3 0 1\t0 2\n").json_lines()[0];
    assert_eq!(
        (&found["mrr"], &found["hit@1"], &found["recall@20"]),
        (&0.5.into(), &0.0.into(), &1.0.into())
    );

    let lines = with("program", "steel has_brand\t4\n").json_lines();
    let found: Vec<_> = lines.iter().map(|line| (&line["work"], &line["digest"])).collect();
    let (none, one) = (digest(&[0; 4]).into(), digest(&lists[..8]).into());
    let expected = [
        ("compile", &serde_json::Value::Null),
        ("empty", &none),
        ("relations", &one),
        ("text", &one),
        ("mixed", &one),
    ];
    let expected = expected.map(|(kind, digest)| (format!("program_{kind}").into(), digest));
    assert_eq!(found, expected.each_ref().map(|(work, digest)| (work, *digest)));

    for (kind, text) in [
        ("neighbors", "0\n"),
        ("hop2", "0\thas_brand\tunknown\n"),
        ("metrics", "1 x\t2\n"),
        ("program", "steel\n"),
    ] {
        with(kind, text).fails(1, &["work.tsv:1: unknown relation, wrong id or wrong columns"]);
    }
}

#[test]
fn documents_of_the_benchmark_are_rendered_with_relations_too() {
    let world = World::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stark/prime");
    for (name, source) in [("tiny", world.source().as_str()), ("prime", source)] {
        let format = if name == "tiny" { "neutral" } else { "stark" };
        let import = ["data", "import", "--name", name, "--from", source, "--format", format];
        world.run(import).done();
    }
    let bench = |name| {
        let lines = world.run(["bench", "documents", name, "--json"]).json_lines();
        let found = |line: &serde_json::Value| {
            (line["work"].as_str().unwrap().to_owned(), line["mean_bytes"].as_f64().unwrap())
        };
        lines.iter().map(found).collect::<Vec<_>>()
    };
    let [(work, bytes)] = &bench("tiny")[..] else { panic!("one line") };
    assert!(work == "documents" && *bytes > 0.0);
    let [plain, relations, compact] = &bench("prime")[..] else { panic!("three lines") };
    assert_eq!(relations.0, "documents_relations");
    assert!(
        plain.1 < relations.1 && compact.1 < relations.1,
        "{plain:?} {relations:?} {compact:?}"
    );
}
