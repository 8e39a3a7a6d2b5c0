//! Imports a directory in neutral format (see the module docs of `dataset`) by streaming.
//! Must not know how a base is stored, nor what its queries are for.
//!
//! A strict import ends at the first wrong line and leaves nothing behind. A lenient one leaves
//! wrong lines out, counts them by kind and fills missing ids with empty nodes of type
//! `unknown`. Duplicate edges are dropped and counted in both.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::{
    dataset::{
        Base, DatasetError, Home, ProblemCount, ProblemKind,
        error::Problems,
        home::Staging,
        lines::{Line, Lines, MAX_LINE_BYTES},
        queries::{QuerySources, import_queries},
        render::{MAX_DOCUMENT_BYTES, Template, render_field, render_text},
    },
    files,
    kb::{KbError, KbMeta, KbWriter},
};

/// First line of an edges file.
pub const EDGES_HEADER: &str = "src_id\trelation\tdst_id";
/// Most nodes that a lenient import fills in for missing ids.
pub const MAX_FILLER_NODES: u32 = 1_000_000;
/// Type of the nodes that a lenient import fills in.
const FILLER_TYPE: &str = "unknown";
/// Longest `dataset.toml` in bytes.
const MAX_TOML_BYTES: u64 = 1 << 20;
/// Lines between two looks at the stop flag and two progress reports.
const LINES_PER_REPORT: u64 = 4096;

/// What an import does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Leave wrong lines out and count them, instead of ending at the first.
    pub lenient: bool,
    /// Put the import beside an indexed base of that name, which stays current until
    /// [`Home::make_current`] is called for the new one, instead of replacing it at once.
    pub beside: bool,
}

/// Which part of an import is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading nodes; unit: bytes of the file as stored, or as often as it is read.
    Nodes,
    /// Reading edges; unit: bytes of the file as stored, or edges.
    Edges,
    /// Sorting and writing the graph; unit: edges.
    Graph,
    /// Reading queries and splits; unit: files.
    Queries,
}

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The part.
    pub phase: Phase,
    /// Units done, see [`Phase`].
    pub done: u64,
    /// Units in all.
    pub total: u64,
}

/// What an import did.
#[derive(Clone, Debug)]
pub struct ImportReport {
    /// The installed base, with its counts.
    pub base: Base,
    /// Edges that were there before, and were dropped.
    pub duplicate_edges: u64,
    /// Empty nodes filled in for missing ids.
    pub filler_nodes: u32,
    /// Values that are kept as the text that Python prints of them, such as dates; a file of the
    /// STaRK benchmark may have some.
    pub printed_values: u64,
    /// Wrong lines by kind; empty after a strict import.
    pub problems: Vec<ProblemCount>,
}

/// Passes progress on and turns a raised stop flag into an error.
pub(super) struct Watch<'a> {
    pub(super) on_progress: &'a mut dyn FnMut(Progress),
    pub(super) stop: &'a AtomicBool,
}

impl Watch<'_> {
    pub(super) fn report(
        &mut self,
        phase: Phase,
        done: u64,
        total: u64,
    ) -> Result<(), DatasetError> {
        (self.on_progress)(Progress { phase, done, total });
        if self.stop.load(Ordering::Relaxed) { Err(DatasetError::Stopped) } else { Ok(()) }
    }
}

/// Imports the directory `source` as base `name` of `home`, replacing one of that name, at once or,
/// by [`ImportOptions::beside`], later.
///
/// `on_progress` is called some times a second; `stop` is looked at as often. Memory is about
/// 8 to 16 bytes per edge and 10 per node plus 100 MiB, whatever the length of the texts.
///
/// # Errors
/// Any [`DatasetError`]; then nothing is left behind and a base of that name stays as it was.
pub fn import_neutral(
    source: &Path,
    home: &Home,
    name: &str,
    options: &ImportOptions,
    on_progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<ImportReport, DatasetError> {
    let staging = Staging::new(home, name, options.beside)?;
    let mut watch = Watch { on_progress, stop };
    let mut problems = Problems::new(options.lenient);
    let (meta, templates) = read_toml(source)?;
    let nodes = required(source, "nodes.jsonl")?;
    let edges = required(source, "edges.tsv")?;

    let mut writer = KbWriter::create(&staging.kb_dir())?;
    let filler_nodes = read_nodes(nodes, &templates, &mut writer, &mut problems, &mut watch)?;
    let n_pushed = read_edges(edges, &mut writer, &mut problems, &mut watch)?;
    let mut go_on = |done, total| watch.report(Phase::Graph, done, total).is_ok();
    let manifest = writer.finish(&meta, &mut go_on).map_err(|error| match error {
        KbError::Stopped => DatasetError::Stopped,
        error @ KbError::UnknownCandidateType { .. } => {
            DatasetError::BadToml { path: source.join("dataset.toml"), message: error.to_string() }
        }
        other => DatasetError::Kb(other),
    })?;
    let sources = QuerySources {
        queries: source.join("qa.csv"),
        human: source.join("human.csv"),
        splits: source.join("split"),
        derive_tenth: false,
    };
    let queries = import_queries(
        &sources,
        &staging.queries_dir(),
        manifest.n_nodes,
        &mut problems,
        &mut watch,
    )?;
    let base = staging.publish(&manifest, queries, source, None)?;
    Ok(ImportReport {
        base,
        duplicate_edges: n_pushed - manifest.n_edges,
        filler_nodes,
        printed_values: 0,
        problems: problems.into_counts(),
    })
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
    templates: BTreeMap<String, String>,
    /// Where a generated base comes from; for people.
    #[serde(rename = "sample")]
    _sample: IgnoredAny,
}

/// Documents by node type.
type Templates = BTreeMap<String, Template>;

fn read_toml(source: &Path) -> Result<(KbMeta, Templates), DatasetError> {
    let path = source.join("dataset.toml");
    let bytes = match files::read(&path, MAX_TOML_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.map_err(DatasetError::io("read", &path))?,
    };
    let bad = |message: String| DatasetError::BadToml { path: path.clone(), message };
    let text =
        String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8; convert it to UTF-8".into()))?;
    let parsed: DatasetToml = toml::from_str(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(start).filter(|byte| *byte == b'\n').count();
        let message = error.message();
        bad(format!(
            "line {line}: {message}; the keys are title, licence, candidate_types, templates"
        ))
    })?;
    let title = match parsed.title {
        title if title.is_empty() => file_name(source),
        title => title,
    };
    let mut templates = Templates::new();
    for (node_type, text) in parsed.templates {
        let template = Template::parse(&text)
            .map_err(|why| bad(format!("the template of \"{node_type}\" {why}")))?;
        templates.insert(node_type, template);
    }
    let meta = KbMeta { title, licence: parsed.licence, candidate_types: parsed.candidate_types };
    Ok((meta, templates))
}

