//! What the page tells, taken from the journal of a run, its bundle and, if the dataset is there,
//! its validation queries. Must not know how the page looks.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, anyhow};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use crate::{
    Context,
    eval::{self, Measured as System, SEED, percent},
    explain::{explain_all, points},
    optimize::tested,
    printer::{harmless, p_cell},
    program::sources::{Entry, Sources, declared},
    report::{
        chart::{Bar, Chart, Sample, bar, chart},
        sentence,
        spent::Taken,
    },
};
use agent_app::{
    error::{Explain, Result},
    optimize::programs::PROGRAMS,
    routing, synthetic,
    systems::{Places, Resources, STAND_IN, all_threads, open_bundle, open_runtime},
};
use agent_dataset::{LabelledQuery, Split, is_synthetic, load_split};
use agent_index::IndexedBase;
use agent_infer::{
    bundle::{Bundle, Category, SEARCH},
    explain::{Cause, Explained, Explainer, Kind, causes},
};
use agent_optimize::{
    BUNDLE_FILE,
    journal::Journal,
    mine::DEFAULT_HOPS,
    trial::{TRIAL, Trial},
};
use agent_retrieve::{
    Baseline, System as BaselineSystem,
    eval::{Calibration, Metric, compare, statistics::bootstrap_interval},
};
use agent_sandbox::{Origin, SandboxOptions};

/// Programs that the chart shows; further ones are counted.
const MAX_POINTS: usize = 400;
/// Tests that the page lists, the latest.
const MAX_DECISIONS: usize = 200;
/// Lines around a change in a diff.
const CONTEXT_LINES: usize = 3;
/// Changes that were made to a program, one after another, that are looked back.
const MAX_ANCESTORS: usize = 1_000;

/// What the run's directory holds.
pub(super) struct Record {
    dir: PathBuf,
    config: serde_json::Value,
    sources: Sources,
    trials: Vec<Trial>,
    taken: Taken,
    /// Whether the questions were made, not labelled, as far as that is known.
    synthetic: bool,
    /// The frozen bundle, if the run is finished.
    pub(super) bundle: Option<Bundle>,
}

impl Record {
    /// Reads a run.
    ///
    /// # Errors
    /// That the journal is damaged.
    pub(super) fn read(
        dir: &Path,
        journal: &Journal,
        sources: Sources,
        ctx: &Context,
    ) -> Result<Record> {
        let trials = journal
            .steps()?
            .into_iter()
            .filter(|step| step.kind == TRIAL)
            .map(|step| serde_json::from_value(step.body).context("a trial is of another version"))
            .collect::<anyhow::Result<Vec<Trial>>>()?;
        let bundle = Bundle::read(&dir.join(BUNDLE_FILE)).ok();
        let config = journal.config().clone();
        let taken = Taken::read(dir)?;
        // A run that is not finished does not say it; its dataset does while it is there.
        let made = |name: &str| load_split(&ctx.home.get(name).ok()?, &Split::Val).ok();
        let name = config.get("dataset").and_then(serde_json::Value::as_str);
        let synthetic = match &bundle {
            Some(bundle) => bundle.provenance.synthetic,
            None => name.and_then(made).is_some_and(|queries| is_synthetic(&queries)),
        };
        let dir = dir.to_owned();
        Ok(Record { dir, config, sources, trials, taken, synthetic, bundle })
    }

