//! Freezes programs into a bundle: trains the router, re-ranker and cut-off, chooses the fusion of
//! categories, and measures the bundle on validation queries.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use rayon::prelude::*;

use crate::{
    OptimizeError, Result, Run,
    ablation::Ablation,
    actor::Actor,
    asks::asks,
    category_programs::{CategoryProgram, needed},
    cutoff::{self, FOLDS},
    fallback, reading, reranker, route,
    sequential_test::SequentialTest,
    trial::{Pool, TrialRanking, differences, generator, largest, mean},
    verdict::{Standing, Verdict},
};
use agent_dataset::{LabelledQuery, is_synthetic};
use agent_infer::{
    JoinSettings, MemberRankings,
    bundle::{
        Bundle, Category, CategoryScore, Dataset, FORMAT, Fusion, HeldOut, Member, Provenance,
        Validation,
        reading::{Phrasing, Phrasings},
        reranker::{NodeFeatures, Reranker, node_features},
        router::{Features, Router, features},
    },
    join, merged_routes, query_features, routes, select_categories,
};
use agent_kb::NodeId;
use agent_retrieve::{Baseline, Ranking, Retriever, System, eval::statistics::bootstrap_interval};

/// L2 penalties of the router, of which cross-validation on training queries chooses the best.
const RIDGES: [f64; 3] = [1e-3, 2e-3, 4e-3];
/// Number of the random generator's stream from which the folds of validation queries are drawn.
const FOLD_STREAM: u64 = 4 << 40;
/// Name of the only router feature of every query if the router is disabled.
const ALWAYS: &str = "always";
/// Another fusion is selected only if it is better than the fusion with the re-ranker by more than
/// this number of standard errors.
const CLEARLY: f64 = 2.0;
/// Number of nodes that a baseline ranks per query.
const BASELINE_DEPTH: usize = 1_000;

/// Router features of the training and validation queries, which do not depend on programs.
pub(super) struct PoolFeatures {
    train: Vec<Features>,
    validation: Vec<Features>,
    /// Phrasings of plain questions that were learned from the training queries, and the lexicon.
    phrasings: Phrasings,
}

impl PoolFeatures {
    /// Computes the router features of all training and validation queries, and learns phrasings of
    /// plain questions, in addition to those of the lexicon.
    pub(super) fn new(run: &Run<'_>, lexicon: Vec<Phrasing>) -> Result<Self> {
        let base = &run.base;
        let blind = run.options.lacks(Ablation::Router);
        let of_pool = |pool: &Pool| {
            let of = |text: &str| match blind {
                true => vec![(ALWAYS.to_owned(), 1.0)],
                false => features(base, text),
            };
            pool.queries.par_iter().map(|query| of(&query.text)).collect()
        };
        let mut phrasings = reading::learn(base, &run.train.queries, run.trials.stop)?;
        phrasings.0.extend(lexicon);
        let (train, validation) = (of_pool(&run.train), of_pool(&run.validation));
        Ok(Self { train, validation, phrasings })
    }
}

/// A trained router with its decisions on the training and validation queries.
pub(super) struct Routing {
    router: Router,
    /// Probability of each category for each training query, from a router that was trained without
    /// this query.
    pub(super) train: Vec<Vec<f32>>,
    /// For each category, the validation queries (as positions) for which it is the most probable
    /// category.
    pub(super) validation: Vec<Vec<usize>>,
}

impl Routing {
    /// Trains a router on the reciprocal ranks of each category's program on training queries.
    pub(super) fn new(features: &PoolFeatures, categories: &[CategoryProgram]) -> Self {
        let (router, train) = train_router(&features.train, categories);
        let mut validation = vec![Vec::new(); categories.len()];
        for (query, features) in features.validation.iter().enumerate() {
            let top =
                select_categories(&router.probabilities(features), Fusion::of_scores(1, true));
            top.first().into_iter().for_each(|&(at, _)| validation[at].push(query));
        }
        Self { router, train, validation }
    }
}

