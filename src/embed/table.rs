//! Imported vectors of queries: an embedder that looks up vectors and knows only the imported
//! queries.
//!
//! Vectors are not scaled, so that their dot products equal those in the system that made them.
//!
//! # File
//! The file is in safetensors format, with two tensors: `keys` U8 `[n, 16]`, the hashes of the
//! queries in ascending order, and `vectors` F32 `[n, dim]`, in the same order. Its metadata holds
//! `format` and `checksum` (BLAKE3 of both tensors). Opening reads only the header;
//! [`Embedder::verify`] reads the whole file.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    fs::File,
    io::Write,
    ops::Range,
    path::{Path, PathBuf},
};

use memmap2::Mmap;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::{EmbedError, Embedder, Key, Matrix, Result, key};
use agent_ground::files;

/// Maximum number of queries in a table.
pub const MAX_QUERIES: usize = 1 << 20;
/// Maximum number of characters of a query that an error shows.
const MAX_SHOWN_CHARS: usize = 100;
/// Maximum distance between two vectors of one text that still counts as rounding, as a share of
/// the norm of the first vector.
const ROUNDING: f64 = 1e-2;
/// Supported version of the file format.
const FORMAT: &str = "1";

/// Whether two vectors differ by at most [`ROUNDING`] of the norm of `one`; two vectors that a
/// service returns for the same text may differ by this much.
fn is_close(one: &[f32], other: &[f32]) -> bool {
    let squares = |numbers: &mut dyn Iterator<Item = f32>| {
        numbers.map(|number| f64::from(number) * f64::from(number)).sum::<f64>()
    };
    let apart = squares(&mut one.iter().zip(other).map(|(a, b)| a - b));
    apart <= ROUNDING * ROUNDING * squares(&mut one.iter().copied())
}

/// Builder of a query table.
pub struct QueryTableBuilder {
    dim: usize,
    rows: BTreeMap<Key, Vec<f32>>,
}

impl QueryTableBuilder {
    /// Creates an empty table of vectors of length `dim`.
    pub fn new(dim: usize) -> Self {
        Self { dim, rows: BTreeMap::new() }
    }

    /// Adds the vector of a query; leading and trailing white space of the query is ignored. If the
    /// table already has this query, its first vector is kept. Returns `false` if that vector and
    /// the new one differ by more than rounding.
    ///
    /// # Errors
    /// [`EmbedError::Shape`] for a vector of another length; [`EmbedError::Parameter`] for numbers
    /// that are not finite, or if the table already has [`MAX_QUERIES`] queries.
    pub fn add(&mut self, query: &str, vector: Vec<f32>) -> Result<bool> {
        if vector.len() != self.dim {
            return Err(EmbedError::Shape { rows: 1, dim: self.dim, got: vector.len() });
        }
        let wrong = |name, expected: &str, got: String| {
            Err(EmbedError::Parameter { name, expected: expected.to_owned(), got })
        };
        if let Some(number) = vector.iter().find(|number| !number.is_finite()) {
            return wrong("vector", "finite numbers", number.to_string());
        }
        if self.rows.len() == MAX_QUERIES {
            return wrong("queries", &format!("at most {MAX_QUERIES}"), "more".to_owned());
        }
        match self.rows.entry(key(query.trim())) {
            Entry::Vacant(place) => {
                place.insert(vector);
                Ok(true)
            }
            Entry::Occupied(kept) => Ok(is_close(kept.get(), &vector)),
        }
    }

    /// Returns the bytes of the table's file, and the checksum of its tensors.
    ///
    /// # Errors
    /// [`EmbedError::Parameter`] if the table cannot be encoded.
    pub fn encode(&self) -> Result<(Vec<u8>, String)> {
        let keys = self.rows.keys().flatten().copied().collect::<Vec<u8>>();
        let numbers = self.rows.values().flatten();
        let vectors: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
        let checksum = checksum(&keys, &vectors);
        let n = self.rows.len();
        let keys = TensorView::new(Dtype::U8, vec![n, size_of::<Key>()], &keys);
        let vectors = TensorView::new(Dtype::F32, vec![n, self.dim], &vectors);
        let metadata = HashMap::from([
            ("format".to_owned(), FORMAT.to_owned()),
            ("checksum".to_owned(), checksum.clone()),
        ]);
        let encode =
            || safetensors::serialize([("keys", keys?), ("vectors", vectors?)], Some(metadata));
        let bytes = encode().map_err(|error| EmbedError::Parameter {
            name: "queries",
            expected: "a table that can be written".to_owned(),
            got: error.to_string(),
        })?;
        Ok((bytes, checksum))
    }
}

fn checksum(keys: &[u8], vectors: &[u8]) -> String {
    blake3::Hasher::new().update(keys).update(vectors).finalize().to_hex().to_string()
}

/// A memory-mapped file of query vectors, used as an embedder.
pub struct QueryTable {
    path: PathBuf,
    map: Mmap,
    keys: Range<usize>,
    vectors: Range<usize>,
    n: usize,
    dim: usize,
    checksum: String,
    fingerprint: String,
}

