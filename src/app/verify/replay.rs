//! Answers the validation queries again: the scores of the bundle, of its categories and of the
//! baselines must exactly equal the scores that the bundle records.
//!
//! If a program fails on a query, the default candidates of the query replace the program's
//! ranking, as when the bundle was frozen.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use rayon::prelude::*;

use super::Check;
use crate::{App, Resources, Result, each, llm, open_runtime, systems::Places};
use agent_dataset::{Base, LabelledQuery, Split, is_synthetic, load_split};
use agent_ground::locks::locked;
use agent_index::IndexedBase;
use agent_infer::{
    Runtime,
    bundle::{Bundle, CategoryScore, Member, router::features},
    join, merged_routes, parts, routes,
};
use agent_optimize::{category_score, trial::mean};
use agent_retrieve::{Baseline, Ranking, Retriever, System};
use agent_sandbox::{CompiledProgram, FailureKind, Origin};

/// Number of nodes that a baseline ranks for each query.
const BASELINE_DEPTH: usize = 1_000;

/// Result of the bundle on one query.
struct Answered {
    /// Reciprocal rank of the first correct answer.
    rank: f32,
    /// Index of the most probable category in the bundle.
    category: usize,
}

/// Failures of programs during a replay: `n` in total; `late` of these missed their deadline.
#[derive(Default)]
struct Failures {
    n: u64,
    late: u64,
    first: Option<String>,
}

/// Results of a bundle on all validation queries of a base.
pub(super) struct Replay {
    /// Reciprocal rank of the bundle on each query.
    pub(super) ranks: Vec<f32>,
    /// For each query, the index of its most probable category in the bundle.
    categories: Vec<usize>,
    /// Reciprocal rank of every baseline on each query, by the name of the baseline.
    baselines: BTreeMap<&'static str, Vec<f32>>,
    /// Number of failures of programs, with a description of the first; `None` if there are none.
    pub(super) failed: Option<(u64, String)>,
}

impl Replay {
    /// Returns the mean reciprocal rank of every baseline, by the name of the baseline.
    pub(super) fn baseline_mrr(&self) -> BTreeMap<String, f64> {
        let named = self.baselines.iter();
        named.map(|(name, ranks)| ((*name).to_owned(), mean(ranks))).collect()
    }

    /// Returns the positions of the queries whose most probable category has the index `at`.
    pub(super) fn of_category(&self, at: usize) -> Vec<usize> {
        (0..self.categories.len()).filter(|&query| self.categories[query] == at).collect()
    }

    /// Compares the bundle with the best baseline on the queries at these positions; `None` if
    /// there are no queries.
    pub(super) fn score(&self, queries: &[usize], seed: u64) -> Result<Option<CategoryScore>> {
        Ok(category_score(queries, &self.ranks, &self.baselines, seed)?)
    }
}

/// Answers `queries`, the validation queries of a base, with the bundle and with every baseline;
/// `None` if a program of the bundle does not compile.
pub(super) fn replay(
    bundle: &Bundle,
    queries: &[LabelledQuery],
    base: &Arc<IndexedBase>,
    resources: &Resources,
    app: &App,
) -> Result<Option<Replay>> {
    let origin = Origin::Bundle(&bundle.digest);
    let runtime = open_runtime(base, resources, origin)?;
    let compiled: Result<Vec<CompiledProgram>, _> =
        bundle.categories.iter().map(|category| runtime.compile(&category.program)).collect();
    let Ok(compiled) = compiled else { return Ok(None) };
    let members = bundle.members();
    let failures = Mutex::new(Failures::default());
    let answered = each(queries, "replay", "the replay was not finished", app, |query| {
        answer((bundle, &members), &runtime, &compiled, query, &failures)
    })?;
    let baselines = baselines(&runtime, queries)?;
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failures.late > 0 {
        app.watch.warning("deadlines depend on the machine: verify again when it is idle");
    }
    let failed = failures.first.map(|first| (failures.n, first));
    if let Some((n, first)) = &failed {
        app.watch.warning(&format!("programs failed {n} times, first: {first}"));
    }
    Ok(Some(Replay {
        ranks: answered.iter().map(|answered| answered.rank).collect(),
        categories: answered.iter().map(|answered| answered.category).collect(),
        baselines,
        failed,
    }))
}

