//! The note beside results on synthetic questions. Must not know what is measured.

use agent_dataset::{LabelledQuery, is_synthetic};

/// The note.
pub const TOLD: &str = "the questions are synthetic: made from the dataset, not labelled by people";

/// Returns [`TOLD`] as a line below a table; empty if no question is synthetic.
pub fn line(queries: &[LabelledQuery]) -> String {
    if is_synthetic(queries) { format!("{TOLD}\n") } else { String::new() }
}
