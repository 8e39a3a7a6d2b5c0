//! Answers questions about many nodes, such as counts, superlatives, statistical tests and "what
//! if" questions.
//!
//! Rules split a question into mentions (`mentions`), classify it (`kind`) and read it as a plan
//! (`plan`). A plan has rows (nodes of one type, at the ends of metapaths from named nodes),
//! columns, and a computation. `run` builds the plan's table and computes the answer with SQL or a
//! statistical test; the answer includes the plan, the table and the SQL. A question with words
//! that the rules cannot explain is an error. A language model may write the plans of questions
//! that the rules do not understand, or of all questions (`model`).
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
//! Does not read the command line or labelled answers.

pub mod answer;
#[cfg(test)]
#[path = "../../tests/it/support/given.rs"]
mod given;
pub mod kind;
mod lexicon;
mod mentions;
mod model;
mod plan;
mod reading;
mod record;
mod run;
mod schema;
mod settled;
mod sql;
pub mod synthesize;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use model::{ASK_ASKS, ASK_ROLE};
pub use record::{AskRecord, readings_record, refusal_record};
pub use run::words::row_json;

use crate::{
    answer::Answered,
    kind::{Kind, KindModel},
    lexicon::Cue,
    mentions::{MAX_WORDS, Mention, Mentions, correction, mentions, spelled_out},
    model::{Failed, Model},
    plan::Plan,
    reading::choices::every,
    schema::Schema,
    settled::settled,
};
use agent_ground::words::{cut, one_line};
use agent_index::IndexedBase;
use agent_kb::table::{ColumnError, MAX_COLUMNS, SqlError, statistics::StatisticsError};
use agent_llm::LlmError;
use agent_retrieve::AssistFailure;
use agent_tools::Assistant;
use serde::Serialize;

/// Maximum length in characters of the reason why a model's reply is unusable or why a model
/// declined.
const MAX_REASON: usize = 200;
/// Maximum number of unknown words for which corrections are suggested; a question with more
/// unknown words is on another subject.
const MAX_MISSPELLED: usize = 2;

/// Error of answering a question.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The question asks for nodes themselves, or for nothing that the rules recognise.
    #[error("the question does not ask for a number, comparison or test over many nodes")]
    NoTable,
    /// The question has too many words.
    #[error("the question has more than {MAX_WORDS} words; ask for one thing at a time")]
    TooLong,
    /// The question needs more columns than a table may have; holds the number of columns that it
    /// needs.
    #[error("the question needs {0} columns, more than {MAX_COLUMNS}; ask for fewer")]
    TooWide(usize),
    /// The question has words that occur neither in the base nor in the lexicon.
    #[error("not understood: {}; {}", .words.join(", "), remedy(.names, .near))]
    Unknown {
        /// The unknown words, in the order of the question.
        words: Vec<String>,
        /// The unknown words that are names of nodes, but lack capitals and quotation marks.
        names: Vec<String>,
        /// Suggested corrections of possible typos: pairs of an unknown word and a known one.
        near: Vec<(String, String)>,
        /// Whether the known words ask for a number or a statistical test, so that no list of nodes
        /// can answer the question.
        counts: bool,
    },
    /// The question has several readings, and their answers differ.
    #[error("{}", meanings_in_words(.0))]
    Ambiguous(Vec<AskReading>),
    /// The requested reading does not exist, because the question has fewer readings.
    #[error("reading {reading} does not exist; the question has {}", meanings(*.known))]
    NoReading {
        /// Number of the requested reading, from 1.
        reading: usize,
        /// Number of readings that the question has.
        known: usize,
    },
    /// A plan is invalid; holds the reason.
    #[error("the plan cannot be run: {0}")]
    Plan(String),
    /// Something that the answer needs is missing from the question or from the base; holds what is
    /// missing.
    #[error("the question cannot be answered: {0}")]
    Missing(String),
    /// No node satisfies the conditions on rows, or no row has a value in a column that the
    /// computation needs; holds what does not exist.
    #[error("{0}")]
    Empty(String),
    /// The rows or a column of the table cannot be built.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// A statistical test cannot be computed.
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    /// An SQL statement failed.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The language model replied that the base cannot answer the question; holds the reason that
    /// the model gave.
    #[error("the language model found no answer in this base: {0}")]
    Declined(String),
    /// The request to the language model failed or was refused because a ceiling on requests or
    /// cost would be exceeded.
    #[error(transparent)]
    Llm(LlmError),
    /// A prompt for the language model cannot be rendered; holds the reason.
    #[error("{0}")]
    Prompt(String),
}

