//! The only access of commands to the test split. A file in the home directory counts the openings
//! of the split, that is, measurements on it; the count is reported beside the results.

use crate::{App, Result, text};
use agent_dataset::{
    self as dataset, Base, LabelledQuery, Split, ValuedQuery, load_split, load_test,
    load_test_tenth, load_test_values,
};

/// Hint for requests over a network, which may not measure on the test split.
pub const REMEDY: &str = "measure with `agent eval --split test`, which counts its openings";

/// Loads the queries of a split whose answers are nodes. Callers that show results on the test
/// split or its tenth must call [`count`]; callers that only report the number of queries need not.
///
/// # Errors
/// If there is no such split, or it is damaged.
pub fn load(split: &Split, base: &Base) -> Result<Vec<LabelledQuery>> {
    Ok(match split {
        Split::Test => load_test(base)?,
        Split::TestTenth => load_test_tenth(base)?,
        other => load_split(base, other)?,
    })
}

/// Loads the queries of a split whose answers are values. Callers that show results on the test
/// split or its tenth must call [`count`].
///
/// # Errors
/// As [`load`].
pub fn load_values(split: &Split, base: &Base) -> Result<Vec<ValuedQuery>> {
    Ok(match split {
        Split::Test => load_test_values(base, false)?,
        Split::TestTenth => load_test_values(base, true)?,
        other => dataset::load_values(base, other)?,
    })
}

/// Whether any of the splits is the test split or a part of the test split.
pub fn is_among(splits: &[Split]) -> bool {
    splits.iter().any(|split| matches!(split, Split::Test | Split::TestTenth))
}

/// Counts an opening of a base's test split. Returns the number of openings so far, this one
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
