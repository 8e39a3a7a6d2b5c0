//! One call of a module: what it was given, what it may ask for, what it used, and why it ended.
//!
//! The functions that modules import are here. Must not know what a tool does. A module's memory is
//! only ever reached through checked slices.

use std::time::Duration;

use wasmtime::{
    Caller, Extern, Instance, InstancePre, Linker, Memory, ResourceLimiter, Store, Trap,
    UpdateDeadline,
};

use crate::{
    Failure, FailureKind, Limits, LostHost, Usage,
    guard::guarded,
    push_clean,
    wasm::{
        engine::{Ticking, engine},
        handles::HandleTable,
        size::Size,
        wire::{Reader, write},
    },
};
use agent_ground::clock::Timer;
use agent_tools::{Kind, ToolError, ToolHost, ToolSpec, Value};

/// Fuel of one operation of [`Limits::operations`]: about one instruction each.
pub(super) const FUEL_PER_OPERATION: u64 = 100;
/// Fuel of one operation in the engine for Rhai, which counts operations itself and may go over a long
/// value in one of them: the deadline comes first, and fuel is a second bound.
const RHAI_FUEL_PER_OPERATION: u64 = 20_000;
/// Fuel that the engine for Rhai has besides.
const RHAI_FUEL: u64 = 10_000_000_000;
/// Bytes that are copied for one unit of fuel.
const BYTES_PER_FUEL: usize = 16;
/// What a module may have in its memory and hold of tool results besides what its program is
/// charged for, bytes: its own data, and what its allocator cannot use. As much again is left for
/// messages, of which the host has copies.
const SPARE_BYTES: u64 = 32 << 20;
/// Entries of a table of functions.
const MAX_TABLE: usize = 100_000;
/// Values in the arguments of one call of a tool.
const MAX_VALUES: usize = 100_000;
/// Bytes of the arguments of one call of a tool.
const MAX_ARGUMENT_BYTES: usize = 16 << 20;
/// Values in the arguments of a call from the engine for Rhai, which bounds its lists itself and sends
/// vectors number by number.
const MAX_RHAI_VALUES: usize = MAX_ARGUMENT_BYTES / size_of::<f32>();
/// What is left to a module that was stopped, to say what it used.
const LAST_FUEL: u64 = 10_000_000;

/// Where modules import the host's own functions from.
pub(super) const AGENT: &str = "agent";
/// Where modules import tools from.
pub(super) const TOOLS: &str = "tools";
/// Where the engine for Rhai imports from.
const RHAI: &str = "rhai";

/// The name under which a tool that is an operator is imported.
pub(super) fn import_name(spec: &ToolSpec) -> &'static str {
    match spec.name {
        "&" => "op_and",
        "|" => "op_or",
        "-" => "op_sub",
        "+" => "op_add",
        "*" => "op_mul",
        "/" => "op_div",
        name => name,
    }
}

/// The memory of a module, as it grows, bytes.
#[derive(Default)]
struct Growth {
    now: u64,
    /// The most at any moment, what is held of tool results included.
    peak: u64,
    refused: bool,
}

/// Memory and held results share one limit: both are memory of this process.
impl ResourceLimiter for Call {
    fn memory_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if (desired as u64).saturating_add(self.handles.bytes()) > self.most_bytes() {
            self.growth.refused = true;
            return Ok(false);
        }
        self.growth.now = desired as u64;
        self.note_peak();
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE)
    }

    fn instances(&self) -> usize {
        1
    }

    fn memories(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        4
    }
}

/// What belongs to one call.
pub(super) struct Call {
    host: Option<Box<dyn ToolHost>>,
    specs: &'static [ToolSpec],
    limits: Limits,
    pub(super) handles: HandleTable,
    /// What the module may take next.
    message: Vec<u8>,
    given: Option<Vec<u8>>,
    stop: Option<Failure>,
    tool_calls: u64,
    /// What it may take.
    timer: Timer,
    /// Time that tools waited for language models, which does not count.
    waited: Duration,
    growth: Growth,
    /// What the host has of messages and of values in them at this moment, bytes.
    passing: u64,
    output: String,
    /// Whether the module is the engine for Rhai.
    is_rhai: bool,
}

