//! Guesses the mapping of tables from headers, samples of rows and, in a database, the schema. The
//! result is a [`Mapping`], which users may edit.
//!
//! | guess | rule |
//! | --- | --- |
//! | id | the declared key; else a nearly unique column that has an id-like name or comes first |
//! | link | a declared foreign key; else a column with a type's name (`brand_id`) or with its ids |
//! | list | a column whose cells are split by `;` or <code>&#124;</code>, or are JSON lists |
//! | name | columns with known names, named after the table or with short texts; see `names` |
//! | edges | a table with two links, without ids of its own and without texts |
//!
//! If several types fit, a column links to the type with the fewest other ids.

mod column;
mod names;
mod values;

use std::{
    collections::{BTreeMap, HashSet},
    fs, iter,
    path::{Path, PathBuf},
    ptr,
};

use self::column::{Column, digest, id_text};
use crate::{
    DatasetError, Result,
    error::Problems,
    links,
    tables::{
        EdgesTable, End, Link, Mapping, NodesTable, Reading, TableHint,
        mapping::{relation_of, without_id, without_number},
        rows::{Table, file_name, is_table, unsupported_hint},
        sqlite::Reference,
    },
};
use agent_ground::words::{
    has_word, is_of_people, is_person, listed, singular, snake, spelled_out,
};

/// Maximum number of rows of a table that are sampled; the id column is read to its end.
const SAMPLE_ROWS: u64 = 50_000;
/// Maximum number of tables that are mapped; further tables are ignored.
const MAX_TABLES: usize = 1_000;
/// Maximum number of files of a directory that are inspected.
const MAX_FILES: usize = 10_000;
/// Maximum number of views of a database that a note names.
const MAX_VIEWS: usize = 5;
/// Names of query files, which are not tables.
const QUERY_FILES: [&str; 2] = ["qa.csv", "human.csv"];
/// Names of columns that hold ids, in lower case with underscores, separated by spaces.
const ID_NAMES: &str = "key sku code uuid guid isbn asin doi iri uri url slug ean identifier";
/// Names of id columns that do not indicate the type of the nodes.
const PLAIN_ID_NAMES: [&str; 7] = ["id", "key", "code", "uuid", "guid", "slug", "identifier"];
/// Score of an id column named after its own table, such as `author_id` in `authors.csv`.
const OWN_NAME_SCORE: u32 = 95;
/// Score of an id column with a name in [`ID_NAMES`]; a name with at least this score is sure.
const SURE_NAME_SCORE: u32 = 80;
/// Added to the score of the first column if its name only suggests ids.
const FIRST_BONUS: u32 = 5;
/// Penalty on the score of an id column with missing or repeated ids.
const INVALID_ROWS_PENALTY: u32 = 15;
/// Maximum share of an id column's rows in which the id is missing or repeated.
const MAX_INVALID_SHARE: f64 = 0.05;
/// Number of rows per tolerated invalid row in an id column with a sure name.
const ROWS_PER_INVALID: u64 = 5;
/// Maximum number of tolerated invalid rows in an id column with a sure name.
const MAX_INVALID_ROWS: u64 = 3;
/// Words in names of columns that link a row to another row of the same table, separated by spaces.
const OWN_LINKS: &str = "\
    parent manager supervisor boss superior lead chief predecessor successor previous next mother \
    father sire dam partner spouse mentor original reply_to replaced_by superseded_by part_of";
