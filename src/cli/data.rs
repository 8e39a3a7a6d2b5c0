//! `agent data`: fetches, imports, lists, shows, generates and removes datasets, and makes questions
//! for them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::anyhow;
use clap::{Subcommand, ValueEnum, builder::PossibleValuesParser};
use serde::Serialize;

use crate::{
    cli::{
        Context, Exit,
        dataset::{self, Input},
        failure::{CommandError, Result},
        printer::{count, plain, table},
        pull, synthesize,
    },
    dataset::{
        Base, ImportOptions, ImportReport,
        sample::{SampleKind, SampleOptions},
        stark::{self, Origin},
    },
    index::IndexError,
    kb::Kb,
};

/// Characters of a title, licence, type or relation that are shown.
const MAX_SHOWN: usize = 100;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the installed datasets
    List(ListArgs),
    /// Import a directory as a dataset
    ///
    /// A dataset of that name is replaced when the import is complete. One that is indexed goes on
    /// answering until `agent index` has built the new index; then both are replaced in one step.
    Import(ImportArgs),
    /// Download the files of a STaRK dataset
    ///
    /// They come from the dataset repository snap-stanford/stark (CC-BY-4.0) and are kept in the
    /// home, so that an interrupted download goes on the next time. HF_TOKEN, if set, is sent to
    /// the endpoint and to no other host.
    Pull(pull::Args),
    /// Generate a small made-up dataset and import it
    ///
    /// It has the schema of a STaRK knowledge base and questions with answers, but invented
    /// content. A dataset of that name is replaced.
    Sample(SampleArgs),
    Synthesize(synthesize::Args),
    /// Show counts, types, relations and splits of a dataset
    Show(ShowArgs),
    /// Remove a dataset with its indexes
    Remove(RemoveArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ImportArgs {
    /// Install it under this name: a-z, 0-9, - and _
    #[arg(long, value_name = "N")]
    name: String,
    /// Read this directory
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// Read files of this format
    #[arg(long, value_enum, default_value_t = Format::Neutral)]
    format: Format,
    /// Which edges a base of the STaRK benchmark gets [default: exact]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Leave wrong lines out and count them, instead of ending at the first
    ///
    /// With --format stark this is about queries and splits.
    #[arg(long)]
    lenient: bool,
    /// Print what was imported as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// nodes.jsonl, edges.tsv and, optionally, qa.csv, split/ and dataset.toml
    Neutral,
    /// The files of the STaRK benchmark: processed.zip or processed/, and stark_qa/ and split/
    Stark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The stored edges
    Exact,
    /// The stored edges, with the relations that the reference merges them to
    Faithful,
}

#[derive(Debug, clap::Args)]
pub(super) struct SampleArgs {
    /// Schema: amazon, mag or prime
    #[arg(value_name = "KIND", value_parser = PossibleValuesParser::new(
        SampleKind::ALL.map(SampleKind::name)))]
    kind: String,
    /// Size relative to the benchmark, above 0 and at most 1 [default: about 5,000 nodes]
    #[arg(long, value_name = "X")]
    scale: Option<f64>,
    /// Seed of all random draws
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Install it under this name [default: the kind]
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Write its files to this new or empty directory instead of installing it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["name", "json"])]
    to: Option<PathBuf>,
    /// Print what was imported as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Installed dataset
    #[arg(value_name = "N")]
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    /// Installed dataset
    #[arg(value_name = "N")]
    name: String,
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::List(args) => list(&args, ctx),
        Command::Import(args) => import(&args, ctx),
        Command::Pull(args) => pull::run(&args, ctx),
        Command::Sample(args) => sample(&args, ctx),
        Command::Synthesize(args) => synthesize::run(&args, ctx),
        Command::Show(args) => show(&args, ctx),
        Command::Remove(args) => remove(&args, ctx),
    }
}

/// A line of `list`.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    title: &'a str,
    nodes: u32,
    edges: u64,
    queries: u64,
    index: &'static str,
}

