//! The clocks that a call is measured with. Two lines, so that the engine inside WebAssembly, which
//! has none, can be built from the same files with others.

pub(super) use std::time::Instant;

pub(super) use agent_ground::clock::Timer;
