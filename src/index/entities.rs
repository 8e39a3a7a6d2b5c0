//! Entity linking: finds the nodes that a text names.
//!
//! A node is found by its name, by aliases (fields such as synonyms), by identifiers (one-word
//! fields with almost no repeated values; numbers of fewer than five digits are excluded) and by
//! the initials of its name. In a base with keys, a node is also found by a key with letters and
//! digits, and by its name without the legal form of a company. A query names a node
//!
//! - exactly: all words of a name in order, regardless of word boundaries and inflection, so that
//!   "betacarotenes" matches "Beta-carotene" and "type 2" matches "Type II";
//! - in part: some words of a name; rare words count more;
//! - in a script without spaces, also inside a longer run of characters: each character is a word,
//!   and each pair of adjacent characters is a stem;
//! - with a typo: one edit in a word of at least five letters, found by symmetric delete. A query
//!   word that occurs in some name counts as a typo only if the query does not cover a name with
//!   that word.
//!
//! | array | content |
//! | --- | --- |
//! | `entry_node`, `entry_flags`, `entry_words` | an entry per name, by node; its number of words |
//! | `entry_bounds`, `entry_stems` | stems of each entry, to compute the covered share of a name |
//! | `stem_bounds`, `stem_entries` | entries of each stem, to find entries by their rare stems |
//! | `exact_keys`, `exact_entries` | hashes of an entry's words and of its stems, ascending |
//! | `words`, `word_stems` | every word of a name, ascending, with its stem |
//! | `vocabulary_bounds`, `vocabulary` | every stem, ascending |
//! | `fuzzy_keys`, `fuzzy_words` | hashes of a word and of its one-letter deletions, ascending |

mod build;
mod forms;
mod query;
mod spelled;

