//! The example base for tests of what asks a language model.

use std::{
    path::Path,
    sync::{Arc, LazyLock},
};

pub(crate) use crate::llm::scripted::blocks;
use crate::{
    expand::testing::imported,
    index::IndexedBase,
    llm::Llm,
    prompts::Prompts,
    tools::{Assistant, TOOLKIT},
};

/// The base that comes with the toolkit, imported and indexed once for all tests.
pub(crate) fn example_base() -> Arc<IndexedBase> {
    static BASE: LazyLock<Arc<IndexedBase>> = LazyLock::new(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        imported(&root.join("toolkits").join(TOOLKIT).join("base"), "example")
    });
    BASE.clone()
}

/// A model with the built-in prompts.
pub(crate) fn assistant(llm: Arc<Llm>) -> Arc<Assistant> {
    Arc::new(Assistant::new(llm, Arc::new(Prompts::built_in().unwrap())))
}
