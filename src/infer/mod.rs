//! Runs programs and bundles on queries: compiled once, answered by the tools of one base, in the
//! sandbox.
//!
//! [`Rerank`] and [`React`] answer with a language model and without any program.
//!
//! Must not know: which answers are right, how programs are found.

mod react;
mod rerank;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
};

use serde_json::json;

use crate::{
    bundle::{
        Bundle, Fusion,
        order::{Evidence, Order, evidence},
        router::{Router, features},
    },
    index::IndexedBase,
    kb::{Combine, NodeId, Scores},
    llm::{LlmError, Role},
    program::Program,
    retrieve::{Ranking, RetrieveError, Retriever, checked, shortlist},
    sandbox::{
        ChosenSandbox, Compiled, Failure, Input, Limits, Outcome, Param, Ran, Sandbox,
        SandboxOptions, Workers,
    },
    tools::{Assistant, AssistantError, Session, ToolCache, ToolCall, Trace},
};

pub use react::React;
pub use rerank::Rerank;

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
    assistant: Option<Arc<Assistant>>,
    /// Set when calls are to end soon.
    stop: Arc<AtomicBool>,
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
        let (limits, shortlists) = (Limits::default(), Mutex::default());
        let stop = Arc::default();
        Self { base, sandbox, limits, cache, assistant: None, stop, shortlists }
    }

    /// The same runtime, whose programs end soon once `stop` is set.
    pub fn stoppable(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// The same runtime with a language model for the tools that ask one.
    pub fn with_assistant(mut self, assistant: Option<Arc<Assistant>>) -> Self {
        self.assistant = assistant;
        self
    }

    /// The language model, if there is one.
    pub fn assistant(&self) -> Option<&Arc<Assistant>> {
        self.assistant.as_ref()
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
    /// [`RetrieveError`] when the query cannot be searched, or a tool could not ask its language
    /// model any more or was stopped, whatever the program made of it; a failure of the program is in the inner
    /// result.
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
        let mut session =
            Session::new(self.base.clone(), self.cache.clone()).stoppable(self.stop.clone());
        if let Some(assistant) = &self.assistant {
            session = session.with_assistant(assistant.clone());
        }
        if let Some(trace) = trace {
            session = session.traced(trace);
        }
        let n_nodes = self.base.kb.n_nodes() as usize;
        let input = Input { query, candidates: &candidates, params, n_nodes };
        let (result, host): Ran =
            self.sandbox.run(compiled, Box::new(session), input, &self.limits);
        match host.outage() {
            Some(error) => Err(RetrieveError::Llm(error)),
            None => Ok(result),
        }
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

/// One line for each traced call: how it was called, what it gave, what it said of the node, and
/// where in the program it stands.
pub fn explain_calls(base: &IndexedBase, trace: &Trace, node: NodeId) -> String {
    let told = |call: &ToolCall| {
        let line = call.line.map_or(String::new(), |line| format!("; line {line}"));
        format!("{}{line}", call.describe(&base.kb, Some(node)))
    };
    let lines: Vec<String> = trace.take().iter().map(told).collect();
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

/// Rankings of several categories as one answer: fused, and put in the order of the evidence where
/// the bundle has one.
///
/// # Errors
/// Those of the indexes.
pub fn join(
    base: &IndexedBase,
    query: &str,
    rankings: &[(f32, &Ranking)],
    fusion: Fusion,
    order: Option<&Order>,
) -> Result<Ranking, RetrieveError> {
    let fused = fuse(rankings, fusion);
    match order.filter(|_| fusion.ordered) {
        Some(order) => Ok(order.apply(&evidence(base, query, rankings)?, &fused)),
        None => Ok(fused),
    }
}

/// Kinds of evidence that an explanation names.
const MAX_REASONS: usize = 6;
/// Gain below which a kind of evidence is not named.
const LEAST_GAIN: f32 = 0.05;

/// One line for each kind of evidence that moves a node most in the order of the answer: by how
/// much against the mean of all nodes put forward, which evidence, what it is on this node.
fn explain_order(order: &Order, evidence: &Evidence, node: NodeId) -> String {
    let mut lines = String::new();
    for reason in order.reasons(evidence, node).into_iter().take(MAX_REASONS) {
        if reason.gain.abs() >= LEAST_GAIN {
            lines += &format!("order {:+.2}: {} {:.2}\n", reason.gain, reason.name, reason.value);
        }
    }
    lines
}

/// One category, ready to run.
struct Member {
    name: String,
    description: String,
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
    order: Option<Order>,
    /// Who routes instead of the bundle's router.
    assistant: Option<Arc<Assistant>>,
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
                Ok(Member {
                    name: category.name.clone(),
                    description: category.program.description().to_owned(),
                    compiled,
                    params: category.params.clone(),
                })
            })
            .collect();
        let name = format!("bundle {}", bundle.digest.get(..12).unwrap_or_default());
        let (router, fusion) = (bundle.router.clone(), bundle.fusion);
        let order = bundle.order.clone();
        Ok(Self { runtime, name, members: members?, router, fusion, order, assistant: None })
    }

    /// The same, routed by a language model: it is told names and descriptions of the categories.
    pub fn routed_by(mut self, assistant: Arc<Assistant>) -> Self {
        self.assistant = Some(assistant);
        self
    }

    /// The categories that answer a query with their probabilities, most probable first. A model
    /// names one; where it names none, the bundle's own router decides.
    ///
    /// # Errors
    /// That the query cannot be read, or that the model gave no reply.
    pub fn route(&self, query: &str) -> Result<Vec<(usize, f32)>, RetrieveError> {
        if let Some(assistant) = &self.assistant
            && let Some(category) = self.chosen_by(assistant, checked(query)?)?
        {
            return Ok(vec![(category, 1.0)]);
        }
        let features = features(self.runtime.base(), checked(query)?);
        Ok(chosen_categories(&self.router.probabilities(&features), self.fusion))
    }

    /// The category that a model chooses for a query.
    fn chosen_by(
        &self,
        assistant: &Assistant,
        query: &str,
    ) -> Result<Option<usize>, RetrieveError> {
        let categories: Vec<serde_json::Value> = self
            .members
            .iter()
            .enumerate()
            .map(|(at, member)| {
                json!({
                    "n": at + 1,
                    "name": member.name,
                    "description": member.description,
                    "queries": [],
                })
            })
            .collect();
        let inputs = json!({ "categories": categories, "query": query });
        let reply = match assistant.json(Role::Router, "router/choose", inputs) {
            Ok(reply) => reply,
            Err(AssistantError::Llm(LlmError::Reply { .. })) => return Ok(None),
            Err(AssistantError::Llm(error)) => return Err(RetrieveError::Llm(error)),
            Err(AssistantError::Prompt(error)) => {
                return Err(RetrieveError::Program(error.to_string()));
            }
        };
        let number = reply["category"].as_u64().and_then(|n| usize::try_from(n).ok());
        Ok(number.filter(|n| (1..=self.members.len()).contains(n)).map(|n| n - 1))
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
        let (base, order) = (self.runtime.base(), self.order.as_ref());
        let mut ranking = join(base, checked(query)?, &borrowed, self.fusion, order)?;
        ranking.truncate(k);
        Ok(ranking)
    }

    fn explain(&self, query: &str, node: NodeId) -> Result<String, RetrieveError> {
        let mut lines = String::new();
        let mut rankings = Vec::new();
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
            rankings.push((probability, ranking));
        }
        if let Some(order) = self.order.as_ref().filter(|_| self.fusion.ordered) {
            let borrowed: Vec<(f32, &Ranking)> =
                rankings.iter().map(|(probability, ranking)| (*probability, ranking)).collect();
            let evidence = evidence(self.runtime.base(), checked(query)?, &borrowed)?;
            lines += &explain_order(order, &evidence, node);
        }
        Ok(lines)
    }

    fn category(&self, query: &str) -> Result<Option<String>, RetrieveError> {
        let route = self.route(query)?;
        Ok(route.first().map(|&(category, _)| self.members[category].name.clone()))
    }
}
