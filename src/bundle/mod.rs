//! Frozen bundles.

pub mod router;
