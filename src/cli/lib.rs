//! The command line: one file per command, and what all commands share. Only this crate prints and decides
//! an exit status; what it opens and computes is in `agent_app`.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `failure` | given an error: what is printed, which exit status |
//! | `cut` | given a bus error: which mapped file was cut short |
//! | `printer` | what may be written where |
//! | `fit`, `progress` | given a table: how it fits the terminal; how far is a piece of work |
//! | `pull` | `agent data pull`: which files of the repository, fetched to where |
//! | `examples` | given a command: what would people write |
//! | `hits` | given a ranking: how it is printed |
//! | the others | one command each |
//!
//! Data go to stdout, everything else to stderr. Exit status: see [`Exit`].
//! A further command is a file with `Args` and `run`, and a line in `Command` and in `dispatch`.

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
mod index;
mod key;
mod manual;
mod mcp;
mod opener;
mod optimize;
#[cfg(feature = "otlp")]
mod otlp;
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
        Arc, Mutex, PoisonError,
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

use crate::printer::{Level, Printer};
use agent_app::{App, AppError, Explain, Result, variable};
use agent_dataset::Home;
use agent_sandbox::MAX_WORKERS;

/// What is said where the system refuses threads, and what to do about it.
const NO_THREADS: &str = "the system refuses to start threads";
const MORE_THREADS: &str = "raise the limit of processes (`ulimit -u`, or of the container), or set \
    RAYON_NUM_THREADS to a smaller number";

/// The most threads of parallel work: as many as can wait for programs at once.
const MAX_THREADS: usize = MAX_WORKERS;
/// Stack of the thread that runs a command, bytes; only touched pages cost memory.
const STACK_BYTES: usize = 8 << 20;
/// Time that a command has to end by itself after the first Ctrl-C: everything it publishes appears
/// by a rename, and what it notes is whole at every moment, so that it can be ended anywhere.
const TIME_TO_END: Duration = Duration::from_millis(850);
/// Time to say that it was ended.
const TIME_TO_TELL: Duration = Duration::from_millis(50);

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything asked for was done; a closed pipe on stdout counts as done.
    Done,
    /// It failed, or finished with failed items.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The question can be read in several ways, and which one is meant is asked back.
    AskedBack,
    /// The program is wrong.
    Internal,
    /// Stopped by Ctrl-C or SIGTERM.
    Interrupted,
}

impl Exit {
    /// The exit status.
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

/// The shortest way to an answer, above the list of commands.
const START: &str = "\
First steps:
  agent data import --name shop --from DIR    tables, a database, triples or a graph
  agent index shop
  agent optimize --dataset shop               learns from labelled questions; --synthesize makes some
  agent query latest \"a durable steel bottle by Northpeak\"";

/// Answer questions over tables that link to each other, or a graph with text
///
/// Data go to stdout, everything else to stderr.
/// Exit status: 0 done, 1 failed or finished with failures, 2 bad usage, 3 internal error, 130
/// interrupted.
#[derive(Debug, Parser)]
#[command(name = "agent", version, arg_required_else_help = true, before_help = START)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// The command line as its help shows it.
    fn full() -> clap::Command {
        examples::add(Cli::command())
    }
}

