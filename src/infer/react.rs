//! `react`: a language model calls tools step by step and names the answers.
//!
//! Source: ReAct (Yao et al. 2023), the baseline of AvaTaR (Wu et al. 2024). Differences:
//!
//! - The model may call the tools that programs may call, but tools that ask a model only if the
//!   caller allows them.
//! - Later calls refer to results by call number, even in the same turn.
//! - Sets and scores are shown by their best nodes; the shortlist shows relations with directions.
//! - A turn only appends to the conversation, so that services can cache its prefix.
//! - Ids that the base does not have are ignored. Nodes of the shortlist that the model does not
//!   name follow in the order of the shortlist.

use std::{sync::Arc, time::Duration};

use serde_json::{Value as Json, json};

use crate::{
    RequestBounds, in_order,
    shown::{LinkedEntities, RELATION_CHARS},
};
use agent_ground::words::{cut, one_line};
use agent_index::{IndexedBase, Part};
use agent_kb::{
    Kb, NodeId,
    answer::{Cell, Explanation},
};
use agent_llm::{LlmError, Message, Request, RoleSpec, prompts::PromptError};
use agent_retrieve::{
    Answer, Detail, RetrieveError, Retriever, check_query, rank_explanation, shortlist,
};
use agent_tools::{
    Assistant, Kind, NodeFlow, Session, ToolCache, ToolError, ToolHost, ToolSpec, ToolkitScope,
    Value, registry, schema_text, source::literal, toolkit_text,
};

