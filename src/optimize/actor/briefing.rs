//! What a model is told of the base and the language: texts that are the same for all prompts of a
//! run.
//!
//! Must not know: queries, answers, programs.

use crate::{
    kb::Kb,
    sandbox::Limits,
    tools::{Told, schema_outline, schema_text, toolkit_text},
};

/// Notes on the language, which people read as well.
const LANGUAGE: &str = include_str!("../../../sandboxes/rhai/README.md");
/// The part of the notes that prompts leave out: they name the limits that a program meets first.
const LIMITS_PART: &str = "\n## Limits of one call\n";

/// Texts for prompts.
pub(super) struct Briefing {
    /// Node types, fields and relations of the base.
    pub(super) schema: String,
    /// The same in short, for prompts that show programs, queries and documents of the base.
    pub(super) outline: String,
    /// The functions that programs may call.
    pub(super) toolkit: String,
    /// How programs are written.
    pub(super) language: &'static str,
    /// What one run of a program may use.
    pub(super) limits: String,
}

impl Briefing {
    /// The texts for a base, with some tools beside those that every program needs.
    pub(super) fn new(kb: &Kb, told: Told) -> Self {
        let (schema, outline) = (schema_text(kb), schema_outline(kb));
        let toolkit = toolkit_text(kb, told);
        let language = LANGUAGE.split_once(LIMITS_PART).map_or(LANGUAGE, |parts| parts.0);
        Self { schema, outline, toolkit, language, limits: limits() }
    }
}

/// The limits that a program meets first; the notes on the language name all.
fn limits() -> String {
    let limits = Limits::default();
    format!(
        "For one query at most {} s of processor time, {} million steps, {} calls of functions, {} MiB of \
         heap and {} answers; nested calls at most {} deep, {} parameters.",
        limits.deadline.as_secs_f64(),
        limits.operations / 1_000_000,
        limits.tool_calls,
        limits.memory_bytes >> 20,
        limits.max_answers,
        limits.call_levels,
        limits.parameters
    )
}
