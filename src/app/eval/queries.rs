//! Loads the labelled queries of splits, filters them, and groups them by a label.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    str::FromStr,
};

use anyhow::anyhow;
use rayon::prelude::*;

use crate::{App, AppError, Explain, Result, refused, test_split};
use agent_dataset::{Base, DatasetError, LabelledQuery, Split};
use agent_retrieve::Retriever;
use agent_systems::bundle;

/// Value of `--by` that groups queries by the categories of a bundle.
const CATEGORY: &str = "category";

/// Keeps the queries that have this value in this column; written `COLUMN=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    column: String,
    value: String,
}

impl FromStr for Filter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Filter, Self::Err> {
        let (column, value) = text.split_once('=').ok_or("use COLUMN=VALUE")?;
        Ok(Filter { column: column.to_owned(), value: value.to_owned() })
    }
}

/// Checks that a request over a network names neither files nor the test split.
///
/// # Errors
/// If the request comes over a network and a split is a file or a test split.
pub fn check_splits(splits: &[Split], app: &App) -> Result<()> {
    if app.network.is_none() {
        return Ok(());
    }
    if test_split::is_among(splits) {
        return Err(AppError::usage(DatasetError::TestClosed.into())).hint(test_split::REMEDY);
    }
    match splits.iter().find(|split| matches!(split, Split::File(_))) {
        Some(file) => {
            refused(format!("there is no split \"{file}\"")).hint("give one of train, val, human")
        }
        None => Ok(()),
    }
}

/// Loads the queries of all splits that pass all filters: split by split, each in the order of its
/// file. Returns at least one query.
///
/// # Errors
/// If a split or column does not exist, a query is in two splits, or no query is left.
pub fn load(splits: &[Split], filters: &[Filter], base: &Base) -> Result<Vec<LabelledQuery>> {
    let load = |split: &Split| test_split::load(split, base);
    let mut queries = of_splits(splits, load, |query| query.id)?;
    if queries.is_empty() {
        return Err(anyhow!("there are no queries in {}", joined(splits)).into());
    }
    for Filter { column, value } in filters {
        if !queries.iter().any(|query| query.metadata.contains_key(column)) {
            return no_column(column, &queries);
        }
        queries.retain(|query| query.metadata.get(column) == Some(value));
        if queries.is_empty() {
            return Err(anyhow!("no query has {column}={value}").into());
        }
    }
    Ok(queries)
}

/// Loads the queries of all splits with `load`: split by split, each in the order of its file. `id`
/// returns the id of a query.
///
/// # Errors
/// If a split cannot be loaded, or a query is in two splits.
pub(super) fn of_splits<Q>(
    splits: &[Split],
    load: impl Fn(&Split) -> Result<Vec<Q>>,
    id: impl Fn(&Q) -> i64,
) -> Result<Vec<Q>> {
    let (mut queries, mut seen) = (Vec::new(), HashSet::new());
    for split in splits {
        let loaded = load(split)?;
        if let Some(id) = loaded.iter().map(&id).find(|id| seen.contains(id)) {
            return Err(anyhow!("query {id} of {split} is also in another of these splits"))
                .hint("evaluate the splits one by one");
        }
        seen.extend(loaded.iter().map(&id));
        queries.extend(loaded);
    }
    Ok(queries)
}

/// Calls `sum_up` with the results of each group; returns its results by group. `labels[i]` is the
/// group of `results[i]`.
///
/// # Errors
/// As `sum_up`.
pub(super) fn grouped<'a, R, E>(
    results: &'a [R],
    labels: &[impl AsRef<str>],
    sum_up: impl Fn(&[&'a R]) -> Result<E>,
) -> Result<BTreeMap<String, E>> {
    let mut by_label: BTreeMap<&str, Vec<&R>> = BTreeMap::new();
    for (label, result) in labels.iter().zip(results) {
        by_label.entry(label.as_ref()).or_default().push(result);
    }
    let groups = by_label.into_iter();
    groups.map(|(label, results)| Ok((label.to_owned(), sum_up(&results)?))).collect()
}

/// Returns the names of splits, joined by commas.
pub(super) fn joined(splits: &[Split]) -> String {
    splits.iter().map(Split::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the group of each query, in order: the query's value in the column `by`. If `by` is
/// `category` and no query has this column: the category that the first bundle among `systems`
/// chooses for the query. The group of a query without such a value or category is empty.
///
/// # Errors
/// If no query has the column, and no bundle supplies categories instead.
pub(super) fn labels(
    by: &str,
    queries: &[LabelledQuery],
    systems: &[(String, Box<dyn Retriever>)],
) -> Result<Vec<String>> {
    if queries.iter().any(|query| query.metadata.contains_key(by)) {
        let label = |query: &LabelledQuery| query.metadata.get(by).cloned().unwrap_or_default();
        return Ok(queries.iter().map(label).collect());
    }
    let bundle = systems.iter().find(|(name, _)| bundle::is_named(name));
    let Some((_, bundle)) = bundle.filter(|_| by == CATEGORY) else {
        return no_column(by, queries);
    };
    // A query without a category, or whose reading fails, has an empty label.
    let label = |query: &LabelledQuery| bundle.category(&query.text).ok().flatten();
    Ok(queries.par_iter().map(|query| label(query).unwrap_or_default()).collect())
}

/// Returns the error for a column that no query has. Its hint lists the columns that queries have.
fn no_column<T>(column: &str, queries: &[LabelledQuery]) -> Result<T> {
    let known: BTreeSet<&str> =
        queries.iter().flat_map(|query| query.metadata.keys().map(String::as_str)).collect();
    let known = known.into_iter().collect::<Vec<_>>().join(", ");
    let known = if known.is_empty() { "none" } else { &known };
    Err(anyhow!("the queries have no column \"{column}\"")).hint(format!("columns: {known}"))
}
