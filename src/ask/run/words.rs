//! Formats results as text, and the cells of rows as JSON.

use crate::answer::{LEVEL, shown};
use agent_ground::words::listed;
use agent_kb::table::{Cell, Rows, SqlValue, Table, statistics::TestResult};

/// Maximum number of names that one line lists; further names are counted.
pub(super) const MAX_LISTED: usize = 10;

/// Lists names with their values in one line: the value once if all are equal, otherwise after each
/// name. Names after the first [`MAX_LISTED`] are only counted.
pub(super) fn names_in_words(names: &[String], values: &[String], unit: Option<&str>) -> String {
    let unit = spaced(unit);
    match values.windows(2).all(|two| matches!(two, [one, other] if one == other)) {
        true => format!(
            "{}: {}{unit}",
            listed(names, MAX_LISTED),
            values.first().map_or("", String::as_str)
        ),
        false => {
            let own = names.iter().zip(values).map(|(name, value)| format!("{name} {value}{unit}"));
            listed(&own.collect::<Vec<_>>(), MAX_LISTED)
        }
    }
}

pub(crate) fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

pub(super) fn plural(n: f64) -> &'static str {
    if n == 1.0 { "row" } else { "rows" }
}

pub(super) fn spaced(unit: Option<&str>) -> String {
    unit.map_or(String::new(), |unit| format!(" {unit}"))
}

/// Converts the result of a statistical test to a table of one row, and to words.
pub(crate) fn test_in_words(tested: TestResult) -> (Rows, String) {
    let columns = ["test", "n", "statistic", "p", "level"].map(str::to_owned).to_vec();
    let row = vec![
        SqlValue::Text(tested.test.name().to_owned()),
        SqlValue::Int(tested.n as i64),
        SqlValue::Real(tested.statistic),
        SqlValue::Real(tested.p),
        SqlValue::Real(LEVEL),
    ];
    let told = format!(
        "{}: n {}, statistic {}, p {}, level {LEVEL}",
        tested.test.name(),
        tested.n,
        shown(tested.statistic),
        shown_p(tested.p)
    );
    (Rows { columns, rows: vec![row] }, told)
}

/// Formats a p-value for people; values below 0.0001 become `< 0.0001`.
fn shown_p(p: f64) -> String {
    if p < 1e-4 { "< 0.0001".to_owned() } else { shown(p) }
}

/// Converts the cells of the row with index `at` to JSON, in the order of the columns; empty if
/// there is no such row.
pub fn row_json(table: &Table, at: usize) -> impl Iterator<Item = serde_json::Value> + '_ {
    table.columns.iter().filter_map(move |column| column.cells.get(at)).map(cell_json)
}

fn cell_json(cell: &Cell) -> serde_json::Value {
    match cell {
        Cell::Empty => serde_json::Value::Null,
        Cell::Number(number) => serde_json::json!(number),
        Cell::Text(text) => serde_json::json!(&**text),
        Cell::Many(named) => named.iter().map(|one| serde_json::json!(&*one.name)).collect(),
    }
}
