//! `agent query --batch`: JSON lines in, JSON lines out, in order. Holds a few lines at a time, so
//! that files of any length are answered; must not know how one question is.

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

use crate::{
    cli::{
        Context, Exit,
        failure::{CommandError, Result},
        query::Printed,
        systems::all_threads,
    },
    index::IndexedBase,
    infer::{self, AnswerRecord},
    retrieve::{Detail, checked},
    systems::bundle::OpenedBundle,
};

/// Longest line of the input, bytes.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Questions per thread that are answered before their answers are printed.
const PER_THREAD: usize = 8;

/// A bundle that was opened on its base, for any number of questions.
pub(super) struct Session<'a> {
    /// The bundle as it was given.
    pub(super) file: &'a Path,
    /// The first line to be answered, from 1.
    pub(super) from: u64,
    /// Nodes of an answer.
    pub(super) k: usize,
    pub(super) base: Arc<IndexedBase>,
    pub(super) opened: OpenedBundle,
    pub(super) ctx: &'a Context,
}

/// A line of the input; other keys are not read.
#[derive(Deserialize)]
struct Asked {
    query: String,
    #[serde(default)]
    id: Option<Value>,
}

/// A line of the output.
#[derive(Serialize)]
struct Line<'a> {
    /// The line of the input, from 1.
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    #[serde(flatten)]
    answer: Option<Printed<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Answers all lines of a file, or of stdin.
///
/// # Errors
/// That the input cannot be read, or that it was interrupted: then how to go on.
pub(super) fn run(session: &Session<'_>, questions: &Path) -> Result<Exit> {
    let mut input: Box<dyn BufRead> = match questions == Path::new("-") {
        true => Box::new(BufReader::new(io::stdin())),
        false => {
            let opened = File::open(questions);
            let shown = questions.display();
            Box::new(BufReader::new(opened.with_context(|| format!("cannot open {shown}"))?))
        }
    };
    let (mut line, mut exit) = (0, Exit::Done);
    loop {
        let lines = next_lines(&mut *input, &mut line, session.from)?;
        if lines.is_empty() {
            return Ok(exit);
        }
        let answered: Vec<(bool, String)> = lines
            .par_iter()
            .map(|(number, text)| answer(session, *number, text))
            .collect::<Result<_>>()?;
        // A program that was ended is no answer.
        if session.ctx.stop.load(Ordering::Relaxed) {
            let first = lines.first().map_or(1, |(number, _)| *number);
            return Err(anyhow!("interrupted; go on with --from-line {first}").into());
        }
        if answered.iter().any(|(is_good, _)| !*is_good) {
            exit = Exit::Failed;
        }
        let printed: Vec<String> = answered.into_iter().map(|(_, json)| json).collect();
        session.ctx.printer.json_texts(&printed)?;
    }
}

/// The next few lines from `from` on, with their numbers; those that are empty are left out.
fn next_lines(input: &mut dyn BufRead, line: &mut u64, from: u64) -> Result<Vec<(u64, String)>> {
    let mut lines = Vec::new();
    while lines.len() < PER_THREAD * all_threads() {
        let mut bytes = Vec::new();
        let read = input.take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut bytes);
        read.context("cannot read the questions")?;
        if bytes.is_empty() {
            break;
        }
        *line += 1;
        if bytes.len() as u64 > MAX_LINE_BYTES {
            let at = *line;
            return Err(CommandError::usage(anyhow!(
                "line {at} of the questions has more than {MAX_LINE_BYTES} bytes; a question is a \
                 line of its own"
            )));
        }
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        if *line >= from && !text.is_empty() {
            lines.push((*line, text));
        }
    }
    Ok(lines)
}

/// The answer to a line, and whether it is one of the bundle.
fn answer(session: &Session<'_>, line: u64, text: &str) -> Result<(bool, String)> {
    let told = |line: &Line<'_>| -> Result<String> { Ok(serde_json::to_string(line)?) };
    let failed = |id, error: String| {
        let json = told(&Line { line, id, answer: None, error: Some(error) })?;
        Ok((false, json))
    };
    let asked: Asked = match serde_json::from_str(text) {
        Ok(asked) => asked,
        Err(error) => {
            let error = format!("{error}; write one {{\"query\": \"...\"}} a line");
            return failed(None, error);
        }
    };
    let query = match checked(&asked.query) {
        Ok(query) => query,
        Err(error) => return failed(asked.id, error.to_string()),
    };
    let detail = Detail { explained: 0, paths: true };
    match infer::answer(&session.base, &*session.opened.answers, query, session.k, detail) {
        Ok(answer) => {
            let record = AnswerRecord::new(&session.base.kb, &answer);
            let bundle = session.file.display().to_string();
            let printed = Printed { query, bundle, answer: record };
            let is_good = answer.stand_in.is_none();
            let json = told(&Line { line, id: asked.id, answer: Some(printed), error: None })?;
            Ok((is_good, json))
        }
        Err(error) => failed(asked.id, error.to_string()),
    }
}
