//! Numbers: "price under 20", "more than two reviews", "30 dollars or less".

use crate::bundle::{
    conditions::{
        Kind, Reader, Word,
        phrases::{AFTER_NUMBER, COMPARISONS, MONEY, MULTIPLIERS, NUMBERS, PRICED},
    },
    lexicon::stemmed,
    schema::is_form,
};
use agent_kb::{
    filter::{Condition, Operator},
    table::value::quantity,
};

/// Words by which questions refer to number fields: each entry holds a word in names of fields,
/// and the synonyms of this word.
const NUMBER_WORDS: [(&str, &str); 2] =
    [("price", "cost costs costing cheaper dollars bucks euros"), ("rating", "rated stars")];

/// Words in names of fields of prices, best first.
const PRICES: [&str; 8] = ["price", "preis", "prix", "precio", "cost", "kosten", "cout", "coste"];

impl Reader<'_> {
    /// Reads a comparison with a number that begins at word `at`; returns the position after it.
    pub(super) fn read_number(&mut self, at: usize) -> Option<usize> {
        let before = self.meaning_at(at, &COMPARISONS);
        let first = at + before.map_or(0, |pair| pair.0);
        let (number, mut after) = self.number_at(first)?;
        let start = self.words.get(first)?.range.start;
        let is_price = self.text[..start].ends_with(['$', '€', '£']) || self.is_any(after, MONEY);
        after += usize::from(self.is_any(after, MONEY));
        let mut unit = None;
        let operator = match before {
            Some((_, operator)) => operator,
            None => {
                // A unit may come before the phrase, as in "4.5 stars or better".
                let mut places = [after, after + 1].into_iter();
                let (place, (n, operator)) = places
                    .find_map(|place| Some((place, self.meaning_at(place, &AFTER_NUMBER)?)))?;
                after = place + n;
                unit = place.checked_sub(1).filter(|unit| *unit > first);
                operator
            }
        };
        let limit_start = self.limit_start(at)?;
        let operator = if limit_start < at { reversed(operator) } else { operator };
        let behind = unit.unwrap_or(after);
        let is_named = self.names_number(behind);
        // "Over 50 inches" is about no known field.
        if !is_price && !is_named && !self.is_end(behind) {
            return None;
        }
        let price = self.price().filter(|_| is_price).map(|field| (at, field));
        let named = || match is_named {
            true => {
                let (_, field) = self.named_field(0, behind, Kind::Number, &NUMBER_WORDS)?;
                Some((at, field))
            }
            false => self.named_field(at, behind, Kind::Number, &NUMBER_WORDS),
        };
        let (mut begin, field) = price.or_else(named)?;
        begin = begin.min(limit_start);
        while begin > 0 && self.is_any(begin - 1, PRICED) {
            begin -= 1;
        }
        let own = stemmed(&self.base.stems, &field);
        let is_own = |word: &Word<'_>| own.iter().any(|own| is_form(own, &word.stem));
        let end = after + usize::from(self.words.get(after).is_some_and(is_own));
        self.found.all.push(Condition::new(field, operator, vec![number.to_string()]));
        self.use_words(begin, end);
        Some(end)
    }

    /// Whether word `at` names a number field.
    fn names_number(&self, at: usize) -> bool {
        let Some(word) = self.words.get(at).filter(|word| !word.is_in_name) else { return false };
        let mut numbers = self.fields.iter().filter(|field| field.kind == Kind::Number);
        numbers.any(|field| self.is_named(field, word, &NUMBER_WORDS))
    }

    /// Parses a number that begins at word `at`, written in digits, or as a word from one to
    /// twelve; returns the number and the position after it.
    fn number_at(&self, at: usize) -> Option<(f64, usize)> {
        let word = self.words.get(at).filter(|word| !word.is_in_name)?;
        if self.is_any(at + 1, MULTIPLIERS) {
            return None;
        }
        if let Some(place) = NUMBERS.iter().position(|number| word.folded == *number) {
            return Some((place as f64 + 1.0, at + 1));
        }
        let written = self.text[word.range.start..].split_whitespace().next().unwrap_or_default();
        let written = written.trim_end_matches(|c: char| !c.is_alphanumeric());
        // The "k" of "1k" multiplies the number; such numbers are not read.
        if written.ends_with(char::is_alphabetic) {
            return None;
        }
        if self.base.doubtful_number(written).is_some() {
            return None;
        }
        let end = word.range.start + written.len();
        let n = self.words[at..].iter().take_while(|word| word.range.start < end).count();
        Some((quantity(written)?.number, at + n))
    }

    /// Returns the shortest name that contains the first of [`PRICES`] that any name contains, among
    /// the number fields of the wanted types.
    fn price(&self) -> Option<String> {
        let numbers = self.fields.iter().filter(|field| field.kind == Kind::Number);
        let own = numbers.filter(|field| self.is_own(field));
        let names = own.map(|field| self.base.kb.field_name(field.id));
        let of = |word: &str| {
            let has = |name: &&str| name.to_lowercase().contains(word);
            names.clone().filter(has).min_by_key(|name| name.len())
        };
        PRICES.iter().find_map(|word| of(word)).map(str::to_owned)
    }
}

/// Returns the opposite of a comparison, such as "at most" for "more than": "no more than" means
/// "at most".
pub(super) fn reversed(operator: Operator) -> Operator {
    match operator {
        Operator::More => Operator::AtMost,
        Operator::Less => Operator::AtLeast,
        Operator::AtMost => Operator::More,
        Operator::AtLeast => Operator::Less,
        other => other,
    }
}