#[derive(Debug, Args)]
struct GlobalArgs {
    /// Keep datasets and indexes in this directory [default: the platform's data directory]
    ///
    /// Notes of what was made here and compiled code are not kept there, as homes are copied, but in
    /// the user's state and cache directories; AGENT_STATE names a directory for both.
    #[arg(
        long,
        value_name = "DIR",
        env = "AGENT_HOME",
        global = true,
        help_heading = "Options of every command"
    )]
    home: Option<PathBuf>,
    /// Read settings from this file [default: config.toml in the home directory, if it is there]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Options of every command")]
    config: Option<PathBuf>,
    /// Write errors only to stderr: no notices, no progress
    #[arg(short, long, global = true, help_heading = "Options of every command")]
    quiet: bool,
    /// Write details and timings to stderr; twice for the log of the program's parts
    ///
    /// AGENT_LOG takes filter directives for that log, such as agent=debug; trace shows every run,
    /// step, trial, program and tool call with its time.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet", help_heading = "Options of every command")]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Import, list, show, generate and remove datasets
    #[command(subcommand)]
    Data(data::Command),
    /// Build the indexes of a dataset
    Index(index::Args),
    /// Rank the nodes of a dataset for a text
    Search(search::Args),
    /// Answer a question with several systems, side by side
    Compare(compare::Args),
    /// Find, prove and freeze retrieval programs for a dataset
    Optimize(optimize::Args),
    /// Train a retriever on labelled queries
    #[command(subcommand)]
    Train(train::Command),
    /// Measure systems on labelled queries
    Eval(eval::Args),
    /// List the systems that rank nodes, and what each needs
    Systems(systems::Args),
    /// Say where the answers were lost that do not come first, line by line
    Explain(explain::Args),
    /// Run a program; list, show and compare the programs of a run or a bundle
    #[command(subcommand)]
    Program(program::Command),
    /// Look at runs: what was done, what it cost, what was asked and answered
    #[command(subcommand)]
    Run(run::Command),
    /// Write what a run found as one page
    Report(report::Args),
    /// Answer a question with a frozen bundle
    Query(query::Args),
    /// Cut batch answering or ranking into units that any scheduler runs, and collect their results
    #[command(subcommand)]
    Unit(unit::Command),
    /// Answer a question over many nodes: how many, which most, whether related, what if
    Ask(ask::Args),
    /// Answer a question in a few sentences, each with the nodes that say so
    Answer(answer::Args),
    /// Answer questions over HTTP
    Serve(serve::Args),
    /// Answer an assistant that speaks the Model Context Protocol, over standard input and output
    Mcp(mcp::Args),
    /// Make, list and remove the keys that a server asks for
    #[command(subcommand)]
    Key(key::Command),
    /// Check that a bundle is whole and does what it says
    Verify(verify::Args),
    /// Show or clear what was paid for and is kept: replies and embeddings
    #[command(subcommand)]
    Cache(cache::Command),
    /// Write what is in the home directory as one file, and take it in elsewhere
    #[command(subcommand)]
    Home(home::Command),
    /// Write what a shell needs to complete commands and options
    Completions(manual::CompletionsArgs),
    /// Write the manual pages
    Man(manual::ManArgs),
    /// Check the home directory and everything installed in it
    Doctor(doctor::Args),
}

/// What every command gets.
struct Context {
    app: App,
    printer: Arc<Printer>,
    /// Whether the command ends by itself once the stop flag is set, in its own time.
    ends_itself: Arc<AtomicBool>,
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
        Command::Index(args) => index::run(&args, ctx),
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
        Command::Mcp(args) => mcp::run(&args, ctx),
        Command::Key(command) => key::run(command, ctx),
        Command::Verify(args) => verify::run(&args, ctx),
        Command::Cache(command) => cache::run(command, ctx),
        Command::Home(command) => home::run(command, ctx),
        Command::Completions(args) => manual::completions(&args, ctx),
        Command::Man(args) => manual::man(&args, ctx),
        Command::Doctor(args) => doctor::run(&args, ctx),
    }
}

/// Has candle compute on the thread that asks, unless the user says otherwise. Training gives each
/// thread queries of its own; candle's further threads take turns at them and wait by spinning: on two
/// cores training a graph network took three times the processor time and twice as long.
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
            // A closed pipe while help is printed is no failure.
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
            // Libraries panic where the system refuses a thread; that is no fault of the program.
            if let Err(error) = thread::Builder::new().spawn(|| {}) {
                printer.error(&format!("{NO_THREADS}: {error}"));
                printer.hint(MORE_THREADS);
                return Exit::Failed.into();
            }
            let message = last_panic.lock().unwrap_or_else(PoisonError::into_inner).take();
            printer.error(&format!("internal error: {}", message.unwrap_or_default()));
            printer.hint("this is a fault of the program; please report it with this message");
            Exit::Internal.into()
        }
    }
}

