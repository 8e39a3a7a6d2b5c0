//! From the rankings of categories to one answer.
//!
//! ```text
//! member     rankings of its categories -> fused -> ordered by its re-ranker
//! ensemble   rankings of its members -> joined by reciprocal rank fusion (Cormack et al. 2009)
//! answer     tail by expected reciprocal rank -> the answers of a plain question first
//! ```
//!
//! Must not know: how programs run, which answers are right.

use std::{cmp::Ordering, collections::BTreeMap};

use crate::{
    bundle::{
        Fusion, Member,
        reading::{Phrasings, Reading, read},
        reranker::{NodeFeatures, QueryFeatures, Reranker, node_features},
        router::Features,
    },
    tail,
};
use agent_index::{IndexError, IndexedBase};
use agent_kb::{Combine, Scores};
use agent_retrieve::{Ranking, RetrieveError};

/// Probability below which a category is not asked. On the training and validation queries of three
/// bases the mean reciprocal rank is as with 0.01 up to here; from 0.05 on biomed loses recall.
const MIN_PROBABILITY: f32 = 0.03;
/// What is added to ranks where rankings of members are joined.
const RANK_OFFSET: f32 = 60.0;

/// The categories that answer a query with their probabilities, most probable first.
pub fn chosen_categories(probabilities: &[f32], fusion: Fusion) -> Vec<(usize, f32)> {
    let mut order: Vec<(usize, f32)> = probabilities.iter().copied().enumerate().collect();
    order.sort_by(most_probable);
    order.truncate(fusion.most.max(1));
    let keep = 1 + order.iter().skip(1).take_while(|pair| pair.1 >= MIN_PROBABILITY).count();
    order.truncate(keep);
    order
}

/// The more probable first, ties to the smaller position.
fn most_probable(a: &(usize, f32), b: &(usize, f32)) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// Where a query goes: by member, its categories that answer with their probabilities, most probable
/// first. A category that a model names with its probability is mixed in (`mixed`) where it is one
/// of the member's.
pub fn routes(
    members: &[Member],
    features: &Features,
    named: Option<(usize, f32)>,
) -> Vec<Vec<(usize, f32)>> {
    let of_member = |member: &Member| {
        let probabilities = member.router.probabilities(features);
        let routed = chosen_categories(&probabilities, member.fusion);
        let place = |named: usize| member.categories.iter().position(|&own| own == named);
        let own = named.and_then(|(at, sure)| Some((place(at)?, sure)));
        let routed = match own {
            Some(named) => mixed(&probabilities, &routed, named),
            None => routed,
        };
        let place = |(at, probability)| Some((*member.categories.get(at)?, probability));
        routed.into_iter().filter_map(place).collect()
    };
    members.iter().map(of_member).collect()
}

/// All categories that answer, each once, with the mean of what the members hold it for, most
/// probable first, ties to the smaller position.
pub fn asked(routes: &[Vec<(usize, f32)>]) -> Vec<(usize, f32)> {
    if let [only] = routes {
        return only.clone();
    }
    let mut sums: BTreeMap<usize, f32> = BTreeMap::new();
    for &(at, probability) in routes.iter().flatten() {
        *sums.entry(at).or_default() += probability / routes.len() as f32;
    }
    let mut asked: Vec<(usize, f32)> = sums.into_iter().collect();
    asked.sort_by(most_probable);
    asked
}

/// The categories that a router asks and the one that a model names, each with the mean of what
/// router and model hold it for, most probable first, ties to the smaller position. What the model
/// leaves of its probability is shared by the other categories as the router shares its own.
/// Every category that the router asks stays, so that a wrong name adds answers and weight and
/// takes no ranking away.
fn mixed(probabilities: &[f32], routed: &[(usize, f32)], named: (usize, f32)) -> Vec<(usize, f32)> {
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
    mixed.sort_by(most_probable);
    mixed
}

/// Rankings of several categories joined: the sum of their scores times their probabilities.
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

/// How a member makes one ranking of those of its categories.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    /// How many categories answer, and how their scores are joined.
    pub fusion: Fusion,
    /// The learned re-ranker, where the fusion asks for it.
    pub reranker: Option<&'a Reranker>,
}

impl<'a> Joining<'a> {
    /// How a member of a bundle does.
    pub fn of(member: &'a Member) -> Self {
        Self { fusion: member.fusion, reranker: member.reranker.as_ref() }
    }

    /// The re-ranker, where there is one and the fusion asks for it.
    fn order(&self) -> Option<&'a Reranker> {
        self.reranker.filter(|_| self.fusion.ordered)
    }
}

/// What a member makes its ranking of.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// How it does.
    pub joining: Joining<'a>,
    /// The rankings of the categories that answer, with their probabilities.
    pub rankings: Vec<(f32, &'a Ranking)>,
}

