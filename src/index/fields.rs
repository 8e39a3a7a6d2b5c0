//! Text search by field: each field of the candidate nodes is a separate collection, with its own
//! idf and mean length, over the nodes that have the field.
//!
//! Fields are the name, the type if there are several, every field of the details, and for each
//! relation and direction the names of the neighbours (mFAR: Li et al. 2024, section 3). Each is
//! one file of [`postings`](crate::postings) over stems, whose places are those of the field's
//! nodes; the file `fields` has for all of them:
//!
//! | array | holds |
//! | --- | --- |
//! | `names`, `name_bounds` | the fields' names, in order |
//! | `kinds` | for each field, its [`FieldKind`] |
//! | `bounds`, `nodes` | the nodes of each field, ascending |
//! | `digests` | 64 bytes for each field: BLAKE3 of its postings, hex |

use std::{
    fs,
    path::{Path, PathBuf},
};

use safetensors::Dtype;

use crate::{
    IndexError,
    arrays::{Array, Arrays, Strings},
    bm25::Bm25,
    build::Watch,
    language::languages,
    postings::{Postings, PostingsBuilder, settle},
};
use agent_ground::words::Analysis;
use agent_kb::{Direction, FileRecord, Kb, NodeId, RelationId};

/// Maximum number of neighbours of one relation and direction whose names are indexed with a node.
const MAX_NAMED_NEIGHBORS: usize = 1_000;
/// Maximum number of fields of a base; each is a file.
const MAX_FIELDS: usize = 4_096;
/// Nodes between two reports of progress.
const REPORT_EVERY: usize = 4_096;
/// Name of the file beside the postings.
const FILE: &str = "fields";
/// Name of the stage in progress reports.
const STAGE: &str = "fields";
/// Length of a digest in hex, bytes.
const DIGEST: usize = 64;

/// Source of the text of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// The node's name.
    Name,
    /// The name of its type.
    Type,
    /// A field of its details.
    Detail,
    /// The names of its neighbours by one relation in one direction.
    Relation,
}

impl FieldKind {
    const ALL: [Self; 4] = [Self::Name, Self::Type, Self::Detail, Self::Relation];
}

/// The opened fields.
pub struct FieldIndex {
    arrays: Arrays,
    dir: PathBuf,
    fields: Vec<Field>,
    bounds: Array<u64>,
    nodes: Array<u32>,
    digests: Array<u8>,
}

struct Field {
    name: String,
    kind: FieldKind,
    postings: Postings,
}

/// Source of a field.
enum Source {
    Name,
    Type,
    Detail,
    Relation(RelationId, Direction),
}

/// A field being built.
struct FieldBuilder {
    name: String,
    kind: FieldKind,
    source: Source,
    nodes: Vec<NodeId>,
}

/// All possible fields of a base, details first, by their ids.
fn all_fields(kb: &Kb) -> Vec<FieldBuilder> {
    let builder = |name: &str, kind, source| FieldBuilder {
        name: name.to_owned(),
        kind,
        source,
        nodes: Vec::new(),
    };
    let details = kb.field_names().iter();
    let mut fields: Vec<FieldBuilder> =
        details.map(|name| builder(name, FieldKind::Detail, Source::Detail)).collect();
    fields.push(builder("name", FieldKind::Name, Source::Name));
    if kb.candidate_types().len() > 1 {
        fields.push(builder("type", FieldKind::Type, Source::Type));
    }
    for (relation, name) in (0..).map(RelationId).zip(kb.relations()) {
        for (direction, end) in [(Direction::Out, "out"), (Direction::In, "in")] {
            let source = Source::Relation(relation, direction);
            fields.push(builder(&format!("{name}.{end}"), FieldKind::Relation, source));
        }
    }
    fields
}

/// The file with the postings of a field.
fn postings_path(dir: &Path, field: usize) -> PathBuf {
    dir.join(format!("field_{field}"))
}

