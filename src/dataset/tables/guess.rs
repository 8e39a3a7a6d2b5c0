//! Guesses the mapping of tables from headers, samples of rows and, in a database, the schema. The
//! result is a [`Mapping`], which users may edit.
//!
//! | guess | rule |
//! | --- | --- |
//! | id | the declared key; else a column that is unique, except for a few invalid rows, and has an id-like name or is the first column |
//! | link | a declared foreign key; else a column named after a type (`brand_id`), or whose texts are ids of a type |
//! | list | a column whose cells are split by `;` or <code>&#124;</code>, or are JSON lists |
//! | name | a column `name`, `title` or `label`, or whose name ends with one of these |
//! | edges | a table with two links, without ids of its own and without texts |

mod values;

use std::{
    collections::{BTreeMap, HashSet, hash_map::DefaultHasher},
    fs,
    hash::{Hash, Hasher},
    iter,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    DatasetError,
    error::Problems,
    links,
    tables::{
        EdgesTable, End, Link, Mapping, NodesTable, Reading, TableHint,
        mapping::{JSON_LIST, relation_of, singular, without_id},
        rows::{Row, Table, is_table, items, unsupported_hint},
        sqlite::Reference,
    },
};
use agent_ground::words::snake;

/// Maximum number of rows of a table that are sampled; the id column is read to its end.
const SAMPLE_ROWS: u64 = 50_000;
/// Maximum number of tables that are mapped; further tables are ignored.
const MAX_TABLES: usize = 1_000;
/// Maximum number of files of a directory that are inspected.
const MAX_FILES: usize = 10_000;
/// Names of query files, which are not tables.
const QUERY_FILES: [&str; 2] = ["qa.csv", "human.csv"];
/// Names of columns that hold ids, in lower case with underscores.
const ID_NAMES: [&str; 14] = [
    "key",
    "sku",
    "code",
    "uuid",
    "guid",
    "isbn",
    "asin",
    "doi",
    "iri",
    "uri",
    "url",
    "slug",
    "ean",
    "identifier",
];
/// Names of id columns that say nothing about the type of the nodes.
const PLAIN_ID_NAMES: [&str; 7] = ["id", "key", "code", "uuid", "guid", "slug", "identifier"];
/// Score of an id column named after its own table, such as `author_id` in `authors.csv`.
const OWN_NAME_SCORE: u32 = 95;
/// Score of an id column with a name of [`ID_NAMES`]; from this score on, a name is sure.
const SURE_NAME_SCORE: u32 = 80;
/// Penalty on the score of an id column with missing or repeated ids.
const INVALID_ROWS_PENALTY: u32 = 15;
/// Maximum share of the rows of an id column whose ids may be missing or repeated.
const MAX_INVALID_SHARE: f64 = 0.05;
/// In an id column with a sure name: one invalid row is tolerated for each this many rows.
const ROWS_PER_INVALID: u64 = 5;
/// In an id column with a sure name: maximum number of invalid rows that are tolerated.
const MAX_INVALID_ROWS: u64 = 3;
/// Names of columns that hold the names of nodes, best first: English, then German, Spanish,
/// French, Italian and Portuguese.
const NAME_NAMES: [&str; 18] = [
    "name",
    "title",
    "label",
    "display_name",
    "full_name",
    "caption",
    "subject",
    "headline",
    "heading",
    "titel",
    "betreff",
    "bezeichnung",
    "nombre",
    "asunto",
    "nom",
    "titre",
    "nome",
    "titulo",
];
/// Names of columns that hold the relation of each edge.
const RELATION_NAMES: [&str; 5] = ["relation", "predicate", "edge_type", "rel", "relationship"];
/// Possible separators of list items within a cell.
const SEPARATORS: [&str; 3] = [";", "|", ","];
/// Number of leading [`SEPARATORS`] that split any list. The last one, the comma, also occurs
/// within texts: it splits only lists of ids and columns with few values.
const SURE_SEPARATORS: usize = 2;
/// Minimum number of rows of a table whose values may become nodes.
const MIN_VALUE_ROWS: u64 = 20;
/// Minimum number of rows per distinct value, for the values of a column to become nodes.
const ROWS_PER_VALUE: u64 = 20;
/// Maximum number of distinct values, for the values of a column to become nodes.
const MAX_VALUES: usize = 500;
/// Maximum length in bytes of a column's values, for the values to become nodes.
const MAX_VALUE_BYTES: usize = 60;
/// Words for true and false, in several languages; such words do not become nodes.
const TRUTHS: [&str; 16] = [
    "yes", "no", "true", "false", "y", "n", "t", "f", "ja", "nein", "si", "sí", "oui", "non",
    "wahr", "falsch",
];
/// Minimum share of a column's cells that contain a separator, for the column to hold lists.
const MIN_SPLIT_SHARE: f64 = 0.2;
/// Maximum mean length of the items, for a column to hold lists, bytes.
const MAX_ITEM_BYTES: f64 = 40.0;
/// Minimum share of a column's values that are ids of a table, for a link to the table: if the
/// column has the table's name, if it ends with that name, and otherwise.
const MIN_KNOWN_SHARE: [f64; 3] = [0.5, 0.7, 0.7];
/// Minimum number of distinct values of a text column that links without a matching name.
const MIN_DISTINCT: usize = 2;

