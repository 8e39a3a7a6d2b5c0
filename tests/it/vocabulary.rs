//! One word for each concept: words that were given up stand in no source, page, prompt or toolkit.
//! What is said instead is in the glossary of `src/lib.rs`.
//!
//! Words are looked for in names as well: `NodeFlow`, `node_flow` and "node flow" are the same two
//! words.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Where words are looked for: files and folders with all below them.
const READ: [&str; 11] = [
    "CONTRIBUTING.md",
    "README.md",
    "agent-prompts",
    "benches",
    "docs",
    "examples",
    "fuzz/fuzz_targets",
    "python",
    "src",
    "tests/it",
    "toolkits",
];
/// What is not read: the words of made-up products and diseases, and this list.
const NOT_READ: [&str; 2] = ["src/dataset/sample/data/", "tests/it/vocabulary.rs"];
/// Kinds of files that are read.
const KINDS: [&str; 6] = ["html", "md", "py", "rhai", "rs", "toml"];

/// A word that was given up.
struct Retired {
    /// The word, or several in a row, in small letters.
    word: &'static str,
    /// What is said instead.
    say: &'static str,
    /// Beginnings of the paths where it is meant; everywhere if empty.
    within: &'static [&'static str],
}

const fn retired(word: &'static str, say: &'static str) -> Retired {
    Retired { word, say, within: &[] }
}

/// Where evidence was what the re-ranker knows of a node, or what a sequential test has won.
const OF_RANKING: &[&str] = &[
    "docs/architecture.md",
    "docs/optimizer.md",
    "src/infer/answer.rs",
    "src/infer/bundle/",
    "src/infer/join.rs",
    "src/optimize/accept.rs",
    "src/optimize/e_value.rs",
    "src/optimize/freeze.rs",
    "src/optimize/sequential_test.rs",
    "src/optimize/reranker.rs",
];

const RETIRED: [Retired; 29] = [
    retired("walk", "metapath"),
    retired("walks", "metapaths"),
    retired("anchor", "linked entity"),
    retired("anchors", "linked entities"),
    retired("slope", "gradient"),
    retired("slopes", "gradients"),
    retired("slip", "typo"),
    retired("slips", "typos"),
    retired("asker", "requester"),
    retired("askers", "requesters"),
    retired("pace", "rate limiter"),
    retired("race", "sequential test"),
    retired("races", "sequential tests"),
    retired("raced", "tested"),
    retired("yardstick", "the measure's own name"),
    retired("workshop", "what is in it"),
    Retired { word: "evidence", say: "features, or e-value", within: OF_RANKING },
    retired("learnt order", "learned re-ranker"),
    retired("order learnt", "learned re-ranker"),
    retired("index of names", "entity index"),
    retired("pieces of documents", "chunks of documents"),
    retired("pieces of a document", "chunks of a document"),
    retired("tuned numbers", "tuned parameters"),
    retired("tuning numbers", "tuning parameters"),
    retired("declares numbers", "declares parameters"),
    retired("numbers of a program", "parameters of a program"),
    retired("numbers of programs", "parameters of programs"),
    retired("numbers were tuned", "parameters were tuned"),
    retired("numbers are tuned", "parameters are tuned"),
];

/// Terms of the field that the glossary must hold.
const TERMS: [&str; 18] = [
    "knowledge base (KB)",
    "metapath",
    "bm25+names",
    "entity linking",
    "linked entity",
    "entity index",
    "typo",
    "chunk",
    "word pieces",
    "quantized vectors",
    "parameter",
    "execution trace",
    "learned re-ranker",
    "feature",
    "e-value",
    "sequential test",
    "rate limiter",
    "circuit breaker",
];

