//! Resolves a dataset argument: an installed name, a directory in neutral format, or the name of a
//! built-in sample. Imports directories, generates samples and indexes both as needed, and notifies
//! the user. Does not depend on what the dataset is used for.

use std::{fs, path::Path, sync::Arc, time::Instant};

use anyhow::Context as _;

use crate::{App, Explain, MAX_SHOWN, Result, count, counted, data::import::Source, plain};
use agent_dataset::{
    Base, DatasetError, ImportOptions, ImportReport, InputFormat, Phase, Progress, ResolvedDataset,
    Upsert, import_neutral, import_triples, import_upsert,
    sample::{SampleKind, SampleOptions, SampleReport, generate},
    stark::import_stark,
    tables::{self, Guess, GuessOptions, MAPPING_FILE, Mapping, Reading, Repair, import_tables},
};
use agent_ground::files;
use agent_index::{self as index, IndexError, IndexedBase, Plan, languages};
use agent_kb::Kb;

/// Name prefix of the directory from which a sample is imported, followed by the kind of sample, as
/// in `agent-sample-mag`. The name distinguishes samples from other datasets.
const SAMPLE_PREFIX: &str = "agent-sample-";

/// Stages of an import in the order in which they run, each with its approximate share of the total
/// time; only the ratios count.
const STAGES: crate::Plan = &[("nodes", 6.0), ("edges", 2.0), ("graph", 2.0), ("queries", 1.0)];

/// Maximum length in characters of a line about a guessed mapping.
const MAX_NOTICE_CHARS: usize = 1_000;

/// A dataset argument resolved to an installed base.
pub struct Dataset {
    /// The installed base.
    pub base: Base,
    /// Whether [`open`] builds a missing index: true for samples and for directories that were
    /// given as the argument.
    automatic: bool,
}

impl Dataset {
    /// Whether the dataset is a generated sample.
    pub fn is_sample(&self) -> bool {
        sample_kind(&self.base).is_some()
    }
}

/// Finds the base of a dataset argument like [`locate`]. Also notifies the user if a newer import
/// of this base is not indexed yet.
///
/// # Errors
/// As [`locate`].
pub fn find(dataset: &str, app: &App) -> Result<Dataset> {
    let found = locate(dataset, app)?;
    if app.home.pending_version(&found.base.name)?.is_some() {
        app.watch.notice(&waiting(&found.base.name));
    }
    Ok(found)
}

/// Finds the dataset argument `given`. Without an argument, finds the installed base `made_for`,
/// which a bundle, plan or run names; such a name comes from a file, so it never triggers an
/// import.
///
/// # Errors
/// As [`locate`] for `given`. Without `given`, if no base named `made_for` is installed.
pub fn chosen(given: Option<&str>, made_for: &str, app: &App) -> Result<Dataset> {
    given.map_or_else(|| installed(made_for, app), |given| find(given, app))
}

/// Finds the installed base of this name. The name was read from a file, such as a bundle.
///
/// # Errors
/// If no base of this name is installed.
pub fn installed(name: &str, app: &App) -> Result<Dataset> {
    app.home.get(name).hint("install it under this name, or name a dataset with --dataset N")?;
    find(name, app)
}

/// Returns a notice that the base of this name has a newer import that is not indexed yet.
pub fn waiting(name: &str) -> String {
    format!(
        "the previous \"{name}\" stays current until `agent index {name}` has indexed the new \
         import"
    )
}

