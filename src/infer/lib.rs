//! Runs programs and bundles on queries, in the sandbox and with the tools of one base.
//!
//! [`Rerank`] and [`React`] answer with a language model instead of programs.
//!
//! ```no_run
//! use std::{path::Path, sync::Arc};
//!
//! use agent::{
//!     bundle::Bundle, dataset::Home, index::IndexedBase,
//!     infer::{BundleRetriever, Runtime},
//!     retrieve::Retriever, sandbox::Workers,
//! };
//!
//! let shop = Home::new("home").get("shop")?;
//! let base = Arc::new(IndexedBase::open(&shop.kb_dir(), &shop.index_dir(), "shop")?);
//! let bundle = Bundle::read(Path::new("bundle.json"))?;
//! bundle.check_base(&base)?;
//! let runtime = Runtime::new(base, Arc::new(Workers::new(2)?), None);
//! let answers = BundleRetriever::new(Arc::new(runtime), &bundle)?;
//! let ranking = answers.retrieve("a durable steel bottle by Northpeak", 20)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
pub mod bundle;
mod expand;
pub mod explain;
#[cfg(test)]
#[path = "../../tests/it/support/given.rs"]
mod given;
mod join;
mod query_reader;
pub mod rag;
mod react;
mod record;
mod rerank;
mod shown;
mod tail;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use tracing::{Span, trace_span};

use crate::{
    bundle::{
        Bundle, Category, Member, conditions::Conditions, cutoff::Cutoff, reading::Phrasings,
        reranker::NodeFeatures, router::features,
    },
    join::{JoinedAnswer, QueryContext, join_with_features},
    query_reader::{CategoryOption, ReadQuery, fields_text, mix_in, read_query},
};
use agent_ground::{locks::locked, words::one_line};
use agent_index::IndexedBase;
use agent_kb::{
    Kb, NodeId,
    answer::{Cell, Explanation},
};
use agent_llm::{LlmError, RoleSpec};
use agent_retrieve::{
    Answer, AssistFailure, Call, Detail, NodeExplanation, Ranking, RetrieveError, Retriever,
    RoutedCategory, check_query,
    eval::{AnswerRanks, Candidates},
    rank_explanation, rank_in_list, shortlist,
};
use agent_sandbox::{
    ChosenSandbox, CompiledProgram, Failure, FailureKind, Input, Limits, Outcome, Param, RunResult,
    Sandbox, SandboxOptions, Workers, program::Program,
};
use agent_tools::{Assistant, AssistantError, Session, ToolCache, ToolCall, Trace};

pub use answer::{STAND_IN, answer};
pub use expand::{EXPAND_ROLE, Expander, expand_requests};
pub use join::{
    JoinSettings, MemberRankings, fuse, join, merged_routes, parts, query_features, routes,
    select_categories,
};
pub use query_reader::READ_REQUESTS;
pub use react::{REACT_REQUESTS, REACT_ROLE, React};
pub use record::{
    AnswerRecord, EntityRecord, Expected, HitRecord, SchemaWordRecord, StepRecord,
    UnderstoodRecord, WayRecord, hits, path_in_words,
};
pub use rerank::{Depth, RERANK_REQUESTS, RERANK_ROLE, Rerank};
pub(crate) use shown::LinkedEntities;

/// The role that reads a new query.
pub const ROUTER_ROLE: RoleSpec = RoleSpec {
    name: "router",
    summary: "reads a new query: its category, entities, wanted type, constraints, conditions",
    temperature: Some(0.0),
    max_tokens: 1_024,
};

