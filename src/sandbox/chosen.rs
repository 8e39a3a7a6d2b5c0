//! Runs programs with either engine, both on one pool of workers. Modules run inside WebAssembly;
//! [`Place`] determines where Rhai programs run.

use std::{path::PathBuf, sync::Arc};

use crate::{
    Code, CompiledProgram, Failure, Input, Limits, Param, RhaiSandbox, RunResult, Sandbox,
    WasmSandbox, Workers, wasm,
};
use agent_tools::ToolHost;

/// Where Rhai programs run; modules always run inside WebAssembly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In this process, for trusted programs.
    #[default]
    Process,
    /// Inside WebAssembly, for untrusted programs.
    Wasm,
}

/// Options of [`ChosenSandbox`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxOptions {
    /// Where Rhai programs run.
    pub place: Place,
    /// Directory where compiled code is stored; without it, each process compiles again.
    pub code_dir: Option<PathBuf>,
}

/// Sandbox with both engines on one pool of workers, which chooses the engine of each program.
pub struct ChosenSandbox {
    rhai: RhaiSandbox,
    wasm: WasmSandbox,
    place: Place,
}

impl ChosenSandbox {
    /// Creates the sandbox; the WebAssembly engine is set up when it is first needed.
    pub fn new(workers: Arc<Workers>, options: &SandboxOptions) -> Self {
        let wasm = WasmSandbox::new(workers.clone(), options.code_dir.as_deref());
        Self { rhai: RhaiSandbox::new(workers), wasm, place: options.place }
    }

    /// Returns the engine that compiled the program.
    fn engine_of(&self, program: &CompiledProgram) -> &dyn Sandbox {
        match wasm::is_wasm(program) {
            true => &self.wasm,
            false => &self.rhai,
        }
    }
}

impl Sandbox for ChosenSandbox {
    fn compile(&self, code: Code<'_>, limits: &Limits) -> Result<CompiledProgram, Failure> {
        match (code, self.place) {
            (Code::Rhai(_), Place::Process) => self.rhai.compile(code, limits),
            _ => self.wasm.compile(code, limits),
        }
    }

    fn declared_params(
        &self,
        program: &CompiledProgram,
        limits: &Limits,
    ) -> Result<Vec<Param>, Failure> {
        self.engine_of(program).declared_params(program, limits)
    }

    fn reads_candidates(&self, program: &CompiledProgram) -> bool {
        self.engine_of(program).reads_candidates(program)
    }

    fn run(
        &self,
        program: &CompiledProgram,
        host: Box<dyn ToolHost>,
        input: Input<'_>,
        limits: &Limits,
    ) -> RunResult {
        self.engine_of(program).run(program, host, input, limits)
    }
}
