//! Text search by field. Each field of the candidate nodes is a separate collection of texts with
//! its own document frequencies and mean length; the collection contains the nodes that have the
//! field.
//!
//! Fields are the name, the type if there are several candidate types, every field of the details,
//! and for each relation and direction the names of the neighbours (mFAR: Li et al. 2024, section
//! 3). Each field is one file of [`postings`](crate::postings) over stems; text `i` belongs to the
//! field's `i`-th node in the table of fields. [`FieldVectors`] holds vectors of the fields
//! instead.

mod table;
mod vectors;

use std::{
    fs,
    path::{Path, PathBuf},
};

pub(super) use self::vectors::build as build_vectors;
pub use self::{table::FieldTable, vectors::FieldVectors};
use crate::{
    IndexError, Result,
    bm25::Bm25,
    build::{Watch, names_of_neighbors},
    language::languages,
    postings::{Postings, PostingsBuilder, settle},
};
use agent_ground::words::Analysis;
use agent_kb::{Direction, FieldId, FileRecord, Kb, NodeId, Ranking, RelationId};

/// Maximum number of fields of a base; each field with texts is a file.
const MAX_FIELDS: usize = 4_096;
/// Name of the stage in progress reports.
const STAGE: &str = "fields";

/// Where the text of a field comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// The node's name.
    Name,
    /// The name of the node's type.
    Type,
    /// One field of the node's details.
    Detail,
    /// The names of the node's neighbours over one relation in one direction, such as
    /// `has_brand.out`.
    Relation,
}

impl FieldKind {
    const ALL: [Self; 4] = [Self::Name, Self::Type, Self::Detail, Self::Relation];
}

/// The opened index of the fields of a base.
pub struct FieldIndex {
    dir: PathBuf,
    table: FieldTable,
    postings: Vec<Postings>,
}

/// Where the text of a field comes from, with the ids in the base.
enum Source {
    Name,
    Type,
    Detail(FieldId),
    Relation(RelationId, Direction),
}

impl Source {
    fn kind(&self) -> FieldKind {
        match self {
            Self::Name => FieldKind::Name,
            Self::Type => FieldKind::Type,
            Self::Detail(_) => FieldKind::Detail,
            Self::Relation(..) => FieldKind::Relation,
        }
    }

    /// Returns the parts of the text that a node has in this field; none if the node lacks the
    /// field.
    fn parts<'a>(&self, kb: &'a Kb, node: NodeId) -> Vec<&'a str> {
        match *self {
            Self::Name => vec![kb.name(node)],
            Self::Type => vec![kb.type_name(kb.node_type(node))],
            Self::Detail(field) => kb.field(node, field).into_iter().collect(),
            Self::Relation(relation, way) => names_of_neighbors(kb, node, relation, way),
        }
    }
}

/// A field that is being built, with the nodes that have it.
struct FieldBuilder {
    name: String,
    source: Source,
    nodes: Vec<NodeId>,
}

/// Lists all fields that a base may have, in this order: details by id, name, type, relations by
/// id.
///
/// # Errors
/// [`IndexError::TooLarge`] above [`MAX_FIELDS`].
fn all_fields(kb: &Kb) -> Result<Vec<FieldBuilder>> {
    let builder =
        |name: &str, source| FieldBuilder { name: name.to_owned(), source, nodes: Vec::new() };
    let details = (0..).map(FieldId).zip(kb.field_names());
    let mut fields: Vec<FieldBuilder> =
        details.map(|(id, name)| builder(name, Source::Detail(id))).collect();
    fields.push(builder("name", Source::Name));
    if kb.candidate_types().len() > 1 {
        fields.push(builder("type", Source::Type));
    }
    for (relation, name) in (0..).map(RelationId).zip(kb.relations()) {
        for (direction, end) in [(Direction::Out, "out"), (Direction::In, "in")] {
            let source = Source::Relation(relation, direction);
            fields.push(builder(&format!("{name}.{end}"), source));
        }
    }
    if fields.len() > MAX_FIELDS {
        return Err(IndexError::TooLarge("fields and relations", MAX_FIELDS as u64));
    }
    Ok(fields)
}

