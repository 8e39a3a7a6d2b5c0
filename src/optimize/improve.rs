//! Improvement: in every step a category's program is changed, and what comes of it is measured.
//!
//! ```text
//! steps     those of the search actor, and so many of the model for each category, evenly mixed
//! category  the search actor's drawn by what training queries lack; the model's in turn
//! parent    the category's best program
//! proposer  the operator that promises most for its cost and can change the parent; the model
//! child     tried on the gate, then on the category's queries; the category's program where it
//!           gains enough, and only then run on all training queries
//! ```
//!
//! All state follows from trials, replies and the seed, so that a run that goes on comes to the
//! same.
//!
//! Must not know: how programs are written, how models are asked.

use std::collections::BTreeSet;

use rand::{SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tracing::debug_span;

use crate::{
    Ablation, Event, OptimizeError, Run, Stop,
    accept::{MIN_GAIN, key_of},
    actor::{Actor, LLM, headed},
    archive::{Archive, Archived, drawn},
    asks::asks,
    bandit::Bandit,
    category_programs::{CategoryProgram, GOOD, assign, lacking},
    discover::Metapath,
    gate::gate,
    mutate::{Material, Operator, children, in_order},
    plan::Plan,
    trial::{Origin, mean},
    wording::{self, Wording},
};
use agent_infer::{ParamValues, bundle::SEARCH};
use agent_sandbox::program::Program;

/// Kind of the journal's steps that say which program was changed; the number of the step of
/// improvement begins their key.
const PARENT: &str = "parent";

/// What a run began with.
#[derive(Default)]
pub(super) struct Begun {
    /// How many of the first categories no model wrote.
    pub(super) found: usize,
    /// The categories.
    pub(super) category_programs: Vec<CategoryProgram>,
    /// Programs that were measured on the way.
    pub(super) archive: Archive,
    /// Metapaths that operators draw from.
    pub(super) metapaths: Vec<Metapath>,
    /// First programs of a model that are better than a category's, by its position, and are still
    /// to be proven so.
    pub(super) challengers: Vec<(usize, CategoryProgram)>,
}

/// Which program a step changed, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The category, by its position.
    pub category: usize,
    /// Its training queries by position.
    pub queries: Vec<usize>,
    /// Id of the program that was changed.
    pub parent: String,
    /// Id of what came of it.
    pub child: String,
}

/// A category in one step.
pub(super) struct Place<'a> {
    /// The step.
    pub(super) step: usize,
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
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Queries of the category on which it was run, and its reciprocal ranks on them.
    pub(super) queries: Vec<usize>,
    pub(super) ranks: Vec<f32>,
    /// Mean reciprocal rank on them, and that of the category's program.
    pub(super) mrr: f64,
    pub(super) before: f64,
    /// What it gains there in the sum.
    pub(super) gain: f64,
    /// Whether it became the category's program.
    pub(super) accepted: bool,
    /// Queries on which a program was run.
    pub(super) calls: usize,
}

/// Who takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Search,
    Model,
}

/// What steps go by and add to.
struct State {
    archive: Archive,
    bandit: Bandit,
    metapaths: Vec<Metapath>,
    /// Plans that were measured for a category, with their branches in order.
    tried: BTreeSet<(usize, Plan)>,
    /// Steps of the model by category.
    asked: Vec<usize>,
}

/// The steps of both in their order, those of the model spread evenly.
fn turns(search: usize, model: usize) -> Vec<Turn> {
    let total = search + model;
    let is_model = |at: usize| (at + 1) * model / total > at * model / total;
    (0..total).map(|at| if is_model(at) { Turn::Model } else { Turn::Search }).collect()
}

