//! Where the parts of an index are, and what their records say. Must not know how a part is built
//! or searched.
//!
//! An index has two parts, each published by one rename with a record of its own: `words/`, which
//! depends on the base alone, and `vectors/`, which depends on the embedder too. So a change of
//! the embedder leaves the words as they are. Optional parts lie inside `vectors/`, each published
//! by its own rename; the record lists those that are complete.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::index::{EmbedderChoice, IndexError};

pub(super) const WORDS: &str = "words";
pub(super) const TEXT: &str = "text";
pub(super) const TERMS: &str = "terms";
pub(super) const NAMES_TERMS: &str = "names_terms";
pub(super) const NAMES: &str = "names";

/// The part with the vectors, and in it the file with one vector a node.
pub(super) const VECTORS: &str = "vectors";
/// The built-in embedder's model.
pub(super) const MODEL: &str = "model";
/// Imported vectors of queries.
pub(super) const QUERIES: &str = "queries";

/// In each part; written last.
const RECORD: &str = "record.json";
/// Longest record in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 20;
/// Version of `words/`; raised whenever any of its indexes would be built otherwise.
const WORDS_FORMAT: u32 = 6;
/// Version of `vectors/` likewise, without the optional parts.
const VECTORS_FORMAT: u32 = 1;

/// What `words/record.json` says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WordsRecord {
    format: u32,
    /// Fingerprint of the knowledge base.
    pub(super) kb: String,
}

impl WordsRecord {
    pub(super) fn new(kb: &str) -> Self {
        Self { format: WORDS_FORMAT, kb: kb.to_owned() }
    }

    /// The record of the words in an index directory.
    pub(super) fn read(index: &Path, base: &str) -> Result<Self, IndexError> {
        let path = index.join(WORDS).join(RECORD);
        let record: Self = read(&path, base)?;
        check_format(&path, record.format, WORDS_FORMAT)?;
        Ok(record)
    }

    /// Writes it into the directory of the words.
    pub(super) fn write(&self, words: &Path) -> Result<(), IndexError> {
        write(&words.join(RECORD), self)
    }
}

/// What `vectors/record.json` says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VectorsRecord {
    format: u32,
    /// Fingerprint of the knowledge base.
    pub(super) kb: String,
    /// How the embedder is opened again.
    pub(super) embedder: EmbedderChoice,
    /// Fingerprint of the embedder.
    pub(super) fingerprint: String,
    /// The embedder in a line for people.
    pub(super) description: String,
    /// Length of a vector.
    pub(super) dim: usize,
    /// Whether only nodes of candidate types have a vector.
    pub(super) candidates_only: bool,
    /// The optional parts that are there, ascending.
    pub(super) parts: Vec<Part>,
}

/// What a record of vectors is made from.
pub(super) struct Described<'a> {
    pub(super) embedder: &'a EmbedderChoice,
    pub(super) fingerprint: &'a str,
    pub(super) description: String,
    pub(super) dim: usize,
    pub(super) candidates_only: bool,
}

impl VectorsRecord {
    /// A record without optional parts.
    pub(super) fn new(kb: &str, of: Described<'_>) -> Self {
        Self {
            format: VECTORS_FORMAT,
            kb: kb.to_owned(),
            embedder: of.embedder.clone(),
            fingerprint: of.fingerprint.to_owned(),
            description: of.description,
            dim: of.dim,
            candidates_only: of.candidates_only,
            parts: Vec::new(),
        }
    }

    /// The record of the vectors in an index directory.
    pub(super) fn read(index: &Path, base: &str) -> Result<Self, IndexError> {
        let path = index.join(VECTORS).join(RECORD);
        let record: Self = read(&path, base)?;
        check_format(&path, record.format, VECTORS_FORMAT)?;
        Ok(record)
    }

    /// Writes it into the directory of the vectors, in one step.
    pub(super) fn write(&self, vectors: &Path) -> Result<(), IndexError> {
        write(&vectors.join(RECORD), self)
    }
}

/// Identifies what an index of these two parts would answer; optional parts change no answer of
/// what is always there.
pub(super) fn fingerprint(words: &WordsRecord, vectors: &VectorsRecord) -> String {
    let (w, v, scope) = (words.format, vectors.format, u8::from(vectors.candidates_only));
    let parts = format!("{w} {v} {} {} {scope}", words.kb, vectors.fingerprint);
    blake3::hash(parts.as_bytes()).to_hex().to_string()
}

/// A part of `vectors/` that is built when it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Approximate nearest neighbours.
    Ann,
    /// Vectors of the pieces of each document.
    Multi,
    /// Vectors of the tokens of each document.
    Late,
}

impl Part {
    /// All of them, in the order of help.
    pub const ALL: [Self; 3] = [Self::Ann, Self::Multi, Self::Late];

    /// Its name on the command line, in the record and in `vectors/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ann => "ann",
            Self::Multi => "multi",
            Self::Late => "late",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let part = Self::ALL.into_iter().find(|part| part.name() == name);
        part.ok_or_else(|| format!("no part {name:?}; there are {names}"))
    }
}

/// Where an optional part of an index is.
pub(super) fn part_path(index: &Path, part: Part) -> PathBuf {
    index.join(VECTORS).join(part.name())
}

fn read<T: DeserializeOwned>(path: &Path, base: &str) -> Result<T, IndexError> {
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(MAX_RECORD_BYTES).read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(IndexError::Missing { base: base.to_owned() });
        }
        Err(error) => return Err(IndexError::io(path, error)),
        Ok(_) => {}
    }
    serde_json::from_slice(&bytes).map_err(|e| IndexError::damaged(path, e.to_string()))
}

fn write(path: &Path, record: &impl Serialize) -> Result<(), IndexError> {
    let failed = |error| IndexError::io(path, error);
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    let json = serde_json::to_vec_pretty(record).map_err(io::Error::from).map_err(failed)?;
    file.write_all(&json).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

fn check_format(path: &Path, found: u32, supported: u32) -> Result<(), IndexError> {
    if found == supported {
        return Ok(());
    }
    Err(IndexError::damaged(path, format!("format {found}, not {supported}")))
}

/// Makes a directory in an index directory that vanishes unless it is published.
pub(super) fn staging(index: &Path) -> Result<tempfile::TempDir, IndexError> {
    fs::create_dir_all(index).map_err(|error| IndexError::io(index, error))?;
    let dir = tempfile::Builder::new().prefix(".building-").tempdir_in(index);
    dir.map_err(|error| IndexError::io(index, error))
}
