//! Imports one base of the benchmark by streaming the files of the base.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::Path,
    sync::atomic::AtomicBool,
};

use serde::{Deserialize, Serialize};

use crate::{
    DatasetError, Home, ImportOptions, ImportReport, Phase, Progress, Result,
    install::{Install, Watch},
    links,
    stark::{
        Kind,
        files::{Files, NODES_FILE, find, query_sources},
        node::{self, Node},
        pickle::{self, Limits, Value},
    },
};
use agent_kb::{Direction, KbMeta, KbWriter, MAX_EDGES, MAX_NODES};

/// Licence of the benchmark's data.
const LICENCE: &str = "CC-BY-4.0";
/// Maximum memory for a batch of nodes, in bytes. Python pickles the items of a dict in batches of
/// 1,000, and the reader holds a whole batch.
const MAX_BATCH_BYTES: u64 = 512 << 20;
/// Number of bytes of a file between two progress reports.
const BYTES_PER_REPORT: u64 = 4 << 20;
/// Number of edges between two progress reports.
const EDGES_PER_REPORT: usize = 1 << 20;

/// Source of the relations of the imported edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The relations stored in the files.
    #[default]
    Exact,
    /// The relations of the reference implementation. It makes its graph undirected and averages
    /// the relation numbers between two nodes, so that most of Amazon's "also viewed" edges become
    /// "also bought". MAG and Prime are the same in both modes.
    Faithful,
}

/// How a base of the benchmark was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The base of the benchmark that was imported.
    pub kind: Kind,
    /// Source of the relations of the edges.
    pub mode: Mode,
    /// Whether the split `test-0.1` is the first tenth of the test split, because it has no file of
    /// its own.
    pub derived_tenth: bool,
    /// Whether the reference follows edges in their stored direction only. This is the case in mode
    /// [`Mode::Faithful`] if every pair of nodes is stored equally often in both directions: the
    /// reference then leaves the graph unchanged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_way: bool,
}

impl Origin {
    /// Returns the direction in which the reference follows edges.
    pub fn direction(&self) -> Direction {
        if self.one_way { Direction::Out } else { Direction::Any }
    }
}

/// Imports a base of the benchmark and its queries from the directory `source` as base `name` of
/// `home`. An installed base with that name is replaced, or gets a new version, see
/// [`ImportOptions::as_next_version`]. [`crate::stark`] describes the layout of `source`.
///
/// Nodes get the ids, types and documents of the reference; [`crate::stark::Documents`] renders the
/// variants with relations. `options.lenient` applies to queries and splits only.
///
/// Calls `on_progress` and checks `stop` several times per second. Memory: about 40 bytes per edge
/// and per node, plus one batch of nodes.
///
/// # Errors
/// Any [`DatasetError`]; no files are then left behind, and an installed base with that name is
/// unchanged.
pub fn import_stark(
    (source, mode): (&Path, Mode),
    home: &Home,
    name: &str,
    options: &ImportOptions,
    on_progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<ImportReport> {
    links::refuse_outside(source)?;
    let mut install = Install::begin(home, name, source, options)?;
    let mut watch = Watch { on_progress, stop };
    let places = find(source, name)?;
    let files = places.open(install.staging.path())?;
    let kind = files.kind;

    let spool = tempfile::tempfile_in(install.staging.path());
    let spool = spool.map_err(DatasetError::io("create a file in", install.staging.path()))?;
    install.printed_values = read_nodes(&files, spool, &mut install.graph.writer, &mut watch)?;
    let (n_pushed, one_way) = read_edges(&files, mode, &mut install.graph.writer, &mut watch)?;
    install.graph.n_pushed = n_pushed;
    install.meta = KbMeta {
        title: kind.title().to_string(),
        licence: LICENCE.to_string(),
        candidate_types: kind.candidate_types().iter().map(|name| name.to_string()).collect(),
        ..KbMeta::default()
    };
    install.origin = Some(Origin { kind, mode, derived_tenth: false, one_way });
    install.questions = query_sources(&places.queries);
    install.finish(&mut watch)
}

/// Returns the names of types or relations by number: from the file or, for MAG, from `constants`.
fn names(files: &Files, file: &str, constants: &[&str]) -> Result<BTreeMap<i64, String>> {
    match files.kind {
        Kind::Mag => Ok((0..).zip(constants.iter().map(|name| name.to_string())).collect()),
        Kind::Amazon | Kind::Prime => files.names(file),
    }
}

/// Reader that reports progress while reading, and returns an error once the caller has set the
/// stop flag.
struct ProgressReader<'a, 'w, R> {
    reader: R,
    done: &'a Cell<u64>,
    total: u64,
    watch: &'a RefCell<&'a mut Watch<'w>>,
}

impl<R: Read> Read for ProgressReader<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buffer)?;
        let before = self.done.get();
        let done = before + n as u64;
        self.done.set(done);
        if before / BYTES_PER_REPORT != done / BYTES_PER_REPORT {
            let reported = self.watch.borrow_mut().report(Phase::Nodes, done, self.total);
            reported.map_err(io::Error::other)?;
        }
        Ok(n)
    }
}

