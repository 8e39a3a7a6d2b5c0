//! Runs one program on one query, in the sandbox.
//!
//! The program is treated as hostile: it runs on a worker thread with a deadline. However the
//! program ends, the result is a reply. The reply also keeps the compiled program, so that a
//! process that exits next need not spend time on freeing it.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{App, LlmArgs, Perform, Result, SandboxArgs, Top, dataset, llm, read_program, refused};
use agent_index::IndexedBase;
use agent_infer::{ParamValues, Runtime};
use agent_retrieve::check_query;
use agent_sandbox::{
    Code, CompiledProgram, Failure, FailureKind, Limits, Origin, Outcome, Place, Position, Workers,
    program::Program,
};
use agent_tools::ToolCache;

/// Size of the cache of tool calls, in bytes; small, since one run repeats few calls.
const CACHE_BYTES: usize = 16 << 20;
/// Compilation time above which a notice reports it.
const LONG_COMPILING: Duration = Duration::from_secs(1);

/// A program, and the query to run it on.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Run the program in this file
    #[arg(value_name = "FILE.rhai|FILE.wasm", required = true)]
    #[schema(value_type = Option<String>)]
    pub file: Option<PathBuf>,
    /// Source of a Rhai program, instead of a file
    #[arg(skip)]
    pub source: Option<String>,
    /// Installed dataset, directory to import, or built-in sample
    #[arg(long, value_name = "N")]
    pub dataset: String,
    /// Run on this query
    #[arg(long, value_name = "TEXT")]
    pub query: String,
    /// Set parameters that the program declares, such as {"w_text": 0.5}
    #[arg(long, value_name = "JSON", value_parser = parse_params, default_value = "{}",
        hide_default_value = true)]
    #[serde(default)]
    #[schema(value_type = std::collections::HashMap<String, f64>)]
    pub params: ParamValues,
    /// Print at most this many nodes, 1 to 10000 [default: 20; with --json all]
    #[arg(short, value_name = "K")]
    #[schema(inline)]
    pub k: Option<Top>,
    /// Where Rhai programs run: in this process or inside WebAssembly.
    #[command(flatten)]
    #[serde(default)]
    pub sandbox: SandboxArgs,
    /// Language model to use, with its budget, reply files and prompts.
    #[command(flatten)]
    #[serde(default)]
    pub llm: LlmArgs,
}

fn parse_params(text: &str) -> Result<ParamValues, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}; give a JSON object of numbers"))
}

/// The result of running a program.
pub struct Reply {
    /// The program's ranking and resource usage, or its failure.
    pub outcome: Result<Outcome, Failure>,
    /// The runtime that ran the program; `None` if the program could not be read.
    runtime: Option<Arc<Runtime>>,
    /// The compiled program; kept because freeing it may take long.
    _compiled: Option<CompiledProgram>,
}

impl Reply {
    /// Returns the base that the program ran on; `None` if the program could not be read.
    pub fn base(&self) -> Option<&Arc<IndexedBase>> {
        self.runtime.as_ref().map(|runtime| runtime.base())
    }
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Record<'a> {
            status: &'static str,
            kind: Option<&'static str>,
            message: Option<&'a str>,
            position: Option<Position>,
            ranking: &'a [(u32, f32)],
            usage: Value,
            output: &'a str,
        }
        let failure = self.outcome.as_ref().err();
        let (ranking, usage, output): (&[_], _, _) = match &self.outcome {
            Ok(outcome) => (&outcome.ranking, &outcome.usage, &outcome.output),
            Err(failure) => (&[], &failure.usage, &failure.output),
        };
        Record {
            status: if failure.is_some() { "error" } else { "ok" },
            kind: failure.map(|failure| failure.kind.name()),
            message: failure.map(|failure| failure.message.as_str()),
            position: failure.and_then(|failure| failure.position),
            ranking,
            usage: json!({
                "operations": usage.operations,
                "tool_calls": usage.tool_calls,
                "ms": usage.ms,
                "peak_bytes": usage.peak_bytes,
            }),
            output,
        }
        .serialize(out)
    }
}

