//! `agent query`: prints the answer of a bundle to a question, or to each question of a file.

pub(super) mod batch;

use std::path::{Path, PathBuf};

use agent_app::{
    Explain, Perform as _, Result,
    query::{self, Options, Request},
    refused,
};
use agent_infer::{AnswerRecord, EntityRecord, WayRecord};

use crate::{
    Context, Exit,
    hits::{self, Ending},
    plain,
    printer::wrapped,
    table,
};

/// Maximum number of characters to show for a category's name.
const MAX_CATEGORY: usize = 120;
/// Maximum number of characters to show for a name, type or word in the lines below the nodes.
const MAX_NAME: usize = 60;
/// Maximum number of meanings (types and relations) to show for a word.
const MAX_MEANINGS: usize = 3;
/// Width, in terminal columns, of the labels of the lines below the nodes.
const LABEL: usize = 12;

/// Answer a question with a frozen bundle
///
/// Prints the nodes, best first, each with the path to it from the entities that the question
/// names, or the words by which it was found. Marks the rank at which the answers likely end, and
/// prints how the question was understood. If a program of the bundle fails, prints the ranking of
/// the hybrid baseline with a warning, and exits with status 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Answer with this frozen bundle: a file, the directory or name of a run, or `latest`
    #[arg(long, value_name = "BUNDLE", display_order = 0)]
    bundle: Option<PathBuf>,
    /// Answer this question; without --bundle, the first word is the bundle
    #[arg(value_name = "[BUNDLE] TEXT", required_unless_present = "batch")]
    words: Vec<String>,
    /// Answer all questions of this file (- for stdin), in the order of the file
    ///
    /// Each line is a JSON object with `query` and, optionally, `id`. For each question, prints one
    /// JSON object with `line` (the number of the question's line), `id`, and either the keys of
    /// --json or `error`. The exit status is 1 if the bundle failed on a line.
    #[arg(long, value_name = "FILE", conflicts_with = "explain", display_order = 2)]
    batch: Option<PathBuf>,
    /// Start --batch at this line number, to continue an earlier run
    #[arg(long, value_name = "LINE", requires = "batch", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..), display_order = 3)]
    from_line: u64,
    #[command(flatten)]
    options: Options,
    /// Print one JSON object: the route, the nodes with their paths, the predicted rank of the last
    /// answer, how the question was understood, and timings
    #[arg(long, display_order = 7)]
    json: bool,
}

impl Args {
    /// Returns the bundle and the question, given as `--bundle FILE TEXT` or `BUNDLE TEXT`. The
    /// words of a question without quotes are joined by spaces; with `--batch` the question is
    /// empty.
    fn asked(&self, ctx: &Context) -> Result<(&Path, String)> {
        let (bundle, words) = match (&self.bundle, self.words.split_first()) {
            (Some(bundle), None) if self.batch.is_some() => (bundle.as_path(), &[][..]),
            (None, Some((bundle, []))) if self.batch.is_some() => (Path::new(bundle), &[][..]),
            _ if self.batch.is_some() => {
                return refused("--batch takes a bundle and no question")
                    .hint("write `agent query latest --batch questions.jsonl`");
            }
            (Some(bundle), _) => (bundle.as_path(), self.words.as_slice()),
            (None, Some((bundle, words))) if !words.is_empty() => (Path::new(bundle), words),
            (None, _) => {
                return refused("a bundle or a question is missing")
                    .hint("write `agent query latest \"a question\"`, or see --help");
            }
        };
        if words.len() > 1 {
            ctx.watch.notice("joined the words into one question; quote it next time");
        }
        Ok((bundle, words.join(" ")))
    }
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let (bundle, text) = args.asked(ctx)?;
    if let Some(questions) = &args.batch {
        let query::Session { base, opened } = query::Session::open(bundle, &args.options, ctx)?;
        let (bundle, k) = (bundle.display().to_string(), args.options.k.get());
        let session = batch::Session { bundle, timed: true, k, base, opened };
        return batch::run(&session, questions, args.from_line, ctx);
    }
    let request = Request { bundle: bundle.to_owned(), text, options: args.options.clone() };
    let reply = request.perform(ctx)?;
    let record = reply.record();
    if args.json {
        ctx.printer.json(&reply)?;
    } else if args.options.explain && !record.hits.is_empty() {
        print_route(&record, ctx)?;
        hits::print_explained(&record.hits, ending(&record), ctx)?;
    } else if !record.hits.is_empty() {
        hits::print_reasons(&record.hits, ending(&record), ctx)?;
        print_understood(&record, ctx)?;
    }
    Ok(if reply.answer.stand_in.is_some() { Exit::Failed } else { Exit::Done })
}