/// One of several readings of a question, with its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AskReading {
    /// The answer in words.
    pub told: String,
    /// The conditions, metapaths and fields of this reading, one line each; they differ between
    /// readings.
    pub path: Vec<String>,
}

/// Returns the error that something the answer needs is missing: [`AskError::Missing`].
fn missing<T>(what: impl Into<String>) -> Result<T, AskError> {
    Err(AskError::Missing(what.into()))
}

fn meanings(n: usize) -> String {
    if n == 1 { "one possible meaning".to_owned() } else { format!("{n} possible meanings") }
}

/// Formats the readings of an ambiguous question and their answers as one line of an error message.
fn meanings_in_words(readings: &[AskReading]) -> String {
    let in_words =
        |(n, one): (usize, &AskReading)| format!("{n}. {}: {}", one.path.join(", "), one.told);
    let all: Vec<String> = (1..).zip(readings).map(in_words).collect();
    format!("the question has {} possible meanings: {}", readings.len(), all.join("; "))
}

/// Formats the advice on unknown words: to correct them as in `near`, and to put `names` in
/// quotation marks.
fn remedy(names: &[String], near: &[(String, String)]) -> String {
    let near = near.iter().map(|(word, known)| format!("did you mean {known} instead of {word}?"));
    let quote = || format!("put names in quotation marks: \"{}\"", names.join("\", \""));
    let told: Vec<String> = near.chain((!names.is_empty()).then(quote)).collect();
    match told.is_empty() {
        true => "no node or value of this base has this name".to_owned(),
        false => told.join(" "),
    }
}

impl AskError {
    /// Whether a list of nodes, instead of a table, may answer the question that failed with this
    /// error.
    pub fn may_be_for_nodes(&self) -> bool {
        matches!(self, Self::NoTable | Self::Unknown { counts: false, .. })
    }

    /// Whether the rules failed to find one reading that can be answered, so that a language model
    /// may read the question.
    pub fn is_unread(&self) -> bool {
        matches!(
            self,
            Self::NoTable
                | Self::TooWide(_)
                | Self::Unknown { .. }
                | Self::Missing(_)
                | Self::Ambiguous(_)
        )
    }
}

/// The questions for which a language model writes the plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helps {
    /// For questions that the rules cannot read ([`AskError::is_unread`]).
    Unread,
    /// For all questions.
    All,
}

/// Answers questions about many nodes of one base. Can be shared between threads.
pub struct Analyst {
    schema: Schema,
    model: Option<(Arc<Assistant>, Helps)>,
}

impl Analyst {
    /// Creates an analyst that answers by rules, without a language model.
    pub fn new(base: Arc<IndexedBase>) -> Self {
        Self { schema: Schema::new(base), model: None }
    }

    /// Adds a language model, which writes the plans of the questions that `helps` selects.
    pub fn helped(self, assistant: Arc<Assistant>, helps: Helps) -> Self {
        Self { model: Some((assistant, helps)), ..self }
    }

    /// Returns the base that questions are answered from.
    pub fn base(&self) -> &Arc<IndexedBase> {
        &self.schema.base
    }

    /// Answers a question. If the question has several readings, all must have the same answer.
    ///
    /// # Errors
    /// [`AskError`]. An unusable reply of the model is not an error: the rules answer instead. A
    /// failed request to the model is [`AskError::Llm`].
    pub fn ask(&self, question: &str) -> Result<Answered, AskError> {
        self.ask_noting(question, None, |_| ())
    }

    /// Answers a question in the reading with number `reading`, from 1, in the order of the
    /// readings in [`AskError::Ambiguous`]. With `None`, all readings must have the same answer. If
    /// the replies of the language model are unusable and the rules fail too, returns the error of
    /// the rules. Also calls `unusable` with the reason why the replies are unusable, on one line.
    ///
    /// # Errors
    /// As [`ask`](Self::ask); [`AskError::NoReading`] if the question has fewer than `reading`
    /// readings.
    pub fn ask_noting(
        &self,
        question: &str,
        reading: Option<usize>,
        unusable: impl FnOnce(&str),
    ) -> Result<Answered, AskError> {
        let model = self.model.as_ref().map(|(assistant, helps)| (assistant, *helps));
        self.ask_with(question, reading, model, unusable)
    }