/// The requests that a system sends to a language model for one query: their prompts and the bounds
/// of their number.
#[derive(Clone, Debug)]
pub struct RequestBounds {
    /// Role of the language model in these requests.
    pub role: RoleSpec,
    /// Name of the prompt of the first request.
    pub prompt: &'static str,
    /// For conversations: name of the prompt of each later turn, and the maximum number of later
    /// turns.
    pub later: Option<(&'static str, usize)>,
    /// Minimum number of requests, if every reply is usable.
    pub min: usize,
    /// Maximum number of requests, including repairs.
    pub max: usize,
}

/// Maximum length of a logged reason in characters.
const MAX_LOGGED: usize = 300;

/// Logs on one line why a reply of a language model is unusable; `-v` shows these lines.
pub(crate) fn log_unassisted(role: &RoleSpec, reason: &str) {
    let reason: String = one_line(reason).chars().take(MAX_LOGGED).collect();
    tracing::info!("no usable reply from the language model in role {}: {reason}", role.name);
}

/// Logs that a query is answered without the help of the model in `role`, and returns why.
///
/// # Errors
/// [`RetrieveError::Llm`] if a ceiling is reached or the run is stopped, since every further
/// request fails too; [`RetrieveError::Program`], its message after `prefix`, if the prompt cannot
/// be rendered.
pub(crate) fn assist_failure(
    role: &RoleSpec,
    error: AssistantError,
    prefix: &str,
) -> Result<AssistFailure, RetrieveError> {
    let failure = match &error {
        AssistantError::Llm(LlmError::Reply { .. }) => AssistFailure::Unusable,
        AssistantError::Llm(error) if error.is_outage() => AssistFailure::Outage,
        AssistantError::Llm(error) => return Err(RetrieveError::Llm(error.clone())),
        AssistantError::Prompt(error) => {
            return Err(RetrieveError::Program(format!("{prefix}{error}")));
        }
    };
    log_unassisted(role, &error.to_string());
    Ok(failure)
}

/// Number of candidates passed to a program.
pub const SHORTLIST: usize = 100;
/// Maximum number of queries with cached candidates; the cache is cleared when it is full.
const MAX_SHORTLISTS: usize = 10_000;

/// Values of a program's declared parameters, by parameter name.
pub type ParamValues = BTreeMap<String, f64>;

/// A knowledge base and a sandbox that runs programs on it.
pub struct Runtime {
    base: Arc<IndexedBase>,
    sandbox: ChosenSandbox,
    limits: Limits,
    cache: Option<Arc<ToolCache>>,
    assistant: Option<Arc<Assistant>>,
    /// Maximum number of requests to the language model, and of tokens, that the tools use in one
    /// program call; `None` for the default limits of [`Session`].
    asking: Option<(u64, u64)>,
    /// If set to `true`, running programs end soon.
    stop: Arc<AtomicBool>,
    shortlists: Mutex<HashMap<String, Arc<[NodeId]>>>,
    runs: AtomicU64,
}

impl Runtime {
    /// Creates a runtime that runs programs on `workers`, with default sandbox options. With a
    /// cache, equal tool calls are computed once.
    pub fn new(
        base: Arc<IndexedBase>,
        workers: Arc<Workers>,
        cache: Option<Arc<ToolCache>>,
    ) -> Self {
        Self::in_sandbox(base, workers, cache, &SandboxOptions::default())
    }

    /// Creates a runtime with sandbox options. Loads the embedder in advance, so that no program
    /// waits for it. If that fails, the tools that need the embedder report the error.
    pub fn in_sandbox(
        base: Arc<IndexedBase>,
        workers: Arc<Workers>,
        cache: Option<Arc<ToolCache>>,
        options: &SandboxOptions,
    ) -> Self {
        let _ = base.embedder().prepare();
        let sandbox = ChosenSandbox::new(workers, options);
        let (limits, shortlists) = (Limits::default(), Mutex::default());
        let (stop, runs) = Default::default();
        let (assistant, asking) = (None, None);
        Self { base, sandbox, limits, cache, assistant, asking, stop, shortlists, runs }
    }

    /// Ends programs soon after `stop` is set.
    pub fn stoppable(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// Sets the language model for the tools that ask one.
    pub fn with_assistant(mut self, assistant: Option<Arc<Assistant>>) -> Self {
        self.assistant = assistant;
        self
    }

    /// Limits the number of requests to the language model and of tokens, both per program call.
    pub fn asking_at_most(mut self, requests: u64, tokens: u64) -> Self {
        self.asking = Some((requests, tokens));
        self
    }

    /// Limits the memory of each program call.
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.limits.memory_bytes = bytes;
        self
    }

