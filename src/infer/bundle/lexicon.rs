//! Words that people use for types and relations, beside the words of their names: "medicine" for a
//! type `drug`, "for" and "helps against" for a relation `drug_treats_disease`.
//!
//! The table `lexicon.tsv` holds general English, nothing of one base: a row applies to every type or
//! relation whose name has one of its words. Some words exclude a relation: what is asked "for" a
//! disease is not what causes it.

use agent_ground::words::{Stems, name_words};

const TABLE: &str = include_str!("lexicon.tsv");

/// Stems that mean a type or a relation, and stems that exclude it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Synonyms {
    pub(super) means: Vec<String>,
    pub(super) excludes: Vec<String>,
}

/// The synonyms of each name; `kind` is `type` or `relation`.
pub(super) fn synonyms(stems: &Stems, kind: &str, names: &[String]) -> Vec<Synonyms> {
    let stemmed = |words: &str| -> Vec<String> {
        name_words(words).map(|(_, word)| stems.stem(&word).into_owned()).collect()
    };
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<[Vec<String>; 3]> = rows
        .filter_map(|line| line.strip_prefix(kind)?.strip_prefix('\t'))
        .map(|row| {
            let mut cells = row.split('\t').map(stemmed);
            std::array::from_fn(|_| cells.next().unwrap_or_default())
        })
        .collect();
    let of_name = |name: &String| {
        let own = stemmed(name);
        let mut found = Synonyms::default();
        for [of, means, excludes] in &rows {
            if own.iter().any(|stem| of.contains(stem)) {
                found.means.extend_from_slice(means);
                found.excludes.extend_from_slice(excludes);
            }
        }
        found
    };
    names.iter().map(of_name).collect()
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
    fn every_row_has_a_kind_a_name_and_words() {
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('\t').collect();
            assert!((3..=4).contains(&cells.len()), "{line}");
            assert!(["type", "relation"].contains(&cells[0]), "{line}");
        }
    }
}