    /// Answers as [`ask_noting`](Self::ask_noting), but with `model` instead of the analyst's own
    /// language model; `None` answers by rules only.
    ///
    /// # Errors
    /// As [`ask_noting`](Self::ask_noting).
    pub fn ask_with(
        &self,
        question: &str,
        reading: Option<usize>,
        model: Option<(&Arc<Assistant>, Helps)>,
        unusable: impl FnOnce(&str),
    ) -> Result<Answered, AskError> {
        let question = &*spelled_out(question);
        let mentions = mentions(&self.schema, question);
        if mentions.tokens.len() > MAX_WORDS {
            return Err(AskError::TooLong);
        }
        let mut numbers = mentions.numbers().map(|token| &question[token.range.clone()]);
        if let Some(message) = numbers.find_map(|number| self.schema.base.doubtful_number(number)) {
            return missing(message);
        }
        let by_rules =
            || self.by_rules(question, &mentions, reading).map_err(|error| self.corrected(error));
        let Some((assistant, helps)) = model else { return by_rules() };
        let unread = match helps {
            Helps::All => None,
            Helps::Unread => match by_rules() {
                Err(error) if error.is_unread() => Some(error),
                found => return found,
            },
        };
        let unread = || unread.clone().map_or_else(by_rules, Err);
        let model = Model { schema: &self.schema, assistant };
        let why = match model.answer(question, &mentions, reading) {
            Ok(answered) => return Ok(answered),
            Err(Failed::Ends(error)) => return Err(error),
            Err(Failed::Declined(why)) => {
                return Err(match unread() {
                    Err(error) if error.may_be_for_nodes() => error,
                    _ => AskError::Declined(cut(&why, MAX_REASON, "")),
                });
            }
            Err(Failed::Unusable(why)) => cut(&one_line(&why), MAX_REASON, ""),
        };
        let mut answered = unread().inspect_err(|_| unusable(&why))?;
        answered.unassisted = Some(AssistFailure::Unusable);
        let told = format!("a reply of the language model could not be used: {why}");
        answered.assumed.push(told);
        Ok(answered)
    }

    /// Runs a plan: a JSON document such as [`Answered::plan`], in the form that
    /// `docs/plan.schema.json` describes.
    ///
    /// # Errors
    /// [`AskError::Plan`] if the plan is invalid; otherwise as [`ask`](Self::ask), if the plan
    /// cannot be run.
    pub fn run_plan(&self, document: &serde_json::Value) -> Result<Answered, AskError> {
        let plan = Plan::from_document(&self.schema, document).map_err(AskError::Plan)?;
        match &self.model {
            Some((assistant, _)) => Model { schema: &self.schema, assistant }.run(&plan),
            None => run::run(&self.schema.base.kb, &plan, &[]),
        }
    }

    /// Answers a question by rules, without a language model. Of several readings, takes the one
    /// with number `wanted`, from 1; if `wanted` is `None`, takes the first if all have the same
    /// answer.
    fn by_rules(
        &self,
        question: &str,
        mentions: &Mentions,
        wanted: Option<usize>,
    ) -> Result<Answered, AskError> {
        let kinds = kinds(question, mentions);
        let (plans, is_every) =
            every(|choices| reading::read(&self.schema, mentions, question, &kinds, choices));
        if !is_every {
            return missing(
                "it has too many possible meanings; use the base's names of relations and fields",
            );
        }
        let kb = &self.schema.base.kb;
        settled(kb, plans, wanted, |plan| run::run(kb, plan, &[]))
    }

    /// Adds suggested corrections to an [`AskError::Unknown`]; returns other errors unchanged.
    fn corrected(&self, mut error: AskError) -> AskError {
        if let AskError::Unknown { words, names, near, .. } = &mut error
            && words.len() <= MAX_MISSPELLED
        {
            let own = words.iter().filter(|word| !names.contains(word));
            let correction = |word: &String| Some((word.clone(), correction(&self.schema, word)?));
            *near = own.filter_map(correction).collect();
        }
        error
    }
}

/// Returns all kinds: first the kinds that a phrase of the question implies, then the other kinds;
/// within both groups, most probable first.
fn kinds(question: &str, mentions: &Mentions) -> Vec<Kind> {
    let named: Vec<Kind> =
        mentions.all.iter().filter_map(Mention::cue).filter_map(names_kind).collect();
    let ranked = KindModel::built_in().ranked(question).into_iter();
    let mut kinds: Vec<Kind> = ranked.map(|(kind, _)| kind).collect();
    kinds.sort_by_key(|kind| !named.contains(kind));
    kinds
}

/// Returns the kind of question that a phrase implies by itself; `None` if it implies none.
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