/// Path of the file with the postings of a field.
fn postings_path(dir: &Path, field: usize) -> PathBuf {
    dir.join(format!("field_{field}"))
}

/// Builds the index of all fields into the directory `dir`. O(text of the candidates and names of
/// their neighbours).
pub(super) fn build(kb: &Kb, watch: &Watch<'_>, dir: &Path) -> Result<()> {
    let mut fields = all_fields(kb)?;
    let path = |at: usize| dir.join(format!(".field_{at}"));
    let analysis = Analysis::Stems(languages(kb));
    let mut builders: Vec<PostingsBuilder> =
        (0..fields.len()).map(|at| PostingsBuilder::create(&path(at), analysis)).collect();
    let candidates = kb.candidates();
    for (done, &node) in candidates.iter().enumerate() {
        watch.step(STAGE, done as u64, candidates.len() as u64)?;
        for (id, text) in kb.fields(node) {
            add(&mut fields, &mut builders, id.0.into(), node, [text]);
        }
        for at in kb.field_names().len()..fields.len() {
            let parts = fields[at].source.parts(kb, node);
            if !parts.is_empty() {
                add(&mut fields, &mut builders, at, node, parts);
            }
        }
        settle(&mut builders)?;
    }
    let (mut kept, mut digests) = (Vec::new(), Vec::new());
    for (at, (field, builder)) in fields.into_iter().zip(builders).enumerate() {
        watch.check_stop()?;
        if field.nodes.is_empty() {
            continue;
        }
        builder.finish(field.nodes.len())?;
        let target = postings_path(dir, kept.len());
        fs::rename(path(at), &target).map_err(IndexError::io(&target))?;
        let record = FileRecord::of(&target).map_err(IndexError::io(&target))?;
        digests.extend_from_slice(record.blake3.as_bytes());
        kept.push(field);
    }
    FieldTable::write(dir, &kept, &digests)?;
    watch.progress(STAGE, candidates.len() as u64, candidates.len() as u64)
}

/// Adds the text of a node to field `at`. If a node has a field twice, the first text counts.
fn add<'a>(
    fields: &mut [FieldBuilder],
    builders: &mut [PostingsBuilder],
    at: usize,
    node: NodeId,
    parts: impl IntoIterator<Item = &'a str>,
) {
    let (Some(field), Some(builder)) = (fields.get_mut(at), builders.get_mut(at)) else { return };
    if field.nodes.last() != Some(&node) {
        builder.add(field.nodes.len() as NodeId, parts);
        field.nodes.push(node);
    }
}

impl FieldIndex {
    /// Opens the fields in the directory `dir`; the files are mapped, not read. Constant time.
    ///
    /// # Errors
    /// [`IndexError::Io`] if a file cannot be read, [`IndexError::Damaged`] if a file is malformed.
    pub fn open(dir: &Path) -> Result<Self> {
        let table = FieldTable::open(dir)?;
        let open = |field| Postings::open(&postings_path(dir, field));
        let postings: Result<_> = (0..table.len()).map(open).collect();
        Ok(Self { dir: dir.to_owned(), postings: postings?, table })
    }

    /// Reads all files and compares them with their recorded checksums.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] with the first file that differs.
    pub fn verify(&self) -> Result<()> {
        self.table.verify()?;
        for at in 0..self.postings.len() {
            let path = postings_path(&self.dir, at);
            IndexError::check_digest(&path, self.table.digest(at))?;
        }
        Ok(())
    }

    /// The fields, each with the nodes that have it.
    pub fn table(&self) -> &FieldTable {
        &self.table
    }

