//! Short line-based diff between an earlier program and the current program, for prompts.

use similar::{ChangeTag, TextDiff};

use crate::actor::execution_trace::cut;

/// Maximum number of lines of a diff; one more line states the number of omitted lines.
const LINES: usize = 14;
/// Maximum length in characters of a line of a diff.
const LINE_CHARS: usize = 100;

/// Returns the lines that only the earlier program (marked `-`) or only the current program (marked
/// `+`) has, in order. Omits blank lines, comments and parameter declarations.
pub(super) fn changes(earlier: &str, current: &str) -> String {
    let diff = TextDiff::from_lines(earlier, current);
    let lines = diff.iter_all_changes().filter_map(|change| {
        let sign = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => return None,
        };
        let text = change.value().trim();
        let says = !text.is_empty() && !text.starts_with("//") && !text.contains("#{ value:");
        says.then(|| format!("{sign} {}", cut(text, LINE_CHARS)))
    });
    let mut lines: Vec<String> = lines.collect();
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    if more > 0 {
        lines.push(format!("and {more} lines more"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_lines_are_listed_without_comments() {
        let (earlier, current) = ("// x\na\nb\n\nc\n", "// y\na\nd\nc\n");
        assert_eq!(changes(earlier, current), "- b\n+ d");
        assert_eq!(changes(earlier, earlier), "");
        let long: String = (0..50).map(|n| format!("line {n}\n")).collect();
        let text = changes("", &long);
        assert_eq!((text.lines().count(), text.lines().last()), (15, Some("and 36 lines more")));
    }
}
