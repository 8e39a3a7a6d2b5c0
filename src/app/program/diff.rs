//! Compares two programs: their source, parameters, answers and cost.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use similar::TextDiff;
use utoipa::ToSchema;

use super::{
    hunks::hunks,
    measure::{Cost, Ground, On, compare, cost, ranks},
    sources::{Place, declared, find},
};
use crate::{App, MAX_SHOWN, Perform, Result, SandboxArgs, dataset, plain, routing::VALIDATION};
use agent_dataset::{LabelledQuery, is_synthetic, load_split};
use agent_infer::ParamValues;
use agent_optimize::{
    record::programs::{Entry, Sources},
    trial::{Pool, Trial},
};
use agent_retrieve::eval::{Comparison, Interval};
use agent_sandbox::{SandboxOptions, program::Program};

/// Number of unchanged lines shown before and after each change in the diff.
const CONTEXT_LINES: usize = 3;
/// Maximum number of changes whose effects are measured; later ones are left out.
const MAX_HUNKS: usize = 50;
/// Maximum number of queries on which programs run; from a larger split, evenly spaced queries are
/// taken.
const MAX_QUERIES: usize = 1_000;

/// Two programs of a run or a bundle, and how to compare them.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// First program: its id, a prefix of at least six hex digits, or a category
    #[arg(value_name = "A")]
    pub from: String,
    /// Second program: its id, a prefix of at least six hex digits, or a category
    #[arg(value_name = "B")]
    pub to: String,
    /// The run or bundle that holds the programs.
    #[command(flatten)]
    pub place: Place,
    /// Run both programs, even if the journal has their results
    #[arg(long)]
    #[serde(default)]
    pub measure: bool,
    /// Measure the effect of each change to the source or parameters, both on its own and on top of
    /// the earlier changes
    #[arg(long)]
    #[serde(default)]
    pub ablate: bool,
    /// Run on these queries
    #[arg(long, value_enum, value_name = "SPLIT", default_value_t)]
    #[serde(default)]
    pub on: On,
    /// Run on all queries of the split, not only those that the router sends to the program
    #[arg(long)]
    #[serde(default)]
    pub all: bool,
    /// Run on this dataset [default: the dataset of the run or bundle]
    #[arg(long, value_name = "N")]
    pub dataset: Option<String>,
    /// Where Rhai programs run: in this process or inside WebAssembly.
    #[command(flatten)]
    #[serde(default)]
    pub sandbox: SandboxArgs,
}

/// The differences between two programs.
#[derive(Serialize)]
pub struct Reply {
    /// Id of the first program.
    pub from: String,
    /// Id of the second program.
    pub to: String,
    /// Unified diff of the two sources; empty if they are equal.
    pub diff: String,
    /// The parameters whose values differ, sorted by name.
    pub params: Vec<Changed>,
    /// Comparison of the programs' answers to labelled queries; absent if the programs were not run
    /// and the journal does not hold the answers of both.
    pub answers: Option<Answers>,
    /// The effect of each change, in the order of lines; empty unless requested.
    pub effects: Vec<Effect>,
}

/// A parameter whose values in the two programs differ.
#[derive(Serialize)]
pub struct Changed {
    /// Name of the parameter.
    pub name: String,
    /// Value in the first program; `null` if that program has no such parameter.
    pub from: Option<f64>,
    /// Value in the second program; `null` if that program has no such parameter.
    pub to: Option<f64>,
}

/// A query that one program answers better than the other.
#[derive(Clone, Serialize)]
pub struct Differs {
    /// Id of the query; absent if the dataset is not installed or has other queries than the run.
    pub id: Option<i64>,
    /// Position of the query, from 0: among the compared queries or, if the ranks come from the
    /// journal, in the split.
    pub at: usize,
    /// Text of the query; absent if `id` is absent.
    pub query: Option<String>,
    /// Reciprocal rank that the first program reaches on the query.
    pub from: f32,
    /// Reciprocal rank that the second program reaches on the query.
    pub to: f32,
}

