//! `agent run`: looks at runs, finished or not, also while they are being written, and removes them.

pub(super) mod cost;
mod list;
mod log;
mod prompts;
mod remove;
mod show;

use clap::Subcommand;

use crate::{Context, Exit};
use agent_app::error::Result;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the runs in the home directory
    List(list::Args),
    /// Show how a run stands
    Show(show::Args),
    /// Print what a run did, one line per step
    Log(log::Args),
    /// Show what a run spent on language models, by role
    Cost(cost::Args),
    /// Remove a run and all that it kept
    Remove(remove::Args),
    /// Print what a run asked language models, and what they answered
    Prompts(prompts::Args),
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
