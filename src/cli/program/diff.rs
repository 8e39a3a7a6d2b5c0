//! `agent program diff`: what differs between two programs, in source, parameters, answers and
//! cost.

use std::{collections::BTreeMap, fmt::Write};

use serde::Serialize;
use similar::TextDiff;

use crate::{
    Context, Exit,
    eval::percent,
    printer::{p_value, plain},
    program::{
        hunks::hunks,
        measure::{Cost, Ground, On, compare, cost, ranks},
        sources::{Entry, Place, Sources, declared, find},
    },
};
use agent_app::{dataset, error::Result, systems::SandboxArgs, text::MAX_SHOWN};
use agent_dataset::{LabelledQuery, is_synthetic, load_split};
use agent_infer::ParamValues;
use agent_optimize::trial::{Pool, Trial};
use agent_retrieve::eval::{Comparison, Interval};
use agent_sandbox::{SandboxOptions, program::Program};

/// Lines around a change.
const CONTEXT_LINES: usize = 3;
/// Changes whose effects are measured, the first ones.
const MAX_HUNKS: usize = 50;
/// Queries that programs are run on; of a larger split so many are taken, spread evenly.
const MAX_QUERIES: usize = 1_000;
/// Queries won and lost that a table lists, each; JSON lists all.
const MAX_LISTED: usize = 10;

/// Compare two programs: source, parameters, and how they answer
///
/// Prints a unified diff of the sources, then the parameters that differ, then queries that the
/// second answers better and worse with the paired difference of the mean reciprocal ranks, its 95
/// % interval and p. Validation results come from the run's journal if it has them for both;
/// otherwise, and with --measure, the programs are run on the dataset, which tells their cost too;
/// if one is in the bundle, on the queries that the router sends there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// At least six digits of the first one's id, or its category
    #[arg(value_name = "A")]
    from: String,
    /// At least six digits of the second one's id, or its category
    #[arg(value_name = "B")]
    to: String,
    #[command(flatten)]
    place: Place,
    /// Run both programs, also if the journal knows how they answer
    #[arg(long)]
    measure: bool,
    /// Tell the effect of each change of the source and of the parameters, made alone and one after
    /// another
    #[arg(long)]
    ablate: bool,
    /// Run on these queries
    #[arg(long, value_enum, value_name = "SPLIT", default_value_t = On::Val)]
    on: On,
    /// Run on all queries of the split, not only on those that the router sends to the program
    #[arg(long)]
    all: bool,
    /// Run on this dataset [default: the one of the run or bundle]
    #[arg(long, value_name = "N")]
    dataset: Option<String>,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Changed {
    name: String,
    /// `null` where the program has no such number.
    from: Option<f64>,
    /// As `from`.
    to: Option<f64>,
}

/// A query that one program answers better.
#[derive(Clone, Serialize)]
struct Differs {
    /// Its id; none if the dataset is not there.
    id: Option<i64>,
    /// Its place in the split.
    at: usize,
    query: Option<String>,
    /// Reciprocal rank with the first program.
    from: f32,
    /// With the second.
    to: f32,
}

/// How the two answer.
#[derive(Serialize)]
struct Answers {
    /// `train` or `val`.
    on: String,
    /// Whether the parameters are the journal's.
    from_journal: bool,
    /// Whether the queries were made, not labelled.
    synthetic: bool,
    #[serde(flatten)]
    comparison: Comparison,
    /// Largest differences first.
    won: Vec<Differs>,
    lost: Vec<Differs>,
    cost: Option<[Cost; 2]>,
}

/// What a change does, in reciprocal ranks.
#[derive(Serialize)]
struct Gain {
    difference: f64,
    ci95: Interval,
    p: f64,
}

/// One change of the source, or that of the parameters.
#[derive(Default, Serialize)]
struct Effect {
    /// Line of the first source; none for the parameters.
    line: Option<usize>,
    change: String,
    /// Of the first program with this change against the first program; none if it does not run.
    alone: Option<Gain>,
    /// Of the program with this change and all before it against that without this one.
    after_others: Option<Gain>,
    /// Lines of earlier changes whose effect `after_others` holds as well: with them and without
    /// this one the program does not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    together: Vec<usize>,
    /// Why there is no number.
    failure: Option<String>,
}