/// Builds all fields into a directory. O(text and names of neighbours).
pub(super) fn build(kb: &Kb, watch: &Watch<'_>, dir: &Path) -> Result<(), IndexError> {
    let mut fields = all_fields(kb);
    if fields.len() > MAX_FIELDS {
        return Err(IndexError::TooLarge("fields and relations", MAX_FIELDS as u64));
    }
    let path = |at: usize| dir.join(format!(".field_{at}"));
    let analysis = Analysis::Stems(languages(kb));
    let mut builders: Vec<PostingsBuilder> =
        (0..fields.len()).map(|at| PostingsBuilder::create(&path(at), analysis)).collect();
    let candidates = kb.candidates();
    for (done, &node) in candidates.iter().enumerate() {
        if done.is_multiple_of(REPORT_EVERY) {
            watch.progress(STAGE, done as u64, candidates.len() as u64)?;
        }
        watch.check_stop()?;
        for (id, text) in kb.fields(node) {
            add(&mut fields, &mut builders, id.0.into(), node, [text]);
        }
        for at in kb.field_names().len()..fields.len() {
            match fields[at].source {
                Source::Name => add(&mut fields, &mut builders, at, node, [kb.name(node)]),
                Source::Type => {
                    let name = kb.type_name(kb.node_type(node));
                    add(&mut fields, &mut builders, at, node, [name]);
                }
                Source::Relation(relation, direction) => {
                    let neighbors = kb.neighbors(node, relation, direction);
                    let names = neighbors.iter().take(MAX_NAMED_NEIGHBORS);
                    let mut names = names.map(|&neighbor| kb.name(neighbor)).peekable();
                    if names.peek().is_some() {
                        add(&mut fields, &mut builders, at, node, names);
                    }
                }
                Source::Detail => {}
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
        fs::rename(path(at), &target).map_err(|error| IndexError::io(&target, error))?;
        digests.extend_from_slice(digest(&target)?.as_bytes());
        kept.push(field);
    }
    let mut bounds = vec![0u64];
    for field in &kept {
        bounds.push(bounds.last().copied().unwrap_or(0) + field.nodes.len() as u64);
    }
    let nodes: Vec<NodeId> = kept.iter().flat_map(|field| &field.nodes).copied().collect();
    let kinds: Vec<u8> = kept.iter().map(|field| field.kind as u8).collect();
    let (name_bounds, names) = Strings::layout(kept.iter().map(|field| field.name.as_str()));
    let arrays: [(&str, Dtype, &[u8]); 6] = [
        ("bounds", Dtype::U64, bytemuck::cast_slice(&bounds)),
        ("name_bounds", Dtype::U64, bytemuck::cast_slice(&name_bounds)),
        ("nodes", Dtype::U32, bytemuck::cast_slice(&nodes)),
        ("digests", Dtype::U8, &digests),
        ("kinds", Dtype::U8, &kinds),
        ("names", Dtype::U8, &names),
    ];
    Arrays::write_sealed(&dir.join(FILE), &arrays)?;
    watch.progress(STAGE, candidates.len() as u64, candidates.len() as u64)
}

/// Adds the text of a node to a field; duplicate fields of a node count once.
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

fn digest(path: &Path) -> Result<String, IndexError> {
    Ok(FileRecord::of(path).map_err(|error| IndexError::io(path, error))?.blake3)
}

impl FieldIndex {
    /// Maps the fields in a directory; constant time.
    ///
    /// # Errors
    /// As [`Arrays::open`] and [`Arrays::get`].
    pub fn open(dir: &Path) -> Result<Self, IndexError> {
        let path = dir.join(FILE);
        let arrays = Arrays::open(&path)?;
        let names = Strings::new(arrays.get("name_bounds")?, arrays.get("names")?);
        let kinds: Array<u8> = arrays.get("kinds")?;
        let bounds: Array<u64> = arrays.get("bounds")?;
        let n = kinds.as_slice().len();
        if n > MAX_FIELDS || names.len() != n || bounds.as_slice().len() != n + 1 {
            return Err(IndexError::damaged(&path, "its fields are inconsistent".to_owned()));
        }
        let open = |(at, &kind): (usize, &u8)| {
            let unknown = || IndexError::damaged(&path, "unknown kind of field".to_owned());
            Ok(Field {
                name: String::from_utf8_lossy(names.get(at)).into_owned(),
                kind: FieldKind::ALL
                    .into_iter()
                    .find(|&known| known as u8 == kind)
                    .ok_or_else(unknown)?,
                postings: Postings::open(&postings_path(dir, at))?,
            })
        };
        Ok(Self {
            fields: kinds
                .as_slice()
                .iter()
                .enumerate()
                .map(open)
                .collect::<Result<_, IndexError>>()?,
            nodes: arrays.get("nodes")?,
            digests: arrays.get("digests")?,
            bounds,
            dir: dir.to_owned(),
            arrays,
        })
    }

    /// Reads all files and compares them with their checksums.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] with the file that differs.
    pub fn verify(&self) -> Result<(), IndexError> {
        self.arrays.verify()?;
        for at in 0..self.fields.len() {
            let path = postings_path(&self.dir, at);
            let stated = self.digests.as_slice().get(at * DIGEST..(at + 1) * DIGEST);
            if stated != Some(digest(&path)?.as_bytes()) {
                let reason = "its checksum does not match".to_owned();
                return Err(IndexError::damaged(&path, reason));
            }
        }
        Ok(())
    }

    /// One-line summary for people.
    pub fn describe(&self) -> String {
        let relations = (0..self.len()).filter(|&at| self.kind(at) == FieldKind::Relation).count();
        let (n, texts) = (self.len(), self.nodes.as_slice().len());
        format!("{n} fields, {relations} of them of neighbours, with {texts} texts")
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The name of a field: `brand` of details, `has_brand.out` and `has_brand.in` of neighbours.
    ///
    /// Details come first, so a detail with the name of a field of another kind has a smaller index.
    pub fn name(&self, field: usize) -> &str {
        self.fields.get(field).map_or("", |field| &field.name)
    }

    /// The kind of a field; [`FieldKind::Detail`] for a field that does not exist.
    pub fn kind(&self, field: usize) -> FieldKind {
        self.fields.get(field).map_or(FieldKind::Detail, |field| field.kind)
    }

    /// The nodes that have a field, ascending.
    pub fn nodes(&self, field: usize) -> &[NodeId] {
        self.nodes.part(&self.bounds, field)
    }

    /// The `k` best candidate nodes by BM25 in one field, best first; ties by ascending id. As
    /// [`Postings::search`].
    pub fn search(&self, field: usize, text: &str, k: usize) -> Vec<(NodeId, f32)> {
        let nodes = self.nodes(field);
        let Some(field) = self.fields.get(field) else { return Vec::new() };
        let found = field.postings.search(text, Bm25::MFAR, None, k);
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

    /// Nodes with and without a colour, and places near them.
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
        let meta =
            KbMeta { title: "t".into(), licence: "none".into(), candidate_types, languages: None };
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
        let names: Vec<&str> = (0..index.len()).map(|at| index.name(at)).collect();
        assert_eq!(names, ["colour", "name", "holds.in", "near.out"]);
        assert_eq!(index.kind(0), FieldKind::Detail);
        assert_eq!(index.kind(3), FieldKind::Relation);
        assert_eq!(index.describe(), "4 fields, 2 of them of neighbours, with 626 texts");
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
            assert_eq!(index.nodes(at), nodes);
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
