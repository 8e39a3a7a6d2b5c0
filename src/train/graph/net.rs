//! The network: scores of the candidates of a working graph, and the derivative of a loss of them.
//! The only file here that knows `candle_core`, whose automatic differentiation it uses. Must not know
//! nodes or queries.

use candle_core::{DType, Device, Tensor, Var};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    TrainError,
    graph::{
        Without,
        subgraph::{CONTEXT_KINDS, FEATURES, LEXICAL, PHI, RELEVANCE, WorkingGraph},
    },
};

/// Numbers of a node's state.
const DIM: usize = 32;
/// Numbers that stand for a type of nodes.
const TYPE_DIM: usize = 8;
/// Rounds of messages.
const LAYERS: usize = 2;
/// What the lexical score counts at first.
const LEXICAL_WEIGHT: f64 = 5.0;

/// How many kinds of nodes and edges there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds {
    /// Types of nodes, that of the context node included.
    pub(super) nodes: usize,
    /// Kinds of edges, those of the context node included.
    pub(super) edges: usize,
}

/// The tensors of weights: rows and columns of each, in order.
fn shapes(kinds: Kinds) -> Vec<[usize; 2]> {
    let input = TYPE_DIM + FEATURES;
    let mut shapes = vec![
        [kinds.nodes, TYPE_DIM],
        [input, DIM],
        [1, DIM],
        [PHI, DIM],
        [kinds.edges, DIM],
        [kinds.edges, DIM],
        [PHI, DIM],
    ];
    for _ in 0..LAYERS {
        shapes.extend([
            [2 * DIM, DIM],
            [1, DIM],
            [DIM, DIM],
            [2 * DIM, DIM],
            [DIM, DIM],
            [1, DIM],
            [DIM, DIM],
            [1, DIM],
        ]);
    }
    shapes.extend([[2 * DIM + FEATURES, DIM], [1, DIM], [DIM, 1], [1, 1]]);
    shapes
}

/// How many weights there are.
pub(super) fn n_weights(kinds: Kinds) -> usize {
    shapes(kinds).iter().map(|[rows, columns]| rows * columns).sum()
}

/// The weights before training: uniform, as large as rows allow (Glorot & Bengio 2010); rows of one
/// are 0, and the lexical score counts alone.
pub(super) fn first_weights(kinds: Kinds, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let shapes = shapes(kinds);
    let mut weights = Vec::with_capacity(n_weights(kinds));
    for [rows, columns] in &shapes {
        let bound = (6.0 / (rows + columns) as f64).sqrt();
        let number = |random: &mut ChaCha8Rng| random.random_range(-bound..bound);
        weights.extend(
            (0..rows * columns).map(|_| if *rows == 1 { 0.0 } else { number(&mut random) }),
        );
    }
    // What gives a score begins small, so that words rank at first.
    let ends = weights.len() - 1;
    weights[ends - DIM..ends].iter_mut().for_each(|weight| *weight *= 0.1);
    weights[ends] = LEXICAL_WEIGHT;
    weights
}

/// What candle refused: no fault of the user.
fn failed(error: candle_core::Error) -> TrainError {
    TrainError::Network(error.to_string())
}

/// The scores of candidates, in their order.
///
/// # Errors
/// [`TrainError::Network`].
pub(super) fn scores(
    weights: &[f64],
    kinds: Kinds,
    graph: &WorkingGraph,
    without: Option<Without>,
    precision: Precision,
) -> Result<Vec<f64>, TrainError> {
    let tensors = tensors(weights, kinds, precision).map_err(failed)?;
    let scores = forward(&tensors, graph, without, precision).map_err(failed)?;
    scores.to_dtype(DType::F64).and_then(|scores| scores.to_vec1()).map_err(failed)
}

