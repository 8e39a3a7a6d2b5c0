//! Quality report of questions, with the numbers that the benchmark reports: share of gold answers
//! that pass the filter, diversity of words, number of answers.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{DropCounts, Question};
use agent_ground::words::name_words;

/// Reason for dropping a question whose gold answer fails the filter of a model; it lowers the gold
/// pass rate.
pub const GOLD_FAILED: &str = "has a gold answer that fails the filter";

/// Numbers over all questions of one synthesis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Number of questions.
    pub n: usize,
    /// Questions by kind.
    pub kinds: BTreeMap<&'static str, usize>,
    /// Questions by style.
    pub styles: BTreeMap<&'static str, usize>,
    /// Number of templates with questions.
    pub templates: usize,
    /// Share of questions whose gold answer passed the filter; 1 without a model, as the filter is
    /// then exact.
    pub gold_pass: f64,
    /// Shannon entropy of the words, bits.
    pub entropy: f64,
    /// Distinct words per word.
    pub type_token_ratio: f64,
    /// Mean number of words of a question.
    pub words: f64,
    /// Numbers of answers.
    pub answers: Answers,
    /// Rejected draws by reason.
    pub dropped: BTreeMap<&'static str, usize>,
}

/// Numbers of answers of a question.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answers {
    /// Mean.
    pub mean: f64,
    /// Median, the lower of two.
    pub median: usize,
    /// Maximum.
    #[serde(rename = "most")]
    pub max: usize,
}

impl Quality {
    /// Computes the report of questions and rejected draws.
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
