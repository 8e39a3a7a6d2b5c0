//! Makes labelled questions for a base that has none, and installs them. Does not depend on how
//! questions are generated.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;

use crate::{App, Plan, Result};
use agent_dataset::{Base, attach_questions};
use agent_index::IndexedBase;
use agent_synth::{self as synth, Ids, Options, Requester, SynthError, Synthesis, Watch};

/// Default number of questions.
pub const QUERIES: usize = 500;
/// Default random seed.
pub const SEED: u64 = 1;

/// Stages of making questions in the order in which they run, each with its approximate share of
/// the total time.
const STAGES: Plan = &[("templates", 2.0), ("questions", 5.0)];

/// Makes questions about a base, and reports progress. `requester` sends requests to a language
/// model, if one takes part.
///
/// # Errors
/// As [`synth::synthesize`].
pub(crate) fn make(
    base: &IndexedBase,
    options: &Options,
    requester: Option<&Requester>,
    app: &App,
) -> Result<Synthesis> {
    watched(STAGES, app, |watch| synth::synthesize(base, options, requester, watch))
}

/// Calls `make` with a [`Watch`] that reports progress through `stages` and stops it on request;
/// returns its result.
///
/// # Errors
/// As `make`.
pub(crate) fn watched<T>(
    stages: Plan,
    app: &App,
    make: impl FnOnce(&mut Watch<'_>) -> Result<T, SynthError>,
) -> Result<T> {
    let progress = app.watch.progress_of("making questions", stages);
    let mut on_progress = |stage: &'static str, done: usize, of: usize| {
        progress.at(stage, done as u64, of as u64);
    };
    Ok(make(&mut Watch { progress: &mut on_progress, stop: &app.stop })?)
}

/// Replaces the synthetic questions of a base with those that `write` writes to a directory.
///
/// # Errors
/// If the base has labels that the user gave, or if files cannot be written or read.
pub(crate) fn keep(
    base: &Base,
    app: &App,
    write: impl FnOnce(&Path) -> Result<()>,
) -> Result<Base> {
    let dir = tempfile::tempdir().context("cannot create a temporary directory")?;
    write(dir.path())?;
    Ok(attach_questions(&app.home, base, dir.path())?)
}

/// Makes [`QUERIES`] questions for a base without labels, and installs them. Returns the base with
/// its questions.
///
/// # Errors
/// If no questions can be made, or they cannot be written.
pub fn for_base(base: &Base, indexed: &Arc<IndexedBase>, app: &App) -> Result<Base> {
    let options = Options { queries: QUERIES, seed: SEED, templates: None };
    let made = make(indexed, &options, None, app)?;
    let labelled = keep(base, app, |dir| Ok(made.write(Ids::Numbers, dir)?))?;
    app.watch.notice(&format!("made {}", summary(&made)));
    Ok(labelled)
}

/// Describes the questions that were made: their number, their kinds, and the number of templates.
pub(crate) fn summary(made: &Synthesis) -> String {
    let kinds = made.quality.kinds.iter().map(|(kind, n)| format!("{n} {kind}"));
    format!(
        "{} synthetic questions ({}) from {} templates",
        made.quality.n,
        kinds.collect::<Vec<_>>().join(", "),
        made.quality.templates
    )
}
