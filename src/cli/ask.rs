//! `agent ask`: answers a question over many nodes with a table, or hands it to a bundle. Also makes
//! questions with known answers, and counts how many are answered right.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, anyhow};
use serde::Serialize;

use crate::{
    ask::{
        Analyst, AskError,
        answer::{Answered, LeftOut, Outcome, shown_value},
        cell_json,
        kind::Kind,
        score::{Labelled, score},
        synthesize::synthesize,
    },
    cli::{
        Context, Exit, dataset,
        failure::{CommandError, Explain, Result},
        hits,
        llm::{self, LlmArgs},
        printer::{plain, table},
        systems::{Resources, SandboxArgs, open_bundle, read_bundle},
    },
    index::IndexedBase,
    kb::Kb,
    retrieve::{Detail, checked},
    table::{Rows, Table, statistics::Tested},
};

/// Rows of a table that are printed.
const SHOWN_ROWS: usize = 20;
/// Characters of a cell that are printed.
const SHOWN_CELL: usize = 60;
/// Nodes that are printed of a bundle's ranking.
const SHOWN_NODES: usize = 20;
/// Bytes of a file of questions.
const MAX_QUESTIONS: u64 = 64 << 20;
/// Questions that are not answered right and are told one by one.
const MAX_TOLD: usize = 20;

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
    #[arg(value_name = "QUESTION", required_unless_present_any = ["make", "score"])]
    question: Option<String>,
    /// Answer questions for nodes with this bundle
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Write the whole table to this CSV file, a line a row with its node
    #[arg(long, value_name = "OUT.csv", conflicts_with_all = ["make", "score"])]
    csv: Option<PathBuf>,
    /// Print one JSON object with all rows of the table and the source of every column
    #[arg(long)]
    json: bool,
    /// Print so many questions of each of eight kinds with their answers, a JSON object a line
    #[arg(long, value_name = "COUNT", conflicts_with = "question",
        value_parser = clap::value_parser!(u64).range(1..=1_000))]
    make: Option<u64>,
    /// Draw those questions with this seed
    #[arg(long, value_name = "S", default_value_t = 1, requires = "make")]
    seed: u64,
    /// Answer the questions of such a file, and print how many of each kind are answered right
    #[arg(long, value_name = "FILE", conflicts_with_all = ["question", "make"])]
    score: Option<PathBuf>,
    #[command(flatten)]
    sandbox: SandboxArgs,
    #[command(flatten)]
    llm: LlmArgs,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let dataset = dataset::find(&args.dataset, ctx)?;
    let base = dataset::open(&dataset, ctx)?;
    if let Some(each) = args.make {
        ctx.printer.json_lines(&synthesize(&base, each as usize, args.seed))?;
        return Ok(Exit::Done);
    }
    let analyst = Analyst::new(base.clone());
    if let Some(file) = &args.score {
        return measure(file, &analyst, args.json, ctx);
    }
    let question = checked(args.question.as_deref().unwrap_or_default())?;
    let began = Instant::now();
    let answered = match analyst.ask(question) {
        Ok(answered) => answered,
        Err(error @ (AskError::NoTable | AskError::Unknown { .. })) => {
            return by_bundle(args, question, &base, error, ctx);
        }
        Err(error) => return Err(error.into()),
    };
    let ms = began.elapsed().as_secs_f64() * 1e3;
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
        ctx.printer.json(&printed(question, &answered, &base.kb, ms))?;
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
    error: AskError,
    ctx: &Context,
) -> Result<Exit> {
    let Some(file) = &args.bundle else {
        return Err(error).hint("a question for nodes is answered with --bundle FILE");
    };
    if error != AskError::NoTable {
        return Err(error.into());
    }
    let bundle = read_bundle(file, ctx)?;
    bundle.check_base(base)?;
    let llm = llm::open_if_configured(&args.llm, ctx)?;
    let resources = Resources::new(llm.as_ref(), args.sandbox.places(ctx), ctx);
    let opened = open_bundle(&bundle, base, &resources)?;
    let answer = opened.answers.answer(question, SHOWN_NODES, Detail::default())?;
    let hits = crate::infer::hits(&base.kb, &answer);
    match (hits.is_empty(), args.json) {
        (true, _) => ctx.printer.notice("no node matches"),
        (false, true) => hits::print_json(&hits, ctx)?,
        (false, false) => hits::print_table(&hits, ctx)?,
    }
    Ok(Exit::Done)
}

/// The answer as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    question: &'a str,
    kind: Kind,
    answer: &'a Outcome,
    told: &'a str,
    path: &'a [String],
    sql: &'a [String],
    statistic: Option<Tested>,
    result: PrintedRows<'a>,
    table: PrintedTable<'a>,
    left_out: &'a [LeftOut],
    assumed: &'a [String],
    ms: f64,
}

#[derive(Serialize)]
struct PrintedRows<'a> {
    columns: &'a [String],
    rows: &'a [Vec<crate::table::SqlValue>],
}

#[derive(Serialize)]
struct PrintedTable<'a> {
    rows_are: &'a str,
    columns: Vec<PrintedColumn<'a>>,
    rows: Vec<PrintedRow<'a>>,
}

/// A column, and where each of its cells comes from: of the row's node, this.
#[derive(Serialize)]
struct PrintedColumn<'a> {
    name: &'a str,
    source: &'a str,
    unit: Option<&'a str>,
    empty: usize,
}

