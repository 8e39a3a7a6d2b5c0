//! Files that an evaluation writes for other tools: rankings, labelled answers, and results by
//! query. Each file appears under its name only when it is complete. Does not depend on how
//! anything was measured.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use crate::{Context, eval::Args};
use agent_app::{
    Explain, Measured, Result,
    eval::{Reply, not_of_values, systems::Chosen},
    output::Output,
    refused,
};
use agent_dataset::LabelledQuery;
use agent_retrieve::eval::{
    Metric,
    trec::{self, DocIds},
};

/// Placeholder for the system's name in the name of a run file.
const SYSTEM: &str = "{system}";

/// Requested output files of an evaluation, each with its path.
pub(super) struct Files {
    runs: Vec<(PathBuf, Output)>,
    qrels: Option<(PathBuf, Output)>,
    results: Option<(PathBuf, Output)>,
}

impl Files {
    /// Opens the output files before the evaluation, so that an unwritable file fails before
    /// anything is measured.
    ///
    /// # Errors
    /// If several systems would share a run file, a file cannot be written, or the evaluation
    /// measures values, whose results cannot be written to such files.
    pub(super) fn begin(args: &Args) -> Result<Files> {
        let given = [&args.run_file, &args.qrels_file, &args.results_file];
        if given.iter().any(|file| file.is_some()) && args.request.measures_values() {
            return Err(not_of_values());
        }
        let begin = |path: &PathBuf| Ok((path.clone(), Output::begin(path)?));
        let runs = match &args.run_file {
            Some(path) => run_files(path, &args.request.chosen()?)?,
            None => Vec::new(),
        };
        Ok(Files {
            runs: runs.iter().map(begin).collect::<Result<_>>()?,
            qrels: args.qrels_file.as_ref().map(begin).transpose()?,
            results: args.results_file.as_ref().map(begin).transpose()?,
        })
    }

    /// Writes the results to the output files.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn finish(self, reply: &Reply, ctx: &Context) -> Result<()> {
        let (queries, ids) = (&reply.queries, DocIds::of_base(&reply.base.kb));
        for ((path, file), one) in self.runs.into_iter().zip(&reply.measured) {
            file.finish(|out| run(out, one, queries, ids))?;
            ctx.watch.notice(&format!("wrote the rankings to {}", path.display()));
        }
        if let Some((path, file)) = self.qrels {
            file.finish(|out| qrels(out, queries, ids))?;
            ctx.watch.notice(&format!("wrote the answers to {}", path.display()));
        }
        if let Some((path, file)) = self.results {
            file.finish(|out| results(out, &reply.measured))?;
            ctx.watch.notice(&format!("wrote the results to {}", path.display()));
        }
        Ok(())
    }
}

/// Returns the path of the run file of each system, in the order of `systems`: `path` with
/// [`SYSTEM`] replaced by the label of the system, in which `_` stands for spaces and path
/// separators.
///
/// # Errors
/// If several systems would share one file.
fn run_files(path: &Path, systems: &[Chosen]) -> Result<Vec<PathBuf>> {
    let name = path.to_string_lossy();
    if systems.len() > 1 && !name.contains(SYSTEM) {
        return refused("a run file holds the rankings of one system")
            .hint(format!("put {SYSTEM} into its name, as in run-{SYSTEM}.trec"));
    }
    // Names of files contain no separators.
    let plain = |system: &Chosen| system.label.replace(['/', '\\', ':', ' '], "_");
    let files: Vec<PathBuf> = systems
        .iter()
        .map(|system| match path.to_str() {
            Some(name) => PathBuf::from(name.replace(SYSTEM, &plain(system))),
            None => path.to_owned(),
        })
        .collect();
    match files.iter().enumerate().find(|(at, file)| files[..*at].contains(file)) {
        Some((_, file)) => refused(format!("two systems would write {}", file.display()))
            .hint("measure them one by one"),
        None => Ok(files),
    }
}

/// Returns the name of a system as a tag for its run file: whitespace is replaced by `_`, and the
/// name is cut to [`trec::MAX_TAG_BYTES`].
pub(crate) fn tag(system: &str) -> String {
    let mut tag: String = system.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect();
    tag.truncate(tag.floor_char_boundary(trec::MAX_TAG_BYTES));
    tag
}

/// Writes the rankings of a system in TREC run format.
fn run(
    out: &mut dyn Write,
    measured: &Measured,
    queries: &[LabelledQuery],
    ids: DocIds<'_>,
) -> anyhow::Result<()> {
    let tag = &tag(&measured.system);
    for (query, ranking) in queries.iter().zip(&measured.measurements.rankings) {
        trec::write_run(out, ids, query.id, ranking, tag)?;
    }
    Ok(())
}

/// Writes the labelled answers to the queries in TREC qrels format.
fn qrels(out: &mut dyn Write, queries: &[LabelledQuery], ids: DocIds<'_>) -> anyhow::Result<()> {
    for query in queries {
        trec::write_qrels(out, ids, query.id, &query.answers)?;
    }
    Ok(())
}

/// Writes one CSV line per system and query, in the order measured. The columns are `system`,
/// `query_id`, `failure` (empty if the system did not fail), `latency_ms`, and all metrics.
fn results(out: &mut dyn Write, measured: &[Measured]) -> anyhow::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let names = Metric::ALL.map(Metric::name);
    csv.write_record(["system", "query_id", "failure", "latency_ms"].iter().chain(&names))?;
    for one in measured {
        for result in &one.measurements.results {
            let mut row = vec![one.system.clone(), result.query_id.to_string()];
            row.push(result.failure.clone().unwrap_or_default());
            row.push(result.latency_ms.to_string());
            row.extend(result.metrics.values().map(shortest));
            csv.write_record(row)?;
        }
    }
    Ok(csv.flush()?)
}

/// Formats a number with the fewest digits that read back as the same value: as `f32` if that
/// represents `value` exactly, otherwise as `f64`.
fn shortest(value: f64) -> String {
    let single = value as f32;
    if f64::from(single) == value { single.to_string() } else { value.to_string() }
}
