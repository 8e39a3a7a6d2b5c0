//! Computes the likelihood of a question's words under its readings: a naive Bayes model over the
//! presence of words (Maron 1961). The names of types and relations are the prior; the training
//! questions that a reading answers exactly are the data.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    MAX_WORDS, Metapath, Phrasing, Phrasings, Question, Step, lexicon::Lexicon, metapath_in_words,
    metapaths_from,
};
use crate::bundle::{lexicon::Synonyms, schema::is_form};
use agent_index::IndexedBase;
use agent_kb::{RelationId, TypeId, distinct};

/// Maximum number of metapaths from one name to one type that are combined with the metapaths of
/// other names, in addition to metapaths of phrasings.
const KEPT_METAPATHS: usize = 12;
/// Probability that a question contains a word of the target type.
const TARGET_WORD_PROBABILITY: f32 = 0.8;
/// Probability that a question contains a word of a followed relation, or of the type of a name.
const METAPATH_WORD_PROBABILITY: f32 = 0.5;
/// Probability that a question contains a word of the middle type of a metapath.
const MIDDLE_WORD_PROBABILITY: f32 = 0.3;
/// Probability that a question has a given synonym of a type or relation of its metapaths.
const SYNONYM_PROBABILITY: f32 = 0.3;
/// Log penalty per step whose relation a word of the question excludes.
const EXCLUDED_PENALTY: f32 = -6.0;
/// Probability that a question contains a given question word.
const QUESTION_WORD_PROBABILITY: f32 = 0.1;
/// Probability that a question contains a given word that its reading does not predict.
const OTHER_WORD_PROBABILITY: f32 = 0.001;
/// Minimum probability of a word under a reading at which the reading explains the word.
const EXPLAINED: f32 = 0.01;
/// Weight of the prior, in training questions.
const PRIOR_WEIGHT: f32 = 2.0;
/// Minimum number of training questions of a phrasing that contain a word; rarer words are ignored.
const MIN_WORD_QUESTIONS: u32 = 2;
/// Log penalty per step of a metapath after the first; not applied to likelihoods from training
/// questions.
pub(super) const LONGER: f32 = -2.0;
/// Log penalty of a step in both directions if the order of words determines a single direction.
const BOTH_DIRECTIONS_PENALTY: f32 = -2.0;
/// Log penalty if the target type is not the first type in the question.
const LATER_TARGET_PENALTY: f32 = -3.0;
/// Log penalty per word of a metapath's relations that the question has, but not right before the
/// name from which the metapath starts. Also applies per metapath of two steps that the question
/// states in forward order, because questions usually state the last step first.
const ELSEWHERE_PENALTY: f32 = -0.5;
/// Log penalty if the question has a word of [`IN_COMMON`](super::IN_COMMON), but no metapath
/// returns along its first step.
const NOTHING_IN_COMMON: f32 = -2.0;

/// Computes the likelihood of one question's words under its readings.
pub(super) struct Model<'a> {
    pub(super) base: &'a IndexedBase,
    pub(super) question: &'a Question,
    /// Phrasings of training questions by the texts of their metapaths.
    phrasings: BTreeMap<Vec<&'a str>, &'a Phrasing>,
    pub(super) lexicon: Lexicon<'a>,
    /// The metapaths of all phrasings of training questions, as text.
    learnt: BTreeSet<&'a str>,
    /// Start and target types of the metapaths in `learnt`.
    learnt_ends: BTreeSet<(TypeId, TypeId)>,
    /// Types that the question mentions first, if any.
    first: Option<Vec<TypeId>>,
    /// The topical words: those that describe the answers. Every set of words in this struct is a
    /// bit set by position in [`Question::other_stems`].
    pub(super) topical: u64,
    /// For each type, and in the next field for each relation: the words that are forms of a word
    /// of its name.
    of_types: Vec<u64>,
    of_relations: Vec<u64>,
    /// For each type, and in the next field for each relation: the words that are its synonyms.
    type_synonyms: Vec<u64>,
    relation_synonyms: Vec<u64>,
    /// For each relation: whether a word of the question excludes it.
    excluded: Vec<bool>,
    /// The stems of the schema, ascending; in the next field, for each stem, the words that are
    /// forms of it.
    stems: Vec<String>,
    forms: Vec<u64>,
    /// For each type, and in the next field for each relation: indexes into `stems` of the words of
    /// its name.
    type_stems: Vec<Vec<usize>>,
    relation_stems: Vec<Vec<usize>>,
}

