//! Imports a file or directory as a dataset.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    App, Perform, Result,
    choice::{FormatName, ModeName, choice},
    dataset, refused,
};
use agent_dataset::{
    Encoding, ImportOptions, ImportReport, InputFormat, Summary,
    stark::Mode,
    tables::{EdgesTable, Repair, TableHint},
};
use agent_index::languages;
use agent_kb::Kb;

/// Notice that ends a dry run.
pub(super) const DRY_RUN: &str = "nothing was installed: this was a dry run";

/// Data to import, and the name under which to install them.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Install the dataset under this name, made of a-z, 0-9, - and _
    #[arg(long, value_name = "N")]
    pub name: String,
    /// Where the data are, and how to read them.
    #[command(flatten)]
    pub source: Source,
    /// Read everything, report the result and its problems, and install nothing
    #[arg(long)]
    #[serde(default)]
    pub dry_run: bool,
}

/// Where the data are, and how to read them.
#[derive(Clone, Debug, Default, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Read this directory or file
    #[arg(long, value_name = "PATH")]
    #[schema(value_type = String)]
    pub from: PathBuf,
    /// Read files of this format [default: detected]
    #[arg(long, value_parser = choice::<InputFormat>())]
    #[schema(value_type = Option<FormatName>, inline)]
    pub format: Option<InputFormat>,
    /// Choose which edges of a STaRK dataset to read [default: exact]
    #[arg(long, value_parser = choice::<Mode>())]
    #[schema(value_type = Option<ModeName>, inline)]
    pub mode: Option<Mode>,
    /// Read this mapping of tables [default: mapping.toml in the directory, or a guess]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "edges"])]
    #[schema(value_type = Option<String>)]
    pub mapping: Option<PathBuf>,
    /// Read nodes only from this table, given as FILE:TYPE:id=COLUMN,name=COLUMN,COLUMN->TYPE;
    /// omitted parts are guessed; may be given several times
    #[arg(long, value_name = "TABLE")]
    #[serde(default, deserialize_with = "crate::bounded::parsed")]
    #[schema(value_type = Vec<String>)]
    pub nodes: Vec<TableHint>,
    /// Read edges from this table, given as FILE:RELATION:COLUMN->TYPE,COLUMN->TYPE; may be given
    /// several times
    #[arg(long, value_name = "TABLE", requires = "nodes")]
    #[serde(default, deserialize_with = "crate::bounded::parsed")]
    #[schema(value_type = Vec<String>)]
    pub edges: Vec<EdgesTable>,
    /// Read text files of tables in this encoding: utf-8, utf-16le, utf-16be, cp1252 or latin-1
    /// [default: detected]
    #[arg(long, value_name = "ENCODING")]
    #[schema(value_type = Option<String>)]
    pub encoding: Option<Encoding>,
    /// Keep columns with few distinct values, such as a department or tags, as text only, without
    /// making nodes of their values
    #[arg(long)]
    #[serde(default)]
    pub no_values: bool,
    /// Read labelled questions from this file [default: qa.csv in the directory]
    #[arg(long, value_name = "FILE")]
    #[schema(value_type = Option<String>)]
    pub questions: Option<PathBuf>,
    /// Skip and count invalid lines instead of failing
    ///
    /// With --format stark, this applies to queries and splits.
    #[arg(long)]
    #[serde(default)]
    pub lenient: bool,
}

impl Source {
    /// Whether the options name tables or a mapping of tables.
    pub(crate) fn names_tables(&self) -> bool {
        self.mapping.is_some() || !self.nodes.is_empty()
    }

    /// Checks that the options go together, and returns the import options among them.
    ///
    /// # Errors
    /// If options contradict one another, or if the file of labelled questions does not exist.
    pub(super) fn options(&self) -> Result<ImportOptions> {
        if self.mode.is_some() && self.format != Some(InputFormat::Stark) {
            return refused("--mode requires --format stark");
        }
        let may_be_tables = matches!(self.format, None | Some(InputFormat::Tables));
        for (is_given, options_apply) in [
            (self.names_tables(), "--mapping and --nodes apply"),
            (self.encoding.is_some(), "--encoding applies"),
            (self.no_values, "--no-values applies"),
        ] {
            if is_given && !may_be_tables {
                return refused(format!("{options_apply} only to tables"));
            }
        }
        if self.edges.len() + self.nodes.len() > 0
            && (self.nodes.is_empty() || self.mapping.is_some())
        {
            return refused("--edges requires --nodes, and --mapping excludes both");
        }
        if let Some(file) = self.questions.as_ref().filter(|file| !file.is_file()) {
            return refused(format!("--questions: {} is not a file", file.display()));
        }
        let (lenient, questions) = (self.lenient, self.questions.clone());
        Ok(ImportOptions { lenient, questions, ..ImportOptions::default() })
    }
}

