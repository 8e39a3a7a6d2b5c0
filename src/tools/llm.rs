//! The functions of the AvaTaR tool API that ask a language model, with defects fixed.
//!
//! Source: Wu et al. 2024 (AvaTaR) and its tool list for STaRK. Several nodes or texts share a
//! request, equal items are sent once, and documents are cut to the chunks about the question.
//! Items without a usable reply in three requests become "NA", `false` or 0, and are counted in the
//! trace. Requests use the sampling temperature of the role `tools`.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value as Json, json};

use crate::{
    ArgSpec, Args, Kind, ToolCtx, ToolError, ToolSpec, Value,
    asking::ROUNDS,
    avatar::{charge_relations, check_limit, relations_in_words},
    lookup,
};
use agent_index::{
    IndexedBase,
    excerpt::{head, relevant},
};
use agent_kb::NodeId;

/// Maximum number of nodes of one request.
const NODES_PER_REQUEST: usize = 10;
/// Maximum number of texts of one request.
const TEXTS_PER_REQUEST: usize = 5;
/// Maximum length in characters of a node's document in a request.
const NODE_CHARS: usize = 3_000;
/// Maximum length in characters of a text in a request.
const TEXT_CHARS: usize = 6_000;
/// Maximum number of attributes or classes of one call.
const MAX_NAMES: usize = 100;
/// Maximum number of words of a summary.
const MAX_WORDS: usize = 500;
/// Result if nothing was found or the model gave no usable reply.
const NOTHING: &str = "NA";

const NODES: ArgSpec = ArgSpec::new("node_ids", Kind::Nodes);
const QUERY: ArgSpec = ArgSpec::new("query", Kind::Text);
const TEXTS: ArgSpec = ArgSpec::new("texts", Kind::Texts);

pub(super) const TOOLS: &[ToolSpec] = &[
    ToolSpec::new(
        "parse_query",
        &[QUERY, ArgSpec::new("attributes", Kind::Texts)],
        Kind::Map,
        "What the query says of each attribute, as text; \"NA\" when it says nothing. At most 100 \
         attributes.",
        r#"parse_query(query, ["brand", "use"])"#,
        parse_query,
    )
    .cached(),
    ToolSpec::new(
        "summarize_texts_by_llm",
        &[TEXTS, ArgSpec::optional("max_length", Kind::Int, "50")],
        Kind::Texts,
        "One summary per text of at most max_length words (1 to 500), in the order of the texts; of \
         a long text the first 6,000 characters are read.",
        "summarize_texts_by_llm([get_text_info(0)])",
        summarize,
    )
    .with_cost("1 LLM call per 5 different texts")
    .cached(),
    ToolSpec::new(
        "classify_by_llm",
        &[ArgSpec::new("text", Kind::Text), ArgSpec::new("classes", Kind::Texts)],
        Kind::Text,
        "The class that fits the text best, as given; \"NA\" when none does. At most 100 classes.",
        r#"classify_by_llm(query, ["brand question", "other"])"#,
        classify,
    )
    .cached(),
    ToolSpec::new(
        "extract_relevant_info_by_llm",
        &[TEXTS, ArgSpec::new("extract_term", Kind::Text)],
        Kind::Texts,
        "What each text says of the term, in the order of the texts; \"NA\" when it says nothing. Of \
         a long text the chunks that share most words with the term are read.",
        r#"extract_relevant_info_by_llm([get_text_info(0)], "material")"#,
        extract,
    )
    .with_cost("1 LLM call per 5 different texts")
    .cached(),
    ToolSpec::new(
        "check_req_by_llm",
        &[NODES, ArgSpec::new("requirement", Kind::Text)],
        Kind::Bools,
        "Whether each node meets the requirement by its document and relations, in the order of the \
         ids given. Of a long document the chunks that share most words with the requirement are \
         read.",
        r#"check_req_by_llm([0, 1], "is made of wool")"#,
        check,
    )
    .with_cost("1 LLM call per 10 different nodes")
    .cached(),
    ToolSpec::new(
        "get_scores_by_llm",
        &[NODES, QUERY],
        Kind::Numbers,
        "How well each node answers the query by its document and relations, in 0..1, in the order \
         of the ids given. Of a long document the chunks that share most words with the query are \
         read.",
        "get_scores_by_llm([0, 1], query)",
        score,
    )
    .with_cost("1 LLM call per 10 different nodes")
    .cached(),
];

