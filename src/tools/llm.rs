//! The functions of the AvaTaR tool API that ask a language model, with their defects mended.
//!
//! Source: Wu et al. 2024 (AvaTaR) and its tool list for STaRK. Several nodes or texts are asked
//! about in one request, equal ones once; documents are cut to what concerns the question. What
//! gets no usable reply in three requests becomes "NA", `false` or 0 and is noted in the trace.
//! Sampling temperature is that of the role `tools`.
//!
//! Must not know: how a model is reached, what a request costs.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value as Json, json};

use crate::{
    ArgSpec, Args, Kind, NodeFlow, ToolCtx, ToolError, ToolSpec, Value,
    asking::ROUNDS,
    avatar::{charge_relations, relations_in_words},
    lookup,
};
use agent_index::{
    IndexedBase,
    excerpt::{head, relevant},
};
use agent_kb::NodeId;

/// Nodes of one request.
const NODES_A_REQUEST: usize = 10;
/// Texts of one request.
const TEXTS_A_REQUEST: usize = 5;
/// Characters of a node's document in a request.
const NODE_CHARS: usize = 3_000;
/// Characters of a text in a request.
const TEXT_CHARS: usize = 6_000;
/// Attributes or classes of one call.
const MAX_NAMES: usize = 100;
/// Words of a summary at most.
const MAX_WORDS: usize = 500;
/// What stands for nothing, or for no usable reply.
const NOTHING: &str = "NA";

const NODES: ArgSpec = ArgSpec { name: "node_ids", kind: Kind::Nodes, default: None };
const QUERY: ArgSpec = ArgSpec { name: "query", kind: Kind::Text, default: None };
const TEXTS: ArgSpec = ArgSpec { name: "texts", kind: Kind::Texts, default: None };

type Run = fn(&mut ToolCtx<'_>, &Args<'_>) -> Result<Value, ToolError>;

const fn llm_tool(
    name: &'static str,
    args: &'static [ArgSpec],
    result: Kind,
    cost: &'static str,
    doc: &'static str,
    example: &'static str,
    run: Run,
) -> ToolSpec {
    let (group, flow) = ("llm", NodeFlow::Carry);
    ToolSpec { name, group, args, result, flow, cost, doc, example, cached: true, run }
}

pub(super) const TOOLS: &[ToolSpec] = &[
    llm_tool(
        "parse_query",
        &[QUERY, ArgSpec { name: "attributes", kind: Kind::Texts, default: None }],
        Kind::Map,
        "1 LLM call",
        "What the query says of each attribute, as text; \"NA\" when it says nothing. At most 100 \
         attributes.",
        r#"parse_query(query, ["brand", "use"])"#,
        parse_query,
    ),
    llm_tool(
        "summarize_texts_by_llm",
        &[TEXTS, ArgSpec { name: "max_length", kind: Kind::Int, default: Some("50") }],
        Kind::Texts,
        "1 LLM call per 5 different texts",
        "One summary per text of at most max_length words (1 to 500), in the order of the texts; of \
         a long text the first 6,000 characters are read.",
        "summarize_texts_by_llm([get_text_info(0)])",
        summarize,
    ),
    llm_tool(
        "classify_by_llm",
        &[
            ArgSpec { name: "text", kind: Kind::Text, default: None },
            ArgSpec { name: "classes", kind: Kind::Texts, default: None },
        ],
        Kind::Text,
        "1 LLM call",
        "The class that fits the text best, as given; \"NA\" when none does. At most 100 classes.",
        r#"classify_by_llm(query, ["brand question", "other"])"#,
        classify,
    ),
    llm_tool(
        "extract_relevant_info_by_llm",
        &[TEXTS, ArgSpec { name: "extract_term", kind: Kind::Text, default: None }],
        Kind::Texts,
        "1 LLM call per 5 different texts",
        "What each text says of the term, in the order of the texts; \"NA\" when it says nothing. Of \
         a long text the chunks that share most words with the term are read.",
        r#"extract_relevant_info_by_llm([get_text_info(0)], "material")"#,
        extract,
    ),
    llm_tool(
        "check_req_by_llm",
        &[NODES, ArgSpec { name: "requirement", kind: Kind::Text, default: None }],
        Kind::Bools,
        "1 LLM call per 10 different nodes",
        "Whether each node meets the requirement by its document and relations, in the order of the \
         ids given. Of a long document the chunks that share most words with the requirement are \
         read.",
        r#"check_req_by_llm([0, 1], "is made of wool")"#,
        check,
    ),
    llm_tool(
        "get_scores_by_llm",
        &[NODES, QUERY],
        Kind::Numbers,
        "1 LLM call per 10 different nodes",
        "How well each node answers the query by its document and relations, in 0..1, in the order \
         of the ids given. Of a long document the chunks that share most words with the query are \
         read.",
        "get_scores_by_llm([0, 1], query)",
        score,
    ),
];

