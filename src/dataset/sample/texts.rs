//! Composes the titles and fields of products, papers and biomedical nodes from their facts.
//!
//! Brands, categories and colours are relations, so a product's text never names them. All
//! statements about biomedical nodes are invented; six of their types have only a name and a
//! source.

use serde_json::{Map, Value, json};

use crate::sample::facts::{Aspect, NO_FACT};
use crate::sample::names;
use crate::sample::random::Stream;
use crate::sample::wording::{AMAZON, MAG, PRIME};

/// Aspect index of a product's kind, which the title also names.
pub(super) const KIND: usize = 0;
/// Aspect index of a paper's problem, which the title also names.
const PROBLEM: usize = 0;
/// Aspect index of a paper's method, which the title often names.
const METHOD: usize = 1;
const YEAR: usize = 6;
const VENUE: usize = 7;

/// Returns the details of a product: code, price, description, features, reviews, and questions
/// with answers. The text states every fact at least once.
pub(super) fn product(facts: &[u8], stream: &mut Stream) -> Map<String, Value> {
    let mut description = vec![stream.pick_text(&AMAZON["fillers"]).to_owned()];
    let mut features = Vec::new();
    let mut reviews: Vec<Vec<String>> = vec![Vec::new(); 1 + stream.below(3)];
    let mut questions = Vec::new();
    for (aspect, &value) in AMAZON.aspects("product").iter().zip(facts) {
        for sentence in aspect.state(value, 35, stream) {
            match stream.below(10) {
                0..=3 => description.push(sentence),
                4..=6 => features.push(sentence),
                7..=8 => {
                    let which = stream.below(reviews.len());
                    reviews[which].push(sentence);
                }
                _ => questions.push(json!({
                    "question": format!("What can you tell me about the {}?", aspect.name),
                    "answer": sentence,
                })),
            }
        }
    }
    stream.shuffle(&mut features);
    if stream.percent(50) {
        features.push(stream.pick_text(&AMAZON["fillers"]).to_owned());
    }
    let reviews: Vec<Value> = reviews
        .into_iter()
        .map(|sentences| {
            let text = format!("{} {}", stream.pick_text(&AMAZON["openers"]), sentences.join(" "));
            json!({
                "reviewerID": format!("R{:08}", stream.below(100_000_000)),
                "summary": stream.pick_text(&AMAZON["summaries"]),
                "reviewText": text.trim_end(),
                "vote": stream.skewed(60),
                "overall": 5 - stream.skewed(5),
                "verified": stream.percent(80),
            })
        })
        .collect();
    let mut details = Map::new();
    details.insert("asin".to_owned(), json!(names::product_code(stream)));
    let cents = 500 + stream.skewed(20_000);
    details.insert("price".to_owned(), json!(format!("${}.{:02}", cents / 100, cents % 100)));
    details.insert("description".to_owned(), json!(description));
    details.insert("feature".to_owned(), json!(features));
    details.insert("review".to_owned(), json!(reviews));
    details.insert("qa".to_owned(), json!(questions));
    details
}

/// Returns the details of a paper: abstract, date, year, venue and number of references. The
/// abstract states each fact about the content once or twice; year and venue are fields only.
pub(super) fn paper(facts: &[u8], n_references: usize, stream: &mut Stream) -> Map<String, Value> {
    let mut sentences = vec![stream.pick_text(&MAG["openers"]).to_owned()];
    for (column, (aspect, &value)) in MAG.aspects("paper").iter().zip(facts).enumerate() {
        if column != YEAR && column != VENUE {
            sentences.extend(aspect.state(value, 20, stream));
        }
    }
    stream.shuffle(&mut sentences[1..]);
    sentences.push(stream.pick_text(&MAG["closers"]).to_owned());
    let name_of = |column: usize| -> &str {
        let value = facts.get(column).copied().unwrap_or(NO_FACT);
        let synonyms = MAG.aspects("paper")[column].values.get(value as usize);
        synonyms.and_then(|synonyms| synonyms.first()).map_or("", String::as_str)
    };
    let year = name_of(YEAR);
    let mut details = Map::new();
    details.insert("abstract".to_owned(), json!(sentences.join(" ")));
    let date = format!("{year}-{:02}-{:02}", 1 + stream.below(12), 1 + stream.below(28));
    details.insert("Date".to_owned(), json!(date));
    details.insert("Year".to_owned(), json!(year.parse::<u32>().unwrap_or_default()));
    if !name_of(VENUE).is_empty() {
        details.insert("OriginalVenue".to_owned(), json!(name_of(VENUE)));
    }
    details.insert("ReferenceCount".to_owned(), json!(n_references));
    details
}

/// Returns the title of a paper, which names the problem and often the method.
pub(super) fn title(facts: &[u8], stream: &mut Stream) -> String {
    let problem = facts.get(PROBLEM).copied().unwrap_or(0);
    let problem = MAG.aspects("paper")[PROBLEM].say(&["{}"], problem, stream);
    let method = facts.get(METHOD).copied().unwrap_or(NO_FACT);
    let scope = stream.pick_text(&MAG["scopes"]);
    let place = names::place(stream);
    let text = if method == NO_FACT || stream.percent(40) {
        match stream.below(4) {
            0 => format!("{scope} on {problem}: the case of {place}"),
            1 => format!("{problem} revisited: {scope} from {place}"),
            2 => format!("towards an understanding of {problem} in {place}"),
            _ => format!("{scope} on {problem} around {place}"),
        }
    } else {
        let method = MAG.aspects("paper")[METHOD].say(&["{}"], method, stream);
        match stream.below(4) {
            0 => format!("{method} for {problem} in {place}"),
            1 => format!("{problem} in {place} by means of {method}"),
            2 => format!("{scope} on {problem} with {method} at {place}"),
            _ => format!("from {method} to {problem}: {scope} in {place}"),
        }
    };
    names::capitalised(&text)
}

/// Returns sentences that state all facts, each fact once or twice, and one filler sentence, in
/// random order.
fn sentences(aspects: &[Aspect], facts: &[u8], stream: &mut Stream) -> Vec<String> {
    let mut sentences = vec![stream.pick_text(&PRIME["fillers"]).to_owned()];
    for (aspect, &value) in aspects.iter().zip(facts) {
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
pub(super) fn biomedical(
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
            put("orphanet_prevalence", json!(stream.pick_text(&PRIME["prevalence"])));
            let text = sentences(PRIME.aspects("disease"), facts, stream);
            fields(&mut details, &["mondo_definition", "umls_description", "mayo_symptoms"], &text);
        }
        "drug" => {
            put("source", json!("DrugBank"));
            put("state", json!(stream.pick(&["solid", "liquid", "gas"])));
            put("synonyms", json!(aliases));
            let text = sentences(PRIME.aspects("drug"), facts, stream);
            let keys = ["description", "mechanism_of_action", "pharmacodynamics"];
            fields(&mut details, &keys, &text);
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
            let text = sentences(PRIME.aspects("gene/protein"), facts, stream);
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
            put("summation", json!(sentences(PRIME.aspects("pathway"), facts, stream)));
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
