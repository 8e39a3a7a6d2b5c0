//! Runs programs on labelled queries, so that their ranks, tool calls and times can be compared.
//! Does not depend on what the comparison is for.

use std::{fmt, sync::Arc};

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{App, Dataset, Explain, Result, all_threads, dataset, each};
use agent_dataset::{LabelledQuery, Split, load_split};
use agent_infer::{
    ParamValues, Runtime,
    bundle::{Bundle, router::features},
    merged_routes, routes,
};
use agent_optimize::trial::mean;
use agent_retrieve::eval::{Comparison, SEED};
use agent_sandbox::{SandboxOptions, Workers, program::Program};
use agent_tools::ToolCache;

/// Split of the queries that programs are compared on; never the test split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// Training queries
    Train,
    /// Validation queries
    #[default]
    Val,
}

impl On {
    /// Returns the split that holds the queries.
    pub fn split(self) -> Split {
        match self {
            Self::Train => Split::Train,
            Self::Val => Split::Val,
        }
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.split().fmt(f)
    }
}

/// Size of the cache of tool calls, in bytes.
const CACHE_BYTES: usize = 512 << 20;

/// A base and labelled queries, on which programs run.
pub struct Ground {
    /// Runtime without a cache, for measuring the cost of one program.
    runtime: Arc<Runtime>,
    /// Runtime with a cache that all programs share.
    cached: Arc<Runtime>,
    /// The queries, in the order of the split.
    pub queries: Vec<LabelledQuery>,
}

/// Result of a program on one query.
pub struct Answer {
    /// Reciprocal rank of the first correct answer in the program's ranking or, if the program
    /// failed, in the default candidates.
    pub rank: f32,
    tool_calls: u64,
    ms: f64,
    failed: bool,
}

/// Cost of a program over some queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Mean number of tool calls per query.
    pub tool_calls: f64,
    /// Mean wall time per query, in milliseconds, while all cores are busy.
    pub ms: f64,
    /// Number of queries on which the program failed.
    pub failed: usize,
}

impl Ground {
    /// Opens a dataset with at most `most` queries of the split (but at least 1), evenly spaced.
    ///
    /// # Errors
    /// If the split is missing or empty, the dataset cannot be opened, or threads cannot start.
    pub fn open(
        found: &Dataset,
        on: On,
        most: usize,
        options: &SandboxOptions,
        app: &App,
    ) -> Result<Ground> {
        let name = &found.base.name;
        let all = load_split(&found.base, &on.split())?;
        if all.is_empty() {
            return Err(anyhow!("\"{name}\" has no {on} queries"))
                .hint("choose another split with --on");
        }
        let n = all.len();
        let take = n.min(most.max(1));
        let queries = (0..take).filter_map(|at| all.get(at * n / take).cloned()).collect();
        let base = dataset::open(found, app)?;
        let workers = Workers::new(all_threads()).context("cannot start threads for programs")?;
        let workers = Arc::new(workers);
        let cache = Some(Arc::new(ToolCache::new(CACHE_BYTES)));
        let cached = Runtime::in_sandbox(base.clone(), workers.clone(), cache, options);
        let runtime = Runtime::in_sandbox(base, workers, None, options);
        let cached = Arc::new(cached.stoppable(app.stop.clone()));
        let runtime = Arc::new(runtime.stoppable(app.stop.clone()));
        Ok(Ground { runtime, cached, queries })
    }

    /// Keeps the queries for which a bundle's router ranks `category` first; keeps all, with a
    /// notice, if there are none.
    pub fn keep_routed(&mut self, bundle: &Bundle, category: usize, app: &App) {
        let base = self.runtime.base();
        let members = bundle.members();
        let sent = |query: &&LabelledQuery| {
            let merged = merged_routes(&routes(&members, &features(base, &query.text), None));
            merged.first().is_some_and(|pair| pair.0 == category)
        };
        let kept: Vec<LabelledQuery> = self.queries.iter().filter(sent).cloned().collect();
        let (kept_n, n) = (kept.len(), self.queries.len());
        if kept.is_empty() {
            app.watch.notice("the router sends no query to the program: all queries are used");
            return;
        }
        self.queries = kept;
        app.watch.notice(&format!(
            "the router sends {kept_n} of {n} queries to the program; --all uses all queries"
        ));
    }

    /// Returns the parameters that a program declares.
    ///
    /// # Errors
    /// If the program does not compile or its parameters are invalid, with the reason as text.
    pub fn declared(&self, program: &Program) -> Result<Vec<agent_sandbox::Param>, String> {
        let compiled = self.runtime.compile(program).map_err(|failure| failure.to_string())?;
        self.runtime.declared_params(&compiled).map_err(|failure| failure.to_string())
    }

    /// Runs a program on all queries, in parallel. With `cached`, all programs share a cache of
    /// tool calls: this is faster for many similar programs, but makes the measured times
    /// meaningless. Answers are in the order of the queries.
    ///
    /// # Errors
    /// If the program does not compile, a query cannot be searched, or the operation was stopped.
    pub fn answers(
        &self,
        program: &Program,
        params: &ParamValues,
        cached: bool,
        app: &App,
    ) -> Result<Vec<Answer>> {
        let runtime = if cached { &self.cached } else { &self.runtime };
        let id = program.short_id();
        let compiled =
            runtime.compile(program).with_context(|| format!("program {id} does not run"))?;
        each(&self.queries, id, "nothing was compared", app, |query| {
            let (ranking, usage, failed) =
                match runtime.run(&compiled, params, &query.text, None)? {
                    Ok(outcome) => (outcome.ranking, outcome.usage, false),
                    Err(failure) => (runtime.default_ranking(&query.text)?, failure.usage, true),
                };
            let rank = runtime.reciprocal_rank(&ranking, &query.answers);
            Ok(Answer { rank, tool_calls: usage.tool_calls, ms: usage.ms, failed })
        })
    }
}

/// Returns the reciprocal rank of each answer, in the order of the answers.
pub fn ranks(answers: &[Answer]) -> Vec<f32> {
    answers.iter().map(|answer| answer.rank).collect()
}

/// Returns the mean cost of a program over its answers.
pub fn cost(answers: &[Answer]) -> Cost {
    let n = answers.len().max(1) as f64;
    Cost {
        tool_calls: answers.iter().map(|answer| answer.tool_calls as f64).sum::<f64>() / n,
        ms: answers.iter().map(|answer| answer.ms).sum::<f64>() / n,
        failed: answers.iter().filter(|answer| answer.failed).count(),
    }
}

/// Compares two programs by their reciprocal ranks on the same queries; differences are `to` minus
/// `from`.
///
/// # Errors
/// If there is no query.
pub fn compare(from: &[f32], to: &[f32]) -> Result<Comparison> {
    let differences: Vec<f64> =
        from.iter().zip(to).map(|(from, to)| f64::from(*to) - f64::from(*from)).collect();
    let difference = mean(to) - mean(from);
    Ok(Comparison { difference, ..Comparison::of_differences(&differences, SEED)? })
}
