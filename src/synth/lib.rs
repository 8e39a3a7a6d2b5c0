//! Synthetic questions with answers for a base without labels, by the construction pipeline of the
//! STaRK benchmark (Wu et al. 2024, section 2.4).
//!
//! ```text
//! templates (schema of the base, or a file)      discover, template
//!   -> groundings: slots filled, metapaths executed     kb::metapath
//!   -> properties of a gold answer's document           properties, or a model (asking)
//!   -> filter: the candidates that have them            exact, or votes of a model
//!   -> wording, splits, quality report                  mention, wording, write, quality
//! ```
//!
//! There are three kinds of questions: relational (about a metapath only), textual (about words of
//! documents only), and fused (about both). Every question records its template, slots, gold
//! answer, properties with their field, votes and seed. Questions that contain the name of an
//! answer, or repeat another question, are dropped.
//!
//! | limit | value |
//! | --- | --- |
//! | questions | 1 to 10,000 |
//! | answers to a question | 1 to 20 |
//! | groundings tried | 60 per question |
//! | templates from the schema | one per 10 questions, at least 8 and at most 64 |
//! | templates from a file | 1,000 |
//!
//! The same base, options and stored replies of a model give the same bytes. The crate does not
//! depend on programs or on how questions are answered.

mod asking;
mod construct;
mod discover;
mod mention;
mod properties;
pub mod quality;
mod template;
mod wording;
mod write;

#[cfg(test)]
#[path = "../llm/scripted.rs"]
mod scripted;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

pub use crate::{
    asking::{Estimate, Requester, SYNTHESIZE_ROLE, Vote, estimate},
    construct::DropCounts,
    properties::Property,
    quality::Quality,
    template::{BENCHMARK, LoadedTemplates, Template, TemplateError, read as read_templates},
    wording::{Kind, Style},
    write::{Ids, split_sizes, splits, write_files},
};
use agent_index::IndexedBase;
use agent_kb::NodeId;
use agent_llm::{LlmError, prompts::PromptError};

/// Maximum number of answers to a question, as in the validation and test splits of the benchmark.
pub const MAX_ANSWERS: usize = 20;
/// Maximum number of questions of one synthesis.
pub const MAX_QUERIES: usize = 10_000;
/// Number of requested questions per template discovered from the schema.
const PER_TEMPLATE: usize = 10;
/// Minimum and maximum number of templates discovered from the schema.
const TEMPLATES: std::ops::RangeInclusive<usize> = 8..=64;

/// Options of a synthesis.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Number of questions to make, 1 to [`MAX_QUERIES`].
    pub queries: usize,
    /// Seed of all random draws.
    pub seed: u64,
    /// Templates to draw from; `None` discovers templates from the schema of the base.
    pub templates: Option<Vec<Template>>,
}

/// A question with its answers and a record of how it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The wording of the question.
    pub text: String,
    /// Whether the question is about relations, words of documents, or both.
    pub kind: Kind,
    /// Style of the wording, such as an imperative.
    pub style: Style,
    /// Id of the question's template.
    pub template: String,
    /// Nodes that fill the template's slots, in the order of the slots.
    pub slots: Vec<NodeId>,
    /// The answer from whose document the question was made.
    pub gold: NodeId,
    /// Words of the gold answer's document, which all answers have; empty for a relational
    /// question.
    pub properties: Vec<Property>,
    /// Votes of the two filters on each candidate; empty without a model.
    pub votes: Vec<Vote>,
    /// Node numbers of the answers, ascending; 1 to [`MAX_ANSWERS`].
    pub answers: Vec<NodeId>,
}

/// Result of a synthesis.
#[derive(Debug)]
pub struct Synthesis {
    /// The questions, in the order in which they were drawn.
    pub questions: Vec<Question>,
    /// Number of templates from which the questions were drawn.
    pub n_templates: usize,
    /// Statistics of the questions and of the rejected draws.
    pub quality: Quality,
    /// Error that ended the requests to the model before all questions were made; `None` if there
    /// was no such error.
    pub interruption: Option<LlmError>,
    seed: u64,
}

