//! The training loop: epochs of batches, validation, early stopping, and resuming from a
//! checkpoint.

use std::path::Path;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Record, Source, TrainError, ValidationPoint, store::best_of};
use agent_dataset::LabelledQuery;
use agent_index::IndexedBase;

/// What to train a model on, with settings `S`, and where to write it.
pub struct Task<'a, S> {
    /// Knowledge base with its indexes.
    pub base: &'a IndexedBase,
    /// Names and digests of the dataset and queries, which the model's record states.
    pub source: &'a Source,
    /// Labelled queries that weights are trained on.
    pub train: &'a [LabelledQuery],
    /// Labelled queries that decide when training ends.
    pub val: &'a [LabelledQuery],
    /// Settings of training.
    pub settings: &'a S,
    /// Directory into which the trained model is written.
    pub dir: &'a Path,
    /// Directory of the checkpoint, which is written when the caller stops training.
    pub checkpoint: &'a Path,
    /// Whether to continue from the checkpoint instead of starting anew.
    pub resume: bool,
}

/// Description of a checkpoint: settings of training and how far it got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointInfo<S> {
    pub(super) settings: S,
    pub(super) position: Position,
    /// Number of steps of the optimizer Adam so far.
    pub(super) steps: i32,
}

impl<S: Clone + PartialEq + Serialize + DeserializeOwned> Task<'_, S> {
    /// Returns [`TrainError::NoCheckpoint`] for the checkpoint of this task.
    pub(super) fn no_checkpoint(&self, reason: &'static str) -> TrainError {
        TrainError::NoCheckpoint { path: self.checkpoint.display().to_string(), reason }
    }

    /// Reads the record of the checkpoint and checks that it belongs to this task.
    ///
    /// # Errors
    /// [`TrainError::NoCheckpoint`] if the checkpoint does not exist or belongs to another task;
    /// the errors of [`Record::read`].
    pub(super) fn read_checkpoint(
        &self,
        system: &str,
    ) -> Result<Record<CheckpointInfo<S>>, TrainError> {
        if !self.checkpoint.exists() {
            return Err(self.no_checkpoint("it does not exist"));
        }
        let record = Record::<CheckpointInfo<S>>::read(self.checkpoint, system)?;
        if record.source != *self.source {
            return Err(self.no_checkpoint("the dataset or its queries changed"));
        }
        if record.model.settings != *self.settings {
            return Err(self.no_checkpoint("it was made with other options"));
        }
        Ok(record)
    }

    /// Removes the checkpoint of this task, if it exists.
    ///
    /// # Errors
    /// [`TrainError::Io`] if it cannot be removed.
    pub(super) fn remove_checkpoint(&self) -> Result<(), TrainError> {
        match std::fs::remove_dir_all(self.checkpoint) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(TrainError::io(self.checkpoint, error))
            }
            _ => Ok(()),
        }
    }
}

/// How far training got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    /// Number of complete epochs.
    pub(super) epoch: usize,
    /// Number of finished batches of the current epoch.
    pub(super) batch: usize,
    /// Sum of the losses of the finished batches of the current epoch.
    pub(super) loss: f64,
}

/// Progress of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Preparation before the first batch.
    Preparing {
        /// What is being prepared, such as `word vectors`.
        stage: &'static str,
        /// Number of finished units of this stage, such as queries.
        done: usize,
        /// Total number of units of this stage.
        total: usize,
    },
    /// Training on the batches of an epoch.
    Learning {
        /// Number of finished batches of all epochs.
        done: usize,
        /// Total number of batches of all epochs.
        total: usize,
        /// Mean loss of the finished batches of the current epoch.
        loss: f64,
    },
    /// Validation before training or after an epoch: its result, and the maximum number of epochs.
    Validated(ValidationPoint, usize),
    /// The end of training: the model is completed and written.
    Completing,
}

/// Limits at which training ends.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Maximum number of epochs.
    pub(super) epochs: usize,
    /// Maximum number of epochs since the best validation; training then ends.
    pub(super) patience: usize,
    /// Number of batches per epoch.
    pub(super) batches: usize,
}

/// A model in training, which [`learn`] updates batch by batch.
pub(super) trait Learner {
    /// Prepares an epoch (from 0). Called before the first batch of the epoch, and again if
    /// training resumes at that batch.
    fn begin(&mut self, epoch: usize) -> Result<(), TrainError>;

    /// Updates the weights by one batch of an epoch; returns the loss of the batch.
    fn step(&mut self, epoch: usize, batch: usize) -> Result<f64, TrainError>;

    /// Returns the mean reciprocal rank of validation queries with the current weights.
    fn validate(&mut self) -> Result<f64, TrainError>;

    /// Saves the current weights as the best so far.
    fn keep(&mut self);
}

/// Validates the current weights, adds the result to `curve`, and lets the learner keep the weights
/// if they are the best so far. `step` is the number of finished epochs and `loss` the loss that
/// the added point states.
pub(super) fn validate(
    learner: &mut dyn Learner,
    curve: &mut Vec<ValidationPoint>,
    step: usize,
    loss: f64,
) -> Result<ValidationPoint, TrainError> {
    let point = ValidationPoint { step, loss, mrr: learner.validate()? };
    if best_of(curve).is_none_or(|best| point.mrr > best.mrr) {
        learner.keep();
    }
    curve.push(point);
    Ok(point)
}

/// Calls `write`, which writes a checkpoint, if `result` is [`TrainError::Stopped`]; returns
/// `result`.
///
/// # Errors
/// The error in `result`, and errors of `write`.
pub(super) fn checkpoint_if_stopped(
    result: Result<(), TrainError>,
    write: impl FnOnce() -> Result<(), TrainError>,
) -> Result<(), TrainError> {
    if matches!(result, Err(TrainError::Stopped)) {
        write()?;
    }
    result
}

/// Trains until all epochs are finished or validation stops improving, from `position`, which is
/// updated after each batch. Adds the validation after each epoch to `curve`.
///
/// # Errors
/// [`TrainError::Stopped`] from `check_stop`, after which `position` and the learner hold the state
/// to resume from; errors of the learner.
pub(super) fn learn(
    learner: &mut dyn Learner,
    position: &mut Position,
    curve: &mut Vec<ValidationPoint>,
    limits: Limits,
    check_stop: &dyn Fn() -> Result<(), TrainError>,
    report: &dyn Fn(Progress),
) -> Result<(), TrainError> {
    let Limits { epochs, patience, batches } = limits;
    while position.epoch < epochs {
        if position.batch == 0 {
            let best = best_of(curve).map_or(0, |point| point.step);
            if position.epoch >= best + patience {
                break;
            }
            check_stop()?;
            learner.begin(position.epoch)?;
        }
        while position.batch < batches {
            check_stop()?;
            position.loss += learner.step(position.epoch, position.batch)?;
            position.batch += 1;
            let done = position.epoch * batches + position.batch;
            let loss = position.loss / position.batch as f64;
            report(Progress::Learning { done, total: epochs * batches, loss });
        }
        let loss = position.loss / batches.max(1) as f64;
        *position = Position { epoch: position.epoch + 1, batch: 0, loss: 0.0 };
        report(Progress::Validated(validate(learner, curve, position.epoch, loss)?, epochs));
    }
    Ok(())
}
