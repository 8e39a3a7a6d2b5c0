//! Language models of a service with an OpenAI-compatible API (`POST /chat/completions`).
//!
//! Depending on the model, the parameter for the maximum number of tokens is named `max_tokens` or
//! `max_completion_tokens`; some models reject a temperature. If a service refuses a request and
//! names one of these parameters, the request is adapted and sent again, and the adaptation is
//! remembered for that model. After an unusable reply, the request is sent again a few times.
//!
//! Sources: OpenAI's reference of chat completions; OpenTelemetry's GenAI conventions for names in
//! spans. Spans never contain texts of prompts or replies.

mod reply;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Mutex};

use async_openai::types::chat::{
    ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
    ChatCompletionRequestSystemMessage, ChatCompletionRequestUserMessage,
    CreateChatCompletionRequest, ResponseFormat, ResponseFormatJsonSchema,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tracing::{Span, field, info_span, warn};

use crate::{
    Finish, LlmError, Message, Model, Reply, Request, Schema, Speaker, Usage,
    ledger::estimated_tokens, openai::reply::UnusableReply,
};
use agent_ground::locks::locked;
use agent_remote::{Limits, RemoteError, Service};

/// Path to which requests are sent, relative to the service's base address.
const PATH: &str = "/chat/completions";
/// Maximum size of a request, in bytes; larger than the context of any model.
const MAX_REQUEST_BYTES: usize = 16 << 20;
/// Maximum number of times that one request is adapted to refusals.
const MAX_CHANGES: usize = 2;
/// Instruction put before the schema in the last message, for servers without a schema parameter.
const JSON_ONLY: &str = "Answer with one JSON value of this schema, and with nothing else:";

/// How a server is asked for a JSON reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonForm {
    /// The parameter `response_format` holds the schema.
    #[default]
    Schema,
    /// The parameter `response_format` asks for JSON; the schema follows the last message's text.
    Object,
    /// There is no parameter `response_format`; the schema follows the last message's text.
    None,
}

/// Name of the parameter for the maximum number of tokens of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenLimit {
    /// `max_tokens`, supported by most servers.
    MaxTokens,
    /// `max_completion_tokens`, required by newer models of OpenAI.
    MaxCompletionTokens,
}

impl TokenLimit {
    fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }

    fn other(self) -> TokenLimit {
        match self {
            Self::MaxTokens => Self::MaxCompletionTokens,
            Self::MaxCompletionTokens => Self::MaxTokens,
        }
    }
}

/// How requests are written for a server, and how often they are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// How the server is asked for a JSON reply; `None`: the usual form of a known provider, else
    /// [`JsonForm::Schema`].
    pub json: Option<JsonForm>,
    /// Name of the parameter for the maximum number of tokens; `None`: `max_completion_tokens` for
    /// OpenAI's own host, else `max_tokens`.
    pub token_limit: Option<TokenLimit>,
    /// Maximum number of times that a request is sent again after an unusable reply.
    pub unusable_retries: u32,
}

impl Default for Form {
    fn default() -> Form {
        Form { json: None, token_limit: None, unusable_retries: 2 }
    }
}

/// Which parameters a model accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dialect {
    token_limit: TokenLimit,
    takes_temperature: bool,
}

/// Client for the language models of a service with an OpenAI-compatible API.
pub struct OpenAi {
    service: Service,
    form: Form,
    /// Parameters that every model is first assumed to accept.
    expected: Dialect,
    /// Parameters that a model accepts, by the model's name, if they differ from `expected`.
    dialects: Mutex<HashMap<String, Dialect>>,
    /// Locked while a reply is parsed, so that only one parse uses memory at a time.
    reading: Mutex<()>,
}

/// Why one attempt gave no usable reply.
enum Failure {
    Error(LlmError),
    UnusableReply(UnusableReply),
}

impl OpenAi {
    /// Creates a client for `service`; `form` says how requests are written.
    pub fn new(service: Service, form: Form) -> OpenAi {
        let is_openai = service.host() == "api.openai.com";
        let token_limit = form.token_limit.unwrap_or(match is_openai {
            true => TokenLimit::MaxCompletionTokens,
            false => TokenLimit::MaxTokens,
        });
        let expected = Dialect { token_limit, takes_temperature: true };
        OpenAi { service, form, expected, dialects: Mutex::default(), reading: Mutex::default() }
    }

    /// Returns the name of the service's provider, as recorded in spans.
    fn provider(&self) -> &str {
        match self.service.host() {
            "api.openai.com" => "openai",
            host if host.ends_with(".openai.azure.com") => "azure.ai.openai",
            host => host,
        }
    }

