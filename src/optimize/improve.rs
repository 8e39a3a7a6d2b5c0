//! Improvement: in every step a category, a program of its front and a proposer are chosen, and
//! what the proposer makes of the program is measured.
//!
//! ```text
//! category  drawn by what its training queries lack
//! parent    drawn from the category's front in the archive
//! proposer  the arm of the bandit that promises most for its cost and can change the parent
//! child     measured on the category's queries; archived where it answers some query, or all
//!           together, better than every other; the category's program where it gains enough
//! ```
//!
//! All state follows from trials, replies and the seed, so that a run that goes on comes to the
//! same.
//!
//! Must not know: how programs are written, how models are asked.

use std::collections::BTreeSet;

use rand::{SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tracing::debug_span;

use crate::{
    infer::ParamValues,
    optimize::{
        Ablation, Event, OptimizeError, Run, Stop,
        accept::MIN_GAIN,
        actor::{Actor, headed},
        archive::{Archive, Archived, Parent, drawn},
        bandit::{Arm, Bandit, Cost},
        category_programs::{CategoryProgram, assign, lacking},
        discover::Metapath,
        mutate::{Material, Operator, children, in_order},
        plan::Plan,
        search::SEARCH,
        trial::{Origin, mean},
    },
    program::Program,
};

/// What a run began with.
#[derive(Default)]
pub(super) struct Begun {
    /// The categories.
    pub(super) category_programs: Vec<CategoryProgram>,
    /// Programs that were measured on the way.
    pub(super) archive: Archive,
    /// Metapaths that operators draw from.
    pub(super) metapaths: Vec<Metapath>,
}

/// A category in one step.
pub(super) struct Place<'a> {
    /// Its position.
    pub(super) at: usize,
    /// Its present program.
    pub(super) category_program: &'a mut CategoryProgram,
    /// Its training queries.
    pub(super) queries: &'a [usize],
}

/// A program to be measured.
pub(super) struct Child {
    pub(super) plan: Option<Plan>,
    pub(super) program: Program,
    pub(super) params: ParamValues,
    pub(super) origin: Origin,
}

/// What came of a child.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    /// Mean reciprocal rank on the category's training queries.
    pub(super) mrr: f64,
    /// What its sum there exceeds that of every other program by.
    pub(super) gain: f64,
    /// Whether it became the category's program.
    pub(super) accepted: bool,
    /// What it cost.
    pub(super) cost: Cost,
}

/// What steps go by and add to.
struct State {
    archive: Archive,
    bandit: Bandit,
    metapaths: Vec<Metapath>,
    /// Plans that were measured for a category, with their branches in order.
    tried: BTreeSet<(usize, Plan)>,
}

