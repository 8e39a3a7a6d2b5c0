//! Fine-tunes a sentence encoder of the BERT family with the pairs, negatives and loss of the
//! module [`dense`](super).
//!
//! The loss needs all vectors of a batch, but their computation graphs do not fit in memory
//! together. So a batch is embedded twice (Gao et al. 2021, "Scaling Deep Contrastive Learning
//! Batch Size under Memory Limited Setup"). The first pass computes the loss and its derivative
//! with respect to the vectors. The second pass propagates this derivative to the weights, in
//! chunks of texts. Chunks run in parallel; their gradients are summed in order.
//!
//! The optimizer is AdamW with warm-up, linear decay and gradient clipping (Devlin et al. 2019;
//! Pascanu et al. 2013).

use std::{path::Path, sync::atomic::AtomicBool};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    Record, Result, TrainError, Watch,
    dense::{
        Negatives, checkpoint,
        fit::{preparing, reciprocal_rank},
        loss::{Contrast, contrast},
        pairs::{
            Pairs, TrainingQuery, is_refreshed, lexical_negatives, pool, validation_queries,
            without_answers,
        },
        transformer::{Transformer, Variables},
    },
    epochs::{Limits, Progress, State, Task, Trainer, learn},
};
use agent_dataset::LabelledQuery;
use agent_embed::{
    bert::{Parts, WordPieces},
    matrix::dot,
};
use agent_index::IndexError;
use agent_kb::{NodeId, best};

/// Name of the retrieval system that uses these models: `dense` searches an index that was built
/// with the encoder.
pub(super) const SYSTEM: &str = "dense";
/// Maximum number of word pieces of a chunk, including padding; a longer text is a chunk by itself.
const CHUNK_TOKENS: usize = 512;
/// Share of all steps during which the step size rises to its maximum.
const WARM_UP: f64 = 0.1;
/// Weight decay of matrices, relative to the step size.
const DECAY: f64 = 0.01;
/// Maximum Euclidean norm of a gradient over all weights; a longer gradient is scaled down to it.
const MAX_NORM: f64 = 1.0;
/// Number of non-answers that the encoder ranks highest for a query; the query's negatives are
/// drawn from them.
const HARD: usize = 200;

/// Settings of fine-tuning a sentence encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Fingerprint of the encoder before tuning.
    pub encoder: String,
    /// Where negatives come from.
    pub negatives: Negatives,
    /// Number of times that the encoder's own negatives are recomputed, evenly over the epochs.
    pub refresh: usize,
    /// Seed of synthetic queries, batches, negatives and the pool of nodes to rank.
    pub seed: u64,
    /// Number of synthetic queries to make; empty ones are dropped, so the actual number may be
    /// lower.
    pub made: usize,
    /// Maximum number of nodes that the encoder ranks for each query, in validation and to
    /// recompute its own negatives.
    pub pool: usize,
    /// Maximum number of word pieces of a text.
    pub max_tokens: usize,
    /// Maximum number of epochs.
    pub epochs: usize,
    /// Maximum number of epochs without improvement on validation queries.
    pub patience: usize,
    /// Number of pairs of a query and an answer per batch.
    pub batch: usize,
    /// Maximum step size of AdamW.
    pub rate: f64,
    /// Temperature of the softmax over cosines.
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

/// Settings and size of a fine-tuned encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedModelInfo {
    /// Settings of tuning.
    pub settings: Settings,
    /// Number of dimensions of the vectors.
    pub dim: usize,
    /// Number of weights.
    pub weights: usize,
    /// Number of synthetic training queries.
    pub made: usize,
    /// Number of nodes that were ranked for each validation query.
    pub pool: usize,
}

/// A sentence encoder, opened to be fine-tuned.
pub struct BaseEncoder {
    parts: Parts,
    tensors: Vec<Vec<usize>>,
    /// Number of weights and weight decay of each tensor.
    runs: Vec<(usize, f64)>,
}

impl BaseEncoder {
    /// Opens a sentence encoder of the BERT family; it reads at most `max_tokens` word pieces of a
    /// text.
    ///
    /// # Errors
    /// [`TrainError::Index`] for another architecture, or for a missing or damaged file.
    pub fn open(dir: &Path, max_tokens: usize) -> Result<Self> {
        let parts = Parts::open(dir, max_tokens).map_err(IndexError::from)?;
        let tensors: Vec<Vec<usize>> =
            parts.tensors().into_iter().map(|(_, shape)| shape).collect();
        let run = |shape: &Vec<usize>| {
            // Scales and shifts have one dimension and no decay.
            (shape.iter().product(), if shape.len() > 1 { DECAY } else { 0.0 })
        };
        let runs = tensors.iter().map(run).collect();
        Ok(Self { parts, tensors, runs })
    }

