//! Finds the types of nodes that a question asks for: "function" in "which function does SFRP1
//! have", "tickets" in "I was away. Show me tickets by Anna about printers".
//!
//! The search covers the last sentence that has a "which" or "what" or begins with a command, from
//! this word to the next question word or punctuation mark. The type is named by the first word
//! that is a synonym of a type or the head of its name ("function" of `molecular_function`). A
//! later such word replaces the first if both may belong to one compound ("gene expression
//! process"). They may not if the first word, or a word between them, is a plural or a verb, as in
//! "drugs treat diseases" and "drug treats disease".
//!
//! Without such a word, a question that begins with "who" asks for people. Other questions ask for
//! the type right before the first preposition, if that type is the first word or a plural. A
//! participle may precede the preposition: "grants led by", "bills paid in". A plural may also
//! precede a participle in "-ing" or a name: "people reporting to", "tests Ada Lind did". This holds
//! in other languages ("Rechnungen von"), in which the type may follow a word for "which" instead
//! ("welche Firmen").
//!
//! A word that names no type may be the name of a relation: "reviewers of" asks for the type that a
//! relation `reviewer` leads to. A plural may be another word of a single type's name: "docs" of
//! `docs_page`.
//!
//! Nodes of these types come first in an answer. Accuracy and effect:
//! docs/lab/2026-11-29-type-asked-for.md.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use agent_ground::words::{
    Language, has_word as has, is_part, is_question_word, name_words, singular, spelled_out,
};
use agent_index::IndexedBase;
use agent_kb::TypeId;

use crate::bundle::{lexicon::Synonyms, schema::Schema};

/// Words that begin a command.
const COMMANDS: [&str; 17] = [
    "bring", "find", "get", "give", "identify", "list", "look", "looking", "name", "need",
    "please", "pull", "return", "search", "show", "tell", "want",
];
/// Number of first words of a sentence that may contain a word of [`COMMANDS`].
const MAX_LEAD: usize = 4;
/// Words to ignore before the word for a type and at the end of a type's name.
const GENERIC: [&str; 10] =
    ["form", "forms", "kind", "kinds", "one", "ones", "sort", "sorts", "type", "types"];
/// Verbs for what companies do: "who" before one of them does not ask for people.
const MAKES: [&str; 8] =
    ["make", "makes", "made", "sell", "sells", "produce", "produces", "supplies"];
/// Words that may follow the type that a question without a verb asks for.
const PREPOSITIONS: &str = "about above after at before below between by for from in like not of on \
                            over since that to under where which who whose with without";
/// Prepositions and articles with the role of [`PREPOSITIONS`] in German, French, Spanish, Italian
/// and Portuguese; folded.
const FOREIGN_PREPOSITIONS: &str = "\
    a ab am an auf aus bei beim der des die fur gegen im mit nach ohne seit uber unter vom von vor zu \
    zum zur apres avant avec ayant chez dans de depuis des dont du en par pour qui sans sur con cuyo \
    del desde hasta para por que sin sobre da della di do em per senza com sem";
/// Plurals without a final "s".
const PLURALS: &str = "people personnel staff";
/// Prepositions before the agent of a participle, in English and other languages.
const AGENT: &str = "by durch par por da von";
/// Maximum number of words from the type to such a preposition: "projects paid for by".
const MAX_BEFORE_AGENT: usize = 3;
/// Articles before a type; the next constant lists words for "which" in other languages. Both are
/// folded.
const ARTICLES: &str = "a an the das den der die el gli il la las le les los";
const WHICH: &str = "welche welchen welcher welches cual cuales quais qual quale quali que quel \
    quelle quelles quels";
/// Articles and possessives before the type that a question with "who is" asks for.
const OWN_ARTICLES: &str = "a an my our the your";
/// Number of first words of a question without a verb that may contain the type.
const MAX_OPENING: usize = 4;
/// Maximum number of words that are searched for the type.
const MAX_SOUGHT: usize = 8;

