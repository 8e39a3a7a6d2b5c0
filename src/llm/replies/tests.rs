//! Tests which programs and JSON values are extracted from replies, and which replies are refused.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    Finish, LlmError, Message, Request, Role, Schema, Speaker,
    replies::{AskUsage, MAX_REASON_BYTES, NoProgram, extract_json, extract_program},
    scripted::{llm, question, said},
};

const RETRIEVE: &str = "fn retrieve(query, candidates, params) {\n    link(query)\n}\n";

fn program(text: &str) -> Result<String, NoProgram> {
    extract_program(text, Finish::Stop)
}

#[test]
fn the_last_block_with_retrieve_is_the_program() {
    let fenced = format!("Idea.\n\n```rhai\n{RETRIEVE}```\nDone.");
    assert_eq!(program(&fenced).unwrap(), RETRIEVE);
    let twice =
        format!("```\nfn retrieve(a, b, c) {{ 1 }}\n```\nBetter:\n~~~~ rust\n{RETRIEVE}~~~~");
    assert_eq!(program(&twice).unwrap(), RETRIEVE);
    let helper = format!("```rhai\n{RETRIEVE}```\nUse it so:\n```\nagent query\n```");
    assert_eq!(program(&helper).unwrap(), RETRIEVE);
    assert_eq!(program("```rhai\nlet x = 1;\n```").unwrap(), "let x = 1;\n");
    let indented = format!("1. Here:\n   ```rhai\n{RETRIEVE}   ```");
    assert_eq!(program(&indented).unwrap(), RETRIEVE);
    let inner = format!("````\n// ```\n{RETRIEVE}````");
    assert_eq!(program(&inner).unwrap(), format!("// ```\n{RETRIEVE}"));
    assert_eq!(program(&format!("//! category: x\n{RETRIEVE}")).unwrap().lines().count(), 4);
    let thought = format!("<think>```\nfn retrieve(x) no\n</think>\n```rhai\n{RETRIEVE}```");
    assert_eq!(program(&thought).unwrap(), RETRIEVE);
}

#[test]
fn what_is_no_whole_program_is_refused_with_its_reason() {
    assert_eq!(program(" \n"), Err(NoProgram::Empty));
    assert_eq!(program("Use `link`, then `hop`."), Err(NoProgram::Prose));
    assert_eq!(program(&format!("Here it is:\n{RETRIEVE}")), Err(NoProgram::Prose));
    assert_eq!(program("```\n\n```"), Err(NoProgram::Prose));
    assert!(matches!(program("I'm sorry, I can't do that."), Err(NoProgram::Refusal(_))));
    assert!(matches!(extract_program(RETRIEVE, Finish::Filter), Err(NoProgram::Refusal(_))));
    assert_eq!(program("```\na\n```\n```\nb\n```"), Err(NoProgram::Several(2)));
    assert_eq!(program("{\"program\": \"fn retrieve\"}"), Err(NoProgram::Json));
    assert_eq!(program("```json\n{\"a\": 1}\n```"), Err(NoProgram::Json));
    assert_eq!(program("<think>I would"), Err(NoProgram::CutOff));

    let unclosed = format!("```rhai\n{RETRIEVE}");
    assert_eq!(extract_program(&unclosed, Finish::Length), Err(NoProgram::CutOff));
    assert_eq!(extract_program(&unclosed, Finish::Stop), Err(NoProgram::CutOff));
    assert_eq!(extract_program(RETRIEVE, Finish::Length), Err(NoProgram::CutOff));
    // The model started a second one, so the first is not its final program.
    let second = format!("```rhai\n{RETRIEVE}```\nBetter:\n```rhai\nfn retrieve(query,");
    assert_eq!(extract_program(&second, Finish::Length), Err(NoProgram::CutOff));
    // Only the words after the program were cut off.
    let closed = format!("```rhai\n{RETRIEVE}```\nThis program fin");
    assert_eq!(extract_program(&closed, Finish::Length).unwrap(), RETRIEVE);
}

fn schema() -> Schema {
    let schema = json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["n"],
        "additionalProperties": false,
    });
    Schema { name: "test".to_owned(), schema }
}

