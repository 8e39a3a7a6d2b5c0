//! Renders docs/systems.md from the registry.

use std::fmt::Write;

use crate::{Need, SYSTEMS};

/// Text above the table.
const HEAD: &str = "# Systems

A system ranks nodes for a query. `agent search` and `agent eval` take its name behind `--system`; \
`agent systems` prints this table. What stands in brackets may be left out. Capitals stand for what \
you fill in: a file, a number, or the name of another system, up to four of them within one another.

This page is rendered from the registry in [src/systems](../src/systems/mod.rs). A further system is \
one file there and one line in its table.

| system | what it does | needs |
| --- | --- | --- |
";

/// Text below the table.
const TAIL: &str = "
An index part is built with `agent index N --with PART`. A language model is named as \
[llm.md](llm.md) says. All systems rank at most as many nodes as are asked for, best first; equal \
scores are ordered by ascending node id.
";

/// The page, in Markdown.
pub fn reference_page() -> String {
    let mut page = HEAD.to_owned();
    for spec in SYSTEMS {
        let needs: Vec<String> = spec.needs.iter().map(Need::to_string).collect();
        let _ =
            writeln!(page, "| `{}` | {} | {} |", spec.written(), spec.summary, needs.join(", "));
    }
    page + TAIL
}
