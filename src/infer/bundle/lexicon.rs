//! Synonyms of types and relations, in addition to the words of their names: "medicine" for a type
//! `drug`, "for" and "helps against" for a relation `drug_treats_disease`. They are general English
//! words, and the words that a base gives under `said_as`.
//!
//! The table `lexicon.tsv` holds general English words, none of them specific to one base: a row
//! applies to every type or relation whose name has one of the row's words. Some words exclude a
//! relation: "for" before a disease does not ask for its causes. Others only suggest a relation:
//! "sold" may refer to a product's maker, but need not. A ranking may follow a suggestion; a plain
//! answer may not.

use std::sync::LazyLock;

use agent_ground::words::{Language, Stems, name_words, spelled_out};
use agent_index::IndexedBase;

const TABLE: &str = include_str!("lexicon.tsv");

/// A row of `lexicon.tsv`.
struct Row {
    kind: &'static str,
    names: Vec<&'static str>,
    means: &'static str,
    excludes: &'static str,
    reversed: &'static str,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let mut cells = line.split('\t');
        let [kind, names, means, excludes, reversed] =
            std::array::from_fn(|_| cells.next().unwrap_or_default());
        Row { kind, names: names.split(' ').collect(), means, excludes, reversed }
    };
    TABLE.lines().filter(|line| !line.starts_with('#')).map(row).collect()
});

/// Stems of words that mean, suggest or exclude one type or relation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synonyms {
    /// Stems that mean the type or relation.
    pub means: Vec<String>,
    /// The stems of `means`, and stems that may mean the type or relation but have other meanings
    /// too.
    pub suggests: Vec<String>,
    /// Stems that exclude the type or relation, unless another word means it.
    pub excludes: Vec<String>,
    /// Stems of `suggests` that state the relation from its other end, such as "contain" for
    /// `part_of`.
    pub reversed: Vec<String>,
    /// Whether the relation has no direction, such as `adjacent_to`.
    pub mutual: bool,
}

/// Returns the stems of a text, in order, stop words included.
pub(super) fn stemmed(stems: &Stems, text: &str) -> Vec<String> {
    name_words(text).map(|(_, word)| stems.stem(&word).into_owned()).collect()
}

/// Returns the synonyms of each type of a base, and of each relation, by id.
pub fn all_synonyms(base: &IndexedBase) -> [Vec<Synonyms>; 2] {
    let said_as = &base.kb.manifest().said_as;
    [("type", base.kb.types()), ("relation", base.kb.relations())].map(|(kind, names)| {
        let spelled: Vec<String> = names.iter().map(|name| spelled_out(name)).collect();
        let mut found = synonyms(&base.stems, kind, &spelled);
        for (name, found) in names.iter().zip(&mut found) {
            let words = said_as.get(name).into_iter().flatten();
            let own: Vec<String> = words.flat_map(|word| stemmed(&base.stems, word)).collect();
            found.suggests.extend_from_slice(&own);
            found.means.extend(own);
        }
        found
    })
}

/// Returns the general synonyms of each of `names`, in their order; `kind` is `type` or `relation`.
/// A type has no synonym that is the name of another type. All are empty in a base without English
/// texts.
fn synonyms(stems: &Stems, kind: &str, names: &[String]) -> Vec<Synonyms> {
    let mut found = vec![Synonyms::default(); names.len()];
    if !stems.languages().has(Language::ENGLISH) {
        return found;
    }
    let own: Vec<Vec<String>> = names.iter().map(|name| stemmed(stems, name)).collect();
    let is_mutual = |row: &Row| row.kind == "mutual" && kind == "relation";
    for row in ROWS.iter().filter(|row| row.kind == kind || is_mutual(row)) {
        let of_row: Vec<_> = row.names.iter().map(|name| stems.stem(name)).collect();
        for ((name, own), found) in names.iter().zip(&own).zip(&mut found) {
            let is_own = row.names.contains(&name.as_str())
                || own.iter().any(|stem| of_row.iter().any(|other| other == stem));
            if is_own {
                for cell in [row.means, row.reversed] {
                    let (means, may_mean) = cell.split_once('|').unwrap_or((cell, ""));
                    let means = stemmed(stems, means);
                    found.suggests.extend_from_slice(&means);
                    found.suggests.extend(stemmed(stems, may_mean));
                    found.means.extend(means);
                }
                found.excludes.extend(stemmed(stems, row.excludes));
                found.reversed.extend(stemmed(stems, row.reversed));
                found.mutual |= is_mutual(row);
            }
        }
    }
    if kind != "type" {
        return found;
    }
    // "product" is not a synonym of `article` if products are a type.
    for (at, found) in found.iter_mut().enumerate() {
        let is_other = |stem: &String| {
            let mut names = own.iter().enumerate();
            names.any(|(other, name)| other != at && *name == [stem.as_str()])
        };
        found.means.retain(|stem| !is_other(stem));
        found.suggests.retain(|stem| !is_other(stem));
    }
    found
}

/// Returns the stems of words that do not describe the answers, such as "usually".
pub(super) fn saying_nothing(stems: &Stems) -> Vec<String> {
    let rows = ROWS.iter().filter(|row| row.kind == "any");
    rows.flat_map(|row| stemmed(stems, row.means)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helps_against_a_disease_is_not_what_causes_it() {
        let names = ["drug_treats_disease".to_owned(), "drug_causes_side_effect".to_owned()];
        let [treats, causes] = synonyms(&Stems::default(), "relation", &names).try_into().unwrap();
        assert!(treats.means.contains(&"against".to_owned()));
        assert!(causes.excludes.contains(&"against".to_owned()));
        assert!(treats.excludes.contains(&"caus".to_owned()), "{treats:?}");
    }

    #[test]
    fn a_word_behind_the_bar_only_suggests() {
        let [brand] =
            synonyms(&Stems::default(), "relation", &["brand".to_owned()]).try_into().unwrap();
        let has = |of: &[String], word: &str| of.iter().any(|stem| stem == word);
        assert!(has(&brand.means, "sell") && has(&brand.suggests, "sell"), "{brand:?}");
        assert!(!has(&brand.means, "sold") && has(&brand.suggests, "sold"), "{brand:?}");
    }

    #[test]
    fn the_name_of_another_type_is_not_a_synonym() {
        let means = |types: &[&str]| {
            let types: Vec<String> = types.iter().map(|&name| name.to_owned()).collect();
            let mut synonyms = synonyms(&Stems::default(), "type", &types);
            synonyms.swap_remove(0).means.contains(&"product".to_owned())
        };
        assert!(means(&["article", "author"]) && !means(&["article", "product"]));
    }

    #[test]
    fn every_row_has_a_kind_a_name_and_words() {
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('\t').collect();
            let n = if cells[0] == "mutual" { 2..=2 } else { 3..=5 };
            assert!(n.contains(&cells.len()), "{line}");
            assert!(["type", "relation", "mutual", "any"].contains(&cells[0]), "{line}");
        }
    }
}
