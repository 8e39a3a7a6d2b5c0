//! The engine for Rhai inside WebAssembly: set up once, then copied into each call.
//!
//! Setting up the engine takes longer than most programs run, and so does parsing one. So both are
//! done once, and the pages of memory that they changed are kept: a call begins with a new
//! instance, into which the pages of the engine and of the program are copied.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use wasmtime::InstancePre;

use crate::{
    Failure, FailureKind, Limits, Usage,
    wasm::{
        cache::{CodeCache, CodeOf},
        call::{Call, NotStarted, Started, rhai_linker},
        engine::compiled,
        wire::{write_list, write_text},
    },
};
use agent_tools::{ToolHost, ToolSpec};

/// The engine for Rhai as a module; `sandboxes/wasm/build.sh` makes it.
const MODULE: &[u8] = include_bytes!("../../../sandboxes/wasm/rhai.wasm");
/// Where the data of the module begins: below is its stack, which is empty between calls. The
/// build sets it.
const STACK_BYTES: usize = 16 << 20;
/// Time to compile the engine itself, which is known to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);
/// Memory is compared and copied in pieces of this size, bytes.
const PAGE_BYTES: usize = 4096;
/// Memory grows in steps of this size, bytes.
const WASM_PAGE_BYTES: usize = 64 << 10;

/// What the engine is told of a tool.
#[derive(Serialize)]
struct Described {
    name: &'static str,
    min_args: usize,
    kinds: Vec<String>,
}

/// What the engine tells of a program.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Told {
    pub(super) has_params: bool,
    pub(super) reads_candidates: bool,
}

/// What the engine tells of a call.
#[derive(Default, Deserialize)]
pub(super) struct Spent {
    pub(super) usage: Usage,
    pub(super) output: String,
}

/// Memory as it was after some work: its size, and what the work changed.
struct Image {
    bytes: usize,
    changed: Vec<(usize, Vec<u8>)>,
}

impl Image {
    /// What changed from `before` to now, above the stack.
    fn of(started: &mut Started, before: &[u8]) -> Option<Self> {
        let memory = started.memory()?;
        let now = memory.data(&started.store);
        let mut changed: Vec<(usize, Vec<u8>)> = Vec::new();
        let above = now.get(STACK_BYTES..)?;
        for (at, page) in above.chunks(PAGE_BYTES).enumerate() {
            let from = at * PAGE_BYTES;
            let old = before.get(from..from + page.len());
            if old.map_or(page.iter().all(|byte| *byte == 0), |old| old == page) {
                continue;
            }
            let place = STACK_BYTES + from;
            match changed.last_mut() {
                Some((start, run)) if *start + run.len() == place => run.extend_from_slice(page),
                _ => changed.push((place, page.to_vec())),
            }
        }
        Some(Self { bytes: now.len(), changed })
    }

    /// Puts the memory of an instance into this state.
    fn restore(&self, started: &mut Started) -> Option<()> {
        let memory = started.memory()?;
        let more = self.bytes.saturating_sub(memory.data_size(&started.store)) / WASM_PAGE_BYTES;
        memory.grow(&mut started.store, more as u64).ok()?;
        let data = memory.data_mut(&mut started.store);
        for (place, run) in &self.changed {
            data.get_mut(*place..)?.get_mut(..run.len())?.copy_from_slice(run);
        }
        Some(())
    }
}

/// The memory of an instance above its stack.
fn above_stack(started: &mut Started) -> Option<Vec<u8>> {
    let memory = started.memory()?;
    memory.data(&started.store).get(STACK_BYTES..).map(<[u8]>::to_vec)
}

/// The engine, set up with its tools.
pub(super) struct RhaiGuest {
    pre: InstancePre<Call>,
    specs: &'static [ToolSpec],
    image: Image,
}

/// A program inside the engine.
pub(super) struct RhaiProgram {
    guest: Arc<RhaiGuest>,
    image: Image,
    pub(super) told: Told,
}

fn broken(why: &str) -> Failure {
    Failure::new(FailureKind::Panic, why, &Limits::default())
}

/// Limits as the engine reads them: the host keeps the deadlines.
fn limits_text(limits: &Limits) -> String {
    serde_json::to_string(limits).unwrap_or_default()
}

