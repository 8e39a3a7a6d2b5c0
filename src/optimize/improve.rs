//! Improvement steps: each step proposes a variant of a category's program and measures the variant
//! on the category's training queries.
//!
//! ```text
//! steps     `steps` of the search actor and `model_steps` of the model per category, evenly mixed
//! category  search actor: drawn in proportion to the missing reciprocal rank; model: in turn
//! parent    the category's best program
//! proposer  search actor: the operator with the best gain per cost that applies; or the model
//! child     tried on the gate, then on the category's queries; replaces the parent if it gains
//!           enough, and is then run on all training queries
//! ```
//!
//! All state depends only on trials, the model's replies and the seed, so that a resumed run
//! repeats the same steps.

use std::collections::BTreeSet;

use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tracing::debug_span;

use crate::{
    Ablation, Event, Result, Run, Stop,
    accept::{MIN_GAIN, key_of},
    actor::{Actor, LLM, headed},
    archive::{Archive, ArchivedProgram, draw_order},
    asks::asks,
    bandit::Bandit,
    category_programs::{CategoryProgram, GOOD, assign, lacking},
    discover::Metapath,
    gate::gate,
    mutate::{Material, Operator, children, in_order},
    plan::Plan,
    trial::{Origin, generator, largest, mean, sum},
    wording::{self, Wording},
};
use agent_infer::{ParamValues, bundle::SEARCH};
use agent_sandbox::program::Program;

/// Kind of journal steps that store a [`Choice`]; their key begins with the number of the
/// improvement step.
const PARENT: &str = "parent";

/// The categories with the programs that improvement starts from.
#[derive(Default)]
pub(super) struct InitialPrograms {
    /// Number of categories that the search actor found; they come first in `categories`.
    pub(super) search_count: usize,
    /// The categories, each with its first program.
    pub(super) categories: Vec<CategoryProgram>,
    /// Programs that were measured while categories were searched for.
    pub(super) archive: Archive,
    /// Mined metapaths, which the operators of the search actor add to plans.
    pub(super) metapaths: Vec<Metapath>,
    /// Programs by a model that may still replace a category's first program, each with the index
    /// of its category. They gained, but not enough on queries that the prompt did not show.
    pub(super) challengers: Vec<(usize, CategoryProgram)>,
}

/// The change that a step proposes, as the journal stores it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Index of the category whose program is changed.
    pub category: usize,
    /// The category's training queries, as positions in the training pool.
    pub queries: Vec<usize>,
    /// Id of the changed program.
    pub parent: String,
    /// Id of the proposed program.
    pub child: String,
}

/// The category whose program an improvement step changes.
pub(super) struct StepTarget<'a> {
    /// Number of the improvement step, from 0.
    pub(super) step: usize,
    /// Index of the category that the step changes.
    pub(super) at: usize,
    /// The category's current program.
    pub(super) category: &'a mut CategoryProgram,
    /// The category's training queries, as positions in the training pool.
    pub(super) queries: &'a [usize],
}

/// A program that an improvement step proposes.
pub(super) struct Child {
    pub(super) plan: Option<Plan>,
    pub(super) program: Program,
    pub(super) params: ParamValues,
    pub(super) origin: Origin,
}

/// Measurement of a proposed program (the child) against the category's program (the parent).
#[derive(Clone, Debug, Default)]
pub(super) struct Measurement {
    /// Queries of the category that the child ran on, as positions in the training pool; `ranks`
    /// holds the child's reciprocal ranks in the same order.
    pub(super) queries: Vec<usize>,
    pub(super) ranks: Vec<f32>,
    /// Mean reciprocal rank of the child on `queries`; `before` holds that of its parent on the
    /// same queries.
    pub(super) mrr: f64,
    pub(super) before: f64,
    /// Difference of the summed reciprocal ranks on `queries`, child minus parent.
    pub(super) gain: f64,
    /// Whether the child replaced the category's program.
    pub(super) accepted: bool,
    /// Number of program runs that the measurement took.
    pub(super) calls: usize,
}

/// The actor whose turn it is to take a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Search,
    Model,
}

/// State that improvement steps read and update.
struct State {
    archive: Archive,
    bandit: Bandit,
    metapaths: Vec<Metapath>,
    /// Measured plans, each with the index of its category; a plan's branches are sorted.
    tried: BTreeSet<(usize, Plan)>,
    /// Number of model steps that each category has had.
    model_steps: Vec<usize>,
}

