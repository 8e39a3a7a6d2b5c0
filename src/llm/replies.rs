//! Extracts programs and JSON values from replies of language models; asks a model again to repair
//! an invalid JSON value.
//!
//! Replies are untrusted: any text is safe to parse, in time linear in its length. An ambiguous
//! reply is refused with a reason that can be sent to the model.

mod schema;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    Finish, Llm, LlmError, Message, Reply, Request, Schema, Usage, replies::schema::Validator,
};

/// Maximum length in bytes of the reason, sent to the model, why a JSON reply is refused.
const MAX_REASON_BYTES: usize = 500;
/// Maximum number of schema errors reported for one JSON reply.
const MAX_ERRORS: usize = 5;
/// Delimiters of the hidden reasoning that some models put before their reply.
const THOUGHTS: (&str, &str) = ("<think>", "</think>");
/// Beginnings of replies that refuse the task, in lower case.
const REFUSALS: [&str; 8] = [
    "i'm sorry",
    "i’m sorry",
    "i am sorry",
    "sorry,",
    "i cannot",
    "i can't",
    "i can’t",
    "as an ai",
];

/// Why no program can be extracted from a reply; the message is sent to the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    /// The reply is empty.
    #[error("the reply is empty; reply with one fenced block that holds the whole program")]
    Empty,
    /// The model or a filter of its service refuses the task; holds the beginning of the reply.
    #[error("the reply refuses the task: {0}")]
    Refusal(String),
    /// The reply ends before its program or its hidden reasoning is complete.
    #[error(
        "the reply ends before its program does; reply with a shorter program, in one fenced block \
         that is closed"
    )]
    CutOff,
    /// The reply is text without a program.
    #[error(
        "the reply holds no program; reply with one fenced block that holds \
         fn retrieve(query, candidates, params)"
    )]
    Prose,
    /// The reply has several fenced blocks, and none is a program; holds their number.
    #[error(
        "the reply has {0} fenced blocks and none holds fn retrieve(query, candidates, params); \
         reply with one fenced block that holds the whole program"
    )]
    Several(usize),
    /// The reply is JSON instead of a program.
    #[error("the reply is JSON; reply with one fenced block that holds the program as it is")]
    Json,
}

/// Extracts the program from the text of a reply: the last fenced block with `fn retrieve`;
/// otherwise the only fenced block; otherwise the whole text, if it begins like a program and has
/// `fn retrieve`. A reply with an unclosed block is refused, so that a program is never incomplete.
///
/// # Errors
/// [`NoProgram`], with the reason.
pub fn extract_program(text: &str, finish: Finish) -> Result<String, NoProgram> {
    let Some(text) = spoken(text) else { return Err(NoProgram::CutOff) };
    if finish == Finish::Filter {
        return Err(NoProgram::Refusal(bounded(text.trim(), 200)));
    }
    if text.trim().is_empty() {
        return Err(NoProgram::Empty);
    }
    let (fences, all_closed) = fences(text);
    if !all_closed {
        return Err(NoProgram::CutOff);
    }
    let best = fences.iter().rev().find(|fence| has_retrieve(&fence.body));
    match (best, &fences[..]) {
        (Some(fence), _) => Ok(fence.body.clone()),
        (None, []) => without_fences(text, finish),
        (None, [only]) if is_json(&only.body) || only.tag.eq_ignore_ascii_case("json") => {
            Err(NoProgram::Json)
        }
        (None, [only]) if only.body.trim().is_empty() => Err(NoProgram::Prose),
        (None, [only]) => Ok(only.body.clone()),
        (None, several) => Err(NoProgram::Several(several.len())),
    }
}

/// Extracts the program from a text without fenced blocks: the whole text, if it is a program.
fn without_fences(text: &str, finish: Finish) -> Result<String, NoProgram> {
    if finish == Finish::Length {
        return Err(NoProgram::CutOff);
    }
    let trimmed = text.trim();
    let starts = ["//", "/*", "fn ", "private fn ", "const "];
    if starts.iter().any(|start| trimmed.starts_with(start)) && has_retrieve(trimmed) {
        return Ok(format!("{trimmed}\n"));
    }
    if is_json(trimmed) {
        return Err(NoProgram::Json);
    }
    let lower: String = trimmed.chars().take(20).flat_map(char::to_lowercase).collect();
    if REFUSALS.iter().any(|start| lower.starts_with(start)) {
        return Err(NoProgram::Refusal(bounded(trimmed, 200)));
    }
    Err(NoProgram::Prose)
}