    fn span(&self, request: &Request) -> Span {
        info_span!(
            "chat",
            "gen_ai.operation.name" = "chat",
            "gen_ai.provider.name" = self.provider(),
            "gen_ai.request.model" = request.model,
            "gen_ai.request.max_tokens" = request.max_tokens,
            "gen_ai.request.temperature" = request.temperature,
            "gen_ai.response.finish_reasons" = field::Empty,
            "gen_ai.usage.input_tokens" = field::Empty,
            "gen_ai.usage.output_tokens" = field::Empty,
            "error.type" = field::Empty,
            "server.address" = self.service.host(),
            "agent.role" = request.role.name(),
        )
    }

    /// Makes one attempt: sends a request and parses the reply.
    fn ask_once(&self, request: &Request) -> Result<Reply, Failure> {
        match self.send(request) {
            Ok(bytes) => {
                let _reading = locked(&self.reading);
                let shown = |text: &str| self.service.shown(text);
                let read = reply::read(&bytes, request, shown).map_err(Failure::UnusableReply)?;
                Ok(Reply { text: self.service.without_secrets(read.text), ..read })
            }
            Err(RemoteError::Stopped) => Err(Failure::Error(LlmError::Stopped)),
            Err(error @ (RemoteError::TooLong { .. } | RemoteError::Unreadable { .. })) => {
                Err(Failure::UnusableReply(reply::unread(request, error.to_string())))
            }
            // A shorter request may succeed, so this is not a failure of the service.
            Err(error) if error.is_too_long() => Err(Failure::UnusableReply(UnusableReply {
                reason: error.to_string(),
                usage: Usage::default(),
                may_differ: false,
            })),
            Err(error) => Err(Failure::Error(error.into())),
        }
    }

    /// Sends a request and returns the bytes of the reply. If the server refuses a parameter of the
    /// request, adapts the request and sends it again.
    fn send(&self, request: &Request) -> Result<Vec<u8>, RemoteError> {
        let weight = estimated_tokens(request) + u64::from(request.max_tokens);
        let known = locked(&self.dialects).get(&request.model).copied().unwrap_or(self.expected);
        let mut dialect = known;
        let mut changes = 0;
        loop {
            let body = self.body(request, dialect)?;
            let failed = match self.service.post(PATH, body, weight) {
                Ok(bytes) => {
                    if dialect != known {
                        let model = &request.model;
                        warn!(model, ?dialect, "the model accepts other parameters than expected");
                        locked(&self.dialects).insert(model.clone(), dialect);
                    }
                    return Ok(bytes);
                }
                Err(failed) => failed,
            };
            dialect = match dialect.after(&failed) {
                Some(other) if changes < MAX_CHANGES => other,
                _ => return Err(failed),
            };
            changes += 1;
        }
    }

    fn body(&self, request: &Request, dialect: Dialect) -> Result<Vec<u8>, RemoteError> {
        let wrong = |error: serde_json::Error| {
            RemoteError::Setup(format!("the request cannot be written as JSON ({error})"))
        };
        let schema = request.json.as_ref();
        let form = self.form.json.unwrap_or_default();
        let shown_schema = schema.filter(|_| form != JsonForm::Schema);
        let chat = CreateChatCompletionRequest {
            messages: messages(&request.messages, shown_schema),
            model: request.model.clone(),
            response_format: schema.and_then(|schema| self.response_format(schema)),
            ..CreateChatCompletionRequest::default()
        };
        let mut body = request.parameters.clone();
        if let Value::Object(chat) = serde_json::to_value(chat).map_err(wrong)? {
            body.extend(chat);
        }
        // The library's type would round the temperature to 32 bits and send wrong trailing digits.
        if let Some(temperature) = request.temperature.filter(|_| dialect.takes_temperature) {
            body.insert("temperature".to_owned(), temperature.into());
        }
        body.insert(dialect.token_limit.name().to_owned(), request.max_tokens.into());
        let body = serde_json::to_vec(&body).map_err(wrong)?;
        if body.len() > MAX_REQUEST_BYTES {
            let n_bytes = body.len();
            return Err(RemoteError::Setup(format!(
                "the request has {n_bytes} bytes, more than {MAX_REQUEST_BYTES}"
            )));
        }
        Ok(body)
    }

