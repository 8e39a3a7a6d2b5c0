//! Writes a base by streaming: nodes in id order, edges in any order, then [`KbWriter::finish`].
//!
//! Memory: text goes to the disk in batches of about 16 MiB. The writer holds 8 bytes per edge (at
//! most twice that while a list grows or is sorted), 10 bytes per node and 2 bytes per field value;
//! for nodes with keys, also the keys and 12 bytes per node.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::{BufWriter, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use bytemuck::NoUninit;

use crate::{
    KbError, MAX_EDGES, MAX_KEY_BYTES, MAX_LABEL_BYTES, MAX_LABELS, MAX_NODES, NodeId, Result,
    arrow::{HashingFile, HashingWriter, TableWriter},
    distinct,
    manifest::{FORMAT_VERSION, FileRecord, MANIFEST_FILE, Manifest},
    open::{
        ENTRY_BYTES, FIELDS_FILE, GRAPH_FILE, KEYS_FILE, MAGIC, NODES_FILE, SECTION_ALIGN,
        SectionKind,
    },
    publish::sync_dir,
    rows::Adjacency,
};
use agent_ground::words::{Languages, is_control};

/// Description of a base for [`KbWriter::finish`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KbMeta {
    /// Title of the base, for people.
    pub title: String,
    /// Licence of the data, for people.
    pub licence: String,
    /// Names of the types whose nodes may be answers; none or `"*"` means all types.
    pub candidate_types: Vec<String>,
    /// Languages of the texts; `None` if the data do not name them.
    pub languages: Option<Languages>,
    /// Other words that people use for a type or relation, by its name.
    pub said_as: BTreeMap<String, Vec<String>>,
}

/// The word for a field in messages. Unlike other names, names of fields may contain control
/// characters.
const FIELD: &str = "field";
/// Maximum number of characters of a refused name that an error shows.
const SHOWN_CHARS: usize = 60;
/// Size in bytes of the buffer in front of the digest: large enough for BLAKE3's SIMD instructions.
const DIGEST_BUFFER: usize = 64 << 10;

/// Assigns numbers to names, in order of first use.
#[derive(Default)]
struct Interner(HashMap<String, u16>);

impl Interner {
    fn id(&mut self, kind: (&'static str, &'static str), name: &str) -> Result<u16> {
        if let Some(&id) = self.0.get(name) {
            return Ok(id);
        }
        let (singular, plural) = kind;
        check_label(singular, name, MAX_LABEL_BYTES)?;
        let too_many = KbError::TooMany { what: plural, limit: MAX_LABELS as u64 };
        let id = u16::try_from(self.0.len()).ok();
        let id = id.filter(|&id| usize::from(id) < MAX_LABELS).ok_or(too_many)?;
        self.0.insert(name.to_string(), id);
        Ok(id)
    }

    /// Returns the names, ascending, and for each old id the position of its name among them.
    fn sorted(&self) -> (Vec<String>, Vec<u16>) {
        let order = distinct(self.0.iter().collect());
        let mut rank = vec![0u16; order.len()];
        for (new, (_, old)) in (0..=u16::MAX).zip(&order) {
            if let Some(slot) = rank.get_mut(usize::from(**old)) {
                *slot = new;
            }
        }
        (order.into_iter().map(|(name, _)| name.clone()).collect(), rank)
    }
}

/// Refuses a label that is empty, longer than `limit` bytes or, unless it names a field, contains a
/// control character.
fn check_label(what: &'static str, label: &str, limit: usize) -> Result<()> {
    if label.is_empty() || label.len() > limit {
        return Err(KbError::BadLabel { what, bytes: label.len(), limit });
    }
    // Field names may hold any character: no program is generated from them.
    if what != FIELD && label.contains(is_control) {
        let beginning: String = label.chars().take(SHOWN_CHARS).collect();
        return Err(KbError::ControlInLabel { what, shown: format!("{beginning:?}") });
    }
    Ok(())
}

/// The keys of all nodes pushed so far.
struct Keys {
    table: TableWriter,
    /// All keys, one after another without separators.
    texts: String,
    /// End of each node's key in `texts`, in bytes.
    ends: Vec<usize>,
}

impl Keys {
    fn key(&self, node: u32) -> &str {
        let at = node as usize;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let end = self.ends.get(at).copied().unwrap_or_default();
        self.texts.get(start.unwrap_or_default()..end).unwrap_or_default()
    }

    /// Returns all nodes in the order of their keys; nodes with equal keys by ascending id.
    fn order(&self) -> Vec<u32> {
        let mut nodes: Vec<u32> = (0..self.ends.len() as u32).collect();
        nodes.sort_by(|&a, &b| self.key(a).cmp(self.key(b)));
        nodes
    }
}

