//! What reads bytes of clients, for the fuzzer. Not an interface for anybody else.

use std::{convert::Infallible, sync::LazyLock};

use axum::body::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::runtime::{Builder, Runtime};

use crate::{batch, mcp::pipe};

#[allow(clippy::expect_used, reason = "the fuzzer is to end where it has no threads")]
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_time().build().expect("a runtime of one thread")
});

/// The lines of a batch whose body comes in these parts, with their numbers; `None` for a line that is
/// refused.
pub fn batch(parts: Vec<Vec<u8>>) -> Vec<(u64, Option<Vec<u8>>)> {
    let parts = parts.into_iter().map(|part| Ok::<_, Infallible>(Bytes::from(part)));
    let lines = batch::lines(stream::iter(parts), batch::LINE_TIME);
    let lines = lines.map(|(number, line)| (number, line.ok().map(|line| line.to_vec())));
    RUNTIME.block_on(lines.collect())
}

/// The longest line of a batch, bytes.
pub const MAX_LINE: usize = batch::MAX_LINE;

/// The number of messages in lines over a pipe, each of which is refused, and all replies.
pub fn mcp(lines: Vec<u8>) -> (usize, Vec<u8>) {
    RUNTIME.block_on(pipe::refused(lines))
}
