//! Learns the weights of the network from labelled queries, epoch by epoch, until validation queries
//! are ranked no better. What is needed to go on is written when the caller stops it, and only then.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use safetensors::Dtype;

use crate::{
    Adam, Look, Record, TrainError, Watch,
    epochs::{Learner, Limits, Position, Progress, Stopped, Task, learn, look, or_left},
    graph::{
        Described, Settings,
        model::{self, SYSTEM, kinds_of},
        net::{Kinds, Precision, first_weights, gradient, n_weights, scores},
        subgraph::WorkingGraph,
    },
};
use agent_dataset::LabelledQuery;
use agent_index::arrays::Arrays;
use agent_kb::best;

/// The arrays of a checkpoint.
const STATE: &str = "state";

/// A query with its working graph.
struct Example<'a> {
    graph: WorkingGraph,
    /// The places of the answers among the candidates.
    answers: Vec<u32>,
    query: &'a LabelledQuery,
}

/// All that changes while it learns.
struct State {
    position: Position,
    curve: Vec<Look>,
    weights: Weights,
}

/// What is learnt.
struct Weights {
    all: Vec<f64>,
    adam: Adam,
    /// Those of the best look.
    best: Vec<f64>,
}

/// All that does not change.
struct Run<'a> {
    task: &'a Task<'a, Settings>,
    kinds: Kinds,
    /// Training queries with an answer among their candidates.
    taught: Vec<Example<'a>>,
    /// Validation queries with an answer that may be one.
    held: Vec<Example<'a>>,
    watch: Watch<'a, Progress>,
}

/// Weights that learn in one run.
struct Learning<'a> {
    run: &'a Run<'a>,
    weights: &'a mut Weights,
}

/// Learns a network and writes it: training queries teach, validation queries say after which epoch to
/// stop.
///
/// O(epochs x queries x edges of a working graph). Memory: the working graphs of all queries, at most
/// about 80 KB each.
///
/// # Errors
/// [`TrainError::NoQueries`]; [`TrainError::Stopped`] soon after `stop` is set, once the checkpoint is
/// written; [`TrainError::NoCheckpoint`] where it cannot go on from one.
pub fn train(
    task: &Task<'_, Settings>,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<Record<Described>, TrainError> {
    let run = Run::new(task, Watch { report, stop })?;
    let mut state = match task.resume {
        true => run.read()?,
        false => run.begin()?,
    };
    let Settings { epochs, patience, batch, .. } = *task.settings;
    let limits = Limits { epochs, patience, batches: run.taught.len().div_ceil(batch) };
    let State { position, curve, weights } = &mut state;
    let learner = &mut Learning { run: &run, weights };
    let learnt = learn(learner, position, curve, limits, &|| run.watch.go_on(), run.watch.report);
    or_left(learnt, || run.write(&state))?;
    (run.watch.report)(Progress::Completing);
    let reached = run.held.iter().filter(|example| !example.answers.is_empty()).count();
    let described = Described {
        settings: task.settings.clone(),
        kinds: [run.kinds.nodes, run.kinds.edges],
        taught: run.taught.len(),
        reached: [reached, run.held.len()],
    };
    let record = model::save(task.dir, task.source, described, &state.weights.best, state.curve)?;
    task.finished()?;
    Ok(record)
}

impl<'a> Run<'a> {
    fn new(task: &'a Task<'a, Settings>, watch: Watch<'a, Progress>) -> Result<Self, TrainError> {
        let base = task.base;
        let (done, of) = (AtomicUsize::new(0), task.train.len() + task.val.len());
        let example = |query: &'a LabelledQuery| -> Result<Example<'a>, TrainError> {
            watch.go_on()?;
            let graph = WorkingGraph::new(base, &query.text)?;
            let is_answer =
                |place: &usize| query.answers.binary_search(&graph.candidates()[*place]).is_ok();
            let answers =
                (0..graph.n_candidates).filter(is_answer).map(|place| place as u32).collect();
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            (watch.report)(Progress::Preparing { what: "working graphs", done, of });
            Ok(Example { graph, answers, query })
        };
        let of = |queries: &'a [LabelledQuery]| -> Result<Vec<Example<'a>>, TrainError> {
            queries.par_iter().map(example).collect()
        };
        let (mut taught, mut held) = (of(task.train)?, of(task.val)?);
        taught.retain(|example| !example.answers.is_empty());
        held.retain(|one| one.query.answers.iter().any(|&node| base.kb.is_candidate(node)));
        for (split, examples) in [("train", &taught), ("val", &held)] {
            if examples.is_empty() {
                return Err(TrainError::NoQueries { split });
            }
        }
        Ok(Self { task, kinds: kinds_of(base), taught, held, watch })
    }

