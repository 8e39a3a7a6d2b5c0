//! Splits a question into mentions: groups of words that mention nodes, field values, types,
//! fields, numbers or phrases of the lexicon, and unknown words.
//!
//! Does not decide what the question asks for.

mod settle;
mod spelling;
mod tokens;

use std::{cmp::Reverse, ops::Range};

pub(crate) use self::spelling::spelled_out;
use self::{settle::settle, tokens::tokens};
use crate::{
    lexicon::{
        Bound, Cue, PHRASES, cue_of, is_adjective_of, is_anything, is_cue, is_degree, is_filler,
        number_word, same_sort, synonyms,
    },
    schema::{FieldValue, Schema, Words, types_of, words_of},
};
use agent_ground::words::{
    fold, is_person, is_question_word, is_stop_word, name_words, nearest, quoted_ranges, singular,
};
use agent_kb::{
    FieldId, Kb, NodeId, RelationId, TypeId,
    table::{
        dates::{DateSpan, date_at},
        has_value,
        value::category,
    },
};

/// Maximum number of words of a question; longer questions are refused.
pub(crate) const MAX_WORDS: usize = 120;
/// Minimum length in characters of a word that may be a typo, and of a suggested correction.
const MIN_MISSPELLED: usize = 4;
/// Maximum number of words in a phrase of the lexicon or in a name of the schema.
const MAX_PHRASE: usize = 8;
/// Maximum number of adjacent words that together may mention part of a field's name.
const MAX_PARTIAL: usize = 4;
/// Words before a relation's noun that indicate that its links are counted: `a target`.
const ARTICLES: [&str; 9] = ["a", "an", "any", "some", "both", "no", "their", "its", "without"];
/// Words after a type or a relation that refer to the number of its nodes or links: `paper counts`.
pub(crate) const COUNTS: [&str; 5] = ["count", "counts", "list", "lists", "links"];
/// Words after which a number word such as `one` is a number: `exactly one`.
const BEFORE_ONE: [&str; 6] = ["exactly", "only", "just", "than", "least", "most"];
/// Words after which a word without meaning of its own may be a name.
const BEFORE_NAMES: [&str; 9] = ["in", "of", "by", "from", "with", "about", "and", "or", "not"];
/// Forms of the verb after which a value is stated.
pub(crate) const BEING: [&str; 5] = ["are", "is", "was", "were", "been"];
/// Words between such a verb and the value.
const STATING: [&str; 7] = ["not", "or", "either", "still", "now", "currently", "already"];
/// Words after which an adjective asks for the value of a field: `how expensive`.
const BEFORE_DEGREES: [&str; 7] = ["how", "as", "equally", "most", "least", "more", "less"];
/// Single letters that have no meaning in lower case or after question words: the article, `I`, a
/// sample size, and letters after an apostrophe.
const LETTERS: [&str; 7] = ["a", "d", "i", "m", "n", "s", "t"];
/// Words without meaning of their own before `in`: `live in London`.
const LIVE: [&str; 5] = ["live", "lives", "lived", "living", "situated"];
/// Words that ask for something, and never mention a type or field of that name.
const ASKING: [&str; 7] = ["how", "what", "when", "where", "which", "who", "whose"];

/// A word or number of a question.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    /// Byte range of the token in the question; a number includes its unit.
    pub range: Range<usize>,
    /// The word, folded.
    pub word: String,
    /// The stem of the word, or of the word that it is an abbreviation of.
    pub stem: String,
    /// The number that the token stands for, with the code of its unit: a number in digits, or a
    /// number word with a unit after it. `None` for other tokens.
    pub number: Option<(f64, Option<String>)>,
    /// Whether the token may be part of a name by its spelling: it has a digit, or it has a capital
    /// and is not the first token.
    marked: bool,
}

/// Something that a question names: nodes, field values, or both, with the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thing {
    /// The name as the question spells it.
    pub text: String,
    /// The nodes with that name, by ascending id.
    pub nodes: Vec<NodeId>,
    /// The field values with that name.
    pub values: Vec<FieldValue>,
}

/// The meaning of one or more adjacent words of a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// A name of nodes or of field values.
    Thing(Thing),
    /// Words in quotation marks that name nothing in the base.
    NoThing(String),
    /// A type.
    Type(TypeId),
    /// Fields that the words may mention, each with the share (0 to 1) of its name that the words
    /// contain; largest share first.
    Field(Vec<(FieldId, f32)>),
    /// A number with the code of its unit.
    Number(f64, Option<String>),
    /// A month, a day or a span of dates; a year alone is a number.
    Date(DateSpan),
    /// A phrase of the lexicon.
    Cue(Cue),
    /// A relation that is mentioned by a noun and whose links are counted: `targets` in `how many
    /// targets`.
    Links(RelationId),
    /// A word that refers to a relation, by its name or a synonym.
    Relation,
    /// A word without meaning of its own.
    Filler,
    /// An unknown word.
    Unknown(String),
}

