//! Operations on datasets: import, update, list, show and remove them, and make questions for them.

pub mod import;
pub mod list;
pub mod remove;
pub mod show;
pub mod synthesize;
pub mod update;
