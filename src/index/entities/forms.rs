//! Forms in which words of names are compared: hashes of consecutive words, stems in American
//! instead of British spelling, Roman numerals as digits, and words with one letter deleted.

use std::{borrow::Cow, ops::Range, sync::OnceLock};

use agent_ground::words::{self, Language, Stems, fold, is_too_long, is_unspaced, letters};
use unicode_normalization::UnicodeNormalization as _;

/// Minimum length, in letters, of a stem whose British spelling is replaced by the American one.
const MIN_SPELLED_LETTERS: usize = 4;
/// Pairs (British, American) of spellings inside stems, such as "haem" and "hem".
const SPELLINGS: [(&str, &str); 18] = [
    ("haem", "hem"),
    ("aemi", "emi"),
    ("anaem", "anem"),
    ("oesoph", "esoph"),
    ("oedem", "edem"),
    ("oestr", "estr"),
    ("foet", "fet"),
    ("paed", "ped"),
    ("aesth", "esth"),
    ("caec", "cec"),
    ("faec", "fec"),
    ("rrhoea", "rrhea"),
    ("coeli", "celi"),
    ("gynaec", "gynec"),
    ("archaeo", "archeo"),
    ("palaeo", "paleo"),
    ("sulph", "sulf"),
    ("aluminium", "aluminum"),
];
/// Pairs (British, American) of word endings that are replaced before stemming.
const WORD_ENDINGS: [(&str, &str); 6] = [
    ("isation", "ization"),
    ("isations", "izations"),
    ("ise", "ize"),
    ("ised", "ized"),
    ("ises", "izes"),
    ("ising", "izing"),
];
/// Pairs (ending, replacement) for the ends of stems, which give British and American spellings the
/// same stem, such as "colour" and "color".
const ENDINGS: [(&str, &str); 10] = [
    ("mour", "mor"),
    ("lour", "lor"),
    ("viour", "vior"),
    ("vour", "vor"),
    ("bour", "bor"),
    ("iz", "is"),
    ("yz", "ys"),
    ("tr", "ter"),
    ("br", "ber"),
    ("ogu", "og"),
];
/// Roman numerals of at least two letters, each with its value in digits.
const ROMAN: [(&str, &str); 15] = [
    ("ii", "2"),
    ("iii", "3"),
    ("iv", "4"),
    ("vi", "6"),
    ("vii", "7"),
    ("viii", "8"),
    ("ix", "9"),
    ("xi", "11"),
    ("xii", "12"),
    ("xiii", "13"),
    ("xiv", "14"),
    ("xv", "15"),
    ("xvi", "16"),
    ("xvii", "17"),
    ("xviii", "18"),
];
/// Roman numerals of one letter, each with its value in digits. A name may also begin with such a
/// letter, so the letter counts as a numeral only after another word.
const SHORT_ROMAN: [(&str, &str); 3] = [("i", "1"), ("v", "5"), ("x", "10")];

/// A hash of consecutive words (FNV-1a, 64 bits; Fowler, Noll & Vo 1991). It does not depend on the
/// boundaries between the words, so that "beta-carotene" equals "betacarotene".
#[derive(Clone, Copy)]
pub(super) struct Key(u64);

impl Key {
    /// Returns the initial hash for words that are not stemmed.
    pub(super) fn of_words() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Returns the initial hash for stems. A hash of stems equals a hash of words only by chance.
    pub(super) fn of_stems() -> Self {
        Self::of_words().then("\u{1}")
    }

    /// Returns the hash extended by one more word.
    pub(super) fn then(self, word: &str) -> Self {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Self(word.bytes().fold(self.0, step))
    }

    /// The hash as a number.
    pub(super) fn number(self) -> u64 {
        self.0
    }
}

/// A word of a name or text. If a language of the base is written without spaces, each character of
/// its script is a word.
pub(super) struct NameWord<'a> {
    pub(super) range: Range<usize>,
    pub(super) folded: Cow<'a, str>,
    /// The string to stem. In a script with spaces this is the word itself. In a script without
    /// spaces it is the character and the next character of its run. The last character of a run of
    /// two or more characters has `None`.
    pub(super) form: Option<Cow<'a, str>>,
}

/// Whether a word is a character of a script without spaces, such as Chinese.
pub(super) fn is_unspaced_word(folded: &str) -> bool {
    folded.chars().next().is_some_and(is_unspaced)
}

