//! The data of a run: a base with its index, its training queries and its validation queries. On
//! request, makes questions for a dataset that has none; never replaces labels that the user gave.

use std::{collections::HashSet, sync::Arc};

use anyhow::anyhow;

use crate::{App, Explain, Result, dataset, optimize::Request, synthesize, synthetic};
use agent_dataset::{Base, LabelledQuery, Split, is_synthetic, load_split};
use agent_index::IndexedBase;
use agent_optimize::check_queries;

/// Number of questions in a split below which the user is warned: little can be learned or proven.
const FEW_QUERIES: usize = 30;

/// A base with training and validation queries.
pub(super) struct Data {
    pub(super) base: Base,
    pub(super) indexed: Arc<IndexedBase>,
    pub(super) train: Vec<LabelledQuery>,
    pub(super) validation: Vec<LabelledQuery>,
    /// Whether to measure the bundle on the test split at the end.
    pub(super) is_tested: bool,
}

impl Data {
    /// Opens the dataset that a request names. Imports and indexes the dataset as needed, and makes
    /// questions if the dataset has none and the request asks for them.
    pub(super) fn open(request: &Request, app: &App) -> Result<Data> {
        let mut dataset = dataset::find(&request.dataset, app)?;
        let has_questions = dataset.base.record.n_queries > 0;
        if !has_questions && request.synthesize {
            let indexed = dataset::open(&dataset, app)?;
            dataset.base = synthesize::for_base(&dataset.base, &indexed, app)?;
        } else if !has_questions {
            return no_questions(&dataset.base.name, app);
        } else {
            note_own_questions(&dataset.base.name, request, app);
        }
        // Fail on missing queries before building an index.
        let (train, validation) = queries(&dataset.base)?;
        let indexed = dataset::open(&dataset, app)?;
        let is_tested = request.test || dataset.is_sample();
        Ok(Data { base: dataset.base, indexed, train, validation, is_tested })
    }

    /// Returns the data of a base that is already open; loads its queries.
    pub(super) fn new(base: Base, indexed: Arc<IndexedBase>, is_tested: bool) -> Result<Data> {
        let (train, validation) = queries(&base)?;
        Ok(Data { base, indexed, train, validation, is_tested })
    }

    /// Notifies the user if questions are synthetic, and warns if a split has few questions or if
    /// questions are in both splits.
    pub(super) fn warn(&self, app: &App) {
        let (n_train, n_validation) = (self.train.len(), self.validation.len());
        if is_synthetic(&self.train) || is_synthetic(&self.validation) {
            app.watch.notice(synthetic::TOLD);
        }
        if n_train.min(n_validation) < FEW_QUERIES {
            app.watch.warning(&format!(
                "{n_train} training and {n_validation} validation questions are few: programs may \
                 overfit, and few changes can pass a test; label at least {FEW_QUERIES} of each"
            ));
        }
        let learnt: HashSet<&str> = self.train.iter().map(|query| query.text.trim()).collect();
        let is_shared = |query: &&LabelledQuery| learnt.contains(query.text.trim());
        let n = self.validation.iter().filter(is_shared).count();
        if let Some(first) = self.validation.iter().find(is_shared) {
            app.watch.warning(&format!(
                "{n} of {n_validation} validation questions are also training questions, word for \
                 word, such as question {}: they cannot test what was learned from them; remove \
                 them from one split",
                first.id
            ));
        }
    }
}

/// Loads the queries of a base: first those for training, then those for validation; at least one
/// of each.
///
/// # Errors
/// If a split cannot be loaded or is empty.
pub(super) fn queries(base: &Base) -> Result<(Vec<LabelledQuery>, Vec<LabelledQuery>)> {
    let train = load_split(base, &Split::Train)?;
    let validation = load_split(base, &Split::Val)?;
    check_queries(&train, &validation)?;
    Ok((train, validation))
}

/// If the request asks to make questions, notifies the user that the dataset's own questions are
/// used instead.
pub(super) fn note_own_questions(name: &str, request: &Request, app: &App) {
    if request.synthesize {
        app.watch.notice(&format!("\"{name}\" already has questions, which are used"));
    }
}

/// Returns the error that the dataset has no labelled questions, with advice.
pub(super) fn no_questions<T>(name: &str, app: &App) -> Result<T> {
    if let Ok(Some(pending)) = app.home.pending_version(name)
        && pending.record.n_queries > 0
    {
        return Err(anyhow!(
            "the labelled questions of \"{name}\" are in an import that is not indexed yet"
        ))
        .hint(format!("run `agent index {name}`"));
    }
    Err(anyhow!("\"{name}\" has no labelled questions")).hint(format!(
        "make some with `agent data synthesize {name}`, or at once with --synthesize; or label your \
         own in qa.csv and split/ and import it again"
    ))
}