/// Finds the base of a dataset argument. Imports a directory that is new, and generates a sample
/// that is missing. For requests over a network, finds installed bases only.
///
/// # Errors
/// If the argument names no dataset, or if the import fails.
pub fn locate(dataset: &str, app: &App) -> Result<Dataset> {
    if app.network.is_some() {
        return Ok(Dataset { base: app.home.get(dataset)?, automatic: false });
    }
    match app.home.resolve(dataset) {
        Ok(ResolvedDataset::Installed(base)) => {
            let kind = sample_kind(&base);
            if let Some(kind) = kind {
                tell_of_sample(dataset, kind, app);
            }
            Ok(Dataset { base, automatic: kind.is_some() })
        }
        Ok(ResolvedDataset::ImportedDirectory(base)) => Ok(Dataset { base, automatic: true }),
        Ok(ResolvedDataset::NewDirectory { source, name }) => {
            let place = source.display();
            app.watch.notice(&format!("importing {place} as \"{name}\"; this is done once"));
            let source = Source { from: source, ..Source::default() };
            let imported = import(&source, &name, &ImportOptions::default(), app)?;
            imported.tell(app);
            Ok(Dataset { base: imported.report.base, automatic: true })
        }
        Err(error @ DatasetError::UnknownName { .. }) => {
            let kind = SampleKind::from_name(dataset).ok_or(error)?;
            tell_of_sample(dataset, kind, app);
            let report = sample(kind, dataset, SampleOptions::default(), app)?;
            Ok(Dataset { base: report.base, automatic: true })
        }
        Err(error @ DatasetError::NotADataset { .. }) => Err(error)
            .hint("give the name of an installed dataset (see `agent data list`) or a directory"),
        Err(error) => Err(error.into()),
    }
}

/// Returns the kind of sample that the base is; `None` if the base is not a sample.
pub fn sample_kind(base: &Base) -> Option<SampleKind> {
    let source = Path::new(&base.record.source).file_name()?.to_str()?;
    SampleKind::from_name(source.strip_prefix(SAMPLE_PREFIX)?)
}

fn tell_of_sample(name: &str, kind: SampleKind, app: &App) {
    app.watch.notice(&format!(
        "\"{name}\" is a generated sample; `agent data pull {kind}` fetches the full data"
    ));
}

/// Generates a sample and imports it as `name`.
///
/// # Errors
/// If `name` or the scale is invalid, files cannot be written, or the import was stopped.
pub fn sample(
    kind: SampleKind,
    name: &str,
    options: SampleOptions,
    app: &App,
) -> Result<ImportReport> {
    // Reject an invalid name before generating.
    app.home.path_of(name)?;
    let home = app.home.path();
    let cannot = || format!("cannot create a temporary directory in {}", home.display());
    fs::create_dir_all(home).with_context(cannot)?;
    let temporary = files::temporary_dir(home, ".sample-").with_context(cannot)?;
    let from = temporary.path().join(format!("{SAMPLE_PREFIX}{kind}"));
    sample_files(kind, options, &from, app)?;
    let source = Source { from, format: Some(InputFormat::Neutral), ..Source::default() };
    let imported = import(&source, name, &ImportOptions::default(), app)?;
    imported.tell(app);
    Ok(imported.report)
}

/// Generates the files of a sample in `dir`, and reports progress.
///
/// # Errors
/// If the scale is invalid, `dir` is not empty, or files cannot be written.
pub fn sample_files(
    kind: SampleKind,
    options: SampleOptions,
    dir: &Path,
    app: &App,
) -> Result<SampleReport> {
    let progress = app.watch.progress();
    Ok(generate(kind, options, dir, &mut |at| progress.at(at.stage, at.done, at.total))?)
}

/// Opens the base of a dataset with its index. Builds the index first if it is missing and the
/// dataset is a sample or was given as a directory.
///
/// # Errors
/// If the index is missing in any other case, is damaged, or was built for another base.
pub fn open(dataset: &Dataset, app: &App) -> Result<Arc<IndexedBase>> {
    let base = &dataset.base;
    let began = Instant::now();
    let opened = match open_index(base, app) {
        Err(IndexError::Missing { .. }) if dataset.automatic => {
            let notice = format!("building the index of \"{}\"; this is done once", base.name);
            app.watch.notice(&notice);
            let kb = Kb::open(&base.kb_dir())?;
            build_index(base, &kb, &Plan::complete(), app)?;
            open_index(base, app)?
        }
        opened => opened?,
    };
    let ms = began.elapsed().as_secs_f64() * 1e3;
    app.watch.detail(&format!("opened \"{}\" in {ms:.1} ms", base.name));
    Ok(Arc::new(opened))
}

