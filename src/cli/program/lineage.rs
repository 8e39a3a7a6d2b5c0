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
        let change = plain(ancestor.change, MAX_SHOWN);
        let mut head = [id, plain(ancestor.proposed_by, MAX_SHOWN)];
        // If the first test is not of the change that made the program, each of the two changes
        // gets its own row.
        let tested = ancestor.tests.first().map(|test| plain(&test.change, MAX_SHOWN));
        if tested.as_ref() != Some(&change) {
            rows.add_row(std::mem::take(&mut head).into_iter().chain([change]));
        }
        for test in &ancestor.tests {
            let of_test = [
                plain(&test.change, MAX_SHOWN),
                test.n.to_string(),
                format!("{:+.1}", 100.0 * test.difference),
                p_cell(test.p),
                if test.accepted { "yes" } else { "no" }.to_owned(),
            ];
            rows.add_row(std::mem::take(&mut head).into_iter().chain(of_test));
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
