//! TREC run and qrels files: writes rankings and answers for `trec_eval` and related tools, and
//! reads run files of any origin.
//!
//! ```text
//! run   = *( query-id " Q0 " node-id " " rank " " score " " tag LF )     ; rank from 1
//! qrels = *( query-id " 0 " node-id " 1" LF )
//! ```
//!
//! Nodes have the ids of the user's data ([`DocIds`]). White space in an id would add a column, so
//! in an id with white space, white space and `%` are percent-encoded (`a b` as `a%20b`). Reading
//! decodes such an id unless a node has exactly the encoded id.
//!
//! `trec_eval` ignores the rank column: it sorts by score in single precision and breaks ties by
//! *descending* document name. Written scores therefore decrease strictly: a score that is not
//! below the previously written score becomes the next smaller `f32`, which preserves the order.
//! TREC tools ignore unranked candidates, so their metrics without a cut-off can be lower than
//! ours.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    io::{self, BufRead, Read, Write},
};

use crate::eval::NodeId;
use agent_dataset::{id_of, node_of_id};
use agent_kb::{Kb, best, distinct};

/// Maximum length in bytes of a run tag.
pub const MAX_TAG_BYTES: usize = 64;

/// Maximum length in bytes of a line of a run file.
const MAX_LINE_BYTES: u64 = 4 << 10;
/// Maximum number of nodes that are kept from a run file; each takes 8 bytes.
const MAX_KEPT: usize = 1 << 28;

/// Why a TREC file cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrecError {
    /// The tag is empty, too long or contains white space, which would add a column.
    #[error("run tag {tag:?} must have 1 to {MAX_TAG_BYTES} bytes and no white space")]
    Tag {
        /// The invalid tag.
        tag: String,
    },
    /// A score is not finite, or breaking a tie would pass the smallest finite `f32`.
    #[error("query {query_id}: the score of node {node} is not a finite number")]
    Score {
        /// The query's id.
        query_id: i64,
        /// The node with this score.
        node: NodeId,
    },
    /// The ranking is not best first.
    #[error(
        "query {query_id}: node {node} has a higher score than the previous node; sort best first"
    )]
    Order {
        /// The query's id.
        query_id: i64,
        /// The first node that is out of order.
        node: NodeId,
    },
    /// The text in a node's column would be read as the id of another node.
    #[error(
        "query {query_id}: the id {id:?} is ambiguous in a TREC file: another node has it; rename one \
         of them"
    )]
    Id {
        /// The query's id.
        query_id: i64,
        /// The id as it would be written.
        id: String,
    },
    /// The output cannot be written.
    #[error("cannot write the TREC file")]
    Io(#[from] io::Error),
}

/// Why a run file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A line is malformed.
    #[error("line {line}: {reason}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong with the line.
        reason: String,
    },
    /// A query names a node twice.
    #[error("query {query_id} names node {node} twice; name each node once")]
    Repeated {
        /// The query's id.
        query_id: i64,
        /// The node's id.
        node: String,
    },
    /// The file names too many nodes for the wanted queries.
    #[error("the file names more than {MAX_KEPT} nodes for these queries; shorten its rankings")]
    TooLong,
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Io(#[from] io::Error),
}

/// How run and qrels files identify the nodes of a base.
#[derive(Clone, Copy)]
pub enum DocIds<'a> {
    /// By node number, below this value; for a base whose data has no ids.
    Numbers(u32),
    /// By the ids in the data of this base.
    Keys(&'a Kb),
}

impl<'a> DocIds<'a> {
    /// Chooses how to identify the nodes of a base.
    pub fn of_base(kb: &'a Kb) -> Self {
        match kb.has_keys() {
            true => DocIds::Keys(kb),
            false => DocIds::Numbers(kb.n_nodes()),
        }
    }

    /// Returns the text of a node's column in a run or qrels file.
    ///
    /// # Errors
    /// The text of the column, if reading it would not return this node.
    pub fn column(self, node: NodeId) -> Result<String, String> {
        let DocIds::Keys(kb) = self else { return Ok(node.to_string()) };
        let id = id_of(kb, node);
        let column = match id.contains(char::is_whitespace) {
            true => escaped(&id),
            false => id.into_owned(),
        };
        match self.node(&column) {
            Ok(read) if read == node => Ok(column),
            _ => Err(column),
        }
    }

