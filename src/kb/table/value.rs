//! Brings values into a normal form: parses numbers with units and dates from text, and unifies the
//! spelling of categories.

use agent_ground::words::name_words;

/// Maximum length of a unit, in bytes.
const MAX_UNIT: usize = 24;
/// Maximum length of a text that is parsed as a number, in bytes.
const MAX_NUMBER: usize = 64;
/// Pairs (currency sign or code, currency code).
const CURRENCIES: [(&str, &str); 12] = [
    ("US$", "USD"),
    ("$", "USD"),
    ("£", "GBP"),
    ("€", "EUR"),
    ("¥", "JPY"),
    ("₹", "INR"),
    ("USD", "USD"),
    ("GBP", "GBP"),
    ("EUR", "EUR"),
    ("JPY", "JPY"),
    ("CHF", "CHF"),
    ("INR", "INR"),
];
/// Words that multiply the number before them, each with the factor.
const MULTIPLIERS: [(&str, f64); 4] =
    [("thousand", 1e3), ("million", 1e6), ("billion", 1e9), ("trillion", 1e12)];
/// Pairs (other spelling, value), both in the form of [`category`] before aliases are replaced.
const ALIASES: [(&str, &str); 9] = [
    ("us", "united states"),
    ("usa", "united states"),
    ("u s", "united states"),
    ("u s a", "united states"),
    ("america", "united states"),
    ("united states of america", "united states"),
    ("uk", "united kingdom"),
    ("u k", "united kingdom"),
    ("great britain", "united kingdom"),
];
/// Pairs of values that mean yes and no, in the form of [`category`].
pub const TRUTHS: [[&str; 2]; 13] = [
    ["yes", "no"],
    ["y", "n"],
    ["true", "false"],
    ["t", "f"],
    ["1", "0"],
    ["1 0", "0 0"],
    ["ja", "nein"],
    ["j", "n"],
    ["o", "n"],
    ["s", "n"],
    ["wahr", "falsch"],
    ["oui", "non"],
    ["si", "no"],
];
/// Number of days of each month in a leap year, January first.
const DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/// Whole numbers that are recognised as years.
pub const YEARS: std::ops::RangeInclusive<i64> = 1000..=2100;

/// A number with its unit, such as 12.99 USD.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// The number; always finite.
    pub number: f64,
    /// Unit of the number: a currency code, `%`, or one or two folded words such as `ounces`;
    /// `None` for a bare number.
    pub unit: Option<String>,
}

/// Parses a number with its unit, such as `1,234.5`, `$ 12.99`, `1.44 ounces`, `12 %` or `3
/// million`. `None` for any other text, such as a range or a sentence. If a single separator stands
/// before exactly three digits, a comma groups thousands and a point begins the fraction.
pub fn quantity(text: &str) -> Option<Quantity> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_NUMBER {
        return None;
    }
    let (text, currency) = without_currency(text);
    let end = text
        .char_indices()
        .find(|&(at, c)| !is_of_number(text, at, c))
        .map_or(text.len(), |(at, _)| at);
    let (digits, rest) = text.split_at(end);
    let mut number = plain_number(digits.trim())?;
    let mut rest = rest.trim();
    for (word, factor) in MULTIPLIERS {
        if let Some(after) = rest.strip_prefix(word)
            && !after.starts_with(char::is_alphabetic)
        {
            (number, rest) = (number * factor, after.trim());
        }
    }
    let unit = match (currency, rest) {
        (Some(_), rest) if !rest.is_empty() => return None,
        (currency, "") => currency.map(str::to_owned),
        (_, "%") => Some("%".to_owned()),
        (_, word) => Some(unit_word(word)?),
    };
    number.is_finite().then_some(Quantity { number, unit })
}

/// Returns both meanings of a number that is written as German and other languages group thousands,
/// but may also be a decimal fraction: `27500` and `27.5` for `27.500 EUR`. Each is written so that
/// it has no other meaning: `27512` and `27.5120` for `27.512`.
pub fn thousands_or_fraction(text: &str) -> Option<(String, String)> {
    let number = text.trim_matches(|c: char| !c.is_ascii_digit());
    let (first, rest) = number.split_once('.')?;
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let is_doubtful = first.len() <= 3 && !first.starts_with('0') && rest.len() == 3;
    let is_doubtful = is_doubtful && is_number(first) && is_number(rest);
    let fraction = match rest.trim_end_matches('0') {
        short if short.len() < rest.len() => format!("{first}.{short}"),
        _ => format!("{number}0"),
    };
    let fraction = fraction.trim_end_matches('.').to_owned();
    is_doubtful.then(|| (format!("{first}{rest}"), fraction))
}

