//! What is said beside every figure on questions that were made from a base, not labelled by
//! somebody. Must not know what is measured.

use agent_dataset::{LabelledQuery, is_synthetic};

/// Says it of the questions.
pub const TOLD: &str = "the questions are synthetic: made from the dataset, labelled by nobody";

/// [`TOLD`] as a line that follows a table; nothing if somebody labelled the questions.
pub fn line(queries: &[LabelledQuery]) -> String {
    if is_synthetic(queries) { format!("{TOLD}\n") } else { String::new() }
}
