//! Begins a run in a new directory with a journal, or resumes one. Options come from the request,
//! or else from the configuration in the journal. If a service does not reply, nothing is frozen,
//! and a file beside the journal marks the run as paused until a process continues it. The file
//! stays if the attempt to resume the run is refused.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    App, Explain, Result, all_threads,
    named::runs_dir,
    optimize::{
        Hops, Paused, Request, Steps,
        data::Data,
        model::{self, Described, Model, Start},
        programs::{PROGRAMS, go_on_with},
        resume_command,
    },
    output::write,
};
use agent_dataset::Base;
use agent_infer::bundle::Bundle;
use agent_optimize::{
    Ablation, Actors, OptimizeError, Options,
    asks::max_runs,
    journal::{DATABASE_FILE, Journal},
    mine::DEFAULT_HOPS,
    record::pause::{PAUSE_FILE, Pause},
    user::{self, UserProgram},
};
use agent_sandbox::{Origin, Place, SandboxOptions};

/// Default random seed.
const SEED: u64 = 1;
/// Default number of steps of the search actor.
pub(super) const STEPS: usize = 24;
/// Default number of steps per category in which the language model improves programs, if its
/// comparator is left out: only such steps show the comparator's effect. Otherwise the default is
/// 0.
const STEPS_WITHOUT_COMPARATOR: usize = 3;
/// Maximum number of numbered run directories of one dataset, such as `mag-0001`.
const MAX_RUNS: usize = 9_999;
/// Actors of a run whose configuration names no actors: the search actor alone.
const SEARCH_ONLY: Actors = Actors { search: true, llm: false };

/// An open run.
pub(super) struct Run {
    pub(super) dir: PathBuf,
    pub(super) journal: Journal,
    pub(super) options: Options,
    /// Number of threads on which programs run.
    pub(super) threads: usize,
    /// The dataset, as the request names it.
    pub(super) dataset: String,
}

impl Run {
    /// Begins a run in a new directory, or resumes the requested one.
    ///
    /// # Errors
    /// If there is no run to resume, if the directory of a new run already holds a run, or if a
    /// resumed run has other programs.
    pub(super) fn open(
        request: &Request,
        start: &Start,
        base: &Base,
        programs: &[UserProgram],
        app: &App,
    ) -> Result<Run> {
        let dir = directory(request, &base.name, app)?;
        let journal = match request.resume {
            true => {
                let mut journal = Journal::resume(&dir)?;
                go_on_with(programs, &dir, &mut journal)?;
                journal
            }
            false => begun(&dir, &config(request, start, &base.name, programs), programs)?,
        };
        let alone = forget_unless_alone(start.actors, &dir, &journal, app)?;
        if alone && !request.resume {
            app.private.trust().keep(Origin::Run(&dir.join(DATABASE_FILE)));
        }
        let sandbox = request.sandbox.places(app)?.of(Origin::Run(&dir.join(DATABASE_FILE)));
        let programs = user::load(&journal)?;
        let options = options(request, &base.name, journal.config(), programs, sandbox)?;
        let threads = request.threads.map_or_else(all_threads, |threads| threads.get());
        Ok(Run { dir, journal, options, threads, dataset: request.dataset.clone() })
    }

    /// Notifies the user of the run's dataset, actors, seed, number of queries and directory.
    pub(super) fn announce(&self, data: &Data, model: Option<&Model>, app: &App) {
        let (options, n_validation) = (&self.options, data.validation.len());
        let name = model.map_or("", Model::name);
        let mut actors = match options.actors {
            Actors { llm: false, .. } => "the search actor (no language model)".to_owned(),
            Actors { search: false, .. } => format!("the llm actor (model {name})"),
            _ => format!("the search actor and the llm actor (model {name})"),
        };
        if !options.programs.is_empty() {
            actors += &format!(" and {} of your programs", options.programs.len());
        }
        if options.llm_tools {
            actors += &format!(
                ", whose programs may also ask the model (at most {} program runs; see \
                 --no-llm-tools)",
                max_runs(n_validation)
            );
        }
        app.watch.notice(&format!(
            "optimizing \"{}\" with {actors}, seed {}: {} training and {n_validation} validation \
             queries; the run is kept in {}",
            data.base.name,
            options.seed,
            data.train.len(),
            self.dir.display()
        ));
    }

