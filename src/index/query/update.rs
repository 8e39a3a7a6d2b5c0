//! Updates the index of one version of a base to the next version: deletes the documents of changed
//! and removed nodes, adds those of changed and new nodes, and keeps the rest.
//!
//! Tantivy never changes its segment files, so those of the previous version are hard-linked. A
//! document is identified by its content, so a renumbered node keeps its document. Each document
//! has a *slot*, its `id` in tantivy; the file [`SLOTS`] maps slots to nodes. This file also holds
//! the number of words of each schema field, so that scores equal those of a new index bit for bit;
//! tantivy's own statistics would count deleted documents.

use tantivy::{DocSet, Term, query::Bm25StatisticsProvider};

use super::*;

/// Name of the file with the node of each slot and the number of words of each schema field. Only
/// an updated index has this file.
pub(super) const SLOTS: &str = "slots";
/// Value in place of a node for the slot of a deleted document.
pub(super) const DELETED: u32 = u32::MAX;
/// Maximum number of segments of an index; each update adds a segment, and a search visits all.
const MAX_SEGMENTS: usize = 12;
/// Length of a digest of a document, in bytes.
const DIGEST_BYTES: usize = 16;

/// The map from tantivy's documents to nodes in an updated index.
pub(super) struct Slots {
    /// The node of each slot, or [`DELETED`].
    nodes: Arc<[u32]>,
    /// Number of words of each schema field over all nodes.
    n_words: [u64; N_TEXTS],
}

/// Number of schema fields that hold words.
const N_TEXTS: usize = 5;

impl Fields {
    /// The schema fields that hold words, in the order of [`texts`].
    fn texts(self) -> [Field; N_TEXTS] {
        [self.node_type, self.name, self.body, self.fields, self.rel]
    }
}

/// Lists every text of a node's document: (index of its schema field in [`Fields::texts`], key
/// within this field, text).
fn texts(kb: &Kb, node: NodeId) -> Vec<(usize, u16, &str)> {
    let mut texts = vec![
        (0, 0, kb.type_name(kb.node_type(node))),
        (1, 0, kb.name(node)),
        (2, 0, kb.text(node)),
    ];
    // If a node has a field twice, the last value counts.
    let fields: BTreeMap<u16, &str> = kb.fields(node).map(|(id, text)| (id.0, text)).collect();
    texts.extend(fields.into_iter().map(|(id, text)| (3, id, text)));
    for relation in (0..).map(RelationId).take(kb.relations().len()) {
        let names = names_of_neighbors(kb, node, relation, Direction::Any).into_iter();
        texts.extend(names.map(|name| (4, relation.0, name)));
    }
    texts
}

