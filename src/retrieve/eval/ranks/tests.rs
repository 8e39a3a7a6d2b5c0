//! Checks the metrics against hand-worked cases, a naive twin and published reference output.

use std::collections::BTreeMap;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::eval::metrics::{Metric, Metrics, N_METRICS};
use crate::given;
use agent_kb::{KbMeta, KbWriter};

/// The worked example: ranking 5, 7, 9, 2 with a tie between 5 and 7.
const CANDIDATES: [NodeId; 4] = [2, 5, 7, 9];
const RANKING: [(NodeId, f32); 3] = [(7, 0.9), (9, 0.1), (5, 0.9)];

#[test]
fn worked_example_holds() {
    let found = AnswerRanks::new(&RANKING, &[2, 7], Candidates::sorted(&CANDIDATES));
    assert_eq!(found.ranks(), [2, 4]);
    assert_eq!(found.reciprocal_rank(), 0.5);
    assert_eq!(found.average_precision(), 0.5);
    assert_eq!(found.r_precision(), 0.5);
    assert_eq!((found.hit_at(1), found.hit_at(5)), (0.0, 1.0));
    assert_eq!(found.recall_at(2), 0.5);
    assert_eq!(found.recall_at(20), 1.0);
}

#[test]
fn what_is_no_candidate_neither_ranks_nor_counts() {
    let candidates = Candidates::sorted(&CANDIDATES);
    let ranking = [(3, 5.0), (1000, 4.0), (9, 1.0)];
    let found = AnswerRanks::new(&ranking, &[9, 9, 3, 1000], candidates);
    assert_eq!(found.ranks(), [1]);
    assert_eq!(found.recall_at(1), 1.0);
    assert_eq!(Metrics::new(&ranking, &[3], candidates), Metrics::default());
    assert_eq!(Metrics::new(&ranking, &[], candidates), Metrics::default());
    assert_eq!(Metrics::new(&[], &[2], candidates), Metrics::default());
    // Unnamed candidates follow by id even if nothing named was a candidate.
    let found = AnswerRanks::new(&[(3, 5.0)], &[7], candidates);
    assert_eq!(found.ranks(), [3]);
}

#[test]
fn candidates_of_a_base_are_told_by_type() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = KbWriter::create(dir.path()).unwrap();
    for node in 0..40 {
        writer.push_node(if node % 3 == 0 { "answer" } else { "other" }, "", "", &[]).unwrap();
    }
    let meta = KbMeta { candidate_types: vec!["answer".to_owned()], ..KbMeta::default() };
    writer.finish(&meta, &mut |_, _| true).unwrap();
    let kb = Kb::open(dir.path()).unwrap();
    let base = Candidates::of_base(&kb);
    assert!(matches!(base, Candidates::Base(_)));
    let ids: Vec<NodeId> = (0..40).step_by(3).collect();
    let ranking: Vec<(NodeId, f32)> = (5..60).map(|node| (node, 1.0 / node as f32)).collect();
    let found = |candidates| AnswerRanks::new(&ranking, &[3, 4, 9, 39, 42], candidates);
    let expected = found(Candidates::Sorted(&ids));
    assert_eq!(found(base).ranks(), expected.ranks());
}

/// Direct implementation of the definition: a score for every candidate, sorted as a whole.
struct Naive {
    /// Whether each candidate is an answer, best first.
    full: Vec<bool>,
}

impl Naive {
    fn new(ranking: &[(NodeId, f32)], answers: &[NodeId], candidates: &[NodeId]) -> Naive {
        let filler = ranking.iter().map(|entry| entry.1).fold(f32::INFINITY, f32::min) - 1.0;
        let score = |node| ranking.iter().find(|entry| entry.0 == node).map_or(filler, |e| e.1);
        let mut full: Vec<(NodeId, f32)> = candidates.iter().map(|&id| (id, score(id))).collect();
        full.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
        Naive { full: full.iter().map(|(id, _)| answers.contains(id)).collect() }
    }

    fn n_answers(&self) -> usize {
        self.full.iter().filter(|&&answer| answer).count()
    }

    /// Ranks from 1 of the answers among the first `k`.
    fn ranks(&self, k: usize) -> Vec<usize> {
        let top = self.full.iter().take(k).enumerate();
        top.filter(|(_, answer)| **answer).map(|(i, _)| i + 1).collect()
    }

    fn over_answers(&self, part: usize) -> f32 {
        if self.n_answers() == 0 { 0.0 } else { part as f32 / self.n_answers() as f32 }
    }

