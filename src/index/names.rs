//! Entity linking: given words, the nodes they name.
//!
//! Every node is known by its name, by aliases (fields such as synonyms), by identifiers (fields of
//! one word that hardly repeat) and by the initials of its name. A query names a node exactly (all
//! words of a name in order), in part (some words of it, weighted by rarity), or with a slip of the
//! pen (one edit in a word of five letters or more).
//!
//! | array | content |
//! | --- | --- |
//! | `entry_node`, `entry_flags` | one entry per way a node is named, ascending by node |
//! | `entry_bounds`, `entry_stems` | stems of each entry, for the share of a name that is covered |
//! | `stem_bounds`, `stem_entries` | the inverse, for finding entries by their rare stems |
//! | `exact_keys`, `exact_entries` | hash of an entry's words, ascending |
//! | `fuzzy_keys`, `fuzzy_stems` | hash of a stem less one letter, ascending (symmetric delete) |
//!
//! Must not know: documents, relations.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::Path,
    sync::OnceLock,
};

use safetensors::Dtype;

use crate::{
    index::{
        IndexError,
        arrays::{Array, Arrays, Strings},
    },
    kb::{Combine, FieldId, Kb, NodeId, Scores, TypeId, best},
    words::{Stems, is_question_word, is_stop_word, name_words},
};

/// Parts of field names that hold other names of a node.
const ALIAS_FIELDS: [&str; 11] = [
    "synonym",
    "alias",
    "other_name",
    "other name",
    "alternative",
    "designation",
    "full_name",
    "mesh_name",
    "abbreviation",
    "symbol",
    "brand_name",
];
/// Aliases of one node that are kept; later ones are dropped.
const MAX_ALIASES: usize = 64;
/// Words of a name that are looked up in order; longer names are found by their parts.
const MAX_EXACT_WORDS: usize = 32;
/// Words of a query that are linked; later ones are dropped.
const MAX_QUERY_WORDS: usize = 256;
/// Entries whose coverage is computed for one query; stems are taken rarest first until then.
const MAX_ENTRIES_TRIED: usize = 30_000;
/// Numbers of entries whose idf is kept: most stems are rarer.
const KEPT_IDFS: usize = 4_096;
/// Letters a word must have to be matched with one edit.
const MIN_FUZZY_LETTERS: usize = 5;
/// Words of a name whose initials are an entry.
const ACRONYM_WORDS: std::ops::RangeInclusive<usize> = 2..=6;
/// Share of nodes with the field that must have a value of their own for it to identify.
const MIN_DISTINCT_SHARE: f64 = 0.98;

/// The entry holds capitals or digits inside, as symbols do; case then matters.
const SYMBOL: u8 = 1;
/// The entry is made of initials.
const ACRONYM: u8 = 2;
/// The entry is an identifier.
const IDENTIFIER: u8 = 4;

/// Strength of a stem matched with one edit, relative to the same stem.
const FUZZY_STRENGTH: f32 = 0.8;
/// Strength of a symbol met in lower case, relative to its own case.
const WRONG_CASE_STRENGTH: f32 = 0.5;
/// Strength of initials, relative to a name.
const ACRONYM_STRENGTH: f32 = 0.6;
/// Idf mass at which an exact name reaches half of full strength.
const EXACT_HALF: f32 = 1.5;
/// Idf mass at which a name found in part reaches half of full strength.
const PART_HALF: f32 = 6.0;

/// The index of names.
pub struct NameIndex {
    entry_node: Array<u32>,
    entry_flags: Array<u8>,
    entry_bounds: Array<u64>,
    entry_stems: Array<u32>,
    stem_bounds: Array<u64>,
    stem_entries: Array<u32>,
    exact_keys: Array<u64>,
    exact_entries: Array<u32>,
    fuzzy_keys: Array<u64>,
    fuzzy_stems: Array<u32>,
    vocabulary: Strings,
    /// Idf by number of entries, for numbers below [`KEPT_IDFS`]; filled when first needed.
    idfs: OnceLock<Vec<f32>>,
}

