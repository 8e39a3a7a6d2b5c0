//! `agent program`: runs one program on one query, and shows the programs of a run or a bundle.

mod run;

use clap::Subcommand;

use crate::cli::{Context, Exit, failure::Result};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run one program on one query, in the sandbox
    Run(run::Args),
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::Run(args) => run::run(&args, ctx),
    }
}
