//! What work on texts and nodes costs in units of the meter, and loops over nodes that end in time.
//!
//! A unit is what touching a node or a posting takes, about 50 ns, so that what one program may
//! touch in all takes about a second whatever it touches.
//!
//! Must not know: what is done with words and nodes.

use crate::{
    kb::NodeId,
    tools::{ToolCtx, ToolError},
    words::{MAX_WORD_LETTERS, name_words},
};

/// Charged for a word that is searched or linked, whatever its frequency.
const WORD: usize = 1_000;
/// Charged for a node whose text is scored.
const SCORED_NODE: usize = 10;
/// Words of a text that a node is compared with for one unit.
const WORDS_PER_UNIT: usize = 4;
/// Bytes of a document or field that are read for one unit.
const BYTES_PER_UNIT: usize = 100;
/// Nodes of one piece of work between two looks at the time.
pub(super) const NODES_AT_ONCE: usize = 256;

/// Charges the words of a text that is searched or linked. What is longer than a word counts as
/// several.
///
/// # Errors
/// Those of the meter.
pub(super) fn words(ctx: &mut ToolCtx<'_>, text: &str) -> Result<(), ToolError> {
    let n: usize = name_words(text).map(|(range, _)| range.len().div_ceil(MAX_WORD_LETTERS)).sum();
    ctx.meter.touch(n.saturating_mul(WORD))
}

/// Charges a text that is analysed or embedded: a unit for each byte.
///
/// # Errors
/// Those of the meter.
pub(super) fn analysed(ctx: &mut ToolCtx<'_>, text: &str) -> Result<(), ToolError> {
    ctx.meter.touch(text.len())
}

/// Charges a document or field that is read.
///
/// # Errors
/// Those of the meter.
pub(super) fn read(ctx: &mut ToolCtx<'_>, text: &str) -> Result<(), ToolError> {
    ctx.meter.touch(text.len() / BYTES_PER_UNIT)
}

/// Charges nodes whose texts are compared with so many words.
///
/// # Errors
/// Those of the meter.
pub(super) fn scored(
    ctx: &mut ToolCtx<'_>,
    n_nodes: usize,
    n_words: usize,
) -> Result<(), ToolError> {
    ctx.meter.touch(n_nodes.saturating_mul(SCORED_NODE.max(n_words / WORDS_PER_UNIT)))
}

/// Something for each node, in their order; looks at the time on the way.
///
/// # Errors
/// Those of `of` and of the meter.
pub(super) fn for_each<T>(
    ctx: &mut ToolCtx<'_>,
    nodes: &[NodeId],
    mut of: impl FnMut(&mut ToolCtx<'_>, NodeId) -> Result<T, ToolError>,
) -> Result<Vec<T>, ToolError> {
    let mut all = Vec::with_capacity(nodes.len());
    for some in nodes.chunks(NODES_AT_ONCE) {
        ctx.meter.poll()?;
        for &node in some {
            all.push(of(ctx, node)?);
        }
    }
    Ok(all)
}
