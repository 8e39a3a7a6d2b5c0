//! An opened knowledge base with all its indexes, for tools and retrievers.

use std::{
    any::{self, Any},
    borrow::Cow,
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
};

use crate::{
    Access, EmbedderChoice, FieldsQuery, IndexError, Part, Result,
    documents::Documents,
    embedder::{IndexEmbedder, open_own},
    entities::EntityIndex,
    language::languages,
    layout::{
        NAMES, NAMES_TERMS, Record, Seal, TERMS, TEXT, VECTORS, VectorsRecord, WORDS, WordsRecord,
        fingerprint, part_path,
    },
    parts,
    query::QueryIndex,
    spelling::Spelling,
    terms::TermIndex,
    text::TextIndex,
    vectors::VectorIndex,
};
use agent_embed::{EmbedError, Embedder, matrix::dot};
use agent_ground::{locks::locked, words::Stems};
use agent_kb::{Kb, NodeId, Ranking, TypeId, distinct, table::value::thousands_or_fraction};

/// Maximum number of texts whose embeddings are cached; a full cache is cleared.
const MAX_CACHED_VECTORS: usize = 4_096;
/// Maximum number of texts per correction that are checked for other words of the query, to choose
/// among equally near corrections.
const COMPARED_TEXTS: usize = 1_000;

/// A knowledge base and its indexes, read-only and shared between threads.
pub struct IndexedBase {
    /// The knowledge base.
    pub kb: Kb,
    /// Search by words over the texts of all nodes.
    pub text: TextIndex,
    /// Forward index of the nodes' documents, to score single nodes by words.
    pub terms: TermIndex,
    /// Forward index of the names of each node's neighbours, to score single nodes by words.
    pub neighbor_names: TermIndex,
    /// The entity index, which finds the nodes that a text names.
    pub entities: EntityIndex,
    /// One embedding per node; zeros for a node without an embedding.
    pub vectors: VectorIndex,
    /// The optional index of the query language, opened at first use.
    query: OnceLock<QueryIndex>,
    /// The stemmers for the languages of all lexical indexes.
    pub stems: Stems,
    embedder: IndexEmbedder,
    words_seal: Option<Seal>,
    index_dir: PathBuf,
    name: String,
    cached_vectors: Mutex<HashMap<String, Arc<[f32]>>>,
    derived: Mutex<HashMap<any::TypeId, Arc<dyn Any + Send + Sync>>>,
    spelling: Spelling,
    fingerprint: String,
}

impl IndexedBase {
    /// Opens a base and its index; `name` is the base's name in messages. Opening takes
    /// milliseconds, however large the base is. Only a sentence encoder takes longer: all its files
    /// are read to check their digests.
    ///
    /// ```no_run
    /// use agent::{dataset::Home, index::IndexedBase};
    ///
    /// let shop = Home::new("home").get("shop")?;
    /// let base = IndexedBase::open(&shop.kb_dir(), &shop.index_dir(), "shop")?;
    /// for (node, score) in base.search_vectors("a durable bottle", &[], 5)? {
    ///     println!("{score:.4} {}", base.kb.name(node));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`IndexError::Missing`], [`IndexError::OtherBase`] or [`IndexError::Damaged`]; an error of
    /// the base or of the embedder.
    pub fn open(kb_dir: &Path, index_dir: &Path, name: &str) -> Result<Self> {
        Self::open_with(kb_dir, index_dir, name, Access::none().clone())
    }

    /// As [`open`](Self::open), with the external resources `access` for the embedder. If an
    /// external embedder cannot be opened, the base still opens, and embedding a text fails.
    ///
    /// # Errors
    /// As [`IndexedBase::open`].
    pub fn open_with(kb_dir: &Path, index_dir: &Path, name: &str, access: Access) -> Result<Self> {
        let kb = Kb::open(kb_dir)?;
        let (words, text, [terms, neighbor_names], entities) = open_words(index_dir, &kb, name)?;
        let (vectors, record) = open_vectors(index_dir, &kb, name)?;
        Ok(Self {
            fingerprint: fingerprint(&words, &record),
            text,
            terms,
            neighbor_names,
            entities,
            vectors,
            stems: Stems::new(words.languages),
            embedder: IndexEmbedder::new(index_dir, record, &access)?,
            words_seal: words.seal,
            index_dir: index_dir.to_owned(),
            name: name.to_owned(),
            cached_vectors: Mutex::default(),
            derived: Mutex::default(),
            spelling: Spelling::default(),
            query: OnceLock::new(),
            kb,
        })
    }

