//! `agent program list`: lists the programs of a run or a bundle.

use serde_json::json;

use crate::{Context, Exit, plain, table};
use agent_app::{MAX_SHOWN, Result, count, program::sources::Place};
use agent_optimize::record::programs::{Entry, Score, variant};

/// List the programs of a run or a bundle
///
/// Prints the id, the category, the proposer and the number of tuned parameters of each program.
/// Then prints its mean reciprocal rank in percent on the training and validation queries that it
/// ran on. The id of a tuned program ends with ~ and four digits of the digest of its parameters.
/// For a bundle, the validation score is that of the bundle on the queries that the router sends to
/// the program.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let entries = args.place.read(ctx)?.entries;
    if entries.is_empty() {
        ctx.watch.notice("no programs yet");
        return Ok(Exit::Done);
    }
    if args.json {
        let line = |entry: &Entry| {
            json!({
                "id": entry.program.id(),
                // Entries whose source or parameters differ have different variants.
                "variant": variant(&entry.program, &entry.params),
                "category": entry.category,
                "proposed_by": entry.proposed_by,
                "tuned": entry.params.len(),
                "train": entry.train,
                "validation": entry.validation,
                "frozen": entry.frozen,
            })
        };
        return ctx.printer.json_lines(&entries.iter().map(line).collect::<Vec<_>>());
    }
    let headings = ["id", "category", "by", "tuned", "n train", "mrr", "n val", "mrr", "frozen"];
    let mut rows = table(headings, &[3, 4, 5, 6, 7]);
    let n = |score: Option<Score>| score.map_or(String::new(), |s| count(s.n as u64));
    let mrr =
        |score: Option<Score>| score.map_or(String::new(), |s| format!("{:.1}", 100.0 * s.mrr));
    for entry in &entries {
        rows.add_row([
            variant(&entry.program, &entry.params),
            plain(&entry.category, MAX_SHOWN),
            plain(&entry.proposed_by, MAX_SHOWN),
            entry.params.len().to_string(),
            n(entry.train),
            mrr(entry.train),
            n(entry.validation),
            mrr(entry.validation),
            if entry.frozen { "yes" } else { "" }.to_owned(),
        ]);
    }
    ctx.printer.table(&rows)
}