pub(super) fn check(
    bundle: &Bundle,
    installed: &Base,
    base: &Arc<IndexedBase>,
    places: Places,
    app: &App,
) -> Result<Check> {
    let queries = load_split(installed, &Split::Val)?;
    if queries.len() != bundle.validation.n {
        let (found, stated) = (queries.len(), bundle.validation.n);
        let why = format!(
            "the dataset has {found} validation queries, but the bundle was measured on {stated}"
        );
        return Ok(Check::failed("replay", why));
    }
    let llm = match llm::open_for_programs(bundle, app) {
        Ok(llm) => llm,
        Err(error) => {
            let why = format!("its programs ask a language model: {}", error.message());
            return Ok(Check::skipped("replay", why));
        }
    };
    let resources = Resources::new(llm.as_ref(), places, app);
    let Some(replay) = replay(bundle, &queries, base, &resources, app)? else {
        let why = "a program does not compile, see above".to_owned();
        return Ok(Check::skipped("replay", why));
    };
    Ok(match first_difference(bundle, &replay)? {
        Some(difference) if bundle.asks() => Check::failed(
            "replay",
            format!("{difference}; its programs ask a language model, which may reply differently"),
        ),
        Some(difference) => Check::failed("replay", difference),
        None => Check::ok(
            "replay",
            format!(
                "{} validation queries{}: mrr {:.1} %, all scores match the bundle",
                replay.ranks.len(),
                if is_synthetic(&queries) { " (synthetic questions)" } else { "" },
                100.0 * mean(&replay.ranks)
            ),
        ),
    })
}

/// Answers one query with a bundle, whose members are `members` and whose programs are `compiled`.
/// Adds failed programs to `failures`.
fn answer(
    (bundle, members): (&Bundle, &[Member]),
    runtime: &Runtime,
    compiled: &[CompiledProgram],
    query: &LabelledQuery,
    failures: &Mutex<Failures>,
) -> anyhow::Result<Answered> {
    let routes = routes(members, &features(runtime.base(), &query.text), None);
    let chosen = merged_routes(&routes);
    let mut rankings: BTreeMap<usize, Ranking> = BTreeMap::new();
    for &(at, _) in &chosen {
        let params = &bundle.categories[at].params;
        let ranking = match runtime.run(&compiled[at], params, &query.text, None)? {
            Ok(outcome) => outcome.ranking,
            Err(failure) => {
                let mut failures = locked(failures);
                failures.n += 1;
                failures.late += u64::from(failure.kind == FailureKind::Deadline);
                failures.first.get_or_insert_with(|| format!("query {}: {failure}", query.id));
                drop(failures);
                runtime.default_ranking(&query.text)?
            }
        };
        rankings.insert(at, ranking);
    }
    let parts = parts(members, &routes, |at| rankings.get(&at));
    let joined = join(runtime.base(), &query.text, &parts, bundle.phrasings.as_ref())?;
    let rank = runtime.reciprocal_rank(&joined, &query.answers);
    Ok(Answered { rank, category: chosen.first().map_or(0, |pair| pair.0) })
}

/// Returns the reciprocal rank of every baseline on each query, by the name of the baseline.
fn baselines(
    runtime: &Runtime,
    queries: &[LabelledQuery],
) -> Result<BTreeMap<&'static str, Vec<f32>>> {
    let mut ranks = BTreeMap::new();
    for system in System::ALL {
        let baseline = Baseline::new(runtime.base().clone(), system);
        let of_queries = queries
            .par_iter()
            .map(|query| {
                let ranking = baseline.retrieve(&query.text, BASELINE_DEPTH)?;
                Ok(runtime.reciprocal_rank(&ranking, &query.answers))
            })
            .collect::<anyhow::Result<Vec<f32>>>()?;
        ranks.insert(system.name(), of_queries);
    }
    Ok(ranks)
}

/// Describes the first score that differs from the one that the bundle records; `None` if all are
/// equal.
fn first_difference(bundle: &Bundle, replay: &Replay) -> Result<Option<String>> {
    let differs = |what: &str, stated: f64, found: f64| {
        (stated != found).then(|| format!("{what}: recorded {stated}, replayed {found}"))
    };
    if let Some(difference) = differs("mrr", bundle.validation.mrr, mean(&replay.ranks)) {
        return Ok(Some(difference));
    }
    let found = replay.baseline_mrr();
    for (name, &stated) in &bundle.validation.baselines {
        let Some(&found) = found.get(name) else {
            return Ok(Some(format!("there is no baseline {name:?}")));
        };
        if let Some(difference) = differs(&format!("mrr of {name}"), stated, found) {
            return Ok(Some(difference));
        }
    }
    for (at, category) in bundle.categories.iter().enumerate() {
        let found = replay.score(&replay.of_category(at), bundle.provenance.seed)?;
        if category.validation != found {
            let shown =
                |score: &Option<CategoryScore>| serde_json::to_string(score).unwrap_or_default();
            return Ok(Some(format!(
                "category {:?}: recorded {}, replayed {}",
                category.name,
                shown(&category.validation),
                shown(&found)
            )));
        }
    }
    Ok(None)
}
