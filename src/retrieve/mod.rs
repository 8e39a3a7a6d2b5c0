//! Retrievers: query in, ranking out.

mod scores;

pub use scores::{Combine, Scores, best, best_first};
