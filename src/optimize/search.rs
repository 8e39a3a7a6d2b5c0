//! The search actor: composes programs from mined metapaths and tunes their parameters, without a
//! language model.

use crate::{
    Ablation, Event, Result, Run,
    archive::{Archive, ArchivedProgram},
    category_programs::{CategoryProgram, assign, best_together, needed},
    discover,
    improve::InitialPrograms,
    mine::{self, MinedPattern},
    plan::{self, Plan},
    trial::{self, Origin},
    tune,
    user::make_names_differ,
};
use agent_infer::{ParamValues, bundle::SEARCH};
use agent_sandbox::program::Program;

/// Maximum number of plans with metapaths that are run after mining.
const SHORTLISTED: usize = 60;

/// Returns the minimum number of queries, among `n` training queries, whose answers a mined
/// metapath must reach.
fn min_support(n: usize) -> usize {
    (n / 100).max(2)
}

impl Run<'_> {
    /// Mines metapaths, and runs the programs of the shortlisted plans and the user's programs on
    /// training queries. The programs that together answer best become the categories. Archives the
    /// programs of all plans that ran.
    pub(super) fn discover(&mut self) -> Result<InitialPrograms> {
        let n = self.train.queries.len();
        self.report_phase("mining metapaths");
        let mined = self.mine()?;
        let metapaths = discover::metapaths(&mined);
        let mut plans = discover::shortlist(&metapaths, n, min_support(n), SHORTLISTED);
        let everywhere = (0..n).map(|query| (query, 0.0)).collect();
        plans.push((Plan { target: None, branches: Vec::new() }, everywhere));
        let origin = Origin::new(SEARCH, "composed from mined metapaths", None);
        let mut archive = Archive::default();
        let mut worths: Vec<discover::Worth> = Vec::new();
        for (at, (plan, supported)) in plans.iter().enumerate() {
            (self.watch)(Event::Progress { phase: "trying plans", done: at, total: plans.len() });
            let program = self.rendered(plan);
            let queries: Vec<usize> = supported.iter().map(|pair| pair.0).collect();
            let (plan, none, is_complete) =
                (Some(plan.clone()), ParamValues::new(), queries.len() == n);
            let part = Some(queries.clone());
            let mut category = self.category_program(plan, program, none, part, &origin)?;
            category.part = None;
            worths.push(queries.iter().map(|&at| (at, f64::from(category.train[at]))).collect());
            let change = origin.change.clone();
            archive.add(ArchivedProgram { category, change, is_complete });
        }
        let tried = self.try_user_programs()?;
        let user_worths = tried.iter().map(|tried| &tried.worth);
        let mut chosen = best_together(&worths.iter().chain(user_worths).collect::<Vec<_>>(), n);
        if chosen.is_empty() {
            chosen.push(plans.len() - 1);
        }
        let mut categories = Vec::new();
        for (done, &at) in chosen.iter().enumerate() {
            let (phase, total) = ("building categories", chosen.len());
            (self.watch)(Event::Progress { phase, done, total });
            if let Some(tried) = at.checked_sub(plans.len()).and_then(|at| tried.get(at)) {
                categories.push(self.program_of_user(tried)?);
                continue;
            }
            let plan = plans[at].0.clone();
            let program = self.rendered(&plan);
            let category =
                self.category_program(Some(plan), program, ParamValues::new(), None, &origin)?;
            let change = origin.change.clone();
            archive.add(ArchivedProgram { category: category.clone(), change, is_complete: true });
            categories.push(category);
        }
        let mut categories = needed(categories, n);
        make_names_differ(&mut categories);
        for (queries, category) in assign(&categories, n).iter().zip(&categories) {
            let (name, n) = (category.name(), queries.len());
            let mrr = trial::mean(&category.train_on(queries));
            let count = |&at: &usize| (at, mine::mined_answer_count(&self.train.queries[at]));
            let answer_counts: Vec<(usize, usize)> = queries.iter().map(count).collect();
            let bound = category.plan.as_ref().filter(|plan| !plan.branches.is_empty());
            let bound = bound.map(|plan| discover::bound(plan, &metapaths, &answer_counts));
            (self.watch)(Event::Category { name, n, mrr, bound });
        }
        let (search_count, challengers) = (categories.len(), Vec::new());
        Ok(InitialPrograms { search_count, categories, archive, metapaths, challengers })
    }

    /// Mines the metapaths of the training queries; none if mining is disabled.
    pub(super) fn mine(&self) -> Result<Vec<MinedPattern>> {
        if self.options.lacks(Ablation::Mining) {
            return Ok(Vec::new());
        }
        let (queries, hops) = (&self.train.queries, self.options.hops);
        Ok(mine::mine(&self.base, queries, min_support(queries.len()), hops, self.trials.stop)?)
    }

    /// Returns the program of a plan; if relaxation is disabled, the program ranks only nodes that
    /// all metapaths reach.
    pub(super) fn rendered(&self, plan: &Plan) -> Program {
        plan::render(&self.base, plan, !self.options.lacks(Ablation::Relaxation))
    }

    /// Tunes the parameters of a category's program on `queries` (positions of training queries),
    /// and accepts the tuned values if they gain enough.
    pub(super) fn tune(&mut self, category: &mut CategoryProgram, queries: &[usize]) -> Result<()> {
        self.trials.check_stop()?;
        let key = format!("{} {} {queries:?}", category.program.id(), self.train.digest);
        let key = trial::digest(&key);
        let CategoryProgram { plan, program, params: start, proposed_by, name, part, .. } =
            category.clone();
        let params = match self.trials.journal.find::<ParamValues>("tune", &key)? {
            Some(params) => params,
            None => {
                let (hits, misses) = self.cache.hits_and_misses();
                let params = tune::tune(&self.trials, &program, &start, &self.train, queries)?;
                let (hits_now, misses_now) = self.cache.hits_and_misses();
                self.tuning_cache.0 += hits_now - hits;
                self.tuning_cache.1 += misses_now - misses;
                self.trials.journal.commit("tune", &key, &params, &[])?;
                params
            }
        };
        if params == start {
            return Ok(());
        }
        let origin = Origin::new("tuner", "tuned parameters", Some(&program));
        let mut tuned = self.category_program(plan, program, params, part, &origin)?;
        (tuned.proposed_by, tuned.name) = (proposed_by, name);
        self.accept(category, tuned, queries, &origin).map(|_| ())
    }
}