impl Call {
    /// A call that has used nothing. Without a host it may not use tools.
    pub(super) fn new(
        specs: &'static [ToolSpec],
        host: Option<Box<dyn ToolHost>>,
        limits: &Limits,
        is_rhai: bool,
    ) -> Self {
        let mut handles = HandleTable::new(limits.memory_bytes);
        handles.takes_numbers = is_rhai;
        Self {
            host,
            specs,
            limits: limits.clone(),
            handles,
            message: Vec::new(),
            given: None,
            stop: None,
            tool_calls: 0,
            timer: Timer::start(limits.deadline),
            waited: Duration::ZERO,
            growth: Growth::default(),
            passing: 0,
            output: String::new(),
            is_rhai,
        }
    }

    /// Ends the call; the first reason counts.
    fn stop(&mut self, kind: FailureKind, message: &str) -> wasmtime::Error {
        let failure = || Failure::new(kind, message, &self.limits);
        if self.stop.is_none() {
            self.stop = Some(failure());
        }
        wasmtime::Error::msg("stopped")
    }

    /// What the module's memory and what it holds may take together, bytes.
    fn most_bytes(&self) -> u64 {
        self.limits.memory_bytes.saturating_add(SPARE_BYTES)
    }

    fn note_peak(&mut self) {
        let now = self.growth.now + self.handles.bytes() + self.passing;
        self.growth.peak = self.growth.peak.max(now);
    }

    /// Counts what a message will take on the host, before it is taken.
    ///
    /// # Errors
    /// That it is more than is left.
    fn pass(&mut self, bytes: u64) -> wasmtime::Result<()> {
        self.passing = bytes;
        let most = self.most_bytes().saturating_add(SPARE_BYTES);
        if (self.growth.now + self.handles.bytes()).saturating_add(bytes) > most {
            let most = self.limits.memory_bytes >> 20;
            let why = format!("the module with its messages wants more than {most} MiB");
            return Err(self.stop(FailureKind::Memory, &why));
        }
        self.note_peak();
        Ok(())
    }

    /// Writes what a tool gave, held as far as it has no form as bytes.
    fn write_answer(&mut self, value: &Value, reply: &mut Vec<u8>) -> Result<(), String> {
        Size::of(value).check(&self.limits)?;
        let left = self.most_bytes().saturating_sub(self.growth.now);
        self.handles.most_bytes = left.min(self.limits.memory_bytes);
        write(reply, value, &mut self.handles)?;
        self.note_peak();
        Ok(())
    }

    fn late(&self) -> bool {
        self.timer.left().is_zero()
    }

    /// Adds to the wall time what the host waited for language models since the last look.
    fn note_waiting(&mut self, waited: Duration) {
        let more = waited.saturating_sub(std::mem::replace(&mut self.waited, waited));
        self.timer = self.timer.with_waiting(more);
    }
}

/// The memory of the module that calls.
fn memory(caller: &mut Caller<'_, Call>) -> wasmtime::Result<Memory> {
    match caller.get_export("memory").and_then(Extern::into_memory) {
        Some(memory) => Ok(memory),
        None => Err(caller.data_mut().stop(FailureKind::Runtime, "the module exports no `memory`")),
    }
}

fn outside(call: &mut Call) -> wasmtime::Error {
    call.stop(FailureKind::Runtime, "the module names memory that it does not have")
}

/// Charges for bytes that the host copies.
fn charge(caller: &mut Caller<'_, Call>, bytes: usize) -> wasmtime::Result<()> {
    let fuel = caller.get_fuel()?;
    match fuel.checked_sub((bytes / BYTES_PER_FUEL) as u64) {
        Some(rest) => caller.set_fuel(rest),
        None => {
            caller.set_fuel(0)?;
            Err(Trap::OutOfFuel.into())
        }
    }
}

