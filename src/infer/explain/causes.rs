//! Groups the losses of many questions by kind, program line and function.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::explain::{Kind, Loss};

/// Losses of one kind at one place of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// Kind of the losses.
    pub kind: Kind,
    /// Line of the program, from 1; `None` if unknown.
    pub line: Option<usize>,
    /// The tool or operator, the kind of the failure, or `router`.
    pub function: String,
    /// Number of questions with such a loss.
    pub n: usize,
    /// Sum of the possible gains in reciprocal rank of these questions.
    pub gain: f64,
}

/// Sums losses by kind, line and function. Causes with the largest gain come first, then those with
/// the most questions; ties by kind, line and function.
pub fn causes<'a>(losses: impl IntoIterator<Item = &'a Loss>) -> Vec<Cause> {
    let mut sums: BTreeMap<(Kind, Option<usize>, &str), (usize, f64)> = BTreeMap::new();
    for loss in losses {
        let sum = sums.entry((loss.kind, loss.line, &loss.function)).or_default();
        *sum = (sum.0 + 1, sum.1 + loss.gain);
    }
    let mut causes: Vec<Cause> = sums
        .into_iter()
        .map(|((kind, line, function), (n, gain))| Cause {
            kind,
            line,
            function: function.to_owned(),
            n,
            gain,
        })
        .collect();
    causes.sort_by(|a, b| b.gain.total_cmp(&a.gain).then(b.n.cmp(&a.n)));
    causes
}
