//! The shared files, under the paths that they name each other by.

#[path = "../../../../src/sandbox/alloc.rs"]
mod alloc;
mod clock;
#[path = "../../../../src/sandbox/failure.rs"]
mod failure;
#[allow(dead_code, reason = "rankings come from other modules")]
#[path = "../../../../src/sandbox/given.rs"]
mod given;
mod guard;
mod guest;
mod host;
#[path = "../../../../src/sandbox/limits.rs"]
mod limits;
pub(crate) mod rhai;
#[allow(dead_code, reason = "the host writes ids")]
#[path = "../../../../src/sandbox/wasm/wire.rs"]
mod wire;

use failure::push_clean;
use failure::{Failure, FailureKind, Position, Usage};
use limits::Limits;
