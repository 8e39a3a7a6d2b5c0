//! `agent home`: what is in the home directory travels as one file, a tarball in which everything lies
//! as it does in a home: `bases/NAME/`, `models/NAME/`, `runs/NAME/`.

mod export;
mod import;

use anyhow::anyhow;
use clap::Subcommand;
use serde::Serialize;

use crate::{Context, Exit, printer::table};
use agent_app::{
    error::{Explain, Result},
    named,
    text::count,
};
use agent_dataset::Home;
use agent_ground::tarball::Member;
use agent_optimize::BUNDLE_FILE;

/// Directories of a home and of a tarball.
const BASES: &str = "bases";
/// See [`BASES`].
const MODELS: &str = "models";
/// See [`BASES`].
const RUNS: &str = "runs";
/// Beside the files of a base in a tarball: how often its test split was opened.
const OPENINGS: &str = "openings";
/// All that lies in the directory of a base; the last three are directories.
const OF_BASE: [&str; 5] = ["base.json", OPENINGS, "kb/", "queries/", "index/"];

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write datasets, models and runs as one file
    Export(export::Args),
    /// Take in what another home wrote as one file
    Import(import::Args),
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::Export(args) => export::run(&args, ctx),
        Command::Import(args) => import::run(&args, ctx),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Dataset,
    Model,
    Run,
    /// The bundle of a run, without its journal.
    Bundle,
}

/// One thing of a home.
#[derive(Debug, Serialize)]
struct Thing {
    kind: Kind,
    name: String,
    files: u64,
    bytes: u64,
}

/// What the files of a tarball are, in their order.
///
/// # Errors
/// That one has no place in a home.
fn things(members: &[Member], home: &Home) -> Result<Vec<Thing>> {
    let mut things: Vec<Thing> = Vec::new();
    let mut last = "";
    for member in members {
        let (folder, name, file) = placed(&member.path, home)
            .ok_or_else(|| anyhow!("{:?} has no place in a home directory", member.path))
            .hint("give a file that `agent home export` of this version wrote")?;
        let of = &member.path[..folder.len() + 1 + name.len()];
        let bytes = member.bytes;
        match things.last_mut().filter(|_| of == last) {
            Some(thing) => {
                thing.files += 1;
                thing.bytes += bytes;
                if thing.kind == Kind::Bundle {
                    thing.kind = Kind::Run;
                }
            }
            None => {
                let kind = match folder {
                    BASES => Kind::Dataset,
                    MODELS => Kind::Model,
                    _ if file == BUNDLE_FILE => Kind::Bundle,
                    _ => Kind::Run,
                };
                things.push(Thing { kind, name: name.to_owned(), files: 1, bytes });
            }
        }
        last = of;
    }
    Ok(things)
}

/// Directory, name and path within it of a file that a home may hold.
fn placed<'a>(path: &'a str, home: &Home) -> Option<(&'a str, &'a str, &'a str)> {
    let (folder, rest) = path.split_once('/')?;
    let (name, file) = rest.split_once('/')?;
    let is_known = match folder {
        BASES => {
            let of_base = |known: &str| match known.ends_with('/') {
                true => file.starts_with(known),
                false => file == known,
            };
            home.path_of(name).is_ok() && OF_BASE.iter().any(|known| of_base(known))
        }
        MODELS => named::new_model_dir(name, home).is_ok(),
        RUNS => named::is_run_name(name),
        _ => false,
    };
    is_known.then_some((folder, name, file))
}

/// Prints things as a table, or as JSON lines.
fn tell(things: &[Thing], json: bool, ctx: &Context) -> Result<()> {
    if json {
        return ctx.printer.json_lines(things);
    }
    let mut rows = table(["what", "name", "files", "bytes"], &[2, 3]);
    for thing in things {
        let what = match thing.kind {
            Kind::Dataset => "dataset",
            Kind::Model => "model",
            Kind::Run => "run",
            Kind::Bundle => "bundle",
        };
        rows.add_row([what.to_owned(), thing.name.clone(), count(thing.files), count(thing.bytes)]);
    }
    ctx.printer.table(&rows)
}
