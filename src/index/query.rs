//! A query language over all nodes: words, phrases with slop, prefixes and typos in any field,
//! ranges of numbers, required and excluded terms. No other module uses tantivy.
//!
//! The index has one document for each node. Its schema fields are `id`, `type`, `name`, `body`
//! (the node's document) and three JSON fields: `fields` with the text of each field, `amounts`
//! with the numeric fields, and `rel` with the names of the neighbours over each relation. A key in
//! a JSON field is `f` or `r` and the id of the field or relation. Documents are in node order,
//! except in an updated index (`update`). Words come from [`name_words`]: case and accents are
//! folded; there are no stop words or stems.
//!
//! Queries are parsed by tantivy's grammar; this module interprets names of fields, typos and
//! prefixes. Scores are tantivy's BM25, which rounds lengths to one byte; the scores of
//! [`text`](crate::text) are exact.

mod directory;
mod parse;
#[cfg(test)]
mod tests;
mod update;

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fs, io,
    ops::Range,
    panic::catch_unwind,
    path::{Path, PathBuf},
    sync::Arc,
};

use tantivy::{
    DocId, Index, IndexReader, IndexWriter, ReloadPolicy, Score, Searcher, SegmentReader,
    TantivyDocument,
    collector::TopDocs,
    index::SegmentId,
    indexer::NoMergePolicy,
    schema::{
        FAST, Field, INDEXED, IndexRecordOption, JsonObjectOptions, OwnedValue, Schema,
        TextFieldIndexing, TextOptions,
    },
    tokenizer::{PreTokenizedStream, PreTokenizedString, TextAnalyzer, Token, Tokenizer},
};

pub use self::parse::QueryError;
pub(super) use self::update::update;
use self::{
    directory::ReadOnly,
    parse::Parser,
    update::{DELETED, LiveStatistics, Slots},
};
use crate::{
    IndexError, Result,
    arrays::{Array, Arrays, Strings, named},
    build::{Watch, names_of_neighbors},
};
use agent_ground::words::name_words;
use agent_kb::{Direction, FileRecord, Kb, NodeId, Ranking, RelationId, TypeId};

/// Name of the JSON field of numbers in the schema. An older version of the index, which lacks
/// numbers with a currency sign, uses another name and is therefore refused.
const NUMBERS: &str = "amounts";
/// Name of the tokenizer in the schema.
const WORDS: &str = "words";
/// Name of the file with the sizes and digests of tantivy's files.
const FILES: &str = "files";
/// Length in bytes of a hexadecimal digest.
const DIGEST: usize = 64;
/// Memory that tantivy's writer may use, in bytes.
const WRITER_BYTES: usize = 128 << 20;
/// Maximum length of an indexed word, in bytes; only the beginning of a longer word is indexed.
const MAX_WORD_BYTES: usize = 256;
/// Name of the stage in progress reports.
const STAGE: &str = "query";

/// The fields of tantivy's schema.
#[derive(Clone, Copy)]
struct Fields {
    id: Field,
    node_type: Field,
    name: Field,
    body: Field,
    fields: Field,
    numbers: Field,
    rel: Field,
}

/// Creates tantivy's schema and its fields, which are the same for every base.
fn schema() -> (Schema, Fields) {
    let words = || {
        let indexing = TextFieldIndexing::default().set_tokenizer(WORDS);
        indexing.set_index_option(IndexRecordOption::WithFreqsAndPositions)
    };
    let text = || TextOptions::default().set_indexing_options(words());
    let json = || JsonObjectOptions::default().set_indexing_options(words());
    let mut schema = Schema::builder();
    let fields = Fields {
        id: schema.add_u64_field("id", FAST | INDEXED),
        node_type: schema.add_text_field("type", text()),
        name: schema.add_text_field("name", text()),
        body: schema.add_text_field("body", text()),
        fields: schema.add_json_field("fields", json()),
        numbers: schema.add_json_field(NUMBERS, JsonObjectOptions::from(FAST)),
        rel: schema.add_json_field("rel", json()),
    };
    (schema.build(), fields)
}

