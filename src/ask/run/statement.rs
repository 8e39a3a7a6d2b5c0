//! Runs the SQL statement of a plan over the plan's table, and reads the result in the form that
//! the plan states.

use super::{
    Answer, Run, finite,
    words::{MAX_LISTED, names_in_words, yes_or_no},
};
use crate::{
    AskError,
    answer::{Outcome, shown, shown_value},
    plan::Form,
};
use agent_ground::words::listed;
use agent_kb::{
    NodeId,
    table::{Cell, Limits, SqlValue, Table, with_literals},
};

impl Run<'_> {
    /// Runs an SQL statement and reads its result in the given form.
    ///
    /// # Errors
    /// [`AskError::Plan`] if the statement fails, with the tables and columns that exist, or if the
    /// result does not have the form.
    pub(super) fn by_sql(&mut self, statement: &str, form: Form) -> Answer {
        let table = self.writer.table;
        let names: Vec<&str> = ["t", "id", "key", "value"]
            .into_iter()
            .chain(table.columns.iter().map(|column| column.name.as_str()))
            .collect();
        let (sql, texts) = with_literals(statement, &names);
        let failed =
            |why: String| AskError::Plan(format!("{why}; the tables are {}", tables(table)));
        let rows = self.database.query(&sql, &Limits::default());
        self.result = finite(rows.map_err(|error| failed(error.to_string()))?)?;
        self.sql.push(sql);
        let told = |text| format!("\"{text}\" in the statement is read as a string");
        self.assumed.extend(texts.into_iter().map(told));
        self.read_as(form)
    }

    /// Reads the stored result in the given form; returns the answer, also in words.
    fn read_as(&self, form: Form) -> Answer {
        let (rows, table) = (&self.result, self.writer.table);
        let missing = |what: &str| AskError::Plan(format!("the statement returns no {what}"));
        let first = || rows.rows.first().ok_or_else(|| missing("row"));
        Ok(match form {
            Form::Number => {
                let value = first()?.iter().find_map(SqlValue::number);
                let value = value.ok_or_else(|| missing("number"))?;
                (Outcome::Number { value, unit: None }, shown(value))
            }
            Form::YesNo => {
                let value = first()?.first().and_then(SqlValue::number);
                let yes = value.ok_or_else(|| missing("truth value"))? != 0.0;
                (Outcome::Truth(yes), yes_or_no(yes).to_owned())
            }
            Form::Names => {
                let is_id = rows.columns.first().is_some_and(|name| name == "id");
                let name = |row: &Vec<SqlValue>| match row.first()? {
                    SqlValue::Int(id) if is_id => {
                        let node = NodeId::try_from(*id).ok()?;
                        table.rows.binary_search(&node).ok().map(|_| self.kb.name(node).to_owned())
                    }
                    SqlValue::Null => None,
                    value => Some(shown_value(value)),
                };
                let number = |row: &Vec<SqlValue>| row.iter().skip(1).find_map(SqlValue::number);
                let named = rows.rows.iter().filter_map(|row| Some((name(row)?, number(row))));
                let (names, numbers): (Vec<String>, Vec<Option<f64>>) = named.unzip();
                let value = numbers.first().ok_or_else(|| missing("name"))?.unwrap_or(0.0);
                let told: Vec<String> = numbers.into_iter().flatten().map(shown).collect();
                let told = match told.is_empty() {
                    true => listed(&names, MAX_LISTED),
                    false => names_in_words(&names, &told, None),
                };
                (Outcome::Names { names, value: SqlValue::Real(value), unit: None }, told)
            }
            Form::Table => (Outcome::Table, format!("{} rows", rows.rows.len())),
        })
    }
}

/// Lists the SQL tables that a statement can read, with their columns, such as `t(id, price),
/// t_brand(id, key, value)`.
fn tables(table: &Table) -> String {
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let mut told = format!("t(id, {})", names.join(", "));
    for column in &table.columns {
        if column.cells.iter().any(|cell| matches!(cell, Cell::Many(_))) {
            told += &format!(", t_{}(id, key, value)", column.name);
        }
    }
    told
}
