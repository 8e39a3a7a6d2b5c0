//! Trains a table of word vectors on pairs, epoch by epoch, until validation stops improving.
//! Writes a checkpoint when the caller stops training.

use std::{ops::ControlFlow, sync::atomic::AtomicBool};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::{
    Record, Result, TrainError, Watch,
    dense::{
        ModelInfo, Settings, checkpoint, fuse,
        model::{SYSTEM, TrainedTable, embed_candidates},
        pairs::{
            Pairs, TrainingQuery, is_refreshed, lexical_negatives, validation_queries,
            without_answers,
        },
        table::{Gradient, Table},
        words::{Bag, Words},
    },
    epochs::{Limits, Progress, State, Task, Trainer, learn},
};
use agent_dataset::LabelledQuery;
use agent_embed::{
    Corpus, EmbedError, LsaEmbedder, LsaParams,
    matrix::{dot, normalise},
};
use agent_index::{EmbedderChoice, IndexError, IndexedBase, TextPart};
use agent_kb::{NodeId, Scores, best};

/// Number of non-answers that the encoder ranks highest for a query; the query's negatives are
/// drawn from them.
const HARD: usize = 200;
/// Norm of the random initial vector of a stem that the built-in embedder does not know.
const UNKNOWN: f32 = 0.1;
/// Number of best nodes that each ranking contributes to a fusion.
const FUSED: usize = 1_000;
/// Weights of the encoder that are tried in a fusion with `bm25+names`: 0 to 0.75, in units of
/// [`WEIGHT_STEP`].
const WEIGHTS: std::ops::RangeInclusive<u32> = 0..=15;
const WEIGHT_STEP: f32 = 0.05;

/// Weights in training: a row per stem.
type Weights = checkpoint::Weights<Table>;

/// Inputs of training, which do not change.
struct Run<'a> {
    task: &'a Task<'a, Settings>,
    words: Words,
    pairs: Pairs<Bag>,
    /// Validation queries with an answer among the candidates.
    validation: Vec<(Bag, &'a LabelledQuery)>,
    watch: Watch<'a, Progress>,
}

/// Trains a table of word vectors on training queries, and writes the model. Validation queries
/// determine when to stop, and the weight of this encoder in a fusion with `bm25+names`.
///
/// Takes O(epochs x pairs x stems of a node x dim) time. Memory holds four `f32` per stem and
/// dimension, for at most 65,536 stems and the stems of training queries, and one `f32` per
/// candidate and dimension.
///
/// # Errors
/// [`TrainError::NoQueries`] if no training or no validation query has an answer among the
/// candidates; [`TrainError::Stopped`] soon after `stop` is set, once the checkpoint is written;
/// [`TrainError::NoCheckpoint`] if training cannot resume.
pub fn train(
    task: &Task<'_, Settings>,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<Record<ModelInfo>> {
    let run = Run::new(task, Watch { report, stop })?;
    let (weights, curve) = learn(&run, task.resume)?;
    let table = Table { dim: weights.numbers.dim, numbers: weights.best };
    let (weight, fused) = run.fuse(&table)?;
    let (settings, n_made) = (task.settings, run.pairs.queries.len() - run.pairs.n_labelled);
    let trained =
        TrainedTable { settings, words: &run.words, table: &table, n_made, weight, fused };
    let record = trained.save(task.base, task.dir, task.source, curve)?;
    task.remove_checkpoint()?;
    Ok(record)
}

impl<'a> Run<'a> {
    fn new(task: &'a Task<'a, Settings>, watch: Watch<'a, Progress>) -> Result<Self> {
        let Task { base, settings, train, .. } = *task;
        (watch.report)(preparing("words"));
        let words = Words::of_base(base, train.iter().map(|query| query.text.as_str()));
        let pairs = Pairs::of_bags(base, &words, train, settings.made, settings.seed);
        let validation = validation_queries(task)?.into_iter();
        let validation =
            validation.map(|query| (words.of_query(base, &query.text), query)).collect();
        watch.check_stop()?;
        Ok(Self { task, words, pairs, validation, watch })
    }

