//! Foundations of all other crates: reading files within limits, tarballs, units of work,
//! tokenization and thread time. Nothing here depends on nodes, queries or models.

pub mod clock;
pub mod files;
pub mod locks;
pub mod owned_dir;
pub mod pool_dir;
pub mod record;
pub mod space;
pub mod stack;
pub mod tarball;
pub mod units;
pub mod words;
