//! Normalises the cells of exported tables: missing values, decimal commas, dates.
//!
//! | input | result |
//! | --- | --- |
//! | a marker of a missing value in a CSV or TSV file: `NULL`, `n/a`, `-` | an empty cell |
//! | a number with a decimal comma: `1.234,56` | `1234.56` |
//! | a date: ISO, `31.12.2025`, `31/12/2025`, `12/31/2025`, `31-DEC-25` or `31 Dec 2025` | `2025-12-31` and the time, if any |
//!
//! The first 50,000 rows decide how a column is converted. A marker that is unique in a column of
//! unique ids is kept. Numbers are converted if some in the column have a decimal comma and none
//! has a decimal point. Dates with slashes are converted only if some day above 12 shows whether
//! day or month comes first. All changes are counted and reported as [`Repair`]s.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashSet},
};

use serde::Serialize;
use serde_json::Value;

use crate::{
    encoding::Encoding,
    tables::{guess::name_suggests_ids, rows::Row},
};
use agent_kb::table::dates::month_of;

/// Maximum number of rows that are inspected to decide how columns are converted.
pub(super) const JUDGED_ROWS: u64 = 50_000;
/// Texts that mark missing values by default: the markers of pandas, and dashes.
const MISSING: [&str; 16] = [
    "NULL", "null", "NaN", "nan", "-nan", "n/a", "N/A", "#N/A", "NA", "<NA>", "None", "none", "-",
    "--", "\\N", "(null)",
];
/// Minimum share of dates among the nonempty cells of a column that is converted as dates.
const MIN_DATES: f64 = 0.95;
/// Maximum number of markers of missing values in a mapping; further markers are ignored.
const MAX_MARKERS: usize = 100;
/// Maximum length in bytes of a cell that is checked for a number or a date.
const MAX_BYTES: usize = 40;
/// First year of two digits that is taken for a year of the 20th century: 70 is 1970, 69 is 2069.
const FIRST_SHORT_YEAR: u32 = 70;
/// Years that a date may have.
const YEARS: std::ops::RangeInclusive<u32> = 1000..=2100;

/// How the text of tables is decoded and cleaned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Encoding of text files; `None` detects the encoding of each file.
    pub encoding: Option<Encoding>,
    /// Texts that mark missing values in CSV and similar files; `None` uses common markers such as
    /// `NA`.
    pub missing: Option<Vec<String>>,
}

/// A change that an import made to the cells of a table, or splits that it drew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// Name of the file; in a database, followed by the name of the table.
    pub file: String,
    /// Kind of change: `encoding`, `missing`, `numbers`, `dates` or `splits`.
    pub kind: &'static str,
    /// Number of changed cells or divided questions; 0 if the change concerns the whole file or
    /// column.
    pub count: u64,
    /// Description of the change, for display.
    pub message: String,
}

/// How the cells of a table are cleaned, and counts of the changes made in the last reading of the
/// table.
#[derive(Debug, Default)]
pub(super) struct Cleaning {
    markers: BTreeSet<String>,
    /// Names of columns with unique ids, where a text such as `NA` is an id, not a missing value.
    ids: BTreeSet<String>,
    forms: BTreeMap<String, Form>,
    counts: RefCell<Counts>,
}

/// Form of the cells of a column before conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Numbers with a decimal comma.
    Numbers,
    /// Dates; in dates with slashes, the month may come first.
    Dates { month_first: bool, has_slashes: bool },
    /// Dates whose order of day and month is ambiguous; kept as text.
    UnclearDates,
}

/// Counts of the changes made in one reading of a table.
#[derive(Debug, Default)]
struct Counts {
    rows: u64,
    missing: BTreeMap<String, u64>,
    numbers: BTreeMap<String, u64>,
    dates: BTreeMap<String, DateCounts>,
}

#[derive(Debug, Default)]
struct DateCounts {
    dates: u64,
    rewritten: u64,
    others: u64,
    first: String,
    last: String,
}