    /// Returns the node whose column has this text.
    ///
    /// # Errors
    /// The reason why the text identifies no node of the base.
    pub fn node(self, column: &str) -> Result<NodeId, String> {
        match self {
            DocIds::Numbers(n_nodes) => {
                let known = column.parse().ok().filter(|&id: &NodeId| id < n_nodes);
                known
                    .ok_or_else(|| format!("the node {column:?} is not a node number of this base"))
            }
            DocIds::Keys(kb) => {
                let plain = || node_of_id(kb, &unescaped(column)?).ok();
                node_of_id(kb, column).or_else(|error| plain().ok_or_else(|| error.to_string()))
            }
        }
    }
}

/// Percent-encodes white space and `%` in an id.
fn escaped(id: &str) -> String {
    let mut column = String::with_capacity(id.len() + 8);
    for (start, c) in id.char_indices() {
        if c == '%' || c.is_whitespace() {
            for byte in id[start..start + c.len_utf8()].bytes() {
                let _ = write!(column, "%{byte:02X}");
            }
        } else {
            column.push(c);
        }
    }
    column
}

/// Decodes a percent-encoded id; `None` if it has no `%` or the encoding is invalid.
fn unescaped(column: &str) -> Option<String> {
    let (first, rest) = column.split_once('%')?;
    let mut bytes = first.as_bytes().to_vec();
    for part in rest.split('%') {
        let (digits, rest) = part.split_at_checked(2)?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Reads the rankings of the wanted queries from run lines in any order. A ranking is sorted by
/// score descending, then id ascending; the rank column is ignored. Queries without lines have no
/// entry.
///
/// Every line that is not blank must have six columns and a query id; other columns of unwanted
/// queries are not checked. Time is O(file + n log n) for n kept nodes; memory is O(n).
///
/// # Errors
/// [`ReadError`], also for an unknown node id.
pub fn read_run(
    input: &mut impl BufRead,
    ids: DocIds<'_>,
    wanted: &HashSet<i64>,
) -> Result<HashMap<i64, Vec<(NodeId, f32)>>, ReadError> {
    let mut rankings = HashMap::<i64, Vec<(NodeId, f32)>>::new();
    let (mut text, mut kept) = (Vec::new(), 0);
    for line in 1.. {
        text.clear();
        if input.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut text)? == 0 {
            break;
        }
        let wrong = |reason: String| ReadError::Line { line, reason };
        if text.len() as u64 > MAX_LINE_BYTES {
            return Err(wrong(format!("the line exceeds {MAX_LINE_BYTES} bytes")));
        }
        let text =
            std::str::from_utf8(&text).map_err(|_| wrong("it is not valid UTF-8".to_owned()))?;
        if text.trim().is_empty() {
            continue;
        }
        let (query_id, pair) = read_line(text, ids, wanted).map_err(wrong)?;
        let Some(pair) = pair else { continue };
        kept += 1;
        if kept > MAX_KEPT {
            return Err(ReadError::TooLong);
        }
        rankings.entry(query_id).or_default().push(pair);
    }
    for (&query_id, ranking) in &mut rankings {
        ranking.sort_unstable_by_key(|pair| pair.0);
        if let Some(twice) = ranking.windows(2).find(|pairs| pairs[0].0 == pairs[1].0) {
            let (Ok(node) | Err(node)) = ids.column(twice[0].0);
            return Err(ReadError::Repeated { query_id, node });
        }
        let k = ranking.len();
        *ranking = best(std::mem::take(ranking), k);
    }
    Ok(rankings)
}

/// Reads the query id of a run line; if the query is wanted, also the node and its score.
fn read_line(
    text: &str,
    ids: DocIds<'_>,
    wanted: &HashSet<i64>,
) -> Result<(i64, Option<(NodeId, f32)>), String> {
    let columns: Vec<&str> = text.split_whitespace().collect();
    let [query_id, _, node, _, score, _] = columns[..] else {
        return Err(format!("found {} columns; expected six", columns.len()));
    };
    let query_id =
        query_id.parse().map_err(|_| format!("the query {query_id:?} is not a number"))?;
    if !wanted.contains(&query_id) {
        return Ok((query_id, None));
    }
    let node = ids.node(node)?;
    let finite = score.parse().ok().filter(|score: &f32| score.is_finite());
    let score = finite.ok_or_else(|| format!("the score {score:?} is not a finite number"))?;
    Ok((query_id, Some((node, score))))
}

/// Writes one query's ranking, best first, as run lines.
///
/// Use a buffered writer: each line is one small write.
///
/// # Errors
/// [`TrecError`]; lines written before the error remain.
pub fn write_run(
    out: &mut (impl Write + ?Sized),
    ids: DocIds<'_>,
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
        let node = ids.column(node).map_err(|id| TrecError::Id { query_id, id })?;
        // Debug output is the shortest text that reads back as the same number.
        writeln!(out, "{query_id} Q0 {node} {} {written:?} {tag}", i + 1)?;
        ceiling = written.next_down();
        previous = score;
    }
    Ok(())
}

