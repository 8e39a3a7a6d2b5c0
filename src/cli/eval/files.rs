//! Files that an evaluation leaves for other tools: rankings, answers, results by query. Each
//! appears when it is complete. Must not know how anything was measured.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::anyhow;

pub(crate) use agent_app::output::{Output, write};
use agent_app::{
    error::{AppError, Explain, Result},
    measured::Measured,
};
use agent_dataset::LabelledQuery;
use agent_retrieve::eval::{
    Metric,
    trec::{self, DocIds},
};

/// Stands for a system's name in the name of a run file.
const SYSTEM: &str = "{system}";

/// The run file of each system.
///
/// # Errors
/// That several systems would share one file.
pub(super) fn run_files(path: &Path, systems: &[String]) -> Result<Vec<PathBuf>> {
    let name = path.to_string_lossy();
    if systems.len() > 1 && !name.contains(SYSTEM) {
        let error = anyhow!("a run file holds the rankings of one system");
        return Err(AppError::usage(error))
            .hint(format!("put {SYSTEM} into its name, as in run-{SYSTEM}.trec"));
    }
    // Names of files hold no separators.
    let plain = |system: &String| system.replace(['/', '\\', ':', ' '], "_");
    let files: Vec<PathBuf> = systems
        .iter()
        .map(|system| match path.to_str() {
            Some(name) => PathBuf::from(name.replace(SYSTEM, &plain(system))),
            None => path.to_owned(),
        })
        .collect();
    match files.iter().enumerate().find(|(at, file)| files[..*at].contains(file)) {
        Some((_, file)) => {
            let error = anyhow!("two systems would write {}", file.display());
            Err(AppError::usage(error)).hint("measure them one by one")
        }
        None => Ok(files),
    }
}

/// What a system is called in its run file.
pub(crate) fn tag(system: &str) -> String {
    let mut tag: String = system.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect();
    tag.truncate(tag.floor_char_boundary(trec::MAX_TAG_BYTES));
    tag
}

/// The rankings of a system in TREC's format.
pub(super) fn run(
    out: &mut dyn Write,
    measured: &Measured,
    queries: &[LabelledQuery],
    ids: DocIds<'_>,
) -> anyhow::Result<()> {
    let tag = &tag(&measured.system);
    for (query, ranking) in queries.iter().zip(&measured.rankings) {
        trec::write_run(out, ids, query.id, ranking, tag)?;
    }
    Ok(())
}

/// The answers in TREC's qrels format.
pub(super) fn qrels(
    out: &mut dyn Write,
    queries: &[LabelledQuery],
    ids: DocIds<'_>,
) -> anyhow::Result<()> {
    for query in queries {
        trec::write_qrels(out, ids, query.id, &query.answers)?;
    }
    Ok(())
}

/// One line for each system and query, in the order measured: `system`, `query_id`, the failure if
/// there was one, milliseconds, and all metrics.
pub(super) fn results(out: &mut dyn Write, measured: &[Measured]) -> anyhow::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let names = Metric::ALL.map(Metric::name);
    csv.write_record(["system", "query_id", "failure", "latency_ms"].iter().chain(&names))?;
    for one in measured {
        for result in &one.results {
            let mut row = vec![one.system.clone(), result.query_id.to_string()];
            row.push(result.failure.clone().unwrap_or_default());
            row.push(result.latency_ms.to_string());
            row.extend(result.metrics.values().map(shortest));
            csv.write_record(row)?;
        }
    }
    Ok(csv.flush()?)
}

/// The shortest digits that read back as the same number, in single precision if that holds it.
fn shortest(value: f64) -> String {
    let single = value as f32;
    if f64::from(single) == value { single.to_string() } else { value.to_string() }
}
