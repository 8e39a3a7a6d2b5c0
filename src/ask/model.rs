//! Lets a language model read a question and write a plan for each reading, and fill the text
//! columns of a plan from the documents of the plan's rows.
//!
//! A plan is checked against the base and run before it is accepted: the types, relations, fields,
//! nodes and values in the plan must exist, and there must be rows. If the reply is wrong, the
//! model may correct it once. Several plans are several readings of the question. The model never
//! computes numbers; the SQL statement of a plan can only read the plan's table, as SQLite's
//! authorizer enforces. The steps of SRAG (rows, columns, cells, SQL) are parts of the plan.
//!
//! A cell is empty if the row's document does not state its value or if the model's reply is
//! unusable; the number of such rows is reported.
//!
//! Does not depend on how models are reached, on the cost of replies or on the rules that read
//! questions without a model.

use std::sync::Arc;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value as Json, json};

use crate::{
    AskError,
    answer::{Answered, LeftOut},
    mentions::{Mentions, What},
    plan::{Measure, Operation, Plan, TextColumn},
    run,
    schema::{FieldValue, Schema, types_of},
    settled::settled,
};
use agent_ground::words::cut;
use agent_index::excerpt::text_about;
use agent_infer::RequestBounds;
use agent_kb::{
    Kb, NodeId, TypeId,
    table::{Budget, Column, of_texts},
};
use agent_llm::{LlmError, RoleSpec};
use agent_tools::{Assistant, AssistantError, schema_text};

/// The role of the language model that writes plans and reads cells.
pub const ASK_ROLE: RoleSpec = RoleSpec {
    name: "ask",
    summary: "answers questions over many nodes",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// Name of the prompt that asks for plans.
const PLAN: &str = "ask/plan";
/// Bounds on the number of requests to the model for one question. The maximum is the sum of the
/// requests for the plans, for their correction and for the cells of every plan, each with one
/// repair of an invalid reply.
pub const ASK_ASKS: RequestBounds = RequestBounds {
    role: ASK_ROLE,
    prompt: PLAN,
    later: None,
    min: 1,
    max: 2 * 2 + 2 * MAX_PLANS * MAX_READ_REQUESTS,
};
/// Name of the prompt that asks for cells.
const CELLS: &str = "ask/cells";
/// Maximum number of rows of a plan whose cells are read from documents; later rows stay empty.
const MAX_READ: usize = 500;
/// Number of rows whose documents are in one request to the model; the last request may have fewer.
const ROWS_A_REQUEST: usize = 10;
/// Maximum number of requests to the model for the cells of one plan.
const MAX_READ_REQUESTS: usize = MAX_READ / ROWS_A_REQUEST;
/// Maximum length in characters of the excerpt from each document in a request.
const DOCUMENT_CHARS: usize = 1_500;
/// Maximum number of plans that are used from one reply.
const MAX_PLANS: usize = 3;
/// Maximum number of lines in the prompt that list names of nodes and values.
const MAX_NAMES: usize = 40;
/// Maximum number of nodes in the prompt that are only linked to the question; nodes whose names
/// the question spells out are not counted.
const LINKED: usize = 10;
/// Maximum number of node ids in the prompt for one name.
const MAX_IDS: usize = 10;
/// Maximum number of fields in the prompt for each type.
const MAX_FIELDS: usize = 40;
/// Maximum number of example values in the prompt for each field.
const SHOWN_VALUES: usize = 12;
/// Maximum length in characters of a name in the prompt or of a cell that was read; longer ones are
/// cut.
const NAME_CHARS: usize = 100;
/// Maximum length in characters of an example value in the prompt; longer values are cut.
const EXAMPLE_CHARS: usize = 40;

/// Why the language model gave no answer.
pub(super) enum Failed {
    /// A reply is unusable; holds the reason.
    Unusable(String),
    /// The model replied that the base cannot answer the question; holds the model's reason.
    Declined(String),
    /// An error after which the rules are not tried, such as a question with several readings or a
    /// failed request.
    Ends(AskError),
}

impl From<AssistantError> for Failed {
    fn from(error: AssistantError) -> Self {
        match error {
            AssistantError::Llm(error @ LlmError::Reply { .. }) => {
                Self::Unusable(error.to_string())
            }
            AssistantError::Llm(error) => Self::Ends(AskError::Llm(error)),
            AssistantError::Prompt(error) => Self::Ends(AskError::Prompt(error.to_string())),
        }
    }
}

/// The reply to the prompt [`PLAN`]: a plan for each reading of the question, or, if there are
/// none, the reason `why` the base cannot answer it.
#[derive(Deserialize)]
struct PlanReply {
    plans: Vec<Json>,
    why: String,
}

#[derive(Deserialize)]
struct CellsReply {
    rows: Vec<CellsOfRow>,
}

#[derive(Deserialize)]
struct CellsOfRow {
    n: usize,
    values: Vec<Option<String>>,
}

/// A language model that writes the plans of questions about one base.
#[derive(Clone, Copy)]
pub(super) struct Model<'a> {
    pub(super) schema: &'a Schema,
    pub(super) assistant: &'a Arc<Assistant>,
}

