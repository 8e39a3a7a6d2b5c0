//! Reads every source file and page and checks what the compiler cannot: where foreign engines are
//! named, who opens the test split, where threads start, how a file begins, and where links lead.
//!
//! The layers are the dependencies between crates, in their manifests, which the compiler checks.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Longest source file, lines: beyond that, a file holds two concepts.
const MAX_LINES: usize = 900;
/// Foreign crates, and the only places that may name them.
const FOREIGN: &[(&str, &[&str])] = &[
    ("cudarc", &["src/embed/gpu/"]),
    (
        "libc",
        &[
            "src/ground/clock.rs",
            "src/ground/space.rs",
            "src/ground/stack.rs",
            "src/cli/cut.rs",
            "src/serve/connections.rs",
            "src/serve/heap.rs",
        ],
    ),
    ("rhai", &["src/sandbox/rhai.rs", "src/sandbox/rhai/"]),
    ("minijinja", &["src/llm/prompts/"]),
    ("jsonschema", &["tests/it/answers.rs"]),
    ("wasmtime", &["src/sandbox/wasm.rs", "src/sandbox/wasm/"]),
    ("tar", &["src/ground/tarball.rs"]),
    ("zip", &["src/dataset/stark/archive", "src/dataset/stark/torch/tests.rs"]),
    (
        "rusqlite",
        &[
            "src/optimize/journal",
            "src/kb/sqlite.rs",
            "src/kb/table/",
            "src/dataset/tables/sqlite.rs",
            "src/dataset/tables/tests.rs",
        ],
    ),
    ("parquet", &["src/dataset/tables/columnar.rs", "src/dataset/tables/tests.rs"]),
    (
        "candle_core",
        &[
            "src/embed/bert/weights.rs",
            "src/embed/bert/architectures.rs",
            "src/train/dense/transformer.rs",
            "src/train/graph/net.rs",
        ],
    ),
    ("candle_nn", &["src/embed/bert/architectures.rs"]),
    ("candle_transformers", &["src/embed/bert/architectures.rs"]),
    ("async_openai", &["src/embed/openai.rs", "src/llm/openai.rs"]),
    ("reqwest", &["src/remote/", "src/dataset/hub.rs"]),
    ("tokio", &["src/remote/", "src/dataset/hub.rs", "src/serve/"]),
    ("axum", &["src/serve/"]),
    ("rmcp", &["src/serve/mcp/"]),
    ("hyper", &["src/serve/"]),
    ("hyper_util", &["src/serve/"]),
    ("utoipa", &["src/app/", "src/serve/"]),
    ("prometheus_client", &["src/serve/metrics.rs"]),
    ("clap_complete", &["src/cli/manual.rs"]),
    ("clap_mangen", &["src/cli/manual.rs"]),
    ("tantivy", &["src/index/query.rs", "src/index/query/"]),
    ("whatlang", &["src/index/language.rs"]),
    ("rust_stemmers", &["src/ground/words.rs", "src/ground/words/"]),
    ("tokenizers", &["src/embed/bert/word_pieces.rs"]),
    ("clap", &["src/app/", "src/cli/", "src/main.rs"]),
    ("anyhow", &["src/app/", "src/cli/", "src/main.rs"]),
    ("indicatif", &["src/cli/", "src/main.rs"]),
    ("pyo3", &["python/src/"]),
    // Pickles name classes of numpy.
    ("numpy", &["python/src/", "src/dataset/stark/pickle/machine.rs"]),
];
/// Who may open the test split: its home, the one way to it that counts, and who reads the texts
/// of all queries to take vectors for them.
const MAY_LOAD_TEST: [&str; 3] = ["src/dataset/", "src/app/test_split.rs", "src/app/vectors.rs"];
/// Directories whose pages' links are followed, with all below them, and the root without.
const PAGES: [&str; 8] =
    ["agent-prompts", "docs", "fuzz", "python", "sandboxes", "scripts", "src", "toolkits"];
/// Directories of builds and of fetched packages; what lies in them is not of this repository.
const FETCHED: [&str; 2] = ["target", "node_modules"];

