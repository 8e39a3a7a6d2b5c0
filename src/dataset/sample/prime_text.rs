//! Composes the fields of diseases, drugs, genes and pathways from their facts.
//!
//! All statements are invented. Nodes of the other six types have only a name and a source.

use serde_json::{Map, Value, json};

use crate::sample::facts::{Aspect, NO_FACT};
use crate::sample::names;
use crate::sample::random::Stream;
use crate::sample::wording::PRIME;

/// Returns sentences that state all facts, each fact once or twice, and one filler sentence, in
/// random order.
fn sentences(aspects: &[Aspect], facts: &[u8], stream: &mut Stream) -> Vec<String> {
    let mut sentences = vec![stream.pick_text(&PRIME.fillers).to_owned()];
    for (aspect, &value) in aspects.iter().zip(facts) {
        if value == NO_FACT {
            continue;
        }
        sentences.extend(aspect.state(value, 25, stream));
    }
    stream.shuffle(&mut sentences);
    sentences
}

/// Distributes sentences over the text fields `keys`, in order; the last fields get fewer
/// sentences, or are omitted.
fn fields(details: &mut Map<String, Value>, keys: &[&str], sentences: &[String]) {
    let per_field = sentences.len().div_ceil(keys.len().max(1)).max(1);
    for (key, chunk) in keys.iter().zip(sentences.chunks(per_field)) {
        details.insert((*key).to_owned(), json!(chunk.join(" ")));
    }
}

/// Returns the details of a biomedical node; a node of a type without text gets only the field
/// `source`.
pub(super) fn details(
    node_type: &str,
    name: &str,
    aliases: &[String],
    facts: &[u8],
    stream: &mut Stream,
) -> Map<String, Value> {
    let mut details = Map::new();
    let mut put = |key: &str, value: Value| {
        details.insert(key.to_owned(), value);
    };
    match node_type {
        "disease" => {
            put("source", json!("MONDO"));
            put("orphanet_prevalence", json!(stream.pick_text(&PRIME.prevalence)));
            let text = sentences(&PRIME.disease, facts, stream);
            fields(&mut details, &["mondo_definition", "umls_description", "mayo_symptoms"], &text);
        }
        "drug" => {
            put("source", json!("DrugBank"));
            put("state", json!(stream.pick(&["solid", "liquid", "gas"])));
            put("synonyms", json!(aliases));
            let text = sentences(&PRIME.drug, facts, stream);
            fields(
                &mut details,
                &["description", "mechanism_of_action", "pharmacodynamics"],
                &text,
            );
        }
        "gene/protein" => {
            put("source", json!("NCBI"));
            put("type_of_gene", json!("protein-coding"));
            put("alias", json!(aliases));
            let start = 10_000 + stream.below(200_000_000);
            let position = json!({
                "chr": format!("{}", 1 + stream.below(22)),
                "start": start,
                "end": start + 500 + stream.below(90_000),
                "strand": if stream.percent(50) { 1 } else { -1 },
            });
            put("genomic_pos", position);
            let text = sentences(&PRIME.gene, facts, stream);
            let cut = text.len().div_ceil(2);
            put("summary", json!(text[..cut].join(" ")));
            let generif: Vec<Value> =
                text[cut..].iter().map(|text| json!({ "text": text })).collect();
            put("generif", json!(generif));
        }
        "pathway" => {
            put("source", json!("REACTOME"));
            put("displayName", json!([name]));
            put("stId", json!(format!("R-HSA-{}", names::digits(stream, 7))));
            put("summation", json!(sentences(&PRIME.pathway, facts, stream)));
        }
        "molecular_function" | "biological_process" | "cellular_component" => {
            put("source", json!("GO"))
        }
        "anatomy" => put("source", json!("UBERON")),
        "effect/phenotype" => put("source", json!("HPO")),
        _ => put("source", json!("CTD")),
    }
    details
}
