//! `agent program diff`: what differs between two programs, in source and numbers.

use std::{
    collections::BTreeMap,
    fmt::Write,
    io::{self, IsTerminal},
};

use serde::Serialize;
use similar::TextDiff;

use crate::cli::{
    Context, Exit,
    failure::Result,
    program::{
        show::harmless,
        sources::{Entry, Place, declared},
    },
};

/// Lines around a change.
const CONTEXT_LINES: usize = 3;

/// Compare two programs, source and numbers
///
/// Prints a unified diff of the sources, then the numbers that differ.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// At least six digits of the first one's id, or its category
    #[arg(value_name = "A")]
    from: String,
    /// At least six digits of the second one's id, or its category
    #[arg(value_name = "B")]
    to: String,
    #[command(flatten)]
    place: Place,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Changed {
    name: String,
    /// `null` where the program has no such number.
    from: Option<f64>,
    /// As `from`.
    to: Option<f64>,
}

#[derive(Serialize)]
struct Printed<'a> {
    from: &'a str,
    to: &'a str,
    diff: &'a str,
    params: &'a [Changed],
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let sources = args.place.read()?;
    let (from, to) = (sources.find(&args.from)?, sources.find(&args.to)?);
    let name = |entry: &Entry| format!("{} {}", entry.program.short_id(), entry.category);
    let diff = TextDiff::from_lines(from.program.source(), to.program.source());
    let diff = diff
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .header(&name(from), &name(to))
        .to_string();
    let params = changed(&numbers(from), &numbers(to));
    if args.json {
        let (from, to) = (from.program.id(), to.program.id());
        ctx.printer.json(&Printed { from, to, diff: &diff, params: &params })?;
        return Ok(Exit::Done);
    }
    let mut text = diff;
    if !params.is_empty() {
        let _ = writeln!(text, "{}numbers:", if text.is_empty() { "" } else { "\n" });
    }
    for Changed { name, from, to } in &params {
        let shown = |value: &Option<f64>| value.map_or("none".to_owned(), |v| v.to_string());
        let _ = writeln!(text, "  {name}: {} -> {}", shown(from), shown(to));
    }
    if text.is_empty() {
        ctx.printer.notice("the programs and their numbers are equal");
    }
    ctx.printer.data(&if io::stdout().is_terminal() { harmless(&text) } else { text })?;
    Ok(Exit::Done)
}

/// The numbers a program runs with.
fn numbers(entry: &Entry) -> BTreeMap<String, f64> {
    let declared = declared(&entry.program).into_iter().map(|param| (param.name, param.value));
    let mut numbers: BTreeMap<String, f64> = declared.collect();
    numbers.extend(entry.params.clone());
    numbers
}

/// Numbers that differ, by name.
fn changed(from: &BTreeMap<String, f64>, to: &BTreeMap<String, f64>) -> Vec<Changed> {
    let gone = from.keys().filter(|name| !to.contains_key(*name));
    let mut names: Vec<&String> = gone.chain(to.keys()).collect();
    names.sort_unstable();
    let names = names.into_iter().filter(|name| from.get(*name) != to.get(*name));
    names
        .map(|name| Changed {
            name: name.clone(),
            from: from.get(name).copied(),
            to: to.get(name).copied(),
        })
        .collect()
}