/// Counts of the kinds of cells in a column.
#[derive(Default)]
struct Look {
    filled: u64,
    values: HashSet<String>,
    markers: u64,
    /// Number of cells that may be numbers with a decimal comma. `sure_commas` counts cells that
    /// are certainly such numbers, and `points` counts numbers with a decimal point.
    commas: u64,
    sure_commas: u64,
    points: u64,
    dates: u64,
    slashes: u64,
    /// Number of dates with slashes whose first number is above 12, so that the day comes first.
    /// `month_first` counts those whose second number is above 12.
    day_first: u64,
    month_first: u64,
}

impl Look {
    fn see(&mut self, text: &str) {
        self.filled += 1;
        if text.len() > MAX_BYTES {
            return;
        }
        if let Some(number) = without_currency(text) {
            self.commas += u64::from(has_decimal_comma(number).is_some());
            self.sure_commas += u64::from(has_decimal_comma(number) == Some(true));
            self.points += u64::from(has_sure_point(number));
        }
        if let Some(date) = date_parts(text) {
            self.dates += 1;
            if date.separator == '/' && !date.is_iso {
                self.slashes += 1;
                self.day_first += u64::from(date.first > 12);
                self.month_first += u64::from(date.second > 12);
            }
        }
    }

    fn form(&self, name: &str) -> Option<Form> {
        if self.filled > 0 && self.dates as f64 >= self.filled as f64 * MIN_DATES {
            let (month_first, has_slashes) = (self.month_first > 0, self.slashes > 0);
            return Some(match has_slashes && (self.day_first > 0) == month_first {
                true => Form::UnclearDates,
                false => Form::Dates { month_first, has_slashes },
            });
        }
        let is_numbers = self.commas == self.filled && self.sure_commas > 0 && self.points == 0;
        (is_numbers && !name_suggests_ids(name)).then_some(Form::Numbers)
    }
}

/// Inspects the first rows of a table to decide how its cells are cleaned.
pub(super) struct Judge {
    markers: BTreeSet<String>,
    looks: BTreeMap<String, Look>,
}

impl Judge {
    /// Creates a judge that has seen no rows. `is_text`: cells may hold markers of missing values.
    pub(super) fn new(reading: &Reading, is_text: bool) -> Judge {
        let markers = match &reading.missing {
            _ if !is_text => BTreeSet::new(),
            Some(given) => given.iter().take(MAX_MARKERS).cloned().collect(),
            None => MISSING.map(str::to_owned).into(),
        };
        Judge { markers, looks: BTreeMap::new() }
    }

    /// Inspects the cells of a row.
    pub(super) fn see(&mut self, row: &Row) {
        for (column, value) in &row.cells {
            let look = self.looks.entry(column.clone()).or_default();
            let Value::String(text) = value else {
                look.filled += 1;
                continue;
            };
            let text = text.trim();
            match self.markers.contains(text) {
                true => look.markers += 1,
                false => look.see(text),
            }
            if name_suggests_ids(column) && text.len() <= MAX_BYTES {
                look.values.insert(text.to_owned());
            }
        }
    }

    /// Decides, from the rows seen, how the cells are cleaned.
    pub(super) fn cleaning(self) -> Cleaning {
        let mut cleaning = Cleaning { markers: self.markers, ..Cleaning::default() };
        for (column, look) in self.looks {
            let is_id =
                look.markers == 1 && look.values.len() as u64 == look.filled + 1 && look.filled > 1;
            if is_id {
                cleaning.ids.insert(column.clone());
            }
            if let Some(form) = look.form(&column) {
                cleaning.forms.insert(column, form);
            }
        }
        cleaning
    }
}

impl Cleaning {
    /// Resets the counts of changes; called before each reading of the table.
    pub(super) fn restart(&self) {
        self.counts.replace(Counts::default());
    }

    /// Whether the cells of a column are converted as dates.
    pub(super) fn has_dates(&self, column: &str) -> bool {
        matches!(self.forms.get(column), Some(Form::Dates { .. }))
    }

