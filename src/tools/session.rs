//! Access of one program call to the tools: fills in defaults, counts work, keeps a trace, and
//! answers repeated calls from the cache of the run.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tracing::{Span, trace_span};

use crate::{
    ArgSpec, Args, Assistant, Kind, NodeFlow, Requester, ToolCache, ToolCtx, ToolError, ToolHost,
    Value, registry, source::literal,
};
use agent_ground::clock::Timer;
use agent_index::{IndexedBase, terms::QueryTerms};
use agent_kb::{Kb, NodeId, answer::Cell};
use agent_llm::{LlmError, replies::AskUsage};

/// Error of every tool over a base with a damaged graph.
const DAMAGED: &str = "graph.bin of the base is damaged; import the dataset again";
/// Maximum number of nodes, edges and postings that one program call may touch.
pub(super) const MAX_TOUCHED: u64 = 20_000_000;
/// Maximum number of requests to a language model by one program call, without repairs.
const MAX_LLM_REQUESTS: u64 = 40;
/// Maximum number of nodes and texts that one program call may ask a language model about.
const MAX_LLM_ITEMS: u64 = 400;
/// Maximum number of tokens sent to a language model by one program call, estimated, without
/// repairs.
const MAX_LLM_TOKENS: u64 = 400_000;
/// Maximum number of calls in a trace; later ones are dropped.
const MAX_TRACED: usize = 200;

/// Maximum number of analysed texts cached in one program call; a full cache is emptied.
const MAX_CACHED_TERMS: usize = 8;

/// Cache of analysed texts: a program that scores candidates one by one analyses its query once.
#[derive(Default)]
pub struct QueryTermsCache(Vec<(bool, String, Arc<QueryTerms>)>);

impl QueryTermsCache {
    /// Returns the terms of a text in the index of documents or, with `in_names`, in the index of
    /// neighbours' names.
    pub(super) fn terms(
        &mut self,
        base: &IndexedBase,
        in_names: bool,
        text: &str,
    ) -> Arc<QueryTerms> {
        if let Some(known) = self.0.iter().find(|known| known.0 == in_names && known.1 == text) {
            return known.2.clone();
        }
        let index = if in_names { &base.neighbor_names } else { &base.terms };
        let terms = Arc::new(index.query(&base.stems, text));
        if self.0.len() >= MAX_CACHED_TERMS {
            self.0.clear();
        }
        self.0.push((in_names, text.to_owned(), terms.clone()));
        terms
    }
}

/// Work of tools. A call answered from the cache is charged the work of the original call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Nodes, edges and postings touched.
    pub touched: u64,
    /// Requests to a language model, without repairs.
    pub llm_requests: u64,
    /// Nodes and texts in these requests.
    pub llm_items: u64,
    /// Tokens sent, estimated, without repairs.
    pub llm_tokens: u64,
}

impl Work {
    /// Returns the work done since an earlier state.
    fn since(self, earlier: Work) -> Work {
        Work {
            touched: self.touched - earlier.touched,
            llm_requests: self.llm_requests - earlier.llm_requests,
            llm_items: self.llm_items - earlier.llm_items,
            llm_tokens: self.llm_tokens - earlier.llm_tokens,
        }
    }
}

/// Counts the work of one program call, and enforces its budgets and deadline.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    work: Work,
    /// The deadline; none before the call begins.
    timer: Option<Timer>,
    /// The timer cannot expire before this moment.
    next_check: Option<Instant>,
    /// Set when the process is stopping.
    stop: Option<Arc<AtomicBool>>,
    stopped: bool,
    /// Lower limits of requests and tokens for language models, if any.
    llm_limits: Option<(u64, u64)>,
}

impl Meter {
    /// Charges work in advance: nodes, edges or postings touched, or work of equal time.
    ///
    /// # Errors
    /// [`ToolError::Budget`] above 20 million, and errors of [`poll`](Self::poll).
    pub fn touch(&mut self, n: usize) -> Result<(), ToolError> {
        self.charge(Work { touched: n as u64, ..Work::default() })?;
        self.poll()
    }

