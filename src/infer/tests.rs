//! Programs, the reranker and ReAct with a scripted model.

use std::{sync::Arc, thread, time::Duration};

use serde_json::{Value as Json, json};

use crate::{
    bundle::{Bundle, Category, Dataset, FORMAT, Fusion, Provenance, Validation, router::Router},
    infer::{BundleRetriever, ParamValues, React, Rerank, Runtime},
    kb::NodeId,
    llm::{
        Finish, LlmError, Request, Role,
        ledger::Ceilings,
        scripted::{Heard, llm, llm_within, question, said},
    },
    program::Program,
    retrieve::{Baseline, RetrieveError, Retriever, System},
    sandbox::{FailureKind, Workers},
    tools::{
        ToolCache, Trace,
        testing::{assistant, blocks, example_base},
    },
};

type Said = Result<(String, Finish), LlmError>;

/// Scores candidates for the first tool of programs.
const PROGRAM: &str = "fn retrieve(query, candidates, params) {
    let ids = candidates.of_type(\"product\");
    let list = []; for id in ids { list.push(id); }
    let scores = get_scores_by_llm(list, query);
    let m = #{}; for (id, i) in list { m[id.to_string()] = scores[i]; } m
}";

fn runtime(answer: impl Fn(&Request) -> Said + Send + Sync + 'static) -> (Runtime, Heard) {
    let (model, heard) = llm(answer);
    let workers = Arc::new(Workers::new(2).unwrap());
    let cache = Arc::new(ToolCache::new(1 << 20));
    let runtime = Runtime::new(example_base(), workers, Some(cache));
    (runtime.with_assistant(Some(assistant(model))), heard)
}

/// Scores things by whether their text has a word.
fn likes(word: &'static str) -> impl Fn(&Request) -> Said + Send + Sync + 'static {
    move |request| {
        let shown = question(request);
        let name = if shown.contains("# Candidates") { "candidate" } else { "thing" };
        let scores: Vec<Json> = blocks(shown, name)
            .iter()
            .zip(1..)
            .map(|((_, text), n)| {
                let score = if text.contains(word) { 0.9 } else { 0.1 };
                json!({"n": n, "reason": "", "score": score})
            })
            .collect();
        said(json!({"scores": scores}).to_string())
    }
}

#[test]
fn a_program_may_ask_the_model_and_is_traced() {
    let (runtime, heard) = runtime(likes("wool"));
    let compiled = runtime.compile(&Program::new(PROGRAM)).unwrap();
    let trace = Trace::default();
    let run = || runtime.run(&compiled, &ParamValues::new(), "warm socks", Some(&trace));
    let ranking = run().unwrap().unwrap().ranking;
    assert_eq!(ranking[0], (1, 0.9));
    assert_eq!(heard.count(), 1);
    let calls = trace.take();
    let asked = calls.iter().map(|call| call.asked.requests).sum::<u32>();
    assert_eq!(asked, 1);
    assert_eq!(run().unwrap().unwrap().ranking, ranking);
    assert_eq!(heard.count(), 1, "the second run is answered from the cache");
}

#[test]
fn many_threads_get_one_ranking_that_is_paid_once() {
    let (model, heard) = llm(likes("wool"));
    let workers = Arc::new(Workers::new(4).unwrap());
    // Without a cache of tools: the model's kept replies alone make it so.
    let runtime =
        Runtime::new(example_base(), workers, None).with_assistant(Some(assistant(model)));
    let compiled = runtime.compile(&Program::new(PROGRAM)).unwrap();
    let rankings: Vec<_> = thread::scope(|scope| {
        let run = || runtime.run(&compiled, &ParamValues::new(), "warm socks", None);
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|one| one.join().unwrap().unwrap().unwrap().ranking).collect()
    });
    assert!(rankings.iter().all(|ranking| *ranking == rankings[0]));
    assert_eq!((rankings[0][0], heard.count()), ((1, 0.9), 1));
}

#[test]
fn waiting_for_the_model_is_not_the_programs_time() {
    // Longer than a program may run.
    let (runtime, _) = runtime(|request| {
        thread::sleep(Duration::from_millis(2_500));
        likes("wool")(request)
    });
    let compiled = runtime.compile(&Program::new(PROGRAM)).unwrap();
    let ran = runtime.run(&compiled, &ParamValues::new(), "warm socks", None).unwrap();
    assert_eq!(ran.unwrap().ranking[0].0, 1);
}

