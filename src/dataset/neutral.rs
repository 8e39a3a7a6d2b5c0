//! Imports a directory in the neutral format (see the module docs of `dataset`) by streaming.
//!
//! If the first id is the number 0, ids must be 0, 1, 2, ... in file order, and they become the
//! node numbers. Otherwise the ids may be any texts or numbers; they are stored as keys, and nodes
//! are numbered in file order. No two nodes of a base may have the same key, even if their types
//! differ.
//!
//! A strict import reads the input to its end, then fails with all problems and leaves no files
//! behind. A lenient import skips invalid lines, counts them by kind, and fills missing ids with
//! empty nodes of type `unknown`. Both drop and count duplicate edges.

use std::{collections::BTreeMap, fmt, fs, io, path::Path, sync::atomic::AtomicBool};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::{
    DatasetError, Home, ImportOptions, ImportReport, Phase, ProblemKind, Progress, Result,
    error::{Fault, LineError},
    ids::{Ids, in_range},
    install::{Content, GraphWriter, Install, Watch},
    lines::Lines,
    links,
    render::{Template, render_text},
    tables::file_name,
};
use agent_ground::{files, words::Languages};
use agent_kb::{KbMeta, NodeId};

/// First line of an edges file.
pub const EDGES_HEADER: &str = "src_id\trelation\tdst_id";
/// Maximum number of nodes that a lenient import inserts for missing ids.
pub const MAX_FILLER_NODES: u32 = 1_000_000;
/// Name of the type of nodes inserted for missing ids.
const FILLER_TYPE: &str = "unknown";
/// Name of the file that describes a dataset.
pub(super) const TOML_FILE: &str = "dataset.toml";
/// Maximum size of this file, in bytes.
const MAX_TOML_BYTES: u64 = 1 << 20;
/// Imports the directory `source` as base `name` of `home`. An installed base with that name is
/// replaced, or gets a new version, see [`ImportOptions::as_next_version`].
///
/// Calls `on_progress` and checks `stop` several times per second. Memory: 100 MiB, plus about 8 to
/// 16 bytes per edge and 10 per node; for a node with a key, also 60 bytes plus twice the key's
/// length. Memory does not depend on the length of the texts.
///
/// # Errors
/// Any [`DatasetError`]; no files are then left behind, and an installed base with that name is
/// unchanged.
pub fn import_neutral(
    source: &Path,
    home: &Home,
    name: &str,
    options: &ImportOptions,
    on_progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<ImportReport> {
    let mut watch = Watch { on_progress, stop };
    links::refuse_outside(source)?;
    let mut install = Install::begin(home, name, source, options)?;
    (install.meta, install.graph.templates) = read_toml(source)?;
    let nodes = required(source, "nodes.jsonl")?;
    let edges = required(source, "edges.tsv")?;
    let nodes_file = file_name(&fs::canonicalize(&nodes.path).unwrap_or(nodes.path.clone()));
    let naming = read_nodes(nodes, &mut install, &mut watch)?;
    read_edges(edges, &naming, &nodes_file, &mut install, &mut watch)?;
    drop(naming);
    install.finish(&mut watch)
}

fn required(source: &Path, file: &str) -> Result<Lines> {
    Lines::find(source, file)?.ok_or_else(|| {
        let dir = source.display();
        DatasetError::BadInput(format!(
            "{dir} has no {file}, {file}.gz or {file}.zst; add one, or import tables with \
             `agent data guess`"
        ))
    })
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct DatasetToml {
    title: String,
    licence: String,
    candidate_types: Vec<String>,
    language: Option<Languages>,
    said_as: BTreeMap<String, Vec<String>>,
    templates: BTreeMap<String, String>,
    /// The section `[sample]`, which records how a generated base was made; ignored.
    #[serde(rename = "sample")]
    _sample: IgnoredAny,
}

/// Document templates by node type.
pub(super) type Templates = BTreeMap<String, Template>;

pub(super) fn read_toml(source: &Path) -> Result<(KbMeta, Templates)> {
    let path = source.join(TOML_FILE);
    let bytes = match files::read(&path, MAX_TOML_BYTES) {
        // If the source is a single file, `dataset.toml` cannot exist.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Vec::new()
        }
        read => read.map_err(DatasetError::io("read", &path))?,
    };
    let text = String::from_utf8(bytes)
        .map_err(|_| DatasetError::bad_input(&path, "it is not UTF-8; convert it to UTF-8"))?;
    let parsed: DatasetToml = toml::from_str(&text).map_err(|error| {
        let keys = "the keys are title, licence, candidate_types, language, said_as, templates";
        DatasetError::bad_toml(&path, &text, &error, keys)
    })?;
    let mut templates = Templates::new();
    for (node_type, text) in parsed.templates {
        let template = Template::parse(&text).map_err(|why| {
            DatasetError::bad_input(&path, format!("the template of \"{node_type}\" {why}"))
        })?;
        templates.insert(node_type, template);
    }
    let meta = KbMeta {
        title: parsed.title,
        licence: parsed.licence,
        candidate_types: parsed.candidate_types,
        languages: parsed.language,
        said_as: parsed.said_as,
    };
    Ok((meta, templates))
}

/// How the edges of a dataset identify nodes.
enum Naming {
    /// By node number: the ids are 0, 1, 2, ... in file order.
    Numbers,
    /// By key: the ids are any texts or numbers.
    Keys(Ids),
}

/// Name of the only key space, which all node types share.
const KEY_SPACE: &str = "";

/// Writes all nodes; returns how ids identify nodes. Sets `install.lost_nodes` if a line yielded no
/// node, because an unknown id may refer to such a line.
fn read_nodes(mut lines: Lines, install: &mut Install, watch: &mut Watch<'_>) -> Result<Naming> {
    let path = lines.path.clone();
    let mut naming = None;
    while let Some((number, line)) = lines.next_of(Phase::Nodes, watch)? {
        let Some(text) = install.problems.ok(&path, number, line.text())? else {
            install.lost_nodes = true;
            continue;
        };
        if text.trim_ascii().is_empty() {
            continue;
        }
        let read = read_node(text, (&path, number), &mut naming, install).map_err(|error| {
            error.map(|fault| {
                install.lost_nodes |= match fault.kind {
                    ProblemKind::BadJson => true,
                    // An earlier line has already defined the node.
                    ProblemKind::DuplicateId => false,
                    // A filler node takes the number of an invalid node.
                    _ => matches!(naming, Some(Naming::Keys(_))),
                };
                fault.with_excerpt(text)
            })
        });
        install.problems.ok(&path, number, read)?;
    }
    if install.graph.writer.n_nodes() == 0 {
        // The problems of the lines explain why there are no nodes.
        std::mem::take(&mut install.problems).finish()?;
        return Err(DatasetError::no_nodes(&path));
    }
    Ok(naming.unwrap_or(Naming::Numbers))
}

/// Writes the node in a line.
fn read_node(
    text: &str,
    (path, number): (&Path, u64),
    naming: &mut Option<Naming>,
    install: &mut Install,
) -> Result<(), LineError> {
    let node: NodeLine = serde_json::from_str(text).map_err(|error| {
        let hint = "write one {\"id\": \"..\", \"type\": \"..\", \"name\": \"..\", \
            \"details\": {}} per line";
        Fault::new(ProblemKind::BadJson, json_message(&error), hint)
    })?;
    if let Some(key) = &node.unknown_key {
        let message = format!("unknown key \"{key}\"");
        let fault = Fault::new(ProblemKind::UnknownKey, message, "put it into details");
        install.problems.add(path, number, fault.with_excerpt(text));
    }
    let naming = naming.get_or_insert_with(|| match node.id {
        NodeKey::Number(0) => Naming::Numbers,
        _ => Naming::Keys(Ids::default()),
    });
    let content = Content { node_type: &node.node_type, name: &node.name, details: &node.details };
    match naming {
        Naming::Numbers => push_numbered(&node.id, &content, (path, number), install),
        Naming::Keys(ids) => push_keyed(&node.id.to_string(), &content, ids, install),
    }
}

/// Writes a node that is identified by number. Inserts empty nodes for the numbers skipped before
/// it, and for the node itself if it is invalid.
fn push_numbered(
    id: &NodeKey,
    content: &Content<'_>,
    (path, number): (&Path, u64),
    install: &mut Install,
) -> Result<(), LineError> {
    let hint = "number the nodes 0, 1, 2, ... in file order, or write all ids as texts";
    let id = match id {
        NodeKey::Number(id) => *id,
        NodeKey::Text(id) => {
            let message = format!("id \"{id}\" is a text, but the first id is the number 0");
            return Err(Fault::new(ProblemKind::BadId, message, hint).into());
        }
    };
    let expected = u64::from(install.graph.writer.n_nodes());
    if id < expected {
        let message = format!("id {id} occurs twice or out of order");
        return Err(Fault::new(ProblemKind::DuplicateId, message, hint).into());
    }
    if id - expected > u64::from(MAX_FILLER_NODES - install.filler_nodes) {
        let message = format!(
            "more than {MAX_FILLER_NODES} node ids are missing; number the nodes 0, 1, 2, ..."
        );
        return Err(DatasetError::bad_input(path, message).into());
    }
    for missing in expected..id {
        let message = format!("id {missing} is missing: this line has id {id}");
        let fault = Fault::new(ProblemKind::MissingId, message, hint);
        install.problems.add(path, number, fault.following(install.lost_nodes));
        push_filler(install)?;
    }
    let pushed = install.graph.push_node(None, content);
    if let Err(LineError::Fault(_)) = pushed {
        // An empty node takes the id, so that references to it stay valid.
        push_filler(install)?;
    }
    pushed.map(drop)
}

/// Writes a node that is identified by key.
fn push_keyed(
    key: &str,
    content: &Content<'_>,
    ids: &mut Ids,
    install: &mut Install,
) -> Result<(), LineError> {
    if ids.get(KEY_SPACE, key).is_some() {
        let message = format!("id \"{key}\" occurs twice");
        let hint = "keep one of the two nodes";
        return Err(Fault::new(ProblemKind::DuplicateId, message, hint).into());
    }
    let node = install.graph.push_node(Some(key), content)?;
    ids.insert(KEY_SPACE, key, node);
    Ok(())
}

fn push_filler(install: &mut Install) -> Result<()> {
    let text = render_text("", FILLER_TYPE, &Map::new());
    install.graph.writer.push_node(FILLER_TYPE, "", &text, &[])?;
    install.filler_nodes += 1;
    Ok(())
}

/// Writes all edges.
fn read_edges(
    mut lines: Lines,
    naming: &Naming,
    nodes_file: &str,
    install: &mut Install,
    watch: &mut Watch<'_>,
) -> Result<()> {
    let path = lines.path.clone();
    let Install { graph, problems, lost_nodes, .. } = install;
    let header = match lines.next_of(Phase::Edges, watch)? {
        Some((number, line)) => problems.ok(&path, number, line.text())?.unwrap_or_default(),
        None => "",
    };
    if header != EDGES_HEADER {
        let found: String = header.chars().take(100).collect();
        let message = format!("the header is {found:?}, not {EDGES_HEADER:?}");
        let hint = "the first line must be that header, separated by tabs";
        problems.add(&path, 1, Fault::new(ProblemKind::WrongHeader, message, hint));
    }
    while let Some((number, line)) = lines.next_of(Phase::Edges, watch)? {
        let Some(text) = problems.ok(&path, number, line.text())? else { continue };
        if text.is_empty() {
            continue;
        }
        let read = read_edge(text, naming, nodes_file, graph).map_err(|error| {
            error.map(|fault| {
                let follows = *lost_nodes && fault.kind == ProblemKind::UnknownNode;
                fault.with_excerpt(text).following(follows)
            })
        });
        problems.ok(&path, number, read)?;
    }
    Ok(())
}

/// Writes the edge in a line.
fn read_edge(
    text: &str,
    naming: &Naming,
    nodes_file: &str,
    graph: &mut GraphWriter,
) -> Result<(), LineError> {
    let mut columns = text.split('\t');
    let mut next = || columns.next();
    let (Some(source), Some(relation), Some(target), None) = (next(), next(), next(), next())
    else {
        let message = format!("{} columns, not 3", text.split('\t').count());
        let hint = "write source, relation, target with tabs";
        return Err(Fault::new(ProblemKind::RaggedRow, message, hint).into());
    };
    let n_nodes = graph.writer.n_nodes();
    let source = find(source, naming, nodes_file, n_nodes)?;
    let target = find(target, naming, nodes_file, n_nodes)?;
    graph.push_edge(source, relation, target)
}

/// Finds the node to which an id in the edges file refers.
fn find(id: &str, naming: &Naming, nodes_file: &str, n_nodes: u32) -> Result<NodeId, Fault> {
    let found = match naming {
        Naming::Numbers => {
            let number = id.parse().map_err(|_| {
                let message =
                    format!("the id {id:?} is not a number, unlike the ids in {nodes_file}");
                let hint = "use the ids of the nodes, or write the nodes' ids as texts too";
                Fault::new(ProblemKind::BadId, message, hint)
            })?;
            in_range(number, n_nodes)
        }
        Naming::Keys(ids) => ids.get(KEY_SPACE, id),
    };
    found.ok_or_else(|| {
        let range = match naming {
            Naming::Numbers => format!("ids from 0 to {}", n_nodes.saturating_sub(1)),
            Naming::Keys(ids) => ids.describe(KEY_SPACE),
        };
        Fault::unknown_node(format!("no node has the id \"{id}\""), nodes_file, &range, "node")
    })
}

/// Id of a node in `nodes.jsonl`: a number or a text. A negative integer is stored as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeKey {
    Number(u64),
    Text(String),
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeKey::Number(number) => number.fmt(f),
            NodeKey::Text(text) => f.write_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for NodeKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeKey, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(NodeKey::Text(text)),
            Value::Number(number) => match number.as_u64() {
                Some(number) => Ok(NodeKey::Number(number)),
                None if number.is_i64() => Ok(NodeKey::Text(number.to_string())),
                None => Err(D::Error::custom(format_args!("id {number} is not an integer"))),
            },
            _ => Err(D::Error::custom("the id is neither a text nor a number")),
        }
    }
}

