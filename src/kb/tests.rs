//! The store against naive models, petgraph and the Arrow reader, and with damaged files.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    io::{Seek, SeekFrom, Write},
    path::Path,
};

use petgraph::visit::{Bfs, EdgeCount, IntoEdgeReferences, Reversed};
use proptest::prelude::*;

use crate::{
    Direction, FieldId, Hop, Kb, KbError, KbGraph, KbMeta, KbWriter, MetapathStep, NodeId,
    Path as Way, PathBounds, RelationId, Tuple, TypeId, paths_along, shortest_paths, verify,
};

type Node = (&'static str, &'static str, Vec<(String, String)>);

fn field(name: &str, value: &str) -> (String, String) {
    (name.to_string(), value.to_string())
}

/// Three types, interleaved, with Unicode.
fn nodes() -> Vec<Node> {
    vec![
        ("paper", "Über Graphen", vec![field("year", "1987"), field("abstract", "naïve 図")]),
        ("author", "Ann", vec![]),
        ("paper", "", vec![field("abstract", "second")]),
        ("venue", "ICML", vec![field("year", "1980")]),
        ("author", "Bob", vec![]),
    ]
}

const EDGES: [(NodeId, &str, NodeId); 6] = [
    (1, "wrote", 0),
    (4, "wrote", 2),
    (0, "cites", 2),
    (2, "cites", 0),
    (0, "in", 3),
    (1, "wrote", 0),
];

fn write(
    dir: &Path,
    nodes: &[Node],
    edges: &[(NodeId, &str, NodeId)],
    candidates: &[&str],
) -> Result<(), KbError> {
    let mut writer = KbWriter::create(dir)?;
    for (node_type, name, fields) in nodes {
        writer.push_node(node_type, name, &format!("text of {name}"), fields)?;
    }
    for (source, relation, target) in edges {
        writer.push_edge(*source, relation, *target)?;
    }
    let candidate_types = candidates.iter().map(|name| name.to_string()).collect();
    let meta = KbMeta {
        title: "Tiny".into(),
        licence: "none".into(),
        candidate_types,
        ..KbMeta::default()
    };
    writer.finish(&meta, &mut |_, _| true).map(drop)
}

fn tiny() -> (tempfile::TempDir, Kb) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &nodes(), &EDGES, &["paper"]).unwrap();
    let kb = Kb::open(dir.path()).unwrap();
    (dir, kb)
}

fn shortest(kb: &Kb, from: &[NodeId], to: &[NodeId], bounds: PathBounds) -> Vec<Option<Way>> {
    let follow = &mut |_| Ok::<(), std::convert::Infallible>(());
    let Ok(found) = shortest_paths(kb, from, to, bounds, follow);
    found
}

const FAR: PathBounds = PathBounds { hops: 9, nodes: 1_000, edges: 1_000 };

fn way(from: NodeId, hops: &[(u16, Direction, NodeId)]) -> Option<Way> {
    let hop =
        |&(relation, direction, node)| Hop { relation: RelationId(relation), direction, node };
    Some(Way { from, hops: hops.iter().map(hop).collect() })
}