#[test]
fn an_outage_is_no_failure_of_the_program_even_when_it_catches_it() {
    let (runtime, _) = runtime(|_| Err(LlmError::Unrecorded("not there".to_owned())));
    let caught = "fn retrieve(query, candidates, params) {
        try { get_scores_by_llm([0], query); } catch { }
        search(query)
    }";
    for source in [PROGRAM, caught] {
        let compiled = runtime.compile(&Program::new(source)).unwrap();
        let error = runtime.run(&compiled, &ParamValues::new(), "warm socks", None).unwrap_err();
        assert!(error.is_outage() && error.to_string() == "not there", "{error}");
    }
}

#[test]
fn a_spent_budget_of_the_run_is_no_failure_of_the_program() {
    let ceilings = Ceilings { usd: None, tokens: Some(10) };
    let (model, heard) = llm_within(likes("wool"), ceilings, Vec::new());
    let workers = Arc::new(Workers::new(1).unwrap());
    let runtime =
        Runtime::new(example_base(), workers, None).with_assistant(Some(assistant(model)));
    let compiled = runtime.compile(&Program::new(PROGRAM)).unwrap();
    let error = runtime.run(&compiled, &ParamValues::new(), "warm socks", None).unwrap_err();
    assert!(matches!(error, RetrieveError::Llm(LlmError::Budget { .. })), "{error}");
    assert_eq!(heard.count(), 0);
}

#[test]
fn unusable_replies_are_no_failure_and_no_outage() {
    let (runtime, _) = runtime(|_| said("I would rather not."));
    let compiled = runtime.compile(&Program::new(PROGRAM)).unwrap();
    let ran = runtime.run(&compiled, &ParamValues::new(), "warm socks", None).unwrap().unwrap();
    assert!(ran.ranking.iter().all(|pair| pair.1 == 0.0));
}

#[test]
fn asking_for_too_much_is_the_programs_failure() {
    let (runtime, _) = runtime(|_| said("{\"class\": 1}"));
    let source = "fn retrieve(query, candidates, params) {
        for n in 0..100 { classify_by_llm(query + n, [\"a\", \"b\"]); } #{}
    }";
    let compiled = runtime.compile(&Program::new(source)).unwrap();
    let failure = runtime.run(&compiled, &ParamValues::new(), "x", None).unwrap().unwrap_err();
    assert_eq!(failure.kind, FailureKind::ToolBudget, "{failure}");
    assert!(failure.message.contains("more than 40"), "{failure}");
}

/// A bundle of two programs, of which its router holds the first for the right one of any query,
/// as a model routes it that names the second.
fn routed(most: usize, reply: Json) -> BundleRetriever {
    let category = |name: &str, source: &str| Category {
        name: name.to_owned(),
        program: Program::new(source),
        params: ParamValues::new(),
        proposed_by: "search".to_owned(),
        validation: None,
    };
    let words = |kind: &str| {
        format!("fn retrieve(query, candidates, params) {{ search(query, \"{kind}\", 20) }}")
    };
    let base = example_base();
    let bundle = Bundle {
        format: FORMAT,
        dataset: Dataset {
            name: "example".to_owned(),
            title: String::new(),
            kb: base.kb.fingerprint().to_owned(),
            index: base.fingerprint().to_owned(),
            embedder: String::new(),
        },
        categories: vec![category("right", &words("product")), category("wrong", &words("brand"))],
        router: Router { n_categories: 2, weights: [("always".to_owned(), vec![1.0, 0.0])].into() },
        fusion: Fusion { most, normalized: true, ordered: false },
        order: None,
        cutoff: None,
        phrasings: None,
        validation: Validation {
            n: 0,
            mrr: 0.0,
            baselines: Default::default(),
            held_out: None,
            best_program: None,
            proof: None,
        },
        provenance: Provenance {
            version: String::new(),
            seed: 1,
            steps: 0,
            n_train: 0,
            n_validation: 0,
            llm: None,
            without: Vec::new(),
            drift: Vec::new(),
        },
        digest: String::new(),
    };
    let (runtime, _) = runtime(|_| said("no"));
    let (model, _) = llm(move |_| said(reply.to_string()));
    BundleRetriever::new(Arc::new(runtime), &bundle).unwrap().routed_by(assistant(model))
}

#[test]
fn a_model_that_names_a_wrong_category_takes_nothing_away() {
    let query = "a durable steel bottle by Tidewell";
    let nodes = |most: usize, reply: Json| -> Vec<NodeId> {
        let ranking = routed(most, reply).retrieve(query, 20).unwrap();
        ranking.into_iter().map(|pair| pair.0).collect()
    };
    for most in [1, 2] {
        // Null: the router alone.
        let alone = nodes(most, json!({"category": null, "probability": 1.0}));
        assert!(alone.len() > 3, "{alone:?}");
        for sure in [0.0, 0.5, 1.0] {
            let mixed = nodes(most, json!({"category": 2, "probability": sure}));
            assert!(alone.iter().all(|node| mixed.contains(node)), "{sure}: {alone:?} {mixed:?}");
        }
    }
    let weights = |sure: f64| {
        let reply = json!({"category": 2, "probability": sure});
        routed(1, reply).route(query).unwrap()
    };
    // The router holds the first for the right one with 1 / (1 + e^-1).
    let own = 1.0 / (1.0 + (-1.0_f32).exp());
    let [first, second] = weights(1.0)[..] else { panic!() };
    assert_eq!((first.0, second.0), (1, 0));
    assert!((first.1 - (1.0 - own + 1.0) / 2.0).abs() < 1e-6, "{first:?}");
    assert!((second.1 - own / 2.0).abs() < 1e-6, "{second:?}");
    let sums = [0.0, 0.3, 1.0].map(|sure| weights(sure).iter().map(|pair| pair.1).sum::<f32>());
    assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-6), "{sums:?}");
}