#[test]
fn json_is_found_and_checked() {
    let schema = schema();
    let read = |text: &str| extract_json(text, &schema);
    for text in [
        "{\"n\": 1}",
        "\n {\"n\": 1}\n",
        "Here:\n```json\n{\"n\": 1}\n```\nI hope it helps {you}.",
        "Sure! {\"n\": 1} That is all. }",
        "<think>{\"n\": 2}</think>{\"n\": 1}",
    ] {
        assert_eq!(read(text), Ok(json!({"n": 1})), "{text}");
    }
    for (text, words) in [
        ("", "empty"),
        ("none", "no JSON object"),
        ("{\"n\": 1", "no valid JSON"),
        ("[1]", "form asked for"),
        ("{\"n\": \"1\"}", "/n"),
        ("{\"n\": 1, \"odd\": 2}", "odd"),
        ("{}", "n"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
    let long = format!("{{\"n\": \"{}\"}}", "x".repeat(100_000));
    assert!(read(&long).unwrap_err().len() <= MAX_REASON_BYTES);
    let deep = format!("{}1{}", "{\"n\":".repeat(100_000), "}".repeat(100_000));
    assert!(read(&deep).is_err());
}

#[test]
fn errors_of_a_schema_name_place_and_reason() {
    let schema = json!({
        "type": "object",
        "properties": {
            "kind": {"enum": ["a", "b", "c", null]},
            "few": {"enum": ["a", "b", null]},
            "items": {"type": "array", "items": {
                "type": "object",
                "properties": {"n": {"type": ["null", "integer"]}, "text": {"type": "string"}},
                "required": ["n", "text"],
                "additionalProperties": false,
            }},
            "any": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "number"}}]},
        },
        "required": ["kind"],
        "additionalProperties": false,
    });
    let schema = Schema { name: "test".to_owned(), schema };
    let reason = |value: Value| extract_json(&value.to_string(), &schema).unwrap_err();
    let prefix = "the JSON does not have the form asked for: ";
    for (value, errors) in [
        (json!([]), "the value: value is not of type \"object\""),
        (json!({}), "the value: \"kind\" is a required property"),
        (
            json!({"x": 1, "few": 1, "y": 2}),
            "/few: value is not one of \"a\", \"b\" or null; the value: Additional properties are \
             not allowed ('x', 'y' were unexpected); the value: \"kind\" is a required property",
        ),
        (json!({"kind": "d"}), "/kind: value is not one of \"a\", \"b\" or 2 other candidates"),
        (
            json!({"kind": "a", "items": [{"n": 1.0, "text": ""}, {"n": 1.5, "z": 1}]}),
            "/items/1: \"text\" is a required property; /items/1/n: value is not of types \
             \"null\", \"integer\"; /items/1: Additional properties are not allowed ('z' was \
             unexpected)",
        ),
        (
            json!({"kind": null, "any": [1, "1"]}),
            "/any: value is not valid under any of the schemas listed in the 'anyOf' keyword",
        ),
    ] {
        assert_eq!(reason(value), format!("{prefix}{errors}"));
    }
    let many = reason(json!({"kind": "a", "items": vec![0; 1_000]}));
    assert_eq!(many.matches("value is not of type \"object\"").count(), 5);
    let schema = json!({"properties": {"n": {"minimum": 1}}});
    let unknown = extract_json("{}", &Schema { name: "test".to_owned(), schema }).unwrap_err();
    assert!(unknown.contains("the schema is wrong: unknown field `minimum`"), "{unknown}");
}

fn request() -> Request {
    Request {
        role: Role::new("tools"),
        model: "scripted".to_owned(),
        messages: vec![Message::user("count")],
        temperature: None,
        max_tokens: 100,
        parameters: serde_json::Map::new(),
        json: Some(schema()),
        sample: 0,
    }
}

