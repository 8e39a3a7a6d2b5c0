//! The loop.

pub mod journal;
pub mod mine;
pub mod plan;
