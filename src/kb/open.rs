//! Opens a base and gives access to its content.
//!
//! Opening maps the files, compares their sizes with the manifest and reads only headers. The
//! content itself is not checked then: a later read of an id out of range or of invalid bytes
//! returns an empty value. Invalid ids in a list of nodes are also recorded, see
//! [`Kb::met_damage`].

use std::{
    borrow::Cow,
    collections::BTreeSet,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use bytemuck::Pod;
use memmap2::Mmap;

use crate::{
    Direction, FieldId, KbError, Manifest, Neighbors, NodeId, RelationId, Result, Tuple, TypeId,
    arrow::Table,
    csr::{Rows, as_numbers, merge},
};
use agent_ground::files;

pub(super) const NODES_FILE: &str = "nodes.arrow";
pub(super) const FIELDS_FILE: &str = "fields.arrow";
pub(super) const GRAPH_FILE: &str = "graph.bin";
pub(super) const KEYS_FILE: &str = "keys.arrow";
/// The first bytes of `graph.bin`.
pub(super) const MAGIC: &[u8; 8] = b"AGENTKB1";
/// Alignment of sections in `graph.bin`, in bytes: a cache line, and enough for any number type.
pub(super) const SECTION_ALIGN: u64 = 64;
/// Size of one entry of the section table, in bytes.
pub(super) const ENTRY_BYTES: usize = 24;
/// Index of the column `name` among the string columns of `nodes.arrow`.
const NAME_COLUMN: usize = 1;
/// Index of the column `text` among the string columns of `nodes.arrow`.
const TEXT_COLUMN: usize = 2;
/// Index of the column `value` among the string columns of `fields.arrow`.
const VALUE_COLUMN: usize = 1;
/// Index of the column `key` among the string columns of `keys.arrow`.
const KEY_COLUMN: usize = 0;

/// Kinds of sections of `graph.bin`, as described in the [module](crate); the numbers are part of
/// the format.
#[derive(Clone, Copy)]
pub(super) enum SectionKind {
    NodeTypes = 1,
    TypeOffsets = 2,
    NodesByType = 3,
    Candidates = 4,
    FieldOffsets = 5,
    FieldIds = 6,
    KeyOrder = 7,
    OutOffsets = 16,
    OutTargets = 17,
    InOffsets = 18,
    InSources = 19,
    OutNodes = 20,
    InNodes = 21,
}

/// Byte ranges of the sections within `graph.bin`.
#[derive(Debug, Default)]
struct Sections {
    /// The sections that occur once, by kind; there is no kind 0.
    single: [Range<usize>; 8],
    out: Vec<Rows>,
    into: Vec<Rows>,
}

/// An open base: memory-mapped, read-only, safe to share between threads.
#[derive(Debug)]
pub struct Kb {
    dir: PathBuf,
    manifest: Manifest,
    candidate_types: Vec<TypeId>,
    tuples: Vec<Tuple>,
    /// For each type, by id, the relations of its nodes' edges in either direction, ascending.
    relations_by_type: Vec<Vec<RelationId>>,
    nodes: Table,
    fields: Table,
    /// The keys of the nodes; `None` if the base has no keys.
    keys: Option<Table>,
    graph: Mmap,
    sections: Sections,
    /// Whether a list of nodes names only existing nodes: one entry for the list of each type, by
    /// id, then one for the list of candidates. Such lists may have millions of nodes, so each is
    /// checked only once.
    lists: Vec<OnceLock<bool>>,
    met_damage: AtomicBool,
}

impl Kb {
    /// Opens the base in the directory `dir`. The time grows with the number of types, relations
    /// and batches of rows, not with the number of nodes.
    ///
    /// ```no_run
    /// use agent::{dataset::Home, kb::Kb};
    ///
    /// let shop = Home::new("home").get("shop")?;
    /// let kb = Kb::open(&shop.kb_dir())?;
    /// println!("{} has {} nodes", kb.title(), kb.n_nodes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`KbError::NotABase`], [`KbError::Version`], [`KbError::Damaged`] if a size or a table does
    /// not agree with the manifest, or [`KbError::Io`].
    pub fn open(dir: &Path) -> Result<Kb> {
        if cfg!(target_endian = "big") {
            return Err(KbError::BigEndian);
        }
        let manifest = Manifest::read(dir)?;
        let nodes = node_table(dir, NODES_FILE, &manifest, &["id", "type", "name", "text"])?;
        let fields = map(dir, FIELDS_FILE, &manifest)?;
        let fields = Table::open(&dir.join(FIELDS_FILE), fields, &["node", "field", "value"])?;
        let keys = match manifest.files.contains_key(KEYS_FILE) {
            true => Some(node_table(dir, KEYS_FILE, &manifest, &["node", "key"])?),
            false => None,
        };
        let graph = map(dir, GRAPH_FILE, &manifest)?;
        let graph_path = dir.join(GRAPH_FILE);
        let sections =
            sections(&graph, &manifest).map_err(|what| KbError::damaged(graph_path, what))?;
        let candidate_types: Vec<TypeId> =
            manifest.candidate_types.iter().copied().map(TypeId).collect();
        let tuples: Vec<Tuple> = manifest
            .tuples
            .iter()
            .map(|&(source, relation, target, edges)| Tuple {
                source: TypeId(source),
                relation: RelationId(relation),
                target: TypeId(target),
                edges,
            })
            .collect();
        let relations_by_type = relations_by_type(&tuples, manifest.types.len());
        let lists = vec![OnceLock::new(); manifest.types.len() + 1];
        Ok(Kb {
            dir: dir.to_path_buf(),
            lists,
            met_damage: AtomicBool::new(false),
            manifest,
            candidate_types,
            tuples,
            relations_by_type,
            nodes,
            fields,
            keys,
            graph,
            sections,
        })
    }

    /// Returns the directory of the base.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the manifest: numbers of nodes and edges, names, and digests of files.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the title of the base, for people.
    pub fn title(&self) -> &str {
        &self.manifest.title
    }

    /// Returns the licence of the data, for people.
    pub fn licence(&self) -> &str {
        &self.manifest.licence
    }

    /// Returns the digest (blake3, hexadecimal) of the keys, nodes, fields, edges and candidate
    /// types: equal for equal content.
    pub fn fingerprint(&self) -> &str {
        &self.manifest.fingerprint
    }

    /// Returns the number of nodes; their ids are `0..n_nodes`.
    pub fn n_nodes(&self) -> u32 {
        self.manifest.n_nodes
    }

    /// Returns the number of distinct edges.
    pub fn n_edges(&self) -> u64 {
        self.manifest.n_edges
    }

    /// Returns the names of the types, ascending; a [`TypeId`] is an index into this list.
    pub fn types(&self) -> &[String] {
        &self.manifest.types
    }

    /// Returns the names of the relations, ascending; a [`RelationId`] is an index into this list.
    pub fn relations(&self) -> &[String] {
        &self.manifest.relations
    }

    /// Returns the names of the fields, ascending; a [`FieldId`] is an index into this list.
    pub fn field_names(&self) -> &[String] {
        &self.manifest.fields
    }

    /// Finds the type with this name.
    pub fn type_id(&self, name: &str) -> Option<TypeId> {
        position(self.types(), name).map(TypeId)
    }

    /// Finds the relation with this name.
    pub fn relation_id(&self, name: &str) -> Option<RelationId> {
        position(self.relations(), name).map(RelationId)
    }

    /// Returns the relations that edges of this type's nodes have, in either direction, ascending;
    /// none for an unknown type.
    pub fn relations_of(&self, kind: TypeId) -> &[RelationId] {
        self.relations_by_type.get(usize::from(kind.0)).map_or(&[], Vec::as_slice)
    }

    /// Finds the field with this name.
    pub fn field_id(&self, name: &str) -> Option<FieldId> {
        position(self.field_names(), name).map(FieldId)
    }

    /// Returns the name of a type; empty if the type does not exist.
    pub fn type_name(&self, id: TypeId) -> &str {
        self.types().get(id.0 as usize).map_or("", String::as_str)
    }

    /// Returns the name of a relation; empty if the relation does not exist.
    pub fn relation_name(&self, id: RelationId) -> &str {
        self.relations().get(id.0 as usize).map_or("", String::as_str)
    }

    /// Returns the name of a field; empty if the field does not exist.
    pub fn field_name(&self, id: FieldId) -> &str {
        self.field_names().get(id.0 as usize).map_or("", String::as_str)
    }

    /// Whether a node with this id exists.
    pub fn contains(&self, node: NodeId) -> bool {
        node < self.n_nodes()
    }

    /// Returns the type of `node`; [`TypeId::NONE`] if the node does not exist. The type of an
    /// existing node is always below `types().len()`.
    pub fn node_type(&self, node: NodeId) -> TypeId {
        match self.section(SectionKind::NodeTypes).get(node as usize) {
            Some(&id) if (id as usize) < self.manifest.types.len() => TypeId(id),
            // A damaged file; any existing type keeps callers that index `types()` safe.
            Some(_) => TypeId(0),
            None => TypeId::NONE,
        }
    }

    /// Returns the name of `node`; empty if the node does not exist.
    pub fn name(&self, node: NodeId) -> &str {
        self.nodes.get(node.into(), NAME_COLUMN).unwrap_or_default()
    }

    /// Whether nodes have keys: the ids that they have in the imported data.
    pub fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns the id of `node` in the imported data: its key, or its node id in digits if the base
    /// has no keys.
    pub fn key(&self, node: NodeId) -> Cow<'_, str> {
        match self.keys.as_ref().and_then(|keys| keys.get(node.into(), KEY_COLUMN)) {
            Some(key) => Cow::Borrowed(key),
            None => Cow::Owned(node.to_string()),
        }
    }

    /// Finds the nodes that have this id in the imported data, ascending. Nodes of several types
    /// may share a key. O(log n) in the number of keys.
    pub fn nodes_of_key(&self, key: &str) -> Vec<NodeId> {
        if !self.has_keys() {
            return key.parse().ok().filter(|&node| self.contains(node)).into_iter().collect();
        }
        let order: &[NodeId] = self.section(SectionKind::KeyOrder);
        let begin = order.partition_point(|&node| *self.key(node) < *key);
        let same = order.iter().skip(begin).take_while(|&&node| *self.key(node) == *key);
        same.copied().filter(|&node| self.contains(node)).collect()
    }

    /// Returns the document of `node`, without its relations; empty if the node does not exist.
    pub fn text(&self, node: NodeId) -> &str {
        self.nodes.get(node.into(), TEXT_COLUMN).unwrap_or_default()
    }

    /// Returns the fields of `node`, each with its text, in the order of the imported file. Lists
    /// and objects are flattened to text.
    pub fn fields(&self, node: NodeId) -> impl Iterator<Item = (FieldId, &str)> + '_ {
        self.field_rows(node).filter_map(|row| Some((self.field_of_row(row)?, self.value(row)?)))
    }

    /// Returns the fields that `node` has, without their texts.
    pub fn field_ids(&self, node: NodeId) -> impl Iterator<Item = FieldId> + '_ {
        self.field_rows(node).filter_map(|row| self.field_of_row(row))
    }

    /// Returns the text of one field of `node`; `None` if the node lacks the field. Of a repeated
    /// field, the first text counts.
    pub fn field(&self, node: NodeId, field: FieldId) -> Option<&str> {
        let row = self.field_rows(node).find(|row| self.field_of_row(*row) == Some(field))?;
        self.value(row)
    }

    /// Whether any read so far found a list of nodes with invalid ids and returned it as empty. If
    /// so, `graph.bin` is damaged.
    pub fn met_damage(&self) -> bool {
        self.met_damage.load(Ordering::Relaxed)
    }

    /// Returns the neighbors of `node` over one relation, ascending, each once; all exist. Takes
    /// time linear in the number of neighbors, because their ids are checked. For `Any`, two lists
    /// are merged if the node has edges both ways, unless the relation has every edge both ways.
    pub fn neighbors(
        &self,
        node: NodeId,
        relation: RelationId,
        direction: Direction,
    ) -> Neighbors<'_> {
        match direction {
            Direction::Out => Cow::Borrowed(self.targets(node, relation)),
            Direction::In => Cow::Borrowed(self.sources(node, relation)),
            Direction::Any => merge(self.targets(node, relation), self.sources(node, relation)),
        }
    }

    /// Returns the nodes to which edges of one relation lead from `node`, ascending; all exist.
    pub(super) fn targets(&self, node: NodeId, relation: RelationId) -> &[NodeId] {
        self.known(self.row(&self.sections.out, node, relation))
    }

    /// Returns the nodes from which edges of one relation lead to `node`, ascending; all exist.
    pub(super) fn sources(&self, node: NodeId, relation: RelationId) -> &[NodeId] {
        self.known(self.row(&self.sections.into, node, relation))
    }

    /// Returns the number of neighbors that [`Kb::neighbors`] returns. O(1), except for `Any` if
    /// the node has edges both ways.
    pub fn degree(&self, node: NodeId, relation: RelationId, direction: Direction) -> usize {
        let out = self.row(&self.sections.out, node, relation);
        let into = self.row(&self.sections.into, node, relation);
        match direction {
            Direction::Out => out.len(),
            Direction::In => into.len(),
            Direction::Any if out.is_empty() || into.is_empty() => out.len() + into.len(),
            Direction::Any => self.neighbors(node, relation, direction).len(),
        }
    }

    /// Returns the nodes of a type, ascending; empty for an unknown type.
    pub fn nodes_of_type(&self, id: TypeId) -> &[NodeId] {
        let offsets: &[u32] = self.section(SectionKind::TypeOffsets);
        let id = id.0 as usize;
        let (Some(&start), Some(&end)) = (offsets.get(id), offsets.get(id + 1)) else {
            return &[];
        };
        let nodes: &[NodeId] = self.section(SectionKind::NodesByType);
        self.known_list(id, nodes.get(start as usize..end as usize).unwrap_or_default())
    }

    /// Returns the types whose nodes may be answers, ascending.
    pub fn candidate_types(&self) -> &[TypeId] {
        &self.candidate_types
    }

    /// Returns the candidate types as searches expect them: empty if all types are candidates.
    pub fn searched_types(&self) -> &[TypeId] {
        if self.candidate_types.len() == self.types().len() { &[] } else { &self.candidate_types }
    }

    /// Returns the nodes that may be answers, ascending.
    pub fn candidates(&self) -> &[NodeId] {
        self.known_list(self.types().len(), self.section(SectionKind::Candidates))
    }

    /// Whether `node` may be an answer.
    pub fn is_candidate(&self, node: NodeId) -> bool {
        self.candidate_types.binary_search(&self.node_type(node)).is_ok()
    }

    /// Returns the types whose nodes only stand for values of a column. Such a type is not a
    /// candidate type, its nodes have no outgoing edges and no fields, and the name of each node
    /// equals its key. Empty if the base has no keys. O(nodes) at worst.
    pub fn value_types(&self) -> Vec<TypeId> {
        let leads = |kind: TypeId| self.tuples.iter().any(|tuple| tuple.source == kind);
        let is_value = |&node: &NodeId| {
            self.field_ids(node).next().is_none() && self.key(node) == self.name(node)
        };
        let is_type = |kind: &TypeId| {
            self.candidate_types.binary_search(kind).is_err()
                && !leads(*kind)
                && self.nodes_of_type(*kind).iter().all(is_value)
        };
        let types = (0..self.types().len()).map(|at| TypeId(at as u16));
        if self.has_keys() { types.filter(is_type).collect() } else { Vec::new() }
    }

    /// Returns the distinct triples (source type, relation, target type) of all edges, ascending,
    /// each with its number of edges.
    pub fn tuples(&self) -> &[Tuple] {
        &self.tuples
    }

    /// Returns the numbers of a section that occurs once.
    fn section<T: Pod>(&self, kind: SectionKind) -> &[T] {
        let range = self.sections.single[kind as usize].clone();
        as_numbers(self.graph.get(range).unwrap_or_default())
    }

    /// Returns the row of a node and a relation; `of_relations` are the rows of one direction in
    /// `sections`. The nodes in the row may not exist.
    fn row(&self, of_relations: &[Rows], node: NodeId, relation: RelationId) -> &[NodeId] {
        let rows = of_relations.get(relation.0 as usize);
        rows.map_or(&[], |rows| rows.get(&self.graph, node))
    }

    /// Returns the nodes if all of them exist, otherwise the empty list.
    fn known<'a>(&self, nodes: &'a [NodeId]) -> &'a [NodeId] {
        // No early exit, so that the loop vectorizes.
        let largest = nodes.iter().fold(0, |largest, &node| node.max(largest));
        if self.contains(largest) {
            return nodes;
        }
        self.met_damage.store(true, Ordering::Relaxed);
        &[]
    }

    /// Returns the nodes if all of them exist, otherwise the empty list; the result of the check is
    /// kept in entry `list` of `lists`.
    fn known_list<'a>(&self, list: usize, nodes: &'a [NodeId]) -> &'a [NodeId] {
        let is_known = || self.known(nodes).len() == nodes.len();
        let known = self.lists.get(list).is_some_and(|known| *known.get_or_init(is_known));
        if known { nodes } else { &[] }
    }

    fn field_rows(&self, node: NodeId) -> Range<u64> {
        let offsets: &[u64] = self.section(SectionKind::FieldOffsets);
        let node = node as usize;
        match (offsets.get(node), offsets.get(node + 1)) {
            (Some(&start), Some(&end)) => start..end.min(self.fields.n_rows),
            _ => 0..0,
        }
    }

    fn field_of_row(&self, row: u64) -> Option<FieldId> {
        let ids: &[u16] = self.section(SectionKind::FieldIds);
        let id = *ids.get(usize::try_from(row).ok()?)?;
        ((id as usize) < self.manifest.fields.len()).then_some(FieldId(id))
    }

    fn value(&self, row: u64) -> Option<&str> {
        self.fields.get(row, VALUE_COLUMN)
    }
}

