//! One call of a module: its input, its budgets, its usage and how it ends, and the functions of
//! the host that modules import. The host accesses a module's memory only through checked slices.

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
        engine::{Ticker, engine},
        handles::HandleTable,
        size::Size,
        wire::{Reader, write},
    },
};
use agent_ground::clock::Timer;
use agent_tools::{Kind, ToolError, ToolHost, ToolSpec, Value};

/// Units of fuel for one operation of [`Limits::operations`]; one unit of fuel is about one
/// instruction.
pub(super) const FUEL_PER_OPERATION: u64 = 100;
/// Units of fuel for one operation of a Rhai program. The Rhai engine counts operations itself, and
/// one operation may traverse a long value. So the fuel is only a second bound; a call usually
/// reaches its deadline first.
const RHAI_FUEL_PER_OPERATION: u64 = 20_000;
/// Additional units of fuel for a call of the Rhai engine.
const RHAI_FUEL: u64 = 10_000_000_000;
/// Number of bytes that the host copies for one unit of fuel.
const BYTES_PER_FUEL: usize = 16;
/// Memory in bytes allowed beyond the program's limit, for the module's own data and allocator
/// overhead. The same amount again is allowed for messages, which the host copies.
const SPARE_BYTES: u64 = 32 << 20;
/// Maximum number of entries of a WebAssembly table in the module.
const MAX_TABLE: usize = 100_000;
/// Maximum number of values in the arguments of one tool call.
const MAX_VALUES: usize = 100_000;
/// Maximum size in bytes of the arguments of one tool call, or of a result.
const MAX_ARGUMENT_BYTES: usize = 16 << 20;
/// Maximum number of values in the arguments of a tool call by the Rhai engine, which limits the
/// lengths of lists itself and sends vectors number by number.
const MAX_RHAI_VALUES: usize = MAX_ARGUMENT_BYTES / size_of::<f32>();
/// Units of fuel given to a stopped module, so that it can report its usage.
const LAST_FUEL: u64 = 10_000_000;

/// Name of the import module with the host's own functions.
pub(super) const AGENT: &str = "agent";
/// Name of the import module with the tools.
pub(super) const TOOLS: &str = "tools";
/// Name of the import module with the functions for the Rhai engine.
const RHAI: &str = "rhai";

/// Returns the name under which modules import a tool, such as `op_and` for the operator `&`.
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

/// Size of a module's memory, and whether the module was refused more memory.
#[derive(Default)]
struct Growth {
    now: u64,
    /// Peak in bytes of the module's memory together with held tool results and messages.
    peak: u64,
    refused: bool,
}

/// Limits the memory of the module together with the tool results held for it, because both are
/// memory of this process.
impl ResourceLimiter for Call {
    fn memory_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if (desired as u64).saturating_add(self.handles.bytes()) > self.max_bytes() {
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

/// State of one call of a module.
pub(super) struct Call {
    host: Option<Box<dyn ToolHost>>,
    specs: &'static [ToolSpec],
    limits: Limits,
    pub(super) handles: HandleTable,
    /// Message for the module, which it copies with `take`.
    message: Vec<u8>,
    result: Option<Vec<u8>>,
    stop: Option<Failure>,
    tool_calls: u64,
    timer: Timer,
    /// Time that tools waited for language models; not charged to the call.
    waited: Duration,
    growth: Growth,
    /// Memory in bytes that the current message and its values take in the host.
    in_transit: u64,
    output: String,
    /// Whether the module is the Rhai engine.
    is_rhai: bool,
}

impl Call {
    /// Creates the state of a new call and starts its timer. Without a host, the call may not use
    /// tools.
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
            result: None,
            stop: None,
            tool_calls: 0,
            timer: Timer::start(limits.deadline),
            waited: Duration::ZERO,
            growth: Growth::default(),
            in_transit: 0,
            output: String::new(),
            is_rhai,
        }
    }

