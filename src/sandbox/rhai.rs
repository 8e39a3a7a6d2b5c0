//! Runs programs written in Rhai in this process, in a hardened engine. The only module that uses
//! the `rhai` crate.
//!
//! The engine's own limits are incomplete: it does not count steps inside native callbacks or
//! measure captured values, some native functions block or allocate an amount that an argument
//! sets, and sorts swallow errors. So every step checks the meter (steps, heap, time, output), and
//! dangerous native functions are replaced. Programs are compiled, run and dropped only on threads
//! with big stacks (see [`Workers`]). Each thread builds its engine once, not for every call.
//!
//! All numbers in this module were measured with rhai 1.27 and its features `sync` and `internals`.

mod bridge;
mod engine;
mod meter;
mod natives;
mod values;

use std::{
    cell::RefCell,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rhai::{AST, Dynamic, Engine, Map};

use crate::{
    Code, CompiledProgram, Failure, FailureKind, Input, Limits, LostHost, Outcome, Param,
    RunResult, Sandbox, Workers, check_source,
    given::Given,
    guard::guarded,
    lost_job,
    rhai::engine::{PARAMS, Parsed, RETRIEVE},
    run_on,
    verdict::{BoundValue, bind_params, read_params, read_ranking},
    workers,
};
use agent_kb::NodeId;
use agent_tools::{ToolHost, ToolSpec, registry};

/// Memory that all programs together may leak in this process, in bytes. If more is leaked, no
/// further call starts here; running calls may still leak more.
const MAX_LEAKED_BYTES: u64 = 256 << 20;
/// Memory that programs have leaked in this process so far, in bytes.
static LEAKED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Sandbox that runs Rhai programs in this process with a hardened engine, on a pool of workers.
pub struct RhaiSandbox {
    workers: Arc<Workers>,
    specs: &'static [ToolSpec],
}

impl RhaiSandbox {
    /// Creates a sandbox whose programs may call all tools.
    pub fn new(workers: Arc<Workers>) -> Self {
        Self::with_tools(workers, registry())
    }

    /// Creates a sandbox whose programs may call only the tools `specs`. The host gets the index of
    /// a called tool in `specs`.
    pub fn with_tools(workers: Arc<Workers>, specs: &'static [ToolSpec]) -> Self {
        Self { workers, specs }
    }
}

impl Sandbox for RhaiSandbox {
    fn compile(&self, code: Code<'_>, limits: &Limits) -> Result<CompiledProgram, Failure> {
        let Code::Rhai(source) = code else {
            let message = "the program is WebAssembly; run it with `--sandbox wasm`";
            return Err(Failure::new(FailureKind::Parse, message, limits));
        };
        check_source(source, limits)?;
        let (specs, source, owned) = (self.specs, source.to_owned(), limits.clone());
        self.workers
            .run_within(limits.parse_deadline, Duration::ZERO, move || {
                compile(specs, &source, &owned)
            })
            .unwrap_or_else(|lost| Err(lost_job(lost, limits)))
    }

    fn declared_params(
        &self,
        program: &CompiledProgram,
        limits: &Limits,
    ) -> Result<Vec<Param>, Failure> {
        let tree = tree_of(program, limits)?;
        if let Some(declared) = tree.params.get() {
            return declared.clone();
        }
        let owned = limits.clone();
        self.workers
            .run_within(limits.deadline, Duration::ZERO, move || tree.declared(&owned).clone())
            .unwrap_or_else(|lost| Err(lost_job(lost, limits)))
    }

    fn reads_candidates(&self, program: &CompiledProgram) -> bool {
        program.0.downcast_ref::<Tree>().is_none_or(|tree| tree.reads_candidates)
    }

    fn run(
        &self,
        program: &CompiledProgram,
        host: Box<dyn ToolHost>,
        input: Input<'_>,
        limits: &Limits,
    ) -> RunResult {
        let tree = match tree_of(program, limits) {
            Ok(tree) => tree,
            Err(failure) => return (Err(failure), host),
        };
        // A separate call with its own deadline.
        if tree.params.get().is_none()
            && let Err(failure) = self.declared_params(program, limits)
        {
            return (Err(failure), host);
        }
        run_on(&self.workers, host, input, limits, move |host, input, limits| {
            run(&tree, host, input, limits)
        })
    }
}

/// The host of a call; none if the call may not use tools.
type Host = Option<Box<dyn ToolHost>>;

/// A parsed program. Its syntax tree is dropped on a thread with a big stack.
struct Tree {
    ast: Option<AST>,
    specs: &'static [ToolSpec],
    has_params: bool,
    reads_candidates: bool,
    params: OnceLock<Result<Vec<Param>, Failure>>,
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Some(ast) = self.ast.take() {
            workers::drop_on_big_stack(ast);
        }
    }
}

fn tree_of(program: &CompiledProgram, limits: &Limits) -> Result<Arc<Tree>, Failure> {
    program.0.clone().downcast::<Tree>().map_err(|_| {
        Failure::new(FailureKind::Parse, "the program was compiled by another engine", limits)
    })
}

