//! Collects the data of a report page: the findings of a run, or the record of a trained model.

mod found;
pub mod recorded;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use self::{found::Findings, recorded::RecordedRun};
use crate::{App, Perform, Resources, Result, SandboxArgs, dataset, llm, named, refused, routing};
use agent_dataset::{DatasetError, Split, load_split};
use agent_optimize::{journal::Journal, record::programs::Sources, trial::Trial};
use agent_train::Record;

/// The run or trained model to report on.
#[derive(Clone, Debug, Default, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Report on this run: its directory, its name, or `latest`
    #[arg(long, value_name = "RUN", required_unless_present = "model")]
    #[schema(value_type = Option<String>)]
    pub run: Option<PathBuf>,
    /// Report on this trained model instead of a run: its directory or its name
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["run", "dataset"])]
    #[schema(value_type = Option<String>)]
    pub model: Option<PathBuf>,
    /// Answer the validation queries of this dataset [default: the run's dataset]
    #[arg(long, value_name = "N")]
    pub dataset: Option<String>,
    /// Where Rhai programs run: in this process or inside WebAssembly.
    #[command(flatten)]
    #[serde(default)]
    pub sandbox: SandboxArgs,
}

/// The data of a report page.
#[derive(Serialize)]
pub struct Reply {
    /// Directory of the run or model that the page is about.
    #[serde(skip)]
    pub dir: PathBuf,
    #[serde(flatten)]
    page: Page,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Page {
    Run {
        #[serde(flatten)]
        run: Box<RecordedRun>,
        found: Box<Findings>,
    },
    Model {
        name: String,
        record: Box<Record<Value>>,
    },
}

impl Perform for Request {
    const NAME: &'static str = "report";
    const SUMMARY: &'static str = "Write the HTML page of a run or a trained model";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        match (&self.model, &self.run) {
            (Some(model), None) if self.dataset.is_none() => of_model(model, app),
            (None, Some(run)) => of_run(self, run, app),
            _ => refused("name a run with --run, or a model with --model"),
        }
    }
}

fn of_model(model: &Path, app: &App) -> Result<Reply> {
    let dir = named::model_dir(model, app)?;
    let record = Box::new(Record::open(&dir)?);
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Reply { dir, page: Page::Model { name, record } })
}

fn of_run(request: &Request, run: &Path, app: &App) -> Result<Reply> {
    let dir = named::run_dir(run, app)?;
    let journal = Journal::open_read_only(&dir)?;
    let sources = Sources::from_run(&dir)?;
    let measured = measure(request, &sources, &routing::trials(&journal)?, app)?;
    let found = Box::new(found::found(&dir, &journal, &sources, measured.as_ref(), app)?);
    let run = Box::new(RecordedRun::read(&dir, &sources)?);
    Ok(Reply { dir, page: Page::Run { run, found } })
}

/// Measures the frozen bundle and the baselines on the validation queries. Returns `None`, with a
/// notice or warning, if there is no bundle, if the run's dataset is not installed, or if programs
/// need a language model that cannot be opened.
fn measure(
    request: &Request,
    sources: &Sources,
    trials: &[Trial],
    app: &App,
) -> Result<Option<found::Measured>> {
    let Some(bundle) = &sources.bundle else {
        app.watch.notice("the run has no bundle yet: the page shows the progress so far");
        return Ok(None);
    };
    let name = request.dataset.as_deref().unwrap_or(&bundle.dataset.name);
    let found = match (app.home.get(name), &request.dataset) {
        (Err(DatasetError::UnknownName { .. } | DatasetError::BadName { .. }), None) => {
            app.watch.warning(&format!(
                "\"{name}\" is not installed, so the page does not show where answers are lost; \
                 name the dataset with --dataset N"
            ));
            return Ok(None);
        }
        _ => dataset::chosen(request.dataset.as_deref(), &bundle.dataset.name, app)?,
    };
    let llm = match llm::open_for_programs(bundle, app) {
        Ok(llm) => llm,
        Err(error) => {
            app.watch.warning(&format!(
                "the programs of the bundle ask a language model, so the page does not show where \
                 answers are lost: {}",
                error.message()
            ));
            return Ok(None);
        }
    };
    let base = dataset::open(&found, app)?;
    bundle.check_base(&base)?;
    let queries = load_split(&found.base, &Split::Val)?;
    let resources = Resources::new(llm.as_ref(), request.sandbox.places(app)?, app);
    found::Measured::of(bundle, trials, &base, queries, &resources, app).map(Some)
}
