//! Operations on datasets: import, update, list, show and remove datasets, count values, and make
//! questions.

pub mod facets;
pub mod import;
pub mod list;
pub mod remove;
pub mod show;
pub mod synthesize;
pub mod update;
