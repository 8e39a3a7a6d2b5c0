//! Quality report on questions, with the measures that the benchmark reports: the share of gold
//! answers that pass the filters, the diversity of words, and the numbers of answers.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{DropCounts, Question};
use agent_ground::words::name_words;

/// Reason for rejecting a draw whose gold answer fails the filters of a model; each such draw
/// lowers [`Quality::gold_pass`].
pub const GOLD_FAILED: &str = "has a gold answer that fails the filter";

/// Statistics of all questions of one synthesis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Number of questions.
    pub n: usize,
    /// Number of questions by kind.
    pub kinds: BTreeMap<&'static str, usize>,
    /// Number of questions by style.
    pub styles: BTreeMap<&'static str, usize>,
    /// Number of templates from which at least one question was made.
    pub templates: usize,
    /// Share of gold answers that passed the filters, 0 to 1; 1 without a model, because answers
    /// are then exact.
    pub gold_pass: f64,
    /// Shannon entropy of the distribution of words in the questions, in bits.
    pub entropy: f64,
    /// Number of distinct words divided by the number of all words in the questions, 0 to 1.
    pub type_token_ratio: f64,
    /// Mean number of words per question.
    pub words: f64,
    /// Statistics of the number of answers per question.
    pub answers: Answers,
    /// Number of rejected draws by reason.
    pub dropped: BTreeMap<&'static str, usize>,
}

/// Statistics of the number of answers per question.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answers {
    /// Mean number of answers.
    pub mean: f64,
    /// Median number of answers; the lower of the two middle numbers if there are two.
    pub median: usize,
    /// Maximum number of answers.
    #[serde(rename = "most")]
    pub max: usize,
}

impl Quality {
    /// Computes the statistics of questions; `dropped` counts the rejected draws by reason.
    pub fn new(questions: &[Question], dropped: &DropCounts) -> Quality {
        let n = questions.len();
        let (mut kinds, mut styles) = (BTreeMap::new(), BTreeMap::new());
        let (mut words, mut templates) = (BTreeMap::new(), BTreeMap::new());
        for question in questions {
            *kinds.entry(question.kind.name()).or_insert(0) += 1;
            *styles.entry(question.style.name()).or_insert(0) += 1;
            *templates.entry(question.template.as_str()).or_insert(0usize) += 1;
            for (_, word) in name_words(&question.text) {
                *words.entry(word.into_owned()).or_insert(0usize) += 1;
            }
        }
        let total: usize = words.values().sum();
        let entropy = words.values().map(|&count| {
            let share = count as f64 / total.max(1) as f64;
            -share * share.log2()
        });
        let mut sizes: Vec<usize> =
            questions.iter().map(|question| question.answers.len()).collect();
        sizes.sort_unstable();
        let failed = dropped.get(GOLD_FAILED).copied().unwrap_or(0);
        Quality {
            n,
            kinds,
            styles,
            templates: templates.len(),
            gold_pass: n as f64 / (n + failed).max(1) as f64,
            entropy: entropy.sum(),
            type_token_ratio: words.len() as f64 / total.max(1) as f64,
            words: total as f64 / n.max(1) as f64,
            answers: Answers {
                mean: sizes.iter().sum::<usize>() as f64 / n.max(1) as f64,
                median: sizes.get(n.saturating_sub(1) / 2).copied().unwrap_or(0),
                max: sizes.last().copied().unwrap_or(0),
            },
            dropped: dropped.clone(),
        }
    }
}
