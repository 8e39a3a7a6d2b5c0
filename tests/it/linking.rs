//! How well entity linking survives other spellings: whether what a query names is still linked
//! when the query is written otherwise.
//!
//! A linked entity is a node that a training or validation query names and from which one of the
//! best mined metapaths reaches an answer. Its name in the query is then misspelt in one way, and
//! the query is linked again: recall is the share of linked entities that are still among the
//! strongest of their type. A small sample holds floors; `AGENT_TEST_HOME` names a home with
//! `products`, `biomed` and `papers` indexed, for which the same figures are printed, with the time
//! of building the entity index and of linking a query.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use agent::{
    dataset::{
        Base, Home, ImportOptions, LabelledQuery, Split, import_neutral, load_split,
        sample::{SampleKind, SampleOptions, generate},
    },
    index::{self, IndexedBase, entities},
    kb::{Kb, NodeId},
    optimize::mine::{DEFAULT_HOPS, LinkSource, MinedPattern, linked_entities, mine},
    words::Languages,
};

use crate::support::real_bases;

/// Strongest links of each type among which a linked entity must be.
const KEPT: usize = 4;
/// Metapaths, most informative first, from which nodes are linked entities.
const METAPATHS: usize = 40;
/// One in so many queries of the real bases is rewritten.
const EVERY: usize = 5;
/// Size of the samples: some thousand nodes.
const SCALE: f64 = 0.003;

/// A way of writing a name otherwise: from the words of a query and which of them name the linked
/// entity to another query, the same if the way does not apply.
struct Way {
    name: &'static str,
    rewrite: fn(&Named<'_>) -> String,
    /// Least recall on each sample.
    floor: f64,
}

/// A query and the byte ranges of the words by which it names a linked entity, ascending.
struct Named<'a> {
    query: &'a str,
    words: Vec<std::ops::Range<usize>>,
    /// Chooses among typos, the same on every run.
    draw: usize,
}

impl Named<'_> {
    /// The query with some of the words that name the linked entity replaced.
    fn replaced(&self, mut replace: impl FnMut(usize, &str) -> String) -> String {
        let (mut text, mut end) = (String::new(), 0);
        for (at, word) in self.words.iter().enumerate() {
            text += &self.query[end..word.start];
            text += &*replace(at, &self.query[word.clone()]);
            end = word.end;
        }
        text + &self.query[end..]
    }
}

/// Swaps, drops or doubles a letter inside a word of five letters or more.
fn typo(word: &str, draw: usize) -> String {
    let mut letters: Vec<char> = word.chars().collect();
    if letters.len() < 5 {
        return word.to_owned();
    }
    let at = 1 + draw % (letters.len() - 2);
    match draw / 7 % 3 {
        0 => letters.swap(at, at + 1),
        1 => {
            letters.remove(at);
        }
        _ => letters.insert(at, letters[at]),
    }
    letters.into_iter().collect()
}

fn lower_case(named: &Named<'_>) -> String {
    named.replaced(|_, word| word.to_lowercase())
}

fn typos(named: &Named<'_>) -> String {
    named.replaced(|at, word| typo(word, named.draw + 5 * at + word.len()))
}

/// Joins the first two words of the name that stand side by side.
fn joined(named: &Named<'_>) -> String {
    let beside = |pair: &[std::ops::Range<usize>]| {
        let between = &named.query[pair[0].end..pair[1].start];
        (between == "-" || between == " ").then_some(pair[0].end..pair[1].start)
    };
    match named.words.windows(2).find_map(beside) {
        None => named.query.to_owned(),
        Some(gap) => format!("{}{}", &named.query[..gap.start], &named.query[gap.end..]),
    }
}

/// Parts the first word that has letters and digits, or two words of four letters in one.
fn parted(named: &Named<'_>) -> String {
    let mut done = false;
    named.replaced(|_, word| {
        let letters: Vec<char> = word.chars().collect();
        let kind = |c: char| (c.is_numeric(), c.is_alphabetic());
        let change = letters.windows(2).position(|pair| kind(pair[0]) != kind(pair[1]));
        let place = change.map(|at| at + 1).or((letters.len() >= 9).then_some(letters.len() / 2));
        match place.filter(|_| !std::mem::replace(&mut done, place.is_some())) {
            None => word.to_owned(),
            Some(place) => {
                let (first, second) = letters.split_at(place);
                format!("{}-{}", String::from_iter(first), String::from_iter(second))
            }
        }
    })
}

/// Adds an `s` to the last word of the name, or drops it.
fn number(named: &Named<'_>) -> String {
    let last = named.words.len() - 1;
    named.replaced(|at, word| match word.strip_suffix('s') {
        _ if at != last || word.chars().any(char::is_numeric) || word.len() < 4 => word.to_owned(),
        Some(singular) if !singular.ends_with('s') => singular.to_owned(),
        _ => format!("{word}s"),
    })
}