/// Hash of words in order, the key of the exact table.
fn key<'a>(words: impl Iterator<Item = &'a str>) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for word in words {
        hasher.update(word.as_bytes()).update(b" ");
    }
    first_u64(&hasher)
}

fn first_u64(hasher: &blake3::Hasher) -> u64 {
    hasher.finalize().as_bytes().iter().take(8).fold(0, |key, &byte| (key << 8) | u64::from(byte))
}

/// Every form of a word with one letter left out.
fn deletions(word: &str) -> impl Iterator<Item = String> {
    word.char_indices().map(|(at, letter)| {
        let mut shorter = String::with_capacity(word.len());
        shorter.push_str(&word[..at]);
        shorter.push_str(&word[at + letter.len_utf8()..]);
        shorter
    })
}

fn is_symbol(name: &str) -> bool {
    name.chars().skip(1).any(|c| c.is_uppercase() || c.is_numeric())
}

/// Collects entries in node order.
#[derive(Default)]
struct Builder {
    stems: Stems,
    ids: HashMap<String, u32>,
    entry_node: Vec<u32>,
    entry_flags: Vec<u8>,
    entry_bounds: Vec<u64>,
    entry_stems: Vec<u32>,
    exact: Vec<(u64, u32)>,
}

impl Builder {
    fn add(&mut self, node: NodeId, name: &str, flags: u8) {
        let words: Vec<_> = name_words(name).map(|(_, word)| word).collect();
        if words.is_empty() {
            return;
        }
        let entry = self.entry_node.len() as u32;
        self.entry_node.push(node);
        self.entry_flags.push(flags | if is_symbol(name) { SYMBOL } else { 0 });
        self.entry_bounds.push(self.entry_stems.len() as u64);
        if words.len() <= MAX_EXACT_WORDS {
            self.exact.push((key(words.iter().map(AsRef::as_ref)), entry));
        }
        if flags == 0 {
            let stems: BTreeSet<u32> = words
                .iter()
                .filter(|word| !is_stop_word(word))
                .map(|word| {
                    let next = self.ids.len() as u32;
                    *self.ids.entry(self.stems.stem(word).into_owned()).or_insert(next)
                })
                .collect();
            self.entry_stems.extend(stems);
        }
        if flags == 0 && ACRONYM_WORDS.contains(&words.len()) {
            let initials: String = words.iter().filter_map(|word| word.chars().next()).collect();
            self.add(node, &initials, ACRONYM);
        }
    }