    /// Returns the language model, if any.
    pub fn assistant(&self) -> Option<&Arc<Assistant>> {
        self.assistant.as_ref()
    }

    /// Returns the base.
    pub fn base(&self) -> &Arc<IndexedBase> {
        &self.base
    }

    /// Returns the number of program runs so far, on all threads.
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Parses and checks a program.
    ///
    /// # Errors
    /// Fails with the error and its position in the source.
    pub fn compile(&self, program: &Program) -> Result<CompiledProgram, Failure> {
        self.sandbox.compile(program.code(), &self.limits)
    }

    /// Returns the parameters that a program declares, by name.
    ///
    /// # Errors
    /// Fails if the program's function `params()` fails.
    pub fn declared_params(&self, compiled: &CompiledProgram) -> Result<Vec<Param>, Failure> {
        self.sandbox.declared_params(compiled, &self.limits)
    }

    /// Returns the first [`SHORTLIST`] candidates of a query, cached by query.
    ///
    /// # Errors
    /// Errors of the indexes.
    pub fn candidates(&self, query: &str) -> Result<Arc<[NodeId]>, RetrieveError> {
        let lock = || locked(&self.shortlists);
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

    /// Ranks the default list of candidates for a query.
    ///
    /// # Errors
    /// [`RetrieveError`] from the search for candidates.
    pub fn default_ranking(&self, query: &str) -> Result<Ranking, RetrieveError> {
        let candidates = self.candidates(query)?;
        let n = candidates.len() as f32;
        Ok(candidates.iter().enumerate().map(|(at, &node)| (node, n - at as f32)).collect())
    }

    /// Returns the reciprocal rank of the best ranked answer in a ranking, counting only nodes that
    /// are candidates; 0 if no answer is ranked.
    pub fn reciprocal_rank(&self, ranking: &Ranking, answers: &[NodeId]) -> f32 {
        let candidates = Candidates::of_base(&self.base.kb);
        AnswerRanks::new(ranking, answers, candidates).reciprocal_rank()
    }

    /// Runs a program on one query; records its tool calls in `trace`.
    ///
    /// # Errors
    /// [`RetrieveError`] if the query cannot be searched, if a tool could not reach its language
    /// model, or if the run was stopped. The inner result holds a failure of the program.
    pub fn run(
        &self,
        compiled: &CompiledProgram,
        params: &ParamValues,
        query: &str,
        trace: Option<&Trace>,
    ) -> Result<Result<Outcome, Failure>, RetrieveError> {
        let query = check_query(query)?;
        let _span = trace_span!("program").entered();
        self.runs.fetch_add(1, Ordering::Relaxed);
        let candidates = match self.sandbox.reads_candidates(compiled) {
            true => self.candidates(query)?,
            false => Arc::default(),
        };
        let session = Session::new(self.base.clone(), self.cache.clone())
            .stoppable(self.stop.clone())
            .with_assistant(self.assistant.clone())
            .with_llm_limits(self.asking)
            .with_trace(trace);
        let n_nodes = self.base.kb.n_nodes() as usize;
        let input = Input { query, candidates: &candidates, params, n_nodes };
        let (result, host): RunResult =
            self.sandbox.run(compiled, Box::new(session), input, &self.limits);
        match host.outage() {
            Some(error) => Err(RetrieveError::Llm(error)),
            None => Ok(result),
        }
    }
}

/// Answers queries with one program.
pub struct ProgramRetriever {
    runtime: Arc<Runtime>,
    name: String,
    compiled: CompiledProgram,
    params: ParamValues,
}

impl ProgramRetriever {
    /// Compiles a program; `params` override its declared parameters.
    ///
    /// # Errors
    /// Fails if the program does not compile.
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

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let trace = (detail.explained_count > 0).then(Trace::default);
        let outcome = self
            .runtime
            .run(&self.compiled, &self.params, query, trace.as_ref())?
            .map_err(|failure| failed(&failure, failure.to_string()))?;
        let mut ranking = outcome.ranking;
        ranking.truncate(k);
        let calls = trace.map(|trace| trace.take()).unwrap_or_default();
        let calls = ProgramCalls::new(&self.runtime.base.kb, "", calls);
        let explained = |at, node, score| NodeExplanation {
            explanation: rank_explanation(&self.name, at, score),
            calls: calls.on(node).collect(),
            features: Vec::new(),
        };
        Ok(Answer::with_explanations(ranking, detail, explained))
    }
}

/// Tool calls of one run of a program, formatted once for all nodes of its answer.
#[derive(Default)]
pub struct ProgramCalls {
    calls: Vec<ToolCall>,
    /// The same calls, formatted for display; the node's value in each is still empty.
    described: Vec<Call>,
}

impl ProgramCalls {
    /// Formats the calls of a category's program; `category` is empty for a single program.
    pub fn new(kb: &Kb, category: &str, calls: Vec<ToolCall>) -> Self {
        let category: Arc<str> = category.into();
        let describe = |call: &ToolCall| Call {
            category: category.clone(),
            line: call.line,
            tool: call.name,
            arguments: call.arguments(kb).into(),
            result: call.outcome(kb).into(),
            value: Cell::Empty,
        };
        Self { described: calls.iter().map(describe).collect(), calls }
    }

