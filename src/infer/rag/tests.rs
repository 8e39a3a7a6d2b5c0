//! Answers in prose with a scripted model: kept and dropped sentences, and failures.

use serde_json::{Value as Json, json};

use crate::rag::{CitedRetriever, Prose, write};
use agent_kb::{NodeId, answer::Explanation};
use agent_llm::{LlmError, Request};
use agent_remote::RemoteError;
use agent_retrieve::{Baseline, Detail, RetrieveError, Retriever, System};
use agent_testing::{
    RequestLog, ScriptedReply, assistant, blocks, example_base, llm, question, said,
};

const QUESTION: &str = "the durable Summit Steel Bottle";

/// A model that answers with these sentences, and confirms those that share a word with a node.
fn writer(sentences: Json) -> impl Fn(&Request) -> ScriptedReply + Send + Sync + 'static {
    move |request| {
        if request.json.as_ref().unwrap().name == "answer_write" {
            return said(json!({"sentences": sentences}).to_string());
        }
        let nodes = blocks(question(request), "node ");
        let entries =
            blocks(question(request), "sentence ").into_iter().zip(1..).map(|((_, text), n)| {
                let last = text.trim_end_matches('.').rsplit(' ').next().unwrap().to_owned();
                let supported = nodes.iter().any(|(_, node)| node.contains(&last));
                json!({"n": n, "reason": "by its last word", "supported": supported})
            });
        said(json!({"sentences": entries.collect::<Vec<_>>()}).to_string())
    }
}

fn nodes() -> Vec<NodeId> {
    let found = Baseline::new(example_base(), System::Bm25Names).retrieve(QUESTION, 10).unwrap();
    found.into_iter().map(|pair| pair.0).collect()
}

fn written(
    reply: impl Fn(&Request) -> ScriptedReply + Send + Sync + 'static,
    check: bool,
) -> (Result<Prose, RetrieveError>, RequestLog) {
    let (model, heard) = llm(reply);
    (write(&example_base(), &assistant(model), QUESTION, &nodes(), check), heard)
}

#[test]
fn a_sentence_that_cites_what_was_not_found_is_dropped() {
    let sentences = json!([
        {"text": "The Summit Steel Bottle is durable.", "cites": [1, 1, 2]},
        {"text": "It was worn on the moon.", "cites": []},
        {"text": "Critics agree.", "cites": [1, 99]},
        {"text": " ", "cites": [1]},
        {"text": "It costs nothing.", "cites": [0]},
    ]);
    let (prose, heard) = written(writer(sentences), false);
    let prose = prose.unwrap();
    assert_eq!(heard.count(), 1);
    let kept: Vec<&str> = prose.sentences.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(kept, ["The Summit Steel Bottle is durable."]);
    assert_eq!(prose.cited(), nodes()[..2]);
    let why: Vec<&str> = prose.dropped.iter().map(|one| one.why.as_str()).collect();
    let not_shown = ["cites 99, which was not shown", "cites 0, which was not shown"];
    assert_eq!(why, ["cites nothing", not_shown[0], not_shown[1]]);
}

#[test]
fn a_check_drops_what_the_cited_nodes_do_not_say() {
    let sentences = json!([
        {"text": "It is of steel.", "cites": [1]},
        {"text": "It is made of platinum.", "cites": [1]},
    ]);
    let (prose, heard) = written(writer(sentences.clone()), true);
    let prose = prose.unwrap();
    assert_eq!(heard.count(), 2);
    assert_eq!(blocks(question(&heard.requests()[1]), "node ").len(), 1, "only what is cited");
    assert_eq!(prose.sentences.len(), 1);
    assert_eq!(prose.dropped[0].text, "It is made of platinum.");
    assert!(prose.dropped[0].why.starts_with("not confirmed: "), "{prose:?}");
    // A check that says nothing confirms nothing.
    let silent = move |request: &Request| match request.json.as_ref().unwrap().name.as_str() {
        "answer_write" => said(json!({"sentences": sentences}).to_string()),
        _ => said("{\"sentences\": []}"),
    };
    assert!(written(silent, true).0.unwrap().is_refused());
}

#[test]
fn an_answer_without_support_is_refused() {
    let liar = json!([{"text": "All of them are made of platinum.", "cites": [1]}]);
    assert!(written(writer(liar), true).0.unwrap().is_refused());
    let (prose, heard) = written(writer(json!([])), true);
    assert!(prose.unwrap().is_refused() && heard.count() == 1, "there is nothing to check");
    let (model, heard) = llm(writer(json!([])));
    let prose = write(&example_base(), &assistant(model), QUESTION, &[], true).unwrap();
    assert!(prose.is_refused() && heard.count() == 0, "nothing is asked about no nodes");
}

#[test]
fn an_unusable_reply_and_an_outage_fail() {
    let (prose, heard) = written(|_| said("no"), false);
    assert!(matches!(prose, Err(RetrieveError::Program(why)) if why.starts_with("answer: ")));
    assert_eq!(heard.count(), 2, "it is repaired once");
    let out = LlmError::Remote(RemoteError::Setup("down".to_owned()));
    let (prose, _) = written(move |_| Err(out.clone()), false);
    assert!(prose.unwrap_err().is_outage());
}

#[test]
fn what_an_answer_cites_is_ranked_and_nothing_else() {
    let cited = |sentences| {
        let inner = Box::new(Baseline::new(example_base(), System::Bm25Names));
        CitedRetriever::new(example_base(), inner, assistant(llm(writer(sentences)).0), false)
    };
    let system = cited(json!([
        {"text": "The second.", "cites": [2]}, {"text": "Both.", "cites": [1, 2]},
    ]));
    assert_eq!(system.name(), "answer:bm25+names");
    let detail = Detail { explained_count: 5, paths: true };
    let answer = system.answer(QUESTION, 20, detail).unwrap();
    let found = nodes();
    assert_eq!(answer.ranking(), [(found[1], 1.0), (found[0], 0.5)]);
    let said: Vec<&Explanation> = answer.explanations[0]
        .explanation
        .children
        .iter()
        .filter(|one| one.name == "cited by")
        .collect();
    assert_eq!(said.len(), 2);
    let before = answer.explanations[0].explanation.child("bm25+names").unwrap();
    assert_eq!(before.child("rank").unwrap().value, 2usize.into());
    assert_eq!(system.retrieve(QUESTION, 1).unwrap(), [(found[1], 1.0)]);
    assert_eq!(cited(json!([])).retrieve(QUESTION, 20).unwrap(), []);
}
