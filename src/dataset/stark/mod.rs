//! Reads and imports the official files of the STaRK benchmark (`snap-stanford/stark`), and renders
//! the benchmark's documents. Code in a file is never run.
//!
//! # Input
//!
//! ```text
//! DIR/processed.zip or DIR/processed/     the base; DIR may be ROOT/skb/KIND or ROOT/KIND
//! DIR/stark_qa/stark_qa.csv               queries; for ROOT/skb/KIND, below ROOT/qa/KIND
//! DIR/stark_qa/stark_qa_human_generated_eval.csv
//! DIR/split/{train,val,test,test-0.1}.index
//!
//! base := node_info.pkl                   dict of node id to dict
//!         edge_index.pt edge_types.pt     int64 [2, edges] and [edges]
//!         node_types.pt                   int64 [nodes]
//!         node_type_dict.pkl edge_type_dict.pkl  dict of number to name; constants for MAG
//! ```
//!
//! The base of Amazon is in the folder `cache/brand-category-color` of the archive.

pub mod archive;
mod documents;
mod files;
mod import;
mod kind;
mod node;
pub mod pickle;
mod python;
pub mod torch;

#[cfg(test)]
mod tests;

pub use documents::{Documents, compact};
pub use import::{Mode, Origin, import_stark};
pub use kind::Kind;