thread_local! {
    /// Idle engines of this thread, one for each list of tools.
    static ENGINES: RefCell<Vec<(&'static [ToolSpec], Engine)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` with this thread's engine for `specs` and a new meter. If `work` panics, the engine
/// is dropped.
fn with_engine<T>(
    specs: &'static [ToolSpec],
    limits: &Limits,
    host: Host,
    work: impl FnOnce(&Engine) -> T,
) -> Result<T, Failure> {
    let found = ENGINES.with(|engines| {
        let mut engines = engines.borrow_mut();
        engines
            .iter()
            .position(|entry| std::ptr::eq(entry.0, specs))
            .map(|index| engines.swap_remove(index).1)
    });
    let done = guarded(|| {
        let mut engine = found.unwrap_or_else(|| engine::build(specs));
        engine::apply(&mut engine, limits);
        meter::begin(limits, host);
        let done = work(&engine);
        (engine, done)
    });
    match done {
        Ok((engine, done)) => {
            ENGINES.with(|engines| engines.borrow_mut().push((specs, engine)));
            Ok(done)
        }
        Err(panic) => Err(Failure::new(FailureKind::Panic, &panic, limits)),
    }
}

fn compile(
    specs: &'static [ToolSpec],
    source: &str,
    limits: &Limits,
) -> Result<CompiledProgram, Failure> {
    let parsed = with_engine(specs, limits, None, |engine| engine::parse(engine, source, limits))??;
    let Parsed { ast, has_params, reads_candidates } = parsed;
    let ast = Some(ast);
    let tree = Tree { ast, specs, has_params, reads_candidates, params: OnceLock::new() };
    Ok(CompiledProgram(Arc::new(tree)))
}

impl Tree {
    /// Returns the parameters that the program declares; the first call runs `params()`. Must run
    /// on a thread with a big stack.
    fn declared(&self, limits: &Limits) -> &Result<Vec<Param>, Failure> {
        self.params.get_or_init(|| {
            if !self.has_params {
                return Ok(Vec::new());
            }
            let (result, _) = self.call(PARAMS, None, limits, Vec::new, |result| {
                let params = read_params(&result, limits)?;
                Ok((params, 0))
            });
            result.map(|(params, ..)| params)
        })
    }

    /// Calls a function of the program, and reads its result with `read` while the meter still
    /// runs. `read` returns the result and the size of the heap that the result holds, in bytes.
    /// Also returns the host.
    fn call<T>(
        &self,
        function: &str,
        host: Host,
        limits: &Limits,
        args: impl FnOnce() -> Vec<Dynamic>,
        read: impl FnOnce(Given) -> Result<(T, usize), Failure>,
    ) -> (Result<(T, meter::Ended), Failure>, Host) {
        if let Err(failure) = check_leaked(limits) {
            return (Err(failure), host);
        }
        let done = with_engine(self.specs, limits, host, |engine| {
            let Some(ast) = &self.ast else {
                return Err(Failure::new(FailureKind::Panic, "the program was dropped", limits));
            };
            engine::call(engine, ast, function, args(), limits).and_then(read)
        });
        let done = done.and_then(|done| done);
        let kept = done.as_ref().map_or(0, |read| read.1);
        let (ended, host) = engine::end(done.map(|read| read.0), kept, limits);
        let usage = match &ended {
            Ok((_, ended)) => &ended.usage,
            Err(failure) => &failure.usage,
        };
        LEAKED_BYTES.fetch_add(usage.leaked_bytes, Ordering::Relaxed);
        (ended, host)
    }
}

/// Checks that programs have not leaked too much memory for another call in this process.
fn check_leaked(limits: &Limits) -> Result<(), Failure> {
    let leaked = LEAKED_BYTES.load(Ordering::Relaxed);
    if leaked <= MAX_LEAKED_BYTES {
        return Ok(());
    }
    let mib = MAX_LEAKED_BYTES >> 20;
    let message = format!(
        "programs leaked more than {mib} MiB in this process: break their reference cycles, or run \
         them with `--sandbox wasm`"
    );
    Err(Failure::new(FailureKind::Memory, &message, limits))
}

/// Runs one call of `retrieve`. Must run on a thread with a big stack.
fn run(tree: &Tree, host: Box<dyn ToolHost>, input: Input<'_>, limits: &Limits) -> RunResult {
    let declared = match tree.declared(limits) {
        Ok(declared) => declared,
        Err(failure) => return (Err(failure.clone()), host),
    };
    // Checked before the call, but built within it, so that their heap is charged to it.
    if let Err(failure) = bind_params(declared, input.params, limits) {
        return (Err(failure), host);
    }
    let args = || {
        let candidates: rhai::Array =
            input.candidates.iter().map(|&id| Dynamic::from(i64::from(id))).collect();
        let bound = bind_params(declared, input.params, limits).unwrap_or_default();
        let params: Map = bound
            .into_iter()
            .map(|(name, value)| {
                let value: Dynamic = match value {
                    BoundValue::Int(number) => number.into(),
                    BoundValue::Float(number) => number.into(),
                };
                (name.as_str().into(), value)
            })
            .collect();
        vec![input.query.into(), candidates.into(), params.into()]
    };
    let (result, host) = tree.call(RETRIEVE, Some(host), limits, args, |result| {
        let ranking = read_ranking(&result, input.n_nodes, limits)?;
        let bytes = ranking.capacity() * size_of::<(NodeId, f32)>();
        Ok((ranking, bytes))
    });
    let result = result.map(|(ranking, ended)| Outcome {
        ranking,
        usage: ended.usage,
        output: ended.output,
    });
    (result, host.unwrap_or_else(|| Box::new(LostHost)))
}