fn run(cli: Cli, printer: &Arc<Printer>) -> Exit {
    let (stop, ends_itself) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let started = start_threads(&stop, printer, &ends_itself);
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
            Err(AppError::usage(anyhow!("the home directory is empty")))
                .hint("give --home DIR or unset AGENT_HOME")
        }
        Some(path) => Ok(Home::new(path)),
        None => Home::platform_default()
            .map(Home::new)
            .ok_or_else(|| anyhow!("this platform has no data directory for the user"))
            .hint("give --home DIR or set AGENT_HOME"),
    }
}

/// Starts the threads that every command has: one for signals, and those that work is spread over,
/// at most [`MAX_THREADS`], which would otherwise be started where nothing can be said about a
/// failure.
///
/// # Errors
/// That the system refuses them.
fn start_threads(
    stop: &Arc<AtomicBool>,
    printer: &Arc<Printer>,
    ends_itself: &Arc<AtomicBool>,
) -> Result<()> {
    watch_signals(stop, printer, ends_itself).hint(MORE_THREADS)?;
    let variables = ["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"];
    let number = |name: &str| variable(name)?.parse::<usize>().ok().filter(|&n| n > 0);
    let asked = variables.iter().find_map(|name| number(name));
    if let Some(asked) = asked.filter(|&asked| asked > MAX_THREADS) {
        printer.warning(&format!("{asked} threads are asked for; {MAX_THREADS} are the most"));
    }
    let threads = asked.unwrap_or_else(agent_app::systems::all_threads).min(MAX_THREADS);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.context(NO_THREADS).hint(MORE_THREADS)
}

/// Sets the stop flag at the first Ctrl-C or SIGTERM and ends the process a little later if it has
/// not ended by then, or at the second.
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
            return printer.notice("finishing what is under way; again to end at once");
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
    .context("cannot start the thread that waits for signals")?;
    Ok(())
}

/// Ends the process, whatever its threads do, and says so if stderr can be written to.
fn end_interrupted(printer: Arc<Printer>) -> ! {
    let text = printer.way_on().unwrap_or_else(|| "it was ended while it worked".to_owned());
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

/// Keeps the message of the latest panic instead of printing it: some panics are caught and
/// become failures of one program, and only one that reaches [`main`] is worth a line.
fn keep_panics() -> Arc<Mutex<Option<String>>> {
    let last = Arc::new(Mutex::new(None));
    let kept = last.clone();
    panic::set_hook(Box::new(move |info| {
        let what = info.payload_as_str().unwrap_or("panic without a message");
        let place = info.location().map(|at| format!(" at {at}")).unwrap_or_default();
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{what}{place}"));
    }));
    last
}

/// Whether what goes to stderr may be coloured: on a terminal whose user does not refuse it.
fn colours_stderr() -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::IsTerminal::is_terminal(&std::io::stderr()) && !refused
}

/// The log of the program's parts; `AGENT_LOG` takes filter directives such as `agent=debug`.
/// What is returned is to be held until the process ends.
fn start_log(verbose: u8) -> impl Sized {
    let default = match verbose {
        // What `agent_embed` warns of, a device that failed, changes how long a command takes.
        0 => "error,agent_embed=warn",
        1 => "agent=info",
        _ => "agent=debug",
    };
    let filter = EnvFilter::try_from_env("AGENT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // Who asks for a log of the parts wants to see them begin and end, with their times.
    let asked = env::var_os("AGENT_LOG").is_some_and(|value| !value.is_empty());
    let spans = if asked { FmtSpan::CLOSE } else { FmtSpan::NONE };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colours_stderr())
        .with_span_events(spans)
        .without_time()
        .with_filter(filter);
    #[cfg(feature = "otlp")]
    let (spans, export) = otlp::layer().unzip();
    #[cfg(not(feature = "otlp"))]
    let (spans, export) = (None::<tracing_subscriber::layer::Identity>, ());
    // It fails only if there is a log already.
    let _ = tracing_subscriber::registry().with(lines).with(spans).try_init();
    export
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command and all below it, with their paths.
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
