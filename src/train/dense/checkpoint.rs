//! Writes and reads checkpoints, from which stopped training of a dual encoder resumes.

use safetensors::Dtype;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Record, Result, ValidationPoint,
    epochs::{CheckpointInfo, Position, Task},
};
use agent_index::{IndexError, arrays::Arrays};
use agent_kb::NodeId;

/// Name of a checkpoint's file with weights, state of the optimizer and negatives.
const STATE: &str = "state";
/// Names of the arrays: current weights, best weights, and Adam's running means of gradients and of
/// squared gradients.
const NUMBERS: [&str; 4] = ["table", "best", "mean", "square"];

/// State of training that a checkpoint holds.
pub(super) struct CheckpointState {
    pub(super) position: Position,
    /// Number of steps of the optimizer Adam so far.
    pub(super) steps: i32,
    pub(super) curve: Vec<ValidationPoint>,
    /// Current weights, weights with the best validation, and running means of gradients and of
    /// squared gradients; all of equal length.
    pub(super) numbers: [Vec<f32>; 4],
    /// For each labelled training query, the non-answers that negatives are drawn from.
    pub(super) negatives: Vec<Vec<NodeId>>,
}

/// Writes the checkpoint of a task; replaces an existing checkpoint atomically. `steps` is the
/// number of steps of Adam, and `numbers` are as in [`CheckpointState`].
pub(super) fn write<S: Clone + PartialEq + Serialize + DeserializeOwned>(
    task: &Task<'_, S>,
    system: &str,
    (position, steps): (&Position, i32),
    curve: &[ValidationPoint],
    numbers: [&[f32]; 4],
    negatives: &[Vec<NodeId>],
) -> Result<()> {
    let (settings, position) = (task.settings.clone(), position.clone());
    let info = CheckpointInfo { settings, position, steps };
    let record = Record::new(system, task.source, info, curve.to_vec());
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

/// Reads the checkpoint of a task.
///
/// # Errors
/// The errors of [`Task::read_checkpoint`]; [`TrainError::Index`] if the arrays cannot be read;
/// [`TrainError::NoCheckpoint`] if their lengths do not match.
pub(super) fn read<S: Clone + PartialEq + Serialize + DeserializeOwned>(
    task: &Task<'_, S>,
    system: &str,
) -> Result<CheckpointState> {
    let record = task.read_checkpoint(system)?;
    let CheckpointInfo { position, steps, .. } = record.model;
    let arrays = Arrays::open(&task.checkpoint.join(STATE))?;
    let array = |name| Ok::<_, IndexError>(arrays.get::<f32>(name)?.as_slice().to_vec());
    let [first, best, mean, square] = NUMBERS;
    let numbers = [array(first)?, array(best)?, array(mean)?, array(square)?];
    let (bounds, negatives) = (arrays.get::<u64>("bounds")?, arrays.get::<u32>("negatives")?);
    let n = task.train.len();
    if numbers.iter().any(|array| array.len() != numbers[0].len())
        || bounds.as_slice().len() != n + 1
    {
        return Err(task.no_checkpoint("it was written by another version"));
    }
    let negatives = (0..n).map(|query| negatives.part(&bounds, query).to_vec()).collect();
    Ok(CheckpointState { position, steps, curve: record.curve, numbers, negatives })
}
