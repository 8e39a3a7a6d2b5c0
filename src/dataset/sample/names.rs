//! Invents the names of nodes from word lists and syllables.
//!
//! A name depends only on the seed and on the type, index and facts of the node, so names are
//! recomputed instead of stored. Names of brands, colours, categories, fields of study and
//! institutions avoid the vocabulary of the documents.

use crate::sample::facts::NO_FACT;
use crate::sample::graph::World;
use crate::sample::random::{Spread, Stream};
use crate::sample::wording::{AMAZON, WORDS};
use crate::sample::{SampleKind, texts};

/// Name of a node, with its other names.
#[derive(Default)]
pub(super) struct Name {
    /// Name of the node in the base.
    pub(super) name: String,
    /// Other names, which a field of the node lists: aliases of a gene, brand names of a drug.
    pub(super) aliases: Vec<String>,
    /// Shorter form of the name, which questions use but no field lists.
    pub(super) short: Option<String>,
}

/// Returns an invented word of `n_syllables` syllables, in lower case.
fn word(stream: &mut Stream, n_syllables: usize) -> String {
    let mut text = String::new();
    for syllable in 0..n_syllables {
        text.push_str(stream.pick_text(&WORDS["onsets"]));
        let vowels = &WORDS["vowels"];
        text.push_str(stream.pick_text(if syllable == 0 { vowels } else { &vowels[..5] }));
        if syllable + 1 == n_syllables {
            text.push_str(stream.pick_text(&WORDS["codas"]));
        }
    }
    text
}

/// Returns the text with its first letter in upper case.
pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns an invented place name.
pub(super) fn place(stream: &mut Stream) -> String {
    let n_syllables = 2 + usize::from(stream.percent(25));
    let stem = capitalised(&word(stream, n_syllables));
    match stream.below(6) {
        0 => format!("{stem}burg"),
        1 => format!("{stem}ville"),
        2 => format!("Port {stem}"),
        _ => stem,
    }
}

/// Returns a text of `n` random decimal digits.
pub(super) fn digits(stream: &mut Stream, n: usize) -> String {
    (0..n).map(|_| char::from(b'0' + stream.below(10) as u8)).collect()
}

/// Returns an invented product code of ten characters, such as `B0Z4T7KQ2M`.
pub(super) fn product_code(stream: &mut Stream) -> String {
    let letters = b"ABCDEFGHJKLMNPQRSTUVWXYZ0123456789";
    let tail: String = (0..7).map(|_| char::from(letters[stream.below(letters.len())])).collect();
    format!("B0Z{tail}")
}

/// Returns the name of the node with this index within its type. The titles of products and papers
/// depend on `facts`.
pub(super) fn name(world: &World, node_type: &str, index: u32, facts: &[u8]) -> Name {
    let mut stream = Stream::new(world.seed, &["name ", node_type].concat(), u64::from(index));
    let stream = &mut stream;
    let plain = |name: String| Name { name, ..Name::default() };
    let parts = Parts { seed: world.seed, node_type, index };
    match (world.kind, node_type) {
        (SampleKind::Amazon, "product") => product(facts, stream),
        (SampleKind::Amazon, "brand") => brand(&parts, stream),
        (SampleKind::Amazon, "category") => plain(parts.join(["segments", "groups"])),
        (SampleKind::Amazon, _) => plain(parts.join(["shades", "colors"])),
        (SampleKind::Mag, "author") => author(stream),
        (SampleKind::Mag, "institution") => institution(stream),
        (SampleKind::Mag, "field_of_study") => {
            plain(parts.join(["field_first", "field_second", "field_third"]))
        }
        (SampleKind::Mag, _) => plain(texts::title(facts, stream)),
        (SampleKind::Prime, _) => biomedical(node_type, &parts, stream),
    }
}

/// Chooses one word from each of several lists by the index of a node. Two nodes of a type get the
/// same words only after all combinations have been used, because the terms of catalogues and
/// ontologies are distinct.
struct Parts<'a> {
    seed: u64,
    node_type: &'a str,
    index: u32,
}

