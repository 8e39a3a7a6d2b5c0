//! Learns a table of word vectors from pairs, epoch by epoch, until validation queries are ranked no
//! better. What is needed to go on is written when the caller stops it, and only then.

use std::{ops::ControlFlow, sync::atomic::AtomicBool};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::{
    Look, Record, TrainError, Watch,
    adam::RowAdam,
    dense::{
        Described, Settings,
        checkpoint::{self, Kept},
        fused,
        model::{Learnt, SYSTEM, embed_candidates},
        pairs::{Pairs, Taught, is_refreshed, lexical_negatives, without_answers},
        table::{Gradient, Table},
        words::{Bag, Words},
    },
    epochs::{Learner, Limits, Position, Progress, Task, learn, look, or_left},
};
use agent_dataset::LabelledQuery;
use agent_embed::{
    Corpus, EmbedError, LsaEmbedder, LsaParams,
    matrix::{dot, normalise},
};
use agent_index::{EmbedderChoice, IndexError, IndexedBase, TextPart};
use agent_kb::{NodeId, Scores, best};

/// The first nodes of the encoder itself that negatives are drawn from, answers left out.
const HARD: usize = 200;
/// Length of the vector with which a stem begins that the built-in embedder does not know.
const UNKNOWN: f32 = 0.1;
/// Nodes of each list that are fused.
const FUSED: usize = 1_000;
/// Weights of this ranking that are tried in a fusion with `bm25+names`, in hundredths: from 0 to
/// three quarters.
const WEIGHTS: std::ops::RangeInclusive<u32> = 0..=15;
const WEIGHT_STEP: f32 = 0.05;

/// All that changes while it learns.
struct State {
    position: Position,
    curve: Vec<Look>,
    weights: Weights,
}

/// What is learnt.
struct Weights {
    table: Table,
    adam: RowAdam,
    /// The table at the best look.
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
    words: Words,
    pairs: Pairs<Bag>,
    /// Validation queries with an answer that may be one.
    held: Vec<(Bag, &'a LabelledQuery)>,
    watch: Watch<'a, Progress>,
}

/// Learns an encoder and writes it: training queries teach, validation queries say after which epoch
/// to stop and with which weight the ranking joins `bm25+names`.
///
/// O(epochs x pairs x stems of a node x dim). Memory: four numbers of 4 bytes for each stem and
/// dimension, at most 65,536 stems and those of training queries, and one for each candidate and
/// dimension.
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
    let limits = Limits {
        epochs: task.settings.epochs,
        patience: task.settings.patience,
        batches: run.n_batches(),
    };
    let State { position, curve, weights } = &mut state;
    let learner = &mut Learning { run: &run, weights };
    let go_on = || run.watch.go_on();
    let learnt = learn(learner, position, curve, limits, &go_on, run.watch.report);
    or_left(learnt, || run.write(&state))?;
    (run.watch.report)(Progress::Completing);
    let State { curve, weights: Weights { table, best, .. }, .. } = state;
    let table = Table { dim: table.dim, numbers: best };
    let (weight, fused) = run.fuse(&table)?;
    let (settings, n_made) = (task.settings, run.pairs.queries.len() - run.pairs.n_labelled);
    let learnt = Learnt { settings, words: &run.words, table: &table, n_made, weight, fused };
    let record = learnt.save(task.base, task.dir, task.source, curve)?;
    task.finished()?;
    Ok(record)
}

impl<'a> Run<'a> {
    fn new(task: &'a Task<'a, Settings>, watch: Watch<'a, Progress>) -> Result<Self, TrainError> {
        let Task { base, settings, train, val, .. } = *task;
        (watch.report)(preparing("words"));
        let words = Words::of_base(base, train.iter().map(|query| query.text.as_str()));
        let pairs = Pairs::of_bags(base, &words, train, settings.made, settings.seed);
        let may =
            |query: &&LabelledQuery| query.answers.iter().any(|&node| base.kb.is_candidate(node));
        let held: Vec<(Bag, &LabelledQuery)> = val
            .iter()
            .filter(may)
            .map(|query| (words.of_query(base, &query.text), query))
            .collect();
        if !train.iter().any(|query| may(&query)) {
            return Err(TrainError::NoQueries { split: "train" });
        }
        if held.is_empty() {
            return Err(TrainError::NoQueries { split: "val" });
        }
        watch.go_on()?;
        Ok(Self { task, words, pairs, held, watch })
    }

