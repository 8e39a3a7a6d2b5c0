//! Makes questions with a language model, by the steps of the STaRK benchmark: the model takes
//! properties from a gold answer's document and writes a question from the relations and the
//! properties; then it rewords the question; then two filters decide which candidates are answers.
//! A request covers up to 20 questions. For each question, the replies of the four steps contain:
//!
//! ```text
//! write    the properties and the question, or nothing if nobody would ask it
//! rewrite  the question in other words
//! judge    whether people would ask it, and the candidates that fit the reworded question
//! check    quotes from the documents of these candidates, one for each property
//! ```
//!
//! Replies are not trusted: a candidate is an answer only if both filters name it, and if each
//! quote of `check` is in its document. A question is dropped if its gold answer fails, or if it is
//! unnatural: the model judges that nobody would ask it. A template is no longer drawn once most of
//! its questions were unnatural. The number of requests per question is bounded. Replies are
//! stored, so that no reply is paid for twice. The module does not depend on how models are reached
//! or on the cost of replies.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    DropCounts, MAX_ANSWERS, Property, Question, SynthError, Watch,
    construct::{Grounding, QuestionMaker},
    mention::folded,
    quality::GOLD_FAILED,
    template::Template,
    wording::{self, Kind, Style},
};
use agent_dataset::sample::random::Stream;
use agent_ground::words::one_line;
use agent_index::IndexedBase;
use agent_kb::{
    Kb, NodeId,
    metapath::{Branch, Links, Step, in_words},
};
use agent_llm::{
    Llm, LlmError, Message, Request, RoleSpec, Schema,
    prompts::{PromptError, Prompts},
};

/// Role of the model that makes synthetic questions.
pub const SYNTHESIZE_ROLE: RoleSpec = RoleSpec {
    name: "synthesize",
    summary: "makes questions with answers for a base without labels",
    temperature: Some(0.0),
    max_tokens: 8_192,
};

/// Maximum number of draws, per requested question, that are sent to the model.
const ATTEMPTS: usize = 3;
/// Maximum number of draws, per requested question, whether or not they are sent to the model.
const DRAWS: usize = 60;
/// Maximum number of questions that are made at the same time; they are lost if the model stops
/// replying.
const AT_A_TIME: usize = 40;
/// Maximum number of items in a request.
const BATCH: usize = 20;
/// Maximum total length in characters of the items of a request; a single item may be longer.
const BATCH_CHARS: usize = 30_000;
/// Maximum length in characters of a document in a request.
const DOCUMENT_CHARS: usize = 1_500;
/// Maximum number of candidates of a question with properties; the filters read the document of
/// each.
const MAX_READ: usize = 8;
/// Maximum number of properties that a question uses.
const MAX_USED: usize = 2;
/// Percentage of questions about relations only.
const RELATIONAL: usize = 15;
/// Maximum length of a question's text in characters.
const MAX_QUESTION: usize = 600;
/// Minimum number of unnatural questions of a template, for the template to be rejected.
const MIN_UNASKED: usize = 4;
/// Divisor for the maximum number of drafts with the same gold answer: the maximum is the number of
/// requested questions divided by this number. Without a maximum, nodes with very many links would
/// be the answer to a tenth of the questions.
const SAME_GOLD: usize = 50;
/// Lower bound of the maximum number of drafts with the same gold answer.
const MIN_SAME_GOLD: usize = 3;
/// Reason for rejecting a draw for which the model's reply is missing or malformed.
const NO_REPLY: &str = "has no usable reply of the model";
/// Reason for rejecting a question that the model judges unnatural.
const UNASKED: &str = "asks what nobody would ask";
/// Maximum number of requests to the model to repair a malformed reply.
const REPAIRS: u32 = 1;
/// Assumed number of tokens of a short prompt and of a long prompt, for the estimate.
const SENT: [u64; 2] = [1_500, 9_000];
/// Assumed number of tokens of a short reply, for the estimate.
const SHORT_REPLY: u64 = 800;

/// A language model together with the prompts that make questions.
pub struct Requester {
    llm: Arc<Llm>,
    prompts: Arc<Prompts>,
    manner: Vec<String>,
}

/// Vote of one of the two filters on a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ballot {
    /// The candidate is an answer.
    Yes,
    /// The candidate is not an answer.
    No,
    /// The filter was not asked, because the other filter had rejected the candidate.
    Unasked,
}

