//! Resolves a dataset argument: an installed name, a directory in neutral format, or the name of
//! a built-in sample. Imports, generates and indexes what the last two need, with a notice.
//! Must not know what the dataset is used for.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::Context as _;

use crate::{
    App,
    error::{Explain, Result},
    text::{count, counted},
};
use agent_dataset::{
    Base, DatasetError, Encoding, ImportOptions, ImportReport, InputFormat, Phase, Progress,
    ResolvedDataset, import_neutral, import_triples,
    sample::{SampleKind, SampleOptions, SampleReport, generate},
    stark::{self, import_stark},
    tables::{
        self, EdgesTable, Guess, GuessOptions, MAPPING_FILE, Mapping, Reading, Repair, TableHint,
        import_tables,
    },
};
use agent_ground::{files, words::Languages};
use agent_index::{self as index, IndexError, IndexedBase, Plan, languages};
use agent_kb::Kb;

/// Samples are imported from a directory of this name and their kind; so they are recognized.
const SAMPLE_PREFIX: &str = "agent-sample-";

/// The parts of an import in their order, with about what share of its time each takes.
const STAGES: crate::Plan = &[("nodes", 6.0), ("edges", 2.0), ("graph", 2.0), ("queries", 1.0)];

/// A dataset argument resolved to an installed base.
pub struct Dataset {
    /// The base.
    pub base: Base,
    /// Whether a missing index is built without being asked for: samples and directories.
    automatic: bool,
}

impl Dataset {
    /// Whether it is a built-in sample, generated here.
    pub fn is_sample(&self) -> bool {
        sample_kind(&self.base).is_some()
    }
}

/// Finds the base that `dataset` means, and says so if a later import of it waits for its index.
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

/// The dataset that the command line gives, or else the one that a bundle, a plan or a run was made
/// for: that must be the name of an installed base, so that no file decides what is imported here.
///
/// # Errors
/// As [`locate`] for what is given; that `made_for` is not installed.
pub fn chosen(given: Option<&str>, made_for: &str, app: &App) -> Result<Dataset> {
    given.map_or_else(|| installed(made_for, app), |given| find(given, app))
}

/// The installed base of a name that a file holds.
///
/// # Errors
/// That it is not installed.
pub fn installed(name: &str, app: &App) -> Result<Dataset> {
    app.home.get(name).hint("install it under this name, or name a dataset with --dataset N")?;
    find(name, app)
}

/// What is said of a base of which a later import waits for its index.
pub fn waiting(name: &str) -> String {
    format!(
        "the \"{name}\" of before answers until `agent index {name}` has indexed the new import"
    )
}

/// Finds the base that `dataset` means; a directory is imported first, a sample generated.
///
/// # Errors
/// That it means nothing, or that the import failed.
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
            let imported = import(
                &source,
                &name,
                &Input::Detected(TablesInput::default()),
                &ImportOptions::default(),
                app,
            )?;
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
            .hint("give an installed name (see `agent data list`) or an existing directory"),
        Err(error) => Err(error.into()),
    }
}

/// The kind of sample a base is, if it is one.
pub fn sample_kind(base: &Base) -> Option<SampleKind> {
    let source = Path::new(&base.record.source).file_name()?.to_str()?;
    SampleKind::from_name(source.strip_prefix(SAMPLE_PREFIX)?)
}

fn tell_of_sample(name: &str, kind: SampleKind, app: &App) {
    app.watch.notice(&format!(
        "\"{name}\" is a generated sample; `agent data pull {kind}` fetches the full data"
    ));
}

/// Generates a sample and imports it under a name.
///
/// # Errors
/// That the scale is wrong, the disk full, or that it was stopped.
pub fn sample(
    kind: SampleKind,
    name: &str,
    options: SampleOptions,
    app: &App,
) -> Result<ImportReport> {
    // A wrong name must not cost a generation.
    app.home.path_of(name)?;
    let home = app.home.path();
    let cannot = || format!("cannot make a temporary directory in {}", home.display());
    fs::create_dir_all(home).with_context(cannot)?;
    let temporary = files::temporary_dir(home, ".sample-").with_context(cannot)?;
    let files = temporary.path().join(format!("{SAMPLE_PREFIX}{kind}"));
    sample_files(kind, options, &files, app)?;
    let imported = import(&files, name, &Input::Neutral, &ImportOptions::default(), app)?;
    imported.tell(app);
    Ok(imported.report)
}

/// Generates the files of a sample, with progress.
///
/// # Errors
/// That the scale is wrong, the directory not empty, or the disk full.
pub fn sample_files(
    kind: SampleKind,
    options: SampleOptions,
    dir: &Path,
    app: &App,
) -> Result<SampleReport> {
    let progress = app.watch.progress();
    Ok(generate(kind, options, dir, &mut |at| progress.at(at.stage, at.done, at.total))?)
}

/// Opens the base with its index.
///
/// # Errors
/// That there is no index, unless it may be built unasked; that one is damaged or of another base.
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

/// Opens the base with its index, as it is.
pub fn open_index(base: &Base, app: &App) -> std::result::Result<IndexedBase, IndexError> {
    IndexedBase::open_with(&base.kb_dir(), &base.index_dir(), &base.name, app.access())
}

