//! The one WebAssembly engine of this process, with its settings, its deadlines and the modules
//! that it has compiled. The engine trusts compiled code, which comes either from its own compiler
//! or from [`CodeCache`], which verifies it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Condvar, LazyLock, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use wasmtime::{Config, Engine, Module, OptLevel, Strategy};

use crate::{
    wasm::cache::{CodeCache, CodeOwner},
    workers::separate_pool,
};
use agent_ground::locks::locked;

/// Maximum stack of a module's own calls, in bytes: a quarter of
/// [`STACK_BYTES`](crate::STACK_BYTES).
const WASM_STACK_BYTES: usize = 64 << 20;
/// Interval between checks of the deadlines of running calls.
const TICK: Duration = Duration::from_millis(5);
/// Maximum number of compiled modules kept in memory; when one more is added, all others are
/// dropped.
const MAX_MODULES: usize = 64;
/// Maximum number of compilations at the same time, including those whose caller no longer waits.
const MAX_COMPILING: usize = 4;

/// Why a module was not compiled.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum CompileError {
    /// The engine cannot be set up on this machine.
    #[error("cannot set up WebAssembly on this machine: {0}")]
    Engine(String),
    /// The bytes are not a valid module; the compiler's message.
    #[error("the module is not valid: {0}")]
    Invalid(String),
    /// The compilation took longer than this limit, in milliseconds.
    #[error("the module takes more than {0} ms to compile; make it smaller")]
    Late(u128),
    /// Too many modules are being compiled.
    #[error("{MAX_COMPILING} modules are being compiled; try again")]
    Busy,
}

/// Returns the engine of this process; the first call sets it up.
///
/// # Errors
/// [`CompileError::Engine`].
pub(super) fn engine() -> Result<&'static Engine, CompileError> {
    static ENGINE: OnceLock<Result<Engine, String>> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| {
        let mut config = Config::new();
        config
            .strategy(Strategy::Cranelift)
            .cranelift_opt_level(OptLevel::Speed)
            // Makes results equal on every machine, bit for bit.
            .cranelift_nan_canonicalization(true)
            .consume_fuel(true)
            .epoch_interruption(true)
            .async_stack_size(2 * WASM_STACK_BYTES)
            .max_wasm_stack(WASM_STACK_BYTES)
            .memory_may_move(false)
            .wasm_backtrace_max_frames(None)
            .wasm_relaxed_simd(false)
            .wasm_simd(false)
            .wasm_tail_call(false)
            .wasm_multi_memory(false)
            .wasm_memory64(false);
        let engine = Engine::new(&config).map_err(|error| format!("{error:#}"))?;
        start_ticker(engine.clone()).map_err(|error| error.to_string())?;
        Ok(engine)
    });
    engine.as_ref().map_err(|error| CompileError::Engine(error.clone()))
}

/// Number of running calls, and a signal that a call has started.
struct Running {
    calls: Mutex<usize>,
    started: Condvar,
}

static RUNNING: Running = Running { calls: Mutex::new(0), started: Condvar::new() };

/// Guard of one running call. Deadlines are checked as long as any such guard exists.
pub(super) struct Ticker;

impl Ticker {
    /// Counts one more running call, until the guard is dropped.
    pub(super) fn start() -> Self {
        *locked(&RUNNING.calls) += 1;
        RUNNING.started.notify_all();
        Self
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *locked(&RUNNING.calls) -= 1;
    }
}

/// Starts the thread that advances the engine's epoch every [`TICK`] while calls run.
fn start_ticker(engine: Engine) -> std::io::Result<()> {
    let tick = move || {
        loop {
            let calls = locked(&RUNNING.calls);
            let waited = RUNNING.started.wait_while(calls, |calls| *calls == 0);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            thread::sleep(TICK);
            engine.increment_epoch();
        }
    };
    thread::Builder::new().name("deadlines".to_owned()).spawn(tick).map(drop)
}

type ModuleCache = Mutex<HashMap<blake3::Hash, Module>>;

/// Returns the compiled form of the module `bytes`: kept in memory, loaded from `cache`, or
/// compiled now, within `deadline` of wall time.
///
/// # Errors
/// [`CompileError`] if the engine cannot be set up, or the module has to be compiled and that
/// fails.
pub(super) fn compiled(
    bytes: &[u8],
    owner: CodeOwner,
    deadline: Duration,
    cache: Option<&CodeCache>,
) -> Result<Module, CompileError> {
    static MODULES: LazyLock<ModuleCache> = LazyLock::new(ModuleCache::default);
    let engine = engine()?;
    let digest = blake3::hash(bytes);
    let modules = || locked(&MODULES);
    if let Some(module) = modules().get(&digest) {
        return Ok(module.clone());
    }
    let module = match cache.and_then(|cache| cache.load(engine, owner, &digest)) {
        Some(module) => module,
        None => {
            let module = compile(engine, bytes, deadline)?;
            if let Some(cache) = cache {
                cache.store(&module, owner, &digest);
            }
            module
        }
    };
    let mut modules = modules();
    if modules.len() >= MAX_MODULES {
        modules.clear();
    }
    modules.insert(digest, module.clone());
    Ok(module)
}

/// Compiles a module on a separate pool, whose threads do not wait for programs. At the deadline
/// this function stops waiting; the compiler itself cannot be stopped.
fn compile(engine: &Engine, bytes: &[u8], deadline: Duration) -> Result<Module, CompileError> {
    static COMPILING: AtomicUsize = AtomicUsize::new(0);
    if COMPILING.fetch_add(1, Ordering::SeqCst) >= MAX_COMPILING {
        COMPILING.fetch_sub(1, Ordering::SeqCst);
        return Err(CompileError::Busy);
    }
    let (answer, wait) = mpsc::sync_channel(1);
    let (engine, bytes): (Engine, Arc<[u8]>) = (engine.clone(), bytes.into());
    let work = move || {
        let module = Module::new(&engine, &bytes);
        COMPILING.fetch_sub(1, Ordering::SeqCst);
        // The caller may have given up.
        let _ = answer.send(module);
    };
    match separate_pool("compile") {
        Ok(pool) => pool.spawn(work),
        Err(error) => {
            COMPILING.fetch_sub(1, Ordering::SeqCst);
            return Err(CompileError::Engine(error.to_string()));
        }
    }
    match wait.recv_timeout(deadline) {
        Ok(module) => module.map_err(|error| CompileError::Invalid(format!("{error:#}"))),
        Err(mpsc::RecvTimeoutError::Timeout) => Err(CompileError::Late(deadline.as_millis())),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(CompileError::Invalid("the compiler failed without a message".to_owned()))
        }
    }
}
