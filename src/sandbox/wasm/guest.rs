//! The Rhai engine inside WebAssembly. Setting up the engine and parsing a program take longer than
//! most programs run. So each of these two steps is done once. The memory pages that a step changed
//! are copied into the new instance of each call.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use wasmtime::InstancePre;

use crate::{
    Failure, FailureKind, Limits, Usage,
    wasm::{
        cache::{CodeCache, CodeOwner},
        call::{Call, LiveInstance, StartFailure, rhai_linker},
        engine::compiled,
        wire::{write_list, write_text},
    },
};
use agent_tools::{ToolHost, ToolSpec};

/// The Rhai engine as a WebAssembly module, built by `sandboxes/wasm/build.sh`.
const MODULE: &[u8] = include_bytes!("../../../sandboxes/wasm/rhai.wasm");
/// Address in bytes at which the module's data start; set by the build of the module. Below this
/// address is the stack, which is empty between calls.
const STACK_BYTES: usize = 16 << 20;
/// Time limit for compiling the Rhai engine.
pub(super) const ENGINE_DEADLINE: Duration = Duration::from_secs(300);
/// Size in bytes of the pages in which memory is compared and copied.
const PAGE_BYTES: usize = 4096;
/// Size in bytes of the pages by which the memory of an instance grows.
const WASM_PAGE_BYTES: usize = 64 << 10;

/// Description of a tool, sent to the Rhai engine as JSON.
#[derive(Serialize)]
struct ToolSummary {
    name: &'static str,
    min_args: usize,
    kinds: Vec<String>,
}

/// Properties of a program that the Rhai engine found when it parsed the program.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct ProgramFacts {
    pub(super) has_params: bool,
    pub(super) reads_candidates: bool,
}

/// What the Rhai engine reports after a call: the usage that it counted, and the printed text.
#[derive(Default, Deserialize)]
pub(super) struct CallReport {
    pub(super) usage: Usage,
    pub(super) output: String,
}

/// Changes of an instance's memory: the size of the memory in bytes, and the changed pages with
/// their addresses; adjacent pages are joined.
struct Image {
    bytes: usize,
    changed: Vec<(usize, Vec<u8>)>,
}

impl Image {
    /// Returns the memory above the stack that changed since `before`, an earlier copy by
    /// [`above_stack`].
    fn since(instance: &mut LiveInstance, before: &[u8]) -> Option<Self> {
        let memory = instance.memory()?;
        let now = memory.data(&instance.store);
        let mut changed: Vec<(usize, Vec<u8>)> = Vec::new();
        let above = now.get(STACK_BYTES..)?;
        for (index, page) in above.chunks(PAGE_BYTES).enumerate() {
            let from = index * PAGE_BYTES;
            let old = before.get(from..from + page.len());
            if old.map_or(page.iter().all(|byte| *byte == 0), |old| old == page) {
                continue;
            }
            let address = STACK_BYTES + from;
            match changed.last_mut() {
                Some((start, run)) if *start + run.len() == address => run.extend_from_slice(page),
                _ => changed.push((address, page.to_vec())),
            }
        }
        Some(Self { bytes: now.len(), changed })
    }

    /// Applies these changes to the memory of a new instance. `None` if the memory cannot grow as
    /// needed.
    fn restore(&self, instance: &mut LiveInstance) -> Option<()> {
        let memory = instance.memory()?;
        let more = self.bytes.saturating_sub(memory.data_size(&instance.store)) / WASM_PAGE_BYTES;
        memory.grow(&mut instance.store, more as u64).ok()?;
        let data = memory.data_mut(&mut instance.store);
        for (address, run) in &self.changed {
            data.get_mut(*address..)?.get_mut(..run.len())?.copy_from_slice(run);
        }
        Some(())
    }
}

/// Copies the memory of an instance above its stack.
fn above_stack(instance: &mut LiveInstance) -> Option<Vec<u8>> {
    let memory = instance.memory()?;
    memory.data(&instance.store).get(STACK_BYTES..).map(<[u8]>::to_vec)
}

/// The Rhai engine as a compiled module, and the state of its memory after it was set up with its
/// tools.
pub(super) struct RhaiGuest {
    pre: InstancePre<Call>,
    specs: &'static [ToolSpec],
    image: Image,
}

/// A program parsed by the Rhai engine, stored as the changes that parsing made to the engine's
/// memory.
pub(super) struct RhaiProgram {
    guest: Arc<RhaiGuest>,
    image: Image,
    pub(super) facts: ProgramFacts,
}

fn broken(message: &str) -> Failure {
    Failure::new(FailureKind::Panic, message, &Limits::default())
}

/// Formats the limits as JSON for the Rhai engine; deadlines are enforced by the host.
fn limits_text(limits: &Limits) -> String {
    serde_json::to_string(limits).unwrap_or_default()
}