#[test]
fn a_wrong_reply_is_repaired_once() {
    let (model, heard) = llm(|request| match question(request) {
        "count" => said("{\"n\": \"one\"}"),
        _ => said("{\"n\": 1}"),
    });
    assert_eq!(model.ask_json(&request()), Ok(json!({"n": 1})));
    let asked = heard.requests();
    assert_eq!(asked.len(), 2);
    let [_, reply, complaint] = &asked[1].messages[..] else { panic!("{:?}", asked[1]) };
    assert_eq!((reply.speaker, reply.text.as_str()), (Speaker::Assistant, "{\"n\": \"one\"}"));
    assert!(complaint.text.contains("/n"), "{}", complaint.text);
    // The same question is answered from what was kept, the repair included.
    assert_eq!(model.ask_json(&request()), Ok(json!({"n": 1})));
    assert_eq!(heard.count(), 2);
}

#[test]
fn a_reply_that_stays_wrong_and_an_outage_are_told_apart() {
    let (model, heard) = llm(|_| said("no"));
    let error = model.ask_json(&request()).unwrap_err();
    assert!(matches!(&error, LlmError::Reply { reason, .. } if reason.contains("JSON")), "{error}");
    assert!(!error.ends_run());
    assert_eq!(heard.count(), 2);
    let (model, heard) = llm(|_| Err(LlmError::Stopped));
    assert_eq!(model.ask_json(&request()), Err(LlmError::Stopped));
    assert_eq!(heard.count(), 1);
    let (model, _) = llm(|_| Ok(("{\"n\": 1".to_owned(), Finish::Length)));
    let error = model.ask_json(&request()).unwrap_err().to_string();
    assert!(error.contains("cut off at 100 tokens"), "{error}");
}

#[test]
fn several_requests_keep_their_order_and_count_what_they_took() {
    let (model, heard) = llm(|request| match question(request) {
        "bad" => said("?"),
        text if text.starts_with("That reply") => said("??"),
        text => said(format!("{{\"n\": {text}}}")),
    });
    let requests: Vec<Request> = ["3", "bad", "1", "2"]
        .iter()
        .map(|text| Request { messages: vec![Message::user(*text)], ..request() })
        .collect();
    let answers = model.ask_json_all(&requests, 1);
    let numbers: Vec<Option<Value>> = answers
        .iter()
        .map(|answer| answer.0.as_ref().ok().map(|value| value["n"].clone()))
        .collect();
    assert_eq!(numbers, [Some(json!(3)), None, Some(json!(1)), Some(json!(2))]);
    assert_eq!(heard.count(), 5);
    let taken: Vec<u64> = answers.iter().map(|answer| answer.1.requests).collect();
    assert_eq!(taken, [1, 2, 1, 1]);
    let total = answers.iter().fold(AskUsage::default(), |sum, answer| sum.and(answer.1));
    assert_eq!(total.tokens_in, 500);
}

/// Generates texts that resemble replies.
fn reply_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("```".to_owned()),
        Just("```rhai\n".to_owned()),
        Just("\n```\n".to_owned()),
        Just("~~~~\n".to_owned()),
        Just("fn retrieve(query, candidates, params) {\n".to_owned()),
        Just("}\n".to_owned()),
        Just("{\"n\": 1}".to_owned()),
        Just("{\"n\":".to_owned()),
        Just("<think>".to_owned()),
        Just("</think>".to_owned()),
        Just("\r\n".to_owned()),
        ".{0,12}",
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_does_harm(text in reply_like()) {
        for finish in [Finish::Stop, Finish::Length, Finish::Filter, Finish::Other] {
            match extract_program(&text, finish) {
                // A program is in the reply completely, and is never empty.
                Ok(found) => {
                    prop_assert!(!found.trim().is_empty());
                    for line in found.lines() {
                        prop_assert!(text.contains(line));
                    }
                }
                Err(reason) => prop_assert!(reason.to_string().len() < 1_000),
            }
        }
        match extract_json(&text, &schema()) {
            Ok(value) => prop_assert!(value["n"].is_i64() || value["n"].is_u64() || value["n"].is_f64()),
            Err(reason) => prop_assert!(reason.len() <= MAX_REASON_BYTES),
        }
    }
}

#[test]
fn long_replies_take_time_in_proportion() {
    let started = std::time::Instant::now();
    for piece in ["```\n", "{", "<think>", "fn retrieve(", "`", "[[{\"n\":"] {
        let text = piece.repeat(400_000);
        let _ = extract_program(&text, Finish::Stop);
        let _ = extract_json(&text, &schema());
    }
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
