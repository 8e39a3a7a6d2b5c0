//! What is needed to go on with training that was stopped, in files. Must not know what is learnt.

use safetensors::Dtype;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Look, Record, TrainError,
    epochs::{Position, Stopped, Task},
};
use agent_index::{IndexError, arrays::Arrays};
use agent_kb::NodeId;

/// The file of arrays.
const STATE: &str = "state";
/// Those of the numbers: as they are, at the best look, and what Adam remembers.
const NUMBERS: [&str; 4] = ["table", "best", "mean", "square"];

/// What was read.
pub(super) struct Kept {
    pub(super) position: Position,
    /// Steps of Adam.
    pub(super) steps: i32,
    pub(super) curve: Vec<Look>,
    /// Numbers, the same at the best look, means and mean squares of gradients; all of one length.
    pub(super) numbers: [Vec<f32>; 4],
    /// For each training query.
    pub(super) negatives: Vec<Vec<NodeId>>,
}

/// Writes the checkpoint of a task, replacing one that is there in one step.
pub(super) fn write<S: Clone + PartialEq + Serialize + DeserializeOwned>(
    task: &Task<'_, S>,
    system: &str,
    (position, steps): (&Position, i32),
    curve: &[Look],
    numbers: [&[f32]; 4],
    negatives: &[Vec<NodeId>],
) -> Result<(), TrainError> {
    let (settings, position) = (task.settings.clone(), position.clone());
    let stopped = Stopped { settings, position, steps };
    let record = Record::new(system, task.source, stopped, curve.to_vec());
    let mut bounds = vec![0u64];
    bounds.extend(negatives.iter().scan(0, |end, nodes| {
        *end += nodes.len() as u64;
        Some(*end)
    }));
    let negatives = negatives.concat();
    record.save(task.checkpoint, &[STATE], |staging| {
        let numbers = NUMBERS.into_iter().zip(numbers);
        let numbers = numbers.map(|(name, of)| (name, Dtype::F32, bytemuck::cast_slice(of)));
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
/// [`TrainError::NoCheckpoint`]; that it cannot be read.
pub(super) fn read<S: Clone + PartialEq + Serialize + DeserializeOwned>(
    task: &Task<'_, S>,
    system: &str,
) -> Result<Kept, TrainError> {
    let record = task.stopped(system)?;
    let Stopped { position, steps, .. } = record.model;
    let arrays = Arrays::open(&task.checkpoint.join(STATE))?;
    let of = |name| Ok::<_, IndexError>(arrays.get::<f32>(name)?.as_slice().to_vec());
    let [first, best, mean, square] = NUMBERS;
    let numbers = [of(first)?, of(best)?, of(mean)?, of(square)?];
    let (bounds, negatives) = (arrays.get::<u64>("bounds")?, arrays.get::<u32>("negatives")?);
    let n = task.train.len();
    if numbers.iter().any(|of| of.len() != numbers[0].len()) || bounds.as_slice().len() != n + 1 {
        return Err(task.no_checkpoint("it is of another version"));
    }
    let negatives = (0..n).map(|at| negatives.part(&bounds, at).to_vec()).collect();
    Ok(Kept { position, steps, curve: record.curve, numbers, negatives })
}