fn relations_by_type(tuples: &[Tuple], n_types: usize) -> Vec<Vec<RelationId>> {
    let mut of_types = vec![BTreeSet::new(); n_types];
    for tuple in tuples {
        for end in [tuple.source, tuple.target] {
            if let Some(own) = of_types.get_mut(usize::from(end.0)) {
                own.insert(tuple.relation);
            }
        }
    }
    of_types.into_iter().map(|own| own.into_iter().collect()).collect()
}

/// Reads all files of the base in the directory `dir` and compares them with the digests in the
/// manifest. `on_bytes` receives the number of bytes read since its last call.
///
/// # Errors
/// As [`Kb::open`]; [`KbError::Damaged`] names the first file whose digest differs.
pub fn verify(dir: &Path, on_bytes: &mut dyn FnMut(u64)) -> Result<()> {
    let kb = Kb::open(dir)?;
    for (name, record) in &kb.manifest.files {
        let path = dir.join(name);
        if !record.matches(&path, on_bytes).map_err(KbError::io("read", &path))? {
            return Err(KbError::damaged(path, "its digest does not match the manifest"));
        }
    }
    Ok(())
}

fn position(sorted: &[String], name: &str) -> Option<u16> {
    let index = sorted.binary_search_by(|probe| probe.as_str().cmp(name)).ok()?;
    u16::try_from(index).ok()
}

