//! The only way in which commands read the test split. A file in the home directory counts how
//! often the split was opened, that is, measured on; the count is reported beside the results.

use crate::{App, Result, text};
use agent_dataset::{
    Base, LabelledQuery, Split, ValuedQuery, load_test, load_test_tenth, load_test_values,
};

/// Hint for requests over a network, which may not measure on the test split.
pub const REMEDY: &str = "measure with `agent eval --split test`, which counts its openings";

/// How much of the test split is read. Measuring on either part counts as opening the split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole test split.
    Whole,
    /// The tenth of the test split that is named `test-0.1`.
    Tenth,
}

/// Loads the queries of the test split. Callers that show results on them must call [`count`];
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

/// Loads the queries of the test split whose answers are values. Callers that show results on them
/// must call [`count`].
///
/// # Errors
/// As [`load`].
pub fn load_values(part: Part, base: &Base) -> Result<Vec<ValuedQuery>> {
    Ok(load_test_values(base, part == Part::Tenth)?)
}

/// Returns how much of the test split `split` names; `None` if it names another split.
pub fn part(split: &Split) -> Option<Part> {
    match split {
        Split::Test => Some(Part::Whole),
        Split::TestTenth => Some(Part::Tenth),
        _ => None,
    }
}

/// Whether any of the splits is the test split or a part of the test split.
pub fn is_among(splits: &[Split]) -> bool {
    splits.iter().any(|split| part(split).is_some())
}

/// Counts that a base's test split is opened. Returns how often it was opened so far, this time
/// included; 0 if the count cannot be read. If the count cannot be written, only warns.
pub fn count(base: &Base, app: &App) -> u64 {
    if let Err(error) = app.home.count_opening(base) {
        app.watch.warning(&format!("this opening of the test split is not counted: {error}"));
    }
    app.home.openings(base).unwrap_or_default()
}

/// Describes how often the test split was opened.
pub fn told(openings: u64) -> String {
    match openings {
        1 => "test split opened once".to_owned(),
        n => format!("test split opened {} times", text::count(n)),
    }
}
