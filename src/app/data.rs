//! Operations on datasets: import, update, list, show and remove a dataset, count the values of its
//! nodes, and make labelled questions for it.

pub mod facets;
pub mod import;
pub mod list;
pub mod remove;
pub mod show;
pub mod synthesize;
pub mod update;