/// A copy of the module's bytes, at most `most`.
fn bytes_at(
    caller: &mut Caller<'_, Call>,
    at: u32,
    len: u32,
    most: usize,
) -> wasmtime::Result<Vec<u8>> {
    let len = len as usize;
    if len > most {
        let message = format!("a message has {len} bytes, more than {most}");
        return Err(caller.data_mut().stop(FailureKind::Memory, &message));
    }
    charge(caller, len)?;
    let (data, call) = memory(caller)?.data_and_store_mut(caller);
    let bytes = data.get(at as usize..).and_then(|rest| rest.get(..len));
    bytes.map(<[u8]>::to_vec).ok_or_else(|| outside(call))
}

/// Gives the module the message that was announced.
fn take(mut caller: Caller<'_, Call>, at: u32) -> wasmtime::Result<()> {
    let len = caller.data().message.len();
    charge(&mut caller, len)?;
    let (data, call) = memory(&mut caller)?.data_and_store_mut(&mut caller);
    let message = std::mem::take(&mut call.message);
    match data.get_mut(at as usize..).and_then(|rest| rest.get_mut(..message.len())) {
        Some(place) => place.copy_from_slice(&message),
        None => return Err(outside(call)),
    }
    Ok(())
}

/// Keeps a result of the module; the last one counts.
fn give(mut caller: Caller<'_, Call>, at: u32, len: u32) -> wasmtime::Result<()> {
    let given = bytes_at(&mut caller, at, len, MAX_ARGUMENT_BYTES)?;
    caller.data_mut().given = Some(given);
    Ok(())
}

/// Copies what a handle stands for, at most `len` bytes; how many were copied.
fn read(mut caller: Caller<'_, Call>, handle: u32, at: u32, len: u32) -> wasmtime::Result<u32> {
    charge(&mut caller, len as usize)?;
    let (data, call) = memory(&mut caller)?.data_and_store_mut(&mut caller);
    let Some(place) = data.get_mut(at as usize..).and_then(|rest| rest.get_mut(..len as usize))
    else {
        return Err(outside(call));
    };
    match call.handles.read(handle, place) {
        Some(copied) => Ok(copied as u32),
        None => Err(unknown(call, handle)),
    }
}

fn unknown(call: &mut Call, handle: u32) -> wasmtime::Error {
    call.stop(FailureKind::Runtime, &format!("handle {handle} is not held"))
}

/// How many nodes or numbers are behind a handle.
fn length(mut caller: Caller<'_, Call>, handle: u32) -> wasmtime::Result<u32> {
    let call = caller.data_mut();
    match call.handles.len(handle) {
        Some(length) => Ok(length as u32),
        None => Err(unknown(call, handle)),
    }
}

/// Lets go of what a handle stands for.
fn release(mut caller: Caller<'_, Call>, handle: u32) -> wasmtime::Result<()> {
    let call = caller.data_mut();
    match call.handles.release(handle) {
        true => Ok(()),
        false => Err(unknown(call, handle)),
    }
}

/// Keeps text for the author of the program.
fn print(mut caller: Caller<'_, Call>, at: u32, len: u32) -> wasmtime::Result<()> {
    let most = caller.data().limits.output_bytes;
    let text = bytes_at(&mut caller, at, len.min(u32::try_from(most).unwrap_or(u32::MAX)), most)?;
    let call = caller.data_mut();
    let text = String::from_utf8_lossy(&text);
    let whole = len as usize <= most
        && push_clean(&mut call.output, &text, most)
        && push_clean(&mut call.output, "\n", most);
    match whole {
        true => Ok(()),
        false => Err(call.stop(FailureKind::Output, &format!("more than {most} bytes printed"))),
    }
}

