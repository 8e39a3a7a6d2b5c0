//! Runs programs on queries: compiled once, answered by the tools of one base, in the sandbox.
//!
//! Must not know: which answers are right, how programs are found.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    index::IndexedBase,
    kb::NodeId,
    program::Program,
    retrieve::{Ranking, RetrieveError, Retriever, checked, shortlist},
    sandbox::{
        Compiled, Failure, Input, Limits, Outcome, Param, Ran, RhaiSandbox, Sandbox, Workers,
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
    sandbox: RhaiSandbox,
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
        let sandbox = RhaiSandbox::new(workers);
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
        self.sandbox.compile(program.source(), &self.limits)
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
        let candidates = self.candidates(query)?;
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
