//! The lexicon of a base: questions about each metapath of one step, such as "what eases {}" for
//! `disease <-drug_treats_disease- drug`. The words of these questions later show which relation a
//! query means.
//!
//! A model writes questions for the base (`actor/lexicon.rs`). The table `questions.tsv` has
//! general English questions about relations that many bases have, found by the names of the
//! relations.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use agent_ground::words::{Language, name_words, snake};
use agent_index::IndexedBase;
use agent_infer::bundle::reading::{Metapath, Phrasing, metapath_in_words};
use agent_kb::{Direction, Kb};

/// Placeholder for the name in a question.
pub(crate) const PLACE: &str = "{}";
/// Maximum number of metapaths of a lexicon; those with the most edges are kept.
const MAX_METAPATHS: usize = 240;
/// General English questions.
const TABLE: &str = include_str!("questions.tsv");

/// Returns the metapaths of one step that get questions: all metapaths to types of answers, sorted
/// by number of edges, descending.
pub(crate) fn metapaths(kb: &Kb) -> Vec<Metapath> {
    let mut counted: Vec<(u64, Metapath)> = Vec::new();
    for tuple in kb.tuples() {
        let (out, back) = (Direction::Out, Direction::In);
        for (direction, start, target) in
            [(out, tuple.source, tuple.target), (back, tuple.target, tuple.source)]
        {
            if kb.candidate_types().contains(&target) {
                let steps = vec![(tuple.relation, direction)];
                counted.push((tuple.edges, Metapath { start, steps, target, middle: None }));
            }
        }
    }
    counted.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    counted.truncate(MAX_METAPATHS);
    counted.into_iter().map(|pair| pair.1).collect()
}

/// Converts the questions about a metapath to a phrasing.
fn phrasing(base: &IndexedBase, metapath: &str, questions: &[String]) -> Phrasing {
    let mut words: BTreeMap<String, u32> = BTreeMap::new();
    for question in questions {
        let text = question.replace(PLACE, " ");
        let stem = |(_, word): (_, Cow<'_, str>)| base.stems.stem(&word).into_owned();
        for stem in name_words(&text).map(stem).collect::<BTreeSet<String>>() {
            *words.entry(stem).or_default() += 1;
        }
    }
    let (metapaths, n) = (vec![metapath.to_owned()], questions.len() as u32);
    Phrasing { metapaths, n, words, written: true }
}

/// Returns the phrasings of the lexicon, ascending by metapath: from `written` (a model's
/// questions, keyed by the text of the metapath) and, if the base has English texts, from the
/// general English questions.
pub(crate) fn phrasings(
    base: &IndexedBase,
    mut written: BTreeMap<String, Vec<String>>,
) -> Vec<Phrasing> {
    if base.stems.languages().has(Language::ENGLISH) {
        for metapath in metapaths(&base.kb) {
            let general = general(&base.kb, &metapath);
            written.entry(metapath_in_words(base, &metapath)).or_default().extend(general);
        }
    }
    written.retain(|_, questions| !questions.is_empty());
    written.iter().map(|(metapath, questions)| phrasing(base, metapath, questions)).collect()
}

/// Returns the general English questions about a metapath of one step.
fn general(kb: &Kb, metapath: &Metapath) -> Vec<String> {
    let &[(relation, direction)] = metapath.steps.as_slice() else { return Vec::new() };
    let source = if direction == Direction::Out { metapath.start } else { metapath.target };
    let (source, name) = (snake(kb.type_name(source)), snake(kb.relation_name(relation)));
    // The prefix "phenotype" in `phenotype_affects` names the source type, not the meaning.
    let rest = name.strip_prefix(&source).filter(|rest| rest.starts_with('_'));
    let name = format!("_{}_", rest.unwrap_or(&name));
    let mut questions = Vec::new();
    for row in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut cells = row.split('\t');
        let [names, reversed, of_start, of_end] =
            std::array::from_fn(|_| cells.next().unwrap_or_default());
        let longest = |names: &str| {
            let own = names.split_whitespace();
            own.filter(|own| name.contains(&format!("_{own}_"))).map(str::len).max()
        };
        let (forward, backward) = (longest(names), longest(reversed));
        if forward.is_none() && backward.is_none() {
            continue;
        }
        let from_start = (forward >= backward) == (direction == Direction::Out);
        let own = if from_start { of_start } else { of_end };
        questions.extend(own.split(" | ").map(str::to_owned));
    }
    questions
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_testing::example_base;

    #[test]
    fn every_relation_has_a_metapath_to_each_type_of_answers() {
        let base = example_base();
        let found: Vec<String> =
            metapaths(&base.kb).iter().map(|one| metapath_in_words(&base, one)).collect();
        let wanted = base.kb.candidate_types();
        let n: usize = base
            .kb
            .tuples()
            .iter()
            .map(|tuple| {
                usize::from(wanted.contains(&tuple.source))
                    + usize::from(wanted.contains(&tuple.target))
            })
            .sum();
        assert_eq!(found.len(), n);
        assert!(found.contains(&"brand <-has_brand- product".to_owned()), "{found:?}");
    }

    #[test]
    fn words_are_counted_once_per_question_and_without_the_name() {
        let base = example_base();
        let texts = ["who makes {}, who?".to_owned(), "makers of {}".to_owned()];
        let own = phrasing(&base, "product -has_brand-> brand", &texts);
        assert_eq!((own.n, own.written), (2, true));
        let counts: Vec<u32> = ["who", "make", "of"].map(|word| own.words[word]).to_vec();
        assert_eq!(counts, [1, 1, 1], "{:?}", own.words);
    }

    #[test]
    fn every_row_asks_about_both_ends() {
        for row in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let cells: Vec<&str> = row.split('\t').collect();
            assert_eq!(cells.len(), 4, "{row}");
            assert!(!cells[0].is_empty(), "{row}");
            for question in cells[2..].iter().flat_map(|cell| cell.split(" | ")) {
                assert!(question.contains(PLACE), "{question}");
            }
        }
    }

    #[test]
    fn general_questions_follow_the_direction_of_the_relation() {
        let base = example_base();
        let of = |direction| {
            let metapaths = metapaths(&base.kb);
            let is_wanted = |metapath: &&Metapath| {
                let (relation, own) = metapath.steps[0];
                own == direction && base.kb.relation_name(relation) == "has_brand"
            };
            general(&base.kb, metapaths.iter().find(is_wanted).unwrap())
        };
        let back = of(Direction::In);
        assert!(back.iter().all(|question| question.contains(PLACE)) && !back.is_empty());
        let own = "brand <-has_brand- product".to_owned();
        let lexicon = phrasings(&base, [(own.clone(), vec!["from {}".to_owned()])].into());
        let phrasing = lexicon.iter().find(|one| one.metapaths == [own.clone()]).unwrap();
        assert_eq!(phrasing.n as usize, 1 + back.len());
        let metapaths: BTreeSet<_> = lexicon.iter().map(|one| &one.metapaths).collect();
        assert_eq!(metapaths.len(), lexicon.len());
    }
}
