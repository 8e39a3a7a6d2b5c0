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

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::{
    DatasetError, Home, ImportOptions, ImportReport, Phase, ProblemKind, Progress,
    error::{Fault, Problems},
    ids::{Ids, in_range},
    install::{Install, Watch},
    lines::{Line, Lines, MAX_LINE_BYTES},
    links,
    render::{MAX_DOCUMENT_BYTES, Template, render_field, render_text},
};
use agent_ground::{files, words::Languages};
use agent_kb::{KbError, KbMeta, KbWriter, NodeId};

/// First line of an edges file.
pub const EDGES_HEADER: &str = "src_id\trelation\tdst_id";
/// Maximum number of nodes that a lenient import inserts for missing ids.
pub const MAX_FILLER_NODES: u32 = 1_000_000;
/// Name of the type of nodes inserted for missing ids.
const FILLER_TYPE: &str = "unknown";
/// Maximum size of `dataset.toml`, in bytes.
const MAX_TOML_BYTES: u64 = 1 << 20;
/// Number of lines between two progress reports and checks of the stop flag.
const LINES_PER_REPORT: u64 = 4096;

/// Imports the directory `source` as base `name` of `home`. An installed base with that name is
/// replaced, or gets a next version, see [`ImportOptions::as_next_version`].
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
) -> Result<ImportReport, DatasetError> {
    let mut watch = Watch { on_progress, stop };
    links::refuse_outside(source)?;
    let mut install = Install::begin(home, name, source, options)?;
    let (meta, templates) = read_toml(source)?;
    let nodes = required(source, "nodes.jsonl")?;
    let edges = required(source, "edges.tsv")?;
    let nodes_file = file_name(nodes.path());

    let Install { writer, problems, lost_nodes, .. } = &mut install;
    let (naming, filled) = read_nodes(nodes, &templates, writer, problems, lost_nodes, &mut watch)?;
    install.filler_nodes = filled;
    install.n_pushed = read_edges(
        edges,
        &naming,
        (&nodes_file, install.lost_nodes),
        &mut install.writer,
        &mut install.problems,
        &mut watch,
    )?;
    drop(naming);
    install.templates = templates;
    install.finish(meta, source, &mut watch)
}

fn required(source: &Path, file: &'static str) -> Result<Lines, DatasetError> {
    Lines::find(source, file)?
        .ok_or_else(|| DatasetError::MissingFile { dir: source.to_path_buf(), file })
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct DatasetToml {
    title: String,
    licence: String,
    candidate_types: Vec<String>,
    language: Option<Languages>,
    templates: BTreeMap<String, String>,
    /// The section `[sample]`, which says how a generated base was made; ignored.
    #[serde(rename = "sample")]
    _sample: IgnoredAny,
}

/// Document templates by node type.
pub(super) type Templates = BTreeMap<String, Template>;

pub(super) fn read_toml(source: &Path) -> Result<(KbMeta, Templates), DatasetError> {
    let path = source.join("dataset.toml");
    let bytes = match files::read(&path, MAX_TOML_BYTES) {
        // If the source is a single file, `dataset.toml` cannot exist.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Vec::new()
        }
        read => read.map_err(DatasetError::io("read", &path))?,
    };
    let bad = |message| DatasetError::BadToml { path: path.clone(), line: 0, message };
    let text =
        String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8; convert it to UTF-8".into()))?;
    let parsed: DatasetToml = toml::from_str(&text).map_err(|error| {
        let keys = "the keys are title, licence, candidate_types, language, templates";
        DatasetError::bad_toml(&path, &text, &error, keys)
    })?;
    let mut templates = Templates::new();
    for (node_type, text) in parsed.templates {
        let template = Template::parse(&text)
            .map_err(|why| bad(format!("the template of \"{node_type}\" {why}")))?;
        templates.insert(node_type, template);
    }
    let meta = KbMeta {
        title: parsed.title,
        licence: parsed.licence,
        candidate_types: parsed.candidate_types,
        languages: parsed.language,
    };
    Ok((meta, templates))
}

