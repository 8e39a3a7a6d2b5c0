//! Trains the graph network on labelled queries, epoch by epoch, until validation stops improving.
//! Writes a checkpoint when the caller stops training.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use safetensors::Dtype;

use crate::{
    Adam, Record, Result, TrainError, Watch,
    epochs::{CheckpointInfo, Limits, Progress, State, Task, Trainer, learn},
    graph::{
        ModelInfo, Settings, Variant,
        model::{self, kinds_of},
        net::{DType, Kinds, gradient, initial_weights, n_weights, scores},
        subgraph::WorkingGraph,
    },
};
use agent_dataset::LabelledQuery;
use agent_index::arrays::Arrays;
use agent_kb::best;

/// Name of a checkpoint's file with weights and state of the optimizer.
const STATE: &str = "state";

/// A labelled query with its working graph.
struct Example<'a> {
    graph: WorkingGraph,
    /// Indexes of the answers among the candidates of the working graph.
    answers: Vec<u32>,
    query: &'a LabelledQuery,
}

/// Weights in training, with the state of the optimizer.
struct Weights {
    all: Vec<f64>,
    adam: Adam,
    /// Weights at the best validation so far.
    best: Vec<f64>,
}

/// Inputs of training, which do not change.
struct Run<'a> {
    task: &'a Task<'a, Settings>,
    kinds: Kinds,
    /// Training queries with an answer in their working graph.
    training: Vec<Example<'a>>,
    /// Validation queries with an answer among the candidates of the knowledge base.
    validation: Vec<Example<'a>>,
    watch: Watch<'a, Progress>,
}

/// Trains a network on training queries, until validation queries show no more improvement, and
/// writes the model.
///
/// Takes O(epochs x queries x edges of a working graph) time, and memory for the working graphs of
/// all queries, at most about 80 KB each.
///
/// # Errors
/// [`TrainError::NoQueries`] if no training query has an answer in its working graph, or if no
/// validation query has an answer among the candidates of the knowledge base;
/// [`TrainError::Stopped`] soon after `stop` is set, once the checkpoint is written;
/// [`TrainError::NoCheckpoint`] if training cannot resume.
pub fn train(
    task: &Task<'_, Settings>,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<Record<ModelInfo>> {
    let run = Run::new(task, Watch { report, stop })?;
    let (weights, curve) = learn(&run, task.resume)?;
    let reached = run.validation.iter().filter(|example| !example.answers.is_empty()).count();
    let embedder = task.base.embedder().fingerprint();
    let embedder = (task.settings.variant == Variant::Qagnn).then(|| embedder.to_owned());
    let info = ModelInfo {
        embedder,
        settings: task.settings.clone(),
        kinds: [run.kinds.nodes, run.kinds.edges],
        taught: run.training.len(),
        reached: [reached, run.validation.len()],
    };
    let record = model::save(task.dir, task.source, info, &weights.best, curve)?;
    task.remove_checkpoint()?;
    Ok(record)
}

impl<'a> Run<'a> {
    fn new(task: &'a Task<'a, Settings>, watch: Watch<'a, Progress>) -> Result<Self> {
        let base = task.base;
        let (done, total) = (AtomicUsize::new(0), task.train.len() + task.val.len());
        let example = |query: &'a LabelledQuery| -> Result<Example<'a>> {
            watch.check_stop()?;
            let graph = WorkingGraph::new(base, &query.text, task.settings.variant)?;
            let is_answer =
                |index: &usize| query.answers.binary_search(&graph.candidates()[*index]).is_ok();
            let answers =
                (0..graph.n_candidates).filter(is_answer).map(|index| index as u32).collect();
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            (watch.report)(Progress::Preparing { stage: "working graphs", done, total });
            Ok(Example { graph, answers, query })
        };
        let examples = |queries: &'a [LabelledQuery]| -> Result<Vec<Example<'a>>> {
            queries.par_iter().map(example).collect()
        };
        let (mut training, mut validation) = (examples(task.train)?, examples(task.val)?);
        training.retain(|example| !example.answers.is_empty());
        validation
            .retain(|example| example.query.answers.iter().any(|&node| base.kb.is_candidate(node)));
        for (split, examples) in [("train", &training), ("val", &validation)] {
            if examples.is_empty() {
                return Err(TrainError::NoQueries(split));
            }
        }
        let kinds = kinds_of(base, task.settings.variant);
        Ok(Self { task, kinds, training, validation, watch })
    }

    fn system(&self) -> &'static str {
        self.task.settings.variant.name()
    }
}