    fn response_format(&self, schema: &Schema) -> Option<ResponseFormat> {
        match self.form.json.unwrap_or_default() {
            JsonForm::None => None,
            JsonForm::Object => Some(ResponseFormat::JsonObject),
            JsonForm::Schema => {
                let json_schema = ResponseFormatJsonSchema {
                    description: None,
                    name: schema.name.clone(),
                    schema: schema.schema.clone(),
                    strict: is_strict(&schema.schema).then_some(true),
                };
                Some(ResponseFormat::JsonSchema { json_schema })
            }
        }
    }
}

impl Dialect {
    /// Returns the parameters to try after a refusal; `None` if the refusal is not about these
    /// parameters.
    fn after(self, failed: &RemoteError) -> Option<Dialect> {
        let RemoteError::Refused { status: 400 | 422, message, .. } = failed else { return None };
        if failed.is_too_long() {
            return None;
        }
        let message = message.to_lowercase();
        let names = |name: &str| message.contains(name);
        let refuses = ["support", "unrecognized", "unknown", "unexpected", "permitted", "allowed"];
        let is_refused = |name: &str| names(name) && refuses.iter().any(|word| names(word));
        let other = self.token_limit.other();
        if names(other.name()) || is_refused(self.token_limit.name()) {
            return Some(Dialect { token_limit: other, ..self });
        }
        (self.takes_temperature && is_refused("temperature"))
            .then_some(Dialect { takes_temperature: false, ..self })
    }
}

/// Converts messages to the types of the API; appends `shown_schema`, if given, to the text of the
/// last message.
fn messages(
    messages: &[Message],
    shown_schema: Option<&Schema>,
) -> Vec<ChatCompletionRequestMessage> {
    let last = messages.len().saturating_sub(1);
    let foreign = |(at, message): (usize, &Message)| {
        let text = match shown_schema.filter(|_| at == last) {
            Some(schema) => format!("{}\n\n{JSON_ONLY}\n{}", message.text, schema.schema),
            None => message.text.clone(),
        };
        match message.speaker {
            Speaker::System => ChatCompletionRequestSystemMessage::from(text).into(),
            Speaker::User => ChatCompletionRequestUserMessage::from(text).into(),
            Speaker::Assistant => ChatCompletionRequestAssistantMessage::from(text).into(),
        }
    };
    messages.iter().enumerate().map(foreign).collect()
}

/// Whether a schema fits OpenAI's strict mode: every object lists all its properties as required
/// and allows no others.
fn is_strict(schema: &Value) -> bool {
    let is_strict_object = |object: &Map<String, Value>| {
        let Some(properties) = object.get("properties").and_then(Value::as_object) else {
            return object.get("type").is_none_or(|kind| kind != "object");
        };
        let required = object.get("required").and_then(Value::as_array);
        let is_required =
            |name: &String| required.is_some_and(|list| list.iter().any(|item| item == name));
        object.get("additionalProperties") == Some(&Value::Bool(false))
            && properties.keys().all(is_required)
    };
    match schema {
        Value::Object(object) => is_strict_object(object) && object.values().all(is_strict),
        Value::Array(items) => items.iter().all(is_strict),
        _ => true,
    }
}

impl Model for OpenAi {
    fn ask(&self, request: &Request) -> Result<Reply, LlmError> {
        self.ask_counting(request, &mut |_, _| Ok(()))
    }

    fn ask_counting(
        &self,
        request: &Request,
        unusable: &mut dyn FnMut(Usage, bool) -> Result<(), LlmError>,
    ) -> Result<Reply, LlmError> {
        let span = self.span(request);
        let _entered = span.enter();
        let mut left = self.form.unusable_retries;
        loop {
            match self.ask_once(request) {
                Ok(reply) => {
                    span.record("gen_ai.response.finish_reasons", finish_name(reply.finish));
                    span.record("gen_ai.usage.input_tokens", reply.usage.tokens_in);
                    span.record("gen_ai.usage.output_tokens", reply.usage.tokens_out);
                    return Ok(reply);
                }
                Err(Failure::Error(error)) => {
                    span.record("error.type", "service");
                    return Err(error);
                }
                Err(Failure::UnusableReply(reply)) => {
                    span.record("error.type", "unusable_reply");
                    let again = left > 0 && reply.may_differ;
                    unusable(reply.usage, again)?;
                    if !again {
                        let (model, reason) = (request.model.clone(), reply.reason);
                        return Err(LlmError::Reply { model, reason });
                    }
                    left -= 1;
                }
            }
        }
    }

    fn limits(&self) -> Limits {
        self.service.limits()
    }
}

fn finish_name(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Filter => "content_filter",
        Finish::Other => "other",
    }
}
