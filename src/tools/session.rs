//! One program call's access to the tools: checks arguments, counts work, keeps a trace, and
//! answers repeated calls from the cache of the run.

use std::sync::Arc;

use crate::{
    index::IndexedBase,
    tools::{ArgSpec, Args, Kind, ToolCache, ToolCtx, ToolError, ToolHost, Value, registry},
};

/// Nodes, edges and postings that one program call may touch.
const MAX_TOUCHED: u64 = 20_000_000;
/// Calls kept in a trace; later ones are counted, not kept.
const MAX_TRACED: usize = 200;

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
}

/// The tools, for one program call.
pub struct Session {
    base: Arc<IndexedBase>,
    cache: Option<Arc<ToolCache>>,
    meter: Meter,
    trace: Option<Vec<ToolCall>>,
}

impl Session {
    /// A session over a base. With a cache, equal calls of other sessions are answered from it and
    /// charged alike.
    pub fn new(base: Arc<IndexedBase>, cache: Option<Arc<ToolCache>>) -> Self {
        Self { base, cache, meter: Meter::default(), trace: None }
    }

    /// The same session, keeping its first calls with arguments and results.
    pub fn traced(mut self) -> Self {
        self.trace = Some(Vec::new());
        self
    }

    /// The traced calls in order.
    pub fn into_trace(self) -> Vec<ToolCall> {
        self.trace.unwrap_or_default()
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
        let mut ctx = ToolCtx { base: &self.base, meter: &mut self.meter };
        let value = (spec.run)(&mut ctx, &Args::new(args))?;
        if let Some((cache, key)) = key {
            cache.put(key, &value, (self.meter.touched() - before) as usize);
        }
        Ok(value)
    }
}

impl ToolHost for Session {
    fn call(&mut self, tool: usize, mut args: Vec<Value>) -> Result<Value, ToolError> {
        if let Some(spec) = registry().get(tool) {
            let given = args.len();
            args.extend(spec.args.iter().skip(given).map(default_value));
        }
        self.meter.touch(1)?;
        let result = self.run(tool, &args);
        if let (Some(trace), Some(spec)) = (&mut self.trace, registry().get(tool))
            && trace.len() < MAX_TRACED
        {
            trace.push(ToolCall { name: spec.name, args, result: result.clone() });
        }
        result
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