impl Run<'_> {
    /// Improves programs of categories, then tunes their parameters; a change stays when training
    /// queries speak for it.
    pub(super) fn improve(
        &mut self,
        begun: Begun,
        mut actor: Option<&mut Actor>,
    ) -> Result<(Vec<CategoryProgram>, Stop), OptimizeError> {
        let Begun { mut category_programs, archive, metapaths } = begun;
        let without = |part| self.options.without.contains(&part);
        let mutates = self.options.actors.search && !without(Ablation::Mutation);
        let tunes = !without(Ablation::Tuning);
        let bandit = Bandit::new(mutates, actor.is_some());
        let mut state = State { archive, bandit, metapaths, tried: BTreeSet::new() };
        let total = self.options.steps + if tunes { category_programs.len() } else { 0 };
        for step in 0..total {
            if self.options.budget.is_some_and(|budget| self.started.elapsed() >= budget) {
                return Ok((category_programs, Stop::Minutes));
            }
            let (phase, done, of) = match step.checked_sub(self.options.steps) {
                Some(done) => ("tuning parameters", done, category_programs.len()),
                None => ("improving programs", step, self.options.steps),
            };
            (self.watch)(Event::Progress { phase, done, total: of });
            if step == self.options.steps {
                self.take_archived(&mut category_programs, &state.archive)?;
            }
            if step >= self.options.steps {
                let assigned = assign(&category_programs, self.train.queries.len());
                let at = step - self.options.steps;
                self.tune(&mut category_programs[at], &assigned[at])?;
                continue;
            }
            match actor.as_deref().and_then(Actor::stop) {
                Some(unusable @ Stop::Unusable(_)) => {
                    return Ok((category_programs, unusable.clone()));
                }
                Some(_) => {}
                None => {
                    self.step(step, &mut category_programs, &mut state, actor.as_deref_mut())?
                }
            }
        }
        let stopped = actor.and_then(|actor| actor.stop().cloned());
        Ok((category_programs, stopped.unwrap_or(Stop::Done)))
    }

    /// One step: the first arm that can change the first parent of the first category, each in
    /// the order drawn. Nothing where no arm can change any.
    fn step(
        &mut self,
        step: usize,
        category_programs: &mut [CategoryProgram],
        state: &mut State,
        mut actor: Option<&mut Actor>,
    ) -> Result<(), OptimizeError> {
        self.trials.check_stop()?;
        let _span = debug_span!("step", step).entered();
        let assigned = assign(category_programs, self.train.queries.len());
        let mut rng = ChaCha8Rng::seed_from_u64(self.options.seed);
        rng.set_stream(step as u64 + 1);
        let plans: Vec<Plan> = category_programs
            .iter()
            .filter_map(|category_program| category_program.plan.clone())
            .collect();
        let arms = state.bandit.order();
        for at in drawn(&lacking(category_programs, &assigned), &mut rng) {
            let queries = assigned[at].as_slice();
            let front = state.archive.front(queries);
            let weights: Vec<f64> = front.iter().map(|parent| parent.weight).collect();
            let mut place = Place { at, category_program: &mut category_programs[at], queries };
            for chosen in drawn(&weights, &mut rng) {
                for &arm in &arms {
                    let measured = match (arm, actor.as_deref_mut()) {
                        (Arm::Operator(operator), actor) => {
                            let header =
                                actor.map(|one| one.category_header(place.category_program.name()));
                            let header =
                                header.filter(|_| place.category_program.queries.is_some());
                            let parents = (&front[chosen], front.as_slice());
                            let header = header.as_deref();
                            let by = (operator, header);
                            self.operate(by, parents, &plans, &mut place, state, &mut rng)?
                        }
                        (Arm::Rewrite, Some(actor)) if state.is_text(front[chosen].at) => {
                            let parent =
                                self.whole(&state.archive, front[chosen].at)?.category_program;
                            let archive = &mut state.archive;
                            let done =
                                self.rewrite(actor, step, &parent, &mut place, archive, &mut rng);
                            match actor.unless_stopped(done)? {
                                Some(measured) => measured,
                                None => return Ok(()),
                            }
                        }
                        (Arm::Rewrite, _) => None,
                    };
                    if let Some(measured) = measured {
                        state.bandit.note(arm, measured.gain, measured.cost);
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Measures one of the plans that an operator makes of a parent, drawn from those that were
    /// not measured for the category; none if there is no such plan. Under `header`, if the
    /// category has its own.
    fn operate(
        &mut self,
        (operator, header): (Operator, Option<&str>),
        (parent, front): (&Parent, &[Parent]),
        plans: &[Plan],
        place: &mut Place<'_>,
        state: &mut State,
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<Measured>, OptimizeError> {
        let Some(own) = state.archive.get(parent.at).map(|one| one.category_program.clone()) else {
            return Ok(None);
        };
        let Some(plan) = &own.plan else { return Ok(None) };
        let mates: Vec<Option<&Plan>> = match operator {
            Operator::Merge => mates(parent, front)
                .into_iter()
                .filter_map(|at| state.archive.get(at))
                .map(|mate| mate.category_program.plan.as_ref())
                .collect(),
            _ => vec![None],
        };
        let untried = mates.into_iter().find_map(|mate| {
            let (metapaths, queries) = (state.metapaths.as_slice(), place.queries);
            let material = Material { metapaths, others: plans, mate, queries };
            let mut made = children(operator, plan, &material);
            made.retain(|(plan, _)| !state.knows(place.at, plan));
            (!made.is_empty()).then_some(made)
        });
        let Some((plan, change)) = untried.and_then(|made| made.choose(rng).cloned()) else {
            return Ok(None);
        };
        state.tried.insert((place.at, in_order(&plan)));
        let mut program = self.rendered(&plan);
        if let Some(header) = header {
            program = Program::new(&headed(program.source(), header));
        }
        let proposed_by = format!("{SEARCH}:{}", operator.word());
        let parent = Some(own.program.id().to_owned());
        let origin = Origin { proposed_by, change, parent };
        let child = Child { plan: Some(plan), program, params: own.params, origin };
        self.measure(child, place, &mut state.archive).map(Some)
    }

    /// Measures a child on the category's queries, archives it if it is better than all others
    /// somewhere, and makes it the category's program if it gains enough.
    pub(super) fn measure(
        &mut self,
        child: Child,
        place: &mut Place<'_>,
        archive: &mut Archive,
    ) -> Result<Measured, OptimizeError> {
        let Child { plan, program, params, origin } = child;
        let ranks = self.trial(&program, &params, false, place.queries, &origin)?;
        let before = place.category_program.sum_on(place.queries);
        let sum: f64 = ranks.iter().map(|&rank| f64::from(rank)).sum();
        let mut measured = Measured {
            mrr: mean(&ranks),
            gain: sum - archive.most(place.queries).max(before),
            accepted: false,
            cost: Cost { calls: place.queries.len(), tokens: 0 },
        };
        if sum <= before && !archive.lacks(place.queries, &ranks) {
            return Ok(measured);
        }
        let category_program = self.category_program(plan, program, params, &origin)?;
        measured.cost.calls += category_program.train.len();
        let change = origin.change.clone();
        archive.add(Archived { category_program: category_program.clone(), change, whole: true });
        if sum > before {
            measured.accepted =
                self.accept(place.category_program, category_program, place.queries, &origin)?;
        }
        Ok(measured)
    }

    /// Gives every category the archived program with the best sum on its training queries, where
    /// that gains enough and is no other category's.
    fn take_archived(
        &mut self,
        category_programs: &mut [CategoryProgram],
        archive: &Archive,
    ) -> Result<(), OptimizeError> {
        let assigned = assign(category_programs, self.train.queries.len());
        for (at, queries) in assigned.iter().enumerate() {
            let sum = |of: &CategoryProgram| of.sum_on(queries);
            let fits = |of: &CategoryProgram| {
                let named = category_programs[at].queries.is_none()
                    || of.name() == category_programs[at].name();
                named
                    && !category_programs
                        .iter()
                        .any(|category_program| category_program.answers_as(of))
            };
            let least = sum(&category_programs[at]) + MIN_GAIN;
            let best = archive
                .programs()
                .iter()
                .enumerate()
                .filter(|(_, one)| fits(&one.category_program))
                .map(|(at, one)| (sum(&one.category_program), at))
                .filter(|&(sum, _)| sum >= least)
                .reduce(|best, next| if next.0 > best.0 { next } else { best });
            if let Some((_, best)) = best {
                let taken = self.whole(archive, best)?;
                let origin = Origin {
                    proposed_by: taken.category_program.proposed_by.clone(),
                    change: taken.change,
                    parent: None,
                };
                self.accept(&mut category_programs[at], taken.category_program, queries, &origin)?;
            }
        }
        Ok(())
    }

    /// A program of the archive, run on every training query.
    fn whole(&mut self, archive: &Archive, at: usize) -> Result<Archived, OptimizeError> {
        let mut program = archive.programs()[at].clone();
        if !program.whole {
            let CategoryProgram { plan, program: source, params, proposed_by, .. } =
                program.category_program;
            let change = program.change.clone();
            let origin = Origin { proposed_by, change, parent: None };
            program.category_program = self.category_program(plan, source, params, &origin)?;
            program.whole = true;
        }
        Ok(program)
    }
}

impl State {
    /// Whether a program can be read and written: a module is not.
    fn is_text(&self, at: usize) -> bool {
        self.archive.get(at).is_some_and(|one| !one.category_program.program.is_module())
    }

    /// Whether it is known how a plan answers a category's queries.
    fn knows(&self, category: usize, plan: &Plan) -> bool {
        let plan = in_order(plan);
        let answers_alike = |one: &Archived| {
            one.whole && one.category_program.plan.as_ref().is_some_and(|own| in_order(own) == plan)
        };
        self.archive.programs().iter().any(answers_alike) || self.tried.contains(&(category, plan))
    }
}

/// The other programs of a front by position in the archive, first those whose best queries differ
/// most from the parent's; ties in the order of the front.
fn mates(parent: &Parent, front: &[Parent]) -> Vec<usize> {
    let mut others: Vec<(usize, usize)> = front
        .iter()
        .filter(|other| other.at != parent.at)
        .map(|other| (other.best.symmetric_difference(&parent.best).count(), other.at))
        .collect();
    others.sort_by_key(|pair| std::cmp::Reverse(pair.0));
    others.into_iter().map(|pair| pair.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mates_come_by_how_much_their_best_queries_differ() {
        let parent = |at, best: &[usize]| Parent {
            at,
            best: best.iter().copied().collect(),
            weight: best.len() as f64,
        };
        let front =
            [parent(0, &[1, 2]), parent(3, &[2]), parent(5, &[4, 6]), parent(7, &[2, 4, 6])];
        assert_eq!(mates(&front[0], &front), [5, 7, 3]);
    }
}