    /// Records the reason why the call stops, unless one is recorded already. Returns the error
    /// that ends the call.
    fn stop(&mut self, kind: FailureKind, message: &str) -> wasmtime::Error {
        let failure = || Failure::new(kind, message, &self.limits);
        if self.stop.is_none() {
            self.stop = Some(failure());
        }
        wasmtime::Error::msg("stopped")
    }

    /// Returns the maximum memory in bytes of the module together with the values held for it.
    fn max_bytes(&self) -> u64 {
        self.limits.memory_bytes.saturating_add(SPARE_BYTES)
    }

    fn note_peak(&mut self) {
        let now = self.growth.now + self.handles.bytes() + self.in_transit;
        self.growth.peak = self.growth.peak.max(now);
    }

    /// Charges the memory of a message, in bytes, before the message is copied.
    ///
    /// # Errors
    /// If the message exceeds the limit; the call then stops.
    fn charge_message(&mut self, bytes: u64) -> wasmtime::Result<()> {
        self.in_transit = bytes;
        let max_bytes = self.max_bytes().saturating_add(SPARE_BYTES);
        if (self.growth.now + self.handles.bytes()).saturating_add(bytes) > max_bytes {
            let mib = max_bytes >> 20;
            let reason = format!("the module with its messages needs more than {mib} MiB");
            return Err(self.stop(FailureKind::Memory, &reason));
        }
        self.note_peak();
        Ok(())
    }

    /// Appends the result of a tool to `reply`; sets of nodes, scores and vectors are held and
    /// written as handles. The error names the limit that the result exceeds.
    fn write_answer(&mut self, value: &Value, reply: &mut Vec<u8>) -> Result<(), String> {
        Size::new(value).check(&self.limits)?;
        let left = self.max_bytes().saturating_sub(self.growth.now);
        self.handles.max_bytes = left.min(self.limits.memory_bytes);
        write(reply, value, &mut self.handles)?;
        self.note_peak();
        Ok(())
    }

    fn is_late(&self) -> bool {
        self.timer.left().is_zero()
    }

    /// Extends the deadline by the time that tools waited for language models since this function
    /// was last called; `waited` is the total since the module was called.
    fn add_waiting(&mut self, waited: Duration) {
        let more = waited.saturating_sub(std::mem::replace(&mut self.waited, waited));
        self.timer = self.timer.with_waiting(more);
    }
}

/// Returns the memory that the calling module exports.
fn memory(caller: &mut Caller<'_, Call>) -> wasmtime::Result<Memory> {
    match caller.get_export("memory").and_then(Extern::into_memory) {
        Some(memory) => Ok(memory),
        None => Err(caller.data_mut().stop(FailureKind::Runtime, "the module exports no `memory`")),
    }
}

fn out_of_bounds(call: &mut Call) -> wasmtime::Error {
    call.stop(FailureKind::Runtime, "an address is outside the module's memory")
}

/// Charges fuel for copying this number of bytes; traps if too little is left.
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

/// Copies `len` bytes at `address` of the module's memory; more than `max_len` bytes stop the call.
fn bytes_at(
    caller: &mut Caller<'_, Call>,
    address: u32,
    len: u32,
    max_len: usize,
) -> wasmtime::Result<Vec<u8>> {
    let len = len as usize;
    if len > max_len {
        let message = format!("a message has {len} bytes, more than {max_len}");
        return Err(caller.data_mut().stop(FailureKind::Memory, &message));
    }
    charge(caller, len)?;
    let (data, call) = memory(caller)?.data_and_store_mut(caller);
    let bytes = data.get(address as usize..).and_then(|rest| rest.get(..len));
    bytes.map(<[u8]>::to_vec).ok_or_else(|| out_of_bounds(call))
}

/// Implements the import `take`: copies the current message to `address` in the module's memory.
fn take(mut caller: Caller<'_, Call>, address: u32) -> wasmtime::Result<()> {
    let len = caller.data().message.len();
    charge(&mut caller, len)?;
    let (data, call) = memory(&mut caller)?.data_and_store_mut(&mut caller);
    let message = std::mem::take(&mut call.message);
    match data.get_mut(address as usize..).and_then(|rest| rest.get_mut(..message.len())) {
        Some(target) => target.copy_from_slice(&message),
        None => return Err(out_of_bounds(call)),
    }
    Ok(())
}

