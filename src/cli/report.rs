//! `agent report`: what a run found, or how a model was trained, as one page of HTML that needs nothing
//! else: the explorer's view with its record in the page.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use crate::{Context, Exit, opener};
use agent_app::{
    Result,
    operation::Perform as _,
    output::write,
    report::{Reply, Request},
    systems::SandboxArgs,
};

/// File in the run's directory when no other is named.
const DEFAULT_FILE: &str = "report.html";

/// Write what a run found, or how a model was trained, as one page
///
/// The page shows programs by category with their diffs, where answers are lost, baselines, how well
/// the router knows the best program, changes and their sequential test, and what all of it took.
/// It is one file that fetches nothing, for browsers and phones. Uses training and validation queries
/// only. A run that is not finished is told as far as it is. The page of a model has the curves of
/// loss and validation, and how it was learnt.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    request: Request,
    /// Write the page to this file [default: report.html in the directory of the run or model]
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// Open the page in a browser, too
    #[arg(long)]
    open: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let page = written(&args.request.perform(ctx)?, args.out.as_deref())?;
    ctx.printer.data(&page.display().to_string())?;
    if args.open {
        show(&page, ctx);
    }
    Ok(Exit::Done)
}

/// Writes the page of a run into its directory and opens it.
///
/// # Errors
/// What keeps it from being written.
pub(super) fn open(run: &Path, sandbox: SandboxArgs, ctx: &Context) -> Result<()> {
    let request = Request { run: Some(run.to_owned()), sandbox, ..Request::default() };
    show(&written(&request.perform(ctx)?, None)?, ctx);
    Ok(())
}

fn show(page: &Path, ctx: &Context) {
    let page = page.canonicalize().unwrap_or_else(|_| page.to_owned());
    opener::open(&page.display().to_string(), ctx);
}

/// Writes the page of a record to a file, or into the directory of its run or model; its file.
fn written(reply: &Reply, out: Option<&Path>) -> Result<PathBuf> {
    let out = out.map_or_else(|| reply.dir.join(DEFAULT_FILE), Path::to_owned);
    refuse_run_files(&out)?;
    let html = agent_serve::report_page(reply).context("the page cannot be written")?;
    write(&out, |file| Ok(file.write_all(html.as_bytes())?))?;
    Ok(out)
}

/// A page never takes the place of a file of the run or model.
fn refuse_run_files(out: &Path) -> Result<()> {
    let known = out.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    if ["sqlite", "json", "rhai", "safetensors"].contains(&known.to_ascii_lowercase().as_str()) {
        let shown = out.display();
        return Err(anyhow!("{shown} would be a page; name it FILE.html").into());
    }
    Ok(())
}
