//! The wording of questions: patterns of several styles, filled with the type of the answers,
//! phrases for the relations, names of slot nodes, and words of a document. The patterns are in
//! `data/wording.toml`, which is compiled in.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Serialize};

use crate::template::Template;
use agent_dataset::sample::random::Stream;
use agent_kb::{Direction, Kb, TypeId, metapath::Step};

/// Percentage of the relational questions that use the wording of their template, if it has one.
const OWN_WORDING: usize = 50;

/// Style of a question's wording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// An interrogative sentence.
    #[default]
    Question,
    /// An imperative sentence.
    Imperative,
    /// Search keywords instead of a sentence.
    Keyword,
    /// A sentence that gives a reason for asking.
    Persona,
}

impl Style {
    /// All styles.
    pub const ALL: [Style; 4] =
        [Style::Question, Style::Imperative, Style::Keyword, Style::Persona];

    /// Returns the name of the style in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Style::Question => "question",
            Style::Imperative => "imperative",
            Style::Keyword => "keyword",
            Style::Persona => "persona",
        }
    }
}

/// What a question is about: relations, words of documents, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Relations only.
    Relational,
    /// Words of documents only.
    Textual,
    /// Relations and words of documents.
    Fused,
}

impl Kind {
    /// Returns the name of the kind in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Relational => "relational",
            Kind::Textual => "textual",
            Kind::Fused => "fused",
        }
    }
}

/// Patterns of questions by style and kind.
type Patterns = BTreeMap<Style, BTreeMap<Kind, Vec<String>>>;

#[allow(clippy::expect_used, reason = "the file is part of the binary, and a test reads it")]
static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    toml::from_str(include_str!("data/wording.toml")).expect("the patterns have their form")
});

/// Returns the patterns of a style and a kind of question.
fn patterns(style: Style, kind: Kind) -> &'static [String] {
    &PATTERNS[&style][&kind]
}

