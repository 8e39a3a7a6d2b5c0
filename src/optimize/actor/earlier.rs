//! Earlier attempts at a category's program, for prompts: what was tried and what came of it, in a
//! line each, and in what the two most telling programs differ from the one at hand.
//!
//! A score stands beside that of the present program on the same queries, whatever queries a program
//! was measured on.
//!
//! Must not know: how programs are written, how they are measured.

use std::cmp::Ordering;

use serde_json::{Value, json};

use crate::{
    actor::{changes::changes, execution_trace::cut},
    category_programs::CategoryProgram,
    trial::mean,
};

/// Attempts that are remembered of a category, the latest.
const REMEMBERED: usize = 8;
/// Characters of what an attempt did, and of why there is no program.
const WHAT_CHARS: usize = 280;
const WHY_CHARS: usize = 160;
/// Queries that a program lost or gained that are told, and characters of each.
const DIFFERENCES: usize = 3;
const QUERY_CHARS: usize = 200;

/// An attempt at a better program.
#[derive(Clone, Debug)]
pub(super) struct Earlier {
    /// What it did, in its author's words.
    what: String,
    outcome: Outcome,
}

/// What came of an attempt.
#[derive(Clone, Debug)]
enum Outcome {
    Measured(Measured),
    /// There is no program that could be measured, and why.
    Nothing(String),
}

/// A program that was measured.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Its text.
    pub(super) source: String,
    /// The training queries that it was run on, and its reciprocal ranks on them.
    pub(super) queries: Vec<usize>,
    pub(super) ranks: Vec<f32>,
    /// The mean reciprocal rank of the program that the category had.
    pub(super) before: f64,
    /// Whether it became the category's program.
    pub(super) kept: bool,
}

impl Measured {
    /// Its mean reciprocal rank.
    fn score(&self) -> f64 {
        mean(&self.ranks)
    }

    /// The queries that it answers worse than the present program (`lost`) and better (`gained`),
    /// each with both reciprocal ranks, the present one first; those that differ most, ties in order.
    fn differences<'a>(
        &self,
        present: &CategoryProgram,
        text: impl Fn(usize) -> &'a str,
    ) -> [Vec<String>; 2] {
        let pairs = self.queries.iter().zip(&self.ranks);
        let mut differing: Vec<(usize, f32, f32)> = pairs
            .map(|(&query, &rank)| (query, present.train[query], rank))
            .filter(|(_, now, rank)| now != rank)
            .collect();
        differing.sort_by(|a, b| (b.1 - b.2).abs().total_cmp(&(a.1 - a.2).abs()));
        let told = |is_lost: bool| {
            let of_kind = differing.iter().filter(|(_, now, rank)| (rank < now) == is_lost);
            let line = |&(query, now, rank): &(usize, f32, f32)| {
                format!("{now:.2} -> {rank:.2}: {}", cut(text(query), QUERY_CHARS))
            };
            of_kind.take(DIFFERENCES).map(line).collect()
        };
        [told(true), told(false)]
    }

    /// The mean reciprocal rank of the present program on the same queries.
    fn present(&self, present: &CategoryProgram) -> f64 {
        mean(&present.train_on(&self.queries))
    }
}

/// The attempts at one category's program, the latest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts(Vec<Earlier>);

impl Attempts {
    /// Adds one whose program was measured.
    pub(super) fn measured(&mut self, what: &str, measured: Measured) {
        self.add(what, Outcome::Measured(measured));
    }

    /// Adds one that gave no program.
    pub(super) fn failed(&mut self, what: &str, why: &str) {
        self.add(what, Outcome::Nothing(cut(why, WHY_CHARS)));
    }

    fn add(&mut self, what: &str, outcome: Outcome) {
        let what = cut(what, WHAT_CHARS);
        self.0.push(Earlier { what, outcome });
        if self.0.len() > REMEMBERED {
            self.0.remove(0);
        }
    }

    /// Notes that a program is the category's, if it is one of these.
    pub(super) fn saw(&mut self, present: &CategoryProgram) {
        for one in self.0.iter_mut().filter(|one| one.is(present)) {
            if let Outcome::Measured(measured) = &mut one.outcome {
                measured.kept = true;
            }
        }
    }

    /// A line for each attempt that is not the present program.
    pub(super) fn lines(&self, present: &CategoryProgram) -> Vec<String> {
        let others = self.0.iter().filter(|one| !one.is(present));
        others.map(|one| format!("{}: {}", one.verdict(present), one.what)).collect()
    }

