//! What every other crate stands on: files within limits, archives, units of work, words of a text, and
//! the processor time of a thread. Knows nothing of nodes, queries or models.

pub mod clock;
pub mod files;
pub mod tarball;
pub mod units;
pub mod words;
