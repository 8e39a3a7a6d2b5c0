//! Operations that train a retriever on labelled queries and store it as a model in the home
//! directory. Does not depend on how weights are learned.

pub mod dense;
pub mod graph;
pub mod mfar;

use std::{
    fmt,
    path::PathBuf,
    str::FromStr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::anyhow;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{App, Explain, Plan, Result, dataset, named};
use agent_dataset::{LabelledQuery, Split, load_split};
use agent_ground::locks::locked;
use agent_index::IndexedBase;
use agent_train::{Progress, Record, Source, Task, TrainError, ValidationPoint};

/// Minimum time between two notices of loss and speed during training.
const BETWEEN_LOSSES: Duration = Duration::from_secs(30);
/// Stages of training in epochs, in the order in which they run, each with its approximate share of
/// the total time.
const EPOCHS: Plan = &[("preparing", 1.0), ("learning", 10.0), ("completing", 1.0)];

/// The dataset to train a model on, and the name of the model.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct ModelArgs {
    /// Installed dataset, directory to import, or built-in sample
    #[arg(long, value_name = "N")]
    pub dataset: String,
    /// Store the model under this name [default: KIND-DATASET]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Replace an existing model of this name
    #[arg(long)]
    #[serde(default)]
    pub force: bool,
}

/// A learning rate, from 1e-9 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, ToSchema)]
#[serde(try_from = "f64")]
#[schema(minimum = 1e-9, maximum = 1.0)]
pub struct Rate(f64);

impl TryFrom<f64> for Rate {
    type Error = String;

    fn try_from(rate: f64) -> Result<Rate, String> {
        let rate = Some(rate).filter(|rate| (1e-9..=1.0).contains(rate));
        rate.map(Rate).ok_or_else(|| "give a number from 1e-9 to 1".to_owned())
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        text.parse().unwrap_or(f64::NAN).try_into()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// A model that was trained and stored.
#[derive(Debug, Serialize)]
pub struct Trained<M> {
    /// Name of the model in the home directory.
    pub name: String,
    /// Directory that holds the model's files; over a network, its path below the home directory.
    pub directory: String,
    /// Time that training took, in seconds.
    pub seconds: f64,
    /// Record of the training.
    #[serde(flatten)]
    pub record: Record<M>,
}

/// A training in progress: its base and queries, and the directory of the model.
struct Training {
    name: String,
    dir: PathBuf,
    checkpoint: PathBuf,
    base: Arc<IndexedBase>,
    train: Vec<LabelledQuery>,
    val: Vec<LabelledQuery>,
    source: Source,
    began: Instant,
}

impl ModelArgs {
    /// Opens the base with its training and validation queries. The default name of the model is
    /// `kind`, a hyphen and the name of the base. Fails if a model of this name exists, unless
    /// `force` is set.
    fn open(&self, kind: &str, app: &App) -> Result<Training> {
        let dataset = dataset::find(&self.dataset, app)?;
        let known = &dataset.base.name;
        let name = self.name.clone().unwrap_or_else(|| format!("{kind}-{known}"));
        let dir = named::new_model_dir(&name, &app.home)?;
        if dir.exists() && !self.force {
            return Err(anyhow!("model {name:?} already exists"))
                .hint("replace it with --force, or choose another --name");
        }
        let checkpoint = dir.with_file_name(format!(".{name}.checkpoint"));
        let base = dataset::open(&dataset, app)?;
        let began = Instant::now();
        let train = load_split(&dataset.base, &Split::Train)?;
        let val = load_split(&dataset.base, &Split::Val)?;
        let source = Source::new(known, base.kb.fingerprint(), &train, &val);
        Ok(Training { name, dir, checkpoint, base, train, val, source, began })
    }
}

impl Training {
    /// Calls `learn`, which trains in epochs, with the task and a function that reports progress.
    /// With `resume`, training continues from the checkpoint. If training was stopped and there is
    /// a checkpoint, the error has a hint on how to resume.
    fn in_epochs<S, M, F>(
        self,
        settings: &S,
        resume: bool,
        app: &App,
        learn: F,
    ) -> Result<Trained<M>>
    where
        F: FnOnce(&Task<'_, S>, &(dyn Fn(Progress) + Sync)) -> Result<Record<M>, TrainError>,
    {
        let Self { dir, checkpoint, base, train, val, source, .. } = &self;
        let task = Task { base, source, train, val, settings, dir, checkpoint, resume };
        let progress = app.watch.progress_of("training", EPOCHS);
        let noticed = Mutex::new((Instant::now(), 0));
        let record = learn(&task, &|at| match at {
            Progress::Preparing { done, total, .. } => {
                progress.at("preparing", done as u64, total as u64);
            }
            Progress::Learning { done, total, loss } => {
                progress.at("learning", done as u64, total as u64);
                let mut noticed = locked(&noticed);
                let (since, before) = *noticed;
                let seconds = since.elapsed();
                if seconds >= BETWEEN_LOSSES {
                    *noticed = (Instant::now(), done);
                    let rate = done.saturating_sub(before) as f64 / seconds.as_secs_f64();
                    let line = format!("step {done} of {total}: loss {loss:.4}, {rate:.2} steps/s");
                    app.watch.notice(&line);
                }
            }
            Progress::Completing => progress.at("completing", 0, 1),
            Progress::Validated(look, of) => app.watch.notice(&epoch_line(&look, of)),
        });
        match record {
            Err(error @ TrainError::Stopped) if self.checkpoint.exists() => {
                Err(error).hint("continue with the same options and --resume")
            }
            record => Ok(self.trained(record?, app)),
        }
    }

    fn trained<M>(self, record: Record<M>, app: &App) -> Trained<M> {
        let (name, directory) = (self.name, app.shown_path(&self.dir).display().to_string());
        Trained { name, directory, seconds: self.began.elapsed().as_secs_f64(), record }
    }
}

/// Formats the loss and validation result of an epoch on one line; `of` is the number of epochs.
pub fn epoch_line(look: &ValidationPoint, of: usize) -> String {
    let ValidationPoint { step, loss, mrr } = look;
    format!("epoch {step} of {of}: loss {loss:.4}, validation mrr {:.1} %", 100.0 * mrr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_above_0_and_at_most_1_wherever_they_come_from() {
        assert_eq!(("1".parse(), "1e-3".parse()), (Ok(Rate(1.0)), Ok(Rate(1e-3))));
        for wrong in ["0", "1.1", "NaN", "x"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
            assert!(serde_json::from_str::<Rate>(wrong).is_err(), "{wrong}");
        }
    }
}
