//! Measures systems on labelled queries and compares them in pairs. Counts how often the test split
//! was opened, that is, measured on, and reports the count with the results.

pub mod figures;
pub mod forecast;
pub mod queries;
mod sets;
pub mod systems;
mod values;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use anyhow::anyhow;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::values::not_of_values;
use self::{
    figures::{About, SetFigures, SystemFigures, ValueFigures},
    forecast::Forecast,
    queries::Filter,
    systems::{Chosen, Opened, open},
};
use crate::{
    App, Benchmark, Bounded, Dataset, Effort, Explain, LlmArgs, Measured, Perform, Result,
    SandboxArgs,
    bounded::parsed,
    choice::{choice, efforts},
    dataset, measured, refused, test_split,
};
use agent_dataset::{LabelledQuery, Split, is_synthetic};
use agent_index::IndexedBase;
use agent_llm::ledger::Spending;
use agent_retrieve::{
    Retriever,
    eval::{Definitions, Evaluation, Metric, SEED, compare, evaluate_groups, statistics},
};
use agent_systems::{answers_with_values, choices, mfar, uses_effort};

/// Maximum number of ranked nodes that are kept in memory per system: queries times depth. Each
/// node takes 8 bytes.
const MAX_KEPT: usize = 1 << 28;
/// Metrics by which pairs of systems are compared.
pub const COMPARED: [Metric; 4] = [Metric::Hit1, Metric::Hit5, Metric::Recall20, Metric::Mrr];

/// Number of nodes that a system ranks for a query.
pub type Depth = Bounded<1, 100_000>;
/// Default number of nodes that a system ranks for a query.
pub const DEPTH: Depth = Depth::new(measured::DEPTH as u64);

fn depth() -> Depth {
    DEPTH
}

fn no_effort() -> Vec<Effort> {
    vec![Effort::None]
}

/// Which definitions of the metrics apply.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Metrics {
    /// As in STaRK: unranked candidates follow in the order of their ids, so that every answer has
    /// a rank and adds to mrr and map; answers that are not candidates are left out
    #[default]
    Stark,
    /// As computed by trec_eval and pytrec_eval from the run file: unranked answers add nothing,
    /// and all answers count as relevant
    Trec,
    /// Precision, recall and F1 of the nodes up to the last one that a system counts as an answer,
    /// and the share of exact sets; systems are not compared
    Set,
    /// For queries with an answer_value: shares of exact answers and of numbers within 5 %, and F1
    /// of table rows; systems are not compared
    Value,
}