    /// Returns the message for an interrupted run: its work is kept, with the command to resume it.
    pub(super) fn kept(&self) -> String {
        let command = resume_command(&self.dataset, &self.dir);
        format!("everything done so far is kept; {command}")
    }

    /// Writes a file into the run's directory that marks the run as paused because a service does
    /// not reply, and states the reason.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn pause(&self, outage: &OptimizeError, app: &App) -> Result<Paused> {
        let pause = Pause { why: outage.to_string() };
        write(&self.dir.join(PAUSE_FILE), |file| Ok(serde_json::to_writer(file, &pause)?))?;
        let run = app.shown_path(&self.dir).to_owned();
        Ok(Paused { dataset: self.dataset.clone(), run, why: pause.why })
    }

    /// Records the bundle as trusted if the run is trusted; its programs may then run in this
    /// process.
    pub(super) fn keep_trust(&self, bundle: &Bundle, app: &App) {
        let trust = app.private.trust();
        if trust.place(Origin::Run(&self.dir.join(DATABASE_FILE))) == Place::Process {
            trust.keep(Origin::Bundle(&bundle.digest));
        }
    }
}

/// Removes the file that marks the run in `dir` as paused, when the run is resumed.
pub(super) fn resumed(dir: &Path) {
    // If the directory is not writable, the run itself fails.
    let _ = fs::remove_file(dir.join(PAUSE_FILE));
}

/// Returns the directory of the run: the one that the request names; without a name, the last
/// numbered directory of the base to resume, or the first free one for a new run.
fn directory(request: &Request, base: &str, app: &App) -> Result<PathBuf> {
    if let Some(dir) = &request.run {
        return Ok(dir.clone());
    }
    let runs = runs_dir(&app.home);
    let mut numbered = (1..=MAX_RUNS).map(|n| runs.join(format!("{base}-{n:04}")));
    if request.resume {
        return numbered
            .rfind(|dir| dir.exists())
            .ok_or_else(|| anyhow!("there is no run of \"{base}\" to resume"))
            .hint("name it with --run DIR, or leave out --resume");
    }
    numbered
        .find(|dir| !dir.exists())
        .ok_or_else(|| {
            anyhow!("{} already holds {MAX_RUNS} runs of \"{base}\", the maximum", runs.display())
        })
        .hint("remove some, or name another directory with --run DIR")
}

fn begun(dir: &Path, config: &Value, programs: &[UserProgram]) -> Result<Journal> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut journal = Journal::create(dir, config)?;
    if !programs.is_empty() {
        user::store(&mut journal, programs)?;
    }
    Ok(journal)
}

/// Returns the configuration of a new run, as its journal records it. `base` is the name of the
/// base.
pub(super) fn config(
    request: &Request,
    start: &Start,
    base: &str,
    programs: &[UserProgram],
) -> Value {
    let steps = request.steps.map_or(STEPS, |steps| steps.get());
    let llm_steps = request.llm_steps.map(|steps| steps.get());
    let mut config = json!({
        "dataset": base,
        "seed": request.seed.unwrap_or(SEED),
        "steps": steps,
        "hops": request.hops.map_or(DEFAULT_HOPS, |hops| hops.get()),
        "without": request.ablations(),
    });
    if let Some(Described { name, prices }) = &start.model {
        config["actor"] = start.actors.names().into();
        config["llm_tools"] = (!request.no_llm_tools).into();
        config["llm_steps"] =
            llm_steps.unwrap_or_else(|| default_llm_steps(&request.ablations(), steps)).into();
        config["avatar_tools"] = request.avatar_tools.into();
        config["model"] = name.as_deref().into();
        config["prices"] = json!(prices);
    }
    if !programs.is_empty() {
        config[PROGRAMS] = user::digest(programs).into();
    }
    config
}