    fn configured(&self, key: &str) -> String {
        match self.config.get(key) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}

/// What bundle and baselines do on the validation queries.
pub(super) struct Measured {
    systems: Vec<System>,
    explained: Vec<Explained>,
    /// Whether the router knows which program answers best.
    router: Option<Calibration>,
}

impl Measured {
    /// Answers all queries with the bundle and every baseline.
    ///
    /// # Errors
    /// That a program does not compile, a query cannot be searched, or that it was stopped.
    pub(super) fn of(
        record: &Record,
        bundle: &Bundle,
        base: &Arc<IndexedBase>,
        queries: Vec<LabelledQuery>,
        resources: &Resources,
        ctx: &Context,
    ) -> Result<Measured> {
        let stand_in = Baseline::new(base.clone(), STAND_IN);
        let measured = |name: &str, system: &dyn agent_retrieve::Retriever| {
            eval::measured(name, system, &stand_in, &queries, base, ctx)
        };
        let frozen = measured("bundle", &*open_bundle(bundle, base, resources)?.answers)?;
        if let Some(why) = frozen.invalid() {
            return Err(anyhow!("the bundle cannot be measured: {why}"))
                .hint("write the page again");
        }
        let mut systems = vec![frozen];
        for system in BaselineSystem::ALL {
            systems.push(measured(system.name(), &Baseline::new(base.clone(), system))?);
        }
        let origin = Origin::Bundle(&bundle.digest);
        let runtime = open_runtime(base, all_threads(), resources, origin)?;
        let explainer =
            Explainer::of_bundle(runtime, bundle).context("the bundle cannot be run")?;
        let explained = explain_all(&explainer, &queries, ctx)?;
        let router = routing::calibrated(bundle, base, &queries, &record.trials);
        Ok(Measured { systems, explained, router })
    }
}

/// Everything the page tells; all texts are as they came.
#[derive(Serialize)]
pub(super) struct Page<'a> {
    dataset: String,
    title: String,
    run: String,
    seed: String,
    version: String,
    finished: bool,
    /// What is said where the questions were made, not labelled; else nothing.
    synthetic: String,
    n_train: usize,
    n_validation: usize,
    /// Mean reciprocal rank of the bundle in percent, with its interval where it was measured.
    headline: String,
    against: String,
    /// What the best answer of each query, of a program or of all together, would reach, in percent.
    oracle: String,
    /// The bundle on queries that did not choose it.
    held_out: String,
    /// Whether the router knows which program answers best, in words and by how sure it was.
    router: String,
    bins: Vec<BinRow>,
    chart: Chart,
    not_shown: usize,
    systems: Vec<SystemRow>,
    categories: Vec<CategoryBlock>,
    kinds: Vec<KindRow>,
    lost: usize,
    asked: usize,
    causes: Vec<CauseRow>,
    decisions: Vec<DecisionRow>,
    earlier_decisions: usize,
    /// How the sequential test of all changes ended.
    sequential_test: String,
    taken: &'a Taken,
    work: Vec<WorkRow>,
    commands: Vec<String>,
}

#[derive(Serialize)]
struct SystemRow {
    name: String,
    n: usize,
    hit1: String,
    recall20: String,
    mrr: String,
    bar: Bar,
    /// Bundle less this system.
    difference: String,
    p: String,
}

#[derive(Serialize)]
struct BinRow {
    n: usize,
    expected: String,
    observed: String,
}

#[derive(Serialize)]
struct CategoryBlock {
    name: String,
    description: String,
    program: String,
    proposed_by: String,
    n: usize,
    baseline: String,
    baseline_mrr: String,
    mrr: String,
    difference: String,
    bar: Option<Bar>,
    lines: Vec<Line>,
    tuned: Vec<Tuned>,
    /// The program it was made from, if it was changed.
    from: String,
    diff: Vec<DiffLine>,
}

#[derive(Serialize)]
struct Line {
    number: usize,
    text: String,
    marks: Vec<String>,
}

#[derive(Serialize)]
struct Tuned {
    name: String,
    value: f64,
    declared: String,
}

#[derive(Serialize)]
struct DiffLine {
    class: &'static str,
    text: String,
}

#[derive(Serialize)]
struct KindRow {
    name: &'static str,
    n: usize,
    percent: f64,
}

#[derive(Serialize)]
struct CauseRow {
    kind: &'static str,
    category: String,
    line: String,
    function: String,
    n: usize,
    gain: String,
}

#[derive(Serialize)]
struct DecisionRow {
    category: String,
    change: String,
    n: usize,
    difference: String,
    p: String,
    accepted: bool,
}

#[derive(Serialize)]
struct WorkRow {
    by: String,
    programs: usize,
    trials: usize,
    answers: usize,
    failed: usize,
}

