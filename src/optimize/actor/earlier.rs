//! Earlier attempts to improve a category's program, for prompts: a line for each attempt with its
//! outcome and, for the best and the latest rejected program, the differences from the current
//! program.
//!
//! The score of a rejected program is shown beside that of the current program on the same queries.

use std::cmp::Ordering;

use serde_json::{Value, json};

use crate::{
    actor::{changes::changes, execution_trace::cut},
    category_programs::CategoryProgram,
    trial::mean,
};

/// Maximum number of attempts that are remembered for a category; older attempts are dropped.
const REMEMBERED: usize = 8;
/// Maximum length in characters of the model's note on an attempt.
const NOTE_CHARS: usize = 280;
/// Maximum length in characters of the reason why an attempt gave no program.
const WHY_CHARS: usize = 160;
/// Maximum number of queries in each of two lists: those that a rejected program answers worse than
/// the current program, and those that it answers better.
const DIFFERENCES: usize = 3;
/// Maximum length in characters of a query's text in these lists.
const QUERY_CHARS: usize = 200;

/// An earlier attempt to write a better program for a category.
#[derive(Clone, Debug)]
pub(super) struct PastAttempt {
    /// The note that the model wrote before the program.
    note: String,
    /// The measured program, or the reason why no program could be measured.
    outcome: Result<MeasuredProgram, String>,
}

/// A program that was measured in an earlier attempt.
#[derive(Clone, Debug)]
pub(super) struct MeasuredProgram {
    pub(super) source: String,
    /// The training queries on which the program was measured, as positions; `ranks` holds its
    /// reciprocal ranks in the same order.
    pub(super) queries: Vec<usize>,
    pub(super) ranks: Vec<f32>,
    /// Mean reciprocal rank, on the same queries, of the program that the category had at that
    /// time.
    pub(super) before: f64,
    /// Whether the measured program replaced the category's program.
    pub(super) kept: bool,
}

impl MeasuredProgram {
    /// Returns two lists of lines: the queries that this program answers worse than the current
    /// program `present`, and those that it answers better; both with the largest difference first.
    /// A line has the current program's reciprocal rank, this program's, and the query, such as
    /// `1.00 -> 0.50: ...`.
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
        let lines = |is_lost: bool| {
            let of_kind = differing.iter().filter(|(_, now, rank)| (rank < now) == is_lost);
            let line = |&(query, now, rank): &(usize, f32, f32)| {
                format!("{now:.2} -> {rank:.2}: {}", cut(text(query), QUERY_CHARS))
            };
            of_kind.take(DIFFERENCES).map(line).collect()
        };
        [lines(true), lines(false)]
    }

    /// Returns the mean reciprocal rank of the current program `present` on the queries on which
    /// this program was measured.
    fn present(&self, present: &CategoryProgram) -> f64 {
        mean(&present.train_on(&self.queries))
    }
}

/// The earlier attempts to improve one category's program, the latest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts(Vec<PastAttempt>);

impl Attempts {
    /// Adds an attempt whose program was measured, with the model's note.
    pub(super) fn measured(&mut self, note: &str, measured: MeasuredProgram) {
        self.add(note, Ok(measured));
    }

    /// Adds an attempt in which no program could be measured, with the reason.
    pub(super) fn failed(&mut self, note: &str, why: &str) {
        self.add(note, Err(cut(why, WHY_CHARS)));
    }

    fn add(&mut self, note: &str, outcome: Result<MeasuredProgram, String>) {
        let note = cut(note, NOTE_CHARS);
        self.0.push(PastAttempt { note, outcome });
        if self.0.len() > REMEMBERED {
            self.0.remove(0);
        }
    }

    /// Marks the attempts whose program is the current program `present` as kept.
    pub(super) fn mark_current(&mut self, present: &CategoryProgram) {
        for one in self.0.iter_mut().filter(|one| one.is(present)) {
            one.outcome.iter_mut().for_each(|measured| measured.kept = true);
        }
    }

    /// Returns a line with outcome and note for each attempt, except those whose program is the
    /// current program `present`.
    pub(super) fn lines(&self, present: &CategoryProgram) -> Vec<String> {
        let others = self.0.iter().filter(|one| !one.is(present));
        others.map(|one| format!("{}: {}", one.verdict(present), one.note)).collect()
    }

