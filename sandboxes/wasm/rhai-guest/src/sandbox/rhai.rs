//! The shared files that know the engine.

#[path = "../../../../../src/sandbox/rhai/bridge.rs"]
mod bridge;
#[path = "../../../../../src/sandbox/rhai/engine.rs"]
mod engine;
#[path = "../../../../../src/sandbox/rhai/meter.rs"]
mod meter;
#[path = "../../../../../src/sandbox/rhai/natives.rs"]
mod natives;
pub(crate) mod remote;
mod session;
#[path = "../../../../../src/sandbox/rhai/values.rs"]
mod values;

pub(super) use session::{compile, init, params, retrieve, spent};
