//! Runs programs and bundles on queries: compiled once, answered by the tools of one base, in the
//! sandbox.
//!
//! Must not know: which answers are right, how programs are found.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    bundle::{
        Bundle, Fusion,
        router::{Router, features},
    },
    index::IndexedBase,
    kb::{Combine, NodeId, Scores},
    program::Program,
    retrieve::{Ranking, RetrieveError, Retriever, checked, shortlist},
    sandbox::{
        ChosenSandbox, Compiled, Failure, Input, Limits, Outcome, Param, Ran, Sandbox,
        SandboxOptions, Workers,
    },
    tools::{Session, ToolCache, Trace},
};

/// Candidates a program is given.
pub const SHORTLIST: usize = 100;
/// Queries whose candidates are kept; at this number all are dropped.
const MAX_SHORTLISTS: usize = 10_000;

/// Values of declared parameters by name.
pub type ParamValues = BTreeMap<String, f64>;

/// One base with a sandbox: what programs run on.
pub struct Runtime {
    base: Arc<IndexedBase>,
    sandbox: ChosenSandbox,
    limits: Limits,
    cache: Option<Arc<ToolCache>>,
    shortlists: Mutex<HashMap<String, Arc<[NodeId]>>>,
}

impl Runtime {
    /// A runtime on a pool of workers. With a cache, equal tool calls are answered once.
    pub fn new(
        base: Arc<IndexedBase>,
        workers: Arc<Workers>,
        cache: Option<Arc<ToolCache>>,
    ) -> Self {
        Self::in_sandbox(base, workers, cache, &SandboxOptions::default())
    }

    /// The same, with a say in where programs run.
    pub fn in_sandbox(
        base: Arc<IndexedBase>,
        workers: Arc<Workers>,
        cache: Option<Arc<ToolCache>>,
        options: &SandboxOptions,
    ) -> Self {
        let sandbox = ChosenSandbox::new(workers, options);
        Self { base, sandbox, limits: Limits::default(), cache, shortlists: Mutex::default() }
    }

    /// The base.
    pub fn base(&self) -> &Arc<IndexedBase> {
        &self.base
    }

    /// Parses and checks a program.
    ///
    /// # Errors
    /// The failure, with its place in the source.
    pub fn compile(&self, program: &Program) -> Result<Compiled, Failure> {
        self.sandbox.compile(program.code(), &self.limits)
    }

    /// The numbers a program declares, by name.
    ///
    /// # Errors
    /// What `params()` fails with.
    pub fn declared_params(&self, compiled: &Compiled) -> Result<Vec<Param>, Failure> {
        self.sandbox.declared_params(compiled, &self.limits)
    }

    /// The candidates of a query; equal queries are searched once.
    ///
    /// # Errors
    /// Those of the indexes.
    pub fn candidates(&self, query: &str) -> Result<Arc<[NodeId]>, RetrieveError> {
        let lock = || self.shortlists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(candidates) = lock().get(query) {
            return Ok(candidates.clone());
        }
        let candidates: Arc<[NodeId]> = shortlist(&self.base, query, SHORTLIST)?.into();
        let mut kept = lock();
        if kept.len() >= MAX_SHORTLISTS {
            kept.clear();
        }
        kept.insert(query.to_owned(), candidates.clone());
        Ok(candidates)
    }

    /// Runs a program on one query; notes its tool calls if a trace is given.
    ///
    /// # Errors
    /// [`RetrieveError`] when the query cannot be searched; a failure of the program is in the
    /// inner result.
    pub fn run(
        &self,
        compiled: &Compiled,
        params: &ParamValues,
        query: &str,
        trace: Option<&Trace>,
    ) -> Result<Result<Outcome, Failure>, RetrieveError> {
        let query = checked(query)?;
        let candidates = match self.sandbox.reads_candidates(compiled) {
            true => self.candidates(query)?,
            false => Arc::default(),
        };
        let mut session = Session::new(self.base.clone(), self.cache.clone());
        if let Some(trace) = trace {
            session = session.traced(trace);
        }
        let n_nodes = self.base.kb.n_nodes() as usize;
        let input = Input { query, candidates: &candidates, params, n_nodes };
        let (result, _): Ran = self.sandbox.run(compiled, Box::new(session), input, &self.limits);
        Ok(result)
    }
}

/// A program as a retriever.
pub struct ProgramRetriever {
    runtime: Arc<Runtime>,
    name: String,
    compiled: Compiled,
    params: ParamValues,
}

impl ProgramRetriever {
    /// The program with its declared numbers, but for those given.
    ///
    /// # Errors
    /// When it does not compile.
    pub fn new(
        runtime: Arc<Runtime>,
        program: &Program,
        params: ParamValues,
    ) -> Result<Self, Failure> {
        let compiled = runtime.compile(program)?;
        Ok(Self { runtime, name: format!("program {}", program.short_id()), compiled, params })
    }
}

impl Retriever for ProgramRetriever {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn retrieve(&self, query: &str, k: usize) -> Result<Ranking, RetrieveError> {
        let outcome = self
            .runtime
            .run(&self.compiled, &self.params, query, None)?
            .map_err(|failure| RetrieveError::Program(failure.to_string()))?;
        let mut ranking = outcome.ranking;
        ranking.truncate(k);
        Ok(ranking)
    }