/// Splits a text into words, in text order.
pub(super) fn name_words<'a>(stems: &Stems, text: &'a str) -> Vec<NameWord<'a>> {
    let runs = words::name_words(text);
    if !stems.languages().are_cut() || !text.contains(is_unspaced) {
        let word = |(range, folded): (Range<usize>, Cow<'a, str>)| NameWord {
            range,
            form: Some(folded.clone()),
            folded,
        };
        return runs.map(word).collect();
    }
    let composed = |part: &str| Cow::Owned(fold(part).nfc().collect::<String>());
    let mut found: Vec<NameWord<'a>> = Vec::new();
    for (run, _) in runs {
        let mut parts = letters(&text[run.clone()]).peekable();
        let mut follows = false;
        while let Some((part, unspaced)) = parts.next() {
            let range = run.start + part.start..run.start + part.end;
            let folded: Cow<'a, str> = composed(&text[range.clone()]);
            let next = parts.peek().filter(|next| unspaced && next.1);
            let form = match next {
                Some((next, _)) => Some(composed(&text[range.start..run.start + next.end])),
                None if unspaced && follows => None,
                None => Some(folded.clone()),
            };
            follows = unspaced;
            found.push(NameWord { range, folded, form });
        }
    }
    found
}

/// Lookup table for an ascending array of hashes: for each value of the first [`Self::BITS`] bits,
/// the position of its first hash. Hashes are uniformly distributed, so few hashes share these
/// bits.
#[derive(Default)]
pub(super) struct KeyPlaces(OnceLock<Vec<u32>>);

impl KeyPlaces {
    /// Number of leading bits of a hash that select an entry of the table.
    const BITS: u32 = 16;

    /// Finds the range of positions in `keys` that hold the hash `wanted`. Every call must pass the
    /// same `keys`, ascending.
    pub(super) fn find(&self, keys: &[u64], wanted: u64) -> Range<usize> {
        let bucket = |key: u64| (key >> (u64::BITS - Self::BITS)) as usize;
        let starts = self.0.get_or_init(|| {
            let mut starts = vec![0; (1 << Self::BITS) + 1];
            keys.iter().for_each(|&key| starts[bucket(key) + 1] += 1);
            let mut sum = 0;
            for start in &mut starts {
                sum += *start;
                *start = sum;
            }
            starts
        });
        let start = starts[bucket(wanted)] as usize;
        let own = keys.get(start..starts[bucket(wanted) + 1] as usize).unwrap_or_default();
        let first = own.partition_point(|&key| key < wanted);
        let same = own.iter().skip(first).take_while(|&&key| key == wanted).count();
        start + first..start + first + same
    }
}

/// Returns the hash of one word that is not stemmed.
pub(super) fn key(word: &str) -> u64 {
    Key::of_words().then(word).number()
}

/// Lists every string that results from deleting one letter of a word; no strings for a word that
/// is too long.
pub(super) fn deletions(word: &str) -> impl Iterator<Item = String> {
    let letters = if is_too_long(word) { "" } else { word };
    letters.char_indices().map(|(at, letter)| {
        let mut shorter = String::with_capacity(word.len());
        shorter.push_str(&word[..at]);
        shorter.push_str(&word[at + letter.len_utf8()..]);
        shorter
    })
}

/// Stems a folded word; replaces British by American spelling if a language of the base is English.
pub(super) fn stem_of<'a>(stems: &Stems, word: &'a str) -> Cow<'a, str> {
    let english = stems.languages().has(Language::ENGLISH);
    let spelled = english && word.len() > MIN_SPELLED_LETTERS && word.is_ascii();
    let mut endings = WORD_ENDINGS.iter().filter(|_| spelled);
    // A word has at most one of these endings.
    let american = endings.find_map(|(from, to)| Some(format!("{}{to}", word.strip_suffix(from)?)));
    let stem = match american {
        Some(american) => Cow::Owned(stems.stem(&american).into_owned()),
        None => stems.stem(word),
    };
    if !english || stem.len() < MIN_SPELLED_LETTERS || !stem.is_ascii() {
        return stem;
    }
    let mut changed: Option<String> = None;
    // Every British spelling in the table contains one of these.
    if ["ae", "oe", "ulph", "umini"].iter().any(|part| stem.contains(part)) {
        for (british, american) in SPELLINGS {
            let now = changed.as_deref().unwrap_or(&stem);
            if now.contains(british) {
                changed = Some(now.replacen(british, american, 1));
            }
        }
    }
    let now = changed.as_deref().unwrap_or(&stem);
    for (british, american) in ENDINGS {
        if let Some(begin) = now.strip_suffix(british) {
            return Cow::Owned(format!("{begin}{american}"));
        }
    }
    changed.map_or(stem, Cow::Owned)
}

