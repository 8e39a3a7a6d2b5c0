//! Makes questions with a language model, by the steps of the STaRK benchmark: the model lists
//! properties of a gold answer's document; two filters check the properties for all candidates; the
//! model words a question from the relations and the properties, and then rewords it.
//!
//! Replies are not trusted: a candidate is an answer only if both filters find every property in
//! its document; `NA` or an unusable reply of a filter counts as not found. A question whose gold
//! answer fails is dropped. The number of requests per question is bounded. Replies are stored, so
//! that no reply is paid for twice. Does not depend on how models are reached or on what replies
//! cost.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    DropCounts, Interruption, MAX_ANSWERS, Property, Question, SynthError, Watch,
    construct::{Grounding, QuestionMaker},
    quality::GOLD_FAILED,
    template::Template,
    wording::{self, Kind, Style},
};
use agent_dataset::sample::random::Stream;
use agent_index::IndexedBase;
use agent_kb::{Kb, NodeId};
use agent_llm::{
    Llm, LlmError, Message, Request, RoleSpec, Schema,
    prompts::{PromptError, Prompts},
};

/// Role of the model that makes synthetic questions.
pub const SYNTHESIZE_ROLE: RoleSpec = RoleSpec {
    name: "synthesize",
    summary: "makes questions with answers for a base without labels",
    temperature: Some(0.0),
    max_tokens: 1_024,
};

/// Maximum number of draws for which the model is asked, per requested question.
const ATTEMPTS: usize = 4;
/// Maximum number of draws, per requested question, whether or not the model is asked.
const DRAWS: usize = 60;
/// Number of properties that the model is asked to list per document.
const PROPERTIES: usize = 5;
/// Maximum number of properties that a question uses.
const MAX_USED: usize = 2;
/// Share of questions about relations only, per cent.
const RELATIONAL: usize = 15;
/// Maximum length of a question's text, characters.
const MAX_QUESTION: usize = 600;
/// Maximum number of requests to the model to repair a malformed reply.
const REPAIRS: u32 = 1;
/// Assumed number of tokens of a short prompt and of a long prompt, for the estimate.
const SENT: [u64; 2] = [400, 6_000];
/// Assumed number of tokens of a short reply, for the estimate.
const SHORT_REPLY: u64 = 60;

/// A language model together with the prompts that make questions.
pub struct Requester {
    llm: Arc<Llm>,
    prompts: Arc<Prompts>,
}

/// Vote of one of the two filters on a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ballot {
    /// The document of the candidate has every property.
    Yes,
    /// The candidate lacks a property, or its document does not mention one.
    No,
    /// The filter's reply was malformed.
    Malformed,
}

/// Votes of both filters on a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Vote {
    /// Node number of the candidate.
    pub node: NodeId,
    /// Vote of the filter that names where the document states each property, or `NA`.
    pub check: Ballot,
    /// Vote of the filter that judges for each property whether the document has it.
    pub judge: Ballot,
}

impl Vote {
    fn passes(self) -> bool {
        self.check == Ballot::Yes && self.judge == Ballot::Yes
    }
}

/// Estimated usage of a language model by a synthesis; each pair is minimum and maximum.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Minimum and maximum number of requests.
    pub calls: [u64; 2],
    /// Minimum and maximum number of tokens sent.
    pub tokens_in: [u64; 2],
    /// Minimum and maximum number of tokens received.
    pub tokens_out: [u64; 2],
    /// Minimum and maximum cost in US dollars; `None` if the model's price is unknown.
    pub usd: Option<[f64; 2]>,
}

/// Estimates the usage of a language model by a synthesis of `queries` questions; zero without a
/// requester.
pub fn estimate(requester: Option<&Requester>, queries: usize) -> Estimate {
    let Some(requester) = requester else {
        let none = [0; 2];
        return Estimate { calls: none, tokens_in: none, tokens_out: none, usd: Some([0.0; 2]) };
    };
    let n = queries as u64;
    // Least: two candidates per question, without repairs. Most: every attempt with all candidates,
    // and a repair of every reply.
    let max_calls = ATTEMPTS as u64 * (3 + 2 * MAX_ANSWERS as u64);
    let calls = [n * (3 + 2 * 2), n * max_calls * u64::from(1 + REPAIRS)];
    let set = requester.llm.role(&SYNTHESIZE_ROLE.role());
    let received = [SHORT_REPLY, set.map_or(0, |set| u64::from(set.max_tokens))];
    let times = |tokens: [u64; 2]| [calls[0] * tokens[0], calls[1] * tokens[1]];
    let (tokens_in, tokens_out) = (times(SENT), times(received));
    let price = set.and_then(|set| requester.llm.ledger().price(&set.model));
    let usd = price.map(|price| {
        [0, 1].map(|end| {
            let paid = tokens_in[end] as f64 * price.input + tokens_out[end] as f64 * price.output;
            paid / 1e6
        })
    });
    Estimate { calls, tokens_in, tokens_out, usd }
}

