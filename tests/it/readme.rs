//! The output that README.md quotes is what its first commands print.
//! `UPDATE=1 cargo test --release readme` rewrites it.

use std::{fs, path::Path};

use crate::support::{Ran, World};

/// Beginning of a line that stays whatever its figures are.
fn label(line: &str) -> &str {
    let figure = |c: char| c.is_ascii_digit() || "+-".contains(c);
    let end = line.find("  ").or_else(|| line.find(figure)).unwrap_or(line.len());
    line[..end].trim_end()
}

/// The first block of text below the line that holds `command`: its place in the page.
fn block(page: &str, command: &str) -> std::ops::Range<usize> {
    const OPEN: &str = "```text\n";
    let after = page.find(command).unwrap_or_else(|| panic!("README.md has no `{command}`"));
    let start = after + page[after..].find(OPEN).unwrap() + OPEN.len();
    start..start + page[start..].find("```").unwrap()
}

/// The quoted lines as the command prints them now; `...` and places of this machine stay.
fn quoted_again(quoted: &str, printed: &str) -> String {
    let mut again = String::new();
    for line in quoted.lines() {
        let stays = line.is_empty() || line == "..." || line.contains("AGENT_HOME");
        let now = printed.lines().find(|now| label(now) == label(line));
        again += if stays { line } else { now.unwrap_or("(no such line)") };
        again.push('\n');
    }
    again
}

#[test]
fn readme_quotes_what_its_first_commands_print() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let mut page = fs::read_to_string(&path).unwrap();
    let world = World::new();
    let first = "optimize --dataset amazon";
    assert!(page.contains(&format!("cargo run --release -- {first}")));
    let printed = world.run(first.split(' ')).done();
    let place = block(&page, "It ends with");
    let learned = quoted_again(&page[place.clone()], &printed);
    let ask = page.lines().find_map(|line| line.strip_prefix("target/release/agent query latest "));
    let (text, k) = ask.unwrap().rsplit_once(" -k ").unwrap();
    let mut query = world.command(["query", "latest", text.trim_matches('"'), "-k", k]);
    let answered = Ran::of(query.env_remove("COLUMNS").output().unwrap()).done();

    let was = page.clone();
    page.replace_range(place, &learned);
    page.replace_range(block(&page, "target/release/agent query latest"), &answered);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        return fs::write(&path, page).unwrap();
    }
    let differing = was.lines().zip(page.lines()).find(|(quoted, now)| quoted != now);
    assert!(
        was == page,
        "README.md quotes other output; write it with `UPDATE=1 cargo test --release readme`: {differing:?}"
    );
}