/// Votes of both filters on a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Vote {
    /// Node number of the candidate.
    pub node: NodeId,
    /// Vote of the filter that quotes the document for each property.
    pub check: Ballot,
    /// Vote of the filter that judges whether the candidate is what the question asks for.
    pub judge: Ballot,
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
    // Minimum: full requests, no repairs. Maximum: every attempt is made, two items fill a request
    // of a filter, and every reply is repaired.
    let calls = [4 * n.div_ceil(BATCH as u64), 2 * n * ATTEMPTS as u64 * u64::from(1 + REPAIRS)];
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

/// A reply about numbered items.
#[derive(Deserialize)]
struct Replies<T> {
    items: Vec<ReplyOf<T>>,
}

/// The part of a reply about item `n`.
#[derive(Deserialize)]
struct ReplyOf<T> {
    n: usize,
    #[serde(flatten)]
    reply: T,
}

#[derive(Deserialize)]
struct Written {
    properties: Vec<Property>,
    query: String,
}

#[derive(Deserialize)]
struct Reworded {
    query: String,
}

#[derive(Deserialize)]
struct Checked {
    documents: Vec<Evidence>,
}

#[derive(Deserialize)]
struct Evidence {
    letter: String,
    quotes: Vec<String>,
}

#[derive(Deserialize)]
struct Judged {
    asked: bool,
    letters: Vec<String>,
}

/// An unfinished question, made from a template whose slots are filled.
struct Draft {
    /// The question so far; its answers are the candidates.
    question: Question,
    /// Words for the type of the answers.
    kind_words: String,
    /// The metapaths from the slot nodes to the answers, such as `brand "Argos" <-by- product`.
    paths: Vec<String>,
}

impl Draft {
    fn draw(
        kb: &Kb,
        template: &Template,
        grounding: Grounding,
        kind: Kind,
        stream: &mut Stream,
    ) -> Draft {
        let Grounding { slots, candidates } = grounding;
        let style = stream.pick(&Style::ALL);
        Draft {
            kind_words: wording::type_words(kb.type_name(template.target)),
            paths: template.branches.iter().map(|branch| path(kb, branch, &slots)).collect(),
            question: Question {
                text: String::new(),
                kind,
                style,
                template: template.id.clone(),
                slots,
                gold: stream.pick(&candidates),
                properties: Vec::new(),
                votes: Vec::new(),
                answers: candidates,
            },
        }
    }

    fn is_relational(&self) -> bool {
        self.question.kind == Kind::Relational
    }

    /// Sets the properties and the text that the model wrote.
    fn write(&mut self, written: Written) -> Result<(), &'static str> {
        self.question.text = written.query;
        if self.question.text.trim().is_empty() {
            return Err(UNASKED);
        }
        if self.is_relational() {
            return Ok(());
        }
        let mut properties = written.properties;
        properties.iter_mut().for_each(|one| one.words = one.words.trim().to_owned());
        properties.retain(|one| !one.words.is_empty());
        properties.truncate(MAX_USED);
        self.question.properties = properties;
        if self.question.properties.is_empty() { Err(NO_REPLY) } else { Ok(()) }
    }

    /// Replaces the text by the reworded text; fails if its length is not 1 to `MAX_QUESTION`.
    fn reword(&mut self, reworded: &Reworded) -> Result<(), &'static str> {
        self.question.text = one_line(&reworded.query);
        let fits = (1..=MAX_QUESTION).contains(&self.question.text.chars().count());
        if fits { Ok(()) } else { Err(NO_REPLY) }
    }

    /// Sets the answers to the candidates that the model judges to fit the question. A question
    /// about relations only keeps all candidates, because they are exact.
    fn judge(&mut self, judged: &Judged) -> Result<(), &'static str> {
        if !judged.asked {
            return Err(UNASKED);
        }
        if self.is_relational() {
            return Ok(());
        }
        let votes = letters().zip(&self.question.answers).map(|(letter, &node)| {
            let judge = ballot(judged.letters.contains(&letter));
            Vote { node, judge, check: Ballot::Unasked }
        });
        self.question.votes = votes.collect();
        self.keep(|vote| vote.judge == Ballot::Yes)
    }

    /// Keeps the answers whose documents contain all quotes in the reply: at least one per
    /// property.
    fn check(&mut self, kb: &Kb, checked: &Checked) -> Result<(), &'static str> {
        let wanted = self.question.properties.len();
        let asked = self.question.votes.iter_mut().filter(|vote| vote.judge == Ballot::Yes);
        for (letter, vote) in letters().zip(asked) {
            let document = folded(kb.text(vote.node));
            let says = |quote: &String| {
                let quote = folded(quote);
                !quote.is_empty() && document.contains(&quote)
            };
            let proves = |one: &Evidence| {
                one.letter == letter && one.quotes.len() >= wanted && one.quotes.iter().all(says)
            };
            vote.check = ballot(checked.documents.iter().any(proves));
        }
        self.keep(|vote| vote.check == Ballot::Yes)
    }

    /// Sets the answers to the candidates whose vote passes, and fails unless the gold answer is
    /// among them.
    fn keep(&mut self, passes: impl Fn(&Vote) -> bool) -> Result<(), &'static str> {
        let passed = self.question.votes.iter().filter(|vote| passes(vote));
        self.question.answers = passed.map(|vote| vote.node).collect();
        let has_gold = self.question.answers.contains(&self.question.gold);
        if has_gold { Ok(()) } else { Err(GOLD_FAILED) }
    }

    /// Returns the documents of the answers, each with the letter that names it; none for a
    /// question about relations.
    fn documents(&self, kb: &Kb) -> Vec<Value> {
        let nodes = letters().zip(&self.question.answers).filter(|_| !self.is_relational());
        nodes.map(|(letter, &node)| json!({"letter": letter, "text": document(kb, node)})).collect()
    }
}

