//! The only access of commands to the test split. The home directory counts every opening, which is
//! reported beside the results. Must not know what is measured.

use crate::{App, error::Result, text};
use agent_dataset::{
    Base, LabelledQuery, Split, ValuedQuery, load_test, load_test_tenth, load_test_values,
};

/// Hint for requests over a network that would open the test split.
pub const REMEDY: &str = "measure with `agent eval --split test`, which counts its openings";

/// The opened part of the test split; either part counts as an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole split.
    Whole,
    /// A tenth.
    Tenth,
}

/// Loads the queries of the test split. Callers that show results must [`count`] the opening;
/// callers that only report the number of queries need not.
///
/// # Errors
/// If there is no test split, or it is damaged.
pub fn load(part: Part, base: &Base) -> Result<Vec<LabelledQuery>> {
    Ok(match part {
        Part::Whole => load_test(base)?,
        Part::Tenth => load_test_tenth(base)?,
    })
}

/// Loads the queries of the test split whose answers are values, with the same duty to [`count`].
///
/// # Errors
/// As [`load`].
pub fn load_values(part: Part, base: &Base) -> Result<Vec<ValuedQuery>> {
    Ok(load_test_values(base, part == Part::Tenth)?)
}

/// Returns the part of the test split that `split` names, if any.
pub fn part(split: &Split) -> Option<Part> {
    match split {
        Split::Test => Some(Part::Whole),
        Split::TestTenth => Some(Part::Tenth),
        _ => None,
    }
}

/// Whether any of the splits is the test split or a part of it.
pub fn is_among(splits: &[Split]) -> bool {
    splits.iter().any(|split| part(split).is_some())
}

/// Counts an opening of the test split and returns the number of openings so far, 0 if unreadable.
/// If the opening cannot be counted, only warns.
pub fn count(base: &Base, app: &App) -> u64 {
    if let Err(error) = app.home.count_opening(base) {
        app.watch.warning(&format!("this opening of the test split is not counted: {error}"));
    }
    app.home.openings(base).unwrap_or_default()
}

/// Describes the number of openings in words.
pub fn told(openings: u64) -> String {
    match openings {
        1 => "test split opened once".to_owned(),
        n => format!("test split opened {} times", text::count(n)),
    }
}
