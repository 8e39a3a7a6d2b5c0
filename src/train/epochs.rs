//! The training loop: epochs of batches, validation, early stopping, and resuming from a
//! checkpoint.

use std::path::Path;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Record, Result, Source, TrainError, ValidationPoint, Watch, store::best_of};
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

/// Description of a checkpoint: settings and progress of training.
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
    pub(super) fn read_checkpoint(&self, system: &str) -> Result<Record<CheckpointInfo<S>>> {
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
    pub(super) fn remove_checkpoint(&self) -> Result<()> {
        match std::fs::remove_dir_all(self.checkpoint) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(TrainError::io(self.checkpoint, error))
            }
            _ => Ok(()),
        }
    }
}

/// Position in training: complete epochs, and finished batches of the current epoch.
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
    /// Number of epochs without a better validation after which training ends.
    pub(super) patience: usize,
    /// Number of batches per epoch.
    pub(super) batches: usize,
}

/// The changing state of training, which a checkpoint stores; `W` are the weights in training, with
/// the state of the optimizer.
pub(super) struct State<W> {
    pub(super) position: Position,
    pub(super) curve: Vec<ValidationPoint>,
    pub(super) weights: W,
}

/// Training of one model by epochs, with its inputs, which do not change.
pub(super) trait Trainer {
    /// Weights in training, with the state of the optimizer.
    type Weights;

    /// Returns the limits at which training ends.
    fn limits(&self) -> Limits;

    /// Returns the progress reports and the stop flag of the caller.
    fn watch(&self) -> &Watch<'_, Progress>;

    /// Returns the weights before the first batch, and the loss of the first batch.
    fn begin(&self) -> Result<(Self::Weights, f64)>;

    /// Reads the state of training from the checkpoint.
    fn read(&self) -> Result<State<Self::Weights>>;

    /// Writes the state of training as a checkpoint.
    fn write(&self, state: &State<Self::Weights>) -> Result<()>;

    /// Prepares an epoch (from 0). Called before the first batch of the epoch, and again if
    /// training resumes at that batch.
    fn begin_epoch(&self, _weights: &mut Self::Weights, _epoch: usize) -> Result<()> {
        Ok(())
    }

    /// Updates the weights by one batch of an epoch; returns the loss of the batch.
    fn step(&self, weights: &mut Self::Weights, epoch: usize, batch: usize) -> Result<f64>;

    /// Returns the mean reciprocal rank of validation queries with the current weights.
    fn validate(&self, weights: &Self::Weights) -> Result<f64>;

    /// Saves the current weights as the best so far.
    fn keep(&self, weights: &mut Self::Weights);
}

/// Trains until all epochs are finished or validation stops improving, from the first batch or, if
/// `resume` is set, from the checkpoint. Returns the weights and the validation results.
///
/// # Errors
/// [`TrainError::Stopped`], once the checkpoint is written; errors of the trainer.
pub(super) fn learn<T: Trainer>(
    trainer: &T,
    resume: bool,
) -> Result<(T::Weights, Vec<ValidationPoint>)> {
    let mut state = match resume {
        true => trainer.read()?,
        false => {
            let (weights, loss) = trainer.begin()?;
            let (position, curve) = (Position::default(), Vec::new());
            let mut state = State { position, curve, weights };
            validate(trainer, &mut state, loss)?;
            state
        }
    };
    let result = run_epochs(trainer, &mut state);
    if matches!(result, Err(TrainError::Stopped)) {
        trainer.write(&state)?;
    }
    result?;
    (trainer.watch().report)(Progress::Completing);
    Ok((state.weights, state.curve))
}

/// Validates the current weights, adds the result to the curve, keeps the weights if they are the
/// best so far, and reports the result. `loss` is the loss that the added point states.
fn validate<T: Trainer>(trainer: &T, state: &mut State<T::Weights>, loss: f64) -> Result<()> {
    let step = state.position.epoch;
    let point = ValidationPoint { step, loss, mrr: trainer.validate(&state.weights)? };
    if best_of(&state.curve).is_none_or(|best| point.mrr > best.mrr) {
        trainer.keep(&mut state.weights);
    }
    state.curve.push(point);
    (trainer.watch().report)(Progress::Validated(point, trainer.limits().epochs));
    Ok(())
}

/// Trains from the position in `state`, which is updated after each batch.
fn run_epochs<T: Trainer>(trainer: &T, state: &mut State<T::Weights>) -> Result<()> {
    let (watch, Limits { epochs, patience, batches }) = (trainer.watch(), trainer.limits());
    while state.position.epoch < epochs {
        let epoch = state.position.epoch;
        if state.position.batch == 0 {
            let best = best_of(&state.curve).map_or(0, |point| point.step);
            if epoch >= best + patience {
                break;
            }
            watch.check_stop()?;
            trainer.begin_epoch(&mut state.weights, epoch)?;
        }
        while state.position.batch < batches {
            watch.check_stop()?;
            let position = &mut state.position;
            position.loss += trainer.step(&mut state.weights, epoch, position.batch)?;
            position.batch += 1;
            let (done, total) = (epoch * batches + position.batch, epochs * batches);
            let loss = position.loss / position.batch as f64;
            (watch.report)(Progress::Learning { done, total, loss });
        }
        let loss = state.position.loss / batches.max(1) as f64;
        state.position = Position { epoch: epoch + 1, batch: 0, loss: 0.0 };
        validate(trainer, state, loss)?;
    }
    Ok(())
}