/// Text in which such a word stays: a file and what is left out of its lines, with the reason.
const STAYS: [(&str, &str); 33] = [
    // A tool's name, which programs call.
    ("agent-prompts/actor/initial.md", "`walk`"),
    ("docs/tools.md", "`walk`"),
    ("docs/tools.md", "walk("),
    ("src/optimize/actor/first.rs", "`walk`"),
    ("src/tools/examples.rs", "walk("),
    ("src/tools/graph.rs", "\"walk\""),
    ("src/tools/graph.rs", "        walk,"),
    ("src/tools/graph.rs", "walk("),
    ("src/tools/mentions.rs", "walk("),
    ("tests/it/explain.rs", "walk("),
    ("tests/it/explain.rs", "\"walk\""),
    ("toolkits/stark/toolkit.toml", "\"walk\""),
    ("toolkits/stark/toolkit.toml", "walk("),
    // Text of composed programs: their ids, and those of bundles, are digests of it.
    ("src/optimize/plan.rs", "//! Walk from what is"),
    ("src/optimize/plan.rs", "reached by this walk"),
    ("src/optimize/plan.rs", "reached by more than one walk"),
    ("src/optimize/plan.rs", "n_anchors"),
    ("src/optimize/plan.rs", "\"anchors of each type\""),
    ("src/optimize/plan.rs", "how much surer anchors count"),
    ("src/optimize/plan.rs", "taken from anchors themselves"),
    ("src/optimize/plan.rs", "// Anchors: what the query is about."),
    ("src/optimize/plan.rs", "// Where walks from them lead."),
    ("src/optimize/plan.rs", "what every walk reached"),
    ("src/optimize/plan.rs", "beside the names of anchors"),
    // Keys and names that stored bundles and journals hold.
    ("src/infer/bundle/reading.rs", "rename = \"walks\""),
    ("src/optimize/mutate.rs", "\"anchors\""),
    ("src/optimize/sequential_test.rs", "\"race\""),
    ("docs/optimizer.md", "search:anchors"),
    // The words of others.
    ("src/lib.rs", "a walk over relations"),
    ("src/lib.rs", "topic entity, anchor"),
    ("src/kb/metapath.rs", "random walk"),
    ("src/sandbox/rhai/engine.rs", "ast.walk("),
    ("src/sandbox/rhai/values.rs", "data race"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files that are read, by path from the root, with their text.
fn read() -> Vec<(String, String)> {
    let mut open: Vec<PathBuf> = READ.iter().map(|place| root().join(place)).collect();
    let mut files = BTreeSet::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|kind| KINDS.iter().any(|&known| kind == known)) {
            files.insert(path);
        }
    }
    let named = files.into_iter().map(|path| {
        let name = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
        (name, fs::read_to_string(&path).unwrap())
    });
    named.filter(|(name, _)| !NOT_READ.iter().any(|skipped| name.starts_with(skipped))).collect()
}

/// The words of a line in small letters, each with a space before and behind it.
fn words(line: &str) -> String {
    let mut words = String::from(" ");
    let mut before = ' ';
    for c in line.chars() {
        let begins = c.is_uppercase() && before.is_lowercase();
        if (begins || !c.is_alphabetic()) && !words.ends_with(' ') {
            words.push(' ');
        }
        if c.is_alphabetic() {
            words.extend(c.to_lowercase());
        }
        before = c;
    }
    if !words.ends_with(' ') {
        words.push(' ');
    }
    words
}

#[test]
fn words_that_were_given_up_are_used_no_more() {
    let mut used = BTreeSet::new();
    let mut violations = Vec::new();
    for (path, text) in read() {
        let stays: Vec<&str> =
            STAYS.iter().filter(|(file, _)| *file == path).map(|pair| pair.1).collect();
        for (line, number) in text.lines().zip(1..) {
            let mut left = line.to_owned();
            for &kept in stays.iter().filter(|kept| line.contains(**kept)) {
                used.insert((path.clone(), kept));
                left = left.replace(kept, " ");
            }
            let words = words(&left);
            for Retired { word, say, within } in &RETIRED {
                let is_meant = within.is_empty() || within.iter().any(|at| path.starts_with(at));
                if is_meant && words.contains(&format!(" {word} ")) {
                    violations.push(format!("{path}:{number}: {word:?}; say {say:?}"));
                }
            }
        }
    }
    assert!(violations.is_empty(), "{} words:\n{}", violations.len(), violations.join("\n"));
    for (file, kept) in STAYS {
        assert!(used.contains(&(file.to_owned(), kept)), "{file} no longer holds {kept:?}");
    }
}

#[test]
fn the_glossary_names_each_word_once_with_what_others_say() {
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let rows = lib.lines().skip_while(|line| *line != "//! # Glossary");
    let rows = rows.take_while(|line| *line != "//! # Layers");
    let rows: Vec<Vec<&str>> = rows
        .filter_map(|line| line.strip_prefix("//! | ")?.strip_suffix('|'))
        .map(|row| row.split(" |").map(str::trim).collect())
        .collect();
    assert_eq!(rows[0][..3], ["word", "meaning", "also known as"]);
    let mut seen = BTreeSet::new();
    for row in &rows[2..] {
        assert!(row.len() >= 3 && !row[1].is_empty(), "{row:?} has not three columns");
        assert!(seen.insert(row[0]), "{} is told twice", row[0]);
    }
    for term in TERMS {
        assert!(seen.iter().any(|word| word.contains(term)), "{term} is not in the glossary");
    }
}

#[test]
fn words_are_found_in_names_too() {
    assert_eq!(words("NodeFlow::Walk(_), all_walks!"), " node flow walk all walks ");
    assert_eq!(words("sidewalks, e-value"), " sidewalks e value ");
}