/// Writes a base into a directory of its own. If the writer is dropped early, partial files stay
/// there; the caller must remove them.
pub struct KbWriter {
    dir: PathBuf,
    nodes: TableWriter,
    fields: TableWriter,
    /// Keys of the nodes; `None` until a node with a key is pushed.
    keys: Option<Keys>,
    types: Interner,
    relations: Interner,
    field_names: Interner,
    node_types: Vec<u16>,
    field_offsets: Vec<u64>,
    field_ids: Vec<u16>,
    /// Edges by relation, in order of first use, as `source << 32 | target`.
    edges: Vec<Vec<u64>>,
    n_edges: u64,
    content: Content,
}

impl KbWriter {
    /// Starts a base in the directory `dir`, which is created if needed and must not contain a base
    /// yet.
    ///
    /// # Errors
    /// [`KbError::Io`], also if `dir` already contains files of a base; [`KbError::BigEndian`].
    pub fn create(dir: &Path) -> Result<KbWriter> {
        if cfg!(target_endian = "big") {
            return Err(KbError::BigEndian);
        }
        fs::create_dir_all(dir).map_err(KbError::io("create", dir))?;
        Ok(KbWriter {
            dir: dir.to_path_buf(),
            nodes: TableWriter::create(dir.join(NODES_FILE), "id", &["type", "name", "text"])?,
            fields: TableWriter::create(dir.join(FIELDS_FILE), "node", &["field", "value"])?,
            keys: None,
            types: Interner::default(),
            relations: Interner::default(),
            field_names: Interner::default(),
            node_types: Vec::new(),
            field_offsets: vec![0],
            field_ids: Vec::new(),
            edges: Vec::new(),
            n_edges: 0,
            content: Content::new(),
        })
    }

    /// Returns the number of nodes pushed so far; also the id of the next node.
    pub fn n_nodes(&self) -> u32 {
        // At most MAX_NODES, see `push_node`.
        self.node_types.len() as u32
    }

    /// Appends a node and returns its id. `text` is the node's document without its relations.
    /// `fields` has pairs (name, flattened text) in the order in which readers will get the fields.
    ///
    /// # Errors
    /// [`KbError::TooMany`], [`KbError::BadLabel`], [`KbError::ControlInLabel`] or [`KbError::Io`].
    /// After the first three the node is not added, and the writer may continue.
    pub fn push_node(
        &mut self,
        node_type: &str,
        name: &str,
        text: &str,
        fields: &[(String, String)],
    ) -> Result<NodeId> {
        let node = self.n_nodes();
        if node >= MAX_NODES {
            return Err(KbError::TooMany { what: "nodes", limit: MAX_NODES.into() });
        }
        let type_id = self.types.id(("type", "types"), node_type)?;
        let mut ids = Vec::with_capacity(fields.len());
        for (field, _) in fields {
            ids.push(self.field_names.id((FIELD, "fields"), field)?);
        }
        self.nodes.push(node, &[node_type, name, text])?;
        self.node_types.push(type_id);
        for part in [node_type, name, text] {
            self.content.part(part);
        }
        self.content.bytes(&(fields.len() as u64).to_le_bytes());
        for (field, value) in fields {
            self.fields.push(node, &[field, value])?;
            self.content.part(field);
            self.content.part(value);
        }
        self.field_ids.extend(ids);
        self.field_offsets.push(self.field_ids.len() as u64);
        Ok(node)
    }

    /// As [`KbWriter::push_node`], with `key`, the id of the node in the imported data. Either all
    /// nodes of a base have keys or none. Keys are not checked for duplicates.
    ///
    /// # Errors
    /// As [`KbWriter::push_node`]; [`KbError::BadLabel`] also if the key is empty or longer than
    /// [`MAX_KEY_BYTES`]; [`KbError::ControlInLabel`] also for the key; [`KbError::MissingKeys`] if
    /// an earlier node has no key.
    pub fn push_keyed_node(
        &mut self,
        key: &str,
        node_type: &str,
        name: &str,
        text: &str,
        fields: &[(String, String)],
    ) -> Result<NodeId> {
        check_label("id", key, MAX_KEY_BYTES)?;
        let had = self.keys.as_ref().map_or(0, |keys| keys.ends.len());
        if had != self.node_types.len() {
            return Err(KbError::MissingKeys);
        }
        let node = self.push_node(node_type, name, text, fields)?;
        let keys = match self.keys.take() {
            Some(keys) => self.keys.insert(keys),
            None => {
                let table = TableWriter::create(self.dir.join(KEYS_FILE), "node", &["key"])?;
                self.keys.insert(Keys { table, texts: String::new(), ends: Vec::new() })
            }
        };
        keys.table.push(node, &[key])?;
        keys.texts.push_str(key);
        keys.ends.push(keys.texts.len());
        self.content.part(key);
        Ok(node)
    }

