//! `agent home`: exports a home directory as one tarball, or imports such a tarball. The tarball
//! has the layout of a home: `bases/NAME/`, `models/NAME/`, `runs/NAME/`.

mod export;
mod import;

use anyhow::anyhow;
use clap::Subcommand;
use serde::Serialize;

use crate::{Context, Exit, table};
use agent_app::{Explain, Result, count, named};
use agent_dataset::Home;
use agent_ground::tarball::Member;
use agent_optimize::BUNDLE_FILE;

/// Directory of datasets, in a home and in a tarball.
const BASES: &str = "bases";
/// Directory of trained models, in a home and in a tarball.
const MODELS: &str = "models";
/// Directory of runs, in a home and in a tarball.
const RUNS: &str = "runs";
/// File in the directory of a base in a tarball; holds the number of times that the base's test
/// split was opened.
const OPENINGS: &str = "openings";
/// Files and directories permitted in the directory of a base in a tarball; names of directories
/// end with `/`.
const OF_BASE: [&str; 5] = ["base.json", OPENINGS, "kb/", "queries/", "index/"];

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write datasets, models and runs to one file
    Export(export::Args),
    /// Import a file that `agent home export` wrote
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
    /// The bundle of a run, without the journal of the run.
    Bundle,
}

/// A dataset, model, run or bundle in a tarball, with the number of its files and their total size
/// in bytes.
#[derive(Debug, Serialize)]
struct Thing {
    kind: Kind,
    name: String,
    files: u64,
    bytes: u64,
}

/// Groups the files of a tarball into datasets, models, runs and bundles, which are returned in the
/// order of the tarball.
///
/// # Errors
/// If the path of a file is not allowed in a home directory.
fn things(members: &[Member], home: &Home) -> Result<Vec<Thing>> {
    let mut things: Vec<Thing> = Vec::new();
    let mut last = "";
    for member in members {
        let (folder, name, file) = placed(&member.path, home)
            .ok_or_else(|| anyhow!("{:?} is not a file of a home directory", member.path))
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

/// Splits a path such as `bases/shop/kb/nodes` into directory (`bases`), name (`shop`) and the path
/// below it (`kb/nodes`). `None` if such a file is not allowed in a home.
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

/// Prints the datasets, models, runs and bundles of a tarball as a table or as JSON lines.
fn tell(things: &[Thing], json: bool, ctx: &Context) -> Result<Exit> {
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