fn numerals(named: &Named<'_>) -> String {
    const NUMERALS: [(&str, &str); 5] =
        [("1", "I"), ("2", "II"), ("3", "III"), ("4", "IV"), ("6", "VI")];
    named.replaced(|_, word| {
        let other = NUMERALS.iter().find_map(|&(digit, roman)| match word {
            _ if word == digit => Some(roman),
            _ if word == roman => Some(digit),
            _ => None,
        });
        other.unwrap_or(word).to_owned()
    })
}

/// Drops what stands in parentheses, where it holds words of the name, but not all of them.
fn without_parentheses(named: &Named<'_>) -> String {
    let whole = || named.query.to_owned();
    let Some(open) = named.query.find('(') else { return whole() };
    let Some(close) = named.query[open..].find(')').map(|at| open + at + 1) else { return whole() };
    let inside = named.words.iter().filter(|word| open < word.start && word.end < close).count();
    match inside > 0 && inside < named.words.len() {
        false => whole(),
        true => format!("{}{}", &named.query[..open], &named.query[close..]),
    }
}

/// British spelling for American, or the other way.
fn spelling(named: &Named<'_>) -> String {
    const PAIRS: [(&str, &str); 14] = [
        ("tumour", "tumor"),
        ("colour", "color"),
        ("behaviour", "behavior"),
        ("anaem", "anem"),
        ("aemia", "emia"),
        ("haem", "hem"),
        ("oesoph", "esoph"),
        ("oedem", "edem"),
        ("oestr", "estr"),
        ("foet", "fet"),
        ("paed", "ped"),
        ("fibre", "fiber"),
        ("centre", "center"),
        ("isation", "ization"),
    ];
    named.replaced(|_, word| {
        let folded = word.to_lowercase();
        let other = PAIRS.iter().find_map(|&(british, american)| {
            let swapped = match folded.contains(british) {
                true => folded.replacen(british, american, 1),
                false => folded.replacen(american, british, 1),
            };
            (swapped != folded).then_some(swapped)
        });
        other.unwrap_or_else(|| word.to_owned())
    })
}

/// The ways, with floors that the samples hold with some room.
const WAYS: [Way; 8] = [
    Way { name: "lower case", rewrite: lower_case, floor: 0.95 },
    Way { name: "typos", rewrite: typos, floor: 0.85 },
    Way { name: "joined", rewrite: joined, floor: 0.85 },
    Way { name: "parted", rewrite: parted, floor: 0.8 },
    Way { name: "number", rewrite: number, floor: 0.95 },
    Way { name: "numerals", rewrite: numerals, floor: 0.0 },
    Way { name: "no parentheses", rewrite: without_parentheses, floor: 0.0 },
    Way { name: "spelling", rewrite: spelling, floor: 0.0 },
];

/// Whether a metapath of one of the patterns leads from a node to an answer.
fn leads_to_answer(
    base: &IndexedBase,
    metapaths: &[MinedPattern],
    node: NodeId,
    answers: &[NodeId],
) -> bool {
    let kind = base.kb.node_type(node);
    let own = |mined: &&MinedPattern| {
        mined.pattern.source == LinkSource::Named && mined.pattern.start == kind
    };
    metapaths.iter().filter(own).any(|mined| {
        let mut reached = vec![node];
        for step in &mined.pattern.steps {
            let next = |&node| base.kb.neighbors(node, step.relation, step.direction).into_owned();
            reached = reached.iter().flat_map(next).collect();
            reached.sort_unstable();
            reached.dedup();
        }
        answers.iter().any(|answer| *answer != node && reached.binary_search(answer).is_ok())
    })
}

/// Linked entities by query.
fn true_entities(base: &IndexedBase, queries: &[LabelledQuery]) -> Vec<Vec<NodeId>> {
    let metapaths = mine(base, queries, 2, DEFAULT_HOPS, &AtomicBool::new(false)).unwrap();
    let metapaths = &metapaths[..metapaths.len().min(METAPATHS)];
    let of = |query: &LabelledQuery| {
        let named = linked_entities(base, &query.text).into_iter();
        let named = named.filter(|entity| entity.source == LinkSource::Named);
        named
            .map(|entity| entity.node)
            .filter(|&node| leads_to_answer(base, metapaths, node, &query.answers))
            .collect()
    };
    queries.iter().map(of).collect()
}

/// The words of a query by which it names a node.
fn naming<'a>(base: &IndexedBase, query: &'a str, node: NodeId, draw: usize) -> Named<'a> {
    let words = agent::words::name_words(query).map(|(range, _)| range);
    let names_it =
        |word: &str| word != "s" && base.entities.without_names(word, &[node]).trim().is_empty();
    Named { query, words: words.filter(|range| names_it(&query[range.clone()])).collect(), draw }
}

