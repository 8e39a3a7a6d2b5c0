//! Composes the fields of products from their facts. Brands, categories and colours are relations,
//! so a product's text never names them.

use serde_json::{Map, Value, json};

use crate::sample::facts::NO_FACT;
use crate::sample::names;
use crate::sample::random::Stream;
use crate::sample::wording::AMAZON;

/// Aspect index of the product kind, which the title also names.
pub(super) const KIND: usize = 0;

/// Returns the details of a product: code, price, description, features, reviews, and questions
/// with answers. The text states every fact at least once.
pub(super) fn details(facts: &[u8], stream: &mut Stream) -> Map<String, Value> {
    let mut description = vec![stream.pick_text(&AMAZON.fillers).to_owned()];
    let mut features = Vec::new();
    let mut reviews: Vec<Vec<String>> = vec![Vec::new(); 1 + stream.below(3)];
    let mut questions = Vec::new();
    for (aspect, &value) in AMAZON.product.iter().zip(facts) {
        if value == NO_FACT {
            continue;
        }
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
        features.push(stream.pick_text(&AMAZON.fillers).to_owned());
    }
    let reviews: Vec<Value> = reviews
        .into_iter()
        .map(|sentences| {
            let text = format!("{} {}", stream.pick_text(&AMAZON.openers), sentences.join(" "));
            json!({
                "reviewerID": format!("R{:08}", stream.below(100_000_000)),
                "summary": stream.pick_text(&AMAZON.summaries),
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