use std::{
    collections::{BTreeSet, VecDeque},
    convert::Infallible,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

pub use crate::entities::{build::build, spelled::ExactMention};
use crate::{
    Result,
    arrays::{Array, Arrays, Strings},
    entities::{
        forms::{Key, KeyPlaces, NameWord, is_unspaced_word, name_words},
        query::{QueryWords, TYPO_STRENGTH, Word},
    },
};
use agent_ground::{
    locks::locked,
    words::{Languages, Stems},
};
use agent_kb::{Bits, Combine, Kb, NodeId, Scores, TypeId, best, best_first};

/// Maximum number of words of a name for exact matching; a longer name is matched only in part.
const MAX_EXACT_WORDS: usize = 32;
/// Maximum number of entries whose covered share is computed for one query; entries of the rarest
/// stems come first.
const MAX_ENTRIES_TRIED: usize = 30_000;
/// A stem that occurs in more entries than this is not tried as the correction of a query word that
/// itself occurs in names.
const MAX_TYPO_ENTRIES: usize = 2_000;
/// Number of entries or nodes processed between two calls of `go_on`.
const ENTRIES_AT_ONCE: usize = 256;
/// Stems in fewer entries than this, which are most stems, have a precomputed inverse document
/// frequency.
const CACHED_IDFS: usize = 4_096;
/// Minimum number of letters of a word that may match with one edit. Also the minimum total number
/// of letters of words that match a name with other word boundaries.
const MIN_FUZZY_LETTERS: usize = 5;

/// Flag of an entry whose name has a capital or digit after its first character, as symbols do; the
/// case of its letters is then significant.
const SYMBOL: u8 = 1;
/// Flag of an entry that holds the initials of a name.
const ACRONYM: u8 = 2;
/// Flag of an entry that holds an identifier.
const IDENTIFIER: u8 = 4;

/// Strength of a symbol written without capitals, relative to one with a capital.
const WRONG_CASE_STRENGTH: f32 = 0.5;
/// Strength of the initials of a name, relative to an identifier.
const ACRONYM_STRENGTH: f32 = 0.6;
/// Strength of a name or stem that matches with other word boundaries, relative to equal
/// boundaries.
const PARTED_STRENGTH: f32 = 0.9;
/// Strength of a name that matches only by stems, relative to one that matches word for word.
const FORMS_STRENGTH: f32 = 0.9;
/// Strength of a stem matched as the correction of a query word that itself occurs in a name.
const KNOWN_TYPO_STRENGTH: f32 = 0.7;
/// If the query covers at least this share of a name's idf, the words of that name are not tried as
/// typos.
const EXPLAINED_SHARE: f32 = 0.75;
/// Sum of a name's idfs at which an exact match of the name has half of the full strength.
const EXACT_HALF: f32 = 1.5;
/// Sum of the matched idfs at which a partial match of a name has half of its full strength.
const PART_HALF: f32 = 6.0;

/// Number of strongest linked nodes of each type that are sorted in advance.
const ORDERED: usize = 64;

/// Maximum number of texts whose linked nodes are cached; with the two limits below, the cache
/// takes at most 26 MB.
const MAX_CACHED_TEXTS: usize = 32;
/// Maximum size in bytes of a text whose linked nodes are cached.
const MAX_CACHED_TEXT_BYTES: usize = 16 << 10;
/// Linked nodes of a text are cached only if there are at most this many.
const MAX_CACHED_NODES: usize = 100_000;

/// Index of the names, aliases, identifiers and acronyms of all nodes, for entity linking.
pub struct EntityIndex {
    entry_node: Array<u32>,
    entry_flags: Array<u8>,
    entry_words: Array<u8>,
    entry_bounds: Array<u64>,
    entry_stems: Array<u32>,
    stem_bounds: Array<u64>,
    stem_entries: Array<u32>,
    exact_keys: Array<u64>,
    exact_entries: Array<u32>,
    fuzzy_keys: Array<u64>,
    fuzzy_words: Array<u32>,
    word_stems: Array<u32>,
    vocabulary: Strings,
    words: Strings,
    stems: Stems,
    /// Inverse document frequencies by number of entries, for numbers below [`CACHED_IDFS`];
    /// computed at first use.
    idfs: OnceLock<Vec<f32>>,
    /// Sum of the idfs of each entry's stems, as the bits of an `f32`; 0 if not computed yet.
    masses: OnceLock<Box<[AtomicU32]>>,
    /// Nodes linked to recent texts, by the words of the text. Cached because the router, programs
    /// and the re-ranker link the same query.
    named: Mutex<VecDeque<(String, Arc<CachedMentions>)>>,
    /// Lookup table for `exact_keys`, computed at first use.
    exact_places: KeyPlaces,
    /// Lookup table for `fuzzy_keys`, computed at first use.
    fuzzy_places: KeyPlaces,
}

/// Callback that returns an error to stop, `Ok` to go on.
type GoOn<'a, E> = &'a mut dyn FnMut() -> Result<(), E>;

/// Cached linked nodes of a text; locked during the lookup, so that a text is looked up only once.
type CachedMentions = Mutex<Option<Arc<LinkedNodes>>>;

/// The nodes that a text names, by type.
struct LinkedNodes {
    n: usize,
    /// Nodes with their strengths, by type id; the [`ORDERED`] strongest nodes of a type come
    /// first, strongest first.
    of_type: Vec<Vec<(NodeId, f32)>>,
}

impl LinkedNodes {
    fn new(kb: &Kb, found: &Scores) -> Self {
        let mut of_type: Vec<Vec<(NodeId, f32)>> = vec![Vec::new(); kb.types().len()];
        for &(node, strength) in found.as_slice() {
            if let Some(pairs) = of_type.get_mut(usize::from(kb.node_type(node).0)) {
                pairs.push((node, strength));
            }
        }
        for pairs in &mut of_type {
            if pairs.len() > ORDERED {
                pairs.select_nth_unstable_by(ORDERED, best_first);
            }
            let n = pairs.len().min(ORDERED);
            pairs[..n].sort_unstable_by(best_first);
        }
        Self { n: found.len(), of_type }
    }

    /// Returns the `k` strongest nodes of the type with id `kind`, in any order.
    fn strongest(&self, kind: usize, k: usize) -> Vec<(NodeId, f32)> {
        let all = self.of_type.get(kind).map_or(&[][..], Vec::as_slice);
        match all.get(..k) {
            None => all.to_vec(),
            Some(first) if k <= ORDERED => first.to_vec(),
            Some(_) => best(all.to_vec(), k),
        }
    }
}

/// Consecutive words of a query, to compare with whole names.
#[derive(Default)]
struct Span {
    n_words: usize,
    n_letters: usize,
    /// Whether any of the words has a capital letter.
    capital: bool,
    /// Whether any of the words is a question word.
    asks: bool,
    /// Whether the first word occurs in no name.
    unknown: bool,
}

impl EntityIndex {
    /// Opens an index that was built for these languages; the file is mapped, not read. Constant
    /// time.
    ///
    /// # Errors
    /// As [`Arrays::open`] and [`Arrays::get`].
    pub fn open(path: &Path, languages: Languages) -> Result<Self> {
        let arrays = Arrays::open(path)?;
        Ok(Self {
            entry_node: arrays.get("entry_node")?,
            entry_flags: arrays.get("entry_flags")?,
            entry_words: arrays.get("entry_words")?,
            entry_bounds: arrays.get("entry_bounds")?,
            entry_stems: arrays.get("entry_stems")?,
            stem_bounds: arrays.get("stem_bounds")?,
            stem_entries: arrays.get("stem_entries")?,
            exact_keys: arrays.get("exact_keys")?,
            exact_entries: arrays.get("exact_entries")?,
            fuzzy_keys: arrays.get("fuzzy_keys")?,
            fuzzy_words: arrays.get("fuzzy_words")?,
            word_stems: arrays.get("word_stems")?,
            vocabulary: Strings::new(arrays.get("vocabulary_bounds")?, arrays.get("vocabulary")?),
            words: Strings::new(arrays.get("words_bounds")?, arrays.get("words")?),
            stems: Stems::new(languages),
            idfs: OnceLock::new(),
            masses: OnceLock::new(),
            named: Mutex::default(),
            exact_places: KeyPlaces::default(),
            fuzzy_places: KeyPlaces::default(),
        })
    }

    /// Links a text to nodes: returns the `k` most strongly linked nodes of each type in `types`
    /// (of every type if `types` is empty), with strengths in `0..=1`. A full name in order is
    /// strongest. The strength of a partial name grows with the share of its idf that the text
    /// covers.
    pub fn link(&self, kb: &Kb, text: &str, types: &[TypeId], k: usize) -> Scores {
        let Ok(found) = self.link_while(kb, text, types, k, &mut || Ok::<(), Infallible>(()));
        found
    }

    /// As [`link`](Self::link); calls `go_on` every few milliseconds, so that the caller can stop.
    ///
    /// # Errors
    /// The error of `go_on`.
    pub fn link_while<E>(
        &self,
        kb: &Kb,
        text: &str,
        types: &[TypeId],
        k: usize,
        go_on: GoOn<'_, E>,
    ) -> Result<Scores, E> {
        let found = self.named(kb, text, go_on)?;
        let of_type = |kind: usize| found.strongest(kind, k);
        let is_wanted = |kind: &usize| types.is_empty() || types.contains(&TypeId(*kind as u16));
        let kinds = (0..kb.types().len()).filter(is_wanted);
        Ok(Scores::new(kinds.flat_map(of_type).collect()))
    }

    /// Links a text to all nodes, of any type, with strengths; the results for recent texts are
    /// cached.
    fn named<E>(&self, kb: &Kb, text: &str, go_on: GoOn<'_, E>) -> Result<Arc<LinkedNodes>, E> {
        // The result depends on the words and on the marks within words, so the cache key consists
        // of both.
        let (mut words, mut end) = (String::new(), 0);
        for (range, _) in agent_ground::words::name_words(text) {
            let between = &text[end..range.start];
            words += if matches!(between, "" | "'" | "\u{2019}" | "-") { between } else { " " };
            words += &text[range.clone()];
            end = range.end;
        }
        if words.len() > MAX_CACHED_TEXT_BYTES {
            return Ok(Arc::new(LinkedNodes::new(kb, &self.link_uncached(&words, go_on)?)));
        }
        let slot = self.cache_slot(&words);
        let mut slot = locked(&slot);
        if let Some(known) = &*slot {
            return Ok(known.clone());
        }
        let found = Arc::new(LinkedNodes::new(kb, &self.link_uncached(&words, go_on)?));
        if found.n <= MAX_CACHED_NODES {
            *slot = Some(found.clone());
        }
        Ok(found)
    }

    /// Returns the cache entry for the words of a text; creates an empty one if there is none.
    fn cache_slot(&self, words: &str) -> Arc<CachedMentions> {
        let mut kept = locked(&self.named);
        if let Some((_, known)) = kept.iter().find(|(known, _)| known == words) {
            return known.clone();
        }
        if kept.len() >= MAX_CACHED_TEXTS {
            kept.pop_front();
        }
        let new = Arc::new(CachedMentions::default());
        kept.push_back((words.to_owned(), new.clone()));
        new
    }

    /// As [`named`](Self::named), without the cache.
    fn link_uncached<E>(&self, text: &str, go_on: GoOn<'_, E>) -> Result<Scores, E> {
        let linked = self.look_up(text, go_on)?;
        let node_of = |entry: u32| self.entry_node.as_slice().get(entry as usize).copied();
        let mut exact: Vec<(NodeId, f32)> = Vec::new();
        for (words, share) in [(&linked.words, 1.0), (&linked.corrected, TYPO_STRENGTH)] {
            self.for_exact(words, |entry, strength| {
                exact.extend(node_of(entry).map(|node| (node, strength * share)));
            });
        }
        go_on()?;
        let sharing = self.sharing(&linked);
        let mut explained = Bits::new(self.vocabulary.len());
        let mut parts: Vec<(NodeId, f32)> = Vec::new();
        for (at, entry) in sharing.iter().enumerate() {
            if at % ENTRIES_AT_ONCE == 0 {
                go_on()?;
            }
            let (covered, strength) = self.strength_of_part(&linked, entry, None);
            if covered >= EXPLAINED_SHARE {
                for &stem in self.stems_of(entry) {
                    explained.insert(stem);
                }
            }
            let Some(node) = node_of(entry) else { continue };
            // Entries ascend by node, so the entries of a node are adjacent.
            match parts.last_mut() {
                Some((last, best)) if *last == node => *best = best.max(strength),
                _ => parts.push((node, strength)),
            }
        }
        let mut typos: Vec<(NodeId, f32)> = Vec::new();
        self.for_known_typos(&linked, &sharing, &explained, go_on, |entry, strength| {
            typos.extend(node_of(entry).map(|node| (node, strength)));
        })?;
        Ok(Scores::new(exact)
            .combine(&Scores::new(parts), Combine::Max)
            .combine(&Scores::new(typos), Combine::Max))
    }

    /// Removes the words of a text that occur in the names of `nodes`, even with a typo or with
    /// other word boundaries. Returns the remaining words in order, separated by spaces; words
    /// without a separator between them, and the parts of a word such as "don't", stay together.
    pub fn without_names(&self, text: &str, nodes: &[NodeId]) -> String {
        let Ok(left) = self.without_names_while(text, nodes, &mut || Ok::<(), Infallible>(()));
        left
    }

    /// As [`without_names`](Self::without_names); calls `go_on` every few milliseconds, so that the
    /// caller can stop.
    ///
    /// # Errors
    /// The error of `go_on`.
    pub fn without_names_while<E>(
        &self,
        text: &str,
        nodes: &[NodeId],
        go_on: GoOn<'_, E>,
    ) -> Result<String, E> {
        let entries = self.entry_node.as_slice();
        let mut named: BTreeSet<u32> = BTreeSet::new();
        for (at, &node) in nodes.iter().enumerate() {
            if at % ENTRIES_AT_ONCE == 0 {
                go_on()?;
            }
            let first = entries.partition_point(|&other| other < node);
            for entry in (first..entries.len()).take_while(|&entry| entries[entry] == node) {
                named.extend(self.stems_of(entry as u32));
            }
        }
        let (mut kept, mut kept_to) = (String::new(), 0);
        let (mut dropped_to, mut named_to) = (None, None);
        for NameWord { range, folded, form } in name_words(&self.stems, text) {
            go_on()?;
            let possessive = folded == "s" && dropped_to.is_some_and(|end| end + 1 >= range.start);
            let is_named = form.as_ref().is_some_and(|form| self.names_any(form, &named));
            // If a pair of characters matched, both characters are removed.
            let ends_pair = is_unspaced_word(&folded) && named_to == Some(range.start);
            named_to = is_named.then_some(range.end);
            if possessive || is_named || ends_pair {
                dropped_to = Some(range.end);
                continue;
            }
            if !kept.is_empty() && range.start > kept_to {
                // The "t" of "don't" stays a part of its word.
                let between = &text[kept_to..range.start];
                kept.push_str(if matches!(between, "'" | "\u{2019}") { between } else { " " });
            }
            kept_to = range.end;
            kept.push_str(&text[range]);
        }
        Ok(kept)
    }

    /// Whether a word has one of the stems `named`, is a typo of a word with such a stem, or
    /// consists of two such words.
    fn names_any(&self, word: &str, named: &BTreeSet<u32>) -> bool {
        if named.is_empty() {
            return false;
        }
        match self.stem_id(word) {
            Some(stem) => named.contains(&stem),
            None if self.stems.languages().is_question_word(word) => false,
            None => {
                self.near(word).iter().any(|stem| named.contains(stem))
                    || self
                        .parted(word)
                        .iter()
                        .any(|(first, second)| named.contains(first) && named.contains(second))
            }
        }
    }

    fn stems_of(&self, entry: u32) -> &[u32] {
        self.entry_stems.part(&self.entry_bounds, entry as usize)
    }

    fn entries_of(&self, stem: u32) -> &[u32] {
        self.stem_entries.part(&self.stem_bounds, stem as usize)
    }

    fn idf(&self, stem: u32) -> f32 {
        let df = self.entries_of(stem).len();
        let n = self.entry_node.as_slice().len() as f32;
        let idf = |df: usize| (1.0 + n / (df as f32 + 1.0)).ln();
        let kept = self.idfs.get_or_init(|| (0..CACHED_IDFS).map(idf).collect());
        kept.get(df).copied().unwrap_or_else(|| idf(df))
    }

    /// Calls `keep` for every entry whose words or stems are consecutive words of the query, in
    /// order, with the strength of the match.
    fn for_exact(&self, query: &[Word], mut keep: impl FnMut(u32, f32)) {
        for (start, first) in query.iter().enumerate() {
            let (mut words, mut stems) = (Key::of_words(), Key::of_stems());
            let mut span = Span { unknown: first.stem.is_none(), ..Span::default() };
            for word in query.iter().skip(start).take(MAX_EXACT_WORDS) {
                words = words.then(&word.text);
                stems = word.then_stems(stems, span.n_words > 0);
                span.with(word);
                if span.n_words == 1 && (span.asks && !span.capital || first.is_inside) {
                    continue;
                }
                let exact = self.entries_with(words);
                let alone = span.n_words == 1 && span.asks;
                let forms: &[u32] = if alone { &[] } else { self.entries_with(stems) };
                for (entries, same, share) in
                    [(exact, exact.len(), 1.0), (forms, 1, FORMS_STRENGTH)]
                {
                    for &entry in entries {
                        let strength = self.strength_of_whole(&span, entry, same) * share;
                        if strength > 0.0 {
                            keep(entry, strength);
                        }
                    }
                }
            }
        }
    }

    /// Returns the entries whose words, or stems, have this hash.
    fn entries_with(&self, key: Key) -> &[u32] {
        let same = self.exact_places.find(self.exact_keys.as_slice(), key.number());
        self.exact_entries.as_slice().get(same).unwrap_or(&[])
    }

    /// Returns the strength with which a span of query words names an entry that has the same words
    /// or stems; 0 if the span does not name it. `same` is the number of entries with the same
    /// words or stems.
    fn strength_of_whole(&self, span: &Span, entry: u32, same: usize) -> f32 {
        let at = |array: &Array<u8>| array.as_slice().get(entry as usize).copied().unwrap_or(0);
        let (flags, n_words) = (at(&self.entry_flags), usize::from(at(&self.entry_words)));
        let parted = n_words != span.n_words;
        if parted && (span.asks || span.n_letters < MIN_FUZZY_LETTERS) {
            return 0.0;
        }
        let strength = if flags & IDENTIFIER != 0 {
            1.0
        } else if flags & ACRONYM != 0 {
            match span.capital {
                true => ACRONYM_STRENGTH / (same as f32).sqrt(),
                false if span.unknown && span.n_words == 1 => {
                    WRONG_CASE_STRENGTH * ACRONYM_STRENGTH / (same as f32).sqrt()
                }
                false => 0.0,
            }
        } else {
            let mass = self.mass(entry).max(1.0);
            let full = mass / (mass + EXACT_HALF);
            let wrong_case = span.n_words == 1 && flags & SYMBOL != 0 && !span.capital;
            full * if wrong_case { WRONG_CASE_STRENGTH } else { 1.0 }
        };
        strength * if parted { PARTED_STRENGTH } else { 1.0 }
    }

    /// Finds entries that share stems with the query, those of the rarest stems first, at most
    /// [`MAX_ENTRIES_TRIED`].
    fn sharing(&self, linked: &QueryWords) -> Bits {
        let mut stems: Vec<(usize, u32)> =
            linked.stems.iter().map(|&(stem, _)| (self.entries_of(stem).len(), stem)).collect();
        stems.sort_unstable();
        let mut sharing = Bits::new(self.entry_node.as_slice().len());
        let mut n_sharing = 0;
        for (n, stem) in stems {
            if n_sharing + n > MAX_ENTRIES_TRIED {
                break;
            }
            n_sharing += self.entries_of(stem).iter().filter(|&&e| sharing.insert(e)).count();
        }
        sharing
    }

    /// Returns the share of the idf of an entry's stems that the query covers, and the strength of
    /// the partial match. `more` is a pair (stem, strength) that counts as if it were in the query.
    fn strength_of_part(
        &self,
        linked: &QueryWords,
        entry: u32,
        more: Option<(u32, f32)>,
    ) -> (f32, f32) {
        let mut matched = 0.0;
        for &stem in self.stems_of(entry) {
            matched += match more {
                Some((other, strength)) if other == stem => self.idf(stem) * strength,
                _ => linked.weight(stem),
            };
        }
        let covered = matched / f32::max(self.mass(entry), f32::MIN_POSITIVE);
        (covered, covered * covered * matched / (matched + PART_HALF))
    }

    /// Returns the sum of the idfs of an entry's stems; cached.
    fn mass(&self, entry: u32) -> f32 {
        let sum = || self.stems_of(entry).iter().map(|&stem| self.idf(stem)).sum::<f32>();
        let n = self.entry_node.as_slice().len();
        let masses = self.masses.get_or_init(|| (0..n).map(|_| AtomicU32::new(0)).collect());
        let Some(kept) = masses.get(entry as usize) else { return sum() };
        match kept.load(Ordering::Relaxed) {
            0 => {
                let mass = sum();
                kept.store(mass.to_bits(), Ordering::Relaxed);
                mass
            }
            bits => f32::from_bits(bits),
        }
    }

    /// Tries words that occur in names as typos: calls `keep` for each entry that shares a stem
    /// with the query and contains the correction of a query word, with the strength of the match.
    /// A word is tried only if it occurs in no name that the query covers.
    fn for_known_typos<E>(
        &self,
        linked: &QueryWords,
        sharing: &Bits,
        explained: &Bits,
        go_on: GoOn<'_, E>,
        mut keep: impl FnMut(u32, f32),
    ) -> Result<(), E> {
        let may_typo = |word: &&Word| {
            let unexplained = word.stem.is_some_and(|stem| !explained.contains(stem));
            unexplained && !word.asks && word.text.chars().nth(MIN_FUZZY_LETTERS - 1).is_some()
        };
        for word in linked.words.iter().filter(may_typo) {
            for stem in self.near(&word.text) {
                go_on()?;
                let entries = self.entries_of(stem);
                if linked.strength(stem) > 0.0 || entries.len() > MAX_TYPO_ENTRIES {
                    continue;
                }
                for &entry in entries.iter().filter(|&&entry| sharing.contains(entry)) {
                    let more = Some((stem, KNOWN_TYPO_STRENGTH));
                    keep(entry, self.strength_of_part(linked, entry, more).1);
                }
            }
        }
        Ok(())
    }
}

impl Span {
    /// Extends the span by the next word of the query.
    fn with(&mut self, word: &Word) {
        self.n_words += 1;
        self.n_letters += word.text.chars().count();
        self.capital |= word.capital;
        self.asks |= word.asks;
    }
}