/// One line of `nodes.jsonl`.
struct NodeLine {
    id: NodeKey,
    node_type: String,
    name: String,
    details: Map<String, Value>,
    unknown_key: Option<String>,
}

impl<'de> Deserialize<'de> for NodeLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeLine, D::Error> {
        deserializer.deserialize_map(NodeLineVisitor)
    }
}

struct NodeLineVisitor;

impl<'de> Visitor<'de> for NodeLineVisitor {
    type Value = NodeLine;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with id, type, name and details")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NodeLine, A::Error> {
        let (mut id, mut node_type, mut name) = (None, None, None);
        let (mut details, mut unknown_key) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            let twice = match key.as_str() {
                "id" => id.replace(map.next_value()?).is_some(),
                "type" => node_type.replace(map.next_value()?).is_some(),
                "name" => name.replace(map.next_value()?).is_some(),
                "details" => {
                    let value: Option<Map<String, Value>> = map.next_value()?;
                    details.replace(value.unwrap_or_default()).is_some()
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    unknown_key.get_or_insert_with(|| key.clone());
                    false
                }
            };
            if twice {
                return Err(A::Error::custom(format_args!("key \"{key}\" occurs twice")));
            }
        }
        Ok(NodeLine {
            id: id.ok_or_else(|| A::Error::missing_field("id"))?,
            node_type: node_type.ok_or_else(|| A::Error::missing_field("type"))?,
            name: name.ok_or_else(|| A::Error::missing_field("name"))?,
            details: details.unwrap_or_default(),
            unknown_key,
        })
    }
}

/// Returns the message of the JSON parser with the column, but without the line number, which is
/// always 1.
pub(super) fn json_message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or_default();
    let column = error.column();
    format!("{message} (column {column})")
}
