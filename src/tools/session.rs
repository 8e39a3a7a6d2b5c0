//! One program call's access to the tools: checks arguments, counts work, keeps a trace, and
//! answers repeated calls from the cache of the run.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    index::{IndexedBase, terms::QueryTerms},
    kb::{Kb, NodeId},
    tools::{ArgSpec, Args, Kind, ToolCache, ToolCtx, ToolError, ToolHost, Value, registry},
};

/// Nodes, edges and postings that one program call may touch.
const MAX_TOUCHED: u64 = 20_000_000;
/// Calls kept in a trace; later ones are counted, not kept.
const MAX_TRACED: usize = 200;

/// Texts kept ready for comparison in one program call; at this number all are dropped.
const MAX_KNOWN_TEXTS: usize = 8;

/// Texts ready to be compared with nodes, so that a program that scores candidates one by one has
/// its query analysed once.
#[derive(Default)]
pub struct KnownTexts(Vec<(bool, String, Arc<QueryTerms>)>);

impl KnownTexts {
    /// The terms of a text in the documents' index, or in that of neighbours' names.
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
        if self.0.len() >= MAX_KNOWN_TEXTS {
            self.0.clear();
        }
        self.0.push((in_names, text.to_owned(), terms.clone()));
        terms
    }
}

/// Counts the work of one program call.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    touched: u64,
}

impl Meter {
    /// Charges work: nodes, edges or postings touched.
    ///
    /// # Errors
    /// [`ToolError::Budget`] past 20 million.
    pub fn touch(&mut self, n: usize) -> Result<(), ToolError> {
        self.touched += n as u64;
        if self.touched > MAX_TOUCHED {
            return Err(ToolError::Budget(format!(
                "over {MAX_TOUCHED} nodes, edges and postings touched; start hops from fewer nodes"
            )));
        }
        Ok(())
    }

    /// Work charged so far.
    pub fn touched(&self) -> u64 {
        self.touched
    }
}

/// One traced tool call.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The tool.
    pub name: &'static str,
    /// The arguments as they came.
    pub args: Vec<Value>,
    /// What was returned.
    pub result: Result<Value, ToolError>,
    /// The line of the program, from 1, if the sandbox knows it.
    pub line: Option<usize>,
}

/// The calls of a session, in order; filled while the program runs.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Vec<ToolCall>>>);

impl Trace {
    /// Takes the calls noted so far.
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
    texts: KnownTexts,
    trace: Option<Trace>,
    /// The line of the next call.
    line: Option<usize>,
}

impl Session {
    /// A session over a base. With a cache, equal calls of other sessions are answered from it and
    /// charged alike.
    pub fn new(base: Arc<IndexedBase>, cache: Option<Arc<ToolCache>>) -> Self {
        let (meter, texts) = (Meter::default(), KnownTexts::default());
        Self { base, cache, meter, texts, trace: None, line: None }
    }

    /// The same session, noting its first 200 calls with arguments and results.
    pub fn traced(mut self, trace: &Trace) -> Self {
        self.trace = Some(trace.clone());
        self
    }

    fn run(&mut self, tool: usize, args: &[Value]) -> Result<Value, ToolError> {
        let Some(spec) = registry().get(tool) else {
            return Err(ToolError::Internal(format!("there is no tool number {tool}")));
        };
        let key = self
            .cache
            .as_ref()
            .filter(|_| spec.cached)
            .map(|cache| (cache, ToolCache::key(tool, args)));
        if let Some((cache, key)) = &key
            && let Some((value, touched)) = cache.get(key)
        {
            self.meter.touch(touched)?;
            return Ok(value);
        }
        let before = self.meter.touched();
        let mut ctx = ToolCtx { base: &self.base, meter: &mut self.meter, texts: &mut self.texts };
        let value = (spec.run)(&mut ctx, &Args::new(args))?;
        if let Some((cache, key)) = key {
            cache.put(key, &value, (self.meter.touched() - before) as usize);
        }
        Ok(value)
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
        let result = self.run(tool, &args);
        if let (Some(trace), Some(spec)) = (&self.trace, registry().get(tool)) {
            trace.note(ToolCall { name: spec.name, args, result: result.clone(), line });
        }
        result
    }

    fn place(&mut self, line: usize) {
        self.line = Some(line);
    }
}

/// The value of an argument that was left out; its text is a literal of the argument's kind.
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

/// Nodes of a set or scores that a description names.
const DESCRIBED_NODES: usize = 3;
/// Characters of a text that a description shows.
const DESCRIBED_CHARS: usize = 60;

impl ToolCall {
    /// The call in one line, with the names of its best nodes; with a node, also what the result
    /// says of it.
    pub fn describe(&self, kb: &Kb, node: Option<NodeId>) -> String {
        let args: Vec<String> = self.args.iter().map(|arg| describe(kb, arg)).collect();
        let result = match &self.result {
            Ok(value) => describe(kb, value),
            Err(error) => format!("failed: {error}"),
        };
        let of_node = match (&self.result, node) {
            (Ok(Value::Scores(scores)), Some(node)) => match scores.get(node) {
                Some(score) => format!("; this node {score:.4}"),
                None => "; not this node".to_owned(),
            },
            (Ok(Value::Nodes(nodes)), Some(node)) if nodes.contains(node) => {
                "; with this node".to_owned()
            }
            (Ok(Value::Nodes(_)), Some(_)) => "; without this node".to_owned(),
            _ => String::new(),
        };
        format!("{}({}) = {result}{of_node}", self.name, args.join(", "))
    }
}

/// A value in few characters.
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
        Value::Text(text) => format!("{:?}", cut(text)),
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
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
