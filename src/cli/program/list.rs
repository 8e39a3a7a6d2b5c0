//! `agent program list`: lists the programs of a run or a bundle.

use serde::Serialize;

use crate::{
    Context, Exit,
    printer::{plain, table},
};
use agent_app::{
    error::Result,
    program::sources::Place,
    text::{MAX_SHOWN, count},
};
use agent_optimize::record::programs::{Score, variant};

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

#[derive(Serialize)]
struct Listed<'a> {
    id: &'a str,
    /// Short id of the program together with its parameters; two entries differ in it if their
    /// source or parameters differ.
    variant: String,
    category: &'a str,
    proposed_by: &'a str,
    tuned: usize,
    train: Option<Score>,
    validation: Option<Score>,
    frozen: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let sources = args.place.read(ctx)?;
    let listed: Vec<Listed<'_>> = sources
        .entries
        .iter()
        .map(|entry| Listed {
            id: entry.program.id(),
            variant: variant(&entry.program, &entry.params),
            category: &entry.category,
            proposed_by: &entry.proposed_by,
            tuned: entry.params.len(),
            train: entry.train,
            validation: entry.validation,
            frozen: entry.frozen,
        })
        .collect();
    if listed.is_empty() {
        ctx.printer.notice("there is no program yet");
        return Ok(Exit::Done);
    }
    if args.json {
        ctx.printer.json_lines(&listed)?;
        return Ok(Exit::Done);
    }
    let headings = ["id", "category", "by", "tuned", "n train", "mrr", "n val", "mrr", "frozen"];
    let mut rows = table(headings, &[3, 4, 5, 6, 7]);
    for line in &listed {
        let n = |score: Option<Score>| score.map_or(String::new(), |s| count(s.n as u64));
        let mrr =
            |score: Option<Score>| score.map_or(String::new(), |s| format!("{:.1}", 100.0 * s.mrr));
        rows.add_row([
            line.variant.clone(),
            plain(line.category, MAX_SHOWN),
            plain(line.proposed_by, MAX_SHOWN),
            line.tuned.to_string(),
            n(line.train),
            mrr(line.train),
            n(line.validation),
            mrr(line.validation),
            if line.frozen { "yes" } else { "" }.to_owned(),
        ]);
    }
    ctx.printer.table(&rows)?;
    Ok(Exit::Done)
}
