//! `agent program lineage`: prints the ancestors of a program, and the tests of their changes.

use anyhow::anyhow;
use serde::Serialize;

use crate::{Context, Exit, plain, table};
use agent_app::{
    Explain, MAX_SHOWN, Result, p_cell,
    program::sources::{Place, find},
};
use agent_optimize::{Decision, record::programs::Sources};

/// Show the ancestors of a program, and the test of each change
///
/// Prints the oldest ancestor first. Below each program come the tests of its changes on training
/// queries of its category: the difference in mean reciprocal rank, the p-value, and whether the
/// change was kept. The bundle records whether all kept changes together are a statistically
/// significant improvement.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show the ancestors of this program: its id, a prefix of the id with at least six hex digits,
    /// or its category
    #[arg(value_name = "ID|CATEGORY")]
    program: String,
    #[command(flatten)]
    place: Place,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

/// JSON of one program: an ancestor, or the program itself.
#[derive(Serialize)]
struct Ancestor<'a> {
    id: &'a str,
    category: &'a str,
    proposed_by: &'a str,
    change: &'a str,
    parent: Option<&'a str>,
    tests: Vec<&'a Decision>,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    if args.place.run_dir().is_none() {
        return Err(anyhow!("a bundle does not record how its programs were found"))
            .hint("give the run's directory with --run DIR");
    }
    let sources = args.place.read(ctx)?;
    let entry = find(&sources, &args.program)?;
    let chain = chain(&sources, entry.program.id());
    if args.json {
        return ctx.printer.json_lines(&chain);
    }
    let headings = ["program", "by", "change", "n", "difference", "p", "accepted"];
    let mut rows = table(headings, &[3, 4, 5]);
    for ancestor in &chain {
        let id: String = ancestor.id.chars().take(12).collect();
        let mut head =
            vec![id, plain(ancestor.proposed_by, MAX_SHOWN), plain(ancestor.change, MAX_SHOWN)];
        for test in &ancestor.tests {
            let mut row = std::mem::replace(&mut head, vec![String::new(), String::new()]);
            if row.len() == 2 {
                row.push(plain(&test.change, MAX_SHOWN));
            } else if row.get(2) != Some(&plain(&test.change, MAX_SHOWN)) {
                // The first test is of another change than the one that made the program. Each of
                // the two changes then gets its own row.
                rows.add_row(row);
                row = vec![String::new(), String::new(), plain(&test.change, MAX_SHOWN)];
            }
            row.push(test.n.to_string());
            row.push(format!("{:+.1}", 100.0 * test.difference));
            row.push(p_cell(test.p));
            row.push(if test.accepted { "yes" } else { "no" }.to_owned());
            rows.add_row(row);
        }
        if head.len() == 3 {
            rows.add_row(head);
        }
    }
    ctx.printer.table(&rows)
}

/// Returns the ancestors of a program and the program itself, oldest first.
fn chain<'a>(sources: &'a Sources, id: &'a str) -> Vec<Ancestor<'a>> {
    let mut chain: Vec<Ancestor<'a>> = Vec::new();
    let mut next = Some(id);
    while let Some(id) = next {
        // A mutation may restore the source of an ancestor.
        if chain.iter().any(|ancestor| ancestor.id == id) {
            break;
        }
        let Some((id, trial)) = sources.origins.get_key_value(id) else { break };
        let entry = sources.entries.iter().find(|entry| entry.program.id() == id);
        let parent = trial.origin.parent.as_deref().filter(|parent| parent != id);
        let tests = sources.decisions.iter().filter(|decision| decision.to == *id).collect();
        chain.push(Ancestor {
            id,
            category: entry.map_or("", |entry| &entry.category),
            proposed_by: &trial.origin.proposed_by,
            change: &trial.origin.change,
            parent,
            tests,
        });
        next = parent;
    }
    chain.reverse();
    chain
}
