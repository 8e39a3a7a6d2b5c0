//! Answers questions about many nodes: counts, superlatives, statistical tests, assumptions.
//!
//! Rules split a question into mentions (`mentions`), classify it (`kind`) and read it as a plan
//! (`plan`). A plan has rows of one type at the ends of metapaths from named nodes, columns, and a
//! computation. `run` builds the table and runs SQL or a statistic over it; the answer includes
//! plan, table and SQL. Words that the rules cannot explain are an error. A language model may
//! write the plans of questions that the rules do not understand, or of all questions (`model`).
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
//! Independent of command lines and of labelled answers.

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
mod settled;
mod sql;
pub mod synthesize;
#[cfg(test)]
mod tests;

use std::{cell::RefCell, sync::Arc};

pub use model::{ASK_ASKS, ASK_ROLE};
pub use record::{AskRecord, ReadingsRecord, RefusalRecord};
pub use run::words::row_json;

use crate::{
    answer::Answered,
    kind::{Kind, KindModel},
    lexicon::Cue,
    mentions::{MAX_WORDS, Mentions, Values, What, mentions},
    model::{Failed, Model},
    plan::Plan,
    reading::{Question, choices::every},
    schema::Schema,
    settled::settled,
};
use agent_index::IndexedBase;
use agent_kb::table::{MAX_COLUMNS, SqlError, TooManyNames, statistics::StatisticsError};
use agent_llm::LlmError;
use agent_retrieve::AssistFailure;
use agent_tools::Assistant;
use serde::Serialize;

/// Added to a kind's log probability if a phrase implies the kind.
const KIND_BONUS: f64 = 1_000.0;

/// Maximum length of the reason why a reply is unusable, characters.
const MAX_REASON: usize = 200;
/// Maximum number of unknown words that may be typos; a question with more is on another subject.
const MAX_MISSPELLED: usize = 2;

/// Error of answering a question.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The question asks for nodes, or for nothing that the rules know.
    #[error("the question asks for no number, comparison or test of many nodes")]
    NoTable,
    /// The question is too long.
    #[error("the question has more than {MAX_WORDS} words; ask for one thing at a time")]
    TooLong,
    /// The question needs more columns than a table may have.
    #[error("the question needs {0} columns, more than {MAX_COLUMNS}; ask for fewer")]
    TooWide(usize),
    /// The question has words that occur neither in the base nor in the lexicon.
    #[error("not understood: {}; {}", .words.join(", "), remedy(.names, .near))]
    Unknown {
        /// The words, in order.
        words: Vec<String>,
        /// The words that are names in the base, but in lower case and without quotation marks.
        names: Vec<String>,
        /// Suggested corrections of possible typos: pairs of an unknown word and a known one.
        near: Vec<(String, String)>,
        /// Whether the known words ask for a number, a test or an assumption, so that no list of
        /// nodes can answer the question.
        counts: bool,
    },
    /// The question has several readings, whose answers differ.
    #[error("{}", ways_in_words(.0))]
    Ambiguous(Vec<AskReading>),
    /// The question has no reading with the requested number.
    #[error("the question has no reading {reading}; it has {}", ways(*.known))]
    NoReading {
        /// The requested number, from 1.
        reading: usize,
        /// The number of readings.
        known: usize,
    },
    /// A plan is invalid.
    #[error("the plan cannot be run: {0}")]
    Plan(String),
    /// Something that the answer needs is missing from the question or from the base.
    #[error("the question cannot be answered: {0}")]
    Missing(String),
    /// No node satisfies the conditions on rows.
    #[error("there is no {kind} {}", if .of.is_empty() { "that satisfies the conditions".to_owned() } else { format!("of {of}") })]
    NoRows {
        /// The type of the rows.
        kind: String,
        /// The names of the conditions and subjects, separated by commas; empty without names.
        of: String,
    },
    /// No row has a value.
    #[error("no {kind} that satisfies the conditions has a value: {what}")]
    NoValues {
        /// The type of the rows.
        kind: String,
        /// The name of the column.
        what: String,
    },
    /// A column cannot be built.
    #[error(transparent)]
    Column(#[from] TooManyNames),
    /// A statistical test is not possible.
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    /// An SQL statement failed.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The language model finds that the base does not answer the question, with its reason.
    #[error("the language model finds no answer in this base: {0}")]
    Declined(String),
    /// The language model gave no reply, or a ceiling would be exceeded.
    #[error(transparent)]
    Llm(LlmError),
    /// A prompt cannot be rendered.
    #[error("{0}")]
    Prompt(String),
}

