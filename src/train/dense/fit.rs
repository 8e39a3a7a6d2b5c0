//! Learns a table of word vectors from pairs, epoch by epoch, until validation queries are ranked no
//! better. What is needed to go on is written when the caller stops it, and only then.

use std::{fs, ops::ControlFlow, path::Path, sync::atomic::AtomicBool};

use rand::{
    RngExt, SeedableRng,
    seq::{IndexedRandom, SliceRandom},
};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use safetensors::Dtype;
use serde::{Deserialize, Serialize};

use crate::{
    dataset::LabelledQuery,
    embed::{
        Corpus, EmbedError, LsaEmbedder, LsaParams,
        matrix::{dot, normalise},
    },
    index::{EmbedderChoice, IndexError, IndexedBase, TextPart, arrays::Arrays},
    kb::{NodeId, Scores, best},
    train::{
        Look, Record, Source, TrainError, Watch,
        adam::RowAdam,
        dense::{
            Described, Negatives, Settings, fused,
            model::{Learnt, SYSTEM, embed_candidates},
            pairs::{Pairs, Taught, lexical_negatives, without_answers},
            table::{Gradient, Table},
            words::{Bag, Words},
        },
        store::best_of,
    },
};

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
/// The arrays of a checkpoint.
const STATE: &str = "state";

/// What is learnt, from what, and where it goes.
pub struct Task<'a> {
    /// The base with its indexes.
    pub base: &'a IndexedBase,
    /// What it is learnt from, for the record.
    pub source: &'a Source,
    /// Training queries.
    pub train: &'a [LabelledQuery],
    /// Validation queries.
    pub val: &'a [LabelledQuery],
    /// How.
    pub settings: &'a Settings,
    /// Where the model goes.
    pub dir: &'a Path,
    /// Where what is needed to go on goes, if it is stopped.
    pub checkpoint: &'a Path,
    /// Whether it goes on from there.
    pub resume: bool,
}

/// How far training is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// What has to be there first: words, pairs, negatives.
    Preparing(&'static str),
    /// Batches of all epochs.
    Learning {
        /// Batches done.
        done: usize,
        /// Batches in all, unless it ends before.
        of: usize,
    },
    /// A look at validation queries after an epoch, of so many.
    Looked(Look, usize),
    /// The weight in a fusion is chosen, and the model written.
    Fusing,
}

/// What is in the record of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stopped {
    settings: Settings,
    epoch: usize,
    batch: usize,
    loss: f64,
    steps: i32,
}

/// All that changes while it learns.
struct State {
    /// Epochs that are complete, batches of the next one, and their summed loss.
    epoch: usize,
    batch: usize,
    loss: f64,
    table: Table,
    adam: RowAdam,
    /// The table at the best look.
    best: Vec<f32>,
    curve: Vec<Look>,
    /// For each labelled query nodes that do not answer it, of which negatives are drawn.
    negatives: Vec<Vec<NodeId>>,
}

/// All that does not.
struct Run<'a> {
    task: &'a Task<'a>,
    words: Words,
    pairs: Pairs,
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
    task: &Task<'_>,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<Record<Described>, TrainError> {
    let run = Run::new(task, Watch { report, stop })?;
    let mut state = match task.resume {
        true => run.read()?,
        false => run.begin()?,
    };
    match run.learn(&mut state) {
        Err(TrainError::Stopped) => {
            run.write(&state)?;
            return Err(TrainError::Stopped);
        }
        other => other?,
    }
    (run.watch.report)(Progress::Fusing);
    let State { table, best, curve, .. } = state;
    let table = Table { dim: table.dim, numbers: best };
    let (weight, fused) = run.fuse(&table)?;
    let (settings, n_made) = (task.settings, run.pairs.queries.len() - run.pairs.n_labelled);
    let learnt = Learnt { settings, words: &run.words, table: &table, n_made, weight, fused };
    let record = learnt.save(task.base, task.dir, task.source, curve)?;
    // It went on from there; nothing is left to go on with.
    if task.checkpoint.exists() {
        let failed = |error| TrainError::io(task.checkpoint, error);
        fs::remove_dir_all(task.checkpoint).map_err(failed)?;
    }
    Ok(record)
}

