//! Converts the values in `node_info.pkl` to nodes of the installed base, for all three bases of
//! the benchmark.
//!
//! The text of a node equals, byte for byte, the output of the reference's `get_doc_info` without
//! relations and not compact. Reading a node on which the reference fails returns an error.

use std::cmp::Reverse;

use serde_json::{Map, Number};

use crate::{
    render_field,
    stark::{Kind, pickle::Value, python},
};

/// Maximum number of reviews, and of questions, in a document. The reference means to include 25,
/// but includes 27.
const MAX_ENTRIES: usize = 27;
/// Keys of a product that become fields, in this order, separated by spaces; the fields `review`
/// and `qa` follow.
const PRODUCT_FIELDS: &str =
    "asin brand category color global_category price rank details description feature";
/// Keys of the MAG base that become fields of a node of any type, in this order, separated by
/// spaces.
const MAG_FIELDS: &str = "abstract Date Year OriginalVenue JournalDisplayName \
    ConferenceSeriesDisplayName ConferenceInstancesDisplayName BookTitle Publisher DocType \
    ReferenceCount PaperCitationCount PaperCount CitationCount Level";
/// Maximum number of words of a gene's PubMed text in its document; words are separated by single
/// spaces.
const MAX_WORDS: usize = 50_000;

/// Name, text and fields of a node of the installed base.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) fields: Vec<(String, String)>,
}

/// Reads the node that the dict `info` describes.
///
/// # Errors
/// A description of the first defect of `info`.
pub(super) fn read(kind: Kind, node_type: &str, info: &Value) -> Result<Node, String> {
    match kind {
        Kind::Amazon => amazon(node_type, info),
        Kind::Mag => mag(info),
        Kind::Prime => prime(info),
    }
}

/// Returns the value of a required key; a missing key is an error, as in the reference.
fn required<'a>(info: &'a Value, key: &str) -> Result<&'a Value, String> {
    info.get(key).ok_or_else(|| format!("it has no \"{key}\""))
}

/// Returns the texts of two required keys.
fn texts(info: &Value, [first, second]: [&str; 2]) -> Result<[String; 2], String> {
    Ok([python::text(required(info, first)?), python::text(required(info, second)?)])
}

/// Returns the elements of a list; `key` names the list in the error.
fn list<'a>(value: &'a Value, key: &str) -> Result<&'a [Value], String> {
    value.as_slice().ok_or_else(|| format!("\"{key}\" is not a list"))
}

/// Returns the fields of the space-separated `keys`, in this order; skips a key whose value is
/// missing, empty or rejected by `is_known`.
fn fields_of(info: &Value, keys: &str, is_known: fn(&Value) -> bool) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    for key in keys.split(' ') {
        if let Some(value) = info.get(key).filter(|value| is_known(value)) {
            push_field(&mut fields, key, value);
        }
    }
    fields
}

/// Adds a field unless its value is empty.
fn push_field(fields: &mut Vec<(String, String)>, name: &str, value: &Value) {
    let text = render_field(&json(value));
    if !text.is_empty() {
        fields.push((name.to_string(), text));
    }
}

/// Converts a field value to JSON: missing values, bytes and calls become null, whole floats become
/// integers.
fn json(value: &Value) -> serde_json::Value {
    let list = |items: &[Value]| serde_json::Value::Array(items.iter().map(json).collect());
    match value {
        Value::None | Value::Call(_) | Value::Bytes(_) => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(number) => (*number).into(),
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            (*number as i64).into()
        }
        Value::Float(number) => Number::from_f64(*number).into(),
        // The shortest digits that identify the number, as in the original data: 0.1, not
        // 0.10000000149011612.
        Value::Single(number) => {
            json(&Value::Float(number.to_string().parse().unwrap_or(f64::NAN)))
        }
        Value::Printed(printed) => serde_json::Value::from(&*printed.text),
        Value::Str(text) => text.as_ref().into(),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => list(items),
        Value::Dict(items) => {
            let items = items.iter().map(|(key, value)| (python::text(key), json(value)));
            serde_json::Value::Object(items.collect::<Map<_, _>>())
        }
    }
}