    /// Returns the `k` best candidates by BM25 over the field with this index, with their scores,
    /// best first, ties by ascending id. Empty for an unknown field. See [`Postings::search`].
    pub fn search(&self, field: usize, text: &str, k: usize) -> Ranking {
        let nodes = self.table.nodes(field);
        let Some(postings) = self.postings.get(field) else { return Vec::new() };
        let found = postings.search(text, Bm25::MFAR, None, k);
        found
            .into_iter()
            .filter_map(|(at, score)| Some((*nodes.get(at as usize)?, score)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::postings;
    use agent_ground::words::Languages;
    use agent_kb::{KbMeta, KbWriter};

    /// Creates a base of things with and without a colour, and places near them.
    fn base(dir: &Path) -> Kb {
        let mut writer = KbWriter::create(dir).unwrap();
        for at in 0..40u32 {
            writer.push_node("place", &format!("place{} of stones", at % 7), "", &[]).unwrap();
        }
        for at in 0..200u32 {
            let colour = format!("shade{} shades{}", at % 11, at % 3).repeat(at as usize % 4 + 1);
            let fields = [("colour".to_owned(), colour), ("never".to_owned(), "x".to_owned())];
            let n = usize::from(at % 5 != 0);
            let thing = writer.push_node("thing", "thing", "", &fields[..n]).unwrap();
            for near in 0..at % 3 {
                writer.push_edge(thing, "near", (at * 3 + near) % 40).unwrap();
                writer.push_edge((at + near) % 40, "holds", thing).unwrap();
            }
        }
        let candidate_types = vec!["thing".to_owned()];
        let meta = KbMeta {
            title: "t".into(),
            licence: "none".into(),
            candidate_types,
            ..KbMeta::default()
        };
        writer.finish(&meta, &mut |_, _| true).unwrap();
        Kb::open(dir).unwrap()
    }

    #[test]
    fn a_field_is_a_collection_of_the_nodes_that_have_it() {
        let dir = tempfile::tempdir().unwrap();
        let kb = base(&dir.path().join("kb"));
        let (parts, stop) = (dir.path().join("fields"), AtomicBool::new(false));
        fs::create_dir(&parts).unwrap();
        build(&kb, &Watch { report: &|_| {}, stop: &stop }, &parts).unwrap();
        let index = FieldIndex::open(&parts).unwrap();
        index.verify().unwrap();
        let names: Vec<&str> = (0..index.table().len()).map(|at| index.table().name(at)).collect();
        assert_eq!(names, ["colour", "name", "holds.in", "near.out"]);
        assert_eq!(index.table().kind(0), FieldKind::Detail);
        assert_eq!(index.table().kind(3), FieldKind::Relation);
        assert_eq!(index.table().describe(), "4 fields (2 with names of neighbours), 626 texts");
        let near = kb.relation_id("near").unwrap();
        let joined = |node: NodeId| {
            let names = kb.neighbors(node, near, Direction::Out);
            names.iter().map(|&near| kb.name(near)).collect::<Vec<_>>().join("\n")
        };
        let colour = |node: NodeId| kb.fields(node).next().map_or("", |pair| pair.1).to_owned();
        let texts: [(usize, &dyn Fn(NodeId) -> String); 2] = [(0, &colour), (3, &joined)];
        for (at, text) in texts {
            let has = |node: &NodeId| !text(*node).is_empty();
            let nodes: Vec<NodeId> = kb.candidates().iter().copied().filter(has).collect();
            assert_eq!(index.table().nodes(at), nodes);
            let alone = dir.path().join(format!("alone{at}"));
            postings::build(
                &alone,
                Analysis::Stems(Languages::ENGLISH),
                nodes.iter().map(|&node| text(node)),
            )
            .unwrap();
            let alone = Postings::open(&alone).unwrap();
            for query in ["shade3 shades1", "place5 stone", "shade0", "nothing"] {
                let found = index.search(at, query, 50);
                let expected = alone.search(query, Bm25::MFAR, None, 50);
                let expected = expected.into_iter().map(|(at, score)| (nodes[at as usize], score));
                assert_eq!(found, expected.collect::<Vec<_>>(), "{query}");
            }
        }
        assert_eq!(index.search(9, "shade3", 5), []);
    }
}