/// Returns the types of nodes that a question asks for, ascending. Empty if the question names no
/// candidate type, or if there is only one candidate type.
pub fn asked_types(base: &IndexedBase, query: &str) -> Vec<TypeId> {
    let candidates = base.kb.candidate_types();
    if candidates.len() < 2 {
        return Vec::new();
    }
    let languages = base.stems.languages();
    let heads = base.derived(Heads::new);
    let types = |word: &str| -> Vec<TypeId> {
        let stem = base.stems.stem(word).into_owned();
        let named = (0u16..).zip(&heads.types).filter(|(_, heads)| heads.contains(&stem));
        let named: Vec<TypeId> = named.map(|pair| TypeId(pair.0)).collect();
        if !named.is_empty() {
            return named;
        }
        let role = heads.roles.get(&singular(word));
        let part = || heads.parts.get(&stem).filter(|_| word.ends_with('s'));
        role.or_else(part).copied().into_iter().collect()
    };
    let mut asked = match languages.has(Language::ENGLISH) {
        true => first_head(&sought_words(query), types),
        false => Vec::new(),
    };
    if asked.is_empty() {
        asked = types_of_opening(query, !languages.is_english(), types);
    }
    asked.retain(|kind| candidates.contains(kind));
    asked
}

/// The words for types.
struct Heads {
    /// For each type, the stems of its name's heads and of its synonyms.
    types: Vec<Vec<String>>,
    /// The type that a relation leads to, by the relation's name, if this is one word, such as
    /// `reviewer`.
    roles: BTreeMap<String, TypeId>,
    /// The type whose name alone has a word with this stem.
    parts: BTreeMap<String, TypeId>,
}

impl Heads {
    fn new(base: &IndexedBase) -> Self {
        let schema = Schema::of(base);
        let is_english = base.stems.languages().is_english();
        // The type `gebaeude` is `Gebäude` in questions, folded `gebaude`.
        let umlauts = |word: &String| match is_english {
            true => word.clone(),
            false => word.replace("ae", "a").replace("oe", "o").replace("ue", "u"),
        };
        let of_type = |(name, synonyms): (&String, &Synonyms)| {
            let own = head_words(name).into_iter().chain(head_words(&spelled_out(name)));
            let own = own.flat_map(|word| [umlauts(&word), word]);
            let stems = own.map(|word| base.stems.stem(&word).into_owned());
            stems.chain(synonyms.means.iter().cloned()).collect()
        };
        let mut roles: BTreeMap<String, BTreeSet<TypeId>> = BTreeMap::new();
        for tuple in base.kb.tuples() {
            let name = spelled_out(base.kb.relation_name(tuple.relation));
            roles.entry(name).or_default().insert(tuple.target);
        }
        let mut parts: BTreeMap<String, BTreeSet<TypeId>> = BTreeMap::new();
        for (kind, stems) in (0u16..).zip(&schema.types) {
            for stem in stems {
                parts.entry(stem.clone()).or_default().insert(TypeId(kind));
            }
        }
        let only = |(name, types): (String, BTreeSet<TypeId>)| match types.len() {
            1 if !name.contains(['_', ' ']) => Some((name, *types.first()?)),
            _ => None,
        };
        Self {
            types: base.kb.types().iter().zip(&schema.type_synonyms).map(of_type).collect(),
            roles: roles.into_iter().filter_map(only).collect(),
            parts: parts.into_iter().filter_map(only).collect(),
        }
    }
}

/// Returns the heads of a type's name, in lower case: "process" of `biological_process`, "gene" and
/// "protein" of `gene/protein`, "field" of `field_of_study`, "cell" of `cell_type`.
fn head_words(name: &str) -> Vec<String> {
    let head = |part: &str| {
        let words: Vec<Cow<'_, str>> = name_words(part).map(|pair| pair.1).collect();
        let own = words.split(|word| word == "of").next().unwrap_or_default();
        let is_generic = |word: &&Cow<'_, str>| GENERIC.contains(&word.as_ref());
        own.iter().rev().find(|word| !is_generic(word)).or(own.last()).map(ToString::to_string)
    };
    name.split('/').filter_map(head).collect()
}

/// Returns the words to search for the type, from the last sentence with a "which", a "what" or a
/// command.
fn sought_words(query: &str) -> Vec<Cow<'_, str>> {
    let sentences: Vec<&str> = query.split_inclusive(['.', '?', '!', '\n']).collect();
    sentences.into_iter().rev().find_map(sought_in_sentence).unwrap_or_default()
}

