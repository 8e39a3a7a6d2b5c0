//! `agent completions` and `agent man`: write completion scripts and manual pages.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;

use crate::{Cli, Context, Exit};
use agent_app::{Result, output};

/// Print a completion script for a shell
///
/// Prints the script to stdout; where to save it depends on the shell.
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// Write the script for this shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the manual pages
///
/// Writes one page per command, in the format of the man program: agent.1, agent-data-import.1 and
/// so on.
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// Write the pages to this directory; it is created if it does not exist
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn completions(args: &CompletionsArgs, ctx: &Context) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::full(), "agent", &mut script);
    ctx.printer.data(String::from_utf8_lossy(&script).trim_end())
}

pub(super) fn man(args: &ManArgs, ctx: &Context) -> Result<Exit> {
    let dir = &args.dir;
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut command = Cli::full().disable_help_subcommand(true);
    command.build();
    let n = write_pages(&command, "agent", dir)?;
    ctx.watch.notice(&format!("wrote {n} pages to {}", dir.display()));
    Ok(Exit::Done)
}

/// Writes the pages of the command `name` and all its subcommands into `dir`; returns the number of
/// pages.
fn write_pages(command: &Command, name: &str, dir: &PathBuf) -> Result<usize> {
    let path = dir.join(format!("{name}.1"));
    let shown = command.clone().display_name(name.to_owned());
    output::write(&path, |out| Ok(clap_mangen::Man::new(shown).render(out)?))?;
    let mut n = 1;
    for below in command.get_subcommands() {
        n += write_pages(below, &format!("{name}-{}", below.get_name()), dir)?;
    }
    Ok(n)
}
