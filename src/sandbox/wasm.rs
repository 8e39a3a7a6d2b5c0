//! Runs programs inside WebAssembly. A program is either a WebAssembly module or a Rhai script;
//! scripts are run by a Rhai engine that is itself compiled to a module. Only this folder uses the
//! `wasmtime` crate.
//!
//! Each call has its own instance and memory, dropped after the call: nothing leaks into later
//! calls, and a stack overflow or refused memory ends the call, not the process. Only core modules
//! are supported: component interfaces would add trusted code, and a program needs only numbers,
//! text and handles. Modules have no access to the operating system (no WASI).

mod cache;
mod call;
mod engine;
mod guest;
mod handles;
mod interface;
mod module;
mod size;
#[cfg(test)]
mod tests;
mod wire;

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use wasmtime::{ExternType, InstancePre, ValType};

use crate::{
    Code, CompiledProgram, Failure, FailureKind, Input, Limits, LostHost, Outcome, Param,
    RunResult, Sandbox, Usage, Workers, check_source,
    given::Given,
    lost_job, push_clean, run_on,
    verdict::{BoundValue, bind_params, read_params, read_ranking},
    wasm::{
        cache::{CodeCache, CodeOwner},
        call::{Call, LiveInstance},
        guest::{RhaiGuest, RhaiProgram},
        wire::{Reader, write, write_ids, write_list, write_text},
    },
};
use agent_tools::{ToolHost, ToolSpec, Value, registry};

pub use interface::interface_page;

/// Name of the function of a program that answers a query.
const RETRIEVE: &str = "retrieve";
/// Name of the function of a program that declares its parameters.
const PARAMS: &str = "params";
/// Maximum number of values in the result of a call, including nested ones.
const MAX_RESULT_VALUES: usize = 300_000;

/// Returns the header of a module, the text of its custom section `agent`: category and
/// description, in the form of the first lines of a Rhai program. `None` if the module has no such
/// section.
pub fn module_header(bytes: &[u8]) -> Option<&str> {
    module::custom_section(bytes, "agent")
}

/// Whether `bytes` begin like a core WebAssembly module.
pub fn is_module(bytes: &[u8]) -> bool {
    bytes.starts_with(module::MAGIC)
}

/// Sandbox that runs Rhai programs and modules inside WebAssembly, on a pool of workers.
pub struct WasmSandbox {
    workers: Arc<Workers>,
    specs: &'static [ToolSpec],
    code_dir: Option<Arc<Path>>,
    guest: Arc<OnceLock<Result<Arc<RhaiGuest>, Failure>>>,
}

impl WasmSandbox {
    /// Creates a sandbox whose programs may call all tools. Compiled code is stored in the
    /// directory `code_dir`, unless other users may write to it.
    pub fn new(workers: Arc<Workers>, code_dir: Option<&Path>) -> Self {
        Self::with_tools(workers, registry(), code_dir)
    }

    /// Creates a sandbox whose programs may call only the tools `specs`. The host gets the index of
    /// a called tool in `specs`.
    pub fn with_tools(
        workers: Arc<Workers>,
        specs: &'static [ToolSpec],
        code_dir: Option<&Path>,
    ) -> Self {
        Self { workers, specs, code_dir: code_dir.map(Arc::from), guest: Arc::default() }
    }

    /// Runs a job on a worker and waits for its result, at most about `deadline`; see
    /// [`Workers::run_within`].
    fn on_worker<T: Send + 'static>(
        &self,
        limits: &Limits,
        deadline: Duration,
        job: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.workers
            .run_within(deadline, Duration::ZERO, job)
            .unwrap_or_else(|lost| Err(lost_job(lost, limits)))
    }
}

