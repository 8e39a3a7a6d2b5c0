//! What a model is told of the base and the language: texts that are the same for all prompts of a
//! run.
//!
//! Must not know: queries, answers, programs.

use std::fmt::Write;

use crate::asks::{REQUESTS_PER_RUN, TOKENS_PER_RUN};
use agent_kb::Kb;
use agent_sandbox::Limits;
use agent_tools::{ToolkitScope, schema_outline, schema_text, toolkit_outline, toolkit_text};

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
    /// Both in short, for prompts that show a program that runs.
    pub(super) toolkit_outline: String,
    pub(super) language_outline: String,
    /// What one run of a program may use.
    pub(super) limits: String,
}

impl Briefing {
    /// The texts for a base, with some tools beside those that every program needs.
    pub(super) fn new(kb: &Kb, told: ToolkitScope) -> Self {
        let (schema, outline) = (schema_text(kb), schema_outline(kb));
        let toolkit = toolkit_text(kb, told);
        Self {
            schema,
            outline,
            toolkit,
            language: language(),
            toolkit_outline: toolkit_outline(told),
            language_outline: language_outline(),
            limits: limits(told),
        }
    }
}

/// How programs are written, without the limits that a program meets late.
fn language() -> &'static str {
    LANGUAGE.split_once(LIMITS_PART).map_or(LANGUAGE, |parts| parts.0)
}

/// The same without the example.
pub(super) fn language_outline() -> String {
    without_fence(language())
}

/// A text without its first fenced block: a whole program, as an example of one.
fn without_fence(text: &str) -> String {
    let mut parts = text.splitn(3, "```");
    match (parts.next(), parts.next(), parts.next()) {
        (Some(before), Some(_), Some(behind)) => format!("{before}{}", behind.trim_start()),
        _ => text.to_owned(),
    }
}

/// The limits that a program meets first; the notes on the language name all.
fn limits(told: ToolkitScope) -> String {
    let limits = Limits::default();
    let mut text = format!(
        "For one query at most {} s of processor time, {} million steps, {} calls of functions, {} MiB of \
         heap and {} answers; nested calls at most {} deep, {} parameters.",
        limits.deadline.as_secs_f64(),
        limits.operations / 1_000_000,
        limits.tool_calls,
        limits.memory_bytes >> 20,
        limits.max_answers,
        limits.call_levels,
        limits.parameters
    );
    if told.llm {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            " A language model is configured; of functions that ask it, at most {REQUESTS_PER_RUN} requests with {TOKENS_PER_RUN} \
             tokens in all for one query while programs are compared. What all programs may ask is \
             bounded as well: it is enough for one or two categories, and a program that comes too late \
             is refused."
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_functions_may_ask_is_told_where_they_are() {
        let told = |llm| limits(ToolkitScope { llm, ..ToolkitScope::default() });
        assert!(told(true).starts_with(&told(false)));
        assert!(told(true).contains("at most 4 requests with 40000 tokens"), "{}", told(true));
    }

    #[test]
    fn the_notes_in_short_lack_the_example_and_nothing_else() {
        let short = language_outline();
        assert!(!short.contains("```") && !short.contains("//! category"), "{short}");
        assert!(short.contains("is required.") && short.contains("\n## Values\n"), "{short}");
        assert_eq!(without_fence("no block"), "no block");
    }
}
