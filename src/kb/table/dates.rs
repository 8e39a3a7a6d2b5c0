//! Finds dates among the words of a text: "March 2025", "5 May 2024", "Oct '24", "Q1 2025",
//! "2025-05-19", "03/2025" or "2019".

use std::ops::Range;

use super::value::date;

/// Names of the months in lower case, January first.
pub const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// Numbers of four digits that are read as years.
const YEARS: std::ops::RangeInclusive<u32> = 1800..=2100;

/// A single date, or the span between two dates. Both ends are years, months or days: `2025`,
/// `2025-03` or `2025-03-31`. Before a longer date is compared with an end of the span, it is cut
/// to the length of that end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateSpan {
    /// The first date of the span.
    pub from: String,
    /// The last date of the span; equal to `from` for a single date.
    pub to: String,
}

impl DateSpan {
    fn whole(date: String) -> Self {
        Self { from: date.clone(), to: date }
    }

    /// Whether the span is a single year, such as `2025`.
    pub fn is_year(&self) -> bool {
        self.from == self.to && self.from.len() == 4
    }
}

/// Parses a word of four digits as a year; `None` for any other word and for years outside of 1800
/// to 2100.
pub fn as_year(word: &str) -> Option<u32> {
    let is_year = word.len() == 4 && word.chars().all(|c| c.is_ascii_digit());
    word.parse().ok().filter(|year| is_year && YEARS.contains(year))
}

/// Whether a text is an existing year, month or day, written with the year first: `2025`, `2025-03`
/// or `2025-03-31`.
pub fn is_part_of_date(text: &str) -> bool {
    let whole = match text.len() {
        4 => format!("{text}-01-01"),
        7 => format!("{text}-01"),
        _ => text.to_owned(),
    };
    date(&whole).as_deref() == Some(whole.as_str())
}

/// Finds the date that begins at the word with index `at`; returns the date and the index of the
/// word after it, `None` if no date begins there. `words` are the folded
/// [`name_words`](agent_ground::words::name_words) of `text` with their byte ranges; no date begins
/// at an empty word.
pub fn date_at(text: &str, words: &[(Range<usize>, &str)], at: usize) -> Option<(DateSpan, usize)> {
    let word = |at: usize| words.get(at).map(|word| word.1);
    let is_of = |at: usize| word(at) == Some("of");
    let month = |at: usize| month_of(word(at)?);
    let day = |at: usize| {
        let text = word(at)?;
        let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
        let ending = text.get(digits.len()..)?;
        let is_day = digits.len() <= 2 && ["", "st", "nd", "rd", "th"].contains(&ending);
        digits.parse::<u32>().ok().filter(|day| is_day && (1..=31).contains(day))
    };
    let year = |at: usize| {
        let (range, word) = words.get(at)?;
        let is_short = word.len() == 2 && text.get(..range.start)?.ends_with(['\'', '\u{2019}']);
        if is_short { short_year(word) } else { as_year(word) }
    };
    let whole = |text: String, next: usize| Some((DateSpan::whole(text), next));
    if word(at)?.is_empty() {
        return None;
    }
    // A date written with separators spans several words.
    let start = words.get(at)?.0.start;
    let written = text.get(start..)?.split_whitespace().next().unwrap_or_default();
    let written = written.trim_end_matches(|c: char| !c.is_alphanumeric());
    if let Some(text) = date(written) {
        return whole(text, at + 3);
    }
    if let Some((text, n)) = slashed(written) {
        return whole(text, at + n);
    }
    if let Some((year, month)) = written.split_once('-')
        && as_year(year).is_some()
        && month.len() == 2
        && date(&format!("{written}-01")).is_some()
    {
        return whole(written.to_owned(), at + 2);
    }
    if let Some(year) = year(at) {
        return whole(year.to_string(), at + 1);
    }
    let quarter = word(at).and_then(|word| word.strip_prefix('q')?.parse::<u32>().ok());
    if let (Some(quarter @ 1..=4), Some(year)) = (quarter, year(at + 1)) {
        let month = |month: u32| format!("{year}-{month:02}");
        let span = DateSpan { from: month(3 * quarter - 2), to: month(3 * quarter) };
        return Some((span, at + 2));
    }
    let of_day =
        |year: u32, month: usize, day: u32| date(&format!("{year}-{:02}-{day:02}", month + 1));
    if let Some(month) = month(at) {
        if let (Some(day), Some(year)) = (day(at + 1), year(at + 2)) {
            return whole(of_day(year, month, day)?, at + 3);
        }
        let next = at + 1 + usize::from(is_of(at + 1));
        return whole(format!("{}-{:02}", year(next)?, month + 1), next + 1);
    }
    let day = day(at)?;
    let next = at + 1 + usize::from(is_of(at + 1));
    let month = month(next)?;
    let next = next + 1 + usize::from(is_of(next + 1));
    whole(of_day(year(next)?, month, day)?, next + 1)
}

