//! What generated questions are drawn from: the rows of each type, with their numbers and groups.
//! Does not word questions.

use std::collections::{BTreeMap, HashMap};

use agent_ground::words::name_words;
use agent_index::IndexedBase;
use agent_kb::{
    Direction, Kb, MetapathStep, TypeId,
    table::{Cell, Column, ColumnKind, ColumnSpec, Key, MAX_VALUES, read, sample},
};

/// Minimum number of nodes that a type must have to be a type of rows.
const MIN_NODES: usize = 50;
/// Minimum number of rows that must have a number in a column of numbers.
const MIN_FILLED: usize = 100;
/// Minimum number of distinct numbers in a column of numbers.
const MIN_DIFFERENT: usize = 5;
/// Maximum number of distinct values of a group for all values to be kept.
const MAX_WHOLE: usize = 2_000;
/// Maximum number of values that are kept of a group with more than [`MAX_WHOLE`] values; those
/// with the most rows are kept.
const KEPT: usize = 400;
/// Minimum number of rows that a value must have for a question to name the value.
const MIN_OF_VALUE: usize = 5;
/// Maximum length of a name that a question can contain, bytes.
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

/// A column whose values group the rows of a type.
pub(super) struct Group {
    /// Name of the group in words.
    pub(super) word: String,
    /// Name of the group's column in SQL.
    pub(super) column: String,
    /// The values, each with the indexes of its rows, ascending. The value with the most rows comes
    /// first; values with equally many are ordered by name.
    pub(super) values: Vec<(String, Vec<usize>)>,
    /// Indexes in `values` of those values that a question can name: they have enough rows and an
    /// unambiguous name.
    pub(super) named: Vec<usize>,
    /// Whether `values` holds all values of the column and no two of them have the same name.
    pub(super) is_whole: bool,
}

/// The nodes of one type as rows, with their columns.
pub(super) struct Rows {
    /// Name of the type in words: singular, then plural.
    pub(super) words: (String, String),
    /// Number of rows.
    pub(super) n: usize,
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

/// What questions about a base are drawn from: its types of rows.
pub(super) struct Facts {
    pub(super) types: Vec<Rows>,
}

impl Facts {
    /// Reads the first [`MAX_TYPES`] types with enough nodes: candidate types first, then those
    /// with the most nodes. Of these types, keeps those with a column of numbers.
    pub(super) fn of(base: &IndexedBase) -> Self {
        let kb = &base.kb;
        let mut kinds: Vec<TypeId> =
            (0..kb.types().len()).map(|kind| TypeId(kind as u16)).collect();
        let few = kb.candidate_types().len() < kinds.len();
        kinds.sort_by_key(|kind| {
            let candidate = few && kb.candidate_types().contains(kind);
            (!candidate, std::cmp::Reverse(kb.nodes_of_type(*kind).len()))
        });
        let rows = kinds.into_iter().filter(|kind| kb.nodes_of_type(*kind).len() >= MIN_NODES);
        let useful = |rows: &Rows| !rows.numbers.is_empty();
        Self { types: rows.take(MAX_TYPES).map(|kind| rows_of(kb, kind)).filter(useful).collect() }
    }
}

fn in_words(name: &str) -> String {
    name_words(name).map(|(_, word)| word).collect::<Vec<_>>().join(" ")
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
    let mut same: HashMap<String, usize> = HashMap::new();
    for name in &names {
        *same.entry(in_words(name)).or_default() += 1;
    }
    let (mut numbers, mut groups) = (Vec::new(), Vec::new());
    // A column that is too large to read is skipped.
    let column = |spec: &ColumnSpec| read(kb, kind, nodes, spec).ok();
    for sample in sample(kb, kind) {
        let spec = ColumnSpec::Field(sample.field);
        let word = kb.field_name(sample.field).replace('_', " ");
        if sample.kind.is_number() {
            numbers.extend(column(&spec).and_then(|column| of_numbers(word, column)));
        } else if sample.kind == ColumnKind::Category && sample.distinct > 1 {
            groups.extend(column(&spec).and_then(|column| of_groups(kb, word, &column)));
        }
    }
    for (step, alone) in links(kb, kind).into_iter().take(MAX_COUNTS) {
        // The name of the type does not tell several relations apart.
        if !alone {
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
    Rows { words, n: nodes.len(), names, numbers, groups, same }
}

/// Returns the steps from a type to other types, the step with the most edges first, each with
/// whether it is the only step that leads to its type.
fn links(kb: &Kb, kind: TypeId) -> Vec<(MetapathStep, bool)> {
    let mut steps: Vec<(u64, MetapathStep)> = Vec::new();
    for tuple in kb.tuples().iter().filter(|tuple| tuple.source != tuple.target) {
        let step = |direction, to| MetapathStep { relation: tuple.relation, direction, to };
        if tuple.source == kind {
            steps.push((tuple.edges, step(Direction::Out, tuple.target)));
        } else if tuple.target == kind {
            steps.push((tuple.edges, step(Direction::In, tuple.source)));
        }
    }
    steps.sort_by_key(|(edges, step)| (std::cmp::Reverse(*edges), *step));
    let alone = |to: TypeId| steps.iter().filter(|(_, other)| other.to == to).count() == 1;
    steps.iter().map(|(_, step)| (*step, alone(step.to))).collect()
}

fn of_numbers(word: String, column: Column) -> Option<Numbers> {
    let values: Vec<Option<f64>> = column.cells.iter().map(Cell::number).collect();
    let mut different: Vec<u64> = values.iter().flatten().map(|number| number.to_bits()).collect();
    let filled = different.len();
    different.sort_unstable();
    different.dedup();
    (filled >= MIN_FILLED && different.len() >= MIN_DIFFERENT).then_some(Numbers {
        word,
        column: column.name,
        values,
    })
}

fn of_groups(kb: &Kb, word: String, column: &Column) -> Option<Group> {
    let mut rows: BTreeMap<Key, (String, Vec<usize>)> = BTreeMap::new();
    for (row, cell) in column.cells.iter().enumerate() {
        match cell {
            Cell::Text(text) => {
                let own = rows
                    .entry(Key::Value(text.clone()))
                    .or_insert_with(|| (text.to_string(), Vec::new()));
                own.1.push(row);
            }
            Cell::Many(named) if named.len() < MAX_VALUES => {
                for one in named.iter() {
                    let own = rows
                        .entry(one.key.clone())
                        .or_insert_with(|| (one.name.to_string(), Vec::new()));
                    own.1.push(row);
                }
            }
            _ => {}
        }
    }
    let n = rows.len();
    // A name that two nodes of the type share is ambiguous, even if no row links to one of them.
    let mut same: HashMap<String, usize> = HashMap::new();
    let kind = rows.keys().find_map(|key| match key {
        Key::Node(node) => Some(kb.node_type(*node)),
        Key::Value(_) => None,
    });
    match kind {
        Some(kind) => {
            for &node in kb.nodes_of_type(kind) {
                *same.entry(in_words(kb.name(node))).or_default() += 1;
            }
        }
        None => rows.values().for_each(|(name, _)| *same.entry(in_words(name)).or_default() += 1),
    }
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
    let mut different: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
    different.sort_unstable();
    different.dedup();
    is_whole &= different.len() == values.len();
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
