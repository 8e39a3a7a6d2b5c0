//! Steps that all imports share: starts an import, and finishes it by writing the graph, importing
//! the questions, summarising and publishing the base.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::{Map, Value};

use crate::{
    Base, BaseRecord, Changes, DatasetError, Home, ProblemCount, ProblemKind, Result, Summary,
    error::{Fault, LineError, Problems},
    home::{FORMAT_VERSION, Staging},
    ids::AnswerIds,
    neutral::{TOML_FILE, Templates},
    queries::{QuerySources, StoredQueries, import_queries},
    render::{MAX_DOCUMENT_BYTES, render_field, render_text},
    stark::Origin,
    tables::Repair,
};
use agent_kb::{Kb, KbError, KbMeta, KbWriter, NodeId};

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
    /// Reading nodes; progress is counted in bytes of the file as stored (once per pass), in tables
    /// or in nodes.
    Nodes,
    /// Reading edges; progress is counted in bytes of the file as stored, in tables or in edges.
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
    /// Loss of an update, such as `7 of 10 nodes`, if it is more than half of the nodes or all
    /// questions.
    pub loss: Option<String>,
    /// Number of questions kept from the previous version, and number of questions dropped because
    /// all their answers were removed.
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
    /// Number of skipped invalid lines by kind; empty after a strict import.
    pub problems: Vec<ProblemCount>,
}

/// Reports progress to the caller, and returns an error once the caller has set the stop flag.
pub(super) struct Watch<'a> {
    pub(super) on_progress: &'a mut dyn FnMut(Progress),
    pub(super) stop: &'a AtomicBool,
}

impl Watch<'_> {
    pub(super) fn report(&mut self, phase: Phase, done: u64, total: u64) -> Result<()> {
        (self.on_progress)(Progress { phase, done, total });
        if self.stop.load(Ordering::Relaxed) { Err(DatasetError::Stopped) } else { Ok(()) }
    }
}

/// Type, name and details of a node, independent of the input format.
pub(super) struct Content<'a> {
    pub(super) node_type: &'a str,
    pub(super) name: &'a str,
    pub(super) details: &'a Map<String, Value>,
}

/// Writes the nodes and edges of an import.
pub(super) struct GraphWriter {
    pub(super) writer: KbWriter,
    /// Document templates by node type; the types and their fields must exist in the base.
    pub(super) templates: Templates,
    /// Number of edges passed to the writer, duplicates included.
    pub(super) n_pushed: u64,
}

impl GraphWriter {
    /// Writes a node with its document. Either all nodes of a base have keys, or no node has.
    pub(super) fn push_node(
        &mut self,
        key: Option<&str>,
        Content { node_type, name, details }: &Content<'_>,
    ) -> Result<NodeId, LineError> {
        let text = match self.templates.get(*node_type) {
            Some(template) => template.render(name, node_type, details),
            None => Some(render_text(name, node_type, details)),
        };
        let text = text.ok_or_else(|| {
            let message = format!(
                "its document exceeds {MAX_DOCUMENT_BYTES} bytes with the template of its type"
            );
            let hint = "shorten the template or the node's texts";
            Fault::new(ProblemKind::LineTooLong, message, hint)
        })?;
        let fields: Vec<(String, String)> = details
            .iter()
            .map(|(field, value)| (field.clone(), render_field(value)))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        Ok(match key {
            Some(key) => self.writer.push_keyed_node(key, node_type, name, &text, &fields)?,
            None => self.writer.push_node(node_type, name, &text, &fields)?,
        })
    }

    /// Writes an edge.
    pub(super) fn push_edge(
        &mut self,
        source: NodeId,
        relation: &str,
        target: NodeId,
    ) -> Result<(), LineError> {
        self.writer.push_edge(source, relation, target)?;
        self.n_pushed += 1;
        Ok(())
    }
}

/// An import in progress; dropping it unfinished removes its files.
pub(super) struct Install {
    pub(super) graph: GraphWriter,
    pub(super) problems: Problems,
    pub(super) meta: KbMeta,
    /// Name of the file that `meta` was read from, for messages.
    pub(super) meta_file: &'static str,
    /// The question files to import.
    pub(super) questions: QuerySources,
    /// Origin of a base of the STaRK benchmark; `None` for other bases.
    pub(super) origin: Option<Origin>,
    pub(super) filler_nodes: u32,
    pub(super) repeated_rows: u64,
    pub(super) repairs: Vec<Repair>,
    /// Whether some invalid lines yielded no node. An unknown id may then be the id of such a line.
    pub(super) lost_nodes: bool,
    /// Whether the templates come from the previous version. Such templates are not checked again,
    /// and stay even if the last node of their type is deleted.
    pub(super) keeps_templates: bool,
    pub(super) staging: Staging,
    /// Number of values stored as the text that Python prints for them, because they have no
    /// equivalent type.
    pub(super) printed_values: u64,
    source: PathBuf,
    options: ImportOptions,
}

