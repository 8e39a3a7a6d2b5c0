//! Classifies a question about many nodes into one of eight kinds by naive Bayes over its words and
//! pairs of words (Maron 1961; McCallum and Nigam 1998). The built-in model is trained on a file of
//! questions written for this purpose.
//!
//! Uses neither a base nor a table.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::LazyLock};

use serde::{Deserialize, Serialize};

use agent_ground::words::name_words;

/// Training questions on many subjects, one per line: kind, tab, question.
const QUESTIONS: &str = include_str!("questions.tsv");
/// Additive smoothing: added to the count of each word or pair of words.
const SMOOTHING: f64 = 0.1;

/// A kind of question about many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Compares two or more named nodes or groups by one value, as in "which is faster, A or B?".
    Intercomparison,
    /// Asks for the nodes with the largest or smallest value.
    Superlative,
    /// Asks for one number over many nodes: how many, how much, on average.
    Aggregation,
    /// Asks whether values follow a distribution, such as the normal distribution.
    Distribution,
    /// Asks whether two values are correlated.
    Correlation,
    /// Asks whether values have equal variance.
    Variance,
    /// Asks how one property relates to another.
    Descriptive,
    /// Asks for a result under an assumption, such as "if the tugs were left out".
    Hypothetical,
}

impl Kind {
    /// All kinds, in display order.
    pub const ALL: [Kind; 8] = [
        Self::Intercomparison,
        Self::Superlative,
        Self::Aggregation,
        Self::Distribution,
        Self::Correlation,
        Self::Variance,
        Self::Descriptive,
        Self::Hypothetical,
    ];

    /// Returns the name of the kind: the variant's name in lower case.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; Kind::ALL.len()] = [
            "intercomparison",
            "superlative",
            "aggregation",
            "distribution",
            "correlation",
            "variance",
            "descriptive",
            "hypothetical",
        ];
        NAMES[self as usize]
    }

    /// Finds a kind by its name; `None` if no kind has the name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Naive Bayes model: for each kind, the counts of words and of pairs of adjacent words in the
/// training questions of that kind.
#[derive(Clone, Debug, Default)]
pub struct KindModel {
    said: HashMap<String, [u32; Kind::ALL.len()]>,
    words: [u32; Kind::ALL.len()],
    questions: [u32; Kind::ALL.len()],
}

impl KindModel {
    /// Returns the model trained on the built-in questions.
    pub fn built_in() -> &'static Self {
        static MODEL: LazyLock<KindModel> = LazyLock::new(|| {
            let of = |line: &'static str| {
                let (kind, question) = line.split_once('\t')?;
                Some((Kind::named(kind)?, question))
            };
            KindModel::taught(QUESTIONS.lines().filter_map(of))
        });
        &MODEL
    }

    /// Trains a model on questions of known kinds.
    pub fn taught<'a>(questions: impl IntoIterator<Item = (Kind, &'a str)>) -> Self {
        let mut model = Self::default();
        for (kind, question) in questions {
            let at = kind as usize;
            model.questions[at] += 1;
            for feature in features(question) {
                model.words[at] += 1;
                model.said.entry(feature).or_default()[at] += 1;
            }
        }
        model
    }

    /// Returns all kinds, each with the log probability (up to a constant) that `question` is of
    /// this kind; most probable first, ties in the order of [`Kind::ALL`].
    pub fn ranked(&self, question: &str) -> Vec<(Kind, f64)> {
        let said: Vec<String> = features(question);
        let different = self.said.len() as f64;
        let all = f64::from(self.questions.iter().sum::<u32>());
        let log = |kind: Kind| {
            let at = kind as usize;
            let mass = f64::from(self.words[at]) + SMOOTHING * different;
            let prior = (f64::from(self.questions[at]) + 1.0) / (all + Kind::ALL.len() as f64);
            let of = |feature: &String| {
                let seen = self.said.get(feature).map_or(0, |counts| counts[at]);
                ((f64::from(seen) + SMOOTHING) / mass).ln()
            };
            let known = |feature: &&String| self.said.contains_key(*feature);
            prior.ln() + said.iter().filter(known).map(of).sum::<f64>()
        };
        let mut ranked: Vec<(Kind, f64)> =
            Kind::ALL.into_iter().map(|kind| (kind, log(kind))).collect();
        ranked.sort_by(|one, other| other.1.total_cmp(&one.1));
        ranked
    }
}

/// Returns the features of a question: its pairs of adjacent words, then its words. Words with a
/// digit become `0`.
fn features(question: &str) -> Vec<String> {
    let number =
        |word: String| if word.bytes().any(|b| b.is_ascii_digit()) { "0".to_owned() } else { word };
    let words: Vec<String> =
        name_words(question).map(|(_, word)| number(word.into_owned())).collect();
    let pairs = words.windows(2).map(|pair| pair.join(" "));
    pairs.chain(words.iter().cloned()).collect()
}
