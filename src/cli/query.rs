//! `agent query`: answers a question, or a file of them, with a frozen bundle.

pub(super) mod batch;

use crate::choice::choice;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::anyhow;

use serde::Serialize;

use crate::{
    Context, Exit, dataset,
    failure::{CommandError, Explain, Result},
    hits::{self, Ending, MAX_K},
    llm::{self, LlmArgs},
    printer::{plain, table, wrapped},
    systems::{Effort, Resources, SandboxArgs, open_bundle, read_bundle},
};
use agent_index::IndexedBase;
use agent_infer::{
    self as infer, AnswerRecord, WayRecord,
    bundle::{Bundle, BundleError},
};
use agent_retrieve::{Answer, Detail, StandIn, check_query};

/// Answers that are explained.
const MAX_EXPLAINED: usize = 5;
/// Characters of a category's name that are shown.
const MAX_CATEGORY: usize = 120;
/// Characters of a name, type or word that are shown below the nodes, and meanings of one word.
const MAX_NAME: usize = 60;
const MAX_MEANINGS: usize = 3;
/// Columns of the labels below the nodes.
const LABEL: usize = 12;

/// Answer a question with a frozen bundle
///
/// Prints the nodes, best first, each with the way that leads to it from what the question names, or
/// the words that found it; behind which rank the answers likely end, what follows being the next
/// best nodes; and what of the question was understood. When a program of the bundle fails, the
/// ranking of the hybrid baseline is printed instead, with a warning, and the exit status is 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Frozen bundle: its file, or the run that it is of (its name, or latest)
    #[arg(long, value_name = "BUNDLE")]
    bundle: Option<PathBuf>,
    /// Installed dataset, directory in neutral format, or built-in sample [default: the bundle's]
    #[arg(long, value_name = "N")]
    dataset: Option<String>,
    /// What to look for; without --bundle, the bundle comes first
    #[arg(value_name = "[BUNDLE] TEXT", required_unless_present = "batch")]
    words: Vec<String>,
    /// Answer all questions of this file, or of stdin if it is -, in order
    ///
    /// A line is one JSON object with query and, at will, id; for each, one line is printed with line,
    /// id and what --json prints, or error. The status is 1 if a line was not answered as it should.
    #[arg(long, value_name = "FILE", conflicts_with = "explain")]
    batch: Option<PathBuf>,
    /// With --batch: begin at this line, to go on where an earlier run ended
    #[arg(long, value_name = "LINE", requires = "batch", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..))]
    from_line: u64,
    /// Print at most this many nodes, 1 to 10000
    #[arg(short, value_name = "K", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..=MAX_K))]
    k: u64,
    /// Say which categories answer, and for the first five nodes which tool calls gave them
    ///
    /// With --json the first five nodes have all calls, those that gave other nodes and those that
    /// only compute too, and all features of the re-ranker.
    #[arg(long)]
    explain: bool,
    /// Use the bundle on another base than the one it was made for
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Print one JSON object: route, nodes with their paths, the rank behind which the answers end,
    /// what was understood, times
    #[arg(long)]
    json: bool,
    /// How far a bundle leans on a language model
    #[arg(long, value_parser = choice::<Effort>(), default_value = "0")]
    effort: Effort,
    #[command(flatten)]
    llm: LlmArgs,
}

impl Args {
    /// The bundle and the question, as `--bundle FILE TEXT` or `BUNDLE TEXT`. Words of a question
    /// without quotes are joined.
    fn asked(&self, ctx: &Context) -> Result<(&Path, String)> {
        let (bundle, words) = match (&self.bundle, self.words.split_first()) {
            (Some(bundle), None) if self.batch.is_some() => (bundle.as_path(), &[][..]),
            (None, Some((bundle, []))) if self.batch.is_some() => (Path::new(bundle), &[][..]),
            _ if self.batch.is_some() => {
                return Err(CommandError::usage(anyhow!("--batch takes a bundle and no question")))
                    .hint("write `agent query latest --batch questions.jsonl`");
            }
            (Some(bundle), _) => (bundle.as_path(), self.words.as_slice()),
            (None, Some((bundle, words))) if !words.is_empty() => (Path::new(bundle), words),
            (None, _) => {
                return Err(CommandError::usage(anyhow!("a bundle or a question is missing")))
                    .hint("write `agent query latest \"a question\"`, or see --help");
            }
        };
        if words.len() > 1 {
            ctx.printer.notice("joined the words; a question in quotes is one whatever is in it");
        }
        Ok((bundle, words.join(" ")))
    }
}