/// Trains a router with the penalty and the target that are best in cross-validation. The target is
/// either the programs' reciprocal ranks or, if queries were assigned to categories, this
/// assignment. Also returns the probability of each category for each training query, from a router
/// that was trained without this query.
fn train_router(features: &[Features], categories: &[CategoryProgram]) -> (Router, Vec<Vec<f32>>) {
    let worth: Vec<Vec<f32>> = (0..features.len())
        .map(|query| categories.iter().map(|category| category.train[query]).collect())
        .collect();
    let mut aims = vec![worth.clone()];
    if categories.iter().any(|category| category.queries.is_some()) {
        aims.push(assigned(&worth, categories));
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
                let router = route::train(&kept, &kept_aim, categories.len(), ridge);
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
            // Ties between penalties for one target go to the larger penalty; ties between the two
            // targets go to the reciprocal ranks.
            if reached > most || (reached == most && std::ptr::eq(aim, best.0)) {
                (best, most) = ((aim, ridge, probabilities), reached);
            }
        }
    }
    let (aim, ridge, probabilities) = best;
    (route::train(features, aim, categories.len(), ridge), probabilities)
}

/// Returns a copy of `worth` in which the rows of queries that were assigned to a category are
/// replaced: 1 for this category, 0 for the others.
fn assigned(worth: &[Vec<f32>], categories: &[CategoryProgram]) -> Vec<Vec<f32>> {
    let mut aim = worth.to_vec();
    for (at, category) in categories.iter().enumerate() {
        for &query in category.queries.iter().flat_map(|queries| &queries.train) {
            aim[query] = vec![0.0; categories.len()];
            aim[query][at] = 1.0;
        }
    }
    aim
}

/// Returns the fusions that are compared, for `n_categories` categories; the fusion with the
/// re-ranker comes last. All fusions mix in word search and, if `meaning` is true, vector search
/// with a sentence encoder.
fn fusions(n_categories: usize, meaning: bool) -> Vec<Fusion> {
    let mut fusions = Vec::new();
    for max_categories in [1, 3, n_categories] {
        for normalized in [true, false] {
            let max_categories = max_categories.min(n_categories);
            let fusion =
                Fusion { words: true, meaning, ..Fusion::of_scores(max_categories, normalized) };
            if !fusions.contains(&fusion) {
                fusions.push(fusion);
            }
        }
    }
    fusions.push(reranked(n_categories, meaning));
    fusions
}

/// Returns the fusion of all categories in which the learned re-ranker orders the nodes.
fn reranked(n_categories: usize, meaning: bool) -> Fusion {
    Fusion { ordered: true, words: true, meaning, ..Fusion::of_scores(n_categories, true) }
}

/// Runs the programs of all categories on all queries of the training or the validation pool.
/// Returns the rankings by category, then by query. A program that runs on only some training
/// queries has empty rankings on the others.
fn all_rankings(
    run: &Run<'_>,
    categories: &[CategoryProgram],
    on_validation: bool,
) -> Result<Vec<Vec<TrialRanking>>> {
    let pool = if on_validation { &run.validation } else { &run.train };
    let all: Vec<usize> = (0..pool.queries.len()).collect();
    let of = |category: &CategoryProgram| {
        let queries = category.part.as_ref().filter(|_| !on_validation).unwrap_or(&all);
        let ranked = run.trials.rankings(&category.program, &category.params, pool, queries)?;
        let mut of_all: Vec<TrialRanking> = vec![(Ranking::new(), None); all.len()];
        queries.iter().zip(ranked).for_each(|(&query, ranked)| of_all[query] = ranked);
        Ok(of_all)
    };
    categories.iter().map(of).collect()
}

/// Rankings of the training queries, and features of the ranked nodes for the re-ranker. The
/// category probabilities among the features come from a router that was trained without the query.
struct TrainingRankings {
    /// Ranking by each category's program, by category, then by query.
    rankings: Vec<Vec<Ranking>>,
    /// Features of the nodes in the rankings of all categories, for each query; empty for a plain
    /// question. Often most labelled questions are plain, and a re-ranker that learns from them
    /// relies too little on words: docs/lab/2026-11-29-plain-training.md.
    node_features: Vec<NodeFeatures>,
}