/// Accepts nodes in any order and writes them in order of their ids.
struct OrderedNodeWriter<'a> {
    files: &'a Files,
    types: BTreeMap<i64, String>,
    /// Type number of each node.
    type_of: Vec<u16>,
    writer: &'a mut KbWriter,
    spool: Spool,
    /// Number of values stored as the text that Python prints for them, because they have no
    /// equivalent type.
    n_printed: u64,
}

impl OrderedNodeWriter<'_> {
    fn wrong(&self, message: String) -> DatasetError {
        DatasetError::bad_input(self.files.path(NODES_FILE), message)
    }

    fn type_name(&self, id: u32) -> Result<&str> {
        let number = self.type_of.get(id as usize).copied().unwrap_or_default();
        self.types.get(&number.into()).map(String::as_str).ok_or_else(|| {
            let message =
                format!("node {id} has type {number}, which has no name; download it again");
            DatasetError::bad_input(self.files.path("node_types.pt"), message)
        })
    }

    /// Adds the next node of the file: writes the node if its id is next in order, otherwise keeps
    /// it on disk.
    fn add(&mut self, id: &Value, info: &Value) -> Result<()> {
        let n_nodes = self.type_of.len();
        // In Python, `True` and `1.0` equal the key `1`.
        let whole = |number: f64| (number.fract() == 0.0).then_some(number as i64);
        let number = match id {
            Value::Bool(id) => Some((*id).into()),
            id => id.as_int().or_else(|| id.as_float().and_then(whole)),
        };
        let known = number.and_then(|id| u32::try_from(id).ok());
        let Some(id) = known.filter(|id| (*id as usize) < n_nodes) else {
            return Err(self.wrong(format!(
                "a key is not one of the node ids 0 to {} of node_types.pt; download both files \
                 again",
                n_nodes.saturating_sub(1)
            )));
        };
        if id < self.writer.n_nodes() || self.spool.has(id) {
            return Err(self.wrong(format!("node {id} occurs twice; download it again")));
        }
        self.n_printed += info.n_printed();
        let node = node::read(self.files.kind, self.type_name(id)?, info).map_err(|reason| {
            self.wrong(format!("node {id}: {reason}; download the file again"))
        })?;
        if id == self.writer.n_nodes() {
            self.write(id, &node)?;
            self.drain()
        } else {
            self.spool.put(id, &node).map_err(|source| self.io(source))
        }
    }

    fn write(&mut self, id: u32, node: &Node) -> Result<()> {
        let node_type = self.type_name(id)?.to_string();
        self.writer.push_node(&node_type, &node.name, &node.text, &node.fields)?;
        Ok(())
    }

    /// Writes the nodes kept on disk whose ids follow the last written id without a gap.
    fn drain(&mut self) -> Result<()> {
        loop {
            let id = self.writer.n_nodes();
            match self.spool.take(id).map_err(|source| self.io(source))? {
                Some(node) => self.write(id, &node)?,
                None => return Ok(()),
            }
        }
    }

    fn io(&self, source: io::Error) -> DatasetError {
        DatasetError::io("store nodes of", self.files.path(NODES_FILE))(source)
    }
}

