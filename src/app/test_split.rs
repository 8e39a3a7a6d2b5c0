//! The one way of commands to the answers of the test split: every opening is counted in the home
//! directory, and told beside the figures that came of it. Must not know what is measured.

use crate::{App, error::Result, text};
use agent_dataset::{
    Base, LabelledQuery, Split, ValuedQuery, load_test, load_test_tenth, load_test_values,
};

/// What to do instead of looking at the test split over a network.
pub const REMEDY: &str = "measure with `agent eval --split test`, which counts its openings";

/// How much of the test split is opened; either counts as an opening of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// A tenth.
    Tenth,
}

/// The queries of the test split. Who looks at what came of them [`count`]s that; who only tells how
/// many they are does not.
///
/// # Errors
/// That there is no test split, or that it is damaged.
pub fn load(part: Part, base: &Base) -> Result<Vec<LabelledQuery>> {
    Ok(match part {
        Part::Whole => load_test(base)?,
        Part::Tenth => load_test_tenth(base)?,
    })
}

/// The queries of the test split whose answers are values, likewise.
///
/// # Errors
/// As [`load`].
pub fn load_values(part: Part, base: &Base) -> Result<Vec<ValuedQuery>> {
    Ok(load_test_values(base, part == Part::Tenth)?)
}

/// The part of the test split that a split is, if it is one.
pub fn part(split: &Split) -> Option<Part> {
    match split {
        Split::Test => Some(Part::Whole),
        Split::TestTenth => Some(Part::Tenth),
        _ => None,
    }
}

/// Whether any of the splits is the test split, or a part of it.
pub fn is_among(splits: &[Split]) -> bool {
    splits.iter().any(|split| part(split).is_some())
}

/// Counts an opening of the test split; how often it was opened, this time included. A home directory
/// that cannot be written is no reason not to measure: then a warning says that the opening was not
/// counted.
pub fn count(base: &Base, app: &App) -> u64 {
    if let Err(error) = app.home.count_opening(base) {
        app.watch.warning(&format!("this opening of the test split is not counted: {error}"));
    }
    app.home.openings(base).unwrap_or_default()
}

/// The number of openings, in words.
pub fn told(openings: u64) -> String {
    match openings {
        1 => "test split opened once".to_owned(),
        n => format!("test split opened {} times", text::count(n)),
    }
}
