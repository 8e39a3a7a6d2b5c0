//! `agent program run`: one program, one query, in the sandbox.
//!
//! The program is hostile until shown otherwise. It runs on a worker, which is not waited for longer
//! than its time allows. With `--json` every end of the program is
//! one JSON object on stdout, and the process ends by itself at once, without freeing what the
//! program may have left behind.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde::Serialize;

use crate::{Context, Exit, hits};
use agent_app::{
    dataset,
    error::Result,
    llm::{self, LlmArgs},
    systems::{SandboxArgs, read_program},
    text::{MAX_K, count},
};
use agent_infer::{self as infer, ParamValues, Runtime};
use agent_retrieve::{Answer, Ranking, check_query};
use agent_sandbox::{
    Code, Failure, FailureKind, Limits, Origin, Outcome, Place, Position, Usage, Workers,
    program::Program,
};
use agent_tools::ToolCache;

/// Memory for answers of tool calls, bytes: one program repeats few, and its memory is bounded.
const CACHE_BYTES: usize = 16 << 20;
/// Compiling that takes longer is told.
const TOLD: Duration = Duration::from_secs(1);
/// Nodes of a table when nothing else is said.
const DEFAULT_K: u64 = 20;

/// Run one program on one query, in the sandbox
///
/// Prints rank, id, type, name and score, best first; what the program used goes to stderr.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Program
    #[arg(value_name = "FILE.rhai|FILE.wasm")]
    file: PathBuf,
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(long, value_name = "N")]
    dataset: String,
    /// What to look for
    #[arg(long, value_name = "TEXT")]
    query: String,
    /// Values of declared parameters, such as {"w_text": 0.5}
    #[arg(long, value_name = "JSON", value_parser = parse_params, default_value = "{}",
        hide_default_value = true)]
    params: Params,
    /// Print at most this many nodes, 1 to 10000 [default: 20; with --json all]
    #[arg(short, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=MAX_K))]
    k: Option<u64>,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Print one JSON object with status, kind, message, position, ranking, usage and output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    llm: LlmArgs,
}

/// Values of parameters as given.
#[derive(Clone, Debug)]
struct Params(ParamValues);

fn parse_params(text: &str) -> std::result::Result<Params, String> {
    serde_json::from_str::<BTreeMap<String, f64>>(text)
        .map(Params)
        .map_err(|error| format!("{error}; give a JSON object of numbers"))
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    status: &'static str,
    kind: Option<&'static str>,
    message: Option<&'a str>,
    position: Option<Position>,
    ranking: &'a [(u32, f32)],
    usage: PrintedUsage,
    output: &'a str,
}

#[derive(Serialize)]
struct PrintedUsage {
    operations: u64,
    tool_calls: u64,
    ms: f64,
    peak_bytes: u64,
}

impl From<Usage> for PrintedUsage {
    fn from(usage: Usage) -> Self {
        let Usage { operations, tool_calls, ms, peak_bytes, .. } = usage;
        Self { operations, tool_calls, ms, peak_bytes }
    }
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let query = check_query(&args.query)?;
    let program = match read_program(&args.file) {
        Ok(program) => program,
        Err(why) => {
            let limits = Limits::default();
            let failure = Failure::new(FailureKind::Parse, &why.to_string(), &limits);
            return tell_failure(&failure, args, ctx);
        }
    };
    let dataset = dataset::find(&args.dataset, ctx)?;
    let base = dataset::open(&dataset, ctx)?;
    let llm = llm::open_if_configured(&args.llm, false, ctx)?;
    let options = args.sandbox.places(ctx)?.of(Origin::Elsewhere);
    let workers = Arc::new(Workers::new(1).context("cannot start a thread for the program")?);
    let cache = Some(Arc::new(ToolCache::new(CACHE_BYTES)));
    let runtime = Runtime::in_sandbox(base.clone(), workers, cache, &options)
        .with_assistant(llm.as_ref().map(|opened| opened.assistant.clone()))
        .stoppable(ctx.stop.clone());
    let runtime = Arc::new(runtime);
    // Searched before the clock starts: the first search also loads the index.
    runtime.candidates(query)?;
    if let Err(failure) = warm_up(&runtime, &program, options.place, ctx) {
        tell_failure(&failure, args, ctx)?;
        end(Exit::Failed);
    }
    match attempt(&runtime, &program, query, &args.params.0)? {
        Ok(outcome) => {
            let mut ranking = outcome.ranking;
            let all = if args.json { usize::MAX } else { DEFAULT_K as usize };
            ranking.truncate(args.k.map_or(all, |k| k as usize));
            if args.json {
                let printed = Printed {
                    status: "ok",
                    kind: None,
                    message: None,
                    position: None,
                    ranking: &ranking,
                    usage: outcome.usage.into(),
                    output: &outcome.output,
                };
                ctx.printer.json(&printed)?;
                end(Exit::Done);
            }
            tell_ranking(&ranking, &runtime, ctx)?;
            tell_use(&outcome.usage, &outcome.output, ctx);
            end(Exit::Done)
        }
        Err(failure) => {
            tell_failure(&failure, args, ctx)?;
            end(Exit::Failed)
        }
    }
}

