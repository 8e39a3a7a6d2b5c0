//! Expansion with a scripted model, neighbourhoods against brute force, and a base whose answers
//! only the graph reveals.

use std::{collections::BTreeSet, io::Write, path::Path, sync::Arc};

use serde_json::json;

use crate::{Expander, given};
use agent_dataset::{Home, LabelledQuery, Split, load_split};
use agent_embed::{BertEncoder, Embedder, matrix::dot};
use agent_index::{IndexedBase, postings::MAX_QUERY_WORDS};
use agent_kb::{Direction, Kb, NodeId, RelationId, answer::Explanation, best};
use agent_llm::{LlmError, Request, ledger::Ceilings};
use agent_remote::RemoteError;
use agent_retrieve::{
    AssistFailure, Baseline, Detail, RetrieveError, Retriever, System,
    expand::{
        Boost, Expansion, Filter, GraphBoost, Method, Neighborhood, QueryShare, TextPlan,
        count_words, relation_in_words,
    },
};
use agent_testing::{
    QUERY, RequestLog, ScriptedReply, answer, assistant, blocks, echo, example_base, llm,
    llm_within, planted, question, said,
};

fn over(base: &Arc<IndexedBase>, system: System) -> Box<dyn Retriever> {
    Box::new(Baseline::new(base.clone(), system))
}

/// A system that expands for `bm25+names`, with a model.
fn expander(
    base: &Arc<IndexedBase>,
    method: Method,
    n: usize,
    reply: impl Fn(&Request) -> ScriptedReply + Send + Sync + 'static,
) -> (Expander, RequestLog) {
    let (model, heard) = llm(reply);
    let (inner, texts) = (over(base, System::Bm25Names), TextPlan { n, sampled: false });
    (Expander::new(base.clone(), inner, assistant(model), method, texts), heard)
}

fn kar(filter: Option<Filter>) -> Method {
    Method::Kar { k: 10, filter }
}

/// All nodes one edge from a node.
fn beside(kb: &Kb, node: NodeId) -> BTreeSet<NodeId> {
    let relations = (0..kb.relations().len()).map(|at| RelationId(at as u16));
    relations.flat_map(|by| kb.neighbors(node, by, Direction::Any).into_owned()).collect()
}

fn rank_of(system: &dyn Retriever, node: NodeId) -> Option<usize> {
    let ranking = system.retrieve(QUERY, 100).unwrap();
    ranking.iter().position(|pair| pair.0 == node).map(|at| at + 1)
}

#[test]
fn neighbourhoods_and_filters_are_those_of_brute_force() {
    for base in [example_base(), planted()] {
        let (kb, query) = (&base.kb, "a quiet durable steel kettle with warm wool");
        let terms = base.terms.query(&base.stems, query);
        let vector = base.embedder().embed_query(query).unwrap();
        let similar = |text: &dyn Fn(NodeId) -> String| -> Vec<f32> {
            let texts: Vec<String> = (0..kb.n_nodes()).map(text).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let texts = base.embedder().embed_documents(&texts).unwrap();
            texts.data().chunks(texts.dim()).map(|text| dot(text, &vector) + 0.0).collect()
        };
        let by_embedder = [
            (Filter::Documents, similar(&|node| kb.text(node).to_owned())),
            (Filter::Names, similar(&|node| kb.name(node).to_owned())),
        ];
        for from in (0..kb.n_nodes()).step_by(7) {
            let first = beside(kb, from);
            let mut all = first.clone();
            for &node in first.iter().filter(|&&node| beside(kb, node).len() <= 2_000) {
                all.extend(beside(kb, node));
            }
            all.remove(&from);
            let around = Neighborhood::new(kb, from);
            let mut expected: Vec<NodeId> = all.iter().copied().collect();
            expected.sort_by_key(|node| (!first.contains(node), *node));
            assert_eq!(around.nodes(), expected, "{from}");
            for k in [1, 3, 10, 40] {
                let scored = all.iter().map(|&node| (node, base.terms.bm25(&terms, node)));
                let scored = best(scored.filter(|pair| pair.1 > 0.0).collect(), k);
                let kept = |filter| around.filtered(&base, query, filter, k).unwrap();
                assert_eq!(kept(Filter::Words), scored);
                for (filter, fits) in &by_embedder {
                    let scored = all.iter().map(|&node| (node, fits[node as usize]));
                    let scored = best(scored.filter(|pair| pair.1 != 0.0).collect(), k);
                    assert_eq!(kept(*filter), scored, "{filter:?} {from}");
                }
                let first: Vec<NodeId> = expected.iter().take(k).copied().collect();
                let nearest = kept(Filter::None);
                assert_eq!(nearest.into_iter().map(|pair| pair.0).collect::<Vec<_>>(), first);
                let named = kept(Filter::NameWords);
                let has = |node: &NodeId| {
                    let name = kb.name(*node).to_lowercase();
                    ["durable", "steel", "kettle", "warm", "wool"]
                        .iter()
                        .any(|word| name.contains(word))
                };
                let having = all.iter().filter(|node| has(node)).count();
                assert_eq!(named.len(), having.min(k), "{from}: {named:?}");
                assert!(named.iter().all(|pair| has(&pair.0)));
            }
            for &node in around.nodes() {
                let path = around.path(node);
                assert_eq!((path.from, path.end()), (from, node));
                assert_eq!(path.hops.len(), if first.contains(&node) { 1 } else { 2 });
            }
        }
    }
}

