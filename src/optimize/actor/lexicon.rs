//! Asks a model to write the questions of the [`lexicon`]. The prompts show types and relations,
//! with the names of a few connected nodes, but no queries.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    Ablation, Result, Run,
    actor::{Actor, execution_trace::cut},
    lexicon::{self, PLACE},
};
use agent_ground::words::Languages;
use agent_index::IndexedBase;
use agent_infer::bundle::reading::{Metapath, metapath_in_words};
use agent_kb::Kb;
use agent_llm::RoleSpec;

/// The role that writes questions about relations.
pub(crate) const LEXICON_ROLE: RoleSpec = RoleSpec {
    name: "lexicon",
    summary: "writes questions about each relation of the base",
    temperature: Some(0.0),
    max_tokens: 8_192,
};

/// Maximum number of metapaths in one request.
pub(super) const BATCH: usize = 20;
/// Maximum number of questions about a metapath; further questions in a reply are ignored.
const QUESTIONS: usize = 12;
/// Maximum length in characters of a question; longer questions are ignored.
const QUESTION_CHARS: usize = 300;
/// Number of example edges per metapath in a prompt.
const EXAMPLES: usize = 2;
/// Maximum length in characters of a name in a prompt.
const NAME_CHARS: usize = 60;
/// Maximum number of nodes whose edges are searched for examples.
const SAMPLE: usize = 200;

/// Formats the metapaths of one request for the prompt, numbered from 1.
fn numbered(base: &IndexedBase, batch: &[Metapath]) -> Value {
    let kb = &base.kb;
    let one = |(metapath, n): (&Metapath, usize)| {
        json!({
            "n": n,
            "metapath": metapath_in_words(base, metapath),
            "named": kb.type_name(metapath.start),
            "wanted": kb.type_name(metapath.target),
            "examples": examples(kb, metapath),
        })
    };
    batch.iter().zip(1..).map(one).collect()
}

/// Returns example edges of a metapath, each as the name of its start node and the name of its end
/// node. The start nodes are an evenly spaced sample of the nodes of the metapath's start type.
fn examples(kb: &Kb, metapath: &Metapath) -> Vec<String> {
    let &[(relation, direction)] = metapath.steps.as_slice() else { return Vec::new() };
    let nodes = kb.nodes_of_type(metapath.start);
    let name = |node| cut(kb.name(node), NAME_CHARS);
    let edge = |&node: &u32| {
        let wanted = kb.neighbors(node, relation, direction);
        let wanted = wanted.iter().find(|&&end| kb.node_type(end) == metapath.target)?;
        Some(format!("{} -> {}", name(node), name(*wanted)))
    };
    let sample = nodes.iter().step_by(nodes.len().div_ceil(SAMPLE).max(1));
    sample.filter_map(edge).take(EXAMPLES).collect()
}

/// Returns the questions of a reply about `n` metapaths, each with the index of its metapath: at
/// most [`QUESTIONS`] per metapath that contain the placeholder for the name and are short enough.
fn questions(reply: &Value, n: usize) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for one in reply["metapaths"].as_array().into_iter().flatten() {
        let number = one["n"].as_u64().and_then(|n| usize::try_from(n).ok());
        let is_new = |number: &usize| found.iter().all(|&(at, _)| at + 1 != *number);
        let number = number.filter(|number| (1..=n).contains(number) && is_new(number));
        let Some(number) = number else { continue };
        let texts = one["questions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let usable =
            texts.filter(|text| text.contains(PLACE) && text.chars().nth(QUESTION_CHARS).is_none());
        found.extend(usable.take(QUESTIONS).map(|text| (number - 1, text.to_owned())));
    }
    found
}

impl Run<'_> {
    /// Asks the model for questions about each metapath of one step, and returns the questions,
    /// keyed by the text of the metapath. If a reply is unusable, its metapaths have no questions.
    ///
    /// # Errors
    /// If the model cannot be asked, or the journal cannot be written.
    pub(crate) fn write_questions(
        &mut self,
        actor: &mut Actor,
    ) -> Result<BTreeMap<String, Vec<String>>> {
        if self.options.lacks(Ablation::Lexicon) {
            return Ok(BTreeMap::new());
        }
        self.report_phase("wording questions");
        let base = self.base.clone();
        let metapaths = lexicon::metapaths(&base.kb);
        let batches: Vec<&[Metapath]> = metapaths.chunks(BATCH).collect();
        let languages = base.stems.languages();
        let language = match languages == Languages::NONE || languages.is_english() {
            true => String::new(),
            false => languages.to_string(),
        };
        let inputs = batches
            .iter()
            .map(|batch| json!({ "language": language, "metapaths": numbered(&base, batch) }));
        let (role, inputs) = (LEXICON_ROLE.role(), inputs.collect());
        let replies = actor.ask_json_all(role, "lexicon/write", inputs, 0)?;
        let mut written: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (batch, reply) in batches.iter().zip(replies) {
            match reply {
                Ok(reply) => {
                    for (at, question) in questions(&reply, batch.len()) {
                        let metapath = metapath_in_words(&base, &batch[at]);
                        written.entry(metapath).or_default().push(question);
                    }
                }
                Err(why) => self.report(format!("no questions about some relations: {why}")),
            }
        }
        self.commit_asked(actor, None, ("lexicon", "questions"), &written)?;
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_without_a_name_or_without_a_metapath_are_ignored() {
        let long = format!("{PLACE} {}", "x".repeat(QUESTION_CHARS));
        let reply = json!({ "metapaths": [
            { "n": 2, "questions": ["who makes {}", "who makes it", long, 7] },
            { "n": 3, "questions": ["what is {}"] },
            { "n": 0, "questions": ["what is {}"] },
            { "n": 1, "questions": vec!["by {}"; QUESTIONS + 1] },
            { "n": 1, "questions": ["of {}"] },
        ] });
        let found = questions(&reply, 2);
        assert_eq!(found[0], (1, "who makes {}".to_owned()));
        assert_eq!(found.len(), 1 + QUESTIONS);
        assert_eq!(questions(&Value::Null, 2), []);
    }
}
