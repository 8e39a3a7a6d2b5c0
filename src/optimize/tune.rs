//! The tuner: moves a program's declared numbers without any language model.
//!
//! Coordinate search: each number in turn is tried at a few values inside its bounds, the best is
//! kept, twice over. A move must gain at least as much as getting half a query right, so that
//! numbers stay where the author put them unless the training queries speak clearly.
//! A program that asks a model is tuned without it: what it asked with its first numbers is known.
//! O(numbers x values x queries) program calls, nearly all of whose tool calls are answered from
//! the cache.

use crate::{
    infer::ParamValues,
    optimize::{
        OptimizeError,
        trial::{Pool, Trials, mean, program_failed, rankings, reciprocal_ranks},
    },
    program::Program,
    sandbox::Param,
};

/// Passes over all numbers.
const PASSES: usize = 2;
/// Gain in the sum of reciprocal ranks below which a move is not made.
const MIN_GAIN: f64 = 0.5;

/// Values to try for a number that stands at `value`: some of its range up and down, ascending.
fn neighbors(param: &Param, value: f64) -> Vec<f64> {
    let width = param.max - param.min;
    let mut values: Vec<f64> =
        [value - 0.15 * width, value * 0.5, value * 1.6, value + 0.2 * width]
            .into_iter()
            .map(
                |value| if param.integer { value.round() } else { (value * 100.0).round() / 100.0 },
            )
            .map(|value| value.clamp(param.min, param.max))
            .filter(|&other| other != value)
            .collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Numbers for a program that answer the queries of a pool best.
///
/// # Errors
/// When the program does not run or the run is to stop.
pub fn tune(
    trials: &Trials<'_>,
    program: &Program,
    start: &ParamValues,
    pool: &Pool,
    queries: &[usize],
) -> Result<ParamValues, OptimizeError> {
    let compiled = trials.compile(program)?;
    let worth = |params: &ParamValues| -> Result<f64, OptimizeError> {
        let ranked = rankings(&trials.offline, trials.stop, &compiled, params, pool, queries)?;
        Ok(mean(&reciprocal_ranks(&trials.offline, &ranked, pool, queries)))
    };
    let declared = trials
        .runtime
        .declared_params(&compiled)
        .map_err(|failure| program_failed(program, failure))?;
    let (mut best, mut best_worth) = (start.clone(), worth(start)?);
    for _ in 0..PASSES {
        let at_start = best.clone();
        for param in declared.iter().filter(|param| param.min < param.max) {
            let value = best.get(&param.name).copied().unwrap_or(param.value);
            for other in neighbors(param, value) {
                let mut moved = best.clone();
                moved.insert(param.name.clone(), other);
                let moved_worth = worth(&moved)?;
                if (moved_worth - best_worth) * queries.len() as f64 >= MIN_GAIN {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tried_values_stay_in_bounds_and_differ_from_the_present_one() {
        let param = |integer| Param { name: "k".into(), value: 1.0, min: 0.0, max: 4.0, integer };
        assert_eq!(neighbors(&param(false), 1.0), [0.4, 0.5, 1.6, 1.8]);
        assert_eq!(neighbors(&param(false), 0.0), [0.8]);
        assert_eq!(neighbors(&param(true), 4.0), [2.0, 3.0]);
    }
}