impl Run<'_> {
    /// Improves programs of categories, then tunes their parameters; a change stays when training
    /// queries speak for it.
    pub(super) fn improve(
        &mut self,
        begun: Begun,
        mut actor: Option<&mut Actor>,
    ) -> Result<(Vec<CategoryProgram>, Stop), OptimizeError> {
        let Begun { mut category_programs, archive, metapaths, challengers, .. } = begun;
        self.take_challengers(&mut category_programs, challengers)?;
        let without = |part| self.options.without.contains(&part);
        let mutates = self.options.actors.search && !without(Ablation::Mutation);
        let tunes = !without(Ablation::Tuning);
        let of_search = if mutates { self.options.steps } else { 0 };
        let of_model =
            if actor.is_some() { self.options.llm_steps * category_programs.len() } else { 0 };
        let (bandit, asked) = (Bandit::default(), vec![0; category_programs.len()]);
        let mut state = State { archive, bandit, metapaths, tried: BTreeSet::new(), asked };
        let turns = turns(of_search, of_model);
        for (step, turn) in turns.iter().enumerate() {
            if self.is_late() {
                return Ok((category_programs, Stop::Minutes));
            }
            let (phase, total) = ("improving programs", turns.len());
            (self.watch)(Event::Progress { phase, done: step, total });
            match (turn, actor.as_deref_mut()) {
                (Turn::Search, actor) => {
                    self.search_step(step, &mut category_programs, &mut state, actor.as_deref())?;
                }
                (Turn::Model, Some(actor)) => match actor.stop() {
                    Some(unusable @ Stop::Unusable(_)) => {
                        return Ok((category_programs, unusable.clone()));
                    }
                    Some(_) => {}
                    None => self.model_step(step, &mut category_programs, &mut state, actor)?,
                },
                (Turn::Model, None) => {}
            }
        }
        self.take_archived(&mut category_programs, &state.archive)?;
        if tunes && !self.tune_all(&mut category_programs)? {
            return Ok((category_programs, Stop::Minutes));
        }
        let stopped = actor.and_then(|actor| actor.stop().cloned());
        Ok((category_programs, stopped.unwrap_or(Stop::Done)))
    }

    /// Whether the time for the run is over.
    fn is_late(&self) -> bool {
        self.options.budget.is_some_and(|budget| self.started.elapsed() >= budget)
    }

    /// Tunes the numbers of all categories' programs; whether there was time for all.
    fn tune_all(
        &mut self,
        category_programs: &mut [CategoryProgram],
    ) -> Result<bool, OptimizeError> {
        let total = category_programs.len();
        for at in 0..total {
            if self.is_late() {
                return Ok(false);
            }
            (self.watch)(Event::Progress { phase: "tuning parameters", done: at, total });
            let assigned = assign(category_programs, self.train.queries.len());
            self.tune(&mut category_programs[at], &assigned[at])?;
        }
        Ok(true)
    }

    /// First programs of a model become those of their categories where they gain enough.
    fn take_challengers(
        &mut self,
        category_programs: &mut [CategoryProgram],
        challengers: Vec<(usize, CategoryProgram)>,
    ) -> Result<(), OptimizeError> {
        for (at, category_program) in challengers {
            let assigned = assign(category_programs, self.train.queries.len());
            let origin = Origin {
                proposed_by: category_program.proposed_by.clone(),
                change: "the model's first program".to_owned(),
                parent: None,
            };
            self.accept(&mut category_programs[at], category_program, &assigned[at], &origin)?;
        }
        Ok(())
    }

    /// A step of the search actor: the first operator that can change the program of the first
    /// category, each in the order drawn. Nothing where none can change any.
    fn search_step(
        &mut self,
        step: usize,
        category_programs: &mut [CategoryProgram],
        state: &mut State,
        actor: Option<&Actor>,
    ) -> Result<(), OptimizeError> {
        self.trials.check_stop()?;
        let _span = debug_span!("step", step).entered();
        let assigned = assign(category_programs, self.train.queries.len());
        let mut rng = self.rng_of(step);
        let plans: Vec<Plan> = category_programs
            .iter()
            .filter_map(|category_program| category_program.plan.clone())
            .collect();
        let operators = state.bandit.order();
        for at in drawn(&lacking(category_programs, &assigned), &mut rng) {
            let queries = assigned[at].as_slice();
            let mut place =
                Place { step, at, category_program: &mut category_programs[at], queries };
            let header = actor.map(|one| one.category_header(place.category_program.name()));
            let header = header.filter(|_| place.category_program.queries.is_some());
            for &operator in &operators {
                let by = (operator, header.as_deref());
                if let Some(measured) = self.operate(by, &plans, &mut place, state, &mut rng)? {
                    state.bandit.note(operator, measured.gain, measured.calls);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// A step of the model: it rewrites the program of the category that had fewest of its steps, of
    /// these the one that lacks most. Left out are programs that are no text, those that lack less
    /// than a change must gain or lack it on one query alone, and categories that had all their steps.
    fn model_step(
        &mut self,
        step: usize,
        category_programs: &mut [CategoryProgram],
        state: &mut State,
        actor: &mut Actor,
    ) -> Result<(), OptimizeError> {
        self.trials.check_stop()?;
        let _span = debug_span!("step", step).entered();
        let assigned = assign(category_programs, self.train.queries.len());
        let lacking = lacking(category_programs, &assigned);
        let order = |&a: &usize, &b: &usize| {
            let fewest = state.asked[a].cmp(&state.asked[b]);
            fewest.then(lacking[b].total_cmp(&lacking[a])).then(a.cmp(&b))
        };
        let worth_asking = (0..category_programs.len()).filter(|&at| {
            let category_program = &category_programs[at];
            state.asked[at] < self.options.llm_steps
                && !category_program.program.is_module()
                && self.may_gain(category_program, &assigned[at])
        });
        let Some(at) = worth_asking.min_by(order) else { return Ok(()) };
        state.asked[at] += 1;
        let queries = assigned[at].as_slice();
        let open = unanswered(category_programs, queries);
        let place = Place { step, at, category_program: &mut category_programs[at], queries };
        let mut rng = self.rng_of(step);
        let done = self.rewrite(actor, place, &open, &mut state.archive, &mut rng);
        actor.unless_stopped(done).map(drop)
    }

    /// Whether a program lacks as much on training queries as a change of it must gain, on more than
    /// one: a program that mends a single query alone is made for that query.
    pub(super) fn may_gain(&self, category_program: &CategoryProgram, queries: &[usize]) -> bool {
        let lacks = |&query: &usize| {
            let lack = f64::from(1.0 - category_program.train[query]);
            (Wording::of(&self.train.queries[query].text), lack)
        };
        let lacking: Vec<(Wording, f64)> = queries.iter().map(lacks).collect();
        let open = lacking.iter().filter(|pair| pair.1 > 0.0).count();
        open > 1 && wording::gain(&lacking) >= MIN_GAIN
    }

    fn rng_of(&self, step: usize) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.options.seed);
        rng.set_stream(step as u64 + 1);
        rng
    }

    /// Measures one of the plans that an operator makes of a category's program, drawn from those
    /// that were not measured for the category; none if there is no such plan. Under `header`, if
    /// the category has its own.
    fn operate(
        &mut self,
        (operator, header): (Operator, Option<&str>),
        plans: &[Plan],
        place: &mut Place<'_>,
        state: &mut State,
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<Measured>, OptimizeError> {
        let parent = place.category_program.clone();
        let Some(plan) = &parent.plan else { return Ok(None) };
        let mates: Vec<Option<&Plan>> = match operator {
            Operator::Merge => {
                let beyond = state.archive.beyond(&parent, place.queries).into_iter();
                beyond.map(|mate| mate.category_program.plan.as_ref()).collect()
            }
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
        let of = Some(parent.program.id().to_owned());
        let origin = Origin { proposed_by, change, parent: of };
        let child = Child { plan: Some(plan), program, params: parent.params, origin };
        self.measure(child, place, &mut state.archive).map(Some)
    }

    /// Measures a child of a category's program: on the gate, if it is better there (a model's also if
    /// it is as good) on all of the category's queries, and if it then becomes the category's program
    /// on all training queries, unless it asks a model.
    pub(super) fn measure(
        &mut self,
        child: Child,
        place: &mut Place<'_>,
        archive: &mut Archive,
    ) -> Result<Measured, OptimizeError> {
        let Child { plan, program, params, origin } = child;
        let choice = Choice {
            category: place.at,
            queries: place.queries.to_vec(),
            parent: place.category_program.program.id().to_owned(),
            child: program.id().to_owned(),
        };
        // A run that goes on under a higher ceiling takes steps of the model that it had left out, and
        // may change another program in a step that is kept.
        let key = format!("{} {}", place.step, key_of(&choice));
        self.trials.journal.commit(PARENT, &key, &choice, &[])?;
        let gate = gate(place.queries, &self.train.queries, self.options.seed);
        let mut measured = Measured::default();
        let mut ranks = Vec::new();
        for queries in [gate.as_slice(), place.queries] {
            if queries.len() == ranks.len() {
                break;
            }
            ranks = self.trial(&program, &params, false, queries, &origin)?;
            let before = place.category_program.train_on(queries);
            let sum = |ranks: &[f32]| ranks.iter().map(|&rank| f64::from(rank)).sum::<f64>();
            (measured.queries, measured.ranks) = (queries.to_vec(), ranks.clone());
            (measured.mrr, measured.before) = (mean(&ranks), mean(&before));
            measured.gain = sum(&ranks) - sum(&before);
            measured.calls += queries.len();
            // On a gate that the category's program answers no child is better; a model's is too dear
            // to be given up for that.
            let is_gate = queries.len() < place.queries.len();
            let goes_on =
                measured.gain > 0.0 || measured.gain == 0.0 && is_gate && origin.proposed_by == LLM;
            if !goes_on {
                return Ok(measured);
            }
        }
        let part = asks(&program).then(|| place.queries.to_vec());
        let whole = part.is_none();
        let mut train = vec![0.0; self.train.queries.len()];
        place.queries.iter().zip(&ranks).for_each(|(&query, &rank)| train[query] = rank);
        let proposed_by = origin.proposed_by.clone();
        let (name, queries) = (None, None);
        let changed =
            CategoryProgram { plan, program, params, proposed_by, name, queries, train, part };
        measured.accepted = self.accept(place.category_program, changed, place.queries, &origin)?;
        if measured.accepted {
            if whole {
                let all: Vec<usize> = (0..self.train.queries.len()).collect();
                let CategoryProgram { program, params, .. } = &*place.category_program;
                let (program, params) = (program.clone(), params.clone());
                place.category_program.train =
                    self.trial(&program, &params, false, &all, &origin)?;
                measured.calls += all.len();
            }
            let (category_program, change) = (place.category_program.clone(), origin.change);
            archive.add(Archived { category_program, change, whole: true });
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
            let CategoryProgram { plan, program: source, params, proposed_by, part, .. } =
                program.category_program;
            let change = program.change.clone();
            let origin = Origin { proposed_by, change, parent: None };
            program.category_program =
                self.category_program(plan, source, params, part, &origin)?;
            program.whole = true;
        }
        Ok(program)
    }
}

impl State {
    /// Whether it is known how a plan answers a category's queries.
    fn knows(&self, category: usize, plan: &Plan) -> bool {
        let plan = in_order(plan);
        let answers_alike = |one: &Archived| {
            one.whole && one.category_program.plan.as_ref().is_some_and(|own| in_order(own) == plan)
        };
        self.archive.programs().iter().any(answers_alike) || self.tried.contains(&(category, plan))
    }
}

/// Those of some training queries that no category's program answers well: the others are for the
/// router to send elsewhere, and no reason to change a program.
fn unanswered(category_programs: &[CategoryProgram], queries: &[usize]) -> Vec<usize> {
    let is_open = |&&query: &&usize| {
        category_programs.iter().all(|category_program| category_program.train[query] < GOOD)
    };
    queries.iter().filter(is_open).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn category_program(ranks: &[f32]) -> CategoryProgram {
        CategoryProgram::of_test("", ranks)
    }

    #[test]
    fn steps_of_the_model_are_spread_over_all() {
        use Turn::{Model, Search};
        assert_eq!(turns(4, 2), [Search, Search, Model, Search, Search, Model]);
        assert_eq!(turns(0, 2), [Model, Model]);
        assert_eq!(turns(1, 3), [Search, Model, Model, Model]);
        assert_eq!(turns(0, 0), []);
        for (search, model) in [(24, 18), (3, 100)] {
            let turns = turns(search, model);
            assert_eq!(turns.iter().filter(|&&turn| turn == Model).count(), model);
            assert_eq!(turns.len(), search + model);
        }
    }

    #[test]
    fn what_another_program_answers_is_no_failure() {
        let category_programs =
            [category_program(&[0.1, 0.0, 1.0, 0.1]), category_program(&[0.0, 1.0, 0.0, 0.5])];
        assert_eq!(unanswered(&category_programs, &[0, 1, 2, 3]), [0, 3]);
        assert_eq!(unanswered(&category_programs, &[1, 2]), [0usize; 0]);
    }
}
