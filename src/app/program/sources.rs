//! Finds programs of a run or a bundle by id or category. Does not depend on how they are shown.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::anyhow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{App, Explain, MAX_SHOWN, Result, named, plain, read_bundle, refused};
use agent_infer::bundle::reading::Phrasing;
use agent_optimize::{
    journal::PREFIX_DIGITS,
    record::programs::{Entry, Sources, TUNED, variant},
};
use agent_sandbox::{
    ChosenSandbox, Limits, Param, Sandbox, SandboxOptions, Workers, program::Program,
};

/// Maximum number of programs that the hint of an error lists.
const MAX_LISTED: usize = 8;

/// The run or bundle that holds the programs.
#[derive(Clone, Debug, Default, Deserialize, ToSchema, clap::Args)]
#[group(required = true, multiple = false)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Use the programs of this run: its directory, its name, or `latest`
    #[arg(long, value_name = "RUN")]
    #[schema(value_type = Option<String>)]
    run: Option<PathBuf>,
    /// Use the programs of this frozen bundle: a file, the directory or name of a run, or `latest`
    #[arg(long, value_name = "BUNDLE")]
    #[schema(value_type = Option<String>)]
    bundle: Option<PathBuf>,
}

impl Place {
    /// Returns the argument that names the run; `None` if a bundle is named.
    pub fn run_dir(&self) -> Option<&Path> {
        self.run.as_deref()
    }

    /// Reads the programs of the run or bundle.
    ///
    /// # Errors
    /// If both or neither of run and bundle are named, or if the named one cannot be read.
    pub fn read(&self, app: &App) -> Result<Sources> {
        let given = self.given()?;
        if self.bundle.is_some() {
            return Ok(Sources::from_bundle(&read_bundle(given, None, app)?));
        }
        Ok(Sources::from_run(&named::run_dir(given, app)?)?)
    }

    /// Returns the only argument that is given.
    fn given(&self) -> Result<&Path> {
        match (&self.run, &self.bundle) {
            (Some(given), None) | (None, Some(given)) => Ok(given),
            _ => refused("give --run RUN or --bundle BUNDLE"),
        }
    }
}

/// A phrasing of plain questions, with the words that distinguish it from other phrasings.
#[derive(Debug, Serialize)]
pub struct PhrasingRecord {
    /// The metapaths from the names to the answers, as text.
    pub metapaths: Vec<String>,
    /// Whether the questions come from the lexicon; otherwise they are training questions.
    pub written: bool,
    /// Number of questions.
    pub questions: u32,
    /// Stems with the number of questions that contain them, the most distinctive first (TF-IDF);
    /// ties in alphabetical order. Stems that all phrasings have are left out.
    pub words: Vec<(String, u32)>,
}

/// Returns the phrasings of plain questions in a bundle, or in the bundle of a run.
///
/// # Errors
/// If both or neither of run and bundle are named, or the bundle cannot be read.
pub fn lexicon(place: &Place, app: &App) -> Result<Vec<PhrasingRecord>> {
    let phrasings = read_bundle(place.given()?, None, app)?.phrasings.unwrap_or_default().0;
    let mut n_with: BTreeMap<&str, usize> = BTreeMap::new();
    for stem in phrasings.iter().flat_map(|phrasing| phrasing.words.keys()) {
        *n_with.entry(stem).or_default() += 1;
    }
    let weight = |(stem, count): &(String, u32)| {
        let n_with = n_with.get(stem.as_str()).copied().unwrap_or(1);
        f64::from(*count) * (phrasings.len() as f64 / n_with as f64).ln()
    };
    let record = |phrasing: &Phrasing| {
        let words = phrasing.words.iter().map(|(stem, &count)| (stem.clone(), count));
        let mut words: Vec<(String, u32)> = words.filter(|word| weight(word) > 0.0).collect();
        words.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        let metapaths = phrasing.metapaths.clone();
        PhrasingRecord { metapaths, written: phrasing.written, questions: phrasing.n, words }
    };
    Ok(phrasings.iter().map(record).collect())
}

/// Finds the program that `name` refers to: its [`variant`], the start of its id, its category, or
/// a part of the category's name. A program may have been tried with several sets of parameters:
/// returns it with the frozen set, or else the set accepted last, or else the first.
///
/// # Errors
/// If no program matches, or several do.
pub fn find<'a>(sources: &'a Sources, name: &str) -> Result<&'a Entry> {
    let name_of = |entry: &&Entry| variant(&entry.program, &entry.params);
    if let Some(entry) =
        sources.entries.iter().find(|entry| name.contains(TUNED) && name_of(entry) == name)
    {
        return Ok(entry);
    }
    let prefix = name.to_ascii_lowercase();
    let by_id = prefix.len() >= PREFIX_DIGITS && prefix.bytes().all(|b| b.is_ascii_hexdigit());
    let that = |fits: &dyn Fn(&Entry) -> bool| -> Vec<&Entry> {
        sources.entries.iter().filter(|entry| fits(entry)).collect()
    };
    let mut found = that(&|entry| by_id && entry.program.id().starts_with(&prefix));
    let category = name.to_lowercase();
    if found.is_empty() {
        found = that(&|entry| entry.category.to_lowercase() == category);
    }
    if found.is_empty() && !category.is_empty() {
        found = that(&|entry| entry.category.to_lowercase().contains(&category));
    }
    // A category's name selects its frozen programs.
    if !by_id && found.iter().any(|entry| entry.frozen) {
        found.retain(|entry| entry.frozen);
    }
    let Some(&first) = found.first() else {
        return Err(anyhow!("there is no program {name:?}"))
            .hint("`agent program list --run latest` shows ids and categories");
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
        return Err(anyhow!("{name:?} matches {} programs", others.len()))
            .hint(format!("give the id of one: {listed}"));
    }
    let accepted = sources
        .decisions
        .iter()
        .rev()
        .find(|decision| decision.accepted && decision.to == first.program.id());
    let accepted =
        accepted.and_then(|decision| found.iter().find(|entry| entry.params == decision.params));
    let frozen = found.iter().find(|entry| entry.frozen);
    Ok(frozen.or(accepted).copied().unwrap_or(first))
}

/// Returns the parameters that a program declares; empty if the program does not compile.
pub fn declared(program: &Program, options: &SandboxOptions) -> Vec<Param> {
    let limits = Limits::default();
    let Ok(workers) = Workers::new(1) else { return Vec::new() };
    let sandbox = ChosenSandbox::new(workers.into(), options);
    let compiled = sandbox.compile(program.code(), &limits);
    compiled.and_then(|compiled| sandbox.declared_params(&compiled, &limits)).unwrap_or_default()
}