/// Splits a schema name into words: `author___writes___paper` has three, `hasBrand` and
/// `gene/protein` two.
pub(super) fn parts(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if !letter.is_alphanumeric() || begins {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().into_iter().for_each(|word| word.extend(letter.to_lowercase()));
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the name of a type in words: "gene or protein" for `gene/protein`.
pub(super) fn type_words(name: &str) -> String {
    name.split('/').map(|part| parts(part).join(" ")).collect::<Vec<_>>().join(" or ")
}

/// Returns the plural of an English noun phrase.
fn plural(words: &str) -> String {
    let word_plural = |word: &str| {
        let ends = |end: &str| word.ends_with(end);
        if ends("y") && !["ay", "ey", "oy", "uy"].iter().any(|end| ends(end)) {
            format!("{}ies", &word[..word.len() - 1])
        } else if ["s", "x", "z", "ch", "sh"].iter().any(|end| ends(end)) {
            format!("{word}es")
        } else {
            format!("{word}s")
        }
    };
    match words.split_once(" of ") {
        Some((head, rest)) => format!("{} of {rest}", word_plural(head)),
        None => words.split(" or ").map(word_plural).collect::<Vec<_>>().join(" or "),
    }
}

/// Grammatical form of a relation, derived from its name.
enum RelationPhrase {
    /// Mere possession, as for `has_brand` or `of`.
    Has,
    /// A verb, as for `cites` or `participates in`: the words before the verb, the verb, and the
    /// words after it.
    Verb(String, String, String),
    /// A participle or a prepositional phrase, as for `published in` or `associated`.
    State(String),
    /// A noun, as for `target` or `side effect`.
    Noun(String),
    /// A hierarchy, as for `is_a` or `parent-child`. `down` is true if the relation leads from the
    /// wider to the narrower concept, as `has_child` does.
    Kind { down: bool },
}

/// Words in the names of hierarchical relations.
const KIND_WORDS: [&str; 7] =
    ["isa", "subclass", "subtype", "parent", "child", "broader", "narrower"];

const PREPOSITIONS: [&str; 13] =
    ["in", "of", "by", "with", "to", "from", "at", "on", "for", "during", "as", "into", "under"];

/// Returns the grammatical form of a step's relation, without words of the types at the step's
/// ends.
fn relation_phrase(kb: &Kb, step: &Step) -> RelationPhrase {
    let type_parts = |kind: TypeId| parts(kb.type_name(kind));
    let types: Vec<String> = type_parts(step.from).into_iter().chain(type_parts(step.to)).collect();
    let mut words = parts(kb.relation_name(step.relation));
    let is_type = |word: &String| types.contains(word);
    if words.iter().any(|word| !is_type(word)) {
        words.retain(|word| !is_type(word));
    }
    let is_having =
        |word: &String| ["has", "have", "is", "a", "an", "the"].contains(&word.as_str());
    if words.first().is_some_and(|word| word == "has") && words.len() > 1 {
        words.remove(0);
    }
    let has_any = |some: &[&str]| words.iter().any(|word| some.contains(&word.as_str()));
    if words == ["is", "a"] || has_any(&KIND_WORDS) {
        return RelationPhrase::Kind { down: has_any(&["child", "narrower"]) };
    }
    if words.iter().all(is_having) {
        return RelationPhrase::Has;
    }
    let text = words.join(" ");
    let is_verb = |word: &String| {
        let stem = word.strip_suffix('s').unwrap_or("");
        stem.len() > 2 && !stem.ends_with(['s', 'u', 'i'])
    };
    if let Some(verb) = words.iter().position(is_verb) {
        let [before, behind] = [words.get(..verb), words.get(verb + 1..)]
            .map(|part| part.unwrap_or_default().join(" "));
        return RelationPhrase::Verb(before, words.swap_remove(verb), behind);
    }
    if words.last().is_some_and(|word| PREPOSITIONS.contains(&word.as_str())) {
        return RelationPhrase::State(text);
    }
    let endings = ["ed", "bought", "sold", "made", "seen"];
    let is_participle =
        |word: &String| word.len() > 4 && endings.iter().any(|end| word.ends_with(end));
    if words.last().is_some_and(is_participle) {
        return RelationPhrase::State(format!("{text} with"));
    }
    RelationPhrase::Noun(text)
}

/// Returns the gerund of a verb: `participates` becomes "participating".
fn gerund(verb: &str) -> String {
    let stem = verb.strip_suffix('s').unwrap_or(verb);
    let stem = match stem {
        _ if stem.ends_with("ie") => return format!("{}ying", &stem[..stem.len() - 2]),
        _ if stem.ends_with('e') && !stem.ends_with("ee") => &stem[..stem.len() - 1],
        _ => stem,
    };
    format!("{stem}ing")
}

/// Returns the text with a leading space; an empty text remains empty.
fn spaced(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" {text}") }
}

/// Draws a clause for a step. In the question, the clause follows the type at the end of the step,
/// as in "published in X" or "that X writes". It links this type to `noun`, which stands for the
/// start of the step.
fn clause(kb: &Kb, step: &Step, noun: &str, stream: &mut Stream) -> String {
    // Whether the end of the step is the relation's subject.
    let acts = step.direction == Direction::In;
    let mutual = step.direction == Direction::Any;
    let text = match relation_phrase(kb, step) {
        RelationPhrase::Has if acts => {
            format!("{} {noun}", stream.pick(&["by", "with", "from", "of"]))
        }
        RelationPhrase::Has => format!("{} {noun}", stream.pick(&["of", "that belong to", "from"])),
        RelationPhrase::Verb(before, verb, behind) if mutual => {
            let (verb, behind) = (gerund(&verb), spaced(&behind));
            match stream.below(2) {
                0 => format!("{before} {verb}{behind} {noun}"),
                _ => format!("linked to {noun} by{} {verb}{behind}", spaced(&before)),
            }
        }
        RelationPhrase::Verb(before, verb, behind) if acts => {
            let (verb, behind) = (gerund(&verb), spaced(&behind));
            match before.is_empty() {
                true => format!("{verb}{behind} {noun}"),
                false => format!("with {before} {verb}{behind} {noun}"),
            }
        }
        RelationPhrase::Verb(before, verb, behind) => {
            let before = spaced(&before);
            match stream.below(3) {
                0 => format!("of {noun}"),
                _ => format!("that {noun}{before} {verb}{}", spaced(&behind)),
            }
        }
        RelationPhrase::State(state) if acts || mutual => format!("{state} {noun}"),
        RelationPhrase::State(state) => match stream.below(2) {
            0 => format!("that {noun} is {state}"),
            _ => format!("of {noun}"),
        },
        RelationPhrase::Kind { .. } if mutual => match stream.below(3) {
            0 => format!("that are subtypes or parents of {noun}"),
            1 => format!("right above or below {noun}"),
            _ => format!("related to {noun} as a kind"),
        },
        RelationPhrase::Kind { down } if acts != down => match stream.below(2) {
            0 => format!("that are kinds of {noun}"),
            _ => format!("under {noun}"),
        },
        RelationPhrase::Kind { .. } => match stream.below(2) {
            0 => format!("that {noun} is a kind of"),
            _ => format!("that {noun} comes under"),
        },
        RelationPhrase::Noun(what) if mutual => match stream.below(3) {
            0 => format!("with a {what} link to {noun}"),
            1 => format!("joined to {noun} ({what})"),
            _ => format!("that share a {what} relation with {noun}"),
        },
        RelationPhrase::Noun(what) if acts => match stream.below(3) {
            0 => format!("with {noun} as {what}"),
            1 => format!("whose {what} is {noun}"),
            _ => format!("with {what} {noun}"),
        },
        RelationPhrase::Noun(what) => match stream.below(3) {
            0 => format!("that are {what} of {noun}"),
            1 => format!("as {what} of {noun}"),
            _ => format!("that {noun} has as {what}"),
        },
    };
    text.trim().to_owned()
}