/// The loss of a graph, the negative logarithm of the share of a softmax over candidates that the
/// answers have, with its derivative by each weight.
///
/// # Errors
/// [`TrainError::Network`].
pub(super) fn gradient(
    weights: &[f64],
    kinds: Kinds,
    graph: &WorkingGraph,
    answers: &[u32],
    without: Option<Without>,
    precision: Precision,
) -> Result<(f64, Vec<f64>), TrainError> {
    let run = || -> candle_core::Result<(f64, Vec<f64>)> {
        let tensors = tensors(weights, kinds, precision)?;
        let vars: Vec<Var> =
            tensors.iter().map(Var::from_tensor).collect::<candle_core::Result<_>>()?;
        let tensors: Vec<Tensor> = vars.iter().map(|var| var.as_tensor().clone()).collect();
        let scores = forward(&tensors, graph, without, precision)?;
        let answers = Tensor::new(answers, &Device::Cpu)?;
        let right = log_sum(&scores.index_select(&answers, 0)?)?;
        let loss = (log_sum(&scores)? - right)?;
        let gradients = loss.backward()?;
        let mut all = Vec::with_capacity(weights.len());
        for var in &vars {
            match gradients.get(var) {
                Some(part) => {
                    all.extend(part.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?);
                }
                None => all.resize(all.len() + var.elem_count(), 0.0),
            }
        }
        Ok((loss.to_dtype(DType::F64)?.to_scalar()?, all))
    };
    run().map_err(failed)
}

/// The numbers that are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// 4 bytes.
    Single,
    /// 8 bytes, for finite differences.
    #[cfg(test)]
    Double,
}

impl Precision {
    fn dtype(self) -> DType {
        match self {
            Self::Single => DType::F32,
            #[cfg(test)]
            Self::Double => DType::F64,
        }
    }
}

fn tensors(
    weights: &[f64],
    kinds: Kinds,
    precision: Precision,
) -> candle_core::Result<Vec<Tensor>> {
    let mut rest = weights;
    let mut tensors = Vec::new();
    for [rows, columns] in shapes(kinds) {
        let (part, behind) = rest.split_at_checked(rows * columns).unwrap_or((rest, &[]));
        rest = behind;
        let tensor = Tensor::from_slice(part, (rows, columns), &Device::Cpu)?;
        tensors.push(tensor.to_dtype(precision.dtype())?);
    }
    Ok(tensors)
}

/// `ln sum exp` of a vector.
fn log_sum(scores: &Tensor) -> candle_core::Result<Tensor> {
    let largest = scores.detach().max(0)?;
    scores.broadcast_sub(&largest)?.exp()?.sum(0)?.log()? + largest
}

fn linear(input: &Tensor, weight: &Tensor, bias: &Tensor) -> candle_core::Result<Tensor> {
    input.matmul(weight)?.broadcast_add(bias)
}