/// All that is told of a run.
///
/// # Errors
/// That a statistic cannot be computed.
pub(super) fn page<'a>(
    record: &'a Record,
    measured: Option<&Measured>,
    places: &Places,
) -> Result<Page<'a>> {
    let bundle = record.bundle.as_ref();
    let origin = bundle.map_or(Origin::Elsewhere, |bundle| Origin::Bundle(&bundle.digest));
    let sandbox = places.of(origin);
    let categories = bundle.map_or(&[][..], |bundle| &bundle.categories);
    let explained = measured.map_or(&[][..], |measured| &measured.explained);
    let asked = explained.len();
    let baseline = bundle.map(|bundle| {
        let best = bundle.validation.baselines.iter().max_by(|a, b| a.1.total_cmp(b.1));
        best.map_or((String::new(), 0.0), |(name, mrr)| (name.clone(), *mrr))
    });
    let (samples, not_shown) = samples(record)?;
    let mut levels = Vec::new();
    if let (Some(bundle), Some((name, mrr))) = (bundle, &baseline) {
        levels.push((
            format!("bundle {:.1}", 100.0 * bundle.validation.mrr),
            bundle.validation.mrr,
            "bundle",
        ));
        levels.push((format!("{name} {:.1}", 100.0 * mrr), *mrr, "baseline"));
    }
    let (decisions, earlier_decisions) = decisions(record);
    let headline = match (measured.and_then(|measured| measured.systems.first()), bundle) {
        (Some(system), _) => {
            let (mean, ci95) = (system.evaluation.means, system.evaluation.ci95);
            percent(mean.get(Metric::Mrr), ci95.get(Metric::Mrr))
        }
        (None, Some(bundle)) => format!("{:.1}", 100.0 * bundle.validation.mrr),
        (None, None) => String::new(),
    };
    let validation = bundle.map(|bundle| &bundle.validation);
    let router = measured.and_then(|measured| measured.router.as_ref());
    Ok(Page {
        dataset: record.configured("dataset"),
        title: bundle.map(|bundle| bundle.dataset.title.clone()).unwrap_or_default(),
        run: record.dir.display().to_string(),
        seed: record.configured("seed"),
        version: bundle.map(|bundle| bundle.provenance.version.clone()).unwrap_or_default(),
        finished: bundle.is_some(),
        synthetic: if record.synthetic { sentence(synthetic::TOLD) } else { String::new() },
        n_train: bundle.map_or(0, |bundle| bundle.provenance.n_train),
        n_validation: bundle.map_or(0, |bundle| bundle.provenance.n_validation),
        headline,
        against: baseline
            .map_or(String::new(), |(name, mrr)| format!("{:.1} ({name})", 100.0 * mrr)),
        oracle: validation
            .and_then(|validation| validation.best_program)
            .map_or(String::new(), |mrr| format!("{:.1}", 100.0 * mrr)),
        held_out: validation
            .and_then(|validation| validation.held_out.as_ref())
            .map_or(String::new(), |of| percent(of.mrr, of.ci95)),
        router: router.map_or(String::new(), |of| sentence(&routing::told(of))),
        bins: router.map_or(Vec::new(), bins),
        chart: chart(samples, &levels),
        not_shown,
        systems: measured.map(systems).transpose()?.unwrap_or_default(),
        categories: categories
            .iter()
            .enumerate()
            .map(|(at, category)| block(record, category, at, explained, &sandbox))
            .collect(),
        kinds: kinds(explained),
        lost: explained.iter().filter(|one| one.loss.is_some()).count(),
        asked,
        causes: cause_rows(categories, explained),
        decisions,
        earlier_decisions,
        sequential_test: validation
            .and_then(|validation| validation.proof.as_ref())
            .map_or(String::new(), |proof| sentence(&tested(proof))),
        taken: &record.taken,
        work: work(record),
        commands: commands(record),
    })
}

/// How sure the router was, and how often it was right.
fn bins(router: &Calibration) -> Vec<BinRow> {
    let shown = |share: f64| format!("{:.1}", 100.0 * share);
    let row = |bin: &agent_retrieve::eval::calibration::Bin| BinRow {
        n: bin.n,
        expected: shown(bin.expected),
        observed: shown(bin.observed),
    };
    router.bins.iter().map(row).collect()
}