/// One of several readings of a question, with its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AskReading {
    /// The answer in words.
    pub told: String,
    /// The conditions, metapaths and fields of the reading, which distinguish it from the others.
    pub path: Vec<String>,
}

fn ways(n: usize) -> String {
    if n == 1 { "one".to_owned() } else { format!("{n}") }
}

/// Lists the readings in one line.
fn ways_in_words(readings: &[AskReading]) -> String {
    let all =
        (1..).zip(readings).map(|(n, one)| format!("{n}. {}: {}", one.path.join(", "), one.told));
    let all: Vec<String> = all.collect();
    format!("the question can be read in {} ways: {}", readings.len(), all.join("; "))
}

/// Suggests a remedy for unknown words.
fn remedy(names: &[String], near: &[(String, String)]) -> String {
    let near = near.iter().map(|(word, known)| format!("did you mean {known} instead of {word}?"));
    let quote = || format!("put names in quotation marks: \"{}\"", names.join("\", \""));
    let told: Vec<String> = near.chain((!names.is_empty()).then(quote)).collect();
    match told.as_slice() {
        [] => "nothing in this base has this name".to_owned(),
        told => told.join(" "),
    }
}

impl AskError {
    /// Returns the words of the question that are not understood; empty for other errors.
    pub fn not_understood(&self) -> &[String] {
        match self {
            Self::Unknown { words, .. } => words,
            _ => &[],
        }
    }

    /// Whether a list of nodes may answer the question.
    pub fn may_be_for_nodes(&self) -> bool {
        matches!(self, Self::NoTable | Self::Unknown { counts: false, .. })
    }

    /// Whether the rules found no single reading, so that a language model may read the question.
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

/// Questions whose plans a language model writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helps {
    /// Questions that the rules do not understand.
    Unread,
    /// All questions.
    All,
}

/// Answers questions over one base. Safe to share between threads.
pub struct Analyst {
    base: Arc<IndexedBase>,
    schema: Schema,
    values: Values,
    kinds: KindModel,
    model: Option<(Arc<Assistant>, Helps)>,
}

impl Analyst {
    /// Creates an analyst that answers by rules, without a language model.
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

    /// Adds a language model that writes the plans of some questions.
    pub fn helped(self, assistant: Arc<Assistant>, helps: Helps) -> Self {
        Self { model: Some((assistant, helps)), ..self }
    }

    /// Returns the base.
    pub fn base(&self) -> &Arc<IndexedBase> {
        &self.base
    }

    /// Answers a question.
    ///
    /// # Errors
    /// [`AskError`]. If a model's reply is unusable, the rules answer; if the model gives no
    /// reply, [`AskError::Llm`].
    pub fn ask(&self, question: &str) -> Result<Answered, AskError> {
        self.ask_as(question, None)
    }

    /// Answers a question in its n-th reading, from 1, in the order of [`AskError::Ambiguous`].
    ///
    /// # Errors
    /// As [`ask`](Self::ask); [`AskError::NoReading`].
    pub fn ask_as(&self, question: &str, reading: Option<usize>) -> Result<Answered, AskError> {
        let model = self.model.as_ref().map(|(assistant, helps)| (assistant, *helps));
        self.ask_with(question, reading, model)
    }

