//! From programs by category to a bundle: trains the router, chooses how categories are joined,
//! measures the whole on validation.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::{
    bundle::{
        Bundle, Category, CategoryScore, Dataset, FORMAT, Fusion, Provenance, Validation,
        order::{Evidence, Order, evidence},
        router::{Features, Router, features},
    },
    eval::statistics::bootstrap_interval,
    infer::{chosen_categories, join},
    kb::NodeId,
    optimize::{
        OptimizeError, Run,
        actor::Actor,
        members::Member,
        order, route,
        trial::{Pool, mean, reciprocal_rank},
    },
    retrieve::{Baseline, Ranking, Retriever, System},
};

/// L2 penalties that are tried, by cross-validation on training queries.
const RIDGES: [f64; 3] = [1e-3, 2e-3, 4e-3];
/// Folds of the cross-validation.
const FOLDS: usize = 5;
/// Nodes a baseline ranks.
const BASELINE_DEPTH: usize = 1_000;

/// What the router sees of every query; it does not depend on programs.
pub(super) struct PoolFeatures {
    train: Vec<Features>,
    validation: Vec<Features>,
}

impl PoolFeatures {
    /// The features of all queries of both pools.
    pub(super) fn new(run: &Run<'_>) -> Self {
        let base = &run.base;
        let of_pool = |pool: &Pool| {
            pool.queries.par_iter().map(|query| features(base, &query.text)).collect()
        };
        Self { train: of_pool(&run.train), validation: of_pool(&run.validation) }
    }
}

/// Where queries go.
pub(super) struct Routing {
    router: Router,
    /// Probabilities on each training query, from a router that did not see it.
    train: Vec<Vec<f32>>,
    /// Validation queries by their most probable category.
    pub(super) validation: Vec<Vec<usize>>,
}

impl Routing {
    /// Trains a router on what each member's program reaches on the training queries.
    pub(super) fn new(features: &PoolFeatures, members: &[Member]) -> Self {
        let (router, train) = train_router(&features.train, members);
        let mut validation = vec![Vec::new(); members.len()];
        for (query, features) in features.validation.iter().enumerate() {
            let top = Fusion { most: 1, normalized: true, ordered: false };
            if let Some(&(at, _)) = chosen_categories(&router.probabilities(features), top).first()
            {
                validation[at].push(query);
            }
        }
        Self { router, train, validation }
    }
}

/// A router with the penalty and the aim that are best in cross-validation, ties to the larger
/// penalty. The aim is what programs reach; where queries were put into categories by what they
/// ask, also to go there. With it the probabilities that the routers of the cross-validation give
/// the training queries they did not see.
fn train_router(features: &[Features], members: &[Member]) -> (Router, Vec<Vec<f32>>) {
    let worth: Vec<Vec<f32>> = (0..features.len())
        .map(|query| members.iter().map(|member| member.train[query]).collect())
        .collect();
    let mut aims = vec![worth.clone()];
    if members.iter().any(|member| member.queries.is_some()) {
        aims.push(assigned(&worth, members));
    }
    let unseen = |aim: &[Vec<f32>], ridge: f64| -> Vec<Vec<f32>> {
        let folds: Vec<Vec<Vec<f32>>> = (0..FOLDS)
            .into_par_iter()
            .map(|fold| {
                let (mut kept, mut kept_aim) = (Vec::new(), Vec::new());
                for query in (0..features.len()).filter(|query| query % FOLDS != fold) {
                    kept.push(features[query].clone());
                    kept_aim.push(aim[query].clone());
                }
                let router = route::train(&kept, &kept_aim, members.len(), ridge);
                let left_out = (fold..features.len()).step_by(FOLDS);
                left_out.map(|query| router.probabilities(&features[query])).collect()
            })
            .collect();
        (0..features.len()).map(|query| folds[query % FOLDS][query / FOLDS].clone()).collect()
    };
    let (mut best, mut most) = ((&aims[0], RIDGES[0], Vec::new()), f64::MIN);
    for aim in &aims {
        for ridge in RIDGES {
            let probabilities = unseen(aim, ridge);
            let pairs = probabilities.iter().zip(&worth);
            let products = pairs.flat_map(|(probabilities, worth)| probabilities.iter().zip(worth));
            let reached: f64 = products.map(|(p, worth)| f64::from(p * worth)).sum();
            // Within an aim, ties go to the larger penalty; between aims, to what programs reach.
            if reached > most || (reached == most && std::ptr::eq(aim, best.0)) {
                (best, most) = ((aim, ridge, probabilities), reached);
            }
        }
    }
    let (aim, ridge, probabilities) = best;
    (route::train(features, aim, members.len(), ridge), probabilities)
}