impl Perform for Request {
    const NAME: &'static str = "data_import";
    const SUMMARY: &'static str = "Import tables, a database, triples or a directory as a dataset";
    const CHANGES: bool = true;
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        app.refuse_paths("data import")?;
        let options = self.source.options()?;
        let installed = app.home.get(&self.name).ok();
        // A sample holds no user data, so an import of the same name replaces it at once.
        let as_next_version =
            installed.as_ref().is_some_and(|base| dataset::sample_kind(base).is_none());
        let options = ImportOptions { as_next_version, dry_run: self.dry_run, ..options };
        let imported = dataset::import(&self.source, &self.name, &options, app)?;
        if self.dry_run {
            app.watch.notice(DRY_RUN);
            let report = imported.report;
            return Ok(Reply { report, seconds: imported.seconds, is_current: false });
        }
        Reply::installed(imported.report, imported.seconds, installed.is_some(), app)
    }
}

/// An imported dataset, or the result of a dry run.
pub struct Reply {
    /// The dataset, with counts of the input lines that were left out or changed.
    pub report: ImportReport,
    /// Time that the import took, in seconds.
    pub seconds: f64,
    /// Whether the imported version is the current one. If not, nothing was installed, or the
    /// previous version stays current until this one is indexed.
    pub is_current: bool,
}

impl Reply {
    /// Returns the reply for an installed import, and notifies the user which version is current.
    /// `replaces` states whether a dataset of this name was installed before.
    ///
    /// # Errors
    /// If the home directory or the new base cannot be read.
    pub fn installed(
        report: ImportReport,
        seconds: f64,
        replaces: bool,
        app: &App,
    ) -> Result<Reply> {
        let name = &report.base.name;
        let is_current = app.home.pending_version(name)?.is_none();
        let languages = languages(&Kb::open(&report.base.kb_dir())?);
        if !languages.is_english() {
            app.watch.notice(&format!(
                "languages: {languages}; word and name search supports them, while `agent ask`, \
                 generated questions and question words in programs support English only"
            ));
        }
        if !is_current {
            app.watch.notice(&dataset::waiting(name));
        } else if replaces {
            app.watch.notice(&format!("replaced the installed \"{name}\" and its indexes"));
        }
        Ok(Reply { report, seconds, is_current })
    }
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Record<'a> {
            name: &'a str,
            nodes: u32,
            edges: u64,
            queries: u64,
            splits: &'a BTreeMap<String, u64>,
            fingerprint: &'a str,
            current: bool,
            duplicate_edges: u64,
            filler_nodes: u32,
            repeated_rows: u64,
            repairs: &'a [Repair],
            /// Number of values kept as the text that Python would print (`repr`); absent if 0.
            #[serde(skip_serializing_if = "Option::is_none")]
            printed_values: Option<u64>,
            left_out: BTreeMap<&'static str, u64>,
            summary: &'a Summary,
        }
        let report = &self.report;
        let record = &report.base.record;
        Record {
            name: &report.base.name,
            nodes: record.n_nodes,
            edges: record.n_edges,
            queries: record.n_queries,
            splits: &record.splits,
            fingerprint: &record.fingerprint,
            current: self.is_current,
            duplicate_edges: report.duplicate_edges,
            filler_nodes: report.filler_nodes,
            repeated_rows: report.repeated_rows,
            repairs: &report.repairs,
            printed_values: Some(report.printed_values).filter(|&n| n > 0),
            left_out: report.problems.iter().map(|p| (p.kind.label(), p.count)).collect(),
            summary: &report.summary,
        }
        .serialize(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_written_as_on_the_command_line_and_options_go_together() {
        let source = |text: &str| serde_json::from_str::<Source>(text);
        let read = source(r#"{"from": "d", "nodes": ["p.csv:product:id=sku"]}"#).unwrap();
        assert_eq!(read.nodes[0].id.as_deref(), Some("sku"));
        assert!(source(r#"{"from": "d", "nodes": ["p.csv"]}"#).is_err());
        for wrong in [
            r#"{"from": "d", "edges": ["e.csv:likes:a->x,b->y"]}"#,
            r#"{"from": "d", "nodes": ["p.csv:product"], "mapping": "m.toml"}"#,
            r#"{"from": "d", "mode": "exact"}"#,
        ] {
            let error = source(wrong).unwrap().options().unwrap_err();
            assert!(error.is_usage(), "{wrong}: {}", error.message());
        }
    }
}
