//! Collects the facts from which questions are generated: the rows of each type, with their numbers
//! and groups. Does not write the texts of questions.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use crate::schema::{links, types_of, words_of};
use agent_ground::words::name_words;
use agent_index::IndexedBase;
use agent_kb::{
    Kb, TypeId, distinct,
    table::{
        Budget, Cell, Column, ColumnKind, ColumnSpec, Key, MAX_VALUES, read, sample,
        statistics::Moments,
    },
};

/// Minimum number of nodes that a type must have to be a type of rows.
const MIN_NODES: usize = 50;
/// Minimum number of rows with a number in a column of numbers.
const MIN_FILLED: usize = 100;
/// Minimum number of distinct numbers in a column of numbers.
const MIN_DIFFERENT: usize = 5;
/// Maximum number of distinct values of a group for all values to be kept.
const MAX_WHOLE: usize = 2_000;
/// Maximum number of values to keep in a group with more than [`MAX_WHOLE`] values; the values with
/// the most rows are kept.
const KEPT: usize = 400;
/// Minimum number of rows that a value must have for a question to name the value.
const MIN_OF_VALUE: usize = 5;
/// Maximum length in bytes of a name that a question can contain.
const MAX_NAME: usize = 60;
/// Maximum number of steps from a type to other types that are considered as columns.
const MAX_COUNTS: usize = 4;
/// Maximum number of types of rows.
const MAX_TYPES: usize = 6;

/// A column of numbers, at most one for each row of a type.
pub(super) struct Numbers {
    /// Name of the column in words.
    pub(super) word: String,
    /// Name of the column in SQL.
    pub(super) column: String,
    /// The number in each row; `None` if the row has none.
    pub(super) values: Vec<Option<f64>>,
}

impl Numbers {
    /// Returns the number in a row; `None` if the row has none.
    pub(super) fn at(&self, row: usize) -> Option<f64> {
        *self.values.get(row)?
    }

    /// Returns the numbers in the given rows; rows without a number are skipped.
    pub(super) fn of(&self, rows: &[usize]) -> Vec<f64> {
        rows.iter().filter_map(|row| self.at(*row)).collect()
    }

    /// Returns the mean of the numbers in the given rows; `None` if there are none.
    pub(super) fn mean(&self, rows: &[usize]) -> Option<f64> {
        Moments::of(&self.of(rows)).mean()
    }
}

/// A column whose values group the rows of a type.
pub(super) struct Group {
    /// Name of the group in words.
    pub(super) word: String,
    /// Name of the group's column in SQL.
    pub(super) column: String,
    /// The values, each with the indexes of its rows, ascending. The value with the most rows comes
    /// first; values with equally many are ordered by name.
    pub(super) values: Vec<(String, Vec<usize>)>,
    /// Indexes in `values` of the values that a question can name, with enough rows and an
    /// unambiguous name.
    pub(super) named: Vec<usize>,
    /// Whether `values` holds all values of the column and no two of them have the same name.
    pub(super) is_whole: bool,
}

impl Group {
    /// Returns the values with the number that `number` computes from their rows. Values for which
    /// `number` returns `None` are left out.
    pub(super) fn numbers(&self, number: impl Fn(&[usize]) -> Option<f64>) -> Vec<(String, f64)> {
        let values = self.values.iter();
        values.filter_map(|(name, rows)| Some((name.clone(), number(rows)?))).collect()
    }

    /// Returns the numbers of a column for each value; `None` if values are missing.
    pub(super) fn samples(&self, column: &Numbers) -> Option<Vec<Vec<f64>>> {
        let samples = || self.values.iter().map(|(_, rows)| column.of(rows)).collect();
        self.is_whole.then(samples)
    }
}

/// The nodes of one type as rows, with their columns.
pub(super) struct Rows {
    /// Name of the type in words: singular, then plural.
    pub(super) words: (String, String),
    /// The name of each row.
    pub(super) names: Vec<String>,
    pub(super) numbers: Vec<Numbers>,
    pub(super) groups: Vec<Group>,
    /// Number of rows for each name, with names as folded words joined by spaces.
    same: HashMap<String, usize>,
}

impl Rows {
    /// Whether a name belongs to exactly one row and can be written in a question.
    pub(super) fn is_one_name(&self, name: &str) -> bool {
        is_sayable(name) && self.same.get(&in_words(name)) == Some(&1)
    }
}

/// Reads the first [`MAX_TYPES`] types with enough nodes: candidate types first, then by descending
/// number of nodes. Keeps the types with a column of numbers.
pub(super) fn types_of_rows(base: &IndexedBase) -> Vec<Rows> {
    let kb = &base.kb;
    let mut kinds: Vec<TypeId> = types_of(kb).collect();
    let few = kb.candidate_types().len() < kinds.len();
    kinds.sort_by_key(|kind| {
        let candidate = few && kb.candidate_types().contains(kind);
        (!candidate, Reverse(kb.nodes_of_type(*kind).len()))
    });
    let rows = kinds.into_iter().filter(|kind| kb.nodes_of_type(*kind).len() >= MIN_NODES);
    let useful = |rows: &Rows| !rows.numbers.is_empty();
    rows.take(MAX_TYPES).map(|kind| rows_of(kb, kind)).filter(useful).collect()
}

fn in_words(name: &str) -> String {
    words_of(name).join(" ")
}

/// Counts names by their words.
fn counts_of<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    names.for_each(|name| *counts.entry(in_words(name)).or_default() += 1);
    counts
}

fn is_sayable(name: &str) -> bool {
    let marks = |c: char| {
        c.is_control() || matches!(c, '"' | '\u{201c}' | '\u{201d}' | '\u{ab}' | '\u{bb}')
    };
    (3..=MAX_NAME).contains(&name.len())
        && !name.contains(marks)
        && name.trim() == name
        && name_words(name).any(|(_, word)| word.chars().any(char::is_alphabetic))
}

