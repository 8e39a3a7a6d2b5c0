//! Mutation operators of the search actor, which change plans.
//!
//! An operator lists all plans that it can derive from a plan. The caller can thus skip plans that
//! were tried before, and an operator that does not apply costs no program run.

use crate::{
    discover::Metapath,
    plan::{Branch, LinkedBy, Plan},
};

/// Maximum number of branches of a plan.
const MAX_BRANCHES: usize = 3;
/// Maximum number of metapaths that [`Operator::Add`] tries to add; the metapaths that are most
/// informative on the category's queries are used.
const ADDED_METAPATHS: usize = 8;

/// Operator of the search actor: a kind of change of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// Adds a mined metapath to the plan.
    Add,
    /// Adds a metapath from the plan of another category.
    Cross,
    /// Combines metapaths of two plans, which answer different queries of the category well.
    Merge,
    /// Changes how the linked entities of a metapath are found: named by the query, described, or
    /// both.
    Linking,
    /// Switches a metapath between the sum and the maximum of the scores of its linked entities.
    Sums,
    /// Drops a metapath from the plan.
    Drop,
}

impl Operator {
    /// All operators, in the order in which they are first tried.
    pub const ALL: [Self; 6] =
        [Self::Add, Self::Cross, Self::Merge, Self::Linking, Self::Sums, Self::Drop];

    /// Returns the operator's name, as in the `proposed_by` of programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Cross => "cross",
            Self::Merge => "merge",
            Self::Linking => "anchors",
            Self::Sums => "sums",
            Self::Drop => "drop",
        }
    }
}

/// Metapaths and plans from which operators derive new plans.
#[derive(Clone, Copy)]
pub struct Material<'a> {
    /// All mined metapaths, for [`Operator::Add`].
    pub metapaths: &'a [Metapath],
    /// Plans of all categories, for [`Operator::Cross`].
    pub others: &'a [Plan],
    /// The other parent plan, for [`Operator::Merge`].
    pub mate: Option<&'a Plan>,
    /// Training queries of the category, as positions in the training pool.
    pub queries: &'a [usize],
}

/// Returns all plans that an operator derives from a plan, each with a description of the change.
/// The derived plans differ from the given one and have at most three metapaths. Their order
/// depends only on the arguments.
pub fn children(operator: Operator, plan: &Plan, material: &Material<'_>) -> Vec<(Plan, String)> {
    match operator {
        Operator::Linking => linked_otherwise(plan),
        Operator::Sums => other_sums(plan),
        Operator::Drop => dropped(plan),
        Operator::Add => taken(plan, added_branches(plan, material), "add a metapath"),
        Operator::Cross => {
            let branches = others_branches(plan, material.others);
            taken(plan, branches, "take a metapath of another category")
        }
        Operator::Merge => material.mate.map_or_else(Vec::new, |mate| merged(plan, mate)),
    }
}

/// Returns the plan with its branches sorted, so that equivalent plans are equal.
pub fn in_order(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.branches.sort_unstable();
    plan
}

/// Returns the plan with the branch at index `at` changed by `change`.
fn with_branch(plan: &Plan, at: usize, change: impl FnOnce(&mut Branch)) -> Plan {
    let mut changed = plan.clone();
    change(&mut changed.branches[at]);
    changed
}

/// Returns the plan without the branch at index `at`.
fn without_branch(plan: &Plan, at: usize) -> Plan {
    let mut changed = plan.clone();
    changed.branches.remove(at);
    changed
}

fn linked_otherwise(plan: &Plan) -> Vec<(Plan, String)> {
    let mut children = Vec::new();
    for (at, branch) in plan.branches.iter().enumerate() {
        for linked in [LinkedBy::Named, LinkedBy::Described, LinkedBy::Either] {
            if linked != branch.linked {
                let change =
                    format!("link the entities of a metapath otherwise: {linked:?}").to_lowercase();
                children.push((with_branch(plan, at, |branch| branch.linked = linked), change));
            }
        }
    }
    children
}

fn other_sums(plan: &Plan) -> Vec<(Plan, String)> {
    let child = |(at, branch): (usize, &Branch)| {
        let how = if branch.sums { "largest" } else { "sum" };
        let change = format!("carry the {how} of scores along a metapath");
        (with_branch(plan, at, |branch| branch.sums = !branch.sums), change)
    };
    plan.branches.iter().enumerate().map(child).collect()
}

fn dropped(plan: &Plan) -> Vec<(Plan, String)> {
    if plan.branches.len() < 2 {
        return Vec::new();
    }
    let without = |at| (without_branch(plan, at), "drop a metapath".to_owned());
    (0..plan.branches.len()).map(without).collect()
}

/// Returns the plans that result from adding one of `branches` to the plan. If the plan is full,
/// the added branch replaces each of the plan's own branches in turn.
fn taken(plan: &Plan, branches: Vec<Branch>, change: &str) -> Vec<(Plan, String)> {
    let mut children = Vec::new();
    for branch in branches {
        let mut with = plan.clone();
        with.branches.push(branch);
        if with.branches.len() <= MAX_BRANCHES {
            children.push((with, change.to_owned()));
            continue;
        }
        let without = |at| (without_branch(&with, at), change.to_owned());
        children.extend((0..plan.branches.len()).map(without));
    }
    children
}

