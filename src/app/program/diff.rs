//! Compares two programs: source, parameters, answers and cost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use similar::TextDiff;
use utoipa::ToSchema;

use crate::{
    App, Result, dataset,
    operation::Perform,
    program::{
        hunks::hunks,
        measure::{Cost, Ground, On, compare, cost, ranks},
        sources::{Place, declared, find},
    },
    systems::SandboxArgs,
    text::{MAX_SHOWN, plain},
};
use agent_dataset::{LabelledQuery, is_synthetic, load_split};
use agent_infer::ParamValues;
use agent_optimize::{
    record::programs::{Entry, Sources},
    trial::{Pool, Trial},
};
use agent_retrieve::eval::{Comparison, Interval};
use agent_sandbox::{SandboxOptions, program::Program};

/// Lines around a change.
const CONTEXT_LINES: usize = 3;
/// Changes whose effects are measured, the first ones.
const MAX_HUNKS: usize = 50;
/// Maximum number of queries that programs run on, taken evenly from a larger split.
const MAX_QUERIES: usize = 1_000;

/// Two programs of a run or a bundle.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// At least six digits of the first one's id, or its category
    #[arg(value_name = "A")]
    pub from: String,
    /// At least six digits of the second one's id, or its category
    #[arg(value_name = "B")]
    pub to: String,
    /// Where programs are: a run or a bundle.
    #[command(flatten)]
    #[schema(inline)]
    pub place: Place,
    /// Run both programs, also if the journal knows how they answer
    #[arg(long)]
    #[serde(default)]
    pub measure: bool,
    /// Tell the effect of each change of the source and of the parameters, made alone and one after
    /// another
    #[arg(long)]
    #[serde(default)]
    pub ablate: bool,
    /// Run on these queries
    #[arg(long, value_enum, value_name = "SPLIT", default_value_t = On::Val)]
    #[serde(default = "validation")]
    #[schema(inline)]
    pub on: On,
    /// Run on all queries of the split, not only on those that the router sends to the program
    #[arg(long)]
    #[serde(default)]
    pub all: bool,
    /// Run on this dataset [default: the one of the run or bundle]
    #[arg(long, value_name = "N")]
    #[serde(default)]
    pub dataset: Option<String>,
    /// Where programs run.
    #[command(flatten)]
    #[serde(default)]
    #[schema(inline)]
    pub sandbox: SandboxArgs,
}

fn validation() -> On {
    On::Val
}

/// The differences of two programs.
#[derive(Serialize)]
pub struct Reply {
    /// Id of the first.
    pub from: String,
    /// Id of the second.
    pub to: String,
    /// A unified diff of their sources; empty if they are equal.
    pub diff: String,
    /// The parameters that differ, by name.
    pub params: Vec<Changed>,
    /// Their answers on labelled queries; none where they are not known and were not asked for.
    pub answers: Option<Answers>,
    /// The effect of each change, where it was asked for.
    pub effects: Vec<Effect>,
}

/// A parameter that differs.
#[derive(Serialize)]
pub struct Changed {
    /// Its name.
    pub name: String,
    /// `null` where the program has no such number.
    pub from: Option<f64>,
    /// As `from`.
    pub to: Option<f64>,
}

/// A query that one program answers better.
#[derive(Clone, Serialize)]
pub struct Differs {
    /// Its id; none if the dataset is not there.
    pub id: Option<i64>,
    /// Its place in the split.
    pub at: usize,
    /// Its text; none if the dataset is not there.
    pub query: Option<String>,
    /// Reciprocal rank with the first program.
    pub from: f32,
    /// With the second.
    pub to: f32,
}

/// How the two answer.
#[derive(Serialize)]
pub struct Answers {
    /// `train` or `val`.
    pub on: String,
    /// Whether the ranks are those of the journal.
    pub from_journal: bool,
    /// Whether the queries were made, not labelled.
    pub synthetic: bool,
    /// The second against the first, in reciprocal ranks.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Largest differences first.
    pub won: Vec<Differs>,
    /// As `won`, of queries that the second answers worse.
    pub lost: Vec<Differs>,
    /// What each costs; none from the journal.
    pub cost: Option<[Cost; 2]>,
}

/// What a change does, in reciprocal ranks.
#[derive(Serialize)]
pub struct Gain {
    /// Mean difference of reciprocal ranks.
    pub difference: f64,
    /// Its 95 % interval.
    pub ci95: Interval,
    /// Probability of such a difference by chance.
    pub p: f64,
}

/// One change of the source, or that of the parameters.
#[derive(Default, Serialize)]
pub struct Effect {
    /// Line of the first source; none for the parameters.
    pub line: Option<usize>,
    /// Lines taken away, with `-`, and those put there, with `+`.
    pub change: String,
    /// Of the first program with this change against the first program; none if it does not run.
    pub alone: Option<Gain>,
    /// Of the program with this change and all before it against that without this one.
    pub after_others: Option<Gain>,
    /// Lines of earlier changes whose effect `after_others` holds as well: with them and without
    /// this one the program does not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<usize>,
    /// Why there is no number.
    pub failure: Option<String>,
}

