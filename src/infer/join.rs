//! Joins the rankings of categories into one answer.
//!
//! ```text
//! member     rankings of its categories -> fused -> ordered by its re-ranker
//!            -> mixed with word search and vector search
//! ensemble   rankings of its members -> joined by reciprocal rank fusion (Cormack et al. 2009)
//! answer     tail by expected reciprocal rank -> the answers of a plain question first, or else
//!            the nodes of the type that the question asks for, if need be those that chains of
//!            relations connect with its names
//!            -> the nodes that fulfil the conditions of the question first
//! ```

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    bundle::{
        Fusion, Member,
        asked::asked_types,
        chains::connected_first,
        conditions::{Conditions, first_of},
        reading::{Phrasings, Reading, read_or_guess},
        reranker::{NodeFeatures, QueryFeatures, Reranker, node_features, search_words},
        router::Features,
    },
    tail,
};
use agent_ground::words::name_words;
use agent_index::{IndexError, IndexedBase};
use agent_kb::{Combine, NodeId, Scores, TypeId};
use agent_retrieve::{Ranking, RetrieveError};

/// Minimum probability of a routed category; does not apply to the most probable one. On training
/// and validation queries of three bases, the mean reciprocal rank is the same as with 0.01; from
/// 0.05 on, recall on biomed falls.
const MIN_PROBABILITY: f32 = 0.03;
/// The constant added to ranks in reciprocal rank fusion.
const RANK_OFFSET: f32 = 60.0;
/// The constant added to ranks when word search and vector search are mixed into the ranking of a
/// member.
const MIXED_RANK_OFFSET: f32 = 10.0;
/// Share of word search in the ranking of a member. Chosen on freely worded validation queries and
/// on topics as people type them: docs/lab/2026-11-28-topics.md.
const WORDS_SHARE: f32 = 0.2;
/// Share of word search for a query of at most [`SHORT`] words, which is mostly a list of words.
const WORDS_SHARE_SHORT: f32 = 0.5;
/// Maximum number of words of a short query.
const SHORT: usize = 9;
/// Share of vector search in the ranking of a member, if the base has a sentence encoder. The share
/// of word search applies to the remainder.
const MEANING_SHARE: f32 = 0.2;
/// Share of vector search for a short query.
const MEANING_SHARE_SHORT: f32 = 0.3;

/// Selects the categories that answer a query: returns pairs of category index and probability,
/// most probable first, ties by ascending index. At least one if there are any.
pub fn select_categories(probabilities: &[f32], fusion: Fusion) -> Vec<(usize, f32)> {
    let mut order: Vec<(usize, f32)> = probabilities.iter().copied().enumerate().collect();
    order.sort_by(by_probability);
    order.truncate(fusion.max_categories.max(1));
    let keep = 1 + order.iter().skip(1).take_while(|pair| pair.1 >= MIN_PROBABILITY).count();
    order.truncate(keep);
    order
}

/// Orders pairs of category index and probability by descending probability, ties by ascending
/// index.
fn by_probability(a: &(usize, f32), b: &(usize, f32)) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// Returns, for each member, the categories that answer a query, as pairs of category index and
/// probability, most probable first. `named` is the category that a language model names, with its
/// probability; a member that has the category mixes it in, all others ignore it.
pub fn routes(
    members: &[Member],
    features: &Features,
    named: Option<(usize, f32)>,
) -> Vec<Vec<(usize, f32)>> {
    let of_member = |member: &Member| {
        let probabilities = member.router.probabilities(features);
        let routed = select_categories(&probabilities, member.fusion);
        let place = |named: usize| member.categories.iter().position(|&own| own == named);
        let own = named.and_then(|(at, sure)| Some((place(at)?, sure)));
        let routed = match own {
            Some(named) => mix_in(&probabilities, &routed, named),
            None => routed,
        };
        let place = |(at, probability)| Some((*member.categories.get(at)?, probability));
        routed.into_iter().filter_map(place).collect()
    };
    members.iter().map(of_member).collect()
}

