//! What the losses of many questions have in common: summed by kind, line and function.
//! Must not know: programs, questions.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::explain::{Kind, Loss};

/// One way in which answers are lost at one place of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// In which way.
    pub kind: Kind,
    /// At which line of the program, if it is known.
    pub line: Option<usize>,
    /// At which tool or operator.
    pub function: String,
    /// Questions that lost their answers so.
    pub n: usize,
    /// What their reciprocal ranks could rise by together.
    pub gain: f64,
}

/// Losses summed by kind, line and function; most to gain first, then most questions, then by
/// kind, line and function.
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
