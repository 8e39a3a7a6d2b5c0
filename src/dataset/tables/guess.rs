//! Here are tables: what is likely in them? From headers, samples of rows and, in a database, the
//! schema. Must not write anything; what it finds is a [`Mapping`] that people may edit.
//!
//! | found | by |
//! | --- | --- |
//! | ids | the declared key; else a column without repeats, but for a few wrong rows, whose name says so, or the first one |
//! | links | declared; else a column whose name is a type's (`brand_id`), or whose texts are ids of a type |
//! | lists | cells parted by `;` or <code>&#124;</code>, or JSON lists |
//! | names | a column `name`, `title`, `label`, or one that ends so |
//! | edges | a table that links twice, has no ids of its own and no texts |

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
    tables::{
        EdgesTable, End, Link, Mapping, NodesTable, TableHint,
        mapping::{JSON_LIST, relation_of, singular, snake, without_id},
        rows::{Row, Table, is_table, items, unread},
        sqlite::Reference,
    },
};

/// Rows of a table that are looked at; of its column of ids, all.
const SAMPLE_ROWS: u64 = 50_000;
/// Tables of a directory.
const MAX_TABLES: usize = 1_000;
/// Files of a directory that are looked at.
const MAX_FILES: usize = 10_000;
/// Files that belong to questions.
const NO_TABLES: [&str; 2] = ["qa.csv", "human.csv"];
/// Names of columns of ids.
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
/// Those that say nothing of what they are ids of.
const PLAIN_ID_NAMES: [&str; 7] = ["id", "key", "code", "uuid", "guid", "slug", "identifier"];
/// The scores of a column with the name of its own table, and of one whose name says that it has
/// ids.
const OWN_NAME: u32 = 95;
const SURE_NAME: u32 = 80;
/// What rows with wrong ids take from the score.
const WRONG_ROWS: u32 = 15;
/// The share of rows whose ids may be missing or there twice; where the name is sure, also one row
/// of five, up to three.
const MAX_WRONG: f64 = 0.05;
const ROWS_PER_WRONG: u64 = 5;
const MAX_WRONG_ROWS: u64 = 3;
/// Names of columns of names, best first.
const NAME_NAMES: [&str; 6] = ["name", "title", "label", "display_name", "full_name", "caption"];
/// Names of columns of relations.
const RELATION_NAMES: [&str; 5] = ["relation", "predicate", "edge_type", "rel", "relationship"];
/// What parts the items of a cell, if enough cells are parted by it.
const SEPARATORS: [&str; 2] = [";", "|"];
/// Of cells with a separator, the share of all cells, and the longest mean item in bytes; what is
/// longer is a text.
const MIN_PARTED: f64 = 0.2;
const MAX_ITEM_BYTES: f64 = 40.0;
/// The least share of a column's values that are ids of the other table: with the other's name,
/// with its name at the end of a longer one, and without.
const MIN_KNOWN: [f64; 3] = [0.5, 0.7, 0.7];
/// Distinct values below which texts that are ids by chance are no links.
const MIN_DISTINCT: usize = 2;

/// What is likely in some tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guess {
    /// What becomes what.
    pub mapping: Mapping,
    /// What should be looked at.
    pub notes: Vec<String>,
}

/// What was seen of a column.
#[derive(Default)]
struct Column {
    filled: u64,
    /// Digests of its values, or of the items of its values.
    values: HashSet<u64>,
    /// Cells with a value that was there before.
    repeats: u64,
    has_texts: bool,
    has_spaces: bool,
    bytes: u64,
    /// Cells that each separator parts, with the items.
    parted: [(u64, u64); SEPARATORS.len()],
    json_lists: u64,
    json_items: HashSet<u64>,
    /// Digests of the items that each separator gives.
    items: [HashSet<u64>; SEPARATORS.len()],
}

