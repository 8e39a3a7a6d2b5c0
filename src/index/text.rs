//! Text search by BM25 over all nodes.
//!
//! A node has several texts: its document, its document with the names of its neighbours, and each
//! of its fields. Each kind of text is one file of [`postings`](crate::postings). The file
//! `weighted` indexes the stems of documents and names together for BM25F (`bm25f`). The file
//! `nodes` has two arrays: `types` `[n]`, the type of each node, and `fields` `[1]`, the number of
//! fields.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use crate::{
    Result,
    arrays::{Array, Arrays, named},
    bm25::Bm25,
    bm25f,
    postings::{Collection, Postings, PostingsBuilder, make_room},
};
use agent_ground::{
    locks::locked,
    words::{Analysis, Languages},
};
use agent_kb::{FieldId, NodeId, Ranking, TypeId};

const NODES: &str = "nodes";
pub(crate) const WEIGHTED: &str = "weighted";
/// Maximum number of sets of types for which a bitmap of their nodes is cached; a full cache is
/// cleared.
const MAX_KEPT_MASKS: usize = 64;

/// Which text of a node is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPart {
    /// The node's document.
    Document,
    /// The document followed by the names of the node's neighbours.
    DocumentWithNames,
    /// One field of the node.
    Field(FieldId),
}

impl TextPart {
    /// Lists the parts of a base with `n_fields` fields, each at the index that [`TextPart::place`]
    /// gives.
    fn all(n_fields: u16) -> impl Iterator<Item = Self> {
        let fields = (0..n_fields).map(|field| Self::Field(FieldId(field)));
        [Self::Document, Self::DocumentWithNames].into_iter().chain(fields)
    }

    /// Position of the part in [`TextPart::all`].
    fn place(self) -> usize {
        match self {
            Self::Document => 0,
            Self::DocumentWithNames => 1,
            Self::Field(field) => usize::from(field.0) + 2,
        }
    }

    fn file(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Self::Document => "document".to_owned(),
            Self::DocumentWithNames => "document_with_names".to_owned(),
            Self::Field(field) => format!("field_{}", field.0),
        })
    }
}

/// Search by words over the texts of all nodes.
pub struct TextIndex {
    types: Array<u16>,
    parts: Vec<Postings>,
    pub(crate) weighted: Postings,
    masks: Mutex<HashMap<Vec<TypeId>, Arc<[u64]>>>,
}

/// Builds a [`TextIndex`]; takes nodes in id order.
pub struct TextIndexBuilder {
    dir: PathBuf,
    /// One builder for each part of the text, in the order of [`TextPart::all`].
    pub(crate) parts: Vec<PostingsBuilder>,
}

impl TextIndexBuilder {
    /// Starts an index in the existing directory `dir`, of a base with `n_fields` fields.
    pub fn create(dir: &Path, n_fields: usize, languages: Languages) -> Self {
        let analysis = Analysis::of_documents(languages);
        let parts = TextPart::all(n_fields as u16)
            .map(|part| PostingsBuilder::create(&part.file(dir), analysis))
            .collect();
        Self { dir: dir.to_owned(), parts }
    }

    /// Adds the texts of a node: its document, the names of its neighbours, and its fields. Ids
    /// must ascend between calls. To bound memory, call [`settle`](crate::postings::settle) on
    /// the parts after each node.
    pub fn add<'a>(
        &mut self,
        node: NodeId,
        document: &str,
        names: &str,
        fields: impl Iterator<Item = (FieldId, &'a str)>,
    ) {
        self.parts[TextPart::Document.place()].add(node, [document]);
        self.parts[TextPart::DocumentWithNames.place()].add(node, [document, names]);
        for (field, text) in fields {
            if let Some(part) = self.parts.get_mut(TextPart::Field(field).place()) {
                part.add(node, [text]);
            }
        }
    }

    /// Writes the postings of the texts added since the last call to `out`, for
    /// [`take`](Self::take) of another builder.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn give(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.give(out))
    }

    /// Adds the postings that [`give`](Self::give) of another builder wrote. Their nodes must
    /// follow all nodes added so far and be below `end`. Memory is bounded.
    ///
    /// # Errors
    /// As [`PostingsBuilder::take`].
    pub fn take(&mut self, input: &mut dyn Read, end: NodeId) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.take(input, end))?;
        make_room(&mut self.parts)
    }

    /// Writes the files of the index; `types` yields the type of each node, in id order.
    ///
    /// # Errors
    /// [`crate::IndexError::Io`], with the path of the file.
    pub fn finish(self, types: impl Iterator<Item = TypeId>) -> Result<()> {
        let n_fields = self.parts.len() as u32 - 2;
        let types: Vec<u16> = types.map(|one| one.0).collect();
        self.parts.into_iter().try_for_each(|part| part.finish(types.len()))?;
        let path = self.dir.join(NODES);
        Arrays::write(&path, &[named("fields", &[n_fields]), named("types", &types)])
    }
}