/// Whether a text is a JSON object or list.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Whether a line of the text begins the function `retrieve`.
fn has_retrieve(text: &str) -> bool {
    text.lines().any(|line| {
        let words = line.trim_start().strip_prefix("fn").map(str::trim_start);
        let name = words.and_then(|words| words.strip_prefix("retrieve"));
        name.is_some_and(|rest| rest.trim_start().starts_with('('))
    })
}

/// Returns the reply without the hidden reasoning `<think>...</think>` at its beginning; `None` if
/// the reasoning does not end.
fn spoken(text: &str) -> Option<&str> {
    match text.trim_start().strip_prefix(THOUGHTS.0) {
        Some(thoughts) => thoughts.split_once(THOUGHTS.1).map(|(_, spoken)| spoken),
        None => Some(text),
    }
}

/// A fenced block of Markdown.
struct Fence {
    /// Text after the opening marks, such as `json`.
    tag: String,
    /// Lines inside the block, each with its line end.
    body: String,
}

/// Returns the closed fenced blocks of a text, and whether all its blocks are closed.
fn fences(text: &str) -> (Vec<Fence>, bool) {
    let mut fences = Vec::new();
    let mut open: Option<(char, usize, Fence)> = None;
    for line in text.lines() {
        let marks = fence_marks(line);
        match (&mut open, marks) {
            (Some((mark, n, _)), Some((other, m, rest)))
                if *mark == other && m >= *n && rest.is_empty() =>
            {
                fences.extend(open.take().map(|(_, _, fence)| fence));
            }
            (Some((_, _, fence)), _) => {
                fence.body.push_str(line);
                fence.body.push('\n');
            }
            (None, Some((mark, n, rest))) => {
                // Inline code is not a block.
                if !rest.contains('`') {
                    open = Some((mark, n, Fence { tag: rest.to_owned(), body: String::new() }));
                }
            }
            (None, None) => {}
        }
    }
    let all_closed = open.is_none();
    (fences, all_closed)
}

/// Splits a line that can open or close a fenced block, such as three backticks and `json`. Returns
/// the mark, the number of marks and the rest of the line; `None` for other lines.
fn fence_marks(line: &str) -> Option<(char, usize, &str)> {
    let line = line.trim();
    let mark = line.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let rest = line.trim_start_matches(mark);
    let n = line.len() - rest.len();
    (n >= 3).then(|| (mark, n, rest.trim()))
}

/// Extracts the JSON value from the text of a reply: the whole text, its only fenced block, or the
/// first object in it. The returned value follows the schema.
///
/// # Errors
/// Why there is no valid value, in at most 500 bytes; the text can be sent to the model.
pub fn extract_json(text: &str, schema: &Schema) -> Result<Value, String> {
    let text = spoken(text).unwrap_or_default();
    if text.trim().is_empty() {
        return Err("the reply is empty; reply with the JSON value".to_owned());
    }
    let value = read_json(text).map_err(|reason| bounded(&reason, MAX_REASON_BYTES))?;
    let validator = Validator::deserialize(&schema.schema)
        .map_err(|error| bounded(&format!("the schema is wrong: {error}"), MAX_REASON_BYTES))?;
    let errors: Vec<String> = validator
        .errors(&value)
        .into_iter()
        .map(|(place, message)| {
            let place = if place.is_empty() { "the value" } else { &place };
            format!("{place}: {}", bounded(&message, 160))
        })
        .collect();
    if errors.is_empty() {
        return Ok(value);
    }
    let reason = format!("the JSON does not have the form asked for: {}", errors.join("; "));
    Err(bounded(&reason, MAX_REASON_BYTES))
}

/// Finds a JSON value in a text: the whole text, its only fenced block, or the first object in it;
/// `Err` holds the reason if there is none.
fn read_json(text: &str) -> Result<Value, String> {
    let whole = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let (fences, _) = fences(text);
    if let [only] = &fences[..]
        && let Ok(value) = serde_json::from_str(&only.body)
    {
        return Ok(value);
    }
    let Some(start) = text.find('{') else {
        return Err("the reply holds no JSON object; reply with JSON only".to_owned());
    };
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) => Ok(value),
        _ => Err(format!("the reply is no valid JSON: {whole}; reply with JSON only")),
    }
}

/// Returns the text, cut to at most `max_bytes` bytes; a cut text ends with ` ...`.
fn bounded(text: &str, max_bytes: usize) -> String {
    const CUT: &str = " ...";
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    format!("{}{CUT}", &text[..text.floor_char_boundary(max_bytes - CUT.len())])
}

