//! `--help` of every command, followed from the first page on, so that no command can be forgotten.

use std::collections::BTreeMap;

use crate::support::World;

/// The help of every command and group of commands by its path; that of `agent` itself is empty.
fn pages(world: &World) -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        let text = world.run(path.split_whitespace().chain(["--help"])).done();
        open.extend(commands(&text).map(|name| format!("{path} {name}").trim().to_owned()));
        pages.insert(path, text);
    }
    pages
}

/// The names below `Commands:`.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    let listed = text.split_once("\nCommands:\n").map_or("", |parts| parts.1);
    let lines = listed.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help")
}

#[test]
fn every_command_is_helped_and_says_what_it_does_in_one_line() {
    let world = World::new();
    let pages = pages(&world);
    for path in ["", "optimize", "eval", "query", "data import", "run show", "program diff"] {
        assert!(pages.contains_key(path), "{path:?} is not in {:?}", pages.keys());
    }
    for (path, text) in &pages {
        let first = text.lines().next().unwrap();
        assert!(!first.is_empty() && !first.ends_with('.'), "agent {path}: {first}");
        assert!(text.contains("\nUsage: agent"), "agent {path}: {text}");
    }
}

#[test]
fn help_of_eval_names_every_system() {
    let world = World::indexed();
    let help = world.run(["eval", "--help"]).done();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let wrong = ["eval", "--dataset", "tiny", "--split", "val", "--system", "no-such-system"];
    let refused = world.run(wrong);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    // The message lists the names that are understood.
    let (_, listed) = refused.stderr.split_once("no-such-system").unwrap();
    let names: Vec<&str> = listed
        .lines()
        .next()
        .unwrap()
        .split([' ', ',', ';', '"'])
        .filter(|word| {
            word.contains(':')
                || ["bm25", "dense", "hybrid", "late", "multi", "react"].contains(word)
        })
        .filter(|word| !word.ends_with(':'))
        .collect();
    assert!(names.len() >= 8, "{listed}");
    for name in names {
        assert!(help.contains(name), "{name} is not in: {help}");
    }
}
