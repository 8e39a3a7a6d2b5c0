//! Answers questions over many nodes: how many, which most, whether related, what if.
//!
//! A question is taken apart (`mentions`), of a kind (`kind`), and read as a plan (`plan`):
//! rows of one type that metapaths lead to from named nodes, columns, and what is computed. The plan
//! is answered by a table, by SQL over it or a statistic (`run`), and the answer comes with all
//! of them. What is not explained by the base is said and never left out in silence. A language model
//! may answer what these rules do not understand, or all (`model`).
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use agent::{ask::Analyst, dataset::Home, index::IndexedBase};
//!
//! let shop = Home::new("home").get("shop")?;
//! let base = Arc::new(IndexedBase::open(&shop.kb_dir(), &shop.index_dir(), "shop")?);
//! let answered = Analyst::new(base).ask("How many products are there?")?;
//! println!("{}", answered.told);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Must not know: command lines, which answers are right.

pub mod answer;
#[cfg(test)]
#[path = "../../tests/it/support/given.rs"]
mod given;
pub mod kind;
mod lexicon;
mod mentions;
mod model;
mod plan;
#[cfg(test)]
mod published;
mod reading;
mod record;
mod run;
mod schema;
mod sql;
pub mod synthesize;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use model::{ASK_ASKS, ASK_ROLE};
pub use record::AskRecord;
pub use run::row_json;

use crate::{
    answer::Answered,
    kind::{Kind, KindModel},
    lexicon::Cue,
    mentions::{MAX_WORDS, Mentions, Values, What, mentions},
    model::{Failed, Questioner},
    schema::Schema,
};
use agent_index::IndexedBase;
use agent_kb::table::{MAX_COLUMNS, SqlError, TooManyNames, statistics::StatisticsError};
use agent_llm::LlmError;
use agent_retrieve::AssistFailure;
use agent_tools::Assistant;

/// What a phrase that names a kind adds to the logarithm of its probability.
const SAYS_KIND: f64 = 1_000.0;

/// Characters that are told of why a reply cannot be used.
const MAX_REASON: usize = 200;
/// Words that are not understood, up to which they may be misspelled; a question with more is about
/// something else.
const MAX_MISSPELLED: usize = 2;

/// Why a question is not answered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AskError {
    /// It asks for nodes, or for nothing that is known.
    #[error("the question asks for no number, comparison or test of many nodes")]
    NoTable,
    /// It is longer than any that is read.
    #[error("the question has more than {MAX_WORDS} words; ask for one thing at a time")]
    TooLong,
    /// It looks at more of the rows than a table has columns for.
    #[error(
        "the question looks at {0} things of each node, more than {MAX_COLUMNS}; ask for fewer"
    )]
    TooWide(usize),
    /// Words of it are neither of the base nor of questions.
    #[error("not understood: {}; {}", .words.join(", "), remedy(.names, .near))]
    Unknown {
        /// The words, in order.
        words: Vec<String>,
        /// Those of them that are names here, in small letters and without quotation marks.
        names: Vec<String>,
        /// Words of the base or of questions that some of them may be misspellings of, each beside
        /// the word.
        near: Vec<(String, String)>,
        /// Whether the others surely ask for a number, a test or what would be, so that no node can
        /// answer.
        counts: bool,
    },
    /// Something that the answer needs is not said, or not in the base.
    #[error("the question cannot be answered: {0}")]
    Missing(String),
    /// No node is a row.
    #[error("there is no {kind} {}", if .of.is_empty() { "that is asked for".to_owned() } else { format!("of {of}") })]
    NoRows {
        /// The type of the rows.
        kind: String,
        /// The names of the conditions; empty where they have none.
        of: String,
    },
    /// No row has a value.
    #[error("no {kind} that is asked for has a value: {what}")]
    NoValues {
        /// The type of the rows.
        kind: String,
        /// The column.
        what: String,
    },
    /// A column cannot be made.
    #[error(transparent)]
    Column(#[from] TooManyNames),
    /// A test cannot be made.
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    /// A statement failed.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The language model gave no reply, or would pass a ceiling.
    #[error(transparent)]
    Llm(LlmError),
    /// A prompt cannot be made.
    #[error("{0}")]
    Prompt(String),
}

/// What is told of words that are not understood.
fn remedy(names: &[String], near: &[(String, String)]) -> String {
    let near = near.iter().map(|(word, known)| format!("did you mean {known} by {word}?"));
    let quote = || format!("put names in quotation marks: \"{}\"", names.join("\", \""));
    let told: Vec<String> = near.chain((!names.is_empty()).then(quote)).collect();
    match told.as_slice() {
        [] => "nothing in this base is called so".to_owned(),
        told => told.join(" "),
    }
}

