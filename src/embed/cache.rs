//! Caches the vectors of an expensive embedder in files, so that no text is embedded twice, even
//! after a new import or an interruption.
//!
//! Each embedder has two files, one for documents and one for queries. A vector is looked up by the
//! hash of its text. A file consists of a header and records of equal length; records are only
//! appended:
//!
//! ```text
//! header   8 bytes: format, 4 bytes: dimensions, 32 bytes: hash of the embedder's fingerprint
//! record   16 bytes: hash of the text, 4 x dimensions bytes: vector, 8 bytes: hash of both
//! ```
//!
//! Opening reads the file, ignores records with a wrong hash, and cuts off a partial last record,
//! which a killed process leaves. Only one process writes a file at a time; others read the file.
//! An unusable cache file is not an error: texts are then embedded without the cache, and
//! [`EmbedCost::problem`] gives the reason.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard},
};

use serde::Serialize;

use crate::{EmbedCost, EmbedError, Embedder, Key, Matrix, Result, key};
use agent_ground::locks::locked;

/// Maximum size in bytes of an embedder's file of document vectors.
pub const MAX_DOCUMENT_BYTES: u64 = 16 << 30;
/// Maximum size in bytes of an embedder's file of query vectors.
pub const MAX_QUERY_BYTES: u64 = 256 << 20;

/// First bytes of every cache file; the last digit is the version of the format.
const MAGIC: [u8; 8] = *b"agentev1";
const HEADER_BYTES: usize = MAGIC.len() + 4 + blake3::OUT_LEN;
const CHECK_BYTES: usize = 8;
/// Maximum length in characters of the readable part of a cache file's name.
const MAX_NAME_CHARS: usize = 80;

/// Description of a cache file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CacheFile {
    /// File name without extension: readable part of the embedder's fingerprint, a hyphen, and 8
    /// hexadecimal digits of the fingerprint's hash.
    pub name: String,
    /// Texts whose vectors the file holds: `documents` or `queries`.
    pub kind: &'static str,
    /// Number of cached vectors; 0 if the file has another format or cannot be read.
    pub entries: u64,
    /// Size of the file, in bytes.
    pub bytes: u64,
}

/// Lists the cache files in `dir`, sorted by name, then kind; none if the directory does not exist.
///
/// # Errors
/// If the directory cannot be read.
pub fn files(dir: &Path) -> io::Result<Vec<CacheFile>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| path.extension().is_some_and(|extension| extension == kind.extension()));
        let (Some(kind), Some(name)) = (kind, path.file_stem()) else { continue };
        files.push(CacheFile {
            name: name.to_string_lossy().into_owned(),
            kind: kind.extension(),
            entries: n_entries(&path).unwrap_or(0),
            // Another process may have removed the file.
            bytes: fs::metadata(&path).map_or(0, |metadata| metadata.len()),
        });
    }
    files.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
    Ok(files)
}

/// Removes the cache files in `dir` and returns their descriptions.
///
/// # Errors
/// If the directory cannot be read or a file cannot be removed.
pub fn clear(dir: &Path) -> io::Result<Vec<CacheFile>> {
    let files = files(dir)?;
    for file in &files {
        remove(&dir.join(format!("{}.{}", file.name, file.kind)))?;
    }
    Ok(files)
}

/// Removes a file; does nothing if the file does not exist.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns the number of records in a cache file, computed from the file's length; 0 if the file
/// has another format.
fn n_entries(path: &Path) -> io::Result<u64> {
    let mut file = agent_ground::files::open(path)?;
    let mut header = [0; HEADER_BYTES];
    file.read_exact(&mut header)?;
    let (magic, rest) = header.split_at(MAGIC.len());
    let Some(dim) = rest.first_chunk().filter(|_| magic == MAGIC) else { return Ok(0) };
    let record = (size_of::<Key>() + CHECK_BYTES) as u64 + u64::from(u32::from_le_bytes(*dim)) * 4;
    Ok((file.metadata()?.len() - HEADER_BYTES as u64) / record)
}

/// An embedder with a cache of its document and query vectors.
pub struct CachedEmbedder {
    inner: Box<dyn Embedder>,
    dir: PathBuf,
    /// The caches of documents and of queries, by [`Kind`].
    caches: [Mutex<VectorCache>; 2],
}

