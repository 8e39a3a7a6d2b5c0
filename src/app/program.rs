//! Operations on single programs: run one, and compare two.

pub mod diff;
mod hunks;
pub mod measure;
pub mod run;
pub mod sources;