/// Numbers of requests and tokens, cached replies included; for example, of a request with its
/// repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskUsage {
    /// Number of requests with a reply.
    pub requests: u64,
    /// Number of tokens sent.
    pub tokens_in: u64,
    /// Number of tokens received.
    pub tokens_out: u64,
}

impl AskUsage {
    /// Adds one request and the tokens of the request and its reply.
    pub fn add(&mut self, usage: Usage) {
        self.requests = self.requests.saturating_add(1);
        self.tokens_in = self.tokens_in.saturating_add(usage.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(usage.tokens_out);
    }

    /// Returns the sum of `self` and `other`.
    pub fn and(self, other: AskUsage) -> AskUsage {
        AskUsage {
            requests: self.requests + other.requests,
            tokens_in: self.tokens_in + other.tokens_in,
            tokens_out: self.tokens_out + other.tokens_out,
        }
    }
}

/// The JSON value of a reply or an error, with the numbers of requests and tokens that it took.
pub type Answer = (Result<Value, LlmError>, AskUsage);

impl Llm {
    /// Sends a request and returns the JSON value of the reply, which follows the request's schema.
    /// An invalid reply is repaired once: the model gets the reply back with the errors.
    ///
    /// # Errors
    /// [`LlmError::Reply`] if the repaired reply is invalid as well, or the request has no schema;
    /// errors of [`Llm::ask`].
    pub fn ask_json(&self, request: &Request) -> Result<Value, LlmError> {
        self.ask_json_all(std::slice::from_ref(request), 1).remove(0).0
    }

    /// Sends several requests at the same time and returns the JSON value of each reply, in the
    /// order of the requests. An invalid reply is repaired at most `repairs` times.
    ///
    /// # Errors
    /// For each request, the errors of [`Llm::ask_json`].
    pub fn ask_json_all(&self, requests: &[Request], repairs: u32) -> Vec<Answer> {
        let mut answers: Vec<Answer> =
            requests.iter().map(|_| (Err(LlmError::Stopped), AskUsage::default())).collect();
        let mut open: Vec<(usize, Request)> = requests.iter().cloned().enumerate().collect();
        for round in 0..=repairs {
            if open.is_empty() {
                break;
            }
            let asked: Vec<Request> = open.iter().map(|(_, request)| request.clone()).collect();
            let mut again = Vec::new();
            for ((index, request), reply) in open.into_iter().zip(self.ask_all(&asked)) {
                let Some(answer) = answers.get_mut(index) else { continue };
                let reply = match reply {
                    Ok(reply) => reply,
                    Err(error) => {
                        answer.0 = Err(error);
                        continue;
                    }
                };
                answer.1.add(reply.usage);
                match read_reply(&reply, &request) {
                    Ok(value) => answer.0 = Ok(value),
                    Err(reason) => {
                        if round < repairs {
                            again.push((index, repairing(&request, &reply, &reason)));
                        }
                        answer.0 = Err(LlmError::Reply { model: request.model, reason });
                    }
                }
            }
            open = again;
        }
        answers
    }
}

/// Returns the JSON value of a reply; `Err` holds the reason if the reply is invalid.
fn read_reply(reply: &Reply, request: &Request) -> Result<Value, String> {
    let Some(schema) = &request.json else {
        return Err("no JSON was asked for".to_owned());
    };
    let read = extract_json(&reply.text, schema);
    match (read, reply.finish) {
        (Err(reason), Finish::Length) => Err(bounded(
            &format!(
                "the reply was cut off at {} tokens; be shorter ({reason})",
                request.max_tokens
            ),
            MAX_REASON_BYTES,
        )),
        (read, _) => read,
    }
}

/// Whether a reply is usable: if the request has a schema, the reply follows it; otherwise, the
/// reply is neither cut off nor filtered.
pub(super) fn is_usable(reply: &Reply, request: &Request) -> bool {
    match &request.json {
        Some(_) => read_reply(reply, request).is_ok(),
        None => !matches!(reply.finish, Finish::Filter | Finish::Length),
    }
}

/// Returns the request for a repair: `request`, followed by the invalid reply and the reason why it
/// cannot be used.
fn repairing(request: &Request, reply: &Reply, reason: &str) -> Request {
    let mut again = request.clone();
    again.messages.push(Message::assistant(reply.text.clone()));
    again.messages.push(Message::user(format!(
        "That reply cannot be used: {reason}.\nReply again with the whole corrected JSON value, and \
         nothing else."
    )));
    again
}