impl AskError {
    /// Whether nodes may answer the question.
    pub fn may_be_for_nodes(&self) -> bool {
        matches!(self, Self::NoTable | Self::Unknown { counts: false, .. })
    }

    /// Whether the question was not understood, so that another may understand it.
    fn is_unread(&self) -> bool {
        matches!(self, Self::NoTable | Self::TooWide(_) | Self::Unknown { .. } | Self::Missing(_))
    }
}

/// What a language model is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helps {
    /// Questions that the rules do not understand.
    Unread,
    /// All questions.
    All,
}

/// Answers questions over one base. Shared freely between threads.
pub struct Analyst {
    base: Arc<IndexedBase>,
    schema: Schema,
    values: Values,
    kinds: KindModel,
    model: Option<(Arc<Assistant>, Helps)>,
}

impl Analyst {
    /// Answers by rules, without a model.
    pub fn new(base: Arc<IndexedBase>) -> Self {
        let schema = Schema::new(&base);
        Self {
            schema,
            values: Values::default(),
            kinds: KindModel::built_in().clone(),
            base,
            model: None,
        }
    }

    /// The same with a language model.
    pub fn helped(self, assistant: Arc<Assistant>, helps: Helps) -> Self {
        Self { model: Some((assistant, helps)), ..self }
    }

    /// The base.
    pub fn base(&self) -> &Arc<IndexedBase> {
        &self.base
    }

    /// Answers a question.
    ///
    /// # Errors
    /// [`AskError`]; what is missing is said. Where a model's reply is unusable, what the rules find;
    /// where it gives none, [`AskError::Llm`].
    pub fn ask(&self, question: &str) -> Result<Answered, AskError> {
        let mentions = mentions(&self.base, &self.schema, &self.values, question);
        if mentions.tokens.len() > MAX_WORDS {
            return Err(AskError::TooLong);
        }
        let read = || {
            let kinds = self.kinds(question, &mentions);
            let plan = reading::read(&self.base, &self.schema, &mentions, question, &kinds)?;
            run::run(&self.base, &plan)
        };
        let by_rules = || read().map_err(|error| self.with_near(error));
        let Some((assistant, helps)) = &self.model else { return by_rules() };
        let unread = match helps {
            Helps::All => None,
            Helps::Unread => match by_rules() {
                Err(error) if error.is_unread() => Some(error),
                found => return found,
            },
        };
        let (base, schema, mentions) = (&*self.base, &self.schema, &mentions);
        let failed = match (Questioner { base, schema, assistant, mentions, question }).answer() {
            Ok(answered) => return Ok(answered),
            Err(failed) => failed,
        };
        let why = match failed {
            Failed::Ends(error) => return Err(AskError::Llm(error)),
            Failed::Prompt(why) => return Err(AskError::Prompt(why)),
            Failed::Declined => None,
            Failed::Unusable(why) => Some(why.chars().take(MAX_REASON).collect::<String>()),
        };
        let mut answered = unread.map_or_else(by_rules, Err)?;
        answered.unassisted = why.is_some().then_some(AssistFailure::Unusable);
        let told = |why| format!("a reply of the language model could not be used: {why}");
        answered.assumed.extend(why.map(told));
        Ok(answered)
    }

    /// An error with what could have been meant by words that are not understood.
    fn with_near(&self, mut error: AskError) -> AskError {
        if let AskError::Unknown { words, names, near, .. } = &mut error {
            if words.len() > MAX_MISSPELLED {
                return error;
            }
            let own = words.iter().filter(|word| !names.contains(word));
            let with = |word: &String| {
                Some((word.clone(), self.values.nearest(&self.base, &self.schema, word)?))
            };
            *near = own.filter_map(with).collect();
        }
        error
    }

    /// The kinds that a question may be of, likeliest first.
    fn kinds(&self, question: &str, mentions: &Mentions) -> Vec<Kind> {
        let mut ranked = self.kinds.ranked(question);
        for (kind, log) in &mut ranked {
            let says = |mention: &mentions::Mention| match mention.what {
                What::Cue(cue) => names_kind(cue) == Some(*kind),
                _ => false,
            };
            if mentions.all.iter().any(says) {
                *log += SAYS_KIND;
            }
        }
        ranked.sort_by(|one, other| other.1.total_cmp(&one.1));
        ranked.into_iter().map(|(kind, _)| kind).collect()
    }
}

/// The kind that a phrase names by itself.
fn names_kind(cue: Cue) -> Option<Kind> {
    match cue {
        Cue::Suppose | Cue::LeaveOut => Some(Kind::Hypothetical),
        Cue::Normal => Some(Kind::Distribution),
        Cue::Correlate | Cue::Ranks => Some(Kind::Correlation),
        Cue::Spread => Some(Kind::Variance),
        Cue::Relate => Some(Kind::Descriptive),
        _ => None,
    }
}