/// Every program on all validation queries, in the order in which they were tried.
fn samples(record: &Record) -> Result<(Vec<Sample>, usize)> {
    let on_validation = record.trials.iter().filter(|trial| trial.pool != "train");
    let most = on_validation.clone().map(|trial| trial.queries.len()).max().unwrap_or(0);
    let whole: Vec<&Trial> = on_validation.filter(|trial| trial.queries.len() == most).collect();
    let categories = record.bundle.iter().flat_map(|bundle| &bundle.categories);
    let frozen: Vec<&Category> = categories.collect();
    let mut samples = Vec::new();
    let mut best = vec![0.0_f64; most];
    for trial in whole.iter().take(MAX_POINTS).filter(|trial| !trial.queries.is_empty()) {
        let ranks: Vec<f64> = trial.reciprocal_ranks.iter().map(|&rank| f64::from(rank)).collect();
        let interval = bootstrap_interval(&ranks, SEED)?;
        best.iter_mut().zip(&ranks).for_each(|(best, &rank)| *best = best.max(rank));
        let together = best.iter().sum::<f64>() / most as f64;
        let in_bundle =
            frozen.iter().any(|of| of.program.id() == trial.program && of.params == trial.params);
        let accepted = record
            .sources
            .decisions
            .iter()
            .any(|of| of.accepted && of.to == trial.program && of.params == trial.params);
        let class = match (in_bundle, accepted) {
            (true, _) => "frozen",
            (false, true) => "accepted",
            (false, false) => "tried",
        };
        let id: String = trial.program.chars().take(12).collect();
        let change = &trial.origin.change;
        let mean = trial.mrr();
        let label = format!("{id}: {}, {change}", percent(mean, interval));
        samples.push(Sample { mean, interval, together, label, class });
    }
    Ok((samples, whole.len().saturating_sub(MAX_POINTS)))
}

fn systems(measured: &Measured) -> Result<Vec<SystemRow>> {
    let Some(bundle) = measured.systems.first() else { return Ok(Vec::new()) };
    let row = |system: &System| {
        let (means, ci95) = (&system.evaluation.means, &system.evaluation.ci95);
        let shown = |metric: Metric| percent(means.get(metric), ci95.get(metric));
        let is_bundle = system.system == bundle.system;
        let versus = (!is_bundle)
            .then(|| compare(&bundle.results, &system.results, Metric::Mrr, SEED))
            .transpose()?;
        Ok(SystemRow {
            name: system.system.clone(),
            n: system.evaluation.n,
            hit1: shown(Metric::Hit1),
            recall20: shown(Metric::Recall20),
            mrr: shown(Metric::Mrr),
            bar: bar(means.get(Metric::Mrr), ci95.get(Metric::Mrr)),
            difference: versus.map_or(String::new(), |of| percent(of.difference, of.ci95)),
            p: versus.map_or(String::new(), |of| p_cell(of.p)),
        })
    };
    measured.systems.iter().map(row).collect()
}

/// The losses that one category's queries had in its own program.
fn of_category(explained: &[Explained], at: usize) -> Vec<Cause> {
    let own = explained.iter().filter(|one| one.category == at);
    causes(own.filter_map(|one| one.within.as_ref().or(one.loss.as_ref())))
}