/// A question about several things: what they are asked with, and where the replies stand.
struct Question<'a> {
    prompt: &'static str,
    /// The inputs that are the same for all things.
    inputs: Json,
    /// The input that lists the things.
    list: &'static str,
    /// The entry of the reply that lists what is said of each.
    replies: &'static str,
    /// Things of one request.
    at_a_time: usize,
    /// Reads what is said of one thing.
    read: &'a dyn Fn(&Json) -> Option<Value>,
}

/// What is said of each thing, in order; none where no reply could be used. Things that a reply
/// leaves out are asked about once more.
fn ask(
    ctx: &mut ToolCtx<'_>,
    question: &Question<'_>,
    things: &[Json],
) -> Result<Vec<Option<Value>>, ToolError> {
    let mut said: Vec<Option<Value>> = vec![None; things.len()];
    for tries in ROUNDS {
        let open: Vec<usize> = (0..things.len()).filter(|&at| said[at].is_none()).collect();
        let batches: Vec<&[usize]> = open.chunks(question.at_a_time).collect();
        if batches.is_empty() {
            break;
        }
        let inputs = batches.iter().map(|batch| {
            let numbered = batch.iter().zip(1..).map(|(&at, n)| {
                let mut thing = things[at].clone();
                thing["n"] = Json::from(n);
                thing
            });
            let mut inputs = question.inputs.clone();
            inputs[question.list] = numbered.collect();
            inputs
        });
        let inputs = inputs.collect();
        let replies = ctx.requester.json(ctx.meter, question.prompt, inputs, open.len(), tries)?;
        for (batch, reply) in batches.iter().zip(replies) {
            let entries = reply.as_ref().and_then(|reply| reply[question.replies].as_array());
            for entry in entries.into_iter().flatten() {
                let n = entry["n"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                let place = n.checked_sub(1).and_then(|n| batch.get(n));
                // Of several entries for one thing the first counts.
                if let Some(slot) = place.and_then(|&at| said.get_mut(at))
                    && slot.is_none()
                {
                    *slot = (question.read)(entry);
                }
            }
        }
    }
    ctx.requester.note_unparsed(said.iter().filter(|one| one.is_none()).count());
    Ok(said)
}

/// The different ones of some keys in the order in which they come first, and the place of each key
/// among them.
fn different<K: Clone + Eq + std::hash::Hash>(keys: &[K]) -> (Vec<K>, Vec<usize>) {
    let mut first: HashMap<&K, usize> = HashMap::new();
    let mut all = Vec::new();
    let places = keys
        .iter()
        .map(|key| {
            *first.entry(key).or_insert_with(|| {
                all.push(key.clone());
                all.len() - 1
            })
        })
        .collect();
    (all, places)
}

/// What is said of each of the places, or what stands for no usable reply.
fn placed(said: &[Option<Value>], places: &[usize], without: &Value) -> Value {
    let value = |&at: &usize| said.get(at).cloned().flatten().unwrap_or_else(|| without.clone());
    Value::List(places.iter().map(value).collect())
}

/// Asks about nodes, in the order given.
fn ask_nodes(
    ctx: &mut ToolCtx<'_>,
    args: &Args<'_>,
    question: &Question<'_>,
    wanted: &str,
    without: &Value,
) -> Result<Value, ToolError> {
    ctx.requester.check()?;
    let nodes = args.node_list(0)?;
    let (nodes, places) = different(&nodes);
    let mut things = Vec::with_capacity(nodes.len());
    for node in nodes {
        ctx.meter.poll()?;
        things.push(thing(ctx, node, wanted)?);
    }
    let said = ask(ctx, question, &things)?;
    Ok(placed(&said, &places, without))
}

/// Type and text of a node: its document with relations, cut to what concerns the wanted words.
fn thing(ctx: &mut ToolCtx<'_>, node: NodeId, wanted: &str) -> Result<Json, ToolError> {
    let node = lookup::node(ctx.base, node)?;
    ctx.meter.touch(ctx.base.kb.text(node).len() / 100)?;
    charge_relations(ctx, node)?;
    let text = document_about(ctx.base, node, wanted, NODE_CHARS);
    Ok(json!({"type": ctx.base.kb.type_name(ctx.base.kb.node_type(node)), "text": text}))
}

/// The document of a node with its relations, cut to what concerns the wanted words.
fn document_about(base: &IndexedBase, node: NodeId, wanted: &str, max_chars: usize) -> String {
    let mut text = base.kb.text(node).to_owned();
    text.push_str(&relations_in_words(base, node));
    relevant(base, &text, wanted, max_chars)
}

/// Asks about texts, in the order given; of those without words nothing is asked.
fn ask_texts(
    ctx: &mut ToolCtx<'_>,
    args: &Args<'_>,
    question: &Question<'_>,
    cut: impl Fn(&IndexedBase, &str) -> String,
) -> Result<Value, ToolError> {
    ctx.requester.check()?;
    let texts: Vec<&str> = args.texts(0)?.into_iter().map(str::trim).collect();
    let (texts, places) = different(&texts);
    ctx.meter.touch(texts.iter().map(|text| text.len()).sum::<usize>() / 100)?;
    let (full, kept): (Vec<usize>, Vec<&str>) =
        texts.iter().copied().enumerate().filter(|(_, text)| !text.is_empty()).unzip();
    let mut things = Vec::with_capacity(kept.len());
    for text in kept {
        ctx.meter.poll()?;
        things.push(json!({"text": cut(ctx.base, text)}));
    }
    let mut said = vec![None; texts.len()];
    for (at, value) in full.into_iter().zip(ask(ctx, question, &things)?) {
        said[at] = value;
    }
    Ok(placed(&said, &places, &Value::text(NOTHING)))
}

/// Text of a JSON value that stands for text; none without words.
fn text_of(value: &Json) -> Option<String> {
    let text = match value {
        Json::String(text) => text.trim().to_owned(),
        Json::Number(number) => number.to_string(),
        Json::Bool(truth) => truth.to_string(),
        Json::Null => NOTHING.to_owned(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

fn at_most_names(n: usize, what: &str) -> Result<(), ToolError> {
    if n > MAX_NAMES {
        return Err(ToolError::BadArgs(format!(
            "{n} {what} are over the limit of {MAX_NAMES} a call"
        )));
    }
    Ok(())
}

fn parse_query(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    ctx.requester.check()?;
    let (query, attributes) = (args.text(0)?.trim(), args.texts(1)?);
    at_most_names(attributes.len(), "attributes")?;
    let (attributes, _) = different(&attributes);
    let mut values: BTreeMap<String, Value> = BTreeMap::new();
    for tries in ROUNDS {
        let open: Vec<&str> =
            attributes.iter().copied().filter(|name| !values.contains_key(*name)).collect();
        if open.is_empty() || query.is_empty() {
            break;
        }
        let inputs = vec![json!({"query": query, "attributes": open})];
        let replies = ctx.requester.json(ctx.meter, "tools/parse_query", inputs, 1, tries)?;
        let reply = replies.into_iter().next().flatten().unwrap_or_default();
        for entry in reply["values"].as_array().into_iter().flatten() {
            let named = entry["attribute"].as_str().unwrap_or_default().trim();
            let name = open.iter().find(|name| name.trim().eq_ignore_ascii_case(named));
            if let (Some(name), Some(value)) = (name, text_of(&entry["value"])) {
                values.entry((*name).to_owned()).or_insert(Value::text(&value));
            }
        }
    }
    if !query.is_empty() {
        ctx.requester.note_unparsed(attributes.len() - values.len());
    }
    for name in attributes {
        values.entry(name.to_owned()).or_insert(Value::text(NOTHING));
    }
    Ok(Value::Map(values))
}

fn summarize(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let words = args.count(1)?.clamp(1, MAX_WORDS);
    let read = |entry: &Json| {
        let summary = text_of(&entry["summary"])?;
        let kept: Vec<&str> = summary.split_whitespace().take(words).collect();
        Some(Value::text(&kept.join(" ")))
    };
    let question = Question {
        prompt: "tools/summarize",
        inputs: json!({"max_words": words}),
        list: "texts",
        replies: "summaries",
        at_a_time: TEXTS_A_REQUEST,
        read: &read,
    };
    ask_texts(ctx, args, &question, |_, text| head(text, TEXT_CHARS).to_owned())
}

fn extract(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let term = args.text(1)?;
    let question = Question {
        prompt: "tools/extract",
        inputs: json!({"term": term}),
        list: "texts",
        replies: "extracts",
        at_a_time: TEXTS_A_REQUEST,
        read: &|entry| text_of(&entry["text"]).map(|text| Value::text(&text)),
    };
    ask_texts(ctx, args, &question, |base, text| relevant(base, text, term, TEXT_CHARS))
}

fn classify(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    ctx.requester.check()?;
    let (text, classes) = (args.text(0)?.trim(), args.texts(1)?);
    at_most_names(classes.len(), "classes")?;
    if text.is_empty() || classes.is_empty() {
        return Ok(Value::text(NOTHING));
    }
    let named: Vec<Json> =
        classes.iter().zip(1..).map(|(name, n)| json!({"n": n, "name": name})).collect();
    for tries in ROUNDS {
        let inputs = vec![json!({"text": text, "classes": named})];
        let replies = ctx.requester.json(ctx.meter, "tools/classify", inputs, 1, tries)?;
        let reply = replies.into_iter().next().flatten();
        if let Some(class) = reply.and_then(|reply| class_of(&reply["class"], &classes)) {
            return Ok(Value::text(&class));
        }
    }
    ctx.requester.note_unparsed(1);
    Ok(Value::text(NOTHING))
}

/// The class that a reply names by its number or its text.
fn class_of(reply: &Json, classes: &[&str]) -> Option<String> {
    let by_number = |n: u64| {
        let at = usize::try_from(n).ok()?.checked_sub(1)?;
        classes.get(at).map(|class| (*class).to_owned())
    };
    match reply {
        Json::Null => Some(NOTHING.to_owned()),
        Json::Number(n) => by_number(n.as_u64()?),
        Json::String(text) => {
            let text = text.trim();
            let same = classes.iter().find(|class| class.trim().eq_ignore_ascii_case(text));
            let nothing = || text.eq_ignore_ascii_case(NOTHING).then(|| NOTHING.to_owned());
            same.map(|class| (*class).to_owned())
                .or_else(|| by_number(text.trim_end_matches('.').parse().ok()?))
                .or_else(nothing)
        }
        _ => None,
    }
}

fn check(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let requirement = args.text(1)?;
    let question = Question {
        prompt: "tools/check",
        inputs: json!({"requirement": requirement}),
        list: "nodes",
        replies: "checks",
        at_a_time: NODES_A_REQUEST,
        read: &|entry| truth_of(&entry["met"]).map(Value::Bool),
    };
    ask_nodes(ctx, args, &question, requirement, &Value::Bool(false))
}

/// A truth value, also in words.
fn truth_of(value: &Json) -> Option<bool> {
    match value {
        Json::Bool(truth) => Some(*truth),
        Json::String(text) => {
            match text.trim().trim_end_matches('.').to_ascii_lowercase().as_str() {
                "true" | "yes" => Some(true),
                "false" | "no" => Some(false),
                _ => None,
            }
        }
        _ => None,
    }
}

fn score(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let query = args.text(1)?;
    let question = Question {
        prompt: "tools/score",
        inputs: json!({"query": query}),
        list: "nodes",
        replies: "scores",
        at_a_time: NODES_A_REQUEST,
        read: &|entry| unit_score(&entry["score"]).map(Value::Float),
    };
    ask_nodes(ctx, args, &question, query, &Value::Float(0.0))
}

/// A score in 0..=1, also as text; none for any other number.
pub fn unit_score(value: &Json) -> Option<f64> {
    let score = match value {
        Json::Number(number) => number.as_f64()?,
        Json::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (0.0..=1.0).contains(&score).then_some(score)
}
