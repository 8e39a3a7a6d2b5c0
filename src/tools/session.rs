//! Access of one program call to the tools: fills in default arguments, counts work, keeps a trace,
//! and answers repeated tool calls from the cache of the run.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tracing::{Span, trace_span};

use crate::{
    ArgSpec, Args, Assistant, Kind, NodeFlow, Requester, ToolCache, ToolCtx, ToolError, ToolHost,
    Value, registry, source::literal,
};
use agent_ground::{clock::Timer, locks::locked, words::cut};
use agent_index::{IndexedBase, terms::QueryTerms};
use agent_kb::{Kb, NodeId, answer::Cell};
use agent_llm::{LlmError, replies::AskUsage};

/// Error of every tool over a base with a damaged graph.
const DAMAGED: &str = "graph.bin of the base is damaged; import the dataset again";
/// Maximum number of nodes, edges and postings that one program call may touch.
pub(super) const MAX_TOUCHED: u64 = 20_000_000;
/// Maximum number of requests to a language model by one program call, not counting repairs.
const MAX_LLM_REQUESTS: u64 = 40;
/// Maximum number of nodes and texts that one program call may ask a language model about.
const MAX_LLM_ITEMS: u64 = 400;
/// Maximum estimated number of tokens that one program call sends to a language model, not counting
/// repairs.
const MAX_LLM_TOKENS: u64 = 400_000;
/// Maximum number of tool calls in a trace; later calls are dropped.
const MAX_TRACED: usize = 200;

/// Maximum number of analysed texts cached in one program call; a full cache is emptied.
const MAX_CACHED_TERMS: usize = 8;

/// Cache of the terms of analysed texts, so that a program that scores candidates one by one
/// analyses its query only once.
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

/// Work that tools have done. A call answered from the cache is charged the work of the original
/// call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Number of nodes, edges and postings touched.
    pub touched: u64,
    /// Number of requests to a language model, without repairs.
    pub llm_requests: u64,
    /// Number of nodes and texts in these requests.
    pub llm_items: u64,
    /// Estimated number of tokens sent to the language model, without repairs.
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
    /// Measures the time until the deadline; `None` before the program call begins.
    timer: Option<Timer>,
    /// The timer is not read before this moment, because it cannot expire earlier.
    next_check: Option<Instant>,
    /// Becomes `true` when the process is stopping.
    stop: Option<Arc<AtomicBool>>,
    stopped: bool,
    /// Maximum numbers of requests to the language model and of tokens, if they are lower than the
    /// defaults.
    llm_limits: Option<(u64, u64)>,
}

impl Meter {
    /// Charges `n` cost units before the work is done: the number of nodes, edges or postings to
    /// touch, or other work that takes as long.
    ///
    /// # Errors
    /// [`ToolError::Budget`] if the sum of all charges exceeds 20 million, and errors of
    /// [`poll`](Self::poll).
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

    /// Starts the timer of the deadline for the current thread.
    fn begin(&mut self, deadline: Duration) {
        self.timer = Some(Timer::start(deadline));
        self.next_check = None;
    }

    /// Extends the deadline by the time that a tool waited for the language model.
    fn add_waiting(&mut self, waited: Duration) {
        self.timer = self.timer.map(|timer| timer.with_waiting(waited));
    }

    /// Charges work before it is done.
    ///
    /// # Errors
    /// [`ToolError::Budget`] if the sum of all charges exceeds 20,000,000 nodes, edges and
    /// postings, 40 requests to a language model, 400 nodes and texts in them, or 400,000 tokens,
    /// or the session's lower limits.
    pub(super) fn charge(&mut self, more: Work) -> Result<(), ToolError> {
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
                    "{n} {items} exceed the limit of {limit}; ask about a short top slice, in one call"
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
    /// Name of the tool or operator.
    pub name: &'static str,
    /// Where the nodes of the result come from.
    pub flow: NodeFlow,
    /// The arguments, defaults included.
    pub args: Vec<Value>,
    /// The result.
    pub result: Result<Value, ToolError>,
    /// Usage of the language model by this call, stored replies and repairs included; zero for a
    /// cached result.
    pub asked: AskUsage,
    /// Number of nodes, texts or attributes without a usable reply of the model.
    pub unparsed: usize,
    /// Line of the program, from 1; `None` if the sandbox does not know it.
    pub line: Option<usize>,
}

/// The tool calls of a session, in order; filled while the program runs.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Vec<ToolCall>>>);

impl Trace {
    /// Removes and returns the tool calls traced so far.
    pub fn take(&self) -> Vec<ToolCall> {
        std::mem::take(&mut *locked(&self.0))
    }

