//! Queries over a small base, against a scan of all nodes, and invalid queries.

use std::sync::{LazyLock, atomic::AtomicBool};

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

use super::*;
use agent_kb::{KbMeta, KbWriter};

const N_NODES: u32 = 240;
/// Words of all texts: some differ in one letter, some share a prefix.
const VOCABULARY: [&str; 16] = [
    "steel", "steal", "stele", "steels", "bottle", "bottles", "battle", "cap", "caps", "cape",
    "éclair", "red", "read", "bread", "tree", "three",
];

struct World {
    _dir: TempDir,
    kb: Kb,
    index: QueryIndex,
}

/// `n` words, determined by `seed`.
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
            1 => format!("${}.00", at % 20),
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
    let meta = KbMeta {
        title: "t".into(),
        licence: "none".into(),
        candidate_types: vec![],
        ..KbMeta::default()
    };
    writer.finish(&meta, &mut |_, _| true).unwrap();
    let kb = Kb::open(&dir.path().join("kb")).unwrap();
    let (parts, stop) = (dir.path().join("query"), AtomicBool::new(false));
    fs::create_dir(&parts).unwrap();
    build(&kb, &Watch { report: &|_| {}, stop: &stop }, &parts).unwrap();
    let index = QueryIndex::open(&parts).unwrap();
    index.verify().unwrap();
    World { _dir: dir, kb, index }
});