#[test]
fn shortest_paths_follow_edges_both_ways_within_their_bounds() {
    let (_dir, kb) = tiny();
    let (cites, within, wrote) = (0, 1, 2);
    // Ann wrote the first paper, which is in ICML and cites the one that Bob wrote.
    let found = shortest(&kb, &[1], &[4, 3, 1, 77], FAR);
    let to_bob =
        [(wrote, Direction::Out, 0), (cites, Direction::Out, 2), (wrote, Direction::In, 4)];
    let to_venue = [(wrote, Direction::Out, 0), (within, Direction::Out, 3)];
    assert_eq!(found, [way(1, &to_bob), way(1, &to_venue), way(1, &[]), None]);
    // From both authors, the nearer one; of ties the smaller id.
    assert_eq!(shortest(&kb, &[4, 1], &[3], FAR), [way(1, &to_venue)]);
    let two = PathBounds { hops: 2, ..FAR };
    assert_eq!(shortest(&kb, &[1], &[4, 3], two), [None, way(1, &to_venue)]);
    assert_eq!(shortest(&kb, &[1], &[3], PathBounds { nodes: 1, ..FAR }), [None]);
    assert_eq!(shortest(&kb, &[1], &[3], PathBounds { edges: 1, ..FAR }), [None]);
    let stopped =
        shortest_paths(&kb, &[1], &[3], FAR, &mut |n| if n > 2 { Err(n) } else { Ok(()) });
    assert_eq!(stopped, Err(5), "the paper has four edges");
    let paper = kb.type_id("paper").unwrap();
    let step =
        |relation, direction| MetapathStep { relation: RelationId(relation), direction, to: paper };
    let steps = [step(wrote, Direction::Out), step(cites, Direction::Any)];
    let along = |edges| paths_along(&kb, &[1, 4], &[2, 0, 3], &steps, edges);
    let cited = way(1, &[(wrote, Direction::Out, 0), (cites, Direction::Out, 2)]);
    let citing = way(4, &[(wrote, Direction::Out, 2), (cites, Direction::Out, 0)]);
    assert_eq!(along(100), [cited, citing, None]);
    assert_eq!(along(2), [None, None, None]);
}

proptest! {
    #[test]
    fn shortest_paths_are_as_long_as_they_must_be(
        edges in prop::collection::vec((0u32..12, 0usize..2, 0u32..12), 1..30),
        from in 0u32..12,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let nodes: Vec<Node> = (0..12).map(|_| ("thing", "", vec![])).collect();
        let edges: Vec<_> = edges.iter().map(|&(a, r, b)| (a, ["x", "y"][r], b)).collect();
        write(dir.path(), &nodes, &edges, &["thing"]).unwrap();
        let kb = Kb::open(dir.path()).unwrap();
        // Lengths by Bellman and Ford, over edges both ways.
        let mut lengths = [None::<usize>; 12];
        lengths[from as usize] = Some(0);
        for _ in 0..12 {
            for &(a, _, b) in &edges {
                for (near, end) in [(a, b), (b, a)] {
                    let known = lengths[near as usize].map(|length| length + 1);
                    let own = &mut lengths[end as usize];
                    *own = [*own, known].into_iter().flatten().min();
                }
            }
        }
        let all: Vec<NodeId> = (0..12).collect();
        for (node, found) in all.iter().zip(shortest(&kb, &[from], &all, FAR)) {
            let length = lengths[*node as usize].filter(|&length| length <= FAR.hops);
            prop_assert_eq!(found.as_ref().map(|way| way.hops.len()), length);
            let mut at = from;
            for hop in found.iter().flat_map(|way| &way.hops) {
                let neighbors = kb.neighbors(at, hop.relation, hop.direction);
                prop_assert!(neighbors.contains(&hop.node));
                at = hop.node;
            }
            prop_assert!(found.is_none() || at == *node);
        }
        // The path to a node depends neither on the other targets nor on the maximum length.
        for hops in 1..4 {
            let bounds = PathBounds { hops, ..FAR };
            let together = shortest(&kb, &[from], &all, bounds);
            for (node, way) in all.iter().zip(together) {
                prop_assert_eq!(&shortest(&kb, &[from], &[*node], bounds)[0], &way);
                let longer = shortest(&kb, &[from], &[*node], FAR).remove(0);
                prop_assert_eq!(longer.filter(|way| way.hops.len() <= hops), way);
            }
        }
    }
}

