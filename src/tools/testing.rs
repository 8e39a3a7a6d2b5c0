//! The example base for tests of what asks a language model.

use std::{
    path::Path,
    sync::{Arc, LazyLock, atomic::AtomicBool},
};

pub(crate) use crate::llm::scripted::blocks;
use crate::{
    dataset::{Home, ImportOptions, import_neutral},
    index::{IndexedBase, build},
    kb::Kb,
    llm::Llm,
    prompts::Prompts,
    tools::{Assistant, TOOLKIT},
};

/// The base that comes with the toolkit, imported and indexed once for all tests.
pub(crate) fn example_base() -> Arc<IndexedBase> {
    static BASE: LazyLock<Arc<IndexedBase>> = LazyLock::new(|| {
        let dir = tempfile::tempdir().unwrap();
        let (home, stop) = (Home::new(dir.path()), AtomicBool::new(false));
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("toolkits").join(TOOLKIT).join("base");
        let options = ImportOptions::default();
        let report =
            import_neutral(&source, &home, "example", &options, &mut |_| {}, &stop).unwrap();
        let (kb_dir, index) = (report.base.kb_dir(), report.base.index_dir());
        build(&Kb::open(&kb_dir).unwrap(), &index, &|_| {}, &stop).unwrap();
        // What is mapped stays readable after its files are gone.
        Arc::new(IndexedBase::open(&kb_dir, &index, "example").unwrap())
    });
    BASE.clone()
}

/// A model with the built-in prompts.
pub(crate) fn assistant(llm: Arc<Llm>) -> Arc<Assistant> {
    Arc::new(Assistant::new(llm, Arc::new(Prompts::built_in().unwrap())))
}
