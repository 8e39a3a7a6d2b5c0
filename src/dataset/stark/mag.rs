//! Reads papers, authors, institutions and fields of study of the MAG base, with their documents
//! and fields.

use crate::stark::{
    node::{Node, push_field, required},
    pickle::Value,
    python,
};

/// Keys that become fields of a node of any type, in this order.
const FIELDS: [&str; 15] = [
    "abstract",
    "Date",
    "Year",
    "OriginalVenue",
    "JournalDisplayName",
    "ConferenceSeriesDisplayName",
    "ConferenceInstancesDisplayName",
    "BookTitle",
    "Publisher",
    "DocType",
    "ReferenceCount",
    "PaperCitationCount",
    "PaperCount",
    "CitationCount",
    "Level",
];

/// Reads the node that the dict `info` of `node_info.pkl` describes; a missing name becomes an
/// empty name.
///
/// # Errors
/// A description of the first defect of `info`.
pub(super) fn read(info: &Value) -> Result<Node, String> {
    let node_type = required(info, "type")?;
    let (name, text) = match node_type.as_str().unwrap_or_default() {
        "paper" => paper(info)?,
        "author" => counted(info, "- author name", "author")?,
        "institution" => counted(info, " - institution", "institution")?,
        "field_of_study" => counted(info, " - field of study", "field")?,
        _ => return Err(format!("its type {} is not known", python::text(node_type))),
    };
    let mut fields = Vec::new();
    for key in FIELDS {
        if let Some(value) = info.get(key).filter(|value| python::text(value) != "-1") {
            push_field(&mut fields, key, value);
        }
    }
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
