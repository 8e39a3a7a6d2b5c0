//! Queries over a small base, against a scan of all nodes, and wrong ones.

use std::sync::{LazyLock, atomic::AtomicBool};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::kb::{KbMeta, KbWriter};

const N_NODES: u32 = 240;
/// Words of all texts: some differ in one letter, some begin alike.
const VOCABULARY: [&str; 16] = [
    "steel", "steal", "stele", "steels", "bottle", "bottles", "battle", "cap", "caps", "cape",
    "éclair", "red", "read", "bread", "tree", "three",
];

struct World {
    _dir: TempDir,
    kb: Kb,
    index: QueryIndex,
}

/// Words from a number, a few of them.
fn words(seed: u32, n: u32) -> String {
    let word = |at| VOCABULARY[((seed * 31 + at * (seed % 7 + 3) + at * at * 5) % 16) as usize];
    (0..n).map(word).collect::<Vec<_>>().join(" ")
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = KbWriter::create(&dir.path().join("kb")).unwrap();
    for at in 0..N_NODES {
        let title = words(at * 3 + 1, 2 + at % 5);
        let price = match at % 3 {
            0 => format!("{}", (at * 7 % 50) as f64 / 2.0 - 3.0),
            1 => format!("{}", at % 20),
            _ => "on request".to_owned(),
        };
        let fields = [("title".to_owned(), title.clone()), ("price".to_owned(), price)];
        let node_type = if at % 2 == 0 { "product" } else { "brand" };
        let text = format!("- title: {title}\n- note: {}\n", words(at, at % 9));
        writer.push_node(node_type, &words(at, 2), &text, &fields).unwrap();
    }
    for at in 0..N_NODES {
        for near in 0..at % 4 {
            writer.push_edge(at, "near", (at * 5 + near * 17 + 1) % N_NODES).unwrap();
        }
    }
    let meta = KbMeta { title: "t".into(), licence: "none".into(), candidate_types: vec![] };
    writer.finish(&meta, &mut |_, _| true).unwrap();
    let kb = Kb::open(&dir.path().join("kb")).unwrap();
    let (parts, stop) = (dir.path().join("query"), AtomicBool::new(false));
    fs::create_dir(&parts).unwrap();
    build(&kb, &Watch { report: &|_| {}, stop: &stop }, &parts).unwrap();
    let index = QueryIndex::open(&parts).unwrap();
    index.verify().unwrap();
    World { _dir: dir, kb, index }
});

/// What one part of a query wants.
#[derive(Clone, Debug)]
enum Want {
    Phrase { field: &'static str, words: Vec<&'static str>, slop: u32 },
    Prefix { field: &'static str, word: String },
    Typos { field: &'static str, word: &'static str, typos: usize },
    Range { low: i32, high: i32, closed: bool },
}

/// The folded words of a node's texts with their places; those of two texts are not next to one
/// another.
fn places(kb: &Kb, node: NodeId, field: &str) -> Vec<Vec<(u32, String)>> {
    let texts = |texts: Vec<&str>| {
        let (mut found, mut start) = (Vec::new(), 0);
        for text in texts {
            let words: Vec<(u32, String)> =
                (start..).zip(name_words(text).map(|pair| pair.1.into_owned())).collect();
            start += words.len() as u32 + 1;
            found.extend(words);
        }
        found
    };
    let near = |name| {
        let relation = kb.relation_id(name).unwrap();
        let names = kb.neighbors(node, relation, Direction::Any);
        names.iter().map(|&near| kb.name(near)).collect()
    };
    match field {
        "" => vec![texts(vec![kb.name(node)]), texts(vec![kb.text(node)])],
        "name" => vec![texts(vec![kb.name(node)])],
        "near" => vec![texts(near("near"))],
        _ => vec![texts(kb.field(node, kb.field_id(field).unwrap()).into_iter().collect())],
    }
}

impl Want {
    fn written(&self) -> String {
        let at = |field: &str| if field.is_empty() { String::new() } else { format!("{field}:") };
        match self {
            Want::Phrase { field, words, slop } => {
                let slop = if *slop > 0 { format!("~{slop}") } else { String::new() };
                format!("{}\"{}\"{slop}", at(field), words.join(" "))
            }
            Want::Prefix { field, word } => format!("{}{word}*", at(field)),
            Want::Typos { field, word, typos } => format!("{}{word}~{typos}", at(field)),
            Want::Range { low, high, closed: true } => format!("price:[{low} TO {high}]"),
            Want::Range { low, high, closed: false } => format!("price:{{{low} TO {high}}}"),
        }
    }