    /// Returns the formatted calls, each with the value that its result holds for `node`.
    pub fn on(&self, node: NodeId) -> impl Iterator<Item = Call> + '_ {
        let with_value = move |(call, described): (&ToolCall, &Call)| Call {
            value: call.value_of(node),
            ..described.clone()
        };
        self.calls.iter().zip(&self.described).map(with_value)
    }
}

/// A category with its compiled program.
struct CategoryProgram {
    category: Category,
    compiled: CompiledProgram,
}

impl CategoryProgram {
    fn compile(runtime: &Runtime, category: Category) -> Result<Self, Failure> {
        let compiled = runtime.compile(&category.program)?;
        Ok(Self { category, compiled })
    }
}

/// A run of one category's program.
struct CategoryRun<'a> {
    /// Index of the category in the bundle.
    category: usize,
    category_program: &'a CategoryProgram,
    probability: f32,
    ranking: Ranking,
    /// Tool calls of the run; empty unless an explanation was requested.
    calls: ProgramCalls,
}

/// The rankings of the routed categories and the other inputs of one joined answer.
struct RankedCategories<'a> {
    /// Runs of all routed categories, most probable first.
    runs: Vec<CategoryRun<'a>>,
    routes: Routes,
    context: QueryContext,
}

/// For each member of the bundle, the routed categories as pairs of category index and probability,
/// most probable first.
type Routes = Vec<Vec<(usize, f32)>>;

/// Answers queries with a bundle: runs the programs of the categories to which a query is routed,
/// and joins their rankings.
pub struct BundleRetriever {
    runtime: Arc<Runtime>,
    name: String,
    category_programs: Vec<CategoryProgram>,
    members: Vec<Member>,
    cutoff: Option<Cutoff>,
    phrasings: Option<Phrasings>,
    /// Model that reads the query, in addition to the bundle's router.
    assistant: Option<Arc<Assistant>>,
    /// Fields and relations of the base, as the prompt shows them; set by the first query.
    fields: OnceLock<String>,
    /// Whether nodes that the model names from its own knowledge are used as answers.
    known_answers: bool,
}