/// A metapath and, if a phrasing of training questions contains the metapath, its text.
pub(super) struct WordedMetapath<'a> {
    pub(super) metapath: Metapath,
    words: Option<&'a str>,
}

/// A candidate reading with its log likelihood.
pub(super) struct Guess {
    pub(super) metapaths: Vec<Metapath>,
    pub(super) log: f32,
    plain: bool,
    /// Whether a word of the question is explained only as a synonym.
    pub(super) by_synonym: bool,
}

/// Returns the bit set at index `at`; the empty set beyond the end.
fn bits(of: &[u64], at: u16) -> u64 {
    of.get(usize::from(at)).copied().unwrap_or(0)
}

/// Returns the union of the words of a metapath's types and relations.
fn words_of(metapath: &Metapath, of_types: &[u64], of_relations: &[u64]) -> u64 {
    let types = [metapath.start, metapath.target].into_iter().chain(metapath.middle);
    let types = types.map(|kind| bits(of_types, kind.0));
    let relations = metapath.steps.iter().map(|step| bits(of_relations, step.0.0));
    types.chain(relations).fold(0, |all, own| all | own)
}

impl<'a> Model<'a> {
    pub(super) fn new(
        base: &'a IndexedBase,
        question: &'a Question,
        phrasings: &'a Phrasings,
    ) -> Self {
        let schema = &question.schema;
        let first = schema.first_mentioned(&question.other_stems);
        let lexicon = Lexicon::new(phrasings);
        let trained = || phrasings.0.iter().filter(|phrasing| !phrasing.written);
        let metapaths = trained().flat_map(|phrasing| &phrasing.metapaths);
        let learnt: BTreeSet<&str> = metapaths.map(String::as_str).collect();
        let types = || base.kb.types().iter().zip(0u16..);
        let pairs = types().flat_map(|start| types().map(move |target| (start, target)));
        let learnt_ends = pairs
            .filter(|((start, _), (target, _))| {
                let is_between =
                    |words: &&str| words.starts_with(*start) && words.ends_with(*target);
                learnt.iter().any(is_between)
            })
            .map(|((_, start), (_, target))| (TypeId(start), TypeId(target)))
            .collect();
        let by_metapaths = |phrasing: &'a Phrasing| {
            (phrasing.metapaths.iter().map(String::as_str).collect(), phrasing)
        };
        let phrasings = trained().map(by_metapaths).collect();
        let bits = |holds: &dyn Fn(usize) -> bool| -> u64 {
            let positions = 0..question.other_stems.len().min(MAX_WORDS);
            positions.filter(|&at| holds(at)).map(|at| 1 << at).sum()
        };
        let forms = |own: &Vec<String>| {
            bits(&|at| own.iter().any(|own| is_form(&question.other_stems[at], own)))
        };
        let topical = bits(&|at| !question.asks[at]);
        let of_types = schema.types.iter().map(forms).collect();
        let of_relations = schema.relations.iter().map(forms).collect();
        let equal = |own: &[String]| bits(&|at| own.contains(&question.other_stems[at]));
        let synonyms = |of: &[Synonyms]| of.iter().map(|own| equal(&own.suggests)).collect();
        let type_synonyms = synonyms(&schema.type_synonyms);
        let relation_synonyms = synonyms(&schema.relation_synonyms);
        let excluded = schema.excluded(&question.other_stems, &question.asks);
        let stems: BTreeSet<&String> =
            schema.types.iter().chain(&schema.relations).flatten().collect();
        let stems: Vec<String> = stems.into_iter().cloned().collect();
        let places = |own: &Vec<String>| {
            own.iter().filter_map(|stem| stems.binary_search(stem).ok()).collect()
        };
        let type_stems = schema.types.iter().map(places).collect();
        let relation_stems = schema.relations.iter().map(places).collect();
        let forms = |stem: &String| bits(&|at| is_form(&question.other_stems[at], stem));
        let forms = stems.iter().map(forms).collect();
        Self {
            base,
            question,
            phrasings,
            lexicon,
            learnt,
            learnt_ends,
            first,
            topical,
            of_types,
            of_relations,
            type_synonyms,
            relation_synonyms,
            excluded,
            stems,
            forms,
            type_stems,
            relation_stems,
        }
    }

    pub(super) fn worded(&self, metapath: Metapath) -> WordedMetapath<'a> {
        WordedMetapath { words: self.learnt_words(&metapath), metapath }
    }

    /// Returns the text of a metapath if a phrasing of training questions contains the metapath.
    fn learnt_words(&self, metapath: &Metapath) -> Option<&'a str> {
        if !self.learnt_ends.contains(&(metapath.start, metapath.target)) {
            return None;
        }
        self.learnt.get(metapath_in_words(self.base, metapath).as_str()).copied()
    }

    /// Whether metapaths may explain every word: by their names and synonyms, or by a phrasing.
    fn may_be_plain(&self, metapaths: &[&WordedMetapath<'_>]) -> bool {
        let explained = metapaths.iter().fold(0, |explained, one| {
            explained | self.names_of(&one.metapath) | self.synonyms_of(&one.metapath)
        });
        self.topical & !explained == 0 || self.phrasing(metapaths).is_some()
    }

    /// Returns the topical words that a metapath does not explain: neither by the names or synonyms
    /// of its types and relations nor by the lexicon.
    pub(super) fn unexplained(&self, metapath: &Metapath) -> Vec<&'a str> {
        let explained = self.names_of(metapath) | self.synonyms_of(metapath);
        let written = self.lexicon.phrasing(self.base, metapath);
        let is_open = |(at, stem): &(usize, &String)| {
            let is_written = |own: &Phrasing| own.words.contains_key(*stem);
            self.topical & !explained & (1 << at) != 0 && !written.is_some_and(is_written)
        };
        let stems = self.question.other_stems.iter().take(MAX_WORDS).enumerate();
        stems.filter(is_open).map(|(_, stem)| stem.as_str()).collect()
    }

    /// Counts the topical words that a metapath explains; see [`unexplained`](Self::unexplained).
    pub(super) fn n_explained(&self, metapath: &Metapath) -> u32 {
        self.topical.count_ones() - self.unexplained(metapath).len() as u32
    }

    /// Returns the question's words that are forms of words in the names of a metapath's types and
    /// relations.
    fn names_of(&self, metapath: &Metapath) -> u64 {
        words_of(metapath, &self.of_types, &self.of_relations)
    }

    /// Returns the question's words that are synonyms of a metapath's types and relations.
    fn synonyms_of(&self, metapath: &Metapath) -> u64 {
        words_of(metapath, &self.type_synonyms, &self.relation_synonyms)
    }

    /// Counts the steps whose relation a word of the question excludes.
    fn n_excluded(&self, metapaths: &[Metapath]) -> usize {
        let steps = metapaths.iter().flat_map(|metapath| &metapath.steps);
        let is_excluded = |step: &&Step| self.excluded.get(usize::from(step.0.0)) == Some(&true);
        steps.filter(is_excluded).count()
    }

    /// Returns the phrasing with exactly these metapaths, if any.
    fn phrasing(&self, metapaths: &[&WordedMetapath<'_>]) -> Option<&'a Phrasing> {
        let mut words: Vec<&str> = metapaths.iter().map(|one| one.words).collect::<Option<_>>()?;
        words.sort_unstable();
        self.phrasings.get(words.as_slice()).copied()
    }

    /// Whether readings may explain every word: each is a question word, a word or synonym of the
    /// schema, or a word of a phrasing of training questions.
    pub(super) fn may_explain(&self) -> bool {
        let in_phrasing = |stem: &str| {
            let count = |phrasing: &&Phrasing| phrasing.words.get(stem).copied();
            self.phrasings.values().any(|phrasing| count(phrasing) >= Some(MIN_WORD_QUESTIONS))
        };
        let mut words = self.question.other_stems.iter().zip(&self.question.asks);
        words.all(|(stem, &asks)| {
            asks || self.question.schema.says(stem)
                || self.question.schema.is_synonym(stem)
                || in_phrasing(stem)
        })
    }

    /// Returns the indexes of the stems that a question with these metapaths is expected to
    /// contain, ascending, with probabilities.
    fn expected(&self, metapaths: &[Metapath]) -> Vec<(usize, f32)> {
        let mut expected: Vec<(usize, f32)> = Vec::new();
        // If the question has a synonym of a name, the missing words of the name are not expected.
        let mut put = |of: &[Vec<usize>], synonyms: &[u64], at: u16, chance: f32| {
            let is_replaced = bits(synonyms, at) != 0;
            let own = of.get(usize::from(at)).into_iter().flatten();
            let own = own.filter(|&&stem| !is_replaced || self.forms[stem] != 0);
            expected.extend(own.map(|&stem| (stem, chance)));
        };
        for metapath in metapaths {
            let (types, synonyms) = (&self.type_stems, &self.type_synonyms);
            put(types, synonyms, metapath.target.0, TARGET_WORD_PROBABILITY);
            put(types, synonyms, metapath.start.0, METAPATH_WORD_PROBABILITY);
            for &(RelationId(relation), _) in &metapath.steps {
                let synonyms = &self.relation_synonyms;
                put(&self.relation_stems, synonyms, relation, METAPATH_WORD_PROBABILITY);
            }
            if let Some(kind) = metapath.middle {
                put(types, synonyms, kind.0, MIDDLE_WORD_PROBABILITY);
            }
        }
        expected.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        expected.dedup_by_key(|pair| pair.0);
        expected
    }

    /// Scores the reading with these metapaths, one per name: the log likelihood of the question's
    /// words, by the reading's phrasing or by the names of types and relations, whichever is
    /// larger.
    pub(super) fn guess(&self, worded: &[&WordedMetapath<'_>]) -> Guess {
        let metapaths: Vec<Metapath> = worded.iter().map(|one| one.metapath.clone()).collect();
        let expected = self.expected(&metapaths);
        let there_and_back = metapaths.iter().any(Metapath::goes_there_and_back);
        let expected_length =
            |metapath: &Metapath| self.question.in_common && metapath.goes_there_and_back();
        let longer = metapaths.iter().filter(|metapath| !expected_length(metapath));
        let longer: usize = longer.map(|metapath| metapath.steps.len() - 1).sum();
        let synonyms = metapaths.iter().fold(0, |all, metapath| all | self.synonyms_of(metapath));
        let (log, plain) = self.wording(&expected, synonyms, None);
        let names = metapaths.iter().fold(0, |all, metapath| all | self.names_of(metapath));
        let by_synonym = self.topical & synonyms & !names != 0;
        let log = log + LONGER * longer as f32;
        let mut guess = Guess { metapaths, log, plain, by_synonym };
        let learnt = self.phrasing(worded).map(|phrasing| {
            let (log, plain) = self.wording(&expected, synonyms, Some(phrasing));
            (log + (phrasing.n as f32 + 1.0).ln(), plain)
        });
        let said = guess.metapaths.first().and_then(|first| self.question.says_direction(first));
        if said.is_none_or(|said| !said)
            && guess.metapaths.iter().any(|metapath| metapath.is_one_way_within_a_type())
        {
            guess.plain = false;
        } else if said == Some(false) {
            guess.log += BOTH_DIRECTIONS_PENALTY;
        }
        if let Some((log, plain)) = learnt
            && plain
            && (!guess.plain || log > guess.log)
        {
            (guess.log, guess.plain, guess.by_synonym) = (log, plain, false);
        }
        let asks_later =
            |target: TypeId| self.first.as_ref().is_some_and(|first| !first.contains(&target));
        if guess.metapaths.first().is_some_and(|metapath| asks_later(metapath.target)) {
            guess.log += LATER_TARGET_PENALTY;
        }
        if self.question.in_common && !there_and_back {
            guess.log += NOTHING_IN_COMMON;
        }
        let misplaced =
            self.n_words_elsewhere(&guess.metapaths) + self.n_in_order(&guess.metapaths);
        guess.log += ELSEWHERE_PENALTY * misplaced as f32;
        guess.log += EXCLUDED_PENALTY * self.n_excluded(&guess.metapaths) as f32;
        guess
    }

    /// Counts the words of the metapaths' relations that the question has, but not right before the
    /// metapath's name; 0 for a single name.
    fn n_words_elsewhere(&self, metapaths: &[Metapath]) -> usize {
        let says = |stems: &[String], own: &str| stems.iter().any(|stem| is_form(stem, own));
        let of_name = |(metapath, before): (&Metapath, &Vec<String>)| {
            let own =
                metapath.steps.iter().flat_map(|step| self.question.schema.of_relation(step.0));
            own.filter(|own| says(&self.question.other_stems, own) && !says(before, own)).count()
        };
        match metapaths.len() {
            0 | 1 => 0,
            _ => metapaths.iter().zip(&self.question.before).map(of_name).sum(),
        }
    }

    /// Counts the metapaths of two steps whose first step is stated before the second in the words
    /// before the name.
    fn n_in_order(&self, metapaths: &[Metapath]) -> usize {
        let is_in_order = |(metapath, before): &(&Metapath, &Vec<String>)| {
            let &[(first, _), (second, _)] = metapath.steps.as_slice() else { return false };
            let last_said = |of: RelationId, not_of: RelationId| {
                let (own, other) = (
                    self.question.schema.of_relation(of),
                    self.question.schema.of_relation(not_of),
                );
                let is_own = |stem: &String| {
                    own.iter().any(|own| is_form(stem, own) && !other.contains(own))
                };
                before.iter().rposition(is_own)
            };
            let places = last_said(first, second).zip(last_said(second, first));
            places.is_some_and(|(first, second)| first < second)
        };
        metapaths.iter().zip(&self.question.before).filter(is_in_order).count()
    }

    /// Returns the log likelihood of the words under a reading, and whether the reading explains
    /// all words. `expected` are the stems that the reading predicts, with probabilities;
    /// `synonyms` are the words that are synonyms of its types and relations.
    fn wording(
        &self,
        expected: &[(usize, f32)],
        synonyms: u64,
        phrasing: Option<&Phrasing>,
    ) -> (f32, bool) {
        let n = phrasing.map_or(0, |phrasing| phrasing.n) as f32;
        let count = |stem: &str| {
            let count = phrasing.and_then(|phrasing| phrasing.words.get(stem)).copied();
            count.filter(|&count| count >= MIN_WORD_QUESTIONS).unwrap_or(0) as f32
        };
        let chance =
            |stem: &str, prior: f32| (count(stem) + PRIOR_WEIGHT * prior) / (n + PRIOR_WEIGHT);
        let prior = |at: usize, asks: bool| {
            let forms = expected.iter().filter(|pair| self.forms[pair.0] >> at & 1 == 1);
            let least = match (synonyms >> at & 1 == 1, asks) {
                (true, _) => SYNONYM_PROBABILITY,
                (false, true) => QUESTION_WORD_PROBABILITY,
                (false, false) => OTHER_WORD_PROBABILITY,
            };
            forms.map(|pair| pair.1).fold(least, f32::max)
        };
        let (mut log, mut plain) = (0.0, true);
        for (at, (stem, &asks)) in
            self.question.other_stems.iter().zip(&self.question.asks).enumerate()
        {
            let chance = chance(stem, prior(at, asks));
            log += chance.ln();
            plain &= asks || chance >= EXPLAINED;
        }
        let is_expected = |stem: &str| {
            let place = self.stems.binary_search_by(|other| other.as_str().cmp(stem));
            place.is_ok_and(|at| expected.binary_search_by_key(&at, |pair| pair.0).is_ok())
        };
        let is_said =
            |stem: &str| self.question.other_stems.iter().any(|other| is_form(stem, other));
        let learnt = phrasing.into_iter().flat_map(|phrasing| phrasing.words.keys());
        let learnt = learnt.map(String::as_str).filter(|stem| !is_expected(stem) && !is_said(stem));
        let unsaid: f32 = expected
            .iter()
            .filter(|pair| self.forms[pair.0] == 0)
            .map(|&(stem, prior)| (self.stems[stem].as_str(), prior))
            .chain(learnt.map(|stem| (stem, OTHER_WORD_PROBABILITY)))
            .map(|(stem, prior)| (1.0 - chance(stem, prior)).max(OTHER_WORD_PROBABILITY).ln())
            .sum();
        (log + unsaid, plain)
    }

    /// Returns the metapaths from a type. A metapath that follows a relation within a type in a
    /// single direction is included only if a phrasing of training questions contains it or the
    /// order of words determines this direction.
    fn metapaths(&self, start: TypeId) -> Vec<WordedMetapath<'a>> {
        let is_said = |metapath: &Metapath| {
            self.question.says_direction(metapath) == Some(true)
                || self.learnt_words(metapath).is_some()
        };
        let mut metapaths = metapaths_from(self.base, start, false);
        let directed = metapaths_from(self.base, start, true);
        metapaths.extend(directed.into_iter().filter(is_said));
        distinct(metapaths).into_iter().map(|metapath| self.worded(metapath)).collect()
    }

    /// Returns the readings that explain all words, most likely first, ties by ascending metapaths.
    pub(super) fn guesses(&self) -> Vec<Guess> {
        let types = self.question.linked_types(self.base);
        let of_name: Vec<Vec<WordedMetapath<'_>>> = types
            .iter()
            .map(|types| types.iter().flat_map(|&kind| self.metapaths(kind)).collect())
            .collect();
        let targets: BTreeSet<TypeId> =
            of_name.iter().flatten().map(|one| one.metapath.target).collect();
        let mut guesses: Vec<Guess> =
            targets.into_iter().flat_map(|target| self.guesses_at(target, &of_name)).collect();
        guesses.retain(|guess| guess.plain);
        guesses.sort_by(|a, b| b.log.total_cmp(&a.log).then_with(|| a.metapaths.cmp(&b.metapaths)));
        guesses
    }

    /// Returns the readings with one target type: combinations of the most likely metapaths from
    /// each name.
    fn guesses_at(&self, target: TypeId, of_name: &[Vec<WordedMetapath<'_>>]) -> Vec<Guess> {
        let mut combined: Vec<Vec<&WordedMetapath<'_>>> = vec![Vec::new()];
        for metapaths in of_name {
            let own = metapaths.iter().filter(|one| one.metapath.target == target);
            let mut own: Vec<(f32, &WordedMetapath<'_>)> =
                own.map(|one| (self.guess(&[one]).log, one)).collect();
            own.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.metapath.cmp(&b.1.metapath)));
            let kept: Vec<&WordedMetapath<'_>> = own
                .into_iter()
                .map(|pair| pair.1)
                .enumerate()
                .filter(|(at, one)| *at < KEPT_METAPATHS || one.words.is_some())
                .map(|pair| pair.1)
                .collect();
            combined = combined
                .iter()
                .flat_map(|before| {
                    kept.iter().map(|&one| before.iter().copied().chain([one]).collect())
                })
                .collect();
        }
        let plain = combined.iter().filter(|metapaths| self.may_be_plain(metapaths));
        plain.map(|metapaths| self.guess(metapaths)).collect()
    }
}