    fn write(mut self, path: &Path) -> Result<(), IndexError> {
        self.entry_bounds.push(self.entry_stems.len() as u64);
        let mut vocabulary: Vec<(String, u32)> = self.ids.into_iter().collect();
        vocabulary.sort_unstable();
        let mut renumbered = vec![0u32; vocabulary.len()];
        for (new, (_, old)) in vocabulary.iter().enumerate() {
            renumbered[*old as usize] = new as u32;
        }
        let mut postings: Vec<(u32, u32)> = Vec::with_capacity(self.entry_stems.len());
        for (entry, bounds) in self.entry_bounds.windows(2).enumerate() {
            let stems = &mut self.entry_stems[bounds[0] as usize..bounds[1] as usize];
            stems.iter_mut().for_each(|stem| *stem = renumbered[*stem as usize]);
            stems.sort_unstable();
            postings.extend(stems.iter().map(|&stem| (stem, entry as u32)));
        }
        postings.sort_unstable();
        let stem_bounds: Vec<u64> = (0..=vocabulary.len() as u32)
            .map(|stem| postings.partition_point(|posting| posting.0 < stem) as u64)
            .collect();
        let stem_entries: Vec<u32> = postings.into_iter().map(|posting| posting.1).collect();
        let mut fuzzy: Vec<(u64, u32)> = Vec::new();
        for (stem, (word, _)) in vocabulary.iter().enumerate() {
            if word.chars().nth(MIN_FUZZY_LETTERS - 1).is_some() {
                fuzzy.push((key([word.as_str()].into_iter()), stem as u32));
                fuzzy.extend(deletions(word).map(|w| (key([w.as_str()].into_iter()), stem as u32)));
            }
        }
        fuzzy.sort_unstable();
        fuzzy.dedup();
        self.exact.sort_unstable();
        let (exact_keys, exact_entries): (Vec<u64>, Vec<u32>) = self.exact.into_iter().unzip();
        let (fuzzy_keys, fuzzy_stems): (Vec<u64>, Vec<u32>) = fuzzy.into_iter().unzip();
        let (word_bounds, words) =
            Strings::layout(vocabulary.iter().map(|(word, _)| word.as_str()));
        let u64s = |name, numbers| (name, Dtype::U64, bytemuck::cast_slice::<u64, u8>(numbers));
        let u32s = |name, numbers| (name, Dtype::U32, bytemuck::cast_slice::<u32, u8>(numbers));
        Arrays::write(
            path,
            &[
                u64s("entry_bounds", &self.entry_bounds),
                u64s("stem_bounds", &stem_bounds),
                u64s("exact_keys", &exact_keys),
                u64s("fuzzy_keys", &fuzzy_keys),
                u64s("vocabulary_bounds", &word_bounds),
                u32s("entry_node", &self.entry_node),
                u32s("entry_stems", &self.entry_stems),
                u32s("stem_entries", &stem_entries),
                u32s("exact_entries", &exact_entries),
                u32s("fuzzy_stems", &fuzzy_stems),
                ("entry_flags", Dtype::U8, &self.entry_flags),
                ("vocabulary", Dtype::U8, &words),
            ],
        )
    }
}

/// Fields whose values are one word each and hardly repeat.
fn identifying_fields(kb: &Kb) -> HashSet<FieldId> {
    let mut values: HashMap<FieldId, (u64, HashSet<u64>)> = HashMap::new();
    for node in 0..kb.n_nodes() {
        for (field, text) in kb.fields(node) {
            let (n, distinct) = values.entry(field).or_default();
            *n += 1;
            if !text.is_empty() && !text.contains(char::is_whitespace) && text.len() <= 64 {
                distinct.insert(key([text].into_iter()));
            }
        }
    }
    let identifies =
        |n: u64, distinct: usize| n > 1 && distinct as f64 >= n as f64 * MIN_DISTINCT_SHARE;
    values
        .into_iter()
        .filter(|(_, (n, d))| identifies(*n, d.len()))
        .map(|(field, _)| field)
        .collect()
}

/// Builds the index of all names of a base and writes it.
///
/// # Errors
/// [`IndexError::Io`] names the path.
pub fn build(kb: &Kb, path: &Path) -> Result<(), IndexError> {
    let identifying = identifying_fields(kb);
    let is_alias = |field: FieldId| {
        let name = kb.field_names().get(usize::from(field.0)).map(|name| name.to_lowercase());
        name.is_some_and(|name| ALIAS_FIELDS.iter().any(|part| name.contains(part)))
    };
    let aliases: HashSet<FieldId> =
        (0..kb.field_names().len()).map(|f| FieldId(f as u16)).filter(|&f| is_alias(f)).collect();
    let mut builder = Builder::default();
    for node in 0..kb.n_nodes() {
        let name = kb.name(node);
        builder.add(node, name, 0);
        let mut seen = HashSet::from([name.to_owned()]);
        for (field, text) in kb.fields(node) {
            if aliases.contains(&field) {
                for alias in text.split("; ").take(MAX_ALIASES) {
                    if seen.insert(alias.to_owned()) {
                        builder.add(node, alias, 0);
                    }
                }
            } else if identifying.contains(&field) && seen.insert(text.to_owned()) {
                builder.add(node, text, IDENTIFIER);
            }
        }
    }
    builder.write(path)
}