impl QueryTable {
    /// Writes the bytes of [`QueryTableBuilder::encode`] to `path`.
    ///
    /// # Errors
    /// [`EmbedError::Io`] if the file cannot be written.
    pub fn save(bytes: &[u8], path: &Path) -> Result<()> {
        let failed = |source| EmbedError::Io { path: path.to_owned(), source };
        let mut file = File::create(path).map_err(failed)?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Maps the file at `path`. `fingerprint` identifies the document vectors that were imported
    /// together with these query vectors; it becomes the fingerprint of the table.
    ///
    /// # Errors
    /// [`EmbedError::Io`] if the file cannot be read; [`EmbedError::Damaged`] if it does not have
    /// the format of a query table.
    pub fn open(path: &Path, fingerprint: &str) -> Result<QueryTable> {
        let failed = |source| EmbedError::Io { path: path.to_owned(), source };
        let damaged =
            |reason: &str| EmbedError::Damaged { path: path.to_owned(), reason: reason.to_owned() };
        let file = files::open(path).map_err(failed)?;
        // SAFETY: the file is published by rename and never written in place afterwards, so the
        // mapped bytes do not change while they are borrowed.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        let (_, header) =
            SafeTensors::read_metadata(&map).map_err(|error| damaged(&error.to_string()))?;
        let text = |key: &str| header.metadata().as_ref().and_then(|map| map.get(key)).cloned();
        if text("format").as_deref() != Some(FORMAT) {
            return Err(damaged("unsupported format"));
        }
        let checksum = text("checksum").ok_or_else(|| damaged("it has no checksum"))?;
        let tensors =
            SafeTensors::deserialize(&map).map_err(|error| damaged(&error.to_string()))?;
        let part = |name: &str, dtype: Dtype| {
            let tensor = tensors.tensor(name).ok().filter(|tensor| tensor.dtype() == dtype);
            let tensor = tensor.ok_or_else(|| damaged("a tensor is missing"))?;
            let &[n, width] = tensor.shape() else { return Err(damaged("a shape is wrong")) };
            let start = tensor.data().as_ptr().addr() - map.as_ptr().addr();
            Ok((n, width, start..start + tensor.data().len()))
        };
        let (n, width, keys) = part("keys", Dtype::U8)?;
        let (n_vectors, dim, vectors) = part("vectors", Dtype::F32)?;
        if n != n_vectors || width != size_of::<Key>() || dim == 0 {
            return Err(damaged("its shapes do not match"));
        }
        let (path, fingerprint) = (path.to_owned(), fingerprint.to_owned());
        Ok(QueryTable { path, map, keys, vectors, n, dim, checksum, fingerprint })
    }
}

impl Embedder for QueryTable {
    fn dim(&self) -> usize {
        self.dim
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn describe(&self) -> String {
        format!("imported vectors: {} dimensions, {} queries", self.dim, self.n)
    }

    /// Looks up each text as if it were a query.
    ///
    /// # Errors
    /// [`EmbedError::NotImported`] if a text is not an imported query.
    fn embed_documents(&self, texts: &[&str]) -> Result<Matrix> {
        let rows: Result<Vec<Vec<f32>>, _> =
            texts.iter().map(|text| self.embed_query(text)).collect();
        Matrix::new(texts.len(), self.dim, rows?.concat())
    }

    /// Looks up a query by binary search; O(log n).
    ///
    /// # Errors
    /// [`EmbedError::NotImported`] if the query was not imported.
    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        let keys = self.map.get(self.keys.clone()).unwrap_or_default();
        let found = keys.as_chunks::<{ size_of::<Key>() }>().0.binary_search(&key(text.trim()));
        let row = found.ok().and_then(|at| {
            let vectors = self.map.get(self.vectors.clone())?;
            vectors.get(at * self.dim * 4..(at + 1) * self.dim * 4)
        });
        let row = row.ok_or_else(|| EmbedError::NotImported {
            query: text.chars().take(MAX_SHOWN_CHARS).collect(),
        })?;
        Ok(row.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect())
    }

    fn verify(&self) -> Result<()> {
        let part = |range: &Range<usize>| self.map.get(range.clone()).unwrap_or_default();
        if checksum(part(&self.keys), part(&self.vectors)) == self.checksum {
            return Ok(());
        }
        let reason = "its checksum does not match".to_owned();
        Err(EmbedError::Damaged { path: self.path.clone(), reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_the_vector_it_was_given_and_others_have_none() {
        let mut builder = QueryTableBuilder::new(2);
        for (query, vector, is_kept) in [
            ("a dart", [3.0, 4.0], true),
            (" a kite\n", [0.5, -1.0], true),
            ("a dart", [9.0, 9.0], false),
            ("a dart ", [3.0, 4.001], true),
        ] {
            assert_eq!(builder.add(query, vector.to_vec()).unwrap(), is_kept);
        }
        assert!(matches!(builder.add("x", vec![1.0]), Err(EmbedError::Shape { .. })));
        assert!(matches!(builder.add("x", vec![1.0, f32::NAN]), Err(EmbedError::Parameter { .. })));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queries");
        let (bytes, _) = builder.encode().unwrap();
        QueryTable::save(&bytes, &path).unwrap();
        let table = QueryTable::open(&path, "import").unwrap();
        table.verify().unwrap();
        assert_eq!((table.n, table.dim()), (2, 2));
        assert_eq!(table.embed_query("a dart").unwrap(), [3.0, 4.0]);
        assert_eq!(table.embed_query("a kite").unwrap(), [0.5, -1.0]);
        let missing = table.embed_query("a boat").unwrap_err();
        assert!(matches!(&missing, EmbedError::NotImported { query } if query == "a boat"));

        // Any truncation or change is detected.
        for cut in 0..bytes.len() {
            QueryTable::save(&bytes[..cut], &path).unwrap();
            assert!(QueryTable::open(&path, "import").is_err(), "{cut}");
        }
        let mut altered = bytes;
        *altered.last_mut().unwrap() ^= 1;
        QueryTable::save(&altered, &path).unwrap();
        assert!(QueryTable::open(&path, "import").unwrap().verify().is_err());
    }
}
