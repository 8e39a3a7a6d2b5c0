//! Composes the titles and fields of papers from their facts.

use serde_json::{Map, Value, json};

use crate::sample::facts::NO_FACT;
use crate::sample::names;
use crate::sample::random::Stream;
use crate::sample::wording::MAG;

/// Aspect index of the problem, which the title also names.
pub(super) const PROBLEM: usize = 0;
/// Aspect index of the method, which the title often names.
pub(super) const METHOD: usize = 1;
const YEAR: usize = 6;
const VENUE: usize = 7;

/// Returns the details of a paper: abstract, date, year, venue and number of references. The
/// abstract states each fact about the content once or twice; year and venue are fields only.
pub(super) fn details(
    facts: &[u8],
    n_references: usize,
    stream: &mut Stream,
) -> Map<String, Value> {
    let mut sentences = vec![stream.pick_text(&MAG.openers).to_owned()];
    for (column, (aspect, &value)) in MAG.paper.iter().zip(facts).enumerate() {
        if value == NO_FACT || column == YEAR || column == VENUE {
            continue;
        }
        sentences.extend(aspect.state(value, 20, stream));
    }
    stream.shuffle(&mut sentences[1..]);
    sentences.push(stream.pick_text(&MAG.closers).to_owned());
    let name_of = |column: usize| -> &str {
        let value = facts.get(column).copied().unwrap_or(NO_FACT);
        let synonyms = MAG.paper[column].values.get(value as usize);
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

/// Returns a title that names the problem and often the method.
pub(super) fn title(facts: &[u8], stream: &mut Stream) -> String {
    let problem = MAG.paper[PROBLEM].say(&["{}"], facts.get(PROBLEM).copied().unwrap_or(0), stream);
    let method = facts.get(METHOD).copied().unwrap_or(NO_FACT);
    let scope = stream.pick_text(&MAG.scopes);
    let place = names::place(stream);
    let text = if method == NO_FACT || stream.percent(40) {
        match stream.below(4) {
            0 => format!("{scope} on {problem}: the case of {place}"),
            1 => format!("{problem} revisited: {scope} from {place}"),
            2 => format!("towards an understanding of {problem} in {place}"),
            _ => format!("{scope} on {problem} around {place}"),
        }
    } else {
        let method = MAG.paper[METHOD].say(&["{}"], method, stream);
        match stream.below(4) {
            0 => format!("{method} for {problem} in {place}"),
            1 => format!("{problem} in {place} by means of {method}"),
            2 => format!("{scope} on {problem} with {method} at {place}"),
            _ => format!("from {method} to {problem}: {scope} in {place}"),
        }
    };
    names::capitalised(&text)
}
