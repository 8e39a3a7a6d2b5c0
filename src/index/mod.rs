//! To be written.

pub mod vectors;