/// The only places that start threads. What a program waits for on another thread must stay out of
/// rayon's pool of the process, whose threads may all be waiting for programs; each says how it does.
const STARTS_THREADS: [&str; 7] = [
    // Interrupts statements at their deadline.
    "src/kb/table/database.rs",
    // Programs, each thread with a pool of its own; a pool apart for the compiler.
    "src/sandbox/workers.rs",
    // Lets deadlines pass.
    "src/sandbox/wasm/engine.rs",
    // Cuts more texts than a program embeds at a time, while a device works on others.
    "src/embed/bert/device.rs",
    // Waits for replies.
    "src/llm/ask.rs",
    // Wait for programs, and no program waits for them.
    "src/serve/queue.rs",
    // Starts programs, and no program waits for it.
    "src/cli/",
];
/// The only places that make pools of rayon.
const MAKES_POOLS: [&str; 2] = ["src/sandbox/workers.rs", "src/cli/lib.rs"];

struct Source {
    /// Path from the repository's root, with `/`.
    path: String,
    text: String,
}

impl Source {
    /// The code without comments that fill their lines, with line numbers from 1.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().zip(1..).map(|(line, number)| (number, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

/// The files below directories that have an extension, by path; directories that `skip` names are
/// not entered.
fn files_below(mut dirs: Vec<PathBuf>, extension: &str, skip: &[&str]) -> BTreeSet<PathBuf> {
    let mut paths = BTreeSet::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                let name = path.file_name().unwrap();
                if !skip.iter().any(|skipped| name == *skipped) {
                    dirs.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                paths.insert(path);
            }
        }
    }
    paths
}

/// The path from the repository's root, with `/`.
fn shown(path: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/")
}

/// All Rust files below `src/`, `tests/`, `examples/` and `python/`, by path.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dirs = ["src", "tests", "examples", "python"].map(|dir| root.join(dir)).to_vec();
    let source = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        Source { path: shown(&path), text }
    };
    files_below(dirs, "rs", &[]).into_iter().map(source).collect()
}

/// All pages: Markdown in the root, and below [`PAGES`].
fn pages() -> BTreeSet<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = files_below(PAGES.map(|dir| root.join(dir)).to_vec(), "md", &FETCHED);
    let of_root = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(of_root.filter(|path| path.extension().is_some_and(|found| found == "md")));
    pages
}

/// Whether a line of code names a crate: `name::` that is no part of a longer path.
fn names_crate(line: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let uses = |found: usize| {
        let (before, after) = (&line[..found], &line[found + name.len()..]);
        let starts = !before.ends_with(is_part) || before.ends_with("use ::");
        starts && (after.starts_with("::") || before.trim() == "use" && !after.starts_with(is_part))
    };
    line.match_indices(name).any(|(found, _)| uses(found))
}

#[track_caller]
fn none(violations: &[String]) {
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
}

#[test]
fn foreign_engines_stay_in_their_places() {
    let mut violations = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with("src/")) {
        for (name, places) in FOREIGN {
            if places.iter().any(|place| source.path.starts_with(place)) {
                continue;
            }
            // The file of that name is the module that hides the crate.
            let own = format!("pub use {name}::");
            let named = |line: &str| names_crate(line, name) && !line.starts_with(&own);
            for (line, _) in source.code().filter(|(_, line)| named(line)) {
                violations.push(format!("{}:{line}: names {name}", source.path));
            }
        }
    }
    none(&violations);
}

/// The lines of a file that are no tests.
fn untested(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let is_test = source.path.contains("tests") || source.path.contains("scripted");
    let lines = source.code().take_while(|(_, line)| *line != "#[cfg(test)]");
    lines.filter(move |_| !is_test)
}

#[test]
fn threads_and_pools_are_made_in_their_places() {
    let mut violations = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with("src/")) {
        let is_in = |places: &[&str]| places.iter().any(|place| source.path.starts_with(place));
        let threads = ["thread::spawn", "thread::scope", "thread::Builder", "Builder::new().name"];
        for (line, code) in untested(source) {
            let starts = threads.iter().any(|how| code.contains(how));
            if starts && !is_in(&STARTS_THREADS) {
                violations.push(format!("{}:{line}: starts a thread", source.path));
            }
            if code.contains("ThreadPoolBuilder::new") && !is_in(&MAKES_POOLS) {
                violations.push(format!("{}:{line}: makes a pool of threads", source.path));
            }
        }
    }
    none(&violations);
}