#[test]
fn a_hub_is_reached_and_not_passed() {
    let base = planted();
    let kb = &base.kb;
    let parts = kb.nodes_of_type(kb.type_id("part").unwrap());
    let steel = kb.nodes_of_type(kb.type_id("material").unwrap())[0];
    let around = Neighborhood::new(kb, answer());
    assert!(around.nodes().contains(&steel));
    assert!(parts.iter().all(|part| !around.nodes().contains(part)));
    assert_eq!(around.hubs(kb).unwrap().value, "steel".into());
    let around = Neighborhood::new(kb, steel);
    assert!(parts.iter().all(|part| around.nodes().contains(part)), "its own edges are followed");
    assert!(around.hubs(kb).is_none());
    let kettles = kb.nodes_of_type(kb.type_id("kettle").unwrap());
    assert_eq!(around.candidates(kb).nodes(), kettles);
}

#[test]
fn a_relation_says_which_way_its_edges_lead_and_over_what() {
    let base = planted();
    let brand = base.kb.nodes_of_type(base.kb.type_id("brand").unwrap())[4];
    let around = Neighborhood::new(&base.kb, brand);
    let words = |node| relation_in_words(&base.kb, &around.path(node));
    assert_eq!(words(brand + 1), "<-owned_by-");
    let over = base.kb.name(brand + 1);
    assert_eq!(words(answer()), format!("<-owned_by-, then <-made_in-, over {over}"));
}

#[test]
fn only_the_graph_tells_the_answer() {
    let base = planted();
    let rank = |method| rank_of(&expander(&base, method, 1, echo).0, answer());
    for filter in [Filter::Documents, Filter::Words] {
        assert_eq!(rank(kar(Some(filter))), Some(1), "{filter:?}");
    }
    for method in [None, Some(Filter::Names), Some(Filter::NameWords)].map(kar) {
        assert_ne!(rank(method), Some(1), "{method:?}");
    }
    for method in [Method::Hyde, Method::Rar, Method::Agr] {
        assert_ne!(rank(method), Some(1), "{method:?}");
    }
    let boosted = |filter| {
        let boost = Boost { filter, ..Boost::default() };
        rank_of(&GraphBoost::new(base.clone(), boost), answer())
    };
    assert_eq!(boosted(Filter::Documents), Some(1));
    assert_eq!(boosted(Filter::Words), Some(1));
    assert_ne!(boosted(Filter::Names), Some(1));
    assert_ne!(boosted(Filter::NameWords), Some(1));
    assert_ne!(rank_of(&*over(&base, System::Bm25Names), answer()), Some(1));
}

#[test]
fn a_boost_is_the_sum_that_it_says() {
    let base = planted();
    let system = GraphBoost::new(base.clone(), Boost::default());
    let found = over(&base, System::Bm25Names).retrieve(QUERY, 1_000).unwrap();
    let brand = base.kb.nodes_of_type(base.kb.type_id("brand").unwrap())[4];
    let near = Neighborhood::new(&base.kb, brand).candidates(&base.kb);
    let near = near.filtered(&base, QUERY, Filter::Words, 10).unwrap();
    let of = |list: &[(NodeId, f32)], node| {
        list.iter().find(|pair| pair.0 == node).map_or(0.0, |pair| pair.1) / list[0].1
    };
    for (node, score) in system.retrieve(QUERY, 100).unwrap() {
        let sum = of(&found, node) + 0.5 * of(&near, node);
        assert!((score - sum).abs() < 1e-5, "{node}: {score} for {sum}");
    }
    assert_eq!(system.retrieve("nothing of the kind", 5).unwrap(), []);
}

