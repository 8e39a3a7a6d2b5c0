//! From a directory of files to an open base: what all examples begin with.
//!
//! `agent data import` and `agent index` do the same; whoever has done that needs only the last
//! step, [`agent::index::IndexedBase::open`].

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
/// What is wrong with the files, or with the disk.
pub(crate) fn install(
    source: &Path,
    home: &Home,
    name: &str,
) -> Result<(Base, Arc<IndexedBase>), Box<dyn Error>> {
    // Another thread may set this to end the work; then nothing is left behind.
    let stop = AtomicBool::new(false);
    let options = ImportOptions::default();
    let base = import_neutral(source, home, name, &options, &mut |_| {}, &stop)?.base;
    index::build(&Kb::open(&base.kb_dir())?, &base.index_dir(), &|_| {}, &stop)?;
    let opened = IndexedBase::open(&base.kb_dir(), &base.index_dir(), name)?;
    Ok((base, Arc::new(opened)))
}