impl Trainer for Run<'_> {
    type Weights = Weights;

    fn limits(&self) -> Limits {
        let Settings { epochs, patience, batch, .. } = *self.task.settings;
        Limits { epochs, patience, batches: self.training.len().div_ceil(batch) }
    }

    fn watch(&self) -> &Watch<'_, Progress> {
        &self.watch
    }

    fn begin(&self) -> Result<(Weights, f64)> {
        let Settings { seed, rate, ablation, .. } = *self.task.settings;
        let all = initial_weights(self.kinds, seed);
        let (adam, best) = (Adam::new(all.len(), rate), all.clone());
        // The loss before training is the loss of the first query.
        let loss = match self.training.first() {
            None => 0.0,
            Some(Example { graph, answers, .. }) => {
                gradient(&all, self.kinds, graph, answers, ablation, DType::F32)?.0
            }
        };
        Ok((Weights { all, adam, best }, loss))
    }

    fn write(&self, state: &State<Weights>) -> Result<()> {
        let State { position, curve, weights } = state;
        let (settings, position) = (self.task.settings.clone(), position.clone());
        let stopped = CheckpointInfo { settings, position, steps: weights.adam.steps };
        let record = Record::new(self.system(), self.task.source, stopped, curve.clone());
        record.save(self.task.checkpoint, |staging| {
            let Weights { all, adam, best } = weights;
            // Arrays do not support f64, so the bits are stored.
            let numbers =
                [("all", all), ("best", best), ("mean", &adam.mean), ("square", &adam.square)];
            let arrays =
                numbers.map(|(name, numbers)| (name, Dtype::U64, bytemuck::cast_slice(numbers)));
            Arrays::write(&staging.join(STATE), &arrays)?;
            Ok(vec![STATE.to_owned()])
        })?;
        Ok(())
    }

    fn read(&self) -> Result<State<Weights>> {
        let record = self.task.read_checkpoint(self.system())?;
        let arrays = Arrays::open(&self.task.checkpoint.join(STATE))?;
        let numbers = |name| -> Result<Vec<f64>> {
            let bits = arrays.get::<u64>(name)?;
            if bits.as_slice().len() != n_weights(self.kinds) {
                return Err(self.task.no_checkpoint("it was written by another version"));
            }
            Ok(bits.as_slice().iter().map(|&bits| f64::from_bits(bits)).collect())
        };
        let CheckpointInfo { position, steps, settings } = record.model;
        let (mean, square) = (numbers("mean")?, numbers("square")?);
        let adam = Adam { rate: settings.rate, steps, mean, square };
        let weights = Weights { all: numbers("all")?, adam, best: numbers("best")? };
        Ok(State { position, curve: record.curve, weights })
    }

    fn step(&self, weights: &mut Weights, epoch: usize, batch: usize) -> Result<f64> {
        let Run { task, kinds, training, .. } = self;
        let Settings { seed, batch: size, rate, decay, ablation, .. } = *task.settings;
        let mut order: Vec<usize> = (0..training.len()).collect();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(epoch as u64 + 1);
        order.shuffle(&mut random);
        let indexes = &order[batch * size..training.len().min((batch + 1) * size)];
        let gradient = |&index: &usize| {
            let Example { graph, answers, .. } = &training[index];
            gradient(&weights.all, *kinds, graph, answers, ablation, DType::F32)
        };
        let parts: Vec<(f64, Vec<f64>)> =
            indexes.par_iter().map(gradient).collect::<Result<_, _>>()?;
        let (mut loss, mut sum) = (0.0, vec![0.0; weights.all.len()]);
        let n = parts.len().max(1) as f64;
        for (example_loss, part) in &parts {
            loss += example_loss / n;
            // Ascends the negative loss.
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum -= part / n);
        }
        weights.all.iter_mut().for_each(|weight| *weight *= 1.0 - rate * decay);
        weights.adam.ascend(&mut weights.all, &sum);
        Ok(loss)
    }

    /// Ranks the candidates of each validation query's working graph. A query without an answer
    /// among these candidates has the reciprocal rank 0.
    fn validate(&self, weights: &Weights) -> Result<f64> {
        let Run { task, kinds, validation, .. } = self;
        let rank = |Example { graph, query, .. }: &Example<'_>| -> Result<f64> {
            let ablation = task.settings.ablation;
            if graph.n_candidates == 0 {
                return Ok(0.0);
            }
            let scores = scores(&weights.all, *kinds, graph, ablation, DType::F32)?;
            let scores = scores.into_iter().map(|score| score as f32);
            let pairs = graph.candidates().iter().copied().zip(scores).collect();
            let ranking = best(pairs, graph.n_candidates);
            let first =
                ranking.iter().position(|pair| query.answers.binary_search(&pair.0).is_ok());
            Ok(first.map_or(0.0, |index| 1.0 / (index + 1) as f64))
        };
        let ranks: Vec<f64> = validation.par_iter().map(rank).collect::<Result<_, _>>()?;
        Ok(ranks.iter().sum::<f64>() / ranks.len().max(1) as f64)
    }

    fn keep(&self, weights: &mut Weights) {
        weights.best.clone_from(&weights.all);
    }
}
