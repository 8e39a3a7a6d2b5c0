//! Text search over all nodes: given words, the best nodes by BM25.
//!
//! tantivy (k1 = 1.2, b = 0.75, lengths kept in one byte) over the analysis of
//! [`reference_words`]. Indexed per node: its document, its document with the names of its
//! neighbours, and each of its fields. One segment is written in node order, so that a document's
//! number is its node's id and ties fall to the smaller id.
//!
//! The only file that knows tantivy.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use tantivy::{
    Index, ReloadPolicy, Searcher, SingleSegmentIndexWriter, TantivyDocument, Term,
    collector::TopDocs,
    directory::MmapDirectory,
    query::{BooleanQuery, ConstScoreQuery, Occur, Query, TermQuery},
    schema::{Field, INDEXED, IndexRecordOption, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{BoxTokenStream, Token, TokenStream, Tokenizer, TokenizerManager},
};

use crate::{
    index::IndexError,
    kb::{FieldId, NodeId, TypeId, best_first},
    words::reference_words,
};

const ANALYZER: &str = "reference";
/// Name of the engine's field that holds the type.
const TYPE: &str = "type";
/// Memory that the writer sizes its hash table by, bytes.
const WRITER_BYTES: usize = 1 << 30;
/// Distinct words of a query that are searched; later ones are dropped.
pub const MAX_QUERY_WORDS: usize = 256;

/// Which text is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPart {
    /// The node's document.
    Document,
    /// The document with the names of the node's neighbours.
    DocumentWithNames,
    /// One field of the node.
    Field(FieldId),
}

/// Search over the text of all nodes.
pub struct TextIndex {
    searcher: Searcher,
    dir: PathBuf,
}

/// Writes the index, nodes in id order.
pub struct TextIndexBuilder {
    writer: SingleSegmentIndexWriter,
    node_type: Field,
    schema: Schema,
    dir: PathBuf,
}

fn field_name(part: TextPart) -> String {
    match part {
        TextPart::Document => "document".to_owned(),
        TextPart::DocumentWithNames => "document_with_names".to_owned(),
        TextPart::Field(field) => format!("field_{}", field.0),
    }
}

fn engine_error(path: &Path, error: impl std::error::Error) -> IndexError {
    IndexError::damaged(path, error.to_string())
}

impl TextIndexBuilder {
    /// Starts an index in an existing, empty directory.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] with the engine's reason.
    pub fn create(dir: &Path, n_fields: usize) -> Result<Self, IndexError> {
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_tokenizer(ANALYZER)
            .set_index_option(IndexRecordOption::WithFreqs);
        let options = TextOptions::default().set_indexing_options(indexing);
        let fields = (0..n_fields).map(|field| TextPart::Field(FieldId(field as u16)));
        for part in [TextPart::Document, TextPart::DocumentWithNames].into_iter().chain(fields) {
            schema.add_text_field(&field_name(part), options.clone());
        }
        let node_type = schema.add_u64_field(TYPE, INDEXED);
        let schema = schema.build();
        let directory = MmapDirectory::open(dir).map_err(|error| engine_error(dir, error))?;
        let writer = Index::builder()
            .schema(schema.clone())
            .tokenizers(analyzers())
            .single_segment_index_writer(directory, WRITER_BYTES)
            .map_err(|error| engine_error(dir, error))?;
        Ok(Self { writer, node_type, schema, dir: dir.to_owned() })
    }

    /// Adds the next node.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] with the engine's reason, such as a full disk.
    pub fn add<'a>(
        &mut self,
        node_type: TypeId,
        document: &str,
        names: &str,
        fields: impl Iterator<Item = (FieldId, &'a str)>,
    ) -> Result<(), IndexError> {
        let mut entry = TantivyDocument::default();
        entry.add_u64(self.node_type, u64::from(node_type.0));
        let mut add = |part, text: &str| {
            if let Ok(field) = self.schema.get_field(&field_name(part)) {
                entry.add_text(field, text);
            }
        };
        add(TextPart::Document, document);
        add(TextPart::DocumentWithNames, document);
        add(TextPart::DocumentWithNames, names);
        fields.for_each(|(field, text)| add(TextPart::Field(field), text));
        self.writer.add_document(entry).map_err(|error| engine_error(&self.dir, error))
    }