/// Returns branches for mined metapaths that lead to the plan's target type and that the plan
/// lacks: at most [`ADDED_METAPATHS`], the most informative on the category's queries first.
fn added_branches(plan: &Plan, material: &Material<'_>) -> Vec<Branch> {
    let lacks = |metapath: &Metapath| {
        let is_same =
            |branch: &Branch| branch.start == metapath.start && branch.steps == metapath.steps;
        plan.target == Some(metapath.target) && !plan.branches.iter().any(is_same)
    };
    let information = |metapath: &Metapath| {
        let share = |query| f64::from(metapath.shares.get(query).copied().unwrap_or(0.0));
        material.queries.iter().map(share).sum::<f64>() * metapath.bits
    };
    let lacking = material.metapaths.iter().filter(|metapath| lacks(metapath));
    let mut ranked: Vec<(f64, &Metapath)> =
        lacking.map(|metapath| (information(metapath), metapath)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.truncate(ADDED_METAPATHS);
    ranked.into_iter().map(|(_, metapath)| metapath.branch()).collect()
}

/// Returns the distinct branches of other plans with the same target type that this plan lacks, in
/// the order of `others`.
fn others_branches(plan: &Plan, others: &[Plan]) -> Vec<Branch> {
    let mut branches: Vec<Branch> = Vec::new();
    let like = others.iter().filter(|other| other.target == plan.target && *other != plan);
    for branch in like.flat_map(|other| &other.branches) {
        if !plan.branches.contains(branch) && !branches.contains(branch) {
            branches.push(branch.clone());
        }
    }
    branches
}

/// Returns the plans that combine as many metapaths of both parents as a plan may have. From each
/// parent, they have at least one metapath that the other parent lacks. If both parents have a
/// metapath, its linked entities are found as in `plan`.
fn merged(plan: &Plan, mate: &Plan) -> Vec<(Plan, String)> {
    let same_way = |a: &Branch, b: &Branch| a.start == b.start && a.steps == b.steps;
    let has = |plan: &Plan, branch: &Branch| plan.branches.iter().any(|own| same_way(own, branch));
    let new: Vec<&Branch> = mate.branches.iter().filter(|branch| !has(plan, branch)).collect();
    let own = plan.branches.iter().filter(|branch| !has(mate, branch)).count();
    if plan.target != mate.target || new.is_empty() || own == 0 {
        return Vec::new();
    }
    let all: Vec<&Branch> = plan.branches.iter().chain(new).collect();
    let room = all.len().min(MAX_BRANCHES);
    let mut children = Vec::new();
    for chosen in 0..1_u32 << all.len() {
        if chosen.count_ones() as usize != room {
            continue;
        }
        let is_chosen = |(at, _): &(usize, &&Branch)| chosen & (1 << at) != 0;
        let branches = all.iter().enumerate().filter(is_chosen);
        let branches = branches.map(|(_, branch)| (*branch).clone()).collect();
        let child = Plan { target: plan.target, branches };
        let has_own = |parent: &Plan, other: &Plan| {
            child.branches.iter().any(|branch| has(parent, branch) && !has(other, branch))
        };
        if has_own(plan, mate) && has_own(mate, plan) {
            children.push((child, "unite the metapaths of two programs".to_owned()));
        }
    }
    children
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_kb::TypeId;

    fn branch(start: u16) -> Branch {
        let start = TypeId(start);
        Branch { linked: LinkedBy::Named, start, steps: Vec::new(), sums: false }
    }

    fn plan(linked: &[u16]) -> Plan {
        let branches = linked.iter().map(|&start| branch(start)).collect();
        Plan { target: Some(TypeId(9)), branches }
    }

    fn made(operator: Operator, parent: &Plan, others: &[Plan], mate: Option<&Plan>) -> Vec<Plan> {
        let material = Material { metapaths: &[], others, mate, queries: &[] };
        children(operator, parent, &material).into_iter().map(|child| child.0).collect()
    }

    #[test]
    fn every_change_of_a_branch_is_listed_once() {
        let parent = plan(&[1, 2]);
        for (operator, n) in [(Operator::Linking, 4), (Operator::Sums, 2), (Operator::Drop, 2)] {
            let children = made(operator, &parent, &[], None);
            assert_eq!(children.len(), n, "{operator:?}");
            assert!(!children.contains(&parent), "{operator:?}");
        }
        assert_eq!(made(Operator::Drop, &plan(&[1]), &[], None), []);
        assert_eq!(made(Operator::Linking, &plan(&[]), &[], None), []);
    }

    #[test]
    fn a_metapath_of_another_category_is_added_or_replaces_one_where_three_are_there() {
        let others = [plan(&[4]), Plan { target: None, branches: vec![branch(5)] }];
        assert_eq!(made(Operator::Cross, &plan(&[1]), &others, None), [plan(&[1, 4])]);
        let replaced = made(Operator::Cross, &plan(&[1, 2, 3]), &others, None);
        assert_eq!(replaced, [plan(&[2, 3, 4]), plan(&[1, 3, 4]), plan(&[1, 2, 4])]);
    }

    #[test]
    fn merged_plans_have_metapaths_of_both_parents() {
        let two = |mate: &Plan| made(Operator::Merge, &plan(&[1, 2]), &[], Some(mate));
        assert_eq!(two(&plan(&[2, 3])), [plan(&[1, 2, 3])]);
        let three = two(&plan(&[3, 4]));
        assert_eq!(three.len(), 4, "{three:?}");
        assert!(three.contains(&plan(&[1, 2, 3])) && three.contains(&plan(&[2, 3, 4])));
        assert_eq!(two(&plan(&[1, 2, 3])), [], "it has all that the first has");
        assert_eq!(two(&plan(&[1])), []);
        assert_eq!(two(&Plan { target: None, branches: vec![branch(3)] }), []);
    }
}