    /// Checks the stop flag and the deadline, in about 25 ns; call it every few milliseconds of
    /// work.
    ///
    /// # Errors
    /// [`ToolError::Deadline`] after the deadline, [`ToolError::Stopped`] once the process is
    /// stopping.
    pub fn poll(&mut self) -> Result<(), ToolError> {
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            self.stopped = true;
            return Err(ToolError::Stopped);
        }
        let Some(timer) = &self.timer else { return Ok(()) };
        let now = Instant::now();
        if self.next_check.is_some_and(|next| now < next) {
            return Ok(());
        }
        let left = timer.left();
        if left.is_zero() {
            return Err(ToolError::Deadline(timer.elapsed().as_millis()));
        }
        self.next_check = now.checked_add(left);
        Ok(())
    }

    /// Starts the deadline, for the current thread.
    fn begin(&mut self, deadline: Duration) {
        self.timer = Some(Timer::start(deadline));
        self.next_check = None;
    }

    /// Extends the deadline by waiting that the program did not cause.
    fn add_waiting(&mut self, waited: Duration) {
        self.timer = self.timer.map(|timer| timer.with_waiting(waited));
    }

    /// Charges requests to a language model in advance.
    ///
    /// # Errors
    /// [`ToolError::Budget`] above 40 requests, 400 nodes and texts, or 400,000 tokens, or above
    /// the lower limits of the session.
    pub fn charge_llm(&mut self, requests: u64, items: u64, tokens: u64) -> Result<(), ToolError> {
        self.charge(Work {
            touched: 0,
            llm_requests: requests,
            llm_items: items,
            llm_tokens: tokens,
        })
    }

    fn charge(&mut self, more: Work) -> Result<(), ToolError> {
        let work = &mut self.work;
        work.touched += more.touched;
        work.llm_requests += more.llm_requests;
        work.llm_items += more.llm_items;
        work.llm_tokens += more.llm_tokens;
        if work.touched > MAX_TOUCHED {
            return Err(ToolError::Budget(format!(
                "over {MAX_TOUCHED} nodes, edges and postings touched; start hops from fewer nodes"
            )));
        }
        let (requests, tokens) = self.llm_limits.unwrap_or((MAX_LLM_REQUESTS, MAX_LLM_TOKENS));
        for (n, limit, items) in [
            (work.llm_requests, requests, "requests to the LLM"),
            (work.llm_items, MAX_LLM_ITEMS, "nodes and texts for the LLM"),
            (work.llm_tokens, tokens, "tokens for the LLM"),
        ] {
            if n > limit {
                return Err(ToolError::Budget(format!(
                    "{n} {items} are more than {limit}; ask about a short top slice, in one call"
                )));
            }
        }
        Ok(())
    }

    /// Returns the work charged so far.
    pub fn work(&self) -> Work {
        self.work
    }
}

/// One traced tool call.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The tool.
    pub name: &'static str,
    /// Effect of the tool on nodes.
    pub flow: NodeFlow,
    /// The arguments with defaults.
    pub args: Vec<Value>,
    /// The result.
    pub result: Result<Value, ToolError>,
    /// Usage of the language model, stored replies and repairs included; zero for a cached result.
    pub asked: AskUsage,
    /// Nodes, texts or attributes without a usable reply.
    pub unparsed: usize,
    /// Line of the program, from 1, if the sandbox knows it.
    pub line: Option<usize>,
}

/// The calls of a session, in order; filled while the program runs.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Vec<ToolCall>>>);

impl Trace {
    /// Takes the calls traced so far.
    pub fn take(&self) -> Vec<ToolCall> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, call: ToolCall) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() < MAX_TRACED {
            calls.push(call);
        }
    }
}

/// The tools, for one program call.
pub struct Session {
    base: Arc<IndexedBase>,
    cache: Option<Arc<ToolCache>>,
    meter: Meter,
    query_terms: QueryTermsCache,
    requester: Requester,
    trace: Option<Trace>,
    /// The line of the next call.
    line: Option<usize>,
    /// Span of the calling program, which runs on another thread than the caller's.
    span: Span,
}

impl Session {
    /// Creates a session over a base. Calls that are in the cache are answered from it and charged
    /// as if they had run.
    pub fn new(base: Arc<IndexedBase>, cache: Option<Arc<ToolCache>>) -> Self {
        Self {
            base,
            cache,
            meter: Meter::default(),
            query_terms: QueryTermsCache::default(),
            requester: Requester::default(),
            trace: None,
            line: None,
            span: Span::current(),
        }
    }

