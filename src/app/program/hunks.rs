//! Splits the difference of two source texts into single changes, and applies each to the first
//! source. Knows nothing of their language except that comment lines begin with `//`.

use similar::{DiffOp, TextDiff};

/// One change: neighbouring lines that are removed, added, or both.
pub(super) struct Hunk {
    /// Line of the first source at which the change begins, from 1; for added lines only, the line
    /// before which they are added.
    pub(super) line: usize,
    /// The removed lines, each after `-`, then the added lines, each after `+`.
    pub(super) text: String,
    /// The first source with only this change.
    pub(super) alone: String,
    /// The first source with this change and all earlier ones.
    pub(super) so_far: String,
    /// Whether the change removes and adds only comment lines.
    pub(super) comments: bool,
}

/// Returns the changes that turn the source `from` into the source `to`, in the order of lines.
pub(super) fn hunks(from: &str, to: &str) -> Vec<Hunk> {
    let diff = TextDiff::from_lines(from, to);
    let old: Vec<&str> = from.split_inclusive('\n').collect();
    let new: Vec<&str> = to.split_inclusive('\n').collect();
    let of = |lines: &[&str], range: std::ops::Range<usize>| -> Vec<String> {
        lines.get(range).unwrap_or_default().iter().map(|&line| ended(line)).collect()
    };
    let changes = diff.ops().iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    changes
        .map(|op| {
            let (gone, put) = (of(&old, op.old_range()), of(&new, op.new_range()));
            let signed = |sign: char, lines: &[String]| -> String {
                lines.iter().map(|line| format!("{sign}{line}")).collect()
            };
            let before = of(&old, 0..op.old_range().start);
            let after = of(&old, op.old_range().end..old.len());
            let comments = gone.iter().chain(&put).all(|line| line.trim_start().starts_with("//"));
            let until = of(&new, 0..op.new_range().end);
            Hunk {
                line: op.old_range().start + 1,
                text: [signed('-', &gone), signed('+', &put)].concat(),
                so_far: [until, after.clone()].concat().concat(),
                alone: [before, put, after].concat().concat(),
                comments,
            }
        })
        .collect()
}

fn ended(line: &str) -> String {
    if line.ends_with('\n') { line.to_owned() } else { format!("{line}\n") }
}

#[cfg(test)]
mod tests {
    use super::hunks;

    #[test]
    fn each_change_is_made_alone_and_after_those_before_it() {
        let (from, to) = ("a\nb\nc\nd\n// e", "a\nB\nc\nd\n// f\n// g");
        let all = hunks(from, to);
        let [first, second] = all.as_slice() else { panic!("{} changes", all.len()) };
        assert_eq!((first.line, first.text.as_str()), (2, "-b\n+B\n"));
        assert_eq!((second.line, second.text.as_str()), (5, "-// e\n+// f\n+// g\n"));
        assert_eq!([first.comments, second.comments], [false, true]);
        assert_eq!(first.alone, "a\nB\nc\nd\n// e\n");
        assert_eq!(first.so_far, first.alone);
        assert_eq!(second.alone, "a\nb\nc\nd\n// f\n// g\n");
        assert_eq!(second.so_far, format!("{to}\n"));
        assert!(hunks(from, from).is_empty());
        assert_eq!(hunks("a\n", "")[0].alone, "");
    }
}