#[test]
fn feedback_asks_the_query_and_as_many_words_of_the_first_documents() {
    let base = example_base();
    let query = "a durable steel bottle";
    for system in [System::Bm25, System::Bm25Names, System::Dense, System::Hybrid] {
        let inner = over(&base, system);
        let found = inner.retrieve(query, 3).unwrap();
        let texts: Vec<&str> = found.iter().map(|pair| base.kb.text(pair.0).trim()).collect();
        // 42 times the 3 words that count are half of what a search by words reads.
        let text = format!("{}{}", format!("{query}\n\n").repeat(42), texts.join("\n\n"));
        let reference = inner.retrieve(&text, 20).unwrap();
        let inner = over(&base, system);
        let expander = Expander::feedback(base.clone(), inner, 3, QueryShare::Half);
        assert_eq!(expander.retrieve(query, 20).unwrap(), reference);
        assert_eq!(expander.name(), format!("expand:prf=3:{}", system.name()));
    }
}

#[test]
fn feedback_once_searches_the_query_and_the_first_documents_as_they_are() {
    let base = planted();
    for system in [System::Bm25, System::Bm25Names, System::Dense] {
        let inner = over(&base, system);
        let found = inner.retrieve(QUERY, 3).unwrap();
        let mut text = QUERY.to_owned();
        for (node, _) in &found {
            text += &format!("\n\n{}", base.kb.text(*node).trim());
        }
        assert!(count_words(&text) < MAX_QUERY_WORDS, "nothing is cut");
        let once = Expander::feedback(base.clone(), over(&base, system), 3, QueryShare::Once);
        assert_eq!(once.retrieve(QUERY, 20).unwrap(), inner.retrieve(&text, 20).unwrap());
        assert_eq!(once.name(), format!("expand:prf=3,once:{}", system.name()));
    }
}

#[test]
fn every_text_has_an_equal_share_of_what_a_search_reads() {
    let long = |word: &str| format!("{word} ").repeat(1_000);
    let expanded = |query: &str, texts: &[String]| {
        Expansion::written(texts.to_vec(), Vec::new()).apply(query, None)
    };
    let text = expanded("steel bottle", &[long("wool"), long("glass"), "short text".to_owned()]);
    assert!(count_words(&text) <= MAX_QUERY_WORDS);
    let count = |word: &str| text.matches(word).count();
    assert_eq!((count("wool"), count("glass")), (84, 84));
    assert!(text.starts_with("steel bottle\n\nwool") && text.ends_with("\n\nshort text"));
    let bytes = expanded(&"ä".repeat(8_000), &[long("wool"), long("glass")]);
    assert!(bytes.len() <= agent_retrieve::MAX_QUERY_BYTES);
    assert_eq!(expanded("steel", &[" ".to_owned()]), "steel");
    // A word that no search reads, and that is too long, ends the text.
    assert_eq!(expanded("steel", &["x".repeat(20_000)]), "steel");
}

#[test]
fn an_encoder_is_given_as_many_tokens_as_it_reads() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/encoder/mean");
    let encoder = BertEncoder::open(Path::new(dir)).unwrap();
    let (window, texts) = (encoder.max_tokens() - 2, vec!["steel bottle ".repeat(1_000); 3]);
    let tokens = |text: &str| encoder.token_names(text).unwrap().len();
    let text = Expansion::written(texts, Vec::new()).apply("steel bottle", Some(&encoder));
    let counts: Vec<usize> = text.split("\n\n").map(tokens).collect();
    assert_eq!(counts[1..], [(window - counts[0]) / 3 / tokens("steel") * tokens("steel"); 3]);
    // The built-in embedder reads any text whole.
    let base = planted();
    let dense = over(&base, System::Dense);
    let text = Expansion::written(vec!["steel bottle ".repeat(500)], Vec::new());
    assert!(text.apply("steel", dense.encoder()).matches("bottle").count() == 500);
    assert!(over(&base, System::Hybrid).encoder().is_none());
}