    /// Returns the document of a node as word search reads it: its text and the texts of rows
    /// without a name that belong to it, such as reviews. Empty if the node does not exist.
    pub fn document(&self, node: NodeId) -> Cow<'_, str> {
        self.derived(|base| Documents::new(&base.kb)).of(&self.kb, node)
    }

    /// Returns both meanings of a number that the languages of this base write in two ways, as in
    /// [`thousands_or_fraction`]; `None` if it has one meaning, and in English bases.
    pub fn doubtful_number(&self, number: &str) -> Option<String> {
        let (whole, fraction) = thousands_or_fraction(number)?;
        let message = format!("{number:?} may be {whole} or {fraction}; write one of these");
        Some(message).filter(|_| !self.stems.languages().is_english())
    }

    /// Returns the value that `derive` computes from this base, one per type `T`; computed at first
    /// use and kept as long as the base. Concurrent first calls may each compute it.
    pub fn derived<T: Any + Send + Sync>(&self, derive: impl FnOnce(&Self) -> T) -> Arc<T> {
        let known = locked(&self.derived).get(&any::TypeId::of::<T>()).cloned();
        known.and_then(|value| value.downcast().ok()).unwrap_or_else(|| {
            let value = Arc::new(derive(self));
            locked(&self.derived).insert(any::TypeId::of::<T>(), value.clone());
            value
        })
    }

    /// Reads all files of the index and of its embedder, and compares them with their recorded
    /// digests. `on_bytes` receives the number of bytes read since its last call. Returns whether
    /// the records of both parts, `words/` and `vectors/`, have digests; an index that an older
    /// version built may have none.
    ///
    /// # Errors
    /// [`IndexError::Damaged`], [`IndexError::Io`], or an error of the embedder.
    pub fn verify(&self, on_bytes: &mut dyn FnMut(u64)) -> Result<bool> {
        self.embedder.verify()?;
        let mut sealed = true;
        for (part, seal) in self.seals() {
            match seal {
                Some(seal) => seal.check(&self.index_dir.join(part), on_bytes)?,
                None => sealed = false,
            }
        }
        if !sealed {
            self.vectors.verify()?;
            for &part in &self.embedder.record().parts {
                parts::verify(part, &self.part(part)?)?;
            }
        }
        Ok(sealed)
    }

    /// Number of bytes of index files that [`IndexedBase::verify`] reads and reports to its
    /// callback.
    pub fn bytes_to_verify(&self) -> u64 {
        self.seals().iter().filter_map(|(_, seal)| *seal).map(Seal::bytes).sum()
    }

    fn seals(&self) -> [(&str, Option<&Seal>); 2] {
        [(WORDS, self.words_seal.as_ref()), (VECTORS, self.embedder.record().seal.as_ref())]
    }

    /// Name of the base, as given when it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fingerprint of the base, the index format, the languages and the embedder. Equal
    /// fingerprints give equal answers.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The embedder that made the vectors of the nodes.
    pub fn embedder(&self) -> &dyn Embedder {
        &self.embedder
    }

    /// Which embedder made the vectors of the nodes, as named on the command line.
    pub fn embedder_choice(&self) -> &EmbedderChoice {
        &self.embedder.record().embedder
    }

    /// Whether a sentence encoder, not the built-in embedder, made the vectors of the nodes.
    pub fn has_encoder(&self) -> bool {
        *self.embedder_choice() != EmbedderChoice::Builtin
    }

    /// Returns the directory of an optional part of the index.
    ///
    /// # Errors
    /// [`IndexError::MissingPart`] unless the part is built.
    pub fn part(&self, part: Part) -> Result<PathBuf> {
        if self.embedder.record().parts.contains(&part) {
            return Ok(part_path(&self.index_dir, part));
        }
        Err(IndexError::MissingPart { base: self.name.clone(), part })
    }

    /// Returns the index of the query language; opens it at first use.
    ///
    /// # Errors
    /// [`IndexError::MissingPart`] unless the part is built; [`IndexError::Io`] or
    /// [`IndexError::Damaged`] for its files.
    pub fn query_index(&self) -> Result<&QueryIndex> {
        if let Some(index) = self.query.get() {
            return Ok(index);
        }
        let opened = QueryIndex::open(&self.part(Part::Query)?)?;
        Ok(self.query.get_or_init(|| opened))
    }

    /// Returns a one-line summary of each built optional part, for display.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] or [`IndexError::Io`] if a part cannot be opened.
    pub fn describe_parts(&self) -> Result<Vec<String>> {
        let parts = self.embedder.record().parts.iter();
        parts.map(|&part| parts::describe(part, &self.part(part)?)).collect()
    }

    /// Embeds a text as a query; the vector has length 1 or is all zeros. Recent vectors are cached
    /// by text.
    ///
    /// # Errors
    /// Errors of the embedder.
    pub fn embed_query(&self, text: &str) -> Result<Arc<[f32]>, EmbedError> {
        if let Some(vector) = locked(&self.cached_vectors).get(text) {
            return Ok(vector.clone());
        }
        let vector: Arc<[f32]> = self.embedder.embed_query(text)?.into();
        let mut kept = locked(&self.cached_vectors);
        if kept.len() >= MAX_CACHED_VECTORS {
            kept.clear();
        }
        kept.insert(text.to_owned(), vector.clone());
        Ok(vector)
    }

    /// Returns the similarity of each node's embedding to a text, in the order of `nodes`; 0 for a
    /// node without an embedding. O(nodes).
    ///
    /// # Errors
    /// Errors of the embedder and of the vectors.
    pub fn similarities(&self, text: &str, nodes: &[NodeId]) -> Result<Vec<f32>> {
        Ok(self.vectors.score(&self.embed_query(text)?, nodes)?)
    }

    /// Returns the similarity of each node's name, embedded as a document, to a text embedded as a
    /// query, in the order of `nodes`. Embeds every name; with a sentence encoder this is slow
    /// unless the names are cached.
    ///
    /// # Errors
    /// Errors of the embedder.
    pub fn name_similarities(&self, text: &str, nodes: &[NodeId]) -> Result<Vec<f32>> {
        let query = self.embed_query(text)?;
        let names: Vec<&str> = nodes.iter().map(|&node| self.kb.name(node)).collect();
        let names = self.embedder.embed_documents(&names)?;
        Ok(names.data().chunks_exact(names.dim()).map(|name| dot(name, &query)).collect())
    }

    /// Returns the `k` best nodes of the given types (of all types if `types` is empty) with their
    /// scores, best first, ties by ascending id. The score is BM25F over the stems of a node's
    /// document and of its neighbours' names. Question words of `text` are ignored, and misspelled
    /// words are [corrected](Self::corrected). O(postings of the query's stems) at worst; less if
    /// few blocks of postings can hold a result.
    pub fn search_fields(&self, text: &str, types: &[TypeId], k: usize) -> Ranking {
        self.text.search_weighted(&self.corrected_stems(text), types, k)
    }

    /// Finds the misspelled words of a query: words of at least five letters that occur in no text
    /// of the base. Returns the range of each misspelled word in `text`, and the nearest word of
    /// the base. Of equally near words, the one that occurs most often with other words of the
    /// query is chosen. Only bases in English have corrections; words in quotation marks are kept.
    /// The nearest words are cached.
    pub fn corrections(&self, text: &str) -> Vec<(Range<usize>, String)> {
        let postings = self.text.with_names().filter(|_| self.stems.languages().is_english());
        let Some(postings) = postings else { return Vec::new() };
        let ids = |word: &str| {
            let stem = self.stems.stem(word);
            self.fields().map(|index| index.stem_id(&stem))
        };
        let has = |node: NodeId, ids: &[Option<u32>; 2]| {
            let mut both = self.fields().into_iter().zip(ids);
            both.any(|(index, id)| id.is_some_and(|stem| index.has(node, stem)))
        };
        let together = |word: &str, others: &[Cow<'_, str>]| {
            let others: Vec<_> = others.iter().map(|other| ids(other)).collect();
            let stem = [(self.stems.stem(word).into_owned(), 1.0)];
            let texts = self.text.search_weighted(&stem, &[], COMPARED_TEXTS);
            let is_together = |pair: &&(NodeId, f32)| others.iter().any(|other| has(pair.0, other));
            texts.iter().filter(is_together).count()
        };
        let is_known = |word: &str| ids(word) != [None; 2];
        self.spelling.corrections(postings, text, is_known, together)
    }

    /// Replaces the misspelled words of a query by their [`corrections`](Self::corrections).
    pub fn corrected<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut corrected = Cow::Borrowed(text);
        for (range, word) in self.corrections(text).into_iter().rev() {
            corrected.to_mut().replace_range(range, &word);
        }
        corrected
    }

    /// Returns the weighted stems of a query whose misspelled words are corrected.
    fn corrected_stems(&self, text: &str) -> Vec<(String, f32)> {
        self.stems.of_query(&self.corrected(text)).collect()
    }

    /// Analyses a query for [`match_fields`](Self::match_fields); one analysis serves any number of
    /// nodes.
    pub fn fields_query(&self, text: &str) -> FieldsQuery {
        FieldsQuery::new(self.fields(), &self.corrected_stems(text), |stem| {
            self.text.weighted.idf(stem)
        })
    }

    /// Returns a node's BM25F score for a query, as in [`search_fields`](Self::search_fields).
    /// O(stems of the query).
    pub fn match_fields(&self, query: &FieldsQuery, node: NodeId) -> f32 {
        query.score(self.fields(), node)
    }

    fn fields(&self) -> [&TermIndex; 2] {
        [&self.terms, &self.neighbor_names]
    }

    /// Returns the `k` nodes most similar to a text by embedding, with their similarities, best
    /// first, ties by ascending id. Considers nodes of the given types (of all types if `types` is
    /// empty) that have a vector. Exact; O(nodes of the types). Empty if the embedder knows no word
    /// of the text.
    ///
    /// # Errors
    /// Errors of the embedder and of the vectors.
    pub fn search_vectors(&self, text: &str, types: &[TypeId], k: usize) -> Result<Ranking> {
        let vector = self.embed_query(text)?;
        if vector.iter().all(|&number| number == 0.0) {
            return Ok(Vec::new());
        }
        let record = self.embedder.record();
        let candidates = record.candidates_only.then(|| self.kb.candidate_types());
        let wanted: Vec<TypeId> = match candidates {
            None if types.is_empty() => return Ok(self.vectors.top_k(&vector, k, None)?),
            None => types.to_vec(),
            Some(candidates) if types.is_empty() => candidates.to_vec(),
            Some(candidates) => {
                types.iter().copied().filter(|kind| candidates.contains(kind)).collect()
            }
        };
        let nodes = wanted.iter().flat_map(|&kind| self.kb.nodes_of_type(kind)).copied();
        let nodes = distinct(nodes.collect());
        Ok(self.vectors.top_k(&vector, k, Some(&nodes))?)
    }
}