/// Comparison of the answers of two programs to the same labelled queries.
#[derive(Serialize)]
pub struct Answers {
    /// Split of the queries: `train` or `val`.
    pub on: String,
    /// Whether the ranks come from the journal; if not, the programs were run.
    pub from_journal: bool,
    /// Whether any query is synthetic; false if the queries are unknown.
    pub synthetic: bool,
    /// Reciprocal ranks of the second program minus those of the first.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Queries that the second program answers better, largest differences first.
    pub won: Vec<Differs>,
    /// Queries that the second program answers worse, largest differences first.
    pub lost: Vec<Differs>,
    /// Cost of each program; absent if the ranks come from the journal.
    pub cost: Option<[Cost; 2]>,
}

/// Effect of a change on the reciprocal ranks of a program.
#[derive(Serialize)]
pub struct Gain {
    /// Mean reciprocal rank with the change minus that without it.
    pub difference: f64,
    /// The 95 % interval of `difference`.
    pub ci95: Interval,
    /// The p-value of `difference`.
    pub p: f64,
}

/// Effect of one change to the source, or of all changes to the parameters together.
#[derive(Default, Serialize)]
pub struct Effect {
    /// Line of the change in the first source, from 1; absent for the parameters.
    pub line: Option<usize>,
    /// The removed lines, each after `-`, then the added lines, each after `+`.
    pub change: String,
    /// Gain of the first program with only this change over the first program itself; absent if the
    /// changed program does not run.
    pub alone: Option<Gain>,
    /// Gain of the first program with this and all earlier changes over the last earlier version
    /// that runs; absent if the program does not run with this change.
    pub after_others: Option<Gain>,
    /// Lines of earlier changes whose effect is part of `after_others`: with them, the program did
    /// not run until this change was added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<usize>,
    /// Why `alone` is absent.
    pub failure: Option<String>,
}

impl Effect {
    /// Sets `alone`, the gain from the ranks `before` to those of the program with only this
    /// change, or why that program does not run.
    fn measure_alone(&mut self, before: &[f32], changed: Result<Vec<f32>, String>) -> Result<()> {
        match changed {
            Ok(ranks) => self.alone = Some(gain(before, &ranks)?),
            Err(failure) => self.failure = Some(failure),
        }
        Ok(())
    }
}

impl Perform for Request {
    const NAME: &'static str = "program_diff";
    const SUMMARY: &'static str = "Compare two programs: source, parameters and answers";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        let sources = self.place.read(app)?;
        let (from, to) = (find(&sources, &self.from)?, find(&sources, &self.to)?);
        let options = self.sandbox.places(app)?.of(sources.origin());
        let name = |entry: &Entry| {
            format!("{} {}", entry.program.short_id(), plain(&entry.category, MAX_SHOWN))
        };
        let (before, after) = (from.program.listing(), to.program.listing());
        let diff = TextDiff::from_lines(before.as_ref(), after.as_ref());
        let diff = diff
            .unified_diff()
            .context_radius(CONTEXT_LINES)
            .header(&name(from), &name(to))
            .to_string();
        let params = changed(&parameters(from, &options), &parameters(to, &options));
        let (answers, effects) = answers(self, &sources, from, to, &options, app)?;
        let (from, to) = (from.program.id().to_owned(), to.program.id().to_owned());
        Ok(Reply { from, to, diff, params, answers, effects })
    }
}

