//! `agent program sensitivity`: measures the effect of each parameter of a program on its answers.

use anyhow::anyhow;
use serde::Serialize;

use crate::{Context, Exit, plain, table};
use agent_app::{
    Explain, MAX_SHOWN, Result, SandboxArgs, dataset, p_cell, percent,
    program::{
        measure::{Ground, On, compare, ranks},
        sources::{Place, find},
    },
    synthetic,
};
use agent_infer::ParamValues;
use agent_optimize::trial::mean;
use agent_retrieve::eval::Interval;
use agent_sandbox::Param;

/// Maximum number of values tried per parameter.
const MAX_VALUES: u64 = 21;
/// Maximum number of queries to measure on; a larger split is sampled evenly.
const MAX_QUERIES: usize = 300;
/// Number of queries below which a warning is printed.
const FEW_QUERIES: usize = 20;

/// Show the effect of each parameter of a program on its answers
///
/// Varies one declared parameter at a time over values spread evenly within its bounds. Prints the
/// mean reciprocal rank on at most 300 queries, its paired difference from the unchanged program,
/// and the number of queries answered better and worse. Parameters that change no rank are only
/// named. For a program in a bundle, uses the queries that the router sends to it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Measure the parameters of this program: its id, a prefix of the id with at least six hex
    /// digits, or its category
    #[arg(value_name = "ID|CATEGORY")]
    program: String,
    #[command(flatten)]
    place: Place,
    /// Try this many values per parameter, 2 to 21
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(2..=MAX_VALUES))]
    values: u64,
    /// Vary only this parameter; may be given several times
    #[arg(long = "number", value_name = "NAME")]
    parameters: Vec<String>,
    /// Run on these queries
    #[arg(long, value_enum, value_name = "SPLIT", default_value_t = On::Train)]
    on: On,
    /// Run on all queries of the split, not only on those that the router sends to the program
    #[arg(long)]
    all: bool,
    /// Run on this dataset [default: the dataset of the run or bundle]
    #[arg(long, value_name = "N")]
    dataset: Option<String>,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Print JSON lines with name, value, mrr, difference, ci95, p, wins and losses
    #[arg(long)]
    json: bool,
}

/// JSON of the measurement of one parameter at one value.
#[derive(Serialize)]
struct At<'a> {
    name: &'a str,
    /// Value of the parameter in the unchanged program.
    now: f64,
    value: f64,
    n: usize,
    mrr: f64,
    /// Mean reciprocal rank minus that of the unchanged program, paired by query.
    difference: f64,
    ci95: Interval,
    p: f64,
    /// Number of queries answered better than by the unchanged program.
    wins: usize,
    /// Number of queries answered worse than by the unchanged program.
    losses: usize,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let sources = args.place.read(ctx)?;
    let entry = find(&sources, &args.program)?;
    let made_for = sources.dataset.as_deref().unwrap_or_default();
    let options = args.sandbox.places(ctx)?.of(sources.origin());
    let found = dataset::chosen(args.dataset.as_deref(), made_for, ctx)?;
    let mut ground = Ground::open(&found, args.on, MAX_QUERIES, &options, ctx)?;
    if let Some((bundle, category)) = sources.category(entry).filter(|_| !args.all) {
        ground.keep_routed(bundle, category, ctx);
    }
    let declared = ground.declared(&entry.program).map_err(|failure| anyhow!(failure))?;
    if let Some(unknown) =
        args.parameters.iter().find(|n| !declared.iter().any(|of| of.name == **n))
    {
        let known: Vec<&str> = declared.iter().map(|of| of.name.as_str()).collect();
        return Err(anyhow!("the program declares no parameter {unknown:?}"))
            .hint(format!("it declares {}", known.join(", ")));
    }
    let asked = |of: &&Param| args.parameters.is_empty() || args.parameters.contains(&of.name);
    let moved: Vec<&Param> = declared.iter().filter(|of| of.min < of.max).filter(asked).collect();
    let before = ranks(&ground.answers(&entry.program, &entry.params, true, ctx)?);
    let mut rows = Vec::new();
    for param in moved {
        let now = entry.params.get(&param.name).copied().unwrap_or(param.value);
        for value in values(param, args.values) {
            let mut params: ParamValues = entry.params.clone();
            params.insert(param.name.clone(), value);
            let after = ranks(&ground.answers(&entry.program, &params, true, ctx)?);
            let compared = compare(&before, &after)?;
            rows.push(At {
                name: &param.name,
                now,
                value,
                n: compared.n,
                mrr: mean(&after),
                difference: compared.difference,
                ci95: compared.ci95,
                p: compared.p,
                wins: compared.wins,
                losses: compared.losses,
            });
        }
    }
    if args.json {
        return ctx.printer.json_lines(&rows);
    }
    let (n, mrr) = (before.len(), 100.0 * mean(&before));
    ctx.watch.notice(&format!("{n} {} queries; mrr {mrr:.1} for the unchanged program", args.on));
    if n < FEW_QUERIES {
        let all = if args.all { "" } else { "; --all uses all queries of the split" };
        ctx.watch.warning(&format!("too few queries for reliable results{all}"));
    }
    if rows.is_empty() {
        ctx.watch.notice("no parameter of the program can be varied");
        return Ok(Exit::Done);
    }
    print_rows(&rows, ctx)?;
    ctx.printer.data(&synthetic::line(&ground.queries))
}

