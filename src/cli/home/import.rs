//! `agent home import`: imports datasets, models and runs from a file that another home exported.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use anyhow::{Context as _, anyhow};

use super::{BASES, Kind, MODELS, OPENINGS, RUNS, Thing, tell, things};
use crate::{Context, Exit};
use agent_app::{Explain, Result, count};
use agent_dataset::{BaseRecord, Home};
use agent_ground::{
    files, owned_dir, space,
    tarball::{Tarball, Watch},
};
use agent_kb::{publish, sync_dir};
use agent_optimize::journal::{self, DATABASE_FILE};

/// Prefix of the names of the staging directories in which imports unpack.
const STAGING_PREFIX: &str = ".import-";
/// Kind of owner recorded in a staging directory, see [`owned_dir`].
const STAGING: &str = "import";

/// Import a file that `agent home export` wrote
///
/// All contents are unpacked into a temporary directory and compared with their digests; then each
/// dataset, model and run appears in one step. If one of them already exists, nothing is imported,
/// unless --replace is given. A file is refused if it is truncated or changed, or holds files that
/// do not belong in a home. An interrupted import leaves only its temporary directory, which the
/// next import removes.
///
/// Programs of runs that were made elsewhere are untrusted, and run inside WebAssembly.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Import this file, written by `agent home export`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace existing datasets, models and runs of the same names
    #[arg(long)]
    replace: bool,
    /// Check all digests and list the contents of the file, without importing anything
    #[arg(long)]
    dry_run: bool,
    /// Print the imported datasets, models and runs as JSON lines
    #[arg(long)]
    json: bool,
}

impl Thing {
    /// Returns the path of this dataset, model, run or bundle below `root`, a home or a staging
    /// directory.
    fn place(&self, root: &Path) -> PathBuf {
        let folder = match self.kind {
            Kind::Dataset => BASES,
            Kind::Model => MODELS,
            Kind::Run | Kind::Bundle => RUNS,
        };
        root.join(folder).join(&self.name)
    }
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let tarball = Tarball::open(&args.file)?;
    let things = things(tarball.members(), &ctx.home)?;
    let total: u64 = things.iter().map(|thing| thing.bytes).sum();
    ctx.ends_itself.store(true, Ordering::Relaxed);
    let mut on_bytes = ctx.progress("importing".to_owned(), total);
    let mut watch = Watch { on_bytes: &mut on_bytes, stop: &ctx.stop };
    if args.dry_run {
        tarball.unpack(None, &mut watch)?;
        drop(on_bytes);
        tell(&things, args.json, ctx)?;
        ctx.watch.notice("all digests match; nothing was written");
        return Ok(Exit::Done);
    }
    may_be_placed(&things, args.replace, &ctx.home)?;
    let home = ctx.home.path();
    let _turn = turn(home)?;
    if let Some(free) = space::free_bytes(home).filter(|&free| free < total) {
        let (total, free, home) = (count(total), count(free), home.display());
        return Err(anyhow!("the import needs {total} bytes, but {home} has {free} free"))
            .hint("free space there, or import into another home with --home DIR");
    }
    let staging = files::temporary_dir(home, STAGING_PREFIX);
    let staging = staging.with_context(|| format!("cannot write into {}", home.display()))?;
    owned_dir::take(staging.path(), STAGING)?;
    tarball.unpack(Some(staging.path()), &mut watch)?;
    drop(on_bytes);
    for thing in things.iter().filter(|thing| thing.kind == Kind::Dataset) {
        BaseRecord::read(&thing.place(staging.path()))?;
    }
    // Another process may have created some of them meanwhile.
    may_be_placed(&things, args.replace, &ctx.home)?;
    for thing in &things {
        place(thing, staging.path(), args.replace, &ctx.home)?;
    }
    tell(&things, args.json, ctx)?;
    for thing in things.iter().filter(|thing| thing.kind == Kind::Dataset) {
        if !ctx.home.get(&thing.name)?.index_dir().exists() {
            ctx.watch.notice(&format!("build its index with `agent index {}`", thing.name));
        }
    }
    Ok(Exit::Done)
}