fn hybrid() -> Box<dyn Retriever> {
    Box::new(Baseline::new(example_base(), System::Hybrid))
}

fn rerank(answer: impl Fn(&Request) -> Said + Send + Sync + 'static) -> (Rerank, Heard) {
    let (model, heard) = llm(answer);
    (Rerank::new(example_base(), hybrid(), assistant(model)), heard)
}

#[test]
fn the_reranker_adds_the_models_score_and_the_place() {
    let query = "a durable steel bottle";
    let shortlist = hybrid().retrieve(query, 20).unwrap();
    let n = shortlist.len() as f32;
    let (reranker, heard) = rerank(likes("glass"));
    let ranking = reranker.retrieve(query, 20).unwrap();
    assert_eq!(reranker.name(), "rerank:hybrid");
    assert_eq!((ranking.len(), ranking[0].0), (shortlist.len(), 3));
    for (at, (node, _)) in shortlist.iter().enumerate() {
        let model = if *node == 3 { 0.9 } else { 0.1 };
        let expected = model + 0.1 * (n - at as f32) / n;
        let score = ranking.iter().find(|pair| pair.0 == *node).unwrap().1;
        assert!((score - expected).abs() < 1e-6, "{node}: {score} {expected}");
    }
    assert!(ranking.is_sorted_by(|a, b| a.1 >= b.1));
    assert_eq!(heard.requests()[0].role, Role::new("rerank"));
    assert_eq!(heard.count(), shortlist.len().div_ceil(10));
    assert_eq!(reranker.retrieve(query, 2).unwrap(), ranking[..2]);
    let why = reranker.explain(query, 3).unwrap();
    assert!(why.contains("score 0.9000") && why.contains("hybrid: rank"), "{why}");
    assert!(reranker.explain(query, 15).unwrap().contains("not among"));
}

#[test]
fn candidates_without_a_score_keep_their_places() {
    let query = "a durable steel bottle";
    let shortlist: Vec<NodeId> =
        hybrid().retrieve(query, 20).unwrap().into_iter().map(|pair| pair.0).collect();
    let order = |reranker: &Rerank| -> Vec<NodeId> {
        reranker.retrieve(query, 20).unwrap().into_iter().map(|pair| pair.0).collect()
    };
    let (reranker, heard) = rerank(|_| said("no"));
    assert_eq!(order(&reranker), shortlist);
    assert_eq!(heard.count(), 3);
    // Only the last one is scored, the others get nothing that can be used.
    let last = *shortlist.last().unwrap();
    let name = example_base().kb.name(last).to_owned();
    let (reranker, _) = rerank(move |request| {
        let entries: Vec<Json> = blocks(question(request), "candidate")
            .iter()
            .zip(1..)
            .map(|((_, text), n)| {
                let own = text.split("- relations:").next().unwrap();
                let score = if own.contains(&name) { json!(0.5) } else { json!("7 of 10") };
                json!({"n": n, "reason": "", "score": score})
            })
            .collect();
        said(json!({"scores": entries}).to_string())
    });
    let mut expected = vec![last];
    expected.extend(shortlist.iter().filter(|&&node| node != last));
    assert_eq!(order(&reranker), expected);
    let (reranker, _) = rerank(|_| Err(LlmError::Stopped));
    assert!(matches!(reranker.retrieve(query, 5), Err(RetrieveError::Llm(LlmError::Stopped))));
}

