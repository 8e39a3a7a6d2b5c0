//! Wording of queries: with names in quotation marks, as templates produce, or free. A change of a
//! program may gain on queries of one wording and lose on the other. Prompts therefore name the
//! wording, samples contain both, and gains weight both equally.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::trial::mean;
use agent_ground::words::quoted;

/// Minimum number of queries of each wording for which both wordings are weighted equally. With
/// fewer, one correct answer would decide.
const MIN_STRATUM: usize = 8;

/// The wording of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wording {
    /// The query has names in quotation marks.
    Quoted,
    /// The query has no quotation marks around names.
    Free,
}

impl Wording {
    /// Both wordings.
    pub const ALL: [Wording; 2] = [Self::Quoted, Self::Free];

    /// Returns the wording of a query's text.
    pub fn detect(text: &str) -> Wording {
        if quoted(text).is_empty() { Self::Free } else { Self::Quoted }
    }

    /// Returns the name of the wording that prompts use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quoted => "quotes",
            Self::Free => "free wording",
        }
    }
}

/// Draws at most `n` of the queries at random. Takes free and quoted queries in turn as long as
/// there are both; `wording` returns the wording of a query.
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

/// Returns the gain of a change in summed reciprocal rank, with both wordings weighted equally; the
/// plain sum if a wording has fewer than 8 queries. `differences` has, for each query, its wording
/// and the difference of reciprocal ranks, new minus old.
pub fn gain(differences: &[(Wording, f64)]) -> f64 {
    let [quoted, free] = Wording::ALL.map(|wording| {
        let own = differences.iter().filter(|pair| pair.0 == wording);
        own.fold((0_usize, 0.0), |(n, sum), pair| (n + 1, sum + pair.1))
    });
    if quoted.0.min(free.0) < MIN_STRATUM {
        return quoted.1 + free.1;
    }
    let half = differences.len() as f64 / 2.0;
    half * (quoted.1 / quoted.0 as f64 + free.1 / free.0 as f64)
}

/// Formats mean reciprocal ranks by wording, such as
/// `quotes 0.9100 on 80 queries, free wording 0.4200 on 20 queries`; omits a wording without
/// queries.
pub fn means_by_wording(ranks: &[(Wording, f32)]) -> String {
    let mean_of = |wording: Wording| {
        let own: Vec<f32> =
            ranks.iter().filter(|pair| pair.0 == wording).map(|pair| pair.1).collect();
        let text = format!("{} {:.4} on {} queries", wording.name(), mean(&own), own.len());
        (!own.is_empty()).then_some(text)
    };
    Wording::ALL.into_iter().filter_map(mean_of).collect::<Vec<_>>().join(", ")
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
    fn the_rarer_wording_has_half_the_voice_where_it_has_enough_queries() {
        let differences = |n_free: usize| -> Vec<(Wording, f64)> {
            let quoted = std::iter::repeat_n((Wording::Quoted, 0.05), 40);
            quoted.chain(std::iter::repeat_n((Wording::Free, -0.15), n_free)).collect()
        };
        assert!((gain(&differences(10)) - 25.0 * (0.05 - 0.15)).abs() < 1e-9);
        assert!((gain(&differences(4)) - (2.0 - 0.6)).abs() < 1e-9);
        assert_eq!(gain(&[]), 0.0);
    }

    #[test]
    fn mean_ranks_are_formatted_by_wording() {
        let ranks = [(Wording::Quoted, 1.0), (Wording::Free, 0.25), (Wording::Quoted, 0.5)];
        assert_eq!(
            means_by_wording(&ranks),
            "quotes 0.7500 on 2 queries, free wording 0.2500 on 1 queries"
        );
        assert_eq!(means_by_wording(&ranks[1..2]), "free wording 0.2500 on 1 queries");
        assert_eq!(Wording::detect("like \"Dart\""), Wording::Quoted);
    }
}