/// Returns all routed categories with their mean probability over members (0 where a member does
/// not route to the category), most probable first, ties by ascending index.
pub fn merged_routes(routes: &[Vec<(usize, f32)>]) -> Vec<(usize, f32)> {
    if let [only] = routes {
        return only.clone();
    }
    let mut sums: BTreeMap<usize, f32> = BTreeMap::new();
    for &(at, probability) in routes.iter().flatten() {
        *sums.entry(at).or_default() += probability / routes.len() as f32;
    }
    let mut merged: Vec<(usize, f32)> = sums.into_iter().collect();
    merged.sort_by(by_probability);
    merged
}

/// Adds the category that a language model names to the routed ones, and gives each category the
/// mean of its probabilities by router and model; most probable first, ties by ascending index. The
/// rest of the model's probability is distributed over the other categories in proportion to the
/// router's probabilities. All routed categories stay, so that a wrong category removes no ranking.
fn mix_in(
    probabilities: &[f32],
    routed: &[(usize, f32)],
    named: (usize, f32),
) -> Vec<(usize, f32)> {
    let (chosen, sure) = named;
    let of_router = |at: usize| probabilities.get(at).copied().unwrap_or(0.0);
    let others = (1.0 - of_router(chosen)).max(f32::MIN_POSITIVE);
    let of_model = |at: usize| match at == chosen {
        true => sure,
        false => (1.0 - sure) * of_router(at) / others,
    };
    let mut places: Vec<usize> = routed.iter().map(|&(at, _)| at).collect();
    if !places.contains(&chosen) {
        places.push(chosen);
    }
    let mean = |at: usize| (at, (of_router(at) + of_model(at)) / 2.0);
    let mut mixed: Vec<(usize, f32)> = places.into_iter().map(mean).collect();
    mixed.sort_by(by_probability);
    mixed
}

/// Fuses rankings, each given with the probability of its category: a node's score is the sum of
/// its scores in the rankings, weighted by these probabilities.
pub fn fuse(rankings: &[(f32, &Ranking)], fusion: Fusion) -> Ranking {
    let mut fused = Scores::default();
    for &(probability, ranking) in rankings {
        let scores = Scores::new(ranking.clone());
        let largest = if fusion.normalized { scores.largest().max(f32::MIN_POSITIVE) } else { 1.0 };
        let weighted = scores.map(|_, score| score.max(0.0) / largest * probability);
        fused = fused.combine(&weighted, Combine::Sum);
    }
    fused.ranking()
}

/// Settings by which a member of a bundle joins the rankings of its categories.
#[derive(Clone, Copy, Debug)]
pub struct JoinSettings<'a> {
    /// Maximum number of categories, and how their scores are joined.
    pub fusion: Fusion,
    /// The learned re-ranker, if the member has one; used only if `fusion.ordered` is set.
    pub reranker: Option<&'a Reranker>,
}

impl<'a> JoinSettings<'a> {
    /// Returns the settings of a member of a bundle.
    pub fn for_member(member: &'a Member) -> Self {
        Self { fusion: member.fusion, reranker: member.reranker.as_ref() }
    }

    /// Returns the learned re-ranker if `fusion.ordered` is set.
    fn order(&self) -> Option<&'a Reranker> {
        self.reranker.filter(|_| self.fusion.ordered)
    }
}

/// The rankings that one member of a bundle joins, with the settings for joining them.
#[derive(Clone, Debug)]
pub struct MemberRankings<'a> {
    /// Settings for joining the rankings.
    pub settings: JoinSettings<'a>,
    /// The rankings of the routed categories, each with the category's probability.
    pub rankings: Vec<(f32, &'a Ranking)>,
}

