//! `agent report`: what a run found, as one page of HTML that needs nothing else.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `gather` | what does the journal say, and what do the validation queries |
//! | `spent` | what did it take, in time and in calls of models |
//! | `chart` | where on the page does a number stand |
//! | `page` | how is that written as HTML, every text escaped |

mod chart;
mod gather;
mod page;
mod spent;

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::{
    cli::{
        Context, Exit, dataset,
        eval::write,
        failure::Result,
        named, opener,
        program::sources::Sources,
        systems::{Resources, SandboxArgs},
    },
    dataset::{DatasetError, Split, load_split},
    optimize::journal::Journal,
};

/// File in the run's directory when no other is named.
const DEFAULT_FILE: &str = "report.html";

/// Write what a run found as one page
///
/// The page shows programs by category with their diffs, where answers are lost, baselines, how well
/// the router knows the best program, changes and their sequential test, and what all of it took.
/// It is one file without scripts, for browsers and phones. Uses training and validation queries
/// only. A run that is not finished is told as far as it is.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Run: its directory, its name, or latest
    #[arg(long, value_name = "RUN")]
    run: PathBuf,
    /// Write the page to this file [default: report.html in the run's directory]
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// Open the page in a browser, too
    #[arg(long)]
    open: bool,
    /// Dataset whose validation queries are answered [default: the one of the run]
    #[arg(long, value_name = "N")]
    dataset: Option<String>,
    #[command(flatten)]
    sandbox: SandboxArgs,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let page = written(args, ctx)?;
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
    let args = Args { run: run.to_owned(), out: None, open: true, dataset: None, sandbox };
    show(&written(&args, ctx)?, ctx);
    Ok(())
}

fn show(page: &Path, ctx: &Context) {
    let page = page.canonicalize().unwrap_or_else(|_| page.to_owned());
    opener::open(&page.display().to_string(), ctx);
}

/// Writes the page; its file.
fn written(args: &Args, ctx: &Context) -> Result<PathBuf> {
    let dir = named::run_dir(&args.run, &ctx.home)?;
    let journal = Journal::open_read_only(&dir)?;
    let sources = Sources::of_run(&dir)?;
    let record = gather::Record::read(&dir, &journal, sources, ctx)?;
    let measured = measure(args, &record, ctx)?;
    let places = args.sandbox.places(ctx);
    let html = page::render(&gather::page(&record, measured.as_ref(), &places)?)?;
    let out = args.out.clone().unwrap_or_else(|| dir.join(DEFAULT_FILE));
    refuse_run_files(&out)?;
    write(&out, |file| Ok(file.write_all(html.as_bytes())?))?;
    Ok(out)
}

/// A text as a sentence of the page begins.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// A page never takes the place of a file of the run.
fn refuse_run_files(out: &Path) -> Result<()> {
    let known = out.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    if ["sqlite", "json", "rhai"].contains(&known.to_ascii_lowercase().as_str()) {
        let shown = out.display();
        return Err(anyhow!("{shown} would be a page; name it FILE.html").into());
    }
    Ok(())
}

/// What the frozen bundle and the baselines do on the validation queries; none, with a notice, of
/// a run without a bundle or when its dataset is not there.
fn measure(
    args: &Args,
    record: &gather::Record,
    ctx: &Context,
) -> Result<Option<gather::Measured>> {
    let Some(bundle) = &record.bundle else {
        ctx.printer.notice("the run has no bundle yet: the page tells what was done so far");
        return Ok(None);
    };
    let name = args.dataset.as_deref().unwrap_or(&bundle.dataset.name);
    let found = match (ctx.home.get(name), &args.dataset) {
        (Err(DatasetError::UnknownName { .. } | DatasetError::BadName { .. }), None) => {
            ctx.printer.warning(&format!(
                "\"{name}\" is not installed: the page does not tell where answers are lost; name \
                 the dataset with --dataset N"
            ));
            return Ok(None);
        }
        _ => dataset::find(name, ctx)?,
    };
    let base = dataset::open(&found, ctx)?;
    bundle.check_base(&base)?;
    let queries = load_split(&found.base, &Split::Val)?;
    let resources = Resources::new(None, args.sandbox.places(ctx), ctx);
    gather::Measured::of(record, bundle, &base, queries, &resources, ctx).map(Some)
}
