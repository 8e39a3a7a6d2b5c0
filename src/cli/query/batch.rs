//! `agent query --batch`: reads questions as JSON lines and writes one JSON line with the answer to
//! each, in the order of the questions. Holds only a few lines at a time, so files may have any
//! length. Does not depend on how a question is answered.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use anyhow::{Context as _, anyhow};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Context, Exit};
use agent_app::{Explain as _, Result, all_threads, counted, query::QueryRecord};
use agent_index::IndexedBase;
use agent_infer::{self as infer, AnswerRecord};
use agent_retrieve::{Detail, StandIn, check_query};
use agent_systems::bundle::OpenedBundle;

/// Maximum length in bytes of an input line.
pub(crate) const MAX_LINE_BYTES: u64 = 1 << 20;
/// Maximum size in bytes of the rest of a line that is too long; an endless line ends the batch.
const MAX_SKIPPED_BYTES: u64 = 1 << 30;
/// Number of questions that each thread answers in one block. The answers of a block are printed
/// when all of them are known.
const PER_THREAD: usize = 8;

/// A bundle opened on its base, for any number of questions.
pub(crate) struct Session {
    /// Name of the bundle in the output.
    pub(crate) bundle: String,
    /// Whether answers include their timings.
    pub(crate) timed: bool,
    /// Number of nodes in an answer.
    pub(crate) k: usize,
    pub(crate) base: Arc<IndexedBase>,
    pub(crate) opened: OpenedBundle,
}

/// Result of one input line.
pub(crate) struct Answered {
    /// Output line, JSON without a line break.
    pub(crate) json: String,
    /// Why the bundle did not answer the question; `None` if it did.
    pub(crate) failure: Option<Failure>,
    /// Whether a language model should have helped but did not.
    pub(crate) unassisted: bool,
}

/// Reason why the bundle did not answer a question.
pub(crate) struct Failure {
    pub(crate) why: String,
    /// Whether a retry may succeed: the cause was a time limit or an outage.
    pub(crate) passes: bool,
}

/// A question, parsed from one input line; its other JSON keys are ignored.
#[derive(Deserialize)]
pub(crate) struct Question {
    pub(crate) query: String,
    #[serde(default)]
    pub(crate) id: Option<Value>,
}

/// The JSON of one output line: the answer to a question, or the error.
#[derive(Serialize)]
struct Line<'a> {
    /// Number of the input line, from 1.
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    #[serde(flatten)]
    answer: Option<QueryRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Answers the questions of a file (`-` for stdin), from line number `from` (from 1) on, and prints
/// an output line for each. Returns [`Exit::Failed`] if the bundle failed on a line.
///
/// # Errors
/// If the input cannot be read, stdout cannot be written to, or the command was interrupted; the
/// message then names the line to continue from.
pub(super) fn run(session: &Session, questions: &Path, from: u64, ctx: &Context) -> Result<Exit> {
    let mut input: Box<dyn BufRead> = match questions == Path::new("-") {
        true => Box::new(BufReader::new(io::stdin())),
        false => {
            let shown = questions.display();
            if questions.is_dir() {
                return Err(anyhow!("{shown} is a directory"))
                    .hint("give a file with one question per line");
            }
            let opened = File::open(questions);
            Box::new(BufReader::new(opened.with_context(|| format!("cannot open {shown}"))?))
        }
    };
    let (mut line, mut exit, mut unassisted) = (0, Exit::Done, 0);
    // `all_threads` reads system files, so it is called once.
    let per_block = PER_THREAD * all_threads();
    let too_long = format!("it has more than {MAX_LINE_BYTES} bytes; write one question per line");
    loop {
        let lines = next_lines(&mut *input, &mut line, from, per_block)?;
        if lines.is_empty() {
            if unassisted > 0 {
                ctx.watch.warning(&format!(
                    "answered without the language model: {}; `unassisted` in the output says why",
                    counted(unassisted, "question")
                ));
            }
            return Ok(exit);
        }
        let answered: Vec<Answered> = lines
            .par_iter()
            .map(|(number, text)| match text {
                Some(text) => answer(session, *number, text),
                None => failed(*number, None, too_long.clone(), false),
            })
            .collect::<Result<_>>()?;
        // Interrupted programs give no valid answers.
        if ctx.stop.load(Ordering::Relaxed) {
            let first = lines.first().map_or(1, |(number, _)| *number);
            return Err(anyhow!("interrupted; continue with --from-line {first}").into());
        }
        if answered.iter().any(|one| one.failure.is_some()) {
            exit = Exit::Failed;
        }
        unassisted += answered.iter().filter(|one| one.unassisted).count() as u64;
        let printed: Vec<String> = answered.into_iter().map(|one| one.json).collect();
        ctx.printer.json_texts(&printed)?;
    }
}

