//! `agent ask`: prints the answer to a question over many nodes, with its path, SQL and rows.

use std::{collections::HashMap, io::Write, path::PathBuf};

use agent_app::{
    Perform as _, Result,
    ask::{Reply, Request},
    counted, output,
};
use agent_ask::{
    AskError, AskReading,
    answer::{Answered, LeftOut, Outcome, shown_value},
    refusal_record, row_json,
};
use agent_dataset::id_of;
use agent_kb::{
    Kb,
    table::{Rows, Table},
};

use crate::{Context, Exit, hits, plain, table};

/// Maximum number of rows of a table to print.
const SHOWN_ROWS: usize = 20;
/// Maximum number of rows to print as examples below an answer that is not a list of these rows.
const SHOWN_EXAMPLES: usize = 5;
/// Maximum number of characters to print for a cell.
const SHOWN_CELL: usize = 60;

/// Answer a question over many nodes: how many, which most, whether related, what if
///
/// The answer is a number with its unit, names, a table, or yes or no with its statistic. The
/// output adds the path to the rows, the SQL, the table, and the rows that were left out. If the
/// data lack something that the answer needs, the message names what is missing, and the exit
/// status is 1. If a question is ambiguous, each interpretation is printed with its answer, and the
/// exit status is 3. With --bundle, the bundle answers questions that ask for nodes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    request: Request,
    /// Write the rows of the answer to this CSV file: its groups, or the id, name and fields of
    /// each node that it lists or counts
    #[arg(long, value_name = "OUT.csv")]
    csv: Option<PathBuf>,
    /// Print one JSON object with all rows of the table and the source of every column
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let reply = match args.request.perform(ctx) {
        Ok(reply) => reply,
        Err(error) => {
            if let (true, Some(refusal)) = (args.json, error.downcast_ref::<AskError>()) {
                ctx.printer.json(&refusal_record(&args.request.question, refusal))?;
            }
            return Err(error);
        }
    };
    match &reply {
        Reply::Table { answered, base, .. } => {
            if let Some(path) = &args.csv {
                let mut n = 0;
                output::write(path, |out| {
                    n = write_csv(out, answered, &base.kb)?;
                    Ok(())
                })?;
                let rows = counted(n as u64, "row");
                ctx.watch.notice(&format!("wrote {rows} to {}", path.display()));
            }
            if args.json { ctx.printer.json(&reply) } else { print(answered, &base.kb, ctx) }
        }
        Reply::Readings { readings, .. } => {
            if args.json {
                ctx.printer.json(&reply)?
            } else {
                print_readings(readings, ctx)?
            };
            Ok(Exit::AskedBack)
        }
        Reply::Bundle(ranking) => hits::print(&ranking.hits(), args.json, ctx),
    }
}

/// Prints the readings of an ambiguous question, numbered from 1. Each is followed by its answer
/// and by the lines of its path that differ between the readings.
fn print_readings(readings: &[AskReading], ctx: &Context) -> Result<Exit> {
    let n = readings.len();
    let mut text = format!("the question has {n} possible meanings; choose one with --reading K\n");
    for (k, reading) in (1..).zip(readings) {
        text += &format!("\n{k:>3}  {}\n", reading.told);
        let shared = |line: &&String| readings.iter().all(|other| other.path.contains(line));
        let own: Vec<&String> = reading.path.iter().filter(|line| !shared(line)).collect();
        let told = if own.is_empty() { reading.path.iter().collect() } else { own };
        told.iter().for_each(|line| text += &format!("     {line}\n"));
    }
    ctx.printer.text(&text)
}

/// Prints the answer, the path to its rows, the table and the SQL, then the first rows.
fn print(answered: &Answered, kb: &Kb, ctx: &Context) -> Result<Exit> {
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
    let rows = counted(asked.rows.len() as u64, "row");
    line("table", &format!("{rows} of {}, {columns}", answered.row_type));
    for LeftOut { rows, why } in &answered.left_out {
        line("left out", &format!("{rows}: {why}"));
    }
    answered.assumed.iter().for_each(|assumed| line("assumed", assumed));
    answered.sql.iter().for_each(|sql| line("sql", sql));
    ctx.printer.text(&text)?;
    ctx.printer.data("\n")?;
    if let Outcome::Table = answered.outcome {
        return print_rows(result, ctx);
    }
    // If the result is nodes, `print_table` prints its rows.
    if result.rows.len() > 1 && !is_of_nodes(answered) {
        print_rows(result, ctx)?;
        ctx.printer.data("\n")?;
    }
    print_table(answered, kb, ctx)
}