/// What programs reach, but 1 for the category that a query was put into and 0 for all others.
fn assigned(worth: &[Vec<f32>], members: &[Member]) -> Vec<Vec<f32>> {
    let mut aim = worth.to_vec();
    for (at, member) in members.iter().enumerate() {
        for &query in member.queries.iter().flat_map(|queries| &queries.train) {
            aim[query] = vec![0.0; members.len()];
            aim[query][at] = 1.0;
        }
    }
    aim
}

/// The ways of joining categories that are compared on validation; earlier ones win ties.
fn fusions(n_categories: usize) -> Vec<Fusion> {
    let mut fusions = Vec::new();
    for most in [1, 3, n_categories] {
        for normalized in [true, false] {
            let fusion = Fusion { most: most.min(n_categories), normalized, ordered: false };
            if !fusions.contains(&fusion) {
                fusions.push(fusion);
            }
        }
    }
    fusions.push(in_order(n_categories));
    fusions
}

/// All categories joined, and their nodes put in the order of the evidence on them.
fn in_order(n_categories: usize) -> Fusion {
    Fusion { most: n_categories, normalized: true, ordered: true }
}

/// The rankings of all members on all queries of a pool, by member.
fn all_rankings(
    run: &Run<'_>,
    members: &[Member],
    pool: &Pool,
) -> Result<Vec<Vec<Ranking>>, OptimizeError> {
    let all: Vec<usize> = (0..pool.queries.len()).collect();
    let of = |member: &Member| {
        let compiled = run.trials.compile(&member.program)?;
        let ranked = run.trials.rankings(&compiled, &member.params, pool, &all)?;
        Ok(ranked.into_iter().map(|pair| pair.0).collect())
    };
    members.iter().map(of).collect()
}

/// The order of joined answers, learnt from the training queries.
fn train_order(
    run: &Run<'_>,
    members: &[Member],
    routing: &Routing,
) -> Result<Order, OptimizeError> {
    let rankings = all_rankings(run, members, &run.train)?;
    let fusion = in_order(members.len());
    let (base, train) = (&run.base, &run.train.queries);
    run.trials.check_stop()?;
    let of_query = |query: usize| -> Result<(Evidence, &[NodeId]), OptimizeError> {
        let chosen = chosen_categories(&routing.train[query], fusion);
        let parts: Vec<(f32, &Ranking)> =
            chosen.into_iter().map(|(at, p)| (p, &rankings[at][query])).collect();
        let labelled = &train[query];
        let evidence = evidence(base, &labelled.text, &parts)?;
        Ok((evidence, labelled.answers.as_slice()))
    };
    let queries: Result<Vec<_>, OptimizeError> =
        (0..train.len()).into_par_iter().map(of_query).collect();
    Ok(order::train(&queries?))
}