impl BundleRetriever {
    /// Compiles the programs of a bundle. The caller must check that the bundle fits the base.
    ///
    /// # Errors
    /// Fails if a program does not compile.
    pub fn new(runtime: Arc<Runtime>, bundle: &Bundle) -> Result<Self, Failure> {
        let category_programs: Result<Vec<CategoryProgram>, Failure> = bundle
            .categories
            .iter()
            .map(|category| CategoryProgram::compile(&runtime, category.clone()))
            .collect();
        let name = format!("bundle {}", bundle.digest.get(..12).unwrap_or_default());
        let (cutoff, phrasings) = (bundle.cutoff.clone(), bundle.phrasings.clone());
        let (category_programs, members) = (category_programs?, bundle.members());
        Ok(Self {
            runtime,
            name,
            category_programs,
            members,
            phrasings,
            cutoff,
            assistant: None,
            fields: OnceLock::new(),
            known_answers: true,
        })
    }

    /// Uses a language model to read queries. Its prompt shows the names and descriptions of the
    /// categories, and the linked entities.
    pub fn read_by(mut self, assistant: Arc<Assistant>) -> Self {
        self.assistant = Some(assistant);
        self
    }

    /// Ignores answers that the model names from its own knowledge; uses only its reading of the
    /// query.
    pub fn without_known_answers(mut self) -> Self {
        self.known_answers = false;
        self
    }

    /// Returns the indexes of the categories that answer a query, with probabilities, most probable
    /// first. The probabilities are means over the members of the bundle. If a model reads the
    /// query, each is also averaged with the model's probability.
    ///
    /// # Errors
    /// Fails if the query cannot be searched, or if a ceiling on cost or tokens, or a stop,
    /// prevents the request to the model.
    pub fn route(&self, query: &str) -> Result<Vec<(usize, f32)>, RetrieveError> {
        let query = check_query(query)?;
        let read = self.read(query)?.and_then(Result::ok);
        Ok(merged_routes(&self.routes(query, read.as_ref())))
    }

    /// Returns the routed categories of each member; mixes in the category that the model's reading
    /// names, if any.
    fn routes(&self, query: &str, read: Option<&ReadQuery>) -> Routes {
        let named = read.and_then(|read| read.category);
        routes(&self.members, &features(self.runtime.base(), query), named)
    }

    /// Lets the model read the query; `None` without a model.
    fn read(&self, query: &str) -> Result<Option<Result<ReadQuery, AssistFailure>>, RetrieveError> {
        let Some(assistant) = &self.assistant else { return Ok(None) };
        let category_programs = self.category_programs.iter();
        let offered: Vec<CategoryOption<'_>> = category_programs
            .map(|CategoryProgram { category, .. }| CategoryOption {
                name: &category.name,
                description: (!category.is_described_by_name())
                    .then_some(category.program.description()),
            })
            .collect();
        let base = self.runtime.base();
        let fields = self.fields.get_or_init(|| fields_text(base));
        let read = read_query(base, assistant, query, &offered, fields)?;
        Ok(Some(if self.known_answers { read } else { read.map(ReadQuery::without_answers) }))
    }

    /// Collects the parts of an answer that depend only on the query: vector search, features and
    /// reading.
    fn context(&self, query: &str, conditions: Conditions) -> Result<QueryContext, RetrieveError> {
        let settings: Vec<JoinSettings<'_>> =
            self.members.iter().map(JoinSettings::for_member).collect();
        let (base, phrasings) = (self.runtime.base(), self.phrasings.as_ref());
        Ok(QueryContext::collect(base, query, conditions, &settings, phrasings)?)
    }

