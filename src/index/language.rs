//! The languages of a base: those that it declares, or else those detected in a sample of its
//! texts.
//!
//! Detection uses letter trigrams (`whatlang`) on pieces of about [`PIECE_LETTERS`] characters,
//! because a name alone is too short. A language counts if at least [`MIN_SHARE`] of the reliably
//! detected pieces are in that language. If no language counts, the base is read as English. The
//! result depends only on the base. At most [`MAX_PIECES`] pieces are read.

use agent_ground::words::{Language, Languages, is_stop_word, is_unspaced, name_words};
use agent_kb::{Kb, NodeId, distinct};

/// Number of characters at which a piece of text is complete.
const PIECE_LETTERS: usize = 300;
/// Maximum number of characters that a node adds to a piece.
const MAX_NODE_LETTERS: usize = 300;
/// Minimum number of distinct function words of a language, such as "der" in German, for a piece to
/// count as text in that language.
const MIN_FUNCTION_WORDS: usize = 2;
/// Minimum number of characters of a piece; a piece in a script without spaces between words may be
/// shorter.
const MIN_LETTERS: usize = 200;
/// Maximum number of pieces of text that are read.
const MAX_PIECES: usize = 200;
/// Maximum number of nodes from which pieces of text are taken.
const MAX_NODES: u32 = 4_000;
/// A language counts if at least this share, in `0..=1`, of the pieces whose language is detected
/// are in that language.
const MIN_SHARE: f32 = 0.1;

/// Returns the languages in which the texts of a base are analysed: those that its manifest
/// declares, otherwise those detected in a sample of its texts. Constant time, however large the
/// base is.
pub fn languages(kb: &Kb) -> Languages {
    kb.manifest().languages.unwrap_or_else(|| detect(pieces(kb)))
}

/// Returns the languages that each have at least [`MIN_SHARE`] of the pieces whose language is
/// detected; English if no language is detected.
fn detect(pieces: impl Iterator<Item = String>) -> Languages {
    let mut known: Vec<(whatlang::Lang, Language, u32)> = Language::all()
        .filter_map(|it| Some((whatlang::Lang::from_code(it.long_code())?, it, 0)))
        .collect();
    let detector = whatlang::Detector::with_allowlist(known.iter().map(|one| one.0).collect());
    for piece in pieces {
        let found = detector.detect(&piece).filter(whatlang::Info::is_reliable);
        let own = found.and_then(|found| known.iter_mut().find(|one| one.0 == found.lang()));
        if let Some((.., count)) = own.filter(|own| is_prose(own.1, &piece)) {
            *count += 1;
        }
    }
    let least = (known.iter().map(|one| one.2).sum::<u32>() as f32 * MIN_SHARE).max(1.0);
    let counted = known.iter().filter(|one| one.2 as f32 >= least);
    match counted.map(|one| one.1).collect() {
        Languages::NONE => Languages::ENGLISH,
        some => some,
    }
}

/// Whether a text has at least [`MIN_FUNCTION_WORDS`] function words of a language, not counting
/// those that are English words too. Always true for English and for languages without a list of
/// function words. The letter trigrams of English names and keywords may resemble another language,
/// but such texts lack its function words.
fn is_prose(language: Language, text: &str) -> bool {
    if language == Language::ENGLISH || !language.has_stop_words() {
        return true;
    }
    let alone: Languages = std::iter::once(language).collect();
    let own = |word: &str| alone.is_stop_word(word) && !is_stop_word(word);
    let found = name_words(text).map(|pair| pair.1).filter(|word| own(word));
    distinct(found.collect()).len() >= MIN_FUNCTION_WORDS
}

/// Samples pieces of text, each from one or several nodes; the nodes are spread over the base.
fn pieces(kb: &Kb) -> impl Iterator<Item = String> {
    let n = kb.n_nodes();
    let mut steps = (0..n.min(MAX_NODES)).map(move |at| spread(at, n.min(MAX_NODES), n));
    let pieces = std::iter::from_fn(move || {
        let (mut piece, mut letters) = (String::new(), 0_usize);
        for node in steps.by_ref() {
            let texts = kb.fields(node).map(|(_, text)| text);
            let text = std::iter::once(kb.name(node))
                .chain(texts)
                .flat_map(|text| text.chars().chain([' ']));
            for c in text.take(MAX_NODE_LETTERS) {
                piece.push(c);
                letters += 1;
            }
            if letters >= PIECE_LETTERS {
                break;
            }
        }
        (!piece.is_empty()).then_some((piece, letters))
    });
    let is_long =
        |(piece, letters): &(String, usize)| *letters >= MIN_LETTERS || piece.contains(is_unspaced);
    pieces.filter(is_long).map(|pair| pair.0).take(MAX_PIECES)
}

/// Returns the node at position `at` (below `chosen`) of a sample of `chosen` nodes among `n`.
/// Every prefix of the sample is spread over all nodes.
fn spread(at: u32, chosen: u32, n: u32) -> NodeId {
    // A step that is coprime to `chosen` visits each place once.
    let coprime = |step: &u32| {
        let (mut a, mut b) = (*step, chosen);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    let step = (chosen * 5 / 8 + 1..).find(coprime).unwrap_or(1);
    let place = u64::from(at) * u64::from(step) % u64::from(chosen);
    (place * u64::from(n) / u64::from(chosen)) as NodeId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_counts_by_its_share_of_the_pieces() {
        let english =
            "The delivery of this device was two weeks late and the box arrived damaged. "
                .repeat(4);
        let german = "Die Lieferung dieses Geräts kam zwei Wochen zu spät und die Verpackung war beschädigt. ".repeat(4);
        let chinese = "货物晚了两个星期才送到，收到时包装已经损坏。".repeat(8);
        let mixed = |n: [usize; 3]| {
            let texts = [&english, &german, &chinese];
            detect(texts.into_iter().zip(n).flat_map(|(text, n)| vec![text.clone(); n]))
        };
        assert_eq!(mixed([9, 0, 0]), Languages::ENGLISH);
        assert_eq!(mixed([19, 1, 0]), Languages::ENGLISH);
        assert_eq!(mixed([5, 5, 0]).to_string(), "English and German");
        assert_eq!(mixed([0, 0, 3]).to_string(), "Chinese");
        assert_eq!(mixed([0, 0, 0]), Languages::ENGLISH);
        let names =
            "steel dart soft dart red kite durable nylon sail blue kite light sail ".repeat(4);
        assert_eq!(detect([names].into_iter()), Languages::ENGLISH, "names are not prose");
    }

    #[test]
    fn the_first_nodes_are_spread_over_all() {
        let mut first: Vec<NodeId> = (0..10).map(|at| spread(at, 100, 1_000)).collect();
        first.sort_unstable();
        assert!(first.windows(2).all(|pair| pair[1] - pair[0] >= 40), "{first:?}");
        let mut all: Vec<NodeId> = (0..100).map(|at| spread(at, 100, 1_000)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 100);
        assert_eq!(spread(0, 1, 1), 0);
    }
}