    /// Answers as [`ask_as`](Self::ask_as), with another language model or without one.
    ///
    /// # Errors
    /// As [`ask_as`](Self::ask_as).
    pub fn ask_with(
        &self,
        question: &str,
        reading: Option<usize>,
        model: Option<(&Arc<Assistant>, Helps)>,
    ) -> Result<Answered, AskError> {
        let mentions = mentions(&self.base, &self.schema, &self.values, question);
        if mentions.tokens.len() > MAX_WORDS {
            return Err(AskError::TooLong);
        }
        let read = || self.by_rules(question, &mentions, reading);
        let by_rules = || read().map_err(|error| self.with_near(error));
        let Some((assistant, helps)) = model else { return by_rules() };
        let unread = match helps {
            Helps::All => None,
            Helps::Unread => match by_rules() {
                Err(error) if error.is_unread() => Some(error),
                found => return found,
            },
        };
        let unread = || unread.clone().map_or_else(by_rules, Err);
        let why = match self.with(assistant).answer(question, &mentions, reading) {
            Ok(answered) => return Ok(answered),
            Err(Failed::Ends(error)) => return Err(error),
            Err(Failed::Declined(why)) => {
                return Err(match unread() {
                    Err(error) if error.may_be_for_nodes() => error,
                    _ => AskError::Declined(why.chars().take(MAX_REASON).collect()),
                });
            }
            Err(Failed::Unusable(why)) => why.chars().take(MAX_REASON).collect::<String>(),
        };
        let mut answered = unread()?;
        answered.unassisted = Some(AssistFailure::Unusable);
        let told = format!("a reply of the language model could not be used: {why}");
        answered.assumed.push(told);
        Ok(answered)
    }

    /// Runs a plan: a JSON document of the form of [`Answered::plan`], which
    /// `docs/plan.schema.json` describes.
    ///
    /// # Errors
    /// [`AskError::Plan`] if the plan is invalid; the errors of running it, as
    /// [`ask`](Self::ask) has.
    pub fn run_plan(&self, document: &serde_json::Value) -> Result<Answered, AskError> {
        let plan = Plan::from_document(&self.base, &self.schema, document);
        let plan = plan.map_err(AskError::Plan)?;
        match &self.model {
            Some((assistant, _)) => self.with(assistant).run(&plan),
            None => run::run(&self.base, &plan, &[]),
        }
    }

    fn with<'a>(&'a self, assistant: &'a Arc<Assistant>) -> Model<'a> {
        Model { base: &self.base, schema: &self.schema, assistant }
    }

    /// Answers by rules. Of several readings, takes the `wanted` one, or the first if all have the
    /// same answer.
    fn by_rules(
        &self,
        question: &str,
        mentions: &Mentions,
        wanted: Option<usize>,
    ) -> Result<Answered, AskError> {
        let kinds = self.kinds(question, mentions);
        let (base, schema) = (&*self.base, &self.schema);
        let asked = Question { base, schema, mentions, text: question, kinds: &kinds };
        let (plans, is_every) = every(|choices| {
            let open = RefCell::new(std::mem::take(choices));
            let plan = reading::read(asked, &open);
            *choices = open.into_inner();
            plan
        });
        if !is_every {
            return Err(AskError::Missing(
                "it has too many readings; name relations and fields as the base does".to_owned(),
            ));
        }
        settled(&base.kb, plans, wanted, |plan| run::run(base, plan, &[]))
    }

    /// Adds suggested corrections to [`AskError::Unknown`]; leaves other errors unchanged.
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

    /// Ranks the kinds of a question, likeliest first.
    fn kinds(&self, question: &str, mentions: &Mentions) -> Vec<Kind> {
        let mut ranked = self.kinds.ranked(question);
        for (kind, log) in &mut ranked {
            let says = |mention: &mentions::Mention| match mention.what {
                What::Cue(cue) => names_kind(cue) == Some(*kind),
                _ => false,
            };
            if mentions.all.iter().any(says) {
                *log += KIND_BONUS;
            }
        }
        ranked.sort_by(|one, other| other.1.total_cmp(&one.1));
        ranked.into_iter().map(|(kind, _)| kind).collect()
    }
}

/// Returns the kind that a phrase implies by itself.
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
