//! Programs, the reranker and ReAct with a scripted model.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, LazyLock, atomic::AtomicBool},
    thread,
    time::Duration,
};

use serde_json::{Value as Json, json};

use crate::{
    self as infer, AnswerRecord, BundleRetriever, Depth, ParamValues, ProgramRetriever, React,
    Rerank, Runtime,
    bundle::{
        Bundle, Category, Dataset, FORMAT, Fit, Fusion, Member, Provenance, Validation,
        reranker::Reranker, router::Router,
    },
};
use agent_dataset::{
    Home, ImportOptions, LabelledQuery, Split, import_neutral, load_split,
    sample::{SampleKind, SampleOptions, generate},
};
use agent_index::{IndexedBase, build};
use agent_kb::{Kb, NodeId};
use agent_llm::{LlmError, Request, Role, ledger::Ceilings};
use agent_remote::RemoteError;
use agent_retrieve::{
    Answer, AssistFailure, Baseline, Detail, Ranking, RetrieveError, Retriever, System,
};
use agent_sandbox::{FailureKind, Workers, program::Program};
use agent_testing::{
    RequestLog, ScriptedReply, assistant, blocks, example_base, llm, llm_within, question, said,
};
use agent_tools::{ToolCache, Trace};

/// A program whose first tool scores candidates.
const PROGRAM: &str = "fn retrieve(query, candidates, params) {
    let ids = candidates.of_type(\"product\");
    let list = []; for id in ids { list.push(id); }
    let scores = get_scores_by_llm(list, query);
    let m = #{}; for (id, i) in list { m[id.to_string()] = scores[i]; } m
}";

fn runtime(
    answer: impl Fn(&Request) -> ScriptedReply + Send + Sync + 'static,
) -> (Runtime, RequestLog) {
    let (model, heard) = llm(answer);
    let workers = Arc::new(Workers::new(2).unwrap());
    let cache = Arc::new(ToolCache::new(1 << 20));
    let runtime = Runtime::new(example_base(), workers, Some(cache));
    (runtime.with_assistant(Some(assistant(model))), heard)
}

/// The text of a candidate without its relations.
fn own(text: &str) -> &str {
    ["\nlinks to what", "\nrelations:"]
        .iter()
        .fold(text, |text, mark| text.split(mark).next().unwrap())
}