/// The answer as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    query: &'a str,
    /// The bundle's file, as it was given.
    bundle: &'a str,
    #[serde(flatten)]
    answer: AnswerRecord<'a>,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let began = Instant::now();
    let (file, text) = args.asked(ctx)?;
    if args.batch.is_none() {
        check_query(&text)?;
    }
    let bundle = read_bundle(file, ctx)?;
    let dataset = dataset::find(args.dataset.as_ref().unwrap_or(&bundle.dataset.name), ctx)?;
    let base = dataset::open(&dataset, ctx)?;
    check_base(&bundle, &base, args.force, ctx)?;
    let llm = llm::open_if_configured(&args.llm, args.effort > Effort::None, ctx)?;
    let places = args.sandbox.places(ctx);
    let resources = Resources { effort: args.effort, ..Resources::new(llm.as_ref(), places, ctx) };
    let opened = open_bundle(&bundle, &base, &resources)?;
    let open_ms = began.elapsed().as_secs_f64() * 1e3;
    if let Some(questions) = &args.batch {
        let session = batch::Session {
            bundle: file.display().to_string(),
            timed: true,
            k: args.k as usize,
            base,
            opened,
        };
        return batch::run(&session, questions, args.from_line, ctx);
    }
    let text = check_query(&text)?;
    let explained = if args.explain { MAX_EXPLAINED } else { 0 };
    let detail = Detail { explained_count: explained, paths: true };
    let mut answer = infer::answer(&base, &*opened.answers, text, args.k as usize, detail)?;
    answer.timings.insert("open_ms", open_ms);
    let exit = if answer.stand_in.is_some() { Exit::Failed } else { Exit::Done };
    warn(&answer, ctx);
    let record = AnswerRecord::new(&base.kb, &answer);
    if args.json {
        let bundle = &file.display().to_string();
        ctx.printer.json(&Printed { query: text, bundle, answer: record })?;
    } else if args.explain && !record.hits.is_empty() {
        print_route(&record, ctx)?;
        hits::print_explained(&record.hits, ending(&record), ctx)?;
    } else if !record.hits.is_empty() {
        hits::print_reasons(&record.hits, ending(&record), ctx)?;
        print_understood(&record, ctx)?;
    }
    Ok(exit)
}

/// Says on stderr that a language model was to help with an answer and did not.
pub(super) fn warn_unassisted(answer: &Answer, ctx: &Context) {
    if let Some(miss) = answer.unassisted {
        let told = miss.message();
        ctx.printer.warning(&format!(
            "{told}; this is the answer without it (-v shows what the service said)"
        ));
    }
}

/// Says on stderr what may be wrong with an answer.
fn warn(answer: &Answer, ctx: &Context) {
    warn_unassisted(answer, ctx);
    if let Some(StandIn { system, reason, .. }) = &answer.stand_in {
        ctx.printer.warning(&format!("a program failed: {reason}"));
        ctx.printer.warning(&format!("this is the ranking of {system} instead"));
    }
    match (answer.analysis.recognised, answer.ranking().is_empty()) {
        (false, true) => ctx.printer.notice("nothing in this base was recognised"),
        (false, false) => ctx.printer.notice(
            "no name in the question was recognised; these nodes are found by its other words",
        ),
        (true, true) => ctx.printer.notice("no node matches"),
        (true, false) => {}
    }
}

/// Where the answers end. Nobody can tell for a question that names nothing of the base and says what
/// nothing found has: what is expected was learnt from questions that were understood.
fn ending(record: &AnswerRecord<'_>) -> Option<Ending> {
    if !record.recognised && !record.understood.unused.is_empty() {
        return None;
    }
    Some(Ending { rank: record.cutoff?, expected: record.expected? })
}

/// Refuses another base than the bundle's unless forced.
fn check_base(bundle: &Bundle, base: &IndexedBase, force: bool, ctx: &Context) -> Result<()> {
    match bundle.check_base(base) {
        Err(error @ BundleError::OtherBase { .. }) if force => {
            ctx.printer.warning(&format!("--force: {error}"));
            Ok(())
        }
        checked => checked.hint("--force answers with it all the same"),
    }
}

/// The categories that answer.
fn print_route(record: &AnswerRecord<'_>, ctx: &Context) -> Result<()> {
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

/// What of the question is understood, which words are not, and who answered.
fn print_understood(record: &AnswerRecord<'_>, ctx: &Context) -> Result<()> {
    let understood = &record.understood;
    let entities = understood.entities.iter().map(|one| {
        let how = match one.exact {
            true => "exact".to_owned(),
            false => format!("{:.0} %", 100.0 * one.strength),
        };
        format!("{} ({}, {how})", plain(one.name, MAX_NAME), plain(one.node_type, MAX_NAME))
    });
    let words = understood.words.iter().map(|known| {
        let types = known.types.iter().map(|name| format!("type {}", plain(name, MAX_NAME)));
        let named =
            known.relations.iter().map(|name| format!("relation {}", plain(name, MAX_NAME)));
        let meanings: Vec<String> = types.chain(named).take(MAX_MEANINGS).collect();
        format!("{} ({})", plain(known.word, MAX_NAME), meanings.join(", "))
    });
    let known: Vec<String> = entities.chain(words).collect();
    let unused = understood.unused.iter().map(|word| format!("\"{}\"", plain(word, MAX_NAME)));
    let unused: Vec<String> = unused.collect();
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
        ("not used", unused.join(", ")),
        ("program", program.unwrap_or_default()),
    ];
    let width = ctx.printer.columns();
    let told = lines
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(label, text)| wrapped(&format!("{label:<LABEL$}{text}"), 0, LABEL, width));
    ctx.printer.text(&format!("\n{}", told.collect::<String>()))
}