/// Parses the text of a field as a finite number; ignores currency signs before the number, and
/// commas. `None` for any other text.
pub fn number(text: &str) -> Option<f64> {
    let plain = text.trim().trim_start_matches(['$', '€', '£']).replace(',', "");
    plain.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Returns the key of a field (kind `f`) or relation (kind `r`) in its JSON field, such as `f3`.
fn key(kind: char, id: u16) -> String {
    format!("{kind}{id}")
}

/// Creates tantivy's document of a node; its schema field `id` holds `slot`.
fn document(kb: &Kb, node: NodeId, slot: u64, at: Fields) -> TantivyDocument {
    let mut document = TantivyDocument::new();
    document.add_u64(at.id, slot);
    document.add_text(at.node_type, kb.type_name(kb.node_type(node)));
    document.add_text(at.name, kb.name(node));
    document.add_text(at.body, kb.text(node));
    let (mut fields, mut numbers) = (BTreeMap::new(), BTreeMap::new());
    for (field, text) in kb.fields(node) {
        let key = key('f', field.0);
        if let Some(number) = number(text) {
            numbers.insert(key.clone(), OwnedValue::F64(number));
        }
        fields.insert(key, OwnedValue::Str(text.to_owned()));
    }
    let mut relations = BTreeMap::new();
    for relation in (0..).map(RelationId).take(kb.relations().len()) {
        let names = names_of_neighbors(kb, node, relation, Direction::Any).into_iter();
        let names: Vec<OwnedValue> = names.map(|name| OwnedValue::Str(name.to_owned())).collect();
        if !names.is_empty() {
            relations.insert(key('r', relation.0), OwnedValue::Array(names));
        }
    }
    document.add_object(at.fields, fields);
    document.add_object(at.numbers, numbers);
    document.add_object(at.rel, relations);
    document
}

/// Builds the index of a base into the directory `dir`, on one thread, so that documents are in
/// node order.
pub(super) fn build(kb: &Kb, watch: &Watch<'_>, dir: &Path) -> Result<()> {
    let failed = |error: tantivy::TantivyError| IndexError::io(dir)(io::Error::other(error));
    let (schema, at) = schema();
    let index = Index::create_in_dir(dir, schema).map_err(failed)?;
    index.tokenizers().register(WORDS, TextAnalyzer::from(Words));
    let mut writer: IndexWriter = index.writer_with_num_threads(1, WRITER_BYTES).map_err(failed)?;
    writer.set_merge_policy(Box::new(NoMergePolicy));
    for node in 0..kb.n_nodes() {
        watch.step(STAGE, node.into(), kb.n_nodes().into())?;
        writer.add_document(document(kb, node, node.into(), at)).map_err(failed)?;
    }
    writer.commit().map_err(failed)?;
    let segments = in_order(&index).map_err(failed)?;
    watch.check_stop()?;
    if segments.len() > 1 {
        writer.merge(&segments).wait().map_err(failed)?;
    }
    writer.garbage_collect_files().wait().map_err(failed)?;
    writer.wait_merging_threads().map_err(failed)?;
    drop(index);
    seal(dir)?;
    watch.progress(STAGE, kb.n_nodes().into(), kb.n_nodes().into())
}

/// Lists the segments of tantivy's index in the order of their nodes.
fn in_order(index: &Index) -> tantivy::Result<Vec<SegmentId>> {
    let reader: IndexReader =
        index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
    let searcher = reader.searcher();
    let mut segments = Vec::new();
    for segment in searcher.segment_readers() {
        segments.push((segment.fast_fields().u64("id")?.first(0), segment.segment_id()));
    }
    segments.sort_unstable();
    Ok(segments.into_iter().map(|pair| pair.1).collect())
}

/// Removes the files that only a writer needs, then writes the sizes and digests of all others.
fn seal(dir: &Path) -> Result<()> {
    let failed = IndexError::io(dir);
    let (mut names, mut sizes, mut digests) = (Vec::new(), Vec::new(), Vec::new());
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            fs::remove_file(entry.path()).map_err(failed)?;
        } else {
            names.push(name);
        }
    }
    names.sort_unstable();
    for name in &names {
        let record = FileRecord::of(&dir.join(name)).map_err(failed)?;
        sizes.push(record.bytes);
        digests.extend_from_slice(record.blake3.as_bytes());
    }
    let (bounds, names) = Strings::layout(names.iter().map(String::as_str));
    let arrays = [
        named("bounds", &bounds),
        named("names", &names),
        named("sizes", &sizes),
        named("digests", &digests),
    ];
    Arrays::write_sealed(&dir.join(FILES), &arrays)
}