/// Collects the rankings of the categories to which each member routes; `ranking` returns the
/// ranking of a category by index, `None` to leave the category out.
pub fn parts<'a>(
    members: &'a [Member],
    routes: &[Vec<(usize, f32)>],
    ranking: impl Fn(usize) -> Option<&'a Ranking>,
) -> Vec<MemberRankings<'a>> {
    let part = |(member, routed): (&'a Member, &Vec<(usize, f32)>)| {
        let ranked =
            routed.iter().filter_map(|&(at, probability)| Some((probability, ranking(at)?)));
        MemberRankings { settings: JoinSettings::for_member(member), rankings: ranked.collect() }
    };
    members.iter().zip(routes).map(part).collect()
}

/// Nodes that word search and vector search find for a query, best first.
struct SearchRankings {
    /// Nodes from word search; empty if no member uses it.
    words: Ranking,
    /// Nodes from vector search.
    meaning: Ranking,
    /// Whether the query has at most [`SHORT`] words.
    is_short: bool,
    /// Whether the query names a node that word search does not cover, so that word search ignores
    /// a part of the query.
    is_partial: bool,
}

impl SearchRankings {
    /// Returns the shares of word search and of vector search in the ranking of a member.
    fn shares(&self, fusion: Fusion) -> [f32; 2] {
        let (words, meaning) = match self.is_short {
            true => (WORDS_SHARE_SHORT, MEANING_SHARE_SHORT),
            false => (WORDS_SHARE, MEANING_SHARE),
        };
        let meaning = if fusion.meaning { meaning } else { 0.0 };
        let has_words = fusion.words && !self.is_partial;
        [if has_words { words * (1.0 - meaning) } else { 0.0 }, meaning]
    }
}

/// Whether a query has a marked name all of whose nodes have a type that is neither a candidate
/// type nor linked to one, such as the institution of a paper's author. Word search does not cover
/// such names: it searches only documents and names of neighbours.
fn names_far_node(base: &IndexedBase, query: &str) -> bool {
    let candidates = base.kb.candidate_types();
    let mut near: BTreeSet<TypeId> = candidates.iter().copied().collect();
    for tuple in base.kb.tuples() {
        for (one, other) in [(tuple.source, tuple.target), (tuple.target, tuple.source)] {
            if candidates.contains(&one) {
                near.insert(other);
            }
        }
    }
    let is_far = |node: &NodeId| !near.contains(&base.kb.node_type(*node));
    let marked = base.entities.exact_mentions(query).into_iter().filter(|mention| mention.marked);
    near.len() < base.kb.types().len() && marked.into_iter().any(|m| m.nodes.iter().all(is_far))
}

/// Fuses the rankings of one member, applies its re-ranker, if any, and mixes in word search and
/// vector search as the fusion settings require. Also returns the node features that the re-ranker
/// used.
fn ranked(
    base: &IndexedBase,
    found: &SearchRankings,
    query: Option<&QueryFeatures>,
    part: &MemberRankings<'_>,
) -> Result<(Ranking, Option<NodeFeatures>), IndexError> {
    let fusion = part.settings.fusion;
    let fused = fuse(&part.rankings, fusion);
    let (ordered, features) = match part.settings.order().zip(query) {
        Some((order, query)) => {
            let features = node_features(base, query, &part.rankings)?;
            (order.apply(&features, &fused), Some(features))
        }
        None => (fused, None),
    };
    let [words, meaning] = found.shares(fusion);
    let ranking = match words + meaning > 0.0 {
        true => mixed(ordered, [(words, &found.words), (meaning, &found.meaning)]),
        false => ordered,
    };
    Ok((ranking, features))
}

