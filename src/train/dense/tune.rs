//! Fine-tunes a sentence encoder with the pairs, negatives and loss of this module.
//!
//! All vectors of a batch meet in the loss, but not all of their derivations fit in memory. So a batch
//! is embedded twice (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory
//! Limited Setup"): once without derivatives, which gives the loss and its derivative by the vectors,
//! then in chunks of texts, each of which carries that on to the weights. Chunks go side by side, and
//! what they say is summed in their order.
//!
//! Steps are those of AdamW with warm-up, linear decay and a bound for the norm of the gradient
//! (Devlin et al. 2019; Pascanu et al. 2013).

use std::{path::Path, sync::atomic::AtomicBool};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    Look, Record, TrainError, Watch,
    adam::RowAdam,
    dense::{
        Negatives,
        checkpoint::{self, Kept},
        fit::{preparing, reciprocal_rank},
        loss::{Contrast, contrast},
        pairs::{Pairs, Taught, is_refreshed, lexical_negatives, pool, without_answers},
        transformer::{Transformer, Variables},
    },
    epochs::{Learner, Limits, Position, Progress, Task, learn, look, or_left},
};
use agent_dataset::LabelledQuery;
use agent_embed::{
    bert::{Parts, WordPieces},
    matrix::dot,
};
use agent_index::IndexError;
use agent_kb::{NodeId, best};

/// The system that answers once the base is indexed with the encoder.
pub(super) const SYSTEM: &str = "dense";
/// Word pieces of a chunk, padding included, unless a single text has more.
const CHUNK_TOKENS: usize = 512;
/// The share of all steps in which the step size grows.
const WARM_UP: f64 = 0.1;
/// What a step takes off the weights of products, as a share of the step size.
const DECAY: f64 = 0.01;
/// Longest gradient.
const LONGEST: f64 = 1.0;
/// The first nodes of the encoder itself that negatives are drawn from, answers left out.
const HARD: usize = 200;

/// How an encoder is tuned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Fingerprint of the encoder that it begins with.
    pub encoder: String,
    /// Where negatives come from.
    pub negatives: Negatives,
    /// How often the encoder itself is asked for negatives, evenly over the epochs.
    pub refresh: usize,
    /// Draws made queries, batches, negatives and nodes of the pool.
    pub seed: u64,
    /// Queries that are made.
    pub made: usize,
    /// Nodes that validation queries are ranked among, at most, and those of which the encoder itself
    /// chooses negatives.
    pub pool: usize,
    /// Word pieces read of a text, at most.
    pub max_tokens: usize,
    /// Looks at all pairs, at most.
    pub epochs: usize,
    /// Epochs without a better look at validation queries after which it ends.
    pub patience: usize,
    /// Pairs of a batch.
    pub batch: usize,
    /// Largest step size.
    pub rate: f64,
    /// Divides cosines in the softmax.
    pub temperature: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            encoder: String::new(),
            negatives: Negatives::Bm25,
            refresh: 3,
            seed: 1,
            made: 0,
            pool: 1_000,
            max_tokens: 128,
            epochs: 3,
            patience: 4,
            batch: 16,
            rate: 2e-5,
            temperature: 0.05,
        }
    }
}

/// How an encoder was tuned, and what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuned {
    /// How it was tuned.
    pub settings: Settings,
    /// Numbers of a vector.
    pub dim: usize,
    /// Weights.
    pub weights: usize,
    /// Made queries that taught.
    pub made: usize,
    /// Nodes that validation queries were ranked among.
    pub pool: usize,
}

/// The encoder that is tuned.
pub struct Begun {
    parts: Parts,
    tensors: Vec<Vec<usize>>,
    /// The tensors as runs of weights, each with its decay.
    runs: Vec<(usize, f64)>,
}

