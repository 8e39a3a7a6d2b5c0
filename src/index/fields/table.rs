//! The fields of a base and, for each field, the nodes that have it, in one file:
//!
//! | array | content |
//! | --- | --- |
//! | `names`, `name_bounds` | the fields' names, in order |
//! | `kinds` | for each field, its [`FieldKind`] |
//! | `bounds`, `nodes` | the nodes of each field, ascending |
//! | `digests` | 64 bytes for each field: BLAKE3 of its postings, hex; empty without postings |

use std::path::Path;

use super::{FieldBuilder, FieldKind, MAX_FIELDS};
use crate::{
    IndexError, Result,
    arrays::{Array, Arrays, Strings, named},
};
use agent_kb::NodeId;

/// Name of the file of the table.
const FILE: &str = "fields";
/// Length in bytes of a hexadecimal digest.
const DIGEST: usize = 64;

/// The opened table: the fields of a base, each with the nodes that have it.
pub struct FieldTable {
    arrays: Arrays,
    fields: Vec<(String, FieldKind)>,
    bounds: Array<u64>,
    nodes: Array<u32>,
    digests: Array<u8>,
}

impl FieldTable {
    /// Writes the table of `fields` into the directory `dir`; `digests` holds the digest of each
    /// field's postings, or is empty.
    pub(super) fn write(dir: &Path, fields: &[FieldBuilder], digests: &[u8]) -> Result<()> {
        let mut bounds = vec![0u64];
        for field in fields {
            bounds.push(bounds.last().copied().unwrap_or(0) + field.nodes.len() as u64);
        }
        let nodes: Vec<NodeId> = fields.iter().flat_map(|field| &field.nodes).copied().collect();
        let kinds: Vec<u8> = fields.iter().map(|field| field.source.kind() as u8).collect();
        let (name_bounds, names) = Strings::layout(fields.iter().map(|field| field.name.as_str()));
        let arrays = [
            named("bounds", &bounds),
            named("name_bounds", &name_bounds),
            named("nodes", &nodes),
            named("digests", digests),
            named("kinds", &kinds),
            named("names", &names),
        ];
        Arrays::write_sealed(&dir.join(FILE), &arrays)
    }

    /// Opens the table in the directory `dir`; the file is mapped, not read. Constant time.
    ///
    /// # Errors
    /// As [`Arrays::open`] and [`Arrays::get`].
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        let arrays = Arrays::open(&path)?;
        let names = Strings::new(arrays.get("name_bounds")?, arrays.get("names")?);
        let kinds: Array<u8> = arrays.get("kinds")?;
        let bounds: Array<u64> = arrays.get("bounds")?;
        let n = kinds.as_slice().len();
        if n > MAX_FIELDS || names.len() != n || bounds.as_slice().len() != n + 1 {
            return Err(IndexError::damaged(&path, "its fields are inconsistent"));
        }
        let field = |(at, &kind): (usize, &u8)| {
            let unknown = || IndexError::damaged(&path, "unknown kind of field");
            let kind = FieldKind::ALL.into_iter().find(|&known| known as u8 == kind);
            let name = String::from_utf8_lossy(names.get(at)).into_owned();
            Ok((name, kind.ok_or_else(unknown)?))
        };
        let fields: Result<_> = kinds.as_slice().iter().enumerate().map(field).collect();
        let (nodes, digests) = (arrays.get("nodes")?, arrays.get("digests")?);
        Ok(Self { fields: fields?, nodes, digests, bounds, arrays })
    }

    /// Reads the file and compares it with its recorded checksum.
    pub(super) fn verify(&self) -> Result<()> {
        self.arrays.verify()
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Number of texts over all fields: the number of pairs of a field and a node that has the
    /// field.
    pub(super) fn n_texts(&self) -> usize {
        self.nodes.as_slice().len()
    }

    /// Name of the field with this index: `brand` for a detail, `has_brand.out` and `has_brand.in`
    /// for the names of neighbours; empty for an unknown field.
    ///
    /// Details come first. So if a detail and a field of another kind have the same name, the
    /// detail has the smaller index.
    pub fn name(&self, field: usize) -> &str {
        self.fields.get(field).map_or("", |field| &field.0)
    }

    /// Kind of the field with this index; [`FieldKind::Detail`] for an unknown field.
    pub fn kind(&self, field: usize) -> FieldKind {
        self.fields.get(field).map_or(FieldKind::Detail, |field| field.1)
    }

    /// The nodes that have the field with this index, ascending; none for an unknown field.
    pub fn nodes(&self, field: usize) -> &[NodeId] {
        self.nodes.part(&self.bounds, field)
    }

    /// Number of texts of all fields before the field with this index.
    pub(super) fn start(&self, field: usize) -> u64 {
        self.bounds.as_slice().get(field).copied().unwrap_or(0)
    }

    /// Digest of the postings of the field with this index; `None` if the table has no digests.
    pub(super) fn digest(&self, field: usize) -> Option<&[u8]> {
        self.digests.as_slice().get(field * DIGEST..(field + 1) * DIGEST)
    }

    /// Returns a one-line summary for display.
    pub fn describe(&self) -> String {
        let is_relation = |field: &usize| self.kind(*field) == FieldKind::Relation;
        let (n, relations) = (self.len(), (0..self.len()).filter(is_relation).count());
        format!("{n} fields ({relations} with names of neighbours), {} texts", self.n_texts())
    }
}