    /// Describes two rejected programs: the one with the best score relative to the current program
    /// `present`, and the latest. Each has its outcome, the lines that differ, and the queries that
    /// it answers worse and better. `text` returns the text of a training query by position.
    pub(super) fn programs<'a>(
        &self,
        present: &CategoryProgram,
        text: impl Fn(usize) -> &'a str,
    ) -> Value {
        let refused = self.0.iter().filter_map(|one| match &one.outcome {
            Ok(measured) if !measured.kept && !one.is(present) => {
                Some((mean(&measured.ranks) - measured.present(present), measured, one))
            }
            _ => None,
        });
        let refused: Vec<(f64, &MeasuredProgram, &PastAttempt)> = refused.collect();
        let latest = refused.len().checked_sub(1);
        let best = (0..refused.len()).max_by(|&a, &b| refused[a].0.total_cmp(&refused[b].0));
        let shown = best.into_iter().chain(latest.filter(|&at| Some(at) != best));
        let value = |at: usize| {
            let (_, measured, one) = refused[at];
            let [lost, gained] = measured.differences(present, &text);
            json!({
                "lost": lost,
                "gained": gained,
                "verdict": one.verdict(present),
                "what": one.note,
                "changes": changes(&measured.source, present.program.source()),
            })
        };
        shown.map(value).collect()
    }
}

impl PastAttempt {
    fn is(&self, present: &CategoryProgram) -> bool {
        matches!(&self.outcome, Ok(one) if one.source == present.program.source())
    }

    /// Describes the outcome of the attempt, with the score of the current program `present` on the
    /// same queries.
    fn verdict(&self, present: &CategoryProgram) -> String {
        let measured = match &self.outcome {
            Err(why) => return format!("no program, since {why}"),
            Ok(measured) => measured,
        };
        let (score, now) = (mean(&measured.ranks), measured.present(present));
        let outcome = match score.total_cmp(&measured.before) {
            _ if measured.kept => "taken, and replaced since",
            Ordering::Greater => "not taken, gained too little",
            Ordering::Equal => "not taken, gained nothing",
            Ordering::Less => "not taken, worse",
        };
        let n = match measured.queries.len() {
            1 => "1 query".to_owned(),
            n => format!("{n} queries"),
        };
        format!("{outcome} ({score:.4} on {n}, the current program {now:.4} on the same)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(source: &str, queries: &[usize], ranks: &[f32], kept: bool) -> MeasuredProgram {
        let (source, queries, ranks) = (source.to_owned(), queries.to_vec(), ranks.to_vec());
        MeasuredProgram { source, queries, ranks, before: 0.25, kept }
    }

    #[test]
    fn attempts_are_held_against_the_present_program_on_the_same_queries() {
        let [before, present] =
            ["old\n", "now\n"].map(|source| CategoryProgram::for_test(source, &[1.0, 0.5, 0.0]));
        let mut attempts = Attempts::default();
        attempts.measured("draws", measured("same\n", &[0, 1], &[0.25, 0.25], false));
        attempts.measured("widens", measured("old\n", &[0, 1, 2], &[0.5, 0.5, 0.5], false));
        attempts.measured("links\nless", measured("less\n", &[1, 2], &[0.25, 1.0], false));
        attempts.failed("dreams", "it does not run");
        attempts.measured("filters", measured("worst\n", &[0], &[0.0], false));
        attempts.measured("this", measured("now\n", &[0, 1, 2], &[1.0, 0.5, 0.0], true));
        attempts.mark_current(&before);
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
        let changes: Vec<&str> =
            shown.as_array().unwrap().iter().map(|one| one["changes"].as_str().unwrap()).collect();
        assert_eq!(changes, ["- less\n+ now", "- worst\n+ now"]);
        assert_eq!(shown[0]["what"], "links less");
        assert_eq!(shown[0]["lost"], json!(["0.50 -> 0.25: by name"]));
        assert_eq!(shown[0]["gained"], json!(["0.00 -> 1.00: by words"]));
        assert_eq!(shown[1]["lost"], json!(["1.00 -> 0.00: by brand"]));
        for n in 0..20 {
            attempts.failed(&format!("{n} {}", "x".repeat(900)), &"y".repeat(900));
        }
        let lines = attempts.lines(&present);
        assert_eq!(lines.len(), REMEMBERED);
        assert!(lines.iter().all(|line| line.chars().count() < NOTE_CHARS + WHY_CHARS + 40));
        assert_eq!(attempts.programs(&present, |_| ""), json!([]));
    }
}
