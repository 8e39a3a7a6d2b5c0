//! Postings against scores that bm25s wrote, against scoring every node, and against damage.

use std::{collections::BTreeMap, fs, sync::Arc};

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::bm25::{Bm25, idf};
use agent_ground::words::{Languages, for_each_reference_word};
use agent_kb::NodeId;

/// Output of `scripts/bm25_golden.py`: scores by document.
#[derive(Deserialize)]
struct Golden {
    documents: Vec<String>,
    queries: Vec<String>,
    stark: Vec<BTreeMap<NodeId, f32>>,
    mfar: Vec<BTreeMap<NodeId, f32>>,
}

fn index(texts: &[String]) -> Postings {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("postings");
    build(&path, Analysis::Words, texts).unwrap();
    Postings::open(&path).unwrap()
}

#[test]
fn scores_are_those_of_bm25s() {
    let golden: Golden =
        serde_json::from_str(include_str!("../../../tests/data/bm25/golden.json")).unwrap();
    let index = index(&golden.documents);
    for (setting, rows) in [(Bm25::STARK, &golden.stark), (Bm25::MFAR, &golden.mfar)] {
        for (query, expected) in golden.queries.iter().zip(rows) {
            let found: BTreeMap<NodeId, f32> =
                index.search(query, setting, None, golden.documents.len()).into_iter().collect();
            assert!(found.keys().eq(expected.keys()), "{query}: {found:?} {expected:?}");
            for (node, score) in found {
                assert!((score - expected[&node]).abs() < 1e-4, "{query}: {node} {score}");
            }
        }
    }
}

/// Scores by the formula, from the texts.
fn naive(texts: &[String], query: &str, setting: Bm25) -> Vec<f32> {
    let words = |text: &str| {
        let mut words = Vec::new();
        for_each_reference_word(text, |word| words.push(word.to_owned()));
        words
    };
    let texts: Vec<Vec<String>> = texts.iter().map(|text| words(text)).collect();
    let mean = texts.iter().map(Vec::len).sum::<usize>() as f32 / texts.len() as f32;
    let count = |text: &[String], word: &String| text.iter().filter(|other| *other == word).count();
    let mut scores = vec![0.0; texts.len()];
    for word in words(query) {
        let df = texts.iter().filter(|text| text.contains(&word)).count();
        for (score, text) in scores.iter_mut().zip(&texts) {
            let length = text.len() as f32 / mean;
            let tf = count(text, &word) as f32;
            let norm = setting.k1 * (1.0 - setting.b + setting.b * length);
            *score += if tf > 0.0 { idf(texts.len(), df as u32) * tf / (tf + norm) } else { 0.0 };
        }
    }
    scores
}

