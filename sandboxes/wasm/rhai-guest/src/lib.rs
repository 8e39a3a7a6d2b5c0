//! The engine for Rhai as a module of WebAssembly.
//!
//! Most of it is built from the files of `src/sandbox/` of the crate above, so that both engines
//! parse, count, call and fail alike. Here is only what differs inside WebAssembly: no clock, no
//! threads, tools answered by the host, sets and scores held by the host.
//!
//! Must not know which programs are right, nor what a tool does.

mod kb;
mod sandbox;
mod tools;