/// Mixes other rankings into the ranking of a member. Programs, router and re-ranker have learned
/// from the wording of the training queries; word search and vector search work as well with any
/// other wording. Nodes are ordered by the sum of `1 / (10 + rank)` over all rankings, each
/// weighted by its share; the member's ranking has the rest of the weight. Ties by ascending id.
/// The score at each rank stays, and no node is added or removed.
fn mixed(ranking: Ranking, others: [(f32, &Ranking); 2]) -> Ranking {
    let nodes: BTreeSet<NodeId> = ranking.iter().map(|pair| pair.0).collect();
    let weighted = |share: f32, ranking: &Ranking| {
        let known = ranking.iter().map(|pair| pair.0).filter(|node| nodes.contains(node));
        let of = |(rank, node)| (node, share / (MIXED_RANK_OFFSET + rank));
        Scores::new((1u32..).map(|rank| rank as f32).zip(known).map(of).collect())
    };
    let rest = 1.0 - others.iter().map(|pair| pair.0).sum::<f32>();
    let others = others.into_iter().filter(|pair| pair.0 > 0.0);
    let mixed = others.fold(weighted(rest, &ranking), |sum, (share, other)| {
        sum.combine(&weighted(share, other), Combine::Sum)
    });
    let scores = ranking.iter().map(|pair| pair.1);
    mixed.ranking().into_iter().map(|pair| pair.0).zip(scores).collect()
}

/// Joins the rankings of members by reciprocal rank fusion. A node's score is the mean over the
/// members of `1 / (60 + rank)`, 0 for a member that lacks the node. Scores are scaled so that a
/// node at rank 1 of all members has the score 1. Best first, ties by ascending id. The ranking of
/// a single member is unchanged.
fn ensemble(mut rankings: Vec<Ranking>) -> Ranking {
    if rankings.len() < 2 {
        return rankings.pop().unwrap_or_default();
    }
    let n = rankings.len() as f32;
    let mut joined = Scores::default();
    for ranking in rankings {
        let share = |(rank, (node, _))| (node, (RANK_OFFSET + 1.0) / (RANK_OFFSET + rank) / n);
        let ranks = (1u16..=u16::MAX).map(f32::from);
        let shares = Scores::new(ranks.zip(ranking).map(share).collect());
        joined = joined.combine(&shares, Combine::Sum);
    }
    joined.ranking()
}