/// A query's words, ready to be looked up.
struct Linked {
    words: Vec<(String, bool)>,
    /// Stems of the index that the query has, ascending, with their strength.
    stems: Vec<(u32, f32)>,
    /// The same stems as a set: most stems of an entry are not among them.
    has_stem: Bits,
}

impl Linked {
    /// The strength of a stem; zero if the query does not have it.
    fn strength(&self, stem: u32) -> f32 {
        if !self.has_stem.contains(stem) {
            return 0.0;
        }
        let at = self.stems.binary_search_by_key(&stem, |pair| pair.0);
        at.ok().and_then(|at| self.stems.get(at)).map_or(0.0, |pair| pair.1)
    }
}

/// A set of numbers below a bound, one bit each.
struct Bits(Vec<u64>);

impl Bits {
    /// The empty set of numbers below `bound`. O(bound / 64).
    fn new(bound: usize) -> Self {
        Self(vec![0; bound.div_ceil(64)])
    }

    /// Adds a number; whether it is new. What is out of bounds is not added.
    fn insert(&mut self, number: u32) -> bool {
        let Some(word) = self.0.get_mut(number as usize / 64) else { return false };
        let bit = 1 << (number % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// The numbers, ascending.
    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().zip((0u32..).step_by(64)).flat_map(|(&word, first)| {
            let next = |rest: &u64| Some(rest & rest.wrapping_sub(1)).filter(|&rest| rest != 0);
            std::iter::successors(Some(word).filter(|&word| word != 0), next)
                .map(move |rest| first + rest.trailing_zeros())
        })
    }
}

impl NameIndex {
    /// Maps an index; costs the same whatever its size.
    ///
    /// # Errors
    /// As [`Arrays::open`] and [`Arrays::get`].
    pub fn open(path: &Path) -> Result<Self, IndexError> {
        let arrays = Arrays::open(path)?;
        Ok(Self {
            entry_node: arrays.get("entry_node")?,
            entry_flags: arrays.get("entry_flags")?,
            entry_bounds: arrays.get("entry_bounds")?,
            entry_stems: arrays.get("entry_stems")?,
            stem_bounds: arrays.get("stem_bounds")?,
            stem_entries: arrays.get("stem_entries")?,
            exact_keys: arrays.get("exact_keys")?,
            exact_entries: arrays.get("exact_entries")?,
            fuzzy_keys: arrays.get("fuzzy_keys")?,
            fuzzy_stems: arrays.get("fuzzy_stems")?,
            vocabulary: Strings::new(arrays.get("vocabulary_bounds")?, arrays.get("vocabulary")?),
            idfs: OnceLock::new(),
        })
    }

    /// The nodes that a text names, with strength in `0..=1`: the `k` strongest of each type, of
    /// all types when `types` is empty. A full name in order is strongest; a name found in part
    /// counts by the share of its idf mass that is covered, squared.
    pub fn link(&self, kb: &Kb, text: &str, types: &[TypeId], k: usize) -> Scores {
        let linked = self.look_up(text);
        let node_of = |entry: u32| {
            let node = *self.entry_node.as_slice().get(entry as usize)?;
            (types.is_empty() || types.contains(&kb.node_type(node))).then_some(node)
        };
        let mut exact: Vec<(NodeId, f32)> = Vec::new();
        self.for_exact(&linked, |entry, strength| {
            exact.extend(node_of(entry).map(|node| (node, strength)));
        });
        let mut parts: Vec<(NodeId, f32)> = Vec::new();
        for entry in self.sharing(&linked).iter() {
            let Some(node) = node_of(entry) else { continue };
            let strength = self.strength_of_part(&linked, entry);
            // Entries ascend by node, so those of one node are side by side.
            match parts.last_mut() {
                Some((last, best)) if *last == node => *best = best.max(strength),
                _ => parts.push((node, strength)),
            }
        }
        let found = Scores::new(exact).combine(&Scores::new(parts), Combine::Max);
        let mut by_type: Vec<Vec<(NodeId, f32)>> = vec![Vec::new(); kb.types().len()];
        for &(node, strength) in found.as_slice() {
            if let Some(pairs) = by_type.get_mut(usize::from(kb.node_type(node).0)) {
                pairs.push((node, strength));
            }
        }
        Scores::new(by_type.into_iter().flat_map(|pairs| best(pairs, k)).collect())
    }