    /// Returns the encoder's fingerprint: a digest of its configuration, tokenizer and weights.
    pub fn fingerprint(&self) -> &str {
        self.parts.fingerprint()
    }

    fn transformer(&self) -> Transformer<'_> {
        let Self { parts, tensors, .. } = self;
        Transformer { shape: parts.shape(), pooling: parts.pooling(), tensors }
    }
}

/// All weights of the encoder in training.
type Weights = checkpoint::Weights<Vec<f32>>;

/// Inputs of training, which do not change.
struct Run<'a> {
    task: &'a Task<'a, Settings>,
    encoder: &'a BaseEncoder,
    pairs: Pairs<String>,
    /// Validation queries with an answer among the candidates.
    validation: Vec<LabelledQuery>,
    /// Nodes that are ranked for each validation query.
    pool: Vec<NodeId>,
    watch: Watch<'a, Progress>,
}

/// Tunes an encoder on training queries, until validation queries show no more improvement, and
/// writes the model in the format of the base encoder.
///
/// Takes O(epochs x pairs x word pieces x weights) time. Memory holds six `f32` per weight, and
/// for each thread three more per weight and the rows of all layers for 512 word pieces: about 40
/// `f32` per layer, word piece and dimension.
///
/// # Errors
/// [`TrainError::NoQueries`] if no training or no validation query has an answer among the
/// candidates; [`TrainError::Network`] if the computation fails or the loss is not finite;
/// [`TrainError::Stopped`] soon after `stop` is set, once the checkpoint is written;
/// [`TrainError::NoCheckpoint`] if training cannot resume.
pub fn tune(
    task: &Task<'_, Settings>,
    encoder: &BaseEncoder,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<Record<TunedModelInfo>> {
    let run = Run::new(task, encoder, Watch { report, stop })?;
    let (Weights { best, .. }, curve) = learn(&run, task.resume)?;
    let info = TunedModelInfo {
        settings: task.settings.clone(),
        dim: encoder.parts.shape().hidden,
        weights: best.len(),
        made: run.pairs.queries.len() - run.pairs.n_labelled,
        pool: run.pool.len(),
    };
    let record = Record::new(SYSTEM, task.source, info, curve);
    let record = record.save(task.dir, |staging| {
        Ok(encoder.parts.write(staging, &best).map_err(IndexError::from)?)
    })?;
    task.remove_checkpoint()?;
    Ok(record)
}

impl<'a> Run<'a> {
    fn new(
        task: &'a Task<'a, Settings>,
        encoder: &'a BaseEncoder,
        watch: Watch<'a, Progress>,
    ) -> Result<Self> {
        let Task { base, settings, train, .. } = *task;
        (watch.report)(preparing("pairs"));
        let pairs = Pairs::of_texts(base, train, settings.made, settings.seed);
        let validation: Vec<LabelledQuery> =
            validation_queries(task)?.into_iter().cloned().collect();
        let pool = pool(base, &validation, settings.pool, settings.seed);
        watch.check_stop()?;
        Ok(Self { task, encoder, pairs, validation, pool, watch })
    }

    fn n_batches(&self) -> usize {
        self.pairs.all.len().div_ceil(self.task.settings.batch)
    }

    /// Returns the step size of AdamW at `step` (from 0): it rises linearly to the maximum, then
    /// falls linearly towards 0.
    fn rate(&self, step: usize) -> f64 {
        let n = (self.task.settings.epochs * self.n_batches()) as f64;
        let warm = (WARM_UP * n).max(1.0);
        let step = step as f64;
        let share = ((step + 1.0) / warm).min((n - step) / (n - warm).max(1.0));
        self.task.settings.rate * share.clamp(0.0, 1.0)
    }

    /// Computes the loss of a batch of an epoch and its derivative with respect to the vectors of
    /// the batch's texts (queries, then documents). Also returns the word pieces of these texts.
    fn contrast(
        &self,
        variables: &Variables,
        negatives: &[Vec<NodeId>],
        epoch: usize,
        batch: usize,
    ) -> Result<(Contrast, Vec<WordPieces>)> {
        let Settings { batch: size, temperature, seed, .. } = *self.task.settings;
        let (queries, nodes) = self.pairs.batch(negatives, seed, size, (epoch, batch));
        let batch: Vec<&TrainingQuery<String>> =
            queries.iter().map(|&index| &self.pairs.queries[index]).collect();
        let texts: Vec<&str> = batch.iter().map(|entry| entry.query.as_str()).collect();
        let mut pieces = self.encoder.parts.cut_queries(&texts).map_err(IndexError::from)?;
        pieces.extend(self.documents(&nodes)?);
        let vectors: Vec<Vec<f64>> = self.embed(variables, &pieces)?;
        let vectors: Vec<&[f64]> = vectors.iter().map(Vec::as_slice).collect();
        let is_hidden = |query: usize, document: usize| {
            batch[query].answers.binary_search(&nodes[document]).is_ok()
        };
        let contrast = contrast(&vectors, batch.len(), &is_hidden, temperature);
        if !contrast.loss.is_finite() {
            let message = "the loss is not a number; use a smaller --rate";
            return Err(TrainError::Network(message.to_owned()));
        }
        Ok((contrast, pieces))
    }

    /// Splits the documents of nodes into word pieces, as in building an index with this encoder,
    /// except for the maximum number of word pieces.
    fn documents(&self, nodes: &[NodeId]) -> Result<Vec<WordPieces>> {
        let texts: Vec<&str> = nodes.iter().map(|&node| self.task.base.kb.text(node)).collect();
        Ok(self.encoder.parts.cut_documents(&texts).map_err(IndexError::from)?)
    }

    /// Embeds texts into vectors, in the order of the texts.
    fn embed(&self, variables: &Variables, texts: &[WordPieces]) -> Result<Vec<Vec<f64>>> {
        let transformer = self.encoder.transformer();
        let embed = |chunk: &Vec<usize>| -> Result<Vec<(usize, Vec<f64>)>> {
            let of_chunk: Vec<&WordPieces> = chunk.iter().map(|&text| &texts[text]).collect();
            let vectors = transformer.embed::<f32>(variables, &of_chunk)?;
            let wide = |vector: Vec<f32>| vector.into_iter().map(f64::from).collect();
            Ok(chunk.iter().copied().zip(vectors.into_iter().map(wide)).collect())
        };
        let vectors: Result<Vec<_>> = chunks(texts).par_iter().map(embed).collect();
        let mut vectors = vectors?.concat();
        vectors.sort_unstable_by_key(|pair| pair.0);
        Ok(vectors.into_iter().map(|pair| pair.1).collect())
    }

    /// Computes the gradient of the loss with respect to all weights. `by_vector` holds the
    /// derivative of the loss with respect to the vector of each text.
    fn gradient(
        &self,
        variables: &Variables,
        texts: &[WordPieces],
        by_vector: &[Vec<f64>],
    ) -> Result<Vec<f32>> {
        let transformer = self.encoder.transformer();
        let gradient = |chunk: &Vec<usize>| {
            let of_chunk: Vec<&WordPieces> = chunk.iter().map(|&text| &texts[text]).collect();
            let by_vector: Vec<&[f64]> = chunk.iter().map(|&text| &by_vector[text][..]).collect();
            transformer.gradient::<f32>(variables, &of_chunk, &by_vector)
        };
        let mut sum: Vec<f32> = Vec::new();
        // One chunk per thread at a time, to bound the memory.
        for group in chunks(texts).chunks(rayon::current_num_threads()) {
            let parts: Result<Vec<Vec<f32>>> = group.par_iter().map(gradient).collect();
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

    /// Returns the vectors of the nodes' documents as `f32`, as an index holds them.
    fn rows(&self, variables: &Variables, nodes: &[NodeId]) -> Result<Vec<Vec<f32>>> {
        let vectors = self.embed(variables, &self.documents(nodes)?)?;
        Ok(vectors.into_iter().map(narrow).collect())
    }

    /// Returns, for each query, each node with the dot product of the query's and the node's
    /// vector.
    fn scores(
        &self,
        variables: &Variables,
        queries: &[LabelledQuery],
        nodes: &[NodeId],
    ) -> Result<Vec<Vec<(NodeId, f32)>>> {
        let rows = self.rows(variables, nodes)?;
        let texts: Vec<&str> = queries.iter().map(|query| query.text.as_str()).collect();
        let pieces = self.encoder.parts.cut_queries(&texts).map_err(IndexError::from)?;
        let score = |vector: Vec<f64>| {
            let vector = narrow(vector);
            nodes.iter().zip(&rows).map(|(&node, row)| (node, dot(row, &vector))).collect()
        };
        Ok(self.embed(variables, &pieces)?.into_iter().map(score).collect())
    }

    /// Returns, for each labelled query, the nodes that the encoder ranks highest among those of a
    /// pool that are not answers, best first.
    fn own_negatives(&self, numbers: &[f32]) -> Result<Vec<Vec<NodeId>>> {
        let Task { base, train, settings, .. } = *self.task;
        let variables = self.encoder.transformer().variables(numbers)?;
        let nodes = pool(base, train, settings.pool, settings.seed);
        let scores = self.scores(&variables, train, &nodes)?;
        let negatives = |(scores, query): (Vec<(NodeId, f32)>, &LabelledQuery)| {
            let found = best(scores, HARD + query.answers.len());
            without_answers(found.into_iter().map(|pair| pair.0), &query.answers, HARD)
        };
        Ok(scores.into_iter().zip(train).map(negatives).collect())
    }
}

impl Trainer for Run<'_> {
    type Weights = Weights;

    fn limits(&self) -> Limits {
        let Settings { epochs, patience, .. } = *self.task.settings;
        Limits { epochs, patience, batches: self.n_batches() }
    }

    fn watch(&self) -> &Watch<'_, Progress> {
        &self.watch
    }

    fn begin(&self) -> Result<(Weights, f64)> {
        let Task { base, train, settings, .. } = *self.task;
        (self.watch.report)(preparing("negatives"));
        let negatives = lexical_negatives(base, train);
        let numbers = self.encoder.parts.numbers().map_err(IndexError::from)?;
        self.watch.check_stop()?;
        let weights = Weights::new(numbers, settings.rate, negatives);
        (self.watch.report)(preparing("initial validation"));
        // The loss before training is the loss of the first batch.
        let variables = self.encoder.transformer().variables(&weights.numbers)?;
        let loss = self.contrast(&variables, &weights.negatives, 0, 0)?.0.loss;
        Ok((weights, loss))
    }

    fn write(&self, state: &State<Weights>) -> Result<()> {
        checkpoint::write(self.task, SYSTEM, state)
    }

    fn read(&self) -> Result<State<Weights>> {
        let n = self.encoder.runs.iter().map(|run| run.0).sum::<usize>();
        let fit = |numbers: Vec<f32>| (numbers.len() == n).then_some(numbers);
        checkpoint::read(self.task, SYSTEM, self.task.settings.rate, fit)
    }

    fn begin_epoch(&self, weights: &mut Weights, epoch: usize) -> Result<()> {
        let Settings { negatives, refresh, epochs, .. } = *self.task.settings;
        if is_refreshed(epoch, negatives, refresh, epochs) {
            weights.negatives = self.own_negatives(&weights.numbers)?;
        }
        Ok(())
    }

    fn step(&self, weights: &mut Weights, epoch: usize, batch: usize) -> Result<f64> {
        let Weights { numbers, adam, negatives, .. } = weights;
        let variables = self.encoder.transformer().variables(numbers)?;
        let (Contrast { loss, by_vector }, texts) =
            self.contrast(&variables, negatives, epoch, batch)?;
        let mut gradient = self.gradient(&variables, &texts, &by_vector)?;
        drop(variables);
        let square = |block: &[f32]| block.iter().map(|&part| f64::from(part).powi(2)).sum();
        let squares: Vec<f64> = gradient.par_chunks(1 << 16).map(square).collect();
        let norm = squares.iter().sum::<f64>().sqrt();
        if norm > MAX_NORM {
            let scale = (MAX_NORM / norm) as f32;
            gradient.par_iter_mut().for_each(|part| *part *= scale);
        }
        let rate = self.rate(epoch * self.n_batches() + batch);
        adam.descend_all(numbers, &gradient, &self.encoder.runs, rate);
        Ok(loss)
    }

    /// Ranks the nodes of the pool for each validation query.
    fn validate(&self, weights: &Weights) -> Result<f64> {
        let Run { encoder, validation, pool, .. } = self;
        let variables = encoder.transformer().variables(&weights.numbers)?;
        let scores = self.scores(&variables, validation, pool)?;
        let ranks = scores.iter().zip(validation);
        let ranks = ranks.map(|(scores, query)| reciprocal_rank(scores, &query.answers));
        Ok(ranks.sum::<f64>() / validation.len().max(1) as f64)
    }

    fn keep(&self, weights: &mut Weights) {
        weights.keep();
    }
}

fn narrow(vector: Vec<f64>) -> Vec<f32> {
    vector.into_iter().map(|number| number as f32).collect()
}

/// Groups texts, longest first, into chunks of at most [`CHUNK_TOKENS`] word pieces including
/// padding, and returns the indexes of each chunk's texts. A longer text is a chunk by itself.
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
