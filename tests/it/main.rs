//! The one integration binary: what only a process can show, its exit status and its streams.
//! Libraries are tested beside their sources.

mod data;
mod eval;
mod faults;
mod generated;
mod help;
mod samples;
mod search;
mod support;
mod tidy;
mod toolkit;