fn block(
    record: &Record,
    category: &Category,
    at: usize,
    explained: &[Explained],
    sandbox: &SandboxOptions,
) -> CategoryBlock {
    let program = &category.program;
    let n = explained.len();
    let losses = of_category(explained, at);
    let lines = harmless(&program.shown());
    let lines = lines.lines().zip(1..).map(|(text, number)| Line {
        number,
        text: text.to_owned(),
        marks: losses
            .iter()
            .filter(|cause| cause.line == Some(number))
            .map(|cause| {
                format!("{} {}, gain {}", cause.n, cause.kind.name(), points(cause.gain, n))
            })
            .collect(),
    });
    let before = ancestor(&record.sources, program.id());
    let before = before.filter(|entry| entry.program != *program);
    let score = category.validation.as_ref();
    let shown =
        |share: Option<f64>| share.map_or("-".to_owned(), |of| format!("{:.1}", 100.0 * of));
    let numbers = declared(program, sandbox);
    CategoryBlock {
        name: category.name.clone(),
        description: program.description().to_owned(),
        program: program.short_id().to_owned(),
        proposed_by: category.proposed_by.clone(),
        n: score.map_or(0, |score| score.n),
        baseline: score.map(|score| score.baseline.clone()).unwrap_or_default(),
        baseline_mrr: shown(score.map(|score| score.baseline_mrr)),
        mrr: shown(score.map(|score| score.mrr)),
        difference: score.map_or("-".to_owned(), |score| percent(score.difference, score.ci95)),
        bar: score.map(|score| {
            let at = agent_retrieve::eval::Interval { low: score.baseline_mrr, high: score.mrr };
            bar(score.mrr, at)
        }),
        lines: lines.collect(),
        tuned: category
            .params
            .iter()
            .map(|(name, &value)| Tuned {
                name: name.clone(),
                value,
                declared: numbers
                    .iter()
                    .find(|param| param.name == *name)
                    .map_or(String::new(), |param| param.value.to_string()),
            })
            .collect(),
        from: before.map_or(String::new(), |entry| entry.program.short_id().to_owned()),
        diff: before.map_or(Vec::new(), |entry| diff(&entry.program.shown(), &program.shown())),
    }
}

/// The program that a program was first made from.
fn ancestor<'a>(sources: &'a Sources, id: &str) -> Option<&'a Entry> {
    let mut seen = vec![id.to_owned()];
    while seen.len() < MAX_ANCESTORS {
        let parent = sources.origins.get(seen.last()?).and_then(|of| of.origin.parent.clone());
        // Mutations may come back to a source that was there before.
        let Some(parent) = parent.filter(|parent| !seen.contains(parent)) else { break };
        seen.push(parent);
    }
    let first = seen.last()?;
    sources.entries.iter().find(|entry| entry.program.id() == first)
}

fn diff(from: &str, to: &str) -> Vec<DiffLine> {
    let diff = TextDiff::from_lines(from, to);
    let mut lines = Vec::new();
    for (at, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if at > 0 {
            lines.push(DiffLine { class: "gap", text: "...".to_owned() });
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (class, sign) = match change.tag() {
                ChangeTag::Delete => ("gone", '-'),
                ChangeTag::Insert => ("new", '+'),
                ChangeTag::Equal => ("same", ' '),
            };
            let text = format!("{sign}{}", harmless(change.value()).trim_end_matches('\n'));
            lines.push(DiffLine { class, text });
        }
    }
    lines
}

fn kinds(explained: &[Explained]) -> Vec<KindRow> {
    let of = |kind: Kind| {
        let losses = explained.iter().filter_map(|one| one.loss.as_ref());
        losses.filter(|loss| loss.kind == kind).count()
    };
    let row = |kind: Kind| {
        let n = of(kind);
        let percent = 100.0 * n as f64 / explained.len().max(1) as f64;
        KindRow { name: kind.name(), n, percent: (percent * 10.0).round() / 10.0 }
    };
    Kind::ALL.into_iter().map(row).filter(|row| row.n > 0).collect()
}

/// All causes, most to gain first.
fn cause_rows(categories: &[Category], explained: &[Explained]) -> Vec<CauseRow> {
    let mut all: Vec<(&Category, Cause)> = Vec::new();
    for (at, category) in categories.iter().enumerate() {
        let own = explained.iter().filter(|one| one.category == at);
        let losses = own.filter_map(|one| one.loss.as_ref());
        all.extend(causes(losses).into_iter().map(|cause| (category, cause)));
    }
    all.sort_by(|a, b| b.1.gain.total_cmp(&a.1.gain));
    let row = |(category, cause): (&Category, Cause)| CauseRow {
        kind: cause.kind.name(),
        category: category.name.clone(),
        line: cause.line.map_or(String::new(), |line| line.to_string()),
        function: cause.function,
        n: cause.n,
        gain: points(cause.gain, explained.len()),
    };
    all.into_iter().map(row).collect()
}