/// A guessed mapping of tables, with notes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guess {
    /// The guessed mapping.
    pub mapping: Mapping,
    /// What the user should review, one sentence per note.
    pub notes: Vec<String>,
}

/// Statistics of the cells of a column.
#[derive(Default)]
struct Column {
    filled: u64,
    /// Digests of the distinct values.
    values: HashSet<u64>,
    /// Number of cells whose value occurs in an earlier cell.
    repeats: u64,
    has_texts: bool,
    has_spaces: bool,
    bytes: u64,
    /// For each of [`SEPARATORS`], the number of cells that it splits, and of all items.
    split_counts: [(u64, u64); SEPARATORS.len()],
    /// For each of [`SEPARATORS`], the length of the longest item, bytes.
    longest: [usize; SEPARATORS.len()],
    /// Whether all values are in [`TRUTHS`].
    is_truth: bool,
    is_date: bool,
    json_lists: u64,
    json_items: HashSet<u64>,
    /// For each of [`SEPARATORS`], the digests of the distinct items.
    items: [HashSet<u64>; SEPARATORS.len()],
}

/// Columns of a table, with what was found out about them.
struct TableFacts {
    table: Table,
    file: String,
    node_type: String,
    rows: u64,
    columns: Vec<(String, Column)>,
    id: Option<String>,
    key: Vec<String>,
    declared: Vec<Reference>,
    hint: Option<TableHint>,
    /// Whether the table's ids are a subset of another table's, so that no column links to it.
    borrows: bool,
}

/// Options for guessing a mapping.
#[derive(Clone, Debug, Default)]
pub struct GuessOptions<'a> {
    /// Tables of nodes that the user has described. If there are any, only their files are read.
    pub hints: &'a [TableHint],
    /// How text files are decoded and cleaned.
    pub reading: Reading,
    /// Whether the values of columns with few distinct values stay texts instead of becoming nodes.
    pub no_values: bool,
}

