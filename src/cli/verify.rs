//! `agent verify`: checks that a bundle is whole and does what it says.

use std::path::PathBuf;

use crate::cli::{Context, Exit, failure::Result, systems::read_bundle};

/// Check that a bundle is whole and does what it says
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Frozen bundle
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &Args, _: &Context) -> Result<Exit> {
    read_bundle(&args.file)?;
    Ok(Exit::Done)
}