    /// Trains the built-in embedder on the documents of the knowledge base; needed if the index has
    /// another embedder.
    fn builtin(&self) -> Result<LsaEmbedder> {
        let kb = &self.task.base.kb;
        let text = |node: usize| kb.text(node as NodeId);
        let corpus = Corpus { n_documents: kb.n_nodes() as usize, text: &text };
        let mut check_stop = |_| match self.watch.check_stop() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let languages = self.task.base.stems.languages();
        let params = LsaParams { languages, ..LsaParams::default() };
        LsaEmbedder::train(corpus, &params, &mut check_stop).map_err(|error| match error {
            EmbedError::Interrupted => TrainError::Stopped,
            error => IndexError::Embed(error).into(),
        })
    }

    /// Computes the loss of a batch of an epoch, and its gradient with respect to the table's rows.
    fn gradient(&self, weights: &Weights, epoch: usize, batch: usize) -> Gradient {
        let Settings { batch: size, temperature, seed, .. } = *self.task.settings;
        let (queries, nodes) = self.pairs.batch(&weights.negatives, seed, size, (epoch, batch));
        let base = self.task.base;
        let documents: Vec<Bag> =
            nodes.par_iter().map(|&node| self.words.of_node(base, node)).collect();
        let batch: Vec<&TrainingQuery<Bag>> =
            queries.iter().map(|&index| &self.pairs.queries[index]).collect();
        let is_hidden = |query: usize, document: usize| {
            batch[query].answers.binary_search(&nodes[document]).is_ok()
        };
        let queries: Vec<&Bag> = batch.iter().map(|entry| &entry.query).collect();
        let documents: Vec<&Bag> = documents.iter().collect();
        weights.numbers.gradient(&queries, &documents, &is_hidden, temperature)
    }

    /// Returns, for each labelled query, the nodes that the encoder ranks highest among those that
    /// are not answers, best first.
    fn own_negatives(&self, table: &Table) -> Vec<Vec<NodeId>> {
        let base = self.task.base;
        let rows = embed_candidates(base, &self.words, table);
        let negatives = |query: &LabelledQuery| {
            let k = HARD + query.answers.len();
            let bag = self.words.of_query(base, &query.text);
            let found = best(scores(base, &rows, &table.embed(&bag)), k);
            without_answers(found.into_iter().map(|pair| pair.0), &query.answers, HARD)
        };
        self.task.train.par_iter().map(negatives).collect()
    }

    /// Chooses the weight of the encoder in a fusion with `bm25+names` that gives the highest mean
    /// reciprocal rank on validation queries; of several such weights, the smallest. Returns the
    /// weight, and the mean reciprocal ranks with this weight and with weight 0.
    fn fuse(&self, table: &Table) -> Result<(f32, [f64; 2])> {
        let base = self.task.base;
        let types = base.kb.searched_types();
        let rows = embed_candidates(base, &self.words, table);
        let ranks = |(bag, query): &(Bag, &LabelledQuery)| -> Vec<f64> {
            let part = TextPart::DocumentWithNames;
            let lexical = Scores::new(base.text.search(&query.text, part, types, FUSED));
            let dense = Scores::new(best(scores(base, &rows, &table.embed(bag)), FUSED));
            let rank = |step: u32| {
                let fused = fuse(&lexical, &dense, step as f32 * WEIGHT_STEP);
                reciprocal_rank(fused.as_slice(), &query.answers)
            };
            WEIGHTS.map(rank).collect()
        };
        let ranks: Vec<Vec<f64>> = self.validation.par_iter().map(ranks).collect();
        let mean =
            |step: usize| ranks.iter().map(|row| row[step]).sum::<f64>() / ranks.len() as f64;
        let means: Vec<f64> = (0..WEIGHTS.count()).map(mean).collect();
        let best = (0..means.len()).reduce(|a, b| if means[b] > means[a] { b } else { a });
        let best = best.unwrap_or(0);
        Ok((best as f32 * WEIGHT_STEP, [means[best], means[0]]))
    }
}