/// Compiles what WebAssembly needs before the clock starts; each has a deadline of its own.
///
/// # Errors
/// Why the module, or the engine for Rhai, cannot be compiled.
fn warm_up(
    runtime: &Runtime,
    program: &Program,
    place: Place,
    ctx: &Context,
) -> std::result::Result<(), Failure> {
    let began = Instant::now();
    let engine = Program::new("fn retrieve(query, candidates, params) { }");
    match (program.code(), place) {
        (Code::Wasm(_), _) => runtime.compile(program)?,
        (Code::Rhai(_), Place::Wasm) => runtime.compile(&engine)?,
        (Code::Rhai(_), Place::Process) => return Ok(()),
    };
    let took = began.elapsed();
    if took > TOLD {
        let took = took.as_secs_f64();
        ctx.printer.notice(&format!("compiled for WebAssembly, once, in {took:.1} s"));
    }
    Ok(())
}

/// Ends the process without freeing anything: what a program left behind may take long to free, or
/// more stack than this thread has.
fn end(exit: Exit) -> ! {
    std::process::exit(exit as i32)
}

/// Compiles and runs the program. The pool of workers bounds both, and says so when one does not
/// end; freeing the program may take as long as it likes, after the answer.
fn attempt(
    runtime: &Arc<Runtime>,
    program: &Program,
    query: &str,
    params: &ParamValues,
) -> Result<std::result::Result<Outcome, Failure>> {
    let began = Instant::now();
    let ran = match runtime.compile(program) {
        Ok(compiled) => {
            let ran = runtime.run(&compiled, params, query, None);
            std::mem::forget(compiled);
            ran?
        }
        Err(failure) => Err(failure),
    };
    Ok(ran.map_err(|mut failure| {
        if failure.usage.ms == 0.0 {
            failure.usage.ms = began.elapsed().as_secs_f64() * 1e3;
        }
        failure
    }))
}

fn tell_ranking(ranking: &Ranking, runtime: &Runtime, ctx: &Context) -> Result<()> {
    if ranking.is_empty() {
        ctx.printer.notice("the program found no node");
        return Ok(());
    }
    let answer = Answer::from_ranking(ranking.clone());
    hits::print_table(&infer::hits(&runtime.base().kb, &answer), ctx)
}

fn tell_failure(failure: &Failure, args: &Args, ctx: &Context) -> Result<Exit> {
    if args.json {
        ctx.printer.json(&Printed {
            status: "error",
            kind: Some(failure.kind.name()),
            message: Some(&failure.message),
            position: failure.position,
            ranking: &[],
            usage: failure.usage.into(),
            output: &failure.output,
        })?;
        return Ok(Exit::Failed);
    }
    ctx.printer.error(&failure.to_string());
    if let Some(at) = failure.position {
        ctx.printer.cause(&format!("{}:{}:{}", args.file.display(), at.line, at.column));
    }
    tell_use(&failure.usage, &failure.output, ctx);
    Ok(Exit::Failed)
}

fn tell_use(usage: &Usage, output: &str, ctx: &Context) {
    for line in output.lines() {
        ctx.printer.notice(&format!("output: {line}"));
    }
    ctx.printer.notice(&format!(
        "{} operations, {} tool calls, {:.1} ms, at most {} bytes",
        count(usage.operations),
        count(usage.tool_calls),
        usage.ms,
        count(usage.peak_bytes)
    ));
    if usage.leaked_bytes > 0 {
        let leaked = count(usage.leaked_bytes);
        ctx.printer.warning(&format!("the program left {leaked} bytes behind: break its cycles"));
    }
}
