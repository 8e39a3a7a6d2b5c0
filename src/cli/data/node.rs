//! `agent data show N --node ID`: prints the id, type, name, fields and edges of the nodes with an
//! id.

use crate::{Context, Exit, data::MAX_SHOWN, plain};
use agent_app::{Result, count, data::show::Node};

/// Maximum number of characters to show for a field.
const MAX_FIELD: usize = 2_000;

/// Prints these nodes, all of which have the requested id.
///
/// # Errors
/// If stdout cannot be written to.
pub(super) fn show(nodes: &[Node], json: bool, ctx: &Context) -> Result<Exit> {
    if json {
        return ctx.printer.json_lines(nodes);
    }
    let texts: Vec<String> = nodes.iter().map(text_of).collect();
    ctx.printer.text(&texts.join("\n"))
}

fn text_of(shown: &Node) -> String {
    let mut lines = vec![
        format!("id    {}", plain(&shown.key, MAX_SHOWN)),
        format!("type  {}", plain(&shown.node_type, MAX_SHOWN)),
        format!("name  {}", plain(&shown.name, MAX_SHOWN)),
    ];
    lines.extend(
        shown.fields.iter().map(|(field, text)| {
            format!("  {}: {}", plain(field, MAX_SHOWN), plain(text, MAX_FIELD))
        }),
    );
    for of in &shown.edges {
        let arrow = if of.direction == "out" { "->" } else { "<-" };
        let first = of.first.iter().map(|(key, name)| match key == name {
            true => plain(key, MAX_SHOWN),
            false => format!("{} ({})", plain(name, MAX_SHOWN), plain(key, MAX_SHOWN)),
        });
        let first = first.collect::<Vec<_>>().join(", ");
        let more = if of.count > of.first.len() { ", ..." } else { "" };
        let n = count(of.count as u64);
        lines.push(format!("  {arrow} {} ({n}): {first}{more}", plain(&of.relation, MAX_SHOWN)));
    }
    lines.join("\n") + "\n"
}