/// Reads and writes all nodes; returns the number of values stored as the text that Python prints
/// for them.
fn read_nodes(
    files: &Files,
    spool: File,
    writer: &mut KbWriter,
    watch: &mut Watch<'_>,
) -> Result<u64> {
    let to_type = ("type", |number| u16::try_from(number).ok());
    let type_of = files.numbers("node_types.pt", 1, MAX_NODES.into(), to_type)?;
    // Fits u32: there are at most `MAX_NODES` nodes.
    let n_nodes = type_of.len() as u32;
    let mut nodes = OrderedNodeWriter {
        files,
        types: names(files, "node_type_dict.pkl", files.kind.types())?,
        type_of,
        writer,
        spool: Spool::new(spool, n_nodes),
        n_printed: 0,
    };
    // The file is read twice.
    let total = 2 * files.size(NODES_FILE);
    let done = Cell::new(0);
    watch.report(Phase::Nodes, 0, total)?;
    let watch = RefCell::new(watch);
    let open = || {
        let reader = files.read(NODES_FILE)?;
        Ok(ProgressReader { reader, done: &done, total, watch: &watch })
    };
    let mut failed = None;
    let mut on_item = |id: Value, info: Value| match nodes.add(&id, &info) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    };
    let limits = Limits { memory_bytes: MAX_BATCH_BYTES, ..Limits::default() };
    let read = pickle::read_dict(open, &limits, &mut on_item);
    if let Some(error) = failed {
        return Err(error);
    }
    // Checked first, because a stop also ends the reader with an error.
    watch.borrow_mut().report(Phase::Nodes, total, total)?;
    read.map_err(|error| nodes.wrong(error.to_string()))?;
    match nodes.writer.n_nodes() {
        written if written < n_nodes => {
            Err(nodes.wrong(format!("node {written} of {n_nodes} is missing; download it again")))
        }
        _ => Ok(nodes.n_printed),
    }
}

/// Reads and writes all edges; returns their number, duplicates included, and whether the reference
/// follows edges in their stored direction only.
fn read_edges(
    files: &Files,
    mode: Mode,
    writer: &mut KbWriter,
    watch: &mut Watch<'_>,
) -> Result<(u64, bool)> {
    let relations = names(files, "edge_type_dict.pkl", files.kind.relations())?;
    let n_nodes = writer.n_nodes();
    let to_node = ("node", |end| u32::try_from(end).ok().filter(|end| *end < n_nodes));
    let ends = files.numbers("edge_index.pt", 2, 2 * MAX_EDGES, to_node)?;
    let (sources, targets) = ends.split_at(ends.len() / 2);
    let path = files.path("edge_types.pt");
    let to_relation = ("relation that has a name", |number| {
        u16::try_from(number).ok().filter(|_| relations.contains_key(&number))
    });
    let mut types = files.numbers("edge_types.pt", 1, MAX_EDGES, to_relation)?;
    if types.len() != sources.len() {
        let message =
            format!("{} types, but {} edges; download both again", types.len(), sources.len());
        return Err(DatasetError::bad_input(path, message));
    }
    let mut one_way = false;
    if mode == Mode::Faithful {
        match merged_types(sources, targets, &types) {
            Some(merged) => types = merged,
            None => one_way = true,
        }
    }
    let total = types.len() as u64;
    for (at, ((&source, &target), number)) in sources.iter().zip(targets).zip(&types).enumerate() {
        if at.is_multiple_of(EDGES_PER_REPORT) {
            watch.report(Phase::Edges, at as u64, total)?;
        }
        // The mean of relation numbers may be a number without a name.
        let relation = relations.get(&i64::from(*number)).ok_or_else(|| {
            let message = format!("merged relation {number} has no name; use --mode exact");
            DatasetError::bad_input(&path, message)
        })?;
        writer.push_edge(source, relation, target)?;
    }
    watch.report(Phase::Edges, total, total)?;
    Ok((total, one_way))
}

