//! The note beside results that are measured on synthetic questions.

use agent_dataset::{LabelledQuery, is_synthetic};

/// Note that the questions are synthetic.
pub const TOLD: &str = "the questions are synthetic: made from the dataset, not labelled by people";

/// Returns [`TOLD`] as a line to print below a table of results; empty if no question is synthetic.
pub fn line(queries: &[LabelledQuery]) -> String {
    if is_synthetic(queries) { format!("{TOLD}\n") } else { String::new() }
}