/// The role that calls tools step by step to answer one query.
pub const REACT_ROLE: RoleSpec = RoleSpec {
    name: "react",
    summary: "calls tools step by step",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// Maximum processor time of one tool call.
const CALL_DEADLINE: Duration = Duration::from_secs(2);
/// Maximum number of turns for one query.
const MAX_TURNS: usize = 12;
/// Maximum number of tool calls for one query.
const MAX_CALLS: usize = 30;
/// Maximum number of tool calls of one turn.
const CALLS_PER_TURN: usize = 5;
/// Default number of shortlist nodes in the prompt.
const SHOWN: usize = 20;
/// Maximum length in characters of a shortlist node's document in the prompt.
const SHOWN_CHARS: usize = 300;
/// Maximum number of nodes that the model may name.
const MAX_NAMED: usize = 100;
/// Maximum number of nodes or items of a result in a prompt.
const SHOWN_ITEMS: usize = 20;
/// Maximum length in characters of a result in a prompt.
const RESULT_CHARS: usize = 2_000;
/// Suffix of a cut text.
const CUT: &str = " [cut]";
/// Name of the system.
const NAME: &str = "react";
/// Name of the prompt of the first turn; the next constant names the prompt of later turns.
const PROMPT: &str = "react/step";
const RESULTS_PROMPT: &str = "react/results";
/// Group of the tools that ask a language model.
const LLM_GROUP: &str = "llm";

/// Request bounds for one query: a request and its repair per turn.
pub const REACT_REQUESTS: RequestBounds = RequestBounds {
    role: REACT_ROLE,
    prompt: PROMPT,
    later: Some((RESULTS_PROMPT, MAX_TURNS - 1)),
    min: 1,
    max: 2 * MAX_TURNS,
};

/// Answers a query in at most 12 turns with at most 30 tool calls. The `i`-th of `n` nodes that the
/// model names, from 0, has the score `(n - i) / n`. Other nodes of the shortlist follow with
/// scores -1, -2, ... The query fails if the model names no node.
pub struct React {
    base: Arc<IndexedBase>,
    assistant: Arc<Assistant>,
    cache: Option<Arc<ToolCache>>,
    schema: String,
    toolkit: String,
    /// Whether tools that ask a model may be called.
    llm_tools: bool,
    /// Number of shortlist nodes in the prompt; `None` for the default.
    shown: Option<usize>,
}

/// A tool call of the model, with its result.
#[derive(Clone, Debug)]
struct Step {
    /// The call as written by the model.
    call: String,
    /// The result as shown in the prompt.
    result: String,
    /// The result, to which later calls may refer; `None` if the call failed.
    value: Option<Value>,
}

impl React {
    /// Creates the retriever. With a cache, equal tool calls are computed once.
    pub fn new(
        base: Arc<IndexedBase>,
        assistant: Arc<Assistant>,
        cache: Option<Arc<ToolCache>>,
        llm_tools: bool,
    ) -> Self {
        let schema = schema_text(&base.kb);
        let query = base.part(Part::Query).is_ok();
        let toolkit = toolkit_text(&base.kb, ToolkitScope { avatar: true, llm: llm_tools, query });
        Self { base, assistant, cache, schema, toolkit, llm_tools, shown: None }
    }

    /// Puts the first `k` nodes of the shortlist into the prompt [default: 20].
    #[must_use]
    pub fn showing(self, k: usize) -> Self {
        Self { shown: Some(k), ..self }
    }

    /// Returns the number of shortlist nodes in the prompt.
    fn n_shown(&self) -> usize {
        self.shown.unwrap_or(SHOWN)
    }

    /// Runs the turns; returns the distinct nodes that the model names as answers, best first, and
    /// the model's tool calls.
    fn run_turns(
        &self,
        query: &str,
        shortlist: &[NodeId],
    ) -> Result<(Vec<NodeId>, Vec<Step>), RetrieveError> {
        let assistant = self.llm_tools.then(|| self.assistant.clone());
        let mut session =
            Session::new(self.base.clone(), self.cache.clone()).with_assistant(assistant);
        let mut steps: Vec<Step> = Vec::new();
        let mut request = self.first_request(query, shortlist)?;
        for turn in 1..=MAX_TURNS {
            let action = self.assistant.llm().ask_json(&request).map_err(model_error)?;
            if action["finish"] == json!(true) {
                let named = self.known_nodes(&action["ids"]);
                if named.is_empty() {
                    return Err(failed("the model named no node of the base"));
                }
                return Ok((named, steps));
            }
            let calls = action["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
            let before = steps.len();
            for call in calls.iter().take(CALLS_PER_TURN.min(MAX_CALLS - before)) {
                let step = self.step(&mut session, call, &steps)?;
                steps.push(step);
            }
            if turn < MAX_TURNS {
                request.messages.push(Message::assistant(action.to_string()));
                let news =
                    self.turn_message(&steps, before, MAX_TURNS - turn).map_err(prompt_error)?;
                request.messages.push(Message::user(news));
            }
        }
        Err(failed(&format!("no answer after {MAX_TURNS} turns")))
    }

    /// Renders the first request. Its prompt starts with the part that is the same for all queries.
    fn first_request(&self, query: &str, shortlist: &[NodeId]) -> Result<Request, RetrieveError> {
        let linked = LinkedEntities::link(&self.base, query);
        let shown = |&node: &NodeId| {
            let text = linked.candidate(node, query, SHOWN_CHARS);
            json!({"id": node, "name": self.base.kb.name(node), "text": text})
        };
        let nodes: Vec<Json> = shortlist.iter().take(self.n_shown()).map(shown).collect();
        let inputs = json!({
            "schema": self.schema, "toolkit": self.toolkit, "query": query,
            "entities": linked.shown(RELATION_CHARS), "shortlist": nodes,
            "turns": MAX_TURNS, "calls": MAX_CALLS,
        });
        self.assistant.request(REACT_ROLE.role(), PROMPT, inputs, 0).map_err(prompt_error)
    }

    /// Renders the message that a turn adds to the conversation: the results of its calls.
    fn turn_message(
        &self,
        steps: &[Step],
        before: usize,
        turns_left: usize,
    ) -> Result<String, PromptError> {
        let new: Vec<Json> = steps
            .iter()
            .enumerate()
            .skip(before)
            .map(|(at, one)| json!({"number": at + 1, "call": one.call, "result": one.result}))
            .collect();
        let problem = match new.is_empty() {
            true => "Nothing was called; call a function or finish.",
            false => "",
        };
        let inputs = json!({
            "steps": new, "problem": problem, "turns_left": turns_left,
            "calls_left": MAX_CALLS - steps.len(), "next": steps.len() + 1,
        });
        Ok(self.assistant.prompts().render(RESULTS_PROMPT, inputs)?.user)
    }

    /// Makes one tool call of the model. Spent budgets, deadlines and internal errors fail the
    /// query; other errors are shown to the model as the call's result.
    fn step(
        &self,
        session: &mut Session,
        call: &Json,
        steps: &[Step],
    ) -> Result<Step, RetrieveError> {
        let name = call["tool"].as_str().unwrap_or_default();
        let args = call["args"].as_array().map(Vec::as_slice).unwrap_or_default();
        session.begin(CALL_DEADLINE);
        let result = call_tool(session, name, args, steps, self.llm_tools);
        if let Some(error) = session.outage() {
            return Err(error.into());
        }
        let written: Vec<String> = args.iter().map(Json::to_string).collect();
        let call = cut(&format!("{name}({})", written.join(", ")), RESULT_CHARS, CUT);
        match result {
            Ok(value) => {
                let result = cut(&describe(&self.base.kb, &value), RESULT_CHARS, CUT);
                Ok(Step { call, result, value: Some(value) })
            }
            Err(
                error @ (ToolError::Budget(_) | ToolError::Deadline(_) | ToolError::Internal(_)),
            ) => Err(failed(&format!("{name}: {error}"))),
            Err(error) => Ok(Step { call, result: format!("failed: {error}"), value: None }),
        }
    }

    /// Returns the distinct ids of a list that exist in the base, in order, at most [`MAX_NAMED`].
    fn known_nodes(&self, ids: &Json) -> Vec<NodeId> {
        let mut known = Vec::new();
        for id in ids.as_array().into_iter().flatten().filter_map(Json::as_u64) {
            let node = NodeId::try_from(id).ok().filter(|&node| self.base.kb.contains(node));
            if let Some(node) = node
                && !known.contains(&node)
                && known.len() < MAX_NAMED
            {
                known.push(node);
            }
        }
        known
    }
}

fn failed(why: &str) -> RetrieveError {
    RetrieveError::Program(format!("react: {why}"))
}

fn model_error(error: LlmError) -> RetrieveError {
    match error {
        error if error.ends_run() => error.into(),
        LlmError::Reply { reason, .. } => failed(&reason),
        error => failed(&error.to_string()),
    }
}

fn prompt_error(error: PromptError) -> RetrieveError {
    failed(&error.to_string())
}

/// Calls the tool named `name`. If several tools have that name, calls the first whose parameters
/// accept the arguments.
fn call_tool(
    session: &mut Session,
    name: &str,
    args: &[Json],
    steps: &[Step],
    llm_tools: bool,
) -> Result<Value, ToolError> {
    let values: Result<Vec<Value>, ToolError> =
        args.iter().map(|arg| value_of(arg, steps)).collect();
    let values = values?;
    // Notes go to the author of a program, so they are not offered.
    let offered =
        |spec: &ToolSpec| spec.flow != NodeFlow::Note && (llm_tools || spec.group != LLM_GROUP);
    let named = |spec: &ToolSpec| spec.name == name && offered(spec);
    let specs: Vec<(usize, &ToolSpec)> =
        registry().iter().enumerate().filter(|(_, spec)| named(spec)).collect();
    let Some(&(first, spec)) = specs.first() else {
        let mut near: Vec<(usize, &str)> = registry()
            .iter()
            .filter(|spec| offered(spec))
            .map(|spec| (strsim::levenshtein(name, spec.name), spec.name))
            .collect();
        near.sort_unstable();
        let near: Vec<&str> = near.iter().take(3).map(|one| one.1).collect();
        return Err(ToolError::NotFound(format!(
            "there is no function {name:?}; similar names: {}",
            near.join(", ")
        )));
    };
    let takes = |spec: &ToolSpec| {
        (spec.min_args()..=spec.args.len()).contains(&values.len())
            && spec.args.iter().zip(&values).all(|(arg, value)| suits(arg.kind, value))
    };
    let tool = specs.iter().find(|(_, spec)| takes(spec)).map_or(first, |one| one.0);
    if !(spec.min_args()..=spec.args.len()).contains(&values.len()) {
        return Err(ToolError::BadArgs(format!(
            "{} arguments were given; its signature is {}",
            values.len(),
            spec.signature()
        )));
    }
    session.call(tool, values)
}

/// Whether a value can be passed as an argument of this kind.
fn suits(kind: Kind, value: &Value) -> bool {
    match kind {
        Kind::Nodes => {
            matches!(value, Value::Nodes(_) | Value::Scores(_) | Value::List(_) | Value::Int(_))
        }
        Kind::Scores => matches!(value, Value::Scores(_)),
        Kind::Number | Kind::Int => matches!(value, Value::Int(_) | Value::Float(_)),
        Kind::Text => matches!(value, Value::Text(_)),
        Kind::Vector => matches!(value, Value::Vector(_)),
        _ => true,
    }
}

/// Converts an argument to a value; a text such as `$1` refers to the result of that call.
fn value_of(arg: &Json, steps: &[Step]) -> Result<Value, ToolError> {
    Ok(match arg {
        Json::String(text) => match text.trim().strip_prefix('$').map(str::parse::<usize>) {
            Some(Ok(number)) => result_of(number, steps)?,
            _ => Value::text(text),
        },
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Value::Int(integer),
            None => Value::Float(number.as_f64().unwrap_or_default()),
        },
        Json::Array(items) => {
            let values: Result<Vec<Value>, ToolError> =
                items.iter().map(|item| value_of(item, steps)).collect();
            Value::List(values?)
        }
        Json::Null => Value::Unit,
        Json::Object(_) => {
            return Err(ToolError::BadArgs("an argument is an object; give plain values".into()));
        }
    })
}

/// Returns the result of an earlier call by the call's number, from 1; fails if there is no such
/// call or if the call failed.
fn result_of(number: usize, steps: &[Step]) -> Result<Value, ToolError> {
    match number.checked_sub(1).and_then(|at| steps.get(at)) {
        Some(Step { value: Some(value), .. }) => Ok(value.clone()),
        Some(_) => {
            Err(ToolError::BadArgs(format!("call {number} failed, so there is no ${number}")))
        }
        None => Err(ToolError::BadArgs(format!("there is no call {number} before this one"))),
    }
}

/// Formats a result as text, with the ids of its best nodes.
fn describe(kb: &Kb, value: &Value) -> String {
    let named = |node: NodeId| {
        format!("{node} {} ({})", literal(kb.name(node)), kb.type_name(kb.node_type(node)))
    };
    let more = |n: usize| if n > SHOWN_ITEMS { ", ..." } else { "" };
    match value {
        Value::Unit => "nothing".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:.4}"),
        Value::Text(text) => text.to_string(),
        Value::Nodes(nodes) => {
            let n = nodes.len();
            let shown: Vec<String> =
                nodes.as_slice().iter().take(SHOWN_ITEMS).map(|&node| named(node)).collect();
            format!("{n} nodes: {}{}", shown.join(", "), more(n))
        }
        Value::Scores(scores) => {
            let n = scores.len();
            let best = scores.top(SHOWN_ITEMS).ranking();
            let shown: Vec<String> =
                best.iter().map(|&(node, score)| format!("{} {score:.4}", named(node))).collect();
            format!("{n} scores: {}{}", shown.join(", "), more(n))
        }
        Value::Vector(vector) => format!("vector of {}", vector.len()),
        Value::List(values) => {
            let shown: Vec<String> =
                values.iter().take(SHOWN_ITEMS).map(|value| describe(kb, value)).collect();
            format!("[{}{}]", shown.join(", "), more(values.len()))
        }
        Value::Map(map) => {
            let shown: Vec<String> = map
                .iter()
                .take(SHOWN_ITEMS)
                .map(|(name, value)| format!("{name}: {}", describe(kb, value)))
                .collect();
            format!("{{{}{}}}", shown.join("; "), more(map.len()))
        }
    }
}

