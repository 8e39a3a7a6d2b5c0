//! `agent index`: builds the indexes of a dataset.

use agent_app::{Result, index::Request, operation::Perform as _};

use crate::{Context, Exit};

/// Build the indexes of a dataset
///
/// What is there and fits the dataset is kept unless --force is given; another embedder replaces
/// the vectors alone. A dataset that was imported again while it was indexed answers as before
/// until its new index is built.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    request: Request,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    args.request.perform(ctx)?;
    Ok(Exit::Done)
}