impl Begun {
    /// Opens a sentence encoder of the BERT family that reads so many word pieces of a text, at most.
    ///
    /// # Errors
    /// That it is none, or a file is missing or damaged.
    pub fn open(dir: &Path, max_tokens: usize) -> Result<Self, TrainError> {
        let parts = Parts::open(dir, max_tokens).map_err(IndexError::from)?;
        let tensors: Vec<Vec<usize>> =
            parts.tensors().into_iter().map(|(_, shape)| shape).collect();
        let run = |shape: &Vec<usize>| {
            // What scales and shifts has one dimension.
            (shape.iter().product(), if shape.len() > 1 { DECAY } else { 0.0 })
        };
        let runs = tensors.iter().map(run).collect();
        Ok(Self { parts, tensors, runs })
    }

    /// Identifies it with its weights.
    pub fn fingerprint(&self) -> &str {
        self.parts.fingerprint()
    }

    fn transformer(&self) -> Transformer<'_> {
        let Self { parts, tensors, .. } = self;
        Transformer { shape: parts.shape(), pooling: parts.pooling(), tensors }
    }
}

/// All that changes while it learns.
struct State {
    position: Position,
    curve: Vec<Look>,
    weights: Weights,
}

/// What is learnt.
struct Weights {
    numbers: Vec<f32>,
    adam: RowAdam,
    /// The numbers at the best look.
    best: Vec<f32>,
    /// For each labelled query nodes that do not answer it, of which negatives are drawn.
    negatives: Vec<Vec<NodeId>>,
}

/// Weights that learn in one run.
struct Learning<'a> {
    run: &'a Run<'a>,
    weights: &'a mut Weights,
}

/// All that does not change.
struct Run<'a> {
    task: &'a Task<'a, Settings>,
    begun: &'a Begun,
    pairs: Pairs<String>,
    /// Validation queries with an answer that may be one, and the nodes they are ranked among.
    held: Vec<LabelledQuery>,
    pool: Vec<NodeId>,
    watch: Watch<'a, Progress>,
}

