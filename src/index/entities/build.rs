//! Builds the entity index: one entry for each name, alias, identifier and acronym of a node.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::Path,
};

use rustc_hash::FxHashMap;

use crate::{
    IndexError, Result,
    arrays::{Arrays, Strings, named},
    entities::{
        ACRONYM, GoOn, IDENTIFIER, MAX_EXACT_WORDS, MIN_FUZZY_LETTERS, SYMBOL,
        forms::{
            Key, NameWord, deletions, is_unspaced_word, key, name_words, stem_of, stem_pieces,
            then_stems,
        },
    },
};
use agent_ground::words::{Languages, Stems, spelled_out};
use agent_kb::{FieldId, Kb, NodeId, distinct};

/// A field holds aliases of a node if the field's name in lower case contains one of these strings.
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
/// Legal forms at the end of company names, without dots; people usually omit them.
const LEGAL_FORMS: &str = "\
    ag gmbh mbh kg kgaa ohg gbr ug ev se bv nv ltd limited llc llp lp plc inc incorporated corp \
    corporation co company sa sas sarl srl spa ab as asa oy oyj aps pty pte sl lda";
/// Maximum number of aliases in one field of a node; later ones are ignored.
const MAX_ALIASES: usize = 64;
/// A name whose number of words is in this range gets an additional entry for its initials.
const ACRONYM_WORDS: std::ops::RangeInclusive<usize> = 2..=6;
/// Minimum share, in `0..=1`, of a field's values that must be distinct single words for the field
/// to identify nodes.
const MIN_DISTINCT_SHARE: f64 = 0.98;

fn is_symbol(name: &str) -> bool {
    name.chars().skip(1).any(|c| c.is_uppercase() || c.is_numeric())
}

/// Minimum number of digits of a number that identifies a node; shorter numbers are ranks, years
/// and amounts.
const MIN_IDENTIFYING_DIGITS: usize = 5;

/// Maximum number of nodes of a type whose names are shortened to one word.
const MAX_SHORTENED: usize = 1_000;
/// Number of words of a name that is shortened to one of them.
const SHORTENED_WORDS: std::ops::RangeInclusive<usize> = 2..=5;
/// Minimum number of letters of a word that stands for a whole name.
const MIN_SHORT_LETTERS: usize = 5;
/// Maximum number of nodes whose texts are searched for a word in small letters.
const READ_FOR_SMALL: u32 = 20_000;

/// Whether a text is a number too short to be an identifier: fewer than [`MIN_IDENTIFYING_DIGITS`]
/// digits, possibly with signs and separators, and nothing else.
fn is_small_number(text: &str) -> bool {
    let is_part = |c: char| c.is_numeric() || matches!(c, '.' | ',' | '+' | '-');
    text.chars().all(is_part)
        && text.chars().filter(|c| c.is_numeric()).count() < MIN_IDENTIFYING_DIGITS
}

/// Builds the entity index; takes entries in node order.
#[derive(Default)]
struct Builder {
    stems: Stems,
    ids: FxHashMap<String, u32>,
    /// Id of the stem of each word so far; `None` for a stop word.
    words: FxHashMap<String, Option<u32>>,
    entry_node: Vec<u32>,
    entry_flags: Vec<u8>,
    entry_words: Vec<u8>,
    entry_bounds: Vec<u64>,
    entry_stems: Vec<u32>,
    exact: Vec<(u64, u32)>,
}

