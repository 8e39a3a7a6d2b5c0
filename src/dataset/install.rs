//! Steps that all imports share: starts an import, and finishes it by writing the graph, importing
//! the questions, summarising and publishing the base.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    Base, BaseRecord, Changes, DatasetError, Home, ProblemCount, Summary,
    error::Problems,
    home::Staging,
    ids::AnswerIds,
    neutral::Templates,
    queries::{QuerySources, StoredQueries, import_queries},
    stark::Origin,
    tables::Repair,
};
use agent_kb::{Kb, KbError, KbMeta, KbWriter};

/// Maximum number of type or field names that an error lists.
const MAX_NAMED: usize = 20;

/// Options of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Skip and count invalid lines instead of failing at the end.
    pub lenient: bool,
    /// If the installed base of the same name has an index, add the import as its next version
    /// instead of replacing the base. The old version stays current until [`Home::make_current`] is
    /// called.
    pub as_next_version: bool,
    /// File with labelled questions that is read instead of `qa.csv` in the imported directory.
    pub questions: Option<PathBuf>,
    /// Treat the import as an update of the installed base of the same name, if there is one.
    pub update: Option<Update>,
    /// Read the data and report everything, but install nothing.
    pub dry_run: bool,
}

/// Options of an import that updates a base. Unless the import has questions of its own, the update
/// keeps the questions of the previous version. Answers that no longer exist are removed from these
/// questions; a question left without answers is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Accept an update that loses more than half of the nodes or all questions.
    pub allow_loss: bool,
}

/// Phase of an import, with the unit in which its progress is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading nodes; progress is counted in bytes of the file as stored, once per pass.
    Nodes,
    /// Reading edges; progress is counted in bytes of the file as stored, or in edges.
    Edges,
    /// Sorting and writing the graph; progress is counted in edges.
    Graph,
    /// Reading queries and splits; progress is counted in files.
    Queries,
}

/// Progress of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// Number of completed units; [`Phase`] gives the unit.
    pub done: u64,
    /// Total number of units of the phase.
    pub total: u64,
}

/// Result of an import.
#[derive(Clone, Debug)]
pub struct ImportReport {
    /// The installed base. After a dry run, the base is described but its directory does not exist.
    pub base: Base,
    /// Summary of the types, fields, relations and questions of the base.
    pub summary: Summary,
    /// Changes since the previous version; `None` unless the import is an update.
    pub changes: Option<Changes>,
    /// What an update loses, such as `7 of 10 nodes`, if it loses more than half of the nodes or
    /// all questions.
    pub loss: Option<String>,
    /// Number of questions kept from the previous version, and number of questions dropped because
    /// none of their answers exists any more.
    pub kept_questions: Option<(u64, u64)>,
    /// Number of duplicate edges dropped.
    pub duplicate_edges: u64,
    /// Number of rows of node tables dropped because an earlier row with the same id has the same
    /// cells.
    pub repeated_rows: u64,
    /// Changes that the import made to the cells of tables.
    pub repairs: Vec<Repair>,
    /// Number of empty nodes inserted for missing node ids.
    pub filler_nodes: u32,
    /// Number of values of the STaRK benchmark, such as dates, stored as the text that Python
    /// prints for them because they have no equivalent type.
    pub printed_values: u64,
    /// Number of skipped invalid lines by kind, with examples; empty after a strict import.
    pub problems: Vec<ProblemCount>,
}

/// Reports progress to the caller, and returns an error once the caller has set the stop flag.
pub(super) struct Watch<'a> {
    pub(super) on_progress: &'a mut dyn FnMut(Progress),
    pub(super) stop: &'a AtomicBool,
}

impl Watch<'_> {
    pub(super) fn report(
        &mut self,
        phase: Phase,
        done: u64,
        total: u64,
    ) -> Result<(), DatasetError> {
        (self.on_progress)(Progress { phase, done, total });
        if self.stop.load(Ordering::Relaxed) { Err(DatasetError::Stopped) } else { Ok(()) }
    }
}

