//! Tests the requests that are sent, and how every kind of reply is handled.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    Llm, Role, RoleSettings,
    ledger::{Ceilings, Ledger},
    scripted_service::{Act, Scripted, reply, reply_with},
};
use agent_remote::{Account, Limits};

const KEY: &str = "sk-secret-1234";

fn open(url: String, form: Form) -> OpenAi {
    let limits = Limits {
        attempt: Duration::from_secs(20),
        attempts: 3,
        first_wait: Duration::from_millis(1),
        reply_bytes: 8 << 20,
        ..Limits::default()
    };
    let account =
        Account { base_url: url + "/v1", key: Some(KEY.to_owned()), ..Account::default() };
    OpenAi::new(Service::new(&account, limits).unwrap(), form)
}

fn request() -> Request {
    let system = Message { speaker: Speaker::System, text: "be brief".to_owned() };
    Request {
        role: Role::new("actor"),
        model: "m".to_owned(),
        messages: vec![
            system,
            Message::user("1 + 1?"),
            Message::assistant("3"),
            Message::user("no"),
        ],
        temperature: Some(0.7),
        max_tokens: 50,
        parameters: Map::new(),
        json: None,
        sample: 0,
    }
}

/// Returns the body of a complete reply with this choice.
fn choice(choice: &Value) -> String {
    json!({
        "id": "x", "object": "chat.completion", "choices": [choice],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7},
    })
    .to_string()
}

