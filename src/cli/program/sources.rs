//! The programs of a run's journal or of a bundle, in one form, found by id or category.
//! Must not know how they are shown.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use anyhow::anyhow;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    bundle::{Bundle, Category},
    cli::{
        Context,
        failure::{Explain, Result},
        hits::MAX_SHOWN,
        named,
        printer::plain,
        systems::read_bundle,
    },
    infer::ParamValues,
    optimize::{
        BUNDLE_FILE, Decision,
        journal::{DATABASE_FILE, Journal, PREFIX_DIGITS, StepRecord},
        trial::{TRIAL, Trial},
    },
    program::Program,
    sandbox::{ChosenSandbox, Limits, Origin, Param, Sandbox, SandboxOptions, Workers},
};

/// The kind of steps that hold tests of changes.
const DECISION: &str = "decision";
/// Kind and key of the step that says what a run depends on.
const RUN: &str = "run";
const IDENTITY: &str = "identity";
/// The pool that feeds learning, as trials name it.
const TRAIN: &str = "train";
/// Stands between the id of a program and that of its parameters.
const TUNED: char = '~';
/// Digits of the latter.
const TUNED_DIGITS: usize = 4;
/// Programs that an error lists at most.
const MAX_LISTED: usize = 8;

/// Where programs are.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct Place {
    /// Run: its directory, its name, or latest
    #[arg(long, value_name = "RUN")]
    run: Option<PathBuf>,
    /// Frozen bundle: its file, or the run that it is of
    #[arg(long, value_name = "BUNDLE")]
    bundle: Option<PathBuf>,
}

/// The score of a program on some queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(in crate::cli) struct Score {
    /// Queries.
    pub(in crate::cli) n: usize,
    /// Mean reciprocal rank.
    pub(in crate::cli) mrr: f64,
}

/// A program with its parameters.
pub(in crate::cli) struct Entry {
    /// The program.
    pub(in crate::cli) program: Program,
    /// The category it answers; empty when it says none.
    pub(in crate::cli) category: String,
    /// Parameters that differ from the declared ones.
    pub(in crate::cli) params: ParamValues,
    /// Who proposed it.
    pub(in crate::cli) proposed_by: String,
    /// Its score on the most training queries it ran on.
    pub(in crate::cli) train: Option<Score>,
    /// Of a run: its score on the most validation queries it ran on. Of a bundle: the bundle's
    /// score on the validation queries that the router sends to it.
    pub(in crate::cli) validation: Option<Score>,
    /// Its trial on the most validation queries; of runs only.
    pub(in crate::cli) on_validation: Option<Trial>,
    /// Whether it is in the bundle.
    pub(in crate::cli) frozen: bool,
}

/// All programs of a place.
pub(in crate::cli) struct Sources {
    /// In the order in which they were proposed, or of the bundle's categories. A program is here
    /// once for each set of parameters it ran with.
    pub(in crate::cli) entries: Vec<Entry>,
    /// First trial of every program; of runs only.
    pub(in crate::cli) origins: HashMap<String, Trial>,
    /// Tests of changes in their order; of runs only.
    pub(in crate::cli) decisions: Vec<Decision>,
    /// The bundle, if the place is one or the run has one.
    pub(in crate::cli) bundle: Option<Bundle>,
    /// Name of the dataset, if it is known.
    pub(in crate::cli) dataset: Option<String>,
    /// Digest of the validation queries; of runs only.
    pub(in crate::cli) validation: Option<String>,
    /// The file of the journal; of runs only.
    journal: Option<PathBuf>,
}

/// The short id of a program with its parameters: that of the program and, where parameters differ
/// from the declared ones, [`TUNED`] and four digits of a digest of these.
pub(in crate::cli) fn variant(program: &Program, params: &ParamValues) -> String {
    let id = program.short_id();
    if params.is_empty() {
        return id.to_owned();
    }
    let numbers: Vec<String> =
        params.iter().map(|(name, value)| format!("{name}={:016x}", value.to_bits())).collect();
    let digest = blake3::hash(numbers.join(" ").as_bytes()).to_hex();
    format!("{id}{TUNED}{}", digest.get(..TUNED_DIGITS).unwrap_or_default())
}