/// Implements the import `give`: stores `len` bytes at `address` as the result of the call; a later
/// result replaces an earlier one.
fn give(mut caller: Caller<'_, Call>, address: u32, len: u32) -> wasmtime::Result<()> {
    let result = bytes_at(&mut caller, address, len, MAX_ARGUMENT_BYTES)?;
    caller.data_mut().result = Some(result);
    Ok(())
}

/// Implements the import `read`: copies the value behind a handle, at most `len` bytes, to
/// `address` in the module's memory. Returns the number of bytes copied.
fn read(
    mut caller: Caller<'_, Call>,
    handle: u32,
    address: u32,
    len: u32,
) -> wasmtime::Result<u32> {
    charge(&mut caller, len as usize)?;
    let (data, call) = memory(&mut caller)?.data_and_store_mut(&mut caller);
    let Some(target) =
        data.get_mut(address as usize..).and_then(|rest| rest.get_mut(..len as usize))
    else {
        return Err(out_of_bounds(call));
    };
    match call.handles.read(handle, target) {
        Some(copied) => Ok(copied as u32),
        None => Err(unknown(call, handle)),
    }
}

fn unknown(call: &mut Call, handle: u32) -> wasmtime::Error {
    call.stop(FailureKind::Runtime, &format!("handle {handle} is unknown or was released"))
}

/// Implements the import `length`: returns the number of nodes, scores or numbers behind a handle.
fn length(mut caller: Caller<'_, Call>, handle: u32) -> wasmtime::Result<u32> {
    let call = caller.data_mut();
    match call.handles.len(handle) {
        Some(length) => Ok(length as u32),
        None => Err(unknown(call, handle)),
    }
}

/// Implements the import `release`: releases the value behind a handle.
fn release(mut caller: Caller<'_, Call>, handle: u32) -> wasmtime::Result<()> {
    let call = caller.data_mut();
    match call.handles.release(handle) {
        true => Ok(()),
        false => Err(unknown(call, handle)),
    }
}

/// Implements the import `print`: appends the text of `len` bytes at `address`, and a line break,
/// to the output.
fn print(mut caller: Caller<'_, Call>, address: u32, len: u32) -> wasmtime::Result<()> {
    let max = caller.data().limits.output_bytes;
    let text =
        bytes_at(&mut caller, address, len.min(u32::try_from(max).unwrap_or(u32::MAX)), max)?;
    let call = caller.data_mut();
    let text = String::from_utf8_lossy(&text);
    let fits = len as usize <= max
        && push_clean(&mut call.output, &text, max)
        && push_clean(&mut call.output, "\n", max);
    match fits {
        true => Ok(()),
        false => Err(call.stop(FailureKind::Output, &format!("more than {max} bytes printed"))),
    }
}

/// Implements `fail` for modules: ends the call with the message of `len` bytes at `address`.
fn fail(mut caller: Caller<'_, Call>, address: u32, len: u32) -> wasmtime::Result<()> {
    let max = caller.data().limits.message_bytes;
    let len = len.min(u32::try_from(max).unwrap_or(u32::MAX));
    let message = bytes_at(&mut caller, address, len, max)?;
    let message = String::from_utf8_lossy(&message).into_owned();
    Err(caller.data_mut().stop(FailureKind::Runtime, &message))
}