/// A question to the model about several items: its prompt with its inputs, and how to read the
/// reply.
struct Question<'a> {
    prompt: &'static str,
    /// Inputs shared by all items.
    inputs: Json,
    /// Key of the reply's list of entries.
    replies: &'static str,
    /// Reads an item's value from the item's entry in the reply; `None` if the entry is unusable.
    read: &'a dyn Fn(&Json) -> Option<Value>,
}

/// Asks the question about all items, in batches, and returns their values in order; `None` for an
/// item without a usable reply. After the first round, items without a value are requested once
/// more. `list` is the key of the input that lists the items, and `batch_size` the maximum number
/// of items in one request.
fn ask(
    ctx: &mut ToolCtx<'_>,
    question: &Question<'_>,
    (list, batch_size): (&str, usize),
    items: &[Json],
) -> Result<Vec<Option<Value>>, ToolError> {
    let mut values: Vec<Option<Value>> = vec![None; items.len()];
    for attempt in ROUNDS {
        let open: Vec<usize> = (0..items.len()).filter(|&index| values[index].is_none()).collect();
        let batches: Vec<&[usize]> = open.chunks(batch_size).collect();
        if batches.is_empty() {
            break;
        }
        let inputs = batches.iter().map(|batch| {
            let numbered = batch.iter().zip(1..).map(|(&index, n)| {
                let mut item = items[index].clone();
                item["n"] = Json::from(n);
                item
            });
            let mut inputs = question.inputs.clone();
            inputs[list] = numbered.collect();
            inputs
        });
        let inputs = inputs.collect();
        let replies =
            ctx.requester.json(ctx.meter, question.prompt, inputs, open.len(), attempt)?;
        for (batch, reply) in batches.iter().zip(replies) {
            let entries = reply.as_ref().and_then(|reply| reply[question.replies].as_array());
            for entry in entries.into_iter().flatten() {
                let n = entry["n"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                let index = n.checked_sub(1).and_then(|n| batch.get(n));
                // Of several entries for an item, the first usable one counts.
                if let Some(slot) = index.and_then(|&index| values.get_mut(index))
                    && slot.is_none()
                {
                    *slot = (question.read)(entry);
                }
            }
        }
    }
    ctx.requester.note_unparsed(values.iter().filter(|value| value.is_none()).count());
    Ok(values)
}

/// Returns the distinct keys in order of first occurrence, and for each key its index among them.
fn distinct<K: Clone + Eq + std::hash::Hash>(keys: &[K]) -> (Vec<K>, Vec<usize>) {
    let mut first: HashMap<&K, usize> = HashMap::new();
    let mut all = Vec::new();
    let indexes = keys
        .iter()
        .map(|key| {
            *first.entry(key).or_insert_with(|| {
                all.push(key.clone());
                all.len() - 1
            })
        })
        .collect();
    (all, indexes)
}

/// Returns, as a list, the value at each of `indexes`; missing values become `default`.
fn values_at(values: &[Option<Value>], indexes: &[usize], default: &Value) -> Value {
    let value =
        |&index: &usize| values.get(index).cloned().flatten().unwrap_or_else(|| default.clone());
    Value::List(indexes.iter().map(value).collect())
}

/// Asks a question about the nodes of the first argument; returns one value per node, in their
/// order.
fn ask_nodes(
    ctx: &mut ToolCtx<'_>,
    args: &Args<'_>,
    question: &Question<'_>,
    topic: &str,
    default: &Value,
) -> Result<Value, ToolError> {
    ctx.requester.check()?;
    let nodes = args.node_list(0)?;
    let (nodes, indexes) = distinct(&nodes);
    let mut items = Vec::with_capacity(nodes.len());
    for node in nodes {
        ctx.meter.poll()?;
        items.push(node_item(ctx, node, topic)?);
    }
    let values = ask(ctx, question, ("nodes", NODES_PER_REQUEST), &items)?;
    Ok(values_at(&values, &indexes, default))
}

/// Returns the type of a node and its document with its relations, cut to the chunks about `topic`,
/// for a request; charges the work.
fn node_item(ctx: &mut ToolCtx<'_>, node: NodeId, topic: &str) -> Result<Json, ToolError> {
    let node = lookup::node(ctx.base, node)?;
    let mut text = ctx.base.document(node).into_owned();
    ctx.meter.touch(text.len() / 100)?;
    charge_relations(ctx, node)?;
    text.push_str(&relations_in_words(ctx.base, node));
    let text = relevant(ctx.base, &text, topic, NODE_CHARS);
    Ok(json!({"type": ctx.base.kb.type_name(ctx.base.kb.node_type(node)), "text": text}))
}

/// Asks a question about the texts of the first argument, each shortened by `cut`; returns one
/// value per text, in their order. Blank texts get "NA" and are not sent.
fn ask_texts(
    ctx: &mut ToolCtx<'_>,
    args: &Args<'_>,
    question: &Question<'_>,
    cut: impl Fn(&IndexedBase, &str) -> String,
) -> Result<Value, ToolError> {
    ctx.requester.check()?;
    let texts: Vec<&str> = args.texts(0)?.into_iter().map(str::trim).collect();
    let (texts, indexes) = distinct(&texts);
    ctx.meter.touch(texts.iter().map(|text| text.len()).sum::<usize>() / 100)?;
    let (full, kept): (Vec<usize>, Vec<&str>) =
        texts.iter().copied().enumerate().filter(|(_, text)| !text.is_empty()).unzip();
    let mut items = Vec::with_capacity(kept.len());
    for text in kept {
        ctx.meter.poll()?;
        items.push(json!({"text": cut(ctx.base, text)}));
    }
    let mut values = vec![None; texts.len()];
    let asked = ask(ctx, question, ("texts", TEXTS_PER_REQUEST), &items)?;
    for (index, value) in full.into_iter().zip(asked) {
        values[index] = value;
    }
    Ok(values_at(&values, &indexes, &Value::text(NOTHING)))
}

/// Converts a JSON value to text: `null` becomes "NA"; `None` for blank text, lists and objects.
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

fn parse_query(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    ctx.requester.check()?;
    let (query, attributes) = (args.text(0)?.trim(), args.texts(1)?);
    check_limit(attributes.len(), MAX_NAMES, "attributes")?;
    let (attributes, _) = distinct(&attributes);
    let mut values: BTreeMap<String, Value> = BTreeMap::new();
    for attempt in ROUNDS {
        let open: Vec<&str> =
            attributes.iter().copied().filter(|name| !values.contains_key(*name)).collect();
        if open.is_empty() || query.is_empty() {
            break;
        }
        let inputs = vec![json!({"query": query, "attributes": open})];
        let replies = ctx.requester.json(ctx.meter, "tools/parse_query", inputs, 1, attempt)?;
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
        replies: "summaries",
        read: &read,
    };
    ask_texts(ctx, args, &question, |_, text| head(text, TEXT_CHARS).to_owned())
}

fn extract(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let term = args.text(1)?;
    let question = Question {
        prompt: "tools/extract",
        inputs: json!({"term": term}),
        replies: "extracts",
        read: &|entry| text_of(&entry["text"]).map(|text| Value::text(&text)),
    };
    ask_texts(ctx, args, &question, |base, text| relevant(base, text, term, TEXT_CHARS))
}

fn classify(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    ctx.requester.check()?;
    let (text, classes) = (args.text(0)?.trim(), args.texts(1)?);
    check_limit(classes.len(), MAX_NAMES, "classes")?;
    if text.is_empty() || classes.is_empty() {
        return Ok(Value::text(NOTHING));
    }
    let named: Vec<Json> =
        classes.iter().zip(1..).map(|(name, n)| json!({"n": n, "name": name})).collect();
    for attempt in ROUNDS {
        let inputs = vec![json!({"text": text, "classes": named})];
        let replies = ctx.requester.json(ctx.meter, "tools/classify", inputs, 1, attempt)?;
        let reply = replies.into_iter().next().flatten();
        if let Some(class) = reply.and_then(|reply| class_of(&reply["class"], &classes)) {
            return Ok(Value::text(&class));
        }
    }
    ctx.requester.note_unparsed(1);
    Ok(Value::text(NOTHING))
}

/// Returns the class that a reply names by its number or its text; "NA" if the reply says so,
/// `None` if the reply is unusable.
fn class_of(reply: &Json, classes: &[&str]) -> Option<String> {
    let by_number = |n: u64| {
        let index = usize::try_from(n).ok()?.checked_sub(1)?;
        classes.get(index).map(|class| (*class).to_owned())
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
        replies: "checks",
        read: &|entry| truth_of(&entry["met"]).map(Value::Bool),
    };
    ask_nodes(ctx, args, &question, requirement, &Value::Bool(false))
}

/// Reads a truth value, also from "true", "yes", "false" or "no" in any case.
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
        replies: "scores",
        read: &|entry| unit_score(&entry["score"]).map(Value::Float),
    };
    ask_nodes(ctx, args, &question, query, &Value::Float(0.0))
}

/// Reads a score in 0..=1, also from text; `None` for other numbers and values.
pub fn unit_score(value: &Json) -> Option<f64> {
    let score = match value {
        Json::Number(number) => number.as_f64()?,
        Json::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (0.0..=1.0).contains(&score).then_some(score)
}
