//! Bases and models for the unit tests of several crates.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step fails the test that takes it"
)]

mod bases;
#[path = "../../src/llm/scripted.rs"]
mod scripted;

use std::{
    path::Path,
    sync::{Arc, LazyLock},
};

use crate::bases::imported;
pub use crate::bases::{QUERY, answer, base_in, base_of, echo, planted};
pub use crate::scripted::*;
use agent_index::IndexedBase;
use agent_llm::{Llm, prompts::Prompts};
use agent_tools::{Assistant, TOOLKIT};

/// The base that comes with the toolkit, imported and indexed once for all tests.
pub fn example_base() -> Arc<IndexedBase> {
    static BASE: LazyLock<Arc<IndexedBase>> = LazyLock::new(|| {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        imported(&root.join("toolkits").join(TOOLKIT).join("base"), "example")
    });
    BASE.clone()
}

/// A model with the built-in prompts.
pub fn assistant(llm: Arc<Llm>) -> Arc<Assistant> {
    Arc::new(Assistant::new(llm, Arc::new(Prompts::built_in().unwrap())))
}
