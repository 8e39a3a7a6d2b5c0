//! Both engines behind one door: modules run inside WebAssembly, programs in Rhai where the caller
//! says.

use std::{path::PathBuf, sync::Arc};

use crate::{
    Code, Compiled, Failure, Input, Limits, Param, Ran, RhaiSandbox, Sandbox, WasmSandbox, Workers,
    wasm,
};
use agent_tools::ToolHost;

/// Where programs in Rhai run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In this process: for programs that one trusts.
    #[default]
    Process,
    /// Inside WebAssembly: for programs of anybody.
    Wasm,
}

/// How programs are run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxOptions {
    /// Where programs in Rhai run.
    pub place: Place,
    /// Where compiled code is kept; compiled anew by each process when not given.
    pub code_dir: Option<PathBuf>,
}

/// Both engines on one pool of workers.
pub struct ChosenSandbox {
    rhai: RhaiSandbox,
    wasm: WasmSandbox,
    place: Place,
}

impl ChosenSandbox {
    /// Both engines; nothing is compiled before it is needed.
    pub fn new(workers: Arc<Workers>, options: &SandboxOptions) -> Self {
        let wasm = WasmSandbox::new(workers.clone(), options.code_dir.as_deref());
        Self { rhai: RhaiSandbox::new(workers), wasm, place: options.place }
    }

    /// The engine that compiled a program.
    fn of(&self, program: &Compiled) -> &dyn Sandbox {
        match wasm::made(program) {
            true => &self.wasm,
            false => &self.rhai,
        }
    }
}

impl Sandbox for ChosenSandbox {
    fn compile(&self, code: Code<'_>, limits: &Limits) -> Result<Compiled, Failure> {
        match (code, self.place) {
            (Code::Rhai(_), Place::Process) => self.rhai.compile(code, limits),
            _ => self.wasm.compile(code, limits),
        }
    }

    fn declared_params(&self, program: &Compiled, limits: &Limits) -> Result<Vec<Param>, Failure> {
        self.of(program).declared_params(program, limits)
    }

    fn reads_candidates(&self, program: &Compiled) -> bool {
        self.of(program).reads_candidates(program)
    }

    fn run(
        &self,
        program: &Compiled,
        host: Box<dyn ToolHost>,
        input: Input<'_>,
        limits: &Limits,
    ) -> Ran {
        self.of(program).run(program, host, input, limits)
    }
}