fn file_name(path: &Path) -> String {
    let full: PathBuf = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    full.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Checks what all lines have in common; `None` means: leave the line out.
pub(super) fn text_of<'a>(
    line: Line<'a>,
    path: &Path,
    number: u64,
    problems: &mut Problems,
) -> Result<Option<&'a str>, DatasetError> {
    let bytes = match line {
        Line::Bytes(bytes) => bytes,
        Line::TooLong => {
            let message = format!("line of more than {MAX_LINE_BYTES} bytes; shorten its texts");
            problems.add(path, number, ProblemKind::LineTooLong, message)?;
            return Ok(None);
        }
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            let column = error.valid_up_to() + 1;
            let message = format!("byte {column} is not UTF-8; convert the file to UTF-8");
            problems.add(path, number, ProblemKind::NotUtf8, message)?;
            Ok(None)
        }
    }
}

/// One line of `nodes.jsonl`.
struct NodeLine {
    id: u64,
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
        use serde::de::Error;
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

/// serde_json counts lines inside the one line it got; only the column says something.
fn json_message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or_default();
    let column = error.column();
    format!(
        "{message} (column {column}); \
         write one {{\"id\": 0, \"type\": \"..\", \"name\": \"..\", \"details\": {{}}}} a line"
    )
}

/// Reads all nodes; returns how many were filled in.
fn read_nodes(
    mut lines: Lines,
    templates: &Templates,
    writer: &mut KbWriter,
    problems: &mut Problems,
    watch: &mut Watch<'_>,
) -> Result<u32, DatasetError> {
    let path = lines.path().to_path_buf();
    let total = lines.stored_bytes();
    let bytes_read = lines.counter();
    let mut filler_nodes = 0u32;
    watch.report(Phase::Nodes, 0, total)?;
    while let Some((number, line)) = lines.next()? {
        if number.is_multiple_of(LINES_PER_REPORT) {
            watch.report(Phase::Nodes, bytes_read.load(Ordering::Relaxed), total)?;
        }
        let Some(text) = text_of(line, &path, number, problems)? else { continue };
        if text.trim_ascii().is_empty() {
            continue;
        }
        let node: NodeLine = match serde_json::from_str(text) {
            Ok(node) => node,
            Err(error) => {
                problems.add(&path, number, ProblemKind::BadJson, json_message(&error))?;
                continue;
            }
        };
        if let Some(key) = &node.unknown_key {
            let message = format!("unknown key \"{key}\"; put it into details");
            problems.add(&path, number, ProblemKind::UnknownKey, message)?;
        }
        let expected = writer.n_nodes();
        if node.id < u64::from(expected) {
            let message = format!(
                "id {} occurs twice or out of order; number the nodes 0, 1, 2, ... in file order",
                node.id
            );
            problems.add(&path, number, ProblemKind::DuplicateId, message)?;
            continue;
        }
        let missing = node.id - u64::from(expected);
        if missing > u64::from(MAX_FILLER_NODES - filler_nodes) && problems.lenient {
            return Err(DatasetError::TooManyMissingIds { path, limit: MAX_FILLER_NODES });
        }
        for id in u64::from(expected)..node.id {
            let message = format!(
                "id {id} is missing, this line has id {}; \
                 number the nodes 0, 1, 2, ... in file order",
                node.id
            );
            problems.add(&path, number, ProblemKind::MissingId, message)?;
            push_filler(writer)?;
            filler_nodes += 1;
        }
        if push_node(&node, templates, writer, problems, (&path, number))? {
            filler_nodes += 1;
        }
    }
    if writer.n_nodes() == 0 {
        return Err(DatasetError::NoNodes { path });
    }
    watch.report(Phase::Nodes, total, total)?;
    Ok(filler_nodes)
}

