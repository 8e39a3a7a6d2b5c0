//! Ambiguities of a question, such as which of two relations it mentions. Each reading takes one
//! option of each ambiguity, and all combinations are read.
//!
//! Independent of the meaning of the options.

use std::collections::BTreeMap;

/// Maximum number of combinations of options that are read.
const MAX_COMBINATIONS: usize = 24;

/// The options that one reading takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    /// The option for each ambiguity; the first option if it is missing.
    given: BTreeMap<String, usize>,
    /// The ambiguities of this reading, in order, with their numbers of options.
    met: Vec<(String, usize)>,
}

impl Choices {
    /// Returns the index of the option to take; the options identify the ambiguity.
    pub(crate) fn take(&mut self, options: &[String]) -> usize {
        if options.len() < 2 {
            return 0;
        }
        let open = options.join("\n");
        if !self.met.iter().any(|(known, _)| *known == open) {
            self.met.push((open.clone(), options.len()));
        }
        self.given.get(&open).copied().unwrap_or(0)
    }
}

/// Calls `read` with every combination of options, first options first, and returns its results.
/// Stops after [`MAX_COMBINATIONS`]; the second value is whether all combinations were read.
pub(crate) fn every<T>(mut read: impl FnMut(&mut Choices) -> T) -> (Vec<T>, bool) {
    let (mut open, mut found) = (vec![BTreeMap::new()], Vec::new());
    while let Some(given) = open.pop() {
        if found.len() == MAX_COMBINATIONS {
            return (found, false);
        }
        let mut choices = Choices { given: given.clone(), met: Vec::new() };
        found.push(read(&mut choices));
        // Forks at each new ambiguity; the ones before it stay as this reading took them.
        let mut taken = given;
        let mut forks = Vec::new();
        for (what, n) in choices.met {
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
