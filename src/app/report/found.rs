//! The findings on the page of a run: how well the bundle and the baselines answer validation
//! queries, why answers were lost, and which commands reproduce the run. Does not depend on the
//! layout of the page.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, anyhow};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    App, Benchmark, Explain, Measured as System, Resources, Result,
    explained::{Group, explain_all, points},
    open_bundle, open_runtime,
    optimize::{
        events::{first_better, tested},
        programs::PROGRAMS,
    },
    p_cell, percent,
    report::recorded::name,
    routing, synthetic,
};
use agent_dataset::{LabelledQuery, Split, is_synthetic, load_split};
use agent_index::IndexedBase;
use agent_infer::{
    bundle::{Bundle, SEARCH},
    explain::{Cause, ExplainedQuery, Explainer, Kind},
};
use agent_optimize::{
    BUNDLE_FILE,
    journal::Journal,
    mine::DEFAULT_HOPS,
    record::{
        programs::{Sources, variant},
        timing::Timing,
    },
    trial::Trial,
};
use agent_retrieve::{
    Baseline, System as BaselineSystem,
    eval::{Calibration, Metric, SEED, compare},
};
use agent_sandbox::Origin;

/// Measurements of the bundle and the baselines on the validation queries.
pub(super) struct Measured {
    systems: Vec<System>,
    explainer: Explainer,
    explained: Vec<ExplainedQuery>,
    /// Calibration of the bundle's router; `None` if it could not be measured.
    router: Option<Calibration>,
}

impl Measured {
    /// Answers all queries with the bundle and with every baseline, and measures both.
    ///
    /// # Errors
    /// If a program does not compile, a query cannot be searched, a service gives no reply to the
    /// bundle, or the operation was stopped.
    pub(super) fn of(
        bundle: &Bundle,
        trials: &[Trial],
        base: &Arc<IndexedBase>,
        queries: Vec<LabelledQuery>,
        resources: &Resources,
        app: &App,
    ) -> Result<Measured> {
        let queries = queries.as_slice();
        let benchmark = Benchmark::new(queries, base);
        let opened = open_bundle(bundle, base, resources)?;
        let frozen = benchmark.measure("bundle", &*opened.answers, app)?;
        if let Some(why) = frozen.invalid() {
            return Err(anyhow!("the bundle cannot be measured: {why}"))
                .hint("write the page again");
        }
        let mut systems = vec![frozen];
        for system in BaselineSystem::ALL {
            let baseline = Baseline::new(base.clone(), system);
            systems.push(benchmark.measure(system.name(), &baseline, app)?);
        }
        let origin = Origin::Bundle(&bundle.digest);
        let runtime = open_runtime(base, resources, origin)?;
        let explainer =
            Explainer::for_bundle(runtime, bundle).context("the bundle cannot be run")?;
        let explained = explain_all(&explainer, queries, app)?;
        let router = routing::calibrated(bundle, base, queries, trials);
        Ok(Measured { systems, explainer, explained, router })
    }
}

/// The findings about a run, with the names that `web/src/record.ts` expects.
#[derive(Serialize)]
pub(super) struct Findings {
    /// Title of the dataset, name or directory of the run, and version of this software, joined by
    /// commas.
    about: String,
    /// Note that the questions are synthetic; empty if they are not.
    synthetic: String,
    /// Key figures as text, each with its label.
    figures: Vec<(String, String)>,
    systems: Vec<Value>,
    losses: Option<Value>,
    /// For each program, by its [`variant`]: the lines that lost answers, from 1, each with its
    /// losses in words.
    marks: BTreeMap<String, Vec<(usize, String)>>,
    /// For each category, by name: its best baseline with mean reciprocal rank, and the difference
    /// of the bundle from that baseline.
    against: BTreeMap<String, String>,
    router: String,
    sequential_test: String,
    first_better: Vec<String>,
    commands: Vec<String>,
}

