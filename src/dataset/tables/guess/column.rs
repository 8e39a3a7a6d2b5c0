//! Statistics of the cells of a column: whether they are ids, texts, lists or few values.
//!
//! Does not compare columns with each other.

use std::{
    collections::{BTreeSet, HashSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    iter,
};

use serde_json::Value;

use super::names::{MAX_NAME_BYTES, MAX_NAMESAKES, NAME_NAMES};
use crate::tables::{
    mapping::JSON_LIST,
    rows::{Row, items},
};
use agent_ground::words::{has_word, snake};
use agent_kb::table::value::{TRUTHS, category, quantity};

/// Possible separators of list items within a cell.
const SEPARATORS: [&str; 3] = [";", "|", ","];
/// Number of leading [`SEPARATORS`] that split any list. The last separator, the comma, also occurs
/// within texts, so it splits only lists of ids and columns with few values.
const SURE_SEPARATORS: usize = 2;
/// Minimum number of rows of a table whose values may become nodes.
const MIN_VALUE_ROWS: u64 = 20;
/// Minimum number of rows per distinct value, for the values of a column to become nodes.
const ROWS_PER_VALUE: u64 = 10;
/// Number of distinct values up to which [`ROWS_PER_FEW`] rows per value are enough: the categories
/// of a small table.
const FEW_VALUES: usize = 20;
/// Minimum number of rows per distinct value of at most [`FEW_VALUES`].
const ROWS_PER_FEW: u64 = 4;
/// Maximum number of distinct values, for the values of a column to become nodes.
const MAX_VALUES: usize = 500;
/// Maximum length in bytes of a column's values, for the values to become nodes.
const MAX_VALUE_BYTES: usize = 60;
/// Minimum share of a column's cells that contain a separator, for the column to hold lists.
const MIN_SPLIT_SHARE: f64 = 0.2;
/// Minimum share of a column's cells that are sentences, for the column to hold prose.
const MIN_SENTENCE_SHARE: f64 = 0.2;
/// Minimum number of words of a sentence.
const SENTENCE_WORDS: usize = 4;
/// Maximum mean length of the items in bytes, for a column to hold lists.
const MAX_ITEM_BYTES: f64 = 40.0;

/// Maximum length in bytes of a code such as `TX`.
const MAX_CODE_BYTES: usize = 4;
/// Maximum number of codes of a column that are listed.
const MAX_CODES: usize = 30;

/// Statistics of the cells of a column.
#[derive(Default)]
pub(super) struct Column {
    /// Number of cells with a value.
    pub(super) filled: u64,
    /// Digests of the distinct values.
    pub(super) values: HashSet<u64>,
    /// Number of cells whose value occurs in an earlier cell.
    pub(super) repeats: u64,
    pub(super) has_texts: bool,
    /// The least number; `None` without numbers.
    pub(super) least: Option<f64>,
    has_spaces: bool,
    bytes: u64,
    /// For each of [`SEPARATORS`], the items of the cells that it splits.
    splits: [Split; SEPARATORS.len()],
    /// Number of cells with commas that are numbers whose thousands the commas separate.
    grouped: u64,
    /// Whether one of these cells, such as `1,299` or `100,200.50`, cannot be a list of numbers.
    is_grouped: bool,
    /// Whether a value is not in [`TRUTHS`].
    has_untruth: bool,
    pub(super) is_date: bool,
    /// Number of cells that are sentences.
    sentences: u64,
    /// Number of cells that are times of a day, such as `9:30`.
    times: u64,
    json_lists: u64,
    json_items: HashSet<u64>,
    /// The first of the distinct values that are codes.
    codes: BTreeSet<String>,
    /// Whether a value is no code.
    has_uncoded: bool,
}

/// Statistics of the items of a column's cells, split by one separator.
#[derive(Default)]
struct Split {
    /// Number of cells with several items.
    cells: u64,
    n_items: u64,
    /// Length of the longest item, in bytes.
    longest: usize,
    /// Digests of the distinct items.
    items: HashSet<u64>,
}

/// Returns a digest of a text that is equal in every run.
pub(super) fn digest(text: &str) -> u64 {
    // Equal in every run, because the keys of the hasher are fixed.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Returns the text of a cell as an id. The suffix `.0`, which some programs append to integers, is
/// removed.
pub(super) fn id_text(row: &Row, column: &str) -> Option<String> {
    let text = row.text(column)?;
    Some(match (text.parse::<f64>(), text.strip_suffix(".0")) {
        (Ok(_), Some(whole)) => whole.to_owned(),
        _ => text,
    })
}

/// Whether a text is a number whose thousands are separated by commas. `None` if it is not, `false`
/// if it may also be a list of numbers, such as `100,200`.
fn grouped_number(text: &str) -> Option<bool> {
    let (first, rest) = text.split_once(',').filter(|_| quantity(text).is_some())?;
    let has_three = |group: &str| group.bytes().take_while(u8::is_ascii_digit).count() == 3;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b',');
    rest.split(',').all(has_three).then_some(first.len() < 3 || !is_plain)
}

/// Whether a text is a code of few capital letters, such as `T` or `CHY`.
fn is_code(text: &str) -> bool {
    text.len() <= MAX_CODE_BYTES && text.chars().all(char::is_uppercase)
}

/// Whether a text ends as a sentence does, and has at least [`SENTENCE_WORDS`] words.
fn is_sentence(text: &str) -> bool {
    text.ends_with(['.', '!', '?']) && text.split_whitespace().count() >= SENTENCE_WORDS
}

/// Whether a text is a time of a day in hours, minutes and possibly seconds, such as `9:30`.
fn is_time(text: &str) -> bool {
    let digits = |part: &str| part.len() <= 2 && part.bytes().all(|b| b.is_ascii_digit());
    let mut parts = text.split(':');
    let is_hour = parts.next().is_some_and(|part| !part.is_empty() && digits(part));
    let rest: Vec<&str> = parts.collect();
    is_hour
        && (1..=2).contains(&rest.len())
        && rest.iter().all(|part| part.len() == 2 && digits(part))
}

impl Column {
    pub(super) fn observe(&mut self, row: &Row, name: &str, value: &Value) {
        self.filled += 1;
        if let Value::Array(_) = value {
            self.observe_list(value);
            return;
        }
        let Some(text) = id_text(row, name) else { return };
        match text.parse::<f64>() {
            Ok(number) => self.least = Some(self.least.map_or(number, |least| least.min(number))),
            Err(_) => self.has_texts = true,
        }
        self.has_spaces |= text.contains(char::is_whitespace);
        self.bytes += text.len() as u64;
        self.repeats += u64::from(!self.values.insert(digest(&text)));
        if text.starts_with('[') && text.ends_with(']') {
            self.observe_list(value);
        }
        self.sentences += u64::from(is_sentence(&text));
        self.times += u64::from(is_time(&text));
        self.has_untruth =
            self.has_untruth || !TRUTHS.as_flattened().contains(&category(&text).as_str());
        if !is_code(&text) {
            self.has_uncoded = true;
        } else if !self.has_uncoded && self.codes.len() <= MAX_CODES {
            self.codes.insert(text.clone());
        }
        if let Some(is_sure) = grouped_number(&text) {
            self.grouped += 1;
            self.is_grouped |= is_sure;
        }
        for (separator, split) in SEPARATORS.iter().zip(&mut self.splits) {
            let items = items(value, Some(separator));
            split.cells += u64::from(items.len() > 1);
            split.n_items += items.len() as u64;
            for text in items.iter().filter_map(Value::as_str) {
                split.longest = split.longest.max(text.len());
                split.items.insert(digest(text));
            }
        }
    }

    fn observe_list(&mut self, value: &Value) {
        let found = items(value, Some(JSON_LIST));
        // A text that is not a JSON list is its own item.
        if found.first() == Some(value) {
            return;
        }
        self.json_lists += 1;
        for item in &found {
            let text = item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            self.has_texts |= text.parse::<f64>().is_err();
            self.json_items.insert(digest(&text));
        }
    }

    /// Returns the separators that split a cell, each with the items.
    fn splits(&self) -> impl Iterator<Item = (&'static str, &Split)> {
        let is_number = |separator, split: &Split| {
            separator == "," && self.is_grouped && self.grouped == split.cells
        };
        let splits = SEPARATORS.into_iter().zip(&self.splits);
        splits.filter(move |(separator, split)| split.cells > 0 && !is_number(*separator, split))
    }

    /// Whether a separator splits enough cells for the column to hold lists.
    fn is_split(&self, split: &Split) -> bool {
        split.cells as f64 >= self.filled as f64 * MIN_SPLIT_SHARE
    }

    /// Returns the separator of list items in the column; `None` if cells are single values.
    pub(super) fn separator(&self) -> Option<&'static str> {
        if self.filled > 0 && self.json_lists == self.filled {
            return Some(JSON_LIST);
        }
        let is_list = |split: &Split| {
            !self.is_prose()
                && self.is_split(split)
                && self.bytes as f64 / split.n_items as f64 <= MAX_ITEM_BYTES
        };
        let mut lists = self.splits().filter(|(_, split)| is_list(split)).map(|(by, _)| by);
        lists.find(|by| SEPARATORS[..SURE_SEPARATORS].contains(by))
    }

    /// Returns the codes that the column consists of, ascending; none if it has other values or too
    /// many codes.
    pub(super) fn codes(&self) -> impl Iterator<Item = &String> {
        let listed = !self.has_uncoded && self.codes.len() <= MAX_CODES;
        self.codes.iter().filter(move |_| listed)
    }

    /// Returns the separator (`None` if the cells are not lists) and the digests of the values.
    /// Returns `None` if the column, of `rows` rows, has too many distinct values or values other
    /// than short texts.
    pub(super) fn few_values(&self, rows: u64) -> Option<(Option<&'static str>, &HashSet<u64>)> {
        let is_few = |values: &HashSet<u64>| {
            let each = if values.len() <= FEW_VALUES { ROWS_PER_FEW } else { ROWS_PER_VALUE };
            (2..=MAX_VALUES).contains(&values.len()) && values.len() as u64 * each <= rows
        };
        if rows < MIN_VALUE_ROWS
            || !self.has_texts
            || !self.has_untruth
            || self.is_date
            || self.json_lists > 0
            || self.is_prose()
            || self.times == self.filled
        {
            return None;
        }
        let mut lists = self.splits().filter(|(_, split)| {
            self.is_split(split) && split.longest <= MAX_VALUE_BYTES && is_few(&split.items)
        });
        if let Some((separator, split)) = lists.next() {
            return Some((Some(separator), &split.items));
        }
        // Cells that are not split are their own single item.
        let is_short = self.splits.iter().all(|split| split.longest <= MAX_VALUE_BYTES);
        let is_whole = self.separator().is_none() && is_short;
        (is_whole && is_few(&self.values)).then_some((None, &self.values))
    }

    /// Whether many cells are sentences, so that commas and semicolons separate no items.
    pub(super) fn is_prose(&self) -> bool {
        self.sentences as f64 >= self.filled as f64 * MIN_SENTENCE_SHARE
    }

    /// Whether the column has so few different values that they cannot be names of the rows.
    pub(super) fn is_repeated(&self) -> bool {
        self.filled > self.values.len() as u64 * MAX_NAMESAKES
    }

    /// Whether the column's cells are single words, and not all of them numbers.
    pub(super) fn looks_like_ids(&self) -> bool {
        self.has_texts && !self.has_spaces
    }

    /// Whether the column's cells are texts: mostly distinct, and either long or, judging by the
    /// column's `name`, names of nodes.
    pub(super) fn is_text(&self, name: &str) -> bool {
        let is_name = has_word(NAME_NAMES, &snake(name));
        let is_long = self.bytes as f64 > self.filled as f64 * MAX_ITEM_BYTES;
        let is_single = self.has_texts && self.separator().is_none();
        is_single && (is_name || is_long) && self.repeats * 2 < self.filled
    }

    /// Whether nearly all rows of a table of `rows` rows have different texts in the column.
    pub(super) fn is_distinct(&self, rows: u64) -> bool {
        let is_single = self.separator().is_none() && !self.is_date;
        self.has_texts && is_single && self.values.len() as u64 * 20 > rows * 19
    }

    /// Whether the column has short texts of several words.
    pub(super) fn has_short_texts(&self) -> bool {
        self.has_spaces && self.is_short()
    }

    /// Whether the mean length of the column's cells is at most [`MAX_NAME_BYTES`].
    pub(super) fn is_short(&self) -> bool {
        self.bytes <= self.filled * MAX_NAME_BYTES
    }

    /// Returns the possible readings of the column's cells as ids, as whole cells or as lists: for
    /// each reading, the separator and the digests of the ids.
    pub(super) fn id_readings(&self) -> Vec<(Option<&'static str>, &HashSet<u64>)> {
        if self.separator() == Some(JSON_LIST) {
            return vec![(Some(JSON_LIST), &self.json_items)];
        }
        let lists = self.splits().map(|(separator, split)| (Some(separator), &split.items));
        iter::once((None, &self.values)).chain(lists).collect()
    }
}
