//! Reads products, brands, categories and colours of the Amazon base, with their documents and
//! fields.

use std::cmp::Reverse;

use crate::stark::{
    node::{Node, list, push_field, required},
    pickle::Value,
    python,
};

/// Maximum number of reviews, and of questions, in a document. The reference means to include 25,
/// but includes 27.
const MAX_ENTRIES: usize = 27;
/// Keys of a product that become fields, in this order; the fields `review` and `qa` follow.
const FIELDS: [&str; 10] = [
    "asin",
    "brand",
    "category",
    "color",
    "global_category",
    "price",
    "rank",
    "details",
    "description",
    "feature",
];

/// Reads the node that the dict `info` of `node_info.pkl` describes.
///
/// # Errors
/// A description of the first defect of `info`.
pub(super) fn read(node_type: &str, info: &Value) -> Result<Node, String> {
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
        text += "- brand: ";
        python::push_text(&mut text, brand);
        text.push('\n');
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
        text += &format!("#{number}:\nsummary: ");
        python::push_text(&mut text, required(review, "summary")?);
        text += "\ntext: \"";
        python::push_text(&mut text, required(review, "reviewText")?);
        text += "\"\n";
    }
    let questions = entries(required(info, "qa")?, "qa")?;
    let questions = questions.get(..MAX_ENTRIES).unwrap_or(questions);
    if !questions.is_empty() {
        text += "- Q&A: \n";
    }
    for (number, question) in (1..).zip(questions) {
        text += &format!("#{number}:\nquestion: \"");
        python::push_text(&mut text, required(question, "question")?);
        text += "\"\nanswer: \"";
        python::push_text(&mut text, required(question, "answer")?);
        text += "\"\n";
    }

    let mut fields = Vec::new();
    for key in FIELDS {
        if let Some(value) = info.get(key) {
            push_field(&mut fields, key, value);
        }
    }
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
        Value::Str(text) => {
            let mut joined: String = text.chars().flat_map(|c| [c, ' ']).collect();
            joined.pop();
            joined
        }
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
