//! `agent ask`: answers a question over many nodes with a table, or hands it to a bundle. Must not
//! know how a question is read.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::Context as _;
use clap::ValueEnum;

use crate::{
    Context, Exit, dataset,
    failure::{Explain, Result},
    hits,
    llm::{self, LlmArgs},
    printer::{plain, table},
    systems::{Resources, SandboxArgs, open_bundle, read_bundle},
};
use agent_ask::{
    Analyst, AskError, AskRecord, Helps,
    answer::{Answered, LeftOut, Outcome, shown_value},
    row_json,
};
use agent_dataset::id_of;
use agent_index::IndexedBase;
use agent_kb::{
    Kb,
    table::{Rows, Table},
};
use agent_retrieve::{Detail, check_query};

/// Rows of a table that are printed.
const SHOWN_ROWS: usize = 20;
/// Characters of a cell that are printed.
const SHOWN_CELL: usize = 60;
/// Nodes that are printed of a bundle's ranking.
const SHOWN_NODES: usize = 20;
/// What is told where a model was to answer and did not.
const UNASSISTED: &str = "the language model gave no usable reply; this is the answer without it \
    (-v shows what the service said)";

/// How far a question is left to a language model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Effort {
    /// Not at all
    #[default]
    #[value(name = "0")]
    None,
    /// It answers what the rules do not understand
    #[value(name = "1")]
    Unread,
    /// It answers every question, and the rules where its reply cannot be used
    #[value(name = "2")]
    All,
}

/// Answer a question over many nodes: how many, which most, whether related, what if
///
/// The answer is a number with its unit, names, a table, or yes or no with its statistic; with it
/// come the path to the rows, the SQL, the table, and what was left out. A question for which
/// something is missing is not answered: what is missing is said, and the exit status is 1. With
/// --bundle, a question for nodes is answered by the bundle.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(value_name = "N")]
    dataset: String,
    /// The question
    #[arg(value_name = "QUESTION")]
    question: String,
    /// Answer questions for nodes with this bundle
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Write the whole table to this CSV file, a line a row with its node
    #[arg(long, value_name = "OUT.csv")]
    csv: Option<PathBuf>,
    /// Print one JSON object with all rows of the table and the source of every column
    #[arg(long)]
    json: bool,
    /// How far the question is left to a language model
    #[arg(long, value_enum, default_value_t)]
    effort: Effort,
    #[command(flatten)]
    sandbox: SandboxArgs,
    #[command(flatten)]
    llm: LlmArgs,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let dataset = dataset::find(&args.dataset, ctx)?;
    let base = dataset::open(&dataset, ctx)?;
    let question = check_query(&args.question)?;
    let mut analyst = Analyst::new(base.clone());
    let llm = match (args.effort, &args.bundle) {
        (Effort::None, None) => None,
        (Effort::None, Some(_)) => llm::open_if_configured(&args.llm, false, ctx)?,
        (Effort::Unread | Effort::All, _) => Some(llm::open(&args.llm, None, ctx)?),
    };
    if let (Some(opened), Effort::Unread | Effort::All) = (&llm, args.effort) {
        let helps = if args.effort == Effort::All { Helps::All } else { Helps::Unread };
        analyst = analyst.helped(opened.assistant.clone(), helps);
    }
    let found = answer(args, question, &analyst, llm.as_ref(), ctx);
    if let Some(opened) = &llm {
        opened.finish(ctx)?;
    }
    found
}

/// Answers one question, from a table or from the bundle.
fn answer(
    args: &Args,
    question: &str,
    analyst: &Analyst,
    llm: Option<&llm::Opened>,
    ctx: &Context,
) -> Result<Exit> {
    let base = analyst.base();
    let began = Instant::now();
    let answered = match analyst.ask(question) {
        Ok(answered) => answered,
        Err(error) if error.may_be_for_nodes() => {
            return by_bundle(args, question, base, llm, error, ctx);
        }
        Err(error) => return Err(error.into()),
    };
    let ms = began.elapsed().as_secs_f64() * 1e3;
    if answered.unassisted.is_some() {
        ctx.printer.warning(UNASSISTED);
    }
    if let Some(path) = &args.csv {
        write_csv(path, &answered, &base.kb)
            .with_context(|| format!("cannot write {}", path.display()))?;
        ctx.printer.notice(&format!(
            "wrote {} rows to {}",
            answered.table.rows.len(),
            path.display()
        ));
    }
    if args.json {
        ctx.printer.json(&AskRecord::new(question, &answered, &base.kb, usize::MAX, ms))?;
    } else {
        print(&answered, &base.kb, ctx)?;
    }
    Ok(Exit::Done)
}

