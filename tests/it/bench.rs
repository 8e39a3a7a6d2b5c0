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
    let digest: String = Sha256::digest(&lists).iter().map(|byte| format!("{byte:02x}")).collect();
    let lines = with("neighbors", "0\thas_brand\n4\thas_brand\n").json_lines();
    let works: Vec<&str> = lines.iter().map(|line| line["work"].as_str().unwrap()).collect();
    assert_eq!(works, ["neighbors_typed", "neighbors_list", "neighbors_any"]);
    for line in &lines {
        assert_eq!(
            (&line["digest"], &line["mean_ids"], &line["n"]),
            (&digest.clone().into(), &0.5.into(), &2.into())
        );
    }

    let found = &with("metrics", "3 0 1\t0 2\n").json_lines()[0];
    assert_eq!(
        (&found["mrr"], &found["hit@1"], &found["recall@20"]),
        (&0.5.into(), &0.0.into(), &1.0.into())
    );

    for (kind, text) in
        [("neighbors", "0\n"), ("hop2", "0\thas_brand\tunknown\n"), ("metrics", "1 x\t2\n")]
    {
        with(kind, text).fails(1, &["work.tsv:1: unknown relation, wrong id or wrong columns"]);
    }
}
