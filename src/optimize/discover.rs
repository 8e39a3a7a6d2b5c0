//! Category discovery: selects the plans that together answer the training queries best.
//!
//! There are two selections, both by facility location: the value of a set of plans is the sum over
//! queries of the value of the best plan in the set. Plans are added greedily, which reaches at
//! least 1 - 1/e of the best value (Nemhauser, Wolsey & Fisher 1978). The first selection maximises
//! information and chooses the plans to run; the second maximises reciprocal ranks and chooses the
//! plans to keep.

use std::collections::{BTreeMap, HashMap};

use crate::{
    mine::{AnswerBits, MinedPattern, Pattern, Step},
    plan::{Branch, LinkedBy, Plan},
    trial::largest,
};
use agent_kb::TypeId;

/// A pair of metapaths counts for a query only if each of the two reaches more than this weighted
/// share of the query's answers.
const MIN_PAIR_SHARE: f32 = 0.1;
/// Maximum number of metapaths that are combined in pairs; those with the largest gain are used.
const MAX_PAIRED_METAPATHS: usize = 400;
/// A branch uses only one source of linked entities (named or described) if the gain of this source
/// is more than this multiple of the other's gain.
const CLEAR_SOURCE: f64 = 2.0;

/// A mined metapath, merged over both sources of linked entities (named and described).
pub struct Metapath {
    /// Type of the linked entities at which the metapath starts.
    pub start: TypeId,
    /// The one to three steps from a linked entity to an answer.
    pub steps: Vec<Step>,
    /// Type of the answers at which the metapath ends.
    pub target: TypeId,
    /// Information, in bits, gained about a node by knowing that the metapath reaches it; the
    /// larger value of both sources. See [`MinedPattern::bits`].
    pub bits: f64,
    /// Weighted share of each query's answers that the metapath reaches, by position of the query;
    /// see [`MinedPattern::coverage`].
    pub shares: HashMap<usize, f32>,
    /// By position of the query: the answers that the metapath reaches from named entities, and
    /// those from described entities.
    pub reached: HashMap<usize, [AnswerBits; 2]>,
    /// Gains from named entities, and from described ones, in the order of
    /// [`LinkSource`](crate::mine::LinkSource).
    gains: [f64; 2],
}

impl Metapath {
    /// Returns a plan's branch along this metapath. The branch uses the source of linked entities
    /// (named or described) with clearly more gain, or both sources if their gains are similar.
    pub fn branch(&self) -> Branch {
        let linked = match self.gains {
            [named, described] if named > described * CLEAR_SOURCE => LinkedBy::Named,
            [named, described] if described > named * CLEAR_SOURCE => LinkedBy::Described,
            _ => LinkedBy::Either,
        };
        let (start, steps) = (self.start, self.steps.clone());
        Branch { linked, start, sums: steps.len() == 1, steps }
    }
}

/// Merges patterns that differ only in the source of linked entities into metapaths, and sorts
/// these by the larger gain of both sources, descending.
pub fn metapaths(mined: &[MinedPattern]) -> Vec<Metapath> {
    let mut metapaths: BTreeMap<(TypeId, TypeId, &[Step]), Metapath> = BTreeMap::new();
    for MinedPattern { pattern, coverage, reached, bits, gain } in mined {
        let Pattern { start, steps, target, .. } = pattern;
        let metapath = metapaths.entry((*target, *start, steps)).or_insert_with(|| Metapath {
            start: *start,
            steps: steps.clone(),
            target: *target,
            bits: 0.0,
            shares: HashMap::new(),
            reached: HashMap::new(),
            gains: [0.0; 2],
        });
        metapath.bits = metapath.bits.max(*bits);
        let source = pattern.source as usize;
        metapath.gains[source] = *gain;
        for &(query, share) in coverage {
            let best = metapath.shares.entry(query).or_default();
            *best = best.max(share);
        }
        for &(query, answers) in reached {
            metapath.reached.entry(query).or_default()[source] |= answers;
        }
    }
    let mut metapaths: Vec<Metapath> = metapaths.into_values().collect();
    let gain = |metapath: &Metapath| metapath.gains[0].max(metapath.gains[1]);
    metapaths.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    metapaths
}

