//! Operations on single programs: running one and comparing two.

pub mod diff;
mod hunks;
pub mod measure;
pub mod run;
pub mod sources;
