//! Texts for prompts about the base, the tools and the language of programs; they are the same for
//! all prompts of a run.

use std::fmt::Write;

use crate::asks::{REQUESTS_PER_RUN, TOKENS_PER_RUN};
use agent_kb::Kb;
use agent_sandbox::Limits;
use agent_tools::{ToolkitScope, schema_outline, schema_text, toolkit_outline, toolkit_text};

/// Manual of the language of programs.
const LANGUAGE: &str = include_str!("../../../sandboxes/rhai/README.md");
/// Heading of the manual's part on limits. Prompts omit this part and show [`limits`] instead.
const LIMITS_PART: &str = "\n## Limits of one call\n";

/// Texts for prompts about the base, the tools and the language of programs.
pub(super) struct Briefing {
    /// Description of the base's node types, fields and relations.
    pub(super) schema: String,
    /// Short form of the schema, for prompts that show programs, queries and documents.
    pub(super) outline: String,
    /// Description of the functions that programs may call.
    pub(super) toolkit: String,
    /// The manual of the language of programs, without the list of limits.
    pub(super) language: &'static str,
    /// Short forms of the toolkit and the manual, for prompts that show a program that runs.
    pub(super) toolkit_outline: String,
    pub(super) language_outline: String,
    /// The limits that programs are most likely to reach in one run.
    pub(super) limits: String,
}

impl Briefing {
    /// Builds the texts for a base and the groups of tools that prompts list.
    pub(super) fn new(kb: &Kb, listed: ToolkitScope) -> Self {
        Self {
            schema: schema_text(kb),
            outline: schema_outline(kb),
            toolkit: toolkit_text(kb, listed),
            language: language(),
            toolkit_outline: toolkit_outline(listed),
            language_outline: language_outline(),
            limits: limits(listed),
        }
    }
}

/// Returns the manual of the language without its list of limits.
fn language() -> &'static str {
    LANGUAGE.split_once(LIMITS_PART).map_or(LANGUAGE, |parts| parts.0)
}

/// Returns the manual of the language without its list of limits and its example program.
pub(super) fn language_outline() -> String {
    without_fence(language())
}

/// Returns a Markdown text without its first fenced block.
fn without_fence(text: &str) -> String {
    let mut parts = text.splitn(3, "```");
    match (parts.next(), parts.next(), parts.next()) {
        (Some(before), Some(_), Some(behind)) => format!("{before}{}", behind.trim_start()),
        _ => text.to_owned(),
    }
}

/// Returns a text with the limits that programs are most likely to reach; the manual of the
/// language lists all limits.
fn limits(listed: ToolkitScope) -> String {
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
    if listed.llm {
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
    fn request_limits_are_listed_if_llm_tools_are() {
        let listed = |llm| limits(ToolkitScope { llm, ..ToolkitScope::default() });
        assert!(listed(true).starts_with(&listed(false)));
        assert!(listed(true).contains("at most 4 requests with 40000 tokens"), "{}", listed(true));
    }

    #[test]
    fn the_notes_in_short_lack_the_example_and_nothing_else() {
        let short = language_outline();
        assert!(!short.contains("```") && !short.contains("//! category"), "{short}");
        assert!(short.contains("is required.") && short.contains("\n## Values\n"), "{short}");
        assert_eq!(without_fence("no block"), "no block");
    }
}