impl Place {
    /// The directory of the run, if the place is one.
    pub(in crate::cli) fn run_dir(&self) -> Option<&Path> {
        self.run.as_deref()
    }

    /// Reads the programs.
    ///
    /// # Errors
    /// That the run or the bundle cannot be read.
    pub(in crate::cli) fn read(&self, ctx: &Context) -> Result<Sources> {
        match (&self.run, &self.bundle) {
            (Some(dir), _) => Sources::of_run(&named::run_dir(dir, &ctx.home)?),
            (_, Some(file)) => Ok(of_bundle(&read_bundle(file, ctx)?)),
            (None, None) => Err(anyhow!("give --run RUN or --bundle BUNDLE").into()),
        }
    }
}

fn of_bundle(bundle: &Bundle) -> Sources {
    let entry = |category: &Category| Entry {
        program: category.program.clone(),
        category: category.name.clone(),
        params: category.params.clone(),
        proposed_by: category.proposed_by.clone(),
        train: None,
        validation: category.validation.as_ref().map(|of| Score { n: of.n, mrr: of.mrr }),
        on_validation: None,
        frozen: true,
    };
    Sources {
        entries: bundle.categories.iter().map(entry).collect(),
        origins: HashMap::new(),
        decisions: Vec::new(),
        bundle: Some(bundle.clone()),
        dataset: Some(bundle.dataset.name.clone()),
        validation: None,
        journal: None,
    }
}

/// The result of a step, typed.
fn body<T: DeserializeOwned>(step: StepRecord) -> Result<T> {
    let (n, kind) = (step.n, step.kind);
    serde_json::from_value(step.body).map_err(|error| {
        anyhow!("step {n} of the run is no {kind}: {error}; it is of another version").into()
    })
}

impl Sources {
    /// Reads the programs of a run, finished or not.
    ///
    /// # Errors
    /// That there is no run, or that its journal is damaged.
    pub(in crate::cli) fn of_run(dir: &Path) -> Result<Sources> {
        let journal = Journal::open_read_only(dir)?;
        let programs: HashMap<String, Program> = journal
            .programs()?
            .into_iter()
            .map(|program| (program.id().to_owned(), program))
            .collect();
        // A run that is not finished has no bundle yet.
        let bundle = Bundle::read(&dir.join(BUNDLE_FILE)).ok();
        let frozen = |program: &Program, params: &ParamValues| {
            let mut categories = bundle.iter().flat_map(|bundle| &bundle.categories);
            categories.any(|category| category.program == *program && category.params == *params)
        };
        let text = |of: Option<&serde_json::Value>| Some(of?.as_str()?.to_owned());
        let identity: Option<serde_json::Value> = journal.find(RUN, IDENTITY)?;
        let mut sources = Sources {
            entries: Vec::new(),
            origins: HashMap::new(),
            decisions: Vec::new(),
            bundle: None,
            dataset: text(journal.config().get("dataset")),
            validation: text(identity.as_ref().and_then(|of| of.get("validation"))),
            journal: Some(dir.join(DATABASE_FILE)),
        };
        // Entries by program and parameters.
        let mut places: HashMap<(String, String), usize> = HashMap::new();
        for step in journal.steps()? {
            if step.kind == DECISION {
                sources.decisions.push(body(step)?);
            } else if step.kind == TRIAL {
                let trial: Trial = body(step)?;
                let Some(program) = programs.get(&trial.program) else { continue };
                let key = (trial.program.clone(), format!("{:?}", trial.params));
                let at = *places.entry(key).or_insert_with(|| {
                    sources.entries.push(Entry {
                        program: program.clone(),
                        category: program.category().unwrap_or_default().to_owned(),
                        params: trial.params.clone(),
                        proposed_by: trial.origin.proposed_by.clone(),
                        train: None,
                        validation: None,
                        on_validation: None,
                        frozen: frozen(program, &trial.params),
                    });
                    sources.entries.len() - 1
                });
                let score = Score { n: trial.queries.len(), mrr: trial.mrr() };
                let entry = &mut sources.entries[at];
                let on_train = trial.pool == TRAIN;
                let kept = if on_train { &mut entry.train } else { &mut entry.validation };
                if kept.is_none_or(|kept| kept.n <= score.n) {
                    *kept = Some(score);
                    if !on_train {
                        entry.on_validation = Some(trial.clone());
                    }
                }
                sources.origins.entry(trial.program.clone()).or_insert(trial);
            }
        }
        sources.bundle = bundle;
        Ok(sources)
    }