/// Locks a home for one import and removes the staging directories that killed imports left. The
/// caller keeps the returned file, which holds the lock, until the import ends; `None` if the
/// system cannot lock directories.
///
/// # Errors
/// If another import is running, or the home cannot be written to.
fn turn(home: &Path) -> Result<Option<File>> {
    let failed = || format!("cannot write into {}", home.display());
    fs::create_dir_all(home).with_context(failed)?;
    // Not every system can open and lock directories.
    let turn = File::open(home).ok();
    if let Some(Err(TryLockError::WouldBlock)) = turn.as_ref().map(File::try_lock) {
        return Err(anyhow!("another import into {} is running", home.display()))
            .hint("wait until it ends");
    }
    for entry in fs::read_dir(home).with_context(failed)?.flatten() {
        let left = entry.path();
        let is_staging = entry.file_name().to_string_lossy().starts_with(STAGING_PREFIX);
        if is_staging && owned_dir::take(&left, STAGING).is_ok() {
            fs::remove_dir_all(&left)
                .with_context(|| format!("cannot remove {}", left.display()))?;
        }
    }
    Ok(turn)
}

/// Checks that none of `things` exists in the home or, with `replace`, that each existing one may
/// be replaced.
///
/// # Errors
/// Without `replace`, if one of them exists. With `replace`, if another process is writing a run
/// that would be replaced, or if a bundle alone would replace a whole run.
fn may_be_placed(things: &[Thing], replace: bool, home: &Home) -> Result<()> {
    let there = |thing: &&Thing| fs::symlink_metadata(thing.place(home.path())).is_ok();
    let there: Vec<&Thing> = things.iter().filter(there).collect();
    if !there.is_empty() && !replace {
        let names: Vec<String> =
            there.iter().map(|thing| thing.place(Path::new("")).display().to_string()).collect();
        let (exist, home) = (if names.len() == 1 { "exists" } else { "exist" }, home.path());
        return Err(anyhow!("{} already {exist} in {}", names.join(", "), home.display()))
            .hint("replace with --replace, or import into another home with --home DIR");
    }
    for thing in there.iter().filter(|thing| matches!(thing.kind, Kind::Run | Kind::Bundle)) {
        let dir = thing.place(home.path());
        if let Some(pid) = journal::writer_pid(&dir) {
            return Err(anyhow!("process {pid} is writing the run in {}", dir.display()))
                .hint("wait for it, or interrupt it");
        }
        if thing.kind == Kind::Bundle && dir.join(DATABASE_FILE).exists() {
            return Err(anyhow!(
                "{} is a complete run; it cannot be replaced by a bundle alone",
                dir.display()
            ))
            .hint("import into another home with --home DIR, or remove the run first");
        }
    }
    Ok(())
}

/// Moves an unpacked dataset, model, run or bundle into its place in a home, in one step.
fn place(thing: &Thing, unpacked: &Path, replace: bool, home: &Home) -> Result<()> {
    let (from, to) = (thing.place(unpacked), thing.place(home.path()));
    if thing.kind == Kind::Dataset {
        // The count of test openings is kept by the home, not in the directory of the base.
        let openings = unpacked.join(OPENINGS);
        let counted = fs::rename(from.join(OPENINGS), &openings).is_ok();
        let base = home.adopt(&thing.name, &from, replace)?;
        if counted {
            home.adopt_openings(&base, &openings)?;
        }
        return Ok(());
    }
    let failed = || format!("cannot move the import to {}", to.display());
    let folder = to.parent().unwrap_or(home.path());
    fs::create_dir_all(folder).with_context(failed)?;
    if replace {
        publish(&from, &to)?;
        return Ok(());
    }
    fs::rename(&from, &to).with_context(failed)?;
    sync_dir(folder)?;
    Ok(())
}
