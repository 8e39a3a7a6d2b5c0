//! The loop.

pub mod mine;
pub mod plan;