#[test]
fn the_test_split_is_opened_by_those_who_measure() {
    let mut violations = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with("src/")) {
        if MAY_LOAD_TEST.iter().any(|place| source.path.starts_with(place)) {
            continue;
        }
        for (line, _) in source.code().filter(|(_, line)| line.contains("load_test")) {
            violations.push(format!("{}:{line}: opens the test split", source.path));
        }
    }
    none(&violations);
}

#[test]
fn files_say_what_they_are_for_and_stay_short() {
    let mut violations = Vec::new();
    for Source { path, text } in sources() {
        let first = text.lines().next().unwrap_or_default();
        if first.trim_start_matches("//!").trim().is_empty() || !first.starts_with("//! ") {
            violations.push(format!("{path}:1: begins without `//! ` and what it is for"));
        }
        let n_lines = text.lines().count();
        if n_lines > MAX_LINES {
            violations.push(format!("{path}: {n_lines} lines, more than {MAX_LINES}"));
        }
    }
    none(&violations);
}

#[test]
fn no_test_file_is_forgotten() {
    let sources = sources();
    let main = sources.iter().find(|source| source.path == "tests/it/main.rs").unwrap();
    for source in &sources {
        let file = source.path.strip_prefix("tests/it/").and_then(|file| file.strip_suffix(".rs"));
        let Some(module) = file.filter(|file| *file != "main" && !file.contains('/')) else {
            continue;
        };
        assert!(main.text.contains(&format!("\nmod {module};\n")), "{module} is not in main.rs");
    }
}

/// The crates below `src/`: folders with a manifest.
fn crates() -> BTreeSet<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folders = fs::read_dir(src).unwrap().map(|entry| entry.unwrap().path());
    let with_manifest = folders.filter(|folder| folder.join("Cargo.toml").exists());
    with_manifest.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn every_crate_is_introduced() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources_page = fs::read_to_string(root.join("src/README.md")).unwrap();
    let architecture = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    for name in crates() {
        assert!(sources_page.contains(&format!("]({name})")), "src/README.md: no link to {name}");
        assert!(architecture.contains(&format!("\n| `{name}` |")), "architecture.md: no {name}");
    }
}

/// The files and directories that a page links to and that do not exist.
fn broken_links(page: &Path, text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    // A place within a page is not looked for, only the page.
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    let files = files.map(|target| target.split('#').next().unwrap());
    files.filter(|file| !page.parent().unwrap().join(file).exists()).map(str::to_owned).collect()
}

#[test]
fn links_between_files_lead_somewhere() {
    let pages = pages();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in ["README.md", "SECURITY.md", "docs/lab/README.md", "fuzz/README.md"] {
        assert!(pages.contains(&root.join(page)), "{page} is not read");
    }
    let mut violations = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for link in broken_links(page, &text) {
            violations.push(format!("{}: {link} does not exist", shown(page)));
        }
    }
    none(&violations);
}

#[test]
fn every_page_is_in_the_summary_once() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let summary = docs.join("SUMMARY.md");
    let text = fs::read_to_string(&summary).unwrap();
    let mut listed: Vec<&str> =
        text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    listed.sort_unstable();
    // Records of experiments are kept, and are no part of the book.
    let below = files_below(vec![docs.clone()], "md", &["lab"]);
    let pages = below.iter().filter(|page| **page != summary);
    let mut pages: Vec<&str> =
        pages.map(|page| page.strip_prefix(&docs).unwrap().to_str().unwrap()).collect();
    pages.sort_unstable();
    assert_eq!(listed, pages);
}

#[test]
fn the_checks_see_what_they_look_for() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/page.md");
    let text = "[a](stark.md#place) [b](#here) [c](https://c.org) [d](../README.md) [e](../no.md)";
    assert_eq!(broken_links(&page, text), ["../no.md"]);

    assert!(names_crate("use rhai::{Engine};", "rhai"));
    assert!(names_crate("    x: rhai::Map,", "rhai"));
    assert!(names_crate("use rhai;", "rhai"));
    assert!(!names_crate("use crate::sandbox::rhai::meter;", "rhai"));
    assert!(!names_crate("mod rhai;", "rhai"));
}
