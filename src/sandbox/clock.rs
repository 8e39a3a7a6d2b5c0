//! The clock that a call is measured with. One line, so that the engine inside WebAssembly, which
//! has no clock, can be built from the same files with another.

pub(super) use std::time::Instant;
