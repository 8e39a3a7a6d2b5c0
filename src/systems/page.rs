//! Renders the page docs/systems.md from the registry of systems.

use std::fmt::Write;

use crate::{Need, SYSTEMS};

/// Text of the page above the table of systems.
const HEAD: &str = "# Systems

A system ranks nodes for a query. `agent search` and `agent eval` take its name with `--system`; \
`agent systems` prints this table. Parts of a name in brackets are optional. Capitals are \
placeholders for a file, a number, or the name of another system; up to four systems can be nested.

This page is rendered from the registry in [src/systems](../src/systems/lib.rs). To add a system, add \
a file there and a line in its table.

| system | what it does | needs |
| --- | --- | --- |
";

/// Text of the page below the table of systems.
const TAIL: &str = "
Build an index part with `agent index N --with PART`, the part colbert with `--with colbert=DIR`. \
[llm.md](llm.md) explains how to name a language model. All systems rank at most the requested number of nodes, best first; equal scores are ordered \
by ascending node id.
";

/// Renders the page docs/systems.md, in Markdown.
pub fn reference_page() -> String {
    let mut page = HEAD.to_owned();
    for spec in SYSTEMS {
        let needs: Vec<String> = spec.needs.iter().map(Need::to_string).collect();
        let _ =
            writeln!(page, "| `{}` | {} | {} |", spec.written(), spec.summary, needs.join(", "));
    }
    page + TAIL
}
