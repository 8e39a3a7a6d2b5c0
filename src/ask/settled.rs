//! Runs the plans of a question's readings and chooses the answer.
//!
//! Does not depend on whether rules or a language model wrote the plans.

use crate::{
    AskError, AskReading,
    answer::{Answered, Outcome},
    plan::Plan,
    run,
};
use agent_kb::Kb;

/// Runs the plans of a question, one per reading, and returns the answer of reading number
/// `wanted`, from 1. If `wanted` is `None`, returns the first answer, provided that all answers are
/// the same. Plans that fail and plans that repeat a reading are skipped and not numbered.
///
/// # Errors
/// [`AskError::Ambiguous`] if the answers differ and `wanted` is `None`; [`AskError::NoReading`] if
/// there are fewer than `wanted` readings; the first error if all plans fail; [`AskError::NoTable`]
/// if there are no plans. An [`AskError::Llm`] is returned at once, without running the remaining
/// plans.
pub(crate) fn settled(
    kb: &Kb,
    plans: Vec<Result<Plan, AskError>>,
    wanted: Option<usize>,
    run: impl Fn(&Plan) -> Result<Answered, AskError>,
) -> Result<Answered, AskError> {
    // Keeps the table of one reading only, since tables may be large.
    let mut readings: Vec<(AskReading, Vec<String>)> = Vec::new();
    let (mut outcomes, mut kept, mut error) = (Vec::new(), None, None);
    for plan in plans {
        let ran = plan.and_then(|plan| Ok((run::sources(kb, &plan), run(&plan)?)));
        let (path, answered) = match ran {
            Ok(found) => found,
            Err(failed @ AskError::Llm(_)) => return Err(failed),
            Err(failed) => {
                error.get_or_insert(failed);
                continue;
            }
        };
        let told = answered.told.clone();
        let reading = (AskReading { told, path }, answered.sql.clone());
        if readings.contains(&reading) {
            continue;
        }
        readings.push(reading);
        let table = (answered.outcome == Outcome::Table).then(|| answered.result.clone());
        outcomes.push((answered.outcome.clone(), table));
        if readings.len() == wanted.unwrap_or(1) {
            kept = Some(answered);
        }
    }
    let known = readings.len();
    let same = outcomes.windows(2).all(|two| matches!(two, [one, other] if one == other));
    match (kept, wanted) {
        (Some(answered), Some(_)) => Ok(answered),
        (Some(mut answered), None) if same => {
            let told = format!("{known} readings of the question have this answer");
            answered.assumed.extend((known > 1).then_some(told));
            Ok(answered)
        }
        (Some(_), None) => {
            Err(AskError::Ambiguous(readings.into_iter().map(|(one, _)| one).collect()))
        }
        (None, Some(reading)) if known > 0 => Err(AskError::NoReading { reading, known }),
        (None, _) => Err(error.unwrap_or(AskError::NoTable)),
    }
}
