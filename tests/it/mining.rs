//! What metapaths of three steps cost and bring on real bases: printed, for `docs/optimizer.md`.

use std::{sync::atomic::AtomicBool, time::Instant};

use agent::{
    dataset::{LabelledQuery, Split, load_split},
    index::IndexedBase,
    optimize::{discover::metapaths, mine::mine},
};

use crate::support::real_bases;

/// Information that the best metapath of a query gives, bits, mean over queries; and of how many
/// the best metapath has three steps.
fn best_metapaths(base: &IndexedBase, queries: &[LabelledQuery], hops: usize) -> (f64, usize) {
    let mined = mine(base, queries, 3, hops, &AtomicBool::new(false)).unwrap();
    let mut best = vec![(0.0, 0); queries.len()];
    for metapath in metapaths(&mined) {
        for (&query, &share) in &metapath.shares {
            let worth = f64::from(share) * metapath.bits;
            if worth > best[query].0 {
                best[query] = (worth, metapath.steps.len());
            }
        }
    }
    let bits: f64 = best.iter().map(|pair| pair.0).sum();
    (bits / queries.len() as f64, best.iter().filter(|pair| pair.1 == 3).count())
}

#[test]
fn metapaths_of_three_steps_are_measured() {
    for (base, indexed) in real_bases() {
        let name = &base.name;
        let queries = load_split(&base, &Split::Train).unwrap();
        let two = best_metapaths(&indexed, &queries, 2);
        let begun = Instant::now();
        let three = best_metapaths(&indexed, &queries, 3);
        eprintln!(
            "{name}, {} queries: {:.2} bits with two steps, {:.2} with three, {} of three, {:.1?}",
            queries.len(),
            two.0,
            three.0,
            three.1,
            begun.elapsed(),
        );
        assert!(three.0 >= two.0, "more metapaths cannot tell less");
    }
}