/// The record of `words/` and its indexes, which do not depend on the embedder.
type Words = (WordsRecord, TextIndex, [TermIndex; 2], EntityIndex);

fn open_words(index_dir: &Path, kb: &Kb, name: &str) -> Result<Words> {
    let record = WordsRecord::read(index_dir, name)?;
    check_base(&record.kb, kb, name)?;
    let dir = index_dir.join(WORDS);
    let text = TextIndex::open(&dir.join(TEXT))?;
    let terms = [TermIndex::open(&dir.join(TERMS))?, TermIndex::open(&dir.join(NAMES_TERMS))?];
    let entities = EntityIndex::open(&dir.join(NAMES), record.languages)?;
    Ok((record, text, terms, entities))
}

fn open_vectors(index_dir: &Path, kb: &Kb, name: &str) -> Result<(VectorIndex, VectorsRecord)> {
    let record = VectorsRecord::read(index_dir, name)?;
    check_base(&record.kb, kb, name)?;
    let dir = index_dir.join(VECTORS);
    let vectors = VectorIndex::open(&dir.join(VECTORS))?;
    let has = (vectors.embedder(), vectors.dim(), vectors.n());
    if has != (&record.fingerprint, record.dim, kb.n_nodes() as usize) {
        return Err(IndexError::damaged(&dir, "its vectors do not match their record"));
    }
    Ok((vectors, record))
}

