//! One engine with at most one program, as the host drives it: set up once, then one program, then
//! one call. What is set up is kept in the module's memory, which the host copies.

use std::cell::RefCell;

use rhai::{Dynamic, Engine, Map};
use serde::Serialize;

use crate::{
    sandbox::{
        Failure, FailureKind, Limits, Usage, host,
        rhai::{
            engine::{self, Parsed},
            meter,
            remote::Remote,
        },
        wire::{Reader, write, write_given, write_list},
    },
    tools::{ToolError, ToolHost, Value, read_specs},
};

thread_local! {
    static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
    static PROGRAM: RefCell<Option<Parsed>> = const { RefCell::new(None) };
}

/// What the host is told of a parsed program.
#[derive(Serialize)]
struct Told {
    has_params: bool,
    reads_candidates: bool,
}

/// What the host is told at the end of a call.
#[derive(Serialize)]
struct Spent {
    usage: Usage,
    output: String,
}

/// Tools as the host offers them.
#[derive(Default)]
struct Remotely {
    /// The line of the next call; 0 if it is not known.
    line: u32,
}

impl ToolHost for Remotely {
    fn call(&mut self, tool: usize, args: Vec<Value>) -> Result<Value, ToolError> {
        let mut message = Vec::new();
        let written = write_list(&mut message, args.len())
            .and_then(|()| args.iter().try_for_each(|arg| write(&mut message, arg, &mut Remote)));
        written.map_err(ToolError::BadArgs)?;
        match host::call(tool, self.line, &message) {
            Ok(reply) => {
                Reader::new(&reply, usize::MAX).value(&mut Remote).map_err(ToolError::BadArgs)
            }
            Err(why) => {
                let (budget, why) = why.split_first().unwrap_or((&0, &[]));
                let why = String::from_utf8_lossy(why).into_owned();
                Err(if *budget == 1 { ToolError::Budget(why) } else { ToolError::BadArgs(why) })
            }
        }
    }

    fn place(&mut self, line: usize) {
        self.line = u32::try_from(line).unwrap_or(0);
    }
}

/// Ends the call with a failure.
fn fail(failure: &Failure) -> ! {
    host::fail(&serde_json::to_vec(failure).unwrap_or_default())
}

fn broken(why: &str) -> ! {
    fail(&Failure::new(FailureKind::Panic, why, &Limits::default()))
}

/// Builds the engine with the tools that the host describes.
pub(in crate::sandbox) fn init(message: &[u8]) {
    std::panic::set_hook(Box::new(|info| broken(&format!("internal panic: {info}"))));
    match read_specs(message) {
        Ok(specs) => ENGINE.set(Some(engine::build(specs))),
        Err(error) => broken(&error.to_string()),
    }
}

fn read_message(message: &[u8]) -> Vec<Value> {
    match Reader::new(message, usize::MAX).value(&mut Remote) {
        Ok(Value::List(parts)) => parts,
        Ok(_) => broken("a message is no list"),
        Err(why) => broken(&why),
    }
}

fn read_limits(part: Option<Value>) -> Limits {
    let Some(Value::Text(text)) = part else { broken("a message has no limits") };
    serde_json::from_str(&text).unwrap_or_else(|error| broken(&error.to_string()))
}

fn with_engine<T>(limits: &Limits, work: impl FnOnce(&Engine) -> T) -> T {
    ENGINE.with_borrow_mut(|engine| {
        let Some(engine) = engine else { broken("the engine is not set up") };
        engine::apply(engine, limits);
        work(engine)
    })
}

/// Parses the program: limits, source.
pub(in crate::sandbox) fn compile(message: &[u8]) {
    let mut parts = read_message(message).into_iter();
    let limits = read_limits(parts.next());
    let Some(Value::Text(source)) = parts.next() else { broken("a message has no source") };
    let parsed = with_engine(&limits, |engine| {
        meter::begin(&limits, None);
        let parsed = engine::parse(engine, &source, &limits);
        meter::end(0, u64::MAX);
        parsed
    });
    match parsed {
        Ok(parsed) => {
            let Parsed { has_params, reads_candidates, .. } = parsed;
            PROGRAM.set(Some(parsed));
            let told = Told { has_params, reads_candidates };
            host::give(&serde_json::to_vec(&told).unwrap_or_default());
        }
        Err(failure) => fail(&failure),
    }
}

/// The value that a program gets for one from the host.
fn plain(value: Value) -> Dynamic {
    match value {
        Value::Int(number) => number.into(),
        Value::Float(number) => number.into(),
        Value::Text(text) => Dynamic::from(rhai::ImmutableString::from(&*text)),
        Value::List(items) => items.into_iter().map(plain).collect::<rhai::Array>().into(),
        Value::Map(entries) => entries
            .into_iter()
            .map(|(name, entry)| (name.as_str().into(), plain(entry)))
            .collect::<Map>()
            .into(),
        _ => Dynamic::UNIT,
    }
}

/// Calls `params()`: limits.
pub(in crate::sandbox) fn params(message: &[u8]) {
    call_function(message, engine::PARAMS);
}

/// Calls `retrieve`: limits, query, candidates, params.
pub(in crate::sandbox) fn retrieve(message: &[u8]) {
    call_function(message, engine::RETRIEVE);
}

/// Calls a function of the program. Only a call with arguments may use tools.
fn call_function(message: &[u8], function: &str) {
    let mut parts = read_message(message).into_iter();
    let limits = read_limits(parts.next());
    let args: Vec<Value> = parts.collect();
    let ended = with_engine(&limits, |engine| {
        PROGRAM.with_borrow(|program| {
            let Some(program) = program else { broken("there is no program") };
            let host: Option<Box<dyn ToolHost>> = match args.is_empty() {
                true => None,
                false => Some(Box::new(Remotely::default())),
            };
            meter::begin(&limits, host);
            let args = args.into_iter().map(plain).collect();
            let done = engine::call(engine, &program.ast, function, args, &limits);
            engine::end(done, 0, &limits).0
        })
    });
    let (given, ended) = match ended {
        Ok(ended) => ended,
        Err(failure) => fail(&failure),
    };
    let spent = Spent { usage: ended.usage, output: ended.output };
    let spent = serde_json::to_vec(&spent).unwrap_or_default();
    let mut out = (spent.len() as u32).to_le_bytes().to_vec();
    out.extend_from_slice(&spent);
    let written = write_given(&mut out, &given, &mut Remote);
    // The host reads what the handles stand for after this.
    std::mem::forget(given);
    match written {
        Ok(()) => host::give(&out),
        Err(why) => broken(&why),
    }
}

/// What a call that was stopped from outside had used.
pub(in crate::sandbox) fn spent() {
    let ended = meter::end(0, u64::MAX);
    let spent = Spent { usage: ended.usage, output: ended.output };
    host::give(&serde_json::to_vec(&spent).unwrap_or_default());
}