impl Perform for Request {
    const NAME: &'static str = "program_run";
    const SUMMARY: &'static str = "Run one program on one query, in the sandbox";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        let query = check_query(&self.query)?;
        let program = match self.program(app)? {
            Ok(program) => program,
            Err(failure) => {
                return Ok(Reply { outcome: Err(failure), runtime: None, _compiled: None });
            }
        };
        let (runtime, place) = self.runtime(app)?;
        // The first search also loads the index, which is not part of the program's time.
        runtime.candidates(query)?;
        if let Err(failure) = warm_up(&runtime, &program, place, app) {
            return Ok(Reply { outcome: Err(failure), runtime: Some(runtime), _compiled: None });
        }
        let (mut outcome, compiled) = self.attempt(&runtime, &program, query)?;
        if let (Ok(outcome), Some(k)) = (&mut outcome, self.k) {
            outcome.ranking.truncate(k.get());
        }
        Ok(Reply { outcome, runtime: Some(runtime), _compiled: compiled })
    }
}

impl Request {
    /// Reads the program of the request. The inner result is a failure if the file cannot be read:
    /// this counts as a failure of the program, not as an error of the request.
    fn program(&self, app: &App) -> Result<Result<Program, Failure>> {
        match (&self.file, &self.source) {
            (None, Some(source)) => Ok(Ok(Program::new(source))),
            (Some(file), None) => {
                app.refuse_paths("program run")?;
                let limits = Limits::default();
                let failed = |why: &str| Failure::new(FailureKind::Parse, why, &limits);
                Ok(read_program(file).map_err(|why| failed(&why.to_string())))
            }
            _ => refused("give a program, either its file or its source"),
        }
    }

    /// Opens a runtime with one worker thread, a small cache of tool calls and the configured
    /// language model, if any. Also returns where Rhai programs run.
    fn runtime(&self, app: &App) -> Result<(Arc<Runtime>, Place)> {
        let base = dataset::open(&dataset::find(&self.dataset, app)?, app)?;
        let llm = llm::open_if_configured(&self.llm, false, app)?;
        let options = self.sandbox.places(app)?.of(Origin::Elsewhere);
        let workers = Workers::new(1).context("cannot start a thread for the program")?;
        let cache = Some(Arc::new(ToolCache::new(CACHE_BYTES)));
        let runtime = Runtime::in_sandbox(base, Arc::new(workers), cache, &options)
            .with_assistant(llm.as_ref().map(|opened| opened.assistant.clone()))
            .stoppable(app.stop.clone());
        Ok((Arc::new(runtime), options.place))
    }

    /// Compiles the program and runs it on `query`; both have a deadline. Also returns the compiled
    /// program, if it compiles.
    fn attempt(
        &self,
        runtime: &Runtime,
        program: &Program,
        query: &str,
    ) -> Result<(Result<Outcome, Failure>, Option<CompiledProgram>)> {
        let began = Instant::now();
        let (outcome, compiled) = match runtime.compile(program) {
            Ok(compiled) => (runtime.run(&compiled, &self.params, query, None)?, Some(compiled)),
            Err(failure) => (Err(failure), None),
        };
        let outcome = outcome.map_err(|mut failure| {
            if failure.usage.ms == 0.0 {
                failure.usage.ms = began.elapsed().as_secs_f64() * 1e3;
            }
            failure
        });
        Ok((outcome, compiled))
    }
}

/// Compiles the code that runs inside WebAssembly (the program, if it is a module, or the Rhai
/// engine) in advance, so that this does not count towards the program's deadline. Has its own
/// deadline.
///
/// # Errors
/// If the module or the engine cannot be compiled.
fn warm_up(runtime: &Runtime, program: &Program, place: Place, app: &App) -> Result<(), Failure> {
    let began = Instant::now();
    let engine = Program::new("fn retrieve(query, candidates, params) { }");
    match (program.code(), place) {
        (Code::Wasm(_), _) => runtime.compile(program)?,
        (Code::Rhai(_), Place::Wasm) => runtime.compile(&engine)?,
        (Code::Rhai(_), Place::Process) => return Ok(()),
    };
    let took = began.elapsed();
    if took > LONG_COMPILING {
        let took = took.as_secs_f64();
        app.watch.notice(&format!("compiled for WebAssembly in {took:.1} s"));
    }
    Ok(())
}