/// Reads a product, brand, category or colour of the Amazon base.
fn amazon(node_type: &str, info: &Value) -> Result<Node, String> {
    if node_type == "product" {
        return product(info);
    }
    let name = python::text(required(info, &format!("{node_type}_name"))?);
    Ok(Node { text: format!("{node_type} name: {name}"), name, fields: Vec::new() })
}

fn product(info: &Value) -> Result<Node, String> {
    let name = python::text(required(info, "title")?);
    let mut text = format!("- product: {name}\n");
    if let Some(brand) = info.get("brand") {
        text += &format!("- brand: {}\n", python::text(brand));
    }
    if let Some((dimensions, weight)) = dimensions(info) {
        text += &format!("- dimensions: {dimensions}\n- weight: {weight}\n");
    }
    let description = description(required(info, "description")?)?;
    if !description.is_empty() {
        text += &format!("- description: {description}\n");
    }
    push_features(&mut text, required(info, "feature")?)?;
    let reviews = reviews(required(info, "review")?)?;
    if !reviews.is_empty() {
        text += "- reviews: \n";
    }
    for (number, review) in &reviews {
        let [summary, body] = texts(review, ["summary", "reviewText"])?;
        text += &format!("#{number}:\nsummary: {summary}\ntext: \"{body}\"\n");
    }
    let questions = entries(required(info, "qa")?, "qa")?;
    let questions = questions.get(..MAX_ENTRIES).unwrap_or(questions);
    if !questions.is_empty() {
        text += "- Q&A: \n";
    }
    for (number, question) in (1..).zip(questions) {
        let [question, answer] = texts(question, ["question", "answer"])?;
        text += &format!("#{number}:\nquestion: \"{question}\"\nanswer: \"{answer}\"\n");
    }

    let mut fields = fields_of(info, PRODUCT_FIELDS, |_| true);
    let reviews = reviews.iter().map(|(_, review)| *review);
    push_pairs(&mut fields, "review", reviews, ["summary", "reviewText"]);
    push_pairs(&mut fields, "qa", questions.iter(), ["question", "answer"]);
    Ok(Node { name, text, fields })
}

/// Returns the dimensions and the weight of a product, if its details give exactly these two,
/// separated by `" ; "`; otherwise `None`.
fn dimensions(info: &Value) -> Option<(&str, &str)> {
    let (dimensions, weight) =
        info.get("details")?.get("product_dimensions")?.as_str()?.split_once(" ; ")?;
    (!weight.contains(" ; ")).then_some((dimensions, weight))
}

/// Joins the parts of a description with spaces. A text is treated as a list of its characters, as
/// in Python.
fn description(value: &Value) -> Result<String, String> {
    let joined = match value {
        value if !python::is_true(value) => String::new(),
        Value::Str(text) => text.chars().flat_map(|c| [c, ' ']).collect(),
        parts => {
            let parts = list(parts, "description")?.iter().map(Value::as_str);
            let parts: Option<Vec<&str>> = parts.collect();
            parts.ok_or("\"description\" has a part that is not a string")?.join(" ")
        }
    };
    Ok(joined.trim_matches(' ').to_string())
}

fn push_features(text: &mut String, features: &Value) -> Result<(), String> {
    if !python::is_true(features) {
        return Ok(());
    }
    *text += "- features: \n";
    // A text is treated as a list of its characters, as in Python.
    if let Some(characters) = features.as_str() {
        let lines = (1..).zip(characters.chars()).map(|(number, c)| format!("#{number}: {c}\n"));
        text.extend(lines);
        return Ok(());
    }
    for (number, feature) in (1..).zip(list(features, "feature")?) {
        if !python::is_true(feature) {
            continue;
        }
        let feature = feature.as_str().ok_or("\"feature\" has an entry that is not a string")?;
        if !feature.to_lowercase().contains("asin") {
            *text += &format!("#{number}: {feature}\n");
        }
    }
    Ok(())
}