fn forward(
    weights: &[Tensor],
    graph: &WorkingGraph,
    without: Option<Without>,
    precision: Precision,
) -> candle_core::Result<Tensor> {
    let (cpu, dtype) = (&Device::Cpu, precision.dtype());
    let n = graph.nodes.len();
    let alike = without == Some(Without::Relations);
    let ids = |numbers: Vec<u32>| {
        let len = numbers.len();
        Tensor::from_vec(numbers, len, cpu)
    };
    let features: Vec<f32> = graph
        .features
        .iter()
        .flat_map(|of| of.iter().enumerate())
        .map(|(at, &number)| match without {
            Some(Without::Relevance) if RELEVANCE.contains(&at) => 0.0,
            _ => number,
        })
        .collect();
    let features = Tensor::from_vec(features, (n, FEATURES), cpu)?.to_dtype(dtype)?;
    let phi = Tensor::from_slice(&graph.phi, (1, PHI), cpu)?.to_dtype(dtype)?;
    let mut weights = weights.iter();
    let mut next =
        || weights.next().ok_or_else(|| candle_core::Error::Msg("too few weights".to_owned()));
    let types = graph.types[..n].iter().map(|&kind| if alike { 0 } else { kind }).collect();
    let typed = next()?.index_select(&ids(types)?, 0)?;
    let input = Tensor::cat(&[&typed, &features], 1)?;
    let nodes = linear(&input, next()?, next()?)?;
    let context = phi.matmul(next()?)?;
    let mut state = Tensor::cat(&[&nodes, &context], 0)?;
    let (relations, gates) = (next()?, next()?);
    let asked = phi.matmul(next()?)?;
    let relations = (relations + gates.broadcast_mul(&asked)?)?;
    let [sources, targets, kinds] = [0, 1, 2].map(|of| {
        let number = |edge: &crate::graph::subgraph::Edge| match of {
            0 => edge.source,
            1 => edge.target,
            _ => edge.kind,
        };
        graph.edges.iter().map(number).collect::<Vec<u32>>()
    });
    let kinds = kinds.into_iter().map(|kind| match alike {
        true => kind_without_relations(kind, relations.dims()[0]),
        false => kind,
    });
    let (from, to, kinds) = (ids(sources)?, ids(targets.clone())?, ids(kinds.collect())?);
    for _ in 0..LAYERS {
        let (m, m_bias, q, k, w1, b1, w2, b2) =
            (next()?, next()?, next()?, next()?, next()?, next()?, next()?, next()?);
        if without == Some(Without::Graph) || graph.edges.is_empty() {
            continue;
        }
        // [node, relation] W for each edge: every node and every relation is multiplied once, not
        // once for each of its edges.
        let beside = |ends: &Tensor, weight: &Tensor| {
            let of_nodes = state.matmul(&weight.narrow(0, 0, DIM)?)?.index_select(ends, 0)?;
            let of_kinds = relations.matmul(&weight.narrow(0, DIM, DIM)?)?;
            of_nodes + of_kinds.index_select(&kinds, 0)?
        };
        let message = beside(&from, m)?.broadcast_add(m_bias)?.relu()?;
        let sent = state.matmul(q)?.index_select(&from, 0)?;
        let logits = (sent * beside(&to, k)?)?.sum(1)?;
        let logits = (logits / (DIM as f64).sqrt())?;
        let powers = (&logits - largest_of_target(&logits, &targets, n + 1)?)?.exp()?;
        let sums = Tensor::zeros(n + 1, dtype, cpu)?.index_add(&to, &powers, 0)?;
        let shares = (powers / sums.index_select(&to, 0)?)?;
        let message = message.broadcast_mul(&shares.unsqueeze(1)?)?;
        let sum = Tensor::zeros((n + 1, DIM), dtype, cpu)?.index_add(&to, &message, 0)?;
        let change = linear(&linear(&sum, w1, b1)?.relu()?, w2, b2)?;
        state = (state + change)?;
    }
    let n_candidates = graph.n_candidates;
    let candidates = state.narrow(0, 0, n_candidates)?;
    let context = state.narrow(0, n, 1)?.broadcast_as((n_candidates, DIM))?;
    let relevance = features.narrow(0, 0, n_candidates)?;
    let all = Tensor::cat(&[&candidates, &context.contiguous()?, &relevance], 1)?;
    let hidden = linear(&all, next()?, next()?)?.relu()?;
    let scores = hidden.matmul(next()?)?;
    let lexical = relevance.narrow(1, LEXICAL, 1)?.broadcast_mul(next()?)?;
    (scores + lexical)?.squeeze(1)
}

/// All relations are one; edges of the context node stay what they are.
fn kind_without_relations(kind: u32, n_kinds: usize) -> u32 {
    if (kind as usize) < n_kinds.saturating_sub(CONTEXT_KINDS) { 0 } else { kind }
}

/// For each edge the largest logit of all edges with its target, so that no power is too large.
fn largest_of_target(logits: &Tensor, targets: &[u32], n: usize) -> candle_core::Result<Tensor> {
    let numbers: Vec<f64> = logits.detach().to_dtype(DType::F64)?.to_vec1()?;
    let mut largest = vec![f64::NEG_INFINITY; n];
    for (&target, &number) in targets.iter().zip(&numbers) {
        let most = &mut largest[target as usize];
        *most = most.max(number);
    }
    let of: Vec<f64> = targets.iter().map(|&target| largest[target as usize]).collect();
    Tensor::from_vec(of, targets.len(), &Device::Cpu)?.to_dtype(logits.dtype())
}