    /// The text without the words by which it names any of the nodes; words keep their order.
    pub fn without_names(&self, text: &str, nodes: &[NodeId]) -> String {
        let entries = self.entry_node.as_slice();
        let mut named: HashSet<&[u8]> = HashSet::new();
        for &node in nodes {
            let first = entries.partition_point(|&other| other < node);
            for entry in (first..entries.len()).take_while(|&entry| entries[entry] == node) {
                let stems = self.entry_stems.part(&self.entry_bounds, entry);
                named.extend(stems.iter().map(|&stem| self.vocabulary.get(stem as usize)));
            }
        }
        let stems = Stems::default();
        let mut kept = Vec::new();
        let mut dropped_to = None;
        for (range, word) in name_words(text) {
            let possessive = word == "s" && dropped_to.is_some_and(|end| end + 1 >= range.start);
            if possessive || named.contains(stems.stem(&word).as_bytes()) {
                dropped_to = Some(range.end);
            } else {
                kept.push(&text[range]);
            }
        }
        kept.join(" ")
    }

    fn idf(&self, stem: u32) -> f32 {
        let bounds = self.stem_bounds.as_slice();
        let bound = |at: usize| bounds.get(at).copied().unwrap_or(0);
        let df = bound(stem as usize + 1).saturating_sub(bound(stem as usize)) as usize;
        let n = self.entry_node.as_slice().len() as f32;
        let idf = |df: usize| (1.0 + n / (df as f32 + 1.0)).ln();
        let kept = self.idfs.get_or_init(|| (0..KEPT_IDFS).map(idf).collect());
        kept.get(df).copied().unwrap_or_else(|| idf(df))
    }

    fn look_up(&self, text: &str) -> Linked {
        let stems = Stems::default();
        let words: Vec<(String, bool)> = name_words(text)
            .take(MAX_QUERY_WORDS)
            .map(|(range, word)| (word.into_owned(), text[range].chars().any(char::is_uppercase)))
            .collect();
        let mut found: HashMap<u32, f32> = HashMap::new();
        for (word, _) in &words {
            if is_question_word(word) {
                continue;
            }
            let stem = stems.stem(word);
            match self.vocabulary.find(&stem) {
                Some(id) => {
                    found.insert(id as u32, 1.0);
                }
                None if stem.chars().nth(MIN_FUZZY_LETTERS - 1).is_some() => {
                    for id in self.near(&stem) {
                        found.entry(id).or_insert(FUZZY_STRENGTH);
                    }
                }
                None => {}
            }
        }
        let mut stems: Vec<(u32, f32)> = found.into_iter().collect();
        stems.sort_unstable_by_key(|pair| pair.0);
        let mut has_stem = Bits::new(self.vocabulary.len());
        for &(stem, _) in &stems {
            has_stem.insert(stem);
        }
        Linked { words, stems, has_stem }
    }

    /// Stems at one edit of a word: a letter more, less, other, or two swapped.
    fn near(&self, word: &str) -> Vec<u32> {
        let mut near = BTreeSet::new();
        for form in std::iter::once(word.to_owned()).chain(deletions(word)) {
            let wanted = key([form.as_str()].into_iter());
            let keys = self.fuzzy_keys.as_slice();
            let first = keys.partition_point(|&key| key < wanted);
            let same = keys.iter().skip(first).take_while(|&&key| key == wanted).count();
            let stems = self.fuzzy_stems.as_slice().get(first..first + same).unwrap_or(&[]);
            near.extend(stems.iter().copied().filter(|&stem| {
                std::str::from_utf8(self.vocabulary.get(stem as usize))
                    .is_ok_and(|other| strsim::osa_distance(word, other) <= 1)
            }));
        }
        near.into_iter().collect()
    }