/// Guesses the mapping of one file, or of the tables of a directory.
///
/// # Errors
/// [`DatasetError::BadInput`] if there is no table or no row, [`DatasetError::Problems`] if no row
/// is left because of invalid lines, and errors of reading.
pub fn guess(source: &Path, options: &GuessOptions<'_>) -> Result<Guess, DatasetError> {
    let GuessOptions { hints, reading, no_values } = options;
    links::refuse_outside(source)?;
    let root = if source.is_dir() { source } else { source.parent().unwrap_or(source) };
    let files = match (*hints, source.is_dir()) {
        ([], true) => tables_in(source)?,
        ([], false) => vec![file_name(source)],
        (hints, _) => hints.iter().map(|hint| hint.file.clone()).collect(),
    };
    let mut facts = Vec::new();
    let mut problems = Problems::new(false);
    for (at, file) in files.iter().enumerate() {
        let tables = Table::all(&root.join(file), reading)?;
        if let (Some(hint), true) = (hints.get(at), tables.len() > 1) {
            let (path, n, node_type) = (root.join(file), tables.len(), &hint.node_type);
            let message = format!(
                "it has {n} tables, which cannot all be of type \"{node_type}\"; write a \
                 mapping with `agent data guess {file} > mapping.toml`, and give --mapping"
            );
            return Err(DatasetError::BadInput { path, message });
        }
        for table in tables {
            if facts.len() < MAX_TABLES {
                facts.push(TableFacts::collect(table, file, hints.get(at), &mut problems)?);
            }
        }
    }
    if facts.iter().all(|entry| entry.rows == 0) {
        // Problems may explain why there are no rows.
        problems.finish()?;
        let message = "no table has a row; write a header and a row per node".to_owned();
        return Err(DatasetError::BadInput { path: source.to_path_buf(), message });
    }
    let referenced_column: Vec<Option<String>> =
        (0..facts.len()).map(|at| referenced_column(&facts, at)).collect();
    for (entry, referenced_column) in facts.iter_mut().zip(referenced_column) {
        entry.key =
            referenced_column.map_or_else(|| std::mem::take(&mut entry.key), |column| vec![column]);
        entry.choose_id();
        entry.collect_all_ids()?;
    }
    let borrowed: Vec<bool> = (0..facts.len()).map(|at| has_borrowed_ids(&facts, at)).collect();
    facts
        .iter_mut()
        .zip(borrowed)
        .filter(|(_, borrowed)| *borrowed)
        .for_each(|(entry, _)| entry.id = None);
    let borrowing: Vec<bool> = (0..facts.len()).map(|at| borrows(&facts, at)).collect();
    facts.iter_mut().zip(borrowing).for_each(|(entry, borrows)| entry.borrows = borrows);
    let mapping = Mapping { reading: reading.clone(), ..Mapping::default() };
    let mut guess = Guess { mapping, ..Guess::default() };
    for at in 0..facts.len() {
        add_table(&facts, at, &mut guess);
    }
    if !no_values {
        values::add_values(&facts, &mut guess);
    }
    if let ([], true) = (*hints, source.is_dir()) {
        guess.notes.extend(skipped_file_notes(source)?);
    }
    Ok(guess)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Lists the files of a directory, sorted by path.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let mut files = Vec::new();
    let entries = fs::read_dir(dir).map_err(DatasetError::io("list", dir))?;
    for entry in entries.take(MAX_FILES) {
        let path = entry.map_err(DatasetError::io("list", dir))?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Returns a note with a remedy for each unsupported data file of a directory.
fn skipped_file_notes(dir: &Path) -> Result<Vec<String>, DatasetError> {
    let files = files_in(dir)?.into_iter().filter(|path| !is_table(path));
    let told = files.filter_map(|path| {
        let why = unsupported_hint(&path)?;
        Some(format!("{}: left out: {why}", file_name(&path)))
    });
    Ok(told.collect())
}

/// Lists the names of the table files of a directory, sorted.
fn tables_in(dir: &Path) -> Result<Vec<String>, DatasetError> {
    let files = files_in(dir)?;
    let tables = files.iter().filter(|path| is_table(path)).map(|path| file_name(path));
    let files: Vec<String> = tables.filter(|name| !QUERY_FILES.contains(&name.as_str())).collect();
    if files.is_empty() {
        let remedy = "no tables found; add .csv, .tsv, .jsonl or .sqlite files, or \
            nodes.jsonl and edges.tsv";
        let told: Vec<String> =
            iter::once(remedy.to_owned()).chain(skipped_file_notes(dir)?).collect();
        let (path, message) = (dir.to_path_buf(), told.join("; "));
        return Err(DatasetError::BadInput { path, message });
    }
    Ok(files)
}

fn digest(text: &str) -> u64 {
    // Equal in every run, because the keys of the hasher are fixed.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Returns the text of a cell as an id. Some programs append `.0` to integers; it is removed.
fn id_text(row: &Row, column: &str) -> Option<String> {
    let text = row.text(column)?;
    Some(match (text.parse::<f64>(), text.strip_suffix(".0")) {
        (Ok(_), Some(whole)) => whole.to_owned(),
        _ => text,
    })
}

impl Column {
    fn observe(&mut self, row: &Row, name: &str, value: &Value) {
        self.filled += 1;
        if let Value::Array(_) = value {
            self.observe_list(value, None);
            return;
        }
        let Some(text) = id_text(row, name) else { return };
        self.has_texts |= text.parse::<f64>().is_err();
        self.has_spaces |= text.contains(char::is_whitespace);
        self.bytes += text.len() as u64;
        self.repeats += u64::from(!self.values.insert(digest(&text)));
        if text.starts_with('[') && text.ends_with(']') {
            self.observe_list(value, Some(JSON_LIST));
        }
        self.is_truth &= TRUTHS.contains(&text.to_lowercase().as_str());
        let counts = SEPARATORS.iter().zip(&mut self.split_counts).zip(&mut self.items);
        for (((separator, (cells, n)), seen), longest) in counts.zip(&mut self.longest) {
            let items = items(value, Some(separator));
            *longest =
                items.iter().filter_map(Value::as_str).map(str::len).fold(*longest, usize::max);
            *cells += u64::from(items.len() > 1);
            *n += items.len() as u64;
            seen.extend(items.iter().filter_map(Value::as_str).map(digest));
        }
    }

    fn observe_list(&mut self, value: &Value, separator: Option<&str>) {
        let found = items(value, separator);
        if separator.is_some() && found.first() == Some(value) {
            return;
        }
        self.json_lists += 1;
        let texts = found.iter().map(|item| match item {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        for text in texts {
            self.has_texts |= text.parse::<f64>().is_err();
            self.json_items.insert(digest(&text));
        }
    }

    /// Returns the separator of list items in the column; `None` if cells are single values.
    fn separator(&self) -> Option<&'static str> {
        if self.filled > 0 && self.json_lists == self.filled {
            return Some(JSON_LIST);
        }
        let is_list = |(cells, items): &(u64, u64)| {
            *cells as f64 >= self.filled as f64 * MIN_SPLIT_SHARE
                && *cells > 0
                && self.bytes as f64 / *items as f64 <= MAX_ITEM_BYTES
        };
        SEPARATORS
            .iter()
            .zip(&self.split_counts)
            .take(SURE_SEPARATORS)
            .find(|(_, counts)| is_list(counts))
            .map(|(by, _)| *by)
    }

    /// Returns the separator, if cells are lists, and the digests of the values; `None` if a column
    /// of `rows` rows has too many distinct values, or other than short texts.
    fn few_values(&self, rows: u64) -> Option<(Option<&'static str>, &HashSet<u64>)> {
        let is_few = |values: &HashSet<u64>| {
            (2..=MAX_VALUES).contains(&values.len()) && values.len() as u64 * ROWS_PER_VALUE <= rows
        };
        if rows < MIN_VALUE_ROWS
            || !self.has_texts
            || self.is_truth
            || self.is_date
            || self.json_lists > 0
        {
            return None;
        }
        let lists =
            SEPARATORS.iter().zip(&self.split_counts).zip(self.items.iter().zip(&self.longest));
        let mut lists = lists.filter(|((separator, (cells, _)), (items, longest))| {
            let is_list = self.separator() == Some(separator)
                || *cells as f64 >= self.filled as f64 * MIN_SPLIT_SHARE;
            is_list && *cells > 0 && **longest <= MAX_VALUE_BYTES && is_few(items)
        });
        if let Some(((separator, _), (items, _))) = lists.next() {
            return Some((Some(separator), items));
        }
        // Cells that are not split are their own single item.
        let longest = self.longest.iter().max().copied().unwrap_or_default();
        let is_whole = self.separator().is_none() && longest <= MAX_VALUE_BYTES;
        (is_whole && is_few(&self.values)).then_some((None, &self.values))
    }

    /// Whether the column's cells are single words, and not all of them numbers.
    fn looks_like_ids(&self) -> bool {
        self.has_texts && !self.has_spaces
    }

    /// Whether the column's cells are texts: mostly distinct, and either long or, by the column's
    /// `name`, names.
    fn is_text(&self, name: &str) -> bool {
        let is_name = NAME_NAMES.contains(&snake(name).as_str());
        let is_long = self.bytes as f64 > self.filled as f64 * MAX_ITEM_BYTES;
        let is_single = self.has_texts && self.separator().is_none();
        is_single && (is_name || is_long) && self.repeats * 2 < self.filled
    }

    /// Returns the possible readings of the column's cells as ids, as whole cells or as lists: for
    /// each reading, the separator and the digests of the ids.
    fn id_readings(&self) -> Vec<(Option<&'static str>, &HashSet<u64>)> {
        if self.separator() == Some(JSON_LIST) {
            return vec![(Some(JSON_LIST), &self.json_items)];
        }
        let lists = SEPARATORS.iter().zip(&self.split_counts).zip(&self.items);
        let lists = lists.filter(|((_, (cells, _)), _)| *cells > 0);
        let lists = lists.map(|((separator, _), items)| (Some(*separator), items));
        iter::once((None, &self.values)).chain(lists).collect()
    }
}

impl TableFacts {
    fn collect(
        table: Table,
        file: &str,
        hint: Option<&TableHint>,
        problems: &mut Problems,
    ) -> Result<TableFacts, DatasetError> {
        let declared = table.declared()?;
        let names = table.columns()?;
        let mut columns: Vec<(String, Column)> = names
            .into_iter()
            .map(|name| (name, Column { is_truth: true, ..Column::default() }))
            .collect();
        let mut rows = 0;
        table.each(problems, &mut |_, row| {
            rows += 1;
            for (name, column) in &mut columns {
                if let Some(value) = row.cells.get(name) {
                    column.observe(&row, name, value);
                }
            }
            Ok(rows < SAMPLE_ROWS)
        })?;
        let cleaning = table.cleaning()?;
        columns.iter_mut().for_each(|(name, column)| column.is_date = cleaning.has_dates(name));
        let node_type = match hint {
            Some(hint) => hint.node_type.clone(),
            None => singular(&snake(&table.stem())),
        };
        let file = file.to_owned();
        let (key, links) = (declared.key, declared.links);
        let hint = hint.cloned();
        Ok(TableFacts {
            table,
            file,
            node_type,
            rows,
            columns,
            id: None,
            key,
            declared: links,
            hint,
            borrows: false,
        })
    }

    fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(entry, _)| entry == name).map(|(_, column)| column)
    }

    /// Whether a column has a value in each row, no value twice, and no lists.
    fn is_unique(&self, column: &Column) -> bool {
        column.filled == self.rows && column.repeats == 0 && column.separator().is_none()
    }

    /// Whether only a few rows are empty or repeated; the import reports these as problems.
    /// `is_sure`: the column has a sure id name.
    fn is_nearly_unique(&self, column: &Column, is_sure: bool) -> bool {
        let wrong = column.repeats + (self.rows - column.filled);
        let few = (self.rows / ROWS_PER_INVALID).min(MAX_INVALID_ROWS);
        let is_few =
            wrong as f64 <= self.rows as f64 * MAX_INVALID_SHARE || (is_sure && wrong <= few);
        is_few && column.separator().is_none()
    }

    /// Whether a column has a plain id name such as `id`, or is named after its own table, so that
    /// its values are not ids of another table.
    fn is_own_id_name(&self, name: &str) -> bool {
        let own_names = [&self.node_type, &singular(&snake(&self.table.stem()))];
        PLAIN_ID_NAMES.contains(&snake(name).as_str())
            || without_id(name).is_some_and(|stem| own_names.contains(&&stem))
    }

    fn choose_id(&mut self) {
        if let Some(id) = self.hint.as_ref().and_then(|hint| hint.id.clone()) {
            self.id = Some(id);
            return;
        }
        if let [key] = self.key.as_slice() {
            self.id = Some(key.clone());
            return;
        }
        if self.key.len() > 1 {
            return;
        }
        let score = |(at, (name, column)): (usize, &(String, Column))| {
            let snake = snake(name);
            let score: u32 = match snake.as_str() {
                "id" => 100,
                known if ID_NAMES.contains(&known) => SURE_NAME_SCORE,
                _ if self.is_own_id_name(name) => OWN_NAME_SCORE,
                other if has_id_suffix(other) => 70,
                _ if name_suggests_ids(name) => 60,
                _ if at == 0 => 30,
                _ => return None,
            };
            if self.is_unique(column) {
                return Some((score, true, std::cmp::Reverse(at)));
            }
            // With invalid rows, a column has ids if its name is sure, or if it is the first column
            // and looks like ids.
            let is_sure = score >= SURE_NAME_SCORE;
            let looks_so = || at == 0 && (name_suggests_ids(name) || column.looks_like_ids());
            let is_id = self.is_nearly_unique(column, is_sure) && (is_sure || looks_so());
            is_id.then_some((
                score.saturating_sub(INVALID_ROWS_PENALTY),
                false,
                std::cmp::Reverse(at),
            ))
        };
        let best = self.columns.iter().enumerate().filter_map(|column| {
            let name = &column.1.0;
            Some((score(column)?, name))
        });
        self.id = best.max_by_key(|(score, _)| *score).map(|(_, name)| name.clone());
    }

    /// Collects the ids of all rows, not only of the sample, because links may refer to any row.
    fn collect_all_ids(&mut self) -> Result<(), DatasetError> {
        let Some(id) = self.id.clone().filter(|_| self.rows == SAMPLE_ROWS) else { return Ok(()) };
        let mut values = HashSet::new();
        // The import reports invalid rows.
        self.table.each(&mut Problems::new(true), &mut |_, row| {
            values.extend(id_text(&row, &id).map(|text| digest(&text)));
            Ok(true)
        })?;
        let known = self.columns.iter_mut().find(|(name, _)| *name == id);
        if let Some((_, column)) = known {
            column.values = values;
        }
        Ok(())
    }

    /// Whether a foreign key that refers to this table refers to its id column.
    fn has_ids_referenced_by(&self, reference: &Reference) -> bool {
        let is_id = |to: &String| self.id.as_ref().is_some_and(|id| id.eq_ignore_ascii_case(to));
        reference.target_column.as_ref().is_none_or(is_id)
    }

    fn id_values(&self) -> Option<&HashSet<u64>> {
        Some(&self.column(self.id.as_ref()?)?.values)
    }

    fn name_column(&self, taken: &[&str]) -> Option<String> {
        if let Some(name) = self.hint.as_ref().and_then(|hint| hint.name.clone()) {
            return Some(name);
        }
        let free =
            || self.columns.iter().map(|(name, _)| name).filter(|n| !taken.contains(&n.as_str()));
        let exact = NAME_NAMES.iter().find_map(|known| free().find(|name| snake(name) == *known));
        let ends = || {
            NAME_NAMES
                .iter()
                .find_map(|known| free().find(|name| snake(name).ends_with(&format!("_{known}"))))
        };
        exact.or_else(ends).cloned()
    }
}

/// Whether the name of a column suggests that the column holds ids.
pub(super) fn name_suggests_ids(name: &str) -> bool {
    let snake = snake(name);
    snake == "id"
        || ID_NAMES.contains(&snake.as_str())
        || has_id_suffix(&snake)
        || without_id(name).is_some()
}

fn has_id_suffix(snake: &str) -> bool {
    ID_NAMES.iter().any(|id| snake.ends_with(&format!("_{id}")))
}

/// Whether the guessed ids of a table are not unique and are ids of another table, so that the
/// table has no ids of its own.
fn has_borrowed_ids(facts: &[TableFacts], at: usize) -> bool {
    let Some(current) = facts.get(at) else { return false };
    let Some((id, column)) = current.id.as_ref().and_then(|id| Some((id, current.column(id)?)))
    else {
        return false;
    };
    let is_said =
        current.hint.as_ref().is_some_and(|hint| hint.id.is_some()) || !current.key.is_empty();
    !is_said && !current.is_unique(column) && links(facts, at).iter().any(|link| link.column == *id)
}

/// Whether the ids of a table are only a part of another table's ids, and the id column is named
/// after that table or like that table's id column.
fn borrows(facts: &[TableFacts], at: usize) -> bool {
    let Some(current) = facts.get(at) else { return false };
    let (Some(id), Some(values), None) = (&current.id, current.id_values(), &current.hint) else {
        return false;
    };
    let name = snake(id);
    let stem = without_id(id).map(|stem| singular(&stem));
    facts.iter().enumerate().any(|(other, entry)| {
        let (Some(other_id), Some(known)) = (&entry.id, entry.id_values()) else { return false };
        let is_named = (snake(other_id) == name && !PLAIN_ID_NAMES.contains(&name.as_str()))
            || stem.as_ref().is_some_and(|stem| *stem == entry.node_type);
        other != at
            && is_named
            && current.node_type != stem.clone().unwrap_or_default()
            && values.len() < known.len()
            && values.iter().all(|value| known.contains(value))
    })
}

/// Returns the column of a table to which all foreign keys refer by name, if its values are unique;
/// the column then holds the ids of the nodes.
fn referenced_column(facts: &[TableFacts], at: usize) -> Option<String> {
    let current = facts.get(at)?;
    let references = facts.iter().filter(|entry| entry.table.path() == current.table.path());
    let references =
        references.flat_map(|entry| &entry.declared).filter(|entry| entry.targets(&current.table));
    let mut columns = references.map(|entry| entry.target_column.as_ref());
    let first = columns.next()??;
    let column = current.columns.iter().find(|(name, _)| name.eq_ignore_ascii_case(first))?;
    let is_same = columns.all(|other| other.is_some_and(|to| to.eq_ignore_ascii_case(first)));
    (is_same && current.is_unique(&column.1)).then(|| column.0.clone())
}

/// A column that holds ids of nodes of a table.
struct LinkColumn {
    column: String,
    /// Index of the linked table.
    other: usize,
    /// Separator of the ids, if a cell may hold several ids.
    separator: Option<&'static str>,
}

/// Finds the columns of a table that hold ids of another table, or of the same table.
fn links(facts: &[TableFacts], at: usize) -> Vec<LinkColumn> {
    let Some(current) = facts.get(at) else { return Vec::new() };
    let mut links = Vec::new();
    for (name, column) in &current.columns {
        let mut declared =
            current.declared.iter().filter(|entry| entry.columns.contains(name)).peekable();
        let is_declared = declared.peek().is_some();
        // Only a foreign key of one column can link, because a node has one id.
        let declared = declared.find(|reference| reference.columns.len() == 1);
        if is_declared && declared.is_none() {
            continue;
        }
        let declared = declared.and_then(|reference| {
            let is_other = |entry: &TableFacts| {
                entry.table.path() == current.table.path() && reference.targets(&entry.table)
            };
            facts.iter().position(is_other).map(|other| (other, reference))
        });
        if let Some((other, reference)) = declared {
            if facts.get(other).is_some_and(|entry| entry.has_ids_referenced_by(reference)) {
                links.push(LinkColumn { column: name.clone(), other, separator: None });
            }
            continue;
        }
        let others = facts.iter().enumerate().filter_map(|(other, entry)| {
            let (score, separator) = likelihood((current, at), (name, column), (entry, other))?;
            Some((score, other, separator))
        });
        let best = others.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(&a.1)));
        links.extend(best.map(|(_, other, separator)| LinkColumn {
            column: name.clone(),
            other,
            separator,
        }));
    }
    links
}