#[derive(Serialize)]
struct Printed<'a> {
    from: &'a str,
    to: &'a str,
    diff: &'a str,
    params: &'a [Changed],
    answers: &'a Option<Answers>,
    effects: &'a [Effect],
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let sources = args.place.read(ctx)?;
    let (from, to) = (find(&sources, &args.from)?, find(&sources, &args.to)?);
    let options = args.sandbox.places(ctx)?.of(sources.origin());
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
    let (answers, effects) = answers(args, &sources, from, to, &options, ctx)?;
    if args.json {
        let (from, to) = (from.program.id(), to.program.id());
        let (diff, params) = (diff.as_str(), params.as_slice());
        let (answers, effects) = (&answers, effects.as_slice());
        ctx.printer.json(&Printed { from, to, diff, params, answers, effects })?;
        return Ok(Exit::Done);
    }
    let mut text = diff;
    if !params.is_empty() {
        let _ = writeln!(text, "{}parameters:", if text.is_empty() { "" } else { "\n" });
    }
    for Changed { name, from, to } in &params {
        let shown = |value: &Option<f64>| value.map_or("none".to_owned(), |v| v.to_string());
        let name = plain(name, MAX_SHOWN);
        let _ = writeln!(text, "  {name}: {} -> {}", shown(from), shown(to));
    }
    if text.is_empty() {
        ctx.printer.notice("the programs and their parameters are equal");
    }
    if let Some(answers) = &answers {
        tell_answers(answers, &mut text);
    }
    tell_effects(&effects, &mut text);
    ctx.printer.data(&text)?;
    Ok(Exit::Done)
}

/// How the programs answer, from the journal or by running them, and the effects of the changes.
fn answers(
    args: &Args,
    sources: &Sources,
    from: &Entry,
    to: &Entry,
    options: &SandboxOptions,
    ctx: &Context,
) -> Result<(Option<Answers>, Vec<Effect>)> {
    let known = from.on_validation.as_ref().zip(to.on_validation.as_ref());
    let known = known.filter(|(a, b)| a.queries == b.queries && !a.queries.is_empty());
    let made_for = sources.dataset.as_deref().unwrap_or_default();
    if let Some((a, b)) = known.filter(|_| !args.measure && !args.ablate && args.on == On::Val) {
        return Ok((
            Some(of_journal(
                a,
                b,
                &queries_of(args.dataset.as_deref().unwrap_or(made_for), sources, ctx),
            )?),
            Vec::new(),
        ));
    }
    // Nobody asked for a run, and it may not be possible.
    if !args.measure && !args.ablate && args.dataset.is_none() {
        ctx.printer.notice(
            "the journal does not know how both answer the same queries: --measure runs them",
        );
        return Ok((None, Vec::new()));
    }
    let found = dataset::chosen(args.dataset.as_deref(), made_for, ctx)?;
    let mut ground = Ground::open(&found, args.on, MAX_QUERIES, options, ctx)?;
    let category = sources.category(to).or_else(|| sources.category(from));
    if let Some((bundle, category)) = category.filter(|_| !args.all) {
        ground.keep_routed(bundle, category, ctx);
    }
    let before = ground.answers(&from.program, &from.params, ctx)?;
    let after = ground.answers(&to.program, &to.params, ctx)?;
    let (ranks_before, ranks_after) = (ranks(&before), ranks(&after));
    let (won, lost) = differing(&ranks_before, &ranks_after, None, Some(&ground.queries));
    let answers = Answers {
        on: args.on.to_string(),
        from_journal: false,
        synthetic: is_synthetic(&ground.queries),
        comparison: compare(&ranks_before, &ranks_after)?,
        won,
        lost,
        cost: Some([cost(&before), cost(&after)]),
    };
    let effects = match args.ablate {
        true => effects(&ground, from, to, &ranks_before, ctx)?,
        false => Vec::new(),
    };
    Ok((Some(answers), effects))
}