/// Tunes an encoder and writes it as a directory like the one that it came from: training queries
/// teach, validation queries say after which epoch to stop.
///
/// O(epochs x pairs x word pieces x weights). Memory: six numbers of 4 bytes for each weight and three
/// more for each thread, and the rows of all layers of 512 word pieces for each thread:
/// some 40 numbers of 4 bytes for each layer, word piece and number of a row.
///
/// # Errors
/// [`TrainError::NoQueries`]; [`TrainError::Network`], also where the loss is no number any more;
/// [`TrainError::Stopped`] soon after `stop` is set, once the checkpoint is written;
/// [`TrainError::NoCheckpoint`] where it cannot go on from one.
pub fn tune(
    task: &Task<'_, Settings>,
    begun: &Begun,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<Record<Tuned>, TrainError> {
    let run = Run::new(task, begun, Watch { report, stop })?;
    let mut state = match task.resume {
        true => run.read()?,
        false => run.begin()?,
    };
    let limits = Limits {
        epochs: task.settings.epochs,
        patience: task.settings.patience,
        batches: run.n_batches(),
    };
    let State { position, curve, weights } = &mut state;
    let learner = &mut Learning { run: &run, weights };
    let learnt = learn(learner, position, curve, limits, &|| run.watch.go_on(), run.watch.report);
    or_left(learnt, || run.write(&state))?;
    (run.watch.report)(Progress::Completing);
    let State { curve, weights: Weights { best, .. }, .. } = state;
    let tuned = Tuned {
        settings: task.settings.clone(),
        dim: begun.parts.shape().hidden,
        weights: best.len(),
        made: run.pairs.queries.len() - run.pairs.n_labelled,
        pool: run.pool.len(),
    };
    let record = Record::new(SYSTEM, task.source, tuned, curve);
    let record = record.save_all(task.dir, |staging| {
        Ok(begun.parts.write(staging, &best).map_err(IndexError::from)?)
    })?;
    task.finished()?;
    Ok(record)
}

impl<'a> Run<'a> {
    fn new(
        task: &'a Task<'a, Settings>,
        begun: &'a Begun,
        watch: Watch<'a, Progress>,
    ) -> Result<Self, TrainError> {
        let Task { base, settings, train, val, .. } = *task;
        (watch.report)(preparing("pairs"));
        let pairs = Pairs::of_texts(base, train, settings.made, settings.seed);
        let may =
            |query: &&LabelledQuery| query.answers.iter().any(|&node| base.kb.is_candidate(node));
        if !train.iter().any(|query| may(&query)) {
            return Err(TrainError::NoQueries { split: "train" });
        }
        let held: Vec<LabelledQuery> = val.iter().filter(may).cloned().collect();
        if held.is_empty() {
            return Err(TrainError::NoQueries { split: "val" });
        }
        let pool = pool(base, &held, settings.pool, settings.seed);
        watch.go_on()?;
        Ok(Self { task, begun, pairs, held, pool, watch })
    }

    /// The encoder before any pair has taught.
    fn begin(&self) -> Result<State, TrainError> {
        let Task { base, train, settings, .. } = *self.task;
        (self.watch.report)(preparing("negatives"));
        let negatives = lexical_negatives(base, train);
        let numbers = self.begun.parts.numbers().map_err(IndexError::from)?;
        self.watch.go_on()?;
        let adam = RowAdam::new(numbers.len(), settings.rate);
        let best = numbers.clone();
        let mut weights = Weights { numbers, adam, best, negatives };
        (self.watch.report)(preparing("first look"));
        // Before all epochs the loss is that of one batch.
        let variables = self.begun.transformer().variables(&weights.numbers)?;
        let loss = self.contrast(&variables, &weights.negatives, 0, 0)?.0.loss;
        drop(variables);
        let (mut curve, learner) = (Vec::new(), &mut Learning { run: self, weights: &mut weights });
        let first = look(learner, &mut curve, 0, loss)?;
        (self.watch.report)(Progress::Looked(first, settings.epochs));
        Ok(State { position: Position::default(), curve, weights })
    }

    fn n_batches(&self) -> usize {
        self.pairs.all.len().div_ceil(self.task.settings.batch)
    }

    /// The step size of a step, from 0: it grows to the largest, then falls to 0.
    fn rate(&self, step: usize) -> f64 {
        let n = (self.task.settings.epochs * self.n_batches()) as f64;
        let warm = (WARM_UP * n).max(1.0);
        let at = step as f64;
        let share = ((at + 1.0) / warm).min((n - at) / (n - warm).max(1.0));
        self.task.settings.rate * share.clamp(0.0, 1.0)
    }

    /// The loss of a batch with its derivative by the vectors, and the texts that have these.
    fn contrast(
        &self,
        variables: &Variables,
        negatives: &[Vec<NodeId>],
        epoch: usize,
        batch: usize,
    ) -> Result<(Contrast, Vec<WordPieces>), TrainError> {
        let Settings { batch: size, temperature, seed, .. } = *self.task.settings;
        let (queries, nodes) = self.pairs.batch(negatives, seed, size, (epoch, batch));
        let asked: Vec<&Taught<String>> =
            queries.iter().map(|&at| &self.pairs.queries[at]).collect();
        let texts: Vec<&str> = asked.iter().map(|taught| taught.query.as_str()).collect();
        let mut pieces = self.begun.parts.cut_queries(&texts).map_err(IndexError::from)?;
        pieces.extend(self.documents(&nodes)?);
        let vectors: Vec<Vec<f64>> = self.embed(variables, &pieces)?;
        let vectors: Vec<&[f64]> = vectors.iter().map(Vec::as_slice).collect();
        let is_hidden =
            |query: usize, at: usize| asked[query].answers.binary_search(&nodes[at]).is_ok();
        let contrast = contrast(&vectors, asked.len(), &is_hidden, temperature);
        if !contrast.loss.is_finite() {
            let why = "the loss is no number any more; give a smaller --rate";
            return Err(TrainError::Network(why.to_owned()));
        }
        Ok((contrast, pieces))
    }

    /// The word pieces of nodes, the same as an index with the encoder has, but for their number.
    fn documents(&self, nodes: &[NodeId]) -> Result<Vec<WordPieces>, TrainError> {
        let texts: Vec<&str> = nodes.iter().map(|&node| self.task.base.kb.text(node)).collect();
        Ok(self.begun.parts.cut_documents(&texts).map_err(IndexError::from)?)
    }

    /// A vector for each text.
    fn embed(
        &self,
        variables: &Variables,
        texts: &[WordPieces],
    ) -> Result<Vec<Vec<f64>>, TrainError> {
        let transformer = self.begun.transformer();
        let of = |chunk: &Vec<usize>| -> Result<Vec<(usize, Vec<f64>)>, TrainError> {
            let of_chunk: Vec<&WordPieces> = chunk.iter().map(|&text| &texts[text]).collect();
            let vectors = transformer.embed::<f32>(variables, &of_chunk)?;
            let wide = |vector: Vec<f32>| vector.into_iter().map(f64::from).collect();
            Ok(chunk.iter().copied().zip(vectors.into_iter().map(wide)).collect())
        };
        let vectors: Result<Vec<_>, TrainError> = chunks(texts).par_iter().map(of).collect();
        let mut vectors = vectors?.concat();
        vectors.sort_unstable_by_key(|pair| pair.0);
        Ok(vectors.into_iter().map(|pair| pair.1).collect())
    }

    /// The derivative of the loss by all weights, whose vectors' is given.
    fn gradient(
        &self,
        variables: &Variables,
        texts: &[WordPieces],
        by_vector: &[Vec<f64>],
    ) -> Result<Vec<f32>, TrainError> {
        let transformer = self.begun.transformer();
        let of = |chunk: &Vec<usize>| {
            let of_chunk: Vec<&WordPieces> = chunk.iter().map(|&text| &texts[text]).collect();
            let by_vector: Vec<&[f64]> = chunk.iter().map(|&text| &by_vector[text][..]).collect();
            transformer.gradient::<f32>(variables, &of_chunk, &by_vector)
        };
        let mut sum: Vec<f32> = Vec::new();
        // As many at a time as there are threads, so that no more are in memory.
        for group in chunks(texts).chunks(rayon::current_num_threads()) {
            let parts: Result<Vec<Vec<f32>>, TrainError> = group.par_iter().map(of).collect();
            for part in parts? {
                if sum.is_empty() {
                    sum = part;
                    continue;
                }
                sum.par_iter_mut().zip(part).for_each(|(sum, number)| *sum += number);
            }
        }
        Ok(sum)
    }

    /// The vectors of nodes as rows of numbers of 4 bytes, as an index has them.
    fn rows(&self, variables: &Variables, nodes: &[NodeId]) -> Result<Vec<Vec<f32>>, TrainError> {
        let vectors = self.embed(variables, &self.documents(nodes)?)?;
        Ok(vectors.into_iter().map(narrow).collect())
    }

    /// For each query the nodes with the products of their rows with its vector.
    fn scores(
        &self,
        variables: &Variables,
        queries: &[LabelledQuery],
        nodes: &[NodeId],
    ) -> Result<Vec<Vec<(NodeId, f32)>>, TrainError> {
        let rows = self.rows(variables, nodes)?;
        let texts: Vec<&str> = queries.iter().map(|query| query.text.as_str()).collect();
        let pieces = self.begun.parts.cut_queries(&texts).map_err(IndexError::from)?;
        let of = |vector: Vec<f64>| {
            let vector = narrow(vector);
            nodes.iter().zip(&rows).map(|(&node, row)| (node, dot(row, &vector))).collect()
        };
        Ok(self.embed(variables, &pieces)?.into_iter().map(of).collect())
    }

    /// What the encoder itself finds for labelled queries in a pool, and what does not answer them.
    fn own_negatives(&self, numbers: &[f32]) -> Result<Vec<Vec<NodeId>>, TrainError> {
        let Task { base, train, settings, .. } = *self.task;
        let variables = self.begun.transformer().variables(numbers)?;
        let nodes = pool(base, train, settings.pool, settings.seed);
        let scores = self.scores(&variables, train, &nodes)?;
        let of = |(scores, query): (Vec<(NodeId, f32)>, &LabelledQuery)| {
            let found = best(scores, HARD + query.answers.len());
            without_answers(found.into_iter().map(|pair| pair.0), &query.answers, HARD)
        };
        Ok(scores.into_iter().zip(train).map(of).collect())
    }

    /// Writes what is needed to go on.
    fn write(&self, state: &State) -> Result<(), TrainError> {
        let State { position, curve, weights: Weights { numbers, adam, best, negatives } } = state;
        let numbers = [&numbers[..], best, &adam.mean, &adam.square];
        let at = (position, adam.steps);
        checkpoint::write(self.task, SYSTEM, at, curve, numbers, negatives)
    }

    /// Reads what an earlier run left to go on with.
    fn read(&self) -> Result<State, TrainError> {
        let Kept { position, steps, curve, numbers: [numbers, best, mean, square], negatives } =
            checkpoint::read(self.task, SYSTEM)?;
        if numbers.len() != self.begun.runs.iter().map(|run| run.0).sum::<usize>() {
            return Err(self.task.no_checkpoint("it is of another version"));
        }
        let adam = RowAdam { rate: self.task.settings.rate, steps, mean, square };
        let weights = Weights { numbers, adam, best, negatives };
        Ok(State { position, curve, weights })
    }
}

impl Learner for Learning<'_> {
    fn begin(&mut self, epoch: usize) -> Result<(), TrainError> {
        let Settings { negatives, refresh, epochs, .. } = *self.run.task.settings;
        if is_refreshed(epoch, negatives, refresh, epochs) {
            self.weights.negatives = self.run.own_negatives(&self.weights.numbers)?;
        }
        Ok(())
    }

    fn step(&mut self, epoch: usize, batch: usize) -> Result<f64, TrainError> {
        let Self { run, weights: Weights { numbers, adam, negatives, .. } } = self;
        let variables = run.begun.transformer().variables(numbers)?;
        let (Contrast { loss, by_vector }, texts) =
            run.contrast(&variables, negatives, epoch, batch)?;
        let mut gradient = run.gradient(&variables, &texts, &by_vector)?;
        drop(variables);
        let square = |block: &[f32]| block.iter().map(|&part| f64::from(part).powi(2)).sum();
        let squares: Vec<f64> = gradient.par_chunks(1 << 16).map(square).collect();
        let length = squares.iter().sum::<f64>().sqrt();
        if length > LONGEST {
            let scale = (LONGEST / length) as f32;
            gradient.par_iter_mut().for_each(|part| *part *= scale);
        }
        let rate = run.rate(epoch * run.n_batches() + batch);
        adam.descend_all(numbers, &gradient, &run.begun.runs, rate);
        Ok(loss)
    }

    /// Among the nodes of the pool.
    fn validate(&mut self) -> Result<f64, TrainError> {
        let Run { begun, held, pool, .. } = self.run;
        let variables = begun.transformer().variables(&self.weights.numbers)?;
        let scores = self.run.scores(&variables, held, pool)?;
        let ranks = scores.iter().zip(held).map(|(of, query)| reciprocal_rank(of, &query.answers));
        Ok(ranks.sum::<f64>() / held.len().max(1) as f64)
    }

    fn keep(&mut self) {
        self.weights.best.copy_from_slice(&self.weights.numbers);
    }
}

fn narrow(vector: Vec<f64>) -> Vec<f32> {
    vector.into_iter().map(|number| number as f32).collect()
}

/// Texts of like length, the longest first, in chunks of at most [`CHUNK_TOKENS`] word pieces once they
/// are padded, or of one text.
fn chunks(texts: &[WordPieces]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|&text| std::cmp::Reverse(texts[text].ids.len()));
    let mut chunks: Vec<Vec<usize>> = Vec::new();
    let mut longest = 0;
    for text in order {
        match chunks.last_mut() {
            Some(chunk) if (chunk.len() + 1) * longest <= CHUNK_TOKENS => chunk.push(text),
            _ => {
                longest = texts[text].ids.len().max(1);
                chunks.push(vec![text]);
            }
        }
    }
    chunks
}