    /// Cleans the cells of a row, and counts the changes.
    pub(super) fn clean(&self, row: &mut Row) {
        let mut counts = self.counts.borrow_mut();
        counts.rows += 1;
        row.cells.retain(|column, value| {
            let Value::String(text) = value else { return true };
            if self.markers.contains(text.trim()) && !self.ids.contains(column) {
                *counts.missing.entry(text.trim().to_owned()).or_default() += 1;
                return false;
            }
            match self.forms.get(column) {
                None | Some(Form::UnclearDates) => {}
                Some(Form::Numbers) => {
                    if let Some(plain) = plain_number(text) {
                        *counts.numbers.entry(column.clone()).or_default() += 1;
                        *text = plain;
                    }
                }
                Some(&Form::Dates { month_first, has_slashes }) => {
                    let counts = counts.dates.entry(column.clone()).or_default();
                    let date = date_parts(text.trim())
                        .filter(|date| date.separator != '/' || date.is_iso || has_slashes);
                    match date.and_then(|date| date.written(month_first)) {
                        None => counts.others += 1,
                        Some(date) => counts.add(text, date),
                    }
                }
            }
            true
        });
    }

    /// Returns the changes made in the last reading of the table; `file` is the name to report.
    pub(super) fn repairs(&self, file: &str) -> Vec<Repair> {
        let counts = self.counts.borrow();
        let repair = |kind, count, message| Repair { file: file.to_owned(), kind, count, message };
        let mut repairs = Vec::new();
        let n: u64 = counts.missing.values().sum();
        if n > 0 {
            let each = counts.missing.iter().map(|(marker, n)| format!("{marker} {n}"));
            let each = each.collect::<Vec<_>>().join(", ");
            let message = format!(
                "{n} cells are missing values: {each}; missing = [] in mapping.toml keeps them"
            );
            repairs.push(repair("missing", n, message));
        }
        for (column, &n) in &counts.numbers {
            let message =
                format!("{column}: {n} numbers with a decimal comma are stored with a point");
            repairs.push(repair("numbers", n, message));
        }
        for (column, dates) in counts.dates.iter().filter(|dates| dates.1.dates > 0) {
            let DateCounts { dates: n, rewritten, others, first, last } = dates;
            let mut message =
                format!("{column}: dates from {first} to {last} in {n} of {} rows", counts.rows);
            if *rewritten > 0 {
                message += &format!("; {rewritten} stored as year-month-day");
            }
            if *others > 0 {
                message += &format!("; {others} cells are not dates and are kept as text");
            }
            repairs.push(repair("dates", *n, message));
        }
        let unclear = self.forms.iter().filter(|(_, form)| **form == Form::UnclearDates);
        for (column, _) in unclear {
            let message = format!(
                "{column}: kept as text because day and month are ambiguous; write the dates as \
                 year-month-day"
            );
            repairs.push(repair("dates", 0, message));
        }
        repairs
    }
}

impl DateCounts {
    fn add(&mut self, text: &mut String, date: String) {
        let day = date.get(..10).unwrap_or(&date);
        if self.first.is_empty() || day < self.first.as_str() {
            self.first = day.to_owned();
        }
        if day > self.last.as_str() {
            self.last = day.to_owned();
        }
        self.dates += 1;
        if *text != date {
            self.rewritten += 1;
            *text = date;
        }
    }
}

/// Numbers of a date in the order written, with their separator.
struct DateParts<'a> {
    first: u32,
    second: u32,
    third: u32,
    separator: char,
    /// Whether the year comes first.
    is_iso: bool,
    /// The text after the date: a time of day, or empty.
    time: &'a str,
}

impl DateParts<'_> {
    /// Formats the date as year-month-day, followed by the time; `None` if there is no such day.
    /// `month_first` applies to dates with slashes.
    fn written(&self, month_first: bool) -> Option<String> {
        let (year, month, day) = match (self.is_iso, self.separator == '/' && month_first) {
            (true, _) => (self.first, self.second, self.third),
            (false, true) => (self.third, self.first, self.second),
            (false, false) => (self.third, self.second, self.first),
        };
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 if is_leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        let exists = YEARS.contains(&year) && (1..=days).contains(&day);
        exists.then(|| format!("{year:04}-{month:02}-{day:02}{}", self.time))
    }
}

