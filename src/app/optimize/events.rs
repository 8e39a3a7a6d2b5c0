//! Runs the optimization, reports its events, and measures the times of its phases. Does not depend
//! on how programs are found.

use std::mem;

use super::{Session, run::resumed, timing::Stopwatch};
use crate::{App, Plan, p_value, unit::pool::Pool};
use agent_infer::bundle::Proof;
use agent_optimize::{
    self as optimize, Decision, Event, Inputs, Milestone, OptimizeError, Outcome, Scope,
    record::timing::Timing, trial::Evaluators,
};

/// Stages of a run in the order in which they run, each with its approximate share of the total
/// time. A stage that a run does not have counts as done once a later one begins.
const STAGES: Plan = &[
    ("asking the model", 0.5),
    ("wording questions", 1.0),
    ("reading queries", 2.0),
    ("mining metapaths", 8.0),
    ("trying plans", 30.0),
    ("building categories", 4.0),
    ("trying your programs", 4.0),
    ("finding categories", 1.0),
    ("writing programs", 2.0),
    ("training the router", 2.0),
    ("improving programs", 25.0),
    ("tuning parameters", 15.0),
    ("testing on validation", 3.0),
    ("measuring and freezing", 8.0),
];

/// Runs the optimization of a session, which freezes a bundle. Returns the outcome, and the times
/// of the run and its phases, summed over all its processes.
pub(super) fn learn(session: &mut Session, app: &App) -> (Result<Outcome, OptimizeError>, Timing) {
    let Session { data, run, model, pool } = session;
    let mut stopwatch = Stopwatch::start(&run.dir);
    let progress = app.watch.progress_of(&format!("optimizing {}", run.options.dataset), STAGES);
    let waited = stopwatch.waiting();
    let (dir, mut goes_on) = (run.dir.clone(), false);
    let mut watch = |event: Event<'_>| {
        // The first event comes after the checks that may refuse to resume the run.
        if !mem::replace(&mut goes_on, true) {
            resumed(&dir);
        }
        app.watch.optimization(&event);
        if let Event::Progress { phase, done, total } = event {
            stopwatch.at(phase, done);
            progress.at(phase, done as u64, total as u64);
        } else {
            if let Event::SequentialTest(proof) = event {
                app.watch.detail(&tested(proof));
            }
            if let Some(notice) = notice(event, &mut stopwatch) {
                app.watch.notice(&notice);
            }
        }
    };
    let outcome = optimize::run(Inputs {
        base: data.indexed.clone(),
        assistant: model.as_ref().map(|model| model.assistant().clone()),
        train: data.train.clone(),
        validation: data.validation.clone(),
        options: &run.options,
        dir: &run.dir,
        journal: &mut run.journal,
        threads: run.threads,
        evaluators: pool.as_ref().map(|pool| pool as &dyn Evaluators),
        watch: &mut watch,
        waited,
        stop: &app.stop,
    });
    drop(progress);
    // Report the pool's use, then release it for other runs.
    pool.take().iter().for_each(Pool::tell);
    let timing = stopwatch.stop();
    report_times(&timing, app);
    (outcome, timing)
}

/// Describes an event in words; `None` for progress and for milestones that an earlier process of
/// the run reached.
fn notice(event: Event<'_>, stopwatch: &mut Stopwatch) -> Option<String> {
    Some(match event {
        Event::Progress { .. } => return None,
        Event::Category { name, n, mrr, bound } => {
            let could = bound.map_or(String::new(), |bound| {
                let (recall, mrr) = (100.0 * bound.recall, 100.0 * bound.mrr);
                format!(
                    "; metapaths alone reach {recall:.0} % of the answers, mrr {mrr:.1} at most"
                )
            });
            let (queries, mrr) = (if n == 1 { "query" } else { "queries" }, 100.0 * mrr);
            format!("category: {name}: {n} training {queries}, mrr {mrr:.1}{could}")
        }
        Event::Message(message) => message,
        Event::Tested(Decision { category, change, difference, p, accepted, .. }) => {
            let verdict = if *accepted { "kept" } else { "not kept" };
            let (points, p) = (points(*difference), p_value(*p));
            format!("{verdict}: {change} in {category}: {points:+.1} on training, {p}")
        }
        Event::Milestone(better) => first_better(&stopwatch.better(better)?),
        Event::SequentialTest(proof) => {
            let (n, total) = (proof.n, proof.total);
            match proof.any() {
                true => format!("the changes are better on {n} of {total} validation queries"),
                false => format!(
                    "not proven better on {n} of {total} validation queries: the changes are left out"
                ),
            }
        }
    })
}

/// Converts a difference to points (1/100), rounded to one decimal; never returns -0.
fn points(difference: f64) -> f64 {
    (1_000.0 * difference).round() / 10.0 + 0.0
}

/// Describes when programs were first better than every baseline, and by how much.
pub fn first_better(better: &Milestone) -> String {
    let (what, whose) = match better.scope {
        Scope::Program => ("first program", "its"),
        Scope::Together => ("all programs together", "the"),
    };
    format!(
        "{what} better than every baseline after {:.1} s: mrr {:.1} against {:.1} of {}, on {} of \
         {whose} {} training queries",
        better.seconds,
        100.0 * better.mrr,
        100.0 * better.baseline_mrr,
        better.baseline,
        better.n,
        better.total
    )
}

/// Describes the result of a sequential test, with its statistics.
pub fn tested(proof: &Proof) -> String {
    let verdict = |proven: bool| if proven { "proven" } else { "not proven" };
    let more = match proof.needed {
        Some(n) if !proof.proven => {
            format!("; about {n} more queries with such differences are needed for a proof")
        }
        _ => String::new(),
    };
    let mut words = format!(
        "{}: all changes together: {:+.1} on {} of {} validation queries of changed \
         categories, e-value {:.1} of {:.1}, error rate {}{more}",
        verdict(proof.proven),
        points(proof.difference),
        proof.n,
        proof.total,
        proof.e,
        1.0 / proof.level,
        proof.error_rate
    );
    for one in &proof.categories {
        words += &format!(
            "; {} by itself: {}: {:+.1} on {}, e-value {:.1} of {:.1}",
            verdict(one.proven),
            one.name,
            points(one.difference),
            one.n,
            one.e,
            1.0 / one.level
        );
    }
    words
}

/// Reports the time of each phase of a run, for verbose output.
fn report_times(timing: &Timing, app: &App) {
    for part in timing.summaries() {
        let steps = match part.steps {
            0 | 1 => String::new(),
            n => format!(", {n} steps, median {:.3} s, longest {:.3} s", part.median, part.longest),
        };
        app.watch.detail(&format!("{}: {:.2} s{steps}", part.name, part.seconds));
    }
}

/// Reports, for verbose output, the number of tool calls of programs that were answered from the
/// cache.
pub(super) fn report_cache(outcome: &Outcome, app: &App) {
    let (hits, misses) = outcome.cache;
    app.watch.detail(&format!("{hits} of {} tool calls came from the cache", hits + misses));
    let (hits, misses) = outcome.tuning_cache;
    app.watch.detail(&format!("while parameters were tuned: {hits} of {}", hits + misses));
}
