//! Ranked nodes as commands print them: a table or JSON lines. Must not know who ranked them.

use serde::Serialize;

use crate::{
    cli::{
        Context,
        failure::Result,
        printer::{plain, table},
    },
    kb::{Kb, NodeId},
    retrieve::{End, Ranking},
};

/// Most nodes that a command prints.
pub(super) const MAX_K: u64 = 10_000;
/// Characters of a name or type that a table shows.
pub(super) const MAX_SHOWN: usize = 80;

/// One node of an answer, as in JSON.
#[derive(Serialize)]
pub(super) struct Hit<'a> {
    /// Its place, from 1.
    pub(super) rank: usize,
    /// Its id in the base.
    pub(super) id: NodeId,
    /// The id that the user's data call it by.
    pub(super) key: String,
    /// Its type.
    #[serde(rename = "type")]
    pub(super) node_type: &'a str,
    /// Its name.
    pub(super) name: &'a str,
    /// Its score; comparable within one answer only.
    pub(super) score: f32,
    /// Why it has its place, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) explanation: Option<String>,
}

/// The nodes of a ranking, unexplained.
pub(super) fn hits<'a>(kb: &'a Kb, ranking: &Ranking) -> Vec<Hit<'a>> {
    let hit = |(at, &(id, score)): (usize, &(NodeId, f32))| Hit {
        rank: at + 1,
        id,
        key: kb.key(id).into_owned(),
        node_type: kb.type_name(kb.node_type(id)),
        name: kb.name(id),
        score,
        explanation: None,
    };
    ranking.iter().enumerate().map(hit).collect()
}

/// Prints one JSON object per node.
///
/// # Errors
/// That stdout cannot be written to.
pub(super) fn print_json(hits: &[Hit<'_>], ctx: &Context) -> Result<()> {
    ctx.printer.json_lines(hits)
}

/// Says where the answers end, behind the last of `n` printed nodes that is one.
fn told_end(end: End, n: usize) -> String {
    let [precision, recall] = [end.precision, end.recall].map(|share| 100.0 * share);
    let expected = format!("expected precision {precision:.0} %, recall {recall:.0} %");
    match end.rank {
        rank if rank > n => format!("-- the answers likely go on to rank {rank} ({expected})\n"),
        _ => format!("-- the answers likely end here ({expected})\n"),
    }
}

/// Prints rank, id, type, name and score in columns, and where the answers end.
///
/// # Errors
/// That stdout cannot be written to.
pub(super) fn print_table(hits: &[Hit<'_>], end: Option<End>, ctx: &Context) -> Result<()> {
    let mut rows = table(["rank", "id", "type", "name", "score"], &[0, 1, 4]);
    for hit in hits {
        rows.add_row([
            hit.rank.to_string(),
            plain(&hit.key, MAX_SHOWN),
            plain(hit.node_type, MAX_SHOWN),
            plain(hit.name, MAX_SHOWN),
            format!("{:.4}", hit.score),
        ]);
    }
    let Some(end) = end else { return ctx.printer.table(&rows) };
    let shown = rows.trim_fmt();
    let last = end.rank.min(hits.len());
    let lines = shown.lines().enumerate().map(|(at, line)| match at == last {
        true => format!("{line}\n{}", told_end(end, hits.len())),
        false => format!("{line}\n"),
    });
    ctx.printer.data(&lines.collect::<String>())
}

/// Prints each node with its explanation below it, those without one as single lines, and where the
/// answers end.
///
/// # Errors
/// That stdout cannot be written to.
pub(super) fn print_explained(hits: &[Hit<'_>], end: Option<End>, ctx: &Context) -> Result<()> {
    let blocks = hits.iter().map(|hit| {
        let why = hit.explanation.iter().flat_map(|text| text.lines());
        let why: String = why.map(|line| format!("    {line}\n")).collect();
        let (name, node_type) = (plain(hit.name, MAX_SHOWN), plain(hit.node_type, MAX_SHOWN));
        let last = end.filter(|end| end.rank.min(hits.len()) == hit.rank);
        let rule = last.map_or(String::new(), |end| told_end(end, hits.len()));
        let (Hit { rank, score, .. }, key) = (hit, plain(&hit.key, MAX_SHOWN));
        format!("{rank}. {name} ({node_type} {key}), score {score:.4}\n{why}{rule}")
    });
    ctx.printer.text(&blocks.collect::<String>())
}