    /// Adds a directed edge between two nodes that are already pushed. Repeated edges are dropped
    /// by [`KbWriter::finish`].
    ///
    /// # Errors
    /// [`KbError::EdgeOutOfRange`], [`KbError::TooMany`], [`KbError::BadLabel`] or
    /// [`KbError::ControlInLabel`]; after each of them the edge is not added, and the writer may
    /// continue.
    pub fn push_edge(&mut self, source: NodeId, relation: &str, target: NodeId) -> Result<()> {
        let n_nodes = self.n_nodes();
        if source >= n_nodes || target >= n_nodes {
            return Err(KbError::EdgeOutOfRange { source_id: source, target_id: target, n_nodes });
        }
        if self.n_edges >= MAX_EDGES {
            return Err(KbError::TooMany { what: "edges", limit: MAX_EDGES });
        }
        let relation = self.relations.id(("relation", "relations"), relation)? as usize;
        if relation >= self.edges.len() {
            self.edges.resize_with(relation + 1, Vec::new);
        }
        if let Some(edges) = self.edges.get_mut(relation) {
            edges.push(u64::from(source) << 32 | u64::from(target));
            self.n_edges += 1;
        }
        Ok(())
    }

    /// Sorts the edges, writes the graph and the manifest, and syncs all files to the disk. Returns
    /// the manifest; the number of pushed edges minus `n_edges` is the number of dropped
    /// duplicates.
    ///
    /// Calls `go_on(done, total)`, with numbers of edges, at least once per relation; if it returns
    /// `false`, the writer stops. O(e log e) in the number `e` of edges of a relation.
    ///
    /// # Errors
    /// [`KbError::NoNodes`], [`KbError::MissingKeys`], [`KbError::UnknownCandidateType`],
    /// [`KbError::UnknownSaidAs`], [`KbError::Stopped`] or [`KbError::Io`].
    pub fn finish(
        mut self,
        meta: &KbMeta,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Manifest> {
        let n_nodes = self.n_nodes();
        if n_nodes == 0 {
            return Err(KbError::NoNodes);
        }
        if self.keys.as_ref().is_some_and(|keys| keys.ends.len() != n_nodes as usize) {
            return Err(KbError::MissingKeys);
        }
        let (types, type_rank) = self.types.sorted();
        let (relations, relation_rank) = self.relations.sorted();
        let (fields, field_rank) = self.field_names.sorted();
        rerank(&mut self.node_types, &type_rank);
        rerank(&mut self.field_ids, &field_rank);
        let candidate_types = candidate_types(meta, &types)?;
        let is_known = |name: &&String| types.contains(name) || relations.contains(name);
        if let Some(name) = meta.said_as.keys().find(|name| !is_known(name)) {
            let known = [types.join(", "), relations.join(", ")].join(", ");
            return Err(KbError::UnknownSaidAs { name: name.clone(), known });
        }

        let mut files = BTreeMap::new();
        files.insert(NODES_FILE.to_string(), self.nodes.finish()?);
        files.insert(FIELDS_FILE.to_string(), self.fields.finish()?);

        let mut graph = GraphWriter::create(self.dir.join(GRAPH_FILE))?;
        let type_counts = write_types(&mut graph, &self.node_types, &types, &candidate_types)?;
        graph.single(SectionKind::FieldOffsets, &self.field_offsets)?;
        graph.single(SectionKind::FieldIds, &self.field_ids)?;
        if let Some(keys) = self.keys.take() {
            graph.single(SectionKind::KeyOrder, &keys.order())?;
            files.insert(KEYS_FILE.to_string(), keys.table.finish()?);
        }

        let mut by_rank: Vec<(u16, Vec<u64>)> =
            relation_rank.iter().copied().zip(std::mem::take(&mut self.edges)).collect();
        by_rank.sort_unstable_by_key(|(rank, _)| *rank);
        let (total, mut done, mut n_edges) = (self.n_edges, 0u64, 0u64);
        let mut tuples = Vec::new();
        for (relation, edges) in by_rank {
            if !go_on(done, total) {
                return Err(KbError::Stopped);
            }
            done += edges.len() as u64;
            let (out, into) = Adjacency::both(edges);
            n_edges += out.targets.len() as u64;
            self.content.part(relations.get(relation as usize).map_or("", String::as_str));
            self.content.bytes(&(out.targets.len() as u64).to_le_bytes());
            for (source, targets) in out.rows() {
                for target in targets {
                    // The same bytes as those of the number `source << 32 | target`.
                    self.content.bytes(&target.to_le_bytes());
                    self.content.bytes(&source.to_le_bytes());
                }
            }
            count_tuples(&mut tuples, relation, &out, &self.node_types);
            graph.relation(relation, &out, &into)?;
        }
        go_on(total, total);
        tuples.sort_unstable();
        for id in &candidate_types {
            self.content.part(types.get(*id as usize).map_or("", String::as_str));
        }
        let (graph_record, table_offset, table) = graph.finish()?;
        files.insert(GRAPH_FILE.to_string(), graph_record);

        let mut manifest = Manifest {
            format_version: FORMAT_VERSION,
            title: meta.title.clone(),
            licence: meta.licence.clone(),
            languages: meta.languages,
            said_as: meta.said_as.clone(),
            n_nodes,
            n_edges,
            types,
            type_counts,
            relations,
            fields,
            tuples,
            candidate_types,
            files,
            table_offset,
            table_entries: (table.len() / ENTRY_BYTES) as u64,
            table_blake3: blake3::hash(&table).to_hex().to_string(),
            fingerprint: self.content.finish(),
            checksum: String::new(),
        };
        write_manifest(&self.dir, &mut manifest)?;
        Ok(manifest)
    }
}

/// Computes the digest of the content of a base; collects small pieces in a buffer first.
struct Content(BufWriter<blake3::Hasher>);

impl Content {
    fn new() -> Content {
        Content(BufWriter::with_capacity(DIGEST_BUFFER, blake3::Hasher::new()))
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // Writing to a hasher cannot fail.
        let _ = self.0.write_all(bytes);
    }

