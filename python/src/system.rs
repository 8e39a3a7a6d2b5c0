//! A system on a base: answers one question or many in parallel, and is measured on labelled
//! queries.

use std::sync::{Arc, atomic::AtomicBool};

use agent::{
    dataset::{LabelledQuery, Split, load_split},
    eval::{
        Definitions, Evaluation, SEED,
        trec::{self, DocIds},
    },
    index::IndexedBase,
    infer::{self, AnswerRecord, STAND_IN},
    kb::filter::{Condition, matching},
    measure::Measure,
    retrieve::{Baseline, Detail, Filtered, Retriever, check_query},
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::{
    base::Base,
    failure::{Failure, without_gil},
};

/// Number of questions of a batch between two checks for an interrupt of Python.
const AT_ONCE: usize = 64;
/// Maximum number of nodes in an answer.
const MAX_K: usize = 10_000;
/// Maximum number of ranked nodes for a labelled query.
const MAX_DEPTH: usize = 100_000;

/// A method that ranks the nodes of a base for a question.
#[pyclass(frozen)]
pub(crate) struct System {
    pub(crate) base: Arc<IndexedBase>,
    pub(crate) answers: Arc<dyn Retriever>,
}

/// An answer: nodes with scores, best first, and a record with details.
#[pyclass(frozen)]
pub(crate) struct Answer {
    /// Ids of the nodes in a run file; `None` for an id that a run file cannot hold.
    #[pyo3(get)]
    run_ids: Vec<Option<String>>,
    #[pyo3(get)]
    ids: Py<PyArray1<u32>>,
    #[pyo3(get)]
    scores: Py<PyArray1<f32>>,
    /// The JSON that `agent query --json` prints, without question and bundle.
    #[pyo3(get)]
    json: String,
}

/// Measurements of a system on labelled queries.
#[pyclass(frozen)]
pub(crate) struct Measured {
    base: Arc<IndexedBase>,
    /// The JSON that `agent eval --json` prints for the system: n, failed, metrics, intervals,
    /// latencies.
    #[pyo3(get)]
    json: String,
    /// Ids of the queries.
    #[pyo3(get)]
    queries: Vec<i64>,
    /// Ranking of each query.
    rankings: Vec<agent::retrieve::Ranking>,
    /// Metrics of each query, in the order of `metrics` in the JSON.
    #[pyo3(get)]
    by_query: Vec<Vec<f64>>,
    #[pyo3(get)]
    failures: Vec<(i64, String)>,
}

/// An answer before its conversion for Python.
struct Found {
    run_ids: Vec<Option<String>>,
    ids: Vec<u32>,
    scores: Vec<f32>,
    json: String,
}

impl Found {
    fn into_python(self, py: Python<'_>) -> Answer {
        Answer {
            run_ids: self.run_ids,
            ids: self.ids.into_pyarray(py).unbind(),
            scores: self.scores.into_pyarray(py).unbind(),
            json: self.json,
        }
    }
}

fn within(k: usize, most: usize, what: &str) -> Result<usize, Failure> {
    match (1..=most).contains(&k) {
        true => Ok(k),
        false => Err(Failure::hinted(
            format!("{what} = {k} is out of bounds"),
            format!("give a number from 1 to {most}"),
        )),
    }
}

impl System {
    fn found(
        &self,
        query: &str,
        k: usize,
        explained: usize,
        paths: bool,
    ) -> Result<Found, Failure> {
        let detail = Detail { explained_count: explained, paths };
        let answer = infer::answer(&self.base, &*self.answers, check_query(query)?, k, detail)?;
        let json = serde_json::to_string(&AnswerRecord::new(&self.base.kb, &answer))?;
        let (ids, scores): (Vec<u32>, Vec<f32>) = answer.into_ranking().into_iter().unzip();
        let in_run = DocIds::of_base(&self.base.kb);
        let run_ids = ids.iter().map(|&node| in_run.column(node).ok()).collect();
        Ok(Found { run_ids, ids, scores, json })
    }
}

#[pymethods]
impl System {
    #[getter]
    fn name(&self) -> String {
        self.answers.name()
    }

    /// Returns the same system over the nodes that meet all conditions.
    fn filtered(&self, py: Python<'_>, conditions: Vec<String>) -> PyResult<System> {
        let filtered = || {
            let wrong = |why: String| Failure::Told(why, None);
            let parsed = conditions.iter().map(|text| text.parse::<Condition>());
            let conditions = parsed.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
            let nodes = matching(&self.base.kb, &conditions);
            let nodes = nodes.map_err(|error| wrong(error.to_string()))?;
            Ok(Filtered::new(self.answers.clone(), self.base.clone(), nodes))
        };
        let answers = Arc::new(without_gil(py, filtered)?);
        Ok(System { base: self.base.clone(), answers })
    }

    /// Answers one question.
    fn query(
        &self,
        py: Python<'_>,
        query: String,
        k: usize,
        explained: usize,
        paths: bool,
    ) -> PyResult<Answer> {
        let found =
            without_gil(py, || self.found(&query, within(k, MAX_K, "k")?, explained, paths))?;
        Ok(found.into_python(py))
    }

    /// Answers questions in parallel; answers are in the order of the questions. Checks for an
    /// interrupt of Python before every [`AT_ONCE`] questions.
    fn query_batch(
        &self,
        py: Python<'_>,
        queries: Vec<String>,
        k: usize,
        paths: bool,
    ) -> PyResult<Vec<Answer>> {
        let mut answers = Vec::with_capacity(queries.len());
        for (from, some) in queries.chunks(AT_ONCE).enumerate() {
            py.check_signals()?;
            let found = without_gil(py, || {
                let k = within(k, MAX_K, "k")?;
                let one = |(at, query): (usize, &String)| {
                    self.found(query, k, 0, paths).map_err(|failure| match failure {
                        Failure::Told(message, hint) => {
                            Failure::Told(format!("query {}: {message}", from * AT_ONCE + at), hint)
                        }
                        other => other,
                    })
                };
                some.par_iter().enumerate().map(one).collect::<Result<Vec<_>, Failure>>()
            })?;
            answers.extend(found.into_iter().map(|found| found.into_python(py)));
        }
        Ok(answers)
    }

    /// Measures the system on the labelled queries of a split or file.
    fn measure(
        &self,
        py: Python<'_>,
        base: &Base,
        split: String,
        depth: usize,
        definitions: String,
    ) -> PyResult<Measured> {
        without_gil(py, || {
            let depth = within(depth, MAX_DEPTH, "depth")?;
            let definitions = match definitions.as_str() {
                "stark" => Definitions::Stark,
                "trec" => Definitions::Trec,
                other => {
                    return Err(Failure::hinted(
                        format!("unknown metrics {other:?}"),
                        "give \"stark\" or \"trec\"",
                    ));
                }
            };
            let Ok(split) = split.parse::<Split>();
            let queries = load_split(&base.installed, &split)?;
            let stand_in = Baseline::new(self.base.clone(), STAND_IN);
            let measured = Measure {
                queries: &queries,
                base: &self.base,
                stand_in: &stand_in,
                definitions,
                depth,
                keep_rankings: true,
                stop: &AtomicBool::new(false),
                progress: &|_| {},
            }
            .run(&*self.answers)?;
            let evaluation = Evaluation::from_results(&measured.results, SEED)?;
            let failed = measured.results.iter();
            let failed =
                failed.filter_map(|one| Some((one.query_id, one.failure.clone()?))).collect();
            Ok(Measured {
                base: self.base.clone(),
                json: serde_json::to_string(&evaluation)?,
                queries: queries.iter().map(|query: &LabelledQuery| query.id).collect(),
                by_query: measured
                    .results
                    .iter()
                    .map(|one| one.metrics.values().to_vec())
                    .collect(),
                rankings: measured.rankings,
                failures: failed,
            })
        })
    }
}

/// Ids and scores of a ranking.
type Arrays<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f32>>);

#[pymethods]
impl Measured {
    /// Returns the ids and scores of the query at a position, from 0.
    fn ranking<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Arrays<'py>> {
        let ranking = without_gil(py, || {
            let n = self.rankings.len();
            let ranking = self.rankings.get(at).cloned();
            ranking.ok_or_else(|| Failure::Told(format!("there are {n} queries, from 0"), None))
        })?;
        let (ids, scores): (Vec<u32>, Vec<f32>) = ranking.into_iter().unzip();
        Ok((ids.into_pyarray(py), scores.into_pyarray(py)))
    }

    /// Formats the rankings as `agent eval --run-file` writes them.
    fn to_trec(&self, py: Python<'_>, tag: String) -> PyResult<String> {
        without_gil(py, || {
            let (mut out, ids) = (Vec::new(), DocIds::of_base(&self.base.kb));
            for (query, ranking) in self.queries.iter().zip(&self.rankings) {
                trec::write_run(&mut out, ids, *query, ranking, &tag)?;
            }
            Ok(String::from_utf8(out)?)
        })
    }
}