impl RhaiGuest {
    /// Compiles the Rhai engine, or loads its compiled code from the cache, and sets it up with the
    /// tools `specs`.
    ///
    /// # Errors
    /// If WebAssembly is not supported on this machine, or the engine cannot be set up.
    pub(super) fn new(
        specs: &'static [ToolSpec],
        cache: Option<&CodeCache>,
    ) -> Result<Self, Failure> {
        let module = compiled(MODULE, CodeOwner::Engine, ENGINE_DEADLINE, cache)
            .map_err(|error| broken(&error.to_string()))?;
        let pre = rhai_linker()
            .and_then(|linker| linker.instantiate_pre(&module))
            .map_err(|error| broken(&format!("{error:#}")))?;
        let limits = Limits { deadline: ENGINE_DEADLINE, ..Limits::default() };
        let call = Call::new(specs, None, &limits, true);
        let mut instance = LiveInstance::new(&pre, call).map_err(StartFailure::into_failure)?;
        let before =
            above_stack(&mut instance).ok_or_else(|| broken("the engine has no memory"))?;
        let tools: Vec<ToolSummary> = specs
            .iter()
            .map(|spec| ToolSummary {
                name: spec.name,
                min_args: spec.min_args(),
                kinds: spec.args.iter().map(|arg| format!("{:?}", arg.kind)).collect(),
            })
            .collect();
        let message = serde_json::to_vec(&tools).unwrap_or_default();
        match instance.invoke("init", Some(message)) {
            // `init` returns no result.
            Err(failure) if failure.kind != FailureKind::Result => return Err(failure),
            _ => {}
        }
        let image = Image::since(&mut instance, &before)
            .ok_or_else(|| broken("the engine has no memory"))?;
        Ok(Self { pre, specs, image })
    }

    fn start(
        &self,
        host: Option<Box<dyn ToolHost>>,
        limits: &Limits,
    ) -> Result<LiveInstance, StartFailure> {
        let mut instance = LiveInstance::new(&self.pre, Call::new(self.specs, host, limits, true))?;
        match self.image.restore(&mut instance) {
            Some(()) => Ok(instance),
            None => Err(StartFailure::new(
                broken("the engine does not fit the memory limit"),
                instance.into_host(),
            )),
        }
    }

    /// Parses a program.
    ///
    /// # Errors
    /// As [`Sandbox::compile`](crate::Sandbox::compile).
    pub(super) fn compile(
        self: &Arc<Self>,
        source: &str,
        limits: &Limits,
    ) -> Result<RhaiProgram, Failure> {
        let parse_limits = Limits { deadline: limits.parse_deadline, ..limits.clone() };
        let mut instance = self.start(None, &parse_limits).map_err(StartFailure::into_failure)?;
        let before =
            above_stack(&mut instance).ok_or_else(|| broken("the engine has no memory"))?;
        let mut message = Vec::new();
        write_list(&mut message, 2)
            .and_then(|()| write_text(&mut message, &limits_text(limits)))
            .and_then(|()| write_text(&mut message, source))
            .map_err(|why| broken(&why))?;
        let facts = instance.invoke("compile", Some(message)).map_err(|failure| {
            // Any other failure means that parsing exceeded a limit.
            let parse = [FailureKind::MissingFunction, FailureKind::Parse, FailureKind::Panic];
            match parse.contains(&failure.kind) {
                true => failure,
                false => {
                    let message = "the program takes too long to parse; shorten its lists";
                    Failure::new(FailureKind::Parse, message, limits)
                }
            }
        })?;
        let facts = serde_json::from_slice(&facts).map_err(|error| broken(&error.to_string()))?;
        let image = Image::since(&mut instance, &before)
            .ok_or_else(|| broken("the engine has no memory"))?;
        Ok(RhaiProgram { guest: self.clone(), image, facts })
    }
}

impl RhaiProgram {
    /// Creates an instance of the Rhai engine that is ready to call this program.
    ///
    /// # Errors
    /// [`StartFailure`] with the reason and the host.
    pub(super) fn start(
        &self,
        host: Option<Box<dyn ToolHost>>,
        limits: &Limits,
    ) -> Result<LiveInstance, StartFailure> {
        let mut instance = self.guest.start(host, limits)?;
        match self.image.restore(&mut instance) {
            Some(()) => Ok(instance),
            None => Err(StartFailure::new(
                broken("the program does not fit the memory limit"),
                instance.into_host(),
            )),
        }
    }

    /// Formats the limits as JSON, the first part of a message to the Rhai engine.
    pub(super) fn limits_text(limits: &Limits) -> String {
        limits_text(limits)
    }

    /// Splits the output of a call into the engine's report and the bytes of the program's result.
    /// `None` if the output is malformed.
    pub(super) fn split(output: &[u8]) -> Option<(CallReport, &[u8])> {
        let (length, rest) = output.split_first_chunk::<4>()?;
        let (report, result) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        Some((serde_json::from_slice(report).ok()?, result))
    }

    /// Asks a stopped instance for its report; returns an empty report if the instance cannot give
    /// one.
    pub(super) fn report(instance: &mut LiveInstance) -> CallReport {
        instance.refresh();
        let report = instance.invoke("spent", None).unwrap_or_default();
        serde_json::from_slice(&report).unwrap_or_default()
    }
}