    fn part(&mut self, part: &str) {
        self.bytes(&(part.len() as u64).to_le_bytes());
        self.bytes(part.as_bytes());
    }

    fn finish(mut self) -> String {
        let _ = self.0.flush();
        self.0.get_ref().finalize().to_hex().to_string()
    }
}

fn rerank(ids: &mut [u16], rank: &[u16]) {
    for id in ids {
        *id = rank.get(*id as usize).copied().unwrap_or_default();
    }
}

fn candidate_types(meta: &KbMeta, types: &[String]) -> Result<Vec<u16>> {
    let wanted = &meta.candidate_types;
    if wanted.is_empty() || wanted.iter().any(|name| name == "*") {
        return Ok((0..=u16::MAX).zip(types).map(|(id, _)| id).collect());
    }
    let id = |name: &String| {
        let found = (0..=u16::MAX).zip(types).find(|(_, known)| *known == name);
        found.map(|(id, _)| id).ok_or_else(|| KbError::UnknownCandidateType {
            name: name.clone(),
            known: types.join(", "),
        })
    };
    Ok(distinct(wanted.iter().map(id).collect::<Result<_, _>>()?))
}

/// Writes the sections with the node types, the nodes by type and the candidates; returns the
/// number of nodes of each type, by type id.
fn write_types(
    graph: &mut GraphWriter,
    node_types: &[u16],
    types: &[String],
    candidate_types: &[u16],
) -> Result<Vec<u32>> {
    let mut counts = vec![0u32; types.len()];
    for type_id in node_types {
        if let Some(count) = counts.get_mut(*type_id as usize) {
            *count += 1;
        }
    }
    let mut offsets = vec![0u32];
    let mut sum = 0;
    for count in &counts {
        sum += count;
        offsets.push(sum);
    }
    let mut by_type: Vec<u32> = (0..node_types.len() as u32).collect();
    by_type.sort_by_key(|&node| node_types.get(node as usize));
    let candidates: Vec<u32> = (0..=u32::MAX)
        .zip(node_types)
        .filter(|(_, type_id)| candidate_types.binary_search(type_id).is_ok())
        .map(|(node, _)| node)
        .collect();
    graph.single(SectionKind::NodeTypes, node_types)?;
    graph.single(SectionKind::TypeOffsets, &offsets)?;
    graph.single(SectionKind::NodesByType, &by_type)?;
    graph.single(SectionKind::Candidates, &candidates)?;
    Ok(counts)
}

fn count_tuples(
    tuples: &mut Vec<(u16, u16, u16, u64)>,
    relation: u16,
    out: &Adjacency,
    node_types: &[u16],
) {
    let type_of = |node: u32| node_types.get(node as usize).copied().unwrap_or_default();
    let mut counts: BTreeMap<(u16, u16), u64> = BTreeMap::new();
    for (source, targets) in out.rows() {
        for run in targets.chunk_by(|&a, &b| type_of(a) == type_of(b)) {
            let target = run.first().map_or(0, |&node| type_of(node));
            *counts.entry((type_of(source), target)).or_default() += run.len() as u64;
        }
    }
    tuples.extend(counts.into_iter().map(|((s, t), n)| (s, relation, t, n)));
}

fn write_manifest(dir: &Path, manifest: &mut Manifest) -> Result<()> {
    let path = dir.join(MANIFEST_FILE);
    let to_io = |error: serde_json::Error| KbError::io("write", &path)(error.into());
    manifest.checksum = manifest.own_digest().map_err(to_io)?;
    let mut file = HashingWriter::create(path.clone())?;
    let json = serde_json::to_vec_pretty(manifest).map_err(to_io)?;
    file.write_all(&json).map_err(KbError::io("write", &path))?;
    HashingWriter::finish(file)?;
    sync_dir(dir)
}

/// Writes `graph.bin` from front to back: sections, then their table.
struct GraphWriter {
    file: HashingFile,
    table: Vec<u8>,
}

impl GraphWriter {
    fn create(path: PathBuf) -> Result<GraphWriter> {
        let mut writer = GraphWriter { file: HashingWriter::create(path)?, table: Vec::new() };
        writer.write(MAGIC)?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes);
        written.map_err(|source| KbError::io("write", &self.file.get_ref().path)(source))
    }