pub(super) fn file_name(path: &Path) -> String {
    let full: PathBuf = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    full.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the text of a line. If the line is too long or not UTF-8, adds a problem and returns
/// `None`.
pub(super) fn text_of<'a>(
    line: Line<'a>,
    path: &Path,
    number: u64,
    problems: &mut Problems,
) -> Option<&'a str> {
    let bytes = match line {
        Line::Bytes(bytes) => bytes,
        Line::TooLong => {
            let message = format!("line of more than {MAX_LINE_BYTES} bytes");
            let fault = Fault::new(ProblemKind::LineTooLong, message, "shorten its texts");
            problems.add(path, number, fault);
            return None;
        }
    };
    let text = std::str::from_utf8(bytes);
    if let Err(error) = &text {
        let message = format!("byte {} is not UTF-8", error.valid_up_to() + 1);
        let fault = Fault::new(ProblemKind::NotUtf8, message, "convert the file to UTF-8");
        problems.add(path, number, fault.with_excerpt(&String::from_utf8_lossy(bytes)));
    }
    text.ok()
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

/// Writes all nodes; returns how ids identify nodes, and the number of nodes inserted for missing
/// ids. Sets `lost` if a line yielded no node; an unknown id may then refer to such a line.
fn read_nodes(
    mut lines: Lines,
    templates: &Templates,
    writer: &mut KbWriter,
    problems: &mut Problems,
    lost: &mut bool,
    watch: &mut Watch<'_>,
) -> Result<(Naming, u32), DatasetError> {
    let path = lines.path().to_path_buf();
    let total = lines.stored_bytes();
    let bytes_read = lines.counter();
    let mut naming = None;
    let mut filler_nodes = 0u32;
    watch.report(Phase::Nodes, 0, total)?;
    while let Some((number, line)) = lines.next()? {
        if number.is_multiple_of(LINES_PER_REPORT) {
            watch.report(Phase::Nodes, bytes_read.load(Ordering::Relaxed), total)?;
        }
        let Some(text) = text_of(line, &path, number, problems) else {
            *lost = true;
            continue;
        };
        if text.trim_ascii().is_empty() {
            continue;
        }
        let node: NodeLine = match serde_json::from_str(text) {
            Ok(node) => node,
            Err(error) => {
                let hint = "write one {\"id\": \"..\", \"type\": \"..\", \"name\": \"..\", \
                    \"details\": {}} per line";
                let fault = Fault::new(ProblemKind::BadJson, json_message(&error), hint);
                problems.add(&path, number, fault.with_excerpt(text));
                *lost = true;
                continue;
            }
        };
        if let Some(key) = &node.unknown_key {
            let message = format!("unknown key \"{key}\"");
            let fault = Fault::new(ProblemKind::UnknownKey, message, "put it into details");
            problems.add(&path, number, fault.with_excerpt(text));
        }
        let naming = naming.get_or_insert_with(|| match node.id {
            NodeKey::Number(0) => Naming::Numbers,
            _ => Naming::Keys(Ids::default()),
        });
        let fault = match naming {
            Naming::Numbers => {
                let (filled, place) = ((&mut filler_nodes, *lost), (path.as_path(), number));
                push_numbered(&node, filled, templates, writer, problems, place)?
            }
            Naming::Keys(ids) => {
                let fault = push_keyed(&node, ids, templates, writer)?;
                // A node with a repeated id exists.
                *lost |= fault.as_ref().is_some_and(|of| of.kind != ProblemKind::DuplicateId);
                fault
            }
        };
        if let Some(fault) = fault {
            problems.add(&path, number, fault.with_excerpt(text));
        }
    }
    if writer.n_nodes() == 0 {
        // The problems of the lines explain why there are no nodes.
        std::mem::take(problems).finish()?;
        return Err(DatasetError::NoNodes { path });
    }
    watch.report(Phase::Nodes, total, total)?;
    Ok((naming.unwrap_or(Naming::Numbers), filler_nodes))
}

