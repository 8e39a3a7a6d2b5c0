//! `agent program show`: prints the source of a program with its tuned parameters, or the lexicon
//! of a bundle.

use std::fmt::Write;

use serde_json::json;

use crate::{Context, Exit, plain, table};
use agent_app::{
    MAX_SHOWN, Result, SandboxArgs,
    program::sources::{Place, declared, find, lexicon},
};
use agent_optimize::record::programs::Entry;
use agent_sandbox::{Param, SandboxOptions};

/// Maximum number of words of a phrasing in a table; --json prints all.
const SHOWN_WORDS: usize = 12;

/// Print the source of a program, or the lexicon of a bundle
///
/// Tuned parameters follow as comments, so that the output is a valid program. For a module, prints
/// its header and size; --json includes its bytes in base64. A file or a pipe gets every byte of
/// the source; on a terminal, control characters are replaced by spaces.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print this program: its id, a prefix of the id with at least six hex digits, or its category
    #[arg(value_name = "ID|CATEGORY", required_unless_present = "lexicon")]
    program: Option<String>,
    /// Instead of a program, print the words by which the bundle recognises plain questions, by
    /// metapath
    #[arg(long, conflicts_with = "program")]
    lexicon: bool,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let Some(program) = &args.program else { return print_lexicon(args, ctx) };
    let sources = args.place.read(ctx)?;
    let entry = find(&sources, program)?;
    let options = args.sandbox.places(ctx)?.of(sources.origin());
    if args.json {
        return ctx.printer.json(&json!({
            "id": entry.program.id(),
            "category": entry.category,
            "description": entry.program.description(),
            "proposed_by": entry.proposed_by,
            "source": entry.program.source(),
            "declared": declared(&entry.program, &options),
            "params": entry.params,
        }));
    }
    let text = format!("{}{}", entry.program.listing(), tuned(entry, &options));
    ctx.printer.data(&text)
}

fn print_lexicon(args: &Args, ctx: &Context) -> Result<Exit> {
    let lexicon = lexicon(&args.place, ctx)?;
    if args.json {
        return ctx.printer.json_lines(&lexicon);
    }
    if lexicon.is_empty() {
        ctx.watch.notice("the bundle has no phrasings of plain questions");
        return Ok(Exit::Done);
    }
    let mut rows = table(["metapaths", "questions", "from", "words"], &[1]);
    for one in &lexicon {
        let words = one.words.iter().take(SHOWN_WORDS).map(|(stem, n)| format!("{stem} {n}"));
        rows.add_row([
            plain(one.metapaths.join(" and "), MAX_SHOWN),
            one.questions.to_string(),
            if one.written { "lexicon" } else { "training" }.to_owned(),
            plain(words.collect::<Vec<_>>().join(", "), 2 * MAX_SHOWN),
        ]);
    }
    ctx.printer.table(&rows)
}

/// Returns the tuned parameters of the program as comment lines; empty if none are tuned.
fn tuned(entry: &Entry, options: &SandboxOptions) -> String {
    let mut text = String::new();
    if entry.params.is_empty() {
        return text;
    }
    let end = if entry.program.listing().ends_with('\n') { "" } else { "\n" };
    let _ = writeln!(text, "{end}\n// Tuned parameters:");
    let declared = declared(&entry.program, options);
    for (name, value) in &entry.params {
        let _ = match declared.iter().find(|param| param.name == *name) {
            Some(Param { value: before, min, max, .. }) => {
                writeln!(text, "//   {name}: {value} (declared {before}, {min} to {max})")
            }
            None => writeln!(text, "//   {name}: {value}"),
        };
    }
    text
}
