//! The one integration binary: what only a process can show, its exit status and its streams.
//! Libraries are tested beside their sources.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failed step fails the test, and a test may say what it saw"
)]

mod actor;
mod answers;
mod api;
mod ask;
mod assisted;
mod bounds;
mod bundles;
mod data;
mod durability;
mod embedders;
mod eval;
mod expansion;
mod explain;
mod explorer;
mod faults;
mod generated;
mod gpu;
mod help;
mod home;
mod hostile;
mod import;
mod improvement;
mod languages;
mod linking;
mod llm;
mod mcp;
mod messy;
mod mining;
mod mistakes;
mod model;
mod named;
mod null;
mod operations;
mod optimize;
mod plain;
mod planted;
mod programs;
mod pull;
mod readme;
mod report;
mod runs;
mod samples;
mod sandbox;
mod search;
mod serve;
mod signals;
mod standstill;
mod strangers;
mod support;
mod synthesize;
mod tidy;
mod toolkit;
mod units;
mod user_programs;
mod vocabulary;