impl Sandbox for WasmSandbox {
    fn compile(&self, code: Code<'_>, limits: &Limits) -> Result<CompiledProgram, Failure> {
        let (specs, owned) = (self.specs, limits.clone());
        let code_dir = self.code_dir.clone();
        let cache = move || code_dir.as_deref().and_then(CodeCache::open);
        match code {
            Code::Rhai(source) => {
                check_source(source, limits)?;
                let (source, guest) = (source.to_owned(), self.guest.clone());
                // The first call compiles the engine itself.
                let deadline = guest::ENGINE_DEADLINE.saturating_add(limits.parse_deadline);
                self.on_worker(limits, deadline, move || {
                    let set_up = || RhaiGuest::new(specs, cache().as_ref()).map(Arc::new);
                    let guest = guest.get_or_init(set_up).clone()?;
                    guest
                        .compile(&source, &owned)
                        .map(|program| compiled(ProgramForm::Rhai(program)))
                })
            }
            Code::Wasm(bytes) => {
                check_module(bytes, limits)?;
                let bytes = bytes.to_vec();
                self.on_worker(limits, limits.compile_deadline, move || {
                    native(&bytes, specs, cache().as_ref(), &owned)
                        .map(|module| compiled(ProgramForm::Native(module)))
                })
            }
        }
    }

    fn declared_params(
        &self,
        program: &CompiledProgram,
        limits: &Limits,
    ) -> Result<Vec<Param>, Failure> {
        let program = program_of(program, limits)?;
        if let Some(declared) = program.params.get() {
            return declared.clone();
        }
        let owned = limits.clone();
        self.on_worker(limits, limits.deadline, move || program.declared(&owned).clone())
    }

    fn reads_candidates(&self, program: &CompiledProgram) -> bool {
        let reads = |program: &WasmProgram| match &program.form {
            ProgramForm::Rhai(program) => program.facts.reads_candidates,
            ProgramForm::Native(_) => true,
        };
        program.0.downcast_ref::<WasmProgram>().is_none_or(reads)
    }

    fn run(
        &self,
        program: &CompiledProgram,
        host: Box<dyn ToolHost>,
        input: Input<'_>,
        limits: &Limits,
    ) -> RunResult {
        let program = match program_of(program, limits) {
            Ok(program) => program,
            Err(failure) => return (Err(failure), host),
        };
        // A separate call with its own deadline.
        if program.params.get().is_none() {
            let (program, owned) = (program.clone(), limits.clone());
            let declared =
                move || program.declared(&owned).as_ref().map(|_| ()).map_err(Clone::clone);
            if let Err(failure) = self.on_worker(limits, limits.deadline, declared) {
                return (Err(failure), host);
            }
        }
        run_on(&self.workers, host, input, limits, move |host, input, limits| {
            program.run(host, input, limits)
        })
    }
}

/// Result of a call with its usage and printed text; or its failure, which includes both.
type CallResult<T> = Result<(T, Usage, String), Failure>;

/// Executable form of a program.
enum ProgramForm {
    /// The Rhai engine, with the program in its memory.
    Rhai(RhaiProgram),
    /// A module.
    Native(Native),
}

/// A compiled module, linked to the functions of the host.
struct Native {
    pre: InstancePre<Call>,
    specs: &'static [ToolSpec],
    has_params: bool,
}

/// A compiled program, with the parameters that it declares once they are known.
struct WasmProgram {
    form: ProgramForm,
    params: OnceLock<Result<Vec<Param>, Failure>>,
}

/// Whether a program was compiled by [`WasmSandbox`].
pub(super) fn is_wasm(program: &CompiledProgram) -> bool {
    program.0.is::<WasmProgram>()
}

fn compiled(form: ProgramForm) -> CompiledProgram {
    CompiledProgram(Arc::new(WasmProgram { form, params: OnceLock::new() }))
}

fn program_of(program: &CompiledProgram, limits: &Limits) -> Result<Arc<WasmProgram>, Failure> {
    program.0.clone().downcast::<WasmProgram>().map_err(|_| {
        Failure::new(FailureKind::Parse, "the program was compiled by another engine", limits)
    })
}

fn check_module(bytes: &[u8], limits: &Limits) -> Result<(), Failure> {
    let max_bytes = limits.module_bytes;
    let refuse = |message: String| Err(Failure::new(FailureKind::Parse, &message, limits));
    if bytes.len() > max_bytes {
        return refuse(format!("the module has {} bytes, more than {max_bytes}", bytes.len()));
    }
    module::check(bytes).or_else(|error| refuse(error.to_string()))
}

