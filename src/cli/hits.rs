//! Prints ranked nodes: as a table, as lines with reasons, with explanations, or as JSON lines.
//! Does not depend on which system ranked them.

use std::collections::HashSet;

use crate::{Context, Exit, plain, table, why};
use agent_app::{MAX_SHOWN, Result};
use agent_infer::{Expected, HitRecord, StepRecord, path_in_words};

/// Maximum number of characters of a node's name and type together, before the column of reasons.
const MAX_NAMED: usize = 44;
/// Forms in which a path is printed, tried in this order until one fits: the maximum number of
/// characters of a name, and whether relations are printed in full.
const PATH_FORMS: [(usize, bool); 6] =
    [(60, true), (30, true), (20, true), (30, false), (20, false), (12, false)];

/// The predicted last rank of the answers in a ranking, and the expected quality of the nodes up to
/// that rank.
#[derive(Clone, Copy)]
pub(super) struct Ending {
    /// Rank of the last answer (from 1); may be larger than the number of printed nodes.
    pub(super) rank: usize,
    /// Expected precision and recall of the nodes up to this rank.
    pub(super) expected: Expected,
}

/// Prints a ranking, as one JSON object per node or as a table; an empty ranking gives only a
/// notice.
///
/// # Errors
/// If stdout cannot be written to.
pub(super) fn print(hits: &[HitRecord<'_>], json: bool, ctx: &Context) -> Result<Exit> {
    if hits.is_empty() {
        ctx.watch.notice("no node matches");
        return Ok(Exit::Done);
    }
    if json { ctx.printer.json_lines(hits) } else { print_table(hits, ctx) }
}

/// Returns the line printed below the node of this rank, of `n` nodes: the mark of the end of the
/// answers if the node is the last answer or the last node, otherwise an empty string. If the end
/// lies after these nodes, the line names its rank.
fn rule_below(end: Option<Ending>, rank: usize, n: usize) -> String {
    let Some(end) = end.filter(|end| end.rank.min(n) == rank) else { return String::new() };
    let Expected { precision, recall } = end.expected;
    let [precision, recall] = [precision, recall].map(|share| 100.0 * share);
    let expected = format!("precision {precision:.0} %, recall {recall:.0} % in training");
    match end.rank {
        rank if rank > n => format!("-- the answers likely continue to rank {rank} ({expected})\n"),
        _ => format!("-- the answers likely end here ({expected})\n"),
    }
}

/// Prints one row per node with rank, id, type, name and score.
///
/// # Errors
/// If stdout cannot be written to.
pub(super) fn print_table(hits: &[HitRecord<'_>], ctx: &Context) -> Result<Exit> {
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
    ctx.printer.table(&rows)
}

/// Prints one line per node with the reason why it was found, and a line that marks the end of the
/// answers.
///
/// # Errors
/// If stdout cannot be written to.
pub(super) fn print_reasons(
    hits: &[HitRecord<'_>],
    end: Option<Ending>,
    ctx: &Context,
) -> Result<Exit> {
    let width = ctx.printer.columns();
    let named = named(hits);
    let longest = named.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let digits = hits.len().to_string().len();
    let lines = hits.iter().zip(&named).map(|(hit, name)| {
        let begin = format!("{:>digits$}  {name:<longest$}  ", hit.rank);
        let room = width.map(|width| width.saturating_sub(begin.chars().count()));
        let line = format!("{begin}{}", reason(hit, room));
        format!("{}\n{}", line.trim_end(), rule_below(end, hit.rank, hits.len()))
    });
    ctx.printer.text(&lines.collect::<String>())
}

/// Returns the name and type of each node, as `name (type)`. If some name is cut, or is that of
/// another printed node of the same type, also returns the id of each node.
fn named(hits: &[HitRecord<'_>]) -> Vec<String> {
    let shown = |hit: &HitRecord<'_>| {
        let node_type = plain(hit.node_type, MAX_NAMED);
        let room = MAX_NAMED.saturating_sub(node_type.chars().count() + 3).max(12);
        (plain(hit.name, room), node_type)
    };
    let all: Vec<(String, String)> = hits.iter().map(shown).collect();
    let distinct: HashSet<_> = all.iter().collect();
    let is_cut =
        |(one, hit): (&(String, String), &HitRecord<'_>)| one.0 != plain(hit.name, usize::MAX);
    let with_ids = distinct.len() < all.len() || all.iter().zip(hits).any(is_cut);
    let told = |(one, hit): (&(String, String), &HitRecord<'_>)| match with_ids {
        true => format!("{} ({} {})", one.0, one.1, plain(&hit.key, MAX_SHOWN)),
        false => format!("{} ({})", one.0, one.1),
    };
    all.iter().zip(hits).map(told).collect()
}

/// Returns the reason for a hit in at most `room` characters, or without limit if `room` is `None`:
/// the paths to the node from the entities that the question names or, if there are none, the words
/// that it shares with the question.
pub(super) fn reason(hit: &HitRecord<'_>, room: Option<usize>) -> String {
    let first = hit.path.iter().filter(|path| !path.is_empty());
    let paths: Vec<_> = first.chain(&hit.further_paths).collect();
    if paths.is_empty() {
        let words = hit.words.unwrap_or_default();
        let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        let told = match quoted.is_empty() {
            true => "found by the program".to_owned(),
            false => format!("found by words: {}", quoted.join(", ")),
        };
        return plain(told, room.unwrap_or(usize::MAX));
    }
    if paths.iter().all(|path| path.len() == 1) {
        return "named by the question".to_owned();
    }
    let in_words = |(limit, whole): (usize, bool)| {
        let name = |step: &StepRecord<'_>| match step.node == hit.id {
            true => "this".to_owned(),
            false => plain(step.name, limit),
        };
        let relation = |from: &StepRecord<'_>, to: &StepRecord<'_>| match whole {
            true => to.relation.unwrap_or_default().to_owned(),
            false => short_relation(from, to),
        };
        let all = paths.iter().map(|path| path_in_words(path, name, relation));
        plain(all.collect::<Vec<String>>().join("; "), usize::MAX)
    };
    let Some(room) = room else { return in_words((usize::MAX, true)) };
    let fits = |told: &String| told.chars().count() <= room;
    let told = PATH_FORMS.map(in_words);
    let [.., shortest] = &told;
    told.iter().find(|told| fits(told)).cloned().unwrap_or_else(|| plain(shortest, room))
}

/// Returns the relation of an edge without the node types at its ends: `also_viewed` for
/// `product_also_viewed_product`.
fn short_relation(from: &StepRecord<'_>, to: &StepRecord<'_>) -> String {
    let relation = to.relation.unwrap_or_default();
    let (source, target) = match to.direction {
        Some("in") => (to.node_type, from.node_type),
        _ => (from.node_type, to.node_type),
    };
    let rest = relation.strip_prefix(source).and_then(|rest| rest.strip_prefix('_'));
    let rest = rest.unwrap_or(relation);
    let own = rest.strip_suffix(target).and_then(|rest| rest.strip_suffix('_'));
    own.filter(|own| !own.is_empty()).unwrap_or(rest).to_owned()
}

/// Prints each node, with its explanation below if there is one, and a line that marks the end of
/// the answers.
///
/// # Errors
/// If stdout cannot be written to.
pub(super) fn print_explained(
    hits: &[HitRecord<'_>],
    end: Option<Ending>,
    ctx: &Context,
) -> Result<Exit> {
    let width = ctx.printer.columns();
    let blocks = hits.iter().map(|hit| {
        let (name, node_type) = (plain(hit.name, MAX_SHOWN), plain(hit.node_type, MAX_SHOWN));
        let (HitRecord { rank, score, .. }, key) = (hit, plain(&hit.key, MAX_SHOWN));
        let rule = rule_below(end, *rank, hits.len());
        let path = match &hit.path {
            Some(_) if hit.explanation.is_some() => format!("    {}\n", reason(hit, None)),
            _ => String::new(),
        };
        let why = why::lines(hit, width);
        format!("{rank}. {name} ({node_type} {key}), score {score:.4}\n{path}{why}{rule}")
    });
    ctx.printer.text(&blocks.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_look_alike_are_told_apart_by_their_ids() {
        let hit = |key: &str, name| HitRecord {
            rank: 1,
            id: 0,
            key: key.to_owned(),
            node_type: "film",
            name,
            score: 0.0,
            path: None,
            further_paths: Vec::new(),
            words: None,
            explanation: None,
            calls: None,
            features: None,
        };
        let hits = [hit("f-1", "Dawn"), hit("f-2", "Dusk"), hit("f-3", "Dawn")];
        assert_eq!(named(&hits), ["Dawn (film f-1)", "Dusk (film f-2)", "Dawn (film f-3)"]);
        assert_eq!(named(&hits[..2]), ["Dawn (film)", "Dusk (film)"]);
        let long = "the long way from the old harbour to the lighthouse";
        assert!(named(&[hit("f-4", long)])[0].ends_with("… (film f-4)"));
    }

    #[test]
    fn relations_are_short_without_the_types_that_they_join() {
        let step = |node_type, relation, direction| StepRecord {
            node: 0,
            key: String::new(),
            name: "",
            node_type,
            relation,
            direction,
        };
        let short = |from, relation, direction, to| {
            short_relation(&step(from, None, None), &step(to, Some(relation), Some(direction)))
        };
        assert_eq!(
            short("product", "product_also_viewed_product", "out", "product"),
            "also_viewed"
        );
        assert_eq!(short("brand", "product_has_brand", "in", "product"), "has");
        assert_eq!(short("film", "directed", "in", "person"), "directed");
        assert_eq!(short("place", "place_place", "out", "place"), "place");
    }
}
