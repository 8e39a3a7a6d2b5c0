//! `agent data guess`: writes a guessed mapping of tables to nodes and edges, to be edited.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::{Context, Exit};
use agent_app::{Explain, Result, output, refused};
use agent_dataset::tables::{self, Guess, GuessOptions, MAPPING_FILE};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read this directory of tables, or this table or database
    #[arg(value_name = "DIR")]
    source: PathBuf,
    /// Write the mapping to this file [default: mapping.toml in the directory, or stdout for a
    /// single table or database]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace an existing mapping
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    if !args.source.exists() {
        let source = args.source.display();
        return refused(format!("there is no file or directory {source}"));
    }
    let Guess { mapping, notes } = tables::guess(&args.source, &GuessOptions::default())?;
    for line in mapping.lines().iter().chain(&notes) {
        ctx.watch.notice(line);
    }
    let text = mapping.to_toml();
    let place =
        args.out.clone().or_else(|| args.source.is_dir().then(|| args.source.join(MAPPING_FILE)));
    let Some(place) = place else {
        return ctx.printer.data(&text);
    };
    write(&place, &text, args.force)?;
    let source = args.source.display();
    let shown = place.display();
    let own = args.source.join(MAPPING_FILE);
    let mapping = if place == own { String::new() } else { format!(" --mapping {shown}") };
    ctx.watch.notice(&format!(
        "wrote {shown}: edit it, then `agent data import --name N --from {source}{mapping}`"
    ));
    Ok(Exit::Done)
}

fn write(place: &Path, text: &str, force: bool) -> Result<()> {
    if !force && place.symlink_metadata().is_ok() {
        return Err(anyhow!("{} already exists", place.display()))
            .hint("edit it, or give --force to replace it");
    }
    output::write(place, |out| Ok(out.write_all(text.as_bytes())?))
}