/// Names of columns that hold the relation of each edge.
const RELATION_NAMES: [&str; 5] = ["relation", "predicate", "edge_type", "rel", "relationship"];
/// Minimum share of a column's values that must be ids of a table for the column to link to the
/// table: for columns with the table's name, for columns whose name ends with it, and for other
/// columns.
const MIN_KNOWN_SHARE: [f64; 3] = [0.5, 0.7, 0.7];
/// Minimum number of distinct values of a text column that links without a matching name.
const MIN_DISTINCT: usize = 2;
/// Minimum number of distinct values of a column of numbers that links without a matching name.
const MIN_NUMBERS: usize = 5;
/// Minimum share of the values of a column of numbers that must be ids, for a link without a
/// matching name.
const MIN_FAR_SHARE: f64 = 0.9;
/// For a link from a column of numbers without a matching name, the linked table's least id must be
/// above this multiple of the number of its ids.
const FAR_FROM_ZERO: f64 = 5.0;
/// Added to the score of a link to the same table from a column whose name ends with a word in
/// [`OWN_LINKS`].
const OWN_BONUS: f64 = 0.1;
/// Added to the score of a link from a column whose name is a noun for people to a table of people.
const PEOPLE_BONUS: f64 = 0.1;
/// Added to the score of a link, multiplied by the share of the table's ids that the column uses.
const USED_BONUS: f64 = 0.05;
/// Minimum length in bytes of a column name's last word that begins a table name's last word, such
/// as `bill_to_cont` for `contacts`.
const MIN_NOUN: usize = 4;
/// Minimum length in bytes of the noun in the name of an id column, such as `dept_key`.
const MIN_ID_NOUN: usize = 3;
/// Minimum score of a link without a matching name to a table that has all ids of the column.
const ALL_KNOWN: f64 = 2.0;
/// Minimum score of a link whose name suggests the table.
const SUGGESTED: f64 = 2.5;

/// A guessed mapping of tables, with notes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guess {
    /// The guessed mapping.
    pub mapping: Mapping,
    /// Notes for the user to review, one sentence each.
    pub notes: Vec<String>,
}

/// Columns of a table, with the facts found about them.
struct TableFacts {
    table: Table,
    file: String,
    node_type: String,
    /// Number of different rows that were read.
    rows: u64,
    /// Whether the table may have more rows.
    is_sample: bool,
    columns: Vec<(String, Column)>,
    id: Option<String>,
    key: Vec<String>,
    declared: Vec<Reference>,
    hint: Option<TableHint>,
    /// Whether the table's ids are a subset of another table's ids; no column is then linked to
    /// this table.
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
pub fn guess(source: &Path, options: &GuessOptions<'_>) -> Result<Guess> {
    let GuessOptions { hints, reading, no_values } = options;
    links::refuse_outside(source)?;
    let root = if source.is_dir() { source } else { source.parent().unwrap_or(source) };
    let files = match (*hints, source.is_dir()) {
        ([], true) => tables_in(source)?,
        ([], false) => vec![file_name(source)],
        (hints, _) => hints.iter().map(|hint| hint.file.clone()).collect(),
    };
    let mut facts = Vec::new();
    let mut views = Vec::new();
    let mut problems = Problems::new(false);
    for (at, file) in files.iter().enumerate() {
        let tables = Table::all(&root.join(file), reading)?;
        if let (Some(hint), true) = (hints.get(at), tables.len() > 1) {
            let (n, node_type) = (tables.len(), &hint.node_type);
            let message = format!(
                "it has {n} tables, which cannot all be of type \"{node_type}\"; write a \
                 mapping with `agent data guess {file} > mapping.toml`, and give --mapping"
            );
            return Err(DatasetError::bad_input(root.join(file), message));
        }
        let of_file = tables.first().map_or(Ok(Vec::new()), Table::views)?;
        views.extend((!of_file.is_empty()).then(|| views_note(file, &of_file)));
        for table in tables {
            if facts.len() < MAX_TABLES {
                facts.push(TableFacts::collect(table, file, hints.get(at), &mut problems)?);
            }
        }
    }
    if facts.iter().all(|entry| entry.rows == 0) {
        // Problems may explain why there are no rows.
        problems.finish()?;
        let message = "no table has rows; write a header, and one row per node";
        return Err(DatasetError::bad_input(source, message));
    }
    let referenced_column: Vec<Option<String>> =
        facts.iter().map(|entry| referenced_column(&facts, entry)).collect();
    for (entry, referenced_column) in facts.iter_mut().zip(referenced_column) {
        if let Some(column) = referenced_column {
            entry.key = vec![column];
        }
        entry.id = entry.guessed_id();
        entry.collect_all_ids()?;
    }
    let borrowed: Vec<bool> = facts.iter().map(|entry| has_borrowed_ids(&facts, entry)).collect();
    for (entry, _) in facts.iter_mut().zip(borrowed).filter(|(_, is_borrowed)| *is_borrowed) {
        entry.id = None;
    }
    let borrowing: Vec<bool> = facts.iter().map(|entry| borrows(&facts, entry)).collect();
    facts.iter_mut().zip(borrowing).for_each(|(entry, borrows)| entry.borrows = borrows);
    let mapping = Mapping { reading: reading.clone(), ..Mapping::default() };
    let mut guess = Guess { mapping, notes: views };
    for entry in &facts {
        add_table(&facts, entry, &mut guess);
    }
    let Mapping { nodes, edges, .. } = &mut guess.mapping;
    let is_edge = |one: &NodesTable| {
        edges.iter().any(|edge| (&edge.file, &edge.table) == (&one.file, &one.table))
    };
    nodes.sort_by_key(is_edge);
    if !no_values {
        values::add_values(&facts, &mut guess);
    }
    if let ([], true) = (*hints, source.is_dir()) {
        guess.notes.extend(skipped_file_notes(source)?);
    }
    Ok(guess)
}

/// Lists the files of a directory, sorted by path.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let paths = |entries: fs::ReadDir| entries.take(MAX_FILES).map(|entry| Ok(entry?.path()));
    let files = fs::read_dir(dir).and_then(|entries| paths(entries).collect());
    let mut files: Vec<PathBuf> = files.map_err(DatasetError::io("list", dir))?;
    files.retain(|path| path.is_file());
    files.sort_unstable();
    Ok(files)
}

