//! Fills the text columns of a plan: a language model reads their cells from the documents of the
//! plan's rows.
//!
//! A cell is empty if the row's document does not state its value or if the model's reply is
//! unusable; the number of such rows is reported.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{ASK_ROLE, Failed, Model, NAME_CHARS, cut};
use crate::{
    AskError,
    answer::LeftOut,
    plan::{Measure, Operation, Plan, TextColumn},
    run,
};
use agent_index::excerpt::text_about;
use agent_kb::{
    NodeId,
    table::{Column, of_texts},
};

/// Name of the prompt that asks for cells.
const CELLS: &str = "ask/cells";
/// Maximum number of rows of a plan whose cells are read from documents; later rows stay empty.
const MAX_READ: usize = 500;
/// Number of rows whose documents are in one request to the model; the last request may have fewer.
const ROWS_A_REQUEST: usize = 10;
/// Maximum number of requests to the model for the cells of one plan.
pub(super) const MAX_READ_REQUESTS: usize = MAX_READ / ROWS_A_REQUEST;
/// Maximum length of the excerpt of each document in a request, characters.
const DOCUMENT_CHARS: usize = 1_500;

#[derive(Deserialize)]
struct CellsReply {
    rows: Vec<CellsOfRow>,
}

#[derive(Deserialize)]
struct CellsOfRow {
    n: usize,
    values: Vec<Option<String>>,
}

/// The text columns of a plan, with the cells that the model read.
pub(super) struct TextsRead {
    /// The columns, in the order of the plan's text columns, with a cell for each row of the plan.
    pub(super) columns: Vec<Column>,
    /// How many rows have no value, for each reason.
    pub(super) left_out: Vec<LeftOut>,
}

impl Model<'_> {
    /// Reads the text columns of a plan, but only for the first [`MAX_READ`] rows that satisfy the
    /// filters on the plan's other columns.
    pub(super) fn read_texts(self, plan: &Plan) -> Result<TextsRead, AskError> {
        let rows = run::rows(&self.base.kb, plan)?;
        let left = self.without_texts(plan, &rows)?;
        let read = left.get(..left.len().min(MAX_READ)).unwrap_or_default();
        let (texts, unread) = self.read_cells(&plan.texts, read)?;
        let mut left_out = Vec::new();
        let why = "the reply of the language model that should read them is unusable";
        note(&mut left_out, unread, why.to_owned());
        let beyond = left.len() - read.len();
        note(
            &mut left_out,
            beyond,
            format!("beyond the first {MAX_READ} rows; only those are read"),
        );
        let column = |(TextColumn { name, .. }, own): (&TextColumn, Vec<String>)| {
            let empty = own.iter().filter(|text| text.is_empty()).count().saturating_sub(unread);
            note(&mut left_out, empty, format!("no {name} in the document"));
            let mut cells = vec![""; rows.len()];
            for (node, text) in read.iter().zip(&own) {
                if let Some(cell) = rows.binary_search(node).ok().and_then(|at| cells.get_mut(at)) {
                    *cell = text;
                }
            }
            let source = format!("{name}, read from the document by the language model");
            of_texts(name, &cells, &cells, source)
        };
        let columns = plan.texts.iter().zip(texts).map(column).collect();
        Ok(TextsRead { columns, left_out })
    }

    /// Returns those of `rows` that satisfy all filters that read no text column, by ascending node
    /// id.
    fn without_texts(self, plan: &Plan, rows: &[NodeId]) -> Result<Vec<NodeId>, AskError> {
        let is_known = |at: usize| at < plan.columns.len();
        let mut known = plan.clone();
        known.filters.retain(|test| test.columns().into_iter().all(is_known));
        known.texts = Vec::new();
        known.supposed = None;
        known.operation = Operation::Number(Measure::Rows);
        let counted = run::run(self.base, &known, &[])?.counted;
        let own = |node: &NodeId| rows.binary_search(node).is_ok();
        Ok(counted.map_or_else(|| rows.to_vec(), |all| all.into_iter().filter(own).collect()))
    }

    /// Asks the model for the cells of `rows`. Returns, for each column, one cell for each row,
    /// empty where unknown, and the number of rows for which no reply was usable.
    fn read_cells(
        self,
        columns: &[TextColumn],
        rows: &[NodeId],
    ) -> Result<(Vec<Vec<String>>, usize), AskError> {
        let wanted: Vec<&str> = columns.iter().map(|one| one.description.as_str()).collect();
        let wanted = wanted.join(" ");
        let shown: Vec<Json> = (1..)
            .zip(columns)
            .map(|(n, one)| json!({"n": n, "text": format!("{}: {}", one.name, one.description)}))
            .collect();
        let inputs = rows.chunks(ROWS_A_REQUEST).map(|nodes| {
            let text = |(n, &node): (usize, &NodeId)| {
                let name = self.base.kb.name(node);
                let text = text_about(self.base, node, &wanted, DOCUMENT_CHARS);
                json!({"n": n, "text": format!("{name}\n{text}")})
            };
            let texts: Vec<Json> = (1..).zip(nodes).map(text).collect();
            json!({"columns": shown, "texts": texts})
        });
        let replies = self.assistant.json_all(ASK_ROLE.role(), CELLS, inputs.collect());
        let mut cells: Vec<Vec<String>> = vec![vec![String::new(); rows.len()]; columns.len()];
        let mut unread = 0;
        for ((at, reply), nodes) in (0..).zip(replies).zip(rows.chunks(ROWS_A_REQUEST)) {
            let reply = match reply.map_err(Failed::from) {
                Ok(reply) => serde_json::from_value::<CellsReply>(reply).ok(),
                Err(Failed::Ends(error)) => return Err(error),
                Err(_) => None,
            };
            let Some(reply) = reply else {
                unread += nodes.len();
                continue;
            };
            for CellsOfRow { n, values } in reply.rows {
                let Some(place) = n.checked_sub(1).filter(|place| *place < nodes.len()) else {
                    continue;
                };
                for (column, value) in cells.iter_mut().zip(values) {
                    let value = value.unwrap_or_default();
                    if let Some(cell) = column.get_mut(at * ROWS_A_REQUEST + place) {
                        *cell = cut(value.trim(), NAME_CHARS);
                    }
                }
            }
        }
        Ok((cells, unread))
    }
}

fn note(left_out: &mut Vec<LeftOut>, rows: usize, why: String) {
    left_out.extend((rows > 0).then_some(LeftOut { rows, why }));
}