fn map(dir: &Path, name: &str, manifest: &Manifest) -> Result<Mmap> {
    let path = dir.join(name);
    let expected = manifest.file(dir, name)?.bytes;
    let file = files::open(&path).map_err(KbError::io("open", &path))?;
    let found = file.metadata().map_err(KbError::io("open", &path))?.len();
    if found != expected {
        return Err(KbError::damaged(path, format!("it has {found} bytes, not {expected}")));
    }
    // SAFETY: published files are never changed in place (see the module docs of `kb`), so the
    // mapped bytes do not change.
    unsafe { Mmap::map(&file) }.map_err(KbError::io("map", &path))
}

/// Opens a table that has one row for each node.
fn node_table(dir: &Path, name: &str, manifest: &Manifest, columns: &[&str]) -> Result<Table> {
    let path = dir.join(name);
    let table = Table::open(&path, map(dir, name, manifest)?, columns)?;
    if table.n_rows != u64::from(manifest.n_nodes) {
        let what = format!("it has {} rows, not {}", table.n_rows, manifest.n_nodes);
        return Err(KbError::damaged(path, what));
    }
    Ok(table)
}

fn sections(graph: &[u8], manifest: &Manifest) -> Result<Sections, String> {
    if !graph.starts_with(MAGIC) {
        return Err("it is not a graph file".into());
    }
    let table = usize::try_from(manifest.table_entries)
        .ok()
        .and_then(|entries| entries.checked_mul(ENTRY_BYTES))
        .and_then(|bytes| {
            let start = usize::try_from(manifest.table_offset).ok()?;
            graph.get(start..start.checked_add(bytes)?)
        })
        .ok_or("its section table is out of bounds")?;
    if blake3::hash(table).to_hex().as_str() != manifest.table_blake3 {
        return Err("the digest of its section table does not match the manifest".into());
    }
    let n_relations = manifest.relations.len();
    let mut sections = Sections {
        out: vec![Rows::default(); n_relations],
        into: vec![Rows::default(); n_relations],
        ..Sections::default()
    };
    for entry in table.chunks_exact(ENTRY_BYTES) {
        place(&mut sections, entry, graph.len()).ok_or("its section table is invalid")?;
    }
    let n_nodes = manifest.n_nodes as usize;
    let bytes = |kind: SectionKind| sections.single[kind as usize].len();
    if bytes(SectionKind::NodeTypes) != n_nodes * 2
        || bytes(SectionKind::FieldOffsets) != (n_nodes + 1) * 8
    {
        return Err(format!("its sections do not match {n_nodes} nodes"));
    }
    Ok(sections)
}