/// Whether the rows of the result are nodes: the operation is a list or the first rows, and no
/// assumption adds a column before the column `key`.
fn is_of_nodes(answered: &Answered) -> bool {
    let operation = &answered.plan["operation"];
    let is_list = operation == "list" || operation.get("first").is_some();
    is_list && answered.result.columns.first().is_some_and(|name| name == "key")
}

fn print_rows(result: &Rows, ctx: &Context) -> Result<Exit> {
    let mut rows = table(result.columns.clone(), &[]);
    for row in result.rows.iter().take(SHOWN_ROWS) {
        rows.add_row(row.iter().map(|value| plain(shown_value(value), SHOWN_CELL)));
    }
    ctx.printer.table(&rows)?;
    told_rest(result.rows.len(), SHOWN_ROWS, ctx);
    Ok(Exit::Done)
}

/// Prints the first rows that the answer is computed from. If the result is nodes, prints up to
/// [`SHOWN_ROWS`] rows in the order of the result, otherwise up to [`SHOWN_EXAMPLES`] rows.
fn print_table(answered: &Answered, kb: &Kb, ctx: &Context) -> Result<Exit> {
    let asked = &answered.table;
    let mut headings = vec!["id".to_owned(), "name".to_owned()];
    headings.extend(asked.columns.iter().map(|column| column.name.clone()));
    let mut rows = table(headings, &[0]);
    let shown = if is_of_nodes(answered) { SHOWN_ROWS } else { SHOWN_EXAMPLES };
    let order = rows_of(answered, kb);
    let n = order.len();
    for at in order.into_iter().take(shown) {
        let Some(&node) = asked.rows.get(at) else { continue };
        let mut row = vec![plain(id_of(kb, node), SHOWN_CELL), plain(kb.name(node), SHOWN_CELL)];
        row.extend(cells(asked, at).map(|cell| plain(cell, SHOWN_CELL)));
        rows.add_row(row);
    }
    ctx.printer.table(&rows)?;
    told_rest(n, shown, ctx);
    Ok(Exit::Done)
}

/// Returns the indexes (from 0) of rows of the table: if the result is nodes, the listed rows in
/// the order of the result, otherwise the rows that the answer is computed from.
fn rows_of(answered: &Answered, kb: &Kb) -> Vec<usize> {
    let rows = &answered.table.rows;
    let n = answered.counted.as_ref().map_or(rows.len(), Vec::len);
    let mut order = answered.row_order();
    order.truncate(n);
    if is_of_nodes(answered) {
        let keys = answered.result.rows.iter().filter_map(|row| row.first()).map(shown_value);
        let places: HashMap<String, usize> = keys.zip(0..).collect();
        let place = |at: &usize| places.get(&*kb.key(*rows.get(*at)?)).copied();
        order.retain(|at| place(at).is_some());
        order.sort_by_cached_key(place);
    }
    order
}

fn told_rest(n: usize, shown: usize, ctx: &Context) {
    if n > shown {
        let further = counted((n - shown) as u64, "further row");
        ctx.watch.notice(&format!("{further}; see all with --json or --csv FILE"));
    }
}

/// Returns the cells of row `at` (from 0) as text; the items of a list are joined by semicolons.
fn cells(asked: &Table, at: usize) -> impl Iterator<Item = String> + '_ {
    row_json(asked, at).map(|cell| match cell {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text,
        serde_json::Value::Array(items) => {
            items.iter().filter_map(|item| item.as_str()).collect::<Vec<_>>().join("; ")
        }
        // A count is `3`, not `3.0`.
        serde_json::Value::Number(number) => number.to_string().trim_end_matches(".0").to_owned(),
        other => other.to_string(),
    })
}

/// Writes the rows of an answer; returns their number.
fn write_csv(out: &mut dyn Write, answered: &Answered, kb: &Kb) -> anyhow::Result<usize> {
    let mut out = csv::Writer::from_writer(out);
    let Answered { table: Table { rows, columns }, result, .. } = answered;
    if let Outcome::Table = answered.outcome {
        out.write_record(&result.columns)?;
        for row in &result.rows {
            out.write_record(row.iter().map(shown_value))?;
        }
        out.flush()?;
        return Ok(result.rows.len());
    }
    let mut headings = vec!["id", "name"];
    headings.extend(columns.iter().map(|column| column.name.as_str()));
    out.write_record(headings)?;
    let order = rows_of(answered, kb);
    let n = order.len();
    for at in order {
        let Some(&node) = rows.get(at) else { continue };
        let mut row = vec![id_of(kb, node).into_owned(), kb.name(node).to_owned()];
        row.extend(cells(&answered.table, at));
        out.write_record(row)?;
    }
    out.flush()?;
    Ok(n)
}