/// Ends the call with the module's own words.
fn fail(mut caller: Caller<'_, Call>, at: u32, len: u32) -> wasmtime::Result<()> {
    let most = caller.data().limits.message_bytes;
    let len = len.min(u32::try_from(most).unwrap_or(u32::MAX));
    let said = bytes_at(&mut caller, at, len, most)?;
    let said = String::from_utf8_lossy(&said).into_owned();
    Err(caller.data_mut().stop(FailureKind::Runtime, &said))
}

/// Ends the call with a failure of the engine for Rhai.
fn fail_as(mut caller: Caller<'_, Call>, at: u32, len: u32) -> wasmtime::Result<()> {
    let said = bytes_at(&mut caller, at, len, MAX_ARGUMENT_BYTES)?;
    let call = caller.data_mut();
    let Ok(told) = serde_json::from_slice::<Failure>(&said) else {
        return Err(call.stop(FailureKind::Panic, "the engine gave up without a reason"));
    };
    let mut output = String::new();
    push_clean(&mut output, &told.output, call.limits.output_bytes);
    let failure = Failure::new(told.kind, &told.message, &call.limits);
    let failure = Failure { position: told.position, usage: told.usage, output, ..failure };
    call.stop.get_or_insert(failure);
    Err(wasmtime::Error::msg("stopped"))
}

/// What a tool answered, ready to be taken: its length, or why there is no answer.
type Answer = Result<usize, ToolError>;

/// Calls a tool for a module. What ends the call is an error; what the engine for Rhai tells its
/// program is an answer.
fn answer(
    caller: &mut Caller<'_, Call>,
    choose: impl FnOnce(&[Value]) -> usize,
    line: Option<usize>,
    at: u32,
    len: u32,
) -> wasmtime::Result<(usize, Answer)> {
    // The message, and the values that are read from it.
    caller.data_mut().pass(2 * u64::from(len))?;
    let message = bytes_at(caller, at, len, MAX_ARGUMENT_BYTES)?;
    let call = caller.data_mut();
    call.tool_calls += 1;
    if call.tool_calls > call.limits.tool_calls {
        let most = call.limits.tool_calls;
        let message = format!("more than {most} tool calls; give tools sets, not single nodes");
        return Err(call.stop(FailureKind::ToolBudget, &message));
    }
    let most = if call.is_rhai { MAX_RHAI_VALUES } else { MAX_VALUES };
    let mut reader = Reader::new(&message, most);
    let read = reader.value(&mut call.handles).and_then(|args| reader.end().map(|()| args));
    let args = match read {
        Ok(Value::List(args)) => args,
        Ok(_) => return Ok((choose(&[]), bad("arguments are not a list"))),
        Err(why) => return Ok((choose(&[]), bad(&why))),
    };
    let tool = choose(&args);
    let Some(spec) = call.specs.get(tool) else {
        return Err(call.stop(FailureKind::Runtime, &format!("there is no tool number {tool}")));
    };
    let (least, most, given) = (spec.min_args(), spec.args.len(), args.len());
    if !(least..=most).contains(&given) {
        return Ok((tool, bad(&format!("takes {least} to {most} arguments, not {given}"))));
    }
    if let Some(why) = args.iter().find_map(|arg| Size::of(arg).check(&call.limits).err()) {
        return Err(call.stop(FailureKind::Memory, &format!("an argument has {why}")));
    }
    let Some(host) = &mut call.host else {
        return Ok((tool, bad("tools cannot be called in params()")));
    };
    if let Some(line) = line {
        host.place(line);
    }
    let answered = guarded(|| host.call(tool, args));
    let waited = host.waited();
    call.note_waiting(waited);
    let value = match answered {
        Ok(Ok(value)) => value,
        Ok(Err(error @ ToolError::Deadline(_))) => {
            let message = format!("{}: {error}", spec.name);
            return Err(call.stop(FailureKind::Deadline, &message));
        }
        Ok(Err(error)) => return Ok((tool, Err(error))),
        Err(panic) => {
            let message = format!("{}: {panic}", spec.name);
            return Err(call.stop(FailureKind::Panic, &message));
        }
    };
    // What the tool gave, and the message that it becomes.
    call.pass(2 * Size::of(&value).bytes())?;
    let mut reply = Vec::new();
    if let Err(why) = call.write_answer(&value, &mut reply) {
        return Err(call.stop(FailureKind::Memory, &format!("{}: {why}", spec.name)));
    }
    let length = reply.len();
    call.passing = length as u64;
    call.message = reply;
    Ok((tool, Ok(length)))
}