/// Systems to measure, the queries to measure them on, and how.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset, directory to import, or built-in sample
    #[arg(long, value_name = "N")]
    pub dataset: String,
    /// Use these queries: train, val, test, test-0.1, human or a file like qa.csv; separate
    /// several by commas
    #[arg(long = "split", value_name = "SPLIT", value_delimiter = ',', required = true)]
    #[serde(rename = "split", deserialize_with = "parsed")]
    #[schema(value_type = Vec<String>)]
    pub splits: Vec<Split>,
    /// Measure these systems
    #[arg(long = "system", value_name = "SYSTEM", required = true,
        help = format!("Measure {}; may be repeated", choices()))]
    #[serde(rename = "system")]
    pub systems: Vec<String>,
    /// Set the weight of these fields of mfar systems to zero: field names joined by commas, or
    /// `relations` or `details` for all fields of that kind
    #[arg(long, value_name = "FIELDS")]
    pub mask: Option<String>,
    /// Keep only queries with this value in this extra column of the query file; may be repeated
    #[arg(long = "where", value_name = "COLUMN=VALUE")]
    #[serde(rename = "where", default, deserialize_with = "parsed")]
    #[schema(value_type = Vec<String>)]
    pub filters: Vec<Filter>,
    /// Also report results for each value of this column of the queries; if they have no column
    /// `category`, `--by category` uses the category that the first bundle chooses for a query
    #[arg(long, value_name = "COLUMN")]
    pub by: Option<String>,
    /// Rank this many nodes per query, 1 to 100000; --metrics defines how unranked answers count
    #[arg(long, value_name = "K", default_value_t = DEPTH)]
    #[serde(default = "depth")]
    pub depth: Depth,
    /// Measure by these definitions of the metrics
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    #[serde(default)]
    pub metrics: Metrics,
    /// Compare every pair of systems, not only each with the first
    #[arg(long)]
    #[serde(default)]
    pub pairs: bool,
    /// Keep the rankings in the reply, for a caller that writes them to files.
    #[arg(skip)]
    #[serde(skip)]
    pub keep_rankings: bool,
    /// Set how much bundles and `ask` may use a language model; give several levels, separated by
    /// commas, to compare them
    #[arg(
        long = "effort",
        value_name = "EFFORT",
        value_parser = choice::<Effort>(),
        value_delimiter = ',',
        default_value = "0"
    )]
    #[serde(rename = "effort", default = "no_effort", deserialize_with = "efforts")]
    #[schema(value_type = Vec<u8>)]
    pub efforts: Vec<Effort>,
    /// Ignore answers that the language model suggests from its own knowledge
    #[arg(long)]
    #[serde(default)]
    pub no_known_answers: bool,
    /// Where Rhai programs run: in this process or inside WebAssembly.
    #[command(flatten)]
    #[serde(default)]
    pub sandbox: SandboxArgs,
    /// Language model to use, with its budget, reply files and prompts.
    #[command(flatten)]
    #[serde(default)]
    pub llm: LlmArgs,
}

impl Request {
    /// Returns the systems in the order of the request. A system that can use a language model
    /// occurs once for each requested effort.
    ///
    /// # Errors
    /// If there is no split, system or effort; if a system or an effort is given twice; or if there
    /// is a mask but no mfar system.
    pub fn chosen(&self) -> Result<Vec<Chosen>> {
        if self.splits.is_empty() || self.systems.is_empty() || self.efforts.is_empty() {
            return refused("give at least one split, system and effort");
        }
        let distinct: HashSet<&String> = self.systems.iter().collect();
        if distinct.len() < self.systems.len() {
            return refused("the same --system is given twice");
        }
        if self.efforts.iter().enumerate().any(|(at, one)| self.efforts[..at].contains(one)) {
            return refused("the same --effort is given twice");
        }
        let mut chosen = Vec::new();
        let masked = |system: &String| {
            let masked = self.mask.as_deref().and_then(|mask| mfar::masked(system, mask));
            masked.unwrap_or_else(|| system.clone())
        };
        let named: Vec<String> = self.systems.iter().map(masked).collect();
        if self.mask.is_some() && named == self.systems {
            return refused("--mask needs an mfar system");
        }
        for system in &named {
            let efforts = if uses_effort(system) { &self.efforts[..] } else { &self.efforts[..1] };
            for &effort in efforts {
                let label = match efforts.len() {
                    1 => system.clone(),
                    _ => format!("{system} effort {}", effort as u8),
                };
                let (system, no_known_answers) = (system.clone(), self.no_known_answers);
                chosen.push(Chosen { label, system, effort, no_known_answers });
            }
        }
        Ok(chosen)
    }

    /// Whether to measure answers that are values, such as numbers and tables, instead of nodes.
    pub fn measures_values(&self) -> bool {
        let all = || self.systems.iter().all(|name| answers_with_values(name));
        self.metrics == Metrics::Value || all()
    }

    /// Returns the number of queries, and for each system a forecast of its requests to a language
    /// model. Sends no requests.
    ///
    /// # Errors
    /// If the request is invalid, or no language model is configured.
    pub fn forecast(&self, app: &App) -> Result<(usize, Vec<Forecast>)> {
        let (chosen, dataset) = (self.chosen()?, dataset::find(&self.dataset, app)?);
        let n = match self.measures_values() {
            true => values::queries(self, &dataset.base, app)?.len(),
            false => queries::load(&self.splits, &self.filters, &dataset.base)?.len(),
        };
        Ok((n, forecast::all(&chosen, n, &self.llm, app)?))
    }