    fn average_precision(&self, k: usize) -> f32 {
        let ranks = self.ranks(k);
        let precision = |(i, &r): (usize, &usize)| f64::from((i + 1) as f32 / r as f32);
        let sum: f64 = ranks.iter().enumerate().map(precision).sum();
        if ranks.is_empty() { 0.0 } else { (sum / ranks.len() as f64) as f32 }
    }
}

proptest! {
    #[test]
    fn agrees_with_the_full_sort(
        candidates in btree_set(0_u32..40, 1..30),
        // Few distinct scores make many ties; both zeros and both signs occur.
        mut named in btree_set(0_u32..44, 1..20).prop_flat_map(|ids| {
            let n = ids.len();
            let scores = prop_oneof![(-3_i8..4).prop_map(f32::from), Just(-0.0), 1.5_f32..3.0];
            (Just(ids.into_iter().collect::<Vec<_>>()).prop_shuffle(), vec(scores, n))
                .prop_map(|(ids, scores)| ids.into_iter().zip(scores).collect::<Vec<_>>())
        }),
        answers in vec(0_u32..44, 0..10),
        presorted in any::<bool>(),
        raise in any::<bool>(),
    ) {
        if raise {
            named.iter_mut().for_each(|entry| entry.1 += 6.0);
        }
        if presorted {
            named.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
        }
        let candidates: Vec<NodeId> = candidates.into_iter().collect();
        for (ids, set) in [
            (candidates.clone(), Candidates::sorted(&candidates)),
            ((0..44).collect(), Candidates::All(44)),
            ((3..30).collect(), Candidates::Range(3, 30)),
        ] {
            let found = AnswerRanks::new(&named, &answers, set);
            let naive = Naive::new(&named, &answers, &ids);
            let n = ids.len();
            let ranks: Vec<usize> = found.ranks().iter().map(|&rank| rank as usize).collect();
            let best = ranks.first().map_or(0.0, |&rank| 1.0 / rank as f32);
            prop_assert_eq!(ranks, naive.ranks(n));
            prop_assert_eq!(found.average_precision(), naive.average_precision(n));
            prop_assert_eq!(found.reciprocal_rank(), best);
            let r_precision = naive.ranks(naive.n_answers()).len();
            prop_assert_eq!(found.r_precision(), naive.over_answers(r_precision));
            for k in [1, 2, 5, 17, 50] {
                let n_found = naive.ranks(k).len();
                let at = k as u64;
                prop_assert_eq!(found.hit_at(at), f32::from(n_found > 0));
                prop_assert_eq!(found.recall_at(at), naive.over_answers(n_found));
            }
        }
    }
}

/// A random ranking, and the values of other evaluators (`scripts/evaluator-parity.py`).
#[derive(Deserialize)]
struct Case {
    candidates: Vec<NodeId>,
    ranking: Vec<(NodeId, f32)>,
    answers: Vec<NodeId>,
    /// `stark_qa` with torchmetrics 1.7.3; null if equal scores leave the value undefined.
    any: BTreeMap<String, Option<f32>>,
    /// pytrec_eval on the whole ranking with ties broken.
    trec: Option<BTreeMap<String, Option<f32>>>,
}

#[derive(Deserialize)]
struct Reference {
    cases: Vec<Case>,
}

/// Returns the metric with this name.
fn named_metric(name: &str) -> Metric {
    Metric::ALL.into_iter().find(|metric| metric.name() == name).unwrap()
}

#[test]
fn other_evaluators_give_the_same_values() {
    let json = include_str!("../../../../tests/data/metrics/reference.json");
    let reference: Reference = serde_json::from_str(json).unwrap();
    let mut n_checked = BTreeMap::new();
    for (number, case) in reference.cases.iter().enumerate() {
        let candidates = Candidates::sorted(&case.candidates);
        let found = AnswerRanks::new(&case.ranking, &case.answers, candidates);
        for (source, expected) in [("any", Some(&case.any)), ("trec", case.trec.as_ref())] {
            for (name, expected) in expected.into_iter().flatten() {
                let Some(expected) = expected else { continue };
                let value = Metrics::from_ranks(&found).get(named_metric(name));
                assert!(
                    (value - expected).abs() <= ROUNDING * expected,
                    "case {number}, {source}: {name} is {value}, not {expected}"
                );
                *n_checked.entry((source, name.clone())).or_insert(0) += 1;
            }
        }
    }
    assert!(
        Metric::ALL
            .iter()
            .filter(|&&metric| metric != Metric::Hit100)
            .all(|metric| { n_checked.get(&("any", metric.to_string())).is_some_and(|n| *n > 30) })
    );
    assert!(n_checked[&("trec", "map".into())] > 40);
}

fn parse_ids(cell: &str) -> Vec<NodeId> {
    serde_json::from_str(cell).unwrap()
}