/// A cache file, opened at first use, with its number of hits; if the file cannot be used, also the
/// reason.
#[derive(Default)]
struct VectorCache {
    store: Option<Store>,
    hits: u64,
    problem: Option<String>,
    is_asked: bool,
}

impl CachedEmbedder {
    /// Adds a cache to an embedder. The cache files are kept in the directory `dir`, which is
    /// created when the first text is embedded.
    pub fn new(inner: Box<dyn Embedder>, dir: &Path) -> CachedEmbedder {
        CachedEmbedder { inner, dir: dir.to_owned(), caches: Default::default() }
    }

    /// Removes the cache files of `embedder` from the directory `dir`.
    ///
    /// # Errors
    /// [`EmbedError::Io`] if a file cannot be removed.
    pub fn forget(embedder: &dyn Embedder, dir: &Path) -> Result<()> {
        for kind in Kind::ALL {
            let path = kind.file(dir, embedder.fingerprint());
            remove(&path).map_err(|source| EmbedError::Io { path, source })?;
        }
        Ok(())
    }

    /// Returns the vectors of `texts`, in the order of the texts. Calls `embed` with the texts that
    /// are not cached, each distinct text once, and caches the vectors that `embed` returns.
    fn look_up(
        &self,
        kind: Kind,
        texts: &[&str],
        embed: impl FnOnce(&[&str]) -> Result<Matrix>,
    ) -> Result<Matrix> {
        let dim = self.dim();
        let keys: Vec<Key> = texts.iter().map(|text| key(text)).collect();
        let mut data = vec![0.0; texts.len() * dim];
        // `missing`: first place of each text without a cached vector. `needed`: pairs of a place
        // and the index of its text in `missing`.
        let (mut missing, mut needed) = (Vec::new(), Vec::new());
        {
            let mut kept = self.kept(kind);
            let mut first: HashMap<Key, usize> = HashMap::new();
            for ((place, key), row) in keys.iter().enumerate().zip(data.chunks_exact_mut(dim)) {
                if kept.get(key, row) {
                    continue;
                }
                let nth = first.entry(*key).or_insert_with(|| {
                    missing.push(place);
                    missing.len() - 1
                });
                needed.push((place, *nth));
            }
        }
        if missing.is_empty() {
            return Matrix::new(texts.len(), dim, data);
        }
        let asked: Vec<&str> = missing.iter().map(|&place| texts[place]).collect();
        let embedded = embed(&asked)?;
        if (embedded.rows(), embedded.dim()) != (asked.len(), dim) {
            let (rows, got) = (asked.len(), embedded.data().len());
            return Err(EmbedError::Shape { rows, dim, got });
        }
        let fresh = missing.iter().map(|&place| keys[place]);
        self.kept(kind).put(fresh.zip(embedded.data().chunks_exact(dim)));
        for (place, nth) in needed {
            let row = &embedded.data()[nth * dim..(nth + 1) * dim];
            data[place * dim..(place + 1) * dim].copy_from_slice(row);
        }
        Matrix::new(texts.len(), dim, data)
    }

    /// Locks and returns the cache for documents or for queries; the first call opens its file.
    fn kept(&self, kind: Kind) -> MutexGuard<'_, VectorCache> {
        let mut kept = locked(&self.caches[kind as usize]);
        if !kept.is_asked {
            kept.is_asked = true;
            let path = kind.file(&self.dir, self.fingerprint());
            match Store::open(&path, self.fingerprint(), self.dim(), kind.max_bytes()) {
                Ok(store) => kept.store = Some(store),
                Err(error) => {
                    kept.problem = Some(format!(
                        "embeddings are not cached, because {} cannot be used: {error}",
                        path.display()
                    ));
                }
            }
        }
        kept
    }
}

impl VectorCache {
    fn get(&mut self, key: &Key, row: &mut [f32]) -> bool {
        let Some(store) = &mut self.store else { return false };
        match store.get(key, row) {
            Ok(is_kept) => {
                self.hits += u64::from(is_kept);
                is_kept
            }
            Err(error) => {
                self.problem = Some(format!("{} cannot be read: {error}", store.path.display()));
                self.store = None;
                false
            }
        }
    }

    fn put<'a>(&mut self, rows: impl Iterator<Item = (Key, &'a [f32])>) {
        let Some(store) = &mut self.store else { return };
        match store.put(rows) {
            Ok(None) => {}
            Ok(Some(problem)) => self.problem = Some(problem),
            Err(error) => {
                let path = store.path.display();
                self.problem = Some(format!("embeddings are no longer cached in {path}: {error}"));
                store.writable = false;
            }
        }
    }
}