/// An import in progress; dropping it unfinished removes its files.
pub(super) struct Install {
    pub(super) writer: KbWriter,
    pub(super) problems: Problems,
    /// Number of edges passed to the writer, duplicates included.
    pub(super) n_pushed: u64,
    pub(super) filler_nodes: u32,
    pub(super) repeated_rows: u64,
    pub(super) repairs: Vec<Repair>,
    /// Whether invalid lines yielded no node. An unknown id may then refer to such a line.
    pub(super) lost_nodes: bool,
    /// Document templates by node type; the types and their fields must exist in the base.
    pub(super) templates: Templates,
    /// Whether the templates are those of the previous version: they were checked before, and stay
    /// if the last node of their type is deleted.
    pub(super) keeps_templates: bool,
    pub(super) staging: Staging,
    /// Number of values stored as the text that Python prints for them, because they have no
    /// equivalent type.
    pub(super) printed_values: u64,
    home: Home,
    name: String,
    source: PathBuf,
    options: ImportOptions,
}

impl Install {
    pub(super) fn begin(
        home: &Home,
        name: &str,
        source: &Path,
        options: &ImportOptions,
    ) -> Result<Install, DatasetError> {
        let staging = Staging::new(home, name, options.as_next_version)?;
        Ok(Install {
            writer: KbWriter::create(&staging.kb_dir())?,
            problems: Problems::new(options.lenient),
            n_pushed: 0,
            filler_nodes: 0,
            repeated_rows: 0,
            repairs: Vec::new(),
            lost_nodes: false,
            templates: Templates::new(),
            keeps_templates: false,
            printed_values: 0,
            staging,
            home: home.clone(),
            name: name.to_owned(),
            source: source.to_path_buf(),
            options: options.clone(),
        })
    }

    /// Writes the graph, reads the question files in the directory `questions_in`, and publishes
    /// the base.
    pub(super) fn finish(
        self,
        meta: KbMeta,
        questions_in: &Path,
        watch: &mut Watch<'_>,
    ) -> Result<ImportReport, DatasetError> {
        self.finish_with(meta, QuerySources::in_dir(questions_in), None, watch)
    }

    /// Like [`Install::finish`], with given query files and with the origin of a STaRK base.
    pub(super) fn finish_with(
        self,
        mut meta: KbMeta,
        mut sources: QuerySources,
        origin: Option<Origin>,
        watch: &mut Watch<'_>,
    ) -> Result<ImportReport, DatasetError> {
        let Install {
            writer, mut problems, templates, staging, home, name, source, options, ..
        } = self;
        if meta.title.is_empty() {
            meta.title.clone_from(&name);
        }
        let mut go_on = |done, total| watch.report(Phase::Graph, done, total).is_ok();
        let manifest = writer.finish(&meta, &mut go_on).map_err(|error| match error {
            KbError::Stopped => DatasetError::Stopped,
            error @ KbError::UnknownCandidateType { .. } => {
                let path = source.join("dataset.toml");
                DatasetError::BadToml { path, line: 0, message: error.to_string() }
            }
            other => DatasetError::Kb(other),
        })?;
        let kb = Kb::open(&staging.kb_dir())?;
        if let Some(questions) = options.questions {
            sources.queries = questions;
        }
        let served = options.update.and_then(|_| home.get(&name).ok());
        let target = staging.queries_dir();
        let (queries, kept_questions) = match &served {
            Some(served) if !sources.queries.exists() => kept(served, &kb, &target, watch)?,
            _ => {
                let ids = AnswerIds::for_base(&kb);
                let ids = (ids, self.lost_nodes);
                (import_queries(&sources, &target, ids, &mut problems, watch)?, None)
            }
        };
        let problems = problems.finish()?;
        if !self.lost_nodes && !self.keeps_templates {
            check_templates(&templates, &kb, &source)?;
        }
        let (mut changes, mut loss) = (None, None);
        if let Some(served) = &served {
            let found = Changes::between(&Kb::open(&served.kb_dir())?, &kb);
            loss = loss_of(served, &found, queries.n_queries);
            changes = Some(found);
        }
        let is_refused = !options.dry_run && options.update.is_some_and(|of| !of.allow_loss);
        if let Some(loss) = loss.as_ref().filter(|_| is_refused) {
            return Err(DatasetError::WouldLoseData { name, loss: loss.clone() });
        }
        let summary = Summary::compute(&kb, &queries.labelled);
        let derived_tenth = queries.derived_tenth;
        let origin = origin.map(|origin| Origin { derived_tenth, ..origin });
        let record = BaseRecord::new(&manifest, queries, &source, (templates, origin));
        let base = match options.dry_run {
            true => staging.rehearse(record),
            false => staging.publish(record)?,
        };
        Ok(ImportReport {
            base,
            summary,
            changes,
            loss,
            kept_questions,
            duplicate_edges: self.n_pushed - manifest.n_edges,
            filler_nodes: self.filler_nodes,
            repeated_rows: self.repeated_rows,
            repairs: self.repairs,
            printed_values: self.printed_values,
            problems,
        })
    }
}