    fn fits(&self, kb: &Kb, node: NodeId) -> bool {
        let any = |field, fits: &dyn Fn(&str) -> bool| {
            places(kb, node, field).iter().flatten().any(|(_, word)| fits(word))
        };
        match self {
            Want::Phrase { field, words, slop } => {
                let words: Vec<String> =
                    words.iter().map(|word| name_words(word).next().unwrap().1.into()).collect();
                places(kb, node, field).iter().any(|text| {
                    let starts = text.iter().filter(|(_, word)| *word == words[0]);
                    starts.clone().any(|&(start, _)| {
                        (1..).zip(&words[1..]).all(|(at, wanted)| {
                            text.iter().any(|(place, word)| {
                                word == wanted && place.abs_diff(start + at) <= *slop
                            })
                        })
                    })
                })
            }
            Want::Prefix { field, word } => any(*field, &|other| other.starts_with(word)),
            Want::Typos { field, word, typos } => {
                let word = name_words(word).next().unwrap().1;
                any(*field, &|other| strsim::osa_distance(&word, other) <= *typos)
            }
            Want::Range { low, high, closed } => {
                let price = kb.field(node, kb.field_id("price").unwrap()).and_then(number);
                let (low, high) = (f64::from(*low), f64::from(*high));
                price.is_some_and(|price| match closed {
                    true => low <= price && price <= high,
                    false => low < price && price < high,
                })
            }
        }
    }
}

fn want() -> impl Strategy<Value = Want> {
    let field = || prop::sample::select(vec!["", "name", "title", "near"]);
    let word = || prop::sample::select(VOCABULARY.to_vec());
    prop_oneof![
        (field(), prop::sample::subsequence(VOCABULARY.to_vec(), 1..=3).prop_shuffle())
            .prop_map(|(field, words)| Want::Phrase { field, words, slop: 0 }),
        // More words move one another: tantivy's slop is a budget of all.
        (field(), prop::sample::subsequence(VOCABULARY.to_vec(), 2).prop_shuffle(), 1u32..4)
            .prop_map(|(field, words, slop)| Want::Phrase { field, words, slop }),
        (field(), word(), 1usize..4).prop_map(|(field, word, n)| Want::Prefix {
            field,
            word: name_words(word).next().unwrap().1.chars().take(n).collect(),
        }),
        (field(), word(), 0usize..=2).prop_map(|(field, word, typos)| Want::Typos {
            field,
            word,
            typos
        }),
        (-5i32..20, 0i32..15, any::<bool>()).prop_map(|(low, more, closed)| Want::Range {
            low,
            high: low + more,
            closed
        }),
    ]
}

fn found(query: &str) -> Vec<NodeId> {
    let world = &*WORLD;
    let ranking = world.index.search(&world.kb, query, &[], 1_000).unwrap();
    assert!(ranking.is_sorted_by(|a, b| (b.1, a.0) <= (a.1, b.0)), "{query}: {ranking:?}");
    let mut nodes: Vec<NodeId> = ranking.into_iter().map(|pair| pair.0).collect();
    nodes.sort_unstable();
    nodes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_query_finds_what_a_scan_finds(
        must in prop::collection::vec(want(), 0..3),
        may in prop::collection::vec(want(), 0..3),
        not in prop::collection::vec(want(), 0..2),
    ) {
        let signed = |sign: &str, of: &[Want]| -> Vec<String> {
            of.iter().map(|want| format!("{sign}{}", want.written())).collect()
        };
        let query = [signed("+", &must), signed("", &may), signed("-", &not)].concat().join(" ");
        prop_assume!(!query.is_empty());
        let fits = |node: &NodeId| {
            let fits = |want: &Want| want.fits(&WORLD.kb, *node);
            let wanted = match (must.is_empty(), may.is_empty()) {
                (true, true) => true,
                (true, false) => may.iter().any(fits),
                (false, _) => must.iter().all(fits),
            };
            wanted && !not.iter().any(fits)
        };
        let expected: Vec<NodeId> = (0..N_NODES).filter(fits).collect();
        prop_assert_eq!(found(&query), expected, "{}", query);
    }
}

#[test]
fn the_language_has_groups_sets_and_open_ranges() {
    let all: Vec<NodeId> = (0..N_NODES).collect();
    assert_eq!(found("*"), all);
    let products: Vec<NodeId> = (0..N_NODES).step_by(2).collect();
    assert_eq!(found("type:product"), products);
    assert_eq!(found("type: IN [product brand]"), all);
    assert_eq!(found("title:steel AND (type:product OR NOT type:product)"), found("title:steel"));
    assert_eq!(found("price:[0 TO *]"), found("price:>=0"));
    assert_eq!(found("fields.title:steel"), found("title:steel"));
    assert_eq!(found("rel.near:steel"), found("near:steel"));
    assert_eq!(found("ECLAIR"), found("éclair"));
    let has_number: Vec<NodeId> = (0..N_NODES).filter(|at| at % 3 < 2).collect();
    assert_eq!(found("price:[* TO *]"), has_number);
    assert!(found("\"steel bottle\"").len() < found("\"steel bottle\"~3").len());
    let world = &*WORLD;
    let best = world.index.search(&world.kb, "steel bottle^3", &[], 5).unwrap();
    assert_eq!(best, world.index.search(&world.kb, "steel bottle^3", &[], 9).unwrap()[..5]);
    assert_eq!(world.index.search(&world.kb, "steel", &[], 0).unwrap(), []);
}

#[test]
fn wrong_queries_say_where_and_what_to_do() {
    let world = &*WORLD;
    for (query, at, told) in [
        ("", 1, "nothing is asked"),
        ("steel titel:cap", 7, "no field or relation \"titel\"; did you mean title?"),
        ("éé colour:red", 4, "there are type, name, body, price, title, near"),
        ("price:[a TO 5]", 8, "\"a\" is no number"),
        ("title:[1 TO \"x\"]", 12, ""),
        ("near:[1 TO 5]", 1, "ranges are of fields that are numbers"),
        ("cap~9", 1, "typos are 0 to 2"),
        ("title:*", 1, "whether a field is there is not indexed"),
        ("/ca.*/", 2, "patterns are not searched"),
        ("title:!!", 7, "has no word"),
        ("(steel", 7, "close quotes and brackets"),
        ("\"steel bottle", 14, "close quotes and brackets"),
    ] {
        match world.index.search(&world.kb, query, &[], 5) {
            Err(QueryError::Wrong { at: found, what }) => {
                assert!(what.contains(told), "{query}: {what}");
                assert!(told.is_empty() || found == at, "{query}: {found} {what}");
            }
            other => panic!("{query}: {other:?}"),
        }
    }
    let deep = format!("{}steel{}", "(".repeat(17), ")".repeat(17));
    let long = "steel ".repeat(1_000);
    for (query, told) in [(deep, "more than 16 parentheses"), (long, "at most 4096")] {
        let error = world.index.search(&world.kb, &query, &[], 5).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn an_index_is_only_read() {
    let world = &*WORLD;
    let names = || {
        let entries = fs::read_dir(&world.index.dir).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    assert!(before.iter().all(|name| !name.to_string_lossy().starts_with('.')));
    let again = QueryIndex::open(&world.index.dir).unwrap();
    assert_eq!(again.describe(), format!("{N_NODES} nodes in a query language"));
    again.search(&world.kb, "steel", &[], 3).unwrap();
    assert_eq!(names(), before);
}

#[test]
fn only_nodes_of_the_types_that_are_asked_for_are_found() {
    let world = &*WORLD;
    let all = world.index.search(&world.kb, "steel", &[], 1_000).unwrap();
    for kind in (0..world.kb.types().len() as u16).map(TypeId) {
        let of_type: Vec<_> =
            all.iter().copied().filter(|pair| world.kb.node_type(pair.0) == kind).collect();
        assert_eq!(world.index.search(&world.kb, "steel", &[kind], 1_000).unwrap(), of_type);
        let two: Vec<_> = of_type.iter().copied().take(2).collect();
        assert_eq!(world.index.search(&world.kb, "steel", &[kind], 2).unwrap(), two);
    }
}
