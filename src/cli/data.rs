//! `agent data`: fetches, imports, updates, lists, shows, generates and removes datasets, and
//! synthesizes questions for them.

mod guess;
mod import;
mod node;
mod summary;
mod update;

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::anyhow;
use clap::{Subcommand, builder::PossibleValuesParser};

use crate::{Context, Exit, ListArgs, OneJson, plain, pull, synthesize, table};
use agent_app::{
    AppError, Perform as _, Result, count, counted,
    data::{
        facets,
        import::Reply,
        list, remove,
        show::{self, Overview},
    },
    dataset,
};
use agent_dataset::{
    sample::{SampleKind, SampleOptions},
    stark,
};

pub(super) use import::install;

/// Maximum number of characters to show for a title, licence, node type or relation.
const MAX_SHOWN: usize = 100;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the installed datasets
    List(ListArgs),
    /// Import tables, a database, triples or a directory as a dataset
    ///
    /// Reads tables (.csv, .tsv, .jsonl, .parquet) and SQLite databases, alone or in a directory;
    /// N-Triples files (.nt); and directories with nodes.jsonl and edges.tsv. The mapping of tables
    /// to nodes and edges is read from mapping.toml, or guessed and printed. Prints a summary of
    /// the dataset and of likely mistakes in it.
    ///
    /// A dataset of the same name is replaced when the import is complete. If it is indexed, it
    /// answers queries until `agent index` has built the new index; then both are replaced in one
    /// step.
    Import(import::Args),
    /// Guess the mapping of the tables in a directory, and write it for editing
    Guess(guess::Args),
    /// Import a dataset again or change single nodes, index it as before, and replace it in one
    /// step
    ///
    /// Give all data with --from, or only the changes with --upsert and --delete. The old dataset
    /// answers until the new one is indexed, and queries that are running finish on the old one.
    /// The old questions are kept if the new data bring none. Prints the changes. Except with the
    /// built-in embedder, texts that were embedded before are not embedded again.
    #[command(override_usage = "agent data update <N> --from <PATH> [OPTIONS]\n       \
            agent data update <N> [--upsert <FILE>] [--delete <FILE>] [OPTIONS]")]
    Update(update::Args),
    /// Download the files of a STaRK dataset
    ///
    /// The files come from the dataset repository snap-stanford/stark (CC-BY-4.0) and are kept in
    /// the home directory, so that an interrupted download resumes the next time. HF_TOKEN, if
    /// set, is sent only to the address in --endpoint.
    Pull(pull::Args),
    /// Generate a small made-up dataset and import it
    ///
    /// The dataset has the schema of a STaRK knowledge base and questions with answers, but
    /// invented content. An existing dataset of the same name is replaced.
    Sample(SampleArgs),
    /// Generate questions with answers for a dataset that has none
    ///
    /// Each question, in one of many wordings, combines a metapath with words of an answer's
    /// document. The metapath leads over the dataset's relations from a named node to a few
    /// answers. Without a language model the words come from documents, and every answer is checked
    /// against the documents. With --actor llm, a model extracts properties from documents and
    /// writes the questions. It checks each answer twice, in two different ways; only answers that
    /// pass both checks are kept.
    ///
    /// With --kind table, instead generates eight kinds of questions whose answers aggregate many
    /// nodes. Their exact answers are computed from fields and links, without a language model.
    /// Existing labelled questions are never replaced: with --to DIR the new questions are written
    /// elsewhere.
    Synthesize(OneJson<agent_app::data::synthesize::Request>),
    /// Show the contents of a dataset, its likely mistakes, or one of its nodes
    Show(OneJson<show::Request>),
    /// Count the nodes with each value of a field, to find useful conditions
    ///
    /// Each count is the number of nodes that meet the condition `FIELD=VALUE`. Fields with more
    /// than 500 values are left out, and so are fields whose values occur on fewer than two nodes
    /// on average.
    Facets(OneJson<facets::Request>),
    /// Remove a dataset with its indexes
    Remove(remove::Request),
}

#[derive(Debug, clap::Args)]
pub(super) struct SampleArgs {
    /// Use the schema of this STaRK knowledge base: amazon, mag or prime
    #[arg(value_name = "KIND", value_parser = PossibleValuesParser::new(
        SampleKind::ALL.map(SampleKind::name)))]
    kind: String,
    /// Set the size relative to the benchmark, above 0 and at most 10 [default: about 5,000 nodes]
    #[arg(long, value_name = "X")]
    scale: Option<f64>,
    /// Draw all random numbers with this seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Install the dataset under this name [default: the kind]
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Write the files of the dataset to this new or empty directory instead of installing it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["name", "json"])]
    to: Option<PathBuf>,
    /// Print a summary of the import as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::List(args) => list(&args, ctx),
        Command::Import(args) => import::run(&args, ctx),
        Command::Guess(args) => guess::run(&args, ctx),
        Command::Update(args) => update::run(&args, ctx),
        Command::Pull(args) => pull::run(&args, ctx),
        Command::Sample(args) => sample(&args, ctx),
        Command::Synthesize(args) => synthesize::run(&args, ctx),
        Command::Show(args) => show(&args, ctx),
        Command::Facets(args) => show_facets(&args, ctx),
        Command::Remove(request) => request.perform(ctx).map(|_| Exit::Done),
    }
}