impl TrainingRankings {
    /// Runs the programs of all categories on all training queries and computes the node features.
    fn new(
        run: &Run<'_>,
        categories: &[CategoryProgram],
        routing: &Routing,
        phrasings: &Phrasings,
    ) -> Result<Self> {
        let rankings = without_failures(all_rankings(run, categories, false)?);
        run.trials.check_stop()?;
        let (base, fusion) = (&run.base, reranked(categories.len(), run.base.has_encoder()));
        let of_query = |(query, labelled): (usize, &LabelledQuery)| {
            let Some(of_query) = query_features(base, &labelled.text, phrasings)? else {
                return Ok(NodeFeatures::default());
            };
            let settings = JoinSettings { fusion, reranker: None };
            let part = member_rankings(&rankings, query, &routing.train[query], settings);
            Ok(node_features(base, &of_query, &part.rankings)?)
        };
        let train = run.train.queries.par_iter().enumerate();
        let node_features = train.map(of_query).collect::<Result<_>>()?;
        Ok(Self { rankings, node_features })
    }

    /// Trains a re-ranker on the training queries for whose positions `taken` returns true.
    fn reranker(&self, train: &[LabelledQuery], taken: impl Fn(usize) -> bool) -> Reranker {
        let training: Vec<(NodeFeatures, &[NodeId])> = (0..train.len())
            .filter(|&query| taken(query))
            .map(|query| (self.node_features[query].clone(), train[query].answers.as_slice()))
            .collect();
        reranker::train(&training)
    }

    /// Trains one re-ranker for each fold of the training queries, on the queries outside the fold.
    /// Returns an empty list if the fusion uses no re-ranker.
    fn without_folds(&self, train: &[LabelledQuery], fusion: Fusion) -> Vec<Reranker> {
        let folds = if fusion.ordered { FOLDS } else { 0 };
        let without = |fold: usize| self.reranker(train, |query| query % FOLDS != fold);
        (0..folds).into_par_iter().map(without).collect()
    }
}

/// Returns the rankings without their failure messages, by category, then by query.
fn without_failures(ranked: Vec<Vec<TrialRanking>>) -> Vec<Vec<Ranking>> {
    ranked.into_iter().map(|of| of.into_iter().map(|pair| pair.0).collect()).collect()
}

/// Returns the rankings of a query by the programs of the categories that the fusion chooses, each
/// with the probability of the category.
fn member_rankings<'a>(
    rankings: &'a [Vec<Ranking>],
    query: usize,
    probabilities: &[f32],
    settings: JoinSettings<'a>,
) -> MemberRankings<'a> {
    let chosen = select_categories(probabilities, settings.fusion).into_iter();
    let ranked = chosen.map(|(at, probability)| (probability, &rankings[at][query]));
    MemberRankings { settings, rankings: ranked.collect() }
}

/// A fusion with the reciprocal ranks that it reaches.
struct FusionRanks {
    fusion: Fusion,
    /// Reciprocal rank on each validation query.
    validation: Vec<f32>,
    /// Reciprocal rank on each training query, with a router and a re-ranker that were trained
    /// without this query.
    train: Vec<f32>,
}

/// Evaluation of one member of an ensemble: its categories, and the reciprocal ranks of every
/// fusion.
struct MemberEvaluation {
    categories: Vec<CategoryProgram>,
    routing: Routing,
    training: TrainingRankings,
    /// The re-ranker of the joined rankings, trained on all training queries.
    reranker: Reranker,
    /// Ranking by each category's program, by category, then by validation query.
    rankings: Vec<Vec<Ranking>>,
    fused: Vec<FusionRanks>,
}