fn bad(why: &str) -> Answer {
    Err(ToolError::BadArgs(why.to_owned()))
}

fn kind_of(error: &ToolError) -> FailureKind {
    match error {
        ToolError::Budget(_) => FailureKind::ToolBudget,
        _ => FailureKind::Tool,
    }
}

/// A tool by its number; a failure is a negative length and a message.
fn call_numbered(
    mut caller: Caller<'_, Call>,
    tool: u32,
    line: u32,
    at: u32,
    len: u32,
) -> wasmtime::Result<i32> {
    // Lines count from 1; 0 is one that the engine does not know.
    let line = (line > 0).then_some(line as usize);
    let (_, answered) = answer(&mut caller, |_| tool as usize, line, at, len)?;
    let call = caller.data_mut();
    let length = match answered {
        Ok(length) => i32::try_from(length).ok(),
        Err(error) => {
            let spent = u8::from(kind_of(&error) == FailureKind::ToolBudget);
            let why = Failure::new(FailureKind::Tool, &error.to_string(), &call.limits).message;
            call.message = [&[spent][..], why.as_bytes()].concat();
            i32::try_from(call.message.len()).ok().map(|length| -length)
        }
    };
    length.ok_or_else(|| call.stop(FailureKind::Memory, "a tool gave more than 2 GiB"))
}

/// A tool by its name: of operators of one name, the first that takes these arguments. A failure
/// ends the call.
fn call_named(
    caller: &mut Caller<'_, Call>,
    tools: &[usize],
    at: u32,
    len: u32,
) -> wasmtime::Result<u32> {
    let specs = caller.data().specs;
    let first = tools.first().copied().unwrap_or(usize::MAX);
    let choose = |args: &[Value]| {
        let fits = |tool: &&usize| specs.get(**tool).is_some_and(|spec| takes(spec, args));
        tools.iter().find(fits).copied().unwrap_or(first)
    };
    let (tool, answered) = answer(caller, choose, None, at, len)?;
    let call = caller.data_mut();
    match answered {
        Ok(length) => u32::try_from(length)
            .map_err(|_| call.stop(FailureKind::Memory, "a tool gave more than 4 GiB")),
        Err(error) => {
            let name = specs.get(tool).map_or("tool", |spec| spec.name);
            Err(call.stop(kind_of(&error), &format!("{name}: {error}")))
        }
    }
}

/// Whether an operator takes these arguments.
fn takes(spec: &ToolSpec, args: &[Value]) -> bool {
    let fits = |kind: Kind, value: &Value| match kind {
        Kind::Nodes => matches!(value, Value::Nodes(_) | Value::List(_)),
        Kind::Scores => matches!(value, Value::Scores(_)),
        Kind::Vector => matches!(value, Value::Vector(_)),
        Kind::Number => matches!(value, Value::Int(_) | Value::Float(_)),
        Kind::Int | Kind::Node => matches!(value, Value::Int(_)),
        Kind::Text => matches!(value, Value::Text(_)),
        Kind::Bool => matches!(value, Value::Bool(_)),
        Kind::Unit => matches!(value, Value::Unit),
        Kind::Map => matches!(value, Value::Map(_)),
        Kind::Texts | Kind::Numbers | Kind::Vectors | Kind::Bools => {
            matches!(value, Value::List(_))
        }
        Kind::Any => true,
    };
    args.len() == spec.args.len()
        && spec.args.iter().zip(args).all(|(arg, value)| fits(arg.kind, value))
}