/// Returns the number of the month, from 0, with this English name or abbreviation, in lower case.
pub fn month_of(word: &str) -> Option<usize> {
    let is_short =
        |name: &str| name.get(..3) == Some(word) || word == "sept" && name == "september";
    MONTHS.iter().position(|&name| name == word || is_short(name))
}

/// Parses the last two digits of a year from 1970 to 2069.
fn short_year(word: &str) -> Option<u32> {
    let year = word.parse::<u32>().ok().filter(|_| word.len() == 2)?;
    Some(if year < 70 { 2000 + year } else { 1900 + year })
}

/// Parses a month such as `03/2025`, or a day such as `6/19/2025` or `19/6/25`, one of whose numbers
/// must be too large for a month; returns it with its number of parts.
fn slashed(text: &str) -> Option<(String, usize)> {
    let parts: Vec<&str> = text.split('/').collect();
    let year = |part: &str| as_year(part).or_else(|| short_year(part));
    let small = |part: &str| part.parse::<u32>().ok().filter(|_| part.len() <= 2);
    match *parts.as_slice() {
        [month, year] => {
            let text = format!("{}-{:02}", as_year(year)?, small(month)?);
            is_part_of_date(&text).then_some((text, 2))
        }
        [first, second, last] => {
            let (first, second) = (small(first)?, small(second)?);
            let (month, day) = match (first > 12, second > 12) {
                (true, false) => (second, first),
                (false, true) => (first, second),
                _ if first == second => (first, second),
                _ => return None,
            };
            date(&format!("{}-{month:02}-{day:02}", year(last)?)).map(|text| (text, 3))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use agent_ground::words::name_words;

    use super::*;

    #[test]
    fn dates_are_read_in_words_and_digits() {
        for (text, from, to, n) in [
            ("March 2025", "2025-03", "2025-03", 2),
            ("March of 2025", "2025-03", "2025-03", 3),
            ("5 May 2024", "2024-05-05", "2024-05-05", 3),
            ("May 5th, 2024", "2024-05-05", "2024-05-05", 3),
            ("5th of May 2024", "2024-05-05", "2024-05-05", 4),
            ("5 of May of 2024", "2024-05-05", "2024-05-05", 5),
            ("Q2 2025", "2025-04", "2025-06", 2),
            ("2025-05-19?", "2025-05-19", "2025-05-19", 3),
            ("19.05.2025.", "2025-05-19", "2025-05-19", 3),
            ("2025-05", "2025-05", "2025-05", 2),
            ("2019", "2019", "2019", 1),
            ("Oct. 2024", "2024-10", "2024-10", 2),
            ("October '24", "2024-10", "2024-10", 2),
            ("03/2025", "2025-03", "2025-03", 2),
            ("6/19/2025", "2025-06-19", "2025-06-19", 3),
            ("19/6/98", "1998-06-19", "1998-06-19", 3),
        ] {
            let folded: Vec<_> = name_words(text).collect();
            let words: Vec<_> =
                folded.iter().map(|(range, word)| (range.clone(), word.as_ref())).collect();
            let (span, next) = date_at(text, &words, 0).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((span.from.as_str(), span.to.as_str(), next), (from, to, n), "{text}");
        }
        for text in
            ["may 5", "31 June 2024", "9999", "Q5 2025", "5", "6/7/2025", "13/2025", "october 24"]
        {
            let folded: Vec<_> = name_words(text).collect();
            let words: Vec<_> =
                folded.iter().map(|(range, word)| (range.clone(), word.as_ref())).collect();
            assert_eq!(date_at(text, &words, 0), None, "{text}");
        }
    }
}