impl Embedder for CachedEmbedder {
    fn dim(&self) -> usize {
        self.inner.dim()
    }

    fn fingerprint(&self) -> &str {
        self.inner.fingerprint()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Matrix> {
        self.look_up(Kind::Document, texts, |texts| self.inner.embed_documents(texts))
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        let embed = |_: &[&str]| Matrix::new(1, self.dim(), self.inner.embed_query(text)?);
        Ok(self.look_up(Kind::Query, &[text], embed)?.into_data())
    }

    /// Embeds without the cache, which would become too large with one vector per token.
    fn embed_tokens(&self, texts: &[&str]) -> Result<Vec<Matrix>> {
        self.inner.embed_tokens(texts)
    }

    fn token_names(&self, text: &str) -> Result<Vec<String>> {
        self.inner.token_names(text)
    }

    fn window(&self) -> Option<usize> {
        self.inner.window()
    }

    fn prepare(&self) -> Result<()> {
        self.inner.prepare()
    }

    fn verify(&self) -> Result<()> {
        self.inner.verify()
    }

    fn block_texts(&self) -> usize {
        self.inner.block_texts()
    }

    fn spent(&self) -> EmbedCost {
        let mut cost = EmbedCost { from_cache: 0, problem: None, ..self.inner.spent() };
        for kept in self.caches.iter().map(locked) {
            cost.from_cache += kept.hits;
            cost.problem = cost.problem.or_else(|| kept.problem.clone());
        }
        cost
    }
}

/// Kind of text; some models embed documents and queries differently.
#[derive(Clone, Copy)]
enum Kind {
    Document,
    Query,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Document, Kind::Query];

    fn max_bytes(self) -> u64 {
        match self {
            Kind::Document => MAX_DOCUMENT_BYTES,
            Kind::Query => MAX_QUERY_BYTES,
        }
    }

    /// Returns the path of the cache file of an embedder. The file name consists of a readable part
    /// of the fingerprint, 8 hexadecimal digits of the fingerprint's hash, and the extension
    /// `documents` or `queries`.
    fn file(self, dir: &Path, fingerprint: &str) -> PathBuf {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
        let name: String = fingerprint.chars().map(plain).take(MAX_NAME_CHARS).collect();
        let hash = blake3::hash(fingerprint.as_bytes()).to_hex();
        dir.join(format!("{name}-{}.{}", &hash[..8], self.extension()))
    }

    fn extension(self) -> &'static str {
        match self {
            Kind::Document => "documents",
            Kind::Query => "queries",
        }
    }
}

/// An open cache file.
struct Store {
    path: PathBuf,
    file: File,
    dim: usize,
    /// Record number of each cached text, by the text's hash. If several valid records hold the
    /// same text, the number is that of the last.
    places: HashMap<Key, u64>,
    /// Number of records in the file.
    n_records: u64,
    max_bytes: u64,
    writable: bool,
}

