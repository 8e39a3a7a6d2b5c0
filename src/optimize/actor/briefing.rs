//! What a model is told of the base and the language: texts that are the same for all prompts of a
//! run.
//!
//! Must not know: queries, answers, programs.

use std::fmt::Write;

use crate::{
    kb::{Kb, TypeId},
    sandbox::Limits,
    tools::{GROUPS, registry},
};

/// Notes on the language, which people read as well.
const LANGUAGE: &str = include_str!("../../../sandboxes/rhai/README.md");
/// The group of tools that ask a model.
const LLM_GROUP: &str = "llm";
/// Nodes of a type whose fields are looked at.
const LOOKED_AT: usize = 200;
/// Fields named for a type.
const MAX_FIELDS: usize = 16;
/// Ends of relations that are told.
const MAX_TUPLES: usize = 120;
/// Names given as examples for a type.
const EXAMPLE_NAMES: usize = 3;
/// Characters of an example name.
const NAME_CHARS: usize = 60;

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
        let (schema, toolkit) = (schema(kb), toolkit(llm_tools));
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

/// Types with counts, fields and example names, and relations with their ends.
fn schema(kb: &Kb) -> String {
    let mut text = format!("Knowledge base: {}\n\nNode types:\n", kb.title());
    for at in 0..kb.types().len() {
        let id = TypeId(at as u16);
        let nodes = kb.nodes_of_type(id);
        let step = (nodes.len() / LOOKED_AT).max(1);
        let mut fields = vec![0usize; kb.field_names().len()];
        for &node in nodes.iter().step_by(step) {
            kb.fields(node).for_each(|(field, _)| fields[usize::from(field.0)] += 1);
        }
        let mut common: Vec<usize> = (0..fields.len()).filter(|&field| fields[field] > 0).collect();
        common.sort_by_key(|&field| std::cmp::Reverse(fields[field]));
        let names: Vec<&str> =
            common.iter().take(MAX_FIELDS).map(|&field| kb.field_names()[field].as_str()).collect();
        let answers = if kb.candidate_types().contains(&id) { ", may be answers" } else { "" };
        let examples: Vec<String> = nodes
            .iter()
            .step_by((nodes.len() / EXAMPLE_NAMES).max(1))
            .take(EXAMPLE_NAMES)
            .map(|&node| {
                format!("{:?}", kb.name(node).chars().take(NAME_CHARS).collect::<String>())
            })
            .collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "- {}: {} nodes{answers}; fields: {}; such as {}",
            kb.type_name(id),
            nodes.len(),
            if names.is_empty() { "none".to_owned() } else { names.join(", ") },
            examples.join(", ")
        );
    }
    text += "\nRelations (source -relation-> target, edges):\n";
    for tuple in kb.tuples().iter().take(MAX_TUPLES) {
        let _ = writeln!(
            text,
            "- {} -{}-> {}, {}",
            kb.type_name(tuple.source),
            kb.relation_name(tuple.relation),
            kb.type_name(tuple.target),
            tuple.edges
        );
    }
    if kb.tuples().len() > MAX_TUPLES {
        let _ = writeln!(text, "- and {} more", kb.tuples().len() - MAX_TUPLES);
    }
    text
}

/// The functions by group, each with signature, meaning, cost and example.
fn toolkit(llm_tools: bool) -> String {
    let mut text = String::new();
    for (group, purpose) in GROUPS.iter().filter(|(group, _)| llm_tools || *group != LLM_GROUP) {
        let _ = writeln!(text, "{group}: {purpose}");
        for spec in registry().iter().filter(|spec| spec.group == *group) {
            let _ = writeln!(
                text,
                "- {}. {} Cost: {}. Example: {}",
                spec.signature(),
                spec.doc,
                spec.cost,
                spec.example
            );
        }
        text.push('\n');
    }
    text
}
