//! Imports a graph in N-Triples format: each line has a subject, a predicate and an object. Format:
//! <https://www.w3.org/TR/n-triples/>.
//!
//! | triple | becomes |
//! | --- | --- |
//! | `rdf:type` | the type of the subject: the last part of the object's address; only the first type counts |
//! | literal, and the last part of the predicate is `label`, `prefLabel`, `name` or `title` | the name of the subject. The best name is English or untagged, then the first in this order of predicates, then the first in the file. Other English names become fields; names in other languages are dropped |
//! | other literal | a field of the subject, named by the last part of the predicate |
//! | object is an address or a blank node | an edge, named by the last part of the predicate |
//!
//! The key of a node is its address; nodes are numbered in the order in which they first occur. A
//! node without `rdf:type` gets the type `resource`. All triples are held in memory until the end,
//! because the triples of one subject may be scattered over the file.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use serde_json::{Map, Value};

use crate::{
    DatasetError, Home, ImportOptions, ImportReport, Phase, ProblemKind, Progress, Result,
    error::{Fault, Problems},
    install::{Content, Install, Watch},
    lines::Lines,
    neutral::read_toml,
};
use agent_kb::MAX_NODES;

/// Maximum estimated memory for addresses, predicates, names, texts and edges, in bytes.
pub const MAX_HELD_BYTES: u64 = 4 << 30;
/// Estimated memory in bytes for holding a predicate, a text or an edge, in addition to the text
/// itself.
const HELD_OVERHEAD: u64 = 48;
const TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
/// Last parts of the predicates whose objects are names of nodes, best first.
const NAMES: [&str; 4] = ["label", "prefLabel", "name", "title"];
/// Name of the type of nodes without `rdf:type`.
const NO_TYPE: &str = "resource";
const HINT: &str = "write one triple `<subject> <predicate> <object> .` per line";