/// Returns the default number of improvement steps of the language model per category; at most
/// `steps`, the number of steps of the search actor.
fn default_llm_steps(without: &[Ablation], steps: usize) -> usize {
    if without.contains(&Ablation::Comparator) { STEPS_WITHOUT_COMPARATOR.min(steps) } else { 0 }
}

/// Options that the configuration of a run records; see [`config`].
#[derive(Default, Deserialize)]
#[serde(default)]
struct Recorded {
    seed: Option<u64>,
    steps: Option<Steps>,
    llm_steps: Option<Steps>,
    hops: Option<Hops>,
    without: Vec<Ablation>,
    actor: Option<String>,
    llm_tools: bool,
    avatar_tools: bool,
}

/// Returns the options of a run: each from the request, or else from the run's configuration, or
/// else the default.
///
/// # Errors
/// If an option of the configuration is out of its bounds or of another type.
pub(super) fn options(
    request: &Request,
    base: &str,
    config: &Value,
    programs: Vec<UserProgram>,
    sandbox: SandboxOptions,
) -> Result<Options> {
    let recorded = Recorded::deserialize(config)
        .context("the journal of the run has a damaged configuration")
        .hint("start another run with --run DIR")?;
    let steps = request.steps.or(recorded.steps).map_or(STEPS, |steps| steps.get());
    let llm_steps = request.llm_steps.or(recorded.llm_steps);
    let actors = model::named_actors(request)
        .or_else(|| Actors::named(recorded.actor.as_deref()?))
        .unwrap_or(SEARCH_ONLY);
    let llm_tools = request.llm_tools || recorded.llm_tools;
    let without = if request.without.is_empty() { recorded.without } else { request.ablations() };
    Ok(Options {
        dataset: base.to_owned(),
        seed: request.seed.or(recorded.seed).unwrap_or(SEED),
        steps,
        llm_steps: llm_steps
            .map_or_else(|| default_llm_steps(&without, steps), |steps| steps.get()),
        hops: request.hops.or(recorded.hops).map_or(DEFAULT_HOPS, |hops| hops.get()),
        actors,
        llm_tools: actors.llm && !request.no_llm_tools && llm_tools,
        avatar_tools: request.avatar_tools || recorded.avatar_tools,
        programs,
        sandbox,
        without,
        budget: request.budget_minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0)),
    })
}

/// Checks whether the search actor alone writes the programs of the run, without a language model
/// or the user. If not, removes the record that the run is trusted.
fn forget_unless_alone(new: Actors, dir: &Path, journal: &Journal, app: &App) -> Result<bool> {
    let begun = journal.config().get("actor").and_then(Value::as_str);
    let asks = new.llm || begun.and_then(Actors::named).is_some_and(|actors| actors.llm);
    let alone = !asks && user::load(journal)?.is_empty();
    if !alone {
        app.private.trust().forget(Origin::Run(&dir.join(DATABASE_FILE)));
    }
    Ok(alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_from_elsewhere_has_options_within_bounds() {
        let read = |config| {
            let (request, sandbox) = (Request::default(), SandboxOptions::default());
            options(&request, "shop", &config, Vec::new(), sandbox)
        };
        let recorded = read(json!({"steps": 5, "llm_steps": 2, "hops": 3, "seed": 7})).unwrap();
        assert_eq!(
            (recorded.steps, recorded.llm_steps, recorded.hops, recorded.seed),
            (5, 2, 3, 7)
        );
        for config in [json!({"steps": 100_000_000_000_000_u64}), json!({"hops": 9})] {
            let error = read(config).unwrap_err();
            assert_eq!(error.lines()[0], "the journal of the run has a damaged configuration");
        }
    }
}