fn list(args: &ListArgs, ctx: &Context) -> Result<Exit> {
    let datasets = list::Request {}.perform(ctx)?.datasets;
    if args.json {
        ctx.printer.json_lines(&datasets)?;
    } else if datasets.is_empty() {
        let home = ctx.home.path().display();
        ctx.watch.notice(&format!("no dataset is installed in {home}"));
        ctx.watch.notice("import one with `agent data import --name N --from DIR`");
    } else {
        let mut rows = table(["name", "nodes", "edges", "questions", "index", "title"], &[1, 2, 3]);
        for line in datasets {
            rows.add_row([
                line.name,
                count(line.nodes.into()),
                count(line.edges),
                count(line.queries),
                line.index.to_owned(),
                plain(&line.title, MAX_SHOWN),
            ]);
        }
        ctx.printer.table(&rows)?;
    }
    Ok(Exit::Done)
}

fn sample(args: &SampleArgs, ctx: &Context) -> Result<Exit> {
    let kind = SampleKind::from_name(&args.kind)
        .ok_or_else(|| AppError::usage(anyhow!("unknown sample \"{}\"", args.kind)))?;
    let options = SampleOptions { seed: args.seed, scale: args.scale };
    if let Some(dir) = &args.to {
        let report = dataset::sample_files(kind, options, dir, ctx)?;
        ctx.watch.notice(&format!(
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
    let reply = Reply::installed(report, 0.0, replaces, ctx)?;
    import::print_end(&reply, args.json, ctx)
}

fn show(args: &OneJson<show::Request>, ctx: &Context) -> Result<Exit> {
    match args.request.perform(ctx)? {
        show::Reply::Nodes { nodes } => node::show(&nodes, args.json, ctx),
        show::Reply::Issues(summary) => {
            summary::issues(&args.request.name, &summary, args.json, ctx)
        }
        show::Reply::Dataset(overview) if args.json => ctx.printer.json(&overview),
        show::Reply::Dataset(overview) => ctx.printer.text(&describe(&overview)),
    }
}

fn show_facets(args: &OneJson<facets::Request>, ctx: &Context) -> Result<Exit> {
    let reply = args.request.perform(ctx)?;
    if args.json {
        return ctx.printer.json(&reply);
    }
    let mut rows = table(["field", "value", "nodes"], &[2]);
    for facet in &reply.facets {
        for value in &facet.values {
            let shown = plain(&value.value, MAX_SHOWN);
            rows.add_row([facet.name.clone(), shown, count(value.nodes as u64)]);
        }
        if let Some(more @ 1..) = facet.n_values.checked_sub(facet.values.len()) {
            let more = counted(more as u64, "more value");
            rows.add_row([facet.name.clone(), more, String::new()]);
        }
    }
    if reply.facets.is_empty() {
        ctx.watch.notice("no field has repeated values; name a field with --field");
        return Ok(Exit::Done);
    }
    ctx.printer.table(&rows)
}

fn describe(shown: &Overview) -> String {
    let counted = |counts: &BTreeMap<String, u64>| {
        let lines = counts
            .iter()
            .map(|(name, n)| format!("  {:>12}  {}\n", count(*n), plain(name, MAX_SHOWN)));
        lines.collect::<String>()
    };
    let splits = shown.splits.iter().map(|(name, n)| format!("{name} {}", count(*n)));
    let splits = splits.collect::<Vec<_>>().join(", ");
    let splits = if splits.is_empty() { splits } else { format!(" ({splits})") };
    let candidate_types = plain(shown.candidate_types.join(", "), MAX_SHOWN);
    let stark = shown.stark.map(|origin| {
        let edges = match origin.mode {
            stark::Mode::Exact => "the stored edges",
            stark::Mode::Faithful => "the edges as merged by the reference implementation",
        };
        let tenth = match origin.derived_tenth {
            true => "; test-0.1 is the first tenth of test, since it has no separate file",
            false => "",
        };
        format!("benchmark   STaRK {}, {edges}{tenth}\n", origin.kind)
    });
    [
        format!("name        {}", shown.name),
        format!("title       {}", plain(&shown.title, MAX_SHOWN)),
        format!("licence     {}", plain(&shown.licence, MAX_SHOWN)),
        format!("languages   {}", shown.languages),
        format!("source      {}", shown.source),
        stark.unwrap_or_default(),
        format!("place       {}", shown.path),
        format!("fingerprint {}", shown.fingerprint),
        format!("index       {}", shown.index),
        format!("questions   {}{splits}", count(shown.queries)),
        format!("candidates  {} ({candidate_types})", count(shown.candidates as u64)),
        format!("nodes       {}", count(shown.nodes.into())),
        counted(&shown.types),
        format!("edges       {}", count(shown.edges)),
        counted(&shown.relations),
    ]
    .map(|line| if line.is_empty() || line.ends_with('\n') { line } else { line + "\n" })
    .concat()
}