/// Returns the elements of a list; empty if the value is false in Python. `key` names the value in
/// the error.
fn entries<'a>(value: &'a Value, key: &str) -> Result<&'a [Value], String> {
    if python::is_true(value) { list(value, key) } else { Ok(&[]) }
}

/// Returns the [`MAX_ENTRIES`] reviews with the most votes, most votes first, each with its number
/// in the file (from 1). Reviews with equally many votes keep the order of the file; in the
/// reference, their order depends on the processor.
fn reviews(value: &Value) -> Result<Vec<(usize, &Value)>, String> {
    let mut reviews = Vec::new();
    for (number, review) in (1..).zip(entries(value, "review")?) {
        reviews.push((votes(required(review, "vote")?)?, number, review));
    }
    reviews.sort_by_key(|&(votes, number, _)| (Reverse(votes), number));
    reviews.truncate(MAX_ENTRIES);
    Ok(reviews.into_iter().map(|(_, number, review)| (number, review)).collect())
}

fn votes(value: &Value) -> Result<i64, String> {
    match value {
        Value::None => Ok(0),
        value if value.as_float().is_some_and(f64::is_nan) => Ok(0),
        other => {
            let number = other.as_str().and_then(|text| python::int(&text.replace(',', "")));
            number.ok_or_else(|| format!("\"vote\" is {}, not a count", python::text(other)))
        }
    }
}

/// Adds one field with the texts of two keys of each entry, each text on a line of its own; missing
/// keys are skipped.
fn push_pairs<'a>(
    fields: &mut Vec<(String, String)>,
    name: &str,
    entries: impl Iterator<Item = &'a Value>,
    keys: [&str; 2],
) {
    let texts = entries.flat_map(|entry| keys.map(|key| entry.get(key).and_then(Value::as_str)));
    let texts: Vec<&str> = texts.flatten().collect();
    if !texts.is_empty() {
        fields.push((name.to_string(), texts.join("\n")));
    }
}

/// Reads a paper, author, institution or field of study of the MAG base; a missing name becomes an
/// empty name.
fn mag(info: &Value) -> Result<Node, String> {
    let node_type = required(info, "type")?;
    let (name, text) = match node_type.as_str().unwrap_or_default() {
        "paper" => paper(info)?,
        "author" => counted(info, "- author name", "author")?,
        "institution" => counted(info, " - institution", "institution")?,
        "field_of_study" => counted(info, " - field of study", "field")?,
        _ => return Err(format!("its type {} is not known", python::text(node_type))),
    };
    let fields = fields_of(info, MAG_FIELDS, |value| python::text(value) != "-1");
    Ok(Node { name, text, fields })
}

fn paper(info: &Value) -> Result<(String, String), String> {
    let title = python::text(required(info, "title")?);
    let about = required(info, "abstract")?.as_str().ok_or("\"abstract\" is not a string")?;
    let about = about.replace('\r', "");
    let mut text =
        format!(" - paper title: {title}\n - abstract: {}\n", about.trim_end_matches('\n'));
    let known = |key| match python::text(required(info, key)?) {
        missing if missing == "-1" => Ok::<_, String>(None),
        value => Ok(Some(value)),
    };
    if let Some(date) = known("Date")? {
        text += &format!(" - publication date: {date}\n");
    }
    for (key, label) in [
        ("OriginalVenue", "venue"),
        ("JournalDisplayName", "journal"),
        ("ConferenceSeriesDisplayName", "conference"),
        ("ConferenceInstancesDisplayName", "conference"),
    ] {
        if let Some(place) = known(key)? {
            text += &format!(" - {label}: {place}\n");
            break;
        }
    }
    Ok((title, text))
}

/// Returns the name and the document of an author, institution or field of study; the document
/// states the numbers of papers and citations. Like the reference, replaces every "-1" in the
/// document, even within a name such as HIV-1.
fn counted(info: &Value, label: &str, prefix: &str) -> Result<(String, String), String> {
    let name = python::text(required(info, "DisplayName")?);
    let mut text = format!("{label}: {name}\n");
    for (key, noun) in [("PaperCount", "paper"), ("CitationCount", "citation")] {
        let count = required(info, key)?;
        if !matches!(count, Value::Int(-1)) && count.as_float() != Some(-1.0) {
            text += &format!("- {prefix} {noun} count: {}\n", python::text(count));
        }
    }
    let name = if name == "-1" { String::new() } else { name };
    Ok((name, text.replace("-1", "Unknown")))
}