impl<'a> Model<'a> {
    fn kb(self) -> &'a Kb {
        &self.schema.base.kb
    }

    /// Answers a question by the model's plans. Of several readings, takes the one with number
    /// `wanted`, from 1; if `wanted` is `None`, takes the first if all have the same answer.
    pub(super) fn answer(
        self,
        question: &str,
        mentions: &Mentions,
        wanted: Option<usize>,
    ) -> Result<Answered, Failed> {
        let mut inputs = self.inputs(question, mentions);
        let (mut failed, mut reason) = (String::new(), String::new());
        for _ in 0..2 {
            inputs["failed"] = json!(failed);
            let PlanReply { plans, why } = self.ask(PLAN, inputs.clone())?;
            if plans.is_empty() {
                return Err(Failed::Declined(why));
            }
            match self.run_all(&plans, wanted) {
                Ok(answered) => return Ok(answered),
                Err(
                    error
                    @ (AskError::Ambiguous(_) | AskError::NoReading { .. } | AskError::Llm(_)),
                ) => return Err(Failed::Ends(error)),
                Err(error) => {
                    reason = error.to_string();
                    failed = format!("{}\n{reason}", Json::from(plans));
                }
            }
        }
        Err(Failed::Unusable(reason))
    }

    /// Runs the first [`MAX_PLANS`] plans of a reply and returns the answer of one reading, chosen
    /// by `wanted` as in [`answer`](Self::answer).
    fn run_all(self, plans: &[Json], wanted: Option<usize>) -> Result<Answered, AskError> {
        let read = |document: &Json| {
            let plan = Plan::from_document(self.schema, document);
            let mut plan = plan.map_err(AskError::Plan)?;
            plan.assumed.push("the language model wrote the plan".to_owned());
            Ok(plan)
        };
        // One wrong plan makes the reply unusable, so that the model corrects all plans.
        let plans: Vec<Plan> =
            plans.iter().take(MAX_PLANS).map(read).collect::<Result<_, AskError>>()?;
        let plans = plans.into_iter().map(Ok).collect();
        settled(self.kb(), plans, wanted, |plan| self.run(plan))
    }

    /// Runs a plan; if it has text columns, the language model reads their cells first.
    pub(super) fn run(self, plan: &Plan) -> Result<Answered, AskError> {
        if plan.texts.is_empty() {
            return run::run(self.kb(), plan, &[]);
        }
        let (columns, left_out) = self.read_texts(plan)?;
        plan.check(self.schema, &columns).map_err(AskError::Plan)?;
        let mut answered = run::run(self.kb(), plan, &columns)?;
        answered.left_out.extend(left_out);
        Ok(answered)
    }

    /// Sends a prompt with its inputs to the model and parses the reply from JSON.
    fn ask<T: DeserializeOwned>(self, prompt: &str, inputs: Json) -> Result<T, Failed> {
        let reply = self.assistant.json(ASK_ROLE.role(), prompt, inputs)?;
        serde_json::from_value(reply).map_err(|error| Failed::Unusable(error.to_string()))
    }

    /// Builds the inputs of the prompt [`PLAN`]: the schema, the fields, the names in the question,
    /// and the question. The input `failed`, which holds plans to correct, is empty.
    fn inputs(self, question: &str, mentions: &Mentions) -> Json {
        let lines = |lines: Vec<String>| -> Vec<Json> {
            lines.into_iter().map(|text| json!({"text": text})).collect()
        };
        json!({
            "schema": schema_text(self.kb()),
            "fields": lines(self.fields()),
            "names": lines(self.names(question, mentions)),
            "failed": "",
            "question": question,
        })
    }

    /// Describes the fields of every type, one line for each field: kind, unit, number of sampled
    /// nodes with a value, some values.
    fn fields(self) -> Vec<String> {
        let kb = self.kb();
        let mut lines = Vec::new();
        for kind in types_of(kb) {
            for sample in self.schema.samples(kind).iter().take(MAX_FIELDS) {
                let values = sample.values.iter().take(SHOWN_VALUES);
                let values: Vec<String> =
                    values.map(|value| cut(value, EXAMPLE_CHARS, "")).collect();
                let more = sample.values.len() > values.len();
                lines.push(format!(
                    "{}.{}: {}{}, in {} of {}{}{}{}",
                    kb.type_name(kind),
                    kb.field_name(sample.field),
                    sample.kind.name(),
                    sample.unit.as_deref().map_or(String::new(), |unit| format!(" in {unit}")),
                    sample.filled,
                    sample.seen,
                    if values.is_empty() { "" } else { ": " },
                    values.join(" | "),
                    if more { " and others" } else { "" },
                ));
            }
        }
        lines
    }

    /// Lists the names that the question may contain, one per line, at most [`MAX_NAMES`]: first
    /// nodes whose names it spells out, then nodes linked to it, then values of fields.
    fn names(self, question: &str, mentions: &Mentions) -> Vec<String> {
        let kb = self.kb();
        let things = || {
            mentions.all.iter().filter_map(|mention| match &mention.what {
                What::Thing(thing) => Some(thing),
                _ => None,
            })
        };
        let mut nodes: Vec<NodeId> = things().flat_map(|thing| thing.nodes.clone()).collect();
        let linked = self.schema.base.entities.link(kb, question, &[], LINKED);
        nodes.extend(linked.ranking().into_iter().map(|(node, _)| node));
        // Groups nodes by name and type, in the order of their first nodes.
        let mut named: Vec<(&str, TypeId, Vec<NodeId>)> = Vec::new();
        for node in nodes {
            let (name, kind) = (kb.name(node), kb.node_type(node));
            match named.iter_mut().find(|(own, of, _)| (*own, *of) == (name, kind)) {
                Some((.., own)) if own.contains(&node) => {}
                Some((.., own)) => own.push(node),
                None => named.push((name, kind, vec![node])),
            }
        }
        let of_nodes = named.into_iter().map(|(name, kind, own)| {
            let ids: Vec<String> = own.iter().take(MAX_IDS).map(u32::to_string).collect();
            let more = if own.len() > ids.len() { " and more, by the name" } else { "" };
            let name = cut(name, NAME_CHARS, "");
            format!("node {name:?} ({}): {}{more}", kb.type_name(kind), ids.join(", "))
        });
        let of_values =
            things().flat_map(|thing| &thing.values).map(|FieldValue { kind, field, key }| {
                format!("value {key:?} of {}.{}", kb.type_name(*kind), kb.field_name(*field))
            });
        of_nodes.chain(of_values).take(MAX_NAMES).collect()
    }

    /// Reads the text columns of a plan, but only for the first [`MAX_READ`] rows that satisfy the
    /// filters on the plan's other columns. Returns the columns, with a cell for each row of the
    /// plan, and how many rows have no value, for each reason.
    fn read_texts(self, plan: &Plan) -> Result<(Vec<Column>, Vec<LeftOut>), AskError> {
        let rows = run::rows(self.kb(), plan, &Budget::start())?;
        let left = self.without_texts(plan, &rows)?;
        let read = left.get(..left.len().min(MAX_READ)).unwrap_or_default();
        let (texts, unread) = self.read_cells(&plan.texts, read)?;
        let mut left_out = Vec::new();
        let why = "the language model's reply for these rows is unusable";
        note(&mut left_out, unread, why.to_owned());
        let why = format!("not read: only the documents of the first {MAX_READ} rows are read");
        note(&mut left_out, left.len() - read.len(), why);
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
        Ok((columns, left_out))
    }

    /// Returns the nodes of `rows` that satisfy all filters on columns other than text columns,
    /// ascending.
    fn without_texts(self, plan: &Plan, rows: &[NodeId]) -> Result<Vec<NodeId>, AskError> {
        let is_known = |at: usize| at < plan.columns.len();
        let mut known = plan.clone();
        known.filters.retain(|test| test.columns().into_iter().all(is_known));
        known.texts = Vec::new();
        known.supposed = None;
        known.operation = Operation::Number(Measure::Rows);
        let counted = run::run(self.kb(), &known, &[])?.counted;
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
                let name = self.kb().name(node);
                let text = text_about(&self.schema.base, node, &wanted, DOCUMENT_CHARS);
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
                if !(1..=nodes.len()).contains(&n) {
                    continue;
                }
                for (column, value) in cells.iter_mut().zip(values) {
                    if let Some(cell) = column.get_mut(at * ROWS_A_REQUEST + n - 1) {
                        *cell = cut(value.unwrap_or_default().trim(), NAME_CHARS, "");
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