/// Returns a note with a remedy for each unsupported data file of a directory.
fn skipped_file_notes(dir: &Path) -> Result<Vec<String>> {
    let files = files_in(dir)?.into_iter().filter(|path| !is_table(path));
    let told = files.filter_map(|path| {
        let why = unsupported_hint(&path)?;
        Some(format!("{}: left out: {why}", file_name(&path)))
    });
    Ok(told.collect())
}

fn views_note(file: &str, views: &[String]) -> String {
    let names = listed(views, MAX_VIEWS);
    format!("{file}: views are left out: {names}; to import one, store its rows as a table")
}

/// Lists the names of the table files of a directory, sorted.
fn tables_in(dir: &Path) -> Result<Vec<String>> {
    let files = files_in(dir)?;
    let tables = files.iter().filter(|path| is_table(path)).map(|path| file_name(path));
    let files: Vec<String> = tables.filter(|name| !QUERY_FILES.contains(&name.as_str())).collect();
    if files.is_empty() {
        let remedy = "no tables found; add .csv, .tsv, .jsonl or .sqlite files, or \
            nodes.jsonl and edges.tsv";
        let notes = skipped_file_notes(dir)?.into_iter();
        let message = iter::once(remedy.to_owned()).chain(notes).collect::<Vec<_>>().join("; ");
        return Err(DatasetError::bad_input(dir, message));
    }
    Ok(files)
}