#[derive(Serialize)]
struct PrintedRow<'a> {
    id: u32,
    name: &'a str,
    cells: Vec<serde_json::Value>,
}

fn printed<'a>(question: &'a str, answered: &'a Answered, kb: &'a Kb, ms: f64) -> Printed<'a> {
    let Answered {
        kind,
        outcome,
        told,
        path,
        sql,
        statistic,
        result,
        table,
        left_out,
        assumed,
        ..
    } = answered;
    let columns = table.columns.iter().map(|column| PrintedColumn {
        name: &column.name,
        source: &column.source,
        unit: column.unit.as_deref(),
        empty: column.n_empty(),
    });
    let row = |(at, &id): (usize, &u32)| PrintedRow {
        id,
        name: kb.name(id),
        cells: table
            .columns
            .iter()
            .filter_map(|column| column.cells.get(at))
            .map(cell_json)
            .collect(),
    };
    Printed {
        question,
        kind: *kind,
        answer: outcome,
        told,
        path,
        sql,
        statistic: *statistic,
        result: PrintedRows { columns: &result.columns, rows: &result.rows },
        table: PrintedTable {
            rows_are: &answered.row_type,
            columns: columns.collect(),
            rows: table.rows.iter().enumerate().map(row).collect(),
        },
        left_out,
        assumed,
        ms,
    }
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
        let mut row = vec![node.to_string(), plain(kb.name(node), SHOWN_CELL)];
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
    let cells = asked.columns.iter().filter_map(move |column| column.cells.get(at));
    cells.map(|cell| match cell_json(cell) {
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
        let mut row = vec![node.to_string(), kb.name(node).to_owned()];
        row.extend(cells(&answered.table, at));
        out.write_record(row)?;
    }
    out.into_inner().map_err(|error| anyhow!("{}", error.error()))?.flush()?;
    Ok(())
}

/// How the questions of one kind were answered.
#[derive(Serialize)]
struct KindScore {
    kind: String,
    n: usize,
    right: usize,
    /// The mean of how right they are; of tables the F1 of their rows.
    score: f64,
    refused: usize,
    p50_ms: f64,
    p95_ms: f64,
}

/// Answers the questions of a file, and prints how many of each kind are answered right.
fn measure(file: &Path, analyst: &Analyst, json: bool, ctx: &Context) -> Result<Exit> {
    let bytes = std::fs::metadata(file).map(|data| data.len()).unwrap_or(0);
    if bytes > MAX_QUESTIONS {
        return Err(anyhow!(
            "{} has {bytes} bytes; at most {MAX_QUESTIONS} are read",
            file.display()
        )
        .into());
    }
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut questions: Vec<Labelled> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let read = serde_json::from_str(line);
        questions.push(read.map_err(|error| {
            CommandError::from(anyhow!(
                "{}:{}: {error}; make such lines with --make",
                file.display(),
                number + 1
            ))
        })?);
    }
    let mut told = 0;
    let mut all: Vec<(Kind, f64, bool, f64)> = Vec::new();
    for Labelled { kind, question, answer } in &questions {
        let began = Instant::now();
        let answered = analyst.ask(question);
        let ms = began.elapsed().as_secs_f64() * 1e3;
        let (points, refused) = match &answered {
            Ok(answered) => (score(answered, answer), false),
            Err(_) => (0.0, true),
        };
        if points < 1.0 && told < MAX_TOLD {
            told += 1;
            let got = answered.map_or_else(|error| error.to_string(), |answered| answered.told);
            ctx.printer
                .detail(&format!("{question}\n    known {answer:?}\n    got {}", plain(got, 300)));
        }
        all.push((*kind, points, refused, ms));
    }
    let mut scores: Vec<KindScore> = Vec::new();
    for kind in Kind::ALL {
        let own: Vec<_> = all.iter().filter(|one| one.0 == kind).copied().collect();
        scores.extend((!own.is_empty()).then(|| summed(kind.name(), &own)));
    }
    scores.push(summed("all", &all));
    if json {
        ctx.printer.json_lines(&scores)?;
        return Ok(Exit::Done);
    }
    let mut rows = table(
        ["kind", "n", "right", "share", "score", "refused", "p50 ms", "p95 ms"],
        &[1, 2, 3, 4, 5, 6, 7],
    );
    for one in &scores {
        rows.add_row([
            one.kind.clone(),
            one.n.to_string(),
            one.right.to_string(),
            format!("{:.1} %", 100.0 * one.right as f64 / one.n.max(1) as f64),
            format!("{:.3}", one.score),
            one.refused.to_string(),
            format!("{:.1}", one.p50_ms),
            format!("{:.1}", one.p95_ms),
        ]);
    }
    ctx.printer.table(&rows)?;
    Ok(Exit::Done)
}

fn summed(kind: &str, own: &[(Kind, f64, bool, f64)]) -> KindScore {
    let mut times: Vec<f64> = own.iter().map(|one| one.3).collect();
    let time = |times: &mut Vec<f64>, share| {
        crate::table::statistics::quantile(times, share).unwrap_or(0.0)
    };
    KindScore {
        kind: kind.to_owned(),
        n: own.len(),
        right: own.iter().filter(|one| one.1 >= 1.0).count(),
        score: own.iter().map(|one| one.1).sum::<f64>() / own.len().max(1) as f64,
        refused: own.iter().filter(|one| one.2).count(),
        p50_ms: time(&mut times, 0.5),
        p95_ms: time(&mut times, 0.95),
    }
}