    /// Every entry whose words stand in the query in order.
    fn for_exact(&self, linked: &Linked, mut keep: impl FnMut(u32, f32)) {
        let words = &linked.words;
        let stems = Stems::default();
        let mass_of = |word: &str| {
            let stem = (!is_stop_word(word)).then(|| self.vocabulary.find(&stems.stem(word)));
            stem.flatten().map_or(0.0, |stem| self.idf(stem as u32))
        };
        let masses: Vec<f32> = words.iter().map(|(word, _)| mass_of(word)).collect();
        let keys = self.exact_keys.as_slice();
        for start in 0..words.len() {
            let mut hasher = blake3::Hasher::new();
            let (mut mass, mut capital) = (0.0, false);
            for end in start..words.len().min(start + MAX_EXACT_WORDS) {
                let (word, has_capital) = &words[end];
                hasher.update(word.as_bytes()).update(b" ");
                mass += masses[end];
                capital |= has_capital;
                let one_word = start == end;
                if one_word && is_question_word(word) && !capital {
                    continue;
                }
                let wanted = first_u64(&hasher);
                let first = keys.partition_point(|&key| key < wanted);
                let same = keys.iter().skip(first).take_while(|&&key| key == wanted).count();
                for &entry in self.exact_entries.as_slice().get(first..first + same).unwrap_or(&[])
                {
                    let flags =
                        self.entry_flags.as_slice().get(entry as usize).copied().unwrap_or(0);
                    let strength = if flags & IDENTIFIER != 0 {
                        1.0
                    } else if flags & ACRONYM != 0 {
                        if !capital {
                            continue;
                        }
                        ACRONYM_STRENGTH / (same as f32).sqrt()
                    } else {
                        let full = mass.max(1.0) / (mass.max(1.0) + EXACT_HALF);
                        let wrong_case = one_word && flags & SYMBOL != 0 && !capital;
                        full * if wrong_case { WRONG_CASE_STRENGTH } else { 1.0 }
                    };
                    keep(entry, strength);
                }
            }
        }
    }

    /// Entries that share stems with the query, found by its rarest stems.
    fn sharing(&self, linked: &Linked) -> Bits {
        let entries_of = |stem: u32| self.stem_entries.part(&self.stem_bounds, stem as usize);
        let mut stems: Vec<(usize, u32)> =
            linked.stems.iter().map(|&(stem, _)| (entries_of(stem).len(), stem)).collect();
        stems.sort_unstable();
        let mut sharing = Bits::new(self.entry_node.as_slice().len());
        let mut n_sharing = 0;
        for (n, stem) in stems {
            if n_sharing + n > MAX_ENTRIES_TRIED {
                break;
            }
            n_sharing += entries_of(stem).iter().filter(|&&entry| sharing.insert(entry)).count();
        }
        sharing
    }

    /// How strongly the query names an entry of which it has some stems.
    fn strength_of_part(&self, linked: &Linked, entry: u32) -> f32 {
        let (mut matched, mut total) = (0.0, 0.0);
        for &stem in self.entry_stems.part(&self.entry_bounds, entry as usize) {
            let idf = self.idf(stem);
            total += idf;
            matched += idf * linked.strength(stem);
        }
        let covered = matched / f32::max(total, f32::MIN_POSITIVE);
        covered * covered * matched / (matched + PART_HALF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_hold_each_number_once_and_ascend() {
        let mut bits = Bits::new(130);
        let numbers = [129, 0, 64, 63, 128, 64, 0];
        let n_new = numbers.iter().filter(|&&number| bits.insert(number)).count();
        assert_eq!((n_new, bits.insert(192)), (5, false), "192 is out of bounds");
        assert_eq!(bits.iter().collect::<Vec<u32>>(), [0, 63, 64, 128, 129]);
        assert!(bits.contains(63) && !bits.contains(1) && !bits.contains(192));
    }
}