/// Returns the predicted end of the answers, if known. Also `None` if the question names nothing in
/// the base and has words that match no hit, since the prediction was learned from questions that
/// were understood.
fn ending(record: &AnswerRecord<'_>) -> Option<Ending> {
    if !record.recognised && !record.understood.unused.is_empty() {
        return None;
    }
    Some(Ending { rank: record.cutoff?, expected: record.expected? })
}

/// Prints a table of the categories that answer, with their probabilities and programs.
fn print_route(record: &AnswerRecord<'_>, ctx: &Context) -> Result<Exit> {
    let mut rows = table(["category", "probability", "program"], &[1]);
    for WayRecord { category, probability, program } in &record.route {
        rows.add_row([
            plain(category, MAX_CATEGORY),
            format!("{:.1} %", probability * 100.0),
            (*program).to_owned(),
        ]);
    }
    ctx.printer.table(&rows)?;
    ctx.printer.data("\n")
}

/// Describes the conditions that a question states, and the number of hits that fulfil them; empty
/// without conditions.
fn conditions_line(record: &AnswerRecord<'_>) -> String {
    let conditions = &record.understood.conditions;
    let shown: Vec<String> = conditions.iter().map(|text| plain(text, MAX_NAME)).collect();
    match (shown.as_slice(), record.understood.fulfilled) {
        ([], _) | (_, None) => String::new(),
        (all, Some(0)) => format!("{}: no answer matches", all.join(" and ")),
        (all, Some(n)) if n < record.hits.len() => {
            format!("{}: the first {n} answers match", all.join(" and "))
        }
        (all, Some(_)) => all.join(" and "),
    }
}

/// Prints how the question was understood, its conditions, unused words, doubtful paths, and the
/// category that answered, one line each.
fn print_understood(record: &AnswerRecord<'_>, ctx: &Context) -> Result<Exit> {
    let understood = &record.understood;
    let shown = |name: &str| plain(name, MAX_NAME);
    // Nodes with the same name and type are shown once.
    let mut entities: Vec<(&EntityRecord<'_>, usize)> = Vec::new();
    for one in &understood.entities {
        let is_same = |other: &&mut (&EntityRecord<'_>, usize)| {
            one.exact
                && other.0.exact
                && (other.0.name, other.0.node_type) == (one.name, one.node_type)
        };
        match entities.iter_mut().find(is_same) {
            Some((_, n)) => *n += 1,
            None => entities.push((one, 1)),
        }
    }
    let entities = entities.into_iter().map(|(one, n)| {
        let how = match one.exact {
            true => "exact".to_owned(),
            false => format!("{:.0} %", 100.0 * one.strength),
        };
        let nodes = if n > 1 { format!(", {n} nodes") } else { String::new() };
        format!("{} ({}, {how}{nodes})", shown(one.name), shown(one.node_type))
    });
    let words = understood.words.iter().map(|known| {
        let types = known.types.iter().map(|name| format!("type {}", shown(name)));
        let named = known.relations.iter().map(|name| format!("relation {}", shown(name)));
        let meanings: Vec<String> = types.chain(named).take(MAX_MEANINGS).collect();
        format!("{} ({})", shown(known.word), meanings.join(", "))
    });
    let known: Vec<String> = entities.chain(words).collect();
    let unused = understood.unused.iter().map(|word| format!("\"{}\"", shown(word)));
    let unused: Vec<String> = unused.collect();
    let corrected = understood.corrected.iter();
    let corrected = corrected.map(|of| format!("{} to {}", shown(of.word), shown(of.searched_as)));
    let contrary: Vec<String> = understood.contrary.iter().map(|name| shown(name)).collect();
    let contrary = match contrary.as_slice() {
        [] => String::new(),
        names => {
            format!("paths follow {}, which the words of the question exclude", names.join(", "))
        }
    };
    let program = record.route.first().map(|way| {
        let (category, percent) = (plain(way.category, MAX_CATEGORY), 100.0 * way.probability);
        let others = match record.route.len() {
            0 | 1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        format!("{category}, {percent:.0} %{others}; more: --explain")
    });
    let lines = [
        ("understood", known.join(", ")),
        ("conditions", conditions_line(record)),
        ("corrected", corrected.collect::<Vec<_>>().join(", ")),
        ("not used", unused.join(", ")),
        ("doubtful", contrary),
        ("program", program.unwrap_or_default()),
    ];
    let width = ctx.printer.columns();
    let told = lines
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(label, text)| wrapped(&format!("{label:<LABEL$}{text}"), 0, LABEL, width));
    ctx.printer.text(&format!("\n{}", told.collect::<String>()))
}