/// Returns the words of a sentence to search for the type; `None` if the sentence has no "which" or
/// "what" and does not begin with a command.
fn sought_in_sentence(sentence: &str) -> Option<Vec<Cow<'_, str>>> {
    let words: Vec<_> = name_words(sentence).collect();
    let asks = words.iter().position(|(_, word)| matches!(word.as_ref(), "which" | "what"));
    let is_command = |word: &str| COMMANDS.contains(&word);
    let is_article = |(_, word): &(_, Cow<'_, str>)| matches!(word.as_ref(), "a" | "an" | "the");
    let start = match asks {
        // "Which" and "what" before an article begin a clause, as in "what a drug does".
        Some(at) if words.get(at + 1).is_some_and(is_article) => return Some(Vec::new()),
        Some(at) => at + 1,
        None => words.iter().take(MAX_LEAD).position(|(_, word)| is_command(word))? + 1,
    };
    let shapes = |word: &str| is_question_word(word) || word.chars().nth(1).is_none();
    let leads = |word: &str| shapes(word) || is_command(word) || GENERIC.contains(&word);
    let from = start + words.iter().skip(start).take_while(|(_, word)| leads(word)).count();
    let mut sought = Vec::new();
    let mut end = words.get(from).map_or(0, |(range, _)| range.start);
    for (range, word) in words.into_iter().skip(from).take(MAX_SOUGHT) {
        let between = sentence.get(end..range.start).unwrap_or_default();
        end = range.end;
        if is_part(sentence, &range) {
            continue;
        }
        if shapes(&word) || between.contains([',', ';', ':', '(', ')']) {
            break;
        }
        sought.push(word);
    }
    Some(sought)
}

/// Returns the types that the first words of a question name: people for "who", and the type of the
/// first word or of a plural before a preposition, as in "repair in Soho" and "steel bottles under
/// 20". Empty otherwise, and for "who" before a verb of [`MAKES`]. `foreign`: whether the base has
/// texts in languages other than English.
fn types_of_opening(
    query: &str,
    foreign: bool,
    types: impl Fn(&str) -> Vec<TypeId>,
) -> Vec<TypeId> {
    let (ranges, words): (Vec<_>, Vec<_>) = name_words(query).take(MAX_OPENING + 1).unzip();
    let is_capital = |at: usize| {
        let range: Option<&Range<usize>> = ranges.get(at);
        range.is_some_and(|range| query[range.clone()].starts_with(char::is_uppercase))
    };
    match words.as_slice() {
        [who, verb, ..] if who == "who" && MAKES.contains(&verb.as_ref()) => Vec::new(),
        // "who is our supplier of"
        [who, is, rest @ ..] if who == "who" => {
            let mut rest = rest.iter().skip_while(|word| has(OWN_ARTICLES, word));
            let named = rest.next().filter(|_| has("are is was were", is)).map(|word| types(word));
            named.filter(|named| !named.is_empty()).unwrap_or_else(|| types(who))
        }
        words => {
            let which = words.iter().take_while(|word| foreign && has(WHICH, word)).count();
            let articles = words.iter().skip(which).take_while(|word| has(ARTICLES, word));
            let first = which + articles.count();
            let heads = |(at, word): (usize, &Cow<'_, str>)| {
                let named = types(word);
                let is_next = |of: &str| words.get(at + 1).is_some_and(|next| has(of, next));
                let behind = |n: usize| words.iter().skip(at + 1).take(n);
                let is_plural = word.ends_with('s') || has(PLURALS, word);
                let is_done = || {
                    let follows = |word: &Cow<'_, str>| {
                        has(PREPOSITIONS, word) || word.starts_with(char::is_numeric)
                    };
                    let is_passive = behind(1).any(|word| word.ends_with("ed"));
                    is_passive && behind(2).nth(1).is_some_and(follows)
                };
                // "people reporting to", "tests Ada Lind carried out"
                let has_clause = || {
                    is_plural
                        && (behind(1).any(|word| word.ends_with("ing"))
                            || !foreign && is_capital(at + 1))
                };
                let has_agent = || behind(MAX_BEFORE_AGENT).any(|word| has(AGENT, word));
                let ends = at == first && (which > 0 || has_agent())
                    || (at == first || is_plural) && is_done()
                    || has_clause()
                    || is_next(PREPOSITIONS)
                    || foreign && is_next(FOREIGN_PREPOSITIONS);
                ((at == first || is_plural) && !named.is_empty())
                    .then(|| if ends { named } else { Vec::new() })
            };
            // A type after a preposition describes an answer of another type.
            let own = |(at, word): &(usize, &Cow<'_, str>)| *at == 0 || !has(PREPOSITIONS, word);
            words.iter().enumerate().take_while(own).find_map(heads).unwrap_or_default()
        }
    }
}