/// Adjacent words of a question, with their meaning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mention {
    /// The range of the words in [`Mentions::tokens`].
    pub at: Range<usize>,
    /// What the words mean.
    pub what: What,
}

/// A question split into mentions. Every token belongs to exactly one mention.
pub(crate) struct Mentions {
    /// The words and numbers of the question, in order.
    pub tokens: Vec<Token>,
    /// The mentions, in the order of their words.
    pub all: Vec<Mention>,
}

impl Mention {
    /// Returns the meaning of a phrase of the lexicon; `None` for other mentions.
    pub(crate) fn cue(&self) -> Option<Cue> {
        match self.what {
            What::Cue(cue) => Some(cue),
            _ => None,
        }
    }
}

impl Mentions {
    /// Returns the folded word of a token; empty beyond the last token.
    pub(crate) fn word(&self, token: usize) -> &str {
        word(&self.tokens, token)
    }

    /// Returns the range of the tokens of a mention; empty beyond the last mention.
    pub(crate) fn range(&self, at: usize) -> Range<usize> {
        self.all.get(at).map(|mention| mention.at.clone()).unwrap_or_default()
    }

    /// Returns the tokens of a mention; none beyond the last mention.
    pub(crate) fn said(&self, at: usize) -> &[Token] {
        self.tokens.get(self.range(at)).unwrap_or_default()
    }

    /// Returns the tokens that are numbers, and do not belong to names or dates.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = &Token> {
        let is_number = |own: &&Mention| matches!(own.what, What::Number(..));
        self.all.iter().filter(is_number).filter_map(|own| self.tokens.get(own.at.start))
    }

    /// Returns the tokens that do not belong to names of nodes or values.
    pub(crate) fn outside_names(&self) -> impl Iterator<Item = &Token> {
        let is_name = |own: &Mention| matches!(own.what, What::Thing(_) | What::NoThing(_));
        let own = self.all.iter().filter(move |own| !is_name(own));
        own.flat_map(|own| &self.tokens[own.at.clone()])
    }
}

/// Returns the folded word of a token; empty beyond the last token.
fn word(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |token| token.word.as_str())
}

/// Returns the likely correction of `word`: the known word (of the lexicon, the schema or a field
/// value) with the fewest edits. At most 1 edit is allowed, or 2 if `word` has 8 or more
/// characters. `None` if there is no such word.
pub(crate) fn correction(schema: &Schema, word: &str) -> Option<String> {
    let word = fold(word);
    let (n, is_word) = (word.chars().count(), word.chars().all(char::is_alphabetic));
    if n < MIN_MISSPELLED || !is_word {
        return None;
    }
    let of_schema = schema.names().flat_map(|name| &name.words).map(String::as_str);
    let of_values = schema.values().values().flatten();
    let of_values = of_values.flat_map(|(words, _)| words).map(String::as_str);
    let of_questions = PHRASES.iter().flat_map(|(phrase, _)| phrase.split(' '));
    let known = of_schema.chain(of_questions).chain(of_values);
    // The first letter is rarely wrong, and a short word becomes another by one edit.
    let known = known.filter(|known| {
        known.chars().next() == word.chars().next()
            && known.chars().count() >= MIN_MISSPELLED
            && !known.starts_with(&*word)
            && !word.starts_with(*known)
    });
    nearest(&word, known, if n < 8 { 1 } else { 2 }).map(str::to_owned)
}

/// Splits the question `text` into mentions; ambiguous mentions get their meaning in context.
pub(crate) fn mentions(schema: &Schema, text: &str) -> Mentions {
    let tokens = tokens(schema, text);
    let (mut all, mut taken) = (Vec::new(), vec![false; tokens.len()]);
    let mut take = |at: Range<usize>, what: What, taken: &mut [bool]| {
        let own = taken.get_mut(at.clone()).filter(|own| !own.is_empty() && !own.contains(&true));
        if let Some(own) = own {
            own.fill(true);
            all.push(Mention { at, what });
        }
    };
    let reader = Reader { schema, kb: &schema.base.kb, text, tokens: &tokens };
    for (at, what) in reader.things() {
        take(at, what, &mut taken);
    }
    for read in [Reader::phrase, Reader::part] {
        let mut at = 0;
        while at < tokens.len() {
            let read = if taken[at] { None } else { read(&reader, at, &taken) };
            at = match read {
                Some((end, what)) => {
                    take(at..end, what, &mut taken);
                    end.max(at + 1)
                }
                None => at + 1,
            };
        }
    }
    let left = (0..tokens.len()).filter(|at| !taken[*at]);
    all.extend(left.map(|at| Mention { at: at..at + 1, what: reader.left(at) }));
    all.sort_by_key(|mention| mention.at.start);
    find_rare_values(schema, &mut all);
    settle(schema, &tokens, &mut all);
    Mentions { tokens, all }
}

