//! The optional parts over a small base: against plain search, on one thread and on two, and with
//! damaged files.

use std::{fs, path::PathBuf, sync::atomic::AtomicBool};

use tempfile::TempDir;

use super::*;
use crate::{
    IndexError,
    chunks::chunks_of,
    vectors::{Precision, VectorWriter},
};
use agent_embed::{
    Corpus, LsaEmbedder, LsaParams, Matrix,
    matrix::{dot, normalise},
};
use agent_kb::{KbMeta, KbWriter, NodeId, best};

const N_NODES: u32 = 450;
const DIM: usize = 16;

/// A base of two types with the vectors of its documents; nodes of one type are candidates.
struct World {
    dir: TempDir,
    kb: Kb,
    vectors: VectorIndex,
    embedder: LsaEmbedder,
    colbert: ColbertEncoder,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let kb_dir = dir.path().join("kb");
        let mut writer = KbWriter::create(&kb_dir).unwrap();
        for node in 0..N_NODES as usize {
            let words =
                (0..8 + node % 40).map(|at| format!("w{} ", (node * (at + 7) + at * at) % 211));
            // A few documents without a word that the embedder knows.
            let text = if node % 100 == 99 { String::new() } else { words.collect() };
            let node_type = if node % 3 == 0 { "other" } else { "wanted" };
            let part = text.split(' ').take(3).collect::<Vec<_>>().join(" ");
            let fields = [("part".to_owned(), part)];
            let fields = &fields[..usize::from(node % 2 == 0)];
            writer.push_node(node_type, &format!("node {node}"), &text, fields).unwrap();
        }
        let candidate_types = vec!["wanted".to_owned()];
        let meta = KbMeta {
            title: "t".into(),
            licence: "none".into(),
            candidate_types,
            ..KbMeta::default()
        };
        writer.finish(&meta, &mut |_, _| true).unwrap();
        let kb = Kb::open(&kb_dir).unwrap();
        let text = |node: usize| kb.text(node as NodeId);
        let corpus = Corpus { n_documents: N_NODES as usize, text: &text };
        let params = LsaParams { dim: DIM, ..LsaParams::default() };
        let embedder =
            LsaEmbedder::train(corpus, &params, &mut |_| std::ops::ControlFlow::Continue(()))
                .unwrap();
        let path = dir.path().join("vectors");
        let mut writer = VectorWriter::create(&path, DIM, Precision::F32, "").unwrap();
        let texts: Vec<&str> = (0..N_NODES).map(|node| kb.text(node)).collect();
        writer.append(&embedder.embed_documents(&texts).unwrap()).unwrap();
        writer.finish().unwrap();
        let tests = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data"));
        let colbert = ColbertEncoder::open(&tests.join("colbert")).unwrap();
        World { dir, vectors: VectorIndex::open(&path).unwrap(), kb, embedder, colbert }
    }

    /// Builds a part on `threads` threads; returns its directory.
    fn build(&self, part: Part, threads: usize) -> PathBuf {
        let dir = self.dir.path().join(format!("{part}{threads}"));
        fs::create_dir(&dir).unwrap();
        let of = Materials {
            kb: &self.kb,
            vectors: &self.vectors,
            embedder: &self.embedder,
            colbert: Some(&self.colbert),
            previous: None,
        };
        let (report, stop) = (|_| {}, AtomicBool::new(false));
        let watch = Watch { report: &report, stop: &stop };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| build(part, &of, &watch, &dir)).unwrap();
        dir
    }

    fn query(&self) -> Vec<f32> {
        self.embedder.embed_query("w7 w13 w40 w41").unwrap()
    }
}

/// Every file of a directory.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort_unstable();
    files
}

#[test]
fn one_thread_and_two_build_the_same_bytes() {
    let world = World::new();
    // The names of tantivy's files are random.
    for part in Part::ALL.into_iter().filter(|&part| part != Part::Query) {
        let bytes = |threads| {
            let files = files(&world.build(part, threads));
            files.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>()
        };
        assert!(bytes(1) == bytes(2), "{part}");
    }
}