/// Picks a random phrase for a branch that starts at the named node `name`. In the question, the
/// phrase comes after the type of the answers: "published in X" in "papers published in X".
fn branch_phrase(kb: &Kb, steps: &[Step], name: &str, stream: &mut Stream) -> String {
    let Some((first, rest)) = steps.split_first() else { return String::new() };
    let from = type_words(kb.type_name(first.from));
    let mut noun = match stream.below(100) {
        0..=29 => format!("the {from} {name}"),
        _ => name.to_owned(),
    };
    let middle = type_words(kb.type_name(first.to));
    if let [second] = rest
        && first.from != first.to
        && second.relation == first.relation
        && second.to == first.from
        && stream.percent(75)
    {
        // The branch is a step and its inverse.
        return match stream.below(4) {
            0 => format!("with the same {middle} as {noun}"),
            1 => format!("sharing a {middle} with {noun}"),
            2 => format!("that have a {middle} in common with {noun}"),
            _ => format!("of the same {middle} as {noun}"),
        };
    }
    for (index, step) in steps.iter().enumerate() {
        let text = clause(kb, step, &noun, stream);
        if index + 1 == steps.len() {
            return text;
        }
        let middle = type_words(kb.type_name(step.to));
        let article = stream.pick(&["a", "some", "any"]);
        noun = format!("{article} {middle} {text}");
    }
    noun
}

/// Draws a phrase for a negated branch, such as "without any brand".
fn negation_phrase(kb: &Kb, steps: &[Step], stream: &mut Stream) -> String {
    let Some(step) = steps.first() else { return String::new() };
    let end = type_words(kb.type_name(step.to));
    let what = match relation_phrase(kb, step) {
        RelationPhrase::Noun(what) => format!("{what} {end}"),
        RelationPhrase::Verb(_, verb, _) => format!("{end} ({verb})"),
        RelationPhrase::State(state) => format!("{end} ({})", state.trim_end_matches(" with")),
        RelationPhrase::Has | RelationPhrase::Kind { .. } => end,
    };
    match stream.below(3) {
        0 => format!("without any {what}"),
        1 => format!("with no {what}"),
        _ => format!("but no {what}"),
    }
}

/// Draws the relational part of a question: the phrases of all branches, joined. `names` are the
/// names of the slot nodes.
fn requirement(kb: &Kb, template: &Template, names: &[String], stream: &mut Stream) -> String {
    let mut phrases = Vec::new();
    for branch in &template.branches {
        phrases.push(match branch.slot {
            Some(slot) => {
                let name = names.get(slot).map_or("", String::as_str);
                branch_phrase(kb, &branch.steps, name, stream)
            }
            None => negation_phrase(kb, &branch.steps, stream),
        });
    }
    phrases.join(stream.pick(&[" and ", " and also ", ", ", " and "]))
}