/// Imports the N-Triples file `source` as base `name` of `home`.
///
/// # Errors
/// Any [`DatasetError`]; no files are then left behind, and an installed base with that name is
/// unchanged.
pub fn import_triples(
    source: &Path,
    home: &Home,
    name: &str,
    options: &ImportOptions,
    on_progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<ImportReport> {
    let mut watch = Watch { on_progress, stop };
    let mut install = Install::begin(home, name, source, options)?;
    (install.meta, install.graph.templates) = read_toml(source)?;
    let triples = read(source, &mut install.problems, &mut watch)?;
    if triples.nodes.is_empty() {
        std::mem::take(&mut install.problems).finish()?;
        return Err(DatasetError::no_nodes(source));
    }
    let numbers = write_nodes(&triples, source, &mut install)?;
    for &(subject, predicate, object, line) in &triples.edges {
        let end = |node: u32| numbers.get(node as usize).copied().flatten();
        let (Some(subject), Some(object)) = (end(subject), end(object)) else { continue };
        let pushed = install.graph.push_edge(subject, triples.name(predicate), object);
        install.problems.ok(source, line, pushed)?;
    }
    drop(triples);
    install.finish(&mut watch)
}

/// A node with its address, type and name.
struct Subject {
    key: Arc<str>,
    /// Number of the line in which the node first occurs (from 1).
    line: u64,
    node_type: Option<u32>,
    name: Option<Name>,
}

/// The best name found for a node so far.
struct Name {
    /// Rank of the name; the lower, the better. First, whether the name is tagged with a language
    /// other than English; then the position of its predicate in [`NAMES`]. Of two names with the
    /// same rank, the first in the file is kept.
    rank: (bool, usize),
    predicate: u32,
    text: String,
}

/// All triples of a file. Subjects and objects are stored as indices of `nodes`, predicates as
/// indices of `predicates`.
#[derive(Default)]
struct Triples {
    places: HashMap<Arc<str>, u32>,
    nodes: Vec<Subject>,
    /// Last parts of the addresses of predicates and types, without repetition.
    predicates: Vec<String>,
    predicate_places: HashMap<String, u32>,
    /// Subject, predicate and text of each literal that becomes a field.
    texts: Vec<(u32, u32, String)>,
    /// Subject, predicate, object and line number of each edge.
    edges: Vec<(u32, u32, u32, u64)>,
    /// Estimated memory for all the fields above, in bytes.
    held_bytes: u64,
}

impl Triples {
    fn node(&mut self, key: &str, line: u64) -> u32 {
        if let Some(&place) = self.places.get(key) {
            return place;
        }
        let key: Arc<str> = key.into();
        // Not above MAX_NODES, see `read`.
        let place = self.nodes.len() as u32;
        self.held_bytes += key.len() as u64 + 2 * HELD_OVERHEAD;
        self.places.insert(key.clone(), place);
        self.nodes.push(Subject { key, line, node_type: None, name: None });
        place
    }

    fn predicate(&mut self, address: &str) -> u32 {
        let name = last_part(address);
        if let Some(&place) = self.predicate_places.get(name) {
            return place;
        }
        let place = self.predicates.len() as u32;
        // Twice: in the list and in the map.
        self.held_bytes += 2 * (name.len() as u64 + HELD_OVERHEAD);
        self.predicates.push(name.to_owned());
        self.predicate_places.insert(name.to_owned(), place);
        place
    }

    /// Returns the name of a predicate or type.
    fn name(&self, predicate: u32) -> &str {
        self.predicates.get(predicate as usize).map_or("", String::as_str)
    }

    fn add(&mut self, subject: &str, predicate: &str, object: Object, line: u64) {
        let subject = self.node(subject, line);
        match object {
            Object::Node(object) if predicate == TYPE => {
                let node_type = self.predicate(&object);
                if let Some(node) = self.nodes.get_mut(subject as usize) {
                    node.node_type.get_or_insert(node_type);
                }
            }
            Object::Node(object) => {
                let (predicate, object) = (self.predicate(predicate), self.node(&object, line));
                self.held_bytes += HELD_OVERHEAD;
                self.edges.push((subject, predicate, object, line));
            }
            Object::Text { text, is_foreign } => {
                let rank = NAMES.iter().position(|known| *known == last_part(predicate));
                let predicate = self.predicate(predicate);
                let node = self.nodes.get_mut(subject as usize);
                let (Some(rank), Some(node)) = (rank, node) else {
                    return self.push_text(subject, predicate, text);
                };
                let name = Name { rank: (is_foreign, rank), predicate, text };
                let before = node.name.take();
                self.held_bytes -= before.as_ref().map_or(0, |name| name.text.len() as u64);
                let (best, other) = match before {
                    Some(known) if known.text == name.text => (known, None),
                    Some(known) if name.rank < known.rank => (name, Some(known)),
                    Some(known) => (known, Some(name)),
                    None => (name, None),
                };
                self.held_bytes += best.text.len() as u64;
                node.name = Some(best);
                // Another English name becomes a field; names in other languages are dropped.
                if let Some(other) = other.filter(|other| !other.rank.0) {
                    self.push_text(subject, other.predicate, other.text);
                }
            }
        }
    }

    fn push_text(&mut self, subject: u32, predicate: u32, text: String) {
        self.held_bytes += text.len() as u64 + HELD_OVERHEAD;
        self.texts.push((subject, predicate, text));
    }
}

fn read(path: &Path, problems: &mut Problems, watch: &mut Watch<'_>) -> Result<Triples> {
    let mut lines = Lines::open(path)?;
    let mut triples = Triples::default();
    while let Some((number, line)) = lines.next_of(Phase::Nodes, watch)? {
        let Some(text) = problems.ok(path, number, line.text())? else { continue };
        let parsed = parse(text).map_err(|message| {
            Fault::new(ProblemKind::BadTriple, message, HINT).with_excerpt(text)
        });
        if let Some((subject, predicate, object)) = problems.ok(path, number, parsed)?.flatten() {
            triples.add(&subject, &predicate, object, number);
        }
        if triples.held_bytes > MAX_HELD_BYTES || triples.nodes.len() >= MAX_NODES as usize {
            let message = format!(
                "its addresses and texts take more than {MAX_HELD_BYTES} bytes; convert it to \
                 tables, which are not held in memory"
            );
            return Err(DatasetError::bad_input(path, message));
        }
    }
    Ok(triples)
}

/// Writes all nodes; returns the number of each node in the base, or `None` if the node was
/// invalid.
fn write_nodes(triples: &Triples, path: &Path, install: &mut Install) -> Result<Vec<Option<u32>>> {
    let mut order: Vec<u32> = (0..triples.texts.len() as u32).collect();
    // A stable sort keeps the texts of a subject in file order.
    order.sort_by_key(|&at| triples.texts.get(at as usize).map(|text| text.0));
    let mut texts = order.iter().filter_map(|&at| triples.texts.get(at as usize)).peekable();
    let mut numbers = Vec::with_capacity(triples.nodes.len());
    for (place, node) in (0u32..).zip(&triples.nodes) {
        let mut details = Map::new();
        while let Some((_, predicate, text)) = texts.next_if(|text| text.0 == place) {
            let field = triples.name(*predicate);
            let text = Value::String(text.clone());
            match details.get_mut(field) {
                None => drop(details.insert(field.to_owned(), text)),
                Some(Value::Array(items)) => items.push(text),
                Some(one) => *one = Value::Array(vec![one.take(), text]),
            }
        }
        let from_key = || last_part(&node.key).replace('_', " ");
        let name = node.name.as_ref().map_or_else(from_key, |name| name.text.clone());
        let node_type = node.node_type.map_or(NO_TYPE, |of| triples.name(of));
        let content = Content { node_type, name: &name, details: &details };
        let pushed = install.graph.push_node(Some(&node.key), &content);
        let pushed = pushed.map_err(|error| error.map(|fault| fault.with_excerpt(&node.key)));
        numbers.push(install.problems.ok(path, node.line, pushed)?);
    }
    Ok(numbers)
}

/// Returns the last part of an address: the text after the last `/`, `#` or `:`.
fn last_part(address: &str) -> &str {
    let trimmed = address.trim_end_matches(['/', '#']);
    let part = trimmed.rsplit(['/', '#', ':']).next().unwrap_or_default();
    if part.is_empty() { address } else { part }
}

#[derive(Debug, PartialEq, Eq)]
enum Object {
    /// An address, or the name of a blank node with its prefix `_:`.
    Node(String),
    Text {
        text: String,
        /// Whether the text is tagged with a language other than English.
        is_foreign: bool,
    },
}

/// Parses the triple in a line: subject, predicate and object; `None` for an empty line or a
/// comment.
fn parse(line: &str) -> Result<Option<(String, String, Object)>, String> {
    let rest = line.trim();
    if rest.is_empty() || rest.starts_with('#') {
        return Ok(None);
    }
    let (subject, rest) = node(rest).map_err(|why| format!("the subject {why}"))?;
    let (predicate, rest) = node(rest).map_err(|why| format!("the predicate {why}"))?;
    let (object, rest) = match rest.strip_prefix('"') {
        Some(rest) => literal(rest).map_err(|why| format!("the object {why}"))?,
        None => {
            let (object, rest) = node(rest).map_err(|why| format!("the object {why}"))?;
            (Object::Node(object), rest)
        }
    };
    match rest.strip_prefix('.').map(str::trim) {
        Some(end) if end.is_empty() || end.starts_with('#') => {
            Ok(Some((subject, predicate, object)))
        }
        _ => Err("the triple does not end with a full stop".to_owned()),
    }
}

/// Parses an address in angle brackets, or a blank node, at the start of `text`; also returns the
/// rest of the line.
fn node(text: &str) -> Result<(String, &str), String> {
    if let Some(rest) = text.strip_prefix('<') {
        let (address, rest) = rest.split_once('>').ok_or("has no closing >")?;
        if address.is_empty() || address.contains([' ', '<', '"']) {
            return Err("is not an address".to_owned());
        }
        return Ok((unescaped(address)?, rest.trim_start()));
    }
    if text.starts_with("_:") {
        let end = text.find([' ', '\t']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        return Ok((name.to_owned(), rest.trim_start()));
    }
    Err("is neither an address in <> nor a blank node, such as _:b1".to_owned())
}

/// Parses a literal, with its language tag or data type, after its opening quote; also returns the
/// rest of the line.
fn literal(text: &str) -> Result<(Object, &str), String> {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    let end = end.ok_or("has no closing quote")?;
    let (text, rest) = (&text[..end], &text[end + 1..]);
    let text = unescaped(text)?;
    if let Some(tag) = rest.strip_prefix('@') {
        let end = tag.find([' ', '\t', '.']).unwrap_or(tag.len());
        let (language, rest) = tag.split_at(end);
        let is_foreign = language.split('-').next() != Some("en");
        return Ok((Object::Text { text, is_foreign }, rest.trim_start()));
    }
    let rest = match rest.strip_prefix("^^") {
        Some(rest) => node(rest)?.1,
        None => rest.trim_start(),
    };
    Ok((Object::Text { text, is_foreign: false }, rest))
}

/// Replaces the escapes in a text, such as `\u00e9`, with the characters they stand for.
fn unescaped(text: &str) -> Result<String, String> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        let escape = chars.next();
        let digits = match escape {
            Some('u') => 4,
            Some('U') => 8,
            _ => 0,
        };
        if digits > 0 {
            let hex: String = chars.by_ref().take(digits).collect();
            let code = u32::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == digits);
            let c = code.and_then(char::from_u32);
            plain.push(
                c.ok_or_else(|| format!("has the escape \\u{hex}, which is not a character"))?,
            );
            continue;
        }
        plain.push(match escape {
            Some('t') => '\t',
            Some('b') => '\u{8}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('f') => '\u{c}',
            Some(c @ ('"' | '\'' | '\\')) => c,
            other => return Err(format!("has the unknown escape \\{}", other.unwrap_or(' '))),
        });
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use agent_kb::{Direction, Kb};

    #[test]
    fn lines_are_read_or_refused_with_what_is_wrong() {
        let text = |text: &str, is_foreign| Object::Text { text: text.to_owned(), is_foreign };
        for (line, object) in [
            ("<a:s> <a:p> \"x \\\"y\\\" \\u00e9\\n\" .", text("x \"y\" é\n", false)),
            ("<a:s>\t<a:p>\t\"x\"@de .", text("x", true)),
            ("<a:s> <a:p> \"x\"@en-GB.", text("x", false)),
            ("<a:s> <a:p> \"3\"^^<http://w/int> . # three", text("3", false)),
            ("<a:s> <a:p> _:b1 .", Object::Node("_:b1".to_owned())),
        ] {
            assert_eq!(parse(line).unwrap().unwrap().2, object, "{line}");
        }
        assert_eq!(parse("  # nothing"), Ok(None));
        for (line, why) in [
            ("a b c .", "the subject is neither"),
            ("<a:s> <a:p> <a:o>", "does not end with a full stop"),
            ("<a:s> <a:p> \"x .", "the object has no closing quote"),
            ("<a:s> <a:p> \"\\q\" .", "the object has the unknown escape \\q"),
            ("<a:s> <a:p> \"\\ud800\" .", "which is not a character"),
            ("<a:s <a:p> <a:o> .", "the subject is not an address"),
        ] {
            assert!(parse(line).unwrap_err().contains(why), "{line}: {:?}", parse(line));
        }
    }

    #[test]
    fn triples_in_any_order_become_nodes_fields_and_edges() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("shop.nt");
        let lines = "<http://x/b1> <http://s#madeBy> <http://x/n> .\n\
            <http://x/n> <http://www.w3.org/2000/01/rdf-schema#label> \"Nordgipfel\"@de .\n\
            <http://x/b1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://s#Bottle> .\n\
            <http://x/b1> <http://s#tag> \"steel\" .\n\
            <http://x/n> <http://www.w3.org/2000/01/rdf-schema#label> \"Northpeak\"@en .\n\
            <http://x/b1> <http://s#tag> \"blue\" .\n\
            <http://x/n> <http://p/dc/terms/title> \"Northpeak Works\" .\n\
            <http://x/b1> <http://p/dc/terms/title> \"The Bottle\" .\n\
            <http://x/b1> <http://www.w3.org/2000/01/rdf-schema#label> \"bottle 1\" .\n";
        fs::write(&file, lines).unwrap();
        let home = Home::new(dir.path().join("home"));
        let options = ImportOptions::default();
        let stop = AtomicBool::new(false);
        let report = import_triples(&file, &home, "x", &options, &mut |_| {}, &stop).unwrap();
        let kb = Kb::open(&report.base.kb_dir()).unwrap();
        assert_eq!((kb.name(0), kb.name(1)), ("bottle 1", "Northpeak"));
        // A second name is a field, whichever came first; names in other languages are not.
        let title = kb.field_id("title").unwrap();
        assert_eq!(kb.field(0, title), Some("The Bottle"));
        assert_eq!(kb.field(1, title), Some("Northpeak Works"));
        assert_eq!(kb.field_id("label"), None);
        assert_eq!(
            (kb.type_name(kb.node_type(0)), kb.type_name(kb.node_type(1))),
            ("Bottle", "resource")
        );
        assert_eq!(kb.nodes_of_key("http://x/n"), [1]);
        assert_eq!(kb.field(0, kb.field_id("tag").unwrap()), Some("steel; blue"));
        let made_by = kb.relation_id("madeBy").unwrap();
        assert_eq!(*kb.neighbors(0, made_by, Direction::Out), [1]);
        fs::write(&file, "<a:b> <a:c> .\n").unwrap();
        let error = import_triples(&file, &home, "x", &options, &mut |_| {}, &stop).unwrap_err();
        assert!(error.to_string().contains("shop.nt:1: the object is neither"), "{error}");
    }

    #[test]
    fn names_and_predicates_count_as_held() {
        let long = "x".repeat(1_000);
        let held = |names: &[(&str, bool)]| {
            let mut triples = Triples::default();
            for &(text, is_foreign) in names {
                let object = Object::Text { text: text.to_owned(), is_foreign };
                triples.add("a:s", "a:label", object, 1);
            }
            triples.held_bytes
        };
        assert_eq!(held(&[(long.as_str(), false)]), held(&[("", false)]) + 1_000);
        // A name in another language is dropped for an English one.
        assert_eq!(held(&[(long.as_str(), true), ("y", false)]), held(&[("y", false)]));
        let linked = |predicate: &str| {
            let mut triples = Triples::default();
            triples.add("a:s", predicate, Object::Node("a:o".to_owned()), 1);
            triples.held_bytes
        };
        assert!(linked(&format!("a:{long}")) >= linked("a:p") + 999);
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "[<>a:\"\\\\@^ ._u0-9é]{0,40}") {
            let _ = parse(&line);
        }
    }
}