/// Returns the type number of each stored edge after the reference has made the graph undirected;
/// `None` if the reference leaves the graph unchanged.
///
/// The reference leaves the graph unchanged if every pair of nodes is stored equally often in both
/// directions, whatever the types of the edges. It then follows edges in their stored direction
/// only. Otherwise it adds a reverse edge for each edge. All edges between two nodes, in either
/// direction, then get the mean of their type numbers, rounded down (`to_undirected(reduce="mean")`
/// of PyG, as called by `stark_qa`).
///
/// The three slices must have equal length. Time: O(e log e) for e edges; memory: 16 bytes per
/// edge.
fn merged_types(sources: &[u32], targets: &[u32], types: &[u16]) -> Option<Vec<u16>> {
    let ends = sources.iter().zip(targets);
    let pair = |(&source, &target): (&u32, &u32)| {
        u64::from(source.min(target)) << 32 | u64::from(source.max(target))
    };
    let mut order: Vec<(u64, u32)> = ends.map(pair).zip(0..=u32::MAX).collect();
    order.sort_unstable();
    let groups = || order.chunk_by(|a, b| a.0 == b.0);
    let is_forward = |&(_, edge): &(u64, u32)| {
        let edge = edge as usize;
        sources.get(edge) <= targets.get(edge)
    };
    let is_loop =
        |group: &[(u64, u32)]| group.first().is_some_and(|(p, _)| p >> 32 == p & 0xffff_ffff);
    let is_balanced = |group: &[(u64, u32)]| {
        is_loop(group) || 2 * group.iter().filter(|edge| is_forward(edge)).count() == group.len()
    };
    if groups().all(is_balanced) {
        return None;
    }
    let mut merged = types.to_vec();
    for group in groups() {
        let members = || group.iter().map(|(_, edge)| *edge as usize);
        let sum: u64 = members().filter_map(|edge| types.get(edge)).map(|t| u64::from(*t)).sum();
        // Fits u16: the mean is at most the largest of the type numbers.
        let mean = (sum / group.len() as u64) as u16;
        for edge in members() {
            if let Some(slot) = merged.get_mut(edge) {
                *slot = mean;
            }
        }
    }
    Some(merged)
}

/// Nodes kept in a temporary file, by id: the files of the benchmark hold nodes in any order, but a
/// base is written in the order of the ids. Memory: 24 bytes per node.
struct Spool {
    file: File,
    end: u64,
    /// Offset and length of each node in the file, in bytes.
    places: Vec<Option<(u64, usize)>>,
}

impl Spool {
    /// Creates an empty spool that keeps nodes with ids below `n_nodes` in `file`.
    fn new(file: File, n_nodes: u32) -> Spool {
        Spool { file, end: 0, places: vec![None; n_nodes as usize] }
    }

    /// Whether the spool holds the node with an id.
    fn has(&self, id: u32) -> bool {
        self.places.get(id as usize).is_some_and(Option::is_some)
    }

    /// Stores a node; an id that is not below `n_nodes` is ignored.
    fn put(&mut self, id: u32, node: &Node) -> io::Result<()> {
        let json = serde_json::to_vec(node)?;
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(&json)?;
        if let Some(place) = self.places.get_mut(id as usize) {
            *place = Some((self.end, json.len()));
        }
        self.end += json.len() as u64;
        Ok(())
    }

    /// Removes and returns the node with an id; `None` if the spool does not hold it.
    fn take(&mut self, id: u32) -> io::Result<Option<Node>> {
        let place = self.places.get_mut(id as usize).and_then(Option::take);
        let Some((offset, n_bytes)) = place else { return Ok(None) };
        let mut json = vec![0; n_bytes];
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(&mut json)?;
        Ok(Some(serde_json::from_slice(&json)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_between_two_nodes_become_their_mean_unless_the_graph_is_symmetric() {
        // Two ways, three edges: (0 + 1 + 1) / 3. Alone: its own type. A loop: its own mean.
        let merged = merged_types(&[0, 1, 1, 2, 3, 3], &[1, 0, 0, 3, 3, 3], &[0, 1, 1, 4, 1, 2]);
        assert_eq!(merged.unwrap(), [0, 0, 0, 4, 1, 1]);
        // As often one way as the other, though of different types; loops do not matter.
        assert_eq!(merged_types(&[0, 1, 2], &[1, 0, 2], &[0, 3, 1]), None);
        assert_eq!(merged_types(&[0, 1, 1], &[1, 0, 0], &[2, 3, 4]).unwrap(), [3, 3, 3]);
    }
}