/// Records one entry of the section table, `entry`, in `sections`; `None` if the entry is out of
/// bounds or of an unknown kind.
fn place(sections: &mut Sections, entry: &[u8], graph_bytes: usize) -> Option<()> {
    let kind = u16::from_le_bytes(*entry.first_chunk()?);
    let relation = u16::from_le_bytes(*entry.get(2..)?.first_chunk()?) as usize;
    let first = u32::from_le_bytes(*entry.get(4..)?.first_chunk()?);
    let offset = usize::try_from(u64::from_le_bytes(*entry.get(8..)?.first_chunk()?)).ok()?;
    let length = usize::try_from(u64::from_le_bytes(*entry.get(16..)?.first_chunk()?)).ok()?;
    let range = offset..offset.checked_add(length)?;
    if range.end > graph_bytes || !(offset as u64).is_multiple_of(SECTION_ALIGN) {
        return None;
    }
    use SectionKind::{InNodes, InOffsets, InSources, OutNodes, OutOffsets, OutTargets};
    let place_in = |kinds: [SectionKind; 3]| kinds.iter().position(|own| *own as u16 == kind);
    let out = place_in([OutOffsets, OutTargets, OutNodes]);
    let into = place_in([InOffsets, InSources, InNodes]);
    let (rows, part) = match (out, into) {
        (Some(part), _) => (sections.out.get_mut(relation)?, part),
        (None, Some(part)) => (sections.into.get_mut(relation)?, part),
        (None, None) => {
            let single = sections.single.get_mut(usize::from(kind)).filter(|_| kind > 0)?;
            *single = range;
            return Some(());
        }
    };
    match part {
        0 => (rows.first, rows.offsets) = (first, range),
        1 => rows.targets = range,
        _ => rows.nodes = range,
    }
    Some(())
}
