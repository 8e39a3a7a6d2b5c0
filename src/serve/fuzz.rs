//! Entry points for the fuzzer: they parse bytes as clients may send them. Not a public interface.

use std::{convert::Infallible, sync::LazyLock};

use axum::body::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::runtime::{Builder, Runtime};

use crate::{batch, mcp::pipe};

#[allow(clippy::expect_used, reason = "the fuzzer cannot run without a thread")]
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_time().build().expect("a runtime of one thread")
});

/// Splits the body of a batch, which arrives in these parts, into lines. Returns each line after
/// its number, from 1; `None` for a line that is refused.
pub fn batch(parts: Vec<Vec<u8>>) -> Vec<(u64, Option<Vec<u8>>)> {
    let parts = parts.into_iter().map(|part| Ok::<_, Infallible>(Bytes::from(part)));
    let lines = batch::lines(stream::iter(parts), batch::LINE_TIME);
    let lines = lines.map(|(number, line)| (number, line.ok().map(|line| line.to_vec())));
    RUNTIME.block_on(lines.collect())
}

/// Maximum length of a line of a batch, in bytes.
pub const MAX_LINE: usize = batch::MAX_LINE;

/// Feeds `lines` to an MCP server that reads from a pipe and answers every request with an error.
/// Returns the number of messages read, and the bytes of all replies.
pub fn mcp(lines: Vec<u8>) -> (usize, Vec<u8>) {
    RUNTIME.block_on(pipe::refused(lines))
}