/// Value of a plan on the queries where it has one: pairs of a query's position, ascending, and the
/// value, such as bits of information or a reciprocal rank.
pub type Worth = Vec<(usize, f64)>;

/// Selects at most `max_plans` plans to run that together give the most information about the
/// answers. Returns each plan with its value per query, in bits. Candidates are plans with one
/// metapath, and plans with two metapaths of the same target type that both reach answers of at
/// least `min_support` queries.
pub fn shortlist(
    metapaths: &[Metapath],
    n_queries: usize,
    min_support: usize,
    max_plans: usize,
) -> Vec<(Plan, Worth)> {
    let mut plans: Vec<(Plan, Worth)> = Vec::new();
    for (at, first) in metapaths.iter().enumerate() {
        let plan = Plan { target: Some(first.target), branches: vec![first.branch()] };
        let worth = |(&query, &share): (&usize, &f32)| (query, f64::from(share) * first.bits);
        let mut worth: Worth = first.shares.iter().map(worth).collect();
        worth.sort_unstable_by_key(|pair| pair.0);
        plans.push((plan, worth));
        for second in metapaths.iter().take(at.min(MAX_PAIRED_METAPATHS)) {
            if second.target != first.target || at >= MAX_PAIRED_METAPATHS {
                continue;
            }
            let mut worth: Worth = Vec::new();
            for (&query, &share) in &first.shares {
                let both = second.shares.get(&query).map_or(0.0, |other| other.min(share));
                if both > MIN_PAIR_SHARE {
                    worth.push((query, f64::from(both) * (first.bits + second.bits)));
                }
            }
            if worth.len() >= min_support {
                worth.sort_unstable_by_key(|pair| pair.0);
                let branches = vec![second.branch(), first.branch()];
                plans.push((Plan { target: Some(first.target), branches }, worth));
            }
        }
    }
    let worths: Vec<&Worth> = plans.iter().map(|(_, worth)| worth).collect();
    let chosen = cover(&worths, n_queries, max_plans, 0.0);
    chosen.into_iter().map(|at| plans[at].clone()).collect()
}

/// The scores that the metapaths of a plan would have on some queries if all reached nodes were
/// ranked perfectly. A program can exceed these scores, because text search finds further nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Number of queries over which the scores are averaged.
    pub n: usize,
    /// Mean share of a query's answers that any metapath of the plan reaches.
    pub recall: f64,
    /// Best possible mean reciprocal rank: the share of queries with at least one reached answer.
    pub mrr: f64,
}

/// Returns the upper bound of a plan's scores on queries, each given as its position and its
/// [`mined_answer_count`](crate::mine::mined_answer_count). A branch whose metapath was not mined
/// reaches no node. Without queries, all scores are 0.
pub fn bound(plan: &Plan, metapaths: &[Metapath], queries: &[(usize, usize)]) -> Bound {
    let matches = |branch: &Branch, metapath: &Metapath| {
        (metapath.start, Some(metapath.target)) == (branch.start, plan.target)
            && metapath.steps == branch.steps
    };
    let way = |branch: &Branch| {
        Some((branch.linked, metapaths.iter().find(|metapath| matches(branch, metapath))?))
    };
    let ways: Vec<(LinkedBy, &Metapath)> = plan.branches.iter().filter_map(way).collect();
    let (mut recall, mut mrr) = (0.0, 0.0);
    for &(query, n_answers) in queries {
        let reached = ways.iter().fold(0, |reached: AnswerBits, (linked, metapath)| {
            let [named, described] = metapath.reached.get(&query).copied().unwrap_or_default();
            reached
                | match linked {
                    LinkedBy::Named => named,
                    LinkedBy::Described => described,
                    LinkedBy::Either => named | described,
                }
        });
        recall += f64::from(reached.count_ones()) / n_answers.max(1) as f64;
        mrr += if reached == 0 { 0.0 } else { 1.0 };
    }
    let n = queries.len();
    Bound { n, recall: recall / n.max(1) as f64, mrr: mrr / n.max(1) as f64 }
}