impl<'a> Run<'a> {
    fn new(task: &'a Task<'a>, watch: Watch<'a, Progress>) -> Result<Self, TrainError> {
        let Task { base, settings, train, val, .. } = *task;
        (watch.report)(Progress::Preparing("words"));
        let words = Words::of_base(base, train.iter().map(|query| query.text.as_str()));
        let pairs = Pairs::new(base, &words, train, settings.made, settings.seed);
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
        (self.watch.report)(Progress::Preparing("word vectors"));
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
        (self.watch.report)(Progress::Preparing("negatives"));
        let negatives = lexical_negatives(base, train);
        self.watch.go_on()?;
        let adam = RowAdam::new(numbers.len(), settings.rate);
        let table = Table { dim, numbers };
        let (best, curve) = (table.numbers.clone(), Vec::new());
        let mut state =
            State { epoch: 0, batch: 0, loss: 0.0, table, adam, best, curve, negatives };
        // Before all epochs the loss is that of one batch.
        let order = self.order(0);
        let loss = self.gradient(&state, &order, 0).loss;
        self.look(&mut state, loss)?;
        Ok(state)
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

    /// The epochs before which the encoder itself is asked for negatives.
    fn is_refreshed(&self, epoch: usize) -> bool {
        let Settings { negatives, refresh, epochs, .. } = *self.task.settings;
        let due = |at: usize| (at * epochs).div_ceil(refresh + 1) == epoch;
        negatives == Negatives::Own && (1..=refresh).any(due)
    }

    fn learn(&self, state: &mut State) -> Result<(), TrainError> {
        let Settings { epochs, patience, .. } = *self.task.settings;
        let n_batches = self.n_batches();
        while state.epoch < epochs {
            let best = best_of(&state.curve).map_or(0, |look| look.step);
            if state.batch == 0 && state.epoch >= best + patience {
                break;
            }
            if state.batch == 0 && self.is_refreshed(state.epoch) {
                self.watch.go_on()?;
                state.negatives = self.own_negatives(&state.table);
            }
            let order = self.order(state.epoch);
            while state.batch < n_batches {
                self.watch.go_on()?;
                let gradient = self.gradient(state, &order, state.batch);
                state.adam.descend(&mut state.table.numbers, &gradient.rows);
                (state.loss, state.batch) = (state.loss + gradient.loss, state.batch + 1);
                let done = state.epoch * n_batches + state.batch;
                (self.watch.report)(Progress::Learning { done, of: epochs * n_batches });
            }
            let loss = state.loss / n_batches as f64;
            (state.epoch, state.batch, state.loss) = (state.epoch + 1, 0, 0.0);
            self.look(state, loss)?;
        }
        Ok(())
    }

    /// The pairs of an epoch in the order in which they teach.
    fn order(&self, epoch: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.pairs.all.len()).collect();
        order.shuffle(&mut self.random(epoch, 0));
        order
    }