fn list(args: &ListArgs, ctx: &Context) -> Result<Exit> {
    let bases = ctx.home.list()?;
    let listed = bases.iter().map(|base| Listed {
        name: &base.name,
        title: &base.record.title,
        nodes: base.record.n_nodes,
        edges: base.record.n_edges,
        queries: base.record.n_queries,
        index: index_state(base, ctx),
    });
    if args.json {
        for line in listed {
            ctx.printer.json(&line)?;
        }
    } else if bases.is_empty() {
        let home = ctx.home.path().display();
        ctx.printer.notice(&format!("no dataset is installed in {home}"));
        ctx.printer.notice("import one with `agent data import --name N --from DIR`");
    } else {
        let mut rows = table(["name", "nodes", "edges", "queries", "index", "title"], &[1, 2, 3]);
        for line in listed {
            rows.add_row([
                line.name.to_owned(),
                count(line.nodes.into()),
                count(line.edges),
                count(line.queries),
                line.index.to_owned(),
                plain(line.title, MAX_SHOWN),
            ]);
        }
        ctx.printer.table(&rows)?;
    }
    Ok(Exit::Done)
}

/// In a word, whether the base can be searched.
fn index_state(base: &Base, ctx: &Context) -> &'static str {
    match dataset::open_index(base, ctx) {
        Ok(_) => "ready",
        Err(IndexError::Missing { .. }) => "none",
        Err(IndexError::OtherBase { .. }) => "outdated",
        Err(_) => "damaged",
    }
}

fn import(args: &ImportArgs, ctx: &Context) -> Result<Exit> {
    let input = match (args.format, args.mode) {
        (Format::Neutral, None) => Input::Neutral,
        (Format::Neutral, Some(_)) => {
            return Err(CommandError::usage(anyhow!("--mode is for --format stark")));
        }
        (Format::Stark, Some(Mode::Faithful)) => Input::Stark(stark::Mode::Faithful),
        (Format::Stark, Some(Mode::Exact) | None) => Input::Stark(stark::Mode::Exact),
    };
    let options = ImportOptions { lenient: args.lenient, ..ImportOptions::default() };
    install(&args.from, &args.name, input, &options, args.json, ctx)
}

/// Imports a directory under a name, and tells of it.
///
/// # Errors
/// Those of [`dataset::import`].
pub(super) fn install(
    source: &Path,
    name: &str,
    input: Input,
    options: &ImportOptions,
    json: bool,
    ctx: &Context,
) -> Result<Exit> {
    let installed = ctx.home.get(name).ok();
    // A sample answers nobody's questions; it makes room at once for what is meant by its name.
    let beside = installed.as_ref().is_some_and(|base| dataset::sample_kind(base).is_none());
    let options = ImportOptions { beside, ..options.clone() };
    let report = dataset::import(source, name, input, &options, ctx)?;
    tell_of_import(&report, installed.is_some(), json, ctx)
}

fn sample(args: &SampleArgs, ctx: &Context) -> Result<Exit> {
    let kind = SampleKind::from_name(&args.kind)
        .ok_or_else(|| CommandError::usage(anyhow!("there is no sample \"{}\"", args.kind)))?;
    let options = SampleOptions { seed: args.seed, scale: args.scale };
    if let Some(dir) = &args.to {
        let report = dataset::sample_files(kind, options, dir, ctx)?;
        ctx.printer.notice(&format!(
            "wrote {} nodes and {} edges to {}",
            count(report.n_nodes),
            count(report.n_edges),
            dir.display()
        ));
        return Ok(Exit::Done);
    }
    let name = args.name.as_deref().unwrap_or(kind.name());
    let replaces = ctx.home.get(name).is_ok();
    let report = dataset::sample(kind, name, options, ctx)?;
    tell_of_import(&report, replaces, args.json, ctx)
}

/// What `import` prints as JSON.
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
}

fn tell_of_import(
    report: &ImportReport,
    replaces: bool,
    json: bool,
    ctx: &Context,
) -> Result<Exit> {
    let name = &report.base.name;
    let record = &report.base.record;
    let waits = ctx.home.next(name)?.is_some();
    if waits {
        ctx.printer.notice(&dataset::waiting(name));
    } else if replaces {
        ctx.printer.notice(&format!("replaced the installed \"{name}\" and its indexes"));
    }
    if json {
        ctx.printer.json(&Imported {
            name,
            nodes: record.n_nodes,
            edges: record.n_edges,
            queries: record.n_queries,
            splits: &record.splits,
            fingerprint: &record.fingerprint,
            current: !waits,
            duplicate_edges: report.duplicate_edges,
            filler_nodes: report.filler_nodes,
            printed_values: Some(report.printed_values).filter(|&n| n > 0),
            left_out: report.problems.iter().map(|p| (p.kind.label(), p.count)).collect(),
        })?;
    } else if !waits {
        ctx.printer.notice(&format!("next: build its index with `agent index {name}`"));
    }
    Ok(Exit::Done)
}

