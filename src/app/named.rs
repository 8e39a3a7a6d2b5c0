//! Resolves arguments that name runs, bundles and models: a path, a name in the home directory, or,
//! for runs and bundles, `latest`. Does not depend on what they are used for.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context as _, anyhow};

use crate::{App, Explain, MAX_SHOWN, Result};
use agent_dataset::Home;
use agent_ground::words::nearest;
use agent_infer::bundle::Bundle;
use agent_optimize::{BUNDLE_FILE, journal::DATABASE_FILE, record::Record};

/// Argument for the run or bundle that was written last.
const LATEST: &str = "latest";
/// Prefix of the names of systems that are bundles, as in `bundle:latest`.
pub const BUNDLE: &str = "bundle:";
/// Prefixes of the names of systems that are trained models, each with the option that may follow
/// the model, as in `mfar:MODEL:mask=FIELDS`.
const MODELS: [(&str, &str); 7] = [
    ("mfar:", ":mask="),
    ("dense:trained:", ":weight="),
    ("bag:dpr:", ":weight="),
    ("bag:ance:", ":weight="),
    ("hybrid:trained:", ":weight="),
    ("graph:", ":weight="),
    ("qagnn:", ":weight="),
];
/// Maximum edit distance between the given name and a name that a hint suggests.
const MAX_DISTANCE: usize = 3;

/// Returns the directory that holds the runs of a home directory.
pub fn runs_dir(home: &Home) -> PathBuf {
    home.path().join("runs")
}

/// Lists the directories of the runs in a home directory, sorted by name. Leaves out names that
/// begin with a dot: such runs are being removed.
///
/// # Errors
/// If the directory of runs exists but cannot be read.
pub fn run_dirs(home: &Home) -> Result<Vec<PathBuf>> {
    let runs = runs_dir(home);
    let entries = match fs::read_dir(&runs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot read {}", runs.display()))?,
    };
    let is_run = |entry: &fs::DirEntry| {
        entry.path().is_dir() && !entry.file_name().to_string_lossy().starts_with('.')
    };
    let mut directories: Vec<PathBuf> =
        entries.flatten().filter(is_run).map(|entry| entry.path()).collect();
    directories.sort_unstable();
    Ok(directories)
}

/// Returns the directory of a run: `given` if this path exists, else the run of this name in the
/// home directory. `latest` is the run that was written last; among runs written at the same time,
/// the last by name. A request over a network may only name runs in the home directory.
///
/// # Errors
/// If there is no such run.
pub fn run_dir(given: &Path, app: &App) -> Result<PathBuf> {
    match app.network.is_none() && given.exists() {
        true => Ok(given.to_owned()),
        false => find(given, DATABASE_FILE, &app.home),
    }
}

/// Returns the file of a bundle: `given` itself if it is a file, else the bundle in the run that
/// `given` names, by its directory or its name in the home directory. `latest` is the bundle that
/// was written last, if possible among those made for `dataset`. A request over a network may only
/// name runs in the home directory.
///
/// # Errors
/// If there is no such file or run, if the run has no bundle, or if `latest` is ambiguous: bundles
/// were made for several datasets, but not for `dataset`.
pub fn bundle_file(given: &Path, dataset: Option<&str>, app: &App) -> Result<PathBuf> {
    match app.network.is_none() && given.exists() {
        true if given.is_dir() => bundle_in(given.to_owned()),
        true => Ok(given.to_owned()),
        false if is_latest(given) => latest_bundle(dataset, &app.home),
        false => bundle_in(find(given, BUNDLE_FILE, &app.home)?),
    }
}