/// Removes a currency sign or code from the beginning or end of a text; returns the rest and the
/// currency code, `None` if there is no currency.
fn without_currency(text: &str) -> (&str, Option<&'static str>) {
    for (sign, code) in CURRENCIES {
        let is_word = sign.chars().all(char::is_alphabetic);
        let stripped = text.strip_prefix(sign).or_else(|| text.strip_suffix(sign));
        if let Some(rest) = stripped
            && (!is_word || rest.contains(|c: char| c.is_ascii_digit()))
        {
            return (rest.trim(), Some(code));
        }
    }
    (text, None)
}

/// Whether the character `c`, at byte `at` of `text`, continues a number that begins the text.
fn is_of_number(text: &str, at: usize, c: char) -> bool {
    let next_is_digit = || text[at + c.len_utf8()..].starts_with(|c: char| c.is_ascii_digit());
    match c {
        '0'..='9' => true,
        '.' | ',' | '\u{a0}' | '\u{202f}' | ' ' => at > 0 && next_is_digit(),
        '+' | '-' => at == 0 || text[..at].ends_with(['e', 'E']),
        'e' | 'E' => {
            let after = text[at + 1..].trim_start_matches(['+', '-']);
            at > 0 && after.starts_with(|c: char| c.is_ascii_digit())
        }
        _ => false,
    }
}

/// Parses digits, with thousands separators, a fraction and an exponent, as a number; `None` for
/// any other text.
fn plain_number(digits: &str) -> Option<f64> {
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let has_spaces = mantissa.contains(['\u{a0}', '\u{202f}', ' ']);
    let spaced = mantissa.replace(['\u{a0}', '\u{202f}', ' '], ",");
    let is_grouped = |text: &str, separator: char| {
        let mut parts = text.trim_start_matches(['+', '-']).split(separator);
        let first = parts.next().unwrap_or_default();
        (1..=3).contains(&first.len()) && parts.all(|part| part.len() == 3)
    };
    let plain = match (spaced.rfind(','), spaced.rfind('.')) {
        (None, _) if spaced.matches('.').count() <= 1 => spaced,
        (None, _) if is_grouped(&spaced, '.') => spaced.replace('.', ""),
        (Some(_), None) if is_grouped(&spaced, ',') => spaced.replace(',', ""),
        (Some(_), None) if !has_spaces && spaced.matches(',').count() == 1 => {
            spaced.replace(',', ".")
        }
        (Some(comma), Some(point)) => {
            // The last separator begins the fraction.
            let group = if comma < point { ',' } else { '.' };
            let (whole, fraction) = spaced.split_at(comma.max(point));
            let grouped = is_grouped(whole, group) && !fraction[1..].contains(group);
            grouped.then(|| whole.replace(group, "") + "." + &fraction[1..])?
        }
        _ => return None,
    };
    let number: f64 = plain.parse().ok()?;
    Some(if exponent == 0 { number } else { number * 10f64.powi(exponent) })
}

/// Returns a unit in folded form; `None` unless the text is one or two words of letters.
fn unit_word(text: &str) -> Option<String> {
    let is_unit = |c: char| c.is_alphabetic() || matches!(c, '/' | '°' | 'µ' | ' ' | '.');
    let fits = text.len() <= MAX_UNIT && text.chars().all(is_unit);
    let words: Vec<_> = name_words(text).map(|(_, word)| word.into_owned()).collect();
    (fits && (1..=2).contains(&words.len())).then(|| words.join(" "))
}

/// Parses a date and writes it as `2020-03-31`; reads `2020-03-31` and `2020/03/31`, either with a
/// time after it, and `31.03.2020`. `None` for any other text.
pub fn date(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.split(['T', ' ']).next().unwrap_or_default();
    let separator = ['-', '/', '.'].into_iter().find(|&c| text.matches(c).count() == 2)?;
    let parts: Vec<&str> = text.split(separator).collect();
    let &[first, month, last] = parts.as_slice() else { return None };
    let (year, day) = if first.len() == 4 { (first, last) } else { (last, first) };
    if year.len() != 4 || (first.len() != 4 && separator != '.') {
        return None;
    }
    let (year, month): (i64, usize) = (year.parse().ok()?, month.parse().ok()?);
    let day: u32 = day.parse().ok()?;
    let days = *DAYS.get(month.checked_sub(1)?)?;
    let exists = YEARS.contains(&year) && (1..=days).contains(&day);
    exists.then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// Returns the first number of exactly four digits in a text that is one of [`YEARS`].
pub fn year(text: &str) -> Option<i64> {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|part| part.len() == 4);
    numbers.filter_map(|part| part.parse().ok()).find(|year| YEARS.contains(year))
}

/// Returns the normal form of a category: words in folded form (case and accents), separated by
/// single spaces, with known aliases replaced, such as `U.S.A.` by `united states`.
pub fn category(text: &str) -> String {
    let words: Vec<_> = name_words(text).map(|(_, word)| word).collect();
    let folded = words.join(" ");
    let alias = ALIASES.iter().find(|(other, _)| *other == folded);
    alias.map_or(folded.clone(), |(_, value)| (*value).to_owned())
}