/// Returns the score of a link from a column to a table, and the separator of the ids; `None` if
/// the column does not link to the table.
fn likelihood(
    (current, at): (&TableFacts, usize),
    (name, column): (&str, &Column),
    (entry, other): (&TableFacts, usize),
) -> Option<(f64, Option<&'static str>)> {
    let is_id = current.id.as_deref() == Some(name);
    if entry.borrows || (is_id && (other == at || current.is_own_id_name(name))) {
        return None;
    }
    let ids = entry.id_values()?;
    let share = |values: &HashSet<u64>| {
        let known = values.iter().filter(|value| ids.contains(value)).count();
        known as f64 / values.len().max(1) as f64
    };
    // An id column is not split.
    let id_readings = column.id_readings().into_iter().take(if is_id { 1 } else { usize::MAX });
    let id_readings =
        id_readings.map(|(separator, values)| (share(values), separator, values.len()));
    // The first wins ties, so that cells are split only if this finds more ids.
    let (share, separator, n_values) =
        id_readings.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    let stem = without_id(name).unwrap_or_else(|| snake(name));
    let stem = singular(&stem);
    let names = [entry.node_type.clone(), singular(&snake(&entry.table.stem()))];
    // Of two tables with the same ids, the table with fewer ids links to the other.
    let is_lesser = !is_id || column.values.len() < ids.len();
    let same_id = is_lesser && entry.id.as_ref().is_some_and(|id| id == name && snake(id) != "id");
    let is_named = names.contains(&stem) || same_id;
    let ends = names.iter().any(|entry| stem.ends_with(&format!("_{entry}")));
    let [named, ending, bare] = MIN_KNOWN_SHARE;
    let refers = without_id(name).is_some();
    let is_text = column.has_texts && n_values >= MIN_DISTINCT;
    let bonus = match () {
        () if is_named && share >= named => 3.0,
        () if ends && share >= ending => 2.0,
        // Any number may be an id by chance, so numbers link only if the name suggests it.
        () if is_id && (name_suggests_ids(name) || !is_lesser) => return None,
        () if (is_text || refers) && share >= bare => 1.0,
        () => return None,
    };
    Some((bonus + share + if other == at { 0.5 } else { 0.0 }, separator))
}

