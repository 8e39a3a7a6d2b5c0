//! The training loop: epochs of batches, validation, early stopping, and resuming from a
//! checkpoint.

use std::path::Path;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Record, Source, TrainError, ValidationPoint, store::best_of};
use agent_dataset::LabelledQuery;
use agent_index::IndexedBase;

/// A training task with settings `S`.
pub struct Task<'a, S> {
    /// Knowledge base with its indexes.
    pub base: &'a IndexedBase,
    /// Source of the model, for the record.
    pub source: &'a Source,
    /// Training queries.
    pub train: &'a [LabelledQuery],
    /// Validation queries.
    pub val: &'a [LabelledQuery],
    /// Settings of training.
    pub settings: &'a S,
    /// Directory of the model.
    pub dir: &'a Path,
    /// Directory of the checkpoint, written when training is stopped.
    pub checkpoint: &'a Path,
    /// Whether to resume from the checkpoint.
    pub resume: bool,
}

/// Record of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointInfo<S> {
    pub(super) settings: S,
    pub(super) position: Position,
    /// Number of steps of Adam.
    pub(super) steps: i32,
}

impl<S: Clone + PartialEq + Serialize + DeserializeOwned> Task<'_, S> {
    /// Returns the error of an unusable checkpoint.
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

    /// Removes the checkpoint, if it exists.
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

/// Position within training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    /// Number of complete epochs.
    pub(super) epoch: usize,
    /// Number of finished batches of the current epoch.
    pub(super) batch: usize,
    /// Sum of the losses of these batches.
    pub(super) loss: f64,
}

/// Progress of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Preparation before the first batch.
    Preparing {
        /// Part that is being prepared.
        stage: &'static str,
        /// Finished units.
        done: usize,
        /// Total number of units.
        total: usize,
    },
    /// Training on batches.
    Learning {
        /// Finished batches of all epochs.
        done: usize,
        /// Total number of batches of all epochs.
        total: usize,
        /// Mean loss of the current epoch's batches.
        loss: f64,
    },
    /// Validation before training or after an epoch, with the maximum number of epochs.
    Validated(ValidationPoint, usize),
    /// Completion and writing of the model.
    Completing,
}

/// Limits of training.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Maximum number of epochs.
    pub(super) epochs: usize,
    /// Maximum number of epochs without improvement.
    pub(super) patience: usize,
    /// Number of batches per epoch.
    pub(super) batches: usize,
}

/// A model in training.
pub(super) trait Learner {
    /// Prepares an epoch; called before its first batch, and again if training resumes there.
    fn begin(&mut self, epoch: usize) -> Result<(), TrainError>;

    /// Updates the weights by a batch; returns its loss.
    fn step(&mut self, epoch: usize, batch: usize) -> Result<f64, TrainError>;

    /// Returns the mean reciprocal rank of validation queries with the current weights.
    fn validate(&mut self) -> Result<f64, TrainError>;

    /// Saves the current weights as the best so far.
    fn keep(&mut self);
}

/// Validates, adds the point to the curve, and saves the weights if they are the best so far.
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

/// Calls `write` if training was stopped, and returns `result`.
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

/// Trains until all epochs are finished or validation stops improving.
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