/// Scores items by whether their text contains a word.
fn likes(word: &'static str) -> impl Fn(&Request) -> ScriptedReply + Send + Sync + 'static {
    move |request| {
        let shown = question(request);
        let name = if shown.contains("# Candidates") { "candidate" } else { "thing" };
        let scores: Vec<Json> = blocks(shown, name)
            .iter()
            .zip(1..)
            .map(|((_, text), n)| {
                let score = if own(text).contains(word) { 0.9 } else { 0.1 };
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
    let asked = calls.iter().map(|call| call.asked.requests).sum::<u64>();
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
fn an_outage_ends_the_run_even_if_the_program_catches_it() {
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
fn an_exhausted_budget_is_not_a_failure_of_the_program() {
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
fn unusable_replies_are_neither_failures_nor_outages() {
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
    assert!(failure.message.contains("limit of 40"), "{failure}");
}

/// A bundle of two programs that each search one type, whose router always prefers the first.
fn bundle(base: &IndexedBase, most: usize, types: [&str; 2]) -> Bundle {
    let category = |name: &str, kind: &str| Category {
        name: name.to_owned(),
        program: Program::new(&format!(
            "fn retrieve(query, candidates, params) {{ search(query, \"{kind}\", 60) }}"
        )),
        params: ParamValues::new(),
        proposed_by: "search".to_owned(),
        validation: None,
    };
    Bundle {
        format: FORMAT,
        dataset: Dataset {
            name: "example".to_owned(),
            title: String::new(),
            kb: base.kb.fingerprint().to_owned(),
            index: base.fingerprint().to_owned(),
            embedder: String::new(),
        },
        categories: vec![category("right", types[0]), category("wrong", types[1])],
        router: Router { n_categories: 2, weights: [("always".to_owned(), vec![1.0, 0.0])].into() },
        fusion: Fusion::of_scores(most, true),
        reranker: None,
        ensemble: Vec::new(),
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
            synthetic: false,
            baseline: None,
        },
        digest: String::new(),
    }
}

/// The bundle on the example base, with a model that always gives this reply.
fn routed(most: usize, reply: Json) -> BundleRetriever {
    let bundle = bundle(&example_base(), most, ["product", "brand"]);
    let (runtime, _) = runtime(|_| said("no"));
    let (model, _) = llm(move |_| said(reply.to_string()));
    BundleRetriever::new(Arc::new(runtime), &bundle).unwrap().read_by(assistant(model))
}

#[test]
fn a_model_gets_descriptions_that_names_do_not_contain() {
    let mut bundle = bundle(&example_base(), 1, ["product", "brand"]);
    for (category, name) in
        bundle.categories.iter_mut().zip(["product by likely brand (<has_brand)", "alike"])
    {
        category.name = name.to_owned();
        let source = category.program.source();
        category.program = Program::new(&format!("//! Ranks {name} by steps.\n{source}"));
    }
    let (runtime, _) = runtime(|_| said("no"));
    let (model, heard) = llm(|_| said("no reading"));
    let bundle = BundleRetriever::new(Arc::new(runtime), &bundle).unwrap();
    bundle.read_by(assistant(model)).retrieve("a durable steel bottle", 5).unwrap();
    let answer =
        heard.requests()[0].messages.iter().map(|one| one.text.as_str()).collect::<String>();
    assert!(
        answer.contains("1. product by likely brand (<has_brand)\n2. alike: Ranks alike"),
        "{answer}"
    );
}

#[test]
fn members_of_an_ensemble_answer_together() {
    let base = example_base();
    let one = bundle(&base, 1, ["product", "brand"]);
    let second = Member {
        categories: vec![1],
        router: Router { n_categories: 1, weights: BTreeMap::new() },
        fusion: Fusion::of_scores(1, true),
        reranker: None,
    };
    let both = Bundle { ensemble: vec![second], ..one.clone() };
    let workers = Arc::new(Workers::new(1).unwrap());
    let runtime = Arc::new(Runtime::new(base.clone(), workers, None));
    let query = "a durable steel bottle by Tidewell";
    let answered = |bundle: &Bundle| {
        let answers = BundleRetriever::new(runtime.clone(), bundle).unwrap();
        let asked = answers.route(query).unwrap();
        let answer = answers.answer(query, 20, Detail { explained_count: 1, ..Detail::default() });
        (asked.iter().map(|pair| pair.0).collect::<Vec<_>>(), answer.unwrap())
    };
    let (asked, alone) = answered(&one);
    assert_eq!((asked, alone.route.len()), (vec![0], 1));
    let (asked, together) = answered(&both);
    assert_eq!((asked, together.route.len()), (vec![1, 0], 2));
    let kind = |at: usize| base.kb.type_name(base.kb.node_type(together.ranking()[at].0));
    // Either is first with one member: as good as the other.
    assert_eq!([kind(0), kind(1)].into_iter().collect::<BTreeSet<_>>().len(), 2);
    assert!(alone.ranking().iter().all(|pair| together.ranking().iter().any(|of| of.0 == pair.0)));
}

/// A reading with a category only.
fn named(category: Json, sure: f64) -> Json {
    json!({
        "category": category, "probability": sure, "entities": [], "names": [], "relations": [],
        "type": null, "constraints": [], "conditions": [], "excluded": [], "answers": [],
    })
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
        let alone = nodes(most, named(json!(null), 1.0));
        assert!(alone.len() > 3, "{alone:?}");
        for sure in [0.0, 0.5, 1.0] {
            let mixed = nodes(most, named(json!(2), sure));
            assert!(alone.iter().all(|node| mixed.contains(node)), "{sure}: {alone:?} {mixed:?}");
        }
    }
    let weights = |sure: f64| routed(1, named(json!(2), sure)).route(query).unwrap();
    // The router holds the first for the right one with 1 / (1 + e^-1).
    let own = 1.0 / (1.0 + (-1.0_f32).exp());
    let [first, second] = weights(1.0)[..] else { panic!() };
    assert_eq!((first.0, second.0), (1, 0));
    assert!((first.1 - (1.0 - own + 1.0) / 2.0).abs() < 1e-6, "{first:?}");
    assert!((second.1 - own / 2.0).abs() < 1e-6, "{second:?}");
    let sums = [0.0, 0.3, 1.0].map(|sure| weights(sure).iter().map(|pair| pair.1).sum::<f32>());
    assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-6), "{sums:?}");
}

#[test]
fn answers_that_a_model_knows_can_be_left_out() {
    let (base, query) = (example_base(), "something for the desk");
    let mut reply = named(json!(1), 1.0);
    let first = |system: BundleRetriever| system.retrieve(query, 20).unwrap()[0].0;
    let without = first(routed(1, reply.clone()).without_known_answers());
    let known = *base.kb.candidates().iter().find(|&&node| node != without).unwrap();
    reply["answers"] = json!([base.kb.name(known)]);
    let with = routed(1, reply.clone()).retrieve(query, 20).unwrap();
    let left_out = routed(1, reply).without_known_answers().retrieve(query, 20).unwrap();
    let score = |ranking: &Ranking| ranking.iter().find(|pair| pair.0 == known).map(|pair| pair.1);
    assert!(score(&with) > score(&left_out), "{with:?} {left_out:?}");
    assert_eq!(left_out, routed(1, named(json!(1), 1.0)).retrieve(query, 20).unwrap());
}

#[test]
fn an_answer_with_all_its_reasons_runs_each_program_once() {
    let query = "a durable steel bottle by Tidewell";
    let system = routed(2, named(json!(2), 0.5));
    let detail = Detail { explained_count: 5, paths: true };
    let answer = infer::answer(&example_base(), &system, query, 20, detail).unwrap();
    let kb = &example_base().kb;
    let record = serde_json::to_value(AnswerRecord::new(kb, &answer)).unwrap();
    assert_eq!((answer.route.len(), system.runtime.runs()), (2, 2), "{record}");
    assert_eq!(system.retrieve(query, 20).unwrap(), answer.ranking(), "as without reasons");

    let hits = record["hits"].as_array().unwrap();
    assert!(hits.len() > 5 && answer.explanations.len() == 5);
    for (at, hit) in hits.iter().enumerate() {
        assert_eq!(
            (hit.get("explanation").is_some(), hit.get("calls").is_some()),
            (at < 5, at < 5)
        );
        let path = hit["path"].as_array().unwrap();
        for (own, of_hit) in [("node", "id"), ("key", "key")] {
            assert!(path.is_empty() || path.last().unwrap()[own] == hit[of_hit], "{hit}");
        }
    }
    let calls = hits[0]["calls"].as_array().unwrap();
    let tools: Vec<&Json> = calls.iter().map(|call| &call["tool"]).collect();
    assert_eq!(tools, ["search", "search"], "one of each category");
    assert_eq!(calls[0]["arguments"][0], format!("\"{query}\""));
    let values: Vec<bool> = calls.iter().map(|call| call["value"].is_number()).collect();
    assert!(values == [true, false] || values == [false, true], "{calls:?}");
    let entity = &record["understood"]["entities"][0];
    assert_eq!((&entity["name"], &entity["exact"]), (&json!("Tidewell"), &json!(true)));
    // What Tidewell makes is one edge away from it.
    let made = hits.iter().find(|hit| hit["path"].as_array().unwrap().len() == 2).unwrap();
    assert_eq!(made["path"][0]["name"], "Tidewell");
    assert_eq!(
        (&made["path"][1]["relation"], &made["path"][1]["direction"]),
        (&json!("has_brand"), &json!("in"))
    );
}

#[test]
fn another_system_stands_in_for_a_program_that_fails_and_says_so() {
    let (runtime, _) = runtime(|_| said("no"));
    let fails = Program::new("fn retrieve(query, candidates, params) { throw \"no\" }");
    let system = ProgramRetriever::new(Arc::new(runtime), &fails, ParamValues::new()).unwrap();
    let detail = Detail { explained_count: 1, paths: true };
    let answer = infer::answer(&example_base(), &system, "steel bottle", 5, detail).unwrap();
    let stand_in = answer.stand_in.as_ref().unwrap();
    assert_eq!((stand_in.system.as_str(), system.runtime.runs()), ("hybrid", 1));
    assert!(stand_in.reason.contains("no"), "{stand_in:?}");
    assert_eq!(answer.ranking(), hybrid().retrieve("steel bottle", 5).unwrap());
    assert_eq!(answer.explanations.len(), 1);
    assert!(answer.words[0].contains(&"steel".to_owned()), "{:?}", answer.words);
}

fn hybrid() -> Box<dyn Retriever> {
    Box::new(Baseline::new(example_base(), System::Hybrid))
}

fn rerank(
    answer: impl Fn(&Request) -> ScriptedReply + Send + Sync + 'static,
) -> (Rerank, RequestLog) {
    let (model, heard) = llm(answer);
    (Rerank::new(example_base(), hybrid(), assistant(model)), heard)
}

#[test]
fn a_reading_is_mixed_in_and_a_useless_one_changes_nothing() {
    let query = "a durable steel bottle by Tidewell";
    let nodes = |bundle: &BundleRetriever| -> Vec<NodeId> {
        bundle.retrieve(query, 40).unwrap().into_iter().map(|pair| pair.0).collect()
    };
    let reading = |probability: f64| {
        json!({
            "category": null, "probability": probability, "entities": [1], "names": [],
            "relations": [], "type": "product", "constraints": ["socks of wool"],
            "conditions": [], "excluded": [], "answers": [],
        })
    };
    let alone = nodes(&routed(1, named(json!(null), 0.0)));
    assert_eq!(nodes(&routed(1, reading(0.0))), alone, "what the model does not believe");
    let mixed = nodes(&routed(1, reading(1.0)));
    assert_ne!(mixed, alone);
    assert!(alone.iter().all(|node| mixed.contains(node)), "nothing is taken away");
    // Socks by Tidewell: only the reading knows of them.
    assert!(mixed.iter().position(|&node| node == 7) < alone.iter().position(|&node| node == 7));
    let silent = routed(1, json!("no reading"));
    assert_eq!(nodes(&silent), alone);
    let answer = silent.answer(query, 40, Detail::default()).unwrap();
    assert_eq!(answer.unassisted, Some(AssistFailure::Unusable));
}

#[test]
fn the_reranker_orders_by_score_and_parts_ties_by_place() {
    let query = "a durable steel bottle";
    let shortlist = hybrid().retrieve(query, 50).unwrap();
    let (reranker, heard) = rerank(likes("glass"));
    let ranking = reranker.retrieve(query, 50).unwrap();
    assert_eq!(reranker.name(), "rerank:hybrid");
    let mut expected = vec![3];
    expected.extend(shortlist.iter().map(|pair| pair.0).filter(|&node| node != 3));
    assert_eq!(ranking.iter().map(|pair| pair.0).collect::<Vec<_>>(), expected);
    assert!((ranking[0].1 - 0.9).abs() < 1e-6 && (ranking[1].1 - 0.1).abs() < 1e-6);
    assert!(ranking.is_sorted_by(|a, b| a.1 > b.1), "scores part all ranks: {ranking:?}");
    assert_eq!(heard.requests()[0].role, Role::new("rerank"));
    // One of the first ten is scored high: the others are not asked about.
    assert_eq!(heard.count(), 1);
    assert_eq!(reranker.retrieve(query, 2).unwrap(), ranking[..2]);
    let (reranker, heard) = rerank(likes("glass"));
    let detail = Detail { explained_count: 1, paths: false };
    let answer = reranker.answer(query, 50, detail).unwrap();
    assert_eq!((answer.ranking(), answer.explanations.len()), (&ranking[..], 1));
    assert_eq!(heard.count(), 1, "asked once, explained and all");
    let why = &answer.explanations[0].explanation;
    assert_eq!(why.child("the model").unwrap().value, 0.9f32.into());
    let place = why.child("hybrid").and_then(|place| place.child("rank")).unwrap();
    let at = shortlist.iter().position(|pair| pair.0 == 3).unwrap();
    assert_eq!(place.value, (at + 1).into());
}

#[test]
fn every_request_to_the_judge_has_what_the_query_names() {
    let (reranker, heard) = rerank(likes("socks"));
    reranker.retrieve("warm socks by Tidewell", 20).unwrap();
    let requests = heard.requests();
    assert!(!requests.is_empty());
    for request in &requests {
        let entities = blocks(question(request), "entity");
        assert!(entities[0].1.contains("Tidewell (brand)"), "{entities:?}");
        assert!(entities[0].1.contains("<-has_brand- product (4)"), "{entities:?}");
        let candidates = blocks(question(request), "candidate");
        let linked = candidates.iter().filter(|(_, text)| text.contains("\n-has_brand-> Tidewell"));
        assert!(linked.count() > 0, "{candidates:?}");
    }
}

/// A sample base with its training queries.
fn sample() -> &'static (Arc<IndexedBase>, Vec<LabelledQuery>) {
    static SAMPLE: LazyLock<(Arc<IndexedBase>, Vec<LabelledQuery>)> = LazyLock::new(|| {
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("files");
        let options = SampleOptions { seed: 1, scale: Some(0.001) };
        generate(SampleKind::Amazon, options, &files, &mut |_| {}).unwrap();
        let (home, stop) = (Home::new(dir.path().join("home")), AtomicBool::new(false));
        let import = ImportOptions::default();
        let base =
            import_neutral(&files, &home, "sample", &import, &mut |_| {}, &stop).unwrap().base;
        let (kb_dir, index) = (base.kb_dir(), base.index_dir());
        build(&Kb::open(&kb_dir).unwrap(), &index, &|_| {}, &stop).unwrap();
        let queries = load_split(&base, &Split::Train).unwrap();
        // What is mapped stays readable after its files are gone.
        (Arc::new(IndexedBase::open(&kb_dir, &index, "sample").unwrap()), queries)
    });
    &SAMPLE
}

/// A bundle over the sample base with effort 0, and with effort 2 by a model.
fn efforts(
    answer: impl Fn(&Request) -> ScriptedReply + Send + Sync + 'static,
) -> (Arc<BundleRetriever>, Rerank, RequestLog) {
    let (base, _) = sample();
    let bundle = bundle(base, 2, ["product", "product"]);
    let runtime = Arc::new(Runtime::new(base.clone(), Arc::new(Workers::new(2).unwrap()), None));
    let (model, heard) = llm(answer);
    let model = assistant(model);
    let open = || BundleRetriever::new(runtime.clone(), &bundle).unwrap();
    let read = open().read_by(model.clone());
    (Arc::new(open()), Rerank::new(base.clone(), Box::new(read), model), heard)
}

#[test]
fn a_perfect_judge_answers_first_whatever_is_in_the_shortlist() {
    let (base, queries) = sample();
    let beginning =
        |node: NodeId| -> String { base.kb.text(node).trim().chars().take(200).collect() };
    let known: HashMap<String, Vec<String>> = queries
        .iter()
        .map(|query| {
            let answers = query.answers.iter().map(|&node| beginning(node)).collect();
            (query.text.trim().to_owned(), answers)
        })
        .collect();
    let (without, with, heard) = efforts(move |request| {
        if request.role == Role::new("router") {
            return said(named(json!(null), 0.0).to_string());
        }
        let asked = question(request);
        let answers = &known[blocks(asked, "query")[0].1.trim()];
        let scores: Vec<Json> = (1..)
            .zip(blocks(asked, "candidate"))
            .map(|(n, (_, text))| {
                let right = answers.iter().any(|answer| text.contains(answer));
                json!({"n": n, "reason": "", "score": if right { 1.0 } else { 0.0 }})
            })
            .collect();
        said(json!({"scores": scores}).to_string())
    });
    let (mut first, mut deep, mut judged_deep) = (0, 0, 0);
    for query in queries {
        let is_answer = |pair: &(NodeId, f32)| query.answers.contains(&pair.0);
        let shortlist = without.retrieve(&query.text, 50).unwrap();
        let at = shortlist.iter().position(is_answer);
        deep += usize::from(at.is_some());
        judged_deep += usize::from(at.is_some_and(|at| at >= 20));
        let judged = with.answer(&query.text, 50, Detail::default()).unwrap();
        first += usize::from(judged.ranking().first().is_some_and(is_answer));
        assert_eq!(judged.unassisted, None);
    }
    assert_eq!(first, deep, "hit@1 of the judge is hit@50 of the shortlist");
    assert!(judged_deep > 0, "some answers stand behind the first 20");
    assert!(deep < queries.len() || judged_deep > 0);
    assert!(heard.count() > 3 * queries.len(), "a reading and two halves for each query");
}

#[test]
fn a_silent_failing_or_malformed_model_leaves_every_answer_as_it_was() {
    let (_, queries) = sample();
    let replies: [fn(&Request) -> ScriptedReply; 4] = [
        |_| said(" "),
        |_| Err(LlmError::Remote(RemoteError::Setup("down".to_owned()))),
        |_| said("I would rather not."),
        |_| said("{\"scores\": [{\"n\": 99, \"reason\": \"\", \"score\": 7}]}"),
    ];
    for reply in replies {
        let (without, with, heard) = efforts(reply);
        for query in queries.iter().take(8) {
            let answer = |system: &dyn Retriever| {
                let detail = Detail { explained_count: 3, paths: true };
                let answer = system.answer(&query.text, 50, detail).unwrap();
                Answer { timings: BTreeMap::new(), ..answer }
            };
            let (helped, alone) = (answer(&with), answer(&*without));
            assert!(helped.unassisted.is_some());
            assert_eq!(Answer { unassisted: None, ..helped }, alone, "{}", query.text);
        }
        assert!(heard.count() >= 8, "it was asked");
    }
}

#[test]
fn a_ceiling_ends_the_query_and_nothing_stands_in_for_it() {
    let ceilings = Ceilings { usd: None, tokens: Some(10) };
    let (model, heard) = llm_within(likes("wool"), ceilings, Vec::new());
    let reranker = Rerank::new(example_base(), hybrid(), assistant(model));
    let error = reranker.retrieve("warm socks", 5).unwrap_err();
    assert!(matches!(error, RetrieveError::Llm(LlmError::Budget { .. })), "{error}");
    assert_eq!(heard.count(), 0);
}

#[test]
fn a_chosen_number_of_candidates_is_scored_whatever_their_scores() {
    let query = "a durable steel bottle";
    let shortlist = hybrid().retrieve(query, 20).unwrap();
    for k in [1, 3, 8] {
        let (reranker, heard) = rerank(likes("nothing of the kind"));
        let reranker = reranker.to_depth(Depth::exactly(k));
        assert_eq!(reranker.name(), format!("rerank:hybrid:k={k}"));
        let ranking = reranker.retrieve(query, 20).unwrap();
        assert_eq!(ranking.len(), shortlist.len());
        assert!(ranking[k - 1].1 > 0.0 && ranking[k].1 == -1.0, "{ranking:?}");
        assert_eq!(heard.count(), 1);
        let shown = heard.requests();
        let shown = shown.iter().map(|request| blocks(question(request), "candidate").len());
        assert_eq!(shown.sum::<usize>(), k);
    }
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
    assert_eq!(heard.count(), 3 * shortlist.len().div_ceil(10));
    // Only the last one is scored, the others get nothing that can be used.
    let last = *shortlist.last().unwrap();
    let name = example_base().kb.name(last).to_owned();
    let (reranker, _) = rerank(move |request| {
        let entries: Vec<Json> = blocks(question(request), "candidate")
            .iter()
            .zip(1..)
            .map(|((_, text), n)| {
                let score = if own(text).contains(&name) { json!(0.5) } else { json!("7 of 10") };
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

#[test]
fn a_request_without_a_reply_leaves_the_whole_shortlist_as_it_is() {
    let base = &sample().0;
    let shortlist = || Box::new(Baseline::new(base.clone(), System::Hybrid));
    let query = &sample().1[0].text;
    let plain = shortlist().retrieve(query, 50).unwrap();
    let first = base.kb.name(plain[0].0).to_owned();
    let refused = || {
        let (host, message) = ("llm.example".to_owned(), "filtered".to_owned());
        Err(LlmError::Remote(RemoteError::Refused { host, status: 400, message }))
    };
    let silent = || said(json!({"scores": []}).to_string());
    for (of_first, miss) in
        [(refused(), AssistFailure::Outage), (silent(), AssistFailure::Unusable)]
    {
        let scored = likes("");
        let first = first.clone();
        let (model, _) = llm(move |request| {
            match own(&blocks(question(request), "candidate")[0].1).contains(&first) {
                true => of_first.clone(),
                false => scored(request),
            }
        });
        let reranker = Rerank::new(base.clone(), shortlist(), assistant(model));
        let answer = reranker.answer(query, 20, Detail::default()).unwrap();
        assert_eq!((answer.unassisted, answer.ranking()), (Some(miss), &plain[..20]));
    }
}

fn react(
    answer: impl Fn(&Request) -> ScriptedReply + Send + Sync + 'static,
) -> (React, RequestLog) {
    let (model, heard) = llm(answer);
    (React::new(example_base(), assistant(model), None, false), heard)
}

/// A turn that calls tools.
fn calls(calls: Json) -> ScriptedReply {
    said(json!({"thought": "next", "calls": calls, "finish": false, "ids": []}).to_string())
}

/// A turn that ends.
fn finish(ids: Json) -> ScriptedReply {
    said(json!({"thought": "done", "calls": [], "finish": true, "ids": ids}).to_string())
}

#[test]
fn react_shows_a_chosen_number_of_nodes() {
    let (system, heard) = react(|_| finish(json!([7])));
    let system = system.showing(3);
    assert_eq!(system.name(), "react:k=3");
    system.retrieve("socks by Tidewell", 20).unwrap();
    assert_eq!(blocks(question(&heard.requests()[0]), "node ").len(), 3);
}

#[test]
fn react_chains_calls_within_a_turn_and_names_nodes() {
    let (system, heard) = react(|request| {
        assert!(!question(request).contains("Left out"), "the toolkit fits the budget");
        let given = blocks(question(request), "call");
        match request.messages.len() {
            // The brand, and in the same turn what it makes.
            2 => calls(json!([
                {"tool": "link", "args": ["Tidewell", ["brand"], 1]},
                {"tool": "hop", "args": ["$1", "has_brand", "in"]},
                {"tool": "links", "args": []},
                {"tool": "hop", "args": ["$9", "has_brand"]},
                {"tool": "top", "args": ["$3", 1]},
            ])),
            4 => {
                assert!(given[0].1.contains("1 scores: 10 \"Tidewell\" (brand)"), "{given:?}");
                assert!(given[1].1.contains("= 4 scores"), "{given:?}");
                assert!(
                    given[2].1.contains("no function \"links\"; similar names: link"),
                    "{given:?}"
                );
                assert!(given[3].1.contains("there is no call 9"), "{given:?}");
                assert!(given[4].1.contains("call 3 failed"), "{given:?}");
                calls(json!([{"tool": "top", "args": ["$2", 1]}]))
            }
            6 => {
                assert_eq!(given.len(), 1, "only what is new is sent");
                assert!(given[0].1.contains("= 1 scores"), "{given:?}");
                finish(json!([7, 4, 999, 7, -1]))
            }
            n => panic!("{n} messages"),
        }
    });
    let ranking = system.retrieve("socks by Tidewell", 20).unwrap();
    assert_eq!(ranking[..2], [(7, 1.0), (4, 0.5)]);
    assert_eq!(ranking[2].1, -1.0);
    let products: Vec<NodeId> = ranking.iter().map(|pair| pair.0).collect();
    assert!(products.len() > 2 && products[2..].iter().all(|node| ![7, 4].contains(node)));
    assert!(ranking.is_sorted_by(|a, b| a.1 >= b.1));
    let requests = heard.requests();
    assert_eq!(requests.len(), 3);
    // Earlier messages stay unchanged, so that services can cache the prefix.
    for pair in requests.windows(2) {
        assert_eq!(pair[1].messages[..pair[0].messages.len()], pair[0].messages[..]);
    }
    let shown = blocks(question(&requests[0]), "node");
    assert!(shown.iter().any(|(_, text)| text.contains("\n-has_brand-> Tidewell")), "{shown:?}");
    let detail = Detail { explained_count: 2, paths: false };
    let answer = system.answer("socks by Tidewell", 20, detail).unwrap();
    assert_eq!(answer.ranking(), ranking);
    let why = &answer.explanations[1].explanation;
    assert_eq!(why.child("named as answer").unwrap().value, 2usize.into());
    assert!(why.child("call").unwrap().value.text().unwrap().contains("link("), "{why:?}");
    assert_eq!(system.retrieve("socks by Tidewell", 1).unwrap(), [(7, 1.0)]);
}

#[test]
fn react_offers_tools_that_ask_a_model_only_where_they_are_allowed() {
    let asks = |request: &Request| match request.messages.len() {
        2 => calls(json!([{"tool": "classify_by_llm", "args": ["x", ["a", "b"]]}])),
        4 => finish(json!([7])),
        _ => said("{\"class\": 1}"),
    };
    let refused = |llm_tools: bool| {
        let (model, heard) = llm(asks);
        let system = React::new(example_base(), assistant(model), None, llm_tools);
        let _ = system.retrieve("socks", 5);
        let requests = heard.requests();
        let offered = question(&requests[0]).contains("classify_by_llm");
        let last = requests.iter().rev().find(|one| one.role == Role::new("react")).unwrap();
        (offered, question(last).contains("no function \"classify_by_llm\""))
    };
    assert_eq!(refused(false), (false, true));
    assert_eq!(refused(true), (true, false));
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
    let users = last.messages.iter().skip(2).map(|message| blocks(&message.text, "call").len());
    assert_eq!(users.sum::<usize>(), 30, "calls are bounded");
    assert!(question(&last).contains("This is the last turn"));
    assert!(question(&last).contains("0 calls left"), "{}", question(&last));
}

#[test]
fn react_fails_where_the_model_does_and_tells_outages_apart() {
    let failed = |answer: ScriptedReply| {
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

#[test]
fn weights_without_bounds_are_no_bundle() {
    let base = example_base();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bundle.json");
    let read = |change: &dyn Fn(&mut Bundle)| {
        let mut bundle = bundle(&base, 1, ["product", "brand"]);
        change(&mut bundle);
        bundle.sealed().write(&path).unwrap();
        Bundle::read(&path)
    };
    assert!(read(&|_| {}).is_ok());
    let huge = |bundle: &mut Bundle| {
        bundle.router.weights.insert("always".to_owned(), vec![3e38, -3e38]);
    };
    let reranker = |bundle: &mut Bundle| {
        bundle.reranker = Some(Reranker { weights: [("ranks".to_owned(), 1e30)].into() });
    };
    for change in [&huge as &dyn Fn(&mut Bundle), &reranker] {
        let error = read(change).unwrap_err().to_string();
        assert!(error.contains("the absolute value of a weight exceeds"), "{error}");
    }
    let mrr = |bundle: &mut Bundle| bundle.validation.mrr = 1e39;
    let baseline = |bundle: &mut Bundle| {
        bundle.validation.baselines.insert("bm25".to_owned(), -1e300);
    };
    for change in [&mrr as &dyn Fn(&mut Bundle), &baseline] {
        let error = read(change).unwrap_err().to_string();
        assert!(error.contains("is outside 0 to 1"), "{error}");
    }
    let whole = |bundle: &mut Bundle| {
        bundle.validation.mrr = 1.0;
        bundle.validation.baselines.insert("bm25".to_owned(), 0.0);
    };
    assert!(read(&whole).is_ok());
    let error = read(&|bundle| bundle.format = 5).unwrap_err().to_string();
    let reads = "has format 5; this version reads format 6; optimize again";
    assert!(error.contains(reads), "{error}");
}

#[test]
fn a_bundle_fits_later_versions_of_its_base_that_have_what_it_names() {
    let base = example_base();
    let mut bundle = bundle(&base, 1, ["product", "brand"]);
    assert_eq!(bundle.fit(&base).unwrap(), Fit::Same);
    bundle.dataset.index = "of before".to_owned();
    bundle.dataset.name = base.name().to_owned();
    assert_eq!(bundle.fit(&base).unwrap(), Fit::Updated);
    let other = |change: &dyn Fn(&mut Bundle)| {
        let mut bundle = bundle.clone();
        change(&mut bundle);
        assert!(bundle.fit(&base).is_err());
    };
    other(&|bundle| bundle.dataset.name = "another".to_owned());
    other(&|bundle| drop(bundle.router.weights.insert("finds town".to_owned(), vec![0.0, 0.0])));
    let source =
        "fn retrieve(query, candidates, params) { hop(candidates, \"lives_in\", \"out\") }";
    other(&|bundle| bundle.categories[0].program = Program::new(source));
}
