//! Clocks that measure a call; the engine inside WebAssembly has none and replaces this module.

pub(super) use std::time::Instant;

pub(super) use agent_ground::clock::Timer;