    /// Runs the program of every routed category on the query without its conditions. Meanwhile
    /// another thread collects the context, and then also runs programs. Programs that may ask a
    /// language model run in order on one thread, because the order determines which program
    /// reaches a ceiling.
    fn runs(
        &self,
        query: &str,
        read: Option<&ReadQuery>,
        detail: Detail,
    ) -> Result<RankedCategories<'_>, RetrieveError> {
        let conditions = Conditions::read(self.runtime.base(), query);
        let (routed, wanted) = (OnceLock::new(), conditions.wanted.clone());
        let (next, runs) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let lock = || locked(&runs);
        let run_programs = |routed: &[(usize, f32)]| {
            let take = || {
                let at = next.fetch_add(1, Ordering::Relaxed);
                routed.get(at).map(|&category| (at, category))
            };
            while let Some((at, category)) = take() {
                let run = self.run_category(&wanted, category, detail);
                if run.is_err() {
                    next.store(routed.len(), Ordering::Relaxed);
                }
                lock().push((at, run));
            }
        };
        let span = Span::current();
        let ((), context) = run_both(
            || {
                let routes = self.routes(&wanted, read);
                run_programs(&routed.get_or_init(|| (merged_routes(&routes), routes)).0);
            },
            || {
                let context = self.context(query, conditions);
                if let Some(routed) = routed.get().filter(|_| self.runtime.assistant().is_none()) {
                    span.in_scope(|| run_programs(&routed.0));
                }
                context
            },
        );
        let mut runs = std::mem::take(&mut *lock());
        runs.sort_unstable_by_key(|(at, _)| *at);
        let runs: Result<Vec<CategoryRun<'_>>, RetrieveError> =
            runs.into_iter().map(|(_, run)| run).collect();
        let routes = routed.into_inner().map_or_else(Routes::new, |routed| routed.1);
        Ok(RankedCategories { runs: runs?, routes, context: context? })
    }

    fn run_category(
        &self,
        query: &str,
        (category, probability): (usize, f32),
        detail: Detail,
    ) -> Result<CategoryRun<'_>, RetrieveError> {
        let category_program = &self.category_programs[category];
        let trace = (detail.explained_count > 0).then(Trace::default);
        let CategoryProgram { category: Category { name, params, .. }, compiled } =
            category_program;
        let ranking = self
            .runtime
            .run(compiled, params, query, trace.as_ref())?
            .map_err(|failure| failed(&failure, format!("{name}: {failure}")))?
            .ranking;
        let calls = trace.map(|trace| trace.take()).unwrap_or_default();
        let calls = ProgramCalls::new(&self.runtime.base().kb, name, calls);
        Ok(CategoryRun { category, category_program, probability, ranking, calls })
    }

    /// Explains why the node is at position `at` of the joined ranking: its rank in each category,
    /// its features in the re-ranker, the reading of a plain question, and the model's reading.
    fn why(
        &self,
        runs: &[CategoryRun<'_>],
        joined: &JoinedAnswer,
        own: Option<&Ranking>,
        at: usize,
        (node, score): (NodeId, f32),
    ) -> NodeExplanation {
        let categories = runs.iter().map(|run| {
            let found = rank_in_list("category", &run.ranking, node);
            let probability = Explanation::new("probability", run.probability);
            Explanation::new("category", run.category_program.category.name.as_str())
                .with([probability])
                .with(found.children)
        });
        let reading = joined.reading.as_ref().map(|reading| reading.explanation(node));
        let kb = &self.runtime.base().kb;
        let asked = joined.asked.iter().filter(|_| joined.reading.is_none());
        let asked = asked.map(|&kind| Explanation::new("type asked for", kb.type_name(kind)));
        let of_model = own.map(|own| rank_in_list("reading of the language model", own, node));
        let explanation = rank_explanation(&self.name, at, score)
            .with(categories)
            .with(reading)
            .with(asked)
            .with(of_model);
        let calls = runs.iter().flat_map(|run| run.calls.on(node));
        let reasons = |(member, features): (&Member, &Option<NodeFeatures>)| {
            Some(member.reranker.as_ref()?.reasons(features.as_ref()?, node))
        };
        let of_members = self.members.iter().zip(&joined.features);
        let features = of_members.filter_map(reasons).find(|reasons| !reasons.is_empty());
        NodeExplanation {
            explanation,
            calls: calls.collect(),
            features: features.unwrap_or_default(),
        }
    }
}