/// Returns the file of the bundle for `dataset` that was written last. If there is none, returns
/// the last bundle of all, provided that all were made for the same dataset. Among bundles written
/// at the same time, the last path counts.
fn latest_bundle(dataset: Option<&str>, home: &Home) -> Result<PathBuf> {
    let mut latest: BTreeMap<String, (SystemTime, PathBuf)> = BTreeMap::new();
    for dir in run_dirs(home)? {
        let file = dir.join(BUNDLE_FILE);
        let Ok(changed) = fs::metadata(&file).and_then(|data| data.modified()) else { continue };
        let made_for = Bundle::made_for(&file).unwrap_or_default();
        let of = latest.entry(made_for).or_insert((changed, file.clone()));
        *of = (changed, file).max(of.clone());
    }
    if let Some((_, file)) = dataset.and_then(|dataset| latest.remove(dataset)) {
        return Ok(file);
    }
    if latest.len() > 1 {
        let runs = latest.values().filter_map(|(_, file)| file.parent()?.file_name());
        let runs: Vec<String> = runs.map(|run| run.display().to_string()).take(MAX_SHOWN).collect();
        return Err(anyhow!(
            "{LATEST:?} is ambiguous: there are bundles for {} datasets",
            latest.len()
        ))
        .hint(format!("name a dataset with --dataset N, or a run: {}", runs.join(", ")));
    }
    let found = latest.into_values().next().map(|(_, file)| file);
    let runs = runs_dir(home);
    found
        .ok_or_else(|| anyhow!("{} does not hold a run with a bundle", runs.display()))
        .hint("start one with `agent optimize`")
}

fn bundle_in(dir: PathBuf) -> Result<PathBuf> {
    let file = dir.join(BUNDLE_FILE);
    if !file.exists() {
        let shown = dir.display();
        let hint = match Record::read(&dir) {
            Ok(Record { dataset, .. }) => {
                format!("continue it: `agent optimize --dataset {dataset} --run {shown} --resume`")
            }
            Err(_) => "start one with `agent optimize --dataset N`".to_owned(),
        };
        return Err(anyhow!("the run in {shown} has no bundle yet")).hint(hint);
    }
    Ok(file)
}

/// Whether the argument is `latest`.
pub fn is_latest(given: &Path) -> bool {
    given == Path::new(LATEST)
}

/// Replaces the bundle or model in the name of a system by its path: `bundle:latest` becomes
/// `bundle:FILE`. `latest` is the last bundle made for `dataset`, if there is one. Other names stay
/// unchanged.
///
/// # Errors
/// As [`bundle_file`] and [`model_dir`].
pub fn system(name: &str, dataset: Option<&str>, app: &App) -> Result<String> {
    if let Some(given) = name.strip_prefix(BUNDLE).filter(|given| !given.is_empty()) {
        return Ok(format!("{BUNDLE}{}", bundle_file(Path::new(given), dataset, app)?.display()));
    }
    for (model, behind) in MODELS {
        let Some(given) = name.strip_prefix(model).filter(|given| !given.is_empty()) else {
            continue;
        };
        let end = given.find(behind).unwrap_or(given.len());
        let dir = model_dir(Path::new(&given[..end]), app)?;
        return Ok(format!("{model}{}{}", dir.display(), &given[end..]));
    }
    Ok(name.to_owned())
}

/// Returns the directory that holds the trained models of a home directory.
pub fn models_dir(home: &Home) -> PathBuf {
    home.path().join("models")
}

/// Returns the names of the trained models in a home directory, sorted.
pub fn model_names(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(models_dir(home)).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort_unstable();
    names
}

/// Whether an imported run may have this name: ASCII letters, digits, `-`, `_` and `.`, but not
/// `latest`, and without `-` or `.` at the start.
pub fn is_run_name(name: &str) -> bool {
    name != LATEST && is_plain(name)
}

/// Whether a name is safe in shells and terminals: ASCII letters, digits, `-`, `_` and `.`, without
/// `-` or `.` at the start.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.starts_with(['.', '-']) && !name.is_empty() && name.chars().all(plain)
}

/// Returns the directory in which a new model of this name is stored.
///
/// # Errors
/// If the name is invalid.
pub fn new_model_dir(name: &str, home: &Home) -> Result<PathBuf> {
    if !is_plain(name) {
        return Err(anyhow!("{name:?} is not a valid model name"))
            .hint("use letters, digits, - and _");
    }
    Ok(models_dir(home).join(name))
}

/// Returns the directory of a model: `given` if this path exists, else the model of this name in
/// the home directory. A request over a network may only name models in the home directory.
///
/// # Errors
/// If there is no such model.
pub fn model_dir(given: &Path, app: &App) -> Result<PathBuf> {
    if app.network.is_none() && given.exists() {
        return Ok(given.to_owned());
    }
    let mut names = model_names(&app.home);
    if names.iter().any(|known| Path::new(known) == given) {
        return Ok(models_dir(&app.home).join(given));
    }
    names.truncate(MAX_SHOWN);
    let hint = match names.is_empty() {
        true => "there are no models yet; train one with `agent train`".to_owned(),
        false => format!("models: {}", names.join(", ")),
    };
    Err(anyhow!("there is no model {:?}", given.display().to_string())).hint(hint)
}