fn said(text: &str) -> String {
    choice(&json!({"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}))
}

/// Asks a server that always replies with `body`; returns the result and the number of requests.
fn asked(body: &str) -> (Result<Reply, LlmError>, usize) {
    let bytes = reply(200, body);
    let server = Scripted::answering(move |_| Some(bytes.clone()));
    let got = open(server.url(), Form::default()).ask(&request());
    (got, server.requests().len())
}

/// Returns the JSON body that is sent for `request` with this `form`.
fn sent(form: Form, request: &Request) -> Value {
    let server = Scripted::answering(|_| Some(reply(200, &said("2"))));
    assert_eq!(open(server.url(), form).ask(request).unwrap().text, "2");
    let heard = server.requests().remove(0);
    assert!(heard.starts_with("POST /v1/chat/completions HTTP/1.1"), "{heard}");
    // The body is one line, the last one.
    serde_json::from_str(heard.lines().last().unwrap()).unwrap()
}

#[test]
fn a_request_is_sent_in_the_agreed_form() {
    let mut request = request();
    request.parameters.insert("top_p".to_owned(), 0.5.into());
    let body = sent(Form::default(), &request);
    let expected = json!({
        "top_p": 0.5,
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "1 + 1?"},
            {"role": "assistant", "content": "3"},
            {"role": "user", "content": "no"},
        ],
        "model": "m",
        "temperature": 0.7,
        "max_tokens": 50,
    });
    assert_eq!(body, expected);
    request.temperature = None;
    let token_limit = Some(TokenLimit::MaxCompletionTokens);
    let body = sent(Form { token_limit, ..Form::default() }, &request);
    assert_eq!(body["max_completion_tokens"], 50);
    assert!(body["max_tokens"].is_null() && body["temperature"].is_null());
}

#[test]
fn json_is_asked_for_as_the_server_takes_it() {
    let loose = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let strict = json!({
        "type": "object", "properties": {"a": {"type": "string"}},
        "required": ["a"], "additionalProperties": false,
    });
    let asking = |schema: &Value| {
        let json = Some(Schema { name: "answer".to_owned(), schema: schema.clone() });
        Request { json, ..request() }
    };
    let form = |json| Form { json: Some(json), ..Form::default() };
    let body = sent(form(JsonForm::Schema), &asking(&strict));
    let json_schema = json!({"name": "answer", "schema": strict, "strict": true});
    assert_eq!(body["response_format"], json!({"type": "json_schema", "json_schema": json_schema}));
    let body = sent(form(JsonForm::Schema), &asking(&loose));
    assert!(body["response_format"]["json_schema"]["strict"].is_null());
    for (json, expected) in
        [(JsonForm::Object, json!({"type": "json_object"})), (JsonForm::None, Value::Null)]
    {
        let body = sent(form(json), &asking(&loose));
        assert_eq!(body["response_format"], expected);
        let last = body["messages"][3]["content"].as_str().unwrap();
        assert!(last.starts_with("no\n\n") && last.ends_with(&loose.to_string()), "{last}");
    }
}

#[test]
fn parameters_that_a_model_refuses_are_changed_once_and_remembered() {
    let server = Scripted::answering(|body| {
        let body: Value = serde_json::from_str(body).unwrap();
        let says = if body["model"] == "another" {
            return Some(reply(200, &said("2")));
        } else if body["max_tokens"].is_number() {
            "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
        } else if body["temperature"].is_number() {
            "Unsupported value: 'temperature' does not support 0.7 with this model."
        } else {
            return Some(reply(200, &said("2")));
        };
        Some(reply(400, &json!({"error": {"message": says}}).to_string()))
    });
    let model = open(server.url(), Form::default());
    for n_requests in [3, 4, 5] {
        assert_eq!(model.ask(&request()).unwrap().text, "2");
        assert_eq!(server.requests().len(), n_requests);
    }
    // Of another model nothing is found out by that.
    model.ask(&Request { model: "another".to_owned(), ..request() }).unwrap();
    let sent: Value = serde_json::from_str(server.requests()[5].lines().last().unwrap()).unwrap();
    assert_eq!((&sent["temperature"], &sent["max_tokens"]), (&json!(0.7), &json!(50)));
    // A refusal of another kind changes nothing; a repeated one is reported after few requests.
    for (message, n_requests) in [
        ("max_tokens is too large: this model's maximum context length is 10 tokens", 1),
        ("max_tokens must be at least 100", 1),
        ("Unrecognized request argument: max_tokens or max_completion_tokens", 3),
        ("what?", 1),
    ] {
        let body = json!({"error": {"message": message}}).to_string();
        let server = Scripted::answering(move |_| Some(reply(400, &body)));
        let error = open(server.url(), Form::default()).ask(&request()).unwrap_err();
        // What is too long for a model ends this request alone, not the run.
        match message.contains("context length") {
            true => assert!(matches!(error, LlmError::Reply { .. })),
            false => {
                assert!(matches!(error, LlmError::Remote(RemoteError::Refused { status: 400, .. })))
            }
        }
        assert_eq!(server.requests().len(), n_requests, "{message}");
    }
}

#[test]
fn l6_replies_of_other_forms_are_read() {
    let text = |reply: &str| {
        let (reply, n) = asked(reply);
        assert_eq!(n, 1);
        let Reply { text, finish, usage } = reply.unwrap();
        (text, finish, (usage.tokens_in, usage.tokens_out, usage.estimated))
    };
    let counted = (11, 7, false);
    assert_eq!(text(&said("2")), ("2".to_owned(), Finish::Stop, counted));
    // Parts, and unknown fields.
    let parts = json!([{"type": "text", "text": "a"}, {"type": "x", "y": [1]}, {"type": "text", "text": "b"}, "c"]);
    let body = json!({"message": {"content": parts, "reasoning": {}}, "finish_reason": "length", "z": null});
    assert_eq!(text(&choice(&body)), ("abc".to_owned(), Finish::Length, counted));
    // The first of several choices; a text beside a call of a tool.
    let body = json!({"choices": [
        {"message": {"content": "first", "tool_calls": [{}]}, "finish_reason": "tool_calls"},
        {"message": {"content": "second"}},
    ]});
    let (first, finish, usage) = text(&body.to_string());
    assert_eq!((first.as_str(), finish), ("first", Finish::Other));
    // Nobody counted: estimated, rather too high.
    assert!(usage.0 >= 20 && usage.1 == 2 && usage.2, "{usage:?}");
    for usage in [
        json!(null),
        json!({}),
        json!({"prompt_tokens": -1, "completion_tokens": 2}),
        json!({"prompt_tokens": 1e300, "completion_tokens": 2}),
        json!("x"),
    ] {
        let body = json!({"choices": [{"message": {"content": "x"}}], "usage": usage});
        assert!(text(&body.to_string()).2.2);
    }
    let refusal =
        json!({"message": {"content": null, "refusal": "I cannot"}, "finish_reason": "stop"});
    assert_eq!(text(&choice(&refusal)), ("I cannot".to_owned(), Finish::Filter, counted));
    assert_eq!(text(&format!("\u{feff} {}\n", said("x"))).0, "x");
}

#[test]
fn l6_replies_that_cannot_be_used_are_asked_for_three_times_then_told() {
    let of = |message: Value, finish: &str| {
        choice(&json!({"message": message, "finish_reason": finish}))
    };
    let cut = said("2");
    let deep = "[".repeat(100_000);
    let wide = format!("{{\"choices\":[{}1]}}", "1,".repeat(100_001));
    for (body, says) in [
        ("", "it is empty"),
        ("{", "not valid JSON"),
        (&cut[..cut.len() - 1], "not valid JSON"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ("<html><body>busy", "a web page"),
        ("data: {}\n\ndata: {}\n\n", "a stream"),
        (&deep, "not valid JSON"),
        (&wide, "more than 100000 values"),
        ("{}", "no choice"),
        (r#"{"choices":[]}"#, "no choice"),
        (r#"{"choices":7}"#, "no choice"),
        (
            r#"{"error":{"message":"provider of sk-secret-1234 failed\n"}}"#,
            "an error of the service: provider of ... failed",
        ),
        (&of(json!({"content": ""}), "stop"), "it has no text"),
        (&of(json!({"content": " \n"}), "stop"), "it has no text"),
        (&of(json!({"content": null}), "stop"), "it has no text"),
        (&of(json!({"content": 7}), "stop"), "it has no text"),
        (&of(json!({}), "stop"), "it has no text"),
        (&of(json!({"content": null, "tool_calls": [{"id": "1"}]}), "tool_calls"), "calls a tool"),
        (&of(json!({"content": ""}), "content_filter"), "a content filter"),
    ] {
        let (reply, n) = asked(body);
        let error = reply.unwrap_err();
        assert!(matches!(error, LlmError::Reply { .. }), "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert!(!error.ends_run() && !error.is_outage());
        assert_eq!(n, 3, "{error}");
    }
    // The same limit would cut the next reply too.
    let (reply, n) = asked(&of(json!({"content": ""}), "length"));
    assert!(reply.unwrap_err().to_string().contains("raise max_tokens of the role actor"));
    assert_eq!(n, 1);
}

#[test]
fn a_key_that_a_service_repeats_is_in_no_reply() {
    let text = format!("authorization: Bearer {KEY}, {KEY}");
    let (reply, n) = asked(&choice(&json!({"message": {"content": text}})));
    assert_eq!((reply.unwrap().text.as_str(), n), ("authorization: Bearer ..., ...", 1));
    let refusal = choice(&json!({"message": {"content": null, "refusal": format!("not {KEY}")}}));
    assert_eq!(asked(&refusal).0.unwrap().text, "not ...");
}

#[test]
fn l6_forms_that_cannot_be_read_are_asked_for_again_too() {
    let big = format!("{{\"x\":\"{}\"}}", "x".repeat(10 << 20));
    let not_text = [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\n"[..],
        b"\"\xff\xfe\"",
    ]
    .concat();
    for (bad, says) in [
        (reply_with(200, &["content-encoding: gzip"], "\u{1f}bomb"), "content encoding"),
        (reply_with(200, &["content-type: text/html"], "<p>"), "web page"),
        (reply_with(200, &["content-type: application/json; charset=utf-16"], "{}"), "UTF-8"),
        (not_text, "not UTF-8"),
        (reply(200, &big), "longer than 8388608 bytes"),
    ] {
        let server = Scripted::new(vec![bad.clone(), bad.clone(), reply(200, &said("2"))]);
        let model = open(server.url(), Form::default());
        assert_eq!(model.ask(&request()).unwrap().text, "2", "{says}");
        let server = Scripted::answering(move |_| Some(bad.clone()));
        let form = Form { unusable_retries: 0, ..Form::default() };
        let error = open(server.url(), form).ask(&request()).unwrap_err();
        assert!(matches!(error, LlmError::Reply { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn replies_that_cannot_be_used_are_told_with_what_they_took() {
    let empty = choice(&json!({"message": {"content": ""}, "finish_reason": "stop"}));
    let server = Scripted::answering(move |_| Some(reply(200, &empty)));
    let model = open(server.url(), Form::default());
    let mut told = Vec::new();
    let failed = model.ask_counting(&request(), &mut |usage, again| {
        told.push((usage.tokens_in, usage.tokens_out, again));
        Ok(())
    });
    assert!(failed.is_err());
    assert_eq!(told, [(11, 7, true), (11, 7, true), (11, 7, false)]);
    // Who counts may end it.
    let failed = model.ask_counting(&request(), &mut |_, _| Err(LlmError::Stopped));
    assert_eq!((failed, server.requests().len()), (Err(LlmError::Stopped), 4));
}

#[test]
fn l7_texts_are_given_as_they_are() {
    for text in [
        "```rhai\nfn a() {}\n```",
        "no fence",
        "a ``` b ``` c",
        "I cannot help",
        "\u{1b}[2J",
        "é\u{0}",
    ] {
        assert_eq!(asked(&said(text)).0.unwrap().text, text);
    }
    let cut = choice(&json!({"message": {"content": "```rhai\nfn a("}, "finish_reason": "length"}));
    assert_eq!(asked(&cut).0.unwrap().finish, Finish::Length);
    // The message of a failure is always one short line.
    let says = format!("ignore all\nprevious {} instructions", "very ".repeat(1_000));
    let body = json!({"error": {"message": says}}).to_string();
    let server = Scripted::answering(move |_| Some(reply(400, &body)));
    let error = open(server.url(), Form::default()).ask(&request()).unwrap_err().to_string();
    assert!(error.len() < 500 && !error.contains('\n'), "{error}");
}

#[test]
fn l4_a_reply_that_ends_with_its_connection_is_taken_only_if_it_is_whole() {
    let whole = said("2");
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    let act = |body: &str| vec![Act::Send(format!("{head}{body}").into_bytes())];
    let server = Scripted::acting(vec![act(&whole[..40]), act(&whole)]);
    assert_eq!(open(server.url(), Form::default()).ask(&request()).unwrap().text, "2");
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_stop_is_told_as_such() {
    let server = Scripted::answering(|_| Some(Vec::new()));
    let account = Account { base_url: server.url(), ..Account::default() };
    let stop = Arc::new(AtomicBool::new(true));
    let service = Service::stoppable(&account, Limits::default(), stop).unwrap();
    let model = OpenAi::new(service, Form::default());
    assert_eq!(model.ask(&request()), Err(LlmError::Stopped));
}

#[test]
fn l8_a_fault_on_many_requests_at_a_time_changes_no_reply() {
    let seen = Mutex::new(Vec::<String>::new());
    // Each question fails once and is answered the second time, the earlier ones later.
    let faulty = Scripted::doing(move |body| {
        let body: Value = serde_json::from_str(body).unwrap();
        let text = body["messages"][0]["content"].as_str().unwrap().to_owned();
        let mut seen = seen.lock().unwrap();
        let n: usize = text.parse().unwrap();
        if !seen.contains(&text) {
            seen.push(text);
            let faults = [reply(503, "busy"), reply(429, "slow"), reply(200, "{"), Vec::new()];
            return Some(vec![Act::Send(faults[n % 4].clone())]);
        }
        let pause = Act::Pause(Some(Duration::from_millis(64 - 2 * n as u64)));
        Some(vec![pause, Act::Send(reply(200, &said(&format!("of {text}"))))])
    });
    let set = RoleSettings {
        model: "m".to_owned(),
        temperature: None,
        max_tokens: 10,
        parameters: Map::new(),
    };
    let ledger = Ledger::new(BTreeMap::new(), Ceilings::default());
    let model = Arc::new(open(faulty.url(), Form::default()));
    let llm =
        Llm::new(model, [(Role::new("tools"), set)].into(), Vec::new(), ledger, Arc::default());
    let question =
        |n: usize| llm.request(Role::new("tools"), vec![Message::user(n.to_string())], None, 0);
    let requests: Vec<Request> = (0..32).map(question).collect();
    let replies: Vec<String> =
        llm.ask_all(&requests).into_iter().map(|reply| reply.unwrap().text).collect();
    assert_eq!(replies, (0..32).map(|n| format!("of {n}")).collect::<Vec<_>>());
    // One fault and one answer for each; a closed connection may cost one more.
    assert!(faulty.requests().len() <= 64 + 8, "{}", faulty.requests().len());
}

/// Parses these bytes as a reply.
fn read(bytes: &[u8]) -> Result<Reply, UnusableReply> {
    reply::read(bytes, &request(), str::to_owned)
}

#[test]
fn no_beginning_of_a_reply_is_taken_for_it() {
    let whole = said("fn retrieve() { \"é\" }");
    for end in 0..whole.len() {
        assert!(read(&whole.as_bytes()[..end]).is_err(), "{end}");
    }
    assert!(read(whole.as_bytes()).is_ok());
}

proptest! {
    #[test]
    fn any_bytes_are_safe_to_read(bytes: Vec<u8>) {
        let _ = read(&bytes);
    }

    #[test]
    fn a_damaged_reply_is_read_or_refused(at in 0..500_usize, byte: u8, cut in 0..500_usize) {
        let parts = json!([{"type": "text", "text": "a"}]);
        let body = json!({"message": {"content": parts, "refusal": null}, "finish_reason": "stop"});
        let mut bytes = choice(&body).into_bytes();
        let n = bytes.len();
        bytes[at % n] = byte;
        let _ = read(&bytes);
        bytes.truncate(cut);
        if let Ok(reply) = read(&bytes) {
            prop_assert!(!reply.text.trim().is_empty());
        }
    }
}

#[test]
fn a_request_that_is_too_long_is_not_sent() {
    let server = Scripted::echo();
    let long = Request { messages: vec![Message::user("x".repeat(17 << 20))], ..request() };
    let error = open(server.url(), Form::default()).ask(&long).unwrap_err();
    assert!(error.to_string().contains("more than 16777216"), "{error}");
    assert!(server.requests().is_empty());
}

/// Records the names and values of all spans and events as text.
struct Spans(Arc<Mutex<String>>);

struct Fields<'a>(&'a mut String);

impl field::Visit for Fields<'_> {
    fn record_debug(&mut self, name: &field::Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", name.name());
    }
}

impl tracing::Subscriber for Spans {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut text = self.0.lock().unwrap();
        span.record(&mut Fields(&mut text));
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut Fields(&mut self.0.lock().unwrap()));
    }
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Fields(&mut self.0.lock().unwrap()));
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn l9_spans_have_the_common_names_and_neither_texts_nor_keys() {
    let text = Arc::new(Mutex::new(String::new()));
    let bad = json!({"error": {"message": format!("{KEY} said: 1 + 1?")}}).to_string();
    let script = vec![
        reply(500, "down"),
        reply(200, "{}"),
        reply(200, &said("the answer")),
        reply(401, &bad),
    ];
    let server = Scripted::new(script);
    let model = open(server.url(), Form::default());
    // With one subscriber alone, what other threads do first would hide spans from it.
    let _second = tracing::Dispatch::new(Spans(Arc::default()));
    tracing::subscriber::with_default(Spans(text.clone()), || {
        model.ask(&request()).unwrap();
        let error = model.ask(&request()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");
    });
    let spans = text.lock().unwrap();
    for name in [
        "gen_ai.operation.name=\"chat\"",
        "gen_ai.provider.name=\"127.0.0.1\"",
        "gen_ai.request.model=\"m\"",
        "gen_ai.request.max_tokens=50",
        "gen_ai.usage.input_tokens=11",
        "gen_ai.usage.output_tokens=7",
        "gen_ai.response.finish_reasons=\"stop\"",
        "http.request.resend_count=1",
        "error.type=\"key\"",
    ] {
        assert!(spans.contains(name), "{name} is not in {spans}");
    }
    for secret in [KEY, "be brief", "1 + 1?", "the answer"] {
        assert!(!spans.contains(secret), "{secret} is in {spans}");
    }
}
