//! Checks the format of unit results before they are collected: the digest of a result proves that
//! it is complete, not that this program wrote it.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use super::{Kind, Query};
use crate::query::batch::Question;
use agent_kb::{Kb, NodeId};
use agent_retrieve::{check_query, eval::trec::DocIds};

/// Data that results must match, in addition to the items of their units.
pub(super) struct Known<'a> {
    pub(super) kind: &'a Kind,
    /// Digest of the bundle that the plan holds; empty without a bundle.
    pub(super) bundle: &'a str,
    /// The planned base, if it is installed here.
    pub(super) kb: Option<&'a Kb>,
}

/// The checked part of an output line of a unit of answers.
#[derive(Deserialize)]
struct AnswerLine {
    line: u64,
    id: Option<Value>,
    query: Option<String>,
    bundle: Option<String>,
    hits: Option<Vec<Hit>>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Hit {
    rank: usize,
    id: NodeId,
    key: String,
    #[serde(rename = "type")]
    node_type: String,
    name: String,
    score: f32,
}

impl Known<'_> {
    /// Checks the result `bytes` of a unit against the unit's items; `first` is the number of its
    /// first item, from 0.
    ///
    /// # Errors
    /// Returns a description of the first mismatch.
    pub(super) fn check(&self, first: u64, items: &[String], bytes: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())?;
        if !text.is_empty() && !text.ends_with('\n') {
            return Err("no final line break".to_owned());
        }
        match self.kind {
            Kind::Answer { k } => self.answers(*k, first, items, text),
            Kind::Rank { tag, depth, .. } => self.rankings((tag, *depth), items, text),
            Kind::Embed { .. } | Kind::Words { .. } | Kind::Evaluate { .. } => Ok(()),
        }
    }

    /// Checks that `text` has one JSON object per non-empty question, in order. Each must have the
    /// line number, text and id of its question, the bundle of the plan, and at most `k` nodes.
    fn answers(&self, k: usize, first: u64, items: &[String], text: &str) -> Result<(), String> {
        let asked = (first + 1..).zip(items).filter(|(_, item)| !item.trim().is_empty());
        let mut lines = text.lines();
        for (number, item) in asked {
            let line =
                lines.next().ok_or_else(|| format!("the answer to line {number} is missing"))?;
            let answer: Option<AnswerLine> = serde_json::from_str(line).ok();
            if !answer.is_some_and(|answer| self.is_answer(&answer, k, number, item.trim())) {
                return Err(format!("expected the answer to line {number}"));
            }
        }
        lines.next().map_or(Ok(()), |_| Err("more lines than questions".to_owned()))
    }

    /// Whether `answer` can be the answer, with at most `k` nodes, to the question `item` in line
    /// `number`.
    fn is_answer(&self, answer: &AnswerLine, k: usize, number: u64, item: &str) -> bool {
        let (query, id) = match serde_json::from_str(item) {
            Ok(Question { query, id }) => (check_query(&query).ok().map(str::to_owned), id),
            Err(_) => (None, None),
        };
        let is_from = match &answer.error {
            Some(_) => answer.query.is_none() && answer.hits.is_none(),
            None => {
                query.is_some()
                    && answer.query == query
                    && answer.bundle.as_deref() == Some(self.bundle)
                    && answer.hits.as_deref().is_some_and(|hits| self.are_hits(hits, k))
            }
        };
        answer.line == number && answer.id == id && is_from
    }

    /// Whether `hits` holds at most `k` hits with ranks from 1 and no node twice. If the base is
    /// known, names, types and keys must match its nodes. Scores may rise: conditions of a question
    /// move nodes to the front.
    fn are_hits(&self, hits: &[Hit], k: usize) -> bool {
        let mut seen = HashSet::new();
        let is_node = |kb: &Kb, hit: &Hit| {
            kb.contains(hit.id)
                && hit.name == kb.name(hit.id)
                && hit.node_type == kb.type_name(kb.node_type(hit.id))
                && hit.key == kb.key(hit.id)
        };
        hits.len() <= k
            && (1..).zip(hits).all(|(rank, hit)| {
                hit.rank == rank
                    && hit.score.is_finite()
                    && seen.insert(hit.id)
                    && self.kb.is_none_or(|kb| is_node(kb, hit))
            })
    }

    /// Checks that `text` is a run file with the lines of each query together, in the order of
    /// `items`: ranks from 1 to at most `depth`, scores that do not rise, no document twice, and
    /// only nodes of the base.
    fn rankings(
        &self,
        (tag, depth): (&str, usize),
        items: &[String],
        text: &str,
    ) -> Result<(), String> {
        let ids = self.kb.map(DocIds::of_base);
        let mut lines = text.lines().peekable();
        for item in items {
            let query: Query = serde_json::from_str(item).map_err(|error| error.to_string())?;
            let (id, mut rank, mut last) = (query.id.to_string(), 0, f32::INFINITY);
            let mut seen = HashSet::new();
            while let Some(line) = lines.next_if(|line| line.split(' ').next() == Some(id.as_str()))
            {
                rank += 1;
                let columns: Vec<&str> = line.split(' ').collect();
                let [_, "Q0", document, at, score, of] = columns[..] else {
                    return Err(format!("{line:?} is not a line of a run file"));
                };
                let score: f32 = score.parse().unwrap_or(f32::NAN);
                let fits =
                    at.parse() == Ok(rank) && score.is_finite() && score <= last && of == tag;
                let is_node = ids.is_none_or(|ids| ids.node(document).is_ok());
                if !fits || !is_node || rank > depth || !seen.insert(document) {
                    return Err(format!("{line:?} is not rank {rank} of query {id}"));
                }
                last = score;
            }
        }
        lines.next().map_or(Ok(()), |line| Err(format!("{line:?} belongs to no query of the unit")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use agent_testing::example_base;

    fn rank(text: &str) -> Result<(), String> {
        let kind = Kind::Rank { system: "bm25".into(), tag: "tag".into(), depth: 2 };
        let items = [7, 9].map(|id| format!("{{\"id\": {id}, \"query\": \"x\"}}"));
        Known { kind: &kind, bundle: "", kb: None }.check(0, &items, text.as_bytes())
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
            "7 Q0 3 1 1e39 tag\n",
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
        let items = [r#"{"query": " a ", "id": [7]}"#, "", "no json"].map(str::to_owned);
        let base = example_base();
        let kb = &base.kb;
        let answered = |known: Option<&Kb>, text: &str| {
            let known = Known { kind: &Kind::Answer { k: 2 }, bundle: "digest", kb: known };
            known.check(4, &items, text.as_bytes())
        };
        let answer = |text: &str| answered(Some(kb), text);
        let hit = |rank: usize, id: NodeId| {
            let node_type = kb.type_name(kb.node_type(id));
            let (key, name) = (kb.key(id), kb.name(id));
            json!({"rank": rank, "id": id, "key": key, "type": node_type, "name": name, "score": 0.5, "path": []})
        };
        let with = |hits: Value| {
            let first =
                json!({"line": 5, "id": [7], "query": "a", "bundle": "digest", "hits": hits});
            format!("{first}\n{{\"line\":7,\"error\":\"x\"}}\n")
        };
        let (whole, last) = (with(json!([hit(1, 3), hit(2, 1)])), kb.n_nodes() - 1);
        assert_eq!(answer(&whole), Ok(()));
        // Fewer nodes than requested, such as an answer that is a value.
        for hits in [json!([]), json!([hit(1, 0)]), json!([hit(1, last), hit(2, 0)])] {
            assert_eq!(answer(&with(hits)), Ok(()));
        }
        let failed = "{\"line\":5,\"id\":[7],\"error\":\"x\"}\n{\"line\":7,\"error\":\"x\"}\n";
        assert_eq!(answer(failed), Ok(()));
        for wrong in ["", "{\"line\":5}\n", "5\n7\n", "x\ny\n"] {
            assert!(answer(wrong).is_err(), "{wrong}");
        }
        for (right, wrong) in [
            ("\"line\":5", "\"line\":6"),
            ("[7]", "[8]"),
            ("\"id\":[7],", ""),
            ("\"a\"", "\"b\""),
            ("digest", "other"),
            ("\"id\":3", "\"id\":-1"),
            ("0.5", "1e39"),
            ("0.5", "null"),
            ("\"hits\"", "\"hit\""),
            ("\"rank\":2", "\"rank\":[]"),
            ("\"error\":\"x\"", "\"query\":\"no json\",\"bundle\":\"digest\""),
            ("\"error\":\"x\"", "\"error\":\"x\",\"hits\":[]"),
        ] {
            assert!(whole.contains(right), "{right}");
            assert!(answer(&whole.replace(right, wrong)).is_err(), "{wrong}");
        }
        for hits in [
            json!([hit(1, 0), hit(2, 1), hit(3, 2)]),
            json!([hit(1, 3), hit(2, 3)]),
            json!([hit(2, 1), hit(1, 3)]),
            json!([hit(1, 3), hit(99, 1)]),
        ] {
            assert!(answered(None, &with(hits.clone())).is_err(), "{hits}");
        }
        // Names, types and keys are those of the base, if it is installed.
        for (field, wrong) in [
            ("id", json!(last + 1)),
            ("name", json!("other")),
            ("name", json!("\u{1b}[2J")),
            ("type", json!("other")),
            ("key", json!("other")),
        ] {
            let mut hit = hit(1, 3);
            hit[field] = wrong;
            let text = with(json!([hit]));
            assert_eq!((answer(&text).is_err(), answered(None, &text)), (true, Ok(())), "{text}");
        }
        assert!(answer(&format!("{whole}{{\"line\":8}}\n")).is_err());
    }
}