fn ballot(is_yes: bool) -> Ballot {
    if is_yes { Ballot::Yes } else { Ballot::No }
}

/// Number of natural and of unnatural questions by template.
#[derive(Default)]
struct Tally(BTreeMap<String, [usize; 2]>);

impl Tally {
    fn count(&mut self, template: &str, is_asked: bool) {
        let counts = self.0.entry(template.to_owned()).or_default();
        counts[usize::from(!is_asked)] += 1;
    }

    /// Whether the template has at least `MIN_UNASKED` unnatural questions, and more of them than
    /// natural ones.
    fn is_unasked(&self, template: &str) -> bool {
        let [asked, unasked] = self.0.get(template).copied().unwrap_or_default();
        unasked >= MIN_UNASKED && unasked > asked
    }
}

/// State of a synthesis: the question maker, and counts that limit further draws.
struct Making<'a> {
    maker: QuestionMaker<'a>,
    tally: Tally,
    /// Number of drafts with each gold answer.
    golds: BTreeMap<NodeId, usize>,
    /// Maximum number of drafts with one gold answer.
    most_of_one: usize,
}

/// Returns the letters that name the candidates of an item, in order.
fn letters() -> impl Iterator<Item = String> {
    ('A'..='Z').map(String::from)
}

/// Describes a branch in words, with the name of the slot node at which it starts; a negated branch
/// starts with `no path`.
fn path(kb: &Kb, branch: &Branch<Step>, slots: &[NodeId]) -> String {
    let text = in_words(kb, &branch.steps);
    match branch.slot.and_then(|slot| slots.get(slot)) {
        Some(&slot) => {
            let kind = kb.type_name(kb.node_type(slot));
            format!("{kind} {:?}{}", kb.name(slot), text.strip_prefix(kind).unwrap_or(&text))
        }
        None => format!("no path {text}"),
    }
}

/// Whether a branch has several steps, and the first step leads to a single node with a name. An
/// example is "by the brand of X" if X has one brand. People would name the brand, and another
/// template does so.
fn is_roundabout(kb: &Kb, branch: &Branch<Step>, slots: &[NodeId]) -> bool {
    let Some(&slot) = branch.slot.and_then(|slot| slots.get(slot)) else { return false };
    let [first, _, ..] = &branch.steps[..] else { return false };
    matches!(kb.linked(first, slot)[..], [only] if !kb.name(only).is_empty())
}

/// Returns the beginning of a node's document.
fn document(kb: &Kb, node: NodeId) -> String {
    kb.text(node).chars().take(DOCUMENT_CHARS).collect()
}

