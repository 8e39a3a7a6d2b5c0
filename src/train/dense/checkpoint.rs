//! Writes and reads checkpoints, from which stopped training of a dual encoder resumes.

use safetensors::Dtype;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Record, Result,
    adam::RowAdam,
    epochs::{CheckpointInfo, State, Task},
};
use agent_index::{IndexError, arrays::Arrays};
use agent_kb::NodeId;

/// Name of a checkpoint's file with weights, state of the optimizer and negatives.
const STATE: &str = "state";
/// Names of the arrays: current weights, best weights, and Adam's running means of gradients and of
/// squared gradients.
const NUMBERS: [&str; 4] = ["table", "best", "mean", "square"];

/// Weights in training, with the state of the optimizer and the negatives.
pub(super) struct Weights<T> {
    /// Current weights.
    pub(super) numbers: T,
    pub(super) adam: RowAdam,
    /// Weights at the best validation so far.
    pub(super) best: Vec<f32>,
    /// For each labelled training query, the non-answers that negatives are drawn from.
    pub(super) negatives: Vec<Vec<NodeId>>,
}

impl<T: AsRef<[f32]>> Weights<T> {
    /// Creates the weights before the first step.
    pub(super) fn new(numbers: T, rate: f64, negatives: Vec<Vec<NodeId>>) -> Self {
        let best = numbers.as_ref().to_vec();
        Self { adam: RowAdam::new(best.len(), rate), numbers, best, negatives }
    }

    /// Keeps the current weights as the best.
    pub(super) fn keep(&mut self) {
        self.best.copy_from_slice(self.numbers.as_ref());
    }
}

/// Writes the checkpoint of a task; replaces an existing checkpoint atomically.
pub(super) fn write<S: Clone + PartialEq + Serialize + DeserializeOwned, T: AsRef<[f32]>>(
    task: &Task<'_, S>,
    system: &str,
    state: &State<Weights<T>>,
) -> Result<()> {
    let Weights { numbers, adam, best, negatives } = &state.weights;
    let numbers = [numbers.as_ref(), best, &adam.mean, &adam.square];
    let (settings, position) = (task.settings.clone(), state.position.clone());
    let info = CheckpointInfo { settings, position, steps: adam.steps };
    let record = Record::new(system, task.source, info, state.curve.clone());
    let mut bounds = vec![0u64];
    bounds.extend(negatives.iter().scan(0, |end, nodes| {
        *end += nodes.len() as u64;
        Some(*end)
    }));
    let negatives = negatives.concat();
    record.save(task.checkpoint, |staging| {
        let numbers = NUMBERS.into_iter().zip(numbers);
        let numbers =
            numbers.map(|(name, values)| (name, Dtype::F32, bytemuck::cast_slice(values)));
        let mut arrays: Vec<(&str, Dtype, &[u8])> = numbers.collect();
        arrays.push(("bounds", Dtype::U64, bytemuck::cast_slice(&bounds)));
        arrays.push(("negatives", Dtype::U32, bytemuck::cast_slice(&negatives)));
        Arrays::write(&staging.join(STATE), &arrays)?;
        Ok(vec![STATE.to_owned()])
    })?;
    Ok(())
}

/// Reads the checkpoint of a task; `rate` is the step size of the optimizer; `fit` converts the
/// stored numbers to the current weights, or returns `None` if their number is wrong.
///
/// # Errors
/// The errors of [`Task::read_checkpoint`]; [`TrainError::Index`] if the arrays cannot be read;
/// [`TrainError::NoCheckpoint`] if their lengths do not match.
pub(super) fn read<S: Clone + PartialEq + Serialize + DeserializeOwned, T>(
    task: &Task<'_, S>,
    system: &str,
    rate: f64,
    fit: impl FnOnce(Vec<f32>) -> Option<T>,
) -> Result<State<Weights<T>>> {
    let record = task.read_checkpoint(system)?;
    let CheckpointInfo { position, steps, .. } = record.model;
    let arrays = Arrays::open(&task.checkpoint.join(STATE))?;
    let array = |name| Ok::<_, IndexError>(arrays.get::<f32>(name)?.as_slice().to_vec());
    let [first, best, mean, square] = NUMBERS;
    let (numbers, best) = (array(first)?, array(best)?);
    let (mean, square) = (array(mean)?, array(square)?);
    let (bounds, negatives) = (arrays.get::<u64>("bounds")?, arrays.get::<u32>("negatives")?);
    let n = task.train.len();
    let fits = [best.len(), mean.len(), square.len()] == [numbers.len(); 3]
        && bounds.as_slice().len() == n + 1;
    let Some(numbers) = fit(numbers).filter(|_| fits) else {
        return Err(task.no_checkpoint("it was written by another version"));
    };
    let negatives = (0..n).map(|query| negatives.part(&bounds, query).to_vec()).collect();
    let adam = RowAdam { rate, steps, mean, square };
    let weights = Weights { numbers, adam, best, negatives };
    Ok(State { position, curve: record.curve, weights })
}
