//! Charges the cost of work on texts and nodes to the meter, in cost units, and applies functions
//! to nodes while polling the meter. A cost unit is the time to touch a node or a posting, about 50
//! ns; the budget of a program call is about one second of work.

use crate::{ToolCtx, ToolError};
use agent_ground::words::{MAX_WORD_LETTERS, name_words};
use agent_kb::{NodeId, TypeId};

/// Cost of each searched or linked word, independent of its frequency, in cost units.
const WORD: usize = 1_000;
/// Minimum cost of scoring the text of one node, in cost units.
const SCORED_NODE: usize = 10;
/// Number of words that are compared with one node per cost unit.
const WORDS_PER_UNIT: usize = 4;
/// Number of vectors that are scored per cost unit.
const ROWS_PER_UNIT: usize = 4;
/// Number of bytes of a document or field that are read per cost unit.
const BYTES_PER_UNIT: usize = 100;
/// Number of nodes between two polls of the meter.
pub(super) const CHUNK_NODES: usize = 256;

/// Charges the words of a text that is searched or linked; an overlong word counts as several.
///
/// # Errors
/// Errors of [`Meter::touch`](crate::Meter::touch).
pub(super) fn charge_words(ctx: &mut ToolCtx<'_>, text: &str) -> Result<(), ToolError> {
    let n: usize = name_words(text).map(|(range, _)| range.len().div_ceil(MAX_WORD_LETTERS)).sum();
    ctx.meter.touch(n.saturating_mul(WORD))
}

/// Charges analysing or embedding a text: one cost unit per byte.
///
/// # Errors
/// Errors of [`Meter::touch`](crate::Meter::touch).
pub(super) fn charge_text(ctx: &mut ToolCtx<'_>, text: &str) -> Result<(), ToolError> {
    ctx.meter.touch(text.len())
}

/// Charges a scan of the vectors of all nodes of `types`, or of all nodes if `types` is empty. A
/// row of 256 numbers takes about 15 ns, so the budget of a program call suffices to scan a base of
/// 80 million nodes once.
///
/// # Errors
/// Errors of [`Meter::touch`](crate::Meter::touch).
pub(super) fn charge_rows(ctx: &mut ToolCtx<'_>, types: &[TypeId]) -> Result<(), ToolError> {
    let kb = &ctx.base.kb;
    let n = match types {
        [] => kb.n_nodes() as usize,
        types => types.iter().map(|&kind| kb.nodes_of_type(kind).len()).sum(),
    };
    ctx.meter.touch(n.div_ceil(ROWS_PER_UNIT))
}

/// Charges reading a document or field.
///
/// # Errors
/// Errors of [`Meter::touch`](crate::Meter::touch).
pub(super) fn charge_read(ctx: &mut ToolCtx<'_>, text: &str) -> Result<(), ToolError> {
    ctx.meter.touch(text.len() / BYTES_PER_UNIT)
}

/// Charges the comparison of the texts of `n_nodes` nodes with `n_words` words.
///
/// # Errors
/// Errors of [`Meter::touch`](crate::Meter::touch).
pub(super) fn charge_scored(
    ctx: &mut ToolCtx<'_>,
    n_nodes: usize,
    n_words: usize,
) -> Result<(), ToolError> {
    ctx.meter.touch(n_nodes.saturating_mul(SCORED_NODE.max(n_words / WORDS_PER_UNIT)))
}

/// Applies `map` to the nodes in order, and polls the meter before every [`CHUNK_NODES`] nodes.
///
/// # Errors
/// Errors of `map` and of [`Meter::poll`](crate::Meter::poll).
pub(super) fn map_nodes<T>(
    ctx: &mut ToolCtx<'_>,
    nodes: &[NodeId],
    mut map: impl FnMut(&mut ToolCtx<'_>, NodeId) -> Result<T, ToolError>,
) -> Result<Vec<T>, ToolError> {
    let mut all = Vec::with_capacity(nodes.len());
    for chunk in nodes.chunks(CHUNK_NODES) {
        ctx.meter.poll()?;
        for &node in chunk {
            all.push(map(ctx, node)?);
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