/// Collects the findings of a run.
///
/// # Errors
/// If a statistic cannot be computed.
pub(super) fn found(
    dir: &Path,
    journal: &Journal,
    sources: &Sources,
    measured: Option<&Measured>,
    app: &App,
) -> Result<Findings> {
    let config = journal.config();
    let bundle = sources.bundle.as_ref();
    // An unfinished run does not record whether its questions are synthetic; its dataset does.
    let made = |name: &str| load_split(&app.home.get(name).ok()?, &Split::Val).ok();
    let is_synthetic = match bundle {
        Some(bundle) => bundle.provenance.synthetic,
        None => sources.dataset.as_deref().and_then(made).is_some_and(|of| is_synthetic(&of)),
    };
    // Requests over a network must not see directories of this machine.
    let (run, file) = match app.network {
        None => (dir.to_owned(), dir.join(BUNDLE_FILE)),
        Some(_) => (PathBuf::from(name(dir)), PathBuf::from(name(dir))),
    };
    let proof = bundle.and_then(|bundle| bundle.validation.proof.as_ref());
    let router = measured.and_then(|measured| measured.router.as_ref());
    let mut found = Findings {
        about: run.display().to_string(),
        synthetic: if is_synthetic { sentence(synthetic::TOLD) } else { String::new() },
        figures: Vec::new(),
        systems: measured.map(systems).transpose()?.unwrap_or_default(),
        losses: None,
        marks: BTreeMap::new(),
        against: BTreeMap::new(),
        router: router.map_or(String::new(), |of| sentence(&routing::told(of))),
        sequential_test: proof.map_or(String::new(), |proof| sentence(&tested(proof))),
        first_better: Timing::read(dir)
            .first_better
            .iter()
            .map(|better| sentence(&first_better(better)))
            .collect(),
        commands: commands(&run, bundle.map(|_| file.as_path()), config),
    };
    let Some(bundle) = bundle else { return Ok(found) };
    let about = [&bundle.dataset.title, &found.about].map(String::as_str);
    let about: Vec<&str> = about.into_iter().filter(|text| !text.is_empty()).collect();
    found.about = format!("{}, agent {}", about.join(", "), bundle.provenance.version);
    found.figures = figures(bundle, measured);
    for category in &bundle.categories {
        let Some(score) = &category.validation else { continue };
        let difference = percent(score.difference, score.ci95);
        let against = format!("{} {:.1}, {difference}", score.baseline, 100.0 * score.baseline_mrr);
        found.against.insert(category.name.clone(), against);
    }
    if let Some(measured) = measured {
        let (explained, n) = (&measured.explained, measured.explained.len());
        let groups = Group::all(&measured.explainer, explained);
        found.losses = Some(losses(&groups, explained));
        let marks = groups.iter().filter_map(|group| {
            let category = bundle.categories.iter().find(|of| of.name == group.name)?;
            Some((variant(&category.program, &category.params), group.marks(n).collect()))
        });
        found.marks = marks.collect();
    }
    Ok(found)
}

/// Returns the text with a capital first letter.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn figures(bundle: &Bundle, measured: Option<&Measured>) -> Vec<(String, String)> {
    let (validation, provenance) = (&bundle.validation, &bundle.provenance);
    let shown = |share: f64| format!("{:.1}", 100.0 * share);
    let own = measured.and_then(|measured| measured.systems.first()).map(|system| {
        let (mean, ci95) = (&system.evaluation.means, &system.evaluation.ci95);
        percent(mean.get(Metric::Mrr), ci95.get(Metric::Mrr))
    });
    let best = validation.baselines.iter().max_by(|a, b| a.1.total_cmp(b.1));
    let held_out = validation.held_out.as_ref().map(|of| percent(of.mrr, of.ci95));
    let lost = measured.map(|measured| {
        let lost = measured.explained.iter().filter(|one| one.loss.is_some()).count();
        format!("{lost} of {}", measured.explained.len())
    });
    let (n, n_train) = (provenance.n_validation, provenance.n_train);
    let of_bundle = format!("mean reciprocal rank of the bundle on {n} validation queries, %");
    let of_categories = format!("categories, from {n_train} training queries");
    [
        (of_bundle.as_str(), Some(own.unwrap_or_else(|| shown(validation.mrr)))),
        ("best baseline, %", best.map(|(name, mrr)| format!("{} ({name})", shown(*mrr)))),
        (&of_categories, Some(bundle.categories.len().to_string())),
        ("mean reciprocal rank of the bundle, estimated by cross-fitting, %", held_out),
        ("oracle that picks the best answer to each query, %", validation.best_program.map(shown)),
        ("queries without an answer at rank 1", lost),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((value?, name.to_owned())))
    .collect()
}

