//! To be written.

pub mod sample;
