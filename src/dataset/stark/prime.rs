//! Reads diseases, genes, drugs and other nodes of the Prime base, with their documents and fields.

use crate::stark::{
    node::{Node, list, push_field, required},
    pickle::Value,
    python,
};

/// Maximum number of words of a gene's PubMed text in its document; words are separated by single
/// spaces.
const MAX_WORDS: usize = 50_000;

/// Reads the node that the dict `info` of `node_info.pkl` describes.
///
/// # Errors
/// A description of the first defect of `info`.
pub(super) fn read(info: &Value) -> Result<Node, String> {
    // The reference removes blank values while loading, so that they are missing later.
    let filled = |key| match required(info, key)? {
        value if is_blank(value) => Err(format!("its {key} is empty")),
        value => Ok(python::text(value)),
    };
    let (name, node_type) = (filled("name")?, filled("type")?);
    let mut text =
        format!("- name: {name}\n- type: {node_type}\n- source: {}\n", filled("source")?);
    let mut fields = Vec::new();
    for key in ["id", "source"] {
        if let Some(value) = info.get(key) {
            push_field(&mut fields, key, value);
        }
    }
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
        text += std::mem::take(&mut header);
        text += &format!("  - {key}");
        if let Some(gloss) = gloss {
            text += &format!(" ({gloss})");
        }
        text += ": ";
        python::push_text(&mut text, &value);
        text.push('\n');
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

/// Removes the blank values of a dict and of the dicts in it.
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

/// Returns the value that a document shows for a key of a gene: of a structured value, the readable
/// part.
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