/// Why no questions were made or written.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The caller set the stop flag.
    #[error("stopped; no questions were written")]
    Stopped,
    /// The requested number of questions is not in 1 to [`MAX_QUERIES`].
    #[error("cannot make {0} questions; the number must be 1 to {MAX_QUERIES}")]
    Number(usize),
    /// No metapath of the base leads to 1 to 20 answers from enough nodes.
    #[error(
        "no relations of the base lead to 1 to 20 answers from enough nodes (5, or 30 in a base of 300 \
         nodes or more); give your own templates with --templates FILE \
         (docs/how-to/synthetic-questions.md describes the format)"
    )]
    NoTemplates,
    /// No type of the base has numbers with enough different values for questions about numbers.
    #[error(
        "the base has no suitable numbers; it needs a type with 50 nodes or more, and a numeric \
         field or a number of links with 5 distinct values in 100 nodes or more"
    )]
    NoNumbers,
    /// Every draw of a question was rejected.
    #[error(
        "no question could be made from {templates} templates: {reason}; give other templates with \
         --templates FILE"
    )]
    NoQuestions {
        /// Number of templates from which questions were drawn.
        templates: usize,
        /// The most frequent reason for rejecting a draw.
        reason: String,
    },
    /// A prompt could not be rendered.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The language model failed before the first question was made.
    #[error(transparent)]
    Llm(LlmError),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder that could not be written.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl From<LlmError> for SynthError {
    fn from(error: LlmError) -> Self {
        match error {
            LlmError::Stopped => Self::Stopped,
            other => Self::Llm(other),
        }
    }
}

/// How a caller watches and stops a synthesis.
pub struct Watch<'a> {
    /// Receives the name of the stage, the number of its finished units and the number of all its
    /// units.
    pub progress: &'a mut dyn FnMut(&'static str, usize, usize),
    /// Flag that the caller sets to stop the synthesis.
    pub stop: &'a AtomicBool,
}

impl Watch<'_> {
    fn report(&mut self, stage: &'static str, done: usize, total: usize) -> Result<(), SynthError> {
        (self.progress)(stage, done, total);
        if self.stop.load(Ordering::Relaxed) { Err(SynthError::Stopped) } else { Ok(()) }
    }
}

/// Makes questions about a base. With a requester, a language model writes them by the steps of the
/// benchmark. Without one, they are made from words of documents and patterns.
///
/// # Errors
/// [`SynthError`]. If the model gives no more replies, or a request would exceed a ceiling, the
/// synthesis ends early: it keeps the questions made so far and sets [`Synthesis::interruption`].
/// The error is returned only if no question was made.
pub fn synthesize(
    base: &IndexedBase,
    options: &Options,
    requester: Option<&Requester>,
    watch: &mut Watch<'_>,
) -> Result<Synthesis, SynthError> {
    if !(1..=MAX_QUERIES).contains(&options.queries) {
        return Err(SynthError::Number(options.queries));
    }
    watch.report("templates", 0, 1)?;
    let templates = match &options.templates {
        Some(templates) => templates.clone(),
        None => discover::templates(&base.kb, wanted_templates(options.queries), options.seed),
    };
    watch.report("templates", 1, 1)?;
    if templates.is_empty() {
        return Err(SynthError::NoTemplates);
    }
    let (wanted, seed) = (options.queries, options.seed);
    let made = match requester {
        Some(requester) => asking::construct(base, &templates, wanted, seed, requester, watch)?,
        None => construct::construct(base, &templates, wanted, seed, watch)?,
    };
    let (questions, dropped, interruption) = made;
    if questions.is_empty() {
        if let Some(error) = interruption {
            return Err(error.into());
        }
        let frequent = dropped.iter().max_by_key(|pair| pair.1);
        let reason = frequent.map_or("nothing was drawn".to_owned(), |(reason, n)| {
            format!("most often ({n} draws), the question {reason}")
        });
        return Err(SynthError::NoQuestions { templates: templates.len(), reason });
    }
    let quality = Quality::new(&questions, &dropped);
    Ok(Synthesis { questions, n_templates: templates.len(), quality, interruption, seed })
}

fn wanted_templates(queries: usize) -> usize {
    (queries / PER_TEMPLATE).clamp(*TEMPLATES.start(), *TEMPLATES.end())
}

impl Synthesis {
    /// Returns the split of each question.
    fn assigned(&self) -> Vec<usize> {
        splits(self.questions.iter().map(|question| question.template.as_str()))
    }

    /// Returns the numbers of questions in the splits train, val and test.
    pub fn splits(&self) -> [usize; 3] {
        split_sizes(&self.assigned())
    }

    /// Writes `qa.csv` and `split/{train,val,test}.index` into the directory `dir`, which is
    /// created if missing.
    ///
    /// # Errors
    /// [`SynthError::Write`], also if one of these files exists.
    pub fn write(&self, ids: Ids<'_>, dir: &Path) -> Result<(), SynthError> {
        let columns: Vec<&str> = write::COLUMNS.split(' ').collect();
        let rows = write::rows(&self.questions, self.seed, ids);
        write_files(dir, &columns, rows, &self.assigned())
    }
}
