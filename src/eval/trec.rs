//! Writes rankings and answers as TREC run and qrels files, for `trec_eval` and its relatives.
//!
//! ```text
//! run   = *( query-id " Q0 " node-id " " rank " " score " " tag LF )     ; rank from 1
//! qrels = *( query-id " 0 " node-id " 1" LF )
//! ```
//!
//! `trec_eval` ignores the rank column: it sorts by score in single precision and breaks ties by
//! *descending* document name. Scores written here therefore fall strictly: one that ties with its
//! predecessor is written as the next smaller `f32`, so that the order read is the order given.
//! Those tools know nothing of unnamed candidates, so their figures without a cut-off can be lower.

use std::io::{self, Write};

use crate::eval::NodeId;

/// Longest run tag in bytes; tools print it in a table.
pub const MAX_TAG_BYTES: usize = 64;

/// Why a TREC file cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrecError {
    /// The tag is empty, too long or has a space, which would add a column.
    #[error("run tag {tag:?} must have 1 to {MAX_TAG_BYTES} bytes and no white space")]
    Tag {
        /// The tag as given.
        tag: String,
    },
    /// A score is not finite, or ties ran below the smallest `f32`.
    #[error("query {query_id}: the score of node {node} is not a finite number")]
    Score {
        /// The query's id.
        query_id: i64,
        /// The node.
        node: NodeId,
    },
    /// The ranking is not best first.
    #[error("query {query_id}: node {node} scores more than the one before it; sort best first")]
    Order {
        /// The query's id.
        query_id: i64,
        /// The first node out of order.
        node: NodeId,
    },
    /// The file or pipe failed.
    #[error("cannot write the TREC file")]
    Io(#[from] io::Error),
}

/// Writes one query's ranking, best first, as run lines.
///
/// Give the writer a buffer; each line is one small write.
///
/// # Errors
/// [`TrecError`]; what was written before the error stays written.
pub fn write_run(
    out: &mut (impl Write + ?Sized),
    query_id: i64,
    ranking: &[(NodeId, f32)],
    tag: &str,
) -> Result<(), TrecError> {
    if tag.is_empty() || tag.len() > MAX_TAG_BYTES || tag.contains(char::is_whitespace) {
        return Err(TrecError::Tag { tag: tag.to_owned() });
    }
    let mut ceiling = f32::MAX;
    let mut previous = f32::MAX;
    for (i, &(node, score)) in ranking.iter().enumerate() {
        if score > previous {
            return Err(TrecError::Order { query_id, node });
        }
        let written = score.min(ceiling);
        if !score.is_finite() || !written.is_finite() {
            return Err(TrecError::Score { query_id, node });
        }
        // Debug output is the shortest text that reads back as the same number.
        writeln!(out, "{query_id} Q0 {node} {} {written:?} {tag}", i + 1)?;
        ceiling = written.next_down();
        previous = score;
    }
    Ok(())
}

/// Writes one query's answers as qrels lines, by ascending node id, repeats once.
///
/// # Errors
/// [`TrecError::Io`].
pub fn write_qrels(
    out: &mut (impl Write + ?Sized),
    query_id: i64,
    answers: &[NodeId],
) -> Result<(), TrecError> {
    let mut answers = answers.to_vec();
    answers.sort_unstable();
    answers.dedup();
    for answer in answers {
        writeln!(out, "{query_id} 0 {answer} 1")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_scores_fall_strictly_and_stay_close() {
        let ranking = [(9, 2.5), (5, 2.5), (7, 2.5), (1, 0.0), (2, -0.0), (3, -1.0)];
        let mut out = Vec::new();
        write_run(&mut out, 12, &ranking, "hybrid").unwrap();
        let text = String::from_utf8(out).unwrap();
        let first = text.lines().next();
        assert_eq!(first, Some("12 Q0 9 1 2.5 hybrid"));
        let read: Vec<(u32, f32)> = text
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .map(|columns| (columns[2].parse().unwrap(), columns[4].parse().unwrap()))
            .collect();
        assert!(read.windows(2).all(|pair| pair[0].1 > pair[1].1), "{read:?}");
        for (given, read) in ranking.iter().zip(&read) {
            assert_eq!(given.0, read.0);
            assert!((given.1 - read.1).abs() <= 1e-6, "{given:?} {read:?}");
        }
    }

    #[test]
    fn refuses_what_a_reader_would_misread() {
        let run = |ranking: &[(u32, f32)], tag| write_run(&mut Vec::new(), 1, ranking, tag);
        assert!(matches!(run(&[], "two words"), Err(TrecError::Tag { .. })));
        assert!(matches!(run(&[], ""), Err(TrecError::Tag { .. })));
        assert!(matches!(run(&[(4, f32::NAN)], "t"), Err(TrecError::Score { node: 4, .. })));
        assert!(run(&[(4, f32::INFINITY)], "t").is_err());
        let order = run(&[(4, 1.0), (5, 2.0)], "t");
        assert!(matches!(order, Err(TrecError::Order { node: 5, .. })));
    }

    #[test]
    fn qrels_are_sorted_and_distinct() {
        let mut out = Vec::new();
        write_qrels(&mut out, 3, &[8, 2, 8]).unwrap();
        assert_eq!(out, b"3 0 2 1\n3 0 8 1\n");
    }
}
