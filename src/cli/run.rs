//! `agent run`: shows runs, finished or not, even while they are being written, and removes them.

pub(super) mod cost;
mod list;
mod log;
mod prompts;
mod remove;
mod show;

use std::path::PathBuf;

use clap::Subcommand;

use crate::{Context, Exit, OneJson};
use agent_app::Result;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the runs in the home directory
    List(list::Args),
    /// Show the state of a run
    ///
    /// Prints the run's settings, its state (finished, paused, interrupted or running) and its
    /// journal. Then prints the costs by role, the time by part of the run, and the best program of
    /// every category so far.
    Show(OneJson<RunArg>),
    /// Print the steps of a run, one per line
    Log(log::Args),
    /// Show the costs of language models in a run, by role
    ///
    /// Prints, for each role, the paid calls, the replies from the shared cache, the tokens, and US
    /// dollars for models with known prices.
    Cost(OneJson<RunArg>),
    /// Remove runs with all their files
    Remove(remove::Args),
    /// Print the prompts and replies of language models in a run
    Prompts(prompts::Args),
}

/// The run that a command shows.
#[derive(Debug, clap::Args)]
pub(super) struct RunArg {
    /// Show this run: its directory, its name, or `latest`
    #[arg(value_name = "RUN")]
    dir: PathBuf,
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::List(args) => list::run(&args, ctx),
        Command::Show(args) => show::run(&args, ctx),
        Command::Log(args) => log::run(&args, ctx),
        Command::Cost(args) => cost::run(&args, ctx),
        Command::Remove(args) => remove::run(&args, ctx),
        Command::Prompts(args) => prompts::run(&args, ctx),
    }
}