/// Why a draw with a model gave no question.
enum DrawError {
    /// The draw was rejected for this reason; another draw may succeed.
    Draw(&'static str),
    /// The model gives no more replies, for example because the budget is spent.
    Ends(LlmError),
    Prompt(PromptError),
}

impl From<PromptError> for DrawError {
    fn from(error: PromptError) -> Self {
        Self::Prompt(error)
    }
}

#[derive(Deserialize)]
struct PropertiesReply {
    properties: Vec<PropertyReply>,
}

#[derive(Deserialize)]
struct PropertyReply {
    text: String,
    source: String,
}

#[derive(Deserialize)]
struct QueryReply {
    query: String,
}

#[derive(Deserialize)]
struct CheckReply {
    sources: Vec<Source>,
}

#[derive(Deserialize)]
struct Source {
    n: usize,
    source: String,
}

#[derive(Deserialize)]
struct JudgeReply {
    verdicts: Vec<Verdict>,
}

#[derive(Deserialize)]
struct Verdict {
    n: usize,
    met: bool,
}

impl Requester {
    /// Creates a requester that asks `llm` with the templates of `prompts`.
    pub fn new(llm: Arc<Llm>, prompts: Arc<Prompts>) -> Requester {
        Requester { llm, prompts }
    }

    fn request(&self, prompt: &str, inputs: Value) -> Result<Request, PromptError> {
        let prompt = self.prompts.render(prompt, inputs)?;
        let messages = vec![Message::system(prompt.system), Message::user(prompt.user)];
        let schema = prompt.schema.map(|(name, schema)| Schema { name, schema });
        Ok(self.llm.request(SYNTHESIZE_ROLE.role(), messages, schema, 0))
    }

    /// Renders a prompt with each of the inputs, and asks the model; returns the replies in the
    /// same order, with `None` for a reply that is malformed even after its repair.
    fn ask<T: serde::de::DeserializeOwned>(
        &self,
        prompt: &str,
        inputs: Vec<Value>,
    ) -> Result<Vec<Option<T>>, DrawError> {
        let requests: Result<Vec<Request>, PromptError> =
            inputs.into_iter().map(|input| self.request(prompt, input)).collect();
        let answers = self.llm.ask_json_all(&requests?, REPAIRS).into_iter();
        answers
            .map(|(value, _)| match value {
                Ok(value) => Ok(serde_json::from_value(value).ok()),
                Err(error) if error.ends_run() => Err(DrawError::Ends(error)),
                Err(_) => Ok(None),
            })
            .collect()
    }

    fn ask_one<T: serde::de::DeserializeOwned>(
        &self,
        prompt: &str,
        inputs: Value,
        reason: &'static str,
    ) -> Result<T, DrawError> {
        let reply = self.ask(prompt, vec![inputs])?.into_iter().next().flatten();
        reply.ok_or(DrawError::Draw(reason))
    }

    /// Asks the model for the properties of a document; returns at most [`PROPERTIES`], without
    /// repetition.
    fn properties(&self, kb: &Kb, gold: NodeId) -> Result<Vec<Property>, DrawError> {
        let inputs = json!({
            "type": wording::type_words(kb.type_name(kb.node_type(gold))),
            "document": kb.text(gold), "n": PROPERTIES,
        });
        let reason = "has no properties in the model's reply";
        let reply: PropertiesReply = self.ask_one("synthesize/properties", inputs, reason)?;
        let mut found: Vec<Property> = Vec::new();
        for PropertyReply { text, source } in reply.properties.into_iter().take(PROPERTIES) {
            let words = text.trim().to_owned();
            if !words.is_empty() && !found.iter().any(|known| known.words == words) {
                found.push(Property { words, source, stems: Vec::new() });
            }
        }
        if found.is_empty() { Err(DrawError::Draw(reason)) } else { Ok(found) }
    }

    /// Asks both filters for their votes on every candidate.
    fn votes(
        &self,
        kb: &Kb,
        candidates: &[NodeId],
        properties: &[Property],
    ) -> Result<Vec<Vote>, DrawError> {
        let n = properties.len();
        let required: Vec<Value> = (1..)
            .zip(properties)
            .map(|(n, property)| json!({"n": n, "text": property.words}))
            .collect();
        let inputs = || -> Vec<Value> {
            let input = |&node: &NodeId| json!({"document": kb.text(node), "properties": required});
            candidates.iter().map(input).collect()
        };
        let ballot = |met: &mut dyn Iterator<Item = (usize, bool)>| {
            let met: Vec<(usize, bool)> = met.collect();
            match (1..=n).all(|n| met.iter().any(|&(number, met)| number == n && met)) {
                true => Ballot::Yes,
                false => Ballot::No,
            }
        };
        let checks = self.ask::<CheckReply>("synthesize/check", inputs())?;
        let judges = self.ask::<JudgeReply>("synthesize/judge", inputs())?;
        let mut votes = Vec::with_capacity(candidates.len());
        for ((&node, check), judge) in candidates.iter().zip(checks).zip(judges) {
            let check =
                check.map_or(Ballot::Malformed, |reply| {
                    let is_named = |source: &str| !["", "na", "n/a", "none"].contains(&source);
                    ballot(&mut reply.sources.iter().map(|entry| {
                        (entry.n, is_named(entry.source.trim().to_lowercase().as_str()))
                    }))
                });
            let judge = judge.map_or(Ballot::Malformed, |reply| {
                ballot(&mut reply.verdicts.iter().map(|verdict| (verdict.n, verdict.met)))
            });
            votes.push(Vote { node, check, judge });
        }
        Ok(votes)
    }