/// Writes one node; returns true if only its id could be kept.
fn push_node(
    node: &NodeLine,
    templates: &Templates,
    writer: &mut KbWriter,
    problems: &mut Problems,
    (path, number): (&Path, u64),
) -> Result<bool, DatasetError> {
    let text = match templates.get(&node.node_type) {
        Some(template) => template.render(&node.name, &node.node_type, &node.details),
        None => Some(render_text(&node.name, &node.node_type, &node.details)),
    };
    let Some(text) = text else {
        let message = format!(
            "the template of its type makes more than {MAX_DOCUMENT_BYTES} bytes of it; shorten \
             the template or the node's texts"
        );
        problems.add(path, number, ProblemKind::LineTooLong, message)?;
        push_filler(writer)?;
        return Ok(true);
    };
    let fields: Vec<(String, String)> = node
        .details
        .iter()
        .map(|(field, value)| (field.clone(), render_field(value)))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    match writer.push_node(&node.node_type, &node.name, &text, &fields) {
        Ok(_) => Ok(false),
        Err(
            error @ (KbError::BadLabel { .. }
            | KbError::ControlInLabel { .. }
            | KbError::TooMany { .. }),
        ) => {
            problems.add(path, number, ProblemKind::BadLabel, error.to_string())?;
            // The id exists, so the node must; only its content is left out.
            push_filler(writer)?;
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

fn push_filler(writer: &mut KbWriter) -> Result<(), DatasetError> {
    let text = render_text("", FILLER_TYPE, &Map::new());
    writer.push_node(FILLER_TYPE, "", &text, &[])?;
    Ok(())
}

/// Reads all edges; returns how many were pushed, duplicates included.
fn read_edges(
    mut lines: Lines,
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
        Some((number, line)) => text_of(line, &path, number, problems)?.unwrap_or_default(),
        None => "",
    };
    if header != EDGES_HEADER {
        let found: String = header.chars().take(100).collect();
        let message = format!(
            "the header is {found:?}, not {EDGES_HEADER:?}; \
             begin the file with that line, tab-separated"
        );
        problems.add(&path, 1, ProblemKind::WrongHeader, message)?;
    }
    while let Some((number, line)) = lines.next()? {
        if number.is_multiple_of(LINES_PER_REPORT) {
            watch.report(Phase::Edges, bytes_read.load(Ordering::Relaxed), total)?;
        }
        let Some(text) = text_of(line, &path, number, problems)? else { continue };
        if text.is_empty() {
            continue;
        }
        let columns = split_columns(text);
        let Some((source, relation, target)) = columns else {
            let n = text.split('\t').count();
            let message = format!("{n} columns, not 3; write source, relation, target with tabs");
            problems.add(&path, number, ProblemKind::RaggedRow, message)?;
            continue;
        };
        let (Ok(source), Ok(target)) = (source.parse::<u64>(), target.parse::<u64>()) else {
            let message = "an id is no non-negative integer; use the ids of the nodes file";
            problems.add(&path, number, ProblemKind::BadId, message)?;
            continue;
        };
        let (Some(source_id), Some(target_id)) =
            (in_range(source, n_nodes), in_range(target, n_nodes))
        else {
            let unknown = if in_range(source, n_nodes).is_none() { source } else { target };
            let message = format!(
                "node {unknown} does not exist, ids are 0 to {}; add the node or drop the edge",
                n_nodes.saturating_sub(1)
            );
            problems.add(&path, number, ProblemKind::UnknownNode, message)?;
            continue;
        };
        match writer.push_edge(source_id, relation, target_id) {
            Ok(()) => n_pushed += 1,
            Err(
                error @ (KbError::BadLabel { .. }
                | KbError::ControlInLabel { .. }
                | KbError::TooMany { what: "relations", .. }),
            ) => {
                problems.add(&path, number, ProblemKind::BadLabel, error.to_string())?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    watch.report(Phase::Edges, total, total)?;
    Ok(n_pushed)
}

/// The three columns of a line, if they are three. Ids are short, so tabs are sought from both ends.
fn split_columns(text: &str) -> Option<(&str, &str, &str)> {
    let is_tab = |byte: u8| byte == b'\t';
    let first = text.bytes().position(is_tab)?;
    let last = text.bytes().rposition(is_tab)?;
    let relation = text.get(first + 1..last)?;
    let row = (text.get(..first)?, relation, text.get(last + 1..)?);
    (!relation.as_bytes().contains(&b'\t')).then_some(row)
}

/// The id as a node of a base with `n_nodes`.
pub(super) fn in_range(id: u64, n_nodes: u32) -> Option<u32> {
    u32::try_from(id).ok().filter(|id| *id < n_nodes)
}
