//! Clock that measures the time of a call. The build of the Rhai engine for WebAssembly, which has
//! no clock, replaces this module.

pub(super) use std::time::Instant;

pub(super) use agent_ground::clock::Timer;
