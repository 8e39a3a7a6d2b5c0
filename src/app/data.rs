//! Operations on datasets: import, update, list, show and remove datasets, and make questions.

pub mod import;
pub mod list;
pub mod remove;
pub mod show;
pub mod synthesize;
pub mod update;