/// Splits a written word between letters and digits, and before a capital letter that follows a
/// lower-case one, such as "TypeII" into "type" and "ii"; folds each part. A word that is not ASCII
/// or is too long stays whole.
pub(super) fn pieces(written: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let parted = written.is_ascii() && !is_too_long(written);
    let parts = |a: &u8, b: &u8| {
        a.is_ascii_digit() != b.is_ascii_digit() || a.is_ascii_lowercase() && b.is_ascii_uppercase()
    };
    let pieces = written.as_bytes().chunk_by(move |a, b| !parted || !parts(a, b));
    pieces.map(|piece| fold(str::from_utf8(piece).unwrap_or_default()))
}

/// Converts a Roman numeral to digits; returns any other word unchanged. `follows`: another word
/// precedes this one.
fn digits(word: &str, follows: bool) -> &str {
    if word.len() > 5 {
        return word;
    }
    let short = SHORT_ROMAN.iter().filter(|_| follows);
    let found = ROMAN.iter().chain(short).find(|(roman, _)| *roman == word);
    found.map_or(word, |pair| pair.1)
}

/// Splits a written word into [`pieces`] and stems each.
pub(super) fn stem_pieces(stems: &Stems, written: &str) -> Vec<String> {
    pieces(written).map(|piece| stem_of(stems, &piece).into_owned()).collect()
}

/// Extends a hash of stems by the stems of one more word, with Roman numerals as digits. `follows`:
/// other words precede this one.
pub(super) fn then_stems(key: Key, pieces: &[String], mut follows: bool) -> Key {
    pieces.iter().fold(key, |key, piece| {
        let key = key.then(digits(piece, follows));
        follows = true;
        key
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stem_key(name: &str) -> u64 {
        let stems = Stems::default();
        let words = words::name_words(name).enumerate();
        let then = |key, (at, (range, _)): (usize, (Range<usize>, _))| {
            then_stems(key, &stem_pieces(&stems, &name[range]), at > 0)
        };
        words.fold(Key::of_stems(), then).number()
    }

    #[test]
    fn the_hash_of_stems_is_the_same_for_other_spellings() {
        for (one, other) in [
            ("beta-carotenes", "Beta carotene"),
            ("Type II", "type 2"),
            ("TypeII", "type 2"),
            ("factor V", "Factor 5"),
            ("Tumours of the oesophagus", "tumor of the esophagus"),
            ("haemophilia", "hemophilia"),
            ("organisation", "organization"),
            ("localisation", "localization"),
            ("optimised", "optimized"),
            ("fibres", "fiber"),
            ("IL-2", "IL2"),
        ] {
            assert_eq!(stem_key(one), stem_key(other), "{one}, {other}");
        }
        for (one, other) in [("Michael", "Michel"), ("V", "5"), ("type II", "type I")] {
            assert_ne!(stem_key(one), stem_key(other), "{one}, {other}");
        }
    }

    #[test]
    fn a_word_is_parted_at_digits_and_capitals() {
        let parts = |word| pieces(word).map(Cow::into_owned).collect::<Vec<_>>();
        assert_eq!(parts("TypeII"), ["type", "ii"]);
        assert_eq!(parts("NR3C1"), ["nr", "3", "c", "1"]);
        assert_eq!(parts("Köln2"), ["koln2"]);
        assert_eq!(parts("plain"), ["plain"]);
        assert_eq!(pieces(&"a1".repeat(32)).count(), 64);
        assert_eq!(pieces(&"a1".repeat(33)).count(), 1);
    }

    /// Each form is a copy: without a bound the time is quadratic in the length.
    #[test]
    fn a_run_too_long_for_a_word_has_no_forms_with_a_letter_less() {
        assert_eq!(deletions(&"x".repeat(64)).count(), 64);
        assert_eq!(deletions(&"x".repeat(65)).count(), 0);
        assert_eq!(deletions(&"é".repeat(64)).count(), 64);
    }
}
