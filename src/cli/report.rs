//! `agent report`: writes the page of a run or a trained model as one self-contained HTML file: the
//! explorer's view with its data embedded.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use crate::{Context, Exit, opener};
use agent_app::{
    Perform as _, Result, SandboxArgs,
    output::write,
    report::{Reply, Request},
};
use agent_ground::files;

/// Name of the page in the directory of a run or model, unless `--out` names a file.
const DEFAULT_FILE: &str = "report.html";

/// Write the HTML page of a run or a trained model
///
/// The page of a run shows programs by category with their diffs, lost answers, baselines, and how
/// well the router finds the best program. It also shows changes with their sequential test, and
/// costs. It uses training and validation queries only, and may show an unfinished run. The page of
/// a model shows the curves of loss and validation, and how the model was trained. The page is one
/// file that loads nothing else, for browsers and phones.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    request: Request,
    /// Write the page to this file [default: report.html in the directory of the run or model]
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// Open the page in a browser
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

/// Writes the page of a run into its directory and opens the page in a browser.
///
/// # Errors
/// If the record of the run cannot be read or the page cannot be written.
pub(super) fn open(run: &Path, sandbox: SandboxArgs, ctx: &Context) -> Result<()> {
    let request = Request { run: Some(run.to_owned()), sandbox, ..Request::default() };
    show(&written(&request.perform(ctx)?, None)?, ctx);
    Ok(())
}

fn show(page: &Path, ctx: &Context) {
    let page = page.canonicalize().unwrap_or_else(|_| page.to_owned());
    opener::open(&page.display().to_string(), ctx);
}

/// Writes the page of a record to `out` or, without it, into the directory of the run or model.
/// Returns the path of the page.
fn written(reply: &Reply, out: Option<&Path>) -> Result<PathBuf> {
    let out = match out {
        Some(out) => out.to_owned(),
        None => {
            let page = reply.dir.join(DEFAULT_FILE);
            // The run may belong to another person: a link in it must not replace a file elsewhere.
            files::refuse_link(&page)
                .with_context(|| format!("cannot write {}", page.display()))?;
            page
        }
    };
    refuse_run_files(&out)?;
    let html = agent_serve::report_page(reply).context("the page cannot be written")?;
    write(&out, |file| Ok(file.write_all(html.as_bytes())?))?;
    Ok(out)
}

/// Refuses an output path with a file extension that files of a run or model have, so that a page
/// never replaces one of these files.
fn refuse_run_files(out: &Path) -> Result<()> {
    let known = out.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    if ["sqlite", "json", "rhai", "safetensors"].contains(&known.to_ascii_lowercase().as_str()) {
        let shown = out.display();
        return Err(anyhow!("{shown} is not a name for a page; use FILE.html").into());
    }
    Ok(())
}