/// Prints the table of parameters that change a rank, then the names of those that change none.
fn print_rows(rows: &[At<'_>], ctx: &Context) -> Result<()> {
    let headings = ["parameter", "now", "value", "mrr", "difference", "p", "better", "worse"];
    let mut shown = table(headings, &[1, 2, 3, 4, 5, 6, 7]);
    let (mut any, mut still) = (false, Vec::new());
    for same in rows.chunk_by(|a, b| a.name == b.name) {
        let name = same.first().map_or_else(String::new, |row| plain(row.name, MAX_SHOWN));
        if same.iter().all(|row| row.wins + row.losses == 0) {
            still.push(name);
            continue;
        }
        any = true;
        for (at, row) in same.iter().enumerate() {
            // Name and current value appear only in the first row of a parameter.
            let first = at == 0;
            shown.add_row([
                if first { name.clone() } else { String::new() },
                if first { row.now.to_string() } else { String::new() },
                format!("{:.4}", row.value).trim_end_matches('0').trim_end_matches('.').to_owned(),
                format!("{:.1}", 100.0 * row.mrr),
                percent(row.difference, row.ci95),
                p_cell(row.p),
                row.wins.to_string(),
                row.losses.to_string(),
            ]);
        }
    }
    if any {
        ctx.printer.table(&shown)?;
    }
    if !still.is_empty() {
        ctx.watch.notice(&format!("no rank changes with {}", still.join(", ")));
    }
    Ok(())
}

/// Returns up to `n` values spread evenly over the bounds of the parameter, both bounds included,
/// in ascending order. Values of an integer parameter are rounded, without duplicates.
fn values(param: &Param, n: u64) -> Vec<f64> {
    let (steps, width) = (n.saturating_sub(1).max(1) as f64, param.max - param.min);
    let at = |step: u64| param.min + width * step as f64 / steps;
    let mut values: Vec<f64> =
        (0..n).map(at).map(|value| if param.integer { value.round() } else { value }).collect();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_within_the_bounds_and_integers_come_once() {
        let param =
            |min, max, integer| Param { name: "k".to_owned(), value: min, min, max, integer };
        assert_eq!(values(&param(0.0, 4.0, false), 5), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(values(&param(1.0, 3.0, true), 5), [1.0, 2.0, 3.0]);
        assert_eq!(values(&param(-1.0, 1.0, false), 2), [-1.0, 1.0]);
    }
}
