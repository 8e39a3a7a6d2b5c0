//! `agent index`: builds the indexes of a dataset.

use agent_app::{Perform as _, Result, index::Request};

use crate::{Context, Exit};

/// Build the indexes of a dataset
///
/// Keeps existing parts that fit the dataset, unless --force is given; choosing another embedder
/// rebuilds only the vectors. If an indexed dataset was imported again, the old version answers
/// until the new index is built.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    request: Request,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    args.request.perform(ctx)?;
    Ok(Exit::Done)
}