/// Returns the digest of the texts of a node's document.
fn digest(kb: &Kb, node: NodeId) -> [u8; DIGEST_BYTES] {
    let mut hasher = blake3::Hasher::new();
    for (field, key, text) in texts(kb, node) {
        hasher.update(&[field as u8]);
        hasher.update(&key.to_le_bytes());
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    *hasher.finalize().as_bytes().first_chunk().unwrap_or(&[0; DIGEST_BYTES])
}

/// Counts the words in each schema field of a node's document.
fn n_words(kb: &Kb, node: NodeId) -> [u64; N_TEXTS] {
    let mut counts = [0; N_TEXTS];
    for (field, _, text) in texts(kb, node) {
        counts[field] += words_of(text).count() as u64;
    }
    counts
}

/// The changes that adapt an index to the new version of its base.
struct UpdatePlan {
    /// Slots of the documents to delete, ascending.
    gone: Vec<u32>,
    /// Nodes that have no document yet, ascending.
    new: Vec<NodeId>,
    /// For each slot of the index, the node of the document in the new version, or [`DELETED`].
    nodes: Vec<u32>,
}

impl UpdatePlan {
    /// Matches the documents of both versions by digest; `nodes` holds the node of each slot in the
    /// old version. O(text of both versions).
    fn new(old: &Kb, nodes: &[u32], kb: &Kb) -> Self {
        let there = (0..).zip(nodes).filter(|(_, node)| old.contains(**node));
        let mut then: Vec<([u8; DIGEST_BYTES], u32)> =
            there.map(|(slot, &node)| (digest(old, node), slot)).collect();
        let mut now: Vec<([u8; DIGEST_BYTES], u32)> =
            (0..kb.n_nodes()).map(|node| (digest(kb, node), node)).collect();
        then.sort_unstable();
        now.sort_unstable();
        let mut steps = Self { gone: vec![], new: vec![], nodes: vec![DELETED; nodes.len()] };
        let mut then = then.into_iter().peekable();
        for (digest, node) in now {
            while let Some((_, slot)) = then.next_if(|old| old.0 < digest) {
                steps.gone.push(slot);
            }
            match then.next_if(|old| old.0 == digest) {
                Some((_, slot)) => steps.nodes[slot as usize] = node,
                None => steps.new.push(node),
            }
        }
        steps.gone.extend(then.map(|(_, slot)| slot));
        steps.gone.sort_unstable();
        steps.new.sort_unstable();
        steps
    }
}

/// Updates the index of the previous version, given as its base and the directory of the index,
/// into the empty directory `dir`. Returns `false` and writes nothing if a new index must be built:
/// if fields or relations changed, the previous index is damaged or has too many segments, or more
/// than half of the nodes need a new document.
///
/// O(text of both versions); only new and changed documents are indexed.
pub(crate) fn update(
    (old, old_dir): (&Kb, &Path),
    kb: &Kb,
    watch: &Watch<'_>,
    dir: &Path,
) -> Result<bool> {
    // Stored keys are ids of fields and relations, so the names must be the same.
    if old.field_names() != kb.field_names() || old.relations() != kb.relations() {
        return Ok(false);
    }
    let Ok(index) = QueryIndex::open(old_dir) else { return Ok(false) };
    if index.verify().is_err() || index.searcher.segment_readers().len() >= MAX_SEGMENTS {
        return Ok(false);
    }
    let nodes: Vec<u32> = match &index.slots {
        Some(slots) => slots.nodes.to_vec(),
        None => (0..old.n_nodes()).collect(),
    };
    let UpdatePlan { gone, new, nodes: mut now } = UpdatePlan::new(old, &nodes, kb);
    if new.len() * 2 > kb.n_nodes() as usize {
        return Ok(false);
    }
    watch.check_stop()?;
    let failed = |error: tantivy::TantivyError| IndexError::io(dir)(io::Error::other(error));
    let count = |field| LiveStatistics(&index).total_num_tokens(field);
    let counts = index.fields.texts().into_iter().map(count).collect::<Result<Vec<_>, _>>();
    let mut counts = counts.map_err(failed)?;
    for &slot in &gone {
        let gone = n_words(old, nodes[slot as usize]);
        counts.iter_mut().zip(gone).for_each(|(count, n)| *count = count.saturating_sub(n));
    }
    link(&index.names, old_dir, dir).map_err(IndexError::io(dir))?;
    drop(index);
    let (_, at) = schema();
    let index = Index::open_in_dir(dir).map_err(failed)?;
    index.tokenizers().register(WORDS, TextAnalyzer::from(Words));
    let mut writer: IndexWriter = index.writer_with_num_threads(1, WRITER_BYTES).map_err(failed)?;
    writer.set_merge_policy(Box::new(NoMergePolicy));
    for &slot in &gone {
        writer.delete_term(Term::from_field_u64(at.id, slot.into()));
    }
    for (done, &node) in (0..).zip(&new) {
        watch.step(STAGE, done, new.len() as u64)?;
        writer.add_document(document(kb, node, now.len() as u64, at)).map_err(failed)?;
        now.push(node);
        counts.iter_mut().zip(n_words(kb, node)).for_each(|(count, n)| *count += n);
    }
    writer.commit().map_err(failed)?;
    writer.wait_merging_threads().map_err(failed)?;
    remove_unused(&index, dir)?;
    drop(index);
    let arrays = [named("n_words", &counts), named("nodes", &now)];
    Arrays::write_sealed(&dir.join(SLOTS), &arrays)?;
    seal(dir)?;
    watch.progress(STAGE, new.len() as u64, new.len() as u64)?;
    Ok(true)
}

/// Hard-links the files `names` of tantivy from one directory to another; copies files that cannot
/// be linked.
fn link(names: &Strings, from: &Path, to: &Path) -> io::Result<()> {
    for at in 0..names.len() {
        let name = String::from_utf8_lossy(names.get(at));
        let (source, target) = (from.join(&*name), to.join(&*name));
        // An update overwrites only the list of segments, which must not be linked.
        let is_list = name == LIST;
        if name != SLOTS && (is_list || fs::hard_link(&source, &target).is_err()) {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// Name of tantivy's list of segments, which an update overwrites.
const LIST: &str = "meta.json";

/// Removes the files of segments that are no longer used, and outdated lists of deleted documents.
fn remove_unused(index: &Index, dir: &Path) -> Result<()> {
    let failed = IndexError::io(dir);
    let segments = index.searchable_segment_metas();
    let segments = segments.map_err(|error| failed(io::Error::other(error)))?;
    let is_used = |name: &str| {
        segments.iter().any(|segment| {
            let deleted = segment.delete_opstamp().map(|stamp| format!(".{stamp}.del"));
            let is_last = || deleted.as_ref().is_some_and(|end| name.ends_with(end));
            name.starts_with(&segment.id().uuid_string()) && (!name.ends_with(".del") || is_last())
        })
    };
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != LIST && !name.starts_with('.') && !is_used(&name) {
            fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

impl Slots {
    /// Reads the file of slots in the directory `dir`.
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(SLOTS);
        let arrays = Arrays::open(&path)?;
        let n_words = arrays.get::<u64>("n_words")?;
        let n_words = <[u64; N_TEXTS]>::try_from(n_words.as_slice())
            .map_err(|_| IndexError::damaged(&path, "its number of fields is wrong"))?;
        Ok(Self { nodes: arrays.get::<u32>("nodes")?.as_slice().into(), n_words })
    }

    /// The node of a slot, or [`DELETED`].
    pub(super) fn node(&self, slot: u64) -> u32 {
        let node = usize::try_from(slot).ok().and_then(|slot| self.nodes.get(slot));
        node.copied().unwrap_or(DELETED)
    }
}

/// BM25 statistics of the live documents of an index, those that are not deleted.
pub(super) struct LiveStatistics<'a>(pub(super) &'a QueryIndex);

impl Bm25StatisticsProvider for LiveStatistics<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        let place = self.0.fields.texts().iter().position(|text| *text == field);
        match (&self.0.slots, place) {
            (Some(slots), Some(place)) => Ok(slots.n_words[place]),
            _ => self.0.searcher.total_num_tokens(field),
        }
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.0.searcher.num_docs())
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let mut n = 0;
        for segment in self.0.searcher.segment_readers() {
            let terms = segment.inverted_index(term.field())?;
            let Some(alive) = segment.alive_bitset() else {
                n += u64::from(terms.doc_freq(term)?);
                continue;
            };
            let Some(mut postings) = terms.read_postings(term, IndexRecordOption::Basic)? else {
                continue;
            };
            let mut document = postings.doc();
            while document != tantivy::TERMINATED {
                n += u64::from(alive.is_alive(document));
                document = postings.advance();
            }
        }
        Ok(n)
    }
}