/// Joins the rankings of categories into one answer. Fuses and re-ranks the categories of each
/// member, joins the members, and reorders the tail. With phrasings, the answers of a plain
/// question come first. Nodes that fulfil the conditions of the query precede all others.
///
/// # Errors
/// Errors of the indexes.
pub fn join(
    base: &IndexedBase,
    query: &str,
    parts: &[MemberRankings<'_>],
    phrasings: Option<&Phrasings>,
) -> Result<Ranking, RetrieveError> {
    let settings: Vec<JoinSettings<'_>> = parts.iter().map(|part| part.settings).collect();
    let conditions = Conditions::read(base, query);
    let context = QueryContext::collect(base, query, conditions, &settings, phrasings)?;
    Ok(join_with_features(base, parts, context)?.ranking)
}

/// Parts of an answer that depend only on the query, not on the programs.
pub(super) struct QueryContext {
    /// Nodes found by word search and by vector search.
    found: SearchRankings,
    /// Features of the query, if a member uses a re-ranker.
    features: Option<QueryFeatures>,
    /// The conditions that the query states.
    conditions: Conditions,
    /// The reading of the query, without its conditions, as a plain question; `None` if it is not
    /// plain.
    reading: Option<Reading>,
    /// The types that the query asks for, ascending; empty if the query names none.
    asked: Vec<TypeId>,
}

impl QueryContext {
    pub(super) fn collect(
        base: &IndexedBase,
        query: &str,
        conditions: Conditions,
        settings: &[JoinSettings<'_>],
        phrasings: Option<&Phrasings>,
    ) -> Result<Self, IndexError> {
        let fusions = || settings.iter().map(|settings| settings.fusion);
        let is_ordered = settings.iter().any(|settings| settings.order().is_some());
        let has_words = is_ordered || fusions().any(|fusion| fusion.words);
        let (wanted, asked) = (&conditions.wanted, asked_types(base, query));
        let words = match has_words {
            true => search_words(base, &conditions, &asked),
            false => Ranking::new(),
        };
        let meaning = tail::search_by_meaning(base, wanted)?;
        let (reading, likely) = phrasings
            .map(|phrasings| read_or_guess(base, &conditions, phrasings))
            .unwrap_or_default();
        let near = if fusions().any(|fusion| fusion.meaning) { &*meaning } else { &[] };
        let features = || QueryFeatures::new(base, wanted, [&words, near], likely);
        let features = is_ordered.then(features).transpose()?;
        let is_short = name_words(query).nth(SHORT).is_none();
        let is_partial = names_far_node(base, wanted);
        let found = SearchRankings { words, meaning, is_short, is_partial };
        Ok(Self { found, features, conditions, reading, asked })
    }

    /// Removes the conditions of the query, because those in the model's reading of the query
    /// replace them. Keeps them if the query is a plain question.
    pub(super) fn without_conditions(mut self) -> Self {
        if self.reading.is_none() {
            self.conditions = self.conditions.cleared();
        }
        self
    }
}

/// Computes the features of a query for re-rankers, as when the query is answered, but runs no
/// programs. `None` for a plain question, because no re-ranker chooses its answers.
///
/// # Errors
/// Errors of the embedder.
pub fn query_features(
    base: &IndexedBase,
    query: &str,
    phrasings: &Phrasings,
) -> Result<Option<QueryFeatures>, IndexError> {
    let conditions = Conditions::read(base, query);
    let (reading, likely) = read_or_guess(base, &conditions, phrasings);
    if reading.is_some() {
        return Ok(None);
    }
    let wanted = &conditions.wanted;
    let near = match base.has_encoder() {
        true => tail::search_by_meaning(base, wanted)?,
        false => Ranking::new(),
    };
    let words = search_words(base, &conditions, &asked_types(base, query));
    QueryFeatures::new(base, wanted, [&words, &near], likely).map(Some)
}

/// A joined ranking, the node features behind it, and the reading and conditions of the query.
pub(super) struct JoinedAnswer {
    pub(super) ranking: Ranking,
    /// Node features by member; `None` for a member without re-ranker.
    pub(super) features: Vec<Option<NodeFeatures>>,
    /// The reading of the query as a plain question; `None` if it is not plain.
    pub(super) reading: Option<Reading>,
    /// The conditions that the query states.
    pub(super) conditions: Conditions,
    /// The types that the query asks for, ascending; empty if the query names none.
    pub(super) asked: Vec<TypeId>,
}

/// Joins rankings as [`join`] does, with a [`QueryContext`] that was collected before.
pub(super) fn join_with_features(
    base: &IndexedBase,
    parts: &[MemberRankings<'_>],
    context: QueryContext,
) -> Result<JoinedAnswer, RetrieveError> {
    let QueryContext { found, features, conditions, reading, asked } = context;
    let of_parts = parts.iter().map(|part| ranked(base, &found, features.as_ref(), part));
    let (rankings, features) =
        of_parts.collect::<Result<Vec<_>, IndexError>>()?.into_iter().unzip();
    let n = parts.len() as f32;
    let all = parts.iter().flat_map(|part| &part.rankings);
    let all: Vec<(f32, &Ranking)> = all.map(|&(p, ranking)| (p / n, ranking)).collect();
    let ordered = tail::reorder(&all, &found.meaning, ensemble(rankings));
    let ranking = match &reading {
        Some(reading) => reading.apply(&ordered),
        None if asked.is_empty() => ordered,
        None => {
            let of_type = first_of(ordered, |node| asked.contains(&base.kb.node_type(node)));
            connected_first(base, &conditions.wanted, &asked, of_type)
        }
    };
    let ranking = conditions.apply(base, conditions.completed(base, ranking, &asked));
    Ok(JoinedAnswer { ranking, features, reading, conditions, asked })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::router::Router;

    fn down(nodes: &[u32]) -> Ranking {
        (1u8..).zip(nodes).map(|(rank, &node)| (node, 1.0 / f32::from(rank))).collect()
    }

    /// A member whose router always prefers these categories, in this order.
    fn member(categories: &[usize], weights: &[f32]) -> Member {
        let weights = [("always".to_owned(), weights.to_vec())].into();
        Member {
            categories: categories.to_vec(),
            router: Router { n_categories: categories.len(), weights },
            fusion: Fusion::of_scores(categories.len(), true),
            reranker: None,
        }
    }

    #[test]
    fn word_search_and_vector_search_move_nodes_but_add_none() {
        let ranking = down(&[1, 2, 3, 4]);
        let found = |is_short| SearchRankings {
            words: down(&[7, 4]),
            meaning: down(&[3, 8]),
            is_short,
            is_partial: false,
        };
        let order = |is_short, words, meaning| {
            let fusion =
                Fusion { max_categories: 1, normalized: true, ordered: false, words, meaning };
            let found = found(is_short);
            let [words, meaning] = found.shares(fusion);
            let mixed = mixed(ranking.clone(), [(words, &found.words), (meaning, &found.meaning)]);
            assert!(mixed.iter().zip(&ranking).all(|(a, b)| a.1 == b.1), "the scores stay");
            mixed.iter().map(|pair| pair.0).collect::<Vec<_>>()
        };
        assert_eq!(order(true, false, false), [1, 2, 3, 4]);
        // Of the nodes of the ranking, word search finds 4 alone and vector search 3 alone.
        assert_eq!(order(true, true, false), [4, 1, 2, 3]);
        assert_eq!(order(true, true, true), [4, 3, 1, 2]);
        assert_eq!(order(false, false, true), [3, 1, 2, 4]);
        assert_eq!(order(false, true, true), [3, 4, 1, 2]);
    }

    #[test]
    fn an_ensemble_ranks_by_the_mean_of_reciprocal_ranks() {
        let only = down(&[9, 4, 7]);
        assert_eq!(ensemble(vec![only.clone()]), only);
        let both = ensemble(vec![only, down(&[9, 7, 5])]);
        assert_eq!(both[0], (9, 1.0), "first with both");
        // 4 and 5 are known to one member each: second with it, and third.
        let nodes: Vec<u32> = both.iter().map(|pair| pair.0).collect();
        assert_eq!(nodes, [9, 7, 4, 5]);
        assert_eq!(both[2].1, 61.0 / 62.0 / 2.0);
        assert_eq!(ensemble(vec![down(&[8]), down(&[3])]), [(3, 0.5), (8, 0.5)]);
        assert_eq!(ensemble(Vec::new()), []);
    }

    #[test]
    fn every_category_is_asked_once_with_the_mean_of_what_members_hold_it_for() {
        let members = [member(&[0, 1], &[0.0, 0.0]), member(&[2, 0], &[0.0, 0.0])];
        let features = vec![("always".to_owned(), 1.0)];
        let of = |named| routes(&members, &features, named);
        assert_eq!(of(None), [vec![(0, 0.5), (1, 0.5)], vec![(2, 0.5), (0, 0.5)]]);
        assert_eq!(merged_routes(&of(None)), [(0, 0.5), (1, 0.25), (2, 0.25)]);
        // A model names a category of the second member: the first asks as it does.
        let named = of(Some((2, 1.0)));
        assert_eq!(named, [vec![(0, 0.5), (1, 0.5)], vec![(2, 0.75), (0, 0.25)]]);
        let rankings = [down(&[1]), down(&[2]), down(&[3])];
        let parts = parts(&members, &named, |at| rankings.get(at));
        assert_eq!(parts[1].rankings, [(0.75, &rankings[2]), (0.25, &rankings[0])]);
    }
}
