//! The loop.

pub mod mine;