    /// Returns the data that the results of all systems have in common. If the test split is among
    /// the splits, counts an opening of it; call this just before measuring.
    fn about(&self, dataset: &Dataset, synthetic: bool, app: &App) -> About {
        let is_test = test_split::is_among(&self.splits);
        About {
            dataset: self.dataset.clone(),
            split: queries::joined(&self.splits),
            synthetic,
            openings: is_test.then(|| test_split::count(&dataset.base, app)),
        }
    }
}

/// Results of an evaluation.
#[derive(Serialize)]
pub struct Reply {
    /// The base that was searched.
    #[serde(skip)]
    pub base: Arc<IndexedBase>,
    /// The measured queries; empty if their answers are values instead of nodes.
    #[serde(skip)]
    pub queries: Vec<LabelledQuery>,
    /// Measurements of each system on `queries`; the systems are in the same order as in `figures`.
    #[serde(skip)]
    pub measured: Vec<Measured>,
    /// The figures of each system, for display.
    #[serde(rename = "systems")]
    pub figures: Figures,
}

/// Figures of each system, in the order of the request; the metrics determine their kind.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Figures {
    /// Figures of systems whose rankings are measured.
    Ranks(Vec<SystemFigures<Evaluation>>),
    /// Figures of systems whose answers are measured as sets of nodes.
    Sets(Vec<SetFigures>),
    /// Figures of systems whose answers are values.
    Values(Vec<ValueFigures>),
}

impl Reply {
    /// Whether any system failed on any query.
    pub fn has_failures(&self) -> bool {
        match &self.figures {
            Figures::Values(systems) => systems.iter().any(|one| one.evaluation.failed > 0),
            _ => self.measured.iter().any(|one| one.evaluation.failed > 0),
        }
    }
}

impl Perform for Request {
    const NAME: &'static str = "eval";
    const SUMMARY: &'static str = "Measure systems on labelled queries";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        let chosen = self.chosen()?;
        queries::check_splits(&self.splits, app)?;
        let dataset = dataset::find(&self.dataset, app)?;
        if self.measures_values() {
            return values::measure(self, &chosen, &dataset, app);
        }
        let queries = queries::load(&self.splits, &self.filters, &dataset.base)?;
        let sets = self.metrics == Metrics::Set;
        let keep_rankings = sets || self.keep_rankings;
        if keep_rankings {
            check_kept(queries.len(), self.depth.get())?;
        }
        let base = dataset::open(&dataset, app)?;
        let asked = queries.iter().map(|query| (query.id, query.text.clone())).collect();
        let opened = open(&chosen, &base, asked, self.sandbox, &self.llm, app)?;
        let by = self.by.as_deref();
        let labels = by.map(|by| queries::labels(by, &queries, &opened.systems)).transpose()?;
        let about = self.about(&dataset, is_synthetic(&queries), app);
        let definitions = match self.metrics {
            Metrics::Trec => Definitions::Trec,
            Metrics::Stark | Metrics::Set | Metrics::Value => Definitions::Stark,
        };
        let (depth, keep) = (self.depth.get(), keep_rankings);
        let benchmark = Benchmark { queries: &queries, base: &base, depth, definitions, keep };
        let measured = measured(&benchmark, &opened, app)?;
        let labels = labels.as_deref();
        let figures = match sets {
            true => Figures::Sets(sets::figures(&about, &measured, &queries, labels)?),
            false => Figures::Ranks(ranked(self, &about, &measured, labels)?),
        };
        measured.iter().for_each(|one| one.warn(app));
        Ok(Reply { base, queries, measured, figures })
    }
}

