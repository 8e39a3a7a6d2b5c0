//! The directory layout and the records of an index.
//!
//! An index has two parts, each published by one rename with its own record: `words/`, which
//! depends on the base alone, and `vectors/`, which depends on the embedder too. So a change of
//! the embedder keeps the words. Optional parts lie inside `vectors/`, each published by its own
//! rename; the record lists the complete ones.
//!
//! A record has the digests of all files of its part and of itself. Opening checks only the digest
//! of the record, because checking files takes time linear in their size.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tempfile::TempDir;

use crate::{EmbedderChoice, IndexError, Result};
use agent_embed::Embedder;
use agent_ground::{files, words::Languages};
use agent_kb::{FileRecord, publish};

pub(super) const WORDS: &str = "words";
pub(super) const TEXT: &str = "text";
pub(super) const TERMS: &str = "terms";
pub(super) const NAMES_TERMS: &str = "names_terms";
pub(super) const NAMES: &str = "names";

/// Name of the part with the vectors; also the name of the file, in this part, with one vector per
/// node.
pub(super) const VECTORS: &str = "vectors";
/// Name of the file with the model of the built-in embedder.
pub(super) const MODEL: &str = "model";
/// Name of the file with imported vectors of queries.
pub(super) const QUERIES: &str = "queries";

/// Prefix of the names of hidden directories in which parts are built.
const STAGING_PREFIX: &str = ".building-";
/// Name of the file with the record of a part; it is written last.
const RECORD: &str = "record.json";
/// Maximum size of a record, in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 20;
/// Maximum depth of folders below a part; files of deeper folders are not recorded.
const MAX_DEPTH: usize = 4;
/// Format version of `words/`; raised whenever the content of any of its indexes changes.
pub const WORDS_FORMAT: u32 = 7;
/// Format version of `vectors/` without the optional parts.
const VECTORS_FORMAT: u32 = 1;

/// Sizes and digests of the files of a part.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seal {
    /// All files below the part except its record, by path relative to the part, with `/` between
    /// folders.
    pub(super) files: BTreeMap<String, FileRecord>,
    /// blake3 digest, hexadecimal, of the record with this field empty.
    record: String,
}

impl Seal {
    /// Computes the digests of all files of a part; the digest of the record itself stays empty.
    fn of(part: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        gather(part, "", MAX_DEPTH, &mut files)?;
        files.remove(RECORD);
        Ok(Self { files, record: String::new() })
    }

    /// Reads all files of `part` and compares them with their digests; `on_bytes` receives the
    /// number of bytes read since its last call.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] or [`IndexError::Io`], with the first file that differs or is
    /// missing.
    pub(super) fn check(&self, part: &Path, on_bytes: &mut dyn FnMut(u64)) -> Result<()> {
        for (name, record) in &self.files {
            let path = part.join(name);
            if !record.matches(&path, on_bytes).map_err(IndexError::io(&path))? {
                return Err(IndexError::damaged(&path, "its digest does not match"));
            }
        }
        Ok(())
    }

    /// Total size of the files, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes).sum()
    }
}

/// Adds the digests of all files below `dir`, at most `depth` folders deep, to `files`. Names
/// begin with `prefix`; hidden entries are skipped.
fn gather(
    dir: &Path,
    prefix: &str,
    depth: usize,
    files: &mut BTreeMap<String, FileRecord>,
) -> Result<()> {
    let failed = IndexError::io(dir);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_dir = entry.file_type().map_err(failed)?.is_dir();
        // Hidden entries are unfinished work.
        if name.starts_with('.') || is_dir && depth == 0 {
            continue;
        }
        if is_dir {
            gather(&path, &format!("{prefix}{name}/"), depth - 1, files)?;
        } else {
            let record = FileRecord::of(&path).map_err(IndexError::io(&path))?;
            files.insert(format!("{prefix}{name}"), record);
        }
    }
    Ok(())
}

/// The record of a part. It holds the digests of the part's files; records of older versions have
/// no digests.
pub(super) trait Record: Clone + Serialize + DeserializeOwned {
    /// Name of the part.
    const PART: &str;
    /// The only format version that this program reads and writes.
    const FORMAT: u32;

    fn format(&self) -> u32;

    fn seal(&mut self) -> &mut Option<Seal>;

    /// Computes the blake3 digest, hexadecimal, of the record with the field for this digest empty.
    fn own_digest(&self) -> serde_json::Result<String> {
        let mut unsigned = self.clone();
        if let Some(seal) = unsigned.seal() {
            seal.record.clear();
        }
        Ok(blake3::hash(&serde_json::to_vec(&unsigned)?).to_hex().to_string())
    }

