//! What work on texts and nodes costs in units of the meter, and loops over nodes that end in time.
//!
//! A unit is what touching a node or a posting takes, about 50 ns, so that what one program may
//! touch in all takes about a second whatever it touches.
//!
//! Must not know: what is done with words and nodes.

use crate::{ToolCtx, ToolError};
use agent_ground::words::{MAX_WORD_LETTERS, name_words};
use agent_kb::{NodeId, TypeId};

/// Charged for a word that is searched or linked, whatever its frequency.
const WORD: usize = 1_000;
/// Charged for a node whose text is scored.
const SCORED_NODE: usize = 10;
/// Words of a text that a node is compared with for one unit.
const WORDS_PER_UNIT: usize = 4;
/// Rows of the vectors that are looked at for one unit.
const ROWS_PER_UNIT: usize = 4;
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

/// Charges a look at the vectors of all nodes of these types, of all nodes where there is none. About
/// 15 ns a row of 256 numbers, so that a base of 80 million can be searched once.
///
/// # Errors
/// Those of the meter.
pub(super) fn rows(ctx: &mut ToolCtx<'_>, types: &[TypeId]) -> Result<(), ToolError> {
    let kb = &ctx.base.kb;
    let n = match types {
        [] => kb.n_nodes() as usize,
        types => types.iter().map(|&kind| kb.nodes_of_type(kind).len()).sum(),
    };
    ctx.meter.touch(n.div_ceil(ROWS_PER_UNIT))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Session, ToolHost, Value, registry};
    use agent_testing::example_base;

    #[test]
    fn a_search_by_vectors_is_charged_the_rows_of_its_types() {
        let base = example_base();
        let brand = base.kb.type_id("brand").unwrap();
        let tool = registry().iter().position(|spec| spec.name == "search_vectors").unwrap();
        let spent = |types: Vec<Value>| {
            let mut session = Session::new(base.clone(), None);
            let arguments = vec![Value::text("steel bottle"), Value::List(types), Value::Int(3)];
            session.call(tool, arguments).unwrap();
            session.work().touched as usize
        };
        let rows = |n: usize| n.div_ceil(ROWS_PER_UNIT);
        let more = rows(base.kb.n_nodes() as usize) - rows(base.kb.nodes_of_type(brand).len());
        assert!(more > 0);
        assert_eq!(spent(Vec::new()), spent(vec![Value::text("brand")]) + more);
    }
}