impl TableFacts {
    fn collect(
        table: Table,
        file: &str,
        hint: Option<&TableHint>,
        problems: &mut Problems,
    ) -> Result<TableFacts> {
        let declared = table.declared()?;
        let names = table.columns()?.into_iter();
        let mut columns: Vec<(String, Column)> =
            names.map(|name| (name, Column::default())).collect();
        let (mut rows, mut seen) = (0, HashSet::new());
        table.each(problems, &mut |_, row| {
            rows += 1;
            if !seen.insert(row.digest()) {
                return Ok(rows < SAMPLE_ROWS);
            }
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
        Ok(TableFacts {
            table,
            file: file.to_owned(),
            node_type,
            rows: seen.len() as u64,
            is_sample: rows == SAMPLE_ROWS,
            columns,
            id: None,
            key: declared.key,
            declared: declared.links,
            hint: hint.cloned(),
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

    /// Whether only a few cells of a column are empty or repeated; the import reports their rows as
    /// problems. `is_sure`: the column has a sure id name.
    fn is_nearly_unique(&self, column: &Column, is_sure: bool) -> bool {
        let wrong = column.repeats + (self.rows - column.filled);
        let few = (self.rows / ROWS_PER_INVALID).min(MAX_INVALID_ROWS);
        let is_few =
            wrong as f64 <= self.rows as f64 * MAX_INVALID_SHARE || (is_sure && wrong <= few);
        is_few && column.separator().is_none()
    }

    /// Whether a column has a plain id name such as `id`, or is named after its own table. The
    /// values of such a column are not ids of another table.
    fn is_own_id_name(&self, name: &str) -> bool {
        let long = spelled_out(name);
        let stem = without_id(&long).or_else(|| without_number(&long));
        PLAIN_ID_NAMES.contains(&snake(name).as_str())
            || stem.is_some_and(|stem| self.names().contains(&stem))
    }

    /// Returns the names by which columns of other tables may refer to the rows: the names of the
    /// type and of the table, with abbreviations spelled out.
    fn names(&self) -> [String; 2] {
        let table = singular(&snake(&self.table.stem()));
        [spelled_out(&self.node_type), spelled_out(&table)]
    }

    /// Returns the name of the column with the ids: the given or declared column, otherwise a
    /// guess; `None` if there is no such column.
    fn guessed_id(&self) -> Option<String> {
        let given = self.hint.as_ref().and_then(|hint| hint.id.as_ref());
        match (given, self.key.as_slice()) {
            (Some(id), _) | (None, [id]) => return Some(id.clone()),
            (None, []) => {}
            (None, _) => return None,
        }
        let score = |(at, (name, column)): (usize, &(String, Column))| {
            let snake = snake(name);
            // The first column of `teams.csv` is `tm_code`, another one `lead_code`.
            let first = if at == 0 { FIRST_BONUS } else { 0 };
            let score: u32 = match snake.as_str() {
                "id" => 100,
                known if has_word(ID_NAMES, known) => SURE_NAME_SCORE,
                _ if self.is_own_id_name(name) => OWN_NAME_SCORE,
                other if has_id_suffix(&spelled_out(other)) => 70 + first,
                _ if name_suggests_ids(name) => 60 + first,
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
            let score = score.saturating_sub(INVALID_ROWS_PENALTY);
            is_id.then_some((score, false, std::cmp::Reverse(at)))
        };
        let best = self.columns.iter().enumerate().filter_map(|column| {
            let name = &column.1.0;
            Some((score(column)?, name))
        });
        best.max_by_key(|(score, _)| *score).map(|(_, name)| name.clone())
    }

    /// Collects the ids of all rows, not only of the sample, because links may refer to any row.
    fn collect_all_ids(&mut self) -> Result<()> {
        let Some(id) = self.id.clone().filter(|_| self.is_sample) else { return Ok(()) };
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

    /// Whether the rows are people, judged by the name of the type and by columns for their names.
    fn are_people(&self) -> bool {
        is_of_people(&self.node_type) || self.name_columns(&[]).len() > 1
    }
}

/// Whether the name of a column suggests that the column holds ids.
pub(super) fn name_suggests_ids(name: &str) -> bool {
    let snake = snake(name);
    snake == "id"
        || has_word(ID_NAMES, &snake)
        || has_id_suffix(&snake)
        || without_id(name).is_some()
}

fn has_id_suffix(snake: &str) -> bool {
    ID_NAMES.split(' ').any(|id| snake.ends_with(&format!("_{id}")))
}

/// Whether the guessed ids of a table are not unique and are ids of another table, so that the
/// table has no ids of its own.
fn has_borrowed_ids(facts: &[TableFacts], current: &TableFacts) -> bool {
    let Some((id, column)) = current.id.as_ref().and_then(|id| Some((id, current.column(id)?)))
    else {
        return false;
    };
    let is_said =
        current.hint.as_ref().is_some_and(|hint| hint.id.is_some()) || !current.key.is_empty();
    let is_link = || links(facts, current).iter().any(|link| link.column == *id);
    !is_said && !current.is_unique(column) && is_link()
}

/// Whether the ids of a table are a proper subset of another table's ids, and the id column has the
/// name of that table or of its id column.
fn borrows(facts: &[TableFacts], current: &TableFacts) -> bool {
    let (Some(id), Some(values), None) = (&current.id, current.id_values(), &current.hint) else {
        return false;
    };
    let name = snake(id);
    let stem = without_id(id).map(|stem| singular(&stem));
    facts.iter().any(|entry| {
        let (Some(other_id), Some(known)) = (&entry.id, entry.id_values()) else { return false };
        let is_named = (snake(other_id) == name && !PLAIN_ID_NAMES.contains(&name.as_str()))
            || stem.as_ref().is_some_and(|stem| *stem == entry.node_type);
        !ptr::eq(entry, current)
            && is_named
            && current.node_type != stem.clone().unwrap_or_default()
            && values.len() < known.len()
            && values.iter().all(|value| known.contains(value))
    })
}

/// Returns the column of a table to which all foreign keys refer by name, if its values are unique;
/// the column then holds the ids of the nodes.
fn referenced_column(facts: &[TableFacts], current: &TableFacts) -> Option<String> {
    let references = facts.iter().filter(|entry| entry.table.path == current.table.path);
    let references =
        references.flat_map(|entry| &entry.declared).filter(|entry| entry.targets(&current.table));
    let mut columns = references.map(|entry| entry.target_column.as_ref());
    let first = columns.next()??;
    let column = current.columns.iter().find(|(name, _)| name.eq_ignore_ascii_case(first))?;
    let is_same = columns.all(|other| other.is_some_and(|to| to.eq_ignore_ascii_case(first)));
    (is_same && current.is_unique(&column.1)).then(|| column.0.clone())
}

/// A column that holds ids of nodes of a table.
struct LinkColumn<'a> {
    column: String,
    /// The linked table.
    other: &'a TableFacts,
    /// Separator of the ids, if a cell may hold several ids.
    separator: Option<&'static str>,
    /// Types of the other tables that have all ids of the column, if the link was found only by its
    /// numbers.
    rivals: Vec<&'a str>,
}

/// Finds the columns of a table that hold ids of another table, or of the same table.
fn links<'a>(facts: &'a [TableFacts], current: &TableFacts) -> Vec<LinkColumn<'a>> {
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
        let column_name = name.clone();
        let other = declared.and_then(|reference| reference.target_in(facts, current));
        if let Some((other, reference)) = other.zip(declared) {
            if other.has_ids_referenced_by(reference) {
                let (column, separator, rivals) = (column_name, None, Vec::new());
                links.push(LinkColumn { column, other, separator, rivals });
            }
            continue;
        }
        let others = facts.iter().filter_map(|other| {
            let (score, separator) = likelihood(current, (name, column), other)?;
            Some((score, other, separator))
        });
        let others: Vec<(f64, &TableFacts, Option<&'static str>)> = others.collect();
        // Ties go to the first table.
        let best = others.iter().reduce(|best, next| if next.0 > best.0 { next } else { best });
        let Some(&(score, other, separator)) = best else { continue };
        let is_own = ptr::eq(current, other);
        let is_bare = !is_own && !column.has_texts && (ALL_KNOWN..SUGGESTED).contains(&score);
        let rivals = others.iter().filter(|one| is_bare && one.0 >= ALL_KNOWN);
        let rivals = rivals.map(|one| one.1.node_type.as_str());
        let rivals = rivals.filter(|rival| *rival != other.node_type).collect();
        links.push(LinkColumn { column: column_name, other, separator, rivals });
    }
    links
}

impl Reference {
    /// Returns the table to which the foreign key of a column of `current` refers.
    fn target_in<'a>(
        &self,
        facts: &'a [TableFacts],
        current: &TableFacts,
    ) -> Option<&'a TableFacts> {
        let mut others = facts.iter().filter(|entry| entry.table.path == current.table.path);
        others.find(|entry| self.targets(&entry.table))
    }
}

/// Returns the score of a link from a column to a table, and the separator of the ids; `None` if
/// the column does not link to the table.
fn likelihood(
    current: &TableFacts,
    (name, column): (&str, &Column),
    entry: &TableFacts,
) -> Option<(f64, Option<&'static str>)> {
    let is_id = current.id.as_deref() == Some(name);
    let is_own = ptr::eq(current, entry);
    if entry.borrows || (is_id && (is_own || current.is_own_id_name(name))) {
        return None;
    }
    let ids = entry.id_values()?;
    let share = |values: &HashSet<u64>| {
        let known = values.iter().filter(|value| ids.contains(value)).count();
        known as f64 / values.len().max(1) as f64
    };
    // The cells of an id column are never split.
    let id_readings = column.id_readings().into_iter().take(if is_id { 1 } else { usize::MAX });
    let id_readings =
        id_readings.map(|(separator, values)| (share(values), separator, values.len()));
    // Of equally good readings, the first wins, so that cells are split only if this finds more
    // ids.
    let (share, separator, n_values) =
        id_readings.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    let long = spelled_out(name);
    let named = without_id(&long).or_else(|| without_number(&long));
    let whole = named.clone().unwrap_or(long);
    let stem = singular(&whole);
    // `max_guests` is a number of guests, not the id of a guest.
    if named.is_none() && !column.has_texts && separator.is_none() && stem != whole {
        return None;
    }
    let names = entry.names();
    // Of two tables with the same ids, the table with fewer ids links to the other.
    let is_lesser = !is_id || column.values.len() < ids.len();
    // `mechanic_staff_no` holds ids of the table whose ids are in `staff_no`.
    let is_id_of = |id: &String| {
        let id = snake(id);
        let own = snake(name);
        !PLAIN_ID_NAMES.contains(&id.as_str())
            && (own == id || own.strip_suffix(&id).is_some_and(|rest| rest.ends_with('_')))
    };
    let same_id = is_lesser && entry.id.as_ref().is_some_and(is_id_of);
    let is_named = names.contains(&stem) || same_id;
    // `responsible_dept` of a table with the ids `dept_key`
    let of_id =
        entry.id.as_ref().and_then(|id| Some(spelled_out(id).rsplit_once('_')?.0.to_owned()));
    let of_id = of_id.filter(|noun| noun.len() >= MIN_ID_NOUN);
    let has_noun = |own: &String| stem == *own || stem.ends_with(&format!("_{own}"));
    let noun = stem.rsplit('_').next().unwrap_or(&stem);
    // `fixed_in_version` of a table of product versions, `bill_to_cont` of contacts
    let is_noun_of = |entry: &String| {
        let last = entry.rsplit('_').next().unwrap_or(entry);
        noun.len() >= MIN_NOUN && noun.len() < stem.len() && last.starts_with(noun)
    };
    let ends = names.iter().any(|entry| stem.ends_with(&format!("_{entry}")) || is_noun_of(entry))
        || of_id.as_ref().is_some_and(has_noun);
    let [named, ending, bare] = MIN_KNOWN_SHARE;
    let refers = without_id(name).is_some();
    let is_text = column.has_texts && n_values >= MIN_DISTINCT;
    let is_far = || {
        let least = entry.column(entry.id.as_deref()?)?.least?;
        Some(
            share >= MIN_FAR_SHARE
                && n_values >= MIN_NUMBERS
                && least > ids.len() as f64 * FAR_FROM_ZERO,
        )
    };
    let is_far = !column.has_texts && !column.is_date && is_far() == Some(true);
    let bonus = match () {
        () if is_named && share >= named => 3.0,
        () if ends && share >= ending => 2.0,
        // Any number may be an id by chance, so a column of numbers links only if its name suggests
        // ids, or nearly all of them are ids far from zero.
        () if is_id && (name_suggests_ids(name) || !is_lesser) => return None,
        () if (is_text || refers || is_far) && share >= bare => 1.0,
        () => return None,
    };
    // Of two tables that have all ids, the table with fewer other ids is more likely.
    let used = share * n_values as f64 / ids.len().max(1) as f64;
    let is_hierarchy = has_word(OWN_LINKS, &stem) || has_word(OWN_LINKS, noun);
    let own = if is_own && is_hierarchy { OWN_BONUS } else { 0.0 };
    let people = if is_person(noun) && entry.are_people() { PEOPLE_BONUS } else { 0.0 };
    Some((bonus + share + own + people + USED_BONUS * used.min(1.0), separator))
}

/// Returns a note on a column that would be the id column of the table if fewer of its rows were
/// empty or repeated.
fn missing_id_note(current: &TableFacts, found: &[LinkColumn]) -> Option<String> {
    let is_known = |name: &str| current.is_own_id_name(name) || has_word(ID_NAMES, &snake(name));
    let is_free = |name: &str| found.iter().all(|link| link.column != name);
    let mut columns = current.columns.iter().filter(|(name, _)| is_known(name) && is_free(name));
    let (name, column) =
        columns.next().filter(|_| current.id.is_none() && current.key.is_empty())?;
    let (place, rows) = (current.table.label(), current.rows);
    let wrong = column.repeats + (rows - column.filled);
    Some(format!(
        "{place}: {name} is empty or repeated in {wrong} of {rows} rows, so rows are numbered; \
         if {name} holds the ids, correct these rows"
    ))
}

/// Returns a note on each link that was found only by numbers that may be ids of other tables too.
fn doubtful_link_notes(current: &TableFacts, found: &[LinkColumn]) -> Vec<String> {
    let doubtful = found.iter().filter(|link| !link.rivals.is_empty());
    let note = |link: &LinkColumn| {
        let (place, column, kind) = (current.table.label(), &link.column, &link.other.node_type);
        format!(
            "{place}: {column} may hold ids of {kind}, {}; {kind} was chosen; edit the mapping to \
             change this",
            link.rivals.join(", ")
        )
    };
    doubtful.map(note).collect()
}

/// Returns a note on each foreign key of a table that does not become a relation.
fn unusable_key_notes(facts: &[TableFacts], current: &TableFacts) -> Vec<String> {
    let mut notes = Vec::new();
    let place = current.table.label();
    for reference in current.declared.iter().filter(|reference| reference.columns.len() > 1) {
        let (columns, table) = (reference.columns.join(", "), &reference.table);
        notes.push(format!(
            "{place}: the key ({columns}) of {table} has several columns, so it cannot become \
             a relation; add a single id column to {table}, and a column with these ids to {place}"
        ));
    }
    for reference in current.declared.iter().filter(|reference| reference.columns.len() == 1) {
        let other = reference.target_in(facts, current);
        let other = other.filter(|entry| !entry.has_ids_referenced_by(reference));
        let (Some(other), Some(to)) = (other, &reference.target_column) else { continue };
        let (column, table) = (reference.columns.join(", "), &reference.table);
        let id = other.id.as_deref().unwrap_or("the row number");
        notes.push(format!(
            "{place}: {column} refers to {to} of {table}, whose id is {id}, so it cannot become a \
             relation; if {to} is unique, use it as the id of {table}"
        ));
    }
    notes
}

/// Adds a table to the guessed mapping, as a table of nodes or of edges.
fn add_table(facts: &[TableFacts], current: &TableFacts, guess: &mut Guess) {
    guess.notes.extend(unusable_key_notes(facts, current));
    let mut found = links(facts, current);
    let given = current.hint.iter().flat_map(|hint| &hint.relations);
    found.retain(|link| !given.clone().any(|given| given.column == link.column));
    guess.notes.extend(doubtful_link_notes(current, &found));
    let links_by = |name: &String| found.iter().any(|link| link.column == *name);
    let id_links = current.id.as_ref().is_some_and(links_by);
    let single: Vec<&LinkColumn> = found.iter().filter(|link| link.separator.is_none()).collect();
    // Edges have no fields, so a row with texts is a node, unless its key has several columns.
    let has_texts = current.key.len() < 2
        && current.columns.iter().any(|(name, column)| !links_by(name) && column.is_text(name));
    if let ([source, target, ..], true, None) =
        (single.as_slice(), (current.id.is_none() || id_links) && !has_texts, &current.hint)
    {
        let table = edges_table(current, [source, target]);
        let mapped = [Some(&source.column), Some(&target.column), table.relation_column.as_ref()];
        let others = current.columns.iter().map(|(name, _)| name);
        let others = others.filter(|name| !mapped.contains(&Some(*name))).cloned();
        let others = others.collect::<Vec<String>>().join(", ");
        guess.mapping.edges.push(table);
        let place = current.table.label();
        if others.is_empty() {
            return;
        }
        if current.is_sample {
            guess.notes.push(format!(
                "{place}: edges cannot have fields, so these columns are left out: {others}; to \
                 keep them, add the table to the [[nodes]] of a mapping"
            ));
            return;
        }
        guess.notes.push(format!(
            "{place}: edges cannot have fields, so each row becomes a node too: {others}"
        ));
        guess.mapping.nodes.push(nodes_table(current, &found, None));
        return;
    }
    guess.notes.extend(missing_id_note(current, &found));
    guess.mapping.nodes.push(nodes_table(current, &found, current.id.as_ref()));
}

/// Maps each row of a table to an edge between the nodes to which two columns link.
fn edges_table(current: &TableFacts, ends: [&LinkColumn; 2]) -> EdgesTable {
    let [source, target] = ends
        .map(|link| End { column: link.column.clone(), node_type: link.other.node_type.clone() });
    let relation_column = current.columns.iter().map(|(name, _)| name).find(|name| {
        RELATION_NAMES.contains(&snake(name).as_str())
            || (current.columns.len() == 3 && ["type", "kind"].contains(&snake(name).as_str()))
    });
    let relation = || edge_relation(&current.table.stem(), &source.node_type, &target.node_type);
    EdgesTable {
        file: current.file.clone(),
        table: current.table.name().map(str::to_owned),
        relation: relation_column.is_none().then(relation),
        relation_column: relation_column.cloned(),
        source,
        target,
        line: 0,
    }
}

/// Maps each row of a table to a node with the ids in column `id`; `found` are the columns that
/// hold ids of other nodes.
fn nodes_table(current: &TableFacts, found: &[LinkColumn], id: Option<&String>) -> NodesTable {
    let relations = found.iter().map(|link| Link {
        column: link.column.clone(),
        relation: relation_of(&link.column),
        to: link.other.node_type.clone(),
    });
    let given = current.hint.iter().flat_map(|hint| &hint.relations).cloned();
    let relations: Vec<Link> = relations.chain(given).collect();
    let mut taken: Vec<&str> = relations.iter().map(|link| link.column.as_str()).collect();
    taken.extend(id.map(String::as_str));
    let name = current.name_columns(&taken);
    taken.extend(name.iter().map(String::as_str));
    let fields = current.columns.iter().map(|(name, _)| name.clone());
    let fields = fields.filter(|name| !taken.contains(&name.as_str())).collect();
    let lists = current.columns.iter().filter_map(|(name, column)| {
        let separator = match found.iter().find(|link| link.column == *name) {
            Some(link) => link.separator,
            None if id == Some(name) => None,
            None => column.separator(),
        };
        Some((name.clone(), separator?.to_owned()))
    });
    NodesTable {
        file: current.file.clone(),
        table: current.table.name().map(str::to_owned),
        node_type: current.node_type.clone(),
        id: id.cloned(),
        fields: Some(fields),
        lists: lists.collect::<BTreeMap<String, String>>(),
        relations,
        values: BTreeMap::new(),
        meanings: BTreeMap::new(),
        name,
        line: 0,
    }
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