/// Returns the directory of the run in the home directory that has this name. `latest` is the run
/// whose `file`, such as its journal, was written last.
fn find(given: &Path, file: &str, home: &Home) -> Result<PathBuf> {
    let dirs = run_dirs(home)?;
    if is_latest(given) {
        let changed = |dir: &PathBuf| fs::metadata(dir.join(file)).ok()?.modified().ok();
        let by_time = dirs.into_iter().filter_map(|dir| Some((changed(&dir)?, dir)));
        let latest: Option<(SystemTime, PathBuf)> = by_time.max();
        return latest
            .map(|(_, dir)| dir)
            .ok_or_else(|| anyhow!("{} does not hold a run", runs_dir(home).display()))
            .hint("start one with `agent optimize`");
    }
    let mut parts = given.components();
    let name = match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) => name.to_string_lossy(),
        // A path is not a name, so it is not looked up in the home directory.
        _ => return Err(anyhow!("no run at {given:?}: the path does not exist").into()),
    };
    let named = |dir: &&PathBuf| dir.file_name().is_some_and(|file| file == &*name);
    if let Some(dir) = dirs.iter().find(named) {
        return Ok(dir.clone());
    }
    Err(anyhow!("there is no file or run {name:?}")).hint(known(&name, &dirs))
}

/// Returns a hint for a run name that does not exist: the most similar run name or, if none is
/// similar, the names of the runs in descending order of the time when the journal was written.
fn known(name: &str, dirs: &[PathBuf]) -> String {
    let written = |dir: &Path| fs::metadata(dir.join(DATABASE_FILE)).ok()?.modified().ok();
    let mut dirs: Vec<&PathBuf> = dirs.iter().collect();
    dirs.sort_by_cached_key(|dir| Reverse(written(dir)));
    let names: Vec<_> = dirs.iter().filter_map(|dir| dir.file_name()?.to_str()).collect();
    if names.is_empty() {
        return "there are no runs yet; start one with `agent optimize`".to_owned();
    }
    match nearest(name, names.iter().copied(), MAX_DISTANCE) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => {
            let shown = names.iter().take(MAX_SHOWN).copied().collect::<Vec<_>>();
            format!("runs, last written first: {}", shown.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::Unwatched;

    #[test]
    fn unknown_runs_get_the_names_of_those_written_last() {
        let home = tempfile::tempdir().unwrap();
        let run = |(name, seconds): (&str, u64)| {
            let dir = home.path().join(name);
            fs::create_dir(&dir).unwrap();
            let journal = fs::File::create(dir.join(DATABASE_FILE)).unwrap();
            journal.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
            dir
        };
        let dirs = [("a-1", 2), ("b-1", 3), ("c-1", 1)].map(run);
        assert_eq!(known("unlike", &dirs), "runs, last written first: b-1, a-1, c-1");
    }

    #[test]
    fn the_latest_bundle_is_that_of_a_dataset() {
        let dir = tempfile::tempdir().unwrap();
        let app = App::new(Home::new(dir.path()), Arc::new(Unwatched));
        let write = |run: &str, dataset: &str| {
            let dir = runs_dir(&app.home).join(run);
            fs::create_dir_all(&dir).unwrap();
            let text = format!("{{\"dataset\": {{\"name\": \"{dataset}\"}}}}");
            fs::write(dir.join(BUNDLE_FILE), text).unwrap();
        };
        let latest = |dataset| -> Result<_> {
            let file = bundle_file(Path::new(LATEST), dataset, &app)?;
            Ok(file.parent().unwrap().file_name().unwrap().to_owned())
        };
        assert!(latest(None).unwrap_err().message().contains("does not hold a run with a bundle"));
        write("desk-1", "desk");
        write("desk-2", "desk");
        assert_eq!(latest(None).unwrap(), "desk-2");
        write("shop-1", "shop");
        let error = latest(None).unwrap_err();
        assert!(error.message().contains("2 datasets"), "{}", error.message());
        assert!(error.hints()[0].contains("desk-2, shop-1"), "{:?}", error.hints());
        assert_eq!(latest(Some("desk")).unwrap(), "desk-2");
        assert_eq!(latest(Some("shop")).unwrap(), "shop-1");
        assert!(latest(Some("other")).is_err());
    }
}
