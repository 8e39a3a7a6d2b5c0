//! Dry runs: forecasts the work and the cost of a run. Leaves the home directory unchanged: imports
//! go to a temporary home directory. Does not depend on how a run learns.

use std::sync::Arc;

use anyhow::Context as _;
use serde::Serialize;

use super::{
    Request,
    data::{no_questions, note_own_questions, queries},
    model::{Described, Start, new_actors, unasked},
    run::{STEPS, config, options},
};
use crate::{App, Result, Unwatched, dataset, synthesize};
use agent_dataset::{DatasetError, Home, ResolvedDataset, sample::SampleKind};
use agent_kb::Kb;
use agent_optimize::{Estimate, estimate};
use agent_sandbox::SandboxOptions;

/// Forecast of the work and the cost of a run.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Forecast {
    /// The run would make questions first, without a language model, and then learn from them.
    Questions {
        /// The dataset, as the request names it.
        dataset: String,
        /// Number of questions that the run would make.
        synthetic_questions: usize,
    },
    /// The run would learn from the existing questions.
    Run {
        /// The dataset, as the request names it.
        dataset: String,
        /// Number of training queries.
        n_train: usize,
        /// Number of validation queries.
        n_validation: usize,
        /// Number of steps in which the search actor would improve programs.
        steps: usize,
        /// Expected use and cost of the language model; zero if the llm actor does not take part.
        llm: Estimate,
    },
}

/// Forecasts the run that a request would begin.
///
/// # Errors
/// If the run could not begin.
pub(super) fn forecast(request: &Request, app: &App) -> Result<Forecast> {
    let temporary = tempfile::tempdir().context("cannot create a temporary directory")?;
    let elsewhere = App {
        stop: app.stop.clone(),
        ..App::new(Home::new(temporary.path()), Arc::new(Unwatched))
    };
    let app_of_base = if is_installed(&request.dataset, app) { app } else { &elsewhere };
    let base = dataset::find(&request.dataset, app_of_base)?.base;
    let dataset = request.dataset.clone();
    if base.record.n_queries == 0 {
        return match request.synthesize {
            true => Ok(Forecast::Questions { dataset, synthetic_questions: synthesize::QUERIES }),
            false => no_questions(&base.name, app),
        };
    }
    note_own_questions(&base.name, request, app);
    let (train, validation) = queries(&base)?;
    let actors = new_actors(request, app)?;
    let llm = match actors.llm {
        true => {
            let model = Some(Described::default());
            let config = config(request, &Start { actors, model }, &base.name, &[]);
            let (programs, sandbox) = (Vec::new(), SandboxOptions::default());
            let options = options(request, &base.name, &config, programs, sandbox)?;
            let assistant = unasked(request, app)?;
            estimate(&Kb::open(&base.kb_dir())?, &assistant, &train, &validation, &options)
        }
        false => Estimate::nothing(),
    };
    let (n_train, n_validation) = (train.len(), validation.len());
    let steps = request.steps.map_or(STEPS, |steps| steps.get());
    Ok(Forecast::Run { dataset, n_train, n_validation, steps, llm })
}

/// Whether the dataset is installed, so that finding it neither imports nor generates anything.
fn is_installed(dataset: &str, app: &App) -> bool {
    app.network.is_some()
        || match app.home.resolve(dataset) {
            Ok(ResolvedDataset::NewDirectory { .. }) => false,
            Err(DatasetError::UnknownName { .. }) => SampleKind::from_name(dataset).is_none(),
            _ => true,
        }
}
