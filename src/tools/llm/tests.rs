//! The LLM tools with a scripted model: order, batches, unusable replies, bounds.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::testing::assistant;
use crate::{
    Session, ToolCache, ToolError, ToolHost, Trace, Value,
    llm::{NODE_CHARS, class_of, truth_of, unit_score},
    registry,
};
use agent_index::excerpt::relevant;
use agent_kb::NodeId;
use agent_llm::{LlmError, Request, Role};
use agent_testing::{RequestLog, ScriptedReply, blocks, example_base, llm, question, said};

/// A session with a scripted model, and the requests to it.
fn session(
    answer: impl Fn(&Request) -> ScriptedReply + Send + Sync + 'static,
) -> (Session, RequestLog) {
    let (model, heard) = llm(answer);
    (Session::new(example_base(), None).with_assistant(Some(assistant(model))), heard)
}

fn call(session: &mut Session, name: &str, args: Vec<Value>) -> Result<Value, ToolError> {
    session.call(registry().iter().position(|spec| spec.name == name).unwrap(), args)
}

fn nodes(ids: &[NodeId]) -> Value {
    Value::List(ids.iter().map(|&id| Value::Int(id.into())).collect())
}

fn texts(texts: &[&str]) -> Value {
    Value::List(texts.iter().map(|text| Value::text(text)).collect())
}

/// A reply with an entry for each item of the question.
fn of_things(request: &Request, list: &str, say: impl Fn(&str) -> Json) -> ScriptedReply {
    let things = blocks(question(request), "t");
    let entries = things.iter().zip(1..).map(|((_, text), n)| {
        let mut entry = say(text);
        entry["n"] = json!(n);
        entry
    });
    said(json!({list: entries.collect::<Vec<_>>()}).to_string())
}

#[test]
fn without_a_model_every_tool_says_so() {
    let mut session = Session::new(example_base(), None);
    for spec in registry().iter().filter(|spec| spec.group == "llm") {
        let args = match spec.name {
            "parse_query" | "classify_by_llm" => vec![Value::text("x"), texts(&["a", "b"])],
            "summarize_texts_by_llm" => vec![texts(&["x"])],
            "extract_relevant_info_by_llm" => vec![texts(&["x"]), Value::text("y")],
            "expand" => vec![Value::text("x"), Value::text("hyde")],
            "check_req_by_llm" | "get_scores_by_llm" => vec![nodes(&[0]), Value::text("y")],
            other => panic!("{other} is not tested"),
        };
        assert_eq!(call(&mut session, spec.name, args), Err(ToolError::NoLlm), "{}", spec.name);
    }
}

#[test]
fn nodes_are_asked_about_together_once_and_answered_in_order() {
    let (mut session, heard) = session(|request| {
        of_things(
            request,
            "checks",
            |text| json!({"evidence": "", "met": text.contains("wool") || text.contains("steel")}),
        )
    });
    let ids = [1, 0, 1, 5, 2, 1];
    let args = vec![nodes(&ids), Value::text("is of wool or steel")];
    let met = call(&mut session, "check_req_by_llm", args).unwrap();
    let expected = [true, true, true, false, true, true].map(Value::Bool);
    assert_eq!(met, Value::List(expected.to_vec()));
    assert_eq!(heard.count(), 1);
    let request = &heard.requests()[0];
    assert_eq!(request.role, Role::new("tools"));
    let shown = question(request);
    assert_eq!(blocks(shown, "thing").len(), 4, "{shown}");
    assert!(shown.contains("type: product") && shown.contains("has_brand: Northpeak"), "{shown}");

    // Sixteen nodes take two requests.
    let all: Vec<NodeId> = (0..16).collect();
    let args = vec![nodes(&all), Value::text("is of wool or steel")];
    let Value::List(met) = call(&mut session, "check_req_by_llm", args).unwrap() else { panic!() };
    assert_eq!((met.len(), heard.count()), (16, 3));
    assert_eq!(
        (&met[0], &met[5], &met[15]),
        (&Value::Bool(true), &Value::Bool(false), &Value::Bool(false))
    );
    let args = vec![nodes(&[99]), Value::text("x")];
    assert!(matches!(call(&mut session, "check_req_by_llm", args), Err(ToolError::NotFound(_))));
}