/// Adds field values that were missing from the samples: for a name or quotation after the mention
/// of a field, searches all nodes for that value of the field.
fn find_rare_values(schema: &Schema, all: &mut [Mention]) {
    let kb = &schema.base.kb;
    for at in 1..all.len() {
        let (before, own) = all.split_at_mut(at);
        let nothing = |mention: &&Mention| {
            !matches!(
                mention.what,
                What::Filler | What::Relation | What::Cue(Cue::Bound(Bound::Equal, _))
            )
        };
        let Some(Mention { what: What::Field(fields), .. }) = before.iter().rev().find(nothing)
        else {
            continue;
        };
        let mention = &mut own[0];
        let mut thing = match &mention.what {
            What::Thing(thing) => thing.clone(),
            What::NoThing(text) => Thing { text: text.clone(), ..Thing::default() },
            _ => continue,
        };
        let key = category(&thing.text);
        for kind in types_of(kb) {
            for &(field, _) in fields {
                let value = FieldValue { kind, field, key: key.clone() };
                let is_same =
                    |known: &FieldValue| (known.kind, known.field) == (value.kind, value.field);
                if !thing.values.iter().any(is_same)
                    && let Some(sample) = schema.sample(kind, field)
                    && sample.kind.groups()
                    && !sample.kind.is_number()
                    && has_value(kb, kind, field, sample.kind, &key)
                {
                    thing.values.push(value);
                }
            }
        }
        if !thing.nodes.is_empty() || !thing.values.is_empty() {
            mention.what = What::Thing(thing);
        }
    }
}

/// Returns the number of words in a name if the tokens begin with it, otherwise `None`. The last
/// token may have an extra plural `s`; a noun for people or things may also lack the name's `s`.
fn noun(name: &[String], tokens: &[Token]) -> Option<usize> {
    let (last, begin) = name.split_last()?;
    let said = tokens.get(..name.len())?;
    let (end, start) = said.split_last()?;
    let same = start.iter().zip(begin).all(|(token, word)| token.word == *word);
    let is_plural = |one: &str, other: &str| one.strip_suffix('s') == Some(other);
    // `author` matches `authors`, but `write` does not match `writes`, because it is a verb.
    let is_noun = || is_person(&end.word) || same_sort(&end.word).next().is_some();
    let plural = is_plural(&end.word, last) || is_plural(last, &end.word) && is_noun();
    (same && (end.word == *last || plural)).then_some(name.len())
}

/// Returns the number of tokens that state that a field such as `units_in_stock` is not 0 (`in
/// stock`) or is 0 (`out of stock`); `None` if they state neither.
fn in_stock(tokens: &[Token], field: &Words) -> Option<usize> {
    let said: Vec<&str> = tokens.iter().take(3).map(|token| token.word.as_str()).collect();
    let (n, pair) = match *said {
        ["out", "of", noun] => (3, ["in", noun]),
        [place @ ("in" | "on"), noun, ..] => (2, [place, noun]),
        _ => return None,
    };
    field.words.windows(2).any(|own| own == pair).then_some(n)
}

/// One question, with the base and the schema that its words are looked up in.
struct Reader<'a> {
    schema: &'a Schema,
    kb: &'a Kb,
    text: &'a str,
    tokens: &'a [Token],
}

