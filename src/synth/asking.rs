//! Makes questions with a language model, step by step as the benchmark does: properties of a gold
//! answer's document, two filters that look at every candidate, a question made of relation and
//! properties, the same in other words.
//!
//! Nothing of a reply is believed unproven: a candidate is an answer only if both filters find every
//! property in its document; a filter that says `NA`, or nothing usable, has not found it. A question
//! whose gold answer fails is dropped. What is asked is bounded for each question, and kept, so that
//! no reply is paid for twice.
//!
//! Must not know: how models are asked, what replies cost.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Dropped, MAX_ANSWERS, Property, Question, Stopped, SynthError, Watch,
    construct::{Grounding, Maker},
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

/// Makes synthetic questions.
pub const SYNTHESIZE_ROLE: RoleSpec = RoleSpec {
    name: "synthesize",
    summary: "makes questions with answers for a base without labels",
    temperature: Some(0.0),
    max_tokens: 1_024,
};

/// Draws for each question that is wanted, at most; each that reaches the model costs.
const ATTEMPTS: usize = 4;
/// Draws that never reach the model, for each question that is wanted, at most.
const DRAWS: usize = 60;
/// Properties a model is asked for, and how many of them a question has at most.
const PROPERTIES: usize = 5;
const USED: usize = 2;
/// Share of questions, in per cent, that ask by relations alone.
const RELATIONAL: usize = 15;
/// Characters of a question at most.
const MAX_QUESTION: usize = 600;
/// Repairs of a reply that is no JSON of its form.
const REPAIRS: u32 = 1;
/// Tokens of a prompt and of a reply, short and long, for the estimate.
const SENT: [u64; 2] = [400, 6_000];
const SHORT_REPLY: u64 = 60;

/// A language model with its prompts.
pub struct Requester {
    llm: Arc<Llm>,
    prompts: Arc<Prompts>,
}

/// What one filter says of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ballot {
    /// It has every property.
    Yes,
    /// It lacks one, or its document does not say.
    No,
    /// The reply was none.
    Malformed,
}

/// What both filters say of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Vote {
    /// The candidate.
    pub node: NodeId,
    /// Of the filter that names the source of each property, or `NA`.
    pub check: Ballot,
    /// Of the filter that says of each property whether it holds.
    pub judge: Ballot,
}

impl Vote {
    fn passes(self) -> bool {
        self.check == Ballot::Yes && self.judge == Ballot::Yes
    }
}

/// What a synthesis with a model will ask: least and most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Requests.
    pub calls: [u64; 2],
    /// Tokens sent.
    pub tokens_in: [u64; 2],
    /// Tokens received.
    pub tokens_out: [u64; 2],
    /// Dollars; none where the price is not known.
    pub usd: Option<[f64; 2]>,
}

