//! `agent home export`: writes datasets, models and runs to one file.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use anyhow::{Context as _, anyhow};

use super::{BASES, MODELS, OPENINGS, RUNS, tell, things};
use crate::{Context, Exit};
use agent_app::{Explain, Result, count, named};
use agent_dataset::Base;
use agent_ground::tarball::{self, Watch};
use agent_optimize::{
    BUNDLE_FILE,
    journal::{self, DATABASE_FILE},
};

/// Names of files in a run that only the process writing the run needs; they are not exported.
const OF_WRITER: [&str; 3] = ["lock", "reserve", "run.sqlite-shm"];

/// Write datasets, models and runs to one file
///
/// Exports all datasets and all models, or only those named by --dataset, --model or --run. Runs
/// are included only with --run, --with-runs or --with-bundles. Indexes, which `agent index` can
/// rebuild, are included only with --with-indexes. The file includes the digests of its contents
/// and the number of times each test split was opened. Keys, settings, cached replies and cached
/// embeddings are not exported. Equal contents give byte-identical files.
///
/// Datasets can be queried and replaced during the export; a run that is being written is refused.
/// The file is a Zstandard-compressed tar file, and appears only when it is complete.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the export to this file, such as home.tar.zst
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Export this dataset; may be given several times
    #[arg(long, value_name = "N")]
    dataset: Vec<String>,
    /// Export this trained model; may be given several times
    #[arg(long, value_name = "MODEL")]
    model: Vec<String>,
    /// Export this run: its name, or `latest`; may be given several times
    #[arg(long, value_name = "RUN")]
    run: Vec<PathBuf>,
    /// Include the indexes of the datasets
    #[arg(long)]
    with_indexes: bool,
    /// Include all runs
    #[arg(long)]
    with_runs: bool,
    /// Include the bundles of all runs, but no other files of the runs
    #[arg(long, conflicts_with = "with_runs")]
    with_bundles: bool,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print the exported datasets, models and runs as JSON lines
    #[arg(long)]
    json: bool,
}

/// Files to export, each as its path in the tarball and its path on disk, and their total size in
/// bytes.
#[derive(Default)]
struct Packed {
    files: Vec<(String, PathBuf)>,
    bytes: u64,
    /// Open datasets that are exported. While they are open, their files stay on disk even if
    /// another process replaces the datasets.
    held: Vec<Base>,
}

impl Packed {
    /// Adds the file at `place` under `path` in the tarball, or all files below the directory at
    /// `place`. Skips hidden entries everywhere, and entries directly in `place` whose names are in
    /// `without`.
    fn add(&mut self, path: String, place: &Path, without: &[&str]) -> Result<()> {
        let failed = || format!("cannot read {}", place.display());
        let found = fs::symlink_metadata(place).with_context(failed)?;
        if found.is_file() {
            self.bytes += found.len();
            self.files.push((path, place.to_owned()));
            return Ok(());
        }
        if !found.is_dir() {
            return Err(anyhow!("{} is neither a file nor a directory", place.display()))
                .hint("replace it with its target, or remove it");
        }
        for entry in fs::read_dir(place).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let Ok(name) = entry.file_name().into_string() else {
                return Err(anyhow!("the name of {} is not valid UTF-8", entry.path().display()))
                    .hint("rename it");
            };
            if !name.starts_with('.') && !without.contains(&name.as_str()) {
                self.add(format!("{path}/{name}"), &entry.path(), &[])?;
            }
        }
        Ok(())
    }

    fn add_dataset(&mut self, name: &str, with_index: bool, ctx: &Context) -> Result<()> {
        let base = ctx.home.get(name)?;
        let path = |part: &str| format!("{BASES}/{name}/{part}");
        self.add(path("base.json"), &base.record_file(), &[])?;
        self.add(path("kb"), &base.kb_dir(), &[])?;
        self.add(path("queries"), &base.queries_dir(), &[])?;
        let openings = ctx.home.openings_file(&base);
        for (part, place, wanted) in
            [(OPENINGS, openings, true), ("index", base.index_dir(), with_index)]
        {
            if wanted && place.exists() {
                self.add(path(part), &place, &[])?;
            }
        }
        self.held.push(base);
        Ok(())
    }

    fn add_run(&mut self, dir: &Path) -> Result<()> {
        if !is_run(dir) {
            return Err(anyhow!("{} is not a run", dir.display()))
                .hint("give the name of a run; `agent run list` shows all");
        }
        if let Some(pid) = journal::writer_pid(dir) {
            return Err(anyhow!("process {pid} is writing the run in {}", dir.display()))
                .hint("wait for it, or interrupt it");
        }
        self.add(of_run(dir), dir, &OF_WRITER)
    }
}