/// Writes a node that is identified by number, or returns its fault. Inserts empty nodes for the
/// numbers skipped before it, and adds their number to `filled`; `lost` says whether earlier lines
/// yielded no node.
fn push_numbered(
    node: &NodeLine,
    (filled, lost): (&mut u32, bool),
    templates: &Templates,
    writer: &mut KbWriter,
    problems: &mut Problems,
    (path, number): (&Path, u64),
) -> Result<Option<Fault>, DatasetError> {
    let hint = "number the nodes 0, 1, 2, ... in file order, or write all ids as texts";
    let id = match &node.id {
        NodeKey::Number(id) => *id,
        NodeKey::Text(id) => {
            let message = format!("id \"{id}\" is a text, but the first id is the number 0");
            return Ok(Some(Fault::new(ProblemKind::BadId, message, hint)));
        }
    };
    let expected = writer.n_nodes();
    if id < u64::from(expected) {
        let message = format!("id {id} occurs twice or out of order");
        return Ok(Some(Fault::new(ProblemKind::DuplicateId, message, hint)));
    }
    if id - u64::from(expected) > u64::from(MAX_FILLER_NODES - *filled) {
        let path = path.to_path_buf();
        return Err(DatasetError::TooManyMissingIds { path, limit: MAX_FILLER_NODES });
    }
    for missing in u64::from(expected)..id {
        let message = format!("id {missing} is missing, this line has id {id}");
        let fault = Fault::new(ProblemKind::MissingId, message, hint);
        problems.add_maybe_consequence(lost, path, number, fault);
        push_filler(writer)?;
        *filled += 1;
    }
    let fault = node.content().push(None, templates, writer)?;
    if fault.is_some() {
        // An empty node takes the id, so that references to it stay valid.
        push_filler(writer)?;
        *filled += 1;
    }
    Ok(fault)
}

/// Writes a node that is identified by key, or returns its fault.
fn push_keyed(
    node: &NodeLine,
    ids: &mut Ids,
    templates: &Templates,
    writer: &mut KbWriter,
) -> Result<Option<Fault>, DatasetError> {
    let key = node.id.clone().into_text();
    if ids.get(KEY_SPACE, &key).is_some() {
        let message = format!("id \"{key}\" occurs twice");
        let hint = "keep one of the two nodes";
        return Ok(Some(Fault::new(ProblemKind::DuplicateId, message, hint)));
    }
    let id = writer.n_nodes();
    let fault = node.content().push(Some(&key), templates, writer)?;
    if fault.is_none() {
        ids.insert(KEY_SPACE, &key, id);
    }
    Ok(fault)
}

impl NodeLine {
    fn content(&self) -> Content<'_> {
        Content { node_type: &self.node_type, name: &self.name, details: &self.details }
    }
}

/// Type, name and details of a node, whatever the format of its file.
pub(super) struct Content<'a> {
    pub(super) node_type: &'a str,
    pub(super) name: &'a str,
    pub(super) details: &'a Map<String, Value>,
}

impl Content<'_> {
    /// Writes the node with its document, or returns the fault of its content.
    pub(super) fn push(
        &self,
        key: Option<&str>,
        templates: &Templates,
        writer: &mut KbWriter,
    ) -> Result<Option<Fault>, DatasetError> {
        let Content { node_type, name, details } = self;
        let text = match templates.get(*node_type) {
            Some(template) => template.render(name, node_type, details),
            None => Some(render_text(name, node_type, details)),
        };
        let Some(text) = text else {
            let message = format!(
                "its document exceeds {MAX_DOCUMENT_BYTES} bytes with the template of its type"
            );
            let hint = "shorten the template or the node's texts";
            return Ok(Some(Fault::new(ProblemKind::LineTooLong, message, hint)));
        };
        let fields: Vec<(String, String)> = details
            .iter()
            .map(|(field, value)| (field.clone(), render_field(value)))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let pushed = match key {
            Some(key) => writer.push_keyed_node(key, node_type, name, &text, &fields),
            None => writer.push_node(node_type, name, &text, &fields),
        };
        match pushed {
            Ok(_) => Ok(None),
            Err(error) => label_fault(error).map(Some),
        }
    }
}

/// Converts the error for an invalid key, or for an invalid type, relation or field name, to a
/// fault.
///
/// # Errors
/// Any other error is returned unchanged.
pub(super) fn label_fault(error: KbError) -> Result<Fault, DatasetError> {
    match error {
        KbError::BadLabel { .. }
        | KbError::ControlInLabel { .. }
        | KbError::TooMany { what: "types" | "relations" | "fields", .. } => {
            let text = error.to_string();
            let (message, hint) = text.split_once("; ").unwrap_or((&text, "rename it in the data"));
            Ok(Fault::new(ProblemKind::BadLabel, message, hint))
        }
        error => Err(error.into()),
    }
}

fn push_filler(writer: &mut KbWriter) -> Result<(), DatasetError> {
    let text = render_text("", FILLER_TYPE, &Map::new());
    writer.push_node(FILLER_TYPE, "", &text, &[])?;
    Ok(())
}

