//! The command line: one file per command, and shared code. Only this crate prints and chooses the
//! exit status; `agent_app` opens files and computes.
//!
//! | file | contents |
//! | --- | --- |
//! | `failure` | the error message and exit status of an error |
//! | `cut` | the message after a bus error: which mapped file was truncated |
//! | `printer` | all output to stdout and stderr |
//! | `fit`, `progress` | fitting a table to the terminal; progress lines |
//! | `pull` | `agent data pull`: the files to download, and their destination |
//! | `examples` | example command lines for the help of each command |
//! | `hits` | printing a ranking |
//! | the others | one command each |
//!
//! Data go to stdout, everything else to stderr. Exit status: see [`Exit`].
//! To add a command, write a file with `Args` and `run`, and add it to `Command` and `dispatch`.

mod answer;
mod ask;
mod cache;
mod compare;
mod cut;
mod data;
mod doctor;
mod eval;
mod examples;
mod explain;
mod failure;
mod fit;
mod hits;
mod home;
mod key;
mod manual;
mod opener;
mod optimize;
mod printer;
mod program;
mod progress;
mod pull;
mod query;
mod report;
mod run;
mod search;
mod serve;
mod synthesize;
mod systems;
mod train;
mod unit;
mod verify;
mod why;

pub use std::{
    env,
    ops::Deref,
    panic,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tracing_subscriber::{
    EnvFilter, Layer, fmt::format::FmtSpan, layer::SubscriberExt, util::SubscriberInitExt,
};

use crate::printer::{Level, Printer, plain, table};
use agent_app::{App, Explain, Perform as _, Result, Watch as _, refused, variable};
use agent_dataset::Home;
use agent_ground::locks::locked;
use agent_sandbox::MAX_WORKERS;

/// Error message if the system refuses to start threads; [`MORE_THREADS`] is its hint.
const NO_THREADS: &str = "the operating system refuses to start threads";
const MORE_THREADS: &str = "raise the limit on processes (`ulimit -u`, or of the container), or \
    set RAYON_NUM_THREADS to a smaller number";

/// Maximum number of threads in the pool for parallel work; equals the maximum number of workers of
/// one sandbox pool.
const MAX_THREADS: usize = MAX_WORKERS;
/// Size, in bytes, of the stack of the thread that runs a command; only touched pages cost memory.
const STACK_BYTES: usize = 8 << 20;
/// Time that a command has to end by itself after the first Ctrl-C; then the process is ended.
/// Ending is safe at any point: files are published by renaming, and the records of a run are
/// always consistent.
const TIME_TO_END: Duration = Duration::from_millis(850);
/// Time limit for writing the message that the command was interrupted.
const TIME_TO_TELL: Duration = Duration::from_millis(50);

/// Outcome of the program; decides the exit status of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command completed; a closed pipe on stdout counts as completion.
    Done,
    /// The command failed, or finished with failed items.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The question is ambiguous: its interpretations were printed, and the user has to choose
    /// one.
    AskedBack,
    /// Internal error: the program panicked.
    Internal,
    /// Stopped by Ctrl-C or SIGTERM.
    Interrupted,
}

impl Exit {
    /// Returns the exit status of the process.
    fn status(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::AskedBack | Exit::Internal => 3,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.status())
    }
}

/// First steps, which the help shows above the list of commands.
const START: &str = "\
First steps:
  agent data import --name shop --from DIR    tables, a database, triples or a graph
  agent index shop
  agent optimize --dataset shop               learns from labelled questions; --synthesize makes some
  agent query latest \"a durable steel bottle by Northpeak\"";