/// Compiles a module, checks its exports and links its imports.
fn native(
    bytes: &[u8],
    specs: &'static [ToolSpec],
    cache: Option<&CodeCache>,
    limits: &Limits,
) -> Result<Native, Failure> {
    let parse = |message: String| Failure::new(FailureKind::Parse, &message, limits);
    let module = engine::compiled(bytes, CodeOwner::Program, limits.compile_deadline, cache)
        .map_err(|error| parse(error.to_string()))?;
    let takes = |name: &str, args: usize| match module.get_export(name) {
        Some(ExternType::Func(function)) => {
            function.params().len() == args
                && function.params().all(|arg| matches!(arg, ValType::I32))
                && function.results().len() == 0
        }
        _ => false,
    };
    let has_memory = matches!(module.get_export("memory"), Some(ExternType::Memory(_)));
    let missing = if !has_memory {
        Some("export the module's memory as `memory`")
    } else if !takes(RETRIEVE, 1) {
        Some("export `retrieve(length: i32)` without a result; pass results to `give`")
    } else if module.get_export(PARAMS).is_some() && !takes(PARAMS, 0) {
        Some("export `params()` without arguments and result, or not at all")
    } else {
        None
    };
    if let Some(message) = missing {
        return Err(Failure::new(FailureKind::MissingFunction, message, limits));
    }
    let has_params = module.get_export(PARAMS).is_some();
    let pre = call::linker(specs)
        .and_then(|linker| linker.instantiate_pre(&module))
        .map_err(|error| parse(format!("the module cannot be linked: {error:#}")))?;
    Ok(Native { pre, specs, has_params })
}

impl WasmProgram {
    /// Returns the parameters that the program declares; the first call runs `params()`. Must run
    /// on a worker.
    fn declared(&self, limits: &Limits) -> &Result<Vec<Param>, Failure> {
        self.params.get_or_init(|| {
            let has_params = match &self.form {
                ProgramForm::Rhai(program) => program.facts.has_params,
                ProgramForm::Native(module) => module.has_params,
            };
            if !has_params {
                return Ok(Vec::new());
            }
            let read = |given: &Given| read_params(given, limits);
            self.call(PARAMS, None, limits, None, read).0.map(|(params, ..)| params)
        })
    }

    fn run(&self, host: Box<dyn ToolHost>, input: Input<'_>, limits: &Limits) -> RunResult {
        let bound = match self.declared(limits) {
            Ok(declared) => bind_params(declared, input.params, limits),
            Err(failure) => Err(failure.clone()),
        };
        let bound = match bound {
            Ok(bound) => bound,
            Err(failure) => return (Err(failure), host),
        };
        let read = |given: &Given| read_ranking(given, input.n_nodes, limits);
        let (result, host) = self.call(RETRIEVE, Some((input, bound)), limits, Some(host), read);
        let outcome = result.map(|(ranking, usage, output)| Outcome { ranking, usage, output });
        (outcome, host.unwrap_or_else(|| Box::new(LostHost)))
    }