    /// Of the programs that were not taken the best, by how they stand to the present one, and the
    /// latest, if that is another: with their verdict, and in what they differ from the present one.
    /// With both, the queries that it lost and gained.
    pub(super) fn programs<'a>(
        &self,
        present: &CategoryProgram,
        text: impl Fn(usize) -> &'a str,
    ) -> Value {
        let refused = self.0.iter().filter_map(|one| match &one.outcome {
            Outcome::Measured(measured) if !measured.kept && !one.is(present) => {
                Some((measured.score() - measured.present(present), measured, one))
            }
            _ => None,
        });
        let refused: Vec<(f64, &Measured, &Earlier)> = refused.collect();
        let latest = refused.len().checked_sub(1);
        let best = (0..refused.len()).max_by(|&a, &b| refused[a].0.total_cmp(&refused[b].0));
        let shown = best.into_iter().chain(latest.filter(|&at| Some(at) != best));
        let told = |at: usize| {
            let (_, measured, one) = refused[at];
            let [lost, gained] = measured.differences(present, &text);
            json!({
                "lost": lost,
                "gained": gained,
                "verdict": one.verdict(present),
                "what": one.what,
                "changes": changes(&measured.source, present.program.source()),
            })
        };
        shown.map(told).collect()
    }
}

impl Earlier {
    fn is(&self, present: &CategoryProgram) -> bool {
        matches!(&self.outcome, Outcome::Measured(one) if one.source == present.program.source())
    }

    /// What came of it, with the present program's score on the same queries.
    fn verdict(&self, present: &CategoryProgram) -> String {
        let measured = match &self.outcome {
            Outcome::Nothing(why) => return format!("no program, since {why}"),
            Outcome::Measured(measured) => measured,
        };
        let (score, now) = (measured.score(), measured.present(present));
        let what = match score.total_cmp(&measured.before) {
            _ if measured.kept => "taken, and replaced since",
            Ordering::Greater => "not taken, gained too little",
            Ordering::Equal => "not taken, gained nothing",
            Ordering::Less => "not taken, worse",
        };
        let n = match measured.queries.len() {
            1 => "1 query".to_owned(),
            n => format!("{n} queries"),
        };
        format!("{what} ({score:.4} on {n}, the current program {now:.4} on the same)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(source: &str, queries: &[usize], ranks: &[f32], kept: bool) -> Measured {
        let (source, queries, ranks) = (source.to_owned(), queries.to_vec(), ranks.to_vec());
        Measured { source, queries, ranks, before: 0.25, kept }
    }

    #[test]
    fn attempts_are_held_against_the_present_program_on_the_same_queries() {
        let [before, present] =
            ["old\n", "now\n"].map(|source| CategoryProgram::of_test(source, &[1.0, 0.5, 0.0]));
        let mut attempts = Attempts::default();
        attempts.measured("draws", measured("same\n", &[0, 1], &[0.25, 0.25], false));
        attempts.measured("widens", measured("old\n", &[0, 1, 2], &[0.5, 0.5, 0.5], false));
        attempts.measured("links\nless", measured("less\n", &[1, 2], &[0.25, 1.0], false));
        attempts.failed("dreams", "it does not run");
        attempts.measured("filters", measured("worst\n", &[0], &[0.0], false));
        attempts.measured("this", measured("now\n", &[0, 1, 2], &[1.0, 0.5, 0.0], true));
        attempts.saw(&before);
        let on = "the current program";
        let expected = [
            format!(
                "not taken, gained nothing (0.2500 on 2 queries, {on} 0.7500 on the same): draws"
            ),
            format!(
                "taken, and replaced since (0.5000 on 3 queries, {on} 0.5000 on the same): widens"
            ),
            format!(
                "not taken, gained too little (0.6250 on 2 queries, {on} 0.2500 on the same): \
                 links less"
            ),
            "no program, since it does not run: dreams".to_owned(),
            format!("not taken, worse (0.0000 on 1 query, {on} 1.0000 on the same): filters"),
        ];
        assert_eq!(attempts.lines(&present), expected);
        let texts = ["by brand", "by name", "by words"];
        let shown = attempts.programs(&present, |query| texts[query]);
        let told: Vec<&str> =
            shown.as_array().unwrap().iter().map(|one| one["changes"].as_str().unwrap()).collect();
        assert_eq!(told, ["- less\n+ now", "- worst\n+ now"]);
        assert_eq!(shown[0]["what"], "links less");
        assert_eq!(shown[0]["lost"], json!(["0.50 -> 0.25: by name"]));
        assert_eq!(shown[0]["gained"], json!(["0.00 -> 1.00: by words"]));
        assert_eq!(shown[1]["lost"], json!(["1.00 -> 0.00: by brand"]));
        for n in 0..20 {
            attempts.failed(&format!("{n} {}", "x".repeat(900)), &"y".repeat(900));
        }
        let lines = attempts.lines(&present);
        assert_eq!(lines.len(), REMEMBERED);
        assert!(lines.iter().all(|line| line.chars().count() < WHAT_CHARS + WHY_CHARS + 40));
        assert_eq!(attempts.programs(&present, |_| ""), json!([]));
    }
}