impl Install {
    pub(super) fn begin(
        home: &Home,
        name: &str,
        source: &Path,
        options: &ImportOptions,
    ) -> Result<Install> {
        let staging = Staging::new(home, name, options.as_next_version)?;
        let writer = KbWriter::create(&staging.kb_dir())?;
        Ok(Install {
            graph: GraphWriter { writer, templates: Templates::new(), n_pushed: 0 },
            problems: Problems::new(options.lenient),
            meta: KbMeta::default(),
            meta_file: TOML_FILE,
            questions: QuerySources::in_dir(source),
            origin: None,
            filler_nodes: 0,
            repeated_rows: 0,
            repairs: Vec::new(),
            lost_nodes: false,
            keeps_templates: false,
            printed_values: 0,
            staging,
            source: source.to_path_buf(),
            options: options.clone(),
        })
    }

    /// Writes the graph, reads the question files, and publishes the base.
    pub(super) fn finish(mut self, watch: &mut Watch<'_>) -> Result<ImportReport> {
        let (staging, source, options) = (&self.staging, &self.source, &self.options);
        let GraphWriter { writer, templates, n_pushed } = self.graph;
        if self.meta.title.is_empty() {
            self.meta.title.clone_from(&staging.name);
        }
        let mut go_on = |done, total| watch.report(Phase::Graph, done, total).is_ok();
        let manifest = writer.finish(&self.meta, &mut go_on).map_err(|error| match error {
            KbError::Stopped => DatasetError::Stopped,
            error @ (KbError::UnknownCandidateType { .. } | KbError::UnknownSaidAs { .. }) => {
                let dir = if source.is_file() { source.parent() } else { None };
                DatasetError::bad_input(dir.unwrap_or(source).join(self.meta_file), error)
            }
            other => DatasetError::Kb(other),
        })?;
        let kb = Kb::open(&staging.kb_dir())?;
        if let Some(questions) = &options.questions {
            self.questions.queries.clone_from(questions);
        }
        let served = options.update.and_then(|_| staging.home.get(&staging.name).ok());
        let target = staging.queries_dir();
        let (queries, kept_questions) = match &served {
            Some(served) if !self.questions.queries.exists() => kept(served, &kb, &target, watch)?,
            _ => {
                let ids = (AnswerIds::for_base(&kb), self.lost_nodes);
                (import_queries(&self.questions, &target, ids, &mut self.problems, watch)?, None)
            }
        };
        let problems = self.problems.finish()?;
        if !self.lost_nodes && !self.keeps_templates {
            check_templates(&templates, &kb, source)?;
        }
        let (mut changes, mut loss) = (None, None);
        if let Some(served) = &served {
            let found = Changes::between(&Kb::open(&served.kb_dir())?, &kb);
            loss = loss_of(served, &found, queries.n_queries);
            changes = Some(found);
        }
        let is_refused = !options.dry_run && options.update.is_some_and(|of| !of.allow_loss);
        if let Some(loss) = loss.as_ref().filter(|_| is_refused) {
            let (name, loss) = (staging.name.clone(), loss.clone());
            return Err(DatasetError::WouldLoseData { name, loss });
        }
        let summary = Summary::compute(&kb, &queries.labelled);
        let derived_tenth = queries.derived_tenth;
        if queries.drawn_splits {
            let n = |split: &str| queries.splits.get(split).copied().unwrap_or_default();
            let message = format!(
                "no split/: drew {} training, {} validation and {} test questions; write \
                 split/train.index, split/val.index and split/test.index to choose them",
                n("train"),
                n("val"),
                n("test")
            );
            let (file, count) = ("qa.csv".to_owned(), queries.n_queries);
            self.repairs.push(Repair { file, kind: "splits", count, message });
        }
        let record = BaseRecord {
            format_version: FORMAT_VERSION,
            title: manifest.title,
            licence: manifest.licence,
            source: source.display().to_string(),
            fingerprint: manifest.fingerprint,
            n_nodes: manifest.n_nodes,
            n_edges: manifest.n_edges,
            n_types: manifest.types.len() as u64,
            n_relations: manifest.relations.len() as u64,
            n_queries: queries.n_queries,
            splits: queries.splits,
            query_files: queries.files,
            templates,
            stark: self.origin.map(|origin| Origin { derived_tenth, ..origin }),
            checksum: String::new(),
        };
        let base = match options.dry_run {
            true => self.staging.rehearse(record)?,
            false => self.staging.publish(record)?,
        };
        Ok(ImportReport {
            base,
            summary,
            changes,
            loss,
            kept_questions,
            duplicate_edges: n_pushed - manifest.n_edges,
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
fn check_templates(templates: &Templates, kb: &Kb, source: &Path) -> Result<()> {
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
            return Err(DatasetError::bad_input(source.join(TOML_FILE), message));
        }
    }
    Ok(())
}

/// Describes what an update would lose; `None` unless that is more than half of the nodes or all
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
) -> Result<(StoredQueries, Option<(u64, u64)>)> {
    served.verify_queries(&mut |_| {})?;
    let node_map = Changes::node_map(&Kb::open(&served.kb_dir())?, kb);
    let dir = served.queries_dir();
    let sources = QuerySources { splits: dir.clone(), ..QuerySources::in_dir(&dir) };
    // Lenient, because lost questions are counted and are not errors.
    let mut lost = Problems::new(true);
    let ids = (AnswerIds::Moved(&node_map), false);
    let queries = import_queries(&sources, target, ids, &mut lost, watch)?;
    let n = queries.n_queries;
    Ok((queries, Some((n, served.record.n_queries.saturating_sub(n)))))
}
