//! The loop of training in batches: epochs, looks at validation queries, when to end, and where an
//! interruption left it. Must not know what is learnt.

use std::path::Path;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Look, Record, Source, TrainError, store::best_of};
use agent_dataset::LabelledQuery;
use agent_index::IndexedBase;

/// What is learnt, from what, and where it goes; `S` says how.
pub struct Task<'a, S> {
    /// The base with its indexes.
    pub base: &'a IndexedBase,
    /// What it is learnt from, for the record.
    pub source: &'a Source,
    /// Training queries.
    pub train: &'a [LabelledQuery],
    /// Validation queries.
    pub val: &'a [LabelledQuery],
    /// How it is learnt.
    pub settings: &'a S,
    /// Where the model goes.
    pub dir: &'a Path,
    /// Where what is needed to go on goes, if it is stopped.
    pub checkpoint: &'a Path,
    /// Whether it goes on from there.
    pub resume: bool,
}

/// What is in the record of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stopped<S> {
    pub(super) settings: S,
    pub(super) position: Position,
    /// Steps of Adam.
    pub(super) steps: i32,
}

impl<S: Clone + PartialEq + Serialize + DeserializeOwned> Task<'_, S> {
    /// The error that there is nothing to go on from.
    pub(super) fn no_checkpoint(&self, why: &'static str) -> TrainError {
        TrainError::NoCheckpoint { path: self.checkpoint.display().to_string(), why }
    }

    /// The record of the checkpoint, if it is one of this training.
    ///
    /// # Errors
    /// [`TrainError::NoCheckpoint`]; that it cannot be read.
    pub(super) fn stopped(&self, system: &str) -> Result<Record<Stopped<S>>, TrainError> {
        if !self.checkpoint.exists() {
            return Err(self.no_checkpoint("it is not there"));
        }
        let record = Record::<Stopped<S>>::read(self.checkpoint, system)?;
        if record.source != *self.source {
            return Err(self.no_checkpoint("the dataset or its queries changed"));
        }
        if record.model.settings != *self.settings {
            return Err(self.no_checkpoint("other options were given then"));
        }
        Ok(record)
    }

    /// Removes the checkpoint of a training that is complete.
    ///
    /// # Errors
    /// [`TrainError::Io`].
    pub(super) fn finished(&self) -> Result<(), TrainError> {
        match std::fs::remove_dir_all(self.checkpoint) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(TrainError::io(self.checkpoint, error))
            }
            _ => Ok(()),
        }
    }
}

/// Where training stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    /// Epochs that are complete.
    pub(super) epoch: usize,
    /// Batches of the next one that are done, and their summed loss.
    pub(super) batch: usize,
    pub(super) loss: f64,
}

/// How far training in batches is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// What has to be there first: so much of it is done.
    Preparing {
        /// What.
        what: &'static str,
        /// Units done.
        done: usize,
        /// Units in all.
        of: usize,
    },
    /// Batches of all epochs.
    Learning {
        /// Batches done.
        done: usize,
        /// Batches in all, unless it ends before.
        of: usize,
        /// Mean loss of the batches of the epoch at hand.
        loss: f64,
    },
    /// A look at validation queries after an epoch, of so many.
    Looked(Look, usize),
    /// The model is completed and written.
    Completing,
}

/// When training ends.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Epochs at most.
    pub(super) epochs: usize,
    /// Epochs without a better look after which it ends.
    pub(super) patience: usize,
    /// Batches of an epoch.
    pub(super) batches: usize,
}

/// What learns.
pub(super) trait Learner {
    /// Before the first batch of an epoch; again if it was interrupted there.
    fn begin(&mut self, epoch: usize) -> Result<(), TrainError>;

    /// Learns from a batch; its loss.
    fn step(&mut self, epoch: usize, batch: usize) -> Result<f64, TrainError>;

    /// Mean reciprocal rank of validation queries with the present weights.
    fn validate(&mut self) -> Result<f64, TrainError>;

    /// Keeps the present weights as the best so far.
    fn keep(&mut self);
}

/// Takes a look and keeps the weights if it is better than all before.
pub(super) fn look(
    learner: &mut dyn Learner,
    curve: &mut Vec<Look>,
    step: usize,
    loss: f64,
) -> Result<Look, TrainError> {
    let look = Look { step, loss, mrr: learner.validate()? };
    if best_of(curve).is_none_or(|best| look.mrr > best.mrr) {
        learner.keep();
    }
    curve.push(look);
    Ok(look)
}

/// What learning gave; where it was stopped, a checkpoint is left first.
///
/// # Errors
/// Those of learning, and that the checkpoint cannot be written.
pub(super) fn or_left(
    learnt: Result<(), TrainError>,
    leave: impl FnOnce() -> Result<(), TrainError>,
) -> Result<(), TrainError> {
    if matches!(learnt, Err(TrainError::Stopped)) {
        leave()?;
    }
    learnt
}

/// Learns until all epochs are over or validation queries are ranked no better.
///
/// # Errors
/// [`TrainError::Stopped`] from `go_on`, with all that is needed to go on in `position` and the
/// learner.
pub(super) fn learn(
    learner: &mut dyn Learner,
    position: &mut Position,
    curve: &mut Vec<Look>,
    limits: Limits,
    go_on: &dyn Fn() -> Result<(), TrainError>,
    report: &dyn Fn(Progress),
) -> Result<(), TrainError> {
    let Limits { epochs, patience, batches } = limits;
    while position.epoch < epochs {
        if position.batch == 0 {
            let best = best_of(curve).map_or(0, |look| look.step);
            if position.epoch >= best + patience {
                break;
            }
            go_on()?;
            learner.begin(position.epoch)?;
        }
        while position.batch < batches {
            go_on()?;
            position.loss += learner.step(position.epoch, position.batch)?;
            position.batch += 1;
            let done = position.epoch * batches + position.batch;
            let loss = position.loss / position.batch as f64;
            report(Progress::Learning { done, of: epochs * batches, loss });
        }
        let loss = position.loss / batches.max(1) as f64;
        *position = Position { epoch: position.epoch + 1, batch: 0, loss: 0.0 };
        report(Progress::Looked(look(learner, curve, position.epoch, loss)?, epochs));
    }
    Ok(())
}