    /// Asks the model for a question about nodes of the type `kind` that meet the requirement and
    /// have the properties, and then for its rewording; returns the reworded question.
    fn word(
        &self,
        kind: &str,
        requirement: &str,
        properties: &[Property],
        style: Style,
    ) -> Result<String, DrawError> {
        let properties: Vec<&str> =
            properties.iter().map(|property| property.words.as_str()).collect();
        let inputs = json!({"type": kind, "requirement": requirement, "properties": properties,
                            "style": style.name()});
        let reason = "has no question in the model's reply";
        let fused: QueryReply = self.ask_one("synthesize/fuse", inputs, reason)?;
        let inputs = json!({"query": fused.query, "style": style.name()});
        let reworded: QueryReply = self.ask_one("synthesize/rewrite", inputs, reason)?;
        let text = reworded.query.split_whitespace().collect::<Vec<_>>().join(" ");
        let fits = (1..=MAX_QUESTION).contains(&text.chars().count());
        if fits { Ok(text) } else { Err(DrawError::Draw(reason)) }
    }

    /// Makes a question from a template and a grounding of the template.
    fn question(
        &self,
        maker: &mut QuestionMaker<'_>,
        template: usize,
        grounding: Grounding,
        kind: Kind,
        stream: &mut Stream,
    ) -> Result<Question, DrawError> {
        let Grounding { slots, candidates } = grounding;
        let kb = &maker.base.kb;
        let template = maker.templates.get(template).ok_or(DrawError::Draw("has no template"))?;
        let gold = stream.pick(&candidates);
        let names: Vec<String> = slots.iter().map(|&slot| kb.name(slot).to_owned()).collect();
        let requirement = wording::requirement(kb, template, &names, stream);
        let style = Style::ALL.get(stream.below(Style::ALL.len())).copied();
        let style = style.unwrap_or(Style::Question);
        let (properties, votes, answers) = match kind {
            Kind::Relational => (Vec::new(), Vec::new(), candidates),
            _ => {
                let mut properties = self.properties(kb, gold)?;
                stream.shuffle(&mut properties);
                properties.truncate(1 + stream.below(MAX_USED));
                let votes = self.votes(kb, &candidates, &properties)?;
                let passed = votes.iter().filter(|vote| vote.passes());
                let answers: Vec<NodeId> = passed.map(|vote| vote.node).collect();
                if !answers.contains(&gold) {
                    return Err(DrawError::Draw(GOLD_FAILED));
                }
                (properties, votes, answers)
            }
        };
        let kind_words = wording::type_words(kb.type_name(template.target));
        let text = self.word(&kind_words, &requirement, &properties, style)?;
        let template = template.id.clone();
        Ok(Question { text, kind, style, template, slots, gold, properties, votes, answers })
    }
}

/// Makes at most `wanted` questions about a base, by the steps of the benchmark. Also returns the
/// number of rejected draws by reason and, if the model gave no more replies, the interruption.
pub(super) fn construct(
    base: &IndexedBase,
    templates: &[Template],
    wanted: usize,
    seed: u64,
    requester: &Requester,
    watch: &mut Watch<'_>,
) -> Result<(Vec<Question>, DropCounts, Option<Interruption>), SynthError> {
    let mut maker = QuestionMaker::new(base, templates);
    let mut questions = Vec::new();
    let mut stream = Stream::new(seed, "questions with a model", 0);
    let mut asked = 0;
    for _ in 0..wanted.saturating_mul(DRAWS) {
        if questions.len() == wanted || asked == wanted.saturating_mul(ATTEMPTS) {
            break;
        }
        watch.report("questions", questions.len(), wanted)?;
        let relational = stream.percent(RELATIONAL);
        let kind = if relational { Kind::Relational } else { Kind::Fused };
        let Some(template) = maker.draw(&mut stream) else { break };
        let grounding = maker.ground(template, &mut stream);
        let Some(grounding) = grounding.filter(|drawn| drawn.candidates.len() <= MAX_ANSWERS)
        else {
            maker.reject::<()>("has no candidates, or too many");
            continue;
        };
        asked += 1;
        match requester.question(&mut maker, template, grounding, kind, &mut stream) {
            Ok(question) => questions.extend(maker.accept(question)),
            Err(DrawError::Draw(reason)) => {
                maker.reject::<()>(reason);
            }
            Err(DrawError::Ends(LlmError::Stopped)) => return Err(SynthError::Stopped),
            Err(DrawError::Ends(error)) => {
                return Ok((questions, maker.dropped, Some(Interruption(error))));
            }
            Err(DrawError::Prompt(error)) => return Err(error.into()),
        }
    }
    watch.report("questions", wanted, wanted)?;
    Ok((questions, maker.dropped, None))
}