#[test]
fn the_graph_finds_nearly_all_that_plain_search_finds() {
    let world = World::new();
    let dir = world.build(Part::Ann, 2);
    let index = AnnIndex::open(&dir).unwrap();
    assert!(index.describe().contains("recall@100 1.000 on"), "{}", index.describe());
    let plain = world.vectors.top_k(&world.query(), 50, Some(world.kb.candidates())).unwrap();
    let found = index.search(&world.vectors, &world.query(), 50).unwrap();
    assert_eq!(found, plain);
}

#[test]
fn pieces_score_as_their_texts_do() {
    let world = World::new();
    let index = ChunkIndex::open(&world.build(Part::Multi, 2)).unwrap();
    let query = world.query();
    let plain: Vec<(NodeId, f32)> = world
        .kb
        .candidates()
        .iter()
        .filter_map(|&node| {
            let rows = world.embedder.embed_documents(&chunks_of(world.kb.text(node))).unwrap();
            let scores = (0..rows.rows()).map(|row| dot(rows.row(row).unwrap(), &query));
            let found = index.scores(&query, node).unwrap();
            assert_eq!(found.len(), rows.rows());
            // Vectors are stored in half precision.
            assert!(scores.clone().zip(found).all(|(a, b)| (a - b).abs() < 2e-3));
            Some((node, scores.reduce(f32::max)?))
        })
        .collect();
    let near = index.nodes_near(&query, 40).unwrap();
    assert!(near.len() > 10 && near.is_sorted_by(|a, b| a < b));
    let found = best(plain, 10).iter().filter(|pair| near.contains(&pair.0)).count();
    assert_eq!(found, 10);
}

#[test]
fn a_field_scores_as_its_text_does() {
    let world = World::new();
    let index = FieldVectors::open(&world.build(Part::FieldVectors, 2)).unwrap();
    let table = index.table();
    assert_eq!((table.len(), table.name(0), table.name(1)), (2, "part", "name"));
    let (query, kb) = (world.query(), &world.kb);
    let part = |node: NodeId| kb.fields(node).next().map_or("", |pair| pair.1);
    let has_part = |node: &NodeId| !part(*node).is_empty();
    let nodes: Vec<NodeId> = kb.candidates().iter().copied().filter(has_part).collect();
    let found = index.scores(0, &query).unwrap();
    assert_eq!(found.iter().map(|pair| pair.0).collect::<Vec<_>>(), nodes);
    assert!(found.iter().any(|pair| pair.1 > 0.1));
    for (node, score) in found {
        let row = world.embedder.embed_documents(&[part(node)]).unwrap();
        // Vectors are stored in half precision.
        assert!((dot(row.row(0).unwrap(), &query) - score).abs() < 2e-3);
    }
}

#[test]
fn late_interaction_is_close_to_that_over_whole_vectors() {
    let world = World::new();
    let index = LateIndex::open(&world.build(Part::Late, 2)).unwrap();
    let query: Matrix = world.embedder.embed_tokens(&["w7 w13 w40 w41"]).unwrap().remove(0);
    assert_eq!(query.rows(), 4);
    let exact = |node: NodeId| {
        let rows = world.embedder.embed_tokens(&[world.kb.text(node)]).unwrap().remove(0);
        let mut rows = rows.into_data();
        rows.chunks_exact_mut(DIM).for_each(|row| {
            normalise(row);
        });
        let best = |row: usize| {
            let scores = rows.chunks_exact(DIM).map(|token| dot(token, query.row(row).unwrap()));
            scores.reduce(f32::max)
        };
        (0..4).map(best).sum::<Option<f32>>().map(|score| (node, score))
    };
    let nodes = world.kb.candidates();
    let plain = best(nodes.iter().filter_map(|&node| exact(node)).collect(), 1_000);
    let found = index.rank(&query, nodes, 1_000);
    assert_eq!(found.len(), plain.len(), "documents without tokens have no score");
    let weight: f32 =
        (0..4).map(|row| dot(query.row(row).unwrap(), query.row(row).unwrap()).sqrt()).sum();
    for (node, score) in &plain {
        let near = found.iter().find(|pair| pair.0 == *node).unwrap().1;
        assert!((near - score).abs() < 0.1 * weight, "{node}: {near} {score}");
    }
    let top =
        |ranking: &[(NodeId, f32)]| ranking[..20].iter().map(|pair| pair.0).collect::<Vec<_>>();
    let same = top(&found).iter().filter(|node| top(&plain).contains(node)).count();
    assert!(same >= 15, "{same}");
    let pairs = index.pairs(&query, found[0].0);
    assert_eq!(pairs.iter().map(|pair| pair.score).sum::<f32>(), found[0].1);
}

