//! Prints the summary of a dataset and the likely mistakes in it, after an import or for
//! `agent data show`. The counts come from the dataset crate; nothing is counted here.

use crate::{Context, Exit, data::MAX_SHOWN, plain, table};
use agent_app::{Result, count, counted};
use agent_dataset::{Examples, ImportReport, Summary, TypeSummary};

/// Maximum number of fields named per node type after an import.
const MAX_FIELDS: usize = 3;
/// Maximum number of node types, and of relations, listed after an import.
const MAX_ROWS: usize = 20;
/// Maximum number of characters of a name in a table.
const MAX_NAME: usize = 40;

/// Prints the heading, the tables and the likely mistakes of an import. For an installed dataset,
/// also names the command that lists all mistakes.
///
/// # Errors
/// If stdout cannot be written to.
pub(super) fn print(
    report: &ImportReport,
    done: &str,
    is_installed: bool,
    ctx: &Context,
) -> Result<()> {
    let record = &report.base.record;
    ctx.printer.text(&format!(
        "{}: {}, {}, {} ({done})\n\n",
        report.base.name,
        counted(record.n_nodes.into(), "node"),
        counted(record.n_edges, "edge"),
        counted(record.n_queries, "question"),
    ))?;
    tables(&report.summary, MAX_ROWS, MAX_FIELDS, ctx)?;
    let found = found(&report.summary);
    if !found.is_empty() {
        ctx.printer.text(&format!("\nlook at    {}\n", found.join("\n           ")))?;
    }
    if !found.is_empty() && is_installed {
        let name = &report.base.name;
        ctx.printer.text(&format!("more       agent data show {name} --issues\n"))?;
    }
    Ok(())
}

/// Prints the whole summary of the dataset `name`, and all likely mistakes in its data.
///
/// # Errors
/// If stdout cannot be written to.
pub(super) fn issues(name: &str, summary: &Summary, json: bool, ctx: &Context) -> Result<Exit> {
    if json {
        return ctx.printer.json(summary);
    }
    tables(summary, usize::MAX, usize::MAX, ctx)?;
    let mut lines = Vec::new();
    for typo in &summary.typos {
        let things = if typo.kind == "type" { "node" } else { "edge" };
        let (what, uses) = (typo.kind, counted(typo.uses, things));
        lines.push(format!(
            "{what} \"{}\" has {uses}; is it a typo of \"{}\"?",
            typo.label, typo.similar_to
        ));
    }
    for of in &summary.types {
        let first = of.frequent_names.iter().map(|(name, n)| format!("{name} ({n})"));
        let first = first.collect::<Vec<_>>().join(", ");
        if of.shared_names > 0 {
            let n = count(of.shared_names);
            lines.push(format!("{n} of type {} share their name: {first}", of.name));
        }
        let what = format!("of type {} without any edge", of.name);
        lines.extend(told(&of.isolated, "node", &what));
    }
    let what = "with no candidate among the answers";
    lines.extend(told(&summary.unanswerable, "question", what));
    let what = "with answers that are not candidates, which are left out of scores";
    lines.extend(told(&summary.partly_unanswerable, "question", what));
    let text: String =
        lines.iter().map(|line| format!("{}\n", plain(line, 10 * MAX_SHOWN))).collect();
    if text.is_empty() {
        ctx.watch.notice(&format!("no likely mistakes in \"{name}\""));
        return Ok(Exit::Done);
    }
    ctx.printer.text(&format!("\n{text}"))
}

fn told(examples: &Examples, noun: &str, what: &str) -> Option<String> {
    let more = if examples.count > examples.first.len() as u64 { ", ..." } else { "" };
    let first = examples.first.join(", ");
    (examples.count > 0).then(|| format!("{} {what}: {first}{more}", counted(examples.count, noun)))
}

/// Prints the tables of node types and relations: at most `rows` rows each, and at most `fields`
/// fields per type.
fn tables(summary: &Summary, rows: usize, fields: usize, ctx: &Context) -> Result<()> {
    let headings = ["type", "nodes", "fields (coverage)", "names that repeat"];
    let mut types = table(headings, &[1, 3]);
    for of in summary.types.iter().take(rows) {
        let mark = if of.is_candidate { "" } else { " (no candidate)" };
        types.add_row([
            format!("{}{mark}", plain(&of.name, MAX_NAME)),
            count(of.nodes),
            plain(coverage(of, fields), 10 * MAX_SHOWN),
            share(of.shared_names, of.nodes),
        ]);
    }
    ctx.printer.table(&types)?;
    rest(summary.types.len(), rows, "types", ctx)?;
    ctx.printer.text("\n")?;
    let headings = ["relation", "edges", "from -> to", "per node, median / max"];
    let mut relations = table(headings, &[1, 3]);
    for of in summary.relations.iter().take(rows) {
        relations.add_row([
            plain(&of.name, MAX_NAME),
            count(of.edges),
            plain(format!("{} -> {}", of.from, of.to), 2 * MAX_NAME),
            of.per_node.map_or_else(String::new, |(median, max)| {
                format!("{} / {}", count(median), count(max))
            }),
        ]);
    }
    ctx.printer.table(&relations)?;
    rest(summary.relations.len(), rows, "relations", ctx)
}

fn rest(n: usize, shown: usize, what: &str, ctx: &Context) -> Result<()> {
    if let Some(more @ 1..) = n.checked_sub(shown) {
        ctx.printer.text(&format!("and {} more {what}\n", count(more as u64)))?;
    }
    Ok(())
}

fn coverage(of: &TypeSummary, fields: usize) -> String {
    if of.fields.is_empty() {
        return "-".to_owned();
    }
    let percent = |n: u64| match n * 100 / of.nodes.max(1) {
        0 => "< 1".to_owned(),
        percent => percent.to_string(),
    };
    let told = of.fields.iter().take(fields).map(|(name, n)| format!("{name} {} %", percent(*n)));
    let mut told: Vec<String> = told.collect();
    if let Some(more @ 1..) = of.fields.len().checked_sub(fields) {
        told.push(format!("and {more} more"));
    }
    told.join(", ")
}

fn share(n: u64, of: u64) -> String {
    match n {
        0 => "0".to_owned(),
        n => format!("{} ({:.1} %)", count(n), n as f64 * 100.0 / of.max(1) as f64),
    }
}

/// Returns the likely mistakes in a dataset, one line each.
fn found(summary: &Summary) -> Vec<String> {
    let mut found = Vec::new();
    for typo in &summary.typos {
        let things = if typo.kind == "type" { "node" } else { "edge" };
        let (label, like) = (plain(&typo.label, MAX_NAME), plain(&typo.similar_to, MAX_NAME));
        let n = counted(typo.uses, things);
        found.push(format!("{n} of {} \"{label}\" (like {like})", typo.kind));
    }
    for of in summary.types.iter().filter(|of| of.isolated.count > 0) {
        let n = counted(of.isolated.count, "node");
        found.push(format!("{n} of type {} without any edge", plain(&of.name, MAX_NAME)));
    }
    let questions = [
        (&summary.unanswerable, "with no candidate among the answers"),
        (&summary.partly_unanswerable, "with answers that are not candidates"),
    ];
    for (examples, what) in questions.into_iter().filter(|(examples, _)| examples.count > 0) {
        found.push(format!("{} {what}", counted(examples.count, "question")));
    }
    found
}