impl Retriever for React {
    fn name(&self) -> String {
        let llm_tools = if self.llm_tools { ":llm-tools" } else { "" };
        let shown = self.shown.map_or_else(String::new, |k| format!(":k={k}"));
        format!("{NAME}{llm_tools}{shown}")
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let shortlist = shortlist(&self.base, query, k.max(self.n_shown()))?;
        let (named, steps) = self.run_turns(query, &shortlist)?;
        let mut ranking = in_order(&named);
        let rest = shortlist.iter().filter(|node| !named.contains(node)).zip(1..);
        ranking.extend(rest.map(|(&node, behind)| (node, -(behind as f32))));
        ranking.truncate(k);
        let explained = |at, node, score| {
            let place = |list: &[NodeId]| list.iter().position(|&other| other == node);
            let judgement = match (place(&named), place(&shortlist)) {
                (Some(at), _) => Explanation::new("named as answer", at + 1),
                (None, Some(at)) => Explanation::new("not named; rank in the shortlist", at + 1),
                (None, None) => Explanation::new("not named", Cell::Empty),
            };
            let steps = steps.iter().map(|step| {
                Explanation::new("call", one_line(&step.call))
                    .with([Explanation::new("result", one_line(&step.result))])
            });
            rank_explanation(NAME, at, score).with([judgement]).with(steps)
        };
        Ok(Answer::with_explanations(ranking, detail, explained))
    }
}
