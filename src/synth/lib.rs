//! Questions without labels: given a base, questions with their answers, made by the construction
//! pipeline of the STaRK benchmark (Wu et al. 2024, section 2.4).
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
//! Every question says how it came about: template, slots, gold answer, properties with their
//! field, votes, seed. A question that says the name of an answer, or repeats another, is dropped.
//!
//! | limit | value |
//! | --- | --- |
//! | questions | 1 to 10,000 |
//! | answers of a question | 1 to 20 |
//! | groundings tried | 60 for each question |
//! | templates | one for each 10 questions, 8 to 64, from the schema; 1,000 from a file |
//!
//! The same base, options and (kept) replies of a model give the same bytes.
//!
//! Must not know: programs, how questions are answered.

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
    construct::Dropped,
    properties::Property,
    quality::Quality,
    template::{BENCHMARK, FromFile, Template, TemplateError, read as read_templates},
    wording::{Kind, Style},
    write::{Ids, split_sizes, splits, write_files},
};
use agent_index::IndexedBase;
use agent_kb::NodeId;
use agent_llm::{LlmError, prompts::PromptError};

/// Answers of a question at most, as in the validation and test splits of the benchmark.
pub const MAX_ANSWERS: usize = 20;
/// Questions of one synthesis at most.
pub const MAX_QUERIES: usize = 10_000;
/// Questions for each template of the schema, and how many templates that makes at least and most.
const PER_TEMPLATE: usize = 10;
const TEMPLATES: std::ops::RangeInclusive<usize> = 8..=64;

/// What is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Questions.
    pub queries: usize,
    /// Seed of every draw.
    pub seed: u64,
    /// Templates; none takes them from the schema of the base.
    pub templates: Option<Vec<Template>>,
}

/// A question with its answers and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The question in words.
    pub text: String,
    /// What it asks by.
    pub kind: Kind,
    /// How it is put.
    pub style: Style,
    /// Id of its template.
    pub template: String,
    /// Nodes that fill the slots.
    pub slots: Vec<NodeId>,
    /// The answer whose document it was made from.
    pub gold: NodeId,
    /// Words of that document that every answer has.
    pub properties: Vec<Property>,
    /// What a model said of each candidate; empty without one.
    pub votes: Vec<Vote>,
    /// The answers, ascending, 1 to 20.
    pub answers: Vec<NodeId>,
}

/// Questions with what is to be said of them.
#[derive(Debug)]
pub struct Synthesis {
    /// In an order that says nothing.
    pub questions: Vec<Question>,
    /// Templates that were drawn from.
    pub n_templates: usize,
    /// How good they are, as far as numbers tell.
    pub quality: Quality,
    /// Why there are fewer than were wanted, where a model gave no more replies.
    pub stopped: Option<Stopped>,
    seed: u64,
}

/// Why a model was asked no more.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopped(pub LlmError);

/// Why there are no questions.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The caller asked to stop.
    #[error("stopped; no questions were written")]
    Stopped,
    /// A number of questions that is none.
    #[error("{0} questions are not possible; ask for 1 to {MAX_QUERIES}")]
    Number(usize),
    /// The base has no metapath that leads to a few answers.
    #[error(
        "the base has no relations that lead to 1 to 20 answers from 5 nodes or more, in a base of \
         300 nodes or more from 30; give templates of your own with --templates FILE \
         (docs/how-to/synthetic-questions.md has their form)"
    )]
    NoTemplates,
    /// The base has no numbers to ask about.
    #[error(
        "the base has no numbers to ask about: no type of 50 nodes or more has a field of numbers, or \
         numbers of links, with five different values in 100 of its nodes"
    )]
    NoNumbers,
    /// No draw led to a question.
    #[error(
        "no question could be made of {templates} templates: {why}; give other templates with \
         --templates FILE"
    )]
    NoQuestions {
        /// Templates that were drawn from.
        templates: usize,
        /// What most draws ended with.
        why: String,
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
        /// What the system said.
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

/// Passes progress on and turns a raised stop flag into an error.
pub struct Watch<'a> {
    /// Told what is done, of how much.
    pub progress: &'a mut dyn FnMut(&'static str, usize, usize),
    /// Raised by who does not want to wait.
    pub stop: &'a AtomicBool,
}

impl Watch<'_> {
    fn at(&mut self, what: &'static str, done: usize, of: usize) -> Result<(), SynthError> {
        (self.progress)(what, done, of);
        if self.stop.load(Ordering::Relaxed) { Err(SynthError::Stopped) } else { Ok(()) }
    }
}

/// Makes questions about a base; with a model as the benchmark does, else from words and patterns.
///
/// # Errors
/// [`SynthError`]. A model that gives no more replies, or would pass a ceiling, ends the making
/// early: what was made so far is kept, and [`Synthesis::stopped`] says why.
pub fn synthesize(
    base: &IndexedBase,
    options: &Options,
    requester: Option<&Requester>,
    watch: &mut Watch<'_>,
) -> Result<Synthesis, SynthError> {
    if !(1..=MAX_QUERIES).contains(&options.queries) {
        return Err(SynthError::Number(options.queries));
    }
    watch.at("templates", 0, 1)?;
    let templates = match &options.templates {
        Some(templates) => templates.clone(),
        None => discover::templates(&base.kb, wanted_templates(options.queries), options.seed),
    };
    watch.at("templates", 1, 1)?;
    if templates.is_empty() {
        return Err(SynthError::NoTemplates);
    }
    let (wanted, seed) = (options.queries, options.seed);
    let made = match requester {
        Some(requester) => asking::construct(base, &templates, wanted, seed, requester, watch)?,
        None => construct::construct(base, &templates, wanted, seed, watch)?,
    };
    let (questions, dropped, stopped) = made;
    if questions.is_empty() {
        if let Some(Stopped(error)) = stopped {
            return Err(error.into());
        }
        let most = dropped.iter().max_by_key(|pair| pair.1);
        let why = most.map_or("nothing was drawn".to_owned(), |(why, n)| {
            format!("{n} draws ended with one that {why}")
        });
        return Err(SynthError::NoQuestions { templates: templates.len(), why });
    }
    let quality = Quality::new(&questions, &dropped);
    Ok(Synthesis { questions, n_templates: templates.len(), quality, stopped, seed })
}

fn wanted_templates(queries: usize) -> usize {
    (queries / PER_TEMPLATE).clamp(*TEMPLATES.start(), *TEMPLATES.end())
}

impl Synthesis {
    /// Questions in train, val and test.
    pub fn splits(&self) -> [usize; 3] {
        split_sizes(&splits(self.questions.iter().map(|one| one.template.as_str())))
    }

    /// Writes `qa.csv`, with such ids of nodes, and `split/{train,val,test}.index` into a directory,
    /// which is made if it is not there.
    ///
    /// # Errors
    /// [`SynthError::Write`], also where one of the files is there already.
    pub fn write(&self, ids: Ids<'_>, dir: &Path) -> Result<(), SynthError> {
        write::write(&self.questions, self.seed, ids, dir)
    }
}