/// Returns a row for each system. `difference` is the mean reciprocal rank of the bundle minus that
/// of the system, with interval; empty for the bundle.
fn systems(measured: &Measured) -> Result<Vec<Value>> {
    let Some(bundle) = measured.systems.first() else { return Ok(Vec::new()) };
    let bundle_results = &bundle.measurements.results;
    let row = |system: &System| {
        let (means, ci95) = (&system.evaluation.means, &system.evaluation.ci95);
        let shown = |metric: Metric| percent(means.get(metric), ci95.get(metric));
        let versus = (system.system != bundle.system)
            .then(|| compare(bundle_results, &system.measurements.results, Metric::Mrr, SEED))
            .transpose()?;
        Ok(json!({
            "name": system.system,
            "share": means.get(Metric::Mrr),
            "mrr": shown(Metric::Mrr),
            "hit1": shown(Metric::Hit1),
            "recall20": shown(Metric::Recall20),
            "difference": versus.map_or(String::new(), |of| percent(of.difference, of.ci95)),
            "p": versus.map_or(String::new(), |of| p_cell(of.p)),
        }))
    };
    measured.systems.iter().map(row).collect()
}

/// Returns the number of queries with each kind of loss, and all causes, the largest possible gain
/// first.
fn losses(groups: &[Group<'_>], explained: &[ExplainedQuery]) -> Value {
    let all = || explained.iter().filter_map(|one| one.loss.as_ref());
    let kinds = Kind::ALL.into_iter().filter_map(|kind| {
        let n = all().filter(|loss| loss.kind == kind).count();
        (n > 0).then(|| json!({"name": kind.name(), "n": n}))
    });
    let mut causes: Vec<(&str, &Cause)> = groups
        .iter()
        .flat_map(|group| group.causes.iter().map(|cause| (group.name, cause)))
        .collect();
    causes.sort_by(|a, b| b.1.gain.total_cmp(&a.1.gain));
    let cause = |(category, cause): (&str, &Cause)| {
        json!({
            "kind": cause.kind.name(),
            "category": category,
            "line": cause.line,
            "function": cause.function,
            "n": cause.n,
            "gain": points(cause.gain, explained.len()),
        })
    };
    json!({
        "lost": all().count(),
        "n": explained.len(),
        "kinds": kinds.collect::<Vec<_>>(),
        "causes": causes.into_iter().map(cause).collect::<Vec<_>>(),
    })
}

/// Returns commands that repeat the run and use its bundle or, without a bundle, resume the run.
fn commands(run: &Path, bundle: Option<&Path>, config: &Value) -> Vec<String> {
    let dataset = config.get("dataset").and_then(Value::as_str).unwrap_or_default();
    let (run, begun) = (run.display(), begun_with(config));
    let begin = format!("agent optimize --dataset {dataset} {begun} --run NEW_DIR");
    match bundle.map(Path::display) {
        Some(bundle) => vec![
            begin,
            format!("agent verify {bundle} --dataset {dataset}"),
            format!("agent explain --bundle {bundle} --dataset {dataset}"),
            format!("agent query --bundle {bundle} --dataset {dataset} \"...\" --explain"),
        ],
        None => vec![begin, format!("agent optimize --dataset {dataset} --run {run} --resume")],
    }
}

/// Returns the options of `agent optimize` that begin a run with this configuration. The user's
/// programs appear as `FILE`, since their files are not recorded.
fn begun_with(config: &Value) -> String {
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    let number = |key: &str| config.get(key).and_then(Value::as_u64);
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
    let without = config.get("without").and_then(Value::as_array).into_iter().flatten();
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
