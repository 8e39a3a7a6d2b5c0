//! `agent run log`: prints the steps of a run, one per line.

use crate::{Context, Exit, plain, run::RunArg, table};
use agent_app::{MAX_SHOWN, Result, named, p_cell};
use agent_optimize::record::{
    Record,
    line::{Line, Lines},
};

/// Print the steps of a run, one per line
///
/// Prints the steps in the order of the journal: number, kind, category, proposer, change, and the
/// name and size of the set of queries. A trial also has its mean reciprocal rank in percent. A
/// test of a change has the difference of the mean reciprocal ranks in percentage points, its
/// p-value, and whether the change was kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    run: RunArg,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let record = Record::read(&named::run_dir(&args.run.dir, ctx)?)?;
    let lines = Lines::from_record(&record);
    if args.json {
        return ctx.printer.json_lines(&lines);
    }
    let headings =
        ["step", "kind", "category", "by", "what", "on", "n", "mrr", "difference", "p", "accepted"];
    let mut rows = table(headings, &[0, 6, 7, 8, 9]);
    for line in &lines {
        let text =
            |text: &Option<String>| text.as_deref().map_or(String::new(), |t| plain(t, MAX_SHOWN));
        let mrr = |mrr: Option<f64>| mrr.map_or(String::new(), |mrr| format!("{:.1}", 100.0 * mrr));
        let points = |share: f64| format!("{:+.1}", 100.0 * share);
        rows.add_row([
            line.n.to_string(),
            plain(&line.kind, MAX_SHOWN),
            text(&line.category),
            text(&line.proposed_by),
            what(line),
            text(&line.pool),
            line.queries.map_or(String::new(), |n| n.to_string()),
            mrr(line.mrr),
            line.difference.map_or(String::new(), points),
            line.p.map_or(String::new(), p_cell),
            line.accepted.map_or("", |accepted| if accepted { "yes" } else { "no" }).to_owned(),
        ]);
    }
    ctx.printer.table(&rows)
}

/// Describes the change or the key of a step, with the number of failed queries and of replies.
fn what(line: &Line) -> String {
    let what = match (&line.change, line.failed) {
        (Some(change), Some(failed @ 1..)) => format!("{change}; failed on {failed}"),
        (Some(change), _) => change.clone(),
        (None, _) => line.key.clone(),
    };
    match line.replies.len() {
        0 => plain(what, MAX_SHOWN),
        n => plain(format!("{what} ({n} replies)"), MAX_SHOWN),
    }
}