/// What `show` prints as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    title: &'a str,
    licence: &'a str,
    source: &'a str,
    path: String,
    fingerprint: &'a str,
    nodes: u32,
    edges: u64,
    queries: u64,
    splits: &'a BTreeMap<String, u64>,
    types: BTreeMap<&'a str, u64>,
    candidate_types: Vec<&'a str>,
    candidates: usize,
    relations: BTreeMap<&'a str, u64>,
    fields: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    stark: Option<Origin>,
    index: &'static str,
}

fn show(args: &ShowArgs, ctx: &Context) -> Result<Exit> {
    let base = ctx.home.get(&args.name)?;
    let kb = Kb::open(&base.kb_dir())?;
    let manifest = kb.manifest();
    let mut relations: BTreeMap<&str, u64> = BTreeMap::new();
    for &(_, relation, _, edges) in &manifest.tuples {
        if let Some(name) = manifest.relations.get(usize::from(relation)) {
            *relations.entry(name).or_default() += edges;
        }
    }
    let counts = manifest.type_counts.iter().map(|&n| u64::from(n));
    let shown = Shown {
        name: &base.name,
        title: &base.record.title,
        licence: &base.record.licence,
        source: &base.record.source,
        path: base.path.display().to_string(),
        fingerprint: &base.record.fingerprint,
        nodes: base.record.n_nodes,
        edges: base.record.n_edges,
        queries: base.record.n_queries,
        splits: &base.record.splits,
        types: manifest.types.iter().map(String::as_str).zip(counts).collect(),
        candidate_types: kb.candidate_types().iter().map(|&id| kb.type_name(id)).collect(),
        candidates: kb.candidates().len(),
        relations,
        fields: kb.field_names(),
        stark: base.record.stark,
        index: index_state(&base, ctx),
    };
    if args.json {
        ctx.printer.json(&shown)?;
    } else {
        ctx.printer.text(&describe(&shown))?;
    }
    Ok(Exit::Done)
}

fn describe(shown: &Shown<'_>) -> String {
    let counted = |counts: &BTreeMap<&str, u64>| {
        let lines = counts
            .iter()
            .map(|(name, n)| format!("  {:>12}  {}\n", count(*n), plain(name, MAX_SHOWN)));
        lines.collect::<String>()
    };
    let splits = shown.splits.iter().map(|(name, n)| format!("{name} {}", count(*n)));
    let splits = splits.collect::<Vec<_>>().join(", ");
    let candidate_types = plain(shown.candidate_types.join(", "), MAX_SHOWN);
    let stark = shown.stark.map(|origin| {
        let edges = match origin.mode {
            stark::Mode::Exact => "the stored edges",
            stark::Mode::Faithful => "the edges as the reference merges them",
        };
        let tenth = match origin.derived_tenth {
            true => "; test-0.1 is the beginning of test, there was no file of it",
            false => "",
        };
        format!("benchmark   STaRK {}, {edges}{tenth}\n", origin.kind)
    });
    [
        format!("name        {}", shown.name),
        format!("title       {}", plain(shown.title, MAX_SHOWN)),
        format!("licence     {}", plain(shown.licence, MAX_SHOWN)),
        format!("source      {}", shown.source),
        stark.unwrap_or_default(),
        format!("place       {}", shown.path),
        format!("fingerprint {}", shown.fingerprint),
        format!("index       {}", shown.index),
        format!("queries     {} ({splits})", count(shown.queries)),
        format!("candidates  {} ({candidate_types})", count(shown.candidates as u64)),
        format!("nodes       {}", count(shown.nodes.into())),
        counted(&shown.types),
        format!("edges       {}", count(shown.edges)),
        counted(&shown.relations),
    ]
    .map(|line| if line.is_empty() || line.ends_with('\n') { line } else { line + "\n" })
    .concat()
}

fn remove(args: &RemoveArgs, ctx: &Context) -> Result<Exit> {
    ctx.home.remove(&args.name)?;
    ctx.printer.notice(&format!("removed \"{}\" and its indexes", args.name));
    Ok(Exit::Done)
}