/// What was seen of a table.
struct Facts {
    table: Table,
    file: String,
    node_type: String,
    rows: u64,
    columns: Vec<(String, Column)>,
    id: Option<String>,
    key: Vec<String>,
    declared: Vec<Reference>,
    hint: Option<TableHint>,
    /// Whether its ids are those of another table: then nothing links to it.
    borrows: bool,
}

/// Guesses what is in a file, or in the tables of a directory; only in those that `hints` name, if
/// there are any.
///
/// # Errors
/// That a file cannot be read, or that there is no table.
pub fn guess(source: &Path, hints: &[TableHint]) -> Result<Guess, DatasetError> {
    let root = if source.is_dir() { source } else { source.parent().unwrap_or(source) };
    let files = match (hints, source.is_dir()) {
        ([], true) => tables_in(source)?,
        ([], false) => vec![file_name(source)],
        (hints, _) => hints.iter().map(|hint| hint.file.clone()).collect(),
    };
    let mut facts = Vec::new();
    let mut problems = Problems::new(false);
    for (at, file) in files.iter().enumerate() {
        let tables = Table::all(&root.join(file))?;
        if let (Some(hint), true) = (hints.get(at), tables.len() > 1) {
            let (path, n, node_type) = (root.join(file), tables.len(), &hint.node_type);
            let message = format!(
                "it has {n} tables, which cannot all be of type \"{node_type}\"; write down what \
                 they are with `agent data guess {file} > mapping.toml`, and give --mapping"
            );
            return Err(DatasetError::BadInput { path, message });
        }
        for table in tables {
            if facts.len() < MAX_TABLES {
                facts.push(Facts::of(table, file, hints.get(at), &mut problems)?);
            }
        }
    }
    if facts.iter().all(|of| of.rows == 0) {
        // What is wrong is told, if that is why there are no rows.
        problems.finish()?;
        let message = "no table has a row; write a header and a row per node".to_owned();
        return Err(DatasetError::BadInput { path: source.to_path_buf(), message });
    }
    let referred: Vec<Option<String>> = (0..facts.len()).map(|at| referred(&facts, at)).collect();
    for (of, referred) in facts.iter_mut().zip(referred) {
        of.key = referred.map_or_else(|| std::mem::take(&mut of.key), |column| vec![column]);
        of.choose_id();
        of.see_all_ids()?;
    }
    let lent: Vec<bool> = (0..facts.len()).map(|at| is_lent(&facts, at)).collect();
    facts.iter_mut().zip(lent).filter(|(_, lent)| *lent).for_each(|(of, _)| of.id = None);
    let borrowing: Vec<bool> = (0..facts.len()).map(|at| borrows(&facts, at)).collect();
    facts.iter_mut().zip(borrowing).for_each(|(of, borrows)| of.borrows = borrows);
    let mut guess = Guess::default();
    for at in 0..facts.len() {
        enter(&facts, at, &mut guess);
    }
    if let ([], true) = (hints, source.is_dir()) {
        guess.notes.extend(passed_over(source)?);
    }
    Ok(guess)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The files of a directory, by name.
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

/// The files of a directory that hold data which are not read, each with what to do.
fn passed_over(dir: &Path) -> Result<Vec<String>, DatasetError> {
    let files = files_in(dir)?.into_iter().filter(|path| !is_table(path));
    let told = files.filter_map(|path| {
        let why = unread(&path)?;
        Some(format!("{}: left out: {why}", file_name(&path)))
    });
    Ok(told.collect())
}

/// The tables of a directory, by name.
fn tables_in(dir: &Path) -> Result<Vec<String>, DatasetError> {
    let files = files_in(dir)?;
    let tables = files.iter().filter(|path| is_table(path)).map(|path| file_name(path));
    let files: Vec<String> = tables.filter(|name| !NO_TABLES.contains(&name.as_str())).collect();
    if files.is_empty() {
        let remedy = "there is no table; add .csv, .tsv, .jsonl or .sqlite files, or \
            nodes.jsonl and edges.tsv";
        let told: Vec<String> = iter::once(remedy.to_owned()).chain(passed_over(dir)?).collect();
        let (path, message) = (dir.to_path_buf(), told.join("; "));
        return Err(DatasetError::BadInput { path, message });
    }
    Ok(files)
}

fn digest(text: &str) -> u64 {
    // The same in every run: its keys are fixed.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The text of a cell as an id; programs that fill gaps write whole numbers as `7.0`.
fn id_text(row: &Row, column: &str) -> Option<String> {
    let text = row.text(column)?;
    Some(match (text.parse::<f64>(), text.strip_suffix(".0")) {
        (Ok(_), Some(whole)) => whole.to_owned(),
        _ => text,
    })
}

impl Column {
    fn see(&mut self, row: &Row, name: &str, value: &Value) {
        self.filled += 1;
        if let Value::Array(_) = value {
            self.see_list(value, None);
            return;
        }
        let Some(text) = id_text(row, name) else { return };
        self.has_texts |= text.parse::<f64>().is_err();
        self.has_spaces |= text.contains(char::is_whitespace);
        self.bytes += text.len() as u64;
        self.repeats += u64::from(!self.values.insert(digest(&text)));
        if text.starts_with('[') && text.ends_with(']') {
            self.see_list(value, Some(JSON_LIST));
        }
        let counts = SEPARATORS.iter().zip(&mut self.parted).zip(&mut self.items);
        for ((separator, (cells, n)), seen) in counts {
            let items = items(value, Some(separator));
            *cells += u64::from(items.len() > 1);
            *n += items.len() as u64;
            seen.extend(items.iter().filter_map(Value::as_str).map(digest));
        }
    }

    fn see_list(&mut self, value: &Value, separator: Option<&str>) {
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

    /// What parts the items of its cells; none if they are single values.
    fn separator(&self) -> Option<&'static str> {
        if self.filled > 0 && self.json_lists == self.filled {
            return Some(JSON_LIST);
        }
        let is_parted = |(cells, items): &(u64, u64)| {
            *cells as f64 >= self.filled as f64 * MIN_PARTED
                && *cells > 0
                && self.bytes as f64 / *items as f64 <= MAX_ITEM_BYTES
        };
        SEPARATORS.iter().zip(&self.parted).find(|(_, counts)| is_parted(counts)).map(|(by, _)| *by)
    }

    /// Whether its cells are single words that are no numbers.
    fn looks_as_ids(&self) -> bool {
        self.has_texts && !self.has_spaces
    }

    /// Whether its cells are texts of their own: most are there once, and they are long or names.
    fn is_text(&self, name: &str) -> bool {
        let is_name = NAME_NAMES.contains(&snake(name).as_str());
        let is_long = self.bytes as f64 > self.filled as f64 * MAX_ITEM_BYTES;
        let is_single = self.has_texts && self.separator().is_none();
        is_single && (is_name || is_long) && self.repeats * 2 < self.filled
    }

    /// How its cells may be read as ids: whole, or as lists, each way with the digests of the ids.
    fn readings(&self) -> Vec<(Option<&'static str>, &HashSet<u64>)> {
        if self.separator() == Some(JSON_LIST) {
            return vec![(Some(JSON_LIST), &self.json_items)];
        }
        let lists = SEPARATORS.iter().zip(&self.parted).zip(&self.items);
        let lists = lists.filter(|((_, (cells, _)), _)| *cells > 0);
        let lists = lists.map(|((separator, _), items)| (Some(*separator), items));
        iter::once((None, &self.values)).chain(lists).collect()
    }
}

impl Facts {
    fn of(
        table: Table,
        file: &str,
        hint: Option<&TableHint>,
        problems: &mut Problems,
    ) -> Result<Facts, DatasetError> {
        let declared = table.declared()?;
        let names = table.columns()?;
        let mut columns: Vec<(String, Column)> =
            names.into_iter().map(|name| (name, Column::default())).collect();
        let mut rows = 0;
        table.each(problems, &mut |_, row| {
            rows += 1;
            for (name, column) in &mut columns {
                if let Some(value) = row.cells.get(name) {
                    column.see(&row, name, value);
                }
            }
            Ok(rows < SAMPLE_ROWS)
        })?;
        let node_type = match hint {
            Some(hint) => hint.node_type.clone(),
            None => singular(&snake(&table.stem())),
        };
        let file = file.to_owned();
        let (key, links) = (declared.key, declared.links);
        let hint = hint.cloned();
        Ok(Facts {
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
        self.columns.iter().find(|(of, _)| of == name).map(|(_, column)| column)
    }

    /// Whether a column has a value in each row and none twice.
    fn is_unique(&self, column: &Column) -> bool {
        column.filled == self.rows && column.repeats == 0 && column.separator().is_none()
    }

    /// Whether a column is without repeats but for a few rows, which the import tells of.
    fn is_nearly_unique(&self, column: &Column, is_sure: bool) -> bool {
        let wrong = column.repeats + (self.rows - column.filled);
        let few = (self.rows / ROWS_PER_WRONG).min(MAX_WRONG_ROWS);
        let is_few = wrong as f64 <= self.rows as f64 * MAX_WRONG || (is_sure && wrong <= few);
        is_few && column.separator().is_none()
    }

    /// Whether a column is called `id` or so, or as its own table: then its values are ids of no other.
    fn is_own(&self, name: &str) -> bool {
        let own = [&self.node_type, &singular(&snake(&self.table.stem()))];
        PLAIN_ID_NAMES.contains(&snake(name).as_str())
            || without_id(name).is_some_and(|stem| own.contains(&&stem))
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
                known if ID_NAMES.contains(&known) => SURE_NAME,
                _ if self.is_own(name) => OWN_NAME,
                other if ends_as_ids(other) => 70,
                _ if says_ids(name) => 60,
                _ if at == 0 => 30,
                _ => return None,
            };
            if self.is_unique(column) {
                return Some((score, true, std::cmp::Reverse(at)));
            }
            // With wrong rows a column has ids if its name says so, or if it stands first and looks
            // so.
            let is_sure = score >= SURE_NAME;
            let looks_so = || at == 0 && (says_ids(name) || column.looks_as_ids());
            let is_id = self.is_nearly_unique(column, is_sure) && (is_sure || looks_so());
            is_id.then_some((score.saturating_sub(WRONG_ROWS), false, std::cmp::Reverse(at)))
        };
        let best = self.columns.iter().enumerate().filter_map(|column| {
            let name = &column.1.0;
            Some((score(column)?, name))
        });
        self.id = best.max_by_key(|(score, _)| *score).map(|(_, name)| name.clone());
    }

    /// Looks at the ids of the rows behind the sample: links may point at any row.
    fn see_all_ids(&mut self) -> Result<(), DatasetError> {
        let Some(id) = self.id.clone().filter(|_| self.rows == SAMPLE_ROWS) else { return Ok(()) };
        let mut values = HashSet::new();
        // What is wrong with rows is told by the import.
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

    /// Whether its ids are what a foreign key holds.
    fn has_ids_of(&self, reference: &Reference) -> bool {
        let is_id = |to: &String| self.id.as_ref().is_some_and(|id| id.eq_ignore_ascii_case(to));
        reference.to.as_ref().is_none_or(is_id)
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

/// Whether the name of a column says that it has ids.
fn says_ids(name: &str) -> bool {
    let snake = snake(name);
    snake == "id"
        || ID_NAMES.contains(&snake.as_str())
        || ends_as_ids(&snake)
        || without_id(name).is_some()
}

fn ends_as_ids(snake: &str) -> bool {
    ID_NAMES.iter().any(|id| snake.ends_with(&format!("_{id}")))
}

/// Whether what is taken for the ids of a table repeats and is what another table calls its rows:
/// then the table has no ids of its own.
fn is_lent(facts: &[Facts], at: usize) -> bool {
    let Some(own) = facts.get(at) else { return false };
    let Some((id, column)) = own.id.as_ref().and_then(|id| Some((id, own.column(id)?))) else {
        return false;
    };
    let is_said = own.hint.as_ref().is_some_and(|hint| hint.id.is_some()) || !own.key.is_empty();
    !is_said && !own.is_unique(column) && links(facts, at).iter().any(|link| link.column == *id)
}

/// Whether the ids of a table are those of another one that has more of them, and a column of the
/// same name, or the name that the column has.
fn borrows(facts: &[Facts], at: usize) -> bool {
    let Some(own) = facts.get(at) else { return false };
    let (Some(id), Some(values), None) = (&own.id, own.id_values(), &own.hint) else {
        return false;
    };
    let name = snake(id);
    let stem = without_id(id).map(|stem| singular(&stem));
    facts.iter().enumerate().any(|(other, of)| {
        let (Some(other_id), Some(known)) = (&of.id, of.id_values()) else { return false };
        let is_named = (snake(other_id) == name && !PLAIN_ID_NAMES.contains(&name.as_str()))
            || stem.as_ref().is_some_and(|stem| *stem == of.node_type);
        other != at
            && is_named
            && own.node_type != stem.clone().unwrap_or_default()
            && values.len() < known.len()
            && values.iter().all(|value| known.contains(value))
    })
}

/// The column of a table that all foreign keys to it hold the values of, where that is not its
/// primary key: then its nodes go by that one.
fn referred(facts: &[Facts], at: usize) -> Option<String> {
    let own = facts.get(at)?;
    let references = facts.iter().filter(|of| of.table.path() == own.table.path());
    let references = references.flat_map(|of| &of.declared).filter(|of| of.is_to(&own.table));
    let mut columns = references.map(|of| of.to.as_ref());
    let first = columns.next()??;
    let column = own.columns.iter().find(|(name, _)| name.eq_ignore_ascii_case(first))?;
    let is_same = columns.all(|other| other.is_some_and(|to| to.eq_ignore_ascii_case(first)));
    (is_same && own.is_unique(&column.1)).then(|| column.0.clone())
}

/// A column that links to another table.
struct Found {
    column: String,
    /// The place of the other table.
    other: usize,
    /// What parts its ids, if a cell has several.
    separator: Option<&'static str>,
}

/// The columns of a table that link to others.
fn links(facts: &[Facts], at: usize) -> Vec<Found> {
    let Some(own) = facts.get(at) else { return Vec::new() };
    let mut links = Vec::new();
    for (name, column) in &own.columns {
        let mut declared = own.declared.iter().filter(|of| of.columns.contains(name)).peekable();
        let is_declared = declared.peek().is_some();
        // A node has one id.
        let declared = declared.find(|reference| reference.columns.len() == 1);
        if is_declared && declared.is_none() {
            continue;
        }
        let declared = declared.and_then(|reference| {
            let is_other =
                |of: &Facts| of.table.path() == own.table.path() && reference.is_to(&of.table);
            facts.iter().position(is_other).map(|other| (other, reference))
        });
        if let Some((other, reference)) = declared {
            if facts.get(other).is_some_and(|of| of.has_ids_of(reference)) {
                links.push(Found { column: name.clone(), other, separator: None });
            }
            continue;
        }
        let others = facts.iter().enumerate().filter_map(|(other, of)| {
            let (score, separator) = likelihood((own, at), (name, column), (of, other))?;
            Some((score, other, separator))
        });
        let best = others.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(&a.1)));
        links.extend(best.map(|(_, other, separator)| Found {
            column: name.clone(),
            other,
            separator,
        }));
    }
    links
}

/// How likely a column links to another table, and what parts its ids; none if it does not.
fn likelihood(
    (own, at): (&Facts, usize),
    (name, column): (&str, &Column),
    (of, other): (&Facts, usize),
) -> Option<(f64, Option<&'static str>)> {
    let is_id = own.id.as_deref() == Some(name);
    if of.borrows || (is_id && (other == at || own.is_own(name))) {
        return None;
    }
    let ids = of.id_values()?;
    let share = |values: &HashSet<u64>| {
        let known = values.iter().filter(|value| ids.contains(value)).count();
        known as f64 / values.len().max(1) as f64
    };
    // An id is read whole.
    let readings = column.readings().into_iter().take(if is_id { 1 } else { usize::MAX });
    let readings = readings.map(|(separator, values)| (share(values), separator, values.len()));
    // Of equal ones the first, which reads cells whole.
    let (share, separator, n_values) =
        readings.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    let stem = without_id(name).unwrap_or_else(|| snake(name));
    let stem = singular(&stem);
    let names = [of.node_type.clone(), singular(&snake(&of.table.stem()))];
    // Of two tables with the same ids, the one with fewer links to the other.
    let is_lesser = !is_id || column.values.len() < ids.len();
    let same_id = is_lesser && of.id.as_ref().is_some_and(|id| id == name && snake(id) != "id");
    let is_named = names.contains(&stem) || same_id;
    let ends = names.iter().any(|of| stem.ends_with(&format!("_{of}")));
    let [named, ending, bare] = MIN_KNOWN;
    let refers = without_id(name).is_some();
    let is_text = column.has_texts && n_values >= MIN_DISTINCT;
    let bonus = match () {
        () if is_named && share >= named => 3.0,
        () if ends && share >= ending => 2.0,
        // Numbers are ids of anything; only a name that says so makes them links.
        () if is_id && (says_ids(name) || !is_lesser) => return None,
        () if (is_text || refers) && share >= bare => 1.0,
        () => return None,
    };
    Some((bonus + share + if other == at { 0.5 } else { 0.0 }, separator))
}

/// The name of a table without directories.
fn shown(table: &Table) -> String {
    file_name(&table.place())
}

/// That a column of a table whose rows are numbered would have the ids, if fewer were wrong.
fn no_ids(own: &Facts, found: &[Found]) -> Option<String> {
    let is_known = |name: &str| own.is_own(name) || ID_NAMES.contains(&snake(name).as_str());
    let is_free = |name: &str| found.iter().all(|link| link.column != name);
    let mut columns = own.columns.iter().filter(|(name, _)| is_known(name) && is_free(name));
    let (name, column) = columns.next().filter(|_| own.id.is_none() && own.key.is_empty())?;
    let (place, wrong) = (shown(&own.table), column.repeats + (own.rows - column.filled));
    let rows = own.rows;
    Some(format!(
        "{place}: {name} is empty or there twice in {wrong} of {rows} rows, so rows are numbered; \
         if it has the ids, correct these rows"
    ))
}

/// Enters a table as one of nodes or of edges.
fn enter(facts: &[Facts], at: usize, guess: &mut Guess) {
    let Some(own) = facts.get(at) else { return };
    for reference in own.declared.iter().filter(|reference| reference.columns.len() > 1) {
        let place = shown(&own.table);
        let (columns, table) = (reference.columns.join(", "), &reference.table);
        guess.notes.push(format!(
            "{place}: the key ({columns}) of {table} has several columns, which makes no relation; \
             give {table} one column of ids, and {place} one with these"
        ));
    }
    for reference in own.declared.iter().filter(|reference| reference.columns.len() == 1) {
        let mut others = facts.iter().filter(|of| of.table.path() == own.table.path());
        let other = others.find(|of| reference.is_to(&of.table));
        let (Some(other), Some(to)) = (other.filter(|of| !of.has_ids_of(reference)), &reference.to)
        else {
            continue;
        };
        let (place, column) = (shown(&own.table), reference.columns.join(", "));
        let table = &reference.table;
        let id = other.id.as_deref().unwrap_or("the row number");
        guess.notes.push(format!(
            "{place}: {column} holds {to} of {table}, whose id is {id}, which makes no relation; if \
             {to} is there once in each row, give {table} that as its id"
        ));
    }
    let mut found = links(facts, at);
    let given = own.hint.iter().flat_map(|hint| &hint.relations);
    found.retain(|link| !given.clone().any(|given| given.column == link.column));
    let id_links = own.id.as_ref().is_some_and(|id| found.iter().any(|of| of.column == *id));
    let single: Vec<&Found> = found.iter().filter(|link| link.separator.is_none()).collect();
    let links_by = |name: &String| found.iter().any(|link| link.column == *name);
    // Edges have no fields, so a row with texts is a node, unless its key says that it is none.
    let has_texts = own.key.len() < 2
        && own.columns.iter().any(|(name, column)| !links_by(name) && column.is_text(name));
    let type_of =
        |other: usize| facts.get(other).map_or_else(String::new, |of| of.node_type.clone());
    if let ([source, target, more @ ..], true, None) =
        (single.as_slice(), (own.id.is_none() || id_links) && !has_texts, &own.hint)
    {
        let relation_column = own.columns.iter().map(|(name, _)| name).find(|name| {
            RELATION_NAMES.contains(&snake(name).as_str())
                || (own.columns.len() == 3 && ["type", "kind"].contains(&snake(name).as_str()))
        });
        let (from, to) = (type_of(source.other), type_of(target.other));
        let table = EdgesTable {
            file: own.file.clone(),
            table: own.table.name().map(str::to_owned),
            relation: match relation_column {
                Some(_) => None,
                None => Some(edge_relation(&own.table.stem(), &from, &to)),
            },
            relation_column: relation_column.cloned(),
            source: End { column: source.column.clone(), node_type: from },
            target: End { column: target.column.clone(), node_type: to },
            line: 0,
        };
        let used = [Some(&source.column), Some(&target.column), relation_column];
        let left = own.columns.iter().map(|(name, _)| name);
        let left: Vec<&str> =
            left.filter(|name| !used.contains(&Some(*name))).map(String::as_str).collect();
        let place = shown(&own.table);
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
    guess.notes.extend(no_ids(own, &found));
    let relations = found.iter().map(|link| Link {
        column: link.column.clone(),
        relation: relation_of(&link.column),
        to: type_of(link.other),
    });
    let mut relations: Vec<Link> = relations.collect();
    relations.extend(given.cloned());
    let mut taken: Vec<&str> = relations.iter().map(|link| link.column.as_str()).collect();
    taken.extend(own.id.as_deref());
    let name = own.name_column(&taken);
    taken.extend(name.as_deref());
    let fields = own.columns.iter().map(|(name, _)| name.clone());
    let fields = fields.filter(|name| !taken.contains(&name.as_str())).collect();
    let lists = own.columns.iter().filter_map(|(name, column)| {
        let separator = match found.iter().find(|link| link.column == *name) {
            Some(link) => link.separator,
            None if own.id.as_ref() == Some(name) => None,
            None => column.separator(),
        };
        Some((name.clone(), separator?.to_owned()))
    });
    guess.mapping.nodes.push(NodesTable {
        file: own.file.clone(),
        table: own.table.name().map(str::to_owned),
        node_type: own.node_type.clone(),
        id: own.id.clone(),
        fields: Some(fields),
        lists: lists.collect::<BTreeMap<String, String>>(),
        relations,
        name,
        line: 0,
    });
}

/// What a table of edges calls its relation: `product_categories` of products and categories is
/// `has_category`, `also_bought` is itself.
fn edge_relation(stem: &str, from: &str, to: &str) -> String {
    let name = snake(stem);
    let is_pair = |a: &str, b: &str| {
        let rest = name.strip_prefix(a).or_else(|| name.strip_prefix(&format!("{a}s")));
        rest.is_some_and(|rest| singular(rest.trim_start_matches('_')) == b)
    };
    if is_pair(from, to) || is_pair(to, from) { format!("has_{to}") } else { name }
}