    /// Sets the language model for the tools that need it.
    pub fn with_assistant(mut self, assistant: Arc<Assistant>) -> Self {
        self.requester = Requester::new(assistant);
        self
    }

    /// Returns the work charged so far.
    pub fn work(&self) -> Work {
        self.meter.work()
    }

    /// Ends calls soon after `stop` is set.
    pub fn stoppable(mut self, stop: Arc<AtomicBool>) -> Self {
        self.meter.stop = Some(stop);
        self
    }

    /// Lowers the limits of requests and tokens for language models.
    pub fn with_llm_limits(mut self, requests: u64, tokens: u64) -> Self {
        self.meter.llm_limits = Some((requests.min(MAX_LLM_REQUESTS), tokens.min(MAX_LLM_TOKENS)));
        self
    }

    /// Traces the first 200 calls with arguments and results.
    pub fn with_trace(mut self, trace: &Trace) -> Self {
        self.trace = Some(trace.clone());
        self
    }

    /// Runs a tool; also returns its usage of a language model and its number of unparsed items.
    fn run(&mut self, tool: usize, args: &[Value]) -> (Result<Value, ToolError>, AskUsage, usize) {
        let Some(spec) = registry().get(tool) else {
            let message = format!("tool number {tool} does not exist");
            return (Err(ToolError::Internal(message)), AskUsage::default(), 0);
        };
        let key = self
            .cache
            .as_ref()
            .filter(|_| spec.cached)
            .map(|cache| (cache.clone(), ToolCache::key(tool, spec.args, args)));
        if let Some((cache, key)) = &key
            && let Some((value, work)) = cache.get(key)
        {
            return (self.meter.charge(work).map(|()| value), AskUsage::default(), 0);
        }
        let before = self.meter.work();
        let mut ctx = ToolCtx {
            base: &self.base,
            meter: &mut self.meter,
            query_terms: &mut self.query_terms,
            requester: &mut self.requester,
        };
        let waited = ctx.requester.waited();
        let result = (spec.run)(&mut ctx, &Args::new(args));
        self.meter.add_waiting(self.requester.waited().saturating_sub(waited));
        // Results over a damaged graph are invalid.
        let result = match self.base.kb.met_damage() {
            true => Err(ToolError::Internal(DAMAGED.to_owned())),
            false => result,
        };
        let (asked, unparsed) = self.requester.take_notes();
        if let (Ok(value), Some((cache, key))) = (&result, key)
            && unparsed == 0
        {
            cache.put(key, value, self.meter.work().since(before));
        }
        (result, asked, unparsed)
    }
}

impl ToolHost for Session {
    fn call(&mut self, tool: usize, mut args: Vec<Value>) -> Result<Value, ToolError> {
        let line = self.line.take();
        if let Some(spec) = registry().get(tool) {
            let given = args.len();
            args.extend(spec.args.iter().skip(given).map(default_value));
        }
        self.meter.touch(1)?;
        let name = registry().get(tool).map_or("", |spec| spec.name);
        let span = trace_span!(parent: &self.span, "tool", name);
        let (result, asked, unparsed) = span.in_scope(|| self.run(tool, &args));
        if let (Some(trace), Some(spec)) = (&self.trace, registry().get(tool)) {
            let result = result.clone();
            let (name, flow) = (spec.name, spec.flow);
            trace.note(ToolCall { name, flow, args, result, asked, unparsed, line });
        }
        result
    }

    fn waited(&self) -> Duration {
        self.requester.waited()
    }

    fn outage(&self) -> Option<LlmError> {
        self.meter.stopped.then_some(LlmError::Stopped).or_else(|| self.requester.outage())
    }

    fn begin(&mut self, deadline: Duration) {
        self.meter.begin(deadline);
    }

    fn patience(&self) -> Duration {
        self.requester.patience()
    }

    fn place(&mut self, line: usize) {
        self.line = Some(line);
    }
}

/// Parses the default value of an argument.
fn default_value(arg: &ArgSpec) -> Value {
    let text = arg.default.unwrap_or("");
    match arg.kind {
        Kind::Text => Value::text(text.trim_matches('"')),
        Kind::Bool => Value::Bool(text == "true"),
        Kind::Int => text.parse().map_or(Value::Unit, Value::Int),
        Kind::Number => text.parse().map_or(Value::Unit, Value::Float),
        _ => Value::List(Vec::new()),
    }
}

