//! The knowledge base: given a node id, its type, name, text, fields and neighbors.
//!
//! A base is a directory that [`KbWriter`] writes once and that is published by rename; after that
//! it is only read, memory-mapped, through [`Kb`]. Opening reads only headers, so it takes
//! milliseconds at any size. This crate depends neither on the import (`dataset`) nor on the
//! indexes (`index`).
//!
//! # On disk (format 1, little-endian)
//!
//! ```text
//! base          := manifest.json nodes.arrow fields.arrow graph.bin keys.arrow?
//! manifest.json := one JSON object, see `manifest`; carries sizes and blake3 digests of the
//!                  other files, and a digest of itself
//! nodes.arrow   := Arrow IPC file (id: uint32, type: utf8, name: utf8, text: utf8), row = node id
//! fields.arrow  := Arrow IPC file (node: uint32, field: utf8, value: utf8), sorted by node
//! keys.arrow    := Arrow IPC file (node: uint32, key: utf8), row = node id; keys of nodes
//!                  in the imported data; absent if keys are the node ids
//! graph.bin     := magic[8] pad section* table
//! section       := array of u16, u32 or u64, starting at a multiple of 64 bytes
//! table         := entry*                    (place, count and digest are in the manifest)
//! entry         := kind:u16 relation:u16 first:u32 offset:u64 length:u64
//! kind          := 1 node types      u16[n_nodes]          2 type offsets  u32[n_types + 1]
//!                | 3 nodes by type   u32[n_nodes]          4 candidates    u32[]
//!                | 5 field offsets   u64[n_nodes + 1]      6 field ids     u16[n_rows]
//!                | 7 nodes by key    u32[n_nodes]
//!                | 16 out offsets    u32[last - first + 2] 17 out targets  u32[]
//!                | 18 in offsets     u32[last - first + 2] 19 in sources   u32[]
//!                | 20 out nodes      u32[]                 21 in nodes     u32[]
//! ```
//!
//! Kinds 16 to 19 occur once per relation. Their offsets cover only `first ..= last`, the range of
//! ids with an edge. If fewer than one id in 16 has an edge, kinds 20 and 21 list these ids and the
//! offsets refer to the list, so thousands of small relations cost little. A relation that has
//! every edge both ways is stored once: its entries of kinds 18, 19 and 21 refer to the sections of
//! kinds 16, 17 and 20.
//!
//! # Damage
//!
//! Opening checks sizes and the digests of all tables. It does not read the data, so every access
//! is checked instead: a damaged file gives empty or wrong values, never ids of nodes that do not
//! exist, a panic or undefined behaviour. [`Kb::met_damage`] reports whether an invalid list was
//! found; [`verify`] reads all files and compares digests. A base must not be changed in place
//! while it is open; replace it by [`publish`].
//!
//! # Limits
//!
//! | limit | unit | value | reason |
//! | --- | --- | --- | --- |
//! | [`MAX_NODES`] | nodes | 2^32 - 2 | ids are `u32` and offsets need one more |
//! | [`MAX_EDGES`] | edges | 2 * 10^9 | 8 bytes each in memory during the build; `u32` offsets |
//! | [`MAX_LABELS`] | types, relations, fields | 65,535 each | ids are `u16` |
//! | [`MAX_LABEL_BYTES`] | bytes | 1,024 | a label is a word, not a document |
//! | [`MAX_KEY_BYTES`] | bytes | 1,024 | an id is not a document; URLs fit |

pub mod answer;
mod arrow;
mod bits;
mod build;
mod csr;
mod error;
pub mod filter;
mod graph;
mod manifest;
pub mod metapath;
mod open;
mod paths;
mod publish;
mod rows;
pub mod schema;
mod scores;
mod set;
pub mod sqlite;
pub mod table;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use bits::Bits;
pub use build::{KbMeta, KbWriter};
pub use csr::Neighbors;
pub use error::{KbError, Result};
pub use graph::KbGraph;
pub use manifest::{FileRecord, Manifest};
pub use open::{Kb, verify};
pub use paths::{
    Hop, MetapathStep, Path, PathBounds, all_edges, hops, metapath_in_words, path_to, paths_along,
    shortest_paths,
};
pub use publish::{is_set_aside, recover, remove_set_aside};
pub use publish::{publish, sync_dir};
pub use scores::{Combine, Ranking, Scores, best, best_first};
pub use set::{NodeSet, distinct};

/// Id of a node, in `0..n_nodes`; nodes are numbered in the order of the imported files. The id of
/// a node in those files is its [`Kb::key`].
pub type NodeId = u32;

/// Id of a node type, an index into [`Kb::types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TypeId(pub u16);

/// Id of a relation, an index into [`Kb::relations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RelationId(pub u16);

/// Id of a field, an index into [`Kb::field_names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FieldId(pub u16);

impl TypeId {
    /// The type of a node that does not exist; no type of any base has this id.
    pub const NONE: TypeId = TypeId(u16::MAX);
}

/// Direction in which edges are followed from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the source of an edge to its destination, as stored.
    Out,
    /// From the destination of an edge to its source.
    In,
    /// Both ways; a neighbor that is reached both ways counts once.
    Any,
}

impl Direction {
    /// Returns the opposite direction; [`Direction::Any`] is its own opposite.
    pub fn reversed(self) -> Direction {
        match self {
            Direction::Out => Direction::In,
            Direction::In => Direction::Out,
            Direction::Any => Direction::Any,
        }
    }

    /// Writes a relation with this direction: `-has_brand->` as stored, `<-has_brand-` against it,
    /// and `-has_brand-` either way.
    pub fn arrow(self, relation: &str) -> String {
        match self {
            Direction::Out => format!("-{relation}->"),
            Direction::In => format!("<-{relation}-"),
            Direction::Any => format!("-{relation}-"),
        }
    }
}

/// The edges of one relation from nodes of one type to nodes of one type, as stored, with their
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    /// Type of the source nodes.
    pub source: TypeId,
    /// Relation of the edges.
    pub relation: RelationId,
    /// Type of the destination nodes.
    pub target: TypeId,
    /// Number of such edges, at least 1.
    pub edges: u64,
}

/// Maximum number of nodes of a base.
pub const MAX_NODES: u32 = u32::MAX - 1;
/// Maximum number of edges of a base. While a base is built, this many edges take 16 GB of memory.
pub const MAX_EDGES: u64 = 2_000_000_000;
/// Maximum number of types of a base, of its relations and of its field names.
pub const MAX_LABELS: usize = u16::MAX as usize;
/// Maximum length of the name of a type, relation or field, in bytes.
pub const MAX_LABEL_BYTES: usize = 1024;
/// Maximum length of a node's key, in bytes.
pub const MAX_KEY_BYTES: usize = 1024;