    /// Random numbers of their own for each batch, from 1, and for the order of an epoch.
    fn random(&self, epoch: usize, at: u64) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.task.settings.seed);
        random.set_stream((epoch as u64 + 1) << 32 | at);
        random
    }

    fn gradient(&self, state: &State, order: &[usize], batch: usize) -> Gradient {
        let Settings { batch: size, temperature, .. } = *self.task.settings;
        let end = order.len().min((batch + 1) * size);
        let pairs: Vec<(usize, NodeId)> =
            order[batch * size..end].iter().map(|&at| self.pairs.all[at]).collect();
        let mut random = self.random(state.epoch, batch as u64 + 1);
        let mut nodes: Vec<NodeId> = pairs.iter().map(|pair| pair.1).collect();
        let drawn = pairs
            .iter()
            .filter_map(|(query, _)| state.negatives.get(*query)?.choose(&mut random).copied());
        nodes.extend(drawn.collect::<Vec<_>>());
        let base = self.task.base;
        let documents: Vec<Bag> =
            nodes.par_iter().map(|&node| self.words.of_node(base, node)).collect();
        let asked: Vec<&Taught> = pairs.iter().map(|pair| &self.pairs.queries[pair.0]).collect();
        let is_hidden =
            |query: usize, at: usize| asked[query].answers.binary_search(&nodes[at]).is_ok();
        let queries: Vec<&Bag> = asked.iter().map(|query| &query.bag).collect();
        let documents: Vec<&Bag> = documents.iter().collect();
        state.table.gradient(&queries, &documents, &is_hidden, temperature)
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

    /// Ranks validation queries among all candidates.
    fn look(&self, state: &mut State, loss: f64) -> Result<(), TrainError> {
        let base = self.task.base;
        let rows = embed_candidates(base, &self.words, &state.table);
        let rank = |(bag, query): &(Bag, &LabelledQuery)| {
            let scores = scores(base, &rows, &state.table.embed(bag));
            reciprocal_rank(&scores, &query.answers)
        };
        let ranks: Vec<f64> = self.held.par_iter().map(rank).collect();
        let mrr = ranks.iter().sum::<f64>() / ranks.len() as f64;
        let look = Look { step: state.epoch, loss, mrr };
        if best_of(&state.curve).is_none_or(|best| mrr > best.mrr) {
            state.best.copy_from_slice(&state.table.numbers);
        }
        state.curve.push(look);
        (self.watch.report)(Progress::Looked(look, self.task.settings.epochs));
        Ok(())
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
        let State { epoch, batch, loss, .. } = *state;
        let settings = self.task.settings.clone();
        let stopped = Stopped { settings, epoch, batch, loss, steps: state.adam.steps };
        let record = Record::new(SYSTEM, self.task.source, stopped, state.curve.clone());
        let mut bounds = vec![0u64];
        bounds.extend(state.negatives.iter().scan(0, |end, nodes| {
            *end += nodes.len() as u64;
            Some(*end)
        }));
        let negatives = state.negatives.concat();
        record.save(self.task.checkpoint, &[STATE], |staging| {
            let numbers = |numbers| (Dtype::F32, bytemuck::cast_slice::<f32, u8>(numbers));
            let of = [
                ("bounds", (Dtype::U64, bytemuck::cast_slice(&bounds))),
                ("table", numbers(&state.table.numbers)),
                ("best", numbers(&state.best)),
                ("mean", numbers(&state.adam.mean)),
                ("square", numbers(&state.adam.square)),
                ("negatives", (Dtype::U32, bytemuck::cast_slice(&negatives))),
            ];
            let arrays = of.map(|(name, (dtype, bytes))| (name, dtype, bytes));
            Ok(Arrays::write(&staging.join(STATE), &arrays)?)
        })?;
        Ok(())
    }

    /// Reads what an earlier run left to go on with.
    fn read(&self) -> Result<State, TrainError> {
        let Task { checkpoint: dir, settings, source, train, .. } = *self.task;
        let none = |why| TrainError::NoCheckpoint { path: dir.display().to_string(), why };
        if !dir.exists() {
            return Err(none("it is not there"));
        }
        let record = Record::<Stopped>::read(dir, SYSTEM)?;
        if record.source != *source {
            return Err(none("the dataset or its queries changed"));
        }
        let Stopped { settings: had, epoch, batch, loss, steps } = record.model;
        if had != *settings {
            return Err(none("other options were given then"));
        }
        let arrays = Arrays::open(&dir.join(STATE))?;
        let numbers = |name| Ok::<_, IndexError>(arrays.get::<f32>(name)?.as_slice().to_vec());
        let (numbers, best, mean, square) =
            (numbers("table")?, numbers("best")?, numbers("mean")?, numbers("square")?);
        let (bounds, negatives) = (arrays.get::<u64>("bounds")?, arrays.get::<u32>("negatives")?);
        let n = self.words.stems.len().max(1);
        let dim = numbers.len() / n;
        let fits = [best.len(), mean.len(), square.len(), n * dim] == [numbers.len(); 4]
            && bounds.as_slice().len() == train.len() + 1
            && dim > 0;
        if !fits {
            return Err(none("it is of another version"));
        }
        let negatives = (0..train.len()).map(|at| negatives.part(&bounds, at).to_vec()).collect();
        let adam = RowAdam { rate: settings.rate, steps, mean, square };
        let table = Table { dim, numbers };
        Ok(State { epoch, batch, loss, table, adam, best, curve: record.curve, negatives })
    }
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
fn reciprocal_rank(scores: &[(NodeId, f32)], answers: &[NodeId]) -> f64 {
    let place = |node: &NodeId| scores.binary_search_by_key(node, |pair| pair.0).ok();
    let of_answers = answers.iter().filter_map(|node| scores.get(place(node)?));
    let first = of_answers.reduce(|best, one| if one.1 > best.1 { one } else { best });
    first.map_or(0.0, |&(node, score)| {
        let before = |pair: &&(NodeId, f32)| pair.1 > score || (pair.1 == score && pair.0 < node);
        1.0 / (scores.iter().filter(before).count() + 1) as f64
    })
}