/// Runs `here` on this thread and `elsewhere` on a rayon thread. Unlike `rayon::join`, the waiting
/// thread does not start work of other questions.
fn run_both<A, B: Send>(here: impl FnOnce() -> A, elsewhere: impl FnOnce() -> B + Send) -> (A, B) {
    let mut found = None;
    let own = rayon::in_place_scope(|scope| {
        scope.spawn(|_| found = Some(elsewhere()));
        here()
    });
    let found = found.unwrap_or_else(|| unreachable!("a scope waits for its spawned tasks"));
    (own, found)
}

/// Ranks nodes in their order, with scores that fall from 1 in equal steps.
pub(crate) fn in_order(nodes: &[NodeId]) -> Ranking {
    let n = nodes.len();
    nodes.iter().enumerate().map(|(at, &node)| (node, (n - at) as f32 / n as f32)).collect()
}

/// Converts the failure of a program into a query error: [`RetrieveError::Late`] after a deadline,
/// [`RetrieveError::Program`] otherwise.
fn failed(failure: &Failure, message: String) -> RetrieveError {
    match failure.kind {
        FailureKind::Deadline => RetrieveError::Late(message),
        _ => RetrieveError::Program(message),
    }
}

impl Retriever for BundleRetriever {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let (read, unassisted) = match self.read(query)? {
            Some(Err(miss)) => (None, Some(miss)),
            read => (read.and_then(Result::ok), None),
        };
        let RankedCategories { runs, routes, context } = self.runs(query, read.as_ref(), detail)?;
        let is_believed = read.as_ref().is_some_and(|read| read.weight() > 0.0);
        let context = if is_believed { context.without_conditions() } else { context };
        let ranking = |at| runs.iter().find(|run| run.category == at).map(|run| &run.ranking);
        let parts = parts(&self.members, &routes, ranking);
        let mut joined = join_with_features(self.runtime.base(), &parts, context)?;
        // The cut-off depends on all nodes, so that it is the same for every `k`.
        let end = self.cutoff.as_ref().and_then(|cutoff| match &joined.reading {
            Some(reading) if reading.by_synonym => None,
            Some(reading) => cutoff.surest_at(reading.answers.len()),
            None => cutoff.end(&joined.ranking),
        });
        // The reading of a plain question replaces the model's.
        let read = read.filter(|_| joined.reading.is_none());
        let own = read.as_ref().map(|read| read.ranking(self.runtime.base()));
        if let Some((read, own)) = read.as_ref().zip(own.as_ref())
            && is_believed
        {
            let mixed = mix_in(joined.ranking, own, read.weight());
            joined.conditions = read.conditions(self.runtime.base(), joined.conditions);
            joined.ranking = joined.conditions.apply(self.runtime.base(), mixed);
        }
        joined.ranking.truncate(k);
        let paths = match &joined.reading {
            Some(reading) if detail.paths => {
                let nodes: Vec<NodeId> = joined.ranking.iter().map(|pair| pair.0).collect();
                reading.paths(&self.runtime.base().kb, &nodes)
            }
            _ => Vec::new(),
        };
        let way = |run: &CategoryRun<'_>| {
            let Category { name, program, .. } = &run.category_program.category;
            RoutedCategory {
                category: name.clone(),
                probability: run.probability,
                program: program.short_id().to_owned(),
                description: program.description().to_owned(),
            }
        };
        let route = runs.iter().map(way).collect();
        let first = joined.ranking.iter().take(detail.explained_count).enumerate();
        let why =
            first.map(|(at, pair)| self.why(&runs, &joined, own.as_ref(), at, *pair)).collect();
        let entities = read.iter().flat_map(ReadQuery::linked_nodes).collect();
        let conditions = joined.conditions.applied(self.runtime.base(), &joined.ranking);
        Ok(Answer {
            conditions,
            end,
            route,
            paths,
            explanations: why,
            entities,
            unassisted,
            ..Answer::from_ranking(joined.ranking)
        })
    }

    fn category(&self, query: &str) -> Result<Option<String>, RetrieveError> {
        let route = self.route(query)?;
        Ok(route
            .first()
            .map(|&(category, _)| self.category_programs[category].category.name.clone()))
    }
}