#[test]
fn nothing_is_asked_about_nothing() {
    let (mut session, heard) = session(|_| said("?"));
    let empty = || Value::List(Vec::new());
    let text = || Value::text("x");
    assert_eq!(call(&mut session, "check_req_by_llm", vec![empty(), text()]), Ok(empty()));
    assert_eq!(call(&mut session, "get_scores_by_llm", vec![empty(), text()]), Ok(empty()));
    assert_eq!(call(&mut session, "summarize_texts_by_llm", vec![empty()]), Ok(empty()));
    let args = vec![texts(&[" ", ""]), text()];
    assert_eq!(call(&mut session, "extract_relevant_info_by_llm", args), Ok(texts(&["NA", "NA"])));
    let parsed = call(&mut session, "parse_query", vec![text(), empty()]);
    assert_eq!(parsed, Ok(Value::Map([].into())));
    assert_eq!(call(&mut session, "classify_by_llm", vec![text(), empty()]), Ok(Value::text("NA")));
    let parsed = call(&mut session, "parse_query", vec![Value::text(" "), texts(&["a"])]);
    assert_eq!(parsed, Ok(Value::Map([("a".to_owned(), Value::text("NA"))].into())));
    assert_eq!(heard.count(), 0);
}

#[test]
fn what_a_reply_leaves_out_is_asked_again_and_then_given_up() {
    // The first reply omits the second node; the mug never gets a usable score.
    let answer = |request: &Request| {
        let things = blocks(question(request), "thing");
        let entries: Vec<Json> = things
            .iter()
            .zip(1..)
            .filter(|(_, n)| request.sample > 0 || *n != 2)
            .map(|((_, text), n)| {
                let score =
                    if text.contains("folding handle") { json!("high") } else { json!("0.5") };
                json!({"n": n, "reason": "", "score": score})
            })
            .collect();
        said(json!({"scores": entries}).to_string())
    };
    let (model, heard) = llm(answer);
    let cache = Arc::new(ToolCache::new(1 << 20));
    let trace = Trace::default();
    let open = || {
        Session::new(example_base(), Some(cache.clone()))
            .with_assistant(Some(assistant(model.clone())))
            .with_trace(Some(&trace))
    };
    let scores = call(&mut open(), "get_scores_by_llm", vec![nodes(&[0, 1, 2]), Value::text("q")]);
    let expected = [0.5, 0.5, 0.0].map(Value::Float);
    assert_eq!(scores, Ok(Value::List(expected.to_vec())));
    assert_eq!(heard.count(), 2);
    assert_eq!(blocks(question(&heard.requests()[1]), "thing").len(), 2);
    let noted = trace.take().remove(0);
    assert_eq!((noted.unparsed, noted.asked.requests), (1, 2));
    let line = noted.describe(&example_base().kb, None);
    assert!(line.contains("2 LLM requests") && line.ends_with("; 1 unparsed"), "{line}");

    // Complete results are cached for other sessions, which are charged the same.
    let whole = || vec![nodes(&[0, 1]), Value::text("q")];
    let mut first = open();
    call(&mut first, "get_scores_by_llm", whole()).unwrap();
    let asked = heard.count();
    let mut second = open();
    call(&mut second, "get_scores_by_llm", whole()).unwrap();
    assert_eq!((first.work(), heard.count()), (second.work(), asked));
    assert_eq!(first.work().llm_items, 3, "two nodes, one of them twice");
    assert_eq!(cache.hits_and_misses().0, 1);
}