/// The bundle of the members, measured on validation.
pub(super) fn freeze(
    run: &mut Run<'_>,
    members: &[Member],
    features: &PoolFeatures,
    actor: Option<&Actor>,
) -> Result<Bundle, OptimizeError> {
    (run.watch)(super::Event::Progress { phase: "training the router", done: 0, total: 1 });
    let routing = Routing::new(features, members);
    run.trials.check_stop()?;
    let all: Vec<usize> = (0..run.validation.queries.len()).collect();
    let rankings = all_rankings(run, members, &run.validation)?;
    let order = train_order(run, members, &routing)?;
    let (runtime, base) = (&run.trials.runtime, &run.base);
    let labelled = &run.validation.queries;
    let answer = |query: usize, fusion: Fusion| -> Result<f32, OptimizeError> {
        let probabilities = routing.router.probabilities(&features.validation[query]);
        let parts: Vec<(f32, &Ranking)> = chosen_categories(&probabilities, fusion)
            .into_iter()
            .map(|(at, probability)| (probability, &rankings[at][query]))
            .collect();
        let labelled = &labelled[query];
        let joined = join(base, &labelled.text, &parts, fusion, Some(&order))?;
        Ok(reciprocal_rank(runtime, &joined, &labelled.answers))
    };
    let measured = |fusion: Fusion| -> Result<(Fusion, Vec<f32>, f64), OptimizeError> {
        let ranks: Result<Vec<f32>, OptimizeError> =
            all.par_iter().map(|&query| answer(query, fusion)).collect();
        let ranks = ranks?;
        let mrr = mean(&ranks);
        Ok((fusion, ranks, mrr))
    };
    let ways: Result<Vec<_>, OptimizeError> =
        fusions(members.len()).into_iter().map(measured).collect();
    let (fusion, ranks, mrr) = ways?
        .into_iter()
        .reduce(|best, next| if next.2 > best.2 { next } else { best })
        .ok_or(OptimizeError::NoQueries("validation", "val"))?;
    let baselines = baseline_ranks(run)?;
    let categories: Result<Vec<Category>, OptimizeError> = members
        .iter()
        .zip(&routing.validation)
        .map(|(member, queries)| {
            Ok(Category {
                name: member.name().to_owned(),
                program: member.program.clone(),
                params: member.params.clone(),
                proposed_by: member.proposed_by.clone(),
                validation: category_score(queries, &ranks, &baselines, run.options.seed)?,
            })
        })
        .collect();
    let dataset = Dataset {
        name: run.options.dataset.clone(),
        title: run.base.kb.title().to_owned(),
        kb: run.base.kb.fingerprint().to_owned(),
        index: run.base.fingerprint().to_owned(),
        embedder: run.base.embedder().describe(),
    };
    let validation = Validation {
        n: ranks.len(),
        mrr,
        baselines: baselines
            .iter()
            .map(|(name, ranks)| ((*name).to_owned(), mean(ranks)))
            .collect(),
    };
    let provenance = Provenance {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: run.options.seed,
        steps: run.options.steps,
        n_train: run.train.queries.len(),
        n_validation: ranks.len(),
        llm: actor.map(|actor| actor.provenance(run.options)),
    };
    let (categories, router) = (categories?, routing.router);
    let (format, digest) = (FORMAT, String::new());
    let order = fusion.ordered.then_some(order);
    Ok(Bundle {
        format,
        dataset,
        categories,
        router,
        fusion,
        order,
        validation,
        provenance,
        digest,
    }
    .sealed())
}

/// Reciprocal ranks of every baseline on the validation queries.
fn baseline_ranks(run: &Run<'_>) -> Result<BTreeMap<&'static str, Vec<f32>>, OptimizeError> {
    let runtime = &run.trials.runtime;
    let mut ranks = BTreeMap::new();
    for system in System::ALL {
        run.trials.check_stop()?;
        let baseline = Baseline::new(run.base.clone(), system);
        let of_queries: Result<Vec<f32>, OptimizeError> = run
            .validation
            .queries
            .par_iter()
            .map(|query| {
                let ranking = baseline.retrieve(&query.text, BASELINE_DEPTH)?;
                Ok(reciprocal_rank(runtime, &ranking, &query.answers))
            })
            .collect();
        ranks.insert(system.name(), of_queries?);
    }
    Ok(ranks)
}

/// The bundle against the best baseline on some validation queries; none without queries.
fn category_score(
    queries: &[usize],
    ranks: &[f32],
    baselines: &BTreeMap<&'static str, Vec<f32>>,
    seed: u64,
) -> Result<Option<CategoryScore>, OptimizeError> {
    let on = |ranks: &[f32]| -> Vec<f32> { queries.iter().map(|&query| ranks[query]).collect() };
    let best = baselines
        .iter()
        .map(|(&name, ranks)| (name, on(ranks)))
        .map(|(name, ranks)| (name, mean(&ranks), ranks))
        .reduce(|best, next| if next.1 > best.1 { next } else { best });
    let Some((baseline, baseline_mrr, baseline_ranks)) = best.filter(|_| !queries.is_empty())
    else {
        return Ok(None);
    };
    let ranks = on(ranks);
    let differences: Vec<f64> =
        ranks.iter().zip(&baseline_ranks).map(|(a, b)| f64::from(*a) - f64::from(*b)).collect();
    Ok(Some(CategoryScore {
        n: queries.len(),
        baseline: baseline.to_owned(),
        baseline_mrr,
        mrr: mean(&ranks),
        difference: mean(&ranks) - baseline_mrr,
        ci95: bootstrap_interval(&differences, seed)?,
    }))
}