/// A condition of a query.
#[derive(Clone, Debug)]
enum Want {
    Phrase { field: &'static str, words: Vec<&'static str>, slop: u32 },
    Prefix { field: &'static str, word: String },
    Typos { field: &'static str, word: &'static str, typos: usize },
    Range { low: i32, high: i32, closed: bool },
}

/// The folded words of a node's texts with their positions; words of two texts are never adjacent.
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
        // Tantivy's slop is a budget shared by all words of a phrase.
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
        ("", 1, "the query is empty"),
        ("steel titel:cap", 7, "no field or relation \"titel\"; did you mean title?"),
        ("éé colour:red", 4, "known: type, name, body, price, title, near"),
        ("price:[a TO 5]", 8, "\"a\" is not a number"),
        ("price:[1 TO \"x\"]", 12, ""),
        ("title:[1 TO 5]", 1, "no value of \"title\" is a number"),
        ("near:[1 TO 5]", 1, "ranges need a numeric field"),
        ("cap~9", 1, "0 to 2 typos"),
        ("title:*", 1, "existence of a field are not supported"),
        ("/ca.*/", 2, "regular expressions are not supported"),
        ("title:!!", 7, "contains no word"),
        ("(steel", 7, "close all quotes and brackets"),
        ("\"steel bottle", 14, "close all quotes and brackets"),
    ] {
        match world.index.search(&world.kb, query, &[], 5) {
            Err(QueryError::Wrong { at: found, reason }) => {
                assert!(reason.contains(told), "{query}: {reason}");
                assert!(told.is_empty() || found == at, "{query}: {found} {reason}");
            }
            other => panic!("{query}: {other:?}"),
        }
    }
    let deep = format!("{}steel{}", "(".repeat(17), ")".repeat(17));
    let long = "steel ".repeat(1_000);
    for (query, told) in [(deep, "nested deeper than 16 levels"), (long, "more than 4096")] {
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
    assert_eq!(again.describe(), format!("query language over {N_NODES} nodes"));
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

/// A node of a base that changes: name, title, price, and near nodes.
#[derive(Clone)]
struct Thing {
    kind: &'static str,
    name: String,
    title: String,
    price: String,
    near: Vec<u64>,
    /// Key for `near`; it never changes.
    key: u64,
}

impl Thing {
    fn random(key: u64, others: &[Thing], rng: &mut ChaCha8Rng) -> Self {
        let mut words = |most| words(rng.random_range(0..10_000), rng.random_range(1..=most));
        let (name, title) = (words(3), words(6));
        let price = format!("{}", rng.random_range(0..40));
        let n_near = rng.random_range(0..3usize).min(others.len());
        let near = (0..n_near).map(|_| others[rng.random_range(0..others.len())].key).collect();
        let kind = if rng.random_bool(0.5) { "product" } else { "brand" };
        Self { kind, name, title, price, near, key }
    }
}

/// Writes the nodes as a base, existing ones in their previous order.
fn base_of(things: &[Thing], dir: &Path) -> Kb {
    let mut writer = KbWriter::create(dir).unwrap();
    for thing in things {
        let fields =
            [("title".to_owned(), thing.title.clone()), ("price".to_owned(), thing.price.clone())];
        let text = format!("- title: {}\n- price: {}\n", thing.title, thing.price);
        writer.push_node(thing.kind, &thing.name, &text, &fields).unwrap();
    }
    let place = |key| things.iter().position(|thing| thing.key == key).map(|at| at as NodeId);
    for (from, thing) in (0..).zip(things) {
        for to in thing.near.iter().filter_map(|&key| place(key)) {
            writer.push_edge(from, "near", to).unwrap();
        }
    }
    let meta = KbMeta {
        title: "t".into(),
        licence: "none".into(),
        candidate_types: vec![],
        ..KbMeta::default()
    };
    writer.finish(&meta, &mut |_, _| true).unwrap();
    Kb::open(dir).unwrap()
}

/// Removes, adds or edits a node.
fn change(things: &mut Vec<Thing>, next_key: &mut u64, rng: &mut ChaCha8Rng) {
    let at = rng.random_range(0..things.len());
    let kind = rng.random_range(0..6);
    let key = if kind == 1 { *next_key } else { things[at].key };
    let new = Thing::random(key, things, rng);
    match kind {
        0 => drop(things.remove(at)),
        1 => {
            *next_key += 1;
            things.push(new);
        }
        2 => things[at].name = new.name,
        3 => things[at].title = new.title,
        4 => things[at].near = new.near,
        _ => things[at] = new,
    }
}

#[test]
fn a_thousand_updates_answer_as_an_index_that_is_built_anew() {
    const ROUNDS: usize = 20;
    let dir = tempfile::tempdir().unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut things: Vec<Thing> = Vec::new();
    for key in 0..600 {
        let new = Thing::random(key, &things, &mut rng);
        things.push(new);
    }
    // Some texts are equal.
    for at in 0..40 {
        things[at * 2] = Thing { key: (at * 2) as u64, near: vec![], ..things[at + 100].clone() };
    }
    let mut next_key = 600;
    let stop = AtomicBool::new(false);
    let watch = Watch { report: &|_| {}, stop: &stop };
    let fresh_dir = |name: String| {
        let dir = dir.path().join(name);
        fs::create_dir(&dir).unwrap();
        dir
    };
    let mut kb = base_of(&things, &dir.path().join("kb"));
    let mut at = fresh_dir("index".to_owned());
    build(&kb, &watch, &at).unwrap();
    let queries = queries();
    let (mut updated, mut compared) = (0, 0);
    for round in 0..ROUNDS {
        (0..1_000 / ROUNDS).for_each(|_| change(&mut things, &mut next_key, &mut rng));
        let now = base_of(&things, &dir.path().join(format!("kb-{round}")));
        let [next, anew] = ["next", "anew"].map(|name| fresh_dir(format!("{name}-{round}")));
        let before = (&kb, at.as_path());
        match update(before, &now, &watch, &next).unwrap() {
            true => updated += 1,
            false => {
                assert_eq!(fs::read_dir(&next).unwrap().count(), 0, "nothing is written");
                build(&now, &watch, &next).unwrap();
            }
        }
        build(&now, &watch, &anew).unwrap();
        let [next_index, anew] = [&next, &anew].map(|dir| QueryIndex::open(dir).unwrap());
        next_index.verify().unwrap();
        assert_eq!(next_index.describe(), anew.describe());
        for query in &queries {
            for (types, k) in [(vec![], 2_000), (vec![], 7), (vec![TypeId(0)], 2_000)] {
                let found = next_index.search(&now, query, &types, k).unwrap();
                let expected = anew.search(&now, query, &types, k).unwrap();
                assert_eq!(found, expected, "round {round}: {query}");
                compared += expected.len();
            }
        }
        (kb, at) = (now, next);
    }
    assert!(updated >= ROUNDS * 3 / 4, "{updated} of {ROUNDS}");
    assert!(compared > 100_000, "{compared}");
}

/// Queries of every kind.
fn queries() -> Vec<String> {
    let mut queries = vec!["*".to_owned(), "price:[5 TO 20] -cap".to_owned()];
    for (at, word) in VOCABULARY.iter().enumerate() {
        let other = VOCABULARY[(at * 7 + 3) % VOCABULARY.len()];
        queries.extend([
            (*word).to_owned(),
            format!("{word} {other} type:product"),
            format!("+{word} -{other}"),
            format!("name:{word}^2 near:{other}"),
            format!("\"{word} {other}\"~2"),
            format!("title:\"{word} {other}\""),
            format!("near:{word} price:>10"),
            format!("{}* {other}~1", &word[..word.floor_char_boundary(2)]),
        ]);
    }
    queries
}

#[test]
fn what_cannot_be_brought_up_is_built_anew_and_the_version_before_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut thing = |key| Thing::random(key, &[], &mut rng);
    let things: Vec<Thing> = (0..20).map(&mut thing).collect();
    let stop = AtomicBool::new(false);
    let watch = Watch { report: &|_| {}, stop: &stop };
    let kb = base_of(&things, &dir.path().join("kb"));
    let other = base_of(&(20..60).map(&mut thing).collect::<Vec<_>>(), &dir.path().join("other"));
    let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    build(&kb, &watch, &from).unwrap();
    let before = (&kb, from.as_path());
    assert!(!update(before, &other, &watch, &to).unwrap(), "too much is new");
    let fewer = base_of(&things[3..], &dir.path().join("fewer"));
    assert!(update(before, &fewer, &watch, &to).unwrap());
    let left = QueryIndex::open(&from).unwrap();
    left.verify().unwrap();
    assert_eq!(left.describe(), "query language over 20 nodes");
    assert_eq!(QueryIndex::open(&to).unwrap().describe(), "query language over 17 nodes");
    let list = to.join("slots");
    fs::write(&list, &fs::read(&list).unwrap()[..20]).unwrap();
    assert!(matches!(QueryIndex::open(&to), Err(IndexError::Damaged { .. })));
    let again = dir.path().join("again");
    fs::create_dir(&again).unwrap();
    let damaged = (&fewer, to.as_path());
    assert!(!update(damaged, &kb, &watch, &again).unwrap());
}