    /// The table before any pair has taught.
    fn begin(&self) -> Result<State, TrainError> {
        let Task { base, train, settings, .. } = *self.task;
        (self.watch.report)(preparing("word vectors"));
        let own;
        let embedder = match base.embedder_choice() {
            EmbedderChoice::Builtin => base.embedder(),
            _ => {
                own = self.builtin()?;
                &own
            }
        };
        let dim = settings.dim.min(embedder.dim());
        let vector = |stem: &String| -> Result<Vec<f32>, TrainError> {
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
        let rows: Result<Vec<Vec<f32>>, TrainError> =
            self.words.stems.par_iter().map(vector).collect();
        let numbers = rows?.concat();
        self.watch.go_on()?;
        (self.watch.report)(preparing("negatives"));
        let negatives = lexical_negatives(base, train);
        self.watch.go_on()?;
        let adam = RowAdam::new(numbers.len(), settings.rate);
        let table = Table { dim, numbers };
        let best = table.numbers.clone();
        let mut weights = Weights { table, adam, best, negatives };
        // Before all epochs the loss is that of one batch.
        let loss = self.gradient(&weights, 0, 0).loss;
        let (mut curve, learner) = (Vec::new(), &mut Learning { run: self, weights: &mut weights });
        let first = look(learner, &mut curve, 0, loss)?;
        (self.watch.report)(Progress::Looked(first, settings.epochs));
        Ok(State { position: Position::default(), curve, weights })
    }

    /// The built-in embedder, where the index has another.
    fn builtin(&self) -> Result<LsaEmbedder, TrainError> {
        let kb = &self.task.base.kb;
        let text = |node: usize| kb.text(node as NodeId);
        let corpus = Corpus { n_documents: kb.n_nodes() as usize, text: &text };
        let mut go_on = |_| match self.watch.go_on() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        LsaEmbedder::train(corpus, &LsaParams::default(), &mut go_on).map_err(|error| match error {
            EmbedError::Interrupted => TrainError::Stopped,
            error => IndexError::Embed(error).into(),
        })
    }

    fn n_batches(&self) -> usize {
        self.pairs.all.len().div_ceil(self.task.settings.batch)
    }

    /// What a batch of an epoch says of the weights.
    fn gradient(&self, weights: &Weights, epoch: usize, batch: usize) -> Gradient {
        let Settings { batch: size, temperature, seed, .. } = *self.task.settings;
        let (queries, nodes) = self.pairs.batch(&weights.negatives, seed, size, (epoch, batch));
        let base = self.task.base;
        let documents: Vec<Bag> =
            nodes.par_iter().map(|&node| self.words.of_node(base, node)).collect();
        let asked: Vec<&Taught<Bag>> = queries.iter().map(|&at| &self.pairs.queries[at]).collect();
        let is_hidden =
            |query: usize, at: usize| asked[query].answers.binary_search(&nodes[at]).is_ok();
        let queries: Vec<&Bag> = asked.iter().map(|taught| &taught.query).collect();
        let documents: Vec<&Bag> = documents.iter().collect();
        weights.table.gradient(&queries, &documents, &is_hidden, temperature)
    }

    /// What the encoder itself finds for labelled queries that does not answer them.
    fn own_negatives(&self, table: &Table) -> Vec<Vec<NodeId>> {
        let base = self.task.base;
        let rows = embed_candidates(base, &self.words, table);
        let of = |query: &LabelledQuery| {
            let k = HARD + query.answers.len();
            let bag = self.words.of_query(base, &query.text);
            let found = best(scores(base, &rows, &table.embed(&bag)), k);
            without_answers(found.into_iter().map(|pair| pair.0), &query.answers, HARD)
        };
        self.task.train.par_iter().map(of).collect()
    }

    /// The weight in a ranking with `bm25+names` that validation queries are best with, the smallest
    /// of equals; with their mean reciprocal rank then, and with weight 0.
    fn fuse(&self, table: &Table) -> Result<(f32, [f64; 2]), TrainError> {
        let base = self.task.base;
        let kb = &base.kb;
        let all = kb.candidate_types().len() == kb.types().len();
        let types = if all { &[] } else { kb.candidate_types() };
        let rows = embed_candidates(base, &self.words, table);
        let ranks = |(bag, query): &(Bag, &LabelledQuery)| -> Vec<f64> {
            let part = TextPart::DocumentWithNames;
            let lexical = Scores::new(base.text.search(&query.text, part, types, FUSED));
            let dense = Scores::new(best(scores(base, &rows, &table.embed(bag)), FUSED));
            let with = |at: u32| {
                let fused = fused(&lexical, &dense, at as f32 * WEIGHT_STEP);
                reciprocal_rank(fused.as_slice(), &query.answers)
            };
            WEIGHTS.map(with).collect()
        };
        let ranks: Vec<Vec<f64>> = self.held.par_iter().map(ranks).collect();
        let mean = |at: usize| ranks.iter().map(|of| of[at]).sum::<f64>() / ranks.len() as f64;
        let means: Vec<f64> = (0..WEIGHTS.count()).map(mean).collect();
        let first = (0, means.first().copied().unwrap_or(0.0));
        let better = |best: (usize, f64), (at, &mean): (usize, &f64)| {
            if mean > best.1 { (at, mean) } else { best }
        };
        let best = means.iter().enumerate().fold(first, better);
        Ok((best.0 as f32 * WEIGHT_STEP, [best.1, first.1]))
    }

    /// Writes what is needed to go on.
    fn write(&self, state: &State) -> Result<(), TrainError> {
        let State { position, curve, weights: Weights { table, adam, best, negatives } } = state;
        let numbers = [&table.numbers[..], best, &adam.mean, &adam.square];
        let at = (position, adam.steps);
        checkpoint::write(self.task, SYSTEM, at, curve, numbers, negatives)
    }

    /// Reads what an earlier run left to go on with.
    fn read(&self) -> Result<State, TrainError> {
        let Kept { position, steps, curve, numbers: [numbers, best, mean, square], negatives } =
            checkpoint::read(self.task, SYSTEM)?;
        let n = self.words.stems.len().max(1);
        let dim = numbers.len() / n;
        if n * dim != numbers.len() || dim == 0 {
            return Err(self.task.no_checkpoint("it is of another version"));
        }
        let adam = RowAdam { rate: self.task.settings.rate, steps, mean, square };
        let table = Table { dim, numbers };
        let weights = Weights { table, adam, best, negatives };
        Ok(State { position, curve, weights })
    }
}

impl Learner for Learning<'_> {
    fn begin(&mut self, epoch: usize) -> Result<(), TrainError> {
        let Settings { negatives, refresh, epochs, .. } = *self.run.task.settings;
        if is_refreshed(epoch, negatives, refresh, epochs) {
            self.weights.negatives = self.run.own_negatives(&self.weights.table);
        }
        Ok(())
    }

