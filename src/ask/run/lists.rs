//! Runs the operations that list the rows of a plan or tell whether there are any.

use super::{
    MAX_GROUPS, ROWS, Run,
    words::{listed, plural, yes_or_no},
};
use crate::{
    AskError,
    answer::{Outcome, shown},
    plan::Measure,
};
use agent_kb::{
    NodeId,
    table::{Rows, SqlValue},
};

impl Run<'_> {
    /// Lists the names of the rows that satisfy the filters, in alphabetical order; rows with the
    /// same name are ordered by id.
    pub(super) fn list(&mut self) -> Result<(Outcome, String), AskError> {
        let rows = self.ask(self.writer.satisfying(&self.plan.filters), &ROWS)?;
        let node = |row: &Vec<SqlValue>| NodeId::try_from(row.first()?.number()? as i64).ok();
        let mut nodes: Vec<NodeId> = rows.rows.iter().filter_map(node).collect();
        if nodes.len() > MAX_GROUPS {
            return Err(AskError::Missing(format!(
                "{} {} rows exceed the limit of {MAX_GROUPS}; ask how many there are",
                nodes.len(),
                self.rows_name()
            )));
        }
        nodes.sort_by_key(|node| (self.kb.name(*node), *node));
        let names: Vec<String> = nodes.iter().map(|node| self.kb.name(*node).to_owned()).collect();
        let text = |text: &str| SqlValue::Text(text.to_owned());
        let row = |node: &NodeId| vec![text(&self.kb.key(*node)), text(self.kb.name(*node))];
        let columns = vec!["key".to_owned(), "name".to_owned()];
        self.result = Rows { columns, rows: nodes.iter().map(row).collect() };
        let n = names.len() as f64;
        let told = match names.is_empty() {
            true => "none".to_owned(),
            false => listed(&names),
        };
        let told = format!("{told} ({} {} {})", shown(n), self.rows_name(), plural(n));
        Ok((Outcome::Names { names, value: SqlValue::Null, unit: None }, told))
    }

    /// Answers whether any row satisfies the filters.
    pub(super) fn exists(&mut self) -> Result<(Outcome, String), AskError> {
        let (found, told) = self.number(Measure::Rows)?;
        let yes = matches!(found, Outcome::Number { value, .. } if value > 0.0);
        Ok((Outcome::Truth(yes), format!("{}: {told}", yes_or_no(yes))))
    }
}