/// Reads a disease, gene, drug or other node of the Prime base.
fn prime(info: &Value) -> Result<Node, String> {
    // The reference removes blank values while loading, so they are missing later.
    let filled = |key| match required(info, key)? {
        value if is_blank(value) => Err(format!("its {key} is empty")),
        value => Ok(python::text(value)),
    };
    let (name, node_type) = (filled("name")?, filled("type")?);
    let mut text =
        format!("- name: {name}\n- type: {node_type}\n- source: {}\n", filled("source")?);
    let mut fields = fields_of(info, "id source", |_| true);
    let details = match info.get("details") {
        Some(Value::Dict(details)) => details.as_ref(),
        Some(other) if !is_blank(other) => return Err("\"details\" is not a dict".to_string()),
        _ => &[],
    };
    let mut header = "- details:\n";
    for (key, value) in details {
        let key = key.as_str().ok_or("a key of \"details\" is not a string")?;
        if is_blank(value) || key.starts_with('_') || key.contains("_id") {
            continue;
        }
        let value = cleaned(value);
        let gloss = gloss(key).filter(|_| node_type == "gene/protein");
        let value = if gloss.is_some() { of_gene(key, value)? } else { value };
        let gloss = gloss.map(|gloss| format!(" ({gloss})")).unwrap_or_default();
        text += std::mem::take(&mut header);
        text += &format!("  - {key}{gloss}: {}\n", python::text(&value));
        push_field(&mut fields, key, &value);
    }
    Ok(Node { name, text, fields })
}

/// Whether Python prints a value as an empty text or as `nan`.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Str(text) => matches!(text.as_ref(), "" | "nan"),
        other => other.as_float().is_some_and(f64::is_nan),
    }
}

/// Removes the blank values of a dict and of the dicts nested in it.
fn cleaned(value: &Value) -> Value {
    let Value::Dict(items) = value else { return value.clone() };
    let filled = items.iter().filter(|(_, value)| !is_blank(value));
    Value::Dict(filled.map(|(key, value)| (key.clone(), cleaned(value))).collect())
}

/// Returns the label that a document shows for a key of a gene, such as `gene name` for `name`;
/// `None` for other keys.
fn gloss(key: &str) -> Option<&'static str> {
    Some(match key {
        "name" => "gene name",
        "type_of_gene" => "gene types",
        "alias" => "other gene names",
        "other_names" => "extended other gene names",
        "genomic_pos" => "genomic position",
        "generif" => "PubMed text",
        "interpro" => "protein family and classification information",
        "summary" => "protein summary text",
        _ => return None,
    })
}

/// Returns the value that a document shows for a key of a gene; for a structured value, its
/// readable part.
fn of_gene(key: &str, value: Value) -> Result<Value, String> {
    match key {
        "interpro" => {
            let families =
                if let Value::Dict(_) = value { &[value][..] } else { list(&value, key)? };
            let texts: Result<_, _> =
                families.iter().map(|family| required(family, "desc").cloned()).collect();
            Ok(Value::List(texts?))
        }
        "generif" => {
            let text = |finding| {
                required(finding, "text")?
                    .as_str()
                    .ok_or("a PubMed text is not a string".to_string())
            };
            let texts: Result<Vec<&str>, String> = list(&value, key)?.iter().map(text).collect();
            let mut joined = texts?.join("; ");
            let end = joined.match_indices(' ').nth(MAX_WORDS - 1).map_or(joined.len(), |at| at.0);
            joined.truncate(end);
            Ok(Value::Str(joined.into()))
        }
        "genomic_pos" => match &value {
            Value::List(places) => places.first().cloned().ok_or("it has no position".to_string()),
            _ => Ok(value),
        },
        _ => Ok(value),
    }
}
