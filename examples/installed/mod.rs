//! Turns a directory of files into an open base, the first step of all examples.
//!
//! `agent data import` and `agent index` do the same on the command line; after them only
//! [`agent::index::IndexedBase::open`] is needed.

use std::{
    error::Error,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use agent::{
    dataset::{Base, Home, ImportOptions, import_neutral},
    index::{self, IndexedBase},
    kb::Kb,
};

/// Imports the neutral files in `source` into a home directory, indexes them with the built-in
/// embedder, and opens the base with its index.
///
/// # Errors
/// If the files are not valid, or a file cannot be read or written.
pub(crate) fn install(
    source: &Path,
    home: &Home,
    name: &str,
) -> Result<(Base, Arc<IndexedBase>), Box<dyn Error>> {
    // Another thread may set this to stop the work; then no partial base is left behind.
    let stop = AtomicBool::new(false);
    let options = ImportOptions::default();
    let base = import_neutral(source, home, name, &options, &mut |_| {}, &stop)?.base;
    index::build(&Kb::open(&base.kb_dir())?, &base.index_dir(), &|_| {}, &stop)?;
    let opened = IndexedBase::open(&base.kb_dir(), &base.index_dir(), name)?;
    Ok((base, Arc::new(opened)))
}