/// Opens the base with its existing index; never builds one.
pub fn open_index(base: &Base, app: &App) -> Result<IndexedBase, IndexError> {
    IndexedBase::open_with(&base.kb_dir(), &base.index_dir(), &base.name, app.access())
}

/// Builds the planned parts of a base's index, and replaces older versions of them.
///
/// # Errors
/// If a part cannot be built or the operation was stopped; the older versions then stay.
pub fn build_index(base: &Base, kb: &Kb, plan: &Plan<'_>, app: &App) -> Result<()> {
    let began = Instant::now();
    let progress = app.watch.progress();
    let report = |at: index::Progress| progress.at(at.stage, at.done, at.total);
    index::build_parts(
        kb,
        &base.index_dir(),
        plan,
        &index::Watch { report: &report, stop: &app.stop },
    )?;
    drop(progress);
    let (nodes, seconds) = (count(kb.n_nodes().into()), began.elapsed().as_secs_f64());
    app.watch.notice(&format!("indexed {nodes} nodes of \"{}\" in {seconds:.1} s", base.name));
    let languages = languages(kb);
    if plan.words.is_some() && !languages.is_english() {
        app.watch.notice(&format!("languages of word search: {languages}"));
    }
    if !plan.parts.is_empty() {
        for part in open_index(base, app)?.describe_parts()? {
            app.watch.notice(&part);
        }
    }
    Ok(())
}

/// A completed import.
pub struct Imported {
    /// The base, with counts of the input lines that were left out or changed.
    pub report: ImportReport,
    /// Time that the import took, in seconds.
    pub seconds: f64,
}

impl Imported {
    /// Notifies the user of the number of nodes, edges and questions that were imported.
    fn tell(&self, app: &App) {
        let record = &self.report.base.record;
        app.watch.notice(&format!(
            "imported \"{}\": {}, {}, {} in {:.1} s",
            self.report.base.name,
            counted(record.n_nodes.into(), "node"),
            counted(record.n_edges, "edge"),
            counted(record.n_queries, "question"),
            self.seconds,
        ));
    }
}

/// Returns the mapping of the tables in a source to nodes and edges: from a mapping file, or else
/// guessed, with notices of what was guessed.
///
/// # Errors
/// If a file cannot be read, or no mapping can be guessed.
fn mapping(said: &Source, app: &App) -> Result<Mapping> {
    let source = &said.from;
    let own = source.join(MAPPING_FILE);
    let is_said = !said.nodes.is_empty() || !said.edges.is_empty();
    let file = said.mapping.clone().or_else(|| (!is_said && own.exists()).then_some(own));
    if let Some(file) = file {
        let mut mapping = Mapping::read(&file)?;
        mapping.reading.encoding = said.encoding.or(mapping.reading.encoding);
        if said.no_values {
            mapping.nodes.iter_mut().for_each(|table| table.values.clear());
        }
        return Ok(mapping);
    }
    let reading = Reading { encoding: said.encoding, ..Reading::default() };
    let options = GuessOptions { hints: &said.nodes, reading, no_values: said.no_values };
    let Guess { mut mapping, notes } = tables::guess(source, &options)?;
    mapping.edges.extend(said.edges.iter().cloned());
    let lines = mapping.lines();
    for line in lines.iter().chain(&notes).take(MAX_SHOWN) {
        app.watch.notice(&plain(line, MAX_NOTICE_CHARS));
    }
    let n_more = (lines.len() + notes.len()).saturating_sub(MAX_SHOWN);
    if n_more > 0 {
        app.watch.notice(&counted(n_more as u64, "more line"));
    }
    let place = source.display();
    if !is_said && source.is_dir() {
        app.watch.notice(&format!(
            "this mapping is guessed; `agent data guess {place}` writes it to a file for editing"
        ));
    }
    Ok(mapping)
}

