//! The search actor: composes programs from mined walks and tunes their numbers; operators change
//! them. Needs no language model.

use crate::{
    infer::ParamValues,
    optimize::{
        Ablation, Event, OptimizeError, Run,
        archive::{Archive, Archived},
        discover,
        improve::Begun,
        members::{MAX_CATEGORIES, MIN_CATEGORY_GAIN, Member, assign, needed},
        mine,
        plan::{self, Plan},
        trial::{self, Origin},
        tune,
        user::make_names_differ,
    },
    program::Program,
};

/// Name under which its proposals are kept.
pub(super) const SEARCH: &str = "search";
/// Plans that are run after mining.
const SHORTLISTED: usize = 60;

impl Run<'_> {
    /// Mines walks, runs the plans they suggest and the user's programs, and keeps those that
    /// together answer best as categories; all plans are archived.
    pub(super) fn discover(&mut self) -> Result<Begun, OptimizeError> {
        let n = self.train.queries.len();
        let min_support = (n / 100).max(2);
        (self.watch)(Event::Progress { phase: "mining walks", done: 0, total: 1 });
        let mined = match self.options.without.contains(&Ablation::Mining) {
            true => Vec::new(),
            false => {
                let (queries, hops) = (&self.train.queries, self.options.hops);
                mine::mine(&self.base, queries, min_support, hops, self.trials.stop)?
            }
        };
        let walks = discover::walks(&mined);
        let mut plans = discover::shortlist(&walks, n, min_support, SHORTLISTED);
        let everywhere = (0..n).map(|query| (query, 0.0)).collect();
        plans.push((Plan { target: None, branches: Vec::new() }, everywhere));
        let origin = Origin {
            proposed_by: SEARCH.to_owned(),
            change: "composed from mined walks".to_owned(),
            parent: None,
        };
        let mut archive = Archive::default();
        let mut worths: Vec<discover::Worth> = Vec::new();
        for (at, (plan, supported)) in plans.iter().enumerate() {
            (self.watch)(Event::Progress { phase: "trying plans", done: at, total: plans.len() });
            let program = self.rendered(plan);
            let queries: Vec<usize> = supported.iter().map(|pair| pair.0).collect();
            let ranks = self.trial(&program, &ParamValues::new(), false, &queries, &origin)?;
            let whole = queries.len() == n;
            let mut train = vec![0.0; n];
            queries.iter().zip(&ranks).for_each(|(&query, &rank)| train[query] = rank);
            let (plan, params) = (Some(plan.clone()), ParamValues::new());
            let proposed_by = SEARCH.to_owned();
            let member = Member {
                plan,
                program,
                params,
                proposed_by,
                name: None,
                queries: None,
                train,
                part: None,
            };
            let change = origin.change.clone();
            archive.add(Archived { member, change, whole });
            worths.push(queries.into_iter().zip(ranks.into_iter().map(f64::from)).collect());
        }
        let tried = self.try_user_programs()?;
        let of_user = tried.iter().map(|one| one.worth.as_slice());
        let borrowed: Vec<&[(usize, f64)]> =
            worths.iter().map(Vec::as_slice).chain(of_user).collect();
        let mut chosen =
            discover::cover(&borrowed, n, MAX_CATEGORIES, n as f64 * MIN_CATEGORY_GAIN);
        if chosen.is_empty() {
            chosen.push(plans.len() - 1);
        }
        let mut members = Vec::new();
        for (done, &at) in chosen.iter().enumerate() {
            (self.watch)(Event::Progress {
                phase: "building categories",
                done,
                total: chosen.len(),
            });
            if let Some(tried) = at.checked_sub(plans.len()).and_then(|at| tried.get(at)) {
                members.push(self.user_member(tried)?);
                continue;
            }
            let plan = plans[at].0.clone();
            let program = self.rendered(&plan);
            let member = self.member(Some(plan), program, ParamValues::new(), None, &origin)?;
            let change = origin.change.clone();
            archive.add(Archived { member: member.clone(), change, whole: true });
            members.push(member);
        }
        let mut members = needed(members, n);
        make_names_differ(&mut members);
        for (queries, member) in assign(&members, n).iter().zip(&members) {
            let (name, mrr) = (member.name(), trial::mean(&member.train_on(queries)));
            let n = queries.len();
            let looked_at = |&at: &usize| (at, mine::n_looked_at(&self.train.queries[at]));
            let looked_at: Vec<(usize, usize)> = queries.iter().map(looked_at).collect();
            let bound = member.plan.as_ref().filter(|plan| !plan.branches.is_empty());
            let bound = bound.map(|plan| discover::bound(plan, &walks, &looked_at));
            (self.watch)(Event::Category { name, n, mrr, bound });
        }
        Ok(Begun { members, archive, walks, challengers: Vec::new() })
    }

    /// The program of a plan.
    pub(super) fn rendered(&self, plan: &Plan) -> Program {
        match self.options.without.contains(&Ablation::Relaxation) {
            true => plan::render_strict(&self.base, plan),
            false => plan::render(&self.base, plan),
        }
    }

    /// Tries other numbers for a program.
    pub(super) fn tune(
        &mut self,
        member: &mut Member,
        queries: &[usize],
    ) -> Result<(), OptimizeError> {
        self.trials.check_stop()?;
        let key = format!("{} {} {queries:?}", member.program.id(), self.train.digest());
        let key = blake3::hash(key.as_bytes()).to_hex().to_string();
        let params = match self.trials.journal.find::<ParamValues>("tune", &key)? {
            Some(params) => params,
            None => {
                let (hits, misses) = self.cache.hits_and_misses();
                let params = tune::tune(
                    &self.trials,
                    &member.program,
                    &member.params,
                    &self.train,
                    queries,
                )?;
                let (hits_now, misses_now) = self.cache.hits_and_misses();
                self.tuning_cache.0 += hits_now - hits;
                self.tuning_cache.1 += misses_now - misses;
                self.trials.journal.commit("tune", &key, &params, &[])?;
                params
            }
        };
        if params == member.params {
            return Ok(());
        }
        let origin = Origin {
            proposed_by: "tuner".to_owned(),
            change: "tuned numbers".to_owned(),
            parent: Some(member.program.id().to_owned()),
        };
        let (plan, program, part) =
            (member.plan.clone(), member.program.clone(), member.part.clone());
        let mut tuned = self.member(plan, program, params, part, &origin)?;
        tuned.proposed_by.clone_from(&member.proposed_by);
        tuned.name.clone_from(&member.name);
        self.accept(member, tuned, queries, &origin).map(|_| ())
    }
}
