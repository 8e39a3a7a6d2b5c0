//! Reads the programs of a run's journal or of a bundle into a common form.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    BUNDLE_FILE, Decision,
    journal::{DATABASE_FILE, Journal, JournalError, StepRecord},
    record::DECISION,
    trial::{TRIAL, Trial},
};
use agent_infer::{
    ParamValues,
    bundle::{Bundle, Category},
};
use agent_sandbox::{Origin, program::Program};

/// Name of the pool of training queries in trials.
const TRAIN: &str = "train";
/// Character between the id of a program and the id of its parameters.
pub const TUNED: char = '~';
/// Number of hexadecimal digits of the id of a program's parameters.
const TUNED_DIGITS: usize = 4;

/// The mean reciprocal rank of a program, with the number of queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Number of queries over which the score is averaged.
    pub n: usize,
    /// Mean reciprocal rank of the program on these queries.
    pub mrr: f64,
}

/// A program with one set of parameters, and its scores.
pub struct Entry {
    /// The program itself.
    pub program: Program,
    /// Name of the category; empty if the program does not name one.
    pub category: String,
    /// The program's parameters that differ from the declared values.
    pub params: ParamValues,
    /// Name of the proposer of the program.
    pub proposed_by: String,
    /// The program's score in the trial with the most training queries; only in runs.
    pub train: Option<Score>,
    /// In a run: the program's score in the trial with the most validation queries. In a bundle:
    /// the bundle's score on the validation queries that the router sends to the category.
    pub validation: Option<Score>,
    /// The trial of the program with the most validation queries; only in runs.
    pub on_validation: Option<Trial>,
    /// Whether the program, with these parameters, is in the bundle.
    pub frozen: bool,
}

/// All programs of a run or of a bundle, with their origins.
#[derive(Default)]
pub struct Sources {
    /// In a run: one entry per program and set of parameters, in the order of first trials. In a
    /// bundle: one entry per category, in the bundle's order.
    pub entries: Vec<Entry>,
    /// First trial of each program, by the program's id; only in runs.
    pub origins: HashMap<String, Trial>,
    /// Decisions on tested changes, in order of commit; only in runs.
    pub decisions: Vec<Decision>,
    /// The bundle, if there is one.
    pub bundle: Option<Bundle>,
    /// Name of the dataset, if known.
    pub dataset: Option<String>,
    /// Digest of the validation queries; only in runs.
    pub validation: Option<String>,
    /// Path of the journal; only in runs.
    journal: Option<PathBuf>,
}

/// Returns the short id of a program with its parameters: the program's short id and, if parameters
/// differ from the declared values, [`TUNED`] and four hexadecimal digits of their digest.
pub fn variant(program: &Program, params: &ParamValues) -> String {
    let id = program.short_id();
    if params.is_empty() {
        return id.to_owned();
    }
    let numbers: Vec<String> =
        params.iter().map(|(name, value)| format!("{name}={:016x}", value.to_bits())).collect();
    let digest = blake3::hash(numbers.join(" ").as_bytes()).to_hex();
    format!("{id}{TUNED}{}", digest.get(..TUNED_DIGITS).unwrap_or_default())
}

/// Decodes the result of a journal step.
fn body<T: DeserializeOwned>(step: StepRecord) -> Result<T, JournalError> {
    let StepRecord { kind, key, body, .. } = step;
    serde_json::from_value(body).map_err(|source| JournalError::Decode { kind, key, source })
}

impl Sources {
    /// Lists the programs of a bundle.
    pub fn from_bundle(bundle: &Bundle) -> Sources {
        let entry = |category: &Category| Entry {
            program: category.program.clone(),
            category: category.name.clone(),
            params: category.params.clone(),
            proposed_by: category.proposed_by.clone(),
            train: None,
            validation: category.validation.as_ref().map(|s| Score { n: s.n, mrr: s.mrr }),
            on_validation: None,
            frozen: true,
        };
        Sources {
            entries: bundle.categories.iter().map(entry).collect(),
            bundle: Some(bundle.clone()),
            dataset: Some(bundle.dataset.name.clone()),
            ..Sources::default()
        }
    }

    /// Reads the programs of a run, finished or not.
    ///
    /// # Errors
    /// If the directory has no run, or the run's journal is damaged.
    pub fn from_run(dir: &Path) -> Result<Sources, JournalError> {
        let journal = Journal::open_read_only(dir)?;
        let programs = journal.programs()?.into_iter();
        let programs: HashMap<String, Program> =
            programs.map(|program| (program.id().to_owned(), program)).collect();
        // A run that is not finished has no bundle yet.
        let bundle = Bundle::read(&dir.join(BUNDLE_FILE)).ok();
        let frozen = |program: &Program, params: &ParamValues| {
            let mut categories = bundle.iter().flat_map(|bundle| &bundle.categories);
            categories.any(|category| category.program == *program && category.params == *params)
        };
        let text = |value: Option<&Value>| Some(value?.as_str()?.to_owned());
        let identity: Option<Value> = journal.find("run", "identity")?;
        let mut sources = Sources {
            dataset: text(journal.config().get("dataset")),
            validation: text(identity.as_ref().and_then(|identity| identity.get("validation"))),
            journal: Some(dir.join(DATABASE_FILE)),
            ..Sources::default()
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

    /// Returns where the programs come from: a run, a bundle or elsewhere.
    pub fn origin(&self) -> Origin<'_> {
        match (&self.journal, &self.bundle) {
            (Some(journal), _) => Origin::Run(journal),
            (None, Some(bundle)) => Origin::Bundle(&bundle.digest),
            (None, None) => Origin::Elsewhere,
        }
    }

    /// Returns the bundle, and the index of the bundle's category that has the program of `entry`;
    /// `None` if no category has it or there is no bundle.
    pub fn category(&self, entry: &Entry) -> Option<(&Bundle, usize)> {
        let bundle = self.bundle.as_ref()?;
        let mut categories = bundle.categories.iter();
        Some((bundle, categories.position(|category| category.program == entry.program)?))
    }
}