/// Returns which actor takes each step: `search` steps of the search actor, and `model` steps of
/// the model spread evenly among them.
fn turns(search: usize, model: usize) -> Vec<Turn> {
    let total = search + model;
    let is_model = |turn: usize| (turn + 1) * model / total > turn * model / total;
    (0..total).map(|turn| if is_model(turn) { Turn::Model } else { Turn::Search }).collect()
}

impl Run<'_> {
    /// Improves the categories' programs step by step, then tunes their parameters. Returns the
    /// improved programs and why the improvement ended.
    pub(super) fn improve(
        &mut self,
        initial: InitialPrograms,
        mut actor: Option<&mut Actor>,
    ) -> Result<(Vec<CategoryProgram>, Stop)> {
        let InitialPrograms { mut categories, archive, metapaths, challengers, .. } = initial;
        for (at, category) in challengers {
            let assigned = assign(&categories, self.train.queries.len());
            let origin = category.origin("the model's first program");
            self.accept(&mut categories[at], category, &assigned[at], &origin)?;
        }
        let mutates = self.options.actors.search && !self.options.lacks(Ablation::Mutation);
        let search_steps = if mutates { self.options.steps } else { 0 };
        let llm_steps =
            if actor.is_some() { self.options.model_steps() * categories.len() } else { 0 };
        let (bandit, model_steps) = (Bandit::default(), vec![0; categories.len()]);
        let mut state = State { archive, bandit, metapaths, tried: BTreeSet::new(), model_steps };
        let turns = turns(search_steps, llm_steps);
        for (step, turn) in turns.iter().enumerate() {
            if self.is_late() {
                return Ok((categories, Stop::Minutes));
            }
            let (phase, total) = ("improving programs", turns.len());
            (self.watch)(Event::Progress { phase, done: step, total });
            match (turn, actor.as_deref_mut()) {
                (Turn::Search, actor) => {
                    self.search_step(step, &mut categories, &mut state, actor.as_deref())?;
                }
                (Turn::Model, Some(actor)) => match &actor.stop {
                    Some(unusable @ Stop::Unusable(_)) => {
                        return Ok((categories, unusable.clone()));
                    }
                    Some(_) => {}
                    None => self.model_step(step, &mut categories, &mut state, actor)?,
                },
                (Turn::Model, None) => {}
            }
        }
        self.take_archived(&mut categories, &state.archive)?;
        let total = if self.options.lacks(Ablation::Tuning) { 0 } else { categories.len() };
        for at in 0..total {
            if self.is_late() {
                return Ok((categories, Stop::Minutes));
            }
            (self.watch)(Event::Progress { phase: "tuning parameters", done: at, total });
            let assigned = assign(&categories, self.train.queries.len());
            self.tune(&mut categories[at], &assigned[at])?;
        }
        let stopped = actor.and_then(|actor| actor.stop.clone());
        Ok((categories, stopped.unwrap_or(Stop::Done)))
    }

    /// Whether the time budget of the run is used up.
    fn is_late(&self) -> bool {
        self.options.budget.is_some_and(|budget| self.started.elapsed() >= budget)
    }

    /// Runs one step of the search actor: finds an untried plan and measures it. Goes through the
    /// categories in random order, and for each through the operators in the order of the bandit,
    /// until an operator yields such a plan.
    fn search_step(
        &mut self,
        step: usize,
        categories: &mut [CategoryProgram],
        state: &mut State,
        actor: Option<&Actor>,
    ) -> Result<()> {
        self.trials.check_stop()?;
        let _span = debug_span!("step", step).entered();
        let assigned = assign(categories, self.train.queries.len());
        let mut rng = generator(self.options.seed, step as u64 + 1);
        let plans: Vec<Plan> =
            categories.iter().filter_map(|category| category.plan.clone()).collect();
        let operators = state.bandit.order();
        for at in draw_order(&lacking(categories, &assigned), &mut rng) {
            let queries = assigned[at].as_slice();
            let category = &mut categories[at];
            let mut target = StepTarget { step, at, category, queries };
            let header = actor.map(|actor| actor.category_header(target.category.name()));
            let header = header.filter(|_| target.category.queries.is_some());
            for &operator in &operators {
                let proposer = (operator, header.as_deref());
                let measured = self.operate(proposer, &plans, &mut target, state, &mut rng)?;
                if let Some(measured) = measured {
                    state.bandit.note(operator, measured.gain, measured.calls);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Runs one model step: asks the model to rewrite the program of the category that has had the
    /// fewest model steps. Among categories with equally many steps, takes the one whose summed
    /// reciprocal rank is furthest below the maximum. Skips WebAssembly modules, programs that
    /// cannot gain enough ([`Run::may_gain`]), and categories without steps left.
    fn model_step(
        &mut self,
        step: usize,
        categories: &mut [CategoryProgram],
        state: &mut State,
        actor: &mut Actor,
    ) -> Result<()> {
        self.trials.check_stop()?;
        let _span = debug_span!("step", step).entered();
        let assigned = assign(categories, self.train.queries.len());
        let lacking = lacking(categories, &assigned);
        let order = |&a: &usize, &b: &usize| {
            let fewest = state.model_steps[a].cmp(&state.model_steps[b]);
            fewest.then(lacking[b].total_cmp(&lacking[a])).then(a.cmp(&b))
        };
        let worth_asking = (0..categories.len()).filter(|&at| {
            let category = &categories[at];
            state.model_steps[at] < self.options.model_steps()
                && !category.program.is_module()
                && self.may_gain(category, &assigned[at])
        });
        let Some(at) = worth_asking.min_by(order) else { return Ok(()) };
        state.model_steps[at] += 1;
        let queries = assigned[at].as_slice();
        let open = unanswered(categories, queries);
        let category = &mut categories[at];
        let target = StepTarget { step, at, category, queries };
        let mut rng = generator(self.options.seed, step as u64 + 1);
        let done = self.rewrite(actor, target, &open, &mut state.archive, &mut rng);
        actor.unless_stopped(done).map(drop)
    }

    /// Whether a change of the program could be accepted: the summed reciprocal rank on `queries`
    /// is far enough below its maximum, and the reciprocal rank is below 1 on more than one query.
    /// A change that helps a single query is too specific.
    pub(super) fn may_gain(&self, category: &CategoryProgram, queries: &[usize]) -> bool {
        let lacks = |&query: &usize| {
            let lack = f64::from(1.0 - category.train[query]);
            (Wording::detect(&self.train.queries[query].text), lack)
        };
        let lacking: Vec<(Wording, f64)> = queries.iter().map(lacks).collect();
        let open = lacking.iter().filter(|pair| pair.1 > 0.0).count();
        open > 1 && wording::gain(&lacking) >= MIN_GAIN
    }

    /// Draws one of the untried plans that the operator derives from the category's plan, and
    /// measures the plan's program; `None` if there is no such plan. If `header` is given, the
    /// program's source starts with it.
    fn operate(
        &mut self,
        (operator, header): (Operator, Option<&str>),
        plans: &[Plan],
        target: &mut StepTarget<'_>,
        state: &mut State,
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<Measurement>> {
        let parent = target.category.clone();
        let Some(plan) = &parent.plan else { return Ok(None) };
        let mates: Vec<Option<&Plan>> = match operator {
            Operator::Merge => {
                let mates = state.archive.better_on(&parent, target.queries).into_iter();
                mates.map(|mate| mate.category.plan.as_ref()).collect()
            }
            _ => vec![None],
        };
        let untried = mates.into_iter().find_map(|mate| {
            let (metapaths, queries) = (state.metapaths.as_slice(), target.queries);
            let material = Material { metapaths, others: plans, mate, queries };
            let mut made = children(operator, plan, &material);
            made.retain(|(plan, _)| !state.is_known(target.at, plan));
            (!made.is_empty()).then_some(made)
        });
        let Some((plan, change)) = untried.and_then(|made| made.choose(rng).cloned()) else {
            return Ok(None);
        };
        state.tried.insert((target.at, in_order(&plan)));
        let mut program = self.rendered(&plan);
        if let Some(header) = header {
            program = Program::new(&headed(program.source(), header));
        }
        let proposed_by = format!("{SEARCH}:{}", operator.name());
        let origin = Origin::new(&proposed_by, &change, Some(&parent.program));
        let child = Child { plan: Some(plan), program, params: parent.params, origin };
        self.measure(child, target, &mut state.archive).map(Some)
    }

    /// Measures a proposed program on the gate. If the program scores higher there than the
    /// category's program (or as high, if a model wrote it), measures it on all training queries of
    /// the category. If the program is then accepted, runs it on all training queries, unless it
    /// asks a model.
    pub(super) fn measure(
        &mut self,
        child: Child,
        target: &mut StepTarget<'_>,
        archive: &mut Archive,
    ) -> Result<Measurement> {
        let Child { plan, program, params, origin } = child;
        let choice = Choice {
            category: target.at,
            queries: target.queries.to_vec(),
            parent: target.category.program.id().to_owned(),
            child: program.id().to_owned(),
        };
        // A run that is resumed with a higher ceiling takes model steps that it had skipped. A
        // later step may then change another program than the stored one.
        let key = format!("{} {}", target.step, key_of(&choice));
        self.trials.journal.commit(PARENT, &key, &choice, &[])?;
        let gate = gate(target.queries, &self.train.queries, self.options.seed);
        let mut measured = Measurement::default();
        let mut ranks = Vec::new();
        for queries in [gate.as_slice(), target.queries] {
            if queries.len() == ranks.len() {
                break;
            }
            ranks = self.trial(&program, &params, queries, &origin)?;
            let before = target.category.train_on(queries);
            (measured.queries, measured.ranks) = (queries.to_vec(), ranks.clone());
            (measured.mrr, measured.before) = (mean(&ranks), mean(&before));
            measured.gain = sum(&ranks) - sum(&before);
            measured.calls += queries.len();
            // No child is better on a gate that its parent answers perfectly. A model's child is
            // too expensive to be dropped for that.
            let is_gate = queries.len() < target.queries.len();
            let goes_on =
                measured.gain > 0.0 || measured.gain == 0.0 && is_gate && origin.proposed_by == LLM;
            if !goes_on {
                return Ok(measured);
            }
        }
        let part = asks(&program).then(|| target.queries.to_vec());
        let is_complete = part.is_none();
        let proposed_by = origin.proposed_by.clone();
        let train = self.on_training(target.queries, &ranks);
        let (name, queries) = (None, None);
        let changed =
            CategoryProgram { plan, program, params, proposed_by, name, queries, train, part };
        measured.accepted = self.accept(target.category, changed, target.queries, &origin)?;
        if measured.accepted {
            if is_complete {
                let all: Vec<usize> = (0..self.train.queries.len()).collect();
                let CategoryProgram { program, params, train, .. } = &mut *target.category;
                *train = self.trial(program, params, &all, &origin)?;
                measured.calls += all.len();
            }
            let (category, change) = (target.category.clone(), origin.change);
            archive.add(ArchivedProgram { category, change, is_complete: true });
        }
        Ok(measured)
    }

    /// Gives each category the archived program with the largest summed reciprocal rank on the
    /// category's training queries, if this program gains enough and no category uses it yet. A
    /// category with assigned queries takes only programs with the category's name.
    fn take_archived(
        &mut self,
        categories: &mut [CategoryProgram],
        archive: &Archive,
    ) -> Result<()> {
        let assigned = assign(categories, self.train.queries.len());
        for (at, queries) in assigned.iter().enumerate() {
            let sum = |program: &CategoryProgram| program.sum_on(queries);
            let fits = |program: &CategoryProgram| {
                let same_name =
                    categories[at].queries.is_none() || program.name() == categories[at].name();
                same_name && !categories.iter().any(|other| other.answers_as(program))
            };
            let least = sum(&categories[at]) + MIN_GAIN;
            let fitting = archive.programs.iter().filter(|archived| fits(&archived.category));
            let best = largest(fitting.map(|archived| (sum(&archived.category), archived)));
            let Some((_, best)) = best.filter(|best| best.0 >= least) else { continue };
            let (mut category, origin) =
                (best.category.clone(), best.category.origin(&best.change));
            if !best.is_complete {
                let CategoryProgram { plan, program, params, part, .. } = category;
                category = self.category_program(plan, program, params, part, &origin)?;
            }
            self.accept(&mut categories[at], category, queries, &origin)?;
        }
        Ok(())
    }
}

impl State {
    /// Whether a plan was measured already, on the queries of the category at index `at` or on all
    /// training queries.
    fn is_known(&self, at: usize, plan: &Plan) -> bool {
        let plan = in_order(plan);
        let answers_alike = |one: &ArchivedProgram| {
            one.is_complete && one.category.plan.as_ref().is_some_and(|own| in_order(own) == plan)
        };
        self.archive.programs.iter().any(answers_alike) || self.tried.contains(&(at, plan))
    }
}

/// Returns the queries in `queries` (positions of training queries) that no category's program
/// answers well. The router can send all other queries to a program that answers them, so they do
/// not justify a change.
fn unanswered(categories: &[CategoryProgram], queries: &[usize]) -> Vec<usize> {
    let is_open = |&&query: &&usize| categories.iter().all(|category| category.train[query] < GOOD);
    queries.iter().filter(is_open).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn category(ranks: &[f32]) -> CategoryProgram {
        CategoryProgram::for_test("", ranks)
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
    fn queries_that_another_program_answers_are_not_open() {
        let categories = [category(&[0.1, 0.0, 1.0, 0.1]), category(&[0.0, 1.0, 0.0, 0.5])];
        assert_eq!(unanswered(&categories, &[0, 1, 2, 3]), [0, 3]);
        assert_eq!(unanswered(&categories, &[1, 2]), [0usize; 0]);
    }
}