impl Builder {
    fn add(&mut self, node: NodeId, name: &str, flags: u8) {
        let words = name_words(&self.stems, name);
        if words.is_empty() {
            return;
        }
        let entry = self.entry_node.len() as u32;
        self.entry_node.push(node);
        self.entry_flags.push(flags | if is_symbol(name) { SYMBOL } else { 0 });
        self.entry_words.push(words.len().min(usize::from(u8::MAX)) as u8);
        self.entry_bounds.push(self.entry_stems.len() as u64);
        if words.len() <= MAX_EXACT_WORDS {
            let whole = words.iter().fold(Key::of_words(), |key, word| key.then(&word.folded));
            self.exact.push((whole.number(), entry));
        }
        if flags != 0 {
            return;
        }
        if words.len() <= MAX_EXACT_WORDS {
            let then = |key, (at, word): (usize, &NameWord<'_>)| {
                then_stems(key, &stem_pieces(&self.stems, &name[word.range.clone()]), at > 0)
            };
            let whole = words.iter().enumerate().fold(Key::of_stems(), then);
            self.exact.push((whole.number(), entry));
        }
        let forms = words.iter().filter_map(|word| word.form.as_deref());
        let stems: BTreeSet<u32> = forms.filter_map(|form| self.stem(form)).collect();
        self.entry_stems.extend(stems);
        let is_cut = self.stems.languages().are_cut();
        let has_initials = !is_cut || !words.iter().any(|word| is_unspaced_word(&word.folded));
        if has_initials && ACRONYM_WORDS.contains(&words.len()) {
            let initials: String =
                words.iter().filter_map(|word| word.folded.chars().next()).collect();
            self.add(node, &initials, ACRONYM);
        }
    }

    /// Returns the id of the stem of a word; gives a new stem the next id. `None` for a stop word.
    fn stem(&mut self, word: &str) -> Option<u32> {
        if let Some(&id) = self.words.get(word) {
            return id;
        }
        let next = self.ids.len() as u32;
        let id = (!self.stems.languages().is_stop_word(word))
            .then(|| *self.ids.entry(stem_of(&self.stems, word).into_owned()).or_insert(next));
        self.words.insert(word.to_owned(), id);
        id
    }

    fn write(mut self, path: &Path, go_on: GoOn<'_, IndexError>) -> Result<()> {
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
        let words = self.words.into_iter();
        let mut words: Vec<(String, u32)> =
            words.filter_map(|(word, stem)| Some((word, renumbered[stem? as usize]))).collect();
        words.sort_unstable();
        let word_stems: Vec<u32> = words.iter().map(|pair| pair.1).collect();
        let mut fuzzy: Vec<(u64, u32)> = Vec::new();
        for (at, (word, _)) in words.iter().enumerate() {
            go_on()?;
            if word.chars().nth(MIN_FUZZY_LETTERS - 1).is_some() {
                fuzzy.push((key(word), at as u32));
                fuzzy.extend(deletions(word).map(|shorter| (key(&shorter), at as u32)));
            }
        }
        go_on()?;
        let fuzzy = distinct(fuzzy);
        go_on()?;
        self.exact.sort_unstable();
        let (exact_keys, exact_entries): (Vec<u64>, Vec<u32>) = self.exact.into_iter().unzip();
        let (fuzzy_keys, fuzzy_words): (Vec<u64>, Vec<u32>) = fuzzy.into_iter().unzip();
        let strings = |pairs: &[(String, u32)]| Strings::layout(pairs.iter().map(|pair| &*pair.0));
        let (stem_text_bounds, stem_text) = strings(&vocabulary);
        let (word_text_bounds, word_text) = strings(&words);
        Arrays::write(
            path,
            &[
                named("entry_bounds", &self.entry_bounds),
                named("stem_bounds", &stem_bounds),
                named("exact_keys", &exact_keys),
                named("fuzzy_keys", &fuzzy_keys),
                named("vocabulary_bounds", &stem_text_bounds),
                named("words_bounds", &word_text_bounds),
                named("entry_node", &self.entry_node),
                named("entry_stems", &self.entry_stems),
                named("stem_entries", &stem_entries),
                named("exact_entries", &exact_entries),
                named("fuzzy_words", &fuzzy_words),
                named("word_stems", &word_stems),
                named("entry_flags", &self.entry_flags),
                named("entry_words", &self.entry_words),
                named("vocabulary", &stem_text),
                named("words", &word_text),
            ],
        )
    }
}