impl Reader<'_> {
    /// Finds the names in the question, with their token ranges, in the order in which they claim
    /// their words. Quotations come first, even if they name nothing; then other names, most tokens
    /// first, ties by position.
    fn things(&self) -> Vec<(Range<usize>, What)> {
        let mut found: Vec<(Range<usize>, Thing)> = Vec::new();
        let words: Vec<Range<usize>> = name_words(self.text).map(|(range, _)| range).collect();
        let values = &self.schema.value_types;
        for name in self.schema.base.entities.exact_mentions(self.text) {
            let (first, last) = (&words[name.words.start], &words[name.words.end - 1]);
            let at = self.between(first.start, last.end);
            if at.is_empty() {
                continue;
            }
            let is_beside_type = |&node: &NodeId| {
                let kind = usize::from(self.kb.node_type(node).0);
                self.schema.types.get(kind).is_some_and(|kind| self.is_beside(&at, kind))
            };
            let is_value = |node: &NodeId| values.contains(&self.kb.node_type(*node));
            if name.quoted
                || self.is_apart(&at) && (name.marked || !self.is_common(&at))
                || name.nodes.iter().any(is_value) && self.is_stated(&at)
                || name.nodes.iter().any(is_beside_type)
            {
                let text = self.with_signs(first.start, last.end).to_owned();
                let nodes = self.called(&text, name.nodes);
                found.push((at, Thing { text, nodes, values: Vec::new() }));
            }
        }
        let others = self.in_small_letters().into_iter().chain(self.keys()).chain(self.numbers());
        for (at, thing) in others {
            if !found.iter().any(|(other, _)| other.contains(&at.start)) {
                found.push((at, thing));
            }
        }
        for (at, value) in self.valued() {
            match found.iter_mut().find(|(other, _)| *other == at) {
                Some((_, thing)) => thing.values.push(value),
                None => {
                    let text = self.written(&at);
                    found.push((at, Thing { text, nodes: Vec::new(), values: vec![value] }));
                }
            }
        }
        let quoted = self.quotations().into_iter().map(|at| {
            let what = match found.iter().find(|(other, _)| *other == at) {
                Some((_, thing)) => What::Thing(thing.clone()),
                None => What::NoThing(self.written(&at)),
            };
            (at, what)
        });
        let mut things: Vec<(Range<usize>, What)> = quoted.collect();
        found.retain(|(at, _)| !self.is_in_schema_name(at));
        found.sort_by_key(|(at, _)| (Reverse(at.len()), at.start));
        things.extend(found.into_iter().map(|(at, thing)| (at, What::Thing(thing))));
        things
    }

    /// Whether the tokens in a range are part of a longer name of a type or field in the question:
    /// `Google` in `google scholar citations`.
    fn is_in_schema_name(&self, at: &Range<usize>) -> bool {
        let is_around = |own: &Words| {
            let n = own.words.len();
            let mut starts = at.end.saturating_sub(n)..=at.start;
            let is_said = |start| {
                let said = self.tokens.get(start..start + n);
                said.is_some_and(|said| self.begins_with(said, &own.words))
            };
            n > at.len() && starts.any(is_said)
        };
        self.schema.types.iter().chain(&self.schema.fields).any(is_around)
    }

    /// Whether tokens begin with the given words or other forms of them. A verb such as `contain`
    /// is not a form of `container`.
    fn begins_with(&self, tokens: &[Token], words: &[String]) -> bool {
        let is_verb_of = |token: &Token, word: &str| {
            let ending = word.strip_prefix(&*token.word).filter(|_| is_filler(&token.word));
            ending.is_some_and(|ending| ending.len() > 1)
        };
        let is_form = |(token, word): (&Token, &String)| {
            token.word == *word
                || token.stem == *self.schema.base.stems.stem(word) && !is_verb_of(token, word)
        };
        words.len() <= tokens.len() && tokens.iter().zip(words).all(is_form)
    }

    /// Finds one-word names of nodes that the question writes in small letters: `lego` for LEGO.
    /// Leaves out types whose names are symbols, such as genes. Also finds capitalised names that
    /// would otherwise be fillers, such as Go.
    fn in_small_letters(&self) -> Vec<(Range<usize>, Thing)> {
        let mut found = Vec::new();
        for (at, token) in self.tokens.iter().enumerate() {
            let span = at..at + 1;
            let is_word = match token.marked {
                true => is_filler(&token.word),
                false => token.word.chars().count() > 2,
            } && token.number.is_none();
            let is_apart = is_word && self.is_apart(&span);
            let whole = std::slice::from_ref(&token.word);
            let is_name =
                (is_apart || is_word && self.is_whole(&span, whole)) && !self.is_common(&span);
            let is_stated = !is_name && is_word && self.is_stated(&span);
            if !is_name && !is_stated {
                continue;
            }
            let text = self.written(&span);
            let mut nodes = self.schema.nodes_named(&token.word);
            if nodes.is_empty() && is_stated {
                nodes = self.schema.nodes_named(&singular(&token.word));
            }
            nodes.retain(|&node| token.marked || !self.schema.has_symbols(self.kb.node_type(node)));
            if (is_stated || !is_apart) && !nodes.is_empty() {
                let values = &self.schema.value_types;
                nodes.retain(|&node| values.contains(&self.kb.node_type(node)));
            }
            let nodes = self.called(&text, nodes);
            if !nodes.is_empty() {
                found.push((span, Thing { text, nodes, values: Vec::new() }));
            }
        }
        found
    }

    /// Finds the ids of nodes that have letters and digits, such as `GEO-401`.
    fn keys(&self) -> Vec<(Range<usize>, Thing)> {
        let (mut found, mut start) = (Vec::new(), 0);
        for word in self.text.split(' ') {
            let key = word.trim_matches(|c: char| !c.is_alphanumeric());
            let is_key = key.contains(char::is_alphabetic) && key.contains(char::is_numeric);
            let mut nodes = if is_key { self.kb.nodes_of_key(key) } else { Vec::new() };
            if is_key && nodes.is_empty() {
                nodes = self.kb.nodes_of_key(&key.to_uppercase());
            }
            let at = self.between(start, start + word.len());
            if !nodes.is_empty() && !at.is_empty() {
                let text = key.to_owned();
                found.push((at, Thing { text, nodes, values: Vec::new() }));
            }
            start += word.len() + 1;
        }
        found
    }

    /// Finds the numbers that are names of nodes, after a name or the type of these nodes:
    /// `Docvault 4.2`, `version 4.2`.
    fn numbers(&self) -> Vec<(Range<usize>, Thing)> {
        let mut found = Vec::new();
        for (before, [last, token]) in self.tokens.array_windows().enumerate() {
            let text = &self.text[token.range.clone()];
            if token.number.is_none() || !text.contains('.') {
                continue;
            }
            let mut nodes = self.schema.nodes_named(text);
            nodes.retain(|&node| {
                let kind = usize::from(self.kb.node_type(node).0);
                last.marked || self.schema.types[kind].is_headed_by(&last.stem)
            });
            if !nodes.is_empty() {
                let text = text.to_owned();
                found.push((before + 1..before + 2, Thing { text, nodes, values: Vec::new() }));
            }
        }
        found
    }

    /// Returns the text between two byte positions, extended by adjacent signs that may belong to a
    /// name: `C++`, `.NET`.
    fn with_signs(&self, start: usize, end: usize) -> &str {
        let behind = &self.text[end..];
        let signs = behind.len() - behind.trim_start_matches(['+', '#', '*']).len();
        let point = usize::from(self.text[..start].ends_with(" ."));
        &self.text[start - point..end + signs]
    }

    /// Whether all tokens in a range are common nouns: synonyms of types or fields, or words for
    /// nodes of any type.
    fn is_common(&self, at: &Range<usize>) -> bool {
        self.tokens[at.clone()].iter().all(|token| {
            same_sort(&token.word).next().is_some()
                || !synonyms(&token.word).is_empty()
                || is_anything(&token.word)
        })
    }

    /// Returns the nodes whose name is `text`, ignoring case. Without such nodes, returns the nodes
    /// whose name has the same folded words; without these, returns all of `nodes`.
    fn called(&self, text: &str, nodes: Vec<NodeId>) -> Vec<NodeId> {
        let text_words = words_of(text);
        let is_called = |&node: &NodeId| self.kb.name(node).to_lowercase() == text.to_lowercase();
        let has_words = |&node: &NodeId| words_of(self.kb.name(node)) == text_words;
        let mut own: Vec<NodeId> = nodes.iter().copied().filter(is_called).collect();
        if own.is_empty() {
            own = nodes.iter().copied().filter(has_words).collect();
        }
        if own.is_empty() { nodes } else { own }
    }

    /// Returns the range of the tokens between two byte positions of the text.
    fn between(&self, start: usize, end: usize) -> Range<usize> {
        let first = self.tokens.partition_point(|token| token.range.start < start);
        let last = self.tokens.partition_point(|token| token.range.end <= end);
        first..last.max(first)
    }

    /// Returns the text of the tokens in a range, which must not be empty.
    fn written(&self, at: &Range<usize>) -> String {
        let (first, last) = (&self.tokens[at.start], &self.tokens[at.end - 1]);
        self.text[first.range.start..last.range.end].to_owned()
    }

    /// Whether the tokens in a range may be a name: one of them is marked ([`Token`]), or occurs in
    /// neither the schema nor the lexicon. Numbers alone are not a name.
    fn is_apart(&self, at: &Range<usize>) -> bool {
        let own = &self.tokens[at.clone()];
        let number = own.iter().all(|token| token.number.is_some());
        let plain = |token: &Token| {
            is_cue(&token.word) || is_filler(&token.word) || self.schema.says(&token.stem)
        };
        !number && own.iter().any(|token| token.marked && token.number.is_none() || !plain(token))
    }

    /// Whether the tokens in a range are exactly the words of a value, and no name of the schema or
    /// phrase has one of them: the value `refunded` beside a field `refundable`.
    fn is_whole(&self, at: &Range<usize>, words: &[String]) -> bool {
        let own = &self.tokens[at.clone()];
        let is_in_schema = |word: &str| {
            let mut words = self.schema.names().flat_map(|name| &name.words);
            words.any(|own| own.trim_end_matches('s') == word.trim_end_matches('s'))
        };
        // `withdrawn offers` supposes nothing, and `paid` means more only within `best paid`.
        let supposes = self.tokens.iter().any(|token| cue_of(&token.word) == Some(Cue::Suppose));
        let asks = |cue| !matches!(cue, Cue::LeaveOut | Cue::Raise | Cue::Lower);
        let is_phrase = |word: &str| is_cue(word) && (supposes || cue_of(word).is_some_and(asks));
        let is_known = |word: &str| is_phrase(word) || is_filler(word) || is_in_schema(word);
        own.iter().map(|token| &token.word).eq(words)
            && !own.iter().any(|token| is_known(&token.word))
    }

    /// Whether the tokens in a range are stated of the rows, so that they mean a value even if they
    /// have another meaning elsewhere: `are open`, `are not on hold`, `are stayed or open`, `open
    /// matters`.
    fn is_stated(&self, at: &Range<usize>) -> bool {
        let before = self.tokens[..at.start].iter().rev();
        let values = self.schema.value_words();
        let is_between = |word: &str| {
            !BEING.contains(&word) && (STATING.contains(&word) || values.contains(word))
        };
        let mut before = before.skip_while(|token| is_between(&token.word));
        let is_behind = before.next().is_some_and(|token| BEING.contains(&&*token.word));
        let next = self.tokens.get(at.end);
        let is_type = |next: &Token| self.schema.types.iter().any(|own| own.stems == [&*next.stem]);
        let own = &self.tokens[at.clone()];
        let is_stop = matches!(own, [one] if is_stop_word(&one.word));
        // In `other genes`, the word is not a value.
        let describes =
            || next.is_some_and(is_type) && !own.iter().all(|token| is_filler(&token.word));
        !is_stop && (is_behind || describes())
    }

    /// Finds the known field values in the question, with their token ranges.
    fn valued(&self) -> Vec<(Range<usize>, FieldValue)> {
        let mut found = Vec::new();
        let (values, quotations) = (self.schema.values(), self.quotations());
        for (start, token) in self.tokens.iter().enumerate() {
            let singular = token.word.strip_suffix('s');
            let known = [Some(token.word.as_str()), singular].into_iter().flatten();
            for (words, value) in known.filter_map(|word| values.get(word)).flatten() {
                let at = start..start + words.len();
                let Some(own) = self.tokens.get(at.clone()) else { continue };
                let same = noun(words, own).is_some();
                let is_name = || {
                    quotations.contains(&at)
                        || self.is_apart(&at)
                        || self.is_whole(&at, words)
                        || self.is_stated(&at)
                        || self.is_beside(&at, self.schema.field(value.field))
                };
                if same && is_name() {
                    found.push((at, value.clone()));
                }
            }
        }
        found
    }

    /// Whether the schema name `name` is one word that stands directly before or after the tokens
    /// in a range: `priority` after `high`.
    fn is_beside(&self, at: &Range<usize>, name: &Words) -> bool {
        let mut places = [at.start.checked_sub(1), Some(at.end)].into_iter().flatten();
        places.any(|place| {
            self.tokens.get(place).is_some_and(|token| name.words == [token.word.as_str()])
        })
    }

    /// Returns the token ranges of the quoted phrases, in order.
    fn quotations(&self) -> Vec<Range<usize>> {
        let quoted = quoted_ranges(self.text).into_iter();
        let tokens = quoted.map(|range| self.between(range.start, range.end));
        tokens.filter(|tokens| !tokens.is_empty()).collect()
    }

    /// Returns the meaning of the words that begin at token `at`, and the position of the token
    /// after them. Tries a date, then a number, then the longest match among whole names of types,
    /// fields and relations and phrases of the lexicon, ties in this order. `None` if nothing
    /// begins there.
    fn phrase(&self, at: usize, taken: &[bool]) -> Option<(usize, What)> {
        if let Some((span, end)) = self.date(at, taken) {
            return Some((end, What::Date(span)));
        }
        let own = self.free(at, taken, MAX_PHRASE);
        let token = own.first()?;
        if let Some((number, unit)) = &token.number {
            return Some((at + 1, What::Number(*number, unit.clone())));
        }
        let names = |name: &Words| {
            // Types called `from` and fields called `what` are not meant by these words.
            let asks = |word: &str| is_stop_word(word) || ASKING.contains(&word);
            let is_name = |words: &[String]| !matches!(words, [word] if asks(word));
            let words = Some(name.words.len()).filter(|n| *n > 0 && is_name(&name.words));
            let words = words.filter(|_| self.begins_with(own, &name.words));
            let is_joined = token.word == name.joined && is_name(&name.words);
            words.or_else(|| is_joined.then_some(1))
        };
        let alias = |id: TypeId| match own {
            [first, second, ..] if self.schema.is_called_by(id, &first.word, &second.stem) => {
                Some(2)
            }
            _ => None,
        };
        let types = (0..).map(TypeId).zip(&self.schema.types);
        let types = types
            .filter_map(|(id, kind)| Some((names(kind).or_else(|| alias(id))?, What::Type(id))));
        let fields = (0..).map(FieldId).zip(&self.schema.fields);
        let fields = fields.filter_map(|(id, field)| {
            let n = names(field).or_else(|| in_stock(own, field))?;
            Some((n, What::Field(vec![(id, 1.0)])))
        });
        let is_type = self.type_of_sort(&token.word).is_some()
            || self.schema.type_meant(&token.stem).is_some();
        let relations = self.schema.relations.iter().zip(&self.schema.nouns);
        let links = (0..).map(RelationId).zip(relations).filter_map(|(id, (relation, nouns))| {
            let own_noun = || noun(nouns, own).filter(|_| !is_type);
            Some((noun(&relation.words, own).or_else(own_noun)?, What::Links(id)))
        });
        let has_amount = self.schema.fields.iter().any(|field| field.joined == "amount");
        let phrases = PHRASES.iter().filter_map(|(phrase, cue)| {
            let n = phrase.split(' ').count();
            let said = own.get(..n)?.iter().map(|token| token.word.as_str());
            // `more than 20 and less than 50` are two bounds.
            let goes_on = || {
                self.tokens.get(at + n).is_some_and(|next| {
                    matches!(cue, Cue::OrMore(_)) && (next.word == "than" || next.number.is_some())
                })
            };
            // If there is a field `amount`, `the total amount of transactions` asks for its sum.
            let is_field = *phrase == "amount of" && has_amount;
            let is_said = said.eq(phrase.split(' ')) && !goes_on() && !is_field;
            is_said.then_some((n, What::Cue(*cue)))
        });
        let all = types.chain(fields).chain(links).chain(phrases);
        // `since 2022` is a bound, even if a field is called `since`.
        let bounds = |n: usize, what: &What| {
            let behind = at + n;
            matches!(what, What::Cue(Cue::Bound(_, true)))
                && (self.tokens.get(behind).is_some_and(|token| token.number.is_some())
                    || self.date(behind, taken).is_some())
        };
        let (n, what) = all.min_by_key(|(n, what)| (Reverse(*n), !bounds(*n, what)))?;
        Some((at + n, what))
    }

    /// Returns the free tokens from token `at` on, up to the next one that is taken, at most `n`.
    fn free(&self, at: usize, taken: &[bool], n: usize) -> &[Token] {
        let free = taken.iter().skip(at).take_while(|own| !**own).count();
        &self.tokens[at..at + free.min(n)]
    }

    /// Returns the date that begins at token `at`, and the position of the token after the date;
    /// `None` if there is no date or only a year.
    fn date(&self, at: usize, taken: &[bool]) -> Option<(DateSpan, usize)> {
        let own = self.tokens.iter().zip(taken);
        let words: Vec<(Range<usize>, &str)> = own
            .map(|(token, taken)| (token.range.clone(), if *taken { "" } else { &*token.word }))
            .collect();
        let (span, end) = date_at(self.text, &words, at)?;
        (!span.is_year() && end <= self.tokens.len()).then_some((span, end))
    }

    /// Returns the fields, type or relation that the words from token `at` on mention by part of a
    /// name or by a synonym, and the position of the token after these words. `None` if they
    /// mention none.
    fn part(&self, at: usize, taken: &[bool]) -> Option<(usize, What)> {
        let own = self.free(at, taken, MAX_PARTIAL);
        let token = own.first().filter(|token| !is_filler(&token.word))?;
        let is_exact = |name: &Words| name.stems.contains(&token.stem);
        let is_exact_field = |(field, _): &(FieldId, f32)| is_exact(self.schema.field(*field));
        let types = || (0..).map(TypeId).zip(&self.schema.types);
        let of_type = types().filter(|(_, kind)| kind.is_headed_by(&token.stem));
        let of_type = of_type.min_by_key(|(_, kind)| kind.stems.len());
        for n in (1..=own.len()).rev() {
            let said = own[..n].iter().filter(|token| !is_filler(&token.word));
            let said: Vec<&str> = said.map(|token| token.stem.as_str()).collect();
            let share = |field: &Words| (said.len() as f32 / field.stems.len() as f32).min(1.0);
            let fields = (0..).map(FieldId).zip(&self.schema.fields);
            let mut fields: Vec<(FieldId, f32)> = fields
                .filter(|(_, field)| said.iter().all(|stem| field.says(stem)))
                .map(|(id, field)| (id, share(field)))
                .collect();
            // A name with exactly this stem excludes other forms: `genes` means the type `gene`,
            // not the field `generif`.
            if said.len() == 1
                && (self.schema.types.iter().any(is_exact) || fields.iter().any(is_exact_field))
            {
                fields.retain(is_exact_field);
            }
            // `shipped` means the date of that name, not a city or company that is shipped to.
            let has_word = |name: &Words| name.words.contains(&token.word);
            let has_own = |(field, _): &(FieldId, f32)| has_word(self.schema.field(*field));
            let is_worded = said.len() == 1
                && fields.iter().any(has_own)
                && !self.schema.types.iter().any(has_word);
            if is_worded {
                fields.retain(has_own);
            }
            fields.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
            if !fields.is_empty() && own[n - 1].word.len() > 2 && !is_filler(&own[n - 1].word) {
                // A type is preferred to fields if the word makes up at least as large a share of
                // the type's name as of any field's name.
                let part = |(field, _): &(FieldId, f32)| {
                    said.len() as f32 / self.schema.field(*field).words.len() as f32
                };
                let share = fields.iter().map(part).fold(0.0, f32::max);
                if let Some((id, kind)) = of_type.filter(|_| n == 1 && !is_worded)
                    && (1.0 / kind.stems.len() as f32 >= share
                        || is_exact(kind) && !fields.iter().any(is_exact_field))
                {
                    return Some((at + 1, What::Type(id)));
                }
                if n == 1 && self.states_degree(at, &fields) {
                    return Some((at + 1, self.unknown(token)));
                }
                // `customers` means the accounts, not their field `customer_since`.
                let heads = |(field, _): &(FieldId, f32)| {
                    self.schema.field(*field).stems.last() == Some(&token.stem)
                };
                if n == 1
                    && !fields.iter().any(heads)
                    && let Some(kind) = self.type_of_sort(&token.word)
                {
                    return Some((at + 1, What::Type(kind)));
                }
                return Some((at + n, What::Field(fields)));
            }
        }
        let meant = self.meant(synonyms(&token.word));
        if self.states_degree(at, &meant) {
            return Some((at + 1, self.unknown(token)));
        }
        if !meant.is_empty() {
            return Some((at + 1, What::Field(meant)));
        }
        // `causes` means the relation of that name, not a form of `causal agent`.
        let links = self.schema.relations.iter().any(is_exact);
        let of_type = of_type.filter(|(_, kind)| !links || is_exact(kind));
        let kind = of_type
            .map(|(id, _)| id)
            .or_else(|| self.type_of_sort(&token.word))
            .or_else(|| self.schema.type_meant(&token.stem));
        if let Some(kind) = kind {
            return Some((at + 1, What::Type(kind)));
        }
        let mut relations = (0..self.schema.relations.len() as u16).map(RelationId);
        if relations.any(|id| self.schema.is_said_by(id, &token.stem)) {
            return Some((at + 1, What::Relation));
        }
        let meant = self.meant(&same_sort(&token.word).collect::<Vec<_>>());
        (!meant.is_empty()).then_some((at + 1, What::Field(meant)))
    }

    /// Returns the first type whose noun can name the same type as `word`, such as the type `film`
    /// for `movies`.
    fn type_of_sort(&self, word: &str) -> Option<TypeId> {
        let others: Vec<&str> = same_sort(word).collect();
        let is_same = |kind: &Words| kind.noun().is_some_and(|noun| others.contains(&noun));
        let mut types = (0..).map(TypeId).zip(&self.schema.types);
        types.find(|(_, kind)| is_same(kind)).map(|(id, _)| id)
    }

    /// Whether a token is an adjective that states a degree of one of `fields`, such as `pricey` or
    /// `expensive` for `price`. The base does not define which values have this degree. False if
    /// the question asks for the degree, as `how expensive` does.
    fn states_degree(&self, at: usize, fields: &[(FieldId, f32)]) -> bool {
        let said = word(self.tokens, at);
        let before = at.checked_sub(1).map_or("", |before| word(self.tokens, before));
        let words = fields.iter().flat_map(|(field, _)| &self.schema.field(*field).words);
        let names: Vec<&str> = words.map(String::as_str).collect();
        let is_adjective = is_degree(said) || names.iter().any(|name| is_adjective_of(said, name));
        !names.is_empty()
            && is_adjective
            && !names.contains(&said)
            && !BEFORE_DEGREES.contains(&before)
    }

    /// Returns the fields whose names contain the stem of one of these words, each with the share
    /// of its name that one word makes up.
    fn meant(&self, names: &[&str]) -> Vec<(FieldId, f32)> {
        let fields = (0..).map(FieldId).zip(&self.schema.fields);
        fields
            .filter(|(_, field)| self.schema.is_called(field, names))
            .map(|(id, field)| (id, 1.0 / field.stems.len() as f32))
            .collect()
    }

    /// Whether a token that is usually a filler is a name at this place: `written in go`, `go
    /// packages`, `in May`.
    fn may_name(&self, at: usize) -> bool {
        let Some([before, token]) = self.tokens.get(at.wrapping_sub(1)..=at) else { return false };
        let between = self.text.get(before.range.end..token.range.start);
        let follows = BEFORE_NAMES.contains(&before.word.as_str())
            || between.is_some_and(|text| text.contains(','));
        let is_type = |next: &Token| self.schema.types.iter().any(|own| own.stems == [&*next.stem]);
        follows && token.word == "may"
            || (follows || before.word == "many" && self.tokens.get(at + 1).is_some_and(is_type))
                && !is_stop_word(&token.word)
                && !self.schema.nodes_named(&token.word).is_empty()
    }

    /// Returns the meaning of a token that belongs to no other mention: a number, a filler or an
    /// unknown word.
    fn left(&self, at: usize) -> What {
        let token = &self.tokens[at];
        let before = at.checked_sub(1).map(|before| word(self.tokens, before));
        if let Some(number) = number_word(&token.word)
            && (before.is_some_and(|before| BEFORE_ONE.contains(&before))
                || !is_question_word(&token.word))
        {
            return What::Number(number, None);
        }
        let is_letter = token.word.chars().nth(1).is_none();
        // `in cm`, where a field is called `height_cm`
        let is_unit = before == Some("in")
            && self
                .schema
                .fields
                .iter()
                .any(|field| field.words.len() > 1 && field.words.last() == Some(&token.word));
        let says_nothing = match is_letter {
            // The letter in `grade F`, `vitamin A` or `500 g` has an unknown meaning.
            true => {
                let ends = at + 1 == self.tokens.len();
                let asks = before.is_none_or(is_question_word);
                !ends && LETTERS.contains(&token.word.as_str()) && (!token.marked || asks)
            }
            // `live in London`
            false => {
                is_filler(&token.word)
                    || is_unit
                    || LIVE.contains(&&*token.word) && word(self.tokens, at + 1) == "in"
            }
        };
        if says_nothing && (is_letter || !self.may_name(at)) {
            return What::Filler;
        }
        self.unknown(token)
    }

    fn unknown(&self, token: &Token) -> What {
        What::Unknown(self.text[token.range.clone()].to_owned())
    }
}
