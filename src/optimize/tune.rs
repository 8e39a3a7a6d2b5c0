//! The tuner: optimizes a program's declared parameters without a language model.
//!
//! The tuner is a coordinate search in two passes: it tries a few values within the bounds of each
//! parameter in turn and keeps the best. A new value must gain at least 0.5 in summed reciprocal
//! rank, so that parameters keep their declared values unless the training queries clearly favour
//! others. A program that asks a model is tuned with the cached replies of its first trial. Takes
//! O(parameters x values x queries) program runs. A new value of one parameter leaves most tool
//! calls unchanged, so that the cache answers them. Searches that move all parameters at once gave
//! worse results (`docs/optimizer.md`).

use crate::{
    Result,
    trial::{Pool, Trials, program_failed, reciprocal_ranks, sum},
};
use agent_infer::ParamValues;
use agent_sandbox::{Param, program::Program};

/// Number of passes of the search over all parameters.
const PASSES: usize = 2;
/// Minimum gain in summed reciprocal rank for which a parameter gets a new value.
const MIN_GAIN: f64 = 0.5;
/// Factor by which the value of an integer parameter is multiplied and divided.
const COUNT_FACTOR: f64 = 3.0;

/// Returns the values to try for a parameter whose value is `value`, ascending. The values lie
/// below and above `value` by a part of the parameter's range or by a factor. For an integer, tries
/// only about a third and three times the value: integers are arguments of tool calls, which miss
/// the cache when they change.
fn neighbors(param: &Param, value: f64) -> Vec<f64> {
    let width = param.max - param.min;
    let values = match param.integer {
        true => vec![value / COUNT_FACTOR, (value * COUNT_FACTOR).max(value + 1.0)],
        false => vec![value - 0.15 * width, value * 0.5, value * 1.6, value + 0.2 * width],
    };
    let mut values: Vec<f64> = values
        .into_iter()
        .map(|value| if param.integer { value.round() } else { (value * 100.0).round() / 100.0 })
        .map(|value| value.clamp(param.min, param.max))
        .filter(|&other| other != value)
        .collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Tunes the parameters of a program on queries of a pool, given as positions, beginning with the
/// values in `start`. Returns the tuned parameters that differ from the declared values.
///
/// # Errors
/// If the program does not run, a search fails or the run is stopped.
pub fn tune(
    trials: &Trials<'_>,
    program: &Program,
    start: &ParamValues,
    pool: &Pool,
    queries: &[usize],
) -> Result<ParamValues> {
    let compiled = trials.compile(program)?;
    let declared = trials.runtime.declared_params(&compiled);
    let declared = declared.map_err(|failure| program_failed(program, failure))?;
    // Summed reciprocal rank of each tried set of parameters, so that no set runs twice.
    let mut known: Vec<(ParamValues, f64)> = Vec::new();
    let mut worth = |params: &ParamValues| -> Result<f64> {
        if let Some((_, worth)) = known.iter().find(|(known, _)| known == params) {
            return Ok(*worth);
        }
        let (offline, program) = (&trials.offline, (program, &compiled));
        let ranked = trials.rankings_on(offline, program, params, pool, queries)?;
        let worth = sum(&reciprocal_ranks(offline, &ranked, pool, queries));
        known.push((params.clone(), worth));
        Ok(worth)
    };
    let (mut best, mut best_worth) = (start.clone(), worth(start)?);
    for _ in 0..PASSES {
        let at_start = best.clone();
        for param in declared.iter().filter(|param| param.min < param.max) {
            let value = best.get(&param.name).copied().unwrap_or(param.value);
            for other in neighbors(param, value) {
                let moved = with_value(&best, param, other);
                let moved_worth = worth(&moved)?;
                if moved_worth - best_worth >= MIN_GAIN {
                    (best, best_worth) = (moved, moved_worth);
                }
            }
        }
        if best == at_start {
            break;
        }
    }
    Ok(best)
}

/// Returns `params` with the value `value` for `param`. If `value` is the declared value, removes
/// the parameter instead, because declared values are not stored.
fn with_value(params: &ParamValues, param: &Param, value: f64) -> ParamValues {
    let mut moved = params.clone();
    match value == param.value {
        true => moved.remove(&param.name),
        false => moved.insert(param.name.clone(), value),
    };
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tried_values_stay_in_bounds_and_differ_from_the_present_one() {
        let param = |integer| Param { name: "k".into(), value: 1.0, min: 0.0, max: 4.0, integer };
        assert_eq!(neighbors(&param(false), 1.0), [0.4, 0.5, 1.6, 1.8]);
        assert_eq!(neighbors(&param(false), 0.0), [0.8]);
        assert_eq!(neighbors(&param(true), 4.0), [1.0]);
        assert_eq!(neighbors(&param(true), 1.0), [0.0, 3.0]);
        assert_eq!(neighbors(&param(true), 0.0), [1.0]);
    }
}
