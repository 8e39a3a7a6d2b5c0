//! The loop.

pub mod discover;
pub mod mine;
pub mod plan;
pub mod route;