/// The validation queries by place, if the dataset is there and has those of the run.
fn queries_of(name: &str, sources: &Sources, ctx: &Context) -> Option<Vec<LabelledQuery>> {
    let base = ctx.home.get(name).ok()?;
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
    ctx: &Context,
) -> Result<Vec<Effect>> {
    let all = hunks(from.program.source(), to.program.source());
    if all.len() > MAX_HUNKS {
        let n = all.len();
        ctx.printer.warning(&format!("of {n} changes the first {MAX_HUNKS} are measured"));
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
            match changed_ranks(ground, &Program::new(&hunk.alone), &from.params, ctx)? {
                Ok(ranks) => effect.alone = Some(gain(before, &ranks)?),
                Err(failure) => effect.failure = Some(failure),
            }
            let next = changed_ranks(ground, &Program::new(&hunk.so_far), &from.params, ctx)?;
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
        match changed_ranks(ground, &from.program, &to.params, ctx)? {
            Ok(ranks) => effect.alone = Some(gain(before, &ranks)?),
            Err(failure) => effect.failure = Some(failure),
        }
        let whole = changed_ranks(ground, &to.program, &to.params, ctx)?;
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
    ctx: &Context,
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
    let answers = ground.cached_answers(program, &params, ctx)?;
    if cost(&answers).failed == answers.len() {
        return Ok(Err("fails on every query without the other changes".to_owned()));
    }
    Ok(Ok(ranks(&answers)))
}

fn gain(before: &[f32], after: &[f32]) -> Result<Gain> {
    let Comparison { difference, ci95, p, .. } = compare(before, after)?;
    Ok(Gain { difference, ci95, p })
}

fn tell_answers(answers: &Answers, text: &mut String) {
    let Answers { on, comparison, .. } = answers;
    let origin = if answers.from_journal { ", from the journal" } else { "" };
    let synthetic = if answers.synthetic { "synthetic " } else { "" };
    let _ = writeln!(
        text,
        "\n{on}{origin}: {} {synthetic}queries, mrr {} points, {}; better {}, worse {}, equal {}",
        comparison.n,
        percent(comparison.difference, comparison.ci95),
        p_value(comparison.p),
        comparison.wins,
        comparison.losses,
        comparison.ties
    );
    for (word, queries) in [("better", &answers.won), ("worse", &answers.lost)] {
        for one in queries.iter().take(MAX_LISTED) {
            let id = one.id.map_or_else(|| format!("number {}", one.at + 1), |id| id.to_string());
            let (from, to) = (one.from, one.to);
            let query = plain(one.query.as_deref().unwrap_or_default(), MAX_SHOWN);
            let _ = writeln!(text, "  {word}: query {id}, {from:.3} -> {to:.3}  {query}");
        }
        if queries.len() > MAX_LISTED {
            let more = queries.len() - MAX_LISTED;
            let _ = writeln!(text, "  {word}: {more} more");
        }
    }
    if let Some([from, to]) = &answers.cost {
        let _ = writeln!(
            text,
            "cost: tool calls {:.1} -> {:.1}, ms {:.2} -> {:.2}, failed queries {} -> {}",
            from.tool_calls, to.tool_calls, from.ms, to.ms, from.failed, to.failed
        );
    }
}

fn tell_effects(effects: &[Effect], text: &mut String) {
    if !effects.is_empty() {
        text.push_str("\neach change, mrr in points:\n");
    }
    let told =
        |gain: &Gain| format!("{}, {}", percent(gain.difference, gain.ci95), p_value(gain.p));
    for effect in effects {
        let line = effect.line.map_or("parameters".to_owned(), |line| format!("line {line}"));
        let failure = effect.failure.as_deref().map(|why| plain(why, 2 * MAX_SHOWN));
        let alone = match (&effect.alone, failure) {
            (Some(gain), _) => format!("alone {}", told(gain)),
            (None, failure) => failure.unwrap_or_default(),
        };
        let lines: Vec<String> = effect.together.iter().map(usize::to_string).collect();
        let with = match lines.is_empty() {
            true => String::new(),
            false => format!(" and together with line {}", lines.join(", ")),
        };
        let after = effect
            .after_others
            .as_ref()
            .map(|gain| format!("; after those before{with} {}", told(gain)));
        let _ = writeln!(text, "{line}: {alone}{}", after.unwrap_or_default());
        for line in effect.change.lines().filter(|_| effect.line.is_some()) {
            let _ = writeln!(text, "  {line}");
        }
    }
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
