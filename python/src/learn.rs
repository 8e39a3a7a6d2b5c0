//! Optimizing programs from Python: the loop of `agent optimize` without a language model, which
//! tells its progress and ends when Python is interrupted.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use agent::{
    app::private::{sandbox_of_user, trust_of_user},
    dataset::{Split, load_split},
    optimize::{
        self, Actors, Event, Inputs, OptimizeError, Options,
        journal::{DATABASE_FILE, Journal},
        mine::DEFAULT_HOPS,
        user,
    },
    sandbox::{Origin, Place},
};
use pyo3::{prelude::*, types::PyDict};
use serde_json::Value;

use crate::{
    base::{Base, new_run_dir},
    failure::{Failure, without_gil},
};

/// The seed and the steps where nothing says otherwise.
const SEED: u64 = 1;
const STEPS: usize = 24;

/// Refuses to go on with a run that was begun on another base or with a language model.
fn check_begun(config: &Value, base: &str) -> Result<(), Failure> {
    let begun = |key: &str| config.get(key).and_then(Value::as_str);
    match begun("dataset") {
        Some(other) if other != base => {
            return Err(Failure::hinted(
                format!("the run was begun on \"{other}\", this base is \"{base}\""),
                "open the base of the run, or begin another run",
            ));
        }
        _ => {}
    }
    if begun("actor").and_then(Actors::named).is_some_and(|actors| actors.llm) {
        return Err(Failure::hinted(
            "a language model takes part in the run",
            "go on with it by `agent optimize --resume`",
        ));
    }
    Ok(())
}

/// What happens in a run, as an object for Python: `kind` and what belongs to it.
fn told<'py>(py: Python<'py>, event: &Event<'_>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    match event {
        Event::Progress { phase, done, total } => {
            dict.set_item("kind", "progress")?;
            dict.set_item("phase", phase)?;
            dict.set_item("done", done)?;
            dict.set_item("total", total)?;
        }
        Event::Category { name, n, mrr, .. } => {
            dict.set_item("kind", "category")?;
            dict.set_item("name", name)?;
            dict.set_item("n", n)?;
            dict.set_item("mrr", mrr)?;
        }
        Event::Message(text) => {
            dict.set_item("kind", "told")?;
            dict.set_item("text", text)?;
        }
        Event::Tested { name, change, difference, p, accepted } => {
            dict.set_item("kind", "tested")?;
            dict.set_item("name", name)?;
            dict.set_item("change", change)?;
            dict.set_item("difference", difference)?;
            dict.set_item("p", p)?;
            dict.set_item("accepted", accepted)?;
        }
        Event::Milestone(_) => dict.set_item("kind", "better")?,
        Event::SequentialTest(_) => dict.set_item("kind", "sequential test")?,
    }
    Ok(dict)
}

/// Optimizes programs on a base and freezes the best; the directory of the run and what is printed of
/// its end. A run that goes on has the seed and steps that it was begun with, unless others are
/// given, and all its other settings. `progress` is called with each event; what it raises ends the
/// run, as an interrupt does, and everything done so far is kept.
#[pyfunction(name = "optimize")]
#[expect(clippy::too_many_arguments, reason = "they are named in Python")]
pub(crate) fn learn(
    py: Python<'_>,
    base: &Base,
    seed: Option<u64>,
    steps: Option<usize>,
    threads: usize,
    run: Option<PathBuf>,
    resume: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(PathBuf, String)> {
    without_gil(py, || {
        let train = load_split(&base.installed, &Split::Train)?;
        let validation = load_split(&base.installed, &Split::Val)?;
        optimize::check_queries(&train, &validation)?;
        let dir = match run {
            Some(dir) => dir,
            None if resume => {
                return Err(Failure::hinted("which run is to go on?", "name it with run=DIR"));
            }
            None => new_run_dir(&base.home, &base.installed.name)?,
        };
        let trust = trust_of_user();
        // What the command line keeps, so that it can go on with the run.
        let config = serde_json::json!({
            "dataset": base.installed.name, "seed": seed.unwrap_or(SEED),
            "steps": steps.unwrap_or(STEPS), "hops": DEFAULT_HOPS, "without": [],
        });
        let mut journal = match resume {
            true => Journal::resume(&dir)?,
            false => {
                std::fs::create_dir_all(&dir)?;
                Journal::create(&dir, &config)?
            }
        };
        let config = journal.config().clone();
        check_begun(&config, &base.installed.name)?;
        let begun = |key: &str| config.get(key).and_then(Value::as_u64);
        let size = |key: &str| begun(key).and_then(|n| usize::try_from(n).ok());
        let without = config.get("without").cloned();
        let origin = dir.join(DATABASE_FILE);
        if !resume {
            trust.keep(Origin::Run(&origin));
        }
        let options = Options {
            dataset: base.installed.name.clone(),
            seed: seed.or(begun("seed")).unwrap_or(SEED),
            steps: steps.or(size("steps")).unwrap_or(STEPS),
            llm_steps: 0,
            hops: size("hops").unwrap_or(DEFAULT_HOPS),
            actors: Actors { search: true, llm: false },
            llm_tools: false,
            avatar_tools: false,
            programs: user::load(&journal)?,
            sandbox: sandbox_of_user(Origin::Run(&origin)),
            without: without.map(serde_json::from_value).transpose()?.unwrap_or_default(),
            budget: None,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let mut raised: Option<PyErr> = None;
        let mut watch = |event: Event<'_>| {
            let told = Python::attach(|py| {
                py.check_signals()?;
                if let Some(progress) = &progress {
                    progress.call1(py, (told(py, &event)?,))?;
                }
                PyResult::Ok(())
            });
            if let Err(error) = told {
                stop.store(true, Ordering::Relaxed);
                raised.get_or_insert(error);
            }
        };
        let outcome = optimize::run(Inputs {
            base: base.indexed.clone(),
            assistant: None,
            train,
            validation,
            options: &options,
            dir: &dir,
            journal: &mut journal,
            threads: threads.max(1),
            evaluators: None,
            watch: &mut watch,
            stop: &stop,
        });
        match (outcome, raised) {
            (_, Some(error)) => Err(Failure::Python(error)),
            (Err(OptimizeError::Stopped), None) => Err(Failure::Told("stopped".to_owned(), None)),
            (outcome, None) => {
                let outcome = outcome?;
                if trust.place(Origin::Run(&origin)) == Place::Process {
                    trust.keep(Origin::Bundle(&outcome.bundle.digest));
                }
                let told = serde_json::json!({
                    "run": dir, "bundle": dir.join(optimize::BUNDLE_FILE),
                    "digest": outcome.bundle.digest, "verdict": outcome.verdict,
                });
                Ok((dir, told.to_string()))
            }
        }
    })
}