    /// Reads the record of the part in an index directory; `base` names the base in messages.
    fn read(index: &Path, base: &str) -> Result<Self> {
        let path = &index.join(Self::PART).join(RECORD);
        let bytes = match files::read(path, MAX_RECORD_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(IndexError::Missing { base: base.to_owned() });
            }
            read => read.map_err(IndexError::io(path))?,
        };
        let damaged = |error: serde_json::Error| IndexError::damaged(path, error.to_string());
        let mut record: Self = serde_json::from_slice(&bytes).map_err(damaged)?;
        let digest = record.own_digest().map_err(damaged)?;
        if record.seal().as_ref().is_some_and(|seal| seal.record != digest) {
            return Err(IndexError::damaged(path, "its digest does not match"));
        }
        match record.format() {
            found if found == Self::FORMAT => Ok(record),
            found => {
                Err(IndexError::damaged(path, format!("format {found}, not {}", Self::FORMAT)))
            }
        }
    }

    /// Writes the record into the directory `part`; replaces an older record atomically. All other
    /// files of the part must be complete, because this function reads them to compute their
    /// digests.
    fn write(&self, part: &Path) -> Result<()> {
        let path = &part.join(RECORD);
        let failed = IndexError::io(path);
        let mut record = self.clone();
        let sealed = Seal::of(part)?;
        *record.seal() = Some(sealed.clone());
        let digest = record.own_digest().map_err(io::Error::from).map_err(failed)?;
        *record.seal() = Some(Seal { record: digest, ..sealed });
        let mut file = files::temporary_file(part, ".record-").map_err(failed)?;
        let json = serde_json::to_vec_pretty(&record).map_err(io::Error::from).map_err(failed)?;
        file.write_all(&json).map_err(failed)?;
        files::publish(file, path, part).map_err(failed)
    }
}

impl Record for WordsRecord {
    const PART: &str = WORDS;
    const FORMAT: u32 = WORDS_FORMAT;

    fn format(&self) -> u32 {
        self.format
    }

    fn seal(&mut self) -> &mut Option<Seal> {
        &mut self.seal
    }
}

impl Record for VectorsRecord {
    const PART: &str = VECTORS;
    const FORMAT: u32 = VECTORS_FORMAT;

    fn format(&self) -> u32 {
        self.format
    }

    fn seal(&mut self) -> &mut Option<Seal> {
        &mut self.seal
    }
}

/// Content of `words/record.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WordsRecord {
    format: u32,
    /// Fingerprint of the knowledge base.
    pub(super) kb: String,
    /// Languages in which the texts were analysed; English if the record names none.
    #[serde(default, skip_serializing_if = "Languages::is_english")]
    pub(super) languages: Languages,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seal: Option<Seal>,
}

impl WordsRecord {
    pub(super) fn new(kb: &str, languages: Languages) -> Self {
        Self { format: WORDS_FORMAT, kb: kb.to_owned(), languages, seal: None }
    }
}

/// Content of `vectors/record.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorsRecord {
    format: u32,
    /// Fingerprint of the knowledge base.
    pub(super) kb: String,
    /// The embedder that made the vectors; opened again to embed queries.
    pub embedder: EmbedderChoice,
    /// Fingerprint of the embedder.
    pub(super) fingerprint: String,
    /// One-line description of the embedder.
    pub(super) description: String,
    /// Number of values in a vector.
    pub(super) dim: usize,
    /// Whether only nodes of candidate types have a vector.
    pub candidates_only: bool,
    /// The optional parts that are complete, ascending.
    pub parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seal: Option<Seal>,
}

/// Specification of the vectors of an index: their embedder, length and scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorsSpec {
    /// The embedder that makes the vectors; the index opens it again to embed queries.
    pub embedder: EmbedderChoice,
    /// Fingerprint of the embedder.
    pub fingerprint: String,
    /// One-line description of the embedder.
    pub description: String,
    /// Number of values in a vector.
    pub dim: usize,
    /// Whether only nodes of candidate types have a vector.
    pub candidates_only: bool,
}

impl VectorsSpec {
    /// Specifies the vectors that `embedder`, opened by `choice`, makes.
    pub fn new(choice: &EmbedderChoice, embedder: &dyn Embedder, candidates_only: bool) -> Self {
        Self {
            embedder: choice.clone(),
            fingerprint: embedder.fingerprint().to_owned(),
            description: embedder.describe(),
            dim: embedder.dim(),
            candidates_only,
        }
    }
}

impl VectorsRecord {
    /// Creates a record that lists no optional parts.
    pub(super) fn new(kb: &str, spec: VectorsSpec) -> Self {
        Self {
            format: VECTORS_FORMAT,
            kb: kb.to_owned(),
            embedder: spec.embedder,
            fingerprint: spec.fingerprint,
            description: spec.description,
            dim: spec.dim,
            candidates_only: spec.candidates_only,
            parts: Vec::new(),
            seal: None,
        }
    }
}

/// Computes the fingerprint of an index. Indexes with equal fingerprints give equal answers.
/// Optional parts do not change answers, so the fingerprint does not cover them.
pub(super) fn fingerprint(words: &WordsRecord, vectors: &VectorsRecord) -> String {
    let (w, v, scope) = (words.format, vectors.format, u8::from(vectors.candidates_only));
    let mut parts = format!("{w} {v} {} {} {scope}", words.kb, vectors.fingerprint);
    if !words.languages.is_english() {
        parts += &format!(" {}", words.languages);
    }
    blake3::hash(parts.as_bytes()).to_hex().to_string()
}

