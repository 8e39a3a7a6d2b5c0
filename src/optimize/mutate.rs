//! Mutation of plans: the small changes by which the search actor improves a program.

use rand::{RngExt, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

use crate::optimize::{
    discover::Walk,
    plan::{Anchors, Branch, Plan},
};

/// Branches of a plan at most.
const MAX_BRANCHES: usize = 3;
/// Walks that may be added, those most informative about the category's queries.
const ADDED_WALKS: usize = 8;

/// A change of a plan in words, with the changed plan; none when the drawn change does not apply.
/// One in six crosses the plan with one of `others`, the plans of all categories.
pub fn mutate(
    plan: &Plan,
    walks: &[Walk],
    others: &[Plan],
    queries: &[usize],
    rng: &mut ChaCha8Rng,
) -> Option<(Plan, String)> {
    let mut changed = plan.clone();
    let what = match rng.random_range(0..6) {
        0 | 1 => {
            let branch =
                changed.branches.get_mut(rng.random_range(0..plan.branches.len().max(1)))?;
            let others = [Anchors::Named, Anchors::Described, Anchors::Either];
            let others: Vec<Anchors> =
                others.into_iter().filter(|&anchors| anchors != branch.anchors).collect();
            branch.anchors = *others.choose(rng)?;
            format!("find anchors of a walk otherwise: {:?}", branch.anchors).to_lowercase()
        }
        2 => {
            let branch =
                changed.branches.get_mut(rng.random_range(0..plan.branches.len().max(1)))?;
            branch.sums = !branch.sums;
            let how = if branch.sums { "sum" } else { "largest" };
            format!("carry the {how} of scores along a walk")
        }
        5 => {
            changed.branches.push(others_branch(plan, others, rng)?);
            if changed.branches.len() > MAX_BRANCHES {
                changed.branches.remove(rng.random_range(0..MAX_BRANCHES));
            }
            "take a walk of another category".to_owned()
        }
        3 if plan.branches.len() > 1 => {
            changed.branches.remove(rng.random_range(0..plan.branches.len()));
            "drop a walk".to_owned()
        }
        _ => {
            let same_way = |walk: &Walk| {
                let taken =
                    |branch: &Branch| branch.anchor == walk.anchor && branch.steps == walk.steps;
                plan.target == Some(walk.target) && !plan.branches.iter().any(taken)
            };
            let mut ranked: Vec<(f64, &Walk)> = walks
                .iter()
                .filter(|walk| same_way(walk))
                .map(|walk| {
                    let share = |query| walk.shares.get(query).copied().unwrap_or(0.0);
                    (
                        queries.iter().map(|query| f64::from(share(query))).sum::<f64>()
                            * walk.bits,
                        walk,
                    )
                })
                .collect();
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
            ranked.truncate(ADDED_WALKS);
            let (_, walk) = ranked.choose(rng)?;
            if changed.branches.len() == MAX_BRANCHES {
                changed.branches.remove(rng.random_range(0..MAX_BRANCHES));
            }
            changed.branches.push(walk.branch());
            "add a walk".to_owned()
        }
    };
    (changed != *plan).then_some((changed, what))
}

/// A branch of another plan that leads to the same type and that this one lacks.
fn others_branch(plan: &Plan, others: &[Plan], rng: &mut ChaCha8Rng) -> Option<Branch> {
    let branches: Vec<&Branch> = others
        .iter()
        .filter(|other| other.target == plan.target && *other != plan)
        .flat_map(|other| &other.branches)
        .filter(|branch| !plan.branches.contains(branch))
        .collect();
    branches.choose(rng).copied().cloned()
}
