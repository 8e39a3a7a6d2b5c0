//! Generates, from the descriptions of the tools, the page that lists what a module imports and
//! exports. The page is in WIT (the interface language of WebAssembly components)
//! for readability; modules are core modules, and use the calling convention described in the
//! page's comments.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::wasm::call::{AGENT, TOOLS, import_name};
use agent_tools::{Kind, ToolSpec};

const HEAD: &str = "\
// Exports and imports of WebAssembly programs.
// Generated from the descriptions of the tools by `UPDATE=1 cargo test --release generated`.
//
// Programs are core modules, not components, with one 32-bit memory that is exported as `memory`.
// The module gets the length of a message first, then copies the message with `agent.take`.
//
//   retrieve(length: i32)          exported; takes a message of this length: a list of query (text),
//                                  candidates (node ids, best first) and params (map); gives
//                                  scores, a map of id as text to number, or a ranking
//   params()                       exported if the program has parameters; gives a map of
//                                  { value, min, max } or of plain numbers
//   agent.take(into: i32)          copies the current message to this address
//   agent.give(from: i32, length: i32)
//                                  sets the result of the call; the last one counts
//   agent.length(handle: i32) -> i32
//                                  returns the number of nodes, scores or numbers behind a handle
//   agent.read(handle: i32, into: i32, bytes: i32) -> i32
//                                  copies ids (u32), pairs of id and score (u32, f32) by ascending
//                                  id, or numbers (f32), as many as fit; returns the bytes copied
//   agent.release(handle: i32)     releases a handle; at most 65,536 are held at the same time
//   agent.print(from: i32, length: i32)
//                                  prints this text
//   agent.fail(from: i32, length: i32)
//                                  ends the program with this message
//   tools.NAME(from: i32, length: i32) -> i32
//                                  calls a tool with a list of arguments; returns the length of
//                                  the answer, to be copied with `agent.take`. A tool that fails
//                                  ends the program
//
// A value is one byte for its kind, followed by its content (little endian):
//    0 nothing   1 false   2 true   3 integer: i64   4 number: f64   5 text: u32 bytes, UTF-8
//    6 nodes, 7 scores, 8 vector: u32 handle, u32 length
//    9 list: u32 count, values    10 map: u32 count, pairs of u32 bytes, UTF-8 and value
//   11 node ids: u32 count, u32 each
//   13 ranking, only as a result: u32 count, pairs of u32 id and f32 score, in any order
// Lists and maps nest up to 16 deep; arguments have at most 100,000 values and 16 MiB.
";

/// Returns the interface page for these tools, as WIT text.
pub fn interface_page(specs: &[ToolSpec]) -> String {
    let mut page = format!("{HEAD}\npackage retrieval:program;\n");
    let _ = write!(
        page,
        "\ninterface {AGENT} {{\n    take: func(into: u32);\n    give: func(from: u32, length: u32);\n    \
         length: func(handle: u32) -> u32;\n    \
         read: func(handle: u32, into: u32, bytes: u32) -> u32;\n    \
         release: func(handle: u32);\n    print: func(from: u32, length: u32);\n    \
         fail: func(from: u32, length: u32);\n}}\n"
    );
    let _ = write!(page, "\ninterface {TOOLS} {{");
    let mut seen = BTreeSet::new();
    for spec in specs {
        let _ = write!(page, "\n    // {}\n", spec.signature());
        for line in wrapped(spec.doc) {
            let _ = writeln!(page, "    // {line}");
        }
        let args: Vec<String> = spec
            .args
            .iter()
            .map(|arg| format!("{}: {}", kebab(arg.name), kind(arg.kind)))
            .collect();
        let name = import_name(spec);
        // Operators of one name share an import; argument types decide.
        let comment = if seen.insert(name) { "" } else { "// also: " };
        let _ = writeln!(
            page,
            "    {comment}{}: func({}) -> {};",
            kebab(name),
            args.join(", "),
            kind(spec.result)
        );
    }
    page.push_str("}\n\nworld program {\n    import agent;\n    import tools;\n");
    page.push_str("    export params: func();\n    export retrieve: func(length: u32);\n}\n");
    page
}

/// Replaces `_` by `-` in a name, as WIT names require.
fn kebab(name: &str) -> String {
    name.replace('_', "-")
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Unit => "nothing",
        Kind::Bool => "bool",
        Kind::Int => "s64",
        Kind::Number => "f64",
        Kind::Text => "string",
        Kind::Node => "node",
        Kind::Nodes => "nodes",
        Kind::Scores => "scores",
        Kind::Vector => "vector",
        Kind::Texts => "list<string>",
        Kind::Numbers => "list<f64>",
        Kind::Vectors => "list<vector>",
        Kind::Bools => "list<bool>",
        Kind::Map => "map",
        Kind::Any => "value",
    }
}

/// Wraps a text between words into lines of at most 90 bytes; a longer word gets its own line.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < 90 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