/// Reads the next block of at most `per_block` lines, each with its number (from 1), and leaves the
/// number of the last line read in `line`. Skips lines before `from` and empty lines. A line over
/// [`MAX_LINE_BYTES`] is returned without its text.
fn next_lines(
    input: &mut dyn BufRead,
    line: &mut u64,
    from: u64,
    per_block: usize,
) -> Result<Vec<(u64, Option<String>)>> {
    let mut lines = Vec::new();
    while lines.len() < per_block {
        let mut bytes = Vec::new();
        let read = input.take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut bytes);
        read.context("cannot read the questions")?;
        if bytes.is_empty() {
            break;
        }
        *line += 1;
        let text = if bytes.len() as u64 > MAX_LINE_BYTES {
            if !bytes.ends_with(b"\n") {
                skip_line(input, *line)?;
            }
            None
        } else {
            Some(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        if *line >= from && text.as_ref().is_none_or(|text| !text.is_empty()) {
            lines.push((*line, text));
        }
    }
    Ok(lines)
}

/// Skips the rest of a line.
///
/// # Errors
/// If the line does not end within [`MAX_SKIPPED_BYTES`], as happens with some devices.
fn skip_line(input: &mut dyn BufRead, line: u64) -> Result<()> {
    let mut rest = input.take(MAX_SKIPPED_BYTES);
    rest.skip_until(b'\n').context("cannot read the questions")?;
    if rest.limit() > 0 {
        return Ok(());
    }
    Err(anyhow!("line {line} is longer than {MAX_SKIPPED_BYTES} bytes"))
        .hint("give a file with one question per line")
}

/// Returns the result of an input line that failed: an output line with the error `why`. `passes`
/// is whether a retry may succeed, see [`Failure::passes`].
///
/// # Errors
/// If the output line cannot be written as JSON.
fn failed(line: u64, id: Option<Value>, why: String, passes: bool) -> Result<Answered> {
    let line = Line { line, id, answer: None, error: Some(why.clone()) };
    let json = serde_json::to_string(&line)?;
    Ok(Answered { json, failure: Some(Failure { why, passes }), unassisted: false })
}

/// Answers the question in the input line with this number (from 1). A failure of the bundle, or an
/// invalid line, gives an output line with the error.
///
/// # Errors
/// If the output line cannot be written as JSON.
pub(crate) fn answer(session: &Session, line: u64, text: &str) -> Result<Answered> {
    let asked: Question = match serde_json::from_str(text) {
        Ok(asked) => asked,
        Err(error) => {
            let error = format!("{error}; write one {{\"query\": \"...\"}} per line");
            return failed(line, None, error, false);
        }
    };
    let query = match check_query(&asked.query) {
        Ok(query) => query,
        Err(error) => return failed(line, asked.id, error.to_string(), false),
    };
    let detail = Detail { explained_count: 0, paths: true };
    match infer::answer(&session.base, &*session.opened.answers, query, session.k, detail) {
        Ok(answer) => {
            let mut record = AnswerRecord::new(&session.base.kb, &answer);
            if !session.timed {
                record.timings.clear();
            }
            let printed = QueryRecord { query, bundle: &session.bundle, answer: record };
            let line = Line { line, id: asked.id, answer: Some(printed), error: None };
            let json = serde_json::to_string(&line)?;
            let stood_in = |one: &StandIn| Failure { why: one.reason.clone(), passes: one.is_late };
            let (failure, unassisted) = (answer.stand_in.as_ref(), answer.unassisted.is_some());
            Ok(Answered { json, failure: failure.map(stood_in), unassisted })
        }
        Err(error) => failed(line, asked.id, error.to_string(), error.is_transient()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_told_and_the_others_are_read() {
        let most = usize::try_from(MAX_LINE_BYTES).unwrap();
        // The second line exceeds the limit only with its line break.
        let texts = ["x".repeat(most + 1), "y".repeat(most), "z".repeat(most - 1)];
        let input = format!("first\n{}\n{}\n{}\n\nlast", texts[0], texts[1], texts[2]);
        let (mut input, mut line, mut found) = (input.as_bytes(), 0, Vec::new());
        loop {
            let lines = next_lines(&mut input, &mut line, 1, 2).unwrap();
            if lines.is_empty() {
                break;
            }
            found.extend(lines);
        }
        let some = |text: &str| Some(text.to_owned());
        let expected = [some("first"), None, None, some(&texts[2]), some("last")];
        let expected: Vec<_> = [1, 2, 3, 4, 6].into_iter().zip(expected).collect();
        assert!(found == expected);
    }

    #[test]
    fn blank_lines_take_no_place_in_a_block() {
        let input = format!("{}a\n\nb\nc\n", "\n".repeat(200_000));
        let (mut input, mut line) = (input.as_bytes(), 0);
        let mut next = || next_lines(&mut input, &mut line, 1, 2).unwrap();
        let some = |number, text: &str| (number, Some(text.to_owned()));
        assert_eq!(next(), [some(200_001, "a"), some(200_003, "b")]);
        assert_eq!(next(), [some(200_004, "c")]);
        assert!(next().is_empty());
    }
}