/// The latest tests, and how many were before them.
fn decisions(record: &Record) -> (Vec<DecisionRow>, usize) {
    let all = &record.sources.decisions;
    let before = all.len().saturating_sub(MAX_DECISIONS);
    let rows = all.iter().skip(before).map(|of| DecisionRow {
        category: of.category.clone(),
        change: of.change.clone(),
        n: of.n,
        difference: format!("{:+.1}", (1_000.0 * of.difference).round() / 10.0 + 0.0),
        p: p_cell(of.p),
        accepted: of.accepted,
    });
    (rows.collect(), before)
}

/// What was done for whom: programs tried, trials, and the queries they answered.
fn work(record: &Record) -> Vec<WorkRow> {
    let mut rows: BTreeMap<&str, WorkRow> = BTreeMap::new();
    for trial in &record.trials {
        let by = trial.origin.proposed_by.as_str();
        let row = rows.entry(by).or_insert_with(|| WorkRow {
            by: by.to_owned(),
            programs: 0,
            trials: 0,
            answers: 0,
            failed: 0,
        });
        row.trials += 1;
        row.answers += trial.queries.len();
        row.failed += trial.failed;
    }
    for entry in &record.sources.entries {
        if let Some(row) = rows.get_mut(entry.proposed_by.as_str()) {
            row.programs += 1;
        }
    }
    rows.into_values().collect()
}

/// How to come to the same result, and to ask it.
fn commands(record: &Record) -> Vec<String> {
    let (dataset, run) = (record.configured("dataset"), record.dir.display());
    let begun = begun_with(&record.config);
    let mut commands = vec![format!("agent optimize --dataset {dataset} {begun} --run NEW_DIR")];
    if record.bundle.is_some() {
        commands.push(format!("agent verify {run}/{BUNDLE_FILE} --dataset {dataset}"));
        commands.push(format!("agent explain --bundle {run}/{BUNDLE_FILE} --dataset {dataset}"));
        commands.push(format!(
            "agent query --bundle {run}/{BUNDLE_FILE} --dataset {dataset} \"...\" --explain"
        ));
    } else {
        commands.push(format!("agent optimize --dataset {dataset} --run {run} --resume"));
    }
    commands
}

/// The options of `agent optimize` that a run with this configuration was begun with. The files of
/// the user's programs are not known.
fn begun_with(config: &serde_json::Value) -> String {
    let text = |key: &str| config.get(key).and_then(serde_json::Value::as_str);
    let number = |key: &str| config.get(key).and_then(serde_json::Value::as_u64);
    let is = |key: &str, value: bool| config.get(key) == Some(&value.into());
    let numbered = |option: &str, n: Option<u64>| n.map(|n| format!("{option} {n}"));
    let mut options = vec![format!("--actor {}", text("actor").unwrap_or(SEARCH))];
    options.extend(text("model").map(|model| format!("--model {model}")));
    options.extend(numbered("--llm-steps", number("llm_steps")));
    options.extend(is("llm_tools", false).then(|| "--no-llm-tools".to_owned()));
    options.extend(is("avatar_tools", true).then(|| "--avatar-tools".to_owned()));
    options.extend(text(PROGRAMS).map(|_| "--program FILE".to_owned()));
    options.extend(numbered("--seed", number("seed")));
    options.extend(numbered("--steps", number("steps")));
    options.extend(numbered("--hops", number("hops").filter(|&hops| hops != DEFAULT_HOPS as u64)));
    let without = config.get("without").and_then(serde_json::Value::as_array).into_iter().flatten();
    options.extend(without.filter_map(|part| Some(format!("--without {}", part.as_str()?))));
    options.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_command_of_a_run_has_all_that_it_was_begun_with() {
        let plain = json!({"seed": 1, "steps": 24, "hops": 2, "without": []});
        assert_eq!(begun_with(&plain), "--actor search --seed 1 --steps 24");
        let all = json!({
            "actor": "search,llm", "model": "scripted", "llm_steps": 3, "llm_tools": false,
            "avatar_tools": true, "programs": "0123", "seed": 7, "steps": 9, "hops": 3,
            "without": ["mining", "tuning"],
        });
        assert_eq!(
            begun_with(&all),
            "--actor search,llm --model scripted --llm-steps 3 --no-llm-tools --avatar-tools \
             --program FILE --seed 7 --steps 9 --hops 3 --without mining --without tuning"
        );
    }
}