/// Parses a text as a date, with an optional time, in any supported form; `None` for other texts.
fn date_parts(text: &str) -> Option<DateParts<'_>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    if let Some(date) = named_month(text) {
        return Some(date);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && !"-./".contains(c)).unwrap_or(text.len());
    let (date, time) = text.split_at(end);
    let is_time = time.is_empty()
        || (time.starts_with([' ', 'T'])
            && time.contains(':')
            && time.chars().all(|c| c.is_ascii_digit() || " T:.+-Z,".contains(c)));
    let separator = ['-', '.', '/'].into_iter().find(|&c| date.matches(c).count() == 2)?;
    let mut parts = date.split(separator);
    let (first, second, third) = (parts.next()?, parts.next()?, parts.next()?);
    let is_iso = first.len() == 4;
    let (year, day) = if is_iso { (first, third) } else { (third, first) };
    let fits = |part: &str| (1..=2).contains(&part.len());
    // A version such as 10.11.12 is no date.
    let is_short = year.len() == 2 && separator == '/';
    let is_year = year.len() == 4 || is_short;
    let is_date = is_time && is_year && fits(second) && fits(day) && (is_iso || separator != '-');
    if !is_date {
        return None;
    }
    let [first, second, third] = [first, second, third].map(|part| part.parse().ok());
    let (first, second, third) = (first?, second?, third?);
    let third = if is_short { whole_year(third) } else { third };
    let parts = DateParts { first, second, third, separator, is_iso, time };
    parts.written(false).or_else(|| parts.written(true))?;
    Some(parts)
}

/// Returns the year with these last two digits.
fn whole_year(short: u32) -> u32 {
    short + if short < FIRST_SHORT_YEAR { 2000 } else { 1900 }
}

/// Parses a date whose month is a word, such as `31-DEC-25` or `31 Dec 2025`.
fn named_month(text: &str) -> Option<DateParts<'_>> {
    let mut parts = text.split(['-', ' ']);
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let fits = (1..=2).contains(&day.len()) && [2, 4].contains(&year.len());
    let second = month_of(&month.to_lowercase())? as u32 + 1;
    let (first, year_number): (u32, u32) = (day.parse().ok()?, year.parse().ok()?);
    let third = if year.len() == 2 { whole_year(year_number) } else { year_number };
    let time = text.get(day.len() + month.len() + year.len() + 2..)?;
    let is_time = time.is_empty() || time.starts_with(' ') && time.contains(':');
    let parts = DateParts { first, second, third, separator: '-', is_iso: false, time };
    parts.written(false).filter(|_| fits && is_time)?;
    Some(parts)
}

/// Returns a number without its currency or percent sign; `None` for a text that is not a number.
fn without_currency(text: &str) -> Option<&str> {
    let number = text.trim_matches(|c: char| c.is_whitespace() || "€$£%".contains(c));
    let number =
        number.strip_prefix("EUR").or_else(|| number.strip_suffix("EUR")).unwrap_or(number).trim();
    let is_number = |c: char| c.is_ascii_digit() || ".,+-".contains(c);
    (number.contains(|c: char| c.is_ascii_digit()) && number.chars().all(is_number))
        .then_some(number)
}

/// Whether a number certainly has a decimal comma. `Some(false)`: the number has no comma, or its
/// comma may separate thousands. `None`: the number cannot occur in a column with decimal commas.
fn has_decimal_comma(number: &str) -> Option<bool> {
    let digits = number.trim_start_matches(['+', '-']);
    let (whole, fraction) = digits.split_once(',').map_or((digits, None), |(a, b)| (a, Some(b)));
    let mut groups = whole.split('.');
    let first = groups.next().unwrap_or_default();
    let is_grouped = whole.contains('.');
    let fits = first.chars().all(|c| c.is_ascii_digit())
        && !first.is_empty()
        && (!is_grouped || first.len() <= 3)
        && groups.all(|group| group.len() == 3 && group.chars().all(|c| c.is_ascii_digit()));
    let is_fraction =
        fraction.is_none_or(|f| !f.is_empty() && f.chars().all(|c| c.is_ascii_digit()));
    (fits && is_fraction).then(|| fraction.is_some_and(|f| is_grouped || f.len() != 3))
}

/// Whether a number has a point that is certainly a decimal point.
fn has_sure_point(number: &str) -> bool {
    number.rsplit_once('.').is_some_and(|(_, behind)| behind.len() != 3 && !behind.contains(','))
}