/// Answer questions over tables that link to each other, or a graph with text
///
/// Data go to stdout, everything else to stderr.
/// Exit status: 0 done, 1 failed or finished with failures, 2 bad usage, 3 internal error or
/// ambiguous question, 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "agent", version, arg_required_else_help = true, before_help = START)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// Returns the definition of the command line, with examples in the help texts.
    fn full() -> clap::Command {
        examples::add(Cli::command())
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
struct GlobalArgs {
    /// Keep datasets and indexes in this directory [default: the platform's data directory]
    ///
    /// A home may be copied to another machine. The record of the artefacts made on this machine,
    /// and compiled code, are therefore kept in the user's state and cache directories; AGENT_STATE
    /// names one directory for both.
    #[arg(long, value_name = "DIR", env = "AGENT_HOME", global = true)]
    home: Option<PathBuf>,
    /// Read settings from this file [default: config.toml in the home directory, if it exists]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Write only errors to stderr, no notices or progress
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Write details and timings to stderr; -vv also writes the internal log
    ///
    /// AGENT_LOG sets filter directives for the internal log, such as agent=debug. At the level
    /// trace, the log shows every run, step, trial, program and tool call with its duration.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Import, list, show, generate and remove datasets
    #[command(subcommand)]
    Data(data::Command),
    /// Build the indexes of a dataset
    ///
    /// Keeps existing parts that fit the dataset, unless --force is given; choosing another
    /// embedder rebuilds only the vectors. If an indexed dataset was imported again, the old
    /// version answers until the new index is built.
    Index(agent_app::index::Request),
    /// Rank the nodes of a dataset by relevance to a text
    Search(search::Args),
    /// Answer a question with several systems, side by side
    Compare(compare::Args),
    /// Find, test and freeze retrieval programs for a dataset
    Optimize(optimize::Args),
    /// Train a retriever on labelled queries
    #[command(subcommand)]
    Train(train::Command),
    /// Measure systems on labelled queries
    Eval(eval::Args),
    /// List the systems that rank nodes, and what each needs
    Systems(systems::Args),
    /// Explain, line by line, why correct answers are not ranked first
    Explain(explain::Args),
    /// Run a program; list, show and compare the programs of a run or a bundle
    #[command(subcommand)]
    Program(program::Command),
    /// List, inspect and remove runs; show their costs, prompts and replies
    #[command(subcommand)]
    Run(run::Command),
    /// Write the HTML page of a run or a trained model
    Report(report::Args),
    /// Answer a question with a frozen bundle
    Query(query::Args),
    /// Divide batch answering, ranking or indexing into units for any scheduler, and collect
    /// their results
    #[command(subcommand)]
    Unit(unit::Command),
    /// Answer a question over many nodes: how many, which most, whether related, what if
    Ask(ask::Args),
    /// Answer a question in a few sentences, each citing its supporting nodes
    Answer(answer::Args),
    /// Answer questions over HTTP
    Serve(serve::Args),
    /// Answer an assistant that speaks the Model Context Protocol, over standard input and output
    ///
    /// Assistants start this command themselves. The server offers five read-only tools
    /// (describe_base, query, search, get_node, neighbors), resources and a prompt; run_program
    /// only with --allow-programs. The command ends at the end of its input. `agent serve` offers
    /// the same tools at /mcp.
    Mcp(serve::ServedArgs),
    /// Create, list and remove the API keys of a server
    #[command(subcommand)]
    Key(key::Command),
    /// Check that a bundle is intact and reproduces its recorded scores
    Verify(verify::Args),
    /// Show or clear the cache of paid results: model replies and embeddings
    #[command(subcommand)]
    Cache(cache::Command),
    /// Export the home directory as one file, or import such a file
    #[command(subcommand)]
    Home(home::Command),
    /// Print a completion script for a shell
    Completions(manual::CompletionsArgs),
    /// Write the manual pages
    Man(manual::ManArgs),
    /// Check the home directory and everything installed in it
    Doctor(doctor::Args),
}

/// The request of a command that prints one JSON object with `--json`.
#[derive(Debug, Args)]
struct OneJson<R: Args> {
    #[command(flatten)]
    request: R,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Options of a command that prints a list.
#[derive(Debug, Args)]
struct ListArgs {
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

/// The context that every command receives.
struct Context {
    app: App,
    printer: Arc<Printer>,
    /// Whether the command ends by itself, without a time limit, once the stop flag is set.
    ends_itself: Arc<AtomicBool>,
}

impl Context {
    /// Begins to show the progress of a stage of `total` units. Returns the function to call with
    /// the number of further units that are done.
    fn progress(&self, stage: String, total: u64) -> impl FnMut(u64) {
        let (progress, mut done) = (self.watch.progress(), 0);
        move |n| {
            done += n;
            progress.at(&stage, done, total);
        }
    }
}

impl Deref for Context {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

fn dispatch(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::Data(command) => data::run(command, ctx),
        Command::Index(request) => request.perform(ctx).map(|_| Exit::Done),
        Command::Search(args) => search::run(&args, ctx),
        Command::Compare(args) => compare::run(&args, ctx),
        Command::Optimize(args) => optimize::run(&args, ctx),
        Command::Train(command) => train::run(command, ctx),
        Command::Eval(args) => eval::run(&args, ctx),
        Command::Systems(args) => systems::run(&args, ctx),
        Command::Explain(args) => explain::run(&args, ctx),
        Command::Program(command) => program::run(command, ctx),
        Command::Run(command) => run::run(command, ctx),
        Command::Report(args) => report::run(&args, ctx),
        Command::Query(args) => query::run(&args, ctx),
        Command::Unit(command) => unit::run(command, ctx),
        Command::Ask(args) => ask::run(&args, ctx),
        Command::Answer(args) => answer::run(&args, ctx),
        Command::Serve(args) => serve::run(&args, ctx),
        Command::Mcp(args) => serve::assist(&args, ctx),
        Command::Key(command) => key::run(command, ctx),
        Command::Verify(args) => verify::run(&args, ctx),
        Command::Cache(command) => cache::run(command, ctx),
        Command::Home(command) => home::run(command, ctx),
        Command::Completions(args) => manual::completions(&args, ctx),
        Command::Man(args) => manual::man(&args, ctx),
        Command::Doctor(args) => doctor::run(&args, ctx),
    }
}

/// Limits candle to the calling thread, unless the user sets `CANDLE_NUM_THREADS`. Training already
/// gives each thread its own queries, and candle's additional threads wait by spinning: with them,
/// on two cores, training a graph network took three times the CPU time and twice as long.
fn keep_candle_to_one_thread() {
    const THREADS: &str = "CANDLE_NUM_THREADS";
    if env::var_os(THREADS).is_none() {
        // SAFETY: no other thread runs yet that could read the environment.
        #[expect(unsafe_code, reason = "a setting of candle that has no other interface")]
        unsafe {
            env::set_var(THREADS, "1");
        }
    }
}

/// Runs the program on the arguments of the process and returns its exit status.
pub fn main() -> ExitCode {
    keep_candle_to_one_thread();
    // The system may grant the first thread next to no stack (`ulimit -s`).
    let main = thread::Builder::new().name("main".to_owned()).stack_size(STACK_BYTES);
    match main.spawn(run_arguments) {
        Ok(running) => running.join().unwrap_or(Exit::Internal.into()),
        Err(_) => run_arguments(),
    }
}

fn run_arguments() -> ExitCode {
    let matches = Cli::full().try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe while help is printed is not a failure.
            let _ = error.print();
            return ExitCode::from(if error.exit_code() == 0 { Exit::Done } else { Exit::Usage });
        }
    };
    let level = match (cli.global.quiet, cli.global.verbose) {
        (true, _) => Level::Quiet,
        (false, 0) => Level::Normal,
        (false, _) => Level::Verbose,
    };
    let printer = Arc::new(Printer::new(level));
    let _log = start_log(cli.global.verbose);
    let last_panic = keep_panics();
    cut::install();
    match panic::catch_unwind(panic::AssertUnwindSafe(|| run(cli, &printer))) {
        Ok(exit) => exit.into(),
        Err(_) => {
            // Libraries panic if the system refuses a thread; that is not a fault of the program.
            if let Err(error) = thread::Builder::new().spawn(|| {}) {
                printer.error(&format!("{NO_THREADS}: {error}"));
                printer.hint(MORE_THREADS);
                return Exit::Failed.into();
            }
            let message = locked(&last_panic).take();
            printer.error(&format!("internal error: {}", message.unwrap_or_default()));
            printer.hint("this is a bug in agent; please report it with this message");
            Exit::Internal.into()
        }
    }
}

fn run(cli: Cli, printer: &Arc<Printer>) -> Exit {
    let (stop, ends_itself) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let started = watch_signals(&stop, printer, &ends_itself).and_then(|()| start_pool(printer));
    let outcome = started.and_then(|()| home(cli.global.home)).and_then(|home| {
        let (config, stop) = (cli.global.config, stop.clone());
        let app = App { config, stop, ..App::new(home, printer.clone()) };
        dispatch(cli.command, &Context { app, printer: printer.clone(), ends_itself })
    });
    match outcome {
        Ok(Exit::Failed) if stop.load(Ordering::Relaxed) => Exit::Interrupted,
        Ok(exit) => exit,
        Err(error) => failure::report(&error, printer, stop.load(Ordering::Relaxed)),
    }
}

fn home(given: Option<PathBuf>) -> Result<Home> {
    match given {
        Some(path) if path.as_os_str().is_empty() => {
            refused("the path of the home directory is empty")
                .hint("give --home DIR or unset AGENT_HOME")
        }
        Some(path) => Ok(Home::new(path)),
        None => Home::platform_default()
            .map(Home::new)
            .ok_or_else(|| anyhow!("this platform has no data directory for the user"))
            .hint("give --home DIR or set AGENT_HOME"),
    }
}

/// Starts the pool of at most [`MAX_THREADS`] threads for the parallel work of every command. The
/// pool is started here, not at its first use, so that a refusal by the system is reported with a
/// hint.
///
/// # Errors
/// If the system refuses to start threads.
fn start_pool(printer: &Printer) -> Result<()> {
    let variables = ["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"];
    let number = |name: &str| variable(name)?.parse::<usize>().ok().filter(|&n| n > 0);
    let asked = variables.iter().find_map(|name| number(name));
    if let Some(asked) = asked.filter(|&asked| asked > MAX_THREADS) {
        printer.warning(&format!("{asked} threads exceed the limit of {MAX_THREADS}"));
    }
    let threads = asked.unwrap_or_else(agent_app::systems::all_threads).min(MAX_THREADS);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.context(NO_THREADS).hint(MORE_THREADS)
}

/// Starts the thread that waits for signals. It sets the stop flag at the first Ctrl-C or SIGTERM,
/// and ends the process at the second one or, if `ends_itself` is false, [`TIME_TO_END`] after the
/// first.
///
/// # Errors
/// If the system refuses to start the thread.
fn watch_signals(
    stop: &Arc<AtomicBool>,
    printer: &Arc<Printer>,
    ends_itself: &Arc<AtomicBool>,
) -> Result<()> {
    let (stop, printer, ends_itself) = (stop.clone(), printer.clone(), ends_itself.clone());
    ctrlc::set_handler(move || {
        if stop.swap(true, Ordering::Relaxed) {
            std::process::exit(Exit::Interrupted.status().into());
        }
        if ends_itself.load(Ordering::Relaxed) {
            return printer.notice("finishing running work; press Ctrl-C again to end at once");
        }
        let last = printer.clone();
        let end = move || {
            thread::sleep(TIME_TO_END);
            end_interrupted(last);
        };
        if thread::Builder::new().name("end".to_owned()).spawn(end).is_err() {
            std::process::exit(Exit::Interrupted.status().into());
        }
        printer.notice("stopping");
    })
    .context("cannot start the thread that waits for signals")
    .hint(MORE_THREADS)
}

/// Writes the message about the interruption to stderr, waiting at most [`TIME_TO_TELL`] for that,
/// and ends the process.
fn end_interrupted(printer: Arc<Printer>) -> ! {
    let text = printer.way_on().unwrap_or_else(|| "the command did not finish".to_owned());
    let (told, telling) = mpsc::sync_channel(1);
    let tell = move || {
        printer.error(&format!("interrupted: {text}"));
        let _ = told.send(());
    };
    if thread::Builder::new().spawn(tell).is_ok() {
        let _ = telling.recv_timeout(TIME_TO_TELL);
    }
    std::process::exit(Exit::Interrupted.status().into())
}

/// Installs a hook that stores the message of the latest panic in the returned cell instead of
/// printing it. Some panics are caught and become the failure of one program; only a panic that
/// reaches [`main`] is printed.
fn keep_panics() -> Arc<Mutex<Option<String>>> {
    let last = Arc::new(Mutex::new(None));
    let kept = last.clone();
    panic::set_hook(Box::new(move |info| {
        let what = info.payload_as_str().unwrap_or("panic without a message");
        let place = info.location().map(|at| format!(" at {at}")).unwrap_or_default();
        *locked(&kept) = Some(format!("{what}{place}"));
    }));
    last
}

/// Whether output to stderr may be coloured: stderr is a terminal, and `NO_COLOR` is unset or
/// empty.
fn colours_stderr() -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::IsTerminal::is_terminal(&std::io::stderr()) && !refused
}