fn react(answer: impl Fn(&Request) -> Said + Send + Sync + 'static) -> (React, Heard) {
    let (model, heard) = llm(answer);
    (React::new(example_base(), assistant(model), None), heard)
}

/// A turn that calls tools.
fn calls(calls: Json) -> Said {
    said(json!({"thought": "next", "calls": calls, "finish": false, "ids": []}).to_string())
}

/// A turn that ends.
fn finish(ids: Json) -> Said {
    said(json!({"thought": "done", "calls": [], "finish": true, "ids": ids}).to_string())
}

#[test]
fn react_calls_tools_by_handles_and_names_nodes() {
    let (system, heard) = react(|request| {
        assert!(!question(request).contains("Left out"), "the toolkit fits the budget");
        let steps = blocks(question(request), "step");
        match steps.len() {
            0 => calls(json!([
                {"tool": "link", "args": ["Tidewell", ["brand"], 1]},
                {"tool": "links", "args": []},
                {"tool": "hop", "args": ["$9", "has_brand"]},
            ])),
            3 => {
                assert!(steps[0].1.contains("$1: 1 scores: 10 \"Tidewell\" (brand)"), "{steps:?}");
                assert!(steps[1].1.contains("no function \"links\"; near are link"), "{steps:?}");
                assert!(steps[2].1.contains("no handle $9"), "{steps:?}");
                calls(json!([{"tool": "hop", "args": ["$1", "has_brand", "in"]}]))
            }
            4 => {
                assert!(steps[3].1.contains("$2: 4 scores"), "{steps:?}");
                calls(json!([
                    {"tool": "&", "args": ["$2", "$2"]},
                    {"tool": "hop", "args": ["$2"]},
                    {"tool": "search", "args": ["socks", "product", 1]},
                ]))
            }
            _ => finish(json!([7, 4, 999, 7, -1])),
        }
    });
    let ranking = system.retrieve("socks by Tidewell", 20).unwrap();
    assert_eq!(ranking[..2], [(7, 1.0), (4, 0.5)]);
    assert_eq!(ranking[2].1, -1.0);
    let products: Vec<NodeId> = ranking.iter().map(|pair| pair.0).collect();
    assert!(products.len() > 2 && products[2..].iter().all(|node| ![7, 4].contains(node)));
    assert!(ranking.is_sorted_by(|a, b| a.1 >= b.1));
    assert_eq!(heard.count(), 4);
    let why = system.explain("socks by Tidewell", 4).unwrap();
    assert!(why.contains("link(") && why.contains("named as answer 2"), "{why}");
    assert_eq!(system.retrieve("socks by Tidewell", 1).unwrap(), [(7, 1.0)]);
}

#[test]
fn react_ends_within_its_bounds() {
    let many = json!(vec![json!({"tool": "words", "args": ["a b"]}); 5]);
    let (system, heard) = react(move |request| {
        let left = question(request).rsplit("You have ").next().unwrap().to_owned();
        assert!(left.contains("turns and"), "{left}");
        calls(many.clone())
    });
    let error = system.retrieve("socks", 5).unwrap_err().to_string();
    assert!(error.contains("no answer after 12 turns"), "{error}");
    assert_eq!(heard.count(), 12);
    let last = heard.requests().pop().unwrap();
    assert_eq!(blocks(question(&last), "step").len(), 30, "calls are bounded");
    assert!(question(&last).contains("This is the last turn"));
}

#[test]
fn react_fails_where_the_model_does_and_tells_outages_apart() {
    let failed = |answer: Said| {
        let (system, _) = react(move |_| answer.clone());
        system.retrieve("socks", 5).unwrap_err()
    };
    let error = failed(said("no"));
    assert!(matches!(&error, RetrieveError::Program(why) if why.contains("JSON")), "{error}");
    let error = failed(finish(json!([999])));
    assert!(matches!(&error, RetrieveError::Program(why) if why.contains("no node")), "{error}");
    let error = failed(Err(LlmError::Stopped));
    assert!(matches!(error, RetrieveError::Llm(_)) && error.is_outage());
}