#[test]
fn probing_all_centroids_finds_what_comparing_all_documents_finds() {
    let world = World::new();
    let index = LateIndex::open(&world.build(Part::Colbert, 2)).unwrap();
    assert!(index.is_of(&world.colbert), "{}", index.describe());
    let probes = [1, 8, usize::MAX];
    let mut recalled = [0; 3];
    for text in ["w7 w13", "the node of w40 w41 w200", "steel dart w19!"] {
        let query = world.colbert.embed_query(text).unwrap();
        let all = index.rank(&query, world.kb.candidates(), 1_000);
        assert_eq!(all.len(), world.kb.candidates().len() - 2, "empty documents have no score");
        assert_eq!(index.search(&query, usize::MAX, 1_000), all);
        assert_eq!(index.search(&query, usize::MAX, 5), all[..5]);
        for (recalled, &n) in recalled.iter_mut().zip(&probes) {
            let probed = index.search(&query, n, 10);
            assert!(probed.iter().all(|pair| all.contains(pair)));
            *recalled += probed.iter().filter(|pair| all[..10].contains(pair)).count();
        }
        // The codes are close to the vectors themselves.
        for &(node, score) in &all[..20] {
            let rows = world.colbert.embed_documents(&[world.kb.text(node)]).unwrap().remove(0);
            let best = |token: &[f32]| {
                rows.data().chunks_exact(rows.dim()).map(|row| dot(token, row)).fold(-1.0, f32::max)
            };
            let exact: f32 = query.data().chunks_exact(query.dim()).map(best).sum();
            assert!((exact - score).abs() < 0.1 * query.rows() as f32, "{exact} {score}");
        }
    }
    // The weights are random, so the nearest centroids find few of the best documents.
    assert!(recalled[0] >= 5 && recalled.is_sorted() && recalled[2] == 30, "{recalled:?}");
}

#[test]
fn damage_is_noticed_and_leads_nowhere() {
    let world = World::new();
    let query = world.query();
    let tokens: Matrix = world.embedder.embed_tokens(&["w7 w13"]).unwrap().remove(0);
    for part in Part::ALL {
        let dir = world.build(part, 2);
        for (path, good) in files(&dir) {
            let use_it = |reading: bool| -> Result<(), IndexError> {
                if reading {
                    verify(part, &dir)?;
                }
                match part {
                    Part::Ann => drop(AnnIndex::open(&dir)?.search(&world.vectors, &query, 10)?),
                    Part::Multi => {
                        let index = ChunkIndex::open(&dir)?;
                        for node in index.nodes_near(&query, 10)? {
                            index.scores(&query, node)?;
                        }
                    }
                    Part::Late => {
                        drop(LateIndex::open(&dir)?.rank(&tokens, world.kb.candidates(), 10));
                    }
                    Part::Colbert => {
                        let query = world.colbert.embed_query("w7 w13").unwrap();
                        drop(LateIndex::open(&dir)?.search(&query, 2, 10));
                    }
                    Part::Fields => {
                        let index = FieldIndex::open(&dir)?;
                        (0..index.table().len())
                            .for_each(|at| drop(index.search(at, "node w7 w13", 10)));
                    }
                    Part::FieldVectors => {
                        let index = FieldVectors::open(&dir)?;
                        for field in 0..index.table().len() {
                            index.scores(field, &query)?;
                        }
                    }
                    // Tantivy reads its files without checks.
                    Part::Query => {}
                }
                Ok(())
            };
            use_it(true).unwrap();
            for end in [0, 7, 100, good.len() / 2, good.len() - 1] {
                fs::write(&path, &good[..end]).unwrap();
                assert!(use_it(true).is_err(), "{part}: {end} bytes");
            }
            for at in (0..good.len()).step_by(good.len() / 23) {
                let mut bad = good.clone();
                bad[at..good.len().min(at + 9)].iter_mut().for_each(|byte| *byte ^= 0xa5);
                fs::write(&path, &bad).unwrap();
                let _ = use_it(false);
                assert!(use_it(true).is_err(), "{part}: byte {at}");
            }
            fs::write(&path, &good).unwrap();
        }
    }
}