/// Returns the name of a company without its legal form: "Brenner Bank" for "Brenner Bank B.V." and
/// for "Brenner Bank GmbH & Co. KG". `None` if the name does not end with a legal form. The first
/// word always stays.
fn without_legal_form(name: &str) -> Option<&str> {
    let is_form = |word: &str| {
        let word: String = word.chars().filter(|c| c.is_alphanumeric() || *c == '/').collect();
        word.is_empty() || LEGAL_FORMS.split(' ').any(|form| form == word.to_lowercase())
    };
    let mut rest = name;
    while let Some((before, last)) = rest.rsplit_once(' ')
        && is_form(last)
    {
        rest = before.trim_end_matches([' ', ',']);
    }
    (rest.len() < name.len() && !rest.is_empty()).then_some(rest)
}

/// Returns "Moira Okafor" for the name "Okafor, Moira"; `None` for names without one comma between
/// a few words.
fn turned(name: &str) -> Option<String> {
    let (last, first) = name.split_once(", ")?;
    let is_name = |part: &str| {
        part.split(' ').count() <= 2
            && part.starts_with(char::is_uppercase)
            && part.chars().all(|c| c.is_alphabetic() || " -'.\u{2019}".contains(c))
    };
    (is_name(last) && is_name(first)).then(|| format!("{first} {last}"))
}

/// Finds words that people use for a whole name, "Kelbrook" for "Kelbrook Community Hospital": by
/// node, the first capitalised word of its name that no other name has and that stands in no text
/// in small letters. Only types of at most [`MAX_SHORTENED`] nodes have such words.
fn short_names(kb: &Kb, go_on: GoOn<'_, IndexError>) -> Result<HashMap<NodeId, String>> {
    let parts = |text: &'_ str| -> Vec<String> {
        let is_inside = |c: char| c.is_alphanumeric() || c == '\'' || c == '\u{2019}';
        text.split(move |c| !is_inside(c)).map(str::to_owned).collect()
    };
    let mut nodes_with: HashMap<String, u32> = HashMap::new();
    let mut may_be_short: Vec<(NodeId, Vec<String>)> = Vec::new();
    let is_small = |node: NodeId| kb.nodes_of_type(kb.node_type(node)).len() <= MAX_SHORTENED;
    for node in 0..kb.n_nodes() {
        go_on()?;
        let words = parts(kb.name(node));
        for word in words.iter().map(|word| word.to_lowercase()).collect::<BTreeSet<_>>() {
            *nodes_with.entry(word).or_default() += 1;
        }
        if kb.has_keys() && is_small(node) && SHORTENED_WORDS.contains(&words.len()) {
            may_be_short.push((node, words));
        }
    }
    let is_proper = |word: &&String| {
        let letters = word.chars().filter(|c| c.is_alphabetic()).count();
        letters >= MIN_SHORT_LETTERS
            && letters + 1 >= word.chars().count()
            && word.starts_with(char::is_uppercase)
            && word.chars().skip(1).all(|c| !c.is_uppercase())
            && nodes_with.get(&word.to_lowercase()) == Some(&1)
    };
    let short =
        |(node, words): (NodeId, Vec<String>)| Some((node, words.iter().find(is_proper)?.clone()));
    let mut short: HashMap<NodeId, String> = may_be_short.into_iter().filter_map(short).collect();
    let mut small: HashSet<String> = short.values().map(|word| word.to_lowercase()).collect();
    for node in 0..kb.n_nodes().min(READ_FOR_SMALL) {
        go_on()?;
        if small.is_empty() {
            break;
        }
        let words = parts(kb.text(node));
        let common = words.iter().filter(|word| small.contains(*word)).cloned();
        for word in common.collect::<Vec<_>>() {
            small.remove(&word);
        }
    }
    short.retain(|_, word| small.contains(&word.to_lowercase()));
    Ok(short)
}