    /// The weights before any query has taught.
    fn begin(&self) -> Result<State, TrainError> {
        let Settings { seed, rate, epochs, without, .. } = *self.task.settings;
        let all = first_weights(self.kinds, seed);
        let (adam, best) = (Adam::new(all.len(), rate), all.clone());
        // Before all epochs the loss is that of the first query.
        let loss = match self.taught.first() {
            None => 0.0,
            Some(Example { graph, answers, .. }) => {
                gradient(&all, self.kinds, graph, answers, without, Precision::Single)?.0
            }
        };
        let mut weights = Weights { all, adam, best };
        let (mut curve, learner) = (Vec::new(), &mut Learning { run: self, weights: &mut weights });
        let first = look(learner, &mut curve, 0, loss)?;
        (self.watch.report)(Progress::Looked(first, epochs));
        Ok(State { position: Position::default(), curve, weights })
    }

    /// Writes what is needed to go on.
    fn write(&self, state: &State) -> Result<(), TrainError> {
        let State { position, curve, weights } = state;
        let (settings, position) = (self.task.settings.clone(), position.clone());
        let stopped = Stopped { settings, position, steps: weights.adam.steps };
        let record = Record::new(SYSTEM, self.task.source, stopped, curve.clone());
        record.save(self.task.checkpoint, &[STATE], |staging| {
            let Weights { all, adam, best } = weights;
            // As bits, since there are no arrays of longer numbers.
            let of = [("all", all), ("best", best), ("mean", &adam.mean), ("square", &adam.square)];
            let arrays =
                of.map(|(name, numbers)| (name, Dtype::U64, bytemuck::cast_slice(numbers)));
            Ok(Arrays::write(&staging.join(STATE), &arrays)?)
        })?;
        Ok(())
    }

    /// Reads what an earlier run left to go on with.
    fn read(&self) -> Result<State, TrainError> {
        let record = self.task.stopped(SYSTEM)?;
        let arrays = Arrays::open(&self.task.checkpoint.join(STATE))?;
        let numbers = |name| -> Result<Vec<f64>, TrainError> {
            let bits = arrays.get::<u64>(name)?;
            if bits.as_slice().len() != n_weights(self.kinds) {
                return Err(self.task.no_checkpoint("it is of another version"));
            }
            Ok(bits.as_slice().iter().map(|&bits| f64::from_bits(bits)).collect())
        };
        let Stopped { position, steps, settings } = record.model;
        let (mean, square) = (numbers("mean")?, numbers("square")?);
        let adam = Adam { rate: settings.rate, steps, mean, square };
        let weights = Weights { all: numbers("all")?, adam, best: numbers("best")? };
        Ok(State { position, curve: record.curve, weights })
    }
}

impl Learner for Learning<'_> {
    fn begin(&mut self, _epoch: usize) -> Result<(), TrainError> {
        Ok(())
    }

    fn step(&mut self, epoch: usize, batch: usize) -> Result<f64, TrainError> {
        let Run { task, kinds, taught, .. } = self.run;
        let Settings { seed, batch: size, rate, decay, without, .. } = *task.settings;
        let mut order: Vec<usize> = (0..taught.len()).collect();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(epoch as u64 + 1);
        order.shuffle(&mut random);
        let some = &order[batch * size..taught.len().min((batch + 1) * size)];
        let of = |&at: &usize| {
            let Example { graph, answers, .. } = &taught[at];
            gradient(&self.weights.all, *kinds, graph, answers, without, Precision::Single)
        };
        let parts: Vec<(f64, Vec<f64>)> = some.par_iter().map(of).collect::<Result<_, _>>()?;
        let (mut loss, mut sum) = (0.0, vec![0.0; self.weights.all.len()]);
        let n = parts.len().max(1) as f64;
        for (of_one, part) in &parts {
            loss += of_one / n;
            // Ascent of the negative loss.
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum -= part / n);
        }
        self.weights.all.iter_mut().for_each(|weight| *weight *= 1.0 - rate * decay);
        self.weights.adam.ascend(&mut self.weights.all, &sum);
        Ok(loss)
    }

    /// Among the candidates of each query; one whose answers are not among them counts 0.
    fn validate(&mut self) -> Result<f64, TrainError> {
        let Run { task, kinds, held, .. } = self.run;
        let rank = |Example { graph, query, .. }: &Example<'_>| -> Result<f64, TrainError> {
            let without = task.settings.without;
            if graph.n_candidates == 0 {
                return Ok(0.0);
            }
            let scores = scores(&self.weights.all, *kinds, graph, without, Precision::Single)?;
            let scores = scores.into_iter().map(|score| score as f32);
            let pairs = graph.candidates().iter().copied().zip(scores).collect();
            let ranking = best(pairs, graph.n_candidates);
            let first =
                ranking.iter().position(|pair| query.answers.binary_search(&pair.0).is_ok());
            Ok(first.map_or(0.0, |at| 1.0 / (at + 1) as f64))
        };
        let ranks: Vec<f64> = held.par_iter().map(rank).collect::<Result<_, _>>()?;
        Ok(ranks.iter().sum::<f64>() / ranks.len().max(1) as f64)
    }

    fn keep(&mut self) {
        self.weights.best.clone_from(&self.weights.all);
    }
}