/// Returns the types that the head of the first noun names; empty if no word names a type. `types`
/// returns the types that a word names.
fn first_head(words: &[Cow<'_, str>], types: impl Fn(&str) -> Vec<TypeId>) -> Vec<TypeId> {
    let is_plural_or_verb = |word: &str| {
        let ends_in_s =
            word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end));
        ends_in_s || word.ends_with("ed")
    };
    let mut head = Vec::new();
    for word in words {
        let named = types(word);
        if named.is_empty() && head.is_empty() {
            continue;
        }
        if !named.is_empty() {
            head = named;
        }
        if is_plural_or_verb(word) {
            break;
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the word that counts, where the types are those of [`TYPES`].
    fn asked(query: &str) -> Vec<&'static str> {
        const TYPES: [&str; 7] = [
            "gene/protein",
            "drug",
            "disease",
            "biological_process",
            "cell_type",
            "field_of_study",
            "side_effect",
        ];
        let types = |word: &str| -> Vec<TypeId> {
            let singular = word.strip_suffix("es").filter(|one| one.ends_with('s'));
            let singular = singular.or(word.strip_suffix('s')).unwrap_or(word);
            let has = |name: &&str| {
                let heads = head_words(name);
                heads.iter().any(|head| head == word || head == singular)
            };
            (0u16..).zip(&TYPES).filter(|(_, name)| has(name)).map(|pair| TypeId(pair.0)).collect()
        };
        let found = first_head(&sought_words(query), types);
        found.into_iter().map(|kind| TYPES[usize::from(kind.0)]).collect()
    }

    #[test]
    fn the_head_of_the_noun_behind_which_or_a_command_is_asked_for() {
        for (query, expected) in [
            ("Which drugs treat a disease with this gene?", "drug"),
            ("Which drug treats lung disease?", "drug"),
            ("Which gene expression process is slow?", "biological_process"),
            ("My aunt has a disease. What are the side effects of it?", "side_effect"),
            ("What's the process in which a gene is changed?", "biological_process"),
            ("Which of FGF1's processes are known", "biological_process"),
            ("FGF1 takes part in what process?", "biological_process"),
            ("what kind of cells have it", "cell_type"),
            ("can you show me all proteins that bind it", "gene/protein"),
            ("List fields of study, and drugs", "field_of_study"),
        ] {
            assert_eq!(asked(query), [expected], "{query}");
        }
    }

    #[test]
    fn the_opening_of_a_question_says_the_type_too() {
        let types = |word: &str| match word {
            "who" | "drivers" => vec![TypeId(0)],
            "rooms" => vec![TypeId(1)],
            "room" => vec![TypeId(2)],
            _ => Vec::new(),
        };
        for (query, expected) in [
            ("Who drives to Bonn?", 0),
            ("rooms with a projector", 1),
            ("Quiet small rooms of drivers", 1),
            ("the rooms in Bonn", 1),
            ("rooms booked in May", 1),
            ("rooms paid for by drivers", 1),
            ("large rooms facing the lake", 1),
            ("large rooms booked in May", 1),
            ("large rooms Ada Lind booked", 1),
            ("who are our drivers", 0),
            ("room for two", 2),
        ] {
            assert_eq!(types_of_opening(query, false, types), [TypeId(expected)], "{query}");
        }
        for query in [
            "who makes rooms",
            "rooms are rare",
            "quiet room in Bonn",
            "a house with a view and rooms in it",
            "chairs in rooms by the lake",
            "room planning in Bonn",
        ] {
            assert!(types_of_opening(query, false, types).is_empty(), "{query}");
        }
        for query in ["Rooms aus Bonn", "welche rooms haben Fenster", "welche rooms"] {
            assert_eq!(types_of_opening(query, true, types), [TypeId(1)], "{query}");
            assert!(types_of_opening(query, false, types).is_empty(), "{query}");
        }
    }

    #[test]
    fn a_question_that_does_not_say_it_asks_for_no_type() {
        for query in [
            "gene that causes the disease",
            "What interacts with a gene?",
            "The drug that I take stopped working.",
            "Show me what a drug does",
            "Find old films, drugs apart",
            "",
        ] {
            assert_eq!(asked(query), [""; 0], "{query}");
        }
    }
}
