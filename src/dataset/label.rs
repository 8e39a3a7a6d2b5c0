//! Attaches synthetic questions to an installed base. Returns an error for a base that has the
//! user's own labels.
//!
//! A concurrent reader sees the old questions, no questions, or all new questions, because
//! `base.json` is written last. If old questions are replaced, a `base.json` without questions is
//! written first.

use std::{collections::BTreeMap, fs, path::Path, slice, sync::atomic::AtomicBool};

use crate::{
    Base, DatasetError, Home, LabelledQuery, Result,
    error::Problems,
    ids::AnswerIds,
    install::Watch,
    queries::{QuerySources, all_queries, import_queries},
};
use agent_ground::files;

/// Name of the column with the origin of a question.
const SOURCE: &str = "source";
/// Value of the column `source` for questions that were generated, not labelled by people.
pub const SYNTHETIC: &str = "synthetic";
/// Name prefix of a directory that is still being written.
const STAGING_PREFIX: &str = ".queries-";

/// Whether at least one of the questions is synthetic.
pub fn is_synthetic(queries: &[LabelledQuery]) -> bool {
    queries.iter().any(|query| query.metadata.get(SOURCE).is_some_and(|source| source == SYNTHETIC))
}

/// Whether a base has the user's own labels: `qa.csv` or `human.csv` has a question that is not
/// synthetic.
///
/// # Errors
/// [`DatasetError::Damaged`] or [`DatasetError::Io`] if the question files cannot be read.
pub fn has_own_labels(base: &Base) -> Result<bool> {
    Ok(all_queries(base)?.iter().any(|query| !is_synthetic(slice::from_ref(query))))
}

/// Replaces the synthetic questions of a base with the query files of a directory: `qa.csv`,
/// `human.csv` and `split/`.
///
/// # Errors
/// [`DatasetError::HasOwnLabels`] if the base has the user's own labels,
/// [`DatasetError::BaseChanged`] if the base was replaced or removed in the meantime,
/// [`DatasetError::Problems`] if the files have invalid lines; otherwise the errors of an import.
pub fn attach_questions(home: &Home, base: &Base, source: &Path) -> Result<Base> {
    let _lock = home.lock()?;
    if !home.is_current(base)? {
        return Err(DatasetError::BaseChanged { name: base.name.clone() });
    }
    if has_own_labels(base)? {
        let (name, n) = (base.name.clone(), base.record.n_queries);
        return Err(DatasetError::HasOwnLabels { name, n });
    }
    let staged = files::temporary_dir(&base.path, STAGING_PREFIX)
        .map_err(DatasetError::io("create", &base.path))?;
    let new = staged.path().join("queries");
    let mut problems = Problems::new(false);
    let mut watch = Watch { on_progress: &mut |_| {}, stop: &AtomicBool::new(false) };
    let ids = AnswerIds::Numbers(base.record.n_nodes);
    let sources = QuerySources::in_dir(source);
    let stored = import_queries(&sources, &new, (ids, false), &mut problems, &mut watch)?;
    problems.finish()?;
    let mut record = base.record.clone();
    if record.n_queries > 0 {
        (record.n_queries, record.splits) = (0, BTreeMap::new());
        record.query_files = BTreeMap::new();
        record = record.write(&base.path)?;
    }
    let place = base.queries_dir();
    if let Err(error) = fs::remove_dir_all(&place)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(DatasetError::io("remove", &place)(error));
    }
    fs::rename(&new, &place).map_err(DatasetError::io("create", &place))?;
    (record.n_queries, record.splits) = (stored.n_queries, stored.splits);
    record.query_files = stored.files;
    let record = record.write(&base.path)?;
    Ok(Base { record, ..base.clone() })
}