/// Compares the answers of the programs `from` and `to`, from the journal or by running both, and
/// measures the effects of the changes if requested.
fn answers(
    request: &Request,
    sources: &Sources,
    from: &Entry,
    to: &Entry,
    options: &SandboxOptions,
    app: &App,
) -> Result<(Option<Answers>, Vec<Effect>)> {
    let known = from.on_validation.as_ref().zip(to.on_validation.as_ref());
    let known = known.filter(|(a, b)| a.queries == b.queries && !a.queries.is_empty());
    let made_for = sources.dataset.as_deref().unwrap_or_default();
    if let Some((a, b)) =
        known.filter(|_| !request.measure && !request.ablate && request.on == On::Val)
    {
        let name = request.dataset.as_deref().unwrap_or(made_for);
        return Ok((Some(of_journal(a, b, &queries_of(name, sources, app))?), Vec::new()));
    }
    // Programs run only on request, since running them may be impossible.
    if !request.measure && !request.ablate && request.dataset.is_none() {
        app.watch.notice(
            "the journal has no results of both programs on the same queries; --measure runs them",
        );
        return Ok((None, Vec::new()));
    }
    let found = dataset::chosen(request.dataset.as_deref(), made_for, app)?;
    let mut ground = Ground::open(&found, request.on, MAX_QUERIES, options, app)?;
    let category = sources.category(to).or_else(|| sources.category(from));
    if let Some((bundle, category)) = category.filter(|_| !request.all) {
        ground.keep_routed(bundle, category, app);
    }
    let before = ground.answers(&from.program, &from.params, false, app)?;
    let after = ground.answers(&to.program, &to.params, false, app)?;
    let (ranks_before, ranks_after) = (ranks(&before), ranks(&after));
    let (won, lost) = differing(&ranks_before, &ranks_after, None, Some(&ground.queries));
    let answers = Answers {
        on: request.on.to_string(),
        from_journal: false,
        synthetic: is_synthetic(&ground.queries),
        comparison: compare(&ranks_before, &ranks_after)?,
        won,
        lost,
        cost: Some([cost(&before), cost(&after)]),
    };
    let effects = match request.ablate {
        true => effects(&ground, from, to, &ranks_before, app)?,
        false => Vec::new(),
    };
    Ok((Some(answers), effects))
}

/// Returns the validation queries of the dataset `name`, in the order of the split; `None` if it is
/// not installed or has other validation queries than the run.
fn queries_of(name: &str, sources: &Sources, app: &App) -> Option<Vec<LabelledQuery>> {
    let base = app.home.get(name).ok()?;
    let pool = Pool::new(VALIDATION, load_split(&base, &On::Val.split()).ok()?);
    let same = sources.validation.as_deref() == Some(pool.digest.as_str());
    same.then_some(pool.queries)
}

fn of_journal(from: &Trial, to: &Trial, queries: &Option<Vec<LabelledQuery>>) -> Result<Answers> {
    let (before, after) = (&from.reciprocal_ranks, &to.reciprocal_ranks);
    let (won, lost) = differing(before, after, Some(&from.queries), queries.as_deref());
    let comparison = compare(before, after)?;
    let on = On::Val.to_string();
    let synthetic = queries.as_deref().is_some_and(is_synthetic);
    Ok(Answers { on, from_journal: true, synthetic, comparison, won, lost, cost: None })
}

/// Returns the queries that the second program answers better, then those that it answers worse,
/// each with the largest differences first, equal ones by position. `from` and `to` are reciprocal
/// ranks by query. `places` holds the positions of these queries in the split; `None` means 0, 1, 2
/// and so on.
fn differing(
    from: &[f32],
    to: &[f32],
    places: Option<&[usize]>,
    queries: Option<&[LabelledQuery]>,
) -> (Vec<Differs>, Vec<Differs>) {
    let differs = |(at, (&from, &to)): (usize, (&f32, &f32))| {
        let at = places.and_then(|places| places.get(at).copied()).unwrap_or(at);
        let query = queries.and_then(|queries| queries.get(at));
        Differs { id: query.map(|q| q.id), at, query: query.map(|q| q.text.clone()), from, to }
    };
    let all: Vec<Differs> =
        from.iter().zip(to).enumerate().map(differs).filter(|one| one.from != one.to).collect();
    let (mut won, mut lost): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.to > one.from);
    let by = |one: &Differs| one.to - one.from;
    won.sort_by(|a, b| by(b).total_cmp(&by(a)).then(a.at.cmp(&b.at)));
    lost.sort_by(|a, b| by(a).total_cmp(&by(b)).then(a.at.cmp(&b.at)));
    (won, lost)
}