/// Rewrites a number with a decimal comma to a decimal point and no thousands separators; `None` if
/// nothing changes.
fn plain_number(text: &str) -> Option<String> {
    let number = without_currency(text)?;
    has_decimal_comma(number)?;
    let plain = number.replace('.', "").replace(',', ".");
    let changed = text.trim().replace(number, &plain);
    (changed != text.trim()).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(column: &str, cells: &[&str]) -> Vec<Row> {
        let row = |(at, cell): (usize, &&str)| Row {
            line: at as u64,
            cells: [(column.to_owned(), Value::String((*cell).to_owned()))].into_iter().collect(),
        };
        cells.iter().enumerate().map(row).collect()
    }

    /// Returns the cells of a column after cleaning, and the messages about the changes.
    fn cleaned(column: &str, cells: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut rows = rows(column, cells);
        let mut judge = Judge::new(&Reading::default(), true);
        rows.iter().for_each(|row| judge.see(row));
        let cleaning = judge.cleaning();
        rows.iter_mut().for_each(|row| cleaning.clean(row));
        let cells = rows.iter().map(|row| row.text(column).unwrap_or_default()).collect();
        (cells, cleaning.repairs("t").into_iter().map(|repair| repair.message).collect())
    }

    #[test]
    fn numbers_with_a_decimal_comma_are_rewritten_and_others_stay() {
        let (cells, said) = cleaned("price", &["1.234,56", "7", "1.000", "3,5 €"]);
        assert_eq!(cells, ["1234.56", "7", "1000", "3.5 €"]);
        assert_eq!(said, ["price: 3 numbers with a decimal comma are stored with a point"]);
        for kept in [
            vec!["1,234", "5,678"],
            vec!["1,5", "2.5"],
            vec!["1,2", "1,2,3"],
            vec!["1,234.56", "1"],
            vec!["1,5", "two"],
        ] {
            assert_eq!(cleaned("price", &kept).0, kept);
        }
        // Pairs of ids are lists.
        assert_eq!(cleaned("part_ids", &["1,2", "3,4"]).0, ["1,2", "3,4"]);
    }

    #[test]
    fn dates_of_one_column_get_one_form() {
        let (cells, said) =
            cleaned("made", &["2025-01-05 10:30", "31.12.2024", "1.2.2025 08:00", "NULL"]);
        assert_eq!(cells, ["2025-01-05 10:30", "2024-12-31", "2025-02-01 08:00", ""]);
        assert_eq!(
            said[1],
            "made: dates from 2024-12-31 to 2025-02-01 in 3 of 4 rows; 2 stored as year-month-day"
        );
        assert_eq!(cleaned("made", &["12/31/2024", "1/2/2025"]).0, ["2024-12-31", "2025-01-02"]);
        assert_eq!(cleaned("made", &["31/12/2024", "1/2/2025"]).0, ["2024-12-31", "2025-02-01"]);
        assert_eq!(cleaned("made", &["30-APR-23", "1-Sep-98"]).0, ["2023-04-30", "1998-09-01"]);
        assert_eq!(cleaned("made", &["02 Mar 2021 10:30"]).0, ["2021-03-02 10:30"]);
        let (cells, said) = cleaned("made", &["01/02/2025", "03/04/2025"]);
        assert_eq!(cells, ["01/02/2025", "03/04/2025"]);
        assert!(said[0].contains("day and month are ambiguous"), "{said:?}");
        for kept in [vec!["1.2.3", "4.5.6"], vec!["31.02.2025", "30.02.2025"], vec!["10.0.0.1"]] {
            assert_eq!(cleaned("made", &kept).0, kept);
        }
    }

    #[test]
    fn markers_are_missing_values_but_in_ids() {
        let (cells, said) = cleaned("site", &["NULL", "Bonn", "n/a", " NULL "]);
        assert_eq!(cells, ["", "Bonn", "", ""]);
        assert!(said[0].starts_with("3 cells are missing values: NULL 2, n/a 1; "), "{said:?}");
        // Namibia.
        assert_eq!(cleaned("code", &["DE", "NA", "FR"]).0, ["DE", "NA", "FR"]);
    }
}