/// What a synthesis of so many questions will ask; nothing without a model.
pub fn estimate(requester: Option<&Requester>, queries: usize) -> Estimate {
    let Some(requester) = requester else {
        let none = [0; 2];
        return Estimate { calls: none, tokens_in: none, tokens_out: none, usd: Some([0.0; 2]) };
    };
    let n = queries as u64;
    // A question of two candidates whose replies are usable at once; every attempt with all
    // candidates and a repair of every reply.
    let most = ATTEMPTS as u64 * (1 + 2 * MAX_ANSWERS as u64) + 2;
    let calls = [n * (3 + 2 * 2), n * most * u64::from(1 + REPAIRS)];
    let set = requester.llm.role(&SYNTHESIZE_ROLE.role());
    let received = [SHORT_REPLY, set.map_or(0, |set| u64::from(set.max_tokens))];
    let times = |of: [u64; 2]| [calls[0] * of[0], calls[1] * of[1]];
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

/// Why a draw with a model gives no question.
enum Failed {
    /// Another draw may well give one.
    Draw(&'static str),
    /// The model gives no more replies.
    Ends(LlmError),
    Prompt(PromptError),
}

impl From<PromptError> for Failed {
    fn from(error: PromptError) -> Self {
        Self::Prompt(error)
    }
}

#[derive(Deserialize)]
struct Extracted {
    properties: Vec<ExtractedOne>,
}

#[derive(Deserialize)]
struct ExtractedOne {
    text: String,
    source: String,
}

#[derive(Deserialize)]
struct Worded {
    query: String,
}

#[derive(Deserialize)]
struct Checked {
    sources: Vec<Source>,
}

#[derive(Deserialize)]
struct Source {
    n: usize,
    source: String,
}

#[derive(Deserialize)]
struct Judged {
    verdicts: Vec<Verdict>,
}

#[derive(Deserialize)]
struct Verdict {
    n: usize,
    met: bool,
}

impl Requester {
    /// One who asks this model with these prompts.
    pub fn new(llm: Arc<Llm>, prompts: Arc<Prompts>) -> Requester {
        Requester { llm, prompts }
    }

    fn request(&self, prompt: &str, inputs: Value) -> Result<Request, PromptError> {
        let prompt = self.prompts.render(prompt, inputs)?;
        let messages = vec![Message::system(prompt.system), Message::user(prompt.user)];
        let schema = prompt.schema.map(|(name, schema)| Schema { name, schema });
        Ok(self.llm.request(SYNTHESIZE_ROLE.role(), messages, schema, 0))
    }

    /// The replies to a prompt with each input, none where a reply is malformed even when repaired.
    fn ask<T: serde::de::DeserializeOwned>(
        &self,
        prompt: &str,
        inputs: Vec<Value>,
    ) -> Result<Vec<Option<T>>, Failed> {
        let requests: Result<Vec<Request>, PromptError> =
            inputs.into_iter().map(|one| self.request(prompt, one)).collect();
        let answers = self.llm.ask_json_all(&requests?, REPAIRS).into_iter();
        answers
            .map(|(value, _)| match value {
                Ok(value) => Ok(serde_json::from_value(value).ok()),
                Err(error) if error.ends_run() => Err(Failed::Ends(error)),
                Err(_) => Ok(None),
            })
            .collect()
    }

    fn ask_one<T: serde::de::DeserializeOwned>(
        &self,
        prompt: &str,
        inputs: Value,
        otherwise: &'static str,
    ) -> Result<T, Failed> {
        let reply = self.ask(prompt, vec![inputs])?.into_iter().next().flatten();
        reply.ok_or(Failed::Draw(otherwise))
    }

    /// Properties of a document, each once.
    fn properties(&self, kb: &Kb, gold: NodeId) -> Result<Vec<Property>, Failed> {
        let inputs = json!({
            "type": wording::type_words(kb.type_name(kb.node_type(gold))),
            "document": kb.text(gold), "n": PROPERTIES,
        });
        let why = "has no properties in the model's reply";
        let reply: Extracted = self.ask_one("synthesize/properties", inputs, why)?;
        let mut found: Vec<Property> = Vec::new();
        for ExtractedOne { text, source } in reply.properties.into_iter().take(PROPERTIES) {
            let words = text.trim().to_owned();
            if !words.is_empty() && !found.iter().any(|one| one.words == words) {
                found.push(Property { words, source, stems: Vec::new() });
            }
        }
        if found.is_empty() { Err(Failed::Draw(why)) } else { Ok(found) }
    }

    /// What both filters say of every candidate.
    fn votes(
        &self,
        kb: &Kb,
        candidates: &[NodeId],
        properties: &[Property],
    ) -> Result<Vec<Vote>, Failed> {
        let n = properties.len();
        let required: Vec<Value> =
            (1..).zip(properties).map(|(n, one)| json!({"n": n, "text": one.words})).collect();
        let inputs = || -> Vec<Value> {
            let of = |&node: &NodeId| json!({"document": kb.text(node), "properties": required});
            candidates.iter().map(of).collect()
        };
        let each = |met: &mut dyn Iterator<Item = (usize, bool)>| {
            let met: Vec<(usize, bool)> = met.collect();
            match (1..=n).all(|one| met.iter().any(|&(at, met)| at == one && met)) {
                true => Ballot::Yes,
                false => Ballot::No,
            }
        };
        let checks = self.ask::<Checked>("synthesize/check", inputs())?;
        let judges = self.ask::<Judged>("synthesize/judge", inputs())?;
        let mut votes = Vec::with_capacity(candidates.len());
        for ((&node, check), judge) in candidates.iter().zip(checks).zip(judges) {
            let check = check.map_or(Ballot::Malformed, |reply| {
                let is_named = |source: &str| !["", "na", "n/a", "none"].contains(&source);
                each(
                    &mut reply
                        .sources
                        .iter()
                        .map(|one| (one.n, is_named(one.source.trim().to_lowercase().as_str()))),
                )
            });
            let judge = judge.map_or(Ballot::Malformed, |reply| {
                each(&mut reply.verdicts.iter().map(|one| (one.n, one.met)))
            });
            votes.push(Vote { node, check, judge });
        }
        Ok(votes)
    }

    /// A question of a requirement and properties, and then in other words.
    fn word(
        &self,
        kind: &str,
        requirement: &str,
        properties: &[Property],
        style: Style,
    ) -> Result<String, Failed> {
        let properties: Vec<&str> = properties.iter().map(|one| one.words.as_str()).collect();
        let inputs = json!({"type": kind, "requirement": requirement, "properties": properties,
                            "style": style.name()});
        let why = "has no question in the model's reply";
        let fused: Worded = self.ask_one("synthesize/fuse", inputs, why)?;
        let inputs = json!({"query": fused.query, "style": style.name()});
        let reworded: Worded = self.ask_one("synthesize/rewrite", inputs, why)?;
        let text = reworded.query.split_whitespace().collect::<Vec<_>>().join(" ");
        let fits = (1..=MAX_QUESTION).contains(&text.chars().count());
        if fits { Ok(text) } else { Err(Failed::Draw(why)) }
    }

    /// One question of a grounding.
    fn question(
        &self,
        maker: &mut Maker<'_>,
        at: usize,
        grounding: Grounding,
        kind: Kind,
        stream: &mut Stream,
    ) -> Result<Question, Failed> {
        let Grounding { slots, candidates } = grounding;
        let kb = &maker.base.kb;
        let template = maker.templates.get(at).ok_or(Failed::Draw("has no template"))?;
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
                properties.truncate(1 + stream.below(USED));
                let votes = self.votes(kb, &candidates, &properties)?;
                let passed = votes.iter().filter(|vote| vote.passes());
                let answers: Vec<NodeId> = passed.map(|vote| vote.node).collect();
                if !answers.contains(&gold) {
                    return Err(Failed::Draw(GOLD_FAILED));
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

/// Questions of a base, at most `wanted`, by the steps of the benchmark.
pub(super) fn construct(
    base: &IndexedBase,
    templates: &[Template],
    wanted: usize,
    seed: u64,
    requester: &Requester,
    watch: &mut Watch<'_>,
) -> Result<(Vec<Question>, Dropped, Option<Stopped>), SynthError> {
    let mut maker = Maker::new(base, templates);
    let mut questions = Vec::new();
    let mut stream = Stream::new(seed, "questions with a model", 0);
    let mut asked = 0;
    for _ in 0..wanted.saturating_mul(DRAWS) {
        if questions.len() == wanted || asked == wanted.saturating_mul(ATTEMPTS) {
            break;
        }
        watch.at("questions", questions.len(), wanted)?;
        let relational = stream.percent(RELATIONAL);
        let kind = if relational { Kind::Relational } else { Kind::Fused };
        let Some(at) = maker.draw(&mut stream) else { break };
        let grounding = maker.ground(at, &mut stream);
        let Some(grounding) = grounding.filter(|one| one.candidates.len() <= MAX_ANSWERS) else {
            maker.drop::<()>("has no candidates, or too many");
            continue;
        };
        asked += 1;
        match requester.question(&mut maker, at, grounding, kind, &mut stream) {
            Ok(question) => questions.extend(maker.take(question)),
            Err(Failed::Draw(why)) => {
                maker.drop::<()>(why);
            }
            Err(Failed::Ends(LlmError::Stopped)) => return Err(SynthError::Stopped),
            Err(Failed::Ends(error)) => {
                return Ok((questions, maker.dropped, Some(Stopped(error))));
            }
            Err(Failed::Prompt(error)) => return Err(error.into()),
        }
    }
    watch.at("questions", wanted, wanted)?;
    Ok((questions, maker.dropped, None))
}