    /// Where the programs come from.
    pub(in crate::cli) fn origin(&self) -> Origin<'_> {
        match (&self.journal, &self.bundle) {
            (Some(journal), _) => Origin::Run(journal),
            (None, Some(bundle)) => Origin::Bundle(&bundle.digest),
            (None, None) => Origin::Elsewhere,
        }
    }

    /// The category of the bundle that a program answers.
    pub(in crate::cli) fn category(&self, entry: &Entry) -> Option<(&Bundle, usize)> {
        let bundle = self.bundle.as_ref()?;
        let at = bundle.categories.iter().position(|of| of.program == entry.program)?;
        Some((bundle, at))
    }

    /// The program that an id, the beginning of one, the [`variant`] of one, or a category names. Of
    /// one program with
    /// several sets of parameters: the frozen one, else the one accepted last, else the first.
    ///
    /// # Errors
    /// That there is none, or that there are several.
    pub(in crate::cli) fn find(&self, name: &str) -> Result<&Entry> {
        let name_of = |entry: &&Entry| variant(&entry.program, &entry.params);
        if let Some(entry) =
            self.entries.iter().find(|entry| name.contains(TUNED) && name_of(entry) == name)
        {
            return Ok(entry);
        }
        let prefix = name.to_ascii_lowercase();
        let by_id = prefix.len() >= PREFIX_DIGITS && prefix.bytes().all(|b| b.is_ascii_hexdigit());
        let mut found: Vec<&Entry> = Vec::new();
        if by_id {
            found = self.entries.iter().filter(|e| e.program.id().starts_with(&prefix)).collect();
        }
        let category = name.to_lowercase();
        let lower = |entry: &&Entry| entry.category.to_lowercase();
        if found.is_empty() {
            found = self.entries.iter().filter(|entry| lower(entry) == category).collect();
        }
        if found.is_empty() && !category.is_empty() {
            found = self.entries.iter().filter(|entry| lower(entry).contains(&category)).collect();
        }
        // Of the programs of a category the frozen one is meant.
        if !by_id && found.iter().any(|entry| entry.frozen) {
            found.retain(|entry| entry.frozen);
        }
        let Some(&first) = found.first() else {
            return Err(anyhow!("there is no program {name:?}"))
                .hint("`agent program list` shows ids and categories");
        };
        let mut others: Vec<&Entry> = Vec::new();
        for entry in &found {
            if !others.iter().any(|other| other.program == entry.program) {
                others.push(entry);
            }
        }
        if others.len() > 1 {
            let listed = others.iter().take(MAX_LISTED).map(|entry| {
                let category = plain(&entry.category, MAX_SHOWN);
                format!("{} ({category})", entry.program.short_id())
            });
            let listed = listed.collect::<Vec<_>>().join(", ");
            return Err(anyhow!("{} programs are meant by {name:?}", others.len()))
                .hint(format!("give the id of one: {listed}"));
        }
        let accepted = self
            .decisions
            .iter()
            .rev()
            .find(|decision| decision.accepted && decision.to == first.program.id());
        let accepted = accepted
            .and_then(|decision| found.iter().find(|entry| entry.params == decision.params));
        let frozen = found.iter().find(|entry| entry.frozen);
        Ok(frozen.or(accepted).copied().unwrap_or(first))
    }
}

/// The parameters a program declares; none when it does not run.
pub(in crate::cli) fn declared(program: &Program, options: &SandboxOptions) -> Vec<Param> {
    let limits = Limits::default();
    let Ok(workers) = Workers::new(1) else { return Vec::new() };
    let sandbox = ChosenSandbox::new(workers.into(), options);
    let compiled = sandbox.compile(program.code(), &limits);
    compiled.and_then(|compiled| sandbox.declared_params(&compiled, &limits)).unwrap_or_default()
}