fn check_base(built_over: &str, kb: &Kb, name: &str) -> Result<()> {
    match built_over == kb.fingerprint() {
        true => Ok(()),
        false => Err(IndexError::OtherBase { base: name.to_owned() }),
    }
}

/// Whether the words and the vectors of an index can be used with a base.
pub struct IndexState {
    /// `Ok` if the words are usable, otherwise the reason why not.
    pub words: Result<()>,
    /// The record of the vectors if they are usable, otherwise the reason why not.
    pub vectors: Result<VectorsRecord>,
}

impl IndexState {
    /// Opens both parts of the index in `index_dir` and compares the languages of its words with
    /// those of the base; `name` is the base's name in messages.
    pub fn inspect(kb: &Kb, index_dir: &Path, name: &str) -> IndexState {
        let vectors = || {
            let (_, record) = open_vectors(index_dir, kb, name)?;
            open_own(index_dir, &record)?;
            Ok(record)
        };
        let (words, mut vectors) = (open_words(index_dir, kb, name), vectors());
        let words = words.and_then(|(record, ..)| {
            let (indexed, languages) = (record.languages, languages(kb));
            let other = || IndexError::OtherLanguages { base: name.to_owned(), indexed, languages };
            if indexed == languages {
                return Ok(());
            }
            if vectors.as_ref().is_ok_and(|there| there.embedder == EmbedderChoice::Builtin) {
                vectors = Err(other());
            }
            Err(other())
        });
        IndexState { words, vectors }
    }
}