/// Draws the wording of a question from the names of the slot nodes and the words of its
/// properties; returns the text and its style.
pub(super) fn question(
    kb: &Kb,
    template: &Template,
    names: &[String],
    properties: &[String],
    stream: &mut Stream,
) -> (String, Style) {
    let kind = match (names.is_empty(), properties.is_empty()) {
        (false, true) => Kind::Relational,
        (true, _) => Kind::Textual,
        (false, false) => Kind::Fused,
    };
    let own = template.text.as_ref().filter(|_| kind == Kind::Relational);
    if let Some(text) = own.filter(|_| stream.percent(OWN_WORDING)) {
        let numbered = names.iter().enumerate();
        let text = numbered
            .fold(text.clone(), |text, (slot, name)| text.replace(&format!("{{{slot}}}"), name));
        return (text, Style::Question);
    }
    let style = stream.pick(&Style::ALL);
    // Keywords cannot express a negation.
    let negated = template.branches.iter().any(|branch| branch.slot.is_none());
    let style = if negated && style == Style::Keyword { Style::Imperative } else { style };
    let usable: Vec<&String> = patterns(style, kind)
        .iter()
        .filter(|pattern| !(negated && pattern.contains("{k}")))
        .collect();
    let pattern =
        usable.get(stream.below(usable.len())).map_or("{Ts} {r} {p}", |text| text.as_str());
    let kind_words = type_words(kb.type_name(template.target));
    let requirement = requirement(kb, template, names, stream);
    let mut listed = names.to_vec();
    stream.shuffle(&mut listed);
    let between = stream.pick(&[" ", ", ", " and "]);
    let joined = match style {
        Style::Keyword => properties.join(stream.pick(&[" ", ", ", " "])),
        _ => properties.join(stream.pick(&[" and ", ", ", " and "])),
    };
    let text = pattern
        .replace("{Ts}", &plural(&kind_words))
        .replace("{T}", &kind_words)
        .replace("{r}", &requirement)
        .replace("{k}", &listed.join(between))
        .replace("{p}", &joined);
    (finish(&text, style, stream), style)
}

/// Varies case, articles and final punctuation of a question as people do when they type.
fn finish(text: &str, style: Style, stream: &mut Stream) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = with_articles(&words).replace(" ,", ",");
    let lower = if style == Style::Keyword { 60 } else { 15 };
    let text = if stream.percent(lower) { text.to_lowercase() } else { text };
    if stream.percent(20) { text.trim_end_matches(['?', '.']).to_owned() } else { text }
}

/// Joins words with spaces; the article "a" becomes "an" before a vowel.
fn with_articles(words: &[&str]) -> String {
    let vowel = |word: &&str| word.starts_with(['a', 'e', 'i', 'o', 'A', 'E', 'I', 'O']);
    let words = words.iter().enumerate().map(|(index, &word)| match word {
        "a" if words.get(index + 1).is_some_and(vowel) => "an",
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_forty_patterns_and_more_and_each_says_what_it_is_for() {
        let mut all = BTreeSet::new();
        for style in Style::ALL {
            for kind in [Kind::Relational, Kind::Textual, Kind::Fused] {
                for pattern in patterns(style, kind) {
                    assert!(all.insert(pattern), "twice: {pattern}");
                    let related = pattern.contains("{r}") || pattern.contains("{k}");
                    assert_eq!(related, kind != Kind::Textual, "{pattern}");
                    assert_eq!(pattern.contains("{p}"), kind != Kind::Relational, "{pattern}");
                }
            }
        }
        assert!(all.len() >= 40, "{}", all.len());
    }

    #[test]
    fn names_of_the_schema_become_words() {
        assert_eq!(parts("author___writes___paper"), ["author", "writes", "paper"]);
        assert_eq!(parts("hasBrand"), ["has", "brand"]);
        assert_eq!(type_words("gene/protein"), "gene or protein");
        assert_eq!(plural("gene or protein"), "genes or proteins");
        assert_eq!(plural("field of study"), "fields of study");
        assert_eq!(plural("category"), "categories");
        for (verb, expected) in [
            ("writes", "writing"),
            ("participates", "participating"),
            ("expresses", "expressing"),
            ("causes", "causing"),
            ("treats", "treating"),
            ("carries", "carrying"),
        ] {
            assert_eq!(gerund(verb), expected);
        }
    }
}