/// Implements `fail` for the Rhai engine: ends the call with a failure that the engine describes as
/// JSON.
fn fail_as(mut caller: Caller<'_, Call>, address: u32, len: u32) -> wasmtime::Result<()> {
    let report = bytes_at(&mut caller, address, len, MAX_ARGUMENT_BYTES)?;
    let call = caller.data_mut();
    let Ok(reported) = serde_json::from_slice::<Failure>(&report) else {
        return Err(call.stop(FailureKind::Panic, "the engine failed without a reason"));
    };
    let mut output = String::new();
    push_clean(&mut output, &reported.output, call.limits.output_bytes);
    let failure = Failure::new(reported.kind, &reported.message, &call.limits);
    let failure = Failure { position: reported.position, usage: reported.usage, output, ..failure };
    call.stop.get_or_insert(failure);
    Err(wasmtime::Error::msg("stopped"))
}

/// Length in bytes of a tool's reply, which the module takes as its next message; or the error of
/// the tool.
type Answer = Result<usize, ToolError>;

/// Calls a tool for a module; `choose` returns the index of the tool, given the arguments. Returns
/// that index, and the tool's reply or its refusal.
///
/// # Errors
/// If the failure ends the call, such as an exceeded limit or a panic of the tool.
fn call_tool(
    caller: &mut Caller<'_, Call>,
    choose: impl FnOnce(&[Value]) -> usize,
    line: Option<usize>,
    address: u32,
    len: u32,
) -> wasmtime::Result<(usize, Answer)> {
    // Counted twice: as the message, and as the values read from it.
    caller.data_mut().charge_message(2 * u64::from(len))?;
    let message = bytes_at(caller, address, len, MAX_ARGUMENT_BYTES)?;
    let call = caller.data_mut();
    call.tool_calls += 1;
    if call.tool_calls > call.limits.tool_calls {
        let max = call.limits.tool_calls;
        let message = format!("more than {max} tool calls; give tools sets, not single nodes");
        return Err(call.stop(FailureKind::ToolBudget, &message));
    }
    let max_values = if call.is_rhai { MAX_RHAI_VALUES } else { MAX_VALUES };
    let mut reader = Reader::new(&message, max_values);
    let read = reader.value(&mut call.handles).and_then(|args| reader.end().map(|()| args));
    let args = match read {
        Ok(Value::List(args)) => args,
        Ok(_) => return Ok((choose(&[]), bad("arguments are not a list"))),
        Err(why) => return Ok((choose(&[]), bad(&why))),
    };
    let tool = choose(&args);
    let Some(spec) = call.specs.get(tool) else {
        return Err(call.stop(FailureKind::Runtime, &format!("tool number {tool} does not exist")));
    };
    let (min, max, n) = (spec.min_args(), spec.args.len(), args.len());
    if !(min..=max).contains(&n) {
        return Ok((tool, bad(&format!("takes {min} to {max} arguments, not {n}"))));
    }
    if let Some(why) = args.iter().find_map(|arg| Size::new(arg).check(&call.limits).err()) {
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
    call.add_waiting(waited);
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
    // Counted twice: as the result, and as its message.
    call.charge_message(2 * Size::new(&value).bytes())?;
    let mut reply = Vec::new();
    if let Err(why) = call.write_answer(&value, &mut reply) {
        return Err(call.stop(FailureKind::Memory, &format!("{}: {why}", spec.name)));
    }
    let length = reply.len();
    call.in_transit = length as u64;
    call.message = reply;
    Ok((tool, Ok(length)))
}

fn bad(message: &str) -> Answer {
    Err(ToolError::BadArgs(message.to_owned()))
}

fn kind_of(error: &ToolError) -> FailureKind {
    match error {
        ToolError::Budget(_) => FailureKind::ToolBudget,
        _ => FailureKind::Tool,
    }
}

/// Implements `call` for the Rhai engine: calls the tool with the index `tool`, and returns the
/// length of the reply in bytes. If the tool fails, the next message is one byte (1 for a spent
/// budget, otherwise 0) followed by the reason, and its length is returned as a negative number.
fn call_numbered(
    mut caller: Caller<'_, Call>,
    tool: u32,
    line: u32,
    address: u32,
    len: u32,
) -> wasmtime::Result<i32> {
    // Lines count from 1; 0 is unknown.
    let line = (line > 0).then_some(line as usize);
    let (_, answered) = call_tool(&mut caller, |_| tool as usize, line, address, len)?;
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
    length.ok_or_else(|| call.stop(FailureKind::Memory, "a tool returned more than 2 GiB"))
}

/// Calls one of several tools that are imported under one name: the first that accepts the
/// arguments. If the tool fails, the call ends. Returns the length of the reply in bytes.
fn call_named(
    caller: &mut Caller<'_, Call>,
    tools: &[usize],
    address: u32,
    len: u32,
) -> wasmtime::Result<u32> {
    let specs = caller.data().specs;
    let first = tools.first().copied().unwrap_or(usize::MAX);
    let choose = |args: &[Value]| {
        let fits = |tool: &&usize| specs.get(**tool).is_some_and(|spec| takes(spec, args));
        tools.iter().find(fits).copied().unwrap_or(first)
    };
    let (tool, answered) = call_tool(caller, choose, None, address, len)?;
    let call = caller.data_mut();
    match answered {
        Ok(length) => u32::try_from(length)
            .map_err(|_| call.stop(FailureKind::Memory, "a tool returned more than 4 GiB")),
        Err(error) => {
            let name = specs.get(tool).map_or("tool", |spec| spec.name);
            Err(call.stop(kind_of(&error), &format!("{name}: {error}")))
        }
    }
}

/// Whether a tool accepts exactly these arguments, by number and kind, without omitting any.
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

/// Creates the linker for modules, which defines the host's own functions and each tool under its
/// import name.
///
/// # Errors
/// Errors of the WebAssembly engine.
pub(super) fn linker(specs: &'static [ToolSpec]) -> wasmtime::Result<Linker<Call>> {
    let mut linker = host_functions()?;
    let names: Vec<&str> = specs.iter().map(import_name).collect();
    for (index, name) in names.iter().enumerate() {
        if names.iter().position(|other| other == name) != Some(index) {
            continue;
        }
        let named = names.iter().enumerate().filter(|other| other.1 == name);
        let tools: Vec<usize> = named.map(|other| other.0).collect();
        let call = move |mut caller: Caller<'_, Call>, address: u32, len: u32| {
            call_named(&mut caller, &tools, address, len)
        };
        linker.func_wrap(TOOLS, name, call)?;
    }
    Ok(linker)
}