/// Length of the stored reference rankings.
const DEPTH: u64 = 1000;

/// Relative difference allowed for rounding: 2 units in the last place of an `f32`.
const ROUNDING: f32 = 2.0 * f32::EPSILON;

/// Whether a reference value that depends on ranks beyond [`DEPTH`] is possible for some of them.
fn is_possible(metric: Metric, ranks: &[u64], expected: f32) -> bool {
    let value = |place: fn(usize) -> u64| {
        let placed = |(i, &rank): (usize, &u64)| if rank > DEPTH { place(i) } else { rank };
        let ranks: Vec<u64> = ranks.iter().enumerate().map(placed).collect();
        if metric == Metric::Mrr { 1.0 / ranks[0] as f32 } else { mean_precision(&ranks) }
    };
    let (lowest, highest) = (value(|_| 957_192), value(|i| DEPTH + 1 + i as u64));
    expected >= lowest * (1.0 - ROUNDING) && expected <= highest * (1.0 + ROUNDING)
}

/// The official output for real vector search on 274 human queries, 14 metrics each.
///
/// The stored rankings are cut at [`DEPTH`], so a value that depends on the rank of an answer
/// beyond cannot be recomputed: the reciprocal rank of 51 queries without any answer in the list,
/// and the average precision of 72 that lack at least one. There the value must be a possible one.
/// (Without dropping answers that are not candidates it would be 53 and 75: two queries have no
/// candidate answer at all, one has one of two.) One further value differs by the reference's own
/// rule: its average precision leaves the order of ties open, and ranked an answer one below the
/// stored rank.
#[test]
fn reference_output_is_reproduced() {
    let (Some(golden), Some(questions)) =
        (given::real_data("stark-golden"), given::real_data("stark-qa"))
    else {
        return;
    };
    let (mut n_queries, mut n_same_bits, mut beyond_mrr, mut beyond_map) = (0, 0, 0, 0);
    let mut mismatches = Vec::new();
    for (name, candidates) in [
        ("amazon", Candidates::All(957_192)),
        ("mag", Candidates::Range(1_172_724, 1_872_968)),
        ("prime", Candidates::All(129_375)),
    ] {
        let file = format!("{name}/stark_qa/stark_qa_human_generated_eval.csv");
        let mut answers = BTreeMap::new();
        for record in csv::Reader::from_path(questions.join(file)).unwrap().records() {
            let record = record.unwrap();
            answers.insert(record[0].to_owned(), parse_ids(&record[2]));
        }
        let stored = golden.join(format!("{name}.csv"));
        let mut stored = csv::Reader::from_path(stored).unwrap();
        let headers = stored.headers().unwrap().clone();
        for record in stored.records() {
            let record = record.unwrap();
            n_queries += 1;
            let ids = parse_ids(&record[2]);
            let ranking: Vec<(NodeId, f32)> =
                ids.iter().enumerate().map(|(i, &id)| (id, -(i as f32))).collect();
            let found = AnswerRanks::new(&ranking, &answers[&record[1]], candidates);
            for (metric, value) in Metrics::from_ranks(&found).iter() {
                // The benchmark does not report it.
                if metric == Metric::Hit100 {
                    continue;
                }
                let column = headers.iter().position(|header| header == metric.name()).unwrap();
                let expected = record[column].parse::<f64>().unwrap() as f32;
                let needed = match metric {
                    Metric::Mrr => found.ranks().first(),
                    Metric::Map => found.ranks().last(),
                    _ => None,
                };
                let is_beyond = needed.is_some_and(|&rank| rank > DEPTH);
                let holds = if is_beyond {
                    beyond_mrr += usize::from(metric == Metric::Mrr);
                    beyond_map += usize::from(metric == Metric::Map);
                    is_possible(metric, found.ranks(), expected)
                } else if (name, &record[1], metric) == ("mag", "83", Metric::Map) {
                    assert_eq!(found.ranks(), [2, 516]);
                    expected == mean_precision(&[2, 517])
                } else {
                    n_same_bits += usize::from(value == expected);
                    (value - expected).abs() <= ROUNDING * expected
                };
                if !holds {
                    mismatches.push(format!("{name} {} {metric} {value} {expected}", &record[1]));
                }
            }
        }
    }
    let n_checked = n_queries * (N_METRICS - 1) - beyond_mrr - beyond_map - 1;
    eprintln!("{n_checked} cells checked, {n_same_bits} of them equal in every bit");
    assert!(mismatches.is_empty(), "{mismatches:#?}");
    assert_eq!((n_queries, beyond_mrr, beyond_map), (274, 51, 72));
}
