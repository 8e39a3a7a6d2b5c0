//! The lexicon of a base: for each metapath of one step, the words of questions about it. A
//! language model wrote these questions for the base, or they are taken from a table of general
//! English questions.
//!
//! "what eases glaucoma" has no word of the name `drug_treats_disease`, but has the word "eases" of
//! the questions about this relation. The words of a question are scored by a multinomial naive
//! Bayes model (McCallum and Nigam 1998), smoothed with the words of all metapaths that start at
//! the same name.

use std::collections::BTreeMap;

use super::{Metapath, Phrasing, Phrasings, metapath_in_words};
use agent_index::IndexedBase;
use agent_kb::Direction;

/// Smoothing of each metapath's word distribution: the words of all metapaths together count as
/// much as this number of the metapath's own words.
const SMOOTHING: f32 = 10.0;
/// Added to every count of a word, so that no word rules out a metapath.
const MIN_COUNT: f32 = 1e-3;

/// The phrasings of the lexicon by metapath.
pub(super) struct Lexicon<'a>(BTreeMap<&'a str, &'a Phrasing>);

impl<'a> Lexicon<'a> {
    pub(super) fn new(phrasings: &'a Phrasings) -> Self {
        let written = phrasings.0.iter().filter(|phrasing| phrasing.written);
        let by_metapath = |own: &'a Phrasing| Some((own.metapaths.first()?.as_str(), own));
        Self(written.filter_map(by_metapath).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the phrasing of a metapath, if the lexicon has one.
    pub(super) fn phrasing(&self, base: &IndexedBase, metapath: &Metapath) -> Option<&'a Phrasing> {
        if self.is_empty() || metapath.steps.len() != 1 {
            return None;
        }
        self.0.get(metapath_in_words(base, metapath).as_str()).copied()
    }

    /// Whether the lexicon distinguishes the directions of a metapath of one step within a type.
    pub(super) fn has_directions(&self, base: &IndexedBase, metapath: &Metapath) -> bool {
        let &[(relation, _)] = metapath.steps.as_slice() else { return false };
        let out = Metapath { steps: vec![(relation, Direction::Out)], ..metapath.clone() };
        metapath.start == metapath.target && self.phrasing(base, &out).is_some()
    }

    /// Returns the log likelihood of the stems under each of `metapaths`, in their order, and under
    /// the pooled words of all of them. Stems that no metapath has are ignored.
    pub(super) fn log_likelihoods(
        &self,
        base: &IndexedBase,
        stems: &[String],
        metapaths: &[Metapath],
    ) -> (Vec<f32>, f32) {
        let (mut logs, mut log_of_all) = (vec![0.0; metapaths.len()], 0.0);
        if self.is_empty() {
            return (logs, log_of_all);
        }
        let n_words = |of: &Phrasing| of.words.values().sum::<u32>() as f32;
        let phrasing = |metapath| self.phrasing(base, metapath).map(|own| (own, n_words(own)));
        let phrasings: Vec<Option<(&Phrasing, f32)>> = metapaths.iter().map(phrasing).collect();
        let n_of_all: f32 = phrasings.iter().flatten().map(|own| own.1).sum();
        for stem in stems {
            let count = |of: &Phrasing| of.words.get(stem).copied().unwrap_or(0) as f32;
            let share = phrasings.iter().flatten().map(|own| count(own.0)).sum::<f32>() / n_of_all;
            if share == 0.0 {
                continue;
            }
            log_of_all += share.ln();
            for (log, own) in logs.iter_mut().zip(&phrasings) {
                let (count, n) = own.map_or((0.0, 0.0), |(own, n)| (count(own), n));
                *log += ((count + SMOOTHING * share + MIN_COUNT) / (n + SMOOTHING)).ln();
            }
        }
        (logs, log_of_all)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::bundle::{conditions::Conditions, reading::read_or_guess};
    use agent_testing::example_base;

    /// The phrasing of questions that a model wrote about a metapath, given by their stems.
    fn written(metapath: &str, words: &[&str]) -> Phrasing {
        let words = words.iter().map(|&stem| (stem.to_owned(), 1)).collect();
        Phrasing { metapaths: vec![metapath.to_owned()], n: 12, words, written: true }
    }

    #[test]
    fn a_written_question_leads_to_its_metapath() {
        let base = example_base();
        let brand = base.kb.nodes_of_type(base.kb.type_id("brand").unwrap())[0];
        let has_brand = base.kb.relation_id("has_brand").unwrap();
        let products = base.kb.neighbors(brand, has_brand, Direction::In).to_vec();
        let query = format!("A friend asked me. What leaves the forge of {}?", base.kb.name(brand));
        let read = |phrasings: &Phrasings| {
            let conditions = Conditions::read(&base, &query);
            read_or_guess(&base, &conditions, phrasings).0.map(|reading| reading.answers)
        };
        let leads = written("brand <-has_brand- product", &["what", "leav", "the", "forg"]);
        assert_eq!(read(&Phrasings::default()), None);
        assert_eq!(read(&Phrasings(vec![leads])), Some(products));
    }

    #[test]
    fn words_that_only_one_metapath_has_make_it_likely() {
        let base = example_base();
        let kind = |name: &str| base.kb.type_id(name).unwrap();
        let relation = base.kb.relation_id("has_brand").unwrap();
        let metapath = |direction, start, target| Metapath {
            start: kind(start),
            steps: vec![(relation, direction)],
            target: kind(target),
            middle: None,
        };
        let metapaths = [
            metapath(Direction::Out, "product", "brand"),
            metapath(Direction::In, "brand", "product"),
        ];
        let phrasings = Phrasings(vec![
            written("product -has_brand-> brand", &["who", "make"]),
            written("brand <-has_brand- product", &["what", "make"]),
        ]);
        let lexicon = Lexicon::new(&phrasings);
        let stems = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let logs = |text: &str| lexicon.log_likelihoods(&base, &stems(text), &metapaths).0;
        let equal: BTreeSet<u32> = logs("make it").iter().map(|log| log.to_bits()).collect();
        assert_eq!(equal.len(), 1);
        let told = logs("who make it");
        assert!(told[0] > told[1], "{told:?}");
    }
}
