//! Checkpoints of stopped training on disk.

use safetensors::Dtype;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Record, TrainError, ValidationPoint,
    epochs::{CheckpointInfo, Position, Task},
};
use agent_index::{IndexError, arrays::Arrays};
use agent_kb::NodeId;

/// Name of the file with the arrays.
const STATE: &str = "state";
/// Names of the arrays: current numbers, best numbers, and the two moments of Adam.
const NUMBERS: [&str; 4] = ["table", "best", "mean", "square"];

/// State read from a checkpoint.
pub(super) struct CheckpointState {
    pub(super) position: Position,
    /// Number of Adam steps.
    pub(super) steps: i32,
    pub(super) curve: Vec<ValidationPoint>,
    /// Current numbers, numbers with the best validation, means and mean squares of gradients; all
    /// of equal length.
    pub(super) numbers: [Vec<f32>; 4],
    /// Negatives of each training query.
    pub(super) negatives: Vec<Vec<NodeId>>,
}

/// Writes the checkpoint of a task; replaces an existing checkpoint atomically.
pub(super) fn write<S: Clone + PartialEq + Serialize + DeserializeOwned>(
    task: &Task<'_, S>,
    system: &str,
    (position, steps): (&Position, i32),
    curve: &[ValidationPoint],
    numbers: [&[f32]; 4],
    negatives: &[Vec<NodeId>],
) -> Result<(), TrainError> {
    let (settings, position) = (task.settings.clone(), position.clone());
    let info = CheckpointInfo { settings, position, steps };
    let record = Record::new(system, task.source, info, curve.to_vec());
    let mut bounds = vec![0u64];
    bounds.extend(negatives.iter().scan(0, |end, nodes| {
        *end += nodes.len() as u64;
        Some(*end)
    }));
    let negatives = negatives.concat();
    record.save(task.checkpoint, &[STATE], |staging| {
        let numbers = NUMBERS.into_iter().zip(numbers);
        let numbers =
            numbers.map(|(name, values)| (name, Dtype::F32, bytemuck::cast_slice(values)));
        let mut arrays: Vec<(&str, Dtype, &[u8])> = numbers.collect();
        arrays.push(("bounds", Dtype::U64, bytemuck::cast_slice(&bounds)));
        arrays.push(("negatives", Dtype::U32, bytemuck::cast_slice(&negatives)));
        Ok(Arrays::write(&staging.join(STATE), &arrays)?)
    })?;
    Ok(())
}

/// Reads the checkpoint of a task.
///
/// # Errors
/// The errors of [`Task::read_checkpoint`]; [`TrainError::Index`] if the arrays cannot be read.
pub(super) fn read<S: Clone + PartialEq + Serialize + DeserializeOwned>(
    task: &Task<'_, S>,
    system: &str,
) -> Result<CheckpointState, TrainError> {
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
        return Err(task.no_checkpoint("it has another version"));
    }
    let negatives = (0..n).map(|query| negatives.part(&bounds, query).to_vec()).collect();
    Ok(CheckpointState { position, steps, curve: record.curve, numbers, negatives })
}