fn rows_of(kb: &Kb, kind: TypeId) -> Rows {
    let nodes = kb.nodes_of_type(kind);
    let word = kb.type_name(kind).replace('_', " ");
    let names: Vec<String> = nodes.iter().map(|&node| kb.name(node).to_owned()).collect();
    let same = counts_of(names.iter().map(String::as_str));
    let (mut numbers, mut groups) = (Vec::new(), Vec::new());
    // A column that is too large to read is skipped.
    let column = |spec: &ColumnSpec| read(kb, kind, nodes, spec, &Budget::start()).ok();
    for sample in sample(kb, kind) {
        let spec = ColumnSpec::Field(sample.field);
        let word = kb.field_name(sample.field).replace('_', " ");
        if sample.kind.is_number() {
            numbers.extend(column(&spec).and_then(|column| of_numbers(word, column)));
        } else if sample.kind == ColumnKind::Category && sample.distinct > 1 {
            groups.extend(column(&spec).and_then(|column| of_groups(kb, word, &column)));
        }
    }
    let mut steps = links(kb, kind);
    steps.retain(|(step, _)| step.to != kind);
    steps.sort_by_key(|(step, edges)| (Reverse(*edges), *step));
    for (step, _) in steps.iter().take(MAX_COUNTS).copied() {
        // The name of the type does not distinguish several relations.
        if steps.iter().filter(|(other, _)| other.to == step.to).count() > 1 {
            continue;
        }
        let word = kb.type_name(step.to).replace('_', " ");
        // A field of the same name would make the question ambiguous.
        groups.retain(|group: &Group| group.word != word);
        let counted = format!("number of {}", plural(&word));
        let counts = column(&ColumnSpec::Count(vec![step]));
        numbers.extend(counts.and_then(|column| of_numbers(counted, column)));
        let names = column(&ColumnSpec::Names(vec![step]));
        groups.extend(names.and_then(|column| of_groups(kb, word, &column)));
    }
    let words = (word.clone(), plural(&word));
    Rows { words, names, numbers, groups, same }
}

fn of_numbers(word: String, column: Column) -> Option<Numbers> {
    let values: Vec<Option<f64>> = column.cells.iter().map(Cell::number).collect();
    let filled = values.iter().flatten();
    let different = distinct(filled.clone().map(|number| number.to_bits()).collect()).len();
    (filled.count() >= MIN_FILLED && different >= MIN_DIFFERENT).then_some(Numbers {
        word,
        column: column.name,
        values,
    })
}

fn of_groups(kb: &Kb, word: String, column: &Column) -> Option<Group> {
    let mut rows: BTreeMap<Key, (String, Vec<usize>)> = BTreeMap::new();
    for (row, cell) in column.cells.iter().enumerate() {
        let mut push = |key: &Key, name: &str| {
            let own = rows.entry(key.clone()).or_insert_with(|| (name.to_owned(), Vec::new()));
            own.1.push(row);
        };
        match cell {
            Cell::Text(text) => push(&Key::Value(text.clone()), text),
            Cell::Many(named) if named.len() < MAX_VALUES => {
                named.iter().for_each(|one| push(&one.key, &one.name));
            }
            _ => {}
        }
    }
    let n = rows.len();
    // A name that two nodes of the type share is ambiguous, even if no row links to one of them.
    let kind = rows.keys().find_map(|key| match key {
        Key::Node(node) => Some(kb.node_type(*node)),
        Key::Value(_) => None,
    });
    let same = match kind {
        Some(kind) => counts_of(kb.nodes_of_type(kind).iter().map(|&node| kb.name(node))),
        None => counts_of(rows.values().map(|(name, _)| name.as_str())),
    };
    let mut values: Vec<(String, Vec<usize>)> = rows.into_values().collect();
    values.sort_by(|one, other| other.1.len().cmp(&one.1.len()).then_with(|| one.0.cmp(&other.0)));
    let fits = |(name, rows): &(String, Vec<usize>)| {
        is_sayable(name) && rows.len() >= MIN_OF_VALUE && same.get(&in_words(name)) == Some(&1)
    };
    let mut is_whole = n <= MAX_WHOLE;
    if !is_whole {
        values.retain(fits);
        values.truncate(KEPT);
    }
    let named: Vec<usize> =
        (0..values.len()).filter(|at| values.get(*at).is_some_and(fits)).collect();
    is_whole &= distinct(values.iter().map(|(name, _)| name).collect()).len() == values.len();
    let column = column.name.clone();
    (named.len() > 1).then_some(Group { word, column, values, named, is_whole })
}

/// Returns the English plural of a name in words. The word before `of` is inflected (`fields of
/// study`), otherwise the last word.
fn plural(word: &str) -> String {
    let (head, tail) = match word.split_once(" of ") {
        Some((head, tail)) => (head, format!(" of {tail}")),
        None => (word, String::new()),
    };
    let is_vowel = |c: char| "aeiou".contains(c);
    let many = match head.strip_suffix('y') {
        Some(stem) if !stem.ends_with(is_vowel) => format!("{stem}ies"),
        _ if head.ends_with(['s', 'x']) || head.ends_with("ch") => format!("{head}es"),
        _ => format!("{head}s"),
    };
    many + tail.as_str()
}

#[cfg(test)]
mod tests {
    use super::plural;

    #[test]
    fn several_are_said_as_in_english() {
        let words = [
            ("product", "products"),
            ("category", "categories"),
            ("field of study", "fields of study"),
            ("biological process", "biological processes"),
            ("pathway", "pathways"),
        ];
        for (one, many) in words {
            assert_eq!(plural(one), many);
        }
    }
}
