//! `agent report`: what a run found, or how a model was trained, as one page of HTML that needs nothing
//! else: the explorer's view with its record in the page. `found` gathers what a run does not say itself.

mod found;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use serde::Serialize;
use serde_json::Value;

use crate::{Context, Exit, eval::write, opener, program::sources::Sources};
use agent_app::{
    dataset,
    error::Result,
    llm, named, routing,
    systems::{Resources, SandboxArgs},
};
use agent_dataset::{DatasetError, Split, load_split};
use agent_optimize::{journal::Journal, trial::Trial};
use agent_serve::RecordedRun;
use agent_train::Record;

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
    /// Run: its directory, its name, or latest
    #[arg(long, value_name = "RUN", required_unless_present = "model")]
    run: Option<PathBuf>,
    /// Trained model, instead of a run: its directory or its name
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["run", "dataset"])]
    model: Option<PathBuf>,
    /// Write the page to this file [default: report.html in the directory of the run or model]
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
    let page = match (&args.model, &args.run) {
        (Some(model), _) => written_of_model(model, args.out.as_deref(), ctx)?,
        (None, Some(run)) => written(args, run, ctx)?,
        (None, None) => {
            return Err(anyhow!("name a run with --run, or a model with --model").into());
        }
    };
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
    let args = Args {
        run: Some(run.to_owned()),
        model: None,
        out: None,
        open: true,
        dataset: None,
        sandbox,
    };
    show(&written(&args, run, ctx)?, ctx);
    Ok(())
}

fn show(page: &Path, ctx: &Context) {
    let page = page.canonicalize().unwrap_or_else(|_| page.to_owned());
    opener::open(&page.display().to_string(), ctx);
}

/// The record of a run's page.
#[derive(Serialize)]
struct RunPage {
    #[serde(flatten)]
    run: RecordedRun,
    found: found::Findings,
}

/// The record of a model's page.
#[derive(Serialize)]
struct ModelPage {
    name: String,
    record: Record<Value>,
}

/// Writes the page of a model; its file.
fn written_of_model(model: &Path, out: Option<&Path>, ctx: &Context) -> Result<PathBuf> {
    let dir = named::model_dir(model, &ctx.home)?;
    let record = Record::open(&dir)?;
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    place(&ModelPage { name, record }, out, &dir)
}

/// Writes the page of a record to a file, or into the directory; its file.
fn place(record: &impl Serialize, out: Option<&Path>, dir: &Path) -> Result<PathBuf> {
    let out = out.map_or_else(|| dir.join(DEFAULT_FILE), Path::to_owned);
    refuse_run_files(&out)?;
    let html = agent_serve::report_page(record).context("the page cannot be written")?;
    write(&out, |file| Ok(file.write_all(html.as_bytes())?))?;
    Ok(out)
}

/// Writes the page of a run; its file.
fn written(args: &Args, run: &Path, ctx: &Context) -> Result<PathBuf> {
    let dir = named::run_dir(run, &ctx.home)?;
    let journal = Journal::open_read_only(&dir)?;
    let sources = Sources::from_run(&dir)?;
    let measured = measure(args, &sources, &routing::trials(&journal)?, ctx)?;
    let found = found::found(&dir, &journal, &sources, measured.as_ref(), ctx)?;
    let page = RunPage { run: RecordedRun::read(&dir, &sources)?, found };
    place(&page, args.out.as_deref(), &dir)
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

/// What the frozen bundle and the baselines do on the validation queries; none, with a notice, of
/// a run without a bundle, when its dataset is not there, or when its programs ask a language model
/// and none is configured.
fn measure(
    args: &Args,
    sources: &Sources,
    trials: &[Trial],
    ctx: &Context,
) -> Result<Option<found::Measured>> {
    let Some(bundle) = &sources.bundle else {
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
        _ => dataset::chosen(args.dataset.as_deref(), &bundle.dataset.name, ctx)?,
    };
    let llm = match llm::open_for_programs(bundle, ctx) {
        Ok(llm) => llm,
        Err(error) => {
            ctx.printer.warning(&format!(
                "the programs of the bundle ask a language model, so the page does not tell where \
                 answers are lost: {}",
                error.message()
            ));
            return Ok(None);
        }
    };
    let base = dataset::open(&found, ctx)?;
    bundle.check_base(&base)?;
    let queries = load_split(&found.base, &Split::Val)?;
    let resources = Resources::new(llm.as_ref(), args.sandbox.places(ctx)?, ctx);
    found::Measured::of(bundle, trials, &base, queries, &resources, ctx).map(Some)
}