    fn step(&mut self, epoch: usize, batch: usize) -> Result<f64, TrainError> {
        let Gradient { loss, rows } = self.run.gradient(self.weights, epoch, batch);
        self.weights.adam.descend(&mut self.weights.table.numbers, &rows);
        Ok(loss)
    }

    /// Among all candidates.
    fn validate(&mut self) -> Result<f64, TrainError> {
        let (base, table) = (self.run.task.base, &self.weights.table);
        let rows = embed_candidates(base, &self.run.words, table);
        let rank = |(bag, query): &(Bag, &LabelledQuery)| {
            reciprocal_rank(&scores(base, &rows, &table.embed(bag)), &query.answers)
        };
        let ranks: Vec<f64> = self.run.held.par_iter().map(rank).collect();
        Ok(ranks.iter().sum::<f64>() / ranks.len().max(1) as f64)
    }

    fn keep(&mut self) {
        self.weights.best.copy_from_slice(&self.weights.table.numbers);
    }
}

/// What has to be there first.
pub(super) fn preparing(what: &'static str) -> Progress {
    Progress::Preparing { what, done: 0, of: 1 }
}

/// The candidates with the products of their rows with a vector; none of a text without known words.
fn scores(base: &IndexedBase, rows: &[f32], vector: &[f32]) -> Vec<(NodeId, f32)> {
    if vector.iter().all(|&number| number == 0.0) {
        return Vec::new();
    }
    let rows = rows.chunks(vector.len().max(1));
    base.kb.candidates().iter().zip(rows).map(|(&node, row)| (node, dot(row, vector))).collect()
}

/// One by the rank of the first answer; 0 without one. Pairs ascend by node; equals keep that order.
pub(super) fn reciprocal_rank(scores: &[(NodeId, f32)], answers: &[NodeId]) -> f64 {
    let place = |node: &NodeId| scores.binary_search_by_key(node, |pair| pair.0).ok();
    let of_answers = answers.iter().filter_map(|node| scores.get(place(node)?));
    let first = of_answers.reduce(|best, one| if one.1 > best.1 { one } else { best });
    first.map_or(0.0, |&(node, score)| {
        let before = |pair: &&(NodeId, f32)| pair.1 > score || (pair.1 == score && pair.0 < node);
        1.0 / (scores.iter().filter(before).count() + 1) as f64
    })
}