    fn pad(&mut self) -> Result<()> {
        let bytes = HashingWriter::bytes(&self.file);
        self.write(&vec![0; (bytes.next_multiple_of(SECTION_ALIGN) - bytes) as usize])
    }

    /// Writes a section that occurs once, and enters it in the table.
    fn single<T: NoUninit>(&mut self, kind: SectionKind, elements: &[T]) -> Result<()> {
        self.section(kind, 0, 0, bytemuck::cast_slice(elements)).map(drop)
    }

    /// Writes a section and enters it in the table; returns its byte range in the file. `relation`
    /// and `first` are 0 where the kind does not use them.
    fn section(
        &mut self,
        kind: SectionKind,
        relation: u16,
        first: u32,
        elements: &[u8],
    ) -> Result<Range<u64>> {
        self.pad()?;
        let offset = HashingWriter::bytes(&self.file);
        self.write(elements)?;
        let place = offset..offset + elements.len() as u64;
        self.enter(kind, relation, first, &place);
        Ok(place)
    }

    fn enter(&mut self, kind: SectionKind, relation: u16, first: u32, place: &Range<u64>) {
        self.table.extend((kind as u16).to_le_bytes());
        self.table.extend(relation.to_le_bytes());
        self.table.extend(first.to_le_bytes());
        self.table.extend(place.start.to_le_bytes());
        self.table.extend((place.end - place.start).to_le_bytes());
    }

    /// Writes the sections of both directions of a relation. If both are equal, writes only one and
    /// enters it for both.
    fn relation(&mut self, relation: u16, out: &Adjacency, into: &Adjacency) -> Result<()> {
        use SectionKind::{InNodes, InOffsets, InSources, OutNodes, OutOffsets, OutTargets};
        if out.targets.is_empty() {
            return Ok(());
        }
        let same = out == into;
        let (turned, stored) =
            ([InOffsets, InSources, InNodes], [OutOffsets, OutTargets, OutNodes]);
        let both = [(stored, out), (turned, into)];
        for (kinds, rows) in both.into_iter().take(if same { 1 } else { 2 }) {
            let parts =
                kinds.into_iter().zip(turned).zip([&rows.offsets, &rows.targets, &rows.nodes]);
            for ((kind, turned), ids) in parts.filter(|(_, ids)| !ids.is_empty()) {
                let place = self.section(kind, relation, rows.first, bytemuck::cast_slice(ids))?;
                if same {
                    self.enter(turned, relation, rows.first, &place);
                }
            }
        }
        Ok(())
    }

    /// Writes the section table. Returns the size and digest of the file, the byte offset of the
    /// table in the file, and the table.
    fn finish(mut self) -> Result<(FileRecord, u64, Vec<u8>)> {
        self.pad()?;
        let (offset, table) = (HashingWriter::bytes(&self.file), std::mem::take(&mut self.table));
        self.write(&table)?;
        Ok((HashingWriter::finish(self.file)?, offset, table))
    }
}