#[test]
fn a_base_gives_back_what_was_written() {
    let (_dir, kb) = tiny();
    assert_eq!((kb.n_nodes(), kb.n_edges(), kb.title()), (5, 5, "Tiny"));
    assert_eq!(kb.types(), ["author", "paper", "venue"]);
    assert_eq!(kb.relations(), ["cites", "in", "wrote"]);
    assert_eq!(kb.field_names(), ["abstract", "year"]);
    let (author, paper) = (kb.type_id("author").unwrap(), kb.type_id("paper").unwrap());
    assert_eq!((kb.type_id("Paper"), kb.relation_id("wrote")), (None, Some(RelationId(2))));
    assert_eq!((kb.node_type(0), kb.name(0), kb.text(3)), (paper, "Über Graphen", "text of ICML"));
    let (abstract_, year) = (FieldId(0), FieldId(1));
    assert_eq!(
        kb.fields(0).collect::<Vec<_>>(),
        [(year, "1987"), (abstract_, "naïve 図")],
        "fields keep the order of the input"
    );
    assert_eq!((kb.field(3, year), kb.field(3, abstract_)), (Some("1980"), None));
    assert_eq!((kb.nodes_of_type(author), kb.nodes_of_type(paper)), (&[1, 4][..], &[0, 2][..]));
    assert_eq!((kb.candidates(), kb.candidate_types()), (&[0, 2][..], &[paper][..]));
    assert!(kb.is_candidate(2) && !kb.is_candidate(1) && !kb.is_candidate(5));
    let (cites, wrote) = (RelationId(0), RelationId(2));
    assert_eq!(*kb.neighbors(0, wrote, Direction::In), [1]);
    assert!(kb.neighbors(0, wrote, Direction::Out).is_empty());
    assert_eq!(*kb.neighbors(0, cites, Direction::Any), [2], "reached both ways, counted once");
    let tuple = Tuple { source: author, relation: wrote, target: paper, edges: 2 };
    assert_eq!(kb.tuples().first(), Some(&tuple));
    assert_eq!(kb.tuples().iter().map(|tuple| tuple.edges).sum::<u64>(), kb.n_edges());
}

#[test]
fn ids_out_of_range_give_empty_values() {
    let (_dir, kb) = tiny();
    for node in [5, u32::MAX] {
        assert!(!kb.contains(node));
        assert_eq!((kb.node_type(node), kb.name(node), kb.text(node)), (TypeId::NONE, "", ""));
        assert_eq!(kb.fields(node).count(), 0);
        assert_eq!(kb.degree(node, RelationId(0), Direction::Any), 0);
    }
    assert_eq!(kb.degree(0, RelationId(9), Direction::Out), 0);
    assert!(kb.nodes_of_type(TypeId::NONE).is_empty());
    assert_eq!(kb.field(0, FieldId(9)), None);
}

#[test]
fn fingerprint_follows_content_and_nothing_else() {
    let fingerprint = |nodes: &[Node], edges: &[(NodeId, &str, NodeId)], candidates: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), nodes, edges, candidates).unwrap();
        Kb::open(dir.path()).unwrap().fingerprint().to_string()
    };
    let original = fingerprint(&nodes(), &EDGES, &["paper"]);
    let mut reversed = EDGES;
    reversed.reverse();
    assert_eq!(fingerprint(&nodes(), &reversed, &["paper"]), original);
    assert_ne!(fingerprint(&nodes(), &EDGES[..4], &["paper"]), original);
    assert_ne!(fingerprint(&nodes(), &EDGES, &["*"]), original);
    let mut changed = nodes();
    changed[3].2[0].1 = "1981".to_string();
    assert_ne!(fingerprint(&changed, &EDGES, &["paper"]), original);
}

#[test]
fn a_base_without_fields_or_edges_opens() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("a", "x", vec![])], &[], &[]).unwrap();
    let kb = Kb::open(dir.path()).unwrap();
    assert_eq!((kb.n_edges(), kb.candidates(), kb.fields(0).count()), (0, &[0][..], 0));
    verify(dir.path(), &mut |_| {}).unwrap();
}

#[test]
fn wrong_input_to_the_writer_is_named() {
    let message = |nodes: &[Node], edges: &[(NodeId, &str, NodeId)], candidates: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), nodes, edges, candidates).unwrap_err().to_string()
    };
    assert_eq!(message(&[], &[], &[]), "the base has no nodes; add at least one");
    assert_eq!(
        message(&nodes(), &[(0, "cites", 5)], &[]),
        "edge 0 -> 5 refers to a node outside 0..5; add the node first"
    );
    assert_eq!(
        message(&nodes(), &EDGES, &["papers"]),
        "candidate type \"papers\" is not a node type; \
         use some of: author, paper, venue, or \"*\" for all"
    );
    assert_eq!(
        message(&nodes(), &[(0, "", 1)], &[]),
        "relation name of 0 bytes; use 1 to 1024 bytes"
    );
}