/// Answers a question for nodes with a bundle, where there is one.
fn by_bundle(
    args: &Args,
    question: &str,
    base: &std::sync::Arc<IndexedBase>,
    llm: Option<&llm::Opened>,
    error: AskError,
    ctx: &Context,
) -> Result<Exit> {
    let Some(file) = &args.bundle else {
        return Err(error).hint("a question for nodes is answered with --bundle FILE");
    };
    ctx.printer.notice(&format!("nodes of the bundle, not a table: {error}"));
    let bundle = read_bundle(file, ctx)?;
    bundle.check_base(base)?;
    let resources = Resources::new(llm, args.sandbox.places(ctx), ctx);
    let opened = open_bundle(&bundle, base, &resources)?;
    let answer = opened.answers.answer(question, SHOWN_NODES, Detail::default())?;
    let hits = agent_infer::hits(&base.kb, &answer);
    match (hits.is_empty(), args.json) {
        (true, _) => ctx.printer.notice("no node matches"),
        (false, true) => hits::print_json(&hits, ctx)?,
        (false, false) => hits::print_table(&hits, ctx)?,
    }
    Ok(Exit::Done)
}

/// The answer, its path, table and SQL, and the first rows.
fn print(answered: &Answered, kb: &Kb, ctx: &Context) -> Result<()> {
    let Answered { table: asked, result, .. } = answered;
    let mut text = format!("{}\n\n", answered.told);
    let mut line = |label: &str, told: &str| {
        text += &format!("{label:<9}{told}\n");
    };
    answered.path.iter().for_each(|path| line("path", path));
    let columns: Vec<&str> = asked.columns.iter().map(|column| column.name.as_str()).collect();
    let columns = match columns.is_empty() {
        true => "no columns".to_owned(),
        false => format!("columns {}", columns.join(", ")),
    };
    line("table", &format!("{} rows of {}, {columns}", asked.rows.len(), answered.row_type));
    for LeftOut { rows, why } in &answered.left_out {
        line("left out", &format!("{rows}: {why}"));
    }
    answered.assumed.iter().for_each(|assumed| line("assumed", assumed));
    answered.sql.iter().for_each(|sql| line("sql", sql));
    ctx.printer.text(&text)?;
    ctx.printer.data("\n")?;
    match answered.outcome {
        Outcome::Table => print_rows(result, ctx)?,
        _ => {
            if result.rows.len() > 1 {
                print_rows(result, ctx)?;
                ctx.printer.data("\n")?;
            }
            print_table(asked, kb, ctx)?;
        }
    }
    Ok(())
}

fn print_rows(result: &Rows, ctx: &Context) -> Result<()> {
    let mut rows = table(result.columns.clone(), &[]);
    for row in result.rows.iter().take(SHOWN_ROWS) {
        rows.add_row(row.iter().map(|value| plain(shown_value(value), SHOWN_CELL)));
    }
    ctx.printer.table(&rows)?;
    told_rest(result.rows.len(), ctx);
    Ok(())
}

fn print_table(asked: &Table, kb: &Kb, ctx: &Context) -> Result<()> {
    let mut headings = vec!["id".to_owned(), "name".to_owned()];
    headings.extend(asked.columns.iter().map(|column| column.name.clone()));
    let mut rows = table(headings, &[0]);
    for (at, &node) in asked.rows.iter().enumerate().take(SHOWN_ROWS) {
        let mut row = vec![plain(id_of(kb, node), SHOWN_CELL), plain(kb.name(node), SHOWN_CELL)];
        row.extend(cells(asked, at).map(|cell| plain(cell, SHOWN_CELL)));
        rows.add_row(row);
    }
    ctx.printer.table(&rows)?;
    told_rest(asked.rows.len(), ctx);
    Ok(())
}

fn told_rest(n: usize, ctx: &Context) {
    if n > SHOWN_ROWS {
        ctx.printer
            .notice(&format!("{} further rows; --json or --csv FILE has all", n - SHOWN_ROWS));
    }
}

/// The cells of a row as text.
fn cells(asked: &Table, at: usize) -> impl Iterator<Item = String> + '_ {
    row_json(asked, at).map(|cell| match cell {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text,
        serde_json::Value::Array(items) => {
            items.iter().filter_map(|item| item.as_str()).collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    })
}

fn write_csv(path: &Path, answered: &Answered, kb: &Kb) -> anyhow::Result<()> {
    let mut out = csv::Writer::from_writer(BufWriter::new(File::create(path)?));
    let Table { rows, columns } = &answered.table;
    let mut headings = vec!["id", "name"];
    headings.extend(columns.iter().map(|column| column.name.as_str()));
    out.write_record(headings)?;
    for (at, &node) in rows.iter().enumerate() {
        let mut row = vec![id_of(kb, node).into_owned(), kb.name(node).to_owned()];
        row.extend(cells(&answered.table, at));
        out.write_record(row)?;
    }
    out.into_inner().map_err(|error| anyhow::anyhow!("{}", error.error()))?.flush()?;
    Ok(())
}