/// Removes the drafts whose result is missing or refused by `keep`, and counts them under the
/// reason.
fn retain<T>(
    making: &mut Making<'_>,
    drafts: &mut Vec<Draft>,
    results: Vec<Option<T>>,
    keep: impl Fn(&mut Draft, T) -> Result<(), &'static str>,
) {
    let before = std::mem::take(drafts);
    for (mut draft, result) in before.into_iter().zip(results) {
        match result.ok_or(NO_REPLY).and_then(|result| keep(&mut draft, result)) {
            Ok(()) => drafts.push(draft),
            Err(reason) => {
                if reason == UNASKED {
                    making.tally.count(&draft.question.template, false);
                }
                let _: Option<()> = making.maker.reject(reason);
            }
        }
    }
}

impl Requester {
    /// Creates a requester that asks `llm` with the templates of `prompts`.
    pub fn new(llm: Arc<Llm>, prompts: Arc<Prompts>) -> Requester {
        Requester { llm, prompts, manner: Vec::new() }
    }

    /// Sets questions that users of the base have asked. The model is shown them, so that it writes
    /// similar questions.
    #[must_use]
    pub fn in_manner(self, manner: Vec<String>) -> Requester {
        Requester { manner, ..self }
    }

    fn request(&self, prompt: &str, inputs: Value) -> Result<Request, PromptError> {
        let prompt = self.prompts.render(prompt, inputs)?;
        let messages = vec![Message::system(prompt.system), Message::user(prompt.user)];
        let schema = prompt.schema.map(|(name, schema)| Schema { name, schema });
        Ok(self.llm.request(SYNTHESIZE_ROLE.role(), messages, schema, 0))
    }

    /// Asks the model about all items, many in a request; `inputs` makes the inputs of the prompt
    /// from numbered items. Returns the replies in the order of the items, with `None` for an item
    /// without a usable reply.
    fn ask<T: DeserializeOwned>(
        &self,
        prompt: &str,
        items: Vec<Value>,
        inputs: impl Fn(Vec<Value>) -> Value,
    ) -> Result<Vec<Option<T>>, SynthError> {
        let (mut batches, mut length): (Vec<Vec<Value>>, usize) = (Vec::new(), 0);
        for mut item in items {
            let own = item.to_string().chars().count();
            let fits = |batch: &&mut Vec<Value>| batch.len() < BATCH && length + own <= BATCH_CHARS;
            match batches.last_mut().filter(fits) {
                Some(batch) => {
                    item["n"] = (batch.len() + 1).into();
                    batch.push(item);
                    length += own;
                }
                None => {
                    item["n"] = 1.into();
                    batches.push(vec![item]);
                    length = own;
                }
            }
        }
        let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
        let requests: Result<Vec<Request>, PromptError> =
            batches.into_iter().map(|batch| self.request(prompt, inputs(batch))).collect();
        let mut replies = Vec::new();
        let answers = self.llm.ask_json_all(&requests?, REPAIRS);
        for ((value, _), size) in answers.into_iter().zip(sizes) {
            let mut of_batch: Vec<Option<T>> = (0..size).map(|_| None).collect();
            let reply = match value {
                Ok(value) => serde_json::from_value::<Replies<T>>(value).ok(),
                Err(error) if error.ends_run() => return Err(error.into()),
                Err(_) => None,
            };
            for ReplyOf { n, reply } in reply.into_iter().flat_map(|reply| reply.items) {
                if let Some(place) = n.checked_sub(1).and_then(|at| of_batch.get_mut(at)) {
                    place.get_or_insert(reply);
                }
            }
            replies.append(&mut of_batch);
        }
        Ok(replies)
    }