#[test]
fn more_labels_than_ids_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = KbWriter::create(dir.path()).unwrap();
    writer.push_node("a", "", "", &[]).unwrap();
    for id in 0..u16::MAX {
        writer.push_edge(0, &format!("r{id}"), 0).unwrap();
    }
    let error = writer.push_edge(0, "one more", 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "more than 65535 relations; split the base or merge rare relations"
    );
    // The maximum number of relations fits; each takes memory for its own rows only.
    writer.finish(&KbMeta::default(), &mut |_, _| true).unwrap();
    let kb = Kb::open(dir.path()).unwrap();
    let last = kb.relation_id("r65534").unwrap();
    assert_eq!(*kb.neighbors(0, last, Direction::Out), [0]);
}

#[test]
fn the_arrow_reader_opens_the_tables() {
    let (dir, _kb) = tiny();
    for (file, columns, rows) in [("nodes.arrow", 4, 5), ("fields.arrow", 3, 4)] {
        let file = fs::File::open(dir.path().join(file)).unwrap();
        let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
        assert_eq!(reader.schema().fields().len(), columns);
        assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), rows);
    }
}

#[test]
fn rows_are_found_across_batches() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = KbWriter::create(dir.path()).unwrap();
    let n_nodes = 150_000u32;
    for node in 0..n_nodes {
        let fields = [field("even", &(node * 2).to_string())];
        writer.push_node("a", &node.to_string(), "", &fields).unwrap();
    }
    writer.finish(&KbMeta::default(), &mut |_, _| true).unwrap();
    let kb = Kb::open(dir.path()).unwrap();
    for node in (0..n_nodes).step_by(7).chain([65_535, 65_536, 131_071, 131_072, n_nodes - 1]) {
        assert_eq!(kb.name(node), node.to_string());
        assert_eq!(kb.field(node, FieldId(0)), Some((node * 2).to_string().as_str()));
    }
}

#[test]
fn petgraph_algorithms_run_over_a_base() {
    let (_dir, kb) = tiny();
    let all = KbGraph::new(&kb, None);
    let mut order = Vec::new();
    let mut bfs = Bfs::new(all, 1);
    while let Some(node) = bfs.next(all) {
        order.push(node);
    }
    assert_eq!(order, [1, 0, 2, 3]);
    let hops: BTreeMap<NodeId, u32> =
        petgraph::algo::dijkstra(all, 4, None, |_| 1u32).into_iter().collect();
    assert_eq!(hops, BTreeMap::from([(4, 0), (2, 1), (0, 2), (3, 3)]));
    let mut back = Bfs::new(Reversed(all), 3);
    assert_eq!(std::iter::from_fn(|| back.next(Reversed(all))).count(), 5);
    assert_eq!((all.edge_count(), all.edge_references().count()), (5, 5));
    let cites = KbGraph::new(&kb, kb.relation_id("cites"));
    assert_eq!(petgraph::algo::tarjan_scc(cites).len(), 4, "0 and 2 cite each other");
    assert_eq!(petgraph::algo::connected_components(all), 1);
}

/// Calls every method of a base; must not panic on any bytes.
fn exercise(kb: &Kb) -> usize {
    let mut seen = 0;
    for node in (0..kb.n_nodes()).chain([u32::MAX]) {
        seen += kb.name(node).len() + kb.text(node).len() + usize::from(kb.node_type(node).0);
        seen += usize::from(kb.is_candidate(node));
        seen += kb.fields(node).map(|(_, value)| value.len()).sum::<usize>();
        for relation in 0..=kb.relations().len() as u16 {
            for direction in [Direction::Out, Direction::In, Direction::Any] {
                seen += kb.neighbors(node, RelationId(relation), direction).len();
            }
        }
    }
    for type_id in 0..=kb.types().len() as u16 {
        seen += kb.nodes_of_type(TypeId(type_id)).len();
    }
    let graph = KbGraph::new(kb, None);
    seen += petgraph::algo::dijkstra(graph, 0, None, |_| 1u32).len();
    seen + kb.candidates().len()
}