/// Whether a directory holds the journal or the bundle of a run.
fn is_run(dir: &Path) -> bool {
    [DATABASE_FILE, BUNDLE_FILE].iter().any(|file| dir.join(file).exists())
}

/// Returns the path, in the tarball, of the run in this directory.
fn of_run(dir: &Path) -> String {
    format!("{RUNS}/{}", dir.file_name().unwrap_or_default().to_string_lossy())
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    if args.file.exists() && !args.force {
        return Err(anyhow!("{} already exists", args.file.display()))
            .hint("replace it with --force, or give another name");
    }
    ctx.ends_itself.store(true, Ordering::Relaxed);
    let packed = collect(args, ctx)?;
    if packed.files.is_empty() {
        return Err(anyhow!("nothing to export in {}", ctx.home.path().display()))
            .hint("choose another home directory with --home DIR");
    }
    // Packing reads every file twice.
    let mut on_bytes = ctx.progress("exporting".to_owned(), packed.bytes.saturating_mul(2));
    let mut watch = Watch { on_bytes: &mut on_bytes, stop: &ctx.stop };
    let members = tarball::pack(&args.file, args.force, packed.files, &mut watch)?;
    drop(on_bytes);
    tell(&things(&members, &ctx.home)?, args.json, ctx)?;
    let bytes = fs::metadata(&args.file).map_or(0, |file| file.len());
    ctx.watch.notice(&format!("wrote {}, {} bytes", args.file.display(), count(bytes)));
    Ok(Exit::Done)
}

/// Collects the files of all datasets, models and runs that the options select.
fn collect(args: &Args, ctx: &Context) -> Result<Packed> {
    let mut packed = Packed::default();
    let are_named = !(args.dataset.is_empty() && args.model.is_empty() && args.run.is_empty());
    let all: Vec<String> = match are_named {
        true => Vec::new(),
        false => ctx.home.list()?.into_iter().map(|base| base.name).collect(),
    };
    for name in once_each(all.iter().chain(&args.dataset)) {
        packed.add_dataset(name, args.with_indexes, ctx)?;
    }
    let known = named::model_names(&ctx.home);
    if let Some(unknown) = args.model.iter().find(|name| !known.contains(name)) {
        let hint = match known.is_empty() {
            true => "there are no models yet".to_owned(),
            false => format!("models: {}", known.join(", ")),
        };
        return Err(anyhow!("there is no model {unknown:?}")).hint(hint);
    }
    let all = if are_named { &[][..] } else { &known };
    for name in once_each(all.iter().chain(&args.model)) {
        let dir = named::models_dir(&ctx.home).join(name);
        packed.add(format!("{MODELS}/{name}"), &dir, &[])?;
    }
    let runs = named::run_dirs(&ctx.home)?;
    let runs = runs.iter().filter(|dir| is_run(dir) && !of_run(dir).contains("/.")).cloned();
    let (all, bundles) = match args.with_runs {
        true => (runs.collect(), Vec::new()),
        false => (Vec::new(), if args.with_bundles { runs.collect() } else { Vec::new() }),
    };
    let given: Result<Vec<PathBuf>> = args.run.iter().map(|run| named::run_dir(run, ctx)).collect();
    let whole: Vec<PathBuf> = once_each(all.into_iter().chain(given?));
    for dir in &whole {
        packed.add_run(dir)?;
    }
    for dir in bundles.iter().filter(|dir| !whole.contains(dir)) {
        let bundle = dir.join(BUNDLE_FILE);
        if bundle.exists() {
            packed.add(format!("{}/{BUNDLE_FILE}", of_run(dir)), &bundle, &[])?;
        }
    }
    Ok(packed)
}

/// Returns the items in ascending order without duplicates.
fn once_each<T: Ord>(given: impl Iterator<Item = T>) -> Vec<T> {
    given.collect::<BTreeSet<T>>().into_iter().collect()
}