/// Returns the name of a table's file; in a database, followed by the table's name.
fn table_label(table: &Table) -> String {
    file_name(&table.place())
}

/// Returns a note on a column that would be the id column of the table if fewer of its rows were
/// empty or repeated.
fn missing_id_note(current: &TableFacts, found: &[LinkColumn]) -> Option<String> {
    let is_known =
        |name: &str| current.is_own_id_name(name) || ID_NAMES.contains(&snake(name).as_str());
    let is_free = |name: &str| found.iter().all(|link| link.column != name);
    let mut columns = current.columns.iter().filter(|(name, _)| is_known(name) && is_free(name));
    let (name, column) =
        columns.next().filter(|_| current.id.is_none() && current.key.is_empty())?;
    let (place, wrong) =
        (table_label(&current.table), column.repeats + (current.rows - column.filled));
    let rows = current.rows;
    Some(format!(
        "{place}: {name} is empty or repeated in {wrong} of {rows} rows, so rows are numbered; \
         if it has the ids, correct these rows"
    ))
}

/// Returns a note on each foreign key of a table that does not become a relation.
fn unusable_key_notes(facts: &[TableFacts], current: &TableFacts) -> Vec<String> {
    let mut notes = Vec::new();
    for reference in current.declared.iter().filter(|reference| reference.columns.len() > 1) {
        let place = table_label(&current.table);
        let (columns, table) = (reference.columns.join(", "), &reference.table);
        notes.push(format!(
            "{place}: the key ({columns}) of {table} has several columns, so it cannot become \
             a relation; give {table} one column of ids, and {place} one with these"
        ));
    }
    for reference in current.declared.iter().filter(|reference| reference.columns.len() == 1) {
        let mut others = facts.iter().filter(|entry| entry.table.path() == current.table.path());
        let other = others.find(|entry| reference.targets(&entry.table));
        let (Some(other), Some(to)) = (
            other.filter(|entry| !entry.has_ids_referenced_by(reference)),
            &reference.target_column,
        ) else {
            continue;
        };
        let (place, column) = (table_label(&current.table), reference.columns.join(", "));
        let table = &reference.table;
        let id = other.id.as_deref().unwrap_or("the row number");
        notes.push(format!(
            "{place}: {column} holds {to} of {table}, whose id is {id}, so it cannot become a \
             relation; if {to} is unique, use it as the id of {table}"
        ));
    }
    notes
}