impl Store {
    /// Opens or creates a cache file. A file with another header is emptied.
    ///
    /// # Errors
    /// If the file cannot be read or created, or if it has another header while another process
    /// writes it.
    fn open(path: &Path, fingerprint: &str, dim: usize, max_bytes: u64) -> io::Result<Store> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&u32::try_from(dim).map_err(io::Error::other)?.to_le_bytes());
        header.extend_from_slice(blake3::hash(fingerprint.as_bytes()).as_bytes());

        let mut file =
            File::options().read(true).append(true).create(true).truncate(false).open(path)?;
        let writable = file.try_lock().is_ok();
        let mut found = vec![0; HEADER_BYTES];
        let is_ours = file.read_exact(&mut found).is_ok() && found == header;
        if !is_ours && !writable {
            return Err(io::Error::other("another process is creating it"));
        }
        if !is_ours {
            file.set_len(0)?;
            file.write_all(&header)?;
        }
        let mut store = Store {
            path: path.to_owned(),
            file,
            dim,
            places: HashMap::new(),
            n_records: 0,
            max_bytes,
            writable,
        };
        store.read_keys()?;
        if writable {
            store.file.set_len(store.offset(store.n_records))?;
        }
        Ok(store)
    }

    fn record_bytes(&self) -> usize {
        size_of::<Key>() + self.dim * 4 + CHECK_BYTES
    }

    fn offset(&self, record: u64) -> u64 {
        HEADER_BYTES as u64 + record * self.record_bytes() as u64
    }

    /// Reads all complete records, and notes the record number of each record whose hash matches.
    fn read_keys(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len().min(self.max_bytes);
        let records = length.saturating_sub(HEADER_BYTES as u64) / self.record_bytes() as u64;
        let mut record = vec![0; self.record_bytes()];
        self.file.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
        let mut reader = BufReader::with_capacity(1 << 20, &self.file);
        for at in 0..records {
            reader.read_exact(&mut record)?;
            let (content, check) = record.split_at(record.len() - CHECK_BYTES);
            if blake3::hash(content).as_bytes().starts_with(check)
                && let Some(key) = content.first_chunk()
            {
                self.places.insert(*key, at);
            }
        }
        self.n_records = records;
        Ok(())
    }

    /// Copies the cached vector of the text with the hash `key` into `row`; returns whether such a
    /// vector is cached.
    fn get(&mut self, key: &Key, row: &mut [f32]) -> io::Result<bool> {
        let Some(&record) = self.places.get(key) else { return Ok(false) };
        let start = self.offset(record) + size_of::<Key>() as u64;
        self.file.seek(SeekFrom::Start(start))?;
        let mut bytes = vec![0; self.dim * 4];
        self.file.read_exact(&mut bytes)?;
        for (number, bytes) in row.iter_mut().zip(bytes.as_chunks().0) {
            *number = f32::from_le_bytes(*bytes);
        }
        Ok(true)
    }

    /// Appends as many vectors as the maximum file size allows. Returns why some vectors are not
    /// cached; `None` if all are.
    fn put<'a>(
        &mut self,
        rows: impl Iterator<Item = (Key, &'a [f32])>,
    ) -> io::Result<Option<String>> {
        if !self.writable {
            let path = self.path.display();
            return Ok(Some(format!("embeddings are not cached: another process writes {path}")));
        }
        let mut bytes = Vec::new();
        let mut problem = None;
        for (key, row) in rows {
            if self.offset(self.n_records + 1) > self.max_bytes {
                problem = Some(format!(
                    "further embeddings are not cached, because {} has reached {} MiB; \
                     `agent index N --drop-cache` clears it",
                    self.path.display(),
                    self.max_bytes >> 20
                ));
                break;
            }
            let start = bytes.len();
            bytes.extend_from_slice(&key);
            bytes.extend(row.iter().flat_map(|number| number.to_le_bytes()));
            let check = blake3::hash(&bytes[start..]);
            bytes.extend_from_slice(&check.as_bytes()[..CHECK_BYTES]);
            self.places.insert(key, self.n_records);
            self.n_records += 1;
        }
        self.file.write_all(&bytes)?;
        Ok(problem)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use super::*;

    /// An embedder of two dimensions that counts the embedded texts. The vector of a text holds the
    /// length of the text in bytes, and 0 for a document or 1 for a query.
    struct Counting(Arc<AtomicU64>);

    impl Embedder for Counting {
        fn dim(&self) -> usize {
            2
        }

        fn fingerprint(&self) -> &str {
            "counting: 1/2"
        }

        fn describe(&self) -> String {
            String::new()
        }

        fn embed_documents(&self, texts: &[&str]) -> Result<Matrix, EmbedError> {
            self.0.fetch_add(texts.len() as u64, Ordering::Relaxed);
            let rows = texts.iter().flat_map(|text| [text.len() as f32, 0.0]).collect();
            Matrix::new(texts.len(), 2, rows)
        }

        fn embed_query(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(vec![text.len() as f32, 1.0])
        }
    }

    /// A cached embedder, and the number of texts that its inner embedder received.
    fn cached(dir: &Path) -> (CachedEmbedder, Arc<AtomicU64>) {
        let asked = Arc::new(AtomicU64::new(0));
        (CachedEmbedder::new(Box::new(Counting(asked.clone())), dir), asked)
    }

    fn documents(embedder: &CachedEmbedder, texts: &[&str]) -> Vec<f32> {
        embedder.embed_documents(texts).unwrap().data().chunks(2).map(|row| row[0]).collect()
    }

    fn file(dir: &Path) -> PathBuf {
        Kind::Document.file(dir, "counting: 1/2")
    }

    #[test]
    fn a_text_is_embedded_once_whatever_the_batch_and_the_process() {
        let dir = tempfile::tempdir().unwrap();
        {
            let (embedder, asked) = cached(dir.path());
            assert_eq!(documents(&embedder, &["a", "bb", "a", "ccc"]), [1.0, 2.0, 1.0, 3.0]);
            assert_eq!(documents(&embedder, &["ccc", "dddd"]), [3.0, 4.0]);
            assert_eq!((asked.load(Ordering::Relaxed), embedder.spent().from_cache), (4, 1));
        }
        let (embedder, asked) = cached(dir.path());
        assert_eq!(documents(&embedder, &["dddd", "e", "a"]), [4.0, 1.0, 1.0]);
        // A query and a document with the same text have separate vectors.
        assert_eq!(embedder.embed_query("a").unwrap(), [1.0, 1.0]);
        assert_eq!(embedder.embed_query("a").unwrap(), [1.0, 1.0]);
        assert_eq!((asked.load(Ordering::Relaxed), embedder.spent().from_cache), (2, 3));
        assert_eq!(embedder.spent().problem, None);
    }

    #[test]
    fn torn_and_altered_records_are_embedded_again() {
        let dir = tempfile::tempdir().unwrap();
        documents(&cached(dir.path()).0, &["a", "bb", "ccc"]);
        let whole = fs::read(file(dir.path())).unwrap();
        let record = (whole.len() - HEADER_BYTES) / 3;
        for cut in 0..whole.len() {
            fs::write(file(dir.path()), &whole[..cut]).unwrap();
            let (embedder, asked) = cached(dir.path());
            assert_eq!(documents(&embedder, &["a", "bb", "ccc"]), [1.0, 2.0, 3.0], "{cut}");
            let left = cut.saturating_sub(HEADER_BYTES) / record;
            assert_eq!(asked.load(Ordering::Relaxed), 3 - left as u64, "{cut}");
            drop(embedder);
            assert_eq!(fs::read(file(dir.path())).unwrap(), whole, "{cut}");
        }
        for at in HEADER_BYTES..whole.len() {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            fs::write(file(dir.path()), &altered).unwrap();
            let (embedder, asked) = cached(dir.path());
            assert_eq!(documents(&embedder, &["a", "bb", "ccc"]), [1.0, 2.0, 3.0], "{at}");
            assert_eq!(asked.load(Ordering::Relaxed), 1, "{at}");
        }
    }

    #[test]
    fn a_second_writer_reads_only_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let (first, _) = cached(dir.path());
        documents(&first, &["a"]);
        let (second, asked) = cached(dir.path());
        assert_eq!(documents(&second, &["a", "bb"]), [1.0, 2.0]);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert!(second.spent().problem.unwrap().contains("another process"));
        drop((first, second));
        let (third, asked) = cached(dir.path());
        documents(&third, &["a", "bb"]);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_full_or_unusable_file_costs_time_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let record = (16 + 8 + CHECK_BYTES) as u64;
        let mut store = Store::open(&path, "m", 2, HEADER_BYTES as u64 + 2 * record).unwrap();
        let rows = [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]];
        let keyed = ["a", "b", "c"].iter().zip(&rows).map(|(text, row)| (key(text), &row[..]));
        assert!(store.put(keyed).unwrap().unwrap().contains("--drop-cache"));
        let mut row = [0.0; 2];
        assert!(store.get(&key("b"), &mut row).unwrap() && row == [2.0, 2.0]);
        assert!(!store.get(&key("c"), &mut row).unwrap());

        fs::create_dir(file(dir.path())).unwrap();
        let (embedder, _) = cached(dir.path());
        assert_eq!(documents(&embedder, &["a"]), [1.0]);
        assert!(embedder.spent().problem.unwrap().contains("cannot be used"));
    }

    #[test]
    fn what_is_forgotten_is_embedded_again() {
        let dir = tempfile::tempdir().unwrap();
        let (embedder, asked) = cached(dir.path());
        documents(&embedder, &["a"]);
        drop(embedder);
        CachedEmbedder::forget(&Counting(asked.clone()), dir.path()).unwrap();
        CachedEmbedder::forget(&Counting(asked), dir.path()).unwrap();
        let (embedder, asked) = cached(dir.path());
        documents(&embedder, &["a"]);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
