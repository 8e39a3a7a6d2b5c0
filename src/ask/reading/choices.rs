//! Enumerates the readings of an ambiguous question. Each reading takes one option for each
//! ambiguity, such as one of two relations that a word may mention; all combinations of options are
//! read.
//!
//! Does not interpret the options.

use std::{cell::RefCell, collections::BTreeMap};

/// Maximum number of combinations of options that are read for one question.
const MAX_COMBINATIONS: usize = 24;

/// The options that one reading of a question takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    /// Index of the option to take for each ambiguity; the key is the list of its options, one per
    /// line. For ambiguities not in the map, the first option is taken.
    given: BTreeMap<String, usize>,
    /// The ambiguities that this reading encountered, in order, each with its number of options.
    met: RefCell<Vec<(String, usize)>>,
}

impl Choices {
    /// Returns the index of the option to take. Equal lists of options count as the same ambiguity,
    /// for which the same option is taken each time.
    pub(crate) fn take(&self, options: &[String]) -> usize {
        if options.len() < 2 {
            return 0;
        }
        let open = options.join("\n");
        let mut met = self.met.borrow_mut();
        if !met.iter().any(|(known, _)| *known == open) {
            met.push((open.clone(), options.len()));
        }
        self.given.get(&open).copied().unwrap_or(0)
    }
}

/// Calls `read` once for every combination of options, starting with all first options, and returns
/// the results. Stops after [`MAX_COMBINATIONS`]; the second value states whether all combinations
/// were read.
pub(crate) fn every<T>(mut read: impl FnMut(&Choices) -> T) -> (Vec<T>, bool) {
    let (mut open, mut found) = (vec![BTreeMap::new()], Vec::new());
    while let Some(given) = open.pop() {
        if found.len() == MAX_COMBINATIONS {
            return (found, false);
        }
        let choices = Choices { given: given.clone(), met: RefCell::default() };
        found.push(read(&choices));
        // Forks at each new ambiguity; earlier ambiguities keep the options that this reading took.
        let mut taken = given;
        let mut forks = Vec::new();
        for (what, n) in choices.met.into_inner() {
            if taken.contains_key(&what) {
                continue;
            }
            for option in 1..n {
                let mut other = taken.clone();
                other.insert(what.clone(), option);
                forks.push(other);
            }
            taken.insert(what, 0);
        }
        open.extend(forks.into_iter().rev());
    }
    (found, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn every_combination_is_read_once() {
        let (found, all) = every(|choices| {
            let one = choices.take(&names(&["a", "b"]));
            let none = choices.take(&names(&["only"]));
            // The third choice depends on the first one.
            let other = if one == 1 { choices.take(&names(&["x", "y", "z"])) } else { 0 };
            let again = choices.take(&names(&["a", "b"]));
            (one, none, other, again)
        });
        assert_eq!(found, [(0, 0, 0, 0), (1, 0, 0, 1), (1, 0, 1, 1), (1, 0, 2, 1)]);
        assert!(all);
    }

    #[test]
    fn combinations_are_bounded() {
        let (found, all) = every(|choices| {
            for at in 0..10 {
                choices.take(&names(&[&format!("{at}"), "other"]));
            }
        });
        assert_eq!((found.len(), all), (MAX_COMBINATIONS, false));
    }
}