impl MemberEvaluation {
    /// Runs the programs of all categories on all training and validation queries, and measures
    /// every fusion.
    fn new(
        run: &mut Run<'_>,
        categories: Vec<CategoryProgram>,
        features: &PoolFeatures,
    ) -> Result<Self> {
        let routing = Routing::new(features, &categories);
        run.trials.check_stop()?;
        let rankings = all_rankings(run, &categories, true)?;
        let all: Vec<usize> = (0..run.validation.queries.len()).collect();
        for (category, ranked) in categories.iter().zip(&rankings) {
            let origin = category.origin("frozen");
            let program = (&category.program, &category.params);
            run.trials.keep(program, &run.validation, &all, &origin, ranked)?;
        }
        let rankings = without_failures(rankings);
        let training = TrainingRankings::new(run, &categories, &routing, &features.phrasings)?;
        let reranker = training.reranker(&run.train.queries, |_| true);
        let fusions = fusions(categories.len(), run.base.has_encoder());
        let fused = Vec::new();
        let mut member = Self { categories, routing, training, reranker, rankings, fused };
        for fusion in fusions {
            let members = [(&member, fusion)];
            let validation = joined_ranks(run, features, &members)?;
            let train = ranks_of(run, &run.train, &training_rankings(run, features, &members)?);
            member.fused.push(FusionRanks { fusion, validation, train });
        }
        Ok(member)
    }

    /// Selects the fusion with the re-ranker, unless another fusion is better by more than
    /// [`CLEARLY`] standard errors of the mean difference. The fusions are compared on all training
    /// queries and the validation queries in `queries` (positions) together. Fusions differ on few
    /// queries, so that small differences may be chance (the rule of Breiman et al. 1984, with two
    /// standard errors, since the best of several fusions is compared).
    fn select(&self, queries: &[usize]) -> Result<&FusionRanks> {
        let ranks = |fused: &FusionRanks| {
            [values_at(&fused.validation, queries).as_slice(), fused.train.as_slice()].concat()
        };
        let none = || OptimizeError::NoQueries("validation", "val");
        let safe = self.fused.last().ok_or_else(none)?;
        let of_safe = ranks(safe);
        let lead = |fused: &FusionRanks| {
            let ranks = ranks(fused);
            let differences = || ranks.iter().zip(&of_safe).map(|(a, b)| f64::from(a - b));
            let n = ranks.len().max(1) as f64;
            let mean = differences().sum::<f64>() / n;
            let variance = differences().map(|of| (of - mean).powi(2)).sum::<f64>() / n;
            mean - CLEARLY * (variance / n).sqrt()
        };
        let best = largest(self.fused.iter().map(|fused| (lead(fused), fused)));
        Ok(best.filter(|best| best.0 > 0.0).map_or(safe, |best| best.1))
    }
}

/// Returns the reciprocal rank of an ensemble on each validation query. Each member of the ensemble
/// is given with its fusion.
fn joined_ranks(
    run: &Run<'_>,
    features: &PoolFeatures,
    members: &[(&MemberEvaluation, Fusion)],
) -> Result<Vec<f32>> {
    let joined = join_all(run, &run.validation, Some(&features.phrasings), |query| {
        let parts = members.iter().map(|&(member, fusion)| {
            let probabilities = member.routing.router.probabilities(&features.validation[query]);
            let settings = JoinSettings { fusion, reranker: Some(&member.reranker) };
            member_rankings(&member.rankings, query, &probabilities, settings)
        });
        parts.collect()
    });
    Ok(ranks_of(run, &run.validation, &joined?))
}

/// Joins the rankings of members for each query of a pool. `parts` returns the members' rankings
/// for the query at a position.
fn join_all<'a>(
    run: &Run<'_>,
    pool: &Pool,
    phrasings: Option<&Phrasings>,
    parts: impl Fn(usize) -> Vec<MemberRankings<'a>> + Sync,
) -> Result<Vec<Ranking>> {
    let base = &run.base;
    let joined = |(query, labelled): (usize, &LabelledQuery)| {
        Ok(join(base, &labelled.text, &parts(query), phrasings)?)
    };
    pool.queries.par_iter().enumerate().map(joined).collect()
}

/// Returns the reciprocal rank of each of `rankings`, which has one ranking for each query of a
/// pool.
fn ranks_of(run: &Run<'_>, pool: &Pool, rankings: &[Ranking]) -> Vec<f32> {
    let rank = |(labelled, ranking): (&LabelledQuery, &Ranking)| {
        run.trials.runtime.reciprocal_rank(ranking, &labelled.answers)
    };
    pool.queries.iter().zip(rankings).map(rank).collect()
}