/// Creates the linker for the Rhai engine, which defines the host's own functions and those for
/// this engine.
///
/// # Errors
/// Errors of the WebAssembly engine.
pub(super) fn rhai_linker() -> wasmtime::Result<Linker<Call>> {
    let mut linker = host_functions()?;
    linker.func_wrap(RHAI, "call", call_numbered)?;
    linker.func_wrap(RHAI, "fail", fail_as)?;
    Ok(linker)
}

fn host_functions() -> wasmtime::Result<Linker<Call>> {
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

/// The failure of a call that could not start, with the host given for the call.
pub(super) struct StartFailure(Box<(Failure, Box<dyn ToolHost>)>);

impl StartFailure {
    pub(super) fn new(failure: Failure, host: Option<Box<dyn ToolHost>>) -> Self {
        let host = host.unwrap_or_else(|| Box::new(LostHost));
        Self(Box::new((failure, host)))
    }

    pub(super) fn into_failure(self) -> Failure {
        self.0.0
    }

    pub(super) fn into_parts(self) -> (Failure, Box<dyn ToolHost>) {
        *self.0
    }
}

/// An instance of a module that runs one call, with the state of that call.
pub(super) struct LiveInstance {
    pub(super) store: Store<Call>,
    pub(super) instance: Instance,
    fuel: u64,
    _ticker: Ticker,
}

impl LiveInstance {
    /// Creates an instance of a module. The time and fuel of the module's start function are
    /// charged to the call.
    ///
    /// # Errors
    /// [`StartFailure`] with the reason and the host.
    pub(super) fn new(pre: &InstancePre<Call>, call: Call) -> Result<Self, StartFailure> {
        let operations = call.limits.operations;
        let fuel = match call.is_rhai {
            true => operations.saturating_mul(RHAI_FUEL_PER_OPERATION).saturating_add(RHAI_FUEL),
            false => operations.saturating_mul(FUEL_PER_OPERATION),
        };
        let ticker = Ticker::start();
        let mut store = Store::new(pre.module().engine(), call);
        store.limiter(|call| call);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|mut context| {
            if !context.data().is_late() {
                return Ok(UpdateDeadline::Continue(1));
            }
            let call = context.data_mut();
            let ms = call.timer.elapsed().saturating_sub(call.waited).as_millis();
            call.stop(FailureKind::Deadline, &format!("stopped after {ms} ms"));
            Ok(UpdateDeadline::Interrupt)
        });
        let started = store.set_fuel(fuel).and_then(|()| pre.instantiate(&mut store));
        match started {
            Ok(instance) => Ok(Self { store, instance, fuel, _ticker: ticker }),
            Err(error) => {
                let failure = failure_of(&error, &mut store);
                Err(StartFailure::new(failure, store.into_data().host))
            }
        }
    }

    pub(super) fn memory(&mut self) -> Option<Memory> {
        self.instance.get_memory(&mut self.store, "memory")
    }

    /// Calls an exported function and returns the result that the module gave. With a message, the
    /// function's argument is the length of the message in bytes; otherwise it has none.
    ///
    /// # Errors
    /// Returns the failure of the call; [`FailureKind::Result`] if the module returned no result.
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
        call.result.take().ok_or_else(|| {
            Failure::new(FailureKind::Result, "the module returned no result", &call.limits)
        })
    }

    /// Gives a stopped module new fuel and time, so that it can report its usage.
    pub(super) fn refresh(&mut self) {
        let call = self.store.data_mut();
        call.stop = None;
        call.timer = Timer::start(call.limits.deadline);
        // Without fuel the module reports nothing, which is not a failure.
        let _ = self.store.set_fuel(LAST_FUEL);
        self.store.set_epoch_deadline(1);
    }

    /// Returns the usage that the host measured: operations (from the fuel used), tool calls, time
    /// and peak memory.
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

    /// Takes and returns the text printed so far.
    pub(super) fn take_output(&mut self) -> String {
        std::mem::take(&mut self.store.data_mut().output)
    }

    /// Drops the instance, and returns the host of its call, if it had one.
    pub(super) fn into_host(self) -> Option<Box<dyn ToolHost>> {
        self.store.into_data().host
    }
}