    /// Makes questions from drafts by the four steps write, rewrite, judge and check; counts
    /// rejected drafts by reason.
    fn make(
        &self,
        making: &mut Making<'_>,
        mut drafts: Vec<Draft>,
    ) -> Result<Vec<Question>, SynthError> {
        let kb = &making.maker.base.kb;
        let items = drafts.iter().map(|draft| {
            let document = match draft.is_relational() {
                true => String::new(),
                false => document(kb, draft.question.gold),
            };
            json!({"type": draft.kind_words, "style": draft.question.style.name(),
                   "paths": draft.paths, "document": document})
        });
        let with_manner = |items| json!({"manner": self.manner, "items": items});
        let written = self.ask("synthesize/write", items.collect(), with_manner)?;
        retain(making, &mut drafts, written, Draft::write);
        let items = drafts.iter().map(|Draft { question, .. }| {
            json!({"query": question.text, "style": question.style.name()})
        });
        let alone = |items| json!({"items": items});
        let reworded = self.ask("synthesize/rewrite", items.collect(), alone)?;
        retain(making, &mut drafts, reworded, |draft, reply| draft.reword(&reply));
        let items = drafts.iter().map(|draft| {
            json!({"query": draft.question.text, "paths": draft.paths,
                   "documents": draft.documents(kb)})
        });
        let judged = self.ask("synthesize/judge", items.collect(), alone)?;
        retain(making, &mut drafts, judged, |draft, reply| draft.judge(&reply));
        let (relational, mut fused): (Vec<Draft>, Vec<Draft>) =
            drafts.into_iter().partition(Draft::is_relational);
        let items = fused.iter().map(|draft| {
            let words = draft.question.properties.iter().map(|property| &property.words);
            json!({"properties": words.collect::<Vec<_>>(), "documents": draft.documents(kb)})
        });
        let checked = self.ask("synthesize/check", items.collect(), alone)?;
        retain(making, &mut fused, checked, |draft, reply| draft.check(kb, &reply));
        Ok(relational.into_iter().chain(fused).map(|draft| draft.question).collect())
    }
}

/// Makes at most `wanted` questions about a base, by the steps of the benchmark. Also returns the
/// number of rejected draws by reason and, if the model gave no more replies, the error.
pub(super) fn construct(
    base: &IndexedBase,
    templates: &[Template],
    wanted: usize,
    seed: u64,
    requester: &Requester,
    watch: &mut Watch<'_>,
) -> Result<(Vec<Question>, DropCounts, Option<LlmError>), SynthError> {
    let mut making = Making {
        maker: QuestionMaker::new(base, templates),
        tally: Tally::default(),
        golds: BTreeMap::new(),
        most_of_one: (wanted / SAME_GOLD).max(MIN_SAME_GOLD),
    };
    let mut questions = Vec::new();
    let mut stream = Stream::new(seed, "questions with a model", 0);
    let (mut drawn, mut asked) = (0, 0);
    while questions.len() < wanted && asked < wanted.saturating_mul(ATTEMPTS) {
        watch.report("questions", questions.len(), wanted)?;
        let missing = AT_A_TIME.min(wanted - questions.len());
        let mut drafts = Vec::new();
        while drafts.len() < missing && drawn < wanted.saturating_mul(DRAWS) {
            drawn += 1;
            drafts.extend(draw(&mut making, &mut stream));
        }
        if drafts.is_empty() {
            break;
        }
        asked += drafts.len();
        match requester.make(&mut making, drafts) {
            Ok(made) => {
                made.iter().for_each(|one| making.tally.count(&one.template, true));
                questions.extend(made.into_iter().filter_map(|one| making.maker.accept(one)));
            }
            // The model gives no more replies, for example because the budget is spent.
            Err(SynthError::Llm(error)) => {
                return Ok((questions, making.maker.dropped, Some(error)));
            }
            Err(error) => return Err(error),
        }
    }
    watch.report("questions", wanted, wanted)?;
    Ok((questions, making.maker.dropped, None))
}

/// Draws a template, nodes for its slots and a gold answer. `None` if the template is rejected
/// because its questions are unnatural, if there are no candidates or too many, if a branch is
/// roundabout, or if too many drafts have this gold answer.
fn draw(making: &mut Making<'_>, stream: &mut Stream) -> Option<Draft> {
    let Making { maker, tally, golds, most_of_one } = making;
    let (kind, most) = match stream.percent(RELATIONAL) {
        true => (Kind::Relational, MAX_ANSWERS),
        false => (Kind::Fused, MAX_READ),
    };
    let template = maker.draw(stream)?;
    if maker.templates.get(template).is_some_and(|one| tally.is_unasked(&one.id)) {
        return None;
    }
    let grounding = maker.ground(template, stream).filter(|one| one.candidates.len() <= most);
    let Some(grounding) = grounding else {
        return maker.reject("has no candidates, or too many");
    };
    let (kb, template) = (&maker.base.kb, maker.templates.get(template)?);
    if template.branches.iter().any(|branch| is_roundabout(kb, branch, &grounding.slots)) {
        return maker.reject("names a node by way of another");
    }
    let draft = Draft::draw(kb, template, grounding, kind, stream);
    let drafts = golds.entry(draft.question.gold).or_default();
    if *drafts == *most_of_one {
        return maker.reject("has the gold answer of many others");
    }
    *drafts += 1;
    Some(draft)
}
