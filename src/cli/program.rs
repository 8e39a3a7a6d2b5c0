//! `agent program`: runs a program on one query, and shows the programs of a run or a bundle.

mod diff;
mod lineage;
mod list;
mod run;
mod sensitivity;
mod show;

use clap::Subcommand;

use crate::{Context, Exit, OneJson};
use agent_app::Result;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run one program on one query, in the sandbox
    Run(run::Args),
    /// List the programs of a run or a bundle
    List(list::Args),
    /// Print the source of a program, or the lexicon of a bundle
    Show(show::Args),
    /// Compare two programs: source, parameters and answers
    ///
    /// Prints a unified diff of the sources and the parameters that differ. Then prints the queries
    /// that the second program answers better and worse, and the paired difference of the mean
    /// reciprocal ranks with its 95 % interval and p-value. Validation results come from the run's
    /// journal if it has results of both programs. Otherwise, and with --measure, the programs run
    /// on the dataset, which also measures their cost; if one of them is in the bundle, they run on
    /// the queries that the router sends to that program.
    Diff(OneJson<agent_app::program::diff::Request>),
    /// Show the effect of each parameter of a program on its answers
    Sensitivity(sensitivity::Args),
    /// Show the ancestors of a program, and the test of each change
    Lineage(lineage::Args),
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::Run(args) => run::run(&args, ctx),
        Command::List(args) => list::run(&args, ctx),
        Command::Show(args) => show::run(&args, ctx),
        Command::Diff(args) => diff::run(&args, ctx),
        Command::Sensitivity(args) => sensitivity::run(&args, ctx),
        Command::Lineage(args) => lineage::run(&args, ctx),
    }
}