/// Opens tantivy's index in the directory `dir` for reading.
fn reader_of(dir: &Path) -> Result<IndexReader> {
    let damaged = |error: tantivy::TantivyError| IndexError::damaged(dir, error.to_string());
    let directory =
        ReadOnly::open(dir).map_err(|error| IndexError::io(dir)(io::Error::other(error)))?;
    let index = Index::open(directory).map_err(damaged)?;
    index.tokenizers().register(WORDS, TextAnalyzer::from(Words));
    if index.schema() != schema().0 {
        return Err(IndexError::damaged(dir, "its schema has another version"));
    }
    index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into().map_err(damaged)
}

/// The opened index of the query language.
pub struct QueryIndex {
    arrays: Arrays,
    names: Strings,
    digests: Array<u8>,
    dir: PathBuf,
    searcher: Searcher,
    fields: Fields,
    /// Map from the ids of documents to nodes in an updated index; `None` if these ids are the
    /// nodes.
    slots: Option<Arc<Slots>>,
}

impl QueryIndex {
    /// Opens the index in the directory `dir`; its files are mapped, and nothing is written.
    ///
    /// # Errors
    /// [`IndexError::Io`] if a file cannot be read, [`IndexError::Damaged`] if a file is malformed
    /// or its size is not the recorded one.
    pub fn open(dir: &Path) -> Result<Self> {
        let arrays = Arrays::open(&dir.join(FILES))?;
        let names = Strings::new(arrays.get("bounds")?, arrays.get("names")?);
        let sizes: Array<u64> = arrays.get("sizes")?;
        for at in 0..names.len() {
            let path = dir.join(&*String::from_utf8_lossy(names.get(at)));
            let size = fs::metadata(&path).map_err(IndexError::io(&path))?.len();
            if sizes.as_slice().get(at) != Some(&size) {
                return Err(IndexError::damaged(&path, "its length does not match"));
            }
        }
        // Tantivy may panic on damaged files.
        let opened = catch_unwind(|| reader_of(dir));
        let is_updated = (0..names.len()).any(|at| names.get(at) == update::SLOTS.as_bytes());
        let slots = is_updated.then(|| Slots::open(dir).map(Arc::new)).transpose()?;
        let reader =
            opened.unwrap_or_else(|_| Err(IndexError::damaged(dir, "it cannot be read")))?;
        Ok(Self {
            searcher: reader.searcher(),
            names,
            digests: arrays.get("digests")?,
            dir: dir.to_owned(),
            arrays,
            fields: schema().1,
            slots,
        })
    }

    /// Reads all files and compares them with their recorded checksums.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] with the first file that differs.
    pub fn verify(&self) -> Result<()> {
        self.arrays.verify()?;
        for at in 0..self.names.len() {
            let path = self.dir.join(&*String::from_utf8_lossy(self.names.get(at)));
            let recorded = self.digests.as_slice().get(at * DIGEST..(at + 1) * DIGEST);
            IndexError::check_digest(&path, recorded)?;
        }
        Ok(())
    }

    /// Returns a one-line summary for display.
    pub fn describe(&self) -> String {
        format!("query language over {} nodes", self.searcher.num_docs())
    }