/// Writes one query's answers as qrels lines, by ascending node number, duplicates once.
///
/// # Errors
/// [`TrecError::Id`], [`TrecError::Io`].
pub fn write_qrels(
    out: &mut (impl Write + ?Sized),
    ids: DocIds<'_>,
    query_id: i64,
    answers: &[NodeId],
) -> Result<(), TrecError> {
    for answer in distinct(answers.to_vec()) {
        let node = ids.column(answer).map_err(|id| TrecError::Id { query_id, id })?;
        writeln!(out, "{query_id} 0 {node} 1")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: DocIds<'_> = DocIds::Numbers(10);

    #[test]
    fn written_scores_fall_strictly_and_stay_close() {
        let ranking = [(9, 2.5), (5, 2.5), (7, 2.5), (1, 0.0), (2, -0.0), (3, -1.0)];
        let mut out = Vec::new();
        write_run(&mut out, TEN, 12, &ranking, "hybrid").unwrap();
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
    fn what_is_written_is_read_in_its_order() {
        let rankings = [(12, vec![(9, 2.5), (5, 2.5), (7, 2.5), (1, -1.0)]), (3, vec![(4, 0.5)])];
        let mut out = Vec::new();
        for (query_id, ranking) in &rankings {
            write_run(&mut out, TEN, *query_id, ranking, "tag").unwrap();
        }
        let read = read_run(&mut &out[..], TEN, &HashSet::from([12, 3, 8])).unwrap();
        assert_eq!(read.len(), 2);
        for (query_id, ranking) in &rankings {
            let ids = |ranking: &[(NodeId, f32)]| ranking.iter().map(|p| p.0).collect::<Vec<_>>();
            assert_eq!(ids(&read[query_id]), ids(ranking));
        }
        // The rank column is ignored; ties are by ascending id.
        let other = b"3 Q0 6 1 0.5 t\n\n3 Q0 2 2 0.5 t\n3 Q0 8 9 1e1 t\n4 Q0 none 1 x t";
        let read = read_run(&mut &other[..], TEN, &HashSet::from([3])).unwrap();
        assert_eq!(read[&3], [(8, 10.0), (2, 0.5), (6, 0.5)]);
    }

    #[test]
    fn malformed_run_lines_are_refused_with_their_number() {
        for (lines, expected) in [
            ("3 Q0 1 1 0.5 t\n3 Q0 2 2 0.5\n", "line 2: found 5 columns"),
            ("q3 Q0 1 1 0.5 t\n", "line 1: the query \"q3\""),
            ("3 Q0 10 1 0.5 t\n", "line 1: the node \"10\""),
            ("3 Q0 1 1 NaN t\n", "line 1: the score \"NaN\""),
            ("3 Q0 1 1 2 t\n3 Q0 1 2 1 t\n", "query 3 names node 1 twice"),
            (&"3".repeat(5000), "line 1: the line exceeds 4096 bytes"),
        ] {
            let read = read_run(&mut lines.as_bytes(), TEN, &HashSet::from([3]));
            let error = read.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn refuses_what_a_reader_would_misread() {
        let run = |ranking: &[(u32, f32)], tag| write_run(&mut Vec::new(), TEN, 1, ranking, tag);
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
        write_qrels(&mut out, TEN, 3, &[8, 2, 8]).unwrap();
        assert_eq!(out, b"3 0 2 1\n3 0 8 1\n");
    }

    #[test]
    fn white_space_in_an_id_is_escaped_and_other_ids_stand_as_they_are() {
        for (id, column) in [("a b%", "a%20b%25"), ("ä\u{a0}\tb", "ä%C2%A0%09b")] {
            assert_eq!((escaped(id).as_str(), unescaped(column).as_deref()), (column, Some(id)));
        }
        for column in ["50", "50%", "5%zz", "5%2", "%+1", "%ff", "%é"] {
            assert_eq!(unescaped(column), None, "{column}");
        }
    }
}
