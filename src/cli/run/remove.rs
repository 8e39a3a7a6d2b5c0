//! `agent run remove`: removes runs of the home directory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow};

use crate::{Context, Exit};
use agent_app::{
    error::{AppError, Explain, Result},
    named,
};
use agent_optimize::{
    BUNDLE_FILE,
    journal::{self, DATABASE_FILE},
};

/// Begins the name of a directory that is being removed.
const REMOVED: &str = ".removed-";

/// Remove a run and all that it kept
///
/// Journal, bundle, prompts and replies of the run are gone; replies that are shared by all runs
/// stay (`agent cache clear`). A run that is being written, or that is not in the home directory, is
/// not removed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Runs: names or directories
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    // All are looked at before any is removed.
    let found: Result<Vec<PathBuf>> = args.runs.iter().map(|run| removable(run, ctx)).collect();
    for dir in found? {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let aside = named::runs_dir(&ctx.home).join(format!("{REMOVED}{name}"));
        let failed = || format!("cannot remove {}", dir.display());
        // What a removal that was interrupted left of an earlier run of this name.
        if aside.exists() {
            fs::remove_dir_all(&aside).with_context(failed)?;
        }
        // One step, so that no half of a run is ever seen under its name.
        fs::rename(&dir, &aside).with_context(failed)?;
        fs::remove_dir_all(&aside).with_context(failed)?;
        ctx.printer.notice(&format!("removed {name}"));
    }
    Ok(Exit::Done)
}

/// The directory of a run that may be removed.
fn removable(run: &Path, ctx: &Context) -> Result<PathBuf> {
    let dir = named::run_dir(run, &ctx.home)?;
    let place = |dir: &PathBuf| fs::canonicalize(dir).ok();
    let known = named::run_dirs(&ctx.home)?.into_iter().find(|known| place(known) == place(&dir));
    // The entry of the home: of a link, the directory that it leads to stays.
    let hint = "remove the directory yourself if nothing else is in it";
    let Some(dir) = known else {
        let runs = named::runs_dir(&ctx.home);
        let error = anyhow!("{} is not in {}", dir.display(), runs.display());
        return Err(AppError::usage(error)).hint(hint);
    };
    if !is_run(&dir) {
        return Err(AppError::usage(anyhow!("{} is not a run", dir.display()))).hint(hint);
    }
    // Also one that is frozen already, or that cannot be read.
    if let Some(pid) = journal::writer_pid(&dir) {
        return Err(anyhow!("the run in {} is being written by process {pid}", dir.display()))
            .hint("interrupt it first");
    }
    Ok(dir)
}

/// Whether a directory has the files of a run, or nothing at all.
fn is_run(dir: &Path) -> bool {
    let is_empty = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    is_empty || [DATABASE_FILE, BUNDLE_FILE].iter().any(|file| dir.join(file).exists())
}