    /// Writes the segment.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] with the engine's reason, such as a full disk.
    pub fn finish(self) -> Result<(), IndexError> {
        self.writer.finalize().map(drop).map_err(|error| engine_error(&self.dir, error))
    }
}

impl TextIndex {
    /// Opens an index; its files are mapped, not read.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] with the engine's reason.
    pub fn open(dir: &Path) -> Result<Self, IndexError> {
        let fail = |error| engine_error(dir, error);
        let directory = MmapDirectory::open(dir).map_err(|error| engine_error(dir, error))?;
        let index = Index::open(directory).map_err(fail)?;
        let searcher = index
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .try_into()
            .map_err(fail)?
            .searcher();
        Ok(Self { searcher, dir: dir.to_owned() })
    }

    /// The `k` best nodes by BM25, best first; ties by ascending id. Only nodes of the given types,
    /// all when empty. Words beyond [`MAX_QUERY_WORDS`] are dropped.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] when a file of the index cannot be read.
    pub fn search(
        &self,
        text: &str,
        part: TextPart,
        types: &[TypeId],
        k: usize,
    ) -> Result<Vec<(NodeId, f32)>, IndexError> {
        let schema = self.searcher.schema();
        let Ok(field) = schema.get_field(&field_name(part)) else { return Ok(Vec::new()) };
        let mut words: Vec<String> =
            reference_words(text).map(|(_, word)| word).take(MAX_QUERY_WORDS).collect();
        words.sort_unstable();
        words.dedup();
        if words.is_empty() || k == 0 {
            return Ok(Vec::new());
        }
        let terms = words.iter().map(|word| {
            let term = Term::from_field_text(field, word);
            let query: Box<dyn Query> =
                Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs));
            (Occur::Should, query)
        });
        let mut query: Box<dyn Query> = Box::new(BooleanQuery::new(terms.collect()));
        if let (false, Ok(node_type)) = (types.is_empty(), schema.get_field(TYPE)) {
            let any = types.iter().map(|kind| {
                let term = Term::from_field_u64(node_type, u64::from(kind.0));
                let query: Box<dyn Query> =
                    Box::new(TermQuery::new(term, IndexRecordOption::Basic));
                (Occur::Should, query)
            });
            let of_type = ConstScoreQuery::new(Box::new(BooleanQuery::new(any.collect())), 0.0);
            query = Box::new(BooleanQuery::new(vec![
                (Occur::Must, query),
                (Occur::Must, Box::new(of_type)),
            ]));
        }
        let hits = self
            .searcher
            .search(&query, &TopDocs::with_limit(k).order_by_score())
            .map_err(|error| engine_error(&self.dir, error))?;
        let mut ranking: Vec<(NodeId, f32)> =
            hits.into_iter().map(|(score, address)| (address.doc_id, score)).collect();
        ranking.sort_by(best_first);
        Ok(ranking)
    }
}

fn analyzers() -> TokenizerManager {
    let analyzers = TokenizerManager::default();
    analyzers.register(ANALYZER, ReferenceAnalyzer);
    analyzers
}

/// Feeds [`reference_words`] to the engine.
#[derive(Clone)]
struct ReferenceAnalyzer;

struct ReferenceStream<I> {
    words: I,
    token: Token,
}

impl Tokenizer for ReferenceAnalyzer {
    type TokenStream<'a> = BoxTokenStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> BoxTokenStream<'a> {
        BoxTokenStream::new(ReferenceStream {
            words: reference_words(text),
            token: Token::default(),
        })
    }
}

impl<I: Iterator<Item = (Range<usize>, String)>> TokenStream for ReferenceStream<I> {
    fn advance(&mut self) -> bool {
        let Some((range, word)) = self.words.next() else { return false };
        self.token.offset_from = range.start;
        self.token.offset_to = range.end;
        self.token.position = self.token.position.wrapping_add(1);
        self.token.text = word;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}