/// Whether a text has both letters and digits, as many ids do.
fn has_letters_and_digits(text: &str) -> bool {
    text.contains(char::is_alphabetic) && text.contains(char::is_numeric)
}

/// Finds the identifying fields: almost all of their values are distinct single words of at most 64
/// bytes.
fn identifying_fields(kb: &Kb, go_on: GoOn<'_, IndexError>) -> Result<HashSet<FieldId>> {
    let mut values: HashMap<FieldId, (u64, HashSet<u64>)> = HashMap::new();
    for node in 0..kb.n_nodes() {
        go_on()?;
        for (field, text) in kb.fields(node) {
            let (n, distinct) = values.entry(field).or_default();
            *n += 1;
            if !text.is_empty() && !text.contains(char::is_whitespace) && text.len() <= 64 {
                distinct.insert(key(text));
            }
        }
    }
    let identifies =
        |n: u64, distinct: usize| n > 1 && distinct as f64 >= n as f64 * MIN_DISTINCT_SHARE;
    let identifying = values.into_iter().filter(|(_, (n, d))| identifies(*n, d.len()));
    Ok(identifying.map(|(field, _)| field).collect())
}

/// Builds the entity index of all names of a base, analysed in these languages, and writes it to
/// the file `path`. Calls `go_on` for each node and word, so that the caller can stop.
///
/// # Errors
/// [`crate::IndexError::Io`] if the file cannot be written; the error of `go_on`.
pub fn build(
    kb: &Kb,
    languages: Languages,
    path: &Path,
    go_on: GoOn<'_, IndexError>,
) -> Result<()> {
    let identifying = identifying_fields(kb, go_on)?;
    let is_alias = |field: FieldId| {
        let name = kb.field_names().get(usize::from(field.0)).map(|name| name.to_lowercase());
        name.is_some_and(|name| ALIAS_FIELDS.iter().any(|part| name.contains(part)))
    };
    let aliases: HashSet<FieldId> =
        (0..kb.field_names().len()).map(|f| FieldId(f as u16)).filter(|&f| is_alias(f)).collect();
    let short = short_names(kb, go_on)?;
    let mut builder = Builder { stems: Stems::new(languages), ..Builder::default() };
    for node in 0..kb.n_nodes() {
        go_on()?;
        let name = kb.name(node);
        let mut seen = HashSet::from([name.to_owned()]);
        let is_small = is_small_number(name) && name.chars().all(|c| c.is_ascii_digit());
        if kb.has_keys() && is_small && kb.key(node) == name {
            // "2016" is rather a year, "risk 3" a level: such a row is named with its type.
            let kind = kb.type_name(kb.node_type(node));
            for kind in BTreeSet::from([spelled_out(kind), kind.to_owned()]) {
                builder.add(node, &format!("{kind} {name}"), 0);
            }
        } else {
            builder.add(node, name, 0);
        }
        if kb.has_keys() {
            for other in without_legal_form(name).map(str::to_owned).into_iter().chain(turned(name))
            {
                builder.add(node, &other, 0);
                seen.insert(other);
            }
            if let Some(short) = short.get(&node) {
                builder.add(node, short, SYMBOL);
                seen.insert(short.clone());
            }
            let key = kb.key(node);
            if has_letters_and_digits(&key) && seen.insert(key.clone().into_owned()) {
                builder.add(node, &key, IDENTIFIER);
            }
        }
        for (field, text) in kb.fields(node) {
            if aliases.contains(&field) {
                for alias in text.split("; ").take(MAX_ALIASES) {
                    if seen.insert(alias.to_owned()) {
                        builder.add(node, alias, 0);
                    }
                }
            } else if identifying.contains(&field)
                && !is_small_number(text)
                && seen.insert(text.to_owned())
            {
                builder.add(node, text, IDENTIFIER);
            }
        }
    }
    builder.write(path, go_on)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IndexError, entities::EntityIndex};
    use agent_kb::KbWriter;

    #[test]
    fn small_numbers_identify_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = KbWriter::create(&dir.path().join("kb")).unwrap();
        for node in 0..400 {
            let fields =
                [("rank".to_owned(), node.to_string()), ("code".to_owned(), format!("B{node:04}"))];
            writer
                .push_node("game", &format!("game of {}", ["go", "gin"][node % 2]), "", &fields)
                .unwrap();
        }
        let number = [("code".to_owned(), "90210".to_owned())];
        writer.push_node("game", "last", "", &number).unwrap();
        writer.finish(&Default::default(), &mut |_, _| true).unwrap();
        let kb = Kb::open(&dir.path().join("kb")).unwrap();
        let path = dir.path().join("names");
        build(&kb, Languages::ENGLISH, &path, &mut || Ok(())).unwrap();
        let mut left = 400;
        let stopped = build(&kb, Languages::ENGLISH, &dir.path().join("stopped"), &mut || {
            left -= 1;
            if left > 0 { Ok(()) } else { Err(IndexError::Stopped) }
        });
        assert!(
            matches!(stopped, Err(IndexError::Stopped)),
            "the build checks for a stop at every node"
        );
        let names = EntityIndex::open(&path, Languages::ENGLISH).unwrap();
        let linked = |text: &str| {
            names.link(&kb, text, &[], 3).as_slice().iter().map(|pair| pair.0).collect::<Vec<_>>()
        };
        assert!(linked("Utopia 360").is_empty());
        assert!(linked("turning 60").is_empty());
        assert_eq!(linked("what is B0360 like"), [360]);
        assert_eq!(linked("what is 90210 like"), [400]);
        let small = ["7", "2015", "-12", "4.5", "12.99", "1,234", "٣٦٠"];
        assert!(small.iter().all(|text| is_small_number(text)));
        let large = ["12345", "1.2345", "B123", "3D", "x"];
        assert!(!large.iter().any(|text| is_small_number(text)));
    }

    #[test]
    fn people_shorten_and_turn_names() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = KbWriter::create(&dir.path().join("kb")).unwrap();
        for (key, kind, name) in [
            ("h1", "site", "Kelbrook Community Hospital"),
            ("h2", "site", "Electric Hospital"),
            ("t1", "tech", "Okafor, Moira"),
            ("t2", "tech", "Okafor, Ben"),
            ("2016", "step", "2016"),
            ("4.2.1", "release", "4.2.1"),
        ] {
            writer.push_keyed_node(key, kind, name, "It has electric beds.", &[]).unwrap();
        }
        writer.finish(&Default::default(), &mut |_, _| true).unwrap();
        let kb = Kb::open(&dir.path().join("kb")).unwrap();
        let path = dir.path().join("names");
        build(&kb, Languages::ENGLISH, &path, &mut || Ok(())).unwrap();
        let names = EntityIndex::open(&path, Languages::ENGLISH).unwrap();
        let exact = |text: &str| -> Vec<NodeId> {
            names.exact_mentions(text).into_iter().flat_map(|mention| mention.nodes).collect()
        };
        assert_eq!(exact("beds at Kelbrook"), [0]);
        assert_eq!(exact("tests by Moira Okafor"), [2]);
        assert_eq!(exact("late since step 2016"), [4]);
        assert_eq!(exact("fixed in 4.2.1"), [5]);
        // A word of texts, a surname of two people and a year name nobody.
        assert!(exact("Is it Electric, Okafor, in 2016 or at kelbrook").is_empty());
    }

    /// Creates a base with a node for each name, in the language `code`, and its entity index.
    fn named(dir: &Path, code: &str, names: &[&str]) -> (Kb, EntityIndex) {
        let mut writer = KbWriter::create(&dir.join("kb")).unwrap();
        for name in names {
            writer.push_node("thing", name, "", &[]).unwrap();
        }
        writer.finish(&Default::default(), &mut |_, _| true).unwrap();
        let kb = Kb::open(&dir.join("kb")).unwrap();
        let (path, languages) = (dir.join("names"), code.parse().unwrap());
        build(&kb, languages, &path, &mut || Ok(())).unwrap();
        (kb, EntityIndex::open(&path, languages).unwrap())
    }

    #[test]
    fn a_question_links_to_the_names_in_it_in_each_language() {
        for (code, names, questions) in [
            (
                "de",
                ["Kühlschrank", "Jürgen Groß", "Bürodrucker"],
                ["die Kuehlschränke im Keller", "Wer ist Juergen Gross?", "bei Buerodruckern"],
            ),
            (
                "es",
                ["lámpara de escritorio", "ratón inalámbrico", "Málaga"],
                ["las lámparas de escritorios", "los ratones inalámbricos", "en Malaga"],
            ),
            (
                "fr",
                ["imprimante à laser", "réfrigérateur", "Orléans"],
                ["des imprimantes à laser", "les refrigerateurs", "à Orleans"],
            ),
            (
                "ru",
                ["лазерный принтер", "тёплый пол", "холодильник"],
                ["для лазерных принтеров", "теплого пола", "в холодильниках"],
            ),
            (
                "zh",
                ["激光打印机", "会议室", "门禁卡"],
                ["请问激光打印机怎么换墨盒？", "昨天会议室停电了", "我的门禁卡丢失了"],
            ),
            (
                "ja",
                ["携帯電話", "無線マウス", "床暖房"],
                ["私の携帯電話の保証", "新しい無線マウスが動かない", "床暖房を止めたい"],
            ),
            (
                "ko",
                ["휴대 전화", "무선 마우스", "회의실"],
                ["휴대전화에서 소음이 나요", "새 무선마우스가 고장", "회의실에서 정전이"],
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let (kb, index) = named(dir.path(), code, &names);
            for (node, question) in (0..).zip(questions) {
                let linked = index.link(&kb, question, &[], 3).ranking();
                let strongest = linked.first().map(|pair| pair.0);
                assert_eq!(strongest, Some(node), "{code}: {question}: {linked:?}");
            }
        }
    }

    #[test]
    fn of_two_corrections_the_one_in_a_name_with_the_other_words_is_chosen() {
        let dir = tempfile::tempdir().unwrap();
        let (kb, index) = named(dir.path(), "en", &["sciatic nerve", "sialic acid", "sialic gel"]);
        assert_eq!(index.link(&kb, "siatic nerve", &[], 3).ranking()[0].0, 0);
        assert_eq!(index.link(&kb, "siatic acid", &[], 3).ranking()[0].0, 1);
        assert_eq!(index.without_names("acid that can't gel", &[1]), "that can't gel");
    }

    #[test]
    fn a_name_leaves_a_sentence_without_spaces_and_one_character_names_nothing_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let (kb, index) = named(dir.path(), "zh", &["打印机", "云"]);
        assert_eq!(index.without_names("请问打印机怎么了", &[0]), "请问 怎么了");
        assert_eq!(index.link(&kb, "多云的天气", &[], 3).as_slice(), []);
        assert_eq!(index.link(&kb, "云 是什么", &[], 3).as_slice()[0].0, 1);
    }

    /// A name of 100,000 characters without a space. If a copy without each of its letters were
    /// stored, the name would be stored 100,000 times.
    #[test]
    fn a_long_run_is_indexed_by_its_exact_form_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("names");
        let run = "a1".repeat(50_000);
        let mut builder = Builder::default();
        builder.add(0, &run, 0);
        builder.add(1, "steel bottle", 0);
        builder.write(&path, &mut || Ok(())).unwrap();
        let index = EntityIndex::open(&path, Languages::ENGLISH).unwrap();
        assert!(index.words.find(&run).is_some());
        let n_forms = index.fuzzy_keys.as_slice().len();
        assert!((10..20).contains(&n_forms), "{n_forms} forms");
    }
}
