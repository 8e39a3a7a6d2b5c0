//! Parses replies of a service with an OpenAI-compatible API. Variants of the format are accepted,
//! but a reply must hold a text. Any bytes are safe to parse.

use serde_json::Value;

use crate::{
    Finish, Reply, Request, Usage,
    ledger::{estimated_tokens, tokens},
};

/// Approximate maximum number of JSON values in a reply; each value takes about 200 bytes of memory
/// during parsing.
const MAX_VALUES: usize = 100_000;
/// Maximum number of tokens that a service may state; a larger number is ignored.
const MAX_TOKENS: f64 = 1e9;

/// A reply without a usable text.
#[derive(Debug, PartialEq)]
pub(super) struct UnusableReply {
    /// What is wrong with the reply.
    pub(super) reason: String,
    /// Number of tokens of request and reply, counted by the service or estimated.
    pub(super) usage: Usage,
    /// Whether another reply to the same request may be usable.
    pub(super) may_differ: bool,
}

/// Returns the [`UnusableReply`] for a reply whose bytes could not be received; `reason` says why.
pub(super) fn unread(request: &Request, reason: String) -> UnusableReply {
    UnusableReply { reason, usage: estimated(request, ""), may_differ: true }
}

/// Parses the bytes of a reply. `shown` prepares an error text from the service for display.
///
/// # Errors
/// [`UnusableReply`] if the bytes are not a reply or hold no text of the model.
pub(super) fn read(
    bytes: &[u8],
    request: &Request,
    shown: impl Fn(&str) -> String,
) -> Result<Reply, UnusableReply> {
    let body = parse(bytes).map_err(|reason| {
        let usage = estimated(request, &String::from_utf8_lossy(bytes));
        // The reply cannot have more tokens than its limit.
        let tokens_out = usage.tokens_out.min(request.max_tokens.into());
        UnusableReply { reason, usage: Usage { tokens_out, ..usage }, may_differ: true }
    })?;
    let choice = &body["choices"][0];
    let message = &choice["message"];
    let refusal = message["refusal"].as_str().unwrap_or_default();
    let text = content(&message["content"]).or_else(|| content(&choice["text"]));
    let text = text.unwrap_or_default();
    let usage = usage(&body["usage"]).unwrap_or_else(|| estimated(request, &text));
    let finish = match choice["finish_reason"].as_str() {
        Some("stop" | "end_turn" | "eos" | "stop_sequence") => Finish::Stop,
        Some("length" | "max_tokens" | "model_length") => Finish::Length,
        Some("content_filter" | "safety") => Finish::Filter,
        _ => Finish::Other,
    };
    if !text.trim().is_empty() {
        return Ok(Reply { text, finish, usage });
    }
    if !refusal.trim().is_empty() {
        return Ok(Reply { text: refusal.to_owned(), finish: Finish::Filter, usage });
    }
    let is_cut = finish == Finish::Length;
    let reason = if let Some(error) = error_of(&body) {
        format!("it is an error of the service: {}", shown(&error))
    } else if choice.is_null() {
        "it contains no choice".to_owned()
    } else if is_cut {
        let (limit, role) = (request.max_tokens, &request.role);
        format!(
            "it reached its limit of {limit} tokens before any text; raise max_tokens of the role \
             {role}"
        )
    } else if finish == Finish::Filter {
        "a content filter of the service removed the text".to_owned()
    } else if message["tool_calls"][0].is_object() || message["function_call"].is_object() {
        "it calls a tool instead of giving text".to_owned()
    } else {
        "it has no text".to_owned()
    };
    Err(UnusableReply { reason, usage, may_differ: !is_cut })
}

/// Parses the bytes of a reply as a JSON object; `Err` holds the reason if that fails.
fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.starts_with('<') {
        return Err("it is a web page instead of JSON; check the base address".to_owned());
    }
    if text.starts_with("data:") {
        return Err("it is a stream, which was not requested".to_owned());
    }
    let n_values = text.bytes().filter(|byte| b",:[{".contains(byte)).count();
    if n_values > MAX_VALUES {
        return Err(format!("it has more than {MAX_VALUES} values"));
    }
    let body: Value = serde_json::from_str(text).map_err(|error| {
        format!("it is not valid JSON (line {}, column {})", error.line(), error.column())
    })?;
    if body.is_object() { Ok(body) } else { Err("it is not a JSON object".to_owned()) }
}

/// Returns the text of a message's `content`: a string, or the joined texts of a list of parts;
/// `None` for another value.
fn content(content: &Value) -> Option<String> {
    let part = |part: &Value| {
        let places = [part, &part["text"], &part["text"]["value"], &part["refusal"]];
        places.iter().find_map(|place| place.as_str()).map(str::to_owned)
    };
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(part).collect()),
        _ => None,
    }
}

/// Returns the numbers of tokens that the service states in `usage`; `None` if they are missing or
/// invalid.
fn usage(usage: &Value) -> Option<Usage> {
    let count = |names: [&str; 2]| {
        let number = names.iter().find_map(|name| usage[*name].as_f64())?;
        (0.0..=MAX_TOKENS).contains(&number).then_some(number.ceil() as u64)
    };
    let tokens_in = count(["prompt_tokens", "input_tokens"])?;
    let tokens_out = count(["completion_tokens", "output_tokens"])?;
    (tokens_in + tokens_out > 0).then_some(Usage { tokens_in, tokens_out, estimated: false })
}

/// Estimates the numbers of tokens of a request and of the reply `text`, for services that do not
/// state them.
fn estimated(request: &Request, text: &str) -> Usage {
    let (tokens_in, tokens_out) = (estimated_tokens(request), tokens(text));
    Usage { tokens_in, tokens_out, estimated: true }
}

fn error_of(body: &Value) -> Option<String> {
    let error =
        [&body["error"]["message"], &body["error"], &body["choices"][0]["error"]["message"]];
    error.iter().find_map(|value| value.as_str()).map(str::to_owned)
}