/// Maximum number of nodes named in a description.
const DESCRIBED_NODES: usize = 3;
/// Maximum number of characters of a text in a description.
const DESCRIBED_CHARS: usize = 60;

impl ToolCall {
    /// Formats the arguments, abbreviated.
    pub fn arguments(&self, kb: &Kb) -> Vec<String> {
        self.args.iter().map(|arg| describe(kb, arg)).collect()
    }

    /// Formats the result, abbreviated, with the names of its best nodes and the usage of the
    /// language model.
    pub fn outcome(&self, kb: &Kb) -> String {
        format!("{}{}", self.result_in_words(kb), self.llm_usage())
    }

    fn result_in_words(&self, kb: &Kb) -> String {
        match &self.result {
            Ok(value) => describe(kb, value),
            Err(error) => format!("failed: {error}"),
        }
    }

    /// Formats the usage of the language model and the number of unparsed items.
    fn llm_usage(&self) -> String {
        let asked = match self.asked.requests {
            0 => String::new(),
            n => {
                let tokens = self.asked.tokens_in + self.asked.tokens_out;
                format!("; {n} LLM requests, {tokens} tokens")
            }
        };
        let unparsed = match self.unparsed {
            0 => String::new(),
            n => format!("; {n} unparsed"),
        };
        format!("{asked}{unparsed}")
    }

    /// Returns the node's score, or for a set whether it contains the node; otherwise an empty
    /// cell.
    pub fn value_of(&self, node: NodeId) -> Cell {
        match &self.result {
            Ok(Value::Scores(scores)) => scores.get(node).map_or(Cell::Empty, Cell::from),
            Ok(Value::Nodes(nodes)) => Cell::Bool(nodes.contains(node)),
            _ => Cell::Empty,
        }
    }

    /// Formats the call in one line, with the value of `node` in the result.
    pub fn describe(&self, kb: &Kb, node: Option<NodeId>) -> String {
        let of_node = match (&self.result, node.map(|node| self.value_of(node))) {
            (Ok(Value::Scores(_)), Some(Cell::Number(score))) => format!("; this node {score:.4}"),
            (Ok(Value::Scores(_)), Some(_)) => "; not this node".to_owned(),
            (Ok(Value::Nodes(_)), Some(Cell::Bool(true))) => "; with this node".to_owned(),
            (Ok(Value::Nodes(_)), Some(_)) => "; without this node".to_owned(),
            _ => String::new(),
        };
        let (args, result) = (self.arguments(kb).join(", "), self.result_in_words(kb));
        format!("{}({args}) = {result}{of_node}{}", self.name, self.llm_usage())
    }
}

/// Formats a value, abbreviated.
fn describe(kb: &Kb, value: &Value) -> String {
    let named = |n: usize, nodes: Vec<NodeId>, kind: &str| {
        let names: Vec<String> = nodes.iter().map(|&node| cut(kb.name(node))).collect();
        let more = if n > nodes.len() { ", ..." } else { "" };
        format!("{n} {kind}{}{}{more}", if n > 0 { ": " } else { "" }, names.join(", "))
    };
    match value {
        Value::Unit => "nothing".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:.4}"),
        Value::Text(text) => literal(&cut(text)),
        Value::Nodes(nodes) => {
            let first = nodes.as_slice().iter().take(DESCRIBED_NODES).copied().collect();
            named(nodes.len(), first, "nodes")
        }
        Value::Scores(scores) => {
            let best =
                scores.top(DESCRIBED_NODES).ranking().into_iter().map(|pair| pair.0).collect();
            named(scores.len(), best, "scores")
        }
        Value::Vector(vector) => format!("vector of {}", vector.len()),
        Value::List(values) => {
            let items: Vec<String> =
                values.iter().take(DESCRIBED_NODES).map(|value| describe(kb, value)).collect();
            let more = if values.len() > items.len() { ", ..." } else { "" };
            format!("[{}{more}]", items.join(", "))
        }
        Value::Map(map) => format!("map of {}", map.len()),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(DESCRIBED_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