#[test]
fn samples_are_requests_of_their_own() {
    let base = planted();
    let (model, heard) = llm(echo);
    let plan = TextPlan { n: 3, sampled: true };
    let inner = over(&base, System::Bm25Names);
    let method = kar(Some(Filter::Words));
    let system = Expander::new(base.clone(), inner, assistant(model), method, plan);
    assert_eq!(system.name(), "expand:kar=10,3,words,samples:bm25+names");
    let detail = Detail { explained_count: 1, paths: false };
    let found = system.answer(QUERY, 5, detail).unwrap();
    let expansion = found.explanations[0].explanation.child("expansion").unwrap();
    assert_eq!(expansion.children.iter().filter(|one| one.name == "text").count(), 3);
    let requests = heard.requests();
    assert_eq!(requests[0].temperature, Some(0.0));
    let samples: Vec<_> = requests[1..].iter().map(|one| (one.sample, one.temperature)).collect();
    assert_eq!(samples, [(0, None), (1, None), (2, None)]);
}

#[test]
fn the_model_is_shown_what_each_method_says() {
    let base = planted();
    let shown = |method| {
        let (system, heard) = expander(&base, method, 3, echo);
        system.retrieve(QUERY, 10).unwrap();
        let requests = heard.requests();
        let counts = |request: &Request| {
            ["fact ", "document ", "entity ", "analysis", "query", "structures"]
                .map(|name| blocks(question(request), name).len())
        };
        requests.iter().map(counts).collect::<Vec<_>>()
    };
    assert_eq!(shown(Method::Hyde), [[0, 0, 0, 0, 1, 1]]);
    assert_eq!(shown(Method::Rar), [[0, 3, 0, 0, 1, 1]]);
    let agr = shown(Method::Agr);
    assert_eq!(agr[2..], [[0, 0, 0, 1, 1, 1], [0, 9, 0, 1, 1, 1], [0, 3, 0, 0, 1, 1]]);
    assert_eq!(agr.len(), 5);
    assert_eq!(shown(kar(None)), [[0, 0, 0, 0, 1, 1], [0, 0, 2, 0, 1, 1]]);
    let of_graph = shown(kar(Some(Filter::Documents)));
    assert_eq!((of_graph.len(), of_graph[1][2]), (2, 2));
    assert!((10..=20).contains(&of_graph[1][0]), "{of_graph:?}");
}

#[test]
fn an_explanation_has_the_entities_the_facts_the_texts_and_the_query() {
    let base = planted();
    let (system, _) = expander(&base, kar(Some(Filter::Documents)), 2, echo);
    let detail = Detail { explained_count: 2, paths: false };
    let found = system.answer(QUERY, 5, detail).unwrap();
    let expansion = found.explanations[0].explanation.child("expansion").unwrap();
    let text =
        |one: &Explanation| serde_json::to_value(&one.value).unwrap().as_str().unwrap().to_owned();
    assert!(text(expansion).starts_with(QUERY), "{expansion:?}");
    let entity = expansion.child("entity").unwrap();
    assert!(text(entity).starts_with("Zorblax (brand "), "{entity:?}");
    let neighbor = entity.child("neighbor").unwrap();
    assert!(text(neighbor).contains(base.kb.name(answer())), "{neighbor:?}");
    assert!(text(neighbor.child("relation").unwrap()).starts_with("<-owned_by-, then"));
    assert_eq!(expansion.children.iter().filter(|one| one.name == "text").count(), 2);
    assert!(
        found.explanations[0].explanation.child("bm25+names").is_some(),
        "what the other system says"
    );
    assert!(
        found.explanations[1].explanation.child("expansion").is_none(),
        "the expansion is explained once"
    );
    assert_eq!(system.answer(QUERY, 5, Detail::default()).unwrap().ranking(), found.ranking());
}

#[test]
fn an_unusable_reply_leaves_the_query_as_it_is_and_is_counted() {
    let base = planted();
    let plain = over(&base, System::Bm25Names).retrieve(QUERY, 20).unwrap();
    let empty = || said(json!({"documents": [" "]}).to_string());
    for method in [Method::Hyde, Method::Rar, Method::Agr, kar(Some(Filter::Documents))] {
        let (system, heard) = expander(&base, method, 3, |_| said("I would rather not."));
        let answer = system.answer(QUERY, 20, Detail::default()).unwrap();
        assert_eq!(
            (answer.ranking(), answer.unassisted),
            (&plain[..], Some(AssistFailure::Unusable))
        );
        assert_eq!(heard.count(), 2, "asked once, and repaired once: {method:?}");
    }
    let (system, heard) = expander(&base, Method::Hyde, 3, move |_| empty());
    assert_eq!((system.retrieve(QUERY, 20).unwrap(), heard.count()), (plain, 1));
    let answer = system.answer(QUERY, 1, Detail { explained_count: 1, paths: false }).unwrap();
    let expansion = answer.explanations[0].explanation.child("expansion").unwrap();
    assert!(expansion.child("not expanded").is_some(), "{expansion:?}");
}