/// Returns why a call failed: the recorded reason or, without one, a reason derived from the
/// WebAssembly engine's error.
fn failure_of(error: &wasmtime::Error, store: &mut Store<Call>) -> Failure {
    let call = store.data_mut();
    if let Some(stop) = call.stop.take() {
        return stop;
    }
    let mib = call.max_bytes() >> 20;
    let (kind, message) = match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => {
            let max = call.limits.operations;
            let message = format!(
                "more than {max} operations (measured as fuel); use tools instead of loops"
            );
            (FailureKind::Operations, message)
        }
        Some(Trap::Interrupt) => (FailureKind::Deadline, "stopped".to_owned()),
        _ if call.growth.refused || call.handles.refused => (
            FailureKind::Memory,
            format!("the module needs more than {mib} MiB; hold less at once"),
        ),
        Some(Trap::StackOverflow) => {
            (FailureKind::Depth, "calls are nested too deep; use a loop".to_owned())
        }
        // The stack of the Rhai engine lies at the start of its memory, so a stack overflow
        // accesses an address outside the memory.
        Some(Trap::MemoryOutOfBounds) if call.is_rhai => {
            (FailureKind::Depth, "values are nested too deep".to_owned())
        }
        Some(trap) => (FailureKind::Runtime, format!("the module trapped: {trap}")),
        None => (FailureKind::Runtime, format!("{error:#}")),
    };
    Failure::new(kind, &message, &call.limits)
}
