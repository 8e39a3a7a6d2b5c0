//! What a run of the optimizer keeps and reads beside its journal: the user's programs, why it waits,
//! and the times of its parts.

pub mod events;
pub mod pause;
pub mod programs;
pub mod timing;
