//! The single changes between two sources, and the first source with one of them. Must not know
//! what the sources mean.

use similar::{DiffOp, TextDiff};

/// One change.
pub(super) struct Hunk {
    /// First line of the change in the first source, from 1; of an insertion the line it comes
    /// before.
    pub(super) line: usize,
    /// The lines taken away, with `-`, and those put there, with `+`.
    pub(super) text: String,
    /// The first source with this change alone.
    pub(super) source: String,
}

/// All changes from one source to another, in the order of their lines.
pub(super) fn hunks(from: &str, to: &str) -> Vec<Hunk> {
    let diff = TextDiff::from_lines(from, to);
    let old: Vec<&str> = from.split_inclusive('\n').collect();
    let new: Vec<&str> = to.split_inclusive('\n').collect();
    let of = |lines: &[&str], range: std::ops::Range<usize>| -> Vec<String> {
        lines.get(range).unwrap_or_default().iter().map(|&line| ended(line)).collect()
    };
    let changes: Vec<DiffOp> =
        diff.ops().iter().filter(|op| !matches!(op, DiffOp::Equal { .. })).copied().collect();
    changes
        .iter()
        .map(|op| {
            let (gone, put) = (of(&old, op.old_range()), of(&new, op.new_range()));
            let signed = |sign: char, lines: &[String]| -> String {
                lines.iter().map(|line| format!("{sign}{line}")).collect()
            };
            let before = of(&old, 0..op.old_range().start);
            let after = of(&old, op.old_range().end..old.len());
            Hunk {
                line: op.old_range().start + 1,
                text: [signed('-', &gone), signed('+', &put)].concat(),
                source: [before, put, after].concat().concat(),
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
    fn each_change_is_applied_alone_and_all_together_give_the_second_source() {
        let (from, to) = ("a\nb\nc\nd\ne", "a\nB\nc\nd\nd2\ne");
        let of: Vec<(usize, String, String)> =
            hunks(from, to).into_iter().map(|hunk| (hunk.line, hunk.text, hunk.source)).collect();
        assert_eq!(
            of,
            [
                (2, "-b\n+B\n".to_owned(), "a\nB\nc\nd\ne\n".to_owned()),
                (5, "+d2\n".to_owned(), "a\nb\nc\nd\nd2\ne\n".to_owned()),
            ]
        );
        assert!(hunks(from, from).is_empty());
        assert_eq!(hunks("a\n", "")[0].source, "");
    }
}