/// Fails if rankings of `n` queries with `depth` nodes each are too many to be kept in memory.
fn check_kept(n: usize, depth: usize) -> Result<()> {
    match n.saturating_mul(depth) > MAX_KEPT {
        true => Err(anyhow!(
            "rankings of {n} queries to depth {depth} exceed the limit of {MAX_KEPT} nodes"
        ))
        .hint("lower --depth, or evaluate fewer queries at a time"),
        false => Ok(()),
    }
}

/// Measures every system on the benchmark, and its spending on language models.
fn measured(benchmark: &Benchmark<'_>, opened: &Opened, app: &App) -> Result<Vec<Measured>> {
    let ledger = opened.assistant.as_ref().map(|assistant| assistant.llm().ledger());
    let spent = || -> (Spending, Spending) {
        ledger.map(|ledger| (ledger.total(), ledger.total_used())).unwrap_or_default()
    };
    let measure = |(name, system): &(String, Box<dyn Retriever>)| {
        let before = spent();
        let one = benchmark.measure(name, &**system, app)?;
        let after = spent();
        Ok(Measured { llm: after.0.since(before.0), used: after.1.since(before.1), ..one })
    };
    opened.systems.iter().map(measure).collect()
}

/// Returns the figures of each system's rankings: over all queries, over the queries of each label,
/// and compared with other systems. `labels[i]` is the label of query `i`.
fn ranked(
    request: &Request,
    about: &About,
    measured: &[Measured],
    labels: Option<&[String]>,
) -> Result<Vec<SystemFigures<Evaluation>>> {
    let mut versus = comparisons(measured, request.pairs)?;
    let figures = measured.iter().map(|one| {
        let evaluation = one.evaluation.clone();
        let groups = |labels| evaluate_groups(&one.measurements.results, labels, SEED);
        Ok(SystemFigures {
            llm: Some(one.llm),
            asked: (one.used.calls > 0).then_some(one.used),
            unassisted: Some(one.measurements.unassisted).filter(|&n| n > 0),
            depth: Some(request.depth.get()).filter(|&depth| depth != DEPTH.get()),
            definitions: Some(request.metrics).filter(|&name| name != Metrics::default()),
            invalid: one.invalid(),
            groups: labels.map(groups).transpose()?,
            versus: versus.remove(&one.system).unwrap_or_default(),
            ..SystemFigures::new(about, &one.system, evaluation)
        })
    });
    figures.collect()
}

/// Compares each system with the first one or, with `every_pair`, with all before it; returns the
/// comparisons by the name of the later system. Leaves out systems for which a service gave no
/// reply. Corrects p-values over all comparisons (Holm 1979).
fn comparisons(
    measured: &[Measured],
    every_pair: bool,
) -> Result<BTreeMap<String, Vec<figures::Versus>>> {
    let measured: Vec<&Measured> =
        measured.iter().filter(|one| one.measurements.outages == 0).collect();
    let mut compared = Vec::new();
    for (at, one) in measured.iter().enumerate() {
        let others = if every_pair { &measured[..at] } else { &measured[..at.min(1)] };
        for other in others {
            let (own, theirs) = (&one.measurements.results, &other.measurements.results);
            for metric in COMPARED {
                let comparison = compare(own, theirs, metric, SEED)?;
                compared.push((&one.system, &other.system, metric, comparison));
            }
        }
    }
    let mut by_system: BTreeMap<String, Vec<figures::Versus>> = BTreeMap::new();
    if compared.is_empty() {
        return Ok(by_system);
    }
    let p_values: Vec<f64> = compared.iter().map(|one| one.3.p).collect();
    for ((system, other, metric, comparison), p_holm) in
        compared.into_iter().zip(statistics::holm(&p_values)?)
    {
        let versus = figures::Versus { system: other.clone(), metric, comparison, p_holm };
        by_system.entry(system.clone()).or_default().push(versus);
    }
    Ok(by_system)
}