/// Texts of few words, some of them in most texts, with counts that need more than a byte.
fn texts() -> impl Strategy<Value = Vec<String>> {
    let word = prop_oneof![
        6 => (0u32..6).prop_map(|at| format!("common{at} ")),
        2 => (0u32..60).prop_map(|at| format!("rare{at} ")),
    ];
    let repeated = (word, prop_oneof![9 => 1usize..4, 1 => 250usize..300]);
    let text = prop::collection::vec(repeated.prop_map(|(word, n)| word.repeat(n)), 0..12);
    prop::collection::vec(text.prop_map(|parts| parts.concat()), 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_best_are_the_first_of_all(
        texts in texts(),
        asked in prop::collection::vec((any::<bool>(), 0u32..60), 1..6),
        setting in (0.0f32..3.0, 0.0f32..=1.0).prop_map(|(k1, b)| Bm25 { k1, b }),
        kept in any::<bool>(),
        mask in prop::option::of(any::<u64>()),
        k in 1usize..20,
    ) {
        let setting = if kept { Bm25::default() } else { setting };
        let word = |&(common, at): &(bool, u32)| {
            if common { format!("common{} ", at % 6) } else { format!("rare{at} ") }
        };
        let query: String = asked.iter().map(word).collect();
        let index = index(&texts);
        let mask = mask.map(|mask| vec![mask; texts.len().div_ceil(64)]);
        let is_allowed = |node: NodeId| mask.as_ref().is_none_or(|mask| mask[0] >> (node % 64) & 1 > 0);
        let all = index.search(&query, setting, None, texts.len());
        let expected: Vec<_> = all.iter().copied().filter(|pair| is_allowed(pair.0)).take(k).collect();
        prop_assert_eq!(index.search(&query, setting, mask.as_deref(), k), expected);
        let sets = [u64::MAX / 3, u64::MAX, 0xff00].map(|set| {
            Arc::from(vec![set; texts.len().div_ceil(64)])
        });
        let alone = |set: &Arc<[u64]>| index.search(&query, setting, Some(set), k);
        let alone: Vec<_> = sets.iter().map(alone).collect();
        prop_assert_eq!(index.search_each(&query, setting, &sets, k), alone);

        let naive = naive(&texts, &query, setting);
        prop_assert_eq!(all.len(), naive.iter().filter(|score| **score > 0.0).count());
        prop_assert!(all.is_sorted_by(|a, b| a.1 > b.1 || a.1 == b.1 && a.0 < b.0));
        for (node, score) in all {
            prop_assert!((naive[node as usize] - score).abs() <= 1e-5 * score, "{} {}", node, score);
        }
    }

    /// A collection is scored as an index of its texts alone.
    #[test]
    fn a_collection_is_searched_as_if_nothing_else_were_indexed(
        texts in texts(),
        asked in prop::collection::vec((any::<bool>(), 0u32..60), 1..6),
        setting in (0.0f32..3.0, 0.0f32..=1.0).prop_map(|(k1, b)| Bm25 { k1, b }),
        kept in any::<bool>(),
        mask in any::<u64>(),
        k in 1usize..20,
    ) {
        let setting = if kept { Bm25::STARK } else { setting };
        let word = |&(common, at): &(bool, u32)| {
            if common { format!("common{} ", at % 6) } else { format!("rare{at} ") }
        };
        let query: String = asked.iter().map(word).collect();
        let index = index(&texts);
        let collection = index.collection(vec![mask; texts.len().div_ceil(64)].into());
        let nodes: Vec<usize> = (0..texts.len()).filter(|at| mask >> (at % 64) & 1 > 0).collect();
        let alone: Vec<String> = nodes.iter().map(|&at| texts[at].clone()).collect();
        prop_assert_eq!(collection.n_texts, alone.len());
        let naive = naive(&alone, &query, setting);
        let all = index.search_in(&query, setting, &collection, texts.len());
        prop_assert_eq!(all.len(), naive.iter().filter(|score| **score > 0.0).count());
        for &(node, score) in &all {
            let at = nodes.binary_search(&(node as usize)).unwrap();
            prop_assert!((naive[at] - score).abs() <= 1e-5 * score, "{} {}", node, score);
        }
        let first = &all[..k.min(all.len())];
        prop_assert_eq!(index.search_in(&query, setting, &collection, k), first);
    }

    /// The file does not depend on the distribution of texts between builders.
    #[test]
    fn what_builders_give_each_other_makes_the_same_file(
        texts in texts(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (whole, parted) = (dir.path().join("whole"), dir.path().join("parted"));
        build(&whole, Analysis::Stems(Languages::ENGLISH), &texts).unwrap();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(texts.len())).collect();
        cuts.sort_unstable();
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([texts.len()]);
        let mut taking = PostingsBuilder::create(&parted, Analysis::Stems(Languages::ENGLISH));
        for (from, to) in starts.zip(ends) {
            let mut giving = PostingsBuilder::create(&parted, Analysis::Stems(Languages::ENGLISH));
            let mut bytes = Vec::new();
            for (node, text) in (from as NodeId..).zip(&texts[from..to]) {
                giving.add(node, [text.as_str()]);
                if is_much(std::slice::from_mut(&mut giving)) {
                    giving.give(&mut bytes).unwrap();
                }
            }
            giving.give(&mut bytes).unwrap();
            let mut input = bytes.as_slice();
            while !input.is_empty() {
                taking.take(&mut input, texts.len() as NodeId).unwrap();
                make_room(std::slice::from_mut(&mut taking)).unwrap();
            }
        }
        taking.finish(texts.len()).unwrap();
        prop_assert!(fs::read(whole).unwrap() == fs::read(parted).unwrap());
    }

    /// Damaged files are refused or give some ranking, never a panic.
    #[test]
    fn damaged_files_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in prop::option::of(any::<prop::sample::Index>()),
        k in 1usize..200,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("postings");
        let texts: Vec<String> = (0..150)
            .map(|node| format!("every {} odd{} rare{node}", "often ".repeat(node * 4), node % 2))
            .collect();
        build(&path, Analysis::Words, &texts).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        // Damages only bytes after the header, because a damaged header is refused first.
        let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        for (at, byte) in edits {
            let at = header + at.index(bytes.len() - header);
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fs::write(&path, bytes).unwrap();
        match Postings::open(&path) {
            Ok(index) => {
                let found = index.search("every often odd1 rare7", Bm25::MFAR, None, k);
                prop_assert!(cut.is_none() && found.iter().all(|pair| pair.0 < 150));
            }
            Err(error) => prop_assert!(matches!(error, IndexError::Damaged { .. }), "{error}"),
        }
    }
}

#[test]
fn threads_do_not_show_in_the_file() {
    let texts: Vec<String> = (0..400).map(|at| format!("w{} w{} all", at % 7, at * at)).collect();
    let written = |threads| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("postings");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| build(&path, Analysis::Words, &texts)).unwrap();
        fs::read(path).unwrap()
    };
    assert_eq!(written(1), written(4));
}