/// What members make one answer of, where categories were asked so; `ranking` gives that of a
/// category.
pub fn parts<'a>(
    members: &'a [Member],
    routes: &[Vec<(usize, f32)>],
    ranking: impl Fn(usize) -> Option<&'a Ranking>,
) -> Vec<Part<'a>> {
    let part = |(member, routed): (&'a Member, &Vec<(usize, f32)>)| {
        let ranked =
            routed.iter().filter_map(|&(at, probability)| Some((probability, ranking(at)?)));
        Part { joining: Joining::of(member), rankings: ranked.collect() }
    };
    members.iter().zip(routes).map(part).collect()
}

/// What a member makes of the rankings of its categories, and its features if it has an order.
fn ranked(
    base: &IndexedBase,
    query: Option<&QueryFeatures>,
    part: &Part<'_>,
) -> Result<(Ranking, Option<NodeFeatures>), IndexError> {
    let fused = fuse(&part.rankings, part.joining.fusion);
    let Some((order, query)) = part.joining.order().zip(query) else { return Ok((fused, None)) };
    let features = node_features(base, query, &part.rankings)?;
    Ok((order.apply(&features, &fused), Some(features)))
}

/// The rankings of members joined by reciprocal rank fusion: the mean of `1 / (60 + rank)` over the
/// members, a node that one does not rank adding nothing for it, divided by what the first place
/// with all has; ties by ascending id. The ranking of a single member stays as it is.
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

/// The rankings of categories as one answer: those of every member fused and put in its order, the
/// members' joined, and the answers of a plain question before all others; without phrasings none is
/// read.
///
/// # Errors
/// Those of the indexes.
pub fn join(
    base: &IndexedBase,
    query: &str,
    parts: &[Part<'_>],
    phrasings: Option<&Phrasings>,
) -> Result<Ranking, RetrieveError> {
    let joinings: Vec<Joining<'_>> = parts.iter().map(|part| part.joining).collect();
    Ok(joined(base, parts, Unranked::of(base, query, &joinings, phrasings))?.ranking)
}

/// What a question gives without any ranking.
pub(super) struct Unranked {
    /// What search by meaning finds.
    meaning: Result<Ranking, IndexError>,
    /// What orders look at of the question, if a member has one.
    features: Option<Result<QueryFeatures, IndexError>>,
    /// How a plain question is read.
    reading: Option<Reading>,
}

impl Unranked {
    pub(super) fn of(
        base: &IndexedBase,
        query: &str,
        joinings: &[Joining<'_>],
        phrasings: Option<&Phrasings>,
    ) -> Self {
        let is_ordered = joinings.iter().any(|joining| joining.order().is_some());
        Self {
            meaning: tail::found(base, query),
            features: is_ordered.then(|| QueryFeatures::of(base, query)),
            reading: phrasings.and_then(|phrasings| read(base, query, phrasings)),
        }
    }
}

/// Rankings of several categories as one, and what it was made of.
pub(super) struct Joined {
    pub(super) ranking: Ranking,
    /// By member, what its order looks at, if it has one.
    pub(super) features: Vec<Option<NodeFeatures>>,
    /// How a plain question was read.
    pub(super) reading: Option<Reading>,
}

/// As [`join`], with what the answer was made of.
pub(super) fn joined(
    base: &IndexedBase,
    parts: &[Part<'_>],
    unranked: Unranked,
) -> Result<Joined, RetrieveError> {
    let of_query = unranked.features.transpose()?;
    let of_parts = parts.iter().map(|part| ranked(base, of_query.as_ref(), part));
    let (rankings, features) =
        of_parts.collect::<Result<Vec<_>, IndexError>>()?.into_iter().unzip();
    let n = parts.len() as f32;
    let all = parts.iter().flat_map(|part| &part.rankings);
    let all: Vec<(f32, &Ranking)> = all.map(|&(p, ranking)| (p / n, ranking)).collect();
    let ordered = tail::widened(&all, &unranked.meaning?, ensemble(rankings));
    let reading = unranked.reading;
    let ranking = match &reading {
        Some(reading) => reading.apply(&ordered),
        None => ordered,
    };
    Ok(Joined { ranking, features, reading })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::router::Router;

    fn down(nodes: &[u32]) -> Ranking {
        (1u8..).zip(nodes).map(|(rank, &node)| (node, 1.0 / f32::from(rank))).collect()
    }

    /// A member that holds its categories for right in this order, whatever is asked.
    fn member(categories: &[usize], weights: &[f32]) -> Member {
        let weights = [("always".to_owned(), weights.to_vec())].into();
        Member {
            categories: categories.to_vec(),
            router: Router { n_categories: categories.len(), weights },
            fusion: Fusion { most: categories.len(), normalized: true, ordered: false },
            reranker: None,
        }
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
        assert_eq!(asked(&of(None)), [(0, 0.5), (1, 0.25), (2, 0.25)]);
        // A model names a category of the second member: the first asks as it does.
        let named = of(Some((2, 1.0)));
        assert_eq!(named, [vec![(0, 0.5), (1, 0.5)], vec![(2, 0.75), (0, 0.25)]]);
        let rankings = [down(&[1]), down(&[2]), down(&[3])];
        let parts = parts(&members, &named, |at| rankings.get(at));
        assert_eq!(parts[1].rankings, [(0.75, &rankings[2]), (0.25, &rankings[0])]);
    }
}