/// Returns an error for a template whose node type does not exist, or which names a field that no
/// node of that type has.
fn check_templates(templates: &Templates, kb: &Kb, source: &Path) -> Result<(), DatasetError> {
    for (node_type, template) in templates {
        let unknown = match template.fields().find(|field| kb.field_id(field).is_none()) {
            _ if kb.type_id(node_type).is_none() => Some(("type", node_type.as_str(), kb.types())),
            Some(field) => Some(("field", field, kb.field_names())),
            None => None,
        };
        if let Some((what, name, known)) = unknown {
            let known = known.get(..MAX_NAMED).unwrap_or(known).join(", ");
            let message = format!(
                "the template of \"{node_type}\": no node has the {what} \"{name}\"; known: {known}"
            );
            let path = source.join("dataset.toml");
            return Err(DatasetError::BadToml { path, line: 0, message });
        }
    }
    Ok(())
}

/// Describes what an update loses; `None` unless it loses more than half of the nodes or all
/// questions.
fn loss_of(served: &Base, changes: &Changes, n_queries: u64) -> Option<String> {
    let (nodes, questions) = (u64::from(served.record.n_nodes), served.record.n_queries);
    let gone = changes.nodes_removed;
    let lost_nodes = (gone * 2 > nodes).then(|| format!("{gone} of {nodes} nodes"));
    let all = (n_queries == 0 && questions > 0).then(|| format!("all questions ({questions})"));
    let lost: Vec<String> = lost_nodes.into_iter().chain(all).collect();
    (!lost.is_empty()).then(|| lost.join(" and "))
}

/// Copies the questions of an installed base to its new version; returns the stored questions with
/// the numbers of kept and dropped questions.
fn kept(
    served: &Base,
    kb: &Kb,
    target: &Path,
    watch: &mut Watch<'_>,
) -> Result<(StoredQueries, Option<(u64, u64)>), DatasetError> {
    served.verify_queries(&mut |_| {})?;
    let node_map = Changes::node_map(&Kb::open(&served.kb_dir())?, kb);
    let dir = served.queries_dir();
    let sources = QuerySources { splits: dir.clone(), ..QuerySources::in_dir(&dir) };
    // Lenient: lost questions are counted, and are not errors.
    let mut lost = Problems::new(true);
    let ids = (AnswerIds::Moved(&node_map), false);
    let queries = import_queries(&sources, target, ids, &mut lost, watch)?;
    let n = queries.n_queries;
    Ok((queries, Some((n, served.record.n_queries.saturating_sub(n)))))
}
