//! Answers questions over semi-structured knowledge bases with small, optimized retrieval programs.
//!
//! ```text
//! dataset import -> knowledge base -> indexes (text, vectors, graph) -> tools -> sandbox -> program
//!    -> ranking -> eval -> optimizer -> frozen bundle -> query
//! ```
//!
//! # Glossary
//!
//! | word | meaning |
//! | --- | --- |
//! | node | a typed thing with a name and fields; its id is a [`kb::NodeId`] in `0..n` |
//! | field | one named piece of a node's text |
//! | relation | a named, directed kind of edge between nodes |
//! | query | a question in words, with a set of answers when it is labelled |
//! | ranking | nodes with scores, best first; ties by ascending node id |
//! | tool | one function a program may call; a toolkit is a set of them |
//! | program | Rhai source with `params()` and `retrieve(query, candidates, params)` |
//! | category | queries that one program answers |
//! | bundle | frozen programs, one per category, with a router and all fingerprints |
//! | actor | proposes programs; the tuner moves their parameters; the router picks a category |
//!
//! # Layers
//!
//! A module may use modules of the lines above it, and of its own line those to its left:
//! `files words clock gpu remote prompts` · `kb embed llm` · `dataset index` · `retrieve` · `tools sandbox program` ·
//! `eval bundle infer explain` · `systems` · `optimize` · `cli`. A test reads every `crate::` path and fails otherwise.

pub mod bundle;
pub mod cli;
pub mod clock;
pub mod dataset;
pub mod embed;
pub mod eval;
pub mod explain;
pub mod files;
pub mod gpu;
pub mod index;
pub mod infer;
pub mod kb;
pub mod llm;
pub mod optimize;
pub mod program;
pub mod prompts;
pub mod remote;
pub mod retrieve;
pub mod sandbox;
pub mod systems;
pub mod tools;
pub mod words;

#[cfg(test)]
#[path = "../tests/it/support/given.rs"]
mod given;