/// Builds parts of the index of a base, replacing older ones.
///
/// # Errors
/// What failed, or that it was stopped; the older parts stay.
pub fn build_index(base: &Base, kb: &Kb, plan: &Plan<'_>, app: &App) -> Result<()> {
    let began = Instant::now();
    let progress = app.watch.progress();
    let report = |at: index::Progress| progress.at(at.stage, at.done, at.total);
    index::build_parts(kb, &base.index_dir(), plan, &report, &app.stop)?;
    drop(progress);
    let (nodes, seconds) = (count(kb.n_nodes().into()), began.elapsed().as_secs_f64());
    app.watch.notice(&format!("indexed {nodes} nodes of \"{}\" in {seconds:.1} s", base.name));
    let languages = languages(kb);
    if plan.words.is_some() && !languages.is_english() {
        app.watch.notice(&format!("its words are searched as {languages}"));
    }
    if !plan.parts.is_empty() {
        for part in open_index(base, app)?.describe_parts()? {
            app.watch.notice(&part);
        }
    }
    Ok(())
}

/// What is searched in the languages of a base, and what knows English only.
pub fn in_languages(languages: Languages) -> String {
    format!(
        "languages: {languages}; words and names are searched in them, while `agent ask`, made \
         questions and the question words of programs know English only"
    )
}

/// What a file or directory to be imported holds.
#[derive(Clone, Debug)]
pub enum Input {
    /// What its files look like; if they are tables, with what is said of these.
    Detected(TablesInput),
    /// The neutral format.
    Neutral,
    /// The files of the STaRK benchmark, and which edges to take.
    Stark(stark::Mode),
    /// Tables, of which nothing, something or all is said; the rest is guessed.
    Tables(TablesInput),
    /// N-Triples.
    Triples,
}

/// What is said of tables.
#[derive(Clone, Debug, Default)]
pub struct TablesInput {
    /// The file that says it.
    pub mapping: Option<PathBuf>,
    /// Tables of nodes.
    pub nodes: Vec<TableHint>,
    /// Tables of edges.
    pub edges: Vec<EdgesTable>,
    /// The encoding of text files, if it is given.
    pub encoding: Option<Encoding>,
    /// Whether values of columns stay texts.
    pub no_values: bool,
}

/// An import that is done.
pub struct Imported {
    /// The base, and what of the input it leaves out.
    pub report: ImportReport,
    /// Time it took.
    pub seconds: f64,
}

impl Imported {
    /// Says in a line what was imported.
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

/// What becomes what in tables: as a file says, or else as they look.
///
/// # Errors
/// That a file cannot be read.
pub fn mapping(source: &Path, said: &TablesInput, app: &App) -> Result<Mapping> {
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
    for line in mapping.lines().iter().chain(&notes) {
        app.watch.notice(line);
    }
    let place = source.display();
    if !is_said && source.is_dir() {
        app.watch.notice(&format!("guessed; `agent data guess {place}` writes it to be edited"));
    }
    Ok(mapping)
}

/// Imports a file or directory under a name, with progress, and says what was left out.
///
/// # Errors
/// What is wrong with the input, or that the import was stopped.
pub fn import(
    source: &Path,
    name: &str,
    input: &Input,
    options: &ImportOptions,
    app: &App,
) -> Result<Imported> {
    // A wrong name must not cost a look at the data.
    app.home.path_of(name)?;
    let detected = match input {
        Input::Detected(said) => match InputFormat::detect(source)? {
            InputFormat::Neutral => Input::Neutral,
            InputFormat::Stark => Input::Stark(stark::Mode::default()),
            InputFormat::Tables => Input::Tables(said.clone()),
            InputFormat::Triples => Input::Triples,
        },
        said => said.clone(),
    };
    let mapping = match &detected {
        Input::Tables(said) => mapping(source, said, app)?,
        _ => Mapping::default(),
    };
    let began = Instant::now();
    let progress = app.watch.progress_of(&format!("importing {name}"), STAGES);
    let mut on_progress = |at: Progress| {
        let stage = match at.phase {
            Phase::Nodes => "nodes",
            Phase::Edges => "edges",
            Phase::Graph => "graph",
            Phase::Queries => "queries",
        };
        progress.at(stage, at.done, at.total);
    };
    let (home, stop, told) = (&app.home, &app.stop, &mut on_progress);
    let report = match &detected {
        Input::Neutral | Input::Detected(_) => {
            import_neutral(source, home, name, options, told, stop)
        }
        Input::Stark(mode) => import_stark((source, *mode), home, name, options, told, stop),
        Input::Tables(_) => import_tables((source, &mapping), home, name, options, told, stop),
        Input::Triples => import_triples(source, home, name, options, told, stop),
    }?;
    drop(progress);
    let imported = Imported { report, seconds: began.elapsed().as_secs_f64() };
    tell_of_losses(&imported.report, app);
    Ok(imported)
}

/// Says what of the input is not in the base as it stands there.
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
        app.watch.notice(&format!("{rows} left out: all cells are those of another row"));
    }
    if report.filler_nodes > 0 {
        let filled = count(report.filler_nodes.into());
        app.watch.warning(&format!("{filled} missing node ids were filled with empty nodes"));
    }
    if report.printed_values > 0 {
        let printed = count(report.printed_values);
        app.watch.notice(&format!(
            "{printed} values that are no plain ones, such as dates, were kept as their text"
        ));
    }
    for problem in &report.problems {
        let (label, times) = (problem.kind.label(), count(problem.count));
        let example = problem.examples.first().map(|example| format!(", first {example}"));
        let example = example.unwrap_or_default();
        app.watch.warning(&format!("left out, {label}: {times} lines{example}"));
    }
}