/// Adds a table to the guessed mapping, as a table of nodes or of edges.
fn add_table(facts: &[TableFacts], at: usize, guess: &mut Guess) {
    let Some(current) = facts.get(at) else { return };
    guess.notes.extend(unusable_key_notes(facts, current));
    let mut found = links(facts, at);
    let given = current.hint.iter().flat_map(|hint| &hint.relations);
    found.retain(|link| !given.clone().any(|given| given.column == link.column));
    let id_links =
        current.id.as_ref().is_some_and(|id| found.iter().any(|entry| entry.column == *id));
    let single: Vec<&LinkColumn> = found.iter().filter(|link| link.separator.is_none()).collect();
    let links_by = |name: &String| found.iter().any(|link| link.column == *name);
    // Edges have no fields, so a row with texts is a node, unless its key has several columns.
    let has_texts = current.key.len() < 2
        && current.columns.iter().any(|(name, column)| !links_by(name) && column.is_text(name));
    let type_of =
        |other: usize| facts.get(other).map_or_else(String::new, |entry| entry.node_type.clone());
    if let ([source, target, more @ ..], true, None) =
        (single.as_slice(), (current.id.is_none() || id_links) && !has_texts, &current.hint)
    {
        let relation_column = current.columns.iter().map(|(name, _)| name).find(|name| {
            RELATION_NAMES.contains(&snake(name).as_str())
                || (current.columns.len() == 3 && ["type", "kind"].contains(&snake(name).as_str()))
        });
        let (from, to) = (type_of(source.other), type_of(target.other));
        let table = EdgesTable {
            file: current.file.clone(),
            table: current.table.name().map(str::to_owned),
            relation: match relation_column {
                Some(_) => None,
                None => Some(edge_relation(&current.table.stem(), &from, &to)),
            },
            relation_column: relation_column.cloned(),
            source: End { column: source.column.clone(), node_type: from },
            target: End { column: target.column.clone(), node_type: to },
            line: 0,
        };
        let used = [Some(&source.column), Some(&target.column), relation_column];
        let left = current.columns.iter().map(|(name, _)| name);
        let left: Vec<&str> =
            left.filter(|name| !used.contains(&Some(*name))).map(String::as_str).collect();
        let place = table_label(&current.table);
        if !left.is_empty() {
            guess
                .notes
                .push(format!("{place}: edges have no fields: {} left out", left.join(", ")));
        }
        if !more.is_empty() {
            let more: Vec<&str> = more.iter().map(|link| link.column.as_str()).collect();
            guess
                .notes
                .push(format!("{place}: {} link too, but an edge has two ends", more.join(", ")));
        }
        guess.mapping.edges.push(table);
        return;
    }
    guess.notes.extend(missing_id_note(current, &found));
    let relations = found.iter().map(|link| Link {
        column: link.column.clone(),
        relation: relation_of(&link.column),
        to: type_of(link.other),
    });
    let mut relations: Vec<Link> = relations.collect();
    relations.extend(given.cloned());
    let mut taken: Vec<&str> = relations.iter().map(|link| link.column.as_str()).collect();
    taken.extend(current.id.as_deref());
    let name = current.name_column(&taken);
    taken.extend(name.as_deref());
    let fields = current.columns.iter().map(|(name, _)| name.clone());
    let fields = fields.filter(|name| !taken.contains(&name.as_str())).collect();
    let lists = current.columns.iter().filter_map(|(name, column)| {
        let separator = match found.iter().find(|link| link.column == *name) {
            Some(link) => link.separator,
            None if current.id.as_ref() == Some(name) => None,
            None => column.separator(),
        };
        Some((name.clone(), separator?.to_owned()))
    });
    guess.mapping.nodes.push(NodesTable {
        file: current.file.clone(),
        table: current.table.name().map(str::to_owned),
        node_type: current.node_type.clone(),
        id: current.id.clone(),
        fields: Some(fields),
        lists: lists.collect::<BTreeMap<String, String>>(),
        relations,
        values: BTreeMap::new(),
        name,
        line: 0,
    });
}

/// Returns the relation name of a table of edges: `has_category` for `product_categories` between
/// products and categories, but `also_bought` unchanged.
fn edge_relation(stem: &str, from: &str, to: &str) -> String {
    let name = snake(stem);
    let is_pair = |a: &str, b: &str| {
        let rest = name.strip_prefix(a).or_else(|| name.strip_prefix(&format!("{a}s")));
        rest.is_some_and(|rest| singular(rest.trim_start_matches('_')) == b)
    };
    if is_pair(from, to) || is_pair(to, from) { format!("has_{to}") } else { name }
}
