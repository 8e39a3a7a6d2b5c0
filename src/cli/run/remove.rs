//! `agent run remove`: removes runs from the home directory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow};

use crate::{Context, Exit};
use agent_app::{Explain, Result, named, refused};
use agent_optimize::{
    BUNDLE_FILE,
    journal::{self, DATABASE_FILE},
};

/// Prefix of the name of a run's directory while the run is being removed.
const REMOVED: &str = ".removed-";

/// Remove runs with all their files
///
/// Deletes the journal, bundle, prompts and replies of each run. Replies shared by all runs stay;
/// see `agent cache clear`. A run that is being written, or that is not in the home directory, is
/// not removed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Remove these runs: names or directories
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    // Check all runs before removing any.
    let found: Result<Vec<PathBuf>> = args.runs.iter().map(|run| removable(run, ctx)).collect();
    for dir in found? {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let aside = named::runs_dir(&ctx.home).join(format!("{REMOVED}{name}"));
        let failed = || format!("cannot remove {}", dir.display());
        // An interrupted removal of an earlier run of this name may have left the directory.
        if aside.exists() {
            fs::remove_dir_all(&aside).with_context(failed)?;
        }
        // Renaming is atomic, so that a partly removed run never appears under its name.
        fs::rename(&dir, &aside).with_context(failed)?;
        fs::remove_dir_all(&aside).with_context(failed)?;
        ctx.watch.notice(&format!("removed {name}"));
    }
    Ok(Exit::Done)
}

/// Returns the directory of a run, given by name or directory, after checking that the run may be
/// removed.
///
/// # Errors
/// If the directory is not in the home, is not a run, or another process is writing the run.
fn removable(run: &Path, ctx: &Context) -> Result<PathBuf> {
    let dir = named::run_dir(run, ctx)?;
    let place = |dir: &PathBuf| fs::canonicalize(dir).ok();
    let known = named::run_dirs(&ctx.home)?.into_iter().find(|known| place(known) == place(&dir));
    // Take the entry in the home directory: if it is a link, only the link is removed.
    let hint = "remove the directory yourself if nothing else is in it";
    let Some(dir) = known else {
        let runs = named::runs_dir(&ctx.home);
        return refused(format!("{} is not in {}", dir.display(), runs.display())).hint(hint);
    };
    if !is_run(&dir) {
        return refused(format!("{} is not a run", dir.display())).hint(hint);
    }
    // Frozen and unreadable runs are checked too.
    if let Some(pid) = journal::writer_pid(&dir) {
        return Err(anyhow!("the run in {} is being written by process {pid}", dir.display()))
            .hint("interrupt it first");
    }
    Ok(dir)
}

/// Whether a directory holds the journal or the bundle of a run, or is empty.
fn is_run(dir: &Path) -> bool {
    let is_empty = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    is_empty || [DATABASE_FILE, BUNDLE_FILE].iter().any(|file| dir.join(file).exists())
}