impl Parts<'_> {
    fn choose<const N: usize>(&self, lists: [&str; N]) -> [&'static str; N] {
        let lists = lists.map(|list| &WORDS[list]);
        let total: usize = lists.iter().map(|list| list.len()).product();
        let mut stream = Stream::new(self.seed, &["parts ", self.node_type].concat(), 0);
        let spread = Spread::new(total as u32, &mut stream);
        let mut rest = spread.index(self.index % total as u32) as usize;
        lists.map(|list| {
            let word = list[rest % list.len()].as_str();
            rest /= list.len();
            word
        })
    }

    fn join<const N: usize>(&self, lists: [&str; N]) -> String {
        join(&self.choose(lists))
    }
}

/// Joins the non-empty words with spaces.
fn join(words: &[&str]) -> String {
    let words: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn product(facts: &[u8], stream: &mut Stream) -> Name {
    let kind = facts.get(texts::KIND).copied().unwrap_or(NO_FACT);
    let thing = AMAZON.aspects("product")[texts::KIND].say(&["{}"], kind, stream);
    let thing: Vec<String> = thing.split(' ').map(capitalised).collect();
    let core = format!("{} {}", stream.pick_text(&WORDS["series"]), thing.join(" "));
    let edition = capitalised(&word(stream, 2));
    let variant = match stream.below(6) {
        0 => format!("{edition} {} Pack", 2 + stream.below(5)),
        1 => format!("{edition} Mark {}", stream.pick(&["II", "III", "IV", "V"])),
        2 => {
            let letters = capitalised(stream.pick_text(&WORDS["onsets"]));
            format!("Model {letters}{}", 1 + stream.below(2_000))
        }
        3 => format!("{edition} Edition"),
        4 => format!("{edition} Size {}", stream.pick(&["S", "M", "L", "XL"])),
        _ => format!("{} Series", 1 + stream.below(9_000)),
    };
    let short = stream.percent(50).then(|| core.clone());
    Name { name: format!("{core}, {variant}"), short, ..Name::default() }
}

/// Every fifth brand below this index has a name of two common words; there are 1,536 such names.
const COMMON_WORD_BRANDS: u32 = 7_680;

fn brand(parts: &Parts<'_>, stream: &mut Stream) -> Name {
    if parts.index < COMMON_WORD_BRANDS && parts.index.is_multiple_of(5) {
        let pair = Parts { index: parts.index / 5, ..*parts };
        let name = pair.join(["brand_first", "brand_second"]);
        return Name { name, ..Name::default() };
    }
    let first = stream.pick_text(&WORDS["brand_first"]);
    let second = stream.pick_text(&WORDS["brand_second"]);
    let invented = capitalised(&word(stream, 2));
    let (name, short) = match 2 + stream.below(8) {
        2..=3 => (format!("{first} {invented}"), None),
        4..=5 => (format!("{invented} {second}"), Some(invented)),
        6 => (format!("{invented} & {}", capitalised(&word(stream, 2))), None),
        7 => (format!("The {first} {invented} {second}"), Some(format!("{first} {invented}"))),
        _ => (capitalised(&word(stream, 3)), None),
    };
    Name { name, short, ..Name::default() }
}

fn surname(stream: &mut Stream) -> String {
    // Few popular surnames and many rare ones, so that names are ambiguous as in real catalogues.
    let mut own = Stream::new(0, "surname", stream.skewed(60_000) as u64);
    let n_syllables = 2 + usize::from(own.percent(30));
    let stem = capitalised(&word(&mut own, n_syllables));
    let ending = own.pick(&["", "", "", "sen", "ov", "ez", "ini", "ski", "man"]);
    format!("{stem}{ending}")
}

fn author(stream: &mut Stream) -> Name {
    let given = stream.pick_text(&WORDS["given"]);
    let initial = char::from(b'A' + stream.below(26) as u8);
    let surname = surname(stream);
    let letter = given.chars().next().unwrap_or('A');
    let (name, short) = match stream.below(10) {
        0 => (format!("{letter}. {surname}"), None),
        1..=6 => {
            let short = format!("{letter}. {initial}. {surname}");
            (format!("{given} {initial}. {surname}"), Some(short))
        }
        _ => (format!("{given} {surname}"), Some(format!("{letter}. {surname}"))),
    };
    Name { name, short, ..Name::default() }
}

fn institution(stream: &mut Stream) -> Name {
    let place = place(stream);
    let (name, short) = match stream.below(8) {
        0..=2 => (format!("University of {place}"), Some(format!("Univ. of {place}"))),
        3 => (format!("{place} Institute of Technology"), Some(format!("{place} Tech"))),
        4 => (format!("{place} State University"), Some(format!("{place} State"))),
        5 => (format!("{} Laboratories", surname(stream)), None),
        6 => (format!("{place} Polytechnic"), None),
        _ => (format!("{place} University Hospital"), Some(format!("{place} Univ. Hospital"))),
    };
    Name { name, short, ..Name::default() }
}

fn gene_symbol(stream: &mut Stream) -> String {
    let letters = b"ABCDEFGHIKLMNPRSTVWXYZ";
    let n_letters = 3 + stream.below(2);
    let mut symbol: String =
        (0..n_letters).map(|_| char::from(letters[stream.below(letters.len())])).collect();
    if stream.percent(80) {
        symbol.push_str(&(1 + stream.skewed(30)).to_string());
    }
    symbol
}

fn biomedical(node_type: &str, parts: &Parts<'_>, stream: &mut Stream) -> Name {
    let mut aliases = Vec::new();
    let organ = stream.pick_text(&WORDS["organs"]);
    let substance = stream.pick_text(&WORDS["substances"]);
    let name = match node_type {
        "disease" => match stream.below(5) {
            0 => format!("{} syndrome", surname(stream)),
            1 => format!("{}-{} disease", surname(stream), surname(stream)),
            2 => {
                let disease = stream.pick_text(&WORDS["disease_last"]);
                format!("{organ} {disease}, type {}", 1 + stream.below(40))
            }
            _ => parts.join(["disease_first", "organs", "disease_last"]),
        },
        "gene/protein" => {
            let name = gene_symbol(stream);
            let n_aliases = 1 + stream.below(3);
            aliases.extend((0..n_aliases).map(|_| gene_symbol(stream)));
            name
        }
        "drug" => {
            let stem = word(stream, 2);
            let linking = if stem.ends_with(['a', 'e', 'i', 'o', 'u']) { "" } else { "i" };
            for _ in 0..1 + stream.below(2) {
                let n_syllables = 2 + usize::from(stream.percent(60));
                aliases.push(capitalised(&word(stream, n_syllables)));
            }
            capitalised(&format!("{stem}{linking}{}", stream.pick_text(&WORDS["drug_last"])))
        }
        "molecular_function" => {
            let [substance, activity, donor] =
                parts.choose(["substances", "activities", "substances"]);
            if substance == donor {
                format!("{substance} {activity} activity")
            } else {
                format!("{donor}-dependent {substance} {activity} activity")
            }
        }
        "pathway" => {
            let first = stream.pick_text(&WORDS["pathway_first"]);
            match stream.below(3) {
                0 => format!("{first} {substance} and {}", stream.pick_text(&WORDS["substances"])),
                1 => format!("{first} {substance} by {}", gene_symbol(stream)),
                _ => format!("{first} {}", gene_symbol(stream)),
            }
        }
        "anatomy" => {
            let [region, tissue, organ] = parts.choose(["regions", "tissues", "organs"]);
            match tissue {
                "" => join(&[region, organ]),
                _ => join(&[region, tissue, "of", organ]),
            }
        }
        "effect/phenotype" => capitalised(&parts.join(["effect_first", "organs", "effects"])),
        "biological_process" => {
            parts.join(["process_first", "contexts", "substances", "process_last"])
        }
        "cellular_component" => parts.join(["regions", "substances", "components"]),
        _ => parts.join(["chemicals", "chemical_last", "chemical_setting"]),
    };
    Name { name, aliases, short: None }
}
