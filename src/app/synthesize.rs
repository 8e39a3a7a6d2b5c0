//! Makes labelled questions for a base that has none. Must not know how questions are made.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;

use crate::{App, Plan, error::Result};
use agent_dataset::{Base, attach_questions};
use agent_index::IndexedBase;
use agent_synth::{self as synth, Ids, Options, Requester, SynthError, Synthesis, Watch};

/// Questions when no number is given.
pub const QUERIES: usize = 500;
/// Seed when none is given.
pub const SEED: u64 = 1;

/// The parts of the making, with about what share of its time each takes.
const STAGES: Plan = &[("templates", 2.0), ("questions", 5.0)];

/// Makes questions, with progress.
///
/// # Errors
/// Those of [`synth::synthesize`].
pub(crate) fn make(
    base: &IndexedBase,
    options: &Options,
    requester: Option<&Requester>,
    app: &App,
) -> Result<Synthesis> {
    watched(STAGES, app, |watch| synth::synthesize(base, options, requester, watch))
}

/// What making questions gives, with progress.
///
/// # Errors
/// Those of `make`.
pub(crate) fn watched<T>(
    stages: Plan,
    app: &App,
    make: impl FnOnce(&mut Watch<'_>) -> std::result::Result<T, SynthError>,
) -> Result<T> {
    let progress = app.watch.progress_of("making questions", stages);
    let mut on_progress = |stage: &'static str, done: usize, of: usize| {
        progress.at(stage, done as u64, of as u64);
    };
    Ok(make(&mut Watch { progress: &mut on_progress, stop: &app.stop })?)
}

/// Makes the questions that `write` puts into a directory those of a base.
///
/// # Errors
/// That the base has labels of the user's own; those of files.
pub(crate) fn keep(
    base: &Base,
    app: &App,
    write: impl FnOnce(&Path) -> Result<()>,
) -> Result<Base> {
    let dir = tempfile::tempdir().context("cannot make a temporary directory")?;
    write(dir.path())?;
    Ok(attach_questions(&app.home, base, dir.path())?)
}

/// Makes the usual number of questions for a base without any, and keeps them.
///
/// # Errors
/// That the base gives no questions, or that they cannot be written.
pub fn for_base(base: &Base, indexed: &Arc<IndexedBase>, app: &App) -> Result<Base> {
    let options = Options { queries: QUERIES, seed: SEED, templates: None };
    let made = make(indexed, &options, None, app)?;
    let labelled = keep(base, app, |dir| Ok(made.write(Ids::Numbers, dir)?))?;
    app.watch.notice(&format!("made {}", summary(&made)));
    Ok(labelled)
}

/// How many questions of what kind.
pub(crate) fn summary(made: &Synthesis) -> String {
    let kinds = made.quality.kinds.iter().map(|(kind, n)| format!("{n} {kind}"));
    format!(
        "{} synthetic questions ({}) from {} templates",
        made.quality.n,
        kinds.collect::<Vec<_>>().join(", "),
        made.quality.templates
    )
}
