//! Labelled queries of splits: which are loaded, which are kept, and into which groups they fall.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    str::FromStr,
};

use anyhow::anyhow;
use rayon::prelude::*;
use serde::{Deserialize, Deserializer};

use crate::{App, AppError, Explain, Result, test_split};
use agent_dataset::{Base, DatasetError, LabelledQuery, Split, load_split};
use agent_retrieve::Retriever;
use agent_systems::bundle;

/// The grouping that a bundle knows.
const CATEGORY: &str = "category";

/// Keeps queries with a value in a column; as text `COLUMN=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Filter {
    column: String,
    value: String,
}

impl FromStr for Filter {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Filter, Self::Err> {
        let (column, value) = text.split_once('=').ok_or("use COLUMN=VALUE")?;
        Ok(Filter { column: column.to_owned(), value: value.to_owned() })
    }
}

impl TryFrom<String> for Filter {
    type Error = &'static str;

    fn try_from(text: String) -> std::result::Result<Filter, Self::Error> {
        text.parse()
    }
}

/// Splits by their names, or files.
pub(super) fn splits<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Vec<Split>, D::Error> {
    let names = Vec::<String>::deserialize(from)?;
    names.iter().map(|name| name.parse().map_err(|never| match never {})).collect()
}

/// Refuses what a request over a network must not open: files, and the test split.
///
/// # Errors
/// That one of the splits is either.
pub fn check_splits(splits: &[Split], app: &App) -> Result<()> {
    if app.network.is_none() {
        return Ok(());
    }
    if test_split::is_among(splits) {
        return Err(AppError::usage(DatasetError::TestClosed.into())).hint(test_split::REMEDY);
    }
    match splits.iter().find(|split| matches!(split, Split::File(_))) {
        Some(file) => Err(AppError::usage(anyhow!("there is no split \"{file}\"")))
            .hint("give one of train, val, human"),
        None => Ok(()),
    }
}

/// The queries of all splits that pass the filters, in order of splits and files; at least one.
///
/// # Errors
/// That a split or a column is not there, that a query is in two splits, or that none is left.
pub fn load(splits: &[Split], filters: &[Filter], base: &Base) -> Result<Vec<LabelledQuery>> {
    let load = |split: &Split| match test_split::part(split) {
        Some(part) => test_split::load(part, base),
        None => Ok(load_split(base, split)?),
    };
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

/// The queries of all splits, in order of splits and files.
///
/// # Errors
/// That a split is not there, or that a query is in two of them.
pub(super) fn of_splits<Q>(
    splits: &[Split],
    load: impl Fn(&Split) -> Result<Vec<Q>>,
    id: impl Fn(&Q) -> i64,
) -> Result<Vec<Q>> {
    let (mut queries, mut seen) = (Vec::new(), HashSet::new());
    for split in splits {
        let loaded = load(split)?;
        if let Some(id) = loaded.iter().map(&id).find(|id| seen.contains(id)) {
            return Err(anyhow!("query {id} of {split} is in another of the splits too"))
                .hint("evaluate the splits one by one");
        }
        seen.extend(loaded.iter().map(&id));
        queries.extend(loaded);
    }
    Ok(queries)
}

/// Figures of each group of results; `labels[i]` is the group of `results[i]`.
///
/// # Errors
/// Those of `sum_up`.
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

/// The names of splits, joined by commas.
pub(super) fn joined(splits: &[Split]) -> String {
    splits.iter().map(Split::to_string).collect::<Vec<_>>().join(",")
}

/// The group of each query: its value in a column, or the category that the first bundle among the
/// systems puts it in.
///
/// # Errors
/// That the queries lack the column.
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
    // A query that cannot be read is in no category.
    let label = |query: &LabelledQuery| bundle.category(&query.text).ok().flatten();
    Ok(queries.par_iter().map(|query| label(query).unwrap_or_default()).collect())
}

/// That the queries lack a column; names those they have.
fn no_column<T>(column: &str, queries: &[LabelledQuery]) -> Result<T> {
    let known: BTreeSet<&str> =
        queries.iter().flat_map(|query| query.metadata.keys().map(String::as_str)).collect();
    let known = known.into_iter().collect::<Vec<_>>().join(", ");
    let known = if known.is_empty() { "none" } else { &known };
    Err(anyhow!("the queries have no column \"{column}\"")).hint(format!("columns: {known}"))
}
