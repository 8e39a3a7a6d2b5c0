//! Formats the explanation of a hit as lines: its tree, the calls that returned the node, and the
//! features with the largest gains. Does not depend on how these were found.

use crate::{plain, printer::wrapped};
use agent_infer::HitRecord;
use agent_kb::answer::Explanation;
use agent_retrieve::{Call, Feature};
use agent_tools::registry;

/// Maximum number of characters of one name, value or call.
const MAX_PART: usize = 120;
/// Number of spaces by which an explanation is indented.
const INDENT: usize = 4;
/// Number of additional spaces by which each deeper level of an explanation is indented.
const STEP: usize = 2;
/// Name of the group of tools that combine or cut the scores of other tools, and so find no nodes
/// themselves.
const COMPUTES: &str = "rank";
/// Maximum number of features of the learned re-ranker that are printed.
const MAX_FEATURES: usize = 6;
/// Minimum absolute gain of a feature that is printed.
const LEAST_GAIN: f32 = 0.05;

/// Returns the explanation of a hit as text, wrapped to `width` terminal columns, or not wrapped if
/// `width` is `None`; empty without an explanation.
pub(super) fn lines(hit: &HitRecord<'_>, width: Option<usize>) -> String {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for part in hit.explanation.iter().flat_map(|tree| &tree.children) {
        // The line of the hit already has its rank and score.
        if !part.children.is_empty() || !["rank", "score"].contains(&part.name.as_str()) {
            tree_lines(part, INDENT, &mut lines);
        }
    }
    let calls = hit.calls.unwrap_or_default().iter().filter(|call| speaks(call));
    lines.extend(calls.map(|call| (INDENT, told_call(call))));
    let features = hit.features.unwrap_or_default().iter().take(MAX_FEATURES);
    let moved = features.filter(|feature| feature.gain.abs() >= LEAST_GAIN);
    lines.extend(moved.map(|feature| (INDENT, told_feature(feature))));
    let line = |(indent, text): &(usize, String)| wrapped(text, *indent, indent + STEP, width);
    lines.iter().map(line).collect()
}

/// Whether a call found the node itself, rather than only combining or cutting the scores of other
/// calls.
fn speaks(call: &Call) -> bool {
    let computes = registry().iter().any(|spec| spec.name == call.tool && spec.group == COMPUTES);
    !call.value.is_empty() && call.value != false.into() && !computes
}

fn told_call(call: &Call) -> String {
    let line = call.line.map_or(String::new(), |line| format!("line {line}: "));
    let value = match call.value.number() {
        Some(score) => format!("this node {score:.4}"),
        None => "with this node".to_owned(),
    };
    let given = format!("{}({}) = {}", call.tool, call.arguments.join(", "), call.result);
    format!("{line}{}; {value}", plain(given, MAX_PART))
}

fn told_feature(feature: &Feature) -> String {
    let Feature { name, value, gain, .. } = feature;
    format!("re-ranker {gain:+.2}: {} {value:.2}", plain(name, MAX_PART))
}

/// Adds the lines that explain `part`, each with its indent in spaces, to `into`. Children without
/// grandchildren are on the same line as `part`; the other children follow on lines of their own,
/// indented.
fn tree_lines(part: &Explanation, indent: usize, into: &mut Vec<(usize, String)>) {
    let (within, below): (Vec<_>, Vec<_>) = part.children.iter().partition(|child| is_flat(child));
    let within: Vec<String> = within.into_iter().map(inline).collect();
    let head = head(part);
    let line = if within.is_empty() { head } else { format!("{head}: {}", within.join(", ")) };
    into.push((indent, line));
    for child in below {
        tree_lines(child, indent + STEP, into);
    }
}

fn is_flat(part: &Explanation) -> bool {
    part.children.iter().all(|child| child.children.is_empty())
}

fn inline(part: &Explanation) -> String {
    let parts: Vec<String> = part.children.iter().map(head).collect();
    let head = head(part);
    if parts.is_empty() { head } else { format!("{head} ({})", parts.join(", ")) }
}

fn head(part: &Explanation) -> String {
    let name = plain(&part.name, MAX_PART);
    if part.value.is_empty() { name } else { format!("{name} {}", plain(&part.value, MAX_PART)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_kb::answer::Cell;

    fn call(tool: &'static str, value: Cell) -> Call {
        let (category, arguments) = ("a".into(), vec!["\"x\"".to_owned()].into());
        Call { category, line: Some(2), tool, arguments, result: "2 scores: n, m".into(), value }
    }

    #[test]
    fn only_calls_that_found_the_node_are_told() {
        let value = |tool: &'static str, value: Cell| speaks(&call(tool, value));
        assert!(value("search", 1.0.into()) && value("nodes", true.into()));
        assert!(!value("link", Cell::Empty) && !value("nodes", false.into()));
        assert!(!value("top", 1.0.into()), "it keeps what others found");
        let told = told_call(&call("search", 1.0.into()));
        assert_eq!(told, "line 2: search(\"x\") = 2 scores: n, m; this node 1.0000");
    }

    #[test]
    fn trees_are_lines_with_their_leaves_in_them() {
        let leaf = |name: &str, value: f64| Explanation::new(name, value);
        let adds = leaf("adds", 0.25).with([leaf("k", 60.0)]);
        let tree = Explanation::new("hybrid", Cell::Empty).with([
            leaf("rank", 1.0),
            Explanation::new("bm25", Cell::Empty).with([leaf("rank", 2.0), adds]),
        ]);
        let mut lines = Vec::new();
        tree_lines(&tree, 4, &mut lines);
        let expected =
            [(4, "hybrid: rank 1".to_owned()), (6, "bm25: rank 2, adds 0.2500 (k 60)".to_owned())];
        assert_eq!(lines, expected);
    }
}
