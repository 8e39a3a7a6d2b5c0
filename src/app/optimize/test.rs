//! Measures a frozen bundle and all baselines on the test split. Does not depend on how programs
//! were found.

use std::sync::Arc;

use anyhow::Context as _;
use serde::Serialize;

use crate::{App, Benchmark, Measured, Result, optimize::Session, test_split};
use agent_dataset::Split;
use agent_infer::{BundleRetriever, Runtime, bundle::Bundle};
use agent_retrieve::{
    Baseline, Retriever, System,
    eval::{Comparison, Evaluation, Metric, SEED, compare, statistics::holm},
};
use agent_sandbox::Workers;

/// Results of the bundle and all baselines on the test split.
pub struct OnTest {
    /// Results of all baselines.
    pub baselines: Vec<SystemOnTest>,
    /// Results of the bundle.
    pub bundle: SystemOnTest,
    /// Number of measurements on the test split so far, this one included.
    pub openings: u64,
}

/// Results of one system on the test split.
#[derive(Serialize)]
pub struct SystemOnTest {
    /// Name of the system.
    pub system: String,
    /// Results over all queries.
    #[serde(flatten)]
    pub evaluation: Evaluation,
    /// For a baseline: the mean reciprocal rank of the bundle minus that of the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle_better_by: Option<Comparison>,
    /// For a baseline: the p-value of `bundle_better_by`, corrected for the number of baselines
    /// (Holm 1979).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_holm: Option<f64>,
    /// Why the means are invalid; absent if they are valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

impl OnTest {
    /// Returns the results of all systems, the baselines first.
    pub fn systems(&self) -> Vec<&SystemOnTest> {
        self.baselines.iter().chain([&self.bundle]).collect()
    }
}

impl SystemOnTest {
    fn new(measured: Measured, bundle_better_by: Option<Comparison>) -> SystemOnTest {
        let (invalid, p_holm) = (measured.invalid(), None);
        let Measured { system, evaluation, .. } = measured;
        SystemOnTest { system, evaluation, bundle_better_by, p_holm, invalid }
    }
}

/// Measures a bundle and all baselines on the test split, counts this opening of the split, and
/// warns of failed queries. The bundle's programs may ask the language model. `None` if no test is
/// requested, or if the test split has no queries whose answers are nodes.
///
/// # Errors
/// If the test split is damaged, or the operation was stopped.
pub(super) fn measure(bundle: &Bundle, session: &Session, app: &App) -> Result<Option<OnTest>> {
    let Session { data, run, model, .. } = session;
    if !data.is_tested || data.base.record.splits.get("test").is_none_or(|&n| n == 0) {
        return Ok(None);
    }
    let workers = Arc::new(Workers::new(run.threads).context("cannot start worker threads")?);
    let assistant = model.as_ref().map(|model| model.assistant().clone());
    let runtime = Runtime::in_sandbox(data.indexed.clone(), workers, None, &run.options.sandbox)
        .with_assistant(assistant.filter(|_| bundle.asks()))
        .stoppable(app.stop.clone());
    let frozen = BundleRetriever::new(Arc::new(runtime), bundle)?;
    let queries = test_split::load(&Split::Test, &data.base)?;
    if queries.is_empty() {
        return Ok(None);
    }
    let openings = test_split::count(&data.base, app);
    let benchmark = Benchmark::new(&queries, &data.indexed);
    let measured = |name: &str, system: &dyn Retriever| -> Result<Measured> {
        let measured = benchmark.measure(name, system, app)?;
        measured.warn(app);
        Ok(measured)
    };
    let bundle = measured(&frozen.name(), &frozen)?;
    let (mut baselines, mut p_values) = (Vec::new(), Vec::new());
    for system in System::ALL {
        let measured = measured(system.name(), &Baseline::new(data.indexed.clone(), system))?;
        let results = &measured.measurements.results;
        let versus = compare(&bundle.measurements.results, results, Metric::Mrr, SEED)?;
        p_values.push(versus.p);
        baselines.push(SystemOnTest::new(measured, Some(versus)));
    }
    for (baseline, p) in baselines.iter_mut().zip(holm(&p_values)?) {
        baseline.p_holm = Some(p);
    }
    let bundle = SystemOnTest::new(bundle, None);
    Ok(Some(OnTest { baselines, bundle, openings }))
}