/// Selects options by greedy facility location and returns their positions in the order of
/// selection. Each option lists pairs of a query's position and its value on this query. The next
/// option is the option that adds most to the sum over queries of the best selected value; ties go
/// to the first option. Stops after `max_options` options, or when the next option adds no more
/// than `min_gain`.
pub fn cover(
    options: &[impl AsRef<[(usize, f64)]>],
    n_queries: usize,
    max_options: usize,
    min_gain: f64,
) -> Vec<usize> {
    let mut best = vec![0.0f64; n_queries];
    let mut chosen = Vec::new();
    while chosen.len() < max_options {
        let gains = options.iter().map(|option| {
            option
                .as_ref()
                .iter()
                .map(|&(query, worth)| (worth - best[query]).max(0.0))
                .sum::<f64>()
        });
        let Some((_, at)) = largest(gains.zip(0..)).filter(|next| next.0 > min_gain) else { break };
        for &(query, worth) in options[at].as_ref() {
            best[query] = best[query].max(worth);
        }
        chosen.push(at);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mine::LinkSource;
    use crate::mine::Pattern;
    use agent_kb::{Direction, RelationId};

    /// Creates a mined metapath from brands to products by relation 0. `reached` has the positions
    /// of queries with the answers that the metapath reaches.
    fn mined(source: LinkSource, reached: &[(usize, AnswerBits)]) -> MinedPattern {
        let steps = vec![Step { relation: RelationId(0), direction: Direction::In }];
        let pattern = Pattern { source, start: TypeId(1), steps, target: TypeId(0) };
        let coverage = reached.iter().map(|&(query, _)| (query, 0.5)).collect();
        MinedPattern { pattern, coverage, reached: reached.to_vec(), bits: 1.0, gain: 1.0 }
    }

    #[test]
    fn a_bound_counts_the_answers_that_any_metapath_reaches() {
        let mined = [
            mined(LinkSource::Named, &[(0, 0b01), (1, 0b1)]),
            mined(LinkSource::Described, &[(0, 0b10)]),
        ];
        let metapaths = metapaths(&mined);
        let mut plan = Plan { target: Some(TypeId(0)), branches: vec![metapaths[0].branch()] };
        let queries = [(0, 4), (1, 1), (2, 1), (3, 2)];
        assert_eq!(plan.branches[0].linked, LinkedBy::Either);
        assert_eq!(bound(&plan, &metapaths, &queries), Bound { n: 4, recall: 0.375, mrr: 0.5 });
        plan.branches[0].linked = LinkedBy::Described;
        assert_eq!(bound(&plan, &metapaths, &queries), Bound { n: 4, recall: 0.0625, mrr: 0.25 });
        plan.target = Some(TypeId(1));
        assert_eq!(bound(&plan, &metapaths, &queries), Bound { n: 4, recall: 0.0, mrr: 0.0 });
        assert_eq!(bound(&plan, &metapaths, &[]), Bound { n: 0, recall: 0.0, mrr: 0.0 });
    }

    #[test]
    fn options_are_taken_by_what_they_add() {
        let options: [&[(usize, f64)]; 4] =
            [&[(0, 1.0), (1, 1.0)], &[(1, 1.0), (2, 0.9)], &[(2, 1.0)], &[(0, 0.5)]];
        assert_eq!(cover(&options, 3, 9, 0.0), [0, 2]);
        assert_eq!(cover(&options, 3, 1, 0.0), [0]);
        assert_eq!(cover(&options, 3, 9, 1.0), [0]);
        assert_eq!(cover(&Vec::<Worth>::new(), 0, 9, 0.0), [0usize; 0]);
    }
}
