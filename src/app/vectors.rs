//! Imports embeddings from dictionary files, in the layout of the STaRK benchmark, into an index.
//! Does not depend on how vectors are stored or searched.
//!
//! ```text
//! DIR/doc*/candidate_emb_dict.pt                        node id -> [1, d]
//! DIR/query/query_emb_dict.pt                           id in qa.csv -> [1, d]
//! DIR/query_human_generated_eval/query_emb_dict.pt      id among the human queries -> [1, d]
//! ```

use std::{
    collections::HashMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use anyhow::{Context as _, anyhow};

use crate::{App, AppError, Explain, Result, count};
use agent_dataset::{
    Base, DatasetError, LabelledQuery, Split, load_split, load_test,
    stark::{
        pickle::Value,
        torch::{self, Tensor},
    },
};
use agent_ground::files;
use agent_index::{Import, ImportBuilder, IndexError};
use agent_kb::Kb;

const NODES: &str = "candidate_emb_dict.pt";
const QUERIES: &str = "query_emb_dict.pt";
/// Number of vectors read between two reports of progress.
const REPORT_EVERY: u64 = 1_024;

/// Reads the vectors of the nodes and queries of a base from `dir`.
///
/// # Errors
/// If files in `dir` are missing or invalid, or if the nodes with vectors are not exactly the nodes
/// that may be answers.
pub fn read(dir: &Path, base: &Base, kb: &Kb, app: &App) -> Result<Import> {
    let place = base.index_dir();
    let mut import = ImportBuilder::new(kb, &place)?;
    let progress = app.watch.progress();
    let total = u64::from(kb.n_nodes());
    let mut done = 0;
    each_row(&nodes_file(dir)?, app, &mut |id, vector| {
        if done % REPORT_EVERY == 0 {
            progress.at("read", done, total);
        }
        done += 1;
        Ok(import.node(id, &vector)?)
    })?;
    drop(progress);

    let (train, val) = (load_split(base, &Split::Train), load_split(base, &Split::Val));
    let labelled = [train, val, load_test(base)];
    let mut added = Added::default();
    let file = dir.join("query").join(QUERIES);
    added.add_queries(&mut import, &file, labelled, app)?;
    let file = dir.join("query_human_generated_eval").join(QUERIES);
    added.add_queries(&mut import, &file, [load_split(base, &Split::Human)], app)?;
    let Added { found, missing, unlike } = added;
    let total = count(done);
    app.watch.notice(&format!("read vectors of {total} nodes and {} queries", count(found)));
    if let Some(first) = unlike.first() {
        let n = count(unlike.len() as u64);
        app.watch.warning(&format!(
            "{n} queries have the text of another query but a different vector (first: {first}); \
             `dense` uses the vector of the other query"
        ));
    }
    if missing > 0 {
        let missing = count(missing);
        app.watch.warning(&format!(
            "{missing} queries of the base have no vector, so `dense` cannot answer them"
        ));
    }
    Ok(import.finish()?)
}

/// Returns the file in `dir` that holds the vectors of nodes; fails unless there is exactly one.
fn nodes_file(dir: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("doc"))
        .map(|entry| entry.path().join(NODES))
        .filter(|file| file.is_file())
        .collect();
    files.sort_unstable();
    match (files.pop(), files.is_empty()) {
        (Some(file), true) => Ok(file),
        (found, _) => {
            let n = files.len() + usize::from(found.is_some());
            let places = format!("{}/doc*/{NODES}", dir.display());
            Err(anyhow!("found {n} files {places}; expected exactly one"))
                .hint("give the directory of one model, with doc/ and query/ in it")
        }
    }
}

/// Numbers of queries with and without a vector.
#[derive(Default)]
struct Added {
    /// Number of queries that have a vector in the file.
    found: u64,
    /// Number of queries that have no vector in the file.
    missing: u64,
    /// Ids of queries whose text already had a different vector, which is kept.
    unlike: Vec<i64>,
}

impl Added {
    /// Adds the vectors in `file` for the queries of `splits`; an index finds the vector of a query
    /// by its text. Skips splits that the base does not have. If the file is missing, no query gets
    /// a vector.
    fn add_queries(
        &mut self,
        import: &mut ImportBuilder<'_>,
        file: &Path,
        splits: impl IntoIterator<Item = Result<Vec<LabelledQuery>, DatasetError>>,
        app: &App,
    ) -> Result<()> {
        let mut texts: HashMap<i64, String> = HashMap::new();
        for split in splits {
            match split {
                Ok(queries) => {
                    texts.extend(queries.into_iter().map(|query| (query.id, query.text)))
                }
                Err(DatasetError::NoSplit { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if file.is_file() {
            each_row(file, app, &mut |id, vector| {
                let Some(text) = texts.remove(&id) else { return Ok(()) };
                self.found += 1;
                if !import.query(&text, vector)? {
                    self.unlike.push(id);
                }
                Ok(())
            })?;
        }
        self.missing += texts.len() as u64;
        Ok(())
    }
}

/// Calls `on_row` with each id in the dictionary that a file holds, and with the vector of this id.
fn each_row(
    path: &Path,
    app: &App,
    on_row: &mut dyn FnMut(i64, Vec<f32>) -> Result<()>,
) -> Result<()> {
    let wrong = || format!("{} is not a dictionary of vectors", path.display());
    let file = files::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut failed: Option<AppError> = None;
    let mut row = |key: Value, tensor: Tensor| -> Result<()> {
        if app.stop.load(Ordering::Relaxed) {
            return Err(IndexError::Stopped.into());
        }
        let Value::Int(id) = key else {
            return Err(anyhow!("{}: a key is not a node or query id", wrong()).into());
        };
        let is_row = matches!(tensor.shape[..], [_] | [1, _]);
        let vector = tensor.to_f32().filter(|_| is_row);
        on_row(id, vector.with_context(|| format!("{}: id {id} has no vector", wrong()))?)
    };
    torch::read_tensors(file, &mut |key, tensor| match row(key, tensor) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })
    .with_context(wrong)?;
    failed.map_or(Ok(()), Err)
}
