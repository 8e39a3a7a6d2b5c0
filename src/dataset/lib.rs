//! Imports datasets into a home directory and opens installed datasets. Does not depend on indexes
//! or on question answering.
//!
//! # Input: the neutral format
//!
//! ```text
//! nodes.jsonl[.gz|.zst]   one object per line: {"id": int, "type": str, "name": str,
//!                         "details": {field: string | number | bool | list | object | null}}
//!                         ids are 0, 1, 2, ... in file order; details may be missing
//! edges.tsv[.gz|.zst]     header src_id<TAB>relation<TAB>dst_id, then one edge per line
//! qa.csv                  optional: id,query,answer_ids and further columns, kept as metadata;
//!                         answer_ids is a list of node ids such as [3, 17]
//! human.csv               optional: same columns as qa.csv, independent query ids
//! split/NAME.index        optional, NAME in train, val, test, human: one query id per line;
//!                         test-0.1.index lists a subset of test
//! dataset.toml            optional: title, licence, language,
//!                         candidate_types ("*" or missing means all),
//!                         [templates] TYPE = "text with {field}" for documents of that type;
//!                         [sample] records how a generated base was made; ignored
//! ```
//!
//! Ids that are not 0, 1, 2, ... may be any texts or numbers. They are stored as keys, and edges
//! and answers refer to nodes by key.
//!
//! # Input: tables, databases, triples
//!
//! See [`tables`] and [`import_triples`]. The question files and `dataset.toml` in a directory of
//! tables have the neutral format.
//!
//! # Input: the STaRK benchmark
//!
//! The official files of the STaRK benchmark; see [`stark`].
//!
//! # Home
//!
//! ```text
//! home      := bases/NAME/base downloads/stark
//! base      := base.json kb/... queries/{qa.csv, human.csv, NAME.index} index/... current?
//!              VERSION/base
//! stark     := files as in the repository on the hub
//! ```
//!
//! A complete base is published by renaming its directory. Directories whose names begin with a dot
//! are still being written and are never listed.
//!
//! # Limits
//!
//! | limit | unit | value | reason |
//! | --- | --- | --- | --- |
//! | [`MAX_LINE_BYTES`] | bytes, unpacked | 64 MiB | one line is held in memory |
//! | [`MAX_FILE_BYTES`] | bytes, unpacked | 256 GiB | a small packed file can unpack to any size |
//! | [`MAX_QUERY_FILE_BYTES`] | bytes | 1 GiB | queries are held in memory |
//! | [`MAX_FILLER_NODES`] | nodes | 1,000,000 | one bad id must not create billions of nodes |
//! | [`MAX_TRIPLE_BYTES`] | bytes | 4 GiB | triples are held until the last is read |
//! | [`MAX_CHANGE_BYTES`] | bytes | 1 GiB | changes of single nodes are held in memory |
//! | [`MAX_LISTED_PROBLEMS`] | problems | 50, 10 of a kind | listed; further problems are counted |
//!
//! The limits of [`agent_kb`] apply as well.

mod changes;
mod encoding;
mod error;
mod form;
mod home;
pub mod hub;
mod ids;
mod install;
mod label;
mod lines;
mod links;
mod neutral;
mod openings;
mod queries;
mod render;
pub mod sample;
pub mod stark;
mod summary;
pub mod tables;
mod triples;
mod upsert;

#[cfg(test)]
#[path = "../../tests/it/support/given.rs"]
mod given;
#[cfg(test)]
mod tests;

pub use changes::Changes;
pub use encoding::Encoding;
pub use error::{
    DatasetError, MAX_LISTED_PROBLEMS, Problem, ProblemCount, ProblemKind, ProblemReport, Result,
};
pub use form::InputFormat;
pub use home::{Base, BaseRecord, Home, MAX_NAME_CHARS, ResolvedDataset, is_name};
pub use ids::{IdError, id_list, id_of, node_of_id, nodes_of_id, nodes_of_ids};
pub use install::{ImportOptions, ImportReport, Phase, Progress, Update};
pub use label::{SYNTHETIC, attach_questions, has_own_labels, is_synthetic};
pub use lines::{MAX_FILE_BYTES, MAX_LINE_BYTES};
pub use neutral::{EDGES_HEADER, MAX_FILLER_NODES, import_neutral};
pub use queries::{
    LabelledQuery, MAX_QUERY_BYTES, MAX_QUERY_FILE_BYTES, Split, ValuedQuery, load_split,
    load_test, load_test_tenth, load_test_values, load_values, query_id,
};
pub use render::{Template, render_field, render_text};
pub use summary::{Examples, RelationSummary, Summary, TypeSummary, Typo};
pub use triples::{MAX_HELD_BYTES as MAX_TRIPLE_BYTES, import_triples};
pub use upsert::{MAX_CHANGE_BYTES, Upsert, import_upsert};