/// An optional part of `vectors/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Approximate search for nearest neighbours among the vectors of nodes.
    Ann,
    /// Vectors of the chunks of each document.
    Multi,
    /// Vectors of the tokens of each document, for late interaction.
    Late,
    /// Vectors of the tokens of each document by a ColBERT checkpoint.
    Colbert,
    /// Text search by field.
    Fields,
    /// A vector of each field of each node.
    #[serde(rename = "field-vectors")]
    FieldVectors,
    /// Search in all nodes with a query language.
    Query,
}

impl Part {
    /// All optional parts, in the order of the command line's help.
    pub const ALL: [Self; 7] = [
        Self::Ann,
        Self::Multi,
        Self::Late,
        Self::Colbert,
        Self::Fields,
        Self::FieldVectors,
        Self::Query,
    ];

    /// Name of the part on the command line, in the record and as a folder in `vectors/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ann => "ann",
            Self::Multi => "multi",
            Self::Late => "late",
            Self::Colbert => "colbert",
            Self::Fields => "fields",
            Self::FieldVectors => "field-vectors",
            Self::Query => "query",
        }
    }

    /// Suffix that may follow the part's name in a request to build it; empty for most parts.
    pub(super) fn value(self) -> &'static str {
        if self == Self::Colbert { "=DIR" } else { "" }
    }
}

/// An optional part to build. Written as its name; `colbert=DIR` names a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PartRequest {
    /// The part.
    pub part: Part,
    /// Directory of the checkpoint with which [`Part::Colbert`] is built; `None` for the checkpoint
    /// with which the existing part was built.
    pub checkpoint: Option<PathBuf>,
}

impl FromStr for PartRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, checkpoint) = match text.split_once('=') {
            Some((name, dir)) => (name, Some(PathBuf::from(dir))),
            None => (text, None),
        };
        let part = name.parse()?;
        let fits =
            checkpoint.as_ref().is_none_or(|dir| part == Part::Colbert && dir != Path::new(""));
        fits.then_some(Self { part, checkpoint })
            .ok_or_else(|| format!("cannot build {text:?}; write a part, or colbert=DIR"))
    }
}

impl TryFrom<String> for PartRequest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PartRequest> for String {
    fn from(request: PartRequest) -> String {
        let dir = request.checkpoint.map(|dir| format!("={}", dir.display()));
        format!("{}{}", request.part, dir.unwrap_or_default())
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
        part.ok_or_else(|| format!("unknown part {name:?}; use one of: {names}"))
    }
}

/// Returns the directory of an optional part in the index directory `index`.
pub(super) fn part_path(index: &Path, part: Part) -> PathBuf {
    index.join(VECTORS).join(part.name())
}

/// A part being built in a hidden directory of the index; the directory is removed unless the part
/// is published.
pub(super) struct Staging {
    dir: TempDir,
    /// Lock on the directory, which distinguishes active builds from leftovers; `None` if the
    /// system cannot lock directories.
    _at_work: Option<File>,
}

impl Staging {
    /// Creates the hidden directory for a new part in the index directory `index`.
    pub(super) fn new(index: &Path) -> Result<Self> {
        let failed = IndexError::io(index);
        fs::create_dir_all(index).map_err(failed)?;
        let _turn = locked(index);
        let dir = files::temporary_dir(index, STAGING_PREFIX).map_err(failed)?;
        let at_work = locked(dir.path());
        Ok(Self { dir, _at_work: at_work })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Moves the directory of the part to `target`, replacing an older part.
    pub(super) fn publish(self, target: &Path) -> Result<()> {
        Ok(publish(&self.dir.keep(), target)?)
    }
}

/// Removes leftovers of killed builds from an index directory; does nothing if there is no such
/// directory.
pub fn remove_leftovers(index: &Path) {
    let _turn = locked(index);
    let entries = fs::read_dir(index).into_iter().flatten().flatten();
    for entry in entries {
        let is_staging = entry.file_name().to_string_lossy().starts_with(STAGING_PREFIX);
        let is_left = || File::open(entry.path()).is_ok_and(|dir| dir.try_lock().is_ok());
        if is_staging && is_left() {
            // The next build retries failed removals.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Locks a directory until the returned file is dropped; waits for other locks. `None` if the
/// system cannot lock directories.
fn locked(dir: &Path) -> Option<File> {
    let dir = File::open(dir).ok()?;
    dir.lock().ok()?;
    Some(dir)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_build_left_is_removed_and_what_is_at_work_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(format!("{STAGING_PREFIX}left"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("half"), "").unwrap();
        let at_work = Staging::new(dir.path()).unwrap();
        fs::write(at_work.path().join("file"), "").unwrap();
        remove_leftovers(dir.path());
        assert!(!left.exists());
        at_work.publish(&dir.path().join("part")).unwrap();
        remove_leftovers(dir.path());
        assert!(dir.path().join("part/file").exists());
        remove_leftovers(&dir.path().join("nowhere"));
    }
}