/// Recall of linked entities by way, with how many names could be rewritten; the first row is of
/// queries as they are.
fn recall(base: &IndexedBase, queries: &[LabelledQuery]) -> BTreeMap<&'static str, (usize, f64)> {
    let by_query = true_entities(base, queries);
    let mut found: BTreeMap<&'static str, (usize, usize)> = BTreeMap::new();
    for (at, (query, linked)) in queries.iter().zip(&by_query).enumerate() {
        for &node in linked {
            let named = naming(base, &query.text, node, at);
            if named.words.is_empty() {
                continue;
            }
            for way in &WAYS {
                let text = (way.rewrite)(&named);
                if text == query.text {
                    continue;
                }
                let linked = base.entities.link(&base.kb, &text, &[], KEPT);
                let (n, kept) = found.entry(way.name).or_default();
                *n += 1;
                *kept += usize::from(linked.get(node).is_some());
                if linked.get(node).is_none() && std::env::var_os("AGENT_TEST_VERBOSE").is_some() {
                    eprintln!("{}: {:?} lost in {text:?}", way.name, base.kb.name(node));
                }
            }
        }
    }
    let share = |(way, (n, kept)): (_, (usize, usize))| (way, (n, kept as f64 / n as f64));
    found.into_iter().map(share).collect()
}

fn print(name: &str, found: &BTreeMap<&'static str, (usize, f64)>) {
    for way in &WAYS {
        if let Some((n, recall)) = found.get(way.name) {
            eprintln!("{name} {:<15} n {n:>5} recall {:.3}", way.name, recall);
        }
    }
}

/// Training and validation queries.
fn labelled(base: &Base) -> Vec<LabelledQuery> {
    let splits = [Split::Train, Split::Val];
    splits.iter().flat_map(|split| load_split(base, split).unwrap()).collect()
}

fn sample(kind: SampleKind, dir: &Path) -> Base {
    let files = dir.join("files");
    let options = SampleOptions { seed: 3, scale: Some(SCALE) };
    generate(kind, options, &files, &mut |_| {}).unwrap();
    let (options, stop) = (ImportOptions::default(), AtomicBool::new(false));
    let home = Home::new(dir.join("home"));
    let base = import_neutral(&files, &home, "sample", &options, &mut |_| {}, &stop).unwrap().base;
    let kb = Kb::open(&base.kb_dir()).unwrap();
    index::build(&kb, &base.index_dir(), &|_| {}, &stop).unwrap();
    base
}

#[test]
fn names_of_a_sample_are_linked_however_they_are_written() {
    for kind in [SampleKind::Prime, SampleKind::Mag] {
        let dir = tempfile::tempdir().unwrap();
        let base = sample(kind, dir.path());
        let indexed = IndexedBase::open(&base.kb_dir(), &base.index_dir(), &base.name).unwrap();
        let mut queries = labelled(&base);
        queries.truncate(60);
        let found = recall(&indexed, &queries);
        print(&format!("{kind:?}"), &found);
        for way in &WAYS {
            if let Some(&(n, recall)) = found.get(way.name) {
                assert!(recall >= way.floor, "{kind:?}, {}: {recall} of {n}", way.name);
            }
        }
    }
}

#[test]
fn names_of_real_bases_are_linked_however_they_are_written() {
    for (base, indexed) in real_bases() {
        let name = &base.name;
        let queries: Vec<LabelledQuery> = labelled(&base).into_iter().step_by(EVERY).collect();
        print(name, &recall(&indexed, &queries));
        let dir = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let path = dir.path().join("names");
        entities::build(&indexed.kb, Languages::ENGLISH, &path, &mut || Ok(())).unwrap();
        let built = begun.elapsed();
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..3 {
            let begun = Instant::now();
            for query in &queries {
                assert!(indexed.entities.link(&indexed.kb, &query.text, &[], KEPT).len() < 1_000);
            }
            times.push(begun.elapsed() / queries.len() as u32);
        }
        let size = std::fs::metadata(dir.path().join("names")).unwrap().len();
        eprintln!(
            "{name}: names built in {built:.2?}, {size} bytes; a query in {:.1?}",
            times.iter().min().unwrap()
        );
    }
}

/// What a text names is kept by type with the strongest first, and is looked up once however many ask.
#[test]
fn threads_that_ask_at_once_get_the_strongest_as_one_alone_does() {
    let dir = tempfile::tempdir().unwrap();
    let base = sample(SampleKind::Prime, dir.path());
    let open = || IndexedBase::open(&base.kb_dir(), &base.index_dir(), &base.name).unwrap();
    let queries: Vec<String> = labelled(&base).into_iter().map(|query| query.text).collect();
    let queries = &queries[..queries.len().min(40)];
    let (shared, alone) = (open(), open());
    let linked = |of: &IndexedBase, k| -> Vec<Vec<(NodeId, f32)>> {
        queries.iter().map(|text| of.entities.link(&of.kb, text, &[], k).ranking()).collect()
    };
    let at_once: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| linked(&shared, 10_000))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all = linked(&alone, 10_000);
    assert!(at_once.iter().all(|found| *found == all));
    assert!(all.iter().any(|found| !found.is_empty()));
    for k in [1, 2, 5, 63, 64, 65] {
        for (found, all) in linked(&alone, k).iter().zip(&all) {
            let mut left = vec![k; alone.kb.types().len()];
            let first = all.iter().filter(|(node, _)| {
                let left = &mut left[usize::from(alone.kb.node_type(*node).0)];
                let is_first = *left > 0;
                *left = left.saturating_sub(1);
                is_first
            });
            assert_eq!(*found, first.copied().collect::<Vec<_>>());
        }
    }
}
