//! The gate: a few training queries of a category on which a program is tried first. The program
//! runs on the category's other queries only if it scores higher on the gate than the current
//! program. An equal score suffices if a model wrote the program.

use rand::seq::SliceRandom;

use crate::{trial::generator, wording::Wording};
use agent_dataset::LabelledQuery;

/// Maximum number of queries of a gate.
pub(super) const GATE_SIZE: usize = 25;
/// Number of the random generator's stream from which gates are drawn.
const GATE_STREAM: u64 = 5 << 40;

/// Draws the gate from a category's training queries, given as positions in `pool`, and returns the
/// positions of its queries, ascending. The gate has the same share of quoted queries as the
/// category.
pub(super) fn gate(queries: &[usize], pool: &[LabelledQuery], seed: u64) -> Vec<usize> {
    if queries.len() <= GATE_SIZE {
        return queries.to_vec();
    }
    let mut rng = generator(seed, GATE_STREAM);
    let (mut quoted, mut free): (Vec<usize>, Vec<usize>) =
        queries.iter().partition(|&&at| Wording::detect(&pool[at].text) == Wording::Quoted);
    quoted.shuffle(&mut rng);
    free.shuffle(&mut rng);
    let n_quoted = (GATE_SIZE * quoted.len() + queries.len() / 2) / queries.len();
    quoted.truncate(n_quoted);
    free.truncate(GATE_SIZE - n_quoted);
    let mut gate = [quoted, free].concat();
    gate.sort_unstable();
    gate
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_gate_has_as_much_quoted_wording_as_its_category() {
        let pool: Vec<LabelledQuery> = (0..200)
            .map(|at| LabelledQuery {
                id: at,
                text: if at % 5 == 0 { "by \"Northpeak\"" } else { "a 5\" pipe" }.to_owned(),
                answers: Vec::new(),
                metadata: BTreeMap::new(),
            })
            .collect();
        let all: Vec<usize> = (100..200).collect();
        let chosen = gate(&all, &pool, 1);
        assert_eq!(
            (chosen.len(), chosen.iter().filter(|&&at| at % 5 == 0).count()),
            (GATE_SIZE, 5)
        );
        assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]) && chosen[0] >= 100);
        assert_eq!(gate(&all, &pool, 1), chosen);
        assert_ne!(gate(&all, &pool, 2), chosen);
        let free: Vec<usize> = all.iter().copied().filter(|at| at % 5 != 0).collect();
        assert_eq!(gate(&free, &pool, 1).len(), GATE_SIZE);
        assert_eq!(gate(&all[..7], &pool, 1), all[..7]);
    }
}