    /// Calls a function of the program in a new instance and reads its result with `read`. Also
    /// returns the host, if one was given.
    fn call<T>(
        &self,
        function: &str,
        input: Option<(Input<'_>, Vec<(String, BoundValue)>)>,
        limits: &Limits,
        host: Option<Box<dyn ToolHost>>,
        read: impl FnOnce(&Given) -> Result<T, Failure>,
    ) -> (CallResult<T>, Option<Box<dyn ToolHost>>) {
        let instance = match &self.form {
            ProgramForm::Rhai(program) => program.start(host, limits),
            ProgramForm::Native(module) => {
                LiveInstance::new(&module.pre, Call::new(module.specs, host, limits, false))
            }
        };
        let mut instance = match instance {
            Ok(instance) => instance,
            Err(refused) => {
                let (failure, host) = refused.into_parts();
                return (Err(failure), Some(host));
            }
        };
        let is_rhai = matches!(self.form, ProgramForm::Rhai(_));
        let message = message(input, is_rhai.then_some(limits));
        let given = match message {
            Ok(message) => instance.invoke(function, message),
            Err(why) => Err(Failure::new(FailureKind::Panic, &why, limits)),
        };
        let ended = match is_rhai {
            true => end_rhai(given, &mut instance, limits, read),
            false => end_native(given, &mut instance, limits, read),
        };
        (ended, instance.into_host())
    }
}

/// Builds the message with which a function of the program is called. The message for `retrieve`
/// holds query, candidates and params. For the Rhai engine, the limits come first. `None` if the
/// message would be empty.
fn message(
    input: Option<(Input<'_>, Vec<(String, BoundValue)>)>,
    limits: Option<&Limits>,
) -> Result<Option<Vec<u8>>, String> {
    if input.is_none() && limits.is_none() {
        return Ok(None);
    }
    let mut message = Vec::new();
    let count = 3 * usize::from(input.is_some()) + usize::from(limits.is_some());
    write_list(&mut message, count)?;
    if let Some(limits) = limits {
        write_text(&mut message, &RhaiProgram::limits_text(limits))?;
    }
    if let Some((input, bound)) = input {
        write_text(&mut message, input.query)?;
        write_ids(&mut message, input.candidates)?;
        let number = |bound| match bound {
            BoundValue::Int(number) => Value::Int(number),
            BoundValue::Float(number) => Value::Float(number),
        };
        let params = bound.into_iter().map(|(name, value)| (name, number(value))).collect();
        write(&mut message, &Value::Map(params), &mut handles::HandleTable::new(0))?;
    }
    Ok(Some(message))
}

/// Decodes the result of a call from its bytes, then checks it with `read`.
fn read_given<T>(
    bytes: &[u8],
    instance: &mut LiveInstance,
    limits: &Limits,
    read: impl FnOnce(&Given) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut reader = Reader::new(bytes, MAX_RESULT_VALUES);
    let given = reader.given(&mut instance.store.data_mut().handles);
    let given = given.and_then(|given| reader.end().map(|()| given));
    given
        .map_err(|why| {
            Failure::new(FailureKind::Result, &format!("the result is malformed: {why}"), limits)
        })
        .and_then(|given| read(&given))
}

fn end_native<T>(
    given: Result<Vec<u8>, Failure>,
    instance: &mut LiveInstance,
    limits: &Limits,
    read: impl FnOnce(&Given) -> Result<T, Failure>,
) -> CallResult<T> {
    let done = given.and_then(|bytes| read_given(&bytes, instance, limits, read));
    let (usage, output) = (instance.usage(), instance.take_output());
    match done {
        Ok(value) => Ok((value, usage, output)),
        Err(failure) => Err(Failure { usage, output, ..failure }),
    }
}

/// Ends a call like [`end_native`]; reports the operations and heap that the Rhai engine counted.
fn end_rhai<T>(
    given: Result<Vec<u8>, Failure>,
    instance: &mut LiveInstance,
    limits: &Limits,
    read: impl FnOnce(&Given) -> Result<T, Failure>,
) -> CallResult<T> {
    let host_usage = instance.usage();
    let merged_usage = |reported: Usage| Usage {
        operations: reported.operations,
        tool_calls: reported.tool_calls.max(host_usage.tool_calls),
        peak_bytes: reported.peak_bytes,
        ms: host_usage.ms,
        leaked_bytes: 0,
    };
    let cleaned = |text: &str| {
        let mut output = String::new();
        push_clean(&mut output, text, limits.output_bytes);
        output
    };
    let bytes = match given {
        Ok(bytes) => bytes,
        // The engine reported the failure itself.
        Err(failure) if failure.usage.operations > 0 => {
            return Err(Failure { usage: merged_usage(failure.usage), ..failure });
        }
        Err(failure) => {
            let report = RhaiProgram::report(instance);
            let (usage, output) = (merged_usage(report.usage), cleaned(&report.output));
            return Err(Failure { usage, output, ..failure });
        }
    };
    let Some((report, result)) = RhaiProgram::split(&bytes) else {
        return Err(Failure::new(FailureKind::Panic, "the engine returned no result", limits));
    };
    let (usage, output) = (merged_usage(report.usage), cleaned(&report.output));
    match read_given(result, instance, limits, read) {
        Ok(value) => Ok((value, usage, output)),
        Err(failure) => Err(Failure { usage, output, ..failure }),
    }
}