#[test]
fn damaged_files_give_an_error_or_safe_answers() {
    let (dir, kb) = tiny();
    exercise(&kb);
    drop(kb);
    for file in ["manifest.json", "nodes.arrow", "fields.arrow", "graph.bin"] {
        let path = dir.path().join(file);
        let intact = fs::read(&path).unwrap();
        for length in [0, 1, 7, intact.len() / 2, intact.len() - 1] {
            fs::write(&path, &intact[..length]).unwrap();
            let error = Kb::open(dir.path()).unwrap_err().to_string();
            assert!(error.contains(file) && error.contains("import the dataset again"), "{error}");
        }
        fs::write(&path, &intact).unwrap();
        let mut noticed = 0;
        let mut open_file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let mut poke = |at: usize, byte: u8| {
            open_file.seek(SeekFrom::Start(at as u64)).unwrap();
            open_file.write_all(&[byte]).unwrap();
        };
        for (at, byte) in intact.iter().enumerate() {
            for mask in [0x01, 0x80, 0xff] {
                poke(at, byte ^ mask);
                match Kb::open(dir.path()) {
                    Ok(kb) => drop(exercise(&kb)),
                    Err(_) => noticed += 1,
                }
            }
            if at % 97 == 0 {
                let error = verify(dir.path(), &mut |_| {}).unwrap_err();
                assert!(
                    matches!(error, KbError::Damaged { .. } | KbError::Version { .. }),
                    "{error}"
                );
            }
            poke(at, *byte);
        }
        assert!(noticed > 0, "{file}");
        if file == "manifest.json" {
            assert_eq!(noticed, 3 * intact.len(), "its checksum covers every byte");
        }
        fs::remove_file(&path).unwrap();
        assert!(Kb::open(dir.path()).is_err());
        fs::write(&path, &intact).unwrap();
    }
    verify(dir.path(), &mut |_| {}).unwrap();
}

#[test]
fn another_format_is_refused_by_name() {
    let (dir, kb) = tiny();
    drop(kb);
    let path = dir.path().join("manifest.json");
    fs::write(&path, "{\"format_version\": 2, \"more\": []}").unwrap();
    let error = Kb::open(dir.path()).unwrap_err().to_string();
    assert!(
        error.ends_with("has format 2, but this program reads format 1; import the dataset again")
    );
    fs::remove_file(&path).unwrap();
    assert!(matches!(Kb::open(dir.path()), Err(KbError::NotABase { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn adjacency_agrees_with_a_naive_map(
        n_nodes in 1u32..40,
        edges in prop::collection::vec((0u32..40, 0usize..3, 0u32..40), 0..200),
    ) {
        let names = ["r0", "r1", "r2"];
        let edges: Vec<_> =
            edges.into_iter().map(|(s, r, t)| (s % n_nodes, names[r], t % n_nodes)).collect();
        let nodes: Vec<Node> = (0..n_nodes).map(|_| ("a", "", vec![])).collect();
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &nodes, &edges, &[]).unwrap();
        let kb = Kb::open(dir.path()).unwrap();

        let mut naive: HashMap<(u32, &str, bool), BTreeSet<u32>> = HashMap::new();
        for (source, relation, target) in &edges {
            naive.entry((*source, relation, true)).or_default().insert(*target);
            naive.entry((*target, relation, false)).or_default().insert(*source);
        }
        let distinct: BTreeSet<_> = edges.iter().collect();
        prop_assert_eq!(kb.n_edges(), distinct.len() as u64);
        for name in names {
            let Some(relation) = kb.relation_id(name) else {
                prop_assert!(edges.iter().all(|edge| edge.1 != name));
                continue;
            };
            for node in 0..n_nodes {
                let set = |out| naive.get(&(node, name, out)).cloned().unwrap_or_default();
                let both: BTreeSet<u32> = set(true).union(&set(false)).copied().collect();
                for (direction, expected) in [
                    (Direction::Out, set(true)),
                    (Direction::In, set(false)),
                    (Direction::Any, both),
                ] {
                    let expected: Vec<u32> = expected.into_iter().collect();
                    prop_assert_eq!(kb.neighbors(node, relation, direction).into_owned(), expected);
                }
            }
        }
    }
}
