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
//! Three kinds: relational (a metapath alone), textual (words of documents alone), fused (both).
//! Every question records its template, slots, gold answer, properties with their field, votes and
//! seed. Questions that contain the name of an answer, or repeat another, are dropped.
//!
//! | limit | value |
//! | --- | --- |
//! | questions | 1 to 10,000 |
//! | answers of a question | 1 to 20 |
//! | groundings tried | 60 per question |
//! | templates | one per 10 questions, 8 to 64, from the schema; 1,000 from a file |
//!
//! The same base, options and (stored) replies of a model give the same bytes. Independent of
//! programs and of how questions are answered.

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

/// Maximum number of answers of a question, as in the validation and test splits of the benchmark.
pub const MAX_ANSWERS: usize = 20;
/// Maximum number of questions of one synthesis.
pub const MAX_QUERIES: usize = 10_000;
/// Number of questions per template from the schema.
const PER_TEMPLATE: usize = 10;
/// Range of the number of templates from the schema.
const TEMPLATES: std::ops::RangeInclusive<usize> = 8..=64;

/// Options of a synthesis.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Number of questions.
    pub queries: usize,
    /// Seed of every draw.
    pub seed: u64,
    /// Templates; `None` discovers them from the schema of the base.
    pub templates: Option<Vec<Template>>,
}

/// A question with its answers and provenance.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The question in words.
    pub text: String,
    /// Kind of the question: by relations, words or both.
    pub kind: Kind,
    /// Style of its wording.
    pub style: Style,
    /// Id of its template.
    pub template: String,
    /// Nodes that fill the slots.
    pub slots: Vec<NodeId>,
    /// The answer whose document it was made from.
    pub gold: NodeId,
    /// Words of that document that every answer has.
    pub properties: Vec<Property>,
    /// Votes of a model on each candidate; empty without a model.
    pub votes: Vec<Vote>,
    /// The answers, ascending, 1 to 20.
    pub answers: Vec<NodeId>,
}

/// Result of a synthesis.
#[derive(Debug)]
pub struct Synthesis {
    /// The questions, in the order drawn.
    pub questions: Vec<Question>,
    /// Number of templates drawn from.
    pub n_templates: usize,
    /// Quality report.
    pub quality: Quality,
    /// Why there are fewer than requested, if a model gave no more replies.
    pub interruption: Option<Interruption>,
    seed: u64,
}

/// The error that ended the requests to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Interruption(pub LlmError);

/// Why there are no questions.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The caller asked to stop.
    #[error("stopped; no questions were written")]
    Stopped,
    /// The number of questions is out of range.
    #[error("{0} questions are outside 1 to {MAX_QUERIES}")]
    Number(usize),
    /// No metapath of the base ends at a few answers.
    #[error(
        "no relations of the base lead to 1 to 20 answers from enough nodes (5, or 30 in a base of 300 \
         nodes or more); give your own templates with --templates FILE \
         (docs/how-to/synthetic-questions.md describes the format)"
    )]
    NoTemplates,
    /// The base has no numbers to ask about.
    #[error(
        "the base has no numbers to ask about: no type of 50 nodes or more has a field of numbers, or \
         numbers of links, with five different values in 100 of its nodes"
    )]
    NoNumbers,
    /// No draw gave a question.
    #[error(
        "no question could be made from {templates} templates: {reason}; give other templates with \
         --templates FILE"
    )]
    NoQuestions {
        /// Number of templates drawn from.
        templates: usize,
        /// Most frequent reason for a rejected draw.
        reason: String,
    },
    /// A prompt cannot be rendered.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// A model gave no reply before the first question was made.
    #[error(transparent)]
    Llm(LlmError),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
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

/// Progress reports and the stop flag of a caller.
pub struct Watch<'a> {
    /// Called with a stage, its finished units and all its units.
    pub progress: &'a mut dyn FnMut(&'static str, usize, usize),
    /// Set to stop.
    pub stop: &'a AtomicBool,
}

impl Watch<'_> {
    fn report(&mut self, stage: &'static str, done: usize, total: usize) -> Result<(), SynthError> {
        (self.progress)(stage, done, total);
        if self.stop.load(Ordering::Relaxed) { Err(SynthError::Stopped) } else { Ok(()) }
    }
}

/// Makes questions about a base: with a model as the benchmark does, else from words and patterns.
///
/// # Errors
/// [`SynthError`]. A model that gives no more replies, or would exceed a ceiling, ends the
/// synthesis early: the questions so far are kept, with a [`Synthesis::interruption`].
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
        if let Some(Interruption(error)) = interruption {
            return Err(error.into());
        }
        let frequent = dropped.iter().max_by_key(|pair| pair.1);
        let reason = frequent.map_or("nothing was drawn".to_owned(), |(reason, n)| {
            format!("in {n} draws the question {reason}")
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
    /// Returns the numbers of questions in train, val and test.
    pub fn splits(&self) -> [usize; 3] {
        split_sizes(&splits(self.questions.iter().map(|question| question.template.as_str())))
    }

    /// Writes `qa.csv` and `split/{train,val,test}.index` into a directory, which is created if
    /// missing.
    ///
    /// # Errors
    /// [`SynthError::Write`], also if one of the files exists.
    pub fn write(&self, ids: Ids<'_>, dir: &Path) -> Result<(), SynthError> {
        write::write(&self.questions, self.seed, ids, dir)
    }
}