#[test]
fn hopeless_replies_end_after_three_requests() {
    let (mut session, heard) = session(|request| said(format!("no {}", request.messages.len())));
    let trace = Trace::default();
    session = session.with_trace(Some(&trace));
    let args = vec![nodes(&[0]), Value::text("q")];
    let met = call(&mut session, "check_req_by_llm", args).unwrap();
    assert_eq!((met, heard.count()), (Value::List(vec![Value::Bool(false)]), 3));
    let class = call(&mut session, "classify_by_llm", vec![Value::text("x"), texts(&["a", "b"])]);
    assert_eq!((class.unwrap(), heard.count()), (Value::text("NA"), 6));
    let parsed = call(&mut session, "parse_query", vec![Value::text("x"), texts(&["a", "b"])]);
    let Ok(Value::Map(parsed)) = parsed else { panic!("{parsed:?}") };
    assert_eq!((parsed["a"].clone(), heard.count()), (Value::text("NA"), 9));
    let unparsed: Vec<usize> = trace.take().iter().map(|call| call.unparsed).collect();
    assert_eq!(unparsed, [1, 1, 2]);
}

#[test]
fn queries_are_parsed_into_exactly_the_attributes_asked_for() {
    let (mut session, heard) = session(|_| {
        said(
            json!({"values": [
                {"attribute": "Brand", "value": " Northpeak "},
                {"attribute": "price", "value": 20},
                {"attribute": "odd", "value": "x"},
                {"attribute": "use", "value": null},
            ]})
            .to_string(),
        )
    });
    let args = vec![Value::text("a bottle"), texts(&["brand", "price", "use", "brand"])];
    let parsed = call(&mut session, "parse_query", args).unwrap();
    let expected = [("brand", "Northpeak"), ("price", "20"), ("use", "NA")];
    let expected = expected.map(|(name, value)| (name.to_owned(), Value::text(value)));
    assert_eq!(parsed, Value::Map(expected.into()));
    assert_eq!(heard.count(), 1);
}

#[test]
fn texts_are_summarised_and_searched_once_each() {
    let (mut session, heard) = session(|request| {
        let list = if question(request).contains("# Term") { "extracts" } else { "summaries" };
        of_things(
            request,
            list,
            |text| json!({if list == "extracts" { "text" } else { "summary" }: format!("all of {text} here")}),
        )
    });
    let args = vec![texts(&["one", "two", " one "]), Value::Int(3)];
    let summaries = call(&mut session, "summarize_texts_by_llm", args).unwrap();
    assert_eq!(summaries, texts(&["all of one", "all of two", "all of one"]));
    let long = format!(
        "start {} the strap is of leather {}",
        "filler ".repeat(3_000),
        "end ".repeat(3_000)
    );
    let args = vec![texts(&[&long]), Value::text("wool steel bottle")];
    call(&mut session, "extract_relevant_info_by_llm", args).unwrap();
    assert_eq!(heard.count(), 2);
    let shown = blocks(question(&heard.requests()[1]), "text")[0].1.clone();
    assert!(shown.starts_with("start") && shown.chars().count() <= 6_100, "{}", shown.len());
}

