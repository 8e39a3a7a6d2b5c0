//! The one way of commands to the answers of the test split: every opening is counted in the home
//! directory, and told beside the figures that came of it. Must not know what is measured.

use crate::{
    cli::{Context, failure::Result, printer::count},
    dataset::{Base, LabelledQuery, ValuedQuery, load_test, load_test_tenth, load_test_values},
};

/// How much of the test split is opened; either counts as an opening of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// A tenth.
    Tenth,
}

/// Opens the test split and counts that. A home directory that cannot be written is no reason not
/// to measure: then a warning says that the opening was not counted.
///
/// # Errors
/// That there is no test split, or that it is damaged.
pub(super) fn open(part: Part, base: &Base, ctx: &Context) -> Result<Vec<LabelledQuery>> {
    let queries = match part {
        Part::Whole => load_test(base)?,
        Part::Tenth => load_test_tenth(base)?,
    };
    note(base, ctx);
    Ok(queries)
}

/// Opens the queries of the test split whose answers are values, likewise.
///
/// # Errors
/// As [`open`].
pub(super) fn open_values(part: Part, base: &Base, ctx: &Context) -> Result<Vec<ValuedQuery>> {
    let queries = load_test_values(base, part == Part::Tenth)?;
    note(base, ctx);
    Ok(queries)
}

/// Counts an opening.
fn note(base: &Base, ctx: &Context) {
    if let Err(error) = ctx.home.count_opening(base) {
        ctx.printer.warning(&format!("this opening of the test split is not counted: {error}"));
    }
}

/// How often the test split was opened so far, as far as that was counted.
pub(super) fn openings(base: &Base, ctx: &Context) -> u64 {
    ctx.home.openings(base).unwrap_or_default()
}

/// The number of openings, in words.
pub(super) fn told(openings: u64) -> String {
    match openings {
        1 => "test split opened once".to_owned(),
        n => format!("test split opened {} times", count(n)),
    }
}