/// Returns the ranking of each training query by an ensemble, whose members are given with their
/// fusions. The routers and re-rankers that rank a query were trained without this query.
fn training_rankings(
    run: &Run<'_>,
    features: &PoolFeatures,
    members: &[(&MemberEvaluation, Fusion)],
) -> Result<Vec<Ranking>> {
    run.trials.check_stop()?;
    let rerankers: Vec<Vec<Reranker>> = members
        .iter()
        .map(|&(member, fusion)| member.training.without_folds(&run.train.queries, fusion))
        .collect();
    join_all(run, &run.train, Some(&features.phrasings), |query| {
        let parts = members.iter().zip(&rerankers).map(|(&(member, fusion), folds)| {
            let MemberEvaluation { training, routing, .. } = member;
            let settings = JoinSettings { fusion, reranker: folds.get(query % FOLDS) };
            member_rankings(&training.rankings, query, &routing.train[query], settings)
        });
        parts.collect()
    })
}

/// The selected members of an ensemble, each with its fusion, and the reciprocal rank that they
/// reach together on each validation query.
struct Selection<'a> {
    members: Vec<(&'a MemberEvaluation, Fusion)>,
    ranks: Vec<f32>,
}

impl<'a> Selection<'a> {
    /// Selects all members if together they have a higher mean reciprocal rank than the first
    /// member on the validation queries at the positions `queries`, otherwise the first member
    /// alone. Each member has the fusion that [`MemberEvaluation::select`] chooses.
    fn new(
        members: &'a [MemberEvaluation],
        run: &Run<'_>,
        features: &PoolFeatures,
        queries: &[usize],
    ) -> Result<Self> {
        let best = members.iter().map(|member| Ok((member, member.select(queries)?)));
        let best = best.collect::<Result<Vec<_>>>()?;
        let mut members: Vec<(&MemberEvaluation, Fusion)> =
            best.iter().map(|&(member, best)| (member, best.fusion)).collect();
        let ranks = best.first().map_or_else(Vec::new, |(_, best)| best.validation.clone());
        if members.len() > 1 {
            let together = joined_ranks(run, features, &members)?;
            if mean(&values_at(&together, queries)) > mean(&values_at(&ranks, queries)) {
                return Ok(Self { members, ranks: together });
            }
        }
        members.truncate(1);
        Ok(Self { members, ranks })
    }

    /// Returns, for each validation query, the highest reciprocal rank that is reached by the
    /// members together or by any single program of a member.
    fn best_ranks(&self, run: &Run<'_>) -> Vec<f32> {
        let mut best = self.ranks.clone();
        for rankings in self.members.iter().flat_map(|(member, _)| &member.rankings) {
            for (best, rank) in best.iter_mut().zip(ranks_of(run, &run.validation, rankings)) {
                *best = rank.max(*best);
            }
        }
        best
    }

    /// Returns the distinct categories of all members, and the members in the bundle's form, which
    /// refer to these categories by position.
    fn frozen(&self) -> (Vec<&CategoryProgram>, Vec<Member>) {
        let mut categories: Vec<&CategoryProgram> = Vec::new();
        let mut members = Vec::new();
        for (member, fusion) in &self.members {
            let mut place = |one| {
                let is_same = |other: &&CategoryProgram| other.is_same(one);
                categories.iter().position(is_same).unwrap_or_else(|| {
                    categories.push(one);
                    categories.len() - 1
                })
            };
            members.push(Member {
                categories: member.categories.iter().map(&mut place).collect(),
                router: member.routing.router.clone(),
                fusion: *fusion,
                reranker: fusion.ordered.then(|| member.reranker.clone()),
            });
        }
        (categories, members)
    }
}

/// Evaluates the members that an ensemble may have, each given as its categories; a bundle uses
/// only the first or all of them.
fn evaluate(
    run: &mut Run<'_>,
    members: Vec<Vec<CategoryProgram>>,
    features: &PoolFeatures,
) -> Result<Vec<MemberEvaluation>> {
    members.into_iter().map(|own| MemberEvaluation::new(run, own, features)).collect()
}

/// Returns the values at the positions in `queries`, in this order.
fn values_at(values: &[f32], queries: &[usize]) -> Vec<f32> {
    queries.iter().map(|&query| values[query]).collect()
}

