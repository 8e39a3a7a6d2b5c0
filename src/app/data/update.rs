//! Imports new data for an installed dataset, or changes single nodes. Indexes the new version like
//! the previous one, and makes it current in one step.

use std::{path::PathBuf, time::Instant};

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use super::import::{DRY_RUN, Source};
use crate::{App, Perform, Result, dataset, index::index_as_before, refused};
use agent_dataset::{Changes, ImportOptions, ImportReport, Summary, Update, Upsert};
use agent_index::adopt;

/// New data for a dataset that is already installed.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset
    #[arg(value_name = "N")]
    pub name: String,
    /// Where the data are, and how to read them; absent if single nodes change.
    #[command(flatten)]
    #[schema(inline)]
    pub source: Option<Source>,
    /// Replace or add the nodes of this file instead, one JSON object a line: {"id": "T-7", "type":
    /// "ticket", "name": "..", "details": {}, "edges": {"has_customer": ["C-3"]}}
    ///
    /// A node with the same type and id is replaced, with its details; other nodes are added. If a
    /// line names a relation, its edges replace all edges of the node in this relation; edges of
    /// other relations stay.
    #[arg(long, value_name = "FILE", conflicts_with = "Source")]
    #[schema(value_type = Option<String>)]
    pub upsert: Option<PathBuf>,
    /// Delete the nodes whose ids are in this file, one a line, with their edges
    #[arg(long, value_name = "FILE", conflicts_with = "Source")]
    #[schema(value_type = Option<String>)]
    pub delete: Option<PathBuf>,
    /// Read everything, report changes and problems, and install nothing
    #[arg(long)]
    #[serde(default)]
    pub dry_run: bool,
    /// Update even if more than half of the nodes, or all questions, would be lost
    #[arg(long)]
    #[serde(default)]
    pub force: bool,
}

/// An updated dataset, or the result of a dry run.
pub struct Reply {
    /// The new version, with counts of the input lines that were left out or changed.
    pub report: ImportReport,
    /// Differences of the new version from the previous one.
    pub changes: Changes,
    /// Time taken by the import and the indexing together, in seconds.
    pub seconds: f64,
    /// Whether the previous version had an index; the new version then gets one too.
    pub was_indexed: bool,
    /// Whether this was a dry run, which installs nothing.
    pub dry_run: bool,
}

impl Perform for Request {
    const NAME: &'static str = "data_update";
    const SUMMARY: &'static str = "Import a dataset again or change single nodes, index it as before, and replace it in one step";
    const CHANGES: bool = true;
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        app.refuse_paths("data update")?;
        let began = Instant::now();
        let served = app.home.get(&self.name)?;
        let was_indexed = served.index_dir().exists();
        let (update, dry_run) = (Some(Update { allow_loss: self.force }), self.dry_run);
        let as_update =
            |options| ImportOptions { as_next_version: true, update, dry_run, ..options };
        let single = Upsert { nodes: self.upsert.clone(), deleted: self.delete.clone() };
        let imported = match (&self.source, single.nodes.is_some() || single.deleted.is_some()) {
            (Some(source), false) => {
                dataset::import(source, &served.name, &as_update(source.options()?), app)
            }
            (None, true) => {
                dataset::upsert(&single, &served.name, &as_update(ImportOptions::default()), app)
            }
            _ => refused("give either all data with --from, or changes with --upsert and --delete"),
        };
        let mut report = imported?.report;
        let changes = report.changes.take().unwrap_or_default();
        if was_indexed && !dry_run {
            let is_same = served.record.fingerprint == report.base.record.fingerprint;
            if is_same && served.version != report.base.version {
                adopt(&served.index_dir(), &report.base.index_dir())?;
            }
            index_as_before(&served, app)?;
        }
        if dry_run {
            app.watch.notice(DRY_RUN);
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(Reply { report, changes, seconds, was_indexed, dry_run })
    }
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Record<'a> {
            name: &'a str,
            version: u32,
            fingerprint: &'a str,
            seconds: f64,
            changes: &'a Changes,
            questions: u64,
            /// How many questions of the previous version are kept, and how many are lost.
            kept_questions: Option<(u64, u64)>,
            /// Description of the losses; absent if they are too small to need --force.
            #[serde(skip_serializing_if = "Option::is_none")]
            loss: Option<&'a str>,
            /// Whether the new version is current; false after a dry run.
            current: bool,
            summary: &'a Summary,
        }
        let ImportReport { base, kept_questions, loss, summary, .. } = &self.report;
        Record {
            name: &base.name,
            version: base.version,
            fingerprint: &base.record.fingerprint,
            seconds: self.seconds,
            changes: &self.changes,
            questions: base.record.n_queries,
            kept_questions: *kept_questions,
            loss: loss.as_deref(),
            current: !self.dry_run,
            summary,
        }
        .serialize(out)
    }
}