/// Imports a file or directory as `name`, reports progress, and notifies the user of input that was
/// left out or changed.
///
/// # Errors
/// If `name` or the input is invalid, or the import was stopped.
pub fn import(source: &Source, name: &str, options: &ImportOptions, app: &App) -> Result<Imported> {
    // Reject an invalid name before reading data.
    app.home.path_of(name)?;
    let (from, home, stop) = (source.from.as_path(), &app.home, &app.stop);
    match source.format()? {
        InputFormat::Neutral => {
            watched(name, app, |told| import_neutral(from, home, name, options, told, stop))
        }
        InputFormat::Stark => {
            let from = (from, source.mode.unwrap_or_default());
            watched(name, app, |told| import_stark(from, home, name, options, told, stop))
        }
        InputFormat::Tables => {
            let mapping = mapping(source, app)?;
            let from = (from, &mapping);
            watched(name, app, |told| import_tables(from, home, name, options, told, stop))
        }
        InputFormat::Triples => {
            watched(name, app, |told| import_triples(from, home, name, options, told, stop))
        }
    }
}

/// Changes single nodes of the installed base `name`, like [`import`].
///
/// # Errors
/// As [`import`].
pub fn upsert(
    changes: &Upsert,
    name: &str,
    options: &ImportOptions,
    app: &App,
) -> Result<Imported> {
    let (home, stop) = (&app.home, &app.stop);
    watched(name, app, |told| import_upsert(changes, home, name, options, told, stop))
}

impl Source {
    /// Returns the format of the data: the requested one or, by default, the detected one.
    fn format(&self) -> Result<InputFormat> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        if self.names_tables() {
            return Ok(InputFormat::Tables);
        }
        Ok(InputFormat::detect(&self.from)?)
    }
}

/// Calls `import` with a function that reports progress; returns its result with the time that it
/// took, and notifies the user of input that was left out or changed.
fn watched(
    name: &str,
    app: &App,
    import: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<ImportReport, DatasetError>,
) -> Result<Imported> {
    let began = Instant::now();
    let progress = app.watch.progress_of(&format!("importing {name}"), STAGES);
    let report = import(&mut |at| {
        let stage = match at.phase {
            Phase::Nodes => "nodes",
            Phase::Edges => "edges",
            Phase::Graph => "graph",
            Phase::Queries => "queries",
        };
        progress.at(stage, at.done, at.total);
    })?;
    drop(progress);
    let imported = Imported { report, seconds: began.elapsed().as_secs_f64() };
    tell_of_losses(&imported.report, app);
    Ok(imported)
}

/// Notifies the user of the input that was dropped, changed or left out.
fn tell_of_losses(report: &ImportReport, app: &App) {
    if report.duplicate_edges > 0 {
        let dropped = count(report.duplicate_edges);
        app.watch.notice(&format!("{dropped} duplicate edges were dropped"));
    }
    for Repair { file, message, .. } in &report.repairs {
        app.watch.notice(&format!("{file}: {message}"));
    }
    if report.repeated_rows > 0 {
        let rows = counted(report.repeated_rows, "row");
        app.watch.notice(&format!("{rows} left out: duplicates of another row"));
    }
    if report.filler_nodes > 0 {
        let filled = count(report.filler_nodes.into());
        app.watch.warning(&format!("{filled} missing node ids were filled with empty nodes"));
    }
    if report.printed_values > 0 {
        let printed = count(report.printed_values);
        app.watch.notice(&format!(
            "{printed} values of other types, such as dates, were kept as their text"
        ));
    }
    for problem in &report.problems {
        let (label, times) = (problem.kind.label(), count(problem.count));
        app.watch.warning(&format!("left out {times} lines: {label}, first {}", problem.first));
    }
}
