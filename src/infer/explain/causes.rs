//! Groups the losses of many questions by kind, line and function.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::explain::{Kind, Loss};

/// Losses of one kind at one place of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// The kind.
    pub kind: Kind,
    /// Line of the program, if known.
    pub line: Option<usize>,
    /// Tool or operator.
    pub function: String,
    /// Number of questions.
    pub n: usize,
    /// Sum of their possible gains in reciprocal rank.
    pub gain: f64,
}

/// Sums losses by kind, line and function; largest gain first, then most questions, then by kind,
/// line and function.
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
