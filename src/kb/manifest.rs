//! `manifest.json`: the content of a base in numbers and names, and the digests of its files.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{KbError, Result};
use agent_ground::{files, record::own_digest, words::Languages};

/// The only format version of a base that this program reads and writes.
pub(super) const FORMAT_VERSION: u64 = 1;
/// Name of the manifest file.
pub(super) const MANIFEST_FILE: &str = "manifest.json";
/// Maximum size of a manifest, in bytes. The largest possible manifest, with 65,535 names of each
/// kind at 1 KiB, would be larger, but real data do not need it.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// Size and digest of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// BLAKE3 digest of the file's bytes, in hexadecimal.
    pub blake3: String,
}

impl FileRecord {
    /// Reads a file and returns its size and digest. O(bytes).
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn of(path: &Path) -> io::Result<FileRecord> {
        let mut bytes = 0;
        let digest = digest(path, &mut |n| bytes += n)?;
        Ok(FileRecord { bytes, blake3: digest.to_hex().to_string() })
    }

    /// Whether a file still has the recorded digest. O(bytes); `on_bytes` receives the number of
    /// bytes read since its last call.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn matches(&self, path: &Path, on_bytes: &mut dyn FnMut(u64)) -> io::Result<bool> {
        Ok(digest(path, on_bytes)?.to_hex().as_str() == self.blake3)
    }
}

/// Returns the blake3 digest of a file, which is read in blocks; `on_bytes` receives the size of
/// each block, in bytes.
fn digest(path: &Path, on_bytes: &mut dyn FnMut(u64)) -> io::Result<blake3::Hash> {
    let mut file = files::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok(hasher.finalize());
        }
        hasher.update(buffer.get(..n).unwrap_or_default());
        on_bytes(n as u64);
    }
}

/// The content of `manifest.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Format version of all files of the base.
    pub format_version: u64,
    /// Title of the base, for people.
    pub title: String,
    /// Licence of the data, for people.
    pub licence: String,
    /// Languages of the texts; `None` if the data do not name them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub languages: Option<Languages>,
    /// Other words that people use for a type or relation, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub said_as: BTreeMap<String, Vec<String>>,
    /// Number of nodes.
    pub n_nodes: u32,
    /// Number of distinct edges.
    pub n_edges: u64,
    /// Names of the node types, ascending; the position of a name is the type's id.
    pub types: Vec<String>,
    /// Number of nodes of each type, in the order of `types`.
    pub type_counts: Vec<u32>,
    /// Names of the relations, ascending; the position of a name is the relation's id.
    pub relations: Vec<String>,
    /// Names of the fields, ascending; the position of a name is the field's id.
    pub fields: Vec<String>,
    /// The distinct `(source type, relation, target type, number of edges)`, ascending, with the
    /// ids of types and relations.
    pub tuples: Vec<(u16, u16, u16, u64)>,
    /// Ids of the types whose nodes may be answers, ascending.
    pub candidate_types: Vec<u16>,
    /// Size and digest of every other file of the base, by file name.
    pub files: BTreeMap<String, FileRecord>,
    /// Byte offset of the section table in `graph.bin`.
    pub table_offset: u64,
    /// Number of entries of the section table.
    pub table_entries: u64,
    /// BLAKE3 digest of the section table, in hexadecimal.
    pub table_blake3: String,
    /// BLAKE3 digest of the content (keys, nodes, fields, edges and candidate types), in
    /// hexadecimal. The format version, title, licence, languages and `said_as` do not change it.
    pub fingerprint: String,
    /// BLAKE3 digest of this object with `checksum` empty, in hexadecimal.
    pub checksum: String,
}

impl Manifest {
    /// Computes the value that `checksum` must have.
    pub(super) fn own_digest(&self) -> Result<String, serde_json::Error> {
        own_digest(self, |manifest| manifest.checksum.clear())
    }

    /// Reads the manifest of the base in the directory `dir` and checks its format version and
    /// checksum.
    ///
    /// # Errors
    /// [`KbError::NotABase`], [`KbError::Version`], [`KbError::Damaged`] or [`KbError::Io`].
    pub fn read(dir: &Path) -> Result<Manifest> {
        let path = dir.join(MANIFEST_FILE);
        let bytes = match files::read(&path, MAX_MANIFEST_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(KbError::NotABase { path: dir.to_path_buf() });
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(KbError::damaged(path, "it is longer than 64 MiB"));
            }
            read => read.map_err(KbError::io("read", &path))?,
        };
        #[derive(Deserialize)]
        struct Version {
            format_version: u64,
        }
        let not_json = |error: serde_json::Error| KbError::damaged(&path, error.to_string());
        let version: Version = serde_json::from_slice(&bytes).map_err(not_json)?;
        if version.format_version != FORMAT_VERSION {
            return Err(KbError::Version {
                path,
                found: version.format_version,
                supported: FORMAT_VERSION,
            });
        }
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(not_json)?;
        if manifest.own_digest().map_err(not_json)? != manifest.checksum {
            return Err(KbError::damaged(path, "its checksum does not match its content"));
        }
        Ok(manifest)
    }

    /// Finds the size and digest of the file `name` of the base in the directory `dir`;
    /// [`KbError::Damaged`] if the manifest does not list the file.
    pub(super) fn file(&self, dir: &Path, name: &str) -> Result<&FileRecord> {
        self.files.get(name).ok_or_else(|| {
            KbError::damaged(dir.join(MANIFEST_FILE), format!("it does not list {name}"))
        })
    }
}