/// Programs at the end of a run: the initial programs of the categories, and the tested changes.
pub(super) struct FinalPrograms {
    /// Number of categories that the search actor found; they come first in `initial`.
    pub(super) search_count: usize,
    /// The categories with their initial programs.
    pub(super) initial: Vec<CategoryProgram>,
    /// The sequential test of the changes; `None` if no program changed.
    pub(super) test: Option<SequentialTest>,
}

impl FinalPrograms {
    /// Returns, for each category, whether its change would be proven without the validation
    /// queries in `queries` (positions); empty if no program changed.
    fn kept_without(&self, queries: &[usize]) -> Vec<bool> {
        self.test.as_ref().map_or_else(Vec::new, |test| test.kept_without(queries))
    }

    /// Returns the program of each category: the changed program where `kept` is true, otherwise
    /// the initial program.
    fn categories(&self, kept: &[bool]) -> Vec<CategoryProgram> {
        match &self.test {
            Some(test) => test.categories(&self.initial, kept),
            None => self.initial.clone(),
        }
    }
}

/// Returns the possible members of the ensemble, each a list of categories, for a run with a model.
/// The first member has the needed categories. If some of these come from the model, there is a
/// second member with the first `search_count` categories, which the search actor found. Routers
/// and re-rankers that are trained on the two lists make different errors.
fn members(
    categories: Vec<CategoryProgram>,
    search_count: usize,
    n_train: usize,
) -> Vec<Vec<CategoryProgram>> {
    let of_search: Vec<CategoryProgram> = categories.iter().take(search_count).cloned().collect();
    let needed = needed(categories, n_train);
    let is_found = |one: &CategoryProgram| of_search.iter().any(|other| other.is_same(one));
    match search_count == 0 || needed.iter().all(is_found) {
        true => vec![needed],
        false => vec![needed, of_search],
    }
}

/// Builds the bundle of a run and compares it with the baselines on validation queries. If it is
/// [`Standing::NotBetter`], returns a bundle that ranks like the best baseline.
pub(super) fn freeze(
    run: &mut Run<'_>,
    finished: &FinalPrograms,
    features: &PoolFeatures,
    actor: Option<&Actor>,
) -> Result<(Bundle, Verdict)> {
    (run.watch)(super::Event::Progress { phase: "measuring and freezing", done: 0, total: 1 });
    let n_train = run.train.queries.len();
    let members = |categories: Vec<CategoryProgram>| match actor.is_some() {
        true => members(categories, finished.search_count, n_train),
        false => vec![categories],
    };
    let of_run = members(finished.categories(&finished.kept_without(&[])));
    let evaluated = evaluate(run, of_run, features)?;
    let all: Vec<usize> = (0..run.validation.queries.len()).collect();
    let held_out = held_out(run, finished, &members, &evaluated, features)?;
    let chosen = Selection::new(&evaluated, run, features, &all)?;
    let ranks = chosen.ranks.clone();
    let baselines = baseline_ranks(run)?;
    let verdict = Verdict::new(&ranks, &baselines, run.options.seed)?;
    let best = chosen.best_ranks(run);
    let (categories, mut ensemble) = chosen.frozen();
    let asks = categories.iter().any(|category| asks(&category.program));
    let mut queries = vec![Vec::new(); categories.len()];
    for (query, features) in features.validation.iter().enumerate() {
        if let Some(&(at, _)) = merged_routes(&routes(&ensemble, features, None)).first() {
            queries[at].push(query);
        }
    }
    let category = |(category, queries): (&&CategoryProgram, &Vec<usize>)| {
        Ok(Category {
            name: category.name().to_owned(),
            program: category.program.clone(),
            params: category.params.clone(),
            proposed_by: category.proposed_by.clone(),
            validation: category_score(queries, &ranks, &baselines, run.options.seed)?,
        })
    };
    let categories: Result<Vec<Category>> = categories.iter().zip(&queries).map(category).collect();
    let dataset = Dataset {
        name: run.options.dataset.clone(),
        title: run.base.kb.title().to_owned(),
        kb: run.base.kb.fingerprint().to_owned(),
        index: run.base.fingerprint().to_owned(),
        embedder: run.base.embedder().describe(),
    };
    let validation = Validation {
        n: ranks.len(),
        mrr: mean(&ranks),
        baselines: baselines.iter().map(|(&name, of)| (name.to_owned(), mean(of))).collect(),
        held_out: Some(held_out),
        best_program: Some(mean(&best)),
        proof: finished.test.as_ref().map(|test| test.proof.clone()),
    };
    let provenance = Provenance {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: run.options.seed,
        steps: run.options.steps,
        n_train,
        n_validation: run.validation.queries.len(),
        llm: actor.map(|actor| actor.provenance(run.options, asks)),
        without: run.options.without.iter().map(|part| part.name().to_owned()).collect(),
        drift: Vec::new(),
        synthetic: is_synthetic(&run.train.queries) || is_synthetic(&run.validation.queries),
        baseline: None,
    };
    let rankings = training_rankings(run, features, &chosen.members)?;
    let answers = run.train.queries.iter().map(|labelled| labelled.answers.as_slice());
    let cutoff = cutoff::train(&rankings.into_iter().zip(answers).collect::<Vec<_>>());
    let Member { router, fusion, reranker, .. } = ensemble.remove(0);
    let (categories, digest) = (categories?, String::new());
    let bundle = Bundle {
        format: FORMAT,
        dataset,
        categories,
        router,
        fusion,
        reranker,
        ensemble,
        cutoff,
        phrasings: Some(features.phrasings.clone()),
        validation,
        provenance,
        digest,
    };
    let bundle = match verdict.standing {
        Standing::NotBetter => baseline_bundle(run, bundle, &verdict.baseline, &baselines)?,
        Standing::Better | Standing::Unproven => bundle.sealed(),
    };
    Ok((bundle, verdict))
}