/// Starts the internal log; `AGENT_LOG` sets filter directives such as `agent=debug`. The caller
/// keeps the returned guard until the process ends.
fn start_log(verbose: u8) -> impl Sized {
    let default = match verbose {
        // These crates warn of a failed device and of repeated requests, which slow a command down.
        0 => "error,agent_embed=warn,agent_remote=warn",
        1 => "agent=info",
        _ => "agent=debug",
    };
    let filter = EnvFilter::try_from_env("AGENT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // With AGENT_LOG set, each span is logged with its duration when it closes.
    let asked = env::var_os("AGENT_LOG").is_some_and(|value| !value.is_empty());
    let spans = if asked { FmtSpan::CLOSE } else { FmtSpan::NONE };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colours_stderr())
        .with_span_events(spans)
        .without_time()
        .with_filter(filter);
    #[cfg(feature = "otlp")]
    let (spans, export) = agent_remote::otlp::layer().unzip();
    #[cfg(not(feature = "otlp"))]
    let (spans, export) = (None::<tracing_subscriber::layer::Identity>, ());
    // Fails only if a log is already installed.
    let _ = tracing_subscriber::registry().with(lines).with(spans).try_init();
    export
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `see` with the path of a command, such as `agent data import`, and the command itself,
    /// then does the same for each of its subcommands.
    fn each(path: &str, command: &clap::Command, see: &mut dyn FnMut(&str, &clap::Command)) {
        see(path, command);
        for below in command.get_subcommands() {
            each(&format!("{path} {}", below.get_name()), below, see);
        }
    }

    #[test]
    fn help_names_every_flag_of_every_command() {
        let mut cli = Cli::command();
        cli.build();
        let (mut n_commands, mut n_flags) = (0, 0);
        each("agent", &cli, &mut |path, command| {
            n_commands += 1;
            let text = command.clone().render_long_help().to_string();
            assert!(command.get_about().is_some(), "{path} does not say what it does");
            for argument in command.get_arguments() {
                let name = match argument.get_long() {
                    Some(long) => format!("--{long}"),
                    None => argument.get_id().to_string(),
                };
                n_flags += 1;
                assert!(argument.get_help().is_some(), "{path} {name} has no help");
                assert!(!argument.is_hide_set(), "{path} {name} is hidden");
                assert!(argument.get_long().is_none() || text.contains(&name), "{path} {name}");
            }
        });
        assert!(n_commands > 40 && n_flags > 200, "{n_commands} commands, {n_flags} flags");
    }
}
