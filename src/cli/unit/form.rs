//! Checks the format of unit results before they are collected: the digest of a result proves that
//! it is complete, not that this program wrote it.

use std::collections::HashSet;

use serde_json::Value;

use crate::unit::{Kind, Query};

/// Checks the result `bytes` of a unit against the unit's items; `first` is the number of its first
/// item, from 0.
///
/// # Errors
/// Returns a description of the first mismatch.
pub(super) fn check(kind: &Kind, first: u64, items: &[String], bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("no final line break".to_owned());
    }
    match kind {
        Kind::Answer { .. } => answers(first, items, text),
        Kind::Rank { tag, depth, .. } => rankings(tag, *depth, items, text),
        Kind::Embed { .. } | Kind::Words { .. } | Kind::Evaluate { .. } => Ok(()),
    }
}

/// Checks that `text` has one JSON object per question that is not empty, in order, each with the
/// number of its line.
fn answers(first: u64, items: &[String], text: &str) -> Result<(), String> {
    let asked = (first + 1..).zip(items).filter(|(_, item)| !item.trim().is_empty());
    let mut lines = text.lines();
    for (number, _) in asked {
        let line = lines.next().ok_or_else(|| format!("the answer to line {number} is missing"))?;
        let answer: Option<Value> = serde_json::from_str(line).ok();
        if answer.and_then(|answer| answer.get("line")?.as_u64()) != Some(number) {
            return Err(format!("expected the answer to line {number}"));
        }
    }
    lines.next().map_or(Ok(()), |_| Err("it has more lines than questions".to_owned()))
}

/// Checks that `text` is a run file with the lines of each query together, in the order of `items`:
/// ranks from 1 to at most `depth`, scores that do not rise, no document twice.
fn rankings(tag: &str, depth: usize, items: &[String], text: &str) -> Result<(), String> {
    let mut lines = text.lines().peekable();
    for item in items {
        let query: Query = serde_json::from_str(item).map_err(|error| error.to_string())?;
        let (id, mut rank, mut last) = (query.id.to_string(), 0, f64::INFINITY);
        let mut seen = HashSet::new();
        while let Some(line) = lines.next_if(|line| line.split(' ').next() == Some(id.as_str())) {
            rank += 1;
            let columns: Vec<&str> = line.split(' ').collect();
            let [_, "Q0", document, at, score, of] = columns[..] else {
                return Err(format!("{line:?} is not a line of a run file"));
            };
            let score: f64 = score.parse().unwrap_or(f64::NAN);
            let fits = at.parse() == Ok(rank) && score.is_finite() && score <= last && of == tag;
            if !fits || rank > depth || !seen.insert(document) {
                return Err(format!("{line:?} is not rank {rank} of query {id}"));
            }
            last = score;
        }
    }
    lines.next().map_or(Ok(()), |line| Err(format!("{line:?} belongs to no query of the unit")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(text: &str) -> Result<(), String> {
        let kind = Kind::Rank { system: "bm25".into(), tag: "tag".into(), depth: 2 };
        let items = [7, 9].map(|id| format!("{{\"id\": {id}, \"query\": \"x\"}}"));
        check(&kind, 0, &items, text.as_bytes())
    }

    #[test]
    fn rankings_are_lines_of_the_queries_of_their_unit() {
        assert_eq!(rank("7 Q0 3 1 0.5 tag\n7 Q0 4 2 0.5 tag\n9 Q0 3 1 -1 tag\n"), Ok(()));
        assert_eq!(rank("9 Q0 3 1 1 tag\n"), Ok(()));
        for wrong in [
            "anything\n",
            "7 Q0 3 1 0.5 tag",
            "8 Q0 3 1 0.5 tag\n",
            "7 Q0 3 1 NaN tag\n",
            "7 Q0 3 1 inf tag\n",
            "7 Q0 3 2 0.5 tag\n",
            "7 Q0 3 1 0.5 other\n",
            "7 Q0 3 1 0.5 tag more\n",
            "9 Q0 3 1 0.5 tag\n7 Q0 3 1 0.5 tag\n",
            "7 Q0 3 1 0.5 tag\n7 Q0 3 2 0.4 tag\n",
            "7 Q0 3 1 0.5 tag\n7 Q0 4 2 0.6 tag\n",
            "7 Q0 3 1 3 tag\n7 Q0 4 2 2 tag\n7 Q0 5 3 1 tag\n",
        ] {
            assert!(rank(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_are_one_object_a_question() {
        let items = ["{\"query\": \"a\"}", "", "{\"query\": \"b\"}"].map(str::to_owned);
        let answer = |text: &str| check(&Kind::Answer { k: 1 }, 4, &items, text.as_bytes());
        assert_eq!(answer("{\"line\":5}\n{\"line\":7,\"error\":\"x\"}\n"), Ok(()));
        for wrong in ["", "{\"line\":5}\n", "{\"line\":7}\n{\"line\":5}\n", "5\n7\n", "x\ny\n"] {
            assert!(answer(wrong).is_err(), "{wrong}");
        }
        assert!(answer("{\"line\":5}\n{\"line\":7}\n{\"line\":8}\n").is_err());
    }
}