#[test]
fn an_outage_or_a_ceiling_is_never_an_answer() {
    let base = planted();
    for method in [Method::Hyde, Method::Rar, Method::Agr, kar(Some(Filter::Documents))] {
        let (system, _) = expander(&base, method, 3, |_| {
            Err(LlmError::Remote(RemoteError::Setup("down".to_owned())))
        });
        let error = system.retrieve(QUERY, 20).unwrap_err();
        assert!(error.is_outage(), "{error}");
    }
    let ceilings = Ceilings { usd: None, tokens: Some(10) };
    let (model, heard) = llm_within(echo, ceilings, Vec::new());
    let (inner, texts) = (over(&base, System::Bm25), TextPlan { n: 3, sampled: false });
    let system = Expander::new(base.clone(), inner, assistant(model), Method::Hyde, texts);
    let error = system.retrieve(QUERY, 20).unwrap_err();
    assert!(matches!(error, RetrieveError::Llm(LlmError::Budget { .. })), "{error}");
    assert_eq!(heard.count(), 0);
}

#[test]
fn entities_that_no_node_answers_to_are_left_out() {
    let base = planted();
    let strange = |request: &Request| {
        if request.json.as_ref().unwrap().name != "expand_parse" {
            return echo(request);
        }
        let attributes = json!([{"name": "name", "value": "Qwertzuiop"}]);
        let entity = json!({"type": "no such type", "attributes": attributes});
        said(json!({"entities": [entity, entity, entity, entity, entity, entity]}).to_string())
    };
    let (system, heard) = expander(&base, kar(Some(Filter::Documents)), 1, strange);
    system.retrieve(QUERY, 20).unwrap();
    // The query itself still counts as an entity.
    assert_eq!(blocks(question(&heard.requests()[1]), "entity ").len(), 1);
}

#[test]
fn what_the_graph_adds_betters_words_on_real_bases() {
    let Some(home) = given::variable("AGENT_TEST_HOME", "home with products, biomed and papers")
    else {
        return;
    };
    let (home, mut gains) = (Home::new(home), Vec::new());
    for name in ["products", "biomed", "papers"] {
        let base = home.get(name).unwrap();
        let indexed =
            Arc::new(IndexedBase::open(&base.kb_dir(), &base.index_dir(), &base.name).unwrap());
        let mut queries = load_split(&base, &Split::Val).unwrap();
        queries.retain(|query| query.metadata.get("kind").is_some_and(|kind| kind == "llm"));
        let mrr = |system: &dyn Retriever| -> f64 {
            let rank = |query: &LabelledQuery| {
                let ranking = system.retrieve(&query.text, 100).unwrap();
                ranking.iter().position(|pair| query.answers.contains(&pair.0))
            };
            let sum: f64 = queries.iter().filter_map(rank).map(|at| 1.0 / (at + 1) as f64).sum();
            sum / queries.len() as f64
        };
        let by = |filter| {
            let boost = Boost { filter, ..Boost::default() };
            mrr(&GraphBoost::new(indexed.clone(), boost))
        };
        let words = mrr(&*over(&indexed, System::Bm25Names));
        let filters = [Filter::Words, Filter::NameWords, Filter::None];
        let [documents, names, unfiltered] = filters.map(by);
        let line = format!("{name} {words:.4} {documents:.4} {names:.4} {unfiltered:.4}");
        // Not a macro: those are captured while tests pass. There is nowhere to tell that it
        // failed.
        let _ = writeln!(std::io::stderr(), "{line}");
        assert!(documents > words, "{line}");
        gains.push([documents - words, documents - names, documents - unfiltered]);
    }
    for at in 0..3 {
        assert!(gains.iter().map(|gain| gain[at]).sum::<f64>() > 0.0, "{gains:?}");
    }
}