#[test]
fn a_program_call_may_ask_for_so_much() {
    let (mut session, heard) = session(|_| said("{\"class\": 1}"));
    let mut last = Ok(Value::Unit);
    let mut n = 0;
    while last.is_ok() {
        n += 1;
        let args = vec![Value::text(&format!("text {n}")), texts(&["a", "b"])];
        last = call(&mut session, "classify_by_llm", args);
    }
    let Err(ToolError::Budget(message)) = last else { panic!("{last:?}") };
    assert!(message.contains("41 requests to the LLM exceed the limit of 40"), "{message}");
    assert_eq!((n, heard.count()), (41, 40));

    let (mut session, heard) = self::session(|_| said("?"));
    let many: Vec<String> = (0..401).map(|n| format!("text {n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = call(&mut session, "summarize_texts_by_llm", vec![texts(&many)]);
    assert!(matches!(refused, Err(ToolError::Budget(_))), "{refused:?}");
    assert_eq!(heard.count(), 0);
    let (mut session, _) = self::session(|_| said("?"));
    let many: Vec<String> = (0..101).map(|n| format!("class {n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = call(&mut session, "classify_by_llm", vec![Value::text("x"), texts(&many)]);
    assert!(matches!(refused, Err(ToolError::BadArgs(_))), "{refused:?}");
}

#[test]
fn an_outage_ends_the_call_and_is_remembered() {
    let (mut session, heard) = session(|_| Err(LlmError::Unrecorded("not there".to_owned())));
    let ended = call(&mut session, "get_scores_by_llm", vec![nodes(&[0]), Value::text("q")]);
    assert!(matches!(&ended, Err(ToolError::Llm(why)) if why.contains("not there")), "{ended:?}");
    assert_eq!(session.outage(), Some(LlmError::Unrecorded("not there".to_owned())));
    assert_eq!(heard.count(), 1);
}

#[test]
fn long_documents_are_cut_to_what_is_asked() {
    let base = example_base();
    let filler = "nothing of note stands in this line\n".repeat(400);
    let text = format!("name of the thing\n{filler}its lid is of durable steel\n{filler}");
    let cut = relevant(&base, &text, "steel bottle", NODE_CHARS);
    assert!(cut.starts_with("name of the thing"), "{cut}");
    assert!(cut.contains("durable steel") && cut.contains("[...]"), "{cut}");
    assert!(cut.chars().count() <= NODE_CHARS + 100, "{}", cut.len());
    assert_eq!(relevant(&base, " short ", "steel", NODE_CHARS), "short");
    let one_line = "x".repeat(50_000);
    assert!(relevant(&base, &one_line, "steel", NODE_CHARS).len() <= NODE_CHARS + 100);
}

#[test]
fn replies_are_read_in_the_forms_that_models_use() {
    let classes = ["red wine", "2", "Other"];
    let read = |reply: Json| class_of(&reply, &classes);
    assert_eq!(read(json!(1)).as_deref(), Some("red wine"));
    assert_eq!(read(json!("other")).as_deref(), Some("Other"));
    assert_eq!(read(json!("2")).as_deref(), Some("2"));
    assert_eq!(read(json!("3.")).as_deref(), Some("Other"));
    assert_eq!(read(json!(null)).as_deref(), Some("NA"));
    for wrong in [json!(0), json!(4), json!(-1), json!(1.5), json!("none"), json!([])] {
        assert_eq!(read(wrong.clone()), None, "{wrong}");
    }
    assert_eq!(
        [json!("Yes."), json!(true), json!("no")].map(|one| truth_of(&one)),
        [Some(true), Some(true), Some(false)]
    );
    assert_eq!(truth_of(&json!("perhaps")), None);
    assert_eq!(
        [json!(1), json!("0.25"), json!(0)].map(|one| unit_score(&one)),
        [Some(1.0), Some(0.25), Some(0.0)]
    );
    for wrong in [json!(1.01), json!(-0.1), json!("10"), json!("NaN"), json!(true), json!("inf")] {
        assert_eq!(unit_score(&wrong), None, "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_reply_gives_a_value_for_each_node(reply in "\\PC{0,40}|\\{\"scores\": \\[\\{\"n\": [0-9]{1,20}, \"reason\": \"\", \"score\": [0-9.]{1,6}\\}\\]\\}") {
        let (mut session, heard) = session(move |_| said(format!("{reply} ")));
        let args = vec![nodes(&[3, 1, 3]), Value::text("q")];
        let Ok(Value::List(scores)) = call(&mut session, "get_scores_by_llm", args) else { panic!() };
        prop_assert_eq!(scores.len(), 3);
        prop_assert_eq!(&scores[0], &scores[2]);
        for score in scores {
            prop_assert!(matches!(score, Value::Float(score) if (0.0..=1.0).contains(&score)));
        }
        prop_assert!(heard.count() <= 3);
    }
}