    fn explain(&self, query: &str, node: NodeId) -> Result<String, RetrieveError> {
        let trace = Trace::default();
        let outcome = self.runtime.run(&self.compiled, &self.params, query, Some(&trace))?;
        outcome.map_err(|failure| RetrieveError::Program(failure.to_string()))?;
        Ok(explain_calls(&self.runtime.base, &trace, node))
    }
}

/// One line for each traced call: how it was called, what it gave, and what it said of the node.
pub fn explain_calls(base: &IndexedBase, trace: &Trace, node: NodeId) -> String {
    let lines: Vec<String> =
        trace.take().iter().map(|call| call.describe(&base.kb, Some(node))).collect();
    lines.join("\n")
}

/// Probability below which a category is not asked.
const MIN_PROBABILITY: f32 = 0.01;

/// The categories that answer a query with their probabilities, most probable first.
pub fn chosen_categories(probabilities: &[f32], fusion: Fusion) -> Vec<(usize, f32)> {
    let mut order: Vec<(usize, f32)> = probabilities.iter().copied().enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    order.truncate(fusion.most.max(1));
    let keep = 1 + order.iter().skip(1).take_while(|pair| pair.1 >= MIN_PROBABILITY).count();
    order.truncate(keep);
    order
}

/// Rankings of several categories joined: the sum of their scores times their probabilities.
pub fn fuse(rankings: &[(f32, &Ranking)], fusion: Fusion) -> Ranking {
    let mut fused = Scores::default();
    for &(probability, ranking) in rankings {
        let scores = Scores::new(ranking.clone());
        let largest = if fusion.normalized { scores.largest().max(f32::MIN_POSITIVE) } else { 1.0 };
        let weighted = scores.map(|_, score| score.max(0.0) / largest * probability);
        fused = fused.combine(&weighted, Combine::Sum);
    }
    fused.ranking()
}

/// One category, ready to run.
struct Member {
    name: String,
    compiled: Compiled,
    params: ParamValues,
}

/// A bundle as a retriever.
pub struct BundleRetriever {
    runtime: Arc<Runtime>,
    name: String,
    members: Vec<Member>,
    router: Router,
    fusion: Fusion,
}

impl BundleRetriever {
    /// The bundle on a runtime; whether it was made for its base is the caller's to check.
    ///
    /// # Errors
    /// When one of its programs does not compile.
    pub fn new(runtime: Arc<Runtime>, bundle: &Bundle) -> Result<Self, Failure> {
        let members: Result<Vec<Member>, Failure> = bundle
            .categories
            .iter()
            .map(|category| {
                let compiled = runtime.compile(&category.program)?;
                let params = category.params.clone();
                Ok(Member { name: category.name.clone(), compiled, params })
            })
            .collect();
        let name = format!("bundle {}", bundle.digest.get(..12).unwrap_or_default());
        let (router, fusion) = (bundle.router.clone(), bundle.fusion);
        Ok(Self { runtime, name, members: members?, router, fusion })
    }

    /// The categories that answer a query with their probabilities, most probable first.
    ///
    /// # Errors
    /// That the query cannot be read.
    pub fn route(&self, query: &str) -> Result<Vec<(usize, f32)>, RetrieveError> {
        let features = features(self.runtime.base(), checked(query)?);
        Ok(chosen_categories(&self.router.probabilities(&features), self.fusion))
    }

    /// The ranking of one category; notes its tool calls if a trace is given.
    fn rank(
        &self,
        member: &Member,
        query: &str,
        trace: Option<&Trace>,
    ) -> Result<Ranking, RetrieveError> {
        self.runtime
            .run(&member.compiled, &member.params, query, trace)?
            .map(|outcome| outcome.ranking)
            .map_err(|failure| RetrieveError::Program(format!("{}: {failure}", member.name)))
    }
}

impl Retriever for BundleRetriever {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn retrieve(&self, query: &str, k: usize) -> Result<Ranking, RetrieveError> {
        let mut rankings = Vec::new();
        for (category, probability) in self.route(query)? {
            rankings.push((probability, self.rank(&self.members[category], query, None)?));
        }
        let borrowed: Vec<(f32, &Ranking)> =
            rankings.iter().map(|(probability, ranking)| (*probability, ranking)).collect();
        let mut ranking = fuse(&borrowed, self.fusion);
        ranking.truncate(k);
        Ok(ranking)
    }

    fn explain(&self, query: &str, node: NodeId) -> Result<String, RetrieveError> {
        let mut lines = String::new();
        for (category, probability) in self.route(query)? {
            let (member, trace) = (&self.members[category], Trace::default());
            let ranking = self.rank(member, query, Some(&trace))?;
            let place = ranking.iter().position(|pair| pair.0 == node);
            let place = place.map_or("not ranked".to_owned(), |at| {
                format!("rank {}, score {:.4}", at + 1, ranking[at].1)
            });
            lines += &format!("category {} ({:.0} %): {place}\n", member.name, probability * 100.0);
            for line in explain_calls(self.runtime.base(), &trace, node).lines() {
                lines += &format!("  {line}\n");
            }
        }
        Ok(lines)
    }

    fn category(&self, query: &str) -> Result<Option<String>, RetrieveError> {
        let route = self.route(query)?;
        Ok(route.first().map(|&(category, _)| self.members[category].name.clone()))
    }
}
