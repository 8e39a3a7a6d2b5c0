//! How training queries are worded: such that quote what they name, as templates do, and free ones.
//! What gains on one kind may lose on the other, so prompts say which is which, and samples hold
//! both.
//!
//! Must not know: answers, programs.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::{optimize::trial::mean, words::quoted};

/// The wording of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wording {
    /// It puts what it names in quotation marks.
    Quoted,
    /// It quotes nothing.
    Free,
}

impl Wording {
    /// Both.
    pub const ALL: [Wording; 2] = [Self::Quoted, Self::Free];

    /// The wording of a query.
    pub fn of(text: &str) -> Wording {
        if quoted(text).is_empty() { Self::Free } else { Self::Quoted }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quoted => "quotes",
            Self::Free => "free wording",
        }
    }
}

/// At most `n` of the queries in an order drawn from `rng`: as many of each wording, or all of the
/// rarer one; first one of each in turn.
pub fn sample(
    queries: &[usize],
    n: usize,
    wording: impl Fn(usize) -> Wording,
    rng: &mut ChaCha8Rng,
) -> Vec<usize> {
    let mut shuffled = queries.to_vec();
    shuffled.shuffle(rng);
    let (mut quoted, mut free): (Vec<usize>, Vec<usize>) =
        shuffled.into_iter().rev().partition(|&query| wording(query) == Wording::Quoted);
    let mut chosen = Vec::new();
    while chosen.len() < n && !(quoted.is_empty() && free.is_empty()) {
        chosen.extend(free.pop());
        if chosen.len() < n {
            chosen.extend(quoted.pop());
        }
    }
    chosen
}

/// Mean reciprocal ranks by wording, such as `quotes 0.91 on 80 queries, free wording 0.42 on 20`;
/// a wording without queries is left out.
pub fn told(ranks: &[(Wording, f32)]) -> String {
    let of = |wording: Wording| {
        let own: Vec<f32> =
            ranks.iter().filter(|pair| pair.0 == wording).map(|pair| pair.1).collect();
        let told = format!("{} {:.4} on {} queries", wording.name(), mean(&own), own.len());
        (!own.is_empty()).then_some(told)
    };
    Wording::ALL.into_iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn samples_hold_both_wordings_and_differ_by_the_seed() {
        let wording = |query: usize| if query < 90 { Wording::Quoted } else { Wording::Free };
        let queries: Vec<usize> = (0..100).collect();
        let drawn = |n: usize, seed: u64| {
            sample(&queries, n, wording, &mut ChaCha8Rng::seed_from_u64(seed))
        };
        let free = |chosen: &[usize]| chosen.iter().filter(|&&query| query >= 90).count();
        assert_eq!((drawn(12, 1).len(), free(&drawn(12, 1))), (12, 6));
        assert_eq!((drawn(40, 1).len(), free(&drawn(40, 1))), (40, 10));
        assert_ne!(drawn(12, 1), drawn(12, 2));
        assert_eq!(drawn(12, 1), drawn(12, 1));
        let mut all = drawn(200, 3);
        all.sort_unstable();
        assert_eq!(all, queries);
    }

    #[test]
    fn ranks_are_told_by_wording() {
        let ranks = [(Wording::Quoted, 1.0), (Wording::Free, 0.25), (Wording::Quoted, 0.5)];
        assert_eq!(told(&ranks), "quotes 0.7500 on 2 queries, free wording 0.2500 on 1 queries");
        assert_eq!(told(&ranks[1..2]), "free wording 0.2500 on 1 queries");
        assert_eq!(Wording::of("like \"Dart\""), Wording::Quoted);
    }
}