impl TextIndex {
    /// Opens an index; its files are memory-mapped, not read.
    ///
    /// # Errors
    /// As [`Arrays::open`] and [`Arrays::get`].
    pub fn open(dir: &Path) -> Result<Self> {
        let arrays = Arrays::open(&dir.join(NODES))?;
        let n_fields = arrays.number::<u32>("fields")?.min(u16::MAX.into()) as u16;
        let parts = TextPart::all(n_fields).map(|part| Postings::open(&part.file(dir)));
        let parts = parts.collect::<Result<_, _>>()?;
        let weighted = Postings::open_weighted(&dir.join(WEIGHTED), bm25f::SETTING)?;
        Ok(Self { types: arrays.get("types")?, parts, weighted, masks: Mutex::default() })
    }

    /// Returns the `k` best nodes of the given types (of all types if `types` is empty) by BM25
    /// over one part of their text, best first, ties by ascending id. Empty for a field that the
    /// base does not have. See [`Postings::search`].
    pub fn search(&self, text: &str, part: TextPart, types: &[TypeId], k: usize) -> Ranking {
        let Some(postings) = self.parts.get(part.place()) else { return Vec::new() };
        let allowed = (!types.is_empty()).then(|| self.mask(types));
        postings.search(text, Bm25::default(), allowed.as_deref(), k)
    }

    /// Returns the `k` best nodes by BM25F over documents and names; see
    /// [`IndexedBase::search_fields`](crate::IndexedBase::search_fields).
    pub(crate) fn search_weighted(
        &self,
        asked: &[(String, f32)],
        types: &[TypeId],
        k: usize,
    ) -> Ranking {
        let allowed = (!types.is_empty()).then(|| self.mask(types));
        self.weighted.search_forms(asked, bm25f::SETTING, allowed.as_deref(), k)
    }

    /// The postings of documents with the names of neighbours.
    pub(crate) fn with_names(&self) -> Option<&Postings> {
        self.parts.get(TextPart::DocumentWithNames.place())
    }

    /// Returns for each of `types`, in their order, the result of [`search`](Self::search) among
    /// the nodes of that type. The query is analysed only once.
    pub fn search_each(
        &self,
        text: &str,
        part: TextPart,
        types: &[TypeId],
        k: usize,
    ) -> Vec<Ranking> {
        let masks: Vec<Arc<[u64]>> = types.iter().map(|&kind| self.mask(&[kind])).collect();
        match self.parts.get(part.place()) {
            Some(postings) => postings.search_each(text, Bm25::default(), &masks, k),
            None => vec![Vec::new(); types.len()],
        }
    }

    /// Creates the collection of one part of the text of all nodes of these types, which is
    /// searched independently of other nodes; `None` for a field that the base does not have.
    /// O(nodes).
    pub fn collection(&self, part: TextPart, types: &[TypeId]) -> Option<Collection> {
        Some(self.parts.get(part.place())?.collection(self.mask(types)))
    }

    /// Returns the `k` best nodes of `collection`, which must be a collection of `part`; see
    /// [`Postings::search_in`].
    pub fn search_in(
        &self,
        text: &str,
        part: TextPart,
        setting: Bm25,
        collection: &Collection,
        k: usize,
    ) -> Ranking {
        let postings = self.parts.get(part.place());
        postings.map_or_else(Vec::new, |part| part.search_in(text, setting, collection, k))
    }

    /// Returns the bitmap of the nodes of these types: 64 nodes per number, lowest bit first. The
    /// bitmaps of recent sets of types are cached.
    fn mask(&self, types: &[TypeId]) -> Arc<[u64]> {
        let lock = || locked(&self.masks);
        if let Some(mask) = lock().get(types) {
            return mask.clone();
        }
        let nodes = self.types.as_slice().chunks(u64::BITS as usize);
        let bits = |nodes: &[u16]| {
            let bit = |&of: &u16| u64::from(types.contains(&TypeId(of)));
            nodes.iter().rev().fold(0, |mask, of| mask << 1 | bit(of))
        };
        let mask: Arc<[u64]> = nodes.map(bits).collect();
        let mut kept = lock();
        if kept.len() >= MAX_KEPT_MASKS {
            kept.clear();
        }
        kept.insert(types.to_vec(), mask.clone());
        mask
    }
}