/// What modules may import: the host's own functions and each tool under its name.
///
/// # Errors
/// That the engine refuses it.
pub(super) fn linker(specs: &'static [ToolSpec]) -> wasmtime::Result<Linker<Call>> {
    let mut linker = own_functions()?;
    let names: Vec<&str> = specs.iter().map(import_name).collect();
    for (at, name) in names.iter().enumerate() {
        if names.iter().position(|other| other == name) != Some(at) {
            continue;
        }
        let named = names.iter().enumerate().filter(|other| other.1 == name);
        let tools: Vec<usize> = named.map(|other| other.0).collect();
        let call = move |mut caller: Caller<'_, Call>, at: u32, len: u32| {
            call_named(&mut caller, &tools, at, len)
        };
        linker.func_wrap(TOOLS, name, call)?;
    }
    Ok(linker)
}

/// What the engine for Rhai may import.
///
/// # Errors
/// That the engine refuses it.
pub(super) fn rhai_linker() -> wasmtime::Result<Linker<Call>> {
    let mut linker = own_functions()?;
    linker.func_wrap(RHAI, "call", call_numbered)?;
    linker.func_wrap(RHAI, "fail", fail_as)?;
    Ok(linker)
}

fn own_functions() -> wasmtime::Result<Linker<Call>> {
    let mut linker = Linker::new(engine()?);
    linker.func_wrap(AGENT, "take", take)?;
    linker.func_wrap(AGENT, "give", give)?;
    linker.func_wrap(AGENT, "read", read)?;
    linker.func_wrap(AGENT, "length", length)?;
    linker.func_wrap(AGENT, "release", release)?;
    linker.func_wrap(AGENT, "print", print)?;
    linker.func_wrap(AGENT, "fail", fail)?;
    Ok(linker)
}

/// Why a call did not begin, and its host.
pub(super) struct NotStarted(Box<(Failure, Box<dyn ToolHost>)>);

impl NotStarted {
    /// With the host that is handed back, if there was one.
    pub(super) fn new(failure: Failure, host: Option<Box<dyn ToolHost>>) -> Self {
        let host = host.unwrap_or_else(|| Box::new(LostHost));
        Self(Box::new((failure, host)))
    }

    /// The failure.
    pub(super) fn into_failure(self) -> Failure {
        self.0.0
    }

    /// The failure and the host.
    pub(super) fn into_parts(self) -> (Failure, Box<dyn ToolHost>) {
        *self.0
    }
}

/// A module's instance with its call; dropping it leaves nothing behind.
pub(super) struct Started {
    pub(super) store: Store<Call>,
    pub(super) instance: Instance,
    fuel: u64,
    _ticking: Ticking,
}