/// Returns a bundle that ranks like a baseline, measured on the validation queries; returns
/// `bundle` if the baseline cannot be expressed as a program.
fn baseline_bundle(
    run: &Run<'_>,
    bundle: Bundle,
    baseline: &str,
    baselines: &BTreeMap<&'static str, Vec<f32>>,
) -> Result<Bundle> {
    let Some(program) = fallback::program(&run.base, baseline) else { return Ok(bundle.sealed()) };
    let all: Vec<usize> = (0..run.validation.queries.len()).collect();
    let ranked = run.trials.rankings(&program, &Default::default(), &run.validation, &all)?;
    let joined = join_all(run, &run.validation, bundle.phrasings.as_ref(), |query| {
        let settings = JoinSettings { fusion: fallback::FUSION, reranker: None };
        vec![MemberRankings { settings, rankings: vec![(1.0, &ranked[query].0)] }]
    });
    let ranks = ranks_of(run, &run.validation, &joined?);
    let score = category_score(&all, &ranks, baselines, run.options.seed)?;
    Ok(match score {
        Some(score) => fallback::bundle(bundle, program, score),
        None => bundle.sealed(),
    })
}

/// Estimates the bundle's mean reciprocal rank on new queries by cross-fitting: for each fold of
/// the validation queries, only the queries of the other folds decide the sequential test and the
/// choice of fusions and members.
fn held_out(
    run: &mut Run<'_>,
    finished: &FinalPrograms,
    members: &dyn Fn(Vec<CategoryProgram>) -> Vec<Vec<CategoryProgram>>,
    evaluated: &[MemberEvaluation],
    features: &PoolFeatures,
) -> Result<HeldOut> {
    let n = run.validation.queries.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.shuffle(&mut generator(run.options.seed, FOLD_STREAM));
    let folds = FOLDS.min(n);
    let kept = finished.kept_without(&[]);
    let mut others_kept: Vec<(Vec<bool>, Vec<MemberEvaluation>)> = Vec::new();
    let mut ranks = vec![0.0; n];
    for fold in 0..folds {
        let (inside, others): (Vec<_>, Vec<_>) =
            order.iter().enumerate().partition(|(place, _)| place % folds == fold);
        let [inside, others] =
            [inside, others].map(|of| of.into_iter().map(|(_, &query)| query).collect::<Vec<_>>());
        let kept_here = finished.kept_without(&inside);
        let known = others_kept.iter().position(|(other, _)| *other == kept_here);
        let evaluated = match (kept_here == kept, known) {
            (true, _) => evaluated,
            (_, Some(at)) => &others_kept[at].1,
            _ => {
                let of_run = members(finished.categories(&kept_here));
                others_kept.push((kept_here, evaluate(run, of_run, features)?));
                &others_kept[others_kept.len() - 1].1
            }
        };
        let fold_ranks = Selection::new(evaluated, run, features, &others)?.ranks;
        for query in inside {
            ranks[query] = fold_ranks[query];
        }
    }
    let values: Vec<f64> = ranks.iter().map(|&rank| f64::from(rank)).collect();
    let ci95 = bootstrap_interval(&values, run.options.seed)?;
    Ok(HeldOut { folds, mrr: mean(&ranks), ci95 })
}