/// Measures the first program with each change alone, and with each change together with all
/// earlier ones. The change of parameters comes last. `before` holds the reciprocal ranks of the
/// unchanged program.
fn effects(
    ground: &Ground,
    from: &Entry,
    to: &Entry,
    before: &[f32],
    app: &App,
) -> Result<Vec<Effect>> {
    let all = hunks(from.program.source(), to.program.source());
    if all.len() > MAX_HUNKS {
        let n = all.len();
        app.watch.warning(&format!("only the first {MAX_HUNKS} of {n} changes are measured"));
    }
    let mut effects = Vec::new();
    let mut so_far = before.to_vec();
    // Lines of changes after which the program did not run.
    let mut waiting: Vec<usize> = Vec::new();
    for hunk in all.iter().take(MAX_HUNKS) {
        let (line, change) = (Some(hunk.line), hunk.text.clone());
        let mut effect = Effect { line, change, ..Effect::default() };
        if hunk.comments {
            effect.failure = Some("changes comments only".to_owned());
        } else {
            let alone = changed_ranks(ground, &Program::new(&hunk.alone), &from.params, app)?;
            effect.measure_alone(before, alone)?;
            match changed_ranks(ground, &Program::new(&hunk.so_far), &from.params, app)? {
                Ok(ranks) => {
                    effect.after_others = Some(gain(&so_far, &ranks)?);
                    effect.together = std::mem::take(&mut waiting);
                    so_far = ranks;
                }
                Err(_) => waiting.push(hunk.line),
            }
        }
        effects.push(effect);
    }
    if from.params != to.params {
        let mut effect = Effect { change: "parameters\n".to_owned(), ..Effect::default() };
        effect.measure_alone(before, changed_ranks(ground, &from.program, &to.params, app)?)?;
        let whole = changed_ranks(ground, &to.program, &to.params, app)?;
        effect.after_others = whole.ok().map(|ranks| gain(&so_far, &ranks)).transpose()?;
        effect.together = waiting;
        effects.push(effect);
    }
    Ok(effects)
}

/// Returns the reciprocal ranks of a changed program by query, or why the program does not run.
fn changed_ranks(
    ground: &Ground,
    program: &Program,
    params: &ParamValues,
    app: &App,
) -> Result<Result<Vec<f32>, String>> {
    let declared = match ground.declared(program) {
        Ok(declared) => declared,
        Err(failure) => return Ok(Err(failure)),
    };
    // Omit parameters that only another change declares.
    let known = |name: &String, value: f64| {
        declared.iter().any(|of| of.name == *name && (of.min..=of.max).contains(&value))
    };
    let mut params = params.clone();
    params.retain(|name, value| known(name, *value));
    let answers = ground.answers(program, &params, true, app)?;
    if cost(&answers).failed == answers.len() {
        return Ok(Err("without the other changes, the program fails on every query".to_owned()));
    }
    Ok(Ok(ranks(&answers)))
}

fn gain(before: &[f32], after: &[f32]) -> Result<Gain> {
    let Comparison { difference, ci95, p, .. } = compare(before, after)?;
    Ok(Gain { difference, ci95, p })
}

/// Returns the values of all parameters of a program: its own, or else the declared defaults.
fn parameters(entry: &Entry, options: &SandboxOptions) -> BTreeMap<String, f64> {
    let declared = declared(&entry.program, options).into_iter();
    let declared = declared.map(|param| (param.name, param.value));
    let mut parameters: BTreeMap<String, f64> = declared.collect();
    parameters.extend(entry.params.clone());
    parameters
}

/// Returns the parameters whose values differ, sorted by name.
fn changed(from: &BTreeMap<String, f64>, to: &BTreeMap<String, f64>) -> Vec<Changed> {
    let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    let changed = |name: &String| {
        let (from, to) = (from.get(name).copied(), to.get(name).copied());
        (from != to).then(|| Changed { name: name.clone(), from, to })
    };
    names.into_iter().filter_map(changed).collect()
}