impl Started {
    /// Makes an instance; the module's start function already counts.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub(super) fn new(pre: &InstancePre<Call>, call: Call) -> Result<Self, NotStarted> {
        let operations = call.limits.operations;
        let fuel = match call.is_rhai {
            true => operations.saturating_mul(RHAI_FUEL_PER_OPERATION).saturating_add(RHAI_FUEL),
            false => operations.saturating_mul(FUEL_PER_OPERATION),
        };
        let ticking = Ticking::start();
        let mut store = Store::new(pre.module().engine(), call);
        store.limiter(|call| call);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|mut context| {
            if !context.data().late() {
                return Ok(UpdateDeadline::Continue(1));
            }
            let call = context.data_mut();
            let ms = call.timer.elapsed().saturating_sub(call.waited).as_millis();
            call.stop(FailureKind::Deadline, &format!("stopped after {ms} ms"));
            Ok(UpdateDeadline::Interrupt)
        });
        let started = store.set_fuel(fuel).and_then(|()| pre.instantiate(&mut store));
        match started {
            Ok(instance) => Ok(Self { store, instance, fuel, _ticking: ticking }),
            Err(error) => {
                let failure = failure_of(&error, &mut store);
                Err(NotStarted::new(failure, store.into_data().host))
            }
        }
    }

    /// The module's memory.
    pub(super) fn memory(&mut self) -> Option<Memory> {
        self.instance.get_memory(&mut self.store, "memory")
    }

    /// Calls an exported function that takes the length of a message, or nothing; what the module
    /// gave.
    ///
    /// # Errors
    /// Why it gave nothing.
    pub(super) fn invoke(
        &mut self,
        name: &str,
        message: Option<Vec<u8>>,
    ) -> Result<Vec<u8>, Failure> {
        let done = match message {
            Some(message) => {
                let length = message.len() as u32;
                self.store.data_mut().message = message;
                self.instance
                    .get_typed_func::<u32, ()>(&mut self.store, name)
                    .and_then(|function| function.call(&mut self.store, length))
            }
            None => self
                .instance
                .get_typed_func::<(), ()>(&mut self.store, name)
                .and_then(|function| function.call(&mut self.store, ())),
        };
        if let Err(error) = done {
            return Err(failure_of(&error, &mut self.store));
        }
        let call = self.store.data_mut();
        call.given.take().ok_or_else(|| {
            Failure::new(FailureKind::Result, "the module gave no result", &call.limits)
        })
    }

    /// Gives a stopped module a little more, so that it can say what it used.
    pub(super) fn refresh(&mut self) {
        let call = self.store.data_mut();
        call.stop = None;
        call.timer = Timer::start(call.limits.deadline);
        // Without fuel the module says nothing, which is no failure.
        let _ = self.store.set_fuel(LAST_FUEL);
        self.store.set_epoch_deadline(1);
    }

    /// What the host can say of the use: fuel, tool calls, time, memory.
    pub(super) fn usage(&self) -> Usage {
        let call = self.store.data();
        let left = self.store.get_fuel().unwrap_or(0);
        Usage {
            operations: self.fuel.saturating_sub(left) / FUEL_PER_OPERATION,
            tool_calls: call.tool_calls,
            ms: call.timer.elapsed().as_secs_f64() * 1e3,
            peak_bytes: call.growth.peak,
            leaked_bytes: 0,
        }
    }

    /// What the module printed, taken.
    pub(super) fn take_output(&mut self) -> String {
        std::mem::take(&mut self.store.data_mut().output)
    }

    /// Drops the instance; the host, if there is one.
    pub(super) fn into_host(self) -> Option<Box<dyn ToolHost>> {
        self.store.into_data().host
    }
}

/// The failure that an error of the engine stands for.
fn failure_of(error: &wasmtime::Error, store: &mut Store<Call>) -> Failure {
    let call = store.data_mut();
    if let Some(stop) = call.stop.take() {
        return stop;
    }
    let most = call.limits.memory_bytes >> 20;
    let (kind, message) = match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => {
            let most = call.limits.operations;
            let message =
                format!("more than {most} operations, as fuel; use tools instead of loops");
            (FailureKind::Operations, message)
        }
        Some(Trap::Interrupt) => (FailureKind::Deadline, "stopped".to_owned()),
        _ if call.growth.refused || call.handles.refused => (
            FailureKind::Memory,
            format!("the module wants more than {most} MiB; hold less at once"),
        ),
        Some(Trap::StackOverflow) => {
            (FailureKind::Depth, "calls are nested too deep; use a loop".to_owned())
        }
        // The stack of this module ends where its memory begins.
        Some(Trap::MemoryOutOfBounds) if call.is_rhai => {
            (FailureKind::Depth, "values are nested too deep".to_owned())
        }
        Some(trap) => (FailureKind::Runtime, format!("the module trapped: {trap}")),
        None => (FailureKind::Runtime, format!("{error:#}")),
    };
    Failure::new(kind, &message, &call.limits)
}