/// Writes all edges; returns their number, duplicates included. `lost` says whether some lines of
/// the nodes file yielded no node.
fn read_edges(
    mut lines: Lines,
    naming: &Naming,
    (nodes_file, lost): (&str, bool),
    writer: &mut KbWriter,
    problems: &mut Problems,
    watch: &mut Watch<'_>,
) -> Result<u64, DatasetError> {
    let path = lines.path().to_path_buf();
    let total = lines.stored_bytes();
    let bytes_read = lines.counter();
    let n_nodes = writer.n_nodes();
    let mut n_pushed = 0u64;
    watch.report(Phase::Edges, 0, total)?;
    let header = match lines.next()? {
        Some((number, line)) => text_of(line, &path, number, problems).unwrap_or_default(),
        None => "",
    };
    if header != EDGES_HEADER {
        let found: String = header.chars().take(100).collect();
        let message = format!("the header is {found:?}, not {EDGES_HEADER:?}");
        let hint = "begin the file with that line, tab-separated";
        problems.add(&path, 1, Fault::new(ProblemKind::WrongHeader, message, hint));
    }
    while let Some((number, line)) = lines.next()? {
        if number.is_multiple_of(LINES_PER_REPORT) {
            watch.report(Phase::Edges, bytes_read.load(Ordering::Relaxed), total)?;
        }
        let Some(text) = text_of(line, &path, number, problems) else { continue };
        if text.is_empty() {
            continue;
        }
        let Some((source, relation, target)) = split_columns(text) else {
            let n = text.split('\t').count();
            let message = format!("{n} columns, not 3");
            let hint = "write source, relation, target with tabs";
            let fault = Fault::new(ProblemKind::RaggedRow, message, hint);
            problems.add(&path, number, fault.with_excerpt(text));
            continue;
        };
        let ends = find(source, naming, nodes_file, n_nodes)
            .and_then(|source| Ok((source, find(target, naming, nodes_file, n_nodes)?)));
        let (source, target) = match ends {
            Ok(ends) => ends,
            Err(fault) => {
                let follows = lost && fault.kind == ProblemKind::UnknownNode;
                problems.add_maybe_consequence(follows, &path, number, fault.with_excerpt(text));
                continue;
            }
        };
        match writer.push_edge(source, relation, target) {
            Ok(()) => n_pushed += 1,
            Err(error) => problems.add(&path, number, label_fault(error)?.with_excerpt(text)),
        }
    }
    watch.report(Phase::Edges, total, total)?;
    Ok(n_pushed)
}

/// Finds the node to which an id in the edges file refers.
fn find(id: &str, naming: &Naming, nodes_file: &str, n_nodes: u32) -> Result<NodeId, Fault> {
    let (found, range) = match naming {
        Naming::Numbers => {
            let Ok(number) = id.parse::<u64>() else {
                let message =
                    format!("the id {id:?} is not a number, unlike those of {nodes_file}");
                let hint = "use the ids of the nodes, or write those as texts too";
                return Err(Fault::new(ProblemKind::BadId, message, hint));
            };
            let range = format!("ids from 0 to {}", n_nodes.saturating_sub(1));
            (in_range(number, n_nodes), range)
        }
        Naming::Keys(ids) => (ids.get(KEY_SPACE, id), ids.describe(KEY_SPACE)),
    };
    found.ok_or_else(|| {
        let message = format!("no node has the id \"{id}\"");
        let hint = format!(
            "{nodes_file} has {range}; add the node, or import with --lenient to leave such edges \
             out and count them"
        );
        Fault::new(ProblemKind::UnknownNode, message, hint)
    })
}

/// Splits a line of the edges file into its three columns; `None` if there are not exactly three.
/// Ids are short, so tabs are searched from both ends.
fn split_columns(text: &str) -> Option<(&str, &str, &str)> {
    let is_tab = |byte: u8| byte == b'\t';
    let first = text.bytes().position(is_tab)?;
    let last = text.bytes().rposition(is_tab)?;
    let relation = text.get(first + 1..last)?;
    let row = (text.get(..first)?, relation, text.get(last + 1..)?);
    (!relation.as_bytes().contains(&b'\t')).then_some(row)
}

/// Id of a node in `nodes.jsonl`: a number or a text. A negative integer is stored as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeKey {
    Number(u64),
    Text(String),
}

impl NodeKey {
    pub(super) fn into_text(self) -> String {
        match self {
            NodeKey::Number(number) => number.to_string(),
            NodeKey::Text(text) => text,
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