/// Returns the reciprocal rank of each baseline on each validation query, by name of the baseline.
fn baseline_ranks(run: &Run<'_>) -> Result<BTreeMap<&'static str, Vec<f32>>> {
    let mut ranks = BTreeMap::new();
    for system in System::ALL {
        run.trials.check_stop()?;
        let baseline = Baseline::new(run.base.clone(), system);
        let ranking = |query: &LabelledQuery| baseline.retrieve(&query.text, BASELINE_DEPTH);
        let rankings: Result<Vec<Ranking>, _> =
            run.validation.queries.par_iter().map(ranking).collect();
        ranks.insert(system.name(), ranks_of(run, &run.validation, &rankings?));
    }
    Ok(ranks)
}

/// Compares the bundle with the best baseline on the validation queries in `queries` (positions);
/// `None` if there are none. `ranks` are the reciprocal ranks of the bundle, `baselines` those of
/// each baseline, by query.
///
/// # Errors
/// If a statistic cannot be computed.
pub fn category_score(
    queries: &[usize],
    ranks: &[f32],
    baselines: &BTreeMap<&'static str, Vec<f32>>,
    seed: u64,
) -> Result<Option<CategoryScore>> {
    let best = largest(baselines.iter().map(|(&name, ranks)| {
        let ranks = values_at(ranks, queries);
        (mean(&ranks), (name, ranks))
    }));
    let Some((baseline_mrr, (baseline, baseline_ranks))) = best.filter(|_| !queries.is_empty())
    else {
        return Ok(None);
    };
    let ranks = values_at(ranks, queries);
    let differences = differences(&ranks, &baseline_ranks);
    Ok(Some(CategoryScore {
        n: queries.len(),
        baseline: baseline.to_owned(),
        baseline_mrr,
        mrr: mean(&ranks),
        difference: mean(&ranks) - baseline_mrr,
        ci95: bootstrap_interval(&differences, seed)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_actors_programs_are_a_member_where_a_model_added_any() {
        let of = |source: &str, train: [f32; 4]| CategoryProgram::for_test(source, &train);
        let [first, second] = [of("a", [1.0, 0.5, 0.0, 0.0]), of("b", [0.0, 1.0, 1.0, 0.0])];
        let added = of("c", [0.0, 0.0, 0.0, 1.0]);
        let sources = |members: Vec<Vec<CategoryProgram>>| -> Vec<Vec<String>> {
            let of_member = |own: Vec<CategoryProgram>| {
                let mut sources: Vec<String> =
                    own.iter().map(|one| one.program.source().trim().to_owned()).collect();
                sources.sort();
                sources
            };
            members.into_iter().map(of_member).collect()
        };
        let all = || vec![first.clone(), second.clone(), added.clone()];
        assert_eq!(sources(members(all(), 2, 4)), [vec!["a", "b", "c"], vec!["a", "b"]]);
        // Without the search actor, and where the model's program adds nothing to the others.
        assert_eq!(sources(members(all(), 0, 4)), [vec!["a", "b", "c"]]);
        let idle = of("d", [0.0, 0.5, 0.0, 0.0]);
        let none = vec![first.clone(), second.clone(), idle];
        assert_eq!(sources(members(none, 2, 4)), [vec!["a", "b"]]);
    }
}