    fn note(&self, call: ToolCall) {
        let mut calls = locked(&self.0);
        if calls.len() < MAX_TRACED {
            calls.push(call);
        }
    }
}

/// Answers the tool calls that a program makes in one run.
pub struct Session {
    base: Arc<IndexedBase>,
    cache: Option<Arc<ToolCache>>,
    meter: Meter,
    query_terms: QueryTermsCache,
    requester: Requester,
    trace: Option<Trace>,
    /// Program line of the next tool call, from 1.
    line: Option<usize>,
    /// Tracing span of the program, which runs on another thread than its caller.
    span: Span,
}

impl Session {
    /// Creates a session over a base. Tool calls that are in the cache are answered from it and
    /// charged as if they had run.
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

    /// Sets the language model for the tools that need it; without one they fail.
    pub fn with_assistant(mut self, assistant: Option<Arc<Assistant>>) -> Self {
        self.requester = Requester::new(assistant);
        self
    }

    /// Returns the work charged so far.
    pub fn work(&self) -> Work {
        self.meter.work()
    }

    /// Makes tool calls end soon after `stop` is set.
    pub fn stoppable(mut self, stop: Arc<AtomicBool>) -> Self {
        self.meter.stop = Some(stop);
        self
    }

    /// Lowers the maximum numbers of requests to a language model and of tokens for this session;
    /// `None` keeps the defaults.
    pub fn with_llm_limits(mut self, limits: Option<(u64, u64)>) -> Self {
        self.meter.llm_limits = limits
            .map(|(requests, tokens)| (requests.min(MAX_LLM_REQUESTS), tokens.min(MAX_LLM_TOKENS)));
        self
    }

    /// Records the first 200 tool calls in `trace`, if there is one, with arguments and results.
    pub fn with_trace(mut self, trace: Option<&Trace>) -> Self {
        self.trace = trace.cloned();
        self
    }

    /// Runs the tool with index `tool`; also returns its usage of a language model and the number
    /// of items without a usable reply.
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
        let spec = registry().get(tool);
        let known = spec.map_or(&[][..], |spec| spec.args);
        args.extend(known.iter().skip(args.len()).map(default_value));
        self.meter.touch(1)?;
        let name = spec.map_or("", |spec| spec.name);
        let span = trace_span!(parent: &self.span, "tool", name);
        let (result, asked, unparsed) = span.in_scope(|| self.run(tool, &args));
        if let (Some(trace), Some(spec)) = (&self.trace, spec) {
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
    /// Formats the arguments of the call for display, long ones shortened.
    pub fn arguments(&self, kb: &Kb) -> Vec<String> {
        self.args.iter().map(|arg| describe(kb, arg)).collect()
    }

    /// Formats the result of the call for display, shortened, with the names of its best nodes and
    /// the usage of the language model.
    pub fn outcome(&self, kb: &Kb) -> String {
        format!("{}{}", self.result_in_words(kb), self.llm_usage())
    }

    fn result_in_words(&self, kb: &Kb) -> String {
        match &self.result {
            Ok(value) => describe(kb, value),
            Err(error) => format!("failed: {error}"),
        }
    }

    /// Formats the usage of the language model and the number of items without a usable reply.
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

    /// Returns the value of `node` in the result: its score, or for a set whether the set contains
    /// it; an empty cell for other results.
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

/// Formats a value for display, shortened.
fn describe(kb: &Kb, value: &Value) -> String {
    let described = |text: &str| cut(text, DESCRIBED_CHARS, "...");
    let named = |n: usize, nodes: Vec<NodeId>, kind: &str| {
        let names: Vec<String> = nodes.iter().map(|&node| described(kb.name(node))).collect();
        let more = if n > nodes.len() { ", ..." } else { "" };
        format!("{n} {kind}{}{}{more}", if n > 0 { ": " } else { "" }, names.join(", "))
    };
    match value {
        Value::Unit => "nothing".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:.4}"),
        Value::Text(text) => literal(&described(text)),
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