impl Perform for Request {
    const NAME: &'static str = "program_diff";
    const SUMMARY: &'static str = "Compare two programs: source, parameters, and how they answer";
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

/// How the programs answer, from the journal or by running them, and the effects of the changes.
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
    // Nobody asked for a run, and it may not be possible.
    if !request.measure && !request.ablate && request.dataset.is_none() {
        app.watch.notice(
            "the journal does not know how both answer the same queries: --measure runs them",
        );
        return Ok((None, Vec::new()));
    }
    let found = dataset::chosen(request.dataset.as_deref(), made_for, app)?;
    let mut ground = Ground::open(&found, request.on, MAX_QUERIES, options, app)?;
    let category = sources.category(to).or_else(|| sources.category(from));
    if let Some((bundle, category)) = category.filter(|_| !request.all) {
        ground.keep_routed(bundle, category, app);
    }
    let before = ground.answers(&from.program, &from.params, app)?;
    let after = ground.answers(&to.program, &to.params, app)?;
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

/// The validation queries by place, if the dataset is there and has those of the run.
fn queries_of(name: &str, sources: &Sources, app: &App) -> Option<Vec<LabelledQuery>> {
    let base = app.home.get(name).ok()?;
    let pool = Pool::new("validation", load_split(&base, &On::Val.split()).ok()?);
    let same = sources.validation.as_deref() == Some(pool.digest());
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

/// The queries that the second answers better, and those it answers worse; `places` are those of
/// the queries in the split, if not all in order.
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

/// The first program with each change alone, and with one after another. The change of the
/// parameters comes last.
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
        app.watch.warning(&format!("of {n} changes the first {MAX_HUNKS} are measured"));
    }
    let mut effects = Vec::new();
    let mut so_far = before.to_vec();
    // Changes after which the program did not run.
    let mut waiting: Vec<usize> = Vec::new();
    for hunk in all.iter().take(MAX_HUNKS) {
        let (line, change) = (Some(hunk.line), hunk.text.clone());
        let mut effect = Effect { line, change, ..Effect::default() };
        if hunk.comments {
            effect.failure = Some("changes comments only".to_owned());
        } else {
            match changed_ranks(ground, &Program::new(&hunk.alone), &from.params, app)? {
                Ok(ranks) => effect.alone = Some(gain(before, &ranks)?),
                Err(failure) => effect.failure = Some(failure),
            }
            let next = changed_ranks(ground, &Program::new(&hunk.so_far), &from.params, app)?;
            match next {
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
        match changed_ranks(ground, &from.program, &to.params, app)? {
            Ok(ranks) => effect.alone = Some(gain(before, &ranks)?),
            Err(failure) => effect.failure = Some(failure),
        }
        let whole = changed_ranks(ground, &to.program, &to.params, app)?;
        effect.after_others = whole.ok().map(|ranks| gain(&so_far, &ranks)).transpose()?;
        effect.together = waiting;
        effects.push(effect);
    }
    Ok(effects)
}

/// The ranks of a changed program, or why it has none.
fn changed_ranks(
    ground: &Ground,
    program: &Program,
    params: &ParamValues,
    app: &App,
) -> Result<std::result::Result<Vec<f32>, String>> {
    let declared = match ground.declared(program) {
        Ok(declared) => declared,
        Err(failure) => return Ok(Err(failure)),
    };
    // A number that only another change declares cannot be given.
    let known = |name: &String, value: f64| {
        declared.iter().any(|of| of.name == *name && (of.min..=of.max).contains(&value))
    };
    let mut params = params.clone();
    params.retain(|name, value| known(name, *value));
    let answers = ground.cached_answers(program, &params, app)?;
    if cost(&answers).failed == answers.len() {
        return Ok(Err("fails on every query without the other changes".to_owned()));
    }
    Ok(Ok(ranks(&answers)))
}

fn gain(before: &[f32], after: &[f32]) -> Result<Gain> {
    let Comparison { difference, ci95, p, .. } = compare(before, after)?;
    Ok(Gain { difference, ci95, p })
}

/// The parameters a program runs with.
fn parameters(entry: &Entry, options: &SandboxOptions) -> BTreeMap<String, f64> {
    let declared = declared(&entry.program, options).into_iter();
    let declared = declared.map(|param| (param.name, param.value));
    let mut parameters: BTreeMap<String, f64> = declared.collect();
    parameters.extend(entry.params.clone());
    parameters
}

/// Parameters that differ, by name.
fn changed(from: &BTreeMap<String, f64>, to: &BTreeMap<String, f64>) -> Vec<Changed> {
    let gone = from.keys().filter(|name| !to.contains_key(*name));
    let mut names: Vec<&String> = gone.chain(to.keys()).collect();
    names.sort_unstable();
    let names = names.into_iter().filter(|name| from.get(*name) != to.get(*name));
    names
        .map(|name| Changed {
            name: name.clone(),
            from: from.get(name).copied(),
            to: to.get(name).copied(),
        })
        .collect()
}
