//! Operations on single programs: run one, and compare two.

pub mod run;