impl Trainer for Run<'_> {
    type Weights = Weights;

    fn limits(&self) -> Limits {
        let Settings { epochs, patience, batch, .. } = *self.task.settings;
        Limits { epochs, patience, batches: self.pairs.all.len().div_ceil(batch) }
    }

    fn watch(&self) -> &Watch<'_, Progress> {
        &self.watch
    }

    fn begin(&self) -> Result<(Weights, f64)> {
        let Task { base, train, settings, .. } = *self.task;
        (self.watch.report)(preparing("word vectors"));
        let builtin;
        let embedder = match base.embedder_choice() {
            EmbedderChoice::Builtin => base.embedder(),
            _ => {
                builtin = self.builtin()?;
                &builtin
            }
        };
        let dim = settings.dim.min(embedder.dim());
        let vector = |stem: &String| -> Result<Vec<f32>> {
            let mut vector = embedder.embed_query(stem).map_err(IndexError::from)?;
            vector.truncate(dim);
            if normalise(&mut vector) == 0.0 {
                let digest = blake3::hash(stem.as_bytes());
                let mut random = ChaCha8Rng::from_seed(*digest.as_bytes());
                vector.fill_with(|| random.random_range(-1.0..1.0f32));
                normalise(&mut vector);
                vector.iter_mut().for_each(|number| *number *= UNKNOWN);
            }
            Ok(vector)
        };
        let rows: Result<Vec<Vec<f32>>> = self.words.stems.par_iter().map(vector).collect();
        let numbers = rows?.concat();
        self.watch.check_stop()?;
        (self.watch.report)(preparing("negatives"));
        let negatives = lexical_negatives(base, train);
        self.watch.check_stop()?;
        let weights = Weights::new(Table { dim, numbers }, settings.rate, negatives);
        // The loss before training is the loss of the first batch.
        let loss = self.gradient(&weights, 0, 0).loss;
        Ok((weights, loss))
    }

    fn write(&self, state: &State<Weights>) -> Result<()> {
        checkpoint::write(self.task, SYSTEM, state)
    }

    fn read(&self) -> Result<State<Weights>> {
        let n = self.words.stems.len().max(1);
        checkpoint::read(self.task, SYSTEM, self.task.settings.rate, |numbers| {
            let dim = numbers.len() / n;
            (n * dim == numbers.len() && dim > 0).then_some(Table { dim, numbers })
        })
    }

    fn begin_epoch(&self, weights: &mut Weights, epoch: usize) -> Result<()> {
        let Settings { negatives, refresh, epochs, .. } = *self.task.settings;
        if is_refreshed(epoch, negatives, refresh, epochs) {
            weights.negatives = self.own_negatives(&weights.numbers);
        }
        Ok(())
    }

    fn step(&self, weights: &mut Weights, epoch: usize, batch: usize) -> Result<f64> {
        let Gradient { loss, rows } = self.gradient(weights, epoch, batch);
        weights.adam.descend(&mut weights.numbers.numbers, &rows);
        Ok(loss)
    }

    /// Ranks all candidates for each validation query.
    fn validate(&self, Weights { numbers: table, .. }: &Weights) -> Result<f64> {
        let base = self.task.base;
        let rows = embed_candidates(base, &self.words, table);
        let rank = |(bag, query): &(Bag, &LabelledQuery)| {
            reciprocal_rank(&scores(base, &rows, &table.embed(bag)), &query.answers)
        };
        let ranks: Vec<f64> = self.validation.par_iter().map(rank).collect();
        Ok(ranks.iter().sum::<f64>() / ranks.len().max(1) as f64)
    }

    fn keep(&self, weights: &mut Weights) {
        weights.keep();
    }
}

/// Returns the progress report for the start of a stage of preparation.
pub(super) fn preparing(stage: &'static str) -> Progress {
    Progress::Preparing { stage, done: 0, total: 1 }
}

/// Returns each candidate with the dot product of its row in `rows` and `vector`; empty if `vector`
/// is zero.
fn scores(base: &IndexedBase, rows: &[f32], vector: &[f32]) -> Vec<(NodeId, f32)> {
    if vector.iter().all(|&number| number == 0.0) {
        return Vec::new();
    }
    let rows = rows.chunks(vector.len().max(1));
    base.kb.candidates().iter().zip(rows).map(|(&node, row)| (node, dot(row, vector))).collect()
}

/// Returns the reciprocal rank of the highest-ranked answer; 0 if no answer has a score. `scores`
/// ascend by node; among nodes with equal scores, the smaller id ranks first.
pub(super) fn reciprocal_rank(scores: &[(NodeId, f32)], answers: &[NodeId]) -> f64 {
    let index_of = |node: &NodeId| scores.binary_search_by_key(node, |pair| pair.0).ok();
    let of_answers = answers.iter().filter_map(|node| scores.get(index_of(node)?));
    let first = of_answers.reduce(|best, next| if next.1 > best.1 { next } else { best });
    first.map_or(0.0, |&(node, score)| {
        let before = |pair: &&(NodeId, f32)| pair.1 > score || (pair.1 == score && pair.0 < node);
        1.0 / (scores.iter().filter(before).count() + 1) as f64
    })
}
