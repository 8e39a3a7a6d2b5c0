//! What a model is told of the base and the language: texts that are the same for all prompts of a
//! run.
//!
//! Must not know: queries, answers, programs.

use crate::{
    kb::Kb,
    sandbox::Limits,
    tools::{schema_text, toolkit_text},
};

/// Notes on the language, which people read as well.
const LANGUAGE: &str = include_str!("../../../sandboxes/rhai/README.md");

/// Texts for prompts.
pub(super) struct Briefing {
    /// Node types, fields and relations of the base.
    pub(super) schema: String,
    /// The functions that programs may call.
    pub(super) toolkit: String,
    /// How programs are written.
    pub(super) language: &'static str,
    /// What one run of a program may use.
    pub(super) limits: String,
}

impl Briefing {
    /// The texts for a base, with or without the tools that ask a model.
    pub(super) fn new(kb: &Kb, llm_tools: bool) -> Self {
        let (schema, toolkit) = (schema_text(kb), toolkit_text(llm_tools));
        Self { schema, toolkit, language: LANGUAGE, limits: limits() }
    }
}

/// The limits that a program meets first; the notes on the language name all.
fn limits() -> String {
    let limits = Limits::default();
    format!(
        "At most {} s of time, {} steps, {} calls of functions and {} answers for one query.",
        limits.deadline.as_secs_f64(),
        limits.operations,
        limits.tool_calls,
        limits.max_answers
    )
}