    /// Whether the field with this key, such as `f3`, is a number for at least one node.
    fn has_numbers(&self, key: &str) -> tantivy::Result<bool> {
        let path = format!("{NUMBERS}.{key}");
        for segment in self.searcher.segment_readers() {
            if !segment.fast_fields().dynamic_column_handles(&path)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the `k` best nodes for a query among the given types (all types if `types` is
    /// empty), with their scores, best first, ties by ascending id. Names of fields and relations
    /// in the query are those of `kb`.
    ///
    /// # Errors
    /// [`QueryError`] if the query is invalid or the index is damaged.
    pub fn search(
        &self,
        kb: &Kb,
        query: &str,
        types: &[TypeId],
        k: usize,
    ) -> Result<Ranking, QueryError> {
        let damaged = |error: tantivy::TantivyError| {
            QueryError::Index(IndexError::damaged(&self.dir, error.to_string()))
        };
        let has_numbers = |key: &str| self.has_numbers(key).map_err(damaged);
        let query =
            Parser { kb, at: self.fields, text: query, has_numbers: &has_numbers }.query()?;
        if k == 0 {
            return Ok(Vec::new());
        }
        let k = k.min(self.searcher.num_docs().max(1) as usize);
        let (slots, is_wanted) = (self.slots.clone(), wanted(kb, types));
        // Every match is scored, because tantivy's block-max pruning misses nodes with JSON fields.
        let best = TopDocs::with_limit(k).tweak_score(move |segment: &SegmentReader| {
            let ids = segment.fast_fields().u64("id").ok();
            let (slots, is_wanted) = (slots.clone(), is_wanted.clone());
            move |document: DocId, score: Score| {
                let slot = ids.as_ref().and_then(|ids| ids.first(document)).unwrap_or(u64::MAX);
                let node = match &slots {
                    Some(slots) => slots.node(slot),
                    None => NodeId::try_from(slot).unwrap_or(DELETED),
                };
                let of_node = || is_wanted.get(node as usize).copied().unwrap_or_default();
                let is_wanted = is_wanted.is_empty() || of_node();
                (if is_wanted { score } else { UNWANTED }, Reverse(node))
            }
        });
        let statistics = LiveStatistics(self);
        let found = self.searcher.search_with_statistics_provider(&*query, &best, &statistics);
        let found = found.map_err(damaged)?.into_iter().map(|(ranked, _)| ranked);
        let node = |(score, Reverse(node)): (Score, Reverse<NodeId>)| match kb.contains(node) {
            true => Ok((node, score)),
            false => Err(IndexError::damaged(&self.dir, "a node is not in the base").into()),
        };
        found.filter(|(score, _)| *score > UNWANTED).map(node).collect()
    }
}

/// The score of a node whose type is not wanted, below all other scores.
const UNWANTED: Score = Score::NEG_INFINITY;

/// Returns for each node, by id, whether its type is one of `types`; empty if `types` is empty.
fn wanted(kb: &Kb, types: &[TypeId]) -> Arc<[bool]> {
    let n_nodes = if types.is_empty() { 0 } else { kb.n_nodes() as usize };
    let mut is_wanted = vec![false; n_nodes];
    for &node in types.iter().flat_map(|&kind| kb.nodes_of_type(kind)) {
        if let Some(is_wanted) = is_wanted.get_mut(node as usize) {
            *is_wanted = true;
        }
    }
    is_wanted.into()
}

/// Tokenizer that gives tantivy the words of [`words_of`].
#[derive(Clone, Copy)]
struct Words;

/// Splits a text into words, each with its byte range; words are cut to [`MAX_WORD_BYTES`].
fn words_of(text: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    name_words(text).map(|(range, word)| {
        let end = word.floor_char_boundary(MAX_WORD_BYTES);
        (range, word[..end].to_owned())
    })
}

impl Tokenizer for Words {
    type TokenStream<'a> = PreTokenizedStream;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> PreTokenizedStream {
        let token = |(position, (range, text)): (usize, (Range<usize>, String))| Token {
            offset_from: range.start,
            offset_to: range.end,
            position,
            text,
            position_length: 1,
        };
        let tokens = words_of(text).enumerate().map(token).collect();
        PreTokenizedString { text: String::new(), tokens }.into()
    }
}
