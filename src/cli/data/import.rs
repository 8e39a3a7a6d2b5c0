//! `agent data import`: a file or directory becomes a dataset.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::anyhow;
use clap::ValueEnum;
use serde::Serialize;

use crate::{Context, Exit, data::summary};
use agent_app::{
    dataset::{self, Input, TablesInput},
    error::{AppError, Result},
};
use agent_dataset::{
    ImportOptions, ImportReport, Summary, stark,
    tables::{EdgesTable, TableHint},
};

/// What is said after a dry run.
pub(super) const DRY_RUN: &str = "nothing was installed: this was a dry run";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Install it under this name: a-z, 0-9, - and _
    #[arg(long, value_name = "N")]
    name: String,
    #[command(flatten)]
    source: SourceArgs,
    /// Read everything, say what would become what and what is wrong, and install nothing
    #[arg(long)]
    dry_run: bool,
    /// Print what was imported as one JSON object
    #[arg(long)]
    json: bool,
}

/// Where data are and how they are read.
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// Read this directory or file
    #[arg(long, value_name = "PATH")]
    pub(super) from: PathBuf,
    /// Read files of this format [default: what they look like]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Which edges a base of the STaRK benchmark gets [default: exact]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Read this mapping of tables [default: mapping.toml in the directory, or a guess]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "edges"])]
    mapping: Option<PathBuf>,
    /// Read nodes from this table and those of other --nodes only, as
    /// FILE:TYPE:id=COLUMN,name=COLUMN,COLUMN->TYPE; what is left out is guessed
    #[arg(long, value_name = "TABLE")]
    nodes: Vec<TableHint>,
    /// Read edges from this table, as FILE:RELATION:COLUMN->TYPE,COLUMN->TYPE
    #[arg(long, value_name = "TABLE", requires = "nodes")]
    edges: Vec<EdgesTable>,
    /// Read labelled questions from this file [default: qa.csv in the directory]
    #[arg(long, value_name = "FILE")]
    questions: Option<PathBuf>,
    /// Leave wrong lines out and count them, instead of failing of them
    ///
    /// With --format stark this is about queries and splits.
    #[arg(long)]
    lenient: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// nodes.jsonl, edges.tsv and, optionally, qa.csv, split/ and dataset.toml
    Neutral,
    /// The files of the STaRK benchmark: processed.zip or processed/, and stark_qa/ and split/
    Stark,
    /// Tables: .csv, .tsv, .jsonl, .sqlite
    Tables,
    /// A file of N-Triples
    Triples,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The stored edges
    Exact,
    /// The stored edges, with the relations that the reference merges them to
    Faithful,
}

impl SourceArgs {
    /// What is to be read, and how.
    ///
    /// # Errors
    /// That options do not go together.
    pub(super) fn resolve(&self) -> Result<(Input, ImportOptions)> {
        let tables = TablesInput {
            mapping: self.mapping.clone(),
            nodes: self.nodes.clone(),
            edges: self.edges.clone(),
        };
        let is_tables = tables.mapping.is_some() || !tables.nodes.is_empty();
        if self.mode.is_some() && self.format != Some(Format::Stark) {
            return Err(AppError::usage(anyhow!("--mode is for --format stark")));
        }
        if is_tables && !matches!(self.format, None | Some(Format::Tables)) {
            let message = "--mapping and --nodes are for tables";
            return Err(AppError::usage(anyhow!(message)));
        }
        if let Some(file) = self.questions.as_ref().filter(|file| !file.is_file()) {
            return Err(AppError::usage(anyhow!("--questions: no file {}", file.display())));
        }
        let input = match (self.format, self.mode) {
            (None, _) if !is_tables => Input::Detected,
            (None | Some(Format::Tables), _) => Input::Tables(tables),
            (Some(Format::Neutral), _) => Input::Neutral,
            (Some(Format::Triples), _) => Input::Triples,
            (Some(Format::Stark), Some(Mode::Faithful)) => Input::Stark(stark::Mode::Faithful),
            (Some(Format::Stark), _) => Input::Stark(stark::Mode::Exact),
        };
        let options = ImportOptions {
            lenient: self.lenient,
            questions: self.questions.clone(),
            ..ImportOptions::default()
        };
        Ok((input, options))
    }
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let (input, mut options) = args.source.resolve()?;
    options.dry_run = args.dry_run;
    install(&args.source.from, &args.name, &input, &options, args.json, ctx)
}

/// Imports a file or directory under a name, and prints a notice.
///
/// # Errors
/// Those of [`dataset::import`].
pub(crate) fn install(
    source: &Path,
    name: &str,
    input: &Input,
    options: &ImportOptions,
    json: bool,
    ctx: &Context,
) -> Result<Exit> {
    let installed = ctx.home.get(name).ok();
    // A sample answers nobody's questions; it makes room at once for what is meant by its name.
    let is_own_data = installed.as_ref().is_some_and(|base| dataset::sample_kind(base).is_none());
    let options = ImportOptions { as_next_version: is_own_data, ..options.clone() };
    let imported = dataset::import(source, name, input, &options, ctx)?;
    let report = &imported.report;
    if !json {
        let done = if options.dry_run { "read" } else { "imported" };
        let done = format!("{done} in {:.1} s", imported.seconds);
        summary::print(report, &done, !options.dry_run, ctx)?;
    }
    if options.dry_run {
        ctx.printer.notice(DRY_RUN);
        if json {
            ctx.printer.json(&Imported::of(report, false))?;
        }
        return Ok(Exit::Done);
    }
    tell(report, installed.is_some(), json, ctx)
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Imported<'a> {
    name: &'a str,
    nodes: u32,
    edges: u64,
    queries: u64,
    splits: &'a BTreeMap<String, u64>,
    fingerprint: &'a str,
    /// Whether it answers from now on; else the one before does until it is indexed.
    current: bool,
    duplicate_edges: u64,
    filler_nodes: u32,
    /// Values kept as their text, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    printed_values: Option<u64>,
    left_out: BTreeMap<&'static str, u64>,
    summary: &'a Summary,
}

impl<'a> Imported<'a> {
    fn of(report: &'a ImportReport, current: bool) -> Imported<'a> {
        let record = &report.base.record;
        Imported {
            name: &report.base.name,
            nodes: record.n_nodes,
            edges: record.n_edges,
            queries: record.n_queries,
            splits: &record.splits,
            fingerprint: &record.fingerprint,
            current,
            duplicate_edges: report.duplicate_edges,
            filler_nodes: report.filler_nodes,
            printed_values: Some(report.printed_values).filter(|&n| n > 0),
            left_out: report.problems.iter().map(|p| (p.kind.label(), p.count)).collect(),
            summary: &report.summary,
        }
    }
}

/// Says whether an imported base answers, or prints all of it as JSON.
pub(super) fn tell(
    report: &ImportReport,
    replaces: bool,
    json: bool,
    ctx: &Context,
) -> Result<Exit> {
    let name = &report.base.name;
    let waits = ctx.home.pending_version(name)?.is_some();
    if waits {
        ctx.printer.notice(&dataset::waiting(name));
    } else if replaces {
        ctx.printer.notice(&format!("replaced the installed \"{name}\" and its indexes"));
    }
    if json {
        ctx.printer.json(&Imported::of(report, !waits))?;
    } else if !waits {
        ctx.printer.notice(&format!("next: build its index with `agent index {name}`"));
    }
    Ok(Exit::Done)
}