impl RhaiGuest {
    /// Compiles the engine, or finds it compiled, and sets it up.
    ///
    /// # Errors
    /// That WebAssembly cannot be run here.
    pub(super) fn new(
        specs: &'static [ToolSpec],
        cache: Option<&CodeCache>,
    ) -> Result<Self, Failure> {
        let module = compiled(MODULE, CodeOf::Engine, PATIENCE, cache)
            .map_err(|error| broken(&error.to_string()))?;
        let pre = rhai_linker()
            .and_then(|linker| linker.instantiate_pre(&module))
            .map_err(|error| broken(&format!("{error:#}")))?;
        let limits = Limits { deadline: PATIENCE, ..Limits::default() };
        let call = Call::new(specs, None, &limits, true);
        let mut started = Started::new(&pre, call).map_err(NotStarted::into_failure)?;
        let before = above_stack(&mut started).ok_or_else(|| broken("the engine has no memory"))?;
        let described: Vec<Described> = specs
            .iter()
            .map(|spec| Described {
                name: spec.name,
                min_args: spec.min_args(),
                kinds: spec.args.iter().map(|arg| format!("{:?}", arg.kind)).collect(),
            })
            .collect();
        let message = serde_json::to_vec(&described).unwrap_or_default();
        match started.invoke("init", Some(message)) {
            // It has nothing to give.
            Err(failure) if failure.kind != FailureKind::Result => return Err(failure),
            _ => {}
        }
        let image =
            Image::of(&mut started, &before).ok_or_else(|| broken("the engine has no memory"))?;
        Ok(Self { pre, specs, image })
    }

    fn start(
        &self,
        host: Option<Box<dyn ToolHost>>,
        limits: &Limits,
    ) -> Result<Started, NotStarted> {
        let mut started = Started::new(&self.pre, Call::new(self.specs, host, limits, true))?;
        match self.image.restore(&mut started) {
            Some(()) => Ok(started),
            None => Err(NotStarted::new(
                broken("the engine does not fit the memory limit"),
                started.into_host(),
            )),
        }
    }

    /// Parses a program.
    ///
    /// # Errors
    /// Those of [`Sandbox::compile`](crate::Sandbox::compile).
    pub(super) fn compile(
        self: &Arc<Self>,
        source: &str,
        limits: &Limits,
    ) -> Result<RhaiProgram, Failure> {
        let within = Limits { deadline: limits.parse_deadline, ..limits.clone() };
        let mut started = self.start(None, &within).map_err(NotStarted::into_failure)?;
        let before = above_stack(&mut started).ok_or_else(|| broken("the engine has no memory"))?;
        let mut message = Vec::new();
        write_list(&mut message, 2)
            .and_then(|()| write_text(&mut message, &limits_text(limits)))
            .and_then(|()| write_text(&mut message, source))
            .map_err(|why| broken(&why))?;
        let told = started.invoke("compile", Some(message)).map_err(|failure| {
            // Whatever stopped it, the source could not be parsed within its limits.
            let parse = [FailureKind::MissingFunction, FailureKind::Parse, FailureKind::Panic];
            match parse.contains(&failure.kind) {
                true => failure,
                false => {
                    let message = "the program takes too long to parse; shorten its lists";
                    Failure::new(FailureKind::Parse, message, limits)
                }
            }
        })?;
        let told = serde_json::from_slice(&told).map_err(|error| broken(&error.to_string()))?;
        let image =
            Image::of(&mut started, &before).ok_or_else(|| broken("the engine has no memory"))?;
        Ok(RhaiProgram { guest: self.clone(), image, told })
    }
}

impl RhaiProgram {
    /// An instance in which the program is ready to be called.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub(super) fn start(
        &self,
        host: Option<Box<dyn ToolHost>>,
        limits: &Limits,
    ) -> Result<Started, NotStarted> {
        let mut started = self.guest.start(host, limits)?;
        match self.image.restore(&mut started) {
            Some(()) => Ok(started),
            None => Err(NotStarted::new(
                broken("the program does not fit the memory limit"),
                started.into_host(),
            )),
        }
    }

    /// The first part of a message.
    pub(super) fn limits_text(limits: &Limits) -> String {
        limits_text(limits)
    }

    /// Splits what a call gave: what it used, and the bytes of its result.
    pub(super) fn split(given: &[u8]) -> Option<(Spent, &[u8])> {
        let (length, rest) = given.split_first_chunk::<4>()?;
        let (spent, result) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        Some((serde_json::from_slice(spent).ok()?, result))
    }

    /// What a stopped call says it used; nothing if it cannot.
    pub(super) fn spent(started: &mut Started) -> Spent {
        started.refresh();
        let told = started.invoke("spent", None).unwrap_or_default();
        serde_json::from_slice(&told).unwrap_or_default()
    }
}
